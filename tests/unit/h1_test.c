/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1.1 heads and content: attacks of group A, the parts of B, E, F, G, I that the parser decides, K01, K12-K14. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "proxy/http/h1.h"

/* --- harness ------------------------------------------------------------------------------------------------------- */

static struct arena arena;
static struct http_request req;
static struct http_response res;
static struct http_fault fault;

/* A head comes in an allocation of just its size, so that the sanitizer sees every step too far. */
static uint8_t *copy(const char *p, size_t n)
{
	uint8_t *c = malloc(n ? n : 1);

	assert_non_null(c);
	if (n)
		memcpy(c, p, n);
	return c;
}

/* h1_head_end over the pieces [0,k), then all; step > 0: in steps of that many octets. */
static long end_in_pieces(const uint8_t *p, size_t n, size_t k, size_t step, struct http_fault *f)
{
	size_t scan = 0;
	long r = 0;

	for (size_t at = k; at <= n; at = at == n ? n + 1 : step && at + step < n ? at + step : n) {
		uint8_t *c = copy((const char *)p, at);

		r = h1_head_end(c, at, &scan, &h1_limits_default, f);
		free(c);
		if (r != 0)
			break;
	}
	return r;
}

/* Length of the head, the same for every split (A40); -1 = fault. */
static long head_end(const uint8_t *p, size_t n)
{
	struct http_fault f = { 0 };
	long r = end_in_pieces(p, n, n, 0, &fault);

	for (size_t k = 0; k <= n + 1; k++) {
		long s = k <= n ? end_in_pieces(p, n, k, 0, &f) : end_in_pieces(p, n, 1, 1, &f);

		assert_int_equal(s, r);
		if (r < 0) {
			assert_int_equal(f.status, fault.status);
			assert_string_equal(f.reason, fault.reason);
		}
	}
	return r;
}

static uint8_t *head_mem;

static bool parse(const char *p, size_t n)
{
	long e;

	free(head_mem);
	head_mem = copy(p, n);
	arena_reset(&arena);
	memset(&req, 0xa5, sizeof(req)); /* nothing may be left over */
	e = head_end(head_mem, n);
	if (e == 0)
		fail_msg("no end of head in '%s'", p);
	if (e < 0)
		return false;
	head_mem = realloc(head_mem, (size_t)e);
	return h1_parse_request(head_mem, (size_t)e, &h1_limits_default, &arena, &req, &fault);
}

static void ok_(const char *p, size_t n, int line)
{
	if (!parse(p, n))
		fail_msg("line %d: %s", line, fault.reason);
}

static void bad_(const char *p, size_t n, unsigned status, const char *reason, int line)
{
	fault = (struct http_fault){ 0 };
	if (parse(p, n))
		fail_msg("line %d: accepted", line);
	if (fault.status != status || strcmp(fault.reason, reason) != 0)
		fail_msg("line %d: %u %s", line, fault.status, fault.reason);
	assert_string_equal(fault.code, status == 400 ? "malformed_request" : "too_large");
}

#define OK(text) ok_(text, sizeof(text) - 1, __LINE__)
#define BAD(text, reason) bad_(text, sizeof(text) - 1, 400, reason, __LINE__)
#define G "GET / HTTP/1.1\r\n"
#define P "POST / HTTP/1.1\r\n"
#define H "Host: a.example\r\n"
#define E "\r\n"

#define IS(s, text) assert_true(str_eq(s, STR(text)))

static int teardown(void **state)
{
	(void)state;
	free(head_mem);
	head_mem = NULL;
	arena_fini(&arena);
	return 0;
}

/* --- requests ------------------------------------------------------------------------------------------------------ */

static void request_plain(void **state)
{
	(void)state;
	OK("GET /a/b?c=d&e HTTP/1.1\r\nHost: a.example:8443\r\nUser-Agent: \t curl/8 \t\r\nX-Empty:\r\nX: \xff\x80 \x85\xa0\r\n\r\nrest");
	assert_int_equal(req.version, HTTP_V_1_1);
	IS(req.method, "GET");
	assert_int_equal(req.form, HTTP_TARGET_ORIGIN);
	IS(req.path, "/a/b");
	assert_true(req.has_query);
	IS(req.query, "c=d&e");
	IS(req.host_field, "a.example:8443");
	assert_int_equal(req.fields.n, 4);
	IS(req.fields.f[1].value, "curl/8");
	assert_int_equal(req.fields.f[1].fid, HF_USER_AGENT);
	IS(req.fields.f[2].value, "");
	IS(req.fields.f[3].value, "\xff\x80 \x85\xa0"); /* A32: opaque, 0x85 and 0xa0 are no white space */
	assert_int_equal(req.framing, HTTP_BODY_NONE);
	assert_int_equal(req.content_length, 0);
	assert_true(req.keep_alive);
	assert_false(req.expect_continue || req.upgrade_websocket || req.te_trailers);
	assert_ptr_equal(req.authority.p, NULL);
	for (unsigned i = 0; i < req.fields.n; i++)
		assert_false(req.fields.f[i].drop || req.fields.f[i].secret);
	OK("GET /? HTTP/1.1\r\n" H E);
	assert_true(req.has_query);
	assert_int_equal(req.query.n, 0);
	OK("POST / HTTP/1.1\r\n" H "Content-Length: 5\r\nTE: trailers, deflate;q=0.5\r\n" E);
	assert_int_equal(req.framing, HTTP_BODY_LENGTH);
	assert_int_equal(req.content_length, 5);
	assert_true(req.te_trailers);
}

static void A01_cl_and_te(void **state)
{
	(void)state;
	BAD(P H "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n" E, "cl_and_te");
	BAD(P H "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n" E, "cl_and_te");
	BAD(P H "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n" E, "cl_and_te");
	BAD(P H "Transfer-Encoding: x\r\nContent-Length: x\r\n" E, "cl_and_te");
}

static void A02_A03_two_lengths(void **state)
{
	(void)state;
	BAD(P H "Content-Length: 0\r\nContent-Length: 44\r\n" E, "two_lengths");
	BAD(P H "Content-Length: 44\r\nX: y\r\ncontent-length: 0\r\n" E, "two_lengths");
	BAD(P H "Content-Length: 5\r\nContent-Length: 5\r\n" E, "two_lengths");
	BAD(P H "Content-Length: 5, 5\r\n" E, "content_length");
}

static void A04_length_spellings(void **state)
{
	static const char *const bad[] = { "+5", "-5", "0x5", "1_0", "5 5", "5;", "5.0", "", " ", "\xd9\xa5", "123456789012345678901", "18446744073709551616", "18446744073709551615",
		"9223372036854775808", "005", "00", "5,", "5,5", "\"5\"", "5e1", "5\xa0" };
	char t[200];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		int n = snprintf(t, sizeof(t), P H "Content-Length: %s\r\n" E, bad[i]);

		if (parse(t, (size_t)n))
			fail_msg("Content-Length '%s' accepted", bad[i]);
		assert_int_equal(fault.status, 400);
		assert_true(strcmp(fault.reason, "content_length") == 0 || strcmp(fault.reason, "header_value") == 0);
	}
	OK(P H "Content-Length: 0\r\n" E);
	assert_int_equal(req.framing, HTTP_BODY_LENGTH);
	OK(P H "Content-Length:9223372036854775807  \r\n" E);
	assert_true(req.content_length == INT64_MAX);
}

static void A05_A06_A07_transfer_encodings(void **state)
{
	(void)state;
	OK(P H "Transfer-Encoding: chunked\r\n" E);
	assert_int_equal(req.framing, HTTP_BODY_CHUNKED);
	OK(P H "transfer-encoding:CHUNKED \r\n" E);
	assert_int_equal(req.framing, HTTP_BODY_CHUNKED);
	BAD(P H "Transfer-Encoding: chunked, identity\r\n" E, "transfer_encoding");
	BAD(P H "Transfer-Encoding: identity\r\n" E, "transfer_encoding");
	BAD(P H "Transfer-Encoding: gzip, chunked\r\n" E, "transfer_encoding");
	BAD(P H "Transfer-Encoding: xchunked\r\n" E, "transfer_encoding");
	BAD(P H "Transfer-Encoding: chunked, chunked\r\n" E, "transfer_encoding");
	BAD(P H "Transfer-Encoding:\r\n" E, "transfer_encoding");
	BAD(P H "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n" E, "transfer_encoding");
	BAD(P H "Transfer-Encoding: cow\r\nTransfer-Encoding: chunked\r\n" E, "transfer_encoding");
	BAD(P H "Transfer-Encoding: chunked\r\nTransfer-Encoding: cow\r\n" E, "transfer_encoding");
	BAD(P H "Transfer-Encoding: ,chunked\r\n" E, "transfer_encoding");
	BAD(P H "Transfer-Encoding: chunked,\r\n" E, "transfer_encoding");
	BAD(P H "Transfer-Encoding: \"chunked\"\r\n" E, "transfer_encoding");
	BAD(P H "Transfer-Encoding: chunked;q=1\r\n" E, "transfer_encoding");
	BAD(P H "Transfer-Encoding: chu\tnked\r\n" E, "header_value");
}

