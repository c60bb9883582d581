/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_SYS_SECRET_H
#define SP_SYS_SECRET_H
/*
 * A secret's value: never printed, wiped when freed, left out of core dumps (MADV_DONTDUMP). secret_bytes is the one
 * place that turns it into octets.
 */
#include "../base/str.h"

#define SECRET_MAX 16384u
struct secret;
struct secret *secret_new(const void *p, size_t n); /* copies; NULL when n > SECRET_MAX */
void secret_free(struct secret *s);
struct str secret_bytes(const struct secret *s); /* borrowed until secret_free */
bool secret_sendable(const struct secret *s);    /* not empty, no CR, LF, NUL (J06) */
#endif
