/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_AUDIT_SLOTS_H
#define SP_AUDIT_SLOTS_H
/*
 * In-flight slot files: inflight.SANDBOX.K.NAME in the log's directory (NAME: the sandbox's name in hex; it stands there
 * and not in the file, which the worker can write). A worker has one of them mapped; a file that is not a worker's any
 * more, after a worker's death or a restart of this role, is what is left over: its open slots become worker_lost
 * records, unless the request is recorded, or goes on in the file that its worker has now.
 */
#include "../../common/base/err.h"
#include "../../common/msg.h"
#include "../../common/record.h"

#define SLOT_FIELDS_MAX (INFLIGHT_SLOT_SIZE - 8)

struct slotfile {
	char file[256]; /* its name; empty: there is none */
	int fd;
	struct inflight_slot *map;
};
/* A new file, all slots free, its space allocated. 0 or -1. */
int slotfile_make(struct slotfile *s, int dir_fd, uint32_t sandbox, const char *name, struct err *err);
void slotfile_clear(struct slotfile *s, uint32_t slot); /* ignores a slot that does not exist */
/* Unmaps and closes; the file stays. */
void slotfile_release(struct slotfile *s);

struct left_slot {
	uint16_t len;
	bool finished; /* its outcome is among the fields */
	uint8_t fields[SLOT_FIELDS_MAX];
};
struct left { /* the open slots of a file that is left over */
	struct left *next;
	uint32_t sandbox;
	char name[MSG_NAME_MAX];
	char file[256];
	bool expected; /* its sandbox lives: a worker may still have these requests */
	bool done;     /* the records are on their way to the log: the file goes when they are there */
	struct left_slot *slots;
	size_t n;
};
/* The open slots; NULL: none is open. s keeps its mapping. */
struct left *left_of(const struct slotfile *s, uint32_t sandbox, const char *name);
/*
 * All files in the directory, also without an open slot: a worker may have one still, and open some. err tells of what cannot be
 * read: it stays where it is.
 */
struct left *left_scan(int dir_fd, struct err *err);
/* What is open there now, when nobody writes there any more. A file that cannot be read: l stays as it was. */
void left_refresh(struct left *l, int dir_fd);
void left_free(struct left *l);
/* The request id among fields; empty: none. */
struct str slot_request_id(const uint8_t *fields, size_t n);

/* A set of keyed hashes of names. */
struct idset {
	uint64_t *h;
	size_t n, cap;
};
void idset_add(struct idset *s, struct str id);
bool idset_has(const struct idset *s, struct str id);
void idset_add_hash(struct idset *s, uint64_t h);
bool idset_has_hash(const struct idset *s, uint64_t h);
void idset_fini(struct idset *s);
#endif
