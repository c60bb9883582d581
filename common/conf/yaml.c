/* SPDX-License-Identifier: Apache-2.0 */
#include "yaml.h"

#include <stdarg.h>
#include <stdio.h>
#include <yaml.h>

#include "../base/must.h"

static void put(struct diag *d, const char *kind, uint32_t line, uint32_t col, const char *fmt, va_list ap)
{
	char text[1024];

	vsnprintf(text, sizeof(text), fmt, ap);
	buf_addf(&d->out, "%s:%u:%u: %s: %s\n", d->file, line, col, kind, text);
}

void diag_error(struct diag *d, const struct yaml_node *at, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	put(d, "error", at ? at->line : 1, at ? at->col : 1, fmt, ap);
	va_end(ap);
	d->errors++;
}

void diag_error_at(struct diag *d, uint32_t line, uint32_t col, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	put(d, "error", line, col, fmt, ap);
	va_end(ap);
	d->errors++;
}

void diag_warning(struct diag *d, const struct yaml_node *at, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	put(d, "warning", at ? at->line : 1, at ? at->col : 1, fmt, ap);
	va_end(ap);
	d->warnings++;
}

struct parse {
	yaml_parser_t p;
	struct arena *a;
	struct diag *d;
	const char *text;
	size_t len;
	unsigned nodes;
	bool failed;
};

static void fail(struct parse *s, uint32_t line, uint32_t col, const char *text)
{
	if (!s->failed)
		diag_error_at(s->d, line, col, "%s", text);
	s->failed = true;
}

/* The line of the input that an error is in, to recognise the usual accidents. */
static struct str line_text(const struct parse *s, size_t line)
{
	const char *p = s->text, *end = s->text + s->len;

	for (size_t i = 0; i < line; i++) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));

		if (nl == NULL)
			return STR_NONE;
		p = nl + 1;
	}
	return str_mk(p, (size_t)((memchr(p, '\n', (size_t)(end - p)) ? (const char *)memchr(p, '\n', (size_t)(end - p)) : end) - p));
}

static void syntax_error(struct parse *s)
{
	uint32_t line = (uint32_t)s->p.problem_mark.line + 1, col = (uint32_t)s->p.problem_mark.column + 1;
	struct str l = line_text(s, s->p.problem_mark.line);
	char text[300];

	if (s->p.problem != NULL && (strstr(s->p.problem, "alias") != NULL || strstr(s->p.problem, "expected alphabetic or numeric character") != NULL))
		snprintf(text, sizeof(text), "a value that begins with * must be quoted: write \"*\"... (YAML takes it for an alias)");
	else if (s->p.problem != NULL && strstr(s->p.problem, "mapping values are not allowed") != NULL)
		snprintf(text, sizeof(text), "a colon followed by a space inside a value: quote the whole value, or is a line break or `- ` missing before it?");
	else if (memchr(l.p ? l.p : "", '\t', l.n) != NULL)
		snprintf(text, sizeof(text), "tabs cannot indent: use spaces");
	else if (l.n && memchr(l.p, '[', l.n) != NULL && (memchr(l.p, '{', l.n) != NULL || str_find(l, STR("[::")) >= 0))
		snprintf(text, sizeof(text), "inside [ ] a value with [ ] { } or : in it must be quoted (%s)", s->p.problem ? s->p.problem : "syntax");
	else
		snprintf(text, sizeof(text), "%s", s->p.problem ? s->p.problem : "this is not YAML");
	fail(s, line, col, text);
}

static struct yaml_node *new_node(struct parse *s, enum yaml_kind k, const yaml_mark_t *m)
{
	struct yaml_node *n = arena_zalloc(s->a, sizeof(*n));

	n->kind = k;
	n->line = (uint32_t)m->line + 1;
	n->col = (uint32_t)m->column + 1;
	if (++s->nodes > YAML_NODES_MAX)
		fail(s, n->line, n->col, "the file has too many values");
	return n;
}

static struct yaml_node *node(struct parse *s, yaml_event_t *e, unsigned depth);

static void append(struct parse *s, struct yaml_node *list, unsigned *cap, struct yaml_node *v)
{
	if (list->n == *cap) {
		unsigned c = *cap ? *cap * 2 : 8;
		struct yaml_node **items = arena_alloc(s->a, c * sizeof(*items));

		if (list->n)
			memcpy(items, list->items, list->n * sizeof(*items));
		list->items = items;
		*cap = c;
	}
	list->items[list->n++] = v;
}

