/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_POLICY_FMT_H
#define SP_POLICY_FMT_H
/*
 * The canonical layout of a policy: two columns a level, items of lists below their key, one blank line at most, nothing
 * behind the end of a line; ANY for `*` and `|` for `,` between methods. Comments, quotes and the choice between one line
 * and several stay as they are. What comes out is read again and must say the same.
 */
#include "../common/conf/diag.h"

/* 0, or -1: the text is not YAML (in d), or it could not be laid out without changing what it says (in d too). */
int fmt_policy(struct str text, struct buf *out, struct diag *d);
#endif
