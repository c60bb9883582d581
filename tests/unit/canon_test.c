/* SPDX-License-Identifier: Apache-2.0 */
/* Canonical host, authority, path and query: attacks E05-E16 and F01-F13. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "common/base/canon.h"

/* --- hosts --------------------------------------------------------------------------------------------------------- */

static void host_is(struct str in, const char *want)
{
	struct canon_host h;
	const char *reason = NULL;

	if (!canon_host(in, true, &h, &reason))
		fail_msg("'%.*s' refused: %s", (int)in.n, in.p, reason);
	assert_string_equal(h.text, want);
	assert_int_equal(h.len, strlen(want));
}

static void host_bad(struct str in, const char *want)
{
	struct canon_host h, none;
	const char *reason = NULL;

	memset(&none, 0, sizeof(none));
	if (canon_host(in, true, &h, &reason))
		fail_msg("'%.*s' accepted as '%s'", (int)in.n, in.p, h.text);
	assert_string_equal(reason, want);
	assert_memory_equal(&h, &none, sizeof(h)); /* nothing of it is left */
}
#define HOST(in, want) host_is(STR(in), want)
#define HOST_BAD(in, reason) host_bad(STR(in), reason)

static void E05_trailing_dot(void **state)
{
	(void)state;
	HOST("allowed.example.", "allowed.example");
	HOST_BAD("allowed.example..", "host_label");
	HOST_BAD(".", "host_empty");
	HOST_BAD("..", "host_label");
	HOST_BAD("", "host_empty");
}

static void E06_case(void **state)
{
	(void)state;
	HOST("ALLOWED.Example", "allowed.example");
	HOST("XN--BCHER-KVA.Example", "xn--bcher-kva.example");
}

static void E08_E09_characters(void **state)
{
	static const char bad[] = "#\\/;, %@:!\"$&'()*+<=>?[]^`{|}~\t\r\n\v\f\x01\x1f\x7f";
	char t[] = "allowed.example?.evil";

	(void)state;
	for (size_t i = 0; i < sizeof(bad) - 1; i++) {
		t[15] = bad[i];
		host_bad(str_of(t), "host_character");
	}
	HOST_BAD("allowed.example\0.evil", "host_character");
	HOST_BAD("allowed.example\0", "host_character");
	HOST_BAD("allowed%00.example", "host_character");
	HOST_BAD("allowed%2eexample", "host_character");
	HOST_BAD("%61llowed.example", "host_character");
}

static void E11_not_ascii(void **state)
{
	char t[] = "a?b.example";

	(void)state;
	HOST_BAD("\xef\xbd\x81llowed.example", "host_character"); /* full-width a */
	HOST_BAD("allowed\xe3\x80\x82" "example", "host_character"); /* ideographic full stop */
	HOST_BAD("b\xc3\xbc" "cher.example", "host_character");
	for (int c = 0x80; c < 0x100; c++) {
		t[1] = (char)c;
		host_bad(str_of(t), "host_character");
	}
	HOST("xn--bcher-kva.example", "xn--bcher-kva.example"); /* only literally */
}

static void E14_numeric(void **state)
{
	struct canon_host h;
	const char *reason;

	(void)state;
	HOST("127.0.0.1", "127.0.0.1");
	assert_true(canon_host(STR("127.0.0.1"), false, &h, &reason));
	assert_int_equal(h.ip.family, 4);
	assert_memory_equal(h.ip.b + 12, "\x7f\0\0\1", 4);
	HOST_BAD("2130706433", "host_numeric");
	HOST_BAD("0x7f000001", "host_numeric");
	HOST_BAD("0X7F.1", "host_numeric");
	HOST_BAD("0x", "host_numeric");
	HOST_BAD("a.0x", "host_numeric");
	HOST_BAD("a.0xff", "host_numeric");
	HOST_BAD("0177.0.0.1", "host_numeric");
	HOST_BAD("127.1", "host_numeric");
	HOST_BAD("0", "host_numeric");
	HOST_BAD("1.2.3.4.5", "host_numeric");
	HOST_BAD("127.0.0.1.", "host_numeric");
	HOST_BAD("127.0.0.256", "host_numeric");
	HOST_BAD("127.0.0.01", "host_numeric");
	HOST_BAD("example.123", "host_numeric");
	HOST("0xg.example", "0xg.example");
	HOST("1.2.3.4.example", "1.2.3.4.example");
	HOST("3com.0xyz", "3com.0xyz");
	assert_true(canon_host(STR("a.example"), false, &h, &reason));
	assert_int_equal(h.ip.family, 0);
}

