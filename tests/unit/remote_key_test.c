/* SPDX-License-Identifier: Apache-2.0 */
/* A handshake with a client's certificate whose key is elsewhere: it stands still until there is a signature; EC, RSA and Ed25519, TLS 1.2 and 1.3. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <openssl/async.h>
#include <openssl/err.h>
#include <openssl/rsa.h>
#include <openssl/ssl.h>

#include "../../proxy/worker/remote_key.h"

static EVP_PKEY *real, *remote;
static X509 *cert;
static unsigned paused, pauses, asked;
static bool fails;
static uint16_t scheme;
static uint8_t message[65536];
static size_t message_n;

static size_t signature(uint16_t s, const uint8_t *m, size_t n, uint8_t sig[REMOTE_SIGNATURE_MAX])
{
	const EVP_MD *md = s == 0x0807 ? NULL : (s & 0xff) == 5 || s >> 8 == 5 ? EVP_sha384() : (s & 0xff) == 6 || s >> 8 == 6 ? EVP_sha512()
													  : EVP_sha256();
	EVP_MD_CTX *c = EVP_MD_CTX_new();
	EVP_PKEY_CTX *k;
	size_t len = REMOTE_SIGNATURE_MAX;

	asked++;
	scheme = s;
	assert_true(n <= sizeof(message));
	memcpy(message, m, n);
	message_n = n;
	for (unsigned i = 0; i < pauses; i++) {
		paused++;
		ASYNC_pause_job();
	}
	assert_int_equal(EVP_DigestSignInit(c, &k, md, NULL, real), 1);
	if (s >> 8 == 8 && s != 0x0807) {
		EVP_PKEY_CTX_set_rsa_padding(k, RSA_PKCS1_PSS_PADDING);
		EVP_PKEY_CTX_set_rsa_pss_saltlen(k, RSA_PSS_SALTLEN_DIGEST);
	}
	assert_int_equal(EVP_DigestSign(c, sig, &len, m, n), 1);
	EVP_MD_CTX_free(c);
	return fails ? 0 : len;
}

static int on_wanted(SSL *ssl, X509 **x, EVP_PKEY **k)
{
	if (SSL_get_app_data(ssl) == NULL) {
		SSL_set_app_data(ssl, ssl);
		return -1;
	}
	X509_up_ref(cert);
	EVP_PKEY_up_ref(remote);
	*x = cert;
	*k = remote;
	return 1;
}

static int any(int ok, X509_STORE_CTX *c)
{
	(void)ok;
	(void)c;
	return 1;
}

static X509 *certificate(EVP_PKEY *k)
{
	X509 *x = X509_new();

	X509_set_version(x, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
	X509_gmtime_adj(X509_getm_notBefore(x), 0);
	X509_gmtime_adj(X509_getm_notAfter(x), 60);
	X509_set_pubkey(x, k);
	X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC, (const unsigned char *)"agent", -1, -1, 0);
	X509_set_issuer_name(x, X509_get_subject_name(x));
	assert_true(X509_sign(x, k, EVP_PKEY_is_a(k, "ED25519") ? NULL : EVP_sha256()) > 0);
	return x;
}

/* Whether it comes about; how often it stood still. */
static bool handshake(int version, unsigned *stops)
{
	SSL_CTX *sc = SSL_CTX_new(TLS_server_method()), *cc = SSL_CTX_new(TLS_client_method());
	EVP_PKEY *server_key = EVP_EC_gen("P-256");
	X509 *server_cert = certificate(server_key), *seen;
	BIO *b1, *b2;
	SSL *s, *c;
	bool ok;

	SSL_CTX_use_certificate(sc, server_cert);
	SSL_CTX_use_PrivateKey(sc, server_key);
	SSL_CTX_set_verify(sc, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, any);
	SSL_CTX_set_client_cert_cb(cc, on_wanted);
	s = SSL_new(sc);
	c = SSL_new(cc);
	assert_int_equal(BIO_new_bio_pair(&b1, 0, &b2, 0), 1);
	SSL_set_bio(s, b1, b1);
	SSL_set_bio(c, b2, b2);
	SSL_set_min_proto_version(c, version);
	SSL_set_max_proto_version(c, version);
	SSL_set_accept_state(s);
	SSL_set_connect_state(c);
	*stops = 0;
	for (int i = 0; i < 40; i++) {
		int r = SSL_do_handshake(c), e = SSL_get_error(c, r);

		if (e == SSL_ERROR_WANT_X509_LOOKUP) {
			SSL_set_mode(c, SSL_MODE_ASYNC);
			continue;
		}
		*stops += e == SSL_ERROR_WANT_ASYNC;
		if (e == SSL_ERROR_SSL)
			break;
		SSL_do_handshake(s);
	}
	ok = SSL_is_init_finished(s) && SSL_is_init_finished(c);
	seen = SSL_get0_peer_certificate(s);
	if (ok)
		assert_int_equal(X509_cmp(seen, cert), 0);
	ERR_clear_error();
	SSL_free(s);
	SSL_free(c);
	SSL_CTX_free(sc);
	SSL_CTX_free(cc);
	X509_free(server_cert);
	EVP_PKEY_free(server_key);
	return ok;
}

