/* SPDX-License-Identifier: Apache-2.0 */
#include "conn.h"

#include <errno.h>
#include <openssl/err.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../common/base/must.h"

static BIO_METHOD *method;

static ssize_t sock_read(struct conn *c, void *p, size_t n)
{
	ssize_t k;

	if (buf_len(&c->pre) > 0) {
		size_t take = buf_len(&c->pre) < n ? buf_len(&c->pre) : n;

		memcpy(p, buf_data(&c->pre), take);
		buf_drop(&c->pre, take);
		if (buf_len(&c->pre) == 0)
			buf_fini(&c->pre);
		return (ssize_t)take;
	}
	if (!c->readable) {
		errno = EAGAIN;
		return -1;
	}
	k = recv(c->fd, p, n, MSG_DONTWAIT); /* whoever made the socket may have left it blocking, or make it so */
	if (k < 0 && (errno == EAGAIN || errno == EINTR))
		c->readable = false;
	else if (k > 0 && (size_t)k < n && !c->rdhup)
		c->readable = false; /* edge-triggered: more would be a new event */
	return k;
}

static ssize_t sock_write(struct conn *c, const void *p, size_t n)
{
	ssize_t k;

	if (!c->writable) {
		errno = EAGAIN;
		return -1;
	}
	k = send(c->fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT | (c->more_follows ? MSG_MORE : 0));
	if (k < 0 && (errno == EAGAIN || errno == EINTR))
		c->writable = false;
	return k;
}

static int bio_read(BIO *b, char *p, int n)
{
	struct conn *c = BIO_get_data(b);
	ssize_t k = sock_read(c, p, (size_t)n);

	BIO_clear_retry_flags(b);
	if (k < 0 && (errno == EAGAIN || errno == EINTR))
		BIO_set_retry_read(b);
	else if (k == 0)
		BIO_set_flags(b, BIO_FLAGS_IN_EOF);
	return (int)k;
}

static int bio_write(BIO *b, const char *p, int n)
{
	struct conn *c = BIO_get_data(b);
	ssize_t k = sock_write(c, p, (size_t)n);

	BIO_clear_retry_flags(b);
	if (k < 0 && (errno == EAGAIN || errno == EINTR))
		BIO_set_retry_write(b);
	return (int)k;
}

static long bio_ctrl(BIO *b, int cmd, long num, void *ptr)
{
	(void)num;
	(void)ptr;
	switch (cmd) {
	case BIO_CTRL_FLUSH:
		return 1;
	case BIO_CTRL_EOF:
		return BIO_test_flags(b, BIO_FLAGS_IN_EOF) != 0;
	default:
		return 0;
	}
}

BIO_METHOD *conn_bio_method(void)
{
	if (method == NULL) {
		method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "sallyport conn");
		MUST(method != NULL);
		BIO_meth_set_read(method, bio_read);
		BIO_meth_set_write(method, bio_write);
		BIO_meth_set_ctrl(method, bio_ctrl);
	}
	return method;
}

static void account(struct conn *c)
{
	size_t n = conn_queued(c), before = c->accounted;

	c->list->queued += n - before;
	c->accounted = n;
	if (n > before && c->list->grew != NULL)
		c->list->grew(c->list);
}

void conn_hold(struct conn *c, ptrdiff_t n)
{
	if (c->closed)
		return;
	c->held = (size_t)((ptrdiff_t)c->held + n);
	account(c);
}

static void on_event(struct watch *w, uint32_t events)
{
	struct conn *c = (struct conn *)((char *)w - offsetof(struct conn, watch));

	if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		c->readable = c->more = true;
	if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		c->rdhup = true;
	if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) {
		bool was = c->writable;

		c->writable = true;
		if (!was && buf_len(&c->out) > 0)
			conn_flush_later(c);
	}
	c->ops->process(c);
}

bool conn_init(struct conn *c, struct loop *l, int fd, const struct conn_ops *ops, struct conn_list *list)
{
	if (fd >= 0 && !watch_try(l, &c->watch, fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, on_event))
		return false;
	c->ops = ops;
	c->loop = l;
	c->fd = fd;
	c->list = list;
	c->next = list->head;
	if (list->head != NULL)
		list->head->prev = c;
	list->head = c;
	list->n++;
	c->active_ms = loop_now_ms(l);
	if (fd >= 0) {
		c->connected = true;
		/* try at once: data is often there already, and a socket just made is writable */
		c->readable = c->writable = c->more = true;
	}
	return true;
}

