/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation. This process was cloned, not executed, into the new namespaces: capabilities over them last until
 * exec, so that links, mounts and sockets are made in here without a helper. It shares no memory with the monitor, and the
 * environment was wiped before the clone, so a secret that the caller had is not in its memory.
 *
 * Once everything stands it gives up every capability, becomes undumpable (a payload of the same user cannot look into it),
 * and puts itself under the very filter the payload gets; then it starts the command and becomes an init: reaps, passes
 * signals on, tells the monitor how the command ended, and by ending takes the rest of the sandbox along.
 */
#include "pid1.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "environ.h"
#include "fs.h"
#include "landlock.h"
#include "link.h"
#include "netns.h"
#include "seccomp.h"

#define EXIT_OURS 125
#define EXIT_NOT_EXECUTABLE 126
#define EXIT_NOT_FOUND 127
#define PROCESSES_DEFAULT 4096

_Noreturn static void fail(const struct pid1 *c, int status, const char *text)
{
	link_send(c->link_fd, NOTE_ERROR, status, 0, text, NULL, 0);
	_exit(status);
}

/* The descriptor that came with it, or -1. */
static int expect(const struct pid1 *c, enum note_type type)
{
	struct note n;
	int fds[LINK_FDS_MAX];
	unsigned fd_n;

	if (link_recv(c->link_fd, &n, fds, &fd_n) != 1 || n.type != type)
		_exit(EXIT_OURS); /* the monitor is gone or gave up: it has said why */
	return fd_n > 0 ? fds[0] : -1;
}

static void keep_descriptors(const struct pid1 *c)
{
	int keep[VIEW_MAX + 2];
	unsigned n = 0;

	keep[n++] = c->link_fd;
	if (c->life_fd >= 0)
		keep[n++] = c->life_fd;
	for (unsigned i = 0; i < c->plan->view_n; i++)
		if (c->plan->view[i].source_fd >= 0)
			keep[n++] = c->plan->view[i].source_fd;
	link_close_except(3, keep, n);
}

static int forbid_namespaces(struct err *err)
{
	int fd = open("/proc/sys/user/max_user_namespaces", O_WRONLY | O_CLOEXEC);
	int r = fd >= 0 && write(fd, "0", 1) == 1 ? 0 : err_errno(err, "cannot set max_user_namespaces to 0 inside");

	if (fd >= 0)
		close(fd);
	return r;
}

static int drop_capabilities(struct err *err)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { { 0 } };
	int last = -1;

	for (int i = 0; prctl(PR_CAPBSET_DROP, i) == 0; i++)
		last = i;
	if (errno != EINVAL || last < 31) /* EINVAL: past the last one this kernel knows */
		return err_errno(err, "cannot drop capability %d", last + 1);
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0)
		return err_errno(err, "cannot clear the ambient capabilities");
	if (syscall(__NR_capset, &head, none) != 0)
		return err_errno(err, "cannot drop the capabilities");
	return 0;
}