/* Every octet at every place of the line: refused, or the one reading there is. */
static void A08_te_mutations(void **state)
{
	static const char name[] = "Transfer-Encoding", value[] = "chunked";
	char t[200];

	(void)state;
	BAD(P H "Transfer-Encoding : chunked\r\n" E, "header_name");
	BAD(P H "Transfer-Encoding:\tchunked\r\n" E, "header_value");
	BAD(P H "Transfer-Encoding: chunked\t\r\n" E, "header_value");
	BAD(P H "Transfer-Encoding:\vchunked\r\n" E, "control");
	BAD(P H "Transfer-Encoding:\fchunked\r\n" E, "control");
	BAD(P H " Transfer-Encoding: chunked\r\n" E, "obs_fold");
	BAD(P H "Transfer_Encoding: chunked\r\n" E, "header_name");
	BAD(P H "transfer_encoding: x\r\n" E, "header_name");
	BAD(P H "Content_Length: 5\r\n" E, "header_name");
	BAD(P H "Transfer Encoding: chunked\r\n" E, "header_name");
	BAD(P H "Transfer-Encoding: chunked\r\r\n" E, "bare_cr");
	BAD(P H "Transfer-Encoding: chunked\0\r\n" E, "nul");
	BAD(P H "X: x\nTransfer-Encoding: chunked\r\n" E, "bare_lf");
	BAD(P H "X: x\rTransfer-Encoding: chunked\r\n" E, "bare_cr");
	for (int c = 1; c < 256; c++) {
		if (c >= 0x20 && c < 0x7f)
			continue;
		for (size_t at = 0; at <= sizeof(name) - 1 + 2 + sizeof(value) - 1; at++) {
			char line[40];
			int n;

			snprintf(line, sizeof(line), "%s: %s", name, value);
			memmove(line + at + 1, line + at, strlen(line + at) + 1);
			line[at] = (char)c;
			n = snprintf(t, sizeof(t), P H "%s\r\n\r\n", line);
			if (parse(t, (size_t)n))
				fail_msg("octet %02x at %zu accepted", (unsigned)c, at);
			assert_int_equal(fault.status, 400);
		}
	}
}

static void A09_te_in_http_1_0(void **state)
{
	(void)state;
	BAD("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n" E, "te_in_1_0");
}

static void A10_A11_content_on_get(void **state)
{
	(void)state;
	OK(G H "Transfer-Encoding: chunked\r\n" E);
	assert_int_equal(req.framing, HTTP_BODY_CHUNKED);
	OK(G H "Content-Length: 30\r\n" E "GET /evil HTTP/1.1\r\n");
	assert_int_equal(req.framing, HTTP_BODY_LENGTH);
	assert_int_equal(req.content_length, 30);
	OK("DELETE / HTTP/1.1\r\n" H "Content-Length: 0\r\n" E);
	assert_int_equal(req.framing, HTTP_BODY_LENGTH);
}

static void A15_expect(void **state)
{
	(void)state;
	OK(P H "Content-Length: 5\r\nExpect: 100-continue\r\n" E);
	assert_true(req.expect_continue);
	OK(P H "Transfer-Encoding: chunked\r\nExpect: 100-Continue\r\n" E);
	assert_true(req.expect_continue);
	BAD(P H "Content-Length: 5\r\nExpect: y 100-continue\r\n" E, "expect");
	BAD(P H "Content-Length: 5\r\nExpect: 100-continue, x\r\n" E, "expect");
	BAD(P H "Content-Length: 5\r\nExpect: 100-continue;\r\n" E, "expect");
	BAD(P H "Content-Length: 5\r\nExpect:\r\n" E, "expect");
	BAD(P H "Content-Length: 5\r\nExpect: 100-continue\r\nExpect: 100-continue\r\n" E, "expect");
	BAD(P H "Content-Length: 0\r\nExpect: 100-continue\r\n" E, "expect");
	BAD(G H "Expect: 100-continue\r\n" E, "expect");
	BAD("CONNECT a.example:443 HTTP/1.1\r\nExpect: 100-continue\r\n" E, "expect"); /* G03 */
	OK("POST / HTTP/1.0\r\nContent-Length: 5\r\nExpect: 100-continue\r\n" E);
	assert_false(req.expect_continue);
}

static void A26_A27_A28_line_ends(void **state)
{
	(void)state;
	BAD("GET / HTTP/1.1\nHost: a\n\n", "bare_lf");
	BAD(G "Host: a\n" E, "bare_lf");
	BAD(G "Host: a\r\n\n", "bare_lf");
	BAD("\nGET / HTTP/1.1\r\n" H E, "bare_lf");
	BAD(G "X: a\rb\r\n" H E, "bare_cr");
	BAD(G H "\rX", "bare_cr");
	BAD("GET /\r HTTP/1.1\r\n" H E, "bare_cr");
	BAD("\rGET / HTTP/1.1\r\n" H E, "bare_cr");
	BAD(G H "\r\r\n", "bare_cr");
	BAD("GET /\0 HTTP/1.1\r\n" H E, "nul");
	BAD(G "X\0: a\r\n" H E, "nul");
	BAD(G "X: \0a\r\n" H E, "nul");
	BAD(G "X: a\x7f\r\n" H E, "control");
	BAD(G "X: a\x1b[2J\r\n" H E, "control");
	BAD(G "X: a\x01 b\r\n", "control"); /* without waiting for the rest */
}

static void A29_A31_folding(void **state)
{
	(void)state;
	BAD(G H "X: a\r\n b\r\n" E, "obs_fold");
	BAD(G H "X: a\r\n\tb\r\n" E, "obs_fold");
	BAD(P H "Transfer-Encoding:\r\n chunked\r\n" E, "obs_fold");
	BAD(P H "Content-Length: 1\r\n 0\r\n" E, "obs_fold");
	BAD(G "Host: a\r\n .example\r\n" E, "obs_fold");
	BAD(G " " H E, "obs_fold");
	BAD(G "\t" H E, "obs_fold");
	BAD(G H " \r\n" E, "obs_fold");
}

static void A30_field_names(void **state)
{
	static const char bad[] = " \t(),/;<=>?@[\\]{}\"";
	char t[] = G H "X?Y: z\r\n" E;
	size_t at = sizeof(G H) - 1 + 1;

	(void)state;
	BAD(G H "nocolon\r\n" E, "no_colon");
	BAD(G H ": x\r\n" E, "header_name");
	BAD(G H ":\r\n" E, "header_name");
	BAD(G H "no colon\r\n" E, "header_name");
	BAD(G H "GET / HTTP/1.1\r\n" E, "header_name");
	for (size_t i = 0; i < sizeof(bad) - 1; i++) {
		t[at] = bad[i];
		bad_(t, sizeof(t) - 1, 400, "header_name", __LINE__);
	}
	for (int c = 0x80; c < 0x100; c++) {
		t[at] = (char)c;
		bad_(t, sizeof(t) - 1, 400, "header_name", __LINE__);
	}
	OK(G H "!#$%&'*+-.^`|~09azAZ: x\r\n" E);
}

static void A32_obs_text(void **state)
{
	(void)state;
	OK(G H "X: \x80\xff\r\n" E);
	BAD(G "Host: a\x80\r\n" E, "header_value");
	BAD(P H "Content-Length: 5\xa0\r\n" E, "header_value");
	BAD(P H "Transfer-Encoding: chunked\x85\r\n" E, "header_value");
	BAD(G H "Connection: close\xff\r\n" E, "connection");
	BAD(G H "Authorization: Bearer \xff\r\n" E, "header_value");
	BAD(G H "Proxy-Authorization: Basic \xff\r\n" E, "header_value");
	OK(G H "Authorization: Digest\ta=b\r\n" E);
}

