/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation. One tmpfs holds everything that is thrown away: `r` is the new root (a bind mount, so that
 * pivot_root takes it), `u`N and `w`N are the layers of the overlays, `o`N directories that replace one of the host's, `e`
 * an empty directory and `f` an empty file for covering. The host's tree is still "/" while the view is built; sources of
 * shared folders are opened before the tmpfs is mounted (over /tmp, where a shared folder may well lie).
 *
 * Paths inside the view are resolved below the new root and never through a symbolic link, by descriptor: a writable folder
 * may hold what an earlier run planted there.
 */
#include "fs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../common/base/must.h"
#include "idmap.h"

#define PATH_LEN 4096
#define QUIET_ATTRS (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

struct build {
	const struct plan *p;
	struct fs_report *rep;
	const char *base;        /* where the tmpfs is mounted for now */
	int base_fd, root_fd;
	int source[VIEW_MAX];    /* detached mounts by index of operation; -1 */
	bool overlay_failed[VIEW_MAX];
};

static int mount_point(struct build *b, struct err *err)
{
	static const char *const candidates[] = { "/tmp", "/run", "/mnt", "/var", "/usr" };
	struct stat st;

	for (unsigned i = 0; i < sizeof(candidates) / sizeof(candidates[0]); i++)
		if (lstat(candidates[i], &st) == 0 && S_ISDIR(st.st_mode)) {
			b->base = candidates[i];
			return 0;
		}
	return err_set(err, ENOENT, "there is no directory to build the new root on (/tmp, /run, /mnt, /var or /usr)");
}

static int open_root(int root_fd, const char *path, int flags)
{
	struct open_how how = { .flags = (uint64_t)(flags | O_CLOEXEC), .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };

	while (*path == '/')
		path++;
	return (int)syscall(__NR_openat2, root_fd, *path ? path : ".", &how, sizeof(how));
}

/* Makes every directory above rel, below dir_fd; 0 or -1 with errno. */
static int make_parents(int dir_fd, const char *rel)
{
	char part[PATH_LEN];
	size_t n = strlen(rel);

	if (n >= sizeof(part)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	for (size_t i = 1; i < n; i++) {
		if (rel[i] != '/')
			continue;
		memcpy(part, rel, i);
		part[i] = 0;
		if (mkdirat(dir_fd, part, 0755) != 0 && errno != EEXIST)
			return -1;
	}
	return 0;
}

static int make_dir(int dir_fd, const char *rel, mode_t mode)
{
	if (make_parents(dir_fd, rel) != 0)
		return -1;
	if (mkdirat(dir_fd, rel, 0755) != 0 && errno != EEXIST)
		return -1;
	return mode ? fchmodat(dir_fd, rel, mode, 0) : 0;
}

static int put_file(int dir_fd, const char *rel, struct str data, mode_t mode)
{
	int fd;
	bool bad;

	if (make_parents(dir_fd, rel) != 0)
		return -1;
	fd = openat(dir_fd, rel, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, mode);
	if (fd < 0)
		return -1;
	bad = write(fd, data.p, data.n) != (ssize_t)data.n;
	close(fd);
	return bad ? -1 : 0;
}

/* The deepest OVERLAY or OPAQUE operation that holds path (not path itself for OVERLAY); -1: the plain tmpfs root. */
static int holder(const struct plan *p, const char *path)
{
	size_t best = 0;
	int at = -1;

	for (unsigned i = 0; i < p->view_n; i++) {
		const struct view_op *o = &p->view[i];
		size_t n = strlen(o->path);

		if ((o->kind == VIEW_OVERLAY || o->kind == VIEW_OPAQUE) && n > best && path_within(path, o->path) && path[n] == '/') {
			best = n;
			at = (int)i;
		}
	}
	return at;
}

/* Where, on the tmpfs, the octets of `path` go before the overlays are mounted: "r/...", "u3/...", "o7/...". */
static void place(const struct build *b, const char *path, char out[PATH_LEN])
{
	int h = holder(b->p, path);

	if (h < 0)
		snprintf(out, PATH_LEN, "r%s", path);
	else
		snprintf(out, PATH_LEN, "%c%d%s", b->p->view[h].kind == VIEW_OVERLAY ? 'u' : 'o', h, path + strlen(b->p->view[h].path));
}

static int attach(int tree, int target, const char *path, struct err *err)
{
	if (move_mount(tree, "", target, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) != 0)
		return err_errno(err, "cannot mount on %s", path);
	return 0;
}

static int set_attrs(int tree, uint64_t attrs, const char *path, struct err *err)
{
	struct mount_attr a = { .attr_set = attrs };

	if (mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &a, sizeof(a)) != 0)
		return err_errno(err, "cannot set the mount flags of %s", path);
	return 0;
}

