/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `exec` of a policy: a program that writes a secret. The supervisor cannot run one (what it gave up, a program would lack),
 * so a process is forked before it gives anything up, when gateway.yaml names programs at all, and waits for orders. Each
 * order is run by a process of its own: no shell, an environment of three variables, no descriptor of ours, standard error
 * nowhere, ten seconds, 16 KiB. What it writes goes into a memfd that the supervisor passes on to `secrets` unread.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../common/base/must.h"
#include "../../common/sys/pathcheck.h"
#include "../../common/sys/secret.h"
#include "supervisor.h"

#define RUN_MS 10000
#define LOOK_MS 5 /* whether one that has written has ended */
#define WORDS_MAX 66
#define ORDER_MAX 8192
#define AT_ONCE_MAX 8

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* --- in the process that waits ------------------------------------------------------------------------------------- */

static void answer(int to, uint32_t id, int fd, const char *cause)
{
	struct msg_executed m = { id, fd >= 0 };
	struct iovec iov[2] = { { &m, sizeof(m) }, { (void *)(uintptr_t)cause, strlen(cause) } };
	union {
		struct cmsghdr c;
		char room[CMSG_SPACE(sizeof(int))];
	} ctl = { 0 };
	struct msghdr mh = { .msg_iov = iov, .msg_iovlen = 2 };

	if (fd >= 0) {
		ctl.c.cmsg_level = SOL_SOCKET;
		ctl.c.cmsg_type = SCM_RIGHTS;
		ctl.c.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&ctl.c), &fd, sizeof(fd));
		mh.msg_control = &ctl;
		mh.msg_controllen = CMSG_SPACE(sizeof(int));
	}
	if (sendmsg(to, &mh, MSG_NOSIGNAL) < 0) {
		/* the gateway is gone, and so are we soon */
	}
}

static void become(char *const words[], int out) __attribute__((noreturn));
static void become(char *const words[], int out)
{
	char *envp[] = { (char *)"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", (char *)"LANG=C.UTF-8", NULL, NULL };
	char home[4200];
	struct rlimit none = { 0, 0 };
	int null = open("/dev/null", O_RDWR);

	if (getenv("HOME") != NULL && snprintf(home, sizeof(home), "HOME=%s", getenv("HOME")) < (int)sizeof(home))
		envp[2] = home;
	setsid(); /* its children are ended with it */
	setrlimit(RLIMIT_CORE, &none);
	for (int s = 1; s < 65; s++)
		signal(s, SIG_DFL);
	if (chdir("/") != 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(null, 2) < 0)
		_exit(126);
	close_range(3, ~0u, 0);
	execve(words[0], words, envp);
	_exit(127);
}

/* What it writes, to the end of it or of its time. False: *cause says why there is nothing. */
static bool collect(int in, int out, uint64_t until, const char *program, char cause[200])
{
	static char part[SECRET_MAX + 3];
	size_t n = 0;
	bool ok = false;

	for (;;) {
		uint64_t now = now_ms();
		struct pollfd p = { in, POLLIN, 0 };
		ssize_t k;

		if (now >= until || poll(&p, 1, (int)(until - now)) == 0) {
			snprintf(cause, 200, "its program %.100s has not ended after %d s", program, RUN_MS / 1000);
			break;
		}
		k = read(in, part + n, sizeof(part) - n);
		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0) {
			ok = write(out, part, n) == (ssize_t)n;
			break;
		}
		n += (size_t)k;
		if (n == sizeof(part)) {
			snprintf(cause, 200, "its program %.100s writes more than %u octets", program, SECRET_MAX);
			break;
		}
	}
	explicit_bzero(part, sizeof(part));
	return ok;
}

/* It may have closed its standard output long before its end. */
static bool ended(pid_t pid, uint64_t until, int *status, const char *program, char cause[200])
{
	pid_t k;

	while ((k = waitpid(pid, status, WNOHANG)) == 0 || (k < 0 && errno == EINTR)) {
		if (now_ms() >= until) {
			snprintf(cause, 200, "its program %.100s has not ended after %d s", program, RUN_MS / 1000);
			return false;
		}
		poll(NULL, 0, LOOK_MS);
	}
	return true;
}

static void run_one(int to, uint32_t id, char *const words[]) __attribute__((noreturn));
static void run_one(int to, uint32_t id, char *const words[])
{
	int pipefd[2], out = memfd_create("sallyport-secret", MFD_CLOEXEC | MFD_ALLOW_SEALING), status = 0;
	char cause[200] = "its program could not be started";
	uint64_t until = now_ms() + RUN_MS;
	struct rlimit none = { 0, 0 };
	bool ok = false;
	pid_t pid;

	setrlimit(RLIMIT_CORE, &none);
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	signal(SIGCHLD, SIG_DFL);
	if (out < 0 || pipe2(pipefd, O_CLOEXEC) != 0)
		goto done;
	pid = fork();
	if (pid == 0)
		become(words, pipefd[1]);
	close(pipefd[1]);
	if (pid < 0)
		goto done;
	ok = collect(pipefd[0], out, until, words[0], cause) && ended(pid, until, &status, words[0], cause);
	if (!ok) {
		kill(-pid, SIGKILL);
		kill(pid, SIGKILL);
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
	}
	if (ok && (!WIFEXITED(status) || WEXITSTATUS(status) != 0)) {
		ok = false;
		if (WIFEXITED(status))
			snprintf(cause, sizeof(cause), "its program %.100s ended with status %d", words[0], WEXITSTATUS(status));
		else
			snprintf(cause, sizeof(cause), "its program %.100s ended by signal %d", words[0], WTERMSIG(status));
	}
done:
	answer(to, id, ok ? out : -1, ok ? "" : cause);
	_exit(0);
}

