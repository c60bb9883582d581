/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1.1 toward an upstream: one exchange at a time on a connection. */
#include "upstream.h"
#include "verify.h"

void upstream_h1_give(struct upstream *u, struct exchange *x, bool reused)
{
	u->state = UP_BUSY;
	u->head_done = u->in_body = u->request_done = false;
	u->scan = 0;
	u->head_ms = 0;
	u->tunnel = false;
	u->half.reused = reused;
	u->c.paused = false;
	exchange_upstream_ready(x, &u->half, &u->facts);
}

/* It asked for a client certificate in the handshake (TLS 1.3 goes on without), and ended the connection instead of an answer. */
static bool wants_certificate(const struct upstream *u) { return u->c.ssl != NULL && !u->head_done && !u->half.reused && verify_wanted(u->c.ssl) != NULL; }

static const char *lost_cause(const struct upstream *u)
{
	if (wants_certificate(u))
		return verify_wanted(u->c.ssl);
	if (u->head_done)
		return "the upstream closed the connection in the middle of the response";
	return u->half.reused ? "the upstream closed the idle connection as it was used" : "the upstream closed the connection before it answered";
}

static void lost(struct upstream *u, enum refusal_code code, const char *cause)
{
	struct exchange *x = u->half.x;

	u->half.x = NULL;
	u->half.answered = buf_len(&u->c.in) > 0;
	u->c.failed = true;
	conn_close(&u->c);
	if (x != NULL)
		exchange_upstream_lost(x, code, cause, false);
}

static void response_done(struct upstream *u)
{
	struct exchange *x = u->half.x;
	/* more octets than the response has: the next response cannot be told from them */
	bool reusable = u->resp_keep && u->request_done && buf_len(&u->c.in) == 0 && !u->c.eof;

	u->in_body = false;
	if (buf_len(&u->trailer) > 0) {
		struct http_fields *fields = arena_alloc(&x->arena, sizeof(*fields));
		struct http_fault f;

		exchange_scrub_head(x, buf_data(&u->trailer), buf_len(&u->trailer));
		if (!h1_parse_trailer(buf_data(&u->trailer), buf_len(&u->trailer), &h1_limits_default, fields, &f)) {
			lost(u, REFUSAL_UPSTREAM_PROTOCOL, f.reason);
			return;
		}
		exchange_response_end(x, reusable, fields);
		buf_fini_secret(&u->trailer); /* the fields borrow from it */
		return;
	}
	exchange_response_end(x, reusable, NULL);
}

/* True: go on; false: wait, or it is over. */
static bool read_head(struct upstream *u)
{
	struct http_fault f;
	struct http_response r;
	struct exchange *x = u->half.x;
	struct str method = x->req.method;
	uint8_t *head;
	long n = h1_head_end(buf_data(&u->c.in), buf_len(&u->c.in), &u->scan, &h1_limits_default, &f);

	if (n == 0)
		return false;
	if (n < 0) {
		lost(u, REFUSAL_UPSTREAM_PROTOCOL, f.reason);
		return false;
	}
	u->scan = 0;
	u->head_ms = 0;
	head = arena_alloc(&x->arena, (size_t)n);
	memcpy(head, buf_data(&u->c.in), (size_t)n);
	buf_drop(&u->c.in, (size_t)n);
	exchange_scrub_head(x, head, (size_t)n);
	if (!h1_parse_response(head, (size_t)n, &h1_limits_default, &x->arena, method, &r, &f)) {
		lost(u, REFUSAL_UPSTREAM_PROTOCOL, f.reason);
		return false;
	}
	if (r.status >= 200) {
		u->head_done = true;
		u->resp_keep = r.keep_alive && r.framing != HTTP_BODY_CLOSE;
		u->in_body = r.framing != HTTP_BODY_NONE;
		h1_body_init(&u->body, r.framing, r.content_length);
		u->body.response = u->body.gather = true;
		buf_fini_secret(&u->trailer);
		u->body.trailer = exchange_wants_trailer(x) ? &u->trailer : NULL; /* I14: else dropped */
	}
	exchange_response_head(x, &r);
	if (u->half.x != x)
		return false; /* refused meanwhile */
	if (r.status == 101) { /* the exchange took it: what follows is not HTTP */
		u->head_done = u->in_body = u->tunnel = true;
		u->resp_keep = false;
		h1_body_init(&u->body, HTTP_BODY_CLOSE, 0);
		return true;
	}
	if (u->head_done && !u->in_body) {
		response_done(u);
		return false;
	}
	if (u->head_done && u->body.framing == HTTP_BODY_LENGTH && r.content_length == 0) {
		response_done(u);
		return false;
	}
	return true;
}

static bool read_body(struct upstream *u)
{
	struct http_fault f;
	const uint8_t *data;
	size_t len;

	while (buf_len(&u->c.in) > 0 && !u->body.done) {
		long n;

		if (exchange_response_full(u->half.x)) {
			u->c.paused = true;
			return false;
		}
		n = h1_body_feed(&u->body, buf_data(&u->c.in), buf_len(&u->c.in), &data, &len, &f);
		if (n < 0) {
			lost(u, REFUSAL_UPSTREAM_PROTOCOL, f.reason);
			return false;
		}
		if (len > 0)
			exchange_response_data(u->half.x, (uint8_t *)(uintptr_t)data, len); /* it lies in our own input queue */
		if (u->half.x == NULL)
			return false;
		buf_drop(&u->c.in, (size_t)n);
		if (n == 0 && len == 0)
			break;
	}
	if (u->body.done) {
		response_done(u);
		return false;
	}
	return true;
}

