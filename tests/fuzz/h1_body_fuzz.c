/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Content framing. The first octet: framing and side; the second: how the stream is split; the rest is the stream.
 * Every split gives the same content, the same end, the same fault; chunks written anew from the content decode to it.
 */
#include <stdlib.h>

#include "common/base/must.h"
#include "proxy/http/h1.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct result {
	struct buf content;
	size_t used;
	bool done, failed;
	struct http_fault fault;
};

static void decode(const uint8_t *in, size_t n, size_t step, bool gather, enum http_framing framing, uint64_t length, bool is_response, struct result *r)
{
	struct h1_body b;
	size_t have = step ? 0 : n;
	uint8_t *p = must_malloc(n + 1); /* gathering writes into it */

	*r = (struct result){ 0 };
	memcpy(p, in, n);
	h1_body_init(&b, framing, length);
	b.response = is_response;
	b.gather = gather;
	while (!b.done) {
		const uint8_t *data;
		size_t len;
		long k = h1_body_feed(&b, p + r->used, have - r->used, &data, &len, &r->fault);

		if (k < 0) {
			r->failed = true;
			MUST(r->fault.status == (is_response ? 502 : r->fault.status) && r->fault.reason != NULL);
			break;
		}
		MUST((size_t)k <= have - r->used && (len == 0 || (data >= p + r->used && data + len <= p + r->used + k)));
		buf_add(&r->content, data, len);
		r->used += (size_t)k;
		if (k > 0 || b.done)
			continue;
		MUST(r->used == have); /* all taken, or more would have been */
		if (have == n)
			break;
		have = have + step < n ? have + step : n;
	}
	free(p);
	r->done = b.done;
	MUST(b.total == buf_len(&r->content));
	MUST(framing != HTTP_BODY_LENGTH || (b.total <= length && b.done == (b.total == length)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum http_framing framing;
	struct result a, b;
	bool is_response;
	uint64_t length;
	size_t step;

	if (size < 2)
		return 0;
	framing = (data[0] & 7) == 7 ? HTTP_BODY_LENGTH : (data[0] & 7) == 6 ? HTTP_BODY_CLOSE : HTTP_BODY_CHUNKED;
	is_response = data[0] & 8;
	length = data[0] >> 4;
	step = data[1];
	data += 2;
	size -= 2;
	decode(data, size, 0, false, framing, length, is_response, &a);
	for (unsigned way = 1; way < 4; way++) { /* in pieces, with small chunks gathered, both */
		decode(data, size, way == 2 ? 0 : step ? step : 1, way > 1, framing, length, is_response, &b);
		MUST(str_eq(buf_str(&a.content), buf_str(&b.content)) && a.done == b.done && a.failed == b.failed);
		if (a.failed)
			MUST(strcmp(a.fault.reason, b.fault.reason) == 0 && a.fault.status == b.fault.status);
		else
			MUST(a.used == b.used);
		buf_fini(&b.content);
	}
	if (framing == HTTP_BODY_CHUNKED && a.done) {
		struct buf out = { 0 };
		char line[20];

		for (size_t at = 0; at < buf_len(&a.content);) {
			size_t k = buf_len(&a.content) - at;

			k = k > 7 ? 7 + at % 20 < k ? 7 + at % 20 : k : k;
			buf_add(&out, line, h1_chunk_line(line, k));
			buf_add(&out, buf_data(&a.content) + at, k);
			buf_addz(&out, "\r\n");
			at += k;
		}
		h1_write_last_chunk(&out, NULL);
		decode(buf_data(&out), buf_len(&out), 0, step & 1, HTTP_BODY_CHUNKED, 0, false, &b);
		MUST(b.done && b.used == buf_len(&out) && str_eq(buf_str(&a.content), buf_str(&b.content)));
		buf_fini(&b.content);
		buf_fini(&out);
	}
	buf_fini(&a.content);
	return 0;
}
