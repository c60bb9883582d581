/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_EXCHANGE_WORLD_H
#define SP_EXCHANGE_WORLD_H
/*
 * A world without I/O for the worker's own connections: sockets are queues here, epoll and the clock are ours, TLS passes
 * octets through. What runs on it is the code of the product: conn.c, loop.c and upstream.c as they stand (read in below,
 * with another recv and send), client*.c, upstream_h*.c, exchange.c and the core from the library. The other roles are
 * stood in for: audit (reporter_*), secrets (creds_*), ca and verification (tls_*, verify_*), dialer (ipc_send2).
 */
#include <errno.h>
#include <netinet/in.h>
#include <nghttp2/nghttp2.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/base/must.h"
#include "common/sys/clock.h"
#include "policy-compiler/model.h"
#include "proxy/worker/client.h"
#include "proxy/worker/upstream.h"
#include "proxy/worker/verify.h"

#define PIPES_MAX 64
#define SECRET_TEXT "s3cr3t-canary-0123456789abcdef-XYZ"

enum name { NAME_NONE = 0,
	    NAME_A,
	    NAME_B,
	    NAME_P }; /* a.test, b.test: https; p.test: http */

/* One connection as its peer has it. */
struct pipe {
	bool used, open, client, h2, eof, reset, greeted, settings_sent;
	struct conn *c;
	enum name name;
	uint64_t key; /* of epoll */
	bool watched;
	uint32_t pending;
	struct buf in;		   /* for the worker to read */
	size_t room;		   /* octets that it may write */
	uint32_t next_id, last_id; /* streams: of the next request that this client opens; of the last one that came to this upstream */
	struct check *check;
};
struct world {
	struct worker w;
	uint64_t now;
	struct pipe pipe[PIPES_MAX];
	int pipe_n;
	struct sockaddr_in local; /* of the connection that is being accepted */
	bool upstream_h2[4];	  /* what the origin of a name speaks */
	bool dials_wait, dials_fail, must_wait, audit_down;
	uint64_t dial[256];
	enum name dial_name[256];
	unsigned dial_n;
	enum secret_state secret;
	unsigned wait_at; /* which of the next questions for a secret waits; 0: none does */
	bool before;      /* its value is not in use yet */
	uint64_t asked[1024];
	unsigned asked_n;
	unsigned connects; /* CONNECTs that were accepted: their exchanges end without a record of their own */
};
static struct world *W;

/* Of what the worker writes: see exchange_check.h. */
static void check_wrote(struct pipe *p, const uint8_t *d, size_t n);
static void check_record(const struct buf *fields);

/* --- sockets, epoll, clock ------------------------------------------------------------------------------------------- */

static int world_epoll_create(int flags) { return (void)flags, 3; }

static int world_epoll_ctl(int ep, int op, int fd, struct epoll_event *ev)
{
	(void)ep;
	MUST(fd >= 0 && fd < W->pipe_n);
	W->pipe[fd].watched = op != EPOLL_CTL_DEL;
	if (ev != NULL)
		W->pipe[fd].key = ev->data.u64;
	return 0;
}

static int world_epoll_wait(int ep, struct epoll_event *ev, int max, int wait)
{
	int n = 0;

	(void)ep;
	(void)wait;
	for (int i = 0; i < W->pipe_n && n < max; i++) {
		struct pipe *p = &W->pipe[i];

		if (!p->watched || p->pending == 0)
			continue;
		ev[n].events = p->pending;
		ev[n++].data.u64 = p->key;
		p->pending = 0;
	}
	return n;
}

static int world_clock(clockid_t id, struct timespec *ts)
{
	(void)id;
	ts->tv_sec = (time_t)(W->now / 1000);
	ts->tv_nsec = (long)(W->now % 1000) * 1000000;
	return 0;
}

