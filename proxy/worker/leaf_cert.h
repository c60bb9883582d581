/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_WORKER_LEAF_CERT_H
#define SP_WORKER_LEAF_CERT_H
/*
 * Certificates of ca, read. d2i_X509 looks for a decoder of the public key, which takes OpenSSL 3.0 170 us of 180. All leaves
 * have the same key, that we know: where there are no algorithms no decoder is looked for, and the key is set.
 */
#include <openssl/x509.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct leaf_cert { /* zeroed at its begin; lives as long as the process */
	OSSL_LIB_CTX *bare; /* with no algorithms */
	EVP_PKEY *key;      /* in the form that X509_set_pubkey writes at once, or NULL */
	unsigned char *spki; /* it as a certificate has it */
	int spki_n;
};
void leaf_cert_init(struct leaf_cert *l); /* before confinement */
void leaf_cert_fini(struct leaf_cert *l);
void leaf_cert_key(struct leaf_cert *l, EVP_PKEY *key); /* which the leaves have from now on; it stays the caller's */
/*
 * The certificate that stands in der, or NULL; the caller's to free. *quick, if wanted: whether it was read without a search: it
 * has that key then, and is written octet by octet as it came in; else it is read in the ordinary way. Leaves no error in OpenSSL's queue.
 */
X509 *leaf_cert_read(const struct leaf_cert *l, const uint8_t *der, size_t n, bool *quick);
#endif
