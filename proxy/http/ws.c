/* SPDX-License-Identifier: Apache-2.0 */
#include "ws.h"

#include "../../common/base/must.h"

/* --- handshake ------------------------------------------------------------------------------------------------------- */

static int base64_value(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool ws_key_ok(struct str key)
{
	if (key.n != WS_KEY_LEN || key.p[22] != '=' || key.p[23] != '=')
		return false;
	for (size_t i = 0; i < 22; i++)
		if (base64_value(key.p[i]) < 0)
			return false;
	return (base64_value(key.p[21]) & 15) == 0; /* bits behind the sixteenth octet */
}

void ws_accept_input(struct str key, char out[60])
{
	MUST(key.n == WS_KEY_LEN);
	memcpy(out, key.p, WS_KEY_LEN);
	memcpy(out + WS_KEY_LEN, "258EAFA5-E914-47DA-95CA-C5AB0DC85B11", 36); /* RFC 6455 1.3 */
}

/* The next element of a comma list; empty ones are passed over. False at its end. */
static bool next_name(struct str v, size_t *at, struct str *out)
{
	size_t i = *at, b, e;

	while (i < v.n && (v.p[i] == ',' || v.p[i] == ' ' || v.p[i] == '\t'))
		i++;
	for (b = i; i < v.n && v.p[i] != ','; i++)
		;
	for (e = i; e > b && (v.p[e - 1] == ' ' || v.p[e - 1] == '\t'); e--)
		;
	*at = i;
	*out = str_mk(v.p + b, e - b);
	return e > b;
}

/* A token of RFC 9110 5.6.2. */
static bool is_token(struct str s)
{
	static const char separators[] = "()<>@,;:\\\"/[]?={}";

	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] <= 0x20 || s.p[i] >= 0x7f || memchr(separators, s.p[i], sizeof(separators) - 1) != NULL)
			return false;
	return s.n > 0;
}

bool ws_request_fields(struct http_request *r, struct str key, struct http_fault *fault)
{
	struct http_fields *fs = &r->fields;

	*fault = (struct http_fault){ 400, "malformed_request", "websocket_handshake" };
	http_fields_drop_like(fs, STR("Sec-WebSocket-Key"));
	http_fields_drop_like(fs, STR("Sec-WebSocket-Accept"));
	http_fields_drop_like(fs, STR("Sec-WebSocket-Version"));
	http_fields_drop_like(fs, STR("Sec-WebSocket-Extensions"));
	for (unsigned i = 0; i < fs->n; i++) {
		struct http_field *f = &fs->f[i];
		struct str name;

		if (f->drop)
			continue;
		if (str_ieq(f->name, STR("Sec-WebSocket-Protocol"))) {
			for (size_t at = 0; next_name(f->value, &at, &name);)
				if (!is_token(name))
					return false;
		} else if (str_ieq(f->name, STR("Sec_WebSocket_Protocol"))) {
			f->drop = true; /* B09 */
		}
	}
	return http_fields_add(fs, STR("Sec-WebSocket-Version"), STR("13"), HF_OTHER) && http_fields_add(fs, STR("Sec-WebSocket-Key"), key, HF_OTHER);
}

static bool offered(struct http_fields *request, struct str subprotocol)
{
	struct str name;

	for (unsigned i = 0; i < request->n; i++) {
		if (request->f[i].drop || !str_ieq(request->f[i].name, STR("Sec-WebSocket-Protocol")))
			continue;
		for (size_t at = 0; next_name(request->f[i].value, &at, &name);)
			if (str_eq(name, subprotocol))
				return true;
	}
	return false;
}

bool ws_response_fields(struct http_response *r, struct http_fields *request, struct str accept, struct str *subprotocol, const char **reason)
{
	struct http_fields *fs = &r->fields;
	unsigned accepts = 0, protocols = 0;

	*subprotocol = STR_NONE;
	if (accept.p != NULL && !r->upgrade_websocket) {
		*reason = "ws_upgrade";
		return false;
	}
	for (unsigned i = 0; i < fs->n; i++) {
		struct http_field *f = &fs->f[i];

		if (f->drop)
			continue;
		if (str_ieq(f->name, STR("Sec-WebSocket-Accept"))) {
			accepts++;
			f->drop = true;
			if (accept.p != NULL && !str_eq(f->value, accept)) {
				*reason = "ws_accept";
				return false;
			}
		} else if (str_ieq(f->name, STR("Sec-WebSocket-Extensions"))) { /* RFC 6455 4.1: none was offered */
			*reason = "ws_extension";
			return false;
		} else if (str_ieq(f->name, STR("Sec-WebSocket-Protocol"))) {
			*reason = "ws_subprotocol";
			if (protocols++ > 0 || !offered(request, f->value))
				return false;
			*subprotocol = f->value;
		}
	}
	*reason = "ws_accept";
	return accept.p == NULL || accepts == 1;
}

