/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_TEST_POLICY_MADE_H
#define SP_TEST_POLICY_MADE_H
/* Made-up policies and requests, for tests that compare two ways to the same answer. */
#include "policy_util.h"

#define SEED_DEFAULT 20261130

static const char *const segments[] = { "a", "b", "A", "ab", "*", "**", "a*", "*b", "a*b", "a;x", ";x", "a;*", "", "%2Ab", "c" };
static const char *const asked_segments[] = { "a", "b", "a", "b", "A", "ab", "aab", "a;x", ";x", "b;y", "", "%2Ab", "c", "xb" };
static const char *const methods[] = { "GET", "HEAD", "POST", "ANY", "PUT", "LOCK", "GET|POST", "LOCK|HEAD", "WEBSOCKET", "GET|WEBSOCKET", "ANY|WEBSOCKET" };
static const char *const asked_methods[] = { "GET", "HEAD", "POST", "PUT", "LOCK", "WEBSOCKET", "BREW", "get", "TUNNEL" };
/* conditions, and what meets them or not */
static const char *const query_keys[] = { "k", "l", "K", "a%20b" };
static const char *const query_globs[] = { "*", "x", "x*", "*y", "x|y", "a%20b", "%2A" };
static const char *const long_values[] = { "\"*\"", "x", "[x, \"*y\"]", "{ equals: \"*\" }", "{ matches: \"x*\", required: true }", "{ any: true }", "{ equals: [x, \"a b\"], required: false }" };
static const char *const deny_values[] = { "\"*\"", "x", "[x, \"*y\"]", "{ equals: \"*\" }", "{ any: true }" };
static const char *const asked_params[] = { "k=x", "k=xy", "k=y", "k=", "k", "l=x", "l=*", "K=X", "k[]=x", "k=a+b", "k=a%20b", "%6b=x", "a%20b=x", "z=1", "", "k=x;l=y", "a+b=x", "k=%00", "k=%2A" };
static const char *const header_names[] = { "X-A", "x_a", "Content-Type" };
static const char *const asked_headers[] = { "x-a", "X-A", "X_A", "content-type", "other", "" };
static const char *const header_values[] = { "x", "xy", "X", "a, x", "application/json", "y,x ,z", "" };
static const char *const regexes[] = { "/a", "/[ab]+(/b)?", "/.*", "/(?:a|b)/c", "/\\\\w{1,2}/?", "/a.b|/b", "^/[^/]+$", "/[^;]*" };
static const char *const windows[] = { "{ from: 2026-01-01 }", "{ until: 2026-01-01 }", "{ from: \"2026-01-01T00:00:00Z\", until: \"2027-01-01T00:00:00+01:00\" }" };
static const char *const bodies[] = { "any", "none", "{ json: { /a: x } }", "{ json: { /a/0: { any: true }, /b: { equals: \"1\", required: false } } }", "{ jsonrpc: { methods: [\"m*\"] } }",
				      "{ mcp: { tools: [\"t*\"] } }", "{ mcp: { tools: [t], arguments: { /x: \"1\" } } }", "{ graphql: { type: query } }", "{ graphql: { fields: [a, \"b*\"] } }", "{ git_push: { refs: [\"refs/heads/*\"] } }" };
static const char *const contents[] = { "{\"a\":\"x\"}", "{\"a\":[1],\"b\":1}", "{\"a\":\"x\",\"a\":\"y\"}", "{\"jsonrpc\":\"2.0\",\"method\":\"m1\"}", "[{\"jsonrpc\":\"2.0\",\"method\":\"m1\"},{\"jsonrpc\":\"2.0\",\"method\":\"n\"}]",
					"{\"jsonrpc\":\"2.0\",\"method\":\"tools/call\",\"params\":{\"name\":\"t\",\"arguments\":{\"x\":1}}}", "{\"query\":\"{ a }\"}", "{\"query\":\"mutation { z: bb }\"}", "nothing", "" };
/* names over few labels, so that patterns and hosts meet */
static const char *const labels[] = { "a", "b", "ab", "abc", "b-1" };
static const char *const wild_labels[] = { "*", "**", "**", "a*", "ab*", "abc*", "b*", "b-*" };
#define PICK(r, list) ((list)[util_random(r) % (sizeof(list) / sizeof((list)[0]))])

static inline void made_path(struct buf *b, uint64_t *r, bool pattern)
{
	unsigned k = util_random(r) % (1 + util_random(r) % 4);

	buf_clear(b);
	if (pattern && util_random(r) % 8 == 0) { /* so that something is decided by what else there is */
		buf_addz(b, "/**");
		return;
	}
	for (unsigned i = 0; i <= k; i++) {
		buf_addc(b, '/');
		buf_addz(b, pattern ? PICK(r, segments) : PICK(r, asked_segments));
	}
}

static inline void made_host(struct buf *b, uint64_t *r, bool pattern)
{
	unsigned k = util_random(r) % 3;

	buf_clear(b);
	if (pattern && util_random(r) % 3 != 0)
		buf_addf(b, "%s.", PICK(r, wild_labels));
	for (unsigned i = 0; i < k; i++)
		buf_addf(b, "%s.", PICK(r, labels));
	buf_addz(b, util_random(r) % 8 ? "x.test" : "y.test");
}

