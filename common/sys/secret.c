/* SPDX-License-Identifier: Apache-2.0 */
#include "secret.h"

#include <sys/mman.h>
#include <unistd.h>

#include "../base/must.h"

struct secret {
	size_t map, n;
	char bytes[];
};

struct secret *secret_new(const void *p, size_t n)
{
	struct secret *s;
	size_t page = 4096, map;

	if (n > SECRET_MAX)
		return NULL;
	map = (sizeof(*s) + n + page - 1) & ~(page - 1);
	s = mmap(NULL, map, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	MUST(s != MAP_FAILED);
	madvise(s, map, MADV_DONTDUMP);
	s->map = map;
	s->n = n;
	if (n)
		memcpy(s->bytes, p, n);
	return s;
}

void secret_free(struct secret *s)
{
	size_t map;

	if (s == NULL)
		return;
	map = s->map;
	explicit_bzero(s, map);
	munmap(s, map);
}

struct str secret_bytes(const struct secret *s) { return str_mk(s->bytes, s->n); }

bool secret_sendable(const struct secret *s)
{
	if (s->n == 0)
		return false;
	for (size_t i = 0; i < s->n; i++)
		if (s->bytes[i] == '\r' || s->bytes[i] == '\n' || s->bytes[i] == 0)
			return false;
	return true;
}
