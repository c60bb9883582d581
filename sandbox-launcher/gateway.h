/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_LAUNCH_GATEWAY_H
#define SP_LAUNCH_GATEWAY_H
/* The launcher's side of the control socket: where it is, starting a gateway behind it, registering a sandbox. */
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "../common/base/arena.h"
#include "../common/base/buf.h"
#include "../common/base/err.h"
#include "netns.h"

struct gateway {
	char state_dir[PATH_MAX]; /* absolute; "" when only a socket was named and it is not in a state directory */
	char run_dir[PATH_MAX];
	char program_dir[PATH_MAX];
	bool explicit_state;      /* named by --state or SALLYPORT_STATE */
	bool may_start;           /* false with --gateway: that one is somebody else's to start */
	char socket_name[NAME_MAX + 1];
	int fd;                   /* the control connection: its life is the sandbox's life; -1 */
};
#define GATEWAY_FILES_MAX 32
struct gateway_register {
	struct arena mem;         /* of names that came later */
	const char *name;
	int table_fd, env_fd;     /* env_fd -1: none */
	int boundary_fd;          /* -1: none */
	bool explain_denials, observe;
	struct { const char *path; int dir_fd; bool follow; } files[GATEWAY_FILES_MAX];
	unsigned file_n;
	const char *vault_address, *vault_namespace; /* the caller's own Vault; NULL: none. Its token is in env */
	int vault_ca_fd;          /* -1: none */
	int sockets[NETNS_SOCKETS];
	pid_t pid;                /* 1 inside */
};

/* Finds the places; makes nothing. state, socket: options or NULL. */
int gateway_locate(struct gateway *g, const char *state, const char *socket, struct err *err);
/* Makes the state directory (mode 0700), refuses one that others could write. */
int gateway_make_state(const struct gateway *g, struct err *err);
/* Connects and says hello; starts a gateway first if there is none and may_start. */
int gateway_connect(struct gateway *g, struct err *err);
/* Connects only, quickly. */
int gateway_reconnect(struct gateway *g, struct err *err);
/*
 * *again: the gateway went away meanwhile (it ends after its last sandbox): connect once more. *placeholders (or NULL): what
 * stands for the policy's secrets is appended, as in common/placeholder.h.
 */
int gateway_register(struct gateway *g, const struct gateway_register *r, uint32_t *sandbox, struct buf *placeholders, bool *again, struct err *err);
/*
 * Another policy for a sandbox that runs: by number, or (0) by name. Variables stay the ones it has. failed: there is none,
 * and the gateway records why. *again: the gateway is gone, or busy with another one.
 */
int gateway_reload(struct gateway *g, const struct gateway_register *r, uint32_t sandbox, const char *failed, uint32_t *generation, bool *again, struct err *err);
/* What the gateway says unasked on the connection of a sandbox: r is kept what is in force there; *stop: it is to end. False: the gateway is gone. */
bool gateway_event(struct gateway *g, struct gateway_register *r, bool *stop);
/* The end of a sandbox. *requests, *refused: -1 when the gateway does not count. */
void gateway_finish(struct gateway *g, uint32_t sandbox, int64_t *requests, int64_t *refused);
int gateway_stop(struct gateway *g, struct err *err);
void gateway_close(struct gateway *g);
#endif
