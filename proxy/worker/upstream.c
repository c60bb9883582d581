/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Upstream connections. An origin is what a connection may be shared for: scheme, host, port, destination of one
 * generation of the policy and client certificate, within one sandbox (there is one worker for each). The dialer hands connected sockets over;
 * TLS is verified before a connection may carry a request; idle connections wait in the origin's pool, newest first.
 *
 *   DIALING -> HANDSHAKE -> BUSY <-> IDLE        (any) -> closed
 *                        -> H2
 *
 * An upstream object without a socket exists only in DIALING. Octets that come while IDLE close the connection (K02). An
 * HTTP/2 connection carries many exchanges; a further one is made when those there are take no more. While nobody knows
 * which version an origin speaks, few connections are made for however many wait: the first that is ready tells.
 */
#include <errno.h>
#include <openssl/async.h>
#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../../common/base/must.h"
#include "../../common/sys/clock.h"
#include "identity.h"
#include "remote_key.h"
#include "upstream.h"
#include "verify.h"

#define ORIGIN_BUCKETS 256

#define UNKNOWN_DIALS 4   /* toward an origin whose version is not known yet */
#define SETTINGS_MS 3000  /* for the SETTINGS of an HTTP/2 connection that a WebSocket waits for */
#define STREAMS_TYPICAL 100 /* that a new HTTP/2 connection is counted on for */

enum origin_speaks { SPEAKS_UNKNOWN = 0, SPEAKS_H1, SPEAKS_H2 }; /* when last asked */
struct waiting {
	struct waiting *next;
	uint64_t since_ms;
	struct exchange *x;
	bool websocket; /* not over HTTP/2 without RFC 8441 */
};
struct origin {
	struct origin *next;
	uint64_t hash, asked_ms; /* loop time when it was asked for last */
	enum scheme scheme;
	uint16_t port;
	uint32_t dest_index;
	struct policy_gen *policy; /* held: dest borrows from it */
	struct dest dest;
	struct canon_host host;
	enum origin_speaks speaks;
	bool h1_only; /* it said so, or h1_twin */
	bool h1_twin; /* the same origin once more, for WebSockets while its HTTP/2 has none */
	bool no_h2_websocket; /* when last asked */
	struct upstream *idle, *h2;
	size_t idle_n, h2_n;
	struct waiting *wait, **wait_tail;
	size_t wait_n, dials; /* exchanges that wait; connections on their way to being ready */
	size_t uses; /* upstream objects, in whatever state */
	size_t owed;          /* more that are to be made for them, see LIMIT_DIALS */
	SSL_SESSION *session; /* newest ticket; used once */
	struct identity *identity; /* shown to it, held; NULL: none */
};
struct upstreams {
	struct worker *w;
	struct origin *buckets[ORIGIN_BUCKETS];
	struct upstream *dialing;
	size_t origin_n, dialing_n;
	bool owes; /* to some origin */
};

static size_t on_sign(uint16_t scheme, const uint8_t *message, size_t n, uint8_t sig[REMOTE_SIGNATURE_MAX]);
static void process(struct conn *c);
static void free_conn(struct conn *c);
static const struct conn_ops conn_ops = { process, free_conn };

struct upstreams *upstreams_new(struct worker *w)
{
	struct upstreams *u = must_calloc(1, sizeof(*u));

	u->w = w;
	remote_key_signer(on_sign);
	return u;
}

static struct origin *origin_of(struct upstreams *u, const struct upstream_want *want, bool h1_twin, struct identity *identity)
{
	uint64_t h = hash_bytes(want->host.p, want->host.n) ^ ((uint64_t)want->port << 8 | want->scheme);
	struct origin *o, **b = &u->buckets[h % ORIGIN_BUCKETS];

