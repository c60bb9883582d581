/* SPDX-License-Identifier: Apache-2.0 */
/* The `sandbox:` section: rows drive what is known, its type, and the key it has in the table. */
#include <stdio.h>

#include "model.h"

enum type { T_TEXT, T_LIST, T_SIZE, T_NUMBER, T_TIME, T_MILLI, T_BOOL, T_MAP_SET };
struct row {
	const char *key;
	enum type type;
	const char *values; /* allowed words, "a|b", or NULL */
	const char *later;
};
struct section {
	const char *name; /* below sandbox; "" is sandbox itself */
	const struct row *rows;
	size_t n;
};
static const struct row own[] = { { "isolation", T_TEXT, "namespace", NULL }, { "on_misuse", T_TEXT, "record|stop_sandbox", NULL },
	{ "on_gateway_loss", T_TEXT, "wait|stop", NULL }, { "require", T_LIST, NULL, NULL } };
static const struct row fs[] = { { "root", T_TEXT, "host", NULL }, { "home", T_TEXT, "tools|empty|host", NULL }, { "write", T_LIST, NULL, NULL }, { "read", T_LIST, NULL, NULL },
	{ "hide", T_LIST, NULL, NULL }, { "protect", T_LIST, NULL, NULL }, { "scratch", T_SIZE, NULL, NULL }, { "persist", T_LIST, NULL, "(folders that persist)" } };
static const struct row process[] = { { "user", T_TEXT, NULL, NULL }, { "nested_sandboxes", T_BOOL, "false", NULL } };
static const struct row env[] = { { "keep", T_LIST, NULL, NULL }, { "set", T_MAP_SET, NULL, NULL } };
static const struct row resources[] = { { "memory", T_SIZE, NULL, NULL }, { "cpus", T_MILLI, NULL, NULL }, { "processes", T_NUMBER, NULL, NULL },
	{ "open_files", T_NUMBER, NULL, NULL }, { "wall_time", T_TIME, NULL, NULL }, { "idle_time", T_TIME, NULL, NULL } };
#define SECTION(name, rows) { name, rows, sizeof(rows) / sizeof((rows)[0]) }
static const struct section sections[] = { SECTION("", own), SECTION("filesystem", fs), SECTION("process", process), SECTION("process.environment", env), SECTION("resources", resources) };

static void add(struct policy *p, const char *section, const char *key, struct str value)
{
	struct buf b = { 0 };

	if (p->sandbox_n % 64 == 0) {
		struct pol_kv *more = arena_zalloc(&p->mem, (p->sandbox_n + 64) * sizeof(*more));

		if (p->sandbox_n)
			memcpy(more, p->sandbox, p->sandbox_n * sizeof(*more));
		p->sandbox = more;
	}
	if (section[0])
		buf_addf(&b, "%s.", section);
	buf_addz(&b, key);
	p->sandbox[p->sandbox_n++] = (struct pol_kv){ arena_str(&p->mem, buf_str(&b)), value };
	buf_fini(&b);
}

static void add_u64(struct policy *p, const char *section, const char *key, uint64_t v)
{
	char t[24];

	snprintf(t, sizeof(t), "%llu", (unsigned long long)v);
	add(p, section, key, arena_str(&p->mem, str_of(t)));
}

/* NUMBER[.FRACTION] UNIT; units as "name\0" with factors. */
static bool with_unit(struct str s, const char *const *units, const uint64_t *factors, size_t n, uint64_t *out)
{
	size_t i = 0;
	uint64_t v;

	while (i < s.n && s.p[i] >= '0' && s.p[i] <= '9')
		i++;
	if (!str_u64(str_mk(s.p, i), UINT64_MAX >> 24, &v))
		return false;
	for (size_t k = 0; k < n; k++) {
		if (str_eq(str_mk(s.p + i, s.n - i), str_of(units[k])) && v <= (UINT64_MAX >> 1) / factors[k]) {
			*out = v * factors[k];
			return true;
		}
	}
	return false;
}

static bool word_in(const char *words, struct str w)
{
	const char *p = words;

	while (*p) {
		size_t n = strcspn(p, "|");

		if (n == w.n && memcmp(p, w.p, n) == 0)
			return true;
		p += n + (p[n] == '|');
	}
	return false;
}

