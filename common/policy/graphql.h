/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_POLICY_GRAPHQL_H
#define SP_POLICY_GRAPHQL_H
/*
 * Executable GraphQL documents (October 2021, 2.1-2.9), as far as policies ask: of each operation its type, its name and the
 * fields of its first level by their own names, whatever their aliases. Everything else is only checked for its form. I/O-free.
 */
#include "../base/str.h"

struct graphql_operation {
	unsigned type;   /* GRAPHQL_* of cond.h */
	struct str name; /* empty: anonymous */
};
struct graphql_ops {
	void (*operation)(void *arg, const struct graphql_operation *o);
	/* A field of the first level of the operation before; spread: a fragment stands there, whose fields are not known (name: empty). */
	void (*field)(void *arg, struct str name, bool spread);
};
/* False: not a document of at least one operation, or nested too deeply. What was called until then is worth nothing. */
bool graphql_parse(struct str text, const struct graphql_ops *ops, void *arg);
#endif
