/* SPDX-License-Identifier: Apache-2.0 */
/* DNS questions from a sandbox: H10. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "proxy/http/dns.h"

#define HEAD "\x12\x34\x01\0\0\1\0\0\0\0\0\0"
#define HEAD_EDNS "\x12\x34\x01\0\0\1\0\0\0\0\0\1"
#define NAME "\1a\7example\0"
#define A_IN "\0\1\0\1"
#define OPT "\0\0\x29\x04\xd0\0\0\0\0\0\0"

static enum dns_parse parse(const char *p, size_t n, struct dns_question *q)
{
	uint8_t *c = malloc(n ? n : 1), out[512];
	enum dns_parse r;
	struct ip v6;
	size_t m;

	assert_non_null(c);
	memcpy(c, p, n);
	r = dns_parse(c, n, q);
	if (r != DNS_DROP) {
		/* whatever came, a reply fits and is one */
		ip_parse(STR("fd00:5a11::1"), &v6);
		m = dns_reply(c, n, q, DNS_RC_REFUSED, &v6, 60, out);
		assert_in_range(m, 12, 512);
		assert_memory_equal(out, c, 2);
		assert_int_equal(out[2] & 0x80, 0x80);
		assert_int_equal(out[3] & 15, DNS_RC_REFUSED);
	}
	free(c);
	return r;
}
#define PARSE(lit) parse(lit, sizeof(lit) - 1, &q)

static void question_plain(void **state)
{
	struct dns_question q;

	(void)state;
	assert_int_equal(PARSE(HEAD NAME A_IN), DNS_OK);
	assert_int_equal(q.id, 0x1234);
	assert_int_equal(q.qtype, DNS_A);
	assert_int_equal(q.qclass, 1);
	assert_string_equal(q.name.text, "a.example");
	assert_int_equal(q.question_end, 12 + 11 + 4);
	assert_false(q.edns);
	assert_int_equal(PARSE(HEAD "\1A\7eXaMpLe\0\0\x1c\0\1"), DNS_OK); /* upper case as resolvers mix it */
	assert_string_equal(q.name.text, "a.example");
	assert_int_equal(q.qtype, DNS_AAAA);
	assert_int_equal(PARSE(HEAD_EDNS NAME A_IN OPT), DNS_OK);
	assert_true(q.edns);
	assert_int_equal(PARSE(HEAD_EDNS NAME A_IN "\0\0\x29\x04\xd0\0\0\0\0\0\4\0\x0a\0\0"), DNS_OK);
	assert_int_equal(PARSE(HEAD NAME "\0\x41\0\1"), DNS_OK);
	assert_int_equal(q.qtype, DNS_HTTPS);
	assert_int_equal(PARSE(HEAD "\4_tcp\1a\0" A_IN), DNS_OK);
	assert_string_equal(q.name.text, "_tcp.a");
}

static void H10_odd_questions(void **state)
{
	static const char good[] = HEAD_EDNS NAME A_IN OPT;
	struct dns_question q;

	(void)state;
	for (size_t k = 0; k < sizeof(good) - 1; k++)
		assert_int_equal(parse(good, k, &q), k < 12 ? DNS_DROP : DNS_FORMERR);
	assert_int_equal(PARSE(HEAD NAME A_IN "x"), DNS_FORMERR);              /* octets behind */
	assert_int_equal(PARSE("\x12\x34\x81\0\0\1\0\0\0\0\0\0" NAME A_IN), DNS_DROP); /* a response */
	assert_int_equal(PARSE("\x12\x34\x29\0\0\1\0\0\0\0\0\0" NAME A_IN), DNS_NOTIMP); /* UPDATE */
	assert_int_equal(PARSE("\x12\x34\x01\0\0\0\0\0\0\0\0\0"), DNS_FORMERR);
	assert_int_equal(PARSE("\x12\x34\x01\0\0\2\0\0\0\0\0\0" NAME A_IN NAME A_IN), DNS_FORMERR);
	assert_int_equal(PARSE("\x12\x34\x01\0\0\1\0\1\0\0\0\0" NAME A_IN), DNS_FORMERR);
	assert_int_equal(PARSE("\x12\x34\x01\0\0\1\0\0\0\1\0\0" NAME A_IN), DNS_FORMERR);
	assert_int_equal(PARSE("\x12\x34\x01\0\0\1\0\0\0\0\0\2" NAME A_IN OPT OPT), DNS_FORMERR);
	assert_int_equal(PARSE(HEAD_EDNS NAME A_IN "\0\0\1\0\1\0\0\0\0\0\0"), DNS_FORMERR); /* no OPT */
	assert_int_equal(PARSE(HEAD_EDNS NAME A_IN "\0\0\x29\x04\xd0\0\0\0\0\0\1"), DNS_FORMERR);
	assert_int_equal(PARSE(HEAD NAME "\0\1\0\3"), DNS_REFUSED);  /* class CH */
	assert_int_equal(PARSE(HEAD NAME "\0\1\0\xff"), DNS_REFUSED);
	/* compression in a question: nothing to point at */
	assert_int_equal(PARSE(HEAD "\xc0\x0c" A_IN), DNS_FORMERR);
	assert_int_equal(PARSE(HEAD "\1a\xc0\x0c" A_IN), DNS_FORMERR);
	assert_int_equal(PARSE(HEAD "\x40" "a\0" A_IN), DNS_FORMERR);
}

