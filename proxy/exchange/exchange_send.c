/* SPDX-License-Identifier: Apache-2.0 */
/* What was let through goes to its upstream: credentials, the head, the content; and is sent again where it may be. */
#include "exchange_int.h"

#include <stdio.h>
#include <stdlib.h>

#include "../../common/base/must.h"
#include "../../common/sys/clock.h"
#include "coding.h"
#include "credential.h"
#include "inject.h"
#include "limit.h"
#include "rpc.h"
#include "websocket.h"

#define SECRET_WAIT_REASON "the credential for this destination could not be had; the operator sees why in the gateway's log"

static void ask_upstream(struct exchange *x)
{
	struct inject in;
	struct upstream_want w = { .dest = &x->dest, .scheme = x->scheme, .host = str_mk(x->chost.text, x->chost.len), .port = x->port, .fresh = x->retried, .websocket = x->ws != NULL };

	for (unsigned i = 0; credential_next(x, &i, &in) > 0;)
		w.identity = w.identity || in.kind == INJECT_CLIENT_CERTIFICATE;
	x->state = X_UPSTREAM;
	x->waiting_upstream = true;
	x->host->upstream(x->host_arg, x, &w);
}

/* All credentials of the destination, or none: a request never goes out with only some of them. */
void exchange_go_secrets(struct exchange *x)
{
	struct inject in;
	struct str value, cause;
	bool wait = false, any = false;

	for (unsigned i = 0; credential_next(x, &i, &in) > 0;) {
		any = true;
		if (in.kind == INJECT_HMAC) /* asked for when there is something to sign */
			continue;
		switch (x->host->secret(x->host_arg, x, &x->dest, &in, &value, &cause)) {
		case SECRET_READY:
			break;
		case SECRET_WAIT:
			wait = true;
			break;
		default:
			snprintf(x->reason, sizeof(x->reason), "%.*s: %.*s", (int)in.secret_name.n, in.secret_name.p, (int)cause.n, cause.p);
			exchange_refuse(x, REFUSAL_CREDENTIAL_UNAVAILABLE, SECRET_WAIT_REASON);
			return;
		}
	}
	if (wait)
		return;
	if (any)
		x->secret_us = clock_mono_us() - x->start_us;
	ask_upstream(x);
}

void exchange_secrets_changed(struct exchange *x)
{
	if (exchange_is_open(x))
		websocket_secrets_changed(x);
	/* who waits for several secrets is called for each, also when they have all come, and then a signature may be under way */
	if (x->state == X_SECRETS && !x->finished && !credential_signing(x))
		exchange_go_secrets(x);
}

void exchange_signed(struct exchange *x, unsigned inject, bool ok, struct str text)
{
	if (credential_signed(x, inject, ok, text))
		exchange_secrets_changed(x);
}

static void send_content(struct exchange *x, const uint8_t *p, size_t n)
{
	x->request_sent_any = true;
	if (x->up != NULL && credential_content(x, &p, &n) && n > 0)
		x->up->ops->data(x->up, p, n);
}

/* What was held back in the belief that a placeholder begins. */
static void send_rest(struct exchange *x)
{
	const uint8_t *p;
	size_t n;

	credential_content_end(x, &p, &n);
	if (n > 0)
		x->up->ops->data(x->up, p, n);
}

/* What the upstream is called in its request. */
static struct str authority(struct exchange *x)
{
	char *p = arena_alloc(&x->arena, x->chost.len + sizeof("[]:65535")), *end = p;
	bool v6 = x->chost.ip.family == 6;

	if (v6)
		*end++ = '[';
	end = mempcpy(end, x->chost.text, x->chost.len);
	if (v6)
		*end++ = ']';
	if (x->port != (x->scheme == SCHEME_HTTPS ? 443 : 80))
		end += snprintf(end, sizeof(":65535"), ":%u", x->port);
	return str_mk(p, (size_t)(end - p));
}

