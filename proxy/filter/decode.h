/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_FILTER_DECODE_H
#define SP_FILTER_DECODE_H
/*
 * Content codings (RFC 9110 8.4.1), taken off a stream: gzip, deflate (RFC 1950, and bare RFC 1951 as some origins send
 * it), br (RFC 7932), zstd (RFC 8878). What can be given is given after each piece, so that events are not delayed.
 *
 * Bounded: windows (32 KiB; br 16 MiB, as its format has it; zstd 8 MiB, RFC 9659), the whole content, and how much more
 * comes out than went in.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum coding { CODING_NONE = 0, CODING_GZIP, CODING_DEFLATE, CODING_BR, CODING_ZSTD, CODING_UNKNOWN };

struct decode_limits {
	uint64_t total;      /* octets that come out */
	uint64_t free;       /* so many before the ratio counts */
	unsigned ratio;      /* octets out for one octet in */
};
extern const struct decode_limits decode_limits_default;

struct decode;
/* Never NULL. lim is borrowed. */
struct decode *decode_new(enum coding c, const struct decode_limits *lim);
void decode_free(struct decode *d); /* wipes what it held; NULL is fine */
/*
 * Takes octets from in[0..*n), moving both on, and writes at most room (> 0) to out; *got says how many. Call again until
 * it gave less than room and has taken everything. False: *fault says why; nothing more can come.
 */
bool decode_feed(struct decode *d, const uint8_t **in, size_t *n, uint8_t *out, size_t room, size_t *got, const char **fault);
/* At the end of the content: it was whole. */
bool decode_whole(const struct decode *d);
size_t decode_memory(const struct decode *d); /* octets it has allocated now */
#endif
