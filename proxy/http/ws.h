/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_HTTP_WS_H
#define SP_HTTP_WS_H
/*
 * WebSocket (RFC 6455, over HTTP/2 RFC 8441), free of I/O: the fields of the handshake, and the frames of one direction.
 * Strict: what an endpoint has to fail on is a fault here, so that no frame reaches the other side that both could read
 * differently. No extension is ever agreed on: reserved bits are faults.
 */
#include "head.h"

/* Close codes (RFC 6455 7.4, and the registry) that callers use. */
enum { WS_CLOSE_NORMAL = 1000,
       WS_CLOSE_GOING_AWAY = 1001,
       WS_CLOSE_PROTOCOL = 1002,
       WS_CLOSE_NONE = 1005,     /* a Close frame without a code; never sent */
       WS_CLOSE_ABNORMAL = 1006, /* no Close frame; never sent */
       WS_CLOSE_DATA = 1007,
       WS_CLOSE_POLICY = 1008,
       WS_CLOSE_TOO_BIG = 1009,
       WS_CLOSE_RESTART = 1012, /* connect again: it would be served */
       WS_CLOSE_AGAIN = 1013,   /* later */
       WS_CLOSE_BAD_GATEWAY = 1014 };

/* --- handshake ------------------------------------------------------------------------------------------------------- */

#define WS_KEY_LEN 24    /* base64 of 16 octets */
#define WS_ACCEPT_LEN 28 /* base64 of 20 octets */

bool ws_key_ok(struct str key); /* canonical base64 of 16 octets */
/* What Sec-WebSocket-Accept is the hash of: 60 octets. */
void ws_accept_input(struct str key, char out[60]);
/*
 * Makes the handshake's fields those that go upstream, before the request is decided: no extension is offered, the key is
 * `key` (it must live as long as the request), the version 13. False: *fault; the offered subprotocols are no list of names.
 */
bool ws_request_fields(struct http_request *r, struct str key, struct http_fault *fault);
/*
 * Is r, which says that the protocol is switched (101, or 2xx over HTTP/2), the answer to what was asked? accept: what
 * Sec-WebSocket-Accept must be; STR_NONE over HTTP/2, which has none. Of its WebSocket fields only the chosen subprotocol, put
 * into *subprotocol, stays. False: *reason says what is wrong.
 */
bool ws_response_fields(struct http_response *r, struct http_fields *request, struct str accept, struct str *subprotocol, const char **reason);

/* --- frames ---------------------------------------------------------------------------------------------------------- */

enum ws_opcode { WS_CONTINUATION = 0,
		 WS_TEXT = 1,
		 WS_BINARY = 2,
		 WS_CLOSE = 8,
		 WS_PING = 9,
		 WS_PONG = 10 };
#define WS_CONTROL_MAX 125 /* octets of a control frame's payload (RFC 6455 5.5) */
#define WS_HEADER_MAX 14

struct ws_utf8 {
	uint8_t more, low, high; /* octets that the character still has; between which the next one is */
};
/* Octets in, pieces out. The members above the line are the caller's to set; the rest starts zeroed. */
struct ws_parser {
	bool masked;          /* frames must be: they come from the client's side (RFC 6455 5.1) */
	uint64_t message_max; /* octets of a message; 0: as many as there are */
	/* --- */
	bool closed;     /* a Close frame was read: what comes behind it means nothing and is thrown away */
	bool in_frame, in_message, fin, text; /* text: the message is, and has to be UTF-8 (RFC 6455 8.1) */
	struct ws_utf8 utf8;
	uint8_t opcode;
	uint8_t head[WS_HEADER_MAX], head_n, key[4];
	unsigned key_at; /* octet of the key that is next */
	uint64_t left;   /* of the frame's payload */
	uint64_t message; /* octets of the message so far, this frame's included */
	uint8_t control[WS_CONTROL_MAX], control_n;
};
enum ws_kind { WS_NOTHING = 0, /* octets were taken; more are needed */
	       WS_FRAME,       /* the header of a data frame: fin, opcode, length. With length 0 the frame is over. */
	       WS_DATA,        /* p, n: of the payload; in the caller's memory, unmasked there */
	       WS_CONTROL };   /* a whole control frame: opcode, p, n */
struct ws_piece {
	enum ws_kind kind;
	uint8_t opcode;
	bool fin;
	uint64_t length;
	uint8_t *p;
	size_t n;
	bool end; /* WS_DATA: the last of its frame, whose fin is told again */
};
struct ws_fault {
	const char *reason; /* static: "ws_mask", "ws_length" … */
	uint16_t code;      /* of the Close frame that answers it */
};
/* Takes octets from in[0..n), n > 0. Returns how many, at least one; -1: *fault, and the parser is of no further use. */
long ws_feed(struct ws_parser *w, uint8_t *in, size_t n, struct ws_piece *piece, struct ws_fault *fault);
/* Nothing of an unfinished frame was read. */
static inline bool ws_between_frames(const struct ws_parser *w) { return !w->in_frame && w->head_n == 0; }
/* The code in the payload of a Close frame that was read, or WS_CLOSE_NONE. */
bool ws_is_utf8(struct str s); /* strict, as text has to be (RFC 3629) */
uint16_t ws_close_code(const uint8_t *payload, size_t n);

/* A frame's header, in its only form; mask: its key, or NULL. Returns its length. */
size_t ws_header(uint8_t out[WS_HEADER_MAX], uint8_t opcode, bool fin, uint64_t length, const uint8_t *mask);
/* XORs with the key, from its octet at % 4 on: masks, and unmasks. */
void ws_mask(uint8_t *p, size_t n, const uint8_t key[4], size_t at);
#endif
