/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A test build of the roles' walls: started in the namespaces of its row by the code that starts the real roles, confined
 * by the code that confines them, it then tries one forbidden thing and says how it went. One process for each (role,
 * thing), since most of them end it. Prints "ok ..." and "not ok ..." lines.
 *
 * Most things must end the process (SIGSYS). Some may instead be refused with an error, where a library tries them and
 * goes on without; `refused` names the roles. `can` names the roles for which the thing must work: without those lines a
 * role that could do nothing at all would look well confined.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../common/sys/child.h"
#include "../common/sys/confine.h"

#define EXTRA_FD (ROLE_LINK_FD + 1)
#define UID_FIRST 61900
#define INSIDE "inside"   /* a file in the directory that audit is given */
#define OUTSIDE "../outside"

static pid_t parent; /* as the world outside knows it */

/* Each returns a value >= 0 if the thing was possible. */
static long do_report(void) { return 0; }
static long do_memory(void) { return mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? -1 : 0; }

/* files */
static long do_open_passwd(void) { return syscall(SYS_open, "/etc/passwd", O_RDONLY); }
static long do_openat_passwd(void) { return syscall(SYS_openat, AT_FDCWD, "/etc/passwd", O_RDONLY, 0); }
static long do_openat2(void)
{
	uint64_t how[3] = { O_RDONLY };

	return syscall(437, AT_FDCWD, "/", how, sizeof(how));
}
static long do_open_root(void) { return syscall(SYS_openat, AT_FDCWD, "/", O_RDONLY | O_DIRECTORY, 0); }
static long do_create(void) { return syscall(SYS_openat, AT_FDCWD, "/x", O_WRONLY | O_CREAT, 0600); }
static long do_proc_self(void) { return syscall(SYS_openat, AT_FDCWD, "/proc/self/status", O_RDONLY, 0); }
static long do_proc_environ(void) { return syscall(SYS_openat, AT_FDCWD, "/proc/1/environ", O_RDONLY, 0); }
static long do_stat_passwd(void)
{
	struct stat st;

	return syscall(SYS_newfstatat, AT_FDCWD, "/etc/passwd", &st, 0);
}
static long do_mkdir(void) { return mkdir("/x", 0700); }
static long do_link(void) { return link("/proc/self/exe", "/x"); }
static long do_rename(void) { return syscall(SYS_renameat, AT_FDCWD, "/a", AT_FDCWD, "/b"); }
static long do_unlink(void) { return syscall(SYS_unlinkat, AT_FDCWD, "/x", 0); }
static long do_chmod(void) { return chmod("/", 0777); }
static long do_chown(void) { return chown("/", 0, 0); }
static long do_getdents(void)
{
	char buf[512];

	return syscall(SYS_getdents64, EXTRA_FD, buf, sizeof(buf));
}
static long do_own_dir(void) { return syscall(SYS_openat, EXTRA_FD, "new", O_RDWR | O_CREAT | O_CLOEXEC, 0600); }
static long do_own_file(void) { return syscall(SYS_openat, EXTRA_FD, INSIDE, O_RDWR | O_CLOEXEC, 0); }
static long do_beside_dir(void) { return syscall(SYS_openat, EXTRA_FD, OUTSIDE, O_RDONLY, 0); }
static long do_above_dir(void) { return syscall(SYS_openat, EXTRA_FD, "..", O_RDONLY | O_DIRECTORY, 0); }
static long do_host_root(void) { return syscall(SYS_openat, EXTRA_FD, "../../../../../../../../etc/passwd", O_RDONLY, 0); }
static long do_create_above(void) { return syscall(SYS_openat, EXTRA_FD, "../made", O_WRONLY | O_CREAT, 0600); }
static long do_rename_out(void) { return syscall(SYS_renameat, EXTRA_FD, INSIDE, EXTRA_FD, "../moved"); }
static long do_unlink_above(void) { return syscall(SYS_unlinkat, EXTRA_FD, OUTSIDE, 0); }
static long do_mkdir_own(void) { return mkdirat(EXTRA_FD, "sub", 0700); }
static long do_symlink_own(void) { return symlinkat("/etc/passwd", EXTRA_FD, "link"); }

