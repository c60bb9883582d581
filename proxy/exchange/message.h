/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_EXCHANGE_MESSAGE_H
#define SP_EXCHANGE_MESSAGE_H
/*
 * Placeholders in what a sandbox says on an open WebSocket: filled in messages where the policy says `in: [websocket]`, told of
 * (or refused) elsewhere. A value is had when a message needs it, and is not kept behind that.
 */
#include "../filter/frames.h"
#include "../filter/placeholder.h"
#include "exchange.h"

struct messages {
	const struct placeholders *set;	/* of the message under way: what was told meanwhile holds from the next on */
	struct placeholder_watch watch;
	struct placeholder_fill fill;
	bool wants; /* some that are filled stand in what comes to be filled next: */
	uint8_t wanted[PLACEHOLDERS_MAX / 8];
	bool json;  /* the message is JSON, as far as one can tell from its begin */
	bool old;   /* another policy came into force meanwhile: nothing is had by this one any more */
	uint8_t told[PLACEHOLDERS_MAX / 8];
	/* why the last one was refused */
	enum refusal_code code;
	uint16_t close; /* for the client */
	char reason[200];
};
/* By rule and destination: whether anything is filled. */
bool messages_fill_any(const struct exchange *x);
/* Of struct frames; arg is the exchange, whose messages are x->ws->messages. */
bool message_look(void *arg, struct str octets, bool begins, bool control);
enum frames_filled message_fill(void *arg, const struct frames_unit *unit, struct buf *out);
void messages_fini(struct messages *m);
#endif
