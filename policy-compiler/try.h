/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_POLICY_TRY_H
#define SP_POLICY_TRY_H
/* The tests of a policy, run; and how it is told. */
#include <stdio.h>

#include "model.h"

enum try_form { TRY_TAP = 0, TRY_JUNIT, TRY_FAILURES /* one line each, as errors of the file */ };
/*
 * Its own tests, and those of each file that it extends, asked of that file by itself (what builds on it may say more). One that is
 * no policy by itself (it injects a secret that another defines, say) has its tests left out, and that is said.
 * How many failed, or -1 + err: a fault of ours.
 */
int try_policy(const struct policy *p, const char *file, enum try_form form, FILE *out, struct err *err);
#endif
