/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   none --get--> asked --answer--> held --4/5 of its time--> held, asked again behind --end of its time--> none
 *                   |                 |
 *                   +--failed--> none, or held as long as what is held is good by itself
 *
 * `fresh`: it is given without asking. `until`: it is given although asking failed. A dynamic secret's lease is renewed; when
 * it cannot be any longer, another is had first, and the old one is revoked when no worker can still be using it.
 */
#include "values.h"

#include <stdio.h>
#include <stdlib.h>

#include "../../common/base/must.h"

#define AGAIN_MS 2000
#define EXEC_MS 15000

struct wait {
	struct wait *next;
	values_fn *fn;
	void *arg;
};
struct old_lease {
	struct old_lease *next;
	struct values *of;
	struct timer due;
	char id[];
};
struct value {
	struct value *next;
	struct values *of;
	struct secret_decl d; /* borrows from the table */
	struct secret *value;
	uint64_t had_ms, fresh_ms, until_ms; /* CLOCK_BOOTTIME; 0: always asked for, good only when just had */
	uint64_t raw_fresh_ms, raw_until_ms; /* of what a token is obtained with */
	bool busy;
	struct wait *waits;
	char cause[VALUE_CAUSE_MAX];
	struct vault_read *read;
	struct token_call *token;
	struct secret *with; /* what the source holds, where a token is obtained with it */
	struct rotation_use rotation; /* of a refresh token */
	uint32_t exec;
	struct timer late;
	/* a lease */
	char *lease;
	uint32_t lease_s, epoch, voids;
	bool renewable;
	struct vault_op *renewing;
	struct timer renew;
};
struct values {
	struct values_host host;
	uint32_t sandbox, generation;
	struct sources *sources;
	struct vault_session *session;
	struct value *list;
	struct old_lease *old;
};

struct values *values_new(const struct values_host *h, uint32_t sandbox, uint32_t generation)
{
	struct values *v = must_calloc(1, sizeof(*v));

	v->host = *h;
	v->sandbox = sandbox;
	v->generation = generation;
	v->sources = sources_new(h->loop, h->sup, sandbox, generation);
	return v;
}

struct sources *values_sources(struct values *v) { return v->sources; }
void values_vault(struct values *v, struct vault_session *s) { v->session = s; }

/* --- leases -------------------------------------------------------------------------------------------------------- */

static void free_it(void *p) { free(p); }

static void revoke_old(struct old_lease *o)
{
	struct values *vs = o->of;

	for (struct old_lease **p = &vs->old; *p != NULL; p = &(*p)->next) {
		if (*p == o) {
			*p = o->next;
			break;
		}
	}
	timer_stop(&o->due);
	if (vs->session != NULL)
		vault_revoke_lease(vs->session, o->id);
	loop_defer(vs->host.loop, free_it, o);
}

static void on_old_due(struct timer *t) { revoke_old((struct old_lease *)((char *)t - offsetof(struct old_lease, due))); }

/* now: nobody may use it any more. Else it is left to those who were given it, for as long as they were told. */
static void let_go(struct value *v, bool now)
{
	struct values *vs = v->of;
	struct old_lease *o;

	timer_stop(&v->renew);
	vault_cancel(v->renewing);
	v->renewing = NULL;
	if (v->lease == NULL)
		return;
	if (now) {
		if (vs->session != NULL)
			vault_revoke_lease(vs->session, v->lease);
	} else {
		o = must_calloc(1, sizeof(*o) + strlen(v->lease) + 1);
		memcpy(o->id, v->lease, strlen(v->lease));
		o->of = vs;
		o->next = vs->old;
		vs->old = o;
		timer_start(vs->host.loop, &o->due, VALID_MAX_MS + 1000, on_old_due);
	}
	free(v->lease);
	v->lease = NULL;
}

static void begin(struct value *v);
static void on_renew_due(struct timer *t);

static void plan_renewal(struct value *v, uint64_t in_ms) { timer_start(v->of->host.loop, &v->renew, in_ms, on_renew_due); }

static uint64_t margin(uint32_t s) { return s / 10 > 5 ? 5000 : (uint64_t)s * 100; }

