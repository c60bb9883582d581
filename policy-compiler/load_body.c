/* SPDX-License-Identifier: Apache-2.0 */
/* `body`: conditions on a request's content. */
#include "load.h"

struct body_ctx {
	struct load *l;
	struct pol_rule *r;
	struct pol_cond *c;
	unsigned kinds; /* how many were said */
};

/* --- GraphQL ------------------------------------------------------------------------------------------------------- */

static void on_types(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	static const char *const names[] = { "query", "mutation", "subscription" };
	struct body_ctx *b = arg;

	(void)row;
	for (unsigned i = 0; i < v->n; i++) {
		unsigned k = 0;

		while (k < 3 && !str_eq(v->items[i]->text, str_of(names[k])))
			k++;
		if (k == 3)
			ERROR_AT(b->l, v->items[i], "the type of an operation is query, mutation or subscription");
		else
			b->c->graphql_types |= 1u << k;
	}
}

static void on_fields(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct body_ctx *b = arg;

	(void)row;
	load_texts(b->l, v->node, "a field", false, &b->c->fields);
}

static void on_names(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct body_ctx *b = arg;

	(void)row;
	load_texts(b->l, v->node, "a name", false, &b->c->names);
}

static const struct schema_row graphql_rows[] = {
	{ "type", SCHEMA_ONE_OR_MORE, false, on_types, NULL, 0, 0 },
	{ "fields", SCHEMA_ANY, false, on_fields, NULL, 0, 0 },
	{ "name", SCHEMA_ANY, false, on_names, NULL, 0, 0 },
};

static void on_graphql(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct body_ctx *b = arg;

	(void)row;
	b->kinds++;
	b->c->body = BODY_GRAPHQL;
	if (schema_parse(b->l->d, v->node, "`graphql`", SCHEMA_ROWS(graphql_rows), b) && b->c->graphql_types == 0 && b->c->fields.n == 0 && b->c->names.n == 0)
		ERROR_AT(b->l, v->node, "`graphql` has `type`, `fields` or `name`");
}

/* --- JSON, JSON-RPC, MCP ------------------------------------------------------------------------------------------- */

static void load_pointers(struct body_ctx *b, const struct yaml_node *n, const char *what)
{
	if (!load_values(b->l, n, what, b->r, true, &b->c->values))
		return;
	for (unsigned i = 0; i < b->c->values.n; i++) {
		struct str p = b->c->values.v[i].key;
		bool ok = p.p[0] == '/';

		for (size_t k = 0; k < p.n; k++)
			ok = ok && (p.p[k] != '~' || (k + 1 < p.n && (p.p[k + 1] == '0' || p.p[k + 1] == '1')));
		if (!ok)
			ERROR_AT(b->l, n->items[2 * i], "`%.*s` is not a JSON pointer such as /user/name (RFC 6901)", DIAG_STR(p));
	}
}

static void on_tools(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct body_ctx *b = arg;

	(void)row;
	load_texts(b->l, v->node, "a tool", false, &b->c->tools);
}

static void on_methods(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct body_ctx *b = arg;

	(void)row;
	load_texts(b->l, v->node, "a method", false, &b->c->methods);
}

static void on_arguments(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	(void)row;
	load_pointers(arg, v->node, "`arguments`");
}

static const struct schema_row mcp_rows[] = {
	{ "tools", SCHEMA_ANY, false, on_tools, NULL, 0, 0 },
	{ "methods", SCHEMA_ANY, false, on_methods, NULL, 0, 0 },
	{ "arguments", SCHEMA_MAP, false, on_arguments, NULL, 0, 0 },
};

static void on_mcp(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct body_ctx *b = arg;

	(void)row;
	b->kinds++;
	b->c->body = BODY_MCP;
	if (!schema_parse(b->l->d, v->node, "`mcp`", SCHEMA_ROWS(mcp_rows), b))
		return;
	if (b->c->tools.n == 0 && b->c->methods.n == 0)
		ERROR_AT(b->l, v->node, "`mcp` has `tools`, `methods`, or both");
	else if (b->c->tools.n == 0 && b->c->values.n > 0)
		ERROR_AT(b->l, v->node, "`arguments` are those of `tools`: name the tools");
}

