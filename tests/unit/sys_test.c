/* SPDX-License-Identifier: Apache-2.0 */
/* Links between roles, the loop, addresses. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/ip.h"
#include "common/sys/ipc.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(links_obey_their_table), cmocka_unit_test(timers_run_in_order), cmocka_unit_test(addresses) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
