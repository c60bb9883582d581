/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scrubbing. The first octet: number of values and size of pieces; then for each value its length and octets; the rest is
 * the stream. The result is that of the obvious search over the whole, and no more is held back than has to be.
 */
#include <stdlib.h>

#include "common/base/must.h"
#include "proxy/filter/scrub.h"

/* As the exchange does: in place while nothing is held. */
static void feed(struct scrub *s, const uint8_t *in, size_t k, struct buf *out)
{
	uint8_t *p;

	if (scrub_holds(s)) {
		scrub_feed(s, in, k, out);
		return;
	}
	p = buf_room(out, k + 1);
	memcpy(p, in, k);
	buf_commit(out, scrub_feed_inplace(s, p, k));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str v[8];
	size_t vn, step, n, at = 0, changed = 0;
	struct scrub_set *set;
	struct scrub s;
	struct buf out = { 0 };
	uint8_t *want, *whole;

	if (size < 1)
		return 0;
	vn = data[0] & 7;
	step = 1 + (data[0] >> 3);
	data++;
	size--;
	for (size_t i = 0; i < vn; i++) {
		size_t l = size > 0 ? data[0] & 31 : 0;

		if (size > 0) {
			data++;
			size--;
		}
		l = l < size ? l : size;
		v[i] = str_mk(data, l);
		data += l;
		size -= l;
	}
	n = size < 2000 ? size : 2000;
	want = must_malloc(n + 1);
	whole = must_malloc(n + 1);
	memcpy(want, data, n);
	memcpy(whole, data, n);
	for (size_t k = 0; k < vn; k++)
		for (size_t i = 0; v[k].n >= 2 && i + v[k].n <= n; i++)
			if (memcmp(data + i, v[k].p, v[k].n) == 0) {
				memset(want + i, '*', v[k].n);
				changed++;
			}
	set = scrub_set_new(v, vn);
	MUST((scrub_inplace(set, (char *)whole, n) > 0) == (changed > 0));
	MUST(memcmp(whole, want, n) == 0);
	scrub_init(&s, set);
	while (at < n) {
		size_t k = step < n - at ? step : n - at, may = 0;

		(n & 1 ? feed : scrub_feed)(&s, data + at, k, &out);
		at += k;
		for (size_t i = 0; i < vn; i++)
			for (size_t l = may + 1; v[i].n >= 2 && l < v[i].n && l <= at; l++)
				if (memcmp(data + at - l, v[i].p, l) == 0)
					may = l;
		MUST(buf_len(&out) <= at && at - buf_len(&out) <= may);
	}
	scrub_end(&s, &out);
	MUST(buf_len(&out) == n && (n == 0 || memcmp(buf_data(&out), want, n) == 0));
	MUST((s.hits > 0) == (changed > 0));
	scrub_fini(&s);
	scrub_set_free(set);
	buf_fini(&out);
	free(want);
	free(whole);
	return 0;
}
