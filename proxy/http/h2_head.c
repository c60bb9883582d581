/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heads and trailer sections of HTTP/2 as they come in (RFC 9113 8). nghttp2's own checks are off: they drop some fields and
 * deliver the request. Here every field is looked at, the first fault stays, and nothing is repaired, but that white space
 * around the values of an upstream is trimmed (C03) and the crumbs of a Cookie are put together.
 *
 * The rules are those of h1.c wherever both versions have the thing, so that the decision is the same in all pairings (C24).
 */
#include "h2_int.h"

#include <stddef.h>

#define METHOD_MAX 64
#define NAME_MAX 255

/* tchar of RFC 9110 5.6.2 without the capital letters, which no field name has here (RFC 9113 8.2) */
static const bool name_octet[256] = {
	['0' ... '9'] = true, ['a' ... 'z'] = true, ['!'] = true, ['#'] = true, ['$'] = true, ['%'] = true, ['&'] = true, ['\''] = true, ['*'] = true,
	['+'] = true, ['-'] = true, ['.'] = true, ['^'] = true, ['_'] = true, ['`'] = true, ['|'] = true, ['~'] = true,
};

bool h2_head_bad(struct h2_head *h, uint16_t status, const char *reason)
{
	if (h->fault.reason != NULL)
		return false;
	if (h->upstream)
		h->fault = (struct http_fault){ 502, "upstream_protocol", reason };
	else
		h->fault = (struct http_fault){ status, status == 400 ? "malformed_request" : "too_large", reason };
	return false;
}

#define BAD(reason) h2_head_bad(h, 400, reason)

static struct http_fields *fields_of(struct h2_head *h)
{
	return h->kind == H2_HEAD_RESPONSE ? &h->res.fields : &h->req.fields;
}

void h2_head_fini(struct h2_head *h)
{
	arena_fini(&h->arena);
	buf_fini(&h->cookie);
}

void h2_head_start(struct h2_head *h, enum h2_head_kind kind, bool upstream)
{
	struct arena a = h->arena;
	struct buf cookie = h->cookie;

	memset(h, 0, offsetof(struct h2_head, req));
	arena_reset(&a);
	buf_clear(&cookie);
	h->arena = a;
	h->cookie = cookie;
	h->kind = kind;
	h->upstream = upstream;
	/* all but the array of fields, which is large and needs no clearing */
	if (kind == H2_HEAD_RESPONSE) {
		memset(&h->res, 0, offsetof(struct http_response, fields));
		memset((char *)&h->res + offsetof(struct http_response, framing), 0, sizeof(h->res) - offsetof(struct http_response, framing));
	} else {
		memset(&h->req, 0, offsetof(struct http_request, fields));
		memset((char *)&h->req + offsetof(struct http_request, framing), 0, sizeof(h->req) - offsetof(struct http_request, framing));
	}
	fields_of(h)->n = 0;
}

/* Methods are case-sensitive; none of the registered ones has a small letter, and some origins fold case (A37, C07). */
static bool method_ok(struct str s)
{
	if (s.n == 0 || s.n > METHOD_MAX)
		return false;
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];

		if (!(c >= 'A' && c <= 'Z') && (!name_octet[c] || (c >= 'a' && c <= 'z')))
			return false;
	}
	return true;
}

/* C10: what is no authority at all; whether the host is one is decided where all hosts are. */
static bool authority_ok(struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];

		if (c <= 0x20 || c >= 0x7f || c == '@' || c == '/' || c == '?' || c == '#' || c == '\\')
			return false;
	}
	return s.n > 0;
}

/* C08: what would break a request line; the rest is for the canonical path. */
static bool path_ok(struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];

		if (c <= 0x20 || c == 0x7f || c == '#')
			return false;
	}
	return s.n > 0 && (s.p[0] == '/' || (s.n == 1 && s.p[0] == '*'));
}

#define EACH(c) ((uint64_t)(c) * 0x0101010101010101u)

/* Some octet of eight may be a control: exact but for what stands behind one. */
static bool suspect(uint64_t v)
{
	uint64_t del = v ^ EACH(0x7f);

	return (((v - EACH(0x20)) & ~v) | ((del - EACH(1)) & ~del)) & EACH(0x80);
}

static bool value_ok(struct str s)
{
	size_t i = 0;
	uint64_t v;

	for (; s.n - i >= 8; i += 8) {
		memcpy(&v, s.p + i, 8);
		if (suspect(v))
			break;
	}
	for (; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];

		if ((c < 0x20 && c != '\t') || c == 0x7f)
			return false;
	}
	return true;
}

