/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_STR_H
#define SP_STR_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A borrowed run of bytes, not terminated. Whoever owns the memory says so where the str is handed out. */
struct str {
	const char *p;
	size_t n;
};
#define STR(lit) ((struct str){ (lit), sizeof(lit) - 1 })
#define STR_INIT(lit) { (lit), sizeof(lit) - 1 } /* for what is static */
#define STR_NONE ((struct str){ NULL, 0 })

static inline struct str str_of(const char *s) { return (struct str){ s, s ? strlen(s) : 0 }; }
static inline struct str str_mk(const void *p, size_t n) { return (struct str){ p, n }; }
static inline bool str_eq(struct str a, struct str b) { return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0); }
static inline char ascii_lower(char c) { return (c >= 'A' && c <= 'Z') ? (char)(c + 32) : c; }
/* The value of a hexadecimal digit, -1 if c is none. */
static inline int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = ascii_lower(c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool str_ieq(struct str a, struct str b); /* ASCII case ignored */
bool str_alike(struct str a, struct str b); /* names of fields that an origin may take for one another: without regard to ASCII case, "_" as "-" (B09) */
char *str_dupz(struct str s) __attribute__((malloc, returns_nonnull)); /* NUL-terminated copy, the caller's to free; STR_NONE: "" */
bool str_starts(struct str s, struct str prefix);
bool str_ends(struct str s, struct str suffix);
/* Decimal digits only, no sign, no leading zero (but "0"); false when empty, longer or above max. */
bool str_u64(struct str s, uint64_t max, uint64_t *out);
/* memmem by str; returns offset or -1. */
ptrdiff_t str_find(struct str hay, struct str needle);

/* SipHash-2-4 under a per-process random key (hash_seed), for tables keyed by data from outside. */
void hash_seed(const uint8_t key[16]);
uint64_t hash_bytes(const void *p, size_t n);
#endif
