/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_HTTP_H2_H
#define SP_HTTP_H2_H
/*
 * HTTP/2 (RFC 9113), free of I/O: bytes in, events out, output pulled. One session object is one connection, in the
 * server's role toward a sandbox or in the client's toward an upstream. Framing, HPACK and flow control are nghttp2's;
 * what a message may look like, what is counted as abuse and who hears of it is decided here.
 *
 * The owner's loop, for every read from the connection:
 *     h2_feed (again until all is taken)  ->  h2_output  ->  write
 *
 * Streams. A handle is made known by the events request and malformed, or returned by h2_submit. It dies, and must not be
 * used again, when the event broken or reset was called for it, when malformed was called with status 400, or when its
 * owner said h2_leave, h2_reset or h2_abort; no event comes for it afterwards. A stream that ended well on both sides lives until
 * h2_leave. Events are called from inside h2_feed, h2_output, h2_reap and h2_lost only; in them everything may be called
 * but these four and h2_free.
 *
 * Strings of heads borrow from the arena that comes with them. The owner keeps them by taking the arena: copy the struct
 * and zero the one it was given (*a = (struct arena){ 0 }); otherwise they end with the call. The octets
 * of values are in the arena and may be overwritten in place.
 *
 * A Content-Length and the sum of DATA always agree: a stream where they do not is broken before its end is told.
 * An unknown length is told as HTTP_BODY_CHUNKED.
 */
#include "head.h"

#define H2_DATA_MAX 16375  /* with the frame header one TLS record (16,384 octets) */
#define H2_SLICE_MAX 16384 /* h2_feed takes no more at a time */
#define H2_PAGE 4096

/* Error codes (RFC 9113 7) that callers use. */
enum { H2_NO_ERROR = 0,
       H2_PROTOCOL_ERROR = 1,
       H2_INTERNAL_ERROR = 2,
       H2_FLOW_CONTROL_ERROR = 3,
       H2_STREAM_CLOSED = 5,
       H2_REFUSED_STREAM = 7,
       H2_CANCEL = 8,
       H2_COMPRESSION_ERROR = 9,
       H2_ENHANCE_YOUR_CALM = 11,
       H2_HTTP_1_1_REQUIRED = 13 };

struct h2_limits {
	uint32_t head_max;		/* octets of names and values of a head, 32 more per field (RFC 9113 6.5.2): 65536 -> 431 */
	uint32_t fields_max;		/* <= HTTP_FIELDS_MAX: 100 -> 431; a Cookie in crumbs is one field */
	uint32_t crumbs_max;		/* of Cookie, all in head_max too: 100 -> 431 */
	uint32_t line_max;		/* name and value of one field: 16384 -> 431 */
	uint32_t target_max;		/* :path: 16384 -> 414 */
	uint32_t continuations_max;	/* CONTINUATION frames of one head: 8 -> the connection ends */
	uint32_t streams_max;		/* opened by the peer at a time: 100 */
	uint32_t stream_window;		/* what a peer may send on a stream before h2_consumed: 262144 */
	uint32_t connection_window;	/* 4194304; given back at receipt, so that no stream blocks another */
	uint32_t queue_high, queue_low; /* output queue of a stream: h2_full from high on, event writable at low: 65536, 16384 */
	uint32_t linger_octets, linger_ms; /* server: what still comes for a request that was answered is taken and thrown away: 1048576, 2000 */
	uint32_t stall_ms;		/* a stream with queued output that moves less than 1 KiB in this time is reset by h2_reap: 120000 */
};
extern const struct h2_limits h2_limits_default;

struct h2_config {
	bool client;	       /* role */
	bool connect_protocol; /* server: extended CONNECT is offered (RFC 8441); only websocket is taken */
	struct str scheme;     /* server: what :scheme must be; a literal */
	struct h2_limits limits;
};

struct h2;
struct h2_stream;

/* Every member is set; those of the other role are never called and may be NULL. */
struct h2_events {
	/* server: a well-formed request. end: it has no content. host_field is :authority, or Host if there was none. */
	void (*request)(void *arg, struct h2_stream *st, struct http_request *r, struct arena *a, bool end);
	/*
	 * server: a request that is not served; r holds what of it was in order (strings may be STR_NONE). Status 400: the stream was
	 * reset with PROTOCOL_ERROR and the handle is dead. 414, 431: the owner answers it, or resets it.
	 */
	void (*malformed)(void *arg, struct h2_stream *st, struct http_request *r, struct arena *a, const struct http_fault *f);
	/* server: a stream over streams_max was refused by REFUSED_STREAM, its head unread; the client may try it again. */
	void (*refused)(void *arg, uint32_t id);
	/* client: a head, interim (1xx) ones too. end: no content follows. */
	void (*response)(void *arg, struct h2_stream *st, struct http_response *r, struct arena *a, bool end);
	/* both */
	void (*data)(void *arg, struct h2_stream *st, const uint8_t *p, size_t n); /* give back with h2_consumed */
	void (*trailers)(void *arg, struct h2_stream *st, struct http_fields *f, struct arena *a);
	void (*end)(void *arg, struct h2_stream *st);				     /* the peer's message is whole; also after a head with end */
	void (*broken)(void *arg, struct h2_stream *st, const struct http_fault *f); /* malformed behind a request's head, or a response: reset, dead */
	/* The peer, or the connection's end, took the stream away. unprocessed (client): the server did not look at the request. */
	void (*reset)(void *arg, struct h2_stream *st, uint32_t code, bool unprocessed);
	void (*writable)(void *arg, struct h2_stream *st); /* after h2_full: below queue_low */
	void (*settings)(void *arg);			   /* the peer's SETTINGS arrived: h2_may_open, h2_peer_websocket may say otherwise */
	void (*goaway)(void *arg, uint32_t code);	   /* the peer opens and takes no more streams */
	/* The connection is over, no event of a stream follows but from h2_lost: take h2_output, h2_lost, close. Once. */
	void (*fault)(void *arg, const struct http_fault *f);
};

