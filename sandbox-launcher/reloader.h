/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_LAUNCH_RELOADER_H
#define SP_LAUNCH_RELOADER_H
/*
 * Hands the gateway a changed policy. A process of its own: forked before root is given up, so that it reads what the caller
 * can read; a compiler that takes its time holds nobody up. It ends with the monitor.
 *
 * What it follows are the files that the policy was read from, none of which may lie in a folder that the sandbox can write:
 * then nothing is followed at all. A policy that cannot be used changes nothing, and is said.
 */
#include "gateway.h"
#include "plan.h"
#include "runpolicy.h"

struct reloader {
	int fd; /* -1 none */
	pid_t pid;
};
/* place: the policy as it was named, an absolute path whose last part may be a link, or NULL: ./sallyport.yaml of the plan's cwd. now: what it is. */
int reloader_start(struct reloader *r, const struct gateway *g, const struct plan *plan, const char *place, const struct runpolicy *now, struct err *err);
void reloader_sandbox(const struct reloader *r, uint32_t sandbox);
void reloader_end(struct reloader *r);
/* `sallyport sandbox reload` */
int reload_main(int argc, char **argv);
#endif
