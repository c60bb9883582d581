/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `extends`: which files a policy is made of. All are read first, each once, in the order in which they are named, the file
 * that names them before them; load.c then goes over all of them for each part of a policy. Nothing here follows a link or
 * leaves the folder of the first file, so that who may write there decides what is read.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../common/base/must.h"
#include "deps.h"
#include "load.h"

#define DEPTH_MAX 8

/* --- reading ------------------------------------------------------------------------------------------------------- */

/* As read, or false and why. */
static bool read_fd(int fd, struct buf *out, const char **why)
{
	ssize_t k;

	do {
		k = read(fd, buf_room(out, 65536), 65536);
		if (k > 0)
			buf_commit(out, (size_t)k);
	} while (k > 0 && buf_len(out) <= YAML_SIZE_MAX);
	if (k < 0)
		*why = strerror(errno);
	else if (buf_len(out) > YAML_SIZE_MAX)
		*why = "larger than a policy may be";
	else
		return true;
	return false;
}

/* Below a folder, no links. owner: whoever has the first file; his files will do as well. */
static bool read_below(int dir, const char *name, uid_t owner, struct buf *out, const char **why)
{
	struct open_how how = { .flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };
	int fd = (int)syscall(SYS_openat2, dir, name, &how, sizeof(how));
	struct stat st;
	bool ok = false;

	if (fd < 0) {
		*why = errno == ELOOP ? "there is a symbolic link in its name" : strerror(errno);
		return false;
	}
	if (fstat(fd, &st) != 0)
		*why = strerror(errno);
	else if (!S_ISREG(st.st_mode))
		*why = "not a regular file";
	else if (st.st_uid != 0 && st.st_uid != geteuid() && st.st_uid != owner)
		*why = "it belongs to somebody else";
	else if (st.st_mode & 022)
		*why = "it can be written by its group or by others: chmod go-w it";
	else
		ok = read_fd(fd, out, why);
	close(fd);
	return ok;
}

static bool reader_folder(void *arg, const char *name, struct buf *out, const char **why)
{
	const struct load_folder *f = arg;

	return read_below(f->fd, name, f->owner, out, why);
}

int load_folder_open(struct load_folder *f, const char *path, int file)
{
	const char *slash = strrchr(path, '/');
	char *dir = slash == NULL ? must_strdup(".") : slash == path ? must_strdup("/") : must_strdup(path);
	struct stat st;

	if (slash != NULL && slash != path)
		dir[slash - path] = 0;
	f->fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	f->owner = file >= 0 && fstat(file, &st) == 0 ? st.st_uid : geteuid();
	f->reader = (struct load_reader){ reader_folder, f };
	free(dir);
	return f->fd < 0 ? -1 : 0;
}

void load_folder_close(struct load_folder *f)
{
	if (f->fd >= 0)
		close(f->fd);
	f->fd = -1;
}

/* The library: beside the programs as they are built (../configs), or as they are installed (../share). */
bool load_library(const char *name, struct buf *out)
{
	static const char *const dirs[] = { "../configs/policies", "../share/sallyport/policies", "../../../configs/policies" };
	char self[4096], path[8192];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	const char *why;
	char *slash;

	if (n <= 0 || name[0] == 0 || strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != strlen(name))
		return false;
	self[n] = 0;
	slash = strrchr(self, '/');
	if (slash != NULL)
		*slash = 0;
	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		int fd;
		bool ok;

		snprintf(path, sizeof(path), "%s/%s/%s.yaml", self, dirs[i], name);
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
		if (fd < 0)
			continue;
		deps_note(path);
		buf_clear(out);
		ok = read_fd(fd, out, &why);
		close(fd);
		if (ok)
			return true;
	}
	return false;
}

/* --- names --------------------------------------------------------------------------------------------------------- */

