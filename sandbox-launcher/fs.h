/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_LAUNCH_FS_H
#define SP_LAUNCH_FS_H
/* Executes the file view of a plan in a fresh mount namespace of a fresh user namespace, and moves into it. */
#include "plan.h"

struct fs_report {
	bool overlay;      /* every system directory lies below an overlay; false: some are read-only bind mounts */
	char missing[128]; /* the first one that does not */
};
int fs_enter(const struct plan *p, struct fs_report *rep, struct err *err);
/* /dev/ptmx of the new devpts; call after fs_enter. Returns the terminal's master, *slave its other end; -1. */
int fs_terminal(int *slave, struct err *err);
#endif