static void E15_ipv6(void **state)
{
	struct canon_host h;
	const char *reason;

	(void)state;
	HOST("[::1]", "::1");
	HOST("[::]", "::");
	HOST("[2001:DB8:0:0:0:0:0:1]", "2001:db8::1");
	HOST("[::ffff:127.0.0.1]", "::ffff:127.0.0.1");
	HOST("[::ffff:7f00:1]", "::ffff:127.0.0.1");
	HOST("[64:ff9b::7f00:1]", "64:ff9b::7f00:1");
	HOST("[2002:7f00:1::]", "2002:7f00:1::");
	HOST_BAD("[fe80::1%25eth0]", "host_character");
	HOST_BAD("[fe80::1%eth0]", "host_character");
	HOST_BAD("[v1.x]", "host_character");
	HOST_BAD("[127.0.0.1]", "host_character");
	HOST_BAD("[]", "host_character");
	HOST_BAD("[", "host_character");
	HOST_BAD("[::1", "host_character");
	HOST_BAD("[::1]x", "host_character");
	HOST_BAD("[::1].", "host_character");
	HOST_BAD("[ ::1]", "host_character");
	HOST_BAD("[::1\0]", "host_character");
	HOST_BAD("::1", "host_character");
	HOST_BAD("2001:db8::1", "host_character");
	/* in SNI and DNS there are no brackets */
	assert_false(canon_host(STR("[::1]"), false, &h, &reason));
	assert_true(canon_host(STR("[::ffff:127.0.0.1]"), true, &h, &reason));
	assert_int_equal(h.ip.family, 6);
}

static void E16_labels_and_lengths(void **state)
{
	struct canon_host h;
	const char *reason;
	char t[300];

	(void)state;
	HOST_BAD("a..b", "host_label");
	HOST_BAD(".a", "host_label");
	HOST_BAD("-a.example", "host_label");
	HOST_BAD("a-.example", "host_label");
	HOST_BAD("a.example-", "host_label");
	HOST("a_b._tcp.example", "a_b._tcp.example");
	HOST("a-b.c--d.example", "a-b.c--d.example");
	memset(t, 'a', sizeof(t));
	assert_true(canon_host(str_mk(t, 63), true, &h, &reason));
	host_bad(str_mk(t, 64), "host_label");
	for (size_t i = 0; i < sizeof(t); i++)
		t[i] = i % 50 == 49 ? '.' : 'a';
	assert_true(canon_host(str_mk(t, 253), true, &h, &reason));
	t[253] = '.';
	assert_true(canon_host(str_mk(t, 254), true, &h, &reason));
	assert_int_equal(h.len, 253);
	t[253] = 'a';
	host_bad(str_mk(t, 254), "host_too_long");
	host_bad(str_mk(t, 300), "host_too_long");
}