/* A lease ends with the token that it was had with. */
static void set_lease_end(struct value *v, uint32_t lease_s)
{
	uint64_t bound = vault_bound_ms(v->of->session), now = vault_now_ms(), at = now + (uint64_t)lease_s * 1000;

	if (bound > 0 && bound < at)
		at = bound;
	v->raw_until_ms = v->raw_fresh_ms = at > now + margin(lease_s) ? at - margin(lease_s) : now;
	if (v->d.token == SECRET_TOKEN_NONE)
		v->until_ms = v->fresh_ms = v->raw_until_ms;
	plan_renewal(v, vault_jitter((at > now ? at - now : 0) / 3 * 2, 10));
}

static void on_renewed(void *arg, const struct vault_answer *a)
{
	struct value *v = arg;
	json_int_t s = json_integer_value(json_object_get(a->root, "lease_duration"));

	v->renewing = NULL;
	if (a->status == 0) {
		if (vault_now_ms() + AGAIN_MS < v->raw_until_ms)
			plan_renewal(v, vault_jitter(AGAIN_MS, 50));
		return;
	}
	if (a->status >= 200 && a->status < 300 && s > 0 && (uint64_t)s * 3 >= v->lease_s) {
		set_lease_end(v, (uint32_t)s);
		return;
	}
	if (!v->busy)
		begin(v); /* near its maximum, or it is gone: another one first */
}

static void on_renew_due(struct timer *t)
{
	struct value *v = (struct value *)((char *)t - offsetof(struct value, renew));

	if (v->lease == NULL || v->busy)
		return;
	if (!v->renewable || v->epoch != vault_epoch(v->of->session)) {
		begin(v);
		return;
	}
	v->renewing = vault_do(v->of->session, "PUT", "sys/leases/renew", json_pack("{s:s,s:I}", "lease_id", v->lease, "increment", (json_int_t)v->lease_s), on_renewed, v);
}

/* --- the end of a question ----------------------------------------------------------------------------------------- */

static uint32_t valid_ms(const struct value *v)
{
	uint64_t now = vault_now_ms(), until = v->fresh_ms > now ? v->fresh_ms : v->until_ms;

	if (v->d.token == SECRET_TOKEN_NONE && v->d.source == SECRET_SOURCE_ENV)
		return VALID_MAX_MS;
	if (v->fresh_ms <= now)
		return VALID_FILE_MS;
	return until - now > VALID_MAX_MS ? VALID_MAX_MS : until - now < 1 ? 1
									   : (uint32_t)(until - now);
}

static void wake(struct value *v, const struct secret *value, const char *cause)
{
	struct wait *w = v->waits;

	v->busy = false;
	v->waits = NULL;
	while (w != NULL) {
		struct wait *next = w->next;

		w->fn(w->arg, value, value != NULL ? valid_ms(v) : 0, cause);
		free(w);
		w = next;
	}
}

static void drop_value(struct value *v)
{
	secret_free(v->value);
	v->value = NULL;
	v->fresh_ms = v->until_ms = 0;
}

/* denied: the source itself says that there is nothing to be had. Else what is held is good for as long as it is. */
static void failed(struct value *v, const char *cause, bool denied)
{
	uint64_t now = vault_now_ms();

	snprintf(v->cause, sizeof(v->cause), "%s", cause);
	if (denied && v->value != NULL) {
		if (v->fresh_ms > 0) /* others are asked for at each use */
			v->of->host.withdraw(v->of->host.arg, v->d.index);
		drop_value(v);
		let_go(v, true);
	}
	if (v->value != NULL && now < v->until_ms) {
		v->fresh_ms = now + AGAIN_MS < v->until_ms ? now + AGAIN_MS : v->until_ms;
		wake(v, v->value, "");
		return;
	}
	drop_value(v);
	wake(v, NULL, v->cause);
}

static void done(struct value *v, const struct secret *value)
{
	struct str s = secret_bytes(value);

	if (s.n == 0 || (!secret_sendable(value) && !v->of->host.multiline(v->of->host.arg, v->d.index))) { /* would break, or end, the head it is written into */
		failed(v, s.n == 0 ? "the value is empty" : "the value has a line break or NUL in it", true);
		return;
	}
	secret_free(v->value);
	v->value = secret_new(s.p, s.n);
	v->had_ms = vault_now_ms();
	v->cause[0] = 0;
	wake(v, v->value, "");
}

