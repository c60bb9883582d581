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

/* A secret has one source. */
static void set_source(struct secret_ctx *c, const struct schema_value *v, enum secret_source source, struct str arg)
{
	if (c->s.source != SECRET_SOURCE_NONE) {
		ERROR_AT(c->l, v->key, "a secret has one source: `env`, `file`, `credential`, `vault`, `vault_dynamic` or `exec`");
		c->bad = true;
	}
	c->s.source = source;
	c->s.arg = arg;
}

static bool path_ok(struct str s)
{
	return s.n < 4096 && s.p[0] == '/' && str_find(s, STR("/../")) < 0 && !str_ends(s, STR("/..")) && !str_ends(s, STR("/"));
}

static void on_env(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct secret_ctx *c = arg;

	(void)row;
	set_source(c, v, SECRET_SOURCE_ENV, v->text);
	if (load_variable_ok(v->text))
		return;
	ERROR_AT(c->l, v->node, "`env` is the name of a variable (A-Z, 0-9, _), not a value");
	c->bad = true;
}

static void on_file(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct secret_ctx *c = arg;

	(void)row;
	set_source(c, v, SECRET_SOURCE_FILE, v->text);
	if (path_ok(v->text))
		return;
	ERROR_AT(c->l, v->node, "`file` is an absolute path without `..`");
	c->bad = true;
}

static void on_follow(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct secret_ctx *c = arg;

	(void)row;
	c->s.follow = v->truth;
	if (c->s.source == SECRET_SOURCE_FILE)
		return;
	ERROR_AT(c->l, v->key, "`follow` belongs to `file`");
	c->bad = true;
}

/* systemd's names of credentials: those of files. */
static void on_credential(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct secret_ctx *c = arg;

	(void)row;
	set_source(c, v, SECRET_SOURCE_CREDENTIAL, v->text);
	if (v->text.n <= 255 && memchr(v->text.p, '/', v->text.n) == NULL && v->text.p[0] != '.')
		return;
	ERROR_AT(c->l, v->node, "`credential` is the name of a systemd credential (LoadCredential=NAME:...)");
	c->bad = true;
}

/* MOUNT/PATH as the API has it, without /v1/; a path of plain characters, so that it is one path for us, Vault and its policies. */
static bool vault_path_ok(struct str s)
{
	if (s.n > 1024 || s.p[0] == '/' || str_ends(s, STR("/")) || str_find(s, STR("//")) >= 0 || memchr(s.p, '/', s.n) == NULL)
		return false;
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];

		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || memchr("/-_.~:@+=", c, 9) != NULL))
			return false;
		if (c == '.' && (i == 0 || s.p[i - 1] == '/') && (i + 1 == s.n || s.p[i + 1] == '/' || s.p[i + 1] == '.'))
			return false;
	}
	return !str_starts(s, STR("sys/")) && !str_starts(s, STR("auth/")) && !str_starts(s, STR("cubbyhole/")) && !str_starts(s, STR("identity/"));
}

static void vault_source(struct secret_ctx *c, const struct schema_value *v, enum secret_source source)
{
	set_source(c, v, source, v->text);
	if (str_starts(v->text, STR("v1/")) || str_starts(v->text, STR("/v1/")))
		ERROR_AT(c->l, v->node, "the path is that of the API without its /v1/: %.*s", DIAG_STR(str_mk(v->text.p + (v->text.p[0] == '/' ? 4 : 3), v->text.n - (v->text.p[0] == '/' ? 4 : 3))));
	else if (!vault_path_ok(v->text))
		ERROR_AT(c->l, v->node, "a path in Vault is MOUNT/PATH of a secrets engine, as the API has it: secret/data/agents/github (KV v2), kv/agents/github (KV v1), aws/creds/agent");
	else
		return;
	c->bad = true;
}

static void on_vault(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	(void)row;
	vault_source(arg, v, SECRET_SOURCE_VAULT);
}

static void on_vault_dynamic(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	(void)row;
	vault_source(arg, v, SECRET_SOURCE_VAULT_DYNAMIC);
}

static bool of_vault(const struct secret_ctx *c) { return c->s.source == SECRET_SOURCE_VAULT || c->s.source == SECRET_SOURCE_VAULT_DYNAMIC; }

static void on_vault_field(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct secret_ctx *c = arg;

	(void)row;
	load_param(c->l, &c->s, SECRET_PARAM_FIELD, v->text);
	if (of_vault(c) && v->text.n <= 200)
		return;
	ERROR_AT(c->l, v->key, "`field` is the name of one field of a secret in `vault` or `vault_dynamic`");
	c->bad = true;
}