static void E07_E12_authority(void **state)
{
	static const struct {
		const char *in, *host, *reason; /* host NULL: refused */
		uint16_t dflt, port;
	} rows[] = {
		{ "a.example:443", "a.example", "", 0, 443 },
		{ "a.example:65535", "a.example", "", 0, 65535 },
		{ "a.example", "a.example", "", 443, 443 },
		{ "a.example:8443", "a.example", "", 443, 8443 },
		{ "[::1]:443", "::1", "", 0, 443 },
		{ "[::1]", "::1", "", 80, 80 },
		{ "10.0.0.1:1", "10.0.0.1", "", 0, 1 },
		{ "a.example", NULL, "port", 0, 0 },
		{ "a.example:", NULL, "port", 443, 0 },
		{ "a.example:0", NULL, "port", 443, 0 },
		{ "a.example:65536", NULL, "port", 443, 0 },
		{ "a.example:443x", NULL, "port", 443, 0 },
		{ "a.example:+443", NULL, "port", 443, 0 },
		{ "a.example:-443", NULL, "port", 443, 0 },
		{ "a.example:0443", NULL, "port", 443, 0 },
		{ "a.example: 443", NULL, "port", 443, 0 },
		{ "a.example:443 ", NULL, "port", 443, 0 },
		{ "a.example:443:443", NULL, "port", 443, 0 },
		{ "a.example:000443", NULL, "port", 443, 0 },
		{ "a.example:4294967739", NULL, "port", 443, 0 },
		{ "[::1]443", NULL, "port", 443, 0 },
		{ "[::1", NULL, "host_character", 443, 0 },
		{ "::1", NULL, "port", 443, 0 },
		{ "2001:db8::1", NULL, "port", 443, 0 },
		{ "allowed@evil", NULL, "userinfo", 443, 0 },
		{ "allowed:80@evil:443", NULL, "userinfo", 443, 0 },
		{ "@evil", NULL, "userinfo", 443, 0 },
		{ "allowed%40evil", NULL, "host_character", 443, 0 },
		{ ":443", NULL, "host_empty", 0, 0 },
		{ "", NULL, "host_empty", 443, 0 },
		{ "", NULL, "host_empty", 0, 0 },
		{ "a, b", NULL, "host_character", 443, 0 }, /* E02 */
		{ "a.example/x", NULL, "host_character", 443, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct canon_host h;
		uint16_t port = 7;
		const char *reason = "";
		bool ok = canon_authority(str_of(rows[i].in), rows[i].dflt, &h, &port, &reason);

		if (ok != (rows[i].host != NULL))
			fail_msg("'%s': %s", rows[i].in, ok ? "accepted" : reason);
		if (ok) {
			assert_string_equal(h.text, rows[i].host);
			assert_int_equal(port, rows[i].port);
		} else {
			if (strcmp(reason, rows[i].reason) != 0)
				fail_msg("'%s': %s instead of %s", rows[i].in, reason, rows[i].reason);
			assert_int_equal(h.len, 0);
		}
	}
}

/* --- paths --------------------------------------------------------------------------------------------------------- */

static const struct canon_path_opts strict, slash = { .encoded_slash_keep = true }, empty = { .empty_segments_keep = true }, raw = { .raw = true },
	pattern = { .pattern = true }, all = { .encoded_slash_keep = true, .empty_segments_keep = true, .raw = true };

static void path_is(struct str in, const struct canon_path_opts *o, const char *wire, const char *match)
{
	struct arena a = { 0 };
	struct str w, m, w2, m2;
	const char *reason;

	if (!canon_path(&a, in, o, &w, &m, &reason))
		fail_msg("'%.*s' refused: %s", (int)in.n, in.p, reason);
	if (!str_eq(w, str_of(wire)) || !str_eq(m, str_of(match)))
		fail_msg("'%.*s' is sent as '%.*s', compared as '%.*s'", (int)in.n, in.p, (int)w.n, w.p, (int)m.n, m.p);
	/* what is sent has the same canonical form */
	assert_true(canon_path(&a, w, o, &w2, &m2, &reason));
	assert_true(str_eq(w, w2));
	assert_true(str_eq(m, m2));
	arena_fini(&a);
}

static void path_bad(struct str in, const struct canon_path_opts *o, const char *want)
{
	struct arena a = { 0 };
	struct str w, m;
	const char *reason = "";

	if (canon_path(&a, in, o, &w, &m, &reason))
		fail_msg("'%.*s' accepted as '%.*s'", (int)in.n, in.p, (int)w.n, w.p);
	if (strcmp(reason, want) != 0)
		fail_msg("'%.*s': %s instead of %s", (int)in.n, in.p, reason, want);
	arena_fini(&a);
}
#define PATH(in, wire, match) path_is(STR(in), &strict, wire, match)
#define PATH_O(in, o, wire, match) path_is(STR(in), &(o), wire, match)
#define PATH_BAD(in, reason) path_bad(STR(in), &strict, reason)
#define PATH_BAD_O(in, o, reason) path_bad(STR(in), &(o), reason)

static void path_plain(void **state)
{
	(void)state;
	PATH("/", "/", "/");
	PATH("/a/b.c/d-e_f~g", "/a/b.c/d-e_f~g", "/a/b.c/d-e_f~g");
	PATH("/a/", "/a/", "/a/"); /* differs from /a */
	PATH("/a...b/..c/c..", "/a...b/..c/c..", "/a...b/..c/c..");
	PATH("/.hidden/...", "/.hidden/...", "/.hidden/...");
	PATH("/a:b@c!$&'()+,=", "/a:b@c!$&'()+,=", "/a:b@c!$&'()+,=");
	PATH_BAD("", "path_form");
	PATH_BAD("a", "path_form");
	PATH_BAD("%2Fa", "path_form");
	PATH_BAD("*", "path_form");
}

static void path_escapes(void **state)
{
	(void)state;
	PATH("/%41b%7e%2D", "/Ab~-", "/Ab~-");          /* unreserved: decoded also on the wire */
	PATH("/%3a%40%24", "/%3a%40%24", "/:@$");       /* sub-delims, ':', '@': sent as they came, compared as characters */
	PATH("/a%20b%c3%bc", "/a%20b%c3%bc", "/a%20b%C3%BC"); /* others: sent as they came, compared upper-case */
	PATH("/%3f%23%5b%5D", "/%3f%23%5b%5D", "/%3F%23%5B%5D");
	PATH("/100%25", "/100%25", "/100%25");
	PATH("/a%3bb", "/a%3bb", "/a;b");
	/* a star in a request is never a wildcard; in a rule a raw one is */
	PATH("/a*b", "/a*b", "/a%2Ab");
	PATH("/a%2ab", "/a%2ab", "/a%2Ab");
	PATH_O("/a*b/**", pattern, "/a*b/**", "/a*b/**");
	PATH_O("/a%2ab", pattern, "/a%2ab", "/a%2Ab");
}

static void F01_F02_dot_segments(void **state)
{
	static const char *const bad[] = { "/pub/../admin", "/pub/./x", "/..", "/.", "/a/.", "/a/..", "/../", "/./", "/%2e%2e/a", "/.%2e", "/%2E./", "/a/%2e", "/a/%2E%2e/b", "/.%2E/" };

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		path_bad(str_of(bad[i]), &strict, "dot_segment");
		path_bad(str_of(bad[i]), &all, "dot_segment");
		path_bad(str_of(bad[i]), &pattern, "dot_segment");
	}
}

