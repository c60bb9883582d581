/* SPDX-License-Identifier: Apache-2.0 */
/* `secrets:` and `inject:`: where values come from, and where they go. A value never stands in a policy. */
#include "load.h"

bool load_secret_name_ok(struct str s)
{
	if (s.n == 0 || s.n > 63)
		return false;
	for (size_t i = 0; i < s.n; i++) {
		char c = ascii_lower(s.p[i]);

		if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (i > 0 && (c == '-' || c == '_' || c == '.'))))
			return false;
	}
	return true;
}

static bool variable_ok(struct str s)
{
	if (s.n == 0 || s.n > 200 || (s.p[0] >= '0' && s.p[0] <= '9'))
		return false;
	for (size_t i = 0; i < s.n; i++)
		if (!((s.p[i] >= 'a' && s.p[i] <= 'z') || (s.p[i] >= 'A' && s.p[i] <= 'Z') || (s.p[i] >= '0' && s.p[i] <= '9') || s.p[i] == '_'))
			return false;
	return true;
}

struct pol_secret *load_find_secret(struct policy *p, struct str name)
{
	for (unsigned i = 0; i < p->secret_n; i++)
		if (str_eq(p->secrets[i].name, name))
			return &p->secrets[i];
	return NULL;
}

/* --- secrets ------------------------------------------------------------------------------------------------------- */

struct secret_ctx {
	struct load *l;
	struct pol_secret s;
	bool bad;
};

static void on_env(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct secret_ctx *c = arg;

	(void)row;
	c->s.source = SECRET_SOURCE_ENV;
	c->s.arg = v->text;
	if (variable_ok(v->text))
		return;
	ERROR_AT(c->l, v->node, "`env` is the name of a variable (A-Z, 0-9, _), not a value");
	c->bad = true;
}

static void on_file(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct secret_ctx *c = arg;

	(void)row;
	if (c->s.source != SECRET_SOURCE_NONE) {
		ERROR_AT(c->l, v->key, "a secret has one source: `env` or `file`");
		c->bad = true;
	}
	c->s.source = SECRET_SOURCE_FILE;
	c->s.arg = v->text;
	if (v->text.p[0] == '/' && v->text.n < 4096 && str_find(v->text, STR("/../")) < 0 && !str_ends(v->text, STR("/..")) && !str_ends(v->text, STR("/")))
		return;
	ERROR_AT(c->l, v->node, "`file` is an absolute path without `..`");
	c->bad = true;
}

static void on_hosts(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct secret_ctx *c = arg;

	(void)row;
	if (v->n == 0) {
		ERROR_AT(c->l, v->node, "`hosts` is empty: the secret could go nowhere");
		c->bad = true;
	}
	c->s.hosts = arena_zalloc(c->l->a, (v->n + 1ul) * sizeof(struct str));
	for (unsigned i = 0; i < v->n; i++) {
		struct canon_host h;

		if (load_host(c->l, v->items[i], &h))
			c->s.hosts[c->s.host_n++] = arena_str(c->l->a, str_mk(h.text, h.len));
		else
			c->bad = true;
	}
}

static const struct schema_row secret_rows[] = {
	{ "env", SCHEMA_TEXT, false, on_env, NULL, 0, 0 },
	{ "file", SCHEMA_TEXT, false, on_file, NULL, 0, 0 },
	{ "hosts", SCHEMA_ONE_OR_MORE, true, on_hosts, "the hosts that it may be sent to", 0, 0 },
	{ "vault", SCHEMA_LATER, false, NULL, "HashiCorp Vault", 0, 0 },
	{ "vault_dynamic", SCHEMA_LATER, false, NULL, "HashiCorp Vault", 0, 0 },
	{ "field", SCHEMA_LATER, false, NULL, "HashiCorp Vault", 0, 0 },
	{ "refresh", SCHEMA_LATER, false, NULL, "HashiCorp Vault", 0, 0 },
	{ "exec", SCHEMA_LATER, false, NULL, "values from a program", 0, 0 },
	{ "scope", SCHEMA_LATER, false, NULL, "the scope of placeholders", 0, 0 },
	{ "capture", SCHEMA_LATER, false, NULL, "capturing", 0, 0 },
	{ "reveal", SCHEMA_LATER, false, NULL, "revealing", 0, 0 },
};

