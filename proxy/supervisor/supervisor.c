/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Roles and sandboxes. Everything that a role must know is kept here and told again when the role is started anew: START,
 * the live sandboxes with their tables (and for `secrets` the sources), then a new link to every peer. A worker's death
 * leaves the sandbox's connects queued on our copy of its listeners until the next worker serves them.
 */
#include "supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../common/base/must.h"
#include "../../common/record.h"
#include "../../common/sys/clock.h"
#include "../../common/sys/log.h"

#define BACKOFF_FIRST_MS 50
#define BACKOFF_MAX_MS 5000
#define BACKOFF_FORGET_MS 10000 /* a role that lived this long starts without delay next time */
#define IDLE_END_MS 2000
#define REVOKE_MS 900 /* a revoked sandbox's worker is gone within a second */
#define CHECKER_MS 20000
#define SHUTDOWN_MS 3000

static const uint32_t role_uid[] = {
#define ROLE(id, title, program, uid, ...) [ROLE_##id] = uid,
#include "../../common/role.def"
#undef ROLE
};

static void start_proc(struct proc *p);
static void wire_sandbox(struct supervisor *s, struct sandbox *b, struct proc *only);

void supervisor_event(struct supervisor *s, struct str sandbox, const char *message)
{
	struct buf b = { 0 };

	if (s->audit.ipc == NULL)
		return;
	record_s(&b, REC_KIND, STR("lifecycle"));
	record_s(&b, REC_SANDBOX, sandbox);
	record_s(&b, REC_MESSAGE, str_of(message));
	record_u(&b, REC_TIME_MS, clock_wall_ms());
	ipc_send(s->audit.ipc, MSG_LIFECYCLE, 0, 0, buf_data(&b), buf_len(&b), NULL, 0);
	buf_fini(&b);
}

struct sandbox *supervisor_find(struct supervisor *s, uint32_t id)
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

/* --- telling roles ------------------------------------------------------------------------------------------------- */

static void tell_sandbox(struct proc *p, struct sandbox *b)
{
	struct msg_sandbox m = { .sandbox = b->id, .generation = b->generation, .flags = b->flags };
	struct msg_sandbox_ref ref = { b->id, b->generation };
	int fds[1 + MSG_LISTENERS_MAX] = { b->table_fd };
	unsigned n = 1;

	if (p->ipc == NULL)
		return;
	memcpy(m.name, b->name, sizeof(m.name));
	memcpy(m.table_digest, b->digest, sizeof(m.table_digest));
	if (p->role == ROLE_WORKER) {
		for (unsigned i = 0; i < b->listener_n; i++) {
			m.kinds[m.listeners++] = b->kinds[i];
			fds[n++] = b->listeners[i];
		}
	}
	if (p->role == ROLE_SECRETS) { /* the sources first: a release never meets half a sandbox */
		if (b->env_fd >= 0)
			ipc_send(p->ipc, MSG_SANDBOX_ENV, b->generation, 0, &ref, sizeof(ref), &b->env_fd, 1);
		for (unsigned i = 0; i < b->file_n; i++)
			ipc_send2(p->ipc, MSG_SANDBOX_FILE, b->generation, 0, &ref, sizeof(ref), b->files[i].path, strlen(b->files[i].path), &b->files[i].fd, 1);
	}
	ipc_send(p->ipc, MSG_SANDBOX, b->generation, 0, &m, sizeof(m), fds, n);
}

static void link_pair(struct proc *a, struct proc *b, uint32_t sandbox)
{
	struct msg_peer to_a = { (uint32_t)b->role, sandbox }, to_b = { (uint32_t)a->role, sandbox };
	int sv[2];

	if (a->ipc == NULL || b->ipc == NULL)
		return;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sv) != 0) {
		log_error("cannot make a link between %s and %s: %s", role_name(a->role), role_name(b->role), strerror(errno));
		return;
	}
	ipc_send(a->ipc, MSG_PEER, 0, 0, &to_a, sizeof(to_a), &sv[0], 1);
	ipc_send(b->ipc, MSG_PEER, 0, 0, &to_b, sizeof(to_b), &sv[1], 1);
	close(sv[0]);
	close(sv[1]);
}

