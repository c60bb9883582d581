/* SPDX-License-Identifier: Apache-2.0 */
/* Placeholders: every form is found at every split, what stands exactly is filled at every split, nothing else is touched. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <openssl/evp.h>

#include "../../common/base/must.h"
#include "../../proxy/filter/placeholder.h"

#define A "ghp_0aZ9bY8cX7dW6eV5fU4gT3hS2iR1jQ0kP9lO"
#define B "sk-ant-api03-Qm3_x7-Lk2pZ0ab_cdEFgh-AA"
static const struct placeholder two[] = { { { "github", 6 }, { A, sizeof(A) - 1 }, 0, false }, { { "claude", 6 }, { B, sizeof(B) - 1 }, 0, false } };

struct seen {
	unsigned n[2], plain[2], exact[2];
};

static void count(void *arg, const struct placeholder_hit *h)
{
	struct seen *s = arg;

	s->n[h->which]++;
	s->plain[h->which] += h->plain;
	s->exact[h->which] += h->exact;
}

static struct seen find(const struct placeholders *s, const char *text, size_t n)
{
	struct seen got = { 0 };

	placeholders_find(s, str_mk(text, n), count, &got);
	/* a stream finds the same, however it is cut */
	for (size_t cut = 0; cut <= n; cut++) {
		struct placeholder_watch w = { 0 };
		struct seen again = { 0 };

		placeholder_watch_feed(&w, s, str_mk(text, cut), count, &again);
		placeholder_watch_feed(&w, s, str_mk(text + cut, n - cut), count, &again);
		assert_int_equal(again.n[0], got.n[0]);
		assert_int_equal(again.n[1], got.n[1]);
	}
	return got;
}

static void finds_forms(void **state)
{
	struct placeholders *s = placeholders_new(two, 2);
	char text[2048], enc[1024];
	struct seen got;
	size_t n;

	(void)state;
	got = find(s, "x" A "y", sizeof("x" A "y") - 1);
	assert_int_equal(got.n[0], 1);
	assert_int_equal(got.exact[0], 1);
	assert_int_equal(got.n[1], 0);
	for (size_t i = 0; i <= sizeof(A) - 1; i++) /* in any case */
		text[i] = (char)(i % 3 ? (A[i] >= 'a' && A[i] <= 'z' ? A[i] - 32 : A[i]) : ascii_lower(A[i]));
	got = find(s, text, sizeof(A) - 1);
	assert_int_equal(got.n[0], 1);
	assert_int_equal(got.exact[0], 0);
	for (unsigned pre = 0; pre < 7; pre++) { /* base64, both alphabets, every alignment, also lower-cased as in a host name */
		for (unsigned way = 0; way < 3; way++) {
			n = (size_t)snprintf(text, sizeof(text), "%.*s%stail", (int)pre, "prefix-", B);
			EVP_EncodeBlock((unsigned char *)enc, (unsigned char *)text, (int)n);
			for (char *c = enc; *c; c++)
				*c = way == 1 ? (*c == '+' ? '-' : *c == '/' ? '_' : *c) : way == 2 ? ascii_lower(*c) : *c;
			got = find(s, enc, strlen(enc));
			assert_int_equal(got.n[1], 1);
			assert_int_equal(got.plain[1], 0);
		}
	}
	for (unsigned up = 0; up < 2; up++) { /* hex */
		n = 0;
		for (const char *c = A; *c; c++)
			n += (size_t)snprintf(text + n, 3, up ? "%02X" : "%02x", (unsigned char)*c);
		assert_int_equal(find(s, text, n).n[0], 1);
	}
	for (unsigned every = 1; every < 6; every++) { /* percent and JSON, some of the octets */
		for (unsigned json = 0; json < 2; json++) {
			n = 0;
			for (size_t i = 0; A[i]; i++)
				n += (size_t)snprintf(text + n, 8, i % every ? "%c" : json ? "\\u00%02x" : "%%%02X", A[i]);
			got = find(s, text, n);
			assert_int_equal(got.n[0], 1);
			assert_int_equal(got.plain[0], 0);
		}
	}
	/* escapes beside it, cut short, wrong: it still stands there as it is, once */
	static const char *const beside[] = { "%20" A, "%" A, "%2" A, "\\u00" A, "\\n" A, "%zz\\" A "%41", "\\\\" A, A "%4", "%25%2" A };
	for (size_t i = 0; i < sizeof(beside) / sizeof(beside[0]); i++) {
		got = find(s, beside[i], strlen(beside[i]));
		assert_int_equal(got.exact[0], 1);
		assert_int_equal(got.n[0], 1);
	}
	/* one octet short or other */
	assert_int_equal(find(s, A, sizeof(A) - 2).n[0], 0);
	memcpy(text, A, sizeof(A));
	text[7] = '+';
	assert_int_equal(find(s, text, sizeof(A) - 1).n[0], 0);
	placeholders_free(s);
	placeholders_free(NULL);
}

