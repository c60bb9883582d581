/* SPDX-License-Identifier: Apache-2.0 */
#include "import_int.h"

enum import_kind import_kind_of(const char *name)
{
	static const struct {
		const char *name;
		enum import_kind kind;
	} kinds[] = { { "openshell", IMPORT_OPENSHELL }, { "sandbox-runtime", IMPORT_SANDBOX_RUNTIME }, { "squid", IMPORT_SQUID }, { "smokescreen", IMPORT_SMOKESCREEN }, { "iron-proxy", IMPORT_IRON_PROXY } };

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strcmp(name, kinds[i].name) == 0)
			return kinds[i].kind;
	return IMPORT_NONE;
}

static bool is(const struct yaml_node *n, const char *text) { return n != NULL && n->kind == YAML_TEXT && str_eq(n->text, str_of(text)); }
static bool truth(const struct yaml_node *n) { return is(n, "true"); }

void import_quoted(struct buf *b, struct str s)
{
	buf_addc(b, '"');
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] == '"' || s.p[i] == '\\')
			buf_addc(b, '\\');
		buf_addc(b, (unsigned char)s.p[i] < 0x20 || s.p[i] == 0x7f ? '?' : s.p[i]);
	}
	buf_addc(b, '"');
}

void import_only(struct import *im, const struct yaml_node *map, const char *where, const char *const *known)
{
	for (unsigned i = 0; map != NULL && map->kind == YAML_MAP && i < map->n; i++) {
		unsigned k = 0;

		while (known[k] != NULL && !str_eq(map->items[2 * i]->text, str_of(known[k])))
			k++;
		if (known[k] == NULL)
			BAD(im, map->items[2 * i], "`%.*s` of %s is not known here, and leaving it out could widen", DIAG_STR(map->items[2 * i]->text), where);
	}
}

#define ENDPOINTS_MAX 1000u

/* --- OpenShell ----------------------------------------------------------------------------------------------------- */

/* Their stars cross slashes, also one alone: a path of ours where it says the same, an expression otherwise. */
static void put_path(struct import *im, const struct yaml_node *n, struct str s)
{
	size_t plain = s.n;

	if (s.n == 0 || str_eq(s, STR("**")) || str_eq(s, STR("*")) || str_eq(s, STR("/**")) || str_eq(s, STR("/*"))) {
		buf_addz(im->out, "path: /**");
		return;
	}
	if (s.p[0] != '/' && s.p[0] != '*') {
		BAD(im, n, "the path `%.*s` does not begin with /", DIAG_STR(s));
		return;
	}
	if (str_ends(s, STR("/**")))
		plain -= 2;
	if (s.p[0] == '/' && memchr(s.p, '*', plain) == NULL && memchr(s.p, '?', plain) == NULL && memchr(s.p, '[', plain) == NULL) {
		buf_addz(im->out, "path: ");
		import_quoted(im->out, s);
		return;
	}
	buf_addz(im->out, "regex: '");
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];

		if (c == '*') {
			while (i + 1 < s.n && s.p[i + 1] == '*')
				i++;
			buf_addz(im->out, ".*");
		} else if (c == '?') {
			buf_addc(im->out, '.');
		} else if (c == '[' && i + 2 < s.n && memchr(s.p + i + 2, ']', s.n - i - 2) != NULL) {
			buf_addc(im->out, '[');
			if (s.p[i + 1] == '!') {
				buf_addc(im->out, '^');
				i++;
			}
			for (i++; s.p[i] != ']'; i++)
				buf_addc(im->out, s.p[i] == '\'' ? '.' : s.p[i]);
			buf_addc(im->out, ']');
		} else {
			if (memchr(".+(){}|^$\\]", c, 11) != NULL)
				buf_addc(im->out, '\\');
			buf_addc(im->out, c);
		}
	}
	buf_addc(im->out, '\'');
}

