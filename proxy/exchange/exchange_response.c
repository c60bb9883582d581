/* SPDX-License-Identifier: Apache-2.0 */
/* What the upstream answers, on its way to the client: scrubbed, decoded, bounded. */
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

#define INTERIM_MAX 10 /* 1xx responses before the final one */
#define DECODE_SLICE 16384 /* octets of decoded content at a time */

static bool coded_some(struct exchange *x, const uint8_t *p, size_t n);
static void end_response(struct exchange *x, const struct http_fields *trailer);

void exchange_client_drained(struct exchange *x)
{
	struct buf waiting = x->coded;

	if (x->finished)
		return;
	if (buf_len(&waiting) > 0 || x->decode_more) {
		x->coded = (struct buf){ 0 };
		x->active_ms = loop_now_ms(x->loop);
		coded_some(x, buf_data(&waiting), buf_len(&waiting));
		buf_fini_secret(&waiting);
		if (x->finished || x->client == NULL || buf_len(&x->coded) > 0 || x->decode_more)
			return;
		if (x->end_due) {
			end_response(x, x->end_trailer);
			return;
		}
	}
	if (x->up != NULL)
		x->up->ops->resume(x->up);
}

bool exchange_response_full(const struct exchange *x)
{
	return x->client != NULL && (buf_len(&x->coded) > 0 || x->decode_more || x->client->ops->full(x->client));
}

void exchange_renew_scrub(struct exchange *x)
{
	struct scrub_ref *now = x->dest.scrub_off ? NULL : x->host->scrub(x->host_arg);

	if (now == NULL)
		return;
	if (now != x->scrub_ref) {
		x->scrub.set = now->set;
		if (exchange_is_open(x))
			frames_renew(&x->ws->down, now->set);
	}
	if (x->scrub_ref != NULL)
		x->host->scrub_done(x->host_arg, x->scrub_ref);
	x->scrub_ref = now;
}

void exchange_scrub_head(struct exchange *x, uint8_t *p, size_t n)
{
	if (!x->scrub_on)
		return;
	exchange_renew_scrub(x);
	x->scrub_hits += scrub_inplace(x->scrub_ref->set, (char *)p, n);
}

/* The response cannot be looked through for secrets, or not to its end: the client gets nothing more of it. */
static void unreadable(struct exchange *x, const char *why)
{
	char text[200];

	snprintf(x->reason, sizeof(x->reason), "content_coding: %s", why);
	snprintf(text, sizeof(text), "the response cannot be looked through for credentials: %s", why);
	exchange_leave_upstream(x, false);
	x->upstream_reusable = false;
	exchange_refuse(x, REFUSAL_UPSTREAM_PROTOCOL, text);
}

/* Coded content of a response that is scrubbed is decoded on its way. False: it is refused. */
static bool decode_begin(struct exchange *x, struct http_response *r, enum http_framing *framing)
{
	enum coding c = coding_of(&r->fields);
	bool content = *framing != HTTP_BODY_NONE && !(*framing == HTTP_BODY_LENGTH && r->content_length == 0);

	if (c == CODING_NONE || (c == CODING_UNKNOWN && !content))
		return true;
	if (c == CODING_UNKNOWN || r->status == 206) {
		unreadable(x, c == CODING_UNKNOWN ? "its content coding is none of gzip, deflate, br, zstd, or several on one another" : "it is a part of compressed content");
		return false;
	}
	coding_remove(&x->arena, r);
	if (!content)
		return true;
	x->decode = decode_new(c, &decode_limits_default);
	exchange_account(x);
	if (*framing == HTTP_BODY_LENGTH)
		*framing = HTTP_BODY_CHUNKED;
	return true;
}

