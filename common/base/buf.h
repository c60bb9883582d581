/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_BUF_H
#define SP_BUF_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "str.h"

/*
 * A growing byte queue: bytes are appended at the tail and taken from the front. Zero-initialised = empty, owning
 * nothing. Growth ends the process when memory is out (see must.h); callers bound sizes before they append.
 */
struct buf {
	uint8_t *mem;
	size_t off, len, cap; /* valid bytes are mem[off .. off+len) */
};

/* never NULL, also when empty */
static inline uint8_t *buf_data(const struct buf *b) { return b->mem ? b->mem + b->off : (uint8_t *)(uintptr_t)""; }
static inline size_t buf_len(const struct buf *b) { return b->len; }
static inline struct str buf_str(const struct buf *b) { return str_mk(b->mem ? b->mem + b->off : (const uint8_t *)"", b->len); }

void buf_fini(struct buf *b);            /* frees; the buf is empty and reusable afterwards */
void buf_fini_secret(struct buf *b);     /* wipes first */
uint8_t *buf_more(struct buf *b, size_t n);  /* buf_room where there is none yet */
void buf_commit(struct buf *b, size_t n);   /* n of the bytes got by buf_room are now content */

/* at least n writable bytes behind the tail; valid until the next call */
static inline uint8_t *buf_room(struct buf *b, size_t n)
{
	if (b->len > 0 && b->cap - b->off - b->len >= n)
		return b->mem + b->off + b->len;
	return buf_more(b, n);
}

static inline void buf_add(struct buf *b, const void *p, size_t n)
{
	if (n == 0)
		return;
	memcpy(buf_room(b, n), p, n);
	b->len += n;
}

static inline void buf_addc(struct buf *b, char c)
{
	*buf_room(b, 1) = (uint8_t)c;
	b->len++;
}

static inline void buf_adds(struct buf *b, struct str s) { buf_add(b, s.p, s.n); }
static inline void buf_addz(struct buf *b, const char *s) { buf_add(b, s, strlen(s)); }
void buf_addu(struct buf *b, uint64_t v);   /* decimal */
void buf_addf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_drop(struct buf *b, size_t n);     /* takes n bytes off the front */
static inline void buf_clear(struct buf *b) { b->off = b->len = 0; }
#endif
