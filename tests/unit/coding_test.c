/* SPDX-License-Identifier: Apache-2.0 */
/* Content codings in heads: B11, B12, J12, J13. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "proxy/exchange/coding.h"

static struct arena a;
static struct http_request q;
static struct http_response r;

static void field(struct http_fields *fs, const char *name, const char *value) { http_fields_add(fs, str_of(name), str_of(value), http_fid_of(str_of(name))); }

/* The values of the fields of that name that are sent on, joined. */
static const char *sent(struct http_fields *fs, const char *name)
{
	static char out[300];

	out[0] = 0;
	for (unsigned i = 0; i < fs->n; i++)
		if (!fs->f[i].drop && str_ieq(fs->f[i].name, str_of(name)))
			snprintf(out + strlen(out), sizeof(out) - strlen(out), "%s%.*s", out[0] ? " | " : "", (int)fs->f[i].value.n, fs->f[i].value.p);
	return out;
}

static const char *narrowed(const char *one, const char *two, const char *range, bool injects)
{
	q.fields.n = 0;
	if (one)
		field(&q.fields, "accept-encoding", one);
	if (two)
		field(&q.fields, "Accept-Encoding", two);
	if (range)
		field(&q.fields, "Range", range);
	field(&q.fields, "If-Range", "\"x\"");
	coding_narrow(&a, &q, injects);
	return sent(&q.fields, "accept-encoding");
}

static void B12_narrowed(void **state)
{
	(void)state;
	assert_string_equal(narrowed("zstd, br, gzip, deflate", NULL, NULL, true), "zstd, br, gzip, deflate");
	assert_string_equal(narrowed("compress;q=1, GZip;q=0.5,dcb , dcz", "*;q=0, identity;q=0", NULL, true), "GZip;q=0.5, identity;q=0");
	assert_string_equal(narrowed("*", NULL, NULL, true), "identity");
	assert_string_equal(narrowed("", NULL, NULL, true), "identity");
	assert_string_equal(narrowed(",;q=1, ,", "gzipx, xgzip, gzi", NULL, false), "identity");
	assert_string_equal(narrowed(NULL, NULL, NULL, true), "identity");
	assert_string_equal(narrowed(NULL, NULL, NULL, false), "");
}

static void codings_inside(void **state)
{
	(void)state;
	q.fields.n = 0;
	field(&q.fields, "grpc-accept-encoding", "identity, deflate, gzip");
	field(&q.fields, "A-IM", "gzip");
	coding_narrow(&a, &q, false);
	assert_string_equal(sent(&q.fields, "grpc-accept-encoding"), "identity");
	assert_string_equal(sent(&q.fields, "a-im"), "");
	narrowed(NULL, NULL, NULL, true);
	assert_string_equal(sent(&q.fields, "grpc-accept-encoding"), "");
}

static void B11_J12_ranges(void **state)
{
	(void)state;
	assert_string_equal(narrowed("gzip", NULL, "bytes=0-5", true), "gzip");
	assert_string_equal(sent(&q.fields, "range"), "");
	assert_string_equal(sent(&q.fields, "if-range"), "");
	assert_string_equal(narrowed("gzip", NULL, "bytes=0-5", false), "identity");
	assert_string_equal(sent(&q.fields, "range"), "bytes=0-5");
	assert_string_equal(sent(&q.fields, "if-range"), "\"x\"");
	q.fields.n = 0;
	field(&q.fields, "Request-Range", "bytes=0-5");
	coding_narrow(&a, &q, true);
	assert_string_equal(sent(&q.fields, "request-range"), "");
}

static enum coding coding(const char *one, const char *two)
{
	r.fields.n = 0;
	if (one)
		field(&r.fields, "Content-Encoding", one);
	if (two)
		field(&r.fields, "content-encoding", two);
	return coding_of(&r.fields);
}

static void J13_named(void **state)
{
	(void)state;
	assert_int_equal(coding(NULL, NULL), CODING_NONE);
	assert_int_equal(coding("identity", ""), CODING_NONE);
	assert_int_equal(coding("gzip", NULL), CODING_GZIP);
	assert_int_equal(coding("X-GZIP", "identity"), CODING_GZIP);
	assert_int_equal(coding("deflate", NULL), CODING_DEFLATE);
	assert_int_equal(coding(" br ", NULL), CODING_BR);
	assert_int_equal(coding("zstd", NULL), CODING_ZSTD);
	assert_int_equal(coding("gzip, gzip", NULL), CODING_UNKNOWN);
	assert_int_equal(coding("gzip", "br"), CODING_UNKNOWN);
	assert_int_equal(coding("compress", NULL), CODING_UNKNOWN);
	assert_int_equal(coding("gzip;q=1", NULL), CODING_UNKNOWN);
	assert_int_equal(coding("aws-chunked", NULL), CODING_UNKNOWN);
}

static void J13_removed(void **state)
{
	(void)state;
	coding("gzip", NULL);
	field(&r.fields, "ETag", "\"abc\"");
	field(&r.fields, "Content-MD5", "m");
	field(&r.fields, "digest", "d");
	field(&r.fields, "Content-Digest", "c");
	field(&r.fields, "Repr-Digest", "r");
	field(&r.fields, "Vary", "Accept-Encoding");
	r.has_length = true;
	coding_remove(&a, &r);
	assert_string_equal(sent(&r.fields, "content-encoding"), "");
	assert_string_equal(sent(&r.fields, "etag"), "W/\"abc\"");
	assert_string_equal(sent(&r.fields, "content-md5"), "");
	assert_string_equal(sent(&r.fields, "digest"), "");
	assert_string_equal(sent(&r.fields, "content-digest"), "");
	assert_string_equal(sent(&r.fields, "repr-digest"), "");
	assert_string_equal(sent(&r.fields, "vary"), "Accept-Encoding");
	assert_false(r.has_length);
	coding("br", NULL);
	field(&r.fields, "etag", "W/\"abc\"");
	coding_remove(&a, &r);
	assert_string_equal(sent(&r.fields, "etag"), "W/\"abc\"");
	arena_fini(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(B12_narrowed), cmocka_unit_test(codings_inside), cmocka_unit_test(B11_J12_ranges), cmocka_unit_test(J13_named), cmocka_unit_test(J13_removed) };

	return cmocka_run_group_tests_name("coding", tests, NULL, NULL);
}
