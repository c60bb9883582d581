/* SPDX-License-Identifier: Apache-2.0 */
/* Record fields to JSON: the keys that others rely on, and what no sender can bring about. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>
#include <jansson.h>

#include "proxy/audit/chain.h"
#include "proxy/audit/reader.h"

static const uint8_t key[CHAIN_KEY_LEN] = "0123456789abcdef0123456789abcde";

static json_t *format(const struct buf *fields, struct record_context c, struct buf *line)
{
	struct chain *chain = chain_new(key);
	char hash[CHAIN_HEX];
	json_error_t e;
	json_t *o;

	c.uid = "u-1";
	c.now_ms = 1700000000500;
	c.sequence = 42;
	record_format(line, &c, buf_data(fields), buf_len(fields), chain_zero);
	chain_hash(chain, buf_str(line), chain_zero, hash);
	record_close(line, hash);
	chain_free(chain);
	o = json_loadb((const char *)buf_data(line), buf_len(line), JSON_REJECT_DUPLICATES, &e);
	if (o == NULL)
		fail_msg("%s: %.*s", e.text, (int)buf_len(line), (const char *)buf_data(line));
	return o;
}

/* "a.b.c" */
static json_t *at(json_t *o, const char *path)
{
	char part[64];

	while (*path) {
		size_t n = strcspn(path, ".");

		snprintf(part, sizeof(part), "%.*s", (int)n, path);
		o = json_is_array(o) ? json_array_get(o, (size_t)atoi(part)) : json_object_get(o, part);
		path += n + (path[n] == '.');
	}
	return o;
}

static void text_is(json_t *o, const char *path, const char *want)
{
	if (want == NULL) {
		assert_null(at(o, path));
		return;
	}
	if (at(o, path) == NULL)
		fail_msg("there is no %s", path);
	assert_string_equal(json_string_value(at(o, path)), want);
}

static void number_is(json_t *o, const char *path, json_int_t want)
{
	if (!json_is_integer(at(o, path)))
		fail_msg("there is no number %s", path);
	assert_int_equal(json_integer_value(at(o, path)), want);
}

static void request(struct buf *b, const char *method, const char *decision)
{
	buf_clear(b);
	record_s(b, REC_KIND, STR("request"));
	record_s(b, REC_DECISION, str_of(decision));
	record_s(b, REC_REQUEST_ID, STR("0011223344556677"));
	record_u(b, REC_TIME_MS, 1700000000000);
	record_s(b, REC_METHOD, str_of(method));
}

