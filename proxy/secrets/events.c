/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every release is recorded. The first of (sandbox, secret, destination, outcome, cause) at once, the following ones of the same
 * minute as one record with a count. What audit could not be told yet stays here, of each sandbox apart: none can fill
 * the room of another.
 */
#include <stdlib.h>

#include "../../common/base/must.h"
#include "../../common/record.h"
#include "../../common/sys/clock.h"
#include "secrets.h"

#define FOLD_MS 60000
#define TICK_MS 1000
#define EVENTS_MAX 4096 /* different ones of a sandbox in a minute */
#define UNBOUND_MAX 64	/* of them attempts outside the policy; what a broken worker asks beyond these is told as one */
#define TEXT_MAX 300

struct event {
	struct event *next;
	enum inject_kind kind;
	bool released, unbound;
	char *name, *secret, *host, *cause;
	uint64_t since_ms; /* loop time of the minute's start; 0: to be written at once */
	uint64_t wall_ms;  /* of the last one */
	uint64_t count;	   /* not yet written */
};
struct group { /* of one sandbox */
	struct group *next;
	uint32_t sandbox;
	struct event *head;
	size_t n, unbound_n;
};
struct events {
	struct loop *loop;
	struct ipc *audit;
	struct group *groups;
	struct timer tick;
};

/* As much of it as an event tells. */
static char *copy(struct str s) { return str_dupz(str_mk(s.p, s.n > TEXT_MAX ? TEXT_MAX : s.n)); }

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
	static const char *const kinds[] = { "nothing", "bearer", "basic", "header", "query", "placeholder", "sigv4", "hmac", "client_certificate" };
	struct msg_record m = { .number = 0, .slot = INFLIGHT_NO_SLOT }; /* its length is the message's */
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
	buf_addz(&text, v->released ? (inject_signs(v->kind) ? "used as " : "released as ") : v->unbound ? "a worker asked for a secret that its policy does not bind there, as "
													 : "could not be released as ");
	buf_addz(&text, (unsigned)v->kind < sizeof(kinds) / sizeof(kinds[0]) ? kinds[v->kind] : "an unknown kind");
	record_s(&b, REC_MESSAGE, buf_str(&text));
	ok = ipc_send2(e->audit, MSG_EVENT, 0, 0, &m, sizeof(m), buf_data(&b), buf_len(&b), NULL, 0);
	if (ok)
		v->count = 0;
	buf_fini(&b);
	buf_fini(&text);
	return ok;
}

static void drop_event(struct group *g, struct event **p)
{
	struct event *v = *p;

	*p = v->next;
	g->n--;
	g->unbound_n -= v->unbound;
	free_event(v);
}

/* Writes what is due, or everything; forgets what had no repeat within its minute. */
static void sweep_group(struct events *e, struct group *g, bool all)
{
	uint64_t now = loop_now_ms(e->loop);

	for (struct event **p = &g->head; *p != NULL;) {
		struct event *v = *p;
		bool over = v->since_ms == 0 || now - v->since_ms >= FOLD_MS || all;
		bool had = v->count > 0;

		if (!over || (had && !write_event(e, v))) {
			p = &v->next;
		} else if (had && !all) {
			v->since_ms = now; /* a new minute begins */
			p = &v->next;
		} else {
			drop_event(g, p);
		}
	}
}

/* only 0: of all sandboxes */
static void sweep(struct events *e, uint32_t only, bool all)
{
	for (struct group **p = &e->groups; *p != NULL;) {
		struct group *g = *p;

		if (only == 0 || g->sandbox == only)
			sweep_group(e, g, all);
		if (g->head != NULL) {
			p = &g->next;
			continue;
		}
		*p = g->next;
		free(g);
	}
}

static void on_tick(struct timer *t)
{
	struct events *e = (struct events *)((char *)t - offsetof(struct events, tick));

	sweep(e, 0, false);
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
	while (e->groups != NULL) {
		struct group *g = e->groups;

		e->groups = g->next;
		while (g->head != NULL)
			drop_event(g, &g->head);
		free(g);
	}
	free(e);
}

void events_link(struct events *e, struct ipc *audit)
{
	e->audit = audit;
	if (audit != NULL)
		sweep(e, 0, false);
}

static struct group *group_of(const struct events *e, uint32_t sandbox)
{
	struct group *g;

	for (g = e->groups; g != NULL; g = g->next)
		if (g->sandbox == sandbox)
			return g;
	return NULL;
}

bool events_ready(const struct events *e, uint32_t sandbox)
{
	const struct group *g = group_of(e, sandbox);

	return e->audit != NULL && (g == NULL || g->n < EVENTS_MAX);
}

static struct event *find(const struct group *g, struct str secret, struct str host, enum inject_kind kind, bool released, bool unbound, struct str cause)
{
	struct event *v;

	for (v = g->head; v != NULL; v = v->next)
		if (v->kind == kind && v->released == released && v->unbound == unbound && str_eq(str_of(v->secret), secret) && str_eq(str_of(v->host), host) &&
		    str_eq(str_of(v->cause), str_mk(cause.p, cause.n > TEXT_MAX ? TEXT_MAX : cause.n)))
			return v;
	return NULL;
}

void events_add(struct events *e, uint32_t sandbox, struct str name, struct str secret, struct str host, enum inject_kind kind, bool released, bool unbound, struct str cause)
{
	struct group *g = group_of(e, sandbox);
	struct event *v;

	if (g == NULL) {
		g = must_calloc(1, sizeof(*g));
		g->sandbox = sandbox;
		g->next = e->groups;
		e->groups = g;
	}
	v = find(g, secret, host, kind, released, unbound, cause);
	if (v == NULL && unbound && g->unbound_n >= UNBOUND_MAX) {
		secret = host = STR_NONE;
		kind = INJECT_NONE;
		v = find(g, secret, host, kind, released, unbound, cause);
	}
	if (v == NULL) {
		v = must_calloc(1, sizeof(*v));
		v->kind = kind;
		v->released = released;
		v->unbound = unbound;
		v->name = copy(name);
		v->secret = copy(secret);
		v->host = copy(host);
		v->cause = copy(cause);
		v->next = g->head;
		g->head = v;
		g->n++;
		g->unbound_n += unbound;
	}
	v->count++;
	v->wall_ms = clock_wall_ms();
	if (v->since_ms == 0 && write_event(e, v))
		v->since_ms = loop_now_ms(e->loop);
}

void events_sandbox_gone(struct events *e, uint32_t sandbox) { sweep(e, sandbox, true); }
void events_end(struct events *e) { sweep(e, 0, true); }
