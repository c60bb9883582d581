/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_LAUNCH_SOCKETS_H
#define SP_LAUNCH_SOCKETS_H
/* Unix sockets of the host that live below something the view shows. */
#include "plan.h"

/* Fills p->sockets. With the caller's rights, once the view's shares are known. 0 or -1: too many to mask. */
int sockets_find(struct plan *p, struct err *err);
#endif