static void value(struct policy *p, const char *section, const struct row *r, struct yaml_node *v, struct diag *d)
{
	static const char *const size_units[] = { "", "KiB", "MiB", "GiB", "KB", "MB", "GB" }, *const time_units[] = { "s", "m", "h", "d", "ms" };
	static const uint64_t sizes[] = { 1, 1024, 1024 * 1024, 1024 * 1024 * 1024, 1000, 1000000, 1000000000 }, times[] = { 1000, 60000, 3600000, 86400000, 1 };
	uint64_t u;

	if (r->type == T_LIST) {
		if (v->kind != YAML_LIST) {
			diag_error(d, v, "`%s` must be a list", r->key);
			return;
		}
		if (v->n > 60) {
			diag_error(d, v, "`%s` has more than 60 entries", r->key);
			return;
		}
		for (unsigned i = 0; i < v->n; i++) {
			if (v->items[i]->kind != YAML_TEXT)
				diag_error(d, v->items[i], "an entry of `%s` must be text", r->key);
			else
				add(p, section, r->key, v->items[i]->text);
		}
		return;
	}
	if (r->type == T_MAP_SET) {
		if (v->kind != YAML_MAP) {
			diag_error(d, v, "`%s` must be a map", r->key);
			return;
		}
		for (unsigned i = 0; i < v->n && i < 60; i++) {
			if (v->items[2 * i + 1]->kind != YAML_TEXT) {
				diag_error(d, v->items[2 * i + 1], "a variable's value must be text");
				continue;
			}
			add(p, section, "set.name", v->items[2 * i]->text);
			add(p, section, "set.value", v->items[2 * i + 1]->text);
		}
		return;
	}
	if (v->kind != YAML_TEXT) {
		diag_error(d, v, "`%s` must be text", r->key);
		return;
	}
	if (r->values != NULL && !word_in(r->values, v->text)) {
		diag_error(d, v, "`%s: %.*s` is not supported by this version of sallyport; possible: %s", r->key, (int)v->text.n, v->text.p, r->values);
		return;
	}
	switch (r->type) {
	case T_SIZE:
		if (!with_unit(v->text, size_units, sizes, 7, &u))
			diag_error(d, v, "`%s` is a size such as 512MiB", r->key);
		else
			add_u64(p, section, r->key, u);
		break;
	case T_TIME:
		if (!with_unit(v->text, time_units, times, 5, &u))
			diag_error(d, v, "`%s` is a time such as 90s, 10m, 1h", r->key);
		else
			add_u64(p, section, r->key, u);
		break;
	case T_NUMBER:
		if (!str_u64(v->text, 1u << 30, &u) || u == 0)
			diag_error(d, v, "`%s` is a number from 1", r->key);
		else
			add_u64(p, section, r->key, u);
		break;
	case T_MILLI: {
		const char *dot = v->text.n ? memchr(v->text.p, '.', v->text.n) : NULL;
		uint64_t whole, part = 0;

		if (!str_u64(str_mk(v->text.p, dot ? (size_t)(dot - v->text.p) : v->text.n), 4096, &whole) || (dot && ((size_t)(v->text.p + v->text.n - dot) != 2 || !str_u64(str_mk(dot + 1, 1), 9, &part))))
			diag_error(d, v, "`%s` is a number such as 2 or 1.5", r->key);
		else
			add_u64(p, section, r->key, whole * 1000 + part * 100);
		break;
	}
	default:
		add(p, section, r->key, v->text);
		break;
	}
}

static void section(struct policy *p, const struct section *s, struct yaml_node *n, struct diag *d)
{
	struct schema_row known[32];
	size_t count = 0;

	for (size_t i = 0; i < s->n; i++)
		known[count++] = (struct schema_row){ s->rows[i].key, s->rows[i].later };
	for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++) {
		const char *sub = sections[i].name;
		size_t l = strlen(s->name);

		if (l == 0 ? (sub[0] && strchr(sub, '.') == NULL) : (strncmp(sub, s->name, l) == 0 && sub[l] == '.'))
			known[count++] = (struct schema_row){ l ? sub + l + 1 : sub, NULL };
	}
	schema_keys(d, n, known, count, s->name[0] ? s->name : "sandbox");
	for (size_t i = 0; i < s->n; i++) {
		struct yaml_node *v = yaml_get(n, s->rows[i].key);

		if (v != NULL && v->kind != YAML_NULL && s->rows[i].later == NULL)
			value(p, s->name, &s->rows[i], v, d);
	}
	for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++) {
		const char *sub = sections[i].name;
		size_t l = strlen(s->name);
		struct yaml_node *v;

		if (!(l == 0 ? (sub[0] && strchr(sub, '.') == NULL) : (strncmp(sub, s->name, l) == 0 && sub[l] == '.')))
			continue;
		v = yaml_get(n, l ? sub + l + 1 : sub);
		if (v == NULL || v->kind == YAML_NULL)
			continue;
		if (v->kind != YAML_MAP)
			diag_error(d, v, "`%s` must be a map", sub);
		else
			section(p, &sections[i], v, d);
	}
}

void policy_load_sandbox(struct policy *p, struct yaml_node *n, struct diag *d);
void policy_load_sandbox(struct policy *p, struct yaml_node *n, struct diag *d) { section(p, &sections[0], n, d); }
