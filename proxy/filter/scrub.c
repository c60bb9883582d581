/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is overwritten: every octet of every occurrence of every value, occurrences that overlap or lie in each other
 * included, and whatever the pieces in which the stream arrives.
 *
 * Matching: Wu-Manber with blocks of two octets. For each block `shift` says how far a window as long as the shortest
 * value may move when the block ends it; 0 sends it to the values whose first `min` octets end in that block. On ordinary
 * text nearly every step moves by almost the whole window.
 *
 * Streams: after each piece the longest suffix that begins a value is kept, unchanged, as the context of the next piece.
 * Of the kept octets those that an occurrence has covered already need not wait: they went out as filler (`sent`).
 */
#include "scrub.h"

#include <stdlib.h>

#include "../../common/base/must.h"

#define FILLER '*'
#define SHIFT_MAX 255
#define NONE UINT32_MAX

struct pattern {
	uint8_t *p;
	size_t n;
	uint32_t next_end;   /* chain of those whose window ends in the same hash */
	uint32_t next_first; /* chain of those with the same first octet */
};
struct scrub_set {
	struct pattern *pat;
	size_t n, min, max;
	bool narrow;          /* few blocks: 4,096 places are enough, and stay in the nearest cache */
	uint8_t shift[65536]; /* by shift_at of a block */
	uint32_t end[1024]; /* by end_hash of the window's last block */
	uint32_t first[256];
};

static unsigned block(const uint8_t *p) { return (unsigned)p[0] << 8 | p[1]; }
static unsigned narrow_at(const uint8_t *p) { return ((unsigned)p[0] << 4 ^ p[1]) & 4095; }
static unsigned shift_at(const struct scrub_set *s, const uint8_t *p) { return s->narrow ? narrow_at(p) : block(p); }
static unsigned end_hash(unsigned b) { return (b ^ b >> 6) & 1023; }

struct scrub_set *scrub_set_new(const struct str *values, size_t n)
{
	struct scrub_set *s = must_calloc(1, sizeof(*s));

	MUST(n < NONE);
	s->pat = must_calloc(n + 1, sizeof(*s->pat));
	s->min = SIZE_MAX;
	for (size_t i = 0; i < n; i++) {
		struct pattern *p = &s->pat[s->n];

		if (values[i].n < 2) /* policies ask for 8; one octet would be everywhere */
			continue;
		p->p = must_malloc(values[i].n);
		memcpy(p->p, values[i].p, values[i].n);
		p->n = values[i].n;
		s->n++;
		s->min = p->n < s->min ? p->n : s->min;
		s->max = p->n > s->max ? p->n : s->max;
	}
	if (s->n == 0)
		return s;
	s->narrow = s->n * (s->min - 1) <= 256;
	memset(s->shift, s->min - 1 < SHIFT_MAX ? (int)(s->min - 1) : SHIFT_MAX, sizeof(s->shift));
	memset(s->end, 0xff, sizeof(s->end));
	memset(s->first, 0xff, sizeof(s->first));
	for (size_t k = 0; k < s->n; k++) {
		struct pattern *p = &s->pat[k];
		uint32_t *end = &s->end[end_hash(block(p->p + s->min - 2))], *first = &s->first[p->p[0]];

		for (size_t i = 0; i + 2 <= s->min; i++) {
			size_t d = s->min - 2 - i;
			uint8_t *at = &s->shift[shift_at(s, p->p + i)];

			if (d < *at)
				*at = (uint8_t)d;
		}
		p->next_end = *end;
		*end = (uint32_t)k;
		p->next_first = *first;
		*first = (uint32_t)k;
	}
	return s;
}

void scrub_set_free(struct scrub_set *s)
{
	if (s == NULL)
		return;
	for (size_t i = 0; i < s->n; i++) {
		explicit_bzero(s->pat[i].p, s->pat[i].n);
		free(s->pat[i].p);
	}
	free(s->pat);
	explicit_bzero(s, sizeof(*s)); /* the tables tell pairs of octets */
	free(s);
}

size_t scrub_set_max(const struct scrub_set *s) { return s->max; }

/*
 * Overwrites what the values cover in p[0..n). *edge is moved to the end of an overwritten stretch that reaches or spans
 * it. Returns the number of stretches that end behind `from`.
 */
static size_t overwrite(const struct scrub_set *s, uint8_t *p, size_t n, size_t from, size_t *edge)
{
	size_t hits = 0, at = s->min; /* end of the window */

	while (at <= n) {
		unsigned b, move;
		size_t begin, end;

		if (s->narrow)
			while (at <= n && (move = s->shift[narrow_at(p + at - 2)]) > 0)
				at += move;
		else
			while (at <= n && (move = s->shift[block(p + at - 2)]) > 0)
				at += move;
		if (at > n)
			break;
		b = block(p + at - 2);
		begin = end = at - s->min;
		for (uint32_t k = s->end[end_hash(b)]; k != NONE; k = s->pat[k].next_end) {
			const struct pattern *pt = &s->pat[k];

			if (pt->n > end - begin && pt->n <= n - begin && memcmp(p + begin, pt->p, pt->n) == 0)
				end = begin + pt->n;
		}
		if (end == begin) {
			at++;
			continue;
		}
		/* occurrences that begin inside and reach further: looked for before their first octets are gone */
		for (size_t i = begin + 1; i < end; i++) {
			for (uint32_t k = s->first[p[i]]; k != NONE; k = s->pat[k].next_first) {
				const struct pattern *pt = &s->pat[k];

				if (pt->n <= n - i && i + pt->n > end && memcmp(p + i, pt->p, pt->n) == 0)
					end = i + pt->n;
			}
		}
		memset(p + begin, FILLER, end - begin);
		hits += end > from;
		if (begin <= *edge && end > *edge)
			*edge = end;
		at = end + s->min;
	}
	return hits;
}

size_t scrub_inplace(const struct scrub_set *s, char *p, size_t n)
{
	size_t edge = 0;

	return s->n == 0 || n < s->min ? 0 : overwrite(s, (uint8_t *)p, n, 0, &edge);
}

/* Length of the longest suffix of p that is shorter than some value and begins it. */
static size_t open_suffix(const struct scrub_set *s, const uint8_t *p, size_t n)
{
	for (size_t i = n > s->max - 1 ? n - (s->max - 1) : 0; i < n; i++)
		for (uint32_t k = s->first[p[i]]; k != NONE; k = s->pat[k].next_first)
			if (s->pat[k].n > n - i && memcmp(p + i, s->pat[k].p, n - i) == 0)
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
	uint8_t *p;

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
	/* everything before the kept suffix may go, and of it what is covered without a gap */
	edge = s->sent > len - hold ? s->sent : len - hold;
	if (len >= s->set->min)
		s->hits += overwrite(s->set, p, len, had, &edge);
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

	MUST(buf_len(&s->held) == 0 && s->sent == 0);
	if (n == 0 || s->set->n == 0)
		return n;
	hold = open_suffix(s->set, p, n);
	buf_add(&s->held, p + n - hold, hold); /* as it came, before anything is overwritten */
	edge = n - hold;
	if (n >= s->set->min)
		s->hits += overwrite(s->set, p, n, 0, &edge);
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
		if (n >= s->set->min)
			overwrite(s->set, p, n, n, &edge);
		memmove(p, p + s->sent, n - s->sent);
		buf_commit(out, n - s->sent);
		explicit_bzero(p + n - s->sent, s->sent);
	}
	scrub_fini(s);
}
