/* SPDX-License-Identifier: Apache-2.0 */
#include "reloader.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../common/base/must.h"
#include "link.h"
#include "say.h"

#define LINKS_MAX 16
#define PLACES_MAX 512
#define EVENTS (IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_CREATE | IN_DELETE | IN_ATTRIB)
#define AGAIN_MS 50
#define LATELY_S 10 /* reading a policy takes less */

struct place { /* a name in a directory: a file, or a link on the way to one */
	char *dir, *name;
	int watch;
};
struct task {
	const struct gateway *found;
	const struct plan *plan;
	const char *place;   /* or NULL */
	int link_fd, inotify_fd;
	struct place places[PLACES_MAX];
	unsigned place_n;
	uint32_t sandbox;
	uint8_t digest[TABLE_DIGEST_LEN]; /* in force, as far as we know */
	int last_watch;      /* numbers ascend */
	bool due;            /* something has changed */
};

/* --- what is followed ---------------------------------------------------------------------------------------------- */

static bool writable_inside(const struct task *t, const char *path)
{
	for (unsigned i = 0; i < t->plan->view_n; i++)
		if (t->plan->view[i].kind == VIEW_WRITE && t->plan->view[i].source != NULL && path_within(path, t->plan->view[i].source))
			return true;
	return false;
}

static void forget_places(struct task *t)
{
	for (unsigned i = 0; i < t->place_n; i++) {
		free(t->places[i].dir);
		free(t->places[i].name);
	}
	t->place_n = 0;
}

static int add_place(struct task *t, const char *dir, const char *name, struct err *err)
{
	if (writable_inside(t, dir))
		return err_set(err, EPERM, "%s lies in a folder that the sandbox can write: a policy is not followed there", name);
	for (unsigned i = 0; i < t->place_n; i++)
		if (strcmp(t->places[i].dir, dir) == 0 && strcmp(t->places[i].name, name) == 0)
			return 0;
	if (t->place_n == PLACES_MAX)
		return err_set(err, E2BIG, "the policy is read from more than %d files", PLACES_MAX);
	t->places[t->place_n++] = (struct place){ must_strdup(dir), must_strdup(name), -1 };
	return 0;
}

/* The name itself, and each link that it leads over. Folders are taken as they are now: they are not followed when they are replaced. */
static int add_path(struct task *t, const char *path, struct err *err)
{
	char at[PATH_MAX], dir[PATH_MAX], target[PATH_MAX], next[2 * PATH_MAX];
	char *slash;
	ssize_t n;

	snprintf(at, sizeof(at), "%s", path);
	for (int i = 0; i < LINKS_MAX; i++) {
		slash = strrchr(at, '/');
		if (slash == NULL || slash[1] == 0)
			return err_set(err, EINVAL, "%s is not the path of a file", path);
		*slash = 0;
		if (realpath(slash == at ? "/" : at, dir) == NULL)
			return err_errno(err, "cannot find the folder of %s", path);
		if (add_place(t, dir, slash + 1, err) < 0)
			return -1;
		snprintf(next, sizeof(next), "%s/%s", strcmp(dir, "/") == 0 ? "" : dir, slash + 1);
		n = readlink(next, target, sizeof(target) - 1);
		if (n <= 0)
			return 0;
		target[n] = 0;
		if (snprintf(next, sizeof(next), "%s%s%s", target[0] == '/' ? "" : dir, target[0] == '/' ? "" : "/", target) >= PATH_MAX)
			return err_set(err, ENAMETOOLONG, "%s leads to too long a path", path);
		snprintf(at, sizeof(at), "%s", next);
	}
	return err_set(err, ELOOP, "%s leads over too many links", path);
}

static int add_all(struct task *t, const struct runpolicy *p, struct err *err)
{
	char path[PATH_MAX];

	forget_places(t);
	snprintf(path, sizeof(path), "%s", t->place != NULL ? t->place : p->file != NULL ? p->file : "");
	if (path[0] != 0 && add_path(t, path, err) < 0)
		return -1;
	for (unsigned i = 0; i < p->dep_n; i++)
		if (add_path(t, p->deps[i], err) < 0)
			return -1;
	if (p->only_trusted) { /* consent may come after the change */
		snprintf(path, sizeof(path), "%s/policies/trusted", t->found->state_dir);
		return add_path(t, path, err);
	}
	return 0;
}

static bool changed_lately(const struct place *p)
{
	char path[PATH_MAX];
	struct timespec now;
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", p->dir, p->name);
	clock_gettime(CLOCK_REALTIME, &now);
	return lstat(path, &st) == 0 && st.st_ctim.tv_sec > now.tv_sec - LATELY_S;
}

/*
 * A folder that is watched already stays so: what changes while the policy is read is looked at afterwards. In one that is new a
 * file may have changed between being read and now: if it did lately, all is looked at once more.
 */
