/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The values in use: what `secrets` released to this sandbox for (secret, destination, kind), kept as long as it said. A
 * value that has expired is asked for again; if that fails the request fails. Everything that was ever released here is
 * in the scrub set, rotated values too and those that a later policy does not bind, until the worker ends: an origin may
 * still echo them. The key that SigV4 signs with goes nowhere: of its release only the session token is looked for. What
 * `inject_signs` is not here at all: what is to be signed goes to `secrets`, and a signature comes back.
 */
#include <stdio.h>
#include <stdlib.h>

#include "../../common/base/must.h"
#include "../../common/policy/sandbox_spec.h"
#include "../../common/sys/clock.h"
#include "../../common/sys/log.h"
#include "../../common/sys/secret.h"
#include "../exchange/inject.h"
#include "../exchange/sigv4.h"
#include "identity.h"
#include "worker.h"

#define SHORT 16u     /* octets of a value below which it may be in responses by chance */
#define FAILED_MS 500 /* how long a failure is remembered: the waiters get it, the next request asks again */

struct cred {
	struct cred *next;
	const struct table *table; /* whose numbers these are */
	uint32_t secret_index, dest_index, kind;
	struct policy_gen *asked; /* held while asking */
	struct secret *value;
	struct identity *identity; /* of a client's certificate */
	uint64_t until_ms, failed_until_ms;
	char cause[200];
	bool asking;
	bool unscrubbed;     /* `scrub: off` where it goes */
	bool told;           /* that its value is short */
	uint64_t id;         /* its handle while asking */
	uint64_t *waiting;   /* exchange handles */
	size_t waiting_n, waiting_cap;
	struct inject in;    /* strings borrow from the table */
};
struct creds {
	struct worker *w;
	struct cred *list;
	struct secret **seen;
	size_t seen_n;
	struct scrub_ref *ref;
	struct placeholders *placeholders; /* a new list takes the place of the old one, which exchanges may still look at */
	uint64_t name_told_ms;
	bool misuse_told;
};

struct creds *creds_new(struct worker *w)
{
	struct creds *c = must_calloc(1, sizeof(*c));

	c->w = w;
	return c;
}

static struct cred *find(struct creds *c, const struct dest *d, const struct inject *in)
{
	struct cred *e;

	for (e = c->list; e != NULL; e = e->next)
		if (e->table == d->table && e->secret_index == in->secret_index && e->dest_index == d->index && e->kind == in->kind &&
		    (in->kind != INJECT_BASIC || str_eq(e->in.username, in->username))) /* what goes out of it is a text of each user's */
			return e;
	e = must_calloc(1, sizeof(*e));
	e->table = d->table;
	e->secret_index = in->secret_index;
	e->dest_index = d->index;
	e->kind = in->kind;
	e->in = *in;
	e->unscrubbed = d->scrub_off;
	e->next = c->list;
	c->list = e;
	return e;
}

enum secret_state creds_get(struct creds *c, struct exchange *x, const struct dest *d, const struct inject *in, struct str *value, struct str *cause)
{
	struct cred *e = find(c, d, in);
	uint64_t now = loop_now_ms(c->w->loop);
	struct msg_release m = { in->secret_index, d->index, in->kind };

	*cause = STR_NONE;
	if (e->value != NULL && now < e->until_ms) {
		*value = secret_bytes(e->value);
		return SECRET_READY;
	}
	if (!e->asking && now < e->failed_until_ms) {
		*cause = str_of(e->cause);
		return SECRET_UNAVAILABLE;
	}
	if (!e->asking) {
		e->id = handle_new(&c->w->handles, HANDLE_CREDENTIAL, e);
		if (c->w->secrets == NULL || !ipc_send(c->w->secrets, MSG_RELEASE, x->generation, e->id, &m, sizeof(m), NULL, 0)) {
			handle_free(&c->w->handles, e->id);
			*cause = STR("the role that holds the secrets is down");
			return SECRET_UNAVAILABLE;
		}
		e->asking = true;
		e->asked = policy_hold(policy_of_generation(c->w, x->generation));
	}
	/* who waits for several asks for all of them again when one comes: once is enough, or each would double what the next one wakes */
	for (size_t i = 0; i < e->waiting_n; i++)
		if (e->waiting[i] == x->handle)
			return SECRET_WAIT;
	if (e->waiting_n == e->waiting_cap) {
		e->waiting_cap = e->waiting_cap ? e->waiting_cap * 2 : 8;
		e->waiting = must_realloc(e->waiting, e->waiting_cap * sizeof(*e->waiting));
	}
	e->waiting[e->waiting_n++] = x->handle;
	return SECRET_WAIT;
}

