/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The role that writes the records.
 *
 *   links    One to the worker of each sandbox, one to the role that holds the secrets, one to the supervisor. What the
 *            sandbox is called is known from the link.
 *   batch    What comes in one turn of the loop is formatted, chained and appended by one write; then the slots of these
 *            requests are cleared and their senders told (RECORDED). What is not told stays with the sender.
 *   failure  When a write or an allocation fails, all workers are told (AUDIT_STATE) and refuse new requests; the lines
 *            are kept and written again each second. Beyond PENDING_MAX no more is read: it stays with the senders.
 *   slots    A worker fills a slot of its file before the first octet of a request goes upstream. When its link ends, all
 *            that it sent is read first; what is then still open becomes `worker_lost`. After a restart of this role
 *            the files in the directory tell what was open: requests of a sandbox that lives may go on in its worker, which
 *            copies them into its new file and says so by an empty RECORD; the others are lost.
 *   twice    A worker sends what was not acknowledged again on a new link. The uid of a record begins with a keyed hash of
 *            its request's id, or of the whole message where it is of no request, so it is found in the log's tail. Nothing
 *            is written twice.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../common/base/must.h"
#include "../../common/sys/clock.h"
#include "../../common/sys/ipc.h"
#include "../../common/sys/log.h"
#include "../../common/sys/role.h"
#include "../roles.h"
#include "fold.h"
#include "logfile.h"
#include "slots.h"

#define TICK_MS 1000
#define PENDING_MAX (4u << 20)
#define CHECKPOINT_RECORDS 1000
#define CHECKPOINT_MS 60000
#define ANCHOR_MS 5000       /* the disk is waited for at most this often */
#define TAKEN_MS 3000        /* a worker that does not say that it took its slots over */
#define GONE_MS 2000         /* a worker whose sandbox ended and that does not end */
#define LINE_ESTIMATE 1536   /* octets of a record, for the space kept free for those under way */

struct box { /* one sandbox */
	struct box *next;
	uint32_t id;
	char name[MSG_NAME_MAX];
	struct ipc *link;
	int next_fd;            /* link of the next worker, taken when the one before is read to its end; -1: none */
	struct slotfile slots;
	bool slots_sent;
	uint64_t last, told;    /* numbers: newest handled on this link, newest acknowledged */
	bool clear[INFLIGHT_SLOTS]; /* slots of what is pending */
	bool clear_any;
	bool left_expected;     /* files are left over that its worker may go on with */
	uint64_t left_due_ms;   /* until then; 0: no worker yet */
	bool gone;
	uint64_t gone_ms;
	struct folds *folds;
};
struct audit {
	struct loop *loop;
	struct ipc *sup, *secrets;
	int dir_fd;
	struct chain *chain;
	struct logfile log;
	struct box *boxes;
	struct left *left;
	struct idset seen;      /* uids in the log's tail */
	struct idset recorded;  /* ids of requests that have their record, as far as it can matter */
	struct timer tick;
	bool flush_due, ok, paused, ending;
	bool over;              /* all is written and the log is closed */
	char reason[240];       /* why not ok */
	uint64_t checkpoint_ms, anchor_ms, ending_ms;
	bool anchor_due;
	struct log_limit said;
};
static struct audit the_audit; /* one in a process */

static void flush(struct audit *a);
static void finish_if_over(struct audit *a);

/* --- state --------------------------------------------------------------------------------------------------------- */

static void tell_state(struct audit *a, struct box *b)
{
	struct msg_audit_state m = { .ok = a->ok };

	if (b->link != NULL)
		ipc_send2(b->link, MSG_AUDIT_STATE, 0, 0, &m, sizeof(m), a->reason, a->ok ? 0 : strlen(a->reason), NULL, 0);
}

static void set_state(struct audit *a, bool ok, const char *reason)
{
	bool changed = ok != a->ok;

	a->ok = ok;
	snprintf(a->reason, sizeof(a->reason), "%s", ok ? "" : reason);
	if (!changed)
		return;
	if (ok)
		log_info("records can be written again");
	else
		log_limited(&a->said, "error: %s: new requests are refused until records can be written", reason);
	for (struct box *b = a->boxes; b != NULL; b = b->next)
		tell_state(a, b);
}

