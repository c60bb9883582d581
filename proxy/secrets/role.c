/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The secrets role: holds the values of a sandbox's sources and releases one only for a (secret, destination, kind) that
 * that sandbox's table binds. Sources are handed over as descriptors; files are read again when they change.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../common/base/must.h"
#include "../../common/policy/table.h"
#include "../../common/record.h"
#include "../../common/sys/clock.h"
#include "../../common/sys/ipc.h"
#include "../../common/sys/log.h"
#include "../../common/sys/role.h"
#include "../../common/sys/secret.h"
#include "role.h"

#define VALID_ENV_MS 60000
#define VALID_FILE_MS 1000
#define RECORD_EVERY_MS 60000
#define ENV_MAX (1u << 20)

struct variable {
	struct variable *next;
	char *name;
	struct secret *value;
};
struct file {
	struct file *next;
	char *path;
	int fd;
};
struct told { /* releases are recorded once a minute for each binding */
	struct told *next;
	uint32_t secret, dest;
	uint64_t at_ms;
	uint32_t count;
};
struct box {
	struct box *next;
	uint32_t id, generation;
	char name[MSG_NAME_MAX];
	struct table *table;
	struct variable *env;
	struct file *files;
	struct ipc *worker;
	struct told *told;
};
static struct {
	struct loop *loop;
	struct ipc *sup, *audit;
	struct box *boxes;
} st;

static struct box *find(uint32_t id, bool make)
{
	struct box *b;

	for (b = st.boxes; b != NULL; b = b->next)
		if (b->id == id)
			return b;
	if (!make)
		return NULL;
	b = must_calloc(1, sizeof(*b));
	b->id = id;
	b->next = st.boxes;
	st.boxes = b;
	return b;
}

static void free_box(struct box *b)
{
	while (b->env != NULL) {
		struct variable *v = b->env;

		b->env = v->next;
		secret_free(v->value);
		free(v->name);
		free(v);
	}
	while (b->files != NULL) {
		struct file *f = b->files;

		b->files = f->next;
		close(f->fd);
		free(f->path);
		free(f);
	}
	while (b->told != NULL) {
		struct told *t = b->told;

		b->told = t->next;
		free(t);
	}
	ipc_free(b->worker);
	table_free(b->table);
	free(b);
}

static void take_env(struct box *b, int fd)
{
	struct buf in = { 0 };
	struct stat s;
	ssize_t n;
	size_t at = 0;

	if (fstat(fd, &s) != 0 || s.st_size > ENV_MAX)
		return;
	while ((n = pread(fd, buf_room(&in, 8192), 8192, (off_t)buf_len(&in))) > 0)
		buf_commit(&in, (size_t)n);
	while (at < buf_len(&in)) {
		const char *p = (const char *)buf_data(&in) + at, *end = memchr(p, 0, buf_len(&in) - at), *eq;
		struct variable *v;

		if (end == NULL)
			break;
		eq = memchr(p, '=', (size_t)(end - p));
		if (eq != NULL) {
			v = must_calloc(1, sizeof(*v));
			v->name = strndup(p, (size_t)(eq - p));
			v->value = secret_new(eq + 1, (size_t)(end - eq) - 1);
			v->next = b->env;
			b->env = v;
		}
		at += (size_t)(end - p) + 1;
	}
	buf_fini_secret(&in);
}

/* The file as it is now; one trailing line break is the editor's, not the value's. */
static struct secret *read_file(struct box *b, struct str path, const char **cause)
{
	char buf[SECRET_MAX + 2];
	struct secret *s;
	struct file *f;
	ssize_t n;

	for (f = b->files; f != NULL; f = f->next)
		if (str_eq(str_of(f->path), path))
			break;
	*cause = "its file was not handed over";
	if (f == NULL)
		return NULL;
	n = pread(f->fd, buf, sizeof(buf), 0);
	*cause = n < 0 ? "its file cannot be read" : n == 0 ? "its file is empty" : "its file is too large";
	if (n <= 0 || n > SECRET_MAX)
		return NULL;
	if (buf[n - 1] == '\n')
		n--;
	if (n > 0 && buf[n - 1] == '\r')
		n--;
	s = secret_new(buf, (size_t)n);
	explicit_bzero(buf, sizeof(buf));
	return s;
}