	for (o = *b; o != NULL; o = o->next) {
		if (o->hash == h && o->port == want->port && o->scheme == want->scheme && o->dest.table == want->dest->table && o->dest_index == want->dest->index && o->h1_twin == h1_twin && identity_same(o->identity, identity) && str_eq(str_of(o->host.text), want->host)) {
			o->asked_ms = loop_now_ms(u->w->loop);
			return o;
		}
	}
	o = must_calloc(1, sizeof(*o));
	u->origin_n++;
	o->hash = h;
	o->asked_ms = loop_now_ms(u->w->loop);
	o->port = want->port;
	o->scheme = want->scheme;
	o->dest = *want->dest;
	o->policy = policy_hold(policy_of_table(u->w, o->dest.table));
	o->dest_index = want->dest->index;
	o->identity = identity_hold(identity);
	MUST(want->host.n <= CANON_HOST_MAX);
	memcpy(o->host.text, want->host.p, want->host.n);
	o->host.len = (uint8_t)want->host.n;
	if (!ip_parse(want->host, &o->host.ip))
		o->host.ip.family = 0;
	o->wait_tail = &o->wait;
	o->h1_twin = o->h1_only = h1_twin;
	o->speaks = o->scheme == SCHEME_HTTPS && !h1_twin ? SPEAKS_UNKNOWN : SPEAKS_H1;
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

/* Takes it off the queue. */
static struct exchange *take_waiting(struct origin *o, struct waiting **at)
{
	struct waiting *wt = *at;
	struct exchange *x = wt->x;

	*at = wt->next;
	if (*at == NULL)
		o->wait_tail = at;
	o->wait_n--;
	free(wt);
	return x;
}

static struct exchange *next_waiting(struct origin *o) { return o->wait != NULL ? take_waiting(o, &o->wait) : NULL; }

static void wait_for(struct origin *o, struct exchange *x, bool websocket, uint64_t since_ms)
{
	struct waiting *wt = must_malloc(sizeof(*wt));

	*wt = (struct waiting){ .x = x, .since_ms = since_ms, .websocket = websocket };
	*o->wait_tail = wt;
	o->wait_tail = &wt->next;
	o->wait_n++;
}

struct exchange *upstream_next_waiting(struct upstream *u)
{
	struct waiting **p = &u->origin->wait;

