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
uint64_t escape_mask(const uint8_t *p);
uint64_t escape_mask_portable(const uint8_t *p);
#endif