/* Opens the target of a mount, making it in the tmpfs where it is missing. */
static int target_open(struct build *b, const char *path, bool dir, struct err *err)
{
	int fd = open_root(b->root_fd, path, O_PATH | O_NOFOLLOW);

	if (fd < 0 && errno == ENOENT) {
		if ((dir ? make_dir(b->root_fd, path + 1, 0) : put_file(b->root_fd, path + 1, STR(""), 0644)) == 0)
			fd = open_root(b->root_fd, path, O_PATH | O_NOFOLLOW);
	}
	return fd < 0 ? err_errno(err, "cannot reach %s in the new root", path) : fd;
}

static int mount_tree(struct build *b, int tree, const char *path, uint64_t attrs, struct err *err)
{
	struct stat st;
	int target, r = -1;

	if (fstat(tree, &st) != 0)
		return err_errno(err, "%s", path);
	if (set_attrs(tree, attrs, path, err) < 0)
		return -1;
	target = target_open(b, path, S_ISDIR(st.st_mode), err);
	if (target < 0)
		return -1;
	r = attach(tree, target, path, err);
	close(target);
	return r;
}

/* A tree of our own tmpfs (empty directory, replaced directory ...) over path. */
static int mount_own(struct build *b, const char *own, const char *path, uint64_t attrs, struct err *err)
{
	int tree = open_tree(b->base_fd, own, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC), r;

	if (tree < 0)
		return err_errno(err, "cannot bind %s", path);
	r = mount_tree(b, tree, path, attrs, err);
	close(tree);
	return r;
}

static int mount_fs(struct build *b, const char *type, const char *const *options, const char *path, uint64_t attrs, struct err *err)
{
	int fs = fsopen(type, FSOPEN_CLOEXEC), mnt = -1, target, r = -1;
	char log[256];
	ssize_t n;
	bool ok = fs >= 0;

	for (; ok && *options != NULL; options += 2)
		ok = (options[1][0] ? fsconfig(fs, FSCONFIG_SET_STRING, options[0], options[1], 0) : fsconfig(fs, FSCONFIG_SET_FLAG, options[0], NULL, 0)) == 0;
	ok = ok && fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0;
	if (ok)
		mnt = fsmount(fs, FSMOUNT_CLOEXEC, (unsigned)attrs);
	if (mnt < 0) {
		int e = errno;

		n = fs >= 0 ? read(fs, log, sizeof(log) - 1) : -1;
		log[n > 0 ? n : 0] = 0;
		errno = e;
		err_errno(err, "cannot mount %s on %s%s%s", type, path, n > 0 ? ": " : "", n > 0 ? log : "");
		goto out;
	}
	target = target_open(b, path, true, err);
	if (target < 0)
		goto out;
	r = attach(mnt, target, path, err);
	close(target);
out:
	if (mnt >= 0)
		close(mnt);
	if (fs >= 0)
		close(fs);
	return r;
}

