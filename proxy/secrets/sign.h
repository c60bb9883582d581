/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_SECRETS_SIGN_H
#define SP_SECRETS_SIGN_H
/* What is signed with a secret that no worker has. Free of I/O. */
#include "../../common/policy/table.h"

#define SIGN_TEXT_MAX 132 /* the longest: SHA-512 in hex */
/* HMAC in the entry's encoding; its length. 0: *cause says why there is none. */
size_t sign_hmac(const struct inject *in, struct str value, struct str message, char out[SIGN_TEXT_MAX], const char **cause);

#define SIGN_TLS_MAX 1024
/*
 * Of a client's certificate, its issuers and its key, in PEM in any order: the certificates in DER, the key's own first. False: *cause
 * says what is wrong with it.
 */
bool sign_certificates(struct str pem, struct buf *der, const char **cause);
/* A signature of such a key, by SignatureScheme (RFC 8446 4.2.3), over what TLS clients sign and nothing else: see sign_is_tls. Its length, or 0. */
size_t sign_tls(struct str pem, uint16_t scheme, struct str message, uint8_t out[SIGN_TLS_MAX], const char **cause);
/*
 * Whether it is what a client signs in a handshake: RFC 8446 4.4.3 (64 spaces, the context, a zero, a hash), or RFC 5246 7.4.8
 * (all messages so far, from ClientHello to ClientKeyExchange). Nothing else that is signed with such keys looks like that.
 */
bool sign_is_tls(struct str message);
#endif
