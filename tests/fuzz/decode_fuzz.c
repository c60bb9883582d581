/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Content codings. The first octet: which one, and the size of pieces; the rest is coded content. However it is cut, the
 * same comes out, within the limits, and what is allocated goes back.
 */
#include "common/base/buf.h"
#include "common/base/must.h"
#include "proxy/filter/decode.h"

static const struct decode_limits limits = { 1 << 20, 1 << 16, 256 };

/* False: at some octet it was refused. */
static bool run(enum coding c, const uint8_t *p, size_t n, size_t step, size_t room, struct buf *out)
{
	struct decode *d = decode_new(c, &limits);
	const char *fault = NULL;
	bool good = true;

	for (size_t at = 0; at < n && good; at += step) {
		const uint8_t *in = p + at;
		size_t left = step < n - at ? step : n - at, got;

		do {
			uint8_t *to = buf_room(out, room);

			good = decode_feed(d, &in, &left, to, room, &got, &fault);
			MUST(good || fault != NULL);
			MUST(got <= room);
			if (good)
				buf_commit(out, got);
		} while (good && (left > 0 || got == room));
		MUST(buf_len(out) <= limits.total + room);
	}
	good = good && decode_whole(d);
	decode_free(d);
	return good;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const enum coding codings[] = { CODING_GZIP, CODING_DEFLATE, CODING_BR, CODING_ZSTD };
	struct buf whole = { 0 }, pieces = { 0 };
	enum coding c;
	size_t step;
	bool a, b;

	if (size < 1)
		return 0;
	c = codings[data[0] & 3];
	step = 1 + (data[0] >> 2);
	a = run(c, data + 1, size - 1, size, 65536, &whole);
	b = run(c, data + 1, size - 1, step, 1 + step * 7, &pieces);
	MUST(a == b);
	if (a)
		MUST(str_eq(buf_str(&whole), buf_str(&pieces)));
	buf_fini(&whole);
	buf_fini(&pieces);
	return 0;
}