static void put_texts(struct import *im, const struct yaml_node *n)
{
	unsigned count = n->kind == YAML_LIST ? n->n : 1;

	buf_addc(im->out, '[');
	for (unsigned i = 0; i < count; i++) {
		const struct yaml_node *one = n->kind == YAML_LIST ? n->items[i] : n;

		if (one->kind != YAML_TEXT)
			BAD(im, one, "a text is wanted here");
		buf_addz(im->out, i ? ", " : "");
		import_quoted(im->out, one->text);
	}
	buf_addc(im->out, ']');
}

/* A glob, or { any: [globs] }. */
static void put_matcher(struct import *im, const struct yaml_node *n)
{
	const struct yaml_node *any = n->kind == YAML_MAP ? yaml_get(n, "any") : n;

	if (any == NULL || (n->kind == YAML_MAP && n->n != 1))
		BAD(im, n, "a matcher is a glob, or { any: [globs] }");
	else
		put_texts(im, any);
}

static void put_query(struct import *im, const struct yaml_node *q, bool deny)
{
	if (q == NULL)
		return;
	if (q->kind != YAML_MAP) {
		BAD(im, q, "`query` is a map");
		return;
	}
	buf_addz(im->out, ", query: { ");
	for (unsigned i = 0; i < q->n; i++) {
		buf_addz(im->out, i ? ", " : "");
		import_quoted(im->out, q->items[2 * i]->text);
		buf_addz(im->out, deny ? ": { matches: " : ": { required: true, matches: ");
		put_matcher(im, q->items[2 * i + 1]);
		buf_addz(im->out, " }");
	}
	buf_addz(im->out, " }");
}

static void rest_rule(struct import *im, const struct yaml_node *r, bool deny, struct str base)
{
	static const char *const known[] = { "method", "path", "query", NULL };
	const struct yaml_node *method = yaml_get(r, "method"), *path = yaml_get(r, "path");

	import_only(im, r, "a rule", known);
	if (method == NULL || path == NULL || method->kind != YAML_TEXT || path->kind != YAML_TEXT) {
		BAD(im, r, "a rule has `method` and `path`");
		return;
	}
	if (base.n > 0 && !str_eq(base, path->text))
		BAD(im, path, "an endpoint with a `path` whose rules have others: write the rules with whole paths");
	buf_addz(im->out, "      - { method: ");
	import_quoted(im->out, is(method, "*") ? STR("ANY") : method->text);
	buf_addz(im->out, ", ");
	put_path(im, path, path->text);
	put_query(im, yaml_get(r, "query"), deny);
	buf_addz(im->out, is(method, "*") && !deny ? ", body: any }\n" : " }\n");
}

static void graphql_rule(struct import *im, const struct yaml_node *r, struct str base)
{
	static const char *const known[] = { "operation_type", "operation_name", "fields", NULL };
	const struct yaml_node *type = yaml_get(r, "operation_type"), *name = yaml_get(r, "operation_name"), *fields = yaml_get(r, "fields");

	import_only(im, r, "a rule", known);
	buf_addz(im->out, "      - { method: POST, ");
	put_path(im, r, base);
	buf_addz(im->out, ", body: { graphql: { type: ");
	if (type == NULL || is(type, "*"))
		buf_addz(im->out, "[query, mutation, subscription]");
	else
		put_texts(im, type);
	if (name != NULL) {
		buf_addz(im->out, ", name: ");
		put_texts(im, name);
	}
	if (fields != NULL) {
		buf_addz(im->out, ", fields: ");
		put_texts(im, fields);
	}
	buf_addz(im->out, " } } }\n");
}

