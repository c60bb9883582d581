/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_POLICY_FORMAT_H
#define SP_POLICY_FORMAT_H
/*
 * The compiled table, octet by octet. One LMDB file (MDB_NOSUBDIR), one unnamed database, sorted records:
 *
 *   "\0"                     header: magic "SPTABLE1", u32 format, str compiler, 32 octets digest, u8 flags, str name,
 *                            u32 destinations, u32 secrets, u8 depth of wildcards (0: none)
 *   "\1" u32be index         secret: u8 source, str name, str argument, u16 n, n x str host
 *   "\2"                     sandbox section: u16 n, n x { str key, str value } ("filesystem.write" "." ...)
 *   "\3" u8 scheme u16be port reversed-labels    destination, see table.c
 *
 * Integers are little-endian unless marked be; str is u16 length and octets. The digest is SHA-256 over all records but
 * the header, in order: u32 key length, key, u32 value length, value.
 */
#include "../base/buf.h"

#define TABLE_MAGIC "SPTABLE1"
#define TABLE_FORMAT 1u
#define TABLE_KEY_HEADER "\0"
enum { TABLE_FLAG_EXPLAIN = 1 };
enum { DEST_FLAG_LOG_QUERY = 1, DEST_FLAG_ENCODED_SLASH = 2, DEST_FLAG_EMPTY_SEGMENTS = 4, DEST_FLAG_RAW = 8, DEST_FLAG_TUNNEL = 16 };
enum { RULE_DENY = 1, RULE_ANY = 2 };

static inline void put_u8(struct buf *b, uint8_t v) { buf_addc(b, (char)v); }
static inline void put_u16(struct buf *b, uint16_t v) { uint8_t p[2] = { (uint8_t)v, (uint8_t)(v >> 8) }; buf_add(b, p, 2); }
static inline void put_u32(struct buf *b, uint32_t v)
{
	uint8_t p[4] = { (uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16), (uint8_t)(v >> 24) };
	buf_add(b, p, 4);
}
static inline void put_str(struct buf *b, struct str s) { put_u16(b, (uint16_t)s.n); buf_adds(b, s); }

/* A reader that cannot run past its end: once `bad` it only yields zeros. */
struct cursor {
	const uint8_t *p;
	size_t n, at;
	bool bad;
};
static inline const uint8_t *cur_take(struct cursor *c, size_t k)
{
	const uint8_t *p = c->p + c->at;

	if (c->bad || k > c->n - c->at) {
		c->bad = true;
		return NULL;
	}
	c->at += k;
	return p;
}
static inline uint8_t get_u8(struct cursor *c) { const uint8_t *p = cur_take(c, 1); return p ? *p : 0; }
static inline uint16_t get_u16(struct cursor *c) { const uint8_t *p = cur_take(c, 2); return p ? (uint16_t)(p[0] | p[1] << 8) : 0; }
static inline uint32_t get_u32(struct cursor *c)
{
	const uint8_t *p = cur_take(c, 4);
	return p ? (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24 : 0;
}
static inline struct str get_str(struct cursor *c)
{
	size_t n = get_u16(c);
	const uint8_t *p = cur_take(c, n);
	return p ? str_mk(p, n) : STR_NONE;
}
#endif
