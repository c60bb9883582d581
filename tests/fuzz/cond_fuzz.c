/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditions of a rule as a table holds them, checked or not, over a query, fields and content. Input: the condition, then
 * behind a line "\n%\n" the query, and behind another one the content.
 */
#include <stdlib.h>

#include "common/policy/body.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static bool field_at(const void *arg, unsigned i, struct str *name, struct str *value)
{
	static const char *const names[] = { "x-a", "content-type", "X_A", "" }, *const values[] = { "a, b ,", "application/json;charset=utf-8", "", "c" };

	(void)arg;
	if (i >= 4)
		return false;
	*name = str_of(names[i]);
	*value = str_of(values[i]);
	return true;
}

static struct str cut(struct str *rest)
{
	ptrdiff_t at = str_find(*rest, STR("\n%\n"));
	struct str head = *rest;

	if (at < 0) {
		*rest = STR_NONE;
		return head;
	}
	head.n = (size_t)at;
	*rest = str_mk(rest->p + at + 3, rest->n - head.n - 3);
	return head;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct str rest = str_mk(p, n), cond = cut(&rest), query = cut(&rest);
	struct facts f = { .path = STR("/a;b//c"), .query = query, .has_query = query.n > 0, .now_s = 1800000000, .field = field_at };
	bool good = cond_check(cond) == NULL;
	struct regexes *rs = regexes_new();
	unsigned failed;

	for (int i = 0; i < 6; i++) {
		enum cond_result r;

		f.has_content = i % 3 > 0;
		f.content = i % 3 > 1 ? &rest : NULL;
		r = cond_fits(rs, cond, i > 2, &f, &failed);
		/* asked only where the content is missing; and what fits has no part that does not */
		if (good && ((r == COND_CONTENT && i % 3 != 1) || (r == COND_YES && failed != 0) || (r == COND_CONTENT && body_need(cond) == BODY_NEED_NOTHING)))
			abort();
	}
	body_enough(BODY_NEED_COMMANDS, rest);
	regexes_free(rs);
	return 0;
}
