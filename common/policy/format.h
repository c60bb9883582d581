/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_POLICY_FORMAT_H
#define SP_POLICY_FORMAT_H
/*
 * The compiled table, octet by octet. One LMDB file (MDB_NOSUBDIR, data version 1, pages of 4096 octets), one unnamed
 * database, written in one transaction, every octet that carries nothing zero. Records in key order:
 *
 *   "\0"                     header: "SPTABLE\0", u32 format, 32 octets digest, u8 flags, u64 observe until (seconds since 1970,
 *                            0: it does not observe), str compiler, str name,
 *                            u32 destinations, u32 secrets, u8 n x wildcards at one label depth, by depth: { u8 labels
 *                            behind the wildcard, u8 flags, u64 bit i: there are "pre*" with a literal of i characters,
 *                            bit 0: "*" }, u32 n x { u8 scheme, u16 port } in order, each once: what destinations there
 *                            are for
 *   "\1" u32be index         secret: u8 source, str name, str argument, u32 n x str host (a pattern: host_pattern.h), u8 flags,
 *                            u8 token, u32 refresh_s, u32 n x { u8 tag, str } (of certificates u32 length and DER): secret_param.h
 *   "\2"                     sandbox section: u32 n x { str key, str value } ("filesystem.write" ".", ...)
 *   "\3" u8 scheme u16be port reversed-labels    destination: see below. Of a wildcard its own label is the last: "test.a.*"
 *
 * Integers are little-endian unless marked be; str is u16 length and octets. The digest is SHA-256 over all records in
 * order, each as u32 key length, key, u32 value length, value, with the digest itself taken as zero.
 *
 * Destination. A fixed part, then sections that follow one another without a gap, the texts last. A section is
 * { u32 offset, u32 count }, a ref { u32 offset, u32 length } of octets in the texts; offsets are from the start of the
 * value. Two tries over path segments, node 0 for allow rules and node 1 for deny rules; a child's number is above its
 * parent's, and each node has one parent, so that a walk ends. A node's literal children stand in a hash table of its
 * own, a run of slots (count: a power of two, or 0; linear probing; segment_hash).
 */
#include "../base/buf.h"

#define TABLE_MAGIC "SPTABLE\0"
#define TABLE_FORMAT 7u
#define TABLE_DEST_MAX 1000000u
#define TABLE_SECRET_MAX 10000u
enum { TABLE_FLAG_EXPLAIN = 1 };
enum { SECRET_FLAG_FOLLOW = 1, SECRET_FLAGS_ALL = 1 };
/* Of a label depth: some "**" is there; some wildcard there has deny rules. */
enum { WILD_DOUBLE = 1, WILD_DENY = 2, WILD_FLAGS_ALL = 3 };
#define WILD_DEPTHS 126 /* labels that can stand behind a wildcard: 253 octets hold 127 labels */
enum { KEY_HEADER = 0, KEY_SECRET = 1, KEY_SANDBOX = 2, KEY_DEST = 3 };

enum { DEST_FLAG_LOG_QUERY = 1, DEST_FLAG_ENCODED_SLASH = 2, DEST_FLAG_EMPTY_SEGMENTS = 4, DEST_FLAG_RAW = 8, DEST_FLAG_ALPN_H1 = 16, DEST_FLAG_ALPN_H2 = 32,
	DEST_FLAG_TUNNEL = 64 /* protocol tcp, or TLS that is passed through */, DEST_FLAGS_ALL = 127 };
enum dest_section { SECT_ADDRESSES = 0, SECT_CAS, SECT_CRLS, SECT_PINS, SECT_INJECTS, SECT_RULES, SECT_METHODS, SECT_NODES, SECT_SLOTS, SECT_PARTS, SECT_ACCEPTS, SECT_PLACES, SECT_RATES, SECT_TEXTS, SECTIONS };
enum {
	/* fixed part */
	DEST_INDEX = 0,        /* u32 */
	DEST_FLAGS = 4,        /* u8 */
	DEST_TLS_MIN = 5,      /* u8: 0, 12, 13 */
	DEST_CONNECT_PORT = 6, /* u16 */
	DEST_CONNECT_IP = 8,   /* u8 family, 16 octets, 3 zero */
	DEST_HOST = 28,        /* ref: a host, or a pattern */
	DEST_ID = 36,          /* ref */
	DEST_SOURCE = 44,      /* ref */
	DEST_LIMITS = 52,      /* u64 request_body, u64 response_body, u32 head_ms, u32 idle_ms, u32 total_ms, u32 zero; 0: no limit of its own */
	DEST_CARE = 84,        /* u8 foreign (enum foreign), u8 scrub: 1 off, 2 zero */
	DEST_SECTIONS = 88,    /* SECTIONS x section */
	DEST_FIXED = DEST_SECTIONS + 8 * SECTIONS,
	/* elements */
	ADDRESS_SIZE = 20,     /* u8 family, 16 octets, u8 bits, 2 zero */
	CA_SIZE = 8,           /* ref */
	CRL_SIZE = 8,          /* ref */
	PIN_SIZE = 32,         /* SHA-256 of a SubjectPublicKeyInfo */
	INJECT_SIZE = 100,     /* u8 kind, u8 flags, u16 places, u32 secret, refs secret name, username, name, format, service, region, lists (strs, one after the other) env: name, template, ...; when: rule ids; of hmac refs template (template.h), timestamp, nonce (fields), u8 hash, u8 encoding, u8 form of the key, u8 zero */
	RULE_SIZE = 44,        /* u32 methods (bits), u32 first and u32 count of further methods, refs pattern, id, source, conditions (cond.h) */
	METHOD_SIZE = 8,       /* ref */
	NODE_SIZE = 32,        /* u32 first slot, slots, first part, parts, first accept, accepts, star child, double star child */
	SLOT_SIZE = 16,        /* u32 hash, ref segment, u32 child; child 0: free */
	PART_SIZE = 12,        /* ref pattern, u32 child */
	ACCEPT_SIZE = 4,       /* u32 rule */
	RATE_SIZE = 32,        /* u8 kind (enum rate_kind), 3 zero, u32 rule (RATE_OF_ALL: of the destination), u64 amount, u32 seconds of its window (0: none), u32 zero, u64 key of its counter */
	PLACE_SIZE = 8,        /* ref: a header field's name in lower case, or "?" and a query key */
};
enum { INJECT_FLAG_SLASHES = 1, INJECT_FLAG_SCOPE_SANDBOX = 2, INJECT_FLAG_BODY_DENY = 4, INJECT_FLAGS_ALL = 7 };
enum { NODE_SLOTS = 0, NODE_SLOT_N = 4, NODE_PARTS = 8, NODE_PART_N = 12, NODE_ACCEPTS = 16, NODE_ACCEPT_N = 20, NODE_STAR = 24, NODE_DOUBLE_STAR = 28 };
enum { ROOT_ALLOW = 0, ROOT_DENY = 1, ROOTS = 2 };

