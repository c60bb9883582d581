/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Generations of the policy. One is in force: what begins is decided by it. An older one stays as long as something here
 * that began under it may still look at it or ask another role in its name: exchanges, upstream connections, questions
 * that are not answered. Then its values are dropped, and the supervisor hears that it can be retired everywhere.
 */
#include <stdlib.h>

#include "../../common/base/must.h"
#include "../../common/sys/log.h"
#include "worker.h"

struct policy_gen *policy_hold(struct policy_gen *p)
{
	p->refs++;
	return p;
}

static void policy_free(void *arg)
{
	struct policy_gen *p = arg;
	struct worker *w = p->w;
	struct msg_sandbox_ref ref = { w->sandbox, p->generation };

	creds_table_gone(w->creds, p->table);
	tls_table_gone(w->tls, p->table);
	if (w->sup != NULL && !ipc_send(w->sup, MSG_RETIRED, p->generation, 0, &ref, sizeof(ref), NULL, 0))
		log_error("the supervisor could not be told that generation %u is over", p->generation);
	table_free(p->table);
	buf_fini(&p->said);
	free(p);
}

void policy_release(struct policy_gen *p)
{
	if (--p->refs > 0)
		return;
	for (struct policy_gen **at = &p->w->policies; *at != NULL; at = &(*at)->older) {
		if (*at == p) {
			*at = p->older;
			break;
		}
	}
	loop_defer(p->w->loop, policy_free, p); /* what is borrowed from it may be looked at in this turn */
}

struct policy_gen *policy_of_generation(const struct worker *w, uint32_t generation)
{
	struct policy_gen *p = w->policies;

	while (p != NULL && p->generation != generation)
		p = p->older;
	return p;
}

struct policy_gen *policy_of_table(const struct worker *w, const struct table *t)
{
	struct policy_gen *p = w->policies;

	while (p != NULL && p->table != t)
		p = p->older;
	return p;
}

static bool keeps_values(void *arg, const struct dest *d)
{
	struct inject in;

	(void)arg;
	for (unsigned i = 0; dest_inject(d, i, &in); i++)
		if (in.kind != INJECT_SIGV4 && !inject_signs(in.kind))
			return false;
	return true;
}

void policy_in_force(struct worker *w, struct table *t, const struct msg_sandbox *s)
{
	static const char hex[] = "0123456789abcdef";
	char digest[64];
	struct policy_gen *p = must_calloc(1, sizeof(*p)), *before = w->policy;

	p->w = w;
	p->table = t;
	p->generation = s->generation;
	p->refs = 1;
	p->hands_out = table_secret_count(t) > 0 && !table_dest_each(t, keeps_values, NULL);
	for (int i = 0; i < 32; i++) {
		digest[2 * i] = hex[s->table_digest[i] >> 4];
		digest[2 * i + 1] = hex[s->table_digest[i] & 15];
	}
	record_s(&p->said, REC_POLICY_NAME, table_name(t));
	record_s(&p->said, REC_POLICY_DIGEST, str_mk(digest, sizeof(digest)));
	record_u(&p->said, REC_POLICY_GENERATION, p->generation);
	p->older = w->policies;
	w->policies = w->policy = p;
	w->table = t;
	w->generation = s->generation;
	w->explain_denials = (s->flags & SANDBOX_EXPLAIN_DENIALS) != 0;
	w->observe = (s->flags & SANDBOX_OBSERVE) != 0;
	if (before == NULL)
		return;
	clients_decide_again(w);
	upstreams_policy_changed(w->ups);
	policy_release(before);
}

struct exchange *worker_exchange_new(struct worker *w, struct client_half *half, const struct exchange_ident *ident, const char request_id[33])
{
	struct policy_gen *p = policy_hold(w->policy);

	return exchange_new(w->loop, &worker_exchange_host, w, half, ident, p->table, p->generation, request_id);
}

void worker_exchange_refresh(struct worker *w, struct exchange *x)
{
	struct policy_gen *before = policy_of_generation(w, x->generation);

	if (before == w->policy)
		return;
	x->table = w->policy->table;
	x->generation = w->policy->generation;
	policy_hold(w->policy);
	policy_release(before);
}
