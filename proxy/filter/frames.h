/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_FILTER_FRAMES_H
#define SP_FILTER_FRAMES_H
/*
 * One direction of an open WebSocket, free of I/O: frames in, frames out, written anew from what was parsed.
 *
 * Toward the upstream every frame gets a mask of ours: what stands on the wire is not of the sandbox's choosing (RFC 6455
 * 10.3). Toward the sandbox secrets are overwritten, in a message as a whole, wherever it is fragmented: what ends in the
 * beginning of a secret waits, and goes out in a later fragment. So fragments may be cut anew; a message in one frame
 * stays one.
 *
 * Toward the upstream placeholders may be filled, which changes lengths: a frame is collected first, FRAMES_UNIT of it at a
 * time, and goes out with the length that it then has. So a message in a frame that is no larger stays one; of a larger one
 * each unit is a fragment. Where a unit has to wait (for a value), all that comes behind it does.
 */
#include "../http/ws.h"
#include "scrub.h"

#define FRAMES_UNIT 65536 /* octets of a frame that are collected where something may be filled */

enum frames_filled { FRAMES_REFUSED = 0, FRAMES_FILLED, FRAMES_WAIT };
struct frames_unit { /* what stands in a message, in order, and may be filled */
	struct str octets;
	bool text, first, last; /* of its message */
};

struct frames {
	struct ws_parser in;
	const struct scrub_set *set;            /* toward the sandbox; NULL: there are no secrets */
	void (*random)(void *p, size_t n);      /* toward the upstream: keys of masks */
	/* Or NULL. Sees what goes upstream, before it goes: of messages in order, begins: of a new one; of control frames. False: it must not. */
	bool (*look)(void *arg, struct str octets, bool begins, bool control);
	/* Or NULL: nothing is filled. What goes on in place of it is appended to out. WAIT: it is called again with the same one. */
	enum frames_filled (*fill)(void *arg, const struct frames_unit *unit, struct buf *out);
	void (*emit)(void *arg, const uint8_t *p, size_t n);
	void *arg;
	/* counted */
	uint64_t messages, hits;
	bool close_seen;     /* a Close frame came, */
	uint16_t close_code; /* with this code */
	/* --- */
	struct scrub scrub;
	bool scrubbing;      /* within a message, */
	uint64_t scrub_in, scrub_out; /* of which so much came and went */
	struct buf released;
	uint64_t out_left;   /* octets that the frame under way still has */
	bool begun;          /* the first frame of the message went out */
	bool closed;         /* a Close frame went out: nothing follows */
	uint8_t opcode;      /* of the message */
	uint8_t key[4];
	size_t key_at;
	bool first;          /* nothing of the message was filled, or looked at, yet */
	bool waits;          /* a unit does, and what came behind it: see frames_resume */
	bool unit_fin;       /* it ends the message */
	struct buf unit, filled, rest;
};
#define FRAMES_REFUSED_REASON "ws_refused" /* of the fault, when look or fill refused */
/* Zeroed, then in.message_max, set or random, emit and arg set; look and fill only toward the upstream. */
void frames_init(struct frames *f, bool to_upstream);
void frames_fini(struct frames *f);
/* More secrets, where there was a set before: looked for in the message under way, too. */
void frames_renew(struct frames *f, const struct scrub_set *set);
/* Takes all of p, whose octets are changed. False: *fault; what was in order before it went out. */
bool frames_feed(struct frames *f, uint8_t *p, size_t n, struct ws_fault *fault);
/* What waits is tried again. */
bool frames_resume(struct frames *f, struct ws_fault *fault);
size_t frames_held(const struct frames *f); /* octets of memory */
/* Can a frame of our own stand here? Not within another. */
bool frames_between(const struct frames *f);
/* A Close frame of our own, if it can stand here and none went out. */
void frames_close(struct frames *f, uint16_t code, struct str reason);
#endif
