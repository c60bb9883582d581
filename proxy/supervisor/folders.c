/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Policy folders: what a sandbox that names its policy gets. NAME.lmdb in a folder is a table, or a link to one beside it
 * (`sallyport policy compile --install`). When the link is turned, or on SIGHUP, every sandbox of that name gets the table
 * that is current then; what cannot be had or is refused leaves it with the one that it has. The first folder that has a
 * table of the name is the one that counts, also for who may use it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../common/base/must.h"
#include "../../common/sys/log.h"
#include "supervisor.h"

#define EVENTS (IN_CLOSE_WRITE | IN_MOVED_TO | IN_ONLYDIR)
#define LOOK_MS 1 /* several events of one change */

static void on_look(struct timer *t) { folders_look((struct supervisor *)((char *)t - offsetof(struct supervisor, folders_due))); }

static void on_events(struct watch *w, uint32_t events)
{
	struct supervisor *s = (struct supervisor *)((char *)w - offsetof(struct supervisor, folders_watch));
	char b[8192];

	(void)events;
	while (read(w->fd, b, sizeof(b)) > 0)
		;
	timer_start(s->loop, &s->folders_due, LOOK_MS, on_look);
}

int folders_open(struct supervisor *s, struct err *err)
{
	struct config *c = &s->start.config;
	struct stat st;
	int fd;

	if (c->folder_n == 0)
		return 0;
	fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (fd < 0)
		return err_errno(err, "inotify");
	for (unsigned i = 0; i < c->folder_n; i++) {
		struct folder *f = &c->folders[i];

		f->fd = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (f->fd < 0 || fstat(f->fd, &st) != 0)
			return err_errno(err, "policies: cannot open the folder %s", f->path);
		if ((st.st_uid != geteuid() && st.st_uid != 0) || (st.st_mode & 022))
			return err_set(err, EPERM, "policies: %s must belong to uid %u (or root) and nobody else may write it: chown it, chmod go-w it", f->path, (unsigned)geteuid());
		if (inotify_add_watch(fd, f->path, EVENTS) < 0)
			return err_errno(err, "policies: %s", f->path);
	}
	watch_start(s->loop, &s->folders_watch, fd, EPOLLIN, on_events);
	return 0;
}

/* A link leads to a name in the same folder, never further. */
static int open_table(int dir, const char *name)
{
	char file[MSG_NAME_MAX + 8], target[256];
	ssize_t n;
	int fd;

	snprintf(file, sizeof(file), "%s.lmdb", name);
	fd = openat(dir, file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	if (fd >= 0 || errno != ELOOP)
		return fd;
	n = readlinkat(dir, file, target, sizeof(target) - 1);
	if (n <= 0 || memchr(target, '/', (size_t)n) != NULL) {
		errno = n <= 0 ? errno : ELOOP;
		return -1;
	}
	target[n] = 0;
	return openat(dir, target, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
}

int folders_table(const struct supervisor *s, const char *name, const struct caller *by, const struct folder **from, struct err *err)
{
	const struct config *c = &s->start.config;

	for (unsigned i = 0; i < c->folder_n; i++) {
		int fd = open_table(c->folders[i].fd, name);

		*from = &c->folders[i];
		if (fd >= 0 && !caller_may_use(by, c, *from)) {
			close(fd);
			return err_set(err, EPERM, "user %u may not use policy `%s`: its folder lets neither this user nor a group of it (gateway.yaml:%u, policies: users, groups)", (unsigned)by->uid, name, (unsigned)c->folders[i].line);
		}
		if (fd >= 0)
			return fd;
		if (errno != ENOENT)
			return err_errno(err, "%s/%s.lmdb", c->folders[i].path, name);
	}
	return err_set(err, ENOENT, c->folder_n == 0 ? "this gateway has no policy folders (policies: [{dir: DIR}])" : "no policy folder of this gateway has a table of that name");
}

static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static void look(struct supervisor *s, struct sandbox *b)
{
	struct err err = ERR_INIT;
	const struct folder *from = NULL;
	struct generation *g;
	struct stat st;
	int fd;

	if (b->reloading || b->in_force == NULL) {
		b->look_again = true;
		return;
	}
	b->look_again = false;
	fd = folders_table(s, b->in_force->policy, &b->caller, &from, &err);
	if (fd >= 0 && fstat(fd, &st) == 0 && same_file(&st, &b->policy_seen)) {
		close(fd);
		return;
	}
	b->reloading = true;
	if (fd < 0) {
		control_reloaded(b, NULL, err.text);
		return;
	}
	b->policy_seen = st; /* also when it is refused: it is not asked for again until it changes */
	g = generation_new();
	g->table_fd = fd;
	g->flags = b->in_force->flags;
	g->seen = st;
	g->folder = from;
	g->narrow_fd = b->in_force->narrow_fd >= 0 ? fcntl(b->in_force->narrow_fd, F_DUPFD_CLOEXEC, 3) : -1;
	MUST(g->narrow_fd >= 0 || b->in_force->narrow_fd < 0);
	memcpy(g->policy, b->in_force->policy, sizeof(g->policy));
	generation_keep_sources(g, b->in_force, true, true);
	generation_add(b, g);
}

void folders_look(struct supervisor *s)
{
	struct sandbox *next;

	for (struct sandbox *b = s->sandboxes; b != NULL; b = next) {
		next = b->next;
		if (!b->gone && (b->in_force == NULL || b->in_force->policy[0] != 0))
			look(s, b);
	}
}
