/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time and the worker's connections: who does not read, reads drop by drop, or stops in the middle is given up, whatever the versions;
 * what waits is on the account of memory. On the clock and the sockets of tests/fuzz/exchange_world.h, so that minutes cost nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/fuzz/exchange_fuzz.h"

#define WINDOW_0 "\0\0\6\4\0\0\0\0\0\0\4\0\0\0\0"
#define MINUTE 60000

static struct pipe *begin(uint8_t flags, bool h2)
{
	memset(&F, 0, sizeof(F));
	F.flags = flags;
	world_start();
	check_start();
	W->upstream_h2[NAME_A] = !(flags & FLAG_H1_A);
	connect_client(h2);
	return client(0);
}

static void end(unsigned records)
{
	assert_int_equal(check_open(), 0);
	assert_int_equal(C->records, records);
	world_stop();
	check_stop();
	world_free();
}

/* A response that has no end yet, and more of it than the queues hold. */
static void pour(struct pipe *u, size_t n)
{
	static const char piece[16384];
	struct buf b = { 0 };

	step_response(u, 13 | 128, 0);
	for (size_t at = 0; at < n; at += sizeof(piece)) {
		if (u->h2)
			frame(&b, NGHTTP2_DATA, 0, u->last_id, piece, sizeof(piece));
		else
			buf_add(&b, piece, sizeof(piece));
	}
	give(u, buf_data(&b), buf_len(&b));
	buf_fini(&b);
}

/* Time passes as in the product: the sweep is due every second. Until all requests are recorded; how long that took. */
static uint64_t until_recorded(uint64_t most_ms, void (*now_and_then)(void))
{
	uint64_t from = W->now;

	while (check_open() > 0 && W->now - from < most_ms) {
		world_pass(1000);
		if (now_and_then != NULL)
			now_and_then();
	}
	return W->now - from;
}

/* D08: a window of nothing: 120 s without a kilobyte. */
static void no_window(void **state)
{
	(void)state;
	for (int h1 = 0; h1 < 2; h1++) {
		struct pipe *p = begin(h1 ? FLAG_H1_A : 0, true);
		uint64_t ms;

		world_give(p, WINDOW_0, 15);
		step_request(p, 0);
		pour(upstream(0), 200000);
		assert_int_equal(check_open(), 1);
		ms = until_recorded(10 * MINUTE, NULL);
		assert_in_range(ms, 119000, 125000);
		end(1);
	}
}

/* D08: less than 1 KiB in 120 s is as good as nothing, although something moves all the time. */
static void drop(void)
{
	world_give(client(0), "\0\0\4\x8\0\0\0\0\1\0\0\0\1", 13);
	world_settle();
}
static void by_drops(void **state)
{
	(void)state;
	for (int h1 = 0; h1 < 2; h1++) {
		struct pipe *p = begin(h1 ? FLAG_H1_A : 0, true);

		world_give(p, WINDOW_0, 15);
		step_request(p, 0);
		pour(upstream(0), 200000);
		assert_in_range(until_recorded(10 * MINUTE, drop), 119000, 250000);
		assert_string_equal(C->code, "client_closed");
		end(1);
	}
}

/* Slow, but not too slow: it comes whole. */
static void trickle(void)
{
	world_give(client(0), "\0\0\4\x8\0\0\0\0\1\0\0\1\x2c\0\0\4\x8\0\0\0\0\0\0\0\1\x2c", 26); /* 300 octets a second */
	world_settle();
}
static void slow_enough(void **state)
{
	struct pipe *p = begin(0, true);

	(void)state;
	world_give(p, WINDOW_0, 15);
	step_request(p, 0);
	pour(upstream(0), 200000);
	give(upstream(0), "\0\0\0\0\1\0\0\0\1", 9);
	assert_in_range(until_recorded(20 * MINUTE, trickle), 4 * MINUTE, 20 * MINUTE);
	assert_string_equal(C->code, "");
	assert_true(p->open);
	end(1);
}

/* HTTP/1.1: who does not read for ten minutes. */
static void reads_nothing_h1(void **state)
{
	struct pipe *p = begin(FLAG_H1_A, false);

	(void)state;
	world_room(p, 100);
	step_request(p, 0);
	pour(upstream(0), 400000);
	assert_in_range(until_recorded(20 * MINUTE, NULL), 9 * MINUTE, 11 * MINUTE);
	end(1);
}

/* D11: half a head. */
static void half_a_head(void **state)
{
	struct pipe *p = begin(0, true);

	(void)state;
	world_give(p, "\0\0\1\1\0\0\0\0\1\x82", 10);
	world_settle();
	for (int i = 0; i < 19; i++)
		world_pass(1000);
	assert_true(p->open);
	for (int i = 0; i < 5; i++)
		world_pass(1000);
	assert_false(p->open);
	end(0);
	p = begin(FLAG_H1_A, false);
	world_give(p, "GET / HTTP/1.1\r\nHost", 20);
	for (int i = 0; i < 30; i++)
		world_pass(1000);
	assert_false(p->open);
	end(1);
}

/* The rest of a request's content never comes: to a rule that looks at it, 30 s; else the idle time. */
static void content_never_comes(void **state)
{
	(void)state;
	for (int v = 1; v <= 2; v++) {
		step_request(begin(0, v == 2), 7);
		assert_in_range(until_recorded(MINUTE, NULL), 29000, 33000);
		end(1);
		step_request(begin(0, v == 2), 4);
		assert_in_range(until_recorded(20 * MINUTE, NULL), 9 * MINUTE, 11 * MINUTE);
		end(1);
	}
}