	if (u->h2 == NULL)
		return next_waiting(u->origin);
	if (u->origin->h1_only)
		return NULL;
	while (*p != NULL && (*p)->websocket && upstream_h2_websocket(u) != H2_WS_YES)
		p = &(*p)->next;
	return *p != NULL ? take_waiting(u->origin, p) : NULL;
}

void upstream_free_again(struct upstream *u, bool reused)
{
	struct origin *o = u->origin;
	struct exchange *x = next_waiting(o);

	u->half.x = NULL;
	if (x != NULL) {
		upstream_h1_give(u, x, reused);
		return;
	}
	if (o->idle_n >= LIMIT_POOL_PER_ORIGIN || o->policy != u->w->policy) {
		conn_close(&u->c);
		return;
	}
	u->state = UP_IDLE;
	u->since_ms = loop_now_ms(u->w->loop);
	u->c.paused = false;
	u->next = o->idle;
	o->idle = u;
	o->idle_n++;
}

static void unlink_idle(struct upstream *u)
{
	struct origin *o = u->origin;

	for (struct upstream **p = &o->idle; *p != NULL; p = &(*p)->next) {
		if (*p != u)
			continue;
		*p = u->next;
		o->idle_n--;
		return;
	}
}

/* How many of those who wait can be served by what is there or on its way. */
static size_t hopes(const struct origin *o)
{
	if (o->speaks == SPEAKS_H1)
		return o->dials + o->owed;
	return o->dials + o->owed > 0 || o->h2 != NULL ? SIZE_MAX : 0;
}

/*
 * Who waits is not told which connection is for whom: when one did not come about, as many fail as there are no longer
 * enough for, and nobody does for the connection of an exchange that has ended meanwhile.
 */
static void fail_hopeless(struct origin *o, enum refusal_code code, const char *cause)
{
	while (o->wait_n > hopes(o))
		exchange_upstream_failed(next_waiting(o), code, cause);
}

static void dial_failed(struct origin *o, enum refusal_code code, const char *cause)
{
	o->dials--;
	fail_hopeless(o, code, cause);
}

/* No longer under way: forgets its handle. */
static void undial(struct upstream *u)
{
	*u->prev_dialing = u->next_dialing;
	if (u->next_dialing != NULL)
		u->next_dialing->prev_dialing = u->prev_dialing;
	u->all->dialing_n--;
	handle_free(&u->w->handles, u->dial_id);
}

static void dialed(struct dial_waiter *d, const struct ipc_msg *m, int *fd_taken);

static bool dial(struct upstreams *us, struct origin *o)
{
	struct msg_dial m = { .port = o->port, .scheme = (uint8_t)o->scheme };
	struct upstream *u = must_calloc(1, sizeof(*u));

	u->w = us->w;
	u->all = us;
	u->origin = o;
	u->half.ops = &upstream_h1_ops;
	u->since_us = clock_mono_us();
	u->waiter.dialed = dialed;
	u->dial_id = handle_new(&us->w->handles, HANDLE_DIAL, &u->waiter);
	if (us->w->dialer == NULL || !ipc_send2(us->w->dialer, MSG_DIAL, o->policy->generation, u->dial_id, &m, sizeof(m), o->host.text, o->host.len, NULL, 0)) {
		handle_free(&us->w->handles, u->dial_id);
		free(u);
		return false;
	}
	u->next_dialing = us->dialing;
	u->prev_dialing = &us->dialing;
	if (us->dialing != NULL)
		us->dialing->prev_dialing = &u->next_dialing;
	us->dialing = u;
	us->dialing_n++;
	o->dials++;
	o->uses++;
	return true;
}

/* Those who need another connection: not WebSockets that wait until one that is there says what it can do. */
static size_t in_need(const struct origin *o)
{
	const struct upstream *u = o->h2;
	size_t n = 0;

	while (u != NULL && upstream_h2_websocket(u) != H2_WS_UNKNOWN)
		u = u->next;
	for (const struct waiting *wt = o->wait; wt != NULL; wt = wt->next)
		n += u == NULL || !wt->websocket;
	return n;
}

static size_t dials_wanted(const struct origin *o)
{
	size_t n, room;

	switch (o->speaks) {
	case SPEAKS_H1:
		return o->wait_n;
	case SPEAKS_H2:
		n = (in_need(o) + STREAMS_TYPICAL - 1) / STREAMS_TYPICAL;
		room = o->h2_n < LIMIT_H2_PER_ORIGIN ? LIMIT_H2_PER_ORIGIN - o->h2_n : 0;
		return n < room ? n : room;
	default:
		return o->wait_n < UNKNOWN_DIALS ? o->wait_n : UNKNOWN_DIALS;
	}
}

static void dial_for_waiting(struct upstreams *us, struct origin *o)
{
	size_t wanted;

	o->owed = 0;
	while (o->dials < (wanted = dials_wanted(o))) {
		if (us->dialing_n >= LIMIT_DIALS) {
			o->owed = wanted - o->dials;
			us->owes = true;
			return;
		}
		if (!dial(us, o)) {
			fail_hopeless(o, REFUSAL_GATEWAY_UNAVAILABLE, "the role that connects is down");
			return;
		}
	}
}

/* One was answered: there is room for others. */
static void dial_owed(struct upstreams *us)
{
	if (!us->owes)
		return;
	us->owes = false;
	for (unsigned i = 0; i < ORIGIN_BUCKETS; i++)
		for (struct origin *o = us->buckets[i]; o != NULL; o = o->next)
			if (o->owed > 0)
				dial_for_waiting(us, o);
}

static struct upstream *h2_with_room(const struct origin *o, bool websocket)
{
	struct upstream *u = o->h1_only ? NULL : o->h2;

