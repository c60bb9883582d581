/* SPDX-License-Identifier: Apache-2.0 */
/* Overwriting secret values in streams: J09, J10, J11. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "proxy/filter/scrub.h"

/* The obvious way: every octet of every occurrence. */
static void naive(const struct str *v, size_t vn, const uint8_t *in, size_t n, uint8_t *out)
{
	memcpy(out, in, n);
	for (size_t k = 0; k < vn; k++)
		for (size_t i = 0; v[k].n >= 2 && i + v[k].n <= n; i++)
			if (memcmp(in + i, v[k].p, v[k].n) == 0)
				memset(out + i, '*', v[k].n);
}

/* The longest suffix of p that is a proper beginning of a value: more may never be held back. */
static size_t may_hold(const struct str *v, size_t vn, const uint8_t *p, size_t n)
{
	size_t best = 0;

	for (size_t k = 0; k < vn; k++)
		for (size_t l = best + 1; v[k].n >= 2 && l < v[k].n && l <= n; l++)
			if (memcmp(p + n - l, v[k].p, l) == 0)
				best = l;
	return best;
}

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

/* One stream in pieces of `step` octets, the first one `first` long. */
static void stream_by(void (*feed_fn)(struct scrub *, const uint8_t *, size_t, struct buf *), const struct scrub_set *set, const struct str *v, size_t vn, const uint8_t *in, size_t n, size_t first, size_t step, const uint8_t *want)
{
	struct scrub s;
	struct buf out = { 0 };
	size_t at = 0, k = first;

	scrub_init(&s, set);
	while (at < n) {
		if (k > n - at)
			k = n - at;
		feed_fn(&s, in + at, k, &out);
		at += k;
		k = step;
		assert_true(buf_len(&out) <= at);
		if (at - buf_len(&out) > may_hold(v, vn, in, at))
			fail_msg("%zu held back", at - buf_len(&out));
	}
	scrub_end(&s, &out);
	assert_int_equal(buf_len(&out), n);
	if (n)
		assert_memory_equal(buf_data(&out), want, n);
	assert_int_equal(buf_len(&s.held), 0);
	assert_int_equal(s.hits > 0, n > 0 && memcmp(in, want, n) != 0);
	scrub_fini(&s);
	buf_fini(&out);
}

static void stream(const struct scrub_set *set, const struct str *v, size_t vn, const uint8_t *in, size_t n, size_t first, size_t step, const uint8_t *want)
{
	stream_by(scrub_feed, set, v, vn, in, n, first, step, want);
	stream_by(feed, set, v, vn, in, n, first, step, want);
}

static void check(const struct str *v, size_t vn, struct str text)
{
	struct scrub_set *set = scrub_set_new(v, vn);
	size_t n = text.n;
	uint8_t *in = malloc(n + 1), *want = malloc(n + 1), *whole = malloc(n + 1);

	assert_true(in != NULL && want != NULL && whole != NULL);
	if (n)
		memcpy(in, text.p, n);
	naive(v, vn, in, n, want);
	if (n)
		memcpy(whole, in, n);
	assert_int_equal(scrub_inplace(set, (char *)whole, n) > 0, n > 0 && memcmp(in, want, n) != 0);
	assert_memory_equal(whole, want, n);
	for (size_t k = 0; k <= n; k++)
		stream(set, v, vn, in, n, k, n ? n : 1, want); /* every split */
	for (size_t step = 1; step <= 5; step++)
		stream(set, v, vn, in, n, step, step, want);
	free(in);
	free(want);
	free(whole);
	scrub_set_free(set);
}
#define CHECK(v, lit) check(v, sizeof(v) / sizeof((v)[0]), STR(lit))

static void J09_J10_echo(void **state)
{
	static const struct str v[] = { STR("sk-live-0123456789") };

	(void)state;
	CHECK(v, "");
	CHECK(v, "nothing here");
	CHECK(v, "sk-live-0123456789");
	CHECK(v, "Authorization: Bearer sk-live-0123456789\r\n");
	CHECK(v, "sk-live-0123456789sk-live-0123456789");
	CHECK(v, "sk-live-012345678 sk-live-0123456789 sk-live-0123456789");
	CHECK(v, "sk-live-sk-live-0123456789 sk-");
	CHECK(v, "sk-live-012345678");
	CHECK(v, "{\"headers\": {\"a\": \"sk-live-0123456789\", \"b\": \"s\"}}");
	CHECK(v, "SK-LIVE-0123456789");
}

