/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records on their way to audit. A record stays here until audit says that it is appended; on a new link everything
 * unacknowledged is sent again (audit knows request ids, so nothing is written twice). A request holds an in-flight slot,
 * in a file that audit maps too, from before its first octet goes upstream until its record is appended.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "../../common/base/must.h"
#include "../../common/sys/clock.h"
#include "../../common/sys/log.h"
#include "worker.h"

#define SEND_AHEAD 16   /* messages that audit has not read */
#define NO_SLOT_MS 10000 /* longer than audit takes to come back: what is refused without a slot has no record if this worker dies */
#define GATHER_MS 5     /* how long a record waits for others: each message wakes audit, on a busy machine at the cost of the worker's own turn */
#define GATHER_MAX 32   /* and how many are enough */

struct pending {
	struct pending *next;
	uint64_t number;
	uint32_t slot, len;
	uint8_t fields[];
};
struct reporter {
	struct worker *w;
	struct ipc *link;
	struct inflight_slot *slots; /* NULL until audit gave them */
	bool used[INFLIGHT_SLOTS];   /* ours until acknowledged */
	uint16_t len[INFLIGHT_SLOTS]; /* of what stands in ours: audit can write there, what it says is never a length here */
	uint32_t hint;
	bool audit_ok;
	uint64_t next_number;
	struct pending *head, **tail, *unsent;
	size_t count, unsent_n;
	struct timer gather;
	uint64_t no_slot_ms; /* since when there has been none, while audit is down; 0: there are */
	struct buf message;
};

struct reporter *reporter_new(struct worker *w)
{
	struct reporter *r = must_calloc(1, sizeof(*r));

	r->w = w;
	r->tail = &r->head;
	r->next_number = 1;
	return r;
}

bool reporter_ok(const struct reporter *r)
{
	return r->link != NULL && r->slots != NULL && r->audit_ok && r->count < LIMIT_PENDING_RECORDS;
}

/* As many as fit go into one message. */
static void send_pending(struct reporter *r)
{
	timer_stop(&r->gather);
	while (r->link != NULL && r->unsent != NULL && ipc_queued(r->link) < SEND_AHEAD) {
		struct pending *p = r->unsent;
		size_t n = 0;

		buf_clear(&r->message);
		for (; p != NULL && buf_len(&r->message) + sizeof(struct msg_record) + p->len <= msg_rules[MSG_RECORD].max; p = p->next, n++) {
			struct msg_record m = { .number = p->number, .slot = p->slot, .len = p->len };

			buf_add(&r->message, &m, sizeof(m));
			buf_add(&r->message, p->fields, p->len);
		}
		if (!ipc_send(r->link, MSG_RECORD, r->w->generation, 0, buf_data(&r->message), buf_len(&r->message), NULL, 0))
			return;
		r->unsent = p;
		r->unsent_n -= n;
	}
}

static void on_gathered(struct timer *t) { send_pending((struct reporter *)((char *)t - offsetof(struct reporter, gather))); }

void reporter_flush(struct reporter *r) { send_pending(r); }

void reporter_link(struct reporter *r, struct ipc *link)
{
	r->link = link;
	r->audit_ok = false;
	if (link == NULL) {
		clients_slots_freed(r->w); /* they are refused now */
		return;
	}
	r->unsent = r->head;
	r->unsent_n = r->count;
}

static void take_slots(struct reporter *r, const struct ipc_msg *m)
{
	const struct msg_inflight *f = (const void *)m->data;
	const struct msg_record taken = { .number = 0, .slot = INFLIGHT_NO_SLOT };
	struct inflight_slot *s;
	struct stat st;

	if (m->fd_n != 1 || f->slots != INFLIGHT_SLOTS || f->slot_size != INFLIGHT_SLOT_SIZE)
		return;
	if (fstat(m->fds[0], &st) != 0 || st.st_size < (off_t)(sizeof(*s) * INFLIGHT_SLOTS)) { /* behind the end of a file there is nothing to map */
		log_error("the in-flight slots are too few");
		return;
	}
	s = mmap(NULL, sizeof(*s) * INFLIGHT_SLOTS, PROT_READ | PROT_WRITE, MAP_SHARED, m->fds[0], 0);
	if (s == MAP_FAILED) {
		log_error("cannot map the in-flight slots");
		return;
	}
	if (r->slots != NULL) {
		/* open requests go on: their slots move along if the file is another one */
		for (uint32_t i = 0; i < INFLIGHT_SLOTS; i++) {
			if (!r->used[i] || __atomic_load_n(&s[i].state, __ATOMIC_ACQUIRE) != SLOT_FREE)
				continue;
			memcpy(s[i].fields, r->slots[i].fields, sizeof(s[i].fields));
			s[i].len = r->len[i];
			__atomic_store_n(&s[i].state, r->slots[i].state, __ATOMIC_RELEASE);
		}
		munmap(r->slots, sizeof(*s) * INFLIGHT_SLOTS);
	}
	r->slots = s;
	r->audit_ok = true;
	/* an empty record: the open slots are in this file now, what an earlier one holds besides is nobody's */
	if (r->link != NULL)
		ipc_send(r->link, MSG_RECORD, r->w->generation, 0, &taken, sizeof(taken), NULL, 0);
	send_pending(r);
	clients_slots_freed(r->w);
}

