/* SPDX-License-Identifier: Apache-2.0 */
#include "head.h"

#include <stddef.h>
#include <string.h>

static bool same(struct str name, const char *lower)
{
	for (size_t i = 1; i < name.n; i++) /* the first letter was looked at */
		if (ascii_lower(name.p[i]) != lower[i])
			return false;
	return true;
}

/* By length and first letter, so that hardly a name is compared with more than one other. */
enum http_fid http_fid_of(struct str name)
{
	char c = name.n ? ascii_lower(name.p[0]) : 0;

#define IS(lit, id) \
	if (name.n == sizeof(lit) - 1 && same(name, lit)) \
	return id
	switch (c) {
	case 'a':
		IS("alt-svc", HF_ALT_SVC);
		IS("authorization", HF_AUTHORIZATION);
		IS("accept-encoding", HF_ACCEPT_ENCODING);
		break;
	case 'c':
		IS("cookie", HF_COOKIE);
		IS("connection", HF_CONNECTION);
		IS("content-type", HF_CONTENT_TYPE);
		IS("content-length", HF_CONTENT_LENGTH);
		IS("content-encoding", HF_CONTENT_ENCODING);
		break;
	case 'e':
		IS("expect", HF_EXPECT);
		IS("early-data", HF_EARLY_DATA);
		break;
	case 'f':
		IS("forwarded", HF_FORWARDING);
		break;
	case 'h':
		IS("host", HF_HOST);
		IS("http2-settings", HF_HTTP2_SETTINGS);
		break;
	case 'i':
		IS("if-range", HF_IF_RANGE);
		break;
	case 'k':
		IS("keep-alive", HF_KEEP_ALIVE);
		break;
	case 'm':
		IS("max-forwards", HF_MAX_FORWARDS);
		break;
	case 'p':
		IS("proxy-connection", HF_PROXY_CONNECTION);
		IS("proxy-authenticate", HF_PROXY_AUTHENTICATE);
		IS("proxy-authorization", HF_PROXY_AUTHORIZATION);
		break;
	case 'r':
		IS("range", HF_RANGE);
		IS("request-range", HF_RANGE); /* its older name, which Apache httpd still obeys */
		break;
	case 't':
		IS("te", HF_TE);
		IS("trailer", HF_TRAILER);
		IS("transfer-encoding", HF_TRANSFER_ENCODING);
		break;
	case 'u':
		IS("upgrade", HF_UPGRADE);
		IS("user-agent", HF_USER_AGENT);
		break;
	case 'v':
		IS("via", HF_VIA);
		break;
	case 'x':
		if (name.n > 12 && same(str_mk(name.p, 12), "x-forwarded-"))
			return HF_FORWARDING;
		IS("x-original-url", HF_FORWARDING);
		IS("x-rewrite-url", HF_FORWARDING);
		IS("x-http-method", HF_METHOD_OVERRIDE);
		IS("x-method-override", HF_METHOD_OVERRIDE);
		IS("x-http-method-override", HF_METHOD_OVERRIDE);
		break;
	default:
		break;
	}
#undef IS
	return HF_OTHER;
}

enum http_fid http_fid_alias(struct str name)
{
	char t[64]; /* longer names are none of ours, but X-Forwarded-*, which the beginning tells */
	size_t n = name.n < sizeof(t) ? name.n : sizeof(t);
	bool any = false;

	for (size_t i = 0; i < n; i++) {
		any = any || name.p[i] == '_';
		t[i] = name.p[i] == '_' ? '-' : name.p[i];
	}
	return any ? http_fid_of(str_mk(t, n)) : HF_OTHER;
}

void http_request_copy(struct http_request *to, const struct http_request *from)
{
	memcpy(to, from, offsetof(struct http_request, fields));
	memcpy(to->fields.f, from->fields.f, from->fields.n * sizeof(from->fields.f[0]));
	to->fields.n = from->fields.n;
	memcpy(&to->framing, &from->framing, sizeof(*to) - offsetof(struct http_request, framing));
}

