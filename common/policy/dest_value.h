/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_POLICY_DEST_VALUE_H
#define SP_POLICY_DEST_VALUE_H
/* Load functions of a destination's value: shared by table.c, decide.c and the compiler, nobody else. */
#include "format.h"
#include "table.h"

#define TABLE_KEY_MAX 512
#define EBADMSG_TABLE 74

struct dest_value {
	const uint8_t *base;
	uint32_t index;
	uint8_t flags, tls_min;
	uint16_t connect_port;
	struct ip connect_ip;
	struct str host, id, source;
	struct cursor addresses, cas, injects, rules; /* each stands before its count */
};
struct rule_value {
	uint8_t flags; /* RULE_* */
	uint16_t method_n;
	struct cursor methods;
	struct str pattern, id, source;
};
/* False: some bound does not hold. */
bool dest_value_load(struct str v, struct dest_value *out);
bool rule_value_next(struct cursor *c, struct rule_value *out);
/* Key of a destination; returns its length. */
size_t table_key(uint8_t out[TABLE_KEY_MAX], uint8_t scheme, uint16_t port, struct str host);
struct evp_md_ctx_st;
void table_digest_record(struct evp_md_ctx_st *md, struct str key, struct str value);
#endif
