/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation. Neither a read-only mount nor Landlock stops a connect to a host's socket that has a name in a shared
 * folder, so each that lives when the sandbox starts is masked. The kernel tells the names as they were bound: an absolute
 * one of our own network namespace is looked up where it says. One that is relative, was renamed, or belongs to another
 * network namespace (a container with its own view of files) may be anywhere; only when there is such a one are the shared
 * folders searched, since a tree may be large and most hosts have none.
 *
 * A socket file that nobody listens on any more is not masked: the command must be able to remove and make it anew. A
 * datagram socket that connects tells the two apart, and the peer never learns of it: EPROTOTYPE is a living one of another
 * type, ECONNREFUSED a dead name.
 */
#include "sockets.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "../common/base/must.h"
#include "say.h"

#define TABLES_MAX 4096	    /* network namespaces */
#define ENTRIES_MAX 2000000 /* of all searched folders; then it is said */
#define DEPTH_MAX 200	    /* an open directory each */

struct search {
	struct plan *p;
	const char *found[VIEW_MAX];
	unsigned n;
	bool too_many, unplaced, gave_up;
	unsigned long entries;
	ino_t tables[TABLES_MAX]; /* of the tables that were read */
	unsigned tables_n;
	char path[PATH_MAX]; /* of the directory that is searched */
};

static void take(struct search *s, const char *path)
{
	for (unsigned i = 0; i < s->n; i++)
		if (strcmp(s->found[i], path) == 0)
			return;
	if (s->n == VIEW_MAX) {
		s->too_many = true;
		return;
	}
	s->found[s->n++] = arena_strz(&s->p->mem, str_of(path));
}

/* Where the name stands on the file system now, links on the way resolved. False: not there. */
static bool place(const char *name, char real[PATH_MAX])
{
	char dir[PATH_MAX];
	const char *slash = strrchr(name, '/');
	struct stat st;
	size_t n;

	if (slash == NULL || slash - name >= PATH_MAX)
		return false;
	memcpy(dir, name, (size_t)(slash - name));
	dir[slash - name] = 0;
	if (realpath(dir[0] ? dir : "/", real) == NULL)
		return false;
	n = strlen(real);
	if (n == 1)
		n = 0;
	if (snprintf(real + n, PATH_MAX - n, "%s", slash) >= (int)(PATH_MAX - n))
		return false;
	return lstat(real, &st) == 0 && S_ISSOCK(st.st_mode);
}

static void read_table(struct search *s, const char *file, bool own)
{
	FILE *f = fopen(file, "re");
	char line[512], real[PATH_MAX];

	while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
		int at = 0;
		size_t n;

		if (sscanf(line, "%*x: %*x %*x %*x %*x %*x %*u %n", &at) != 0 || at == 0 || line[at] == 0 || line[at] == '@')
			continue; /* the head line, a socket without a name, an abstract one */
		n = strlen(line);
		if (n > 0 && line[n - 1] == '\n')
			line[n - 1] = 0;
		if (!own || line[at] != '/' || !place(line + at, real))
			s->unplaced = true;
		else if (plan_shows(s->p, real))
			take(s, real); /* below an overlay it is dead anyway, but the overlay may turn out impossible */
	}
	if (f != NULL)
		fclose(f);
}

/* Each network namespace has one table, seen through whichever process lives there; its inode tells it from others. */
static void read_tables(struct search *s)
{
	DIR *d = opendir("/proc");
	struct dirent *e;
	char path[300];
	struct stat st;

	read_table(s, "/proc/self/net/unix", true);
	if (stat("/proc/self/net/unix", &st) == 0)
		s->tables[s->tables_n++] = st.st_ino;
	while (d != NULL && !s->unplaced && (e = readdir(d)) != NULL) {
		unsigned i = 0;

		if (!isdigit((unsigned char)e->d_name[0]) || snprintf(path, sizeof(path), "/proc/%s/net/unix", e->d_name) >= (int)sizeof(path) || stat(path, &st) != 0)
			continue;
		while (i < s->tables_n && s->tables[i] != st.st_ino)
			i++;
		if (i < s->tables_n)
			continue;
		if (s->tables_n < TABLES_MAX)
			s->tables[s->tables_n++] = st.st_ino;
		read_table(s, path, false);
	}
	if (d != NULL)
		closedir(d);
}

static bool lives(int dir_fd, const char *name)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), at, r;
	bool dead;

	at = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || at < 0) {
		if (fd >= 0)
			close(fd);
		if (at >= 0)
			close(at);
		return true; /* cannot be told: masked */
	}
	snprintf(sa.sun_path, sizeof(sa.sun_path), "/proc/self/fd/%d", at);
	r = connect(fd, (struct sockaddr *)&sa, sizeof(sa));
	dead = r != 0 && errno == ECONNREFUSED;
	close(fd);
	close(at);
	return !dead;
}

/* s->path names the directory, whose descriptor is taken. */
static void search_dir(struct search *s, int fd, unsigned depth)
{
	DIR *d = fdopendir(fd);
	size_t n = strlen(s->path);
	struct dirent *e;

	if (d == NULL) {
		close(fd);
		return;
	}
	while (!s->gave_up && (e = readdir(d)) != NULL) {
		struct stat st;
		unsigned char type = e->d_type;
		int sub;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (type == DT_UNKNOWN && fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			type = S_ISDIR(st.st_mode) ? DT_DIR : S_ISSOCK(st.st_mode) ? DT_SOCK
										   : DT_REG;
		if (++s->entries > ENTRIES_MAX || depth > DEPTH_MAX)
			s->gave_up = true;
		if ((type != DT_DIR && type != DT_SOCK) || snprintf(s->path + n, sizeof(s->path) - n, "/%s", e->d_name) >= (int)(sizeof(s->path) - n))
			continue;
		if (type == DT_SOCK) {
			if (lives(fd, e->d_name))
				take(s, s->path);
		} else {
			sub = openat(fd, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
			if (sub >= 0) /* what the caller cannot list, the payload could not either */
				search_dir(s, sub, depth + 1);
		}
	}
	s->path[n] = 0;
	closedir(d);
}

static void search_shares(struct search *s)
{
	for (unsigned i = 0; i < s->p->view_n; i++) {
		const struct view_op *o = &s->p->view[i];
		int fd;

		if ((o->kind != VIEW_READ && o->kind != VIEW_WRITE) || snprintf(s->path, sizeof(s->path), "%s", o->path) >= (int)sizeof(s->path))
			continue;
		fd = open(o->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd >= 0)
			search_dir(s, fd, 0);
	}
}

int sockets_find(struct plan *p, struct err *err)
{
	struct search *s = must_calloc(1, sizeof(*s));
	int r = -1;

	s->p = p;
	read_tables(s);
	if (s->unplaced)
		search_shares(s);
	if (s->gave_up)
		say_note("the shared folders are too large to search for sockets of the host: some may be reachable");
	if (s->too_many) {
		err_set(err, E2BIG, "more than %d sockets of the host live below shared folders", VIEW_MAX);
		goto out;
	}
	p->sockets = arena_alloc(&p->mem, (s->n + 1) * sizeof(p->sockets[0]));
	memcpy(p->sockets, s->found, s->n * sizeof(s->found[0]));
	p->sockets_n = s->n;
	r = 0;
out:
	free(s);
	return r;
}
