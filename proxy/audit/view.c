/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "reader.h"

/*
 * Text that a sandbox chose, on its way to a terminal: controls (also C1, U+0080-9F), and what turns the direction of
 * writing or hides (U+200B-200F, U+2028-202E, U+2060-2069, U+FEFF), are written as \uXXXX.
 */
static void put_text(struct buf *out, const char *p)
{
	const unsigned char *s = (const unsigned char *)p;

	while (*s) {
		uint32_t u = *s;
		size_t n = 1;

		if (u >= 0xe0 && u < 0xf0 && s[1] && s[2]) {
			u = (u & 15) << 12 | (uint32_t)(s[1] & 63) << 6 | (s[2] & 63);
			n = 3;
		} else if (u >= 0xc0 && u < 0xe0 && s[1]) {
			u = (u & 31) << 6 | (s[1] & 63);
			n = 2;
		} else if (u >= 0xf0 && s[1] && s[2] && s[3]) {
			n = 4;
			u = 0x10000;
		}
		if (u < 0x20 || (u >= 0x7f && u < 0xa0) || (u >= 0x200b && u <= 0x200f) || (u >= 0x2028 && u <= 0x202e) || (u >= 0x2060 && u <= 0x2069) || u == 0xfeff)
			buf_addf(out, "\\u%04x", u);
		else
			buf_add(out, s, n);
		s += n;
	}
}

static const char *text(json_t *o, const char *a, const char *b)
{
	json_t *v = json_object_get(o, a);

	if (b != NULL)
		v = json_object_get(v, b);
	return json_string_value(v);
}

static json_int_t number(json_t *o, const char *a, const char *b)
{
	json_t *v = json_object_get(o, a);

	if (b != NULL)
		v = json_object_get(v, b);
	return json_integer_value(v);
}

static bool host_is(const char *have, const char *want)
{
	return have != NULL && str_ieq(str_of(have), str_of(want));
}

static bool passes(json_t *r, const struct view_filter *f)
{
	json_t *url = json_object_get(json_object_get(r, "http_request"), "url");
	const char *name = text(r, "src_endpoint", "name");

	if (f->sandbox != NULL && (name == NULL || strcmp(name, f->sandbox) != 0))
		return false;
	if (f->denied && number(r, "action_id", NULL) != 2)
		return false;
	if (f->since_ms != 0 && (uint64_t)number(r, "time", NULL) < f->since_ms)
		return false;
	if (f->host != NULL && !host_is(json_string_value(json_object_get(url, "hostname")), f->host) && !host_is(text(r, "dst_endpoint", "hostname"), f->host))
		return false;
	return true;
}

static void put_opt(struct buf *out, const char *before, const char *v, const char *after)
{
	if (v == NULL || v[0] == 0)
		return;
	buf_addz(out, before);
	put_text(out, v);
	buf_addz(out, after);
}

static void put_time(struct buf *out, uint64_t ms)
{
	time_t t = (time_t)(ms / 1000);
	struct tm tm;
	char z[64];

	if (localtime_r(&t, &tm) == NULL || strftime(z, sizeof(z), "%Y-%m-%d %H:%M:%S", &tm) == 0)
		snprintf(z, sizeof(z), "?");
	buf_addf(out, "%s.%03u", z, (unsigned)(ms % 1000));
}

static void put_port(struct buf *out, json_int_t port, const char *scheme)
{
	if (port == 0 || (port == 443 && (scheme == NULL || strcmp(scheme, "https") == 0)) || (port == 80 && scheme != NULL && strcmp(scheme, "http") == 0))
		return;
	buf_addf(out, ":%lld", (long long)port);
}

static void put_request(struct buf *out, json_t *r)
{
	json_t *q = json_object_get(r, "http_request"), *url = json_object_get(q, "url");
	const char *method = text(q, "http_method", NULL), *scheme = text(url, "scheme", NULL), *host = text(url, "hostname", NULL), *query = text(url, "query_string", NULL);

	put_text(out, method != NULL ? method : "(unreadable)");
	buf_addc(out, ' ');
	put_opt(out, "", scheme, "://");
	put_text(out, host != NULL ? host : "");
	put_port(out, number(url, "port", NULL), scheme);
	put_opt(out, "", text(url, "path", NULL), "");
	put_opt(out, "?", query, "");
}