/* A host that a pattern stands for. */
static inline void made_instance(struct buf *b, uint64_t *r, struct str pattern)
{
	const char *star = memchr(pattern.p, '*', pattern.n);
	size_t at = star ? (size_t)(star - pattern.p) : pattern.n, behind = at;

	while (behind < pattern.n && pattern.p[behind] == '*')
		behind++;
	buf_clear(b);
	if (behind - at == 2)
		for (unsigned i = util_random(r) % 3; i > 0; i--)
			buf_addf(b, "%s.", PICK(r, labels));
	buf_add(b, pattern.p, at);
	if (star != NULL && (at == 0 || pattern.p[at - 1] == '-' || util_random(r) % 3))
		buf_addz(b, PICK(r, labels));
	buf_add(b, pattern.p + behind, pattern.n - behind);
}

/* What stands behind the path of a rule in a map. deny: without what says nothing there. */
static inline void made_conditions(struct buf *text, uint64_t *r, bool deny, bool has_query)
{
	if (!has_query && util_random(r) % 3 == 0) {
		if (!deny && util_random(r) % 5 == 0)
			buf_addz(text, ", query: none");
		else
			buf_addf(text, ", query: { %s: %s, z: %s }", PICK(r, query_keys), deny ? PICK(r, deny_values) : PICK(r, long_values), deny ? PICK(r, deny_values) : PICK(r, long_values));
	}
	if (util_random(r) % 4 == 0)
		buf_addf(text, ", headers: { %s: %s }", PICK(r, header_names), deny ? PICK(r, deny_values) : PICK(r, long_values));
	if (util_random(r) % 6 == 0)
		buf_addf(text, ", valid: %s", PICK(r, windows));
	if (!deny && util_random(r) % 6 == 0)
		buf_addf(text, ", uses: %u", 1 + util_random(r) % 3);
	if (!deny && util_random(r) % 6 == 0)
		buf_addf(text, ", limits: { requests: [%u/s, 100/h], idle: %us }", 1 + util_random(r) % 9, 1 + util_random(r) % 5);
	if (util_random(r) % 3 == 0)
		buf_addf(text, ", body: %s", bodies[deny + util_random(r) % (sizeof(bodies) / sizeof(bodies[0]) - deny)]);
}

static inline void made_rule(struct buf *text, uint64_t *r, bool deny, struct str path)
{
	const char *method = PICK(r, methods);
	unsigned kind = util_random(r) % 4;

	if (util_random(r) % (deny ? 10 : 24) == 0) { /* OPTIONS *, and what has no path at all */
		buf_addf(text, "      - \"%s *\"\n", method);
		return;
	}
	if (kind == 0) {
		buf_addf(text, "      - \"%s %.*s?%s=%s\"\n", method, (int)path.n, path.p, PICK(r, query_keys), PICK(r, query_globs));
		return;
	}
	if (kind > 1) {
		buf_addf(text, "      - \"%s %.*s\"\n", method, (int)path.n, path.p);
		return;
	}
	buf_addf(text, "      - { method: \"%s\", ", method);
	if (util_random(r) % 3 == 0)
		buf_addf(text, "regex: \"%s\"", PICK(r, regexes));
	else
		buf_addf(text, "path: \"%.*s\"", (int)path.n, path.p);
	made_conditions(text, r, deny, false);
	buf_addz(text, " }\n");
}

static inline void made_rules(struct buf *text, uint64_t *r, const char *key, unsigned n)
{
	struct buf path = { 0 };

	buf_addf(text, "    %s:%s\n", key, n ? "" : " []");
	for (unsigned i = 0; i < n; i++) {
		made_path(&path, r, true);
		made_rule(text, r, key[0] == 'd', buf_str(&path));
	}
	buf_fini(&path);
}

/* A tunnel: a name and a port, nothing of its octets. */
static inline void made_tunnel(struct buf *text, uint64_t *r)
{
	struct buf host = { 0 };
	bool tcp = util_random(r) % 2;

	for (unsigned i = util_random(r) % 3; i > 0; i--)
		buf_addf(&host, "%s.", PICK(r, labels));
	buf_addz(&host, util_random(r) % 8 ? "x.test" : "y.test");
	buf_addf(text, "  - host: %.*s\n%s", (int)buf_len(&host), (const char *)buf_data(&host), tcp ? "    protocol: tcp\n" : "    tls: { passthrough: true }\n");
	if (tcp)
		buf_addz(text, util_random(r) % 2 ? "    ports: [5432]\n" : "    ports: [5432, 8443]\n");
	else if (util_random(r) % 3 == 0)
		buf_addz(text, "    ports: [443, 8443]\n");
	if (util_random(r) % 2)
		buf_addf(text, "    limits: { idle: %us }\n", 1 + util_random(r) % 5);
	if (util_random(r) % 4 == 0)
		buf_addf(text, "    allow: { tunnel: true, valid: %s }\n", PICK(r, windows));
	else
		buf_addz(text, "    allow: tunnel\n");
	if (util_random(r) % 4)
		buf_addz(text, "    acknowledge: unread\n");
	buf_fini(&host);
}

