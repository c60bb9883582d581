/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_LAUNCH_CONNECTOR_H
#define SP_LAUNCH_CONNECTOR_H
/*
 * Root's control socket is root's: a monitor that has given root up cannot connect to it again when a gateway returns. A
 * process forked before that does it, on a word from the monitor, and nothing else; it ends with the monitor.
 */
#include <sys/types.h>

#include "gateway.h"

struct connector {
	int fd; /* -1 none */
	pid_t pid;
};
int connector_start(struct connector *c, const struct gateway *g, struct err *err);
/* A control connection that was greeted, or -1. */
int connector_ask(const struct connector *c);
void connector_end(struct connector *c);
#endif
