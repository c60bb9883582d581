/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/2 in the client's role: hostile and odd upstreams (K06, K08, K16, C03, C19), UB02, J15; and two sessions with each other. */
#include "h2_util.h"

static struct side S;
static struct buf in;
static struct http_request req;

static void start(void)
{
	struct h2_config c = h2_test_config(true);

	side_open(&S, &c);
	buf_clear(&in);
	preface(&in, false);
	feed_step(&S, buf_data(&in), buf_len(&in), 0, true);
	buf_clear(&in);
	memset(&req, 0, sizeof(req));
	req.method = STR("GET");
}
static void stop(void)
{
	side_close(&S);
	buf_fini(&in);
}
static struct h2_stream *get(void)
{
	struct h2_stream *st = h2_submit(S.h, &req, STR("https"), STR("a.test"), STR("/x?y"), HTTP_BODY_NONE, 0, true, NULL);

	S.st[h2_stream_id(st) / 2] = st;
	return st;
}
static struct h2_stream *post(void)
{
	struct h2_stream *st;

	req.method = STR("POST");
	st = h2_submit(S.h, &req, STR("https"), STR("a.test"), STR("/p"), HTTP_BODY_CHUNKED, 0, false, NULL);
	S.st[h2_stream_id(st) / 2] = st;
	return st;
}
static void take(size_t step)
{
	feed_step(&S, buf_data(&in), buf_len(&in), step, true);
	buf_clear(&in);
}

/* --- what is sent ---------------------------------------------------------------------------------------------------- */

static void field(const char *name, const char *value)
{
	MUST(http_fields_add(&req.fields, str_of(name), str_of(value), http_fid_of(str_of(name))));
}

static void request_head(void **state)
{
	(void)state;
	start();
	assert_true(h2_may_open(S.h));
	field("Host", "other.test");
	field("User-Agent", "x");
	field("Connection", "close");
	field("Keep-Alive", "1");
	field("Proxy-Connection", "1");
	field("Transfer-Encoding", "chunked");
	field("Upgrade", "h2c");
	field("HTTP2-Settings", "AAMAAABkAAQ");
	field("Content-Length", "7");
	field("TE", "trailers, deflate");
	field("X-Gone", "1");
	req.fields.f[req.fields.n - 1].drop = true;
	field("X-Empty", "");
	req.te_trailers = true;
	post();
	take(0);
	HAS(&S.frames, "HEADERS 1 :method=POST :scheme=https :authority=a.test :path=/p user-agent=x x-empty= te=trailers\n");
	stop();
}

/* J15: what the compression may not remember. */
static void j15_never_indexed(void **state)
{
	(void)state;
	for (int k = 0; k < 2; k++) {
		start();
		field("Authorization", "Bearer canary");
		field("Cookie", "a=canary");
		field("X-Api-Key", "canary");
		field("X-Auth-Token", "canary");
		field("X-Other", "canary");
		req.fields.f[req.fields.n - 1].secret = true;
		field("Accept", "text/html");
		get();
		get();
		take(0);
		/* the second head is the same: nothing became an index */
		HAS(&S.frames, "HEADERS 3 end :method=GET :scheme=https :authority=a.test :path=/x?y !authorization=Bearer canary !cookie=a=canary !x-api-key=canary !x-auth-token=canary "
			       "!x-other=canary accept=text/html\n");
		stop();
	}
}

static void trailers_sent(void **state)
{
	static struct http_fields t;

	(void)state;
	t.n = 0;
	http_fields_add(&t, STR("X-Sum"), STR("1"), HF_OTHER);
	http_fields_add(&t, STR("Connection"), STR("close"), HF_CONNECTION);
	start();
	post(); /* behind content */
	h2_send_data(S.st[0], (const uint8_t *)"abc", 3);
	h2_send_trailers(S.st[0], &t);
	post(); /* without any: no empty DATA */
	h2_send_trailers(S.st[1], &t);
	post(); /* the head is out already */
	take(0);
	h2_send_trailers(S.st[2], &t);
	take(0);
	HAS(&S.frames, "DATA 1 3\n");
	HAS(&S.frames, "HEADERS 1 end x-sum=1\n");
	HAS(&S.frames, "HEADERS 3 end x-sum=1\n");
	HAS(&S.frames, "HEADERS 5 end x-sum=1\n");
	HAS_NOT(&S.frames, " 0\n");
	HAS_NOT(&S.frames, "DATA 3");
	stop();
}

