/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What nghttp2 tells of frames that came in and went out: counted against the budget, checked, and passed on to the owner.
 * No event of a stream follows once the connection is over.
 */
#include "h2_int.h"

#include <stdlib.h>

#include "../../common/base/must.h"

/* Malformed behind the head of a request, or a response: the stream ends. */
static void broken(struct h2_stream *st, const struct http_fault *f)
{
	h2_stream_rst(st, H2_PROTOCOL_ERROR);
	if (h2_stream_disown(st))
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

void h2_terminate(struct h2 *s, uint32_t code, const char *reason)
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
		h2_terminate(s, H2_ENHANCE_YOUR_CALM, "h2_flood");
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
			h2_terminate(s, H2_STREAM_CLOSED, "h2_stream_closed");
		else if (hd->type == NGHTTP2_HEADERS)
			spend(s, H2_COST_FRAME);
		return;
	}
	if (hd->type == NGHTTP2_HEADERS)
		h2_terminate(s, H2_PROTOCOL_ERROR, "h2_stream_id");
}

/* A frame that holds more than Content-Length leaves is refused whole; with padding that shows only when it is read. */
static void too_much(struct h2_stream *st, const nghttp2_frame_hd *hd)
{
	if (st != NULL && st->owned && !st->discard && !st->reset && st->head_done && !st->peer_end && st->limited && !(hd->flags & NGHTTP2_FLAG_PADDED) && hd->length > st->left)
		broken_by(st, "content_length_sum");
}

void h2_frame_header(struct h2 *s, const nghttp2_frame_hd *hd)
{
	switch (hd->type) {
	case NGHTTP2_DATA:
		if (hd->length == 0 && !(hd->flags & NGHTTP2_FLAG_END_STREAM))
			spend(s, H2_COST_FRAME);
		if (!s->c.client)
			stray(s, hd);
		too_much(nghttp2_session_get_stream_user_data(s->ng, hd->stream_id), hd);
		break;
	case NGHTTP2_HEADERS:
		s->continuations = 0;
		if (!s->c.client)
			stray(s, hd);
		break;
	case NGHTTP2_CONTINUATION:
		if (++s->continuations > s->c.limits.continuations_max)
			h2_terminate(s, H2_ENHANCE_YOUR_CALM, "h2_continuations"); /* D03 */
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
		if (!s->over && !h2_budget_answer(&s->budget, s->now_ms))
			h2_terminate(s, H2_ENHANCE_YOUR_CALM, "h2_flood");
		break;
	case NGHTTP2_PRIORITY: /* ignored, but for what is a fault all the same (RFC 9113 6.3) */
		if (hd->stream_id == 0)
			h2_terminate(s, H2_PROTOCOL_ERROR, "h2_protocol");
		spend(s, H2_COST_FRAME);
		break;
	default: /* PUSH_PROMISE, and what we do not know */
		spend(s, H2_COST_FRAME);
		break;
	}
}

void h2_frame_priority(struct h2 *s, int32_t id, int32_t on)
{
	if (id == on) /* RFC 7540 5.3.1 */
		h2_terminate(s, H2_PROTOCOL_ERROR, "h2_protocol");
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

static struct h2_head *head_room(struct h2 *s)
{
	if (s->head == NULL) {
		s->head = must_malloc(sizeof(*s->head)); /* h2_head_start sets the rest, but for the fields, which are many */
		s->head->arena = (struct arena){ 0 };
		s->head->cookie = (struct buf){ 0 };
	}
	return s->head;
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
		h2_head_start(head_room(s), H2_HEAD_REQUEST, false);
		s->head_of = st;
		return 0;
	}
	st = nghttp2_session_get_stream_user_data(ng, fr->hd.stream_id);
	if (st == NULL || !st->owned || st->discard || st->reset)
		return 0;
	h2_head_start(head_room(s), st->head_done ? H2_HEAD_TRAILERS : H2_HEAD_RESPONSE, s->c.client);
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
		h2_head_field(s->head, &s->c.limits, str_mk(name, name_len), str_mk(value, value_len));
	return 0;
}

/* Content for a request that was answered already, and has no owner any more: it is thrown away, but a length that it breaks is broken. */
static void unwanted(struct h2_stream *st, size_t n, bool end)
{
	if (st->s->c.client || st->owned || st->reset || !st->limited)
		return;
	if (n > st->left || (end && st->left > n))
		h2_stream_rst(st, H2_PROTOCOL_ERROR);
	else
		st->left -= n;
}

