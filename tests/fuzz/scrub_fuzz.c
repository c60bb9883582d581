/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scrubbing. The first octet: number of values and size of pieces; then for each value its length and octets; the rest is
 * the stream, in which 1 K H is a form of a value written in some way (ref_text). The result is that of the obvious search
 * over the whole, and what is held back is what has to be.
 */
#include "tests/unit/scrub_ref.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str v[8];
	size_t vn, step, n, at = 0;
	struct scrub_set *set;
	struct scrub s;
	struct buf out = { 0 }, text = { 0 };
	struct ref r;
	uint8_t *covered, *whole, *in;
	bool any;

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
	ref_init(&r, v, vn);
	ref_text(&r, data, size, 400, &text);
	n = buf_len(&text);
	in = buf_data(&text);
	covered = must_malloc(n + 1);
	whole = must_malloc(n + 1);
	ref_covered(&r, in, n, covered);
	any = memchr(covered, 1, n) != NULL;
	memcpy(whole, in, n);
	set = scrub_set_new(v, vn);
	set->way = n % 3 < set->way ? n % 3 : set->way;
	MUST((scrub_inplace(set, (char *)whole, n) > 0) == any);
	MUST(ref_right(in, covered, whole, n));
	scrub_init(&s, set);
	while (at < n) {
		size_t k = step < n - at ? step : n - at;

		(n & 1 ? ref_feed : scrub_feed)(&s, in + at, k, &out);
		at += k;
		/* seldom enough to be quick */
		if (at % 8 == 0 || at == n)
			MUST(buf_len(&s.held) == ref_may_hold(&r, in, at));
		MUST(buf_len(&out) + buf_len(&s.held) >= at);
	}
	scrub_end(&s, &out);
	MUST(buf_len(&out) == n && ref_right(in, covered, buf_data(&out), n));
	MUST((s.hits > 0) == any);
	scrub_fini(&s);
	scrub_set_free(set);
	ref_fini(&r);
	buf_fini(&out);
	buf_fini(&text);
	free(covered);
	free(whole);
	return 0;
}
