/* SPDX-License-Identifier: Apache-2.0 */
#include "decide.h"

#include "dest_value.h"
#include "glob.h"

static bool method_in(struct cursor c, unsigned n, struct str m)
{
	for (unsigned i = 0; i < n; i++)
		if (str_eq(get_str(&c), m))
			return true;
	return false;
}

/* GET includes HEAD, in allow and in deny. ANY is every method but WEBSOCKET, which only a rule of its own allows. */
static bool method_fits(const struct rule_value *r, struct str m)
{
	if (r->flags & RULE_ANY)
		return (r->flags & RULE_DENY) || !str_eq(m, STR("WEBSOCKET"));
	return method_in(r->methods, r->method_n, m) || (str_eq(m, STR("HEAD")) && method_in(r->methods, r->method_n, STR("GET")));
}

static bool content_fits(const struct rule_value *r, const struct facts *f)
{
	return !f->has_content || !((r->flags & RULE_ANY) || str_eq(f->method, STR("GET")) || str_eq(f->method, STR("HEAD")));
}

static void verdict_for(const struct dest_value *v, const struct facts *f, struct str method, struct decision *o)
{
	struct cursor c = v->rules;
	struct rule_value r, deny = { 0 }, allow = { 0 }, content = { 0 };
	bool denied = false, allowed = false, without_content = false;

	for (uint16_t n = get_u16(&c); n > 0 && rule_value_next(&c, &r); n--) {
		if (!method_fits(&r, method))
			continue;
		if (r.flags & RULE_DENY) {
			if (!denied && glob_path_deny(r.pattern, f->path)) {
				denied = true;
				deny = r;
			}
		} else if (!allowed && glob_path(r.pattern, f->path)) {
			if (content_fits(&r, f)) {
				allowed = true;
				allow = r;
			} else if (!without_content) {
				without_content = true;
				content = r;
			}
		}
	}
	o->verdict = VERDICT_DENY;
	if (denied) {
		o->why = DECIDE_DENY_RULE;
		o->rule = deny.id;
		o->source = deny.source;
	} else if (allowed) {
		o->verdict = VERDICT_ALLOW;
		o->why = DECIDE_ALLOWED;
		o->rule = allow.id;
		o->source = allow.source;
	} else if (without_content) {
		o->why = DECIDE_CONTENT;
		o->rule = content.id;
		o->source = content.source;
	} else {
		o->why = DECIDE_NO_RULE;
		o->source = v->source;
	}
}

/* Methods that a rule names on this path and that no deny takes away. */
static void other_methods(const struct dest_value *v, const struct facts *f, struct decision *o)
{
	struct cursor c = v->rules, m;
	struct rule_value r;
	struct decision d = { 0 };
	struct facts g = *f;

	g.has_content = false;
	for (uint16_t n = get_u16(&c); n > 0 && rule_value_next(&c, &r); n--) {
		if ((r.flags & (RULE_DENY | RULE_ANY)) || !glob_path(r.pattern, f->path))
			continue;
		m = r.methods;
		for (unsigned i = 0; i < r.method_n && o->allowed_n < DECIDE_METHODS_MAX; i++) {
			struct str name = get_str(&m);
			bool have = false;

			for (unsigned k = 0; k < o->allowed_n; k++)
				have = have || str_eq(o->allowed[k], name);
			if (have)
				continue;
			verdict_for(v, &g, name, &d);
			if (d.verdict == VERDICT_ALLOW)
				o->allowed[o->allowed_n++] = name;
		}
	}
}

void decide(const struct table *t, const struct dest *d, const struct facts *f, struct decision *o)
{
	struct dest_value v;

	(void)t; /* every pattern is an exact host in this format: no other destination can add a deny */
	memset(o, 0, sizeof(*o));
	if (d == NULL) {
		o->why = DECIDE_NO_DESTINATION;
		return;
	}
	if (!dest_value_load(str_mk(d->value, d->value_len), &v)) {
		o->why = DECIDE_DAMAGED;
		return;
	}
	verdict_for(&v, f, f->method, o);
	if (o->verdict != VERDICT_ALLOW)
		other_methods(&v, f, o);
}
