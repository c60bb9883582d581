/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_MUST_H
#define SP_MUST_H
/*
 * MUST(): an assertion about our own code, always compiled in. Never used on data from outside: bad input is an
 * error value, not a crash.
 */
void must_fail(const char *expr, const char *file, int line) __attribute__((noreturn, cold));
#define MUST(e) ((e) ? (void)0 : must_fail(#e, __FILE__, __LINE__))

/* Allocation that cannot fail: running out of memory ends the role (it is restarted, its sandbox gets no network). */
#include <stddef.h>
void *must_malloc(size_t n) __attribute__((malloc, returns_nonnull));
void *must_calloc(size_t n, size_t size) __attribute__((malloc, returns_nonnull));
void *must_realloc(void *p, size_t n) __attribute__((returns_nonnull));
char *must_strdup(const char *s) __attribute__((malloc, returns_nonnull));
#endif
