/* SPDX-License-Identifier: Apache-2.0 */
#include "decode.h"

#include <stdlib.h>
#include <string.h>

#include <brotli/decode.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "../../common/base/must.h"

#define ZSTD_WINDOW_LOG 23 /* RFC 9659 3 */
#define ZSTD_MEMORY ((size_t)1 << ZSTD_WINDOW_LOG)

const struct decode_limits decode_limits_default = { (uint64_t)8 << 30, (uint64_t)16 << 20, 256 };

struct decode {
	enum coding coding;
	const struct decode_limits *lim;
	uint64_t in, out;
	size_t memory;
	bool started, whole;
	uint8_t head[2]; /* of deflate: they tell which kind it is */
	size_t head_n;
	z_stream z;
	BrotliDecoderState *br;
	ZSTD_DCtx *zstd;
};

/* Memory of zlib and brotli is counted, and wiped before it goes back: what they decode has values in it. */
struct block {
	_Alignas(16) size_t n;
};

static void *take(void *arg, size_t n)
{
	struct decode *d = arg;
	struct block *b = must_malloc(sizeof(*b) + n);

	b->n = n;
	d->memory += n;
	return b + 1;
}

static void give(void *arg, void *p)
{
	struct decode *d = arg;
	struct block *b;

	if (p == NULL)
		return;
	b = (struct block *)p - 1;
	d->memory -= b->n;
	explicit_bzero(p, b->n);
	free(b);
}

static void *take_z(void *arg, unsigned items, unsigned size)
{
	/* its state is zeroed by itself only in part */
	void *p = take(arg, (size_t)items * size);

	memset(p, 0, (size_t)items * size);
	return p;
}

struct decode *decode_new(enum coding c, const struct decode_limits *lim)
{
	struct decode *d = must_calloc(1, sizeof(*d));

	d->coding = c;
	d->lim = lim;
	switch (c) {
	case CODING_GZIP:
	case CODING_DEFLATE:
		d->z.zalloc = take_z;
		d->z.zfree = give;
		d->z.opaque = d;
		if (c == CODING_GZIP)
			MUST(inflateInit2(&d->z, 16 + MAX_WBITS) == Z_OK);
		d->started = c == CODING_GZIP;
		break;
	case CODING_BR:
		d->br = BrotliDecoderCreateInstance(take, give, d);
		MUST(d->br != NULL);
		break;
	case CODING_ZSTD:
		d->zstd = ZSTD_createDCtx();
		MUST(d->zstd != NULL && !ZSTD_isError(ZSTD_DCtx_setParameter(d->zstd, ZSTD_d_windowLogMax, ZSTD_WINDOW_LOG)));
		d->memory = ZSTD_MEMORY;
		break;
	default:
		MUST(false);
	}
	return d;
}

void decode_free(struct decode *d)
{
	if (d == NULL)
		return;
	if (d->started && (d->coding == CODING_GZIP || d->coding == CODING_DEFLATE))
		inflateEnd(&d->z);
	if (d->br != NULL)
		BrotliDecoderDestroyInstance(d->br);
	ZSTD_freeDCtx(d->zstd);
	free(d);
}

size_t decode_memory(const struct decode *d) { return d->memory; }
bool decode_whole(const struct decode *d) { return d->whole || d->in == 0; }

static bool inflate_some(struct decode *d, const uint8_t **in, size_t *n, uint8_t *out, size_t room, size_t *got, const char **fault)
{
	int rc;

	if (d->whole && *n > 0) { /* behind the end: another member of gzip (RFC 1952 2.2), or padding */
		if (d->coding == CODING_GZIP && **in == 0x1f) {
			MUST(inflateReset(&d->z) == Z_OK);
			d->whole = false;
		} else if (**in == 0) {
			(*in)++;
			(*n)--;
			return true;
		} else {
			*fault = "there is something behind the end of the compressed content";
			return false;
		}
	}
	d->z.next_in = (uint8_t *)(uintptr_t)*in;
	d->z.avail_in = (unsigned)*n;
	d->z.next_out = out;
	d->z.avail_out = (unsigned)room;
	rc = inflate(&d->z, Z_SYNC_FLUSH);
	*got = room - d->z.avail_out;
	*in += *n - d->z.avail_in;
	*n = d->z.avail_in;
	if (rc == Z_STREAM_END)
		d->whole = true;
	else if (rc != Z_OK && rc != Z_BUF_ERROR) {
		*fault = "the compressed content is damaged";
		return false;
	}
	return true;
}

