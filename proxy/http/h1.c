/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1.1 heads: parsing and writing (RFC 9112). Content framing is in h1_body.c. */
#include "h1.h"

#include <stdlib.h>

const struct h1_limits h1_limits_default = { .head_max = 65536, .line_max = 16384, .target_max = 16384, .fields_max = 100 };

static bool bad(struct http_fault *f, uint16_t status, const char *code, const char *reason)
{
	*f = (struct http_fault){ status, code, reason };
	return false;
}

#define BAD(reason) bad(fault, 400, "malformed_request", reason)

/* tchar of RFC 9110 5.6.2 = 1; field-value octets (VCHAR, obs-text, SP, HTAB) = 2; target octets = 4 */
static uint8_t class[256];
static void classes(void)
{
	static bool done;

	if (done)
		return;
	for (int c = 0; c < 256; c++) {
		if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c && strchr("!#$%&'*+-.^_`|~", c) != NULL))
			class[c] |= 1;
		if ((c >= 0x20 && c != 0x7f) || c == '\t')
			class[c] |= 2;
		if (c > 0x20 && c != 0x7f)
			class[c] |= 4;
	}
	done = true;
}

static bool all(struct str s, uint8_t mask)
{
	for (size_t i = 0; i < s.n; i++)
		if (!(class[(unsigned char)s.p[i]] & mask))
			return false;
	return true;
}

int h1_skip_crlf(const uint8_t *buf, size_t n)
{
	if (n == 0 || buf[0] != '\r')
		return 0;
	if (n == 1)
		return -1;
	return buf[1] == '\n' ? 2 : 0;
}

long h1_head_end(const uint8_t *buf, size_t n, size_t *scan, const struct h1_limits *lim, struct http_fault *fault)
{
	size_t i = *scan, max = n < lim->head_max ? n : lim->head_max;

	/* one LF after another: each must follow a CR; the head ends with CRLFCRLF (a head begins after any leading CRLF) */
	while (i < max) {
		const uint8_t *lf = memchr(buf + i, '\n', max - i);
		size_t at;

		if (lf == NULL) {
			/* a bare CR or NUL needs no more octets to be refused; the last octet may be half of CRLF */
			for (size_t k = i; k < max; k++) {
				if (buf[k] == 0 || (buf[k] == '\r' && k + 1 < max && buf[k + 1] != '\n')) {
					BAD(buf[k] == 0 ? "nul" : "bare_cr");
					return -1;
				}
			}
			/* looked at to here, but for a CR at the end */
			*scan = max > 0 && buf[max - 1] == '\r' ? max - 1 : max;
			break;
		}
		at = (size_t)(lf - buf);
		if (at == 0 || buf[at - 1] != '\r') {
			BAD("bare_lf");
			return -1;
		}
		if (at == 1 || (at >= 3 && buf[at - 2] == '\n')) {
			if (at == 1) {
				BAD("empty_line");
				return -1;
			}
			return (long)at + 1;
		}
		i = at + 1;
		*scan = i;
	}
	if (n >= lim->head_max) {
		bad(fault, 431, "too_large", "head");
		return -1;
	}
	return 0;
}

/* One line of the head; *line is without CRLF. */
static size_t take_line(const uint8_t *buf, size_t n, size_t at, struct str *line)
{
	const uint8_t *lf = memchr(buf + at, '\n', n - at);

	if (lf == NULL || lf == buf + at || lf[-1] != '\r')
		return 0;
	*line = str_mk(buf + at, (size_t)(lf - buf) - 1 - at);
	return (size_t)(lf - buf) + 1;
}

static bool parse_length(struct str v, uint64_t *out) { return str_u64(v, INT64_MAX, out); }

struct seen {
	unsigned host, length, te, auth, connection, expect, upgrade;
	struct http_field *f_length, *f_te, *f_host, *f_expect, *f_upgrade;
	bool close, keep_alive, conn_upgrade, te_trailers;
};

static void connection_tokens(struct str v, struct seen *s)
{
	size_t i = 0;

	while (i < v.n) {
		size_t b, e;
		struct str t;

		while (i < v.n && (v.p[i] == ' ' || v.p[i] == '\t' || v.p[i] == ','))
			i++;
		b = i;
		while (i < v.n && v.p[i] != ',')
			i++;
		e = i;
		while (e > b && (v.p[e - 1] == ' ' || v.p[e - 1] == '\t'))
			e--;
		t = str_mk(v.p + b, e - b);
		if (str_ieq(t, STR("close")))
			s->close = true;
		else if (str_ieq(t, STR("keep-alive")))
			s->keep_alive = true;
		else if (str_ieq(t, STR("upgrade")))
			s->conn_upgrade = true;
	}
}

