/* SPDX-License-Identifier: Apache-2.0 */
/* Conditions of rules: query, headers, time, regular expressions, content; each by the table and by the reference. */
#include "policy_util.h"

#include "common/policy/graphql.h"

struct asked {
	const char *method, *path, *query;
	const char *headers[5]; /* "name: value" */
	const char *content;
	size_t content_n;
	uint64_t now;
	bool partly; /* it has content, none of which was read */
};

static bool field_at(const void *arg, unsigned i, struct str *name, struct str *value)
{
	const struct asked *a = arg;
	const char *colon;

	if (i >= 5 || a->headers[i] == NULL)
		return false;
	colon = strstr(a->headers[i], ": ");
	*name = str_mk(a->headers[i], (size_t)(colon - a->headers[i]));
	*value = str_of(colon + 2);
	return true;
}

/* https://a.test with one allow rule, or with all allowed and one deny rule; the rest of the rule's map. */
static enum decide_why ask(bool deny, const char *rule, const struct asked *a)
{
	struct str content = str_mk(a->content, a->content_n ? a->content_n : a->content ? strlen(a->content) : 0);
	struct facts f = { .scheme = SCHEME_HTTPS, .host = STR("a.test"), .port = 443, .method = str_of(a->method ? a->method : "POST"), .path = str_of(a->path ? a->path : "/x"), .query = str_of(a->query),
		.has_query = a->query != NULL, .has_content = a->content != NULL || a->partly, .content = a->content ? &content : NULL, .now_s = a->now, .field = field_at, .field_arg = a };
	struct policy p;
	struct decision d, ref;
	struct table *t;
	struct dest dest;
	char text[4096];

	snprintf(text, sizeof(text), deny ? "version: 1\ndestinations:\n  - host: a.test\n    allow: [ { method: [ANY, WEBSOCKET], path: /**, body: any } ]\n    deny: [ %s ]\n"
					  : "version: 1\ndestinations:\n  - host: a.test\n    allow: [ %s ]\n", rule);
	util_parse(&p, text);
	t = util_table(&p);
	assert_int_equal(table_find(t, f.scheme, f.host, f.port, &dest), 1);
	decide(t, &dest, &f, &d);
	ref_eval(&p, &f, &ref);
	if (d.why != ref.why || !str_eq(d.rule, ref.rule))
		fail_msg("table and reference differ on %s: %d, %d", rule, d.why, ref.why);
	assert_int_equal(d.verdict == VERDICT_ALLOW, d.why == DECIDE_ALLOWED);
	table_free(t);
	policy_free(&p);
	return d.why;
}

#define ALLOWS(rule, ...) (ask(false, rule, &(struct asked){ __VA_ARGS__ }) == DECIDE_ALLOWED)
#define DENIES(rule, ...) (ask(true, rule, &(struct asked){ __VA_ARGS__ }) == DECIDE_DENY_RULE)

