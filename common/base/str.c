/* SPDX-License-Identifier: Apache-2.0 */
#include "str.h"

#include "must.h"

static uint64_t sip_k0 = 0x0706050403020100ULL, sip_k1 = 0x0f0e0d0c0b0a0908ULL;

bool str_ieq(struct str a, struct str b)
{
	if (a.n != b.n)
		return false;
	for (size_t i = 0; i < a.n; i++)
		if (ascii_lower(a.p[i]) != ascii_lower(b.p[i]))
			return false;
	return true;
}

bool str_alike(struct str a, struct str b)
{
	if (a.n != b.n)
		return false;
	for (size_t i = 0; i < a.n; i++) {
		char x = ascii_lower(a.p[i]), y = ascii_lower(b.p[i]);

		if ((x == '_' ? '-' : x) != (y == '_' ? '-' : y))
			return false;
	}
	return true;
}

char *str_dupz(struct str s)
{
	char *z = must_malloc(s.n + 1);

	if (s.n > 0)
		memcpy(z, s.p, s.n);
	z[s.n] = 0;
	return z;
}

bool str_starts(struct str s, struct str prefix)
{
	return s.n >= prefix.n && (prefix.n == 0 || memcmp(s.p, prefix.p, prefix.n) == 0);
}

bool str_ends(struct str s, struct str suffix)
{
	return s.n >= suffix.n && (suffix.n == 0 || memcmp(s.p + s.n - suffix.n, suffix.p, suffix.n) == 0);
}

bool str_u64(struct str s, uint64_t max, uint64_t *out)
{
	uint64_t v = 0;

	if (s.n == 0 || s.n > 20 || (s.n > 1 && s.p[0] == '0'))
		return false;
	for (size_t i = 0; i < s.n; i++) {
		unsigned d = (unsigned)(unsigned char)s.p[i] - '0';
		if (d > 9 || v > (UINT64_MAX - d) / 10)
			return false;
		v = v * 10 + d;
	}
	if (v > max)
		return false;
	*out = v;
	return true;
}

ptrdiff_t str_find(struct str hay, struct str needle)
{
	const char *at;

	if (needle.n == 0)
		return 0;
	if (hay.n < needle.n)
		return -1;
	at = memmem(hay.p, hay.n, needle.p, needle.n);
	return at == NULL ? -1 : at - hay.p;
}

void hash_seed(const uint8_t key[16])
{
	memcpy(&sip_k0, key, 8);
	memcpy(&sip_k1, key + 8, 8);
}

#define ROTL(x, b) (((x) << (b)) | ((x) >> (64 - (b))))
#define SIPROUND \
	do { \
		v0 += v1; v1 = ROTL(v1, 13); v1 ^= v0; v0 = ROTL(v0, 32); \
		v2 += v3; v3 = ROTL(v3, 16); v3 ^= v2; \
		v0 += v3; v3 = ROTL(v3, 21); v3 ^= v0; \
		v2 += v1; v1 = ROTL(v1, 17); v1 ^= v2; v2 = ROTL(v2, 32); \
	} while (0)

uint64_t hash_bytes(const void *data, size_t n)
{
	const uint8_t *p = data;
	uint64_t v0 = sip_k0 ^ 0x736f6d6570736575ULL, v1 = sip_k1 ^ 0x646f72616e646f6dULL;
	uint64_t v2 = sip_k0 ^ 0x6c7967656e657261ULL, v3 = sip_k1 ^ 0x7465646279746573ULL;
	uint64_t last = (uint64_t)n << 56, m;
	size_t left = n;

	for (; left >= 8; p += 8, left -= 8) {
		memcpy(&m, p, 8);
		v3 ^= m;
		SIPROUND;
		SIPROUND;
		v0 ^= m;
	}
	for (size_t i = 0; i < left; i++)
		last |= (uint64_t)p[i] << (8 * i);
	v3 ^= last;
	SIPROUND;
	SIPROUND;
	v0 ^= last;
	v2 ^= 0xff;
	SIPROUND;
	SIPROUND;
	SIPROUND;
	SIPROUND;
	return v0 ^ v1 ^ v2 ^ v3;
}