/* --- frames ---------------------------------------------------------------------------------------------------------- */

void ws_mask(uint8_t *p, size_t n, const uint8_t key[4], size_t at)
{
	uint8_t k[8];
	uint64_t wide;
	size_t i = 0;

	for (unsigned j = 0; j < 8; j++)
		k[j] = key[(at + j) & 3];
	memcpy(&wide, k, 8);
	for (; n - i >= 8; i += 8) {
		uint64_t v;

		memcpy(&v, p + i, 8);
		v ^= wide;
		memcpy(p + i, &v, 8);
	}
	for (; i < n; i++)
		p[i] ^= k[i & 7];
}

size_t ws_header(uint8_t out[WS_HEADER_MAX], uint8_t opcode, bool fin, uint64_t length, const uint8_t *mask)
{
	unsigned octets = length > 0xffff ? 8 : length > 125 ? 2 : 0;
	size_t n = 2;

	out[0] = (uint8_t)((fin ? 0x80 : 0) | opcode);
	out[1] = (uint8_t)((mask != NULL ? 0x80 : 0) | (octets == 8 ? 127 : octets == 2 ? 126 : length));
	while (octets-- > 0)
		out[n++] = (uint8_t)(length >> 8 * octets);
	if (mask != NULL) {
		memcpy(out + n, mask, 4);
		n += 4;
	}
	return n;
}

/* RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF. A character may be spread over several calls. */
static bool utf8_feed(struct ws_utf8 *u, const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n;) {
		uint64_t wide;
		uint8_t c;

		if (u->more == 0 && n - i >= sizeof(wide)) {
			memcpy(&wide, p + i, sizeof(wide));
			if ((wide & 0x8080808080808080u) == 0) {
				i += sizeof(wide);
				continue;
			}
		}
		c = p[i++];
		if (u->more > 0) {
			if (c < u->low || c > u->high)
				return false;
			*u = (struct ws_utf8){ (uint8_t)(u->more - 1), 0x80, 0xbf };
		} else if (c >= 0x80) {
			if (c < 0xc2 || c > 0xf4)
				return false;
			u->more = c < 0xe0 ? 1 : c < 0xf0 ? 2
							  : 3;
			u->low = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90
							      : 0x80;
			u->high = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f
							       : 0xbf;
		}
	}
	return true;
}

bool ws_is_utf8(struct str s)
{
	struct ws_utf8 u = { 0 };

	return utf8_feed(&u, (const uint8_t *)s.p, s.n) && u.more == 0;
}

uint16_t ws_close_code(const uint8_t *p, size_t n) { return n < 2 ? WS_CLOSE_NONE : (uint16_t)(p[0] << 8 | p[1]); }

/* RFC 6455 7.4: what may stand in a Close frame. */
static bool close_ok(const uint8_t *p, size_t n)
{
	uint16_t code = ws_close_code(p, n);

	if (n == 0)
		return true;
	if (n == 1 || !((code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) || (code >= 3000 && code <= 4999)))
		return false;
	return ws_is_utf8(str_mk(p + 2, n - 2));
}

static long bad(struct ws_fault *fault, const char *reason, uint16_t code)
{
	*fault = (struct ws_fault){ reason, code };
	return -1;
}

#define BAD(reason) bad(fault, reason, WS_CLOSE_PROTOCOL)

/* Octets that the header has, as far as it is known. */
static size_t header_size(const struct ws_parser *w)
{
	uint8_t length = w->head_n < 2 ? 0 : w->head[1] & 0x7f;

	return (size_t)(2 + (length == 127 ? 8 : length == 126 ? 2 : 0) + (w->head_n >= 2 && (w->head[1] & 0x80) ? 4 : 0));
}

/* The first two octets are there: what can be told from them need not wait for more. */
static long first_octets(struct ws_parser *w, struct ws_fault *fault)
{
	uint8_t op = w->head[0] & 15, length = w->head[1] & 0x7f;
	bool fin = w->head[0] & 0x80;

	if (w->head[0] & 0x70)
		return BAD("ws_reserved_bits");
	if (op > WS_PONG || (op > WS_BINARY && op < WS_CLOSE))
		return BAD("ws_opcode");
	if (((w->head[1] & 0x80) != 0) != w->masked)
		return BAD("ws_mask");
	if (op >= WS_CLOSE)
		return !fin || length > WS_CONTROL_MAX ? BAD("ws_control") : 0;
	if ((op == WS_CONTINUATION) != w->in_message)
		return BAD("ws_fragmentation");
	return 0;
}