static void every_key_of_a_request(void **state)
{
	struct buf b = { 0 }, line = { 0 };
	json_t *o;

	(void)state;
	request(&b, "GET", "allow");
	record_u(&b, REC_DURATION_MS, 12);
	record_s(&b, REC_SCHEME, STR("https"));
	record_s(&b, REC_HOST, STR("api.example"));
	record_u(&b, REC_PORT, 443);
	record_s(&b, REC_PATH, STR("/v1/x"));
	record_s(&b, REC_QUERY, STR("a=*"));
	record_u(&b, REC_STATUS, 200);
	record_s(&b, REC_CLIENT_PROTOCOL, STR("HTTP/1.1"));
	record_s(&b, REC_UPSTREAM_PROTOCOL, STR("HTTP/1.1"));
	record_s(&b, REC_UPSTREAM_IP, STR("192.0.2.1"));
	record_s(&b, REC_RULE, STR("api.example:allow:GET /v1/**"));
	record_s(&b, REC_SOURCE, STR("agent.yaml:12"));
	record_s(&b, REC_POLICY_NAME, STR("agent"));
	record_s(&b, REC_POLICY_DIGEST, STR("abcd"));
	record_u(&b, REC_POLICY_GENERATION, 3);
	record_s(&b, REC_SECRET, STR("one"));
	record_s(&b, REC_SECRET, STR("two"));
	record_u(&b, REC_BYTES_IN, 5);
	record_u(&b, REC_BYTES_OUT, 6);
	record_s(&b, REC_TLS_VERSION, STR("TLSv1.3"));
	record_s(&b, REC_TLS_CIPHER, STR("TLS_AES_128_GCM_SHA256"));
	record_s(&b, REC_SNI, STR("api.example"));
	record_s(&b, REC_CERT_ISSUER, STR("CN=x"));
	record_s(&b, REC_CERT_SHA256, STR("ff"));
	record_u(&b, REC_CERT_EXPIRES_MS, 1234);
	record_s(&b, REC_UPSTREAM_TLS, STR("TLSv1.2"));
	record_s(&b, REC_STAPLE, STR("good"));
	record_u(&b, REC_RESUMED, 1);
	record_s(&b, REC_IDENTITY, STR("listener"));
	record_u(&b, REC_T_DNS_US, 1);
	record_u(&b, REC_T_CONNECT_US, 2);
	record_u(&b, REC_T_TLS_US, 3);
	record_u(&b, REC_T_SECRET_US, 4);
	record_u(&b, REC_T_FIRST_BYTE_US, 5);
	record_u(&b, REC_SCRUBBED, 1);
	record_u(&b, REC_BOUNDARY, 1);
	record_u(&b, REC_OBSERVED, 1);
	record_u(&b, REC_ACTOR_PID, 99);
	record_s(&b, REC_ACTOR_NAME, STR("curl"));
	record_s(&b, REC_ACTOR_PATH, STR("/usr/bin/curl"));
	o = format(&b, (struct record_context){ .sandbox = STR("box") }, &line);
	number_is(o, "class_uid", 4002);
	number_is(o, "category_uid", 4);
	number_is(o, "activity_id", 3);
	number_is(o, "type_uid", 400203);
	number_is(o, "time", 1700000000000);
	number_is(o, "severity_id", 1);
	number_is(o, "status_id", 1);
	number_is(o, "action_id", 1);
	number_is(o, "disposition_id", 1);
	text_is(o, "metadata.version", "1.3.0");
	text_is(o, "metadata.product.name", "Sallyport");
	text_is(o, "metadata.uid", "u-1");
	number_is(o, "metadata.sequence", 42);
	text_is(o, "http_request.http_method", "GET");
	text_is(o, "http_request.version", "1.1");
	text_is(o, "http_request.uid", "0011223344556677");
	text_is(o, "http_request.url.scheme", "https");
	text_is(o, "http_request.url.hostname", "api.example");
	number_is(o, "http_request.url.port", 443);
	text_is(o, "http_request.url.path", "/v1/x");
	text_is(o, "http_request.url.query_string", "a=*");
	number_is(o, "http_response.code", 200);
	text_is(o, "src_endpoint.name", "box");
	text_is(o, "dst_endpoint.hostname", "api.example");
	text_is(o, "dst_endpoint.ip", "192.0.2.1");
	number_is(o, "dst_endpoint.port", 443);
	number_is(o, "actor.process.pid", 99);
	text_is(o, "actor.process.name", "curl");
	text_is(o, "actor.process.file.path", "/usr/bin/curl");
	text_is(o, "firewall_rule.uid", "api.example:allow:GET /v1/**");
	text_is(o, "firewall_rule.name", "api.example:allow:GET /v1/**");
	text_is(o, "tls.version", "TLSv1.3");
	text_is(o, "tls.cipher", "TLS_AES_128_GCM_SHA256");
	text_is(o, "tls.sni", "api.example");
	text_is(o, "tls.certificate.issuer", "CN=x");
	text_is(o, "tls.certificate.fingerprints.0.value", "ff");
	number_is(o, "traffic.bytes_in", 5);
	number_is(o, "traffic.bytes_out", 6);
	number_is(o, "duration", 12);
	text_is(o, "unmapped.sallyport.kind", "request");
	text_is(o, "unmapped.sallyport.decision", "allow");
	text_is(o, "unmapped.sallyport.code", NULL);
	text_is(o, "unmapped.sallyport.source", "agent.yaml:12");
	text_is(o, "unmapped.sallyport.policy.name", "agent");
	text_is(o, "unmapped.sallyport.policy.digest", "abcd");
	number_is(o, "unmapped.sallyport.policy.generation", 3);
	text_is(o, "unmapped.sallyport.secrets.0", "one");
	text_is(o, "unmapped.sallyport.secrets.1", "two");
	number_is(o, "unmapped.sallyport.timing.dns_us", 1);
	number_is(o, "unmapped.sallyport.timing.first_byte_us", 5);
	text_is(o, "unmapped.sallyport.client_protocol", "HTTP/1.1");
	text_is(o, "unmapped.sallyport.upstream_protocol", "HTTP/1.1");
	text_is(o, "unmapped.sallyport.identity", "listener");
	number_is(o, "unmapped.sallyport.scrubbed", 1);
	text_is(o, "unmapped.sallyport.chain.prev", chain_zero);
	assert_int_equal(strlen(json_string_value(at(o, "unmapped.sallyport.chain.hash"))), CHAIN_HEX);
	json_decref(o);
	buf_fini(&b);
	buf_fini(&line);
}

