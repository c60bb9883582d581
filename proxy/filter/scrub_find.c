/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the forms of values in a text: see scrub_int.h. */
#include <stdlib.h>

#include "../../common/base/must.h"
#include "scrub_int.h"

static void add(struct spans *out, const struct span *s)
{
	if (out->n > 0) {
		struct span *last = &out->v[out->n - 1];

		if (s->form == last->form && s->from >= last->from && s->from <= last->to) {
			last->to = s->to > last->to ? s->to : last->to;
			return;
		}
	}
	if (out->n == out->cap) {
		struct span *more = must_malloc(2 * out->cap * sizeof(*more));

		memcpy(more, out->v, out->n * sizeof(*more));
		if (out->v != out->few)
			free(out->v);
		out->v = more;
		out->cap *= 2;
	}
	out->v[out->n++] = *s;
}

static inline bool in_bitmap(const struct scrub_set *s, uint32_t g)
{
	uint32_t h = gram_hash(g) >> (32 - s->bits);

	return s->bitmap[h >> 6] >> (h & 63) & 1;
}

/* No escape reaches into the window around the group at `at`, whichever of its octets the group is. */
static bool window_is_plain(const struct scrub_set *s, struct scrub_text t, size_t at)
{
	size_t reach = s->window + ESCAPE_MAX, from = at > reach ? at - reach : 0, to = t.n - at > s->window ? at + s->window : t.n;

	return escape_find(t.p + from, to - from) == to - from;
}

/* The group g stands at `at`: which forms are around it? */
static void look_closer(const struct scrub_set *s, struct scrub_text t, uint32_t g, size_t at, struct spans *out)
{
	int plain = -1; /* not known */
	struct span found;

	for (uint32_t k = s->heads[gram_head(gram_hash(g))]; k != SCRUB_NONE; k = s->grams[k].next) {
		const struct gram *e = &s->grams[k];
		ptrdiff_t end = (ptrdiff_t)at + e->end_at;

		if (e->octets != g)
			continue;
		/* forms that begin alike share groups: most are told apart by eight octets more */
		if (end < 0 || (size_t)end + 8 > t.n || window_end_of(t.p + end) != e->end) {
			if (plain < 0)
				plain = window_is_plain(s, t, at);
			if (plain)
				continue;
		}
		if (scrub_match(t, &s->pat[e->pattern], at, e->at, &found))
			add(out, &found);
	}
}

static inline void look(const struct scrub_set *s, struct scrub_text t, uint32_t g, size_t at, struct spans *out)
{
	if (in_bitmap(s, g))
		look_closer(s, t, g, at, out);
}

/* Windows that stand there as they are. */
static void find_plain(const struct scrub_set *s, struct scrub_text t, struct spans *out)
{
	const size_t step = s->step;
	const uint8_t *p = t.p;
	size_t i = 0;

	/* four look-ups at a time, none of which waits for another */
	for (; i + 3 * step + GRAM <= t.n; i += 4 * step) {
		uint32_t a = gram_of(p + i), b = gram_of(p + i + step), c = gram_of(p + i + 2 * step), d = gram_of(p + i + 3 * step);

		if (!(in_bitmap(s, a) | in_bitmap(s, b) | in_bitmap(s, c) | in_bitmap(s, d)))
			continue;
		look(s, t, a, i, out);
		look(s, t, b, i + step, out);
		look(s, t, c, i + 2 * step, out);
		look(s, t, d, i + 3 * step, out);
	}
	for (; i + GRAM <= t.n; i += step)
		look(s, t, gram_of(p + i), i, out);
}

/*
 * Windows with an escape in them. A run is the text around escapes, decoded: the octets before the first one, back to the
 * escape before that, then everything until no window reaches back to an escape of the run. It ends before an octet, and an
 * escape of one, that stands in no window. `\\` always does so: what follows is read anew from its second octet.
 */
#define RUN 256
struct run {
	size_t n;
	uint8_t octet[RUN], len[RUN]; /* len: of the text that stands for it */
	size_t at[RUN];
	size_t esc_n;
	uint16_t esc[RUN]; /* which octets were escaped */
};