static void frames_fit_tls_records(void **state)
{
	static uint8_t big[65000];

	(void)state;
	start();
	setting(&in, 5, 100000); /* larger frames would be allowed */
	take(0);
	post();
	h2_send_data(S.st[0], big, sizeof(big));
	take(0);
	assert_int_equal(count(&S.frames, "DATA 1 16375\n"), 3);
	HAS(&S.frames, "DATA 1 15875\n");
	stop();
}

/* Output is pulled in pieces of about what was asked for. */
static void output_in_pieces(void **state)
{
	static uint8_t big[65000];
	struct buf out = { 0 };

	(void)state;
	start();
	for (int i = 0; i < 2; i++) {
		post();
		h2_send_data(S.st[i], big, 30000);
		h2_send_end(S.st[i]);
	}
	for (int i = 0; i < 6; i++) {
		size_t before = buf_len(&out);

		h2_output(S.h, &out, 16384);
		assert_true(buf_len(&out) - before < 2 * 16384);
	}
	assert_false(h2_wants_output(S.h));
	assert_int_equal(buf_len(&out) > 60000, true);
	buf_fini(&out);
	stop();
}

/* --- what is received ------------------------------------------------------------------------------------------------ */

struct row {
	const char *id, *head, *data, *trailers, *want;
};