/* One attempt: equal destinations and secrets that may not go there make some of them bad. */
static inline void made_policy(struct buf *text, uint64_t *r)
{
	struct buf host = { 0 };
	unsigned dests = 1 + util_random(r) % 8;

	buf_clear(text);
	buf_addz(text, "version: 1\nname: made-up\n");
	if (util_random(r) % 2)
		buf_addf(text, "limits: { idle: %us, request_body: %uKiB }\n", 1 + util_random(r) % 5, 1 + util_random(r) % 5);
	made_host(&host, r, true);
	buf_addf(text, "secrets:\n  s: { env: S, hosts: [ \"%.*s\", \"**.x.test\" ] }\n", (int)buf_len(&host), (const char *)buf_data(&host));
	buf_addz(text, "destinations:\n");
	for (unsigned d = 0; d < dests; d++) {
		bool http = util_random(r) % 8 == 0;

		if (util_random(r) % 8 == 0) {
			made_tunnel(text, r);
			continue;
		}
		made_host(&host, r, true);
		buf_addf(text, "  - host: \"%.*s\"\n    paths: { empty_segments: keep }\n", (int)buf_len(&host), (const char *)buf_data(&host));
		if (http)
			buf_addz(text, "    scheme: http\n");
		if (util_random(r) % 4 == 0)
			buf_addz(text, util_random(r) % 2 ? "    ports: [443, 8443]\n" : "    ports: [8443]\n");
		if (util_random(r) % 3 == 0)
			buf_addf(text, "    limits: { idle: %us, total: %us }\n", 1 + util_random(r) % 5, 1 + util_random(r) % 5);
		made_rules(text, r, "allow", util_random(r) % 12);
		made_rules(text, r, "deny", util_random(r) % 6);
		if (!http && util_random(r) % 4 == 0)
			buf_addz(text, "    inject: [ { secret: s, as: bearer } ]\n");
	}
	if (util_random(r) % 8 == 0) /* what takes tunnels away */
		buf_addz(text, "  - { host: \"**.x.test\", deny: [ \"ANY *\" ] }\n");
	buf_fini(&host);
}

struct made_fields {
	unsigned n;
	struct str name[3], value[3];
	uint64_t salt;
};

static inline bool field_at(const void *arg, unsigned i, struct str *name, struct str *value)
{
	const struct made_fields *fs = arg;

	if (i >= fs->n)
		return false;
	*name = fs->name[i];
	*value = fs->value[i];
	return true;
}

/* Counted grants: each has been used now and then. */
static inline uint64_t used(const void *arg, uint64_t key) { return (key ^ *(const uint64_t *)arg) % 4; }

static inline void made_extras(struct facts *f, uint64_t *r, struct buf *query, struct made_fields *fs)
{
	buf_clear(query);
	for (unsigned i = util_random(r) % 4; i > 0; i--)
		buf_addf(query, "%s%s", PICK(r, asked_params), i > 1 ? "&" : "");
	f->query = buf_str(query);
	f->has_query = f->query.n > 0 || util_random(r) % 2;
	fs->n = util_random(r) % 4;
	for (unsigned i = 0; i < fs->n; i++) {
		fs->name[i] = str_of(PICK(r, asked_headers));
		fs->value[i] = str_of(PICK(r, header_values));
	}
	if (util_random(r) % 2 && fs->n > 0) {
		fs->name[0] = STR("content-type");
		fs->value[0] = STR("application/json");
	}
	f->field = field_at;
	f->field_arg = fs;
	f->used = used;
	fs->salt = util_random(r);
	f->used_arg = &fs->salt;
	f->now_s = util_random(r) % 20 ? 1735689600 + util_random(r) % 63072000 : 0;
}

/* The text without one of its rules; false if it has none. */
static inline bool without_a_rule(const struct buf *text, uint64_t *r, struct buf *out)
{
	struct str s = str_mk(text->mem, buf_len(text)), mark = STR("\n      - ");
	unsigned n = 0, drop;
	size_t at = 0, end;

	for (ptrdiff_t i; (i = str_find(str_mk(s.p + at, s.n - at), mark)) >= 0; n++)
		at += (size_t)i + mark.n;
	if (n == 0)
		return false;
	drop = util_random(r) % n;
	at = 0;
	for (unsigned i = 0; i <= drop; i++)
		at += (size_t)str_find(str_mk(s.p + at, s.n - at), mark) + (i < drop ? mark.n : 1);
	end = at + (size_t)((const char *)memchr(s.p + at, '\n', s.n - at) - (s.p + at)) + 1;
	buf_clear(out);
	buf_add(out, s.p, at);
	buf_add(out, s.p + end, s.n - end);
	return true;
}

static inline uint64_t number(const char *variable, uint64_t otherwise)
{
	const char *s = getenv(variable);
	uint64_t v;

	if (s == NULL || s[0] == 0)
		return otherwise;
	if (!str_u64(str_of(s), INT64_MAX, &v))
		fail_msg("%s is not a number", variable);
	return v;
}
#endif
