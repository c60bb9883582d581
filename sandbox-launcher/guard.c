/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation. A protected path that exists is bound onto itself read-only, and every directory on the way from the
 * share to it is bound onto itself, because a directory that is a mount point cannot be renamed away (`mv .git x` wins
 * otherwise). A path that does not exist needs something to mount on: an empty directory with mode 01555 is made at the
 * first missing component, and taken away at the end. A directory, since git and most tools overlook empty directories.
 *
 * Several sandboxes may share one folder: each holds a shared lock on every placeholder, and only who can get the exclusive
 * one removes it. The sweeper is a process of its own outside the sandbox, so that a killed launcher leaves nothing behind
 * (nor the caller's terminal in raw mode);
 * what even it could not remove is adopted by the next run, which knows it by the mode.
 *
 * `.git/commondir` and `.git/config.worktree` can have no placeholder (git dies of an unreadable commondir) but would
 * redirect git's configuration: the sweeper watches for them and removes them at once.
 */
#include "guard.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <linux/openat2.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "../common/base/must.h"
#include "idmap.h"
#include "link.h"
#include "say.h"

#define PLACEHOLDER_MODE 01555
#define REAP_MS 250

static const char *const protected_names[] = { ".git/hooks", ".git/config", ".envrc", ".vscode", ".idea", ".husky", ".claude/settings.json", ".claude/settings.local.json", "sallyport.yaml" };
static const char *const protected_pattern_dir = ".claude", *const protected_pattern = "settings*.json";
static const char *const git_redirects[2] = { "commondir", "config.worktree" };

/* Below the share, without following a link. */
static int open_below(int dir_fd, const char *rel, int flags)
{
	struct open_how how = { .flags = (uint64_t)(flags | O_CLOEXEC), .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH };

	return (int)syscall(__NR_openat2, dir_fd, rel, &how, sizeof(how));
}

static uint64_t mix(uint64_t h, uint64_t v) { return (h ^ v) * 0x9e3779b97f4a7c15ULL + (h >> 29); }

static uint64_t mix_stat(uint64_t h, const struct stat *st)
{
	h = mix(h, st->st_ino);
	h = mix(h, st->st_mode);
	h = mix(h, (uint64_t)st->st_size);
	h = mix(h, (uint64_t)st->st_mtim.tv_sec * 1000000000u + (uint64_t)st->st_mtim.tv_nsec);
	return h;
}

/* Metadata of the path and, for a directory, of what lies directly in it. 0: it does not exist (or is a placeholder). */
static uint64_t fingerprint(int dir_fd, const char *rel)
{
	struct stat st;
	uint64_t h, sum = 0;
	struct dirent *e;
	DIR *d;
	int fd;

	if (fstatat(dir_fd, rel, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return 0;
	if (S_ISDIR(st.st_mode) && (st.st_mode & 07777) == PLACEHOLDER_MODE)
		return 0;
	h = mix_stat(1, &st);
	if (!S_ISDIR(st.st_mode) || (fd = open_below(dir_fd, rel, O_RDONLY | O_DIRECTORY)) < 0)
		return h;
	d = fdopendir(fd);
	if (d == NULL) {
		close(fd);
		return h;
	}
	while ((e = readdir(d)) != NULL)
		if (strcmp(e->d_name, "..") != 0 && strcmp(e->d_name, ".") != 0 && fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			sum += mix_stat(2, &st); /* in any order */
	closedir(d);
	return mix(h, sum);
}

struct wanted { /* operations to be, sorted by length before they are mounted */
	const char *path;
	enum view_kind kind;
};
struct work {
	struct guard *g;
	struct plan *p;
	const char *share;
	int dir_fd;
	struct wanted ops[GUARD_NAMES_MAX * 2];
	unsigned n;
};

static void want_op(struct work *k, enum view_kind kind, const char *rel)
{
	size_t n = strlen(k->share), m = strlen(rel);
	char *path = arena_alloc(&k->p->mem, n + m + 2);

	memcpy(path, k->share, n);
	path[n] = '/';
	memcpy(path + n + 1, rel, m + 1);
	for (unsigned i = 0; i < k->n; i++)
		if (strcmp(k->ops[i].path, path) == 0) {
			if (k->ops[i].kind == VIEW_SELF) /* what is protected as a whole needs no binding onto itself */
				k->ops[i].kind = kind;
			return;
		}
	if (k->n < GUARD_NAMES_MAX * 2)
		k->ops[k->n++] = (struct wanted){ path, kind };
}

static void watch(struct work *k, const char *rel, bool placeholder)
{
	struct guard_name *w = &k->g->names[k->g->n];
	size_t n = strlen(k->share), m = strlen(rel);
	char *path;

	if (k->g->n == GUARD_NAMES_MAX)
		return;
	path = arena_alloc(&k->p->mem, n + m + 2);
	memcpy(path, k->share, n);
	path[n] = '/';
	memcpy(path + n + 1, rel, m + 1);
	*w = (struct guard_name){ .path = path, .dir_fd = k->dir_fd, .rel = path + n + 1, .before = fingerprint(k->dir_fd, rel), .placeholder = placeholder };
	k->g->n++;
}

static bool is_placeholder(int dir_fd, const char *rel)
{
	struct stat st;
	struct dirent *e;
	DIR *d;
	int fd, n = 0;

	if (fstatat(dir_fd, rel, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISDIR(st.st_mode) || (st.st_mode & 07777) != PLACEHOLDER_MODE)
		return false;
	fd = open_below(dir_fd, rel, O_RDONLY | O_DIRECTORY);
	d = fd < 0 ? NULL : fdopendir(fd);
	if (d == NULL) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	while ((e = readdir(d)) != NULL)
		n++;
	closedir(d);
	return n == 2;
}

/* Makes (or adopts) and locks an empty directory at rel. 1 held; 0 nobody may create it there anyway; -1. */
static int hold_place(struct work *k, const char *rel, struct err *err)
{
	struct guard *g = k->g;

	for (int tries = 0; tries < 8; tries++) {
		struct stat a, b;
		int fd;

		if (mkdirat(k->dir_fd, rel, 0700) == 0) {
			if (fchmodat(k->dir_fd, rel, PLACEHOLDER_MODE, 0) != 0)
				return err_errno(err, "cannot protect %s/%s", k->share, rel);
		} else if (errno == EACCES || errno == EPERM || errno == EROFS) {
			return 0;
		} else if (errno != EEXIST) {
			return err_errno(err, "cannot protect %s/%s", k->share, rel);
		}
		fd = open_below(k->dir_fd, rel, O_RDONLY | O_DIRECTORY);
		if (fd < 0 || flock(fd, LOCK_SH) != 0) {
			if (fd >= 0)
				close(fd);
			continue;
		}
		/* The one that ran before us may just have taken it away. */
		if (fstat(fd, &a) == 0 && fstatat(k->dir_fd, rel, &b, AT_SYMLINK_NOFOLLOW) == 0 && a.st_ino == b.st_ino && a.st_dev == b.st_dev) {
			if (g->held_n == GUARD_NAMES_MAX || g->n == GUARD_NAMES_MAX) {
				close(fd);
				return err_set(err, E2BIG, "too many protected names");
			}
			g->held[g->held_n] = fd;
			g->held_name[g->held_n++] = g->n; /* the watch() that follows */
			return 1;
		}
		close(fd);
	}
	return err_set(err, EBUSY, "cannot protect %s/%s", k->share, rel);
}

static bool held_already(const struct work *k, const char *rel)
{
	size_t n = strlen(k->share);

	for (unsigned i = 0; i < k->n; i++)
		if (k->ops[i].kind != VIEW_SELF && strncmp(k->ops[i].path, k->share, n) == 0 && k->ops[i].path[n] == '/' && strcmp(k->ops[i].path + n + 1, rel) == 0)
			return true;
	return false;
}

/* Walks from the share to rel: directories on the way are bound onto themselves, the last is protected or held. */
static int protect(struct work *k, const char *rel, struct err *err)
{
	char part[4096];
	size_t n = strlen(rel);
	struct stat st;
	int r;

	if (n >= sizeof(part))
		return err_set(err, ENAMETOOLONG, "%s", rel);
	for (size_t i = 0; i <= n; i++) {
		if (rel[i] != '/' && rel[i] != 0)
			continue;
		memcpy(part, rel, i);
		part[i] = 0;
		if (held_already(k, part))
			return 0;
		if (fstatat(k->dir_fd, part, &st, AT_SYMLINK_NOFOLLOW) != 0 || is_placeholder(k->dir_fd, part)) {
			r = hold_place(k, part, err);
			if (r > 0) {
				watch(k, part, true);
				want_op(k, VIEW_PROTECT, part);
			}
			return r < 0 ? -1 : 0;
		}
		if (S_ISLNK(st.st_mode)) {
			say_note("%s/%s is a symbolic link: it cannot be protected, a change will be told at the end", k->share, part);
			watch(k, part, false);
			return 0;
		}
		if (rel[i] == 0 || !S_ISDIR(st.st_mode)) { /* a file where a directory was expected (a worktree's .git): protect that */
			watch(k, part, false);
			want_op(k, VIEW_PROTECT, part);
			return 0;
		}
		want_op(k, VIEW_SELF, part);
	}
	return 0;
}

static int protect_pattern(struct work *k, struct err *err)
{
	int fd = open_below(k->dir_fd, protected_pattern_dir, O_RDONLY | O_DIRECTORY), r = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	char rel[512];

	while (d != NULL && r == 0 && (e = readdir(d)) != NULL) {
		if (fnmatch(protected_pattern, e->d_name, 0) != 0)
			continue;
		snprintf(rel, sizeof(rel), "%s/%s", protected_pattern_dir, e->d_name);
		r = protect(k, rel, err);
	}
	if (d != NULL)
		closedir(d);
	return r;
}

static void watch_git(struct work *k)
{
	struct guard *g = k->g;
	struct stat st;
	int fd;

	if (is_placeholder(k->dir_fd, ".git"))
		return; /* and read-only: nothing can appear in it */
	fd = open_below(k->dir_fd, ".git", O_RDONLY | O_DIRECTORY);
	if (fd < 0)
		return;
	if (g->git_n == PLAN_PATHS_MAX) {
		close(fd);
		return;
	}
	for (unsigned i = 0; i < 2; i++)
		g->git_had[g->git_n][i] = fstatat(fd, git_redirects[i], &st, AT_SYMLINK_NOFOLLOW) == 0;
	g->git_fd[g->git_n++] = fd;
}

/* path relative to the share, when below it. */
static const char *below(const char *path, const char *share)
{
	size_t n = strlen(share);

	return path != NULL && path_within(path, share) && path[n] == '/' ? path + n + 1 : NULL;
}

static int own_programs(struct work *k, const char *dir, struct err *err)
{
	static const char *const programs[] = { "sallyport", "sallyport-sandbox", "sallyport-proxy", "sallyport-policy", "sallyport-secrets", "sallyport-ca" };
	const char *rel = below(dir, k->share);
	struct stat st;

	if (rel != NULL)
		return protect(k, rel, err);
	if (dir == NULL || strcmp(dir, k->share) != 0)
		return 0;
	for (unsigned i = 0; i < sizeof(programs) / sizeof(programs[0]); i++)
		if (fstatat(k->dir_fd, programs[i], &st, AT_SYMLINK_NOFOLLOW) == 0 && protect(k, programs[i], err) < 0)
			return -1;
	return 0;
}

/* Covered whether it exists or not: what is made there later must not be seen either, so a missing place is held. */
static int cover(struct work *k, const char *rel, struct err *err)
{
	char path[4096];
	struct stat st;

	if (protect(k, rel, err) < 0)
		return -1;
	if (fstatat(k->dir_fd, rel, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return 0; /* a parent of it is held, empty and read-only */
	snprintf(path, sizeof(path), "%s/%s", k->share, rel);
	for (unsigned i = 0; i < k->n; i++)
		if (strcmp(k->ops[i].path, path) == 0)
			k->ops[i].kind = VIEW_HIDE;
	return 0;
}

static int by_length(const void *a, const void *b)
{
	const struct wanted *x = a, *y = b;
	size_t n = strlen(x->path), m = strlen(y->path);

	return n != m ? (n < m ? -1 : 1) : strcmp(x->path, y->path);
}

static int guard_share(struct work *k, const struct plan_wish *w, const struct plan_secrets *s, struct err *err)
{
	const char *rel;

	for (unsigned i = 0; i < sizeof(protected_names) / sizeof(protected_names[0]); i++)
		if (protect(k, protected_names[i], err) < 0)
			return -1;
	if (protect_pattern(k, err) < 0)
		return -1;
	for (unsigned i = 0; i < w->protect_n; i++) {
		rel = w->protect[i][0] == '/' ? below(w->protect[i], k->share) : strcmp(k->share, k->p->cwd) == 0 ? w->protect[i] : NULL;
		if (rel != NULL && protect(k, rel, err) < 0)
			return -1;
	}
	for (unsigned i = 0; i < s->policies_n; i++)
		if ((rel = below(s->policies[i], k->share)) != NULL && protect(k, rel, err) < 0)
			return -1;
	if (own_programs(k, s->program_dir, err) < 0)
		return -1;
	for (unsigned i = 0; i < s->n; i++)
		if ((rel = below(s->paths[i], k->share)) != NULL && cover(k, rel, err) < 0)
			return -1;
	watch_git(k);
	return 0;
}

int guard_prepare(struct guard *g, struct plan *p, const struct plan_wish *w, const struct plan_secrets *s, struct err *err)
{
	struct work *k = must_calloc(1, sizeof(*k));
	unsigned n = p->view_n;
	int r = -1;

	g->n = g->held_n = g->git_n = 0;
	g->life_fd = g->done_fd = -1;
	g->sweeper = -1;
	k->g = g;
	k->p = p;
	for (unsigned i = 0; i < n; i++) {
		const struct view_op *o = &p->view[i];
		struct stat st;

		if (o->kind != VIEW_WRITE)
			continue;
		k->share = o->path;
		k->dir_fd = o->source_fd >= 0 ? fcntl(o->source_fd, F_DUPFD_CLOEXEC, 0) : idmap_open(o->source, O_PATH, err);
		if (k->dir_fd < 0)
			goto out;
		if (fstat(k->dir_fd, &st) != 0 || !S_ISDIR(st.st_mode)) {
			close(k->dir_fd);
			continue;
		}
		if (guard_share(k, w, s, err) < 0)
			goto out;
	}
	qsort(k->ops, k->n, sizeof(k->ops[0]), by_length);
	for (unsigned i = 0; i < k->n; i++)
		plan_op(p, k->ops[i].kind, k->ops[i].path, k->ops[i].path, 0);
	if (p->view_full) {
		err_set(err, E2BIG, "the file view needs more than %d mounts", VIEW_MAX);
		goto out;
	}
	r = 0;
out:
	free(k);
	return r;
}

static void remove_redirects(const struct guard *g)
{
	for (unsigned i = 0; i < g->git_n; i++)
		for (unsigned j = 0; j < 2; j++)
			if (!g->git_had[i][j] && unlinkat(g->git_fd[i], git_redirects[j], 0) != 0 && errno == EISDIR)
				unlinkat(g->git_fd[i], git_redirects[j], AT_REMOVEDIR);
}

static void sweep(const struct guard *g)
{
	remove_redirects(g);
	for (unsigned i = g->held_n; i-- > 0;) {
		const struct guard_name *w = &g->names[g->held_name[i]];

		/* Another sandbox in the same folder holds it too: it is theirs to remove. */
		if (flock(g->held[i], LOCK_EX | LOCK_NB) == 0)
			unlinkat(w->dir_fd, w->rel, AT_REMOVEDIR); /* only if empty: what the host's user put there stays */
	}
}

/* Only if nobody has set it since: a shell that is back may have its own modes already. */
static void restore_terminal(const struct guard *g)
{
	struct termios now, raw = g->modes;

	cfmakeraw(&raw);
	if (tcgetattr(STDIN_FILENO, &now) == 0 && now.c_lflag == raw.c_lflag && now.c_iflag == raw.c_iflag && now.c_oflag == raw.c_oflag)
		tcsetattr(STDIN_FILENO, TCSANOW, &g->modes);
}

static void sweeper_main(const struct guard *g, int life, int done)
{
	struct pollfd fds[2] = { { .fd = life, .events = 0 }, { .fd = -1, .events = POLLIN } };
	char path[64], events[4096];
	sigset_t none;

	setsid(); /* a terminal's Ctrl-C or a killed process group must not take us along */
	prctl(PR_SET_NAME, "sallyport-sweep");
	prctl(PR_SET_DUMPABLE, 0); /* we hold folders that our user could not open */
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	if (g->git_n > 0) {
		fds[1].fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
		for (unsigned i = 0; i < g->git_n && fds[1].fd >= 0; i++) {
			snprintf(path, sizeof(path), "/proc/self/fd/%d", g->git_fd[i]);
			inotify_add_watch(fds[1].fd, path, IN_CREATE | IN_MOVED_TO);
		}
	}
	while (!(fds[0].revents & (POLLHUP | POLLERR | POLLNVAL))) {
		if (poll(fds, fds[1].fd >= 0 ? 2 : 1, -1) < 0 && errno != EINTR)
			break;
		if (fds[1].revents & POLLIN) {
			while (read(fds[1].fd, events, sizeof(events)) > 0)
				;
			remove_redirects(g);
		}
	}
	if (g->tty)
		restore_terminal(g);
	sweep(g);
	(void)!write(done, "", 1);
	_exit(0);
}

int guard_start(struct guard *g, bool tty, struct err *err)
{
	int life[2], done[2];

	g->tty = tty && tcgetattr(STDIN_FILENO, &g->modes) == 0;
	if (g->held_n == 0 && g->git_n == 0 && !g->tty)
		return 0;
	if (pipe2(life, O_CLOEXEC) != 0 || pipe2(done, O_CLOEXEC) != 0) {
		sweep(g);
		return err_errno(err, "pipe");
	}
	g->sweeper = fork();
	if (g->sweeper < 0) {
		close(life[0]);
		close(life[1]);
		close(done[0]);
		close(done[1]);
		sweep(g);
		return err_errno(err, "cannot start the sweeper");
	}
	if (g->sweeper == 0) {
		/* Nothing is inherited but the pipe, the folders and the terminal that is restored: not the control connection. */
		int keep[GUARD_NAMES_MAX * 2 + PLAN_PATHS_MAX + 3];
		unsigned n = 0;

		if (g->tty)
			keep[n++] = STDIN_FILENO;
		keep[n++] = life[0];
		keep[n++] = done[1];
		for (unsigned i = 0; i < g->held_n; i++)
			keep[n++] = g->held[i];
		for (unsigned i = 0; i < g->git_n; i++)
			keep[n++] = g->git_fd[i];
		for (unsigned i = 0; i < g->n; i++)
			keep[n++] = g->names[i].dir_fd;
		link_close_except(0, keep, n);
		sweeper_main(g, life[0], done[1]);
	}
	close(life[0]);
	close(done[1]);
	g->life_fd = life[1];
	g->done_fd = done[0];
	/* The locks are the sweeper's now: the open file descriptions are shared, so ours can go. */
	for (unsigned i = 0; i < g->held_n; i++)
		close(g->held[i]);
	return 0;
}

/*
 * Its work must be done before we end; its death should be, so that no process stays behind. That takes 10 ms on a file
 * system that discards blocks at once, and is not waited for where it takes longer.
 */
static void await_sweeper(struct guard *g)
{
	struct pollfd dead = { .fd = (int)syscall(__NR_pidfd_open, g->sweeper, 0), .events = POLLIN };
	char c;

	while (read(g->done_fd, &c, 1) < 0 && errno == EINTR)
		;
	close(g->done_fd);
	g->done_fd = -1;
	if (dead.fd < 0 || poll(&dead, 1, REAP_MS) > 0)
		while (waitpid(g->sweeper, NULL, 0) < 0 && errno == EINTR)
			;
	if (dead.fd >= 0)
		close(dead.fd);
	g->sweeper = -1;
}

void guard_finish(struct guard *g)
{
	if (g->life_fd >= 0)
		close(g->life_fd);
	g->life_fd = -1;
	if (g->sweeper > 0)
		await_sweeper(g);
	for (unsigned i = 0; i < g->n; i++) {
		const struct guard_name *w = &g->names[i];
		uint64_t now = fingerprint(w->dir_fd, w->rel);

		if (now != w->before)
			say_note("changed during the run, look before you use it: %s%s", w->path, w->before == 0 ? " (new)" : now == 0 ? " (gone)" : "");
	}
}
