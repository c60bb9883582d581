/* SPDX-License-Identifier: Apache-2.0 */
/* The answer to a refused request, as programs and agents read it; J18 for what stands in it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <jansson.h>

#include "proxy/http/h1.h"
#include "proxy/http/refusal.h"

static struct arena arena;
static struct http_response res;
static struct buf out;

/* Writes, parses with our own parser, checks the length; returns the content. */
static struct str answer(const struct refusal *r)
{
	struct http_fault f = { 0 };
	size_t scan = 0;
	long e;
	struct str body;

	buf_clear(&out);
	refusal_write_h1(&out, r);
	e = h1_head_end(buf_data(&out), buf_len(&out), &scan, &h1_limits_default, &f);
	if (e <= 0)
		fail_msg("head: %s", f.reason);
	assert_true(h1_parse_response(buf_data(&out), (size_t)e, &h1_limits_default, &arena, STR("GET"), &res, &f));
	assert_int_equal(res.framing, HTTP_BODY_LENGTH);
	body = str_mk(buf_data(&out) + e, buf_len(&out) - (size_t)e);
	if (!r->is_head)
		assert_int_equal(res.content_length, body.n);
	else
		assert_int_equal(body.n, 0);
	return body;
}

static void field_is(const char *name, const char *value)
{
	struct http_field *f = http_fields_find_name(&res.fields, str_of(name));

	if (f == NULL) {
		if (value != NULL)
			fail_msg("no %s", name);
		return;
	}
	if (value == NULL || !str_eq(f->value, str_of(value)))
		fail_msg("%s: %.*s", name, (int)f->value.n, f->value.p);
}

static void every_code(void **state)
{
	static const struct {
		enum refusal_code code;
		const char *text;
		unsigned status;
	} rows[] = {
		{ REFUSAL_POLICY_DENIED, "policy_denied", 403 }, { REFUSAL_DESTINATION_DENIED, "destination_denied", 403 }, { REFUSAL_ADDRESS_DENIED, "address_denied", 403 },
		{ REFUSAL_IDENTITY_MISMATCH, "identity_mismatch", 421 }, { REFUSAL_MALFORMED_REQUEST, "malformed_request", 400 }, { REFUSAL_TOO_LARGE, "too_large", 431 },
		{ REFUSAL_LIMIT_EXCEEDED, "limit_exceeded", 429 }, { REFUSAL_PLACEHOLDER_MISUSE, "placeholder_misuse", 403 }, { REFUSAL_FOREIGN_CREDENTIAL, "foreign_credential", 403 },
		{ REFUSAL_CREDENTIAL_UNAVAILABLE, "credential_unavailable", 503 }, { REFUSAL_AUDIT_UNAVAILABLE, "audit_unavailable", 503 }, { REFUSAL_NO_POLICY, "no_policy", 503 },
		{ REFUSAL_GATEWAY_UNAVAILABLE, "gateway_unavailable", 503 }, { REFUSAL_PROXY_AUTHENTICATION, "proxy_authentication", 407 }, { REFUSAL_UPSTREAM_TLS, "upstream_tls", 502 },
		{ REFUSAL_UPSTREAM_PROTOCOL, "upstream_protocol", 502 }, { REFUSAL_UPSTREAM_UNREACHABLE, "upstream_unreachable", 502 }, { REFUSAL_DNS_FAILURE, "dns_failure", 502 },
		{ REFUSAL_UPSTREAM_TIMEOUT, "upstream_timeout", 504 },
	};
	char t[200];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct refusal r = { .code = rows[i].code, .reason = STR("because"), .request_id = STR("r1") };
		struct str body = answer(&r);
		json_t *j = json_loadb(body.p, body.n, JSON_REJECT_DUPLICATES, NULL);

		assert_int_equal(res.status, rows[i].status);
		assert_int_equal(refusal_status(rows[i].code), rows[i].status);
		snprintf(t, sizeof(t), "sallyport %s", rows[i].text);
		assert_true(str_eq(res.reason, str_of(t)));
		field_is("content-type", "application/json");
		field_is("cache-control", "no-store");
		snprintf(t, sizeof(t), "sallyport; error=%s; details=\"because\"", refusal_proxy_error(rows[i].code));
		field_is("proxy-status", t);
		field_is("retry-after", rows[i].status == 429 ? "1" : NULL);
		field_is("proxy-authenticate", rows[i].status == 407 ? "Basic realm=\"sallyport\"" : NULL);
		field_is("connection", NULL);
		assert_non_null(j);
		assert_string_equal(json_string_value(json_object_get(j, "error")), rows[i].text);
		json_decref(j);
	}
}

