/* SPDX-License-Identifier: Apache-2.0 */
/* Strings of JSON: whatever octet stands wherever among those that are looked at eight at a time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/jsonw.h"

#define LEN 27

/* What one octet alone becomes. */
static void octet(struct buf *b, unsigned c)
{
	if (c == '"' || c == '\\')
		buf_addf(b, "\\%c", (char)c);
	else if (c < 0x20 || c == 0x7f)
		buf_addf(b, "\\u%04x", c);
	else if (c < 0x80)
		buf_addc(b, (char)c);
	else
		buf_addz(b, "\xef\xbf\xbd");
}

static void expect(struct str in, const struct buf *want)
{
	struct buf have = { 0 };

	jsonw_quote(&have, in);
	assert_int_equal(buf_len(&have), buf_len(want));
	assert_memory_equal(buf_data(&have), buf_data(want), buf_len(want));
	buf_fini(&have);
}

static void each_octet_at_each_place(void **state)
{
	struct buf want = { 0 };
	char text[LEN];

	(void)state;
	for (unsigned a = 0; a < 256; a++) {
		for (size_t at = 0; at < LEN; at++) {
			for (size_t n = at + 1; n <= LEN; n += LEN - at - 1 > 0 ? LEN - at - 1 : 1) {
				memset(text, '~', sizeof(text)); /* the last that stays as it is: next to 0x7f */
				text[at] = (char)a;
				buf_clear(&want);
				buf_addc(&want, '"');
				for (size_t i = 0; i < n; i++)
					octet(&want, (uint8_t)text[i]);
				buf_addc(&want, '"');
				expect(str_mk(text, n), &want);
			}
		}
	}
	buf_fini(&want);
}

static void characters(void **state)
{
	static const struct {
		const char *in, *out;
	} rows[] = { { "", "" }, { "\xc3\xa9", "\xc3\xa9" }, { "\xe2\x82\xac", "\xe2\x82\xac" }, { "\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80" }, { "\xc2\x85", "\\u0085" }, { "\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" } };

	(void)state;
	for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
		for (int before = 0; before < 17; before++) {
			struct buf in = { 0 }, want = { 0 };

			buf_addf(&in, "%.*s%sxyz", before, "abcdefghijklmnopq", rows[r].in);
			buf_addf(&want, "\"%.*s%sxyz\"", before, "abcdefghijklmnopq", rows[r].out);
			expect(buf_str(&in), &want);
			buf_fini(&in);
			buf_fini(&want);
		}
	}
	expect(STR_NONE, &(struct buf){ .mem = (uint8_t *)(uintptr_t)"\"\"", .len = 2, .cap = 2 });
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(each_octet_at_each_place), cmocka_unit_test(characters) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
