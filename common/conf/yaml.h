/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_CONF_YAML_H
#define SP_CONF_YAML_H
/*
 * A subset of YAML as a tree that keeps positions. Scalars are text; the schema gives them types, so that `off`, `1.2`
 * and `0443` are what they look like. Anchors, aliases, tags, merge keys, directives, second documents, tabs, CR,
 * duplicate keys, byte order marks, invisible characters that change what a reader sees, and text that is not UTF-8 are
 * errors. No I/O.
 */
#include "../base/arena.h"
#include "diag.h"

#define YAML_SIZE_MAX (16u << 20)
#define YAML_DEPTH_MAX 16
#define YAML_NODES_MAX 2000000u

enum yaml_kind { YAML_NULL = 0, YAML_TEXT, YAML_LIST, YAML_MAP };
struct yaml_node {
	enum yaml_kind kind;
	bool quoted;              /* TEXT: not a plain scalar */
	bool comment_touches;     /* TEXT: " #x" follows on the line, a comment that may be the end of the value */
	struct str text;          /* TEXT */
	uint32_t line, col;       /* from 1; col counts characters */
	unsigned n;               /* items, or pairs */
	struct yaml_node **items; /* LIST: values; MAP: key, value, key, value … */
};
/* The root, in arena a (NULL kind for an empty file); NULL when there was an error, which is in d then. */
struct yaml_node *yaml_parse(struct arena *a, const char *text, size_t n, struct diag *d);
/* Value of a key, or NULL. */
struct yaml_node *yaml_get(const struct yaml_node *map, const char *key);
#endif