static void overlapping(void **state)
{
	static const struct str aba[] = { STR("abab"), STR("ababc") }, nested[] = { STR("xabcy"), STR("abc"), STR("bc") }, chain[] = { STR("abcd"), STR("cdef"), STR("efgh") },
		same[] = { STR("aaaa") }, prefix[] = { STR("token"), STR("token-long-form") }, twice[] = { STR("secret!!"), STR("secret!!") };

	(void)state;
	CHECK(aba, "ababab abababc xababx");
	CHECK(nested, "xabcy xabcz abc bc xab xabcxabcy");
	CHECK(chain, "abcdefgh abcdefg abcdef cdefgh efgh");
	CHECK(same, "aaa aaaa aaaaaaaaaaaaaaa");
	CHECK(prefix, "token token-long token-long-for token-long-form");
	CHECK(twice, "secret!! secret!");
}

static void short_and_none(void **state)
{
	static const struct str v[] = { STR(""), STR("x"), STR("ab") }, only[] = { STR("x") };
	struct scrub_set *none = scrub_set_new(NULL, 0);
	struct scrub s;
	struct buf out = { 0 };
	char t[] = "text";

	(void)state;
	CHECK(v, "x ab a b abab aab");
	CHECK(only, "x xx");
	assert_int_equal(scrub_set_max(none), 0);
	assert_int_equal(scrub_inplace(none, t, 4), 0);
	scrub_init(&s, none);
	scrub_feed(&s, (uint8_t *)t, 4, &out);
	assert_int_equal(buf_len(&out), 4);
	scrub_end(&s, &out);
	assert_int_equal(buf_len(&out), 4);
	buf_fini(&out);
	scrub_set_free(none);
	scrub_set_free(NULL);
}

static void long_values(void **state)
{
	static char big[70000], text[150000];
	struct str v[2];
	struct scrub_set *set;
	uint8_t *want = malloc(sizeof(text));

	(void)state;
	for (size_t i = 0; i < sizeof(big); i++)
		big[i] = (char)('A' + (i * 7 + i / 255) % 61);
	memset(text, '-', sizeof(text));
	memcpy(text + 1000, big, 300);
	memcpy(text + 2000, big, sizeof(big));
	memcpy(text + 100000, big, sizeof(text) - 100000);
	v[0] = str_mk(big, 300);
	v[1] = str_mk(big, sizeof(big));
	set = scrub_set_new(v, 2);
	assert_int_equal(scrub_set_max(set), sizeof(big));
	assert_non_null(want);
	naive(v, 2, (uint8_t *)text, sizeof(text), want);
	stream(set, v, 2, (uint8_t *)text, sizeof(text), 1, 16384, want);
	stream(set, v, 2, (uint8_t *)text, sizeof(text), 5000, 65536, want);
	scrub_set_free(set);
	free(want);
}

static uint32_t rnd(uint32_t *s)
{
	*s ^= *s << 13;
	*s ^= *s >> 17;
	*s ^= *s << 5;
	return *s;
}

/* Small alphabets, so that values overlap in every way. */
static void random_texts(void **state)
{
	uint32_t seed = 12345;

	(void)state;
	for (unsigned round = 0; round < 1500; round++) {
		char mem[6][8], text[40];
		struct str v[6];
		size_t vn = 1 + rnd(&seed) % 6, n = rnd(&seed) % sizeof(text);
		unsigned letters = 1 + rnd(&seed) % 3;

		for (size_t k = 0; k < vn; k++) {
			size_t l = 2 + rnd(&seed) % 7;

			for (size_t i = 0; i < l; i++)
				mem[k][i] = (char)('a' + rnd(&seed) % letters);
			v[k] = str_mk(mem[k], l);
		}
		for (size_t i = 0; i < n; i++)
			text[i] = (char)('a' + rnd(&seed) % letters);
		check(v, vn, str_mk(text, n));
	}
}

/* J11: nothing but what begins a value waits, so that events go out as they come. */
static void J11_no_delay(void **state)
{
	static const struct str v[] = { STR("sk-live-0123456789") };
	struct scrub_set *set = scrub_set_new(v, 1);
	struct scrub s;
	struct buf out = { 0 };

	(void)state;
	scrub_init(&s, set);
	scrub_feed(&s, (const uint8_t *)"data: hello\n\n", 13, &out);
	assert_int_equal(buf_len(&out), 13);
	scrub_feed(&s, (const uint8_t *)"data: s", 7, &out);
	assert_int_equal(buf_len(&out), 19);
	scrub_feed(&s, (const uint8_t *)"k", 1, &out);
	assert_int_equal(buf_len(&out), 19);
	scrub_feed(&s, (const uint8_t *)"y\n", 2, &out);
	assert_int_equal(buf_len(&out), 23);
	scrub_end(&s, &out);
	assert_true(str_eq(buf_str(&out), STR("data: hello\n\ndata: sky\n")));
	buf_fini(&out);
	scrub_set_free(set);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(J09_J10_echo), cmocka_unit_test(overlapping), cmocka_unit_test(short_and_none), cmocka_unit_test(long_values),
		cmocka_unit_test(random_texts), cmocka_unit_test(J11_no_delay) };

	return cmocka_run_group_tests_name("scrub", tests, NULL, NULL);
}
