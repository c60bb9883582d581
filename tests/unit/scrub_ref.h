/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_SCRUB_REF_H
#define SP_SCRUB_REF_H
/* What scrubbing means, the slow and obvious way; for the unit test and the fuzz target. */
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include <openssl/evp.h>

#include "common/base/must.h"
#include "proxy/filter/scrub.h"
#include "proxy/filter/scrub_int.h"

struct ref_form {
	uint8_t *p;
	size_t n;
	bool nocase;
	char kind; /* filler: '*', 'A', '0' */
};
struct ref {
	struct ref_form f[256];
	size_t n;
};

static void ref_add(struct ref *r, const void *p, size_t n, bool nocase, char kind)
{
	struct ref_form *f = &r->f[r->n++];

	MUST(r->n < sizeof(r->f) / sizeof(r->f[0]));
	*f = (struct ref_form){ must_malloc(n + 1), n, nocase, kind };
	memcpy(f->p, p, n);
}

/* Base64 of v behind `skip` and before two octets that are all `fill`. */
static void ref_encode(struct str v, unsigned skip, int fill, char *out)
{
	size_t n = skip + v.n + 3;
	uint8_t *in = must_malloc(n);

	memset(in, fill, n);
	memcpy(in + skip, v.p, v.n);
	EVP_EncodeBlock((unsigned char *)out, in, (int)n);
	free(in);
}

static void ref_value(struct ref *r, struct str v)
{
	char *a = must_malloc(2 * v.n + 16), *b = must_malloc(2 * v.n + 16);

	if (v.n >= 2)
		ref_add(r, v.p, v.n, false, '*');
	for (unsigned skip = 0; v.n >= 8 && skip < 3; skip++) {
		size_t from = 0, to;

		/* what does not change with the neighbours is the value's own */
		ref_encode(v, skip, 0, a);
		ref_encode(v, skip, 255, b);
		while (a[from] != b[from])
			from++;
		for (to = from; a[to] == b[to]; to++)
			;
		ref_add(r, a + from, to - from, false, 'A');
		for (size_t i = from; i < to; i++)
			a[i] = a[i] == '+' ? '-' : a[i] == '/' ? '_'
							       : a[i];
		ref_add(r, a + from, to - from, false, 'A');
	}
	if (v.n >= 8) {
		for (size_t i = 0; i < v.n; i++)
			snprintf(a + 2 * i, 3, "%02x", (uint8_t)v.p[i]);
		ref_add(r, a, 2 * v.n, true, '0');
	}
	free(a);
	free(b);
}

static void ref_init(struct ref *r, const struct str *v, size_t vn)
{
	r->n = 0;
	for (size_t k = 0; k < vn; k++)
		ref_value(r, v[k]);
}

static void ref_fini(struct ref *r)
{
	for (size_t k = 0; k < r->n; k++)
		free(r->f[k].p);
}

/* The spellings of what begins at octet i of the form: how many octets each takes. "~" before a letter: exactly that one; else hexadecimal digits in either case. */
struct ref_spelling {
	char s[20];
	size_t n, takes;
};
static size_t ref_spellings(const struct ref_form *f, size_t i, struct ref_spelling out[16])
{
	static const char named[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
	size_t n = 0;

	for (unsigned upper = 0; upper < 2; upper++) {
		uint8_t c = f->p[i];

		if (upper && !(f->nocase && c >= 'a'))
			break;
		c = upper ? (uint8_t)(c - 32) : c;
		out[n] = (struct ref_spelling){ .n = 1, .takes = 1 };
		out[n++].s[0] = (char)c;
		out[n] = (struct ref_spelling){ .n = 3, .takes = 1 };
		snprintf(out[n++].s, sizeof(out[0].s), "%%%02x", c);
		out[n] = (struct ref_spelling){ .n = 6, .takes = 1 };
		snprintf(out[n++].s, sizeof(out[0].s), "\\u00%02x", c);
		for (unsigned k = 0; k < 8; k++)
			if ((uint8_t)means[k] == c) {
				out[n] = (struct ref_spelling){ .n = 2, .takes = 1 };
				snprintf(out[n++].s, sizeof(out[0].s), "\\%c", named[k]);
			}
	}
	for (size_t k = 2; k <= 4 && i + k <= f->n; k++) {
		const uint8_t *p = f->p + i;
		uint32_t cp = k == 2 ? p[0] & 31u : k == 3 ? p[0] & 15u
							   : p[0] & 7u;
		bool ok = k == 2 ? (p[0] & 0xe0) == 0xc0 : k == 3 ? (p[0] & 0xf0) == 0xe0
								  : (p[0] & 0xf8) == 0xf0;

		for (size_t j = 1; j < k; j++) {
			ok = ok && (p[j] & 0xc0) == 0x80;
			cp = cp << 6 | (p[j] & 63);
		}
		if (!ok || cp < (k == 2 ? 0x80u : k == 3 ? 0x800u
							 : 0x10000u) ||
		    cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000))
			continue;
		out[n] = (struct ref_spelling){ .n = k == 4 ? 12 : 6, .takes = k };
		if (k == 4)
			snprintf(out[n++].s, sizeof(out[0].s), "\\u%04x\\u%04x", (unsigned)(0xd800 + ((cp - 0x10000) >> 10)), (unsigned)(0xdc00 + ((cp - 0x10000) & 0x3ff)));
		else
			snprintf(out[n++].s, sizeof(out[0].s), "\\u%04x", (unsigned)cp);
	}
	return n;
}

