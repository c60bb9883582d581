/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_FILTER_SCRUB_INT_H
#define SP_FILTER_SCRUB_INT_H
/*
 * Inside of scrub: scrub_set.c makes the forms of the values and the tables, scrub_find.c finds occurrences in a text,
 * scrub_match.c tells whether a form stands at a place, scrub.c does the streams.
 *
 * How occurrences are found. Each form has a window, a run of `window` octets of it (8 to 32) that are ASCII, no controls, and
 * neither '%' nor '\'. Of four octets in a row a hash is looked up in a bitmap of all groups of four that begin in the first
 * `step` = window - 3 octets of a window: a window that stands in the text as it is has one of them at each multiple of
 * `step`, so that only there anything is read. Windows of which some octet is escaped are looked for in the same way in
 * the decoded neighbourhood of each escape. What the bitmap lets through is compared octet by octet, from the group to both
 * ends of the form.
 * Forms without such a window (short ones, and values full of '%' and '\') are tried at each octet: slow, and exact.
 */
#include "escape.h"
#include "scrub.h"

#define SCRUB_NONE UINT32_MAX
#define GRAM 4 /* octets in a group */
#define WINDOW_MIN 8
#define WINDOW_MAX 32
#define HEADS 4096

enum scrub_form { FORM_RAW = 0, FORM_BASE64, FORM_HEX };
struct pattern {
	uint8_t *p;
	size_t n;
	uint32_t next_first; /* chain of those with the same first octet */
	uint8_t form;        /* hexadecimal digits are kept in lower case, and match in either */
	bool plain;          /* ASCII, without controls, '%' and '\': a text has one reading of it only, from any place onward */
	bool slow;           /* has no window */
};
struct gram {
	uint64_t end;                       /* the last eight octets of the window, as window_end_of reads them */
	uint32_t octets, pattern, at, next; /* as gram_of reads them; where they stand in which form; chain of the same hash */
	int32_t end_at;                     /* from the group */
};
struct scrub_set {
	struct pattern *pat;
	size_t n, min, max; /* forms; octets of the shortest, of the longest: an escape is no shorter than what it stands for */
	unsigned window, step; /* 0: no form has a window */
	unsigned bits;         /* of the bitmap's index */
	uint64_t *bitmap;
	struct gram *grams;
	size_t gram_n;
	uint32_t heads[HEADS];
	uint32_t first[256];    /* forms by first octet, in lower case */
	uint8_t in_window[256]; /* octets that stand in windows */
	bool follows[2][256];   /* behind '%', behind '\': octets with which an escape of one of those can go on */
	bool slow_first[256];   /* first octets of slow forms */
	uint8_t follows_bits[128]; /* the same of ASCII: bit 0 behind '%', bit 1 behind '\' */
	bool slow;
	enum scrub_way { SCRUB_PLAIN, SCRUB_AVX2, SCRUB_AVX512 } way; /* what the processor has; all find the same */
	uint64_t inside[1024];  /* by inside_hash: all groups of four in forms */
};

/* Letters lose their case here, so that hexadecimal digits need no forms of their own for it. */
static inline uint32_t gram_of(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, 4);
	return v | 0x20202020u;
}
static inline uint64_t window_end_of(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, 8);
	return v | 0x2020202020202020u;
}
static inline uint32_t gram_hash(uint32_t g) { return g * 0x9e3779b1u; }
static inline unsigned gram_head(uint32_t h) { return h >> 20; }
static inline unsigned inside_hash(uint32_t g) { return gram_hash(g) >> 16; }
static inline uint8_t scrub_fold(uint8_t c) { return c >= 'A' && c <= 'Z' ? (uint8_t)(c | 0x20) : c; }
static inline bool pattern_is(const struct pattern *pt, size_t i, uint8_t c)
{
	return c == pt->p[i] || (pt->form == FORM_HEX && pt->p[i] >= 'a' && (c | 0x20) == pt->p[i]);
}

struct scrub_text { /* what is looked at */
	const uint8_t *p;
	size_t n;
};
struct span {
	size_t from, to;
	uint8_t form;
};
struct spans {
	struct span few[8], *v;
	size_t n, cap;
};

/* The form stands around `at`, which is the place of its octet `i`: where it begins and ends, the furthest if it can be read in several ways. */
bool scrub_match(struct scrub_text t, const struct pattern *pt, size_t at, size_t i, struct span *out);
/* The text from `at` to its end begins the form, and is not the whole of it. */
bool scrub_open(struct scrub_text t, const struct pattern *pt, size_t at);
/* Every occurrence of every form; also more than once. */
void scrub_find(const struct scrub_set *s, struct scrub_text t, struct spans *out);
#endif
