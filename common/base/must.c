/* SPDX-License-Identifier: Apache-2.0 */
#include "must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void must_fail(const char *expr, const char *file, int line)
{
	fprintf(stderr, "sallyport: internal error at %s:%d: %s\n", file, line, expr);
	abort();
}

void *must_malloc(size_t n)
{
	void *p = malloc(n ? n : 1);
	MUST(p != NULL);
	return p;
}

void *must_calloc(size_t n, size_t size)
{
	void *p = calloc(n ? n : 1, size ? size : 1);
	MUST(p != NULL);
	return p;
}

void *must_realloc(void *old, size_t n)
{
	void *p = realloc(old, n ? n : 1);
	MUST(p != NULL);
	return p;
}

char *must_strdup(const char *s)
{
	char *p = strdup(s);
	MUST(p != NULL);
	return p;
}