static void methods_and_verdicts(void **state)
{
	static const struct {
		const char *method;
		int activity;
	} rows[] = { { "CONNECT", 1 }, { "DELETE", 2 }, { "GET", 3 }, { "HEAD", 4 }, { "OPTIONS", 5 }, { "POST", 6 }, { "PUT", 7 }, { "TRACE", 8 }, { "PATCH", 99 }, { "get", 99 }, { "", 0 } };
	struct buf b = { 0 }, line = { 0 };
	json_t *o;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		request(&b, rows[i].method, "deny");
		record_s(&b, REC_CODE, STR("policy_denied"));
		buf_clear(&line);
		o = format(&b, (struct record_context){ .sandbox = STR("box") }, &line);
		number_is(o, "activity_id", rows[i].activity);
		number_is(o, "type_uid", 400200 + rows[i].activity);
		number_is(o, "action_id", 2);
		number_is(o, "disposition_id", 2);
		number_is(o, "status_id", 2);
		text_is(o, "unmapped.sallyport.code", "policy_denied");
		text_is(o, "http_request.http_method", rows[i].method[0] ? rows[i].method : NULL);
		json_decref(o);
	}
	/* what does not say that it was allowed was not */
	request(&b, "GET", "");
	buf_clear(&line);
	o = format(&b, (struct record_context){ .sandbox = STR("box") }, &line);
	number_is(o, "action_id", 2);
	json_decref(o);
	request(&b, "GET", "observe");
	buf_clear(&line);
	o = format(&b, (struct record_context){ .sandbox = STR("box") }, &line);
	number_is(o, "action_id", 1);
	text_is(o, "unmapped.sallyport.decision", "observe");
	json_decref(o);
	buf_fini(&b);
	buf_fini(&line);
}

static void who_may_say_what(void **state)
{
	static const struct {
		const char *kind;
		int class_uid;
		bool worker, secrets, supervisor;
	} rows[] = { { "request", 4002, 1, 0, 0 }, { "connection", 4001, 1, 0, 0 }, { "dns", 4003, 1, 0, 0 }, { "lifecycle", 6002, 0, 0, 1 }, { "secret", 2004, 0, 1, 0 },
		{ "finding", 2004, 1, 1, 1 }, { "admin", 6002, 0, 0, 1 }, { "checkpoint", 6002, 0, 0, 0 }, { "nonsense", 0, 0, 0, 0 } };
	struct buf b = { 0 }, line = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		for (int origin = ORIGIN_WORKER; origin <= ORIGIN_SUPERVISOR; origin++) {
			bool may = origin == ORIGIN_WORKER ? rows[i].worker : origin == ORIGIN_SECRETS ? rows[i].secrets : rows[i].supervisor;
			json_t *o;

			buf_clear(&b);
			buf_clear(&line);
			record_s(&b, REC_KIND, str_of(rows[i].kind));
			record_s(&b, REC_SANDBOX, STR("named"));
			o = format(&b, (struct record_context){ .sandbox = STR("linked"), .origin = (enum record_origin)origin }, &line);
			number_is(o, "class_uid", may ? rows[i].class_uid : 2004);
			text_is(o, "unmapped.sallyport.kind", may ? rows[i].kind : "finding");
			text_is(o, "unmapped.sallyport.code", may ? NULL : "bad_record");
			text_is(o, "src_endpoint.name", origin == ORIGIN_WORKER ? "linked" : "named");
			json_decref(o);
		}
	}
	buf_fini(&b);
	buf_fini(&line);
}

