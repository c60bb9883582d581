/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <time.h>

#include "../common/base/must.h"
#include "../common/policy/glob.h"
#include "../common/policy/host_pattern.h"
#include "ask.h"
#include "diff.h"
#include "texts.h"

#define PATHS_MAX 6000u /* sets of positions that are walked, of one host */
#define DEPTH_MAX 24u
#define DECISIONS_MAX 4000000ul /* of one host */
#define REGEX_TEXTS 24u		/* that are tried of one expression */
#define REGEX_ENDS 32u		/* of those texts, by which paths are told apart */

struct side {
	struct policy *p;
	struct asker k;
	const struct pol_dest **all;
	unsigned all_n;
	struct dest dest; /* of the host at hand */
	bool found;
};
struct pattern { /* of one rule, as segments */
	const struct pol_rule *r;
	struct str *seg;
	unsigned n, first; /* first: the bit of its first position; behind the last is one more */
	unsigned *of;	   /* of each segment its number among those that differ */
	bool *parent;	   /* by position: what is left of a deny covers the path so far */
	struct str *ends;  /* of a regular expression: what texts that it matches end with */
	unsigned end_n;
};
struct path_state {
	uint64_t *bits; /* positions, then those ends that would match */
	struct str path;
	unsigned depth;
};
struct symbol {
	struct str s;
	uint64_t *fits; /* by number of segment */
	bool nameless;	/* empty but for parameters */
};
struct walk {
	struct side side[2];
	struct diff_changes *cs;
	struct arena a;	  /* of one host */
	struct str fresh; /* a segment, a label, a value that no rule names */
	enum scheme scheme;
	struct str host;
	uint16_t port;
	struct pattern *patterns;
	unsigned pattern_n, words, position_words;
	struct str *segs; /* those that differ; of a deny apart from those of an allow */
	bool *seg_deny;
	unsigned seg_n;
	struct symbol *symbols;
	unsigned symbol_n;
	bool has_regex, empties;
	struct str methods[64];
	unsigned method_n;
	size_t first_change; /* of this host */
	unsigned long decisions;
	uint64_t now;
	uint64_t *asked; /* hashes of (method, rules that match) */
	size_t asked_n, asked_cap;
	struct str method, path; /* at hand */
};

/* --- one question -------------------------------------------------------------------------------------------------- */

static struct str reason(struct arena *a, const struct decision *d, const struct asked *q)
{
	struct buf b = { 0 };
	struct str s;

	if (d->rule.n > 0)
		buf_addf(&b, "%.*s (%.*s)", (int)d->rule.n, d->rule.p, (int)d->source.n, d->source.p);
	else
		buf_addz(&b, ask_why(q, d));
	s = arena_str(a, buf_str(&b));
	buf_fini(&b);
	return s;
}

static bool known(const struct walk *w, struct str method, struct str was, struct str is, bool wider)
{
	for (size_t i = w->first_change; i < w->cs->n; i++) {
		const struct diff_change *c = &w->cs->c[i];

		if (c->wider == wider && str_eq(c->was, was) && str_eq(c->is, is) && str_starts(c->request, method) && c->request.n > method.n && c->request.p[method.n] == ' ')
			return true;
	}
	return false;
}

static struct str spelled(struct walk *w, struct str method, struct str path, const struct probe *s)
{
	bool v6 = memchr(w->host.p, ':', w->host.n) != NULL;
	struct buf b = { 0 };
	struct str r;

	buf_addf(&b, v6 ? "%.*s %s://[%.*s]" : "%.*s %s://%.*s", (int)method.n, method.p, scheme_name(w->scheme), (int)w->host.n, w->host.p);
	if (w->port != (w->scheme == SCHEME_HTTP ? 80 : 443))
		buf_addf(&b, ":%u", w->port);
	if (!str_eq(method, STR("TUNNEL")) || !str_eq(path, STR("*")))
		buf_adds(&b, path);
	if (s->f.has_query)
		buf_addf(&b, "?%.*s", (int)s->f.query.n, s->f.query.n ? s->f.query.p : "");
	for (unsigned i = 0; i < s->field_n; i++)
		buf_addf(&b, " [%.*s: %.*s]", (int)s->names[i].n, s->names[i].p, (int)s->values[i].n, s->values[i].n ? s->values[i].p : "");
	if (s->content.n > 0 && memchr(s->content.p, 0, s->content.n) == NULL)
		buf_addf(&b, " with %.*s", DIAG_STR(s->content));
	if (s->f.now_s != w->now) {
		time_t t = (time_t)s->f.now_s;
		struct tm tm;
		char text[32];

		MUST(gmtime_r(&t, &tm) != NULL && strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm) > 0);
		buf_addf(&b, " at %s", text);
	}
	r = arena_str(&w->cs->a, buf_str(&b));
	buf_fini(&b);
	return r;
}

