/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An HTTP/2 connection: the session, its streams, and who is told what.
 *
 * nghttp2 does framing, HPACK and windows. Its checks of messages are off (h2_head.c does them), as are its automatic
 * window updates, its memory of closed streams and its priority tree. What it tells us passes through
 * h2_events.c.
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
#define FRAME_ROOM (5 * H2_PAGE)   /* a frame of 16 KiB with its header */

const struct h2_limits h2_limits_default = { .head_max = 65536, .fields_max = 100, .crumbs_max = 100, .line_max = 16384, .target_max = 16384, .continuations_max = 8, .streams_max = 100, .stream_window = 262144, .connection_window = 4194304, .queue_high = 65536, .queue_low = 16384, .linger_octets = 1048576, .linger_ms = 2000, .stall_ms = 120000 };

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
	st->s->queued -= buf_len(&st->out);
	buf_fini(&st->out);
	h2_trailers_free(st->trailers);
	free(st);
}

void h2_stream_release(struct h2_stream *st)
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

bool h2_stream_disown(struct h2_stream *st)
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

void h2_stream_linger(struct h2_stream *st)
{
	if (st->lingers || st->closed || st->reset)
		return;
	st->lingers = true;
	st->linger_ms = st->s->now_ms;
	nghttp2_session_consume_stream(st->s->ng, st->id, st->unconsumed);
	st->unconsumed = 0;
}

uint32_t h2_stream_id(const struct h2_stream *st) { return (uint32_t)st->id; }
bool h2_stream_opened(const struct h2_stream *st) { return st->opened; }
void *h2_stream_user(const struct h2_stream *st) { return st->user; }
void h2_stream_set_user(struct h2_stream *st, void *user) { st->user = user; }

void h2_reset(struct h2_stream *st, uint32_t code)
{
	MUST(st->owned);
	st->by_owner = true;
	st->discard = true;
	h2_stream_rst(st, code);
	h2_stream_disown(st);
	h2_stream_release(st);
}

void h2_abort(struct h2_stream *st, uint32_t code)
{
	if (code == H2_NO_ERROR || st->closed || st->reset || st->eof || !st->head_sent || (st->head_out && buf_len(&st->out) == 0)) {
		h2_reset(st, code);
		return;
	}
	MUST(st->owned);
	st->by_owner = true;
	st->discard = true;
	st->abort = code;
	st->eof = true;
	h2_stream_disown(st);
	h2_stream_release(st);
}

void h2_leave(struct h2_stream *st)
{
	MUST(st->owned);
	st->discard = true;
	if (st->s->c.client ? !st->peer_end || !st->end_sent : !st->eof) {
		st->by_owner = true;
		h2_stream_rst(st, H2_CANCEL);
	} else if (!st->peer_end && st->end_sent) {
		h2_stream_linger(st);
	}
	h2_stream_disown(st);
	h2_stream_release(st);
}

void h2_consumed(struct h2_stream *st, size_t n)
{
	MUST(n <= st->unconsumed);
	st->unconsumed -= n;
	if (!st->closed && !st->reset)
		nghttp2_session_consume_stream(st->s->ng, st->id, n);
}

/* --- the connection -------------------------------------------------------------------------------------------------- */

static void *mem_malloc(size_t n, void *arg) { return (void)arg, must_malloc(n); }
static void *mem_calloc(size_t n, size_t size, void *arg) { return (void)arg, must_calloc(n, size); }

static void mem_free(void *p, void *arg)
{
	struct h2 *s = arg;

	if (p != NULL && p == s->frame)
		s->frame = NULL;
	free(p);
}

/*
 * The first buffer of a frame's size is the one that nghttp2 keeps for the session's life: 16 KiB, of which heads fill a few hundred octets
 * while they are written, and nothing otherwise. It gets pages of its own, so that they can be given back (h2_spare).
 */
static void *mem_realloc(void *p, size_t n, void *arg)
{
	struct h2 *s = arg;

	if (p != NULL && p == s->frame)
		s->frame = NULL;
	if (p != NULL || n < H2_SLICE_MAX || n > FRAME_ROOM || s->frame != NULL)
		return must_realloc(p, n);
	s->frame = aligned_alloc(H2_PAGE, FRAME_ROOM);
	MUST(s->frame != NULL);
	return s->frame;
}

