/* SPDX-License-Identifier: Apache-2.0 */
#include "confine.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <seccomp.h>
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

#ifndef LANDLOCK_SCOPE_SIGNAL
#define LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET (1ULL << 0)
#define LANDLOCK_SCOPE_SIGNAL (1ULL << 1)
#endif

struct call {
	int nr;
	const char *name, *roles;
};
static const struct call calls[] = {
#define CALL(name, roles, reason) { SCMP_SYS(name), #name, roles },
#include "syscalls.def"
#undef CALL
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
	default:
		return 'K';
	}
}

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

static int drop_capabilities(struct err *err)
{
	struct __user_cap_header_struct h = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct d[2] = { { 0 } };

	for (int c = 0; c < 64; c++)
		if (prctl(PR_CAPBSET_DROP, c, 0, 0, 0) != 0 && errno != EINVAL)
			return err_errno(err, "cannot drop capability %d from the bounding set", c);
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (syscall(SYS_capset, &h, d) != 0)
		return err_errno(err, "cannot drop capabilities");
	return 0;
}

/* Everything that this kernel's Landlock knows is handled and nothing allowed, but audit's own directory. */
static int landlock(int dir_fd, struct err *err)
{
	struct {
		uint64_t fs, net, scoped;
	} attr = { 0 };
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	struct landlock_path_beneath_attr rule;
	uint64_t fs = (1ULL << 13) - 1;
	int fd, ret = -1;

	if (abi < 1)
		return 0; /* the empty root and the filter hold without it; `doctor` tells */
	if (abi >= 2)
		fs |= 1ULL << 13;
	if (abi >= 3)
		fs |= 1ULL << 14;
	attr.fs = fs;
	if (abi >= 6)
		attr.scoped = LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | LANDLOCK_SCOPE_SIGNAL;
	fd = (int)syscall(SYS_landlock_create_ruleset, &attr, abi >= 6 ? 24 : 8, 0);
	if (fd < 0)
		return err_errno(err, "cannot make a Landlock ruleset");
	if (dir_fd >= 0) {
		rule.allowed_access = fs & ~(uint64_t)LANDLOCK_ACCESS_FS_EXECUTE;
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

static int filter(enum role r, struct err *err)
{
	scmp_filter_ctx f = seccomp_init(SCMP_ACT_KILL_PROCESS);
	char l = letter(r), small = (char)(l + 32);
	int rc = 0;

	if (f == NULL)
		return err_set(err, ENOMEM, "cannot make a system call filter");
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]) && rc == 0; i++) {
		const struct call *c = &calls[i];

		if (c->nr == __NR_SCMP_ERROR)
			continue;
		if (strchr(c->roles, small) != NULL) {
			rc = seccomp_rule_add(f, SCMP_ACT_ERRNO(ENOENT), c->nr, 0);
			continue;
		}
		if (strchr(c->roles, l) == NULL)
			continue;
		if (c->nr == SCMP_SYS(mmap) || c->nr == SCMP_SYS(mprotect)) {
			rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, c->nr, 1, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
		} else if (c->nr == SCMP_SYS(socket)) {
			rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, c->nr, 1, SCMP_A0(SCMP_CMP_EQ, AF_INET));
			if (rc == 0)
				rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, c->nr, 1, SCMP_A0(SCMP_CMP_EQ, AF_INET6));
			if (rc == 0)
				rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, c->nr, 2, SCMP_A0(SCMP_CMP_EQ, AF_NETLINK), SCMP_A2(SCMP_CMP_EQ, 0));
			if (rc == 0) /* glibc looks for its name service cache */
				rc = seccomp_rule_add(f, SCMP_ACT_ERRNO(EAFNOSUPPORT), c->nr, 1, SCMP_A0(SCMP_CMP_EQ, AF_UNIX));
		} else {
			rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, c->nr, 0);
		}
	}
#ifdef SP_SANITIZED
	/* the sanitizers' run time: shadow memory, reports */
	if (rc == 0)
		rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(prctl), 0);
#endif
	if (rc == 0)
		rc = seccomp_load(f);
	seccomp_release(f);
	if (rc != 0)
		return err_set(err, -rc, "cannot load the system call filter: %s", strerror(-rc));
	return 0;
}

int confine_role(enum role r, const struct confine *c, struct err *err)
{
	struct rlimit none = { 0, 0 };

	if (empty_root(err) < 0 || drop_capabilities(err) < 0)
		return -1;
	if (setrlimit(RLIMIT_CORE, &none) != 0)
		return err_errno(err, "cannot switch core dumps off");
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
		return err_errno(err, "cannot become undumpable");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return err_errno(err, "cannot set no_new_privs");
	if (landlock(c->dir_fd, err) < 0)
		return -1;
	return filter(r, err);
}
