/* SPDX-License-Identifier: Apache-2.0 */
/* Packed trust anchors: what goes in, what a damaged blob does, and that chains verify against them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>
#include <openssl/pem.h>
#include <openssl/sha.h>
#include <openssl/x509v3.h>

#include "ca/ca.h"
#include "common/trust.h"

struct pki {
	EVP_PKEY *key;
	X509 *cert;
	struct ca_issuer *issuer;
	struct ca_leaf_key *leaf_key;
};

static void pki_make(struct pki *p)
{
	struct err err = ERR_INIT;

	assert_int_equal(ca_create(&p->key, &p->cert, NULL, &err), 0);
	p->issuer = ca_issuer_new(p->key, p->cert, &err);
	assert_non_null(p->issuer);
	p->leaf_key = ca_leaf_key_new(p->issuer);
}

static void pki_free(struct pki *p)
{
	ca_leaf_key_free(p->leaf_key);
	ca_issuer_free(p->issuer);
	X509_free(p->cert);
	EVP_PKEY_free(p->key);
}

static X509 *leaf_of(struct pki *p, const char *name)
{
	struct canon_host h;
	const char *why;
	struct buf der = { 0 };
	const unsigned char *at;
	X509 *x;

	assert_true(canon_host(str_of(name), false, &h, &why));
	assert_int_equal(ca_mint(p->issuer, p->leaf_key, &h, time(NULL), 3600, &der), CA_MINT_OK);
	at = buf_data(&der);
	x = d2i_X509(NULL, &at, (long)buf_len(&der));
	assert_non_null(x);
	buf_fini(&der);
	return x;
}

static void add_pem(struct buf *b, X509 *x)
{
	BIO *bio = BIO_new(BIO_s_mem());
	char *p = NULL;
	long n;

	assert_int_equal(PEM_write_bio_X509(bio, x), 1);
	n = BIO_get_mem_data(bio, &p);
	buf_add(b, p, (size_t)n);
	BIO_free(bio);
}

static struct trust *map_bytes(const void *p, size_t n, bool want)
{
	struct err err = ERR_INIT;
	struct trust *t = NULL;
	int fd = memfd_create("t", MFD_CLOEXEC);

	assert_true(write(fd, p, n) == (ssize_t)n);
	assert_int_equal(trust_map(&t, fd, &err), want ? 0 : -1);
	close(fd);
	if (!want)
		assert_true(err.text[0] != 0);
	return t;
}

static int verify(X509_STORE *s, X509 *leaf)
{
	X509_STORE_CTX *c = X509_STORE_CTX_new();
	int r;

	assert_int_equal(X509_STORE_CTX_init(c, s, leaf, NULL), 1);
	X509_STORE_CTX_set_purpose(c, X509_PURPOSE_SSL_SERVER);
	r = X509_verify_cert(c) == 1 ? 0 : X509_STORE_CTX_get_error(c);
	X509_STORE_CTX_free(c);
	return r;
}

static void chains_verify(void **state)
{
	struct pki a, b, c;
	struct buf pem = { 0 }, blob = { 0 };
	struct err err = ERR_INIT;
	unsigned left = 99;
	struct trust *t;
	X509_STORE *s;
	X509 *leaf;

	(void)state;
	pki_make(&a);
	pki_make(&b);
	pki_make(&c); /* not packed */
	buf_addz(&pem, "# a comment\n");
	add_pem(&pem, a.cert);
	add_pem(&pem, b.cert);
	add_pem(&pem, a.cert); /* twice */
	assert_int_equal(trust_pack(buf_data(&pem), buf_len(&pem), NULL, 0, &blob, &left, &err), 0);
	assert_int_equal(left, 0);
	t = map_bytes(buf_data(&blob), buf_len(&blob), true);
	assert_int_equal(trust_count(t), 2);
	s = trust_store_new(t);
	assert_non_null(s);
	for (int i = 0; i < 3; i++) { /* the second time from the store's own cache */
		leaf = leaf_of(&a, "a.example");
		assert_int_equal(verify(s, leaf), 0);
		X509_free(leaf);
		leaf = leaf_of(&b, "b.example");
		assert_int_equal(verify(s, leaf), 0);
		X509_free(leaf);
		leaf = leaf_of(&c, "c.example");
		assert_int_equal(verify(s, leaf), X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY);
		X509_free(leaf);
	}
	X509_STORE_free(s);
	trust_free(t);
	buf_fini(&pem);
	buf_fini(&blob);
	pki_free(&a);
	pki_free(&b);
	pki_free(&c);
}

