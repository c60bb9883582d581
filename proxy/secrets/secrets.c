/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The role that holds the values. A worker asks for (secret, destination, kind), all three by their numbers in its
 * sandbox's table; it gets the value if that table binds exactly these three together and the secret's own list of hosts
 * has the destination's host. Which sandbox asks is known from the link. A release is recorded before it is answered:
 * without audit nothing is released.
 */
#include "secrets.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../../common/base/must.h"
#include "../../common/sys/clock.h"
#include "../../common/sys/log.h"
#include "../../common/sys/role.h"
#include "awskey.h"
#include "sign.h"

#define DAY_MS 86400000u

#define END_MS 2500
#define CA_PEM_MAX (1u << 20)
#define RELEASES_MAX 8192 /* under way for one sandbox: a worker asks once for each secret of a destination, however many wait there */

struct release { /* a question of a worker that waits for its value */
	struct release *next;
	struct sandbox *b;
	uint32_t generation;
	uint64_t id;
	enum inject_kind kind;
	char *secret, *host;
	const struct binding *binding; /* lives as long as its generation, and so does this */
	/* of a signature */
	bool signs, gathering; /* more of what is signed is to come */
	uint16_t scheme;
	struct inject in; /* borrows from the table */
	struct buf message;
};
static struct secrets_role the_role; /* one in a process */
static struct log_limit said_sources;

static void withdraw(void *arg, uint32_t index)
{
	const struct bindings *l = arg;
	struct served *s = l->of->s;
	struct msg_withdraw m = { index };

	if (s->link != NULL)
		ipc_send(s->link, MSG_WITHDRAW, l->generation, 0, &m, sizeof(m), NULL, 0);
}

static bool revoked(void *arg, struct str name) { return told_revoked(((const struct bindings *)arg)->of->s->id, name); }

static bool multiline(void *arg, uint32_t index)
{
	const struct bindings *l = arg;

	for (size_t i = 0; i < l->n; i++)
		if (l->b[i].secret_index == index && l->b[i].kind == INJECT_CLIENT_CERTIFICATE)
			return true;
	return false;
}

static struct sandbox *sandbox_of(struct served *s)
{
	struct sandbox *b = s->data;

	if (b == NULL) {
		b = must_calloc(1, sizeof(*b));
		b->s = s;
		s->data = b;
	}
	return b;
}

static struct bindings *bindings_of(const struct sandbox *b, uint32_t generation)
{
	struct bindings *l = b->bindings;

	while (l != NULL && l->generation != generation)
		l = l->next;
	return l;
}

struct bindings *secrets_bindings(struct served *s, uint32_t generation)
{
	struct values_host h = { .loop = the_role.loop, .http = the_role.http, .rotations = the_role.rotations, .sup = &the_role.sup, .execs = &the_role.execs, .withdraw = withdraw, .revoked = revoked, .multiline = multiline };
	struct sandbox *b = sandbox_of(s);
	struct bindings *l = bindings_of(b, generation);

	if (l != NULL)
		return l;
	l = must_calloc(1, sizeof(*l));
	l->of = b;
	l->generation = generation;
	h.arg = l;
	l->values = values_new(&h, s->id, generation);
	values_vault(l->values, b->session);
	l->next = b->bindings;
	b->bindings = l;
	return l;
}

static void drop_bindings(struct bindings **at, bool ended)
{
	struct bindings *l = *at;

	*at = l->next;
	told_gone(l->values);
	values_free(l->values, ended);
	free(l->b);
	free(l);
}

/* --- bindings ------------------------------------------------------------------------------------------------------ */

static int binding_cmp(const void *x, const void *y)
{
	const struct binding *a = x, *b = y;

	if (a->dest_index != b->dest_index)
		return a->dest_index < b->dest_index ? -1 : 1;
	if (a->secret_index != b->secret_index)
		return a->secret_index < b->secret_index ? -1 : 1;
	return a->kind < b->kind ? -1 : a->kind > b->kind;
}