/* Its texts in memory that lasts. */
static struct probe *kept(struct walk *w, const struct facts *f, const struct probe *p)
{
	struct arena *a = &w->cs->a;
	struct probe *k = arena_alloc(a, sizeof(*k));

	*k = *p;
	k->f = *f;
	k->f.host = arena_str(a, f->host);
	k->f.method = arena_str(a, f->method);
	k->f.path = arena_str(a, f->path);
	k->f.query = f->query.p != NULL ? arena_str(a, f->query) : STR_NONE;
	k->content = arena_str(a, p->content);
	k->f.content = &k->content;
	k->f.field_arg = k;
	for (unsigned i = 0; i < p->field_n; i++) {
		k->names[i] = arena_str(a, p->names[i]);
		k->values[i] = arena_str(a, p->values[i]);
	}
	return k;
}

static void compare(void *arg, struct probe *p)
{
	struct walk *w = arg;
	struct asked q = { .f = p->f };
	struct decision d[2];
	struct diff_change *c;
	struct str was, is;
	bool wider;

	q.f.scheme = w->scheme;
	q.f.host = w->host;
	q.f.port = w->port;
	q.f.method = w->method;
	q.f.path = w->path;
	q.f.content = &p->content;
	q.f.field_arg = p;
	w->decisions++;
	for (int i = 0; i < 2; i++)
		decide(w->side[i].k.t, w->side[i].found ? &w->side[i].dest : NULL, &q.f, &d[i]);
	if (d[0].verdict == d[1].verdict)
		return;
	wider = d[1].verdict == VERDICT_ALLOW;
	was = reason(&w->cs->a, &d[0], &q);
	is = reason(&w->cs->a, &d[1], &q);
	/* HEAD goes with GET */
	if (known(w, w->method, was, is, wider) || (str_eq(w->method, STR("HEAD")) && known(w, STR("GET"), was, is, wider)))
		return;
	c = diff_add(w->cs);
	c->wider = wider;
	c->narrower = !wider;
	c->request = spelled(w, w->method, w->path, p);
	c->was = was;
	c->is = is;
	c->witness = kept(w, &q.f, p);
}

/* Whether these rules have been asked about with this method; from now on they have. */
static bool asked_before(struct walk *w, uint64_t hash)
{
	size_t at;

	hash |= 1;
	if (w->asked_n * 2 >= w->asked_cap) {
		size_t cap = w->asked_cap ? 2 * w->asked_cap : 256;
		uint64_t *more = must_calloc(cap, sizeof(*more));

		for (size_t i = 0; i < w->asked_cap; i++) {
			if (w->asked[i] == 0)
				continue;
			for (at = w->asked[i] / 2 % cap; more[at] != 0; at = (at + 1) % cap)
				;
			more[at] = w->asked[i];
		}
		free(w->asked);
		w->asked = more;
		w->asked_cap = cap;
	}
	for (at = hash / 2 % w->asked_cap; w->asked[at] != 0; at = (at + 1) % w->asked_cap)
		if (w->asked[at] == hash)
			return true;
	w->asked[at] = hash;
	w->asked_n++;
	return false;
}

static bool is_regex(const struct pol_rule *r) { return r->cond != NULL && (r->cond->parts & COND_REGEX) != 0; }

static bool regex_fits(const struct pol_rule *r, struct str path)
{
	struct pol_rule alone = *r;
	struct pol_cond c = *r->cond;
	struct facts f = { .path = path };
	unsigned failed;

	c.parts = COND_REGEX;
	alone.cond = &c;
	return ref_cond(&alone, &f, &failed) == COND_YES;
}

