/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_CONF_SCHEMA_H
#define SP_CONF_SCHEMA_H
/*
 * Rows drive parsing: what keys a map may have, the type of each, which must be there, and what is to be done with it.
 * Rows are visited in their own order, not in the file's: a row can rely on those above it.
 */
#include "yaml.h"

enum schema_type {
	SCHEMA_LATER = 0, /* a key of a later version: an error that says so; note = what it is for */
	SCHEMA_TEXT,      /* one line, not empty */
	SCHEMA_PROSE,     /* any text */
	SCHEMA_BOOL,      /* true or false, unquoted */
	SCHEMA_WORD,      /* one of note's words, "a|b|c" */
	SCHEMA_NUMBER,    /* decimal, min..max */
	SCHEMA_DECIMAL,   /* with at most one digit behind a point; number = thousandths; min..max of those */
	SCHEMA_SIZE,      /* 512MiB; number = octets */
	SCHEMA_TIME,      /* 90s, 10m, 1h; number = milliseconds */
	SCHEMA_TEXTS,     /* a list of lines; max = entries (0: no limit) */
	SCHEMA_ONE_OR_MORE, /* a line, or a list of at least one */
	SCHEMA_LIST,      /* of anything */
	SCHEMA_MAP,
	SCHEMA_ANY,       /* whatever it is: check looks at the node */
};
struct schema_value {
	const struct yaml_node *key, *node;
	struct str text;  /* TEXT, PROSE, WORD */
	bool truth;       /* BOOL */
	uint64_t number;  /* NUMBER, DECIMAL, SIZE, TIME */
	unsigned n;       /* TEXTS, ONE_OR_MORE, LIST, MAP: items, or pairs */
	struct yaml_node **items;
};
struct schema_row {
	const char *key;
	enum schema_type type;
	bool required;
	/* Called once with a value of the row's type; reports to its own diag. May be NULL. */
	void (*check)(void *arg, const struct schema_row *row, const struct schema_value *v);
	const char *note; /* WORD, LATER: see there; of another type that is required: what is said when it is missing */
	uint64_t min, max;
};
struct schema_rows {
	const struct schema_row *rows;
	size_t n;
};
#define SCHEMA_ROWS(r) (r), sizeof(r) / sizeof((r)[0])

bool schema_size(struct str s, uint64_t *octets); /* as SCHEMA_SIZE reads it */

/*
 * `where` names the map in messages ("a destination"). A null value counts as absent. False: at least one error was
 * reported here (what check functions reported is not counted).
 */
bool schema_parse(struct diag *d, const struct yaml_node *map, const char *where, const struct schema_row *rows, size_t n, void *arg);
#endif
