/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1.1 toward the sandbox. While an exchange runs its request content is fed to it; pipelined requests wait in the
 * input queue until the response is complete.
 */
#include <stdio.h>

#include "../exchange/credential.h"
#include "client.h"

void client_connected(struct client *cl)
{
	cl->in_connect = true;
	cl->record_due = true;
	buf_addz(&cl->c.out, "HTTP/1.1 200 Connection established\r\n\r\n");
	conn_flush_now(&cl->c);
}

static void connect_request(struct client *cl, struct exchange *x)
{
	struct decision o;
	struct dest d;
	int found;
	char text[400];

	if (!cl->ident.explicit_proxy || cl->ident.known) {
		exchange_start(x); /* refuses it */
		return;
	}
	x->request_ended = true;
	if (x->req.framing != HTTP_BODY_NONE || x->req.expect_continue) {
		struct http_fault f = { 400, "malformed_request", "connect_content" };

		exchange_malformed(x, &f);
		return;
	}
	if (!exchange_identify(x))
		return;
	if (!reporter_ok(cl->w->rep)) {
		enum refusal_code why;

		worker_exchange_host.begin(cl->w, x, &why); /* a slot, if there is one: the record may have to outlive us */
		exchange_refuse(x, REFUSAL_AUDIT_UNAVAILABLE, "requests cannot be recorded at the moment, so none is let through");
		return;
	}
	x->client_must_close = true; /* RFC 9931: nothing more is parsed after a refused CONNECT */
	if (!credential_trip(x))
		return;
	x->client_must_close = false;
	if (decide_tunnel(cl->w->table, SCHEME_TCP, str_mk(x->chost.text, x->chost.len), x->port, x->start_ms / 1000, &d, &o)) {
		cl->ident.known = true;
		cl->ident.host = x->chost;
		cl->ident.port = x->port;
		cl->ident.scheme = SCHEME_TCP;
		tunnel_start(cl, SCHEME_TCP, &d, &o); /* the answer says whether it could be reached */
		return;
	}
	found = table_find(cl->w->table, SCHEME_HTTPS, str_mk(x->chost.text, x->chost.len), x->port, &d);
	if (found == 0 && (x->port == 80 || x->port != 443))
		found = table_find(cl->w->table, SCHEME_HTTP, str_mk(x->chost.text, x->chost.len), x->port, &d);
	if (found < 0) {
		exchange_refuse(x, REFUSAL_NO_POLICY, "the policy in force could not be read");
		return;
	}
	if (found == 0 && !cl->w->explain_denials) {
		snprintf(text, sizeof(text), "no destination of this sandbox's policy is %s on port %u", x->chost.text, x->port);
		x->client_must_close = true;
		exchange_refuse(x, REFUSAL_DESTINATION_DENIED, text);
		return;
	}
	cl->dest_known = found == 1;
	cl->ident.known = true;
	cl->ident.host = x->chost;
	cl->ident.port = x->port;
	cl->ident.scheme = SCHEME_HTTPS;
	cl->x = NULL;
	if (!cl->dest_known || !d.tunnel)
		tls_want_leaf(cl->w->tls, str_mk(x->chost.text, x->chost.len), !cl->dest_known);
	exchange_discard(x);
	client_connected(cl);
	client_set_state(cl, CL_SNIFF);
	client_sniff(cl);
}

