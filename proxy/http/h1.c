/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1.1 heads: finding their end and parsing them (RFC 9112). Content framing is in h1_body.c, writing in h1_write.c.
 *
 * h1_head_end refuses every octet that may stand in no head (controls, bare CR, bare LF) at the place where it stands, so
 * that the answer does not depend on how the octets arrived. h1_parse_* then walk the lines once. They do not rely on
 * h1_head_end having been called: each line's end and octets are checked again on the way.
 */
#include "h1.h"

#include <stddef.h>

#include "ws.h"

#define METHOD_MAX 64
#define NAME_MAX 255
#define CONNECTION_TOKENS_MAX 64

const struct h1_limits h1_limits_default = { .head_max = 65536, .line_max = 16384, .target_max = 16384, .fields_max = 100 };

static bool bad(struct http_fault *f, uint16_t status, const char *code, const char *reason)
{
	*f = (struct http_fault){ status, code, reason };
	return false;
}

#define BAD(reason) bad(fault, 400, "malformed_request", reason)

/* tchar of RFC 9110 5.6.2 */
static const bool tchar[256] = {
	['0' ... '9'] = true, ['a' ... 'z'] = true, ['A' ... 'Z'] = true, ['!'] = true, ['#'] = true, ['$'] = true, ['%'] = true, ['&'] = true, ['\''] = true,
	['*'] = true, ['+'] = true, ['-'] = true, ['.'] = true, ['^'] = true, ['_'] = true, ['`'] = true, ['|'] = true, ['~'] = true,
};

static bool is_token(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!tchar[(unsigned char)s.p[i]])
			return false;
	return s.n > 0;
}

static bool is_ascii(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if ((unsigned char)s.p[i] >= 0x80)
			return false;
	return true;
}

/*
 * How many octets from p on may stand inside a line: VCHAR, obs-text, SP, HTAB (RFC 9110 5.5). The octet behind them is
 * the CR of the line's end, or a fault. Sixteen at a time: this is most of the work on a head.
 */
static size_t line_span(const uint8_t *p, size_t n)
{
	typedef uint8_t octets __attribute__((vector_size(16)));
	size_t i = 0;

	for (; n - i >= 16; i += 16) {
		octets v, no;
		uint64_t half[2];

		memcpy(&v, p + i, 16);
		no = (octets)((v < 0x20) & (v != '\t')) | (octets)(v == 0x7f);
		memcpy(half, &no, 16);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
		if (half[0] != 0)
			return i + (unsigned)__builtin_ctzll(half[0]) / 8;
		if (half[1] != 0)
			return i + 8 + (unsigned)__builtin_ctzll(half[1]) / 8;
#else
		if ((half[0] | half[1]) != 0)
			break;
#endif
	}
	while (i < n && (p[i] >= 0x20 || p[i] == '\t') && p[i] != 0x7f)
		i++;
	return i;
}

static const char *octet_fault(uint8_t c) { return c == 0 ? "nul" : c == '\n' ? "bare_lf" : c == '\r' ? "bare_cr" : "control"; }

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

	if (n == 0)
		return 0;
	for (;;) {
		i += line_span(buf + i, max - i);
		if (i == max || (i + 1 == max && buf[i] == '\r'))
			break;
		if (buf[i] != '\r' || buf[i + 1] != '\n') {
			BAD(octet_fault(buf[i]));
			return -1;
		}
		if (i == 0) {
			BAD("empty_line");
			return -1;
		}
		i += 2;
		if (buf[i - 3] == '\n')
			return (long)i;
	}
	*scan = i;
	if (n >= lim->head_max) {
		bad(fault, 431, "too_large", "head");
		return -1;
	}
	return 0;
}

/* The line that begins at `at`, without its CRLF; returns where the next one begins, 0 = *fault. */
static size_t take_line(const uint8_t *buf, size_t n, size_t at, struct str *line, struct http_fault *fault)
{
	size_t end = at + line_span(buf + at, n - at);

	if (n - end < 2 || buf[end] != '\r' || buf[end + 1] != '\n') {
		BAD(n - end < 2 ? "line_end" : octet_fault(buf[end]));
		return 0;
	}
	*line = str_mk(buf + at, end - at);
	return end + 2;
}

