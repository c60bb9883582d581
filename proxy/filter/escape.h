/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_FILTER_ESCAPE_H
#define SP_FILTER_ESCAPE_H
/*
 * One character written another way: %HH (RFC 3986 2.1) and the escapes of a JSON string (RFC 8259 7). Either begins with
 * an octet of its own, '%' or '\'.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#ifdef __SSE2__
#include <immintrin.h>
#endif

#define ESCAPE_MAX 12 /* "\ud83d\ude00" */

struct escape {
	uint8_t len;      /* of its text; 0: none stands there */
	uint8_t n, o[4];  /* what it means; beyond ASCII \uXXXX means the character's UTF-8 */
	int16_t latin;    /* ... or, below U+0100, one octet; -1: no second reading */
};
static inline bool escape_begins(uint8_t c) { return c == '%' || c == '\\'; }
void escape_read(const uint8_t *p, size_t n, struct escape *out);
/* The text p[0..n), one or more octets, is the beginning, not the whole, of an escape that stands for the first of o[0..on), or for several of them. */
bool escape_partial(const uint8_t *p, size_t n, const uint8_t *o, size_t on);
/* The first '%' or '\' of p[0..n); n: none. */
size_t escape_find(const uint8_t *p, size_t n);
size_t escape_find_portable(const uint8_t *p, size_t n);
/* Of p[0..64): bit i tells that octet i is one of them. */
static inline uint64_t escape_mask_portable(const uint8_t *p)
{
	uint64_t m = 0;

	for (size_t i = escape_find_portable(p, 64); i < 64; i++)
		m |= (uint64_t)escape_begins(p[i]) << i;
	return m;
}
#ifdef __SSE2__
static inline unsigned escape_mask_16(const uint8_t *p)
{
	__m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);

	return (unsigned)_mm_movemask_epi8(_mm_or_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8('%')), _mm_cmpeq_epi8(v, _mm_set1_epi8('\\'))));
}
static inline uint64_t escape_mask(const uint8_t *p) { return escape_mask_16(p) | (uint64_t)escape_mask_16(p + 16) << 16 | (uint64_t)escape_mask_16(p + 32) << 32 | (uint64_t)escape_mask_16(p + 48) << 48; }
/* The same, where the processor has AVX2. */
#define ESCAPE_AVX2 __attribute__((target("avx2")))
ESCAPE_AVX2 static inline uint64_t escape_mask_avx2(const uint8_t *p)
{
	const __m256i percent = _mm256_set1_epi8('%'), slash = _mm256_set1_epi8('\\');
	__m256i a = _mm256_loadu_si256((const __m256i *)(const void *)p), b = _mm256_loadu_si256((const __m256i *)(const void *)(p + 32));
	unsigned low = (unsigned)_mm256_movemask_epi8(_mm256_or_si256(_mm256_cmpeq_epi8(a, percent), _mm256_cmpeq_epi8(a, slash)));
	unsigned high = (unsigned)_mm256_movemask_epi8(_mm256_or_si256(_mm256_cmpeq_epi8(b, percent), _mm256_cmpeq_epi8(b, slash)));

	return low | (uint64_t)high << 32;
}
#else
static inline uint64_t escape_mask(const uint8_t *p) { return escape_mask_portable(p); }
#endif
#endif