static void wait_for_orders(int fd) __attribute__((noreturn));
static void wait_for_orders(int fd)
{
	static char order[ORDER_MAX + 1];
	ssize_t n;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGCHLD, SIG_IGN); /* nobody waits for those who run programs: they answer by themselves */
	/* what a terminal sends is the supervisor's business */
	setsid();
	while ((n = recv(fd, order, ORDER_MAX, 0)) > (ssize_t)sizeof(struct msg_execute)) {
		char *words[WORDS_MAX + 1];
		struct msg_execute m;
		unsigned count = 0;

		memcpy(&m, order, sizeof(m));
		order[n] = 0;
		for (size_t at = sizeof(m); at < (size_t)n && count < WORDS_MAX; at += strlen(order + at) + 1)
			words[count++] = order + at;
		words[count] = NULL;
		if (fork() == 0)
			run_one(fd, m.id, words);
	}
	_exit(0);
}

int programs_prepare(struct startup *s, struct err *err)
{
	int sv[2];
	pid_t pid;

	s->programs_fd = -1;
	if (s->config.programs_n == 0)
		return 0;
	for (size_t at = 0; at < s->config.programs_n; at += strlen(s->config.programs + at) + 1) {
		int fd = path_open_trusted(s->config.programs + at, true, "the program", err);

		if (fd < 0)
			return -1;
		close(fd);
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) != 0)
		return err_errno(err, "socketpair");
	pid = fork();
	if (pid < 0)
		return err_errno(err, "cannot fork");
	if (pid == 0) {
		/* nothing of the gateway's but this: no lock, no key, no socket */
		if (dup2(sv[1], 3) < 0)
			_exit(126);
		close_range(4, ~0u, 0);
		wait_for_orders(3);
	}
	close(sv[1]);
	s->programs_fd = sv[0];
	return 0;
}

/* --- in the supervisor --------------------------------------------------------------------------------------------- */

static void failed(struct proc *p, uint32_t id, const char *cause)
{
	struct msg_executed m = { id, 0 };

	proc_say(p, MSG_EXECUTED, 0, &m, sizeof(m), cause, strlen(cause), NULL, 0);
}

static void on_answer(struct watch *w, uint32_t events)
{
	struct supervisor *s = (struct supervisor *)((char *)w - offsetof(struct supervisor, programs));
	char text[400];
	union {
		struct cmsghdr c;
		char room[CMSG_SPACE(sizeof(int))];
	} ctl;
	struct iovec iov = { text, sizeof(text) };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &ctl, .msg_controllen = sizeof(ctl) };
	ssize_t n = recvmsg(w->fd, &mh, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	struct cmsghdr *cm = n > 0 ? CMSG_FIRSTHDR(&mh) : NULL;
	int fd = -1;

	(void)events;
	if (cm != NULL && cm->cmsg_level == SOL_SOCKET && cm->cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(cm), sizeof(fd));
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
		watch_stop(&s->programs); /* it is dead: later orders fail */
		return;
	}
	if (n >= (ssize_t)sizeof(struct msg_executed)) {
		s->programs_busy -= s->programs_busy > 0;
		proc_say(proc_shared(s, ROLE_SECRETS), MSG_EXECUTED, 0, text, (size_t)n, NULL, 0, &fd, fd >= 0 ? 1 : 0);
	}
	if (fd >= 0)
		close(fd);
}

void programs_watch(struct supervisor *s)
{
	if (s->start.programs_fd >= 0)
		watch_start(s->loop, &s->programs, s->start.programs_fd, EPOLLIN, on_answer);
}

void program_run(struct supervisor *s, struct proc *p, const struct ipc_msg *m)
{
	const char *program = (const char *)m->data + sizeof(struct msg_execute);
	size_t n = m->len - sizeof(struct msg_execute);
	struct msg_execute q;
	bool allowed = false;
	char text[300];

	memcpy(&q, m->data, sizeof(q));
	if (memchr(program, 0, n) == NULL)
		return;
	for (size_t at = 0; at < s->start.config.programs_n; at += strlen(s->start.config.programs + at) + 1)
		allowed = allowed || strcmp(s->start.config.programs + at, program) == 0;
	if (!allowed) {
		snprintf(text, sizeof(text), "the gateway's configuration does not let policies run %.150s (gateway.yaml: sources: { exec: [...] })", program);
		failed(p, q.id, text);
	} else if (s->programs_busy >= AT_ONCE_MAX) {
		failed(p, q.id, "too many programs run already");
	} else if (send(s->start.programs_fd, m->data, m->len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
		failed(p, q.id, "the process that runs programs is gone");
	} else {
		s->programs_busy++;
	}
}
