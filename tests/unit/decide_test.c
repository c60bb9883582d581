/* SPDX-License-Identifier: Apache-2.0 */
/* The decision: what the language says, case by case, then the table against the reference evaluator on made-up policies. */
#include "policy_util.h"

/* One destination, https://a.test, with these allow and deny rules (YAML lists); how it decides. */
static enum decide_why ask(const char *allow, const char *deny, const char *method, const char *path, bool content)
{
	struct policy p;
	struct facts f = { .scheme = SCHEME_HTTPS, .host = STR("a.test"), .port = 443, .method = str_of(method), .path = str_of(path), .has_content = content };
	struct decision d, ref;
	struct table *t;
	struct dest dest;
	char text[4096];

	snprintf(text, sizeof(text), "version: 1\nname: t\ndestinations:\n  - host: a.test\n    paths: { empty_segments: keep }\n    allow: %s\n    deny: %s\n", allow, deny);
	util_parse(&p, text);
	t = util_table(&p);
	assert_int_equal(table_find(t, f.scheme, f.host, f.port, &dest), 1);
	decide(t, &dest, &f, &d);
	ref_eval(&p, &f, &ref);
	if (d.why != ref.why || !str_eq(d.rule, ref.rule) || !str_eq(d.source, ref.source)) {
		fprintf(stderr, "table and reference differ: allow %s deny %s: %s %s: %d %.*s, %d %.*s\n", allow, deny, method, path, d.why, (int)d.rule.n, d.rule.p, ref.why, (int)ref.rule.n, ref.rule.p);
		fail();
	}
	assert_int_equal(d.verdict == VERDICT_ALLOW, d.why == DECIDE_ALLOWED);
	table_free(t);
	policy_free(&p);
	return d.why;
}

static bool allows(const char *rule, const char *path)
{
	char list[512];

	snprintf(list, sizeof(list), "[ \"GET %s\" ]", rule);
	return ask(list, "[]", "GET", path, false) == DECIDE_ALLOWED;
}

static bool denies(const char *rule, const char *path)
{
	char list[512];

	snprintf(list, sizeof(list), "[ \"ANY %s\" ]", rule);
	return ask("[ \"GET /**\" ]", list, "GET", path, false) == DECIDE_DENY_RULE;
}

static void allow_paths(void **state)
{
	(void)state;
	assert_true(allows("/a", "/a"));
	assert_false(allows("/a", "/a/"));
	assert_false(allows("/a/", "/a"));
	assert_true(allows("/a/", "/a/"));
	assert_false(allows("/a", "/A"));
	assert_false(allows("/a", "/ab"));
	assert_false(allows("/repos/a", "/repos/ab"));
	assert_true(allows("/", "/"));
	assert_false(allows("/", "/a"));
	/* a star is one segment that is not empty, or part of one */
	assert_true(allows("/a/*", "/a/b"));
	assert_false(allows("/a/*", "/a/"));
	assert_false(allows("/a/*", "/a"));
	assert_false(allows("/a/*", "/a/b/c"));
	assert_true(allows("/a/*/c", "/a/b/c"));
	assert_true(allows("/v*/x", "/v1/x"));
	assert_true(allows("/v*/x", "/v/x"));
	assert_false(allows("/v*/x", "/w/x"));
	assert_true(allows("/*.tar.gz", "/a.b.tar.gz"));
	assert_true(allows("/a*b*c", "/aXbYc"));
	assert_false(allows("/a*b*c", "/aXbY"));
	/* two are any number of segments; at the end one at least, be it empty */
	assert_true(allows("/a/**", "/a/"));
	assert_true(allows("/a/**", "/a/b"));
	assert_true(allows("/a/**", "/a/b/c/"));
	assert_false(allows("/a/**", "/a"));
	assert_false(allows("/a/**", "/ab"));
	assert_true(allows("/**", "/"));
	assert_true(allows("/**", "/x/y"));
	assert_true(allows("/a/**/z", "/a/z"));
	assert_true(allows("/a/**/z", "/a/b/c/z"));
	assert_false(allows("/a/**/z", "/a/b/c/zz"));
	assert_true(allows("/a/**/**", "/a/b"));
	assert_true(allows("/**/a/**/b", "/x/a/y/a/b"));
	assert_false(allows("/**/a/**/b", "/x/b/a"));
	assert_true(allows("/a/**/*", "/a/b"));
	assert_false(allows("/a/**/*", "/a/"));
	/* a star of a request is none; escapes compare by what they mean */
	assert_true(allows("/a%2Ab", "/a%2Ab"));
	assert_false(allows("/a%2Ab", "/axb"));
	assert_true(allows("/%61", "/a"));
	/* OPTIONS * */
	assert_false(allows("/*", "*"));
	assert_false(allows("/**", "*"));
	assert_true(allows("*", "*"));
	assert_false(allows("*", "/*"));
	assert_false(allows("*", "/x"));
}

