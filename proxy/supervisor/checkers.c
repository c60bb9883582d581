/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that check one table each and are thrown away. One waits in advance, confined and holding nothing, so that a policy
 * does not wait for a process to start; what it says counts as soon as it is said, so that nothing waits for its end either.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../common/base/must.h"
#include "../../common/sys/log.h"
#include "supervisor.h"

#define CHECKER_MS 20000
#define TEXT_MAX 1100

struct checker {
	struct supervisor *sup;
	struct child child;
	struct ipc *ipc;
	struct watch end;
	struct timer late;
	struct generation *generation; /* NULL: it waits for one, or its answer is not of interest any more */
};

static const char damaged[] = "the compiled policy is damaged or of another format version: it is refused. Compile it again with `sallyport policy compile`";

/* What it says of a policy that goes beyond its boundary. It goes to a terminal: printable ASCII. */
static const char *printable(const uint8_t *p, size_t n)
{
	static char text[TEXT_MAX + 1];

	MUST(n <= TEXT_MAX);
	for (size_t i = 0; i < n; i++)
		text[i] = p[i] >= 0x20 && p[i] < 0x7f ? (char)p[i] : '?';
	text[n] = 0;
	return text;
}

/* Nothing is expected of it any more. Its end comes in any case. */
static struct generation *let_go(struct checker *c)
{
	struct generation *g = c->generation;

	c->generation = NULL;
	timer_stop(&c->late);
	if (g != NULL)
		g->sandbox->checker = NULL;
	if (c->child.pid != 0)
		kill(c->child.pid, SIGKILL);
	return g;
}

static void on_message(struct ipc *ipc, const struct ipc_msg *m)
{
	struct checker *c = ipc_arg(ipc);
	struct generation *g;
	struct msg_checked said;

	if (m == NULL) /* its end, or too late, is the refusal */
		return;
	if (c->generation == NULL || (m->type != MSG_CHECKED && m->type != MSG_CHECK_REFUSED)) {
		ipc_reject(ipc);
		return;
	}
	g = let_go(c);
	if (m->type == MSG_CHECKED) {
		memcpy(&said, m->data, sizeof(said));
		generation_checked(g, &said);
	} else {
		generation_refused(g, printable(m->data, m->len));
	}
}

static void free_later(void *arg) { free(arg); }

static void on_end(struct watch *w, uint32_t events)
{
	struct checker *c = (struct checker *)((char *)w - offsetof(struct checker, end));
	struct supervisor *s = c->sup;
	int status = 0;

	(void)events;
	if (waitpid(c->child.pid, &status, WNOHANG) == 0)
		return;
	c->child.pid = 0;
	watch_stop(&c->end);
	ipc_pump(c->ipc); /* its last words */
	if ((c->generation != NULL || s->checker == c) && WIFSIGNALED(status))
		log_error("the checker%s%s ended by signal %d%s", c->generation != NULL ? " of sandbox " : "", c->generation != NULL ? c->generation->sandbox->name : "", WTERMSIG(status), WTERMSIG(status) == SIGSYS ? " (a system call outside its row)" : "");
	timer_stop(&c->late);
	ipc_free(c->ipc);
	close(c->child.pidfd);
	if (s->checker == c)
		s->checker = NULL; /* the next table gets a new one: if they end by themselves, one for each table is enough */
	else
		checkers_spare(s);
	if (c->generation != NULL) { /* a crash is a refusal */
		c->generation->sandbox->checker = NULL;
		generation_refused(c->generation, damaged);
	}
	loop_defer(s->loop, free_later, c);
}

static void on_late(struct timer *t)
{
	struct checker *c = (struct checker *)((char *)t - offsetof(struct checker, late));

	kill(c->child.pid, SIGKILL); /* whose end is the refusal */
}

static struct checker *spawn(struct supervisor *s, struct err *err)
{
	struct checker *c = must_calloc(1, sizeof(*c));

	if (child_spawn(ROLE_CHECKER, s->start.program_dir_fd, proc_uid(s, ROLE_CHECKER, 0), NULL, 0, &c->child, err) < 0) {
		free(c);
		return NULL;
	}
	c->sup = s;
	c->ipc = ipc_new(s->loop, c->child.link_fd, ROLE_SUPERVISOR, ROLE_CHECKER, on_message, c);
	watch_start(s->loop, &c->end, c->child.pidfd, EPOLLIN, on_end);
	return c;
}

void checkers_spare(struct supervisor *s)
{
	struct err err = ERR_INIT;

	if (s->checker != NULL || s->shutting_down)
		return;
	s->checker = spawn(s, &err);
	if (s->checker == NULL)
		log_error("%s", err.text);
}

void checkers_stop(struct supervisor *s)
{
	struct checker *c = s->checker;

	s->checker = NULL;
	if (c != NULL)
		let_go(c);
}

void checker_forget(struct checker *c) { let_go(c); }

static int memory(const struct buf *b, struct err *err)
{
	int fd = memfd_create("sallyport-sources", MFD_CLOEXEC);

	if (fd >= 0 && (buf_len(b) == 0 || write(fd, buf_data(b), buf_len(b)) == (ssize_t)buf_len(b)))
		return fd;
	err_errno(err, "memfd");
	if (fd >= 0)
		close(fd);
	return -1;
}

static bool tell(struct checker *c, const struct generation *g, int rules)
{
	int fds[2 + TABLE_BOUNDARIES_MAX] = { g->table_fd, rules };
	unsigned n = generation_boundaries(g, fds + 2); /* what narrows it is the first of them, and no boundary here */
	struct msg_check what = { .narrow = g->narrow_fd >= 0 };

	what.boundaries = (uint8_t)(n - what.narrow);
	return ipc_send(c->ipc, MSG_CHECK, 0, 0, &what, sizeof(what), fds, 2 + n);
}

int checker_start(struct generation *g, struct err *err)
{
	struct supervisor *s = g->sandbox->sup;
	struct checker *c = s->checker;
	struct buf text = { 0 };
	int rules;

	generation_rules(g, &text);
	rules = memory(&text, err);
	buf_fini(&text);
	if (rules < 0)
		return -1;
	s->checker = NULL;
	if (c != NULL && !tell(c, g, rules)) { /* it has ended, and that is not known yet */
		let_go(c);
		c = NULL;
	}
	if (c == NULL && (c = spawn(s, err)) != NULL && !tell(c, g, rules)) {
		err_set(err, EPIPE, "the checker ended at once");
		let_go(c);
		c = NULL;
	}
	close(rules);
	if (c == NULL)
		return -1;
	c->generation = g;
	g->sandbox->checker = c;
	timer_start(s->loop, &c->late, CHECKER_MS, on_late);
	return 0;
}
