/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Table walker and value reader: any octets. The digest would stop almost all of them, so what the walk lets through is
 * loaded too, by way of the values alone.
 */
#include <stdlib.h>

#include "common/policy/dest_value.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	uint8_t digest[TABLE_DIGEST_LEN];
	struct err err = ERR_INIT;
	struct dest_value v;
	struct rule_value r;
	struct cursor c;

	table_check(p, n, digest, &err);
	if (dest_value_load(str_mk(p, n), &v)) {
		c = v.rules;
		for (uint16_t k = get_u16(&c); k > 0; k--)
			if (!rule_value_next(&c, &r))
				abort();
	}
	return 0;
}
