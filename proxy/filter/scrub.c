/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams. After each piece the longest suffix that begins a form is kept, unchanged, as the context of the next piece: no
 * occurrence that ends later can begin before it. Of the kept octets those that an occurrence has covered already need not
 * wait: they went out as filler (`sent`).
 */
#include "scrub.h"

#include <stdlib.h>

#include "../../common/base/must.h"
#include "scrub_int.h"

static int by_place(const void *a, const void *b)
{
	const struct span *x = a, *y = b;

	return x->from < y->from ? -1 : x->from > y->from;
}

/* Filler for p[from..to); raw filler is written last, so that it stands where forms overlap. */
static void fill(uint8_t *p, const struct spans *s, size_t first, size_t last)
{
	for (size_t i = first; i < last; i++)
		memset(p + s->v[i].from, s->v[i].form == FORM_BASE64 ? 'A' : '0', s->v[i].to - s->v[i].from);
	for (size_t i = first; i < last; i++)
		if (s->v[i].form == FORM_RAW)
			memset(p + s->v[i].from, '*', s->v[i].to - s->v[i].from);
}

/*
 * Overwrites what the forms cover in p[0..n). before: what came before p. *edge is moved to the end of an overwritten
 * stretch that reaches or spans it. Returns the number of stretches that end behind `from`.
 */
static size_t overwrite(const struct scrub_set *set, uint8_t *p, size_t n, uint8_t before, size_t from, size_t *edge)
{
	struct spans s;
	size_t hits = 0;

	s.v = s.few;
	s.n = 0;
	s.cap = sizeof(s.few) / sizeof(s.few[0]);
	scrub_find(set, (struct scrub_text){ p, n }, &s);
	if (s.n > 1)
		qsort(s.v, s.n, sizeof(*s.v), by_place);
	for (size_t i = 0, k; i < s.n; i = k) {
		size_t begin = s.v[i].from, end = s.v[i].to;
		uint8_t c = begin > 0 ? p[begin - 1] : before;

		for (k = i + 1; k < s.n && s.v[k].from <= end; k++)
			end = s.v[k].to > end ? s.v[k].to : end;
		fill(p, &s, i, k);
		/* a lone '\' before it would make the filler an escape that JSON does not know */
		if (c == '\\')
			p[begin] = '/';
		hits += end > from;
		if (begin <= *edge && end > *edge)
			*edge = end;
	}
	if (s.v != s.few)
		free(s.v);
	return hits;
}

size_t scrub_inplace(const struct scrub_set *s, char *p, size_t n)
{
	size_t edge = 0;

	return s->n == 0 || n < s->min ? 0 : overwrite(s, (uint8_t *)p, n, 0, 0, &edge);
}

/*
 * Where the search for the longest open suffix begins: further back there are more octets, decoded, than any form has. In
 * halves, because of each two '\' in a row one may be half of an escape.
 */
static size_t furthest(const struct scrub_set *s, const uint8_t *p, size_t n)
{
	size_t near = s->max + ESCAPE_MAX, left = 2 * near, i = n;
	struct escape e;

	if (n > near && escape_find(p + n - near, near) == near)
		return n - s->max;
	while (i > 0 && left >= 2) {
		i--;
		left -= 2;
		if (!escape_begins(p[i]))
			continue;
		escape_read(p + i, n - i, &e);
		if (e.len > 0)
			left += e.len == 2 && e.o[0] == '\\' ? 1 : 2 * (size_t)(e.len - e.n);
	}
	return i;
}

static bool any_open(const struct scrub_set *s, struct scrub_text t, size_t at, uint32_t first)
{
	for (uint32_t k = first; k != SCRUB_NONE; k = s->pat[k].next_first)
		if (scrub_open(t, &s->pat[k], at))
			return true;
	return false;
}

