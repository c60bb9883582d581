/* SPDX-License-Identifier: Apache-2.0 */
/* A destination's value: its check, and the walks over its tries, also on what the check refused. */
#include <stdlib.h>

#include "common/policy/dest_value.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static bool on_rule(void *arg, uint32_t number)
{
	const struct dest_value *d = arg;
	struct rule_value r;
	struct str m;

	if (dest_value_rule(d, number, &r))
		for (uint32_t i = 0; dest_value_rule_method(d, &r, i, &m); i++)
			;
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	static const char *const paths[] = { "/", "*", "/a", "/A/b;x", "/v1/a//b/", "/a/b/c/d/e/f/g" };
	struct dest_limits limits;
	struct dest_value d;
	bool good = dest_value_check(str_mk(p, n), 64) == NULL;

	if (!dest_value_load(str_mk(p, n), &d)) {
		if (good)
			abort();
		return 0;
	}
	dest_value_limits(&d, &limits);
	if (good && (limits.head_ms > LIMIT_MS_MAX || limits.idle_ms > LIMIT_MS_MAX || limits.total_ms > LIMIT_MS_MAX))
		abort();
	dest_value_denies(&d);
	for (unsigned i = 0; i < sizeof(paths) / sizeof(paths[0]) * 2; i++)
		if (!dest_value_match(&d, i % 2, str_of(paths[i / 2]), on_rule, &d) && good)
			abort();
	return 0;
}