#define RATE_OF_ALL UINT32_MAX

/* Bounds of what a policy can say, and of what a table can hold. */
#define LIMIT_BYTES_MAX ((uint64_t)1 << 42)
#define RATE_WINDOW_MAX 86400u /* a day */
#define LIMIT_MS_MIN 100u
#define LIMIT_MS_MAX 604800000u /* 7 days */

/* Methods that have a bit of their own; METHOD_ANY is "every one", METHOD_DENY tells in which trie the rule is. */
#define TABLE_METHODS { "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "WEBSOCKET" }
enum { METHOD_GET = 1 << 0, METHOD_HEAD = 1 << 1, METHOD_WEBSOCKET = 1 << 9, METHOD_BITS = (1 << 10) - 1, METHOD_DENY = 1 << 30 };
#define METHOD_ANY (1u << 31)

static inline void put_u8(struct buf *b, uint8_t v) { buf_addc(b, (char)v); }
static inline void put_u16(struct buf *b, uint16_t v) { uint8_t p[2] = { (uint8_t)v, (uint8_t)(v >> 8) }; buf_add(b, p, 2); }
static inline void put_u32(struct buf *b, uint32_t v)
{
	uint8_t p[4] = { (uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16), (uint8_t)(v >> 24) };

	buf_add(b, p, 4);
}
static inline void put_u64(struct buf *b, uint64_t v)
{
	put_u32(b, (uint32_t)v);
	put_u32(b, (uint32_t)(v >> 32));
}
static inline void put_str(struct buf *b, struct str s)
{
	put_u16(b, (uint16_t)s.n);
	buf_add(b, s.p, (uint16_t)s.n);
}

static inline uint16_t le16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }
static inline uint32_t le32(const uint8_t *p) { return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24; }
static inline uint64_t le64(const uint8_t *p) { return (uint64_t)le32(p) | (uint64_t)le32(p + 4) << 32; }
/* As above, for octets that are text elsewhere. */
static inline const uint8_t *octets(struct str s) { return (const uint8_t *)s.p; }

/* A reader that cannot run past its end: once `bad` it only yields zeros. */
struct cursor {
	const uint8_t *p;
	size_t n, at;
	bool bad;
};
static inline struct cursor cursor_on(struct str s) { return (struct cursor){ octets(s), s.n, 0, false }; }
static inline const uint8_t *cur_take(struct cursor *c, size_t k)
{
	const uint8_t *p;

	if (c->bad || k > c->n - c->at) {
		c->bad = true;
		return NULL;
	}
	p = c->p + c->at;
	c->at += k;
	return p;
}
static inline uint8_t get_u8(struct cursor *c) { const uint8_t *p = cur_take(c, 1); return p ? *p : 0; }
static inline uint16_t get_u16(struct cursor *c) { const uint8_t *p = cur_take(c, 2); return p ? le16(p) : 0; }
static inline uint32_t get_u32(struct cursor *c) { const uint8_t *p = cur_take(c, 4); return p ? le32(p) : 0; }
static inline uint64_t get_u64(struct cursor *c) { const uint8_t *p = cur_take(c, 8); return p ? le64(p) : 0; }
static inline struct str get_str(struct cursor *c)
{
	size_t n = get_u16(c);
	const uint8_t *p = cur_take(c, n);

	return p ? str_mk(p, n) : STR_NONE;
}

/* Hash of a segment in a trie; fold: of its ASCII lower case. */
static inline uint32_t segment_hash(struct str s, bool fold)
{
	uint32_t h = 2166136261u; /* FNV-1a */

	for (size_t i = 0; i < s.n; i++)
		h = (h ^ (uint8_t)(fold ? ascii_lower(s.p[i]) : s.p[i])) * 16777619u;
	return h ^ h >> 15;
}
#endif
