/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_FILTER_PLACEHOLDER_H
#define SP_FILTER_PLACEHOLDER_H
/*
 * Placeholders in what a sandbox sends: found in all their forms (the tripwire), filled where they stand exactly. Pure
 * functions over octets; one automaton of one sandbox serves both, streams keep a few octets of state.
 */
#include "../../common/placeholder.h"

struct placeholders; /* immutable */
/* Copies. Those that are not ok, and what is more than PLACEHOLDERS_MAX, are left out. */
struct placeholders *placeholders_new(const struct placeholder *p, size_t n);
void placeholders_free(struct placeholders *s); /* NULL too */
size_t placeholders_count(const struct placeholders *s); /* NULL: 0 */
const struct placeholder *placeholders_at(const struct placeholders *s, size_t i);

/* --- finding ------------------------------------------------------------------------------------------------------- */

struct placeholder_hit {
	unsigned which;
	bool plain; /* as it is, in whatever case; else base64, hex, or behind percent or JSON escapes */
	bool exact; /* octet by octet; of a stream that is not told */
};
typedef void placeholder_fn(void *arg, const struct placeholder_hit *h);
/*
 * Forms: as it is in any case; hex in any case; base64 and base64url in all alignments; any of these with any of its octets
 * percent-encoded or JSON-escaped.
 */
void placeholders_find(const struct placeholders *s, struct str text, placeholder_fn *fn, void *arg);
/* As above, over a stream. Zeroed at its begin. */
struct placeholder_watch {
	uint32_t state, decoded; /* of the automaton, over the octets as they are, and with escapes resolved */
	uint64_t at, escape_at;  /* decoded octets so far; the last that came of an escape */
	uint8_t esc_n;
	bool apart;              /* both differ */
	char esc[6];
};
void placeholder_watch_feed(struct placeholder_watch *w, const struct placeholders *s, struct str text, placeholder_fn *fn, void *arg);

/* --- filling ------------------------------------------------------------------------------------------------------- */

enum placeholder_encoding { PLACEHOLDER_RAW = 0, PLACEHOLDER_PERCENT, PLACEHOLDER_PATH /* percent, but / stays */, PLACEHOLDER_JSON };
/* The value as it is written where that encoding holds (RFC 3986 2.3, RFC 8259 7). */
void placeholder_encode(struct buf *out, struct str value, enum placeholder_encoding e);

struct placeholder_value { /* what goes where `which` stands */
	unsigned which;
	struct str text;
};
struct placeholder_fill {
	const struct placeholders *set;
	const struct placeholder_value *v; /* borrowed */
	unsigned n;
	uint32_t state;
	struct buf held; /* what may be the begin of one */
	uint64_t filled;
};
void placeholder_fill_init(struct placeholder_fill *f, const struct placeholders *set, const struct placeholder_value *v, unsigned n);
void placeholder_fill_fini(struct placeholder_fill *f);
/* Appends to out what can go on. in is not in out's memory. */
void placeholder_fill_feed(struct placeholder_fill *f, struct str in, struct buf *out);
void placeholder_fill_end(struct placeholder_fill *f, struct buf *out); /* the rest; f is as after init */
#endif
