/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_POLICY_TEXTS_H
#define SP_POLICY_TEXTS_H
/*
 * Texts that tell patterns apart: for each set of patterns that one text can match, with no other matching it, a shortest
 * such text. All patterns are walked at once, character by character.
 */
#include <stdint.h>

#include "../common/base/arena.h"

#define TEXTS_MAX 512u

struct text_pattern {
	struct str s;
	char wild;    /* the character that stands for any run of others, also none */
	bool fold;    /* ASCII case is ignored */
	bool segment; /* of a path: %XX is one character; with fold also without `;parameters` on either side */
};
struct texts {
	struct str t[TEXTS_MAX];
	unsigned n;
	bool cut; /* there were more than are walked */
};
/* The empty text is among them if it stands for a set of its own. */
void texts_apart(struct arena *a, const struct text_pattern *p, unsigned n, struct texts *out);
uint64_t texts_hash(const uint64_t *bits, unsigned words); /* of a set of positions */
void texts_add(struct texts *ts, struct str s); /* unless it is there */
#endif