static int confine(const struct pid1 *c, bool *landlock, struct err *err)
{
	if (drop_capabilities(err) < 0)
		return -1;
	if (prctl(PR_SET_DUMPABLE, 0) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return err_errno(err, "no_new_privs");
	if (landlock_confine(c->plan->writable, c->plan->writable_n, landlock, err) < 0)
		return -1;
	if (c->plan->require_landlock && !*landlock)
		return err_set(err, ENOSYS, "require: landlock: this kernel has none");
	return seccomp_load(err);
}

static void limit(int what, uint64_t value)
{
	struct rlimit now, l = { value, value };

	if (getrlimit((__rlimit_resource_t)what, &now) == 0 && now.rlim_max < value)
		l.rlim_cur = l.rlim_max = now.rlim_max;
	setrlimit((__rlimit_resource_t)what, &l);
}

static void set_limits(const struct plan *p)
{
	limit(RLIMIT_CORE, 0);
	limit(RLIMIT_NPROC, p->processes ? p->processes : PROCESSES_DEFAULT);
	if (p->open_files)
		limit(RLIMIT_NOFILE, p->open_files);
	if (p->memory) /* per process: private writable memory; not address space, which runtimes reserve by the gigabyte */
		limit(RLIMIT_DATA, p->memory);
}

static const char *variable(char **envp, const char *name)
{
	size_t n = strlen(name);

	for (; *envp != NULL; envp++)
		if (strncmp(*envp, name, n) == 0 && (*envp)[n] == '=')
			return *envp + n + 1;
	return "";
}

/* Searches the sandbox's PATH as a shell does; errno says why nothing could be executed. */
static void exec_search(char **argv, char **envp)
{
	const char *path = variable(envp, "PATH"), *end;
	int found = ENOENT;
	char file[4096];

	if (strchr(argv[0], '/') != NULL || argv[0][0] == 0) {
		struct stat st;

		execve(argv[0], argv, envp);
		if (errno == ENOENT && stat(argv[0], &st) == 0)
			errno = ENOEXEC; /* its interpreter is what is missing */
		return;
	}
	for (;; path = end + 1) {
		struct stat st;

		end = strchrnul(path, ':');
		if (end > path && snprintf(file, sizeof(file), "%.*s/%s", (int)(end - path), path, argv[0]) < (int)sizeof(file)) {
			execve(file, argv, envp);
			if (errno == ENOENT && stat(file, &st) == 0)
				errno = ENOEXEC;
			if (errno != ENOENT && errno != ENOTDIR && found == ENOENT)
				found = errno;
		}
		if (*end == 0)
			break;
	}
	errno = found;
}

_Noreturn static void payload(const struct pid1 *c, int terminal, int report)
{
	const struct plan *p = c->plan;
	char text[400];
	int e;

	setsid();
	if (terminal >= 0) {
		ioctl(terminal, TIOCSCTTY, 0);
		for (int fd = 0; fd < 3; fd++)
			if (isatty(fd) == 1)
				dup2(terminal, fd);
	}
	set_limits(p);
	sigprocmask(SIG_SETMASK, &c->mask, NULL);
	if (chdir(p->cwd) != 0) {
		e = errno;
		snprintf(text, sizeof(text), "cannot enter %s inside: %s", p->cwd, strerror(e));
		(void)!write(report, (int[]){ EXIT_OURS }, sizeof(int));
		(void)!write(report, text, strlen(text));
		_exit(EXIT_OURS);
	}
	close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
	umask(022);
	exec_search(p->argv, p->envp);
	e = errno;
	snprintf(text, sizeof(text), "cannot execute %s: %s", p->argv[0], e == ENOENT ? "not found in the sandbox" : strerror(e));
	e = e == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
	(void)!write(report, &e, sizeof(e));
	(void)!write(report, text, strlen(text));
	_exit(e);
}

/* The command's first words are either an exec, which closes the pipe, or a reason why not. */
static void await_exec(const struct pid1 *c, int report, bool landlock)
{
	char text[400];
	int status;
	ssize_t n = read(report, &status, sizeof(status));

	if (n == 0) {
		link_send(c->link_fd, NOTE_STARTED, landlock, 0, NULL, NULL, 0);
		return;
	}
	n = read(report, text, sizeof(text) - 1);
	text[n > 0 ? n : 0] = 0;
	fail(c, status, text);
}

static void reap(const struct pid1 *c, pid_t command)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid != command)
			continue;
		link_send(c->link_fd, NOTE_EXITED, status, 0, NULL, NULL, 0);
		_exit(0); /* the kernel ends what is left in this pid namespace */
	}
}