static ssize_t world_recv(int fd, void *d, size_t n, int flags)
{
	struct pipe *p = &W->pipe[fd];

	(void)flags;
	if (buf_len(&p->in) > 0) {
		n = buf_len(&p->in) < n ? buf_len(&p->in) : n;
		memcpy(d, buf_data(&p->in), n);
		buf_drop(&p->in, n);
		return (ssize_t)n;
	}
	if (p->reset || !p->eof) {
		errno = p->reset ? ECONNRESET : EAGAIN;
		return -1;
	}
	return 0;
}

static ssize_t world_send(int fd, const void *d, size_t n, int flags)
{
	struct pipe *p = &W->pipe[fd];

	(void)flags;
	MUST(p->open);
	if (p->reset || p->room == 0) {
		errno = p->reset ? EPIPE : EAGAIN;
		return -1;
	}
	n = n < p->room ? n : p->room;
	p->room -= n;
	check_wrote(p, d, n);
	return (ssize_t)n;
}

static int world_close(int fd)
{
	if (fd >= 0 && fd < W->pipe_n)
		W->pipe[fd].open = false;
	return 0;
}
static int world_shutdown(int fd, int how) { return (void)fd, (void)how, 0; }

/* The transparent connection's own address: client.c asks by this call, and nothing else here does. */
int getsockname(int fd, __SOCKADDR_ARG sa, socklen_t *restrict n)
{
	(void)fd;
	memcpy(sa.__sockaddr_in__, &W->local, sizeof(W->local));
	*n = sizeof(W->local);
	return 0;
}

#define epoll_create1 world_epoll_create
#define epoll_ctl world_epoll_ctl
#define epoll_wait world_epoll_wait
#define clock_gettime world_clock
#define close world_close
#define shutdown world_shutdown
#define recv world_recv
#define send world_send
#include "common/sys/loop.c" // NOLINT: with this world's system calls
#define method bio_method
#include "proxy/worker/conn.c" // NOLINT
#undef method
#undef epoll_create1
#undef epoll_ctl
#undef epoll_wait
#undef clock_gettime
#undef close
#undef shutdown
#undef recv
#undef send
#include "proxy/worker/upstream.c" // NOLINT: its origins are freed below

/* --- TLS that hides nothing ------------------------------------------------------------------------------------------ */

struct plain_tls {
	struct conn *c;
	struct client *cl; /* NULL: toward an upstream */
	bool h2;
	int error;
	BIO *bio;
};
static struct plain_tls *tls_of(const SSL *s) { return (struct plain_tls *)(uintptr_t)s; }

static SSL *plain_new(struct client *cl, bool h2)
{
	struct plain_tls *t = must_calloc(1, sizeof(*t));

	t->cl = cl;
	t->h2 = h2;
	return (SSL *)t;
}