/* RFC 6455 8.1: at its last frame's end a text message stands within a character. */
static bool text_ends_badly(const struct ws_parser *w) { return w->text && w->fin && w->utf8.more > 0; }

/* The header is whole. */
static long begin(struct ws_parser *w, struct ws_piece *piece, struct ws_fault *fault)
{
	unsigned at = 2, octets = (w->head[1] & 0x7f) == 127 ? 8 : (w->head[1] & 0x7f) == 126 ? 2 : 0;
	uint8_t op = w->head[0] & 15;
	uint64_t length = octets ? 0 : w->head[1] & 0x7f;

	for (; at < 2 + octets; at++)
		length = length << 8 | w->head[at];
	if (length >> 63 || (octets == 2 && length < 126) || (octets == 8 && length <= 0xffff)) /* RFC 6455 5.2: the shortest form */
		return BAD("ws_length");
	memcpy(w->key, w->head + at, 4); /* when not masked: not looked at */
	w->key_at = 0;
	w->head_n = 0;
	w->opcode = op;
	w->left = length;
	w->fin = true;
	w->control_n = 0;
	if (op < WS_CLOSE) {
		w->fin = w->head[0] & 0x80;
		if (length > UINT64_MAX / 2 - w->message || (w->message_max != 0 && w->message + length > w->message_max))
			return bad(fault, "ws_message_size", WS_CLOSE_TOO_BIG);
		w->message += length;
		w->in_message = !w->fin;
		if (w->fin)
			w->message = 0;
		if (op != WS_CONTINUATION)
			w->text = op == WS_TEXT;
		if (length == 0 && text_ends_badly(w))
			return bad(fault, "ws_utf8", WS_CLOSE_DATA);
		*piece = (struct ws_piece){ .kind = WS_FRAME, .opcode = op, .fin = w->fin, .length = length };
	} else if (length == 0) {
		w->closed = op == WS_CLOSE;
		*piece = (struct ws_piece){ .kind = WS_CONTROL, .opcode = op, .p = w->control };
	}
	w->in_frame = length > 0;
	return 0;
}

static long control(struct ws_parser *w, const uint8_t *in, size_t n, struct ws_piece *piece, struct ws_fault *fault)
{
	memcpy(w->control + w->control_n, in, n);
	w->control_n += (uint8_t)n;
	if (w->left > 0)
		return 0;
	w->in_frame = false;
	if (w->masked)
		ws_mask(w->control, w->control_n, w->key, 0);
	if (w->opcode == WS_CLOSE) {
		if (!close_ok(w->control, w->control_n))
			return w->control_n > 2 && close_ok(w->control, 2) ? bad(fault, "ws_close", WS_CLOSE_DATA) : BAD("ws_close");
		w->closed = true;
	}
	*piece = (struct ws_piece){ .kind = WS_CONTROL, .opcode = w->opcode, .p = w->control, .n = w->control_n };
	return 0;
}

long ws_feed(struct ws_parser *w, uint8_t *in, size_t n, struct ws_piece *piece, struct ws_fault *fault)
{
	size_t k = 0, want;

	*piece = (struct ws_piece){ .kind = WS_NOTHING };
	if (w->closed)
		return (long)n;
	if (!w->in_frame) {
		while (k < n && w->head_n < (want = header_size(w))) {
			w->head[w->head_n++] = in[k++];
			if (w->head_n == 2 && first_octets(w, fault) < 0)
				return -1;
		}
		if (w->head_n >= 2 && w->head_n == header_size(w) && begin(w, piece, fault) < 0)
			return -1;
		return (long)k;
	}
	k = n < w->left ? n : (size_t)w->left;
	w->left -= k;
	if (w->opcode >= WS_CLOSE)
		return control(w, in, k, piece, fault) < 0 ? -1 : (long)k;
	if (w->masked)
		ws_mask(in, k, w->key, w->key_at);
	w->key_at = (w->key_at + k) & 3;
	w->in_frame = w->left > 0;
	if (w->text && (!utf8_feed(&w->utf8, in, k) || (w->left == 0 && text_ends_badly(w))))
		return bad(fault, "ws_utf8", WS_CLOSE_DATA);
	*piece = (struct ws_piece){ .kind = WS_DATA, .opcode = w->opcode, .fin = w->fin, .p = in, .n = k, .end = w->left == 0 };
	return (long)k;
}
