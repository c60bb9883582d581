/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `vault:` of gateway.yaml. What is said there goes to `secrets` as NAME=value\0..., the addresses to the dialer as well.
 * A token never stands in the configuration: it is in a file, whose name does.
 */
#include <stdio.h>
#include <string.h>

#include "../../common/policy/secret_param.h"
#include "config.h"

struct vault_load {
	struct config_load *l;
	struct config_vault *v;
	bool bad;
	struct str method;
	unsigned given; /* bit per key of `auth` */
};
enum { GIVEN_ROLE = 1,
       GIVEN_ROLE_ID = 2,
       GIVEN_SECRET_ID = 4,
       GIVEN_TOKEN = 8,
       GIVEN_JWT = 16,
       GIVEN_CERT = 32,
       GIVEN_KEY = 64,
       GIVEN_WRAPPED = 128 };

static void wrong(struct vault_load *l, const struct yaml_node *n, const char *text)
{
	diag_error(l->l->d, n->line, n->col, "%s", text);
	l->bad = true;
}

static void add(struct vault_load *l, const char *name, struct str value, const struct yaml_node *at)
{
	int n = snprintf(l->v->text + l->v->n, sizeof(l->v->text) - l->v->n, "%s=%.*s", name, (int)value.n, value.p);

	if (n < 0 || (size_t)n + 1 >= sizeof(l->v->text) - l->v->n)
		wrong(l, at, "`vault` says too much");
	else
		l->v->n += (size_t)n + 1;
}

static void on_address(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct vault_load *l = arg;

	(void)row;
	for (unsigned i = 0; i < v->n; i++) {
		struct str url = v->items[i]->text;
		size_t used = strlen(l->v->urls);
		struct endpoint e;
		const char *why;

		if (i == 8 || used + url.n + 2 > sizeof(l->v->urls)) {
			wrong(l, v->items[i], "Vault has at most 8 addresses");
			return;
		}
		if (!endpoint_parse(url, &e, &why)) {
			diag_error(l->l->d, v->items[i]->line, v->items[i]->col, "an address of Vault is https://HOST[:PORT]; %s", why);
			l->bad = true;
			continue;
		}
		snprintf(l->v->urls + used, sizeof(l->v->urls) - used, "%.*s\n", (int)url.n, url.p);
		add(l, "address", url, v->items[i]);
	}
}

static void on_namespace(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	(void)row;
	add(arg, "namespace", v->text, v->node);
}

static void on_ca(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct vault_load *l = arg;

	(void)row;
	if (!config_path(l->l, v->text, l->v->ca))
		wrong(l, v->node, "the path is too long");
}

static void on_method(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct vault_load *l = arg;

	(void)row;
	l->method = v->text;
	add(l, "method", v->text, v->node);
}

static void on_mount(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	(void)row;
	add(arg, "mount", v->text, v->node);
}

static void on_role(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct vault_load *l = arg;

	(void)row;
	l->given |= GIVEN_ROLE;
	add(l, "role", v->text, v->node);
}

static void on_role_id(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct vault_load *l = arg;

	(void)row;
	l->given |= GIVEN_ROLE_ID;
	add(l, "role_id", v->text, v->node);
}

static void on_wrapped(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct vault_load *l = arg;

	(void)row;
	l->given |= GIVEN_WRAPPED;
	if (v->truth)
		add(l, "wrapped", STR("true"), v->node);
}

/* PATH, or credential:NAME of the gateway's unit. */
static void on_path(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	static const struct {
		const char *key;
		unsigned bit;
	} keys[] = { { "token_file", GIVEN_TOKEN }, { "secret_id_file", GIVEN_SECRET_ID }, { "jwt_file", GIVEN_JWT }, { "cert_file", GIVEN_CERT }, { "key_file", GIVEN_KEY } };
	struct vault_load *l = arg;
	char path[4096];

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (strcmp(row->key, keys[i].key) == 0)
			l->given |= keys[i].bit;
	if (str_starts(v->text, STR("credential:"))) {
		add(l, row->key, v->text, v->node);
	} else if (config_path(l->l, v->text, path) && path[0] == '/') {
		add(l, row->key, str_of(path), v->node);
	} else {
		wrong(l, v->node, "a file is an absolute path, a path beside this configuration, or credential:NAME (systemd)");
	}
}