/* F16: keys and values are decoded strictly; the short form is closed. */
static void query_allow(void **state)
{
	static const char shut[] = "\"GET /x?q=*&state=open|closed\"", long_form[] = "{ method: GET, path: /x, query: { q: \"a*\", n: { equals: \"*\" }, r: { any: true, required: true } } }";
#define Q(rule, q) ALLOWS(rule, .method = "GET", .query = q)
	(void)state;
	assert_true(Q(shut, "q=x&state=open"));
	assert_true(Q(shut, "state=closed&q="));
	assert_true(Q(shut, "%71=a%20b&st%61te=open"));
	assert_true(Q(shut, "q=1&q=2&state=open"));
	assert_true(Q(shut, "&q=x&&state=open&"));
	assert_false(Q(shut, "q=x"));
	assert_false(Q(shut, NULL));
	assert_false(Q(shut, ""));
	assert_false(Q(shut, "q=x&state=opened"));
	assert_false(Q(shut, "q=x&state=Open"));
	assert_false(Q(shut, "Q=x&state=open"));
	assert_false(Q(shut, "q=x&state=open&y=1"));
	assert_false(Q(shut, "q=x&state=open&state=all"));
	assert_false(Q(shut, "q=x&state=open;y=1"));
	assert_false(Q(shut, "q=%00&state=open"));
	assert_false(Q(shut, "q=%4&state=open"));
	assert_false(Q(shut, "q=x&st+ate=open"));
	assert_true(Q(long_form, "r=1"));
	assert_true(Q(long_form, "r=&q=abc&n=*"));
	assert_true(Q(long_form, "r=&n=%2A"));
	assert_false(Q(long_form, "r=&n=x"));
	assert_false(Q(long_form, "q=abc"));
	assert_false(Q(long_form, "r=1&q=b"));
	/* "+" is a blank to some: both readings must fit */
	assert_true(Q("\"GET /x?q=a%20b|a%2Bb\"", "q=a+b"));
	assert_false(Q("\"GET /x?q=a%20b\"", "q=a+b"));
	assert_false(Q("\"GET /x?q=a%2Bb\"", "q=a+b"));
	assert_true(Q("\"GET /x?q=a%2Bb\"", "q=a%2Bb"));
	assert_true(Q("{ method: GET, path: /x, query: none }", NULL));
	assert_true(Q("{ method: GET, path: /x, query: none }", ""));
	assert_false(Q("{ method: GET, path: /x, query: none }", "a"));
	assert_true(Q("\"GET /x\"", "any;thing=%00"));
}

static void query_bounds(void **state)
{
	struct buf q = { 0 };
	(void)state;
	for (int i = 0; i < 1000; i++)
		buf_addz(&q, "q=1&");
	buf_addc(&q, 0);
	assert_true(Q("\"GET /x?q=*\"", (const char *)buf_data(&q)));
	q.len--;
	buf_add(&q, "q=1", 4);
	assert_false(Q("\"GET /x?q=*\"", (const char *)buf_data(&q)));
	assert_true(DENIES("\"GET /x?z=1\"", .method = "GET", .query = (const char *)buf_data(&q)));
	buf_fini(&q);
}

static void query_deny(void **state)
{
	static const char rule[] = "\"ANY /x?admin=true|1\"";
	(void)state;
	assert_true(DENIES(rule, .query = "admin=true"));
	assert_true(DENIES(rule, .query = "a=b&ADMIN=True"));
	assert_true(DENIES(rule, .query = "admin=no&admin=1"));
	assert_true(DENIES(rule, .query = "admin[]=1"));
	assert_true(DENIES(rule, .query = "admin[x]=1"));
	assert_true(DENIES(rule, .query = "%61dmin=%31"));
	assert_true(DENIES(rule, .query = "x=%zz")); /* unreadable */
	assert_true(DENIES(rule, .query = "a=1;admin=true"));
	assert_true(DENIES("\"ANY /x?q=a%20b\"", .query = "q=a+b"));
	assert_true(DENIES("\"ANY /x?q=a%2Bb\"", .query = "q=a+b"));
	assert_false(DENIES(rule, .query = NULL));
	assert_false(DENIES(rule, .query = "admin=no"));
	assert_false(DENIES(rule, .query = "admins=1"));
	assert_false(DENIES("\"ANY /x?a=1&b=2\"", .query = "a=1"));
	assert_true(DENIES("\"ANY /x?a=1&b=2\"", .query = "b=2&a=1"));
}

static void headers(void **state)
{
	static const char rule[] = "{ method: GET, path: /x, headers: { X-Api: [\"v1*\", v2], Accept: { equals: json, required: false } } }";
	static const char deny[] = "{ method: ANY, path: /x, headers: { X-Mode: raw } }";
	(void)state;
	assert_true(ALLOWS(rule, .method = "GET", .headers = { "x-api: v12" }));
	assert_true(ALLOWS(rule, .method = "GET", .headers = { "X-API: v2", "accept: json" }));
	assert_false(ALLOWS(rule, .method = "GET", .headers = { "accept: json" }));
	assert_false(ALLOWS(rule, .method = "GET", .headers = { "x-api: v3" }));
	assert_false(ALLOWS(rule, .method = "GET", .headers = { "x-api: v1", "x-api: v3" }));
	assert_false(ALLOWS(rule, .method = "GET", .headers = { "x-api: v1", "X_Api: v3" }));
	assert_false(ALLOWS(rule, .method = "GET", .headers = { "x_api: v1" }));
	assert_false(ALLOWS(rule, .method = "GET", .headers = { "x-api: v1", "accept: html" }));
	assert_true(DENIES(deny, .headers = { "x-mode: raw" }));
	assert_true(DENIES(deny, .headers = { "x_mode: RAW" }));
	assert_true(DENIES(deny, .headers = { "x-mode: a", "x-mode: b, raw ,c" }));
	assert_false(DENIES(deny, .headers = { "x-mode: rawer" }));
	assert_false(DENIES(deny, .path = "/x"));
}

