/* SPDX-License-Identifier: Apache-2.0 */
#include "logfile.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../common/base/must.h"

#define LINE_MAX_OCTETS (1u << 20)
#define ALLOCATE_STEP (256u << 10) /* beyond what is needed: how often the kernel is asked, and how late a full disk shows */

static ssize_t read_full(int fd, void *p, size_t n, off_t at)
{
	size_t got = 0;

	while (got < n) {
		ssize_t k = pread(fd, (char *)p + got, n - got, at + (off_t)got);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return -1;
		if (k == 0)
			break;
		got += (size_t)k;
	}
	return (ssize_t)got;
}

static uint32_t highest_rotated(int dir_fd)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	const struct dirent *e;
	uint32_t max = 0;

	if (d == NULL) {
		if (fd >= 0)
			close(fd);
		return 0;
	}
	while ((e = readdir(d)) != NULL) {
		uint32_t n = chain_rotated_number(e->d_name);

		if (n > max)
			max = n;
	}
	closedir(d);
	return max;
}

/* The last whole line of the file, into b; *whole: where the unfinished rest begins. False: there is none. */
static bool last_line(int fd, off_t size, struct buf *b, off_t *whole)
{
	size_t want = size > (off_t)LINE_MAX_OCTETS * 2 ? LINE_MAX_OCTETS * 2 : (size_t)size;
	uint8_t *p = buf_room(b, want);
	const uint8_t *nl, *start;
	ssize_t n = read_full(fd, p, want, size - (off_t)want);

	*whole = 0;
	if (n <= 0)
		return false;
	nl = memrchr(p, '\n', (size_t)n);
	if (nl == NULL)
		return false;
	*whole = size - (off_t)want + (nl - p) + 1;
	start = nl > p ? memrchr(p, '\n', (size_t)(nl - p)) : NULL;
	start = start != NULL ? start + 1 : p;
	buf_commit(b, (size_t)(nl - p));
	buf_drop(b, (size_t)(start - p));
	return true;
}

static int open_current(int dir_fd, int more)
{
	return openat(dir_fd, CHAIN_FILE, O_RDWR | O_APPEND | O_NOFOLLOW | O_CLOEXEC | more, 0600);
}

static int put_aside(struct logfile *l, struct err *err)
{
	char name[40];

	snprintf(name, sizeof(name), "audit-%u.jsonl", l->rotated + 1);
	if (renameat2(l->dir_fd, CHAIN_FILE, l->dir_fd, name, RENAME_NOREPLACE) != 0)
		return err_errno(err, "cannot rename %s to %s", CHAIN_FILE, name);
	l->rotated++;
	return 0;
}

/* Takes the chain up where the newest record of that file left it. */
static void resume(struct logfile *l, int fd, off_t size, off_t *whole, bool *damaged)
{
	struct buf b = { 0 };
	struct chain_link k;

	*damaged = false;
	if (size > 0 && last_line(fd, size, &b, whole)) {
		if (chain_parse(buf_str(&b), &k)) {
			l->sequence = k.sequence;
			memcpy(l->prev, k.hash, CHAIN_HEX);
			*damaged = chain_check(l->chain, &k) != NULL;
		} else {
			*damaged = true;
		}
	} else if (size > (off_t)LINE_MAX_OCTETS) {
		*damaged = true; /* no line of ours is that long */
	}
	buf_fini(&b);
}