static void every_member(void **state)
{
	static const char *const allowed[] = { "GET", "HEAD", NULL };
	static const char want[] = "{\"v\":1,\"error\":\"policy_denied\",\"reason\":\"no rule\",\"host\":\"a.example\",\"method\":\"POST\",\"path\":\"/x?y\",\"rule\":\"r:1\","
				   "\"allowed\":[\"GET\",\"HEAD\"],\"retry\":\"ask\",\"ask\":null,\"hint\":\"read only\",\"request_id\":\"abc\"}\n";
	static const char bare[] = "{\"v\":1,\"error\":\"malformed_request\",\"reason\":\"\",\"host\":null,\"method\":null,\"path\":null,\"rule\":null,"
				   "\"allowed\":[],\"retry\":\"no\",\"ask\":null,\"hint\":\"\",\"request_id\":\"\"}\n";
	struct refusal r = { .code = REFUSAL_POLICY_DENIED, .reason = STR("no rule"), .host = STR("a.example"), .method = STR("POST"), .path = STR("/x?y"), .rule = STR("r:1"), .allowed = allowed,
		.retry = "ask", .hint = STR("read only"), .request_id = STR("abc"), .close = true };
	struct str body = answer(&r);

	(void)state;
	assert_true(str_eq(body, STR(want)));
	field_is("connection", "close");
	assert_false(res.keep_alive);
	r.is_head = true;
	answer(&r);
	assert_int_equal(res.content_length, sizeof(want) - 1);
	r = (struct refusal){ .code = REFUSAL_MALFORMED_REQUEST, .status = 400 };
	assert_true(str_eq(answer(&r), STR(bare)));
}

static void status_and_retry(void **state)
{
	struct refusal r = { .code = REFUSAL_TOO_LARGE, .status = 414 };

	(void)state;
	answer(&r);
	assert_int_equal(res.status, 414);
	r = (struct refusal){ .code = REFUSAL_LIMIT_EXCEEDED, .retry = "after", .retry_after_s = 30 };
	answer(&r);
	field_is("retry-after", "30");
	r = (struct refusal){ .code = REFUSAL_GATEWAY_UNAVAILABLE, .retry = "after", .retry_after_s = 2 };
	answer(&r);
	field_is("retry-after", "2");
}

/* What stands in an answer may come from outside: it breaks neither a field, nor JSON, nor a terminal (J18). */
static void J18_hostile_text(void **state)
{
	static const char hostile[] = "a\"b\\c\r\nX: y\x1b[2J\0\x7f\x80\xff\xc3\xbc\xc2\x9b</script>";
	struct str h = str_mk(hostile, sizeof(hostile) - 1);
	struct refusal r = { .code = REFUSAL_DESTINATION_DENIED, .reason = h, .host = h, .method = h, .path = h, .rule = h, .hint = h, .request_id = h };
	struct str body = answer(&r);
	json_t *j = json_loadb(body.p, body.n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);

	(void)state;
	assert_non_null(j);
	assert_int_equal(json_object_size(j), 12);
	json_decref(j);
	for (size_t i = 0; i + 1 < body.n; i++)
		assert_true((unsigned char)body.p[i] >= 0x20 && body.p[i] != 0x7f);
	field_is("proxy-status", "sallyport; error=http_request_denied; details=\"a\\\"b\\\\c??X: y?[2J\?\?\?\?\?\?\?\?</script>\"");
	field_is("x", NULL);
	r.shape = REFUSAL_GIT;
	body = answer(&r);
	field_is("content-type", "text/plain; charset=utf-8");
	for (size_t i = 0; i < body.n; i++)
		assert_true((body.p[i] >= 0x20 && body.p[i] < 0x7f) || body.p[i] == '\n');
}

static void git_two_lines(void **state)
{
	struct refusal r = { .code = REFUSAL_POLICY_DENIED, .reason = STR("no rule of this sandbox's policy allows it"), .hint = STR("fetch is allowed"), .request_id = STR("abc"), .shape = REFUSAL_GIT };

	(void)state;
	assert_true(str_eq(answer(&r), STR("sallyport: policy_denied: no rule of this sandbox's policy allows it\nrequest abc; fetch is allowed\n")));
	r.hint = STR_NONE;
	assert_true(str_eq(answer(&r), STR("sallyport: policy_denied: no rule of this sandbox's policy allows it\nrequest abc\n")));
}

static int teardown(void **state)
{
	(void)state;
	arena_fini(&arena);
	buf_fini(&out);
	return 0;
}

/* gRPC: one head, status 200, the outcome in fields; the message is percent-encoded. */
static void grpc(void **state)
{
	static const struct {
		enum refusal_code code;
		const char *status;
	} rows[] = { { REFUSAL_POLICY_DENIED, "7" }, { REFUSAL_UPSTREAM_PROTOCOL, "14" }, { REFUSAL_AUDIT_UNAVAILABLE, "14" }, { REFUSAL_TOO_LARGE, "8" }, { REFUSAL_IDENTITY_MISMATCH, "3" } };
	struct buf body = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct refusal r = { .code = rows[i].code, .reason = STR("100% no\r\nway"), .shape = REFUSAL_GRPC };

		refusal_answer(&r, &arena, &res, &body);
		assert_int_equal(res.status, 200);
		assert_false(res.has_length);
		assert_int_equal(buf_len(&body), 0);
		field_is("content-type", "application/grpc");
		field_is("grpc-status", rows[i].status);
		assert_non_null(http_fields_find_name(&res.fields, STR("grpc-message")));
		assert_true(str_ends(http_fields_find_name(&res.fields, STR("grpc-message"))->value, STR(": 100%25 no??way")));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(every_code), cmocka_unit_test(every_member), cmocka_unit_test(status_and_retry), cmocka_unit_test(J18_hostile_text),
		cmocka_unit_test(git_two_lines), cmocka_unit_test(grpc) };

	return cmocka_run_group_tests_name("refusal", tests, NULL, teardown);
}
