/* SPDX-License-Identifier: Apache-2.0 */
#include "loop.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "../base/must.h"

#define TURN_EVENTS 256

struct slot {
	struct watch *w;
	uint32_t gen;
	uint32_t next_free;
};
struct deferred {
	void (*fn)(void *);
	void *arg;
};
struct deferred_list {
	struct deferred *d;
	size_t n, cap;
};
struct loop {
	int ep;
	bool stop;
	uint64_t now_ms;
	struct slot *slots;
	uint32_t slot_n, slot_cap, free_head; /* free_head: 1-based, 0 = none */
	struct timer **heap;
	uint32_t heap_n, heap_cap;
	struct deferred_list def, later; /* at the end of this turn; of the next one */
};

static uint64_t clock_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static void append(struct deferred_list *q, void (*fn)(void *), void *arg)
{
	if (q->n == q->cap) {
		q->cap = q->cap ? q->cap * 2 : 64;
		q->d = must_realloc(q->d, q->cap * sizeof(*q->d));
	}
	q->d[q->n++] = (struct deferred){ fn, arg };
}

static void run_deferred(struct loop *l)
{
	size_t yielded = l->later.n;

	for (size_t i = 0; i < yielded; i++)
		append(&l->def, l->later.d[i].fn, l->later.d[i].arg);
	l->later.n = 0;
	for (size_t i = 0; i < l->def.n; i++) { /* may grow while it runs */
		struct deferred d = l->def.d[i];

		d.fn(d.arg);
	}
	l->def.n = 0;
}

struct loop *loop_new(void)
{
	struct loop *l = must_calloc(1, sizeof(*l));

	l->ep = epoll_create1(EPOLL_CLOEXEC);
	MUST(l->ep >= 0);
	l->now_ms = clock_ms();
	/* room up front: no allocation while confined roles take their first events */
	l->slot_cap = 64;
	l->slots = must_calloc(l->slot_cap, sizeof(*l->slots));
	return l;
}

void loop_free(struct loop *l)
{
	if (l == NULL)
		return;
	run_deferred(l);
	run_deferred(l); /* what yielded */
	close(l->ep);
	free(l->slots);
	free(l->heap);
	free(l->def.d);
	free(l->later.d);
	free(l);
}

uint64_t loop_now_ms(const struct loop *l) { return l->now_ms; }
void loop_stop(struct loop *l) { l->stop = true; }

static uint64_t slot_key(const struct loop *l, uint32_t i) { return (uint64_t)l->slots[i].gen << 32 | i; }

/* Its slot is free again; events of it that are on their way are nobody's. */
static void forget(struct watch *w)
{
	struct loop *l = w->loop;

	l->slots[w->index].w = NULL;
	l->slots[w->index].gen++;
	l->slots[w->index].next_free = l->free_head;
	l->free_head = w->index + 1;
	w->loop = NULL;
}

bool watch_try(struct loop *l, struct watch *w, int fd, uint32_t events, watch_fn *fn)
{
	struct epoll_event ev = { .events = events };
	uint32_t i;

	MUST(w->loop == NULL && fd >= 0);
	if (l->free_head) {
		i = l->free_head - 1;
		l->free_head = l->slots[i].next_free;
	} else {
		if (l->slot_n == l->slot_cap) {
			l->slot_cap *= 2;
			l->slots = must_realloc(l->slots, l->slot_cap * sizeof(*l->slots));
		}
		i = l->slot_n++;
		l->slots[i].gen = 0;
	}
	l->slots[i].w = w;
	*w = (struct watch){ .fn = fn, .loop = l, .fd = fd, .events = events, .index = i };
	ev.data.u64 = slot_key(l, i);
	if (epoll_ctl(l->ep, EPOLL_CTL_ADD, fd, &ev) == 0)
		return true;
	forget(w);
	return false;
}

void watch_start(struct loop *l, struct watch *w, int fd, uint32_t events, watch_fn *fn) { MUST(watch_try(l, w, fd, events, fn)); }

void watch_set(struct watch *w, uint32_t events)
{
	struct epoll_event ev = { .events = events };

	MUST(w->loop != NULL);
	if (w->events == events)
		return;
	w->events = events;
	ev.data.u64 = slot_key(w->loop, w->index);
	MUST(epoll_ctl(w->loop->ep, EPOLL_CTL_MOD, w->fd, &ev) == 0);
}

