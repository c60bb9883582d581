/* SPDX-License-Identifier: Apache-2.0 */
#include "sign.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
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
