/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The second, slow, obvious evaluator. It shares no matching code with the table: patterns are tried recursively, segment
 * by segment, and every destination is looked at, straight from what the language says.
 */
#include <stdlib.h>

#include "../common/base/must.h"
#include "model.h"

/* --- within a segment ---------------------------------------------------------------------------------------------- */

static bool part(struct str p, struct str s, bool fold)
{
	if (p.n == 0)
		return s.n == 0;
	if (p.p[0] == '*') {
		for (size_t i = 0; i <= s.n; i++)
			if (part(str_mk(p.p + 1, p.n - 1), str_mk(s.p + i, s.n - i), fold))
				return true;
		return false;
	}
	if (s.n == 0 || (fold ? ascii_lower(p.p[0]) != ascii_lower(s.p[0]) : p.p[0] != s.p[0]))
		return false;
	return part(str_mk(p.p + 1, p.n - 1), str_mk(s.p + 1, s.n - 1), fold);
}

static struct str name_of(struct str s)
{
	size_t i = 0;

	while (i < s.n && s.p[i] != ';')
		i++;
	return str_mk(s.p, i);
}

/* Of a deny's pattern: empty but for parameters. */
static bool empty(struct str p) { return name_of(p).n == 0 && memchr(p.p, '*', p.n) == NULL; }
static bool star(struct str p) { return str_eq(p, STR("*")); }
static bool double_star(struct str p) { return str_eq(p, STR("**")); }

static bool segment(struct str p, struct str s, bool deny)
{
	if (star(p))
		return deny || s.n > 0;
	return part(p, s, deny) || (deny && part(name_of(p), name_of(s), true));
}

bool ref_segment(struct str pattern, struct str s, bool deny) { return segment(pattern, s, deny); }
bool ref_empty(struct str pattern) { return empty(pattern); }

/* --- a path -------------------------------------------------------------------------------------------------------- */

/* What is left of a path: its next segment and the rest. A path that has ended has no next one. */
struct rest {
	struct str s;
	bool end;
};

static struct rest begin(struct str path) { return (struct rest){ str_mk(path.p + 1, path.n - 1), false }; }

static struct str next(struct rest *r)
{
	size_t i = 0;
	struct str seg;

	while (i < r->s.n && r->s.p[i] != '/')
		i++;
	seg = str_mk(r->s.p, i);
	r->end = i == r->s.n;
	if (!r->end)
		r->s = str_mk(r->s.p + i + 1, r->s.n - i - 1);
	return seg;
}

/* One segment, or as many as there are, stand for "**": at the end of a pattern one at least. */
static bool allowed(struct rest p, struct rest s)
{
	struct rest after_p = p, after_s = s;
	struct str want;

	if (p.end || s.end)
		return p.end && s.end;
	want = next(&after_p);
	if (double_star(want)) {
		struct rest more = after_p;

		while (!more.end && double_star(next(&more))) /* one after another says no more than one */
			after_p = more;
		if (after_p.end)
			return true;
		if (allowed(after_p, s))
			return true;
		next(&after_s);
		return allowed(p, after_s);
	}
	return segment(want, next(&after_s), false) && allowed(after_p, after_s);
}

/* Nothing but what may stand for nothing: "**"s, and one "*" as the last segment that is not empty. */
static bool covers_parent(struct rest p)
{
	while (!p.end) {
		struct str want = next(&p);

		if (star(want)) {
			while (!p.end)
				if (!empty(next(&p)))
					return false;
			return true;
		}
		if (!double_star(want) && !empty(want))
			return false;
	}
	return true;
}

static bool denied(struct rest p, struct rest s)
{
	struct rest after_p = p, after_s = s;
	struct str want, have;

	if (!p.end) {
		want = next(&after_p);
		if (empty(want)) /* an empty segment of a deny says nothing */
			return denied(after_p, s);
	}
	if (s.end)
		return covers_parent(p);
	have = next(&after_s);
	if (name_of(have).n == 0 && denied(p, after_s)) /* and one of a path may as well not be there */
		return true;
	if (p.end)
		return false;
	if (double_star(want))
		return denied(after_p, s) || denied(p, after_s);
	return segment(want, have, true) && denied(after_p, after_s);
}