static void pause_workers(struct audit *a, bool pause)
{
	if (a->paused == pause)
		return;
	a->paused = pause;
	for (struct box *b = a->boxes; b != NULL; b = b->next)
		if (b->link != NULL)
			ipc_pause(b->link, pause);
}

/* --- writing ------------------------------------------------------------------------------------------------------- */

static void on_turn_end(void *arg)
{
	struct audit *a = arg;

	a->flush_due = false;
	if (!a->over)
		flush(a);
}

static void want_flush(struct audit *a)
{
	if (a->flush_due)
		return;
	a->flush_due = true;
	loop_defer(a->loop, on_turn_end, a);
}

static void hex64(uint64_t v, char *out)
{
	static const char hex[] = "0123456789abcdef";

	for (int i = 0; i < 16; i++)
		out[i] = hex[v >> (60 - 4 * i) & 15];
}

static void add_checkpoint(struct audit *a)
{
	struct record_context c = { .origin = ORIGIN_AUDIT, .now_ms = clock_wall_ms() };
	struct buf b = { 0 };
	char uid[RECORD_UID_MAX + 1] = { 0 };
	uint64_t r;

	random_fill(&r, sizeof(r));
	hex64(r, uid);
	hex64(a->log.sequence + 1, uid + 16);
	c.uid = uid;
	record_s(&b, REC_KIND, STR("checkpoint"));
	record_u(&b, REC_TIME_MS, c.now_ms);
	logfile_add(&a->log, &c, buf_data(&b), buf_len(&b), true);
	buf_fini(&b);
	a->checkpoint_ms = loop_now_ms(a->loop);
	a->anchor_due = true;
	want_flush(a);
}

/* Onto the pending lines. hash: what the uid begins with. */
static void add(struct audit *a, enum record_origin origin, const char *sandbox, bool lost, uint64_t hash, const uint8_t *fields, size_t n)
{
	char uid[RECORD_UID_MAX + 1] = { 0 };
	struct record_context c = { .origin = origin, .sandbox = str_of(sandbox), .now_ms = clock_wall_ms(), .uid = uid, .worker_lost = lost };

	hex64(hash, uid);
	hex64(a->log.sequence + 1, uid + 16); /* unique also where the hash is not */
	logfile_add(&a->log, &c, fields, n, false);
	if (a->log.unsynced >= CHECKPOINT_RECORDS)
		add_checkpoint(a);
	want_flush(a);
}

static void add_own(struct audit *a, const char *kind, const char *code, const char *message)
{
	struct buf b = { 0 };
	uint64_t r;

	random_fill(&r, sizeof(r));
	record_s(&b, REC_KIND, str_of(kind));
	record_s(&b, REC_CODE, str_of(code));
	record_s(&b, REC_MESSAGE, str_of(message));
	record_u(&b, REC_TIME_MS, clock_wall_ms());
	add(a, ORIGIN_AUDIT, "", false, r, buf_data(&b), buf_len(&b));
	buf_fini(&b);
}

/* Space for all that may be under way, so that it can be recorded whatever else fills the disk. */
static off_t reserve_need(const struct audit *a)
{
	off_t need = 256 * 1024;

	for (const struct box *b = a->boxes; b != NULL; b = b->next)
		if (b->link != NULL)
			need += (off_t)INFLIGHT_SLOTS * LINE_ESTIMATE;
	return need;
}

static void clear_none(struct box *b)
{
	if (b->clear_any)
		memset(b->clear, 0, sizeof(b->clear));
	b->clear_any = false;
}