struct http_field *http_fields_find(struct http_fields *fs, enum http_fid fid)
{
	for (unsigned i = 0; i < fs->n; i++)
		if (fs->f[i].fid == fid && !fs->f[i].drop)
			return &fs->f[i];
	return NULL;
}

struct http_field *http_fields_find_name(struct http_fields *fs, struct str name)
{
	for (unsigned i = 0; i < fs->n; i++)
		if (!fs->f[i].drop && str_ieq(fs->f[i].name, name))
			return &fs->f[i];
	return NULL;
}

bool http_fields_add(struct http_fields *fs, struct str name, struct str value, enum http_fid fid)
{
	if (fs->n >= HTTP_FIELDS_MAX)
		return false;
	fs->f[fs->n++] = (struct http_field){ .name = name, .value = value, .fid = (uint8_t)fid };
	return true;
}

void http_fields_drop_like(struct http_fields *fs, struct str name)
{
	for (unsigned i = 0; i < fs->n; i++)
		if (str_alike(fs->f[i].name, name))
			fs->f[i].drop = true;
}

/* Drops what Connection nominates. In requests it may not nominate what we or the framing rely on. */
static bool nominated(struct http_fields *fs, struct str value, bool request)
{
	static const enum http_fid untouchable[] = { HF_HOST, HF_CONTENT_LENGTH, HF_TRANSFER_ENCODING, HF_AUTHORIZATION, HF_COOKIE };
	size_t i = 0;

	while (i < value.n) {
		size_t b, e;
		bool keep = false;
		struct str token;
		enum http_fid fid;

		while (i < value.n && (value.p[i] == ' ' || value.p[i] == '\t' || value.p[i] == ','))
			i++;
		b = i;
		while (i < value.n && value.p[i] != ',')
			i++;
		e = i;
		while (e > b && (value.p[e - 1] == ' ' || value.p[e - 1] == '\t'))
			e--;
		token = str_mk(value.p + b, e - b);
		if (token.n == 0)
			continue;
		fid = http_fid_of(token);
		for (size_t k = 0; k < sizeof(untouchable) / sizeof(untouchable[0]); k++) {
			if (fid != untouchable[k])
				continue;
			if (request)
				return false;
			keep = true;
		}
		if (keep)
			continue;
		for (unsigned k = 0; k < fs->n; k++)
			if (str_ieq(fs->f[k].name, token))
				fs->f[k].drop = true;
	}
	return true;
}

static bool strip(struct http_fields *fs, bool request)
{
	for (unsigned i = 0; i < fs->n; i++) {
		struct http_field *f = &fs->f[i];

		switch (f->fid) {
		case HF_CONNECTION:
			if (!nominated(fs, f->value, request))
				return false;
			f->drop = true;
			break;
		case HF_KEEP_ALIVE:
		case HF_PROXY_CONNECTION:
		case HF_PROXY_AUTHORIZATION:
		case HF_PROXY_AUTHENTICATE:
		case HF_TE:
		case HF_TRAILER:
		case HF_UPGRADE:
		case HF_TRANSFER_ENCODING:
		case HF_CONTENT_LENGTH: /* written anew from the parsed framing */
		case HF_HTTP2_SETTINGS:
		case HF_EARLY_DATA:
			f->drop = true;
			break;
		case HF_HOST:
		case HF_FORWARDING:
		case HF_METHOD_OVERRIDE:
		case HF_EXPECT:
			f->drop = f->drop || request;
			break;
		case HF_ALT_SVC:
			f->drop = f->drop || !request;
			break;
		default:
			break;
		}
	}
	return true;
}

bool http_request_strip(struct http_request *r, struct http_fault *fault)
{
	if (strip(&r->fields, true))
		return true;
	*fault = (struct http_fault){ 400, "malformed_request", "connection_nominates" };
	return false;
}

void http_response_strip(struct http_response *r) { strip(&r->fields, false); }