/* The config is copied; events and arg are borrowed. The first output is the connection preface. */
struct h2 *h2_new(const struct h2_config *c, const struct h2_events *ev, void *arg, uint64_t now_ms);
void h2_free(struct h2 *s); /* calls nothing back; NULL is allowed */

/*
 * Takes up to H2_SLICE_MAX octets. Returns how many; 0 when h2_output must be taken first; -1 when the connection is over
 * (what is left of the input means nothing).
 */
long h2_feed(struct h2 *s, uint64_t now_ms, const uint8_t *p, size_t n);
/* Appends output to out until about max octets were added (one frame more at most). */
void h2_output(struct h2 *s, struct buf *out, size_t max);
bool h2_wants_output(const struct h2 *s);
/* Nothing is to be read or written any more: close. */
bool h2_done(const struct h2 *s);
/* Resets streams that stalled (limits.stall_ms): event reset with CANCEL. To be called every few seconds. */
void h2_reap(struct h2 *s, uint64_t now_ms);
/*
 * The *n octets from the result on, whole pages of H2_PAGE, hold nothing now: their memory may be given back (madvise,
 * MADV_DONTNEED) when nothing moves for a while. NULL: there are none.
 */
void *h2_spare(const struct h2 *s, size_t *n);
/* The connection is gone: event reset for every stream that has an owner. Only h2_free may follow. */
void h2_lost(struct h2 *s);
/* Graceful end, in two steps: at first the peer is asked to open no more streams, at the second call none is taken. */
void h2_shutdown(struct h2 *s);
unsigned h2_streams(const struct h2 *s); /* that have an owner or unsent output */
size_t h2_queued(const struct h2 *s);    /* octets in the queues of all streams */
bool h2_in_head(const struct h2 *s);     /* a head has begun to come and is not whole */

/* --- streams --- */
uint32_t h2_stream_id(const struct h2_stream *st);
bool h2_stream_opened(const struct h2_stream *st); /* client: its HEADERS went out; the server may not have let it yet */
void *h2_stream_user(const struct h2_stream *st);
void h2_stream_set_user(struct h2_stream *st, void *user);

/* client: may a request be submitted now, or is another connection needed? */
bool h2_may_open(const struct h2 *s);
bool h2_peer_websocket(const struct h2 *s); /* client: the server offers extended CONNECT */
/*
 * client, only when h2_may_open. Dropped fields are left out, and those that HTTP/2 does not have; framing comes from the
 * arguments. r->upgrade_websocket: an extended CONNECT. end: without content. Never fails.
 */
struct h2_stream *h2_submit(struct h2 *s, const struct http_request *r, struct str scheme, struct str authority, struct str target,
			    enum http_framing framing, uint64_t content_length, bool end, void *user);
/* server: interim or final head. is_head: the request's method was HEAD. end: without content. */
void h2_send_response(struct h2_stream *st, const struct http_response *r, enum http_framing framing, uint64_t content_length, bool is_head, bool end);
void h2_send_data(struct h2_stream *st, const uint8_t *p, size_t n);	  /* queued, whatever the queue holds */
void h2_send_trailers(struct h2_stream *st, const struct http_fields *f); /* and the end */
void h2_send_end(struct h2_stream *st);
bool h2_full(const struct h2_stream *st);	  /* queue at or above queue_high */
bool h2_full_at(struct h2_stream *st, size_t n);  /* the same with a mark of its own: when memory is short */
void h2_consumed(struct h2_stream *st, size_t n); /* n octets of content went on: the peer may send as many more */
void h2_reset(struct h2_stream *st, uint32_t code);
void h2_abort(struct h2_stream *st, uint32_t code); /* as h2_reset, but what is queued is sent before */
/*
 * The owner is done with the stream. What is queued is still sent. A message of ours that has no end yet is reset (CANCEL);
 * content of the peer that has not ended is refused, by a server with NO_ERROR behind the response (RFC 9113 8.1), but not at
 * once: clients that are told of both in one breath, in the middle of an upload, miss the response (limits.linger_*).
 */
void h2_leave(struct h2_stream *st);

/* Is the field sent never-indexed (RFC 7541 6.2.3)? Injected values and what by its name is a credential. */
bool h2_never_indexed(const struct http_field *f);
#endif