static void windows(void **state)
{
	static const char rule[] = "{ method: GET, path: /x, valid: { from: 2026-01-01, until: \"2026-01-02T01:00:00+01:00\" } }";
	(void)state;
	assert_true(ALLOWS(rule, .method = "GET", .now = 1767225600));
	assert_true(ALLOWS(rule, .method = "GET", .now = 1767225600 + 86399));
	assert_false(ALLOWS(rule, .method = "GET", .now = 1767225600 + 86400));
	assert_false(ALLOWS(rule, .method = "GET", .now = 1767225599));
	assert_false(ALLOWS(rule, .method = "GET", .now = 0));
	assert_true(DENIES(rule, .method = "GET", .now = 0));
	assert_true(DENIES(rule, .method = "GET", .now = 1767225600));
	assert_false(DENIES(rule, .method = "GET", .now = 1767225599));
}

static void regular_expressions(void **state)
{
	static const char rule[] = "{ method: GET, regex: '/v\\d+/(users|teams)/[a-z0-9-]{1,39}' }";
	(void)state;
	assert_true(ALLOWS(rule, .method = "GET", .path = "/v12/users/a-1"));
	assert_false(ALLOWS(rule, .method = "GET", .path = "/v12/users/a-1/"));
	assert_false(ALLOWS(rule, .method = "GET", .path = "/x/v12/users/a"));
	assert_false(ALLOWS(rule, .method = "GET", .path = "/v12/Users/a"));
	assert_false(ALLOWS(rule, .method = "GET", .path = "*"));
	assert_false(ALLOWS("{ method: GET, regex: '/a|/b' }", .method = "GET", .path = "/ab"));
	assert_false(ALLOWS("{ method: GET, regex: '/a|/b' }", .method = "GET", .path = "/c/b"));
	assert_true(DENIES(rule, .method = "GET", .path = "/V12/USERS/a"));
	assert_true(DENIES(rule, .method = "GET", .path = "/v12/users/a/"));
	assert_true(DENIES(rule, .method = "GET", .path = "/v12;x/users/a;y=1"));
	assert_false(DENIES(rule, .method = "GET", .path = "/v12/users/a/b"));
	assert_true(DENIES("{ method: GET, regex: '/a/' }", .method = "GET", .path = "/a"));
}

/* Nested repetition, on which engines that try hang, takes no time; what needs too much room is a denial. */
static void regular_expressions_are_bounded(void **state)
{
	struct regexes *rs = regexes_new();
	char path[8193], why[REGEX_WHY_MAX];
	static const char *const bad[] = { "(a)\\1", "(?=a)", "(?!a)", "(?<=a)b", "(?R)", "(?1)", "(?C1)", "(*LIMIT_MATCH=1)a", "(?i)a", "(?<n>a)", "(?>a)", "a++", "a*?", "a{2}+", "\\bx", "\\Ka", "\\g1", "\\x41", "[a",
		"[[:alpha:]]", "a)|(b", "a)", "(a", "a\\", "", " ", "\\p{L}", "\\R", "((((((((((((((((((((((a))))))))))))))))))))))", "(([ab]{2}){1,100}){1,100}" };

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (regex_check(str_of(bad[i]), why) == NULL)
			fail_msg("accepted: %s", bad[i]);
		assert_int_equal(regex_match(rs, str_of(bad[i]), false, STR("a")), REGEX_LIMIT);
	}
	memset(path, 'a', sizeof(path));
	path[0] = '/';
	assert_int_equal(regex_match(rs, STR("/((a+)+)+"), false, str_mk(path, 50)), REGEX_YES);
	assert_int_equal(regex_match(rs, STR("/((a+)+)+"), false, str_mk(path, 4096)), REGEX_LIMIT);
	assert_int_equal(regex_match(rs, STR("/(a|aa)+"), false, str_mk(path, 4096)), REGEX_YES);
	assert_int_equal(regex_match(rs, STR("/.*"), false, str_mk(path, 4097)), REGEX_LIMIT);
	path[4000] = 0;
	assert_false(ALLOWS("{ method: GET, regex: '/((a+)+)+' }", .method = "GET", .path = path));
	assert_true(DENIES("{ method: GET, regex: '/((a+)+)+' }", .method = "GET", .path = path));
	assert_null(regex_check(STR("/[^]a\\]]+\\/x{2}[a-z]"), why));
	regexes_free(rs);
}

