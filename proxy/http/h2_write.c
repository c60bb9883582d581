/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sending over HTTP/2: heads written anew from what was parsed, content from a queue per stream, trailers behind it.
 * nghttp2 pulls from the queue when the peer's windows allow it; an empty queue defers the stream until more is added.
 */
#include "h2_int.h"

#include <stdlib.h>

#include "../../common/base/must.h"

struct nvs { /* v is large, and written before it is read: only n is set at first */
	size_t n;
	nghttp2_nv v[HTTP_FIELDS_MAX + 8];
};

struct h2_trailers {
	struct arena arena;
	bool submitted;
	size_t n;
	nghttp2_nv v[];
};

static bool stands_at(struct str name, size_t i, struct str word)
{
	if (name.n - i < word.n)
		return false;
	for (size_t k = 0; k < word.n; k++)
		if (ascii_lower(name.p[i + k]) != word.p[k])
			return false;
	return true;
}

/* By a word in its name: each field of each message is asked. */
static bool names_credential(struct str name)
{
	for (size_t i = 0; i < name.n; i++) {
		bool found = false;

		switch (ascii_lower(name.p[i])) {
		case 'a':
			found = stands_at(name, i, STR("auth"));
			break;
		case 'c':
			found = stands_at(name, i, STR("cookie")) || stands_at(name, i, STR("credential"));
			break;
		case 'k':
			found = stands_at(name, i, STR("key"));
			break;
		case 'p':
			found = stands_at(name, i, STR("passw"));
			break;
		case 's':
			found = stands_at(name, i, STR("secret")) || stands_at(name, i, STR("signature"));
			break;
		case 't':
			found = stands_at(name, i, STR("token"));
			break;
		default:
			break;
		}
		if (found)
			return true;
	}
	return false;
}

bool h2_never_indexed(const struct http_field *f) { return f->secret || names_credential(f->name); }

static void add(struct nvs *v, struct str name, struct str value, bool secret)
{
	MUST(v->n < sizeof(v->v) / sizeof(v->v[0]));
	/* nghttp2 copies both and writes names in small letters */
	v->v[v->n++] = (nghttp2_nv){ .name = (uint8_t *)(uintptr_t)name.p, .namelen = name.n, .value = (uint8_t *)(uintptr_t)(value.n ? value.p : ""), .valuelen = value.n, .flags = secret ? NGHTTP2_NV_FLAG_NO_INDEX : NGHTTP2_NV_FLAG_NONE };
}

/* Fields that HTTP/2 does not have, or that are written from other sources (RFC 9113 8.2.2; K06, UB10). */
static bool left_out(const struct http_field *f)
{
	switch (f->fid) {
	case HF_CONNECTION:
	case HF_KEEP_ALIVE:
	case HF_PROXY_CONNECTION:
	case HF_TRANSFER_ENCODING:
	case HF_UPGRADE:
	case HF_HTTP2_SETTINGS:
	case HF_TE:
	case HF_HOST:
	case HF_CONTENT_LENGTH:
		return true;
	default:
		return f->drop;
	}
}

static void add_fields(struct nvs *v, const struct http_fields *fs, bool tunnel)
{
	for (unsigned i = 0; i < fs->n; i++) {
		const struct http_field *f = &fs->f[i];

		/* RFC 8441 5: the handshake's proof is HTTP/1.1's */
		if (left_out(f) || (tunnel && (str_ieq(f->name, STR("sec-websocket-key")) || str_ieq(f->name, STR("sec-websocket-accept")))))
			continue;
		add(v, f->name, f->value, h2_never_indexed(f));
	}
}

static struct str decimal(char t[20], uint64_t n)
{
	size_t i = 20;

	do {
		t[--i] = (char)('0' + n % 10);
		n /= 10;
	} while (n);
	return str_mk(t + i, 20 - i);
}

struct h2_stream *h2_submit(struct h2 *s, const struct http_request *r, struct str scheme, struct str authority, struct str target,
			    enum http_framing framing, uint64_t length, bool end, void *user)
{
	struct nvs v;
	struct h2_stream *st = h2_stream_new(s, 0);
	nghttp2_data_provider d = { .source.ptr = st, .read_callback = h2_read_cb };
	char t[20];