static struct yaml_node *collection(struct parse *s, yaml_event_t *start, unsigned depth)
{
	bool map = start->type == YAML_MAPPING_START_EVENT;
	struct yaml_node *n = new_node(s, map ? YAML_MAP : YAML_LIST, &start->start_mark);
	unsigned cap = 0;

	if (depth >= YAML_DEPTH_MAX) {
		fail(s, n->line, n->col, "nested too deeply");
		return n;
	}
	while (!s->failed) {
		yaml_event_t e;
		struct yaml_node *v;

		if (!yaml_parser_parse(&s->p, &e)) {
			syntax_error(s);
			break;
		}
		if (e.type == YAML_SEQUENCE_END_EVENT || e.type == YAML_MAPPING_END_EVENT) {
			yaml_event_delete(&e);
			break;
		}
		v = node(s, &e, depth + 1);
		yaml_event_delete(&e);
		if (v == NULL)
			break;
		if (map && n->n % 2 == 0) {
			if (v->kind != YAML_TEXT) {
				fail(s, v->line, v->col, "a key must be plain text (a value with { } in it must be quoted)");
				break;
			}
			if (str_eq(v->text, STR("<<"))) {
				fail(s, v->line, v->col, "merge keys (<<) are not part of the policy language; use extends");
				break;
			}
			for (unsigned i = 0; i < n->n; i += 2) {
				if (!str_eq(n->items[i]->text, v->text))
					continue;
				diag_error_at(s->d, v->line, v->col, "the key `%.*s` stands twice (first at line %u); is a `- ` missing?", (int)v->text.n, v->text.p, n->items[i]->line);
				s->failed = true;
			}
		}
		append(s, n, &cap, v);
	}
	if (map)
		n->n /= 2;
	return n;
}

static struct yaml_node *node(struct parse *s, yaml_event_t *e, unsigned depth)
{
	struct yaml_node *n;
	uint32_t line = (uint32_t)e->start_mark.line + 1, col = (uint32_t)e->start_mark.column + 1;

	switch (e->type) {
	case YAML_ALIAS_EVENT:
		fail(s, line, col, "aliases are not part of the policy language; a value that begins with * must be quoted: \"*\"...");
		return NULL;
	case YAML_SCALAR_EVENT:
		if (e->data.scalar.anchor != NULL) {
			fail(s, line, col, "anchors (&) are not part of the policy language");
			return NULL;
		}
		if (e->data.scalar.tag != NULL) {
			fail(s, line, col, "tags (!) are not part of the policy language; quote the value");
			return NULL;
		}
		n = new_node(s, YAML_TEXT, &e->start_mark);
		n->quoted = e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
		n->text = arena_str(s->a, str_mk(e->data.scalar.value, e->data.scalar.length));
		if (!n->quoted && (n->text.n == 0 || str_eq(n->text, STR("~")) || str_eq(n->text, STR("null"))))
			n->kind = YAML_NULL;
		if (str_find(n->text, STR("${")) >= 0) {
			fail(s, line, col, "${ is reserved; variables are not expanded in policies");
			return NULL;
		}
		/* a comment that cut the value off: "GET /a #b" */
		if (!n->quoted && n->text.n && e->end_mark.line == e->start_mark.line) {
			struct str l = line_text(s, e->end_mark.line);
			size_t c = e->end_mark.column;

			while (c < l.n && l.p[c] == ' ')
				c++;
			if (c < l.n && l.p[c] == '#' && c + 1 < l.n && l.p[c + 1] != ' ' && n->text.p[0] >= 'A' && n->text.p[0] <= 'Z' && memchr(n->text.p, '/', n->text.n) != NULL)
				diag_warning(s->d, n, "` #` begins a comment here and cuts the rule; quote the rule if the # belongs to it");
		}
		return n;
	case YAML_SEQUENCE_START_EVENT:
	case YAML_MAPPING_START_EVENT: {
		const yaml_char_t *anchor = e->type == YAML_SEQUENCE_START_EVENT ? e->data.sequence_start.anchor : e->data.mapping_start.anchor;
		const yaml_char_t *tag = e->type == YAML_SEQUENCE_START_EVENT ? e->data.sequence_start.tag : e->data.mapping_start.tag;

		if (anchor != NULL || tag != NULL) {
			fail(s, line, col, anchor ? "anchors (&) are not part of the policy language" : "tags (!) are not part of the policy language");
			return NULL;
		}
		return collection(s, e, depth);
	}
	default:
		fail(s, line, col, "unexpected end of the file");
		return NULL;
	}
}

