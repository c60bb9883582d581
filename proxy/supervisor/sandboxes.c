/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sandboxes. register hands over a table, sources and listening sockets; the table is checked (generations.c), then the
 * shared roles and a worker are told. When all five have it in force, register is answered. A worker's death leaves the
 * sandbox's connects queued on our copy of its listeners until the next worker serves them; the end of the sandbox closes
 * the copies.
 *
 *   sandbox_add -> checker -> announced -> five SANDBOX_OK -> answered ... -> sandbox_revoke
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../common/placeholder.h"
#include "../exchange/meter.h"
#include "supervisor.h"

struct sandbox *sandbox_find(struct supervisor *s, uint32_t id)
{
	struct sandbox *b;

	for (b = s->sandboxes; b != NULL; b = b->next)
		if (b->id == id)
			return b;
	return NULL;
}

void sandbox_free(struct sandbox *b)
{
	while (b->generations != NULL) {
		struct generation *g = b->generations;

		b->generations = g->newer;
		generation_free(g);
	}
	if (!b->caller.admin)
		closer_close(b->listeners, b->listener_n);
	for (unsigned i = 0; b->caller.admin && i < b->listener_n; i++)
		close(b->listeners[i]);
	if (b->boundary_fd >= 0)
		close(b->boundary_fd);
	if (b->meter_fd >= 0)
		close(b->meter_fd);
	buf_fini(&b->placeholders);
	free(b);
}

void sandbox_refuse(struct sandbox *b, const char *text)
{
	if (!b->answered) {
		b->answered = true;
		control_registered(b, text);
	}
	sandbox_revoke(b, text);
}

void sandbox_started(struct sandbox *b)
{
	if (b->answered)
		return;
	b->answered = true;
	supervisor_event(b->sup, str_of(b->name), "sandbox started");
	control_registered(b, NULL);
}

void sandbox_tell_placeholders(struct sandbox *b, struct proc *worker)
{
	struct msg_sandbox_ref ref = { b->id, 0 }; /* of all generations */

	if (buf_len(&b->placeholders) > 0)
		proc_say(worker, MSG_SANDBOX_PLACEHOLDERS, 0, &ref, sizeof(ref), buf_data(&b->placeholders), buf_len(&b->placeholders), NULL, 0);
}

static bool has_placeholder(const struct sandbox *b, const struct placeholder *p)
{
	struct str rest = buf_str(&b->placeholders);
	struct placeholder q;

	while (placeholder_next(&rest, &q))
		if (q.part == p->part && str_eq(q.secret, p->secret))
			return true;
	return false;
}

/* The first one of a secret stays: it stands in the sandbox's environment, and the shape of its value may be another by now. */
void sandbox_placeholders(struct sandbox *b, struct str list)
{
	size_t had = buf_len(&b->placeholders);
	struct placeholder p;

	while (placeholder_next(&list, &p))
		if (!has_placeholder(b, &p) && buf_len(&b->placeholders) < PLACEHOLDER_LIST_MAX)
			placeholder_put(&b->placeholders, &p);
	if (buf_len(&b->placeholders) > had && b->worker != NULL && (b->told & 1u << ROLE_WORKER))
		sandbox_tell_placeholders(b, b->worker);
}

void sandbox_revoke(struct sandbox *b, const char *why)
{
	struct supervisor *s = b->sup;
	struct msg_sandbox_ref ref = { b->id, 0 };

	b->gone = true;
	b->owner = NULL;
	timer_stop(&b->finish_late);
	control_reloaded(b, NULL, "the sandbox ended");
	if (b->checker != NULL)
		checker_forget(b->checker);
	for (struct sandbox **p = &s->sandboxes; *p != NULL; p = &(*p)->next) {
		if (*p == b) {
			*p = b->next;
			break;
		}
	}
	if (b->worker != NULL)
		proc_stop(b->worker, &ref); /* it delivers its last records */
	if (b->announced)
		supervisor_event(s, str_of(b->name), why);
	proc_tell_gone(s, b);
	sandbox_free(b);
	cas_forget(s);
	supervisor_idle(s);
}

void sandbox_announce(struct sandbox *b)
{
	struct supervisor *s = b->sup;

	proc_tell_sandbox(s, b);
	if (s->spare != NULL && s->spare->ipc != NULL) {
		struct proc *p = s->spare;

		s->spare = NULL;
		proc_serve(p, b);
	} else if (proc_worker(s, b) == NULL) {
		sandbox_refuse(b, "too many sandboxes: there is no user number left for another worker");
		return;
	}
	proc_spare(s);
}

/* Counters of its limits, which outlive its workers. Nobody can make it smaller under a worker that has mapped it. */
static int make_meter(struct err *err)
{
	int fd = memfd_create("sallyport-meter", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd >= 0 && ftruncate(fd, (off_t)METER_SIZE) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW) == 0)
		return fd;
	err_errno(err, "the memory of its counters");
	if (fd >= 0)
		close(fd);
	return -1;
}

/* The operator's boundary, or the caller's own, which then is sealed. */
static int take_boundary(struct supervisor *s, struct sandbox *b, struct err *err)
{
	int fd = b->boundary_fd;

	if (s->start.boundary_fd >= 0) {
		b->boundary_fd = fcntl(s->start.boundary_fd, F_DUPFD_CLOEXEC, 3);
		if (fd >= 0)
			close(fd);
		if (fd >= 0)
			return err_set(err, EPERM, "this gateway has a boundary of its own (gateway.yaml): a run cannot bring another");
		return b->boundary_fd < 0 ? err_errno(err, "the boundary") : 0;
	}
	if (fd < 0)
		return 0;
	b->boundary_fd = generation_seal(fd, err);
	close(fd);
	return b->boundary_fd < 0 ? -1 : 0;
}

void sandbox_add(struct supervisor *s, struct sandbox *b, struct generation *g)
{
	struct sandbox **end = &s->sandboxes;
	struct err err = ERR_INIT;

	b->sup = s;
	b->id = ++s->next_sandbox;
	while (*end != NULL)
		end = &(*end)->next;
	*end = b;
	timer_stop(&s->idle_end);
	b->meter_fd = make_meter(&err);
	if (b->meter_fd < 0 || take_boundary(s, b, &err) < 0) {
		generation_free(g);
		sandbox_refuse(b, err.text);
		return;
	}
	generation_add(b, g);
}