void load_secrets(struct load *l, const struct yaml_node *map)
{
	struct policy *p = l->p;
	struct pol_secret *before = p->secrets;

	if (map->n + p->secret_n > POLICY_SECRETS_MAX) {
		ERROR_AT(l, map, "more than %u secrets", POLICY_SECRETS_MAX);
		return;
	}
	p->secrets = arena_zalloc(l->a, (p->secret_n + map->n + 1ul) * sizeof(*p->secrets));
	if (p->secret_n > 0)
		memcpy(p->secrets, before, p->secret_n * sizeof(*before));
	for (unsigned i = 0; i < map->n; i++) {
		const struct yaml_node *key = map->items[2 * i], *v = map->items[2 * i + 1];
		struct secret_ctx c = { .l = l, .s = { .name = key->text, .at = place_of(l, key) } };

		if (!load_secret_name_ok(key->text)) {
			ERROR_AT(l, key, "a secret's name is 1 to 63 of a-z, A-Z, 0-9, -, _ and ., and begins with a letter or digit");
			continue;
		}
		before = load_find_secret(p, key->text);
		if (before != NULL) {
			ERROR_AT(l, key, "secret `%.*s` is defined already, at %s: once in the whole", DIAG_STR(key->text), load_there(l, before->at, place_of(l, key)));
			continue;
		}
		if (v->kind == YAML_TEXT) {
			ERROR_AT(l, v, "a value never stands in a policy: `%.*s: { env: VARIABLE, hosts: [...] }`", DIAG_STR(key->text));
			continue;
		}
		if (v->kind == YAML_NULL) {
			ERROR_AT(l, key, "secret `%.*s` is empty: `{ env: VARIABLE, hosts: [...] }`", DIAG_STR(key->text));
			continue;
		}
		c.bad = !schema_parse(l->d, v, "a secret", SCHEMA_ROWS(secret_rows), &c) || c.bad;
		if (!c.bad && c.s.source == SECRET_SOURCE_NONE)
			ERROR_AT(l, key, "secret `%.*s` has no source: `env: VARIABLE` or `file: /PATH`", DIAG_STR(key->text));
		/* kept even when bad: what refers to it needs no second error */
		c.s.index = p->secret_n;
		p->secrets[p->secret_n++] = c.s;
	}
}

/* --- injections ---------------------------------------------------------------------------------------------------- */

struct inject_ctx {
	struct load *l;
	struct pol_inject in;
	bool bad;
};

static void on_secret(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct inject_ctx *c = arg;

	(void)row;
	c->in.secret = load_find_secret(c->l->p, v->text);
	if (c->in.secret != NULL) {
		c->in.secret->used = true;
		return;
	}
	ERROR_AT(c->l, v->node, "there is no secret `%.*s` under `secrets`", DIAG_STR(v->text));
	c->bad = true;
}

static void on_as(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct inject_ctx *c = arg;

	(void)row;
	c->in.kind = str_eq(v->text, STR("bearer")) ? INJECT_BEARER : str_eq(v->text, STR("basic")) ? INJECT_BASIC : INJECT_HEADER;
}

static void on_username(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct inject_ctx *c = arg;

	(void)row;
	c->in.username = v->text;
	if (c->in.kind != INJECT_BASIC)
		ERROR_AT(c->l, v->key, "`username` belongs to `as: basic`");
	else if (memchr(v->text.p, ':', v->text.n) != NULL || v->text.n > 1024) /* RFC 7617 2 */
		ERROR_AT(c->l, v->node, "a user name for `as: basic` has no colon in it");
	else
		return;
	c->bad = true;
}

bool load_field_name_ok(struct str s)
{
	static const char *const never[] = { "host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer", "expect", "accept-encoding", "range", "keep-alive", "proxy-connection", "proxy-authorization", "http2-settings", "content-type", "content-encoding" };

	if (s.n > 127)
		return false;
	for (size_t i = 0; i < s.n; i++) {
		char c = ascii_lower(s.p[i]);

		if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_'))
			return false;
	}
	for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++)
		if (str_ieq(s, str_of(never[i])))
			return false;
	return true;
}

static void on_field(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct inject_ctx *c = arg;

	(void)row;
	c->in.name = v->text;
	if (c->in.kind != INJECT_HEADER)
		ERROR_AT(c->l, v->key, "`name` belongs to `as: header`");
	else if (!load_field_name_ok(v->text))
		ERROR_AT(c->l, v->node, "`name` is a header field (a-z, 0-9, -, _) that is not part of the framing");
	else
		return;
	c->bad = true;
}

