/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An HTTP/2 connection: the session, its streams, and who is told what.
 *
 * nghttp2 does framing, HPACK and windows. Its checks of messages are off (h2_head.c does them), as are its automatic
 * window updates, its memory of closed streams and its priority tree. What it tells us passes through the callbacks below.
 *
 * A stream here has two lives: nghttp2's, from its HEADERS to on_close, and its owner's (h2.h). Its memory is freed at the
 * end of the turn (h2_feed, h2_output, ...) in which both are over, so that nothing on the stack points to freed memory.
 *
 * A connection that misbehaves gets GOAWAY: `over` is set, no event of a stream follows, and when the frame has gone out
 * the owner is told (event fault) and closes. nghttp2 ends a connection by itself too; on_sent sees its GOAWAY go.
 */
#include "h2_int.h"

#include <stdlib.h>

#include "../../common/base/must.h"

#define CONTROL_QUEUE_MAX 64	   /* frames other than DATA that wait for h2_output before no more is read (D07) */
#define SEND_HEAD_MAX (192u << 10) /* a head of head_max, and what was injected */
#define STALL_MIN 1024		   /* octets that count as progress */

const struct h2_limits h2_limits_default = { .head_max = 65536, .fields_max = 100, .crumbs_max = 100, .line_max = 16384, .target_max = 16384, .continuations_max = 8, .streams_max = 100, .stream_window = 262144, .connection_window = 4194304, .queue_high = 65536, .queue_low = 16384, .stall_ms = 120000 };

/* --- streams --------------------------------------------------------------------------------------------------------- */

struct h2_stream *h2_stream_new(struct h2 *s, int32_t id)
{
	struct h2_stream *st = must_calloc(1, sizeof(*st));

	st->s = s;
	st->id = id;
	st->next = s->streams;
	if (s->streams != NULL)
		s->streams->prev = st;
	s->streams = st;
	s->n++;
	s->active++;
	return st;
}

static void not_writable(struct h2_stream *st)
{
	if (!st->on_writable)
		return;
	st->on_writable = false;
	if (st->wprev != NULL)
		st->wprev->wnext = st->wnext;
	else
		st->s->writable = st->wnext;
	if (st->wnext != NULL)
		st->wnext->wprev = st->wprev;
}

static void stream_free(struct h2_stream *st)
{
	buf_fini(&st->out);
	h2_trailers_free(st->trailers);
	free(st);
}

/* To be called when nghttp2 or the owner has forgotten it: once both have, it goes at the end of the turn. */
static void stream_release(struct h2_stream *st)
{
	struct h2 *s = st->s;

	if (st->owned || !st->closed)
		return;
	not_writable(st);
	if (st->prev != NULL)
		st->prev->next = st->next;
	else
		s->streams = st->next;
	if (st->next != NULL)
		st->next->prev = st->prev;
	s->n--;
	if (s->head_of == st)
		s->head_of = NULL;
	st->prev = NULL;
	st->next = s->ended;
	s->ended = st;
}

/* The owner hears no more of it. True if it had one: the last event may be called. */
static bool disown(struct h2_stream *st)
{
	bool had = st->owned;

	st->owned = false;
	return had;
}

void h2_stream_rst(struct h2_stream *st, uint32_t code)
{
	if (st->closed || st->reset)
		return;
	st->reset = true;
	MUST(nghttp2_submit_rst_stream(st->s->ng, NGHTTP2_FLAG_NONE, st->id, code) == 0);
}

uint32_t h2_stream_id(const struct h2_stream *st) { return (uint32_t)st->id; }
void *h2_stream_user(const struct h2_stream *st) { return st->user; }
void h2_stream_set_user(struct h2_stream *st, void *user) { st->user = user; }

void h2_reset(struct h2_stream *st, uint32_t code)
{
	MUST(st->owned);
	st->by_owner = true;
	st->discard = true;
	h2_stream_rst(st, code);
	disown(st);
	stream_release(st);
}

void h2_leave(struct h2_stream *st)
{
	MUST(st->owned);
	st->discard = true;
	if (st->s->c.client ? !st->peer_end || !st->end_sent : !st->eof) {
		st->by_owner = true;
		h2_stream_rst(st, H2_CANCEL);
	} else if (!st->peer_end && st->end_sent) {
		h2_stream_rst(st, H2_NO_ERROR);
	}
	disown(st);
	stream_release(st);
}

