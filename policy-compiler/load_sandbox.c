/* SPDX-License-Identifier: Apache-2.0 */
/* The `sandbox:` section: rows drive what is known and its type; a key's name in the table is its path. */
#include <stdio.h>

#include "../common/policy/sandbox_spec.h"
#include "load.h"

struct section_ctx {
	struct load *l;
	const char *prefix; /* "filesystem.", or "" */
	struct pol_place at; /* of the section */
	bool over;           /* override: true */
};

static void add(struct section_ctx *c, const char *key, struct str value)
{
	struct policy *p = c->l->p;
	struct buf b = { 0 };

	if (p->sandbox_n == p->sandbox_cap) {
		unsigned cap = p->sandbox_cap ? p->sandbox_cap * 2 : 32;
		struct pol_kv *more = arena_alloc(c->l->a, cap * sizeof(*more));

		if (p->sandbox_n)
			memcpy(more, p->sandbox, p->sandbox_n * sizeof(*more));
		p->sandbox = more;
		p->sandbox_cap = cap;
	}
	buf_addf(&b, "%s%s", c->prefix, key);
	p->sandbox[p->sandbox_n++] = (struct pol_kv){ arena_str(c->l->a, buf_str(&b)), value, c->at, c->over };
	buf_fini(&b);
}

static void on_text(void *arg, const struct schema_row *row, const struct schema_value *v) { add(arg, row->key, v->text); }

static void on_number(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct section_ctx *c = arg;
	char t[24];

	snprintf(t, sizeof(t), "%llu", (unsigned long long)v->number);
	add(c, row->key, arena_str(c->l->a, str_of(t)));
}

static void on_texts(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	for (unsigned i = 0; i < v->n; i++)
		add(arg, row->key, v->items[i]->text);
}

/*
 * Names of folders and files: absolute, below ~, or relative to the working directory. An empty list says "nothing", not "as
 * without it": it goes into the table as one empty name.
 */
static void on_paths(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct section_ctx *c = arg;

	if (v->n == 0)
		add(c, row->key, STR(""));
	for (unsigned i = 0; i < v->n; i++) {
		struct str s = v->items[i]->text;

		if (s.n == 0)
			ERROR_AT(c->l, v->items[i], "an entry of `%s` is empty", row->key);
		else if (s.n >= 4096)
			ERROR_AT(c->l, v->items[i], "an entry of `%s` is too long", row->key);
		else if (s.p[0] == '~' && s.n > 1 && s.p[1] != '/')
			ERROR_AT(c->l, v->items[i], "`%.*s`: only ~ and ~/... are known, not another user's home", DIAG_STR(s));
		else
			add(c, row->key, s);
	}
}

static bool variable_ok(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] == '=' || s.p[i] == ' ' || (unsigned char)s.p[i] < 0x20)
			return false;
	return s.n > 0 && s.n <= 200;
}

/* An empty list says "none", as with paths: a boundary with it lets none be kept. */
static void on_keep(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct section_ctx *c = arg;

	if (v->n == 0)
		add(c, row->key, STR(""));
	for (unsigned i = 0; i < v->n; i++) {
		if (variable_ok(v->items[i]->text))
			add(c, row->key, v->items[i]->text);
		else
			ERROR_AT(c->l, v->items[i], "`%.*s` is not the name of a variable", DIAG_STR(v->items[i]->text));
	}
}

static void on_set(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct section_ctx *c = arg;

	(void)row;
	if (v->n > SPEC_LIST_MAX) {
		ERROR_AT(c->l, v->node, "`set` has more than %d entries", SPEC_LIST_MAX);
		return;
	}
	for (unsigned i = 0; i < v->n; i++) {
		const struct yaml_node *key = v->items[2 * i], *value = v->items[2 * i + 1];

		if (!variable_ok(key->text))
			ERROR_AT(c->l, key, "`%.*s` is not the name of a variable", DIAG_STR(key->text));
		else if (value->kind == YAML_LIST || value->kind == YAML_MAP || value->text.n > UINT16_MAX)
			ERROR_AT(c->l, value, "the value of a variable is text");
		else {
			add(c, "set.name", key->text);
			add(c, "set.value", value->kind == YAML_NULL && value->text.n == 0 ? STR("") : value->text);
		}
	}
}

static void parse(struct section_ctx *outer, const struct schema_value *v, const char *prefix, const char *where, const struct schema_row *rows, size_t n)
{
	struct section_ctx c = { outer->l, prefix, place_of(outer->l, v->key), outer->over };

	schema_parse(c.l->d, v->node, where, rows, n, &c);
}