static void responses(void **state)
{
	static const struct row rows[] = {
		{ "plain", ":status=200\ncontent-length=2\nx=a\n", "ok", NULL, "response 1 200 length 2 has_length: content-length=2 x=a\ndata 1 ok\nend 1\n" },
		{ "no length", ":status=200\n", "ok", NULL, "response 1 200 chunked 0:\ndata 1 ok\nend 1\n" },
		{ "no content", ":status=200\n", NULL, NULL, "response 1 200 length 0 end:\nend 1\n" },
		{ "C03 white space", ":status=200\nx= a\\t\ny=\\t\n", NULL, NULL, "response 1 200 length 0 end: x=a y=\nend 1\n" },
		{ "UB02 no message", ":status=200\ncontent-type=application/grpc\n", NULL, "grpc-status=0\n",
			"response 1 200 chunked 0: content-type=application/grpc\ntrailers 1: grpc-status=0\nend 1\n" },
		{ "UB02 trailers only", ":status=200\ngrpc-status=5\n", NULL, NULL, "response 1 200 length 0 end: grpc-status=5\nend 1\n" },
		{ "UB09", ":status=200\nset-cookie=a=1; Expires=Thu, 1\nset-cookie=b=2\n", NULL, NULL, "response 1 200 length 0 end: set-cookie=a=1; Expires=Thu, 1 set-cookie=b=2\nend 1\n" },
		{ "K13 204", ":status=204\ncontent-length=5\n", NULL, NULL, "response 1 204 none 0 end: -content-length=5\nend 1\n" },
		{ "304", ":status=304\ncontent-length=5\n", NULL, NULL, "response 1 304 none 5 has_length end: content-length=5\nend 1\n" },
		{ "A22 trailers", ":status=200\n", "x", "authorization=x\nx=1\n", "trailers 1: -authorization=x x=1\n" },
		{ "K06 capital", ":status=200\nX=1\n", NULL, NULL, "broken 1 502 header_name\n" },
		{ "K06 CR", ":status=200\nx=a\\r\\nb: c\n", NULL, NULL, "broken 1 502 header_value\n" },
		{ "K06 connection", ":status=200\nconnection=close\n", NULL, NULL, "broken 1 502 connection_field\n" },
		{ "K06 transfer-encoding", ":status=200\ntransfer-encoding=chunked\n", "5", NULL, "broken 1 502 connection_field\n" },
		{ "no status", "x=1\n", NULL, NULL, "broken 1 502 no_status\n" },
		{ "status", ":status=20\n", NULL, NULL, "broken 1 502 status\n" },
		{ "status 600", ":status=600\n", NULL, NULL, "broken 1 502 status\n" },
		{ "status sign", ":status=+20\n", NULL, NULL, "broken 1 502 status\n" },
		{ "two statuses", ":status=200\n:status=200\n", NULL, NULL, "broken 1 502 pseudo_twice\n" },
		{ ":path in a response", ":status=200\n:path=/\n", NULL, NULL, "broken 1 502 pseudo_unknown\n" },
		{ "I10 unasked 101", ":status=101\n", "x", NULL, "broken 1 502 status\n" },
		{ "interim with end", ":status=103\n", NULL, NULL, "broken 1 502 status\n" },
		{ "DATA behind an interim head", ":status=103\n", "x", NULL, "broken 1 502 data_before_head\n" },
		{ "empty DATA behind an interim head", ":status=103\n", "", NULL, "broken 1 502 data_before_head\n" },
		{ "K04 short", ":status=200\ncontent-length=3\n", "ok", NULL, "broken 1 502 content_length_sum\n" },
		{ "K04 long", ":status=200\ncontent-length=1\n", "ok", NULL, "broken 1 502 content_length_sum\n" },
		{ "K04 none", ":status=200\ncontent-length=1\n", NULL, NULL, "broken 1 502 content_length_sum\n" },
		{ "204 with content", ":status=204\n", "ok", NULL, "broken 1 502 content_length_sum\n" },
		{ "two lengths", ":status=200\ncontent-length=2\ncontent-length=2\n", "ok", NULL, "broken 1 502 two_lengths\n" },
		{ "pseudo in trailers", ":status=200\n", "ok", ":status=200\n", "broken 1 502 pseudo_in_trailers\n" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		for (size_t step = 0; step < 12; step++) {
			const struct row *r = &rows[i];
			bool broken = strncmp(r->want, "broken", 6) == 0;

			start();
			get();
			take(0);
			headers(&in, 1, r->head, r->data == NULL && r->trailers == NULL);
			if (r->data != NULL)
				frame(&in, F_DATA, r->trailers ? 0 : END_STREAM, 1, r->data, strlen(r->data));
			if (r->trailers != NULL)
				headers(&in, 1, r->trailers, true);
			take(step);
			if (!has(&S.log, r->want) || has(&S.log, "end 1\n") == broken || has(&S.log, "fault"))
				fail_msg("%s, step %zu:\n%.*s", r->id, step, (int)S.log.len, (char *)buf_data(&S.log));
			if (!broken) {
				h2_leave(S.st[0]);
				take(0);
				HAS_NOT(&S.frames, "RST");
				assert_int_equal(h2_streams(S.h), 0);
			}
			stop();
		}
}

static void interim_then_final(void **state)
{
	(void)state;
	start();
	get();
	take(0);
	headers(&in, 1, ":status=100\n", false);
	headers(&in, 1, ":status=103\nlink=x\n", false);
	headers(&in, 1, ":status=200\n", false);
	frame(&in, F_DATA, END_STREAM, 1, "ok", 2);
	take(0);
	HAS(&S.log, "response 1 100 none 0:\nresponse 1 103 none 0: link=x\nresponse 1 200 chunked 0:\ndata 1 ok\nend 1\n");
	headers(&in, 1, ":status=200\n", true); /* K02: a second response */
	take(0);
	assert_int_equal(count(&S.log, "response 1 200"), 1);
	stop();
}

/* DATA behind the end, while our request still runs: the connection's fault, the stream was told its end. */
static void data_behind_the_end(void **state)
{
	(void)state;
	start();
	post();
	take(0);
	headers(&in, 1, ":status=200\ncontent-length=0\n", true);
	frame(&in, F_DATA, 0, 1, "x", 1);
	take(0);
	HAS(&S.log, "end 1\nfault 502 h2_stream_closed\n");
	HAS_NOT(&S.log, "broken");
	stop();
}

static void head_method(void **state)
{
	(void)state;
	start();
	req.method = STR("HEAD");
	get();
	get();
	take(0);
	headers(&in, 1, ":status=200\ncontent-length=5\n", true);
	headers(&in, 3, ":status=200\ncontent-length=5\n", false);
	frame(&in, F_DATA, END_STREAM, 3, "12345", 5);
	take(0);
	HAS(&S.log, "response 1 200 none 5 has_length end: content-length=5\nend 1\n");
	HAS(&S.log, "broken 3 502 content_length_sum\n");
	stop();
}

static void k05_limits(void **state)
{
	struct buf block = { 0 };

	(void)state;
	start();
	get();
	take(0);
	HP(&block, ":status", "200");
	for (int i = 0; i < 101; i++)
		HP(&block, "x", "1");
	frame(&in, F_HEADERS, END_HEADERS, 1, buf_data(&block), buf_len(&block));
	take(0);
	HAS(&S.log, "broken 1 502 fields\n");
	HAS(&S.frames, "RST 1 1\n");
	buf_fini(&block);
	stop();
}

/* --- K08: what may be tried again ------------------------------------------------------------------------------------ */

static void k08_goaway(void **state)
{
	(void)state;
	start();
	get();
	get();
	get();
	take(0);
	headers(&in, 1, ":status=200\n", false);
	frame(&in, F_GOAWAY, 0, 0, "\0\0\0\3\0\0\0\0", 8);
	take(0);
	HAS(&S.log, "goaway 0\n");
	HAS(&S.log, "reset 5 7 unprocessed\n");
	HAS_NOT(&S.log, "reset 1");
	HAS_NOT(&S.log, "reset 3");
	assert_false(h2_may_open(S.h));
	frame(&in, F_DATA, END_STREAM, 1, "ok", 2);
	take(0);
	HAS(&S.log, "data 1 ok\nend 1\n");
	h2_lost(S.h); /* 3 may have been looked at */
	HAS(&S.log, "reset 3 8\n");
	stop();
}

static void k08_refused(void **state)
{
	(void)state;
	start();
	get();
	get();
	get();
	take(0);
	frame32(&in, F_RST, 1, H2_REFUSED_STREAM);
	frame32(&in, F_RST, 3, H2_INTERNAL_ERROR);
	headers(&in, 5, ":status=200\n", false);
	frame32(&in, F_RST, 5, H2_REFUSED_STREAM); /* a response had begun */
	take(0);
	HAS(&S.log, "reset 1 7 unprocessed\n");
	HAS(&S.log, "reset 3 2\n");
	HAS(&S.log, "reset 5 7\n");
	stop();
}

static void k08_not_sent(void **state)
{
	(void)state;
	start();
	get();
	take(0);
	get();
	h2_lost(S.h);
	HAS(&S.log, "reset 1 8\n");
	HAS(&S.log, "reset 3 8 unprocessed\n");
	stop();
}

static void k08_no_streams(void **state)
{
	(void)state;
	start();
	setting(&in, 3, 0);
	take(0);
	assert_false(h2_may_open(S.h));
	setting(&in, 3, 2);
	take(0);
	get();
	get();
	assert_false(h2_may_open(S.h));
	take(0);
	headers(&in, 1, ":status=204\n", true);
	take(0);
	assert_true(h2_may_open(S.h));
	h2_leave(S.st[0]);
	stop();
}

/* SETTINGS overtake requests that were submitted: they wait, the connection goes on. */
static void k08_fewer_streams(void **state)
{
	(void)state;
	start(); /* more than may wait unsent while there is input */
	for (int i = 0; i < 90; i++)
		get();
	setting(&in, 3, 1);
	assert_int_equal(h2_feed(S.h, S.now, buf_data(&in), buf_len(&in)), 0);
	take(0);
	assert_int_equal(count(&S.frames, "HEADERS "), 90);
	assert_false(h2_may_open(S.h));
	stop();
	start();
	setting(&in, 3, 1);
	for (int i = 0; i < 60; i++)
		get();
	assert_int_equal(h2_feed(S.h, S.now, buf_data(&in), buf_len(&in)), 15);
	buf_clear(&in);
	for (int i = 0; i < 20; i++) /* what h2_may_open would not allow */
		get();
	take(0);
	for (uint32_t i = 0; i < 80; i++) {
		assert_int_equal(count(&S.frames, "HEADERS "), i + 1);
		headers(&in, i * 2 + 1, ":status=204\n", true);
		take(0);
		h2_leave(S.st[i]);
	}
	assert_int_equal(h2_streams(S.h), 0);
	stop();
}

/* Taken back before it was sent: nothing goes out, nothing stays. */
static void reset_unsent(void **state)
{
	(void)state;
	start();
	get();
	h2_reset(S.st[0], H2_CANCEL);
	get();
	h2_leave(S.st[1]);
	take(0);
	get();
	take(0);
	HAS(&S.frames, "HEADERS 5 end");
	HAS_NOT(&S.frames, "HEADERS 1");
	HAS_NOT(&S.frames, "HEADERS 3");
	assert_int_equal(h2_streams(S.h), 1);
	assert_int_equal(S.resets, 0);
	stop();
}

/* Our own cancelling is not held against the upstream. */
static void cancels_are_free(void **state)
{
	(void)state;
	start();
	for (int i = 0; i < 2000; i++) {
		struct h2_stream *st = get();

		take(0);
		h2_leave(st);
		take(0);
	}
	assert_int_equal(count(&S.frames, "RST "), 2000);
	assert_int_equal(h2_streams(S.h), 0);
	assert_true(h2_may_open(S.h));
	stop();
}

/* --- K16 ------------------------------------------------------------------------------------------------------------- */

static void k16_push(void **state)
{
	(void)state;
	start();
	get();
	take(0);
	frame(&in, F_PUSH, END_HEADERS, 1, "\0\0\0\2\x82", 5);
	take(0);
	HAS(&S.log, "fault 502 h2_protocol\n");
	HAS(&S.frames, "GOAWAY 0 1\n");
	h2_lost(S.h);
	HAS(&S.log, "reset 1 8\n");
	stop();
}

static void k16_floods(void **state)
{
	static const struct {
		unsigned type;
		uint32_t id;
		const char *p;
		size_t n;
	} rows[] = { { F_SETTINGS, 0, "\0\4\0\0\0\1", 6 }, { F_PING, 0, "12345678", 8 }, { F_WINDOW, 0, "\0\0\0\1", 4 }, { F_WINDOW, 1, "\0\0\0\1", 4 }, { F_DATA, 1, "", 0 }, { 0xee, 0, "x", 1 },
		{ F_PRIORITY, 1, "\0\0\0\3\x10", 5 }, { F_GOAWAY, 0, "\0\0\0\xff\0\0\0\0", 8 } };

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		start();
		get();
		take(0);
		headers(&in, 1, ":status=200\n", false);
		for (int k = 0; k < 5000; k++)
			frame(&in, rows[i].type, 0, rows[i].id, rows[i].p, rows[i].n);
		take(0);
		if (!has(&S.log, "fault 502 h2_flood\n"))
			fail_msg("row %zu:\n%.*s", i, (int)S.log.len, (char *)buf_data(&S.log));
		HAS(&S.frames, "GOAWAY 0 11\n");
		stop();
	}
}

static void k16_window(void **state)
{
	static uint8_t chunk[16384];

	(void)state;
	start();
	get();
	take(0);
	headers(&in, 1, ":status=200\n", false);
	for (int i = 0; i < 100; i++)
		frame(&in, F_DATA, 0, 1, chunk, sizeof(chunk));
	S.quiet = true;
	take(0);
	HAS(&S.log, "reset 1 3\n");
	assert_true(S.data <= h2_limits_default.stream_window + sizeof(chunk));
	stop();
}

/* --- two of ours ----------------------------------------------------------------------------------------------------- */

static struct side C;

/* Carries octets between the two until neither has any, in pieces of `step`. */
static void carry(size_t step)
{
	struct buf a = { 0 }, b = { 0 };

	do {
		h2_output(C.h, &a, 16384);
		h2_output(S.h, &b, 16384);
		for (struct buf *x = &a;; x = &b) {
			while (buf_len(x) > 0) {
				uint8_t t[16384];
				size_t n = buf_len(x) < step ? buf_len(x) : step;
				long k;

				memcpy(t, buf_data(x), n);
				k = h2_feed(x == &a ? S.h : C.h, 1000, t, n);
				MUST(k >= 0);
				buf_drop(x, (size_t)k);
				if (k == 0)
					h2_output(x == &a ? S.h : C.h, x == &a ? &b : &a, 16384);
			}
			if (x == &b)
				break;
		}
	} while (h2_wants_output(C.h) || h2_wants_output(S.h));
	close_data(&C);
	close_data(&S);
	buf_fini(&a);
	buf_fini(&b);
}

static void pair_open(void)
{
	struct h2_config c = h2_test_config(true), s = h2_test_config(false);

	c.connect_protocol = s.connect_protocol = true;
	side_open(&C, &c);
	side_open(&S, &s);
	memset(&req, 0, sizeof(req));
	req.method = STR("POST");
}

static void exchange(size_t step)
{
	static struct http_response res;
	static struct http_fields t;
	struct h2_stream *st;

	pair_open();
	carry(step);
	assert_true(h2_peer_websocket(C.h));
	field("X-A", "b");
	req.te_trailers = true;
	st = h2_submit(C.h, &req, STR("https"), STR("a.test"), STR("/p?q"), HTTP_BODY_LENGTH, 5, false, NULL);
	h2_send_data(st, (const uint8_t *)"hello", 5);
	h2_send_end(st);
	carry(step);
	HAS(&S.log, "request 1 POST https a.test /p?q length 5 te: x-a=b content-length=5 te=trailers\ndata 1 hello\nend 1\n");
	res = (struct http_response){ .status = 103 };
	h2_send_response(S.st[0], &res, HTTP_BODY_NONE, 0, false, false);
	res = (struct http_response){ .status = 200 };
	http_fields_add(&res.fields, STR("Set-Cookie"), STR("a=1"), HF_OTHER);
	http_fields_add(&res.fields, STR("Connection"), STR("close"), HF_CONNECTION); /* UB10 */
	t.n = 0;
	http_fields_add(&t, STR("grpc-status"), STR("0"), HF_OTHER);
	h2_send_response(S.st[0], &res, HTTP_BODY_CHUNKED, 0, false, false);
	h2_send_data(S.st[0], (const uint8_t *)"world", 5);
	h2_send_trailers(S.st[0], &t);
	h2_leave(S.st[0]);
	carry(step);
	HAS(&C.log, "response 1 103 none 0:\nresponse 1 200 chunked 0: set-cookie=a=1\ndata 1 world\ntrailers 1: grpc-status=0\nend 1\n");
	h2_leave(st);
	carry(step);
	assert_int_equal(h2_streams(S.h), 0);
	assert_int_equal(h2_streams(C.h), 0);
	side_close(&C);
	side_close(&S);
}

static void both_sides(void **state)
{
	(void)state;
	for (size_t step = 1; step < 300; step += step < 40 ? 1 : 37)
		exchange(step);
	exchange(16384);
}

/* Megabytes both ways, with back-pressure; memory stays within the queues. */
static void both_sides_large(void **state)
{
	static struct http_response res = { .status = 200 };
	static uint8_t chunk[16375];
	struct h2_stream *st[3];
	size_t up = 0, down = 0, total = 4 << 20;

	(void)state;
	pair_open();
	C.consume = S.consume = C.quiet = S.quiet = true;
	carry(16384);
	for (int i = 0; i < 3; i++)
		st[i] = h2_submit(C.h, &req, STR("https"), STR("a.test"), STR("/p"), HTTP_BODY_CHUNKED, 0, false, NULL);
	carry(16384);
	for (int i = 0; i < 3; i++)
		h2_send_response(S.st[i], &res, HTTP_BODY_CHUNKED, 0, false, false);
	while (up < total || down < total) {
		for (int i = 0; i < 3; i++) {
			for (; up < total && !h2_full(st[i]); up += sizeof(chunk))
				h2_send_data(st[i], chunk, sizeof(chunk));
			for (; down < total && !h2_full(S.st[i]); down += sizeof(chunk))
				h2_send_data(S.st[i], chunk, sizeof(chunk));
		}
		carry(16384);
	}
	for (int i = 0; i < 3; i++) {
		h2_send_end(st[i]);
		h2_send_end(S.st[i]);
	}
	carry(16384);
	assert_int_equal(S.data, up);
	assert_int_equal(C.data, down);
	assert_int_equal(count(&C.log, "end "), 3);
	assert_int_equal(count(&S.log, "end "), 3);
	for (int i = 0; i < 3; i++) {
		h2_leave(st[i]);
		h2_leave(S.st[i]);
	}
	carry(16384);
	assert_int_equal(h2_streams(S.h) + h2_streams(C.h), 0);
	side_close(&C);
	side_close(&S);
}

/* What is too large for any peer ends its stream, not the connection. */
static void heads_too_large(void **state)
{
	static struct http_response res;
	static char big[4000];

	(void)state;
	pair_open();
	carry(16384);
	memset(big, 'a', sizeof(big));
	h2_submit(C.h, &req, STR("https"), STR("a.test"), STR("/p"), HTTP_BODY_NONE, 0, true, NULL);
	carry(16384);
	res = (struct http_response){ .status = 200 };
	for (int i = 0; i < 100; i++)
		http_fields_add(&res.fields, STR("x"), str_mk(big, sizeof(big)), HF_OTHER);
	h2_send_response(S.st[0], &res, HTTP_BODY_CHUNKED, 0, false, false);
	h2_send_data(S.st[0], (const uint8_t *)"x", 1);
	carry(16384);
	HAS(&S.log, "reset 1 2\n");
	HAS(&C.log, "reset 1 2\n");
	memcpy(&req.fields, &res.fields, sizeof(req.fields));
	h2_submit(C.h, &req, STR("https"), STR("a.test"), STR("/p"), HTTP_BODY_NONE, 0, true, NULL);
	carry(16384);
	HAS(&C.log, "reset 3 7\n");
	req.fields.n = 17; /* allowed to us, but not by the peer */
	h2_submit(C.h, &req, STR("https"), STR("a.test"), STR("/p"), HTTP_BODY_NONE, 0, true, NULL);
	carry(16384);
	HAS(&S.log, "malformed 5 431 head (POST a.test /p)\n");
	side_close(&C);
	side_close(&S);
}

static void websocket_through(void **state)
{
	static struct http_response res = { .status = 200 };
	struct h2_stream *st;

	(void)state;
	pair_open();
	carry(16384);
	req.method = STR("GET");
	req.upgrade_websocket = true;
	field("Sec-WebSocket-Version", "13");
	field("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==");
	st = h2_submit(C.h, &req, STR("https"), STR("a.test"), STR("/chat"), HTTP_BODY_NONE, 0, false, NULL);
	h2_send_data(st, (const uint8_t *)"up", 2);
	carry(16384);
	HAS(&S.log, "request 1 GET https a.test /chat none 0 websocket: sec-websocket-version=13\ndata 1 up\n");
	h2_send_response(S.st[0], &res, HTTP_BODY_NONE, 0, false, false);
	h2_send_data(S.st[0], (const uint8_t *)"down", 4);
	h2_send_end(S.st[0]);
	carry(16384);
	HAS(&C.log, "response 1 200 chunked 0:\ndata 1 down\nend 1\n");
	h2_reset(st, H2_CANCEL);
	carry(16384);
	HAS(&S.log, "reset 1 8\n");
	side_close(&C);
	side_close(&S);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(request_head),
		cmocka_unit_test(j15_never_indexed),
		cmocka_unit_test(trailers_sent),
		cmocka_unit_test(frames_fit_tls_records),
		cmocka_unit_test(output_in_pieces),
		cmocka_unit_test(responses),
		cmocka_unit_test(interim_then_final),
		cmocka_unit_test(data_behind_the_end),
		cmocka_unit_test(head_method),
		cmocka_unit_test(k05_limits),
		cmocka_unit_test(k08_goaway),
		cmocka_unit_test(k08_refused),
		cmocka_unit_test(k08_not_sent),
		cmocka_unit_test(k08_no_streams),
		cmocka_unit_test(k08_fewer_streams),
		cmocka_unit_test(reset_unsent),
		cmocka_unit_test(cancels_are_free),
		cmocka_unit_test(k16_push),
		cmocka_unit_test(k16_floods),
		cmocka_unit_test(k16_window),
		cmocka_unit_test(both_sides),
		cmocka_unit_test(both_sides_large),
		cmocka_unit_test(heads_too_large),
		cmocka_unit_test(websocket_through),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
