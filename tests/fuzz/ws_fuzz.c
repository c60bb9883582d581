/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of one direction. The first octet: direction, secret (or, toward the upstream, a placeholder that is filled) or none,
 * message limit; the second: how the stream is split, and how often a unit waits; the rest is the stream. What goes out is frames
 * without a fault that carry the same messages, whatever the split; secrets in them are overwritten, placeholders filled as in each
 * message taken whole.
 */
#include <stdlib.h>

#include "common/base/must.h"
#include "proxy/filter/frames.h"
#include "proxy/filter/placeholder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char secret[] = "abab";
#define STANDS "ghp_abab"
#define VALUE "<a value>"
static struct placeholders *placeholders;

struct run {
	struct buf out;
	const char *fault;
	uint64_t messages;
	bool closed;
	/* filling */
	struct placeholder_fill fill;
	struct buf looked; /* payload of messages, as it was seen before it was filled */
	unsigned wait_each, units;
	bool waits;
};

static void emit(void *arg, const uint8_t *p, size_t n)
{
	struct run *r = arg;

	MUST(n > 0);
	buf_add(&r->out, p, n);
}

static bool look(void *arg, struct str octets, bool begins, bool control)
{
	struct run *r = arg;

	MUST(!(begins && control) && octets.n > 0);
	if (!control)
		buf_adds(&r->looked, octets);
	return true;
}

static enum frames_filled fill(void *arg, const struct frames_unit *u, struct buf *to)
{
	static const struct placeholder_value v = { 0, STR_INIT(VALUE) };
	struct run *r = arg;

	if (!r->waits && r->wait_each != 0 && ++r->units % r->wait_each == 0) {
		r->waits = true;
		return FRAMES_WAIT;
	}
	r->waits = false;
	MUST(u->octets.n > 0 || u->last);
	if (u->first)
		placeholder_fill_init(&r->fill, placeholders, &v, 1);
	placeholder_fill_feed(&r->fill, u->octets, to);
	if (u->last)
		placeholder_fill_end(&r->fill, to);
	return FRAMES_FILLED;
}

static void key(void *p, size_t n)
{
	static uint8_t at;

	for (size_t i = 0; i < n; i++)
		((uint8_t *)p)[i] = (uint8_t)(at += 37);
}

static void relay(const uint8_t *p, size_t n, size_t step, bool up, const struct scrub_set *set, bool fills, unsigned wait_each, uint64_t max, struct run *r)
{
	struct frames f = { .emit = emit, .arg = r, .random = key, .set = set, .look = fills ? look : NULL, .fill = fills ? fill : NULL };
	struct ws_fault fault = { 0 };
	uint8_t *copy = must_malloc(n + 1);

	*r = (struct run){ .wait_each = wait_each };
	memcpy(copy, p, n);
	frames_init(&f, up);
	f.in.message_max = max;
	for (size_t at = 0; at < n; at += step) {
		bool good = frames_feed(&f, copy + at, n - at < step ? n - at : step, &fault);

		while (good && f.waits) {
			MUST(frames_between(&f));
			good = frames_resume(&f, &fault);
		}
		MUST(frames_held(&f) <= 4 * FRAMES_UNIT);
		if (good)
			continue;
		MUST(fault.reason != NULL && (fault.code == WS_CLOSE_PROTOCOL || fault.code == WS_CLOSE_TOO_BIG || fault.code == WS_CLOSE_DATA));
		r->fault = fault.reason;
		break;
	}
	r->messages = f.messages;
	r->closed = f.close_seen;
	frames_fini(&f);
	placeholder_fill_fini(&r->fill);
	free(copy);
}

/* A plain search and replace. */
static void replace(struct buf *message)
{
	struct buf to = { 0 };
	struct str rest = buf_str(message);
	ptrdiff_t at;

	while ((at = str_find(rest, STR(STANDS))) >= 0) {
		buf_add(&to, rest.p, (size_t)at);
		buf_addz(&to, VALUE);
		rest = str_mk(rest.p + at + sizeof(STANDS) - 1, rest.n - (size_t)at - (sizeof(STANDS) - 1));
	}
	buf_adds(&to, rest);
	buf_fini(message);
	*message = to;
}

