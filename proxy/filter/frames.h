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
 */
#include "../http/ws.h"
#include "scrub.h"

struct frames {
	struct ws_parser in;
	const struct scrub_set *set;            /* toward the sandbox; NULL: there are no secrets */
	void (*random)(void *p, size_t n);      /* toward the upstream: keys of masks */
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
};
/* Zeroed, then in.message_max, set or random, emit and arg set. */
void frames_init(struct frames *f, bool to_upstream);
void frames_fini(struct frames *f);
/* More secrets, where there was a set before: looked for in the message under way, too. */
void frames_renew(struct frames *f, const struct scrub_set *set);
/* Takes all of p, whose octets are changed. False: *fault; what was in order before it went out. */
bool frames_feed(struct frames *f, uint8_t *p, size_t n, struct ws_fault *fault);
/* Can a frame of our own stand here? Not within another. */
bool frames_between(const struct frames *f);
/* A Close frame of our own, if it can stand here and none went out. */
void frames_close(struct frames *f, uint16_t code, struct str reason);
#endif