static void on_token(void *arg, const struct token_value *t)
{
	struct value *v = arg;
	uint64_t now = vault_now_ms(), for_ms = (uint64_t)t->for_s * 1000;

	v->token = NULL;
	rotation_end(&v->rotation, t->next);
	if (t->value == NULL) {
		failed(v, t->cause, t->denied);
		return;
	}
	/* shortly before it expires: a request takes its time */
	v->fresh_ms = now + for_ms - (for_ms / 4 > 60000 ? 60000 : for_ms / 4);
	v->until_ms = now + for_ms - (for_ms / 10 > 10000 ? 10000 : for_ms / 10);
	done(v, t->value);
}

static bool same(const struct secret *a, const struct secret *b) { return a != NULL && str_eq(secret_bytes(a), secret_bytes(b)); }

static void obtain(struct value *v, const struct secret *with)
{
	struct token_call *c = token_obtain(v->of->host.http, v->of->sandbox, v->of->generation, &v->d, with, on_token, v);

	if (c != NULL) /* else it has been answered, and perhaps asked for again */
		v->token = c;
}

static void on_turn(struct rotation_use *u)
{
	struct value *v = (struct value *)((char *)u - offsetof(struct value, rotation));

	obtain(v, rotation_now(u) != NULL ? rotation_now(u) : v->with);
}

/* What the source holds is there. */
static void on_raw(struct value *v, const struct secret *raw)
{
	if (v->d.token == SECRET_TOKEN_NONE) {
		v->fresh_ms = v->raw_fresh_ms;
		v->until_ms = v->raw_until_ms;
		done(v, raw);
		return;
	}
	if (!same(v->with, raw)) {
		secret_free(v->with);
		v->with = secret_new(secret_bytes(raw).p, secret_bytes(raw).n);
	}
	if (token_rotates(&v->d))
		rotation_begin(v->of->host.rotations, &v->rotation, &v->d, v->with, on_turn);
	else
		obtain(v, v->with);
}

static void on_file(void *arg, const struct secret *value, const char *cause)
{
	if (value == NULL)
		failed(arg, cause, true);
	else
		on_raw(arg, value);
}

static void on_vault(void *arg, const struct vault_value *a)
{
	struct value *v = arg;
	uint64_t now = vault_now_ms(), refresh = 1000ull * (v->d.refresh_s > 0 ? v->d.refresh_s : REFRESH_DEFAULT_S);

	v->read = NULL;
	if (a->value == NULL) {
		failed(v, a->cause, a->denied);
		return;
	}
	v->raw_fresh_ms = now + refresh;
	v->raw_until_ms = now + 2 * refresh;
	if (v->d.source == SECRET_SOURCE_VAULT_DYNAMIC) {
		let_go(v, false);
		v->lease = must_strdup(a->lease);
		v->lease_s = a->lease_s;
		v->renewable = a->renewable;
		v->epoch = vault_epoch(v->of->session);
		v->voids = vault_voids(v->of->session);
		set_lease_end(v, a->lease_s);
	}
	on_raw(v, a->value);
}

/* --- programs ------------------------------------------------------------------------------------------------------ */

static void on_exec_late(struct timer *t)
{
	struct value *v = (struct value *)((char *)t - offsetof(struct value, late));

	v->exec = 0;
	failed(v, "its program did not answer in time", false);
}

static void execute(struct value *v)
{
	struct values_host *h = &v->of->host;
	struct msg_execute m = { v->of->sandbox, ++*h->execs };
	struct buf words = { 0 };
	struct str w;

	buf_adds(&words, v->d.arg);
	buf_addc(&words, 0);
	for (unsigned i = 0; (w = secret_param(&v->d.params, SECRET_PARAM_WORD, i)).n > 0; i++) {
		buf_adds(&words, w);
		buf_addc(&words, 0);
	}
	v->exec = m.id;
	timer_start(h->loop, &v->late, *h->sup != NULL && buf_len(&words) < 8000 && ipc_send2(*h->sup, MSG_EXECUTE, v->of->generation, 0, &m, sizeof(m), buf_data(&words), buf_len(&words), NULL, 0) ? EXEC_MS : 0, on_exec_late);
	buf_fini(&words);
}