/* Reads one head. False: wait, or the connection is over. */
static bool next_request(struct client *cl)
{
	struct conn *c = &cl->c;
	struct http_fault f;
	struct exchange *x;
	char id[33];
	uint8_t *head;
	long n;

	if (!cl->crlf_skipped && cl->scan == 0) {
		int k = h1_skip_crlf(buf_data(&c->in), buf_len(&c->in));

		if (k < 0)
			return false;
		if (k > 0) {
			buf_drop(&c->in, (size_t)k);
			cl->crlf_skipped = true;
		}
	}
	if (buf_len(&c->in) == 0)
		return false;
	/* audit is behind, not gone: the head waits where it is, as with any slow peer */
	cl->awaits_slot = reporter_must_wait(cl->w->rep);
	if (cl->awaits_slot) {
		cl->w->slots_awaited = true;
		return false;
	}
	n = h1_head_end(buf_data(&c->in), buf_len(&c->in), &cl->scan, &h1_limits_default, &f);
	if (n == 0)
		return false;
	worker_request_id(cl->w, id);
	x = worker_exchange_new(cl->w, &cl->half, &cl->ident, id);
	cl->x = x;
	cl->scan = 0;
	cl->head_ms = 0;
	cl->crlf_skipped = false;
	cl->keep = cl->chunked = cl->is_head = cl->body_left = cl->switched = false;
	if (n < 0) {
		exchange_malformed(x, &f);
		return false;
	}
	head = arena_alloc(&x->arena, (size_t)n);
	memcpy(head, buf_data(&c->in), (size_t)n);
	buf_drop(&c->in, (size_t)n);
	if (!h1_parse_request(head, (size_t)n, &h1_limits_default, &x->arena, &x->req, &f)) {
		exchange_malformed(x, &f);
		return false;
	}
	cl->keep = x->req.keep_alive;
	cl->is_head = str_eq(x->req.method, STR("HEAD"));
	if (x->req.form == HTTP_TARGET_AUTHORITY) {
		connect_request(cl, x);
		return cl->state == CL_HTTP && !c->closed;
	}
	if (x->req.framing != HTTP_BODY_NONE) {
		cl->body_left = true;
		h1_body_init(&cl->body, x->req.framing, x->req.content_length);
		cl->body.gather = true;
		/* "Content-Length: 0" has no content to wait for */
		if (x->req.framing == HTTP_BODY_LENGTH && x->req.content_length == 0)
			cl->body_left = false;
	}
	exchange_start(x);
	if (cl->x == x && !cl->body_left)
		exchange_request_end(x, NULL);
	return true;
}

/* Feeds request content. False: wait. */
static bool feed(struct client *cl)
{
	struct conn *c = &cl->c;
	struct http_fault f;
	const uint8_t *data;
	size_t len;
	long n;

	if (!exchange_takes_data(cl->x)) {
		c->paused = true;
		return false;
	}
	if (buf_len(&c->in) == 0)
		return false;
	n = h1_body_feed(&cl->body, buf_data(&c->in), buf_len(&c->in), &data, &len, &f);
	if (n < 0) {
		exchange_request_broken(cl->x, &f);
		return false;
	}
	if (len > 0)
		exchange_request_data(cl->x, data, len);
	buf_drop(&c->in, (size_t)n);
	if (cl->body.done) {
		cl->body_left = false;
		if (cl->x != NULL)
			exchange_request_end(cl->x, NULL);
		return true;
	}
	return n > 0;
}

/* Half a head, and no more of it: an unreadable request, answered and recorded as one. */
static void unfinished_head(struct client *cl, const char *reason)
{
	struct http_fault f = { 400, "malformed_request", reason };
	char id[33];

	worker_request_id(cl->w, id);
	cl->x = worker_exchange_new(cl->w, &cl->half, &cl->ident, id);
	exchange_malformed(cl->x, &f);
}

void client_h1(struct client *cl)
{
	struct conn *c = &cl->c;

	for (;;) {
		conn_fill(c);
		while (!c->closed && cl->state == CL_HTTP) {
			if (cl->x != NULL) {
				if (!cl->body_left || !feed(cl))
					break;
			} else if (buf_len(&c->in) == 0 || !next_request(cl)) {
				break;
			}
		}
		if (c->closed || cl->state != CL_HTTP)
			return;
		if (c->paused || c->eof || c->failed || cl->x != NULL || !c->more)
			break;
		if (buf_len(&c->in) >= CONN_IN_MAX)
			break;
	}
	if (cl->x != NULL && cl->body_left && !c->paused && !c->eof && !c->failed && c->more) {
		conn_yield(c); /* more content is there: others get their turn first */
		return;
	}
	if (cl->switched && cl->x != NULL && c->eof_clean && !c->failed) {
		if (cl->body_left && !c->paused) { /* it says no more; what it is told still arrives */
			cl->body_left = false;
			exchange_request_end(cl->x, NULL);
		}
	} else if (c->failed || c->eof) {
		if (cl->x == NULL && cl->awaits_slot && !c->failed)
			return; /* served, or found gone, when there is a slot */
		if (cl->x == NULL && buf_len(&c->in) > 0 && c->eof_clean && !c->failed) {
			unfinished_head(cl, "truncated");
			return;
		}
		if (c->paused && !c->failed)
			return; /* unread content is still to be forwarded */
		client_end(cl, c->failed);
		return;
	}
	if (cl->x != NULL && buf_len(&c->out) <= CONN_OUT_LOW)
		exchange_client_drained(cl->x);
}

