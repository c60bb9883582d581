/* SPDX-License-Identifier: Apache-2.0 */
/* A byte connection's queues: who was told to wait is told to go on, once, and only when there is room. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../proxy/worker/conn.h"

static unsigned called;
static void on_process(struct conn *c)
{
	(void)c;
	called++;
}
static void on_free(struct conn *c) { (void)c; }
static const struct conn_ops ops = { on_process, on_free };

struct pair {
	struct loop *l;
	struct conn_list list;
	struct conn c;
	int peer;
};

static void open_pair(struct pair *p)
{
	int fds[2], small = 4096;

	*p = (struct pair){ .l = loop_new() };
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
	assert_int_equal(setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
	p->peer = fds[1];
	conn_init(&p->c, p->l, fds[0], &ops, &p->list);
}

static void close_pair(struct pair *p)
{
	conn_close(&p->c);
	loop_turn(p->l, 0);
	assert_int_equal(p->list.queued, 0);
	assert_int_equal(p->list.n, 0);
	loop_free(p->l);
	close(p->peer);
}

/* The peer reads until at most `left` octets are queued here. */
static void drain(struct pair *p, size_t left)
{
	char t[1024];

	while (buf_len(&p->c.out) > left) {
		assert_true(recv(p->peer, t, sizeof(t), 0) > 0);
		loop_turn(p->l, 0);
	}
	loop_turn(p->l, 0);
}

static void fill(struct pair *p, size_t n)
{
	memset(buf_room(&p->c.out, n), 'x', n);
	buf_commit(&p->c.out, n);
	conn_flush_later(&p->c);
	loop_turn(p->l, 0);
}

static void a_waiter_is_not_forgotten(void **state)
{
	struct pair p;

	(void)state;
	open_pair(&p);
	fill(&p, CONN_OUT_HIGH + 50000);
	assert_true(conn_full(&p.c, CONN_OUT_HIGH));
	drain(&p, CONN_OUT_HIGH - 1000);
	assert_false(conn_full(&p.c, CONN_OUT_HIGH)); /* another asks, and is not told to wait: the first one still does */
	called = 0;
	drain(&p, CONN_OUT_LOW);
	assert_false(p.c.waited_for);
	assert_true(called > 0);
	close_pair(&p);
}

/* A mark below the low-water mark, as when memory is short. */
static void a_low_mark(void **state)
{
	struct pair p;

	(void)state;
	open_pair(&p);
	fill(&p, CONN_OUT_LOW - 1000);
	assert_true(conn_full(&p.c, CONN_OUT_PRESSED));
	drain(&p, 0);
	assert_false(p.c.waited_for);
	close_pair(&p);
}

static void memory_is_accounted(void **state)
{
	struct pair p;

	(void)state;
	open_pair(&p);
	fill(&p, 100000);
	assert_true(p.list.queued >= buf_len(&p.c.out) && buf_len(&p.c.out) > 0);
	drain(&p, 0);
	conn_idle_trim(&p.c);
	assert_int_equal(p.list.queued, 0);
	assert_int_equal(send(p.peer, "hello", 5, 0), 5);
	loop_turn(p.l, 0);
	conn_fill(&p.c);
	assert_int_equal(buf_len(&p.c.in), 5);
	assert_int_equal(p.list.queued, conn_queued(&p.c));
	close_pair(&p);
}

/* A failed write ends writing only, where the owner wants to read on. */
static void reads_on(void **state)
{
	struct pair p;

	(void)state;
	open_pair(&p);
	p.c.reads_on = true;
	assert_int_equal(send(p.peer, "answer", 6, 0), 6);
	close(p.peer);
	p.peer = dup(0);
	fill(&p, 100);
	assert_true(p.c.write_failed);
	assert_false(p.c.failed);
	conn_fill(&p.c);
	assert_int_equal(buf_len(&p.c.in), 6);
	assert_true(p.c.eof);
	close_pair(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(a_waiter_is_not_forgotten), cmocka_unit_test(a_low_mark), cmocka_unit_test(memory_is_accounted), cmocka_unit_test(reads_on) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
