/* SPDX-License-Identifier: Apache-2.0 */
#include "served.h"

#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "sys/log.h"

#define ANSWERS_HIGH 96 /* unsent answers; a link holds 256 before it ends */
#define ANSWERS_LOW 16
#define DRAIN_MS 5

static struct served *find(const struct served_set *set, uint32_t id)
{
	struct served *s;

	for (s = set->head; s != NULL; s = s->next)
		if (s->id == id)
			return s;
	return NULL;
}

struct served *served_get(struct served_set *set, uint32_t id)
{
	struct served *s = find(set, id);

	if (s != NULL)
		return s;
	s = must_calloc(1, sizeof(*s));
	s->set = set;
	s->id = id;
	s->next = set->head;
	set->head = s;
	return s;
}

const struct table *served_table(const struct served *s, uint32_t generation)
{
	for (const struct served_table *t = s->tables; t != NULL; t = t->next)
		if (t->generation == generation)
			return t->table;
	return NULL;
}

static void unlink_worker(struct served *s)
{
	struct ipc *c = s->link;

	if (c == NULL)
		return;
	s->link = NULL;
	s->held = false;
	if (s->set->ops->unlinked != NULL)
		s->set->ops->unlinked(s);
	ipc_free(c);
}

static void on_worker(struct ipc *c, const struct ipc_msg *m)
{
	struct served *s = ipc_arg(c);

	if (m == NULL)
		unlink_worker(s);
	else
		s->set->ops->message(s, (struct ipc_msg *)(uintptr_t)m);
}

static void drop(struct served *s)
{
	unlink_worker(s);
	if (s->set->ops->gone != NULL)
		s->set->ops->gone(s);
	while (s->tables != NULL) {
		struct served_table *t = s->tables;

		s->tables = t->next;
		table_free(t->table);
		free(t);
	}
	free(s);
}

static void sandbox_gone(struct served_set *set, uint32_t id)
{
	for (struct served **p = &set->head; *p != NULL; p = &(*p)->next) {
		struct served *s = *p;

		if (s->id != id)
			continue;
		*p = s->next;
		drop(s);
		return;
	}
}

static void take_sandbox(struct served_set *set, struct ipc *sup, const struct ipc_msg *m)
{
	const struct msg_sandbox *b = (const void *)m->data;
	struct msg_sandbox_ref ref = { b->sandbox, b->generation };
	struct served *s = served_get(set, b->sandbox);
	struct err err = ERR_INIT;
	struct served_table *t;
	const char *wrong = NULL;
	struct table *table;

	if (m->fd_n < 1u + b->boundaries) {
		wrong = "its table is missing";
	} else if (served_table(s, b->generation) != NULL) {
		ipc_send(sup, MSG_SANDBOX_OK, b->generation, 0, &ref, sizeof(ref), NULL, 0); /* known already */
		return;
	} else if (table_open_within(&table, m->fds[0], m->fds + 1, b->boundaries, &err) < 0) {
		wrong = err.text;
	} else {
		s->flags = b->flags;
		memcpy(s->name, b->name, sizeof(s->name));
		s->name[sizeof(s->name) - 1] = 0;
		wrong = set->ops->tabled != NULL ? set->ops->tabled(s, table, b->generation) : NULL;
		if (wrong != NULL)
			table_free(table);
	}
	if (wrong != NULL) {
		log_error("sandbox %u: %s", b->sandbox, wrong);
		ipc_send2(sup, MSG_SANDBOX_BAD, b->generation, 0, &ref, sizeof(ref), wrong, strlen(wrong), NULL, 0);
		return;
	}
	t = must_malloc(sizeof(*t));
	*t = (struct served_table){ s->tables, b->generation, table };
	s->tables = t;
	ipc_send(sup, MSG_SANDBOX_OK, b->generation, 0, &ref, sizeof(ref), NULL, 0);
}

