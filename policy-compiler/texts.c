/* SPDX-License-Identifier: Apache-2.0 */
#include "texts.h"

#include <stdlib.h>

#include "../common/base/buf.h"
#include "../common/base/must.h"

#define STATES_MAX 4096u
#define WORK_MAX 4000000u /* positions looked at */
#define UNITS_MAX 512u

/* One of a pattern's ways to match: its characters, position by position; one behind the last accepts. */
struct way {
	struct str *unit;
	unsigned n, first, of; /* first: its bit; of: the pattern */
	bool fold, name;       /* name: what follows a ";" does not matter */
	char wild;
};
struct state {
	uint64_t *bits;
	struct str text;
};
struct apart {
	struct arena *a;
	struct way *way;
	unsigned way_n, words, pattern_n;
	struct str unit[UNITS_MAX];
	unsigned unit_n;
	struct state *s;
	uint32_t *slot; /* numbers of states by hash, plus one */
	unsigned n, work;
	uint64_t **sig;
};

static bool same_unit(struct str a, struct str b, bool fold) { return fold ? str_ieq(a, b) : str_eq(a, b); }

static void add_unit(struct apart *x, struct str u)
{
	for (unsigned i = 0; i < x->unit_n; i++)
		if (str_eq(x->unit[i], u))
			return;
	if (x->unit_n < UNITS_MAX)
		x->unit[x->unit_n++] = u;
}

static void add_way(struct apart *x, const struct text_pattern *p, struct str s, bool name, unsigned of, unsigned *bits)
{
	struct way *w = &x->way[x->way_n++];

	*w = (struct way){ .unit = arena_alloc(x->a, (s.n + 1) * sizeof(struct str)), .first = *bits, .of = of, .fold = p->fold, .name = name, .wild = p->wild };
	for (size_t i = 0; i < s.n;) {
		size_t n = p->segment && s.p[i] == '%' && i + 3 <= s.n ? 3 : 1;
		struct str u = str_mk(s.p + i, n);

		w->unit[w->n++] = u;
		i += n;
		if (n == 1 && u.p[0] == p->wild)
			continue;
		add_unit(x, u);
		if (n == 1 && p->fold && ascii_lower(u.p[0]) >= 'a' && ascii_lower(u.p[0]) <= 'z') {
			char *other = arena_alloc(x->a, 1);

			*other = (char)(u.p[0] ^ 32);
			add_unit(x, str_mk(other, 1));
		}
	}
	*bits += w->n + 2;
}

static void set(uint64_t *bits, unsigned i) { bits[i / 64] |= (uint64_t)1 << i % 64; }
static bool is_set(const uint64_t *bits, unsigned i) { return (bits[i / 64] >> i % 64 & 1) != 0; }
static bool wild_at(const struct way *w, unsigned i) { return i < w->n && w->unit[i].n == 1 && w->unit[i].p[0] == w->wild; }

static void enter(const struct way *w, uint64_t *to, unsigned i)
{
	set(to, w->first + i);
	for (; wild_at(w, i); i++)
		set(to, w->first + i + 1);
}

static void step(struct apart *x, const uint64_t *from, struct str u, uint64_t *to)
{
	bool semicolon = str_eq(u, STR(";"));

	memset(to, 0, x->words * sizeof(*to));
	for (unsigned k = 0; k < x->way_n; k++) {
		const struct way *w = &x->way[k];

		for (unsigned i = 0; i <= w->n + 1; i++) {
			if (!is_set(from, w->first + i))
				continue;
			x->work++;
			if (i == w->n + 1 || (w->name && i == w->n && semicolon))
				set(to, w->first + w->n + 1);
			else if (wild_at(w, i) && !(w->name && semicolon))
				enter(w, to, i);
			else if (i < w->n && !wild_at(w, i) && same_unit(w->unit[i], u, w->fold))
				enter(w, to, i + 1);
		}
	}
}

uint64_t texts_hash(const uint64_t *bits, unsigned words)
{
	uint64_t h = 0xcbf29ce484222325u;

	for (unsigned i = 0; i < words; i++) {
		h = (h ^ bits[i]) * 0x9e3779b97f4a7c15u;
		h ^= h >> 29;
	}
	return h;
}

static void note_state(struct apart *x, uint64_t *bits, struct str text, struct texts *out)
{
	unsigned at = (unsigned)(texts_hash(bits, x->words) % (2 * STATES_MAX));

	for (; x->slot[at] != 0; at = (at + 1) % (2 * STATES_MAX))
		if (memcmp(x->s[x->slot[at] - 1].bits, bits, x->words * sizeof(*bits)) == 0)
			return;
	if (x->n == STATES_MAX) {
		out->cut = true;
		return;
	}
	x->s[x->n].bits = arena_alloc(x->a, x->words * sizeof(*bits));
	memcpy(x->s[x->n].bits, bits, x->words * sizeof(*bits));
	x->s[x->n].text = arena_str(x->a, text);
	x->slot[at] = ++x->n;
}

