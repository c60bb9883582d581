/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Octets first (is this text that a person and a parser see alike?), then libyaml's events, made into a tree. What libyaml
 * would accept and the subset does not is reported and reading goes on, so that one run shows all of it; a syntax error
 * ends it, since nothing behind it can be placed.
 */
#include "yaml.h"

#include <stdio.h>
#include <stdlib.h>
#include <yaml.h>

#include "../base/must.h"

struct parse {
	yaml_parser_t p;
	struct arena *a;
	struct diag *d;
	const char *text;
	size_t len;
	unsigned nodes;
	bool stop; /* nothing sensible can follow */
	/* where line `line` (from 0) begins: moves forward only */
	size_t line, line_off;
};

/* --- octets -------------------------------------------------------------------------------------------------------- */

/* Length of the UTF-8 sequence at p (1 to 4), its code point in *cp; 0: malformed. */
static size_t utf8(const unsigned char *p, size_t n, uint32_t *cp)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t k = p[0] < 0x80 ? 1 : p[0] >= 0xc2 && p[0] < 0xe0 ? 2 : p[0] >= 0xe0 && p[0] < 0xf0 ? 3 : p[0] >= 0xf0 && p[0] < 0xf5 ? 4 : 0;
	uint32_t c;

	if (k == 0 || k > n)
		return 0;
	c = k == 1 ? p[0] : p[0] & (0x7fu >> k);
	for (size_t i = 1; i < k; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (p[i] & 0x3f);
	}
	if (c < least[k] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		return 0;
	*cp = c;
	return k;
}