static void answered(struct creds *c, struct cred *e)
{
	handle_free(&c->w->handles, e->id);
	e->asking = false;
	policy_release(e->asked);
}

static void remember(struct creds *c, struct str v)
{
	if (v.n < SCRUB_VALUE_MIN) /* it would be everywhere */
		return;
	for (size_t i = 0; i < c->seen_n; i++)
		if (str_eq(secret_bytes(c->seen[i]), v))
			return;
	c->seen = must_realloc(c->seen, (c->seen_n + 1) * sizeof(*c->seen));
	c->seen[c->seen_n] = secret_new(v.p, v.n);
	MUST(c->seen[c->seen_n] != NULL);
	c->seen_n++;
	creds_scrub_done(c->ref);
	c->ref = NULL;
}

static void remember_released(struct creds *c, const struct cred *e, struct str text)
{
	struct sigv4_key k;

	if (e->in.kind != INJECT_SIGV4)
		remember(c, text);
	else if (sigv4_key_read(text, &k) && k.session.n > 0)
		remember(c, k.session);
}

static void wake(struct creds *c, struct cred *e)
{
	uint64_t *ids = e->waiting;
	size_t n = e->waiting_n;

	e->waiting = NULL;
	e->waiting_n = e->waiting_cap = 0;
	for (size_t i = 0; i < n; i++) {
		struct exchange *x = handle_get(&c->w->handles, HANDLE_EXCHANGE, ids[i]);

		if (x != NULL)
			exchange_secrets_changed(x);
	}
	free(ids);
}

static void drop_value(struct cred *e)
{
	secret_free(e->value);
	e->value = NULL;
	identity_release(e->identity);
	e->identity = NULL;
}

struct identity *creds_identity(const struct creds *c, const struct dest *d)
{
	for (const struct cred *e = c->list; e != NULL; e = e->next)
		if (e->table == d->table && e->dest_index == d->index && e->kind == INJECT_CLIENT_CERTIFICATE && loop_now_ms(c->w->loop) < e->until_ms)
			return e->identity;
	return NULL;
}

static void failed(struct creds *c, struct cred *e, struct str cause)
{
	e->failed_until_ms = loop_now_ms(c->w->loop) + FAILED_MS;
	snprintf(e->cause, sizeof(e->cause), "%.*s", (int)cause.n, cause.p);
}

void creds_released(struct creds *c, const struct ipc_msg *m)
{
	const struct msg_released *r = (const void *)m->data;
	struct str text = str_mk(m->data + sizeof(*r), m->len - sizeof(*r));
	struct cred *e = handle_get(&c->w->handles, HANDLE_CREDENTIAL, m->id);
	struct arena a = { 0 };
	struct str form;

	if (e == NULL || !e->asking)
		return;
	answered(c, e);
	drop_value(e);
	if (r->status == RELEASE_OK && text.n > 0 && e->kind == INJECT_CLIENT_CERTIFICATE) { /* certificates, which are no secret */
		e->identity = identity_new((const uint8_t *)text.p, text.n, e->secret_index);
		e->value = e->identity != NULL ? secret_new(text.p, text.n) : NULL;
		e->until_ms = loop_now_ms(c->w->loop) + r->valid_ms;
		if (e->value == NULL)
			failed(c, e, STR("its certificate cannot be used: the key is neither EC, RSA nor Ed25519, or it is damaged"));
	} else if (r->status == RELEASE_OK && text.n > 0) {
		e->value = secret_new(text.p, text.n);
		if (e->value == NULL || !secret_sendable(e->value)) {
			secret_free(e->value);
			e->value = NULL;
			failed(c, e, STR("the value is too long or has a line break or NUL in it"));
		} else if (text.n < SCRUB_VALUE_MIN && !e->unscrubbed) {
			secret_free(e->value);
			e->value = NULL;
			failed(c, e, STR("the value has fewer than 8 octets and cannot be kept out of responses: only where `scrub: off` is written it is used"));
		} else {
			if (text.n < SHORT && !e->told)
				log_info("secret %.*s has fewer than %u octets: what looks like it by chance is overwritten in responses, too", (int)e->in.secret_name.n, e->in.secret_name.p, SHORT);
			e->told = true;
			e->until_ms = loop_now_ms(c->w->loop) + r->valid_ms;
			remember_released(c, e, text);
			form = inject_wire_form(&a, &e->in, text);
			if (form.n > 0)
				remember(c, form);
		}
	} else {
		failed(c, e, text);
	}
	arena_fini(&a);
	wake(c, e);
}

