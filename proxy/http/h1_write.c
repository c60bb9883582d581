/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1.1 heads, written anew from what was parsed (RFC 9112). Nothing here copies unparsed octets. */
#include "h1.h"

static void write_fields(struct buf *out, const struct http_fields *fs, bool request)
{
	for (unsigned i = 0; i < fs->n; i++) {
		const struct http_field *f = &fs->f[i];
		uint8_t *p;

		if (f->drop || f->fid == HF_CONTENT_LENGTH || f->fid == HF_TRANSFER_ENCODING || f->fid == HF_CONNECTION || (request && f->fid == HF_HOST))
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

static void write_upgrade(struct buf *out) { buf_addz(out, "Connection: Upgrade\r\nUpgrade: websocket\r\n"); }

void h1_write_request(struct buf *out, const struct http_request *r, struct str host, struct str target, enum http_framing framing, uint64_t length)
{
	buf_adds(out, r->method);
	buf_addc(out, ' ');
	buf_adds(out, target);
	buf_addz(out, " HTTP/1.1\r\nHost: ");
	buf_adds(out, host);
	buf_addz(out, "\r\n");
	if (r->upgrade_websocket)
		write_upgrade(out);
	write_fields(out, &r->fields, true);
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
	write_fields(out, &r->fields, false);
	if (r->status == 101) /* a WebSocket's: others are never written */
		write_upgrade(out);
	else if (!keep_alive)
		buf_addz(out, "Connection: close\r\n");
	if (is_head || r->status == 304) {
		/* what a GET would have had, as the origin said it */
		if (r->has_length)
			write_framing(out, HTTP_BODY_LENGTH, r->content_length);
	} else if (r->status >= 200 && r->status != 204) { /* K13 */
		write_framing(out, framing, length);
	}
	buf_addz(out, "\r\n");
}

void h1_write_last_chunk(struct buf *out, const struct http_fields *trailer)
{
	buf_addz(out, "0\r\n");
	if (trailer != NULL)
		write_fields(out, trailer, false);
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
