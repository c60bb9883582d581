/* SPDX-License-Identifier: Apache-2.0 */
/* Placeholders: what is filled, however the stream is cut, is what a plain search and replace gives; finding agrees with itself. */
#include <stdlib.h>

#include "common/base/must.h"
#include "proxy/filter/placeholder.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

#define A "ghp_0aZ9bY8c"
#define B "0aZ9-sk_AAAA0aZ9"
static const struct placeholder two[] = { { { "a", 1 }, { A, sizeof(A) - 1 }, 0, false }, { { "b", 1 }, { B, sizeof(B) - 1 }, 0, false } };

struct seen {
	unsigned n[2], exact[2];
};

static void count(void *arg, const struct placeholder_hit *h)
{
	struct seen *s = arg;

	s->n[h->which]++;
	s->exact[h->which] += h->exact;
}

/* The first one that ends, then on behind it: what the automaton does. */
static void reference(struct str in, const struct placeholder_value *v, struct buf *out)
{
	size_t from = 0;

	for (size_t end = 1; end <= in.n; end++) {
		for (unsigned k = 0; k < 2; k++) {
			struct str t = two[v[k].which].text;

			if (end - from < t.n || memcmp(in.p + end - t.n, t.p, t.n) != 0)
				continue;
			buf_add(out, in.p + from, end - from - t.n);
			buf_adds(out, v[k].text);
			from = end;
			break;
		}
	}
	buf_add(out, in.p + from, in.n - from);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	static struct placeholders *set;
	const struct placeholder_value v[2] = { { 0, STR("<first value>") }, { 1, STR("") } };
	struct placeholder_watch w = { 0 };
	struct seen whole = { 0 }, cut = { 0 };
	struct buf want = { 0 }, got = { 0 };
	struct placeholder_fill f;
	struct placeholder q;
	struct str in, rest = str_mk(p, n);

	while (placeholder_next(&rest, &q))
		if (q.text.n > n || q.secret.n > n)
			abort();
	if (n < 2)
		return 0;
	if (set == NULL)
		set = placeholders_new(two, 2);
	in = str_mk(p + 1, n - 1);
	placeholders_find(set, in, count, &whole);
	placeholder_fill_init(&f, set, v, 2);
	for (size_t at = 0, step = 1 + p[0] % 7; at < in.n; at += step) {
		struct str piece = str_mk(in.p + at, in.n - at < step ? in.n - at : step);

		placeholder_watch_feed(&w, set, piece, count, &cut);
		placeholder_fill_feed(&f, piece, &got);
	}
	placeholder_fill_end(&f, &got);
	reference(in, v, &want);
	if (!str_eq(buf_str(&want), buf_str(&got)) || cut.n[0] != whole.n[0] || cut.n[1] != whole.n[1] || whole.exact[0] > whole.n[0])
		abort();
	if ((str_find(in, STR(A)) >= 0) != (whole.exact[0] > 0))
		abort();
	for (unsigned e = PLACEHOLDER_RAW; e <= PLACEHOLDER_JSON; e++)
		placeholder_encode(&got, in, (enum placeholder_encoding)e);
	buf_fini(&want);
	buf_fini(&got);
	return 0;
}
