/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors of callers who are no administrators. Who closes the last one of a socket that lingers waits for its peer, of a
 * file of FUSE for whoever serves it, and of a socket with such descriptors in its queue for those: how long is for its owner
 * to say. So they are closed by threads that do nothing else, a batch each; what is stuck holds up its own batch only, unless
 * there are THREADS_MAX of them: then the next ones wait, open.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../common/base/must.h"
#include "../../common/sys/log.h"
#include "supervisor.h"

#define THREADS_MAX 64
#define STACK_SIZE 65536

struct batch {
	struct batch *next;
	unsigned n;
	int fds[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct batch *waiting, **waiting_tail = &waiting;
static struct batch *done; /* freed by the supervisor itself: a thread leaves the allocator alone, which a fork may meet in any state */
static unsigned threads;

static struct batch *next_batch(struct batch *before)
{
	struct batch *b;

	pthread_mutex_lock(&lock);
	if (before != NULL) {
		before->next = done;
		done = before;
	}
	b = waiting;
	if (b != NULL && (waiting = b->next) == NULL)
		waiting_tail = &waiting;
	if (b == NULL)
		threads--;
	pthread_mutex_unlock(&lock);
	return b;
}

static void *close_batches(void *arg)
{
	(void)arg;
	for (struct batch *b = next_batch(NULL); b != NULL; b = next_batch(b))
		for (unsigned i = 0; i < b->n; i++)
			close(b->fds[i]);
	return NULL;
}

/* False: there is none, and will be none. */
static bool start_thread(void)
{
	sigset_t all, before;
	pthread_attr_t attr;
	pthread_t t;
	bool ok;

	sigfillset(&all);
	MUST(pthread_attr_init(&attr) == 0);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK_SIZE);
	pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the supervisor's own thread's */
	ok = pthread_create(&t, &attr, close_batches, NULL) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	return ok;
}

static void free_done(struct batch *b)
{
	for (struct batch *next; b != NULL; b = next) {
		next = b->next;
		free(b);
	}
}

void closer_close(const int *fds, unsigned n)
{
	static struct log_limit limit;
	struct batch *b, *old;
	bool start, alone;

	if (n == 0)
		return;
	b = must_malloc(sizeof(*b) + n * sizeof(*fds));
	b->next = NULL;
	b->n = n;
	memcpy(b->fds, fds, n * sizeof(*fds));
	pthread_mutex_lock(&lock);
	old = done;
	done = NULL;
	*waiting_tail = b;
	waiting_tail = &b->next;
	start = threads < THREADS_MAX;
	threads += start;
	pthread_mutex_unlock(&lock);
	free_done(old);
	if (!start)
		log_limited(&limit, "error: callers hold up the closing of %u of their descriptors", n);
	if (!start || start_thread())
		return;
	pthread_mutex_lock(&lock);
	alone = --threads == 0;
	threads += alone;
	pthread_mutex_unlock(&lock);
	if (alone) /* nobody else will */
		close_batches(NULL);
}
