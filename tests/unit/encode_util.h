/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_ENCODE_UTIL_H
#define SP_ENCODE_UTIL_H
/* What origins do: content codings put on. Appends to out. */
#include <brotli/encode.h>
#include <zlib.h>
#include <zstd.h>

#include "common/base/buf.h"
#include "common/base/must.h"
#include "proxy/filter/decode.h"

static inline void encode_z(struct str s, int bits, int flush, struct buf *out)
{
	z_stream z = { 0 };
	size_t room = s.n + s.n / 100 + 200;

	MUST(deflateInit2(&z, 9, Z_DEFLATED, bits, 8, Z_DEFAULT_STRATEGY) == Z_OK);
	z.next_in = (uint8_t *)(uintptr_t)s.p;
	z.avail_in = (unsigned)s.n;
	z.next_out = buf_room(out, room);
	z.avail_out = (unsigned)room;
	MUST(deflate(&z, flush) == (flush == Z_FINISH ? Z_STREAM_END : Z_OK));
	buf_commit(out, room - z.avail_out);
	deflateEnd(&z);
}

static inline void encode_brotli(struct str s, BrotliEncoderOperation op, struct buf *out)
{
	BrotliEncoderState *e = BrotliEncoderCreateInstance(NULL, NULL, NULL);
	size_t n = s.n, room = s.n + 1000, left = room;
	const uint8_t *in = (const uint8_t *)s.p;
	uint8_t *to = buf_room(out, room);

	MUST(BrotliEncoderSetParameter(e, BROTLI_PARAM_QUALITY, 5));
	MUST(BrotliEncoderCompressStream(e, op, &n, &in, &left, &to, NULL) && n == 0 && !BrotliEncoderHasMoreOutput(e));
	buf_commit(out, room - left);
	BrotliEncoderDestroyInstance(e);
}

static inline void encode_zstd(struct str s, ZSTD_EndDirective op, struct buf *out)
{
	ZSTD_CCtx *c = ZSTD_createCCtx();
	ZSTD_inBuffer i = { s.p, s.n, 0 };
	ZSTD_outBuffer o = { NULL, ZSTD_compressBound(s.n) + 100, 0 };

	o.dst = buf_room(out, o.size);
	MUST(ZSTD_compressStream2(c, &o, &i, op) == 0);
	buf_commit(out, o.pos);
	ZSTD_freeCCtx(c);
}

static inline void encode_as(enum coding c, struct str s, bool end, struct buf *out)
{
	if (c == CODING_GZIP || c == CODING_DEFLATE)
		encode_z(s, c == CODING_GZIP ? 31 : 15, end ? Z_FINISH : Z_SYNC_FLUSH, out);
	else if (c == CODING_BR)
		encode_brotli(s, end ? BROTLI_OPERATION_FINISH : BROTLI_OPERATION_FLUSH, out);
	else
		encode_zstd(s, end ? ZSTD_e_end : ZSTD_e_flush, out);
}
static inline void encode(enum coding c, struct str s, struct buf *out) { encode_as(c, s, true, out); }
static inline void encode_flushed(enum coding c, struct str s, struct buf *out) { encode_as(c, s, false, out); }
static inline void encode_raw_deflate(struct str s, struct buf *out) { encode_z(s, -15, Z_FINISH, out); }

/* A frame whose header asks for a window of 2^log octets. */
static inline void encode_zstd_window(unsigned log, struct buf *out)
{
	const uint8_t head[] = { 0x28, 0xb5, 0x2f, 0xfd, 0x00, (uint8_t)((log - 10) << 3) };
	const uint8_t block[] = { 0x03 | 0x08 << 0, 0x00, 0x00 };

	buf_add(out, head, sizeof(head));
	buf_add(out, block, sizeof(block));
}
#endif
