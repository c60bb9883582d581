/* SPDX-License-Identifier: Apache-2.0 */
#include "record.h"

#include "base/must.h"
#include "sys/ipc.h"

/* Octets that a field of each type may have. Nothing that a sandbox can send is cut: its target is no longer than L. */
enum { TEXT_S = 256, TEXT_M = 1024, TEXT_L = 16384, NUMBER_U = 8 };
#define S TEXT_S
#define M TEXT_M
#define L TEXT_L
#define U NUMBER_U
#define RECORD_SIZE(id, type) type,
static const uint16_t sizes[REC_TAG_COUNT] = { 0, RECORD_TAGS(RECORD_SIZE) };
#define RECORD_SUM(id, type) +(type + 3)
_Static_assert(0 RECORD_TAGS(RECORD_SUM) + (RECORD_SECRETS_MAX - 1) * (TEXT_S + 3) <= IPC_PAYLOAD_MAX - 16, "the largest record fits one message");
#undef S
#undef M
#undef L
#undef U

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
	MUST(t > REC_NONE && t < REC_TAG_COUNT && sizes[t] != NUMBER_U);
	if (s.n > 0)
		put(b, t, s.p, s.n > sizes[t] ? sizes[t] : s.n);
}

void record_u(struct buf *b, enum record_tag t, uint64_t v)
{
	MUST(t > REC_NONE && t < REC_TAG_COUNT && sizes[t] == NUMBER_U);
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
	*t = p[at];
	if (len > n - at - 3 || len > sizes[*t])
		return false;
	*s = STR_NONE;
	*u = 0;
	if (sizes[*t] == NUMBER_U) {
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
