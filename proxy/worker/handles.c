/* SPDX-License-Identifier: Apache-2.0 */
/* Objects named by index, generation and kind: what asked, and may be gone when the answer comes. */
#include "../../common/base/must.h"
#include "worker.h"

uint64_t handle_new(struct handles *h, enum handle_kind kind, void *obj)
{
	uint32_t i;

	if (h->free != 0) {
		i = h->free - 1;
		h->free = h->s[i].next;
	} else {
		if (h->n == h->cap) {
			h->cap = h->cap ? h->cap * 2 : 64;
			h->s = must_realloc(h->s, h->cap * sizeof(*h->s));
		}
		i = h->n++;
		h->s[i].gen = 0;
	}
	h->s[i].obj = obj;
	h->s[i].kind = kind;
	h->s[i].gen++; /* never 0: an id is never 0 */
	return (uint64_t)h->s[i].gen << 32 | i;
}

static bool handle_is(const struct handles *h, uint64_t id) { return (uint32_t)id < h->n && h->s[(uint32_t)id].gen == (uint32_t)(id >> 32) && h->s[(uint32_t)id].obj != NULL; }

void *handle_get(const struct handles *h, enum handle_kind kind, uint64_t id) { return handle_is(h, id) && h->s[(uint32_t)id].kind == kind ? h->s[(uint32_t)id].obj : NULL; }

void handle_free(struct handles *h, uint64_t id)
{
	uint32_t i = (uint32_t)id;

	if (!handle_is(h, id))
		return;
	h->s[i].obj = NULL;
	h->s[i].next = h->free;
	h->free = i + 1;
}
