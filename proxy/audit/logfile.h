/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_AUDIT_LOGFILE_H
#define SP_AUDIT_LOGFILE_H
/*
 * The file of records: lines are gathered and appended by one write. Space is allocated ahead of need, so that what is
 * under way can be recorded when the disk is full. A write that fails keeps its lines for the next attempt. Past
 * LOG_ROTATE octets the file becomes audit-N.jsonl and the chain goes on in a new one.
 */
#include <sys/types.h>

#include "chain.h"

#define LOG_ROTATE (256u << 20)
#define LOG_TAIL (16u << 20) /* how much of the end is read at start, to know what is recorded already */

struct logfile {
	int dir_fd, fd;
	struct chain *chain;
	off_t size, allocated; /* written; reserved up to here */
	off_t rotate_at;
	bool no_allocate;      /* the file system cannot */
	uint64_t sequence;     /* of the newest record formatted */
	char prev[CHAIN_HEX];  /* its hash */
	struct buf pending;    /* formatted, not yet written */
	uint64_t unsynced;     /* records since the last checkpoint */
	uint32_t rotated;      /* highest N */
};
struct log_found { /* what the start found */
	off_t cut;             /* octets of an unfinished line that were cut off */
	bool damaged;          /* the last line could not be verified: the file was put aside, unchanged */
	bool anchor_missing;   /* there are records but no (valid) checkpoint file */
	uint64_t missing;      /* the log ends that many records before its checkpoint */
};
/* dir_fd stays the caller's. 0, or -1: nothing can be recorded. */
int logfile_open(struct logfile *l, int dir_fd, struct chain *chain, struct log_found *found, struct err *err);
void logfile_close(struct logfile *l); /* gives back what was allocated ahead */
/* Formats one record onto the pending lines; c->sequence is filled in. checkpoint: as one. */
void logfile_add(struct logfile *l, struct record_context *c, const uint8_t *fields, size_t n, bool checkpoint);
/* Writes what is pending. 0, or -1 with the reason: try again later. */
int logfile_write(struct logfile *l, struct err *err);
/* At least n octets behind the end are ours. 0, or -1: the disk is full. */
int logfile_reserve(struct logfile *l, off_t n, struct err *err);
/* Waits until all that is written is on the disk, then names the newest record in the checkpoint file. */
int logfile_anchor(struct logfile *l, struct err *err);
/* The file was moved or removed from outside. */
bool logfile_lost(const struct logfile *l);
/* Every whole line of the last LOG_TAIL octets, the newest rotated file included. */
void logfile_tail(int dir_fd, void (*fn)(void *arg, struct str line), void *arg);
#endif