/* What is under way in its name is the role's to end (retired). */
static void retire(struct served_set *set, const struct msg_sandbox_ref *ref)
{
	struct served *s = find(set, ref->sandbox);
	struct served_table **p, *t;

	if (s == NULL)
		return;
	for (p = &s->tables; *p != NULL && (*p)->generation != ref->generation; p = &(*p)->next)
		;
	t = *p;
	if (t != NULL)
		*p = t->next;
	if (set->ops->retired != NULL)
		set->ops->retired(s, t != NULL ? t->table : NULL, ref->generation);
	if (t != NULL)
		table_free(t->table);
	free(t);
}

static void take_peer(struct served_set *set, struct ipc_msg *m)
{
	const struct msg_peer *p = (const void *)m->data;
	struct served *s = find(set, p->sandbox);

	if (s == NULL || m->fd_n != 1)
		return; /* the descriptor is closed: the worker sees a dead link */
	unlink_worker(s); /* a new worker: the old one is dead */
	s->link = ipc_new(set->loop, m->fds[0], set->self, ROLE_WORKER, on_worker, s);
	m->fds[0] = -1;
	if (set->ops->linked != NULL)
		set->ops->linked(s);
}

bool served_supervisor(struct served_set *set, struct ipc *sup, struct ipc_msg *m)
{
	switch (m->type) {
	case MSG_SANDBOX:
		take_sandbox(set, sup, m);
		return true;
	case MSG_RETIRE:
		retire(set, (const void *)m->data);
		return true;
	case MSG_SANDBOX_GONE:
		sandbox_gone(set, ((const struct msg_sandbox_ref *)(const void *)m->data)->sandbox);
		return true;
	case MSG_PEER:
		if (((const struct msg_peer *)(const void *)m->data)->role != ROLE_WORKER)
			return false;
		take_peer(set, m);
		return true;
	default:
		return false;
	}
}

static void on_drain(struct timer *t)
{
	struct served_set *set = (struct served_set *)((char *)t - offsetof(struct served_set, drain));
	bool more = false;

	for (struct served *s = set->head; s != NULL; s = s->next) {
		if (s->link == NULL || s->held)
			continue;
		if (ipc_queued(s->link) > ANSWERS_LOW)
			more = true;
		else
			ipc_pause(s->link, false);
	}
	if (more)
		timer_start(set->loop, &set->drain, DRAIN_MS, on_drain);
}

bool served_answer(struct served *s, enum msg_type type, uint32_t generation, uint64_t id, const void *p, size_t n, const void *p2, size_t n2, int fd)
{
	struct ipc *c = s->link;

	if (c == NULL || !ipc_send2(c, type, generation, id, p, n, p2, n2, &fd, fd >= 0 ? 1 : 0))
		return false;
	if (ipc_queued(c) > ANSWERS_HIGH) {
		ipc_pause(c, true);
		timer_start(s->set->loop, &s->set->drain, DRAIN_MS, on_drain);
	}
	return true;
}

void served_hold(struct served *s, bool hold)
{
	s->held = hold;
	if (s->link == NULL)
		return;
	ipc_pause(s->link, hold || ipc_queued(s->link) > ANSWERS_LOW);
	if (ipc_queued(s->link) > ANSWERS_LOW)
		timer_start(s->set->loop, &s->set->drain, DRAIN_MS, on_drain);
}

bool served_host(struct str text, struct canon_host *out)
{
	const char *why;

	if (!canon_host(text, false, out, &why)) {
		if (!ip_parse(text, &out->ip) || out->ip.family != 6)
			return false;
		ip_format(&out->ip, out->text);
		out->len = (uint8_t)strlen(out->text);
	}
	return out->len == text.n && memcmp(out->text, text.p, text.n) == 0;
}

void served_fini(struct served_set *set)
{
	timer_stop(&set->drain);
	while (set->head != NULL) {
		struct served *s = set->head;

		set->head = s->next;
		drop(s);
	}
}
