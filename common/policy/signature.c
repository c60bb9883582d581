/* SPDX-License-Identifier: Apache-2.0 */
#include "signature.h"

#include <openssl/evp.h>
#include <string.h>

#include "../base/must.h"
#include "image.h"

#define MAGIC "SPSIGN\0\1"
#define CONTEXT "sallyport policy table" /* with its NUL: nothing else is ever signed under it */
#define KEY_PREFIX "ed25519/"
enum { AT_KEY = 8, AT_SIG = AT_KEY + SIGNATURE_KEY_LEN };

size_t signature_body(const uint8_t *p, size_t n)
{
	return n > SIGNATURE_LEN && n % IMAGE_PAGE == SIGNATURE_LEN && memcmp(p + n - SIGNATURE_LEN, MAGIC, AT_KEY) == 0 ? n - SIGNATURE_LEN : n;
}

static void message(const uint8_t *p, size_t n, uint8_t out[sizeof(CONTEXT) + 32])
{
	memcpy(out, CONTEXT, sizeof(CONTEXT));
	MUST(EVP_Digest(p, n, out + sizeof(CONTEXT), NULL, EVP_sha256(), NULL) == 1);
}

int signature_check(const uint8_t *p, size_t n, uint8_t key[SIGNATURE_KEY_LEN], struct err *err)
{
	size_t body = signature_body(p, n);
	uint8_t m[sizeof(CONTEXT) + 32];
	EVP_PKEY *k = NULL;
	EVP_MD_CTX *c = NULL;
	int ret = -1;

	memset(key, 0, SIGNATURE_KEY_LEN);
	if (body == n)
		return 0;
	message(p, body, m);
	k = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, p + body + AT_KEY, SIGNATURE_KEY_LEN);
	c = EVP_MD_CTX_new();
	if (k == NULL || c == NULL || EVP_DigestVerifyInit(c, NULL, NULL, NULL, k) != 1 || EVP_DigestVerify(c, p + body + AT_SIG, SIGNATURE_LEN - AT_SIG, m, sizeof(m)) != 1) {
		err_set(err, 1, "the table's signature is wrong");
		goto out;
	}
	memcpy(key, p + body + AT_KEY, SIGNATURE_KEY_LEN);
	ret = 1;
out:
	EVP_MD_CTX_free(c);
	EVP_PKEY_free(k);
	return ret;
}

int signature_make(const uint8_t *p, size_t n, const uint8_t seed[32], uint8_t out[SIGNATURE_LEN], struct err *err)
{
	EVP_PKEY *k = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed, 32);
	EVP_MD_CTX *c = EVP_MD_CTX_new();
	size_t key_n = SIGNATURE_KEY_LEN, sig_n = SIGNATURE_LEN - AT_SIG;
	uint8_t m[sizeof(CONTEXT) + 32];
	int ret = -1;

	memcpy(out, MAGIC, AT_KEY);
	message(p, n, m);
	if (k == NULL || c == NULL || EVP_PKEY_get_raw_public_key(k, out + AT_KEY, &key_n) != 1 || EVP_DigestSignInit(c, NULL, NULL, NULL, k) != 1 ||
		EVP_DigestSign(c, out + AT_SIG, &sig_n, m, sizeof(m)) != 1)
		err_set(err, 1, "the table cannot be signed");
	else
		ret = 0;
	EVP_MD_CTX_free(c);
	EVP_PKEY_free(k);
	return ret;
}

bool signature_key_parse(struct str text, uint8_t key[SIGNATURE_KEY_LEN])
{
	uint8_t raw[36], again[48];
	struct str prefix = STR(KEY_PREFIX);
	char b64[45];

	if (text.n != prefix.n + 44 || !str_starts(text, prefix))
		return false;
	memcpy(b64, text.p + prefix.n, 44);
	b64[44] = 0;
	if (EVP_DecodeBlock(raw, (const unsigned char *)b64, 44) != 33)
		return false;
	EVP_EncodeBlock(again, raw, SIGNATURE_KEY_LEN); /* one spelling only */
	if (memcmp(again, b64, 44) != 0)
		return false;
	memcpy(key, raw, SIGNATURE_KEY_LEN);
	return true;
}

void signature_key_format(const uint8_t key[SIGNATURE_KEY_LEN], char out[SIGNATURE_KEY_TEXT_MAX])
{
	memcpy(out, KEY_PREFIX, sizeof(KEY_PREFIX) - 1);
	EVP_EncodeBlock((unsigned char *)out + sizeof(KEY_PREFIX) - 1, key, SIGNATURE_KEY_LEN);
}