/* A header of RFC 1950, or none (RFC 1951). */
static void deflate_kind(struct decode *d)
{
	bool zlib = (d->head[0] & 15) == 8 && (d->head[0] * 256u + d->head[1]) % 31 == 0;

	MUST(inflateInit2(&d->z, zlib ? MAX_WBITS : -MAX_WBITS) == Z_OK);
	d->started = true;
}

static bool deflate_some(struct decode *d, const uint8_t **in, size_t *n, uint8_t *out, size_t room, size_t *got, const char **fault)
{
	if (!d->started) {
		while (d->head_n < 2 && *n > 0) {
			d->head[d->head_n++] = *(*in)++;
			(*n)--;
		}
		if (d->head_n < 2)
			return true;
		deflate_kind(d);
	}
	if (d->head_n > 0) {
		const uint8_t *p = d->head + 2 - d->head_n;
		size_t left = d->head_n;
		bool good = inflate_some(d, &p, &left, out, room, got, fault);

		d->head_n = left;
		return good;
	}
	return inflate_some(d, in, n, out, room, got, fault);
}

static bool brotli_some(struct decode *d, const uint8_t **in, size_t *n, uint8_t *out, size_t room, size_t *got, const char **fault)
{
	size_t left = room;

	if (d->whole) {
		if (*n > 0)
			*fault = "there is something behind the end of the compressed content";
		return *n == 0;
	}
	switch (BrotliDecoderDecompressStream(d->br, n, in, &left, &out, NULL)) {
	case BROTLI_DECODER_RESULT_ERROR:
		*fault = "the compressed content is damaged";
		return false;
	case BROTLI_DECODER_RESULT_SUCCESS:
		d->whole = true;
		break;
	default:
		break;
	}
	*got = room - left;
	return true;
}

static bool zstd_some(struct decode *d, const uint8_t **in, size_t *n, uint8_t *out, size_t room, size_t *got, const char **fault)
{
	ZSTD_inBuffer i = { *in, *n, 0 };
	ZSTD_outBuffer o = { out, room, 0 };
	size_t rc;

	if (*n == 0 && d->whole)
		return true;
	rc = ZSTD_decompressStream(d->zstd, &o, &i);
	*in += i.pos;
	*n -= i.pos;
	*got = o.pos;
	if (ZSTD_isError(rc)) {
		*fault = ZSTD_getErrorCode(rc) == ZSTD_error_frameParameter_windowTooLarge ? "the compressed content needs a window of more than 8 MiB" : "the compressed content is damaged";
		return false;
	}
	d->whole = rc == 0;
	return true;
}

bool decode_feed(struct decode *d, const uint8_t **in, size_t *n, uint8_t *out, size_t room, size_t *got, const char **fault)
{
	size_t had = *n;
	bool good;

	*got = 0;
	switch (d->coding) {
	case CODING_GZIP:
		good = inflate_some(d, in, n, out, room, got, fault);
		break;
	case CODING_DEFLATE:
		good = deflate_some(d, in, n, out, room, got, fault);
		break;
	case CODING_BR:
		good = brotli_some(d, in, n, out, room, got, fault);
		break;
	default:
		good = zstd_some(d, in, n, out, room, got, fault);
		break;
	}
	d->in += had - *n;
	d->out += *got;
	if (!good)
		return false;
	if (had > 0 && *n == had && *got == 0) {
		*fault = "the compressed content is damaged";
		return false;
	}
	if (d->out > d->lim->total) {
		*fault = "the decompressed content has more octets than are let through";
		return false;
	}
	if (d->out > d->lim->free && d->out / d->lim->ratio > d->in) {
		*fault = "the compressed content expands too much";
		return false;
	}
	return true;
}