/* All that may tell rules apart on this path. A decision depends on which rules have its method and path, and on their conditions. */
static void ask_path(struct walk *w, struct str path)
{
	const struct pol_rule **on = must_calloc(w->pattern_n + 1ul, sizeof(const struct pol_rule *)), **with = must_calloc(w->pattern_n + 1ul, sizeof(const struct pol_rule *));
	unsigned on_n = 0;

	for (unsigned i = 0; i < w->pattern_n; i++) {
		const struct pol_rule *r = w->patterns[i].r;

		if (ref_path(r, path) && (!is_regex(r) || regex_fits(r, path)))
			on[on_n++] = r;
	}
	w->path = path;
	for (unsigned m = 0; m < w->method_n; m++) {
		uint64_t hash = m * 0x9e3779b97f4a7c15u + 0xcbf29ce484222325u;
		unsigned n = 0;

		w->method = w->methods[m];
		for (unsigned i = 0; i < on_n; i++) {
			if (!ref_method(on[i], w->method))
				continue;
			hash = (hash ^ (uintptr_t)on[i]) * 0x9e3779b97f4a7c15u;
			hash ^= hash >> 29;
			if (on[i]->cond != NULL)
				with[n++] = on[i];
		}
		if (asked_before(w, hash))
			continue;
		if (w->decisions > DECISIONS_MAX || !probe_each(with, n, w->fresh, w->now, compare, w))
			w->cs->cut = true;
	}
	free(on);
	free(with);
}

/* --- the walk ------------------------------------------------------------------------------------------------------ */

static bool star_in(struct str s) { return s.n > 0 && memchr(s.p, '*', s.n) != NULL; }

static void add_method(struct walk *w, struct str m)
{
	for (unsigned i = 0; i < w->method_n; i++)
		if (str_eq(w->methods[i], m))
			return;
	if (w->method_n < sizeof(w->methods) / sizeof(w->methods[0]))
		w->methods[w->method_n++] = m;
	else
		w->cs->cut = true;
}

static bool double_star(struct str s) { return str_eq(s, STR("**")); }

static unsigned add_segment(struct walk *w, struct str s, bool deny)
{
	for (unsigned i = 0; i < w->seg_n; i++)
		if (w->seg_deny[i] == deny && str_eq(w->segs[i], s))
			return i;
	w->segs[w->seg_n] = s;
	w->seg_deny[w->seg_n] = deny;
	return w->seg_n++;
}

/* What of a deny's pattern, from there on, may stand for nothing: as in ref_eval's covers_parent. */
static bool may_end(const struct pattern *p, unsigned at)
{
	for (; at < p->n; at++) {
		if (str_eq(p->seg[at], STR("*"))) {
			while (++at < p->n)
				if (!ref_empty(p->seg[at]))
					return false;
			return true;
		}
		if (!double_star(p->seg[at]) && !ref_empty(p->seg[at]))
			return false;
	}
	return true;
}

static void add_ends(struct walk *w, struct pattern *p)
{
	p->ends = arena_alloc(&w->a, REGEX_ENDS * sizeof(struct str));
	for (unsigned k = 0; k < REGEX_TEXTS; k++) {
		struct str s = probe_path(&w->a, p->r->cond->regex, k);

		for (size_t i = 0; i <= s.n && p->end_n < REGEX_ENDS; i++) {
			struct str end = str_mk(s.p + i, s.n - i);
			bool there = false;

			if (i < s.n && (s.p[i] != '/' || i == 0))
				continue;
			for (unsigned j = 0; j < p->end_n; j++)
				there = there || str_eq(p->ends[j], end);
			if (!there)
				p->ends[p->end_n++] = end;
		}
	}
}

static void add_pattern(struct walk *w, const struct pol_rule *r, unsigned *bits)
{
	struct pattern *p = &w->patterns[w->pattern_n++];
	struct str s = r->pattern;

	*p = (struct pattern){ .r = r, .first = *bits };
	for (unsigned i = 0; i < r->method_n; i++)
		add_method(w, r->methods[i]);
	if (is_regex(r)) {
		w->has_regex = true;
		add_ends(w, p);
	}
	if (s.p[0] != '/')
		return;
	p->seg = arena_alloc(&w->a, (s.n + 2) * sizeof(struct str));
	p->of = arena_alloc(&w->a, (s.n + 2) * sizeof(*p->of));
	p->parent = arena_alloc(&w->a, (s.n + 3) * sizeof(*p->parent));
	for (size_t b = 1, e; b <= s.n; b = e + 1) {
		for (e = b; e < s.n && s.p[e] != '/';)
			e++;
		p->of[p->n] = add_segment(w, str_mk(s.p + b, e - b), r->deny);
		p->seg[p->n++] = str_mk(s.p + b, e - b);
	}
	for (unsigned i = 0; i <= p->n; i++)
		p->parent[i] = r->deny && may_end(p, i);
	*bits += p->n + 1;
}

