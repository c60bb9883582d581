/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The audit role: turns records into lines of one chained log. What arrives in a turn is written with one write; only
 * then is it acknowledged and its in-flight slot cleared. If a write fails nothing is lost: the lines wait here, every
 * worker is told and refuses new requests, and the write is tried again. A worker that dies leaves open slots: they
 * become `worker_lost` records.
 *
 * In-flight files are kept across our own death: those of sandboxes that the supervisor announces again stay as they are
 * (their workers send again what was not acknowledged; ids found at the end of the log are not written twice), the rest
 * is closed at SYNC.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../common/base/must.h"
#include "../../common/policy/table.h"
#include "../../common/sys/clock.h"
#include "../../common/sys/ipc.h"
#include "../../common/sys/log.h"
#include "../../common/sys/role.h"
#include "../roles.h"
#include "chain.h"
#include "format.h"

#define LOG_NAME "audit.jsonl"
#define ROTATE_BYTES (256u << 20)
#define TAIL_BYTES (1u << 20)      /* of the log, read at start */
#define AHEAD_BYTES (2u << 20)     /* log space kept allocated: one line for every slot */
#define CHECKPOINT_RECORDS 1000
#define CHECKPOINT_MS 60000
#define RETRY_MS 500
#define BATCH_MAX (8u << 20)       /* lines waiting for a disk that does not take them */
#define GONE_MS 3000
#define SEEN_MAX 65536

struct box {
	struct box *next;
	uint32_t id, generation;
	char name[MSG_NAME_MAX];
	struct ipc *worker;
	int fd;
	struct inflight_slot *slots;
	uint64_t last_number, acked;
	uint32_t *clear; /* slots to clear with the next write */
	size_t clear_n, clear_cap;
	bool gone;
	struct timer gone_timer;
};
static struct {
	struct loop *loop;
	struct ipc *sup, *secrets;
	struct box *boxes;
	int dir_fd, log_fd;
	uint8_t key[CHAIN_KEY_LEN];
	char prev[CHAIN_HEX + 1];
	uint64_t sequence, size, allocated;
	struct buf batch;
	size_t batch_lines, since_checkpoint;
	uint64_t checkpoint_ms;
	bool flush_due, failing, checkpoint_open;
	char why[200];
	struct timer retry, tick;
	uint64_t seen[SEEN_MAX]; /* hashes of (kind, request id) at the end of the log when we started */
	size_t seen_n;
} a;

static void flush_batch(void);

/* --- lines --------------------------------------------------------------------------------------------------------- */

static void on_flush(void *arg)
{
	(void)arg;
	a.flush_due = false;
	flush_batch();
}

static uint64_t seen_key(struct str kind, struct str id)
{
	char t[256];
	int n = snprintf(t, sizeof(t), "%.*s %.*s", (int)(kind.n > 60 ? 60 : kind.n), kind.p, (int)(id.n > 100 ? 100 : id.n), id.p);

	return hash_bytes(t, (size_t)n);
}

static bool was_seen(struct str kind, struct str id)
{
	uint64_t k;

	if (a.seen_n == 0 || id.n == 0 || str_eq(kind, STR("finding")))
		return false;
	k = seen_key(kind, id);
	for (size_t i = 0; i < a.seen_n; i++)
		if (a.seen[i] == k)
			return true;
	return false;
}

/* One record to the batch. check_seen: it may be a repeat from before our start. */
static void append(struct str sandbox, const uint8_t *fields, size_t n, bool from_supervisor, bool check_seen)
{
	struct record_context c = { sandbox, a.sequence + 1, clock_wall_ms(), from_supervisor };
	struct buf line = { 0 }, own = { 0 };
	struct str id, kind;

	if (!record_format(&line, &c, fields, n, &id, &kind)) {
		/* a sender that breaks the form is itself worth a record */
		buf_clear(&line);
		record_s(&own, REC_KIND, STR("finding"));
		record_s(&own, REC_CODE, STR("malformed_record"));
		record_s(&own, REC_MESSAGE, STR("a role sent a record that breaks its form"));
		if (!record_format(&line, &c, buf_data(&own), buf_len(&own), &id, &kind))
			goto out;
	}
	if (check_seen && was_seen(kind, id))
		goto out;
	a.sequence++;
	chain_close(&line, a.key, a.prev);
	buf_adds(&a.batch, buf_str(&line));
	a.batch_lines++;
	if (!a.flush_due && !a.failing) {
		a.flush_due = true;
		loop_defer(a.loop, on_flush, NULL);
	}
out:
	buf_fini(&line);
	buf_fini(&own);
}