bool ref_path(const struct pol_rule *r, struct str path)
{
	if (r->pattern.p[0] != '/' || path.n == 0 || path.p[0] != '/')
		return str_eq(r->pattern, path);
	return r->deny ? denied(begin(r->pattern), begin(path)) : allowed(begin(r->pattern), begin(path));
}

/* --- hosts --------------------------------------------------------------------------------------------------------- */

/* A name without its first label; empty if it has no other. */
static struct str parent(struct str name)
{
	size_t i = 0;

	while (i < name.n && name.p[i] != '.')
		i++;
	return i < name.n ? str_mk(name.p + i + 1, name.n - i - 1) : STR_NONE;
}

static struct str first_label(struct str name)
{
	size_t i = 0;

	while (i < name.n && name.p[i] != '.')
		i++;
	return str_mk(name.p, i);
}

bool ref_host(struct str pattern, struct str host)
{
	struct str label = first_label(pattern);

	if (memchr(pattern.p, '*', pattern.n) == NULL)
		return str_eq(pattern, host);
	if (str_eq(label, STR("**"))) {
		for (host = parent(host); host.n > 0; host = parent(host))
			if (str_eq(parent(pattern), host))
				return true;
		return false;
	}
	return str_eq(parent(pattern), parent(host)) && part(label, first_label(host), false);
}

/* Exact, "pre*" by longer literal, "*", "**" by longer suffix, a listed port before a default one: the smaller comes first. */
static long rank(const struct pol_dest *d)
{
	struct str text = str_mk(d->host.text, d->host.len), label = first_label(text);
	long r;

	if (memchr(text.p, '*', text.n) == NULL)
		r = 0;
	else if (str_eq(label, STR("**")))
		r = 2000 - (long)text.n;
	else
		r = 1000 - (long)label.n; /* "*" is the shortest literal */
	return 2 * r + !d->port_written;
}

unsigned ref_dests(const struct policy *p, enum scheme scheme, struct str host, uint16_t port, const struct pol_dest **out)
{
	unsigned n = 0;

	for (unsigned i = 0; i < p->dest_n; i++) {
		const struct pol_dest *d = &p->dests[i];
		unsigned at = n;

		if (d->scheme != scheme || d->port != port || !ref_host(str_mk(d->host.text, d->host.len), host))
			continue;
		for (; at > 0 && rank(out[at - 1]) > rank(d); at--)
			out[at] = out[at - 1];
		out[at] = d;
		n++;
	}
	return n;
}

const struct pol_dest *ref_dest(const struct policy *p, enum scheme scheme, struct str host, uint16_t port)
{
	const struct pol_dest *best = NULL;

	for (unsigned i = 0; i < p->dest_n; i++) {
		const struct pol_dest *d = &p->dests[i];

		if (d->scheme == scheme && d->port == port && ref_host(str_mk(d->host.text, d->host.len), host) && (best == NULL || rank(d) < rank(best)))
			best = d;
	}
	return best;
}

/* --- a request ----------------------------------------------------------------------------------------------------- */

bool ref_method(const struct pol_rule *r, struct str m)
{
	if (r->any && (r->deny || !str_eq(m, STR("WEBSOCKET"))))
		return true;
	for (unsigned i = 0; i < r->method_n; i++)
		if (str_eq(r->methods[i], m) || (str_eq(m, STR("HEAD")) && str_eq(r->methods[i], STR("GET"))))
			return true;
	return false;
}

/* A rule that speaks of content has a place for it; others only where their method is named and has one. */
static bool speaks_of_content(const struct pol_rule *r) { return r->cond != NULL && (r->cond->parts & COND_BODY) != 0; }
static bool looks_at_content(const struct pol_rule *r) { return speaks_of_content(r) && r->cond->body != BODY_NONE && r->cond->body != BODY_ANY; }
static bool no_place(const struct pol_rule *r, const struct facts *f)
{
	return f->has_content && !speaks_of_content(r) && (r->any || str_eq(f->method, STR("GET")) || str_eq(f->method, STR("HEAD")));
}

static enum body_need need_of(const struct pol_rule *r) { return r->cond->body == BODY_GIT_PUSH ? BODY_NEED_COMMANDS : BODY_NEED_ALL; }