/* What parse_fields found, and what a message may have only once. */
struct seen {
	unsigned host, length, te, auth, expect, upgrade, connection_tokens;
	struct str v_length, v_te, v_host, v_expect, v_upgrade;
	bool close, keep_alive, conn_upgrade, te_trailers;
};

/* The next element of a comma list, white space around it trimmed; false at its end. Empty elements are passed over. */
static bool next_element(struct str v, size_t *at, struct str *out)
{
	size_t i = *at, b, e;

	while (i < v.n && (v.p[i] == ' ' || v.p[i] == '\t' || v.p[i] == ','))
		i++;
	for (b = i; i < v.n && v.p[i] != ','; i++)
		;
	for (e = i; e > b && (v.p[e - 1] == ' ' || v.p[e - 1] == '\t'); e--)
		;
	*at = i;
	*out = str_mk(v.p + b, e - b);
	return e > b;
}

static bool connection_tokens(struct str v, struct seen *s)
{
	struct str t;

	for (size_t at = 0; next_element(v, &at, &t);) {
		if (!is_token(t) || ++s->connection_tokens > CONNECTION_TOKENS_MAX)
			return false;
		if (str_ieq(t, STR("close")))
			s->close = true;
		else if (str_ieq(t, STR("keep-alive")))
			s->keep_alive = true;
		else if (str_ieq(t, STR("upgrade")))
			s->conn_upgrade = true;
	}
	return true;
}

/* raw is what stands behind the colon, untrimmed. */
static bool known_field(struct http_field *f, struct str raw, bool request, struct seen *s, struct http_fault *fault)
{
	struct str t;

	switch (f->fid) {
	case HF_HOST:
		s->host++;
		s->v_host = f->value;
		break;
	case HF_CONTENT_LENGTH:
		s->length++;
		s->v_length = f->value;
		break;
	case HF_TRANSFER_ENCODING:
		s->te++;
		s->v_te = f->value;
		break;
	case HF_AUTHORIZATION:
		s->auth++;
		break;
	case HF_EXPECT:
		s->expect++;
		s->v_expect = f->value;
		break;
	case HF_UPGRADE:
		s->upgrade++;
		s->v_upgrade = f->value;
		return true;
	case HF_TE:
		for (size_t at = 0; next_element(f->value, &at, &t);)
			s->te_trailers = s->te_trailers || str_ieq(t, STR("trailers"));
		return true;
	case HF_CONNECTION:
		if (!connection_tokens(f->value, s)) {
			if (request)
				return BAD("connection");
			s->close = true; /* whatever it was meant to say, the connection is not used again */
		}
		return true;
	case HF_PROXY_AUTHORIZATION:
		break;
	default:
		return true;
	}
	/*
	 * A32, A08: framing, routing and authentication are plain ASCII, and no tab stands around what frames or routes:
	 * recipients disagree about trimming it.
	 */
	if (!is_ascii(f->value) || (f->fid != HF_AUTHORIZATION && f->fid != HF_PROXY_AUTHORIZATION && raw.n && memchr(raw.p, '\t', raw.n) != NULL))
		return BAD("header_value");
	return true;
}