void h2_consumed(struct h2_stream *st, size_t n)
{
	MUST(n <= st->unconsumed);
	st->unconsumed -= n;
	if (!st->closed && !st->reset)
		nghttp2_session_consume_stream(st->s->ng, st->id, n);
}

/* Malformed behind the head of a request, or a response: the stream ends. */
static void broken(struct h2_stream *st, const struct http_fault *f)
{
	h2_stream_rst(st, H2_PROTOCOL_ERROR);
	if (disown(st))
		st->s->ev->broken(st->s->arg, st, f);
}

static void broken_by(struct h2_stream *st, const char *reason)
{
	struct http_fault f = { 400, "malformed_request", reason };

	if (st->s->c.client)
		f = (struct http_fault){ 502, "upstream_protocol", reason };
	broken(st, &f);
}

/* --- the end of a connection ----------------------------------------------------------------------------------------- */

static void terminate(struct h2 *s, uint32_t code, const char *reason)
{
	if (s->over)
		return;
	s->over = true;
	s->fault = (struct http_fault){ 400, "malformed_request", reason };
	if (s->c.client)
		s->fault = (struct http_fault){ 502, "upstream_protocol", reason };
	nghttp2_session_terminate_session(s->ng, code);
}

static void spend(struct h2 *s, uint32_t cost)
{
	if (!s->over && !h2_budget_spend(&s->budget, s->now_ms, cost))
		terminate(s, H2_ENHANCE_YOUR_CALM, "h2_flood");
}

static const char *reason_of(uint32_t code)
{
	switch (code) {
	case NGHTTP2_PROTOCOL_ERROR:
		return "h2_protocol";
	case NGHTTP2_FLOW_CONTROL_ERROR:
		return "h2_flow_control";
	case NGHTTP2_STREAM_CLOSED:
		return "h2_stream_closed";
	case NGHTTP2_FRAME_SIZE_ERROR:
		return "h2_frame_size";
	case NGHTTP2_COMPRESSION_ERROR:
		return "h2_compression";
	case NGHTTP2_ENHANCE_YOUR_CALM:
		return "h2_flood";
	default:
		return "h2_internal";
	}
}

/* --- receiving ------------------------------------------------------------------------------------------------------- */

static void remember(struct h2 *s, int32_t id, bool peer_done)
{
	s->recent[s->recent_at].id = id;
	s->recent[s->recent_at].peer_done = peer_done;
	s->recent_at = (s->recent_at + 1) % H2_RECENT;
}

/*
 * DATA or HEADERS for a stream that is not there, of an id that the peer has passed (RFC 9113 5.1, 5.1.1): after a reset of
 * ours it may have been under way; after the peer's own end it is a fault; an id that was never used is one.
 */
static void stray(struct h2 *s, const nghttp2_frame_hd *hd)
{
	if (hd->stream_id <= 0 || (hd->stream_id & 1) == 0 || hd->stream_id > s->last_id || nghttp2_session_find_stream(s->ng, hd->stream_id) != NULL)
		return;
	for (unsigned i = 0; i < H2_RECENT; i++) {
		if (s->recent[i].id != hd->stream_id)
			continue;
		if (s->recent[i].peer_done)
			terminate(s, H2_STREAM_CLOSED, "h2_stream_closed");
		else if (hd->type == NGHTTP2_HEADERS)
			spend(s, H2_COST_FRAME);
		return;
	}
	if (hd->type == NGHTTP2_HEADERS)
		terminate(s, H2_PROTOCOL_ERROR, "h2_stream_id");
}

/* A frame that holds more than Content-Length leaves is refused whole; with padding that shows only when it is read. */
static void too_much(struct h2_stream *st, const nghttp2_frame_hd *hd)
{
	if (st != NULL && st->owned && !st->discard && !st->reset && st->head_done && st->limited && !(hd->flags & NGHTTP2_FLAG_PADDED) && hd->length > st->left)
		broken_by(st, "content_length_sum");
}