static void call_rule(struct import *im, const struct yaml_node *r, bool deny, struct str base, bool mcp)
{
	static const char *const known[] = { "method", "tool", NULL };
	const struct yaml_node *method = yaml_get(r, "method"), *tool = yaml_get(r, "tool");

	import_only(im, r, "a rule", known);
	if (method == NULL) {
		BAD(im, r, "a rule has `method`");
		return;
	}
	if (tool != NULL && !deny)
		buf_addz(im->out, "      # with tools come initialize, ping, tools/list and notifications\n");
	buf_addz(im->out, "      - { method: POST, ");
	put_path(im, r, base);
	buf_addz(im->out, mcp ? ", body: { mcp: { " : ", body: { jsonrpc: { ");
	buf_addz(im->out, tool ? "tools: " : "methods: ");
	if (tool != NULL)
		put_matcher(im, tool);
	else
		put_texts(im, method);
	buf_addz(im->out, " } } }\n");
}

static void one_rule(struct import *im, const struct yaml_node *r, bool deny, const struct yaml_node *protocol, struct str base)
{
	if (r == NULL || r->kind != YAML_MAP)
		return;
	if (is(protocol, "graphql"))
		graphql_rule(im, r, base);
	else if (is(protocol, "mcp") || is(protocol, "json-rpc"))
		call_rule(im, r, deny, base, is(protocol, "mcp"));
	else if (is(protocol, "rest"))
		rest_rule(im, r, deny, base);
	else
		BAD(im, protocol != NULL ? protocol : r, "rules of this protocol cannot be said yet");
}

static void access_preset(struct import *im, const struct yaml_node *access, const struct yaml_node *protocol, const struct yaml_node *at, struct str base)
{
	bool graphql = is(protocol, "graphql");

	if (protocol != NULL && !is(protocol, "rest") && !graphql) {
		BAD(im, protocol, "`access` of this protocol cannot be said yet");
		return;
	}
	buf_addz(im->out, "      - { method: ");
	if (graphql)
		buf_addz(im->out, "POST, ");
	else if (access == NULL || is(access, "full"))
		buf_addz(im->out, "[ANY, WEBSOCKET], ");
	else if (is(access, "read-only"))
		buf_addz(im->out, "[GET, OPTIONS], ");
	else if (is(access, "read-write"))
		buf_addz(im->out, "[GET, OPTIONS, POST, PUT, PATCH], ");
	else
		BAD(im, access, "`access` is read-only, read-write or full");
	put_path(im, at, base);
	if (graphql)
		buf_addz(im->out, is(access, "read-only") ? ", body: { graphql: { type: query } }" : is(access, "read-write") ? ", body: { graphql: { type: [query, mutation] } }"
															      : ", body: { graphql: { type: [query, mutation, subscription] } }");
	else if (access == NULL || is(access, "full"))
		buf_addz(im->out, ", body: any");
	buf_addz(im->out, " }\n");
}

/* Whether it becomes a destination. */
static bool endpoint_known(struct import *im, const struct yaml_node *e)
{
	static const char *const known[] = { "host", "port", "path", "protocol", "tls", "enforcement", "access", "rules", "deny_rules", "allowed_ips", "allow_encoded_slash", "graphql_max_body_bytes", NULL };
	const struct yaml_node *host = yaml_get(e, "host"), *port = yaml_get(e, "port");

	import_only(im, e, "an endpoint", known);
	if (host == NULL || host->kind != YAML_TEXT || port == NULL || port->kind != YAML_TEXT) {
		BAD(im, e, "an endpoint has `host` and `port`");
		return false;
	}
	if (is(yaml_get(e, "tls"), "skip")) {
		buf_addf(im->out, "  # %.*s: a tunnel that is not looked into (tls: skip): left out\n", DIAG_STR(host->text));
		return false;
	}
	return true;
}

static struct str endpoint_base(const struct yaml_node *e)
{
	const struct yaml_node *path = yaml_get(e, "path");

	return path != NULL && path->kind == YAML_TEXT ? path->text : STR_NONE;
}