static bool parse_fields(const uint8_t *buf, size_t n, size_t at, const struct h1_limits *lim, struct http_fields *fs, struct seen *s, struct http_fault *fault)
{
	for (;;) {
		struct str line, name, value;
		struct http_field *f;
		const char *colon;
		size_t next = take_line(buf, n, at, &line), b, e;

		if (next == 0)
			return BAD("line_end");
		if (line.n == 0)
			return next == n ? true : BAD("line_end");
		if (line.n > lim->line_max)
			return bad(fault, 431, "too_large", "field_line");
		if (line.p[0] == ' ' || line.p[0] == '\t')
			return BAD("obs_fold");
		colon = memchr(line.p, ':', line.n);
		if (colon == NULL)
			return BAD("no_colon");
		name = str_mk(line.p, (size_t)(colon - line.p));
		if (name.n == 0 || !all(name, 1))
			return BAD("header_name");
		if (name.n > 255)
			return bad(fault, 431, "too_large", "header_name");
		b = name.n + 1;
		e = line.n;
		while (b < e && (line.p[b] == ' ' || line.p[b] == '\t'))
			b++;
		while (e > b && (line.p[e - 1] == ' ' || line.p[e - 1] == '\t'))
			e--;
		value = str_mk(line.p + b, e - b);
		if (!all(value, 2))
			return BAD("header_value");
		if (fs->n >= lim->fields_max || !http_fields_add(fs, name, value, http_fid_of(name)))
			return bad(fault, 431, "too_large", "fields");
		f = &fs->f[fs->n - 1];
		switch (f->fid) {
		case HF_HOST:
			s->host++;
			s->f_host = f;
			break;
		case HF_CONTENT_LENGTH:
			s->length++;
			s->f_length = f;
			break;
		case HF_TRANSFER_ENCODING:
			s->te++;
			s->f_te = f;
			break;
		case HF_AUTHORIZATION:
			s->auth++;
			break;
		case HF_CONNECTION:
			connection_tokens(value, s);
			break;
		case HF_EXPECT:
			s->expect++;
			s->f_expect = f;
			break;
		case HF_UPGRADE:
			s->upgrade++;
			s->f_upgrade = f;
			break;
		case HF_TE:
			s->te_trailers = str_ieq(value, STR("trailers"));
			break;
		default: {
			/* underscores that alias a framing field: some origins fold them (B09) */
			struct str cl = STR("content-length"), te = STR("transfer-encoding"), h = name;
			bool alias = (h.n == cl.n || h.n == te.n) && memchr(h.p, '_', h.n) != NULL;

			for (size_t k = 0; alias && k < h.n; k++) {
				char c = ascii_lower(h.p[k]);

				alias = (c == '_' ? '-' : c) == (h.n == cl.n ? cl.p[k] : te.p[k]);
			}
			if (alias)
				return BAD("header_name");
			break;
		}
		}
		at = next;
	}
}

static bool parse_target(struct http_request *r, struct str target, struct arena *a, struct http_fault *fault)
{
	const char *q;
	struct str rest = target;

	if (!all(target, 4))
		return BAD("target");
	for (size_t i = 0; i < target.n; i++)
		if ((unsigned char)target.p[i] >= 0x80 && str_eq(r->method, STR("CONNECT")))
			return BAD("target");
	if (str_eq(r->method, STR("CONNECT"))) {
		r->form = HTTP_TARGET_AUTHORITY;
		r->authority = target;
		return true;
	}
	if (str_eq(target, STR("*"))) {
		if (!str_eq(r->method, STR("OPTIONS")))
			return BAD("target");
		r->form = HTTP_TARGET_ASTERISK;
		r->path = target;
		return true;
	}
	if (target.p[0] != '/') {
		ptrdiff_t sep = str_find(target, STR("://"));
		char *scheme;
		size_t i;

		if (sep <= 0)
			return BAD("target");
		scheme = arena_strz(a, str_mk(target.p, (size_t)sep));
		for (i = 0; i < (size_t)sep; i++)
			scheme[i] = ascii_lower(scheme[i]);
		r->scheme = str_mk(scheme, (size_t)sep);
		if (!str_eq(r->scheme, STR("http")) && !str_eq(r->scheme, STR("https")))
			return BAD("scheme");
		rest = str_mk(target.p + sep + 3, target.n - (size_t)sep - 3);
		for (i = 0; i < rest.n && rest.p[i] != '/' && rest.p[i] != '?' && rest.p[i] != '#'; i++)
			;
		r->form = HTTP_TARGET_ABSOLUTE;
		r->authority = str_mk(rest.p, i);
		rest = str_mk(rest.p + i, rest.n - i);
		if (r->authority.n == 0)
			return BAD("host_empty");
	}
	q = rest.n ? memchr(rest.p, '?', rest.n) : NULL;
	r->path = q != NULL ? str_mk(rest.p, (size_t)(q - rest.p)) : rest;
	if (q != NULL) {
		r->has_query = true;
		r->query = str_mk(q + 1, rest.n - (size_t)(q - rest.p) - 1);
	}
	if (r->path.n == 0)
		r->path = STR("/");
	return true;
}