static void A33_B10_sizes(void **state)
{
	static const size_t lengths[] = { 256, 257, 511, 512, 1024, 16000, 32767, 32768, 65000, 65535, 65536, 65537 };
	char *t = malloc(200000);
	size_t n;

	(void)state;
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		size_t scan = 0;
		long e;

		n = (size_t)sprintf(t, G H);
		memset(t + n, 'x', lengths[i]);
		n += lengths[i];
		n += (size_t)sprintf(t + n, ": y\r\n\r\n");
		e = h1_head_end((uint8_t *)t, n, &scan, &h1_limits_default, &fault);
		if (e > 0)
			assert_false(h1_parse_request((uint8_t *)t, n, &h1_limits_default, &arena, &req, &fault));
		assert_int_equal(fault.status, 431);
	}
	/* field line */
	n = (size_t)sprintf(t, G H "X: %016000d\r\n\r\n", 1);
	assert_true(h1_parse_request((uint8_t *)t, n, &h1_limits_default, &arena, &req, &fault));
	n = (size_t)sprintf(t, G H "X: %016384d\r\n\r\n", 1);
	assert_false(h1_parse_request((uint8_t *)t, n, &h1_limits_default, &arena, &req, &fault));
	assert_int_equal(fault.status, 431);
	assert_string_equal(fault.reason, "field_line");
	/* number of fields */
	for (unsigned k = 99; k <= 101; k++) {
		n = (size_t)sprintf(t, G H);
		for (unsigned i = 1; i < k; i++)
			n += (size_t)sprintf(t + n, "X%u: y\r\n", i);
		n += (size_t)sprintf(t + n, "\r\n");
		assert_int_equal(h1_parse_request((uint8_t *)t, n, &h1_limits_default, &arena, &req, &fault), k <= 100);
	}
	assert_int_equal(fault.status, 431);
	assert_string_equal(fault.reason, "fields");
	/* target */
	for (unsigned k = 16383; k <= 16386; k++) {
		n = (size_t)sprintf(t, "GET /%0*d HTTP/1.1\r\n" H "\r\n", (int)k - 1, 0);
		assert_int_equal(h1_parse_request((uint8_t *)t, n, &h1_limits_default, &arena, &req, &fault), k <= 16384);
	}
	assert_int_equal(fault.status, 414);
	/* whole head */
	memset(t, 'x', 200000);
	for (n = 65534; n <= 65537; n++) {
		size_t scan = 0;

		memcpy(t, G, sizeof(G) - 1);
		assert_int_equal(h1_head_end((uint8_t *)t, n, &scan, &h1_limits_default, &fault), n >= 65536 ? -1 : 0);
	}
	assert_int_equal(fault.status, 431);
	assert_string_equal(fault.reason, "head");
	memcpy(t + 65532, "\r\n\r\n", 4);
	n = 0;
	assert_int_equal(h1_head_end((uint8_t *)t, 200000, &n, &h1_limits_default, &fault), 65536);
	memcpy(t + 65532, "x\r\n\r\n", 5);
	n = 0;
	assert_int_equal(h1_head_end((uint8_t *)t, 200000, &n, &h1_limits_default, &fault), -1);
	free(t);
}

static void A34_leading_crlf(void **state)
{
	(void)state;
	assert_int_equal(h1_skip_crlf((const uint8_t *)"\r\nGET", 5), 2);
	assert_int_equal(h1_skip_crlf((const uint8_t *)"\r", 1), -1);
	assert_int_equal(h1_skip_crlf((const uint8_t *)"\rG", 2), 0);
	assert_int_equal(h1_skip_crlf((const uint8_t *)"\n", 1), 0);
	assert_int_equal(h1_skip_crlf((const uint8_t *)"GET", 3), 0);
	assert_int_equal(h1_skip_crlf(NULL, 0), 0);
	BAD("\r\n" G H E, "empty_line"); /* a second one */
	BAD("\r\n\r\n", "empty_line");
}

static void A35_request_line(void **state)
{
	(void)state;
	BAD("GET\t/ HTTP/1.1\r\n" H E, "method");
	BAD("GET /\tHTTP/1.1\r\n" H E, "version");
	BAD("GET /a\tb HTTP/1.1\r\n" H E, "target");
	BAD("GET  / HTTP/1.1\r\n" H E, "request_line");
	BAD("GET /  HTTP/1.1\r\n" H E, "version");
	BAD("GET / HTTP/1.1 \r\n" H E, "version");
	BAD("GET /a b HTTP/1.1\r\n" H E, "version");
	BAD(" GET / HTTP/1.1\r\n" H E, "request_line");
	BAD("GET\r\n" H E, "request_line");
	BAD("GET \r\n" H E, "version");
	BAD("GET\n/ HTTP/1.1\r\n" H E, "bare_lf");
	BAD("GET foo HTTP/1.1\r\n" H E, "target");
	BAD("GET a.example:443 HTTP/1.1\r\n" H E, "target");
}

static void A36_versions(void **state)
{
	static const char *const bad[] = { "HTTP/1.2", "HTTP/1.10", "HTTP/2.0", "HTTP/0.9", "http/1.1", "HTTP/1.1x", "HTTP/1.", "HTTP/1", "HTTP/01.1", "HTTP/1,1", "HTTPS/1.1", "HTTP /1.1", "1.1", "" };
	char t[100];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		int n = snprintf(t, sizeof(t), "GET / %s\r\n" H E, bad[i]);

		bad_(t, (size_t)n, 400, "version", __LINE__);
	}
	BAD("GET /\r\n" H E, "version");
	BAD("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "version"); /* C20, C21 */
	/* 1.0 needs no Host, and the connection is not used again whatever is asked (B14) */
	OK("GET / HTTP/1.0\r\n" E);
	assert_int_equal(req.version, HTTP_V_1_0);
	assert_false(req.keep_alive);
	OK("GET / HTTP/1.0\r\nConnection: keep-alive\r\n" E);
	assert_false(req.keep_alive);
}

static void A37_methods(void **state)
{
	char *t = malloc(200);
	int n;

	(void)state;
	BAD("G=\":<>(e),[T] / HTTP/1.1\r\n" H E, "method");
	BAD("get / HTTP/1.1\r\n" H E, "method");
	BAD("Get / HTTP/1.1\r\n" H E, "method");
	BAD("patch / HTTP/1.1\r\n" H E, "method");
	BAD("G\x80T / HTTP/1.1\r\n" H E, "method");
	OK("PROPFIND / HTTP/1.1\r\n" H E); /* unknown ones go to the policy */
	OK("M-SEARCH / HTTP/1.1\r\n" H E);
	OK("TRACE / HTTP/1.1\r\n" H E);    /* B08: refused above the parser */
	n = sprintf(t, "%064d / HTTP/1.1\r\n" H E, 0);
	ok_(t, (size_t)n, __LINE__);
	n = sprintf(t, "%065d / HTTP/1.1\r\n" H E, 0);
	bad_(t, (size_t)n, 400, "method", __LINE__);
	free(t);
}

static void A38_pipelined(void **state)
{
	static const char t[] = P H "Content-Length: 2\r\n" E "xy" G "Bad\r\n" E G H E;
	const uint8_t *p = (const uint8_t *)t;
	size_t n = sizeof(t) - 1, scan = 0;
	long e = h1_head_end(p, n, &scan, &h1_limits_default, &fault);

	(void)state;
	assert_true(e > 0);
	assert_true(h1_parse_request(p, (size_t)e, &h1_limits_default, &arena, &req, &fault));
	p += e + 2;
	n -= (size_t)e + 2;
	scan = 0;
	e = h1_head_end(p, n, &scan, &h1_limits_default, &fault);
	assert_true(e > 0 && (size_t)e < n);
	assert_false(h1_parse_request(p, (size_t)e, &h1_limits_default, &arena, &req, &fault));
	assert_string_equal(fault.reason, "no_colon");
}

static void A41_connection(void **state)
{
	(void)state;
	OK(G H "Connection: close\r\n" E);
	assert_false(req.keep_alive);
	OK(G H "Connection: keep-alive, CLOSE\r\n" E);
	assert_false(req.keep_alive);
	OK(G H "Connection: keep-alive\r\nConnection:\r\nConnection: x,,close\r\n" E);
	assert_false(req.keep_alive);
	OK(G H "Connection: closed, keep-alive\r\n" E);
	assert_true(req.keep_alive);
	BAD(G H "Connection: close keep-alive\r\n" E, "connection");
	BAD(G H "Connection: \"close\"\r\n" E, "connection");
	BAD(G H "Connection: a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q\r\n" E, "connection");
}

