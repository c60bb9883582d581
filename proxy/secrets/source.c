/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../common/base/must.h"
#include "../../common/policy/table.h"
#include "../../common/sys/ipc.h"
#include "source.h"

#define LOOK_MS 3000

struct variable {
	char *name;
	struct secret *value; /* NULL: longer than a secret may be */
};
struct waiter {
	struct waiter *next;
	sources_fn *fn;
	void *arg;
};
struct file {
	struct sources *of;
	char *path;
	int fd; /* -1: there is none */
	bool loaded;
	bool linked;	  /* it had a name when it was handed over */
	struct stat seen; /* as it was when the value was read */
	struct secret *value;
	bool looked, looking;
	uint64_t looked_ms;
	struct waiter *waiting;
	struct timer late;
	char bad[200]; /* why there is none */
};
struct sources {
	struct loop *loop;
	struct ipc *const *sup;
	uint32_t sandbox, generation;
	struct variable vars[SOURCES_MAX];
	unsigned var_n;
	struct file *files[SOURCES_MAX];
	unsigned file_n;
};

struct sources *sources_new(struct loop *l, struct ipc *const *sup, uint32_t sandbox, uint32_t generation)
{
	struct sources *s = must_calloc(1, sizeof(*s));

	s->loop = l;
	s->sup = sup;
	s->sandbox = sandbox;
	s->generation = generation;
	return s;
}

static void drop_vars(struct sources *s)
{
	for (unsigned i = 0; i < s->var_n; i++) {
		free(s->vars[i].name);
		secret_free(s->vars[i].value);
	}
	s->var_n = 0;
}

void sources_free(struct sources *s)
{
	if (s == NULL)
		return;
	drop_vars(s);
	for (unsigned i = 0; i < s->file_n; i++) {
		struct file *f = s->files[i];

		while (f->waiting != NULL) {
			struct waiter *w = f->waiting;

			f->waiting = w->next;
			free(w);
		}
		timer_stop(&f->late);
		if (f->fd >= 0)
			close(f->fd);
		secret_free(f->value);
		free(f->path);
		free(f);
	}
	free(s);
}

static bool read_at(int fd, void *p, size_t n)
{
	for (size_t at = 0; at < n;) {
		ssize_t k = pread(fd, (char *)p + at, n - at, (off_t)at);

		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			return false;
		at += (size_t)k;
	}
	return true;
}

bool sources_env(struct sources *s, int fd)
{
	struct stat st;
	char *text;
	size_t n, at = 0;
	bool ok = true;

	if (fstat(fd, &st) != 0 || st.st_size < 0 || st.st_size > ENV_BYTES_MAX)
		return false;
	n = (size_t)st.st_size;
	text = must_malloc(n + 1);
	ok = read_at(fd, text, n);
	drop_vars(s);
	while (ok && at < n) {
		const char *end = memchr(text + at, 0, n - at), *eq;
		size_t len = end != NULL ? (size_t)(end - text) - at : n - at;

		eq = memchr(text + at, '=', len);
		if (eq != NULL && eq > text + at) {
			size_t name_n = (size_t)(eq - text) - at;

			if (s->var_n == SOURCES_MAX) {
				ok = false;
				break;
			}
			s->vars[s->var_n].name = str_dupz(str_mk(text + at, name_n));
			s->vars[s->var_n].value = secret_new(eq + 1, len - name_n - 1);
			s->var_n++;
		}
		at += len + 1;
	}
	explicit_bzero(text, n + 1);
	free(text);
	return ok;
}

const struct secret *sources_variable(struct sources *s, struct str name, char cause[200])
{
	for (unsigned i = 0; i < s->var_n; i++) {
		if (!str_eq(str_of(s->vars[i].name), name))
			continue;
		if (s->vars[i].value == NULL)
			snprintf(cause, 200, "the variable %.*s is longer than %d octets", (int)(name.n > 100 ? 100 : name.n), name.p, (int)SECRET_MAX);
		return s->vars[i].value;
	}
	snprintf(cause, 200, "the variable %.*s was not set where the sandbox was started", (int)(name.n > 100 ? 100 : name.n), name.p);
	return NULL;
}

