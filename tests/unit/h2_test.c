/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/2 in the server's role: attacks of groups C and D that the session decides, UB08, UB09, UB10. */
#include <malloc.h>

#include "h2_util.h"

#pragma GCC diagnostic ignored "-Wmissing-field-initializers" /* rows leave out what they do not need */

static struct side S;
static struct buf in;

static void start(void)
{
	struct h2_config c = h2_test_config(false);

	side_open(&S, &c);
	buf_clear(&in);
	preface(&in, true);
}
static void stop(void)
{
	side_close(&S);
	buf_fini(&in);
}

/* --- heads ----------------------------------------------------------------------------------------------------------- */

struct row {
	const char *id, *head, *want; /* want: what the log says: the rest of "malformed 1 ", or of "request 1 " */
	bool open;                    /* without END_STREAM */
	const char *data, *trailers;
};

/* Runs a row with its octets split in steps; returns the log with the frames. */
static void run(const struct row *r, size_t step, struct buf *log)
{
	start();
	headers(&in, 1, r->head, !r->open);
	if (r->data != NULL)
		frame(&in, F_DATA, r->trailers ? 0 : END_STREAM, 1, r->data, strlen(r->data));
	if (r->trailers != NULL)
		headers(&in, 1, r->trailers, true);
	headers(&in, 3, GET_, true); /* the connection lives */
	feed_step(&S, buf_data(&in), buf_len(&in), step, false);
	buf_clear(log);
	buf_adds(log, buf_str(&S.log));
	buf_addz(log, "--\n");
	buf_adds(log, buf_str(&S.frames));
	HAS(&S.log, "request 3 GET https a.test / none 0 end:");
	stop();
}

static void run_splits(const struct row *r, struct buf *whole)
{
	struct buf other = { 0 };

	run(r, 0, whole);
	for (size_t step = 1; step < 64; step = step < 24 ? step + 1 : step + 13) { /* A40 */
		run(r, step, &other);
		if (!str_eq(buf_str(whole), buf_str(&other)))
			fail_msg("%s: step %zu:\n%.*s\nnot\n%.*s", r->id, step, (int)other.len, (char *)buf_data(&other), (int)whole->len, (char *)buf_data(whole));
	}
	buf_fini(&other);
}

static void heads_refused(void **state)
{
	static const struct row rows[] = {
		{ "C01 CR", GET_ "x=a\\rb\n", "header_value" },
		{ "C01 LF", GET_ "x=a\\nb\n", "header_value" },
		{ "C01 NUL", GET_ "x=a\\0b\n", "header_value" },
		{ "C01 control", GET_ "x=a\x01" "b\n", "header_value" },
		{ "C01 DEL", GET_ "x=a\x7f" "b\n", "header_value" },
		{ "C01 CRLF in :authority", ":method=GET\n:scheme=https\n:authority=a.test\\r\\nx: y\n:path=/\n", "authority" },
		{ "C02 capital", GET_ "X-A=1\n", "header_name" },
		{ "C02 colon", GET_ "x:y=1\n", "header_name" },
		{ "C02 space", GET_ "x y=1\n", "header_name" },
		{ "C02 control", GET_ "x\x02=1\n", "header_name" },
		{ "C02 not ASCII", GET_ "x\xc3=1\n", "header_name" },
		{ "C02 empty", GET_ "=1\n", "header_name" },
		{ "C03 leading", GET_ "x= a\n", "header_value_space" },
		{ "C03 trailing tab", GET_ "x=a\\t\n", "header_value_space" },
		{ "C04 transfer-encoding", POST_ "transfer-encoding=chunked\n", "connection_field" },
		{ "C04 connection", GET_ "connection=close\n", "connection_field" },
		{ "C04 keep-alive", GET_ "keep-alive=1\n", "connection_field" },
		{ "C04 proxy-connection", GET_ "proxy-connection=keep-alive\n", "connection_field" },
		{ "C04 upgrade", GET_ "upgrade=h2c\n", "connection_field" },
		{ "C05", GET_ "te=gzip\n", "te" },
		{ "C05 list", GET_ "te=trailers, gzip\n", "te" },
		{ "C06 with END_STREAM", POST_ "content-length=5\n", "content_length_sum" },
		{ "C06 two", POST_ "content-length=5\ncontent-length=5\n", "two_lengths", true, "12345" },
		{ "C06 list", POST_ "content-length=5, 5\n", "content_length", true, "12345" },
		{ "C06 sign", POST_ "content-length=+5\n", "content_length", true, "12345" },
		{ "C06 empty", POST_ "content-length=\n", "content_length", true, "12345" },
		{ "C07 spaces", ":method=GET / HTTP/1.1\n:scheme=https\n:authority=a.test\n:path=/\n", "method" },
		{ "C07 line", ":method=GET / HTTP/1.1\\r\\nHost: x\n:scheme=https\n:authority=a.test\n:path=/\n", "method" },
		{ "C07 empty", ":method=\n:scheme=https\n:authority=a.test\n:path=/\n", "method" },
		{ "C07 small letters", ":method=get\n:scheme=https\n:authority=a.test\n:path=/\n", "method" },
		{ "C08 space", ":method=GET\n:scheme=https\n:authority=a.test\n:path=/a b\n", "target" },
		{ "C08 tab", ":method=GET\n:scheme=https\n:authority=a.test\n:path=/a\\tb\n", "target" },
		{ "C08 CRLF", ":method=GET\n:scheme=https\n:authority=a.test\n:path=/a\\r\\nb\n", "target" },
		{ "C08 fragment", ":method=GET\n:scheme=https\n:authority=a.test\n:path=/a#b\n", "target" },
		{ "C08 empty", ":method=GET\n:scheme=https\n:authority=a.test\n:path=\n", "target" },
		{ "C08 no slash", ":method=GET\n:scheme=https\n:authority=a.test\n:path=a\n", "target" },
		{ "C08 absolute", ":method=GET\n:scheme=https\n:authority=a.test\n:path=https://b.test/\n", "target" },
		{ "C08 asterisk", ":method=GET\n:scheme=https\n:authority=a.test\n:path=*\n", "target" },
		{ "C09 other", ":method=GET\n:scheme=http\n:authority=a.test\n:path=/\n", "scheme" },
		{ "C09 URL", ":method=GET\n:scheme=https://evil/\n:authority=a.test\n:path=/\n", "scheme" },
		{ "C10 userinfo", ":method=GET\n:scheme=https\n:authority=u@a.test\n:path=/\n", "authority" },
		{ "C10 path", ":method=GET\n:scheme=https\n:authority=a.test/x\n:path=/\n", "authority" },
		{ "C10 space", ":method=GET\n:scheme=https\n:authority=a.test b\n:path=/\n", "authority" },
		{ "C10 empty", ":method=GET\n:scheme=https\n:authority=\n:path=/\n", "authority" },
		{ "C10 two", GET_ ":authority=a.test\n", "pseudo_twice" },
		{ "C11", GET_ "host=evil.test\n", "host_mismatch" },
		{ "C11 port", GET_ "host=a.test:8443\n", "host_mismatch" },
		{ "C11 two hosts", GET_ "host=a.test\nhost=a.test\n", "two_hosts" },
		{ "C12 neither", ":method=GET\n:scheme=https\n:path=/\n", "no_host" },
		{ "C12 empty host", ":method=GET\n:scheme=https\n:path=/\nhost=\n", "host_empty" },
		{ "C13 after a field", ":method=GET\n:scheme=https\n:authority=a.test\nx=1\n:path=/\n", "pseudo_after_field" },
		{ "C13 unknown", GET_ ":x=1\n", "pseudo_unknown" },
		{ "C13 twice", GET_ ":method=GET\n", "pseudo_twice" },
		{ "C13 :status", GET_ ":status=200\n", "pseudo_unknown" },
		{ "C13 no method", ":scheme=https\n:authority=a.test\n:path=/\n", "no_method" },
		{ "C13 no scheme", ":method=GET\n:authority=a.test\n:path=/\n", "scheme" },
		{ "C13 no path", ":method=GET\n:scheme=https\n:authority=a.test\n", "target" },
		{ "C16 CONNECT", ":method=CONNECT\n:authority=a.test:443\n", "connect", true },
		{ "C16 with path", ":method=CONNECT\n:scheme=https\n:authority=a.test:443\n:path=/\n", "connect", true },
		{ "C16 :protocol", ":method=CONNECT\n:protocol=websocket\n:scheme=https\n:authority=a.test\n:path=/\nsec-websocket-version=13\n", "protocol", true },
		{ "B05 two authorizations", GET_ "authorization=a\nauthorization=b\n", "two_authorizations" },
		{ "B09 underscore", POST_ "content_length=5\n", "header_name" },
		{ "A15", GET_ "expect=100-continue\n", "expect" },
		{ "A15 other", POST_ "expect=y 100-continue\n", "expect", true, "1" },
		{ "A32", GET_ "authorization=a\xff" "b\n", "header_value" },
	};
	struct buf log = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char want[100];

		run_splits(&rows[i], &log);
		snprintf(want, sizeof(want), "malformed 1 400 %s (", rows[i].want);
		if (!has(&log, want) || has(&log, "request 1 ") || !has(&log, "RST 1 1\n") || count(&log, "malformed") != 1)
			fail_msg("%s:\n%.*s", rows[i].id, (int)log.len, (char *)buf_data(&log));
		HAS_NOT(&log, "data 1");
		HAS_NOT(&log, "end 1\n");
	}
	buf_fini(&log);
}

