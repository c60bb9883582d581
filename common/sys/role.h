/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_SYS_ROLE_H
#define SP_SYS_ROLE_H
#include "ipc.h"
/* Confines this process as role r (see confine.h) and tells the supervisor that it is ready. Ends the process if a door does not shut. */
void role_ready(struct ipc *supervisor, enum role r, int dir_fd);
#endif
