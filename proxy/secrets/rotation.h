/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_SECRETS_ROTATION_H
#define SP_SECRETS_ROTATION_H
/*
 * Refresh tokens that are exchanged for another one at each use (RFC 6749 6; RFC 9700 4.14). What a source holds is good for the first
 * use only; what followed it is known here, by all sandboxes and generations of their policies, for as long as the role lives, and
 * nowhere else. Who uses one uses it alone: an end-point that sees the same one twice takes it for stolen, and ends them all.
 */
#include "../../common/policy/table.h"
#include "../../common/sys/secret.h"

#define ROTATIONS_MAX 256 /* beyond these the one that was used last the longest time ago is forgotten */

struct rotations;
struct rotation;
struct rotation_use { /* zeroed, in the memory of who asks */
	struct rotation *of; /* NULL: not asked for */
	struct rotation_use *next;
	void (*turn)(struct rotation_use *u);
};
struct rotations *rotations_new(void);
void rotations_free(struct rotations *r);
/* first: what the source holds, for the end-point and the client of d. turn is called when nobody else uses it, perhaps at once. */
void rotation_begin(struct rotations *r, struct rotation_use *u, const struct secret_decl *d, const struct secret *first, void (*turn)(struct rotation_use *u));
const struct secret *rotation_now(const struct rotation_use *u); /* on its turn: what to use; NULL: what the source holds */
/* to, which is zeroed, takes the place of from, whose turn it is. */
void rotation_move(struct rotation_use *from, struct rotation_use *to);
/* Used, or given up; no use at all is fine. next: what takes its place; NULL: nothing does. */
void rotation_end(struct rotation_use *u, const struct secret *next);
#endif