static bool parse_fields(const uint8_t *buf, size_t n, size_t at, const struct h1_limits *lim, bool request, struct http_fields *fs, struct seen *s, struct http_fault *fault)
{
	for (;;) {
		struct str line, raw;
		struct http_field *f;
		size_t next = take_line(buf, n, at, &line, fault), k = 0, b, e;
		bool underscore = false;

		if (next == 0)
			return false;
		if (line.n == 0)
			return next == n ? true : BAD("line_end");
		if (line.p[0] == ' ' || line.p[0] == '\t')
			return BAD("obs_fold");
		for (; k < line.n && tchar[(unsigned char)line.p[k]]; k++)
			underscore = underscore || line.p[k] == '_';
		if (k == line.n)
			return BAD("no_colon");
		if (k == 0 || line.p[k] != ':')
			return BAD("header_name");
		if (k > NAME_MAX)
			return bad(fault, 431, "too_large", "header_name");
		if (line.n > lim->line_max)
			return bad(fault, 431, "too_large", "field_line");
		raw = str_mk(line.p + k + 1, line.n - k - 1);
		for (b = 0; b < raw.n && (raw.p[b] == ' ' || raw.p[b] == '\t'); b++)
			;
		for (e = raw.n; e > b && (raw.p[e - 1] == ' ' || raw.p[e - 1] == '\t'); e--)
			;
		line.n = k;
		if (fs->n >= lim->fields_max || !http_fields_add(fs, line, str_mk(raw.p + b, e - b), http_fid_of(line)))
			return bad(fault, 431, "too_large", "fields");
		f = &fs->f[fs->n - 1];
		if (underscore) {
			/* B09: many origins fold '_' to '-'. What would then be a field that means something here does not pass as another. */
			enum http_fid alias = http_fid_alias(line);

			if (request && (alias == HF_CONTENT_LENGTH || alias == HF_TRANSFER_ENCODING))
				return BAD("header_name");
			f->drop = alias != HF_OTHER;
		} else if (!known_field(f, raw, request, s, fault)) {
			return false;
		}
		at = next;
	}
}