static void peer_ended(struct h2_stream *st)
{
	unwanted(st, 0, true);
	if (st->reset || st->discard || !st->owned)
		return;
	if (!st->head_done) /* empty DATA behind an interim head, or none */
		broken_by(st, "data_before_head");
	else if (st->limited && st->left > 0)
		broken_by(st, "content_length_sum");
	else
		st->s->ev->end(st->s->arg, st);
}

static void request_head(struct h2_stream *st, bool end)
{
	struct h2 *s = st->s;
	struct h2_head *h = s->head;

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
	struct h2_head *h = s->head;

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
	struct h2_head *h = s->head;

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
	if (st != NULL)
		unwanted(st, n, false);
	if (st != NULL && st->lingers && !st->reset) {
		st->lingered += n;
		if (st->lingered > s->c.limits.linger_octets)
			h2_stream_rst(st, H2_NO_ERROR);
		else
			nghttp2_session_consume_stream(ng, id, n);
		return 0;
	}
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
	else if (!s->over && h2_stream_disown(st)) /* over: h2_lost will tell */
		s->ev->reset(s->arg, st, code, s->c.client && !st->head_done && (!st->opened || code == H2_REFUSED_STREAM));
	h2_stream_release(st);
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
		if (fr->hd.type == NGHTTP2_HEADERS)
			st->head_out = st->head_sent;
		if (st->abort != 0 && buf_len(&st->out) == 0)
			h2_stream_rst(st, st->abort);
		if (fr->hd.type == NGHTTP2_HEADERS && h2_trailers_wait(st))
			h2_submit_trailers(st);
		if (!(fr->hd.flags & NGHTTP2_FLAG_END_STREAM))
			return 0;
		st->end_sent = true;
		if (!s->c.client && !st->owned && !st->peer_end)
			h2_stream_linger(st);
		return 0;
	case NGHTTP2_RST_STREAM:
		st = nghttp2_session_get_stream_user_data(ng, fr->hd.stream_id);
		/* D02: our resets are of the peer's making. Not those that end what was answered early, nor our own change of mind toward an upstream. */
		if (fr->rst_stream.error_code != H2_NO_ERROR && !(s->c.client && st != NULL && st->by_owner))
			spend(s, H2_COST_RESET);
		return 0;
	case NGHTTP2_GOAWAY:
		if (fr->goaway.error_code != H2_NO_ERROR && !s->over)
			h2_terminate(s, fr->goaway.error_code, reason_of(fr->goaway.error_code));
		return 0;
	default:
		return 0;
	}
}

/* A head that could not be sent, for its size or because the peer goes: its stream ends. */
static int on_not_sent(nghttp2_session *ng, const nghttp2_frame *fr, int why, void *arg)
{
	struct h2 *s = arg;
	struct h2_stream *st;

	if (fr->hd.type != NGHTTP2_HEADERS)
		return 0;
	st = nghttp2_session_get_stream_user_data(ng, fr->hd.stream_id);
	if (st == NULL || st->closed || st->reset)
		return 0;
	if (fr->headers.cat == NGHTTP2_HCAT_REQUEST) { /* on_close tells; another connection would not help a head that is too large */
		st->head_done = st->head_done || why == NGHTTP2_ERR_FRAME_SIZE_ERROR;
		return 0;
	}
	st->discard = true;
	h2_stream_rst(st, H2_INTERNAL_ERROR);
	if (!s->over && h2_stream_disown(st))
		s->ev->reset(s->arg, st, H2_INTERNAL_ERROR, false);
	return 0;
}

void h2_callbacks(nghttp2_session_callbacks *cb)
{
	nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(cb, on_invalid_frame);
	nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback(cb, on_field);
	nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
	nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_close);
	nghttp2_session_callbacks_set_on_frame_send_callback(cb, on_sent);
	nghttp2_session_callbacks_set_on_frame_not_send_callback(cb, on_not_sent);
	nghttp2_session_callbacks_set_send_data_callback(cb, h2_send_data_cb);
	nghttp2_session_callbacks_set_data_source_read_length_callback(cb, h2_length_cb);
}
