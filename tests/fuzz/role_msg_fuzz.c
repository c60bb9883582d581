/* SPDX-License-Identifier: Apache-2.0 */
/* A message between roles: any octets on any link end it or are a row of msg.def; no descriptor is left behind. */
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/sys/ipc.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void on_msg(struct ipc *c, const struct ipc_msg *m)
{
	const struct msg_rule *r;

	if (m == NULL)
		return;
	r = &msg_rules[m->type];
	if (m->type == MSG_NONE || m->type >= MSG_COUNT || m->len < r->min || m->len > r->max || m->fd_n > r->fds || (r->sender != ROLE_ANY && r->sender != ipc_peer(c)))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct loop *l;
	struct ipc *c;
	int sv[2];

	if (n < 2 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sv) != 0)
		return 0;
	l = loop_new();
	c = ipc_new(l, sv[0], ROLE_SUPERVISOR + p[0] % (ROLE_ANY - ROLE_SUPERVISOR), ROLE_SUPERVISOR + p[1] % (ROLE_ANY - ROLE_SUPERVISOR), on_msg, NULL);
	if (send(sv[1], p + 2, n - 2, 0) < 0) {
		/* too large for a socket: nothing to test */
	}
	loop_turn(l, 0);
	ipc_free(c);
	loop_turn(l, 0);
	close(sv[1]);
	loop_free(l);
	return 0;
}