/* Text cannot break the line, the JSON, a terminal, or stand for one of our keys; the first of two fields counts. */
static void hostile_text(void **state)
{
	static const char evil[] = "\",\"chain\":{\"prev\":\"x\n\r\t\x1b[2J\xc2\x9b\xff\xfe\xed\xa0\x80\",\"sequence\":9,\"hash\":\"";
	struct buf b = { 0 }, line = { 0 }, shown = { 0 };
	struct view_filter all = { 0 };
	struct chain *chain = chain_new(key);
	struct chain_link k;
	json_t *o;

	(void)state;
	request(&b, evil, "deny");
	record_s(&b, REC_DECISION, STR("allow")); /* too late */
	record_s(&b, REC_PATH, str_mk(evil, sizeof(evil) - 1));
	record_s(&b, REC_HOST, str_mk(evil, sizeof(evil) - 1));
	record_s(&b, REC_MESSAGE, STR("\xe2\x80\xae\xe2\x81\xa6""abc"));
	record_u(&b, REC_STATUS, UINT64_MAX);
	buf_addz(&b, "\x01\xff\xff"); /* a field longer than what is there */
	o = format(&b, (struct record_context){ .sandbox = STR("box") }, &line);
	number_is(o, "action_id", 2);
	assert_true(json_is_true(at(o, "unmapped.sallyport.malformed")));
	number_is(o, "metadata.sequence", 42);
	json_decref(o);
	for (size_t i = 0; i + 1 < buf_len(&line); i++)
		assert_true(buf_data(&line)[i] >= 0x20 && buf_data(&line)[i] != 0x7f);
	assert_true(chain_parse(str_mk(buf_data(&line), buf_len(&line) - 1), &k));
	assert_int_equal(k.sequence, 42);
	assert_null(chain_check(chain, &k));
	assert_true(view_line(str_mk(buf_data(&line), buf_len(&line) - 1), &all, &shown));
	for (size_t i = 0; i + 1 < buf_len(&shown); i++)
		assert_true(buf_data(&shown)[i] >= 0x20 && buf_data(&shown)[i] != 0x7f);
	assert_true(str_find(buf_str(&shown), STR("\xc2\x9b")) < 0 && str_find(buf_str(&shown), STR("\xe2\x80\xae")) < 0);
	chain_free(chain);
	buf_fini(&b);
	buf_fini(&line);
	buf_fini(&shown);
}

static void a_lost_worker(void **state)
{
	struct buf b = { 0 }, line = { 0 };
	json_t *o;

	(void)state;
	request(&b, "POST", "");
	o = format(&b, (struct record_context){ .sandbox = STR("box"), .worker_lost = true }, &line);
	text_is(o, "unmapped.sallyport.code", "worker_lost");
	number_is(o, "status_id", 2);
	number_is(o, "action_id", 1);
	number_is(o, "duration", 500);
	text_is(o, "http_request.uid", "0011223344556677");
	json_decref(o);
	/* nothing readable stood in the slot */
	buf_clear(&b);
	buf_clear(&line);
	buf_addz(&b, "\xff\xff\xff");
	o = format(&b, (struct record_context){ .sandbox = STR("box"), .worker_lost = true }, &line);
	text_is(o, "unmapped.sallyport.kind", "request");
	text_is(o, "unmapped.sallyport.code", "worker_lost");
	json_decref(o);
	buf_fini(&b);
	buf_fini(&line);
}

static void filters(void **state)
{
	struct buf b = { 0 }, line = { 0 }, out = { 0 };
	const struct view_filter rows[] = { { .sandbox = "box" }, { .host = "API.example" }, { .since_ms = 1699999999999 }, { .json = true }, { .sandbox = "bo" }, { .host = "pi.example" }, { .denied = true }, { .since_ms = 1700000000001 } };
	json_t *o;

	(void)state;
	request(&b, "GET", "allow");
	record_s(&b, REC_HOST, STR("api.example"));
	o = format(&b, (struct record_context){ .sandbox = STR("box") }, &line);
	json_decref(o);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		buf_clear(&out);
		assert_true(view_line(str_mk(buf_data(&line), buf_len(&line) - 1), &rows[i], &out));
		assert_int_equal(buf_len(&out) > 0, i < 4);
	}
	assert_false(view_line(STR("[1]"), &rows[0], &out));
	assert_false(view_line(STR("{"), &rows[0], &out));
	buf_fini(&b);
	buf_fini(&line);
	buf_fini(&out);
}

