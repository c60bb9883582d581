/* SPDX-License-Identifier: Apache-2.0 */
/* `secret check`, `revoke` and `forget` of the control socket: handed to secrets, which answers in its own time. Values never come this way. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../common/base/must.h"
#include "supervisor.h"

#define OPS_MAX 64
#define ANSWER_MS 25000

struct secret_op {
	struct secret_op *next;
	struct supervisor *s;
	struct control_client *cc;
	json_int_t id;
	uint64_t number;
	struct timer late;
};

struct revocation { /* what secrets is told again in its next life */
	struct revocation *next;
	uint32_t sandbox;
	char name[64];
};

static void remember(struct supervisor *s, const struct msg_secret_do *m, const char *name)
{
	struct revocation *v;

	if (m->verb == SECRET_VERB_REVOKE) {
		v = must_calloc(1, sizeof(*v));
		v->sandbox = m->sandbox;
		snprintf(v->name, sizeof(v->name), "%s", name);
		v->next = s->revocations;
		s->revocations = v;
		return;
	}
	for (struct revocation **p = &s->revocations; *p != NULL;) {
		v = *p;
		if ((m->sandbox != 0 && v->sandbox != m->sandbox) || (name != NULL && strcmp(v->name, name) != 0)) {
			p = &v->next;
			continue;
		}
		*p = v->next;
		free(v);
	}
}

void secret_revocations(struct supervisor *s, struct proc *p)
{
	struct msg_secret_do m = { .verb = SECRET_VERB_REVOKE };

	for (const struct revocation *v = s->revocations; v != NULL; v = v->next) {
		m.sandbox = v->sandbox;
		proc_say(p, MSG_SECRET_DO, 0, &m, sizeof(m), v->name, strlen(v->name), NULL, 0);
	}
}

static void free_op(void *arg) { free(arg); }

static void end(struct secret_op *op)
{
	for (struct secret_op **p = &op->s->secret_ops; *p != NULL; p = &(*p)->next) {
		if (*p == op) {
			*p = op->next;
			break;
		}
	}
	op->s->secret_op_n--;
	timer_stop(&op->late);
	loop_defer(op->s->loop, free_op, op);
}

static void on_late(struct timer *t)
{
	struct secret_op *op = (struct secret_op *)((char *)t - offsetof(struct secret_op, late));

	control_reply_error(op->cc, op->id, "no_answer", "the role that holds the secrets does not answer in time");
	end(op);
}

void secret_op(struct supervisor *s, struct control_client *cc, json_int_t id, json_t *o)
{
	static const char *const verbs[] = { [SECRET_VERB_CHECK] = "check", [SECRET_VERB_REVOKE] = "revoke", [SECRET_VERB_FORGET] = "forget" };
	const char *verb = json_string_value(json_object_get(o, "verb")), *name = json_string_value(json_object_get(o, "name")), *box = json_string_value(json_object_get(o, "sandbox"));
	struct msg_secret_do m = { 0 };
	struct secret_op *op;

	for (unsigned i = SECRET_VERB_CHECK; verb != NULL && i <= SECRET_VERB_FORGET; i++)
		if (strcmp(verb, verbs[i]) == 0)
			m.verb = i;
	for (struct sandbox *b = s->sandboxes; box != NULL && b != NULL; b = b->next)
		if (!b->gone && strcmp(b->name, box) == 0)
			m.sandbox = b->id;
	if (m.verb == SECRET_VERB_NONE || (name != NULL && (name[0] == 0 || strlen(name) > 63))) { /* an empty one would mean all of them there, and be no revocation */
		control_reply_error(cc, id, "bad_request", "verb is check, revoke or forget; a name has 1 to 63 characters");
		return;
	}
	if (m.verb == SECRET_VERB_REVOKE && name == NULL) {
		control_reply_error(cc, id, "bad_request", "revoke needs the name of a secret");
		return;
	}
	if (box != NULL && m.sandbox == 0) {
		control_reply_error(cc, id, "no_sandbox", "there is no such sandbox");
		return;
	}
	if (s->secret_op_n >= OPS_MAX) {
		control_reply_error(cc, id, "busy", "too many questions at once");
		return;
	}
	op = must_calloc(1, sizeof(*op));
	op->s = s;
	op->cc = cc;
	op->id = id;
	m.id = op->number = ++s->secret_op_number;
	op->next = s->secret_ops;
	s->secret_ops = op;
	s->secret_op_n++;
	timer_start(s->loop, &op->late, ANSWER_MS, on_late);
	if (m.verb != SECRET_VERB_CHECK) {
		char text[200];

		snprintf(text, sizeof(text), "secret %s %s", name != NULL ? name : "(all)", m.verb == SECRET_VERB_REVOKE ? "revoked" : "forgotten");
		supervisor_admin(s, str_of(box), NULL, text);
		remember(s, &m, name);
	}
	if (proc_say(proc_shared(s, ROLE_SECRETS), MSG_SECRET_DO, 0, &m, sizeof(m), name, name != NULL ? strlen(name) : 0, NULL, 0))
		return;
	end(op);
	control_reply_error(cc, id, "no_answer", "the role that holds the secrets is down");
}

void secret_told(struct supervisor *s, const struct ipc_msg *m)
{
	struct msg_secret_do q;
	json_t *o;

	memcpy(&q, m->data, sizeof(q));
	for (struct secret_op *op = s->secret_ops; op != NULL; op = op->next) {
		if (op->number != q.id)
			continue;
		o = json_loadb((const char *)m->data + sizeof(q), m->len - sizeof(q), JSON_REJECT_DUPLICATES, NULL);
		if (o == NULL)
			control_reply_error(op->cc, op->id, "no_answer", "the role that holds the secrets gave no answer that can be read");
		else
			control_reply(op->cc, json_pack("{s:I,s:o}", "id", op->id, "ok", o));
		end(op);
		return;
	}
}

void secret_ops_drop(struct supervisor *s, const struct control_client *cc)
{
	for (struct secret_op *op = s->secret_ops, *next; op != NULL; op = next) {
		next = op->next;
		if (op->cc == cc)
			end(op);
	}
}
