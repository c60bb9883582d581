/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walls of a role. Which system call a role has is a row of syscalls.def; what a row's arguments may be stands here.
 *
 * When a role ends by SIGSYS ("a system call outside its row"), the call is found in one of two ways:
 *  - the kernel log has a line of type 1326 with `syscall=N` (`journalctl -k`, `dmesg`); `scmp_sys_resolver N` names it;
 *  - `make VARIANT=debug CFLAGS=-DSP_CONFINE_TRAP` builds programs in which the filter raises SIGSYS instead of killing,
 *    and a handler writes the call's name and the role to standard error before the process ends. Such a build is for
 *    finding the call and nothing else: a trap can be handled, a kill cannot.
 */
#include "confine.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <netinet/in.h>
#include <seccomp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "log.h"

/* Of Landlock's later versions; the headers of the oldest system that we build on do not have them. */
#define FS_REFER (1ULL << 13)     /* ABI 2 */
#define FS_TRUNCATE (1ULL << 14)  /* ABI 3 */
#define FS_IOCTL_DEV (1ULL << 15) /* ABI 5 */
#define NET_BIND_TCP (1ULL << 0)  /* ABI 4 */
#define NET_CONNECT_TCP (1ULL << 1)
#define SCOPE_ABSTRACT_UNIX_SOCKET (1ULL << 0) /* ABI 6 */
#define SCOPE_SIGNAL (1ULL << 1)

struct call {
	int nr;
	const char *name, *roles;
};
static const struct call calls[] = {
#define CALL(name, roles, reason) { SCMP_SYS(name), #name, roles },
#ifdef SP_SANITIZED
#define SAN(name, roles, reason) { SCMP_SYS(name), #name, roles },
#else
#define SAN(name, roles, reason)
#endif
#define DENY(name, reason)
#include "syscalls.def"
#undef CALL
#undef SAN
#undef DENY
};
static const struct call denied[] = {
#define CALL(name, roles, reason)
#define SAN(name, roles, reason)
#define DENY(name, reason) { SCMP_SYS(name), #name, "" },
#include "syscalls.def"
#undef CALL
#undef SAN
#undef DENY
};

static char letter(enum role r)
{
	switch (r) {
	case ROLE_WORKER:
		return 'W';
	case ROLE_DIALER:
		return 'D';
	case ROLE_CA:
		return 'C';
	case ROLE_SECRETS:
		return 'S';
	case ROLE_AUDIT:
		return 'A';
	case ROLE_CHECKER:
		return 'K';
	default:
		return 0;
	}
}

/* --- root, capabilities, Landlock ---------------------------------------------------------------------------------- */

/* A root with nothing in it, read-only. /proc is only a place to mount over: it exists on every system. */
static int empty_root(struct err *err)
{
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
		return err_errno(err, "cannot make mounts private");
	if (mount("none", "/proc", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=4k,nr_inodes=2,mode=0555") != 0)
		return err_errno(err, "cannot mount an empty root");
	if (chdir("/proc") != 0 || syscall(SYS_pivot_root, ".", ".") != 0 || umount2(".", MNT_DETACH) != 0 || chdir("/") != 0)
		return err_errno(err, "cannot enter the empty root");
	if (mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) != 0)
		return err_errno(err, "cannot make the empty root read-only");
	return 0;
}

/* Keeps those in the mask (effective and permitted), out of every set otherwise; the bounding set as well. */
static int keep_capabilities(uint64_t keep, struct err *err)
{
	struct __user_cap_header_struct h = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct d[2] = { { 0 } };

	for (unsigned c = 0; c < 64; c++) {
		if (keep & 1ULL << c)
			continue;
		if (prctl(PR_CAPBSET_DROP, c, 0, 0, 0) != 0) {
			if (errno == EINVAL)
				break; /* behind the last that this kernel knows */
			return err_errno(err, "cannot drop capability %u from the bounding set", c);
		}
	}
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0)
		return err_errno(err, "cannot clear the ambient capabilities");
	for (unsigned i = 0; i < 2; i++)
		d[i].effective = d[i].permitted = (uint32_t)(keep >> (32 * i));
	if (syscall(SYS_capset, &h, d) != 0)
		return err_errno(err, "cannot drop capabilities");
	return 0;
}

