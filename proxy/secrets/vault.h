/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_SECRETS_VAULT_H
#define SP_SECRETS_VAULT_H
/*
 * HashiCorp Vault and OpenBao, by their HTTP API.
 *
 *   vault.c       questions and answers: addresses, redirects, what is wrong with it, waiting while it is down
 *   vault_auth.c  our own token: the ways to log in, renewal, logging in again; a child token for each sandbox
 *   vault_read.c  one secret: KV of both versions, dynamic ones; what is wrong with a path
 *
 * A sandbox's secrets are read with a child token of its own, so that the end of the sandbox ends, by one revocation,
 * every lease that was had for it. All times are of CLOCK_BOOTTIME: a lease runs out while the machine sleeps.
 */
#include <jansson.h>

#include "../../common/sys/secret.h"
#include "http.h"
#include "orphans.h"

#define VAULT_ADDRESSES_MAX 8
#define VAULT_CHILD_TTL_S 1200u
#define VAULT_CAUSE_MAX 300

struct sources;
struct vault;
struct vault_session; /* of one sandbox */
struct vault_op;

uint64_t vault_now_ms(void);
/* Words of somebody else's, made fit for a record. */
void vault_printable(char *out, size_t cap, const char *from);
/* base + up to spread percent, less or more. */
uint64_t vault_jitter(uint64_t base_ms, unsigned percent);

/* sandbox: whose endpoints the dialer knows it by; 0: the gateway's. files: where paths of its settings are read. orphans NULL: nothing is noted. */
struct vault *vault_new(struct loop *l, struct http *h, struct sources *files, struct orphans *o, uint32_t sandbox);
void vault_free(struct vault *v); /* cancels what is under way */
/* NAME=value\0...; ca: PEM text or empty. False: *cause says why. token: given by hand, or NULL. */
bool vault_configure(struct vault *v, struct str text, struct str ca, const struct secret *token, char cause[VAULT_CAUSE_MAX]);
bool vault_configured(const struct vault *v);
void vault_ask_again(struct vault *v);		     /* what it was closed for is not held against it any more */
void vault_report(const struct vault *v, json_t *o); /* address, state, until; never a token */
/* Gives back what it has: our own token, once all sessions have ended. done is called at the latest after a while. */
void vault_end(struct vault *v, void (*done)(void *arg), void *arg);
size_t vault_busy(const struct vault *v);

struct vault_session *vault_session_new(struct vault *v, struct str name);
void vault_session_end(struct vault_session *s); /* s is gone for the caller; the rest happens behind */
/* Changes when the leases that were had are void, or about to be. */
uint32_t vault_epoch(const struct vault_session *s);
uint32_t vault_voids(const struct vault_session *s);	  /* changes when what was had with a token died with it */
uint64_t vault_bound_ms(const struct vault_session *s);	  /* when the token ends that it reads with; 0: it does not */
bool vault_session_shared(const struct vault_session *s); /* there is no child token: leases are to be revoked one by one */

struct vault_answer {
	int status;	   /* 0: no answer that says anything */
	json_t *root;	   /* borrowed; NULL: no content */
	const char *cause; /* when it is not 2xx */
};
typedef void vault_fn(void *arg, const struct vault_answer *a);
/* body: taken, a JSON object or NULL. fn is called once, later, unless cancelled. */
struct vault_op *vault_do(struct vault_session *s, const char *method, const char *path, json_t *body, vault_fn *fn, void *arg);
void vault_cancel(struct vault_op *op);				     /* NULL is fine */
void vault_revoke_lease(struct vault_session *s, const char *lease); /* best effort */

/* --- vault_read.c --- */
struct vault_value {
	const struct secret *value; /* NULL: cause says why */
	const char *cause;
	bool denied;	   /* Vault answered, and there is nothing to be had */
	const char *lease; /* or "" */
	uint32_t lease_s;
	bool renewable;
};
struct vault_read;
typedef void vault_read_fn(void *arg, const struct vault_value *v);
struct vault_read *vault_read(struct vault_session *s, bool dynamic, struct str path, struct str field, vault_read_fn *fn, void *arg);
void vault_read_cancel(struct vault_read *r);
/* What is wrong with a path, by what its mount is: mount "secret/", version of KV (0: not KV). Empty: nothing that shows. Free of I/O. */
void vault_explain_path(struct str path, struct str mount, int version, char out[VAULT_CAUSE_MAX]);
/* The value of a field in an answer's data. NULL and a cause otherwise. Free of I/O. */
struct secret *vault_field(json_t *root, bool dynamic, struct str path, struct str field, char cause[VAULT_CAUSE_MAX]);
#endif
