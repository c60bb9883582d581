/* SPDX-License-Identifier: Apache-2.0 */
#include "buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "must.h"

void buf_fini(struct buf *b)
{
	free(b->mem);
	*b = (struct buf){ 0 };
}

void buf_fini_secret(struct buf *b)
{
	if (b->mem != NULL)
		explicit_bzero(b->mem, b->cap);
	buf_fini(b);
}

uint8_t *buf_more(struct buf *b, size_t n)
{
	size_t cap;

	if (b->len == 0)
		b->off = 0;
	if (b->cap - b->off - b->len >= n && b->mem != NULL)
		return b->mem + b->off + b->len;
	if (b->mem != NULL && b->off >= b->len && b->cap - b->len >= n) {
		memmove(b->mem, b->mem + b->off, b->len);
		b->off = 0;
		return b->mem + b->len;
	}
	MUST(n < SIZE_MAX / 4 && b->len < SIZE_MAX / 4);
	cap = b->cap ? b->cap : 256;
	while (cap < b->len + n)
		cap *= 2;
	if (b->off > 0) {
		uint8_t *mem = must_malloc(cap);
		memcpy(mem, b->mem + b->off, b->len);
		free(b->mem);
		b->mem = mem;
		b->off = 0;
	} else {
		b->mem = must_realloc(b->mem, cap);
	}
	b->cap = cap;
	return b->mem + b->len;
}

void buf_commit(struct buf *b, size_t n)
{
	MUST(b->off + b->len + n <= b->cap);
	b->len += n;
}

void buf_addu(struct buf *b, uint64_t v)
{
	char t[20];
	size_t i = sizeof(t);

	while (v >= 100) {
		unsigned pair = (unsigned)(v % 100);

		v /= 100;
		t[--i] = (char)('0' + pair % 10);
		t[--i] = (char)('0' + pair / 10);
	}
	if (v >= 10) {
		t[--i] = (char)('0' + v % 10);
		v /= 10;
	}
	t[--i] = (char)('0' + v);
	buf_add(b, t + i, sizeof(t) - i);
}

void buf_addf(struct buf *b, const char *fmt, ...)
{
	va_list ap, ap2;
	int n;

	va_start(ap, fmt);
	va_copy(ap2, ap);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	MUST(n >= 0);
	vsnprintf((char *)buf_room(b, (size_t)n + 1), (size_t)n + 1, fmt, ap2);
	va_end(ap2);
	b->len += (size_t)n;
}

void buf_drop(struct buf *b, size_t n)
{
	MUST(n <= b->len);
	b->off += n;
	b->len -= n;
	if (b->len == 0)
		b->off = 0;
}