/* Everything that this kernel's Landlock knows is handled and nothing allowed, but audit's own directory. */
static int landlock(enum role r, int dir_fd, struct err *err)
{
	struct {
		uint64_t fs, net, scoped;
	} attr = { 0 };
	/* log, in-flight and rotated files: plain files in one directory, nothing below it */
	const uint64_t audit_fs = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |
		LANDLOCK_ACCESS_FS_MAKE_REG | FS_TRUNCATE;
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	struct landlock_path_beneath_attr rule;
	int fd, ret = -1;

	if (abi < 1) {
		if (dir_fd >= 0)
			log_info("this kernel has no Landlock: beside its own directory only file modes keep audit out of others of its user");
		return 0;
	}
	attr.fs = FS_REFER - 1;
	if (abi >= 2)
		attr.fs |= FS_REFER;
	if (abi >= 3)
		attr.fs |= FS_TRUNCATE;
	if (abi >= 5)
		attr.fs |= FS_IOCTL_DEV;
	if (abi >= 4)
		attr.net = r == ROLE_DIALER ? NET_BIND_TCP : NET_BIND_TCP | NET_CONNECT_TCP;
	if (abi >= 6)
		attr.scoped = SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL;
	fd = (int)syscall(SYS_landlock_create_ruleset, &attr, abi >= 6 ? 24 : abi >= 4 ? 16 : 8, 0);
	if (fd < 0)
		return err_errno(err, "cannot make a Landlock ruleset");
	if (dir_fd >= 0) {
		rule.allowed_access = audit_fs & attr.fs;
		rule.parent_fd = dir_fd;
		if (syscall(SYS_landlock_add_rule, fd, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) != 0) {
			err_errno(err, "cannot add a Landlock rule");
			goto out;
		}
	}
	if (syscall(SYS_landlock_restrict_self, fd, 0) != 0) {
		err_errno(err, "cannot enforce Landlock");
		goto out;
	}
	ret = 0;
out:
	close(fd);
	return ret;
}

/* --- the filter ---------------------------------------------------------------------------------------------------- */

#ifdef SP_CONFINE_TRAP
#define DEFAULT_ACTION SCMP_ACT_TRAP
static char trap_role;

static void on_trap(int sig, siginfo_t *si, void *context)
{
	char *name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, si->si_syscall);

	(void)sig;
	(void)context;
	log_error("role %c: system call %d (%s) is outside its row of syscalls.def", trap_role, si->si_syscall, name != NULL ? name : "?");
	_exit(128 + SIGSYS);
}

static void set_trap(char l)
{
	struct sigaction sa = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO };

	trap_role = l;
	sigaction(SIGSYS, &sa, NULL);
}
#else
#define DEFAULT_ACTION SCMP_ACT_KILL_PROCESS
static void set_trap(char l) { (void)l; }
#endif

/* One of a list of values for one argument. */
static int allow_values(scmp_filter_ctx f, int nr, unsigned arg, const uint64_t *v, size_t n)
{
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0; i++)
		rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, nr, 1, SCMP_CMP(arg, SCMP_CMP_EQ, v[i], 0));
	return rc;
}
#define ALLOW_VALUES(f, nr, arg, ...) allow_values(f, nr, arg, (const uint64_t[]){ __VA_ARGS__ }, sizeof((const uint64_t[]){ __VA_ARGS__ }) / sizeof(uint64_t))

/* TCP and UDP over IPv4 and IPv6, and the route socket. Raw sockets, UDP-Lite, MPTCP, SCTP and every other family end the role. */
static int allow_sockets(scmp_filter_ctx f)
{
	static const struct {
		int family, type, protocol;
	} kinds[] = {
		{ AF_INET, SOCK_STREAM, 0 }, { AF_INET, SOCK_STREAM, IPPROTO_TCP }, { AF_INET, SOCK_DGRAM, 0 }, { AF_INET, SOCK_DGRAM, IPPROTO_UDP },
		{ AF_INET6, SOCK_STREAM, 0 }, { AF_INET6, SOCK_STREAM, IPPROTO_TCP }, { AF_INET6, SOCK_DGRAM, 0 }, { AF_INET6, SOCK_DGRAM, IPPROTO_UDP },
		{ AF_NETLINK, SOCK_RAW, 0 /* NETLINK_ROUTE */ },
	};
	int rc = 0;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]) && rc == 0; i++)
		rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(socket), 3, SCMP_A0(SCMP_CMP_EQ, (uint64_t)kinds[i].family, 0),
			SCMP_A1(SCMP_CMP_MASKED_EQ, ~(uint64_t)(SOCK_NONBLOCK | SOCK_CLOEXEC) & 0xffffffff, (uint64_t)kinds[i].type),
			SCMP_A2(SCMP_CMP_EQ, (uint64_t)kinds[i].protocol, 0));
	if (rc == 0) /* libc looks for its name service cache and goes on without it */
		rc = seccomp_rule_add(f, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 1, SCMP_A0(SCMP_CMP_EQ, AF_UNIX, 0));
	return rc;
}

