/* SPDX-License-Identifier: Apache-2.0 */
#include "meter.h"

#include <string.h>

#define SHARE (METER_BUCKETS - 1) /* a bucket is this part of the window */
#define PROBE_MAX 64

static uint64_t bucket_ms(uint32_t window_s) { return (uint64_t)window_s * 1000 / SHARE; }

void meter_open(struct meter *m, void *memory)
{
	m->slots = memory;
	for (size_t i = 0; m->slots != NULL && i < METER_SLOTS; i++)
		if (m->slots[i].running != 0)
			m->slots[i].running = 0;
}

static struct meter_slot *find(const struct meter *m, uint64_t key)
{
	for (size_t i = 0; m->slots != NULL && i < PROBE_MAX; i++) {
		struct meter_slot *s = &m->slots[(key + i) & (METER_SLOTS - 1)];

		if (s->key == key)
			return s;
		if (s->key == 0)
			return NULL;
	}
	return NULL;
}

/* Counts nothing any more: its place may be another's. A grant that counts for good never is. */
static bool stale(const struct meter_slot *s, uint64_t now_ms)
{
	return s->running == 0 && s->window_s != 0 && now_ms / bucket_ms(s->window_s) >= s->newest + METER_BUCKETS;
}

static struct meter_slot *find_or_make(struct meter *m, uint64_t key, uint32_t window_s, uint64_t now_ms)
{
	struct meter_slot *s = find(m, key);

	for (size_t i = 0; s == NULL && m->slots != NULL && i < PROBE_MAX; i++) {
		struct meter_slot *t = &m->slots[(key + i) & (METER_SLOTS - 1)];

		if (t->key == 0 || stale(t, now_ms)) {
			memset(t, 0, sizeof(*t));
			t->key = key;
			t->window_s = window_s;
			s = t;
		}
	}
	return s;
}

/* The sum of the buckets that are still in the window, and the age of each in buckets: the newest is at index newest % BUCKETS. */
static uint64_t sum(const struct meter_slot *s, uint64_t now_ms, unsigned leave)
{
	uint64_t n = 0, now;

	if (s->window_s == 0)
		return s->count[0];
	now = now_ms / bucket_ms(s->window_s);
	for (unsigned age = 0; age < METER_BUCKETS; age++) {
		uint64_t number = s->newest - age;

		if (number > s->newest || number + METER_BUCKETS <= now + leave)
			break;
		n += s->count[number % METER_BUCKETS];
	}
	return n;
}

uint64_t meter_used(const struct meter *m, uint64_t key, uint32_t window_s, uint64_t now_ms)
{
	const struct meter_slot *s = find(m, key);

	return s != NULL && s->window_s == window_s ? sum(s, now_ms, 0) : 0;
}

/* Buckets that the clock has passed are emptied. */
static void advance(struct meter_slot *s, uint64_t now)
{
	if (now >= s->newest + METER_BUCKETS)
		memset(s->count, 0, sizeof(s->count));
	else
		for (uint64_t b = s->newest + 1; b <= now; b++)
			s->count[b % METER_BUCKETS] = 0;
	if (now > s->newest)
		s->newest = now;
}

bool meter_add(struct meter *m, uint64_t key, uint32_t window_s, uint64_t n, uint64_t now_ms)
{
	struct meter_slot *s = find_or_make(m, key, window_s, now_ms);
	uint64_t *c;

	if (s == NULL || s->window_s != window_s)
		return m->slots == NULL;
	if (window_s == 0) {
		c = &s->count[0];
	} else {
		advance(s, now_ms / bucket_ms(window_s));
		c = &s->count[s->newest % METER_BUCKETS];
	}
	*c = *c + n < *c ? UINT64_MAX : *c + n;
	return true;
}

uint64_t meter_wait(const struct meter *m, uint64_t key, uint32_t window_s, uint64_t limit, uint64_t n, uint64_t now_ms)
{
	const struct meter_slot *s = find(m, key);
	uint64_t len;

	if (n > limit)
		return UINT64_MAX;
	if (s == NULL || s->window_s != window_s || sum(s, now_ms, 0) <= limit - n)
		return 0;
	if (window_s == 0)
		return UINT64_MAX;
	len = bucket_ms(window_s);
	for (unsigned leave = 1; leave <= METER_BUCKETS; leave++)
		if (sum(s, now_ms, leave) <= limit - n)
			return (now_ms / len + leave) * len - now_ms;
	return (uint64_t)METER_BUCKETS * len;
}

uint32_t meter_running(const struct meter *m, uint64_t key)
{
	const struct meter_slot *s = find(m, key);

	return s != NULL ? s->running : 0;
}

bool meter_run(struct meter *m, uint64_t key, int change, uint64_t now_ms)
{
	struct meter_slot *s = find_or_make(m, key, 1, now_ms); /* it has no window; when none runs, its place is another's */

	if (s == NULL)
		return m->slots == NULL;
	if (change > 0 || s->running > 0)
		s->running = (uint32_t)((int64_t)s->running + change);
	return true;
}
