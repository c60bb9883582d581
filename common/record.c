/* SPDX-License-Identifier: Apache-2.0 */
#include "record.h"

#include "base/must.h"

#define RECORD_TEXT_MAX 8192

static const char tag_types[REC_TAG_COUNT] = { 0,
#define S 'S'
#define U 'U'
#define RECORD_TYPE(id, type) type,
	RECORD_TAGS(RECORD_TYPE)
#undef RECORD_TYPE
#undef S
#undef U
};

static void put(struct buf *b, enum record_tag t, const void *p, size_t n)
{
	uint8_t *w = buf_room(b, n + 3);

	w[0] = (uint8_t)t;
	w[1] = (uint8_t)n;
	w[2] = (uint8_t)(n >> 8);
	memcpy(w + 3, p, n);
	buf_commit(b, n + 3);
}

void record_s(struct buf *b, enum record_tag t, struct str s)
{
	MUST(t > REC_NONE && t < REC_TAG_COUNT && tag_types[t] == 'S');
	if (s.n > 0)
		put(b, t, s.p, s.n > RECORD_TEXT_MAX ? RECORD_TEXT_MAX : s.n);
}

void record_u(struct buf *b, enum record_tag t, uint64_t v)
{
	MUST(t > REC_NONE && t < REC_TAG_COUNT && tag_types[t] == 'U');
	put(b, t, &v, sizeof(v));
}

bool record_next(const uint8_t *p, size_t n, size_t *off, enum record_tag *t, struct str *s, uint64_t *u, bool *bad)
{
	size_t len, at = *off;

	if (at == n)
		return false;
	*bad = true;
	if (n - at < 3 || p[at] == REC_NONE || p[at] >= REC_TAG_COUNT)
		return false;
	len = (size_t)p[at + 1] | (size_t)p[at + 2] << 8;
	if (len > n - at - 3 || len > RECORD_TEXT_MAX)
		return false;
	*t = p[at];
	*s = STR_NONE;
	*u = 0;
	if (tag_types[*t] == 'U') {
		if (len != 8)
			return false;
		memcpy(u, p + at + 3, 8);
	} else {
		*s = str_mk(p + at + 3, len);
	}
	*off = at + 3 + len;
	*bad = false;
	return true;
}