static void written(struct audit *a)
{
	for (struct box *b = a->boxes; b != NULL; b = b->next) {
		for (uint32_t i = 0; b->clear_any && i < INFLIGHT_SLOTS; i++)
			if (b->clear[i])
				slotfile_clear(&b->slots, i);
		clear_none(b);
		if (b->last > b->told && b->link != NULL) {
			struct msg_recorded m = { b->last };

			if (ipc_send(b->link, MSG_RECORDED, 0, 0, &m, sizeof(m), NULL, 0))
				b->told = b->last; /* else with the next flush: one comes every second */
		}
	}
	for (struct left **p = &a->left; *p != NULL;) {
		struct left *l = *p;

		if (!l->done) {
			p = &l->next;
			continue;
		}
		*p = l->next;
		unlinkat(a->dir_fd, l->file, 0);
		left_free(l);
	}
}

static bool make_slots(struct audit *a, struct box *b, struct err *err)
{
	struct msg_inflight m = { INFLIGHT_SLOTS, INFLIGHT_SLOT_SIZE };

	if (b->link == NULL || b->slots_sent)
		return true;
	if (b->slots.map == NULL && slotfile_make(&b->slots, a->dir_fd, b->id, b->name, err) < 0)
		return false;
	b->slots_sent = ipc_send(b->link, MSG_INFLIGHT, 0, 0, &m, sizeof(m), &b->slots.fd, 1);
	if (!a->ok)
		tell_state(a, b);
	return true;
}

static void flush(struct audit *a)
{
	struct err err = ERR_INIT;

	if (logfile_write(&a->log, &err) < 0) {
		set_state(a, false, err.text);
		if (buf_len(&a->log.pending) > PENDING_MAX)
			pause_workers(a, true);
		return;
	}
	written(a);
	pause_workers(a, false);
	for (struct box *b = a->boxes; b != NULL; b = b->next) {
		if (!make_slots(a, b, &err)) {
			set_state(a, false, err.text);
			tell_state(a, b);
			return;
		}
	}
	if (logfile_reserve(&a->log, reserve_need(a), &err) < 0) {
		set_state(a, false, err.text);
		return;
	}
	set_state(a, true, "");
}

/*
 * What a record is known by is its sandbox's and its own: a worker that was taken over can claim the requests of no other, whose
 * records would then be taken for such as are in the log already.
 */
static uint64_t of_sandbox(const char *name, uint64_t hash)
{
	hash += 3 * hash_bytes(name, strlen(name));
	return hash != 0 ? hash : 1;
}

static uint64_t request_of(const char *name, struct str id) { return of_sandbox(name, hash_bytes(id.p, id.n)); }

/* --- what is lost -------------------------------------------------------------------------------------------------- */

static void alive_ids(const struct box *b, struct idset *ids)
{
	struct left *now = b != NULL ? left_of(&b->slots, b->id, b->name) : NULL;

	for (size_t i = 0; now != NULL && i < now->n; i++) {
		struct str id = slot_request_id(now->slots[i].fields, now->slots[i].len);

		if (id.n > 0)
			idset_add(ids, id);
	}
	left_free(now);
}

/* Writes what of a left-over file has no record and does not go on in the worker's file of now. */
static void resolve(struct audit *a, struct left *l, const struct box *now)
{
	struct idset alive = { 0 };

	if (l->done)
		return;
	l->done = true;
	left_refresh(l, a->dir_fd); /* its worker went on with it until it took the next, or ended */
	alive_ids(now, &alive);
	for (size_t i = 0; i < l->n; i++) {
		const struct left_slot *s = &l->slots[i];
		struct str id = slot_request_id(s->fields, s->len);

		if (id.n > 0 && (idset_has(&alive, id) || idset_has_hash(&a->recorded, request_of(l->name, id))))
			continue;
		if (id.n > 0)
			idset_add_hash(&a->recorded, request_of(l->name, id));
		add(a, ORIGIN_WORKER, l->name, !s->finished, hash_bytes(s->fields, s->len), s->fields, s->len);
	}
	idset_fini(&alive);
	want_flush(a); /* also without a record: the file goes */
}

static void resolve_of(struct audit *a, struct box *b, const struct box *now)
{
	for (struct left *l = a->left; l != NULL; l = l->next)
		if (l->expected && l->sandbox == b->id)
			resolve(a, l, now);
	b->left_expected = false;
	b->left_due_ms = 0;
}

