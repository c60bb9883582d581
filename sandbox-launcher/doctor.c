/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sallyport doctor`: tries each mechanism on this host, in a child that is thrown away, and says what holds, what does not
 * and why. Exit 1 when something is missing that sandboxes need.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../common/base/jsonw.h"
#include "netns.h"
#include "run.h"

struct probe {
	const char *name;
	int (*fn)(struct err *err); /* in a child; 0 holds (err may carry a remark), -1 does not */
	bool needed;
	const char *means; /* what its absence means */
};

static int put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : write(fd, text, strlen(text));

	if (fd >= 0)
		close(fd);
	return n == (ssize_t)strlen(text) ? 0 : -1;
}

static int enter(int flags, struct err *err)
{
	char map[64];
	uid_t uid = geteuid();
	gid_t gid = getegid();

	if (unshare(CLONE_NEWUSER | flags) != 0)
		return err_errno(err, errno == EPERM ? "user namespaces are forbidden here (chroot? kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns, a container's filter)" : "unshare");
	snprintf(map, sizeof(map), "0 %u 1", (unsigned)uid);
	if (put("/proc/self/setgroups", "deny") != 0 || put("/proc/self/uid_map", map) != 0)
		return err_errno(err, "cannot write the user map");
	snprintf(map, sizeof(map), "0 %u 1", (unsigned)gid);
	return put("/proc/self/gid_map", map) != 0 ? err_errno(err, "cannot write the group map") : 0;
}

static int p_namespaces(struct err *err) { return enter(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWCGROUP, err); }

static int p_network(struct err *err)
{
	int sockets[NETNS_SOCKETS];
	bool transparent = false;

	if (enter(CLONE_NEWNET, err) < 0)
		return -1;
	if (netns_setup(sockets, &transparent, err) < 0)
		return -1;
	return transparent ? 0 : err_set(err, ENOTSUP, "the kernel has no nftables TPROXY: only the proxy address works");
}

static int p_overlay(struct err *err)
{
	if (enter(CLONE_NEWNS, err) < 0)
		return -1;
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 || mount("none", "/tmp", "tmpfs", 0, NULL) != 0 || mkdir("/tmp/u", 0700) != 0 || mkdir("/tmp/w", 0700) != 0 || mkdir("/tmp/m", 0700) != 0)
		return err_errno(err, "cannot prepare");
	if (mount("overlay", "/tmp/m", "overlay", 0, "userxattr,lowerdir=/usr,upperdir=/tmp/u,workdir=/tmp/w") != 0)
		return err_errno(err, "overlay in a user namespace");
	return 0;
}

static int p_seccomp(struct err *err)
{
	uint32_t action = SECCOMP_RET_KILL_PROCESS;

	return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0 ? 0 : err_errno(err, "seccomp");
}

static int p_landlock(struct err *err)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

	if (abi < 1)
		return err_errno(err, "Landlock");
	snprintf(err->text, sizeof(err->text), "ABI %ld%s", abi, abi < 6 ? ", without signal scoping" : "");
	return 0;
}

static int p_cgroup(struct err *err)
{
	if (access("/sys/fs/cgroup/cgroup.controllers", R_OK) != 0)
		return err_set(err, ENOTSUP, "no cgroup v2 here");
	return access("/sys/fs/cgroup/cgroup.subtree_control", W_OK) == 0 ? 0 : err_set(err, EPERM, "cgroup v2 is not delegated to this user");
}

static int p_trust(struct err *err) { return access("/etc/ssl/certs/ca-certificates.crt", R_OK) == 0 ? 0 : err_errno(err, "/etc/ssl/certs/ca-certificates.crt (install ca-certificates)"); }

static const struct probe probes[] = {
	{ "namespaces", p_namespaces, true, "there are no sandboxes" },
	{ "network", p_network, false, "programs that ignore the proxy variables have no network at all" },
	{ "overlay", p_overlay, false, "the system is bound read-only instead, and host sockets below it are masked one by one" },
	{ "seccomp", p_seccomp, true, "there are no sandboxes and no confined roles" },
	{ "landlock", p_landlock, false, "one wall of two for files is missing" },
	{ "cgroup", p_cgroup, false, "memory is bounded per process (rlimits), not per sandbox" },
	{ "trust", p_trust, false, "only destinations with `tls: {ca: FILE}` can be reached" },
};
#define PROBES (sizeof(probes) / sizeof(probes[0]))

/* True: holds. *err: the remark, or the reason. */
static bool try(const struct probe *p, struct err *err)
{
	int sv[2], status;
	pid_t pid;

	*err = (struct err)ERR_INIT;
	if (pipe(sv) != 0)
		return false;
	pid = fork();
	if (pid == 0) {
		int r = p->fn(err);

		if (write(sv[1], err->text, sizeof(err->text)) < 0)
			_exit(2);
		_exit(r == 0 ? 0 : 1);
	}
	close(sv[1]);
	if (pid < 0 || read(sv[0], err->text, sizeof(err->text)) <= 0)
		err_set(err, EIO, "the probe died");
	close(sv[0]);
	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int doctor_main(int argc, char **argv)
{
	bool json = argc == 2 && strcmp(argv[1], "--json") == 0;
	struct buf out = { 0 };
	struct jsonw w = jsonw_on(&out);
	struct err err;
	int ret = 0;

	if (argc > 2 || (argc == 2 && !json)) {
		fprintf(stderr, "usage: sallyport doctor [--json]\n");
		return 2;
	}
	jsonw_open(&w, '[');
	for (size_t i = 0; i < PROBES; i++) {
		const struct probe *p = &probes[i];
		bool ok = try(p, &err);

		if (!ok && p->needed)
			ret = 1;
		if (!json) {
			printf("%-8s %-11s%s%s\n", ok ? "ok" : p->needed ? "MISSING" : "missing", p->name, err.text[0] ? " " : "", err.text);
			if (!ok)
				printf("%20s so: %s\n", "", p->means);
			continue;
		}
		jsonw_open(&w, '{');
		jsonw_kz(&w, "name", p->name);
		jsonw_key(&w, "ok");
		jsonw_bool(&w, ok);
		jsonw_key(&w, "needed");
		jsonw_bool(&w, p->needed);
		jsonw_kz(&w, "text", err.text);
		if (!ok)
			jsonw_kz(&w, "means", p->means);
		jsonw_close(&w, '}');
	}
	jsonw_close(&w, ']');
	if (json)
		printf("%.*s\n", (int)buf_len(&out), (char *)buf_data(&out));
	buf_fini(&out);
	return ret;
}