static void handshakes(void **state)
{
	static const struct {
		const char *curve; /* NULL: RSA */
		uint16_t tls12, tls13;
	} t[] = { { "P-256", 0x0403, 0x0403 }, { "P-384", 0, 0x0503 }, { "P-521", 0, 0x0603 }, { "ED25519", 0x0807, 0x0807 }, { NULL, 0, 0 } };
	unsigned stops;

	(void)state;
	remote_key_signer(signature);
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		real = t[i].curve == NULL ? EVP_RSA_gen(2048) : strcmp(t[i].curve, "ED25519") == 0 ? EVP_PKEY_Q_keygen(NULL, NULL, "ED25519") : EVP_EC_gen(t[i].curve);
		cert = certificate(real);
		remote = remote_key_new(X509_get0_pubkey(cert));
		assert_non_null(remote);
		for (pauses = 0; pauses < 3; pauses++) {
			asked = 0;
			assert_true(handshake(TLS1_3_VERSION, &stops));
			assert_int_equal(stops, pauses);
			assert_int_equal(asked, 1);
			if (t[i].tls13 != 0)
				assert_int_equal(scheme, t[i].tls13);
			else
				assert_int_equal(scheme >> 8, 8);
			assert_memory_equal(message + 64, "TLS 1.3, client CertificateVerify", 34);
			assert_true(handshake(TLS1_2_VERSION, &stops));
			assert_int_equal(stops, pauses);
			assert_int_equal(message[0], 1); /* the messages from ClientHello on */
			if (t[i].tls12 != 0)
				assert_int_equal(scheme, t[i].tls12);
		}
		fails = true;
		pauses = 1;
		assert_false(handshake(TLS1_3_VERSION, &stops));
		fails = false;
		EVP_PKEY_free(real);
		EVP_PKEY_free(remote);
		X509_free(cert);
	}
}

static void others(void **state)
{
	EVP_PKEY *k = EVP_PKEY_Q_keygen(NULL, NULL, "ED448"), *a = EVP_EC_gen("P-256"), *b = EVP_EC_gen("P-256"), *r = remote_key_new(a), *e = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519"), *f = remote_key_new(e);

	(void)state;
	assert_null(remote_key_new(k));
	assert_int_equal(EVP_PKEY_eq(a, r), 1);
	assert_int_not_equal(EVP_PKEY_eq(b, r), 1);
	assert_int_equal(EVP_PKEY_eq(e, f), 1);
	assert_int_not_equal(EVP_PKEY_eq(a, f), 1);
	EVP_PKEY_free(e);
	EVP_PKEY_free(f);
	EVP_PKEY_free(k);
	EVP_PKEY_free(a);
	EVP_PKEY_free(b);
	EVP_PKEY_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(handshakes), cmocka_unit_test(others) };

	remote_key_warm();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
