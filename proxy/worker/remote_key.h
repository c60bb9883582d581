/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_WORKER_REMOTE_KEY_H
#define SP_WORKER_REMOTE_KEY_H
/*
 * A private key of which only the public half is here: OpenSSL asks it for a signature as any other, and is told to wait until
 * another role has made one. EC, RSA and Ed25519.
 */
#include <openssl/evp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void remote_key_warm(void); /* once, before confinement */
/* With that public half, which is copied. NULL: of a kind that cannot be used. */
EVP_PKEY *remote_key_new(EVP_PKEY *public_half);

#define REMOTE_SIGNATURE_MAX 1024
/*
 * Called within the ASYNC job of a handshake, when what is signed is known: fills sig and returns its length, or 0. It may
 * ASYNC_pause_job until it can. scheme: SignatureScheme of RFC 8446 4.2.3.
 */
typedef size_t remote_sign_fn(uint16_t scheme, const uint8_t *message, size_t n, uint8_t sig[REMOTE_SIGNATURE_MAX]);
void remote_key_signer(remote_sign_fn *fn);
#endif
