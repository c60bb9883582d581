/* SPDX-License-Identifier: Apache-2.0 */
#include "identity.h"

#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>

#include "../../common/base/must.h"
#include "remote_key.h"

static void free_identity(struct identity *i)
{
	X509_free(i->leaf);
	sk_X509_pop_free(i->chain, X509_free);
	EVP_PKEY_free(i->key);
	free(i);
}

struct identity *identity_new(const uint8_t *der, size_t n, uint32_t secret_index)
{
	struct identity *i = must_calloc(1, sizeof(*i));
	const unsigned char *p = der;
	X509 *x;

	i->refs = 1;
	i->secret_index = secret_index;
	i->chain = sk_X509_new_null();
	MUST(i->chain != NULL && EVP_Digest(der, n, i->fingerprint, NULL, EVP_sha256(), NULL) == 1);
	while (p < der + n && (x = d2i_X509(NULL, &p, (long)(der + n - p))) != NULL) {
		if (i->leaf == NULL)
			i->leaf = x;
		else
			MUST(sk_X509_push(i->chain, x) > 0);
	}
	if (i->leaf != NULL && X509_get0_pubkey(i->leaf) != NULL)
		i->key = remote_key_new(X509_get0_pubkey(i->leaf));
	ERR_clear_error();
	if (p == der + n && i->key != NULL)
		return i;
	free_identity(i);
	return NULL;
}

struct identity *identity_hold(struct identity *i)
{
	if (i != NULL)
		i->refs++;
	return i;
}

void identity_release(struct identity *i)
{
	if (i != NULL && --i->refs == 0)
		free_identity(i);
}

bool identity_same(const struct identity *a, const struct identity *b)
{
	return (a == NULL) == (b == NULL) && (a == NULL || memcmp(a->fingerprint, b->fingerprint, sizeof(a->fingerprint)) == 0);
}