void values_executed(struct values *vs, uint32_t id, bool ok, struct str text)
{
	struct value *v = vs->list;
	struct secret *s;
	char cause[VALUE_CAUSE_MAX];

	while (v != NULL && (v->exec != id || id == 0))
		v = v->next;
	if (v == NULL)
		return;
	v->exec = 0;
	timer_stop(&v->late);
	if (!ok) {
		snprintf(cause, sizeof(cause), "%.*s", (int)text.n, text.p);
		failed(v, cause, false);
		return;
	}
	if (text.n > 0 && text.p[text.n - 1] == '\n')
		text.n--;
	if (text.n > 0 && text.p[text.n - 1] == '\r')
		text.n--;
	s = secret_new(text.p, text.n);
	v->raw_fresh_ms = vault_now_ms() + 1000ull * (v->d.refresh_s > 0 ? v->d.refresh_s : REFRESH_DEFAULT_S);
	v->raw_until_ms = v->raw_fresh_ms;
	if (s == NULL)
		failed(v, "its program writes too much", true);
	else
		on_raw(v, s);
	secret_free(s);
}

/* --- questions ----------------------------------------------------------------------------------------------------- */

static void begin(struct value *v)
{
	char cause[VALUE_CAUSE_MAX], key[300];
	const struct secret *s;

	v->busy = true;
	v->raw_fresh_ms = v->raw_until_ms = 0;
	switch (v->d.source) {
	case SECRET_SOURCE_ENV:
		s = sources_variable(v->of->sources, v->d.arg, cause);
		if (s == NULL)
			failed(v, cause, true);
		else
			on_raw(v, s);
		return;
	case SECRET_SOURCE_FILE:
		sources_file_get(v->of->sources, v->d.arg, on_file, v);
		return;
	case SECRET_SOURCE_CREDENTIAL:
		snprintf(key, sizeof(key), "credential:%.*s", (int)v->d.arg.n, v->d.arg.p);
		sources_file_get(v->of->sources, str_of(key), on_file, v);
		return;
	case SECRET_SOURCE_VAULT:
	case SECRET_SOURCE_VAULT_DYNAMIC:
		if (v->of->session == NULL)
			failed(v, "no Vault is configured (gateway.yaml: vault), and the sandbox was started without VAULT_ADDR and VAULT_TOKEN", true);
		else
			v->read = vault_read(v->of->session, v->d.source == SECRET_SOURCE_VAULT_DYNAMIC, v->d.arg, secret_param(&v->d.params, SECRET_PARAM_FIELD, 0), on_vault, v);
		return;
	case SECRET_SOURCE_EXEC:
		execute(v);
		return;
	default:
		failed(v, "its source is of an unknown kind", true);
	}
}

static struct value *find(struct values *vs, uint32_t index)
{
	struct value *v = vs->list;

	while (v != NULL && v->d.index != index)
		v = v->next;
	return v;
}

static struct value *find_or_add(struct values *vs, const struct table *t, uint32_t index)
{
	struct value *v = find(vs, index);
	struct secret_decl d;

	if (v != NULL || !table_secret(t, index, &d))
		return v;
	v = must_calloc(1, sizeof(*v));
	v->of = vs;
	v->d = d;
	v->next = vs->list;
	vs->list = v;
	return v;
}

/* The token that it was had with is dead: so is it. */
static bool is_void(const struct value *v) { return v->lease != NULL && v->voids != vault_voids(v->of->session); }

void values_get(struct values *vs, const struct table *t, uint32_t index, values_fn *fn, void *arg)
{
	struct value *v = find_or_add(vs, t, index);
	uint64_t now = vault_now_ms();
	struct wait *w;

	if (v == NULL) {
		fn(arg, NULL, 0, "the table is damaged");
		return;
	}
	if (vs->host.revoked(vs->host.arg, v->d.name)) {
		fn(arg, NULL, 0, "it was revoked by the operator; `sallyport secret forget` lets it be had again");
		return;
	}
	if (v->value != NULL && is_void(v)) {
		drop_value(v);
		let_go(v, true);
	}
	if (v->value != NULL && now < v->fresh_ms) {
		bool old = v->lease == NULL && now - v->had_ms > (v->fresh_ms - v->had_ms) / 5 * 4;

		fn(arg, v->value, valid_ms(v), "");
		if (old && !v->busy)
			begin(v); /* behind */
		return;
	}
	w = must_malloc(sizeof(*w));
	*w = (struct wait){ v->waits, fn, arg };
	v->waits = w;
	if (!v->busy)
		begin(v);
}