static int on_begin_frame(nghttp2_session *ng, const nghttp2_frame_hd *hd, void *arg)
{
	struct h2 *s = arg;

	if (s->over)
		return 0;
	switch (hd->type) {
	case NGHTTP2_DATA:
		if (hd->length == 0 && !(hd->flags & NGHTTP2_FLAG_END_STREAM))
			spend(s, H2_COST_FRAME);
		if (!s->c.client)
			stray(s, hd);
		too_much(nghttp2_session_get_stream_user_data(ng, hd->stream_id), hd);
		break;
	case NGHTTP2_HEADERS:
		s->continuations = 0;
		if (!s->c.client)
			stray(s, hd);
		break;
	case NGHTTP2_CONTINUATION:
		if (++s->continuations > s->c.limits.continuations_max)
			terminate(s, H2_ENHANCE_YOUR_CALM, "h2_continuations"); /* D03 */
		else
			spend(s, H2_COST_FRAME);
		break;
	case NGHTTP2_RST_STREAM:
		spend(s, H2_COST_RESET);
		break;
	case NGHTTP2_SETTINGS:
	case NGHTTP2_GOAWAY:
		spend(s, H2_COST_SETTINGS);
		break;
	case NGHTTP2_PING:
	case NGHTTP2_WINDOW_UPDATE:
		if (!h2_budget_answer(&s->budget, s->now_ms))
			terminate(s, H2_ENHANCE_YOUR_CALM, "h2_flood");
		break;
	default: /* PRIORITY, PUSH_PROMISE, and what we do not know */
		spend(s, H2_COST_FRAME);
		break;
	}
	return 0;
}

/* A frame of a type that we do not know: on_begin_frame counted it. */
static int unknown_frame(nghttp2_session *ng, void **payload, const nghttp2_frame_hd *hd, void *arg)
{
	(void)ng;
	(void)payload;
	(void)hd;
	(void)arg;
	return NGHTTP2_ERR_CANCEL;
}

static int on_invalid_frame(nghttp2_session *ng, const nghttp2_frame *fr, int why, void *arg)
{
	struct h2 *s = arg;

	(void)ng;
	if (s->over)
		return 0;
	if (fr->hd.type == NGHTTP2_HEADERS && why == NGHTTP2_ERR_REFUSED_STREAM && !s->c.client) {
		if (fr->hd.stream_id > s->last_id)
			s->last_id = fr->hd.stream_id;
		remember(s, fr->hd.stream_id, false);
		s->ev->refused(s->arg, (uint32_t)fr->hd.stream_id);
	}
	spend(s, H2_COST_INVALID);
	return 0;
}

static int on_begin_headers(nghttp2_session *ng, const nghttp2_frame *fr, void *arg)
{
	struct h2 *s = arg;
	struct h2_stream *st;

	s->head_of = NULL;
	if (s->over || fr->hd.type != NGHTTP2_HEADERS)
		return 0;
	if (!s->c.client && fr->headers.cat == NGHTTP2_HCAT_REQUEST) {
		nghttp2_extpri fair = { .urgency = NGHTTP2_EXTPRI_DEFAULT_URGENCY, .inc = 1 };

		st = h2_stream_new(s, fr->hd.stream_id);
		st->opened = true;
		s->last_id = st->id;
		nghttp2_session_set_stream_user_data(ng, st->id, st);
		nghttp2_session_change_extpri_stream_priority(ng, st->id, &fair, 1); /* streams take turns, whatever the client says */
		h2_head_start(&s->head, H2_HEAD_REQUEST, false);
		s->head_of = st;
		return 0;
	}
	st = nghttp2_session_get_stream_user_data(ng, fr->hd.stream_id);
	if (st == NULL || !st->owned || st->discard || st->reset)
		return 0;
	h2_head_start(&s->head, st->head_done ? H2_HEAD_TRAILERS : H2_HEAD_RESPONSE, s->c.client);
	s->head_of = st;
	return 0;
}

static int on_field(nghttp2_session *ng, const nghttp2_frame *fr, const uint8_t *name, size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags, void *arg)
{
	struct h2 *s = arg;

	(void)ng;
	(void)fr;
	(void)flags;
	if (s->head_of != NULL && !s->over)
		h2_head_field(&s->head, &s->c.limits, str_mk(name, name_len), str_mk(value, value_len));
	return 0;
}