/* sockets */
static long do_tcp(void) { return socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); }
static long do_tcp6(void) { return socket(AF_INET6, SOCK_STREAM, IPPROTO_TCP); }
static long do_udp(void) { return socket(AF_INET, SOCK_DGRAM, 0); }
static long do_route(void) { return socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0); }
static long do_unix(void) { return socket(AF_UNIX, SOCK_STREAM, 0); }
static long do_netfilter(void) { return socket(AF_NETLINK, SOCK_RAW, 12); }
static long do_raw(void) { return socket(AF_INET, SOCK_RAW, IPPROTO_ICMP); }
static long do_ping(void) { return socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP); }
static long do_mptcp(void) { return socket(AF_INET, SOCK_STREAM, 262); }
static long do_udplite(void) { return socket(AF_INET, SOCK_DGRAM, 136); }
static long do_packet(void) { return socket(17, SOCK_RAW, 0); }
static long do_vsock(void) { return socket(40, SOCK_STREAM, 0); }
static long do_alg(void) { return socket(38, SOCK_SEQPACKET, 0); }
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
static long do_bind_tcp(void) /* of a socket of its own: a role that may make one must not serve on it */
{
	struct sockaddr_in s = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	return fd < 0 ? -1 : bind(fd, (struct sockaddr *)&s, sizeof(s)) != 0 ? -1 : listen(fd, 1);
}
static long do_listen(void) { return listen(ROLE_LINK_FD, 1); }
static long do_filter_option(void)
{
	int one = 1;

	return setsockopt(ROLE_LINK_FD, IPPROTO_IP, 64 /* IPT_SO_SET_REPLACE */, &one, sizeof(one));
}
static long do_transparent(void)
{
	int one = 1;

	return setsockopt(ROLE_LINK_FD, IPPROTO_IP, 19 /* IP_TRANSPARENT */, &one, sizeof(one));
}
static long do_ioctl(void)
{
	char ifr[40] = "lo";

	return ioctl(ROLE_LINK_FD, 0x8913 /* SIOCGIFFLAGS */, ifr);
}
static long do_tiocsti(void)
{
	char c = 'x';

	return ioctl(2, TIOCSTI, &c);
}

/* processes */
static long do_kill_supervisor(void) { return kill(parent, 0); }
static long do_kill_all(void) { return kill(-1, 0); }
static long do_kill_self(void) { return kill(getpid(), 0); }
static long do_tgkill_supervisor(void) { return syscall(SYS_tgkill, parent, parent, 0); }
static long do_sigqueue(void)
{
	siginfo_t si = { .si_code = SI_QUEUE };

	return syscall(SYS_rt_sigqueueinfo, parent, SIGUSR1, &si);
}
static long do_pidfd(void) { return syscall(SYS_pidfd_open, parent, 0); }
static long do_setown(void) { return fcntl(ROLE_LINK_FD, F_SETOWN, parent); }
static long do_fork(void)
{
	long r = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

	if (r == 0)
		_exit(0);
	return r;
}
static long do_vfork(void)
{
	long r = syscall(SYS_fork);

	if (r == 0)
		_exit(0);
	return r;
}
static long do_clone3(void) { return syscall(SYS_clone3, NULL, 0) < 0 && errno == ENOSYS ? -1 : 0; }
static long do_exec(void)
{
	char *none[] = { NULL };

	return execve("/proc/self/exe", none, none);
}
static long do_execveat(void)
{
	char *none[] = { NULL };

	return syscall(SYS_execveat, EXTRA_FD, "", none, none, AT_EMPTY_PATH);
}
static long do_ptrace(void) { return ptrace(PTRACE_TRACEME, 0, NULL, NULL); }
static long do_process_vm(void) { return syscall(SYS_process_vm_readv, parent, NULL, 0, NULL, 0, 0); }
static long do_exec_memory(void) { return mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? -1 : 0; }
static long do_make_exec(void)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? -1 : mprotect(p, 4096, PROT_READ | PROT_EXEC);
}
static long do_pkey_exec(void) { return syscall(SYS_pkey_mprotect, NULL, 0, PROT_EXEC, -1); }
static long do_memfd(void) { return syscall(SYS_memfd_create, "x", 0); }

