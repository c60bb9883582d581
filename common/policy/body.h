/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_POLICY_BODY_H
#define SP_POLICY_BODY_H
/*
 * Conditions on content: what of it must be there before anything is asked of the origin, and whether it fits. The content
 * is read as a whole and strictly (duplicate keys, keys that differ in case alone, another type or coding: unreadable);
 * what is unreadable fits no allow rule and every deny rule, and each operation of a batch counts. No I/O.
 */
#include "cond.h"

#define BODY_HELD_MAX 65536u /* octets of content that conditions look at */
#define BODY_DEPTH_MAX 64    /* of nested values */

/* c: stands at the kind, behind it afterwards. COND_CONTENT: f->content is not there, and it matters. */
enum cond_result body_fits(struct cursor *c, bool deny, const struct facts *f);

/* How much content a decision wants to see. */
enum body_need { BODY_NEED_NOTHING = 0, BODY_NEED_FIRST /* octet, or the end: whether there is any */, BODY_NEED_COMMANDS /* of a push: up to the flush packet */, BODY_NEED_ALL };
enum body_need body_need(struct str cond);
/* Whether what is there is enough of it; the end of the content always is. */
bool body_enough(enum body_need need, struct str so_far);
#endif