static const char *bad_character(uint32_t c)
{
	if (c == '\t')
		return "a tab: indent and separate with spaces";
	if (c == '\r')
		return "a carriage return: save the file with plain line feeds";
	if ((c < 0x20 && c != '\n') || (c >= 0x7f && c < 0xa0))
		return "a control character";
	if (c == 0xfeff)
		return "a byte order mark; save the file as plain UTF-8 without one";
	if (c == 0x2028 || c == 0x2029)
		return "an invisible line separator (U+2028 or U+2029)";
	if ((c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || c == 0x200e || c == 0x200f)
		return "an invisible direction mark: the file would not read as it is parsed";
	return NULL;
}

/* Each kind of fault once per line at most. */
static bool octets_ok(struct parse *s)
{
	const unsigned char *p = (const unsigned char *)s->text;
	uint32_t line = 1, col = 1, c, last_line = 0;
	const char *last = NULL;
	bool ok = true;

	for (size_t i = 0, k; i < s->len; i += k, col++) {
		const char *what;

		k = utf8(p + i, s->len - i, &c);
		if (k == 0) {
			diag_error(s->d, line, col, "not UTF-8");
			return false;
		}
		what = bad_character(c);
		if (what != NULL && (what != last || line != last_line)) {
			diag_error(s->d, line, col, "%s", what);
			last = what;
			last_line = line;
			ok = false;
			if (c == '\r') /* every line has one */
				return false;
		}
		if (c == '\n') {
			line++;
			col = 0;
		}
	}
	return ok;
}

/* --- errors of libyaml --------------------------------------------------------------------------------------------- */

static struct str line_at(struct parse *s, size_t line)
{
	const char *nl;

	if (line < s->line)
		s->line = s->line_off = 0;
	while (s->line < line) {
		nl = memchr(s->text + s->line_off, '\n', s->len - s->line_off);
		if (nl == NULL)
			return STR_NONE;
		s->line_off = (size_t)(nl - s->text) + 1;
		s->line++;
	}
	nl = s->len > s->line_off ? memchr(s->text + s->line_off, '\n', s->len - s->line_off) : NULL;
	return str_mk(s->text + s->line_off, nl ? (size_t)(nl - s->text) - s->line_off : s->len - s->line_off);
}

static bool has(const char *text, const char *what) { return text != NULL && strstr(text, what) != NULL; }

static void syntax_error(struct parse *s)
{
	const yaml_mark_t *m = &s->p.problem_mark;
	const char *problem = s->p.problem ? s->p.problem : "this is not YAML";
	struct str l;

	s->stop = true;
	if (has(s->p.context, "scanning an alias"))
		m = &s->p.context_mark;
	l = line_at(s, m->line);
	if (has(s->p.context, "scanning an alias"))
		diag_error(s->d, (uint32_t)m->line + 1, (uint32_t)m->column + 1, "a value that begins with * must be quoted (YAML takes it for an alias): \"* /path\", \"*.example.com\"");
	else if (has(problem, "mapping values are not allowed"))
		diag_error(s->d, (uint32_t)m->line + 1, (uint32_t)m->column + 1, "a colon and a space inside a value: quote the whole value; or a line break or a `- ` is missing before it");
	else if (has(s->p.context, "anchor"))
		diag_error(s->d, (uint32_t)m->line + 1, (uint32_t)m->column + 1, "a value that begins with & must be quoted (YAML takes it for an anchor)");
	else if (has(problem, "cannot start any token"))
		diag_error(s->d, (uint32_t)m->line + 1, (uint32_t)m->column + 1, "a value cannot begin with this character: quote it");
	else if (has(s->p.context, "flow") && l.n && (memchr(l.p, '{', l.n) != NULL || memchr(l.p, '[', l.n) != NULL))
		diag_error(s->d, (uint32_t)m->line + 1, (uint32_t)m->column + 1, "inside [ ] and { } a value that has [ ] { } or a comma in it must be quoted: \"/users/{id}\", \"[::1]\" (%s)", problem);
	else if (has(problem, "did not find expected '-' indicator"))
		diag_error(s->d, (uint32_t)m->line + 1, (uint32_t)m->column + 1, "an item of a list is expected here: is a `- ` missing, or is the line indented wrongly?");
	else if (has(problem, "did not find expected key") || has(problem, "could not find expected ':'"))
		diag_error(s->d, (uint32_t)m->line + 1, (uint32_t)m->column + 1, "`key: value` is expected here: is the line indented wrongly, or a `: ` or a `- ` missing? (%s)", problem);
	else
		diag_error(s->d, (uint32_t)m->line + 1, (uint32_t)m->column + 1, "%s%s%s", s->p.context ? s->p.context : "", s->p.context ? ": " : "", problem);
}

/* --- the tree ------------------------------------------------------------------------------------------------------ */

static void complain(struct parse *s, const yaml_mark_t *m, const char *text) { diag_error(s->d, (uint32_t)m->line + 1, (uint32_t)m->column + 1, "%s", text); }

static struct yaml_node *new_node(struct parse *s, enum yaml_kind k, const yaml_mark_t *m)
{
	struct yaml_node *n = arena_zalloc(s->a, sizeof(*n));

	n->kind = k;
	n->line = (uint32_t)m->line + 1;
	n->col = (uint32_t)m->column + 1;
	if (++s->nodes == YAML_NODES_MAX) {
		complain(s, m, "the file has too many values");
		s->stop = true;
	}
	return n;
}

static void append(struct parse *s, struct yaml_node *list, unsigned *cap, struct yaml_node *v)
{
	if (list->n == *cap) {
		unsigned c = *cap ? *cap * 2 : 4;
		struct yaml_node **items = arena_alloc(s->a, c * sizeof(struct yaml_node *));

		if (list->n)
			memcpy(items, list->items, list->n * sizeof(struct yaml_node *));
		list->items = items;
		*cap = c;
	}
	list->items[list->n++] = v;
}

static int by_text(const void *a, const void *b)
{
	const struct yaml_node *x = *(struct yaml_node *const *)a, *y = *(struct yaml_node *const *)b;
	size_t n = x->text.n < y->text.n ? x->text.n : y->text.n;
	int r = n ? memcmp(x->text.p, y->text.p, n) : 0;

	if (r == 0)
		r = x->text.n < y->text.n ? -1 : x->text.n > y->text.n;
	return r ? r : x->line < y->line ? -1 : x->line > y->line ? 1 : x->col < y->col ? -1 : x->col > y->col;
}

static void check_keys(struct parse *s, const struct yaml_node *map)
{
	struct yaml_node **keys = must_calloc(map->n + 1, sizeof(struct yaml_node *));
	unsigned n = 0;

	for (unsigned i = 0; i < map->n; i++) {
		struct yaml_node *k = map->items[2 * i];

		if (k->kind == YAML_LIST || k->kind == YAML_MAP)
			diag_error(s->d, k->line, k->col, "a key must be plain text (a value that begins with { or [ must be quoted)");
		else if (str_eq(k->text, STR("<<")) && !k->quoted)
			diag_error(s->d, k->line, k->col, "merge keys (<<) are not part of this language");
		else
			keys[n++] = k;
	}
	qsort(keys, n, sizeof(struct yaml_node *), by_text);
	for (unsigned i = 1; i < n; i++)
		if (str_eq(keys[i]->text, keys[i - 1]->text))
			diag_error(s->d, keys[i]->line, keys[i]->col, "the key `%.*s` stands twice in one map (first at line %u): is a `- ` missing before one?", DIAG_STR(keys[i]->text), keys[i - 1]->line);
	free(keys);
}

static struct yaml_node *node(struct parse *s, yaml_event_t *e, unsigned depth);

static struct yaml_node *collection(struct parse *s, yaml_event_t *start, unsigned depth)
{
	bool map = start->type == YAML_MAPPING_START_EVENT;
	struct yaml_node *n = new_node(s, map ? YAML_MAP : YAML_LIST, &start->start_mark);
	unsigned cap = 0;

	if (depth >= YAML_DEPTH_MAX) {
		complain(s, &start->start_mark, "nested too deeply");
		s->stop = true;
	}
	while (!s->stop) {
		yaml_event_t e;
		bool end;

		if (!yaml_parser_parse(&s->p, &e)) {
			syntax_error(s);
			break;
		}
		end = e.type == YAML_SEQUENCE_END_EVENT || e.type == YAML_MAPPING_END_EVENT;
		if (!end)
			append(s, n, &cap, node(s, &e, depth + 1));
		yaml_event_delete(&e);
		if (end)
			break;
	}
	if (map) {
		n->n /= 2;
		if (!s->stop)
			check_keys(s, n);
	}
	return n;
}

/* "GET /a #b": everything behind the blank is a comment. One that touches its # may well have been meant as text. */
static bool comment_touches(struct parse *s, const yaml_mark_t *end)
{
	struct str l = line_at(s, end->line);
	size_t i = 0;

	for (size_t c = 0; i < l.n && c < end->column; c++) /* columns are characters */
		for (i++; i < l.n && ((unsigned char)l.p[i] & 0xc0) == 0x80;)
			i++;
	if (i >= l.n || l.p[i] != ' ')
		return false;
	while (i < l.n && l.p[i] == ' ')
		i++;
	return i + 1 < l.n && l.p[i] == '#' && l.p[i + 1] != ' ' && l.p[i + 1] != '#';
}

static struct yaml_node *scalar(struct parse *s, const yaml_event_t *e)
{
	struct yaml_node *n = new_node(s, YAML_TEXT, &e->start_mark);
	uint32_t c;

	if (e->data.scalar.anchor != NULL)
		complain(s, &e->start_mark, "anchors (&) are not part of this language; a value that begins with & must be quoted");
	if (e->data.scalar.tag != NULL)
		complain(s, &e->start_mark, "tags (!) are not part of this language; a value that begins with ! must be quoted");
	n->quoted = e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
	n->text = arena_str(s->a, str_mk(e->data.scalar.value, e->data.scalar.length));
	if (!n->quoted && (n->text.n == 0 || str_eq(n->text, STR("~")) || str_eq(n->text, STR("null"))))
		n->kind = YAML_NULL;
	if (str_find(n->text, STR("${")) >= 0)
		complain(s, &e->start_mark, "${ is reserved: variables are not expanded");
	if (!n->quoted)
		n->comment_touches = comment_touches(s, &e->end_mark);
	/* escapes in double quotes can make what the file itself may not hold */
	for (size_t i = 0, k; n->quoted && i < n->text.n; i += k) {
		k = utf8((const unsigned char *)n->text.p + i, n->text.n - i, &c);
		if (k == 0 || (bad_character(c) != NULL && c != '\t')) {
			complain(s, &e->start_mark, "an escape in this value makes a control or invisible character");
			break;
		}
	}
	return n;
}

/* Never NULL: what cannot be part of the tree is reported and stands as null. */
static struct yaml_node *node(struct parse *s, yaml_event_t *e, unsigned depth)
{
	switch (e->type) {
	case YAML_ALIAS_EVENT:
		complain(s, &e->start_mark, "a value that begins with * must be quoted (YAML takes it for an alias, which is not part of this language)");
		return new_node(s, YAML_NULL, &e->start_mark);
	case YAML_SCALAR_EVENT:
		return scalar(s, e);
	case YAML_SEQUENCE_START_EVENT:
	case YAML_MAPPING_START_EVENT: {
		bool list = e->type == YAML_SEQUENCE_START_EVENT;

		if ((list ? e->data.sequence_start.anchor : e->data.mapping_start.anchor) != NULL)
			complain(s, &e->start_mark, "anchors (&) are not part of this language");
		if ((list ? e->data.sequence_start.tag : e->data.mapping_start.tag) != NULL)
			complain(s, &e->start_mark, "tags (!) are not part of this language");
		return collection(s, e, depth);
	}
	default:
		complain(s, &e->start_mark, "unexpected end");
		s->stop = true;
		return new_node(s, YAML_NULL, &e->start_mark);
	}
}

static struct yaml_node *documents(struct parse *s)
{
	struct yaml_node *root = NULL;
	yaml_event_t e;
	bool end = false;

	while (!end && !s->stop) {
		if (!yaml_parser_parse(&s->p, &e)) {
			syntax_error(s);
			break;
		}
		switch (e.type) {
		case YAML_STREAM_START_EVENT:
		case YAML_DOCUMENT_END_EVENT:
			break;
		case YAML_DOCUMENT_START_EVENT:
			if (root != NULL) {
				complain(s, &e.start_mark, "a second document (---) in one file");
				s->stop = true;
			}
			if (e.data.document_start.version_directive != NULL || e.data.document_start.tag_directives.start != e.data.document_start.tag_directives.end)
				complain(s, &e.start_mark, "YAML directives (%) are not part of this language");
			break;
		case YAML_STREAM_END_EVENT:
			end = true;
			break;
		default:
			root = node(s, &e, 0);
			break;
		}
		yaml_event_delete(&e);
	}
	return root;
}

struct yaml_node *yaml_parse(struct arena *a, const char *text, size_t n, struct diag *d)
{
	struct parse s = { .a = a, .d = d, .text = text, .len = n };
	unsigned errors = d->errors;
	struct yaml_node *root;

	if (n > YAML_SIZE_MAX) {
		diag_error(d, 1, 1, "the file is larger than %u MiB", YAML_SIZE_MAX >> 20);
		return NULL;
	}
	if (!octets_ok(&s))
		return NULL;
	MUST(yaml_parser_initialize(&s.p));
	yaml_parser_set_encoding(&s.p, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&s.p, (const unsigned char *)text, n);
	root = documents(&s);
	yaml_parser_delete(&s.p);
	if (d->errors != errors)
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
