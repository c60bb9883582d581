/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Upstream connections. An origin is what a connection may be shared for: scheme, host, port and destination of one
 * generation of the policy, within one sandbox (there is one worker for each). The dialer hands connected sockets over;
 * TLS is verified before a connection may carry a request; idle connections wait in the origin's pool, newest first.
 *
 *   DIALING -> HANDSHAKE -> BUSY <-> IDLE        (any) -> closed
 *
 * An upstream object without a socket exists only in DIALING. Octets that come while IDLE close the connection (K02).
 */
#include <errno.h>
#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../../common/base/must.h"
#include "../../common/sys/clock.h"
#include "verify.h"
#include "worker.h"

#define ORIGIN_BUCKETS 256

enum up_state { UP_DIALING = 0, UP_HANDSHAKE, UP_IDLE, UP_BUSY };
struct upstream {
	struct conn c; /* first: conn callbacks cast */
	struct upstream_half half;
	struct worker *w;
	struct origin *origin;
	enum up_state state;
	struct upstream *next_dialing, **prev_dialing; /* while it has no socket */
	uint64_t since_ms, since_us;
	struct upstream *next_idle;  /* pool, newest first */
	uint64_t dial_id;
	struct upstream_facts facts;
	/* request being written */
	enum http_framing req_framing;
	/* response being read */
	bool head_done, in_body, request_done;
	size_t scan;
	uint64_t head_ms; /* since when a response head is unfinished, as the sweep saw it; 0: none is */
	struct h1_body body;
	struct buf trailer; /* of the response, while the client asked for one */
	bool resp_keep;
};
struct waiting {
	struct waiting *next;
	struct exchange *x;
};
struct origin {
	struct origin *next;
	uint64_t hash;
	enum scheme scheme;
	uint16_t port;
	uint32_t dest_index;
	struct dest dest;
	struct canon_host host;
	struct upstream *idle;
	size_t idle_n;
	struct waiting *wait, **wait_tail;
	size_t wait_n, dials; /* exchanges that wait; connections on their way to being ready */
	SSL_SESSION *session; /* newest ticket; used once */
};
struct upstreams {
	struct worker *w;
	struct origin *buckets[ORIGIN_BUCKETS];
	struct upstream *dialing;
};

static void process(struct conn *c);
static void free_conn(struct conn *c);
static const struct conn_ops conn_ops = { process, free_conn };
static const struct upstream_half_ops half_ops;

struct upstreams *upstreams_new(struct worker *w)
{
	struct upstreams *u = must_calloc(1, sizeof(*u));

	u->w = w;
	return u;
}

static struct origin *origin_of(struct upstreams *u, const struct upstream_want *want)
{
	uint64_t h = hash_bytes(want->host.p, want->host.n) ^ ((uint64_t)want->port << 8 | want->scheme);
	struct origin *o, **b = &u->buckets[h % ORIGIN_BUCKETS];

	for (o = *b; o != NULL; o = o->next)
		if (o->hash == h && o->port == want->port && o->scheme == want->scheme && o->dest_index == want->dest->index && str_eq(str_of(o->host.text), want->host))
			return o;
	o = must_calloc(1, sizeof(*o));
	o->hash = h;
	o->port = want->port;
	o->scheme = want->scheme;
	o->dest = *want->dest;
	o->dest_index = want->dest->index;
	MUST(want->host.n <= CANON_HOST_MAX);
	memcpy(o->host.text, want->host.p, want->host.n);
	o->host.len = (uint8_t)want->host.n;
	if (!ip_parse(want->host, &o->host.ip))
		o->host.ip.family = 0;
	o->wait_tail = &o->wait;
	o->next = *b;
	*b = o;
	return o;
}

void upstreams_new_session(void *origin, SSL_SESSION *s)
{
	struct origin *o = origin;

	SSL_SESSION_free(o->session);
	o->session = s;
}

static struct exchange *next_waiting(struct origin *o)
{
	struct waiting *wt = o->wait;
	struct exchange *x;

	if (wt == NULL)
		return NULL;
	x = wt->x;
	o->wait = wt->next;
	if (o->wait == NULL)
		o->wait_tail = &o->wait;
	o->wait_n--;
	free(wt);
	return x;
}