/* The folder of a name within the first file's folder, and what is named there, as one name without "." and "..": NULL when it leads out. */
static char *name_within(struct load *l, struct str from, struct str to)
{
	struct buf b = { 0 };
	struct str whole[2] = { from, to };
	char *out;

	while (whole[0].n > 0 && whole[0].p[whole[0].n - 1] != '/')
		whole[0].n--;
	for (unsigned i = 0; i < 2; i++) {
		for (size_t at = 0, end; at < whole[i].n; at = end + 1) {
			struct str part;

			for (end = at; end < whole[i].n && whole[i].p[end] != '/'; end++)
				;
			part = str_mk(whole[i].p + at, end - at);
			if (part.n == 0 || str_eq(part, STR(".")))
				continue;
			if (!str_eq(part, STR(".."))) {
				if (buf_len(&b) > 0)
					buf_addc(&b, '/');
				buf_adds(&b, part);
				continue;
			}
			if (buf_len(&b) == 0) {
				buf_fini(&b);
				return NULL;
			}
			while (b.len > 0 && b.mem[b.len - 1] != '/')
				b.len--;
			b.len -= b.len > 0;
		}
	}
	out = arena_strz(l->a, buf_str(&b));
	buf_fini(&b);
	return out;
}

/* What messages and sources call it: std/NAME, or beside the first file as that was named. */
static const char *shown_name(struct load *l, const char *within)
{
	const char *first = l->p->files[0].name, *slash = strrchr(first, '/');
	struct buf b = { 0 };
	const char *s;

	if (slash != NULL)
		buf_add(&b, first, (size_t)(slash - first) + 1);
	buf_addz(&b, within);
	s = arena_strz(l->a, buf_str(&b));
	buf_fini(&b);
	return s;
}

/* The folder of a file that is named within the first one's folder. */
static const char *folder_of(struct load *l, const char *within)
{
	const char *slash = strrchr(within, '/');
	struct buf b = { 0 };
	const char *s;

	if (l->dir == NULL || slash == NULL)
		return l->dir;
	if (strcmp(l->dir, ".") != 0)
		buf_addf(&b, "%s/", strcmp(l->dir, "/") == 0 ? "" : l->dir);
	buf_add(&b, within, (size_t)(slash - within));
	s = arena_strz(l->a, buf_str(&b));
	buf_fini(&b);
	return s;
}

/* Also of a file that is not there: it may be later. */
static void note(const struct load *l, const char *within)
{
	struct buf b = { 0 };

	if (l->dir == NULL)
		return;
	if (strcmp(l->dir, ".") != 0)
		buf_addf(&b, "%s/", strcmp(l->dir, "/") == 0 ? "" : l->dir);
	buf_addz(&b, within);
	buf_addc(&b, 0);
	deps_note((const char *)buf_data(&b));
	buf_fini(&b);
}

/* --- the files ----------------------------------------------------------------------------------------------------- */

static void read_file(struct load *l, unsigned number, struct str text, unsigned depth);

static bool text_of(struct load *l, unsigned by, const struct yaml_node *n, const char *within, bool std, struct buf *out)
{
	const char *why = NULL;

	if (!std)
		note(l, within);
	if (std) {
		if (load_library(within, out))
			return true;
		ERROR_AT(l, n, "no policy `%s` is installed", within);
	} else if (str_starts(str_of(l->source[by].within), STR("std/"))) {
		ERROR_AT(l, n, "a policy of the library extends others of the library only");
	} else if (l->reader == NULL) {
		ERROR_AT(l, n, "extends: other files cannot be read here");
	} else if (l->reader->read(l->reader->arg, within, out, &why)) {
		return true;
	} else {
		ERROR_AT(l, n, "extends: cannot read %s: %s", within, why);
	}
	return false;
}