	while (u != NULL && (!upstream_h2_may_open(u) || (websocket && upstream_h2_websocket(u) != H2_WS_YES)))
		u = u->next;
	return u;
}

/* Connected, and verified: it may carry requests. */
static void ready(struct upstream *u)
{
	struct origin *o = u->origin;
	const unsigned char *alpn = NULL;
	struct exchange *x;
	unsigned n = 0;

	o->dials--;
	if (u->c.ssl != NULL)
		SSL_get0_alpn_selected(u->c.ssl, &alpn, &n);
	u->facts.version = n == 2 && memcmp(alpn, "h2", 2) == 0 ? HTTP_V_2 : HTTP_V_1_1;
	if (u->facts.version == HTTP_V_1_1) {
		o->speaks = SPEAKS_H1;
		upstream_free_again(u, false);
		dial_for_waiting(u->all, o);
		return;
	}
	if (o->h1_only) { /* made before it said so */
		conn_close(&u->c);
		dial_for_waiting(u->all, o);
		return;
	}
	o->speaks = SPEAKS_H2;
	if (o->wait == NULL && h2_with_room(o, false) != NULL) {
		conn_close(&u->c); /* made while nobody knew that one is enough */
		return;
	}
	u->next = o->h2;
	o->h2 = u;
	o->h2_n++;
	u->state = UP_H2;
	upstream_h2_start(u);
	while (upstream_h2_may_open(u) && (x = upstream_next_waiting(u)) != NULL) /* before more connections are made for them */
		upstream_h2_give(u, x);
	dial_for_waiting(u->all, o);
}

static struct upstream *idle_h1(struct origin *o)
{
	while (o->idle != NULL) {
		struct upstream *u = o->idle;

		unlink_idle(u);
		if (!u->c.rdhup && !u->c.eof && !u->c.failed && buf_len(&u->c.in) == 0)
			return u;
		conn_close(&u->c);
	}
	return NULL;
}

/* WebSockets that wait for an HTTP/2 connection go to HTTP/1.1 instead, and so do later ones. */
static void websockets_to_h1(struct upstreams *us, struct origin *o)
{
	struct upstream_want same = { .dest = &o->dest, .scheme = o->scheme, .host = str_mk(o->host.text, o->host.len), .port = o->port };
	struct origin *twin = origin_of(us, &same, true, o->identity);

	o->no_h2_websocket = true;
	for (struct waiting **p = &o->wait; *p != NULL;) {
		uint64_t since = (*p)->since_ms;

		if ((*p)->websocket)
			wait_for(twin, take_waiting(o, p), true, since);
		else
			p = &(*p)->next;
	}
	for (struct upstream *u; twin->wait != NULL && (u = idle_h1(twin)) != NULL;)
		upstream_h1_give(u, next_waiting(twin), true);
	dial_for_waiting(us, twin);
}

void upstream_h1_required(struct upstream *u)
{
	u->origin->h1_only = true;
	u->origin->speaks = SPEAKS_H1;
}

void upstream_h2_over(struct upstream *u, bool known)
{
	struct origin *o = u->origin;

	for (struct upstream **p = &o->h2; *p != NULL; p = &(*p)->next) {
		if (*p != u)
			continue;
		*p = u->next;
		o->h2_n--;
		break;
	}
	if (!known) /* it ended before it said what it can do: that is not waited for again */
		websockets_to_h1(u->all, o);
	dial_for_waiting(u->all, o);
}

void upstream_h2_known(struct upstream *u)
{
	u->origin->no_h2_websocket = false;
	if (upstream_h2_websocket(u) == H2_WS_NO)
		websockets_to_h1(u->all, u->origin);
}

void upstreams_acquire(struct upstreams *us, struct exchange *x, const struct upstream_want *want)
{
	struct identity *identity = want->identity ? creds_identity(us->w->creds, want->dest) : NULL;
	struct origin *o;
	struct upstream *u;

	if (want->identity && identity == NULL) {
		exchange_upstream_failed(x, REFUSAL_CREDENTIAL_UNAVAILABLE, "the client certificate is not to be had any more");
		return;
	}
	o = origin_of(us, want, false, identity);
	if (want->websocket && o->no_h2_websocket && o->speaks == SPEAKS_H2)
		o = origin_of(us, want, true, identity);
	u = h2_with_room(o, want->websocket);
	if (u != NULL) {
		upstream_h2_give(u, x);
		return;
	}
	u = want->fresh ? NULL : idle_h1(o);
	if (u != NULL) {
		upstream_h1_give(u, x, true);
		return;
	}
	wait_for(o, x, want->websocket, loop_now_ms(us->w->loop));
	dial_for_waiting(us, o);
}

void upstreams_cancel(struct upstreams *us, struct exchange *x)
{
	for (unsigned i = 0; i < ORIGIN_BUCKETS; i++) {
		for (struct origin *o = us->buckets[i]; o != NULL; o = o->next) {
			for (struct waiting **p = &o->wait; *p != NULL; p = &(*p)->next) {
				if ((*p)->x != x)
					continue;
				take_waiting(o, p);
				return;
			}
		}
	}
}

/* --- client certificates ------------------------------------------------------------------------------------------- */

static struct upstream *handshaking; /* whose SSL_do_handshake is under way */

static bool ask_signature(struct upstream *u, uint16_t scheme, const uint8_t *message, size_t n)
{
	struct msg_sign what = { .dest_index = u->origin->dest_index, .scheme = scheme };
	struct buf b = { 0 };
	struct str cause;
	struct inject in;
	bool ok = false;

	for (unsigned i = 0; !ok && n <= MSG_SIGN_MAX && dest_inject(&u->origin->dest, i, &in); i++) {
		if (in.kind != INJECT_CLIENT_CERTIFICATE)
			continue;
		what.inject = i;
		buf_add(&b, message, n);
		u->sign_id = handle_new(&u->w->handles, HANDLE_HANDSHAKE, u);
		ok = signings_ask(u->w->signings, u->origin->policy->generation, &what, &b, HANDLE_HANDSHAKE, u->sign_id, &cause);
		if (!ok)
			handle_free(&u->w->handles, u->sign_id);
		break;
	}
	buf_fini(&b);
	return ok;
}

/* Within the job of a handshake: it stands still here until the signature is there, or will not be. */
static size_t on_sign(uint16_t scheme, const uint8_t *message, size_t n, uint8_t sig[REMOTE_SIGNATURE_MAX])
{
	struct upstream *u = handshaking;

	if (u == NULL || u->sign != SIGN_NOT)
		return 0;
	u->sign = ask_signature(u, scheme, message, n) ? SIGN_ASKED : SIGN_FAILED;
	while (u->sign == SIGN_ASKED)
		ASYNC_pause_job();
	if (u->sign != SIGN_HAVE || buf_len(&u->signature) > REMOTE_SIGNATURE_MAX)
		return 0;
	memcpy(sig, buf_data(&u->signature), buf_len(&u->signature));
	return buf_len(&u->signature);
}

/* Its job comes to its end, so that nothing is left of it. */
static void give_up_signature(struct upstream *u)
{
	if (u->sign != SIGN_ASKED)
		return;
	handle_free(&u->w->handles, u->sign_id);
	u->sign = SIGN_FAILED;
	SSL_do_handshake(u->c.ssl);
	ERR_clear_error();
}

static void connect_failed(struct upstream *u, enum refusal_code code, const char *cause)
{
	give_up_signature(u);
	dial_failed(u->origin, code, cause);
	conn_close(&u->c);
}

static int step(struct upstream *u)
{
	int r;

	if (u->origin->identity == NULL)
		return SSL_do_handshake(u->c.ssl);
	handshaking = u;
	r = SSL_do_handshake(u->c.ssl);
	if (r != 1 && SSL_get_error(u->c.ssl, r) == SSL_ERROR_WANT_X509_LOOKUP) { /* verified; what follows may have to wait */
		SSL_set_mode(u->c.ssl, SSL_MODE_ASYNC);
		r = SSL_do_handshake(u->c.ssl);
	}
	handshaking = NULL;
	if (r == 1 || SSL_get_error(u->c.ssl, r) != SSL_ERROR_WANT_ASYNC)
		SSL_clear_mode(u->c.ssl, SSL_MODE_ASYNC);
	return r;
}

static void handshake(struct upstream *u)
{
	int r = step(u), e;
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
	if (e == SSL_ERROR_WANT_ASYNC)
		return;
	if ((e == SSL_ERROR_WANT_READ || e == SSL_ERROR_WANT_WRITE) && !(u->c.rdhup && e == SSL_ERROR_WANT_READ && !u->c.readable))
		return;
	if (u->sign == SIGN_FAILED)
		snprintf(cause, sizeof(cause), "it asked for a client certificate, and that could not be used: %.*s", (int)buf_len(&u->signature), (const char *)buf_data(&u->signature));
	else
		snprintf(cause, sizeof(cause), "%s", verify_cause(u->c.ssl));
	ERR_clear_error();
	u->c.failed = true;
	connect_failed(u, u->sign == SIGN_FAILED ? REFUSAL_CREDENTIAL_UNAVAILABLE : REFUSAL_UPSTREAM_TLS, cause);
}

void upstream_signed(void *upstream, bool ok, struct str text)
{
	struct upstream *u = upstream;

	handle_free(&u->w->handles, u->sign_id);
	u->sign = ok ? SIGN_HAVE : SIGN_FAILED;
	buf_clear(&u->signature);
	buf_adds(&u->signature, text);
	handshake(u);
}

enum refusal_code upstream_dial_code(const struct msg_dialed *d)
{
	static const enum refusal_code codes[] = {
		[DIAL_FAILED] = REFUSAL_UPSTREAM_UNREACHABLE, [DIAL_DENIED] = REFUSAL_DESTINATION_DENIED, [DIAL_ADDRESS_DENIED] = REFUSAL_ADDRESS_DENIED,
		[DIAL_DNS] = REFUSAL_DNS_FAILURE, [DIAL_UNREACHABLE] = REFUSAL_UPSTREAM_UNREACHABLE, [DIAL_TIMEOUT] = REFUSAL_UPSTREAM_TIMEOUT };

