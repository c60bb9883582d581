/* SPDX-License-Identifier: Apache-2.0 */
#include "slots.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../common/base/must.h"

#define FILE_SIZE ((size_t)INFLIGHT_SLOTS * INFLIGHT_SLOT_SIZE)
#define FILES_PER_SANDBOX 1000

/* --- files --------------------------------------------------------------------------------------------------------- */

static void file_name(char out[256], uint32_t sandbox, unsigned k, const char *name)
{
	int n = snprintf(out, 256, "inflight.%u.%u.", sandbox, k);

	for (size_t i = 0; i < MSG_NAME_MAX - 1 && name[i] != 0; i++)
		n += snprintf(out + n, 256 - (size_t)n, "%02x", (unsigned char)name[i]);
}

static bool parse_name(const char *file, uint32_t *sandbox, char name[MSG_NAME_MAX])
{
	struct str s = str_of(file);
	const char *p, *dot;
	uint64_t v, k;
	size_t n = 0;

	if (!str_starts(s, STR("inflight.")))
		return false;
	p = file + 9;
	dot = strchr(p, '.');
	if (dot == NULL || !str_u64(str_mk(p, (size_t)(dot - p)), UINT32_MAX, &v))
		return false;
	p = dot + 1;
	dot = strchr(p, '.');
	if (dot == NULL || !str_u64(str_mk(p, (size_t)(dot - p)), UINT32_MAX, &k))
		return false;
	for (p = dot + 1; p[0] != 0 && p[1] != 0 && n < MSG_NAME_MAX - 1; p += 2) {
		int hi = hex_value(p[0]), lo = hex_value(p[1]);

		if (hi < 0 || lo < 0)
			return false;
		name[n++] = (char)(hi << 4 | lo);
	}
	name[n] = 0;
	*sandbox = (uint32_t)v;
	return p[0] == 0;
}

/* Blocks for every octet: a page of a mapped file that has none would be a SIGBUS when the disk is full. */
static int fill(int fd, struct err *err)
{
	static const uint8_t zero[4096];

	if (fallocate(fd, 0, 0, (off_t)FILE_SIZE) == 0)
		return 0;
	if (errno != EOPNOTSUPP && errno != ENOSYS)
		return err_errno(err, "cannot allocate the in-flight slots");
	for (size_t at = 0; at < FILE_SIZE; at += sizeof(zero))
		if (pwrite(fd, zero, sizeof(zero), (off_t)at) != (ssize_t)sizeof(zero))
			return err_errno(err, "cannot write the in-flight slots");
	return 0;
}

