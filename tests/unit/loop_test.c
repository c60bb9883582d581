/* SPDX-License-Identifier: Apache-2.0 */
/* The event loop: stopped watches stay silent, slots are not confused, timers in any order, frees at the end of a turn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/sys/loop.h"

struct end {
	struct watch watch; /* first */
	int other;
	unsigned calls;
	uint32_t last;
	struct end *stop, *start;
};
static struct loop *l;

static void on_end(struct watch *w, uint32_t events)
{
	struct end *e = (struct end *)w;
	char c;

	e->calls++;
	e->last = events;
	if (events & EPOLLIN)
		(void)!read(w->fd, &c, 1);
	if (e->stop != NULL)
		watch_stop(&e->stop->watch);
	if (e->start != NULL) {
		watch_start(l, &e->start->watch, e->start->watch.fd, EPOLLIN, on_end);
		e->start = NULL;
	}
}

static void end_init(struct end *e)
{
	int sv[2];

	*e = (struct end){ 0 };
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sv), 0);
	e->watch.fd = sv[0];
	e->other = sv[1];
}

static void end_fini(struct end *e)
{
	watch_stop(&e->watch);
	close(e->watch.fd);
	close(e->other);
}

static void poke(struct end *e) { assert_int_equal(write(e->other, "x", 1), 1); }

static int setup(void **state)
{
	(void)state;
	l = loop_new();
	return 0;
}
static int teardown(void **state)
{
	(void)state;
	loop_free(l);
	return 0;
}

static void a_watch_is_called(void **state)
{
	struct end e;

	(void)state;
	end_init(&e);
	watch_start(l, &e.watch, e.watch.fd, EPOLLIN, on_end);
	assert_true(loop_turn(l, 0));
	assert_int_equal(e.calls, 0);
	poke(&e);
	loop_turn(l, 1000);
	assert_int_equal(e.calls, 1);
	assert_true(e.last & EPOLLIN);
	watch_set(&e.watch, 0);
	poke(&e);
	loop_turn(l, 0);
	assert_int_equal(e.calls, 1);
	watch_set(&e.watch, EPOLLIN);
	loop_turn(l, 1000);
	assert_int_equal(e.calls, 2);
	end_fini(&e);
}

/* Both are ready in one turn; whichever is called first stops the other. */
static void stopped_in_the_same_turn(void **state)
{
	struct end a, b;

	(void)state;
	end_init(&a);
	end_init(&b);
	watch_start(l, &a.watch, a.watch.fd, EPOLLIN, on_end);
	watch_start(l, &b.watch, b.watch.fd, EPOLLIN, on_end);
	a.stop = &b;
	b.stop = &a;
	poke(&a);
	poke(&b);
	loop_turn(l, 1000);
	loop_turn(l, 0);
	assert_int_equal(a.calls + b.calls, 1);
	end_fini(&a);
	end_fini(&b);
}

/* The slot of the stopped one is taken by another at once: the old event is not the new watch's. */
static void a_slot_taken_again_is_another(void **state)
{
	struct end a, b, c;

	(void)state;
	end_init(&a);
	end_init(&b);
	end_init(&c);
	watch_start(l, &a.watch, a.watch.fd, EPOLLIN, on_end);
	watch_start(l, &b.watch, b.watch.fd, EPOLLIN, on_end);
	a.stop = &b;
	b.stop = &a;
	a.start = b.start = &c;
	poke(&a);
	poke(&b);
	loop_turn(l, 1000);
	assert_int_equal(a.calls + b.calls, 1);
	assert_int_equal(c.calls, 0);
	poke(&c);
	loop_turn(l, 1000);
	assert_int_equal(c.calls, 1);
	end_fini(&a);
	end_fini(&b);
	end_fini(&c);
}

/* Ours is closed, but a copy of it lives on, as it does when it was handed to another process. */
static void a_stopped_watch_is_silent_though_a_copy_lives(void **state)
{
	struct end e;
	int copy;

	(void)state;
	end_init(&e);
	copy = dup(e.watch.fd);
	watch_start(l, &e.watch, e.watch.fd, EPOLLIN, on_end);
	watch_stop(&e.watch);
	watch_stop(&e.watch); /* idempotent */
	close(e.watch.fd);
	poke(&e);
	loop_turn(l, 0);
	assert_int_equal(e.calls, 0);
	close(copy);
	close(e.other);
}

static void many_watches(void **state)
{
	enum { N = 200 };
	static struct end e[N];

	(void)state;
	for (int i = 0; i < N; i++) {
		end_init(&e[i]);
		watch_start(l, &e[i].watch, e[i].watch.fd, EPOLLIN, on_end);
	}
	for (int i = 0; i < N; i += 2)
		watch_stop(&e[i].watch);
	for (int i = 0; i < N; i++)
		poke(&e[i]);
	for (int i = 0; i < 4; i++)
		loop_turn(l, 0);
	for (int i = 0; i < N; i++)
		assert_int_equal(e[i].calls, i % 2);
	for (int i = 0; i < N; i++)
		end_fini(&e[i]);
}

/* --- timers -------------------------------------------------------------------------------------------------------- */