/* The text from `at` on begins a form. */
static bool opens(const struct scrub_set *s, struct scrub_text t, size_t at)
{
	struct escape e;

	if (any_open(s, t, at, s->first[scrub_fold(t.p[at])]))
		return true;
	if (!escape_begins(t.p[at]))
		return false;
	escape_read(t.p + at, t.n - at, &e);
	if (e.len > 0)
		return any_open(s, t, at, s->first[scrub_fold(e.o[0])]) || (e.latin >= 0 && any_open(s, t, at, s->first[e.latin]));
	for (size_t k = 0; t.n - at < ESCAPE_MAX && k < s->n; k++)
		if (scrub_open(t, &s->pat[k], at))
			return true;
	return false;
}

/* Length of the longest suffix of p that begins a form and is not the whole of it. */
static size_t open_suffix(const struct scrub_set *s, const uint8_t *p, size_t n)
{
	struct scrub_text t = { p, n };
	size_t i;

	/* the end of most texts stands in no form; where no escape is near, four octets tell */
	if (n >= ESCAPE_MAX && escape_find(p + n - ESCAPE_MAX, ESCAPE_MAX) == ESCAPE_MAX) {
		unsigned h = inside_hash(gram_of(p + n - GRAM));

		i = s->inside[h / 64] >> h % 64 & 1 ? furthest(s, p, n) : n - (GRAM - 1);
	} else {
		i = furthest(s, p, n);
	}
	for (; i < n; i++)
		if ((s->first[scrub_fold(p[i])] != SCRUB_NONE || escape_begins(p[i])) && opens(s, t, i))
			return n - i;
	return 0;
}

void scrub_init(struct scrub *s, const struct scrub_set *set) { *s = (struct scrub){ .set = set }; }

void scrub_fini(struct scrub *s)
{
	buf_fini_secret(&s->held);
	s->sent = 0;
}

void scrub_feed(struct scrub *s, const uint8_t *in, size_t n, struct buf *out)
{
	size_t had = buf_len(&s->held), len = had + n, hold, edge;
	uint8_t *p, before = s->before;

	if (n == 0)
		return;
	if (s->set->n == 0) {
		buf_add(out, in, n);
		return;
	}
	/* worked on in the output's own memory: context, then the new octets */
	p = buf_room(out, len);
	if (had)
		memcpy(p, buf_data(&s->held), had);
	memcpy(p + had, in, n);
	hold = open_suffix(s->set, p, len);
	if (had)
		explicit_bzero(buf_data(&s->held), had);
	buf_clear(&s->held);
	buf_add(&s->held, p + len - hold, hold);
	if (hold < len)
		s->before = p[len - hold - 1];
	/* everything before the kept suffix may go, and of it what is covered without a gap */
	edge = s->sent > len - hold ? s->sent : len - hold;
	s->hits += overwrite(s->set, p, len, before, had, &edge);
	if (s->sent > 0)
		memmove(p, p + s->sent, edge - s->sent);
	buf_commit(out, edge - s->sent);
	/* behind what goes out stand octets that may begin a value */
	explicit_bzero(p + edge - s->sent, len - (edge - s->sent));
	s->sent = edge - (len - hold);
}

size_t scrub_feed_inplace(struct scrub *s, uint8_t *p, size_t n)
{
	size_t hold, edge;
	uint8_t before = s->before;

	MUST(buf_len(&s->held) == 0 && s->sent == 0);
	if (n == 0 || s->set->n == 0)
		return n;
	hold = open_suffix(s->set, p, n);
	buf_add(&s->held, p + n - hold, hold); /* as it came, before anything is overwritten */
	if (hold < n)
		s->before = p[n - hold - 1];
	edge = n - hold;
	s->hits += overwrite(s->set, p, n, before, 0, &edge);
	s->sent = edge - (n - hold);
	return edge;
}

void scrub_end(struct scrub *s, struct buf *out)
{
	size_t n = buf_len(&s->held);
	size_t edge = s->sent;
	uint8_t *p;

	/* the suffix became no value, but shorter values may stand in it */
	if (n > s->sent) {
		p = buf_room(out, n);
		memcpy(p, buf_data(&s->held), n);
		overwrite(s->set, p, n, s->before, n, &edge);
		memmove(p, p + s->sent, n - s->sent);
		buf_commit(out, n - s->sent);
		explicit_bzero(p + n - s->sent, s->sent);
	}
	scrub_fini(s);
}