static void set(uint64_t *bits, unsigned i) { bits[i / 64] |= (uint64_t)1 << i % 64; }
static bool is_set(const uint64_t *bits, unsigned i) { return (bits[i / 64] >> i % 64 & 1) != 0; }

static bool nameless(struct str s) { return s.n == 0 || s.p[0] == ';'; }

static void add_symbol(struct walk *w, struct str s, unsigned max)
{
	struct symbol *y = &w->symbols[w->symbol_n];
	unsigned words = w->seg_n / 64 + 1;

	if (w->symbol_n == max) {
		w->cs->cut = true;
		return;
	}
	*y = (struct symbol){ .s = s, .fits = arena_zalloc(&w->a, words * sizeof(uint64_t)), .nameless = nameless(s) };
	for (unsigned i = 0; i < w->seg_n; i++)
		if (!double_star(w->segs[i]) && ref_segment(w->segs[i], s, w->seg_deny[i]))
			set(y->fits, i);
	/* what fits alike is alike, but to an expression */
	for (unsigned i = 0; i < w->symbol_n; i++)
		if (w->has_regex ? str_eq(w->symbols[i].s, s) : memcmp(w->symbols[i].fits, y->fits, words * sizeof(uint64_t)) == 0 && w->symbols[i].nameless == y->nameless)
			return;
	w->symbol_n++;
}

static void add_symbols(struct walk *w)
{
	struct text_pattern *p = must_calloc(w->seg_n + 1ul, sizeof(*p));
	struct texts *ts = must_malloc(sizeof(*ts));
	unsigned n = 0, max;
	bool denies = false;

	for (unsigned i = 0; i < w->seg_n; i++) {
		struct str s = w->segs[i];

		denies = denies || w->seg_deny[i];
		if (s.n > 0 && !str_eq(s, STR("*")) && !double_star(s) && (w->seg_deny[i] || star_in(s))) /* others are their own texts */
			p[n++] = (struct text_pattern){ .s = s, .wild = '*', .fold = w->seg_deny[i], .segment = true };
	}
	texts_apart(&w->a, p, n, ts);
	w->cs->cut = w->cs->cut || ts->cut;
	max = ts->n + w->seg_n + 3 + (w->has_regex ? 512 : 0);
	w->symbols = arena_alloc(&w->a, max * sizeof(*w->symbols));
	add_symbol(w, w->fresh, max);
	for (unsigned i = 0; i < w->seg_n; i++)
		if (w->segs[i].n > 0 && !star_in(w->segs[i]))
			add_symbol(w, w->segs[i], max);
	for (unsigned i = 0; i < ts->n; i++)
		if (ts->t[i].n > 0)
			add_symbol(w, ts->t[i], max);
	if (denies)
		add_symbol(w, STR(";z"), max);
	if (w->empties)
		add_symbol(w, STR_NONE, max);
	for (unsigned i = 0; i < w->pattern_n; i++) {
		for (unsigned k = 0; is_regex(w->patterns[i].r) && k < REGEX_TEXTS; k++) {
			struct str s = probe_path(&w->a, w->patterns[i].r->cond->regex, k);

			for (size_t b = 1, e; b < s.n; b = e + 1) {
				for (e = b; e < s.n && s.p[e] != '/';)
					e++;
				if (e > b)
					add_symbol(w, str_mk(s.p + b, e - b), max);
			}
		}
	}
	free(p);
	free(ts);
}

static void enter(const struct pattern *p, uint64_t *to, unsigned at)
{
	set(to, p->first + at);
	for (; at < p->n; at++) { /* what may stand for no segment */
		if (p->r->deny ? !double_star(p->seg[at]) && !ref_empty(p->seg[at]) : !double_star(p->seg[at]) || at + 1 == p->n)
			break;
		set(to, p->first + at + 1);
	}
}