void SSL_set_bio(SSL *s, BIO *r, BIO *w)
{
	(void)w;
	tls_of(s)->bio = r;
	tls_of(s)->c = BIO_get_data(r);
	W->pipe[tls_of(s)->c->fd].h2 = tls_of(s)->h2; /* what ALPN comes to */
}
void SSL_free(SSL *s)
{
	BIO_free(tls_of(s)->bio);
	free(tls_of(s));
}
int SSL_do_handshake(SSL *s)
{
	struct plain_tls *t = tls_of(s);
	uint8_t hello;
	int alert;

	if (t->cl == NULL)
		return 1;
	MUST(sock_read(t->c, &hello, 1) == 1 && hello == 0x16); /* all that there is of a ClientHello */
	t->error = SSL_ERROR_SSL;
	return client_hello(t->cl, s, &alert) == SSL_CLIENT_HELLO_SUCCESS ? 1 : -1;
}
int SSL_read_ex(SSL *s, void *d, size_t n, size_t *got)
{
	ssize_t k = sock_read(tls_of(s)->c, d, n);

	tls_of(s)->error = k == 0 ? SSL_ERROR_ZERO_RETURN : errno == EAGAIN ? SSL_ERROR_WANT_READ
									    : SSL_ERROR_SYSCALL;
	*got = k > 0 ? (size_t)k : 0;
	return k > 0;
}
int SSL_write_ex(SSL *s, const void *d, size_t n, size_t *done)
{
	ssize_t k = sock_write(tls_of(s)->c, d, n);

	tls_of(s)->error = errno == EAGAIN ? SSL_ERROR_WANT_WRITE : SSL_ERROR_SYSCALL;
	*done = k > 0 ? (size_t)k : 0;
	return k > 0;
}
int SSL_get_error(const SSL *s, int r) { return (void)r, tls_of(s)->error; }
int SSL_is_init_finished(const SSL *s) { return (void)s, 1; }
int SSL_shutdown(SSL *s) { return (void)s, 1; }
void SSL_set_shutdown(SSL *s, int mode) { (void)s, (void)mode; }
int SSL_set_session(SSL *s, SSL_SESSION *session) { return (void)s, (void)session, 1; }
const char *SSL_get_version(const SSL *s) { return (void)s, "TLSv1.3"; }
const SSL_CIPHER *SSL_get_current_cipher(const SSL *s) { return (void)s, NULL; }
const char *SSL_CIPHER_get_name(const SSL_CIPHER *c) { return (void)c, "TLS_AES_128_GCM_SHA256"; }
int SSL_client_hello_get0_ext(SSL *s, unsigned type, const unsigned char **d, size_t *n) { return (void)s, (void)type, (void)d, (void)n, 0; }
void SSL_get0_alpn_selected(const SSL *s, const unsigned char **d, unsigned *n)
{
	*d = (const unsigned char *)(tls_of(s)->h2 ? "h2" : "http/1.1");
	*n = tls_of(s)->h2 ? 2 : 8;
}

/* Nonces and masks are the same in each run: what an upstream must answer to them is known. */
void random_fill(void *p, size_t n) { memset(p, 0x11, n); }
#define WS_ACCEPT "KNA/oxCTDuT6bK7/rIMPuSB/t8k="

/* --- the other roles ------------------------------------------------------------------------------------------------- */

static enum name name_of(struct str host) { return host.n == 6 && host.p[0] == 'a' ? NAME_A : host.n == 6 && host.p[0] == 'b' ? NAME_B
															      : NAME_P; }

void worker_request_id(struct worker *w, char out[33]) { snprintf(out, 33, "%s%08x", w->id_prefix, w->id_next++); }

bool reporter_ok(const struct reporter *r) { return (void)r, !W->audit_down; }
bool reporter_must_wait(struct reporter *r) { return (void)r, W->must_wait; }
uint32_t reporter_slot(struct reporter *r, const struct buf *fields) { return (void)r, (void)fields, W->audit_down ? INFLIGHT_NO_SLOT : 1; }
void reporter_unslot(struct reporter *r, uint32_t slot) { (void)r, (void)slot; }
void reporter_record(struct reporter *r, const struct policy_gen *p, uint32_t slot, const struct buf *fields)
{
	(void)r;
	(void)p;
	(void)slot;
	check_record(fields);
}
void reporter_connection(struct reporter *r, const struct buf *fields) { reporter_record(r, NULL, INFLIGHT_NO_SLOT, fields); }

enum secret_state creds_get(struct creds *c, struct exchange *x, const struct dest *d, const struct inject *in, struct str *value, struct str *cause)
{
	bool waits = W->wait_at > 0 ? --W->wait_at == 0 : W->secret == SECRET_WAIT;

	(void)c;
	(void)d;
	(void)in;
	*value = STR(SECRET_TEXT);
	*cause = STR("none");
	if (waits && W->asked_n < sizeof(W->asked) / sizeof(W->asked[0]))
		W->asked[W->asked_n++] = x->handle;
	return waits ? SECRET_WAIT : W->secret;
}
static struct scrub_ref scrub_values, scrub_nothing;
struct scrub_ref *creds_scrub(struct creds *c)
{
	struct scrub_ref *r = W->before ? &scrub_nothing : &scrub_values;