static void B05_E02_singletons(void **state)
{
	(void)state;
	BAD(G H H E, "two_hosts");
	BAD(G H "host: b.example\r\n" E, "two_hosts");
	BAD(G E, "no_host");
	BAD("OPTIONS * HTTP/1.1\r\n" E, "no_host");
	BAD("GET http://a.example/ HTTP/1.1\r\n" E, "no_host");
	BAD(G "Host:\r\n" E, "host_empty");
	BAD("GET http://a.example/ HTTP/1.1\r\nHost: \r\n" E, "host_empty");
	BAD(G H "Authorization: a\r\nauthorization: a\r\n" E, "two_authorizations");
	/* widespread clients send CONNECT without Host */
	OK("CONNECT a.example:443 HTTP/1.1\r\n" E);
	assert_ptr_equal(req.host_field.p, NULL);
}

static void B09_underscores(void **state)
{
	static const char *const dropped[] = { "X_Forwarded_For", "x_forwarded-host", "X_HTTP_Method_Override", "Accept_Encoding", "Proxy_Authorization", "Keep_Alive", "If_Range" };
	char t[200];

	(void)state;
	for (size_t i = 0; i < sizeof(dropped) / sizeof(dropped[0]); i++) {
		int n = snprintf(t, sizeof(t), G H "%s: x\r\n" E, dropped[i]);

		ok_(t, (size_t)n, __LINE__);
		if (!req.fields.f[1].drop)
			fail_msg("%s is passed on", dropped[i]);
	}
	OK(G H "X_Custom: y\r\n_: z\r\n" E);
	assert_false(req.fields.f[1].drop || req.fields.f[2].drop);
}

static void E01_F13_F14_targets(void **state)
{
	(void)state;
	OK("GET http://a.example HTTP/1.1\r\n" H E);
	assert_int_equal(req.form, HTTP_TARGET_ABSOLUTE);
	IS(req.scheme, "http");
	IS(req.authority, "a.example");
	IS(req.path, "/");
	assert_false(req.has_query);
	OK("GET HTTPS://u@A.example:1?x HTTP/1.1\r\n" H E); /* E07: canon_authority refuses it */
	IS(req.scheme, "https");
	IS(req.authority, "u@A.example:1");
	IS(req.path, "/");
	IS(req.query, "x");
	OK("GET http://a.example/p?q?r HTTP/1.1\r\n" H E);
	IS(req.path, "/p");
	IS(req.query, "q?r");
	OK("GET http://a.example#f HTTP/1.1\r\n" H E); /* F12: canon_path refuses it */
	IS(req.authority, "a.example");
	IS(req.path, "#f");
	OK("OPTIONS * HTTP/1.1\r\n" H E);
	assert_int_equal(req.form, HTTP_TARGET_ASTERISK);
	IS(req.path, "*");
	OK("OPTIONS http://a.example HTTP/1.1\r\n" H E); /* RFC 9112 3.2.4 */
	IS(req.path, "*");
	OK("OPTIONS http://a.example/ HTTP/1.1\r\n" H E);
	IS(req.path, "/");
	OK("OPTIONS http://a.example?x HTTP/1.1\r\n" H E);
	IS(req.path, "/");
	OK("CONNECT a.example:443 HTTP/1.1\r\n" H E);
	assert_int_equal(req.form, HTTP_TARGET_AUTHORITY);
	IS(req.authority, "a.example:443");
	assert_ptr_equal(req.path.p, NULL);
	BAD("CONNECT a\x80:443 HTTP/1.1\r\n" H E, "target");
	BAD("GET * HTTP/1.1\r\n" H E, "target");
	BAD("GET http:///p HTTP/1.1\r\n" H E, "host_empty");
	BAD("GET http:a.example/ HTTP/1.1\r\n" H E, "target");
	BAD("GET ://a.example/ HTTP/1.1\r\n" H E, "target");
	BAD("GET ftp://a.example/ HTTP/1.1\r\n" H E, "scheme");
	BAD("GET gopher://a.example/ HTTP/1.1\r\n" H E, "scheme");
	BAD("GET ws://a.example/ HTTP/1.1\r\n" H E, "scheme");
	OK("GET //a.example/ HTTP/1.1\r\n" H E); /* F04: canon_path refuses it */
	IS(req.path, "//a.example/");
}

#define WS "Upgrade: websocket\r\nConnection: Upgrade\r\n"
#define KEY "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
#define V13 "Sec-WebSocket-Version: 13\r\n"
static void I01_I02_I04_upgrades(void **state)
{
	(void)state;
	OK(G H WS KEY V13 E);
	assert_true(req.upgrade_websocket);
	OK(G H "Upgrade: WebSocket\r\nConnection: keep-alive, upgrade\r\n" KEY V13 E);
	assert_true(req.upgrade_websocket);
	/* others are ignored, the field is stripped */
	OK(G H "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n" E);
	assert_false(req.upgrade_websocket);
	assert_true(http_request_strip(&req, &fault));
	for (unsigned i = 0; i < req.fields.n; i++)
		assert_true(req.fields.f[i].drop);
	OK(G H "Upgrade: TLS/1.0\r\nConnection: Upgrade\r\n" E);
	assert_false(req.upgrade_websocket);
	OK(G H "Upgrade: websocket, h2c\r\nConnection: Upgrade\r\n" KEY V13 E);
	assert_false(req.upgrade_websocket);
	OK(G H "Upgrade: websocket\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n" KEY V13 E);
	assert_false(req.upgrade_websocket);
	OK(G H "Upgrade: websocket\r\n" KEY V13 E);
	assert_false(req.upgrade_websocket);
	OK("GET / HTTP/1.0\r\n" H WS KEY V13 E);
	assert_false(req.upgrade_websocket);
	/* a handshake that is none */
	BAD(P H WS KEY V13 E, "websocket_handshake");
	BAD(G H WS KEY V13 "Content-Length: 0\r\n" E, "websocket_handshake");
	BAD(G H WS KEY V13 "Content-Length: 5\r\n" E, "websocket_handshake");
	BAD(G H WS KEY V13 "Transfer-Encoding: chunked\r\n" E, "websocket_handshake");
	BAD(G H WS V13 E, "websocket_handshake");
	BAD(G H WS KEY E, "websocket_handshake");
	BAD(G H WS KEY KEY V13 E, "websocket_handshake");
	BAD(G H WS KEY V13 V13 E, "websocket_handshake");
	BAD(G H WS KEY "Sec-WebSocket-Version: 8\r\n" E, "websocket_handshake");
	BAD(G H WS "Sec-WebSocket-Key: short\r\n" V13 E, "websocket_handshake");
	BAD(G H WS "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=a\r\n" V13 E, "websocket_handshake");
}

/* h1_parse_* does not rely on h1_head_end having been called. */
static void parse_stands_alone(void **state)
{
	static const char good[] = P H "Content-Length: 5\r\nX: y\r\n" E;
	uint8_t *c;

	(void)state;
	for (size_t k = 0; k < sizeof(good) - 1; k++) {
		c = copy(good, k);
		assert_false(h1_parse_request(c, k, &h1_limits_default, &arena, &req, &fault));
		assert_false(h1_parse_response(c, k, &h1_limits_default, &arena, STR("GET"), &res, &fault));
		free(c);
	}
	assert_false(h1_parse_request((const uint8_t *)G H E E, sizeof(G H E E) - 1, &h1_limits_default, &arena, &req, &fault));
	assert_string_equal(fault.reason, "line_end");
}

/* --- responses ----------------------------------------------------------------------------------------------------- */

static bool parse_res(const char *p, size_t n, const char *method)
{
	long e;

	free(head_mem);
	head_mem = copy(p, n);
	memset(&res, 0xa5, sizeof(res));
	e = head_end(head_mem, n);
	if (e == 0)
		fail_msg("no end of head in '%s'", p);
	if (e < 0) {
		fault.status = 502; /* the upstream's half says so for faults of h1_head_end */
		return false;
	}
	head_mem = realloc(head_mem, (size_t)e);
	return h1_parse_response(head_mem, (size_t)e, &h1_limits_default, &arena, str_of(method), &res, &fault);
}