/* Links of a sandbox's worker to the four; `only`: just the one that was started anew. */
static void wire_sandbox(struct supervisor *s, struct sandbox *b, struct proc *only)
{
	struct proc *peers[] = { &s->audit, &s->ca, &s->secrets, &s->dialer };

	if (b->worker == NULL)
		return;
	for (size_t i = 0; i < 4; i++)
		if (only == NULL || only == peers[i] || only == b->worker)
			link_pair(b->worker, peers[i], b->id);
}

static void send_start(struct proc *p)
{
	struct supervisor *s = p->sup;
	struct msg_start m = { .uid_base = s->start.uid_base };
	int fds[2];
	unsigned n = 0;
	const char *text = "";

	switch (p->role) {
	case ROLE_CA:
		fds[n++] = s->start.ca_key_fd;
		fds[n++] = s->start.ca_cert_fd;
		lseek(s->start.ca_key_fd, 0, SEEK_SET); /* shared offsets: an earlier life of the role has read to the end */
		lseek(s->start.ca_cert_fd, 0, SEEK_SET);
		break;
	case ROLE_AUDIT:
		fds[n++] = s->start.audit_dir_fd;
		fds[n++] = s->start.chain_key_fd;
		lseek(s->start.chain_key_fd, 0, SEEK_SET);
		break;
	case ROLE_WORKER:
		fds[n++] = s->start.trust_fd;
		break;
	case ROLE_DIALER:
		text = s->start.dns;
		break;
	default:
		break;
	}
	ipc_send2(p->ipc, MSG_START, 0, 0, &m, sizeof(m), text, strlen(text), fds, n);
}

/* --- answers of roles ---------------------------------------------------------------------------------------------- */

static void refuse_sandbox(struct supervisor *s, struct sandbox *b, const char *text)
{
	if (!b->answered) {
		b->answered = true;
		control_registered(b, text);
	}
	supervisor_revoke(s, b, text);
}

static void on_role(struct ipc *c, const struct ipc_msg *m)
{
	struct proc *p = ipc_arg(c);
	struct supervisor *s = p->sup;
	const unsigned all = 1u << ROLE_WORKER | 1u << ROLE_DIALER | 1u << ROLE_CA | 1u << ROLE_SECRETS | 1u << ROLE_AUDIT;

	if (m == NULL) {
		/* broke a rule, or died: the pidfd tells when it is gone */
		p->ipc = NULL;
		ipc_free(c);
		if (!p->stopping && !s->shutting_down)
			kill(p->child.pid, SIGKILL);
		return;
	}
	switch (m->type) {
	case MSG_SANDBOX_OK:
	case MSG_SANDBOX_BAD: {
		const struct msg_sandbox_ref *r = (const void *)m->data;
		struct sandbox *b = supervisor_find(s, r->sandbox);
		char text[600];

		if (b == NULL || b->gone)
			break;
		if (m->type == MSG_SANDBOX_BAD) {
			snprintf(text, sizeof(text), "the %s refused the policy: %.*s", role_name(p->role), (int)(m->len - sizeof(*r)), (const char *)m->data + sizeof(*r));
			refuse_sandbox(s, b, text);
			break;
		}
		b->acks |= 1u << p->role;
		if (b->acks == all && !b->answered) {
			b->answered = true;
			supervisor_event(s, str_of(b->name), "sandbox started");
			control_registered(b, NULL);
		}
		break;
	}
	default:
		break;
	}
}

/* --- processes ----------------------------------------------------------------------------------------------------- */

static void on_restart(struct timer *t)
{
	struct proc *p = (struct proc *)((char *)t - offsetof(struct proc, restart));

	start_proc(p);
}

static void free_proc(void *arg) { free(arg); }

