/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_POLICY_IMPORT_INT_H
#define SP_POLICY_IMPORT_INT_H
/* What the importers share. */
#include "../common/base/arena.h"
#include "../common/conf/yaml.h"
#include "import.h"

struct import {
	struct diag *d;
	struct buf *out;
	struct import_options o;
	bool programs_told;
	struct arena *a;
};
#define BAD(im, node, ...) diag_error((im)->d, (node)->line, (node)->col, __VA_ARGS__)

void import_quoted(struct buf *b, struct str s);
/* Every key of a map is one of `known`; else an error: what it restricts would be lost. */
void import_only(struct import *im, const struct yaml_node *map, const char *where, const char *const *known);

/*
 * Names that a list tells apart: a host, or all that is below a name. Where one decides by what its list says and ours by the
 * most specific destination, each is asked about once, by a name of its own: what is said of it holds for every host whose
 * closest one it is.
 */
struct import_names {
	struct import_name {
		struct str host; /* canonical */
		bool below;      /* what is below it, not itself */
	} *n;
	unsigned count, cap;
};
/* "x", ".x" or "*.x" as `with_apex` says (the name itself too); false: not a name that a list can have here. */
bool import_name_add(struct import *im, struct import_names *to, struct str host, bool below);
/* Whether all that `n` stands for is below, or is, the host of a pattern. */
bool import_name_in(const struct import_name *n, struct str host, bool below);
/* Broader ones first. */
void import_names_sort(struct import_names *names);
/* Begins a destination of it. */
void import_host(struct import *im, const struct import_name *n);
#define IMPORT_ALLOW_ALL "    allow: [ { method: [ANY, WEBSOCKET], path: /**, body: any } ]\n"

void import_squid(struct import *im, struct str text);
void import_smokescreen(struct import *im, const struct yaml_node *root);
void import_iron_proxy(struct import *im, const struct yaml_node *root);
#endif
