/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is signed with a key that no worker has: the message goes to `secrets`, in parts, a signature comes back.
 *
 *   WAITING -> SENT, all its parts -> answered
 *
 * What waits keeps its message, since a link holds only so many parts.
 */
#include <stdlib.h>

#include "../../common/base/must.h"
#include "worker.h"

#define PARTS_MAX 64 /* under way, unless a single message has more */

struct signing {
	struct signing *next;
	struct policy_gen *asked;
	struct msg_sign head;
	uint64_t id, asker;
	enum handle_kind kind; /* of the asker */
	struct buf message;
	unsigned parts;
	bool sent;
};
struct signings {
	struct worker *w;
	struct signing *head; /* oldest first */
	unsigned parts;	      /* of those sent */
};

struct signings *signings_new(struct worker *w)
{
	struct signings *s = must_calloc(1, sizeof(*s));

	s->w = w;
	return s;
}

static void tell(struct signings *s, struct signing *g, bool ok, struct str text)
{
	void *asker = handle_get(&s->w->handles, g->kind, g->asker);

	for (struct signing **p = &s->head; *p != NULL; p = &(*p)->next) {
		if (*p == g) {
			*p = g->next;
			break;
		}
	}
	s->parts -= g->sent ? g->parts : 0;
	handle_free(&s->w->handles, g->id);
	policy_release(g->asked);
	buf_fini_secret(&g->message);
	if (asker != NULL && g->kind == HANDLE_EXCHANGE)
		exchange_signed(asker, g->head.inject, ok, text);
	else if (asker != NULL)
		upstream_signed(asker, ok, text);
	free(g);
}

static bool send_one(struct signings *s, struct signing *g)
{
	struct str rest = buf_str(&g->message);

	g->sent = true;
	s->parts += g->parts;
	for (unsigned i = 1; i <= g->parts; i++) {
		size_t n = rest.n < MSG_SIGN_PART ? rest.n : MSG_SIGN_PART;

		g->head.more = i < g->parts;
		if (s->w->secrets == NULL || !ipc_send2(s->w->secrets, MSG_SIGN, g->asked->generation, g->id, &g->head, sizeof(g->head), rest.p, n, NULL, 0))
			return false;
		rest = str_mk(rest.p + n, rest.n - n);
	}
	buf_fini_secret(&g->message);
	return true;
}

/* As many as a link holds. */
static void send_all(struct signings *s)
{
	for (struct signing *g = s->head, *next; g != NULL; g = next) {
		next = g->next;
		if (g->sent)
			continue;
		if (s->parts > 0 && s->parts + g->parts > PARTS_MAX)
			return;
		if (!send_one(s, g)) {
			tell(s, g, false, STR("the role that holds the secrets is down"));
			next = s->head;
		}
	}
}

static void send_later(void *arg) { send_all(arg); }

bool signings_ask(struct signings *s, uint32_t generation, const struct msg_sign *what, struct buf *message, enum handle_kind kind, uint64_t asker, struct str *cause)
{
	struct signing *g, **at = &s->head;

	if (s->w->secrets == NULL) {
		*cause = STR("the role that holds the secrets is down");
		return false;
	}
	g = must_calloc(1, sizeof(*g));
	g->asked = policy_hold(policy_of_generation(s->w, generation));
	g->head = *what;
	g->kind = kind;
	g->asker = asker;
	g->id = handle_new(&s->w->handles, HANDLE_SIGNING, g);
	g->message = *message;
	*message = (struct buf){ 0 };
	g->parts = (unsigned)(buf_len(&g->message) / MSG_SIGN_PART) + 1;
	while (*at != NULL)
		at = &(*at)->next;
	*at = g;
	loop_defer(s->w->loop, send_later, s); /* who asks is told by a call, not from within its own */
	return true;
}

void signings_answered(struct signings *s, const struct ipc_msg *m)
{
	const struct msg_signed *r = (const void *)m->data;
	struct signing *g = handle_get(&s->w->handles, HANDLE_SIGNING, m->id);

	if (g == NULL || !g->sent)
		return;
	tell(s, g, r->status == RELEASE_OK && m->len > sizeof(*r), str_mk(m->data + sizeof(*r), m->len - sizeof(*r)));
	send_all(s);
}

void signings_link_lost(struct signings *s)
{
	while (s->head != NULL)
		tell(s, s->head, false, STR("the role that holds the secrets went down"));
}
