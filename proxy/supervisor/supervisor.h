/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_SUPERVISOR_H
#define SP_SUPERVISOR_H
/*
 * The supervisor: starts the roles, keeps one copy of every sandbox's listening sockets (never accepts on them), restarts
 * what dies and wires it up again, and answers the launcher and the CLI on the control socket. It parses no octet from a
 * sandbox, an upstream or a policy: tables are only copied, sealed and handed to a checker that is thrown away.
 *
 *   startup.c     state directory, lock, CA, trust anchors
 *   config.c      gateway.yaml
 *   looks.c       files that secrets asks for
 *   programs.c    programs that policies have run
 *   secret_ops.c  secret check, revoke, forget
 *   procs.c       processes: start, what each is told, restart
 *   sandboxes.c   sandboxes: their worker, their end
 *   generations.c their policies: check, replacement, retirement
 *   folders.c     policies by name
 *   callers.c     who may do what on the control socket
 *   closer.c      descriptors of callers, closed apart
 *   control.c     the control socket
 *   supervisor.c  the command, lifecycle records, the orderly end
 */
#include <jansson.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "../../common/policy/sources.h"
#include "../../common/base/buf.h"
#include "../../common/msg.h"
#include "../../common/policy/signature.h"
#include "../../common/sys/child.h"
#include "../../common/sys/ipc.h"

#define SANDBOX_FILES_MAX 32
#define SANDBOXES_MAX 4000 /* each worker has a user of its own: uid_base + 100 and up */
#define TABLE_MAX (1u << 30)
#define UID_BASE_DEFAULT 61000
#define DNS_TEXT_MAX 1024
#define SIGNERS_MAX 64
#define FOLDERS_MAX 16
#define FOLDER_IDS_MAX 64

struct source_rules { /* what secrets may come from: common/policy/sources.h; "{policy}" stands for its name in the folder */
	char text[SOURCES_TEXT_MAX];
	size_t n;
};
struct folder { /* of tables */
	char path[4096];
	int fd;
	struct source_rules sources;
	char boundary[4096];   /* that none of its policies can exceed; empty: none */
	int boundary_fd;       /* compiled and sealed; -1: none */
	bool named;            /* `users` or `groups` is written: nobody else, but for administrators */
	uint32_t users[FOLDER_IDS_MAX], groups[FOLDER_IDS_MAX];
	unsigned user_n, group_n;
	uint32_t line;         /* of gateway.yaml */
};
struct caller { /* of the control socket, as the kernel says: callers.c */
	uid_t uid;
	bool admin;       /* the gateway's own user, root, and who else may do everything */
	uint32_t folders; /* bit per folder: whose policies it may use */
};
struct config { /* gateway.yaml */
	char dns[DNS_TEXT_MAX]; /* "ADDRESS PORT\n" each; empty: the system's */
	char trust[4096];       /* PEM file; empty: the system's */
	char proxy[300];        /* "via HOST PORT gateway|proxy plain|tls\n": everything goes by that one; empty: directly */
	char proxy_credentials[4096]; /* file; empty: none */
	bool proxy_tls;
	char proxy_ca[4096];          /* file; empty: the trust anchors of upstreams */
	uint32_t uid_base;
	char boundary[4096];    /* a policy, or a table, that no other can exceed; empty: none */
	bool observe;           /* policies may observe */
	bool no_ipv6;           /* towards destinations */
	uint8_t signers[SIGNERS_MAX][SIGNATURE_KEY_LEN]; /* require_signed; none: whoever brings a policy */
	unsigned signer_n;
	struct folder folders[FOLDERS_MAX];
	unsigned folder_n;
	bool has_admins, has_callers; /* there are groups of these names on this system, and we are root */
	uint32_t admins, callers;     /* sallyport-admin, sallyport */
	struct source_rules sources; /* of policies that a caller brings */
	char programs[4000]; /* that policies may have run, PATH\0...: `sources: { exec }` */
	size_t programs_n;
	struct config_vault {
		char text[8000]; /* NAME=value\0..., for secrets; n 0: no Vault */
		size_t n;
		char urls[4000]; /* a line each, for the dialer */
		char ca[4096];   /* PEM file; empty: the gateway's trust anchors */
	} vault;
};
/* file NULL: the default place, where absence is no error. Errors name file, line and column. */
int config_load(struct config *c, const char *file, bool as_root, struct err *err);
/* "ADDRESS", "ADDRESS:PORT" or "[ADDRESS]:PORT", appended to dns as "ADDRESS PORT\n"; false if it is none of these or there is no room. */
bool config_add_dns(char dns[DNS_TEXT_MAX], struct str text);

