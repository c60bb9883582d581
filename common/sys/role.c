/* SPDX-License-Identifier: Apache-2.0 */
#include "role.h"

#include <unistd.h>

#include "confine.h"
#include "log.h"

void role_ready(struct ipc *supervisor, enum role r, int dir_fd)
{
	struct confine c = { .dir_fd = dir_fd };
	struct err err = ERR_INIT;

	if (confine_role(r, &c, &err) < 0) {
		log_error("cannot confine itself: %s", err.text);
		_exit(1);
	}
	ipc_send(supervisor, MSG_READY, 0, 0, NULL, 0, NULL, 0);
}
