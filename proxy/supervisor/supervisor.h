/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_SUPERVISOR_H
#define SP_SUPERVISOR_H
/*
 * The supervisor: starts the roles, keeps one copy of every sandbox's listening sockets (never accepts on them), restarts
 * what dies and wires it up again, and answers the launcher and the CLI on the control socket. It parses no octet from a
 * sandbox, an upstream or a policy: tables are only copied, sealed and handed to a checker that is thrown away.
 *
 *   startup.c     state directory, lock, CA, trust anchors, configuration
 *   supervisor.c  roles and sandboxes
 *   control.c     the control socket
 */
#include <jansson.h>
#include <sys/types.h>

#include "../../common/base/buf.h"
#include "../../common/msg.h"
#include "../../common/sys/child.h"
#include "../../common/sys/ipc.h"

#define SANDBOX_FILES_MAX 32
#define TABLE_MAX (1u << 30)

struct startup { /* what the start found, all of it opened before work begins */
	char state_dir[4096], run_dir[4096];
	int state_fd, run_fd, lock_fd, program_dir_fd;
	int ca_key_fd, ca_cert_fd, audit_dir_fd, chain_key_fd, trust_fd;
	char dns[1024]; /* "ADDRESS PORT\n" each */
	uint32_t uid_base;
	bool as_root, auto_end;
	const char *trust_file;
};
/* 0, or -1 with an error that names the file and what to do. */
int startup_prepare(struct startup *s, const char *state_arg, struct err *err);

struct client;
struct proc {
	enum role role;
	struct supervisor *sup;
	struct child child;
	struct ipc *ipc;       /* NULL: not running */
	struct watch pid_watch;
	struct timer restart;
	uint64_t started_ms;
	uint32_t backoff_ms;
	uint32_t slot;         /* worker: which uid */
	struct sandbox *sandbox; /* worker: whose; NULL: the warm spare */
	bool stopping;
};
struct sandbox_file {
	char *path;
	int fd;
};
struct sandbox {
	struct sandbox *next;
	uint32_t id, generation, flags;
	char name[MSG_NAME_MAX];
	int table_fd, env_fd;
	uint8_t digest[32];
	struct sandbox_file files[SANDBOX_FILES_MAX];
	unsigned file_n;
	int listeners[MSG_LISTENERS_MAX];
	uint8_t kinds[MSG_LISTENERS_MAX];
	unsigned listener_n;
	struct proc *worker;
	unsigned acks;         /* bit per role */
	bool announced, answered, gone;
	struct control_client *owner; /* its connection is the sandbox's life; NULL with keep */
	struct control_client *waiter; /* register is unanswered */
	json_int_t waiter_id;
	/* the checker at work */
	struct proc *checker;
};
struct supervisor {
	struct loop *loop;
	struct startup start;
	struct proc dialer, ca, secrets, audit;
	struct proc *spare;
	struct sandbox *sandboxes;
	uint32_t next_sandbox, next_generation, next_slot;
	struct control *control;
	struct timer idle_end, checker_timeout;
	bool shutting_down, had_sandbox;
	struct timer shutdown_step;
	int exit_status;
};
int supervisor_main(int argc, char **argv);

/* A sandbox whose fields are filled: checks the table, tells the roles, gives it a worker; control_registered follows. */
void supervisor_add(struct supervisor *s, struct sandbox *b);
void supervisor_revoke(struct supervisor *s, struct sandbox *b, const char *why);
void supervisor_shutdown(struct supervisor *s);
struct sandbox *supervisor_find(struct supervisor *s, uint32_t id);
void supervisor_event(struct supervisor *s, struct str sandbox, const char *message);
void sandbox_free(struct sandbox *b);

/* control.c */
struct control *control_new(struct supervisor *s, struct err *err);
void control_stop(struct control *c); /* takes no new callers: the next one finds no gateway and starts its own */
void control_free(struct control *c);
void control_registered(struct sandbox *b, const char *error); /* NULL: in force */
size_t control_clients(const struct control *c);
#endif
