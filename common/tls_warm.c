/* SPDX-License-Identifier: Apache-2.0 */
#include "tls_warm.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "base/must.h"

void tls_warm_handshakes(SSL_CTX *server, SSL_CTX *client)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *x = X509_new();
	SSL *s, *c;
	BIO *b1, *b2;
	unsigned char *der = NULL;
	int n;

	MUST(key != NULL && x != NULL);
	X509_set_version(x, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
	X509_gmtime_adj(X509_getm_notBefore(x), 0);
	X509_gmtime_adj(X509_getm_notAfter(x), 60);
	X509_set_pubkey(x, key);
	X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC, (const unsigned char *)"warm", -1, -1, 0);
	X509_set_issuer_name(x, X509_get_subject_name(x));
	MUST(X509_sign(x, key, EVP_sha256()) > 0);
	n = i2d_X509(x, &der);
	MUST(n > 0);
	OPENSSL_free(der);
	for (int version = TLS1_2_VERSION; version <= TLS1_3_VERSION; version++) {
		SSL_CTX_use_certificate(server, x);
		SSL_CTX_use_PrivateKey(server, key);
		s = SSL_new(server);
		c = SSL_new(client);
		MUST(s != NULL && c != NULL && BIO_new_bio_pair(&b1, 0, &b2, 0) == 1);
		SSL_set_bio(s, b1, b1);
		SSL_set_bio(c, b2, b2);
		SSL_set_verify(c, SSL_VERIFY_NONE, NULL);
		SSL_set_max_proto_version(c, version);
		SSL_set_tlsext_host_name(c, "warm.invalid");
		SSL_set_accept_state(s);
		SSL_set_connect_state(c);
		for (int i = 0; i < 10 && !(SSL_is_init_finished(s) && SSL_is_init_finished(c)); i++) {
			SSL_do_handshake(c);
			SSL_do_handshake(s);
		}
		MUST(SSL_is_init_finished(s) && SSL_is_init_finished(c));
		SSL_free(s);
		SSL_free(c);
	}
	(void)X509_verify_cert_error_string(X509_V_ERR_CERT_HAS_EXPIRED);
	(void)ERR_reason_error_string(ERR_PACK(ERR_LIB_SSL, 0, SSL_R_BAD_SSL_FILETYPE));
	ERR_clear_error();
	X509_free(x);
	EVP_PKEY_free(key);
}