/* The set of patterns that a text matches: is it a new one? */
static void note_text(struct apart *x, const struct state *s, bool segment, struct texts *out)
{
	unsigned words = x->pattern_n / 64 + 1;
	uint64_t *sig = arena_zalloc(x->a, words * sizeof(*sig));
	struct str t = s->text;

	/* no segment: what a path cannot have */
	if (segment && t.n > 0 && t.p[0] == '.' && (t.n == 1 || t.p[1] == ';' || (t.p[1] == '.' && (t.n == 2 || t.p[2] == ';'))))
		return;
	for (unsigned k = 0; k < x->way_n; k++)
		if (is_set(s->bits, x->way[k].first + x->way[k].n) || is_set(s->bits, x->way[k].first + x->way[k].n + 1))
			set(sig, x->way[k].of);
	for (unsigned i = 0; i < out->n; i++)
		if (memcmp(x->sig[i], sig, words * sizeof(*sig)) == 0)
			return;
	if (out->n == TEXTS_MAX) {
		out->cut = true;
		return;
	}
	x->sig[out->n] = sig;
	out->t[out->n++] = t;
}

/* A character that stands in none: what only stars match. */
static char other_char(const struct apart *x)
{
	static const char some[] = "zqxjkvwy0123456789-_";

	for (const char *c = some; *c != 0; c++) {
		bool there = false;

		for (unsigned i = 0; i < x->unit_n; i++)
			there = there || (x->unit[i].n == 1 && ascii_lower(x->unit[i].p[0]) == *c);
		if (!there)
			return *c;
	}
	return 'z';
}

void texts_apart(struct arena *result, const struct text_pattern *p, unsigned n, struct texts *out)
{
	struct arena a = { 0 };
	struct apart *x = must_calloc(1, sizeof(*x));
	unsigned bits = 0;
	bool segment = n > 0 && p[0].segment, params = false;
	uint64_t *to;
	char *other = arena_alloc(&a, 1);

	out->n = 0;
	out->cut = false;
	x->a = &a;
	x->pattern_n = n;
	x->way = arena_alloc(&a, (2ul * n + 1) * sizeof(*x->way));
	for (unsigned i = 0; i < n; i++) {
		const char *semicolon = p[i].s.n ? memchr(p[i].s.p, ';', p[i].s.n) : NULL;
		bool again = false;

		for (unsigned k = 0; k < i && !again; k++)
			again = str_eq(p[k].s, p[i].s) && p[k].fold == p[i].fold;
		if (again)
			continue;
		add_way(x, &p[i], p[i].s, false, i, &bits);
		if (p[i].segment && p[i].fold) {
			add_way(x, &p[i], semicolon ? str_mk(p[i].s.p, (size_t)(semicolon - p[i].s.p)) : p[i].s, true, i, &bits);
			params = true;
		}
	}
	*other = other_char(x);
	add_unit(x, str_mk(other, 1));
	if (params)
		add_unit(x, STR(";"));
	out->cut = x->unit_n == UNITS_MAX;
	x->words = bits / 64 + 1;
	x->s = must_calloc(STATES_MAX, sizeof(*x->s));
	x->slot = must_calloc(2 * STATES_MAX, sizeof(*x->slot));
	x->sig = must_calloc(TEXTS_MAX, sizeof(*x->sig));
	to = arena_zalloc(&a, x->words * sizeof(*to));
	for (unsigned k = 0; k < x->way_n; k++)
		enter(&x->way[k], to, 0);
	note_state(x, to, STR_NONE, out);
	for (unsigned i = 0; i < x->n; i++) {
		struct buf b = { 0 };

		note_text(x, &x->s[i], segment, out);
		for (unsigned u = 0; u < x->unit_n; u++) {
			if (x->work > WORK_MAX) {
				out->cut = true;
				break;
			}
			step(x, x->s[i].bits, x->unit[u], to);
			buf_clear(&b);
			buf_adds(&b, x->s[i].text);
			buf_adds(&b, x->unit[u]);
			note_state(x, to, buf_str(&b), out);
		}
		buf_fini(&b);
	}
	for (unsigned i = 0; i < out->n; i++)
		out->t[i] = arena_str(result, out->t[i]);
	free(x->s);
	free(x->slot);
	free(x->sig);
	free(x);
	arena_fini(&a);
}

void texts_add(struct texts *ts, struct str s)
{
	for (unsigned i = 0; i < ts->n; i++)
		if (str_eq(ts->t[i], s))
			return;
	if (ts->n == TEXTS_MAX)
		ts->cut = true;
	else
		ts->t[ts->n++] = s;
}