/* --- the half's side of the interface ------------------------------------------------------------------------------ */

static struct client *of(struct client_half *h) { return (struct client *)((char *)h - offsetof(struct client, half)); }

static void half_head(struct client_half *h, const struct http_response *r, enum http_framing framing, uint64_t length)
{
	struct client *cl = of(h);

	cl->chunked = framing == HTTP_BODY_CHUNKED && !cl->is_head;
	if (r->status == 101) {
		cl->switched = cl->body_left = true;
		cl->keep = false;
		h1_body_init(&cl->body, HTTP_BODY_CLOSE, 0);
	}
	h1_write_response(&cl->c.out, r, framing, length, r->keep_alive, cl->is_head);
	conn_flush_later(&cl->c);
}

static void half_data(struct client_half *h, const uint8_t *p, size_t n)
{
	struct client *cl = of(h);
	char line[20];

	if (n == 0 || cl->is_head)
		return;
	if (!cl->chunked) {
		conn_send(&cl->c, p, n);
		return;
	}
	buf_add(&cl->c.out, line, h1_chunk_line(line, n));
	buf_add(&cl->c.out, p, n);
	buf_addz(&cl->c.out, "\r\n");
	conn_flush_later(&cl->c);
}

static void half_end(struct client_half *h, const struct http_fields *trailer)
{
	struct client *cl = of(h);

	if (cl->chunked)
		h1_write_last_chunk(&cl->c.out, trailer);
	conn_flush_later(&cl->c);
}

static void half_interim(struct client_half *h, const struct http_response *r)
{
	if (r != NULL)
		return; /* 102, 103: a proxy may drop them (RFC 9110 15.2), and many clients of HTTP/1.1 take them for the answer (UA01) */
	buf_addz(&of(h)->c.out, "HTTP/1.1 100 Continue\r\n\r\n");
	conn_flush_later(&of(h)->c);
}

static void half_refuse(struct client_half *h, struct refusal *r)
{
	struct client *cl = of(h);

	r->is_head = cl->is_head;
	refusal_write_h1(&cl->c.out, r);
	conn_flush_later(&cl->c);
}

static void half_reset(struct client_half *h, uint32_t code)
{
	struct client *cl = of(h);

	(void)code;
	cl->x = NULL;
	conn_flush_now(&cl->c); /* what the upstream did send */
	client_end(cl, true);
}

static bool half_full(struct client_half *h) { return conn_full(&of(h)->c, worker_out_high(of(h)->w)); }

static void half_resume(struct client_half *h)
{
	struct client *cl = of(h);

	cl->c.paused = false;
	conn_kick(&cl->c);
}

static void half_held(struct client_half *h, ptrdiff_t n) { conn_hold(&of(h)->c, n); }

static void half_done(struct client_half *h, bool reusable)
{
	struct client *cl = of(h);

	if (cl->x != NULL)
		conn_hold(&cl->c, -(ptrdiff_t)cl->x->held);
	cl->x = NULL;
	if (cl->c.closed)
		return;
	cl->c.paused = false;
	cl->state_ms = loop_now_ms(cl->w->loop);
	if (!reusable || !cl->keep || cl->body_left)
		client_linger(cl);
	else
		conn_kick(&cl->c); /* a pipelined request may wait */
}

const struct client_half_ops client_h1_ops = { half_head, half_data, half_end, half_interim, half_refuse, half_reset, half_full, half_resume, half_held, half_done };

void client_h1_sweep(struct client *cl, uint64_t now)
{
	struct conn *c = &cl->c;

	if (cl->x != NULL)
		exchange_tick(cl->x);
	if (c->closed || cl->state != CL_HTTP)
		return;
	if (cl->x != NULL || cl->awaits_slot || buf_len(&c->in) == 0)
		cl->head_ms = 0;
	else if (cl->head_ms == 0)
		cl->head_ms = now;
	else if (now - cl->head_ms > LIMIT_HEAD_MS)
		unfinished_head(cl, "head_timeout");
	if (c->closed || cl->state != CL_HTTP)
		return;
	if (now - c->active_ms > exchange_idle_ms(cl->x, LIMIT_IDLE_MS) && (cl->x == NULL || buf_len(&c->out) > 0 || cl->body_left))
		client_end(cl, false);
}