static void heads_accepted(void **state)
{
	static const struct row rows[] = {
		{ "plain", GET_ "accept=*/*\nx=a, \xff b\n", "GET https a.test / none 0 end: accept=*/* x=a, \xff b\n" },
		{ "query", ":method=GET\n:scheme=https\n:authority=a.test:443\n:path=/a?b=c?d\n", "GET https a.test:443 /a?b=c?d none 0 end:\n" },
		{ "options", ":method=OPTIONS\n:scheme=https\n:authority=a.test\n:path=*\n", "OPTIONS https a.test * none 0 end:\n" },
		{ "C05", GET_ "te=trailers\n", "GET https a.test / none 0 end te: te=trailers\n" },
		{ "C06", POST_ "content-length=5\n", "POST https a.test /p length 5: content-length=5\ndata 1 12345\nend 1\n", true, "12345" },
		{ "no length", POST_, "POST https a.test /p chunked 0:\ndata 1 12345\nend 1\n", true, "12345" },
		{ "length 0", POST_ "content-length=0\n", "POST https a.test /p length 0 end: content-length=0\nend 1\n" },
		{ "UB10 C12", ":method=GET\n:scheme=https\n:path=/\nhost=a.test\n", "GET https a.test / none 0 end: host=a.test\n" },
		{ "C11 same", GET_ "host=A.test:443\n", "GET https a.test / none 0 end: host=A.test:443\n" },
		{ "UB09 C15", GET_ "cookie=a=1\nx=1\ncookie=b=2\ncookie=c=3\n", "GET https a.test / none 0 end: cookie=a=1; b=2; c=3 x=1\n" },
		{ "A15", POST_ "expect=100-continue\n", "POST https a.test /p chunked 0 expect: expect=100-continue\n", true, "1" },
		{ "B09", GET_ "x_forwarded_for=1\nx_y=1\n", "GET https a.test / none 0 end: -x_forwarded_for=1 x_y=1\n" },
		{ "trailers", POST_, "POST https a.test /p chunked 0:\ndata 1 12\ntrailers 1: x-sum=1\nend 1\n", true, "12", "x-sum=1\n" },
	};
	struct buf log = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char want[300];

		run_splits(&rows[i], &log);
		snprintf(want, sizeof(want), "request 1 %s", rows[i].want);
		if (!has(&log, want) || has(&log, "RST") || has(&log, "malformed"))
			fail_msg("%s:\n%.*s", rows[i].id, (int)log.len, (char *)buf_data(&log));
	}
	buf_fini(&log);
}

/* Faults behind the head: the request is known, then broken. */
static void content_refused(void **state)
{
	static const struct row rows[] = {
		{ "C06 more", POST_ "content-length=4\n", "content_length_sum", true, "12345" },
		{ "C06 less", POST_ "content-length=6\n", "content_length_sum", true, "12345" },
		{ "C06 less, trailers", POST_ "content-length=6\n", "content_length_sum", true, "12345", "x=1\n" },
		{ "C13 C17 pseudo", POST_, "pseudo_in_trailers", true, "1", ":path=/\n" },
		{ "C06 more, in two", POST_ "content-length=1\n", "content_length_sum", true, "12" },
		{ "C17 connection", POST_, "connection_field", true, "1", "connection=close\n" },
		{ "C17 C04 te", POST_, "connection_field", true, "1", "transfer-encoding=chunked\n" },
		{ "A22 length", POST_, "trailer_field", true, "1", "content-length=1\n" },
		{ "A22 authorization", POST_, "trailer_field", true, "1", "authorization=x\n" },
		{ "A22 underscore", POST_, "trailer_field", true, "1", "x_api_key=x\n" },
		{ "C02 name", POST_, "header_name", true, "1", "X=1\n" },
		{ "C01 value", POST_, "header_value", true, "1", "x=1\\r\\nb: c\n" },
	};
	struct buf log = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char want[100];

		run_splits(&rows[i], &log);
		snprintf(want, sizeof(want), "broken 1 400 %s\n", rows[i].want);
		if (!has(&log, want) || !has(&log, "request 1 ") || !has(&log, "RST 1 1\n") || has(&log, "end 1\n") || has(&log, "trailers 1"))
			fail_msg("%s:\n%.*s", rows[i].id, (int)log.len, (char *)buf_data(&log));
	}
	buf_fini(&log);
}

