/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_CA_X509_H
#define SP_CA_X509_H
/* Making the interception CA and its leaves. */
#include <openssl/x509.h>

#include "../common/base/buf.h"
#include "../common/base/canon.h"
#include "../common/base/err.h"

/* A new CA: P-256, a subject of its own, constrained to no further CA. */
int ca_make(EVP_PKEY **key, X509 **cert, struct err *err);

struct minter; /* what is the same in every leaf, prebuilt */
struct minter *minter_new(EVP_PKEY *ca_key, X509 *ca, struct err *err);
void minter_free(struct minter *m);
/* One leaf for exactly this host (dNSName or iPAddress) over leaf_key; DER appended to out. now: seconds since 1970. */
int minter_mint(struct minter *m, EVP_PKEY *leaf_key, const struct canon_host *host, int64_t now, int64_t valid_s, struct buf *out, struct err *err);
#endif
