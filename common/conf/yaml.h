/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_CONF_YAML_H
#define SP_CONF_YAML_H
/*
 * A subset of YAML as a tree that keeps positions. Scalars are text; the schema gives them types. Anchors, aliases, tags,
 * merge keys, second documents, tabs in indentation, duplicate keys and text that is not UTF-8 are errors.
 */
#include "../base/arena.h"
#include "../base/buf.h"
#include "../base/err.h"

#define YAML_SIZE_MAX (16u << 20)
#define YAML_DEPTH_MAX 16
#define YAML_NODES_MAX 2000000

enum yaml_kind { YAML_NULL = 0, YAML_TEXT, YAML_LIST, YAML_MAP };
struct yaml_node {
	enum yaml_kind kind;
	bool quoted;
	struct str text;          /* TEXT */
	uint32_t line, col;       /* from 1 */
	unsigned n;               /* items, or pairs */
	struct yaml_node **items; /* LIST: values; MAP: key, value, key, value … */
};
/* Positioned messages, all of one run. */
struct diag {
	const char *file;
	struct buf out;   /* "file:line:col: error: text\n" */
	unsigned errors, warnings;
};
void diag_error(struct diag *d, const struct yaml_node *at, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void diag_error_at(struct diag *d, uint32_t line, uint32_t col, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
void diag_warning(struct diag *d, const struct yaml_node *at, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* The root, in arena a (NULL kind for an empty file); NULL when there was an error. */
struct yaml_node *yaml_parse(struct arena *a, const char *text, size_t n, struct diag *d);
/* Value of a key, or NULL. */
struct yaml_node *yaml_get(const struct yaml_node *map, const char *key);

/* A row of a schema: one known key of a map. `later`: a key that this version does not have, and which feature it is. */
struct schema_row {
	const char *key;
	const char *later; /* NULL: known now */
};
/* Reports unknown keys (with the nearest known one) and keys of later versions; false if any. */
bool schema_keys(struct diag *d, const struct yaml_node *map, const struct schema_row *rows, size_t n, const char *where);
#endif
