/* SPDX-License-Identifier: Apache-2.0 */
/* `sallyport logs`: the records for people, or as they are; `logs verify`. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../../common/base/must.h"
#include "../../common/sys/clock.h"
#include "../../common/sys/statedir.h"
#include "../roles.h"
#include "reader.h"

#define FOLLOW_MS 200

static int usage(FILE *f)
{
	fprintf(f, "usage: sallyport logs [-f] [--sandbox N] [--denied] [--since 10m] [--host H] [--json] [--state DIR]\n"
	           "       sallyport logs verify [DIR]\n");
	return f == stdout ? 0 : 2;
}

static int number_cmp(const void *x, const void *y)
{
	uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;

	return a < b ? -1 : a > b;
}

uint32_t *reader_rotated(int dir_fd, size_t *n)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	const struct dirent *e;
	uint32_t *list = NULL;
	size_t cap = 0;

	*n = 0;
	if (d == NULL) {
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	while ((e = readdir(d)) != NULL && *n < READER_FILES_MAX) {
		uint32_t k = chain_rotated_number(e->d_name);

		if (k == 0)
			continue;
		if (*n == cap) {
			cap = cap ? cap * 2 : 16;
			list = must_realloc(list, cap * sizeof(*list));
		}
		list[(*n)++] = k;
	}
	closedir(d);
	if (*n > 0)
		qsort(list, *n, sizeof(*list), number_cmp);
	return list;
}

int reader_open_dir(const char *state, struct err *err)
{
	char path[4200];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", state, CHAIN_FILE);
	if (stat(path, &st) == 0)
		snprintf(path, sizeof(path), "%s", state);
	else
		snprintf(path, sizeof(path), "%s/audit", state);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0) {
		if (errno == ENOENT)
			return err_set(err, ENOENT, "there are no records in %s", path);
		return err_errno(err, "cannot open %s", path);
	}
	return fd;
}

/* "10m", "2h30m", "45s", "7d". False: something else. */
static bool parse_duration(const char *s, uint64_t *ms)
{
	uint64_t total = 0;

	if (*s == 0)
		return false;
	while (*s) {
		uint64_t v = 0, unit;
		int digits = 0;

		for (; *s >= '0' && *s <= '9' && digits < 9; s++, digits++)
			v = v * 10 + (uint64_t)(*s - '0');
		unit = *s == 's' ? 1000 : *s == 'm' ? 60000 : *s == 'h' ? 3600000 : *s == 'd' ? 86400000 : 0;
		if (digits == 0 || unit == 0)
			return false;
		s++;
		total += v * unit;
	}
	*ms = total;
	return true;
}

struct follower { /* one file, read line by line as it grows */
	int fd;
	ino_t ino;
	struct buf rest;
};

/* Reads what is there now. False: standard output is gone. */
static bool drain(struct follower *r, const struct view_filter *f)
{
	struct buf out = { 0 };
	bool ok = true;
	ssize_t n;

	while (ok && (n = read(r->fd, buf_room(&r->rest, 65536), 65536)) > 0) {
		const uint8_t *nl;
		size_t at = 0, have;

		buf_commit(&r->rest, (size_t)n);
		have = buf_len(&r->rest);
		while ((nl = memchr(buf_data(&r->rest) + at, '\n', have - at)) != NULL) {
			size_t len = (size_t)(nl - buf_data(&r->rest)) - at;

			if (len > 0 && !view_line(str_mk(buf_data(&r->rest) + at, len), f, &out))
				fprintf(stderr, "sallyport: a line that is not a record is left out (see `sallyport logs verify`)\n");
			at += len + 1;
		}
		buf_drop(&r->rest, at);
		if (buf_len(&out) > 0 && fwrite(buf_data(&out), 1, buf_len(&out), stdout) != buf_len(&out))
			ok = false;
		buf_clear(&out);
	}
	if (fflush(stdout) != 0)
		ok = false;
	buf_fini(&out);
	return ok;
}

static bool open_follower(struct follower *r, int dir_fd, const char *name)
{
	struct stat st;

	*r = (struct follower){ .fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) };
	if (r->fd < 0)
		return false;
	if (fstat(r->fd, &st) == 0)
		r->ino = st.st_ino;
	return true;
}

