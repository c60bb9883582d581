/* SPDX-License-Identifier: Apache-2.0 */
#include "pathcheck.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const char *stat_untrustworthy(const struct stat *st)
{
	if (st->st_uid != 0 && st->st_uid != geteuid())
		return "belongs to somebody else";
	/* In a sticky directory (/tmp) only the owner can replace an entry. */
	if ((st->st_mode & 022) && !(S_ISDIR(st->st_mode) && (st->st_mode & S_ISVTX)))
		return "can be written by others; chmod go-w it";
	return NULL;
}

int path_trustworthy(const char *path, const char *what, struct err *err)
{
	char part[PATH_MAX];
	size_t n = strlen(path);
	struct stat st = { 0 };

	if (n >= sizeof(part) || path[0] != '/')
		return err_set(err, EINVAL, "%s %s: not an absolute path", what, path);
	for (size_t i = 1; i <= n; i++) {
		bool last = i == n;

		if (path[i] != '/' && !last)
			continue;
		memcpy(part, path, i);
		part[i] = 0;
		if (lstat(part, &st) != 0)
			return err_errno(err, "%s %s", what, part);
		if (S_ISLNK(st.st_mode))
			return err_set(err, ELOOP, "%s %s: %s is a symbolic link; name the real path", what, path, part);
		if (st.st_uid != 0 && st.st_uid != geteuid())
			return err_set(err, EPERM, "%s %s: %s belongs to somebody else (uid %u)", what, path, part, (unsigned)st.st_uid);
		if (stat_untrustworthy(&st) != NULL)
			return err_set(err, EPERM, "%s %s: others can write %s; chmod go-w it", what, path, part);
	}
	return S_ISREG(st.st_mode) ? 0 : err_set(err, EINVAL, "%s %s is not a regular file", what, path);
}

int path_open_trusted(const char *path, bool follow, const char *what, struct err *err)
{
	char link[64], real[PATH_MAX];
	int fd;
	ssize_t n;

	if (!follow && path_trustworthy(path, what, err) < 0)
		return -1;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | (follow ? 0 : O_NOFOLLOW));
	if (fd < 0)
		return err_errno(err, "%s %s", what, path);
	if (!follow)
		return fd;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, real, sizeof(real) - 1);
	real[n > 0 ? n : 0] = 0;
	if (n > 0 && path_trustworthy(real, what, err) == 0)
		return fd;
	if (n <= 0)
		err_errno(err, "%s %s", what, path);
	close(fd);
	return -1;
}