static void session_new(struct h2 *s)
{
	nghttp2_mem mem = { s, mem_malloc, mem_free, mem_calloc, mem_realloc };
	nghttp2_session_callbacks *cb;
	nghttp2_option *o;

	MUST(nghttp2_session_callbacks_new(&cb) == 0 && nghttp2_option_new(&o) == 0);
	h2_callbacks(cb);
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
	s->peek_want = 9;
	s->skip = c->client ? 0 : NGHTTP2_CLIENT_MAGIC_LEN;
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

static void head_free(struct h2 *s)
{
	if (s->head == NULL)
		return;
	h2_head_fini(s->head);
	free(s->head);
	s->head = NULL;
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
	head_free(s);
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

static void receive(struct h2 *s, const uint8_t *p, size_t n)
{
	ssize_t k;

	if (n == 0 || s->over)
		return;
	k = nghttp2_session_mem_recv(s->ng, p, n);
	if (k == NGHTTP2_ERR_BAD_CLIENT_MAGIC)
		h2_terminate(s, H2_PROTOCOL_ERROR, "h2_preface");
	else if (k == NGHTTP2_ERR_FLOODED)
		h2_terminate(s, H2_ENHANCE_YOUR_CALM, "h2_flood");
	else if (k == NGHTTP2_ERR_TOO_MANY_CONTINUATIONS)
		h2_terminate(s, H2_ENHANCE_YOUR_CALM, "h2_continuations");
	else if (k < 0)
		h2_terminate(s, H2_INTERNAL_ERROR, "h2_internal");
}

static int32_t id_at(const uint8_t *p) { return (int32_t)((uint32_t)(p[0] & 0x7f) << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3]); }

/* The header of a frame is whole, and what came before it was received. True when more of the frame is to be looked at. */
static bool seen_header(struct h2 *s)
{
	const uint8_t *h = s->peek;
	nghttp2_frame_hd hd = { .length = (size_t)h[0] << 16 | (size_t)h[1] << 8 | h[2], .type = h[3], .flags = h[4], .stream_id = id_at(h + 5) };

	if (s->peek_n == 13) {
		h2_frame_priority(s, hd.stream_id, id_at(h + 9));
		s->skip = 1; /* the weight */
		return false;
	}
	s->skip = hd.length;
	h2_frame_header(s, &hd);
	if (hd.type != NGHTTP2_PRIORITY || hd.length != 5)
		return false;
	s->skip = 0;
	return true;
}

/*
 * Frames are counted as they stand in the stream. nghttp2 tells of many, but not of all, and of some too late: not of those
 * for streams that it has forgotten, nor of unknown types.
 */
long h2_feed(struct h2 *s, uint64_t now_ms, const uint8_t *p, size_t n)
{
	size_t at = 0, done = 0;

	s->now_ms = now_ms;
	if (s->over)
		return -1;
	/* requests that wait for the server to allow more streams are in that queue too, and must not stop the reading */
	if (n == 0 || (nghttp2_session_get_outbound_queue_size(s->ng) > CONTROL_QUEUE_MAX && nghttp2_session_want_write(s->ng)))
		return 0;
	n = n < H2_SLICE_MAX ? n : H2_SLICE_MAX;
	turn_begin(s);
	while (at < n && !s->over) {
		size_t k = n - at < s->skip ? n - at : s->skip;

		at += k;
		s->skip -= k;
		if (s->skip > 0 || at == n)
			break;
		k = s->peek_want - s->peek_n;
		k = n - at < k ? n - at : k;
		memcpy(s->peek + s->peek_n, p + at, k);
		s->peek_n += (uint8_t)k;
		if (s->peek_n == s->peek_want) {
			receive(s, p + done, at - done);
			done = at;
			s->peek_want = s->over || seen_header(s) ? 13 : 9;
			s->peek_n = s->peek_want == 13 ? 9 : 0;
		}
		at += k;
	}
	receive(s, p + done, n - done);
	if (s->head_of == NULL)
		head_free(s);
	turn_end(s);
	return s->over ? -1 : (long)n;
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
		s->drained = k == 0 && !s->paused;
		if (k > 0)
			buf_add(out, p, (size_t)k);
		else if (k < 0)
			h2_terminate(s, H2_INTERNAL_ERROR, "h2_internal");
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
		if (st->lingers && now_ms > st->linger_ms && now_ms - st->linger_ms >= s->c.limits.linger_ms) {
			h2_stream_rst(st, H2_NO_ERROR);
			continue;
		}
		if (buf_len(&st->out) == 0) {
			st->mark_ms = 0;
		} else if (st->mark_ms == 0 || st->sent - st->mark_sent >= STALL_MIN) {
			st->mark_ms = now_ms ? now_ms : 1;
			st->mark_sent = st->sent;
		} else if (now_ms > st->mark_ms && now_ms - st->mark_ms >= s->c.limits.stall_ms) {
			h2_stream_rst(st, H2_CANCEL);
			if (h2_stream_disown(st))
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
		if (!h2_stream_disown(st)) {
			st = st->next;
			continue;
		}
		st->reset = true;
		s->ev->reset(s->arg, st, H2_CANCEL, s->c.client && !st->opened);
		st = s->streams;
	}
	turn_end(s);
}

void *h2_spare(const struct h2 *s, size_t *n)
{
	MUST(!s->busy);
	*n = FRAME_ROOM;
	return s->drained ? s->frame : NULL;
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
bool h2_in_head(const struct h2 *s) { return s->head_of != NULL; }
size_t h2_queued(const struct h2 *s) { return s->queued; }

bool h2_may_open(const struct h2 *s)
{
	return s->c.client && !s->over && !s->lost && !s->peer_goaway && s->shutdown == 0 && nghttp2_session_check_request_allowed(s->ng) &&
	       s->active < nghttp2_session_get_remote_settings(s->ng, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
}

bool h2_peer_websocket(const struct h2 *s) { return nghttp2_session_get_remote_settings(s->ng, NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL) == 1; }