static void deny_doubt(void **state)
{
	(void)state;
	assert_true(denies("/a/**", "/a"));
	assert_true(denies("/a/*", "/a"));
	assert_true(denies("/a/*", "/a/"));
	assert_true(denies("/a/**", "/a/b/c"));
	assert_true(denies("/a", "/a/"));
	assert_true(denies("/a/", "/a"));
	assert_true(denies("/a", "/A"));
	assert_true(denies("/Admin", "/aDMIN/"));
	assert_true(denies("/a", "/a;x=1"));
	assert_true(denies("/a", "/a;x/"));
	assert_true(denies("/a/b", "/a;p/b;q"));
	assert_true(denies("/a;v=1", "/a"));
	assert_true(denies("/a;v=1", "/a;v=2"));
	assert_true(denies("/a/*/c", "/a/;p/c"));
	assert_true(denies("/a/b", "/a//b"));
	assert_true(denies("/a/*/b", "/a//b"));
	assert_true(denies("/a*z", "/abz;x"));
	assert_true(denies("/a*z", "/ab;xz")); /* the parameter read as part of the name */
	assert_true(denies("/a/**/*", "/a"));
	assert_true(denies("/v*/x", "/V1/X"));
	assert_true(denies("/", "/"));
	assert_true(denies("/*", "/"));
	assert_true(denies("/a/**/z", "/a/z"));
	assert_true(denies("/a/**/z", "/a/b//z/"));
	/* but not whatever one likes */
	assert_false(denies("/a/**", "/ab"));
	assert_false(denies("/a/*", "/a/b/c"));
	assert_false(denies("/a/*/*", "/a"));
	assert_false(denies("/a", "/a/b"));
	assert_false(denies("/", "/a"));
	assert_false(denies("/a/**/z", "/a"));
}

static void methods(void **state)
{
	(void)state;
	assert_int_equal(ask("[ \"GET /x\" ]", "[]", "HEAD", "/x", false), DECIDE_ALLOWED);
	assert_int_equal(ask("[ \"HEAD /x\" ]", "[]", "GET", "/x", false), DECIDE_NO_RULE);
	assert_int_equal(ask("[ \"GET /x\" ]", "[]", "get", "/x", false), DECIDE_NO_RULE);
	assert_int_equal(ask("[ \"GET|POST /x\" ]", "[]", "POST", "/x", false), DECIDE_ALLOWED);
	assert_int_equal(ask("[ \"GET,POST /x\" ]", "[]", "POST", "/x", false), DECIDE_ALLOWED);
	assert_int_equal(ask("[ \"PROPFIND /x\" ]", "[]", "PROPFIND", "/x", false), DECIDE_ALLOWED);
	assert_int_equal(ask("[ \"PROPFIND /x\" ]", "[]", "PROPPATCH", "/x", false), DECIDE_NO_RULE);
	assert_int_equal(ask("[ \"ANY /x\" ]", "[]", "BREW", "/x", false), DECIDE_ALLOWED);
	assert_int_equal(ask("[ \"* /x\" ]", "[]", "BREW", "/x", false), DECIDE_ALLOWED);
	assert_int_equal(ask("[ \"ANY /x\" ]", "[]", "WEBSOCKET", "/x", false), DECIDE_NO_RULE);
	assert_int_equal(ask("[ \"GET /x\" ]", "[]", "WEBSOCKET", "/x", false), DECIDE_NO_RULE);
	assert_int_equal(ask("[ \"ANY /x\" ]", "[ \"ANY /x\" ]", "WEBSOCKET", "/x", false), DECIDE_DENY_RULE);
	assert_int_equal(ask("[ \"ANY /**\" ]", "[ \"GET /x\" ]", "HEAD", "/x", false), DECIDE_DENY_RULE);
	assert_int_equal(ask("[ \"ANY /**\" ]", "[ \"GET /x\" ]", "POST", "/x", false), DECIDE_ALLOWED);
	/* content: not on GET or HEAD, not through ANY */
	assert_int_equal(ask("[ \"GET /x\" ]", "[]", "GET", "/x", true), DECIDE_CONTENT);
	assert_int_equal(ask("[ \"GET|HEAD /x\" ]", "[]", "HEAD", "/x", true), DECIDE_CONTENT);
	assert_int_equal(ask("[ \"POST /x\" ]", "[]", "POST", "/x", true), DECIDE_ALLOWED);
	assert_int_equal(ask("[ \"ANY /x\" ]", "[]", "POST", "/x", true), DECIDE_CONTENT);
	assert_int_equal(ask("[ \"ANY /x\", \"POST /*\" ]", "[]", "POST", "/x", true), DECIDE_ALLOWED);
	/* nothing written: nothing allowed */
	assert_int_equal(ask("[]", "[]", "GET", "/x", false), DECIDE_NO_RULE);
	assert_int_equal(ask("~", "~", "GET", "/x", false), DECIDE_NO_RULE);
}

