/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <time.h>

#include "../common/base/must.h"
#include "../common/policy/host_pattern.h"
#include "ask.h"
#include "diff.h"

#define PATHS_MAX 4000	/* sets of positions that are walked, of one host */
#define SYMBOLS_MAX 400 /* segments that the rules of one host tell apart */
#define DEPTH_MAX 24
#define STEPS_MAX 20000000 /* comparisons of paths with patterns, of one host */
#define FRESH "zz"	   /* a segment, a label that no rule names */

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
	unsigned n;
};
struct path_state {
	uint64_t key; /* of the set of positions */
	struct str path;
	unsigned depth;
};
struct walk {
	struct side side[2];
	struct diff_changes *cs;
	struct arena a; /* of one host */
	enum scheme scheme;
	struct str host;
	uint16_t port;
	struct pattern *patterns;
	unsigned pattern_n;
	struct str *symbols;
	unsigned symbol_n;
	struct str methods[64];
	unsigned method_n;
	size_t first_change; /* of this host */
	unsigned long steps;
	uint64_t times[16]; /* the present, and the edges of windows */
	unsigned time_n;
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

static struct str spelled(struct walk *w, struct str method, struct str path, const struct sample *s)
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
		buf_addf(&b, "?%.*s", (int)s->query.n, s->query.p);
	for (unsigned i = 0; i < s->field_n; i++)
		buf_addf(&b, " [%.*s: %.*s]", (int)s->names[i].n, s->names[i].p, (int)s->values[i].n, s->values[i].p);
	if (s->content.n > 0 && memchr(s->content.p, 0, s->content.n) == NULL)
		buf_addf(&b, " with %.*s", DIAG_STR(s->content));
	if (s->f.now_s != w->times[0]) {
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

static void compare_at(struct walk *w, struct str method, struct str path, const struct sample *s)
{
	struct asked q = { .f = s->f };
	struct decision d[2];
	struct diff_change *c;
	struct str was, is;
	bool wider;

	q.f.scheme = w->scheme;
	q.f.host = w->host;
	q.f.port = w->port;
	q.f.method = method;
	q.f.path = path;
	q.f.query = s->query;
	q.f.content = &s->content;
	q.f.field_arg = s;
	for (int i = 0; i < 2; i++)
		decide(w->side[i].k.t, w->side[i].found ? &w->side[i].dest : NULL, &q.f, &d[i]);
	if (d[0].verdict == d[1].verdict)
		return;
	wider = d[1].verdict == VERDICT_ALLOW;
	was = reason(&w->cs->a, &d[0], &q);
	is = reason(&w->cs->a, &d[1], &q);
	/* HEAD goes with GET */
	if (known(w, method, was, is, wider) || (str_eq(method, STR("HEAD")) && known(w, STR("GET"), was, is, wider)))
		return;
	c = diff_add(w->cs);
	c->wider = wider;
	c->narrower = !wider;
	c->request = spelled(w, method, path, s);
	c->was = was;
	c->is = is;
}

static void compare(struct walk *w, struct str method, struct str path, struct sample *s)
{
	for (unsigned i = 0; i < w->time_n; i++) {
		s->f.now_s = w->times[i];
		compare_at(w, method, path, s);
	}
}

/* All that may tell rules apart beside method and path. */
static void ask_path(struct walk *w, struct str path)
{
	struct sample *s = must_malloc(sizeof(*s));

	for (unsigned m = 0; m < w->method_n; m++) {
		sample_make(&w->a, &(struct pol_rule){ 0 }, 0, s);
		compare(w, w->methods[m], path, s);
		s->f.has_content = true;
		s->content = STR(FRESH);
		compare(w, w->methods[m], path, s);
		s->f.has_content = false;
		s->content = STR_NONE;
		s->f.has_query = true;
		s->query = STR(FRESH "=" FRESH);
		compare(w, w->methods[m], path, s);
		for (unsigned i = 0; i < w->pattern_n; i++) {
			const struct pol_rule *r = w->patterns[i].r;

			if (r->cond == NULL || !ref_method(r, w->methods[m]) || !ref_path(r, path))
				continue;
			for (unsigned k = 0; sample_make(&w->a, r, k, s); k++)
				compare(w, w->methods[m], path, s);
		}
	}
	free(s);
}

/* --- the walk ------------------------------------------------------------------------------------------------------ */

static bool star_in(struct str s) { return s.n > 0 && memchr(s.p, '*', s.n) != NULL; }

static struct str filled(struct arena *a, struct str pattern, const char *with)
{
	struct buf b = { 0 };
	struct str s;

	for (size_t i = 0; i < pattern.n; i++) {
		if (pattern.p[i] != '*')
			buf_addc(&b, pattern.p[i]);
		else if (i == 0 || pattern.p[i - 1] != '*')
			buf_addz(&b, with);
	}
	s = arena_str(a, buf_str(&b));
	buf_fini(&b);
	return s;
}

static void add_symbol(struct walk *w, struct str s)
{
	for (unsigned i = 0; i < w->symbol_n; i++)
		if (str_eq(w->symbols[i], s))
			return;
	if (w->symbol_n == SYMBOLS_MAX) {
		w->cs->cut = true;
		return;
	}
	w->symbols[w->symbol_n++] = s;
}

static void add_time(struct walk *w, uint64_t t)
{
	for (unsigned i = 0; i < w->time_n; i++)
		if (w->times[i] == t)
			return;
	if (w->time_n < sizeof(w->times) / sizeof(w->times[0]))
		w->times[w->time_n++] = t;
	else
		w->cs->cut = true;
}

static void add_method(struct walk *w, struct str m)
{
	for (unsigned i = 0; i < w->method_n; i++)
		if (str_eq(w->methods[i], m))
			return;
	if (w->method_n < sizeof(w->methods) / sizeof(w->methods[0]))
		w->methods[w->method_n++] = m;
}

/* A deny covers other spellings than its own: one of each kind. */
static void add_deny_spellings(struct walk *w, struct str s)
{
	char *p = arena_alloc(&w->a, s.n + 3);

	for (size_t i = 0; i < s.n; i++)
		p[i] = s.p[i] >= 'a' && s.p[i] <= 'z' ? (char)(s.p[i] - 32) : ascii_lower(s.p[i]);
	add_symbol(w, str_mk(p, s.n));
	p = arena_alloc(&w->a, s.n + 3);
	memcpy(p, s.p, s.n);
	memcpy(p + s.n, ";z", 2);
	add_symbol(w, str_mk(p, s.n + 2));
}

static void add_pattern(struct walk *w, const struct pol_rule *r)
{
	struct pattern *p = &w->patterns[w->pattern_n++];
	struct str s = r->pattern;

	*p = (struct pattern){ .r = r, .seg = arena_alloc(&w->a, (s.n + 2) * sizeof(struct str)) };
	for (unsigned i = 0; i < r->method_n; i++)
		add_method(w, r->methods[i]);
	if (r->cond != NULL && r->cond->from_s > 0) {
		add_time(w, r->cond->from_s - 1);
		add_time(w, r->cond->from_s);
	}
	if (r->cond != NULL && r->cond->until_s > 0) {
		add_time(w, r->cond->until_s - 1);
		add_time(w, r->cond->until_s);
	}
	if (s.p[0] != '/')
		return;
	for (size_t b = 1, e; b <= s.n; b = e + 1) {
		struct str seg;

		for (e = b; e < s.n && s.p[e] != '/';)
			e++;
		seg = p->seg[p->n++] = str_mk(s.p + b, e - b);
		if (str_eq(seg, STR("*")) || str_eq(seg, STR("**")) || seg.n == 0)
			continue;
		if (star_in(seg)) {
			add_symbol(w, filled(&w->a, seg, ""));
			add_symbol(w, filled(&w->a, seg, FRESH));
		} else {
			add_symbol(w, seg);
			if (r->deny)
				add_deny_spellings(w, seg);
		}
	}
}

/* The positions that a path leads to in all patterns, hashed: a pattern of the first segments matches or does not. */
static uint64_t positions(struct walk *w, struct str path)
{
	uint64_t h = 0xcbf29ce484222325u;

	for (unsigned i = 0; i < w->pattern_n; i++) {
		const struct pattern *p = &w->patterns[i];
		struct pol_rule beginning = *p->r;

		for (unsigned n = 0; n <= p->n && p->r->pattern.p[0] == '/'; n++) {
			beginning.pattern = n == 0 ? STR("/") : str_mk(p->r->pattern.p, (size_t)(p->seg[n - 1].p + p->seg[n - 1].n - p->r->pattern.p));
			h = (h ^ (uint64_t)(ref_path(&beginning, path) + 1)) * 0x100000001b3u;
			w->steps++;
		}
	}
	return h;
}

static bool seen(const struct path_state *s, size_t n, uint64_t key)
{
	for (size_t i = 0; i < n; i++)
		if (s[i].key == key)
			return true;
	return false;
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
	size_t n = 1;

	s[0].path = STR("");
	for (size_t i = 0; i < n; i++) {
		ask_path(w, below(&w->a, s[i].path, STR_NONE)); /* "/" itself, or with a slash at the end */
		if (i > 0)
			ask_path(w, s[i].path);
		for (unsigned k = 0; k < w->symbol_n && s[i].depth < DEPTH_MAX; k++) {
			struct str path = below(&w->a, s[i].path, w->symbols[k]);
			uint64_t key = positions(w, path);

			if (seen(s + 1, n - 1, key))
				continue;
			if (n == PATHS_MAX || w->steps > STEPS_MAX) {
				w->cs->cut = true;
				break;
			}
			s[n++] = (struct path_state){ key, path, s[i].depth + 1 };
		}
	}
	free(s);
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
	unsigned rules = 0;
	struct sample *s;

	w->first_change = w->cs->n;
	w->steps = 0;
	for (int i = 0; i < 2; i++) {
		w->side[i].all_n = ref_dests(w->side[i].p, w->scheme, w->host, w->port, w->side[i].all);
		w->side[i].found = table_find(w->side[i].k.t, w->scheme, w->host, w->port, &w->side[i].dest) == 1;
		for (unsigned k = 0; k < w->side[i].all_n; k++)
			rules += w->side[i].all[k]->rule_n;
	}
	if (same_rules(w))
		return;
	s = must_malloc(sizeof(*s));
	w->patterns = arena_alloc(&w->a, (rules + 1ul) * sizeof(*w->patterns));
	w->symbols = arena_alloc(&w->a, SYMBOLS_MAX * sizeof(struct str));
	w->pattern_n = w->symbol_n = w->method_n = w->time_n = 0;
	add_time(w, (uint64_t)time(NULL));
	add_symbol(w, STR(FRESH));
	add_method(w, STR("GET"));
	add_method(w, STR("HEAD"));
	add_method(w, STR("POST"));
	for (int i = 0; i < 2; i++)
		for (unsigned k = 0; k < w->side[i].all_n; k++)
			for (unsigned j = 0; j < w->side[i].all[k]->rule_n; j++)
				add_pattern(w, &w->side[i].all[k]->rules[j]);
	add_method(w, STR("BREW")); /* one that only ANY lets through */
	add_method(w, STR("WEBSOCKET"));
	walk_paths(w);
	for (unsigned i = 0; i < w->pattern_n; i++) {
		if (w->patterns[i].r->cond != NULL && (w->patterns[i].r->cond->parts & COND_REGEX))
			for (unsigned k = 0; sample_make(&w->a, w->patterns[i].r, k, s); k++)
				if (s->path.n > 0 && s->path.p[0] == '/')
					ask_path(w, s->path);
		if (w->patterns[i].r->pattern.p[0] != '/')
			ask_path(w, STR("*"));
	}
	free(s);
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
static void add_dest(struct asked_hosts *hs, struct arena *a, const struct pol_dest *d)
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
		buf_addf(&b, "%.*s%s.%.*s", (int)p.prefix.n, p.prefix.n ? p.prefix.p : "", deep ? FRESH "." FRESH : FRESH, (int)p.suffix.n, p.suffix.p);
		add_host(hs, d->scheme, d->port, arena_str(a, buf_str(&b)));
	}
	buf_fini(&b);
}

int diff_requests(struct policy *old, struct policy *new, struct diff_changes *cs, struct err *err)
{
	struct walk w = { .side = { { .p = old }, { .p = new } }, .cs = cs };
	struct asked_hosts hs = { 0 };
	struct arena a = { 0 };
	int ret = -1;

	for (int i = 0; i < 2; i++)
		w.side[i].k.fd = -1;
	for (int i = 0; i < 2; i++) {
		w.side[i].all = must_calloc(w.side[i].p->dest_n + 1ul, sizeof(const struct pol_dest *));
		if (asker_init(&w.side[i].k, w.side[i].p, err) < 0)
			goto out;
		for (unsigned k = 0; k < w.side[i].p->dest_n; k++)
			add_dest(&hs, &a, &w.side[i].p->dests[k]);
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
	arena_fini(&a);
	arena_fini(&w.a);
	return ret;
}