static void check_fill(const struct placeholders *s, const struct placeholder_value *v, unsigned n, const char *in, const char *want, unsigned filled)
{
	size_t len = strlen(in);

	for (size_t a = 0; a <= len; a++) {
		for (size_t b = a; b <= len; b += 1 + len / 40) {
			struct placeholder_fill f;
			struct buf out = { 0 };

			placeholder_fill_init(&f, s, v, n);
			placeholder_fill_feed(&f, str_mk(in, a), &out);
			placeholder_fill_feed(&f, str_mk(in + a, b - a), &out);
			placeholder_fill_feed(&f, str_mk(in + b, len - b), &out);
			placeholder_fill_end(&f, &out);
			assert_int_equal(buf_len(&out), strlen(want));
			assert_memory_equal(buf_data(&out), want, strlen(want));
			assert_int_equal(f.filled, filled);
			buf_fini(&out);
		}
	}
}

static void fills(void **state)
{
	struct placeholders *s = placeholders_new(two, 2);
	const struct placeholder_value one = { 0, STR("V") }, both[2] = { { 1, STR("longer-than-what-stood-there-before-0123456789") }, { 0, STR("") } };

	(void)state;
	check_fill(s, &one, 1, "{\"a\":\"" A "\"}", "{\"a\":\"V\"}", 1);
	check_fill(s, &one, 1, A A "ghp_" A, "VVghp_V", 3);
	check_fill(s, &one, 1, "ghp_0aZ9bY8cX7 ghp_0aZ9" B, "ghp_0aZ9bY8cX7 ghp_0aZ9" B, 0); /* beginnings, and another's */
	check_fill(s, both, 2, "<" B ">" A "<", "<longer-than-what-stood-there-before-0123456789><", 2);
	check_fill(s, &one, 1, "GHP_0AZ9bY8cX7dW6eV5fU4gT3hS2iR1jQ0kP9lO", "GHP_0AZ9bY8cX7dW6eV5fU4gT3hS2iR1jQ0kP9lO", 0);
	check_fill(s, &one, 1, "ghp%5F0aZ9bY8cX7dW6eV5fU4gT3hS2iR1jQ0kP9lO", "ghp%5F0aZ9bY8cX7dW6eV5fU4gT3hS2iR1jQ0kP9lO", 0);
	placeholders_free(s);
}

static void encodes(void **state)
{
	static const struct {
		enum placeholder_encoding e;
		const char *want;
	} t[] = { { PLACEHOLDER_RAW, "a/b\"\\ &\x01\xc3\xa9" }, { PLACEHOLDER_PERCENT, "a%2Fb%22%5C%20%26%01%C3%A9" }, { PLACEHOLDER_PATH, "a/b%22%5C%20%26%01%C3%A9" }, { PLACEHOLDER_JSON, "a/b\\\"\\\\ &\\u0001\xc3\xa9" } };

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct buf out = { 0 };

		placeholder_encode(&out, STR("a/b\"\\ &\x01\xc3\xa9"), t[i].e);
		assert_int_equal(buf_len(&out), strlen(t[i].want));
		assert_memory_equal(buf_data(&out), t[i].want, strlen(t[i].want));
		buf_fini(&out);
	}
}

static void wire_form(void **state)
{
	struct placeholder p;
	struct buf b = { 0 };
	struct str rest;

	(void)state;
	placeholder_put(&b, &two[0]);
	placeholder_put(&b, &two[1]);
	rest = buf_str(&b);
	for (unsigned i = 0; i < 2; i++) {
		assert_true(placeholder_next(&rest, &p));
		assert_true(str_eq(p.text, two[i].text));
		assert_true(str_eq(p.secret, two[i].secret));
	}
	assert_int_equal(rest.n, 0);
	assert_false(placeholder_next(&rest, &p));
	for (size_t n = 1; n < buf_len(&b); n++) { /* cut: never read behind the end */
		char *cut = must_malloc(n);

		memcpy(cut, buf_data(&b), n);
		rest = str_mk(cut, n);
		while (placeholder_next(&rest, &p))
			;
		free(cut);
	}
	buf_fini(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_forms),
		cmocka_unit_test(fills),
		cmocka_unit_test(encodes),
		cmocka_unit_test(wire_form),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