void exchange_response_head(struct exchange *x, struct http_response *r)
{
	enum http_framing framing = r->framing;
	struct limit_hit hit;

	if (x->ws != NULL && websocket_head(x, r))
		return;
	if (r->status < 200) {
		if (r->status == 101 || ++x->interim > INTERIM_MAX) {
			exchange_upstream_broken(x, r->status == 101 ? "the upstream switched protocols unasked" : "the upstream sent too many interim responses");
			return;
		}
		if (r->status == 100) {
			exchange_let_continue(x);
		} else if (x->client != NULL) {
			http_response_strip(r);
			x->client->ops->interim(x->client, r);
		}
		return;
	}
	x->awaits_continue = false;
	if (x->scrub_on && x->dest.has_inject && rpc_compressed(r)) {
		snprintf(x->reason, sizeof(x->reason), "compressed_messages");
		exchange_upstream_broken(x, "the upstream compresses its messages although it was not told that it may: a credential in them could not be found");
		return;
	}
	http_response_strip(r);
	x->first_byte_us = clock_mono_us() - x->start_us;
	x->status = r->status;
	x->resp_is_head = str_eq(x->req.method, STR("HEAD"));
	if (x->scrub_on && !decode_begin(x, r, &framing))
		return;
	if (!x->request_ended)
		x->client_must_close = true; /* an early answer: what is left of the content will not be read */
	/* a close-delimited response becomes chunked, unless the client is too old for that */
	if (framing == HTTP_BODY_CLOSE && x->req.version != HTTP_V_1_0)
		framing = HTTP_BODY_CHUNKED;
	if (framing == HTTP_BODY_CHUNKED && x->req.version == HTTP_V_1_0)
		framing = HTTP_BODY_CLOSE;
	if (framing == HTTP_BODY_CLOSE)
		x->client_must_close = true;
	if (x->limits.response_body != 0 && framing == HTTP_BODY_LENGTH && r->content_length > x->limits.response_body && !x->resp_is_head) {
		exchange_cut(x, REFUSAL_TOO_LARGE, 502, "response_body");
		return;
	}
	if (framing == HTTP_BODY_LENGTH && !x->resp_is_head && !limit_foresee(x, false, r->content_length, &hit)) {
		exchange_over_limit(x, &hit);
		return;
	}
	x->active_ms = loop_now_ms(x->loop);
	x->response_started = true;
	r->keep_alive = !x->client_must_close && x->req.keep_alive;
	x->client->ops->head(x->client, r, framing, r->content_length);
}

/* Content to the client, secrets overwritten. */
static void deliver(struct exchange *x, uint8_t *p, size_t n)
{
	if (x->scrub_on)
		exchange_renew_scrub(x);
	if (!x->scrub_on || !scrub_holds(&x->scrub)) {
		if (x->scrub_on)
			n = scrub_feed_inplace(&x->scrub, p, n);
		x->content_out += n;
		if (n > 0)
			x->client->ops->data(x->client, p, n);
		return;
	}
	scrub_feed(&x->scrub, p, n, &x->scrubbed);
	if (buf_len(&x->scrubbed) > 0) {
		x->content_out += buf_len(&x->scrubbed);
		x->client->ops->data(x->client, buf_data(&x->scrubbed), buf_len(&x->scrubbed));
		buf_clear(&x->scrubbed);
	}
}

/* Decodes and delivers as much as the client takes; what is left of p waits. False: the exchange is over. */
static bool coded_some(struct exchange *x, const uint8_t *p, size_t n)
{
	uint8_t slice[DECODE_SLICE];
	size_t got = 0;
	const char *fault;

	do {
		x->decode_more = false;
		if (!decode_feed(x->decode, &p, &n, slice, sizeof(slice), &got, &fault)) {
			unreadable(x, fault);
			return false;
		}
		x->decoded += got;
		if (x->limits.response_body != 0 && x->decoded > x->limits.response_body) {
			exchange_cut(x, REFUSAL_TOO_LARGE, 502, "response_body");
			return false;
		}
		if (got > 0)
			deliver(x, slice, got);
		x->decode_more = got == sizeof(slice);
	} while ((n > 0 || x->decode_more) && !x->client->ops->full(x->client));
	buf_add(&x->coded, p, n);
	exchange_account(x);
	return true;
}