	(void)c;
	r->refs++;
	return r;
}
void creds_scrub_done(struct scrub_ref *r) { r->refs--; }
const struct placeholders *creds_placeholders(const struct creds *c) { return (void)c, NULL; }
bool creds_name_trips(struct creds *c, const struct canon_host *name, const char *where) { return (void)c, (void)name, (void)where, false; }
void creds_misuse(struct creds *c, struct str secret) { (void)c, (void)secret; }
void creds_table_gone(struct creds *c, const struct table *t) { (void)c, (void)t; }
void tls_table_gone(struct tls *t, const struct table *table) { (void)t, (void)table; }

void tls_want_leaf(struct tls *t, struct str host, bool refusal) /* asked for when a CONNECT is accepted, here only then */
{
	(void)t;
	(void)host;
	(void)refusal;
	W->connects++;
}
enum leaf_state tls_leaf(struct tls *t, SSL *ssl, struct str host, bool refusal, uint64_t handle) { return (void)t, (void)ssl, (void)host, (void)refusal, (void)handle, LEAF_READY; }
SSL *tls_server(struct tls *t, void *client)
{
	struct client *cl = client;

	(void)t;
	return plain_new(cl, W->pipe[cl->c.fd].h2);
}
SSL *tls_upstream(struct tls *t, const struct dest *d, const struct canon_host *host, void *origin, const char **cause)
{
	(void)t;
	(void)d;
	(void)origin;
	(void)cause;
	return plain_new(NULL, W->upstream_h2[name_of(str_mk(host->text, host->len))]);
}
void tls_h1_only(SSL *ssl) { tls_of(ssl)->h2 = false; }
void tls_peer_facts(SSL *ssl, struct upstream_facts *f) { (void)ssl, (void)f; }
const char *verify_established(SSL *ssl, const struct dest *d) { return (void)ssl, (void)d, NULL; }
const char *verify_cause(SSL *ssl) { return (void)ssl, "none"; }
const char *verify_wanted(SSL *ssl) { return (void)ssl, NULL; }

const struct canon_host *names_of_address(struct names *n, const struct ip *a)
{
	static const struct canon_host names[] = { [NAME_A] = { .text = "a.test", .len = 6 }, [NAME_B] = { .text = "b.test", .len = 6 }, [NAME_P] = { .text = "p.test", .len = 6 } };

	(void)n;
	return a->b[15] >= NAME_A && a->b[15] <= NAME_P ? &names[a->b[15]] : NULL;
}
bool names_tcp(struct names *n, const uint8_t *p, size_t len, struct buf *out) { return (void)n, (void)p, (void)len, (void)out, false; }

bool ipc_send2(struct ipc *c, enum msg_type type, uint32_t generation, uint64_t id, const void *p, size_t n, const void *p2, size_t n2, const int *fds, unsigned fd_n)
{
	(void)c;
	(void)generation;
	(void)p;
	(void)n;
	(void)fds;
	(void)fd_n;
	MUST(type == MSG_DIAL);
	if (W->dial_n == sizeof(W->dial) / sizeof(W->dial[0]))
		return false;
	W->dial_name[W->dial_n] = name_of(str_mk(p2, n2));
	W->dial[W->dial_n++] = id;
	return true;
}

/* --- its handling ---------------------------------------------------------------------------------------------------- */

static int world_image(const char *text)
{
	struct diag d = { .file = "fuzz.yaml" };
	struct err err = ERR_INIT;
	struct policy p;
	int fd;

	if (policy_parse(&p, text, strlen(text), NULL, &d) < 0) {
		fprintf(stderr, "%.*s", (int)buf_len(&d.out), (const char *)buf_data(&d.out));
		abort();
	}
	diag_fini(&d);
	MUST(policy_image(&p, &fd, &err) == 0);
	policy_free(&p);
	return fd;
}