/* K15 and silence: an upstream that begins a head, and one that says nothing. */
static void upstream_never_answers(void **state)
{
	(void)state;
	for (int v = 1; v <= 2; v++) {
		struct pipe *p = begin(0, v == 2);

		step_request(p, 0);
		greet(upstream(0));
		give(upstream(0), "\0\0\1\1\0\0\0\0\1\x88", 10);
		assert_in_range(until_recorded(2 * MINUTE, NULL), 19000, 25000);
		end(1);
		p = begin(FLAG_H1_A, v == 2);
		step_request(p, 0);
		give(upstream(0), "HTTP/1.1 200 OK\r\nX", 18);
		assert_in_range(until_recorded(2 * MINUTE, NULL), 19000, 25000);
		end(1);
		p = begin(0, v == 2);
		step_request(p, 0);
		assert_in_range(until_recorded(20 * MINUTE, NULL), 9 * MINUTE, 11 * MINUTE);
		end(1);
	}
}

/* K09: silence on a connection that was used before is no sign that it was closed: the request is not sent again, and not waited for twice. */
static void silent_when_used_again(void **state)
{
	static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

	(void)state;
	for (int v = 1; v <= 2; v++) {
		struct pipe *p = begin(FLAG_H1_A, v == 2);

		step_request(p, 0);
		give(upstream(0), answer, sizeof(answer) - 1);
		assert_int_equal(check_open(), 0);
		step_request(p, 0);
		assert_in_range(until_recorded(40 * MINUTE, NULL), 9 * MINUTE, 11 * MINUTE);
		assert_string_equal(C->code, "upstream_timeout");
		end(2);
	}
}

/* 1,000 streams whose clients read nothing: what waits for them is on the account, and has a bound. */
static void thousand(void **state)
{
	size_t before, each;

	(void)state;
	begin(0, true);
	before = worker_memory(&W->w);
	for (unsigned c = 0; c < CLIENTS_MAX; c++) {
		if (c > 0)
			connect_client(true);
		world_give(client((uint8_t)c), WINDOW_0, 15);
		for (unsigned i = 0; i < 1000 / CLIENTS_MAX && i < 100; i++) {
			step_request(client((uint8_t)c), 0);
			pour(upstream(0), 200000);
		}
	}
	each = (worker_memory(&W->w) - before) / check_open();
	print_message("%u stalled streams: %zu octets each on the account of memory\n", check_open(), each);
	assert_int_equal(check_open(), 800);
	assert_in_range(each, 40000, 262144 + CONN_OUT_HIGH + 20480); /* window toward the upstream, queue toward the client, what a stream costs */
	assert_in_range(until_recorded(10 * MINUTE, NULL), 119000, 200000);
	end(800);
}

/* However long the content is that comes at once: the last octet leaves behind the record. */
static void recorded_before_it_ends(void **state)
{
	static char content[40000];
	static const size_t lengths[] = { 1, 8192, 8193, 16384, 16385, 24577, sizeof(content) };

	(void)state;
	for (unsigned i = 0; i < 2 * sizeof(lengths) / sizeof(lengths[0]); i++) {
		size_t n = lengths[i / 2];
		struct pipe *p = begin(FLAG_H1_A, i % 2 == 1);
		struct buf b = { 0 };

		C->mark = '~';
		content[n - 1] = '~';
		step_request(p, 0);
		buf_addf(&b, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", n);
		buf_add(&b, content, n);
		give(upstream(0), buf_data(&b), buf_len(&b));
		world_settle();
		assert_int_equal(C->whole, 1);
		content[n - 1] = 0;
		buf_fini(&b);
		end(1);
	}
}

static size_t origins(void)
{
	size_t n = 0;

	for (unsigned i = 0; i < ORIGIN_BUCKETS; i++)
		for (const struct origin *o = W->w.ups->buckets[i]; o != NULL; o = o->next)
			n++;
	assert_int_equal(n, W->w.ups->origin_n);
	return n;
}

/* A sandbox can ask for as many names under a wildcard as it likes: what is kept of each is forgotten again. */
static void many_origins(void **state)
{
	struct upstream_want want = { .scheme = SCHEME_HTTPS, .port = 443 };
	struct dest d;
	char name[32];

	(void)state;
	step_request(begin(0, true), 0);
	step_response(upstream(0), 0, 0);
	assert_int_equal(check_open(), 0);
	assert_int_equal(table_find(W->w.table, SCHEME_HTTPS, STR("a.test"), 443, &d), 1);
	want.dest = &d;
	for (unsigned i = 0; i < LIMIT_ORIGINS; i++) {
		snprintf(name, sizeof(name), "n%u.test", i);
		want.host = str_of(name);
		origin_of(W->w.ups, &want, false, NULL);
	}
	assert_int_equal(origins(), LIMIT_ORIGINS + 1);
	world_pass(1000);
	assert_int_equal(origins(), 1); /* the one that has a connection */
	origin_of(W->w.ups, &want, false, NULL);
	world_pass(LIMIT_POOL_IDLE_MS + 1000);
	assert_int_equal(origins(), 2);
	world_pass(LIMIT_ORIGIN_IDLE_MS);
	assert_int_equal(origins(), 0);
	end(1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_window),
		cmocka_unit_test(by_drops),
		cmocka_unit_test(slow_enough),
		cmocka_unit_test(reads_nothing_h1),
		cmocka_unit_test(half_a_head),
		cmocka_unit_test(content_never_comes),
		cmocka_unit_test(upstream_never_answers),
		cmocka_unit_test(silent_when_used_again),
		cmocka_unit_test(recorded_before_it_ends),
		cmocka_unit_test(thousand),
		cmocka_unit_test(many_origins),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
