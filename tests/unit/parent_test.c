/* SPDX-License-Identifier: Apache-2.0 */
/* The proxy behind the gateway: how it is named, asked, and understood (UI06). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proxy/dialer/parent.h"

static void asked(void **state)
{
	struct parent p;
	struct buf b = { 0 };

	(void)state;
	assert_true(parent_parse(STR("via 10.0.0.9 3128 gateway plain"), &p));
	assert_true(p.ip.family == 4 && p.port == 3128 && !p.resolves && !p.tls);
	parent_request(&p, STR("2001:db8::7"), 443, &b);
	assert_true(str_eq(buf_str(&b), STR("CONNECT [2001:db8::7]:443 HTTP/1.1\r\nHost: [2001:db8::7]:443\r\n\r\n")));
	buf_fini(&b);
	assert_true(parent_parse(STR("via proxy.corp.test 8080 proxy tls"), &p));
	assert_true(p.ip.family == 0 && p.resolves && p.tls);
	assert_true(parent_credentials(STR("Aladdin:open sesame\r\n"), &p));
	parent_request(&p, STR("a.test"), 22, &b);
	assert_true(str_eq(buf_str(&b), STR("CONNECT a.test:22 HTTP/1.1\r\nHost: a.test:22\r\nProxy-Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n\r\n")));
	buf_fini(&b);
	for (unsigned i = 0; i < 7; i++) {
		static const char *const bad[] = { "via 10.0.0.9 3128", "via 10.0.0.9 0 gateway plain", "via 10.0.0.9 3128 both plain", "10.0.0.9 3128 gateway plain", "via 10.0.0.9 3128 gateway", "via 10.0.0.9 3128 gateway more", "via 10.0.0.9 3128 gateway tls more" };

		assert_false(parent_parse(str_of(bad[i]), &p));
	}
	assert_false(parent_credentials(STR("no-colon"), &p));
	assert_false(parent_credentials(STR("two:lines\r\nX: y"), &p));
	assert_false(parent_credentials(STR("\n"), &p));
}

static enum parent_answer reads(struct str s, size_t *used, unsigned *status)
{
	struct parent_reader r = { 0 };

	return parent_read(&r, (const uint8_t *)s.p, s.n, used, status);
}

static void answered(void **state)
{
	unsigned status;
	size_t used;

	(void)state;
	assert_int_equal(reads(STR("HTTP/1.1 200 OK\r\nVia: x\r\n\r\nSSH-2.0"), &used, &status), PARENT_DONE);
	assert_true(status == 200 && used == 27);
	assert_int_equal(reads(STR("HTTP/1.0 403\r\n\r\n"), &used, &status), PARENT_DONE);
	assert_int_equal(status, 403);
	assert_int_equal(reads(STR("HTTP/1.1 200 OK\r\nVia: \r\r\n\r"), &used, &status), PARENT_MORE);
	assert_int_equal(reads(STR("HTTP/1.1 100 Continue\r\n\r\n"), &used, &status), PARENT_BAD);
	assert_int_equal(reads(STR("HTTP/2 200 OK\r\n\r\n"), &used, &status), PARENT_BAD);
	assert_int_equal(reads(STR("HTTP/1.1 2000 OK\r\n\r\n"), &used, &status), PARENT_BAD);
	assert_int_equal(reads(STR("HTTP/1.1 20x OK\r\n\r\n"), &used, &status), PARENT_BAD);
	assert_int_equal(reads(STR("SSH-2.0-x\r\n\r\n"), &used, &status), PARENT_BAD);
	assert_int_equal(reads(str_mk("HTTP/1.1 200 \0\r\n\r\n", 18), &used, &status), PARENT_BAD);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(asked), cmocka_unit_test(answered) };

	return cmocka_run_group_tests_name("parent", tests, NULL, NULL);
}
