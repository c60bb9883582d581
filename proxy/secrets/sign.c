/* SPDX-License-Identifier: Apache-2.0 */
#include "sign.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <stdio.h>
#include <string.h>

#include "../../common/base/must.h"
#include "../../common/sys/secret.h"

/* Base64 of either alphabet, with or without padding. Its octets in out (of s.n at least), or -1. */
static ptrdiff_t base64(struct str s, uint8_t *out)
{
	uint32_t bits = 0;
	unsigned have = 0;
	size_t n = 0, i = 0;

	for (; i < s.n && s.p[i] != '='; i++) {
		char c = s.p[i];
		int v = c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? c - 'a' + 26
						 : c >= '0' && c <= '9'	      ? c - '0' + 52
						 : c == '+' || c == '-'	      ? 62
						 : c == '/' || c == '_'	      ? 63
									      : -1;

		if (v < 0)
			return -1;
		bits = bits << 6 | (uint32_t)v;
		have += 6;
		if (have >= 8) {
			have -= 8;
			out[n++] = (uint8_t)(bits >> have);
		}
	}
	for (size_t k = i; k < s.n; k++)
		if (s.p[k] != '=' || k - i >= 2)
			return -1;
	return have >= 6 || (bits & ((1u << have) - 1)) != 0 ? -1 : (ptrdiff_t)n;
}

static ptrdiff_t hex(struct str s, uint8_t *out)
{
	for (size_t i = 0; i + 1 < s.n; i += 2) {
		int a = hex_value(s.p[i]), b = hex_value(s.p[i + 1]);

		if (a < 0 || b < 0)
			return -1;
		out[i / 2] = (uint8_t)(a << 4 | b);
	}
	return s.n % 2 == 0 ? (ptrdiff_t)(s.n / 2) : -1;
}

static ptrdiff_t key_of(enum hmac_key form, struct str value, uint8_t *out)
{
	switch (form) {
	case HMAC_KEY_BASE64:
		return base64(value, out);
	case HMAC_KEY_HEX:
		return hex(value, out);
	default:
		memcpy(out, value.p, value.n);
		return (ptrdiff_t)value.n;
	}
}

static size_t encode(enum hmac_encoding e, const uint8_t *md, size_t n, char *out)
{
	size_t len = 0;

	if (e == HMAC_HEX) {
		for (size_t i = 0; i < n; i++)
			len += (size_t)snprintf(out + len, 3, "%02x", md[i]);
		return len;
	}
	len = (size_t)EVP_EncodeBlock((unsigned char *)out, md, (int)n);
	for (size_t i = 0; e == HMAC_BASE64URL && i < len; i++)
		out[i] = (char)(out[i] == '+' ? '-' : out[i] == '/' ? '_'
								    : out[i]);
	while (e == HMAC_BASE64URL && len > 0 && out[len - 1] == '=') /* RFC 4648 5, without padding as JOSE has it */
		len--;
	return len;
}

size_t sign_hmac(const struct inject *in, struct str value, struct str message, char out[SIGN_TEXT_MAX], const char **cause)
{
	const EVP_MD *hash = in->hash == HMAC_SHA512 ? EVP_sha512() : in->hash == HMAC_SHA384 ? EVP_sha384()
							      : in->hash == HMAC_SHA1	      ? EVP_sha1()
											      : EVP_sha256();
	uint8_t key[SECRET_MAX], md[EVP_MAX_MD_SIZE];
	ptrdiff_t n = value.n <= sizeof(key) ? key_of(in->key, value, key) : -1;
	unsigned md_n = sizeof(md);
	size_t len = 0;

	if (n <= 0) {
		*cause = in->key == HMAC_KEY_TEXT ? "there is no key in it" : in->key == HMAC_KEY_HEX ? "the key is not in hex, as `key: hex` says"
												      : "the key is not in base64, as `key: base64` says";
	} else {
		MUST(HMAC(hash, key, (int)n, (const unsigned char *)(message.n > 0 ? message.p : ""), message.n, md, &md_n) != NULL);
		len = encode(in->encoding, md, md_n, out);
	}
	explicit_bzero(key, sizeof(key));
	return len;
}

/* --- client certificates ------------------------------------------------------------------------------------------- */

static int no_password(char *buf, int size, int writing, void *arg)
{
	(void)buf, (void)size, (void)writing, (void)arg;
	return -1;
}

static EVP_PKEY *private_key(struct str pem)
{
	BIO *b = BIO_new_mem_buf(pem.p, (int)pem.n);
	EVP_PKEY *k = b != NULL ? PEM_read_bio_PrivateKey(b, NULL, no_password, NULL) : NULL;

	BIO_free(b);
	ERR_clear_error();
	return k;
}

static void put_der(struct buf *der, X509 *x)
{
	unsigned char *p = NULL;
	int n = i2d_X509(x, &p);

	if (n > 0)
		buf_add(der, p, (size_t)n);
	OPENSSL_free(p);
}

static bool of_known_kind(const EVP_PKEY *k) { return EVP_PKEY_is_a(k, "EC") || EVP_PKEY_is_a(k, "RSA") || EVP_PKEY_is_a(k, "ED25519"); }

