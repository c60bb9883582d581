/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of one direction. The first octet: direction, secret or none, message limit; the second: how the stream is split; the
 * rest is the stream. What goes out is frames without a fault that carry the same messages, whatever the split; secrets
 * in them are overwritten as in each message taken whole.
 */
#include <stdlib.h>

#include "common/base/must.h"
#include "proxy/filter/frames.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char secret[] = "abab";

struct run {
	struct buf out;
	const char *fault;
	uint64_t messages;
	bool closed;
};

static void emit(void *arg, const uint8_t *p, size_t n)
{
	MUST(n > 0);
	buf_add(arg, p, n);
}

static void key(void *p, size_t n)
{
	static uint8_t at;

	for (size_t i = 0; i < n; i++)
		((uint8_t *)p)[i] = (uint8_t)(at += 37);
}

static void relay(const uint8_t *p, size_t n, size_t step, bool up, const struct scrub_set *set, uint64_t max, struct run *r)
{
	struct frames f = { .emit = emit, .arg = &r->out, .random = key, .set = set };
	struct ws_fault fault = { 0 };
	uint8_t *copy = must_malloc(n + 1);

	*r = (struct run){ 0 };
	memcpy(copy, p, n);
	frames_init(&f, up);
	f.in.message_max = max;
	for (size_t at = 0; at < n; at += step) {
		if (frames_feed(&f, copy + at, n - at < step ? n - at : step, &fault))
			continue;
		MUST(fault.reason != NULL && (fault.code == WS_CLOSE_PROTOCOL || fault.code == WS_CLOSE_TOO_BIG || fault.code == WS_CLOSE_DATA));
		r->fault = fault.reason;
		break;
	}
	r->messages = f.messages;
	r->closed = f.close_seen;
	frames_fini(&f);
	free(copy);
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
static void words(const uint8_t *p, size_t n, bool masked, const struct scrub_set *set, struct buf *to, const char **reason)
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
	bool up;
	uint64_t max;
	size_t step;

	if (size < 2)
		return 0;
	up = data[0] & 1;
	if (!up && (data[0] & 2))
		set = scrub_set_new(&value, 1);
	max = data[0] & 4 ? data[0] >> 3 : 0;
	step = 1 + data[1];
	data += 2;
	size -= 2;
	relay(data, size, size + 1, up, set, max, &whole);
	relay(data, size, step, up, set, max, &split);
	MUST((whole.fault == NULL) == (split.fault == NULL) && (whole.fault == NULL || strcmp(whole.fault, split.fault) == 0));
	MUST(whole.messages == split.messages && whole.closed == split.closed);
	words(data, size, up, set, &want, &fault);
	MUST(max != 0 || (fault == NULL) == (whole.fault == NULL));
	for (struct run *r = &whole; r != NULL; r = r == &whole ? &split : NULL) {
		buf_clear(&got);
		words(buf_data(&r->out), buf_len(&r->out), up, NULL, &got, &none);
		MUST(none == NULL);
		MUST(whole.fault != NULL ? str_starts(buf_str(&want), buf_str(&got)) : str_eq(buf_str(&want), buf_str(&got)));
		buf_fini(&r->out);
	}
	buf_fini(&want);
	buf_fini(&got);
	scrub_set_free(set);
	return 0;
}
