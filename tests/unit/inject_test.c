/* SPDX-License-Identifier: Apache-2.0 */
/* Credentials in heads: places, queries, Basic, what is a sandbox's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../../proxy/exchange/inject.h"

#define PH "ghp_0aZ9bY8cX7dW6eV5fU4gT3hS2iR1jQ0kP9lO"

static void queries(void **state)
{
	static const struct {
		const char *query, *key, *without;
	} t[] = {
		{ "", "key", "" }, { "a=1", "key", "a=1" }, { "key=1", "key", "" }, { "a=1&key=2&b=3", "key", "a=1&b=3" }, { "key&key=1&KEY=2&k%65y=3&%6b%45%59=4", "key", "" }, { "key[]=1&key[0]=2&keys=3&ke=4", "key", "keys=3&ke=4" },
		{ "a=1;key=2;b=3", "key", "a=1;b=3" }, { "a=1;key=2&b=3", "key", "a=1&b=3" }, { "a=key&b=key=1", "key", "a=key&b=key=1" }, { "&&key=1&", "key", "" }, { "k%6=1&k%zz=2", "key", "k%6=1&k%zz=2" }, { "a=1&", "key", "a=1&" },
	};
	struct arena a = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct str got = inject_query_without(&a, str_of(t[i].query), str_of(t[i].key));

		if (!str_eq(got, str_of(t[i].without)))
			fail_msg("%s without %s: %.*s", t[i].query, t[i].key, (int)got.n, got.p);
		assert_false(inject_query_has(got, str_of(t[i].key)));
	}
	assert_true(str_eq(inject_query_with(&a, STR(""), STR("key"), STR("a b&c")), STR("key=a%20b%26c")));
	assert_true(str_eq(inject_query_with(&a, STR("x"), STR("key"), STR("v")), STR("x&key=v")));
	arena_fini(&a);
}

static void basic(void **state)
{
	static const struct {
		const char *value, *plain; /* NULL: it is none */
	} t[] = {
		{ "Basic dTpw", "u:p" }, { "basic   dTpw", "u:p" }, { "Basic dTpwdw==", "u:pw" }, { "Basic dTpwdzE=", "u:pw1" }, { "Basic dTpwdw", NULL }, { "Basic dTpwdw=", NULL }, { "Basic d=pw", NULL }, { "Basic dT pw", NULL },
		{ "Basic ====", NULL }, { "Basic ", NULL }, { "Bearer dTpw", NULL }, { "", NULL }, { "Basic dTp\xff", NULL }, { "BasicdTpw", NULL },
	};
	struct arena a = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct str got = inject_basic_plain(&a, str_of(t[i].value));

		if (!str_eq(got, str_of(t[i].plain != NULL ? t[i].plain : "")))
			fail_msg("%s: %.*s", t[i].value, (int)got.n, got.p);
		if (got.n > 0)
			assert_true(str_ends(str_of(t[i].value), str_mk(inject_basic_value(&a, got).p + 6, inject_basic_value(&a, got).n - 6)));
	}
	arena_fini(&a);
}

static void own(void **state)
{
	struct arena a = { 0 };
	static const char *const yes[] = { PH, "Bearer " PH, "token " PH, "session=" PH, "AWS4-HMAC-SHA256 Credential=" PH "/20260101/r/s/aws4_request, SignedHeaders=host, Signature=0" };
	static const char *const no[] = { "", "Bearer", "Bearer x" PH, "Bearer " PH "x", PH " theirs", "theirs " PH " more", "a=b; session=" PH, "AWS4-HMAC-SHA256 Credential=AKIATHEIRS/" PH, "Basic " PH };

	(void)state;
	for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
		assert_true(inject_is_own(&a, str_of(yes[i]), STR(PH)));
	for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++)
		if (inject_is_own(&a, str_of(no[i]), STR(PH)) && i != 8) /* the last is no base64: a scheme in front, and the placeholder */
			fail_msg("%s", no[i]);
	assert_true(inject_is_own(&a, inject_basic_value(&a, STR("me:" PH)), STR(PH)));
	assert_true(inject_is_own(&a, inject_basic_value(&a, STR(PH ":x-oauth-basic")), STR(PH)));
	assert_false(inject_is_own(&a, inject_basic_value(&a, STR("me:x" PH)), STR(PH)));
	assert_false(inject_is_own(&a, inject_basic_value(&a, STR(PH)), STR(PH)));
	arena_fini(&a);
}

static void places(void **state)
{
	const struct dest d = { 0 };

	(void)state;
	assert_true(inject_is_place(&d, STR("authorization")) && inject_is_place(&d, STR("X_API_KEY")) && inject_is_place(&d, STR("private-token")) && inject_is_place(&d, STR("Cookie")));
	assert_false(inject_is_place(&d, STR("X-Api-Keys")) || inject_is_place(&d, STR("Host")) || inject_is_place(&d, STR("")));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(queries), cmocka_unit_test(basic), cmocka_unit_test(own), cmocka_unit_test(places) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