/* Told in another way than the parser does: by the value of each character. */
static bool is_text(const char *p, size_t n)
{
	for (size_t i = 0, more; i < n; i += 1 + more) {
		unsigned char c = (unsigned char)p[i];
		uint32_t v;

		more = c < 0x80 ? 0 : (c & 0xe0) == 0xc0 ? 1 : (c & 0xf0) == 0xe0 ? 2 : (c & 0xf8) == 0xf0 ? 3 : n;
		if (more >= n - i)
			return false;
		v = more == 0 ? c : c & (0x3fu >> more);
		for (size_t k = 1; k <= more; k++) {
			if ((p[i + k] & 0xc0) != 0x80)
				return false;
			v = v << 6 | (p[i + k] & 0x3f);
		}
		if (v > 0x10ffff || (v >= 0xd800 && v < 0xe000) || (more == 1 && v < 0x80) || (more == 2 && v < 0x800) || (more == 3 && v < 0x10000))
			return false;
	}
	return true;
}

/* Messages and control frames, without how they were fragmented: kind, length, octets. Of an unfinished one nothing. */
static void words(const uint8_t *p, size_t n, bool masked, const struct scrub_set *set, bool fills, struct buf *to, const char **reason)
{
	struct ws_parser w = { .masked = masked };
	struct buf message = { 0 };
	struct ws_fault fault = { 0 };
	uint8_t opcode = 0, *copy = must_malloc(n + 1), *at = copy;

	memcpy(copy, p, n);
	*reason = NULL;
	while (n > 0) {
		struct ws_piece in;
		long k = ws_feed(&w, at, n, &in, &fault);

		if (k < 0) {
			*reason = fault.reason;
			break;
		}
		MUST(k > 0 && (size_t)k <= n);
		at += k;
		n -= (size_t)k;
		if (in.kind == WS_FRAME && in.opcode != WS_CONTINUATION)
			opcode = in.opcode;
		if (in.kind == WS_CONTROL || in.kind == WS_DATA)
			MUST(in.n <= (in.kind == WS_CONTROL ? WS_CONTROL_MAX : (size_t)k));
		if (in.kind == WS_DATA)
			buf_add(&message, in.p, in.n);
		if (in.kind == WS_CONTROL) {
			if (set != NULL)
				scrub_inplace(set, (char *)in.p, in.n);
			buf_addf(to, "%u %zu ", in.opcode, in.n);
			buf_add(to, in.p, in.n);
		} else if ((in.kind == WS_FRAME && in.fin && in.length == 0) || (in.kind == WS_DATA && in.fin && in.end)) {
			MUST(opcode != WS_TEXT || is_text((char *)buf_data(&message), buf_len(&message)));
			if (set != NULL)
				scrub_inplace(set, (char *)buf_data(&message), buf_len(&message));
			if (fills)
				replace(&message);
			buf_addf(to, "%u %zu ", opcode, buf_len(&message));
			buf_adds(to, buf_str(&message));
			buf_clear(&message);
		}
	}
	buf_fini(&message);
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str value = str_of(secret);
	struct scrub_set *set = NULL;
	struct buf want = { 0 }, got = { 0 };
	struct run whole, split;
	const char *fault, *none;
	bool up, fills;
	uint64_t max;
	size_t step;

	if (size < 2)
		return 0;
	up = data[0] & 1;
	if (!up && (data[0] & 2))
		set = scrub_set_new(&value, 1);
	fills = up && (data[0] & 2);
	if (placeholders == NULL) {
		static const struct placeholder one = { .secret = STR_INIT("s"), .text = STR_INIT(STANDS) };

		placeholders = placeholders_new(&one, 1);
		MUST(placeholders_count(placeholders) == 1);
	}
	max = data[0] & 4 ? data[0] >> 3 : 0;
	step = 1 + data[1];
	data += 2;
	size -= 2;
	relay(data, size, size + 1, up, set, fills, 0, max, &whole);
	relay(data, size, step, up, set, fills, step & 7, max, &split);
	MUST((whole.fault == NULL) == (split.fault == NULL) && (whole.fault == NULL || strcmp(whole.fault, split.fault) == 0));
	MUST(whole.messages == split.messages && whole.closed == split.closed);
	MUST(whole.fault != NULL || str_eq(buf_str(&whole.looked), buf_str(&split.looked)));
	words(data, size, up, set, fills, &want, &fault);
	MUST(max != 0 || (fault == NULL) == (whole.fault == NULL));
	for (struct run *r = &whole; r != NULL; r = r == &whole ? &split : NULL) {
		buf_clear(&got);
		words(buf_data(&r->out), buf_len(&r->out), up, NULL, false, &got, &none);
		MUST(none == NULL);
		MUST(whole.fault != NULL ? str_starts(buf_str(&want), buf_str(&got)) : str_eq(buf_str(&want), buf_str(&got)));
		buf_fini(&r->out);
		buf_fini(&r->looked);
	}
	buf_fini(&want);
	buf_fini(&got);
	scrub_set_free(set);
	return 0;
}