static const struct schema_row jsonrpc_rows[] = { { "methods", SCHEMA_ANY, true, on_methods, NULL, 0, 0 } };

static void on_jsonrpc(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct body_ctx *b = arg;

	(void)row;
	b->kinds++;
	b->c->body = BODY_JSONRPC;
	schema_parse(b->l->d, v->node, "`jsonrpc`", SCHEMA_ROWS(jsonrpc_rows), b);
}

static void on_json(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct body_ctx *b = arg;

	(void)row;
	b->kinds++;
	b->c->body = BODY_JSON;
	load_pointers(b, v->node, "`json`");
}

/* --- git ----------------------------------------------------------------------------------------------------------- */

static void on_refs(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct body_ctx *b = arg;

	(void)row;
	if (!load_texts(b->l, v->node, "a ref", false, &b->c->refs))
		return;
	for (unsigned i = 0; i < b->c->refs.n; i++)
		if (!str_starts(b->c->refs.s[i], STR("refs/")))
			ERROR_AT(b->l, v->node, "a ref is named in full: refs/heads/main, refs/heads/agent/*, refs/tags/*");
}

static void on_force(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct body_ctx *b = arg;

	(void)row;
	if (!v->truth)
		ERROR_AT(b->l, v->node, "whether a push is forced cannot be seen in it: protect the branch at the origin, and list the refs that may be pushed here");
}

static void on_delete(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	(void)row;
	((struct body_ctx *)arg)->c->git_delete = v->truth;
}

static const struct schema_row git_rows[] = {
	{ "refs", SCHEMA_ANY, false, on_refs, NULL, 0, 0 },
	{ "force", SCHEMA_BOOL, false, on_force, NULL, 0, 0 },
	{ "delete", SCHEMA_BOOL, false, on_delete, NULL, 0, 0 },
};

static void on_git_push(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct body_ctx *b = arg;

	(void)row;
	b->kinds++;
	b->c->body = BODY_GIT_PUSH;
	schema_parse(b->l->d, v->node, "`git_push`", SCHEMA_ROWS(git_rows), b);
}

/* --- entry --------------------------------------------------------------------------------------------------------- */

static const struct schema_row body_rows[] = {
	{ "graphql", SCHEMA_MAP, false, on_graphql, NULL, 0, 0 },
	{ "mcp", SCHEMA_MAP, false, on_mcp, NULL, 0, 0 },
	{ "jsonrpc", SCHEMA_MAP, false, on_jsonrpc, NULL, 0, 0 },
	{ "json", SCHEMA_MAP, false, on_json, NULL, 0, 0 },
	{ "git_push", SCHEMA_MAP, false, on_git_push, NULL, 0, 0 },
};

void load_body(struct load *l, const struct yaml_node *n, struct pol_rule *r)
{
	struct body_ctx b = { l, r, load_cond(l, r, COND_BODY), 0 };

	if (n->kind == YAML_TEXT && (str_eq(n->text, STR("none")) || str_eq(n->text, STR("any")))) {
		b.c->body = n->text.p[0] == 'n' ? BODY_NONE : BODY_ANY;
		if (r->deny && b.c->body == BODY_ANY)
			ERROR_AT(l, n, "`body: any` says nothing in a deny rule");
	} else if (n->kind != YAML_MAP) {
		ERROR_AT(l, n, "`body` is none, any, or a map with graphql, mcp, jsonrpc, json or git_push");
	} else if (schema_parse(l->d, n, "`body`", SCHEMA_ROWS(body_rows), &b) && b.kinds != 1) {
		ERROR_AT(l, n, "`body` has one of graphql, mcp, jsonrpc, json and git_push");
	}
}

struct schema_rows load_rows_graphql(void) { return (struct schema_rows){ SCHEMA_ROWS(graphql_rows) }; }
struct schema_rows load_rows_mcp(void) { return (struct schema_rows){ SCHEMA_ROWS(mcp_rows) }; }
struct schema_rows load_rows_jsonrpc(void) { return (struct schema_rows){ SCHEMA_ROWS(jsonrpc_rows) }; }
struct schema_rows load_rows_git(void) { return (struct schema_rows){ SCHEMA_ROWS(git_rows) }; }
struct schema_rows load_rows_body(void) { return (struct schema_rows){ SCHEMA_ROWS(body_rows) }; }