	MUST(s->c.client);
	v.n = 0;
	st->user = user;
	st->owned = true;
	st->tunnel = r->upgrade_websocket;
	st->to_head = str_eq(r->method, STR("HEAD"));
	st->head_sent = true;
	st->eof = end;
	add(&v, STR(":method"), st->tunnel ? STR("CONNECT") : r->method, false);
	if (st->tunnel)
		add(&v, STR(":protocol"), STR("websocket"), false);
	add(&v, STR(":scheme"), scheme, false);
	add(&v, STR(":authority"), authority, false);
	add(&v, STR(":path"), target, r->secret_target);
	add_fields(&v, &r->fields, st->tunnel);
	if (framing == HTTP_BODY_LENGTH)
		add(&v, STR("content-length"), decimal(t, length), false);
	if (r->te_trailers)
		add(&v, STR("te"), STR("trailers"), false);
	st->id = nghttp2_submit_request(s->ng, NULL, v.v, v.n, end ? NULL : &d, st);
	MUST(st->id > 0);
	return st;
}

void h2_send_response(struct h2_stream *st, const struct http_response *r, enum http_framing framing, uint64_t length, bool is_head, bool end)
{
	bool switched = st->tunnel && r->status == 101, final = switched || r->status >= 200;
	unsigned status = switched ? 200 : r->status;
	nghttp2_data_provider d = { .source.ptr = st, .read_callback = h2_read_cb };
	struct nvs v;
	char t[20], code[20];

	v.n = 0;
	if (st->closed || st->reset)
		return;
	MUST(!st->s->c.client && !st->head_sent && status != 101);
	add(&v, STR(":status"), decimal(code, status), false);
	add_fields(&v, &r->fields, st->tunnel);
	if (is_head || status == 304) {
		/* what a GET would have had, as the origin said it */
		if (r->has_length)
			add(&v, STR("content-length"), decimal(t, r->content_length), false);
	} else if (final && status != 204 && !switched && framing == HTTP_BODY_LENGTH && (length > 0 || r->has_length)) {
		add(&v, STR("content-length"), decimal(t, length), false);
	}
	if (!final) {
		MUST(nghttp2_submit_headers(st->s->ng, NGHTTP2_FLAG_NONE, st->id, NULL, v.v, v.n, NULL) == 0);
		return;
	}
	st->head_sent = true;
	st->eof = end;
	MUST(nghttp2_submit_response(st->s->ng, st->id, v.v, v.n, end ? NULL : &d) == 0);
}

void h2_send_data(struct h2_stream *st, const uint8_t *p, size_t n)
{
	if (st->closed || st->reset || n == 0)
		return;
	MUST(st->head_sent && !st->eof);
	buf_add(&st->out, p, n);
	st->s->queued += n;
	if (h2_full(st))
		st->was_full = true;
	nghttp2_session_resume_data(st->s->ng, st->id); /* says so when nothing was deferred: no matter */
}

void h2_send_end(struct h2_stream *st)
{
	if (st->closed || st->reset || st->eof)
		return;
	MUST(st->head_sent);
	st->eof = true;
	nghttp2_session_resume_data(st->s->ng, st->id);
}

void h2_trailers_free(struct h2_trailers *t)
{
	if (t == NULL)
		return;
	arena_fini(&t->arena);
	free(t);
}

/* Nothing but the head has to go before them. */
bool h2_trailers_wait(const struct h2_stream *st)
{
	return st->trailers != NULL && !st->trailers->submitted && buf_len(&st->out) == 0;
}

void h2_submit_trailers(struct h2_stream *st)
{
	struct h2_trailers *t = st->trailers;

	t->submitted = true;
	MUST(nghttp2_submit_trailer(st->s->ng, st->id, t->v, t->n) == 0);
}

