/* SPDX-License-Identifier: Apache-2.0 */
#include "limit.h"

#include <stdio.h>

#define OF_BOUNDARY UINT64_C(0x9e3779b97f4a7c15) /* a boundary's counters are not the policy's or another's, whatever they say */

static uint64_t now_of(const struct exchange *x) { return loop_now_ms(x->loop); }

static const char *kind_name(uint8_t kind)
{
	switch (kind) {
	case RATE_REQUESTS:
		return "requests";
	case RATE_UPLOAD:
		return "upload";
	case RATE_DOWNLOAD:
		return "download";
	case RATE_CONCURRENT:
		return "concurrent";
	default:
		return "uses";
	}
}

static void reached(const struct exchange *x, const struct exchange_rate *r, uint64_t wait_ms, struct limit_hit *hit)
{
	const char *window = r->window_s == 1 ? "/s" : r->window_s == 60 ? "/m" : r->window_s == 3600 ? "/h" : r->window_s ? "/d" : "";
	const char *of = r->boundary ? "the boundary" : "this sandbox's policy";

	(void)x;
	snprintf(hit->which, sizeof(hit->which), "%slimits.%s %llu%s", r->boundary ? "boundary: " : "", kind_name(r->kind), (unsigned long long)r->amount, window);
	snprintf(hit->text, sizeof(hit->text), "the limit `%s: %llu%s` of %s is reached", kind_name(r->kind), (unsigned long long)r->amount, window, of);
	hit->retry_after_s = wait_ms == UINT64_MAX ? 0 : (uint32_t)((wait_ms + 999) / 1000);
}

/* --- what applies -------------------------------------------------------------------------------------------------- */

/* level 0: the policy's; else which boundary's. */
static unsigned gather_from(struct exchange *x, const struct dest *d, uint32_t rule, unsigned level, struct exchange_rate *to)
{
	struct rate r;
	unsigned n = 0;

	for (unsigned i = 0; i < d->rate_n && dest_rate(d, i, &r); i++) {
		if ((r.rule != rule && r.rule != UINT32_MAX) || r.kind > RATE_USES)
			continue;
		if (to != NULL)
			to[n] = (struct exchange_rate){ .key = r.key ^ OF_BOUNDARY * level, .amount = r.amount, .window_s = r.window_s, .kind = (uint8_t)r.kind, .boundary = level > 0 };
		n++;
	}
	(void)x;
	return n;
}

static void gather(struct exchange *x)
{
	struct dest of[TABLE_BOUNDARIES_MAX];
	bool has[TABLE_BOUNDARIES_MAX];
	unsigned n = gather_from(x, &x->dest, x->decision.rule_no, 0, NULL), levels = 0;

	for (const struct table *b = table_boundary(x->table); b != NULL && levels < TABLE_BOUNDARIES_MAX; b = table_boundary(b), levels++) {
		has[levels] = table_find_unbounded(b, x->scheme, str_mk(x->chost.text, x->chost.len), x->port, &of[levels]) == 1;
		if (has[levels])
			n += gather_from(x, &of[levels], x->decision.boundary_rule_no[levels], 1 + levels, NULL);
	}
	x->rates = n > 0 ? arena_alloc(&x->arena, n * sizeof(*x->rates)) : NULL;
	x->rate_n = n > 0 ? gather_from(x, &x->dest, x->decision.rule_no, 0, x->rates) : 0;
	x->limits = dest_limits_of_rule(&x->dest, x->decision.rule_no);
	for (unsigned i = 0; i < levels; i++) {
		struct dest_limits l;

		if (!has[i])
			continue;
		if (n > 0)
			x->rate_n += gather_from(x, &of[i], x->decision.boundary_rule_no[i], 1 + i, x->rates + x->rate_n);
		l = dest_limits_of_rule(&of[i], x->decision.boundary_rule_no[i]);
		x->limits = dest_limits_both(&x->limits, &l);
	}
}

/* --- admission ----------------------------------------------------------------------------------------------------- */

static bool fits(struct exchange *x, const struct exchange_rate *r, struct limit_hit *hit)
{
	struct meter *m = x->meter;
	uint64_t wait = 0;

	switch (r->kind) {
	case RATE_REQUESTS:
	case RATE_USES:
	case RATE_UPLOAD:
	case RATE_DOWNLOAD: /* of a budget there is something left */
		wait = meter_wait(m, r->key, r->window_s, r->amount, 1, now_of(x));
		break;
	default:
		wait = meter_running(m, r->key) >= r->amount ? 1000 : 0;
		break;
	}
	if (wait == 0)
		return true;
	reached(x, r, wait, hit);
	return false;
}

static void no_room(struct limit_hit *hit)
{
	snprintf(hit->which, sizeof(hit->which), "limits: no room for another counter");
	snprintf(hit->text, sizeof(hit->text), "a limit of this sandbox's policy cannot be counted");
	hit->retry_after_s = 60;
}

bool limit_admit(struct exchange *x, struct limit_hit *hit)
{
	gather(x);
	for (unsigned i = 0; i < x->rate_n; i++)
		if (!fits(x, &x->rates[i], hit))
			return false;
	if (x->req.framing == HTTP_BODY_LENGTH && !limit_foresee(x, true, x->req.content_length, hit))
		return false;
	for (unsigned i = 0; i < x->rate_n; i++) {
		struct exchange_rate *r = &x->rates[i];
		bool ok = true;

		if (r->kind == RATE_REQUESTS || r->kind == RATE_USES)
			ok = meter_add(x->meter, r->key, r->window_s, 1, now_of(x));
		else if (r->kind == RATE_CONCURRENT)
			ok = r->running = meter_run(x->meter, r->key, 1, now_of(x));
		if (!ok) {
			no_room(hit);
			return false;
		}
	}
	return true;
}

void limit_leave(struct exchange *x)
{
	for (unsigned i = 0; i < x->rate_n; i++) {
		if (x->rates[i].running)
			meter_run(x->meter, x->rates[i].key, -1, now_of(x));
		x->rates[i].running = false;
	}
}

/* --- octets -------------------------------------------------------------------------------------------------------- */

static bool budget_of(const struct exchange_rate *r, bool up) { return r->kind == (up ? RATE_UPLOAD : RATE_DOWNLOAD); }

bool limit_foresee(struct exchange *x, bool up, uint64_t n, struct limit_hit *hit)
{
	for (unsigned i = 0; i < x->rate_n; i++) {
		const struct exchange_rate *r = &x->rates[i];
		uint64_t wait = budget_of(r, up) ? meter_wait(x->meter, r->key, r->window_s, r->amount, n, now_of(x)) : 0;

		if (wait != 0) {
			reached(x, r, wait, hit);
			return false;
		}
	}
	return true;
}

bool limit_octets(struct exchange *x, bool up, uint64_t n, struct limit_hit *hit)
{
	if (x->rate_n == 0)
		return true;
	if (!limit_foresee(x, up, n, hit))
		return false;
	for (unsigned i = 0; i < x->rate_n; i++) {
		if (budget_of(&x->rates[i], up) && !meter_add(x->meter, x->rates[i].key, x->rates[i].window_s, n, now_of(x))) {
			no_room(hit);
			return false;
		}
	}
	return true;
}

uint64_t limit_used(const void *arg, uint64_t key)
{
	const struct exchange *x = arg;

	return meter_used(x->meter, key, 0, now_of(x));
}
