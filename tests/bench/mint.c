/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mint: what a certificate for a new name costs a process that makes it itself, in the plain way of OpenSSL's manual: a new X509
 * with the extensions that the ca's leaves have, one key for all, signed, and given to a connection. Reads how
 * many, a line each time, and prints processor microseconds each.
 */
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CHECK(ok) ((ok) ? (void)0 : (fprintf(stderr, "mint: line %d\n", __LINE__), exit(1)))

static void extend(X509 *x, X509 *issuer, int nid, const char *value)
{
	X509V3_CTX c;
	X509_EXTENSION *e;

	X509V3_set_ctx(&c, issuer, x, NULL, NULL, 0);
	e = X509V3_EXT_conf_nid(NULL, &c, nid, value);
	CHECK(e != NULL && X509_add_ext(x, e, -1) == 1);
	X509_EXTENSION_free(e);
}

static X509 *make(const char *host, EVP_PKEY *key, X509 *issuer, EVP_PKEY *by)
{
	X509 *x = X509_new();
	BIGNUM *serial = BN_new();
	char san[300];

	CHECK(x != NULL && serial != NULL && BN_rand(serial, 126, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1);
	CHECK(X509_set_version(x, 2) == 1 && BN_to_ASN1_INTEGER(serial, X509_get_serialNumber(x)) != NULL);
	X509_gmtime_adj(X509_getm_notBefore(x), -172800);
	X509_gmtime_adj(X509_getm_notAfter(x), 432000);
	X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC, (const unsigned char *)host, -1, -1, 0);
	X509_set_issuer_name(x, X509_get_subject_name(issuer != NULL ? issuer : x));
	CHECK(X509_set_pubkey(x, key) == 1);
	extend(x, issuer != NULL ? issuer : x, NID_basic_constraints, issuer != NULL ? "critical,CA:FALSE" : "critical,CA:TRUE");
	extend(x, issuer != NULL ? issuer : x, NID_key_usage, issuer != NULL ? "critical,digitalSignature" : "critical,keyCertSign");
	extend(x, issuer != NULL ? issuer : x, NID_subject_key_identifier, "hash");
	if (issuer != NULL) {
		extend(x, issuer, NID_authority_key_identifier, "keyid");
		extend(x, issuer, NID_ext_key_usage, "serverAuth");
		snprintf(san, sizeof(san), "DNS:%s", host);
		extend(x, issuer, NID_subject_alt_name, san);
	}
	CHECK(X509_sign(x, by, EVP_sha256()) > 0);
	BN_free(serial);
	return x;
}

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static EVP_PKEY *ca_key, *leaf_key;
static SSL_CTX *ctx;
static X509 *ca;

static double mint(int n)
{
	static unsigned number;
	double start = now_us();

	for (int i = 0; i < n; i++) {
		SSL *ssl = SSL_new(ctx);
		char host[64];
		X509 *x;

		snprintf(host, sizeof(host), "n%u.names.test", number++);
		x = make(host, leaf_key, ca, ca_key);
		CHECK(SSL_use_certificate(ssl, x) == 1 && SSL_use_PrivateKey(ssl, leaf_key) == 1);
		X509_free(x);
		SSL_free(ssl);
	}
	return (now_us() - start) / n;
}

int main(void)
{
	int n;

	ca_key = EVP_EC_gen("P-256");
	leaf_key = EVP_EC_gen("P-256");
	ctx = SSL_CTX_new(TLS_server_method());
	CHECK(ca_key != NULL && leaf_key != NULL && ctx != NULL);
	ca = make("bench ca", ca_key, NULL, ca_key);
	mint(20); /* the first ones fetch algorithms */
	while (scanf("%d", &n) == 1 && n > 0) {
		printf("%.1f\n", mint(n));
		fflush(stdout);
	}
	return 0;
}
