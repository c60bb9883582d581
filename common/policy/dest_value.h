/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_POLICY_DEST_VALUE_H
#define SP_POLICY_DEST_VALUE_H
/*
 * Load functions of a destination's value (layout: format.h), shared by table.c, decide.c, the compiler and tests, nobody
 * else. dest_value_check looks at all of it once; the others look again at what they touch, at the price of a comparison,
 * so that nothing but wrong answers can come of a value that was never checked.
 */
#include "format.h"
#include "table.h"

#define TABLE_KEY_MAX 512

struct section {
	uint32_t off, n;
};
struct dest_value {
	const uint8_t *p;
	uint32_t len;
	struct section sect[SECTIONS];
};
struct rule_value {
	uint32_t methods; /* METHOD_* bits */
	uint32_t method_first, method_n;
	struct str pattern, id, source;
	struct str cond; /* cond.h; empty: none */
};
/* False: too short, or a section is out of bounds. */
bool dest_value_load(struct str v, struct dest_value *out);
/* Every bound, every number, every node. secrets: how many the table has. NULL if good, else what is wrong. */
const char *dest_value_check(struct str v, uint32_t secrets);

struct str dest_value_ref(const struct dest_value *d, const uint8_t *at); /* empty if out of bounds */
/* Element i of a section, or NULL. */
const uint8_t *dest_value_at(const struct dest_value *d, enum dest_section s, size_t size, uint32_t i);
bool dest_value_rule(const struct dest_value *d, uint32_t i, struct rule_value *out);
bool dest_value_rule_method(const struct dest_value *d, const struct rule_value *r, uint32_t i, struct str *out);
void dest_value_ip(const uint8_t *at, struct ip *out);
void dest_value_limits(const struct dest_value *d, struct dest_limits *out);

bool dest_value_denies(const struct dest_value *d); /* whether it has deny rules */

/* Bit of a method, 0 if it has none. */
uint32_t table_method_bit(struct str method);
const char *table_method_name(unsigned bit);

/*
 * Walks a trie (root) with a canonical path. Calls fn with the number of each rule whose pattern matches, in no order,
 * each perhaps more than once; false from fn ends it. Returns false if the value is damaged (or the walk needs more
 * states than it has room for, which dest_value_check and the compiler exclude): then nothing may be allowed.
 */
bool dest_value_match(const struct dest_value *d, unsigned root, struct str path, bool (*fn)(void *arg, uint32_t rule), void *arg);

/* Key of a destination; returns its length. */
size_t table_key(uint8_t out[TABLE_KEY_MAX], uint8_t scheme, uint16_t port, struct str host);
struct evp_md_ctx_st;
void table_digest_record(struct evp_md_ctx_st *md, struct str key, struct str value);
#endif
