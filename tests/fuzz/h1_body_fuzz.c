/* SPDX-License-Identifier: Apache-2.0 */
/* Chunked content: every split gives the same octets, the same end, the same verdict. */
#include <stdlib.h>

#include "proxy/http/h1.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static int decode(const uint8_t *p, size_t n, size_t step, struct buf *out, size_t *used)
{
	struct h1_body b;
	struct http_fault f;
	size_t at = 0;

	h1_body_init(&b, HTTP_BODY_CHUNKED, 0);
	while (at < n && !b.done) {
		size_t k = n - at < step ? n - at : step, off = 0;

		while (off < k && !b.done) {
			const uint8_t *d;
			size_t len;
			long c = h1_body_feed(&b, p + at + off, k - off, &d, &len, &f);

			if (c < 0)
				return -1;
			if (c == 0)
				abort(); /* no progress */
			buf_add(out, d, len);
			off += (size_t)c;
		}
		at += off;
	}
	*used = at;
	return b.done;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct buf a = { 0 }, b = { 0 };
	size_t ua = 0, ub = 0;
	int x = decode(p, n, n ? n : 1, &a, &ua), y = decode(p, n, 1, &b, &ub);

	if (x != y || (x == 1 && ua != ub) || (x >= 0 && !str_eq(buf_str(&a), buf_str(&b))))
		abort();
	buf_fini(&a);
	buf_fini(&b);
	return 0;
}