static void note(const char *kind, const char *message)
{
	struct buf b = { 0 };

	record_s(&b, REC_KIND, str_of(kind));
	record_s(&b, REC_MESSAGE, str_of(message));
	append(STR_NONE, buf_data(&b), buf_len(&b), false, false);
	buf_fini(&b);
}

static void tell_state(struct box *b)
{
	struct msg_audit_state m = { .ok = !a.failing };

	if (b->worker != NULL)
		ipc_send2(b->worker, MSG_AUDIT_STATE, b->generation, 0, &m, sizeof(m), a.why, a.failing ? strlen(a.why) : 0, NULL, 0);
}

static void on_retry(struct timer *t)
{
	(void)t;
	flush_batch();
}

static void set_failing(bool failing, const char *what)
{
	if (failing)
		snprintf(a.why, sizeof(a.why), "%s: %s", what, strerror(errno));
	if (failing != a.failing) {
		a.failing = failing;
		if (failing)
			log_error("the audit log cannot be written (%s): new requests are refused until it can", a.why);
		else
			log_info("the audit log can be written again");
		for (struct box *b = a.boxes; b != NULL; b = b->next)
			tell_state(b);
	}
	if (failing)
		timer_start(a.loop, &a.retry, RETRY_MS, on_retry);
}

/* Space ahead of need: a full disk shows before a request is under way, not after. */
static bool allocate_ahead(void)
{
	if (a.size + AHEAD_BYTES / 2 < a.allocated)
		return true;
	if (fallocate(a.log_fd, FALLOC_FL_KEEP_SIZE, (off_t)a.size, AHEAD_BYTES) != 0 && errno != EOPNOTSUPP && errno != ENOSYS)
		return false;
	a.allocated = a.size + AHEAD_BYTES;
	return true;
}