static size_t window_escape(const struct scrub_set *s, struct scrub_text t, size_t at, uint8_t *octet)
{
	struct escape e;

	escape_read(t.p + at, t.n - at, &e);
	if (e.len == 0 || e.n != 1 || !s->in_window[e.o[0]])
		return 0;
	*octet = e.o[0];
	return e.len;
}

static void run_push(struct run *r, uint8_t octet, size_t at, size_t len)
{
	if (len > 1)
		r->esc[r->esc_n++] = (uint16_t)r->n;
	r->octet[r->n] = octet;
	r->at[r->n] = at;
	r->len[r->n++] = (uint8_t)len;
}

static void run_look(const struct scrub_set *s, struct scrub_text t, const struct run *r, struct spans *out)
{
	for (size_t k = 0; k + GRAM <= r->n; k += s->step)
		look(s, t, gram_of(r->octet + k), r->at[k], out);
	/* windows that begin inside the text of an escape ("41" of %41): all of them have its last octet, and the next three */
	for (size_t i = 0; i < r->esc_n && r->esc[i] + (size_t)GRAM <= r->n; i++) {
		size_t k = r->esc[i], at = r->at[k] + r->len[k] - 1;
		uint8_t g[GRAM] = { t.p[at], r->octet[k + 1], r->octet[k + 2], r->octet[k + 3] };

		look(s, t, gram_of(g), at, out);
	}
}

/* Full: what a window can still reach stays. */
static void run_slide(struct run *r, size_t keep)
{
	size_t gone = r->n - keep, n = 0;

	memmove(r->octet, r->octet + gone, keep);
	memmove(r->len, r->len + gone, keep);
	memmove(r->at, r->at + gone, keep * sizeof(*r->at));
	for (size_t i = 0; i < r->esc_n; i++)
		if (r->esc[i] >= gone)
			r->esc[n++] = (uint16_t)(r->esc[i] - gone);
	r->esc_n = n;
	r->n = keep;
}

/* From the escape at `at`. Returns where the run ended. */
static size_t find_run(const struct scrub_set *s, struct scrub_text t, size_t at, struct spans *out)
{
	size_t reach = s->window - 1, since = 0, len, from = at;
	struct run r;
	uint8_t octet;

	r.n = r.esc_n = 0;
	while (from > 0 && at - from < reach && !escape_begins(t.p[from - 1]))
		from--;
	for (; from < at; from++)
		run_push(&r, t.p[from], from, 1);
	while (at < t.n) {
		if (escape_begins(t.p[at])) {
			len = window_escape(s, t, at, &octet);
			if (len == 0)
				break;
			since = 0;
		} else {
			octet = t.p[at];
			if (!s->in_window[octet] || since == reach)
				break;
			len = 1;
			since++;
		}
		run_push(&r, octet, at, len);
		at += len;
		if (r.n == RUN) {
			run_look(s, t, &r, out);
			run_slide(&r, reach);
		}
	}
	run_look(s, t, &r, out);
	return at;
}

static inline bool escape_follows(const struct scrub_set *s, const uint8_t *p) { return s->follows[p[0] == '\\'][p[1]]; }

/*
 * candidates: of the 64 octets at p (65 can be read) those that may begin an escape that matters. exact: nearly all of them do; else it is
 * every '%' and '\\'.
 */
static inline __attribute__((always_inline)) void find_escaped_by(const struct scrub_set *s, struct scrub_text t, struct spans *out, uint64_t (*candidates)(const struct scrub_set *s, const uint8_t *p), bool exact)
{
	size_t next = 0;
	uint8_t octet;

	for (size_t base = 0; base < t.n; base += 64) {
		uint64_t m = 0;

		if (base + 64 < t.n) {
			m = candidates(s, t.p + base);
			/* of arbitrary octets every third block has one, which hardly ever is an escape: told without a branch that nobody can predict */
			if (exact ? m == 0 : (m & (m - 1)) == 0 && !((m != 0) & escape_follows(s, t.p + base + __builtin_ctzll(m | (uint64_t)1 << 63))))
				continue;
		} else {
			for (size_t i = base; i + 1 < t.n; i++)
				m |= (uint64_t)escape_begins(t.p[i]) << (i - base);
		}
		for (; m != 0; m &= m - 1) {
			size_t at = base + (size_t)__builtin_ctzll(m);

			if (at >= next && escape_follows(s, t.p + at) && window_escape(s, t, at, &octet) > 0)
				next = find_run(s, t, at, out);
		}
	}
}