static void res_bad_(const char *p, size_t n, const char *reason, int line)
{
	if (parse_res(p, n, "GET"))
		fail_msg("line %d: accepted", line);
	if (fault.status != 502 || strcmp(fault.reason, reason) != 0)
		fail_msg("line %d: %u %s", line, fault.status, fault.reason);
}

static void res_ok_(const char *p, size_t n, const char *method, unsigned status, enum http_framing framing, uint64_t length, bool keep, int line)
{
	if (!parse_res(p, n, method))
		fail_msg("line %d: %s", line, fault.reason);
	assert_int_equal(res.status, status);
	assert_int_equal(res.framing, framing);
	if (framing == HTTP_BODY_LENGTH)
		assert_int_equal(res.content_length, length);
	assert_int_equal(res.keep_alive, keep);
}
#define RBAD(text, reason) res_bad_(text, sizeof(text) - 1, reason, __LINE__)
#define ROK(text, method, status, framing, length, keep) res_ok_(text, sizeof(text) - 1, method, status, framing, length, keep, __LINE__)
#define R "HTTP/1.1 200 OK\r\n"

static void K01_broken_responses(void **state)
{
	(void)state;
	RBAD(R "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n" E, "cl_and_te");
	RBAD(R "Content-Length: 5\r\nContent-Length: 6\r\n" E, "two_lengths");
	RBAD(R "Content-Length: 5\r\nContent-Length: 5\r\n" E, "two_lengths");
	RBAD(R "Content-Length: 5, 5\r\n" E, "content_length");
	RBAD(R "Content-Length: +5\r\n" E, "content_length");
	RBAD(R "Content-Length:\r\n" E, "content_length");
	RBAD(R "X: a\n" E, "bare_lf");
	RBAD(R "X: a\rb\r\n" E, "bare_cr");
	RBAD(R "X: a\0b\r\n" E, "nul");
	RBAD(R "X: a\r\n b\r\n" E, "obs_fold");
	RBAD(R "X : a\r\n" E, "header_name");
	RBAD(R "X\r\n" E, "no_colon");
	RBAD("HTTP/1.1200 OK\r\n" E, "version");
	RBAD("HTTP/1.1 2000 OK\r\n" E, "status");
	RBAD("HTTP/1.1 20 OK\r\n" E, "status");
	RBAD("HTTP/1.1 2x0 OK\r\n" E, "status");
	RBAD("HTTP/1.1 099 OK\r\n" E, "status");
	RBAD("HTTP/1.1 600 OK\r\n" E, "status");
	RBAD("HTTP/1.1  200 OK\r\n" E, "status");
	RBAD("HTTP/1.2 200 OK\r\n" E, "version");
	RBAD("HTTP/2.0 200 OK\r\n" E, "version");
	RBAD("http/1.1 200 OK\r\n" E, "status_line");
	RBAD("ICY 200 OK\r\nabcdef: x\r\n" E, "status_line");
	RBAD("<html>hello there</html>\r\n" E, "status_line"); /* K14: HTTP/0.9 */
	RBAD("HTTP/1.1\r\n" E, "status_line");
	RBAD(R "Transfer_Encoding: chunked\r\nContent-Length: x\r\n" E, "content_length");
}

static void K12_transfer_codings(void **state)
{
	(void)state;
	RBAD(R "Transfer-Encoding: gzip, chunked\r\n" E, "transfer_encoding");
	RBAD(R "Transfer-Encoding: gzip\r\n" E, "transfer_encoding");
	RBAD(R "Transfer-Encoding: identity\r\n" E, "transfer_encoding");
	RBAD(R "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n" E, "transfer_encoding");
	RBAD("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n" E, "transfer_encoding");
}

static void K13_I15_no_content(void **state)
{
	struct buf b = { 0 };

	(void)state;
	ROK("HTTP/1.1 100 Continue\r\nContent-Length: 5\r\n" E, "POST", 100, HTTP_BODY_NONE, 0, true);
	ROK("HTTP/1.1 101 Switching\r\nContent-Length: 5\r\n" E, "GET", 101, HTTP_BODY_NONE, 0, true);
	ROK("HTTP/1.1 204 No\r\nContent-Length: 5\r\n" E, "GET", 204, HTTP_BODY_NONE, 0, true);
	http_response_strip(&res);
	h1_write_response(&b, &res, HTTP_BODY_LENGTH, 5, true, false);
	IS(buf_str(&b), "HTTP/1.1 204 No\r\n\r\n");
	buf_clear(&b);
	ROK("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n" E, "GET", 304, HTTP_BODY_NONE, 0, true);
	assert_true(res.has_length);
	http_response_strip(&res);
	h1_write_response(&b, &res, HTTP_BODY_NONE, 0, true, false);
	IS(buf_str(&b), "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n");
	buf_clear(&b);
	ROK(R "Content-Length: 5\r\n" E, "HEAD", 200, HTTP_BODY_NONE, 0, true);
	http_response_strip(&res);
	h1_write_response(&b, &res, HTTP_BODY_NONE, 0, false, true);
	IS(buf_str(&b), R "Connection: close\r\nContent-Length: 5\r\n\r\n");
	buf_clear(&b);
	ROK(R "Transfer-Encoding: chunked\r\n" E, "HEAD", 200, HTTP_BODY_NONE, 0, true);
	ROK(R E, "HEAD", 200, HTTP_BODY_NONE, 0, true);
	ROK(R E, "CONNECT", 200, HTTP_BODY_NONE, 0, true);
	ROK("HTTP/1.1 403 No\r\nContent-Length: 5\r\n" E, "CONNECT", 403, HTTP_BODY_LENGTH, 5, true);
	ROK("HTTP/1.1 205 Reset\r\nContent-Length: 0\r\n" E, "POST", 205, HTTP_BODY_LENGTH, 0, true);
	buf_fini(&b);
}

static void K14_versions_and_reuse(void **state)
{
	(void)state;
	ROK(R "Content-Length: 5\r\n" E, "GET", 200, HTTP_BODY_LENGTH, 5, true);
	ROK(R "Transfer-Encoding: Chunked\r\n" E, "GET", 200, HTTP_BODY_CHUNKED, 0, true);
	ROK(R E, "GET", 200, HTTP_BODY_CLOSE, 0, false);
	ROK(R "Connection: keep-alive\r\n" E, "GET", 200, HTTP_BODY_CLOSE, 0, false);
	ROK(R "Connection: x, Close\r\nContent-Length: 5\r\n" E, "GET", 200, HTTP_BODY_LENGTH, 5, false);
	ROK(R "Connection: keep-alive;\r\nContent-Length: 5\r\n" E, "GET", 200, HTTP_BODY_LENGTH, 5, false);
	ROK("HTTP/1.0 200 OK\r\nContent-Length: 5\r\n" E, "GET", 200, HTTP_BODY_LENGTH, 5, false);
	ROK("HTTP/1.0 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n" E, "GET", 200, HTTP_BODY_LENGTH, 5, true);
	ROK("HTTP/1.0 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive, close\r\n" E, "GET", 200, HTTP_BODY_LENGTH, 5, false);
	ROK("HTTP/1.1 200\r\nContent-Length: 5\r\n" E, "GET", 200, HTTP_BODY_LENGTH, 5, true);
	IS(res.reason, "");
	ROK("HTTP/1.1 200 \r\nContent-Length: 5\r\n" E, "GET", 200, HTTP_BODY_LENGTH, 5, true);
	ROK("HTTP/1.1 200 all\tis \xfc\x80!\r\nContent-Length: 5\r\n" E, "GET", 200, HTTP_BODY_LENGTH, 5, true);
	IS(res.reason, "all\tis \xfc\x80!");
}

/* --- writing ------------------------------------------------------------------------------------------------------- */