static void on_format(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct inject_ctx *c = arg;
	ptrdiff_t at = str_find(v->text, STR("{}"));

	(void)row;
	c->in.format = v->text;
	if (c->in.kind != INJECT_HEADER)
		ERROR_AT(c->l, v->key, "`format` belongs to `as: header`");
	else if (at < 0 || str_find(str_mk(v->text.p + at + 2, v->text.n - (size_t)at - 2), STR("{}")) >= 0 || v->text.n > 1024)
		ERROR_AT(c->l, v->node, "`format` has one {} in it, where the value goes: \"Token {}\"");
	else
		return;
	c->bad = true;
}

static void on_variable(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct inject_ctx *c = arg;

	(void)row;
	c->in.env = v->text;
	if (variable_ok(v->text))
		return;
	ERROR_AT(c->l, v->node, "`env` is the name of a variable (A-Z, 0-9, _)");
	c->bad = true;
}

static const struct schema_row inject_rows[] = {
	{ "secret", SCHEMA_TEXT, true, on_secret, NULL, 0, 0 },
	{ "as", SCHEMA_WORD, true, on_as, "bearer|basic|header", 0, 0 },
	{ "username", SCHEMA_TEXT, false, on_username, NULL, 0, 0 },
	{ "name", SCHEMA_TEXT, false, on_field, NULL, 0, 0 },
	{ "format", SCHEMA_TEXT, false, on_format, NULL, 0, 0 },
	{ "env", SCHEMA_TEXT, false, on_variable, NULL, 0, 0 },
	{ "when", SCHEMA_LATER, false, NULL, "injection by rule", 0, 0 },
	{ "in", SCHEMA_LATER, false, NULL, "placeholders in requests", 0, 0 },
	{ "service", SCHEMA_LATER, false, NULL, "SigV4", 0, 0 },
	{ "region", SCHEMA_LATER, false, NULL, "SigV4", 0, 0 },
	{ "slashes", SCHEMA_LATER, false, NULL, "placeholders in requests", 0, 0 },
};

static struct str place_name(const struct pol_inject *in) { return in->kind == INJECT_HEADER ? in->name : STR("Authorization"); }

bool load_inject_place_same(const struct pol_inject *a, const struct pol_inject *b) { return str_ieq(place_name(a), place_name(b)); }

bool load_inject_same(const struct pol_inject *a, const struct pol_inject *b)
{
	return a->kind == b->kind && a->secret == b->secret && str_eq(a->username, b->username) && str_eq(a->name, b->name) && str_eq(a->format, b->format) && str_eq(a->env, b->env);
}

void load_injects(struct load *l, const struct yaml_node *list, struct pol_dest *d)
{
	if (list->n > 0 && d->scheme != SCHEME_HTTPS) {
		ERROR_AT(l, list, "no secret goes over scheme http: it would cross the network unprotected");
		return;
	}
	d->injects = arena_zalloc(l->a, (list->n + 1ul) * sizeof(*d->injects));
	for (unsigned i = 0; i < list->n; i++) {
		const struct yaml_node *n = list->items[i];
		struct inject_ctx c = { .l = l, .in = { .at = place_of(l, n) } };

		if (!schema_parse(l->d, n, "an injection", SCHEMA_ROWS(inject_rows), &c) || c.bad)
			continue;
		if (c.in.kind == INJECT_HEADER && c.in.name.n == 0) {
			ERROR_AT(l, n, "`as: header` needs `name`, the header field");
			continue;
		}
		for (unsigned k = 0; k < d->inject_n; k++)
			if (str_ieq(place_name(&d->injects[k]), place_name(&c.in)))
				ERROR_AT(l, n, "two injections for one place, %.*s (the other at line %u)", DIAG_STR(place_name(&c.in)), d->injects[k].at.line);
		d->injects[d->inject_n++] = c.in;
	}
}

struct schema_rows load_rows_secret(void) { return (struct schema_rows){ SCHEMA_ROWS(secret_rows) }; }
struct schema_rows load_rows_inject(void) { return (struct schema_rows){ SCHEMA_ROWS(inject_rows) }; }
