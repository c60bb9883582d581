/* SPDX-License-Identifier: Apache-2.0 */
#include "chain.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "../../common/base/must.h"

static const char prev_key[] = ",\"chain\":{\"prev\":\"", hash_key[] = "\",\"hash\":\"", tail[] = "\"}}}}";
#define PREV_LEN (sizeof(prev_key) - 1)
#define HASH_LEN (sizeof(hash_key) - 1)
#define TAIL_LEN (sizeof(tail) - 1)
#define CHAIN_LEN (PREV_LEN + CHAIN_HEX + HASH_LEN + CHAIN_HEX + TAIL_LEN)

static void mac(const uint8_t *p, size_t n, const uint8_t key[CHAIN_KEY_LEN], char hex[CHAIN_HEX + 1])
{
	static const char digits[] = "0123456789abcdef";
	uint8_t md[32];
	unsigned len = 0;

	MUST(HMAC(EVP_sha256(), key, CHAIN_KEY_LEN, p, n, md, &len) != NULL && len == 32);
	for (int i = 0; i < 32; i++) {
		hex[2 * i] = digits[md[i] >> 4];
		hex[2 * i + 1] = digits[md[i] & 15];
	}
	hex[CHAIN_HEX] = 0;
}

void chain_close(struct buf *line, const uint8_t key[CHAIN_KEY_LEN], char prev[CHAIN_HEX + 1])
{
	buf_add(line, prev_key, PREV_LEN);
	buf_add(line, prev, CHAIN_HEX);
	mac(buf_data(line), buf_len(line), key, prev);
	buf_add(line, hash_key, HASH_LEN);
	buf_add(line, prev, CHAIN_HEX);
	buf_add(line, tail, TAIL_LEN);
	buf_addc(line, '\n');
}

static bool well_formed(struct str l)
{
	const char *p = l.p + l.n - CHAIN_LEN;

	return l.n > CHAIN_LEN && memcmp(p, prev_key, PREV_LEN) == 0 && memcmp(p + PREV_LEN + CHAIN_HEX, hash_key, HASH_LEN) == 0 && memcmp(l.p + l.n - TAIL_LEN, tail, TAIL_LEN) == 0;
}

bool chain_hash_of(struct str l, char hash[CHAIN_HEX + 1])
{
	if (!well_formed(l))
		return false;
	memcpy(hash, l.p + l.n - TAIL_LEN - CHAIN_HEX, CHAIN_HEX);
	hash[CHAIN_HEX] = 0;
	return true;
}

enum chain_verdict chain_check(struct str l, const uint8_t key[CHAIN_KEY_LEN], char prev[CHAIN_HEX + 1])
{
	char hex[CHAIN_HEX + 1];

	if (!well_formed(l))
		return CHAIN_BAD_FORM;
	if (memcmp(l.p + l.n - CHAIN_LEN + PREV_LEN, prev, CHAIN_HEX) != 0)
		return CHAIN_BAD_PREV;
	mac((const uint8_t *)l.p, l.n - TAIL_LEN - CHAIN_HEX - HASH_LEN, key, hex);
	if (CRYPTO_memcmp(hex, l.p + l.n - TAIL_LEN - CHAIN_HEX, CHAIN_HEX) != 0)
		return CHAIN_BAD_HASH;
	memcpy(prev, hex, CHAIN_HEX + 1);
	return CHAIN_OK;
}