/* The slots of a worker that is gone. */
static void slots_over(struct audit *a, struct box *b)
{
	struct left *l;

	/* what came and could not be written yet has its record, if not on the disk; its slot stays until it is there */
	for (uint32_t i = 0; b->slots.map != NULL && b->clear_any && i < INFLIGHT_SLOTS; i++) {
		const struct inflight_slot *s = &b->slots.map[i];
		struct left_slot copy = { 0 };
		uint32_t len = __atomic_load_n(&s->len, __ATOMIC_RELAXED); /* once: the worker can still write there */
		struct str id;

		if (!b->clear[i])
			continue;
		copy.len = (uint16_t)(len > SLOT_FIELDS_MAX ? SLOT_FIELDS_MAX : len);
		memcpy(copy.fields, s->fields, copy.len);
		id = slot_request_id(copy.fields, copy.len);
		if (id.n > 0)
			idset_add_hash(&a->recorded, request_of(b->name, id));
	}
	clear_none(b);
	b->slots_sent = false;
	l = left_of(&b->slots, b->id, b->name);
	if (l == NULL)
		return; /* none is open: the next worker gets the same file */
	slotfile_release(&b->slots);
	l->expected = true;
	l->next = a->left;
	a->left = l;
}

/* --- links --------------------------------------------------------------------------------------------------------- */

static void on_worker(struct ipc *c, const struct ipc_msg *m);

static void attach(struct audit *a, struct box *b, int fd)
{
	b->link = ipc_new(a->loop, fd, ROLE_AUDIT, ROLE_WORKER, on_worker, b);
	b->last = b->told = 0;
	b->slots_sent = false;
	if (a->paused)
		ipc_pause(b->link, true);
	if (b->left_expected)
		b->left_due_ms = loop_now_ms(a->loop) + TAKEN_MS;
	flush(a); /* makes and sends the slots */
}

static struct box *find(struct audit *a, uint32_t id)
{
	struct box *b;

	for (b = a->boxes; b != NULL; b = b->next)
		if (b->id == id)
			return b;
	return NULL;
}

static void add_folded(void *arg, const struct buf *fields)
{
	struct box *b = arg;

	add(&the_audit, ORIGIN_WORKER, b->name, false, hash_bytes(buf_data(fields), buf_len(fields)), buf_data(fields), buf_len(fields));
}

static void box_free(void *arg)
{
	struct box *b = arg;

	folds_free(b->folds);
	free(b);
}

/* Its worker is gone and it is not to come back. */
static void box_over(struct audit *a, struct box *b)
{
	for (struct box **p = &a->boxes; *p != NULL; p = &(*p)->next) {
		if (*p == b) {
			*p = b->next;
			break;
		}
	}
	folds_flush(b->folds, 0, true, add_folded, b);
	resolve_of(a, b, NULL);
	if (b->slots.map != NULL) {
		unlinkat(a->dir_fd, b->slots.file, 0); /* no slot is open: slots_over would have taken it */
		slotfile_release(&b->slots);
	}
	if (b->next_fd >= 0)
		close(b->next_fd);
	loop_defer(a->loop, box_free, b);
}

static void unlink_worker(struct audit *a, struct box *b)
{
	struct ipc *c = b->link;

	flush(a);
	b->link = NULL;
	ipc_free(c);
	slots_over(a, b);
	resolve_of(a, b, NULL);
	if (b->gone || a->ending) {
		box_over(a, b);
	} else if (b->next_fd >= 0) {
		int fd = b->next_fd;

		b->next_fd = -1;
		attach(a, b, fd);
	}
	if (a->ending)
		finish_if_over(a);
}

static void clear_later(struct box *b, uint32_t slot)
{
	if (slot >= INFLIGHT_SLOTS)
		return;
	b->clear[slot] = true;
	b->clear_any = true;
}