static void peer_ended(struct h2_stream *st)
{
	if (st->reset || st->discard || !st->owned)
		return;
	if (st->limited && st->left > 0)
		broken_by(st, "content_length_sum");
	else
		st->s->ev->end(st->s->arg, st);
}

static void request_head(struct h2_stream *st, bool end)
{
	struct h2 *s = st->s;
	struct h2_head *h = &s->head;

	st->head_done = true;
	if (!h2_head_request(h, &s->c, end)) {
		if (h->fault.status == 400) {
			h2_stream_rst(st, H2_PROTOCOL_ERROR);
		} else {
			st->owned = true;
			st->discard = true;
		}
		s->ev->malformed(s->arg, st, &h->req, &h->arena, &h->fault);
		return;
	}
	st->owned = true;
	st->tunnel = h->req.upgrade_websocket;
	st->limited = h->req.framing == HTTP_BODY_LENGTH;
	st->left = h->req.content_length;
	s->ev->request(s->arg, st, &h->req, &h->arena, end);
}

static void response_head(struct h2_stream *st, bool end)
{
	struct h2 *s = st->s;
	struct h2_head *h = &s->head;

	if (!h2_head_response(h, st->to_head, end)) {
		broken(st, &h->fault);
		return;
	}
	if (h->res.status >= 200) {
		st->head_done = true;
		st->limited = h->res.framing != HTTP_BODY_CHUNKED && !(st->tunnel && h->res.status < 300);
		st->left = h->res.framing == HTTP_BODY_LENGTH ? h->res.content_length : 0;
	}
	s->ev->response(s->arg, st, &h->res, &h->arena, end);
}

static void head_received(struct h2 *s, struct h2_stream *st, bool end)
{
	struct h2_head *h = &s->head;

	s->head_of = NULL;
	switch (h->kind) {
	case H2_HEAD_REQUEST:
		request_head(st, end);
		break;
	case H2_HEAD_RESPONSE:
		response_head(st, end);
		break;
	default:
		if (!h2_head_trailers(h, end))
			broken(st, &h->fault);
		else if (st->limited && st->left > 0)
			broken_by(st, "content_length_sum");
		else
			s->ev->trailers(s->arg, st, &h->req.fields, &h->arena);
		break;
	}
	arena_reset(&h->arena); /* what the owner took is not in it any more */
	h->kind = H2_HEAD_NONE;
}

static int on_frame(nghttp2_session *ng, const nghttp2_frame *fr, void *arg)
{
	struct h2 *s = arg;
	struct h2_stream *st;
	bool end = fr->hd.flags & NGHTTP2_FLAG_END_STREAM;

	if (s->over)
		return 0;
	switch (fr->hd.type) {
	case NGHTTP2_HEADERS:
	case NGHTTP2_DATA:
		st = nghttp2_session_get_stream_user_data(ng, fr->hd.stream_id);
		if (st == NULL)
			return 0;
		if (fr->hd.type == NGHTTP2_DATA && fr->hd.length > 0 && fr->hd.length == fr->data.padlen && !end)
			spend(s, H2_COST_FRAME); /* as empty as one without padding */
		st->peer_end = st->peer_end || end;
		if (fr->hd.type == NGHTTP2_HEADERS && s->head_of == st)
			head_received(s, st, end);
		if (end)
			peer_ended(st);
		return 0;
	case NGHTTP2_RST_STREAM:
		st = nghttp2_session_get_stream_user_data(ng, fr->hd.stream_id);
		if (st != NULL)
			st->peer_reset = true;
		return 0;
	case NGHTTP2_SETTINGS:
		if (!(fr->hd.flags & NGHTTP2_FLAG_ACK))
			s->ev->settings(s->arg);
		return 0;
	case NGHTTP2_GOAWAY:
		s->peer_goaway = true;
		s->ev->goaway(s->arg, fr->goaway.error_code);
		return 0;
	default:
		return 0;
	}
}