/* privileges */
static long do_mount(void) { return mount("none", "/", "tmpfs", 0, NULL); }
static long do_remount(void) { return mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND, NULL); }
static long do_pivot(void) { return syscall(SYS_pivot_root, ".", "."); }
static long do_chroot(void) { return chroot("/"); }
static long do_unshare(void) { return unshare(CLONE_NEWUSER); }
static long do_setns(void) { return setns(ROLE_LINK_FD, 0); }
static long do_setuid(void) { return setuid(0); }
static long do_setgroups(void) { return syscall(SYS_setgroups, 0, NULL); }
static long do_capset(void) { return syscall(SYS_capset, NULL, NULL); }
static long do_dumpable(void) { return syscall(SYS_prctl, PR_SET_DUMPABLE, 1, 0, 0, 0); }
static long do_setrlimit(void) { return syscall(SYS_setrlimit, 4, NULL); }
static long do_personality(void) { return syscall(SYS_personality, 0xffffffff); }
static long do_bpf(void) { return syscall(SYS_bpf, 0, NULL, 0); }
static long do_io_uring(void) { return syscall(425, 1, NULL); }
static long do_keyctl(void) { return syscall(SYS_keyctl, 0, -3, 0); }
static long do_userfaultfd(void) { return syscall(SYS_userfaultfd, 0); }
static long do_perf(void) { return syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0); }
static long do_seccomp(void) { return syscall(SYS_seccomp, 0, 0, NULL); }
#ifdef __x86_64__
static long do_x32(void) { return syscall(0x40000000 + 39); }
static long do_32bit(void) /* getpid by the numbers of i386 */
{
	long r;

	__asm__ volatile("int $0x80" : "=a"(r) : "a"(20L) : "memory");
	return r;
}
#endif

