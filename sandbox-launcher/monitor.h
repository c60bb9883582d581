/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_LAUNCH_MONITOR_H
#define SP_LAUNCH_MONITOR_H
/* The outside half of a running sandbox: signals, terminal, time limit, loss of the gateway, exit status. */
#include <signal.h>
#include <sys/types.h>

#include "connector.h"
#include "gateway.h"
#include "plan.h"
#include "reloader.h"

struct monitor {
	const struct plan *plan;
	struct gateway *gateway;
	struct connector *connector; /* asked for a new connection when we were root; fd -1: we connect ourselves */
	struct reloader *reloader; /* told which number the sandbox has there; fd -1: none */
	struct gateway_register *registered; /* to register again when a gateway returns */
	uint32_t *sandbox;
	pid_t pid;            /* 1 inside */
	int pidfd, link_fd;
	int terminal, terminal_slave; /* -1 none */
	int sockets[NETNS_SOCKETS]; /* our copies, never accepted on; -1: no such socket */
	sigset_t mask;        /* the caller's; ours is monitor_block's */
};
struct monitor_end {
	int status;           /* exit status of `run` */
	const char *reason;   /* "exit", "signal", "timeout", "gateway_lost", "killed" */
};
/* Before the clone: the signals that are passed on are blocked from here. */
void monitor_block(sigset_t *old);
/* Until pid 1 is dead and reaped. */
void monitor_run(struct monitor *m, struct monitor_end *end);
#endif
