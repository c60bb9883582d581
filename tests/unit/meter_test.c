/* SPDX-License-Identifier: Apache-2.0 */
/* Counters: no span of a window's length ever holds more than the limit; what waits is let in when it was told it would. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include <string.h>

#include "proxy/exchange/meter.h"

static struct meter meter;
static void *memory;

static int fresh(void **state)
{
	(void)state;
	memory = calloc(1, METER_SIZE);
	assert_non_null(memory);
	meter_open(&meter, memory);
	return 0;
}

static int done(void **state)
{
	(void)state;
	free(memory);
	return 0;
}

static uint32_t next(uint64_t *s)
{
	*s = *s * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*s >> 33);
}

/* Random arrivals; what was let in is looked at afterwards, over every window. */
static void never_more_than_the_limit(void **state)
{
	static const uint32_t windows[] = { 1, 60, 3600, 86400 };
	static uint64_t at[20000];
	uint64_t seed = 7;

	(void)state;
	for (size_t w = 0; w < sizeof(windows) / sizeof(windows[0]); w++) {
		uint64_t now = 1000000 + next(&seed) % 100000, span = (uint64_t)windows[w] * 1000, limit = 1 + next(&seed) % 40;
		size_t n = 0, from = 0;

		for (unsigned i = 0; i < 20000; i++) {
			uint64_t wait = meter_wait(&meter, w + 1, windows[w], limit, 1, now);

			if (wait == 0) {
				assert_true(meter_add(&meter, w + 1, windows[w], 1, now));
				at[n++] = now;
			} else if (next(&seed) % 3 == 0) { /* who comes when told to is let in */
				now += wait;
				assert_int_equal(meter_wait(&meter, w + 1, windows[w], limit, 1, now), 0);
				continue;
			}
			now += next(&seed) % (span / limit + 1);
		}
		assert_true(n > 1000);
		for (size_t i = 0; i < n; i++) {
			while (at[i] - at[from] >= span)
				from++;
			assert_true(i - from + 1 <= limit);
		}
	}
}

static void octets_and_grants(void **state)
{
	(void)state;
	assert_int_equal(meter_wait(&meter, 5, 60, 100, 101, 1000), UINT64_MAX); /* never */
	assert_true(meter_add(&meter, 5, 60, 70, 1000));
	assert_int_equal(meter_used(&meter, 5, 60, 1000), 70);
	assert_int_equal(meter_wait(&meter, 5, 60, 100, 30, 1000), 0);
	assert_true(meter_wait(&meter, 5, 60, 100, 31, 1000) > 59000);
	assert_int_equal(meter_used(&meter, 5, 60, 1000 + 66000), 0);
	assert_true(meter_add(&meter, 6, 0, 2, 1000));
	assert_int_equal(meter_used(&meter, 6, 0, 1u << 31), 2); /* for good */
	assert_int_equal(meter_wait(&meter, 6, 0, 2, 1, 1u << 31), UINT64_MAX);
	assert_true(meter_add(&meter, 5, 60, UINT64_MAX, 1000));
	assert_int_equal(meter_wait(&meter, 5, 60, UINT64_MAX - 1, 1, 1000) > 0, 1); /* does not wrap */
}

/* The next worker: what ran does not any more, what was counted is. */
static void outlives_its_worker(void **state)
{
	struct meter again;

	(void)state;
	assert_true(meter_run(&meter, 9, 1, 1000) && meter_run(&meter, 9, 1, 1000));
	assert_true(meter_run(&meter, 9, -1, 1000));
	assert_int_equal(meter_running(&meter, 9), 1);
	assert_true(meter_add(&meter, 10, 3600, 3, 1000));
	meter_open(&again, memory);
	assert_int_equal(meter_running(&again, 9), 0);
	assert_int_equal(meter_used(&again, 10, 3600, 2000), 3);
	assert_true(meter_run(&again, 9, -1, 1000)); /* of the worker before */
	assert_int_equal(meter_running(&again, 9), 0);
}

/* Full of counters: old ones give their place, grants and what counts now never do. */
static void full(void **state)
{
	unsigned refused = 0;

	(void)state;
	assert_true(meter_add(&meter, 1, 0, 1, 1000));
	for (uint64_t key = 2; key < 3 * METER_SLOTS; key++)
		refused += !meter_add(&meter, key, 1, 1, 1000);
	assert_true(refused > METER_SLOTS);
	assert_int_equal(meter_used(&meter, 1, 0, 1000), 1);
	for (uint64_t key = 5 * METER_SLOTS; key < 6 * METER_SLOTS - 100; key++)
		assert_true(meter_add(&meter, key, 1, 1, 10000));
	assert_int_equal(meter_used(&meter, 1, 0, 10000), 1);
}

static void without_memory(void **state)
{
	struct meter none = { NULL };

	(void)state;
	assert_true(meter_add(&none, 1, 1, 1, 0) && meter_run(&none, 1, 1, 0));
	assert_int_equal(meter_used(&none, 1, 1, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(never_more_than_the_limit, fresh, done),
		cmocka_unit_test_setup_teardown(octets_and_grants, fresh, done),
		cmocka_unit_test_setup_teardown(outlives_its_worker, fresh, done),
		cmocka_unit_test_setup_teardown(full, fresh, done),
		cmocka_unit_test(without_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
