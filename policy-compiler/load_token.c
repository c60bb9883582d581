/* SPDX-License-Identifier: Apache-2.0 */
/* Of a secret: the token that is obtained with its value, and the end-point that gives it. */
#include "../common/base/must.h"
#include "load.h"

void load_param(struct load *l, struct pol_secret *s, enum secret_param tag, struct str text)
{
	unsigned at = s->param_n;

	if (s->param_n == s->param_cap) {
		unsigned cap = s->param_cap ? s->param_cap * 2 : 16;
		struct pol_param *p = arena_alloc(l->a, cap * sizeof(*p));

		if (s->param_n > 0)
			memcpy(p, s->params, s->param_n * sizeof(*p));
		s->params = p;
		s->param_cap = cap;
	}
	while (at > 0 && s->params[at - 1].tag > tag)
		at--;
	memmove(s->params + at + 1, s->params + at, (s->param_n - at) * sizeof(*s->params));
	s->params[at] = (struct pol_param){ tag, text };
	s->param_n++;
}

struct token_ctx {
	struct load *l;
	struct pol_secret *s;
	struct pol_dest end; /* what `addresses`, `connect` and `ca` say */
	struct str url;
	bool bad;
};

static void param(struct token_ctx *c, enum secret_param tag, const struct schema_value *v)
{
	load_param(c->l, c->s, tag, v->text);
	if (v->text.n <= 2000)
		return;
	ERROR_AT(c->l, v->node, "this is too long");
	c->bad = true;
}

static void on_url(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct token_ctx *c = arg;
	struct endpoint e;
	const char *why;

	c->url = v->text;
	if (endpoint_parse(v->text, &e, &why))
		return;
	ERROR_AT(c->l, v->node, "`%s` is https://HOST[:PORT]/PATH; %s", row->key, why);
	c->bad = true;
}

static void on_addresses(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct token_ctx *c = arg;
	struct cidr r;

	(void)row;
	if (v->n == 0) {
		ERROR_AT(c->l, v->node, "`addresses` is empty: no address would do; leave it out, or list ranges");
		c->bad = true;
	}
	for (unsigned i = 0; i < v->n; i++) {
		if (cidr_parse(v->items[i]->text, &r) && r.bits >= 8) {
			load_param(c->l, c->s, SECRET_PARAM_ADDRESS, v->items[i]->text);
			continue;
		}
		ERROR_AT(c->l, v->items[i], "`%.*s` is not an address range such as 10.20.0.0/16 or fd00:1::/32, not wider than /8", DIAG_STR(v->items[i]->text));
		c->bad = true;
	}
}

static void on_connect(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct token_ctx *c = arg;
	const char *reason;
	struct canon_host h;
	uint16_t port;

	(void)row;
	param(c, SECRET_PARAM_CONNECT, v);
	if (canon_authority(v->text, 0, &h, &port, &reason) && h.ip.family != 0)
		return;
	ERROR_AT(c->l, v->node, "`connect` is ADDRESS:PORT, such as 10.0.0.5:8443 or \"[fd00::5]:8443\"; `addresses` is to allow it");
	c->bad = true;
}

static void on_ca(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct token_ctx *c = arg;

	(void)row;
	load_ca(c->l, v->node, &c->end);
	for (unsigned i = 0; i < c->end.ca_n; i++)
		load_param(c->l, c->s, SECRET_PARAM_CA, c->end.cas[i]);
	c->bad = c->bad || c->end.ca_n == 0;
}

/* Rows of which each is one parameter. */
#define PARAM(name, tag) \
	static void name(void *arg, const struct schema_row *row, const struct schema_value *v) \
	{ \
		(void)row; \
		param(arg, tag, v); \
	}
PARAM(on_client_id, SECRET_PARAM_CLIENT_ID)
PARAM(on_scope, SECRET_PARAM_SCOPE)
PARAM(on_audience, SECRET_PARAM_AUDIENCE)
PARAM(on_subject, SECRET_PARAM_SUBJECT)
#undef PARAM

static void on_grant(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	(void)row;
	if (str_eq(v->text, STR("refresh_token")))
		param(arg, SECRET_PARAM_GRANT, v);
}

static void on_client_auth(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	(void)row;
	if (str_eq(v->text, STR("post")))
		param(arg, SECRET_PARAM_CLIENT_AUTH, v);
}

static bool word_ok(struct str s, const char *more)
{
	for (size_t i = 0; i < s.n; i++) {
		char c = ascii_lower(s.p[i]);

		if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || strchr(more, c) != NULL))
			return false;
	}
	return s.n > 0 && s.n <= 200;
}

static void on_app(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct token_ctx *c = arg;

	(void)row;
	param(c, SECRET_PARAM_APP, v);
	if (word_ok(v->text, "."))
		return;
	ERROR_AT(c->l, v->node, "`app` is the App's number or its client id");
	c->bad = true;
}

static void on_installation(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct token_ctx *c = arg;

	(void)row;
	param(c, SECRET_PARAM_INSTALLATION, v);
	for (size_t i = 0; i < v->text.n; i++)
		c->bad = c->bad || v->text.p[i] < '0' || v->text.p[i] > '9';
	if (c->bad || v->text.n > 20)
		ERROR_AT(c->l, v->node, "`installation` is the number of the App's installation");
}