static void websocket(void **state)
{
	(void)state;
	assert_true(ALLOWS("\"WEBSOCKET /x\"", .method = "WEBSOCKET"));
	assert_true(ALLOWS("\"GET|WEBSOCKET /x\"", .method = "WEBSOCKET"));
	assert_false(ALLOWS("\"WEBSOCKET /x\"", .method = "GET"));
	assert_false(ALLOWS("\"ANY /x\"", .method = "WEBSOCKET"));
	assert_true(ALLOWS("\"ANY|WEBSOCKET /x\"", .method = "WEBSOCKET"));
	assert_true(ALLOWS("\"ANY|WEBSOCKET /x\"", .method = "BREW"));
	assert_true(DENIES("\"ANY /x\"", .method = "WEBSOCKET"));
}

/* --- content ------------------------------------------------------------------------------------------------------- */

#define JSON_TYPE "content-type: application/json"
#define B(rule, text) ALLOWS("{ method: POST, path: /x, body: " rule " }", .headers = { JSON_TYPE }, .content = text)
#define D(rule, text) DENIES("{ method: POST, path: /x, body: " rule " }", .headers = { JSON_TYPE }, .content = text)

static void content_or_none(void **state)
{
	(void)state;
	assert_int_equal(ask(false, "{ method: ANY, path: /x }", &(struct asked){ .partly = true }), DECIDE_CONTENT);
	assert_true(ALLOWS("{ method: ANY, path: /x, body: any }", .partly = true));
	assert_true(ALLOWS("{ method: GET, path: /x, body: any }", .method = "GET", .partly = true));
	assert_false(ALLOWS("{ method: POST, path: /x, body: none }", .partly = true));
	assert_true(ALLOWS("{ method: POST, path: /x, body: none }", .method = "POST"));
	/* it cannot be told without the content: a question, in an allow and in a deny */
	assert_int_equal(ask(false, "{ method: POST, path: /x, body: { json: { /a: x } } }", &(struct asked){ .partly = true }), DECIDE_LOOK);
	assert_int_equal(ask(true, "{ method: POST, path: /x, body: { json: { /a: x } } }", &(struct asked){ .partly = true }), DECIDE_LOOK);
	assert_int_equal(ask(false, "{ method: POST, path: /x, body: { json: { /a: x } } }", &(struct asked){ .path = "/y", .partly = true }), DECIDE_NO_RULE);
	/* no content at all: an answer */
	assert_int_equal(ask(false, "{ method: POST, path: /x, body: { json: { /a: x } } }", &(struct asked){ .method = "POST" }), DECIDE_NO_RULE);
	assert_int_equal(ask(true, "{ method: POST, path: /x, body: { json: { /a: x } } }", &(struct asked){ .method = "POST" }), DECIDE_DENY_RULE);
	/* a rule that lets it through without looking spares the look */
	assert_int_equal(ask(false, "{ method: POST, path: /x, body: { json: { /a: x } } }, POST /x", &(struct asked){ .partly = true }), DECIDE_ALLOWED);
}