/* how it was started */
static long do_descriptors(void) /* any but the five that were handed over */
{
	for (int fd = EXTRA_FD + 1; fd < 4096; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			return fd;
	return -1;
}
static long do_environment(void)
{
	extern char **environ;

	return environ != NULL && environ[0] != NULL ? 0 : -1;
}

#define ALL "WDCSAK"
#ifdef SP_SANITIZED
#define LOOK ALL /* looking for a file is refused and not fatal: reports look for maps and symbols */
#define LOOK_AT "WDCSK"
#else
#define LOOK "D"
#define LOOK_AT "D"
#endif
static const struct act {
	const char *text;
	long (*fn)(void);
	const char *can, *refused; /* letters of roles */
} acts[] = {
	{ "report over its link", do_report, ALL, "" },
	{ "use memory", do_memory, ALL, "" },
	{ "open /etc/passwd (open)", do_open_passwd, "", LOOK },
	{ "open /etc/passwd (openat)", do_openat_passwd, "", LOOK_AT "A" },
	{ "open by openat2", do_openat2, "", "" },
	{ "open the root directory", do_open_root, "", LOOK_AT "A" },
	{ "create a file", do_create, "", LOOK_AT "A" },
	{ "read /proc/self", do_proc_self, "", LOOK_AT "A" },
	{ "read another process's environment", do_proc_environ, "", LOOK_AT "A" },
	{ "find /etc/passwd", do_stat_passwd, "", ALL },
	{ "make a directory", do_mkdir, "", "" },
	{ "link a file", do_link, "", "" },
	{ "rename a file", do_rename, "", "A" },
	{ "remove a file", do_unlink, "", "A" },
	{ "change a mode", do_chmod, "", "" },
	{ "change an owner", do_chown, "", "" },
	{ "list its own directory", do_getdents, "A", "" },
	{ "create a file in its own directory", do_own_dir, "A", LOOK_AT },
	{ "open a file in its own directory", do_own_file, "A", LOOK_AT },
	{ "open a file beside its own directory", do_beside_dir, "", LOOK_AT "A" },
	{ "open the directory above its own", do_above_dir, "", LOOK_AT "A" },
	{ "reach the host's files from its own directory", do_host_root, "", LOOK_AT "A" },
	{ "create a file above its own directory", do_create_above, "", LOOK_AT "A" },
	{ "move a file out of its own directory", do_rename_out, "", "A" },
	{ "remove a file beside its own directory", do_unlink_above, "", "A" },
	{ "make a directory in its own", do_mkdir_own, "", "" },
	{ "make a symbolic link in its own directory", do_symlink_own, "", "" },

	{ "make a TCP socket", do_tcp, "D", "" },
	{ "make a TCP socket (v6)", do_tcp6, "D", "" },
	{ "make a UDP socket", do_udp, "D", "" },
	{ "make a route socket", do_route, "D", "" },
	{ "make a unix socket", do_unix, "", "D" },
	{ "make a netfilter socket", do_netfilter, "", "" },
	{ "make a raw socket", do_raw, "", "" },
	{ "make a ping socket", do_ping, "", "" },
	{ "make an MPTCP socket", do_mptcp, "", "" },
	{ "make a UDP-Lite socket", do_udplite, "", "" },
	{ "make a packet socket", do_packet, "", "" },
	{ "make a vsock socket", do_vsock, "", "" },
	{ "make a crypto socket", do_alg, "", "" },
	{ "make a socket pair", do_socketpair, "D", "" },
	{ "connect a socket it was given", do_connect, "", "DS" },
	{ "re-point a socket it was given", do_repoint, "", "DS" },
	{ "bind a socket it was given", do_bind, "", "D" },
	{ "serve on a TCP port", do_bind_tcp, "", "D" }, /* Landlock refuses its bind; listen would end it */
	{ "listen on a socket it was given", do_listen, "", "" },
	{ "replace packet filters", do_filter_option, "", "" },
	{ "make a socket transparent", do_transparent, "", "" },
	{ "configure an interface", do_ioctl, "", "D" },
	{ "type into a terminal", do_tiocsti, "", "D" },

	{ "signal the supervisor", do_kill_supervisor, "", "" },
	{ "signal everyone", do_kill_all, "", "" },
	{ "signal itself", do_kill_self, "", "" },
	{ "signal the supervisor's thread", do_tgkill_supervisor, "", ALL },
	{ "queue a signal for the supervisor", do_sigqueue, "", "" },
	{ "open the supervisor's process", do_pidfd, "", "" },
	{ "have signals sent by a descriptor", do_setown, "", "" },
	{ "fork", do_fork, "", "" },
	{ "fork (old call)", do_vfork, "", "" },
	{ "start a thread", do_clone3, "", "" },
	{ "execute a program", do_exec, "", "" },
	{ "execute a descriptor", do_execveat, "", "" },
	{ "be traced", do_ptrace, "", "" },
	{ "read the supervisor's memory", do_process_vm, "", "" },
	{ "map memory to execute", do_exec_memory, "", "" },
	{ "make memory executable", do_make_exec, "", "" },
	{ "make memory executable by a key", do_pkey_exec, "", "" },
	{ "make a memfd", do_memfd, "", "" },

	{ "mount", do_mount, "", "" },
	{ "make its root writable", do_remount, "", "" },
	{ "change its root (pivot_root)", do_pivot, "", "" },
	{ "change its root (chroot)", do_chroot, "", "" },
	{ "make a user namespace", do_unshare, "", "" },
	{ "enter a namespace", do_setns, "", "" },
	{ "change its user", do_setuid, "", "" },
	{ "change its groups", do_setgroups, "", "" },
	{ "change its capabilities", do_capset, "", "" },
	{ "become dumpable", do_dumpable, "", "" },
	{ "raise a limit", do_setrlimit, "", "" },
	{ "change its personality", do_personality, "", "" },
	{ "load a kernel program", do_bpf, "", "" },
	{ "use io_uring", do_io_uring, "", "" },
	{ "use kernel keys", do_keyctl, "", "" },
	{ "handle page faults", do_userfaultfd, "", "" },
	{ "observe the kernel", do_perf, "", "" },
	{ "change its filter", do_seccomp, "", "" },
#ifdef __x86_64__
	{ "use the numbers of x32", do_x32, "", "" },
	{ "use the numbers of i386", do_32bit, "", "" },
#endif
	{ "see a descriptor that it was not given", do_descriptors, "", ALL },
	{ "see an environment", do_environment, "", ALL },
};
#define ACTS (sizeof(acts) / sizeof(acts[0]))

static const struct {
	enum role role;
	const char *title, *program;
	char letter;
} roles[] = {
	{ ROLE_WORKER, "worker", "sallyport-proxy", 'W' }, { ROLE_DIALER, "dialer", "sallyport-proxy", 'D' }, { ROLE_CA, "ca", "sallyport-ca", 'C' },
	{ ROLE_SECRETS, "secrets", "sallyport-secrets", 'S' }, { ROLE_AUDIT, "audit", "sallyport-proxy", 'A' }, { ROLE_CHECKER, "checker", "sallyport-proxy", 'K' },
};
#define ROLES (sizeof(roles) / sizeof(roles[0]))

struct order {
	uint32_t act;
	int32_t parent;
};

/* --- the confined side --------------------------------------------------------------------------------------------- */

static int child(const char *title)
{
	struct err err = ERR_INIT;
	struct order o;
	char answer = 'R';
	long r;

	for (size_t i = 0; i < ROLES; i++) {
		struct confine c = { .dir_fd = roles[i].role == ROLE_AUDIT ? EXTRA_FD : -1 };

		if (strcmp(title, roles[i].title) != 0)
			continue;
		if (confine_role(roles[i].role, &c, &err) < 0) {
			fprintf(stderr, "confine %s: %s\n", title, err.text);
			return 4;
		}
		/* the order comes behind the walls: until then it can be looked at from outside */
		if (write(ROLE_LINK_FD, &answer, 1) != 1 || read(ROLE_LINK_FD, &o, sizeof(o)) != sizeof(o) || o.act >= ACTS)
			_exit(3);
		parent = o.parent;
		r = acts[o.act].fn();
		answer = r >= 0 ? 'Y' : 'N';
		_exit(write(ROLE_LINK_FD, &answer, 1) == 1 ? 0 : 5);
	}
	return 3;
}

/* --- the side that watches ----------------------------------------------------------------------------------------- */

static unsigned bad;

static void line(bool ok, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void line(bool ok, const char *fmt, ...)
{
	va_list ap;

	printf(ok ? "ok roles: " : "not ok roles: ");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	bad += !ok;
}

/* A line of /proc/PID/status; "" if there is none. */
static void status_field(pid_t pid, const char *name, char out[256])
{
	char path[64], text[256];
	FILE *f;

	out[0] = 0;
	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = fopen(path, "re");
	while (f != NULL && fgets(text, sizeof(text), f) != NULL) {
		size_t n = strlen(name);

		if (strncmp(text, name, n) == 0 && text[n] == ':') {
			text[strcspn(text, "\n")] = 0;
			snprintf(out, 256, "%s", text + n + 1 + strspn(text + n + 1, "\t "));
		}
	}
	if (f != NULL)
		fclose(f);
}

/*
 * Whether a process of the same user in a user namespace beside the role's, as a sandbox is, can look into it. (Whoever
 * started the gateway can: who made a user namespace has every capability in it.)
 */
static bool seen_from_sandbox(pid_t role)
{
	static const char *const files[] = { "environ", "mem", "fd/3", "root/", "maps" };
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		char path[64];

		if (unshare(CLONE_NEWUSER) != 0)
			_exit(2);
		for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
			snprintf(path, sizeof(path), "/proc/%d/%s", (int)role, files[i]);
			if (open(path, O_RDONLY) >= 0)
				_exit(1);
		}
		_exit(0);
	}
	return pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

/* What the kernel says of a confined role. */
static void look_at(pid_t pid, const char *title, uid_t uid)
{
	static const struct {
		const char *field, *value, *text;
	} rows[] = {
		{ "CapEff", "0000000000000000", "has no capability" }, { "CapPrm", "0000000000000000", "is permitted no capability" },
		{ "CapInh", "0000000000000000", "inherits no capability" }, { "CapBnd", "0000000000000000", "can be given no capability" },
		{ "CapAmb", "0000000000000000", "has no ambient capability" }, { "NoNewPrivs", "1", "gets no new privileges" }, { "Seccomp", "2", "has a filter" },
	};
	static const char *const ns[] = { "user", "mnt", "pid", "ipc", "uts", "net" };
	char v[256], want[64], a[64], b[64], path[64];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		status_field(pid, rows[i].field, v);
		line(strcmp(v, rows[i].value) == 0, "%s %s (%s %s)", title, rows[i].text, rows[i].field, v);
	}
	line(!seen_from_sandbox(pid), "%s cannot be looked into from a sandbox of its user", title);
	snprintf(want, sizeof(want), "%u\t%u\t%u\t%u", uid, uid, uid, uid);
	status_field(pid, "Uid", v);
	line(strcmp(v, want) == 0, "%s runs as user %u (%s)", title, uid, v);
	if (geteuid() == 0) {
		status_field(pid, "Groups", v);
		line(v[0] == 0, "%s has no supplementary group (%s)", title, v);
		for (size_t i = 0; i < sizeof(ns) / sizeof(ns[0]); i++) {
			bool shared = strcmp(ns[i], "net") == 0 && strcmp(title, "dialer") == 0;
			ssize_t n, k;

			snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)pid, ns[i]);
			n = readlink(path, a, sizeof(a));
			snprintf(path, sizeof(path), "/proc/self/ns/%s", ns[i]);
			k = readlink(path, b, sizeof(b));
			line(n > 0 && k > 0 && (n == k && memcmp(a, b, (size_t)n) == 0) == shared, "%s has %s %s namespace", title, shared ? "the host's" : "its own", ns[i]);
		}
	}
}

