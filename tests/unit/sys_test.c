/* SPDX-License-Identifier: Apache-2.0 */
/* Links between roles, the loop, addresses, the chain of records, leaves. */
#include <errno.h>
#include <openssl/x509v3.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "ca/x509.h"
#include "common/base/ip.h"
#include "common/sys/ipc.h"
#include "proxy/audit/chain.h"
#include "proxy/audit/format.h"

static unsigned got, died;
static uint16_t last_type;
static void on_msg(struct ipc *c, const struct ipc_msg *m)
{
	(void)c;
	if (m == NULL) {
		died++;
		return;
	}
	got++;
	last_type = m->type;
}

static void raw(int fd, uint16_t type, size_t payload)
{
	uint8_t b[600] = { 0 };

	b[0] = (uint8_t)type;
	b[1] = (uint8_t)(type >> 8);
	assert_int_equal(send(fd, b, 16 + payload, 0), 16 + payload);
}

static void links_obey_their_table(void **state)
{
	static const struct {
		enum role self, peer;
		uint16_t type;
		size_t payload;
		bool good;
	} rows[] = { { ROLE_DIALER, ROLE_WORKER, MSG_DIAL, 12, true }, { ROLE_DIALER, ROLE_WORKER, MSG_DIAL, 2, false }, { ROLE_DIALER, ROLE_WORKER, MSG_DIAL, 400, false },
		{ ROLE_DIALER, ROLE_WORKER, MSG_START, 16, false }, { ROLE_CA, ROLE_WORKER, MSG_DIAL, 12, false }, { ROLE_WORKER, ROLE_SUPERVISOR, MSG_SANDBOX_GONE, 8, true },
		{ ROLE_WORKER, ROLE_CA, MSG_SANDBOX_GONE, 8, false }, { ROLE_WORKER, ROLE_CA, 0, 8, false }, { ROLE_WORKER, ROLE_CA, MSG_COUNT, 8, false } };

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct loop *l = loop_new();
		struct ipc *c;
		int sv[2];

		got = died = 0;
		assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, sv), 0);
		c = ipc_new(l, sv[0], rows[i].self, rows[i].peer, on_msg, NULL);
		raw(sv[1], rows[i].type, rows[i].payload);
		loop_turn(l, 100);
		assert_int_equal(got, rows[i].good);
		assert_int_equal(died, !rows[i].good);
		ipc_free(c);
		loop_turn(l, 0);
		close(sv[1]);
		loop_free(l);
	}
}

static struct timer t1, t2;
static unsigned order[4], order_n;
static void on_t(struct timer *t) { order[order_n++] = t == &t1 ? 1 : 2; }

static void timers_run_in_order(void **state)
{
	struct loop *l = loop_new();

	(void)state;
	timer_start(l, &t1, 20, on_t);
	timer_start(l, &t2, 5, on_t);
	timer_start(l, &t2, 1, on_t); /* again, earlier */
	for (int i = 0; i < 50 && order_n < 2; i++)
		loop_turn(l, 5);
	assert_int_equal(order_n, 2);
	assert_int_equal(order[0], 2);
	timer_start(l, &t1, 1, on_t);
	timer_stop(&t1);
	for (int i = 0; i < 4; i++)
		loop_turn(l, 2);
	assert_int_equal(order_n, 2);
	loop_free(l);
}

/* H01-H04, E15 */
static void addresses(void **state)
{
	static const struct {
		const char *a;
		enum ip_class c;
	} rows[] = { { "8.8.8.8", IP_PUBLIC }, { "127.0.0.1", IP_SPECIAL }, { "10.1.2.3", IP_SPECIAL }, { "169.254.169.254", IP_FORBIDDEN_ALWAYS }, { "::ffff:169.254.169.254", IP_FORBIDDEN_ALWAYS },
		{ "64:ff9b::a9fe:a9fe", IP_FORBIDDEN_ALWAYS }, { "2002:7f00:1::", IP_SPECIAL }, { "::1", IP_SPECIAL }, { "::7f00:1", IP_SPECIAL }, { "fd00:ec2::254", IP_FORBIDDEN_ALWAYS },
		{ "fe80::1", IP_SPECIAL }, { "2606:4700::1111", IP_PUBLIC }, { "198.18.0.1", IP_SPECIAL }, { "100.100.100.200", IP_FORBIDDEN_ALWAYS }, { "224.0.0.1", IP_SPECIAL } };
	struct ip ip;
	const char *why;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_true(ip_parse(str_of(rows[i].a), &ip));
		if (ip_classify(&ip, &why) != rows[i].c)
			print_error("%s: %s\n", rows[i].a, why);
		assert_int_equal(ip_classify(&ip, &why), rows[i].c);
	}
	assert_false(ip_parse(STR("0177.0.0.1"), &ip) || ip_parse(STR("127.1"), &ip) || ip_parse(STR("fe80::1%eth0"), &ip));
}

