/* SPDX-License-Identifier: Apache-2.0 */
#include "jsonw.h"

/* Length of the well-formed UTF-8 sequence at p (Unicode 15, table 3-7), 0 if there is none. */
static size_t utf8_len(const unsigned char *p, size_t n)
{
	unsigned char a = p[0], lo = 0x80, hi = 0xbf;
	size_t k;

	if (a < 0x80)
		return 1;
	if (a >= 0xc2 && a <= 0xdf)
		k = 2;
	else if (a >= 0xe0 && a <= 0xef)
		k = 3;
	else if (a >= 0xf0 && a <= 0xf4)
		k = 4;
	else
		return 0;
	if (n < k)
		return 0;
	if (a == 0xe0)
		lo = 0xa0;
	else if (a == 0xed)
		hi = 0x9f;
	else if (a == 0xf0)
		lo = 0x90;
	else if (a == 0xf4)
		hi = 0x8f;
	if (p[1] < lo || p[1] > hi)
		return 0;
	for (size_t i = 2; i < k; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	return k;
}

/* How many octets at the front stand in a string as they are: visible ASCII except '"' and '\\'. */
static size_t plain_run(const unsigned char *p, size_t n)
{
	const uint64_t ones = 0x0101010101010101, tops = 0x8080808080808080;
	size_t i = 0;

	for (; i + 8 <= n; i += 8) {
		uint64_t v, quote, back, del;

		memcpy(&v, p + i, 8);
		quote = v ^ ones * '"';
		back = v ^ ones * '\\';
		del = v ^ ones * 0x7f;
		/* a top bit wherever an octet is below 0x20, one of the three, or not ASCII (a borrow may mark more: they are looked at one by one) */
		if ((((v - ones * 0x20) | (quote - ones) | (back - ones) | (del - ones) | v) & tops) != 0)
			break;
	}
	while (i < n && p[i] >= 0x20 && p[i] < 0x7f && p[i] != '"' && p[i] != '\\')
		i++;
	return i;
}

/* What has something to escape. plain: octets at its front that have not. */
static void quote(struct buf *out, struct str s, size_t plain)
{
	static const char hex[] = "0123456789abcdef";
	const unsigned char *p = (const unsigned char *)s.p;
	size_t i = plain, run = 0;

	buf_room(out, s.n + 2);
	buf_addc(out, '"');
	for (; i < s.n; i += plain_run(p + i, s.n - i)) {
		unsigned char c = p[i];
		size_t k;

		buf_add(out, p + run, i - run);
		if (c == '"' || c == '\\') {
			buf_addc(out, '\\');
			buf_addc(out, (char)c);
			i++;
		} else if (c < 0x20 || c == 0x7f) {
			char u[6] = { '\\', 'u', '0', '0', hex[c >> 4], hex[c & 15] };
			buf_add(out, u, 6);
			i++;
		} else if ((k = utf8_len(p + i, s.n - i)) == 2 && c == 0xc2 && p[i + 1] < 0xa0) {
			/* C1 controls: some terminals obey them */
			char u[6] = { '\\', 'u', '0', '0', hex[p[i + 1] >> 4], hex[p[i + 1] & 15] };
			buf_add(out, u, 6);
			i += 2;
		} else if (k > 0) {
			buf_add(out, p + i, k);
			i += k;
		} else {
			buf_addz(out, "\xef\xbf\xbd");
			i++;
		}
		run = i;
	}
	buf_add(out, p + run, s.n - run);
	buf_addc(out, '"');
}

/* to: room for two octets more than s has. Its end; NULL if there is something to escape, *plain octets further on. */
static uint8_t *quote_plain(uint8_t *to, struct str s, size_t *plain)
{
	*plain = s.n > 0 ? plain_run((const unsigned char *)s.p, s.n) : 0;
	if (*plain < s.n)
		return NULL;
	*to++ = '"';
	if (s.n > 0)
		memcpy(to, s.p, s.n);
	to[s.n] = '"';
	return to + s.n + 1;
}

void jsonw_quote(struct buf *out, struct str s)
{
	uint8_t *p = buf_room(out, s.n + 2), *end;
	size_t plain;

	end = quote_plain(p, s, &plain);
	if (end != NULL)
		buf_commit(out, (size_t)(end - p));
	else
		quote(out, s, plain);
}

static void sep(struct jsonw *w)
{
	if (w->need_comma)
		buf_addc(w->out, ',');
	w->need_comma = true;
}

void jsonw_open(struct jsonw *w, char b)
{
	sep(w);
	buf_addc(w->out, b);
	w->need_comma = false;
}

void jsonw_close(struct jsonw *w, char b)
{
	buf_addc(w->out, b);
	w->need_comma = true;
}

static uint8_t *put_key(struct jsonw *w, uint8_t *to, const char *key, size_t n)
{
	if (w->need_comma)
		*to++ = ',';
	*to++ = '"';
	memcpy(to, key, n);
	to += n;
	*to++ = '"';
	*to++ = ':';
	return to;
}

void jsonw_key_n(struct jsonw *w, const char *key, size_t n)
{
	uint8_t *p = buf_room(w->out, n + 4);

	buf_commit(w->out, (size_t)(put_key(w, p, key, n) - p));
	w->need_comma = false;
}

void jsonw_kstr_n(struct jsonw *w, const char *key, size_t n, struct str s)
{
	uint8_t *p = buf_room(w->out, n + s.n + 6), *to = put_key(w, p, key, n), *end;
	size_t plain;

	w->need_comma = true;
	end = quote_plain(to, s, &plain);
	buf_commit(w->out, (size_t)((end != NULL ? end : to) - p));
	if (end == NULL)
		quote(w->out, s, plain);
}

void jsonw_str(struct jsonw *w, struct str s) { sep(w); jsonw_quote(w->out, s); }
void jsonw_u64(struct jsonw *w, uint64_t v) { sep(w); buf_addu(w->out, v); }
void jsonw_bool(struct jsonw *w, bool v) { sep(w); buf_addz(w->out, v ? "true" : "false"); }
void jsonw_null(struct jsonw *w) { sep(w); buf_addz(w->out, "null"); }