static bool open_log(void)
{
	struct stat st;

	a.log_fd = openat(a.dir_fd, LOG_NAME, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (a.log_fd < 0 || fstat(a.log_fd, &st) != 0)
		return false;
	a.size = (uint64_t)st.st_size;
	a.allocated = 0;
	return true;
}

static void rotate(void)
{
	char name[64];

	if (a.size < ROTATE_BYTES)
		return;
	snprintf(name, sizeof(name), "audit-%020llu.jsonl", (unsigned long long)a.sequence);
	fsync(a.log_fd);
	if (renameat(a.dir_fd, LOG_NAME, a.dir_fd, name) != 0)
		return; /* goes on in the old one */
	close(a.log_fd);
	if (!open_log())
		set_failing(true, "cannot open a new log after rotation");
}

static void acknowledge(struct box *b)
{
	struct msg_recorded m = { b->last_number };

	for (size_t i = 0; i < b->clear_n; i++)
		__atomic_store_n(&b->slots[b->clear[i]].state, 0, __ATOMIC_RELEASE);
	b->clear_n = 0;
	if (b->worker != NULL && b->acked != b->last_number) {
		ipc_send(b->worker, MSG_RECORDED, b->generation, 0, &m, sizeof(m), NULL, 0);
		b->acked = b->last_number;
	}
}

static void flush_batch(void)
{
	size_t whole = buf_len(&a.batch);

	if (a.log_fd < 0 && !open_log()) {
		set_failing(true, "cannot open " LOG_NAME);
		return;
	}
	if (!allocate_ahead()) {
		set_failing(true, "no space for the log");
		return;
	}
	if (whole > 0) {
		/* all or nothing for each try: a part that was written is taken off again */
		ssize_t n = write(a.log_fd, buf_data(&a.batch), whole);

		if (n != (ssize_t)whole) {
			if (n >= 0) {
				errno = ENOSPC;
				if (ftruncate(a.log_fd, (off_t)a.size) != 0)
					log_error("a half-written record could not be taken back");
			}
			set_failing(true, "cannot append to " LOG_NAME);
			return;
		}
		a.size += whole;
		a.since_checkpoint += a.batch_lines;
		a.batch_lines = 0;
		buf_clear(&a.batch);
		if (a.batch.cap > 65536)
			buf_fini(&a.batch);
		a.checkpoint_open = true;
	}
	set_failing(false, NULL);
	for (struct box *b = a.boxes; b != NULL; b = b->next)
		acknowledge(b);
	rotate();
	if (a.since_checkpoint >= CHECKPOINT_RECORDS) {
		a.since_checkpoint = 0;
		a.checkpoint_ms = loop_now_ms(a.loop);
		a.checkpoint_open = false;
		note("checkpoint", "checkpoint");
	}
}

/* --- in-flight slots ----------------------------------------------------------------------------------------------- */

static bool map_slots(struct box *b, const char *name)
{
	size_t len = sizeof(*b->slots) * INFLIGHT_SLOTS;
	struct stat st;

	b->fd = openat(a.dir_fd, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (b->fd < 0 || fstat(b->fd, &st) != 0 || ((size_t)st.st_size != len && ftruncate(b->fd, (off_t)len) != 0))
		return false;
	fallocate(b->fd, 0, 0, (off_t)len);
	b->slots = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, b->fd, 0);
	if (b->slots == MAP_FAILED)
		b->slots = NULL;
	return b->slots != NULL;
}

static void unmap_slots(struct box *b)
{
	if (b->slots != NULL)
		munmap(b->slots, sizeof(*b->slots) * INFLIGHT_SLOTS);
	if (b->fd >= 0)
		close(b->fd);
	b->slots = NULL;
	b->fd = -1;
}

/* What a dead worker left open. */
static void close_open_slots(struct box *b)
{
	struct buf f = { 0 };

	for (uint32_t i = 0; b->slots != NULL && i < INFLIGHT_SLOTS; i++) {
		struct inflight_slot *s = &b->slots[i];
		uint8_t copy[sizeof(s->fields)];
		uint32_t len;
		bool done = false;

		if (__atomic_load_n(&s->state, __ATOMIC_ACQUIRE) != 1)
			continue;
		for (size_t k = 0; k < b->clear_n; k++)
			done = done || b->clear[k] == i; /* its record is in the batch */
		if (done)
			continue;
		len = s->len <= sizeof(copy) ? s->len : 0;
		memcpy(copy, s->fields, len); /* the other side could still write: one copy, then it is read */
		buf_clear(&f);
		buf_add(&f, copy, len);
		record_s(&f, REC_DECISION, STR("deny"));
		record_s(&f, REC_CODE, STR("worker_lost"));
		record_s(&f, REC_REASON, STR("the process that served this sandbox ended before the request did"));
		append(str_of(b->name), buf_data(&f), buf_len(&f), false, true);
		if (b->clear_n == b->clear_cap) {
			b->clear_cap = b->clear_cap ? b->clear_cap * 2 : 64;
			b->clear = must_realloc(b->clear, b->clear_cap * sizeof(*b->clear));
		}
		b->clear[b->clear_n++] = i;
	}
	buf_fini(&f);
}

static struct box *find(uint32_t id)
{
	struct box *b;

	for (b = a.boxes; b != NULL; b = b->next)
		if (b->id == id)
			return b;
	return NULL;
}

static void free_later(void *p) { free(p); }

static void finalize(struct box *b)
{
	char name[40];

	close_open_slots(b);
	flush_batch();
	if (b->clear_n == 0) { /* else the file stays until its records are written; the next start closes it */
		snprintf(name, sizeof(name), "inflight.%u", b->id);
		unlinkat(a.dir_fd, name, 0);
	}
	for (struct box **p = &a.boxes; *p != NULL; p = &(*p)->next) {
		if (*p == b) {
			*p = b->next;
			break;
		}
	}
	timer_stop(&b->gone_timer);
	ipc_free(b->worker);
	unmap_slots(b);
	free(b->clear);
	loop_defer(a.loop, free_later, b);
}

static void on_gone_late(struct timer *t) { finalize((struct box *)((char *)t - offsetof(struct box, gone_timer))); }

static void on_worker(struct ipc *c, const struct ipc_msg *m)
{
	struct box *b = ipc_arg(c);
	const struct msg_record *r;

	if (m == NULL) {
		if (b->worker == c)
			b->worker = NULL;
		ipc_free(c);
		close_open_slots(b);
		if (b->gone)
			finalize(b);
		return;
	}
	if (m->type != MSG_RECORD)
		return;
	r = (const void *)m->data;
	if (r->number <= b->last_number || buf_len(&a.batch) > BATCH_MAX)
		return; /* a repeat within our life; or wait: it will be sent again on a new link */
	b->last_number = r->number;
	append(str_of(b->name), m->data + sizeof(*r), m->len - sizeof(*r), false, true);
	if (r->slot < INFLIGHT_SLOTS) {
		if (b->clear_n == b->clear_cap) {
			b->clear_cap = b->clear_cap ? b->clear_cap * 2 : 64;
			b->clear = must_realloc(b->clear, b->clear_cap * sizeof(*b->clear));
		}
		b->clear[b->clear_n++] = r->slot;
	}
	if (!a.flush_due && !a.failing) { /* also for a repeat that is only acknowledged */
		a.flush_due = true;
		loop_defer(a.loop, on_flush, NULL);
	}
}

static void on_secrets(struct ipc *c, const struct ipc_msg *m)
{
	if (m == NULL) {
		if (a.secrets == c)
			a.secrets = NULL;
		ipc_free(c);
		return;
	}
	/* secrets serves all sandboxes and says for which: it is believed like the supervisor */
	append(STR_NONE, m->data + sizeof(struct msg_record), m->len - sizeof(struct msg_record), true, false);
}

static void take_peer(struct ipc_msg *m)
{
	const struct msg_peer *p = (const void *)m->data;
	struct msg_inflight f = { INFLIGHT_SLOTS, INFLIGHT_SLOT_SIZE };
	struct box *b;

	if (m->fd_n != 1)
		return;
	if (p->role == ROLE_SECRETS) {
		ipc_free(a.secrets);
		a.secrets = ipc_new(a.loop, m->fds[0], ROLE_AUDIT, ROLE_SECRETS, on_secrets, NULL);
		m->fds[0] = -1;
		return;
	}
	b = find(p->sandbox);
	if (b == NULL || p->role != ROLE_WORKER)
		return;
	if (b->worker != NULL) {
		/* the old worker is dead: what it had sent comes first, then what it left open */
		ipc_pump(b->worker);
		if (b->worker != NULL) {
			ipc_free(b->worker);
			b->worker = NULL;
			close_open_slots(b);
		}
	}
	b->last_number = b->acked = 0;
	b->worker = ipc_new(a.loop, m->fds[0], ROLE_AUDIT, ROLE_WORKER, on_worker, b);
	m->fds[0] = -1;
	ipc_send(b->worker, MSG_INFLIGHT, b->generation, 0, &f, sizeof(f), &b->fd, 1);
	if (a.failing)
		tell_state(b);
}

static void take_sandbox(const struct ipc_msg *m)
{
	const struct msg_sandbox *s = (const void *)m->data;
	struct msg_sandbox_ref ref = { s->sandbox, s->generation };
	struct box *b = find(s->sandbox);
	static const char text[] = "the in-flight file cannot be made";
	char name[40];

	if (b == NULL) {
		b = must_calloc(1, sizeof(*b));
		b->id = s->sandbox;
		b->fd = -1;
		snprintf(name, sizeof(name), "inflight.%u", s->sandbox);
		if (!map_slots(b, name)) {
			log_error("%s: %s", text, strerror(errno));
			unmap_slots(b);
			free(b);
			ipc_send2(a.sup, MSG_SANDBOX_BAD, s->generation, 0, &ref, sizeof(ref), text, sizeof(text) - 1, NULL, 0);
			return;
		}
		b->next = a.boxes;
		a.boxes = b;
	}
	b->generation = s->generation;
	memcpy(b->name, s->name, sizeof(b->name));
	b->name[sizeof(b->name) - 1] = 0;
	ipc_send(a.sup, MSG_SANDBOX_OK, s->generation, 0, &ref, sizeof(ref), NULL, 0);
}

/* Every live sandbox is known by now: other in-flight files are what a crash left. */
static void sync_leftovers(void)
{
	int fd = openat(a.dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *e;

	while (d != NULL && (e = readdir(d)) != NULL) {
		struct box b = { .fd = -1 };

		if (sscanf(e->d_name, "inflight.%u", &b.id) != 1 || find(b.id) != NULL)
			continue;
		snprintf(b.name, sizeof(b.name), "unknown");
		if (map_slots(&b, e->d_name)) {
			close_open_slots(&b);
			flush_batch();
		}
		unmap_slots(&b);
		free(b.clear);
		if (!a.failing)
			unlinkat(a.dir_fd, e->d_name, 0);
	}
	if (d != NULL)
		closedir(d);
}

/* --- start and end ------------------------------------------------------------------------------------------------- */

/* The end of the log gives chain, sequence and the ids that may come again. A torn last line is taken off. */
static bool read_tail(void)
{
	struct buf b = { 0 };
	off_t from = a.size > TAIL_BYTES ? (off_t)(a.size - TAIL_BYTES) : 0;
	const char *p, *end, *nl;
	bool first = true;
	ssize_t n;

	memset(a.prev, '0', CHAIN_HEX);
	if (a.size == 0) {
		a.sequence = 0;
		return true;
	}
	while ((n = pread(a.log_fd, buf_room(&b, 65536), 65536, from + (off_t)buf_len(&b))) > 0)
		buf_commit(&b, (size_t)n);
	p = (const char *)buf_data(&b);
	end = p + buf_len(&b);
	if (end > p && end[-1] != '\n') {
		const char *last = memrchr(p, '\n', (size_t)(end - p));
		uint64_t keep = last != NULL ? (uint64_t)from + (uint64_t)(last - p) + 1 : 0;

		log_error("the last record was torn by a crash and is taken off");
		if (ftruncate(a.log_fd, (off_t)keep) != 0)
			return false;
		a.size = keep;
		end = last != NULL ? last + 1 : p;
	}
	while (p < end && (nl = memchr(p, '\n', (size_t)(end - p))) != NULL) {
		struct str line = str_mk(p, (size_t)(nl - p));
		ptrdiff_t at;

		p = nl + 1;
		if (first && from > 0) { /* begins in the middle */
			first = false;
			continue;
		}
		first = false;
		if (!chain_hash_of(line, a.prev))
			continue;
		at = str_find(line, STR("\"sequence\":"));
		if (at >= 0)
			a.sequence = strtoull(line.p + at + 11, NULL, 10);
		at = str_find(line, STR("\"metadata\":{"));
		if (at >= 0 && a.seen_n < SEEN_MAX) {
			struct str rest = str_mk(line.p + at, line.n - (size_t)at), kind = STR("request");
			ptrdiff_t u = str_find(rest, STR("\"uid\":\"")), k = str_find(line, STR("\"kind\":\""));
			const char *q;

			if (u >= 0 && k >= 0) {
				struct str id = str_mk(rest.p + u + 7, rest.n - (size_t)u - 7);

				q = memchr(id.p, '"', id.n);
				id.n = q ? (size_t)(q - id.p) : 0;
				kind = str_mk(line.p + k + 8, line.n - (size_t)k - 8);
				q = memchr(kind.p, '"', kind.n);
				kind.n = q ? (size_t)(q - kind.p) : 0;
				a.seen[a.seen_n++] = seen_key(kind, id);
			}
		}
	}
	buf_fini(&b);
	return true;
}

static void on_tick(struct timer *t)
{
	(void)t;
	if (a.checkpoint_open && !a.failing && loop_now_ms(a.loop) - a.checkpoint_ms > CHECKPOINT_MS) {
		a.checkpoint_ms = loop_now_ms(a.loop);
		a.checkpoint_open = false;
		a.since_checkpoint = 0;
		note("checkpoint", "checkpoint");
	}
	timer_start(a.loop, &a.tick, 5000, on_tick);
}

static void start(struct ipc_msg *m)
{
	char hex[CHAIN_HEX + 1];
	struct buf warm = { 0 };

	if (m->fd_n != 2 || pread(m->fds[1], a.key, sizeof(a.key), 0) != (ssize_t)sizeof(a.key)) {
		log_error("audit/chain.key is not 32 octets long");
		_exit(1);
	}
	a.dir_fd = m->fds[0];
	m->fds[0] = -1;
	/* whatever the digest loads lazily */
	memset(hex, '0', CHAIN_HEX);
	chain_close(&warm, a.key, hex);
	buf_fini(&warm);
	role_ready(a.sup, ROLE_AUDIT, a.dir_fd);
	if (!open_log() || !read_tail()) {
		log_error("audit/" LOG_NAME " cannot be opened: %s", strerror(errno));
		_exit(1);
	}
	a.checkpoint_ms = loop_now_ms(a.loop);
	note("lifecycle", "audit started");
	timer_start(a.loop, &a.tick, 5000, on_tick);
}

static void shut_down(void)
{
	while (a.boxes != NULL) {
		struct box *b = a.boxes;

		if (b->worker != NULL)
			ipc_pump(b->worker);
		if (a.boxes == b)
			finalize(b);
	}
	if (a.secrets != NULL)
		ipc_pump(a.secrets);
	note("checkpoint", "audit ended");
	flush_batch();
	if (a.log_fd >= 0)
		fsync(a.log_fd);
	_exit(0);
}

static void on_supervisor(struct ipc *c, const struct ipc_msg *cm)
{
	struct ipc_msg *m = (struct ipc_msg *)(uintptr_t)cm;

	(void)c;
	if (m == NULL)
		shut_down(); /* loss of the supervisor: open slots are closed, and we are last */
	switch (m->type) {
	case MSG_START:
		start(m);
		break;
	case MSG_SANDBOX:
		take_sandbox(m);
		break;
	case MSG_PEER:
		take_peer(m);
		break;
	case MSG_SYNC:
		sync_leftovers();
		break;
	case MSG_LIFECYCLE:
		append(STR_NONE, m->data, m->len, true, false);
		break;
	case MSG_SANDBOX_GONE: {
		struct box *b = find(((const struct msg_sandbox_ref *)(const void *)m->data)->sandbox);

		if (b == NULL)
			break;
		b->gone = true;
		if (b->worker == NULL)
			finalize(b);
		else
			timer_start(a.loop, &b->gone_timer, GONE_MS, on_gone_late);
		break;
	}
	case MSG_SHUTDOWN:
		shut_down();
		break;
	default:
		break;
	}
}

int audit_main(int link_fd)
{
	uint8_t seed[16];

	log_title("audit");
	signal(SIGPIPE, SIG_IGN);
	random_fill(seed, sizeof(seed));
	hash_seed(seed);
	a.dir_fd = a.log_fd = -1;
	a.loop = loop_new();
	a.sup = ipc_new(a.loop, link_fd, ROLE_AUDIT, ROLE_SUPERVISOR, on_supervisor, NULL);
	loop_run(a.loop);
	return 0;
}
