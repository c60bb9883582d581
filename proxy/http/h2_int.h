/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_HTTP_H2_INT_H
#define SP_HTTP_H2_INT_H
/*
 * What the files of the HTTP/2 core share: h2.c connection and streams, h2_events.c what nghttp2 tells, h2_head.c heads
 * received, h2_write.c sending, h2_budget.c.
 */
#include <nghttp2/nghttp2.h>

#include "h2.h"

/* --- h2_budget.c: one budget for all that a peer may do too often ---------------------------------------------------- */

struct h2_budget {
	uint32_t tokens, earned;
	uint64_t refill_ms;
};
/* What an act of the peer costs. */
enum { H2_COST_FRAME = 1,
       H2_COST_SETTINGS = 2,
       H2_COST_RESET = 2,
       H2_COST_INVALID = 4 };
void h2_budget_init(struct h2_budget *b, uint64_t now_ms);
bool h2_budget_spend(struct h2_budget *b, uint64_t now_ms, uint32_t cost); /* false: over */
/* For frames that answer DATA of ours (WINDOW_UPDATE, PING): paid from what our DATA earned, else from the budget. */
bool h2_budget_answer(struct h2_budget *b, uint64_t now_ms);
void h2_budget_earn(struct h2_budget *b, size_t data_sent);
void h2_budget_refund(struct h2_budget *b); /* a stream ended well */

/* --- h2_head.c: a head as it comes in; one per connection, since nothing may stand between its frames ----------------- */

enum h2_head_kind { H2_HEAD_NONE = 0,
		    H2_HEAD_REQUEST,
		    H2_HEAD_RESPONSE,
		    H2_HEAD_TRAILERS };
enum h2_pseudo { H2_P_METHOD = 0,
		 H2_P_SCHEME,
		 H2_P_AUTHORITY,
		 H2_P_PATH,
		 H2_P_PROTOCOL,
		 H2_P_STATUS,
		 H2_P_N };
struct h2_head {
	enum h2_head_kind kind;
	bool upstream; /* sent by an upstream: faults are 502, white space around values is trimmed */
	bool regular;  /* a regular field was seen */
	bool te_trailers;
	struct http_fault fault; /* the first; reason NULL: none */
	struct arena arena;
	size_t size;
	struct str pseudo[H2_P_N]; /* well-formed by themselves; p NULL: absent */
	unsigned hosts, lengths, auths, expects, crumbs, ws_versions;
	struct str host, length, expect, ws_version;
	unsigned cookie_at; /* index of the Cookie field when crumbs > 0 */
	struct buf cookie;
	union {
		struct http_request req; /* trailers: its fields */
		struct http_response res;
	};
};
void h2_head_fini(struct h2_head *h);
void h2_head_start(struct h2_head *h, enum h2_head_kind kind, bool upstream);
void h2_head_field(struct h2_head *h, const struct h2_limits *lim, struct str name, struct str value);
/* At the end of the head. False: h->fault. end: END_STREAM. */
bool h2_head_request(struct h2_head *h, const struct h2_config *c, bool end);
bool h2_head_response(struct h2_head *h, bool to_head, bool end);
bool h2_head_trailers(struct h2_head *h, bool end);
bool h2_head_bad(struct h2_head *h, uint16_t status, const char *reason); /* false */

/* --- h2.c ------------------------------------------------------------------------------------------------------------ */

