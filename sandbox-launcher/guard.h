/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_LAUNCH_GUARD_H
#define SP_LAUNCH_GUARD_H
/*
 * Names in writable folders that the host's own tools would obey later (.git/hooks, .envrc, policy files ...), and secrets'
 * places inside them: read-only or covered inside; names that do not exist cannot be created.
 */
#include <termios.h>

#include "plan.h"

#define GUARD_NAMES_MAX 512
struct guard_name { /* watched for the report at the end */
	const char *path;    /* absolute */
	int dir_fd;          /* of the share */
	const char *rel;
	uint64_t before;     /* what it was: a digest of its metadata */
	bool placeholder;
};
struct guard {
	struct guard_name names[GUARD_NAMES_MAX];
	unsigned n;
	int held[GUARD_NAMES_MAX];   /* placeholders, locked shared */
	unsigned held_n;             /* parallel to held_name */
	unsigned held_name[GUARD_NAMES_MAX];
	int git_fd[PLAN_PATHS_MAX];  /* .git directories in which a "commondir" must not appear */
	bool git_had[PLAN_PATHS_MAX][2];
	unsigned git_n;
	int life_fd;                 /* kept open by whoever must be dead before the sweeper works; -1 none */
	int done_fd;                 /* the sweeper says here that it is done; -1 none */
	pid_t sweeper;
	bool tty;                    /* standard input is a terminal whose modes the sweeper restores */
	struct termios modes;
};

/* After plan_view and plan_drop. Adds SELF, PROTECT and HIDE operations to the plan, makes placeholders. */
int guard_prepare(struct guard *g, struct plan *p, const struct plan_wish *w, const struct plan_secrets *s, struct err *err);
/*
 * Starts the sweeper: it takes the placeholders away when life_fd's last copy is closed, also when we were killed. tty:
 * standard input is a terminal that the launcher is going to put into raw mode.
 */
int guard_start(struct guard *g, bool tty, struct err *err);
/* The sandbox is dead. Waits for the sweeper and names what changed under protected names. */
void guard_finish(struct guard *g);
#endif