void creds_withdrawn(struct creds *c, const struct table *t, uint32_t secret_index)
{
	for (struct cred *e = c->list; e != NULL; e = e->next) {
		if (e->table != t || e->secret_index != secret_index)
			continue;
		drop_value(e);
		e->failed_until_ms = 0;
	}
	upstreams_withdrawn(c->w->ups, t, secret_index);
}

void creds_link_lost(struct creds *c)
{
	for (struct cred *e = c->list; e != NULL; e = e->next) {
		if (!e->asking)
			continue;
		answered(c, e);
		failed(c, e, STR("the role that holds the secrets went down"));
		wake(c, e);
	}
}

void creds_table_gone(struct creds *c, const struct table *t)
{
	for (struct cred **p = &c->list; *p != NULL;) {
		struct cred *e = *p;

		if (e->table != t) {
			p = &e->next;
			continue;
		}
		*p = e->next;
		drop_value(e);
		free(e->waiting);
		free(e);
	}
}

struct scrub_ref *creds_scrub(struct creds *c)
{
	/* by a policy that hands values out one may come into use while a response streams: that must be one that can be looked through */
	if (c->seen_n == 0 && !c->w->policy->hands_out)
		return NULL;
	if (c->ref == NULL) {
		struct str *v = must_malloc((c->seen_n + 1) * sizeof(*v));

		for (size_t i = 0; i < c->seen_n; i++)
			v[i] = secret_bytes(c->seen[i]);
		c->ref = must_calloc(1, sizeof(*c->ref));
		c->ref->set = scrub_set_new(v, c->seen_n);
		c->ref->refs = 1;
		free(v);
	}
	c->ref->refs++;
	return c->ref;
}

void creds_scrub_done(struct scrub_ref *r)
{
	if (r == NULL || --r->refs > 0)
		return;
	scrub_set_free(r->set);
	free(r);
}

/* --- placeholders -------------------------------------------------------------------------------------------------- */

void creds_take_placeholders(struct creds *c, struct str list)
{
	struct placeholder *p = must_calloc(PLACEHOLDERS_MAX, sizeof(*p));
	size_t n = 0;

	while (n < PLACEHOLDERS_MAX && placeholder_next(&list, &p[n]))
		n++;
	c->placeholders = placeholders_new(p, n); /* a list comes when there is something new in it; the few old ones are never freed */
	free(p);
}

const struct placeholders *creds_placeholders(const struct creds *c) { return c->placeholders; }

struct name_hit {
	const struct placeholders *set;
	const struct placeholder *p;
};

static void on_name(void *arg, const struct placeholder_hit *h)
{
	struct name_hit *n = arg;

	n->p = placeholders_at(n->set, h->which);
}

bool creds_name_trips(struct creds *c, const struct canon_host *name, const char *where)
{
	struct name_hit hit = { .set = c->placeholders };
	char joined[CANON_HOST_MAX + 1];
	struct buf b = { 0 };
	size_t n = 0;

	if (placeholders_count(c->placeholders) == 0)
		return false;
	placeholders_find(c->placeholders, str_mk(name->text, name->len), on_name, &hit);
	for (size_t i = 0; i < name->len; i++) /* it may be cut in labels */
		if (name->text[i] != '.')
			joined[n++] = name->text[i];
	placeholders_find(c->placeholders, str_mk(joined, n), on_name, &hit);
	if (hit.p == NULL)
		return false;
	if (c->name_told_ms == 0 || loop_now_ms(c->w->loop) - c->name_told_ms > 1000) { /* questions come by the thousand */
		c->name_told_ms = loop_now_ms(c->w->loop);
		record_s(&b, REC_KIND, STR("finding"));
		record_s(&b, REC_DECISION, STR("deny"));
		record_s(&b, REC_CODE, STR("placeholder_misuse"));
		record_s(&b, REC_HOST, str_mk(name->text, name->len));
		record_s(&b, REC_SECRET, hit.p->secret);
		record_s(&b, REC_MESSAGE, str_of(where));
		record_u(&b, REC_TIME_MS, clock_wall_ms());
		reporter_record(c->w->rep, NULL, INFLIGHT_NO_SLOT, &b);
		buf_fini(&b);
	}
	creds_misuse(c, hit.p->secret);
	return true;
}

void creds_misuse(struct creds *c, struct str secret)
{
	struct sandbox_spec *s;

	if (c->misuse_told)
		return;
	s = must_malloc(sizeof(*s));
	if (!sandbox_spec_load(c->w->policy->table, s) || str_eq(s->on_misuse, STR("stop_sandbox"))) {
		c->misuse_told = true;
		ipc_send(c->w->sup, MSG_MISUSE, 0, 0, secret.p, secret.n > 64 ? 64 : secret.n, NULL, 0);
	}
	free(s);
}