/* Every field of its own text or number; but one, `other`, has another. seed: of them all. */
static void all_fields(struct buf *b, const char *seed, enum record_tag other)
{
#define S 0
#define M 0
#define L 0
#define U 1
#define IS_NUMBER(id, type) type,
	static const int number[REC_TAG_COUNT] = { 0, RECORD_TAGS(IS_NUMBER) };
#undef S
#undef M
#undef L
#undef U
	char text[64];

	for (int t = 1; t < REC_TAG_COUNT; t++) {
		snprintf(text, sizeof(text), "%s-%d%s", seed, t, t == (int)other ? "-" : "");
		if (t == REC_KIND)
			record_s(b, REC_KIND, STR("request"));
		else if (number[t])
			record_u(b, (enum record_tag)t, (uint64_t)t * 7 + strlen(seed) + (t == (int)other));
		else
			record_s(b, (enum record_tag)t, str_of(text));
	}
}

static void speed(void **state)
{
	struct buf b = { 0 }, line = { 0 };
	struct chain *chain = chain_new(key);
	struct record_context c = { .sandbox = STR("box"), .now_ms = 1, .sequence = 1, .uid = "u" };
	struct timespec t0, t1;
	char hash[CHAIN_HEX];
	int n = 20000;

	(void)state;
	request(&b, "GET", "allow");
	record_s(&b, REC_HOST, STR("api.example"));
	record_s(&b, REC_PATH, STR("/repos/acme/widget/issues"));
	record_s(&b, REC_RULE, STR("api.example:allow:GET /repos/**"));
	record_s(&b, REC_POLICY_DIGEST, STR("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"));
	record_u(&b, REC_BYTES_IN, 5);
	record_u(&b, REC_BYTES_OUT, 60000);
	all_fields(&b, "field", REC_NONE); /* the first of each counts */
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t0);
	for (int i = 0; i < n; i++) {
		buf_clear(&line);
		record_format(&line, &c, buf_data(&b), buf_len(&b), chain_zero);
		chain_hash(chain, buf_str(&line), chain_zero, hash);
		record_close(&line, hash);
	}
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t1);
	print_message("a record of %zu octets costs %.2f us, chained\n", buf_len(&line), ((double)(t1.tv_sec - t0.tv_sec) * 1e9 + (double)(t1.tv_nsec - t0.tv_nsec)) / 1e3 / n);
	chain_free(chain);
	buf_fini(&b);
	buf_fini(&line);
}

static void line_of(struct buf *line, const char *seed, enum record_tag other)
{
	struct record_context c = { .origin = ORIGIN_WORKER, .sandbox = STR("box"), .uid = "u" };
	struct buf b = { 0 };

	buf_clear(line);
	all_fields(&b, seed, other);
	record_format(line, &c, buf_data(&b), buf_len(&b), chain_zero);
	buf_fini(&b);
}

/* Parts of a line are written as in the record before where their fields are the same: each of them counts. */
static void what_was_before_changes_nothing(void **state)
{
	struct buf again = { 0 }, fresh = { 0 };

	(void)state;
	for (int t = 1; t < REC_TAG_COUNT; t++) {
		line_of(&again, "a", REC_NONE);
		line_of(&again, "a", (enum record_tag)t);
		line_of(&fresh, "another", REC_NONE);
		line_of(&fresh, "a", (enum record_tag)t);
		if (!str_eq(buf_str(&again), buf_str(&fresh)))
			fail_msg("field %d: %.*s", t, (int)buf_len(&again), (const char *)buf_data(&again));
	}
	/* "ab" and "c" are not "a" and "bc" */
	for (int i = 0; i < 2; i++) {
		struct record_context c = { .origin = ORIGIN_WORKER, .uid = "u" };
		struct buf b = { 0 };

		request(&b, "GET", "allow");
		record_s(&b, REC_TLS_VERSION, i == 0 ? STR("ab") : STR("a"));
		record_s(&b, REC_TLS_CIPHER, i == 0 ? STR("c") : STR("bc"));
		buf_clear(&again);
		record_format(&again, &c, buf_data(&b), buf_len(&b), chain_zero);
		assert_true(str_find(buf_str(&again), i == 0 ? STR("\"version\":\"ab\",\"cipher\":\"c\"") : STR("\"version\":\"a\",\"cipher\":\"bc\"")) >= 0);
		buf_fini(&b);
	}
	buf_fini(&again);
	buf_fini(&fresh);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(every_key_of_a_request), cmocka_unit_test(methods_and_verdicts), cmocka_unit_test(who_may_say_what), cmocka_unit_test(hostile_text),
		cmocka_unit_test(a_lost_worker), cmocka_unit_test(filters), cmocka_unit_test(what_was_before_changes_nothing), cmocka_unit_test(speed) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