static bool add_dest(void *arg, const struct dest *d)
{
	struct bindings *l = arg;
	struct inject in;

	for (unsigned i = 0, n = dest_inject_count(d); i < n; i++) {
		if (!dest_inject(d, i, &in))
			return false;
		if (l->n == l->cap) {
			l->cap = l->cap ? l->cap * 2 : 32;
			l->b = must_realloc(l->b, l->cap * sizeof(*l->b));
		}
		l->b[l->n++] = (struct binding){ d->index, in.secret_index, in.kind, dest_host(d), in.service, in.region };
	}
	return true;
}

static bool reads_vault(const struct table *t)
{
	struct secret_decl d;

	for (unsigned i = 0; table_secret(t, i, &d); i++)
		if (d.source == SECRET_SOURCE_VAULT || d.source == SECRET_SOURCE_VAULT_DYNAMIC)
			return true;
	return false;
}

/* --- placeholders -------------------------------------------------------------------------------------------------- */

struct placing {
	struct served *s;
	const struct table *t;
	struct values *values;
	struct buf list;
	const char *wrong;
};

static bool placed(const struct placing *g, struct str secret, uint8_t part)
{
	struct str rest = buf_str(&g->list);
	struct placeholder p;

	while (placeholder_next(&rest, &p))
		if (p.part == part && str_eq(p.secret, secret))
			return true;
	return false;
}

static void place(struct placing *g, const struct dest *d, const struct inject *in, uint8_t part)
{
	struct shape_for f = { .secret = in->secret_name, .part = part, .sandbox = in->scope_sandbox, .scope = in->scope_sandbox ? str_of(g->s->name) : table_name(g->t), .host = dest_host(d) };
	struct placeholder p = { .secret = in->secret_name, .part = part, .body_deny = in->body_deny };
	char text[PLACEHOLDER_LEN_MAX + 1];
	struct secret_decl decl;
	const struct secret *v;

	if (placed(g, in->secret_name, part))
		return;
	if (part == PLACEHOLDER_WHOLE && table_secret(g->t, in->secret_index, &decl) && (v = sources_now(values_sources(g->values), &decl)) != NULL)
		f.value = secret_bytes(v);
	p.text = str_mk(text, shape_placeholder(the_role.key, &f, text));
	placeholder_put(&g->list, &p);
}

static bool place_dest(void *arg, const struct dest *d)
{
	struct placing *g = arg;
	struct inject in;

	for (unsigned i = 0, n = dest_inject_count(d); i < n; i++) {
		if (!dest_inject(d, i, &in))
			return false;
		if (in.env.n == 0 && in.kind != INJECT_PLACEHOLDER)
			continue;
		if (in.kind != INJECT_SIGV4)
			place(g, d, &in, PLACEHOLDER_WHOLE);
		for (uint8_t part = PLACEHOLDER_KEY_ID; in.kind == INJECT_SIGV4 && part < PLACEHOLDER_PARTS; part++)
			place(g, d, &in, part);
		if (buf_len(&g->list) > PLACEHOLDER_LIST_MAX)
			return false;
	}
	return true;
}

/* What stands for the secrets inside: told before the sandbox is acknowledged, so that nothing runs there without. */
static const char *tell_placeholders(struct served *s, const struct table *t, struct values *values, uint32_t generation)
{
	struct msg_sandbox_ref ref = { s->id, generation };
	struct placing g = { .s = s, .t = t, .values = values };

	if (table_secret_count(t) > 0 && !table_dest_each(t, place_dest, &g))
		g.wrong = "the policy has too many placeholders";
	else if (buf_len(&g.list) > 0 && !ipc_send2(the_role.sup, MSG_PLACEHOLDERS, generation, 0, &ref, sizeof(ref), buf_data(&g.list), buf_len(&g.list), NULL, 0))
		g.wrong = "the placeholders could not be told";
	buf_fini(&g.list);
	return g.wrong;
}

