/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One destination's rules over one request. Its deny trie is walked first and ends everything, then those of the broader
 * destinations that match too; then its allow trie, and no other's. Of several rules of a destination that match, the first
 * of the file is the one that is named; one that has to see the content comes behind those that do not.
 *
 * A decision that depends on content which is not there yet is DECIDE_LOOK: a denial, and a question. It is asked again
 * with the content, all of it from the start.
 */
#include "decide.h"

#include "dest_value.h"

#define NO_RULE UINT32_MAX

struct search {
	const struct dest_value *d;
	const struct facts *f;
	uint32_t bit; /* of the method */
	bool damaged;
	uint32_t best, best_content; /* lowest numbers: fits, would fit without content */
	uint32_t best_look;          /* lowest number of an allow rule that looks at the content, which fits it */
	enum body_need need;         /* of rules that fit but for the content, which is not there yet */
	struct regexes *regexes;
};

/*
 * GET includes HEAD, in allow and in deny (the compiler sets both bits). ANY is every method, but for WEBSOCKET, which
 * only a rule that names it allows; a deny of ANY denies it too.
 */
static bool method_fits(const struct search *s, const struct rule_value *r)
{
	struct str m;

	if (r->methods & METHOD_ANY)
		return (r->methods & METHOD_DENY) || s->bit != METHOD_WEBSOCKET || (r->methods & METHOD_WEBSOCKET);
	if (s->bit != 0)
		return (r->methods & s->bit) != 0;
	for (uint32_t i = 0; dest_value_rule_method(s->d, r, i, &m); i++)
		if (str_eq(m, s->f->method))
			return true;
	return false;
}

static void note_need(enum body_need *to, struct str cond)
{
	enum body_need need = body_need(cond);

	if (need > *to)
		*to = need;
}

static bool on_allow(void *arg, uint32_t number)
{
	struct search *s = arg;
	enum cond_result fits;
	struct rule_value r;
	unsigned failed;

	if (number >= s->best)
		return true;
	if (!dest_value_rule(s->d, number, &r)) {
		s->damaged = true;
		return false;
	}
	if ((r.methods & METHOD_DENY) || !method_fits(s, &r))
		return true;
	fits = r.cond.n ? cond_fits(s->regexes, r.cond, false, s->f, &failed) : COND_YES;
	if (fits == COND_NO)
		return true;
	/* content needs a method that is named and has a place for it, or a rule that speaks of it */
	if (s->f->has_content && ((r.methods & METHOD_ANY) || s->bit == METHOD_GET || s->bit == METHOD_HEAD) && cond_body(r.cond) == BODY_UNSAID) {
		if (number < s->best_content)
			s->best_content = number;
	} else if (fits == COND_CONTENT) {
		note_need(&s->need, r.cond);
	} else if (body_need(r.cond) != BODY_NEED_NOTHING) {
		if (number < s->best_look)
			s->best_look = number;
	} else {
		s->best = number;
	}
	return true;
}

static bool on_deny(void *arg, uint32_t number)
{
	struct search *s = arg;
	struct rule_value r;

	if (number >= s->best)
		return true;
	if (!dest_value_rule(s->d, number, &r)) {
		s->damaged = true;
		return false;
	}
	if (!method_fits(s, &r))
		return true;
	if (r.cond.n == 0) {
		s->best = number;
		return true;
	}
	switch (cond_fits(s->regexes, r.cond, true, s->f, &(unsigned){ 0 })) {
	case COND_YES:
		s->best = number;
		break;
	case COND_CONTENT:
		note_need(&s->need, r.cond);
		break;
	default:
		break;
	}
	return true;
}

/* The destination that decides, and where to find those that can only deny. */
struct deciding {
	const struct table *t;
	const struct dest *dest;
	const struct dest_value *d;
};

/* True when that is the end of it: a deny rule matches, or the value is damaged (then o->why is left as it was). o->need may rise. */
static bool denied(const struct table *t, const struct dest_value *d, const struct facts *f, struct decision *o)
{
	struct search s = { .d = d, .f = f, .bit = table_method_bit(f->method), .best = NO_RULE, .need = o->need, .regexes = table_regexes(t) };
	struct rule_value r = { 0 };

	if (!dest_value_match(d, ROOT_DENY, f->path, on_deny, &s) || s.damaged)
		return true;
	if (s.best == NO_RULE) {
		o->need = s.need;
		return false;
	}
	if (!dest_value_rule(d, s.best, &r))
		return true;
	o->why = DECIDE_DENY_RULE;
	o->need = BODY_NEED_NOTHING;
	o->rule = r.id;
	o->source = r.source;
	return true;
}