/* A request, or a connection that held a slot: never written twice, never folded. */
static bool is_request(const uint8_t *fields, size_t n, bool slot, struct str *id)
{
	size_t off = 0;
	enum record_tag t;
	struct str s;
	uint64_t u;
	bool bad = false, request = false;

	*id = STR_NONE;
	while (record_next(fields, n, &off, &t, &s, &u, &bad)) {
		if (t == REC_KIND)
			request = str_eq(s, STR("request")) || (slot && str_eq(s, STR("connection")));
		else if (t == REC_REQUEST_ID)
			*id = s;
		if ((t == REC_KIND && !request) || (request && id->n > 0))
			break;
	}
	return request && id->n > 0;
}

static void take_record(struct audit *a, struct box *b, const struct msg_record *r)
{
	const uint8_t *fields = (const uint8_t *)(r + 1);
	size_t n = r->len;
	uint64_t hash;
	struct str id;
	bool request;

	if (n == 0 && r->number == 0) { /* the worker took its open slots over */
		if (b->left_expected)
			resolve_of(a, b, b);
		return;
	}
	if (r->number <= b->last)
		return; /* this link had it: numbers count up */
	b->last = r->number;
	want_flush(a);
	clear_later(b, r->slot);
	request = is_request(fields, n, r->slot != INFLIGHT_NO_SLOT, &id);
	/* a request's id is its own; what has none is known by all that it says */
	hash = request ? request_of(b->name, id) : of_sandbox(b->name, hash_bytes(r, sizeof(*r) + n));
	if (idset_has_hash(&a->seen, hash) || (request && idset_has_hash(&a->recorded, hash)))
		return; /* it is in the log already: only told so */
	if (request && b->left_expected)
		idset_add_hash(&a->recorded, hash);
	if (!request && folds_take(b->folds, fields, n, loop_now_ms(a->loop)))
		return;
	add(a, ORIGIN_WORKER, b->name, false, hash, fields, n);
}

/* False: they do not fill the message. Those before the fault are taken. */
static bool take_records(struct audit *a, struct box *b, const struct ipc_msg *m)
{
	for (size_t at = 0; at < m->len;) {
		const struct msg_record *r = (const void *)(m->data + at);

		if (m->len - at < sizeof(*r) || m->len - at - sizeof(*r) < r->len)
			return false;
		take_record(a, b, r);
		at += sizeof(*r) + r->len;
	}
	return true;
}

static void on_worker(struct ipc *c, const struct ipc_msg *m)
{
	struct box *b = ipc_arg(c);
	struct audit *a = &the_audit;

	if (m == NULL)
		unlink_worker(a, b);
	else if (m->type == MSG_RECORD && !take_records(a, b, m))
		ipc_reject(c);
}

static void on_secrets(struct ipc *c, const struct ipc_msg *m)
{
	struct audit *a = &the_audit;

	if (m == NULL) {
		if (a->secrets == c)
			a->secrets = NULL;
		ipc_free(c);
		return;
	}
	if (m->type == MSG_EVENT)
		add(a, ORIGIN_SECRETS, "", false, hash_bytes(m->data, m->len), m->data + sizeof(struct msg_record), m->len - sizeof(struct msg_record));
}

static void take_peer(struct audit *a, struct ipc_msg *m)
{
	const struct msg_peer *p = (const void *)m->data;
	struct box *b;
	int fd;

	if (m->fd_n != 1)
		return;
	fd = m->fds[0];
	if (p->role == ROLE_SECRETS) {
		/* an old link is read to its end beside the new one */
		a->secrets = ipc_new(a->loop, fd, ROLE_AUDIT, ROLE_SECRETS, on_secrets, a);
		m->fds[0] = -1;
		return;
	}
	b = p->role == ROLE_WORKER ? find(a, p->sandbox) : NULL;
	if (b == NULL || b->gone || a->ending)
		return;
	m->fds[0] = -1;
	if (b->link == NULL) {
		attach(a, b, fd);
		return;
	}
	/* a new worker: the one before is dead, but what it sent comes first */
	if (b->next_fd >= 0)
		close(b->next_fd);
	b->next_fd = fd;
	ipc_pause(b->link, false);
}

