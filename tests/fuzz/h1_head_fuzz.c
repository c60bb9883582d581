/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heads of HTTP/1.1, requests and responses. The first octet says how the stream is split; the rest is the stream.
 * Every split ends alike; what is written anew from an accepted head is accepted and says the same.
 */
#include <stdlib.h>

#include "common/base/must.h"
#include "proxy/http/h1.h"
#include "proxy/http/ws.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct http_request q, q2;
static struct http_response r, r2;

/* The fields that are passed on, one after another, are the same. */
static void same_fields(const struct http_fields *a, const struct http_fields *b, unsigned j)
{
	for (unsigned i = 0; i < a->n; i++) {
		if (a->f[i].drop)
			continue;
		MUST(j < b->n && str_eq(a->f[i].name, b->f[j].name) && str_eq(a->f[i].value, b->f[j].value));
		j++;
	}
	for (; j < b->n; j++) /* behind them only the framing */
		MUST(b->f[j].fid == HF_CONTENT_LENGTH || b->f[j].fid == HF_TRANSFER_ENCODING || b->f[j].fid == HF_CONNECTION || b->f[j].fid == HF_UPGRADE);
}

static void no_line_end(struct str s) { MUST(s.n == 0 || (memchr(s.p, '\r', s.n) == NULL && memchr(s.p, '\n', s.n) == NULL && memchr(s.p, 0, s.n) == NULL)); }

static void request(const uint8_t *p, size_t n)
{
	struct arena a = { 0 };
	struct buf out = { 0 }, target = { 0 };
	struct http_fault f = { 0 }, f2 = { 0 };
	struct str host;
	size_t scan = 0;

	if (!h1_parse_request(p, n, &h1_limits_default, &a, &q, &f)) {
		MUST((f.status == 400 || f.status == 414 || f.status == 431) && f.code != NULL && f.reason != NULL);
		goto out;
	}
	MUST(q.method.n > 0 && (q.version == HTTP_V_1_0 || q.version == HTTP_V_1_1));
	MUST(q.framing != HTTP_BODY_CLOSE);
	for (unsigned i = 0; i < q.fields.n; i++) {
		no_line_end(q.fields.f[i].name);
		no_line_end(q.fields.f[i].value);
		MUST(q.fields.f[i].name.n > 0);
	}
	if (!http_request_strip(&q, &f) || q.form == HTTP_TARGET_AUTHORITY)
		goto out;
	if (q.upgrade_websocket && !ws_request_fields(&q, STR("dGhlIHNhbXBsZSBub25jZQ=="), &f))
		goto out;
	for (unsigned i = 0; i < q.fields.n; i++) /* nothing that frames or routes is left to be passed on */
		MUST(q.fields.f[i].drop || (q.fields.f[i].fid != HF_HOST && q.fields.f[i].fid != HF_CONTENT_LENGTH && q.fields.f[i].fid != HF_TRANSFER_ENCODING && q.fields.f[i].fid != HF_CONNECTION));
	host = q.host_field.n ? q.host_field : STR("h");
	buf_adds(&target, q.path);
	if (q.has_query) {
		buf_addc(&target, '?');
		buf_adds(&target, q.query);
	}
	if (target.len > h1_limits_default.target_max || buf_str(&target).p[0] == '#')
		goto out;
	h1_write_request(&out, &q, host, buf_str(&target), q.framing, q.content_length);
	if (h1_head_end(buf_data(&out), buf_len(&out), &scan, &h1_limits_default, &f2) != (long)buf_len(&out)) {
		MUST(f2.status == 431); /* a 1.0 head of just 64 KiB grows */
		goto out;
	}
	if (!h1_parse_request(buf_data(&out), buf_len(&out), &h1_limits_default, &a, &q2, &f2)) {
		MUST(f2.status == 431);
		goto out;
	}
	MUST(q2.version == HTTP_V_1_1 && str_eq(q.method, q2.method));
	MUST(q2.form == (q.form == HTTP_TARGET_ASTERISK ? HTTP_TARGET_ASTERISK : HTTP_TARGET_ORIGIN));
	MUST(str_eq(q.path, q2.path) && q.has_query == q2.has_query && str_eq(q.query, q2.query));
	MUST(q2.fields.f[0].fid == HF_HOST && str_eq(q2.host_field, host));
	MUST(q.framing == q2.framing && q.content_length == q2.content_length && q2.keep_alive && !q2.expect_continue && q2.upgrade_websocket == q.upgrade_websocket);
	same_fields(&q.fields, &q2.fields, q.upgrade_websocket ? 3 : 1); /* behind Host, and what upgrades */
out:
	buf_fini(&out);
	buf_fini(&target);
	arena_fini(&a);
}