static void keep_spare(struct supervisor *s)
{
	if (s->spare != NULL || s->shutting_down)
		return;
	s->spare = must_calloc(1, sizeof(*s->spare));
	s->spare->role = ROLE_WORKER;
	s->spare->sup = s;
	s->spare->slot = s->next_slot++ % 1000;
	start_proc(s->spare);
}

static void on_proc_end(struct watch *w, uint32_t events)
{
	struct proc *p = (struct proc *)((char *)w - offsetof(struct proc, pid_watch));
	struct supervisor *s = p->sup;
	uint64_t now = loop_now_ms(s->loop);
	char text[128];
	int status = 0;

	(void)events;
	waitpid(p->child.pid, &status, 0);
	watch_stop(&p->pid_watch);
	close(p->child.pidfd);
	if (p->ipc != NULL)
		ipc_free(p->ipc);
	p->ipc = NULL;
	p->child.pid = 0;
	timer_stop(&p->restart);
	if (p->stopping || s->shutting_down) {
		if (p->role == ROLE_WORKER)
			loop_defer(s->loop, free_proc, p);
		return;
	}
	if (WIFSIGNALED(status))
		snprintf(text, sizeof(text), "%s ended by signal %d%s", role_name(p->role), WTERMSIG(status), WTERMSIG(status) == SIGSYS ? " (a system call outside its row)" : "");
	else
		snprintf(text, sizeof(text), "%s ended with status %d", role_name(p->role), WEXITSTATUS(status));
	log_error("%s; it is started again", text);
	supervisor_event(s, p->sandbox != NULL ? str_of(p->sandbox->name) : STR_NONE, text);
	if (now - p->started_ms > BACKOFF_FORGET_MS)
		p->backoff_ms = 0;
	p->backoff_ms = p->backoff_ms == 0 ? BACKOFF_FIRST_MS : p->backoff_ms * 2 > BACKOFF_MAX_MS ? BACKOFF_MAX_MS : p->backoff_ms * 2;
	if (p->role == ROLE_WORKER && p->sandbox != NULL && s->spare != NULL && s->spare->ipc != NULL) {
		/* the warm spare takes over at once */
		struct sandbox *b = p->sandbox;

		b->worker = s->spare;
		b->worker->sandbox = b;
		b->worker->backoff_ms = p->backoff_ms;
		s->spare = NULL;
		tell_sandbox(b->worker, b);
		wire_sandbox(s, b, NULL);
		p->sandbox = NULL;
		s->spare = p; /* and the dead one becomes the next spare, after its delay */
	}
	timer_start(s->loop, &p->restart, p->backoff_ms, on_restart);
}

static void start_proc(struct proc *p)
{
	struct supervisor *s = p->sup;
	struct err err = ERR_INIT;
	uid_t uid = s->start.uid_base + role_uid[p->role] + (p->role == ROLE_WORKER ? p->slot : 0);

	if (s->shutting_down)
		return;
	p->started_ms = loop_now_ms(s->loop);
	if (child_spawn(p->role, s->start.program_dir_fd, uid, -1, &p->child, &err) < 0) {
		log_error("%s", err.text);
		p->backoff_ms = p->backoff_ms ? p->backoff_ms * 2 > BACKOFF_MAX_MS ? BACKOFF_MAX_MS : p->backoff_ms * 2 : BACKOFF_FIRST_MS;
		timer_start(s->loop, &p->restart, p->backoff_ms, on_restart);
		return;
	}
	fcntl(p->child.link_fd, F_SETFL, O_NONBLOCK);
	watch_start(s->loop, &p->pid_watch, p->child.pidfd, EPOLLIN, on_proc_end);
	p->ipc = ipc_new(s->loop, p->child.link_fd, ROLE_SUPERVISOR, p->role, on_role, p);
	send_start(p);
	if (p->role == ROLE_WORKER) {
		if (p->sandbox != NULL) {
			tell_sandbox(p, p->sandbox);
			wire_sandbox(s, p->sandbox, NULL);
		}
		return;
	}
	for (struct sandbox *b = s->sandboxes; b != NULL; b = b->next) {
		if (!b->announced || b->gone)
			continue;
		tell_sandbox(p, b);
		wire_sandbox(s, b, p);
	}
	if (p->role == ROLE_AUDIT)
		ipc_send(p->ipc, MSG_SYNC, 0, 0, NULL, 0, NULL, 0);
	if (p->role == ROLE_AUDIT || p->role == ROLE_SECRETS)
		link_pair(&s->secrets, &s->audit, 0);
}