/* F17 */
static void json(void **state)
{
	char deep[400];

	(void)state;
	assert_true(B("{ json: { /a: x } }", "{\"a\":\"x\"}"));
	assert_true(B("{ json: { /a: x } }", "{\"\\u0061\":\"\\u0078\"}"));
	assert_true(B("{ json: { /a/b/1: \"2\" } }", "{\"a\":{\"b\":[1,2]}}"));
	assert_true(B("{ json: { /a~1b: \"true\", /m~0n: \"null\" } }", "{\"a/b\":true,\"m~n\":null}"));
	assert_true(B("{ json: { /a: { matches: [\"x*\", y], required: false } } }", "{}"));
	assert_true(B("{ json: { /a: { any: true } } }", "{\"a\":[]}"));
	assert_false(B("{ json: { /a: x } }", "{}"));
	assert_false(B("{ json: { /a: x } }", "{\"a\":\"x\",\"a\":\"y\"}"));
	assert_false(B("{ json: { /a: x } }", "{\"a\":\"x\",\"\\u0061\":\"y\"}"));
	assert_false(B("{ json: { /a: x } }", "{\"a\":\"x\",\"A\":\"y\"}")); /* some would take the other */
	assert_false(B("{ json: { /a: x } }", "{\"a\":\"x\"} {}"));
	assert_false(B("{ json: { /a: x } }", "\xef\xbb\xbf{\"a\":\"x\"}"));
	assert_false(B("{ json: { /a: \"*\" } }", "{\"a\":[1]}"));
	assert_false(B("{ json: { /a: \"1*\" } }", "{\"a\":1.5}"));
	assert_false(B("{ json: { /a: x } }", "{\"a\":\"x\",\"b\":\"\xff\"}"));
	assert_false(B("{ json: { /a: x } }", "a=x"));
	memset(deep, '[', 200);
	memset(deep + 200, ']', 200);
	assert_false(ALLOWS("{ method: POST, path: /x, body: { json: { /0: { any: true } } } }", .headers = { JSON_TYPE }, .content = deep, .content_n = 400));
	/* another type, coding or charset is read otherwise elsewhere */
	assert_true(ALLOWS("{ method: POST, path: /x, body: { json: { /a: x } } }", .headers = { "content-type: application/vnd.api+json; charset=UTF-8" }, .content = "{\"a\":\"x\"}"));
	assert_false(ALLOWS("{ method: POST, path: /x, body: { json: { /a: x } } }", .headers = { "content-type: application/json; charset=utf-16" }, .content = "{\"a\":\"x\"}"));
	assert_false(ALLOWS("{ method: POST, path: /x, body: { json: { /a: x } } }", .headers = { "content-type: multipart/form-data; boundary=x" }, .content = "{\"a\":\"x\"}"));
	assert_false(ALLOWS("{ method: POST, path: /x, body: { json: { /a: x } } }", .headers = { JSON_TYPE, JSON_TYPE }, .content = "{\"a\":\"x\"}"));
	assert_false(ALLOWS("{ method: POST, path: /x, body: { json: { /a: x } } }", .headers = { JSON_TYPE, "content-encoding: gzip" }, .content = "{\"a\":\"x\"}"));
	assert_false(ALLOWS("{ method: POST, path: /x, body: { json: { /a: x } } }", .content = "{\"a\":\"x\"}"));
	assert_true(D("{ json: { /a: x } }", "{\"a\":\"X\"}"));
	assert_true(D("{ json: { /a: x } }", "{\"a\":\"y\",\"A\":\"y\"}"));
	assert_true(D("{ json: { /a: x } }", "not json"));
	assert_false(D("{ json: { /a: x } }", "{\"a\":\"y\"}"));
	assert_false(D("{ json: { /a: x } }", "{}"));
	assert_false(D("{ json: { /a: x, /b: y } }", "{\"a\":\"x\"}"));
}