static bool names_variable(const struct table *t, struct str variable)
{
	struct secret_decl d;

	for (unsigned i = 0; t != NULL && table_secret(t, i, &d); i++)
		if (d.source == SECRET_SOURCE_ENV && str_eq(d.arg, variable))
			return true;
	return false;
}

/*
 * A policy that takes the place of another may name a variable that the launcher did not hand over: it knew of none, and has wiped
 * its environment. That is said when it comes, not to each request. What was missing before is no reason to keep the old one.
 */
static const char *lacks_variable(const struct bindings *l, const struct table *t)
{
	static char text[400];
	char cause[VALUE_CAUSE_MAX];
	const struct bindings *before = l->next;
	struct secret_decl d;

	while (before != NULL && before->table == NULL)
		before = before->next;
	for (unsigned i = 0; before != NULL && table_secret(t, i, &d); i++) {
		if (d.source != SECRET_SOURCE_ENV || names_variable(before->table, d.arg) || sources_variable(values_sources(l->values), d.arg, cause) != NULL)
			continue;
		snprintf(text, sizeof(text), "secret %.*s: its variable %.*s was not handed over when the sandbox was started, and cannot be now: start the sandbox anew", (int)d.name.n, d.name.p, (int)d.arg.n, d.arg.p);
		return text;
	}
	return NULL;
}

static const char *tabled(struct served *s, const struct table *t, uint32_t generation)
{
	struct bindings *l = secrets_bindings(s, generation);
	struct sandbox *b = l->of;
	const char *wrong;

	l->n = 0;
	if (table_secret_count(t) > 0 && !table_dest_each(t, add_dest, l)) { /* a large policy without any is not walked over */
		l->n = 0;
		return "the table is damaged";
	}
	wrong = lacks_variable(l, t);
	if (wrong != NULL)
		return wrong;
	l->table = t;
	sources_keep_declared(values_sources(l->values), t);
	if (l->n > 0)
		qsort(l->b, l->n, sizeof(*l->b), binding_cmp);
	if (b->session == NULL && reads_vault(t) && (vault_configured(the_role.vault) || b->own != NULL))
		/* the operator's goes first: it is the one that the policies of this gateway mean */
		b->session = vault_session_new(vault_configured(the_role.vault) ? the_role.vault : b->own, str_of(s->name));
	values_vault(l->values, b->session);
	wrong = tell_placeholders(s, t, l->values, generation);
	if (wrong != NULL) { /* it is freed: until the generation is retired nothing is bound by it */
		l->table = NULL;
		l->n = 0;
	}
	return wrong;
}

static const struct binding *bound(const struct bindings *l, const struct msg_release *q)
{
	struct binding key = { .dest_index = q->dest_index, .secret_index = q->secret_index, .kind = q->kind };

	return l->n > 0 ? bsearch(&key, l->b, l->n, sizeof(*l->b), binding_cmp) : NULL;
}

static struct release *release_new(struct sandbox *b)
{
	struct release *r = must_calloc(1, sizeof(*r));

	r->b = b;
	b->release_n++;
	return r;
}

static void free_release(struct release *r)
{
	r->b->release_n--;
	r->b->signing -= buf_len(&r->message);
	buf_fini_secret(&r->message);
	free(r->secret);
	free(r->host);
	free(r);
}

static void refuse(struct served *s, uint32_t generation, uint64_t id, bool signs, enum release_status status, const char *cause)
{
	struct msg_released a = { .status = (uint8_t)status };
	struct msg_signed g = { .status = (uint8_t)status };

	if (signs)
		served_answer(s, MSG_SIGNED, generation, id, &g, sizeof(g), cause, strlen(cause), -1);
	else
		served_answer(s, MSG_RELEASED, generation, id, &a, sizeof(a), cause, strlen(cause), -1);
}

