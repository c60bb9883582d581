/* SPDX-License-Identifier: Apache-2.0 */
/* The examples that AWS publishes: its SigV4 test suite (service "service"), and those of the S3 API reference. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <openssl/hmac.h>

#include "../../common/base/must.h"
#include "../../common/base/utc.h"
#include "../../proxy/exchange/sigv4.h"
#include "../../proxy/secrets/awskey.h"

#define EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define SUITE_SECRET "AKIDEXAMPLE:wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
#define S3_SECRET "AKIAIOSFODNN7EXAMPLE:wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
#define T2015 1440938160u /* 20150830T123600Z */
#define T2013 1369353600u /* 20130524T000000Z */

struct vector {
	const char *what, *secret, *region, *service;
	uint64_t at;
	const char *method, *host, *target, *fields, *hash, *signed_fields, *signature;
};
/* fields: "Name:value\n" each; what the client signed is in an Authorization among them where more than the usual is covered */
static const struct vector vectors[] = {
	{ "get-vanilla", SUITE_SECRET, "us-east-1", "service", T2015, "GET", "example.amazonaws.com", "/", "", EMPTY, "host;x-amz-date", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31" },
	{ "post-vanilla", SUITE_SECRET, "us-east-1", "service", T2015, "POST", "example.amazonaws.com", "/", "", EMPTY, "host;x-amz-date", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b" },
	{ "get-vanilla-query-order-key-case", SUITE_SECRET, "us-east-1", "service", T2015, "GET", "example.amazonaws.com", "/?Param2=value2&Param1=value1", "", EMPTY, "host;x-amz-date",
		"b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500" },
	{ "get-object", S3_SECRET, "us-east-1", "s3", T2013, "GET", "examplebucket.s3.amazonaws.com", "/test.txt", "Range:bytes=0-9\nx-amz-content-sha256:" EMPTY "\nAuthorization:AWS4-HMAC-SHA256 Credential=x, SignedHeaders=host;range;x-amz-date, Signature=0\n",
		EMPTY, "host;range;x-amz-content-sha256;x-amz-date", "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41" },
	{ "put-object", S3_SECRET, "us-east-1", "s3", T2013, "PUT", "examplebucket.s3.amazonaws.com", "/test$file.text", "Date:Fri, 24 May 2013 00:00:00 GMT\nx-amz-storage-class:REDUCED_REDUNDANCY\n",
		"44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072", "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class", "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd" },
	{ "get-bucket-lifecycle", S3_SECRET, "us-east-1", "s3", T2013, "GET", "examplebucket.s3.amazonaws.com", "/?lifecycle", "", EMPTY, "host;x-amz-content-sha256;x-amz-date", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543" },
	{ "list-objects", S3_SECRET, "us-east-1", "s3", T2013, "GET", "examplebucket.s3.amazonaws.com", "/?max-keys=2&prefix=J", "", EMPTY, "host;x-amz-content-sha256;x-amz-date", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7" },
};

static void published(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
		const struct vector *v = &vectors[i];
		struct http_request *r = must_calloc(1, sizeof(*r));
		char released[AWSKEY_MAX], want[512], *fields = must_strdup(v->fields), *save = NULL;
		struct arena a = { 0 };
		struct sigv4_key k;
		const char *cause = NULL;
		struct http_field *f;

		assert_true(awskey_release(str_of(v->secret), v->at, str_of(v->region), str_of(v->service), released, &cause));
		assert_true(sigv4_key_read(str_of(released), &k));
		r->method = str_of(v->method);
		for (char *line = strtok_r(fields, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save)) {
			struct str name = str_mk(line, (size_t)(strchr(line, ':') - line));

			http_fields_add(&r->fields, name, str_of(strchr(line, ':') + 1), http_fid_of(name));
		}
		assert_true(sigv4_sign(&a, r, str_of(v->host), str_of(v->target), str_of(v->hash), &k, str_of(v->region), str_of(v->service), v->at));
		f = http_fields_find(&r->fields, HF_AUTHORIZATION);
		assert_non_null(f);
		snprintf(want, sizeof(want), "AWS4-HMAC-SHA256 Credential=%.*s/%.8s/%s/%s/aws4_request, SignedHeaders=%s, Signature=%s", (int)k.key_id.n, k.key_id.p, k.day.p, v->region, v->service, v->signed_fields, v->signature);
		if (!str_eq(f->value, str_of(want)))
			print_error("%s:\n%.*s\n%s\n", v->what, (int)f->value.n, f->value.p, want);
		assert_true(str_eq(f->value, str_of(want)));
		assert_true(f->secret);
		arena_fini(&a);
		free(fields);
		free(r);
	}
}

/* Against the C library, over leap years and the ends of months, years and centuries. */
static void dates(void **state)
{
	(void)state;
	for (uint64_t s = 0; s < 253402300800u; s += 86400u * 13 + 4711) {
		time_t t = (time_t)s;
		char want[32], got[UTC_BASIC_LEN + 1];
		struct tm tm;

		gmtime_r(&t, &tm);
		strftime(want, sizeof(want), "%Y%m%dT%H%M%SZ", &tm);
		utc_basic(s, got);
		assert_string_equal(got, want);
	}
}

/* The example of the key's derivation in AWS's general reference. */
static void derives(void **state)
{
	char released[AWSKEY_MAX];
	const char *cause = NULL;

	(void)state;
	assert_true(awskey_release(STR("AKIDEXAMPLE:wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"), 1329263999 + 1, STR("us-east-1"), STR("iam"), released, &cause)); /* 20120215 */
	assert_string_equal(released, "f4780e2d9f65fa895f9c67b32ce1baf0b0d8a43505a000a1a9e090d414db404d 20120215 AKIDEXAMPLE");
}

static void reads_credentials(void **state)
{
	static const struct {
		const char *text, *tail; /* NULL: refused */
	} t[] = {
		{ "AKIDEXAMPLE:secret/with+signs:FwoGZXIvYXdzEBY==", "AKIDEXAMPLE FwoGZXIvYXdzEBY==" },
		{ "{\"access_key\":\"AKIDEXAMPLE\",\"secret_key\":\"s\\/x\",\"security_token\":\"tok\"}", "AKIDEXAMPLE tok" },
		{ "{\"access_key\":\"AKIDEXAMPLE\",\"secret_key\":\"s\",\"security_token\":null}", "AKIDEXAMPLE" },
		{ "{ \"Version\": 1, \"AccessKeyId\": \"AKIDEXAMPLE\", \"SecretAccessKey\": \"s\", \"SessionToken\": \"t\", \"Expiration\": \"2030\" }", "AKIDEXAMPLE t" },
		{ "{\"Credentials\":{\"AccessKeyId\":\"AKIDEXAMPLE\",\"SecretAccessKey\":\"s\"}}", "AKIDEXAMPLE" },
		{ "AKIDEXAMPLE", NULL }, { "AKIDEXAMPLE:", NULL }, { ":s", NULL }, { "A B:s", NULL }, { "{}", NULL }, { "{\"access_key\":\"A", NULL }, { "{\"access_key\":\"AKIDEXAMPLE\",\"secret_key\":\"a\\u0062\"}", NULL }, { "", NULL },
		{ "AKIDEXAMPLE:s:t t", NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		char released[AWSKEY_MAX];
		const char *cause = NULL;
		bool ok = awskey_release(str_of(t[i].text), T2015, STR("r"), STR("s"), released, &cause);

		assert_int_equal(ok, t[i].tail != NULL);
		if (ok)
			assert_string_equal(released + 74, t[i].tail);
		else
			assert_non_null(cause);
	}
}

static void refuses(void **state)
{
	static const struct {
		const char *query, *field, *value, *why;
	} t[] = {
		{ "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=0", NULL, NULL, "sigv4_presigned" }, { "a=b&x-%41mz-sign%61ture=0", NULL, NULL, "sigv4_presigned" }, { "AWSAccessKeyId=x&Signature=y", NULL, NULL, "sigv4_presigned" },
		{ "prefix=X-Amz-Signature", NULL, NULL, NULL }, { NULL, "Authorization", "AWS4-ECDSA-P256-SHA256 Credential=x", "sigv4a" }, { NULL, "x-amz-region-set", "*", "sigv4a" },
		{ NULL, "x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "sigv4_chunk_signed" }, { NULL, "x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER", "sigv4_chunk_signed" },
		{ NULL, "x-amz-content-sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER", NULL }, { NULL, "x-amz-content-sha256", "UNSIGNED-PAYLOAD", NULL }, { NULL, "x-amz-content-sha256", EMPTY, NULL }, { NULL, "x-amz-content-sha256", "nonsense", "sigv4_payload_hash" },
		{ NULL, "Authorization", "AWS4-HMAC-SHA256 Credential=x", NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct http_request *r = must_calloc(1, sizeof(*r));
		const char *why;

		r->has_query = t[i].query != NULL;
		r->query = str_of(t[i].query);
		if (t[i].field != NULL)
			http_fields_add(&r->fields, str_of(t[i].field), str_of(t[i].value), HF_OTHER);
		why = sigv4_unsignable(r);
		assert_true((why == NULL) == (t[i].why == NULL));
		if (why != NULL)
			assert_string_equal(why, t[i].why);
		free(r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(dates), cmocka_unit_test(derives), cmocka_unit_test(published), cmocka_unit_test(reads_credentials), cmocka_unit_test(refuses) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