static void jsonrpc_and_mcp(void **state)
{
#define CALL(name, args) "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"" name "\",\"arguments\":" args "}}"
#define METHOD(m) "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"" m "\"}"
	(void)state;
	assert_true(B("{ jsonrpc: { methods: [\"get*\"] } }", METHOD("getX")));
	assert_true(B("{ jsonrpc: { methods: [\"get*\"] } }", "[" METHOD("getX") "," METHOD("getY") "]"));
	assert_false(B("{ jsonrpc: { methods: [\"get*\"] } }", "[" METHOD("getX") "," METHOD("setY") "]"));
	assert_false(B("{ jsonrpc: { methods: [\"get*\"] } }", "[]"));
	assert_false(B("{ jsonrpc: { methods: [\"get*\"] } }", "{\"jsonrpc\":\"1.0\",\"method\":\"getX\"}"));
	assert_false(B("{ jsonrpc: { methods: [\"get*\"] } }", "{\"jsonrpc\":\"2.0\",\"method\":\"getX\",\"Method\":\"setX\"}"));
	assert_true(D("{ jsonrpc: { methods: [\"set*\"] } }", "[" METHOD("getX") "," METHOD("SETY") "]"));
	assert_false(D("{ jsonrpc: { methods: [\"set*\"] } }", METHOD("getX")));
	assert_true(B("{ mcp: { tools: [\"read_*\"] } }", CALL("read_file", "{}")));
	assert_true(B("{ mcp: { tools: [\"read_*\"] } }", METHOD("initialize")));
	assert_true(B("{ mcp: { tools: [\"read_*\"] } }", METHOD("tools/list")));
	assert_true(B("{ mcp: { tools: [\"read_*\"] } }", "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}"));
	assert_false(B("{ mcp: { tools: [\"read_*\"] } }", CALL("write_file", "{}")));
	assert_false(B("{ mcp: { tools: [\"read_*\"] } }", METHOD("resources/read")));
	assert_false(B("{ mcp: { tools: [\"read_*\"] } }", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"read_x\",\"Name\":\"write\"}}"));
	/* the long s and the Kelvin sign, which Go's encoding/json folds too (CVE-2026-27896) */
	assert_false(B("{ mcp: { tools: [\"read_*\"] } }", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"read_x\"},\"param\xc5\xbf\":{\"name\":\"write\"}}"));
	assert_false(B("{ mcp: { tools: [\"read_*\"] } }", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"read_x\"},\"PARAM\\u017f\":{\"name\":\"write\"}}"));
	assert_true(D("{ mcp: { tools: [\"delete_*\"] } }", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"read_x\"},\"param\xc5\xbf\":{\"name\":\"delete_all\"}}"));
	assert_false(B("{ json: { /kind: good } }", "{\"kind\":\"good\",\"\\u212aind\":\"bad\"}"));
	assert_true(B("{ json: { /kind: good } }", "{\"kind\":\"good\",\"\\u212aino\":\"x\",\"\xc5\":\"x\"}") == B("{ json: { /kind: good } }", "{\"kind\":\"good\",\"\xc5\":\"x\"}"));
	assert_true(B("{ json: { /kind: good } }", "{\"kind\":\"good\",\"\\u212aino\":\"x\",\"kin\":1,\"kinds\":2}"));
	assert_true(B("{ mcp: { methods: [\"resources/*\"] } }", METHOD("resources/read")));
	assert_false(B("{ mcp: { methods: [\"resources/*\"] } }", METHOD("initialize")));
	assert_false(B("{ mcp: { tools: [t], methods: [\"*\"] } }", CALL("u", "{}")));
	assert_true(B("{ mcp: { tools: [t], arguments: { /path: \"/srv/*\" } } }", CALL("t", "{\"path\":\"/srv/x\"}")));
	assert_false(B("{ mcp: { tools: [t], arguments: { /path: \"/srv/*\" } } }", CALL("t", "{\"path\":\"/etc/x\"}")));
	assert_false(B("{ mcp: { tools: [t], arguments: { /path: \"/srv/*\" } } }", CALL("t", "{}")));
	assert_true(D("{ mcp: { tools: [\"delete_*\"] } }", "[" METHOD("ping") "," CALL("DELETE_all", "{}") "]"));
	assert_false(D("{ mcp: { tools: [\"delete_*\"] } }", CALL("read", "{}")));
	assert_false(D("{ mcp: { tools: [\"delete_*\"] } }", METHOD("initialize")));
}

