/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON Schema (2020-12) of the policy language, for editors, from the rows that read it. It tells keys and kinds of values;
 * what only the whole tells is `policy check`'s.
 */
#include "schema_json.h"

#include "../common/base/jsonw.h"
#include "load.h"

/* How a key's value goes on, where the rows leave it to code. */
enum shape { SHAPE_MAP = 0,
	     SHAPE_LIST_OF,
	     SHAPE_MAP_OF,
	     SHAPE_RULES, SHAPE_RULES_OR_TUNNEL,
	     SHAPE_VALUES,
	     SHAPE_VALUES_OR_NONE,
	     SHAPE_TEXTS,
	     SHAPE_TEXT_OR_MAP,
	     SHAPE_BODY };
static const struct map {
	const char *name;
	struct schema_rows (*rows)(void);
} maps[] = {
	{ "policy", load_rows_top },
	{ "destination", load_rows_dest },
	{ "tls", load_rows_tls },
	{ "paths", load_rows_paths },
	{ "limits", load_rows_limits },
	{ "rule", load_rows_rule },
	{ "value", load_rows_value },
	{ "valid", load_rows_valid },
	{ "tunnel", load_rows_tunnel },
	{ "body", load_rows_body },
	{ "graphql", load_rows_graphql },
	{ "mcp", load_rows_mcp },
	{ "jsonrpc", load_rows_jsonrpc },
	{ "git_push", load_rows_git },
	{ "secret", load_rows_secret },
	{ "inject", load_rows_inject },
	{ "oauth2", load_rows_oauth2 },
	{ "github_app", load_rows_github_app },
	{ "gcp_service_account", load_rows_gcp },
	{ "test", load_rows_test },
	{ "sandbox", load_rows_sandbox },
	{ "filesystem", load_rows_fs },
	{ "process", load_rows_process },
	{ "environment", load_rows_environment },
	{ "resources", load_rows_resource },
};
static const struct link {
	const char *map, *key;
	enum shape shape;
	const char *to;
} links[] = {
	{ "policy", "limits", SHAPE_MAP, "limits" },
	{ "policy", "secrets", SHAPE_MAP_OF, "secret" },
	{ "secret", "oauth2", SHAPE_MAP, "oauth2" },
	{ "secret", "github_app", SHAPE_MAP, "github_app" },
	{ "secret", "gcp_service_account", SHAPE_MAP, "gcp_service_account" },
	{ "policy", "destinations", SHAPE_LIST_OF, "destination" },
	{ "policy", "tests", SHAPE_LIST_OF, "test" },
	{ "policy", "sandbox", SHAPE_MAP, "sandbox" },
	{ "destination", "tls", SHAPE_MAP, "tls" },
	{ "destination", "paths", SHAPE_MAP, "paths" },
	{ "destination", "limits", SHAPE_MAP, "limits" },
	{ "destination", "allow", SHAPE_RULES_OR_TUNNEL, "tunnel" },
	{ "destination", "deny", SHAPE_RULES, NULL },
	{ "destination", "inject", SHAPE_LIST_OF, "inject" },
	{ "inject", "env", SHAPE_TEXT_OR_MAP, NULL },
	{ "rule", "query", SHAPE_VALUES_OR_NONE, NULL },
	{ "rule", "headers", SHAPE_VALUES, NULL },
	{ "rule", "body", SHAPE_BODY, NULL },
	{ "rule", "valid", SHAPE_MAP, "valid" },
	{ "tunnel", "valid", SHAPE_MAP, "valid" },
	{ "rule", "limits", SHAPE_MAP, "limits" },
	{ "value", "equals", SHAPE_TEXTS, NULL },
	{ "value", "matches", SHAPE_TEXTS, NULL },
	{ "body", "graphql", SHAPE_MAP, "graphql" },
	{ "body", "mcp", SHAPE_MAP, "mcp" },
	{ "body", "jsonrpc", SHAPE_MAP, "jsonrpc" },
	{ "body", "json", SHAPE_VALUES, NULL },
	{ "body", "git_push", SHAPE_MAP, "git_push" },
	{ "graphql", "fields", SHAPE_TEXTS, NULL },
	{ "graphql", "name", SHAPE_TEXTS, NULL },
	{ "mcp", "tools", SHAPE_TEXTS, NULL },
	{ "mcp", "methods", SHAPE_TEXTS, NULL },
	{ "mcp", "arguments", SHAPE_VALUES, NULL },
	{ "jsonrpc", "methods", SHAPE_TEXTS, NULL },
	{ "git_push", "refs", SHAPE_TEXTS, NULL },
	{ "sandbox", "filesystem", SHAPE_MAP, "filesystem" },
	{ "sandbox", "process", SHAPE_MAP, "process" },
	{ "sandbox", "resources", SHAPE_MAP, "resources" },
	{ "process", "environment", SHAPE_MAP, "environment" },
};