/* A call that a role has, with what its arguments may be where that is cheap to say. */
static int allow_call(scmp_filter_ctx f, int nr)
{
	if (nr == SCMP_SYS(mmap) || nr == SCMP_SYS(mprotect))
		return seccomp_rule_add(f, SCMP_ACT_ALLOW, nr, 1, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
	if (nr == SCMP_SYS(socket))
		return allow_sockets(f);
	if (nr == SCMP_SYS(setsockopt)) /* never the levels of a packet filter, of IP options or of transparent proxying */
		return ALLOW_VALUES(f, nr, 1, SOL_SOCKET, IPPROTO_TCP);
	if (nr == SCMP_SYS(fcntl)) /* never F_SETOWN and F_SETSIG: signals by way of a descriptor */
		return ALLOW_VALUES(f, nr, 1, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD, F_DUPFD_CLOEXEC, F_GET_SEALS);
	if (nr == SCMP_SYS(prctl)) /* a sanitizer's run time: names of threads and mappings */
		return ALLOW_VALUES(f, nr, 0, PR_SET_NAME, PR_GET_NAME, 0x53564d41 /* PR_SET_VMA */);
	return seccomp_rule_add(f, SCMP_ACT_ALLOW, nr, 0);
}

static scmp_filter_ctx filter_new(uint32_t action)
{
	scmp_filter_ctx f = seccomp_init(action);

	/* calls by another architecture's numbers */
	if (f != NULL && seccomp_attr_set(f, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS) != 0) {
		seccomp_release(f);
		return NULL;
	}
	return f;
}

static int filter_load(scmp_filter_ctx f, int rc, struct err *err)
{
	if (rc == 0)
		rc = seccomp_load(f);
	seccomp_release(f);
	if (rc != 0)
		return err_set(err, -rc, "cannot load the system call filter: %s", strerror(-rc));
	return 0;
}

static int filter_role(enum role r, struct err *err)
{
	scmp_filter_ctx f = filter_new(DEFAULT_ACTION);
	char l = letter(r), small = (char)(l + 32);
	int rc = 0;

	if (f == NULL || l == 0)
		return err_set(err, ENOMEM, "cannot make a system call filter");
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]) && rc == 0; i++) {
		const struct call *c = &calls[i];

		if (c->nr == __NR_SCMP_ERROR || c->nr < 0)
			continue; /* not on this architecture */
		if (strchr(c->roles, small) != NULL)
			rc = seccomp_rule_add(f, c->nr == SCMP_SYS(connect) ? SCMP_ACT_ERRNO(EINPROGRESS) : SCMP_ACT_ERRNO(ENOENT), c->nr, 0);
		else if (strchr(c->roles, l) != NULL)
			rc = allow_call(f, c->nr);
	}
	set_trap(l);
	return filter_load(f, rc, err);
}

int confine_role(enum role r, const struct confine *c, struct err *err)
{
	struct rlimit none = { 0, 0 };

	if (empty_root(err) < 0 || keep_capabilities(0, err) < 0)
		return -1;
	if (setrlimit(RLIMIT_CORE, &none) != 0)
		return err_errno(err, "cannot switch core dumps off");
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
		return err_errno(err, "cannot become undumpable");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return err_errno(err, "cannot set no_new_privs");
	if (landlock(r, c->dir_fd, err) < 0)
		return -1;
	return filter_role(r, err);
}

/* --- the supervisor ------------------------------------------------------------------------------------------------ */

int confine_drop_groups(struct err *err)
{
	if (geteuid() == 0 && setgroups(0, NULL) != 0)
		return err_errno(err, "cannot drop the supplementary groups");
	return 0;
}

int confine_supervisor(bool as_root, struct err *err)
{
	const uint64_t kept = 1ULL << CAP_SETUID | 1ULL << CAP_SETGID | 1ULL << CAP_KILL | 1ULL << CAP_SYS_ADMIN;
	struct rlimit none = { 0, 0 };
	scmp_filter_ctx f;
	int rc = 0;

	if (setrlimit(RLIMIT_CORE, &none) != 0)
		return err_errno(err, "cannot switch core dumps off");
	/* As an ordinary user it must stay dumpable: the kernel gives the map files of an undumpable process's children to root. */
	if (as_root && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
		return err_errno(err, "cannot become undumpable");
	if (as_root && keep_capabilities(kept, err) < 0)
		return -1;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return err_errno(err, "cannot set no_new_privs");
	f = filter_new(SCMP_ACT_ALLOW);
	if (f == NULL)
		return err_set(err, ENOMEM, "cannot make a system call filter");
	for (size_t i = 0; i < sizeof(denied) / sizeof(denied[0]) && rc == 0; i++)
		if (denied[i].nr != __NR_SCMP_ERROR && denied[i].nr >= 0)
			rc = seccomp_rule_add(f, SCMP_ACT_KILL_PROCESS, denied[i].nr, 0);
	return filter_load(f, rc, err);
}
