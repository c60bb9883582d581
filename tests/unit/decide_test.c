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

/* --- wildcards ----------------------------------------------------------------------------------------------------- */

/* Id of the destination that decides, by the table and by the reference evaluator; "" if there is none. */
static const char *decides(const struct policy *p, const struct table *t, const char *host, uint16_t port)
{
	static char out[300];
	const struct pol_dest *ref = ref_dest(p, SCHEME_HTTPS, str_of(host), port);
	struct dest d;
	int found = table_find(t, SCHEME_HTTPS, str_of(host), port, &d);

	assert_true(found >= 0);
	assert_int_equal(found == 1, ref != NULL);
	if (found == 1 && !str_eq(d.id, ref->id))
		fail_msg("%s: table says %.*s, reference %.*s", host, (int)d.id.n, d.id.p, (int)ref->id.n, ref->id.p);
	if (found == 1)
		assert_true(dest_stands_for(&d, str_of(host)));
	snprintf(out, sizeof(out), "%.*s", found == 1 ? (int)d.id.n : 0, found == 1 ? d.id.p : "");
	return out;
}

static bool stands_for(const char *pattern, const char *host)
{
	struct policy p;
	struct table *t;
	char text[512];
	bool yes;

	snprintf(text, sizeof(text), "version: 1\ndestinations:\n  - host: \"%s\"\n    allow: [ GET / ]\n", pattern);
	util_parse(&p, text);
	t = util_table(&p);
	yes = decides(&p, t, host, 443)[0] != 0;
	assert_int_equal(table_host_known(t, str_of(host)), yes);
	table_free(t);
	policy_free(&p);
	return yes;
}