static void F03_slashes(void **state)
{
	(void)state;
	PATH_BAD("/a%2fb", "encoded_slash");
	PATH_BAD("/a%2Fb", "encoded_slash");
	PATH_BAD("/a%5cb", "backslash");
	PATH_BAD("/a\\b", "backslash");
	PATH_BAD_O("/a%5Cb", all, "backslash");
	PATH_BAD_O("/a\\b", all, "backslash");
	/* kept: an ordinary character of its segment */
	PATH_O("/@scope%2fname", slash, "/@scope%2fname", "/@scope%2Fname");
	PATH_O("/a/%2fb%2f/%2F%2f", slash, "/a/%2fb%2f/%2F%2f", "/a/%2Fb%2F/%2F%2F");
	/* but beside a dot segment never */
	PATH_BAD_O("/a%2f..%2fb", slash, "dot_segment");
	PATH_BAD_O("/a/..%2fb", slash, "dot_segment");
	PATH_BAD_O("/a%2f%2e%2e", slash, "dot_segment");
	PATH_BAD_O("/a%2f.", slash, "dot_segment");
	PATH_BAD_O("/a%2f..;x%2fb", slash, "dot_segment");
	PATH_BAD_O("/a%2f/../b", slash, "dot_segment");
}

static void F04_empty_segments(void **state)
{
	(void)state;
	PATH_BAD("//a", "empty_segment");
	PATH_BAD("/a//b", "empty_segment");
	PATH_BAD("/a//", "empty_segment");
	PATH_BAD("//", "empty_segment");
	PATH_O("//a//b//", empty, "//a//b//", "//a//b//");
	PATH_BAD_O("/a//../b", empty, "dot_segment");
}