struct tick {
	struct timer t; /* first */
	unsigned n;
};
static uint64_t fired_at[400];
static unsigned fired;
static struct tick *to_stop;

static void on_tick(struct timer *t)
{
	((struct tick *)t)->n++;
	if (fired < sizeof(fired_at) / sizeof(fired_at[0]))
		fired_at[fired] = t->at_ms;
	fired++;
	if (to_stop != NULL)
		timer_stop(&to_stop->t);
}
static void on_again(struct timer *t)
{
	((struct tick *)t)->n++;
	timer_start(l, t, 0, on_again);
}

static void until(unsigned want)
{
	for (int i = 0; i < 2000 && fired < want; i++)
		loop_turn(l, 20);
	assert_int_equal(fired, want);
}

static void timers_by_deadline(void **state)
{
	enum { N = 300 };
	static struct tick t[N];
	unsigned r = 1, left = 0;

	(void)state;
	fired = 0;
	for (int i = 0; i < N; i++) {
		r = r * 1103515245 + 12345;
		timer_start(l, &t[i].t, 1 + (r >> 16) % 40, on_tick);
	}
	for (int i = 0; i < N; i += 3) { /* stopped, or moved either way */
		if (i % 2)
			timer_stop(&t[i].t);
		else
			timer_start(l, &t[i].t, i % 4 ? 1 : 60, on_tick);
	}
	timer_stop(&t[3].t); /* idempotent */
	for (int i = 0; i < N; i++)
		left += t[i].t.heap != 0;
	until(left);
	for (unsigned i = 1; i < fired; i++)
		assert_true(fired_at[i - 1] <= fired_at[i]);
	for (int i = 0; i < N; i++)
		assert_int_equal(t[i].n, !(i % 3 == 0 && i % 2));
}

static void a_timer_may_stop_another_due_now(void **state)
{
	static struct tick a, b;

	(void)state;
	fired = 0;
	timer_start(l, &a.t, 1, on_tick);
	timer_start(l, &b.t, 1, on_tick);
	to_stop = a.t.heap == 1 ? &b : &a;
	until(1);
	loop_turn(l, 10);
	assert_int_equal(fired, 1);
	to_stop = NULL;
}

/* One that is armed again for at once does not keep the turn from ending. */
static void a_timer_for_at_once_does_not_hold_the_turn(void **state)
{
	static struct tick a;

	(void)state;
	a.n = 0;
	timer_start(l, &a.t, 0, on_again);
	loop_turn(l, 0);
	assert_int_equal(a.n, 1);
	loop_turn(l, 1000); /* and the next turn does not wait */
	assert_int_equal(a.n, 2);
	timer_stop(&a.t);
}

/* --- the end of a turn --------------------------------------------------------------------------------------------- */

static unsigned deferred;
static void on_deferred(void *arg)
{
	deferred++;
	if (arg != NULL)
		loop_defer(l, on_deferred, NULL); /* from within: still in this turn */
}

static void frees_at_the_end(void **state)
{
	(void)state;
	deferred = 0;
	loop_defer(l, on_deferred, &deferred);
	for (int i = 0; i < 200; i++)
		loop_defer(l, on_deferred, NULL);
	assert_int_equal(deferred, 0);
	loop_turn(l, 0);
	assert_int_equal(deferred, 202);
	loop_turn(l, 0);
	assert_int_equal(deferred, 202);
	loop_defer(l, on_deferred, NULL);
	loop_free(l); /* nothing is lost with the loop */
	assert_int_equal(deferred, 203);
	l = loop_new();
}

static void on_yield(void *arg)
{
	deferred++;
	loop_yield(arg, on_yield, arg); /* always more to do */
}

/* Who always has more to do holds neither the turn nor the next ones: each turn calls it once. */
static void who_yields_lets_others_on(void **state)
{
	(void)state;
	deferred = 0;
	loop_yield(l, on_yield, l);
	for (unsigned i = 0; i < 5; i++) {
		assert_int_equal(deferred, i);
		loop_turn(l, -1); /* and nothing is waited for */
	}
	assert_int_equal(deferred, 5);
}

static void stop_ends_it(void **state)
{
	(void)state;
	loop_stop(l);
	assert_false(loop_turn(l, 1000));
	loop_run(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_watch_is_called, setup, teardown),
		cmocka_unit_test_setup_teardown(stopped_in_the_same_turn, setup, teardown),
		cmocka_unit_test_setup_teardown(a_slot_taken_again_is_another, setup, teardown),
		cmocka_unit_test_setup_teardown(a_stopped_watch_is_silent_though_a_copy_lives, setup, teardown),
		cmocka_unit_test_setup_teardown(many_watches, setup, teardown),
		cmocka_unit_test_setup_teardown(timers_by_deadline, setup, teardown),
		cmocka_unit_test_setup_teardown(a_timer_may_stop_another_due_now, setup, teardown),
		cmocka_unit_test_setup_teardown(a_timer_for_at_once_does_not_hold_the_turn, setup, teardown),
		cmocka_unit_test_setup_teardown(frees_at_the_end, setup, teardown),
		cmocka_unit_test_setup_teardown(who_yields_lets_others_on, setup, teardown),
		cmocka_unit_test_setup_teardown(stop_ends_it, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