/* The next generation of the policy: the second allows less. */
static void world_policy(bool less)
{
#define HEAD "version: 1\nname: fuzz\nsecrets:\n  api: { env: X, hosts: [a.test, b.test] }\ndestinations:\n"
#define INJECT "    inject: [ { secret: api, as: bearer, env: Y } ]\n"
	static const char *const texts[] = {
		HEAD "  - host: a.test\n    allow:\n      - { method: [ANY], path: /ok/**, body: any }\n      - { method: POST, path: /graphql/**, body: { graphql: { type: query } } }\n"
		     "      - { method: PUT, path: /put/**, body: none }\n      - WEBSOCKET /ws/**\n    deny: [ ANY /ok/no/** ]\n" INJECT
		     "  - host: b.test\n    allow: [ { method: [ANY], path: /ok/**, body: any } ]\n    limits: { request_body: 4KiB, response_body: 8KiB, total: 60s, idle: 20s, head: 10s }\n"
		     "    inject: [ { secret: api, as: header, name: X-Api-Key, env: Z } ]\n"
		     "  - host: p.test\n    scheme: http\n    allow: [ { method: [ANY], path: /ok/**, body: any } ]\n",
		HEAD "  - host: a.test\n    allow: [ GET /ok/** ]\n    deny: [ ANY /ok/no/**, GET /ok/1* ]\n" INJECT
	};
	static int fds[2] = { -1, -1 };
	struct msg_sandbox s = { .sandbox = 1, .generation = W->w.generation + 1, .flags = SANDBOX_EXPLAIN_DENIALS };
	struct err err = ERR_INIT;
	struct table *t;

	if (fds[less] < 0)
		fds[less] = world_image(texts[less]);
	MUST(table_open(&t, fds[less], &err) == 0);
	policy_in_force(&W->w, t, &s);
}

static void world_start(void)
{
	const struct str value = STR(SECRET_TEXT);

	if (scrub_values.set == NULL)
		scrub_values.set = scrub_set_new(&value, 1);
	if (scrub_nothing.set == NULL)
		scrub_nothing.set = scrub_set_new(NULL, 0);
	W = must_calloc(1, sizeof(*W));
	W->now = 1000000;
	W->secret = SECRET_READY;
	W->w.sandbox = 1;
	W->w.dialer = (struct ipc *)W; /* only ever handed on */
	memcpy(W->w.id_prefix, "00000000ffffffff", 17);
	W->w.loop = loop_new();
	W->w.ups = upstreams_new(&W->w);
	clients_watch_memory(&W->w);
	world_policy(false);
}

static int pipe_new(bool client, bool h2, enum name name)
{
	struct pipe *p = &W->pipe[W->pipe_n];

	if (W->pipe_n == PIPES_MAX)
		return -1;
	*p = (struct pipe){ .used = true, .open = true, .client = client, .h2 = h2, .name = name, .room = SIZE_MAX, .next_id = 1 };
	return W->pipe_n++;
}

/* Those that wait now: what they lead to comes with the next turn. */
static void answer_dials(enum dial_status status)
{
	unsigned n = W->dial_n;
	uint64_t ids[sizeof(W->dial) / sizeof(W->dial[0])];
	enum name names[sizeof(W->dial) / sizeof(W->dial[0])];

	memcpy(ids, W->dial, n * sizeof(ids[0]));
	memcpy(names, W->dial_name, n * sizeof(names[0]));
	W->dial_n = 0;
	for (unsigned i = 0; i < n; i++) {
		struct msg_dialed d = { .status = (uint8_t)status, .family = 4, .port = 443, .addr = { [12] = 127, [15] = 1 } };
		struct ipc_msg m = { .type = MSG_DIALED, .id = ids[i], .data = (const uint8_t *)&d, .len = sizeof(d) };
		struct dial_waiter *waiter;
		enum name name = names[i];
		int taken = 0, fd = status == DIAL_OK ? pipe_new(false, W->upstream_h2[name], name) : -1;

		if (fd >= 0) {
			m.fds[0] = fd;
			m.fd_n = 1;
		} else {
			d.status = DIAL_UNREACHABLE;
		}
		waiter = handle_get(&W->w.handles, HANDLE_DIAL, m.id);
		if (waiter != NULL)
			waiter->dialed(waiter, &m, &taken);
		if (fd >= 0 && !taken)
			W->pipe[fd].open = false;
	}
}

