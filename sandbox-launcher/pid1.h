/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_LAUNCH_PID1_H
#define SP_LAUNCH_PID1_H
/* What runs inside the new namespaces: set-up, then pid 1 (reaps, forwards signals), whose only child of ours is the command. */
#include <signal.h>
#include <stddef.h>

#include "plan.h"

struct pid1 {
	const struct plan *plan;
	int link_fd;          /* to the monitor */
	int life_fd;          /* the sweeper's; -1 none. Held until we die, never used */
	sigset_t mask;        /* the caller's, for the command */
	char *args;           /* the launcher's own command line: /proc/1/cmdline inside, so it is blanked */
	size_t args_len;
};
_Noreturn void pid1_main(const struct pid1 *c);
#endif