static const struct schema_row fs_rows[] = {
	{ "root", SCHEMA_WORD, false, on_text, "host", 0, 0 },
	{ "home", SCHEMA_WORD, false, on_text, "tools|empty|host", 0, 0 },
	{ "write", SCHEMA_TEXTS, false, on_paths, NULL, 0, SPEC_LIST_MAX },
	{ "read", SCHEMA_TEXTS, false, on_paths, NULL, 0, SPEC_LIST_MAX },
	{ "hide", SCHEMA_TEXTS, false, on_paths, NULL, 0, SPEC_LIST_MAX },
	{ "protect", SCHEMA_TEXTS, false, on_paths, NULL, 0, SPEC_LIST_MAX },
	{ "scratch", SCHEMA_SIZE, false, on_number, NULL, 1 << 20, 0 },
	{ "persist", SCHEMA_LATER, false, NULL, "folders that persist", 0, 0 },
};
static const struct schema_row environment_rows[] = {
	{ "keep", SCHEMA_TEXTS, false, on_keep, NULL, 0, SPEC_LIST_MAX },
	{ "set", SCHEMA_MAP, false, on_set, NULL, 0, 0 },
};

static void on_environment(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	(void)row;
	parse(arg, v, "process.environment.", "process.environment", SCHEMA_ROWS(environment_rows));
}

static void on_nothing(void *arg, const struct schema_row *row, const struct schema_value *v) { (void)arg, (void)row, (void)v; }

static const struct schema_row process_rows[] = {
	{ "user", SCHEMA_TEXT, false, on_text, NULL, 0, 0 },
	{ "environment", SCHEMA_MAP, false, on_environment, NULL, 0, 0 },
	{ "nested_sandboxes", SCHEMA_WORD, false, on_nothing, "false", 0, 0 },
};
static const struct schema_row resource_rows[] = {
	{ "memory", SCHEMA_SIZE, false, on_number, NULL, 1 << 20, 0 },
	{ "cpus", SCHEMA_DECIMAL, false, on_number, NULL, 100, 4096000 },
	{ "processes", SCHEMA_NUMBER, false, on_number, NULL, 1, 1 << 22 },
	{ "open_files", SCHEMA_NUMBER, false, on_number, NULL, 16, 1 << 20 },
	{ "wall_time", SCHEMA_TIME, false, on_number, NULL, 1, 0 },
	{ "idle_time", SCHEMA_TIME, false, on_number, NULL, 1, 0 },
};

static void on_filesystem(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	(void)row;
	parse(arg, v, "filesystem.", "filesystem", SCHEMA_ROWS(fs_rows));
}

static void on_process(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	(void)row;
	parse(arg, v, "process.", "process", SCHEMA_ROWS(process_rows));
}

static void on_resources(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	(void)row;
	parse(arg, v, "resources.", "resources", SCHEMA_ROWS(resource_rows));
}

static void on_override(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	(void)row;
	((struct section_ctx *)arg)->over = v->truth;
}

static const struct schema_row sandbox_rows[] = {
	{ "override", SCHEMA_BOOL, false, on_override, NULL, 0, 0 },
	{ "isolation", SCHEMA_WORD, false, on_text, "namespace", 0, 0 },
	{ "filesystem", SCHEMA_MAP, false, on_filesystem, NULL, 0, 0 },
	{ "process", SCHEMA_MAP, false, on_process, NULL, 0, 0 },
	{ "resources", SCHEMA_MAP, false, on_resources, NULL, 0, 0 },
	{ "on_misuse", SCHEMA_WORD, false, on_text, "record|stop_sandbox", 0, 0 },
	{ "on_gateway_loss", SCHEMA_WORD, false, on_text, "wait|stop", 0, 0 },
	{ "require", SCHEMA_TEXTS, false, on_texts, NULL, 0, SPEC_LIST_MAX },
};

void load_sandbox(struct load *l, const struct yaml_node *n)
{
	struct section_ctx c = { l, "", place_of(l, n), false };
	unsigned before = l->p->sandbox_n;

	schema_parse(l->d, n, "sandbox", SCHEMA_ROWS(sandbox_rows), &c);
	if (l->file > 0)
		load_merge_sandbox(l, before);
}

struct schema_rows load_rows_fs(void) { return (struct schema_rows){ SCHEMA_ROWS(fs_rows) }; }
struct schema_rows load_rows_environment(void) { return (struct schema_rows){ SCHEMA_ROWS(environment_rows) }; }
struct schema_rows load_rows_process(void) { return (struct schema_rows){ SCHEMA_ROWS(process_rows) }; }
struct schema_rows load_rows_resource(void) { return (struct schema_rows){ SCHEMA_ROWS(resource_rows) }; }
struct schema_rows load_rows_sandbox(void) { return (struct schema_rows){ SCHEMA_ROWS(sandbox_rows) }; }
