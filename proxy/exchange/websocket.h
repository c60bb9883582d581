/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_EXCHANGE_WEBSOCKET_H
#define SP_EXCHANGE_WEBSOCKET_H
/*
 * An exchange that is a WebSocket: a handshake, which is a request like any other until its answer switches the protocol,
 * then two streams of frames, until either side ends.
 *
 *   exchange_start -> websocket_begin -> [decided as WEBSOCKET, secrets, upstream] -> websocket_head -> frames -> websocket_over
 *
 * An answer that does not switch is an answer, and the exchange goes on as if it had not asked. The frames of both sides are
 * parsed and written anew (filter/frames.h); a fault on either side ends both.
 */
#include "../filter/frames.h"
#include "exchange.h"
#include "message.h"

struct websocket {
	bool open;         /* switched */
	bool listed;       /* the host knows of it */
	char key[WS_KEY_LEN + 1], accept[WS_ACCEPT_LEN + 1]; /* ours toward the upstream */
	struct str client_key; /* STR_NONE over HTTP/2 */
	struct str subprotocol;
	struct http_field *asked; /* the handshake's fields as they were decided on */
	unsigned asked_n;
	struct frames up, down;   /* to the upstream, to the client */
	struct messages messages; /* to the upstream: placeholders in them */
	uint64_t closing_ms;      /* loop time since which one side is done; 0: none is */
	uint16_t close_code;      /* of the first Close frame, 0: none passed, */
	const char *closed_by;    /* which came from there; static */
	struct exchange *prev, *next; /* the host's list */
};

void websocket_warm(void); /* what OpenSSL loads lazily, before confinement */
/* The head asks for a WebSocket. False: *f. */
bool websocket_begin(struct exchange *x, struct http_fault *f);
/* It is allowed: what it was decided on is kept, so that it can be decided again. False: *why. */
bool websocket_allowed(struct exchange *x);
/* A response head. True: taken care of; false: it is an ordinary answer. */
bool websocket_head(struct exchange *x, struct http_response *r);
void websocket_up(struct exchange *x, const uint8_t *p, size_t n);   /* octets from the client, in memory of ours */
void websocket_secrets_changed(struct exchange *x); /* what a message waits for may have come */
void websocket_down(struct exchange *x, uint8_t *p, size_t n);
void websocket_over(struct exchange *x);   /* the upstream ended */
bool websocket_waved(const struct exchange *x, bool client); /* that side said that it would close: to be gone is no fault */
uint64_t websocket_idle_ms(const struct exchange *x); /* for the connections: after websocket_tick */
void websocket_tick(struct exchange *x);
/* Decides it by a table that may be another than the one it began with; what that does not allow is ended, politely. */
void websocket_redecide(struct exchange *x, const struct table *t);
void websocket_record(const struct exchange *x, struct buf *b);
void websocket_free(struct exchange *x);
#endif