/* RFC 9113 8.1: what comes in the middle is no trailer section. */
static void trailers_without_end(void **state)
{
	(void)state;
	start();
	headers(&in, 1, POST_, false);
	headers(&in, 1, "x=1\n", false);
	feed(&S, &in);
	HAS(&S.log, "broken 1 400 trailers_without_end\n");
	HAS(&S.frames, "RST 1 1\n");
	stop();
}

static void c16_websocket(void **state)
{
	struct h2_config c = h2_test_config(false);
	static const char ws[] = ":method=CONNECT\n:protocol=websocket\n:scheme=https\n:authority=a.test\n:path=/chat\nsec-websocket-version=13\n";
	static const struct http_response switched = { .status = 101 };

	(void)state;
	c.connect_protocol = true;
	side_open(&S, &c);
	preface(&in, true);
	headers(&in, 1, ws, false);
	headers(&in, 3, ":method=CONNECT\n:protocol=connect-udp\n:scheme=https\n:authority=a.test\n:path=/\n", false);
	headers(&in, 5, ":method=GET\n:protocol=websocket\n:scheme=https\n:authority=a.test\n:path=/\n", false);
	headers(&in, 7, ":method=CONNECT\n:protocol=websocket\n:scheme=https\n:authority=a.test\n:path=/\nsec-websocket-version=8\n", false);
	headers(&in, 9, ":method=CONNECT\n:authority=a.test:443\n", false);
	frame(&in, F_DATA, 0, 1, "frames", 6);
	feed(&S, &in);
	HAS(&S.log, "request 1 GET https a.test /chat none 0 websocket: sec-websocket-version=13\n");
	HAS(&S.log, "data 1 frames");
	HAS(&S.log, "malformed 3 400 protocol");
	HAS(&S.log, "malformed 5 400 protocol");
	HAS(&S.log, "malformed 7 400 websocket_handshake");
	HAS(&S.log, "malformed 9 400 connect ");
	h2_send_response(S.st[0], &switched, HTTP_BODY_NONE, 0, false, false);
	h2_send_data(S.st[0], (const uint8_t *)"back", 4);
	feed(&S, &in);
	HAS(&S.frames, "HEADERS 1 :status=200\nDATA 1 4\n");
	stop();
}

/* --- limits ---------------------------------------------------------------------------------------------------------- */

static struct buf block;

static void send_block(uint32_t id, size_t per_frame)
{
	size_t at = 0, n = buf_len(&block);

	do {
		size_t k = n - at < per_frame ? n - at : per_frame;

		frame(&in, at ? F_CONTINUATION : F_HEADERS, (at ? 0 : END_STREAM) | (at + k == n ? END_HEADERS : 0), id, buf_data(&block) + at, k);
		at += k;
	} while (at < n);
	buf_clear(&block);
}

static void b10_limits(void **state)
{
	static char big[20000];
	static struct http_response res = { .status = 431, .has_length = true };

	(void)state;
	memset(big, 'a', sizeof(big));
	start();
	hp_text(&block, GET_);
	for (int i = 0; i < 101; i++)
		HP(&block, "x", "1");
	send_block(1, 16384);
	hp_text(&block, GET_);
	for (int i = 0; i < 5; i++)
		hp(&block, STR("x"), str_mk(big, 15000));
	send_block(3, 16384);
	hp_text(&block, GET_);
	hp(&block, STR("x"), str_mk(big, 16384));
	send_block(5, 16384);
	hp_text(&block, GET_);
	hp(&block, str_mk(big, 256), STR("1"));
	send_block(7, 16384);
	HP(&block, ":method", "GET");
	big[0] = '/';
	hp(&block, STR(":path"), str_mk(big, 16385));
	send_block(9, 16384);
	hp_text(&block, GET_);
	for (int i = 0; i < 101; i++)
		HP(&block, "cookie", "a");
	send_block(11, 16384);
	hp_text(&block, GET_);
	for (int i = 0; i < 100; i++)
		HP(&block, "x", "1");
	send_block(13, 16384);
	feed(&S, &in);
	HAS(&S.log, "malformed 1 431 fields (GET a.test /)");
	HAS(&S.log, "malformed 3 431 head (GET a.test /)");
	HAS(&S.log, "malformed 5 431 field_line (GET a.test /)");
	HAS(&S.log, "malformed 7 431 header_name (GET a.test /)");
	HAS(&S.log, "malformed 9 414 target (GET  )");
	HAS(&S.log, "malformed 11 431 cookie_crumbs (GET a.test /)");
	HAS(&S.log, "request 13 GET");
	HAS_NOT(&S.frames, "RST");
	/* such a request gets an answer */
	h2_send_response(S.st[0], &res, HTTP_BODY_LENGTH, 2, false, false);
	h2_send_data(S.st[0], (const uint8_t *)"no", 2);
	h2_send_end(S.st[0]);
	h2_leave(S.st[0]);
	feed(&S, &in);
	HAS(&S.frames, "HEADERS 1 :status=431 content-length=2\nDATA 1 2 end\n");
	assert_int_equal(h2_streams(S.h), 6);
	stop();
	buf_fini(&block);
}

/* One octet for a field of 4 KB in the table: counted as what it is when decoded. */
static void d05_d06_hpack_bombs(void **state)
{
	static char big[3900];

	(void)state;
	memset(big, 'b', sizeof(big));
	start();
	hp_text(&block, GET_);
	buf_addc(&block, 0x40); /* into the dynamic table */
	hp_int(&block, 0, 7, 1);
	buf_addc(&block, 'x');
	hp_int(&block, 0, 7, sizeof(big));
	buf_add(&block, big, sizeof(big));
	for (int i = 0; i < 12000; i++)
		buf_addc(&block, (char)(0x80 | 62));
	send_block(1, 16384);
	hp_text(&block, GET_);
	for (int i = 0; i < 16000; i++)
		buf_addc(&block, (char)(0x80 | 19)); /* accept: empty, of the static table: 32 octets each */
	send_block(3, 16384);
	hp_text(&block, GET_);
	for (int i = 0; i < 3000; i++)
		buf_addz(&block, "\x0f\x11"), buf_addc(&block, 0); /* cookie, empty */
	send_block(5, 16384);
	feed(&S, &in);
	HAS(&S.log, "malformed 1 431 head ");
	HAS(&S.log, "malformed 3 431 fields ");
	HAS(&S.log, "malformed 5 431 cookie_crumbs ");
	assert_true(S.kept.used < 65536);
	stop();
	buf_fini(&block);
}

/* --- floods ---------------------------------------------------------------------------------------------------------- */

/* The connection ends with ENHANCE_YOUR_CALM, and the owner hears of it once. */
static void calmed(const char *id)
{
	if (!has(&S.frames, "GOAWAY "))
		fail_msg("%s: no GOAWAY", id);
	if (!has(&S.frames, " 11\n") || count(&S.log, "fault 400 h2_") != 1 || !S.over)
		fail_msg("%s:\n%.*s%.*s", id, (int)(S.log.len < 300 ? S.log.len : 300), (char *)buf_data(&S.log) + (S.log.len < 300 ? 0 : S.log.len - 300), (int)S.frames.len, (char *)buf_data(&S.frames));
	assert_true(h2_done(S.h));
	assert_int_equal(h2_feed(S.h, S.now, (const uint8_t *)"x", 1), -1);
}

