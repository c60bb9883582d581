/* SPDX-License-Identifier: Apache-2.0 */
#include "fmt.h"

#include <stdlib.h>

#include "../common/base/must.h"
#include "../common/conf/yaml.h"

/* --- methods ------------------------------------------------------------------------------------------------------- */

struct edit {
	size_t at;
	char with; /* '|' for a comma, 'A': ANY for a star */
};
struct edits {
	struct str text;
	const size_t *lines; /* where each begins */
	struct edit *e;
	size_t n, cap;
};

/* Where a scalar's first character stands; SIZE_MAX if not where it should. */
static size_t place_of(const struct edits *es, const struct yaml_node *n)
{
	size_t at = es->lines[n->line - 1];

	for (uint32_t c = 1; c < n->col && at < es->text.n; c++)
		for (at++; at < es->text.n && ((unsigned char)es->text.p[at] & 0xc0) == 0x80;)
			at++;
	at += n->quoted;
	return n->text.n > 0 && at + n->text.n <= es->text.n && memcmp(es->text.p + at, n->text.p, n->text.n) == 0 ? at : SIZE_MAX;
}

/* Methods are the text up to its first blank. */
static void methods(struct edits *es, const struct yaml_node *n)
{
	size_t at = n->kind == YAML_TEXT ? place_of(es, n) : SIZE_MAX, end = 0;

	while (at != SIZE_MAX && end < n->text.n && n->text.p[end] != ' ')
		end++;
	for (size_t i = 0; at != SIZE_MAX && i < end; i++) {
		bool star = n->text.p[i] == '*' && (i == 0 || n->text.p[i - 1] == ',' || n->text.p[i - 1] == '|') && (i + 1 == end || n->text.p[i + 1] == ',' || n->text.p[i + 1] == '|');

		if (!star && n->text.p[i] != ',')
			continue;
		if (es->n == es->cap) {
			es->cap = es->cap ? es->cap * 2 : 64;
			es->e = must_realloc(es->e, es->cap * sizeof(*es->e));
		}
		es->e[es->n++] = (struct edit){ at + i, star ? 'A' : '|' };
	}
}

static void rules(struct edits *es, const struct yaml_node *list)
{
	for (unsigned i = 0; list != NULL && list->kind == YAML_LIST && i < list->n; i++) {
		const struct yaml_node *r = list->items[i], *m = r->kind == YAML_MAP ? yaml_get(r, "method") : NULL;

		if (r->kind == YAML_TEXT)
			methods(es, r);
		else if (m != NULL && m->kind == YAML_TEXT)
			methods(es, m);
		for (unsigned k = 0; m != NULL && m->kind == YAML_LIST && k < m->n; k++)
			methods(es, m->items[k]);
	}
}

static int by_place(const void *a, const void *b)
{
	const struct edit *x = a, *y = b;

	return x->at < y->at ? -1 : x->at > y->at;
}

static void rewrite(struct str text, const struct yaml_node *root, struct buf *out)
{
	const struct yaml_node *dests = root->kind == YAML_MAP ? yaml_get(root, "destinations") : NULL;
	size_t *lines = must_calloc(text.n + 2, sizeof(*lines)), line_n = 1, at = 0;
	struct edits es = { .text = text, .lines = lines };

	for (size_t i = 0; i < text.n; i++)
		if (text.p[i] == '\n')
			lines[line_n++] = i + 1;
	for (unsigned i = 0; dests != NULL && dests->kind == YAML_LIST && i < dests->n; i++) {
		if (dests->items[i]->kind != YAML_MAP)
			continue;
		rules(&es, yaml_get(dests->items[i], "allow"));
		rules(&es, yaml_get(dests->items[i], "deny"));
	}
	if (es.n > 1)
		qsort(es.e, es.n, sizeof(*es.e), by_place);
	for (size_t i = 0; i < es.n; i++) {
		buf_add(out, text.p + at, es.e[i].at - at);
		buf_addz(out, es.e[i].with == 'A' ? "ANY" : "|");
		at = es.e[i].at + 1;
	}
	buf_add(out, text.p + at, text.n - at);
	free(es.e);
	free(lines);
}

/* --- layout -------------------------------------------------------------------------------------------------------- */

#define LEVELS_MAX 64

struct level {
	size_t was, is;
	bool items; /* of a list that stood in the column of its key */
};
struct layout {
	struct level level[LEVELS_MAX];
	unsigned n;
	bool opens;    /* the last line of content ends with a key that has its value below */
	size_t opened; /* its column */
	bool block;    /* inside of a block scalar, of a line in column `block_was` that came to `block_is` */
	size_t block_was, block_is;
	struct buf held; /* comments and blank lines that wait for the next content */
	unsigned blanks;
	struct buf *out;
};

static void put(struct layout *l, size_t column, struct str s)
{
	for (; l->blanks > 0; l->blanks = 0)
		if (buf_len(l->out) > 0)
			buf_addc(l->out, '\n');
	for (size_t i = 0; i < column; i++)
		buf_addc(l->out, ' ');
	buf_adds(l->out, s);
	buf_addc(l->out, '\n');
}

/* Comments take the column of what comes next. */
static void release(struct layout *l, size_t column)
{
	for (struct str rest = buf_str(&l->held); rest.n > 0;) {
		size_t n = (size_t)((const char *)memchr(rest.p, '\n', rest.n) - rest.p);

		if (n == 0)
			l->blanks = 1;
		else
			put(l, column, str_mk(rest.p, n));
		rest = str_mk(rest.p + n + 1, rest.n - n - 1);
	}
	buf_clear(&l->held);
}

