/* SPDX-License-Identifier: Apache-2.0 */
#include "idmap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#define OVERLAYFS_MAGIC 0x794c7630

int idmap_open(const char *path, int flags, struct err *err)
{
	struct open_how how = { .flags = (uint64_t)(flags | O_CLOEXEC), .resolve = RESOLVE_NO_SYMLINKS };
	int fd = (int)syscall(__NR_openat2, AT_FDCWD, path, &how, sizeof(how));

	if (fd < 0 && errno == ELOOP)
		return err_set(err, ELOOP, "%s leads through a symbolic link; name the real path", path);
	return fd < 0 ? err_errno(err, "cannot open %s", path) : fd;
}

static int write_map(pid_t pid, const char *which, unsigned from, unsigned to)
{
	char path[64], line[64];
	int fd, n, r;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, which);
	n = snprintf(line, sizeof(line), "%u %u 1\n", from, to);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	r = write(fd, line, (size_t)n) == n ? 0 : -1;
	close(fd);
	return r;
}

/* A user namespace only for its maps: a process is born in it, and ended once the namespace is open. */
static int map_namespace(uid_t from_uid, gid_t from_gid, uid_t uid, gid_t gid, struct err *err)
{
	char path[64], c;
	int hold[2], fd = -1;
	pid_t pid;

	if (pipe2(hold, O_CLOEXEC) != 0)
		return err_errno(err, "pipe");
	pid = (pid_t)syscall(__NR_clone, (unsigned long)(CLONE_NEWUSER | SIGCHLD), 0, 0, 0, 0);
	if (pid < 0) {
		err_errno(err, "user namespace for an id-mapped mount");
		close(hold[0]);
		close(hold[1]);
		return -1;
	}
	if (pid == 0) {
		close(hold[1]);
		(void)!read(hold[0], &c, 1);
		_exit(0);
	}
	if (write_map(pid, "uid_map", from_uid, uid) != 0 || write_map(pid, "gid_map", from_gid, gid) != 0) {
		err_errno(err, "maps of an id-mapped mount");
	} else {
		snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			err_errno(err, "cannot open %s", path);
	}
	close(hold[0]);
	close(hold[1]);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return fd;
}

int idmap_clone(const char *path, bool map, uid_t uid, gid_t gid, struct err *err)
{
	int at = idmap_open(path, O_PATH, err), fd = -1, ns = -1;
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_IDMAP };
	struct stat st;
	struct statfs fs;

	if (at < 0)
		return -1;
	if (fstat(at, &st) != 0) {
		err_errno(err, "cannot look at %s", path);
		goto out;
	}
	fd = open_tree(at, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | AT_RECURSIVE);
	if (fd < 0) {
		err_errno(err, "cannot copy the mount at %s", path);
		goto out;
	}
	if (!map || st.st_uid == uid)
		goto out;
	ns = map_namespace(st.st_uid, st.st_gid, uid, gid, err);
	if (ns < 0)
		goto fail;
	attr.userns_fd = (uint64_t)ns;
	if (mount_setattr(fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof(attr)) != 0) {
		int e = errno;
		const char *why = strerror(e);

		if (fstatfs(at, &fs) == 0 && fs.f_type == OVERLAYFS_MAGIC)
			why = "it lies on overlayfs, which cannot be id-mapped";
		err_set(err, e, "%s belongs to uid %u and cannot be shown as uid %u's (%s): set sandbox: process.user in the policy to the folder's owner (root is never let in), or use a folder of uid %u", path,
			(unsigned)st.st_uid, (unsigned)uid, why, (unsigned)uid);
		goto fail;
	}
	goto out;
fail:
	close(fd);
	fd = -1;
out:
	if (ns >= 0)
		close(ns);
	close(at);
	return fd;
}