static enum cond_result matches(const struct pol_rule *r, const struct facts *f)
{
	unsigned failed;

	return ref_method(r, f->method) && ref_path(r, f->path) ? ref_cond(r, f, &failed) : COND_NO;
}

static const struct pol_rule *denying(const struct pol_dest *d, const struct facts *f, enum body_need *need)
{
	for (unsigned i = 0; i < d->rule_n; i++) {
		enum cond_result m = d->rules[i].deny ? matches(&d->rules[i], f) : COND_NO;

		if (m == COND_YES)
			return &d->rules[i];
		if (m == COND_CONTENT && need_of(&d->rules[i]) > *need)
			*need = need_of(&d->rules[i]);
	}
	return NULL;
}

/* What may let a request through, each in its place. */
struct candidates {
	const struct pol_rule *plain, *look, *content; /* the first of each kind */
	enum body_need need;
};

static void collect(const struct pol_dest *d, const struct facts *f, struct candidates *c)
{
	for (unsigned i = 0; i < d->rule_n; i++) {
		const struct pol_rule *r = &d->rules[i];
		enum cond_result m = r->deny ? COND_NO : matches(r, f);
		const struct pol_rule **to = no_place(r, f) ? &c->content : looks_at_content(r) ? &c->look
												: &c->plain;

		if (m == COND_YES && *to == NULL)
			*to = r;
		if (m == COND_CONTENT && need_of(r) > c->need)
			c->need = need_of(r);
	}
}

void ref_eval(const struct policy *p, const struct facts *f, struct decision *o)
{
	const struct pol_dest **all = must_calloc(p->dest_n + 1ul, sizeof(const struct pol_dest *));
	unsigned n = ref_dests(p, f->scheme, f->host, f->port, all);
	enum body_need denies = BODY_NEED_NOTHING;
	struct candidates c = { 0 };
	const struct pol_rule *passes;

	memset(o, 0, sizeof(*o));
	if (n == 0)
		goto out;
	for (unsigned i = 0; i < n; i++) {
		const struct pol_rule *r = denying(all[i], f, &denies);

		if (r != NULL) {
			*o = (struct decision){ .why = DECIDE_DENY_RULE, .rule = r->id, .source = r->source };
			goto out;
		}
	}
	collect(all[0], f, &c);
	passes = c.plain != NULL ? c.plain : c.look;
	if (passes != NULL && denies == BODY_NEED_NOTHING)
		*o = (struct decision){ .verdict = VERDICT_ALLOW, .why = DECIDE_ALLOWED, .rule = passes->id, .source = passes->source };
	else if (passes != NULL || c.need > BODY_NEED_NOTHING)
		*o = (struct decision){ .why = DECIDE_LOOK, .source = all[0]->source, .need = passes == NULL && c.need > denies ? c.need : denies };
	else if (c.content != NULL)
		*o = (struct decision){ .why = DECIDE_CONTENT, .rule = c.content->id, .source = c.content->source };
	else
		*o = (struct decision){ .why = DECIDE_NO_RULE, .source = all[0]->source };
out:
	free(all);
}

/* Both must let it pass; what either has to look at is looked at. */
void ref_within(const struct policy *p, const struct policy *boundary, const struct facts *f, struct decision *o)
{
	struct decision a, b;

	if (ref_dest(p, f->scheme, f->host, f->port) != NULL && ref_dest(boundary, f->scheme, f->host, f->port) == NULL) {
		*o = (struct decision){ .why = DECIDE_NO_DESTINATION, .by_boundary = true };
		return;
	}
	ref_eval(p, f, &a);
	ref_eval(boundary, f, &b);
	*o = a;
	if (a.verdict == VERDICT_DENY && a.why != DECIDE_LOOK)
		return;
	if (b.verdict == VERDICT_DENY && b.why != DECIDE_LOOK) {
		*o = b;
		o->by_boundary = true;
	} else if (b.why == DECIDE_LOOK) {
		*o = b;
		if (a.why == DECIDE_LOOK) {
			o->source = a.source;
			o->need = a.need > b.need ? a.need : b.need;
		}
	}
}