static void tell(struct box *b, const struct secret_decl *d, const struct dest *dest, struct str kind)
{
	struct buf r = { 0 };
	struct msg_record m = { .slot = INFLIGHT_NO_SLOT };
	struct told *t;
	uint64_t now = loop_now_ms(st.loop);

	for (t = b->told; t != NULL; t = t->next)
		if (t->secret == d->index && t->dest == dest->index)
			break;
	if (t == NULL) {
		t = must_calloc(1, sizeof(*t));
		t->secret = d->index;
		t->dest = dest->index;
		t->next = b->told;
		b->told = t;
	}
	t->count++;
	if ((t->at_ms != 0 && now - t->at_ms < RECORD_EVERY_MS) || st.audit == NULL)
		return;
	record_s(&r, REC_KIND, STR("secret"));
	record_s(&r, REC_SANDBOX, str_of(b->name));
	record_s(&r, REC_SECRET, d->name);
	record_s(&r, REC_HOST, dest_host(dest));
	record_s(&r, REC_MESSAGE, kind);
	record_u(&r, REC_TIME_MS, clock_wall_ms());
	record_u(&r, REC_COUNT, t->count);
	if (ipc_send2(st.audit, MSG_EVENT, b->generation, 0, &m, sizeof(m), buf_data(&r), buf_len(&r), NULL, 0)) {
		t->at_ms = now;
		t->count = 0;
	}
	buf_fini(&r);
}

struct pick {
	uint32_t index;
	struct dest d;
	bool found;
};

static bool pick_dest(void *arg, const struct dest *d)
{
	struct pick *p = arg;

	if (d->index != p->index)
		return true;
	p->d = *d;
	p->found = true;
	return false;
}

/* Bound means: the destination has an injection of this secret and kind, and the secret's hosts list its host. */
static bool bound(struct box *b, const struct msg_release *r, struct dest *dest)
{
	struct pick p = { .index = r->dest_index };
	struct inject in;

	table_dest_each(b->table, pick_dest, &p);
	if (!p.found)
		return false;
	*dest = p.d;
	for (unsigned i = 0, n = dest_inject_count(&p.d); i < n; i++)
		if (dest_inject(&p.d, i, &in) && in.secret_index == r->secret_index && (uint32_t)in.kind == r->kind)
			return table_secret_host_ok(b->table, r->secret_index, dest_host(&p.d));
	return false;
}

static void on_worker(struct ipc *c, const struct ipc_msg *m)
{
	struct box *b = ipc_arg(c);
	const struct msg_release *r;
	struct msg_released a = { .status = RELEASE_FAILED };
	struct secret_decl d;
	struct dest dest;
	struct secret *fresh = NULL, *value = NULL;
	const char *cause = "the variable is not set where the sandbox was started";
	struct str out;

	if (m == NULL) {
		if (b->worker == c)
			b->worker = NULL;
		ipc_free(c);
		return;
	}
	r = (const void *)m->data;
	if (!table_secret(b->table, r->secret_index, &d) || !bound(b, r, &dest)) {
		a.status = RELEASE_UNBOUND;
		cause = "the policy does not bind this secret to this destination";
	} else if (d.source == SECRET_SOURCE_ENV) {
		for (struct variable *v = b->env; v != NULL; v = v->next)
			if (str_eq(str_of(v->name), d.arg))
				value = v->value;
		a.valid_ms = VALID_ENV_MS;
	} else {
		value = fresh = read_file(b, d.arg, &cause);
		a.valid_ms = VALID_FILE_MS;
	}
	if (value != NULL && !secret_sendable(value)) {
		value = NULL;
		cause = "its value is empty or has a line break or NUL in it";
	}
	if (value != NULL) {
		a.status = RELEASE_OK;
		out = secret_bytes(value);
		tell(b, &d, &dest, STR("released"));
	} else {
		out = str_of(cause);
		log_error("secret %.*s of sandbox %s cannot be had: %s", a.status == RELEASE_UNBOUND ? 1 : (int)d.name.n, a.status == RELEASE_UNBOUND ? "?" : d.name.p, b->name, cause);
	}
	ipc_send2(c, MSG_RELEASED, m->generation, m->id, &a, sizeof(a), out.p, out.n, NULL, 0);
	secret_free(fresh);
}