static void endpoint_allow(struct import *im, const struct yaml_node *e)
{
	const struct yaml_node *rules = yaml_get(e, "rules"), *protocol = yaml_get(e, "protocol");

	for (unsigned i = 0; rules != NULL && rules->kind == YAML_LIST && i < rules->n; i++)
		one_rule(im, yaml_get(rules->items[i], "allow"), false, protocol, endpoint_base(e));
	if (rules == NULL)
		access_preset(im, yaml_get(e, "access"), protocol, e, endpoint_base(e));
}

static bool same_endpoint(const struct yaml_node *a, const struct yaml_node *b)
{
	return str_ieq(yaml_get(a, "host")->text, yaml_get(b, "host")->text) && str_eq(yaml_get(a, "port")->text, yaml_get(b, "port")->text);
}

/* What a destination says once: another entry of the same host and port must say the same. */
static void once(struct import *im, const struct yaml_node *a, const struct yaml_node *b, const char *key)
{
	const struct yaml_node *x = yaml_get(a, key), *y = yaml_get(b, key);
	bool same = (x == NULL) == (y == NULL) && (x == NULL || x->n == y->n);

	for (unsigned i = 0; same && x != NULL && x->kind == YAML_LIST && i < x->n; i++)
		same = str_eq(x->items[i]->text, y->items[i]->text);
	if (!same || (x != NULL && x->kind == YAML_TEXT && !str_eq(x->text, y->text)))
		BAD(im, b, "`%s` differs from that of the same host and port before it: say it in one way", key);
}

/* Several entries of one host and port let pass what one of them does: one destination. Denies of one hold for all, which narrows. */
static void endpoints(struct import *im, const struct yaml_node *const *all, unsigned n)
{
	const struct yaml_node *e = all[0], *host = yaml_get(e, "host"), *port = yaml_get(e, "port"), *ips = yaml_get(e, "allowed_ips");
	bool denies = false;

	buf_addz(im->out, "  - host: ");
	import_quoted(im->out, host->text);
	buf_addc(im->out, '\n');
	if (!is(port, "443"))
		buf_addf(im->out, "    ports: [%.*s]\n", DIAG_STR(port->text));
	for (unsigned i = 0; i < n; i++) {
		if (yaml_get(all[i], "protocol") == NULL)
			buf_addz(im->out, "    # any bytes passed there; here it is HTTP over TLS\n");
		if (is(yaml_get(all[i], "enforcement"), "audit"))
			buf_addz(im->out, "    # it was only watched there (enforcement: audit); here the rules hold\n");
		denies = denies || yaml_get(all[i], "deny_rules") != NULL;
		once(im, e, all[i], "allowed_ips");
		once(im, e, all[i], "allow_encoded_slash");
	}
	if (ips != NULL) {
		buf_addz(im->out, "    addresses: ");
		put_texts(im, ips);
		buf_addc(im->out, '\n');
	}
	if (truth(yaml_get(e, "allow_encoded_slash")))
		buf_addz(im->out, "    paths: { encoded_slash: keep }\n");
	buf_addz(im->out, "    allow:\n");
	for (unsigned i = 0; i < n; i++)
		endpoint_allow(im, all[i]);
	if (denies)
		buf_addz(im->out, n > 1 ? "    # of one entry there, of all here\n    deny:\n" : "    deny:\n");
	for (unsigned i = 0; i < n; i++) {
		const struct yaml_node *d = yaml_get(all[i], "deny_rules");

		for (unsigned k = 0; d != NULL && d->kind == YAML_LIST && k < d->n; k++)
			one_rule(im, d->items[k], true, yaml_get(all[i], "protocol"), endpoint_base(all[i]));
	}
}

