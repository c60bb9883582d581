/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_POLICY_TRIE_H
#define SP_POLICY_TRIE_H
/* Rules of one destination as two tries over path segments, in the order and layout of format.h. */
#include "model.h"

/* A ref in a destination's texts: the offset is from the start of the texts until the value is put together. */
struct trie_ref {
	uint32_t off, n;
};
struct trie_slot {
	uint32_t hash, child;
	struct trie_ref segment;
};
struct trie_part {
	struct trie_ref pattern;
	uint32_t child;
};
struct trie_node {
	struct trie_slot *slots;
	uint32_t slot_n, used; /* slot_n: a power of two, or 0 */
	struct trie_part *parts;
	uint32_t part_n;
	uint32_t *accepts;
	uint32_t accept_n;
	uint32_t star, double_star;
};
struct trie {
	struct trie_node *nodes;
	uint32_t n, cap;
	struct buf *texts;
};
void trie_init(struct trie *t, struct buf *texts);
void trie_fini(struct trie *t);
void trie_add(struct trie *t, const struct pol_rule *r, uint32_t number);
#endif