void conn_start_tls(struct conn *c, SSL *ssl)
{
	BIO *b = BIO_new(conn_bio_method());

	MUST(b != NULL);
	BIO_set_data(b, c);
	BIO_set_init(b, 1);
	SSL_set_bio(ssl, b, b);
	c->ssl = ssl;
	c->more = true;
	buf_adds(&c->pre, buf_str(&c->in));
	buf_fini(&c->in);
}

/*
 * SSL_has_pending is no measure of what could be read: it is true for half a record too, which only the socket can make
 * whole. Asking it whether to try again made a loop without end of an upload that stopped within a record.
 */
static void tls_fill(struct conn *c)
{
	for (;;) {
		if (buf_len(&c->in) >= CONN_IN_MAX)
			return; /* more may be there */
		uint8_t *p = buf_room(&c->in, CONN_RECORD);
		size_t n = 0;
		int r = SSL_read_ex(c->ssl, p, CONN_RECORD, &n), e;

		if (r == 1) {
			buf_commit(&c->in, n);
			c->bytes_in += n;
			c->active_ms = loop_now_ms(c->loop);
			continue;
		}
		c->more = false;
		e = SSL_get_error(c->ssl, r);
		if (e == SSL_ERROR_WANT_READ || e == SSL_ERROR_WANT_WRITE)
			return;
		c->eof = true;
		if (e == SSL_ERROR_ZERO_RETURN)
			c->eof_clean = true;
		else
			c->failed = true;
		ERR_clear_error();
		return;
	}
}

void conn_fill(struct conn *c)
{
	if (c->eof || c->failed)
		c->more = false; /* whatever the socket's events say: who goes on while there is more would do so without end */
	if (c->closed || c->eof || c->failed || c->paused)
		return;
	if (c->ssl != NULL) {
		if (c->more) {
			tls_fill(c);
			account(c);
		}
		return;
	}
	while (c->readable && buf_len(&c->in) < CONN_IN_MAX) {
		uint8_t *p = buf_room(&c->in, CONN_RECORD);
		ssize_t k = sock_read(c, p, CONN_RECORD);

		if (k > 0) {
			buf_commit(&c->in, (size_t)k);
			c->bytes_in += (uint64_t)k;
			c->active_ms = loop_now_ms(c->loop);
		} else if (k == 0) {
			c->eof = c->eof_clean = true;
			break;
		} else if (errno != EAGAIN && errno != EINTR) {
			c->eof = c->failed = true;
			break;
		} else {
			break;
		}
	}
	c->more = c->readable && !c->eof;
	account(c);
}

static void write_fails(struct conn *c)
{
	if (!c->reads_on) {
		c->failed = true;
		return;
	}
	c->write_failed = c->readable = c->more = true;
	conn_kick(c);
}

/* Writes once, of p[0..n): a record under TLS. Octets taken; 0: not now, or never (failed, write_failed). more: others follow in this turn. */
static size_t write_some(struct conn *c, const uint8_t *p, size_t n, bool more)
{
	size_t took = 0;

	if (c->ssl != NULL) {
		int r, e;

		/* a record a call: they leave together, in segments as large as they may be */
		c->more_follows = more || n > SSL3_RT_MAX_PLAIN_LENGTH;
		r = SSL_write_ex(c->ssl, p, n, &took);
		c->more_follows = false;
		if (r != 1) {
			e = SSL_get_error(c->ssl, r);
			if (e != SSL_ERROR_WANT_READ && e != SSL_ERROR_WANT_WRITE) {
				ERR_clear_error();
				write_fails(c);
			}
			return 0;
		}
	} else {
		ssize_t k = sock_write(c, p, n);

		if (k < 0) {
			if (errno != EAGAIN && errno != EINTR)
				write_fails(c);
			return 0;
		}
		took = (size_t)k;
	}
	c->bytes_out += took;
	c->active_ms = loop_now_ms(c->loop);
	return took;
}