/* One role, one thing. False: the role does not even start. */
static bool try_act(size_t i, size_t n, int programs, int dir)
{
	const char letter[] = { roles[i].letter, 0 };
	bool can = strchr(acts[n].can, letter[0]) != NULL, refused = strchr(acts[n].refused, letter[0]) != NULL;
	struct order o = { (uint32_t)n, (int32_t)getpid() };
	uid_t uid = geteuid() == 0 ? UID_FIRST + (uid_t)i : geteuid();
	struct child c;
	struct err err = ERR_INIT;
	char answer = 0;
	int status = 0;

	if (child_spawn(roles[i].role, programs, UID_FIRST + (uid_t)i, &dir, 1, &c, &err) < 0) {
		line(false, "%s starts: %s", roles[i].title, err.text);
		return false;
	}
	if (read(c.link_fd, &answer, 1) != 1 || answer != 'R') {
		waitpid(c.pid, &status, 0);
		line(false, "%s confines itself (status %x)", roles[i].title, status);
		close(c.link_fd);
		close(c.pidfd);
		return false;
	}
	if (n == 0)
		look_at(c.pid, roles[i].title, uid);
	if (write(c.link_fd, &o, sizeof(o)) != sizeof(o) || read(c.link_fd, &answer, 1) != 1)
		answer = 0;
	waitpid(c.pid, &status, 0);
	close(c.link_fd);
	close(c.pidfd);
	if (can)
		line(answer == 'Y', "%s can %s", roles[i].title, acts[n].text);
	else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS)
		line(true, "%s cannot %s (ended)", roles[i].title, acts[n].text);
	else
		line(refused && answer == 'N', "%s cannot %s (%s, status %x)", roles[i].title, acts[n].text, answer == 'Y' ? "it could" : refused ? "refused" : "it should have been ended", status);
	return true;
}