static void write_request(void **state)
{
	struct buf b = { 0 };

	(void)state;
	OK("POST /x HTTP/1.1\r\nA: 1\r\nConnection: close, c\r\nHost: a.example:443\r\nB:  2 \r\nC: 3\r\nContent-Length: 5\r\nTE: trailers\r\nExpect: 100-continue\r\n" E);
	assert_true(http_request_strip(&req, &fault));
	h1_write_request(&b, &req, STR("a.example"), STR("/x"), HTTP_BODY_LENGTH, 5);
	IS(buf_str(&b), "POST /x HTTP/1.1\r\nHost: a.example\r\nA: 1\r\nB: 2\r\nContent-Length: 5\r\n\r\n");
	buf_clear(&b);
	h1_write_request(&b, &req, STR("a.example"), STR("/x?y"), HTTP_BODY_CHUNKED, 0);
	IS(buf_str(&b), "POST /x?y HTTP/1.1\r\nHost: a.example\r\nA: 1\r\nB: 2\r\nTransfer-Encoding: chunked\r\n\r\n");
	buf_clear(&b);
	h1_write_request(&b, &req, STR("a.example"), STR("/"), HTTP_BODY_LENGTH, 0);
	IS(buf_str(&b), "POST / HTTP/1.1\r\nHost: a.example\r\nA: 1\r\nB: 2\r\nContent-Length: 0\r\n\r\n");
	buf_clear(&b);
	/* 1.0 in, 1.1 out */
	OK("GET / HTTP/1.0\r\nConnection: keep-alive\r\nKeep-Alive: 5\r\n" E);
	assert_true(http_request_strip(&req, &fault));
	h1_write_request(&b, &req, STR("a"), STR("/"), HTTP_BODY_NONE, 0);
	IS(buf_str(&b), "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
	buf_fini(&b);
}

static void write_response(void **state)
{
	struct buf b = { 0 };

	(void)state;
	ROK("HTTP/1.0 200 Fine\r\nA: 1\r\nConnection: a2\r\na2: x\r\nAlt-Svc: h3\r\nContent-Length: 7\r\nKeep-Alive: 1\r\n" E, "GET", 200, HTTP_BODY_LENGTH, 7, false);
	http_response_strip(&res);
	h1_write_response(&b, &res, HTTP_BODY_LENGTH, 7, true, false);
	IS(buf_str(&b), "HTTP/1.1 200 Fine\r\nA: 1\r\nContent-Length: 7\r\n\r\n");
	buf_clear(&b);
	h1_write_response(&b, &res, HTTP_BODY_CHUNKED, 0, false, false);
	IS(buf_str(&b), "HTTP/1.1 200 Fine\r\nA: 1\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n");
	buf_clear(&b);
	h1_write_response(&b, &res, HTTP_BODY_CLOSE, 0, false, false);
	IS(buf_str(&b), "HTTP/1.1 200 Fine\r\nA: 1\r\nConnection: close\r\n\r\n");
	buf_clear(&b);
	h1_write_response(&b, &res, HTTP_BODY_LENGTH, 0, true, false);
	IS(buf_str(&b), "HTTP/1.1 200 Fine\r\nA: 1\r\nContent-Length: 0\r\n\r\n");
	buf_clear(&b);
	/* Host means something in requests only: of a response it is a field like others */
	ROK(R "Host: x\r\nContent-Length: 0\r\n" E, "GET", 200, HTTP_BODY_LENGTH, 0, true);
	http_response_strip(&res);
	h1_write_response(&b, &res, HTTP_BODY_LENGTH, 0, true, false);
	IS(buf_str(&b), R "Host: x\r\nContent-Length: 0\r\n\r\n");
	buf_fini(&b);
}

static void chunk_line(void **state)
{
	static const struct {
		uint64_t n;
		const char *text;
	} rows[] = { { 0, "0\r\n" }, { 15, "f\r\n" }, { 16, "10\r\n" }, { 16384, "4000\r\n" }, { UINT64_MAX, "ffffffffffffffff\r\n" } };
	char t[20];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_int_equal(h1_chunk_line(t, rows[i].n), strlen(rows[i].text));
		assert_memory_equal(t, rows[i].text, strlen(rows[i].text));
	}
}

/* --- content ------------------------------------------------------------------------------------------------------- */

struct decoded {
	char data[512];
	size_t n, used; /* used: octets of the input taken */
	bool done, failed;
	const char *reason;
	unsigned status;
};

/* The stream in pieces [0,k), [k,n); or in steps. */
static void decode(const char *p, size_t n, size_t k, size_t step, enum http_framing framing, uint64_t length, bool response, struct decoded *d)
{
	struct h1_body b;
	struct http_fault f = { 0 };
	size_t have = k;

	memset(d, 0, sizeof(*d));
	h1_body_init(&b, framing, length);
	b.response = response;
	for (;;) {
		uint8_t *c = copy(p + d->used, have - d->used);
		const uint8_t *data;
		size_t len;
		long r = h1_body_feed(&b, c, have - d->used, &data, &len, &f);

		if (r >= 0) {
			assert_true((size_t)r <= have - d->used);
			assert_true(len == 0 || (data >= c && data + len <= c + r));
			assert_true(d->n + len <= sizeof(d->data));
			if (len)
				memcpy(d->data + d->n, data, len);
			d->n += len;
			d->used += (size_t)r;
		}
		free(c);
		if (r < 0) {
			d->failed = true;
			d->reason = f.reason;
			d->status = f.status;
			break;
		}
		if (b.done)
			break;
		if (r > 0)
			continue;
		if (have == n)
			break;
		have = step && have + step < n ? have + step : n;
	}
	d->done = b.done;
	assert_int_equal(b.total, d->n);
}

static void content(const char *p, size_t n, enum http_framing framing, uint64_t length, bool response, struct decoded *d)
{
	struct decoded e;

	decode(p, n, n, 0, framing, length, response, d);
	for (size_t k = 0; k <= n; k++) {
		decode(p, n, k, k == 0 ? 1 : 0, framing, length, response, &e);
		assert_int_equal(e.n, d->n);
		assert_memory_equal(e.data, d->data, d->n);
		assert_int_equal(e.done, d->done);
		assert_int_equal(e.failed, d->failed);
		if (d->failed) {
			assert_string_equal(e.reason, d->reason);
			assert_int_equal(e.status, d->status);
		} else {
			assert_int_equal(e.used, d->used);
		}
	}
}

static void chunks_are(const char *p, size_t n, const char *want, size_t rest, int line)
{
	struct decoded d;

	content(p, n, HTTP_BODY_CHUNKED, 0, false, &d);
	if (d.failed || !d.done)
		fail_msg("line %d: %s", line, d.failed ? d.reason : "not complete");
	assert_true(str_eq(str_mk(d.data, d.n), str_of(want)));
	assert_int_equal(d.used, n - rest);
}

static void chunks_bad_(const char *p, size_t n, const char *reason, int line)
{
	struct decoded d;

	content(p, n, HTTP_BODY_CHUNKED, 0, false, &d);
	if (!d.failed || strcmp(d.reason, reason) != 0)
		fail_msg("line %d: %s", line, d.failed ? d.reason : "accepted");
	assert_int_equal(d.status, 400);
	content(p, n, HTTP_BODY_CHUNKED, 0, true, &d);
	assert_int_equal(d.status, 502);
}
#define CHUNKS(text, want, rest) chunks_are(text, sizeof(text) - 1, want, rest, __LINE__)
#define CHUNKS_BAD(text, reason) chunks_bad_(text, sizeof(text) - 1, reason, __LINE__)
#define LAST "0\r\n\r\n"

static void A12_A13_length(void **state)
{
	struct decoded d;
	struct h1_body b;

	(void)state;
	content("hello", 5, HTTP_BODY_LENGTH, 5, false, &d);
	assert_true(d.done && d.n == 5);
	content("helloGET /", 10, HTTP_BODY_LENGTH, 5, false, &d); /* the next request is not content */
	assert_true(d.done && d.n == 5 && d.used == 5);
	content("GET / HTTP/1.1", 14, HTTP_BODY_LENGTH, 0, false, &d); /* CL.0 */
	assert_true(d.done && d.n == 0 && d.used == 0);
	content("GET /", 5, HTTP_BODY_NONE, 0, false, &d);
	assert_true(d.done && d.used == 0);
	content("hell", 4, HTTP_BODY_LENGTH, 5, false, &d); /* then FIN: not a clean end */
	assert_false(d.done);
	h1_body_init(&b, HTTP_BODY_LENGTH, 5);
	assert_false(h1_body_eof(&b));
	h1_body_init(&b, HTTP_BODY_CHUNKED, 0);
	assert_false(h1_body_eof(&b));
	h1_body_init(&b, HTTP_BODY_NONE, 0);
	assert_true(h1_body_eof(&b));
	h1_body_init(&b, HTTP_BODY_CLOSE, 0);
	assert_true(h1_body_eof(&b)); /* K04: whether the close itself was clean the connection knows */
	content("anything", 8, HTTP_BODY_CLOSE, 0, true, &d);
	assert_true(!d.done && d.n == 8 && d.used == 8);
}