static void give(struct upstream *u, struct exchange *x, bool reused)
{
	u->state = UP_BUSY;
	u->head_done = u->in_body = u->request_done = false;
	u->scan = 0;
	u->head_ms = 0;
	u->half.reused = reused;
	u->c.paused = false;
	exchange_upstream_ready(x, &u->half, &u->facts);
}

/* Fresh, verified, or free again: to the exchange that waits longest, else into the pool. */
static void to_pool(struct upstream *u, bool reused)
{
	struct origin *o = u->origin;
	struct exchange *x = next_waiting(o);

	u->half.x = NULL;
	if (x != NULL) {
		give(u, x, reused);
		return;
	}
	if (o->idle_n >= LIMIT_POOL_PER_ORIGIN) {
		conn_close(&u->c);
		return;
	}
	u->state = UP_IDLE;
	u->since_ms = loop_now_ms(u->w->loop);
	u->c.paused = false;
	u->next_idle = o->idle;
	o->idle = u;
	o->idle_n++;
}

/* Connected, and verified: it may carry requests. */
static void ready(struct upstream *u)
{
	u->origin->dials--;
	to_pool(u, false);
}

static void unlink_idle(struct upstream *u)
{
	struct origin *o = u->origin;

	for (struct upstream **p = &o->idle; *p != NULL; p = &(*p)->next_idle) {
		if (*p != u)
			continue;
		*p = u->next_idle;
		o->idle_n--;
		return;
	}
}

/*
 * A connection did not come about. Who waits is not told which one is for whom: one of them fails if there are no longer
 * enough on their way, and nobody does for the connection of an exchange that has ended meanwhile.
 */
static void dial_failed(struct origin *o, enum refusal_code code, const char *cause)
{
	o->dials--;
	if (o->wait_n > o->dials)
		exchange_upstream_failed(next_waiting(o), code, cause);
}

/* No longer under way: forgets its handle. */
static void undial(struct upstream *u)
{
	*u->prev_dialing = u->next_dialing;
	if (u->next_dialing != NULL)
		u->next_dialing->prev_dialing = u->prev_dialing;
	handle_free(&u->w->handles, u->dial_id);
}

static bool dial(struct upstreams *us, struct origin *o)
{
	struct msg_dial m = { .port = o->port, .scheme = (uint8_t)o->scheme };
	struct upstream *u = must_calloc(1, sizeof(*u));

	u->w = us->w;
	u->origin = o;
	u->half.ops = &half_ops;
	u->since_us = clock_mono_us();
	u->dial_id = handle_new(&us->w->handles, u);
	if (us->w->dialer == NULL || !ipc_send2(us->w->dialer, MSG_DIAL, us->w->generation, u->dial_id, &m, sizeof(m), o->host.text, o->host.len, NULL, 0)) {
		handle_free(&us->w->handles, u->dial_id);
		free(u);
		return false;
	}
	u->next_dialing = us->dialing;
	u->prev_dialing = &us->dialing;
	if (us->dialing != NULL)
		us->dialing->prev_dialing = &u->next_dialing;
	us->dialing = u;
	o->dials++;
	return true;
}

void upstreams_acquire(struct upstreams *us, struct exchange *x, const struct upstream_want *want)
{
	struct origin *o = origin_of(us, want);
	struct waiting *wt;

	while (!want->fresh && o->idle != NULL) {
		struct upstream *u = o->idle;

		unlink_idle(u);
		if (u->c.rdhup || u->c.eof || u->c.failed || buf_len(&u->c.in) > 0) {
			conn_close(&u->c);
			continue;
		}
		give(u, x, true);
		return;
	}
	wt = must_malloc(sizeof(*wt));
	wt->x = x;
	wt->next = NULL;
	*o->wait_tail = wt;
	o->wait_tail = &wt->next;
	o->wait_n++;
	if (!dial(us, o)) {
		upstreams_cancel(us, x);
		exchange_upstream_failed(x, REFUSAL_GATEWAY_UNAVAILABLE, "the role that connects is down");
	}
}