static int on_data(nghttp2_session *ng, uint8_t flags, int32_t id, const uint8_t *p, size_t n, void *arg)
{
	struct h2 *s = arg;
	struct h2_stream *st = nghttp2_session_get_stream_user_data(ng, id);
	bool more;

	(void)flags;
	nghttp2_session_consume_connection(ng, n);
	if (s->over || st == NULL || !st->owned || st->discard || st->reset || n == 0)
		return 0;
	if (!st->head_done) {
		broken_by(st, "data_before_head");
		return 0;
	}
	more = st->limited && n > st->left;
	if (more)
		n = (size_t)st->left;
	if (st->limited)
		st->left -= n;
	st->unconsumed += n;
	if (n > 0)
		s->ev->data(s->arg, st, p, n);
	if (more && st->owned)
		broken_by(st, "content_length_sum");
	return 0;
}

static int on_close(nghttp2_session *ng, int32_t id, uint32_t code, void *arg)
{
	struct h2 *s = arg;
	struct h2_stream *st = nghttp2_session_get_stream_user_data(ng, id);

	if (st == NULL)
		return 0;
	MUST(!st->closed);
	st->closed = true;
	s->active--;
	if (!s->c.client)
		remember(s, id, st->peer_end || st->peer_reset);
	if (code == H2_NO_ERROR && st->peer_end && st->end_sent)
		h2_budget_refund(&s->budget);
	else if (!s->over && disown(st)) /* over: h2_lost will tell */
		s->ev->reset(s->arg, st, code, s->c.client && !st->head_done && (!st->opened || code == H2_REFUSED_STREAM));
	stream_release(st);
	return 0;
}

/* --- sending --------------------------------------------------------------------------------------------------------- */

static int on_sent(nghttp2_session *ng, const nghttp2_frame *fr, void *arg)
{
	struct h2 *s = arg;
	struct h2_stream *st;

	switch (fr->hd.type) {
	case NGHTTP2_HEADERS:
	case NGHTTP2_DATA:
		st = nghttp2_session_get_stream_user_data(ng, fr->hd.stream_id);
		if (st == NULL)
			return 0;
		st->opened = true;
		if (!(fr->hd.flags & NGHTTP2_FLAG_END_STREAM))
			return 0;
		st->end_sent = true;
		if (!s->c.client && !st->owned && !st->peer_end)
			h2_stream_rst(st, H2_NO_ERROR);
		return 0;
	case NGHTTP2_RST_STREAM:
		st = nghttp2_session_get_stream_user_data(ng, fr->hd.stream_id);
		/* D02: our resets are of the peer's making. Not those that end what was answered early, nor our own change of mind toward an upstream. */
		if (fr->rst_stream.error_code != H2_NO_ERROR && !(s->c.client && st != NULL && st->by_owner))
			spend(s, H2_COST_RESET);
		return 0;
	case NGHTTP2_GOAWAY:
		if (fr->goaway.error_code != H2_NO_ERROR && !s->over)
			terminate(s, fr->goaway.error_code, reason_of(fr->goaway.error_code));
		return 0;
	default:
		return 0;
	}
}

/* --- the connection -------------------------------------------------------------------------------------------------- */

static void *mem_malloc(size_t n, void *arg) { return (void)arg, must_malloc(n); }
static void mem_free(void *p, void *arg) { (void)arg, free(p); }
static void *mem_calloc(size_t n, size_t size, void *arg) { return (void)arg, must_calloc(n, size); }
static void *mem_realloc(void *p, size_t n, void *arg) { return (void)arg, must_realloc(p, n); }