static void on_stop_late(struct timer *t)
{
	struct proc *p = (struct proc *)((char *)t - offsetof(struct proc, restart));

	if (p->child.pid != 0)
		kill(p->child.pid, SIGKILL);
}

static void stop_proc(struct proc *p)
{
	if (p->child.pid == 0) {
		timer_stop(&p->restart);
		if (p->role == ROLE_WORKER)
			loop_defer(p->sup->loop, free_proc, p);
		return;
	}
	p->stopping = true;
	kill(p->child.pid, SIGKILL);
}

/* --- sandboxes ----------------------------------------------------------------------------------------------------- */

static void announce(struct supervisor *s, struct sandbox *b)
{
	b->announced = true;
	tell_sandbox(&s->audit, b);
	tell_sandbox(&s->dialer, b);
	tell_sandbox(&s->ca, b);
	tell_sandbox(&s->secrets, b);
	if (s->spare != NULL && s->spare->ipc != NULL) {
		b->worker = s->spare;
		s->spare = NULL;
		b->worker->sandbox = b;
		tell_sandbox(b->worker, b);
		wire_sandbox(s, b, NULL);
	} else {
		b->worker = must_calloc(1, sizeof(*b->worker));
		b->worker->role = ROLE_WORKER;
		b->worker->sup = s;
		b->worker->slot = s->next_slot++ % 1000;
		b->worker->sandbox = b;
		start_proc(b->worker);
	}
	keep_spare(s);
}

static void on_checker_digest(struct watch *w, uint32_t events)
{
	struct proc *p = (struct proc *)((char *)w - offsetof(struct proc, pid_watch));
	struct supervisor *s = p->sup;
	struct sandbox *b = p->sandbox;
	uint8_t digest[33];
	ssize_t n = recv(p->child.link_fd, digest, sizeof(digest), MSG_DONTWAIT);
	int status = 0;

	(void)events;
	if (n < 0 && errno == EAGAIN)
		return;
	watch_stop(&p->pid_watch);
	timer_stop(&p->restart);
	kill(p->child.pid, n == 32 ? 0 : SIGKILL);
	waitpid(p->child.pid, &status, 0);
	close(p->child.link_fd);
	close(p->child.pidfd);
	b->checker = NULL;
	loop_defer(s->loop, free_proc, p);
	if (n != 32 || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
		/* a crash of the checker is a refusal */
		refuse_sandbox(s, b, "the compiled policy is damaged or of another format version: it is refused. Compile it again with `sallyport policy compile`");
		return;
	}
	memcpy(b->digest, digest, 32);
	if (b->gone) {
		supervisor_revoke(s, b, "gone");
		return;
	}
	announce(s, b);
}

static void on_checker_late(struct timer *t)
{
	struct proc *p = (struct proc *)((char *)t - offsetof(struct proc, restart));

	kill(p->child.pid, SIGKILL); /* its link closes, which is the refusal */
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
		close(out);
		return err_set(err, EINVAL, "the compiled policy is not a regular file of a possible size");
	}
	while (off < st.st_size) {
		ssize_t n = pread(fd, buf, sizeof(buf), off);

		if (n <= 0 || write(out, buf, (size_t)n) != n) {
			close(out);
			return err_set(err, EIO, "cannot copy the compiled policy");
		}
		off += n;
	}
	if (fcntl(out, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0) {
		close(out);
		return err_errno(err, "cannot seal the compiled policy");
	}
	return out;
}