struct h2_stream {
	struct h2 *s;
	struct h2_stream *prev, *next;	 /* all streams, or s->ended */
	struct h2_stream *wprev, *wnext; /* s->writable */
	void *user;
	int32_t id;
	bool owned;	/* events are wanted */
	bool opened;	/* its HEADERS went out, or came in */
	bool closed;	/* nghttp2 has forgotten it */
	bool reset;	/* RST_STREAM of ours is queued or sent */
	bool by_owner;	/* it was the owner's wish, no fault of the peer */
	bool head_done; /* the request or final response came, or may not come any more */
	bool peer_end, peer_reset;
	bool to_head;		       /* client: the request is HEAD */
	bool tunnel;		       /* extended CONNECT: DATA is no content */
	bool discard;		       /* what still comes is not wanted */
	bool head_sent, eof, end_sent; /* ours: final head queued; nothing is added to out; END_STREAM went out */
	bool head_out; /* ours: the final head went out */
	uint32_t abort; /* code of the RST_STREAM that follows what is queued; 0: none does */
	bool was_full, on_writable;
	bool limited;  /* the peer's content has a length */
	uint64_t left; /* of it */
	size_t unconsumed;
	bool lingers; /* answered and left before the peer's end */
	size_t lingered;
	uint64_t linger_ms;
	struct buf out;
	uint64_t sent, mark_sent, mark_ms; /* h2_reap */
	struct h2_trailers *trailers;	   /* sent behind out */
};

#define H2_RECENT 128
struct h2 {
	nghttp2_session *ng;
	struct h2_config c;
	const struct h2_events *ev;
	void *arg;
	uint64_t now_ms;
	struct h2_budget budget;
	struct h2_head *head;	   /* while one comes in, and to the end of that h2_feed */
	struct h2_stream *head_of; /* whose head is being received; NULL: it is not looked at */
	struct h2_stream *streams, *ended, *writable;
	unsigned n, active; /* of streams; those that nghttp2 knows */
	size_t queued; /* octets in `out` of all streams */
	uint32_t continuations;
	int32_t last_id; /* highest the peer opened */
	/* Streams that ended lately: what still comes for them may have been under way, or is a fault (RFC 9113 5.1). */
	struct {
		int32_t id;
		bool peer_done;
	} recent[H2_RECENT];
	unsigned recent_at;
	/* Where in the peer's stream of frames we are: octets to pass over, then a header (for PRIORITY with what it depends on). */
	size_t skip;
	uint8_t peek[13], peek_n, peek_want;
	void *frame; /* nghttp2's buffer of a frame that is being sent, at the start of a page; NULL: it is not known */
	bool drained; /* it holds nothing */
	struct buf *out; /* during h2_output */
	size_t out_end;
	bool paused;
	bool busy; /* inside one of the four functions that call events */
	bool over, lost, fault_told;
	bool peer_goaway;
	uint8_t shutdown;
	struct http_fault fault;
};

struct h2_stream *h2_stream_new(struct h2 *s, int32_t id);
void h2_stream_rst(struct h2_stream *st, uint32_t code);
void h2_stream_linger(struct h2_stream *st);
/* The owner hears no more of it. True if it had one: the last event may be called. */
bool h2_stream_disown(struct h2_stream *st);
/* To be called when nghttp2 or the owner has forgotten it: once both have, it goes at the end of the turn. */
void h2_stream_release(struct h2_stream *st);

/* --- h2_events.c ----------------------------------------------------------------------------------------------------- */
void h2_callbacks(nghttp2_session_callbacks *cb);
void h2_frame_header(struct h2 *s, const nghttp2_frame_hd *hd); /* before nghttp2 sees it */
void h2_frame_priority(struct h2 *s, int32_t id, int32_t on);
/* GOAWAY; the owner hears `reason` when the turn ends. */
void h2_terminate(struct h2 *s, uint32_t code, const char *reason);

/* --- h2_write.c ------------------------------------------------------------------------------------------------------ */
void h2_trailers_free(struct h2_trailers *t);
ssize_t h2_read_cb(nghttp2_session *ng, int32_t id, uint8_t *buf, size_t n, uint32_t *flags, nghttp2_data_source *src, void *arg);
int h2_send_data_cb(nghttp2_session *ng, nghttp2_frame *fr, const uint8_t *hd, size_t n, nghttp2_data_source *src, void *arg);
ssize_t h2_length_cb(nghttp2_session *ng, uint8_t type, int32_t id, int32_t sw, int32_t stw, uint32_t max, void *arg);
void h2_submit_trailers(struct h2_stream *st);
bool h2_trailers_wait(const struct h2_stream *st);
#endif