static void paths(struct import *im, const char *key, const struct yaml_node *list, const struct yaml_node *more, const char *first)
{
	const struct yaml_node *lists[] = { list, more };
	bool any = first != NULL;

	for (int k = 0; k < 2; k++)
		any = any || (lists[k] != NULL && lists[k]->n > 0);
	if (!any)
		return;
	buf_addf(im->out, "    %s: [", key);
	if (first != NULL)
		buf_addz(im->out, first);
	any = first != NULL;
	for (int k = 0; k < 2; k++) {
		for (unsigned i = 0; lists[k] != NULL && lists[k]->kind == YAML_LIST && i < lists[k]->n; i++) {
			const struct yaml_node *p = lists[k]->items[i];

			if (p->kind != YAML_TEXT || memchr(p->text.p, '*', p->text.n) != NULL)
				BAD(im, p, "a path with wildcards cannot be said: name the folder");
			buf_addz(im->out, any ? ", " : "");
			import_quoted(im->out, p->text);
			any = true;
		}
	}
	buf_addz(im->out, "]\n");
}

static void openshell(struct import *im, const struct yaml_node *root)
{
	static const char *const top[] = { "version", "filesystem_policy", "landlock", "process", "network_policies", NULL }, *const entry[] = { "name", "endpoints", "binaries", NULL };
	const struct yaml_node *nets = yaml_get(root, "network_policies"), *files = yaml_get(root, "filesystem_policy"), *all[ENDPOINTS_MAX], *same[ENDPOINTS_MAX];
	struct str names[ENDPOINTS_MAX];
	unsigned n = 0, same_n;

	import_only(im, root, "a policy of OpenShell", top);
	buf_addz(im->out, "destinations:\n");
	for (unsigned i = 0; nets != NULL && nets->kind == YAML_MAP && i < nets->n; i++) {
		const struct yaml_node *e = nets->items[2 * i + 1], *ends = yaml_get(e, "endpoints"), *programs = yaml_get(e, "binaries");

		import_only(im, e, "an entry of network_policies", entry);
		if (programs != NULL && !im->o.any_program && !im->programs_told) {
			BAD(im, programs, "which program asks is not looked at here: with --any-program every program of the sandbox may use these destinations");
			im->programs_told = true;
		}
		for (unsigned k = 0; ends != NULL && ends->kind == YAML_LIST && k < ends->n; k++) {
			if (ends->items[k]->kind != YAML_MAP || !endpoint_known(im, ends->items[k]))
				continue;
			if (n == ENDPOINTS_MAX) {
				BAD(im, ends->items[k], "more than %u endpoints", ENDPOINTS_MAX);
				return;
			}
			names[n] = nets->items[2 * i]->text;
			all[n++] = ends->items[k];
		}
	}
	for (unsigned i = 0; i < n; i++) {
		unsigned k = 0;

		same_n = 0;
		while (k < i && !same_endpoint(all[k], all[i]))
			k++;
		if (k < i)
			continue; /* said with that one */
		for (k = i; k < n; k++) {
			if (!same_endpoint(all[k], all[i]))
				continue;
			buf_addf(im->out, "  # %.*s\n", DIAG_STR(names[k]));
			same[same_n++] = all[k];
		}
		endpoints(im, same, same_n);
	}
	if (files != NULL && files->kind == YAML_MAP) {
		buf_addz(im->out, "sandbox:\n  filesystem:\n");
		paths(im, "write", yaml_get(files, "read_write"), NULL, truth(yaml_get(files, "include_workdir")) ? "." : NULL);
		paths(im, "read", yaml_get(files, "read_only"), NULL, NULL);
	}
}

/* --- sandbox-runtime ----------------------------------------------------------------------------------------------- */

static bool listed(const struct yaml_node *list, struct str s, unsigned n)
{
	for (unsigned i = 0; list != NULL && list->kind == YAML_LIST && i < list->n && i < n; i++)
		if (list->items[i]->kind == YAML_TEXT && str_eq(list->items[i]->text, s))
			return true;
	return false;
}

