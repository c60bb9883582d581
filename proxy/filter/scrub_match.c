/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does a form stand here? Each octet of it may be written as itself or as an escape. For most forms there is one way to
 * read a text forward; backward, and for forms that have '%', '\' or octets beyond ASCII in them, all ways are followed at
 * once: for each octet of the form the set of places in the text where it can begin.
 */
#include "../../common/base/must.h"
#include "scrub_int.h"

#define PLACES 64 /* more ways than that at one octet only has a value with dozens of '\' or '%' in a row */
struct places {
	size_t v[PLACES];
	unsigned n;
};
/* An escape means up to four octets: sets of five octets in a row are needed at a time. */
struct ways {
	struct places at[5];
	size_t last; /* the furthest octet that can be reached */
};

static void ways_add(struct ways *w, size_t octet, size_t place)
{
	struct places *s = &w->at[octet % 5];

	for (unsigned i = 0; i < s->n; i++)
		if (s->v[i] == place)
			return;
	if (s->n < PLACES)
		s->v[s->n++] = place;
	w->last = octet;
}

static void ways_init(struct ways *w, size_t octet, size_t place)
{
	for (unsigned i = 0; i < 5; i++)
		w->at[i].n = 0;
	ways_add(w, octet, place);
}

static bool utf8_is(const struct pattern *pt, size_t i, const struct escape *e) { return e->n > 1 && e->n <= pt->n - i && memcmp(pt->p + i, e->o, e->n) == 0; }
static bool octet_is(const struct pattern *pt, size_t i, const struct escape *e) { return (e->n == 1 && pattern_is(pt, i, e->o[0])) || (e->latin >= 0 && pattern_is(pt, i, (uint8_t)e->latin)); }

/* One octet further from all places of octet i. */
static void ways_forward(struct ways *w, struct scrub_text t, const struct pattern *pt, size_t i)
{
	struct places s = w->at[i % 5];
	struct escape e;

	w->at[i % 5].n = 0;
	for (unsigned k = 0; k < s.n; k++) {
		size_t at = s.v[k];

		if (at >= t.n)
			continue;
		if (pattern_is(pt, i, t.p[at]))
			ways_add(w, i + 1, at + 1);
		if (!escape_begins(t.p[at]))
			continue;
		escape_read(t.p + at, t.n - at, &e);
		if (e.len > 0 && octet_is(pt, i, &e))
			ways_add(w, i + 1, at + e.len);
		if (e.len > 0 && utf8_is(pt, i, &e))
			ways_add(w, i + e.n, at + e.len);
	}
}

static bool ways_none(const struct ways *w) { return w->at[0].n + w->at[1].n + w->at[2].n + w->at[3].n + w->at[4].n == 0; }

/* Where it ends whose octet i stands at `at`, 0: it does not stand there. */
static size_t end_of(struct scrub_text t, const struct pattern *pt, size_t at, size_t i)
{
	struct ways w;
	struct escape e;
	size_t end = 0;

	if (pt->plain) {
		for (; i < pt->n; i++) {
			if (at >= t.n)
				return 0;
			if (!escape_begins(t.p[at])) {
				if (!pattern_is(pt, i, t.p[at++]))
					return 0;
				continue;
			}
			escape_read(t.p + at, t.n - at, &e);
			if (e.len == 0 || e.n != 1 || !pattern_is(pt, i, e.o[0]))
				return 0;
			at += e.len;
		}
		return at;
	}
	ways_init(&w, i, at);
	for (; i < pt->n && !ways_none(&w); i++)
		ways_forward(&w, t, pt, i);
	if (i < pt->n)
		return 0;
	for (unsigned k = 0; k < w.at[i % 5].n; k++)
		end = w.at[i % 5].v[k] > end ? w.at[i % 5].v[k] : end;
	return end;
}

