/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_LAUNCH_LINK_H
#define SP_LAUNCH_LINK_H
/* Between the monitor (outside) and pid 1 (inside): a SOCK_SEQPACKET pair. Its end is the other side's death. */
#include <stdint.h>

#include "../common/base/err.h"

enum note_type {
	NOTE_NONE = 0,
	/* to pid 1 */
	NOTE_MAPPED,  /* the user namespace's maps are written */
	NOTE_GO,      /* registered: the command may start; descriptor: variables (environ_take), if there are any */
	NOTE_SIGNAL,  /* a: signal; b: 1 to the whole process group, 0 to the command itself */
	/* from pid 1 */
	NOTE_NETWORK, /* a: every address is caught; b: which sockets there are, a bit each; descriptors: those */
	NOTE_VIEW,    /* a: all overlays; text: the first directory without; descriptors: the terminal's master and slave, if wanted */
	NOTE_STARTED, /* the command is about to be executed; a: Landlock is in force */
	NOTE_ERROR,   /* a: exit status; text */
	NOTE_EXITED,  /* a: wait status of the command */
	/* between the monitor and the connector */
	NOTE_CONNECT,
	NOTE_CONNECTED, /* a: 1 with the control connection as descriptor, 0 there is no gateway */
	/* from the monitor to the reloader */
	NOTE_SANDBOX,   /* a: its number at the gateway, from now on */
};
struct note {
	uint32_t type;
	int32_t a, b;
	char text[500];
};
#define LINK_FDS_MAX 8
int link_send(int fd, enum note_type type, int a, int b, const char *text, const int *fds, unsigned fd_n);
/* 1 got one, 0 the other side is gone, -1 error. fds: what came with it, *fd_n many; the caller owns them. */
int link_recv(int fd, struct note *n, int fds[LINK_FDS_MAX], unsigned *fd_n);
/* Closes every descriptor from `from` on but these (sorts the array). */
void link_close_except(unsigned from, int *keep, unsigned n);
#endif
