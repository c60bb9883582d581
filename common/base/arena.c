/* SPDX-License-Identifier: Apache-2.0 */
#include "arena.h"

#include <stdlib.h>
#include <string.h>

#include "must.h"

#define ARENA_BLOCK 4096

struct arena_block {
	struct arena_block *next;
	size_t cap, used;
	_Alignas(16) unsigned char mem[];
};

void *arena_alloc(struct arena *a, size_t n)
{
	struct arena_block *b = a->head;
	void *p;

	MUST(n < SIZE_MAX / 2);
	n = (n + 15) & ~(size_t)15;
	if (b == NULL || b->cap - b->used < n) {
		size_t cap = n > ARENA_BLOCK - sizeof(*b) ? n : ARENA_BLOCK - sizeof(*b);

		b = must_malloc(sizeof(*b) + cap);
		b->cap = cap;
		b->used = 0;
		b->next = a->head;
		a->head = b;
	}
	p = b->mem + b->used;
	b->used += n;
	a->used += n;
	return p;
}

void *arena_zalloc(struct arena *a, size_t n) { return memset(arena_alloc(a, n), 0, n); }

char *arena_strz(struct arena *a, struct str s)
{
	char *p = arena_alloc(a, s.n + 1);

	if (s.n)
		memcpy(p, s.p, s.n);
	p[s.n] = 0;
	return p;
}

struct str arena_str(struct arena *a, struct str s) { return str_mk(arena_strz(a, s), s.n); }

void arena_reset(struct arena *a)
{
	while (a->head != NULL && a->head->next != NULL) {
		struct arena_block *b = a->head;

		a->head = b->next;
		free(b);
	}
	if (a->head != NULL)
		a->head->used = 0;
	a->used = 0;
}

void arena_move(struct arena *to, struct arena *from)
{
	arena_fini(to);
	*to = *from;
	*from = (struct arena){ 0 };
}

void arena_fini(struct arena *a)
{
	arena_reset(a);
	free(a->head);
	*a = (struct arena){ 0 };
}
