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
#include <unistd.h>

#include "../../common/base/must.h"
#include "../../common/served.h"
#include "../../common/sys/clock.h"
#include "../../common/sys/log.h"
#include "../../common/sys/role.h"
#include "awskey.h"

#define DAY_MS 86400000u

struct binding {
	uint32_t dest_index, secret_index, kind;
	struct str host, service, region; /* borrow from the table */
};
struct bindings { /* of one generation: what may be released, and where it comes from */
	struct bindings *next;
	uint32_t generation;
	const struct table *table; /* NULL: its sources came, it did not yet */
	struct sources *sources;
	struct binding *b;
	size_t n, cap;
};
struct sandbox { /* served.data */
	struct bindings *bindings;
};
struct secrets_role {
	struct loop *loop;
	struct ipc *sup, *audit;
	struct served_set served;
	struct events *events;
	struct log_limit said_sources;
	uint8_t key[SHAPE_KEY_LEN]; /* of placeholders */
};
static struct secrets_role the_role; /* one in a process */

static struct sandbox *sandbox_of(struct served *s)
{
	struct sandbox *b = s->data;

	if (b == NULL) {
		b = must_calloc(1, sizeof(*b));
		s->data = b;
	}
	return b;
}

static struct bindings *bindings_of(struct sandbox *b, uint32_t generation)
{
	struct bindings *l = b->bindings;

	while (l != NULL && l->generation != generation)
		l = l->next;
	return l;
}

static struct bindings *bindings_get(struct served *s, uint32_t generation)
{
	struct sandbox *b = sandbox_of(s);
	struct bindings *l = bindings_of(b, generation);

	if (l != NULL)
		return l;
	l = must_calloc(1, sizeof(*l));
	l->generation = generation;
	l->sources = sources_new();
	l->next = b->bindings;
	b->bindings = l;
	return l;
}