/* The positions behind one more segment; those of an allow and of a deny as ref_eval has them. */
static void step(const struct walk *w, const uint64_t *from, const struct symbol *y, uint64_t *to)
{
	memset(to, 0, w->words * sizeof(*to));
	for (unsigned i = 0; i < w->pattern_n; i++) {
		const struct pattern *p = &w->patterns[i];

		for (unsigned at = 0; p->seg != NULL && at <= p->n; at++) {
			if (!is_set(from, p->first + at))
				continue;
			if (p->r->deny && y->nameless)
				enter(p, to, at);
			if (at == p->n)
				continue;
			if (double_star(p->seg[at])) {
				enter(p, to, at);
				if (at + 1 == p->n)
					set(to, p->first + at + 1);
			} else if (is_set(y->fits, p->of[at])) {
				enter(p, to, at + 1);
			}
		}
	}
}

/* Which texts would be matched from here. */
static void add_regex_bits(const struct walk *w, struct str path, uint64_t *to)
{
	unsigned bit = w->position_words * 64;
	struct buf b = { 0 };

	for (unsigned i = 0; i < w->pattern_n; i++) {
		for (unsigned k = 0; k < w->patterns[i].end_n; k++, bit++) {
			buf_clear(&b);
			buf_adds(&b, path);
			buf_adds(&b, w->patterns[i].ends[k]);
			if (buf_len(&b) > 0 && regex_fits(w->patterns[i].r, buf_str(&b)))
				set(to, bit);
		}
	}
	buf_fini(&b);
}

static struct str below(struct arena *a, struct str path, struct str segment)
{
	struct buf b = { 0 };
	struct str s;

	buf_adds(&b, path);
	buf_addc(&b, '/');
	buf_adds(&b, segment);
	s = arena_str(a, buf_str(&b));
	buf_fini(&b);
	return s;
}

static void walk_paths(struct walk *w)
{
	struct path_state *s = must_calloc(PATHS_MAX, sizeof(*s));
	uint32_t *slot = must_calloc(2 * PATHS_MAX, sizeof(*slot));
	uint64_t *to = arena_alloc(&w->a, w->words * sizeof(*to));
	size_t n = 1;

	s[0].bits = arena_zalloc(&w->a, w->words * sizeof(*to));
	s[0].path = STR("");
	for (unsigned i = 0; i < w->pattern_n; i++)
		if (w->patterns[i].seg != NULL)
			enter(&w->patterns[i], s[0].bits, 0);
	for (size_t i = 0; i < n; i++) {
		ask_path(w, below(&w->a, s[i].path, STR_NONE)); /* "/" itself, or with a slash at the end */
		if (i > 0)
			ask_path(w, s[i].path);
		for (unsigned k = 0; k < w->symbol_n; k++) {
			struct str path = below(&w->a, s[i].path, w->symbols[k].s);
			unsigned at;

			step(w, s[i].bits, &w->symbols[k], to);
			if (w->has_regex)
				add_regex_bits(w, path, to);
			for (at = (unsigned)(texts_hash(to, w->words) % (2 * PATHS_MAX)); slot[at] != 0; at = (at + 1) % (2 * PATHS_MAX))
				if (memcmp(s[slot[at]].bits, to, w->words * sizeof(*to)) == 0)
					break;
			if (slot[at] != 0)
				continue;
			if (n == PATHS_MAX || s[i].depth == DEPTH_MAX) {
				w->cs->cut = true;
				break;
			}
			s[n] = (struct path_state){ arena_alloc(&w->a, w->words * sizeof(*to)), path, s[i].depth + 1 };
			memcpy(s[n].bits, to, w->words * sizeof(*to));
			slot[at] = (uint32_t)n++;
		}
	}
	free(s);
	free(slot);
}

static bool same_rule(const struct pol_rule *x, const struct pol_rule *y)
{
	struct buf a = { 0 }, b = { 0 };
	bool same = x->deny == y->deny && x->any == y->any && x->method_n == y->method_n && str_eq(x->pattern, y->pattern) && (x->cond == NULL) == (y->cond == NULL);

	for (unsigned i = 0; same && i < x->method_n; i++)
		same = str_eq(x->methods[i], y->methods[i]);
	if (same && x->cond != NULL) {
		cond_encode(x->cond, &a);
		cond_encode(y->cond, &b);
		same = str_eq(buf_str(&a), buf_str(&b));
	}
	buf_fini(&a);
	buf_fini(&b);
	return same;
}