/* Nobody waits for an answer any more; of one generation, or of all (0). */
static void drop_releases(struct sandbox *b, uint32_t generation, const char *why)
{
	for (struct release **p = &b->releases; *p != NULL;) {
		struct release *r = *p;
		const struct bindings *l = bindings_of(b, r->generation);

		if (generation != 0 && r->generation != generation) {
			p = &r->next;
			continue;
		}
		*p = r->next;
		if (l != NULL && !r->gathering)
			values_cancel(l->values, r);
		if (why != NULL)
			refuse(b->s, r->generation, r->id, r->signs, RELEASE_FAILED, why);
		free_release(r);
	}
}

static void unlinked(struct served *s)
{
	if (s->data != NULL)
		drop_releases(s->data, 0, NULL);
}

/* Values, sources and bindings of that generation go with it. */
static void retired(struct served *s, const struct table *t, uint32_t generation)
{
	struct sandbox *b = s->data;

	(void)t;
	if (b == NULL)
		return;
	drop_releases(b, generation, "the policy is not in force any more");
	for (struct bindings **p = &b->bindings; *p != NULL; p = &(*p)->next) {
		if ((*p)->generation == generation) {
			drop_bindings(p, false);
			return;
		}
	}
}

static void maybe_end(void)
{
	if (the_role.shutting_down && the_role.ending == 0)
		loop_stop(the_role.loop);
}

static void free_vault(void *arg) { vault_free(arg); }

static void on_own_end(void *arg)
{
	loop_defer(the_role.loop, free_vault, arg);
	the_role.ending--;
	maybe_end();
}

static void gone(struct served *s)
{
	struct sandbox *b = s->data;

	events_sandbox_gone(the_role.events, s->id);
	if (b == NULL)
		return;
	drop_releases(b, 0, NULL);
	while (b->bindings != NULL)
		drop_bindings(&b->bindings, true);
	vault_session_end(b->session);
	if (b->own != NULL) { /* its last question may still be under way */
		the_role.ending++;
		vault_end(b->own, on_own_end, b->own);
	}
	free(b);
}

/* --- workers ------------------------------------------------------------------------------------------------------- */

/* What signs for one day, in the binding's region and service; the credentials themselves stay here. */
static struct secret *signing_key(const struct secret *v, const struct binding *k, uint32_t *valid_ms, char cause[200])
{
	uint64_t now = clock_wall_ms(), day_end = (now / DAY_MS + 1) * DAY_MS;
	struct secret *out = NULL;
	char text[AWSKEY_MAX];
	const char *why;

	if (awskey_release(secret_bytes(v), now / 1000, k->region, k->service, text, &why))
		out = secret_new(text, strlen(text));
	else
		snprintf(cause, 200, "%s", why);
	if (*valid_ms > day_end - now)
		*valid_ms = (uint32_t)(day_end - now);
	explicit_bzero(text, sizeof(text));
	return out;
}

static void on_value(void *arg, const struct secret *v, uint32_t valid_ms, const char *cause)
{
	struct release *r = arg;
	struct served *s = r->b->s;
	struct msg_released a = { .status = RELEASE_OK };
	struct msg_signed g = { .status = RELEASE_OK };
	struct secret *signing = NULL;
	char why[200];
	union {
		char text[SIGN_TEXT_MAX];
		uint8_t tls[SIGN_TLS_MAX];
	} made;
	struct buf der = { 0 };
	size_t n = 0;

	if (v != NULL && r->kind == INJECT_SIGV4) {
		v = signing = signing_key(v, r->binding, &valid_ms, why);
		cause = why;
	} else if (v != NULL && r->signs) {
		n = r->kind == INJECT_HMAC ? sign_hmac(&r->in, secret_bytes(v), buf_str(&r->message), made.text, &cause) : sign_tls(secret_bytes(v), r->scheme, buf_str(&r->message), made.tls, &cause);
		v = n > 0 ? v : NULL;
	} else if (v != NULL && r->kind == INJECT_CLIENT_CERTIFICATE) { /* what it shows, never what signs */
		v = signing = sign_certificates(secret_bytes(v), &der, &cause) ? secret_new(buf_data(&der), buf_len(&der)) : NULL;
	}
	a.valid_ms = valid_ms;
	for (struct release **p = &r->b->releases; *p != NULL; p = &(*p)->next) {
		if (*p == r) {
			*p = r->next;
			break;
		}
	}
	if (!events_ready(the_role.events, s->id)) {
		refuse(s, r->generation, r->id, r->signs, RELEASE_FAILED, "the release cannot be recorded");
	} else {
		events_add(the_role.events, s->id, str_of(s->name), str_of(r->secret), str_of(r->host), r->kind, v != NULL, false, v != NULL ? STR_NONE : str_of(cause));
		if (v == NULL)
			refuse(s, r->generation, r->id, r->signs, RELEASE_FAILED, cause);
		else if (r->signs)
			served_answer(s, MSG_SIGNED, r->generation, r->id, &g, sizeof(g), &made, n, -1);
		else
			served_answer(s, MSG_RELEASED, r->generation, r->id, &a, sizeof(a), secret_bytes(v).p, secret_bytes(v).n, -1);
	}
	secret_free(signing);
	buf_fini(&der);
	free_release(r);
}