static const struct schema_row auth_rows[] = {
	{ "method", SCHEMA_WORD, true, on_method, "token|approle|kubernetes|jwt|cert", 0, 0 },
	{ "mount", SCHEMA_TEXT, false, on_mount, NULL, 0, 0 },
	{ "role", SCHEMA_TEXT, false, on_role, NULL, 0, 0 },
	{ "role_id", SCHEMA_TEXT, false, on_role_id, NULL, 0, 0 },
	{ "secret_id_file", SCHEMA_TEXT, false, on_path, NULL, 0, 0 },
	{ "wrapped", SCHEMA_BOOL, false, on_wrapped, NULL, 0, 0 },
	{ "token_file", SCHEMA_TEXT, false, on_path, NULL, 0, 0 },
	{ "jwt_file", SCHEMA_TEXT, false, on_path, NULL, 0, 0 },
	{ "cert_file", SCHEMA_TEXT, false, on_path, NULL, 0, 0 },
	{ "key_file", SCHEMA_TEXT, false, on_path, NULL, 0, 0 },
};

static void on_auth(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	static const struct {
		const char *method;
		unsigned needs, may;
		const char *text;
	} methods[] = {
		{ "token", GIVEN_TOKEN, GIVEN_TOKEN, "`method: token` needs `token_file`, and nothing else" },
		{ "approle", GIVEN_ROLE_ID, GIVEN_ROLE_ID | GIVEN_SECRET_ID | GIVEN_WRAPPED, "`method: approle` needs `role_id`, and has `secret_id_file` and `wrapped`" },
		{ "kubernetes", GIVEN_ROLE, GIVEN_ROLE | GIVEN_JWT, "`method: kubernetes` needs `role`, and has `jwt_file`" },
		{ "jwt", GIVEN_ROLE | GIVEN_JWT, GIVEN_ROLE | GIVEN_JWT, "`method: jwt` needs `role` and `jwt_file`" },
		{ "cert", GIVEN_CERT | GIVEN_KEY, GIVEN_CERT | GIVEN_KEY | GIVEN_ROLE, "`method: cert` needs `cert_file` and `key_file`, and has `role`" },
	};
	struct vault_load *l = arg;

	(void)row;
	if (!schema_parse(l->l->d, v->node, "auth", SCHEMA_ROWS(auth_rows), l))
		return;
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
		if (str_eq(l->method, str_of(methods[i].method)) && ((l->given & methods[i].needs) != methods[i].needs || (l->given & ~methods[i].may) != 0))
			wrong(l, v->node, methods[i].text);
	if (str_eq(l->method, STR("kubernetes")) && !(l->given & GIVEN_JWT))
		add(l, "jwt_file", STR("/var/run/secrets/kubernetes.io/serviceaccount/token"), v->node);
}

static const struct schema_row vault_rows[] = {
	{ "address", SCHEMA_ONE_OR_MORE, true, on_address, NULL, 0, 0 },
	{ "namespace", SCHEMA_TEXT, false, on_namespace, NULL, 0, 0 },
	{ "ca", SCHEMA_TEXT, false, on_ca, NULL, 0, 0 },
	{ "auth", SCHEMA_MAP, true, on_auth, "how we log in: { method: approle, ... }", 0, 0 },
};

void config_vault_load(struct config_load *l, const struct yaml_node *n)
{
	struct vault_load v = { .l = l, .v = &l->c->vault };

	schema_parse(l->d, n, "vault", SCHEMA_ROWS(vault_rows), &v);
}