static void take_sandbox(struct audit *a, struct ipc *c, const struct ipc_msg *m)
{
	const struct msg_sandbox *s = (const void *)m->data;
	struct msg_sandbox_ref ref = { s->sandbox, s->generation };
	struct box *b = find(a, s->sandbox);
	struct err err = ERR_INIT;

	if (b == NULL) {
		b = must_calloc(1, sizeof(*b));
		b->id = s->sandbox;
		b->next_fd = -1;
		b->slots.fd = -1;
		memcpy(b->name, s->name, sizeof(b->name));
		b->name[sizeof(b->name) - 1] = 0;
		b->folds = folds_new();
		b->next = a->boxes;
		a->boxes = b;
		for (struct left *l = a->left; l != NULL; l = l->next) {
			if (l->done || l->sandbox != b->id || strcmp(l->name, b->name) != 0)
				continue;
			l->expected = true;
			b->left_expected = true;
		}
	}
	/* a slow disk is waited for here, before the sandbox is told that it has started; an error shows when the worker is linked */
	if (b->slots.map == NULL)
		slotfile_make(&b->slots, a->dir_fd, b->id, b->name, &err);
	ipc_send(c, MSG_SANDBOX_OK, s->generation, 0, &ref, sizeof(ref), NULL, 0);
}

static void sandbox_gone(struct audit *a, uint32_t id)
{
	struct box *b = find(a, id);

	if (b == NULL || b->gone)
		return;
	b->gone = true;
	b->gone_ms = loop_now_ms(a->loop);
	if (b->link == NULL)
		box_over(a, b);
	else
		ipc_pause(b->link, false); /* its end is what is waited for */
}

/* --- time ---------------------------------------------------------------------------------------------------------- */

static void checkpoint(struct audit *a, uint64_t now, bool last)
{
	struct err err = ERR_INIT;

	if (a->log.unsynced > 0 && (last || now - a->checkpoint_ms >= CHECKPOINT_MS))
		add_checkpoint(a);
	if (a->anchor_due && (last || now - a->anchor_ms >= ANCHOR_MS)) {
		flush(a);
		if (buf_len(&a->log.pending) > 0)
			return; /* cannot be written now */
		if (logfile_anchor(&a->log, &err) < 0) {
			set_state(a, false, err.text);
			return;
		}
		a->anchor_due = false;
		a->anchor_ms = now;
	}
}

/* False: it was moved or removed, and there cannot be another. */
static bool look_at_file(struct audit *a)
{
	struct log_found found;
	struct err err = ERR_INIT;
	struct logfile fresh;

	if (!logfile_lost(&a->log) || buf_len(&a->log.pending) > 0)
		return true;
	if (logfile_open(&fresh, a->dir_fd, a->chain, &found, &err) < 0) {
		set_state(a, false, err.text);
		return false;
	}
	/* the chain goes on where it was, whatever stands in that file */
	fresh.sequence = a->log.sequence;
	memcpy(fresh.prev, a->log.prev, CHAIN_HEX);
	fresh.unsynced = a->log.unsynced;
	logfile_close(&a->log);
	a->log = fresh;
	log_error("%s was moved or removed from outside; a new one is begun", CHAIN_FILE);
	add_own(a, "finding", "log_moved", "the file of records was moved or removed while the gateway ran");
	return true;
}

static void on_tick(struct timer *t)
{
	struct audit *a = (struct audit *)((char *)t - offsetof(struct audit, tick));
	uint64_t now = loop_now_ms(a->loop);
	struct box *next;

	for (struct box *b = a->boxes; b != NULL; b = next) {
		next = b->next;
		folds_flush(b->folds, now, false, add_folded, b);
		if (b->left_due_ms != 0 && now >= b->left_due_ms)
			resolve_of(a, b, b);
		if (b->gone && b->link != NULL && now - b->gone_ms >= GONE_MS)
			unlink_worker(a, b);
	}
	if (look_at_file(a)) {
		flush(a); /* also when nothing is pending: is there space again? */
		checkpoint(a, now, false);
	}
	if (!a->ending)
		timer_start(a->loop, &a->tick, TICK_MS, on_tick);
}