/* What a worker asks for is had, and used, for it, if this table binds it there; r: the question, else empty. */
static void answer(struct served *s, const struct ipc_msg *m, const struct binding *k, uint32_t secret_index, enum inject_kind kind, struct release *r)
{
	struct sandbox *b = sandbox_of(s);
	const struct bindings *l = bindings_of(b, m->generation);
	const struct table *t = l != NULL ? l->table : NULL;
	struct secret_decl d = { 0 };
	bool known = t != NULL && table_secret(t, secret_index, &d);

	r->generation = m->generation;
	r->id = m->id;
	r->kind = kind;
	if (k == NULL || !known || !table_secret_host_ok(t, secret_index, k->host)) {
		events_add(the_role.events, s->id, str_of(s->name), known ? d.name : STR_NONE, k != NULL ? k->host : STR_NONE, kind, false, true, STR_NONE);
		refuse(s, m->generation, m->id, r->signs, RELEASE_UNBOUND, "the policy does not bind this secret there");
		free_release(r);
		return;
	}
	if (!events_ready(the_role.events, s->id)) { /* without audit nothing is even fetched */
		refuse(s, m->generation, m->id, r->signs, RELEASE_FAILED, "the release cannot be recorded");
		free_release(r);
		return;
	}
	r->secret = str_dupz(d.name);
	r->host = str_dupz(k->host);
	r->binding = k;
	r->next = b->releases;
	b->releases = r;
	values_get(l->values, t, secret_index, on_value, r);
}

static void release(struct served *s, const struct ipc_msg *m, const struct msg_release *q)
{
	const struct bindings *l = bindings_of(sandbox_of(s), m->generation);
	enum inject_kind kind = q->kind < INJECT_KINDS ? (enum inject_kind)q->kind : INJECT_NONE;

	if (sandbox_of(s)->release_n >= RELEASES_MAX) {
		refuse(s, m->generation, m->id, false, RELEASE_FAILED, "too many questions at once");
		return;
	}
	/* the key of what signs leaves this role in no way; of a client's certificate what is shown does */
	answer(s, m, l != NULL && l->table != NULL && kind != INJECT_HMAC ? bound(l, q) : NULL, q->secret_index, kind, release_new(sandbox_of(s)));
}

/* NULL: there are too many. */
static struct release *gathered(struct sandbox *b, const struct ipc_msg *m)
{
	for (struct release **p = &b->releases; *p != NULL; p = &(*p)->next) {
		struct release *r = *p;

		if (!r->gathering || r->id != m->id || r->generation != m->generation)
			continue;
		*p = r->next;
		r->next = NULL;
		return r;
	}
	return b->release_n < RELEASES_MAX ? release_new(b) : NULL;
}