void supervisor_add(struct supervisor *s, struct sandbox *b)
{
	struct err err = ERR_INIT;
	struct proc *p;
	int sealed = seal_copy(b->table_fd, &err);

	b->id = ++s->next_sandbox;
	b->generation = ++s->next_generation;
	b->next = s->sandboxes;
	s->sandboxes = b;
	s->had_sandbox = true;
	timer_stop(&s->idle_end);
	if (sealed < 0) {
		refuse_sandbox(s, b, err.text);
		return;
	}
	close(b->table_fd);
	b->table_fd = sealed;
	p = must_calloc(1, sizeof(*p));
	p->role = ROLE_CHECKER;
	p->sup = s;
	p->sandbox = b;
	if (child_spawn(ROLE_CHECKER, s->start.program_dir_fd, s->start.uid_base + role_uid[ROLE_CHECKER], sealed, &p->child, &err) < 0) {
		free(p);
		refuse_sandbox(s, b, err.text);
		return;
	}
	b->checker = p;
	watch_start(s->loop, &p->pid_watch, p->child.link_fd, EPOLLIN, on_checker_digest);
	timer_start(s->loop, &p->restart, CHECKER_MS, on_checker_late);
}

static void on_idle_end(struct timer *t)
{
	struct supervisor *s = (struct supervisor *)((char *)t - offsetof(struct supervisor, idle_end));

	if (s->sandboxes == NULL && control_clients(s->control) == 0)
		supervisor_shutdown(s);
	else if (s->sandboxes == NULL)
		timer_start(s->loop, &s->idle_end, IDLE_END_MS, on_idle_end);
}

void supervisor_revoke(struct supervisor *s, struct sandbox *b, const char *why)
{
	struct proc *all[] = { &s->dialer, &s->ca, &s->secrets, &s->audit };
	struct msg_sandbox_ref ref = { b->id, b->generation };

	b->gone = true;
	b->owner = NULL;
	if (b->checker != NULL)
		return; /* its end comes back here */
	for (struct sandbox **p = &s->sandboxes; *p != NULL; p = &(*p)->next) {
		if (*p == b) {
			*p = b->next;
			break;
		}
	}
	if (b->worker != NULL) {
		b->worker->sandbox = NULL;
		if (b->worker->ipc != NULL && b->worker->child.pid != 0) {
			/* it delivers its last records and ends; within a second in any case */
			ipc_send(b->worker->ipc, MSG_SANDBOX_GONE, b->generation, 0, &ref, sizeof(ref), NULL, 0);
			b->worker->stopping = true;
			timer_start(s->loop, &b->worker->restart, REVOKE_MS, on_stop_late);
		} else {
			stop_proc(b->worker);
		}
	}
	if (b->announced) {
		supervisor_event(s, str_of(b->name), why);
		for (size_t i = 0; i < 4; i++)
			if (all[i]->ipc != NULL)
				ipc_send(all[i]->ipc, MSG_SANDBOX_GONE, b->generation, 0, &ref, sizeof(ref), NULL, 0);
	}
	sandbox_free(b);
	if (s->sandboxes == NULL && s->start.auto_end)
		timer_start(s->loop, &s->idle_end, IDLE_END_MS, on_idle_end);
}

/* --- the end ------------------------------------------------------------------------------------------------------- */

static void shutdown_step(struct timer *t)
{
	struct supervisor *s = (struct supervisor *)((char *)t - offsetof(struct supervisor, shutdown_step));

	/* audit has had its time: it is last */
	if (s->audit.child.pid != 0 && --s->exit_status > -30) {
		timer_start(s->loop, &s->shutdown_step, 100, shutdown_step);
		return;
	}
	s->exit_status = 0;
	loop_stop(s->loop);
}

void supervisor_shutdown(struct supervisor *s)
{
	struct proc *first[] = { &s->dialer, &s->ca, &s->secrets };

	if (s->shutting_down)
		return;
	while (s->sandboxes != NULL && s->sandboxes->checker == NULL)
		supervisor_revoke(s, s->sandboxes, "gateway stopped");
	s->shutting_down = true;
	control_stop(s->control);
	for (size_t i = 0; i < 3; i++)
		stop_proc(first[i]);
	if (s->spare != NULL)
		stop_proc(s->spare);
	if (s->audit.ipc != NULL)
		ipc_send(s->audit.ipc, MSG_SHUTDOWN, 0, 0, NULL, 0, NULL, 0);
	s->exit_status = 0;
	timer_start(s->loop, &s->shutdown_step, 50, shutdown_step);
}