static void graphql(void **state)
{
#define G(q) "{\"query\":\"" q "\"}"
	(void)state;
	assert_true(B("{ graphql: { type: query } }", G("{ viewer { login } }")));
	assert_true(B("{ graphql: { type: query } }", G("query Q($a: [Int!]! = [1, 2] @d) @x(y: {z: \\\"}\\\"}) { a: viewer(x: \\\"\\\"\\\"q\\\"}\\\"\\\"\\\") { ...f } } fragment f on U { id }")));
	assert_false(B("{ graphql: { type: query } }", G("mutation { a }")));
	assert_false(B("{ graphql: { type: query } }", G("query A { a } mutation B { b }"))); /* each operation counts, whichever is asked for */
	assert_false(B("{ graphql: { type: query } }", "[" G("{ a }") "," G("mutation { b }") "]"));
	assert_true(B("{ graphql: { type: mutation, fields: [createPullRequest] } }", G("mutation M { x: createPullRequest(input: {title: \\\"deleteAll\\\"}) { id } }")));
	assert_false(B("{ graphql: { type: mutation, fields: [createPullRequest] } }", G("mutation { createPullRequest: deleteRef(input: {}) { id } }")));
	assert_false(B("{ graphql: { type: mutation, fields: [createPullRequest] } }", G("mutation { createPullRequest { id } deleteRef { id } }")));
	assert_false(B("{ graphql: { type: mutation, fields: [createPullRequest] } }", G("mutation { ...f } fragment f on M { createPullRequest { id } }")));
	assert_false(B("{ graphql: { type: mutation, fields: [createPullRequest] } }", G("mutation { ... on M { createPullRequest { id } } }")));
	assert_true(B("{ graphql: { name: [\"Get*\"] } }", G("query GetX { a }")));
	assert_false(B("{ graphql: { name: [\"Get*\"] } }", G("query SetX { a }")));
	assert_false(B("{ graphql: { type: query } }", "{\"query\":\"{ a }\",\"query\":\"mutation { b }\"}"));
	assert_false(B("{ graphql: { type: query } }", "{\"query\":\"{ a }\",\"Query\":\"mutation { b }\"}"));
	assert_false(B("{ graphql: { type: query } }", "{\"extensions\":{\"persistedQuery\":{}}}"));
	assert_false(ALLOWS("{ method: POST, path: /x, body: { graphql: { type: query } } }", .query = "query=mutation{a}", .headers = { JSON_TYPE }, .content = G("{ a }")));
	assert_true(D("{ graphql: { type: mutation } }", G("query A { a } mutation B { b }")));
	assert_true(D("{ graphql: { type: mutation, fields: [\"delete*\"] } }", G("mutation { x: DeleteRef }")));
	assert_true(D("{ graphql: { type: mutation, fields: [\"delete*\"] } }", G("mutation { ...f } fragment f on M { a }")));
	assert_true(D("{ graphql: { type: mutation } }", G("mutation {")));
	assert_false(D("{ graphql: { type: mutation, fields: [\"delete*\"] } }", G("mutation { create }")));
	assert_false(D("{ graphql: { type: mutation } }", G("{ mutation }")));
}

static void no_op(void *arg, const struct graphql_operation *o) { (void)arg, (void)o; }
static void no_field(void *arg, struct str name, bool spread) { (void)arg, (void)name, (void)spread; }

static void graphql_documents(void **state)
{
	static const struct graphql_ops ops = { no_op, no_field };
	static const char *const good[] = { "{a}", "query{a}", "{a,b\n#c }\n d}", "subscription S{a@b@c(d:1)}", "{a(b:[{c:$d}],e:-1.5e+3,f:ENUM,g:null){h{i}}}", "fragment f on T{a} {b}", "{a(s:\"\\u0041\\\"\")}", "{...@include(if:$a){b}}", "{a(x:\"\")}", "{query}" };
	static const char *const bad[] = { "", "{}", "{a", "{a}}", "query", "{a(}", "{a([)]}", "{a:}", "{:a}", "{a \"b\"}", "type T{a:Int}", "extend type T{a:Int}", "{a(s:\"x\n\")}", "{a(s:\"\"\"x)}", "fragment on on T{a} {b}", "{a;b}", "{a}\x01", "{...}", "fragment f on T{a}", "{a(s:\"\\q\")}" };
	char deep[300];

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		if (!graphql_parse(str_of(good[i]), &ops, NULL))
			fail_msg("refused: %s", good[i]);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (graphql_parse(str_of(bad[i]), &ops, NULL))
			fail_msg("accepted: %s", bad[i]);
	for (unsigned i = 0; i < 150; i++)
		memcpy(deep + 2 * i, i < 100 ? "{a" : "}}", 2);
	assert_false(graphql_parse(str_mk(deep, 300), &ops, NULL));
}

