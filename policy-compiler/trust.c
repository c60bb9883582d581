/* SPDX-License-Identifier: Apache-2.0 */
#include "trust.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../common/base/must.h"

#define LIST_MAX (4u << 20)
#define HEX_LEN 64u

int trust_state_dir(const char *option, char out[TRUST_PATH_MAX], struct err *err)
{
	const char *env = getenv("SALLYPORT_STATE"), *xdg = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
	int n;

	if (option == NULL && env != NULL && env[0])
		option = env;
	if (option != NULL)
		n = snprintf(out, TRUST_PATH_MAX, "%s", option);
	else if (geteuid() == 0)
		n = snprintf(out, TRUST_PATH_MAX, "/var/lib/sallyport");
	else if (xdg != NULL && xdg[0] == '/')
		n = snprintf(out, TRUST_PATH_MAX, "%s/sallyport", xdg);
	else if (home != NULL && home[0] == '/')
		n = snprintf(out, TRUST_PATH_MAX, "%s/.local/state/sallyport", home);
	else
		return err_set(err, ENOENT, "neither --state, SALLYPORT_STATE, XDG_STATE_HOME nor HOME says where the state directory is");
	if (n <= 0 || n > TRUST_PATH_MAX - 64)
		return err_set(err, ENAMETOOLONG, "the name of the state directory is empty or too long");
	return 0;
}

/* --- the list ------------------------------------------------------------------------------------------------------ */

/* The whole list; an absent one is empty. Nobody else may have been able to write it. */
static int read_list(const char *path, struct buf *b, struct err *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), ret = -1;
	struct stat st;
	ssize_t k;

	if (fd < 0)
		return errno == ENOENT ? 0 : err_errno(err, "cannot read %s", path);
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size > LIST_MAX) {
		err_set(err, EINVAL, "%s is not a list of trusted policies", path);
		goto out;
	}
	if ((st.st_uid != geteuid() && st.st_uid != 0) || (st.st_mode & 022) != 0) {
		err_set(err, EPERM, "%s could have been written by someone else: it is not relied on", path);
		goto out;
	}
	while ((k = read(fd, buf_room(b, 65536), 65536)) > 0 && buf_len(b) <= LIST_MAX)
		buf_commit(b, (size_t)k);
	ret = k < 0 ? err_errno(err, "cannot read %s", path) : 0;
out:
	close(fd);
	return ret;
}

static bool next_line(struct str *rest, struct str *line)
{
	const char *nl;

	if (rest->n == 0)
		return false;
	nl = memchr(rest->p, '\n', rest->n);
	*line = str_mk(rest->p, nl ? (size_t)(nl - rest->p) : rest->n);
	*rest = str_mk(rest->p + line->n + (nl != NULL), rest->n - line->n - (nl != NULL));
	return true;
}

static bool is_of(struct str line, const char *file) { return line.n > HEX_LEN + 1 && line.p[HEX_LEN] == ' ' && str_eq(str_mk(line.p + HEX_LEN + 1, line.n - HEX_LEN - 1), str_of(file)); }

static void to_hex(const uint8_t digest[32], char out[HEX_LEN + 1])
{
	for (int i = 0; i < 32; i++)
		snprintf(out + 2 * i, 3, "%02x", digest[i]);
}

/*
 * The place: the folder without links, and the name in it. What the name itself is a link to does not count: consent to a
 * policy elsewhere is none to its use here, or whoever may write this folder could choose among all that were ever trusted.
 */
static char *real_name(const char *file, struct err *err)
{
	const char *slash = strrchr(file, '/'), *base = slash != NULL ? slash + 1 : file;
	char *folder = slash == NULL ? must_strdup(".") : must_strdup(file), *real, *out = NULL;
	struct buf b = { 0 };

	if (slash != NULL)
		folder[slash == file ? 1 : slash - file] = 0;
	real = realpath(folder, NULL);
	if (real == NULL) {
		err_errno(err, "cannot read %s", file);
	} else if (strchr(real, '\n') != NULL || strchr(base, '\n') != NULL) {
		err_set(err, EINVAL, "a policy with a line break in its name cannot be trusted");
	} else {
		buf_addf(&b, "%s/%s%c", strcmp(real, "/") == 0 ? "" : real, base, 0);
		out = must_strdup((const char *)buf_data(&b));
	}
	buf_fini(&b);
	free(real);
	free(folder);
	return out;
}

