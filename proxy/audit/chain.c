/* SPDX-License-Identifier: Apache-2.0 */
#include "chain.h"

#include <errno.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../../common/base/must.h"

const char chain_zero[CHAIN_HEX + 1] = "0000000000000000000000000000000000000000000000000000000000000000";

struct chain {
	EVP_MAC *mac;
	EVP_MAC_CTX *ctx;
};

struct chain *chain_new(const uint8_t key[CHAIN_KEY_LEN])
{
	struct chain *c = must_calloc(1, sizeof(*c));
	OSSL_PARAM params[] = { OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, (char *)"SHA256", 0), OSSL_PARAM_construct_end() };

	c->mac = EVP_MAC_fetch(NULL, "HMAC", NULL);
	c->ctx = c->mac != NULL ? EVP_MAC_CTX_new(c->mac) : NULL;
	MUST(c->ctx != NULL && EVP_MAC_init(c->ctx, key, CHAIN_KEY_LEN, params) == 1);
	return c;
}

void chain_free(struct chain *c)
{
	if (c == NULL)
		return;
	EVP_MAC_CTX_free(c->ctx);
	EVP_MAC_free(c->mac);
	free(c);
}

struct chain *chain_load(int key_fd, struct err *err)
{
	uint8_t key[CHAIN_KEY_LEN + 1];
	ssize_t n = pread(key_fd, key, sizeof(key), 0);
	struct chain *c = NULL;

	if (n < 0)
		err_errno(err, "cannot read the chain key");
	else if (n != CHAIN_KEY_LEN)
		err_set(err, EINVAL, "the chain key is not %d octets long", CHAIN_KEY_LEN);
	else
		c = chain_new(key);
	explicit_bzero(key, sizeof(key));
	return c;
}

static void hex_of(const uint8_t *p, size_t n, char *out)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < n; i++) {
		out[2 * i] = digits[p[i] >> 4];
		out[2 * i + 1] = digits[p[i] & 15];
	}
}

/* NULL key: the one it was made with. */
static void begin(struct chain *c) { MUST(EVP_MAC_init(c->ctx, NULL, 0, NULL) == 1); }
static void feed(struct chain *c, const void *p, size_t n) { MUST(EVP_MAC_update(c->ctx, p, n) == 1); }

static void end(struct chain *c, uint8_t out[32])
{
	size_t n = 0;

	MUST(EVP_MAC_final(c->ctx, out, &n, 32) == 1 && n == 32);
}

void chain_hash(struct chain *c, struct str before, const char prev[CHAIN_HEX], char hash[CHAIN_HEX])
{
	uint8_t mac[32];

	begin(c);
	feed(c, prev, CHAIN_HEX);
	feed(c, before.p, before.n);
	feed(c, &RECORD_END[1], sizeof(RECORD_END) - 3); /* the braces, without quote and line break */
	end(c, mac);
	hex_of(mac, sizeof(mac), hash);
}

void chain_checkpoint_mac(struct chain *c, uint64_t sequence, const char prev[CHAIN_HEX], char out[CHAIN_HEX])
{
	char text[160];
	uint8_t mac[32];
	int n = snprintf(text, sizeof(text), "sallyport checkpoint %llu %.*s", (unsigned long long)sequence, CHAIN_HEX, prev);

	begin(c);
	feed(c, text, (size_t)n);
	end(c, mac);
	hex_of(mac, sizeof(mac), out);
}

void chain_seed(struct chain *c, uint8_t out[16])
{
	uint8_t mac[32];

	begin(c);
	feed(c, "sallyport uid", 13);
	end(c, mac);
	memcpy(out, mac, 16);
	explicit_bzero(mac, sizeof(mac));
}

static bool is_hex(const char *p)
{
	for (int i = 0; i < CHAIN_HEX; i++)
		if (!((p[i] >= '0' && p[i] <= '9') || (p[i] >= 'a' && p[i] <= 'f')))
			return false;
	return true;
}

/*
 * The text behind key, if that stands in the line. A quote inside a JSON string has a backslash before it, so that a key
 * with its quotes and comma can only be a key: no value can imitate it.
 */
static struct str behind(struct str line, const char *key)
{
	ptrdiff_t at = str_find(line, str_of(key));
	size_t skip = strlen(key);

	return at < 0 ? STR_NONE : str_mk(line.p + at + skip, line.n - (size_t)at - skip);
}

