/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_SYS_LOOP_H
#define SP_SYS_LOOP_H
/*
 * The event loop of a role: one thread, one epoll. Watches and timers are embedded in their owner; the owner may stop a
 * watch at any time, also from another callback of the same turn (a stopped watch is never called again).
 */
#include <stdbool.h>
#include <stdint.h>

struct loop;
struct watch;
typedef void watch_fn(struct watch *w, uint32_t events); /* EPOLLIN, EPOLLOUT, EPOLLHUP… */
struct watch {
	watch_fn *fn;
	struct loop *loop; /* NULL = not watched */
	int fd;
	uint32_t events;   /* as registered */
	uint32_t index;    /* slot in the loop's table: index and generation travel through epoll, never a pointer */
};
struct timer;
typedef void timer_fn(struct timer *t);
struct timer { /* zero-initialised = idle */
	timer_fn *fn;
	struct loop *loop;
	uint64_t at_ms;
	uint32_t heap;     /* 1-based position; 0 = idle */
};

struct loop *loop_new(void);
void loop_free(struct loop *l);
/* EPOLLET may be among events. Ends the process when epoll refuses (descriptor table full is checked by callers). */
void watch_start(struct loop *l, struct watch *w, int fd, uint32_t events, watch_fn *fn);
/* For descriptors that come from elsewhere: false (errno) when epoll refuses, as of a plain file; nothing is watched then. */
bool watch_try(struct loop *l, struct watch *w, int fd, uint32_t events, watch_fn *fn);
void watch_set(struct watch *w, uint32_t events); /* no system call if unchanged */
void watch_stop(struct watch *w); /* idempotent; does not close the descriptor */
/* (Re)arms; a later deadline than the armed one costs no heap work until it fires. */
void timer_start(struct loop *l, struct timer *t, uint64_t in_ms, timer_fn *fn);
void timer_stop(struct timer *t);
static inline bool timer_idle(const struct timer *t) { return t->heap == 0; }
/* fn(arg) at the end of this turn: where freed objects go. */
void loop_defer(struct loop *l, void (*fn)(void *arg), void *arg);
/* fn(arg) at the end of the next turn: events of others come first. The object must live until then. */
void loop_yield(struct loop *l, void (*fn)(void *arg), void *arg);
void loop_run(struct loop *l); /* until loop_stop */
bool loop_turn(struct loop *l, int max_wait_ms); /* one turn; false after loop_stop */
void loop_stop(struct loop *l);
uint64_t loop_now_ms(const struct loop *l);  /* monotonic, of this turn's start */
#endif
