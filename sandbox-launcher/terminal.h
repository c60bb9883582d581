/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_LAUNCH_TERMINAL_H
#define SP_LAUNCH_TERMINAL_H
/*
 * The caller's terminal stays outside: the command gets one of its own, and octets are relayed. So it has job control and
 * Ctrl-C, and can neither type into the caller's terminal nor leave it in a strange mode.
 */
#include <poll.h>
#include <stdbool.h>
#include <termios.h>

#define TERMINAL_BUFFER 8192
struct terminal {
	int master, slave;    /* the slave is kept open: the command may close it for a while and open it again */
	bool raw;             /* the caller's terminal is in raw mode now */
	bool input_ended, output_ended;
	struct termios saved;
	char in[TERMINAL_BUFFER];
	unsigned in_at, in_n; /* typed, not yet taken by the sandbox */
};
void terminal_start(struct terminal *t, int master, int slave);
/* After SIGCONT, or when we may have come to the foreground. */
void terminal_foreground(struct terminal *t);
void terminal_size(const struct terminal *t);
/* fds[0] the caller's side, fds[1] the master. */
void terminal_poll(const struct terminal *t, struct pollfd fds[2]);
void terminal_turn(struct terminal *t, const struct pollfd fds[2]);
/* The command has ended: what it wrote last, and the caller's mode back. */
void terminal_end(struct terminal *t);
#endif
