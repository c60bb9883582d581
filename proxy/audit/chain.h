/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_AUDIT_CHAIN_H
#define SP_AUDIT_CHAIN_H
/*
 * The chain: each record holds the hash of the one before (`prev`, 64 zeros for the first) and its own,
 *
 *     hash = HMAC-SHA256(key, prev as 64 hex digits, then the line without `,"hash":"..."` and without line break)
 *
 * A checkpoint record also holds HMAC-SHA256(key, "sallyport checkpoint SEQUENCE PREV"), and the file `checkpoint` beside
 * the log names the newest one:
 *
 *     sallyport-checkpoint 1 SEQUENCE HASH MAC\n      MAC = HMAC-SHA256(key, "sallyport anchor SEQUENCE HASH")
 *
 * so that records cut off before it are missed. Who has an older copy of both files can put them back: that is found only
 * by comparing with a checkpoint kept elsewhere.
 */
#include "../../common/base/err.h"
#include "../../common/base/str.h"
#include "format.h"

#define CHAIN_KEY_LEN 32
#define CHAIN_FILE "audit.jsonl"
#define CHAIN_ANCHOR_FILE "checkpoint"

struct chain; /* the key, ready for use */
struct chain *chain_new(const uint8_t key[CHAIN_KEY_LEN]);
void chain_free(struct chain *c);
/* Reads the key from a descriptor (by offset). NULL + err. */
struct chain *chain_load(int key_fd, struct err *err);
extern const char chain_zero[CHAIN_HEX + 1];

/* before: the line up to and with `"prev":"..."`. */
void chain_hash(struct chain *c, struct str before, const char prev[CHAIN_HEX], char hash[CHAIN_HEX]);
void chain_checkpoint_mac(struct chain *c, uint64_t sequence, const char prev[CHAIN_HEX], char mac[CHAIN_HEX]);
/* 16 octets that depend on the key alone: for hash_seed. */
void chain_seed(struct chain *c, uint8_t out[16]);

struct chain_link { /* what a line says about itself; borrowed from it */
	struct str before;
	const char *prev, *hash;
	uint64_t sequence;
	struct str checkpoint_mac; /* empty if it is none */
};
/* False: the line (without its line break) does not end as a record must. */
bool chain_parse(struct str line, struct chain_link *out);
/* NULL if hash and checkpoint are right, else what is wrong. */
const char *chain_check(struct chain *c, const struct chain_link *l);

struct chain_anchor {
	uint64_t sequence;
	char hash[CHAIN_HEX];
};
void chain_anchor_format(struct chain *c, const struct chain_anchor *a, struct buf *out);
bool chain_anchor_parse(struct chain *c, struct str text, struct chain_anchor *out);

/* Number N of a rotated file's name audit-N.jsonl; 0 if it is none. */
uint32_t chain_rotated_number(const char *name);
#endif