void conn_flush_now(struct conn *c)
{
	size_t n;

	if (c->closed)
		return;
	if (c->write_failed)
		buf_clear(&c->out);
	while (buf_len(&c->out) > 0 && !c->failed && !c->write_failed && (n = write_some(c, buf_data(&c->out), buf_len(&c->out), false)) > 0)
		buf_drop(&c->out, n);
	account(c);
	if (c->failed) {
		conn_kick(c);
		return;
	}
	if (buf_len(&c->out) == 0 && c->shut_after_flush && !c->shut_done) {
		c->shut_done = true;
		if (c->ssl != NULL && SSL_is_init_finished(c->ssl)) {
			SSL_shutdown(c->ssl);
			ERR_clear_error();
		}
		shutdown(c->fd, SHUT_WR);
		conn_kick(c);
	} else if (c->waited_for && buf_len(&c->out) <= CONN_OUT_LOW) {
		c->waited_for = false;
		conn_kick(c);
	}
}

/*
 * The last octets always wait for the end of the turn: they may be the last of a response, whose record is written before the
 * client can have it whole.
 */
void conn_send(struct conn *c, const uint8_t *p, size_t n)
{
	/* whole records, but for the last: a piece cut anywhere else would make one more */
	size_t whole = n > 0 ? (n - 1) / CONN_RECORD * CONN_RECORD : 0, k;

	if (whole > 0) {
		conn_flush_now(c);
		while (whole > 0 && !c->closed && buf_len(&c->out) == 0 && !c->failed && !c->write_failed && (k = write_some(c, p, whole, true)) > 0) {
			p += k;
			n -= k;
			whole -= k;
		}
	}
	if (c->closed) /* memory is short */
		return;
	buf_add(&c->out, p, n); /* what OpenSSL could not write is offered to it again from its first octet on */
	conn_flush_later(c);
}

bool conn_full(struct conn *c, size_t high)
{
	bool full = buf_len(&c->out) > high;

	c->waited_for = c->waited_for || full; /* who was told so before still waits */
	return full;
}

static void flush_deferred(void *arg)
{
	struct conn *c = arg;

	c->flushing = false;
	if (!c->closed)
		conn_flush_now(c);
}

void conn_flush_later(struct conn *c)
{
	if (c->closed)
		return;
	account(c);
	if (c->flushing)
		return;
	c->flushing = true;
	loop_defer(c->loop, flush_deferred, c);
}

static void kick_deferred(void *arg)
{
	struct conn *c = arg;

	c->kicked = false;
	if (!c->closed)
		c->ops->process(c);
}

void conn_kick(struct conn *c)
{
	if (c->kicked || c->closed)
		return;
	c->kicked = true;
	loop_defer(c->loop, kick_deferred, c);
}

static void yield_deferred(void *arg)
{
	struct conn *c = arg;

	c->yielded = false;
	if (!c->closed)
		c->ops->process(c);
}

void conn_yield(struct conn *c)
{
	if (c->yielded || c->kicked || c->closed)
		return;
	c->yielded = true;
	loop_yield(c->loop, yield_deferred, c);
}

static void free_deferred(void *arg)
{
	struct conn *c = arg;

	if (c->yielded) { /* its call is still to come */
		loop_yield(c->loop, free_deferred, c);
		return;
	}
	/* a deferred flush or kick of this conn, queued before the close, has run by now: the queue is in order */
	c->ops->free(c);
}

void conn_close(struct conn *c)
{
	if (c->closed)
		return;
	c->closed = true;
	if (c->connected)
		watch_stop(&c->watch);
	if (c->ssl != NULL) {
		/* without this SSL_free throws the session away that could be resumed */
		if (!c->failed)
			SSL_set_shutdown(c->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
		SSL_free(c->ssl);
		c->ssl = NULL;
	}
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
	buf_fini_secret(&c->in);
	buf_fini_secret(&c->out);
	buf_fini(&c->pre);
	c->held = 0;
	account(c);
	if (c->prev != NULL)
		c->prev->next = c->next;
	else
		c->list->head = c->next;
	if (c->next != NULL)
		c->next->prev = c->prev;
	c->list->n--;
	loop_defer(c->loop, free_deferred, c);
}

void conn_abort(struct conn *c)
{
	struct linger lg = { .l_onoff = 1, .l_linger = 0 };

	if (!c->closed && c->fd >= 0)
		setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg));
	conn_close(c);
}

void conn_idle_trim(struct conn *c)
{
	if (buf_len(&c->in) == 0)
		buf_fini_secret(&c->in);
	if (buf_len(&c->out) == 0)
		buf_fini_secret(&c->out);
	account(c);
}