static bool blank(char c) { return c == ' ' || c == '\t'; }

static void pseudo(struct h2_head *h, const struct h2_limits *lim, struct str name, struct str value)
{
	static const struct str names[H2_P_N] = { STR_INIT(":method"), STR_INIT(":scheme"), STR_INIT(":authority"), STR_INIT(":path"), STR_INIT(":protocol"), STR_INIT(":status") };
	static const char *const reasons[H2_P_N] = { "method", "scheme", "authority", "target", "protocol", "status" };
	unsigned i = 0;
	bool ok;

	while (i < H2_P_N && !str_eq(name, names[i]))
		i++;
	if (h->kind == H2_HEAD_TRAILERS)
		BAD("pseudo_in_trailers");
	else if (i == H2_P_N || (i == H2_P_STATUS) != (h->kind == H2_HEAD_RESPONSE))
		BAD("pseudo_unknown");
	else if (h->regular)
		BAD("pseudo_after_field");
	else if (h->pseudo[i].p != NULL)
		BAD("pseudo_twice");
	if (h->fault.reason != NULL)
		return;
	switch (i) {
	case H2_P_METHOD:
		ok = method_ok(value);
		break;
	case H2_P_AUTHORITY:
		ok = authority_ok(value);
		break;
	case H2_P_PATH:
		if (value.n > lim->target_max) {
			h2_head_bad(h, 414, "target");
			return;
		}
		ok = path_ok(value);
		break;
	case H2_P_STATUS:
		ok = value.n == 3 && value.p[0] >= '1' && value.p[0] <= '5' && value.p[1] >= '0' && value.p[1] <= '9' && value.p[2] >= '0' && value.p[2] <= '9';
		break;
	default: /* compared with what they must be */
		ok = value_ok(value);
		break;
	}
	if (ok)
		h->pseudo[i] = arena_str(&h->arena, value);
	else
		BAD(reasons[i]);
}

/* Returns false when the field is no field of its own: a further crumb of the Cookie. */
static bool crumb(struct h2_head *h, const struct h2_limits *lim, struct str value)
{
	if (h->crumbs++ == lim->crumbs_max) {
		h2_head_bad(h, 431, "cookie_crumbs");
		return false;
	}
	if (h->crumbs > 1)
		buf_add(&h->cookie, "; ", 2);
	else
		h->cookie_at = fields_of(h)->n;
	buf_adds(&h->cookie, value);
	return h->crumbs == 1;
}

/* Fields that may never come in a trailer section (RFC 9110 6.5.1): framing, routing, authentication (A22). */
static bool trailer_forbidden(struct str name, enum http_fid fid)
{
	if (fid == HF_OTHER)
		fid = http_fid_alias(name);
	return fid == HF_CONTENT_LENGTH || fid == HF_HOST || fid == HF_AUTHORIZATION || fid == HF_PROXY_AUTHORIZATION || fid == HF_COOKIE || fid == HF_TE ||
	       fid == HF_TRAILER || str_eq(name, STR("x-api-key")) || str_eq(name, STR("x_api_key"));
}

static void known(struct h2_head *h, enum http_fid fid, struct str value)
{
	switch (fid) {
	case HF_HOST:
		h->hosts++;
		h->host = value;
		break;
	case HF_CONTENT_LENGTH:
		h->lengths++;
		h->length = value;
		break;
	case HF_AUTHORIZATION:
		h->auths++;
		break;
	case HF_EXPECT:
		h->expects++;
		h->expect = value;
		break;
	case HF_TE: /* RFC 9113 8.2.2 */
		if (h->kind == H2_HEAD_REQUEST && !str_ieq(value, STR("trailers")))
			BAD("te");
		h->te_trailers = true;
		return;
	case HF_PROXY_AUTHORIZATION:
		break;
	default:
		return;
	}
	/* A32: framing, routing and authentication are plain ASCII */
	for (size_t i = 0; i < value.n; i++)
		if ((unsigned char)value.p[i] >= 0x80 || (value.p[i] == '\t' && fid != HF_AUTHORIZATION && fid != HF_PROXY_AUTHORIZATION))
			BAD("header_value");
}