void exchange_response_data(struct exchange *x, uint8_t *p, size_t n)
{
	struct limit_hit hit;

	if (x->finished || x->client == NULL)
		return;
	if (exchange_is_open(x)) {
		if (x->scrub_on)
			exchange_renew_scrub(x);
		websocket_down(x, p, n);
		return;
	}
	x->active_ms = loop_now_ms(x->loop);
	x->content_up += n;
	if (x->limits.response_body != 0 && x->content_up > x->limits.response_body) {
		exchange_cut(x, REFUSAL_TOO_LARGE, 502, "response_body");
		return;
	}
	if (!limit_octets(x, false, n, &hit)) {
		exchange_over_limit(x, &hit);
		return;
	}
	if (x->decode == NULL) {
		deliver(x, p, n);
	} else if (buf_len(&x->coded) > 0 || x->decode_more) {
		buf_add(&x->coded, p, n);
		exchange_account(x);
	} else {
		coded_some(x, p, n);
	}
}

/* The last octets, the record, the end. */
static void end_response(struct exchange *x, const struct http_fields *trailer)
{
	if (x->decode != NULL && !decode_whole(x->decode)) {
		unreadable(x, "the compressed content is cut short");
		return;
	}
	if (x->scrub_on) {
		scrub_end(&x->scrub, &x->scrubbed);
		if (buf_len(&x->scrubbed) > 0) {
			x->content_out += buf_len(&x->scrubbed);
			x->client->ops->data(x->client, buf_data(&x->scrubbed), buf_len(&x->scrubbed));
			buf_clear(&x->scrubbed);
		}
	}
	x->response_ended = true;
	exchange_write_record(x);
	x->client->ops->end(x->client, trailer);
	exchange_finish(x, x->request_ended);
}

/* The upstream's part is over before the client has taken it all: that one is free, and the trailer is ours now. */
static void end_later(struct exchange *x, const struct http_fields *trailer)
{
	struct http_fields *own;

	x->end_due = true;
	if (trailer != NULL) {
		own = arena_alloc(&x->arena, sizeof(*own));
		*own = *trailer;
		for (unsigned i = 0; i < own->n; i++) {
			own->f[i].name = arena_str(&x->arena, trailer->f[i].name);
			own->f[i].value = arena_str(&x->arena, trailer->f[i].value);
		}
		x->end_trailer = own;
	}
	exchange_leave_upstream(x, x->upstream_reusable);
}

void exchange_response_end(struct exchange *x, bool reusable, const struct http_fields *trailer)
{
	if (x->finished || x->response_ended || x->end_due)
		return;
	if (exchange_is_open(x)) {
		websocket_over(x);
		return;
	}
	/* A14: an upstream that answered before it had the whole request is not used again */
	x->upstream_reusable = reusable && x->request_ended;
	if (buf_len(&x->coded) > 0 || x->decode_more)
		end_later(x, trailer);
	else
		end_response(x, trailer);
}

bool exchange_wants_trailer(const struct exchange *x) { return x->req.te_trailers || x->req.version == HTTP_V_2; }

void exchange_upstream_broken(struct exchange *x, const char *text)
{
	exchange_leave_upstream(x, false);
	exchange_refuse(x, REFUSAL_UPSTREAM_PROTOCOL, text);
}

void exchange_tunnel_end(struct exchange *x, enum refusal_code code, bool whole)
{
	if (x->finished)
		return;
	x->code = code;
	if (code != REFUSAL_NONE && refusal_status(code) < 500)
		x->decision.verdict = VERDICT_DENY;
	x->response_ended = true;
	exchange_write_record(x);
	if (whole)
		x->client->ops->end(x->client, NULL);
	else
		x->client->ops->reset(x->client, RESET_INTERNAL);
	exchange_finish(x, false);
}