struct ca_files { /* one CA, by descriptor: cas.c */
	struct ca_files *older;
	uint16_t number;
	int key_fd, cert_fd;
	dev_t dev; /* of the key: whether it is still the one that lies there */
	ino_t ino;
};
struct startup { /* what the start found, all of it opened before work begins */
	char state_dir[4096], run_dir[4096];
	int state_fd, run_fd, lock_fd, program_dir_fd;
	int audit_dir_fd, chain_key_fd, placeholder_key_fd, trust_fd, accessors_fd, vault_ca_fd, programs_fd; /* the last three: -1 without Vault, without programs */
	int proxy_ca_fd; /* -1: none of its own */
	char credentials[4096]; /* $CREDENTIALS_DIRECTORY, or empty */
	int boundary_fd; /* config.boundary, compiled; -1: none */
	struct ca_files *cas; /* newest first; one at least */
	struct config config;
	bool as_root, auto_end;
	bool system_dns; /* config.dns is what the system says */
};
/* 0, or -1 with an error that names the file and what to do. s->config, as_root and auto_end are filled. audit_uid: who owns the log, as root. */
int startup_prepare(struct startup *s, const char *state_arg, uid_t audit_uid, struct err *err);

/* The file that holds them, or -1: it cannot be opened, or others may read it. */
int startup_open_credentials(const struct startup *s, struct err *err);
/* Only where they are: state_dir and run_dir are filled. */
int startup_dirs(struct startup *s, const char *state_arg, struct err *err);
/* Reads the system's name servers again. True: they are others now. */
bool startup_dns_changed(struct startup *s);

enum proc_state { PROC_DOWN = 0, PROC_STARTING /* not confined yet */, PROC_READY, PROC_STOPPING };
struct proc {
	enum role role;
	enum proc_state state;
	struct supervisor *sup;
	struct child child;      /* pid 0: none */
	struct ipc *ipc;         /* NULL: cannot be told anything */
	struct watch pid_watch;
	struct timer timer;      /* DOWN: the restart; STARTING: too late to be ready; STOPPING: the kill */
	struct timer tell;       /* sandboxes are still to be told */
	uint64_t started_ms;
	uint32_t backoff_ms;
	uint32_t slot;           /* worker: which user */
	bool restarted, synced;
	struct sandbox *sandbox; /* worker: whose; NULL: the warm spare */
};
struct sandbox_file {
	char *path; /* absolute, or credential:NAME */
	int fd, dir_fd; /* -1: not given. dir_fd: the folder that it is looked for in, each time anew */
	bool follow;
};
#define GENERATION_DIGEST_LEN 32
enum generation_state { GENERATION_CHECKING = 0, GENERATION_TELLING, GENERATION_SWITCHING, GENERATION_IN_FORCE, GENERATION_OLD };
struct generation { /* generations.c */
	struct generation *newer;
	struct sandbox *sandbox;
	enum generation_state state;
	uint32_t number, flags; /* SANDBOX_EXPLAIN_DENIALS */
	int table_fd, env_fd;
	int narrow_fd; /* a policy of its caller's, which narrows the installed one; -1: none */
	uint8_t digest[GENERATION_DIGEST_LEN];
	struct sandbox_file files[SANDBOX_FILES_MAX];
	unsigned file_n;
	char *vault_url;  /* its caller's own Vault; NULL: none */
	struct buf vault; /* NAME=value\0..., for secrets */
	int vault_ca_fd;
	unsigned told, acks; /* bit per role: was sent it; has it in force */
	char policy[MSG_NAME_MAX]; /* its name in the policy folders; "": it was brought */
	struct stat seen;          /* of that file */
	const struct folder *folder; /* where it was found; NULL: it was brought */
	struct timer late;
};
struct sandbox {
	struct sandbox *next;
	struct supervisor *sup;
	uint32_t id, flags; /* which CA; whether its policy may observe */
	int boundary_fd;    /* sealed; -1: none. Of all its generations */
	int meter_fd;       /* counters of its limits, which its workers hand on: meter.h */
	char name[MSG_NAME_MAX];
	struct generation *generations, *in_force; /* oldest first; at most one of them is newer than the one in force */
	int listeners[MSG_LISTENERS_MAX];
	uint8_t kinds[MSG_LISTENERS_MAX];
	unsigned listener_n;
	struct caller caller; /* who registered it */
	struct proc *worker;
	struct buf placeholders; /* as secrets told them: common/placeholder.h */
	unsigned told;         /* bit per role: knows of it, and has a link to its worker */
	bool announced, answered, gone;
	struct control_client *owner;  /* its connection is the sandbox's life; NULL with keep */
	struct control_client *waiter; /* register, or finish, is unanswered */
	bool finishing;                /* it is finish: answered with the counts, then the end */
	struct timer finish_late;
	struct msg_counts counts, counts_before; /* of the present worker, and of those before it */
	json_int_t waiter_id;
	bool reloading;                        /* control_reloaded is due */
	struct control_client *reload_waiter;  /* who is told; NULL: nobody waits */
	json_int_t reload_id;
	struct stat policy_seen;               /* of the file that was tried last, for a policy that has a name */
	bool look_again;                       /* it may have changed while another was on its way */
	struct checker *checker; /* at work */
};
#define SHARED_ROLES 4
struct supervisor {
	struct loop *loop;
	struct startup start;
	struct proc shared[SHARED_ROLES]; /* in the order in which they are told: audit, secrets, ca, dialer */
	struct proc *spare;
	struct checker *checker; /* the one that waits; NULL: none */
	struct sandbox *sandboxes;
	uint32_t next_sandbox, next_generation;
	unsigned workers;        /* processes, the spare and ending ones too */
	uint8_t slots[SANDBOXES_MAX / 8];
	struct control *control;
	struct pending *events, **events_tail; /* lifecycle records that audit has not been told */
	unsigned event_n;
	struct timer idle_end, ending, dns, folders_due;
	struct watch folders_watch;
	struct watch programs;   /* the process that runs them */
	unsigned programs_busy;
	struct revocation *revocations;
	struct secret_op *secret_ops;
	uint64_t secret_op_number;
	unsigned secret_op_n;
	uint64_t ending_ms;
	bool shutting_down, secrets_told, audit_told;
};
int supervisor_main(int argc, char **argv);
void supervisor_shutdown(struct supervisor *s);
void supervisor_idle(struct supervisor *s); /* the last sandbox is gone, perhaps */
/* A lifecycle record. It is kept while audit is down. */
void supervisor_event(struct supervisor *s, struct str sandbox, const char *message);
/* A record of what an operator did, or tried. g: the policy that it is about, or NULL. */
void supervisor_admin(struct supervisor *s, struct str sandbox, const struct generation *g, const char *message);
void supervisor_events_flush(struct supervisor *s);