static void watch_all(struct task *t)
{
	int first = t->last_watch + 1;

	if (t->inotify_fd < 0)
		t->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	for (unsigned i = 0; i < t->place_n; i++) {
		t->places[i].watch = inotify_add_watch(t->inotify_fd, t->places[i].dir, EVENTS | IN_ONLYDIR);
		if (t->places[i].watch > t->last_watch)
			t->last_watch = t->places[i].watch;
		t->due = t->due || (t->places[i].watch >= first && changed_lately(&t->places[i]));
	}
}

static void on_change(struct task *t)
{
	union {
		struct inotify_event e;
		char room[8192];
	} b;
	ssize_t n;

	while ((n = read(t->inotify_fd, b.room, sizeof(b.room))) > 0) {
		const struct inotify_event *e;

		for (char *p = b.room; p < b.room + n; p += sizeof(*e) + e->len) {
			e = (const void *)p;
			t->due = t->due || (e->mask & IN_Q_OVERFLOW) != 0;
			for (unsigned i = 0; i < t->place_n && e->len > 0; i++)
				t->due = t->due || (t->places[i].watch == e->wd && strcmp(t->places[i].name, e->name) == 0);
		}
	}
}

/* --- what is done -------------------------------------------------------------------------------------------------- */

/* What the gateway is told: 0 done, 1 it cannot be told now, -1 it refuses. failed: there is no policy. */
static int tell(struct task *t, const struct runpolicy *p, const char *failed, uint32_t *generation, struct err *err)
{
	struct gateway g = *t->found;
	struct gateway_register r = { .table_fd = p->table_fd, .env_fd = -1, .boundary_fd = -1, .vault_ca_fd = -1, .explain_denials = p->explain_denials };
	bool again = true;
	int ret = -1;

	for (unsigned i = 0; i < p->file_n; i++) {
		r.files[i].path = p->files[i].path;
		r.files[i].dir_fd = p->files[i].dir_fd;
		r.files[i].follow = p->files[i].follow;
	}
	r.file_n = p->file_n;
	g.fd = -1;
	if (gateway_reconnect(&g, err) == 0) {
		ret = gateway_reload(&g, &r, t->sandbox, failed, generation, &again, err);
		gateway_close(&g);
	}
	return ret == 0 ? 0 : again ? 1 : -1;
}

static void failed(struct task *t, const struct runpolicy *p, const struct err *why)
{
	struct err ignored = ERR_INIT;
	uint32_t generation;

	say_error("%s: the policy from before stays in force", why->text);
	tell(t, p, p->words[0] ? p->words : why->text, &generation, &ignored); /* which answers that it is refused: it is what is recorded */
}

static void reload(struct task *t)
{
	struct runpolicy *p = must_calloc(1, sizeof(*p));
	struct err err = ERR_INIT;
	char real[PATH_MAX];
	const char *named = t->place;
	uint32_t generation = 0;
	int r;

	t->due = false;
	if (named != NULL)
		named = realpath(named, real);
	if (t->place != NULL && named == NULL) {
		*p = (struct runpolicy){ .table_fd = -1, .vault_ca_fd = -1 };
		err_errno(&err, "cannot find the policy %s", t->place);
	} else {
		runpolicy_load(p, t->found, named, t->plan->cwd, &err);
	}
	if (err.code == 0 && p->file == NULL)
		err_set(&err, ENOENT, "%s/sallyport.yaml is gone", t->plan->cwd);
	if (err.code == 0 && add_all(t, p, &err) == 0 && runpolicy_open_files(p, &err) == 0 && memcmp(table_digest(p->table), t->digest, sizeof(t->digest)) != 0) {
		r = tell(t, p, NULL, &generation, &err);
		if (r == 0) {
			memcpy(t->digest, table_digest(p->table), sizeof(t->digest));
			say_note("the policy has changed: %s is in force (generation %u)", p->name, generation);
		} else if (r > 0) {
			err = (struct err)ERR_INIT;
			t->due = true; /* asked again in a moment, from the file as it is then */
		}
	}
	if (err.code != 0) {
		struct err ignored = ERR_INIT;

		add_all(t, p, &ignored);
		failed(t, p, &err);
	}
	watch_all(t);
	runpolicy_free(p);
	free(p);
}

static void on_link(struct task *t)
{
	int got[LINK_FDS_MAX];
	unsigned n;
	struct note note;

	if (link_recv(t->link_fd, &note, got, &n) != 1)
		_exit(0);
	for (unsigned i = 0; i < n; i++)
		close(got[i]);
	if (note.type == NOTE_SANDBOX)
		t->sandbox = (uint32_t)note.a;
}