static void session_new(struct h2 *s)
{
	nghttp2_mem mem = { NULL, mem_malloc, mem_free, mem_calloc, mem_realloc };
	nghttp2_session_callbacks *cb;
	nghttp2_option *o;

	MUST(nghttp2_session_callbacks_new(&cb) == 0 && nghttp2_option_new(&o) == 0);
	nghttp2_session_callbacks_set_on_begin_frame_callback(cb, on_begin_frame);
	nghttp2_session_callbacks_set_unpack_extension_callback(cb, unknown_frame);
	nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(cb, on_invalid_frame);
	nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback(cb, on_field);
	nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
	nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_close);
	nghttp2_session_callbacks_set_on_frame_send_callback(cb, on_sent);
	nghttp2_session_callbacks_set_send_data_callback(cb, h2_send_data_cb);
	nghttp2_session_callbacks_set_data_source_read_length_callback(cb, h2_length_cb);
	for (unsigned type = NGHTTP2_CONTINUATION + 1; type <= 255; type++) /* else they pass unseen */
		nghttp2_option_set_user_recv_extension_type(o, (uint8_t)type);
	nghttp2_option_set_no_auto_window_update(o, 1);
	nghttp2_option_set_no_http_messaging(o, 1);
	nghttp2_option_set_no_closed_streams(o, 1);
	nghttp2_option_set_max_send_header_block_length(o, SEND_HEAD_MAX);
	nghttp2_option_set_max_continuations(o, s->c.limits.continuations_max);
	nghttp2_option_set_stream_reset_rate_limit(o, UINT64_MAX, UINT64_MAX); /* it looks at a clock of its own; h2_budget.c is stricter */
	if (s->c.client)
		MUST(nghttp2_session_client_new3(&s->ng, cb, s, o, &mem) == 0);
	else
		MUST(nghttp2_session_server_new3(&s->ng, cb, s, o, &mem) == 0);
	nghttp2_option_del(o);
	nghttp2_session_callbacks_del(cb);
}

struct h2 *h2_new(const struct h2_config *c, const struct h2_events *ev, void *arg, uint64_t now_ms)
{
	struct h2 *s = must_calloc(1, sizeof(*s));
	nghttp2_settings_entry iv[6];
	size_t n = 0;

	s->c = *c;
	s->ev = ev;
	s->arg = arg;
	s->now_ms = now_ms;
	MUST(c->limits.fields_max <= HTTP_FIELDS_MAX);
	h2_budget_init(&s->budget, now_ms);
	session_new(s);
	iv[n++] = (nghttp2_settings_entry){ NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, c->limits.stream_window };
	iv[n++] = (nghttp2_settings_entry){ NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, c->limits.head_max };
	if (c->client) {
		iv[n++] = (nghttp2_settings_entry){ NGHTTP2_SETTINGS_ENABLE_PUSH, 0 };
	} else {
		iv[n++] = (nghttp2_settings_entry){ NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, c->limits.streams_max };
		iv[n++] = (nghttp2_settings_entry){ NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1 };
		if (c->connect_protocol)
			iv[n++] = (nghttp2_settings_entry){ NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1 };
	}
	MUST(nghttp2_submit_settings(s->ng, NGHTTP2_FLAG_NONE, iv, n) == 0);
	MUST(nghttp2_session_set_local_window_size(s->ng, NGHTTP2_FLAG_NONE, 0, (int32_t)c->limits.connection_window) == 0);
	return s;
}

static void free_ended(struct h2 *s)
{
	while (s->ended != NULL) {
		struct h2_stream *st = s->ended;

		s->ended = st->next;
		stream_free(st);
	}
}

void h2_free(struct h2 *s)
{
	if (s == NULL)
		return;
	MUST(!s->busy);
	nghttp2_session_del(s->ng); /* does not call back */
	while (s->streams != NULL) {
		struct h2_stream *st = s->streams;

		s->streams = st->next;
		stream_free(st);
	}
	free_ended(s);
	h2_head_fini(&s->head);
	free(s);
}

static void turn_begin(struct h2 *s)
{
	MUST(!s->busy);
	s->busy = true;
}

static void turn_end(struct h2 *s)
{
	if (s->over && !s->fault_told && !s->lost) {
		s->fault_told = true;
		s->ev->fault(s->arg, &s->fault);
	}
	free_ended(s);
	s->busy = false;
}

