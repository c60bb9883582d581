/* SPDX-License-Identifier: Apache-2.0 */
#include "canon.h"

static int hexval(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

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
		hex = hexval(s[k]) >= 0;
	return digits || hex;
}

bool canon_host(struct str in, bool allow_brackets, struct canon_host *out, const char **reason)
{
	size_t n = in.n, label = 0;

	memset(out, 0, sizeof(*out));
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
			out->ip.family = 0;
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

bool canon_port(struct str in, uint16_t *out)
{
	uint64_t v;

	if (in.n > 5 || !str_u64(in, 65535, &v) || v == 0)
		return false;
	*out = (uint16_t)v;
	return true;
}

bool canon_authority(struct str in, uint16_t default_port, struct canon_host *host, uint16_t *port, const char **reason)
{
	size_t i, host_n;

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
	*port = default_port;
	if (host_n < in.n) {
		*reason = "port";
		if (in.p[host_n] != ':' || !canon_port(str_mk(in.p + host_n + 1, in.n - host_n - 1), port))
			return false;
	} else if (default_port == 0) {
		*reason = "port";
		return false;
	}
	return canon_host(str_mk(in.p, host_n), true, host, reason);
}

/* --- path ---------------------------------------------------------------------------------------------------------- */

static bool is_unreserved(unsigned char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' || c == '~';
}

static bool is_subdelim(unsigned char c) { return c != 0 && strchr("!$&'()*+,;=", c) != NULL; }
static bool is_pchar(unsigned char c) { return is_unreserved(c) || is_subdelim(c) || c == ':' || c == '@'; }

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

/* A segment is a dot segment also with ;parameters behind the dots, which some origins cut off first. */
static bool dot_segment(const char *p, size_t n)
{
	size_t k = 0;

	while (k < n && p[k] != ';')
		k++;
	return (k == 1 && p[0] == '.') || (k == 2 && p[0] == '.' && p[1] == '.');
}

bool canon_path(struct arena *a, struct str in, const struct canon_path_opts *o, struct str *wire, struct str *match, const char **reason)
{
	static const char hex[] = "0123456789ABCDEF";
	char *w, *m;
	unsigned char *dec;
	size_t wn = 0, mn = 0, dn = 0, seg;

	*reason = "path_too_long";
	if (in.n > CANON_PATH_MAX)
		return false;
	*reason = "path_form";
	if (in.n == 0 || in.p[0] != '/')
		return false;
	w = arena_alloc(a, in.n + 1);
	m = arena_alloc(a, in.n * 3 + 1); /* raw characters become escapes in the match form */
	dec = arena_alloc(a, in.n + 1);
	for (size_t i = 0; i < in.n;) {
		unsigned char c = (unsigned char)in.p[i];

		if (c == '%') {
			int h = i + 2 < in.n ? hexval(in.p[i + 1]) : -1, l = i + 2 < in.n ? hexval(in.p[i + 2]) : -1;
			unsigned char d;

			*reason = "bad_escape";
			if (h < 0 || l < 0)
				return false;
			d = (unsigned char)(h << 4 | l);
			*reason = "control";
			if (d < 0x20 || d == 0x7f)
				return false;
			*reason = "encoded_slash";
			if (d == '/' && !o->encoded_slash_keep)
				return false;
			*reason = "backslash";
			if (d == '\\')
				return false;
			if (d == '%' && i + 4 < in.n) {
				/* a second decoding would yield a reserved character, a dot or another percent sign */
				int h2 = hexval(in.p[i + 3]), l2 = hexval(in.p[i + 4]);
				unsigned char d2 = (unsigned char)(h2 << 4 | l2);

				*reason = "double_encoding";
				if (h2 >= 0 && l2 >= 0 && (d2 == '.' || d2 == '/' || d2 == '\\' || d2 == '%' || d2 < 0x20 || d2 == 0x7f || !is_unreserved(d2)))
					return false;
			}
			dec[dn++] = d;
			if (is_unreserved(d)) {
				w[wn++] = (char)d;
				m[mn++] = (char)d;
			} else {
				memcpy(w + wn, in.p + i, 3);
				wn += 3;
				if ((is_subdelim(d) && d != '*') || d == ':' || d == '@') {
					m[mn++] = (char)d;
				} else { /* an escaped star stays escaped: rules write a literal star so */
					m[mn++] = '%';
					m[mn++] = hex[d >> 4];
					m[mn++] = hex[d & 15];
				}
			}
			i += 3;
			continue;
		}
		*reason = "control";
		if (c < 0x20 || c == 0x7f)
			return false;
		*reason = "backslash";
		if (c == '\\')
			return false;
		*reason = "fragment";
		if (c == '#')
			return false;
		*reason = "raw_character";
		if (c != '/' && !is_pchar(c)) {
			if (!o->raw || c == ' ' || c == '?')
				return false;
			w[wn++] = (char)c;
			m[mn++] = '%';
			m[mn++] = hex[c >> 4];
			m[mn++] = hex[c & 15];
			dec[dn++] = c;
			i++;
			continue;
		}
		w[wn++] = (char)c;
		if (c == '*' && !o->pattern) {
			memcpy(m + mn, "%2A", 3);
			mn += 3;
		} else {
			m[mn++] = (char)c;
		}
		dec[dn++] = c;
		i++;
	}
	*reason = "bad_utf8";
	if (!o->raw && !utf8_ok(dec, dn))
		return false;
	/* segments, on the decoded view: what is between slashes, kept encoded slashes cutting too when a dot segment hides there */
	seg = 1;
	for (size_t i = 1; i <= dn; i++) {
		if (i < dn && dec[i] != '/')
			continue;
		*reason = "dot_segment";
		if (dot_segment((const char *)dec + seg, i - seg))
			return false;
		*reason = "empty_segment";
		if (i == seg && i < dn && !o->empty_segments_keep)
			return false;
		seg = i + 1;
	}
	*wire = str_mk(w, wn);
	*match = str_mk(m, mn);
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
			if (i + 2 >= in.n || hexval(in.p[i + 1]) < 0 || hexval(in.p[i + 2]) < 0)
				return false;
			continue;
		}
		*reason = "raw_character";
		/* brackets, braces, pipes and their like in queries are too common to refuse; they have no second reading there */
		if (c == ' ' || (c >= 0x80 && !raw))
			return false;
	}
	return true;
}