void exchange_upstream_ready(struct exchange *x, struct upstream_half *u, const struct upstream_facts *facts)
{
	enum refusal_code code;
	struct str host, cause;

	x->waiting_upstream = false;
	x->up = u;
	u->x = x;
	x->upf = *facts;
	exchange_renew_scrub(x);
	x->scrub_on = x->scrub_ref != NULL;
	if (x->scrub_on)
		coding_narrow(&x->arena, &x->req, credential_goes_there(x));
	if (facts->version != HTTP_V_2 && exchange_is_grpc(x)) { /* I13: its trailers, which carry the outcome, would be lost */
		exchange_leave_upstream(x, true);
		snprintf(x->reason, sizeof(x->reason), "grpc_needs_h2");
		exchange_refuse(x, REFUSAL_UPSTREAM_PROTOCOL, "gRPC needs HTTP/2, and this upstream speaks HTTP/1.1 only");
		return;
	}
	/* values are only looked up now, so that none lies around while a connection is made */
	host = authority(x);
	switch (credential_head(x, host, &cause, &code)) {
	case SECRET_READY:
		break;
	case SECRET_WAIT: /* it expired while the connection was made: that one goes back untouched */
		exchange_leave_upstream(x, true);
		x->state = X_SECRETS;
		return;
	default:
		exchange_leave_upstream(x, true); /* untouched */
		if (x->reason[0] == 0)
			snprintf(x->reason, sizeof(x->reason), "%.*s", (int)cause.n, cause.n ? cause.p : "");
		exchange_refuse(x, code, code == REFUSAL_CREDENTIAL_UNAVAILABLE ? SECRET_WAIT_REASON : "the content carries a placeholder that must not go there");
		return;
	}
	x->state = X_SENDING;
	/* who wants to be asked first is asked by the origin itself: it may refuse before any content is sent (UA02) */
	x->awaits_continue = x->req.expect_continue && !x->request_ended && !x->request_sent_any;
	x->phase_ms = loop_now_ms(x->loop);
	if (x->awaits_continue && http_fields_find_name(&x->req.fields, STR("Expect")) == NULL)
		http_fields_add(&x->req.fields, STR("Expect"), STR("100-continue"), HF_OTHER);
	u->ops->head(u, &x->req, host, x->target_wire, x->req.framing, x->req.content_length);
	if (buf_len(&x->content_held) > 0 && x->request_ended) { /* looked at, and filled, with the head */
		x->request_sent_any = true;
		u->ops->data(u, buf_data(&x->content_held), buf_len(&x->content_held));
		buf_fini_secret(&x->content_held);
		exchange_account(x);
	} else if (buf_len(&x->content_held) > 0) {
		send_content(x, buf_data(&x->content_held), buf_len(&x->content_held));
		buf_clear(&x->content_held);
		if (x->finished)
			return;
	}
	if (x->request_ended) {
		x->sent_ms = loop_now_ms(x->loop);
		if (x->ws == NULL) /* frames may follow the answer */
			u->ops->end(u, NULL);
		return;
	}
	x->client->ops->resume(x->client);
}

void exchange_upstream_failed(struct exchange *x, enum refusal_code code, const char *cause)
{
	char text[256];

	x->waiting_upstream = false;
	if (x->finished)
		return;
	switch (code) {
	case REFUSAL_ADDRESS_DENIED:
		snprintf(text, sizeof(text), "the name leads to an address that this sandbox may not reach");
		break;
	case REFUSAL_UPSTREAM_TLS:
		snprintf(text, sizeof(text), "the upstream's TLS was not acceptable: %s", cause);
		break;
	case REFUSAL_CREDENTIAL_UNAVAILABLE:
		snprintf(text, sizeof(text), "%s", SECRET_WAIT_REASON);
		break;
	default:
		snprintf(text, sizeof(text), "the upstream could not be reached: %s", cause);
		break;
	}
	snprintf(x->reason, sizeof(x->reason), "%s", cause);
	exchange_refuse(x, code, text);
}

