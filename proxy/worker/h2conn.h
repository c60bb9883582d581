/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_WORKER_H2CONN_H
#define SP_WORKER_H2CONN_H
/* An HTTP/2 session on a byte connection: what is alike toward the sandbox and toward upstreams. */
#include "../http/h2.h"
#include "conn.h"

/*
 * Reads what is there, feeds it, writes what the session has to say. To be called from process(); events are called from
 * within. False: it is over; what could be said was written, and h2_lost is the caller's.
 */
bool h2conn_turn(struct conn *c, struct h2 *s);
/* To be called about once a second: what is held for traffic goes while there is none. *trimmed is kept for it, 0 at first. */
void h2conn_sweep(struct conn *c, struct h2 *s, uint64_t now, uint64_t *trimmed);
#endif
