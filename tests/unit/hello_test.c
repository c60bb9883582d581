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

/* --- a whole ClientHello ---------------------------------------------------------------------------------------- */

struct made {
	uint8_t b[70000];
	size_t n;
};

static void put(struct made *m, unsigned octets, size_t v)
{
	while (octets-- > 0)
		m->b[m->n++] = (uint8_t)(v >> 8 * octets);
}

/* The message: `pad` octets of an extension before the name, as post-quantum key shares stand there. */
static void message(struct made *m, const char *name, size_t pad, bool twice)
{
	size_t n = strlen(name), ext = 4 + pad + (twice ? 2 : 1) * (9 + n), all = 2 + 32 + 1 + 32 + 2 + 4 + 2 + 2 + ext;

	m->n = 0;
	put(m, 1, 1);
	put(m, 3, all);
	put(m, 2, 0x303);
	m->n += 32;
	put(m, 1, 32);
	m->n += 32;
	put(m, 2, 4);
	put(m, 4, 0x13011302);
	put(m, 2, 0x100);
	put(m, 2, ext);
	put(m, 2, 0x0a0a); /* GREASE */
	put(m, 2, pad);
	m->n += pad;
	for (int i = 0; i < (twice ? 2 : 1); i++) {
		put(m, 2, 0);
		put(m, 2, n + 5);
		put(m, 2, n + 3);
		put(m, 1, 0);
		put(m, 2, n);
		memcpy(m->b + m->n, name, n);
		m->n += n;
	}
	assert_int_equal(m->n, 4 + all);
}

/* In records of `first` octets and then `each`. */
static void records(struct made *out, const struct made *m, size_t first, size_t each)
{
	out->n = 0;
	for (size_t at = 0, k = first; at < m->n; at += k, k = each) {
		k = k < m->n - at ? k : m->n - at;
		put(out, 3, 0x160301);
		put(out, 2, k);
		memcpy(out->b + out->n, m->b + at, k);
		out->n += k;
	}
}

static enum hello_read whole(const struct made *m, size_t n, struct hello *h)
{
	uint8_t *c = malloc(n ? n : 1); /* just its size: reading past it is seen */
	enum hello_read r;

	assert_non_null(c);
	memcpy(c, m->b, n);
	r = hello_read(c, n, h);
	free(c);
	return r;
}

static void G10_whole(void **state)
{
	static struct made m, r;
	struct hello h;

	(void)state;
	for (size_t pad = 0; pad <= 20000; pad = pad ? pad * 3 : 7) {
		message(&m, "pinned.example", pad, false);
		for (size_t first = 1; first < m.n && first < 600; first++) {
			records(&r, &m, first, 16384);
			assert_int_equal(whole(&r, r.n, &h), HELLO_WHOLE);
			assert_int_equal(h.sni, HELLO_SNI_OK);
			assert_string_equal(h.name, "pinned.example");
		}
	}
	message(&m, "pinned.example", 100, false);
	records(&r, &m, 50, 50);
	for (size_t k = 0; k < r.n; k++) /* every beginning of it waits for more */
		assert_int_equal(whole(&r, k, &h), HELLO_MORE);
	r.b[r.n++] = 0x17; /* what comes behind it is nobody's business */
	assert_int_equal(whole(&r, r.n, &h), HELLO_WHOLE);
	records(&r, &m, 1, 1);
	assert_int_equal(whole(&r, r.n, &h), m.n <= HELLO_RECORDS_MAX ? HELLO_WHOLE : HELLO_BAD);
	message(&m, "pinned.example", 1000, false);
	records(&r, &m, 1, 1);
	assert_int_equal(whole(&r, r.n, &h), HELLO_BAD); /* too many records */
}

static void G09_whole(void **state)
{
	static struct made m, r;
	struct hello h;

	(void)state;
	message(&m, "a.example", 3, true);
	records(&r, &m, 16384, 16384);
	assert_int_equal(whole(&r, r.n, &h), HELLO_BAD); /* two names */
	message(&m, "a.example", 40000, false);
	records(&r, &m, 16384, 16384);
	assert_int_equal(whole(&r, r.n, &h), HELLO_BAD); /* larger than any */
	message(&m, "a.example", 3, false);
	records(&r, &m, 16384, 16384);
	for (size_t i = 5 + 38; i < r.n; i++) { /* a length that lies: never read past, never two readings of one */
		uint8_t was = r.b[i];

		for (unsigned v = 0; v < 256; v += 51) {
			r.b[i] = (uint8_t)v;
			if (whole(&r, r.n, &h) == HELLO_WHOLE && h.sni == HELLO_SNI_OK)
				assert_true(strlen(h.name) == 9);
		}
		r.b[i] = was;
	}
	r.b[0] = 0x15;
	assert_int_equal(whole(&r, r.n, &h), HELLO_BAD);
	r.b[0] = 0x16;
	r.b[5] = 2;
	assert_int_equal(whole(&r, r.n, &h), HELLO_BAD); /* another message */
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(sni_plain), cmocka_unit_test(G09_sni), cmocka_unit_test(G09_sni_names), cmocka_unit_test(G13_alpn),
		cmocka_unit_test(G10_whole), cmocka_unit_test(G09_whole) };

	return cmocka_run_group_tests_name("hello", tests, NULL, NULL);
}
