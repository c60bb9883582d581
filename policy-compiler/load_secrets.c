/* SPDX-License-Identifier: Apache-2.0 */
/* `secrets:`: where values come from. A value never stands in a policy. */
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

bool load_variable_ok(struct str s)
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
	if (load_variable_ok(v->text))
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

static void on_scope(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	(void)row;
	((struct secret_ctx *)arg)->s.scope_sandbox = str_eq(v->text, STR("sandbox"));
}

static void on_body(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	(void)row;
	((struct secret_ctx *)arg)->s.body_deny = str_eq(v->text, STR("deny"));
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
	{ "scope", SCHEMA_WORD, false, on_scope, "policy|sandbox", 0, 0 },
	{ "body", SCHEMA_WORD, false, on_body, "record|deny", 0, 0 },
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

struct schema_rows load_rows_secret(void) { return (struct schema_rows){ SCHEMA_ROWS(secret_rows) }; }