/* One octet back from all places before which the first i octets are looked for. */
static void ways_back(struct ways *w, struct scrub_text t, const struct pattern *pt, size_t i)
{
	static const uint8_t lens[] = { 2, 3, 6, 12 };
	struct places s = w->at[i % 5];
	struct escape e;

	w->at[i % 5].n = 0;
	for (unsigned k = 0; k < s.n; k++) {
		size_t at = s.v[k];

		if (at > 0 && pattern_is(pt, i - 1, t.p[at - 1]))
			ways_add(w, i - 1, at - 1);
		for (unsigned l = 0; l < sizeof(lens); l++) {
			if (at < lens[l] || !escape_begins(t.p[at - lens[l]]))
				continue;
			escape_read(t.p + at - lens[l], lens[l], &e);
			if (e.len != lens[l])
				continue;
			if (octet_is(pt, i - 1, &e))
				ways_add(w, i - 1, at - e.len);
			if (e.n > 1 && e.n <= i && utf8_is(pt, i - e.n, &e))
				ways_add(w, i - e.n, at - e.len);
		}
	}
}

/* Where it begins whose octet i stands at `at`. */
static bool begin_of(struct scrub_text t, const struct pattern *pt, size_t at, size_t i, size_t *begin)
{
	size_t low = at > i + ESCAPE_MAX ? at - i - ESCAPE_MAX : 0;
	struct ways w;

	if (pt->plain && escape_find(t.p + low, at - low) == at - low) {
		if (at < i)
			return false;
		for (; i > 0; i--)
			if (!pattern_is(pt, i - 1, t.p[--at]))
				return false;
		*begin = at;
		return true;
	}
	ways_init(&w, i, at);
	for (; i > 0 && !ways_none(&w); i--)
		ways_back(&w, t, pt, i);
	if (i > 0 || w.at[0].n == 0)
		return false;
	*begin = at;
	for (unsigned k = 0; k < w.at[0].n; k++)
		*begin = w.at[0].v[k] < *begin ? w.at[0].v[k] : *begin;
	return true;
}

bool scrub_match(struct scrub_text t, const struct pattern *pt, size_t at, size_t i, struct span *out)
{
	out->form = pt->form;
	out->to = end_of(t, pt, at, i);
	return out->to > 0 && begin_of(t, pt, at, i, &out->from);
}

static bool partial(struct scrub_text t, const struct pattern *pt, size_t at, size_t i)
{
	uint8_t upper;

	if (escape_partial(t.p + at, t.n - at, pt->p + i, pt->n - i))
		return true;
	if (pt->form != FORM_HEX || pt->p[i] < 'a')
		return false;
	upper = pt->p[i] & (uint8_t)~0x20;
	return escape_partial(t.p + at, t.n - at, &upper, 1);
}

bool scrub_open(struct scrub_text t, const struct pattern *pt, size_t at)
{
	struct ways w;
	struct escape e;
	size_t i = 0;

	if (pt->plain) {
		for (; at < t.n; i++) {
			if (i == pt->n)
				return false;
			if (!escape_begins(t.p[at])) {
				if (!pattern_is(pt, i, t.p[at++]))
					return false;
				continue;
			}
			escape_read(t.p + at, t.n - at, &e);
			if (e.len == 0)
				return partial(t, pt, at, i);
			if (e.n != 1 || !pattern_is(pt, i, e.o[0]))
				return false;
			at += e.len;
		}
		return i < pt->n;
	}
	ways_init(&w, 0, at);
	for (; i < pt->n && !ways_none(&w); i++) {
		const struct places *s = &w.at[i % 5];

		for (unsigned k = 0; k < s->n; k++) {
			if (s->v[k] == t.n)
				return true;
			if (!escape_begins(t.p[s->v[k]]))
				continue;
			escape_read(t.p + s->v[k], t.n - s->v[k], &e);
			if (e.len == 0 && partial(t, pt, s->v[k], i))
				return true;
		}
		ways_forward(&w, t, pt, i);
	}
	return false;
}
