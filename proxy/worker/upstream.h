/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_WORKER_UPSTREAM_H
#define SP_WORKER_UPSTREAM_H
/*
 * What the files of upstream connections share: upstream.c origins, dialing, pool; upstream_h1.c and upstream_h2.c what is
 * spoken on a connection.
 */
#include "worker.h"

enum up_state { UP_DIALING = 0, UP_HANDSHAKE, UP_IDLE, UP_BUSY, UP_H2 };
struct upstream_h2;
struct upstream {
	struct conn c; /* first: conn callbacks cast */
	struct upstream_half half;
	struct worker *w;
	struct upstreams *all;
	struct origin *origin;
	enum up_state state;
	struct upstream *next_dialing, **prev_dialing; /* while it has no socket */
	uint64_t since_ms, since_us;
	struct upstream *next;       /* of the origin's pool, newest first, or of its HTTP/2 connections */
	struct dial_waiter waiter;
	uint64_t dial_id;
	struct upstream_facts facts;
	struct upstream_h2 *h2;      /* in UP_H2 */
	/* UP_HANDSHAKE, with a client certificate */
	enum { SIGN_NOT = 0, SIGN_ASKED, SIGN_HAVE, SIGN_FAILED } sign;
	uint64_t sign_id;
	struct buf signature; /* or the cause */
	/* HTTP/1.1: request being written */
	enum http_framing req_framing;
	/* response being read */
	bool head_done, in_body, request_done;
	bool tunnel; /* the protocol was switched to WebSocket's */
	size_t scan;
	uint64_t head_ms; /* since when a response head is unfinished, as the sweep saw it; 0: none is */
	struct h1_body body;
	struct buf trailer; /* of the response, while the client wants one */
	bool resp_keep;
};

/* --- upstream.c ------------------------------------------------------------------------------------------------------ */
/* Fresh and verified, or free again: to the exchange that waits longest, else into the pool. */
void upstream_free_again(struct upstream *u, bool reused);
/* The exchange that waits longest for this origin and can be served here; it is the caller's to serve. NULL: none. */
struct exchange *upstream_next_waiting(struct upstream *u);
/* The origin said that it wants HTTP/1.1: no more of its connections is offered HTTP/2. */
void upstream_h1_required(struct upstream *u);
/* An HTTP/2 connection takes no more exchanges: it is forgotten, and others are made for those who wait. */
void upstream_h2_over(struct upstream *u, bool known); /* known: upstream_h2_known was called */
/* Its peer said for the first time what it can do: WebSockets that cannot come here go elsewhere. */
void upstream_h2_known(struct upstream *u);

/* --- upstream_h1.c --------------------------------------------------------------------------------------------------- */
extern const struct upstream_half_ops upstream_h1_ops;
void upstream_h1_give(struct upstream *u, struct exchange *x, bool reused);
void upstream_h1(struct upstream *u); /* process, in UP_BUSY */
void upstream_h1_sweep(struct upstream *u, uint64_t now);

/* --- upstream_h2.c --------------------------------------------------------------------------------------------------- */
void upstream_h2_start(struct upstream *u);
bool upstream_h2_may_open(const struct upstream *u);
enum h2_websocket { H2_WS_UNKNOWN = 0, H2_WS_NO, H2_WS_YES };
enum h2_websocket upstream_h2_websocket(const struct upstream *u); /* does the peer speak RFC 8441? */
void upstream_h2_give(struct upstream *u, struct exchange *x); /* only when it may */
void upstream_h2(struct upstream *u); /* process */
void upstream_h2_sweep(struct upstream *u, uint64_t now, bool old); /* old: no exchange will use it again */
#endif
