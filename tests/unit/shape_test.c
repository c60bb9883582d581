/* SPDX-License-Identifier: Apache-2.0 */
/* Placeholders look like what they stand for, are always the same, and tell nothing of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "../../proxy/secrets/shape.h"

static const uint8_t key[SHAPE_KEY_LEN] = "0123456789abcdef0123456789abcde";

static bool matches(const char *pattern, const char *text)
{
	int code;
	PCRE2_SIZE at;
	pcre2_code *re = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_ANCHORED | PCRE2_ENDANCHORED, &code, &at, NULL);
	pcre2_match_data *md = pcre2_match_data_create(1, NULL);
	bool ok = pcre2_match(re, (PCRE2_SPTR)text, strlen(text), 0, 0, md, NULL) > 0;

	pcre2_match_data_free(md);
	pcre2_code_free(re);
	return ok;
}

static void shapes(void **state)
{
	static const struct {
		const char *value, *host, *pattern;
	} t[] = {
		{ "ghp_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "", "ghp_[A-Za-z0-9]{36}" }, { "github_pat_11AAAAAAAAAAAAAAAAAAAA_BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB", "", "github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}" },
		{ "glpat-AAAAAAAAAAAAAAAAAAAA", "", "glpat-[A-Za-z0-9_-]{20}" }, { "sk-ant-api03-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "", "sk-ant-api03-[A-Za-z0-9_-]{93}AA" }, { "sk-proj-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "", "sk-proj-[A-Za-z0-9_-]{40}" },
		{ "sk-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "", "sk-[A-Za-z0-9]{48}" }, { "xoxb-111111111111-2222222222222-AAAAAAAAAAAAAAAAAAAAAAAA", "", "xoxb-[0-9]{12}-[0-9]{13}-[A-Za-z0-9]{24}" }, { "npm_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "", "npm_[A-Za-z0-9]{36}" },
		{ "AKIAAAAAAAAAAAAAAAAA", "", "AKIA[A-Z2-7]{16}" }, { "AIzaAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "", "AIza[A-Za-z0-9_-]{35}" }, { "3f2a77c8-0000-4000-8000-000000000000", "", "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}" },
		{ "0123456789abcdef0123456789abcdef01234567", "", "[0-9a-f]{40}" }, { "0123456789ABCDEF0123456789ABCDEF", "", "[0-9A-F]{32}" }, { "123456789012345678901234567890", "", "[0-9]{30}" }, { "AAAAaaaa0000AAAAaaaa0000AAAAaaaa", "", "[A-Za-z0-9]{32}" },
		{ "p@ss word/with: anything & more of it", "", "[A-Za-z0-9][A-Za-z0-9_-]{36}" }, { "short", "", "[a-z0-9]{24}" }, { "-starts-with-a-dash-------", "", "[A-Za-z0-9].{25}" },
		{ "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.AAAAAAAAAAAAAAAAAAAAAA", "", "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9\\.eyJzdWIi[A-Za-z0-9_-]{60}\\.[A-Za-z0-9_-]{43}" },
		{ "", "api.github.com", "ghp_[A-Za-z0-9]{36}" }, { "", "github.com", "ghp_[A-Za-z0-9]{36}" }, { "", "notgithub.com", "[A-Za-z0-9]{33}" }, { "", "api.openai.com", "sk-[A-Za-z0-9]{48}" }, { "", "a.example", "[A-Za-z0-9]{33}" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct shape_for f = { .secret = STR("s"), .scope = STR("p"), .value = str_of(t[i].value), .host = str_of(t[i].host) };
		char a[PLACEHOLDER_LEN_MAX + 1], b[PLACEHOLDER_LEN_MAX + 1];
		struct placeholder p = { .secret = f.secret };

		p.text = str_mk(a, shape_placeholder(key, &f, a));
		assert_int_equal(p.text.n, strlen(a));
		if (!matches(t[i].pattern, a))
			fail_msg("%s: %s is not %s", t[i].value, a, t[i].pattern);
		assert_true(placeholder_ok(&p));
		shape_placeholder(key, &f, b);
		assert_string_equal(a, b);
	}
}

static void differ(void **state)
{
	static const uint8_t other[SHAPE_KEY_LEN] = "another key, another placeholder";
	const struct shape_for base = { .secret = STR("s"), .scope = STR("p"), .value = STR("ghp_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA") };
	struct shape_for f[6] = { base, base, base, base, base, base };
	char a[7][PLACEHOLDER_LEN_MAX + 1];

	(void)state;
	f[1].secret = STR("t");
	f[2].scope = STR("q");
	f[3].sandbox = true;
	f[4].value = STR("ghp_BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB"); /* rotated: the same */
	f[5].part = PLACEHOLDER_KEY_ID;
	for (unsigned i = 0; i < 6; i++)
		shape_placeholder(key, &f[i], a[i]);
	shape_placeholder(other, &f[0], a[6]);
	for (unsigned i = 0; i < 7; i++)
		for (unsigned k = 0; k < i; k++)
			assert_int_equal(strcmp(a[i], a[k]) == 0, i == 4 && k == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(shapes), cmocka_unit_test(differ) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
