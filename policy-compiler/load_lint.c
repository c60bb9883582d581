/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is no error and hardly meant: rules that never let anything through, rules behind others that let all of theirs through,
 * everything allowed beside a secret.
 *
 * Whether one pattern covers another is tried with instances of the other whose stars stand for a segment that is in no
 * policy: what matches those does so by its own stars, and so matches all. "**" stands for one, two and three of them.
 */
#include <stdlib.h>

#include "../common/policy/host_pattern.h"
#include "load.h"

#define RULES_LOOKED_AT 500u /* of a destination: each is compared with each */
#define ALL_LOOKED_AT 5000u  /* larger policies are made by programs */
#define FRESH "\x02q"

static void instance(struct buf *b, struct str pattern, unsigned segments)
{
	buf_clear(b);
	for (size_t i = 0; i < pattern.n; i++) {
		if (pattern.p[i] != '*') {
			buf_addc(b, pattern.p[i]);
			continue;
		}
		if (i + 1 < pattern.n && pattern.p[i + 1] == '*') {
			i++;
			for (unsigned k = 0; k < segments; k++)
				buf_addz(b, k > 0 ? "/" FRESH : FRESH);
		} else {
			buf_addz(b, FRESH);
		}
	}
}

static bool covers_path(const struct pol_rule *by, struct str pattern)
{
	struct buf b = { 0 };
	bool all = true;

	if (pattern.p[0] != '/')
		return str_eq(by->pattern, pattern);
	for (unsigned segments = 1; segments <= 3 && all; segments++) {
		instance(&b, pattern, segments);
		all = ref_path(by, buf_str(&b));
	}
	buf_fini(&b);
	return all;
}

static bool covers_methods(const struct pol_rule *by, const struct pol_rule *r)
{
	if (r->any && !by->any)
		return false;
	for (unsigned i = 0; i < r->method_n; i++)
		if (!ref_method(by, r->methods[i]))
			return false;
	return true;
}

/* What `by` lets through carries content where what r lets through does. */
static bool same_content(const struct pol_rule *by, const struct pol_rule *r)
{
	if (r->cond == NULL || (r->cond->parts & COND_BODY) == 0)
		return by->any <= r->any;
	return !by->any && !r->any && !ref_method(r, STR("GET")) && !ref_method(r, STR("HEAD"));
}

static bool covers(const struct pol_rule *by, const struct pol_rule *r) { return by->cond == NULL && covers_methods(by, r) && covers_path(by, r->pattern); }

static void unreachable(struct load *l, const struct pol_dest *d, const struct pol_dest *broader)
{
	for (unsigned i = 0; i < d->rule_n; i++) {
		const struct pol_rule *r = &d->rules[i];

		for (unsigned k = 0; !r->deny && k < broader->rule_n; k++) {
			if (!broader->rules[k].deny || !covers(&broader->rules[k], r))
				continue;
			load_warning(l, r->at, "this rule lets nothing through: the deny of %s covers it", load_there(l, broader->rules[k].at, r->at));
			break;
		}
	}
}

static void shadowed(struct load *l, const struct pol_dest *d)
{
	for (unsigned i = 0; i < d->rule_n; i++) {
		const struct pol_rule *r = &d->rules[i];

		for (unsigned k = 0; !r->deny && k < i; k++) {
			const struct pol_rule *by = &d->rules[k];

			if (by->deny || !covers(by, r) || !same_content(by, r) || str_eq(by->id, r->id))
				continue;
			load_warning(l, r->at, "this rule is never the one that is recorded: that of %s lets all of it through", load_there(l, by->at, r->at));
			break;
		}
	}
}

static void broad(struct load *l, const struct pol_dest *d)
{
	for (unsigned i = 0; d->inject_n > 0 && i < d->rule_n; i++)
		if (!d->rules[i].deny && d->rules[i].any && d->rules[i].cond == NULL && str_eq(d->rules[i].pattern, STR("/**")))
			load_warning(l, d->rules[i].at, "everything may be asked of %s with secret `%.*s`: name methods and paths", d->host.text, DIAG_STR(d->injects[0].secret->name));
}

/* Rules that allow stand before those that deny. */
static bool denies_broadly(const struct pol_dest *d) { return d->rule_n > 0 && d->rules[d->rule_n - 1].deny && memchr(d->host.text, '*', d->host.len) != NULL; }

void load_lint(struct load *l)
{
	const struct policy *p = l->p;
	unsigned denying = 0;
	const struct pol_place *last = NULL;

	if (p->rule_n > ALL_LOOKED_AT)
		return;
	for (unsigned i = 0; i < p->dest_n; i++)
		denying += denies_broadly(&p->dests[i]);
	for (unsigned i = 0; i < p->dest_n; i++) {
		const struct pol_dest *d = &p->dests[i];

		/* a list of hosts and ports has its rules once */
		if (d->tunnel || d->rule_n > RULES_LOOKED_AT || (last != NULL && load_place_order(last, &d->at) == 0))
			continue;
		last = &d->at;
		unreachable(l, d, d);
		for (unsigned k = 0; denying > 0 && denying <= 50 && p->dest_n <= 1000 && k < p->dest_n; k++) {
			const struct pol_dest *e = &p->dests[k];

			if (e != d && e->scheme == d->scheme && e->port == d->port && e->rule_n <= RULES_LOOKED_AT && denies_broadly(e) && host_text_covers(str_mk(e->host.text, e->host.len), str_mk(d->host.text, d->host.len)))
				unreachable(l, d, e);
		}
		shadowed(l, d);
		broad(l, d);
	}
}
