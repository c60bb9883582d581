/* SPDX-License-Identifier: Apache-2.0 */
#include "leaf_cert.h"

#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/provider.h>
#include <openssl/x509v3.h>
#include <string.h>

#include "../../common/base/must.h"

void leaf_cert_init(struct leaf_cert *l)
{
	l->bare = OSSL_LIB_CTX_new();
	MUST(l->bare != NULL && OSSL_PROVIDER_load(l->bare, "null") != NULL);
}

static void forget_key(struct leaf_cert *l)
{
	EVP_PKEY_free(l->key);
	OPENSSL_free(l->spki);
	l->key = NULL;
	l->spki = NULL;
}

void leaf_cert_fini(struct leaf_cert *l)
{
	forget_key(l);
	OSSL_LIB_CTX_free(l->bare);
	l->bare = NULL;
}

void leaf_cert_key(struct leaf_cert *l, EVP_PKEY *key)
{
/* deprecated, and the only form of a key that is written without a search for an encoder, of 250 us (OpenSSL 3.0) */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
	EC_KEY *ec = EVP_PKEY_get1_EC_KEY(key);

	forget_key(l);
	l->key = EVP_PKEY_new();
	MUST(l->key != NULL);
	if (ec == NULL || EVP_PKEY_assign_EC_KEY(l->key, ec) != 1) {
		EC_KEY_free(ec);
		forget_key(l);
	}
#pragma GCC diagnostic pop
	if (l->key != NULL && (l->spki_n = i2d_PUBKEY(l->key, &l->spki)) <= 0)
		forget_key(l);
	ERR_clear_error();
}

/* Of OpenSSL 3.0 the whole is what was read, whatever key is set; later versions write it anew. So both are compared. */
static bool as_it_came(const struct leaf_cert *l, X509 *x, const uint8_t *der, size_t n)
{
	unsigned char *spki = NULL, *again = NULL;
	int spki_n = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(x), &spki), len = -1;
	bool same = spki_n == l->spki_n && memcmp(spki, l->spki, (size_t)spki_n) == 0 && X509_set_pubkey(x, l->key) == 1;

	if (same)
		len = i2d_X509(x, &again);
	same = same && len > 0 && (size_t)len == n && memcmp(again, der, n) == 0;
	OPENSSL_free(spki);
	OPENSSL_free(again);
	return same;
}

static X509 *read_bare(const struct leaf_cert *l, const uint8_t *der, size_t n)
{
	const unsigned char *at = der;
	X509 *x = l->key != NULL ? X509_new_ex(l->bare, NULL) : NULL;

	if (x == NULL || d2i_X509(&x, &at, (long)n) == NULL)
		return NULL;
	if (as_it_came(l, x, der, n))
		return x;
	X509_free(x);
	return NULL;
}

X509 *leaf_cert_read(const struct leaf_cert *l, const uint8_t *der, size_t n, bool *quick)
{
	const unsigned char *at = der;
	X509 *x = read_bare(l, der, n);

	if (quick != NULL)
		*quick = x != NULL;
	if (x == NULL)
		x = d2i_X509(NULL, &at, (long)n);
	if (x != NULL)
		X509_get_extension_flags(x); /* here, where what is said of a missing SHA-1 for its fingerprint is taken away again */
	ERR_clear_error();
	return x;
}