/* --- the end ------------------------------------------------------------------------------------------------------- */

static void finish(struct audit *a)
{
	struct box *next;

	if (a->secrets != NULL)
		ipc_pump(a->secrets); /* releases that were said and not read yet */
	flush(a);
	for (struct box *b = a->boxes; b != NULL; b = next) {
		next = b->next;
		if (b->link != NULL) {
			struct ipc *c = b->link;

			b->link = NULL;
			ipc_free(c);
			slots_over(a, b);
		}
		box_over(a, b);
	}
	for (struct left *l = a->left; l != NULL; l = l->next)
		resolve(a, l, NULL);
	flush(a);
	checkpoint(a, loop_now_ms(a->loop), true);
	flush(a);
	if (buf_len(&a->log.pending) > 0)
		log_error("the gateway ends with records that could not be written: %s", a->reason);
	logfile_close(&a->log);
	a->over = true;
	loop_stop(a->loop);
}

static void finish_if_over(struct audit *a)
{
	bool waits = a->secrets != NULL;

	if (a->over)
		return;
	for (struct box *b = a->boxes; b != NULL; b = b->next)
		if (b->link != NULL)
			waits = true;
	if (waits && loop_now_ms(a->loop) - a->ending_ms < GONE_MS)
		return;
	timer_stop(&a->tick);
	finish(a);
}

static void on_ending(struct timer *t)
{
	struct audit *a = (struct audit *)((char *)t - offsetof(struct audit, tick));

	timer_start(a->loop, &a->tick, 50, on_ending);
	finish_if_over(a);
}

/* The gateway stops, or the supervisor is lost: the workers end, and what they leave is recorded. Audit is the last. */
static void begin_end(struct audit *a)
{
	if (a->ending)
		return;
	a->ending = true;
	a->ending_ms = loop_now_ms(a->loop);
	timer_stop(&a->tick);
	timer_start(a->loop, &a->tick, 0, on_ending);
}

/* --- start --------------------------------------------------------------------------------------------------------- */

/* Up to the next quote: what stands there has none. */
static struct str text_behind(struct str line, const char *key)
{
	ptrdiff_t at = str_find(line, str_of(key));
	const char *p, *end;

	if (at < 0)
		return STR("");
	p = line.p + at + strlen(key);
	end = memchr(p, '"', line.n - (size_t)(p - line.p));
	return end != NULL ? str_mk(p, (size_t)(end - p)) : STR("");
}

static void remember_line(void *arg, struct str line)
{
	static const char uid_key[] = ",\"uid\":\"", request_key[] = "\"http_request\":{\"uid\":\"", sandbox_key[] = "\"src_endpoint\":{\"name\":\"";
	struct audit *a = arg;
	ptrdiff_t at = str_find(line, str_of(uid_key));
	char name[MSG_NAME_MAX];
	struct str id, sandbox;
	uint64_t h = 0;

	if (at < 0 || line.n - (size_t)at < sizeof(uid_key) - 1 + 16)
		return;
	for (int i = 0; i < 16; i++) {
		char c = line.p[(size_t)at + sizeof(uid_key) - 1 + (size_t)i];

		h = h << 4 | (uint64_t)(c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : 0);
	}
	idset_add_hash(&a->seen, h);
	id = text_behind(line, request_key);
	sandbox = text_behind(line, sandbox_key);
	if (id.n == 0)
		return;
	snprintf(name, sizeof(name), "%.*s", (int)(sandbox.n < sizeof(name) ? sandbox.n : 0), sandbox.p);
	idset_add_hash(&a->recorded, request_of(name, id));
}

