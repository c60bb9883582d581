/* SPDX-License-Identifier: Apache-2.0 */
/* Fields: look-up, hop-by-hop removal, spellings (B01-B09). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "proxy/http/head.h"

static struct http_request req;
static struct http_response res;
static struct http_fault fault;

static void add(struct http_fields *fs, const char *name, const char *value)
{
	assert_true(http_fields_add(fs, str_of(name), str_of(value), http_fid_of(str_of(name))));
}

static bool dropped(struct http_fields *fs, const char *name)
{
	for (unsigned i = 0; i < fs->n; i++)
		if (str_eq(fs->f[i].name, str_of(name)))
			return fs->f[i].drop;
	fail_msg("no field %s", name);
	return false;
}

static const struct {
	const char *name;
	enum http_fid fid;
} known[] = {
	{ "Host", HF_HOST }, { "Content-Length", HF_CONTENT_LENGTH }, { "Transfer-Encoding", HF_TRANSFER_ENCODING }, { "Connection", HF_CONNECTION }, { "Keep-Alive", HF_KEEP_ALIVE },
	{ "Proxy-Connection", HF_PROXY_CONNECTION }, { "Proxy-Authorization", HF_PROXY_AUTHORIZATION }, { "Proxy-Authenticate", HF_PROXY_AUTHENTICATE }, { "TE", HF_TE },
	{ "Trailer", HF_TRAILER }, { "Upgrade", HF_UPGRADE }, { "Expect", HF_EXPECT }, { "Authorization", HF_AUTHORIZATION }, { "Cookie", HF_COOKIE },
	{ "Accept-Encoding", HF_ACCEPT_ENCODING }, { "Range", HF_RANGE }, { "Request-Range", HF_RANGE }, { "If-Range", HF_IF_RANGE }, { "User-Agent", HF_USER_AGENT }, { "Content-Type", HF_CONTENT_TYPE },
	{ "Content-Encoding", HF_CONTENT_ENCODING }, { "Alt-Svc", HF_ALT_SVC }, { "Max-Forwards", HF_MAX_FORWARDS }, { "Via", HF_VIA }, { "HTTP2-Settings", HF_HTTP2_SETTINGS },
	{ "Early-Data", HF_EARLY_DATA }, { "Forwarded", HF_FORWARDING }, { "X-Forwarded-For", HF_FORWARDING }, { "X-Forwarded-Host", HF_FORWARDING },
	{ "X-Forwarded-Proto", HF_FORWARDING }, { "X-Forwarded-Prefix", HF_FORWARDING }, { "X-Forwarded-Anything", HF_FORWARDING }, { "X-Original-URL", HF_FORWARDING },
	{ "X-Rewrite-URL", HF_FORWARDING }, { "X-HTTP-Method-Override", HF_METHOD_OVERRIDE }, { "X-Method-Override", HF_METHOD_OVERRIDE }, { "X-HTTP-Method", HF_METHOD_OVERRIDE },
};
#define KNOWN_N (sizeof(known) / sizeof(known[0]))

static void fid(void **state)
{
	char t[64];

	(void)state;
	for (size_t i = 0; i < KNOWN_N; i++) {
		size_t n = strlen(known[i].name);

		assert_int_equal(http_fid_of(str_of(known[i].name)), known[i].fid);
		for (int upper = 0; upper < 2; upper++) {
			for (size_t k = 0; k <= n; k++)
				t[k] = upper && known[i].name[k] >= 'a' && known[i].name[k] <= 'z' ? (char)(known[i].name[k] - 32) : ascii_lower(known[i].name[k]);
			assert_int_equal(http_fid_of(str_of(t)), known[i].fid);
		}
		/* neighbours are others */
		snprintf(t, sizeof(t), "%s", known[i].name);
		for (size_t k = 0; k < n; k++) {
			char was = t[k];

			t[k] = '~';
			if (known[i].fid != HF_FORWARDING || k < 12)
				assert_int_equal(http_fid_of(str_mk(t, n)), HF_OTHER);
			t[k] = was;
		}
		if (known[i].fid != HF_FORWARDING)
			assert_int_equal(http_fid_of(str_mk(t, n - 1)), HF_OTHER);
	}
	assert_int_equal(http_fid_of(STR("")), HF_OTHER);
	assert_int_equal(http_fid_of(STR("X-Forwarded-")), HF_OTHER);
	assert_int_equal(http_fid_of(STR("X-Custom")), HF_OTHER);
	assert_int_equal(http_fid_of(STR("\xc8ost")), HF_OTHER);
}