static void on_audit(struct ipc *c, const struct ipc_msg *m)
{
	if (m != NULL)
		return;
	if (st.audit == c)
		st.audit = NULL;
	ipc_free(c);
}

static void on_supervisor(struct ipc *c, const struct ipc_msg *cm)
{
	struct ipc_msg *m = (struct ipc_msg *)(uintptr_t)cm;
	const struct msg_sandbox_ref *ref;
	struct err err = ERR_INIT;
	struct box *b;

	if (m == NULL)
		_exit(0);
	ref = (const void *)m->data;
	switch (m->type) {
	case MSG_START:
		role_ready(c, ROLE_SECRETS, -1);
		break;
	case MSG_SANDBOX_ENV:
		if (m->fd_n == 1)
			take_env(find(ref->sandbox, true), m->fds[0]);
		break;
	case MSG_SANDBOX_FILE:
		if (m->fd_n == 1) {
			struct file *f = must_calloc(1, sizeof(*f));

			b = find(ref->sandbox, true);
			f->path = strndup((const char *)m->data + sizeof(*ref), m->len - sizeof(*ref));
			f->fd = m->fds[0];
			m->fds[0] = -1;
			f->next = b->files;
			b->files = f;
		}
		break;
	case MSG_SANDBOX: {
		const struct msg_sandbox *s = (const void *)m->data;
		struct msg_sandbox_ref r = { s->sandbox, s->generation };
		struct table *t;

		if (m->fd_n < 1 || table_open(&t, m->fds[0], &err) < 0) {
			ipc_send2(c, MSG_SANDBOX_BAD, s->generation, 0, &r, sizeof(r), err.text, strlen(err.text), NULL, 0);
			break;
		}
		b = find(s->sandbox, true);
		table_free(b->table);
		b->table = t;
		b->generation = s->generation;
		memcpy(b->name, s->name, sizeof(b->name));
		b->name[sizeof(b->name) - 1] = 0;
		ipc_send(c, MSG_SANDBOX_OK, s->generation, 0, &r, sizeof(r), NULL, 0);
		break;
	}
	case MSG_PEER: {
		const struct msg_peer *p = (const void *)m->data;

		if (m->fd_n != 1)
			break;
		if (p->role == ROLE_AUDIT) {
			ipc_free(st.audit);
			st.audit = ipc_new(st.loop, m->fds[0], ROLE_SECRETS, ROLE_AUDIT, on_audit, NULL);
			m->fds[0] = -1;
		} else if (p->role == ROLE_WORKER && (b = find(p->sandbox, false)) != NULL && b->table != NULL) {
			ipc_free(b->worker);
			b->worker = ipc_new(st.loop, m->fds[0], ROLE_SECRETS, ROLE_WORKER, on_worker, b);
			m->fds[0] = -1;
		}
		break;
	}
	case MSG_SANDBOX_GONE:
		for (struct box **p = &st.boxes; *p != NULL; p = &(*p)->next) {
			if ((*p)->id != ref->sandbox)
				continue;
			b = *p;
			*p = b->next;
			free_box(b);
			break;
		}
		break;
	case MSG_SHUTDOWN:
		_exit(0);
	default:
		break;
	}
}

int secrets_main(int link_fd)
{
	uint8_t seed[16];

	log_title("secrets");
	signal(SIGPIPE, SIG_IGN);
	random_fill(seed, sizeof(seed));
	hash_seed(seed);
	st.loop = loop_new();
	st.sup = ipc_new(st.loop, link_fd, ROLE_SECRETS, ROLE_SUPERVISOR, on_supervisor, NULL);
	loop_run(st.loop);
	return 0;
}
