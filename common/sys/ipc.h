/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_SYS_IPC_H
#define SP_SYS_IPC_H
/*
 * Links between roles: SOCK_SEQPACKET, one message each time: header, payload, descriptors. What may be sent by whom is
 * msg.def; a message that breaks a row ends the link (fail closed), and so does a queue over its limit.
 */
#include "../msg.h"
#include <stddef.h>

#include "loop.h"

#define IPC_FDS_MAX 14
#define IPC_PAYLOAD_MAX 49152
struct ipc_msg {
	uint16_t type;
	uint32_t generation;
	uint64_t id;         /* pairs an answer with its question; 0 otherwise */
	const uint8_t *data; /* valid during the callback */
	size_t len;
	int fds[IPC_FDS_MAX]; /* owned by the receiver of the callback: set to -1 what is kept; the rest is closed */
	unsigned fd_n;
};
struct ipc;
/* m == NULL: the link is dead (peer closed, or broke a rule; the socket is closed already; ipc_free is still due). */
typedef void ipc_fn(struct ipc *c, const struct ipc_msg *m);

/* Takes fd. self/peer: the roles at both ends (rules are checked in both directions). arg: the owner's. */
struct ipc *ipc_new(struct loop *l, int fd, enum role self, enum role peer, ipc_fn *fn, void *arg);
/*
 * Before a link is made of fd: where the peer sends no descriptors by msg.def, the kernel takes none (Linux 6.16). They would be
 * closed here, and the last close of a socket that lingers waits for as long as who sent it said.
 */
void ipc_bar_fds(int fd, enum role self, enum role peer);
void ipc_free(struct ipc *c); /* closes; safe from within its own callback */
void *ipc_arg(const struct ipc *c);
enum role ipc_peer(const struct ipc *c);
/* Sends or queues; descriptors are duplicated by the kernel, the caller keeps its own. False: the link is dead or its
 * queue (256 messages, of the supervisor 16,384) full. Asserts that msg.def allows it. */
bool ipc_send(struct ipc *c, enum msg_type type, uint32_t generation, uint64_t id, const void *p, size_t n, const int *fds, unsigned fd_n);
/* As ipc_send with payload in two parts (struct, then bytes). */
bool ipc_send2(struct ipc *c, enum msg_type type, uint32_t generation, uint64_t id, const void *p, size_t n, const void *p2, size_t n2, const int *fds, unsigned fd_n);
/* Handles what has already arrived, without waiting and within bounds; used before a link is given up. */
void ipc_pump(struct ipc *c);
/* Within its callback: the message breaks a rule that msg.def cannot say. The link ends behind it. */
void ipc_reject(struct ipc *c);
bool ipc_dead(const struct ipc *c);
bool ipc_deaf(const struct ipc *c); /* nothing can be sent any more: dead, or the peer is gone and its last words are still to be read */
/* While paused nothing is read (a peer that died is still noticed, with all that it had sent): back-pressure for those who answer. */
void ipc_pause(struct ipc *c, bool paused);
size_t ipc_queued(const struct ipc *c);

/*
 * For a role that does one thing and has no loop: waits for the next message, whose descriptors are then the caller's; its data is
 * valid until the next call. False: the link has ended, or what came breaks a row (nothing is left of it).
 */
bool ipc_wait(int fd, enum role self, enum role peer, struct ipc_msg *m);
/* Waits until it is sent. False: the link has ended. */
bool ipc_say(int fd, enum role self, enum role peer, enum msg_type type, const void *p, size_t n);
#endif