/* "*.x" is everything below x there. */
static void domain(struct import *im, const struct yaml_node *n, bool allow, bool deny)
{
	if (n->kind != YAML_TEXT || memchr(n->text.p, ':', n->text.n) != NULL) {
		BAD(im, n, "a domain is a name, or *. and a name");
		return;
	}
	buf_addz(im->out, "  - host: \"");
	if (str_starts(n->text, STR("*.")))
		buf_addc(im->out, '*');
	buf_adds(im->out, n->text);
	buf_addz(im->out, "\"\n");
	if (allow)
		buf_addz(im->out, "    allow: [ { method: [ANY, WEBSOCKET], path: /**, body: any } ]\n");
	if (deny)
		buf_addz(im->out, "    deny: [ \"ANY /**\" ]\n");
}

static void sandbox_runtime(struct import *im, const struct yaml_node *root)
{
	static const char *const top[] = { "network", "filesystem", "ignoreViolations", "enableWeakerNestedSandbox", "mandatoryDenySearchDepth", "ripgrep", NULL };
	static const char *const net_keys[] = { "allowedDomains", "deniedDomains", "allowUnixSockets", "allowAllUnixSockets", "allowLocalBinding", "httpProxyPort", "socksProxyPort", NULL };
	static const char *const file_keys[] = { "denyRead", "allowRead", "allowWrite", "denyWrite", "allowGitConfig", NULL };
	const struct yaml_node *net = yaml_get(root, "network"), *files = yaml_get(root, "filesystem"), *allowed = net ? yaml_get(net, "allowedDomains") : NULL, *denied = net ? yaml_get(net, "deniedDomains") : NULL;

	import_only(im, root, "settings of sandbox-runtime", top);
	import_only(im, net, "`network`", net_keys);
	import_only(im, files, "`filesystem`", file_keys);
	buf_addz(im->out, "# https on port 443 alone: other ports and plain http are destinations of their own. Unix sockets and listening are not carried over.\ndestinations:\n");
	for (unsigned i = 0; allowed != NULL && allowed->kind == YAML_LIST && i < allowed->n; i++)
		if (!listed(allowed, allowed->items[i]->text, i))
			domain(im, allowed->items[i], true, listed(denied, allowed->items[i]->text, UINT32_MAX));
	for (unsigned i = 0; denied != NULL && denied->kind == YAML_LIST && i < denied->n; i++)
		if (!listed(denied, denied->items[i]->text, i) && !listed(allowed, denied->items[i]->text, UINT32_MAX))
			domain(im, denied->items[i], false, true);
	if (files != NULL && files->kind == YAML_MAP) {
		buf_addz(im->out, "# What is not listed could be read there; here the sandbox sees the system, the working directory and what is listed.\nsandbox:\n  filesystem:\n    root: host\n");
		paths(im, "write", yaml_get(files, "allowWrite"), NULL, NULL);
		paths(im, "read", yaml_get(files, "allowRead"), NULL, NULL);
		paths(im, "hide", yaml_get(files, "denyRead"), NULL, NULL);
		paths(im, "protect", yaml_get(files, "denyWrite"), NULL, NULL);
	}
}

int import_policy(enum import_kind kind, struct str text, const struct import_options *o, struct buf *out, struct diag *d)
{
	struct arena a = { 0 };
	struct import im = { .d = d, .out = out, .o = *o, .a = &a };
	const struct yaml_node *root = kind == IMPORT_SQUID ? NULL : yaml_parse(&a, text.p, text.n, d);

	buf_addz(out, "version: 1\nname: imported\n");
	if (kind == IMPORT_SQUID) {
		import_squid(&im, text);
	} else if (root != NULL && root->kind != YAML_MAP) {
		BAD(&im, root, "a map is wanted here");
	} else if (root != NULL) {
		if (kind == IMPORT_OPENSHELL)
			openshell(&im, root);
		else if (kind == IMPORT_SANDBOX_RUNTIME)
			sandbox_runtime(&im, root);
		else if (kind == IMPORT_SMOKESCREEN)
			import_smokescreen(&im, root);
		else
			import_iron_proxy(&im, root);
	}
	arena_fini(&a);
	return d->errors ? -1 : 0;
}