int slotfile_make(struct slotfile *s, int dir_fd, uint32_t sandbox, const char *name, struct err *err)
{
	int fd = -1;

	*s = (struct slotfile){ .fd = -1 };
	for (unsigned k = 0; fd < 0 && k < FILES_PER_SANDBOX; k++) {
		file_name(s->file, sandbox, k, name);
		fd = openat(dir_fd, s->file, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (fd < 0 && errno != EEXIST)
			break;
	}
	if (fd < 0) {
		err_errno(err, "cannot make a file of in-flight slots");
		s->file[0] = 0;
		return -1;
	}
	if (fill(fd, err) < 0)
		goto out;
	s->map = mmap(NULL, FILE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (s->map == MAP_FAILED) {
		s->map = NULL;
		err_errno(err, "cannot map the in-flight slots");
		goto out;
	}
	s->fd = fd;
	return 0;
out:
	close(fd);
	unlinkat(dir_fd, s->file, 0);
	s->file[0] = 0;
	return -1;
}

void slotfile_clear(struct slotfile *s, uint32_t slot)
{
	if (s->map != NULL && slot < INFLIGHT_SLOTS)
		__atomic_store_n(&s->map[slot].state, 0, __ATOMIC_RELEASE);
}

void slotfile_release(struct slotfile *s)
{
	if (s->map != NULL)
		munmap(s->map, FILE_SIZE);
	if (s->fd >= 0)
		close(s->fd);
	*s = (struct slotfile){ .fd = -1 };
}

/* --- what is left over --------------------------------------------------------------------------------------------- */

struct str slot_request_id(const uint8_t *fields, size_t n)
{
	size_t off = 0;
	enum record_tag t;
	struct str s;
	uint64_t u;
	bool bad = false;

	while (record_next(fields, n, &off, &t, &s, &u, &bad))
		if (t == REC_REQUEST_ID)
			return s;
	return STR_NONE;
}

/* The worker may still be writing there: each slot is copied once, then looked at. */
static struct left *left_from(const struct inflight_slot *map, uint32_t sandbox, const char *name, const char *file)
{
	struct left *l = must_calloc(1, sizeof(*l));

	l->sandbox = sandbox;
	snprintf(l->name, sizeof(l->name), "%s", name);
	snprintf(l->file, sizeof(l->file), "%s", file);
	for (uint32_t i = 0; i < INFLIGHT_SLOTS; i++) {
		struct left_slot *s;
		uint32_t len, state = __atomic_load_n(&map[i].state, __ATOMIC_ACQUIRE);

		if (state != SLOT_OPEN && state != SLOT_FINISHED)
			continue;
		if ((l->n & (l->n - 1)) == 0)
			l->slots = must_realloc(l->slots, (l->n ? l->n * 2 : 1) * sizeof(*l->slots));
		s = &l->slots[l->n++];
		len = __atomic_load_n(&map[i].len, __ATOMIC_RELAXED);
		s->finished = state == SLOT_FINISHED;
		s->len = (uint16_t)(len > SLOT_FIELDS_MAX ? SLOT_FIELDS_MAX : len);
		memcpy(s->fields, map[i].fields, s->len);
	}
	return l;
}

struct left *left_of(const struct slotfile *s, uint32_t sandbox, const char *name)
{
	struct left *l = s->map != NULL ? left_from(s->map, sandbox, name, s->file) : NULL;

	if (l != NULL && l->n == 0) {
		left_free(l);
		l = NULL;
	}
	return l;
}

/* NULL: it cannot be told. */
static struct left *read_file(int dir_fd, const char *file, uint32_t sandbox, const char *name, struct err *err)
{
	int fd = openat(dir_fd, file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct inflight_slot *copy = NULL;
	struct left *l = NULL;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) != 0) {
		err_errno(err, "cannot open %s", file);
		goto out;
	}
	if (!S_ISREG(st.st_mode)) {
		err_set(err, EINVAL, "%s is not a regular file", file);
		goto out;
	}
	/* read, not mapped: a file that is shorter than it should be is no reason to end */
	copy = must_calloc(1, FILE_SIZE);
	if (pread(fd, copy, FILE_SIZE, 0) < 0) {
		err_errno(err, "cannot read %s", file);
		goto out;
	}
	l = left_from(copy, sandbox, name, file);
out:
	free(copy);
	if (fd >= 0)
		close(fd);
	return l;
}

void left_refresh(struct left *l, int dir_fd)
{
	struct err err = ERR_INIT;
	struct left *now = read_file(dir_fd, l->file, l->sandbox, l->name, &err);

	if (now == NULL)
		return;
	free(l->slots);
	l->slots = now->slots;
	l->n = now->n;
	free(now);
}

struct left *left_scan(int dir_fd, struct err *err)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	const struct dirent *e;
	struct left *list = NULL;

	if (d == NULL) {
		err_errno(err, "cannot read the directory of the records");
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	while ((e = readdir(d)) != NULL) {
		char name[MSG_NAME_MAX];
		struct left *l;
		uint32_t sandbox;

		if (!parse_name(e->d_name, &sandbox, name))
			continue;
		l = read_file(dir_fd, e->d_name, sandbox, name, err);
		if (l == NULL)
			continue; /* what it says may still be wanted: the next start looks again */
		l->next = list;
		list = l;
	}
	closedir(d);
	return list;
}

void left_free(struct left *l)
{
	if (l == NULL)
		return;
	free(l->slots);
	free(l);
}

/* --- sets ---------------------------------------------------------------------------------------------------------- */

static uint64_t hash_of(struct str id)
{
	uint64_t h = hash_bytes(id.p, id.n);

	return h != 0 ? h : 1; /* 0 is a free place */
}

bool idset_has_hash(const struct idset *s, uint64_t h)
{
	if (s->cap == 0 || h == 0)
		return false;
	for (size_t i = (size_t)h & (s->cap - 1); s->h[i] != 0; i = (i + 1) & (s->cap - 1))
		if (s->h[i] == h)
			return true;
	return false;
}

static void put(struct idset *s, uint64_t h)
{
	size_t i = (size_t)h & (s->cap - 1);

	while (s->h[i] != 0)
		i = (i + 1) & (s->cap - 1);
	s->h[i] = h;
}

void idset_add_hash(struct idset *s, uint64_t h)
{
	if (h == 0 || idset_has_hash(s, h))
		return;
	if (s->n * 2 >= s->cap) {
		struct idset old = *s;

		s->cap = old.cap ? old.cap * 2 : 256;
		s->h = must_calloc(s->cap, sizeof(*s->h));
		for (size_t i = 0; i < old.cap; i++)
			if (old.h[i] != 0)
				put(s, old.h[i]);
		free(old.h);
	}
	put(s, h);
	s->n++;
}

void idset_add(struct idset *s, struct str id) { idset_add_hash(s, hash_of(id)); }
bool idset_has(const struct idset *s, struct str id) { return idset_has_hash(s, hash_of(id)); }

void idset_fini(struct idset *s)
{
	free(s->h);
	*s = (struct idset){ 0 };
}
