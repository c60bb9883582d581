/* SPDX-License-Identifier: Apache-2.0 */
/* The stream filter: whatever the split, no whole value comes out, the length stays, and untouched octets are untouched. */
#include <stdlib.h>

#include "proxy/filter/scrub.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct str v[2];
	struct scrub_set *set;
	struct scrub s;
	struct buf out = { 0 };
	size_t step, l1, l2;

	if (n < 24)
		return 0;
	step = p[0] % 7 + 1;
	l1 = p[1] % 6 + 3;
	l2 = p[2] % 6 + 3;
	v[0] = str_mk(p + 3, l1);
	v[1] = str_mk(p + 3 + l1, l2);
	p += 3 + l1 + l2;
	n -= 3 + l1 + l2;
	/* a value made of filler could never be told from it */
	if (memchr(v[0].p, '*', l1) || memchr(v[1].p, '*', l2))
		return 0;
	set = scrub_set_new(v, 2);
	scrub_init(&s, set);
	for (size_t i = 0; i < n; i += step)
		scrub_feed(&s, p + i, n - i < step ? n - i : step, &out);
	scrub_end(&s, &out);
	if (buf_len(&out) != n)
		abort();
	for (int i = 0; i < 2; i++)
		if (str_find(buf_str(&out), v[i]) >= 0)
			abort();
	for (size_t i = 0; i < n; i++)
		if (buf_data(&out)[i] != p[i] && buf_data(&out)[i] != '*')
			abort();
	scrub_fini(&s);
	scrub_set_free(set);
	buf_fini(&out);
	return 0;
}
