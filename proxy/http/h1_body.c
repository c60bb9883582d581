/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Content framing of HTTP/1.1 (RFC 9112 6, 7): strict, one run of content per call. State advances octet by octet, so that
 * every split of the stream gives the same content and the same fault.
 */
#include "h1.h"

#define CHUNK_DIGITS_MAX 16
#define CHUNK_EXT_MAX 1024   /* octets of extensions on one size line */
#define CHUNK_EXTS_MAX 65536 /* and in the whole content: they cost work and carry nothing */
#define TRAILER_MAX 16384    /* octets of a trailer section */
#define GATHER_MAX 16384     /* octets of small chunks that come as one run */
#define TRAILERS_MAX 100     /* fields in it */

enum { ST_SIZE_FIRST = 0, ST_SIZE, ST_EXT, ST_SIZE_LF, ST_DATA, ST_DATA_CR, ST_DATA_LF, ST_TRAILER_START, ST_TRAILER, ST_TRAILER_LF, ST_END_LF };

void h1_body_init(struct h1_body *b, enum http_framing framing, uint64_t length)
{
	*b = (struct h1_body){ .framing = framing };
	if (framing == HTTP_BODY_LENGTH)
		b->left = length;
	b->done = framing == HTTP_BODY_NONE || (framing == HTTP_BODY_LENGTH && length == 0);
}

bool h1_body_eof(const struct h1_body *b) { return b->done || b->framing == HTTP_BODY_CLOSE; }

static long bad(const struct h1_body *b, struct http_fault *f, uint16_t status, const char *reason)
{
	if (b->response)
		*f = (struct http_fault){ 502, "upstream_protocol", reason };
	else
		*f = (struct http_fault){ status, status == 400 ? "malformed_request" : "too_large", reason };
	return -1;
}

/* Extensions are dropped; what may stand in them is visible ASCII, SP, HTAB and obs-text, no quoted controls (A17-A19). */
static bool ext_octet(uint8_t c) { return c == '\t' || (c >= 0x20 && c != 0x7f); }