/* How much of the spelling the text has, at least k octets of it or all of its own. */
static bool ref_spelled(const struct ref_spelling *s, const uint8_t *p, size_t k)
{
	bool unicode = s->n >= 6, percent = s->n == 3;

	for (size_t i = 0; i < k; i++) {
		bool digit = (percent && i >= 1) || (unicode && i % 6 >= 2);

		if (digit ? strncasecmp(s->s + i, (const char *)p + i, 1) != 0 : (uint8_t)s->s[i] != p[i])
			return false;
	}
	return true;
}

/* All ways to read p[0..n) as the form, from p[at] on. Marks what whole ones cover; *open: one reaches the end unfinished. */
static void ref_read(const struct ref_form *f, const uint8_t *p, size_t n, size_t start, uint8_t *covered, bool *open)
{
	struct ref_spelling s[16];
	size_t first = ref_spellings(f, 0, s);
	bool begins = false;
	uint8_t *reach; /* [octet][place] */

	for (size_t k = 0; k < first && !begins; k++)
		begins = ref_spelled(&s[k], p + start, n - start < s[k].n ? n - start : s[k].n);
	if (!begins)
		return;
	reach = must_calloc((f->n + 5) * (n + 1), 1);
	reach[start] = 1;
	for (size_t i = 0; i < f->n; i++) {
		size_t sn = 0;

		for (size_t at = start; at <= n; at++) {
			if (!reach[i * (n + 1) + at])
				continue;
			if (sn == 0)
				sn = ref_spellings(f, i, s);
			if (at == n && i > 0)
				*open = true;
			for (size_t k = 0; k < sn; k++) {
				size_t left = n - at < s[k].n ? n - at : s[k].n;

				if (!ref_spelled(&s[k], p + at, left))
					continue;
				if (left == s[k].n)
					reach[(i + s[k].takes) * (n + 1) + at + left] = 1;
				else if (left > 0)
					*open = true;
			}
		}
	}
	for (size_t at = start; at <= n; at++)
		if (reach[f->n * (n + 1) + at])
			memset(covered + start, 1, at - start);
	free(reach);
}

static void ref_covered(const struct ref *r, const uint8_t *p, size_t n, uint8_t *covered)
{
	bool open = false;

	memset(covered, 0, n);
	for (size_t k = 0; k < r->n; k++)
		for (size_t at = 0; at < n; at++)
			ref_read(&r->f[k], p, n, at, covered, &open);
}

/* The longest suffix of p that begins a form: more may never be held back, and it must be. */
static size_t ref_may_hold(const struct ref *r, const uint8_t *p, size_t n)
{
	uint8_t *covered = must_malloc(n + 1);
	size_t may = 0;

	for (size_t at = 0; at < n && may == 0; at++)
		for (size_t k = 0; k < r->n && may == 0; k++) {
			bool open = false;

			ref_read(&r->f[k], p, n, at, covered, &open);
			may = open ? n - at : 0;
		}
	free(covered);
	return may;
}

static bool ref_is_filler(uint8_t c) { return c == '*' || c == 'A' || c == '0' || c == '/'; }

/* out is in with what is covered overwritten by filler, and nothing else. */
static bool ref_right(const uint8_t *in, const uint8_t *covered, const uint8_t *out, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (covered[i] ? !ref_is_filler(out[i]) : out[i] != in[i])
			return false;
	return true;
}

static uint32_t ref_rnd(uint32_t *s)
{
	*s ^= *s << 13;
	*s ^= *s >> 17;
	*s ^= *s << 5;
	return *s;
}

/* Writes a form as some program might: which of its octets are escaped, and how, follows from seed; how 0: none. */
static void ref_write(const struct ref_form *f, unsigned how, uint32_t seed, struct buf *out)
{
	struct ref_spelling s[16];

	seed = seed * 2654435761u + 1;
	for (size_t i = 0; i < f->n;) {
		size_t sn = ref_spellings(f, i, s), k = 0;

		if (how == 1 || (how == 2 && ref_rnd(&seed) % 4 == 0) || (how == 3 && ref_rnd(&seed) % 16 == 0))
			k = ref_rnd(&seed) % sn;
		for (size_t j = 0; j < s[k].n; j++) {
			bool digit = (s[k].n == 3 && j >= 1) || (s[k].n >= 6 && j % 6 >= 2) || (s[k].n == 1 && f->nocase);

			buf_addc(out, digit && s[k].s[j] >= 'a' && s[k].s[j] <= 'f' && ref_rnd(&seed) & 1 ? (char)(s[k].s[j] - 32) : s[k].s[j]);
		}
		i += s[k].takes;
	}
}

/* A text out of octets, in which 1 K H stands for form K written in way H. */
static void ref_text(const struct ref *r, const uint8_t *p, size_t n, size_t max, struct buf *out)
{
	for (size_t i = 0; i < n && buf_len(out) < max; i++) {
		if (p[i] == 1 && i + 2 < n && r->n > 0) {
			ref_write(&r->f[p[i + 1] % r->n], p[i + 2] & 3, p[i + 2], out);
			i += 2;
		} else {
			buf_addc(out, (char)p[i]);
		}
	}
	if (buf_len(out) > max) /* cut: also in the middle of a form */
		out->len = max;
}

/* As the exchange does: in place while nothing is held. */
static void ref_feed(struct scrub *s, const uint8_t *in, size_t k, struct buf *out)
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
#endif
