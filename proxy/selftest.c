/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A test build of the roles' walls: started in the namespaces of its row by the code that starts the real roles, confined by
 * the code that confines them, it then tries one forbidden thing and says how it went. One process for each (role, thing),
 * since most of them end it. Prints "ok ..." and "not ok ..." lines.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdbool.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../common/sys/child.h"
#include "../common/sys/confine.h"

/* Each returns a value >= 0 if the forbidden thing was possible. */
static long do_open_passwd(void) { return open("/etc/passwd", O_RDONLY); }
static long do_open_root(void) { return syscall(SYS_openat, AT_FDCWD, "/", O_RDONLY | O_DIRECTORY, 0); }
static long do_create(void) { return syscall(SYS_openat, AT_FDCWD, "/x", O_WRONLY | O_CREAT, 0600); }
static long do_proc(void) { return syscall(SYS_openat, AT_FDCWD, "/proc/1/environ", O_RDONLY, 0); }
static long do_tcp(void) { return socket(AF_INET, SOCK_STREAM, 0); }
static long do_tcp6(void) { return socket(AF_INET6, SOCK_STREAM, 0); }
static long do_udp(void) { return socket(AF_INET, SOCK_DGRAM, 0); }
static long do_unix(void) { return socket(AF_UNIX, SOCK_STREAM, 0); }
static long do_netlink(void) { return socket(AF_NETLINK, SOCK_RAW, 12); }
static long do_packet(void) { return socket(17, SOCK_RAW, 0); }
static long do_vsock(void) { return socket(40, SOCK_STREAM, 0); }
static long do_socketpair(void)
{
	int sv[2];
	return socketpair(AF_UNIX, SOCK_STREAM, 0, sv);
}
static long do_connect(void)
{
	struct sockaddr_in s = { .sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	return connect(ROLE_LINK_FD, (struct sockaddr *)&s, sizeof(s));
}
static long do_repoint(void)
{
	struct sockaddr s = { .sa_family = AF_UNSPEC };
	return connect(ROLE_LINK_FD, &s, sizeof(s));
}
static long do_bind(void)
{
	struct sockaddr_in s = { .sin_family = AF_INET };
	return bind(ROLE_LINK_FD, (struct sockaddr *)&s, sizeof(s));
}
static long do_listen(void) { return listen(ROLE_LINK_FD, 1); }
static long do_kill_parent(void) { return kill(getppid() > 0 ? getppid() : -1, 0); }
static long do_kill_all(void) { return kill(-1, 0); }
static long do_fork(void) { return syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); }
static long do_thread(void) { return syscall(SYS_clone3, NULL, 0); }
static long do_exec(void)
{
	char *none[] = { NULL };
	return execve("/proc/self/exe", none, none);
}
static long do_ptrace(void) { return ptrace(PTRACE_TRACEME, 0, NULL, NULL); }
static long do_mount(void) { return mount("none", "/", "tmpfs", 0, NULL); }
static long do_unshare(void) { return unshare(CLONE_NEWUSER); }
static long do_setuid(void) { return setuid(0); }
static long do_exec_memory(void)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return p == MAP_FAILED ? -1 : 0;
}
static long do_make_exec(void)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return p == MAP_FAILED ? -1 : mprotect(p, 4096, PROT_READ | PROT_EXEC);
}
static long do_process_vm(void) { return syscall(SYS_process_vm_readv, getppid(), NULL, 0, NULL, 0, 0); }
static long do_pidfd(void) { return syscall(SYS_pidfd_open, 1, 0); }
static long do_io_uring(void) { return syscall(425, 1, NULL); }
static long do_memfd(void) { return memfd_create("x", 0); }
static long do_prctl(void) { return syscall(SYS_prctl, 4 /* PR_SET_DUMPABLE */, 1, 0, 0, 0); }
static long do_chmod(void) { return chmod("/", 0777); }
/* What must stay possible, so that "impossible" above means something. */
static long do_report(void) { return 0; }

#ifdef SP_SANITIZED
#define MAY_PRCTL "wdcsak" /* the sanitizers' run time needs prctl */
#else
#define MAY_PRCTL ""
#endif
static const struct act {
	const char *text;
	long (*fn)(void);
	const char *may; /* letters of roles for which it is possible */
} acts[] = {
	{ "report over its link", do_report, "WDCSAK" }, { "open /etc/passwd", do_open_passwd, "" }, { "open a directory", do_open_root, "" },
	{ "create a file", do_create, "" }, { "read another process's environment", do_proc, "" }, { "make a TCP socket", do_tcp, "D" },
	{ "make a TCP socket (v6)", do_tcp6, "D" }, { "make a UDP socket", do_udp, "D" }, { "make a unix socket", do_unix, "" },
	{ "make a netfilter socket", do_netlink, "" }, { "make a packet socket", do_packet, "" }, { "make a vsock socket", do_vsock, "" },
	{ "make a socket pair", do_socketpair, "" }, { "connect a socket it was given", do_connect, "" }, { "re-point a socket it was given", do_repoint, "d" },
	{ "bind", do_bind, "" }, { "listen", do_listen, "" }, { "signal its parent", do_kill_parent, "" }, { "signal everyone", do_kill_all, "" },
	{ "fork", do_fork, "" }, { "start a thread", do_thread, "" }, { "execute a program", do_exec, "" }, { "be traced", do_ptrace, "" },
	{ "mount", do_mount, "" }, { "make a user namespace", do_unshare, "" }, { "change its user", do_setuid, "" },
	{ "map memory to execute", do_exec_memory, "" }, { "make memory executable", do_make_exec, "" }, { "read its parent's memory", do_process_vm, "" },
	{ "open a process", do_pidfd, "" }, { "use io_uring", do_io_uring, "" }, { "make a memfd", do_memfd, "" }, { "become dumpable", do_prctl, MAY_PRCTL },
	{ "change a mode", do_chmod, "" },
};
#define ACTS (sizeof(acts) / sizeof(acts[0]))