void exchange_let_continue(struct exchange *x)
{
	if (!x->awaits_continue || x->finished || x->response_started || x->client == NULL)
		return;
	x->awaits_continue = false;
	x->client->ops->interim(x->client, NULL);
}

void exchange_request_data(struct exchange *x, const uint8_t *p, size_t n)
{
	struct limit_hit hit;

	if (exchange_is_open(x)) {
		websocket_up(x, p, n);
		return;
	}
	x->awaits_continue = false; /* it would not wait any longer */
	if (x->state == X_ANSWERING) {
		if (buf_len(&x->call) + n > RPC_CONTENT_MAX)
			exchange_answer_now(x);
		else
			buf_add(&x->call, p, n);
		return;
	}
	x->content_in += n;
	x->active_ms = loop_now_ms(x->loop);
	if (x->limits.request_body != 0 && x->content_in > x->limits.request_body) {
		exchange_too_large(x);
		return;
	}
	if (x->state == X_HOLDING && !x->awaits_content) { /* counted when it is decided */
		exchange_hold_data(x, p, n);
		return;
	}
	if (!limit_octets(x, true, n, &hit))
		exchange_over_limit(x, &hit);
	else if (x->state == X_HOLDING)
		exchange_hold_data(x, p, n);
	else
		send_content(x, p, n);
}

void exchange_request_end(struct exchange *x, struct http_fields *trailer)
{
	if (x->request_ended || x->finished)
		return;
	x->request_ended = true;
	if (x->state == X_ANSWERING) {
		exchange_answer_now(x);
		return;
	}
	x->sent_ms = loop_now_ms(x->loop);
	if (x->state == X_HOLDING && x->awaits_content) {
		x->state = X_SECRETS;
		exchange_go_secrets(x);
		return;
	}
	if (x->state == X_HOLDING) {
		exchange_look(x);
		return;
	}
	if (x->up != NULL)
		send_rest(x);
	if (trailer != NULL)
		credential_trailer(x, trailer);
	if (x->up != NULL)
		x->up->ops->end(x->up, trailer);
	if (x->response_ended)
		exchange_finish(x, true);
}

void exchange_upstream_drained(struct exchange *x)
{
	if (x->client != NULL && exchange_takes_data(x))
		x->client->ops->resume(x->client);
}

static bool may_retry(const struct exchange *x, bool unprocessed)
{
	static const char *const idempotent[] = { "GET", "HEAD", "OPTIONS", "PUT", "DELETE" };

	/* content that went out is nowhere any more */
	if (x->retried || x->response_started || x->interim > 0 || x->up == NULL || x->request_sent_any)
		return false;
	if (unprocessed)
		return true;
	/* RFC 9110 9.2.2: a reused connection that turns out closed, nothing received, nothing but the head sent */
	if (!x->up->reused || x->up->answered || x->req.framing != HTTP_BODY_NONE)
		return false;
	for (size_t i = 0; i < sizeof(idempotent) / sizeof(idempotent[0]); i++)
		if (str_eq(x->req.method, str_of(idempotent[i])))
			return true;
	return false;
}

void exchange_upstream_lost(struct exchange *x, enum refusal_code code, const char *cause, bool unprocessed)
{
	bool retry = code != REFUSAL_UPSTREAM_TIMEOUT && may_retry(x, unprocessed); /* who is silent may be at work on it */

	if (x->up != NULL)
		x->up->x = NULL;
	x->up = NULL;
	if (x->finished)
		return;
	if (retry) {
		x->retried = true;
		x->reset_code = 0;
		ask_upstream(x);
		return;
	}
	x->upstream_reusable = false;
	if (websocket_waved(x, false))
		websocket_over(x);
	else
		exchange_upstream_failed(x, code, cause);
}