/* procs.c */
uid_t proc_uid(const struct supervisor *s, enum role r, uint32_t slot); /* as root; slot: a worker's, else 0 */
struct proc *proc_shared(struct supervisor *s, enum role r);
void proc_start(struct proc *p);                /* its role and sup are set */
struct proc *proc_worker(struct supervisor *s, struct sandbox *b); /* b NULL: a spare. NULL: no user left for one */
void proc_spare(struct supervisor *s);          /* sees to it that there is one */
void proc_serve(struct proc *p, struct sandbox *b); /* a running worker gets its sandbox */
void proc_tell_sandbox(struct supervisor *s, struct sandbox *b);   /* all shared roles: what they do not know yet */
void proc_switch(struct sandbox *b, struct generation *g);          /* its worker, if there is one now */
void proc_tell_retired(struct generation *g);
void proc_tell_gone(struct supervisor *s, struct sandbox *b);
/* A worker whose sandbox ended delivers its last records and ends; in any case within a second. Any other ends at once. p may be gone afterwards. */
void proc_stop(struct proc *p, const struct msg_sandbox_ref *gone);
/* False: it cannot take it. A role that lives and does not keep up is ended: its next life is told everything anew. */
bool proc_say(struct proc *p, enum msg_type type, uint32_t generation, const void *d, size_t n, const void *d2, size_t n2, const int *fds, unsigned fd_n);

/* generations.c */
int generation_seal(int fd, struct err *err); /* an own copy of a table that nobody can change; -1 + err */
bool generation_sealed(int fd); /* memory that nobody can change any more: looking at it, and closing it, waits for nobody */
/* What it must not exceed: descriptors, the narrowing one first. How many. */
unsigned generation_boundaries(const struct generation *g, int fds[TABLE_BOUNDARIES_MAX]);
void generation_rules(const struct generation *g, struct buf *out); /* what its secrets may come from: sources.h */

/* checkers.c */
int checker_start(struct generation *g, struct err *err); /* generation_checked or generation_refused follows; -1 + err */
void checker_forget(struct checker *c);      /* its sandbox is gone: no answer follows */
void checkers_spare(struct supervisor *s);   /* sees to it that one waits */
void checkers_stop(struct supervisor *s);

/* sandboxes.c */
/* b's fields are filled. Checks g, tells the roles, gives it a worker; control_registered follows. Takes b and g. */
void sandbox_add(struct supervisor *s, struct sandbox *b, struct generation *g);
void sandbox_announce(struct sandbox *b); /* its first generation is checked */
void sandbox_started(struct sandbox *b);  /* and in force */
void sandbox_revoke(struct sandbox *b, const char *why); /* b is gone afterwards */
void sandbox_refuse(struct sandbox *b, const char *text); /* the same, and register is answered so */
void sandbox_placeholders(struct sandbox *b, struct str list); /* from secrets, before it acknowledges */
void sandbox_tell_placeholders(struct sandbox *b, struct proc *worker);
struct sandbox *sandbox_find(struct supervisor *s, uint32_t id);
void sandbox_free(struct sandbox *b);

