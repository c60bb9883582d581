/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the operator asks: `secret check` has every secret had anew as far as it is not held, and tells where from, until
 * when, by which lease, or why not; `revoke` takes secrets out of use, here and in the workers, and keeps them out;
 * `forget` drops what is held, so that the next request has it anew, and lifts a revocation.
 */
#include <stdlib.h>

#include "../../common/base/must.h"
#include "secrets.h"

#define REPORT_MAX 39000

struct check {
	struct check *next;
	struct secrets_role *r;
	struct msg_secret_do q;
	char name[64];
	unsigned waiting; /* the first is held by told_do itself */
	struct waits {
		struct waits *next;
		struct check *of;
		struct values *v;
	} * waits;
};
static struct check *checks;
struct revoked {
	struct revoked *next;
	uint32_t sandbox; /* 0: in all, those that come too */
	char name[64];
};
static struct revoked *revocations;

static const struct table *newest(const struct served *s) { return s->tables != NULL ? s->tables->table : NULL; }
static struct values *values_of(struct served *s) { return secrets_bindings(s, s->tables->generation)->values; }

bool told_revoked(uint32_t sandbox, struct str name)
{
	for (const struct revoked *v = revocations; v != NULL; v = v->next)
		if ((v->sandbox == 0 || v->sandbox == sandbox) && str_eq(str_of(v->name), name))
			return true;
	return false;
}

static void revoke(uint32_t sandbox, struct str name)
{
	struct revoked *v;

	if (name.n == 0 || name.n >= sizeof(v->name))
		return;
	for (v = revocations; v != NULL; v = v->next)
		if (v->sandbox == sandbox && str_eq(str_of(v->name), name))
			return;
	v = must_calloc(1, sizeof(*v));
	v->sandbox = sandbox;
	memcpy(v->name, name.p, name.n);
	v->next = revocations;
	revocations = v;
}

/* A name of none is every one. */
static void lift(uint32_t sandbox, struct str name)
{
	for (struct revoked **p = &revocations; *p != NULL;) {
		struct revoked *v = *p;

		if ((sandbox != 0 && v->sandbox != sandbox) || (name.n > 0 && !str_eq(str_of(v->name), name))) {
			p = &v->next;
			continue;
		}
		*p = v->next;
		free(v);
	}
}

static void tell(struct secrets_role *r, const struct msg_secret_do *q, json_t *o)
{
	char *text = json_dumps(o, JSON_COMPACT);

	if (text != NULL && strlen(text) > REPORT_MAX) {
		free(text);
		text = must_strdup("{\"error\":\"there are too many secrets for one answer: name a sandbox or a secret\"}");
	}
	if (text != NULL)
		ipc_send2(r->sup, MSG_SECRET_TOLD, 0, 0, q, sizeof(*q), text, strlen(text), NULL, 0);
	free(text);
	json_decref(o);
}

static bool named(const struct check *c, const struct secret_decl *d) { return c->name[0] == 0 || str_eq(d->name, str_of(c->name)); }

static void report(struct check *c)
{
	json_t *o = json_object(), *list = json_array(), *vault = json_object();

	for (struct served *s = c->r->served.head; s != NULL; s = s->next) {
		const struct table *t = newest(s);
		struct secret_decl d;
		json_t *of, *e;
		size_t i;

		if (t == NULL || (c->q.sandbox != 0 && s->id != c->q.sandbox))
			continue;
		of = json_array();
		for (unsigned k = 0; table_secret(t, k, &d); k++)
			if (named(c, &d))
				values_report(values_of(s), k, of);
		json_array_foreach(of, i, e)
		{
			json_object_set_new(e, "sandbox", json_string(s->name));
			json_array_append(list, e);
		}
		json_decref(of);
	}
	json_object_set_new(o, "secrets", list);
	if (vault_configured(c->r->vault)) {
		vault_report(c->r->vault, vault);
		json_object_set(o, "vault", vault);
	}
	json_decref(vault);
	tell(c->r, &c->q, o);
}

static void one_less(struct check *c)
{
	if (--c->waiting > 0)
		return;
	report(c);
	for (struct check **p = &checks; *p != NULL; p = &(*p)->next) {
		if (*p == c) {
			*p = c->next;
			break;
		}
	}
	free(c);
}

static void on_value(void *arg, const struct secret *v, uint32_t valid_ms, const char *cause)
{
	struct waits *w = arg;
	struct check *c = w->of;

	(void)v;
	(void)valid_ms;
	(void)cause;
	for (struct waits **p = &c->waits; *p != NULL; p = &(*p)->next) {
		if (*p == w) {
			*p = w->next;
			break;
		}
	}
	free(w);
	one_less(c);
}

static void check_one(struct check *c, struct served *s)
{
	const struct table *t = newest(s);
	struct secret_decl d;

	for (unsigned i = 0; t != NULL && table_secret(t, i, &d); i++) {
		struct waits *w;

		if (!named(c, &d))
			continue;
		w = must_malloc(sizeof(*w));
		*w = (struct waits){ c->waits, c, values_of(s) };
		c->waits = w;
		c->waiting++;
		values_get(w->v, t, i, on_value, w);
	}
}

void told_gone(struct values *v)
{
	for (struct check *c = checks, *next; c != NULL; c = next) {
		next = c->next;
		c->waiting++; /* it stays while we look at it */
		for (struct waits **p = &c->waits; *p != NULL;) {
			struct waits *w = *p;

			if (w->v != v) {
				p = &w->next;
				continue;
			}
			*p = w->next;
			values_cancel(v, w);
			free(w);
			c->waiting--;
		}
		one_less(c);
	}
}

void told_do(struct secrets_role *r, const struct ipc_msg *m)
{
	struct msg_secret_do q;
	struct str name = str_mk(m->data + sizeof(q), m->len - sizeof(q));
	struct check *c;
	unsigned n = 0;

	memcpy(&q, m->data, sizeof(q));
	if (q.verb == SECRET_VERB_CHECK) {
		c = must_calloc(1, sizeof(*c));
		c->r = r;
		c->q = q;
		memcpy(c->name, name.p, name.n < sizeof(c->name) ? name.n : sizeof(c->name) - 1);
		c->waiting = 1;
		c->next = checks;
		checks = c;
		for (struct served *s = r->served.head; s != NULL; s = s->next)
			if (q.sandbox == 0 || s->id == q.sandbox)
				check_one(c, s);
		one_less(c);
		return;
	}
	if (q.verb == SECRET_VERB_REVOKE)
		revoke(q.sandbox, name);
	else
		lift(q.sandbox, name);
	vault_ask_again(r->vault);
	for (struct served *s = r->served.head; s != NULL; s = s->next) {
		if (q.sandbox != 0 && s->id != q.sandbox)
			continue;
		for (const struct served_table *t = s->tables; t != NULL; t = t->next) /* older ones may still be in use */
			n += values_drop(secrets_bindings(s, t->generation)->values, t->table, name, q.verb == SECRET_VERB_REVOKE ? "it was revoked by the operator" : "it was forgotten by the operator just now: ask again");
	}
	tell(r, &q, json_pack("{s:i}", "secrets", (int)n));
}