static inline uint64_t candidates(const struct scrub_set *s, const uint8_t *p)
{
	(void)s;
	return escape_mask(p);
}

static void find_escaped(const struct scrub_set *s, struct scrub_text t, struct spans *out) { find_escaped_by(s, t, out, candidates, false); }

#ifdef ESCAPE_AVX2
ESCAPE_AVX2 static inline uint64_t candidates_avx2(const struct scrub_set *s, const uint8_t *p)
{
	(void)s;
	return escape_mask_avx2(p);
}

ESCAPE_AVX2 static void find_escaped_avx2(const struct scrub_set *s, struct scrub_text t, struct spans *out) { find_escaped_by(s, t, out, candidates_avx2, false); }

/* What follows is looked up as well. The look-up takes seven bits: octets beyond ASCII, which follow none, are taken out. */
#define AVX512 __attribute__((target("avx512bw,avx512vbmi")))
AVX512 static inline uint64_t candidates_avx512(const struct scrub_set *s, const uint8_t *p)
{
	__m512i v = _mm512_loadu_si512(p), behind = _mm512_loadu_si512(p + 1);
	__m512i bits = _mm512_permutex2var_epi8(_mm512_loadu_si512(s->follows_bits), behind, _mm512_loadu_si512(s->follows_bits + 64));
	__mmask64 percent = _mm512_cmpeq_epi8_mask(v, _mm512_set1_epi8('%')), slash = _mm512_cmpeq_epi8_mask(v, _mm512_set1_epi8('\\'));

	return ((percent & _mm512_test_epi8_mask(bits, _mm512_set1_epi8(1))) | (slash & _mm512_test_epi8_mask(bits, _mm512_set1_epi8(2)))) & ~_mm512_movepi8_mask(behind);
}

AVX512 static void find_escaped_avx512(const struct scrub_set *s, struct scrub_text t, struct spans *out) { find_escaped_by(s, t, out, candidates_avx512, true); }
#else
#define find_escaped_avx2 find_escaped
#define find_escaped_avx512 find_escaped
#endif

static void try_first(const struct scrub_set *s, struct scrub_text t, uint8_t first, size_t at, struct spans *out)
{
	struct span found;

	for (uint32_t k = s->first[scrub_fold(first)]; k != SCRUB_NONE; k = s->pat[k].next_first)
		if (s->pat[k].slow && scrub_match(t, &s->pat[k], at, 0, &found))
			add(out, &found);
}

/* Forms without a window: at each octet. */
static void find_slow(const struct scrub_set *s, struct scrub_text t, struct spans *out)
{
	struct escape e;

	for (size_t i = 0; i < t.n; i++) {
		if (s->slow_first[scrub_fold(t.p[i])])
			try_first(s, t, t.p[i], i, out);
		if (!escape_begins(t.p[i]))
			continue;
		escape_read(t.p + i, t.n - i, &e);
		if (e.len == 0)
			continue;
		try_first(s, t, e.o[0], i, out);
		if (e.latin >= 0)
			try_first(s, t, (uint8_t)e.latin, i, out);
	}
}

void scrub_find(const struct scrub_set *s, struct scrub_text t, struct spans *out)
{
	if (s->step > 0) {
		find_plain(s, t, out);
		(s->way == SCRUB_AVX512 ? find_escaped_avx512 : s->way == SCRUB_AVX2 ? find_escaped_avx2 : find_escaped)(s, t, out);
	}
	if (s->slow)
		find_slow(s, t, out);
}
