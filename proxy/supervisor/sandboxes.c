/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sandboxes. register hands over a table, sources and listening sockets; the table is checked (generations.c), then the
 * shared roles and a worker are told. When all five have it in force, register is answered. A worker's death leaves the
 * sandbox's connects queued on our copy of its listeners until the next worker serves them; the end of the sandbox closes
 * the copies.
 *
 *   sandbox_add -> checker -> announced -> five SANDBOX_OK -> answered ... -> sandbox_revoke
 *
 * While its checker is at work a sandbox can only be marked as gone; it is freed when the checker has ended.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../common/placeholder.h"
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
	for (unsigned i = 0; i < b->listener_n; i++)
		close(b->listeners[i]);
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
	if (b->checker != NULL) {
		kill(b->checker->child.pid, SIGKILL); /* its end comes back here */
		return;
	}
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

void sandbox_add(struct supervisor *s, struct sandbox *b, struct generation *g)
{
	struct sandbox **end = &s->sandboxes;

	b->sup = s;
	b->id = ++s->next_sandbox;
	while (*end != NULL)
		end = &(*end)->next;
	*end = b;
	timer_stop(&s->idle_end);
	generation_add(b, g);
}