static struct supervisor the_supervisor;
static struct watch signal_watch;

static void on_signal(struct watch *w, uint32_t events)
{
	struct signalfd_siginfo si;

	(void)events;
	while (read(w->fd, &si, sizeof(si)) == (ssize_t)sizeof(si))
		if (si.ssi_signo == SIGTERM || si.ssi_signo == SIGINT)
			supervisor_shutdown(&the_supervisor);
}

static void usage(FILE *f)
{
	fprintf(f, "usage: sallyport serve [--state DIR] [--auto] [--dns ADDRESS[:PORT]] [--trust FILE]\n");
}

int supervisor_main(int argc, char **argv)
{
	static const struct option options[] = { { "state", 1, NULL, 's' }, { "auto", 0, NULL, 'a' }, { "trust", 1, NULL, 't' }, { "uid-base", 1, NULL, 'u' },
		{ "dns", 1, NULL, 'd' }, { "help", 0, NULL, 'h' }, { NULL, 0, NULL, 0 } };
	struct supervisor *s = &the_supervisor;
	const char *state = NULL;
	struct err err = ERR_INIT;
	struct rlimit rl;
	sigset_t set;
	int o;

	log_title("supervisor");
	s->start = (struct startup){ .uid_base = 61000, .state_fd = -1 };
	while ((o = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (o) {
		case 's':
			state = optarg;
			break;
		case 'a':
			s->start.auto_end = true;
			break;
		case 't':
			s->start.trust_file = optarg;
			break;
		case 'u':
			s->start.uid_base = (uint32_t)strtoul(optarg, NULL, 10);
			break;
		case 'd': {
			char a[64];
			char *colon;

			snprintf(a, sizeof(a), "%s", optarg);
			colon = strrchr(a, ':');
			if (colon != NULL && strchr(a, ':') == colon)
				*colon++ = 0;
			else
				colon = NULL;
			snprintf(s->start.dns + strlen(s->start.dns), sizeof(s->start.dns) - strlen(s->start.dns), "%s %s\n", a, colon ? colon : "53");
			break;
		}
		case 'h':
			usage(stdout);
			return 0;
		default:
			usage(stderr);
			return 2;
		}
	}
	if (optind != argc) {
		usage(stderr);
		return 2;
	}
	umask(077);
	if (startup_prepare(&s->start, state, &err) < 0) {
		log_error("%s", err.text);
		return 125;
	}
	if (getrlimit(RLIMIT_NOFILE, &rl) == 0) {
		rl.rlim_cur = rl.rlim_max;
		setrlimit(RLIMIT_NOFILE, &rl);
	}
	prctl(PR_SET_DUMPABLE, s->start.as_root ? 0 : 1, 0, 0, 0);
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	s->loop = loop_new();
	watch_start(s->loop, &signal_watch, signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK), EPOLLIN, on_signal);
	s->control = control_new(s, &err);
	if (s->control == NULL) {
		log_error("%s", err.text);
		return 125;
	}
	s->dialer.role = ROLE_DIALER;
	s->ca.role = ROLE_CA;
	s->secrets.role = ROLE_SECRETS;
	s->audit.role = ROLE_AUDIT;
	s->dialer.sup = s->ca.sup = s->secrets.sup = s->audit.sup = s;
	start_proc(&s->audit);
	start_proc(&s->secrets);
	start_proc(&s->ca);
	start_proc(&s->dialer);
	keep_spare(s);
	if (s->start.auto_end)
		timer_start(s->loop, &s->idle_end, 10 * IDLE_END_MS, on_idle_end);
	loop_run(s->loop);
	control_free(s->control);
	return 0;
}
