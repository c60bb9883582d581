/* SPDX-License-Identifier: Apache-2.0 */
/* A leaf is read without a search for its key's decoder, and is what it would have been. */
#include <openssl/err.h>
#include <openssl/evp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/worker/leaf_cert.h"

static int mint(EVP_PKEY *key, EVP_PKEY *by, unsigned char **der)
{
	X509 *x = X509_new();
	int n;

	X509_set_version(x, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(x), 77);
	X509_gmtime_adj(X509_getm_notBefore(x), 0);
	X509_gmtime_adj(X509_getm_notAfter(x), 3600);
	X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC, (const unsigned char *)"a.test", -1, -1, 0);
	X509_set_issuer_name(x, X509_get_subject_name(x));
	X509_set_pubkey(x, key);
	assert_true(X509_sign(x, by, EVP_sha256()) > 0);
	*der = NULL;
	n = i2d_X509(x, der);
	assert_true(n > 0);
	X509_free(x);
	return n;
}

/* It is the one that stands there, has its key, and OpenSSL has nothing to complain of. */
static void same(X509 *x, const unsigned char *der, int n, EVP_PKEY *key)
{
	unsigned char *again = NULL;

	assert_non_null(x);
	assert_int_equal(ERR_peek_error(), 0);
	assert_int_equal(i2d_X509(x, &again), n);
	assert_memory_equal(again, der, (size_t)n);
	assert_int_equal(X509_check_private_key(x, key), 1);
	assert_int_equal(ERR_peek_error(), 0);
	OPENSSL_free(again);
	X509_free(x);
}

static void reads(void **state)
{
	EVP_PKEY *ca = EVP_EC_gen("P-256"), *key = EVP_EC_gen("P-256"), *other = EVP_EC_gen("P-256"), *rsa = EVP_RSA_gen(2048);
	struct leaf_cert l = { 0 };
	unsigned char *der;
	bool quick;
	int n;

	(void)state;
	leaf_cert_init(&l);
	n = mint(key, ca, &der);
	same(leaf_cert_read(&l, der, (size_t)n, &quick), der, n, key);
	assert_false(quick); /* no key is known yet */
	leaf_cert_key(&l, key);
	same(leaf_cert_read(&l, der, (size_t)n, &quick), der, n, key);
	assert_true(quick);
	assert_null(leaf_cert_read(&l, der, (size_t)n - 1, &quick));
	assert_int_equal(ERR_peek_error(), 0);
	OPENSSL_free(der);
	n = mint(other, ca, &der); /* a leaf of another key is never taken for one of this */
	same(leaf_cert_read(&l, der, (size_t)n, &quick), der, n, other);
	assert_false(quick);
	leaf_cert_key(&l, other);
	same(leaf_cert_read(&l, der, (size_t)n, &quick), der, n, other);
	assert_true(quick);
	OPENSSL_free(der);
	n = mint(rsa, ca, &der);
	leaf_cert_key(&l, rsa); /* of another kind: read as ever */
	same(leaf_cert_read(&l, der, (size_t)n, &quick), der, n, rsa);
	assert_false(quick);
	OPENSSL_free(der);
	leaf_cert_fini(&l);
	EVP_PKEY_free(ca);
	EVP_PKEY_free(key);
	EVP_PKEY_free(other);
	EVP_PKEY_free(rsa);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(reads) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