static int copy_file(const char *from, const char *to)
{
	int in = open(from, O_RDONLY | O_CLOEXEC), out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755), ret = -1;
	ssize_t n = 1;

	while (in >= 0 && out >= 0 && n > 0)
		n = sendfile(out, in, NULL, 1 << 20);
	if (in >= 0 && out >= 0 && n == 0 && fchmod(out, 0755) == 0)
		ret = 0;
	if (in >= 0)
		close(in);
	if (out >= 0)
		close(out);
	return ret;
}

static int make_file(const char *path, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, mode);

	if (fd < 0)
		return -1;
	fchmod(fd, mode);
	close(fd);
	return 0;
}

int main(int argc, char **argv)
{
	/* roles' programs, and what is audit's: DIR/audit with a file in it, and DIR/outside that everybody could read */
	static const char *const names[] = { "sallyport-proxy", "sallyport-ca", "sallyport-secrets", "audit/" INSIDE, "audit/new", "outside", "made", "moved" };
	const char *tmp = getenv("TMPDIR");
	char dir[256], path[300];
	int programs, audit, ret = 1;
	struct err err = ERR_INIT;

	if (argc == 3 && strcmp(argv[1], "--role") == 0)
		return child(argv[2]);
	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGPIPE, SIG_IGN);
	umask(022);
	if (confine_drop_groups(&err) < 0)
		return fprintf(stderr, "%s\n", err.text), 1;
	snprintf(dir, sizeof(dir), "%.200s/sp-selftest-XXXXXX", tmp != NULL ? tmp : "/tmp");
	if (mkdtemp(dir) == NULL || chmod(dir, 0777) != 0)
		return perror(dir), 1;
	for (size_t i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		if (copy_file("/proc/self/exe", path) != 0) {
			perror(path);
			goto out;
		}
	}
	snprintf(path, sizeof(path), "%s/audit", dir);
	mkdir(path, 0777);
	chmod(path, 0777);
	audit = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	programs = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	snprintf(path, sizeof(path), "%s/audit/%s", dir, INSIDE);
	make_file(path, 0666);
	snprintf(path, sizeof(path), "%s/outside", dir);
	make_file(path, 0666);
	if (audit < 0 || programs < 0) {
		perror(dir);
		goto out;
	}
	for (size_t i = 0; i < ROLES; i++)
		for (size_t n = 0; n < ACTS; n++)
			if (!try_act(i, n, programs, audit))
				break;
	ret = bad != 0;
out:
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		unlink(path);
	}
	snprintf(path, sizeof(path), "%s/audit", dir);
	rmdir(path);
	rmdir(dir);
	return ret;
}
