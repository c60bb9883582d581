/* SPDX-License-Identifier: Apache-2.0 */
#include "template.h"

#include <string.h>

#include "../base/utc.h"

static const char *const words[TEMPLATE_WORDS] = {
	[TEMPLATE_SIGNATURE] = "", [TEMPLATE_METHOD] = "method", [TEMPLATE_HOST] = "host", [TEMPLATE_TARGET] = "target", [TEMPLATE_PATH] = "path", [TEMPLATE_QUERY] = "query", [TEMPLATE_BODY] = "body", [TEMPLATE_BODY_SHA256] = "body_sha256", [TEMPLATE_TIMESTAMP] = "timestamp", [TEMPLATE_TIMESTAMP_MS] = "timestamp_ms", [TEMPLATE_TIMESTAMP_ISO] = "timestamp_iso", [TEMPLATE_DATE] = "date", [TEMPLATE_NONCE] = "nonce", [TEMPLATE_LF] = "lf"
};

static void skip(struct str *s, size_t n) { *s = s->n > n ? str_mk(s->p + n, s->n - n) : STR_NONE; }

static int word(struct str *rest, struct template_piece *out)
{
	const char *end = memchr(rest->p, '}', rest->n);
	struct str w;

	if (end == NULL)
		return -1;
	w = str_mk(rest->p + 1, (size_t)(end - rest->p) - 1);
	skip(rest, w.n + 2);
	for (unsigned i = TEMPLATE_SIGNATURE; i < TEMPLATE_HEADER; i++) {
		if (!str_eq(w, str_of(words[i])))
			continue;
		*out = (struct template_piece){ (enum template_word)i, STR_NONE };
		return 1;
	}
	if (!str_starts(w, STR("header:")) || w.n == 7)
		return -1;
	*out = (struct template_piece){ TEMPLATE_HEADER, str_mk(w.p + 7, w.n - 7) };
	return 1;
}

int template_next(struct str *rest, struct template_piece *out)
{
	const char *brace = rest->n > 0 ? memchr(rest->p, '{', rest->n) : NULL;
	size_t n = brace != NULL ? (size_t)(brace - rest->p) : rest->n;

	if (rest->n == 0)
		return 0;
	if (n == 0 && rest->n > 1 && rest->p[1] == '{') {
		*out = (struct template_piece){ TEMPLATE_TEXT, str_mk(rest->p, 1) };
		skip(rest, 2);
		return 1;
	}
	if (n == 0)
		return word(rest, out);
	*out = (struct template_piece){ TEMPLATE_TEXT, str_mk(rest->p, n) };
	skip(rest, n);
	return 1;
}

unsigned template_words(struct str t)
{
	struct template_piece p;
	unsigned found = 0;
	int r;

	while ((r = template_next(&t, &p)) > 0)
		found |= 1u << p.word;
	return r < 0 ? 0 : found;
}

void template_time(struct buf *b, enum template_word w, uint64_t wall_ms)
{
	static const char names[] = "JanFebMarAprMayJunJulAugSepOctNovDec", days[] = "ThuFriSatSunMonTueWed";
	char t[UTC_BASIC_LEN + 1]; /* 20150830T123600Z */
	unsigned month;

	utc_basic(wall_ms / 1000, t);
	switch (w) {
	case TEMPLATE_TIMESTAMP:
		buf_addu(b, wall_ms / 1000);
		break;
	case TEMPLATE_TIMESTAMP_MS:
		buf_addu(b, wall_ms);
		break;
	case TEMPLATE_TIMESTAMP_ISO:
		buf_addf(b, "%.4s-%.2s-%.2sT%.2s:%.2s:%.2sZ", t, t + 4, t + 6, t + 9, t + 11, t + 13);
		break;
	case TEMPLATE_DATE:
		month = (unsigned)((t[4] - '0') * 10 + t[5] - '0');
		buf_addf(b, "%.3s, %.2s %.3s %.4s %.2s:%.2s:%.2s GMT", days + 3 * (wall_ms / 86400000 % 7), t + 6, names + 3 * (month - 1), t, t + 9, t + 11, t + 13);
		break;
	default:
		break;
	}
}
