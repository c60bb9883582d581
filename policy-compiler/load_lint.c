/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is no error and hardly meant: rules that never let anything through, rules behind others that let all of theirs through,
 * everything allowed beside a secret, a secret that is filled into any request, hosts that no request can match.
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

/* Whatever its content. */
static bool any_content(const struct pol_rule *r) { return r->cond == NULL || (r->cond->parts == COND_BODY && r->cond->body == BODY_ANY); }

static void broad(struct load *l, const struct pol_dest *d)
{
	for (unsigned i = 0; d->inject_n > 0 && i < d->rule_n; i++)
		if (!d->rules[i].deny && d->rules[i].any && any_content(&d->rules[i]) && str_eq(d->rules[i].pattern, STR("/**")))
			load_warning(l, d->rules[i].at, "everything may be asked of %s with secret `%.*s`: name methods and paths", d->host.text, DIAG_STR(d->injects[0].secret->name));
}

/* Where a value is stored by one request, another may read it: an issue's text, an object's name. */
static void without_when(struct load *l, const struct pol_dest *d)
{
	unsigned allows = 0;

	for (unsigned i = 0; i < d->rule_n; i++)
		allows += !d->rules[i].deny;
	for (unsigned i = 0; allows > 1 && i < d->inject_n; i++) {
		const struct pol_inject *in = &d->injects[i];

		if (in->when_n == 0 && in->kind == INJECT_PLACEHOLDER && (in->places & PLACE_CONTENT) != 0)
			load_warning(l, in->at, "secret `%.*s` is filled into the content of any request that is allowed here, also of one that stores it where it can be read again: say `when: [ids of the rules that need it]`", DIAG_STR(in->secret->name));
	}
}

/* Whether this entry is for a rule that lets a WebSocket through. */
static bool for_websocket(const struct pol_dest *d, const struct pol_inject *in)
{
	for (unsigned i = 0; i < d->rule_n; i++) {
		bool named = in->when_n == 0;

		for (unsigned k = 0; k < in->when_n; k++)
			named = named || str_eq(in->when[k], d->rules[i].id);
		if (named && !d->rules[i].deny && ref_method(&d->rules[i], STR("WEBSOCKET")))
			return true;
	}
	return false;
}

static void without_websocket(struct load *l, const struct pol_dest *d)
{
	for (unsigned i = 0; i < d->inject_n; i++)
		if ((d->injects[i].places & PLACE_WEBSOCKET) && !for_websocket(d, &d->injects[i]))
			load_warning(l, d->injects[i].at, "secret `%.*s` is to be filled in messages of a WebSocket, and none of the rules it is for lets one through: `WEBSOCKET /path`", DIAG_STR(d->injects[i].secret->name));
}

static bool within_addresses(const struct pol_dest *d, const struct ip *ip)
{
	for (unsigned i = 0; i < d->address_n; i++)
		if (cidr_has(&d->addresses[i], ip))
			return true;
	return false;
}

/* An address that is never dialled. */
static void dead_address(struct load *l, const struct pol_dest *d)
{
	const struct ip *ip = &d->host.ip;
	const char *why = "";
	enum ip_class c;

	if (ip->family == 0 || d->connect_port != 0)
		return;
	c = ip_classify(ip, &why);
	if (c == IP_FORBIDDEN_ALWAYS)
		load_warning(l, d->at, "nothing can reach %s: %s is refused always", d->host.text, why);
	else if (d->address_n > 0 ? !within_addresses(d, ip) : c == IP_SPECIAL)
		load_warning(l, d->at, "nothing can reach %s: %s it; `addresses: [%s/%u]` would", d->host.text, d->address_n > 0 ? "`addresses` does not allow" : "only `addresses` allows", d->host.text, d->host.ip.family == 4 ? 32 : 128);
}

/* Names that no resolver has (RFC 6761, 7686). */
static void dead_name(struct load *l, const struct pol_dest *d)
{
	static const char *const none[] = { ".invalid", ".onion" };
	struct str host = str_mk(d->host.text, d->host.len);

	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		if (d->connect_port == 0 && (str_ends(host, str_of(none[i])) || str_eq(host, str_of(none[i] + 1))))
			load_warning(l, d->at, "nothing can reach %s: no name below %s is ever resolved; `connect` would say where it is", d->host.text, none[i]);
}

/* A secret's host that is no host of a destination which injects it. */
static void dead_secret_host(struct load *l, const struct pol_secret *s)
{
	const struct policy *p = l->p;

	for (unsigned h = 0; s->used && h < s->host_n; h++) {
		bool lives = false;

		for (unsigned i = 0; i < p->dest_n && !lives; i++)
			for (unsigned k = 0; k < p->dests[i].inject_n && !lives; k++) {
				struct str host = str_mk(p->dests[i].host.text, p->dests[i].host.len);

				lives = p->dests[i].injects[k].secret == s && (host_text_covers(s->hosts[h], host) || host_text_covers(host, s->hosts[h]));
			}
		if (!lives)
			load_warning(l, s->at, "secret `%.*s` may go to %.*s, and no destination there injects it: leave the host out", DIAG_STR(s->name), DIAG_STR(s->hosts[h]));
	}
}

/* Denies of a wildcard below which nothing is allowed. */
static void dead_denies(struct load *l, const struct pol_dest *d)
{
	const struct policy *p = l->p;

	for (unsigned i = 0; i < d->rule_n; i++)
		if (!d->rules[i].deny)
			return;
	if (d->rule_n == 0)
		return;
	for (unsigned i = 0; i < p->dest_n; i++) {
		const struct pol_dest *e = &p->dests[i];

		if (e != d && e->scheme == d->scheme && e->port == d->port && (host_text_covers(str_mk(d->host.text, d->host.len), str_mk(e->host.text, e->host.len)) || host_text_covers(str_mk(e->host.text, e->host.len), str_mk(d->host.text, d->host.len))))
			return;
	}
	load_warning(l, d->at, "the denies of %s say nothing: no other destination lets anything through there", d->host.text);
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
	for (unsigned i = 0; i < p->secret_n && p->secret_n <= 100; i++)
		dead_secret_host(l, &p->secrets[i]);
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
		without_when(l, d);
		without_websocket(l, d);
		dead_address(l, d);
		dead_name(l, d);
		if (memchr(d->host.text, '*', d->host.len) != NULL && p->dest_n <= 1000)
			dead_denies(l, d);
	}
}
