/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_CA_H
#define SP_CA_H
/*
 * The interception CA.
 *
 *   files.c  init, show, export: the key and the certificate in the state directory
 *   mint.c   leaves; no input or output
 *   role.c   the role that holds the key and mints on request of the workers
 */
#include <openssl/x509.h>
#include <stdbool.h>
#include <stdint.h>

#include "../common/base/buf.h"
#include "../common/base/canon.h"
#include "../common/base/err.h"

/* --- files.c --- */
int ca_init(const char *state, struct err *err);                  /* refuses when there is state already */
X509 *ca_load_cert(const char *state, struct err *err);
int ca_show(const char *state, struct err *err);                  /* to standard output */
int ca_export(const char *state, bool der, const char *file, struct err *err); /* file NULL: standard output */
/* Reads PEM from standard input, writes the blob of common/trust.h to standard output; the CA of that state directory is left out. */
int ca_pack_trust(const char *exclude_state, struct err *err);

/* --- mint.c --- */
#define MINT_LEAF_DAYS 7
struct ca_issuer;   /* the CA's key and what of its certificate goes into leaves */
struct ca_leaf_key; /* a P-256 key and the extensions of all leaves that carry it */

/* A new self-signed CA. Both are the caller's. */
int ca_create(EVP_PKEY **key, X509 **cert, struct err *err);
/* Takes references. Refuses a certificate that is no CA, or another key's. */
struct ca_issuer *ca_issuer_new(EVP_PKEY *key, X509 *cert, struct err *err);
void ca_issuer_free(struct ca_issuer *i);
struct ca_leaf_key *ca_leaf_key_new(const struct ca_issuer *i);
void ca_leaf_key_free(struct ca_leaf_key *k);
/* PKCS#8 DER of it, appended. */
void ca_leaf_key_der(const struct ca_leaf_key *k, struct buf *out);
/* Appends the DER of a leaf for exactly this host, valid valid_s seconds from now_s (never longer than the CA). False: the CA itself is out of its time. */
bool ca_mint(const struct ca_issuer *i, const struct ca_leaf_key *k, const struct canon_host *host, int64_t now_s, int64_t valid_s, struct buf *der);

/* --- role.c --- */
int ca_main(int link_fd);
#endif