static void regular(struct h2_head *h, const struct h2_limits *lim, struct str name, struct str value)
{
	struct http_fields *fs = fields_of(h);
	enum http_fid fid, alias = HF_OTHER;
	struct http_field *f;
	bool underscore = false;

	h->regular = true;
	for (size_t i = 0; i < name.n; i++) {
		if (!name_octet[(unsigned char)name.p[i]]) {
			BAD("header_name");
			return;
		}
		underscore = underscore || name.p[i] == '_';
	}
	if (name.n > NAME_MAX) {
		h2_head_bad(h, 431, "header_name");
		return;
	}
	if (name.n + value.n > lim->line_max) {
		h2_head_bad(h, 431, "field_line");
		return;
	}
	if (!value_ok(value)) {
		BAD("header_value");
		return;
	}
	if (value.n > 0 && (blank(value.p[0]) || blank(value.p[value.n - 1]))) {
		if (!h->upstream) {
			BAD("header_value_space");
			return;
		}
		for (; value.n > 0 && blank(value.p[0]); value.n--)
			value.p++;
		while (value.n > 0 && blank(value.p[value.n - 1]))
			value.n--;
	}
	fid = http_fid_of(name);
	if (fid == HF_CONNECTION || fid == HF_KEEP_ALIVE || fid == HF_PROXY_CONNECTION || fid == HF_TRANSFER_ENCODING || fid == HF_UPGRADE) {
		BAD("connection_field"); /* RFC 9113 8.2.2 */
		return;
	}
	if (underscore)
		alias = http_fid_alias(name);
	if (h->kind == H2_HEAD_TRAILERS && trailer_forbidden(name, fid) && !h->upstream) {
		BAD("trailer_field");
		return;
	}
	if (h->kind == H2_HEAD_REQUEST && (alias == HF_CONTENT_LENGTH || alias == HF_TRANSFER_ENCODING)) {
		BAD("header_name"); /* B09, as in h1.c */
		return;
	}
	if (h->kind == H2_HEAD_REQUEST && fid == HF_COOKIE && !crumb(h, lim, value))
		return;
	if (fs->n >= lim->fields_max || !http_fields_add(fs, arena_str(&h->arena, name), arena_str(&h->arena, value), fid)) {
		h2_head_bad(h, 431, "fields");
		return;
	}
	f = &fs->f[fs->n - 1];
	f->drop = alias != HF_OTHER || (h->kind == H2_HEAD_TRAILERS && trailer_forbidden(name, fid));
	if (h->kind == H2_HEAD_TRAILERS)
		return;
	known(h, fid, f->value);
	if (str_eq(name, STR("sec-websocket-version"))) {
		h->ws_versions++;
		h->ws_version = f->value;
	}
}

void h2_head_field(struct h2_head *h, const struct h2_limits *lim, struct str name, struct str value)
{
	if (h->fault.reason != NULL)
		return;
	h->size += name.n + value.n + 32;
	if (h->size > lim->head_max)
		h2_head_bad(h, 431, "head");
	else if (name.n == 0)
		BAD("header_name");
	else if (name.p[0] == ':')
		pseudo(h, lim, name, value);
	else
		regular(h, lim, name, value);
}

static void target(struct http_request *r, struct str path)
{
	const char *q = path.n ? memchr(path.p, '?', path.n) : NULL;

	r->form = str_eq(path, STR("*")) ? HTTP_TARGET_ASTERISK : HTTP_TARGET_ORIGIN;
	r->path = q != NULL ? str_mk(path.p, (size_t)(q - path.p)) : path;
	if (q != NULL) {
		r->has_query = true;
		r->query = str_mk(q + 1, path.n - (size_t)(q - path.p) - 1);
	}
}

/* C11: do both name the same? What cannot be read is compared as it stands. */
static bool same_authority(struct str a, struct str b, struct str scheme)
{
	struct canon_host ha, hb;
	uint16_t pa, pb, port = str_eq(scheme, STR("https")) ? 443 : 80;
	const char *why;

	if (str_eq(a, b))
		return true;
	return canon_authority(a, port, &ha, &pa, &why) && canon_authority(b, port, &hb, &pb, &why) && strcmp(ha.text, hb.text) == 0 && pa == pb;
}

static bool extended_connect(struct h2_head *h, const struct h2_config *c, bool end)
{
	struct http_request *r = &h->req;

	/* one request over either version: the handshake of HTTP/1.1 is a GET (RFC 8441 5) */
	if (!c->connect_protocol || !str_eq(r->method, STR("CONNECT")) || !str_eq(h->pseudo[H2_P_PROTOCOL], STR("websocket")))
		return BAD("protocol");
	if (end || h->lengths > 0 || h->expects > 0 || h->ws_versions != 1 || !str_eq(h->ws_version, STR("13")))
		return BAD("websocket_handshake");
	r->method = STR("GET");
	r->upgrade_websocket = true;
	return true;
}

