/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_SYS_CONFINE_H
#define SP_SYS_CONFINE_H
/*
 * How a role shuts the doors behind itself, before the first hostile octet. Called once by the role, after it has warmed
 * up what loads lazily and before READY.
 */
#include <stdbool.h>

#include "../base/err.h"
#include "../msg.h"

struct confine {
	int dir_fd;   /* audit: the one directory it may use (Landlock); -1 none */
};
/*
 * Empty root (in its own mount namespace), no capability, no_new_privs, undumpable, core size 0, Landlock, and the
 * role's row of syscalls.def as a seccomp allow list (kill on anything else; the sanitizer's calls are added in such
 * builds). Every step must succeed: 0, or -1 and *err, and the role ends. The one exception is a kernel without
 * Landlock: the other walls hold without it, and it is said once on the diagnostic log.
 */
int confine_role(enum role r, const struct confine *c, struct err *err);

/*
 * The supervisor's own walls. It starts processes all its life, and they inherit its filter before they load their own,
 * so this one lists what neither it nor a starting role has a use for (the DENY rows of syscalls.def; kill). As root it
 * also gives up every capability but SETUID, SETGID, KILL and SYS_ADMIN. Supplementary groups are dropped first by
 * confine_drop_groups: a process in a user namespace of its own could not do it any more.
 */
int confine_supervisor(bool as_root, struct err *err);
int confine_drop_groups(struct err *err); /* as root; otherwise nothing to do */
#endif
