/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_POLICY_TRY_H
#define SP_POLICY_TRY_H
/* The tests of a policy, run; and how it is told. */
#include <stdio.h>

#include "model.h"

enum try_form { TRY_TAP = 0, TRY_JUNIT, TRY_FAILURES /* one line each, as errors of the file */ };
/* How many failed, or -1 + err: a fault of ours. */
int try_policy(struct policy *p, const char *file, enum try_form form, FILE *out, struct err *err);
#endif
