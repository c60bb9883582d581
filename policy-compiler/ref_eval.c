/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The second, slow, obvious evaluator. It shares no matching code with the table: patterns are expanded recursively over
 * segments, straight from what the language says.
 */
#include "model.h"

static bool seg(const char *p, size_t pn, const char *s, size_t sn, bool fold)
{
	if (pn == 0)
		return sn == 0;
	if (p[0] == '*')
		return seg(p + 1, pn - 1, s, sn, fold) || (sn > 0 && seg(p, pn, s + 1, sn - 1, fold));
	if (sn == 0 || (fold ? ascii_lower(p[0]) != ascii_lower(s[0]) : p[0] != s[0]))
		return false;
	return seg(p + 1, pn - 1, s + 1, sn - 1, fold);
}

/* Both begin behind a slash. */
static bool path(const char *p, size_t pn, const char *s, size_t sn, bool deny)
{
	size_t a = 0, b = 0, cut;

	while (a < pn && p[a] != '/')
		a++;
	while (b < sn && s[b] != '/')
		b++;
	if (a == 2 && p[0] == '*' && p[1] == '*') {
		if (a == pn)
			return true;
		/* no segment, or one and then again */
		if (path(p + 3, pn - 3, s, sn, deny))
			return true;
		return b < sn && path(p, pn, s + b + 1, sn - b - 1, deny);
	}
	cut = b;
	for (size_t i = 0; deny && i < b; i++) {
		if (s[i] == ';') {
			cut = i;
			break;
		}
	}
	if (a == 1 && p[0] == '*' ? cut == 0 : !seg(p, a, s, cut, deny))
		return false;
	if ((a == pn) != (b == sn))
		return false;
	return a == pn || path(p + a + 1, pn - a - 1, s + b + 1, sn - b - 1, deny);
}

static bool whole(struct str p, struct str s, bool deny)
{
	if (p.p[0] != '/' || s.p[0] != '/')
		return str_eq(p, s);
	return path(p.p + 1, p.n - 1, s.p + 1, s.n - 1, deny);
}

static bool rule_path(const struct pol_rule *r, struct str s)
{
	struct str p = r->pattern;

	if (whole(p, s, r->deny))
		return true;
	if (!r->deny)
		return false;
	while (s.n > 1 && s.p[s.n - 1] == '/')
		s.n--;
	while (p.n > 1 && p.p[p.n - 1] == '/')
		p.n--;
	if (whole(p, s, true))
		return true;
	if (str_ends(p, STR("/**")))
		p.n -= 3;
	else if (str_ends(p, STR("/*")))
		p.n -= 2;
	else
		return false;
	return whole(p.n ? p : STR("/"), s, true);
}

static bool rule_method(const struct pol_rule *r, struct str m)
{
	if (r->any)
		return r->deny || !str_eq(m, STR("WEBSOCKET"));
	for (unsigned i = 0; i < r->method_n; i++)
		if (str_eq(r->methods[i], m) || (str_eq(m, STR("HEAD")) && str_eq(r->methods[i], STR("GET"))))
			return true;
	return false;
}

const struct pol_dest *ref_dest(const struct policy *p, enum scheme scheme, struct str host, uint16_t port)
{
	for (unsigned i = 0; i < p->dest_n; i++)
		if (p->dests[i].scheme == scheme && p->dests[i].port == port && str_eq(str_mk(p->dests[i].host.text, p->dests[i].host.len), host))
			return &p->dests[i];
	return NULL;
}

void ref_eval(const struct policy *p, const struct facts *f, struct decision *o)
{
	const struct pol_dest *d = ref_dest(p, f->scheme, f->host, f->port);
	const struct pol_rule *content = NULL;

	memset(o, 0, sizeof(*o));
	if (d == NULL)
		return;
	o->why = DECIDE_NO_RULE;
	o->source = d->source;
	for (unsigned i = 0; i < d->rule_n; i++) {
		const struct pol_rule *r = &d->rules[i];

		if (r->deny && rule_method(r, f->method) && rule_path(r, f->path)) {
			*o = (struct decision){ .why = DECIDE_DENY_RULE, .rule = r->id, .source = r->source };
			return;
		}
	}
	for (unsigned i = 0; i < d->rule_n; i++) {
		const struct pol_rule *r = &d->rules[i];

		if (r->deny || !rule_method(r, f->method) || !rule_path(r, f->path))
			continue;
		if (f->has_content && (r->any || str_eq(f->method, STR("GET")) || str_eq(f->method, STR("HEAD")))) {
			if (content == NULL)
				content = r;
			continue;
		}
		*o = (struct decision){ .verdict = VERDICT_ALLOW, .why = DECIDE_ALLOWED, .rule = r->id, .source = r->source };
		return;
	}
	if (content != NULL)
		*o = (struct decision){ .why = DECIDE_CONTENT, .rule = content->id, .source = content->source };
}
