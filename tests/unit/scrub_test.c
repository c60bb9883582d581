/* SPDX-License-Identifier: Apache-2.0 */
/* Overwriting secret values in streams: J09, J10, J11. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "proxy/filter/escape.h"
#include "tests/unit/scrub_ref.h"

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

/* One stream in pieces of `step` octets, the first one `first` long. */
static void stream_by(void (*feed_fn)(struct scrub *, const uint8_t *, size_t, struct buf *), const struct scrub_set *set, const struct str *v, size_t vn, const uint8_t *in, size_t n, size_t first, size_t step, const uint8_t *want)
{
	struct scrub s;
	struct buf out = { 0 };
	size_t at = 0, k = first;
	struct str forms[256];
	struct ref r;

	ref_init(&r, v, vn);
	for (size_t i = 0; i < r.n; i++)
		forms[i] = str_mk(r.f[i].p, r.f[i].n);
	scrub_init(&s, set);
	while (at < n) {
		if (k > n - at)
			k = n - at;
		feed_fn(&s, in + at, k, &out);
		at += k;
		k = step;
		assert_true(buf_len(&out) <= at);
		if (at - buf_len(&out) > may_hold(forms, r.n, in, at))
			fail_msg("%zu held back", at - buf_len(&out));
	}
	scrub_end(&s, &out);
	assert_int_equal(buf_len(&out), n);
	if (n)
		assert_memory_equal(buf_data(&out), want, n);
	assert_int_equal(buf_len(&s.held), 0);
	assert_int_equal(s.hits > 0, n > 0 && memcmp(in, want, n) != 0);
	scrub_fini(&s);
	ref_fini(&r);
	buf_fini(&out);
}

static void stream(const struct scrub_set *set, const struct str *v, size_t vn, const uint8_t *in, size_t n, size_t first, size_t step, const uint8_t *want)
{
	stream_by(scrub_feed, set, v, vn, in, n, first, step, want);
	stream_by(ref_feed, set, v, vn, in, n, first, step, want);
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
	assert_non_null(want);
	naive(v, 2, (uint8_t *)text, sizeof(text), want);
	stream(set, v, 2, (uint8_t *)text, sizeof(text), 1, 16384, want);
	stream(set, v, 2, (uint8_t *)text, sizeof(text), 5000, 65536, want);
	scrub_set_free(set);
	free(want);
}

