/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_POLICY_GLOB_H
#define SP_POLICY_GLOB_H
/*
 * Path patterns against canonical paths (match form on both sides). `*` alone is one non-empty segment, within a segment
 * any run of its characters; `**` as a whole segment is any number of segments, at the end also the empty one:
 * "/a/[**]" is "/a/" and everything below, not "/a". Time is bounded by pattern length times path length.
 */
#include "../base/str.h"

bool glob_path(struct str pattern, struct str path);
/* In a deny, doubt counts as a match: a trailing "/[*]" or "/[**]" also covers the parent, and trailing slashes,
 * ;parameters and ASCII case are ignored. */
bool glob_path_deny(struct str pattern, struct str path);
/* One segment. */
bool glob_segment(struct str pattern, struct str segment, bool fold);
#endif
