/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_WORKER_CONN_H
#define SP_WORKER_CONN_H
/*
 * A byte connection: a socket, perhaps TLS on it, an input and an output queue. Registered with epoll once,
 * edge-triggered, so that neither back-pressure nor a request costs an epoll_ctl; a short read means "drained".
 *
 * Rules: the owner's process function is called from the loop, never from within its own calls into conn; output is
 * queued and written once at the end of the turn, or much of it at once; a closed conn is freed at the end of the turn (conn_close, then the
 * owner's free function).
 */
#include <openssl/ssl.h>

#include "../../common/base/buf.h"
#include "../../common/sys/loop.h"

#define CONN_RECORD 16384         /* what a TLS record holds at most: so much is read, and written, at once */
#define CONN_IN_MAX (64 * 1024)   /* input queue: beyond it the peer waits */
#define CONN_OUT_HIGH (128 * 1024)
#define CONN_OUT_LOW (32 * 1024)
#define CONN_OUT_PRESSED (16 * 1024) /* instead of CONN_OUT_HIGH while memory is short */

struct conn;
struct conn_ops {
	void (*process)(struct conn *c); /* new input, end of input, writable again, or a kick */
	void (*free)(struct conn *c);    /* end of turn after conn_close */
};
struct conn {
	const struct conn_ops *ops;
	struct loop *loop;
	struct watch watch;
	int fd;
	SSL *ssl;
	struct buf in, out;
	struct buf pre;      /* bytes read before TLS began, given to it first */
	bool connected;      /* registered with the loop */
	bool readable, writable, rdhup;
	bool more;           /* input may be had without a new event: the last fill stopped for its own reasons */
	bool eof;            /* end of input; clean tells whether it was announced (FIN, or close_notify under TLS) */
	bool eof_clean;
	bool failed;         /* socket or TLS error: nothing more comes or goes */
	bool reads_on;       /* set by the owner: a write that fails ends writing only, what the peer has sent before is still read */
	bool write_failed;   /* then: what is queued for output is thrown away */
	bool more_follows;   /* what is written now is followed by more at once */
	bool paused;         /* do not read: the other side is full */
	bool waited_for;     /* someone was told that out is full: a kick when it is below its low-water mark again */
	bool kicked, yielded, flushing, closed;
	bool shut_after_flush; /* half-close once out is empty */
	bool shut_done;
	uint64_t active_ms;  /* last octet in or out */
	uint64_t bytes_in, bytes_out; /* content as seen above TLS */
	struct conn *prev, *next;     /* list of the worker, for the sweep */
	struct conn_list *list;
	size_t held;         /* see conn_hold */
	size_t accounted;    /* octets that its queues hold, as the list knows */
};
struct conn_list {
	struct conn *head;
	size_t n;
	size_t queued; /* octets that the queues of all hold; of one, up to date since its last fill or flush */
	void (*grew)(struct conn_list *l); /* called when queued did, from within any call into conn; or NULL */
	void *owner;
};
static inline size_t conn_queued(const struct conn *c) { return c->in.cap + c->out.cap + c->pre.cap + c->held; }

/*
 * Takes fd, which may come from another role: whatever it is, nothing waits for it but the loop. False: it is nothing that can be
 * waited for; nothing was taken, and c is as it was.
 */
bool conn_init(struct conn *c, struct loop *l, int fd, const struct conn_ops *ops, struct conn_list *list);
/* Starts TLS on the connection; input queued so far is fed to it. Takes ssl. */
void conn_start_tls(struct conn *c, SSL *ssl);
/* Reads what is there into in, up to its limit. */
void conn_fill(struct conn *c);
/* Schedules a write of out for the end of this turn. */
void conn_flush_later(struct conn *c);
void conn_flush_now(struct conn *c);
/* Queues p[0..n) for output, after what is queued. Much at once is written from where it lies, all but its end. */
void conn_send(struct conn *c, const uint8_t *p, size_t n);
/* Whether out holds more than high; who asks then waits for a kick. */
bool conn_full(struct conn *c, size_t high);
void conn_kick(struct conn *c);  /* process() at the end of this turn */
void conn_yield(struct conn *c); /* process() at the end of the next turn: others come first */
void conn_close(struct conn *c); /* idempotent */
void conn_abort(struct conn *c); /* as conn_close, with a TCP reset */
void conn_idle_trim(struct conn *c); /* frees empty queues */
/* The owner holds so many octets more, or less, for this connection elsewhere. */
void conn_hold(struct conn *c, ptrdiff_t n);
BIO_METHOD *conn_bio_method(void); /* made once, before confinement */
#endif