/* Written alike on both sides: nothing to walk. */
static bool same_rules(const struct walk *w)
{
	const struct side *x = &w->side[0], *y = &w->side[1];

	if (x->all_n != y->all_n)
		return false;
	for (unsigned i = 0; i < x->all_n; i++) {
		if (x->all[i]->rule_n != y->all[i]->rule_n)
			return false;
		for (unsigned k = 0; k < x->all[i]->rule_n; k++)
			if (!same_rule(&x->all[i]->rules[k], &y->all[i]->rules[k]))
				return false;
	}
	return true;
}

static void walk_host(struct walk *w)
{
	unsigned rules = 0, bits = 0;
	size_t length = 0;

	w->first_change = w->cs->n;
	w->decisions = 0;
	w->empties = w->has_regex = false;
	for (int i = 0; i < 2; i++) {
		struct side *x = &w->side[i];

		x->all_n = ref_dests(x->p, w->scheme, w->host, w->port, x->all);
		x->found = table_find(x->k.t, w->scheme, w->host, w->port, &x->dest) == 1;
		w->empties = w->empties || (x->all_n > 0 && x->all[0]->paths.empty_segments_keep);
		for (unsigned k = 0; k < x->all_n; k++) {
			rules += x->all[k]->rule_n;
			for (unsigned j = 0; j < x->all[k]->rule_n; j++)
				length += x->all[k]->rules[j].pattern.n + 2;
		}
	}
	if (same_rules(w))
		return;
	w->patterns = arena_alloc(&w->a, (rules + 1ul) * sizeof(*w->patterns));
	w->segs = arena_alloc(&w->a, length * sizeof(struct str));
	w->seg_deny = arena_alloc(&w->a, length * sizeof(bool));
	w->pattern_n = w->symbol_n = w->method_n = w->seg_n = 0;
	if (w->asked != NULL)
		memset(w->asked, 0, w->asked_cap * sizeof(*w->asked));
	w->asked_n = 0;
	add_method(w, STR("GET"));
	add_method(w, STR("HEAD"));
	add_method(w, STR("POST"));
	for (int i = 0; i < 2; i++)
		for (unsigned k = 0; k < w->side[i].all_n; k++)
			for (unsigned j = 0; j < w->side[i].all[k]->rule_n; j++)
				add_pattern(w, &w->side[i].all[k]->rules[j], &bits);
	add_method(w, STR("BREW")); /* one that only ANY lets through */
	add_method(w, STR("WEBSOCKET"));
	w->position_words = bits / 64 + 1;
	w->words = w->position_words + (w->has_regex ? w->pattern_n * REGEX_ENDS / 64 + 1 : 0);
	add_symbols(w);
	walk_paths(w);
	for (unsigned i = 0; i < w->pattern_n; i++) {
		const struct pol_rule *r = w->patterns[i].r;

		for (unsigned k = 0; is_regex(r) && k < REGEX_TEXTS; k++) {
			struct str path = probe_path(&w->a, r->cond->regex, k);

			if (path.n > 0 && path.p[0] == '/' && (w->empties || str_find(path, STR("//")) < 0))
				ask_path(w, path);
		}
		if (r->pattern.p[0] != '/')
			ask_path(w, STR("*"));
	}
	arena_reset(&w->a);
}

/* --- hosts --------------------------------------------------------------------------------------------------------- */

struct asked_host {
	enum scheme scheme;
	uint16_t port;
	struct str host;
};
struct asked_hosts {
	struct asked_host *h;
	size_t n, cap;
};

static void add_host(struct asked_hosts *hs, enum scheme scheme, uint16_t port, struct str host)
{
	if (hs->n == hs->cap) {
		hs->cap = hs->cap ? hs->cap * 2 : 64;
		hs->h = must_realloc(hs->h, hs->cap * sizeof(*hs->h));
	}
	hs->h[hs->n++] = (struct asked_host){ scheme, port, host };
}

static int by_host(const void *a, const void *b)
{
	const struct asked_host *x = a, *y = b;
	size_t n = x->host.n < y->host.n ? x->host.n : y->host.n;
	int r = memcmp(x->host.p, y->host.p, n);

	if (r == 0)
		r = x->host.n < y->host.n ? -1 : x->host.n > y->host.n;
	if (r == 0)
		r = (int)x->scheme - (int)y->scheme;
	return r ? r : (int)x->port - (int)y->port;
}