static void ends_with(const char *id, uint32_t code, const char *reason)
{
	char goaway[32];

	snprintf(goaway, sizeof(goaway), " %u\n", code);
	if (!has(&S.frames, "GOAWAY ") || !has(&S.frames, goaway) || !has(&S.log, reason) || !h2_done(S.h))
		fail_msg("%s:\n%.*s%.*s", id, (int)(S.log.len < 300 ? S.log.len : 300), (char *)buf_data(&S.log) + (S.log.len < 300 ? 0 : S.log.len - 300), (int)S.frames.len, (char *)buf_data(&S.frames));
	assert_int_equal(count(&S.log, "fault "), 1);
}

static void d01_rapid_reset(void **state)
{
	(void)state;
	start();
	for (uint32_t i = 0; i < 5000; i++) {
		headers(&in, i * 2 + 1, GET_, true);
		frame32(&in, F_RST, i * 2 + 1, H2_CANCEL);
	}
	feed(&S, &in);
	calmed("D01");
	assert_true(S.requests < 250);
	h2_lost(S.h);
	assert_int_equal(S.resets, S.requests); /* each was told */
	stop();
}

static void d02_made_you_reset(void **state)
{
	(void)state;
	start(); /* WINDOW_UPDATE of zero: nghttp2 ends the connection */
	headers(&in, 1, POST_, false);
	frame32(&in, F_WINDOW, 1, 0);
	feed(&S, &in);
	ends_with("D02 zero", H2_PROTOCOL_ERROR, "fault 400 h2_protocol");
	stop();
	start(); /* over 2^31 */
	for (uint32_t i = 0; i < 3000; i++) {
		headers(&in, i * 2 + 1, POST_, false);
		frame32(&in, F_WINDOW, i * 2 + 1, 0x7fffffff);
	}
	feed(&S, &in);
	calmed("D02 overflow");
	assert_true(S.requests < 400);
	stop();
	start(); /* malformed heads */
	for (uint32_t i = 0; i < 3000 && !S.over; i++) {
		headers(&in, i * 2 + 1, GET_ "connection=close\n", true);
		if (i % 50 == 0)
			feed(&S, &in);
	}
	calmed("D02 malformed");
	assert_true(S.malformed < 500);
	stop();
	start(); /* lengths that do not agree */
	for (uint32_t i = 0; i < 3000 && !S.over; i++) {
		headers(&in, i * 2 + 1, POST_ "content-length=1\n", false);
		frame(&in, F_DATA, END_STREAM, i * 2 + 1, "22", 2);
		if (i % 50 == 0)
			feed(&S, &in);
	}
	calmed("D02 length");
	stop();
	start(); /* streams over the cap: once the client knows it, that is the end */
	for (uint32_t i = 0; i < 101; i++)
		headers(&in, i * 2 + 1, GET_, true);
	feed(&S, &in);
	ends_with("D02 cap", H2_PROTOCOL_ERROR, "fault 400 h2_protocol");
	assert_int_equal(S.requests, 100);
	stop();
	start(); /* and before it has said so */
	buf_clear(&in);
	buf_addz(&in, MAGIC);
	frame(&in, F_SETTINGS, 0, 0, NULL, 0);
	for (uint32_t i = 0; i < 3000; i++) {
		headers(&in, i * 2 + 1, GET_, true);
		if (i == 101)
			feed(&S, &in);
	}
	feed(&S, &in);
	calmed("D02 cap");
	assert_int_equal(S.requests, 100);
	assert_true(S.refused > 0 && S.refused < 500);
	HAS(&S.log, "refused 201\n");
	HAS(&S.frames, "RST 201 7\n");
	stop();
}

static void d03_d04_continuations(void **state)
{
	(void)state;
	start();
	hp_text(&block, GET_);
	frame(&in, F_HEADERS, END_STREAM, 1, buf_data(&block), buf_len(&block));
	for (int i = 0; i < 9; i++)
		frame(&in, F_CONTINUATION, 0, 1, NULL, 0);
	feed(&S, &in);
	calmed("D03");
	HAS(&S.log, "fault 400 h2_continuations\n");
	assert_int_equal(S.requests, 0);
	stop();
	start(); /* in small pieces, but whole */
	buf_clear(&block);
	hp_text(&block, GET_);
	send_block(1, (buf_len(&block) + 7) / 8);
	feed(&S, &in);
	HAS(&S.log, "request 1 GET");
	stop();
	buf_fini(&block);
}