static void put_ref(struct jsonw *w, const char *name)
{
	char text[64];

	snprintf(text, sizeof(text), "#/$defs/%s", name);
	jsonw_open(w, '{');
	jsonw_kz(w, "$ref", text);
	jsonw_close(w, '}');
}

static void put_list_of(struct jsonw *w, const char *name)
{
	jsonw_open(w, '{');
	jsonw_kz(w, "type", "array");
	jsonw_key(w, "items");
	put_ref(w, name);
	jsonw_close(w, '}');
}

static void put_map_of(struct jsonw *w, const char *name)
{
	jsonw_open(w, '{');
	jsonw_kz(w, "type", "object");
	jsonw_key(w, "additionalProperties");
	put_ref(w, name);
	jsonw_close(w, '}');
}

static void any_of(struct jsonw *w)
{
	jsonw_open(w, '{');
	jsonw_kopen(w, "anyOf", '[');
}

static void end_any_of(struct jsonw *w)
{
	jsonw_close(w, ']');
	jsonw_close(w, '}');
}

static void put_words(struct jsonw *w, const char *words)
{
	jsonw_open(w, '{');
	jsonw_kopen(w, "enum", '[');
	for (const char *p = words; *p;) {
		size_t n = strcspn(p, "|");

		jsonw_str(w, str_mk(p, n));
		if (str_eq(str_mk(p, n), STR("false")) || str_eq(str_mk(p, n), STR("off"))) /* editors read it as what it looks like */
			jsonw_bool(w, false);
		if (str_eq(str_mk(p, n), STR("on")))
			jsonw_bool(w, true);
		p += n + (p[n] == '|');
	}
	jsonw_close(w, ']');
	jsonw_close(w, '}');
}

static void put_pattern(struct jsonw *w, const char *pattern)
{
	jsonw_open(w, '{');
	jsonw_kz(w, "type", "string");
	jsonw_kz(w, "pattern", pattern);
	jsonw_close(w, '}');
}

static void put_type(struct jsonw *w, const char *type)
{
	jsonw_open(w, '{');
	jsonw_kz(w, "type", type);
	jsonw_close(w, '}');
}

static void put_shape(struct jsonw *w, const struct link *l)
{
	switch (l->shape) {
	case SHAPE_MAP:
		put_ref(w, l->to);
		break;
	case SHAPE_LIST_OF:
		put_list_of(w, l->to);
		break;
	case SHAPE_MAP_OF:
		put_map_of(w, l->to);
		break;
	case SHAPE_RULES:
		put_list_of(w, "rule_or_text");
		break;
	case SHAPE_RULES_OR_TUNNEL:
		any_of(w);
		put_words(w, "tunnel");
		put_ref(w, l->to);
		put_list_of(w, "rule_or_text");
		end_any_of(w);
		break;
	case SHAPE_VALUES:
		put_map_of(w, "value_or_text");
		break;
	case SHAPE_VALUES_OR_NONE:
		any_of(w);
		put_words(w, "none");
		put_map_of(w, "value_or_text");
		end_any_of(w);
		break;
	case SHAPE_TEXTS:
		put_ref(w, "texts");
		break;
	case SHAPE_TEXT_OR_MAP:
		any_of(w);
		put_ref(w, "text");
		put_map_of(w, "text");
		end_any_of(w);
		break;
	case SHAPE_BODY:
		any_of(w);
		put_words(w, "none|any");
		put_ref(w, "body");
		end_any_of(w);
		break;
	}
}