static void acknowledged(struct reporter *r, uint64_t number)
{
	while (r->head != NULL && r->head->number <= number) {
		struct pending *p = r->head;

		r->head = p->next;
		if (r->head == NULL)
			r->tail = &r->head;
		if (r->unsent == p) {
			r->unsent = p->next;
			r->unsent_n--;
		}
		if (p->slot != INFLIGHT_NO_SLOT) {
			r->used[p->slot] = false;
			__atomic_store_n(&r->slots[p->slot].state, 0, __ATOMIC_RELEASE);
		}
		r->count--;
		free(p);
	}
	if (r->unsent_n >= GATHER_MAX)
		send_pending(r);
	clients_slots_freed(r->w);
}

void reporter_message(struct reporter *r, const struct ipc_msg *m)
{
	switch (m->type) {
	case MSG_INFLIGHT:
		take_slots(r, m);
		break;
	case MSG_RECORDED:
		acknowledged(r, ((const struct msg_recorded *)(const void *)m->data)->number);
		break;
	case MSG_AUDIT_STATE:
		r->audit_ok = ((const struct msg_audit_state *)(const void *)m->data)->ok == 1 && r->slots != NULL;
		clients_slots_freed(r->w);
		break;
	default:
		break;
	}
}

static bool slot_free(const struct reporter *r)
{
	for (uint32_t i = 0; i < INFLIGHT_SLOTS; i++) {
		uint32_t k = (r->hint + i) % INFLIGHT_SLOTS;

		if (!r->used[k] && __atomic_load_n(&r->slots[k].state, __ATOMIC_ACQUIRE) == 0)
			return true;
	}
	return false;
}

bool reporter_must_wait(struct reporter *r)
{
	uint64_t now = loop_now_ms(r->w->loop);

	if (r->slots != NULL && slot_free(r)) {
		r->no_slot_ms = 0;
		return false;
	}
	if (reporter_ok(r))
		return true; /* audit is only slow */
	if (r->no_slot_ms == 0)
		r->no_slot_ms = now;
	return now - r->no_slot_ms < NO_SLOT_MS;
}

uint32_t reporter_slot(struct reporter *r, const struct buf *fields)
{
	for (uint32_t k = 0; r->slots != NULL && k < INFLIGHT_SLOTS; k++) {
		uint32_t i = (r->hint + k) % INFLIGHT_SLOTS;
		struct inflight_slot *s = &r->slots[i];

		/* a slot that an earlier worker left open is audit's to close */
		if (r->used[i] || __atomic_load_n(&s->state, __ATOMIC_ACQUIRE) != 0)
			continue;
		r->used[i] = true;
		r->hint = i + 1;
		r->len[i] = (uint16_t)(buf_len(fields) < sizeof(s->fields) ? buf_len(fields) : sizeof(s->fields));
		s->len = r->len[i];
		memcpy(s->fields, buf_data(fields), r->len[i]);
		__atomic_store_n(&s->state, 1, __ATOMIC_RELEASE);
		return i;
	}
	return INFLIGHT_NO_SLOT;
}

void reporter_unslot(struct reporter *r, uint32_t slot)
{
	if (slot == INFLIGHT_NO_SLOT)
		return;
	r->used[slot] = false;
	__atomic_store_n(&r->slots[slot].state, SLOT_FREE, __ATOMIC_RELEASE);
	clients_slots_freed(r->w);
}

static bool in_slot(enum record_tag t) { return t == REC_KIND || t == REC_REQUEST_ID || t == REC_TIME_MS || t == REC_METHOD || t == REC_HOST || t == REC_PATH; }

