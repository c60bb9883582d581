/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_TRUST_H
#define SP_TRUST_H
/*
 * Trust anchors as one immutable blob in a sealed memfd: header, index sorted by the hash of the subject name, DER.
 * Written by `sallyport-ca pack-trust` (a throw-away process: standard input PEM, standard output the blob), read in the
 * worker through an X509_LOOKUP_METHOD, so that nothing is opened and nothing parsed that is not asked for.
 *
 *   magic "SPTRUST2" | u32 count | u32 barred | count x { u64 subject_hash, u32 offset, u32 length } | barred x SHA-256 | DER...
 *
 * subject_hash = first 8 octets (little-endian) of SHA-256 over the canonical subject encoding (i2d_X509_NAME of the name
 * is not canonical; X509_NAME_hash_ex's 32 bit value, zero-extended, is what is used). barred: of the subject public keys
 * of our own CA, which vouches for no upstream, not even when a policy names it.
 */
#include <openssl/x509_vfy.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

#define TRUST_DIGEST_LEN 32
struct trust; /* one mapped blob */
int trust_map(struct trust **out, int fd, struct err *err); /* checks the header and every bound; maps read-only */
void trust_free(struct trust *t);
unsigned trust_count(const struct trust *t);
/* An X509_STORE that looks anchors up in t (which must outlive it). NULL on failure. */
X509_STORE *trust_store_new(const struct trust *t);
/* SHA-256 of the SubjectPublicKeyInfo as it stands in the certificate. False: it cannot be encoded. */
bool trust_key_digest(X509 *x, uint8_t digest[TRUST_DIGEST_LEN]);
/* Whether this certificate has a key that is barred. */
bool trust_barred(const struct trust *t, X509 *x);
/* Packs PEM text; certificates that do not parse, are not CAs, or have one of the barred keys (SHA-256 of the SubjectPublicKeyInfo) are left out and counted. */
int trust_pack(const uint8_t *pem, size_t n, const uint8_t *barred, unsigned barred_n, struct buf *out, unsigned *left_out, struct err *err);
#endif