static const struct {
	enum role role;
	const char *title, *program;
	char letter;
} roles[] = { { ROLE_WORKER, "worker", "sallyport-proxy", 'W' }, { ROLE_DIALER, "dialer", "sallyport-proxy", 'D' }, { ROLE_CA, "ca", "sallyport-ca", 'C' },
	{ ROLE_SECRETS, "secrets", "sallyport-secrets", 'S' }, { ROLE_AUDIT, "audit", "sallyport-proxy", 'A' }, { ROLE_CHECKER, "checker", "sallyport-proxy", 'K' } };
#define ROLES (sizeof(roles) / sizeof(roles[0]))

static int child(const char *title)
{
	struct confine c = { .dir_fd = -1 };
	struct err err = ERR_INIT;
	unsigned char n;
	long r;

	if (read(ROLE_LINK_FD, &n, 1) != 1 || n >= ACTS)
		return 3;
	for (size_t i = 0; i < ROLES; i++) {
		if (strcmp(title, roles[i].title) != 0)
			continue;
		if (confine_role(roles[i].role, &c, &err) < 0) {
			fprintf(stderr, "confine %s: %s\n", title, err.text);
			return 4;
		}
		r = acts[n].fn();
		n = r >= 0 ? 'Y' : 'N';
		if (write(ROLE_LINK_FD, &n, 1) != 1)
			return 5;
		_exit(0);
	}
	return 3;
}

int main(int argc, char **argv)
{
	char self[4096], dir[] = "/tmp/sp-selftest-XXXXXX", path[4200];
	ssize_t k = readlink("/proc/self/exe", self, sizeof(self) - 1);
	unsigned bad = 0;
	int dir_fd;

	if (argc == 3 && strcmp(argv[1], "--role") == 0)
		return child(argv[2]);
	if (k <= 0 || mkdtemp(dir) == NULL)
		return 1;
	self[k] = 0;
	chmod(dir, 0755);
	/* copies, not links: the role's user must be able to read it */
	for (size_t i = 0; i < ROLES; i++) {
		snprintf(path, sizeof(path), "cp -f '%s' '%s/%s' && chmod 755 '%s/%s'", self, dir, roles[i].program, dir, roles[i].program);
		if (system(path) != 0)
			return 1;
	}
	dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	for (size_t i = 0; i < ROLES; i++) {
		for (unsigned n = 0; n < ACTS; n++) {
			struct child c;
			struct err err = ERR_INIT;
			unsigned char b = (unsigned char)n;
			int status = 0;
			bool possible, may = strchr(acts[n].may, roles[i].letter) != NULL, skip = strchr(acts[n].may, roles[i].letter + 32) != NULL;

			if (skip)
				continue;
			if (child_spawn(roles[i].role, dir_fd, 61900 + (uid_t)i, -1, &c, &err) < 0) {
				printf("not ok role %s starts: %s\n", roles[i].title, err.text);
				bad++;
				break;
			}
			if (write(c.link_fd, &b, 1) != 1)
				b = 'E';
			possible = read(c.link_fd, &b, 1) == 1 && b == 'Y';
			waitpid(c.pid, &status, 0);
			close(c.link_fd);
			close(c.pidfd);
			/* confinement itself failing is a failure, not a wall */
			if (WIFEXITED(status) && WEXITSTATUS(status) != 0) {
				printf("not ok role %s: %s (exit %d)\n", roles[i].title, acts[n].text, WEXITSTATUS(status));
				bad++;
			} else if (possible != may) {
				printf("not ok role %s %s %s\n", roles[i].title, may ? "can" : "cannot", acts[n].text);
				bad++;
			} else {
				printf("ok role %s %s %s%s\n", roles[i].title, may ? "can" : "cannot", acts[n].text, WIFSIGNALED(status) ? " (killed)" : "");
			}
		}
	}
	snprintf(path, sizeof(path), "rm -rf '%s'", dir);
	if (system(path) != 0)
		bad++;
	return bad != 0;
}