bool h1_parse_request(const uint8_t *buf, size_t n, const struct h1_limits *lim, struct arena *a, struct http_request *r, struct http_fault *fault)
{
	struct str line, target;
	struct seen s = { 0 };
	const char *sp1, *sp2;
	size_t at;

	classes();
	at = take_line(buf, n, 0, &line);
	if (at == 0)
		return BAD("request_line");
	sp1 = memchr(line.p, ' ', line.n);
	if (sp1 == NULL || sp1 == line.p)
		return BAD("request_line");
	r->method = str_mk(line.p, (size_t)(sp1 - line.p));
	if (!all(r->method, 1) || r->method.n > 64) {
		r->method = STR_NONE;
		return BAD("method");
	}
	/* methods are case-sensitive; none of the registered ones has a small letter, and some origins fold case */
	for (size_t i = 0; i < r->method.n; i++)
		if (r->method.p[i] >= 'a' && r->method.p[i] <= 'z')
			return BAD("method");
	sp2 = memchr(sp1 + 1, ' ', (size_t)(line.p + line.n - sp1 - 1));
	if (sp2 == NULL)
		return BAD("version");
	target = str_mk(sp1 + 1, (size_t)(sp2 - sp1 - 1));
	line = str_mk(sp2 + 1, (size_t)(line.p + line.n - sp2 - 1));
	if (target.n == 0)
		return BAD("request_line");
	if (target.n > lim->target_max)
		return bad(fault, 414, "too_large", "target");
	if (str_eq(line, STR("HTTP/1.1")))
		r->version = HTTP_V_1_1;
	else if (str_eq(line, STR("HTTP/1.0")))
		r->version = HTTP_V_1_0;
	else
		return BAD("version");
	if (!parse_target(r, target, a, fault) || !parse_fields(buf, n, at, lim, &r->fields, &s, fault))
		return false;
	if (s.host > 1)
		return BAD("two_hosts");
	if (s.f_host != NULL)
		r->host_field = s.f_host->value;
	if (s.host == 1 && r->host_field.n == 0)
		return BAD("host_empty");
	if (s.auth > 1)
		return BAD("two_authorizations");
	if (s.te > 0 && s.length > 0)
		return BAD("cl_and_te");
	if (s.length > 1)
		return BAD("two_lengths");
	if (s.te > 0) {
		if (s.te > 1 || !str_ieq(s.f_te->value, STR("chunked")))
			return BAD("transfer_encoding");
		if (r->version == HTTP_V_1_0)
			return BAD("te_in_1_0");
		r->framing = HTTP_BODY_CHUNKED;
	} else if (s.length > 0) {
		if (!parse_length(s.f_length->value, &r->content_length))
			return BAD("content_length");
		r->framing = HTTP_BODY_LENGTH;
	}
	if (s.expect > 0) {
		if (s.expect > 1 || !str_ieq(s.f_expect->value, STR("100-continue")))
			return BAD("expect");
		/* without content there is nothing to wait for; a 1.0 client cannot mean it (RFC 9110 10.1.1) */
		r->expect_continue = r->version == HTTP_V_1_1 && (r->framing == HTTP_BODY_CHUNKED || r->content_length > 0);
	}
	r->te_trailers = s.te_trailers;
	r->keep_alive = r->version == HTTP_V_1_1 ? !s.close : (s.keep_alive && !s.close);
	if (s.upgrade > 0 && s.conn_upgrade && s.upgrade == 1 && str_ieq(s.f_upgrade->value, STR("websocket"))) {
		if (!str_eq(r->method, STR("GET")) || r->framing != HTTP_BODY_NONE)
			return BAD("websocket_handshake");
		r->upgrade_websocket = true;
	}
	return true;
}

#undef BAD
#define BAD(reason) bad(fault, 502, "upstream_protocol", reason)

