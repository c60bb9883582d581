/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_SECRETS_TOKEN_H
#define SP_SECRETS_TOKEN_H
/*
 * Tokens that are obtained with a secret: OAuth 2.0 client credentials and refresh tokens (RFC 6749 4.4, 6), GitHub App
 * installation tokens, tokens of a Google service account (RFC 7523). The secret signs or goes to the end-point that the
 * policy names, and nowhere else; what is released is the token.
 */
#include "../../common/policy/table.h"
#include "../../common/sys/secret.h"
#include "http.h"
#include "rotation.h"

#define TOKEN_CAUSE_MAX 300

struct token_value {
	const struct secret *value; /* NULL: cause says why */
	const char *cause;
	bool denied;		   /* the end-point answered, and said no */
	uint32_t for_s;		   /* how long it is good, as the end-point said */
	const struct secret *next; /* a refresh token that takes the place of the one used, or NULL */
};
struct token_call;
typedef void token_fn(void *arg, const struct token_value *v);
/* fn is called once, perhaps at once, unless cancelled. NULL: it was called already. */
struct token_call *token_obtain(struct http *h, uint32_t sandbox, uint32_t generation, const struct secret_decl *d, const struct secret *with, token_fn *fn, void *arg);
void token_cancel(struct token_call *c); /* NULL is fine */
/*
 * Who waited is gone, but the end-point may have taken the refresh token already: then the one in its answer is the only one there is.
 * The call goes on by itself, and the use of the refresh token, u, which is on its turn, is its own.
 */
void token_leave(struct token_call *c, struct rotation_use *u);

/* With what takes the place of the secret at each use, or may. */
bool token_rotates(const struct secret_decl *d);

struct token_kind {
	enum secret_token token;
	bool identity; /* of Google: a token of identity */
	bool rotates;
};
struct token_kind token_kind(const struct secret_decl *d);

/* Free of I/O: what is sent, and what an answer says. now_s: since 1970. */
struct token_request {
	struct buf path; /* behind the end-point's own, or empty */
	struct buf body;
	struct buf authorization; /* of the header; empty: none */
	const char *content_type;
};
bool token_request(const struct secret_decl *d, const struct secret *with, uint64_t now_s, struct token_request *out, char cause[TOKEN_CAUSE_MAX]);
void token_request_fini(struct token_request *r);
/* *next: see token_value; both are the caller's afterwards. NULL: cause. */
struct secret *token_answer(const struct token_kind *k, int status, struct str body, uint64_t now_s, uint32_t *for_s, struct secret **next, char cause[TOKEN_CAUSE_MAX]);
#endif
