/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_SYS_CONFINE_H
#define SP_SYS_CONFINE_H
/*
 * How a role shuts the doors behind itself, before the first hostile octet. Called once by the role, after it has warmed
 * up what loads lazily and before READY.
 */
#include "../base/err.h"
#include "../msg.h"

struct confine {
	int dir_fd;   /* audit: the one directory it may use (Landlock); -1 none */
};
/*
 * Empty root (in its own mount namespace), no capability, no_new_privs, undumpable, core size 0, Landlock, and the
 * role's row of syscalls.def as a seccomp allow list (kill on anything else; the sanitizer's calls are added in such
 * builds). Every step must succeed: 0, or -1 and *err, and the role ends.
 */
int confine_role(enum role r, const struct confine *c, struct err *err);
#endif