struct broad {
	const struct facts *f;
	struct decision *o;
	bool end;
};

static bool on_broader(void *arg, const struct dest *d)
{
	struct broad *b = arg;
	struct dest_value v;

	b->end = !dest_value_load(str_mk(d->value, d->value_len), &v) || denied(d->table, &v, b->f, b->o);
	return !b->end;
}

static void decide_value(const struct deciding *by, const struct facts *f, struct decision *o)
{
	const struct dest_value *d = by->d;
	struct search s = { .d = d, .f = f, .bit = table_method_bit(f->method), .best = NO_RULE, .best_content = NO_RULE, .best_look = NO_RULE, .regexes = table_regexes(by->t) };
	struct broad b = { f, o, false };
	struct rule_value r = { 0 };

	o->verdict = VERDICT_DENY;
	o->why = DECIDE_DAMAGED;
	if (denied(by->t, d, f, o) || table_broader_each(by->t, by->dest, f->scheme, f->host, f->port, on_broader, &b) < 0 || b.end)
		return;
	if (!dest_value_match(d, ROOT_ALLOW, f->path, on_allow, &s) || s.damaged)
		return;
	if (s.best == NO_RULE)
		s.best = s.best_look;
	if (s.best == NO_RULE ? s.need > BODY_NEED_NOTHING : o->need > BODY_NEED_NOTHING) {
		o->why = DECIDE_LOOK;
		if (s.best == NO_RULE && s.need > o->need)
			o->need = s.need;
		s.best = NO_RULE;
	} else {
		o->why = s.best != NO_RULE ? DECIDE_ALLOWED : s.best_content != NO_RULE ? DECIDE_CONTENT : DECIDE_NO_RULE;
		o->deny_need = o->need;
		o->need = BODY_NEED_NOTHING;
		if (s.best == NO_RULE)
			s.best = s.best_content;
	}
	if (s.best == NO_RULE) {
		o->source = dest_value_ref(d, d->p + DEST_SOURCE);
		return;
	}
	if (!dest_value_rule(d, s.best, &r)) {
		o->why = DECIDE_DAMAGED;
		return;
	}
	o->rule = r.id;
	o->source = r.source;
	o->rule_no = s.best;
	if (o->why == DECIDE_ALLOWED)
		o->verdict = VERDICT_ALLOW;
}

/* --- what else would pass on this path ----------------------------------------------------------------------------- */

struct others {
	const struct dest_value *d;
	uint32_t bits;
	struct str further[DECIDE_METHODS_MAX];
	unsigned further_n;
};

static bool collect(void *arg, uint32_t number)
{
	struct others *s = arg;
	struct rule_value r;
	struct str m;

	if (!dest_value_rule(s->d, number, &r) || (r.methods & METHOD_DENY))
		return true;
	s->bits |= r.methods & METHOD_BITS;
	for (uint32_t i = 0; dest_value_rule_method(s->d, &r, i, &m) && s->further_n < DECIDE_METHODS_MAX; i++) {
		bool have = false;

		for (unsigned k = 0; k < s->further_n; k++)
			have = have || str_eq(s->further[k], m);
		if (!have)
			s->further[s->further_n++] = m;
	}
	return true;
}

static void try_method(const struct deciding *by, const struct facts *f, struct str method, struct decision *o)
{
	struct facts g = *f;
	struct decision again = { 0 };

	g.method = method;
	g.has_content = false;
	if (o->allowed_n == DECIDE_METHODS_MAX || str_eq(method, f->method))
		return;
	decide_value(by, &g, &again);
	if (again.verdict == VERDICT_ALLOW)
		o->allowed[o->allowed_n++] = method;
}

/* Methods that a rule names on this path and that no deny takes away. */
static void other_methods(const struct deciding *by, const struct facts *f, struct decision *o)
{
	struct others s = { .d = by->d };

	if (!dest_value_match(by->d, ROOT_ALLOW, f->path, collect, &s))
		return;
	for (unsigned bit = 0; table_method_name(bit) != NULL; bit++)
		if (s.bits & 1u << bit)
			try_method(by, f, str_of(table_method_name(bit)), o);
	for (unsigned i = 0; i < s.further_n; i++)
		try_method(by, f, s.further[i], o);
}