bool chain_parse(struct str line, struct chain_link *out)
{
	static const char chain_key[] = ",\"chain\":{\"prev\":\"";
	const size_t tail = sizeof(chain_key) - 1 + CHAIN_HEX + 1 + sizeof(RECORD_HASH_KEY) - 1 + CHAIN_HEX + sizeof(RECORD_END) - 2;
	const char *p;
	struct str s;
	size_t digits = 0;

	if (line.n < tail || memchr(line.p, '\n', line.n) != NULL)
		return false;
	p = line.p + line.n - tail;
	if (memcmp(p, chain_key, sizeof(chain_key) - 1) != 0)
		return false;
	p += sizeof(chain_key) - 1;
	out->prev = p;
	p += CHAIN_HEX;
	if (!is_hex(out->prev) || *p++ != '"')
		return false;
	out->before = str_mk(line.p, (size_t)(p - line.p));
	if (memcmp(p, RECORD_HASH_KEY, sizeof(RECORD_HASH_KEY) - 1) != 0)
		return false;
	p += sizeof(RECORD_HASH_KEY) - 1;
	out->hash = p;
	if (!is_hex(out->hash) || memcmp(p + CHAIN_HEX, RECORD_END, sizeof(RECORD_END) - 2) != 0)
		return false;
	s = behind(line, ",\"sequence\":");
	while (digits < s.n && digits < 20 && s.p[digits] >= '0' && s.p[digits] <= '9')
		digits++;
	if (!str_u64(str_mk(s.p, digits), UINT64_MAX, &out->sequence))
		return false;
	out->checkpoint_mac = STR_NONE;
	s = behind(line, ",\"checkpoint\":{\"records\":");
	if (s.n > 0) {
		s = behind(s, ",\"mac\":\"");
		if (s.n < CHAIN_HEX)
			return false;
		out->checkpoint_mac = str_mk(s.p, CHAIN_HEX);
	}
	return true;
}

const char *chain_check(struct chain *c, const struct chain_link *l)
{
	char want[CHAIN_HEX];

	chain_hash(c, l->before, l->prev, want);
	if (CRYPTO_memcmp(want, l->hash, CHAIN_HEX) != 0)
		return "its hash is wrong: the record was changed";
	if (l->checkpoint_mac.n == 0)
		return NULL;
	chain_checkpoint_mac(c, l->sequence, l->prev, want);
	return CRYPTO_memcmp(want, l->checkpoint_mac.p, CHAIN_HEX) == 0 ? NULL : "its checkpoint is wrong";
}

static void anchor_mac(struct chain *c, const struct chain_anchor *a, char out[CHAIN_HEX])
{
	char text[160];
	uint8_t mac[32];
	int n = snprintf(text, sizeof(text), "sallyport anchor %llu %.*s", (unsigned long long)a->sequence, CHAIN_HEX, a->hash);

	begin(c);
	feed(c, text, (size_t)n);
	end(c, mac);
	hex_of(mac, sizeof(mac), out);
}

#define ANCHOR_HEAD "sallyport-checkpoint 1 "

void chain_anchor_format(struct chain *c, const struct chain_anchor *a, struct buf *out)
{
	char mac[CHAIN_HEX];

	anchor_mac(c, a, mac);
	buf_addz(out, ANCHOR_HEAD);
	buf_addu(out, a->sequence);
	buf_addc(out, ' ');
	buf_add(out, a->hash, CHAIN_HEX);
	buf_addc(out, ' ');
	buf_add(out, mac, CHAIN_HEX);
	buf_addc(out, '\n');
}

bool chain_anchor_parse(struct chain *c, struct str text, struct chain_anchor *out)
{
	const size_t tail = 1 + CHAIN_HEX + 1 + CHAIN_HEX + 1;
	struct str head = STR(ANCHOR_HEAD);
	char mac[CHAIN_HEX];
	const char *p;

	if (text.n < head.n + 1 + tail || !str_starts(text, head))
		return false;
	p = text.p + text.n - tail;
	if (p[0] != ' ' || p[1 + CHAIN_HEX] != ' ' || p[tail - 1] != '\n' || !is_hex(p + 1) || !is_hex(p + 2 + CHAIN_HEX))
		return false;
	if (!str_u64(str_mk(text.p + head.n, text.n - head.n - tail), UINT64_MAX, &out->sequence))
		return false;
	memcpy(out->hash, p + 1, CHAIN_HEX);
	anchor_mac(c, out, mac);
	return CRYPTO_memcmp(mac, p + 2 + CHAIN_HEX, CHAIN_HEX) == 0;
}

uint32_t chain_rotated_number(const char *name)
{
	struct str s = str_of(name);
	uint64_t n = 0;

	if (!str_starts(s, STR("audit-")) || !str_ends(s, STR(".jsonl")) || s.n < 6 + 1 + 6 || !str_u64(str_mk(s.p + 6, s.n - 12), UINT32_MAX, &n))
		return 0;
	return (uint32_t)n;
}