bool h2_head_request(struct h2_head *h, const struct h2_config *c, bool end)
{
	struct http_request *r = &h->req;
	struct str authority = h->pseudo[H2_P_AUTHORITY], path = h->pseudo[H2_P_PATH];

	r->version = HTTP_V_2;
	r->keep_alive = true;
	r->method = h->pseudo[H2_P_METHOD];
	r->scheme = h->pseudo[H2_P_SCHEME];
	r->host_field = authority.p != NULL ? authority : h->host;
	target(r, path);
	if (h->crumbs > 0 && h->cookie_at < r->fields.n)
		r->fields.f[h->cookie_at].value = arena_str(&h->arena, buf_str(&h->cookie));
	if (h->fault.reason != NULL)
		return false;
	if (r->method.p == NULL)
		return BAD("no_method");
	if (h->hosts > 1)
		return BAD("two_hosts");
	if (h->hosts == 1 && !authority_ok(h->host))
		return BAD(h->host.n == 0 ? "host_empty" : "host");
	if (r->host_field.p == NULL)
		return BAD("no_host");
	if (str_eq(r->method, STR("CONNECT")) && h->pseudo[H2_P_PROTOCOL].p == NULL)
		return BAD("connect");				  /* C16: a tunnel inside a tunnel is no request */
	if (r->scheme.p == NULL || !str_eq(r->scheme, c->scheme)) /* C09 */
		return BAD("scheme");
	if (path.p == NULL || (r->form == HTTP_TARGET_ASTERISK && !str_eq(r->method, STR("OPTIONS"))))
		return BAD("target");
	if (h->hosts == 1 && authority.p != NULL && !same_authority(authority, h->host, c->scheme))
		return BAD("host_mismatch");
	if (h->auths > 1)
		return BAD("two_authorizations");
	if (h->lengths > 1)
		return BAD("two_lengths");
	if (h->lengths == 1) {
		if (!str_u64(h->length, INT64_MAX, &r->content_length))
			return BAD("content_length");
		if (end && r->content_length > 0)
			return BAD("content_length_sum"); /* C06 */
		r->framing = HTTP_BODY_LENGTH;
	} else if (!end) {
		r->framing = HTTP_BODY_CHUNKED;
	}
	if (h->expects > 0) {
		if (h->expects > 1 || !str_ieq(h->expect, STR("100-continue")) || end || (h->lengths == 1 && r->content_length == 0))
			return BAD("expect");
		r->expect_continue = true;
	}
	r->te_trailers = h->te_trailers;
	if (h->pseudo[H2_P_PROTOCOL].p != NULL) {
		r->framing = HTTP_BODY_NONE;
		return extended_connect(h, c, end);
	}
	return true;
}

static void drop_lengths(struct http_fields *fs)
{
	for (unsigned i = 0; i < fs->n; i++)
		if (fs->f[i].fid == HF_CONTENT_LENGTH)
			fs->f[i].drop = true;
}

bool h2_head_response(struct h2_head *h, bool to_head, bool end)
{
	struct http_response *r = &h->res;
	struct str status = h->pseudo[H2_P_STATUS];

	r->version = HTTP_V_2;
	r->keep_alive = true;
	if (h->fault.reason != NULL)
		return false;
	if (status.p == NULL)
		return BAD("no_status");
	r->status = (uint16_t)((status.p[0] - '0') * 100 + (status.p[1] - '0') * 10 + (status.p[2] - '0'));
	if (r->status == 101 || (r->status < 200 && end)) /* RFC 9113 8.1, 8.6 */
		return BAD("status");
	if (h->lengths > 1)
		return BAD("two_lengths");
	if (r->status < 200 || r->status == 204) { /* K13 */
		drop_lengths(&r->fields);
		return true;
	}
	if (h->lengths == 1 && !str_u64(h->length, INT64_MAX, &r->content_length))
		return BAD("content_length");
	r->has_length = h->lengths == 1;
	if (to_head || r->status == 304)
		return true;
	if (end && r->content_length > 0)
		return BAD("content_length_sum");
	r->framing = end || r->has_length ? HTTP_BODY_LENGTH : HTTP_BODY_CHUNKED;
	return true;
}

bool h2_head_trailers(struct h2_head *h, bool end)
{
	if (h->fault.reason == NULL && !end)
		return BAD("trailers_without_end"); /* RFC 9113 8.1 */
	return h->fault.reason == NULL;
}
