/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_AUDIT_FORMAT_H
#define SP_AUDIT_FORMAT_H
/*
 * Record fields to one line of JSON (OCSF 1.x). A pure function of its arguments: whatever the fields are, the result is
 * one valid JSON object without a line break. Which keys there are is written in docs/man/sallyport-logs.1.
 *
 * The chain stands last in the line, so that a reader without a JSON parser can take it off:
 *
 *     {...,"chain":{"prev":"<64 hex>","hash":"<64 hex>"}}}}\n
 */
#include "../../common/base/buf.h"
#include "../../common/record.h"

enum record_origin { ORIGIN_WORKER = 0, ORIGIN_SECRETS, ORIGIN_SUPERVISOR, ORIGIN_AUDIT };

#define CHAIN_HEX 64
#define RECORD_UID_MAX 40
struct record_context {
	enum record_origin origin; /* what kinds are believed */
	struct str sandbox;        /* known from the link; a name in the fields counts only from those who are trusted to say it */
	uint64_t now_ms, sequence;
	const char *uid;           /* unique name of the event */
	bool worker_lost;          /* the fields are what stood in the slot of a worker that is gone */
	const char *checkpoint_mac; /* a checkpoint: the keyed hash over it; else NULL */
	uint64_t checkpoint_records; /* how many records since the one before */
};
#define RECORD_HASH_KEY ",\"hash\":\""
#define RECORD_END "\"}}}}\n"

/* Appends the line up to and with the previous hash. */
void record_format(struct buf *out, const struct record_context *c, const uint8_t *fields, size_t n, const char prev[CHAIN_HEX]);
/* Appends the rest. */
void record_close(struct buf *out, const char hash[CHAIN_HEX]);
#endif
