/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_CA_H
#define SP_CA_H
/*
 * The interception CA.
 *
 *   files.c  init, rotate: the key and the certificates in the state directory
 *   view.c   show, export, what must not vouch for an upstream
 *   mint.c   leaves; no input or output
 *   role.c   the role that holds the key and mints on request of the workers
 */
#include <openssl/x509.h>
#include <stdbool.h>
#include <stdint.h>

#include "../common/base/buf.h"
#include "../common/base/canon.h"
#include "../common/base/err.h"

/* --- files.c, view.c --- */
struct ca_wish { /* what init and rotate are asked for */
	const char *const *permit; /* domains and address ranges that the CA is constrained to */
	unsigned permit_n;
	bool permit_any; /* rotate: without the constraints that the old one has */
	bool drop_old;   /* rotate: nothing trusts the old one any more */
};
enum ca_form { CA_FORM_PEM = 0, CA_FORM_DER, CA_FORM_PKCS12 };

int ca_init(const char *state, const struct ca_wish *wish, struct err *err); /* refuses when there is state already */
/* A new CA in the place of the one that is there, which stays trusted beside it until ca_finish, unless the wish says otherwise. */
int ca_rotate(const char *state, const struct ca_wish *wish, struct err *err);
int ca_finish(const char *state, struct err *err); /* ends the overlap: only the newest is trusted */
X509 *ca_load_cert(const char *state, struct err *err); /* the one that mints */
int ca_show(const char *state, struct err *err);        /* to standard output */
/* file NULL: standard output. PEM and PKCS #12 hold all that are trusted, the one that mints first; DER holds that one. */
int ca_export(const char *state, enum ca_form form, const char *file, struct err *err);
/*
 * Reads PEM from standard input, writes the blob of common/trust.h to standard output; what that state directory's CA is
 * and ever was is left out. Fails when that CA has expired.
 */
int ca_pack_trust(const char *exclude_state, struct err *err);

/* --- mint.c --- */
#define MINT_LEAF_DAYS 7
struct ca_issuer;   /* the CA's key and what of its certificate goes into leaves */
struct ca_leaf_key; /* a P-256 key and the extensions of all leaves that carry it */
enum ca_minted { CA_MINT_FAILED = 0, CA_MINT_OK, CA_MINT_EXPIRED /* the CA is out of its time */, CA_MINT_OUTSIDE /* of its name constraints */ };

/* Critical nameConstraints that permit these alone. NULL on an error. */
X509_EXTENSION *ca_constraints_new(const char *const *permit, unsigned n, struct err *err);
/* A new self-signed CA. Both are the caller's. constraints may be NULL. */
int ca_create(EVP_PKEY **key, X509 **cert, const X509_EXTENSION *constraints, struct err *err);
/* Takes references. Refuses a certificate that is no CA, or another key's. */
struct ca_issuer *ca_issuer_new(EVP_PKEY *key, X509 *cert, struct err *err);
void ca_issuer_free(struct ca_issuer *i);
#define CA_LEFT_MAX 40
void ca_left_text(int64_t seconds, char out[CA_LEFT_MAX]); /* "in 3 days", "in 5 hours", "in 10 minutes" */
int64_t ca_issuer_end_s(const struct ca_issuer *i); /* when its certificate expires */
struct ca_leaf_key *ca_leaf_key_new(const struct ca_issuer *i);
void ca_leaf_key_free(struct ca_leaf_key *k);
/* PKCS#8 DER of it, appended. */
void ca_leaf_key_der(const struct ca_leaf_key *k, struct buf *out);
/* Appends the DER of a leaf for exactly this host, valid valid_s seconds from now_s (never longer than the CA). */
enum ca_minted ca_mint(const struct ca_issuer *i, const struct ca_leaf_key *k, const struct canon_host *host, int64_t now_s, int64_t valid_s, struct buf *der);

/* --- role.c --- */
int ca_main(int link_fd);
#endif
