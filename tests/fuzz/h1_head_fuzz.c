/* SPDX-License-Identifier: Apache-2.0 */
/* Heads of requests and responses: what parses is written anew, parses again, and means the same. */
#include <stdlib.h>

#include "proxy/http/h1.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void must(int c)
{
	if (!c)
		abort();
}

static void again(const struct http_request *r)
{
	struct arena a = { 0 };
	struct buf out = { 0 };
	struct http_request *q = calloc(1, sizeof(*q));
	struct http_fault f;
	size_t scan = 0;
	struct str target = r->path;
	long k;

	if (r->form == HTTP_TARGET_ORIGIN || r->form == HTTP_TARGET_ABSOLUTE) {
		if (r->has_query) {
			char *t = arena_alloc(&a, r->path.n + r->query.n + 1);

			memcpy(t, r->path.p, r->path.n);
			t[r->path.n] = '?';
			if (r->query.n)
				memcpy(t + r->path.n + 1, r->query.p, r->query.n);
			target = str_mk(t, r->path.n + r->query.n + 1);
		}
		h1_write_request(&out, r, STR("host.test"), target, r->framing, r->content_length);
		k = h1_head_end(buf_data(&out), buf_len(&out), &scan, &h1_limits_default, &f);
		if (k > 0) {
			must((size_t)k == buf_len(&out));
			must(h1_parse_request(buf_data(&out), (size_t)k, &h1_limits_default, &a, q, &f));
			must(str_eq(q->method, r->method) && str_eq(q->path, r->path) && q->has_query == r->has_query && str_eq(q->query, r->query));
			must(q->framing == r->framing && q->content_length == r->content_length);
		}
	}
	buf_fini(&out);
	arena_fini(&a);
	free(q);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct arena a = { 0 };
	struct http_request *r = calloc(1, sizeof(*r));
	struct http_response *s = calloc(1, sizeof(*s));
	struct http_fault f;
	size_t scan = 0, scan2 = 0;
	long k = h1_head_end(p, n, &scan, &h1_limits_default, &f), k2 = 0;

	/* the end is found at the same place when octets come one at a time */
	for (size_t i = 0; n < 4096 && i <= n && k2 == 0; i++)
		k2 = h1_head_end(p, i, &scan2, &h1_limits_default, &f);
	must(n >= 4096 || (k > 0 ? k2 == k : k < 0 ? k2 < 0 : k2 == 0));
	if (k > 0) {
		if (h1_parse_request(p, (size_t)k, &h1_limits_default, &a, r, &f)) {
			must(r->framing != HTTP_BODY_CLOSE);
			again(r);
			http_request_strip(r, &f);
		}
		if (h1_parse_response(p, (size_t)k, &h1_limits_default, &a, STR("GET"), s, &f))
			http_response_strip(s);
	}
	arena_fini(&a);
	free(r);
	free(s);
	return 0;
}