long h2_feed(struct h2 *s, uint64_t now_ms, const uint8_t *p, size_t n)
{
	ssize_t k;

	s->now_ms = now_ms;
	if (s->over)
		return -1;
	if (n == 0 || nghttp2_session_get_outbound_queue_size(s->ng) > CONTROL_QUEUE_MAX)
		return 0;
	turn_begin(s);
	k = nghttp2_session_mem_recv(s->ng, p, n < H2_SLICE_MAX ? n : H2_SLICE_MAX);
	if (k == NGHTTP2_ERR_BAD_CLIENT_MAGIC)
		terminate(s, H2_PROTOCOL_ERROR, "h2_preface");
	else if (k == NGHTTP2_ERR_FLOODED)
		terminate(s, H2_ENHANCE_YOUR_CALM, "h2_flood");
	else if (k == NGHTTP2_ERR_TOO_MANY_CONTINUATIONS)
		terminate(s, H2_ENHANCE_YOUR_CALM, "h2_continuations");
	else if (k < 0)
		terminate(s, H2_INTERNAL_ERROR, "h2_internal");
	if (s->over)
		k = -1;
	turn_end(s);
	return k;
}

static void tell_writable(struct h2 *s)
{
	while (s->writable != NULL) {
		struct h2_stream *st = s->writable;

		not_writable(st);
		st->was_full = false;
		if (st->owned && !st->closed && !st->reset && !st->eof && !s->over)
			s->ev->writable(s->arg, st);
	}
}

void h2_output(struct h2 *s, struct buf *out, size_t max)
{
	if (s->lost)
		return;
	turn_begin(s);
	s->out = out;
	s->out_end = buf_len(out) + max;
	while (buf_len(out) < s->out_end) {
		const uint8_t *p;
		ssize_t k;

		s->paused = false;
		k = nghttp2_session_mem_send(s->ng, &p);
		if (k > 0)
			buf_add(out, p, (size_t)k);
		else if (k < 0)
			terminate(s, H2_INTERNAL_ERROR, "h2_internal");
		if (k <= 0 && !s->paused)
			break;
	}
	s->out = NULL;
	tell_writable(s);
	turn_end(s);
}

bool h2_wants_output(const struct h2 *s) { return !s->lost && nghttp2_session_want_write(s->ng); }

bool h2_done(const struct h2 *s) { return s->lost || (!nghttp2_session_want_read(s->ng) && !nghttp2_session_want_write(s->ng)); }

void h2_reap(struct h2 *s, uint64_t now_ms)
{
	s->now_ms = now_ms;
	if (s->over || s->lost)
		return;
	turn_begin(s);
	for (struct h2_stream *st = s->streams, *next; st != NULL; st = next) {
		next = st->next;
		if (st->closed || st->reset)
			continue;
		if (buf_len(&st->out) == 0) {
			st->mark_ms = 0;
		} else if (st->mark_ms == 0 || st->sent - st->mark_sent >= STALL_MIN) {
			st->mark_ms = now_ms ? now_ms : 1;
			st->mark_sent = st->sent;
		} else if (now_ms > st->mark_ms && now_ms - st->mark_ms >= s->c.limits.stall_ms) {
			h2_stream_rst(st, H2_CANCEL);
			if (disown(st))
				s->ev->reset(s->arg, st, H2_CANCEL, false);
		}
	}
	turn_end(s);
}

void h2_lost(struct h2 *s)
{
	struct h2_stream *st = s->streams;

	if (s->lost)
		return;
	turn_begin(s);
	s->lost = s->over = true;
	while (st != NULL) { /* from the start after each event: the owner may have left others */
		if (!disown(st)) {
			st = st->next;
			continue;
		}
		st->reset = true;
		s->ev->reset(s->arg, st, H2_CANCEL, s->c.client && !st->opened);
		st = s->streams;
	}
	turn_end(s);
}

void h2_shutdown(struct h2 *s)
{
	if (s->over || s->shutdown == 2)
		return;
	if (s->shutdown++ == 0 && !s->c.client)
		nghttp2_submit_shutdown_notice(s->ng);
	else
		nghttp2_submit_goaway(s->ng, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(s->ng), H2_NO_ERROR, NULL, 0);
}

unsigned h2_streams(const struct h2 *s) { return s->n; }

bool h2_may_open(const struct h2 *s)
{
	return s->c.client && !s->over && !s->lost && !s->peer_goaway && s->shutdown == 0 && nghttp2_session_check_request_allowed(s->ng) &&
	       s->active < nghttp2_session_get_remote_settings(s->ng, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
}

bool h2_peer_websocket(const struct h2 *s) { return nghttp2_session_get_remote_settings(s->ng, NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL) == 1; }
