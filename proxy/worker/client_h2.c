/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/2 toward the sandbox: one session, and for each stream an exchange with a client half of its own.
 *
 * A stream here is there as long as one of two others knows it: the session (st) or the exchange (x). Content that the
 * exchange does not take waits in `in`; its octets are given back to the peer's window when they have gone on, so `in` never
 * holds more than the window. A stream whose record cannot be begun, because audit is behind, waits unstarted; what was begun
 * goes on, for which the connection must be read.
 */
#include <stdio.h>
#include <stdlib.h>

#include "../../common/base/must.h"
#include "client.h"
#include "h2conn.h"

#define PIECE 16384
#define STREAM_COST 20480 /* in the account of memory: exchange, arena and what the session keeps */

struct stream {
	struct client_half half;
	struct stream *prev, *next;
	struct client *cl;
	struct h2_stream *st; /* NULL: the session has forgotten it */
	struct exchange *x;   /* NULL: over */
	bool waits;	      /* to be started */
	bool is_head;
	bool ended;    /* the request is whole, what of it is not in `in` was told */
	bool sent_end; /* ours */
	bool kicked;
	struct buf in;
	struct arena arena; /* of trailer */
	struct http_fields *trailer;
	uint64_t active_ms;
};
struct client_h2 {
	struct h2 *s;
	struct stream *first, *last; /* in order of arrival */
	unsigned waiting;
	bool in_turn;	  /* output is taken at its end */
	size_t queued;	  /* of the session, as the connection was told */
	uint64_t head_ms; /* since when a head is unfinished, as the sweep saw it; 0: none is */
	uint64_t trimmed; /* see h2conn_sweep */
};

static const struct client_half_ops half_ops;

static struct stream *of(struct client_half *h) { return (struct stream *)((char *)h - offsetof(struct stream, half)); }
static uint64_t now_ms(const struct client *cl) { return loop_now_ms(cl->w->loop); }

static void output(struct client *cl)
{
	if (cl->h2 != NULL && !cl->h2->in_turn)
		conn_kick(&cl->c);
}

/* --- streams ------------------------------------------------------------------------------------------------------- */

static void stream_free(void *arg)
{
	struct stream *cs = arg;

	buf_fini(&cs->in);
	arena_fini(&cs->arena);
	free(cs);
}

static void no_longer_waits(struct stream *cs)
{
	if (cs->waits)
		cs->cl->h2->waiting--;
	cs->waits = false;
}

/* When neither knows it any more. */
static void stream_release(struct stream *cs)
{
	struct client_h2 *h = cs->cl->h2;

	if (cs->st != NULL || cs->x != NULL)
		return;
	no_longer_waits(cs);
	conn_hold(&cs->cl->c, -(ptrdiff_t)(STREAM_COST + buf_len(&cs->in)));
	*(cs->prev != NULL ? &cs->prev->next : &h->first) = cs->next;
	*(cs->next != NULL ? &cs->next->prev : &h->last) = cs->prev;
	loop_defer(cs->cl->w->loop, stream_free, cs); /* behind its own kick, and the calls that lead here */
}

/* The exchange of a request, which takes its head. */
static struct stream *stream_new(struct client *cl, struct h2_stream *st, const struct http_request *r, struct arena *a)
{
	struct stream *cs = must_calloc(1, sizeof(*cs));
	struct client_h2 *h = cl->h2;
	char id[33];

	cs->half.ops = &half_ops;
	cs->cl = cl;
	cs->st = st;
	cs->active_ms = now_ms(cl);
	cs->prev = h->last;
	*(h->last != NULL ? &h->last->next : &h->first) = cs;
	h->last = cs;
	conn_hold(&cl->c, STREAM_COST);
	if (st != NULL)
		h2_stream_set_user(st, cs);
	worker_request_id(cl->w, id);
	cs->x = worker_exchange_new(cl->w, &cs->half, &cl->ident, id);
	http_request_copy(&cs->x->req, r);
	arena_move(&cs->x->arena, a);
	cs->is_head = str_eq(r->method, STR("HEAD"));
	return cs;
}