static bool dash(struct str s) { return s.n > 0 && s.p[0] == '-' && (s.n == 1 || s.p[1] == ' '); }

/* Without a comment at its end. A # inside of quotes is none. */
static struct str content_of(struct str s)
{
	char quote = 0;

	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];

		if (quote == 0 && (c == '"' || c == '\'') && (i == 0 || memchr(" [{,:-", s.p[i - 1], 6) != NULL))
			quote = c;
		else if (quote == '"' && c == '\\')
			i++;
		else if (quote != 0 && c == quote)
			quote = 0;
		else if (quote == 0 && c == '#' && i > 0 && s.p[i - 1] == ' ')
			s.n = i;
	}
	while (s.n > 0 && s.p[s.n - 1] == ' ')
		s.n--;
	return s;
}

static bool block_begins(struct str s)
{
	size_t n = s.n;

	while (n > 0 && memchr("+-0123456789", s.p[n - 1], 12) != NULL)
		n--;
	return n > 1 && (s.p[n - 1] == '|' || s.p[n - 1] == '>') && s.p[n - 2] == ' ';
}

static size_t column_for(struct layout *l, size_t was, bool item)
{
	while (l->n > 1 && (l->level[l->n - 1].was > was || (l->level[l->n - 1].was == was && l->level[l->n - 1].items && !item)))
		l->n--;
	if (l->level[l->n - 1].was == was && item && !l->level[l->n - 1].items && l->opens && l->opened == was && l->n < LEVELS_MAX) {
		l->level[l->n] = (struct level){ was, l->level[l->n - 1].is + 2, true };
		l->n++;
	} else if (l->level[l->n - 1].was < was && l->n < LEVELS_MAX) {
		l->level[l->n] = (struct level){ was, l->level[l->n - 1].is + 2, false };
		l->n++;
	}
	return l->level[l->n - 1].is;
}

static void line(struct layout *l, struct str s)
{
	size_t was = 0, is;
	struct str content;

	while (s.n > 0 && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\r'))
		s.n--;
	while (was < s.n && s.p[was] == ' ')
		was++;
	if (l->block && (s.n == 0 || was > l->block_was)) {
		if (s.n == 0)
			buf_addc(l->out, '\n');
		else
			put(l, was - l->block_was + l->block_is, str_mk(s.p + was, s.n - was));
		return;
	}
	l->block = false;
	s = str_mk(s.p + was, s.n - was);
	if (s.n == 0 || s.p[0] == '#') {
		buf_adds(&l->held, s);
		buf_addc(&l->held, '\n');
		return;
	}
	is = column_for(l, was, dash(s));
	release(l, is);
	content = content_of(s);
	l->block = block_begins(content);
	l->block_was = was;
	l->block_is = is;
	l->opened = was;
	if (dash(s) && s.n > 1) { /* what the item holds begins behind its dash */
		size_t gap = 1;
		struct buf b = { 0 };

		while (gap < s.n && s.p[gap] == ' ')
			gap++;
		if (l->n < LEVELS_MAX)
			l->level[l->n++] = (struct level){ was + gap, is + 2, false };
		buf_addz(&b, "- ");
		buf_add(&b, s.p + gap, s.n - gap);
		put(l, is, buf_str(&b));
		buf_fini(&b);
		l->opened = was + gap;
	} else {
		put(l, is, s);
	}
	l->opens = content.n > 0 && content.p[content.n - 1] == ':';
}

/* --- the proof ----------------------------------------------------------------------------------------------------- */

static bool same(const struct yaml_node *a, const struct yaml_node *b)
{
	if (a->kind != b->kind || a->n != b->n || (a->kind == YAML_TEXT && (a->quoted != b->quoted || !str_eq(a->text, b->text))))
		return false;
	for (unsigned i = 0; i < a->n * (a->kind == YAML_MAP ? 2u : 1u); i++)
		if (!same(a->items[i], b->items[i]))
			return false;
	return true;
}

int fmt_policy(struct str text, struct buf *out, struct diag *d)
{
	struct arena a = { 0 };
	struct buf edited = { 0 };
	struct layout l = { .n = 1, .out = out };
	const struct yaml_node *root = yaml_parse(&a, text.p, text.n, d), *before, *after;
	int ret = -1;

	buf_clear(out);
	if (root == NULL)
		goto out;
	rewrite(text, root, &edited);
	for (struct str rest = buf_str(&edited); rest.n > 0;) {
		const char *nl = memchr(rest.p, '\n', rest.n);
		size_t n = nl ? (size_t)(nl - rest.p) : rest.n;

		line(&l, str_mk(rest.p, n));
		rest = nl ? str_mk(nl + 1, rest.n - n - 1) : STR_NONE;
	}
	release(&l, 0);
	before = yaml_parse(&a, (const char *)buf_str(&edited).p, buf_len(&edited), d);
	after = yaml_parse(&a, (const char *)buf_str(out).p, buf_len(out), d);
	if (before == NULL || after == NULL || !same(before, after)) {
		diag_error_file(d, "it cannot be laid out without changing what it says (a fault of sallyport's own); it stays as it is");
		goto out;
	}
	ret = 0;
out:
	arena_fini(&a);
	buf_fini(&edited);
	buf_fini(&l.held);
	return ret;
}