static void F05_semicolons(void **state)
{
	(void)state;
	PATH_BAD("/a;x=1/../b", "dot_segment");
	PATH_BAD("/..;/admin", "dot_segment");
	PATH_BAD("/pub/..;a", "dot_segment");
	PATH_BAD("/pub/.;a/b", "dot_segment");
	PATH_BAD("/pub/..%3ba/b", "dot_segment");
	PATH_BAD("/pub/%2e%2e%3B/b", "dot_segment");
	PATH_BAD("/pub/a;..", "dot_segment");
	PATH_BAD("/pub/;../x", "dot_segment");
	PATH_BAD_O("/pub/..;/x", all, "dot_segment");
	PATH("/a;v=1/b;w=..x", "/a;v=1/b;w=..x", "/a;v=1/b;w=..x");
}

static void F06_double_encoding(void **state)
{
	static const char *const bad[] = { "/%252e%252e/a", "/%252f", "/a%252Fb", "/%255c", "/%2500", "/%250a", "/%2525", "/%252e", "/a%253bb", "/a%253Fb", "/a%2523", "/%257F",
		"/%25%32%65", "/%25%32e", "/%252%65", "/%25252e", "/%25%32%35", "/%25c0%25ae", "/%25e0%2580%25ae" };

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		path_bad(str_of(bad[i]), &strict, "double_encoding");
		path_bad(str_of(bad[i]), &all, "double_encoding");
	}
	/* a second decoding that yields neither a reserved character nor a dot does no harm */
	PATH("/%2541", "/%2541", "/%2541");
	PATH("/%2520", "/%2520", "/%2520");
	PATH("/%25C3%25A9", "/%25C3%25A9", "/%25C3%25A9");
	PATH("/50%25off", "/50%25off", "/50%25off");
	PATH("/%25", "/%25", "/%25");
	PATH("/%252", "/%252", "/%252");
}

static void F07_utf8(void **state)
{
	static const char *const bad[] = { "/%c0%ae", "/%c0%ae%c0%ae/", "/%e0%80%ae", "/%f0%80%80%ae", "/%ed%a0%80", "/%ff", "/%c3", "/%c3a", "/%80", "/%f4%90%80%80", "/%e2%82" };

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		path_bad(str_of(bad[i]), &strict, "bad_utf8");
		path_bad(str_of(bad[i]), &all, "bad_utf8");
	}
	PATH_BAD("/%u002e", "bad_escape");
	PATH("/%e2%82%ac%f0%9f%98%80", "/%e2%82%ac%f0%9f%98%80", "/%E2%82%AC%F0%9F%98%80");
}

static void F08_controls(void **state)
{
	char t[8] = "/a?b", e[8];

	(void)state;
	for (unsigned c = 0; c < 0x20; c++) {
		t[2] = (char)c;
		path_bad(str_mk(t, 4), &all, "control");
		snprintf(e, sizeof(e), "/a%%%02x", c);
		path_bad(str_of(e), &all, "control");
	}
	PATH_BAD("/a\x7f", "control");
	PATH_BAD("/a%7F", "control");
	PATH("/a%20b", "/a%20b", "/a%20b");
}

static void F09_bad_escapes(void **state)
{
	static const char *const bad[] = { "/%", "/%2", "/%g1", "/%1g", "/%%41", "/%-1", "/a%2/", "/%%32%65" };

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		path_bad(str_of(bad[i]), &strict, "bad_escape");
}

static void F10_case(void **state)
{
	(void)state;
	PATH("/Admin", "/Admin", "/Admin");
	PATH("/%41dmin", "/Admin", "/Admin");
}