void upstream_h1(struct upstream *u)
{
	struct conn *c = &u->c;

	for (;;) {
		uint64_t before = c->bytes_in;
		size_t had = buf_len(&c->in);

		conn_fill(c);
		if (u->state != UP_BUSY || u->half.x == NULL)
			return;
		while (u->state == UP_BUSY && u->half.x != NULL && !c->closed) {
			if (!u->head_done ? !read_head(u) : !read_body(u))
				break;
			if (u->head_done && buf_len(&c->in) == 0)
				break;
		}
		if (c->closed || u->state != UP_BUSY || u->half.x == NULL)
			return;
		if (c->paused || c->eof || c->failed)
			break;
		/* edge-triggered: stop only when the socket is drained, or nothing moved */
		if (!c->more)
			break;
		if (c->bytes_in == before && buf_len(&c->in) == had)
			break;
	}
	if (c->failed || (c->eof && !c->paused)) { /* failed: a write may be all that ever notices it */
		if (u->head_done && u->in_body && c->eof_clean && h1_body_eof(&u->body)) {
			u->resp_keep = false;
			response_done(u);
			return;
		}
		lost(u, wants_certificate(u) ? REFUSAL_UPSTREAM_TLS : REFUSAL_UPSTREAM_PROTOCOL, lost_cause(u));
		return;
	}
	/* the request's writer may go on */
	if (u->half.x != NULL && buf_len(&c->out) <= CONN_OUT_LOW)
		exchange_upstream_drained(u->half.x);
}

/* The half's side of the interface. */
static struct upstream *of(struct upstream_half *h) { return (struct upstream *)((char *)h - offsetof(struct upstream, half)); }

static void half_head(struct upstream_half *h, const struct http_request *r, struct str host, struct str target, enum http_framing framing, uint64_t length)
{
	struct upstream *u = of(h);

	u->req_framing = framing;
	h1_write_request(&u->c.out, r, host, target, framing, length);
	conn_flush_later(&u->c);
}

static void half_data(struct upstream_half *h, const uint8_t *p, size_t n)
{
	struct upstream *u = of(h);
	char line[20];

	if (n == 0)
		return;
	if (u->req_framing != HTTP_BODY_CHUNKED) {
		conn_send(&u->c, p, n);
		return;
	}
	buf_add(&u->c.out, line, h1_chunk_line(line, n));
	buf_add(&u->c.out, p, n);
	buf_addz(&u->c.out, "\r\n");
	conn_flush_later(&u->c);
}

static void half_end(struct upstream_half *h, const struct http_fields *trailer)
{
	struct upstream *u = of(h);

	(void)trailer; /* A22 */
	u->request_done = true;
	u->c.shut_after_flush = u->tunnel;
	if (u->req_framing == HTTP_BODY_CHUNKED)
		h1_write_last_chunk(&u->c.out, NULL);
	conn_flush_later(&u->c);
}

static bool half_full(struct upstream_half *h) { return conn_full(&of(h)->c, worker_out_high(of(h)->w)); }

static void half_resume(struct upstream_half *h)
{
	struct upstream *u = of(h);

	if (u->c.paused) {
		u->c.paused = false;
		conn_kick(&u->c);
	}
}

static void half_leave(struct upstream_half *h, bool reusable)
{
	struct upstream *u = of(h);

	if (u->c.closed)
		return;
	if (u->tunnel) { /* what was said last shall arrive */
		u->c.shut_after_flush = true;
		conn_flush_now(&u->c);
		conn_close(&u->c);
		return;
	}
	if (reusable && !u->c.eof && !u->c.failed && buf_len(&u->c.out) == 0 && !u->head_done) {
		upstream_free_again(u, u->half.reused); /* untouched: a credential expired meanwhile */
	} else if (reusable && !u->c.eof && !u->c.failed && buf_len(&u->c.out) == 0) {
		upstream_free_again(u, true);
	} else {
		conn_abort(&u->c);
	}
}

const struct upstream_half_ops upstream_h1_ops = { half_head, half_data, half_end, half_full, half_resume, half_leave };

void upstream_h1_sweep(struct upstream *u, uint64_t now)
{
	struct conn *c = &u->c;

	if (!u->head_done && u->head_ms != 0 && now - u->head_ms > LIMIT_HEAD_MS)
		lost(u, REFUSAL_UPSTREAM_TIMEOUT, "the upstream did not finish its response head in time"); /* K15 */
	else if (!c->paused && now - c->active_ms > exchange_idle_ms(u->half.x, LIMIT_IDLE_MS))
		lost(u, REFUSAL_UPSTREAM_TIMEOUT, "the upstream sent nothing for too long");
	else if (!u->head_done && u->head_ms == 0 && buf_len(&c->in) > 0)
		u->head_ms = now;
}