/* UP01, E10 */
static void hosts_of_wildcards(void **state)
{
	static const struct { const char *pattern, *host; bool yes; } cases[] = {
		{ "*.acme.test", "a.acme.test", true }, { "*.acme.test", "acme.test", false }, { "*.acme.test", "b.a.acme.test", false }, { "*.acme.test", "xacme.test", false },
		{ "*.acme.test", "acme.test.evil.test", false }, { "*.acme.test", "a.acme.test.evil.test", false }, { "*.acme.test", "test", false }, { "*.acme.test", "a.acme", false },
		{ "**.acme.test", "a.acme.test", true }, { "**.acme.test", "c.b.a.acme.test", true }, { "**.acme.test", "acme.test", false }, { "**.acme.test", "xacme.test", false },
		{ "**.acme.test", "a.xacme.test", false }, { "**.acme.test", "acme.test.evil.test", false },
		{ "pre*.acme.test", "prefix.acme.test", true }, { "pre*.acme.test", "pre.acme.test", true }, { "pre*.acme.test", "pr.acme.test", false }, { "pre*.acme.test", "xpre.acme.test", false },
		{ "pre*.acme.test", "pre.x.acme.test", false }, { "pre*.acme.test", "acme.test", false }, { "a-*.acme.test", "a-b.acme.test", true }, { "_*.acme.test", "_x.acme.test", true },
		{ "*.ACME.test.", "a.acme.test", true }, { "*.b\xc3\xbc" "cher.test", "a.xn--bcher-kva.test", true }, { "B\xc3\xbc" "cher.test", "xn--bcher-kva.test", true },
		{ "*.acme.test", "", false },
		{ "*.acme.test", "192.0.2.1", false }, { "**.acme.test", "2001:db8::1", false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (stands_for(cases[i].pattern, cases[i].host) != cases[i].yes)
			fail_msg("%s, %s", cases[i].pattern, cases[i].host);
}

static void the_most_specific_decides(void **state)
{
	static const char text[] = "version: 1\ndestinations:\n"
				   "  - { host: \"**.acme.test\", allow: [ GET /all ] }\n"
				   "  - { host: \"**.b.acme.test\", allow: [ GET /below-b ] }\n"
				   "  - { host: \"*.b.acme.test\", allow: [ GET /one ] }\n"
				   "  - { host: \"api*.b.acme.test\", allow: [ GET /api ] }\n"
				   "  - { host: \"api-eu*.b.acme.test\", allow: [ GET /api-eu ] }\n"
				   "  - { host: api-eu-1.b.acme.test, allow: [ GET /exact ] }\n"
				   "  - { host: \"*.other.acme.test\", ports: [8443], allow: [ GET /other ] }\n";
	static const char *const want[][2] = {
		{ "api-eu-1.b.acme.test", "api-eu-1.b.acme.test" }, { "api-eu-2.b.acme.test", "api-eu*.b.acme.test" }, { "api-eu.b.acme.test", "api-eu*.b.acme.test" },
		{ "api-us.b.acme.test", "api*.b.acme.test" }, { "web.b.acme.test", "*.b.acme.test" }, { "x.web.b.acme.test", "**.b.acme.test" }, { "b.acme.test", "**.acme.test" },
		{ "x.c.acme.test", "**.acme.test" }, { "a.other.acme.test", "**.acme.test" }, { "acme.test", "" },
	};
	struct facts f = { .scheme = SCHEME_HTTPS, .host = STR("api-us.b.acme.test"), .port = 443, .method = STR("GET"), .path = STR("/one") };
	struct decision d;
	struct policy p;
	struct table *t;
	struct dest dest;

	(void)state;
	util_parse(&p, text);
	t = util_table(&p);
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++)
		assert_string_equal(decides(&p, t, want[i][0], 443), want[i][1]);
	assert_string_equal(decides(&p, t, "a.other.acme.test", 8443), "*.other.acme.test:8443");
	assert_string_equal(decides(&p, t, "x.c.acme.test", 8443), "");
	/* what a broader one allows does not count */
	assert_int_equal(table_find(t, f.scheme, f.host, f.port, &dest), 1);
	assert_true(dest.wildcard && str_eq(dest_host(&dest), STR("api*.b.acme.test")));
	decide(t, &dest, &f, &d);
	assert_int_equal(d.why, DECIDE_NO_RULE);
	f.path = STR("/api");
	decide(t, &dest, &f, &d);
	assert_int_equal(d.why, DECIDE_ALLOWED);
	table_free(t);
	policy_free(&p);
}

static enum decide_why asked_of(const struct policy *p, const struct table *t, const char *host, const char *method, const char *path, struct decision *d)
{
	struct facts f = { .scheme = SCHEME_HTTPS, .host = str_of(host), .port = 443, .method = str_of(method), .path = str_of(path) };
	struct decision ref;
	struct dest dest;
	int found = table_find(t, f.scheme, f.host, f.port, &dest);

	decide(t, found == 1 ? &dest : NULL, &f, d);
	ref_eval(p, &f, &ref);
	assert_int_equal(d->why, ref.why);
	assert_true(str_eq(d->rule, ref.rule) && str_eq(d->source, ref.source));
	return d->why;
}

static void denies_accumulate(void **state)
{
	static const char text[] = "version: 1\ndestinations:\n"
				   "  - host: \"**.acme.test\"\n    deny: [ { method: ANY, path: /admin/**, id: broad }, DELETE /** ]\n"
				   "  - host: \"**.b.acme.test\"\n    allow: [ \"ANY /**\" ]\n"
				   "  - host: \"*.b.acme.test\"\n    allow: [ \"GET /**\", \"POST /**\", \"DELETE /**\" ]\n    deny: [ { method: POST, path: /no, id: star } ]\n"
				   "  - host: \"x*.b.acme.test\"\n    allow: [ \"GET /**\", \"DELETE /**\" ]\n"
				   "  - host: xy.b.acme.test\n    allow: [ \"GET /**\", \"POST /**\", \"DELETE /**\" ]\n    deny: [ { method: GET, path: /admin/own, id: own } ]\n"
				   "  - host: free.test\n    allow: [ \"ANY /**\" ]\n"
				   "  - host: \"**.acme.test\"\n    ports: [8443]\n    deny: [ \"ANY /**\" ]\n"
				   "  - host: \"**.acme.test\"\n    scheme: http\n    deny: [ \"ANY /**\" ]\n";
	struct decision d;
	struct policy p;
	struct table *t;

	(void)state;
	util_parse(&p, text);
	t = util_table(&p);
	assert_int_equal(asked_of(&p, t, "xy.b.acme.test", "GET", "/x", &d), DECIDE_ALLOWED);
	assert_int_equal(asked_of(&p, t, "xy.b.acme.test", "GET", "/ADMIN", &d), DECIDE_DENY_RULE);
	assert_true(str_eq(d.rule, STR("broad")) && str_eq(d.source, STR("test.yaml:4")));
	/* the nearest one is named */
	assert_int_equal(asked_of(&p, t, "xy.b.acme.test", "GET", "/admin/own", &d), DECIDE_DENY_RULE);
	assert_true(str_eq(d.rule, STR("own")));
	assert_int_equal(asked_of(&p, t, "xy.b.acme.test", "POST", "/no", &d), DECIDE_DENY_RULE);
	assert_true(str_eq(d.rule, STR("star")));
	/* what is offered instead is looked at in the same way */
	assert_int_equal(asked_of(&p, t, "xy.b.acme.test", "PUT", "/no", &d), DECIDE_NO_RULE);
	assert_int_equal(d.allowed_n, 2);
	assert_true(str_eq(d.allowed[0], STR("GET")) && str_eq(d.allowed[1], STR("HEAD")));
	assert_int_equal(asked_of(&p, t, "xz.b.acme.test", "GET", "/no", &d), DECIDE_ALLOWED);
	assert_int_equal(asked_of(&p, t, "q.w.b.acme.test", "PUT", "/x", &d), DECIDE_ALLOWED);
	assert_int_equal(asked_of(&p, t, "q.w.b.acme.test", "DELETE", "/x", &d), DECIDE_DENY_RULE);
	assert_int_equal(asked_of(&p, t, "q.acme.test", "GET", "/", &d), DECIDE_NO_RULE);
	assert_int_equal(asked_of(&p, t, "acme.test", "GET", "/admin/x", &d), DECIDE_NO_DESTINATION);
	assert_int_equal(asked_of(&p, t, "free.test", "DELETE", "/admin/x", &d), DECIDE_ALLOWED);
	table_free(t);
	policy_free(&p);
}

static void a_listed_port_decides(void **state)
{
	static const char text[] = "version: 1\ndestinations:\n"
				   "  - host: \"*.acme.test\"\n    allow: [ \"GET /**\" ]\n    deny: [ { method: GET, path: /no, id: unlisted } ]\n"
				   "  - host: \"*.acme.test\"\n    ports: [443, 8443]\n    allow: [ \"POST /**\", \"GET /no\" ]\n    deny: [ { method: LOCK, path: /x, id: listed } ]\n";
	struct decision d;
	struct policy p;
	struct table *t;

	(void)state;
	util_parse(&p, text);
	t = util_table(&p);
	assert_string_equal(decides(&p, t, "a.acme.test", 443), "*.acme.test:443");
	assert_int_equal(asked_of(&p, t, "a.acme.test", "GET", "/", &d), DECIDE_NO_RULE);
	assert_int_equal(asked_of(&p, t, "a.acme.test", "POST", "/", &d), DECIDE_ALLOWED);
	assert_int_equal(asked_of(&p, t, "a.acme.test", "GET", "/no", &d), DECIDE_DENY_RULE);
	assert_true(str_eq(d.rule, STR("unlisted")));
	assert_int_equal(asked_of(&p, t, "a.acme.test", "LOCK", "/x", &d), DECIDE_DENY_RULE);
	table_free(t);
	policy_free(&p);
}

/* Labels and literals at their bounds, and each of them found among the others. */
static void many_wildcards(void **state)
{
	struct buf text = { 0 }, host = { 0 };
	struct policy p;
	struct table *t;
	struct dest d;

	(void)state;
	buf_addz(&text, "version: 1\ndestinations:\n");
	for (unsigned depth = 2; depth <= 125; depth++) {
		buf_addz(&text, "  - host: \"**.");
		for (unsigned i = 2; i < depth; i++)
			buf_addz(&text, "a.");
		buf_addz(&text, "a.b\"\n    allow: [ GET / ]\n");
	}
	for (unsigned n = 1; n <= 63; n++)
		buf_addf(&text, "  - host: \"%.*s*.p.acme.test\"\n    allow: [ GET / ]\n", (int)n, "ppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppp");
	buf_addc(&text, 0);
	util_parse(&p, (const char *)buf_data(&text));
	t = util_table(&p);
	for (unsigned depth = 3; depth <= 127; depth++) {
		unsigned dots = 0;

		buf_clear(&host);
		for (unsigned i = 1; i < depth; i++)
			buf_addz(&host, "a.");
		buf_addz(&host, "b");
		assert_int_equal(table_find(t, SCHEME_HTTPS, buf_str(&host), 443, &d), 1);
		for (size_t i = 0; i < dest_host(&d).n; i++)
			dots += dest_host(&d).p[i] == '.';
		assert_int_equal(dots, depth - 1 < 125 ? depth - 1 : 125);
	}
	for (unsigned n = 1; n <= 63; n++) {
		buf_clear(&host);
		buf_addf(&host, "%.*s.p.acme.test", (int)n, "ppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppp");
		assert_int_equal(table_find(t, SCHEME_HTTPS, buf_str(&host), 443, &d), 1);
		assert_int_equal(dest_host(&d).n, n + strlen("*.p.acme.test"));
	}
	assert_int_equal(table_find(t, SCHEME_HTTPS, STR("q.p.acme.test"), 443, &d), 0);
	/* the text of a pattern is no host */
	assert_int_equal(table_find(t, SCHEME_HTTPS, STR("p*.p.acme.test"), 443, &d), 0);
	assert_int_equal(table_find(t, SCHEME_HTTPS, STR("**.a.b"), 443, &d), 0);
	table_free(t);
	policy_free(&p);
	buf_fini(&text);
	buf_fini(&host);
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
		cmocka_unit_test(hosts_of_wildcards),
		cmocka_unit_test(the_most_specific_decides),
		cmocka_unit_test(denies_accumulate),
		cmocka_unit_test(a_listed_port_decides),
		cmocka_unit_test(many_wildcards),
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