static void decide_alone(const struct table *t, const struct dest *d, const struct facts *f, struct decision *o)
{
	struct dest_value v;
	struct deciding by = { t, d, &v };

	memset(o, 0, sizeof(*o));
	if (d == NULL) {
		o->why = DECIDE_NO_DESTINATION;
		return;
	}
	if (!dest_value_load(str_mk(d->value, d->value_len), &v)) {
		o->why = DECIDE_DAMAGED;
		return;
	}
	decide_value(&by, f, o);
	if (o->verdict != VERDICT_ALLOW && o->why != DECIDE_DAMAGED)
		other_methods(&by, f, o);
}

/* --- within a boundary --------------------------------------------------------------------------------------------- */

/* What this one says by itself, whatever other boundaries there are. */
static void decide_of(const struct table *boundary, const struct facts *f, struct decision *o)
{
	struct dest d;
	int found = table_find_unbounded(boundary, f->scheme, f->host, f->port, &d);

	decide_alone(boundary, found == 1 ? &d : NULL, f, o);
	if (found < 0)
		o->why = DECIDE_DAMAGED;
}

/* Of the methods that the policy would let through here, those that the boundary lets through too. */
static void methods_within(const struct table *boundary, const struct facts *f, struct decision *o)
{
	unsigned n = 0;

	for (unsigned i = 0; i < o->allowed_n; i++) {
		struct facts g = *f;
		struct decision b;

		g.method = o->allowed[i];
		g.has_content = false;
		decide_of(boundary, &g, &b);
		if (b.verdict == VERDICT_ALLOW)
			o->allowed[n++] = o->allowed[i];
	}
	o->allowed_n = n;
}

/* *o allows, or asks; the boundary has its word too. */
static void bounded(const struct table *boundary, unsigned level, const struct facts *f, struct decision *o)
{
	struct decision b;

	decide_of(boundary, f, &b);
	if (b.why == DECIDE_ALLOWED) {
		o->boundary_rule_no[level] = b.rule_no;
	} else if (b.why != DECIDE_LOOK) {
		*o = b;
		o->by_boundary = true;
		o->allowed_n = 0;
	} else if (o->why == DECIDE_ALLOWED) { /* a question still, and what the boundary offers is not what the policy does */
		*o = b;
		o->allowed_n = 0;
	} else if (b.need > o->need) {
		o->need = b.need;
	}
}

void decide(const struct table *t, const struct dest *d, const struct facts *f, struct decision *o)
{
	const struct table *b = table_boundary(t);
	unsigned level = 0;

	decide_alone(t, d, f, o);
	if (b == NULL)
		return;
	if (d == NULL) {
		struct dest own;

		o->by_boundary = table_find_unbounded(t, f->scheme, f->host, f->port, &own) == 1;
		return;
	}
	for (; b != NULL; b = table_boundary(b))
		methods_within(b, f, o);
	for (b = table_boundary(t); b != NULL && (o->why == DECIDE_ALLOWED || o->why == DECIDE_LOOK); b = table_boundary(b))
		bounded(b, level++, f, o);
}

bool decide_boundary(const struct table *t, const struct facts *f, struct decision *o)
{
	unsigned level = 0;

	for (const struct table *b = table_boundary(t); b != NULL; b = table_boundary(b)) {
		struct decision one;

		decide_of(b, f, &one);
		if (one.verdict != VERDICT_ALLOW) {
			*o = one;
			o->by_boundary = true;
			return false;
		}
		o->boundary_rule_no[level++] = one.rule_no;
	}
	return true;
}

bool decide_tunnel(const struct table *t, enum scheme scheme, struct str host, uint16_t port, uint64_t now_s, struct dest *d, struct decision *o)
{
	struct facts f = { .scheme = scheme, .host = host, .port = port, .method = STR("TUNNEL"), .path = STR("*"), .now_s = now_s };

	if (table_find(t, scheme, host, port, d) != 1 || !d->tunnel)
		return false;
	decide(t, d, &f, o);
	return true;
}
