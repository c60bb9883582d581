/* SPDX-License-Identifier: Apache-2.0 */
/* Extensions of a ClientHello: G09, G13. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/base/canon.h"
#include "proxy/http/hello.h"

/* In an allocation of just its size. */
static enum hello_sni sni(const char *p, size_t n, char name[300])
{
	uint8_t *c = malloc(n ? n : 1);
	struct str s = STR("");
	enum hello_sni r;

	assert_non_null(c);
	memcpy(c, p, n);
	r = hello_sni(c, n, &s);
	if (r == HELLO_SNI_OK) {
		assert_true((const uint8_t *)s.p >= c && (const uint8_t *)s.p + s.n <= c + n && s.n < 300);
		memcpy(name, s.p, s.n);
		name[s.n] = 0;
	}
	free(c);
	return r;
}
#define SNI(lit) sni(lit, sizeof(lit) - 1, name)

static int alpn(const char *p, size_t n, const char *proto)
{
	uint8_t *c = malloc(n ? n : 1);
	int r;

	assert_non_null(c);
	memcpy(c, p, n);
	r = hello_alpn_offers(c, n, str_of(proto));
	free(c);
	return r;
}
#define ALPN(lit, proto) alpn(lit, sizeof(lit) - 1, proto)

static void sni_plain(void **state)
{
	char name[300];

	(void)state;
	assert_int_equal(SNI("\0\x0c\0\0\x09" "a.example"), HELLO_SNI_OK);
	assert_string_equal(name, "a.example");
	assert_int_equal(SNI("\0\x04\0\0\x01" "a"), HELLO_SNI_OK);
}

static void G09_sni(void **state)
{
	static const char good[] = "\0\x0c\0\0\x09" "a.example";
	char name[300];

	(void)state;
	for (size_t k = 0; k < sizeof(good) - 1; k++)
		assert_int_equal(sni(good, k, name), HELLO_SNI_BAD);
	assert_int_equal(SNI("\0\x0c\0\0\x09" "a.examplex"), HELLO_SNI_BAD);  /* octets behind the list */
	assert_int_equal(SNI("\0\x0d\0\0\x09" "a.examplex"), HELLO_SNI_BAD);  /* and in it */
	assert_int_equal(SNI("\0\x0c\x01\0\x09" "a.example"), HELLO_SNI_BAD); /* another type */
	assert_int_equal(SNI("\0\x03\0\0\0"), HELLO_SNI_BAD);                 /* empty name */
	assert_int_equal(SNI("\0\0"), HELLO_SNI_BAD);                         /* empty list */
	assert_int_equal(SNI("\0\x08\0\0\x01" "a\0\0\x01" "b"), HELLO_SNI_BAD);   /* two names */
	assert_int_equal(SNI("\0\x08\0\0\x01" "a\x01\0\x01" "b"), HELLO_SNI_BAD); /* two types */
	assert_int_equal(SNI("\0\x0c\0\xff\xff" "a.example"), HELLO_SNI_BAD);
}

/* The name itself goes through the one grammar of hosts, without brackets. */
static void G09_sni_names(void **state)
{
	static const struct {
		const char *name;
		size_t n;
		bool ok, ip;
	} rows[] = { { "A.Example", 9, true, false }, { "a.example.", 10, true, false }, { "a\0.example", 10, false, false }, { "127.0.0.1", 9, true, true }, { "[::1]", 5, false, false },
		{ "::1", 3, false, false }, { ".", 1, false, false }, { "a b", 3, false, false }, { "a:443", 5, false, false }, { "*.example", 9, false, false } };

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct canon_host h;
		const char *reason;

		assert_int_equal(canon_host(str_mk(rows[i].name, rows[i].n), false, &h, &reason), rows[i].ok);
		assert_int_equal(h.ip.family != 0, rows[i].ip); /* an address: the caller refuses it as SNI */
	}
}

static void G13_alpn(void **state)
{
	static const char good[] = "\0\x0c\x02h2\x08http/1.1";

	(void)state;
	assert_int_equal(ALPN("\0\x0c\x02h2\x08http/1.1", "h2"), 1);
	assert_int_equal(ALPN("\0\x0c\x02h2\x08http/1.1", "http/1.1"), 1);
	assert_int_equal(ALPN("\0\x0c\x02h2\x08http/1.1", "h3"), 0);
	assert_int_equal(ALPN("\0\x0c\x02h2\x08http/1.1", "http/1"), 0);
	assert_int_equal(ALPN("\0\x03\x02h3", "h2"), 0);
	for (size_t k = 0; k < sizeof(good) - 1; k++)
		assert_int_equal(alpn(good, k, "h2"), -1);
	assert_int_equal(ALPN("\0\x04\x02h2\0", "h2"), -1);      /* an empty name, behind a match too */
	assert_int_equal(ALPN("\0\x05\x02h2\x05x", "h2"), -1);   /* a name that reaches out */
	assert_int_equal(ALPN("\0\x03\x02h2x", "h2"), -1);
	assert_int_equal(ALPN("\0\x01\0", ""), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(sni_plain), cmocka_unit_test(G09_sni), cmocka_unit_test(G09_sni_names), cmocka_unit_test(G13_alpn) };

	return cmocka_run_group_tests_name("hello", tests, NULL, NULL);
}
