/* SPDX-License-Identifier: Apache-2.0 */
/* Content codings taken off a stream: D20, J13. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/base/buf.h"
#include "proxy/filter/decode.h"
#include "tests/unit/encode_util.h"

/* All of in, in pieces of `step`, into slices of `room`. NULL: good and whole. */
static const char *decode_all(enum coding c, const struct decode_limits *lim, const struct buf *in, size_t step, size_t room, struct buf *out)
{
	struct decode *d = decode_new(c, lim);
	const char *fault = NULL;

	for (size_t at = 0; at < buf_len(in) && fault == NULL; at += step) {
		const uint8_t *p = buf_data(in) + at;
		size_t n = step < buf_len(in) - at ? step : buf_len(in) - at, got = 0;

		do {
			uint8_t *to = buf_room(out, room);

			if (!decode_feed(d, &p, &n, to, room, &got, &fault))
				break;
			buf_commit(out, got);
		} while (n > 0 || got == room);
	}
	if (fault == NULL && !decode_whole(d))
		fault = "cut";
	decode_free(d);
	return fault;
}

static const enum coding codings[] = { CODING_GZIP, CODING_DEFLATE, CODING_BR, CODING_ZSTD };

static void sample(struct buf *b, size_t n)
{
	uint32_t x = 1;

	while (buf_len(b) < n) {
		x = x * 1103515245u + 12345u;
		buf_addf(b, "{\"n\":%u,\"text\":\"some words\"}", x >> 20);
	}
}

static void J13_every_coding_every_split(void **state)
{
	static const size_t steps[] = { 1, 2, 3, 7, 100, 65536 }, rooms[] = { 1, 5, 1000, 65536 };
	struct buf plain = { 0 };

	(void)state;
	sample(&plain, 3000);
	for (unsigned c = 0; c < 5; c++)
		for (unsigned i = 0; i < 6; i++)
			for (unsigned k = 0; k < 4; k++) {
				struct buf in = { 0 }, out = { 0 };

				if (c < 4)
					encode(codings[c], buf_str(&plain), &in);
				else
					encode_raw_deflate(buf_str(&plain), &in);
				assert_null(decode_all(c < 4 ? codings[c] : CODING_DEFLATE, &decode_limits_default, &in, steps[i], rooms[k], &out));
				assert_true(str_eq(buf_str(&out), buf_str(&plain)));
				buf_fini(&in);
				buf_fini(&out);
			}
	buf_fini(&plain);
}

/* What an origin has flushed comes out before the rest is there. */
static void J11_flushed_at_once(void **state)
{
	(void)state;
	for (unsigned c = 0; c < 4; c++) {
		struct buf in = { 0 };
		struct decode *d = decode_new(codings[c], &decode_limits_default);
		uint8_t out[100];
		const char *fault;
		const uint8_t *p;
		size_t n, got, all = 0;

		encode_flushed(codings[c], STR("data: one\n\n"), &in);
		p = buf_data(&in);
		n = buf_len(&in);
		do {
			assert_true(decode_feed(d, &p, &n, out + all, sizeof(out) - all, &got, &fault));
			all += got;
		} while (n > 0);
		assert_int_equal(all, 11);
		assert_memory_equal(out, "data: one\n\n", 11);
		assert_false(decode_whole(d));
		decode_free(d);
		buf_fini(&in);
	}
}

static void several_members(void **state)
{
	static const enum coding more[] = { CODING_GZIP, CODING_ZSTD };

	(void)state;
	for (unsigned c = 0; c < 2; c++) {
		struct buf in = { 0 }, out = { 0 };

		encode(more[c], STR("one "), &in);
		encode(more[c], STR("two"), &in);
		assert_null(decode_all(more[c], &decode_limits_default, &in, 1, 2, &out));
		assert_true(str_eq(buf_str(&out), STR("one two")));
		buf_fini(&in);
		buf_fini(&out);
	}
}

static void damaged(void **state)
{
	struct buf plain = { 0 };

	(void)state;
	sample(&plain, 2000);
	for (unsigned c = 0; c < 4; c++) {
		struct buf in = { 0 }, out = { 0 };
		size_t n;

		encode(codings[c], buf_str(&plain), &in);
		n = buf_len(&in);
		in.len = n - 1; /* cut */
		assert_string_equal(decode_all(codings[c], &decode_limits_default, &in, 10, 100, &out), "cut");
		in.len = n;
		buf_addz(&in, "x"); /* and longer */
		assert_non_null(decode_all(codings[c], &decode_limits_default, &in, 10, 100, &out));
		buf_clear(&in);
		buf_addz(&in, "<html>plain text under a false name</html>");
		assert_non_null(decode_all(codings[c], &decode_limits_default, &in, 10, 100, &out));
		buf_fini(&in);
		buf_fini(&out);
	}
	buf_fini(&plain);
}

/* D20: more than 256 octets for each that came, or more than is let through at all. */
static void D20_bombs(void **state)
{
	static const struct decode_limits ratio = { (uint64_t)1 << 40, 1 << 20, 256 }, total = { 100000, (uint64_t)1 << 40, 256 };
	struct buf zeros = { 0 };

	(void)state;
	memset(buf_room(&zeros, 8 << 20), 0, 8 << 20);
	buf_commit(&zeros, 8 << 20);
	for (unsigned c = 0; c < 4; c++) {
		struct buf in = { 0 }, out = { 0 };

		encode(codings[c], buf_str(&zeros), &in);
		assert_string_equal(decode_all(codings[c], &ratio, &in, 1000, 65536, &out), "the compressed content expands too much");
		assert_true(buf_len(&out) <= (1 << 20) + 65536);
		buf_clear(&out);
		assert_string_equal(decode_all(codings[c], &total, &in, 1000, 4096, &out), "the decompressed content has more octets than are let through");
		assert_true(buf_len(&out) <= 100000 + 4096);
		buf_fini(&in);
		buf_fini(&out);
	}
	buf_fini(&zeros);
}

static void D20_windows(void **state)
{
	struct buf in = { 0 }, out = { 0 };

	(void)state;
	encode_zstd_window(27, &in);
	assert_string_equal(decode_all(CODING_ZSTD, &decode_limits_default, &in, 1000, 65536, &out), "the compressed content needs a window of more than 8 MiB");
	assert_int_equal(buf_len(&out), 0);
	buf_fini(&in);
	buf_fini(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(J13_every_coding_every_split), cmocka_unit_test(J11_flushed_at_once), cmocka_unit_test(several_members), cmocka_unit_test(damaged),
					    cmocka_unit_test(D20_bombs), cmocka_unit_test(D20_windows) };

	return cmocka_run_group_tests_name("decode", tests, NULL, NULL);
}