static bool tchar(uint8_t c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

/* Fields that may never come in a trailer section (RFC 9110 6.5.1): framing, routing, authentication (A22). */
static const char *const forbidden[] = {
	"content-length", "transfer-encoding", "host", "authorization", "proxy-authorization", "x-api-key", "cookie", "connection", "te", "trailer",
};
#define FORBIDDEN_N (sizeof(forbidden) / sizeof(forbidden[0]))

/*
 * The next octet of a trailer field's name, or the colon behind it. A bit of name_mask stays while the name is that
 * forbidden one so far; false at the colon if it is one.
 */
static bool trailer_name(struct h1_body *b, uint8_t c)
{
	uint32_t fits = 0;

	for (unsigned i = 0; i < FORBIDDEN_N; i++) {
		char want;

		if (!(b->name_mask & 1u << i))
			continue;
		want = forbidden[i][b->name_at]; /* no further than its NUL: a name that is longer fits no more */
		if (c == ':' ? want == 0 : want != 0 && want == (c == '_' ? '-' : ascii_lower((char)c)))
			fits |= 1u << i;
	}
	b->name_mask = fits;
	b->name_at++;
	return c != ':' || fits == 0;
}

/*
 * What stands at p, behind a chunk's data, if it is the frame of a small chunk that is there as a whole and has no extension: its
 * length; 0: something else, for which the states are. *size: octets of data behind it.
 */
static size_t small_chunk(const uint8_t *p, size_t n, size_t *size)
{
	size_t at = 2;
	int h;

	*size = 0;
	if (n < 5 || p[0] != '\r' || p[1] != '\n')
		return 0;
	for (; at < 5 && at < n && (h = hex_value((char)p[at])) >= 0; at++)
		*size = *size << 4 | (size_t)h;
	return at > 2 && at + 2 <= n && p[at] == '\r' && p[at + 1] == '\n' && *size > 0 && *size <= n - at - 2 ? at + 2 : 0;
}

static long chunked(struct h1_body *b, const uint8_t *in, size_t n, const uint8_t **data, size_t *data_len, struct http_fault *f)
{
	size_t i = 0, size;

	while (i < n) {
		uint8_t c = in[i];
		int h;

		switch (b->state) {
		case ST_SIZE_FIRST:
			h = hex_value((char)c);
			if (h < 0)
				return bad(b, f, 400, "chunk_size");
			b->left = (uint64_t)h;
			b->meta = 1;
			b->state = ST_SIZE;
			i++;
			break;
		case ST_SIZE:
			h = hex_value((char)c);
			if (h >= 0) {
				if (++b->meta > CHUNK_DIGITS_MAX || b->left >> 59)
					return bad(b, f, 400, "chunk_size");
				b->left = b->left << 4 | (uint64_t)h;
			} else if (c == ';') {
				b->meta = 0;
				b->state = ST_EXT;
			} else if (c == '\r') {
				b->state = ST_SIZE_LF;
			} else {
				return bad(b, f, 400, "chunk_size");
			}
			i++;
			break;
		case ST_EXT:
			if (c == '\r' && b->meta > 0)
				b->state = ST_SIZE_LF;
			else if (!ext_octet(c))
				return bad(b, f, 400, "chunk_extension");
			else if (++b->meta > CHUNK_EXT_MAX || ++b->ext > CHUNK_EXTS_MAX)
				return bad(b, f, 413, "chunk_extension_length");
			i++;
			break;
		case ST_SIZE_LF:
			if (c != '\n')
				return bad(b, f, 400, "chunk_line_end");
			b->meta = 0;
			b->state = b->left > 0 ? ST_DATA : ST_TRAILER_START;
			i++;
			break;
		case ST_DATA: {
			size_t k = n - i < b->left ? n - i : (size_t)b->left;

			*data = in + i;
			*data_len = k;
			b->left -= k;
			b->total += k;
			i += k;
			if (b->left > 0)
				return (long)i;
			b->state = ST_DATA_CR;
			while (b->gather && *data_len < GATHER_MAX && (k = small_chunk(in + i, n - i, &size)) > 0) {
				memmove((uint8_t *)(uintptr_t)*data + *data_len, in + i + k, size);
				*data_len += size;
				b->total += size;
				i += k + size;
			}
			return (long)i;
		}
		case ST_DATA_CR:
			if (c != '\r')
				return bad(b, f, 400, "chunk_data_end");
			b->state = ST_DATA_LF;
			i++;
			break;
		case ST_DATA_LF:
			if (c != '\n')
				return bad(b, f, 400, "chunk_data_end");
			b->state = ST_SIZE_FIRST;
			i++;
			break;
		case ST_TRAILER_START:
			if (c == '\r') {
				if (b->trailer != NULL && b->trailers > 0)
					buf_addz(b->trailer, "\r\n"); /* the section as h1_parse_trailer takes it */
				b->state = ST_END_LF;
				i++;
				break;
			}
			if (++b->trailers > TRAILERS_MAX)
				return bad(b, f, 431, "trailer_fields");
			b->name_mask = (1u << FORBIDDEN_N) - 1;
			b->name_at = 0;
			b->in_value = false;
			b->state = ST_TRAILER;
			break; /* the octet is looked at again */
		case ST_TRAILER:
			if (++b->meta > TRAILER_MAX)
				return bad(b, f, 431, "trailer_length");
			if (b->trailer != NULL)
				buf_addc(b->trailer, (char)c);
			if (!b->in_value) {
				if (c == ':' ? b->name_at == 0 : !tchar(c))
					return bad(b, f, 400, "trailer_field");
				if (!trailer_name(b, c) && !b->response)
					return bad(b, f, 400, "trailer_field");
				b->in_value = c == ':';
			} else if (c == '\r') {
				b->state = ST_TRAILER_LF;
			} else if (!ext_octet(c)) {
				return bad(b, f, 400, "trailer_field");
			}
			i++;
			break;
		case ST_TRAILER_LF:
			if (c != '\n')
				return bad(b, f, 400, "trailer_field");
			if (b->trailer != NULL)
				buf_addc(b->trailer, '\n');
			b->state = ST_TRAILER_START;
			i++;
			break;
		case ST_END_LF:
			if (c != '\n')
				return bad(b, f, 400, "chunk_end");
			b->done = true;
			return (long)(i + 1);
		default:
			return bad(b, f, 400, "state");
		}
	}
	return (long)i;
}

long h1_body_feed(struct h1_body *b, const uint8_t *in, size_t n, const uint8_t **data, size_t *data_len, struct http_fault *f)
{
	*data = NULL;
	*data_len = 0;
	if (b->done || n == 0)
		return 0;
	switch (b->framing) {
	case HTTP_BODY_LENGTH:
		if (n > b->left)
			n = (size_t)b->left;
		b->left -= n;
		b->done = b->left == 0;
		break;
	case HTTP_BODY_CLOSE:
		break;
	case HTTP_BODY_CHUNKED:
		return chunked(b, in, n, data, data_len, f);
	default:
		return 0;
	}
	*data = in;
	*data_len = n;
	b->total += n;
	return (long)n;
}
