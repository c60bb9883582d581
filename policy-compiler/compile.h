/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_POLICY_COMPILE_H
#define SP_POLICY_COMPILE_H
#include <stdio.h>

#include "../common/base/err.h"

/* Reads, checks and compiles one policy; its messages go to `errors`. 0, or -1 + err when there is no table. */
int policy_compile_file(const char *path, const char *out, FILE *errors, struct err *err);
#endif