bool sign_certificates(struct str pem, struct buf *der, const char **cause)
{
	EVP_PKEY *k = private_key(pem);
	BIO *b = BIO_new_mem_buf(pem.p, (int)pem.n);
	STACK_OF(X509) *all = sk_X509_new_null();
	X509 *x;
	int own = -1;

	MUST(b != NULL && all != NULL);
	while ((x = PEM_read_bio_X509(b, NULL, no_password, NULL)) != NULL) {
		MUST(sk_X509_push(all, x) > 0);
		if (own < 0 && k != NULL && X509_check_private_key(x, k) == 1)
			own = sk_X509_num(all) - 1;
	}
	if (k == NULL)
		*cause = "there is no private key in it, in PEM and without a password";
	else if (sk_X509_num(all) == 0)
		*cause = "there is no certificate in it, in PEM: it holds key and certificate";
	else if (own < 0)
		*cause = "none of its certificates is for its key";
	else if (!of_known_kind(k))
		*cause = "its key is neither EC, RSA nor Ed25519";
	for (int i = -1; own >= 0 && i < sk_X509_num(all); i++)
		if (i != own)
			put_der(der, sk_X509_value(all, i < 0 ? own : i));
	if (buf_len(der) > SECRET_MAX) {
		*cause = "its certificates are larger than 16 KiB";
		own = -1;
	}
	own = k != NULL && of_known_kind(k) ? own : -1;
	sk_X509_pop_free(all, X509_free);
	BIO_free(b);
	EVP_PKEY_free(k);
	ERR_clear_error();
	return own >= 0;
}

static bool is_tls13(struct str m)
{
	static const char context[] = "TLS 1.3, client CertificateVerify"; /* with its zero */

	for (size_t i = 0; i < 64; i++)
		if (i >= m.n || m.p[i] != ' ')
			return false;
	return (m.n == 64 + sizeof(context) + 32 || m.n == 64 + sizeof(context) + 48) && memcmp(m.p + 64, context, sizeof(context)) == 0;
}

static bool is_tls12(struct str m)
{
	enum { CLIENT_HELLO = 1,
	       SERVER_HELLO = 2,
	       CLIENT_KEY_EXCHANGE = 16 };
	const uint8_t *p = (const uint8_t *)m.p;
	unsigned n = 0, type = 0;

	for (size_t at = 0; at < m.n; n++) {
		size_t len;

		if (m.n - at < 4)
			return false;
		type = p[at];
		len = (size_t)p[at + 1] << 16 | (size_t)p[at + 2] << 8 | p[at + 3];
		if (len > m.n - at - 4 || (n == 0 && (type != CLIENT_HELLO || len < 34 || p[at + 4] != 3)) || (n == 1 && type != SERVER_HELLO))
			return false;
		at += 4 + len;
	}
	return n >= 4 && type == CLIENT_KEY_EXCHANGE;
}

bool sign_is_tls(struct str message) { return is_tls13(message) || is_tls12(message); }

static bool signed_by(EVP_PKEY *k, uint16_t scheme, struct str message, uint8_t out[SIGN_TLS_MAX], size_t *n)
{
	static const struct {
		uint16_t scheme;
		const char *type, *digest;
		bool pss;
	} schemes[] = { { 0x0403, "EC", "SHA256", false }, { 0x0503, "EC", "SHA384", false }, { 0x0603, "EC", "SHA512", false }, { 0x0804, "RSA", "SHA256", true }, { 0x0805, "RSA", "SHA384", true }, { 0x0806, "RSA", "SHA512", true }, { 0x0401, "RSA", "SHA256", false }, { 0x0501, "RSA", "SHA384", false }, { 0x0601, "RSA", "SHA512", false }, { 0x0807, "ED25519", NULL, false } };
	EVP_MD_CTX *c = EVP_MD_CTX_new();
	EVP_PKEY_CTX *pc;
	bool ok = false;

	MUST(c != NULL);
	*n = SIGN_TLS_MAX;
	for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
		if (schemes[i].scheme != scheme || !EVP_PKEY_is_a(k, schemes[i].type))
			continue;
		ok = EVP_PKEY_get_size(k) <= SIGN_TLS_MAX && EVP_DigestSignInit_ex(c, &pc, schemes[i].digest, NULL, NULL, k, NULL) == 1 &&
		     (!schemes[i].pss || (EVP_PKEY_CTX_set_rsa_padding(pc, RSA_PKCS1_PSS_PADDING) > 0 && EVP_PKEY_CTX_set_rsa_pss_saltlen(pc, RSA_PSS_SALTLEN_DIGEST) > 0)) &&
		     EVP_DigestSign(c, out, n, (const unsigned char *)message.p, message.n) == 1;
	}
	EVP_MD_CTX_free(c);
	return ok;
}

size_t sign_tls(struct str pem, uint16_t scheme, struct str message, uint8_t out[SIGN_TLS_MAX], const char **cause)
{
	EVP_PKEY *k;
	size_t n = 0;

	if (!sign_is_tls(message)) {
		*cause = "what is to be signed is no handshake of TLS";
		return 0;
	}
	k = private_key(pem);
	if (k == NULL || !signed_by(k, scheme, message, out, &n)) {
		*cause = k == NULL ? "there is no private key in it, in PEM and without a password" : "its key does not sign so";
		n = 0;
	}
	EVP_PKEY_free(k);
	ERR_clear_error();
	return n;
}
