/* SPDX-License-Identifier: Apache-2.0 */
#include "clock.h"

#include <errno.h>
#include <sys/random.h>
#include <time.h>

#include "../base/must.h"

uint64_t clock_wall_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

uint64_t clock_mono_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

void random_fill(void *p, size_t n)
{
	uint8_t *at = p;

	while (n > 0) {
		ssize_t k = getrandom(at, n, 0);

		MUST(k > 0 || errno == EINTR);
		if (k > 0) {
			at += k;
			n -= (size_t)k;
		}
	}
}