bool h1_parse_response(const uint8_t *buf, size_t n, const struct h1_limits *lim, struct arena *a, struct str request_method, struct http_response *r, struct http_fault *fault)
{
	struct str line;
	struct seen s = { 0 };
	size_t at;
	bool head = str_eq(request_method, STR("HEAD"));

	(void)a;
	classes();
	memset(r, 0, offsetof(struct http_response, fields));
	r->fields.n = 0;
	r->framing = HTTP_BODY_NONE;
	r->content_length = 0;
	r->has_length = false;
	at = take_line(buf, n, 0, &line);
	if (at == 0 || line.n < 12)
		return BAD("status_line");
	if (memcmp(line.p, "HTTP/1.1 ", 9) == 0)
		r->version = HTTP_V_1_1;
	else if (memcmp(line.p, "HTTP/1.0 ", 9) == 0)
		r->version = HTTP_V_1_0;
	else
		return BAD("version");
	for (int i = 9; i < 12; i++) {
		if (line.p[i] < '0' || line.p[i] > '9')
			return BAD("status");
		r->status = (uint16_t)(r->status * 10 + (line.p[i] - '0'));
	}
	if (r->status < 100 || r->status > 599 || (line.n > 12 && line.p[12] != ' '))
		return BAD("status");
	if (line.n > 13)
		r->reason = str_mk(line.p + 13, line.n - 13);
	if (!all(r->reason, 2))
		return BAD("reason_phrase");
	if (!parse_fields(buf, n, at, lim, &r->fields, &s, fault)) {
		*fault = (struct http_fault){ 502, "upstream_protocol", fault->reason };
		return false;
	}
	if (s.te > 0 && s.length > 0)
		return BAD("cl_and_te");
	if (s.length > 1)
		return BAD("two_lengths");
	if (s.te > 1 || (s.te == 1 && (!str_ieq(s.f_te->value, STR("chunked")) || r->version == HTTP_V_1_0)))
		return BAD("transfer_encoding");
	if (s.length == 1 && !parse_length(s.f_length->value, &r->content_length))
		return BAD("content_length");
	r->has_length = s.length == 1;
	/* RFC 9112 6.3, in its order */
	if (head || r->status < 200 || r->status == 204 || r->status == 304)
		r->framing = HTTP_BODY_NONE;
	else if (s.te == 1)
		r->framing = HTTP_BODY_CHUNKED;
	else if (s.length == 1)
		r->framing = HTTP_BODY_LENGTH;
	else
		r->framing = HTTP_BODY_CLOSE;
	r->keep_alive = r->version == HTTP_V_1_1 ? !s.close : (s.keep_alive && !s.close);
	return true;
}

/* --- writing ------------------------------------------------------------------------------------------------------- */

static void write_fields(struct buf *out, const struct http_fields *fs)
{
	for (unsigned i = 0; i < fs->n; i++) {
		const struct http_field *f = &fs->f[i];
		uint8_t *p;

		if (f->drop || f->fid == HF_CONTENT_LENGTH || f->fid == HF_TRANSFER_ENCODING || f->fid == HF_CONNECTION || f->fid == HF_HOST)
			continue;
		p = buf_room(out, f->name.n + f->value.n + 4);
		memcpy(p, f->name.p, f->name.n);
		p += f->name.n;
		*p++ = ':';
		*p++ = ' ';
		if (f->value.n)
			memcpy(p, f->value.p, f->value.n);
		p += f->value.n;
		*p++ = '\r';
		*p++ = '\n';
		buf_commit(out, f->name.n + f->value.n + 4);
	}
}

static void write_framing(struct buf *out, enum http_framing framing, uint64_t length)
{
	if (framing == HTTP_BODY_LENGTH) {
		buf_addz(out, "Content-Length: ");
		buf_addu(out, length);
		buf_addz(out, "\r\n");
	} else if (framing == HTTP_BODY_CHUNKED) {
		buf_addz(out, "Transfer-Encoding: chunked\r\n");
	}
}

void h1_write_request(struct buf *out, const struct http_request *r, struct str host, struct str target, enum http_framing framing, uint64_t length)
{
	buf_adds(out, r->method);
	buf_addc(out, ' ');
	buf_adds(out, target);
	buf_addz(out, " HTTP/1.1\r\nHost: ");
	buf_adds(out, host);
	buf_addz(out, "\r\n");
	write_fields(out, &r->fields);
	write_framing(out, framing, length);
	buf_addz(out, "\r\n");
}

void h1_write_response(struct buf *out, const struct http_response *r, enum http_framing framing, uint64_t length, bool keep_alive, bool is_head)
{
	buf_addz(out, "HTTP/1.1 ");
	buf_addu(out, r->status);
	buf_addc(out, ' ');
	buf_adds(out, r->reason);
	buf_addz(out, "\r\n");
	write_fields(out, &r->fields);
	if (!keep_alive)
		buf_addz(out, "Connection: close\r\n");
	if (is_head || r->status == 304) {
		/* what a GET would have had, as the origin said it */
		if (r->has_length)
			write_framing(out, HTTP_BODY_LENGTH, r->content_length);
	} else if (r->status != 204) {
		write_framing(out, framing, length);
	}
	buf_addz(out, "\r\n");
}

size_t h1_chunk_line(char out[20], uint64_t n)
{
	static const char hex[] = "0123456789abcdef";
	char t[16];
	size_t k = 0, o = 0;

	do {
		t[k++] = hex[n & 15];
		n >>= 4;
	} while (n);
	while (k > 0)
		out[o++] = t[--k];
	out[o++] = '\r';
	out[o++] = '\n';
	return o;
}
