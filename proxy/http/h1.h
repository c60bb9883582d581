/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_HTTP_H1_H
#define SP_HTTP_H1_H
/*
 * HTTP/1.1 (RFC 9112), free of I/O: bytes in, events out. Strict: what has no one clear reading is refused, framing is
 * never repaired, unparsed bytes are never relayed; everything is written anew from the parsed head.
 */
#include "head.h"

struct h1_limits { /* named in docs; bytes */
	uint32_t head_max;   /* whole head: 65536 */
	uint32_t line_max;   /* one field line: 16384 */
	uint32_t target_max; /* request target: 16384 -> 414 */
	uint32_t fields_max; /* <= HTTP_FIELDS_MAX -> 431 */
};
extern const struct h1_limits h1_limits_default;

/*
 * Looks for the end of a head at the start of buf. *scan is where to go on looking after more bytes arrived (start with
 * 0). Returns the length of the head including the empty line, 0 if more bytes are needed, -1 with *fault (too large;
 * also early faults: bare LF or CR, NUL, which need not wait). Leading CRLF: the caller strips at most one with h1_skip_crlf.
 */
long h1_head_end(const uint8_t *buf, size_t n, size_t *scan, const struct h1_limits *lim, struct http_fault *fault);
/* 2 if buf starts with CRLF, 0 otherwise, -1 = need more (single CR). */
int h1_skip_crlf(const uint8_t *buf, size_t n);
/* buf[0..n) is one whole head as h1_head_end measured it. False: *fault. Strings borrow from buf or arena a. */
bool h1_parse_request(const uint8_t *buf, size_t n, const struct h1_limits *lim, struct arena *a, struct http_request *out, struct http_fault *fault);
/* request_method decides about content (HEAD, CONNECT). 1xx heads are parsed too (framing none). fault code upstream_protocol, 502. */
bool h1_parse_response(const uint8_t *buf, size_t n, const struct h1_limits *lim, struct arena *a, struct str request_method, struct http_response *out, struct http_fault *fault);

/* A response's trailer section, as the content decoder collected it. Fields that may not stand there are dropped (RFC 9110 6.5.1). */
bool h1_parse_trailer(const uint8_t *buf, size_t n, const struct h1_limits *lim, struct http_fields *out, struct http_fault *fault);

/* Content decoder. The members above the line are the caller's to set or read. */
struct h1_body {
	enum http_framing framing;
	bool done;       /* whole content (and trailer section) read */
	bool response;   /* set after h1_body_init: faults are the upstream's (502), forbidden trailer fields are dropped, not refused */
	bool gather;     /* set after h1_body_init: `in` is memory that may be written, and small chunks that stand in it one after the other come as one run */
	struct buf *trailer; /* set after h1_body_init, or NULL: where the trailer section goes, for h1_parse_trailer; empty if there is none */
	uint64_t total;  /* content octets delivered */
	/* --- */
	uint8_t state;
	bool in_value;   /* of a trailer field */
	uint64_t left;   /* octets left of the length or chunk */
	uint32_t meta;   /* octets of the size line or trailer section so far, limited */
	uint32_t ext;    /* octets of chunk extensions in the whole content, limited */
	uint32_t trailers;
	uint32_t name_mask, name_at; /* trailer field name: which forbidden ones still fit */
};
void h1_body_init(struct h1_body *b, enum http_framing framing, uint64_t content_length);
/*
 * Takes bytes from in[0..n). Returns how many were consumed, -1 on a framing error (*fault). At most one run of content
 * is delivered per call: *data and *data_len point into `in` (len 0: none). Call again while it consumes. Sets b->done at the
 * end; bytes after it are not consumed. Trailer fields are validated; they go to b->trailer, or are dropped.
 */
long h1_body_feed(struct h1_body *b, const uint8_t *in, size_t n, const uint8_t **data, size_t *data_len, struct http_fault *fault);
/* Peer closed. True if that is a clean end of the content (close-delimited, or done). */
bool h1_body_eof(const struct h1_body *b);

/* Writers: append to out. Dropped fields are left out; framing fields come from the arguments, never from fields. */
void h1_write_request(struct buf *out, const struct http_request *r, struct str host, struct str target, enum http_framing framing, uint64_t content_length);
void h1_write_response(struct buf *out, const struct http_response *r, enum http_framing framing, uint64_t content_length, bool keep_alive, bool is_head);
/* Chunk size line into the caller's 20 byte array; returns its length. The chunk's data and CRLF follow. */
size_t h1_chunk_line(char out[20], uint64_t n);
/* The last chunk and the trailer section; NULL: no fields. */
void h1_write_last_chunk(struct buf *out, const struct http_fields *trailer);
#endif
