/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_POLICY_DEPS_H
#define SP_POLICY_DEPS_H
/* The files that a policy is read from, for those who wait for a change of any. */
#include "../common/base/err.h"

void deps_note(const char *path); /* also of one that cannot be read: it may be there later */
/* Each once, as it was opened, ended by NUL; onto descriptor fd. */
int deps_write(int fd, struct err *err);
#endif
