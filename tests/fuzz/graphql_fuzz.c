/* SPDX-License-Identifier: Apache-2.0 */
/* GraphQL documents: read or refused; what is read has a field for each operation. */
#include <stdint.h>
#include <stdlib.h>

#include "common/policy/graphql.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

struct seen {
	unsigned operations, fields, bare;
};

static void on_operation(void *arg, const struct graphql_operation *o)
{
	struct seen *s = arg;

	if (o->type == 0)
		abort();
	s->bare += s->operations > 0 && s->fields == 0;
	s->operations++;
	s->fields = 0;
}

static void on_field(void *arg, struct str name, bool spread)
{
	struct seen *s = arg;

	if (s->operations == 0 || spread == (name.n > 0))
		abort();
	s->fields++;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	static const struct graphql_ops ops = { on_operation, on_field };
	struct seen s = { 0 };

	if (graphql_parse(str_mk(p, n), &ops, &s) && (s.operations == 0 || s.fields == 0 || s.bare > 0))
		abort();
	return 0;
}