/* generations.c */
struct generation *generation_new(void); /* without descriptors; the caller fills it */
void generation_free(struct generation *g);
/* Takes g: checked, told, in force; control_reloaded follows (for a sandbox's first, control_registered). */
void generation_add(struct sandbox *b, struct generation *g);
bool generation_coming(const struct sandbox *b); /* one is on its way: another has to wait */
struct generation *generation_find(const struct sandbox *b, uint32_t number);
struct generation *generation_for_worker(const struct sandbox *b);
void generation_ack(struct generation *g, enum role r);
void generation_checked(struct generation *g, const struct msg_checked *said); /* its table is what it must be; g may be gone afterwards */
void generation_refused(struct generation *g, const char *text); /* by a role or its check; g may be gone afterwards */
void generation_retire(struct generation *g); /* g is gone afterwards */
void generations_go_on(struct sandbox *b);    /* a role is not waited for any more */
void generations_worker_lost(struct sandbox *b);

/* Sources that are not brought anew stay what they are. */
void generation_keep_sources(struct generation *g, const struct generation *now, bool env, bool files);

/* folders.c */
int folders_open(struct supervisor *s, struct err *err);
/* The table of that name as it is now: a descriptor, or -1. */
int folders_table(const struct supervisor *s, const char *name, const struct caller *by, const struct folder **from, struct err *err);
void folders_look(struct supervisor *s); /* sandboxes whose policy has another table now get it */

/* callers.c */
void callers_find_groups(struct config *c);  /* sallyport and sallyport-admin, before the start gives anything up */
bool callers_others(const struct config *c); /* somebody else than the gateway's own user may call */
/* Who is at the other end. False: nobody who may call, and *why says so. */
bool caller_known(struct caller *by, const struct config *c, int fd, char why[200]);
bool caller_may_use(const struct caller *by, const struct config *c, const struct folder *f);
/* A refusal, for the record and the log; bounded, since callers can bring it about. */
void caller_refused(struct supervisor *s, const struct caller *by, struct str sandbox, const char *text);

/* closer.c */
void closer_close(const int *fds, unsigned n); /* does not wait for it: whose they are could make that long */

/* looks.c */
void look_first(struct proc *p, const struct msg_sandbox_ref *ref, const struct sandbox_file *f); /* p is told of it as it is now, if it is there */
void look_for_file(struct supervisor *s, struct proc *p, const struct ipc_msg *m); /* FILE_LOOK of p, which is secrets */

/* programs.c */
int programs_prepare(struct startup *s, struct err *err); /* before the supervisor gives anything up */
void programs_watch(struct supervisor *s);
void program_run(struct supervisor *s, struct proc *p, const struct ipc_msg *m); /* EXECUTE of p, which is secrets */

/* secret_ops.c */
void secret_op(struct supervisor *s, struct control_client *cc, json_int_t id, json_t *o);
void secret_told(struct supervisor *s, const struct ipc_msg *m); /* SECRET_TOLD */
void secret_revocations(struct supervisor *s, struct proc *p); /* p, which is secrets, is started anew */
void secret_ops_drop(struct supervisor *s, const struct control_client *cc); /* it is gone */
int secret_main(int argc, char **argv); /* the command */

/* cas.c */
int cas_open(struct startup *s, struct err *err); /* the one that is there */
uint16_t cas_newest(struct supervisor *s);        /* looks whether it was rotated; the number of the one for new sandboxes */
const struct ca_files *cas_first(const struct startup *s); /* the oldest that is in use: START to ca brings it */
void cas_tell(struct proc *p, const struct ca_files *c);
void cas_tell_rest(struct proc *p);               /* after START: the newer ones */
void cas_forget(struct supervisor *s);            /* closes those that no sandbox trusts any more */

/* control.c */
struct control *control_new(struct supervisor *s, struct err *err);
void control_finished(struct sandbox *b); /* finish is answered with what is known; b is gone afterwards */
void control_stop(struct sandbox *b, const char *reason); /* its launcher is told to end it */
void control_close(struct control *c); /* no new callers; those that are there keep their connection */
void control_registered(struct sandbox *b, const char *error); /* NULL: in force */
void control_reloaded(struct sandbox *b, const struct generation *g, const char *error); /* g is in force, or error says why none is */
void control_reply(struct control_client *cc, json_t *o); /* o is taken */
void control_reply_error(struct control_client *cc, json_int_t id, const char *code, const char *text);
size_t control_clients(const struct control *c);
bool control_uses_ca(const struct control *c, uint16_t number); /* a caller may still register a sandbox with it */
#endif