/* One entry of the list of file `by`. */
static void extend(struct load *l, unsigned by, const struct yaml_node *n, unsigned depth)
{
	bool std = n->kind == YAML_TEXT && str_starts(n->text, STR("std/"));
	char *within;
	struct buf text = { 0 };
	unsigned number;

	if (n->kind != YAML_TEXT || n->text.n == 0) {
		ERROR_AT(l, n, "an entry of `extends` is std/NAME, or the name of a file relative to this one");
		return;
	}
	if (!std && (n->text.p[0] == '/' || str_find(n->text, STR("\n")) >= 0)) {
		ERROR_AT(l, n, "extends: the name of a file is relative to this one");
		return;
	}
	within = std ? arena_strz(l->a, n->text) : name_within(l, str_of(l->source[by].within), n->text);
	if (within == NULL) {
		ERROR_AT(l, n, "extends: `%.*s` leads out of the folder of the first file", DIAG_STR(n->text));
		return;
	}
	for (unsigned i = 0; i < l->p->file_n; i++) {
		if (strcmp(l->source[i].within, within) != 0)
			continue;
		if (i == by)
			ERROR_AT(l, n, "extends: this is the file itself");
		else if ((l->p->files[i].below & (uint64_t)1 << by) != 0)
			ERROR_AT(l, n, "extends: %s extends this file already: it cannot be extended by it", l->p->files[i].name);
		else
			l->p->files[by].below |= (uint64_t)1 << i | l->p->files[i].below;
		return;
	}
	if (depth > DEPTH_MAX || l->p->file_n == POLICY_FILES_MAX) {
		ERROR_AT(l, n, depth > DEPTH_MAX ? "extends: more than 8 files deep" : "extends: more than 64 files");
		return;
	}
	if (text_of(l, by, n, std ? within + 4 : within, std, &text)) {
		number = l->p->file_n++;
		l->source[number].within = within;
		l->p->files[number].name = std ? within : shown_name(l, within);
		l->source[number].dir = std ? NULL : folder_of(l, within);
		for (unsigned i = 0; i < number; i++)
			if (i == by || (l->p->files[i].below & (uint64_t)1 << by) != 0)
				l->p->files[i].below |= (uint64_t)1 << number;
		read_file(l, number, arena_str(l->a, buf_str(&text)), depth);
		for (unsigned i = 0; i < number; i++)
			if ((l->p->files[i].below & (uint64_t)1 << number) != 0)
				l->p->files[i].below |= l->p->files[number].below;
		load_in_file(l, by);
	}
	buf_fini(&text);
}

static void read_file(struct load *l, unsigned number, struct str text, unsigned depth)
{
	uint8_t digest[32];
	struct yaml_node *root, *list;

	load_in_file(l, number);
	MUST(EVP_Digest(text.n ? text.p : "", text.n, digest, NULL, EVP_sha256(), NULL) == 1);
	if (number > 0) {
		MUST(EVP_DigestUpdate(l->files, digest, sizeof(digest)) == 1);
		l->file_n++;
	}
	root = yaml_parse(l->a, text.n ? text.p : "", text.n, l->d);
	if (root == NULL)
		return;
	if (root->kind == YAML_NULL) {
		ERROR_AT(l, root, "the policy is empty; the least one is `version: 1`, which denies everything");
		return;
	}
	l->source[number].root = root;
	list = root->kind == YAML_MAP ? yaml_get(root, "extends") : NULL;
	for (unsigned i = 0; list != NULL && list->kind == YAML_LIST && i < list->n; i++) /* of another kind: an error of the schema's */
		extend(l, number, list->items[i], depth + 1);
}

void load_read_files(struct load *l, struct str text)
{
	const char *slash = strrchr(l->d->file, '/');

	l->p->file_n = 1;
	l->p->files[0].name = arena_strz(l->a, str_of(l->d->file));
	l->source[0].dir = l->dir;
	l->source[0].within = slash != NULL ? slash + 1 : l->d->file;
	read_file(l, 0, text, 0);
	load_in_file(l, 0);
}

void load_in_file(struct load *l, unsigned number)
{
	l->file = number;
	l->d->file = l->p->files[number].name;
	l->d->file_no = number;
}

/* --- messages about a place ---------------------------------------------------------------------------------------- */

static void put(struct load *l, struct pol_place at, bool error, const char *fmt, va_list ap)
{
	char text[1024];
	unsigned here = l->file;

	vsnprintf(text, sizeof(text), fmt, ap);
	load_in_file(l, at.file);
	if (error)
		diag_error(l->d, at.line, at.col, "%s", text);
	else
		diag_warning(l->d, at.line, at.col, "%s", text);
	load_in_file(l, here);
}

void load_error(struct load *l, struct pol_place at, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	put(l, at, true, fmt, ap);
	va_end(ap);
}

void load_warning(struct load *l, struct pol_place at, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	put(l, at, false, fmt, ap);
	va_end(ap);
}

const char *load_there(struct load *l, struct pol_place there, struct pol_place from)
{
	struct buf b = { 0 };
	const char *s;

	if (there.file == from.file)
		buf_addf(&b, "line %u", there.line);
	else
		buf_addf(&b, "%s:%u", l->p->files[there.file].name, there.line);
	s = arena_strz(l->a, buf_str(&b));
	buf_fini(&b);
	return s;
}

int load_place_order(const struct pol_place *x, const struct pol_place *y)
{
	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	if (x->line != y->line)
		return x->line < y->line ? -1 : 1;
	return x->col < y->col ? -1 : x->col > y->col;
}