static void sign(struct served *s, const struct ipc_msg *m, const struct msg_sign *q)
{
	struct sandbox *b = sandbox_of(s);
	const struct bindings *l = bindings_of(b, m->generation);
	struct release *r = gathered(b, m);
	struct msg_release key = { .dest_index = q->dest_index };
	const struct binding *k = NULL;
	struct dest d;

	if (r == NULL) {
		refuse(s, m->generation, m->id, true, RELEASE_FAILED, "too many questions at once");
		return;
	}
	r->signs = true;
	r->scheme = q->scheme;
	if (b->signing + m->len - sizeof(*q) > 2 * MSG_SIGN_MAX) { /* a worker that keeps to the rules waits before it says so much */
		refuse(s, m->generation, m->id, true, RELEASE_FAILED, "there is too much to be signed");
		free_release(r);
		return;
	}
	buf_add(&r->message, m->data + sizeof(*q), m->len - sizeof(*q));
	b->signing += m->len - sizeof(*q);
	if (q->more) {
		r->gathering = true;
		r->id = m->id;
		r->generation = m->generation;
		r->next = b->releases;
		b->releases = r;
		return;
	}
	r->gathering = false;
	if (l != NULL && l->table != NULL && table_dest_at(l->table, q->dest_index, &d) && dest_inject(&d, q->inject, &r->in) && inject_signs(r->in.kind)) {
		key.secret_index = r->in.secret_index;
		key.kind = r->in.kind;
		k = bound(l, &key);
	}
	answer(s, m, k, key.secret_index, k != NULL ? r->in.kind : INJECT_HMAC, r);
}

static void from_worker(struct served *s, struct ipc_msg *m)
{
	if (m->type == MSG_RELEASE)
		release(s, m, (const void *)m->data);
	else if (m->type == MSG_SIGN)
		sign(s, m, (const void *)m->data);
}

static const struct served_ops ops = { .tabled = tabled, .unlinked = unlinked, .message = from_worker, .retired = retired, .gone = gone };

/* --- supervisor and audit ------------------------------------------------------------------------------------------ */

static void on_audit(struct ipc *c, const struct ipc_msg *m)
{
	if (m != NULL)
		return;
	if (the_role.audit == c) {
		the_role.audit = NULL;
		events_link(the_role.events, NULL);
	}
	ipc_free(c);
}

static void take_audit(struct secrets_role *r, struct ipc_msg *m)
{
	if (r->audit != NULL)
		ipc_free(r->audit);
	r->audit = ipc_new(r->loop, m->fds[0], ROLE_SECRETS, ROLE_AUDIT, on_audit, r);
	m->fds[0] = -1;
	events_link(r->events, r->audit);
}

static void on_dialer(struct ipc *c, const struct ipc_msg *m)
{
	if (m != NULL) {
		http_dialed(the_role.http, (struct ipc_msg *)(uintptr_t)m);
		return;
	}
	if (the_role.dialer == c) {
		the_role.dialer = NULL;
		http_dialer(the_role.http, NULL);
	}
	ipc_free(c);
}

static void take_dialer(struct secrets_role *r, struct ipc_msg *m)
{
	if (r->dialer != NULL) {
		ipc_free(r->dialer);
		http_dialer(r->http, NULL);
	}
	r->dialer = ipc_new(r->loop, m->fds[0], ROLE_SECRETS, ROLE_DIALER, on_dialer, r);
	m->fds[0] = -1;
	http_dialer(r->http, r->dialer);
}

static void take_peer(struct secrets_role *r, struct ipc_msg *m)
{
	uint32_t role = ((const struct msg_peer *)(const void *)m->data)->role;

	if (m->fd_n == 1 && role == ROLE_AUDIT)
		take_audit(r, m);
	else if (m->fd_n == 1 && role == ROLE_DIALER)
		take_dialer(r, m);
}

static void take_env(struct secrets_role *r, const struct ipc_msg *m)
{
	const struct msg_sandbox_ref *ref = (const void *)m->data;

	if (m->fd_n == 1 && !sources_env(values_sources(secrets_bindings(served_get(&r->served, ref->sandbox), ref->generation)->values), m->fds[0]))
		log_limited(&said_sources, "error: the variables for sandbox %u cannot be read, or are too many", ref->sandbox);
}