static void put_what(struct buf *out, json_t *r, const char *kind)
{
	json_t *ours = json_object_get(json_object_get(r, "unmapped"), "sallyport");

	if (strcmp(kind, "request") == 0) {
		put_request(out, r);
	} else if (strcmp(kind, "connection") == 0) {
		put_opt(out, "", text(ours, "method", NULL), " ");
		put_opt(out, "", text(r, "dst_endpoint", "hostname"), "");
		buf_addf(out, ":%lld", (long long)number(r, "dst_endpoint", "port"));
	} else if (strcmp(kind, "dns") == 0) {
		put_opt(out, "", text(r, "query", "hostname"), "");
	} else if (strcmp(kind, "checkpoint") == 0) {
		buf_addf(out, "after %lld records", (long long)number(ours, "checkpoint", "records"));
	} else {
		put_opt(out, "", text(r, "message", NULL), "");
		put_opt(out, " (", text(r, "dst_endpoint", "hostname"), ")");
	}
}

static void put_details(struct buf *out, json_t *r)
{
	json_t *ours = json_object_get(json_object_get(r, "unmapped"), "sallyport"), *secrets = json_object_get(ours, "secrets");
	const char *code = text(ours, "code", NULL);
	size_t i;

	put_opt(out, "  ", code, "");
	if (text(ours, "reason", NULL) != NULL && (code == NULL || strcmp(code, text(ours, "reason", NULL)) != 0))
		put_opt(out, code != NULL ? ": " : "  ", text(ours, "reason", NULL), "");
	put_opt(out, "  rule=", text(r, "firewall_rule", "uid"), "");
	put_opt(out, "  at ", text(ours, "source", NULL), "");
	for (i = 0; i < json_array_size(secrets); i++)
		put_opt(out, i == 0 ? "  secrets=" : ",", json_string_value(json_array_get(secrets, i)), "");
	if (number(ours, "scrubbed", NULL) > 0)
		buf_addf(out, "  scrubbed=%lld", (long long)number(ours, "scrubbed", NULL));
	if (number(r, "count", NULL) > 1)
		buf_addf(out, "  x%lld", (long long)number(r, "count", NULL));
	if (json_object_get(r, "duration") != NULL)
		buf_addf(out, "  %lldms", (long long)number(r, "duration", NULL));
}

bool view_line(struct str line, const struct view_filter *f, struct buf *out)
{
	json_t *r = json_loadb(line.p, line.n, JSON_ALLOW_NUL, NULL), *ours;
	const char *kind, *name;

	if (!json_is_object(r)) {
		json_decref(r);
		return false;
	}
	if (!passes(r, f))
		goto out;
	if (f->json) {
		buf_adds(out, line);
		buf_addc(out, '\n');
		goto out;
	}
	ours = json_object_get(json_object_get(r, "unmapped"), "sallyport");
	kind = text(ours, "kind", NULL);
	kind = kind != NULL ? kind : "?";
	name = text(r, "src_endpoint", "name");
	put_time(out, (uint64_t)number(r, "time", NULL));
	buf_addz(out, "  ");
	put_text(out, name != NULL && name[0] ? name : "-");
	buf_addz(out, "  ");
	put_text(out, kind);
	if (json_object_get(r, "action_id") != NULL)
		buf_addz(out, number(r, "action_id", NULL) == 2 ? "  DENIED " : "  allowed");
	if (json_object_get(r, "http_response") != NULL)
		buf_addf(out, " %lld", (long long)number(r, "http_response", "code"));
	buf_addz(out, "  ");
	put_what(out, r, kind);
	put_details(out, r);
	buf_addc(out, '\n');
out:
	json_decref(r);
	return true;
}