/* Where the fields begin that a slot does not hold since the beginning; SIZE_MAX: they do not stand together behind the others. */
static size_t outcome_at(const struct buf *fields)
{
	size_t off = 0, first = SIZE_MAX, at = 0;
	enum record_tag t;
	struct str v;
	uint64_t u;
	bool bad = false;

	for (; record_next(buf_data(fields), buf_len(fields), &off, &t, &v, &u, &bad); at = off) {
		if (!in_slot(t) && first == SIZE_MAX)
			first = at;
		else if (in_slot(t) && first != SIZE_MAX)
			return SIZE_MAX;
	}
	return bad ? SIZE_MAX : first;
}

/*
 * The outcome goes behind what the slot holds since the request began: the record is true also if this process dies before it
 * is sent. Killed within, it leaves an open slot, as it was. What does not fit is left out, but never the verdict.
 */
static void finish_slot(struct reporter *r, uint32_t slot, const struct buf *fields)
{
	struct inflight_slot *s = &r->slots[slot];
	uint16_t *len = &r->len[slot];
	struct buf outcome = { 0 };
	/* most begin with what the slot holds since its request began; what audit may have written there instead is only compared */
	size_t off = *len > 0 && *len <= buf_len(fields) && memcmp(s->fields, buf_data(fields), *len) == 0 ? *len : outcome_at(fields);
	enum record_tag t;
	struct str v;
	uint64_t u;
	bool bad = false, whole = true;

	if (off != SIZE_MAX && buf_len(fields) - off <= sizeof(s->fields) - *len) {
		memcpy(s->fields + *len, buf_data(fields) + off, buf_len(fields) - off);
		*len = (uint16_t)(*len + buf_len(fields) - off);
		s->len = *len;
		__atomic_store_n(&s->state, SLOT_FINISHED, __ATOMIC_RELEASE);
		return;
	}
	off = 0;
	while (record_next(buf_data(fields), buf_len(fields), &off, &t, &v, &u, &bad)) {
		size_t had = buf_len(&outcome);

		if (in_slot(t))
			continue;
		if (v.p != NULL)
			record_s(&outcome, t, v);
		else
			record_u(&outcome, t, u);
		if (*len + buf_len(&outcome) > sizeof(s->fields)) {
			outcome.len = had;
			whole = whole && t != REC_DECISION && t != REC_CODE && t != REC_STATUS;
		}
	}
	if (whole && !bad) {
		memcpy(s->fields + *len, buf_data(&outcome), buf_len(&outcome));
		*len = (uint16_t)(*len + buf_len(&outcome));
		s->len = *len;
		__atomic_store_n(&s->state, SLOT_FINISHED, __ATOMIC_RELEASE);
	}
	buf_fini(&outcome);
}

static void add(struct reporter *r, const struct policy_gen *policy, uint32_t slot, const struct buf *fields, bool at_once)
{
	struct str said = STR_NONE;
	struct pending *p;

	if (policy == NULL)
		policy = r->w->policy;
	if (policy != NULL)
		said = buf_str(&policy->said);
	if (slot != INFLIGHT_NO_SLOT)
		finish_slot(r, slot, fields);
	p = must_malloc(sizeof(*p) + buf_len(fields) + said.n);
	p->next = NULL;
	p->number = r->next_number++;
	p->slot = slot;
	p->len = (uint32_t)(buf_len(fields) + said.n);
	memcpy(p->fields, buf_data(fields), buf_len(fields));
	if (said.n > 0)
		memcpy(p->fields + buf_len(fields), said.p, said.n);
	MUST(p->len <= msg_rules[MSG_RECORD].max - sizeof(struct msg_record)); /* record.c: the largest fits */
	*r->tail = p;
	r->tail = &p->next;
	if (r->unsent == NULL)
		r->unsent = p;
	r->count++;
	r->unsent_n++;
	if (r->unsent_n >= GATHER_MAX || at_once)
		send_pending(r);
	else if (timer_idle(&r->gather))
		timer_start(r->w->loop, &r->gather, GATHER_MS, on_gathered);
}

/* Nothing stands for one without a slot if we die: it does not gather. */
void reporter_record(struct reporter *r, const struct policy_gen *p, uint32_t slot, const struct buf *fields) { add(r, p, slot, fields, slot == INFLIGHT_NO_SLOT); }

void reporter_connection(struct reporter *r, const struct buf *fields) { add(r, NULL, INFLIGHT_NO_SLOT, fields, false); }

size_t reporter_pending(const struct reporter *r) { return r->count; }

void reporter_tick(struct reporter *r)
{
	send_pending(r);
	if (!reporter_ok(r))
		clients_slots_freed(r->w); /* perhaps they have waited for long enough */
}
