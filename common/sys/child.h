/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_SYS_CHILD_H
#define SP_SYS_CHILD_H
/* Starting a role: exec with an empty environment in the namespaces of its row, link at descriptor 3, nothing else inherited but stderr. */
#include <sys/types.h>

#include "../base/err.h"
#include "../msg.h"

#define ROLE_LINK_FD 3
#define CHILD_EXTRA_MAX 1
struct child {
	pid_t pid;
	int pidfd; /* readable when it has ended */
	int link_fd; /* our end; the caller wraps it with ipc_new */
};
/* program_dir_fd: where the gateway's programs stand. uid: the role's own when started as root, else ignored. extra: a descriptor at 4, for tests: what a role works with comes over its link. */
int child_spawn(enum role r, int program_dir_fd, uid_t uid, const int *extra, unsigned extra_n, struct child *out, struct err *err);
#endif
