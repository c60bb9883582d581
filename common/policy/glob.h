/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_POLICY_GLOB_H
#define SP_POLICY_GLOB_H
/*
 * One segment against one pattern of it: `*` is any run of characters, also none. fold: ASCII case is ignored. Time is
 * bounded by the product of the lengths.
 */
#include "../base/str.h"

bool glob_segment(struct str pattern, struct str segment, bool fold);
/* The same for any text, which may have stars of its own: in the pattern GLOB_STAR is the wildcard, and nothing else is. */
#define GLOB_STAR '\1'
bool glob_text(struct str pattern, struct str text, bool fold);
#endif