/* The client took it back, or is gone. */
static void gone(struct stream *cs, const char *reason)
{
	struct exchange *x = cs->x;

	cs->st = NULL;
	cs->x = NULL;
	if (x != NULL) {
		conn_hold(&cs->cl->c, -(ptrdiff_t)x->held);
		if (x->reason[0] == 0)
			snprintf(x->reason, sizeof(x->reason), "%s", reason);
		exchange_client_gone(x);
	}
	stream_release(cs);
}

static void drop_in(struct stream *cs, size_t n)
{
	buf_drop(&cs->in, n);
	if (cs->st != NULL || cs->x != NULL) /* else it is off the account */
		conn_hold(&cs->cl->c, -(ptrdiff_t)n);
}

/* Hands content on, as far as it is wanted. */
static void pump(struct stream *cs)
{
	while (cs->x != NULL && !cs->waits && buf_len(&cs->in) > 0 && exchange_takes_data(cs->x)) {
		size_t n = buf_len(&cs->in) < PIECE ? buf_len(&cs->in) : PIECE;

		if (cs->st != NULL) {
			h2_consumed(cs->st, n);
			output(cs->cl);
		}
		exchange_request_data(cs->x, buf_data(&cs->in), n);
		drop_in(cs, n);
	}
	if (buf_len(&cs->in) == 0)
		buf_fini(&cs->in);
	if (cs->x != NULL && !cs->waits && cs->ended && buf_len(&cs->in) == 0 && exchange_takes_data(cs->x))
		exchange_request_end(cs->x, cs->trailer);
}

static void pump_deferred(void *arg)
{
	struct stream *cs = arg;

	cs->kicked = false;
	pump(cs);
}

/* --- what the session tells ---------------------------------------------------------------------------------------- */

static void on_request(void *arg, struct h2_stream *st, struct http_request *r, struct arena *a, bool end)
{
	struct client *cl = arg;
	struct stream *cs = stream_new(cl, st, r, a);

	(void)end; /* the request's framing tells */
	if (cl->h2->waiting > 0 || reporter_must_wait(cl->w->rep)) {
		cs->waits = true;
		cl->h2->waiting++;
		cl->awaits_slot = cl->w->slots_awaited = true;
		return;
	}
	exchange_start(cs->x);
}

static void on_malformed(void *arg, struct h2_stream *st, struct http_request *r, struct arena *a, const struct http_fault *f)
{
	struct stream *cs = stream_new(arg, f->status == 400 ? NULL : st, r, a);

	exchange_malformed(cs->x, f);
}

/* One stream too many, its head unread; the client knows that it may try again. It is a request all the same, and recorded (L01). */
static void on_refused(void *arg, uint32_t id)
{
	static const struct http_request unread = { .version = HTTP_V_2 };
	struct http_fault f = { 429, "limit_exceeded", "streams" };
	struct arena a = { 0 };
	struct stream *cs = stream_new(arg, NULL, &unread, &a);

	(void)id;
	exchange_malformed(cs->x, &f);
}

static void on_data(void *arg, struct h2_stream *st, const uint8_t *p, size_t n)
{
	struct stream *cs = h2_stream_user(st);

	(void)arg;
	cs->active_ms = now_ms(cs->cl);
	if (!cs->waits && buf_len(&cs->in) == 0 && exchange_takes_data(cs->x)) {
		h2_consumed(st, n);
		exchange_request_data(cs->x, p, n);
		return;
	}
	buf_add(&cs->in, p, n);
	conn_hold(&cs->cl->c, (ptrdiff_t)n);
}

static void on_trailers(void *arg, struct h2_stream *st, struct http_fields *f, struct arena *a)
{
	struct stream *cs = h2_stream_user(st);

	(void)arg;
	arena_move(&cs->arena, a);
	cs->trailer = arena_alloc(&cs->arena, sizeof(*cs->trailer));
	*cs->trailer = *f;
}

static void on_end(void *arg, struct h2_stream *st)
{
	struct stream *cs = h2_stream_user(st);

	(void)arg;
	cs->ended = true;
	pump(cs);
}

static void on_broken(void *arg, struct h2_stream *st, const struct http_fault *f)
{
	struct stream *cs = h2_stream_user(st);

	(void)arg;
	cs->st = NULL;
	no_longer_waits(cs);
	exchange_request_broken(cs->x, f);
}

