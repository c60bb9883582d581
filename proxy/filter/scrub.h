/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_FILTER_SCRUB_H
#define SP_FILTER_SCRUB_H
/*
 * Overwrites secret values in a byte stream by filler of the same length, across every split, also where they overlap.
 *
 * A value is found as it is, as base64 and base64url in each of the three alignments (the characters that it determines
 * alone), and as hexadecimal digits in either case; and each octet of any of these may be written as itself, as %HH, or as
 * an escape of JSON, in any mixture. Values under SCRUB_VALUE_MIN octets have no encoded forms: they would be everywhere.
 *
 * Filler is '*', in base64 'A', in hexadecimal '0', so that what was base64, hexadecimal or a JSON string stays one.
 * Holds back no more than the longest suffix that begins one of these.
 */
#include "../../common/base/buf.h"

#define SCRUB_VALUE_MIN 8

struct scrub_set;  /* the values of one sandbox; immutable once built; values are copied and wiped on free */
struct scrub_set *scrub_set_new(const struct str *values, size_t n);
void scrub_set_free(struct scrub_set *s);

struct scrub {
	const struct scrub_set *set; /* borrowed; another one, with more values, may take its place between two pieces */
	struct buf held;             /* the longest suffix so far that begins a form, as it came */
	size_t sent;                 /* of it, released already (as filler) */
	uint8_t before;              /* the octet that came before it */
	uint64_t hits;               /* stretches overwritten */
};
void scrub_init(struct scrub *s, const struct scrub_set *set);
void scrub_fini(struct scrub *s);
/* Appends to out what can be released of (held + in). in is not in out's memory. */
void scrub_feed(struct scrub *s, const uint8_t *in, size_t n, struct buf *out);
/* While nothing is held: as scrub_feed in p itself. Returns how many octets of p may go now; those behind them must not. */
size_t scrub_feed_inplace(struct scrub *s, uint8_t *p, size_t n);
static inline bool scrub_holds(const struct scrub *s) { return buf_len(&s->held) > 0; }
/* End of stream: releases what is held; s is as after scrub_fini (hits stay). */
void scrub_end(struct scrub *s, struct buf *out);
/* Whole value at once, in place (header values). Returns the number of overwritten matches. */
size_t scrub_inplace(const struct scrub_set *set, char *p, size_t n);
#endif
