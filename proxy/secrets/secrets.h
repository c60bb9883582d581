/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_SECRETS_H
#define SP_SECRETS_H
/*
 * The role that holds the sources' values and releases what is bound.
 *
 *   secrets.c     the role: links, bindings, checks
 *   values.c      a sandbox's secrets as they are now, had from their sources, kept while they are good
 *   source.c      variables and files handed over
 *   sign.c        signatures with what no worker has
 *   shape.c       what stands for a value inside
 *   vault*.c      Vault: vault.h
 *   token.c       access tokens that are obtained with a secret
 *   rotation.c    what took the place of a refresh token
 *   http.c        HTTPS by libcurl, on sockets that the dialer connected
 *   orphans.c     what is to be given back after a crash
 *   told.c        what the operator asks: check, revoke, forget
 *   events.c      one record of every release, repeats folded
 */
#include "../../common/base/str.h"
#include "../../common/policy/table.h"
#include "../../common/served.h"
#include "../../common/sys/ipc.h"
#include "../../common/sys/secret.h"
#include "shape.h"
#include "values.h"

struct binding {
	uint32_t dest_index, secret_index, kind;
	struct str host, service, region; /* borrow from the table */
};
struct bindings { /* of one generation: what may be released, and where it comes from */
	struct bindings *next;
	struct sandbox *of;
	uint32_t generation;
	const struct table *table; /* NULL: its sources came, it did not yet */
	struct values *values;
	struct binding *b;
	size_t n, cap;
};
struct sandbox { /* served.data */
	struct served *s;
	struct bindings *bindings;
	struct vault *own;	       /* the caller's own Vault, or NULL */
	struct vault_session *session; /* NULL: nothing of it comes from Vault */
	struct release *releases;      /* under way */
	unsigned release_n;
	size_t signing;		       /* octets of theirs that are to be signed */
};
struct secrets_role {
	struct loop *loop;
	struct ipc *sup, *audit, *dialer;
	struct served_set served;
	struct events *events;
	struct http *http;
	struct rotations *rotations;
	struct sources *files; /* the gateway's own: what it logs in to Vault with */
	struct orphans *orphans;
	struct vault *vault;
	struct timer end;
	uint32_t execs;
	unsigned ending; /* Vaults of which something is still to be given back */
	bool shutting_down;
	uint8_t key[SHAPE_KEY_LEN]; /* of placeholders */
};
struct bindings *secrets_bindings(struct served *s, uint32_t generation); /* makes them when they are new */

/* --- told.c --- */
void told_do(struct secrets_role *r, const struct ipc_msg *m);
void told_gone(struct values *v); /* before it goes */
bool told_revoked(uint32_t sandbox, struct str name); /* the operator did, and did not lift it */

/* --- events.c --- */
struct events;
struct events *events_new(struct loop *l);
void events_free(struct events *e);
void events_link(struct events *e, struct ipc *audit);	     /* NULL: the link is gone; what is not sent waits */
bool events_ready(const struct events *e, uint32_t sandbox); /* audit can be told, and there is room to remember */
/* released: false for an attempt that was refused (cause says why). Strings are copied. */
void events_add(struct events *e, uint32_t sandbox, struct str name, struct str secret, struct str host, enum inject_kind kind, bool released, bool unbound, struct str cause);
void events_sandbox_gone(struct events *e, uint32_t sandbox); /* writes what is folded */
void events_end(struct events *e);			      /* writes what is folded, of all sandboxes */

int secrets_main(int link_fd);
#endif
