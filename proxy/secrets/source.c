/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../common/base/must.h"
#include "secrets.h"

struct variable {
	char *name;
	struct secret *value; /* NULL: longer than a secret may be */
};
struct file {
	char *path;
	int fd;
	bool loaded;
	bool linked; /* it had a name when it was handed over */
	struct stat seen; /* as it was when the value was read */
	struct secret *value;
};
struct sources {
	struct variable vars[SOURCES_MAX];
	unsigned var_n;
	struct file files[SOURCES_MAX];
	unsigned file_n;
};

struct sources *sources_new(void) { return must_calloc(1, sizeof(struct sources)); }

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
		free(s->files[i].path);
		close(s->files[i].fd);
		secret_free(s->files[i].value);
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

static char *copy_name(const char *p, size_t n)
{
	char *z = must_malloc(n + 1);

	memcpy(z, p, n);
	z[n] = 0;
	return z;
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
			s->vars[s->var_n].name = copy_name(text + at, name_n);
			s->vars[s->var_n].value = secret_new(eq + 1, len - name_n - 1);
			s->var_n++;
		}
		at += len + 1;
	}
	explicit_bzero(text, n + 1);
	free(text);
	return ok;
}

bool sources_file(struct sources *s, struct str path, int fd)
{
	struct file *f = NULL;
	struct stat st;
	bool linked = fstat(fd, &st) == 0 && st.st_nlink > 0;

	for (unsigned i = 0; i < s->file_n; i++)
		if (str_eq(str_of(s->files[i].path), path))
			f = &s->files[i];
	if (f != NULL) {
		close(f->fd);
		secret_free(f->value);
		*f = (struct file){ .path = f->path, .fd = fd, .linked = linked };
		return true;
	}
	if (s->file_n == SOURCES_MAX || path.n == 0) {
		close(fd);
		return false;
	}
	s->files[s->file_n++] = (struct file){ .path = copy_name(path.p, path.n), .fd = fd, .linked = linked };
	return true;
}

static bool declared(const struct table *t, enum secret_source source, const char *arg)
{
	struct secret_decl d;

	for (unsigned i = 0, n = table_secret_count(t); i < n; i++)
		if (table_secret(t, i, &d) && d.source == source && str_eq(d.arg, str_of(arg)))
			return true;
	return false;
}

void sources_keep_declared(struct sources *s, const struct table *t)
{
	unsigned n = 0;

	for (unsigned i = 0; i < s->var_n; i++) {
		if (declared(t, SECRET_SOURCE_ENV, s->vars[i].name)) {
			s->vars[n++] = s->vars[i];
			continue;
		}
		free(s->vars[i].name);
		secret_free(s->vars[i].value);
	}
	s->var_n = n;
	n = 0;
	for (unsigned i = 0; i < s->file_n; i++) {
		if (declared(t, SECRET_SOURCE_FILE, s->files[i].path)) {
			s->files[n++] = s->files[i];
			continue;
		}
		free(s->files[i].path);
		close(s->files[i].fd);
		secret_free(s->files[i].value);
	}
	s->file_n = n;
}

static const struct secret *variable(struct sources *s, struct str name, char cause[200])
{
	for (unsigned i = 0; i < s->var_n; i++) {
		if (!str_eq(str_of(s->vars[i].name), name))
			continue;
		if (s->vars[i].value == NULL)
			snprintf(cause, 200, "the variable %.*s is longer than %u octets", (int)(name.n > 100 ? 100 : name.n), name.p, SECRET_MAX);
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

static const struct secret *file_value(struct sources *s, struct str path, char cause[200])
{
	const char *wrong = NULL;
	struct file *f = NULL;
	struct stat st;

	for (unsigned i = 0; i < s->file_n; i++)
		if (str_eq(str_of(s->files[i].path), path))
			f = &s->files[i];
	if (f == NULL)
		wrong = "was not handed over when the sandbox was started";
	else if (fstat(f->fd, &st) != 0)
		wrong = "cannot be looked at";
	else if (f->linked && st.st_nlink == 0) {
		/* removed, or another was renamed over it. By our descriptor there is only the old value, which somebody wanted gone */
		forget(f);
		wrong = "was removed or replaced since it was handed over";
	} else if (!f->loaded || !unchanged(&f->seen, &st))
		wrong = load(f, &st);
	if (wrong == NULL)
		return f->value;
	snprintf(cause, 200, "the file %.*s %s", (int)(path.n > 140 ? 140 : path.n), path.p, wrong);
	return NULL;
}

const struct secret *sources_value(struct sources *s, const struct secret_decl *d, uint32_t *valid_ms, char cause[200])
{
	const struct secret *v = NULL;

	snprintf(cause, 200, "its source is of an unknown kind");
	if (d->source == SECRET_SOURCE_ENV) {
		*valid_ms = VALID_ENV_MS;
		v = variable(s, d->arg, cause);
	} else if (d->source == SECRET_SOURCE_FILE) {
		*valid_ms = VALID_FILE_MS;
		v = file_value(s, d->arg, cause);
	}
	if (v == NULL)
		return NULL;
	if (!secret_sendable(v)) { /* would break, or end, the head it is written into */
		snprintf(cause, 200, secret_bytes(v).n == 0 ? "the value is empty" : "the value has a line break or NUL in it");
		return NULL;
	}
	return v;
}