/* TXT, NULL and the like with names no host can have: answered, but never with a name that policy would look at. */
static void H10_names_that_are_none(void **state)
{
	struct dns_question q;
	char t[400];
	size_t n;

	(void)state;
	assert_int_equal(PARSE(HEAD "\0" A_IN), DNS_OK); /* the root */
	assert_int_equal(q.name.len, 0);
	assert_int_equal(PARSE(HEAD "\3a.b\7example\0" A_IN), DNS_OK); /* a dot inside a label is not a.b.example */
	assert_int_equal(q.name.len, 0);
	assert_int_equal(PARSE(HEAD "\2a\0\7example\0" A_IN), DNS_OK);
	assert_int_equal(q.name.len, 0);
	assert_int_equal(PARSE(HEAD "\3a b\7example\0" "\0\x10\0\1"), DNS_OK);
	assert_int_equal(q.name.len, 0);
	assert_int_equal(PARSE(HEAD "\2\xc3\xbc\7example\0" A_IN), DNS_OK);
	assert_int_equal(q.name.len, 0);
	assert_int_equal(PARSE(HEAD "\1*\7example\0" A_IN), DNS_OK);
	assert_int_equal(q.name.len, 0);
	assert_int_equal(PARSE(HEAD "\3" "127\1" "0\1" "0\1" "1\0" A_IN), DNS_OK); /* an address is no name (E14) */
	assert_int_equal(q.name.len, 0);
	/* labels of 63, names of 255 octets on the wire, and one more */
	memcpy(t, HEAD, 12);
	for (unsigned extra = 0; extra < 2; extra++) {
		n = 12;
		for (unsigned i = 0; i < 3; i++) {
			t[n++] = 63;
			memset(t + n, 'a', 63);
			n += 63;
		}
		t[n++] = (char)(61 + extra);
		memset(t + n, 'b', 61 + extra);
		n += 61 + extra;
		memcpy(t + n, "\0" A_IN, 5);
		n += 5;
		assert_int_equal(parse(t, n, &q), extra ? DNS_FORMERR : DNS_OK);
		if (!extra)
			assert_int_equal(q.name.len, 253);
	}
}

static void reply(void **state)
{
	static const uint8_t query[] = HEAD NAME A_IN, query_edns[] = HEAD_EDNS NAME A_IN OPT;
	static const char v4[] = "\x12\x34\x85\x80\0\1\0\1\0\0\0\0" NAME A_IN "\xc0\x0c\0\1\0\1\0\0\x01\x2c\0\4\xc6\x12\0\1";
	static const char v6[] = "\x12\x34\x85\x80\0\1\0\1\0\0\0\1" NAME A_IN "\xc0\x0c\0\x1c\0\1\0\0\0\x3c\0\x10\xfd\0\x5a\x11\0\0\0\0\0\0\0\0\0\0\0\1" OPT;
	static const char nx[] = "\x12\x34\x85\x83\0\1\0\0\0\0\0\1" NAME A_IN OPT;
	static const char broken[] = "\x12\x34\x85\x81\0\0\0\0\0\0\0\0";
	struct dns_question q;
	struct ip a;
	uint8_t out[512];

	(void)state;
	assert_int_equal(dns_parse(query, sizeof(query) - 1, &q), DNS_OK);
	assert_true(ip_parse(STR("198.18.0.1"), &a));
	assert_int_equal(dns_reply(query, sizeof(query) - 1, &q, DNS_NOERROR, &a, 300, out), sizeof(v4) - 1);
	assert_memory_equal(out, v4, sizeof(v4) - 1);
	assert_int_equal(dns_parse(query_edns, sizeof(query_edns) - 1, &q), DNS_OK);
	assert_true(ip_parse(STR("fd00:5a11::1"), &a));
	assert_int_equal(dns_reply(query_edns, sizeof(query_edns) - 1, &q, DNS_NOERROR, &a, 60, out), sizeof(v6) - 1);
	assert_memory_equal(out, v6, sizeof(v6) - 1);
	a.family = 0; /* no record */
	assert_int_equal(dns_reply(query_edns, sizeof(query_edns) - 1, &q, DNS_RC_NXDOMAIN, &a, 60, out), sizeof(nx) - 1);
	assert_memory_equal(out, nx, sizeof(nx) - 1);
	assert_int_equal(dns_reply(query_edns, sizeof(query_edns) - 1, &q, DNS_RC_NXDOMAIN, NULL, 60, out), sizeof(nx) - 1);
	/* an unreadable question is not repeated */
	assert_int_equal(dns_parse((const uint8_t *)HEAD "\xff", 13, &q), DNS_FORMERR);
	assert_int_equal(dns_reply((const uint8_t *)HEAD "\xff", 13, &q, DNS_RC_FORMERR, NULL, 0, out), sizeof(broken) - 1);
	assert_memory_equal(out, broken, sizeof(broken) - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(question_plain), cmocka_unit_test(H10_odd_questions), cmocka_unit_test(H10_names_that_are_none), cmocka_unit_test(reply) };

	return cmocka_run_group_tests_name("dns", tests, NULL, NULL);
}