static void on_refresh(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct secret_ctx *c = arg;

	(void)row;
	c->s.refresh_s = (uint32_t)(v->number / 1000);
	if (c->s.source != SECRET_SOURCE_VAULT && c->s.source != SECRET_SOURCE_EXEC)
		ERROR_AT(c->l, v->key, "`refresh` belongs to `vault` and `exec`: %s", c->s.source == SECRET_SOURCE_VAULT_DYNAMIC ? "a dynamic secret has a lease of its own" : "others are read again when they change");
	else
		return;
	c->bad = true;
}

static void on_exec(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct secret_ctx *c = arg;

	(void)row;
	set_source(c, v, SECRET_SOURCE_EXEC, v->n > 0 ? v->items[0]->text : STR("/"));
	for (unsigned i = 1; i < v->n; i++)
		load_param(c->l, &c->s, SECRET_PARAM_WORD, v->items[i]->text);
	if (v->n > 0 && path_ok(c->s.arg))
		return;
	ERROR_AT(c->l, v->node, "`exec` is a program's absolute path and its arguments: no shell stands between");
	c->bad = true;
}

static void token(void *arg, const struct schema_value *v, enum secret_token kind)
{
	struct secret_ctx *c = arg;

	if (c->s.token != SECRET_TOKEN_NONE) {
		ERROR_AT(c->l, v->key, "one kind of token is obtained with a secret");
		c->bad = true;
		return;
	}
	c->bad = !load_token(c->l, v, kind, &c->s) || c->bad;
}

static void on_oauth2(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	(void)row;
	token(arg, v, SECRET_TOKEN_OAUTH2);
}

static void on_github_app(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	(void)row;
	token(arg, v, SECRET_TOKEN_GITHUB_APP);
}

static void on_gcp(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	(void)row;
	token(arg, v, SECRET_TOKEN_GCP);
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

static void on_override(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	(void)row;
	((struct secret_ctx *)arg)->s.over = v->truth;
}

static const struct schema_row secret_rows[] = {
	{ "env", SCHEMA_TEXT, false, on_env, NULL, 0, 0 },
	{ "file", SCHEMA_TEXT, false, on_file, NULL, 0, 0 },
	{ "hosts", SCHEMA_ONE_OR_MORE, true, on_hosts, "the hosts that it may be sent to", 0, 0 },
	{ "credential", SCHEMA_TEXT, false, on_credential, NULL, 0, 0 },
	{ "vault", SCHEMA_TEXT, false, on_vault, NULL, 0, 0 },
	{ "vault_dynamic", SCHEMA_TEXT, false, on_vault_dynamic, NULL, 0, 0 },
	{ "exec", SCHEMA_TEXTS, false, on_exec, NULL, 0, 64 },
	{ "follow", SCHEMA_BOOL, false, on_follow, NULL, 0, 0 },
	{ "field", SCHEMA_TEXT, false, on_vault_field, NULL, 0, 0 },
	{ "refresh", SCHEMA_TIME, false, on_refresh, NULL, 1000, SECRET_REFRESH_MAX_S * 1000ull },
	{ "oauth2", SCHEMA_MAP, false, on_oauth2, NULL, 0, 0 },
	{ "github_app", SCHEMA_MAP, false, on_github_app, NULL, 0, 0 },
	{ "gcp_service_account", SCHEMA_MAP, false, on_gcp, NULL, 0, 0 },
	{ "override", SCHEMA_BOOL, false, on_override, NULL, 0, 0 },
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
		if (before != NULL) { /* what builds on a file comes before it */
			if (!load_overrides(l, before->at.file, before->over, l->file))
				ERROR_AT(l, key, "secret `%.*s` is defined already, at %s: once in the whole, or with `override: true` in the file that builds on the other", DIAG_STR(key->text), load_there(l, before->at, place_of(l, key)));
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
			ERROR_AT(l, key, "secret `%.*s` has no source: `env: VARIABLE`, `file: /PATH`, `credential: NAME`, `vault: PATH`, `vault_dynamic: PATH` or `exec: [PROGRAM]`", DIAG_STR(key->text));
		/* kept even when bad: what refers to it needs no second error */
		c.s.index = p->secret_n;
		p->secrets[p->secret_n++] = c.s;
	}
}

struct schema_rows load_rows_secret(void) { return (struct schema_rows){ SCHEMA_ROWS(secret_rows) }; }