/* Small alphabets, so that values overlap in every way. */
static void random_texts(void **state)
{
	uint32_t seed = 12345;

	(void)state;
	for (unsigned round = 0; round < 1500; round++) {
		char mem[6][8], text[40];
		struct str v[6];
		size_t vn = 1 + ref_rnd(&seed) % 6, n = ref_rnd(&seed) % sizeof(text);
		unsigned letters = 1 + ref_rnd(&seed) % 3;

		for (size_t k = 0; k < vn; k++) {
			size_t l = 2 + ref_rnd(&seed) % 7;

			for (size_t i = 0; i < l; i++)
				mem[k][i] = (char)('a' + ref_rnd(&seed) % letters);
			v[k] = str_mk(mem[k], l);
		}
		for (size_t i = 0; i < n; i++)
			text[i] = (char)('a' + ref_rnd(&seed) % letters);
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

/* The text, whole and in two pieces cut anywhere, in pieces of each size, against the reference; what is held back too. */
static void against_reference(const struct str *v, size_t vn, struct str text, bool all_splits)
{
	struct scrub_set *set = scrub_set_new(v, vn);
	const uint8_t *in = (const uint8_t *)text.p;
	size_t n = text.n, *hold = must_malloc((n + 1) * sizeof(*hold));
	uint8_t *covered = must_malloc(n + 1), *whole = must_malloc(n + 1);
	struct ref r;

	set->way = n % 3 < set->way ? n % 3 : set->way; /* every way is taken */
	ref_init(&r, v, vn);
	ref_covered(&r, in, n, covered);
	for (size_t i = 0; i <= n; i++)
		hold[i] = i % 7 == 0 || i == n || all_splits ? ref_may_hold(&r, in, i) : SIZE_MAX;
	memcpy(whole, in, n);
	scrub_inplace(set, (char *)whole, n);
	if (!ref_right(in, covered, whole, n))
		fail_msg("whole: \"%.*s\" -> \"%.*s\"", (int)n, text.p, (int)n, (char *)whole);
	for (size_t first = 1; first <= n; first += all_splits ? 1 : 7)
		for (size_t step = 1; step <= 2; step++) {
			struct scrub s;
			struct buf out = { 0 };

			scrub_init(&s, set);
			for (size_t at = 0, k = first; at < n;) {
				k = k < n - at ? k : n - at;
				(first & 1 ? ref_feed : scrub_feed)(&s, in + at, k, &out);
				at += k;
				k = step == 1 ? first : n; /* pieces of one size, or two pieces */
				if (hold[at] != SIZE_MAX && buf_len(&s.held) != hold[at])
					fail_msg("%zu held back, not %zu, of \"%.*s\"", buf_len(&s.held), hold[at], (int)at, text.p);
			}
			scrub_end(&s, &out);
			assert_int_equal(buf_len(&out), n);
			if (!ref_right(in, covered, buf_data(&out), n))
				fail_msg("pieces of %zu: \"%.*s\" -> \"%.*s\"", first, (int)n, text.p, (int)n, (char *)buf_data(&out));
			buf_fini(&out);
		}
	ref_fini(&r);
	scrub_set_free(set);
	free(covered);
	free(whole);
	free(hold);
}

/* UF05, J09, J10: every form, in every way of writing it, cut at every octet. */
static void UF05_forms(void **state)
{
	static const struct str v[] = { STR("sk-live/0123456789+AbZ") }, odd[] = { STR("p%41ss\\word\"x%"), STR("gr\xc3\xbc\xc3\x9f-\xe2\x82\xac-\xf0\x9f\x98\x80!") };
	const struct str *sets[] = { v, odd };
	const size_t ns[] = { 1, 2 };

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct ref r;

		ref_init(&r, sets[i], ns[i]);
		for (size_t k = 0; k < r.n; k++)
			for (unsigned how = 0; how < 4; how++) {
				struct buf text = { 0 };

				buf_addz(&text, how & 1 ? "{\"a\":\"\\n" : "q=%2");
				ref_write(&r.f[k], how, (uint32_t)(how * 31 + k), &text);
				buf_addz(&text, "\\\"}");
				against_reference(sets[i], ns[i], buf_str(&text), buf_len(&text) < 120);
				buf_fini(&text);
			}
		ref_fini(&r);
	}
}

static bool all_of(const uint8_t *p, size_t n, const char *chars)
{
	for (size_t i = 0; i < n; i++)
		if (strchr(chars, p[i]) == NULL)
			return false;
	return true;
}

/* What is left is of the same kind: base64 can be decoded, hexadecimal too, a string of JSON is one. */
static void filler_keeps_the_form(void **state)
{
	static const struct str v[] = { STR("nothing-but-secret") };
	struct scrub_set *set = scrub_set_new(v, 1);
	char b64[] = "dXNlcjpub3RoaW5nLWJ1dC1zZWNyZXQ=", hex[] = "6e6F7468696E672D6275742d736563726574", json[] = "{\"a\":\"\\u006eothing\\u002Dbut-secret\",\"b\":\"\\nothing-but-secret\"}", esc[] = "a=%6eothing-but%2dsecret&b";
	uint8_t plain[64];

	(void)state;
	assert_int_equal(scrub_inplace(set, b64, sizeof(b64) - 1), 1);
	assert_int_equal(EVP_DecodeBlock(plain, (uint8_t *)b64, sizeof(b64) - 1), 24);
	assert_memory_equal(plain, "user:", 5);
	assert_null(memmem(plain, 24, "othing-but-secre", 16));
	assert_true(all_of((uint8_t *)b64 + 7, 24, "AQ"));
	assert_int_equal(scrub_inplace(set, hex, sizeof(hex) - 1), 1);
	assert_true(all_of((uint8_t *)hex, sizeof(hex) - 1, "0"));
	assert_int_equal(scrub_inplace(set, json, sizeof(json) - 1), 2);
	assert_string_equal(json, "{\"a\":\"****************************\",\"b\":\"\\/*****************\"}");
	assert_int_equal(scrub_inplace(set, esc, sizeof(esc) - 1), 1);
	assert_string_equal(esc, "a=**********************&b");
	scrub_set_free(set);
}

/* Values out of few letters in all forms, pieces of them, near misses, escapes everywhere; 16 values at once. */
static void random_forms(void **state)
{
	static const char pool[] = "%%\\\\u0041nbcAB/-s\"25cd8";
	uint32_t seed = 4711;

	(void)state;
	for (unsigned round = 0; round < 60; round++) {
		char mem[16][40];
		struct str v[16];
		uint8_t ops[60];
		struct buf text = { 0 };
		struct ref r;
		size_t vn = round % 10 == 0 ? 16 : 1 + ref_rnd(&seed) % 2, n = ref_rnd(&seed) % sizeof(ops);
		bool special = ref_rnd(&seed) % 3 == 0;

		for (size_t k = 0; k < vn; k++) {
			size_t l = 8 + ref_rnd(&seed) % 16;

			for (size_t i = 0; i < l; i++)
				mem[k][i] = special ? pool[ref_rnd(&seed) % (sizeof(pool) - 1)] : "abcdAB01-_/.n\t1"[ref_rnd(&seed) % 15];
			v[k] = str_mk(mem[k], l);
		}
		for (size_t i = 0; i < n; i++)
			ops[i] = ref_rnd(&seed) % 8 == 0 ? 1 : (uint8_t)pool[ref_rnd(&seed) % (sizeof(pool) - 1)];
		for (size_t i = 0; i + 2 < n; i++)
			if (ops[i] == 1) {
				ops[i + 1] = (uint8_t)ref_rnd(&seed);
				ops[i + 2] = (uint8_t)ref_rnd(&seed);
				i += 2;
			}
		ref_init(&r, v, vn);
		ref_text(&r, ops, n, vn > 2 ? 150 : 260, &text);
		ref_fini(&r);
		against_reference(v, vn, buf_str(&text), false);
		buf_fini(&text);
	}
}

/* What is found at once in sixteen or more octets is found where it is. */
static void escapes_found(void **state)
{
	uint8_t text[300];
	uint32_t seed = 99;

	(void)state;
	for (unsigned round = 0; round < 2000; round++) {
		size_t n = ref_rnd(&seed) % sizeof(text), want = 0;
		const uint8_t *p = text + ref_rnd(&seed) % 3;

		memset(text, 'x', sizeof(text));
		for (unsigned k = ref_rnd(&seed) % 3; k > 0; k--)
			text[ref_rnd(&seed) % sizeof(text)] = ref_rnd(&seed) & 1 ? '%' : '\\';
		n = n > 3 ? n - 3 : 0;
		while (want < n && p[want] != '%' && p[want] != '\\')
			want++;
		assert_int_equal(escape_find(p, n), want);
		assert_int_equal(escape_find_portable(p, n), want);
		assert_true(escape_mask(text) == escape_mask_portable(text));
#ifdef ESCAPE_AVX2
		if (__builtin_cpu_supports("avx2"))
			assert_true(escape_mask_avx2(text) == escape_mask_portable(text));
#endif
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(J09_J10_echo), cmocka_unit_test(overlapping), cmocka_unit_test(short_and_none), cmocka_unit_test(long_values),
					    cmocka_unit_test(random_texts), cmocka_unit_test(J11_no_delay), cmocka_unit_test(UF05_forms),
					    cmocka_unit_test(filler_keeps_the_form), cmocka_unit_test(random_forms), cmocka_unit_test(escapes_found) };

	return cmocka_run_group_tests_name("scrub", tests, NULL, NULL);
}
