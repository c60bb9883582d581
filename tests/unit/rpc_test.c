/* SPDX-License-Identifier: Apache-2.0 */
/* The error forms of JSON-RPC, GraphQL and Connect: from a refused request's content to the body of its answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "../../proxy/exchange/rpc.h"
#include "../../proxy/http/h1.h"

static json_t *answer(const char *path, const char *content)
{
	struct refusal r = { .code = REFUSAL_POLICY_DENIED, .reason = STR("no rule of this sandbox's policy allows it"), .request_id = STR("abc") };
	struct arena a = { 0 };
	struct buf out = { 0 };
	const char *body;
	json_error_t e;
	json_t *o;

	rpc_shape(&a, str_of(path), str_of(content), &r);
	refusal_write_h1(&out, &r);
	buf_addc(&out, 0);
	assert_non_null(strstr((char *)buf_data(&out), "HTTP/1.1 403 sallyport policy_denied\r\n"));
	assert_non_null(strstr((char *)buf_data(&out), "Content-Type: application/json\r\n"));
	body = strstr((char *)buf_data(&out), "\r\n\r\n") + 4;
	o = json_loads(body, JSON_REJECT_DUPLICATES, &e);
	if (o == NULL)
		print_error("%s: %s\n", e.text, body);
	assert_non_null(o);
	buf_fini(&out);
	arena_fini(&a);
	return o;
}

static void is_plain(const char *path, const char *content)
{
	json_t *o = answer(path, content);

	assert_string_equal(json_string_value(json_object_get(o, "error")), "policy_denied");
	json_decref(o);
}

static void is_call(const json_t *o, const json_t *id)
{
	const json_t *e = json_object_get(o, "error");

	assert_string_equal(json_string_value(json_object_get(o, "jsonrpc")), "2.0");
	assert_true(json_equal(json_object_get(o, "id"), id));
	assert_int_equal(json_integer_value(json_object_get(e, "code")), -32001);
	assert_string_equal(json_string_value(json_object_get(e, "message")), "sallyport policy_denied: no rule of this sandbox's policy allows it");
	assert_string_equal(json_string_value(json_object_get(json_object_get(e, "data"), "error")), "policy_denied");
}

static void test_calls(void **state)
{
	static const struct {
		const char *content, *id;
	} rows[] = {
		{ "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/call\"}", "7" },
		{ "{\"jsonrpc\":\"2.0\",\"id\":\"a\\\"b\\u0001c\",\"method\":\"x\"}", "\"a\\\"b\\u0001c\"" },
		{ " {\"id\":null,\"method\":\"x\",\"jsonrpc\":\"2.0\"} ", "null" },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1.5,\"query\":\"{a}\"}", "1.5" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		json_t *o = answer("/mcp", rows[i].content), *id = json_loads(rows[i].id, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);

		is_call(o, id);
		json_decref(id);
		json_decref(o);
	}
}

static void test_batch(void **state)
{
	json_t *o = answer("/", "[{\"jsonrpc\":\"2.0\",\"id\":1},{\"jsonrpc\":\"2.0\",\"method\":\"notice\"},3,{\"jsonrpc\":\"2.0\",\"id\":\"z\"}]"), *id;

	(void)state;
	assert_int_equal(json_array_size(o), 2);
	id = json_integer(1);
	is_call(json_array_get(o, 0), id);
	json_decref(id);
	id = json_string("z");
	is_call(json_array_get(o, 1), id);
	json_decref(id);
	json_decref(o);
}

static void test_graphql(void **state)
{
	json_t *o = answer("/api/graphql", "{\"query\":\"mutation { deleteAll }\",\"variables\":{}}"), *e = json_array_get(json_object_get(o, "errors"), 0);

	(void)state;
	assert_true(json_is_null(json_object_get(o, "data")));
	assert_string_equal(json_string_value(json_object_get(json_object_get(e, "extensions"), "error")), "policy_denied");
	assert_non_null(json_string_value(json_object_get(e, "message")));
	json_decref(o);
}

static void test_neither(void **state)
{
	(void)state;
	is_plain("/", "");
	is_plain("/", "{");
	is_plain("/", "{\"jsonrpc\":\"2.0\",\"method\":\"notice\"}");
	is_plain("/", "{\"jsonrpc\":\"1.0\",\"id\":1}");
	is_plain("/", "{\"jsonrpc\":\"2.0\",\"id\":{}}");
	is_plain("/", "{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2}");
	is_plain("/v1/chat", "{\"query\":\"x\"}");
	is_plain("/graphql", "{\"query\":3}");
	is_plain("/", "[]");
	is_plain("/", "\"jsonrpc\"");
}

static bool expected(const char *head)
{
	struct arena a = { 0 };
	struct http_request r;
	struct http_fault f;
	bool yes;

	assert_true(h1_parse_request((const uint8_t *)head, strlen(head), &h1_limits_default, &a, &r, &f));
	yes = rpc_expected(&r);
	arena_fini(&a);
	return yes;
}

static void test_expected(void **state)
{
	(void)state;
	assert_true(expected("POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: 3\r\n\r\n"));
	assert_true(expected("POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"));
	assert_false(expected("POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 65537\r\n\r\n"));
	assert_false(expected("POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 0\r\n\r\n"));
	assert_false(expected("POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n"));
	assert_false(expected("POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\n"));
	assert_false(expected("POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/jsonx\r\nContent-Length: 3\r\n\r\n"));
	assert_false(expected("PUT / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 3\r\n\r\n"));
	assert_false(expected("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
}

static struct http_request req;

static void ask(const char *method, const char *query, const char *type, const char *version)
{
	memset(&req, 0, sizeof(req));
	req.method = str_of(method);
	req.query = str_of(query);
	if (type != NULL)
		http_fields_add(&req.fields, STR("Content-Type"), str_of(type), HF_CONTENT_TYPE);
	if (version != NULL)
		http_fields_add(&req.fields, STR("connect-protocol-version"), str_of(version), HF_OTHER);
	req.framing = HTTP_BODY_CHUNKED;
}

static void test_connect(void **state)
{
	struct refusal r = { 0 };
	struct http_response head;
	struct arena a = { 0 };
	struct buf body = { 0 };
	json_error_t e;
	json_t *o;
	uint8_t *p;

	(void)state;
	ask("POST", NULL, "application/json", "1");
	assert_true(rpc_connect(&req, &r) && r.content_type.n == 0);
	assert_false(rpc_expected(&req)); /* its answer needs nothing of the content */
	ask("POST", NULL, "application/proto", "1");
	assert_true(rpc_connect(&req, &r));
	ask("POST", NULL, "application/json", "2");
	assert_false(rpc_connect(&req, &r));
	ask("POST", NULL, "application/json; charset=utf-8", NULL);
	assert_false(rpc_connect(&req, &r));
	assert_true(rpc_expected(&req));
	ask("GET", "encoding=json&connect=v1&message=%7B%7D", NULL, NULL);
	assert_true(rpc_connect(&req, &r));
	ask("GET", "xconnect=v1", NULL, "1");
	assert_false(rpc_connect(&req, &r));
	ask("PUT", NULL, "application/connect+json", "1");
	assert_false(rpc_connect(&req, &r));
	ask("POST", NULL, "application/connect+proto; x=y", NULL);
	assert_true(rpc_connect(&req, &r));
	assert_true(str_eq(r.content_type, STR("application/connect+proto")));

	r = (struct refusal){ .code = REFUSAL_POLICY_DENIED, .reason = STR("no \"rule\""), .shape = REFUSAL_CONNECT };
	refusal_answer(&r, &a, &head, &body);
	assert_int_equal(head.status, 403);
	o = json_loadb((char *)buf_data(&body), buf_len(&body), 0, &e);
	assert_string_equal(json_string_value(json_object_get(o, "code")), "permission_denied");
	assert_string_equal(json_string_value(json_object_get(o, "message")), "sallyport policy_denied: no \"rule\"");
	assert_string_equal(json_string_value(json_object_get(json_object_get(o, "sallyport"), "error")), "policy_denied");
	json_decref(o);
	buf_clear(&body);
	r.code = REFUSAL_UPSTREAM_TIMEOUT;
	r.shape = REFUSAL_CONNECT_STREAM;
	r.content_type = STR("application/connect+json");
	refusal_answer(&r, &a, &head, &body);
	assert_int_equal(head.status, 200);
	assert_true(str_eq(http_fields_find(&head.fields, HF_CONTENT_TYPE)->value, STR("application/connect+json")));
	p = buf_data(&body);
	assert_int_equal(p[0], 2);
	assert_int_equal((size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4], buf_len(&body) - 5);
	o = json_loadb((char *)p + 5, buf_len(&body) - 5, 0, &e);
	assert_string_equal(json_string_value(json_object_get(json_object_get(o, "error"), "code")), "unavailable");
	json_decref(o);
	buf_fini(&body);
	arena_fini(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_calls), cmocka_unit_test(test_batch), cmocka_unit_test(test_graphql), cmocka_unit_test(test_neither), cmocka_unit_test(test_expected), cmocka_unit_test(test_connect) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
