/* SPDX-License-Identifier: Apache-2.0 */
#include "boundary.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../common/policy/format.h"
#include "../common/policy/image.h"
#include "../common/policy/within.h"

/* A compiled one is looked at as the gateway would. */
static int check(int fd, const char *file, struct err *err)
{
	uint8_t digest[TABLE_DIGEST_LEN];
	struct stat st;
	void *map;
	int ret;

	if (fstat(fd, &st) != 0 || (map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0)) == MAP_FAILED)
		return err_errno(err, "%s", file);
	ret = table_check(map, (size_t)st.st_size, digest, err);
	munmap(map, (size_t)st.st_size);
	return ret < 0 ? err_wrap(err, "%s", file) : 0;
}

static bool compiled(int fd)
{
	uint8_t magic[4];

	return pread(fd, magic, sizeof(magic), 16) == (ssize_t)sizeof(magic) && le32(magic) == IMAGE_MAGIC;
}

int boundary_open(struct boundary *b, const char *file, FILE *errors, struct err *err)
{
	struct diag d = { .file = file };
	int ret;

	*b = (struct boundary){ .fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) };
	if (b->fd < 0)
		return err_errno(err, "%s", file);
	if (compiled(b->fd))
		return check(b->fd, file, err);
	close(b->fd);
	b->fd = -1;
	b->is_text = true;
	ret = policy_load(&b->p, file, &d);
	fwrite(buf_str(&d.out).p, 1, buf_len(&d.out), errors);
	if (ret < 0)
		err_set(err, EINVAL, "the boundary %s has %u error%s", file, d.errors, d.errors == 1 ? "" : "s");
	diag_fini(&d);
	return ret < 0 ? -1 : policy_image(&b->p, &b->fd, err);
}

void boundary_close(struct boundary *b)
{
	if (b->fd >= 0)
		close(b->fd);
	policy_free(&b->p);
	b->fd = -1;
}

struct report {
	FILE *f;
	const char *file;
};

static void say(void *arg, struct str source, const char *text)
{
	const struct report *r = arg;

	if (source.n > 0)
		fprintf(r->f, "%.*s: error: %s\n", (int)source.n, source.p, text);
	else
		fprintf(r->f, "%s: error: %s\n", r->file, text);
}

int boundary_exceeded(const struct boundary *b, const struct policy *p, const char *file, FILE *errors, struct err *err)
{
	struct report r = { errors, file };
	struct table *t = NULL, *ceiling = NULL;
	int fd = -1, ret = -1;

	if (policy_image(p, &fd, err) == 0 && table_open(&t, fd, err) == 0 && table_open(&ceiling, b->fd, err) == 0)
		ret = (int)table_within(t, ceiling, say, &r);
	table_free(t);
	table_free(ceiling);
	if (fd >= 0)
		close(fd);
	return ret;
}