static void on_reset(void *arg, struct h2_stream *st, uint32_t code, bool unprocessed)
{
	struct client *cl = arg;

	(void)code;
	(void)unprocessed;
	gone(h2_stream_user(st), cl->c.eof || cl->c.failed ? "the client closed the connection" : "the client cancelled the request");
}

static void on_writable(void *arg, struct h2_stream *st)
{
	struct stream *cs = h2_stream_user(st);

	(void)arg;
	cs->active_ms = now_ms(cs->cl);
	exchange_client_drained(cs->x);
}

static void on_settings(void *arg) { (void)arg; }

static void on_goaway(void *arg, uint32_t code)
{
	(void)arg;
	(void)code;
}

static void on_fault(void *arg, const struct http_fault *f)
{
	struct client *cl = arg;

	cl->code = REFUSAL_MALFORMED_REQUEST;
	cl->reason = f->reason;
	cl->record_due = true;
}

static const struct h2_events events = { .request = on_request, .malformed = on_malformed, .refused = on_refused, .data = on_data, .trailers = on_trailers, .end = on_end, .broken = on_broken, .reset = on_reset, .writable = on_writable, .settings = on_settings, .goaway = on_goaway, .fault = on_fault };

/* --- the half's side of the interface ------------------------------------------------------------------------------ */

static void half_head(struct client_half *h, const struct http_response *r, enum http_framing framing, uint64_t length)
{
	struct stream *cs = of(h);

	if (cs->st == NULL)
		return;
	cs->sent_end = cs->is_head || framing == HTTP_BODY_NONE || (framing == HTTP_BODY_LENGTH && length == 0);
	h2_send_response(cs->st, r, framing, length, cs->is_head, cs->sent_end);
	output(cs->cl);
}

static void half_data(struct client_half *h, const uint8_t *p, size_t n)
{
	struct stream *cs = of(h);

	if (cs->st == NULL || cs->sent_end)
		return;
	cs->active_ms = now_ms(cs->cl);
	h2_send_data(cs->st, p, n);
	output(cs->cl);
}

static void half_end(struct client_half *h, const struct http_fields *trailer)
{
	struct stream *cs = of(h);

	if (cs->st == NULL || cs->sent_end)
		return;
	cs->sent_end = true;
	if (trailer != NULL)
		h2_send_trailers(cs->st, trailer);
	else
		h2_send_end(cs->st);
	output(cs->cl);
}

static void half_interim(struct client_half *h, const struct http_response *r)
{
	struct http_response go_on;
	struct stream *cs = of(h);

	if (cs->st == NULL)
		return;
	if (r == NULL) {
		go_on.status = 100;
		go_on.fields.n = 0;
		r = &go_on;
	}
	h2_send_response(cs->st, r, HTTP_BODY_NONE, 0, false, false);
	output(cs->cl);
}

static void half_refuse(struct client_half *h, struct refusal *r)
{
	struct stream *cs = of(h);
	struct http_response head;
	struct arena a = { 0 };
	struct buf body = { 0 };

	refusal_answer(r, &a, &head, &body);
	half_head(h, &head, head.framing, head.content_length);
	half_data(h, buf_data(&body), buf_len(&body));
	half_end(h, NULL);
	r->is_head = cs->is_head;
	buf_fini(&body);
	arena_fini(&a);
}

static void half_reset(struct client_half *h, uint32_t code)
{
	struct stream *cs = of(h);

	if (cs->st == NULL)
		return;
	h2_abort(cs->st, code); /* what the upstream did send is seen */
	cs->st = NULL;
	output(cs->cl);
}

static bool half_full(struct client_half *h)
{
	struct stream *cs = of(h);

	return cs->st != NULL && h2_full_at(cs->st, worker_out_high(cs->cl->w) / 2); /* there may be a hundred on a connection */
}

static void half_resume(struct client_half *h)
{
	struct stream *cs = of(h);

	if (cs->kicked)
		return;
	cs->kicked = true;
	loop_defer(cs->cl->w->loop, pump_deferred, cs);
}

static void half_held(struct client_half *h, ptrdiff_t n) { conn_hold(&of(h)->cl->c, n); }