static void on_repositories(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct token_ctx *c = arg;

	(void)row;
	for (unsigned i = 0; i < v->n; i++) {
		load_param(c->l, c->s, SECRET_PARAM_REPOSITORY, v->items[i]->text);
		if (word_ok(v->items[i]->text, "-_."))
			continue;
		ERROR_AT(c->l, v->items[i], "a repository's name, without its owner");
		c->bad = true;
	}
}

static void on_permissions(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct token_ctx *c = arg;

	(void)row;
	for (unsigned i = 0; i < v->n; i++) {
		const struct yaml_node *key = v->items[2 * i], *level = v->items[2 * i + 1];
		struct buf b = { 0 };

		if (level->kind != YAML_TEXT || !word_ok(key->text, "_") || (!str_eq(level->text, STR("read")) && !str_eq(level->text, STR("write")) && !str_eq(level->text, STR("admin")))) {
			ERROR_AT(c->l, key, "a permission is NAME: read, write or admin, as GitHub has it: contents: read");
			c->bad = true;
			continue;
		}
		buf_adds(&b, key->text);
		buf_addc(&b, '=');
		buf_adds(&b, level->text);
		load_param(c->l, c->s, SECRET_PARAM_PERMISSION, arena_str(c->l->a, buf_str(&b)));
		buf_fini(&b);
	}
}

#define ENDPOINT_ROWS(url) \
	{ "addresses", SCHEMA_TEXTS, false, on_addresses, NULL, 0, 100 }, \
		{ "connect", SCHEMA_TEXT, false, on_connect, NULL, 0, 0 }, \
		{ "ca", SCHEMA_TEXT, false, on_ca, NULL, 0, 0 }, \
	{ \
		url, SCHEMA_TEXT, false, on_url, NULL, 0, 0 \
	}

static const struct schema_row oauth2_rows[] = {
	{ "client_id", SCHEMA_TEXT, true, on_client_id, NULL, 0, 0 },
	{ "grant", SCHEMA_WORD, false, on_grant, "client_credentials|refresh_token", 0, 0 },
	{ "client_auth", SCHEMA_WORD, false, on_client_auth, "basic|post", 0, 0 },
	{ "scope", SCHEMA_TEXT, false, on_scope, NULL, 0, 0 },
	{ "audience", SCHEMA_TEXT, false, on_audience, NULL, 0, 0 },
	ENDPOINT_ROWS("token_url"),
};
static const struct schema_row github_rows[] = {
	{ "app", SCHEMA_TEXT, true, on_app, NULL, 0, 0 },
	{ "installation", SCHEMA_TEXT, true, on_installation, NULL, 0, 0 },
	{ "repositories", SCHEMA_TEXTS, false, on_repositories, NULL, 0, 500 },
	{ "permissions", SCHEMA_MAP, false, on_permissions, NULL, 0, 0 },
	ENDPOINT_ROWS("api"),
};
static const struct schema_row gcp_rows[] = {
	{ "scope", SCHEMA_TEXT, false, on_scope, NULL, 0, 0 },
	{ "audience", SCHEMA_TEXT, false, on_audience, NULL, 0, 0 },
	{ "subject", SCHEMA_TEXT, false, on_subject, NULL, 0, 0 },
	ENDPOINT_ROWS("token_url"),
};

bool load_token(struct load *l, const struct schema_value *v, enum secret_token kind, struct pol_secret *s)
{
	static const struct {
		const char *where, *url;
		const struct schema_row *rows;
		size_t n;
	} kinds[SECRET_TOKENS] = {
		[SECRET_TOKEN_OAUTH2] = { "oauth2", NULL, SCHEMA_ROWS(oauth2_rows) },
		[SECRET_TOKEN_GITHUB_APP] = { "github_app", "https://api.github.com", SCHEMA_ROWS(github_rows) },
		[SECRET_TOKEN_GCP] = { "gcp_service_account", "https://oauth2.googleapis.com/token", SCHEMA_ROWS(gcp_rows) },
	};
	struct token_ctx c = { .l = l, .s = s };
	bool given;

	s->token = kind;
	if (!schema_parse(l->d, v->node, kinds[kind].where, kinds[kind].rows, kinds[kind].n, &c))
		return false;
	if (c.url.n == 0 && kinds[kind].url != NULL)
		c.url = str_of(kinds[kind].url);
	given = c.url.n > 0;
	if (given)
		load_param(l, s, SECRET_PARAM_URL, c.url);
	else
		ERROR_AT(l, v->key, "`oauth2` needs `token_url`, where the token is had");
	if (kind == SECRET_TOKEN_GCP) {
		bool scope = false, audience = false;

		for (unsigned i = 0; i < s->param_n; i++) {
			scope = scope || s->params[i].tag == SECRET_PARAM_SCOPE;
			audience = audience || s->params[i].tag == SECRET_PARAM_AUDIENCE;
		}
		if (scope == audience) {
			ERROR_AT(l, v->key, "`gcp_service_account` needs `scope` (an access token) or `audience` (an identity token), one of them");
			return false;
		}
	}
	return given && !c.bad;
}

struct schema_rows load_rows_oauth2(void) { return (struct schema_rows){ SCHEMA_ROWS(oauth2_rows) }; }
struct schema_rows load_rows_github_app(void) { return (struct schema_rows){ SCHEMA_ROWS(github_rows) }; }
struct schema_rows load_rows_gcp(void) { return (struct schema_rows){ SCHEMA_ROWS(gcp_rows) }; }
