/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Canonical forms. The first octet: options; the rest is a path, a query, a host and an authority at once.
 * canon(canon(x)) is canon(x); what is sent has no dot segment in any decoding and no octet that could end a line.
 */
#include <stdio.h>
#include <stdlib.h>

#include "common/base/canon.h"
#include "common/base/must.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int hexval(unsigned char c) { return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1; }

/* One decoding, as an origin would do it. */
static size_t decode(const unsigned char *p, size_t n, unsigned char *out)
{
	size_t o = 0;

	for (size_t i = 0; i < n; i++) {
		if (p[i] == '%' && i + 2 < n && hexval(p[i + 1]) >= 0 && hexval(p[i + 2]) >= 0) {
			out[o++] = (unsigned char)(hexval(p[i + 1]) << 4 | hexval(p[i + 2]));
			i += 2;
		} else {
			out[o++] = p[i];
		}
	}
	return o;
}

static void no_dot_segment(const unsigned char *p, size_t n)
{
	for (size_t b = 0, i = 0; i <= n; i++) {
		if (i < n && p[i] != '/' && p[i] != ';' && p[i] != '\\')
			continue;
		MUST(!(i - b == 1 && p[b] == '.') && !(i - b == 2 && p[b] == '.' && p[b + 1] == '.'));
		b = i + 1;
	}
}

static void path(struct str in, uint8_t flags)
{
	const struct canon_path_opts o = { .encoded_slash_keep = flags & 1, .empty_segments_keep = flags & 2, .raw = flags & 4, .pattern = flags & 8 };
	struct arena a = { 0 };
	struct str w, m, w2, m2;
	const char *reason = NULL;
	unsigned char *d;
	size_t n;

	if (!canon_path(&a, in, &o, &w, &m, &reason)) {
		MUST(reason != NULL);
		goto out;
	}
	MUST(w.n > 0 && w.p[0] == '/' && w.n <= in.n && m.p[0] == '/' && m.n <= 3 * in.n);
	MUST(canon_path(&a, w, &o, &w2, &m2, &reason) && str_eq(w, w2) && str_eq(m, m2));
	for (size_t i = 0; i < w.n; i++)
		MUST((unsigned char)w.p[i] > 0x20 && w.p[i] != 0x7f && w.p[i] != '?' && w.p[i] != '#' && w.p[i] != '\\' && (o.raw || (unsigned char)w.p[i] < 0x80));
	for (size_t i = 0; i < m.n; i++)
		MUST((unsigned char)m.p[i] > 0x20 && (unsigned char)m.p[i] < 0x7f && (o.pattern || m.p[i] != '*'));
	if (!o.empty_segments_keep)
		MUST(memmem(w.p, w.n, "//", 2) == NULL);
	/* two decodings */
	d = must_malloc(w.n);
	n = decode((const unsigned char *)w.p, w.n, d);
	no_dot_segment(d, n);
	if (!o.encoded_slash_keep) {
		size_t slashes = 0, real = 0;

		for (size_t i = 0; i < n; i++)
			slashes += d[i] == '/';
		for (size_t i = 0; i < w.n; i++)
			real += w.p[i] == '/';
		MUST(slashes == real);
	}
	n = decode(d, n, d);
	no_dot_segment(d, n);
	for (size_t i = 0; i < n; i++)
		MUST(d[i] >= 0x20 && d[i] != 0x7f && d[i] != '\\');
	free(d);
	/* both forms are one path to an origin */
	if (!o.pattern) {
		unsigned char *x = must_malloc(m.n), *y = must_malloc(w.n);

		MUST(str_eq(str_mk(x, decode((const unsigned char *)m.p, m.n, x)), str_mk(y, decode((const unsigned char *)w.p, w.n, y))));
		free(x);
		free(y);
	}
out:
	arena_fini(&a);
}

static void host(struct str in)
{
	struct canon_host h, h2;
	const char *reason = NULL;
	uint16_t port, port2;
	char t[CANON_HOST_MAX + 20];
	int n;

	if (canon_host(in, true, &h, &reason)) {
		MUST(h.len > 0 && strlen(h.text) == h.len);
		n = snprintf(t, sizeof(t), h.ip.family == 6 ? "[%s]" : "%s", h.text);
		MUST(canon_host(str_mk(t, (size_t)n), true, &h2, &reason) && strcmp(h.text, h2.text) == 0 && ip_eq(&h.ip, &h2.ip));
		for (unsigned i = 0; i < h.len; i++)
			MUST((h.text[i] >= 'a' && h.text[i] <= 'z') || (h.text[i] >= '0' && h.text[i] <= '9') || strchr("-_.", h.text[i]) || (h.text[i] == ':' && h.ip.family == 6));
	} else {
		MUST(h.len == 0 && reason != NULL);
	}
	if (canon_authority(in, 0, &h, &port, &reason)) {
		MUST(port > 0);
		n = snprintf(t, sizeof(t), h.ip.family == 6 ? "[%s]:%u" : "%s:%u", h.text, port);
		MUST(canon_authority(str_mk(t, (size_t)n), 443, &h2, &port2, &reason) && strcmp(h.text, h2.text) == 0 && port == port2);
	} else {
		MUST(h.len == 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str in;
	const char *reason;

	if (size < 1)
		return 0;
	in = str_mk(data + 1, size - 1);
	path(in, data[0]);
	host(in);
	if (canon_query(in, data[0] & 4, &reason))
		for (size_t i = 0; i < in.n; i++)
			MUST((unsigned char)in.p[i] > 0x20 && in.p[i] != 0x7f && in.p[i] != '#');
	return 0;
}