void upstreams_cancel(struct upstreams *us, struct exchange *x)
{
	for (unsigned i = 0; i < ORIGIN_BUCKETS; i++) {
		for (struct origin *o = us->buckets[i]; o != NULL; o = o->next) {
			for (struct waiting **p = &o->wait; *p != NULL; p = &(*p)->next) {
				struct waiting *wt = *p;

				if (wt->x != x)
					continue;
				*p = wt->next;
				if (*p == NULL)
					o->wait_tail = p;
				o->wait_n--;
				free(wt);
				return;
			}
		}
	}
}

static void connect_failed(struct upstream *u, enum refusal_code code, const char *cause)
{
	dial_failed(u->origin, code, cause);
	conn_close(&u->c);
}

static void handshake(struct upstream *u)
{
	int r = SSL_do_handshake(u->c.ssl), e;
	char cause[200];

	if (r == 1) {
		const char *wrong = verify_established(u->c.ssl, &u->origin->dest);

		if (wrong != NULL) {
			connect_failed(u, REFUSAL_UPSTREAM_TLS, wrong);
			return;
		}
		u->facts.tls_us = clock_mono_us() - u->since_us;
		tls_peer_facts(u->c.ssl, &u->facts);
		ready(u);
		return;
	}
	e = SSL_get_error(u->c.ssl, r);
	if ((e == SSL_ERROR_WANT_READ || e == SSL_ERROR_WANT_WRITE) && !(u->c.rdhup && e == SSL_ERROR_WANT_READ && !u->c.readable))
		return;
	snprintf(cause, sizeof(cause), "%s", verify_cause(u->c.ssl));
	ERR_clear_error();
	u->c.failed = true;
	connect_failed(u, REFUSAL_UPSTREAM_TLS, cause);
}

void upstreams_dialed(struct upstreams *us, const struct ipc_msg *m, int *fd_taken)
{
	static const enum refusal_code codes[] = {
		[DIAL_FAILED] = REFUSAL_UPSTREAM_UNREACHABLE, [DIAL_DENIED] = REFUSAL_DESTINATION_DENIED, [DIAL_ADDRESS_DENIED] = REFUSAL_ADDRESS_DENIED,
		[DIAL_DNS] = REFUSAL_DNS_FAILURE, [DIAL_UNREACHABLE] = REFUSAL_UPSTREAM_UNREACHABLE, [DIAL_TIMEOUT] = REFUSAL_UPSTREAM_TIMEOUT };
	const struct msg_dialed *d = (const void *)m->data;
	struct upstream *u = handle_get(&us->w->handles, m->id);
	struct ip ip = { .family = d->family };
	char cause[256];
	const char *why = "";
	SSL *ssl;

	if (u == NULL)
		return;
	undial(u);
	snprintf(cause, sizeof(cause), "%.*s", (int)(m->len - sizeof(*d)), (const char *)m->data + sizeof(*d));
	memcpy(ip.b, d->addr, 16);
	ip_format(&ip, u->facts.ip);
	u->facts.dns_us = d->dns_us;
	u->facts.connect_us = d->connect_us;
	if (d->status != DIAL_OK || m->fd_n != 1) {
		struct origin *o = u->origin;

		free(u);
		dial_failed(o, d->status < sizeof(codes) / sizeof(codes[0]) && d->status != DIAL_OK ? codes[d->status] : REFUSAL_UPSTREAM_UNREACHABLE, cause);
		return;
	}
	*fd_taken = 1;
	conn_init(&u->c, us->w->loop, m->fds[0], &conn_ops, &us->w->upstream_conns);
	u->c.reads_on = true; /* an answer that came before the connection was reset still counts */
	u->since_ms = loop_now_ms(us->w->loop);
	u->since_us = clock_mono_us();
	if (u->origin->scheme != SCHEME_HTTPS) {
		ready(u);
		return;
	}
	ssl = tls_upstream(us->w->tls, &u->origin->dest, &u->origin->host, u->origin, &why);
	if (ssl == NULL) {
		connect_failed(u, REFUSAL_UPSTREAM_TLS, why);
		return;
	}
	if (u->origin->session != NULL) {
		SSL_set_session(ssl, u->origin->session);
		SSL_SESSION_free(u->origin->session);
		u->origin->session = NULL;
	}
	conn_start_tls(&u->c, ssl);
	u->state = UP_HANDSHAKE;
	handshake(u);
}