struct yaml_node *yaml_parse(struct arena *a, const char *text, size_t n, struct diag *d)
{
	struct parse s = { .a = a, .d = d, .text = text, .len = n };
	struct yaml_node *root = NULL;
	yaml_event_t e;
	bool more = true;

	if (n > YAML_SIZE_MAX) {
		diag_error_at(d, 1, 1, "the file is larger than %u MiB", YAML_SIZE_MAX >> 20);
		return NULL;
	}
	if (n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
		diag_error_at(d, 1, 1, "the file begins with a byte order mark; save it as plain UTF-8");
		return NULL;
	}
	MUST(yaml_parser_initialize(&s.p));
	yaml_parser_set_encoding(&s.p, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&s.p, (const unsigned char *)text, n);
	while (more && !s.failed) {
		if (!yaml_parser_parse(&s.p, &e)) {
			syntax_error(&s);
			break;
		}
		switch (e.type) {
		case YAML_STREAM_START_EVENT:
		case YAML_DOCUMENT_END_EVENT:
			break;
		case YAML_DOCUMENT_START_EVENT:
			if (root != NULL)
				fail(&s, (uint32_t)e.start_mark.line + 1, 1, "a second document (---) in one file");
			if (e.data.document_start.version_directive != NULL || e.data.document_start.tag_directives.start != e.data.document_start.tag_directives.end)
				fail(&s, (uint32_t)e.start_mark.line + 1, 1, "YAML directives (%) are not part of the policy language");
			break;
		case YAML_STREAM_END_EVENT:
			more = false;
			break;
		default:
			root = node(&s, &e, 0);
			break;
		}
		yaml_event_delete(&e);
	}
	yaml_parser_delete(&s.p);
	if (s.failed)
		return NULL;
	if (root == NULL) {
		yaml_mark_t m = { 0 };

		root = new_node(&s, YAML_NULL, &m);
	}
	return root;
}

struct yaml_node *yaml_get(const struct yaml_node *map, const char *key)
{
	if (map == NULL || map->kind != YAML_MAP)
		return NULL;
	for (unsigned i = 0; i < map->n; i++)
		if (str_eq(map->items[2 * i]->text, str_of(key)))
			return map->items[2 * i + 1];
	return NULL;
}

/* Edit distance, for the nearest known key. Keys are short. */
static unsigned distance(struct str a, struct str b)
{
	unsigned row[64];

	if (a.n > 40 || b.n > 40)
		return 99;
	for (unsigned j = 0; j <= b.n; j++)
		row[j] = j;
	for (unsigned i = 1; i <= a.n; i++) {
		unsigned diag = row[0];

		row[0] = i;
		for (unsigned j = 1; j <= b.n; j++) {
			unsigned sub = diag + (a.p[i - 1] != b.p[j - 1]), best = sub;

			diag = row[j];
			if (row[j] + 1 < best)
				best = row[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			row[j] = best;
		}
	}
	return row[b.n];
}

bool schema_keys(struct diag *d, const struct yaml_node *map, const struct schema_row *rows, size_t n, const char *where)
{
	bool ok = true;

	for (unsigned i = 0; i < map->n; i++) {
		const struct yaml_node *k = map->items[2 * i];
		const char *nearest = NULL;
		unsigned best = 4;
		bool known = false;

		for (size_t r = 0; r < n && !known; r++) {
			unsigned dist;

			if (str_eq(k->text, str_of(rows[r].key))) {
				known = true;
				if (rows[r].later != NULL) {
					diag_error(d, k, "`%s` %s: not supported by this version of sallyport", rows[r].key, rows[r].later);
					ok = false;
				}
				break;
			}
			dist = distance(k->text, str_of(rows[r].key));
			if (dist < best) {
				best = dist;
				nearest = rows[r].key;
			}
		}
		if (known)
			continue;
		ok = false;
		if (nearest != NULL)
			diag_error(d, k, "unknown key `%.*s` in %s; did you mean `%s`?", (int)k->text.n, k->text.p, where, nearest);
		else
			diag_error(d, k, "unknown key `%.*s` in %s", (int)k->text.n, k->text.p, where);
	}
	return ok;
}