static bool unchanged(const struct stat *a, const struct stat *b)
{
	return a->st_size == b->st_size && a->st_ino == b->st_ino && a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
	       a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

static void forget(struct file *f)
{
	secret_free(f->value);
	f->value = NULL;
	f->loaded = false;
}

/* Reads the whole file; the line end that editors leave is not part of the value. */
static const char *load(struct file *f, const struct stat *st)
{
	char *text;
	size_t n = (size_t)st->st_size;

	forget(f);
	if (!S_ISREG(st->st_mode))
		return "is not a regular file";
	if (st->st_size > SECRET_MAX + 2)
		return "is too large";
	text = must_malloc(n + 1);
	if (!read_at(f->fd, text, n)) {
		explicit_bzero(text, n + 1);
		free(text);
		return "cannot be read";
	}
	if (n > 0 && text[n - 1] == '\n')
		n--;
	if (n > 0 && text[n - 1] == '\r')
		n--;
	f->value = secret_new(text, n);
	explicit_bzero(text, (size_t)st->st_size + 1);
	free(text);
	if (f->value == NULL)
		return "is too large";
	f->loaded = true;
	f->seen = *st;
	return NULL;
}

static bool declared(const struct table *t, struct str name)
{
	struct secret_decl d;

	for (unsigned i = 0, n = table_secret_count(t); i < n; i++)
		if (table_secret(t, i, &d) && d.source == SECRET_SOURCE_ENV && str_eq(d.arg, name))
			return true;
	return false;
}

void sources_keep_declared(struct sources *s, const struct table *t)
{
	unsigned n = 0;

	for (unsigned i = 0; i < s->var_n; i++) {
		if (declared(t, str_of(s->vars[i].name))) {
			s->vars[n++] = s->vars[i];
			continue;
		}
		free(s->vars[i].name);
		secret_free(s->vars[i].value);
	}
	s->var_n = n;
}

/* The value by the descriptor that there is. *gone: it may be another one by now. */
static const char *current(struct file *f, bool *gone)
{
	struct stat st;

	*gone = false;
	if (f->fd < 0)
		return f->bad[0] ? f->bad : "was not handed over when the sandbox was started";
	if (fstat(f->fd, &st) != 0)
		return "cannot be looked at";
	if (f->linked && st.st_nlink == 0) {
		/* removed, or another was renamed over it: by our descriptor there is only the old value, which somebody wanted gone */
		forget(f);
		*gone = true;
		return "was removed or replaced since it was handed over";
	}
	return f->loaded && unchanged(&f->seen, &st) ? NULL : load(f, &st);
}

static void tell(const struct file *f, const char *wrong, sources_fn *fn, void *arg)
{
	char cause[200];

	if (wrong == NULL) {
		fn(arg, f->value, "");
		return;
	}
	snprintf(cause, sizeof(cause), "the file %.110s %.80s", f->path, wrong);
	fn(arg, NULL, cause);
}

static void wake(struct file *f, const char *wrong)
{
	struct waiter *w = f->waiting;

	f->looking = false;
	timer_stop(&f->late);
	f->waiting = NULL;
	while (w != NULL) {
		struct waiter *next = w->next;

		tell(f, wrong, w->fn, w->arg);
		free(w);
		w = next;
	}
}

static void on_late(struct timer *t)
{
	struct file *f = (struct file *)((char *)t - offsetof(struct file, late));

	wake(f, "could not be looked for in time");
}

static struct file *find(struct sources *s, struct str path)
{
	for (unsigned i = 0; i < s->file_n; i++)
		if (str_eq(str_of(s->files[i]->path), path))
			return s->files[i];
	return NULL;
}

static struct file *find_or_add(struct sources *s, struct str path)
{
	struct file *f = find(s, path);

	if (f != NULL || s->file_n == SOURCES_MAX || path.n == 0)
		return f;
	f = must_calloc(1, sizeof(*f));
	f->of = s;
	f->fd = -1;
	f->path = str_dupz(path);
	s->files[s->file_n++] = f;
	return f;
}

const struct secret *sources_now(struct sources *s, const struct secret_decl *d)
{
	const struct secret *v = NULL;
	char cause[200], key[300];
	struct file *f = NULL;
	bool gone;

	if (d->token != SECRET_TOKEN_NONE) /* it is something else that is released */
		return NULL;
	if (d->source == SECRET_SOURCE_ENV)
		v = sources_variable(s, d->arg, cause);
	else if (d->source == SECRET_SOURCE_FILE)
		f = find(s, d->arg);
	else if (d->source == SECRET_SOURCE_CREDENTIAL && snprintf(key, sizeof(key), "credential:%.*s", (int)d->arg.n, d->arg.p) < (int)sizeof(key))
		f = find(s, str_of(key));
	if (f != NULL && current(f, &gone) == NULL)
		v = f->value;
	return v != NULL && secret_sendable(v) ? v : NULL;
}

bool sources_file(struct sources *s, struct str path, int fd)
{
	struct file *f = find_or_add(s, path);
	const char *wrong;
	struct stat st;
	bool gone;

	if (f == NULL) {
		close(fd);
		return false;
	}
	if (f->fd >= 0)
		close(f->fd);
	f->fd = fd;
	f->linked = fstat(fd, &st) == 0 && st.st_nlink > 0;
	f->looked = true;
	f->looked_ms = loop_now_ms(s->loop);
	if (f->waiting == NULL) {
		f->looking = false;
		timer_stop(&f->late);
		return true;
	}
	wrong = current(f, &gone);
	wake(f, wrong);
	return true;
}

void sources_file_bad(struct sources *s, struct str path, struct str cause)
{
	struct file *f = find(s, path);

	if (f == NULL)
		return;
	if (f->fd >= 0)
		close(f->fd);
	f->fd = -1;
	forget(f);
	snprintf(f->bad, sizeof(f->bad), "%.*s", (int)cause.n, cause.p);
	wake(f, f->bad);
}

void sources_file_get(struct sources *s, struct str path, sources_fn *fn, void *arg)
{
	struct file *f = find_or_add(s, path);
	struct msg_sandbox_ref ref = { s->sandbox, s->generation };
	const char *wrong = "is one too many";
	struct waiter *w;
	bool gone = false;
	char cause[200];

	if (f == NULL) {
		snprintf(cause, sizeof(cause), "the file %.*s %s", (int)(path.n > 140 ? 140 : path.n), path.p, wrong);
		fn(arg, NULL, cause);
		return;
	}
	if (f->looked && !f->looking && loop_now_ms(s->loop) - f->looked_ms < FILE_LOOK_MS) {
		wrong = current(f, &gone);
		if (!gone && f->fd >= 0) {
			tell(f, wrong, fn, arg);
			return;
		}
	}
	w = must_malloc(sizeof(*w));
	*w = (struct waiter){ f->waiting, fn, arg };
	f->waiting = w;
	if (f->looking)
		return;
	f->looking = true;
	timer_start(s->loop, &f->late, *s->sup != NULL && ipc_send2(*s->sup, MSG_FILE_LOOK, s->generation, 0, &ref, sizeof(ref), path.p, path.n, NULL, 0) ? LOOK_MS : 0, on_late);
}

void sources_cancel(struct sources *s, const void *arg)
{
	for (unsigned i = 0; i < s->file_n; i++) {
		for (struct waiter **p = &s->files[i]->waiting; *p != NULL;) {
			struct waiter *w = *p;

			if (w->arg != arg) {
				p = &w->next;
				continue;
			}
			*p = w->next;
			free(w);
		}
	}
}
