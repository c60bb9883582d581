/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_ARENA_H
#define SP_ARENA_H
#include <stddef.h>

#include "str.h"

/*
 * An arena per request or per parsed file: everything in it dies together. Zero-initialised = empty. Nothing outside
 * keeps a pointer into it after arena_fini/arena_reset.
 */
struct arena_block;
struct arena {
	struct arena_block *head;
	size_t used; /* bytes handed out since the last reset: what limits compare with */
};
void *arena_alloc(struct arena *a, size_t n);  /* 16-byte aligned, not zeroed; never NULL */
void *arena_zalloc(struct arena *a, size_t n);
char *arena_strz(struct arena *a, struct str s); /* NUL-terminated copy */
struct str arena_str(struct arena *a, struct str s); /* copy */
void arena_reset(struct arena *a); /* keeps the first block for reuse */
void arena_fini(struct arena *a);
void arena_move(struct arena *to, struct arena *from); /* all that is in from; what to had is freed, from is empty afterwards */
#endif