static void drop_bindings(struct bindings **at)
{
	struct bindings *l = *at;

	*at = l->next;
	sources_free(l->sources);
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

/* --- placeholders -------------------------------------------------------------------------------------------------- */

struct placing {
	struct served *s;
	const struct table *t;
	struct sources *sources;
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
	char text[PLACEHOLDER_LEN_MAX + 1], cause[200];
	struct secret_decl decl;
	const struct secret *v;
	uint32_t valid_ms;

	if (placed(g, in->secret_name, part))
		return;
	if (part == PLACEHOLDER_WHOLE && table_secret(g->t, in->secret_index, &decl) && (v = sources_value(g->sources, &decl, &valid_ms, cause)) != NULL)
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
static const char *tell_placeholders(struct served *s, const struct table *t, struct sources *sources, uint32_t generation)
{
	struct msg_sandbox_ref ref = { s->id, generation };
	struct placing g = { .s = s, .t = t, .sources = sources };

	if (!table_dest_each(t, place_dest, &g))
		g.wrong = "the policy has too many placeholders";
	else if (buf_len(&g.list) > 0 && !ipc_send2(the_role.sup, MSG_PLACEHOLDERS, generation, 0, &ref, sizeof(ref), buf_data(&g.list), buf_len(&g.list), NULL, 0))
		g.wrong = "the placeholders could not be told";
	buf_fini(&g.list);
	return g.wrong;
}

static const char *tabled(struct served *s, const struct table *t, uint32_t generation)
{
	struct bindings *l = bindings_get(s, generation);

	l->n = 0;
	if (!table_dest_each(t, add_dest, l)) {
		l->n = 0;
		return "the table is damaged";
	}
	l->table = t;
	sources_keep_declared(l->sources, t);
	if (l->n > 0)
		qsort(l->b, l->n, sizeof(*l->b), binding_cmp);
	return tell_placeholders(s, t, l->sources, generation);
}

static const struct binding *bound(const struct bindings *l, const struct msg_release *q)
{
	struct binding key = { .dest_index = q->dest_index, .secret_index = q->secret_index, .kind = q->kind };

	return l->n > 0 ? bsearch(&key, l->b, l->n, sizeof(*l->b), binding_cmp) : NULL;
}

/* Values, sources and bindings of that generation go with it. */
static void retired(struct served *s, const struct table *t, uint32_t generation)
{
	struct sandbox *b = s->data;

	(void)t;
	for (struct bindings **p = b != NULL ? &b->bindings : NULL; p != NULL && *p != NULL; p = &(*p)->next) {
		if ((*p)->generation == generation) {
			drop_bindings(p);
			return;
		}
	}
}

static void gone(struct served *s)
{
	struct sandbox *b = s->data;

	events_sandbox_gone(the_role.events, s->id);
	if (b == NULL)
		return;
	while (b->bindings != NULL)
		drop_bindings(&b->bindings);
	free(b);
}

/* --- workers ------------------------------------------------------------------------------------------------------- */

static void refuse(struct served *s, const struct ipc_msg *m, enum release_status status, const char *cause)
{
	struct msg_released a = { .status = (uint8_t)status };

	served_answer(s, MSG_RELEASED, m->generation, m->id, &a, sizeof(a), cause, strlen(cause), -1);
}

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

static void release(struct served *s, const struct ipc_msg *m, const struct msg_release *q)
{
	struct bindings *l = bindings_of(sandbox_of(s), m->generation);
	const struct table *t = l != NULL ? l->table : NULL;
	const struct binding *k = t != NULL ? bound(l, q) : NULL;
	enum inject_kind kind = q->kind < INJECT_KINDS ? (enum inject_kind)q->kind : INJECT_NONE;
	struct msg_released a = { .status = RELEASE_OK };
	struct secret_decl d = { 0 };
	bool known = t != NULL && table_secret(t, q->secret_index, &d);
	const struct secret *v;
	struct secret *signing = NULL;
	uint32_t valid_ms = 0;
	char cause[200];

	if (k == NULL || !known || !table_secret_host_ok(t, q->secret_index, k->host)) {
		events_add(the_role.events, s->id, str_of(s->name), known ? d.name : STR_NONE, k != NULL ? k->host : STR_NONE, kind, false, true, STR_NONE);
		refuse(s, m, RELEASE_UNBOUND, "the policy does not bind this secret there");
		return;
	}
	if (!events_ready(the_role.events, s->id)) {
		refuse(s, m, RELEASE_FAILED, "the release cannot be recorded");
		return;
	}
	v = sources_value(l->sources, &d, &valid_ms, cause);
	if (v != NULL && kind == INJECT_SIGV4) {
		signing = signing_key(v, k, &valid_ms, cause);
		v = signing;
	}
	events_add(the_role.events, s->id, str_of(s->name), d.name, k->host, kind, v != NULL, false, v != NULL ? STR_NONE : str_of(cause));
	if (v == NULL) {
		refuse(s, m, RELEASE_FAILED, cause);
		return;
	}
	a.valid_ms = valid_ms;
	served_answer(s, MSG_RELEASED, m->generation, m->id, &a, sizeof(a), secret_bytes(v).p, secret_bytes(v).n, -1);
	secret_free(signing);
}

static void from_worker(struct served *s, struct ipc_msg *m)
{
	if (m->type == MSG_RELEASE)
		release(s, m, (const void *)m->data);
}

static const struct served_ops ops = { .tabled = tabled, .message = from_worker, .retired = retired, .gone = gone };

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
	if (m->fd_n != 1 || ((const struct msg_peer *)(const void *)m->data)->role != ROLE_AUDIT)
		return;
	if (r->audit != NULL)
		ipc_free(r->audit);
	r->audit = ipc_new(r->loop, m->fds[0], ROLE_SECRETS, ROLE_AUDIT, on_audit, r);
	m->fds[0] = -1;
	events_link(r->events, r->audit);
}

static void take_env(struct secrets_role *r, const struct ipc_msg *m)
{
	const struct msg_sandbox_ref *ref = (const void *)m->data;

	if (m->fd_n == 1 && !sources_env(bindings_get(served_get(&r->served, ref->sandbox), ref->generation)->sources, m->fds[0]))
		log_limited(&r->said_sources, "error: the variables for sandbox %u cannot be read, or are too many", ref->sandbox);
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
	if (!sources_file(bindings_get(served_get(&r->served, ref->sandbox), ref->generation)->sources, path, fd))
		log_limited(&r->said_sources, "error: sandbox %u has more than %u secret files", ref->sandbox, SOURCES_MAX);
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
		if (m->fd_n != 1 || pread(m->fds[0], r->key, sizeof(r->key), 0) != (ssize_t)sizeof(r->key)) {
			log_error("the key of placeholders cannot be read");
			_exit(1);
		}
		role_ready(c, ROLE_SECRETS, -1);
		break;
	case MSG_SANDBOX_ENV:
		take_env(r, m);
		break;
	case MSG_SANDBOX_FILE:
		take_file(r, m);
		break;
	case MSG_PEER:
		take_audit(r, m);
		break;
	case MSG_SHUTDOWN:
		loop_stop(r->loop);
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
	shape_warm();
	r->loop = loop_new();
	r->events = events_new(r->loop);
	r->served = (struct served_set){ .loop = r->loop, .self = ROLE_SECRETS, .ops = &ops };
	r->sup = ipc_new(r->loop, link_fd, ROLE_SECRETS, ROLE_SUPERVISOR, on_supervisor, r);
	loop_run(r->loop);
	events_end(r->events);
	served_fini(&r->served);
	events_free(r->events);
	return 0;
}