_Noreturn static void serve(struct task *t)
{
	int keep[3] = { 2, t->link_fd, t->inotify_fd };
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	setsid(); /* a terminal's Ctrl-C is the monitor's to handle */
	prctl(PR_SET_NAME, "sallyport-reld");
	prctl(PR_SET_DUMPABLE, 0);
	signal(SIGPIPE, SIG_IGN);
	dup2(null, 0);
	dup2(null, 1);
	link_close_except(2, keep, 3);
	for (;;) {
		struct pollfd p[2] = { { .fd = t->link_fd, .events = POLLIN }, { .fd = t->inotify_fd, .events = POLLIN } };

		if (poll(p, 2, t->due ? AGAIN_MS : -1) < 0)
			continue;
		if (p[0].revents)
			on_link(t);
		if (p[1].revents)
			on_change(t);
		if (t->due && t->sandbox != 0)
			reload(t);
	}
}

int reloader_start(struct reloader *r, const struct gateway *g, const struct plan *plan, const char *place, const struct runpolicy *now, struct err *err)
{
	struct task *t;
	struct err why = ERR_INIT;
	int pair[2], ret = -1;

	if (now->file == NULL)
		return 0;
	t = must_calloc(1, sizeof(*t));
	t->found = g;
	t->plan = plan;
	t->place = place;
	t->inotify_fd = -1;
	memcpy(t->digest, table_digest(now->table), sizeof(t->digest));
	if (add_all(t, now, &why) < 0) {
		ret = 0; /* not followed */
		goto out;
	}
	watch_all(t);
	if (t->inotify_fd < 0) {
		err_errno(err, "inotify");
		goto out;
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
		err_errno(err, "socketpair");
		goto out;
	}
	r->pid = fork();
	if (r->pid == 0) {
		close(pair[0]);
		t->link_fd = pair[1];
		serve(t);
	}
	close(pair[1]);
	if (r->pid < 0) {
		close(pair[0]);
		err_errno(err, "cannot start the reloader");
		goto out;
	}
	r->fd = pair[0];
	ret = 0;
out:
	if (t->inotify_fd >= 0)
		close(t->inotify_fd);
	forget_places(t);
	free(t);
	return ret;
}

void reloader_sandbox(const struct reloader *r, uint32_t sandbox)
{
	if (r->fd >= 0)
		link_send(r->fd, NOTE_SANDBOX, (int)sandbox, 0, NULL, NULL, 0);
}

void reloader_end(struct reloader *r)
{
	if (r->fd < 0)
		return;
	close(r->fd);
	r->fd = -1;
	kill(r->pid, SIGKILL); /* whatever it is about: its sandbox is gone */
	while (waitpid(r->pid, NULL, 0) < 0 && errno == EINTR)
		;
}

/* --- by hand ------------------------------------------------------------------------------------------------------- */

static int reload_usage(void)
{
	fprintf(stderr, "usage: sallyport sandbox reload --policy FILE [--state DIR] [--gateway SOCKET] NAME\n");
	return 2;
}

int reload_main(int argc, char **argv)
{
	static struct gateway g;
	static struct runpolicy p;
	struct gateway_register r = { .env_fd = -1, .boundary_fd = -1, .vault_ca_fd = -1 };
	struct err err = ERR_INIT;
	const char *state = NULL, *socket = NULL, *file = NULL;
	uint32_t generation = 0;
	char real[PATH_MAX];
	bool again;

	for (int i = 1; i < argc; i++) {
		const char **to = strcmp(argv[i], "--policy") == 0 ? &file : strcmp(argv[i], "--state") == 0 ? &state : strcmp(argv[i], "--gateway") == 0 ? &socket : NULL;

		if (to != NULL && i + 1 < argc)
			*to = argv[++i];
		else if (to == NULL && argv[i][0] != '-' && r.name == NULL)
			r.name = argv[i];
		else
			return reload_usage();
	}
	if (file == NULL || r.name == NULL)
		return reload_usage();
	if (realpath(file, real) == NULL) {
		say_error("cannot find the policy %s: %s", file, strerror(errno));
		return 1;
	}
	if (gateway_locate(&g, state, socket, &err) < 0 || gateway_reconnect(&g, &err) < 0 || runpolicy_load(&p, &g, real, "/", &err) < 0 || runpolicy_open_files(&p, &err) < 0)
		goto bad;
	r.table_fd = p.table_fd;
	r.explain_denials = p.explain_denials;
	for (unsigned i = 0; i < p.file_n; i++) {
		r.files[i].path = p.files[i].path;
		r.files[i].dir_fd = p.files[i].dir_fd;
		r.files[i].follow = p.files[i].follow;
	}
	r.file_n = p.file_n;
	if (gateway_reload(&g, &r, 0, NULL, &generation, &again, &err) < 0)
		goto bad;
	say_note("%s: %s is in force (generation %u)", r.name, p.name, generation);
	return 0;
bad:
	say_error("%s", err.text);
	return 1;
}
