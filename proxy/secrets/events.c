/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every release is recorded. The first of (sandbox, secret, destination, outcome) at once, the following ones of the same
 * minute as one record with a count. What audit could not be told yet stays here.
 */
#include <stdlib.h>

#include "../../common/base/must.h"
#include "../../common/record.h"
#include "../../common/sys/clock.h"
#include "secrets.h"

#define FOLD_MS 60000
#define TICK_MS 1000
#define EVENTS_MAX 4096
#define TEXT_MAX 300

struct event {
	struct event *next;
	uint32_t sandbox;
	enum inject_kind kind;
	bool released, unbound;
	char *name, *secret, *host, *cause;
	uint64_t since_ms; /* loop time of the minute's start; 0: to be written at once */
	uint64_t wall_ms;  /* of the last one */
	uint64_t count;    /* not yet written */
};
struct events {
	struct loop *loop;
	struct ipc *audit;
	struct event *head;
	size_t n;
	struct timer tick;
};

static char *copy(struct str s)
{
	size_t n = s.n > TEXT_MAX ? TEXT_MAX : s.n;
	char *z = must_malloc(n + 1);

	if (n > 0)
		memcpy(z, s.p, n);
	z[n] = 0;
	return z;
}

static void free_event(struct event *v)
{
	free(v->name);
	free(v->secret);
	free(v->host);
	free(v->cause);
	free(v);
}

static bool write_event(struct events *e, struct event *v)
{
	static const char *const kinds[] = { "nothing", "bearer", "basic", "header" };
	struct msg_record m = { .number = 0, .slot = INFLIGHT_NO_SLOT };
	struct buf b = { 0 }, text = { 0 };
	bool ok;

	if (e->audit == NULL || v->count == 0)
		return v->count == 0;
	record_s(&b, REC_KIND, v->unbound ? STR("finding") : STR("secret"));
	record_s(&b, REC_SANDBOX, str_of(v->name));
	record_s(&b, REC_DECISION, v->released ? STR("allow") : STR("deny"));
	if (!v->released)
		record_s(&b, REC_CODE, v->unbound ? STR("secret_unbound") : STR("credential_unavailable"));
	record_s(&b, REC_REASON, str_of(v->cause));
	record_s(&b, REC_SECRET, str_of(v->secret));
	record_s(&b, REC_HOST, str_of(v->host));
	record_u(&b, REC_TIME_MS, v->wall_ms);
	if (v->count > 1)
		record_u(&b, REC_COUNT, v->count);
	buf_addz(&text, v->released ? "released as " : v->unbound ? "a worker asked for a secret that its policy does not bind there, as " : "could not be released as ");
	buf_addz(&text, (unsigned)v->kind < sizeof(kinds) / sizeof(kinds[0]) ? kinds[v->kind] : "an unknown kind");
	record_s(&b, REC_MESSAGE, buf_str(&text));
	ok = ipc_send2(e->audit, MSG_EVENT, 0, 0, &m, sizeof(m), buf_data(&b), buf_len(&b), NULL, 0);
	if (ok)
		v->count = 0;
	buf_fini(&b);
	buf_fini(&text);
	return ok;
}

/* Writes what is due; forgets what had no repeat within its minute. */
static void sweep(struct events *e, uint32_t only_sandbox)
{
	uint64_t now = loop_now_ms(e->loop);

	for (struct event **p = &e->head; *p != NULL;) {
		struct event *v = *p;
		bool over = v->since_ms == 0 || now - v->since_ms >= FOLD_MS || (only_sandbox != 0 && v->sandbox == only_sandbox);
		bool had = v->count > 0;

		if (!over || (had && !write_event(e, v))) {
			p = &v->next;
			continue;
		}
		if (had && only_sandbox == 0) {
			v->since_ms = now; /* a new minute begins */
			p = &v->next;
			continue;
		}
		*p = v->next;
		e->n--;
		free_event(v);
	}
}

static void on_tick(struct timer *t)
{
	struct events *e = (struct events *)((char *)t - offsetof(struct events, tick));

	sweep(e, 0);
	timer_start(e->loop, &e->tick, TICK_MS, on_tick);
}

struct events *events_new(struct loop *l)
{
	struct events *e = must_calloc(1, sizeof(*e));

	e->loop = l;
	timer_start(l, &e->tick, TICK_MS, on_tick);
	return e;
}

void events_free(struct events *e)
{
	if (e == NULL)
		return;
	timer_stop(&e->tick);
	while (e->head != NULL) {
		struct event *v = e->head;

		e->head = v->next;
		free_event(v);
	}
	free(e);
}

void events_link(struct events *e, struct ipc *audit)
{
	e->audit = audit;
	if (audit != NULL)
		sweep(e, 0);
}

bool events_ready(const struct events *e) { return e->audit != NULL && e->n < EVENTS_MAX; }

void events_add(struct events *e, uint32_t sandbox, struct str name, struct str secret, struct str host, enum inject_kind kind, bool released, bool unbound, struct str cause)
{
	struct event *v;

	for (v = e->head; v != NULL; v = v->next)
		if (v->sandbox == sandbox && v->kind == kind && v->released == released && v->unbound == unbound && str_eq(str_of(v->secret), secret) && str_eq(str_of(v->host), host))
			break;
	if (v == NULL) {
		if (e->n >= EVENTS_MAX) /* only refusals come here then: see events_ready */
			return;
		v = must_calloc(1, sizeof(*v));
		v->sandbox = sandbox;
		v->kind = kind;
		v->released = released;
		v->unbound = unbound;
		v->name = copy(name);
		v->secret = copy(secret);
		v->host = copy(host);
		v->cause = copy(cause);
		v->next = e->head;
		e->head = v;
		e->n++;
	}
	v->count++;
	v->wall_ms = clock_wall_ms();
	if (v->since_ms == 0 && write_event(e, v))
		v->since_ms = loop_now_ms(e->loop);
}

void events_sandbox_gone(struct events *e, uint32_t sandbox) { sweep(e, sandbox); }