static void close_follower(struct follower *r)
{
	if (r->fd >= 0)
		close(r->fd);
	r->fd = -1;
	buf_fini(&r->rest);
}

static void nap(void)
{
	struct timespec ts = { 0, FOLLOW_MS * 1000000L };

	nanosleep(&ts, NULL);
}

static int follow(int dir_fd, struct follower *r, const struct view_filter *f)
{
	for (;;) {
		struct stat st;

		if (r->fd < 0 && !open_follower(r, dir_fd, CHAIN_FILE)) {
			nap();
			continue;
		}
		if (!drain(r, f))
			return 1;
		/* rotated: the old one is read to its end, then the new one */
		if (fstatat(dir_fd, CHAIN_FILE, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_ino != r->ino) {
			if (!drain(r, f))
				return 1;
			close_follower(r);
			continue;
		}
		nap();
	}
}

static int show(int dir_fd, const struct view_filter *f, bool following)
{
	struct follower r = { .fd = -1 };
	size_t n;
	uint32_t *rotated = reader_rotated(dir_fd, &n);
	char name[40];
	int ret = 0;

	for (size_t i = 0; i < n && ret == 0; i++) {
		snprintf(name, sizeof(name), "audit-%u.jsonl", rotated[i]);
		if (open_follower(&r, dir_fd, name) && !drain(&r, f))
			ret = 1;
		close_follower(&r);
	}
	free(rotated);
	if (ret == 0 && open_follower(&r, dir_fd, CHAIN_FILE) && !drain(&r, f))
		ret = 1;
	if (ret == 0 && following)
		ret = follow(dir_fd, &r, f);
	close_follower(&r);
	return ret;
}

static int run_verify(const char *state, struct err *err)
{
	int dir_fd = reader_open_dir(state, err), ret = 1;

	if (dir_fd >= 0) {
		ret = verify_log(dir_fd, err);
		close(dir_fd);
	}
	fflush(stdout);
	if (err->text[0] != 0)
		fprintf(stderr, "sallyport: %s\n", err->text);
	return ret;
}

int logs_main(int argc, char **argv)
{
	static const struct option options[] = { { "follow", 0, NULL, 'f' }, { "sandbox", 1, NULL, 'n' }, { "denied", 0, NULL, 'd' }, { "since", 1, NULL, 't' }, { "host", 1, NULL, 'o' },
		{ "json", 0, NULL, 'j' }, { "state", 1, NULL, 's' }, { "help", 0, NULL, 'h' }, { NULL, 0, NULL, 0 } };
	struct view_filter f = { 0 };
	const char *state = NULL;
	bool following = false, verify = false;
	struct err err = ERR_INIT;
	char dir[4096];
	uint64_t ms;
	int o, dir_fd, ret;

	while ((o = getopt_long(argc, argv, "fh", options, NULL)) != -1) {
		switch (o) {
		case 'f':
			following = true;
			break;
		case 'n':
			f.sandbox = optarg;
			break;
		case 'd':
			f.denied = true;
			break;
		case 't':
			if (!parse_duration(optarg, &ms)) {
				fprintf(stderr, "sallyport: --since wants a length of time such as 10m, 2h30m or 7d\n");
				return 2;
			}
			f.since_ms = clock_wall_ms() > ms ? clock_wall_ms() - ms : 1;
			break;
		case 'o':
			f.host = optarg;
			break;
		case 'j':
			f.json = true;
			break;
		case 's':
			state = optarg;
			break;
		case 'h':
			return usage(stdout);
		default:
			return usage(stderr);
		}
	}
	if (optind < argc && strcmp(argv[optind], "verify") == 0) {
		verify = true;
		optind++;
		if (optind < argc)
			state = argv[optind++];
	}
	if (optind != argc)
		return usage(stderr);
	if (state_dir(dir, state, &err) < 0) {
		fprintf(stderr, "sallyport: %s\n", err.text);
		return 1;
	}
	if (verify)
		return run_verify(dir, &err);
	dir_fd = reader_open_dir(dir, &err);
	if (dir_fd < 0) {
		fprintf(stderr, "sallyport: %s\n", err.text);
		return 1;
	}
	ret = show(dir_fd, &f, following);
	close(dir_fd);
	return ret;
}