static void put_value(struct jsonw *w, const char *map, const struct schema_row *r)
{
	for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
		if (strcmp(links[i].map, map) == 0 && strcmp(links[i].key, r->key) == 0) {
			put_shape(w, &links[i]);
			return;
		}
	}
	switch (r->type) {
	case SCHEMA_BOOL:
		put_type(w, "boolean");
		break;
	case SCHEMA_WORD:
		put_words(w, r->note);
		break;
	case SCHEMA_NUMBER:
		put_type(w, "integer");
		break;
	case SCHEMA_DECIMAL:
		put_type(w, "number");
		break;
	case SCHEMA_SIZE:
		put_pattern(w, "^[0-9]+(B|KiB|MiB|GiB|KB|MB|GB)$");
		break;
	case SCHEMA_TIME:
		put_pattern(w, "^[0-9]+(ms|s|m|h|d)$");
		break;
	case SCHEMA_TEXTS:
	case SCHEMA_ONE_OR_MORE:
		put_ref(w, r->type == SCHEMA_TEXTS ? "list" : "texts");
		break;
	case SCHEMA_LIST:
		put_type(w, "array");
		break;
	case SCHEMA_MAP:
		put_type(w, "object");
		break;
	default:
		put_ref(w, "text");
		break;
	}
}

static void put_map(struct jsonw *w, const struct map *m)
{
	struct schema_rows s = m->rows();
	bool any = false;

	jsonw_kopen(w, m->name, '{');
	jsonw_kz(w, "type", "object");
	jsonw_kopen(w, "properties", '{');
	for (size_t i = 0; i < s.n; i++) {
		if (s.rows[i].type == SCHEMA_LATER)
			continue;
		any = any || s.rows[i].required;
		jsonw_key(w, s.rows[i].key);
		put_value(w, m->name, &s.rows[i]);
	}
	jsonw_close(w, '}');
	if (any) {
		jsonw_kopen(w, "required", '[');
		for (size_t i = 0; i < s.n; i++)
			if (s.rows[i].required)
				jsonw_str(w, str_of(s.rows[i].key));
		jsonw_close(w, ']');
	}
	jsonw_key(w, "additionalProperties");
	jsonw_bool(w, false);
	jsonw_close(w, '}');
}

void schema_json(struct buf *out)
{
	struct jsonw w = jsonw_on(out);

	jsonw_open(&w, '{');
	jsonw_kz(&w, "$schema", "https://json-schema.org/draft/2020-12/schema");
	jsonw_kz(&w, "title", "Sallyport policy");
	jsonw_kz(&w, "$ref", "#/$defs/policy");
	jsonw_kopen(&w, "$defs", '{');
	jsonw_kopen(&w, "text", '{'); /* scalars are text here, whatever editors take them for */
	jsonw_kopen(&w, "type", '[');
	jsonw_str(&w, STR("string"));
	jsonw_str(&w, STR("number"));
	jsonw_str(&w, STR("boolean"));
	jsonw_close(&w, ']');
	jsonw_close(&w, '}');
	jsonw_key(&w, "list");
	put_list_of(&w, "text");
	jsonw_key(&w, "texts");
	any_of(&w);
	put_ref(&w, "text");
	put_ref(&w, "list");
	end_any_of(&w);
	jsonw_key(&w, "value_or_text");
	any_of(&w);
	put_ref(&w, "texts");
	put_ref(&w, "value");
	end_any_of(&w);
	jsonw_key(&w, "rule_or_text");
	any_of(&w);
	put_pattern(&w, "^[A-Z*][A-Z0-9_|,*-]* +[/*]");
	put_ref(&w, "rule");
	end_any_of(&w);
	for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]); i++)
		put_map(&w, &maps[i]);
	jsonw_close(&w, '}');
	jsonw_close(&w, '}');
	buf_addc(out, '\n');
}