static void d04_d07_frames(void **state)
{
	static const struct {
		const char *id;
		unsigned type, flags;
		uint32_t stream;
		const char *p;
		size_t n;
	} rows[] = {
		{ "D04 CVE-2019-9518 empty DATA", F_DATA, 0, 1, "", 0 },
		{ "D04 padded empty DATA", F_DATA, PADDED, 1, "\0", 1 },
		{ "D07 SETTINGS", F_SETTINGS, 0, 0, "", 0 },
		{ "D07 SETTINGS window flips (D09)", F_SETTINGS, 0, 0, "\0\4\0\0\0\0", 6 },
		{ "D07 PING", F_PING, 0, 0, "12345678", 8 },
		{ "D07 PING ack", F_PING, ACK, 0, "12345678", 8 },
		{ "D07 PRIORITY", F_PRIORITY, 0, 1, "\0\0\0\3\x10", 5 },
		{ "D07 PRIORITY of idle streams", F_PRIORITY, 0, 1001, "\0\0\0\0\x10", 5 },
		{ "D07 WINDOW_UPDATE", F_WINDOW, 0, 0, "\0\0\0\1", 4 },
		{ "D07 RST of ended streams", F_RST, 0, 3, "\0\0\0\x8", 4 },
		{ "unknown frames", 0xbe, 0, 0, "xx", 2 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		start();
		headers(&in, 1, POST_, false);
		headers(&in, 3, GET_, true);
		frame32(&in, F_RST, 3, H2_CANCEL);
		for (int k = 0; k < 300; k++)
			frame(&in, rows[i].type, rows[i].flags, rows[i].stream, rows[i].p, rows[i].n);
		if (rows[i].type != F_SETTINGS && rows[i].type != F_RST) { /* a peer may be a little odd */
			feed(&S, &in);
			if (S.over)
				fail_msg("%s: too soon", rows[i].id);
		}
		for (int k = 0; k < 3000; k++)
			frame(&in, rows[i].type, rows[i].flags, rows[i].stream, rows[i].p, rows[i].n);
		feed(&S, &in);
		calmed(rows[i].id);
		assert_true(count(&S.frames, "PING ack") < 1000);
		stop();
	}
}

/* Without output being taken nothing more is read: answers do not pile up. */
static void d07_output_not_taken(void **state)
{
	size_t at = 0;
	long r;

	(void)state;
	start();
	for (int i = 0; i < 350; i++)
		frame(&in, F_PING, 0, 0, "12345678", 8);
	do {
		r = h2_feed(S.h, S.now, buf_data(&in) + at, buf_len(&in) - at < 170 ? buf_len(&in) - at : 170);
		at += r > 0 ? (size_t)r : 0;
	} while (r > 0);
	assert_int_equal(r, 0);
	assert_true(at < 2000);
	h2_output(S.h, &S.out, 1 << 20);
	assert_true(h2_feed(S.h, S.now, buf_data(&in) + at, 17) > 0);
	stop();
}

/* The budget comes back: the same frames over a long time are fine. */
static void budget_refills(void **state)
{
	(void)state;
	start();
	feed(&S, &in);
	for (int i = 0; i < 3000; i++) {
		S.now += 100;
		frame(&in, F_PING, 0, 0, "12345678", 8);
		feed(&S, &in);
	}
	assert_false(S.over);
	assert_int_equal(count(&S.frames, "PING ack"), 3000);
	stop();
}

static void d09_settings(void **state)
{
	static struct http_response res = { .status = 200 };
	static uint8_t body[1000];

	(void)state;
	start();
	setting(&in, 1, 0xffffffff); /* HEADER_TABLE_SIZE 4 GB */
	headers(&in, 1, GET_, true);
	headers(&in, 3, GET_, true);
	feed(&S, &in);
	for (int i = 0; i < 2; i++) {
		res.fields.n = 0;
		http_fields_add(&res.fields, STR("x-a"), STR("some value to be put into the table"), HF_OTHER);
		h2_send_response(S.st[i], &res, HTTP_BODY_CHUNKED, 0, false, false);
		h2_send_data(S.st[i], body, sizeof(body));
	}
	feed(&S, &in);
	setting(&in, 4, 0); /* windows to nothing, then into debt and back */
	feed(&S, &in);
	HAS(&S.frames, "DATA 1 1000\n");
	HAS(&S.frames, "DATA 3 1000\n");
	setting(&in, 4, 1000);
	setting(&in, 4, 1500);
	h2_send_data(S.st[0], body, sizeof(body));
	feed(&S, &in);
	HAS(&S.frames, "DATA 1 500\n");
	setting(&in, 4, 0x80000000u);
	feed(&S, &in);
	HAS(&S.log, "fault 400 h2_flow_control\n");
	assert_true(h2_done(S.h));
	stop();
}

static void d10_after_goaway(void **state)
{
	(void)state;
	start();
	headers(&in, 1, POST_, false);
	headers(&in, 2, GET_, true); /* even: the end */
	feed(&S, &in);
	HAS(&S.frames, "GOAWAY 1 1\n");
	for (int i = 0; i < 256; i++) {
		frame(&in, (unsigned)i, 0xff, (uint32_t)i, "\xff\xff\xff\xff\xff\xff\xff\xff", 8);
		assert_int_equal(h2_feed(S.h, S.now, buf_data(&in), buf_len(&in)), -1);
	}
	h2_lost(S.h);
	HAS(&S.log, "reset 1 8\n");
	stop();
}

/* --- streams and connection ------------------------------------------------------------------------------------------ */

static void c18_stream_ids(void **state)
{
	(void)state;
	start();
	headers(&in, 2, GET_, true);
	feed(&S, &in);
	ends_with("C18 even", H2_PROTOCOL_ERROR, "fault 400 h2_protocol");
	stop();
	start();
	headers(&in, 0, GET_, true);
	feed(&S, &in);
	ends_with("C18 zero", H2_PROTOCOL_ERROR, "fault 400 h2_protocol");
	stop();
	start();
	headers(&in, 5, GET_, true);
	headers(&in, 3, GET_, true);
	feed(&S, &in);
	ends_with("C18 decreasing", H2_PROTOCOL_ERROR, "fault 400 h2_stream_id");
	HAS_NOT(&S.log, "request 3");
	stop();
	start();
	frame(&in, F_DATA, 0, 1, "x", 1);
	feed(&S, &in);
	ends_with("C18 idle", H2_PROTOCOL_ERROR, "fault 400 h2_protocol");
	stop();
	start(); /* half-closed: RFC 9113 5.1 */
	headers(&in, 1, GET_, true);
	frame(&in, F_DATA, END_STREAM, 1, "x", 1);
	feed(&S, &in);
	ends_with("DATA behind the end", H2_STREAM_CLOSED, "fault 400 h2_stream_closed");
	stop();
	start();
	S.answer = true;
	headers(&in, 1, GET_, true);
	feed(&S, &in);
	headers(&in, 1, GET_, true);
	feed(&S, &in);
	ends_with("HEADERS on a closed stream", H2_STREAM_CLOSED, "fault 400 h2_stream_closed");
	stop();
	start(); /* after a reset of ours they may have been under way */
	headers(&in, 1, POST_, false);
	feed(&S, &in);
	h2_reset(S.st[0], H2_CANCEL);
	feed(&S, &in);
	HAS(&S.frames, "RST 1 8\n");
	frame(&in, F_DATA, 0, 1, "abc", 3);
	headers(&in, 1, "x=1\n", true);
	headers(&in, 3, GET_, true);
	feed(&S, &in);
	HAS(&S.log, "request 3");
	HAS_NOT(&S.log, "data");
	HAS_NOT(&S.frames, "GOAWAY");
	for (int i = 0; i < 1000; i++) /* D04: nor may they come for ever */
		frame(&in, F_DATA, 0, 1, NULL, 0);
	feed(&S, &in);
	calmed("D04 empty DATA for a stream that is gone");
	stop();
	for (size_t step = 0; step < 16; step++) { /* C22: the only rules that PRIORITY still has */
		start();
		frame(&in, F_PRIORITY, 0, 3, "\0\0\0\1\x10", 5);
		frame(&in, F_PRIORITY, 0, 5, "\x80\0\0\1\x10", 5);
		headers(&in, 1, GET_, true);
		frame(&in, F_PRIORITY, 0, 3, "\x80\0\0\3\x10", 5);
		feed_step(&S, buf_data(&in), buf_len(&in), step, false);
		HAS(&S.log, "request 1");
		ends_with("PRIORITY on itself", H2_PROTOCOL_ERROR, "fault 400 h2_protocol");
		stop();
	}
	start();
	frame(&in, F_PRIORITY, 0, 0, "\0\0\0\1\x10", 5);
	feed(&S, &in);
	ends_with("PRIORITY for 0", H2_PROTOCOL_ERROR, "fault 400 h2_protocol");
	stop();
}

static void c19_push(void **state)
{
	(void)state;
	start();
	headers(&in, 1, POST_, false);
	frame(&in, F_PUSH, END_HEADERS, 1, "\0\0\0\2", 4);
	feed(&S, &in);
	ends_with("C19", H2_PROTOCOL_ERROR, "fault 400 h2_protocol");
	stop();
}

static void c20_preface(void **state)
{
	static const char *const texts[] = { "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", "\x16\x03\x01\x02" };

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		for (size_t step = 0; step < 3; step++) {
			struct h2_config c = h2_test_config(false);

			side_open(&S, &c);
			feed_step(&S, (const uint8_t *)texts[i], strlen(texts[i]), step, false);
			assert_true(S.over);
			assert_string_equal((buf_addc(&S.log, 0), (char *)buf_data(&S.log)), "fault 400 h2_preface\n");
			stop();
		}
	{ /* the frame after it must be SETTINGS */
		struct h2_config c = h2_test_config(false);

		side_open(&S, &c);
		buf_addz(&in, MAGIC);
		headers(&in, 1, GET_, true);
		feed(&S, &in);
		ends_with("no SETTINGS", H2_PROTOCOL_ERROR, "fault 400 h2_protocol");
		HAS_NOT(&S.log, "request");
		stop();
	}
}

static void c23_hpack(void **state)
{
	static const struct {
		const char *id, *p;
		size_t n;
	} rows[] = {
		{ "index 0", "\x80", 1 },
		{ "index out of range", "\xff\x7f", 2 },
		{ "Huffman padding", "\x00\x81\x00\x01x", 5 }, /* zeros */
		{ "Huffman EOS", "\x00\x84\xff\xff\xff\xff\x01x", 8 },
		{ "size update over the limit", "\x3f\xe2\x1f\x82", 4 },
		{ "size update in the middle", "\x82\x20", 2 },
		{ "integer too long", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 11 },
		{ "cut string", "\x00\x05x", 3 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		start();
		frame(&in, F_HEADERS, END_HEADERS | END_STREAM, 1, rows[i].p, rows[i].n);
		feed(&S, &in);
		ends_with(rows[i].id, H2_COMPRESSION_ERROR, "fault 400 h2_compression");
		HAS_NOT(&S.log, "request");
		stop();
	}
}

static void c25_cancel(void **state)
{
	static struct http_response res = { .status = 200 };
	static uint8_t big[300000];

	(void)state;
	start();
	headers(&in, 1, POST_, false);
	headers(&in, 3, GET_, true);
	feed(&S, &in);
	h2_send_response(S.st[1], &res, HTTP_BODY_CHUNKED, 0, false, false);
	h2_send_data(S.st[1], big, sizeof(big));
	feed(&S, &in);
	frame32(&in, F_RST, 1, H2_CANCEL);
	frame32(&in, F_RST, 3, H2_CANCEL);
	feed(&S, &in);
	HAS(&S.log, "reset 1 8\n");
	HAS(&S.log, "reset 3 8\n");
	assert_int_equal(h2_streams(S.h), 0);
	stop();
}

static void answer_early(struct h2_stream *st)
{
	static struct http_response res = { .status = 403, .has_length = true };

	h2_send_response(st, &res, HTTP_BODY_LENGTH, 2, false, false);
	h2_send_data(st, (const uint8_t *)"no", 2);
	h2_send_end(st);
	h2_leave(st);
}

/* A response before the request's end: what still comes is taken for a while, then RST_STREAM(NO_ERROR) (RFC 9113 8.1; A14). */
static void early_response(void **state)
{
	static uint8_t chunk[16384];

	(void)state;
	start();
	for (uint32_t id = 1; id <= 5; id += 2)
		headers(&in, id, POST_, false);
	frame(&in, F_DATA, 0, 1, "abc", 3);
	feed(&S, &in);
	for (unsigned i = 0; i < 3; i++)
		answer_early(S.st[i]);
	feed(&S, &in);
	HAS(&S.frames, "HEADERS 1 :status=403 content-length=2\n");
	HAS(&S.frames, "DATA 1 2 end\n");
	HAS_NOT(&S.frames, "RST");
	frame(&in, F_DATA, END_STREAM, 1, "def", 3);
	feed(&S, &in);
	assert_int_equal(h2_streams(S.h), 2);
	/* 3 sends on, and gets room for it; up to a limit */
	for (int i = 0; i < 64; i++) {
		frame(&in, F_DATA, 0, 3, chunk, sizeof(chunk));
		feed(&S, &in);
	}
	HAS(&S.frames, "WINDOW 3 ");
	HAS_NOT(&S.frames, "RST");
	frame(&in, F_DATA, 0, 3, chunk, sizeof(chunk));
	feed(&S, &in);
	HAS(&S.frames, "RST 3 0\n");
	/* 5 says nothing: not for ever */
	h2_reap(S.h, S.now + 1000);
	feed(&S, &in);
	HAS_NOT(&S.frames, "RST 5");
	h2_reap(S.h, S.now + 2000);
	feed(&S, &in);
	HAS(&S.frames, "RST 5 0\n");
	assert_int_equal(h2_streams(S.h), 0);
	frame(&in, F_DATA, END_STREAM, 5, "def", 3);
	feed(&S, &in);
	HAS_NOT(&S.frames, "GOAWAY");
	stop();
}

/* C06: also behind the response a length is kept, or the stream is at fault; h2spec finds this where an upstream is quick. */
static void early_response_then_wrong_length(void **state)
{
	(void)state;
	start();
	for (uint32_t id = 1; id <= 7; id += 2)
		headers(&in, id, POST_ "content-length=4\n", false);
	feed(&S, &in);
	for (unsigned i = 0; i < 4; i++)
		answer_early(S.st[i]);
	frame(&in, F_DATA, END_STREAM, 1, "abc", 3);
	frame(&in, F_DATA, END_STREAM, 3, "abcde", 5);
	frame(&in, F_DATA, 0, 5, "abc", 3);
	frame(&in, F_DATA, 0, 5, "de", 2);
	frame(&in, F_DATA, 0, 7, "ab", 2);
	frame(&in, F_DATA, END_STREAM, 7, "cd", 2);
	feed(&S, &in);
	HAS(&S.frames, "RST 1 1\n");
	HAS(&S.frames, "RST 3 1\n");
	HAS(&S.frames, "RST 5 1\n");
	HAS_NOT(&S.frames, "RST 7");
	assert_int_equal(h2_streams(S.h), 0);
	stop();
}

/* An answer that breaks off: what was said of it arrives, and then that it is no whole. */
static void abort_behind_queue(void **state)
{
	static struct http_response res = { .status = 200 };

	(void)state;
	start();
	setting(&in, 4, 3);
	for (uint32_t id = 1; id <= 5; id += 2)
		headers(&in, id, GET_, true);
	feed(&S, &in);
	for (unsigned i = 0; i < 3; i++)
		h2_send_response(S.st[i], &res, HTTP_BODY_CHUNKED, 0, false, false);
	h2_send_data(S.st[0], (const uint8_t *)"abcdef", 6);
	h2_abort(S.st[0], H2_CANCEL); /* half of it waits for the window */
	h2_abort(S.st[1], H2_CANCEL); /* nothing but the head */
	feed(&S, &in);
	HAS(&S.frames, "HEADERS 3 :status=200\n");
	HAS(&S.frames, "RST 3 8\n");
	HAS(&S.frames, "DATA 1 3\n");
	HAS_NOT(&S.frames, "RST 1");
	frame32(&in, F_WINDOW, 1, 100);
	feed(&S, &in);
	HAS(&S.frames, "DATA 1 3\nRST 1 8\n");
	h2_abort(S.st[2], H2_INTERNAL_ERROR);
	feed(&S, &in);
	HAS(&S.frames, "RST 5 2\n");
	HAS_NOT(&S.frames, "end");
	assert_int_equal(h2_streams(S.h), 0);
	stop();
}

/* UB06, D15: a stream whose content is not taken stops, the others and the connection do not. */
static void windows(void **state)
{
	static uint8_t chunk[16384];

	(void)state;
	start();
	headers(&in, 1, POST_, false);
	headers(&in, 3, POST_, false);
	feed(&S, &in);
	S.quiet = true;
	for (int i = 0; i < 16; i++) { /* all that stream 1 may send */
		frame(&in, F_DATA, 0, 1, chunk, sizeof(chunk));
		feed(&S, &in);
	}
	HAS_NOT(&S.frames, "WINDOW 1 ");
	assert_int_equal(S.data, 262144);
	S.consume = true;
	for (int i = 0; i < 1000; i++) {
		frame(&in, F_DATA, 0, 3, chunk, sizeof(chunk));
		feed(&S, &in);
	}
	assert_int_equal(S.data, 262144 + 1000 * sizeof(chunk));
	HAS(&S.frames, "WINDOW 3 ");
	HAS(&S.frames, "WINDOW 0 ");
	HAS_NOT(&S.frames, "WINDOW 1 ");
	HAS_NOT(&S.frames, "RST");
	h2_consumed(S.st[0], 262144);
	feed(&S, &in);
	HAS(&S.frames, "WINDOW 1 262144\n");
	for (int i = 0; i < 17; i++) /* more than was allowed (D02) */
		frame(&in, F_DATA, 0, 1, chunk, sizeof(chunk));
	S.consume = false;
	feed(&S, &in);
	HAS(&S.frames, "RST 1 3\n");
	HAS(&S.log, "reset 1 3\n");
	stop();
}

static void backpressure(void **state)
{
	static struct http_response res = { .status = 200 };
	static uint8_t chunk[16375];
	unsigned queued = 0;

	(void)state;
	start();
	headers(&in, 1, GET_, true);
	feed(&S, &in);
	h2_send_response(S.st[0], &res, HTTP_BODY_CHUNKED, 0, false, false);
	while (!h2_full(S.st[0])) {
		h2_send_data(S.st[0], chunk, sizeof(chunk));
		queued++;
	}
	assert_int_equal(queued, 5);
	feed(&S, &in); /* the peer's window is 65,535 */
	HAS(&S.frames, "DATA 1 16375\nDATA 1 16375\nDATA 1 16375\nDATA 1 16375\nDATA 1 35\n");
	HAS(&S.log, "writable 1\n");
	assert_false(h2_full(S.st[0]));
	frame32(&in, F_WINDOW, 0, 100000);
	frame32(&in, F_WINDOW, 1, 100000);
	h2_send_end(S.st[0]);
	feed(&S, &in);
	HAS(&S.frames, "DATA 1 16340 end\n");
	h2_leave(S.st[0]);
	feed(&S, &in);
	assert_int_equal(h2_streams(S.h), 0);
	stop();
}

/* D08, D05: held by a window of nothing, or fed in crumbs. */
static void d08_stalled(void **state)
{
	static struct http_response res = { .status = 200 };
	static uint8_t big[100000];

	(void)state;
	start();
	setting(&in, 4, 0);
	headers(&in, 1, GET_, true);
	headers(&in, 3, GET_, true);
	headers(&in, 5, GET_, true);
	feed(&S, &in);
	for (int i = 0; i < 3; i++) {
		h2_send_response(S.st[i], &res, HTTP_BODY_CHUNKED, 0, false, false);
		h2_send_data(S.st[i], big, sizeof(big));
	}
	for (int i = 0; i < 30; i++) {
		h2_reap(S.h, S.now);
		frame32(&in, F_WINDOW, 3, 1);
		frame32(&in, F_WINDOW, 5, 1000);
		S.now += 5000;
		feed(&S, &in);
	}
	HAS(&S.log, "reset 1 8\n");
	HAS(&S.log, "reset 3 8\n");
	HAS_NOT(&S.log, "reset 5");
	HAS(&S.frames, "RST 1 8\n");
	stop();
}

/* A long download whose reader answers every 4 KiB, as Go's does, is no flood. */
static void window_updates_of_honest_readers(void **state)
{
	static struct http_response res = { .status = 200 };
	static uint8_t chunk[16375];

	(void)state;
	start();
	headers(&in, 1, GET_, true);
	feed(&S, &in);
	h2_send_response(S.st[0], &res, HTTP_BODY_CHUNKED, 0, false, false);
	for (int i = 0; i < 4000; i++) {
		h2_send_data(S.st[0], chunk, sizeof(chunk));
		for (int k = 0; k < 4; k++) {
			frame32(&in, F_WINDOW, 0, 4096);
			frame32(&in, F_WINDOW, 1, 4096);
		}
		frame(&in, F_PING, 0, 0, "12345678", 8);
		buf_clear(&S.frames);
		feed(&S, &in);
	}
	assert_false(S.over);
	stop();
}

static void shutdown_in_steps(void **state)
{
	(void)state;
	start();
	headers(&in, 1, GET_, true);
	feed(&S, &in);
	h2_shutdown(S.h);
	headers(&in, 3, GET_, true); /* was under way */
	feed(&S, &in);
	HAS(&S.frames, "GOAWAY 2147483647 0\n");
	HAS(&S.log, "request 3");
	h2_shutdown(S.h);
	feed(&S, &in);
	HAS(&S.frames, "GOAWAY 3 0\n");
	headers(&in, 5, GET_, true);
	feed(&S, &in);
	HAS_NOT(&S.log, "request 5");
	assert_false(h2_done(S.h));
	for (int i = 0; i < 2; i++) {
		static struct http_response res = { .status = 204 };

		h2_send_response(S.st[i], &res, HTTP_BODY_NONE, 0, false, true);
		h2_leave(S.st[i]);
	}
	feed(&S, &in);
	assert_true(h2_done(S.h));
	HAS_NOT(&S.log, "fault");
	stop();
}

/* UB08: nothing of a finished stream is kept. */
static void ub08_memory(void **state)
{
	size_t before = 0;

	(void)state;
	start();
	S.answer = true;
	for (uint32_t i = 0; i < 20000; i++) {
		char head[200];

		snprintf(head, sizeof(head), POST_ "x-a=%u\nx-b%u=1\n", i, i % 1000);
		headers(&in, i * 2 + 1, head, true);
		feed(&S, &in);
		buf_clear(&S.log);
		buf_clear(&S.frames);
		assert_int_equal(h2_streams(S.h), 0);
		if (i == 2000)
			before = mallinfo2().uordblks;
	}
	assert_int_equal(S.requests, 20000);
	assert_true(mallinfo2().uordblks <= before + 65536);
	stop();
}

/* A control anywhere in a value, whatever its length: 400. Tabs within and octets beyond ASCII are not controls. */
static void controls_in_values(void **state)
{
	(void)state;
	for (unsigned c = 0; c < 256; c++) {
		bool bad = (c < 0x20 && c != '\t') || c == 0x7f;

		for (size_t n = 3; n < 24; n += 10) {
			for (size_t at = 1; at + 1 < n; at++) {
				char value[24];
				struct buf head = { 0 };

				memset(value, at % 2 ? 'x' : 0x80, sizeof(value));
				value[0] = value[n - 1] = 'x';
				value[at] = (char)c;
				start();
				hp_text(&head, GET_);
				hp(&head, STR("x-a"), str_mk(value, n));
				frame(&in, F_HEADERS, END_HEADERS | END_STREAM, 1, buf_data(&head), buf_len(&head));
				buf_fini(&head);
				feed(&S, &in);
				if (S.malformed != bad || S.requests != !bad)
					fail_msg("octet %u at %zu of %zu: %.*s", c, at, n, (int)S.log.len, (char *)buf_data(&S.log));
				if (bad)
					HAS(&S.log, "400 header_value");
				stop();
			}
		}
	}
}

static void never_indexed(void **state)
{
	static const char *const yes[] = { "authorization", "Proxy-Authorization", "x-auth", "COOKIE", "set-cookie", "x-api-KEY", "monkey", "private-token", "tokens", "x-secret", "password", "x-Credential", "x-amz-signature", "aauth" };
	static const char *const no[] = { "", "a", "aut", "aut-h", "cooki", "cookcredentia", "ke-y", "x-toke", "secre", "signatur", "pass-word", "content-type", "accept", "etag" };
	struct http_field f = { .value = STR("v") };

	(void)state;
	for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++) {
		f.name = str_of(yes[i]);
		if (!h2_never_indexed(&f))
			fail_msg("%s", yes[i]);
	}
	for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++) {
		f.name = str_of(no[i]);
		if (h2_never_indexed(&f))
			fail_msg("%s", no[i]);
	}
	f.secret = true;
	assert_true(h2_never_indexed(&f));
}