static void chunks_plain(void **state)
{
	(void)state;
	CHUNKS(LAST, "", 0);
	CHUNKS("5\r\nhello\r\n" LAST, "hello", 0);
	CHUNKS("5\r\nhello\r\n6\r\n world\r\n" LAST "GET /", "hello world", 5);
	CHUNKS("1\r\na\r\n1\r\nb\r\n1\r\nc\r\n" LAST, "abc", 0);
	CHUNKS("A\r\n0123456789\r\n00\r\n\r\n", "0123456789", 0);
	CHUNKS("000000000000000a\r\n0123456789\r\n" LAST, "0123456789", 0);
	CHUNKS("4\r\n\r\n\r\n\r\n" LAST, "\r\n\r\n", 0);
}

static void A16_A17_A18_A19_extensions(void **state)
{
	static char t[200000];
	size_t n;
	struct h1_body b;
	const uint8_t *data;
	size_t len, used = 0;
	long r;

	(void)state;
	CHUNKS("5;ext=1\r\nhello\r\n0;x\r\n\r\n", "hello", 0);
	CHUNKS("5;a=\"b;c\"\r\nhello\r\n" LAST, "hello", 0);
	CHUNKS("5; a = b \t;c\r\nhello\r\n" LAST, "hello", 0);
	CHUNKS_BAD("5;\r\nhello\r\n" LAST, "chunk_extension");
	CHUNKS_BAD("5;ext\nhello\r\n" LAST, "chunk_extension");
	CHUNKS_BAD("5\nhello\r\n" LAST, "chunk_size");
	CHUNKS_BAD("5;a\n;b\r\nhello\r\n" LAST, "chunk_extension");
	CHUNKS_BAD("5\r\nhello\r\n0\n\r\n", "chunk_size");
	CHUNKS("5;a=\"\r\nhello\r\n" LAST, "hello", 0); /* a quote hides no line end */
	CHUNKS_BAD("5;a=\"x\ny\"\r\nhello\r\n" LAST, "chunk_extension");
	CHUNKS_BAD("5;a=\"x\\\x01\"\r\nhello\r\n" LAST, "chunk_extension");
	CHUNKS_BAD("5;a\0\r\nhello\r\n" LAST, "chunk_extension");
	CHUNKS_BAD("5;a\x7f\r\nhello\r\n" LAST, "chunk_extension");
	CHUNKS_BAD("2\r\r;a\r\nhi\r\n" LAST, "chunk_line_end");
	CHUNKS_BAD("5\r\r;ABCD\r\nhello\r\n" LAST, "chunk_line_end");
	CHUNKS_BAD("5;a\rb\r\nhello\r\n" LAST, "chunk_line_end");
	/* they may not grow without bound, in a line or in all */
	n = (size_t)sprintf(t, "1;");
	memset(t + n, 'x', 2000);
	h1_body_init(&b, HTTP_BODY_CHUNKED, 0);
	assert_int_equal(h1_body_feed(&b, (uint8_t *)t, n + 2000, &data, &len, &fault), -1);
	assert_int_equal(fault.status, 413);
	for (n = 0; n + 1100 < sizeof(t);)
		n += (size_t)sprintf(t + n, "1;%01000d\r\na\r\n", 0);
	h1_body_init(&b, HTTP_BODY_CHUNKED, 0);
	while ((r = h1_body_feed(&b, (uint8_t *)t + used, n - used, &data, &len, &fault)) > 0)
		used += (size_t)r;
	assert_int_equal(r, -1);
	assert_in_range(b.total, 60, 66);
}

static void A20_chunk_sizes(void **state)
{
	(void)state;
	CHUNKS_BAD("0x5\r\nhello\r\n" LAST, "chunk_size");
	CHUNKS_BAD("+5\r\nhello\r\n" LAST, "chunk_size");
	CHUNKS_BAD("-5\r\nhello\r\n" LAST, "chunk_size");
	CHUNKS_BAD("5_0\r\nhello\r\n" LAST, "chunk_size");
	CHUNKS_BAD(" 5\r\nhello\r\n" LAST, "chunk_size");
	CHUNKS_BAD("5 \r\nhello\r\n" LAST, "chunk_size");
	CHUNKS_BAD("5\t;a\r\nhello\r\n" LAST, "chunk_size");
	CHUNKS_BAD("\r\nhello\r\n" LAST, "chunk_size");
	CHUNKS_BAD(";a\r\nhello\r\n" LAST, "chunk_size");
	CHUNKS_BAD("G\r\nhello\r\n" LAST, "chunk_size");
	CHUNKS_BAD("00000000000000005\r\nhello\r\n" LAST, "chunk_size");
	CHUNKS_BAD("10000000000000005\r\nhello\r\n" LAST, "chunk_size");
	CHUNKS_BAD("ffffffffffffffff\r\nhello\r\n", "chunk_size");
	CHUNKS_BAD("8000000000000000\r\nhello\r\n", "chunk_size");
	CHUNKS_BAD("1these-bytes\r\nhello\r\n" LAST, "chunk_size");
	CHUNKS_BAD("\xef\xbc\x95\r\nhello\r\n" LAST, "chunk_size");
}

static void A21_A25_chunk_ends(void **state)
{
	(void)state;
	CHUNKS_BAD("5\r\nhelloXX" LAST, "chunk_data_end");
	CHUNKS_BAD("5\r\nhello\n" LAST, "chunk_data_end");
	CHUNKS_BAD("5\r\nhello" LAST, "chunk_data_end");
	CHUNKS_BAD("5\r\nhello\rX" LAST, "chunk_data_end");
	CHUNKS_BAD("5\r\nhello!\r\n" LAST, "chunk_data_end");
	CHUNKS_BAD("5\r\nhello\r\n\r\n" LAST, "chunk_size");
	CHUNKS_BAD("\r\n5\r\nhello\r\n" LAST, "chunk_size");
	CHUNKS_BAD("0\r\n\rX", "chunk_end");
	CHUNKS_BAD("0\r\n\n", "trailer_field");
}

static void A22_A24_trailers(void **state)
{
	static const char *const forbidden[] = { "Content-Length: 9", "content-length: 9", "Authorization: x", "Host: y", "X-Api-Key: k", "Transfer-Encoding: chunked", "Cookie: c", "Connection: x", "TE: x",
		"Trailer: x", "Content_Length: 9", "proxy-authorization: x" };
	static const char *const harmless[] = { "X: y", "Content-Lengt: 9", "Content-Lengthy: 9", "Hos: y", "Hosts: y", "T: x", "X-Checksum: a\tb \xff", "Content-MD5:", "A_b: c" };
	char t[200];
	struct decoded d;

	(void)state;
	for (size_t i = 0; i < sizeof(forbidden) / sizeof(forbidden[0]); i++) {
		size_t n = (size_t)snprintf(t, sizeof(t), "2\r\nhi\r\n0\r\nA: b\r\n%s\r\n\r\n", forbidden[i]);

		content(t, n, HTTP_BODY_CHUNKED, 0, false, &d);
		if (!d.failed || strcmp(d.reason, "trailer_field") != 0)
			fail_msg("trailer field %s", forbidden[i]);
		content(t, n, HTTP_BODY_CHUNKED, 0, true, &d); /* I14: of a response they are dropped */
		assert_true(d.done && !d.failed);
	}
	for (size_t i = 0; i < sizeof(harmless) / sizeof(harmless[0]); i++) {
		size_t n = (size_t)snprintf(t, sizeof(t), "2\r\nhi\r\n0\r\nA: b\r\n%s\r\n\r\nGET", harmless[i]);

		chunks_are(t, n, "hi", 3, __LINE__);
		content(t, n, HTTP_BODY_CHUNKED, 0, true, &d);
		assert_true(d.done);
	}
	CHUNKS("0\r\nX:POST / HTTP/1.1\r\n\r\nGET /", "", 5);
	CHUNKS_BAD("0\r\nX\r\n\r\n", "trailer_field");
	CHUNKS_BAD("0\r\n: x\r\n\r\n", "trailer_field");
	CHUNKS_BAD("0\r\nX : x\r\n\r\n", "trailer_field");
	CHUNKS_BAD("0\r\n X: x\r\n\r\n", "trailer_field");
	CHUNKS_BAD("0\r\nX: x\n\r\n", "trailer_field");
	CHUNKS_BAD("0\r\nX: x\rY: z\r\n\r\n", "trailer_field");
	CHUNKS_BAD("0\r\nX: \0\r\n\r\n", "trailer_field");
	CHUNKS_BAD("0\r\nX: a\r\n b\r\n\r\n", "trailer_field");
	CHUNKS_BAD("0\r\nGET / HTTP/1.1\r\n\r\n", "trailer_field");
}

