/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_WORKER_IDENTITY_H
#define SP_WORKER_IDENTITY_H
/* Who we are to an upstream: a certificate, its issuers, and a key that signs elsewhere. Counted; the fingerprint tells two apart. */
#include <openssl/x509.h>
#include <stdbool.h>
#include <stdint.h>

#define IDENTITY_FINGERPRINT 32
struct identity {
	unsigned refs;
	uint32_t secret_index; /* of the table under which it was had */
	X509 *leaf;
	STACK_OF(X509) * chain; /* issuers, in order */
	EVP_PKEY *key;
	uint8_t fingerprint[IDENTITY_FINGERPRINT]; /* of all of it */
};
/* Of the certificates as `secrets` releases them: DER, one behind the other. NULL: of a kind that cannot be used. */
struct identity *identity_new(const uint8_t *der, size_t n, uint32_t secret_index);
struct identity *identity_hold(struct identity *i);
void identity_release(struct identity *i); /* NULL is fine */
bool identity_same(const struct identity *a, const struct identity *b); /* NULL: none */
#endif