static void B09_alias(void **state)
{
	char t[64];

	(void)state;
	for (size_t i = 0; i < KNOWN_N; i++) {
		bool dash = false;

		for (size_t k = 0; k <= strlen(known[i].name); k++) {
			dash = dash || known[i].name[k] == '-';
			t[k] = known[i].name[k] == '-' ? '_' : known[i].name[k];
		}
		assert_int_equal(http_fid_alias(str_of(t)), dash ? known[i].fid : HF_OTHER);
		assert_int_equal(http_fid_alias(str_of(known[i].name)), HF_OTHER);
	}
	memset(t, '_', sizeof(t));
	assert_int_equal(http_fid_alias(str_mk(t, sizeof(t))), HF_OTHER);
	assert_int_equal(http_fid_alias(STR("")), HF_OTHER);
	/* every spelling of a credential goes when it is replaced */
	memset(&req, 0, sizeof(req));
	add(&req.fields, "X-Api-Key", "1");
	add(&req.fields, "x_api_key", "2");
	add(&req.fields, "X_API-KEY", "3");
	add(&req.fields, "X-Api-Key2", "4");
	add(&req.fields, "X-Api-Ke", "5");
	http_fields_drop_like(&req.fields, STR("X-Api-Key"));
	assert_true(dropped(&req.fields, "X-Api-Key") && dropped(&req.fields, "x_api_key") && dropped(&req.fields, "X_API-KEY"));
	assert_false(dropped(&req.fields, "X-Api-Key2") || dropped(&req.fields, "X-Api-Ke"));
	assert_ptr_equal(http_fields_find_name(&req.fields, STR("x-api-key")), NULL);
}

static void find_and_add(void **state)
{
	(void)state;
	memset(&req, 0, sizeof(req));
	add(&req.fields, "A", "1");
	add(&req.fields, "User-Agent", "x");
	add(&req.fields, "user-agent", "y");
	assert_true(str_eq(http_fields_find(&req.fields, HF_USER_AGENT)->value, STR("x")));
	req.fields.f[1].drop = true;
	assert_true(str_eq(http_fields_find(&req.fields, HF_USER_AGENT)->value, STR("y")));
	assert_true(str_eq(http_fields_find_name(&req.fields, STR("USER-AGENT"))->value, STR("y")));
	assert_ptr_equal(http_fields_find(&req.fields, HF_COOKIE), NULL);
	while (req.fields.n < HTTP_FIELDS_MAX)
		add(&req.fields, "B", "1");
	assert_false(http_fields_add(&req.fields, STR("C"), STR("1"), HF_OTHER));
	assert_int_equal(req.fields.n, HTTP_FIELDS_MAX);
}