static void A23_trailer_limits(void **state)
{
	struct h1_body b;
	struct http_fault f;
	const uint8_t *data;
	size_t len, fed = 0;
	long r;

	(void)state;
	/* no end of fields */
	h1_body_init(&b, HTTP_BODY_CHUNKED, 0);
	assert_int_equal(h1_body_feed(&b, (const uint8_t *)"0\r\n", 3, &data, &len, &f), 3);
	while ((r = h1_body_feed(&b, (const uint8_t *)"a: b\r\n", 6, &data, &len, &f)) == 6)
		assert_true(++fed < 1000);
	assert_int_equal(r, -1);
	assert_int_equal(f.status, 431);
	assert_int_equal(fed, 100);
	/* no end of a field */
	h1_body_init(&b, HTTP_BODY_CHUNKED, 0);
	assert_int_equal(h1_body_feed(&b, (const uint8_t *)"0\r\nX: ", 6, &data, &len, &f), 6);
	for (fed = 0; (r = h1_body_feed(&b, (const uint8_t *)"aaaaaaaa", 8, &data, &len, &f)) == 8; fed += 8)
		assert_true(fed < 100000);
	assert_int_equal(r, -1);
	assert_int_equal(f.status, 431);
	/* no end of a name */
	h1_body_init(&b, HTTP_BODY_CHUNKED, 0);
	assert_int_equal(h1_body_feed(&b, (const uint8_t *)"0\r\n", 3, &data, &len, &f), 3);
	for (fed = 0; (r = h1_body_feed(&b, (const uint8_t *)"content-", 8, &data, &len, &f)) == 8; fed += 8)
		assert_true(fed < 100000);
	assert_int_equal(f.status, 431);
}

/* Small chunks come as one run, at every split and beside every fault as one by one. */
static void D19_small_chunks(void **state)
{
	static const char *const texts[] = {
		"1\r\na\r\n1\r\nb\r\n1\r\nc\r\n0\r\n\r\n", "001\r\na\r\n3\r\nbcd\r\n0a\r\n0123456789\r\n00\r\n\r\n", "2\r\nab\r\n2;x=y\r\ncd\r\n1\r\ne\r\n0\r\nX: y\r\n\r\n",
		"1\r\na\r\n1\r\nb\r\n\r\n", "1\r\na\r\n1\r\nb\n1\r\nc\r\n", "1\r\na\r\n1\rb\r\n", "1\r\na\r\n1\r\nbc\r\n", "1\r\na\r\n 1\r\nb\r\n", "1\r\na\r\n0001\r\nb\r\n0\r\n\r\n", "1\r\na\r\n1 \r\nb\r\n",
	};

	(void)state;
	for (size_t k = 0; k < sizeof(texts) / sizeof(texts[0]); k++) {
		const size_t n = strlen(texts[k]);
		char want[64] = "", got[64];
		const char *end = NULL;

		for (size_t step = n; step > 0; step--) { /* the whole at once first, not gathered */
			for (int gather = step == n ? 0 : 1; gather < 2; gather++) {
				struct http_fault f = { 0 };
				struct h1_body b;
				uint8_t in[64];
				const uint8_t *data;
				size_t len, used = 0, runs = 0;
				long r = 0;

				memcpy(in, texts[k], n);
				got[0] = 0;
				h1_body_init(&b, HTTP_BODY_CHUNKED, 0);
				b.gather = gather;
				for (size_t have = step; r >= 0 && !b.done && used < n; have = have + step < n ? have + step : n)
					while (!b.done && used < have && (r = h1_body_feed(&b, in + used, have - used, &data, &len, &f)) > 0) {
						if (len > 0)
							strncat(got, (const char *)data, len);
						runs += len > 0;
						used += (size_t)r;
					}
				assert_int_equal(b.total, strlen(got));
				if (!gather) {
					strcpy(want, got);
					end = r < 0 ? f.reason : b.done ? "done" : "more";
				}
				assert_string_equal(got, want);
				assert_string_equal(r < 0 ? f.reason : b.done ? "done" : "more", end);
				if (gather && step == n && k < 2)
					assert_int_equal(runs, 1);
			}
		}
	}
}

/* A response's trailer section at every split: what may pass, and what frames, routes or sets state and may not. */
static void I14_response_trailers(void **state)
{
	static const char text[] = "5;n=\"v\"\r\nhello\r\n0\r\nX-Sum: 1\r\nContent-Length: 9\r\nset-cookie: a=b\r\nAuthorization: x\r\nGrpc-Status:  0 \r\n\r\nNEXT";
	const size_t n = sizeof(text) - 1;

	(void)state;
	for (size_t split = 0; split <= n; split++) {
		struct buf trailer = { 0 }, out = { 0 };
		struct http_fields fs;
		struct h1_body b;
		size_t used = 0;

		h1_body_init(&b, HTTP_BODY_CHUNKED, 0);
		b.response = true;
		b.trailer = &trailer;
		for (int part = 0; part < 2 && !b.done; part++) {
			size_t end = part == 0 ? split : n;

			while (used < end && !b.done) {
				const uint8_t *data;
				size_t len;
				long r = h1_body_feed(&b, (const uint8_t *)text + used, end - used, &data, &len, &fault);

				assert_true(r > 0);
				used += (size_t)r;
			}
		}
		assert_true(b.done);
		assert_string_equal(text + used, "NEXT");
		assert_true(h1_parse_trailer(buf_data(&trailer), buf_len(&trailer), &h1_limits_default, &fs, &fault));
		h1_write_last_chunk(&out, &fs);
		buf_addc(&out, 0);
		assert_string_equal((char *)buf_data(&out), "0\r\nX-Sum: 1\r\nGrpc-Status: 0\r\n\r\n");
		buf_fini(&trailer);
		buf_fini(&out);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(request_plain), cmocka_unit_test(A01_cl_and_te), cmocka_unit_test(A02_A03_two_lengths), cmocka_unit_test(A04_length_spellings),
		cmocka_unit_test(A05_A06_A07_transfer_encodings), cmocka_unit_test(A08_te_mutations), cmocka_unit_test(A09_te_in_http_1_0), cmocka_unit_test(A10_A11_content_on_get),
		cmocka_unit_test(A15_expect), cmocka_unit_test(A26_A27_A28_line_ends), cmocka_unit_test(A29_A31_folding), cmocka_unit_test(A30_field_names),
		cmocka_unit_test(A32_obs_text), cmocka_unit_test(A33_B10_sizes), cmocka_unit_test(A34_leading_crlf), cmocka_unit_test(A35_request_line),
		cmocka_unit_test(A36_versions), cmocka_unit_test(A37_methods), cmocka_unit_test(A38_pipelined), cmocka_unit_test(A41_connection),
		cmocka_unit_test(B05_E02_singletons), cmocka_unit_test(B09_underscores), cmocka_unit_test(E01_F13_F14_targets), cmocka_unit_test(I01_I02_I04_upgrades),
		cmocka_unit_test(parse_stands_alone), cmocka_unit_test(K01_broken_responses), cmocka_unit_test(K12_transfer_codings), cmocka_unit_test(K13_I15_no_content),
		cmocka_unit_test(K14_versions_and_reuse), cmocka_unit_test(write_request), cmocka_unit_test(write_response), cmocka_unit_test(chunk_line),
		cmocka_unit_test(A12_A13_length), cmocka_unit_test(chunks_plain), cmocka_unit_test(A16_A17_A18_A19_extensions), cmocka_unit_test(A20_chunk_sizes),
		cmocka_unit_test(A21_A25_chunk_ends), cmocka_unit_test(A22_A24_trailers), cmocka_unit_test(D19_small_chunks), cmocka_unit_test(I14_response_trailers), cmocka_unit_test(A23_trailer_limits),
	};

	return cmocka_run_group_tests_name("h1", tests, NULL, teardown);
}
