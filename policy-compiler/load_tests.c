/* SPDX-License-Identifier: Apache-2.0 */
/* `tests`: requests and what the policy must say of them. */
#include "ask.h"
#include "load.h"

struct test_ctx {
	struct load *l;
	struct pol_test *t;
	unsigned verdicts;
};

static void on_verdict(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct test_ctx *c = arg;
	struct str s = v->text, *url = &c->t->url;
	const char *blank = memchr(s.p, ' ', s.n);

	c->verdicts++;
	c->t->allow = row->key[0] == 'a';
	if (blank == NULL) {
		ERROR_AT(c->l, v->node, "a test is `%s: METHOD URL`", row->key);
		return;
	}
	c->t->method = str_mk(s.p, (size_t)(blank - s.p));
	*url = str_mk(blank, s.n - c->t->method.n);
	while (url->n && url->p[0] == ' ')
		*url = str_mk(url->p + 1, url->n - 1);
	if (!ask_method_ok(c->t->method) || str_eq(c->t->method, STR("ANY")) || (!str_starts(*url, STR("https://")) && !str_starts(*url, STR("http://")) && !str_starts(*url, STR("tcp://"))) || memchr(url->p, ' ', url->n) != NULL)
		ERROR_AT(c->l, v->node, "a test is `%s: METHOD URL`, one method and a whole URL with https:// or http://", row->key);
}

static void on_inject(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct test_ctx *c = arg;

	(void)row;
	c->t->inject_said = true;
	c->t->inject = arena_zalloc(c->l->a, (v->n + 1ul) * sizeof(struct pol_secret *));
	for (unsigned i = 0; i < v->n; i++) {
		struct pol_secret *s = load_find_secret(c->l->p, v->items[i]->text);

		if (s == NULL)
			ERROR_AT(c->l, v->items[i], "no secret is called `%.*s`", DIAG_STR(v->items[i]->text));
		else
			c->t->inject[c->t->inject_n++] = s;
	}
}

static void on_headers(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct test_ctx *c = arg;

	(void)row;
	c->t->header_names = arena_alloc(c->l->a, (v->node->n + 1ul) * sizeof(struct str));
	c->t->header_values = arena_alloc(c->l->a, (v->node->n + 1ul) * sizeof(struct str));
	for (unsigned i = 0; i < v->node->n; i++) {
		const struct yaml_node *value = v->node->items[2 * i + 1];

		if (value->kind != YAML_TEXT) {
			ERROR_AT(c->l, value, "the value of a header is a text");
			continue;
		}
		c->t->header_names[c->t->header_n] = v->node->items[2 * i]->text;
		c->t->header_values[c->t->header_n++] = value->text;
	}
}

static void on_content(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct test_ctx *c = arg;

	(void)row;
	c->t->content = v->text;
	c->t->has_content = v->text.n > 0;
	if (v->text.n > BODY_HELD_MAX)
		ERROR_AT(c->l, v->node, "more content than a rule may look at");
}

static void on_at(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct test_ctx *c = arg;

	(void)row;
	if (!load_time(v->text, &c->t->at_s))
		ERROR_AT(c->l, v->node, "`at` is a date, 2026-11-30 (its beginning, UTC), or a time, 2026-11-30T12:00:00Z");
}

static const struct schema_row test_rows[] = {
	{ "allow", SCHEMA_TEXT, false, on_verdict, NULL, 0, 0 },
	{ "deny", SCHEMA_TEXT, false, on_verdict, NULL, 0, 0 },
	{ "inject", SCHEMA_TEXTS, false, on_inject, NULL, 0, 64 },
	{ "headers", SCHEMA_MAP, false, on_headers, NULL, 0, 0 },
	{ "content", SCHEMA_PROSE, false, on_content, NULL, 0, 0 },
	{ "at", SCHEMA_TEXT, false, on_at, NULL, 0, 0 },
};

void load_tests(struct load *l, const struct yaml_node *list)
{
	l->p->tests = arena_zalloc(l->a, (list->n + 1ul) * sizeof(*l->p->tests));
	for (unsigned i = 0; i < list->n; i++) {
		struct pol_test *t = &l->p->tests[l->p->test_n];
		struct test_ctx c = { l, t, 0 };

		t->at = place_of(l, list->items[i]);
		if (!schema_parse(l->d, list->items[i], "a test", SCHEMA_ROWS(test_rows), &c))
			continue;
		if (c.verdicts != 1)
			ERROR_AT(l, list->items[i], "a test has one of `allow` and `deny`");
		else if (t->inject_said && !t->allow)
			ERROR_AT(l, list->items[i], "what is denied has nothing injected: `inject` is for `allow`");
		else
			l->p->test_n++;
	}
}

struct schema_rows load_rows_test(void) { return (struct schema_rows){ SCHEMA_ROWS(test_rows) }; }
