/* SPDX-License-Identifier: Apache-2.0 */
#include "head.h"

struct known {
	const char *name;
	uint8_t len, fid;
};
/* By length, so that a look-up compares with two or three names at most. */
static const struct known names[] = {
	{ "te", 2, HF_TE }, { "via", 3, HF_VIA }, { "host", 4, HF_HOST }, { "range", 5, HF_RANGE }, { "expect", 6, HF_EXPECT }, { "cookie", 6, HF_COOKIE },
	{ "upgrade", 7, HF_UPGRADE }, { "trailer", 7, HF_TRAILER }, { "alt-svc", 7, HF_ALT_SVC }, { "if-range", 8, HF_IF_RANGE }, { "forwarded", 9, HF_FORWARDING },
	{ "connection", 10, HF_CONNECTION }, { "keep-alive", 10, HF_KEEP_ALIVE }, { "user-agent", 10, HF_USER_AGENT }, { "early-data", 10, HF_EARLY_DATA },
	{ "content-type", 12, HF_CONTENT_TYPE }, { "max-forwards", 12, HF_MAX_FORWARDS }, { "authorization", 13, HF_AUTHORIZATION },
	{ "content-length", 14, HF_CONTENT_LENGTH }, { "http2-settings", 14, HF_HTTP2_SETTINGS }, { "x-original-url", 14, HF_FORWARDING },
	{ "x-http-method", 13, HF_METHOD_OVERRIDE }, { "x-rewrite-url", 13, HF_FORWARDING }, { "accept-encoding", 15, HF_ACCEPT_ENCODING },
	{ "x-forwarded-for", 15, HF_FORWARDING }, { "x-forwarded-host", 16, HF_FORWARDING }, { "proxy-connection", 16, HF_PROXY_CONNECTION },
	{ "content-encoding", 16, HF_CONTENT_ENCODING }, { "x-forwarded-port", 16, HF_FORWARDING }, { "transfer-encoding", 17, HF_TRANSFER_ENCODING },
	{ "x-method-override", 17, HF_METHOD_OVERRIDE }, { "x-forwarded-proto", 17, HF_FORWARDING }, { "x-forwarded-server", 18, HF_FORWARDING },
	{ "x-forwarded-prefix", 18, HF_FORWARDING }, { "proxy-authenticate", 18, HF_PROXY_AUTHENTICATE }, { "proxy-authorization", 19, HF_PROXY_AUTHORIZATION },
	{ "x-http-method-override", 22, HF_METHOD_OVERRIDE },
};

enum http_fid http_fid_of(struct str name)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].len == name.n && str_ieq(name, str_mk(names[i].name, names[i].len)))
			return names[i].fid;
	return HF_OTHER;
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
	if (fs->n == HTTP_FIELDS_MAX)
		return false;
	fs->f[fs->n++] = (struct http_field){ .name = name, .value = value, .fid = (uint8_t)fid };
	return true;
}

void http_fields_drop_like(struct http_fields *fs, struct str name)
{
	for (unsigned i = 0; i < fs->n; i++) {
		struct str f = fs->f[i].name;
		bool same = f.n == name.n;

		for (size_t k = 0; same && k < f.n; k++) {
			char a = ascii_lower(f.p[k]), b = ascii_lower(name.p[k]);

			same = (a == '_' ? '-' : a) == (b == '_' ? '-' : b);
		}
		if (same)
			fs->f[i].drop = true;
	}
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
