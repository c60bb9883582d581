/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_POLICY_TABLE_RECORD_H
#define SP_POLICY_TABLE_RECORD_H
/* Records that are small lists: header, secrets. Private to table.c and table_check.c. */
#include "dest_value.h"

/* Wildcards at one label depth. */
struct wild {
	uint8_t depth, flags;
	uint64_t single; /* bit 0 "*", bit i "pre*" with i characters */
};
struct header {
	struct str compiler, name;
	size_t digest_at; /* where in the value the digest stands */
	const uint8_t *digest;
	uint8_t flags;
	uint64_t observe_until;
	uint32_t dests, secrets;
	struct wild wild[WILD_DEPTHS];
	uint8_t wild_n;
	struct cursor ports; /* stands before its count */
};
bool table_load_header(struct str v, struct header *h);
/* hosts stands before its count. */
bool table_load_secret(struct str v, struct secret_decl *s, struct cursor *hosts);
#endif