/* Whose sources a message is about; NULL: a sandbox, or a generation, that is gone. */
static struct sources *sources_of(struct secrets_role *r, const struct msg_sandbox_ref *ref, bool make)
{
	struct served *s = r->served.head;
	const struct bindings *l;

	if (ref->sandbox == 0)
		return r->files;
	while (s != NULL && s->id != ref->sandbox)
		s = s->next;
	if (make)
		l = secrets_bindings(s != NULL ? s : served_get(&r->served, ref->sandbox), ref->generation);
	else
		l = s != NULL && s->data != NULL ? bindings_of(s->data, ref->generation) : NULL;
	return l != NULL ? values_sources(l->values) : NULL;
}

static void take_file(struct secrets_role *r, struct ipc_msg *m)
{
	const struct msg_sandbox_ref *ref = (const void *)m->data;
	struct str path = str_mk(m->data + sizeof(*ref), m->len - sizeof(*ref));
	int fd;

	if (m->fd_n != 1)
		return;
	fd = m->fds[0];
	m->fds[0] = -1;
	if (!sources_file(sources_of(r, ref, true), path, fd))
		log_limited(&said_sources, "error: sandbox %u has more than %u secret files", ref->sandbox, SOURCES_MAX);
}

static void take_file_bad(struct secrets_role *r, const struct ipc_msg *m)
{
	const struct msg_sandbox_ref *ref = (const void *)m->data;
	struct sources *s = sources_of(r, ref, false);
	const char *path = (const char *)m->data + sizeof(*ref);
	size_t n = m->len - sizeof(*ref), path_n = strnlen(path, n);

	if (s != NULL && path_n < n)
		sources_file_bad(s, str_mk(path, path_n), str_mk(path + path_n + 1, n - path_n - 1));
}

static void take_executed(struct secrets_role *r, const struct ipc_msg *m)
{
	const struct msg_executed *e = (const void *)m->data;
	struct str text = str_mk(m->data + sizeof(*e), m->len - sizeof(*e));
	struct buf wrote = { 0 };
	bool ok = e->ok != 0 && m->fd_n == 1;

	if (ok) { /* 3 octets more than a value may have, so that too much is seen */
		ssize_t n = pread(m->fds[0], buf_room(&wrote, SECRET_MAX + 3), SECRET_MAX + 3, 0);

		buf_commit(&wrote, n > 0 ? (size_t)n : 0);
		text = buf_str(&wrote);
	}
	for (struct served *s = r->served.head; s != NULL; s = s->next)
		for (const struct bindings *l = s->data != NULL ? sandbox_of(s)->bindings : NULL; l != NULL; l = l->next)
			values_executed(l->values, e->id, ok, text);
	buf_fini_secret(&wrote);
}

static void take_vault(struct secrets_role *r, const struct ipc_msg *m)
{
	const struct msg_sandbox_ref *ref = (const void *)m->data;
	struct str text = str_mk(m->data + sizeof(*ref), m->len - sizeof(*ref));
	struct bindings *l = ref->sandbox != 0 ? secrets_bindings(served_get(&r->served, ref->sandbox), ref->generation) : NULL;
	const struct secret *token = NULL;
	char cause[VAULT_CAUSE_MAX];
	struct buf ca = { 0 };
	struct vault *v = r->vault;
	struct stat st;

	if (m->fd_n == 1 && fstat(m->fds[0], &st) == 0 && st.st_size > 0 && st.st_size <= CA_PEM_MAX) {
		ssize_t n = pread(m->fds[0], buf_room(&ca, (size_t)st.st_size), (size_t)st.st_size, 0);

		buf_commit(&ca, n > 0 ? (size_t)n : 0);
	}
	if (l != NULL) {
		token = sources_variable(values_sources(l->values), STR("VAULT_TOKEN"), cause);
		if (l->of->own == NULL)
			l->of->own = vault_new(r->loop, r->http, NULL, NULL, ref->sandbox);
		v = l->of->own;
	}
	if (m->fd_n == 1 && buf_len(&ca) == 0)
		log_error("Vault's CA cannot be read");
	else if (!vault_configure(v, text, buf_str(&ca), token, cause))
		log_error("%s", cause);
	buf_fini(&ca);
}

