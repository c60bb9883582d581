/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of `secrets`, which opens nothing itself: it asks, we look. A sandbox's file is looked for by its name in the folder
 * that its caller handed over, so that one that was replaced is found and nothing else can be named; the gateway's own are
 * those that the configuration names, and, of a policy of a folder, those that the folder's `sources` list: its callers have
 * no need to be able to read them. What somebody else could have put there is not opened.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../common/sys/pathcheck.h"
#include "supervisor.h"

static void bad(struct proc *p, const struct msg_sandbox_ref *ref, const char *path, const char *why)
{
	struct buf b = { 0 };

	buf_addz(&b, path);
	buf_addc(&b, 0);
	buf_addz(&b, why);
	proc_say(p, MSG_FILE_BAD, ref->generation, ref, sizeof(*ref), buf_data(&b), buf_len(&b), NULL, 0);
	buf_fini(&b);
}

/* Descriptor, or -1 and *why. */
static int look_in(const struct sandbox_file *f, const char **why)
{
	const char *slash = strrchr(f->path, '/'), *name = slash != NULL ? slash + 1 : f->path;
	static char text[512];
	struct err err = ERR_INIT;
	struct stat st;
	int fd;

	if (f->dir_fd < 0) /* its caller gave no folder: what is there is what was handed over */
		return fcntl(f->fd, F_DUPFD_CLOEXEC, 3);
	if (strncmp(name, "credential:", 11) == 0)
		name += 11;
	if (f->follow) {
		char at[64 + NAME_MAX];

		snprintf(at, sizeof(at), "/proc/self/fd/%d/%s", f->dir_fd, name);
		fd = path_open_trusted(at, true, "secret file", &err);
		snprintf(text, sizeof(text), "cannot be used: %s", err.text);
		*why = text;
		return fd;
	}
	*why = "lies in a folder that is not safe any more";
	if (fstat(f->dir_fd, &st) != 0 || stat_untrustworthy(&st) != NULL)
		return -1;
	fd = openat(f->dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	if (fd < 0) {
		*why = errno == ENOENT ? "was removed" : errno == ELOOP ? "is a symbolic link now (`follow: true` allows that)"
									: "cannot be opened";
		return -1;
	}
	*why = "cannot be looked at";
	if (fstat(fd, &st) != 0 || (*why = stat_untrustworthy(&st)) != NULL) {
		close(fd);
		return -1;
	}
	return fd;
}

void look_first(struct proc *p, const struct msg_sandbox_ref *ref, const struct sandbox_file *f)
{
	const char *why;
	int fd = look_in(f, &why);

	if (fd < 0)
		return; /* it is asked for when it is needed */
	proc_say(p, MSG_SANDBOX_FILE, ref->generation, ref, sizeof(*ref), f->path, strlen(f->path), &fd, 1);
	close(fd);
}

/* One that the configuration names. Links are followed: Kubernetes hands its tokens over as links. */
static int look_own(const struct startup *s, const char *path, const char **why)
{
	static char text[512];
	struct err err = ERR_INIT;
	char at[4400];
	int fd;

	if (strncmp(path, "credential:", 11) == 0) {
		if (s->credentials[0] == 0 || strchr(path + 11, '/') != NULL || path[11] == '.') {
			*why = "cannot be read: the gateway was started without systemd credentials";
			return -1;
		}
		snprintf(at, sizeof(at), "%s/%s", s->credentials, path + 11);
	} else {
		snprintf(at, sizeof(at), "%s", path);
	}
	fd = path_open_trusted(at, true, "it:", &err);
	snprintf(text, sizeof(text), "cannot be used: %s", err.text);
	*why = text;
	return fd;
}

static bool configured(const struct config_vault *v, const char *path)
{
	for (size_t at = 0; at < v->n; at += strlen(v->text + at) + 1) {
		const char *eq = strstr(v->text + at, "_file=");

		if (eq != NULL && strcmp(eq + 6, path) == 0)
			return true;
	}
	return false;
}

/* Of an installed policy: what its folder's sources list, whatever the role that asks is. */
static bool of_folder(const struct generation *g, const char *path)
{
	const bool credential = strncmp(path, "credential:", 11) == 0;
	struct buf rules = { 0 };
	bool ok;

	if (g->folder == NULL)
		return false;
	generation_rules(g, &rules);
	ok = sources_allow(buf_str(&rules), credential ? SECRET_SOURCE_CREDENTIAL : SECRET_SOURCE_FILE, str_of(path + (credential ? 11 : 0)));
	buf_fini(&rules);
	return ok;
}

void look_for_file(struct supervisor *s, struct proc *p, const struct ipc_msg *m)
{
	struct msg_sandbox_ref ref;
	const struct sandbox_file *f = NULL;
	const char *why = "was not handed over when the sandbox was started";
	char path[4300];
	const struct generation *g;
	const struct sandbox *b;
	int fd = -1;

	memcpy(&ref, m->data, sizeof(ref));
	snprintf(path, sizeof(path), "%.*s", (int)(m->len - sizeof(ref)), (const char *)m->data + sizeof(ref));
	if (ref.sandbox == 0) {
		if (configured(&s->start.config.vault, path))
			fd = look_own(&s->start, path, &why);
	} else {
		b = sandbox_find(s, ref.sandbox);
		g = b != NULL ? generation_find(b, ref.generation) : NULL;
		for (unsigned i = 0; g != NULL && i < g->file_n; i++)
			if (strcmp(g->files[i].path, path) == 0)
				f = &g->files[i];
		if (f != NULL)
			fd = look_in(f, &why);
		else if (g != NULL && of_folder(g, path))
			fd = look_own(&s->start, path, &why);
	}
	if (fd < 0) {
		bad(p, &ref, path, why);
		return;
	}
	proc_say(p, MSG_SANDBOX_FILE, ref.generation, &ref, sizeof(ref), path, strlen(path), &fd, 1);
	close(fd);
}