_Noreturn static void init_loop(const struct pid1 *c, pid_t command, int signals)
{
	struct pollfd fds[2] = { { .fd = c->link_fd, .events = POLLIN }, { .fd = signals, .events = POLLIN } };

	for (;;) {
		struct signalfd_siginfo si;
		struct note n;
		int got[LINK_FDS_MAX];
		unsigned got_n;

		if (poll(fds, 2, -1) < 0)
			continue;
		if (fds[1].revents) {
			(void)!read(signals, &si, sizeof(si));
			reap(c, command);
		}
		if (fds[0].revents) {
			if (link_recv(c->link_fd, &n, got, &got_n) != 1)
				_exit(EXIT_OURS); /* the monitor is dead: nothing stays behind */
			if (n.type == NOTE_SIGNAL)
				kill(n.b ? -command : command, n.a);
		}
	}
}

static void send_sockets(const struct pid1 *c, const int sockets[NETNS_SOCKETS], bool transparent)
{
	int there[NETNS_SOCKETS], mask = 0;
	unsigned n = 0;

	for (int i = 0; i < NETNS_SOCKETS; i++)
		if (sockets[i] >= 0) {
			there[n++] = sockets[i];
			mask |= 1 << i;
		}
	if (link_send(c->link_fd, NOTE_NETWORK, transparent, mask, NULL, there, n) != 0)
		_exit(EXIT_OURS);
	for (unsigned i = 0; i < n; i++)
		close(there[i]);
}

_Noreturn void pid1_main(const struct pid1 *c)
{
	struct err err = ERR_INIT;
	struct fs_report rep;
	int sockets[NETNS_SOCKETS], terminal = -1, master = -1, report[2], signals, environment;
	bool transparent = false, landlock = false;
	sigset_t chld;
	pid_t command;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "sallyport-init");
	memset(c->args, 0, c->args_len);
	memcpy(c->args, "init", c->args_len < 5 ? 0 : 5);
	keep_descriptors(c);
	expect(c, NOTE_MAPPED); /* fails when the monitor died before PDEATHSIG was set */
	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	sigprocmask(SIG_SETMASK, &chld, NULL);
	if (netns_setup(sockets, &transparent, &err) < 0)
		fail(c, EXIT_OURS, err.text);
	if (c->plan->require_tproxy && !transparent)
		fail(c, EXIT_OURS, "require: tproxy: the kernel has no nftables TPROXY");
	send_sockets(c, sockets, transparent);
	if (sethostname("sandbox", 7) != 0)
		fail(c, EXIT_OURS, "cannot set the host name inside");
	if (fs_enter(c->plan, &rep, &err) < 0 || forbid_namespaces(&err) < 0)
		fail(c, EXIT_OURS, err.text);
	if (c->plan->tty && (master = fs_terminal(&terminal, &err)) < 0)
		fail(c, EXIT_OURS, err.text);
	if (link_send(c->link_fd, NOTE_VIEW, rep.overlay, 0, rep.overlay ? NULL : rep.missing, (int[]){ master, terminal }, master >= 0 ? 2 : 0) != 0)
		_exit(EXIT_OURS);
	if (master >= 0)
		close(master);
	signals = signalfd(-1, &chld, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signals < 0 || pipe2(report, O_CLOEXEC) != 0)
		fail(c, EXIT_OURS, "signalfd");
	if (confine(c, &landlock, &err) < 0)
		fail(c, EXIT_OURS, err.text);
	environment = expect(c, NOTE_GO);
	if (environment >= 0 && !environ_take(c->plan->envp, environment))
		fail(c, EXIT_OURS, "the placeholders cannot be read");
	if (environment >= 0)
		close(environment);
	command = fork();
	if (command < 0)
		fail(c, EXIT_OURS, strerror(errno));
	if (command == 0)
		payload(c, terminal, report[1]);
	close(report[1]);
	if (terminal >= 0)
		close(terminal);
	await_exec(c, report[0], landlock);
	close(report[0]);
	/* The command's streams are its own: a pipe must end when it closes it. */
	close(0);
	close(1);
	close(2);
	init_loop(c, command, signals);
}