/* HEADERS and the CONTINUATIONs behind it as one frame, which no peer would take. */
static void join_head(struct buf *out)
{
	struct buf whole = { 0 };
	uint8_t flags = 0;

	assert_int_equal(buf_data(out)[3], F_HEADERS);
	flags = buf_data(out)[4] | END_HEADERS;
	while (buf_len(out) > 0) {
		const uint8_t *f = buf_data(out);
		size_t n = (size_t)f[0] << 16 | (size_t)f[1] << 8 | f[2];

		assert_true(buf_len(out) >= 9 + n && n <= 16384);
		assert_true(buf_len(&whole) == 0 || f[3] == F_CONTINUATION);
		buf_add(&whole, f + 9, n);
		buf_drop(out, 9 + n);
	}
	frame(out, F_HEADERS, flags, 1, buf_data(&whole), buf_len(&whole));
	buf_fini(&whole);
}

/* What a session holds while nothing moves; the buffer of frames is spare then, and only then. */
static void idle_memory(void **state)
{
	static struct http_response res = { .status = 200 };
	static char text[12000];
	size_t before, n;
	void *p;

	(void)state;
	before = mallinfo2().uordblks;
	start();
	headers(&in, 1, GET_, true);
	feed(&S, &in);
	assert_true(spoil(S.h));
	memset(text, 'a', sizeof(text));
	res.fields.n = 0;
	for (unsigned i = 0; i < 3; i++) /* one head in frames of 16 KiB: three of them */
		MUST(http_fields_add(&res.fields, STR("x-long"), str_mk(text, sizeof(text)), HF_OTHER));
	h2_send_response(S.st[0], &res, HTTP_BODY_NONE, 0, false, true);
	h2_leave(S.st[0]);
	for (unsigned i = 0; h2_wants_output(S.h); i++) {
		assert_true(i < 4);
		h2_output(S.h, &S.out, 1);
		assert_int_equal(spoil(S.h), !h2_wants_output(S.h));
	}
	join_head(&S.out);
	read_frames(&S, false);
	HAS(&S.frames, "HEADERS 1 end :status=200 x-long=aaaa");
	assert_int_equal(count(&S.frames, "x-long=aaaa"), 3);
	buf_fini(&S.frames);
	buf_fini(&S.log);
	buf_fini(&S.out);
	buf_fini(&in);
	arena_fini(&S.kept);
	nghttp2_hd_inflate_del(S.inf);
	p = h2_spare(S.h, &n);
	assert_non_null(p);
	assert_int_equal((uintptr_t)p % H2_PAGE, 0);
	assert_true(n >= 16394); /* what nghttp2 asks for */
	assert_true(mallinfo2().uordblks <= before + n + 13000);
	MUST(nghttp2_hd_inflate_new(&S.inf) == 0);
	stop();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(heads_refused),
		cmocka_unit_test(heads_accepted),
		cmocka_unit_test(content_refused),
		cmocka_unit_test(trailers_without_end),
		cmocka_unit_test(c16_websocket),
		cmocka_unit_test(b10_limits),
		cmocka_unit_test(d05_d06_hpack_bombs),
		cmocka_unit_test(d01_rapid_reset),
		cmocka_unit_test(d02_made_you_reset),
		cmocka_unit_test(d03_d04_continuations),
		cmocka_unit_test(d04_d07_frames),
		cmocka_unit_test(d07_output_not_taken),
		cmocka_unit_test(budget_refills),
		cmocka_unit_test(d09_settings),
		cmocka_unit_test(d10_after_goaway),
		cmocka_unit_test(c18_stream_ids),
		cmocka_unit_test(c19_push),
		cmocka_unit_test(c20_preface),
		cmocka_unit_test(c23_hpack),
		cmocka_unit_test(c25_cancel),
		cmocka_unit_test(early_response),
		cmocka_unit_test(early_response_then_wrong_length),
		cmocka_unit_test(abort_behind_queue),
		cmocka_unit_test(windows),
		cmocka_unit_test(backpressure),
		cmocka_unit_test(d08_stalled),
		cmocka_unit_test(window_updates_of_honest_readers),
		cmocka_unit_test(shutdown_in_steps),
		cmocka_unit_test(ub08_memory),
		cmocka_unit_test(idle_memory),
		cmocka_unit_test(controls_in_values),
		cmocka_unit_test(never_indexed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
