/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_POLICY_IMAGE_H
#define SP_POLICY_IMAGE_H
/*
 * The pages of an LMDB file (data version 1, 64 bit, pages of 4096 octets) as the compiler writes it: one transaction,
 * one unnamed database, nothing freed, nothing unused. Private to the table reader and the compiler.
 */
#include "../base/err.h"
#include "format.h"

#define IMAGE_MAGIC 0xBEEFC0DEu /* little-endian, at octet 16 of a file */
#define IMAGE_PAGE 4096u
#define IMAGE_KEY_MAX 511u

struct image {
	const uint8_t *p;
	size_t n;
	uint64_t pages, root;
	unsigned depth;
};
/* Looks at the two meta pages only. 0 or -1 + err. */
int image_open(struct image *im, const uint8_t *p, size_t n, struct err *err);
/* 1 found, 0 not, -1 damaged. For images that image_walk accepted; on others it may answer wrongly, but stays inside. */
int image_find(const struct image *im, struct str key, struct str *value);
/* The same, and where it looked: the next key is mostly there too, as a wildcard's is, which stands beside the hosts below it. Zeroed at first. */
struct image_place {
	const uint8_t *page;
	size_t count;
};
int image_find_near(const struct image *im, struct image_place *near, struct str key, struct str *value);
/*
 * Every page, node and octet: each page used once, keys in order, counts right, all that carries nothing zero. Calls fn
 * for each record in order; fn returns false (with err filled) to end it. 0 or -1 + err.
 */
int image_walk(const struct image *im, bool (*fn)(void *arg, struct str key, struct str value, struct err *err), void *arg, struct err *err);
/* Makes all octets that carry nothing zero, in an image that liblmdb just wrote. */
void image_normalise(uint8_t *p, size_t n);
#endif