static void half_done(struct client_half *h, bool reusable)
{
	struct stream *cs = of(h);

	(void)reusable;
	if (cs->x != NULL)
		conn_hold(&cs->cl->c, -(ptrdiff_t)cs->x->held);
	cs->x = NULL;
	if (cs->st != NULL) {
		h2_leave(cs->st); /* what is queued is still sent */
		cs->st = NULL;
		output(cs->cl);
	}
	stream_release(cs);
}

static const struct client_half_ops half_ops = { half_head, half_data, half_end, half_interim, half_refuse, half_reset, half_full, half_resume, half_held, half_done };

/* --- the connection ------------------------------------------------------------------------------------------------ */

void client_h2_start(struct client *cl)
{
	struct h2_config c = { .connect_protocol = true, .scheme = STR("https"), .limits = h2_limits_default };

	cl->h2 = must_calloc(1, sizeof(*cl->h2));
	cl->h2->s = h2_new(&c, &events, cl, now_ms(cl));
	client_set_state(cl, CL_H2);
}

void client_h2_gone(struct client *cl)
{
	struct client_h2 *h = cl->h2;

	h2_lost(h->s);
	while (h->first != NULL) /* those that the session had forgotten */
		gone(h->first, "the client closed the connection");
	conn_hold(&cl->c, -(ptrdiff_t)h->queued);
	cl->h2 = NULL;
	h2_free(h->s);
	free(h);
}

static void start_waiting(struct client *cl)
{
	struct client_h2 *h = cl->h2;

	for (struct stream *cs = h->first, *next; cs != NULL && h->waiting > 0 && !reporter_must_wait(cl->w->rep); cs = next) {
		next = cs->next;
		if (!cs->waits)
			continue;
		no_longer_waits(cs);
		worker_exchange_refresh(cl->w, cs->x);
		exchange_start(cs->x);
		if (cs->x != NULL)
			half_resume(&cs->half);
	}
	cl->awaits_slot = h->waiting > 0;
	cl->w->slots_awaited = cl->w->slots_awaited || cl->awaits_slot;
}

void client_h2(struct client *cl)
{
	struct client_h2 *h = cl->h2;
	bool alive;

	h->in_turn = true;
	if (cl->awaits_slot)
		start_waiting(cl);
	alive = h2conn_turn(&cl->c, h->s);
	h->in_turn = false;
	conn_hold(&cl->c, (ptrdiff_t)h2_queued(h->s) - (ptrdiff_t)h->queued);
	h->queued = h2_queued(h->s);
	if (alive)
		return;
	if (cl->c.failed || cl->c.eof) {
		client_end(cl, cl->c.failed);
		return;
	}
	client_h2_gone(cl);
	client_linger(cl); /* GOAWAY shall arrive */
}

void client_h2_sweep(struct client *cl, uint64_t now)
{
	struct client_h2 *h = cl->h2;

	for (struct stream *cs = h->first, *next; cs != NULL; cs = next) {
		next = cs->next;
		if (cs->x == NULL || cs->waits)
			continue;
		exchange_tick(cs->x);
		if (cs->x == NULL || cs->st == NULL || cs->x->request_ended || now - cs->active_ms <= exchange_idle_ms(cs->x, LIMIT_IDLE_MS))
			continue;
		h2_reset(cs->st, H2_CANCEL);
		gone(cs, "the client sent nothing for too long");
	}
	h2_reap(h->s, now);
	h2conn_sweep(&cl->c, h->s, now, &h->trimmed);
	if (h2_in_head(h->s) && h->head_ms == 0) {
		h->head_ms = now;
	} else if (!h2_in_head(h->s)) {
		h->head_ms = 0;
	} else if (now - h->head_ms > LIMIT_HEAD_MS) { /* D11 */
		cl->code = REFUSAL_MALFORMED_REQUEST;
		cl->reason = "head_timeout";
		client_end(cl, false);
		return;
	}
	if (h->first == NULL && h2_streams(h->s) == 0 && now - cl->c.active_ms > LIMIT_IDLE_MS) {
		h2_shutdown(h->s);
		h2_shutdown(h->s);
	}
	output(cl); /* resets of the above, GOAWAY */
}