void h2_send_trailers(struct h2_stream *st, const struct http_fields *fs)
{
	struct h2_trailers *t;
	struct nvs v;

	v.n = 0;
	if (st->closed || st->reset || st->eof)
		return;
	MUST(st->head_sent);
	add_fields(&v, fs, false);
	if (v.n == 0) {
		h2_send_end(st);
		return;
	}
	t = must_malloc(sizeof(*t) + v.n * sizeof(t->v[0]));
	*t = (struct h2_trailers){ .n = v.n };
	for (size_t i = 0; i < v.n; i++) {
		t->v[i] = v.v[i];
		t->v[i].name = (uint8_t *)(uintptr_t)arena_str(&t->arena, str_mk(v.v[i].name, v.v[i].namelen)).p;
		t->v[i].value = (uint8_t *)(uintptr_t)arena_str(&t->arena, str_mk(v.v[i].value, v.v[i].valuelen)).p;
	}
	st->trailers = t;
	st->eof = true;
	/* with nothing before them they follow the head at once, and no empty DATA (UB02) */
	if (buf_len(&st->out) == 0 && !st->opened)
		return; /* behind a request's head, when that has gone out */
	if (buf_len(&st->out) == 0)
		h2_submit_trailers(st);
	else
		nghttp2_session_resume_data(st->s->ng, st->id);
}

bool h2_full_at(struct h2_stream *st, size_t n)
{
	bool full = buf_len(&st->out) >= n || h2_full(st);

	st->was_full = st->was_full || full;
	return full;
}

bool h2_full(const struct h2_stream *st) { return buf_len(&st->out) >= st->s->c.limits.queue_high; }

/* --- nghttp2 pulls --------------------------------------------------------------------------------------------------- */

ssize_t h2_read_cb(nghttp2_session *ng, int32_t id, uint8_t *buf, size_t n, uint32_t *flags, nghttp2_data_source *src, void *arg)
{
	struct h2_stream *st = src->ptr;
	size_t len = buf_len(&st->out);

	(void)ng;
	(void)id;
	(void)buf;
	(void)arg;
	if (len == 0 && (!st->eof || st->abort != 0 || (st->trailers != NULL && st->trailers->submitted)))
		return NGHTTP2_ERR_DEFERRED;
	*flags |= NGHTTP2_DATA_FLAG_NO_COPY;
	if (len > n)
		return (ssize_t)n;
	if (st->eof && st->abort == 0) {
		*flags |= NGHTTP2_DATA_FLAG_EOF;
		if (st->trailers != NULL) {
			*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
			h2_submit_trailers(st);
		}
	}
	return (ssize_t)len;
}

/* The windows are positive when this is asked. */
ssize_t h2_length_cb(nghttp2_session *ng, uint8_t type, int32_t id, int32_t sw, int32_t stw, uint32_t max, void *arg)
{
	int64_t n = H2_DATA_MAX;

	(void)ng;
	(void)type;
	(void)id;
	(void)arg;
	n = sw < n ? sw : n;
	n = stw < n ? stw : n;
	return (ssize_t)(max < n ? max : n);
}

int h2_send_data_cb(nghttp2_session *ng, nghttp2_frame *fr, const uint8_t *hd, size_t n, nghttp2_data_source *src, void *arg)
{
	struct h2_stream *st = src->ptr;
	struct h2 *s = arg;

	(void)ng;
	MUST(fr->data.padlen == 0 && s->out != NULL && n <= buf_len(&st->out));
	buf_add(s->out, hd, 9);
	buf_add(s->out, buf_data(&st->out), n);
	buf_drop(&st->out, n);
	s->queued -= n;
	if (buf_len(&st->out) == 0 && st->out.cap > 4096)
		buf_fini(&st->out); /* a stream that waits holds no queue */
	st->sent += n;
	h2_budget_earn(&s->budget, n);
	if (st->was_full && !st->on_writable && buf_len(&st->out) <= s->c.limits.queue_low) {
		st->on_writable = true;
		st->wprev = NULL;
		st->wnext = s->writable;
		if (s->writable != NULL)
			s->writable->wprev = st;
		s->writable = st;
	}
	if (buf_len(s->out) < s->out_end)
		return 0;
	s->paused = true;
	return NGHTTP2_ERR_PAUSE;
}
