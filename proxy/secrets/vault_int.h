/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_SECRETS_VAULT_INT_H
#define SP_SECRETS_VAULT_INT_H
/* What vault.c and vault_auth.c share. */
#include "vault.h"

enum vault_auth { VAULT_AUTH_NONE = 0,
		  VAULT_AUTH_TOKEN,
		  VAULT_AUTH_APPROLE,
		  VAULT_AUTH_KUBERNETES,
		  VAULT_AUTH_JWT,
		  VAULT_AUTH_CERT };

struct vault_token {
	struct secret *value; /* NULL: there is none */
	char accessor[ORPHAN_SIZE];
	int slot;	   /* in the file of orphans */
	uint64_t until_ms; /* 0: it does not end */
	uint32_t first_s;  /* how long it was given for */
	bool renewable;
	struct timer renew;
};
struct vault {
	struct loop *loop;
	struct http *http;
	struct sources *files;
	struct orphans *orphans;
	uint32_t sandbox;
	/* settings */
	struct endpoint to[VAULT_ADDRESSES_MAX];
	unsigned to_n, at; /* at: the one that answered last */
	char *text;	   /* the settings; strings below borrow */
	struct str ns, mount, role, role_id, token_file, secret_id_file, jwt_file, cert_file, key_file;
	bool wrapped, given; /* given: the token came by hand */
	enum vault_auth auth;
	struct http_tls tls, login_tls;
	/* state */
	struct vault_token token;
	struct secret *credential; /* what is logged in with: a secret_id (unwrapped once), a token that was given */
	struct secret *looked_up;  /* a token that Vault is asked about */
	bool logging_in, swept;
	uint32_t epoch, voids;
	struct vault_op *queue, *running; /* queue: waits for a token */
	struct vault_session *sessions;
	unsigned failures;
	uint64_t down_until_ms;
	char down[VAULT_CAUSE_MAX]; /* why */
	void (*ended)(void *arg);
	void *ended_arg;
	bool ending;
};
struct vault_session {
	struct vault_session *next;
	struct vault *v;
	char *name;
	struct vault_token token;
	uint32_t epoch, parent_epoch, voids;
	bool making, shared, ended;
	unsigned tries;
	struct timer again;
};
enum vault_with { VAULT_WITH_NONE = 0,
		  VAULT_WITH_OWN,
		  VAULT_WITH_SESSION,
		  VAULT_WITH_THIS };
struct vault_op {
	struct vault_op *next;
	struct vault *v;
	struct vault_session *session;
	enum vault_with with;
	struct secret *this_token; /* THIS: taken */
	const char *method;
	char *path;
	struct buf body;
	bool login; /* with the login's own identity */
	vault_fn *fn;
	void *arg;
	unsigned tries;
	bool checked, queued, over;
	struct http_call *call;
	struct timer later;
	char cause[VAULT_CAUSE_MAX];
};

/* vault.c */
struct vault_op *vault_op_new(struct vault *v, struct vault_session *s, enum vault_with with, const char *method, const char *path, json_t *body, vault_fn *fn, void *arg);
void vault_send(struct vault_op *op); /* now, whatever state it is in */
void vault_pump(struct vault *v);     /* those that wait for a token */
void vault_fail_queue(struct vault *v, const struct vault_session *only, const char *cause);
void vault_note_down(struct vault *v, uint32_t retry_after_s, const char *cause);

/* vault_auth.c */
void vault_login(struct vault *v); /* unless it is under way */
void vault_child(struct vault_session *s);
bool vault_token_usable(const struct vault_token *t);
void vault_token_drop(struct vault_token *t, struct orphans *o);			     /* it is no use any more */
void vault_give_back(struct vault *v, const struct vault_token *t, vault_fn *fn, void *arg); /* revokes it; the caller drops it by the answer */
#endif