	return d->status < sizeof(codes) / sizeof(codes[0]) && d->status != DIAL_OK ? codes[d->status] : REFUSAL_UPSTREAM_UNREACHABLE;
}

void upstream_dial_facts(const struct msg_dialed *d, struct upstream_facts *f)
{
	struct ip ip = { .family = d->family }, proxy = { .family = d->proxy_family };
	char text[IP_TEXT_MAX];

	memcpy(ip.b, d->addr, 16);
	if (ip.family != 0)
		ip_format(&ip, f->ip);
	f->dns_us = d->dns_us;
	f->connect_us = d->connect_us;
	if ((d->flags & DIALED_BY_PROXY) == 0 || proxy.family == 0)
		return;
	memcpy(proxy.b, d->proxy_addr, 16);
	ip_format(&proxy, text);
	snprintf(f->proxy, sizeof(f->proxy), proxy.family == 6 ? "[%s]:%u" : "%s:%u", text, d->proxy_port);
	f->proxy_vetted = (d->flags & DIALED_PROXY_RESOLVED) != 0;
}

static void socket_came(struct upstream *u, const struct ipc_msg *m, int *fd_taken)
{
	struct upstreams *us = u->all;
	const struct msg_dialed *d = (const void *)m->data;
	char cause[256];
	const char *why = "";
	SSL *ssl;

	undial(u);
	snprintf(cause, sizeof(cause), "%.*s", (int)(m->len - sizeof(*d)), (const char *)m->data + sizeof(*d));
	upstream_dial_facts(d, &u->facts);
	if (d->status == DIAL_OK && (m->fd_n != 1 || !conn_init(&u->c, us->w->loop, m->fds[0], &conn_ops, &us->w->upstream_conns))) {
		struct origin *o = u->origin;

		o->uses--;
		free(u);
		dial_failed(o, REFUSAL_GATEWAY_UNAVAILABLE, DIALED_NOTHING);
		return;
	}
	if (d->status != DIAL_OK) {
		struct origin *o = u->origin;

		o->uses--;
		free(u);
		dial_failed(o, upstream_dial_code(d), cause);
		return;
	}
	*fd_taken = 1;
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
	if (u->origin->h1_only)
		tls_h1_only(ssl);
	if (u->origin->identity != NULL)
		verify_identity(ssl, u->origin->identity);
	if (u->origin->session != NULL) {
		SSL_set_session(ssl, u->origin->session);
		SSL_SESSION_free(u->origin->session);
		u->origin->session = NULL;
	}
	conn_start_tls(&u->c, ssl);
	u->state = UP_HANDSHAKE;
	handshake(u);
}

static void dialed(struct dial_waiter *waiter, const struct ipc_msg *m, int *fd_taken)
{
	struct upstream *u = (struct upstream *)((char *)waiter - offsetof(struct upstream, waiter));
	struct upstreams *us = u->all;

	socket_came(u, m, fd_taken);
	dial_owed(us);
}

void upstreams_dialer_lost(struct upstreams *us)
{
	/* dials in flight are answered by nobody */
	while (us->dialing != NULL) {
		struct upstream *u = us->dialing;

		undial(u);
		u->origin->dials--;
		u->origin->uses--;
		free(u);
	}
	for (unsigned i = 0; i < ORIGIN_BUCKETS; i++)
		for (struct origin *o = us->buckets[i]; o != NULL; o = o->next) {
			o->owed = 0;
			fail_hopeless(o, REFUSAL_GATEWAY_UNAVAILABLE, "the role that connects went down");
		}
}

static void free_conn(struct conn *c)
{
	struct upstream *u = (struct upstream *)c;

	u->origin->uses--;
	buf_fini_secret(&u->trailer);
	buf_fini(&u->signature);
	free(u);
}

static void process(struct conn *c)
{
	struct upstream *u = (struct upstream *)c;

	if (c->closed)
		return;
	switch (u->state) {
	case UP_HANDSHAKE:
		handshake(u);
		break;
	case UP_IDLE:
		conn_fill(c);
		/* nothing may come here but the end, and TLS housekeeping */
		if (c->eof || c->failed || buf_len(&c->in) > 0 || c->rdhup) {
			unlink_idle(u);
			conn_close(c);
		}
		break;
	case UP_H2:
		upstream_h2(u);
		break;
	default:
		upstream_h1(u);
		break;
	}
}

/* What lies idle under an older policy is closed; what is in use is not used again (upstream_free_again, and the sweep). */
void upstreams_policy_changed(struct upstreams *us)
{
	for (unsigned i = 0; i < ORIGIN_BUCKETS; i++) {
		for (struct origin *o = us->buckets[i]; o != NULL; o = o->next) {
			while (o->policy != us->w->policy && o->idle != NULL) {
				struct upstream *u = o->idle;

				unlink_idle(u);
				conn_close(&u->c);
			}
		}
	}
}

void upstreams_withdrawn(struct upstreams *us, const struct table *t, uint32_t secret_index)
{
	uint64_t now = loop_now_ms(us->w->loop);

	for (unsigned i = 0; i < ORIGIN_BUCKETS; i++) {
		for (struct origin *o = us->buckets[i]; o != NULL; o = o->next) {
			if (o->identity == NULL || o->dest.table != t || o->identity->secret_index != secret_index)
				continue;
			SSL_SESSION_free(o->session);
			o->session = NULL;
			while (o->idle != NULL) {
				struct upstream *u = o->idle;

				unlink_idle(u);
				conn_close(&u->c);
			}
			for (struct upstream *u = o->h2, *next; u != NULL; u = next) {
				next = u->next;
				upstream_h2_sweep(u, now, true);
			}
		}
	}
}

/* Origins of older policies that nobody uses any more, and of this one: under a wildcard a sandbox can make up as many as it likes. */
static void forget_origins(struct upstreams *us, uint64_t now)
{
	uint64_t idle = us->origin_n > LIMIT_ORIGINS ? 0 : LIMIT_ORIGIN_IDLE_MS;

	for (unsigned i = 0; i < ORIGIN_BUCKETS; i++) {
		for (struct origin **p = &us->buckets[i]; *p != NULL;) {
			struct origin *o = *p;

			if (o->uses > 0 || o->wait != NULL || (o->policy == us->w->policy && now - o->asked_ms <= idle)) {
				p = &o->next;
				continue;
			}
			*p = o->next;
			SSL_SESSION_free(o->session);
			identity_release(o->identity);
			policy_release(o->policy);
			free(o);
			us->origin_n--;
		}
	}
}

static void sweep_waiting(struct upstreams *us, struct origin *o, uint64_t now)
{
	struct upstream *u = o->h2;

	while (u != NULL && upstream_h2_websocket(u) != H2_WS_UNKNOWN)
		u = u->next;
	for (struct waiting *wt = u != NULL ? o->wait : NULL; wt != NULL; wt = wt->next) {
		if (wt->websocket && now - wt->since_ms > SETTINGS_MS) {
			websockets_to_h1(us, o);
			break;
		}
	}
	while (o->wait != NULL && o->dials == 0 && now - o->wait->since_ms > LIMIT_WAIT_MS)
		exchange_upstream_failed(next_waiting(o), REFUSAL_UPSTREAM_TIMEOUT,
					 o->owed > 0 ? "no connection was begun in time: as many as may be under way at a time wait for name servers or upstreams" : "the upstream's connections take no more requests");
}

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
		} else if (u->state == UP_HANDSHAKE && now - u->since_ms > LIMIT_HANDSHAKE_MS && u->sign == SIGN_ASKED) {
			connect_failed(u, REFUSAL_CREDENTIAL_UNAVAILABLE, "the client certificate's signature did not come in time");
		} else if (u->state == UP_HANDSHAKE && now - u->since_ms > LIMIT_HANDSHAKE_MS) {
			connect_failed(u, REFUSAL_UPSTREAM_TIMEOUT, "the upstream did not finish the TLS handshake in time");
		} else if (u->state == UP_BUSY) {
			upstream_h1_sweep(u, now);
		} else if (u->state == UP_H2) {
			upstream_h2_sweep(u, now, u->origin->policy != us->w->policy);
		}
	}
	for (unsigned i = 0; i < ORIGIN_BUCKETS; i++)
		for (struct origin *o = us->buckets[i]; o != NULL; o = o->next)
			sweep_waiting(us, o, now);
	forget_origins(us, now);
}
