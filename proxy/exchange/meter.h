/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_METER_H
#define SP_METER_H
/*
 * Counters of one sandbox's rates, budgets and counted grants, in memory that outlives its worker: the supervisor makes it
 * with the sandbox, gives it to each worker in turn, and never looks into it. A counter is found by its key, the same in each
 * generation of the policy.
 *
 * A window is kept as thirteen buckets of a twelfth of it each, so that no span of its length ever holds more than the limit;
 * what was counted leaves with its bucket. Times are CLOCK_MONOTONIC, which is the same for each worker.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define METER_BUCKETS 13
#define METER_SLOTS 8192 /* a power of two */
#define METER_SIZE (METER_SLOTS * sizeof(struct meter_slot))

struct meter_slot {
	uint64_t key;      /* 0: free */
	uint64_t newest;   /* number of the newest bucket since the clock's beginning */
	uint32_t window_s; /* 0: it counts for good */
	uint32_t running;  /* of `concurrent`: forgotten by the next worker */
	uint64_t count[METER_BUCKETS];
};
struct meter {
	struct meter_slot *slots; /* METER_SIZE octets; NULL: nothing is limited, nothing is counted */
};

void meter_open(struct meter *m, void *memory); /* of a new worker: nothing runs */
/* What stands in the window at now_ms. */
uint64_t meter_used(const struct meter *m, uint64_t key, uint32_t window_s, uint64_t now_ms);
/* False: there is no room for another counter. */
bool meter_add(struct meter *m, uint64_t key, uint32_t window_s, uint64_t n, uint64_t now_ms);
/* After how long `n` more would fit below `limit`; 0: now; UINT64_MAX: never. */
uint64_t meter_wait(const struct meter *m, uint64_t key, uint32_t window_s, uint64_t limit, uint64_t n, uint64_t now_ms);
uint32_t meter_running(const struct meter *m, uint64_t key);
bool meter_run(struct meter *m, uint64_t key, int change, uint64_t now_ms);
#endif