/* After the doors are shut: the log's text came from sandboxes. */
static void open_log(struct audit *a)
{
	struct log_found found;
	struct err err = ERR_INIT;
	char text[200];

	if (logfile_open(&a->log, a->dir_fd, a->chain, &found, &err) < 0) {
		log_error("%s", err.text);
		_exit(1);
	}
	logfile_tail(a->dir_fd, remember_line, a);
	a->left = left_scan(a->dir_fd, &err);
	if (err.text[0] != 0)
		log_error("in-flight slots of an earlier life stay as they are: %s", err.text);
	a->ok = true;
	if (found.damaged)
		add_own(a, "finding", "log_damaged", "the last record of the log could not be verified; the file was put aside unchanged");
	if (found.missing > 0) {
		snprintf(text, sizeof(text), "the log ends %llu records before its last checkpoint", (unsigned long long)found.missing);
		add_own(a, "finding", "log_truncated", text);
		log_error("%s", text);
	}
	if (found.anchor_missing)
		add_own(a, "finding", "checkpoint_missing", "there are records, but the checkpoint file is missing or not valid");
	if (found.cut > 0) {
		snprintf(text, sizeof(text), "%llu octets of an unfinished record were cut off", (unsigned long long)found.cut);
		add_own(a, "lifecycle", "", text);
	}
	a->checkpoint_ms = a->anchor_ms = loop_now_ms(a->loop);
	flush(a);
	a->anchor_due = true; /* from the first moment on there is one */
	checkpoint(a, a->anchor_ms + ANCHOR_MS, false);
	a->anchor_ms = loop_now_ms(a->loop);
	timer_start(a->loop, &a->tick, TICK_MS, on_tick);
}

static void start(struct audit *a, struct ipc *c, struct ipc_msg *m)
{
	struct err err = ERR_INIT;
	uint8_t seed[16];

	if (a->chain != NULL)
		return;
	a->chain = m->fd_n == 2 ? chain_load(m->fds[1], &err) : NULL;
	if (a->chain == NULL) {
		log_error("%s", err.text[0] ? err.text : "the directory of the records and the chain key were not handed over");
		_exit(1);
	}
	a->dir_fd = m->fds[0];
	m->fds[0] = -1;
	/* also warms the digest. The seed is the same in each life: uids are compared with those in the log */
	chain_seed(a->chain, seed);
	hash_seed(seed);
	explicit_bzero(seed, sizeof(seed));
	role_ready(c, ROLE_AUDIT, a->dir_fd);
	open_log(a);
}

static void on_supervisor(struct ipc *c, const struct ipc_msg *cm)
{
	struct audit *a = ipc_arg(c);
	struct ipc_msg *m = (struct ipc_msg *)(uintptr_t)cm;

	if (m == NULL) {
		a->sup = NULL;
		ipc_free(c);
		if (a->chain == NULL)
			_exit(0);
		begin_end(a);
		return;
	}
	if (m->type != MSG_START && a->chain == NULL)
		return;
	switch (m->type) {
	case MSG_START:
		start(a, c, m);
		break;
	case MSG_SANDBOX:
		take_sandbox(a, c, m);
		break;
	case MSG_PEER:
		take_peer(a, m);
		break;
	case MSG_SANDBOX_GONE:
		sandbox_gone(a, ((const struct msg_sandbox_ref *)(const void *)m->data)->sandbox);
		break;
	case MSG_SYNC:
		for (struct left *l = a->left; l != NULL; l = l->next)
			if (!l->expected)
				resolve(a, l, NULL);
		break;
	case MSG_LIFECYCLE:
		add(a, ORIGIN_SUPERVISOR, "", false, hash_bytes(m->data, m->len), m->data, m->len);
		break;
	case MSG_SHUTDOWN:
		begin_end(a);
		break;
	default:
		break;
	}
}

int audit_main(int link_fd)
{
	struct audit *a = &the_audit;

	log_title("audit");
	signal(SIGPIPE, SIG_IGN);
	a->dir_fd = -1;
	a->loop = loop_new();
	a->sup = ipc_new(a->loop, link_fd, ROLE_AUDIT, ROLE_SUPERVISOR, on_supervisor, a);
	loop_run(a->loop);
	chain_free(a->chain);
	idset_fini(&a->seen);
	idset_fini(&a->recorded);
	return 0;
}
