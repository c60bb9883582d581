/* SPDX-License-Identifier: Apache-2.0 */
#include "escape.h"

#include <string.h>

#include "../../common/base/str.h"

/* Of UTF-8: how many octets the character has whose first is c. */
static size_t utf8_len(uint8_t c) { return c < 0x80 ? 1 : c >= 0xc2 && c < 0xe0 ? 2
						  : c >= 0xe0 && c < 0xf0	? 3
						  : c >= 0xf0 && c < 0xf5	? 4
										: 0; }

static uint8_t utf8_write(uint32_t cp, uint8_t o[4])
{
	if (cp < 0x80) {
		o[0] = (uint8_t)cp;
		return 1;
	}
	if (cp < 0x800) {
		o[0] = (uint8_t)(0xc0 | cp >> 6);
		o[1] = (uint8_t)(0x80 | (cp & 63));
		return 2;
	}
	if (cp < 0x10000) {
		o[0] = (uint8_t)(0xe0 | cp >> 12);
		o[1] = (uint8_t)(0x80 | (cp >> 6 & 63));
		o[2] = (uint8_t)(0x80 | (cp & 63));
		return 3;
	}
	o[0] = (uint8_t)(0xf0 | cp >> 18);
	o[1] = (uint8_t)(0x80 | (cp >> 12 & 63));
	o[2] = (uint8_t)(0x80 | (cp >> 6 & 63));
	o[3] = (uint8_t)(0x80 | (cp & 63));
	return 4;
}

/* Four hexadecimal digits, or -1. */
static int32_t code_unit(const uint8_t *p)
{
	int32_t v = 0;

	for (unsigned i = 0; i < 4; i++) {
		int h = hex_value((char)p[i]);

		if (h < 0)
			return -1;
		v = v << 4 | h;
	}
	return v;
}

static void read_unicode(const uint8_t *p, size_t n, struct escape *out)
{
	int32_t u, low;
	uint32_t cp;

	if (n < 6 || (u = code_unit(p + 2)) < 0 || (u >= 0xdc00 && u < 0xe000))
		return;
	cp = (uint32_t)u;
	out->len = 6;
	if (u >= 0xd800 && u < 0xdc00) {
		if (n < 12 || p[6] != '\\' || p[7] != 'u' || (low = code_unit(p + 8)) < 0xdc00 || low >= 0xe000) {
			out->len = 0;
			return;
		}
		cp = 0x10000 + ((uint32_t)(u - 0xd800) << 10) + (uint32_t)(low - 0xdc00);
		out->len = 12;
	}
	out->n = utf8_write(cp, out->o);
	if (cp >= 0x80 && cp < 0x100)
		out->latin = (int16_t)cp;
}

void escape_read(const uint8_t *p, size_t n, struct escape *out)
{
	static const char plain[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
	const char *at;
	int hi, lo;

	out->len = 0;
	out->n = 1;
	out->latin = -1;
	if (n < 2)
		return;
	if (p[0] == '%') {
		if (n >= 3 && (hi = hex_value((char)p[1])) >= 0 && (lo = hex_value((char)p[2])) >= 0) {
			out->o[0] = (uint8_t)(hi << 4 | lo);
			out->len = 3;
		}
	} else if (p[0] == '\\') {
		if (p[1] == 'u') {
			read_unicode(p, n, out);
		} else if (p[1] != 0 && (at = strchr(plain, p[1])) != NULL) {
			out->o[0] = (uint8_t)means[at - plain];
			out->len = 2;
		}
	}
}

/* A proper beginning of the spelling s; hexadecimal digits in either case. */
static bool begins(const uint8_t *p, size_t n, const char *s, size_t sn)
{
	if (n >= sn)
		return false;
	for (size_t i = 0; i < n; i++)
		if (p[i] != (uint8_t)s[i] && (hex_value(s[i]) < 0 || hex_value((char)p[i]) != hex_value(s[i])))
			return false;
	return true;
}

static void spell(char *s, const char *prefix, unsigned digits, uint32_t v)
{
	size_t n = strlen(prefix);

	memcpy(s, prefix, n);
	for (unsigned i = 0; i < digits; i++)
		s[n + i] = "0123456789abcdef"[v >> (4 * (digits - 1 - i)) & 15];
}

bool escape_partial(const uint8_t *p, size_t n, const uint8_t *o, size_t on)
{
	size_t k = utf8_len(o[0]);
	char s[ESCAPE_MAX];
	uint8_t back[4];
	uint32_t cp;

	spell(s, "%", 2, o[0]);
	if (begins(p, n, s, 3))
		return true;
	spell(s, "\\u", 4, o[0]);
	if (begins(p, n, s, 6))
		return true;
	if (k < 2 || k > on)
		return false;
	cp = o[0] & (0xffu >> (k + 1));
	for (size_t i = 1; i < k; i++)
		cp = cp << 6 | (o[i] & 63);
	if (cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000) || utf8_write(cp, back) != k || memcmp(back, o, k) != 0)
		return false;
	if (cp < 0x10000) {
		spell(s, "\\u", 4, cp);
		return begins(p, n, s, 6);
	}
	spell(s, "\\u", 4, 0xd800 + ((cp - 0x10000) >> 10));
	spell(s + 6, "\\u", 4, 0xdc00 + ((cp - 0x10000) & 0x3ff));
	return begins(p, n, s, 12);
}

size_t escape_find_portable(const uint8_t *p, size_t n)
{
	const uint64_t ones = 0x0101010101010101u, high = ones << 7;
	size_t i = 0;

	for (; i + 8 <= n; i += 8) {
		uint64_t v, a, b;

		memcpy(&v, p + i, 8);
		a = v ^ ones * '%';
		b = v ^ ones * '\\';
		if ((((a - ones) & ~a) | ((b - ones) & ~b)) & high)
			break;
	}
	while (i < n && !escape_begins(p[i]))
		i++;
	return i;
}

#ifdef __SSE2__
size_t escape_find(const uint8_t *p, size_t n)
{
	size_t i = 0;

	for (; i + 16 <= n; i += 16) {
		unsigned m = escape_mask_16(p + i);

		if (m)
			return i + (size_t)__builtin_ctz(m);
	}
	return i + escape_find_portable(p + i, n - i);
}

#else
size_t escape_find(const uint8_t *p, size_t n)
{
	return escape_find_portable(p, n);
}
#endif
