/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_POLICY_WITHIN_H
#define SP_POLICY_WITHIN_H
/*
 * Whether what a policy says beside its rules lies within a boundary: addresses, TLS, tunnels, scrubbing, foreign credentials,
 * paths, sizes and times, where secrets may go, the sandbox. Rules need no such comparison: each request is decided by both.
 * The compiler asks it, and the checker before a gateway with a boundary takes a table.
 */
#include "table.h"

/* say: one text for each thing that does not, and FILE:LINE of what says it. How many there are; none: it lies within. */
unsigned table_within(const struct table *t, const struct table *boundary, void (*say)(void *arg, struct str source, const char *text), void *arg);
/*
 * Whether a table that is to narrow another, as a boundary does, says nothing but what narrows: no secret, address, `connect`,
 * CA or tunnel, nor that it observes. say and the result as above.
 */
unsigned table_narrows(const struct table *t, void (*say)(void *arg, struct str source, const char *text), void *arg);
#endif