void values_cancel(struct values *vs, const void *arg)
{
	for (struct value *v = vs->list; v != NULL; v = v->next) {
		for (struct wait **p = &v->waits; *p != NULL;) {
			struct wait *w = *p;

			if (w->arg != arg) {
				p = &w->next;
				continue;
			}
			*p = w->next;
			free(w);
		}
	}
}

static void stop(struct value *v)
{
	sources_cancel(v->of->sources, v);
	vault_read_cancel(v->read);
	if (v->token != NULL && v->rotation.of != NULL)
		token_leave(v->token, &v->rotation);
	else
		token_cancel(v->token);
	rotation_end(&v->rotation, NULL);
	v->read = NULL;
	v->token = NULL;
	v->exec = 0;
	timer_stop(&v->late);
}

unsigned values_drop(struct values *vs, const struct table *t, struct str name, const char *why)
{
	unsigned n = 0;
	struct secret_decl d;

	for (unsigned i = 0; t != NULL && table_secret(t, i, &d); i++) {
		struct value *v;

		if (name.n > 0 && !str_eq(name, d.name))
			continue;
		v = find_or_add(vs, t, i);
		n++;
		stop(v);
		drop_value(v);
		let_go(v, true);
		secret_free(v->with);
		v->with = NULL;
		vs->host.withdraw(vs->host.arg, i);
		wake(v, NULL, why);
	}
	return n;
}

void values_report(const struct values *vs, uint32_t index, json_t *to)
{
	static const char *const sources[SECRET_SOURCES] = { "", "variable", "file", "credential", "vault", "vault_dynamic", "exec" };
	static const char *const tokens[SECRET_TOKENS] = { "", "oauth2", "github_app", "gcp_service_account" };
	const struct value *v = find((struct values *)(uintptr_t)vs, index);
	uint64_t now = vault_now_ms();
	struct str field;
	bool revoked;
	json_t *o;

	if (v == NULL)
		return;
	revoked = vs->host.revoked(vs->host.arg, v->d.name);
	o = json_pack("{s:s#,s:s,s:s#,s:b}", "secret", v->d.name.p, v->d.name.n, "source", sources[v->d.source], "from", v->d.arg.p, v->d.arg.n, "available", v->value != NULL && !revoked);
	field = secret_param(&v->d.params, SECRET_PARAM_FIELD, 0);
	if (field.n > 0)
		json_object_set_new(o, "field", json_stringn(field.p, field.n));
	if (v->d.token != SECRET_TOKEN_NONE)
		json_object_set_new(o, "token", json_string(tokens[v->d.token]));
	if (revoked)
		json_object_set_new(o, "cause", json_string("revoked by the operator"));
	else if (v->value == NULL && v->cause[0])
		json_object_set_new(o, "cause", json_string(v->cause));
	if (v->value != NULL && v->until_ms > now)
		json_object_set_new(o, "for_s", json_integer((json_int_t)((v->until_ms - now) / 1000)));
	if (v->lease != NULL)
		json_object_set_new(o, "lease", json_string(v->lease));
	json_array_append_new(to, o);
}

void values_free(struct values *vs, bool ended)
{
	if (vs == NULL)
		return;
	while (vs->list != NULL) {
		struct value *v = vs->list;

		vs->list = v->next;
		stop(v);
		timer_stop(&v->renew);
		vault_cancel(v->renewing);
		/* the session's own end revokes what was had with its token */
		if (v->lease != NULL && vs->session != NULL && (!ended || vault_session_shared(vs->session)))
			vault_revoke_lease(vs->session, v->lease);
		free(v->lease);
		while (v->waits != NULL) {
			struct wait *w = v->waits;

			v->waits = w->next;
			free(w);
		}
		secret_free(v->value);
		secret_free(v->with);
		free(v);
	}
	while (vs->old != NULL)
		revoke_old(vs->old);
	sources_free(vs->sources);
	free(vs);
}
