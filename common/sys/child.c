/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A role is a fresh exec: own address space layout and canary, empty environment. The child waits until the parent has
 * written its user map (the parent may hold the capability for that, the child does not).
 */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../base/must.h"
#include "ipc.h"

struct row {
	const char *program, *ns, *title;
};
static const struct row rows[] = {
#define ROLE(id, title, program, uid, ns, text) [ROLE_##id] = { program, ns, title },
#include "../role.def"
#undef ROLE
};

static uint64_t ns_flags(const char *s)
{
	uint64_t f = 0;

	for (; *s; s++)
		f |= *s == 'U' ? CLONE_NEWUSER : *s == 'N' ? CLONE_NEWNET : *s == 'P' ? CLONE_NEWPID : *s == 'M' ? CLONE_NEWNS : *s == 'I' ? CLONE_NEWIPC : CLONE_NEWUTS;
	return f;
}

static int put_file(pid_t pid, const char *name, const char *text)
{
	char path[64];
	int fd;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	n = write(fd, text, strlen(text));
	close(fd);
	return n == (ssize_t)strlen(text) ? 0 : -1;
}

static void child_main(enum role r, int dir_fd, int link, const int *extra, unsigned extra_n, int go) __attribute__((noreturn));
static void child_main(enum role r, int dir_fd, int link, const int *extra, unsigned extra_n, int go)
{
	char *argv[] = { (char *)rows[r].program, (char *)"--role", (char *)rows[r].title, NULL };
	char *envp[] = { NULL };
	sigset_t none;
	char c;
	int null, more[CHILD_EXTRA_MAX];

	if (r != ROLE_AUDIT)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (read(go, &c, 1) != 1)
		_exit(125); /* the parent is gone, or could not set the map */
	if (syscall(SYS_setgid, 0) != 0 || syscall(SYS_setuid, 0) != 0) /* not libc's, which would ask threads that only our parent has */
		_exit(125);
	setsid(); /* no terminal, and what is typed there is the supervisor's business */
	/* audit outlives the supervisor for a moment: it closes what is open, and sees the end on its link */
	if (r != ROLE_AUDIT)
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* again: cleared by a change of credentials */
	/* out of the way of 0..4 first */
	link = fcntl(link, F_DUPFD, 10);
	dir_fd = fcntl(dir_fd, F_DUPFD_CLOEXEC, 10);
	for (unsigned i = 0; i < extra_n; i++)
		more[i] = fcntl(extra[i], F_DUPFD, 10);
	null = open("/dev/null", O_RDWR);
	if (link < 0 || dir_fd < 0 || null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(link, ROLE_LINK_FD) < 0)
		_exit(125);
	for (unsigned i = 0; i < extra_n; i++)
		if (more[i] < 0 || dup2(more[i], ROLE_LINK_FD + 1 + (int)i) < 0)
			_exit(125);
	for (int s = 1; s < 65; s++)
		signal(s, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	/* everything behind the handed descriptors but dir_fd, which closes itself */
	close_range(ROLE_LINK_FD + 1 + extra_n, (unsigned)dir_fd - 1, 0);
	close_range((unsigned)dir_fd + 1, ~0u, 0);
	syscall(SYS_execveat, dir_fd, rows[r].program, argv, envp, 0);
	dprintf(2, "sallyport: cannot execute %s beside sallyport-proxy: %s\n", rows[r].program, strerror(errno));
	_exit(126);
}

int child_spawn(enum role r, int program_dir_fd, uid_t uid, const int *extra, unsigned extra_n, struct child *out, struct err *err)
{
	int link[2] = { -1, -1 }, go[2] = { -1, -1 }, pidfd = -1, ret = -1;
	struct clone_args a = { 0 };
	char map[64];
	pid_t pid;

	MUST(r > ROLE_SUPERVISOR && r < ROLE_ANY && extra_n <= CHILD_EXTRA_MAX);
	/* a process cannot leave groups once it is in a user namespace of its own */
	if (geteuid() == 0 && getgroups(0, NULL) != 0)
		return err_set(err, EPERM, "the %s would keep root's supplementary groups (confine_drop_groups comes first)", rows[r].title);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, link) != 0 || pipe2(go, O_CLOEXEC) != 0) {
		err_errno(err, "cannot make a link for the %s", rows[r].title);
		goto out;
	}
	ipc_bar_fds(link[0], ROLE_SUPERVISOR, r);
	a.flags = ns_flags(rows[r].ns) | CLONE_PIDFD;
	a.pidfd = (uint64_t)(uintptr_t)&pidfd;
	a.exit_signal = SIGCHLD;
	pid = (pid_t)syscall(SYS_clone3, &a, sizeof(a));
	if (pid < 0) {
		err_errno(err, "cannot start the %s in namespaces of its own (user namespaces may be switched off: see `sallyport doctor`)", rows[r].title);
		goto out;
	}
	if (pid == 0) {
		close(go[1]);
		child_main(r, program_dir_fd, link[1], extra, extra_n, go[0]);
	}
	snprintf(map, sizeof(map), "0 %u 1\n", (unsigned)(geteuid() == 0 ? uid : geteuid()));
	ret = 0;
	if (put_file(pid, "setgroups", "deny") != 0 || put_file(pid, "uid_map", map) != 0)
		ret = -1;
	snprintf(map, sizeof(map), "0 %u 1\n", (unsigned)(geteuid() == 0 ? uid : getegid()));
	if (ret == 0 && put_file(pid, "gid_map", map) != 0)
		ret = -1;
	if (ret != 0) {
		err_errno(err, "cannot set the user map of the %s", rows[r].title);
		close(go[1]);
		go[1] = -1;
		waitpid(pid, NULL, 0);
		close(pidfd);
		pidfd = -1;
		goto out;
	}
	if (write(go[1], "g", 1) != 1) {
		/* it died already: its end shows on the pidfd */
	}
	*out = (struct child){ .pid = pid, .pidfd = pidfd, .link_fd = link[0] };
	link[0] = -1;
out:
	for (int i = 0; i < 2; i++) {
		if (link[i] >= 0)
			close(link[i]);
		if (go[i] >= 0)
			close(go[i]);
	}
	return ret;
}