int trust_look(const char *state, const char *file, const uint8_t digest[32], enum trust *out, struct err *err)
{
	char list[TRUST_PATH_MAX + 32], hex[HEX_LEN + 1];
	char *real = real_name(file, err);
	struct buf b = { 0 };
	struct str rest, line;
	int ret = -1;

	*out = TRUST_NEVER;
	if (real == NULL)
		return -1;
	snprintf(list, sizeof(list), "%s/policies/trusted", state);
	if (read_list(list, &b, err) < 0)
		goto out;
	to_hex(digest, hex);
	rest = buf_str(&b);
	while (next_line(&rest, &line))
		if (is_of(line, real))
			*out = memcmp(line.p, hex, HEX_LEN) == 0 ? TRUST_GIVEN : TRUST_CHANGED;
	ret = 0;
out:
	free(real);
	buf_fini(&b);
	return ret;
}

/* --- giving it ----------------------------------------------------------------------------------------------------- */

/* Makes a folder and those above it, 0700. */
static int make_dirs(const char *path, struct err *err)
{
	char *p = must_strdup(path);
	int ret = 0;

	for (char *s = p + 1;; s++) {
		char c = *s;

		if (c != '/' && c != 0)
			continue;
		*s = 0;
		if (mkdir(p, 0700) != 0 && errno != EEXIST) {
			ret = err_errno(err, "cannot make the folder %s", p);
			break;
		}
		*s = c;
		if (c == 0)
			break;
	}
	free(p);
	return ret;
}

static int replace(const char *list, const struct buf *b, struct err *err)
{
	char tmp[TRUST_PATH_MAX + 64];
	int fd;

	snprintf(tmp, sizeof(tmp), "%s.XXXXXX", list);
	fd = mkostemp(tmp, O_CLOEXEC); /* 0600 */
	if (fd < 0)
		return err_errno(err, "cannot write %s", list);
	if (write(fd, buf_data(b), buf_len(b)) != (ssize_t)buf_len(b) || fsync(fd) != 0 || rename(tmp, list) != 0) {
		err_errno(err, "cannot write %s", list);
		unlink(tmp);
		close(fd);
		return -1;
	}
	close(fd);
	return 0;
}

int trust_give(const char *state, const char *file, const uint8_t digest[32], struct err *err)
{
	char dir[TRUST_PATH_MAX + 16], list[TRUST_PATH_MAX + 32], hex[HEX_LEN + 1];
	char *real = real_name(file, err);
	struct buf old = { 0 }, new = { 0 };
	struct str rest, line;
	int fd = -1, ret = -1;

	if (real == NULL)
		return -1;
	snprintf(dir, sizeof(dir), "%s/policies", state);
	snprintf(list, sizeof(list), "%s/trusted", dir);
	if (make_dirs(dir, err) < 0)
		goto out;
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* two at a time: each keeps the other's line */
	if (fd < 0 || flock(fd, LOCK_EX) != 0) {
		err_errno(err, "cannot lock %s", dir);
		goto out;
	}
	if (read_list(list, &old, err) < 0)
		goto out;
	rest = buf_str(&old);
	while (next_line(&rest, &line)) {
		if (line.n > HEX_LEN + 1 && !is_of(line, real)) {
			buf_adds(&new, line);
			buf_addc(&new, '\n');
		}
	}
	to_hex(digest, hex);
	buf_addf(&new, "%s %s\n", hex, real);
	ret = replace(list, &new, err);
	if (ret == 0)
		fsync(fd);
out:
	if (fd >= 0)
		close(fd);
	free(real);
	buf_fini(&old);
	buf_fini(&new);
	return ret;
}