static void git_push(void **state)
{
#define OLD "1111111111111111111111111111111111111111"
#define NEW "2222222222222222222222222222222222222222"
#define NIL "0000000000000000000000000000000000000000"
#define RULE(b) "{ method: POST, path: /x, body: { git_push: " b " } }"
#define P(rule, text) ALLOWS(rule, .content = text, .content_n = sizeof(text) - 1)
#define N(rule, text) DENIES(rule, .content = text, .content_n = sizeof(text) - 1)
	static const char heads[] = RULE("{ refs: [\"refs/heads/*\"] }"), agent[] = RULE("{ refs: [\"refs/heads/agent/*\"] }"), deletes[] = RULE("{ refs: [\"refs/heads/*\"], delete: true }");
	(void)state;
	assert_true(P(heads, "006c" OLD " " NEW " refs/heads/main\0agent\n" "0000PACKxxxx"));
	assert_true(P(heads, "0062" OLD " " NEW " refs/heads/x" "0062" NIL " " NEW " refs/heads/y" "0000"));
	assert_true(P(heads, "0000")); /* git asks first whether it may */
	assert_true(P(heads, "0035shallow " OLD "\n" "0062" OLD " " NEW " refs/heads/x" "0000"));
	assert_false(P(agent, "0062" OLD " " NEW " refs/heads/x" "0000"));
	assert_false(P(heads, "0062" OLD " " NEW " refs/heads/x" "0061" OLD " " NEW " refs/tags/y" "0000"));
	assert_false(P(heads, "0062" OLD " " NIL " refs/heads/x" "0000"));
	assert_true(P(deletes, "0062" OLD " " NIL " refs/heads/x" "0000"));
	assert_false(P(heads, "0062" OLD " " NEW " refs/heads/x"));
	assert_false(P(heads, "0062" OLD " " NEW " refs/heads/x" "0001"));
	assert_false(P(heads, "000fpush-cert\0\n" "0000"));
	assert_false(P(heads, "PACK"));
	assert_false(P(heads, "0062" OLD " " NEW "_refs/heads/x" "0000"));
	assert_true(N(agent, "0068" OLD " " NEW " refs/heads/AGENT/x" "0000"));
	assert_true(N(agent, "junk"));
	assert_false(N(agent, "0062" OLD " " NEW " refs/heads/x" "0000"));
	assert_true(N(RULE("{ delete: true }"), "0062" OLD " " NIL " refs/heads/x" "0000"));
	assert_false(N(RULE("{ delete: true }"), "0062" OLD " " NEW " refs/heads/x" "0000"));
	assert_false(body_enough(BODY_NEED_COMMANDS, STR("0061" OLD)));
	assert_false(body_enough(BODY_NEED_COMMANDS, STR("00")));
	assert_true(body_enough(BODY_NEED_COMMANDS, STR("0062" OLD " " NEW " refs/heads/x" "0000PA")));
	assert_true(body_enough(BODY_NEED_COMMANDS, STR("junk")));
	assert_false(body_enough(BODY_NEED_ALL, STR("{}")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(query_allow),
		cmocka_unit_test(query_bounds),
		cmocka_unit_test(query_deny),
		cmocka_unit_test(headers),
		cmocka_unit_test(windows),
		cmocka_unit_test(regular_expressions),
		cmocka_unit_test(regular_expressions_are_bounded),
		cmocka_unit_test(websocket),
		cmocka_unit_test(content_or_none),
		cmocka_unit_test(json),
		cmocka_unit_test(jsonrpc_and_mcp),
		cmocka_unit_test(graphql),
		cmocka_unit_test(graphql_documents),
		cmocka_unit_test(git_push),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
