/* SPDX-License-Identifier: Apache-2.0 */
#include "canon.h"

/* --- host ---------------------------------------------------------------------------------------------------------- */

/* A name whose last label looks like a number is an address in someone's parser (inet_aton, WHATWG): never a name here. */
static bool numeric_last_label(const char *s, size_t n)
{
	size_t i = n;
	bool digits = true, hex;

	while (i > 0 && s[i - 1] != '.')
		i--;
	for (size_t k = i; k < n; k++)
		digits = digits && s[k] >= '0' && s[k] <= '9';
	hex = n - i >= 2 && s[i] == '0' && s[i + 1] == 'x';
	for (size_t k = i + 2; hex && k < n; k++)
		hex = hex_value(s[k]) >= 0;
	return digits || hex;
}

static bool host(struct str in, bool allow_brackets, struct canon_host *out, const char **reason)
{
	size_t n = in.n, label = 0;

	*reason = "host_empty";
	if (n == 0)
		return false;
	if (in.p[0] == '[') {
		*reason = "host_character";
		if (!allow_brackets || n < 4 || in.p[n - 1] != ']' || !ip_parse(str_mk(in.p + 1, n - 2), &out->ip) || out->ip.family != 6)
			return false;
		ip_format(&out->ip, out->text);
		out->len = (uint8_t)strlen(out->text);
		return true;
	}
	*reason = "host_too_long";
	if (n > CANON_HOST_MAX + 1)
		return false;
	if (ip_parse(in, &out->ip)) {
		/* unbracketed v6 has no place in an authority; policy files write it in brackets too */
		if (out->ip.family == 6) {
			*reason = "host_character";
			return false;
		}
		ip_format(&out->ip, out->text);
		out->len = (uint8_t)strlen(out->text);
		return true;
	}
	if (in.p[n - 1] == '.')
		n--;
	if (n == 0 || n > CANON_HOST_MAX) {
		*reason = n == 0 ? "host_empty" : "host_too_long";
		return false;
	}
	for (size_t i = 0; i < n; i++) {
		char c = ascii_lower(in.p[i]);

		if (c == '.') {
			*reason = "host_label";
			if (label == 0 || in.p[i - 1] == '-')
				return false;
			label = 0;
		} else if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-') {
			*reason = "host_label";
			if (++label > 63 || (c == '-' && label == 1))
				return false;
		} else {
			*reason = "host_character";
			return false;
		}
		out->text[i] = c;
	}
	*reason = "host_label";
	if (label == 0 || in.p[n - 1] == '-')
		return false;
	*reason = "host_numeric";
	if (numeric_last_label(out->text, n))
		return false;
	out->len = (uint8_t)n;
	return true;
}

bool canon_host(struct str in, bool allow_brackets, struct canon_host *out, const char **reason)
{
	memset(out, 0, sizeof(*out));
	if (host(in, allow_brackets, out, reason))
		return true;
	memset(out, 0, sizeof(*out)); /* nothing of a refused name is left to be taken for one */
	return false;
}

bool canon_port(struct str in, uint16_t *out)
{
	uint64_t v;

	if (in.n > 5 || !str_u64(in, 65535, &v) || v == 0)
		return false;
	*out = (uint16_t)v;
	return true;
}

bool canon_authority(struct str in, uint16_t default_port, struct canon_host *out, uint16_t *port, const char **reason)
{
	size_t i, host_n;

	memset(out, 0, sizeof(*out));
	*port = default_port;
	*reason = "userinfo";
	if (in.n && memchr(in.p, '@', in.n) != NULL)
		return false;
	if (in.n && in.p[0] == '[') {
		const char *end = memchr(in.p, ']', in.n);

		*reason = "host_character";
		if (end == NULL)
			return false;
		host_n = (size_t)(end - in.p) + 1;
	} else {
		for (i = 0; i < in.n && in.p[i] != ':'; i++)
			;
		host_n = i;
	}
	if (host_n < in.n) {
		*reason = "port";
		if (in.p[host_n] != ':' || !canon_port(str_mk(in.p + host_n + 1, in.n - host_n - 1), port))
			return false;
	} else if (default_port == 0) {
		*reason = in.n == 0 ? "host_empty" : "port";
		return false;
	}
	return canon_host(str_mk(in.p, host_n), true, out, reason);
}

/* --- path ---------------------------------------------------------------------------------------------------------- */

enum { UNRESERVED = 1, SUBDELIM = 2, COLON_AT = 4, GENDELIM = 8, PLAIN = 16 };
/*
 * RFC 3986 2.2, 2.3, 3.3. PLAIN marks what passes through canon_path as it is: pchar and the slash, but for the star and
 * the semicolon, which need a closer look.
 */