static bool parse_target(struct http_request *r, struct str target, struct arena *a, struct http_fault *fault)
{
	struct str rest = target;
	const char *q;

	if (memchr(target.p, '\t', target.n) != NULL)
		return BAD("target");
	if (str_eq(r->method, STR("CONNECT"))) {
		r->form = HTTP_TARGET_AUTHORITY;
		r->authority = target;
		return is_ascii(target) ? true : BAD("target");
	}
	if (str_eq(target, STR("*"))) {
		r->form = HTTP_TARGET_ASTERISK;
		r->path = target;
		return str_eq(r->method, STR("OPTIONS")) ? true : BAD("target");
	}
	if (target.p[0] != '/') {
		ptrdiff_t sep = str_find(target, STR("://"));
		char *scheme;
		size_t i;

		if (sep <= 0 || sep > 5)
			return BAD(sep > 5 ? "scheme" : "target");
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
	if (r->path.n == 0) /* RFC 9112 3.2.4: of the whole server, which the last proxy asks by a star */
		r->path = r->form == HTTP_TARGET_ABSOLUTE && rest.n == 0 && str_eq(r->method, STR("OPTIONS")) ? STR("*") : STR("/");
	return true;
}

static bool parse_request_line(struct str line, const struct h1_limits *lim, struct arena *a, struct http_request *r, struct http_fault *fault)
{
	const char *sp1 = line.n ? memchr(line.p, ' ', line.n) : NULL, *sp2, *end = line.p + line.n;
	struct str method, target, version;

	if (sp1 == NULL || sp1 == line.p)
		return BAD("request_line");
	method = str_mk(line.p, (size_t)(sp1 - line.p));
	if (method.n > METHOD_MAX || !is_token(method))
		return BAD("method");
	r->method = method;
	/* methods are case-sensitive; none of the registered ones has a small letter, and some origins fold case (A37) */
	for (size_t i = 0; i < method.n; i++)
		if (method.p[i] >= 'a' && method.p[i] <= 'z')
			return BAD("method");
	sp2 = memchr(sp1 + 1, ' ', (size_t)(end - sp1 - 1));
	if (sp2 == NULL)
		return BAD("version");
	target = str_mk(sp1 + 1, (size_t)(sp2 - sp1 - 1));
	version = str_mk(sp2 + 1, (size_t)(end - sp2 - 1));
	if (target.n == 0)
		return BAD("request_line");
	if (target.n > lim->target_max)
		return bad(fault, 414, "too_large", "target");
	if (str_eq(version, STR("HTTP/1.1")))
		r->version = HTTP_V_1_1;
	else if (str_eq(version, STR("HTTP/1.0")))
		r->version = HTTP_V_1_0;
	else
		return BAD("version");
	return parse_target(r, target, a, fault);
}

/* RFC 6455 4.2.1: one key of 16 octets in base64, version 13. */
static bool websocket_fields(const struct http_fields *fs)
{
	unsigned keys = 0, versions = 0;

	for (unsigned i = 0; i < fs->n; i++) {
		struct str v = fs->f[i].value;

		if (str_ieq(fs->f[i].name, STR("sec-websocket-key"))) {
			keys++;
			if (!ws_key_ok(v))
				return false;
		} else if (str_ieq(fs->f[i].name, STR("sec-websocket-version"))) {
			versions++;
			if (!str_eq(v, STR("13")))
				return false;
		}
	}
	return keys == 1 && versions == 1;
}

static void request_reset(struct http_request *r)
{
	/* all but the array of fields, which is large and needs no clearing */
	memset(r, 0, offsetof(struct http_request, fields));
	r->fields.n = 0;
	memset((char *)r + offsetof(struct http_request, framing), 0, sizeof(*r) - offsetof(struct http_request, framing));
}

bool h1_parse_request(const uint8_t *buf, size_t n, const struct h1_limits *lim, struct arena *a, struct http_request *r, struct http_fault *fault)
{
	struct str line;
	struct seen s = { 0 };
	size_t at;

	request_reset(r);
	at = take_line(buf, n, 0, &line, fault);
	if (at == 0 || !parse_request_line(line, lim, a, r, fault) || !parse_fields(buf, n, at, lim, true, &r->fields, &s, fault))
		return false;
	/* RFC 9112 3.2; CONNECT names its host in the target, and widespread clients then leave Host out */
	if (s.host > 1)
		return BAD("two_hosts");
	if (s.host == 1 && s.v_host.n == 0)
		return BAD("host_empty");
	if (s.host == 0 && r->version == HTTP_V_1_1 && r->form != HTTP_TARGET_AUTHORITY)
		return BAD("no_host");
	if (s.host == 1)
		r->host_field = s.v_host;
	if (s.auth > 1)
		return BAD("two_authorizations");
	/* RFC 9112 6.3, the strictest legal choice everywhere (A01-A09) */
	if (s.te > 0 && s.length > 0)
		return BAD("cl_and_te");
	if (s.length > 1)
		return BAD("two_lengths");
	if (s.te > 0) {
		if (s.te > 1 || !str_ieq(s.v_te, STR("chunked")))
			return BAD("transfer_encoding");
		if (r->version == HTTP_V_1_0)
			return BAD("te_in_1_0");
		r->framing = HTTP_BODY_CHUNKED;
	} else if (s.length > 0) {
		if (!str_u64(s.v_length, INT64_MAX, &r->content_length))
			return BAD("content_length");
		r->framing = HTTP_BODY_LENGTH;
	}
	if (s.expect > 0) {
		bool content = r->framing == HTTP_BODY_CHUNKED || r->content_length > 0;

		/* RFC 9110 10.1.1: not in a request without content (A15); from a 1.0 client it is ignored */
		if (s.expect > 1 || !str_ieq(s.v_expect, STR("100-continue")) || (r->version == HTTP_V_1_1 && !content))
			return BAD("expect");
		r->expect_continue = r->version == HTTP_V_1_1;
	}
	r->te_trailers = s.te_trailers;
	r->keep_alive = r->version == HTTP_V_1_1 && !s.close; /* A36: no reuse after a 1.0 request, whatever it asks for */
	/* other upgrades are ignored, and their fields stripped (RFC 9110 7.8; I01, I02) */
	if (s.upgrade == 1 && s.conn_upgrade && r->version == HTTP_V_1_1 && str_ieq(s.v_upgrade, STR("websocket"))) {
		if (!str_eq(r->method, STR("GET")) || r->framing != HTTP_BODY_NONE || !websocket_fields(&r->fields))
			return BAD("websocket_handshake");
		r->upgrade_websocket = true;
	}
	return true;
}

#undef BAD
#define BAD(reason) bad(fault, 502, "upstream_protocol", reason)

static bool parse_status_line(struct str line, struct http_response *r, struct http_fault *fault)
{
	/* a line that ends behind the status, without the space before an empty reason phrase, is common and clear */
	if (line.n < 12 || memcmp(line.p, "HTTP/", 5) != 0)
		return BAD("status_line");
	if (memcmp(line.p + 5, "1.1 ", 4) == 0)
		r->version = HTTP_V_1_1;
	else if (memcmp(line.p + 5, "1.0 ", 4) == 0)
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
	return true;
}

bool h1_parse_response(const uint8_t *buf, size_t n, const struct h1_limits *lim, struct arena *a, struct str request_method, struct http_response *r, struct http_fault *fault)
{
	struct str line;
	struct seen s = { 0 };
	size_t at;

	(void)a;
	memset(r, 0, offsetof(struct http_response, fields));
	r->fields.n = 0;
	memset((char *)r + offsetof(struct http_response, framing), 0, sizeof(*r) - offsetof(struct http_response, framing));
	at = take_line(buf, n, 0, &line, fault);
	if (at == 0)
		return BAD(fault->reason);
	if (!parse_status_line(line, r, fault))
		return false;
	if (!parse_fields(buf, n, at, lim, false, &r->fields, &s, fault))
		return BAD(fault->reason);
	if (s.te > 0 && s.length > 0)
		return BAD("cl_and_te");
	if (s.length > 1)
		return BAD("two_lengths");
	if (s.te > 1 || (s.te == 1 && (!str_ieq(s.v_te, STR("chunked")) || r->version == HTTP_V_1_0)))
		return BAD("transfer_encoding");
	if (s.length == 1 && !str_u64(s.v_length, INT64_MAX, &r->content_length))
		return BAD("content_length");
	r->has_length = s.length == 1;
	/* RFC 9112 6.3, in its order */
	if (str_eq(request_method, STR("HEAD")) || r->status < 200 || r->status == 204 || r->status == 304)
		r->framing = HTTP_BODY_NONE;
	else if (str_eq(request_method, STR("CONNECT")) && r->status < 300)
		r->framing = HTTP_BODY_NONE;
	else if (s.te == 1)
		r->framing = HTTP_BODY_CHUNKED;
	else if (s.length == 1)
		r->framing = HTTP_BODY_LENGTH;
	else
		r->framing = HTTP_BODY_CLOSE;
	r->keep_alive = r->framing != HTTP_BODY_CLOSE && !s.close && (r->version == HTTP_V_1_1 || s.keep_alive);
	r->upgrade_websocket = r->status == 101 && r->version == HTTP_V_1_1 && s.te == 0 && s.upgrade == 1 && s.conn_upgrade && str_ieq(s.v_upgrade, STR("websocket"));
	return true;
}

bool h1_parse_trailer(const uint8_t *buf, size_t n, const struct h1_limits *lim, struct http_fields *out, struct http_fault *fault)
{
	struct seen s = { 0 };

	out->n = 0;
	if (!parse_fields(buf, n, 0, lim, false, out, &s, fault))
		return BAD(fault->reason);
	for (unsigned i = 0; i < out->n; i++) {
		struct http_field *f = &out->f[i];

		switch (f->fid) {
		case HF_OTHER:
		case HF_USER_AGENT:
		case HF_VIA:
			/* a trailer that sets state or tells how to read what is already read is no news that may come late */
			f->drop = f->drop || str_ieq(f->name, STR("set-cookie")) || str_ieq(f->name, STR("x-api-key")) || str_ieq(f->name, STR("www-authenticate")) || str_ieq(f->name, STR("location"));
			break;
		default:
			f->drop = true;
			break;
		}
	}
	return true;
}