static void chain_finds_changes(void **state)
{
	uint8_t key[CHAIN_KEY_LEN] = { 1 }, other[CHAIN_KEY_LEN] = { 2 };
	struct buf a = { 0 }, b = { 0 };
	char prev[CHAIN_HEX + 1], check[CHAIN_HEX + 1];

	(void)state;
	memset(prev, '0', CHAIN_HEX);
	prev[CHAIN_HEX] = 0;
	memcpy(check, prev, sizeof(prev));
	buf_addz(&a, "{\"x\":{\"y\":{\"z\":1");
	chain_close(&a, key, prev);
	buf_addz(&b, "{\"x\":{\"y\":{\"z\":2");
	chain_close(&b, key, prev);
	a.len--; /* without the line break */
	b.len--;
	assert_int_equal(chain_check(buf_str(&b), key, check), CHAIN_BAD_PREV);
	assert_int_equal(chain_check(buf_str(&a), other, check), CHAIN_BAD_HASH);
	assert_int_equal(chain_check(buf_str(&a), key, check), CHAIN_OK);
	assert_int_equal(chain_check(buf_str(&b), key, check), CHAIN_OK);
	buf_data(&b)[15] ^= 1;
	memcpy(check, buf_data(&a) + buf_len(&a) - 5 - CHAIN_HEX, CHAIN_HEX);
	assert_int_equal(chain_check(buf_str(&b), key, check), CHAIN_BAD_HASH);
	assert_int_equal(chain_check(STR("{}"), key, check), CHAIN_BAD_FORM);
	buf_fini(&a);
	buf_fini(&b);
}

/* J18 */
static void records_are_one_line(void **state)
{
	struct buf f = { 0 }, out = { 0 };
	struct record_context c = { STR("box"), 1, 1, false };
	struct str id, kind;

	(void)state;
	record_s(&f, REC_KIND, STR("request"));
	record_s(&f, REC_HOST, STR("a\r\n\x1b[31m\"\\\xff"));
	record_s(&f, REC_SANDBOX, STR("somebody-else"));
	assert_true(record_format(&out, &c, buf_data(&f), buf_len(&f), &id, &kind));
	assert_null(memchr(buf_data(&out), '\n', buf_len(&out)));
	assert_null(memchr(buf_data(&out), 0x1b, buf_len(&out)));
	assert_true(str_find(buf_str(&out), STR("\"name\":\"box\"")) >= 0); /* the link says who it is, not the sender */
	assert_true(str_find(buf_str(&out), STR("somebody-else")) < 0);
	assert_false(record_format(&out, &c, buf_data(&f), buf_len(&f) - 1, &id, &kind));
	buf_fini(&f);
	buf_fini(&out);
}

static void leaves_verify_strictly(void **state)
{
	static const char *const hosts[] = { "api.test", "10.1.2.3", "a-name-that-is-longer-than.the-64-characters.that-a-common-name-may-have.example.test" };
	EVP_PKEY *key, *leaf_key = EVP_EC_gen("P-256");
	X509 *ca;
	struct err err = ERR_INIT;
	struct minter *m;

	(void)state;
	assert_int_equal(ca_make(&key, &ca, &err), 0);
	m = minter_new(key, ca, &err);
	assert_non_null(m);
	for (size_t i = 0; i < 3; i++) {
		struct canon_host h;
		struct buf der = { 0 };
		const char *why;
		const unsigned char *p;
		X509_STORE *st = X509_STORE_new();
		X509_STORE_CTX *cx = X509_STORE_CTX_new();
		X509 *x;

		assert_true(canon_host(str_of(hosts[i]), false, &h, &why));
		assert_int_equal(minter_mint(m, leaf_key, &h, (int64_t)time(NULL), 3600, &der, &err), 0);
		p = buf_data(&der);
		x = d2i_X509(NULL, &p, (long)buf_len(&der));
		assert_non_null(x);
		X509_STORE_add_cert(st, ca);
		assert_int_equal(X509_STORE_CTX_init(cx, st, x, NULL), 1);
		X509_VERIFY_PARAM_set_flags(X509_STORE_CTX_get0_param(cx), X509_V_FLAG_X509_STRICT);
		X509_VERIFY_PARAM_set_purpose(X509_STORE_CTX_get0_param(cx), X509_PURPOSE_SSL_SERVER);
		X509_VERIFY_PARAM_set_auth_level(X509_STORE_CTX_get0_param(cx), 2);
		if (X509_verify_cert(cx) != 1)
			print_error("%s: %s\n", hosts[i], X509_verify_cert_error_string(X509_STORE_CTX_get_error(cx)));
		assert_int_equal(X509_STORE_CTX_get_error(cx), X509_V_OK);
		assert_int_equal(h.ip.family ? X509_check_ip_asc(x, h.text, 0) : X509_check_host(x, h.text, h.len, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT, NULL), 1);
		assert_int_not_equal(X509_check_host(x, "other.test", 0, 0, NULL), 1);
		X509_STORE_CTX_free(cx);
		X509_STORE_free(st);
		X509_free(x);
		buf_fini(&der);
	}
	minter_free(m);
	X509_free(ca);
	EVP_PKEY_free(key);
	EVP_PKEY_free(leaf_key);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(links_obey_their_table), cmocka_unit_test(timers_run_in_order), cmocka_unit_test(addresses),
		cmocka_unit_test(chain_finds_changes), cmocka_unit_test(records_are_one_line), cmocka_unit_test(leaves_verify_strictly) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
