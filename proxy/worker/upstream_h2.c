/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/2 toward an upstream: one session, and for each stream an upstream half of its own.
 *
 * A half outlives its stream, and the connection, while content that was received waits for a slow client (`in`, never more
 * than the stream's window). It ends when the exchange leaves it, or when it is lost, of which the exchange is told.
 */
#include <stdio.h>
#include <stdlib.h>

#include "../../common/base/must.h"
#include "h2conn.h"
#include "upstream.h"

#define PIECE 16384

struct stream {
	struct upstream_half half;
	struct stream *prev, *next;
	struct upstream *u; /* NULL: the connection is gone */
	struct loop *loop;
	struct h2_stream *st; /* NULL: not opened yet, or forgotten by the session */
	bool head_done;
	bool ended;    /* the response is whole, what of it is not in `in` was told */
	bool sent_end; /* ours */
	bool tunnel;   /* extended CONNECT */
	bool kicked;
	struct buf in;
	struct arena arena; /* of trailer */
	struct http_fields *trailer;
	uint64_t active_ms;
};
struct upstream_h2 {
	struct h2 *s;
	struct stream *first;
	bool in_turn;	  /* output is taken at its end */
	bool used;	  /* an exchange came to a response */
	bool settings, settings_told; /* the peer's came */
	size_t queued;	  /* of the session, as the connection was told */
	uint64_t head_ms; /* since when a head is unfinished, as the sweep saw it; 0: none is */
	uint64_t trimmed; /* see h2conn_sweep */
	char fault[64];
};

static const struct upstream_half_ops half_ops;

static struct stream *of(struct upstream_half *h) { return (struct stream *)((char *)h - offsetof(struct stream, half)); }

static void output(struct upstream *u)
{
	if (u != NULL && u->h2 != NULL && !u->h2->in_turn)
		conn_kick(&u->c);
}

/* --- streams ------------------------------------------------------------------------------------------------------- */

static void detach(struct stream *us)
{
	struct upstream *u = us->u;

	if (u == NULL)
		return;
	*(us->prev != NULL ? &us->prev->next : &u->h2->first) = us->next;
	if (us->next != NULL)
		us->next->prev = us->prev;
	us->u = NULL;
	if (u->h2->first == NULL)
		u->since_ms = loop_now_ms(us->loop);
}

static void stream_free(void *arg)
{
	struct stream *us = arg;

	buf_fini_secret(&us->in);
	arena_fini(&us->arena);
	free(us);
}

static void drop(struct stream *us)
{
	detach(us);
	loop_defer(us->loop, stream_free, us); /* behind its own kick, and the calls that lead here */
}

/* A code of the upstream's that means the same to the client; 0: none does, once a response has begun. */
static uint32_t code_to_tell(uint32_t code)
{
	return code == H2_CANCEL || code == H2_ENHANCE_YOUR_CALM ? code : 0;
}

/* answered: the upstream has said something to the request, if only that it will not answer: it is not asked again (K09). */
static void lost(struct stream *us, enum refusal_code code, const char *cause, uint32_t reset_code, bool unprocessed, bool answered)
{
	struct exchange *x = us->half.x;

	us->half.x = NULL;
	us->half.answered = answered;
	us->st = NULL;
	drop(us);
	if (x == NULL)
		return;
	exchange_hold(x, 0);
	x->reset_code = code_to_tell(reset_code);
	exchange_upstream_lost(x, code, cause, unprocessed);
}

/* Hands on what was received, as far as the client takes it. */
static void pump(struct stream *us)
{
	struct exchange *x = us->half.x;

	while (x != NULL && us->half.x == x && buf_len(&us->in) > 0 && !exchange_response_full(x)) {
		size_t n = buf_len(&us->in) < PIECE ? buf_len(&us->in) : PIECE;

		if (us->st != NULL) {
			h2_consumed(us->st, n);
			output(us->u);
		}
		exchange_hold(x, buf_len(&us->in) - n);
		us->active_ms = loop_now_ms(us->loop);
		exchange_response_data(x, buf_data(&us->in), n);
		buf_drop(&us->in, n);
	}
	if (buf_len(&us->in) == 0)
		buf_fini(&us->in);
	if (x != NULL && us->half.x == x && us->ended && buf_len(&us->in) == 0)
		exchange_response_end(x, true, us->trailer);
}

static void pump_deferred(void *arg)
{
	struct stream *us = arg;

	us->kicked = false;
	pump(us);
}

/* --- what the session tells ---------------------------------------------------------------------------------------- */

static void scrub_fields(struct exchange *x, struct http_fields *f)
{
	/* their octets are in the arena of the head */
	for (unsigned i = 0; i < f->n; i++) {
		exchange_scrub_head(x, (uint8_t *)(uintptr_t)f->f[i].name.p, f->f[i].name.n);
		exchange_scrub_head(x, (uint8_t *)(uintptr_t)f->f[i].value.p, f->f[i].value.n);
	}
}

static void on_response(void *arg, struct h2_stream *st, struct http_response *r, struct arena *a, bool end)
{
	struct stream *us = h2_stream_user(st);
	struct exchange *x = us->half.x;

	(void)arg;
	(void)a;
	us->active_ms = loop_now_ms(us->loop);
	scrub_fields(x, &r->fields);
	if (r->status >= 200) {
		us->head_done = true;
		us->u->h2->used = true;
		/* "content-length: 0" with more to come: trailers, which a client of HTTP/1.1 finds behind chunks only */
		if (!end && r->framing == HTTP_BODY_LENGTH && r->content_length == 0)
			r->framing = HTTP_BODY_CHUNKED;
	}
	exchange_response_head(x, r);
}

static void on_data(void *arg, struct h2_stream *st, const uint8_t *p, size_t n)
{
	struct stream *us = h2_stream_user(st);
	struct exchange *x = us->half.x;

	(void)arg;
	us->active_ms = loop_now_ms(us->loop);
	if (buf_len(&us->in) == 0 && !exchange_response_full(x)) {
		h2_consumed(st, n);
		exchange_response_data(x, (uint8_t *)(uintptr_t)p, n); /* it lies in our own input queue */
		return;
	}
	buf_add(&us->in, p, n);
	exchange_hold(x, buf_len(&us->in));
}

static void on_trailers(void *arg, struct h2_stream *st, struct http_fields *f, struct arena *a)
{
	struct stream *us = h2_stream_user(st);

	(void)arg;
	if (!exchange_wants_trailer(us->half.x))
		return;
	arena_move(&us->arena, a);
	us->trailer = arena_alloc(&us->arena, sizeof(*us->trailer));
	*us->trailer = *f;
	scrub_fields(us->half.x, us->trailer);
}

static void on_end(void *arg, struct h2_stream *st)
{
	struct stream *us = h2_stream_user(st);

	(void)arg;
	us->ended = true;
	pump(us);
}

static void on_broken(void *arg, struct h2_stream *st, const struct http_fault *f)
{
	(void)arg;
	lost(h2_stream_user(st), REFUSAL_UPSTREAM_PROTOCOL, f->reason, H2_PROTOCOL_ERROR, false, true);
}

static const char *code_name(uint32_t code)
{
	static const char *const names[] = { "NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT", "STREAM_CLOSED", "FRAME_SIZE_ERROR", "REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR", "CONNECT_ERROR", "ENHANCE_YOUR_CALM", "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED" };

	return code < sizeof(names) / sizeof(names[0]) ? names[code] : "an unknown code";
}

static void on_reset(void *arg, struct h2_stream *st, uint32_t code, bool unprocessed)
{
	struct upstream *u = arg;
	struct stream *us = h2_stream_user(st);
	bool gone = !u->h2->fault[0] && (u->c.eof || u->c.failed) && !h2_in_head(u->h2->s);
	char cause[120];

	us->st = NULL;
	if (us->ended)
		return; /* whole; what waits for the client is here */
	if (u->h2->fault[0])
		snprintf(cause, sizeof(cause), "the upstream broke the rules of HTTP/2 (%s)", u->h2->fault);
	else if (u->c.eof || u->c.failed)
		snprintf(cause, sizeof(cause), us->head_done ? "the upstream closed the connection in the middle of the response" : "the upstream closed the connection before it answered");
	else
		snprintf(cause, sizeof(cause), "the upstream reset the stream (%s)", code_name(code));
	if (code == H2_HTTP_1_1_REQUIRED && !us->head_done) { /* RFC 9113 7: not looked at either */
		upstream_h1_required(u);
		unprocessed = true;
	}
	lost(us, REFUSAL_UPSTREAM_PROTOCOL, cause, code, unprocessed, !gone);
}

static void on_writable(void *arg, struct h2_stream *st)
{
	struct stream *us = h2_stream_user(st);

	(void)arg;
	us->active_ms = loop_now_ms(us->loop);
	exchange_upstream_drained(us->half.x);
}

static void on_settings(void *arg) { ((struct upstream *)arg)->h2->settings = true; }

static void on_goaway(void *arg, uint32_t code)
{
	(void)arg;
	(void)code;
}

static void on_fault(void *arg, const struct http_fault *f)
{
	struct upstream *u = arg;

	snprintf(u->h2->fault, sizeof(u->h2->fault), "%s", f->reason);
}

static const struct h2_events events = { .response = on_response, .data = on_data, .trailers = on_trailers, .end = on_end, .broken = on_broken, .reset = on_reset, .writable = on_writable, .settings = on_settings, .goaway = on_goaway, .fault = on_fault };

/* --- the half's side of the interface ------------------------------------------------------------------------------ */

static void half_head(struct upstream_half *h, const struct http_request *r, struct str host, struct str target, enum http_framing framing, uint64_t length)
{
	struct stream *us = of(h);

	us->tunnel = r->upgrade_websocket;
	us->sent_end = (framing == HTTP_BODY_NONE && !us->tunnel) || (framing == HTTP_BODY_LENGTH && length == 0);
	us->st = h2_submit(us->u->h2->s, r, STR("https"), host, target, framing, length, us->sent_end, us);
	output(us->u);
}

static void half_data(struct upstream_half *h, const uint8_t *p, size_t n)
{
	struct stream *us = of(h);

	if (us->st == NULL)
		return;
	us->active_ms = loop_now_ms(us->loop);
	h2_send_data(us->st, p, n);
	output(us->u);
}

static void half_end(struct upstream_half *h, const struct http_fields *trailer)
{
	struct stream *us = of(h);

	if (us->st == NULL || us->sent_end)
		return;
	us->sent_end = true;
	us->active_ms = loop_now_ms(us->loop);
	if (trailer != NULL)
		h2_send_trailers(us->st, trailer);
	else
		h2_send_end(us->st);
	output(us->u);
}

static bool half_full(struct upstream_half *h)
{
	struct stream *us = of(h);

	return us->st != NULL && h2_full_at(us->st, us->u != NULL ? worker_out_high(us->u->w) : SIZE_MAX);
}

static void half_resume(struct upstream_half *h)
{
	struct stream *us = of(h);

	if (us->kicked || buf_len(&us->in) == 0)
		return;
	us->kicked = true;
	loop_defer(us->loop, pump_deferred, us);
}

static void half_leave(struct upstream_half *h, bool reusable)
{
	struct stream *us = of(h);

	(void)reusable; /* the stream is not; the connection is, whatever became of it */
	if (us->st != NULL && us->tunnel && us->head_done && !us->sent_end)
		h2_abort(us->st, H2_CANCEL); /* what was said last shall arrive */
	else if (us->st != NULL)
		h2_leave(us->st); /* an unfinished one is reset */
	us->st = NULL;
	output(us->u); /* and who waits for a stream gets one, see upstream_h2 */
	drop(us);
}

static const struct upstream_half_ops half_ops = { half_head, half_data, half_end, half_full, half_resume, half_leave };

/* --- the connection ------------------------------------------------------------------------------------------------ */

void upstream_h2_start(struct upstream *u)
{
	struct h2_config c = { .client = true, .limits = h2_limits_default };

	u->h2 = must_calloc(1, sizeof(*u->h2));
	u->since_ms = loop_now_ms(u->w->loop);
	u->h2->s = h2_new(&c, &events, u, u->since_ms);
	conn_kick(&u->c); /* serves those who wait */
}

bool upstream_h2_may_open(const struct upstream *u) { return !u->c.closed && !u->c.failed && !u->c.write_failed && !u->c.eof && !u->c.rdhup && h2_may_open(u->h2->s); }

enum h2_websocket upstream_h2_websocket(const struct upstream *u)
{
	if (!u->h2->settings)
		return H2_WS_UNKNOWN;
	return h2_peer_websocket(u->h2->s) ? H2_WS_YES : H2_WS_NO;
}

void upstream_h2_give(struct upstream *u, struct exchange *x)
{
	struct stream *us = must_calloc(1, sizeof(*us));

	us->half.ops = &half_ops;
	us->half.reused = u->h2->used;
	us->u = u;
	us->loop = u->w->loop;
	us->active_ms = loop_now_ms(us->loop);
	us->next = u->h2->first;
	if (us->next != NULL)
		us->next->prev = us;
	u->h2->first = us;
	exchange_upstream_ready(x, &us->half, &u->facts);
}

static void over(struct upstream *u)
{
	struct upstream_h2 *h = u->h2;
	bool known = h->settings_told;

	h2_lost(h->s);
	while (h->first != NULL) { /* those that the session had forgotten: they have what they need */
		MUST(h->first->st == NULL);
		detach(h->first);
	}
	u->h2 = NULL;
	h2_free(h->s);
	free(h);
	conn_close(&u->c);
	upstream_h2_over(u, known);
}

void upstream_h2(struct upstream *u)
{
	struct upstream_h2 *h = u->h2;
	struct exchange *x;
	bool alive;

	while (upstream_h2_may_open(u) && (x = upstream_next_waiting(u)) != NULL)
		upstream_h2_give(u, x);
	h->in_turn = true;
	alive = h2conn_turn(&u->c, h->s);
	h->in_turn = false;
	conn_hold(&u->c, (ptrdiff_t)h2_queued(h->s) - (ptrdiff_t)h->queued);
	h->queued = h2_queued(h->s);
	if (!alive) {
		over(u);
		return;
	}
	if (h->settings && !h->settings_told) {
		h->settings_told = true;
		upstream_h2_known(u);
	}
	while (upstream_h2_may_open(u) && (x = upstream_next_waiting(u)) != NULL)
		upstream_h2_give(u, x);
}

void upstream_h2_sweep(struct upstream *u, uint64_t now, bool old)
{
	struct upstream_h2 *h = u->h2;

	for (struct stream *us = h->first, *next; us != NULL; us = next) {
		const char *cause = NULL;

		next = us->next;
		if (us->half.x == NULL || us->st == NULL)
			continue;
		if (!h2_stream_opened(us->st) && now - us->active_ms > LIMIT_WAIT_MS)
			cause = "the upstream allows no request on its connection";
		else if (buf_len(&us->in) == 0 && now - us->active_ms > exchange_idle_ms(us->half.x, LIMIT_IDLE_MS))
			cause = "the upstream sent nothing for too long";
		if (cause == NULL)
			continue;
		h2_reset(us->st, H2_CANCEL);
		lost(us, REFUSAL_UPSTREAM_TIMEOUT, cause, H2_NO_ERROR, false, true);
	}
	h2_reap(h->s, now);
	h2conn_sweep(&u->c, h->s, now, &h->trimmed);
	if (!h2_in_head(h->s)) {
		h->head_ms = 0;
	} else if (h->head_ms == 0) {
		h->head_ms = now;
	} else if (now - h->head_ms > LIMIT_HEAD_MS) { /* K15 */
		snprintf(h->fault, sizeof(h->fault), "%s", "head_timeout");
		over(u);
		return;
	}
	if (h->first == NULL && h2_streams(h->s) == 0 && (old || now - u->since_ms > LIMIT_POOL_IDLE_MS))
		h2_shutdown(h->s);
	output(u);
}