static const uint8_t uri[256] = {
	['a' ... 'z'] = UNRESERVED | PLAIN, ['A' ... 'Z'] = UNRESERVED | PLAIN, ['0' ... '9'] = UNRESERVED | PLAIN,
	['-'] = UNRESERVED | PLAIN, ['.'] = UNRESERVED | PLAIN, ['_'] = UNRESERVED | PLAIN, ['~'] = UNRESERVED | PLAIN,
	['!'] = SUBDELIM | PLAIN, ['$'] = SUBDELIM | PLAIN, ['&'] = SUBDELIM | PLAIN, ['\''] = SUBDELIM | PLAIN, ['('] = SUBDELIM | PLAIN,
	[')'] = SUBDELIM | PLAIN, ['*'] = SUBDELIM, ['+'] = SUBDELIM | PLAIN, [','] = SUBDELIM | PLAIN, [';'] = SUBDELIM, ['='] = SUBDELIM | PLAIN,
	[':'] = COLON_AT | GENDELIM | PLAIN, ['@'] = COLON_AT | GENDELIM | PLAIN, ['/'] = GENDELIM | PLAIN,
	['?'] = GENDELIM, ['#'] = GENDELIM, ['['] = GENDELIM, [']'] = GENDELIM,
};
#define IS(c, mask) ((uri[(unsigned char)(c)] & (mask)) != 0)
#define PCHAR (UNRESERVED | SUBDELIM | COLON_AT)

/* UTF-8 well-formedness of a run of decoded octets (overlong forms and surrogates are not). */
static bool utf8_ok(const unsigned char *p, size_t n)
{
	for (size_t i = 0; i < n;) {
		unsigned char c = p[i], lo = 0x80, hi = 0xbf;
		size_t k;

		if (c < 0x80) {
			i++;
			continue;
		}
		k = c >= 0xc2 && c <= 0xdf ? 2 : c >= 0xe0 && c <= 0xef ? 3 : c >= 0xf0 && c <= 0xf4 ? 4 : 0;
		if (c == 0xe0)
			lo = 0xa0;
		else if (c == 0xed)
			hi = 0x9f;
		else if (c == 0xf0)
			lo = 0x90;
		else if (c == 0xf4)
			hi = 0x8f;
		if (k == 0 || i + k > n || p[i + 1] < lo || p[i + 1] > hi)
			return false;
		for (size_t j = 2; j < k; j++)
			if ((p[i + j] & 0xc0) != 0x80)
				return false;
		i += k;
	}
	return true;
}

/* In the decoded view an escaped slash that is kept stands as this octet, which nothing else can be: controls are refused. */
#define KEPT_SLASH 1

/*
 * Dot segments and empty ones in the decoded view. An empty segment is one between two real slashes. A dot segment is
 * looked for between anything that some origin takes for the end of a segment: slashes, kept slashes, semicolons (Tomcat
 * and its like cut ";parameters" off before they resolve dots).
 */
static const char *bad_segment(const unsigned char *dec, size_t n, bool empty_keep)
{
	size_t piece = 1, seg = 1;

	for (size_t i = 1; i <= n; i++) {
		size_t len = i - piece;

		if (i < n && dec[i] != '/' && dec[i] != KEPT_SLASH && dec[i] != ';')
			continue;
		if ((len == 1 || (len == 2 && dec[piece + 1] == '.')) && dec[piece] == '.')
			return "dot_segment";
		piece = i + 1;
		if (i < n && dec[i] != '/')
			continue;
		if (i == seg && i < n && !empty_keep)
			return "empty_segment";
		seg = i + 1;
	}
	return NULL;
}

/*
 * What an origin that decodes twice would see, made in place. It may not see a reserved character, a dot, a percent
 * sign, a control, a backslash, or a broken (overlong) UTF-8 sequence that it did not see the first time.
 */
static bool double_encoded(unsigned char *dec, size_t n)
{
	size_t o = 0;

	for (size_t i = 0; i < n; i++) {
		int h = -1, l = -1;

		if (dec[i] == '%' && i + 2 < n) {
			h = hex_value((char)dec[i + 1]);
			l = hex_value((char)dec[i + 2]);
		}
		if (h < 0 || l < 0) {
			dec[o++] = dec[i];
			continue;
		}
		dec[o] = (unsigned char)(h << 4 | l);
		if (IS(dec[o], SUBDELIM | GENDELIM) || dec[o] < 0x20 || dec[o] == 0x7f || dec[o] == '.' || dec[o] == '%' || dec[o] == '\\')
			return true;
		o++;
		i += 2;
	}
	return o != n && !utf8_ok(dec, o);
}