static void F11_raw_characters(void **state)
{
	static const char bad[] = "\"<>{}^`|[]";
	char t[] = "/a?b";

	(void)state;
	for (size_t i = 0; i < sizeof(bad) - 1; i++) {
		char want[] = "/a%..b";

		t[2] = bad[i];
		path_bad(str_of(t), &strict, "raw_character");
		snprintf(want, sizeof(want), "/a%%%02Xb", (unsigned)bad[i]);
		path_is(str_of(t), &raw, t, want);
	}
	PATH_BAD("/a b", "raw_character");
	PATH_BAD_O("/a b", raw, "raw_character");
	PATH_BAD("/\xc3\xbc", "raw_character");
	PATH_O("/\xc3\xbc", raw, "/\xc3\xbc", "/%C3%BC");
	PATH_BAD_O("/\xc0\xae", raw, "bad_utf8");
	PATH_BAD_O("/\xc3", raw, "bad_utf8");
	PATH_BAD_O("/\xc3%2e", raw, "bad_utf8");
	for (int c = 0x80; c < 0x100; c++) {
		t[2] = (char)c;
		path_bad(str_of(t), &strict, "raw_character");
	}
}

static void F12_query_and_fragment(void **state)
{
	const char *reason;
	char t[] = "a=?";

	(void)state;
	PATH_BAD("/a#frag", "fragment");
	PATH_BAD_O("/a#frag", raw, "fragment");
	PATH_BAD_O("/a?b", raw, "raw_character"); /* the caller cut the query off */
	PATH_BAD("/pub%3f/../x", "dot_segment");
	PATH("/pub%3f/x", "/pub%3f/x", "/pub%3F/x");
	assert_true(canon_query(STR(""), false, &reason));
	assert_true(canon_query(STR("/../admin&a[]={b}|^`\\%20%00+~'\?"), false, &reason));
	assert_false(canon_query(STR("a#b"), false, &reason));
	assert_string_equal(reason, "fragment");
	for (int c = 0; c < 256; c++) {
		bool control = c < 0x20 || c == 0x7f, ok;

		t[2] = (char)c;
		ok = !control && c != ' ' && c != '#' && c != '%' && c != '"' && c != '<' && c != '>' && c < 0x80;
		assert_int_equal(canon_query(str_mk(t, 3), false, &reason), ok);
		assert_int_equal(canon_query(str_mk(t, 3), true, &reason), !control && c != ' ' && c != '#' && c != '%');
	}
	assert_false(canon_query(STR("a=%"), true, &reason));
	assert_false(canon_query(STR("a=%2"), true, &reason));
	assert_false(canon_query(STR("a=%2x"), true, &reason));
	assert_string_equal(reason, "bad_escape");
	assert_true(canon_query(STR("a=%2a"), true, &reason));
}

static void path_length(void **state)
{
	static char t[CANON_PATH_MAX + 1];
	struct arena a = { 0 };
	struct str w, m;
	const char *reason;

	(void)state;
	memset(t, 'a', sizeof(t));
	t[0] = '/';
	assert_true(canon_path(&a, str_mk(t, CANON_PATH_MAX), &strict, &w, &m, &reason));
	assert_int_equal(w.n, CANON_PATH_MAX);
	arena_fini(&a);
	path_bad(str_mk(t, sizeof(t)), &strict, "path_too_long");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(E05_trailing_dot), cmocka_unit_test(E06_case), cmocka_unit_test(E08_E09_characters), cmocka_unit_test(E11_not_ascii),
		cmocka_unit_test(E14_numeric), cmocka_unit_test(E15_ipv6), cmocka_unit_test(E16_labels_and_lengths), cmocka_unit_test(E07_E12_authority),
		cmocka_unit_test(path_plain), cmocka_unit_test(path_escapes), cmocka_unit_test(F01_F02_dot_segments), cmocka_unit_test(F03_slashes),
		cmocka_unit_test(F04_empty_segments), cmocka_unit_test(F05_semicolons), cmocka_unit_test(F06_double_encoding), cmocka_unit_test(F07_utf8),
		cmocka_unit_test(F08_controls), cmocka_unit_test(F09_bad_escapes), cmocka_unit_test(F10_case), cmocka_unit_test(F11_raw_characters),
		cmocka_unit_test(F12_query_and_fragment), cmocka_unit_test(path_length),
	};

	return cmocka_run_group_tests_name("canon", tests, NULL, NULL);
}