static void check_anchor(struct logfile *l, bool any, struct log_found *found)
{
	char text[512];
	int fd = openat(l->dir_fd, CHAIN_ANCHOR_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read_full(fd, text, sizeof(text), 0) : -1;
	struct chain_anchor a;

	if (fd >= 0)
		close(fd);
	if (n < 0 || !chain_anchor_parse(l->chain, str_mk(text, (size_t)n), &a)) {
		found->anchor_missing = any;
		return;
	}
	if (a.sequence > l->sequence) {
		/* go on behind what is missing: a sequence is never used twice */
		found->missing = a.sequence - l->sequence;
		l->sequence = a.sequence;
	}
}

int logfile_open(struct logfile *l, int dir_fd, struct chain *chain, struct log_found *found, struct err *err)
{
	struct stat st;
	off_t whole = 0;
	bool any, damaged = false;

	memset(l, 0, sizeof(*l));
	memset(found, 0, sizeof(*found));
	l->dir_fd = dir_fd;
	l->fd = -1;
	l->chain = chain;
	l->rotate_at = LOG_ROTATE;
	memcpy(l->prev, chain_zero, CHAIN_HEX);
	l->rotated = highest_rotated(dir_fd);
	l->fd = open_current(dir_fd, O_CREAT);
	if (l->fd < 0)
		return err_errno(err, "cannot open %s", CHAIN_FILE);
	if (fstat(l->fd, &st) != 0 || !S_ISREG(st.st_mode)) {
		err_set(err, EINVAL, "%s is not a regular file", CHAIN_FILE);
		goto out;
	}
	any = st.st_size > 0 || l->rotated > 0;
	if (st.st_size == 0 && l->rotated > 0) {
		char name[40];
		struct stat old;
		int fd;

		snprintf(name, sizeof(name), "audit-%u.jsonl", l->rotated);
		fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		if (fd >= 0 && fstat(fd, &old) == 0)
			resume(l, fd, old.st_size, &whole, &damaged);
		if (fd >= 0)
			close(fd);
	} else if (st.st_size > 0) {
		resume(l, l->fd, st.st_size, &whole, &damaged);
		if (!damaged && whole < st.st_size) {
			/* a line that was being written when the power or the process went: nobody was told that it is recorded */
			found->cut = st.st_size - whole;
			if (ftruncate(l->fd, whole) != 0) {
				err_errno(err, "cannot cut off the unfinished line of %s", CHAIN_FILE);
				goto out;
			}
			st.st_size = whole;
		}
		if (damaged) {
			/* evidence: it stays as it is */
			found->damaged = true;
			close(l->fd);
			l->fd = -1;
			if (put_aside(l, err) < 0)
				goto out;
			l->fd = open_current(dir_fd, O_CREAT | O_EXCL);
			if (l->fd < 0) {
				err_errno(err, "cannot make %s", CHAIN_FILE);
				goto out;
			}
			st.st_size = 0;
		}
	}
	l->size = l->allocated = st.st_size;
	check_anchor(l, any, found);
	return 0;
out:
	if (l->fd >= 0)
		close(l->fd);
	l->fd = -1;
	return -1;
}

static void trim(struct logfile *l)
{
	/* what was allocated ahead is given back */
	if (l->fd >= 0 && l->allocated > l->size && ftruncate(l->fd, l->size) == 0)
		l->allocated = l->size;
}

void logfile_close(struct logfile *l)
{
	trim(l);
	if (l->fd >= 0)
		close(l->fd);
	l->fd = -1;
	buf_fini(&l->pending);
}

void logfile_add(struct logfile *l, struct record_context *c, const uint8_t *fields, size_t n, bool checkpoint)
{
	size_t start = buf_len(&l->pending);
	char mac[CHAIN_HEX + 1] = { 0 }, hash[CHAIN_HEX];
	struct str line;

	c->sequence = l->sequence + 1;
	c->checkpoint_mac = NULL;
	if (checkpoint) {
		chain_checkpoint_mac(l->chain, c->sequence, l->prev, mac);
		c->checkpoint_mac = mac;
		c->checkpoint_records = l->unsynced;
		l->unsynced = 0;
	} else {
		l->unsynced++;
	}
	record_format(&l->pending, c, fields, n, l->prev);
	line = buf_str(&l->pending);
	chain_hash(l->chain, str_mk(line.p + start, line.n - start), l->prev, hash);
	record_close(&l->pending, hash);
	memcpy(l->prev, hash, CHAIN_HEX);
	l->sequence++;
	c->checkpoint_mac = NULL;
}

static int rotate(struct logfile *l, struct err *err)
{
	int fd;

	trim(l);
	fsync(l->fd);
	if (put_aside(l, err) < 0)
		return -1;
	fd = open_current(l->dir_fd, O_CREAT | O_EXCL);
	if (fd < 0) {
		char name[40];

		/* back to where we were: records go on into the old file */
		err_errno(err, "cannot make a new %s", CHAIN_FILE);
		snprintf(name, sizeof(name), "audit-%u.jsonl", l->rotated);
		if (renameat2(l->dir_fd, name, l->dir_fd, CHAIN_FILE, RENAME_NOREPLACE) == 0)
			l->rotated--;
		return -1;
	}
	close(l->fd);
	l->fd = fd;
	l->size = l->allocated = 0;
	return 0;
}

bool logfile_lost(const struct logfile *l)
{
	struct stat here, there;

	return fstat(l->fd, &here) != 0 || fstatat(l->dir_fd, CHAIN_FILE, &there, AT_SYMLINK_NOFOLLOW) != 0 || here.st_ino != there.st_ino || here.st_dev != there.st_dev;
}

int logfile_write(struct logfile *l, struct err *err)
{
	size_t n = buf_len(&l->pending);
	struct err ignored = ERR_INIT;
	ssize_t k;

	if (n == 0)
		return 0;
	if (l->size > 0 && l->size + (off_t)n > l->rotate_at && rotate(l, &ignored) < 0)
		l->rotate_at = l->size + (off_t)n + (off_t)(16u << 20); /* next attempt later; the file takes more until then */
	do
		k = write(l->fd, buf_data(&l->pending), n);
	while (k < 0 && errno == EINTR);
	if (k == (ssize_t)n) {
		l->size += k;
		if (l->allocated < l->size)
			l->allocated = l->size;
		buf_clear(&l->pending);
		return 0;
	}
	if (k < 0) {
		err_errno(err, "cannot write to %s", CHAIN_FILE);
	} else {
		err_set(err, ENOSPC, "cannot write to %s: the disk is full", CHAIN_FILE);
		/* whole lines only: the rest is written again with them (and if the cut fails, what follows is right behind it) */
		if (ftruncate(l->fd, l->size) == 0) {
			l->allocated = l->size;
		} else {
			l->size += k;
			buf_drop(&l->pending, (size_t)k);
		}
	}
	return -1;
}

int logfile_reserve(struct logfile *l, off_t n, struct err *err)
{
	off_t from = l->allocated > l->size ? l->allocated : l->size;

	if (l->no_allocate || l->allocated - l->size >= n)
		return 0;
	for (off_t more = ALLOCATE_STEP;; more = 0) {
		if (fallocate(l->fd, FALLOC_FL_KEEP_SIZE, from, l->size + n + more - from) == 0) {
			l->allocated = l->size + n + more;
			return 0;
		}
		if (errno == EOPNOTSUPP || errno == ENOSYS) {
			l->no_allocate = true;
			return 0;
		}
		if (more == 0)
			return err_errno(err, "cannot allocate space for records");
	}
}

int logfile_anchor(struct logfile *l, struct err *err)
{
	struct chain_anchor a = { .sequence = l->sequence };
	struct buf b = { 0 };
	int fd, ret = -1;

	MUST(buf_len(&l->pending) == 0);
	if (fdatasync(l->fd) != 0)
		return err_errno(err, "cannot bring the records to the disk");
	memcpy(a.hash, l->prev, CHAIN_HEX);
	chain_anchor_format(l->chain, &a, &b);
	unlinkat(l->dir_fd, CHAIN_ANCHOR_FILE ".new", 0);
	fd = openat(l->dir_fd, CHAIN_ANCHOR_FILE ".new", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0) {
		err_errno(err, "cannot make the checkpoint file");
		goto out;
	}
	if (write(fd, buf_data(&b), buf_len(&b)) != (ssize_t)buf_len(&b) || fdatasync(fd) != 0 ||
	    renameat(l->dir_fd, CHAIN_ANCHOR_FILE ".new", l->dir_fd, CHAIN_ANCHOR_FILE) != 0)
		err_errno(err, "cannot write the checkpoint file");
	else
		ret = 0;
	close(fd);
out:
	buf_fini(&b);
	return ret;
}

static void tail_of(int dir_fd, const char *name, off_t *budget, void (*fn)(void *, struct str), void *arg)
{
	int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	char *p, *at, *end;
	off_t from;
	ssize_t n;

	if (fd < 0)
		return;
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size == 0) {
		close(fd);
		return;
	}
	from = st.st_size > *budget ? st.st_size - *budget : 0;
	p = must_malloc((size_t)(st.st_size - from));
	n = read_full(fd, p, (size_t)(st.st_size - from), from);
	close(fd);
	at = p;
	end = p + (n > 0 ? n : 0);
	if (from > 0) { /* the first line is a part */
		at = memchr(p, '\n', (size_t)(end - p));
		at = at != NULL ? at + 1 : end;
	}
	while (at < end) {
		char *nl = memchr(at, '\n', (size_t)(end - at));

		if (nl == NULL)
			break;
		fn(arg, str_mk(at, (size_t)(nl - at)));
		at = nl + 1;
	}
	free(p);
	*budget -= st.st_size - from;
}

void logfile_tail(int dir_fd, void (*fn)(void *arg, struct str line), void *arg)
{
	uint32_t n = highest_rotated(dir_fd);
	off_t budget = LOG_TAIL;
	char name[40];

	tail_of(dir_fd, CHAIN_FILE, &budget, fn, arg);
	if (n > 0 && budget > 0) {
		snprintf(name, sizeof(name), "audit-%u.jsonl", n);
		tail_of(dir_fd, name, &budget, fn, arg);
	}
}