static void response(const uint8_t *p, size_t n, struct str method)
{
	struct arena a = { 0 };
	struct buf out = { 0 };
	struct http_fault f = { 0 };
	size_t scan = 0;
	bool head = str_eq(method, STR("HEAD"));

	if (!h1_parse_response(p, n, &h1_limits_default, &a, method, &r, &f)) {
		MUST(f.status == 502 && f.code != NULL && f.reason != NULL);
		goto out;
	}
	MUST(r.status >= 100 && r.status <= 599);
	MUST(r.framing != HTTP_BODY_CLOSE || !r.keep_alive);
	no_line_end(r.reason);
	http_response_strip(&r);
	h1_write_response(&out, &r, r.framing, r.content_length, r.keep_alive, head);
	if (h1_head_end(buf_data(&out), buf_len(&out), &scan, &h1_limits_default, &f) != (long)buf_len(&out) ||
		!h1_parse_response(buf_data(&out), buf_len(&out), &h1_limits_default, &a, method, &r2, &f)) {
		MUST(strcmp(f.reason, "head") == 0 || strcmp(f.reason, "fields") == 0);
		goto out;
	}
	MUST(r2.version == HTTP_V_1_1 && r.status == r2.status && str_eq(r.reason, r2.reason) && r.framing == r2.framing && (r.status == 101 || r.keep_alive == r2.keep_alive));
	MUST(r.framing != HTTP_BODY_LENGTH || r.content_length == r2.content_length);
	same_fields(&r.fields, &r2.fields, 0);
out:
	buf_fini(&out);
	arena_fini(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct http_fault f = { 0 }, g = { 0 };
	size_t scan = 0, n, step;
	long e, s = 0;
	uint8_t *head;

	if (size < 1)
		return 0;
	step = data[0];
	data++;
	n = size - 1;
	e = h1_head_end(data, n, &scan, &h1_limits_default, &f);
	MUST(e <= (long)n);
	scan = 0;
	for (size_t at = step ? 0 : n; at <= n && s == 0; at = at == n ? n + 1 : at + step < n ? at + step : n)
		s = h1_head_end(data, at, &scan, &h1_limits_default, &g);
	MUST(s == e && (e >= 0 || (f.status == g.status && strcmp(f.reason, g.reason) == 0)));
	if (e <= 0) {
		/* the parser alone has to refuse what h1_head_end refuses */
		struct arena a = { 0 };

		MUST(e == 0 || f.status == 431 || !h1_parse_request(data, n, &h1_limits_default, &a, &q, &f));
		MUST(!h1_parse_response(data, n, &h1_limits_default, &a, STR("GET"), &r, &f) || n >= h1_limits_default.head_max);
		arena_fini(&a);
		return 0;
	}
	head = must_malloc((size_t)e);
	memcpy(head, data, (size_t)e);
	request(head, (size_t)e);
	response(head, (size_t)e, STR("GET"));
	response(head, (size_t)e, STR("HEAD"));
	response(head, (size_t)e, STR("CONNECT"));
	free(head);
	return 0;
}