static void start(struct secrets_role *r, struct ipc *c, struct ipc_msg *m)
{
	struct err err = ERR_INIT;
	struct trust *t = NULL;
	int fd = -1;

	if (m->fd_n < 1 || pread(m->fds[0], r->key, sizeof(r->key), 0) != (ssize_t)sizeof(r->key)) {
		log_error("the key of placeholders cannot be read");
		_exit(1);
	}
	if (m->fd_n > 1) {
		if (trust_map(&t, m->fds[1], &err) < 0)
			log_error("trust anchors: %s", err.text);
		else
			http_trust(r->http, t);
	}
	if (m->fd_n > 2) {
		fd = m->fds[2];
		m->fds[2] = -1;
	}
	r->orphans = orphans_new(fd);
	r->vault = vault_new(r->loop, r->http, r->files, r->orphans, 0);
	role_ready(c, ROLE_SECRETS, -1);
}

static void on_end(struct timer *t)
{
	(void)t;
	loop_stop(the_role.loop);
}

static void on_vault_end(void *arg)
{
	(void)arg;
	the_role.ending--;
	maybe_end();
}

/* The sandboxes are gone already. What was had from Vault is given back before we end. */
static void shut_down(struct secrets_role *r)
{
	if (r->shutting_down)
		return;
	r->shutting_down = true;
	r->ending++;
	timer_start(r->loop, &r->end, END_MS, on_end);
	vault_end(r->vault, on_vault_end, NULL);
}

static void on_supervisor(struct ipc *c, const struct ipc_msg *cm)
{
	struct secrets_role *r = ipc_arg(c);
	struct ipc_msg *m = (struct ipc_msg *)(uintptr_t)cm;

	if (m == NULL) {
		events_end(r->events); /* audit outlives us */
		_exit(0);
	}
	if (served_supervisor(&r->served, c, m))
		return;
	switch (m->type) {
	case MSG_START:
		start(r, c, m);
		break;
	case MSG_SANDBOX_ENV:
		take_env(r, m);
		break;
	case MSG_SANDBOX_FILE:
		take_file(r, m);
		break;
	case MSG_FILE_BAD:
		take_file_bad(r, m);
		break;
	case MSG_EXECUTED:
		take_executed(r, m);
		break;
	case MSG_VAULT:
		take_vault(r, m);
		break;
	case MSG_SECRET_DO:
		told_do(r, m);
		break;
	case MSG_PEER:
		take_peer(r, m);
		break;
	case MSG_SHUTDOWN:
		shut_down(r);
		break;
	default:
		break;
	}
}

int secrets_main(int link_fd)
{
	struct secrets_role *r = &the_role;
	uint8_t seed[16];

	log_title("secrets");
	signal(SIGPIPE, SIG_IGN);
	random_fill(seed, sizeof(seed));
	hash_seed(seed);
	/* what libraries would open later: jansson its seed, libc the time zone, each time anew unless one is named */
	json_object_seed(0);
	setenv("TZ", "UTC0", 1);
	tzset();
	shape_warm();
	r->loop = loop_new();
	r->http = http_new(r->loop);
	r->rotations = rotations_new();
	r->files = sources_new(r->loop, &r->sup, 0, 0);
	r->events = events_new(r->loop);
	r->served = (struct served_set){ .loop = r->loop, .self = ROLE_SECRETS, .ops = &ops };
	r->sup = ipc_new(r->loop, link_fd, ROLE_SECRETS, ROLE_SUPERVISOR, on_supervisor, r);
	loop_run(r->loop);
	events_end(r->events);
	served_fini(&r->served);
	vault_free(r->vault);
	orphans_free(r->orphans);
	sources_free(r->files);
	http_free(r->http);
	events_free(r->events);
	return 0;
}
