/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_H2_UTIL_H
#define SP_H2_UTIL_H
/*
 * A peer for sessions under test that can say anything: frames put together octet by octet, heads in literals of HPACK, and
 * what comes back read frame by frame. What the session tells its owner is written down as text, a line for each event.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <nghttp2/nghttp2.h>

#include "common/base/must.h"
#include "proxy/http/h2.h"

enum { F_DATA = 0, F_HEADERS, F_PRIORITY, F_RST, F_SETTINGS, F_PUSH, F_PING, F_GOAWAY, F_WINDOW, F_CONTINUATION };
enum { END_STREAM = 1, ACK = 1, END_HEADERS = 4, PADDED = 8 };
#define MAGIC "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

/* --- frames of the peer ---------------------------------------------------------------------------------------------- */

static inline void frame(struct buf *b, unsigned type, unsigned flags, uint32_t id, const void *p, size_t n)
{
	uint8_t h[9] = { (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n, (uint8_t)type, (uint8_t)flags, (uint8_t)(id >> 24), (uint8_t)(id >> 16), (uint8_t)(id >> 8), (uint8_t)id };

	buf_add(b, h, 9);
	buf_add(b, p, n);
}
static inline void frame32(struct buf *b, unsigned type, uint32_t id, uint32_t v)
{
	uint8_t p[4] = { (uint8_t)(v >> 24), (uint8_t)(v >> 16), (uint8_t)(v >> 8), (uint8_t)v };

	frame(b, type, 0, id, p, 4);
}
static inline void setting(struct buf *b, uint16_t k, uint32_t v)
{
	uint8_t p[6] = { (uint8_t)(k >> 8), (uint8_t)k, (uint8_t)(v >> 24), (uint8_t)(v >> 16), (uint8_t)(v >> 8), (uint8_t)v };

	frame(b, F_SETTINGS, 0, 0, p, 6);
}
static inline void preface(struct buf *b, bool of_client)
{
	if (of_client)
		buf_addz(b, MAGIC);
	frame(b, F_SETTINGS, 0, 0, NULL, 0);
	frame(b, F_SETTINGS, ACK, 0, NULL, 0);
}
static inline void hp_int(struct buf *b, uint8_t first, unsigned bits, size_t n)
{
	size_t max = (1u << bits) - 1;

	if (n < max) {
		buf_addc(b, (char)(first | n));
		return;
	}
	buf_addc(b, (char)(first | max));
	for (n -= max; n >= 128; n >>= 7)
		buf_addc(b, (char)(128 | (n & 127)));
	buf_addc(b, (char)n);
}
/* literal without indexing, without Huffman coding */
static inline void hp(struct buf *b, struct str name, struct str value)
{
	buf_addc(b, 0);
	hp_int(b, 0, 7, name.n);
	buf_adds(b, name);
	hp_int(b, 0, 7, value.n);
	buf_adds(b, value);
}
#define HP(b, name, value) hp(b, STR(name), STR(value))

/* A head as text: lines "name=value", in value \0 is a NUL, \r and \n are themselves written \\r, \\n. */
static inline void hp_text(struct buf *b, const char *text)
{
	while (*text) {
		size_t n = strcspn(text, "\n"), e;
		char t[512];
		size_t k = 0;

		MUST(n < sizeof(t));
		for (size_t i = 0; i < n; i++) {
			char c = text[i];

			if (c == '\\' && i + 1 < n) {
				c = text[++i];
				c = c == '0' ? '\0' : c == 'r' ? '\r' : c == 'n' ? '\n' : c == 't' ? '\t' : c;
			}
			t[k++] = c;
		}
		for (e = 0; e < k && (t[e] != '=' || e == 0); e++)
			;
		if (t[0] == '=')
			hp(b, STR(""), str_mk(t + 1, k - 1));
		else
			hp(b, str_mk(t, e), str_mk(t + e + 1, k - e - 1));
		text += n + (text[n] == '\n');
	}
}
static inline void headers(struct buf *b, uint32_t id, const char *text, bool end)
{
	struct buf block = { 0 };

	hp_text(&block, text);
	frame(b, F_HEADERS, END_HEADERS | (end ? END_STREAM : 0), id, buf_data(&block), buf_len(&block));
	buf_fini(&block);
}
#define GET_ ":method=GET\n:scheme=https\n:authority=a.test\n:path=/\n"
#define POST_ ":method=POST\n:scheme=https\n:authority=a.test\n:path=/p\n"

/* --- a session and what it says -------------------------------------------------------------------------------------- */

#define SEEN_MAX 4096
struct side {
	struct h2 *h;
	struct buf log;   /* events */
	struct buf out;   /* raw output not looked at yet */
	struct buf frames; /* output as text */
	nghttp2_hd_inflater *inf;
	struct h2_stream *st[SEEN_MAX]; /* by id / 2; NULL when dead */
	struct arena kept; /* of the last request or response */
	unsigned requests, malformed, resets, refused;
	size_t data;       /* octets of content */
	bool consume;      /* give content back at once */
	bool quiet;        /* no log of data */
	bool answer;       /* every request with 204 */
	bool over;
	uint64_t now;
};

static inline void log_(struct side *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static inline void log_(struct side *s, const char *fmt, ...)
{
	char t[600];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(t, sizeof(t), fmt, ap);
	va_end(ap);
	buf_addz(&s->log, t);
}
#define S_(s) (int)(s).n, (s).n ? (s).p : ""

static inline void log_fields(struct side *s, const struct http_fields *f)
{
	for (unsigned i = 0; i < f->n; i++) {
		log_(s, " %s", f->f[i].drop ? "-" : "");
		buf_adds(&s->log, f->f[i].name);
		buf_addc(&s->log, '=');
		buf_adds(&s->log, f->f[i].value);
	}
	buf_addc(&s->log, '\n');
}

static inline void keep(struct side *s, struct arena *a)
{
	arena_fini(&s->kept);
	s->kept = *a;
	*a = (struct arena){ 0 };
}

static inline void ev_request(void *arg, struct h2_stream *st, struct http_request *r, struct arena *a, bool end)
{
	struct side *s = arg;
	static const char *const framing[] = { "none", "length", "chunked", "close" };

	MUST(r->version == HTTP_V_2 && r->keep_alive && r->fields.n <= HTTP_FIELDS_MAX);
	s->requests++;
	if (h2_stream_id(st) / 2 < SEEN_MAX)
		s->st[h2_stream_id(st) / 2] = st;
	log_(s, "request %u %.*s %.*s %.*s %.*s%s%.*s %s %llu%s%s%s%s:", h2_stream_id(st), S_(r->method), S_(r->scheme), S_(r->host_field), S_(r->path), r->has_query ? "?" : "",
		S_(r->query), framing[r->framing], (unsigned long long)r->content_length, end ? " end" : "", r->te_trailers ? " te" : "", r->expect_continue ? " expect" : "",
		r->upgrade_websocket ? " websocket" : "");
	log_fields(s, &r->fields);
	keep(s, a);
	if (s->answer) {
		static struct http_response res;

		res = (struct http_response){ .status = 204 };
		h2_send_response(st, &res, HTTP_BODY_NONE, 0, false, true);
		h2_leave(st);
		if (h2_stream_id(st) / 2 < SEEN_MAX)
			s->st[h2_stream_id(st) / 2] = NULL;
	}
}
static inline void ev_malformed(void *arg, struct h2_stream *st, struct http_request *r, struct arena *a, const struct http_fault *f)
{
	struct side *s = arg;

	(void)a;
	s->malformed++;
	MUST(f->code != NULL && f->reason != NULL);
	log_(s, "malformed %u %u %s (%.*s %.*s %.*s)\n", h2_stream_id(st), f->status, f->reason, S_(r->method), S_(r->host_field), S_(r->path));
	if (f->status != 400 && h2_stream_id(st) / 2 < SEEN_MAX)
		s->st[h2_stream_id(st) / 2] = st;
}
static inline void ev_refused(void *arg, uint32_t id)
{
	struct side *s = arg;

	s->refused++;
	log_(s, "refused %u\n", id);
}
static inline void ev_response(void *arg, struct h2_stream *st, struct http_response *r, struct arena *a, bool end)
{
	struct side *s = arg;
	static const char *const framing[] = { "none", "length", "chunked", "close" };

	log_(s, "response %u %u %s %llu%s%s:", h2_stream_id(st), r->status, framing[r->framing], (unsigned long long)r->content_length, r->has_length ? " has_length" : "", end ? " end" : "");
	log_fields(s, &r->fields);
	keep(s, a);
}
static inline void ev_data(void *arg, struct h2_stream *st, const uint8_t *p, size_t n)
{
	struct side *s = arg;

	s->data += n;
	if (!s->quiet) {
		/* so that the log does not depend on how octets arrived */
		char head[32];

		snprintf(head, sizeof(head), "data %u ", h2_stream_id(st));
		if (s->log.len > 0 && s->log.mem[s->log.off + s->log.len - 1] == '\\') {
			s->log.len--;
		} else {
			buf_addz(&s->log, head);
		}
		buf_add(&s->log, p, n);
		buf_addc(&s->log, '\\');
	}
	if (s->consume)
		h2_consumed(st, n);
}
static inline void close_data(struct side *s)
{
	if (s->log.len > 0 && s->log.mem[s->log.off + s->log.len - 1] == '\\')
		s->log.mem[s->log.off + s->log.len - 1] = '\n';
}
static inline void ev_trailers(void *arg, struct h2_stream *st, struct http_fields *f, struct arena *a)
{
	struct side *s = arg;

	(void)a;
	close_data(s);
	log_(s, "trailers %u:", h2_stream_id(st));
	log_fields(s, f);
}
static inline void ev_end(void *arg, struct h2_stream *st)
{
	struct side *s = arg;

	close_data(s);
	log_(s, "end %u\n", h2_stream_id(st));
}
static inline void dead(struct side *s, struct h2_stream *st)
{
	close_data(s);
	if (h2_stream_id(st) / 2 < SEEN_MAX)
		s->st[h2_stream_id(st) / 2] = NULL;
}
static inline void ev_broken(void *arg, struct h2_stream *st, const struct http_fault *f)
{
	struct side *s = arg;

	dead(s, st);
	log_(s, "broken %u %u %s\n", h2_stream_id(st), f->status, f->reason);
}
static inline void ev_reset(void *arg, struct h2_stream *st, uint32_t code, bool unprocessed)
{
	struct side *s = arg;

	dead(s, st);
	s->resets++;
	log_(s, "reset %u %u%s\n", h2_stream_id(st), code, unprocessed ? " unprocessed" : "");
}
static inline void ev_writable(void *arg, struct h2_stream *st) { log_(arg, "writable %u\n", h2_stream_id(st)); }
static inline void ev_settings(void *arg) { (void)arg; }
static inline void ev_goaway(void *arg, uint32_t code) { log_(arg, "goaway %u\n", code); }
static inline void ev_fault(void *arg, const struct http_fault *f)
{
	close_data(arg);
	log_(arg, "fault %u %s\n", f->status, f->reason);
}
static const struct h2_events h2_test_events = { ev_request, ev_malformed, ev_refused, ev_response, ev_data, ev_trailers, ev_end, ev_broken, ev_reset, ev_writable, ev_settings, ev_goaway, ev_fault };

static inline struct h2_config h2_test_config(bool client)
{
	return (struct h2_config){ .client = client, .scheme = STR("https"), .limits = h2_limits_default };
}
static inline void side_open(struct side *s, const struct h2_config *c)
{
	memset(s, 0, sizeof(*s));
	s->now = 1000;
	s->h = h2_new(c, &h2_test_events, s, s->now);
	MUST(nghttp2_hd_inflate_new(&s->inf) == 0);
}
static inline void side_close(struct side *s)
{
	h2_free(s->h);
	buf_fini(&s->log);
	buf_fini(&s->out);
	buf_fini(&s->frames);
	arena_fini(&s->kept);
	nghttp2_hd_inflate_del(s->inf);
}

/* The output as text: "HEADERS 1 end :status=200 ..." with '!' before what is never indexed, "RST 1 8", "GOAWAY 1 11", "DATA 1 5 end". */
static inline void read_frames(struct side *s, bool of_client)
{
	if (of_client && s->out.len >= 24 && memcmp(buf_data(&s->out), MAGIC, 24) == 0)
		buf_drop(&s->out, 24);
	while (s->out.len >= 9) {
		const uint8_t *p = buf_data(&s->out);
		size_t n = (size_t)p[0] << 16 | (size_t)p[1] << 8 | p[2];
		unsigned type = p[3], flags = p[4];
		uint32_t id = (uint32_t)p[5] << 24 | (uint32_t)p[6] << 16 | (uint32_t)p[7] << 8 | p[8], v = 0;
		struct buf *f = &s->frames;

		if (s->out.len < 9 + n)
			return;
		p += 9;
		for (size_t i = 0; i < 4 && i < n; i++)
			v = v << 8 | p[i];
		if (type == F_HEADERS) {
			buf_addf(f, "HEADERS %u%s", id, flags & END_STREAM ? " end" : "");
			for (size_t at = 0;;) {
				nghttp2_nv nv;
				int fl = 0;
				ssize_t k = nghttp2_hd_inflate_hd2(s->inf, &nv, &fl, p + at, n - at, flags & END_HEADERS ? 1 : 0);

				MUST(k >= 0);
				at += (size_t)k;
				if (fl & NGHTTP2_HD_INFLATE_EMIT) {
					buf_addz(f, nv.flags & NGHTTP2_NV_FLAG_NO_INDEX ? " !" : " ");
					buf_add(f, nv.name, nv.namelen);
					buf_addc(f, '=');
					buf_add(f, nv.value, nv.valuelen);
				}
				if ((fl & NGHTTP2_HD_INFLATE_FINAL) || (k == 0 && !(fl & NGHTTP2_HD_INFLATE_EMIT)))
					break;
			}
			nghttp2_hd_inflate_end_headers(s->inf);
			buf_addc(f, '\n');
		} else if (type == F_DATA) {
			buf_addf(f, "DATA %u %zu%s\n", id, n, flags & END_STREAM ? " end" : "");
		} else if (type == F_RST) {
			buf_addf(f, "RST %u %u\n", id, v);
		} else if (type == F_GOAWAY) {
			buf_addf(f, "GOAWAY %u %u\n", v, (unsigned)p[4] << 24 | (unsigned)p[5] << 16 | (unsigned)p[6] << 8 | p[7]);
		} else if (type == F_WINDOW) {
			buf_addf(f, "WINDOW %u %u\n", id, v);
		} else if (type == F_PING) {
			buf_addf(f, "PING%s\n", flags & ACK ? " ack" : "");
		} else {
			MUST(type == F_SETTINGS);
		}
		buf_drop(&s->out, 9 + n);
	}
}

/* What the session says that it does not need now, it does not: other octets stand there from here on. */
static inline bool spoil(struct h2 *h)
{
	size_t n;
	void *p = h2_spare(h, &n);

	if (p != NULL)
		memset(p, 0xa5, n);
	return p != NULL;
}

/* Feeds all of p in steps (0: as it comes), taking output after each step; stops when the session is over. */
static inline void feed_step(struct side *s, const uint8_t *p, size_t n, size_t step, bool client)
{
	size_t at = 0;

	while (at < n && !s->over) {
		size_t k = step && step < n - at ? step : n - at;
		uint8_t *c = must_malloc(k); /* just its size: a sanitizer sees every step too far */
		long r;

		memcpy(c, p + at, k);
		r = h2_feed(s->h, s->now, c, k);
		free(c);
		h2_output(s->h, &s->out, 1 << 20);
		spoil(s->h);
		read_frames(s, client);
		if (r < 0)
			s->over = true;
		else
			at += (size_t)r;
	}
	h2_output(s->h, &s->out, 1 << 20);
	read_frames(s, client);
	close_data(s);
}
static inline void feed(struct side *s, struct buf *b)
{
	feed_step(s, buf_data(b), buf_len(b), 0, false);
	buf_clear(b);
}
static inline bool has(const struct buf *b, const char *text) { return str_find(buf_str(b), str_of(text)) >= 0; }
#define HAS(b, text) \
	do { \
		if (!has(b, text)) \
			fail_msg("line %d: no '%s' in:\n%.*s", __LINE__, text, (int)(b)->len, (char *)buf_data(b)); \
	} while (0)
#define HAS_NOT(b, text) \
	do { \
		if (has(b, text)) \
			fail_msg("line %d: '%s' in:\n%.*s", __LINE__, text, (int)(b)->len, (char *)buf_data(b)); \
	} while (0)
static inline unsigned count(const struct buf *b, const char *text)
{
	struct str s = buf_str(b);
	unsigned n = 0;

	for (ptrdiff_t at; (at = str_find(s, str_of(text))) >= 0; n++)
		s = str_mk(s.p + at + 1, s.n - (size_t)at - 1);
	return n;
}
#endif