static void what_is_left_out(void **state)
{
	struct pki a, b;
	struct buf pem = { 0 }, blob = { 0 };
	struct err err = ERR_INIT;
	unsigned char *spki = NULL;
	uint8_t digest[SHA256_DIGEST_LENGTH];
	unsigned left = 0;
	struct trust *t;
	X509 *leaf;
	int n;

	(void)state;
	pki_make(&a);
	pki_make(&b);
	leaf = leaf_of(&a, "leaf.example");
	add_pem(&pem, leaf); /* no CA */
	X509_free(leaf);
	buf_addz(&pem, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"); /* not DER */
	buf_addz(&pem, "-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n"); /* not base64 */
	buf_addz(&pem, "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n");
	add_pem(&pem, b.cert); /* excluded */
	add_pem(&pem, a.cert);
	n = i2d_PUBKEY(X509_get0_pubkey(b.cert), &spki);
	SHA256(spki, (size_t)n, digest);
	OPENSSL_free(spki);
	assert_int_equal(trust_pack(buf_data(&pem), buf_len(&pem), digest, 1, &blob, &left, &err), 0);
	assert_int_equal(left, 5);
	t = map_bytes(buf_data(&blob), buf_len(&blob), true);
	assert_int_equal(trust_count(t), 1);
	trust_free(t);
	/* nothing at all is a set of nothing */
	buf_clear(&blob);
	assert_int_equal(trust_pack((const uint8_t *)"", 0, NULL, 0, &blob, &left, &err), 0);
	t = map_bytes(buf_data(&blob), buf_len(&blob), true);
	assert_int_equal(trust_count(t), 0);
	trust_free(t);
	buf_fini(&pem);
	buf_fini(&blob);
	pki_free(&a);
	pki_free(&b);
}

/* Every octet of header and index changed, and every length: mapped or refused, and what is mapped can be looked up in. */
static void damaged_blobs(void **state)
{
	struct pki a, b;
	struct buf pem = { 0 }, blob = { 0 };
	struct err err = ERR_INIT;
	unsigned left, refused = 0;
	X509 *leaf;

	(void)state;
	pki_make(&a);
	pki_make(&b);
	add_pem(&pem, a.cert);
	add_pem(&pem, b.cert);
	assert_int_equal(trust_pack(buf_data(&pem), buf_len(&pem), NULL, 0, &blob, &left, &err), 0);
	leaf = leaf_of(&a, "a.example");
	for (size_t i = 0; i < 16 + 2 * 16; i++) {
		for (int bit = 0; bit < 8; bit++) {
			struct trust *t = NULL;
			X509_STORE *s;
			int fd = memfd_create("t", MFD_CLOEXEC);

			buf_data(&blob)[i] ^= (uint8_t)(1 << bit);
			assert_true(write(fd, buf_data(&blob), buf_len(&blob)) == (ssize_t)buf_len(&blob));
			buf_data(&blob)[i] ^= (uint8_t)(1 << bit);
			if (trust_map(&t, fd, &err) < 0) {
				refused++;
			} else {
				s = trust_store_new(t);
				verify(s, leaf); /* either way, without reading outside */
				X509_STORE_free(s);
				trust_free(t);
			}
			close(fd);
		}
	}
	assert_true(refused > 100);
	for (size_t n = 0; n < buf_len(&blob); n += 7)
		map_bytes(buf_data(&blob), n, false);
	X509_free(leaf);
	buf_fini(&pem);
	buf_fini(&blob);
	pki_free(&a);
	pki_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(chains_verify), cmocka_unit_test(what_is_left_out), cmocka_unit_test(damaged_blobs) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
