/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   pair (worker's) -> up -> TLS -> proxy,  proxy -> TLS -> down -> pair
 *
 * A side is read while there is room for what comes. The end of input of one side is passed on behind what it sent before; when a
 * side is gone, what it cannot have any more is thrown away, and what it had sent still goes, for a while.
 */
#include "link.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../common/base/must.h"
#include "../../common/tls_warm.h"
#include "../../common/trust.h"

#define HOLD_MAX 65536u    /* octets that wait for a side */
#define READ_SIZE 16384u
#define GONE_MS 10000      /* for what the worker sent last, when it is gone */
#define PASSES 8           /* in a turn: others have theirs */
#define CA_FILE_MAX (1u << 20)

struct link_ctx {
	SSL_CTX *ctx;
	const struct parent *parent;
};
struct link {
	struct loop *loop;
	SSL *ssl;
	int fd, pair; /* -1: not there, or over */
	struct watch net, in;
	struct buf up, down;
	link_fn *fn; /* NULL: it passes */
	void *arg;
	struct timer gone;
	bool ready, want_write, net_eof, net_shut, in_eof, in_shut, dead, yielded;
	char cause[160];
};

/* --- verification -------------------------------------------------------------------------------------------------- */

static bool add_anchors(X509_STORE *store, int fd)
{
	struct buf text = { 0 };
	BIO *bio = NULL;
	unsigned n = 0;
	ssize_t k;
	X509 *x;

	while (buf_len(&text) <= CA_FILE_MAX && (k = pread(fd, buf_room(&text, READ_SIZE), READ_SIZE, (off_t)buf_len(&text))) > 0)
		buf_commit(&text, (size_t)k);
	if (buf_len(&text) > 0 && buf_len(&text) <= CA_FILE_MAX) {
		bio = BIO_new_mem_buf(buf_data(&text), (int)buf_len(&text));
		MUST(bio != NULL);
		while ((x = PEM_read_bio_X509(bio, NULL, NULL, NULL)) != NULL) {
			n += X509_STORE_add_cert(store, x) == 1;
			X509_free(x);
		}
	}
	ERR_clear_error();
	BIO_free(bio);
	buf_fini(&text);
	return n > 0;
}

struct link_ctx *link_ctx_new(const struct parent *p, int ca_fd, const struct trust *t, struct err *err)
{
	X509_STORE *store = ca_fd < 0 && t != NULL ? trust_store_new(t) : X509_STORE_new();
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method()), *server = SSL_CTX_new(TLS_server_method());
	struct link_ctx *c = NULL;
	X509_VERIFY_PARAM *v;

	MUST(ctx != NULL && server != NULL && store != NULL);
	SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
	SSL_CTX_set_options(ctx, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
	SSL_CTX_set_security_level(ctx, 2);
	SSL_CTX_set_cipher_list(ctx, "ECDHE+AESGCM:ECDHE+CHACHA20");
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	tls_warm_handshakes(server, ctx);
	SSL_CTX_free(server);
	if (ca_fd >= 0 ? !add_anchors(store, ca_fd) : t == NULL) {
		err_set(err, EINVAL, "there are no certificates that the upstream proxy could be verified with (upstream_proxy.ca)");
		X509_STORE_free(store);
		SSL_CTX_free(ctx);
		return NULL;
	}
	if (ca_fd >= 0) /* a listed certificate is trusted as it is */
		X509_VERIFY_PARAM_set_flags(X509_STORE_get0_param(store), X509_V_FLAG_PARTIAL_CHAIN);
	SSL_CTX_set1_verify_cert_store(ctx, store);
	X509_STORE_free(store);
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	v = SSL_CTX_get0_param(ctx);
	X509_VERIFY_PARAM_set_hostflags(v, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	X509_VERIFY_PARAM_set_purpose(v, X509_PURPOSE_SSL_SERVER);
	X509_VERIFY_PARAM_set_auth_level(v, 2);
	c = must_calloc(1, sizeof(*c));
	c->ctx = ctx;
	c->parent = p;
	return c;
}

void link_ctx_free(struct link_ctx *c)
{
	if (c != NULL)
		SSL_CTX_free(c->ctx);
	free(c);
}

/* --- one connection ------------------------------------------------------------------------------------------------ */

static void free_later(void *arg)
{
	struct link *l = arg;

	if (l->yielded) { /* its call is still to come */
		loop_yield(l->loop, free_later, l);
		l->yielded = false;
		return;
	}
	buf_fini_secret(&l->up);
	buf_fini_secret(&l->down);
	SSL_free(l->ssl);
	free(l);
}

static void shut_net(struct link *l)
{
	watch_stop(&l->net);
	if (l->fd >= 0)
		close(l->fd);
	l->fd = -1;
	l->net_eof = l->net_shut = true;
	buf_clear(&l->up);
}

static void shut_in(struct link *l)
{
	watch_stop(&l->in);
	if (l->pair >= 0)
		close(l->pair);
	l->pair = -1;
	l->in_eof = l->in_shut = true;
	buf_clear(&l->down);
}

void link_free(struct link *l)
{
	if (l == NULL || l->dead)
		return;
	l->dead = true;
	l->fn = NULL;
	timer_stop(&l->gone);
	shut_net(l);
	shut_in(l);
	loop_defer(l->loop, free_later, l);
}

static void note_cause(struct link *l)
{
	long v = SSL_get_verify_result(l->ssl);
	unsigned long e = ERR_peek_error();
	const char *why = v != X509_V_OK ? X509_verify_cert_error_string(v) : e != 0 ? ERR_reason_error_string(e) : NULL;

	if (l->cause[0] == 0)
		snprintf(l->cause, sizeof(l->cause), "%s%s", l->ready ? "ended the connection: " : "does not speak TLS that is acceptable: ", why != NULL ? why : "it broke off");
	ERR_clear_error();
}

/* True: r is an error for good. */
static bool broken(struct link *l, int r)
{
	int e = SSL_get_error(l->ssl, r);

	if (e == SSL_ERROR_WANT_WRITE)
		l->want_write = true;
	if (e == SSL_ERROR_WANT_READ || e == SSL_ERROR_WANT_WRITE)
		return false;
	if (e != SSL_ERROR_ZERO_RETURN)
		note_cause(l);
	ERR_clear_error();
	return true;
}

/* Each of these: whether it moved something. */
static bool from_net(struct link *l)
{
	bool moved = false;

	while (!l->net_eof && buf_len(&l->down) < HOLD_MAX) {
		size_t n = 0;
		int r;

		ERR_clear_error();
		r = SSL_read_ex(l->ssl, buf_room(&l->down, READ_SIZE), READ_SIZE, &n);
		if (r != 1) {
			l->net_eof = broken(l, r);
			return moved || l->net_eof;
		}
		buf_commit(&l->down, n);
		moved = true;
	}
	return moved;
}

static bool to_net(struct link *l)
{
	bool moved = false;

	while (buf_len(&l->up) > 0) {
		size_t n = 0;
		int r;

		ERR_clear_error();
		r = SSL_write_ex(l->ssl, buf_data(&l->up), buf_len(&l->up), &n);
		if (r != 1) {
			if (!broken(l, r))
				return moved;
			buf_clear(&l->up);
			l->net_shut = true;
			return true;
		}
		buf_drop(&l->up, n);
		moved = true;
	}
	return moved;
}

static bool from_in(struct link *l)
{
	ssize_t k;

	if (l->in_eof || buf_len(&l->up) >= HOLD_MAX || l->net_shut)
		return false;
	k = recv(l->pair, buf_room(&l->up, READ_SIZE), READ_SIZE, MSG_DONTWAIT);
	if (k > 0)
		buf_commit(&l->up, (size_t)k);
	else if (k == 0 || (errno != EAGAIN && errno != EINTR))
		l->in_eof = true;
	return k >= 0 || l->in_eof;
}

static bool to_in(struct link *l)
{
	ssize_t k;

	if (buf_len(&l->down) == 0 || l->in_shut)
		return false;
	k = send(l->pair, buf_data(&l->down), buf_len(&l->down), MSG_DONTWAIT | MSG_NOSIGNAL);
	if (k > 0) {
		buf_drop(&l->down, (size_t)k);
	} else if (k < 0 && errno != EAGAIN && errno != EINTR) {
		buf_clear(&l->down);
		l->in_shut = true;
	}
	return k > 0 || l->in_shut;
}

static void ends(struct link *l)
{
	if (l->in_eof && buf_len(&l->up) == 0 && !l->net_shut) {
		l->net_shut = true;
		ERR_clear_error();
		SSL_shutdown(l->ssl);
		ERR_clear_error();
		shutdown(l->fd, SHUT_WR);
	}
	if (l->net_eof && buf_len(&l->down) == 0 && !l->in_shut) {
		l->in_shut = true;
		shutdown(l->pair, SHUT_WR);
	}
	/* a proxy that is gone takes nothing more, whatever the worker still has to say */
	if ((l->net_shut && l->in_shut) || (l->net_shut && l->net_eof && buf_len(&l->down) == 0))
		link_free(l);
}

static void watch_again(struct link *l)
{
	if (l->net.loop != NULL)
		watch_set(&l->net, (!l->net_eof && buf_len(&l->down) < HOLD_MAX ? EPOLLIN : 0u) | (l->want_write || (l->ready && buf_len(&l->up) > 0) ? EPOLLOUT : 0u));
	if (l->in.loop != NULL)
		watch_set(&l->in, (!l->in_eof && !l->net_shut && buf_len(&l->up) < HOLD_MAX ? EPOLLIN : 0u) | (!l->in_shut && buf_len(&l->down) > 0 ? EPOLLOUT : 0u));
}

static void pump(struct link *l);

static void go_on(void *arg)
{
	struct link *l = arg;

	l->yielded = false;
	if (!l->dead)
		pump(l);
}

static void pass(struct link *l)
{
	bool moved = true;

	for (int i = 0; i < PASSES && moved; i++) {
		moved = from_net(l);
		moved |= to_in(l);
		moved |= from_in(l);
		moved |= to_net(l);
	}
	ends(l);
	if (l->dead)
		return;
	watch_again(l);
	if (moved && !l->yielded) { /* TLS may hold what no event tells of */
		l->yielded = true;
		loop_yield(l->loop, go_on, l);
	}
}

static void pump(struct link *l)
{
	size_t before;
	int r;

	l->want_write = false;
	if (l->fn == NULL) {
		pass(l);
		return;
	}
	if (!l->ready) {
		ERR_clear_error();
		r = SSL_do_handshake(l->ssl);
		if (r != 1) {
			if (broken(l, r)) {
				l->fn(l->arg, LINK_FAILED);
				return;
			}
			watch_again(l);
			return;
		}
		l->ready = true;
		l->fn(l->arg, LINK_READY);
		if (l->dead || l->fn == NULL)
			return;
	}
	to_net(l);
	before = buf_len(&l->down);
	from_net(l);
	if (buf_len(&l->down) > before) {
		l->fn(l->arg, LINK_INPUT);
		if (l->dead || l->fn == NULL)
			return;
	}
	if (l->net_eof || l->net_shut) {
		l->fn(l->arg, LINK_FAILED);
		return;
	}
	watch_again(l);
}

static void on_net(struct watch *w, uint32_t events)
{
	struct link *l = (struct link *)((char *)w - offsetof(struct link, net));

	/* both directions are over: what is there is read as there is room, without events, which would not end */
	if (events & (EPOLLHUP | EPOLLERR)) {
		watch_stop(&l->net);
		buf_clear(&l->up);
		l->net_shut = true;
	}
	pump(l);
}

static void on_gone(struct timer *t) { link_free((struct link *)((char *)t - offsetof(struct link, gone))); }

static void on_in(struct watch *w, uint32_t events)
{
	struct link *l = (struct link *)((char *)w - offsetof(struct link, in));

	if (events & (EPOLLHUP | EPOLLERR)) { /* the worker's end is closed: what it sent before is still there */
		watch_stop(&l->in);
		buf_clear(&l->down);
		l->in_shut = true;
		timer_start(l->loop, &l->gone, GONE_MS, on_gone);
	}
	pump(l);
}

struct link *link_new(struct link_ctx *ctx, struct loop *loop, int fd, link_fn *fn, void *arg)
{
	const struct parent *p = ctx->parent;
	struct link *l = must_calloc(1, sizeof(*l));
	const int on = 1;
	bool ok;

	l->loop = loop;
	l->fd = fd;
	l->pair = -1;
	l->fn = fn;
	l->arg = arg;
	l->ssl = SSL_new(ctx->ctx);
	MUST(l->ssl != NULL && SSL_set_fd(l->ssl, fd) == 1);
	if (p->ip.family != 0)
		ok = X509_VERIFY_PARAM_set1_ip(SSL_get0_param(l->ssl), p->ip.family == 4 ? p->ip.b + 12 : p->ip.b, p->ip.family == 4 ? 4 : 16) == 1;
	else
		ok = SSL_set1_host(l->ssl, p->host) == 1 && SSL_set_tlsext_host_name(l->ssl, p->host) == 1;
	MUST(ok);
	SSL_set_connect_state(l->ssl);
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	watch_start(loop, &l->net, fd, EPOLLIN | EPOLLOUT, on_net);
	return l;
}

void link_send(struct link *l, const void *p, size_t n)
{
	buf_add(&l->up, p, n);
	if (l->ready && l->net.loop != NULL)
		watch_set(&l->net, EPOLLIN | EPOLLOUT);
}

struct buf *link_input(struct link *l) { return &l->down; }
bool link_verified(const struct link *l) { return l->ready; }
const char *link_cause(const struct link *l) { return l->cause[0] != 0 ? l->cause : "closed the connection without an answer to CONNECT"; }

int link_pass(struct link *l)
{
	int sv[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sv) < 0)
		return -1;
	l->pair = sv[0];
	l->fn = NULL;
	watch_start(l->loop, &l->in, l->pair, EPOLLIN, on_in);
	l->yielded = true;
	loop_yield(l->loop, go_on, l);
	return sv[1];
}
