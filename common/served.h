/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_SERVED_H
#define SP_SERVED_H
/*
 * The sandboxes that a role serves (dialer, ca, secrets): for each its policy tables, by generation, and the link to its
 * worker. Who asks is the link; what may be answered is that sandbox's table.
 */
#include "msg.h"
#include "policy/table.h"
#include "sys/ipc.h"

struct served_table {
	struct served_table *next; /* newest first */
	uint32_t generation;
	struct table *table;
};
struct served {
	struct served *next;
	struct served_set *set;
	uint32_t id, flags;
	char name[MSG_NAME_MAX];
	struct served_table *tables; /* NULL until SANDBOX came (secrets hears of its sources before) */
	struct ipc *link;            /* to its worker; NULL: none now */
	bool held;                   /* reading is paused */
	void *data;                  /* the role's own */
};
struct served_ops {
	/* A table is in force from now on. A text: it cannot be served, the supervisor is told. May be NULL. */
	const char *(*tabled)(struct served *s, const struct table *t, uint32_t generation);
	void (*linked)(struct served *s);   /* a worker's link is there; may be NULL */
	void (*unlinked)(struct served *s); /* it is gone: nothing can be answered there any more; may be NULL */
	void (*message)(struct served *s, struct ipc_msg *m); /* from the worker */
	void (*retired)(struct served *s, const struct table *t, uint32_t generation); /* t is about to be freed; NULL: it never came. May be NULL */
	void (*gone)(struct served *s);     /* the sandbox ended: frees data; may be NULL */
};
struct served_set {
	struct loop *loop;
	enum role self;
	const struct served_ops *ops;
	struct served *head;
	struct timer drain;
};

/* A message of the supervisor. True: it was about a sandbox and is done with. */
bool served_supervisor(struct served_set *set, struct ipc *sup, struct ipc_msg *m);
struct served *served_get(struct served_set *set, uint32_t id); /* makes it when it is new */
/* The table that a message of that generation speaks of; NULL: the supervisor never named it here. */
const struct table *served_table(const struct served *s, uint32_t generation);
/* An answer on s->link. False: there is no link (any more). When the worker does not keep up, no more of its questions are read for a while. */
bool served_answer(struct served *s, enum msg_type type, uint32_t generation, uint64_t id, const void *p, size_t n, const void *p2, size_t n2, int fd);
/* Holds or lets go the reading of questions for a reason of the role's own. */
void served_hold(struct served *s, bool hold);
/* A host as roles write it to each other: canonical text (IPv6 without brackets), nothing is repaired. */
bool served_host(struct str text, struct canon_host *out);
void served_fini(struct served_set *set);
#endif
