/* SPDX-License-Identifier: Apache-2.0 */
/* The forms in which values are found, and the tables to find them by. */
#include <stdlib.h>

#include "../../common/base/must.h"
#include "scrub_int.h"

static const char base64_std[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char base64_url[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* Neither beyond ASCII nor a control: of the short escapes of JSON only those of '"' and '/' stand for such octets. */
static bool clean(uint8_t c) { return c >= 0x20 && c < 0x80 && !escape_begins(c); }

/* Takes over p. */
static void add_pattern(struct scrub_set *s, uint8_t *p, size_t n, enum scrub_form form)
{
	struct pattern *pt = &s->pat[s->n];

	for (size_t i = 0; i < s->n; i++)
		if (s->pat[i].n == n && s->pat[i].form == form && memcmp(s->pat[i].p, p, n) == 0) {
			explicit_bzero(p, n);
			free(p);
			return;
		}
	*pt = (struct pattern){ .p = p, .n = n, .form = (uint8_t)form, .plain = true };
	for (size_t i = 0; i < n; i++)
		pt->plain = pt->plain && clean(p[i]);
	s->n++;
	s->min = s->n == 1 || n < s->min ? n : s->min;
	s->max = n > s->max ? n : s->max;
}

/* The characters of base64 that v alone determines, where it begins at octet `skip` of a group of three. */
static void add_base64(struct scrub_set *s, struct str v, unsigned skip, const char *alphabet)
{
	size_t bit = skip == 0 ? 0 : skip == 1 ? 4
					       : 2,
	       n = (v.n * 8 - bit) / 6;
	uint8_t *p = must_malloc(n);

	for (size_t i = 0; i < n; i++, bit += 6) {
		unsigned two = (unsigned)(uint8_t)v.p[bit / 8] << 8 | (bit / 8 + 1 < v.n ? (uint8_t)v.p[bit / 8 + 1] : 0u);

		p[i] = (uint8_t)alphabet[two >> (10 - bit % 8) & 63];
	}
	add_pattern(s, p, n, FORM_BASE64);
}

static void add_value(struct scrub_set *s, struct str v)
{
	uint8_t *p;

	if (v.n < 2) /* one octet would be everywhere */
		return;
	p = must_malloc(v.n);
	memcpy(p, v.p, v.n);
	add_pattern(s, p, v.n, FORM_RAW);
	if (v.n < SCRUB_VALUE_MIN)
		return;
	for (unsigned skip = 0; skip < 3; skip++) {
		add_base64(s, v, skip, base64_std);
		add_base64(s, v, skip, base64_url);
	}
	p = must_malloc(2 * v.n);
	for (size_t i = 0; i < v.n; i++) {
		p[2 * i] = (uint8_t) "0123456789abcdef"[(uint8_t)v.p[i] >> 4];
		p[2 * i + 1] = (uint8_t) "0123456789abcdef"[v.p[i] & 15];
	}
	add_pattern(s, p, 2 * v.n, FORM_HEX);
}

/* The last `want` clean octets in a row; the end, because what secrets have in common is how they begin. False: there are none. */
static bool last_run(const struct pattern *pt, size_t want, size_t *at)
{
	size_t run = 0;

	for (size_t i = pt->n; i-- > 0;) {
		run = clean(pt->p[i]) ? run + 1 : 0;
		if (run == want) {
			*at = i;
			return true;
		}
	}
	return false;
}

/* A filter for escapes: most of what follows a '%' or '\' by chance is none that matters. */
static void make_follows(struct scrub_set *s)
{
	for (unsigned c = 0; c < 256; c++)
		if (s->in_window[c]) {
			s->follows[0][(uint8_t) "0123456789abcdef"[c >> 4]] = s->follows[0][(uint8_t) "0123456789ABCDEF"[c >> 4]] = true;
			if (c == '"' || c == '/')
				s->follows[1][c] = true;
		}
	s->follows[1]['u'] = true;
	for (unsigned c = 0; c < 128; c++)
		s->follows_bits[c] = (uint8_t)(s->follows[0][c] | s->follows[1][c] << 1);
}

static void make_windows(struct scrub_set *s)
{
	size_t at, count = 0;

	s->window = WINDOW_MAX;
	for (size_t k = 0; k < s->n; k++) {
		s->pat[k].slow = !last_run(&s->pat[k], WINDOW_MIN, &at);
		while (!s->pat[k].slow && !last_run(&s->pat[k], s->window, &at))
			s->window--;
		count += !s->pat[k].slow;
	}
	if (count == 0)
		return;
	s->step = s->window - (GRAM - 1);
	s->gram_n = count *= s->step;
	MUST(count < SCRUB_NONE);
	for (s->bits = 16; s->bits < 20 && ((size_t)1 << s->bits) < 64 * count;)
		s->bits++;
	s->bitmap = must_calloc(((size_t)1 << s->bits) / 64, sizeof(*s->bitmap));
	s->grams = must_calloc(count, sizeof(*s->grams));
	count = 0;
	for (size_t k = 0; k < s->n; k++) {
		struct pattern *pt = &s->pat[k];

		if (pt->slow || !last_run(pt, s->window, &at))
			continue;
		for (size_t i = at; i < at + s->window; i++) {
			s->in_window[pt->p[i]] = 1;
			if (pt->form == FORM_HEX && pt->p[i] >= 'a')
				s->in_window[pt->p[i] & ~0x20] = 1;
		}
		for (size_t i = at; i < at + s->step; i++, count++) {
			struct gram *g = &s->grams[count];
			uint32_t h;

			*g = (struct gram){ .octets = gram_of(pt->p + i), .pattern = (uint32_t)k, .at = (uint32_t)i, .end = window_end_of(pt->p + at + s->window - 8) };
			g->end_at = (int32_t)(at + s->window - 8) - (int32_t)i;
			h = gram_hash(g->octets);
			s->bitmap[h >> (32 - s->bits) >> 6] |= (uint64_t)1 << (h >> (32 - s->bits) & 63);
			g->next = s->heads[gram_head(h)];
			s->heads[gram_head(h)] = (uint32_t)count;
		}
	}
	make_follows(s);
}

struct scrub_set *scrub_set_new(const struct str *values, size_t n)
{
	struct scrub_set *s = must_calloc(1, sizeof(*s));

	MUST(n < SCRUB_NONE / 8);
	s->pat = must_calloc(8 * n + 1, sizeof(*s->pat));
	for (size_t i = 0; i < n; i++)
		add_value(s, values[i]);
#ifdef ESCAPE_AVX2
	s->way = __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512bw") ? SCRUB_AVX512 : __builtin_cpu_supports("avx2") ? SCRUB_AVX2 : SCRUB_PLAIN;
#endif
	memset(s->heads, 0xff, sizeof(s->heads));
	memset(s->first, 0xff, sizeof(s->first));
	make_windows(s);
	for (size_t k = 0; k < s->n; k++) {
		struct pattern *pt = &s->pat[k];
		uint8_t c = scrub_fold(pt->p[0]);

		MUST(pt->n < SCRUB_NONE);
		pt->next_first = s->first[c];
		s->first[c] = (uint32_t)k;
		if (pt->slow)
			s->slow = s->slow_first[c] = true;
		for (size_t i = 0; i + GRAM <= pt->n; i++) {
			unsigned h = inside_hash(gram_of(pt->p + i));

			s->inside[h / 64] |= (uint64_t)1 << h % 64;
		}
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
	if (s->bitmap != NULL)
		explicit_bzero(s->bitmap, ((size_t)1 << s->bits) / 8);
	free(s->bitmap);
	/* the groups are the value */
	if (s->grams != NULL)
		explicit_bzero(s->grams, s->gram_n * sizeof(*s->grams));
	free(s->grams);
	explicit_bzero(s, sizeof(*s));
	free(s);
}
