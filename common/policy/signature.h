/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_POLICY_SIGNATURE_H
#define SP_POLICY_SIGNATURE_H
/*
 * A signed table is a table with 104 octets behind its last page: "SPSIGN\0\1", the public key, the signature (Ed25519,
 * RFC 8032) over a text of its own and SHA-256 of everything before. LMDB does not look behind its pages, so it is still
 * an LMDB file; and whoever checks the signature first has not read a single octet that somebody else wrote.
 */
#include "../base/err.h"
#include "../base/str.h"

#define SIGNATURE_KEY_LEN 32
#define SIGNATURE_LEN 104u
#define SIGNATURE_KEY_TEXT_MAX 64

/* Octets of the table itself, without what stands behind its pages: n when nothing does. */
size_t signature_body(const uint8_t *p, size_t n);
/* 1 signed, and by whom; 0 not signed; -1 the signature is wrong. */
int signature_check(const uint8_t *p, size_t n, uint8_t key[SIGNATURE_KEY_LEN], struct err *err);
/* What stands behind the table p[0..n), whose secret key has this seed (RFC 8032 5.1.5). */
int signature_make(const uint8_t *p, size_t n, const uint8_t seed[32], uint8_t out[SIGNATURE_LEN], struct err *err);
/* "ed25519/BASE64", as gateway.yaml has it. */
bool signature_key_parse(struct str text, uint8_t key[SIGNATURE_KEY_LEN]);
void signature_key_format(const uint8_t key[SIGNATURE_KEY_LEN], char out[SIGNATURE_KEY_TEXT_MAX]);
#endif