static void what_else_would_pass(void **state)
{
	struct policy p;
	struct facts f = { .scheme = SCHEME_HTTPS, .host = STR("a.test"), .port = 443, .method = STR("DELETE"), .path = STR("/x") };
	struct decision d;
	struct table *t;
	struct dest dest;

	(void)state;
	util_parse(&p, "version: 1\ndestinations:\n  - host: a.test\n    allow: [ GET /x, POST /*, PUT /y, LOCK /x ]\n    deny: [ POST /x ]\n");
	t = util_table(&p);
	assert_int_equal(table_find(t, f.scheme, f.host, f.port, &dest), 1);
	decide(t, &dest, &f, &d);
	assert_int_equal(d.why, DECIDE_NO_RULE);
	assert_int_equal(d.allowed_n, 3);
	assert_true(str_eq(d.allowed[0], STR("GET")) && str_eq(d.allowed[1], STR("HEAD")) && str_eq(d.allowed[2], STR("LOCK")));
	decide(t, NULL, &f, &d);
	assert_int_equal(d.why, DECIDE_NO_DESTINATION);
	table_free(t);
	policy_free(&p);
}

static void the_first_rule_is_named(void **state)
{
	struct policy p;
	struct facts f = { .scheme = SCHEME_HTTPS, .host = STR("a.test"), .port = 443, .method = STR("GET"), .path = STR("/a/b") };
	struct decision d;
	struct table *t;
	struct dest dest;

	(void)state;
	util_parse(&p, "version: 1\ndestinations:\n  - host: a.test\n    allow:\n      - GET /a/*\n      - { method: GET, path: /a/b, id: exact }\n      - GET /**\n");
	t = util_table(&p);
	assert_int_equal(table_find(t, f.scheme, f.host, f.port, &dest), 1);
	decide(t, &dest, &f, &d);
	assert_true(str_eq(d.rule, STR("a.test:allow:GET /a/*")));
	assert_true(str_eq(d.source, STR("test.yaml:5")));
	table_free(t);
	policy_free(&p);
}

/* Time does not explode with what a policy or a request can be made of. */
static void hard_patterns(void **state)
{
	struct buf path = { 0 }, text = { 0 };
	struct policy p;
	struct facts f = { .scheme = SCHEME_HTTPS, .host = STR("a.test"), .port = 443, .method = STR("GET") };
	struct decision d;
	struct table *t;
	struct dest dest;

	(void)state;
	buf_addz(&text, "version: 1\ndestinations:\n  - host: a.test\n    allow:\n");
	for (int i = 0; i < 200; i++)
		buf_addf(&text, "      - GET /**/a/**/*a*a*a*/**/a%d/**/b\n", i);
	buf_addz(&text, "    deny:\n");
	for (int i = 0; i < 200; i++)
		buf_addf(&text, "      - GET /**/a/*/**/*a*a*a*/**/*%d/c\n", i);
	buf_addc(&text, 0);
	util_parse(&p, (const char *)buf_data(&text));
	t = util_table(&p);
	for (int i = 0; i < 1000; i++)
		buf_addz(&path, "/a/aaaa/a1/b");
	f.path = buf_str(&path);
	assert_int_equal(table_find(t, f.scheme, f.host, f.port, &dest), 1);
	decide(t, &dest, &f, &d);
	assert_int_equal(d.why, DECIDE_ALLOWED);
	table_free(t);
	policy_free(&p);
	buf_fini(&path);
	buf_fini(&text);
}

/* --- table and reference ------------------------------------------------------------------------------------------- */