void upstreams_dialer_lost(struct upstreams *us)
{
	/* dials in flight are answered by nobody */
	while (us->dialing != NULL) {
		struct upstream *u = us->dialing;

		undial(u);
		u->origin->dials--;
		free(u);
	}
	for (unsigned i = 0; i < ORIGIN_BUCKETS; i++)
		for (struct origin *o = us->buckets[i]; o != NULL; o = o->next)
			while (o->wait_n > o->dials)
				exchange_upstream_failed(next_waiting(o), REFUSAL_GATEWAY_UNAVAILABLE, "the role that connects went down");
}

static void free_conn(struct conn *c)
{
	buf_fini_secret(&((struct upstream *)c)->trailer);
	free(c);
}

/* It asked for a client certificate in the handshake (TLS 1.3 goes on without), and ended the connection instead of an answer. */
static bool wants_certificate(const struct upstream *u) { return !u->head_done && !u->half.reused && verify_wanted(u->c.ssl) != NULL; }

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
		exchange_upstream_lost(x, code, cause);
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
		u->body.response = true;
		buf_fini_secret(&u->trailer);
		u->body.trailer = x->req.te_trailers ? &u->trailer : NULL; /* I14: else dropped */
	}
	exchange_response_head(x, &r);
	if (u->half.x != x)
		return false; /* refused meanwhile */
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

static void process(struct conn *c)
{
	struct upstream *u = (struct upstream *)c;

	if (c->closed)
		return;
	if (u->state == UP_HANDSHAKE) {
		handshake(u);
		return;
	}
	for (;;) {
		uint64_t before = c->bytes_in;
		size_t had = buf_len(&c->in);

		conn_fill(c);
		if (u->state == UP_IDLE) {
			/* nothing may come here but the end, and TLS housekeeping */
			if (c->eof || c->failed || buf_len(&c->in) > 0 || c->rdhup) {
				unlink_idle(u);
				conn_close(c);
			}
			return;
		}
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
	if (u->req_framing == HTTP_BODY_CHUNKED)
		buf_add(&u->c.out, line, h1_chunk_line(line, n));
	buf_add(&u->c.out, p, n);
	if (u->req_framing == HTTP_BODY_CHUNKED)
		buf_addz(&u->c.out, "\r\n");
	conn_flush_later(&u->c);
}

static void half_end(struct upstream_half *h)
{
	struct upstream *u = of(h);

	u->request_done = true;
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
	if (reusable && !u->c.eof && !u->c.failed && buf_len(&u->c.out) == 0 && !u->head_done) {
		to_pool(u, u->half.reused); /* untouched: a credential expired meanwhile */
	} else if (reusable && !u->c.eof && !u->c.failed && buf_len(&u->c.out) == 0) {
		to_pool(u, true);
	} else {
		conn_abort(&u->c);
	}
}

static const struct upstream_half_ops half_ops = { half_head, half_data, half_end, half_full, half_resume, half_leave };

void upstreams_sweep(struct upstreams *us)
{
	uint64_t now = loop_now_ms(us->w->loop);

	for (struct conn *c = us->w->upstream_conns.head, *next; c != NULL; c = next) {
		struct upstream *u = (struct upstream *)c;

		next = c->next;
		conn_idle_trim(c);
		if (u->state == UP_IDLE && now - u->since_ms > LIMIT_POOL_IDLE_MS) {
			unlink_idle(u);
			conn_close(c);
		} else if (u->state == UP_HANDSHAKE && now - u->since_ms > LIMIT_HANDSHAKE_MS) {
			connect_failed(u, REFUSAL_UPSTREAM_TIMEOUT, "the upstream did not finish the TLS handshake in time");
		} else if (u->state == UP_BUSY && !u->head_done && u->head_ms != 0 && now - u->head_ms > LIMIT_HEAD_MS) {
			lost(u, REFUSAL_UPSTREAM_TIMEOUT, "the upstream did not finish its response head in time"); /* K15 */
		} else if (u->state == UP_BUSY && !c->paused && now - c->active_ms > exchange_idle_ms(u->half.x, LIMIT_IDLE_MS)) {
			lost(u, REFUSAL_UPSTREAM_TIMEOUT, "the upstream sent nothing for too long");
		} else if (u->state == UP_BUSY && !u->head_done && u->head_ms == 0 && buf_len(&c->in) > 0) {
			u->head_ms = now;
		}
	}
}