/* Of a wildcard: hosts that stand for all that only it has. */
static void add_dest(struct asked_hosts *hs, struct arena *a, struct str fresh, const struct pol_dest *d)
{
	struct str text = str_mk(d->host.text, d->host.len);
	struct host_pattern p;
	struct buf b = { 0 };

	if (!host_pattern_read(text, &p))
		return;
	if (p.kind == HOST_EXACT) {
		add_host(hs, d->scheme, d->port, text);
		return;
	}
	for (unsigned deep = 0; deep < (p.kind == HOST_DOUBLE_STAR ? 2u : 1u); deep++) {
		buf_clear(&b);
		buf_adds(&b, p.prefix);
		for (unsigned k = 0; k <= deep; k++)
			buf_addf(&b, "%.*s.", (int)fresh.n, fresh.p);
		buf_adds(&b, p.suffix);
		add_host(hs, d->scheme, d->port, arena_str(a, buf_str(&b)));
	}
	buf_fini(&b);
}

/* --- a text that no rule names: more z's than stand anywhere together --- */

static void longest(struct str s, unsigned *most)
{
	unsigned n = 0;

	for (size_t i = 0; i < s.n; i++) {
		n = ascii_lower(s.p[i]) == 'z' ? n + 1 : 0;
		*most = n > *most ? n : *most;
	}
}

static void longest_of_texts(const struct pol_texts *t, unsigned *most)
{
	for (unsigned i = 0; i < t->n; i++)
		longest(t->s[i], most);
}

static void longest_of_values(const struct pol_values *vs, unsigned *most)
{
	for (unsigned i = 0; i < vs->n; i++) {
		longest(vs->v[i].key, most);
		longest_of_texts(&vs->v[i].patterns, most);
	}
}

static void longest_of_policy(const struct policy *p, unsigned *most)
{
	for (unsigned i = 0; i < p->dest_n; i++) {
		longest(str_mk(p->dests[i].host.text, p->dests[i].host.len), most);
		for (unsigned k = 0; k < p->dests[i].rule_n; k++) {
			const struct pol_rule *r = &p->dests[i].rules[k];

			longest(r->pattern, most);
			if (r->cond == NULL)
				continue;
			longest_of_values(&r->cond->query, most);
			longest_of_values(&r->cond->headers, most);
			longest_of_values(&r->cond->values, most);
			longest_of_texts(&r->cond->fields, most);
			longest_of_texts(&r->cond->names, most);
			longest_of_texts(&r->cond->tools, most);
			longest_of_texts(&r->cond->methods, most);
			longest_of_texts(&r->cond->refs, most);
		}
	}
}

static struct str unnamed(struct arena *a, const struct policy *old, const struct policy *new)
{
	unsigned most = 1;
	char *p;

	longest_of_policy(old, &most);
	longest_of_policy(new, &most);
	if (most > 20) /* a label has 63 characters */
		most = 20;
	p = arena_alloc(a, most + 1);
	memset(p, 'z', most + 1);
	return str_mk(p, most + 1);
}

int diff_requests(struct policy *old, struct policy *new, struct diff_changes *cs, struct err *err)
{
	struct walk w = { .side = { { .p = old }, { .p = new } }, .cs = cs };
	struct asked_hosts hs = { 0 };
	struct arena a = { 0 };
	int ret = -1;

	for (int i = 0; i < 2; i++)
		w.side[i].k.fd = -1;
	w.now = (uint64_t)time(NULL);
	w.fresh = unnamed(&a, old, new);
	for (int i = 0; i < 2; i++) {
		w.side[i].all = must_calloc(w.side[i].p->dest_n + 1ul, sizeof(const struct pol_dest *));
		if (asker_init(&w.side[i].k, w.side[i].p, err) < 0)
			goto out;
		for (unsigned k = 0; k < w.side[i].p->dest_n; k++)
			add_dest(&hs, &a, w.fresh, &w.side[i].p->dests[k]);
	}
	if (hs.n > 1)
		qsort(hs.h, hs.n, sizeof(*hs.h), by_host);
	for (size_t i = 0; i < hs.n; i++) {
		if (i > 0 && by_host(&hs.h[i - 1], &hs.h[i]) == 0)
			continue;
		w.scheme = hs.h[i].scheme;
		w.port = hs.h[i].port;
		w.host = hs.h[i].host;
		walk_host(&w);
	}
	ret = 0;
out:
	for (int i = 0; i < 2; i++) {
		asker_fini(&w.side[i].k);
		free(w.side[i].all);
	}
	free(hs.h);
	free(w.asked);
	arena_fini(&a);
	arena_fini(&w.a);
	return ret;
}