void watch_stop(struct watch *w)
{
	struct loop *l = w->loop;

	if (l == NULL)
		return;
	/* The descriptor may live on in another process: closing it would not end the registration. */
	epoll_ctl(l->ep, EPOLL_CTL_DEL, w->fd, NULL);
	forget(w);
}

/* Timers: a binary heap by deadline. */
static void heap_put(struct loop *l, uint32_t i, struct timer *t)
{
	l->heap[i] = t;
	t->heap = i + 1;
}

static void heap_up(struct loop *l, uint32_t i)
{
	struct timer *t = l->heap[i];

	while (i > 0 && l->heap[(i - 1) / 2]->at_ms > t->at_ms) {
		heap_put(l, i, l->heap[(i - 1) / 2]);
		i = (i - 1) / 2;
	}
	heap_put(l, i, t);
}

static void heap_down(struct loop *l, uint32_t i)
{
	struct timer *t = l->heap[i];

	for (;;) {
		uint32_t c = 2 * i + 1;

		if (c >= l->heap_n)
			break;
		if (c + 1 < l->heap_n && l->heap[c + 1]->at_ms < l->heap[c]->at_ms)
			c++;
		if (l->heap[c]->at_ms >= t->at_ms)
			break;
		heap_put(l, i, l->heap[c]);
		i = c;
	}
	heap_put(l, i, t);
}

void timer_start(struct loop *l, struct timer *t, uint64_t in_ms, timer_fn *fn)
{
	uint64_t at = l->now_ms + in_ms;

	t->fn = fn;
	t->loop = l;
	if (t->heap) {
		uint64_t old = t->at_ms;

		t->at_ms = at;
		if (at < old)
			heap_up(l, t->heap - 1);
		else
			heap_down(l, t->heap - 1);
		return;
	}
	t->at_ms = at;
	if (l->heap_n == l->heap_cap) {
		l->heap_cap = l->heap_cap ? l->heap_cap * 2 : 64;
		l->heap = must_realloc(l->heap, l->heap_cap * sizeof(*l->heap));
	}
	heap_put(l, l->heap_n++, t);
	heap_up(l, l->heap_n - 1);
}

void timer_stop(struct timer *t)
{
	struct loop *l = t->loop;
	uint32_t i;
	struct timer *last;

	if (t->heap == 0)
		return;
	i = t->heap - 1;
	t->heap = 0;
	last = l->heap[--l->heap_n];
	if (last == t)
		return;
	heap_put(l, i, last);
	heap_up(l, i);
	heap_down(l, last->heap - 1);
}

void loop_defer(struct loop *l, void (*fn)(void *), void *arg)
{
	append(&l->def, fn, arg);
}

void loop_yield(struct loop *l, void (*fn)(void *), void *arg) { append(&l->later, fn, arg); }

bool loop_turn(struct loop *l, int max_wait_ms)
{
	struct epoll_event ev[TURN_EVENTS];
	int n, wait = max_wait_ms;
	uint32_t due;

	if (l->stop)
		return false;
	if (l->heap_n > 0) {
		uint64_t now = clock_ms(), at = l->heap[0]->at_ms;
		int t = at <= now ? 0 : at - now > 60000 ? 60000 : (int)(at - now);

		if (wait < 0 || t < wait)
			wait = t;
	}
	if (l->later.n > 0)
		wait = 0;
	n = epoll_wait(l->ep, ev, TURN_EVENTS, wait);
	MUST(n >= 0 || errno == EINTR);
	l->now_ms = clock_ms();
	for (int i = 0; i < n; i++) {
		uint32_t s = (uint32_t)ev[i].data.u64, gen = (uint32_t)(ev[i].data.u64 >> 32);

		if (s < l->slot_n && l->slots[s].gen == gen && l->slots[s].w != NULL)
			l->slots[s].w->fn(l->slots[s].w, ev[i].events);
	}
	/* as many as there are now: one that is armed again for at once has its turn in the next */
	for (due = l->heap_n; due > 0 && l->heap_n > 0 && l->heap[0]->at_ms <= l->now_ms; due--) {
		struct timer *t = l->heap[0];

		timer_stop(t);
		t->fn(t);
	}
	run_deferred(l);
	return !l->stop;
}

void loop_run(struct loop *l)
{
	while (loop_turn(l, -1))
		;
}
