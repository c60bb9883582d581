/* SPDX-License-Identifier: Apache-2.0 */
/* Two texts with a zero octet between them, read as patterns or hosts: never out of bounds, and a relation that is one. */
#include <stdlib.h>

#include "common/policy/host_pattern.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	const uint8_t *zero = n ? memchr(p, 0, n) : NULL;
	size_t k = zero ? (size_t)(zero - p) : n;
	struct str a = str_mk(p, k), b = zero ? str_mk(zero + 1, n - k - 1) : STR_NONE;
	struct host_pattern x, y;
	bool good_a = host_pattern_read(a, &x), good_b = host_pattern_read(b, &y);

	if (good_a && (x.kind == HOST_NONE || !host_pattern_covers(&x, &x) || x.suffix.n == 0))
		abort();
	/* what covers each other is the same, and nothing but a host is within a host */
	if (good_a && good_b && host_pattern_covers(&x, &y)) {
		if (host_pattern_covers(&y, &x) && !str_eq(a, b))
			abort();
		if (x.kind == HOST_EXACT && y.kind != HOST_EXACT)
			abort();
	}
	if (host_text_covers(a, b) != (good_a && good_b && host_pattern_covers(&x, &y)))
		abort();
	return 0;
}
