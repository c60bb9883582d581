/* SPDX-License-Identifier: Apache-2.0 */
#include "h2conn.h"

#include <sys/mman.h>

#define OUT_MAX 65536 /* octets in the connection's queue; the rest waits in its streams, where their turns are kept */
#define QUIET_MS 1000

static void put(struct conn *c, struct h2 *s)
{
	while (!c->failed && buf_len(&c->out) < OUT_MAX && h2_wants_output(s)) {
		size_t before = buf_len(&c->out);

		h2_output(s, &c->out, OUT_MAX - before);
		if (buf_len(&c->out) == before)
			break;
		conn_flush_now(c);
	}
	conn_full(c, CONN_OUT_LOW); /* what is left is waited for: then there is room for more */
}

/* False: the connection is over. */
static bool feed(struct conn *c, struct h2 *s)
{
	while (buf_len(&c->in) > 0) {
		long n = h2_feed(s, loop_now_ms(c->loop), buf_data(&c->in), buf_len(&c->in));

		if (n < 0)
			return false;
		buf_drop(&c->in, (size_t)n);
		if (n > 0)
			continue;
		put(c, s);
		if (buf_len(&c->out) >= OUT_MAX || c->failed || h2_wants_output(s))
			break; /* who does not read our answers is not read either */
	}
	return true;
}

bool h2conn_turn(struct conn *c, struct h2 *s)
{
	bool alive;

	conn_fill(c);
	alive = feed(c, s);
	put(c, s);
	if (!alive || c->failed || c->eof)
		return false;
	if (h2_done(s) && buf_len(&c->out) == 0)
		return false;
	if (c->more && buf_len(&c->in) == 0)
		conn_yield(c); /* others get their turn first */
	return true;
}

void h2conn_sweep(struct conn *c, struct h2 *s, uint64_t now, uint64_t *trimmed)
{
	void *pages;
	size_t n;

	if (*trimmed == c->active_ms || now - c->active_ms < QUIET_MS)
		return;
	*trimmed = c->active_ms;
	pages = h2_spare(s, &n);
	if (pages != NULL)
		madvise(pages, n, MADV_DONTNEED);
}