static void wake_secrets(void)
{
	unsigned n = W->asked_n;
	uint64_t ids[sizeof(W->asked) / sizeof(W->asked[0])];

	memcpy(ids, W->asked, n * sizeof(ids[0]));
	W->asked_n = 0;
	for (unsigned i = 0; i < n; i++) {
		struct exchange *x = handle_get(&W->w.handles, HANDLE_EXCHANGE, ids[i]);

		if (x != NULL)
			exchange_secrets_changed(x);
	}
}

/* Until nothing moves any more. */
static void world_settle(void)
{
	unsigned turns = 0;
	bool moves = true;

	while (moves) {
		MUST(++turns < 20000); /* else it spins */
		loop_turn(W->w.loop, 0);
		moves = W->w.loop->later.n > 0 || W->w.loop->def.n > 0;
		if (!W->dials_wait && W->dial_n > 0) {
			answer_dials(W->dials_fail ? DIAL_UNREACHABLE : DIAL_OK);
			moves = true;
		}
		for (int i = 0; i < W->pipe_n && !moves; i++)
			moves = W->pipe[i].watched && W->pipe[i].pending != 0;
	}
}

static void world_give(struct pipe *p, const void *d, size_t n)
{
	if (!p->open || p->eof || p->reset || buf_len(&p->in) > 4000000)
		return;
	buf_add(&p->in, d, n);
	p->pending |= EPOLLIN;
}

static void world_end(struct pipe *p, bool reset)
{
	p->eof = true;
	p->reset = p->reset || reset;
	p->pending |= reset ? EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR : EPOLLIN | EPOLLRDHUP;
}

static void world_room(struct pipe *p, size_t room)
{
	if (p->room == 0 && room > 0)
		p->pending |= EPOLLOUT;
	p->room = room;
}

/* Time goes on, and the sweep is due. */
static void world_pass(uint64_t ms)
{
	W->now += ms;
	loop_turn(W->w.loop, 0);
	client_sweep(&W->w);
	upstreams_sweep(W->w.ups);
	world_settle();
}

static void world_stop(void)
{
	clients_end(&W->w);
	world_settle();
	for (int i = 0; i < W->pipe_n; i++)
		world_end(&W->pipe[i], true);
	W->dials_wait = true;
	while (W->dial_n > 0)
		answer_dials(DIAL_FAILED);
	world_pass(LIMIT_POOL_IDLE_MS + LIMIT_IDLE_MS);
	MUST(W->w.clients.n == 0 && W->w.upstream_conns.n == 0 && W->w.tunnel_conns.n == 0);
	MUST(worker_memory(&W->w) == 0); /* what was put to account was taken from it */
	for (int i = 0; i < W->pipe_n; i++) {
		MUST(!W->pipe[i].open);
		buf_fini(&W->pipe[i].in);
	}
	for (unsigned i = 0; i < ORIGIN_BUCKETS; i++) {
		while (W->w.ups->buckets[i] != NULL) {
			struct origin *o = W->w.ups->buckets[i];

			MUST(o->wait == NULL && o->wait_n == 0 && o->dials == 0 && o->idle == NULL && o->h2 == NULL);
			W->w.ups->buckets[i] = o->next;
			policy_release(o->policy);
			free(o);
		}
	}
	MUST(scrub_values.refs == 0 && scrub_nothing.refs == 0);
	policy_release(W->w.policy);
	MUST(W->w.policies == NULL); /* nobody holds a generation any more */
	free(W->w.ups);
	loop_free(W->w.loop);
	for (uint32_t i = 0; i < W->w.handles.n; i++)
		MUST(W->w.handles.s[i].obj == NULL);
	free(W->w.handles.s);
}

static void world_free(void)
{
	free(W);
	W = NULL;
}
#endif