static const char *const bits[] = { "a", "b", "A", "ab", "*", "**", "a*", "*b", "a*b", "a;x", ";x", "a;*", "", "%2Ab", "c" };
static const char *const path_bits[] = { "a", "b", "a", "b", "A", "ab", "aab", "a;x", ";x", "b;y", "", "%2Ab", "c", "xb" };
static const char *const method_names[] = { "GET", "HEAD", "POST", "ANY", "PUT", "LOCK", "GET|POST", "LOCK|HEAD" };
static const char *const asked[] = { "GET", "HEAD", "POST", "PUT", "LOCK", "WEBSOCKET", "BREW", "get" };

static void random_path(struct buf *b, uint64_t *r, const char *const *from, size_t n)
{
	unsigned k = util_random(r) % 5;

	buf_clear(b);
	for (unsigned i = 0; i <= k; i++) {
		buf_addc(b, '/');
		buf_addz(b, from[util_random(r) % n]);
	}
}

static void random_policy(struct buf *text, uint64_t *r)
{
	struct buf path = { 0 };

	buf_clear(text);
	buf_addz(text, "version: 1\nname: made-up\ndestinations:\n");
	for (unsigned d = 0; d < 3; d++) {
		buf_addf(text, "  - host: %c.test\n    paths: { empty_segments: keep }\n", 'a' + (char)d);
		for (unsigned deny = 0; deny < 2; deny++) {
			unsigned n = deny ? util_random(r) % 4 : util_random(r) % 10;

			buf_addf(text, "    %s:%s\n", deny ? "deny" : "allow", n ? "" : " []");
			for (unsigned i = 0; i < n; i++) {
				random_path(&path, r, bits, sizeof(bits) / sizeof(bits[0]));
				buf_addf(text, "      - \"%s %.*s\"\n", method_names[util_random(r) % 8], (int)buf_len(&path), (const char *)buf_data(&path));
			}
		}
	}
	buf_addc(text, 0);
	buf_fini(&path);
}

static void table_is_reference(void **state)
{
	uint64_t r = 20261130;
	struct buf text = { 0 }, path = { 0 };
	unsigned allowed = 0, denied = 0;

	(void)state;
	for (int i = 0; i < 600; i++) {
		struct policy p;
		struct table *t;

		random_policy(&text, &r);
		util_parse(&p, (const char *)buf_data(&text));
		t = util_table(&p);
		for (int k = 0; k < 60; k++) {
			static const char *const hosts[] = { "a.test", "b.test", "c.test", "d.test" };
			struct facts f = { .scheme = SCHEME_HTTPS, .port = util_random(&r) % 20 ? 443 : 80, .host = str_of(hosts[util_random(&r) % 4]), .method = str_of(asked[util_random(&r) % 8]), .has_content = util_random(&r) % 4 == 0 };
			struct decision d, ref;
			struct dest dest;
			int found;

			random_path(&path, &r, path_bits, sizeof(path_bits) / sizeof(path_bits[0]));
			f.path = util_random(&r) % 30 ? buf_str(&path) : STR("*");
			found = table_find(t, f.scheme, f.host, f.port, &dest);
			assert_true(found >= 0);
			decide(t, found == 1 ? &dest : NULL, &f, &d);
			ref_eval(&p, &f, &ref);
			if (d.verdict != ref.verdict || d.why != ref.why || !str_eq(d.rule, ref.rule) || !str_eq(d.source, ref.source)) {
				fprintf(stderr, "%s\n%.*s %.*s: table %d %.*s, reference %d %.*s\n", (const char *)buf_data(&text), (int)f.method.n, f.method.p, (int)f.path.n, f.path.p, d.why, (int)d.rule.n, d.rule.p, ref.why, (int)ref.rule.n, ref.rule.p);
				fail();
			}
			allowed += d.why == DECIDE_ALLOWED;
			denied += d.why == DECIDE_DENY_RULE;
			for (unsigned m = 0; m < d.allowed_n; m++) { /* what is offered does pass */
				f.method = d.allowed[m];
				f.has_content = false;
				ref_eval(&p, &f, &ref);
				assert_int_equal(ref.verdict, VERDICT_ALLOW);
			}
		}
		table_free(t);
		policy_free(&p);
	}
	if (allowed < 500 || denied < 500) /* the made-up ones are worth something */
		fail_msg("%u allowed, %u denied", allowed, denied);
	buf_fini(&text);
	buf_fini(&path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(allow_paths),
		cmocka_unit_test(deny_doubt),
		cmocka_unit_test(methods),
		cmocka_unit_test(what_else_would_pass),
		cmocka_unit_test(the_first_rule_is_named),
		cmocka_unit_test(hard_patterns),
		cmocka_unit_test(table_is_reference),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