static int base_mount(struct build *b, struct err *err)
{
	static const char *const dirs[] = { "r", "e" };
	char size[64];
	int fs, mnt = -1, at, tree;
	bool ok;

	snprintf(size, sizeof(size), "%llu", (unsigned long long)b->p->scratch);
	fs = fsopen("tmpfs", FSOPEN_CLOEXEC);
	ok = fs >= 0 && fsconfig(fs, FSCONFIG_SET_STRING, "size", size, 0) == 0 && fsconfig(fs, FSCONFIG_SET_STRING, "mode", "0755", 0) == 0 && fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0;
	if (ok)
		mnt = fsmount(fs, FSMOUNT_CLOEXEC, QUIET_ATTRS);
	if (mnt < 0)
		return err_errno(err, "cannot make the scratch layer (tmpfs)");
	close(fs);
	at = open(b->base, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (at < 0 || attach(mnt, at, b->base, err) < 0)
		return at < 0 ? err_errno(err, "cannot open %s", b->base) : -1;
	close(at);
	b->base_fd = mnt;
	for (unsigned i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++)
		if (mkdirat(mnt, dirs[i], 0755) != 0)
			return err_errno(err, "scratch layer");
	if (put_file(mnt, "f", STR(""), 0444) != 0)
		return err_errno(err, "scratch layer");
	/* The new root, as a mount of its own. */
	tree = open_tree(mnt, "r", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	at = openat(mnt, "r", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (tree < 0 || at < 0)
		return err_errno(err, "cannot make the new root");
	if (attach(tree, at, "the new root", err) < 0)
		return -1;
	close(at);
	b->root_fd = tree;
	return 0;
}

/* While the host's tree is whole: what is shared, and device nodes. */
static int open_sources(struct build *b, struct err *err)
{
	for (unsigned i = 0; i < b->p->view_n; i++) {
		const struct view_op *o = &b->p->view[i];
		int at;

		b->source[i] = -1;
		if (o->source_fd >= 0) {
			b->source[i] = o->source_fd;
			continue;
		}
		if (o->kind != VIEW_READ && o->kind != VIEW_WRITE && o->kind != VIEW_DEV)
			continue;
		at = idmap_open(o->source, O_PATH, err);
		if (at < 0) {
			if (o->kind == VIEW_DEV)
				continue;
			return -1;
		}
		b->source[i] = open_tree(at, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | AT_RECURSIVE);
		close(at);
		if (b->source[i] < 0)
			return err_errno(err, "cannot bind %s", o->source);
	}
	return 0;
}

/* Directories, links and files, into the root or into the layers that will lie over the host's directories. */
static int fill(struct build *b, struct err *err)
{
	char path[PATH_LEN];

	for (unsigned i = 0; i < b->p->view_n; i++) {
		const struct view_op *o = &b->p->view[i];
		int bad = 0;

		if (o->kind == VIEW_OVERLAY || o->kind == VIEW_OPAQUE) {
			snprintf(path, sizeof(path), "%c%u", o->kind == VIEW_OVERLAY ? 'u' : 'o', i);
			bad = make_dir(b->base_fd, path, o->kind == VIEW_OPAQUE && o->mode ? o->mode : 0755);
			if (bad == 0 && o->kind == VIEW_OVERLAY) {
				snprintf(path, sizeof(path), "w%u", i);
				bad = make_dir(b->base_fd, path, 0755);
			}
			if (bad == 0 && holder(b->p, o->path) < 0) {
				snprintf(path, sizeof(path), "r%s", o->path);
				bad = make_dir(b->base_fd, path, 0);
			}
		}
		if (bad != 0)
			return err_errno(err, "cannot prepare %s", o->path);
	}
	for (unsigned i = 0; i < b->p->view_n; i++) {
		const struct view_op *o = &b->p->view[i];
		int bad = 0;

		place(b, o->path, path);
		if (o->kind == VIEW_DIR)
			bad = make_dir(b->base_fd, path, o->mode);
		else if (o->kind == VIEW_LINK)
			bad = make_parents(b->base_fd, path) != 0 || (symlinkat(o->source, b->base_fd, path) != 0 && errno != EEXIST);
		else if (o->kind == VIEW_FILE)
			bad = put_file(b->base_fd, path, o->data, o->mode);
		if (bad != 0)
			return err_errno(err, "cannot make %s in the new root", o->path);
	}
	return 0;
}

static int bind_host(struct build *b, const struct view_op *o, struct err *err)
{
	int tree = open_tree(AT_FDCWD, o->source, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE), r;

	if (tree < 0)
		return err_errno(err, "cannot bind %s", o->source);
	r = mount_tree(b, tree, o->path, QUIET_ATTRS | MOUNT_ATTR_RDONLY, err);
	close(tree);
	return r;
}

/* Overlays. Where one is not possible (a mount lies below the directory, the file system does not do) the host's is bound read-only. */
static int mount_overlays(struct build *b, struct err *err)
{
	for (unsigned i = 0; i < b->p->view_n; i++) {
		const struct view_op *o = &b->p->view[i];
		struct err why = ERR_INIT;
		char upper[64], work[64];
		const char *options[] = { "lowerdir", o->source, "upperdir", upper, "workdir", work, "userxattr", "", NULL };

		if (o->kind != VIEW_OVERLAY)
			continue;
		snprintf(upper, sizeof(upper), "%s/u%u", b->base, i);
		snprintf(work, sizeof(work), "%s/w%u", b->base, i);
		if (mount_fs(b, "overlay", options, o->path, QUIET_ATTRS, &why) == 0)
			continue;
		if (b->p->require_overlay)
			return err_set(err, why.code, "require: overlay: %s", why.text);
		if (b->rep->overlay)
			snprintf(b->rep->missing, sizeof(b->rep->missing), "%s", o->path);
		b->rep->overlay = false;
		b->overlay_failed[i] = true;
		if (bind_host(b, o, err) < 0)
			return -1;
	}
	return 0;
}

/* Files that were meant for the layer of an overlay that could not be mounted: each bound over the host's, if there is one. */
static int bind_files(struct build *b, struct err *err)
{
	for (unsigned i = 0; i < b->p->view_n; i++) {
		const struct view_op *o = &b->p->view[i];
		int h = o->kind == VIEW_FILE ? holder(b->p, o->path) : -1, fd;
		char path[PATH_LEN];

		if (h < 0 || !b->overlay_failed[h])
			continue;
		fd = open_root(b->root_fd, o->path, O_PATH | O_NOFOLLOW);
		if (fd < 0)
			continue;
		close(fd);
		place(b, o->path, path);
		if (mount_own(b, path, o->path, QUIET_ATTRS, err) < 0)
			return -1;
	}
	return 0;
}

static int bind_self(struct build *b, const struct view_op *o, bool read_only, struct err *err)
{
	int at = open_root(b->root_fd, o->path, O_PATH | O_NOFOLLOW), tree, r = -1;

	if (at < 0)
		return err_errno(err, "cannot reach %s in the new root", o->path);
	tree = open_tree(at, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | AT_RECURSIVE);
	if (tree < 0)
		err_errno(err, "cannot bind %s onto itself", o->path);
	else if (set_attrs(tree, QUIET_ATTRS | (read_only ? MOUNT_ATTR_RDONLY : 0), o->path, err) == 0)
		r = attach(tree, at, o->path, err);
	if (tree >= 0)
		close(tree);
	close(at);
	return r;
}

static int cover(struct build *b, const char *path, struct err *err)
{
	int fd = open_root(b->root_fd, path, O_PATH | O_NOFOLLOW);
	struct stat st;
	bool dir;

	if (fd < 0)
		return errno == ENOENT ? 0 : err_errno(err, "cannot reach %s in the new root", path);
	dir = fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
	close(fd);
	return mount_own(b, dir ? "e" : "f", path, QUIET_ATTRS | MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOEXEC, err);
}

static int mount_sys(struct build *b, struct err *err)
{
	static const char *const none[] = { NULL };
	struct err why = ERR_INIT;
	int tree;

	if (mount_fs(b, "sysfs", none, "/sys", QUIET_ATTRS | MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOEXEC, &why) == 0)
		return 0;
	/* A container with a masked /sys: what language runtimes need to count processors, no more. */
	tree = open_tree(AT_FDCWD, "/sys/devices/system/cpu", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
	if (tree < 0)
		return 0;
	if (mount_tree(b, tree, "/sys/devices/system/cpu", QUIET_ATTRS | MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOEXEC, err) < 0)
		return -1;
	close(tree);
	return 0;
}

static int mount_one(struct build *b, unsigned i, struct err *err)
{
	static const char *const none[] = { NULL }, *const pts[] = { "newinstance", "", "ptmxmode", "0666", "mode", "0620", NULL };
	const struct view_op *o = &b->p->view[i];
	char own[32];

	switch (o->kind) {
	case VIEW_DEV:
		return b->source[i] < 0 ? 0 : mount_tree(b, b->source[i], o->path, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, err);
	case VIEW_PTS:
		return mount_fs(b, "devpts", pts, o->path, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, err);
	case VIEW_PROC:
		if (mount_fs(b, "proc", none, o->path, QUIET_ATTRS | MOUNT_ATTR_NOEXEC, err) < 0)
			return err_wrap(err, "the sandbox's own /proc (inside another container its /proc must not be masked)");
		return 0;
	case VIEW_SYS:
		return mount_sys(b, err);
	case VIEW_OPAQUE:
		snprintf(own, sizeof(own), "o%u", i);
		return mount_own(b, own, o->path, QUIET_ATTRS, err);
	case VIEW_READ:
		return mount_tree(b, b->source[i], o->path, QUIET_ATTRS | MOUNT_ATTR_RDONLY, err);
	case VIEW_WRITE:
		return mount_tree(b, b->source[i], o->path, QUIET_ATTRS, err);
	case VIEW_SELF:
		return bind_self(b, o, false, err);
	case VIEW_PROTECT:
		return bind_self(b, o, true, err);
	case VIEW_HIDE:
		return cover(b, o->path, err);
	case VIEW_NONE:
	case VIEW_DIR:
	case VIEW_LINK:
	case VIEW_FILE:
	case VIEW_OVERLAY:
	case VIEW_KINDS:
		return 0;
	}
	return 0;
}

static int mask_sockets(struct build *b, struct err *err)
{
	for (unsigned i = 0; i < b->p->sockets_n; i++) {
		int fd = open_root(b->root_fd, b->p->sockets[i], O_PATH | O_NOFOLLOW);
		struct stat st;
		bool sock = fd >= 0 && fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode);

		if (fd >= 0)
			close(fd);
		if (sock && mount_own(b, "f", b->p->sockets[i], QUIET_ATTRS | MOUNT_ATTR_RDONLY, err) < 0)
			return -1;
	}
	return 0;
}

int fs_enter(const struct plan *p, struct fs_report *rep, struct err *err)
{
	struct build *b = must_calloc(1, sizeof(*b));
	int r = -1;

	b->p = p;
	b->rep = rep;
	rep->overlay = true;
	umask(022);
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) {
		err_errno(err, "cannot make the mounts private");
		goto out;
	}
	if (mount_point(b, err) < 0 || open_sources(b, err) < 0 || base_mount(b, err) < 0 || fill(b, err) < 0 || mount_overlays(b, err) < 0 || bind_files(b, err) < 0)
		goto out;
	for (unsigned i = 0; i < p->view_n; i++)
		if (mount_one(b, i, err) < 0)
			goto out;
	if (mask_sockets(b, err) < 0)
		goto out;
	if (fchdir(b->root_fd) != 0 || syscall(__NR_pivot_root, ".", ".") != 0 || umount2(".", MNT_DETACH) != 0 || chdir("/") != 0) {
		err_errno(err, "cannot enter the new root");
		goto out;
	}
	r = 0;
out:
	free(b); /* descriptors are closed with everything else before the payload starts */
	return r;
}

int fs_terminal(int *slave, struct err *err)
{
	int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC), zero = 0;

	if (master < 0)
		return err_errno(err, "cannot make a terminal");
	if (ioctl(master, TIOCSPTLCK, &zero) != 0 || (*slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC)) < 0) {
		err_errno(err, "cannot open the terminal");
		close(master);
		return -1;
	}
	return master;
}
