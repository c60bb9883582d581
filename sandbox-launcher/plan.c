/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file view of a sandbox. Default deny: a top-level directory of the host is seen only when it belongs to the system
 * (programs, libraries, configuration), and then below a layer that is thrown away; everything else is empty but for what
 * the policy, the tool list or the command itself names. The longest path decides; at equal length hide, protect, write,
 * read: shared paths are mounted shortest first.
 */
#include "plan.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../common/base/must.h"
#include "idmap.h"
#include "say.h"
#include "sockets.h"

#define DEFAULT_SCRATCH (512ULL << 20)

static const char *const system_dirs[] = { "usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "libexec", "etc", "opt", "nix", "gnu", "snap", NULL };
static const char *const empty_dirs[] = { "home", "root", "srv", "mnt", "media", NULL };
static const char *const var_dirs[] = { "lib", "log", "tmp", "spool", "mail", "backups", "crash", NULL }; /* empty below /var */
/* Folders below HOME that hold programs, not credentials. */
static const char *const tool_dirs[] = { ".local/bin", ".local/lib", ".local/share/claude", ".local/share/uv/python", ".local/share/uv/tools", ".local/share/pipx", ".local/share/mise", ".local/share/fnm", ".local/share/pnpm",
	".cargo/bin", ".rustup", ".pyenv", ".nvm", ".fnm", ".volta", ".asdf", ".rbenv", ".rvm", ".nodenv", ".goenv", ".jenv", ".sdkman", ".deno/bin", ".bun", ".npm-global",
	".yarn/bin", "go/bin", "sdk", ".dotnet/sdk", ".dotnet/shared", ".dotnet/host", ".dotnet/tools", ".ghcup", ".juliaup", ".julia/juliaup", ".linuxbrew", "miniconda3", "anaconda3", "miniforge3", ".pixi/bin", ".pixi/envs", ".krew/bin", ".krew/store", ".opencode/bin", ".claude/local",
	".rye", ".poetry/bin", ".elan", ".swiftly", ".foundry/bin", ".nix-profile", ".local/state/nix", NULL };
static const char *const device_nodes[] = { "null", "zero", "full", "random", "urandom", "tty", NULL };

bool path_within(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	if (n == 1)
		return true; /* "/" */
	return strncmp(path, dir, n) == 0 && (path[n] == 0 || path[n] == '/');
}

static bool listed(const char *const *list, const char *name)
{
	for (; *list != NULL; list++)
		if (strcmp(*list, name) == 0)
			return true;
	return false;
}

static const char *copy(struct plan *p, const char *s) { return arena_strz(&p->mem, str_of(s)); }

static const char *join(struct plan *p, const char *dir, const char *name)
{
	size_t n = strlen(dir), m = strlen(name);
	char *s = arena_alloc(&p->mem, n + m + 2);

	if (n == 1) /* "/" */
		n = 0;
	memcpy(s, dir, n);
	s[n] = '/';
	memcpy(s + n + 1, name, m + 1);
	return s;
}

static struct view_op *add(struct plan *p, enum view_kind kind, const char *path, const char *source, mode_t mode)
{
	struct view_op *o;

	if (p->view_n == VIEW_MAX) { /* plan_view ends with an error */
		p->view_full = true;
		p->view_n--;
	}
	o = &p->view[p->view_n];
	*o = (struct view_op){ .kind = kind, .mode = mode, .source_fd = -1, .path = copy(p, path), .source = source != NULL ? copy(p, source) : NULL };
	p->view_n++;
	return o;
}

void plan_op(struct plan *p, enum view_kind kind, const char *path, const char *source, mode_t mode) { add(p, kind, path, source, mode); }

void plan_file(struct plan *p, const char *path, struct str data, mode_t mode) { add(p, VIEW_FILE, path, NULL, mode)->data = arena_str(&p->mem, data); }

static bool empty_directory(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *e;
	bool empty = true;

	if (d == NULL)
		return true; /* not ours to read: the payload could not either */
	while (empty && (e = readdir(d)) != NULL)
		empty = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0;
	closedir(d);
	return empty;
}

/* One entry of "/" or "/var": a link as it is, a system directory below a layer, anything else empty or absent. */
static void see_entry(struct plan *p, const char *dir, const char *name, bool overlay)
{
	const char *path = join(p, dir, name);
	char target[PATH_MAX];
	struct stat st;
	ssize_t n;

	if (lstat(path, &st) != 0)
		return;
	if (S_ISLNK(st.st_mode)) {
		n = readlink(path, target, sizeof(target) - 1);
		if (n > 0) {
			target[n] = 0;
			add(p, VIEW_LINK, path, target, 0);
		}
	} else if (S_ISDIR(st.st_mode)) {
		if (overlay && !empty_directory(path))
			add(p, VIEW_OVERLAY, path, path, 0);
		else
			add(p, VIEW_DIR, path, NULL, strcmp(name, "tmp") == 0 ? 01777 : 0755);
	}
}

static int see_system(struct plan *p, struct err *err)
{
	DIR *d = opendir("/");
	struct dirent *e;

	if (d == NULL)
		return err_errno(err, "cannot list /");
	while ((e = readdir(d)) != NULL)
		if (listed(system_dirs, e->d_name))
			see_entry(p, "/", e->d_name, true);
		else if (listed(empty_dirs, e->d_name))
			see_entry(p, "/", e->d_name, false);
	closedir(d);
	add(p, VIEW_DIR, "/var", NULL, 0755);
	d = opendir("/var");
	while (d != NULL && (e = readdir(d)) != NULL)
		if (e->d_name[0] != '.')
			see_entry(p, "/var", e->d_name, !listed(var_dirs, e->d_name));
	if (d != NULL)
		closedir(d);
	add(p, VIEW_DIR, "/tmp", NULL, 01777);
	add(p, VIEW_DIR, "/run", NULL, 0755);
	add(p, VIEW_DIR, "/run/lock", NULL, 01777);
	add(p, VIEW_DIR, "/dev", NULL, 0755);
	add(p, VIEW_DIR, "/dev/shm", NULL, 01777);
	add(p, VIEW_DIR, "/dev/pts", NULL, 0755);
	add(p, VIEW_DIR, "/proc", NULL, 0555);
	add(p, VIEW_DIR, "/sys", NULL, 0555);
	for (unsigned i = 0; device_nodes[i] != NULL; i++)
		add(p, VIEW_DEV, join(p, "/dev", device_nodes[i]), join(p, "/dev", device_nodes[i]), 0);
	add(p, VIEW_LINK, "/dev/fd", "/proc/self/fd", 0);
	add(p, VIEW_LINK, "/dev/stdin", "/proc/self/fd/0", 0);
	add(p, VIEW_LINK, "/dev/stdout", "/proc/self/fd/1", 0);
	add(p, VIEW_LINK, "/dev/stderr", "/proc/self/fd/2", 0);
	add(p, VIEW_LINK, "/dev/ptmx", "pts/ptmx", 0);
	add(p, VIEW_PTS, "/dev/pts", NULL, 0);
	add(p, VIEW_PROC, "/proc", NULL, 0);
	add(p, VIEW_HIDE, "/proc/keys", NULL, 0); /* the user's keyrings are not per namespace */
	add(p, VIEW_SYS, "/sys", NULL, 0);
	return 0;
}

/* Whether the view so far shows what the host has at this path. */
static bool visible(const struct plan *p, const char *path)
{
	size_t best = 0;
	bool seen = false;

	for (unsigned i = 0; i < p->view_n; i++) {
		const struct view_op *o = &p->view[i];
		size_t n = strlen(o->path);

		if (n >= best && path_within(path, o->path) && o->kind != VIEW_SELF && o->kind != VIEW_FILE && o->kind != VIEW_LINK) {
			best = n;
			seen = o->kind == VIEW_OVERLAY || o->kind == VIEW_READ || o->kind == VIEW_WRITE || o->kind == VIEW_PROTECT;
		}
	}
	return seen;
}

static const struct view_op *share_of(const struct plan *p, const char *path)
{
	const struct view_op *best = NULL;

	for (unsigned i = 0; i < p->view_n; i++)
		if ((p->view[i].kind == VIEW_WRITE || p->view[i].kind == VIEW_READ) && path_within(path, p->view[i].path) && (best == NULL || strlen(p->view[i].path) > strlen(best->path)))
			best = &p->view[i];
	return best;
}

/* "." and relative: the working directory; "~": HOME. No "." or ".." segments are left. */
static const char *expand(struct plan *p, const char *wish, struct err *err)
{
	const char *from = wish, *s;
	char *out;
	size_t n;

	if (wish[0] == '~' && (wish[1] == 0 || wish[1] == '/'))
		from = wish[1] ? join(p, p->home, wish + 2) : p->home;
	else if (wish[0] != '/')
		from = join(p, p->cwd, wish);
	out = arena_alloc(&p->mem, strlen(from) + 2);
	n = 0;
	for (s = from; *s;) {
		size_t len;

		while (*s == '/')
			s++;
		len = strcspn(s, "/");
		if (len == 2 && s[0] == '.' && s[1] == '.') {
			err_set(err, EINVAL, "sandbox: %s: \"..\" is not taken", wish);
			return NULL;
		}
		if (len > 0 && !(len == 1 && s[0] == '.')) {
			out[n++] = '/';
			memcpy(out + n, s, len);
			n += len;
		}
		s += len;
	}
	if (n == 0)
		out[n++] = '/';
	out[n] = 0;
	return out;
}

struct share {
	const char *path;
	enum view_kind kind;
};
struct shares {
	struct share s[PLAN_PATHS_MAX * 4];
	unsigned n;
};

/* 1 taken, 0 there is no such path, -1 error. */
static int want(struct plan *p, struct shares *l, const char *wish, enum view_kind kind, struct err *err)
{
	const char *path = expand(p, wish, err);
	struct stat st;

	if (path == NULL)
		return -1;
	if (lstat(path, &st) != 0) {
		if (kind == VIEW_WRITE)
			return err_errno(err, "sandbox: write: %s", path);
		return 0; /* plan_view says so where the policy named it */
	}
	if (S_ISLNK(st.st_mode) && kind != VIEW_HIDE)
		return err_set(err, ELOOP, "sandbox: %s is a symbolic link; name the real path", path);
	MUST(l->n < PLAN_PATHS_MAX * 4);
	l->s[l->n++] = (struct share){ path, kind };
	return 1;
}

static int by_length(const void *a, const void *b)
{
	const struct share *x = a, *y = b;
	size_t n = strlen(x->path), m = strlen(y->path);

	if (n != m)
		return n < m ? -1 : 1;
	if (strcmp(x->path, y->path) != 0)
		return strcmp(x->path, y->path);
	/* The last one mounted wins: read, write, protect, hide (the order of the enum, but for hide). */
	return (x->kind == VIEW_HIDE ? VIEW_KINDS : (int)x->kind) - (y->kind == VIEW_HIDE ? VIEW_KINDS : (int)y->kind);
}

static int mount_shares(struct plan *p, struct shares *l, const struct plan_secrets *s, bool allow_home, struct err *err)
{
	qsort(l->s, l->n, sizeof(l->s[0]), by_length);
	for (unsigned i = 0; i < l->n; i++) {
		const struct share *h = &l->s[i];
		struct view_op *o;

		if (h->kind == VIEW_HIDE) {
			if (visible(p, h->path))
				add(p, VIEW_HIDE, h->path, NULL, 0);
			continue;
		}
		for (unsigned k = 0; k < s->n; k++)
			if (path_within(h->path, s->paths[k]))
				return err_set(err, EPERM, "%s cannot be shared with the sandbox: it is, or lies below, %s", h->path, s->paths[k]);
		if (path_within(h->path, "/proc") || path_within(h->path, "/sys") || path_within(h->path, "/dev"))
			return err_set(err, EPERM, "%s cannot be shared with the sandbox", h->path);
		if (h->kind == VIEW_WRITE && !allow_home && path_within(p->home, h->path))
			return err_set(err, EPERM, "%s is %s home folder: a sandbox would see and change everything in it. Go to a project folder, or say --allow-home", h->path, strcmp(p->home, h->path) == 0 ? "your" : "above your");
		if (strcmp(h->path, "/") == 0)
			return err_set(err, EPERM, "/ cannot be shared as a whole; name folders in it");
		if (i + 1 < l->n && strcmp(l->s[i + 1].path, h->path) == 0)
			continue; /* the stronger one follows */
		o = add(p, h->kind, h->path, h->path, 0);
		if (p->was_root) {
			o->source_fd = idmap_clone(h->path, h->kind == VIEW_WRITE, p->uid, p->gid, err);
			if (o->source_fd < 0)
				return -1;
		}
		if (h->kind == VIEW_WRITE) {
			MUST(p->writable_n < PLAN_PATHS_MAX);
			p->writable[p->writable_n++] = o->path;
		}
	}
	return 0;
}

/* As visible, with what is still to be mounted. */
static bool will_see(const struct plan *p, const struct shares *l, const char *path)
{
	for (unsigned i = 0; i < l->n; i++)
		if (l->s[i].kind != VIEW_HIDE && path_within(path, l->s[i].path))
			return true;
	return visible(p, path);
}

/* A program below a hidden folder: every link on the way to it, and the file itself. */
static int see_program(struct plan *p, struct shares *l, const char *path, struct err *err)
{
	for (int depth = 0; depth < 16; depth++) {
		char target[PATH_MAX], real[PATH_MAX];
		char *dir = arena_strz(&p->mem, str_of(path)), *slash = strrchr(dir, '/');
		struct stat st;
		ssize_t n;

		*slash = 0;
		if (realpath(dir[0] ? dir : "/", real) == NULL)
			return 0;
		dir = arena_strz(&p->mem, str_of(real));
		path = join(p, dir, slash + 1);
		if (lstat(path, &st) != 0)
			return 0;
		if (!S_ISLNK(st.st_mode))
			return will_see(p, l, path) ? 0 : want(p, l, path, VIEW_READ, err) < 0 ? -1 : 0;
		n = readlink(path, target, sizeof(target) - 1);
		if (n <= 0)
			return 0;
		target[n] = 0;
		if (!will_see(p, l, path))
			add(p, VIEW_LINK, path, target, 0);
		path = target[0] == '/' ? copy(p, target) : join(p, dir, target);
	}
	return 0;
}

static int see_home(struct plan *p, struct shares *l, const struct plan_wish *w, struct err *err)
{
	struct stat st;

	add(p, visible(p, p->home) ? VIEW_OPAQUE : VIEW_DIR, p->home, NULL, 0700);
	if (w->home == HOME_HOST)
		return want(p, l, p->home, VIEW_READ, err) < 0 ? -1 : 0;
	for (unsigned i = 0; w->home == HOME_TOOLS && tool_dirs[i] != NULL; i++) {
		const char *path = join(p, p->home, tool_dirs[i]);
		char real[PATH_MAX];

		if (lstat(path, &st) != 0)
			continue;
		if (S_ISLNK(st.st_mode)) {
			if (see_program(p, l, path, err) < 0)
				return -1;
		} else if (S_ISDIR(st.st_mode) && realpath(path, real) != NULL && strcmp(real, path) == 0 && want(p, l, path, VIEW_READ, err) < 0) {
			return -1;
		}
	}
	return 0;
}

/* Secrets' places that the view would show otherwise. Those inside writable shares are left to guard.c. */
static void hide_secrets(struct plan *p, const struct plan_secrets *s)
{
	for (unsigned i = 0; i < s->n; i++) {
		const struct view_op *share = share_of(p, s->paths[i]);

		if (visible(p, s->paths[i]) && (share == NULL || share->kind == VIEW_READ) && access(s->paths[i], F_OK) == 0)
			add(p, VIEW_HIDE, s->paths[i], NULL, 0);
	}
}

bool plan_shows(const struct plan *p, const char *path) { return share_of(p, path) != NULL || visible(p, path); }

int plan_view(struct plan *p, const struct plan_wish *w, const struct plan_secrets *s, bool allow_home, struct err *err)
{
	static const char *const scratch_dirs[] = { "/tmp", "/run", "/var", "/dev", "/proc", "/home", "/root", "/srv", "/mnt", "/media", NULL };
	struct shares *l = arena_zalloc(&p->mem, sizeof(*l));
	int r = 0;

	p->scratch = w->scratch ? w->scratch : DEFAULT_SCRATCH;
	p->memory = w->memory;
	p->processes = w->processes;
	p->open_files = w->open_files;
	p->wall_ms = w->wall_ms;
	p->stop_on_loss = w->stop_on_loss;
	p->require_overlay = w->require_overlay;
	p->require_tproxy = w->require_tproxy;
	p->require_landlock = w->require_landlock;
	if (see_system(p, err) < 0 || see_home(p, l, w, err) < 0)
		return -1;
	if (w->write_default)
		r = want(p, l, ".", VIEW_WRITE, err);
	for (unsigned i = 0; r >= 0 && i < w->write_n; i++)
		r = want(p, l, w->write[i], VIEW_WRITE, err);
	for (unsigned i = 0; r >= 0 && i < w->read_n; i++)
		if ((r = want(p, l, w->read[i], VIEW_READ, err)) == 0)
			say_note("sandbox: read: %s does not exist", w->read[i]);
	for (unsigned i = 0; r >= 0 && i < w->hide_n; i++)
		if ((r = want(p, l, w->hide[i], VIEW_HIDE, err)) == 0)
			say_note("sandbox: hide: %s does not exist: what is made there later can be seen", w->hide[i]);
	if (r >= 0 && p->command != NULL)
		r = see_program(p, l, p->command, err);
	if (r < 0 || mount_shares(p, l, s, allow_home, err) < 0)
		return -1;
	hide_secrets(p, s);
	if (sockets_find(p, err) < 0)
		return -1;
	for (unsigned i = 0; scratch_dirs[i] != NULL; i++)
		p->writable[p->writable_n++] = scratch_dirs[i];
	p->writable[p->writable_n++] = p->home;
	if (p->view_full)
		return err_set(err, E2BIG, "the file view needs more than %d mounts", VIEW_MAX);
	/* Somewhere to stand, even where the working directory is not shared. */
	if (!visible(p, p->cwd))
		add(p, VIEW_DIR, p->cwd, NULL, 0755);
	return 0;
}

void plan_print(const struct plan *p, FILE *f)
{
	static const char *const names[VIEW_KINDS] = { "none", "dir", "link", "file", "opaque", "overlay", "dev", "pts", "proc", "sys", "read", "write", "hide", "self", "protect" };

	fprintf(f, "user %u:%u%s\ncwd %s\nhome %s\nscratch %llu\n", (unsigned)p->uid, (unsigned)p->gid, p->was_root ? " (root is given up)" : "", p->cwd, p->home, (unsigned long long)p->scratch);
	for (unsigned i = 0; i < p->view_n; i++) {
		const struct view_op *o = &p->view[i];

		fprintf(f, "%s %s", names[o->kind], o->path);
		if (o->source != NULL && strcmp(o->source, o->path) != 0)
			fprintf(f, " <- %s", o->source);
		fprintf(f, "%s\n", o->source_fd >= 0 ? " (by descriptor)" : "");
	}
	for (unsigned i = 0; i < p->sockets_n; i++)
		fprintf(f, "mask-socket %s\n", p->sockets[i]);
}