static char *put_escape(char *m, unsigned char c)
{
	static const char hex[] = "0123456789ABCDEF";

	*m++ = '%';
	*m++ = hex[c >> 4];
	*m++ = hex[c & 15];
	return m;
}

/* Most paths hold nothing that could have a second reading: they are their own canonical form. */
static bool plain_path(struct str in)
{
	for (size_t i = 0; i < in.n; i++)
		if (!IS(in.p[i], PLAIN) || (i > 0 && in.p[i - 1] == '/' && (in.p[i] == '.' || in.p[i] == '/')))
			return false;
	return true;
}

bool canon_path(struct arena *a, struct str in, const struct canon_path_opts *o, struct str *wire, struct str *match, const char **reason)
{
	char *w, *m, *w0, *m0;
	unsigned char *dec;
	size_t dn = 0;
	bool percent = false;

	*reason = "path_too_long";
	if (in.n > CANON_PATH_MAX)
		return false;
	*reason = "path_form";
	if (in.n == 0 || in.p[0] != '/')
		return false;
	if (plain_path(in)) {
		*wire = *match = arena_str(a, in);
		return true;
	}
	w = w0 = arena_alloc(a, in.n);
	m = m0 = arena_alloc(a, in.n * 3); /* a raw character may become an escape in the match form */
	dec = arena_alloc(a, in.n);
	for (size_t i = 0; i < in.n;) {
		unsigned char c = (unsigned char)in.p[i], d = c;
		size_t k = 1;

		if (c == '%') {
			int h = i + 2 < in.n ? hex_value(in.p[i + 1]) : -1, l = i + 2 < in.n ? hex_value(in.p[i + 2]) : -1;

			*reason = "bad_escape";
			if (h < 0 || l < 0)
				return false;
			d = (unsigned char)(h << 4 | l);
			k = 3;
			percent = percent || d == '%';
			*reason = "encoded_slash";
			if (d == '/' && !o->encoded_slash_keep)
				return false;
		}
		*reason = "control";
		if (d < 0x20 || d == 0x7f)
			return false;
		*reason = "backslash";
		if (d == '\\')
			return false;
		*reason = "fragment";
		if (c == '#')
			return false;
		*reason = "raw_character";
		if (k == 1 && c != '/' && !IS(c, PCHAR) && (!o->raw || c == ' ' || c == '?'))
			return false;
		dec[dn++] = k == 3 && d == '/' ? KEPT_SLASH : d;
		if (IS(d, UNRESERVED)) {
			*w++ = (char)d;
			*m++ = (char)d;
		} else {
			memcpy(w, in.p + i, k);
			w += k;
			/* a star is an escape in the match form, so that only a rule's own star is one */
			if (d == '*' ? o->pattern && k == 1 : (k == 1 && d == '/') || IS(d, SUBDELIM | COLON_AT))
				*m++ = (char)d;
			else
				m = put_escape(m, d);
		}
		i += k;
	}
	*reason = "bad_utf8";
	if (!utf8_ok(dec, dn))
		return false;
	*reason = bad_segment(dec, dn, o->empty_segments_keep);
	if (*reason != NULL)
		return false;
	*reason = "double_encoding";
	if (percent && double_encoded(dec, dn))
		return false;
	*wire = str_mk(w0, (size_t)(w - w0));
	*match = str_mk(m0, (size_t)(m - m0));
	return true;
}

bool canon_query(struct str in, bool raw, const char **reason)
{
	for (size_t i = 0; i < in.n; i++) {
		unsigned char c = (unsigned char)in.p[i];

		*reason = "control";
		if (c < 0x20 || c == 0x7f)
			return false;
		*reason = "fragment";
		if (c == '#')
			return false;
		*reason = "bad_escape";
		if (c == '%') {
			if (i + 2 >= in.n || hex_value(in.p[i + 1]) < 0 || hex_value(in.p[i + 2]) < 0)
				return false;
			continue;
		}
		*reason = "raw_character";
		/*
		 * Brackets, braces and their like are outside RFC 3986 but every browser and curl send them raw in a query, where
		 * they have no second reading. What browsers do escape is refused.
		 */
		if (c == ' ' || (!raw && (c == '"' || c == '<' || c == '>' || c >= 0x80)))
			return false;
	}
	return true;
}
