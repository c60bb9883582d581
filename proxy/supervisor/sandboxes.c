/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sandboxes. register hands over a table, sources and listening sockets; the table is copied into sealed memory, checked
 * by a process that is thrown away, then the shared roles and a worker are told. When all five have it in force, register
 * is answered. A worker's death leaves the sandbox's connects queued on our copy of its listeners until the next worker
 * serves them; the end of the sandbox closes the copies.
 *
 *   sandbox_add -> checker -> announced -> five SANDBOX_OK -> answered ... -> sandbox_revoke
 *
 * While its checker is at work a sandbox can only be marked as gone; it is freed when the checker has ended.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../common/base/must.h"
#include "../../common/sys/log.h"
#include "supervisor.h"

#define CHECKER_MS 20000
#define DIGEST_LEN 32

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
	if (b->table_fd >= 0)
		close(b->table_fd);
	if (b->env_fd >= 0)
		close(b->env_fd);
	for (unsigned i = 0; i < b->file_n; i++) {
		close(b->files[i].fd);
		free(b->files[i].path);
	}
	for (unsigned i = 0; i < b->listener_n; i++)
		close(b->listeners[i]);
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

void sandbox_ack(struct sandbox *b, enum role r)
{
	const unsigned all = 1u << ROLE_WORKER | 1u << ROLE_DIALER | 1u << ROLE_CA | 1u << ROLE_SECRETS | 1u << ROLE_AUDIT;

	b->acks |= 1u << r;
	if (b->acks != all || b->answered)
		return;
	b->answered = true;
	supervisor_event(b->sup, str_of(b->name), "sandbox started");
	control_registered(b, NULL);
}

void sandbox_revoke(struct sandbox *b, const char *why)
{
	struct supervisor *s = b->sup;
	struct msg_sandbox_ref ref = { b->id, b->generation };

	b->gone = true;
	b->owner = NULL;
	timer_stop(&b->finish_late);
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

/* --- the table's check --------------------------------------------------------------------------------------------- */

static void free_later(void *arg) { free(arg); }

static void announce(struct sandbox *b)
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

static void on_checker_end(struct watch *w, uint32_t events)
{
	struct checker *c = (struct checker *)((char *)w - offsetof(struct checker, end));
	struct sandbox *b = c->sandbox;
	uint8_t digest[DIGEST_LEN + 1];
	ssize_t n;
	int status = 0;

	(void)events;
	if (waitpid(c->child.pid, &status, WNOHANG) == 0)
		return;
	n = recv(c->child.link_fd, digest, sizeof(digest), MSG_DONTWAIT);
	watch_stop(&c->end);
	timer_stop(&c->late);
	close(c->child.link_fd);
	close(c->child.pidfd);
	b->checker = NULL;
	loop_defer(b->sup->loop, free_later, c);
	if (b->gone) {
		sandbox_revoke(b, "gone");
		return;
	}
	if (n != DIGEST_LEN || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
		/* a crash of the checker is a refusal */
		if (WIFSIGNALED(status))
			log_error("the checker of sandbox %s ended by signal %d%s", b->name, WTERMSIG(status), WTERMSIG(status) == SIGSYS ? " (a system call outside its row)" : "");
		sandbox_refuse(b, "the compiled policy is damaged or of another format version: it is refused. Compile it again with `sallyport policy compile`");
		return;
	}
	memcpy(b->digest, digest, DIGEST_LEN);
	announce(b);
}

static void on_checker_late(struct timer *t)
{
	struct checker *c = (struct checker *)((char *)t - offsetof(struct checker, late));

	kill(c->child.pid, SIGKILL); /* whose end is the refusal */
}

/* An own sealed copy: what was checked is what is used, whatever the caller does to its file. */
static int seal_copy(int fd, struct err *err)
{
	struct stat st;
	int out = memfd_create("sallyport-table", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	off_t off = 0;
	char buf[65536];

	if (out < 0)
		return err_errno(err, "memfd");
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size == 0 || st.st_size > TABLE_MAX) {
		err_set(err, EINVAL, "the compiled policy is not a regular file of a possible size");
		goto bad;
	}
	while (off < st.st_size) {
		ssize_t n = pread(fd, buf, (size_t)(st.st_size - off) < sizeof(buf) ? (size_t)(st.st_size - off) : sizeof(buf), off);

		if (n <= 0 || write(out, buf, (size_t)n) != n) {
			err_set(err, EIO, "the compiled policy cannot be copied");
			goto bad;
		}
		off += n;
	}
	if (fcntl(out, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0) {
		err_errno(err, "cannot seal the compiled policy");
		goto bad;
	}
	return out;
bad:
	close(out);
	return -1;
}

static int start_checker(struct sandbox *b, struct err *err)
{
	struct supervisor *s = b->sup;
	struct checker *c = must_calloc(1, sizeof(*c));

	if (child_spawn(ROLE_CHECKER, s->start.program_dir_fd, proc_uid(s, ROLE_CHECKER, 0), b->table_fd, &c->child, err) < 0) {
		free(c);
		return -1;
	}
	c->sandbox = b;
	b->checker = c;
	watch_start(s->loop, &c->end, c->child.pidfd, EPOLLIN, on_checker_end);
	timer_start(s->loop, &c->late, CHECKER_MS, on_checker_late);
	return 0;
}

void sandbox_add(struct supervisor *s, struct sandbox *b)
{
	struct sandbox **end = &s->sandboxes;
	struct err err = ERR_INIT;
	int sealed = seal_copy(b->table_fd, &err);

	b->sup = s;
	b->id = ++s->next_sandbox;
	b->generation = ++s->next_generation;
	while (*end != NULL)
		end = &(*end)->next;
	*end = b;
	timer_stop(&s->idle_end);
	if (sealed < 0) {
		sandbox_refuse(b, err.text);
		return;
	}
	close(b->table_fd);
	b->table_fd = sealed;
	if (start_checker(b, &err) < 0)
		sandbox_refuse(b, err.text);
}