static void B03_B06_B07_request_strip(void **state)
{
	static const char *const gone[] = { "Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authorization", "Proxy-Authenticate", "TE", "Trailer", "Upgrade", "Transfer-Encoding", "Content-Length",
		"HTTP2-Settings", "Early-Data", "Host", "Expect", "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Prefix", "X-Original-URL", "X-Rewrite-URL",
		"X-HTTP-Method-Override", "X-Method-Override", "X-HTTP-Method" };
	/* B13: these pass untouched */
	static const char *const stays[] = { "Date", "If-None-Match", "Cache-Control", "Authorization", "Cookie", "Accept-Encoding", "Range", "User-Agent", "Content-Type", "Max-Forwards", "Via", "Accept",
		"Alt-Svc", "X-Custom" };

	(void)state;
	memset(&req, 0, sizeof(req));
	for (size_t i = 0; i < sizeof(gone) / sizeof(gone[0]); i++)
		add(&req.fields, gone[i], "x");
	for (size_t i = 0; i < sizeof(stays) / sizeof(stays[0]); i++)
		add(&req.fields, stays[i], "x");
	assert_true(http_request_strip(&req, &fault));
	for (size_t i = 0; i < sizeof(gone) / sizeof(gone[0]); i++)
		if (!dropped(&req.fields, gone[i]))
			fail_msg("%s is passed on", gone[i]);
	for (size_t i = 0; i < sizeof(stays) / sizeof(stays[0]); i++)
		if (dropped(&req.fields, stays[i]))
			fail_msg("%s is not passed on", stays[i]);
}

static void B01_connection_nominates(void **state)
{
	static const char *const bad[] = { "close, authorization", "Host", "content-length", "x, TRANSFER-ENCODING", "cookie,close", "close, authorization, host, content-length, x-api-key, cookie" };

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		memset(&req, 0, sizeof(req));
		fault = (struct http_fault){ 0 };
		add(&req.fields, "Connection", bad[i]);
		assert_false(http_request_strip(&req, &fault));
		assert_int_equal(fault.status, 400);
		assert_string_equal(fault.reason, "connection_nominates");
	}
	/* B02: what is nominated goes, before and behind, every instance, also beside an upgrade */
	memset(&req, 0, sizeof(req));
	add(&req.fields, "X-Internal", "1");
	add(&req.fields, "Connection", "Upgrade ,\t, x-internal");
	add(&req.fields, "x-internal", "2");
	add(&req.fields, "X-Internal2", "3");
	assert_true(http_request_strip(&req, &fault));
	assert_true(dropped(&req.fields, "X-Internal") && dropped(&req.fields, "x-internal"));
	assert_false(dropped(&req.fields, "X-Internal2"));
	/* what is added afterwards (an injected credential) is not touched */
	add(&req.fields, "x-internal3", "secret");
	assert_false(dropped(&req.fields, "x-internal3"));
}

static void K07_response_strip(void **state)
{
	(void)state;
	memset(&res, 0, sizeof(res));
	add(&res.fields, "Alt-Svc", "h3=\":443\"");
	add(&res.fields, "Strict-Transport-Security", "x");
	add(&res.fields, "Connection", "x-hop, content-type, content-length, transfer-encoding");
	add(&res.fields, "X-Hop", "x");
	add(&res.fields, "Content-Type", "x");
	add(&res.fields, "Content-Length", "5");
	add(&res.fields, "Transfer-Encoding", "chunked");
	add(&res.fields, "Keep-Alive", "5");
	add(&res.fields, "Proxy-Authenticate", "x");
	add(&res.fields, "Upgrade", "h2");
	add(&res.fields, "Set-Cookie", "a=b");
	add(&res.fields, "Expect", "x");
	http_response_strip(&res);
	assert_true(dropped(&res.fields, "Alt-Svc") && dropped(&res.fields, "X-Hop") && dropped(&res.fields, "Keep-Alive") && dropped(&res.fields, "Proxy-Authenticate"));
	assert_true(dropped(&res.fields, "Upgrade") && dropped(&res.fields, "Content-Length") && dropped(&res.fields, "Transfer-Encoding"));
	assert_false(dropped(&res.fields, "Strict-Transport-Security") || dropped(&res.fields, "Set-Cookie"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fid), cmocka_unit_test(B09_alias), cmocka_unit_test(find_and_add), cmocka_unit_test(B03_B06_B07_request_strip),
		cmocka_unit_test(B01_connection_nominates), cmocka_unit_test(K07_response_strip),
	};

	return cmocka_run_group_tests_name("head", tests, NULL, NULL);
}
