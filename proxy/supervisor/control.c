/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket: SOCK_SEQPACKET, one JSON object a message, descriptors by SCM_RIGHTS. Callers are known by
 * SO_PEERCRED (our own uid, or root), and must be in our own network namespace, so that nothing inside a sandbox can
 * talk to it even if the socket were bound in.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "../../common/base/must.h"
#include "../../common/sys/log.h"
#include "supervisor.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif
#define MESSAGE_MAX 65536
#define FDS_MAX 64
#define CLIENTS_MAX 256

struct control_client {
	struct control_client *next;
	struct control *control;
	struct watch watch;
	bool closed;
};
struct control {
	struct supervisor *sup;
	struct watch watch;
	struct control_client *clients;
	size_t n;
	uint64_t netns;
};

size_t control_clients(const struct control *c) { return c->n; }

static void free_later(void *p) { free(p); }

static void drop(struct control_client *cc)
{
	struct supervisor *s = cc->control->sup;
	struct sandbox *b, *next;

	if (cc->closed)
		return;
	cc->closed = true;
	for (struct control_client **p = &cc->control->clients; *p != NULL; p = &(*p)->next) {
		if (*p == cc) {
			*p = cc->next;
			break;
		}
	}
	cc->control->n--;
	watch_stop(&cc->watch);
	close(cc->watch.fd);
	for (b = s->sandboxes; b != NULL; b = next) {
		next = b->next;
		if (b->waiter == cc)
			b->waiter = NULL;
		if (b->owner == cc)
			supervisor_revoke(s, b, "sandbox ended");
	}
	loop_defer(s->loop, free_later, cc);
}

static void reply(struct control_client *cc, json_t *o)
{
	char *t = json_dumps(o, JSON_COMPACT);

	json_decref(o);
	if (cc == NULL || cc->closed || t == NULL || send(cc->watch.fd, t, strlen(t), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
		/* a caller that does not read gets no second chance */
	}
	free(t);
}

static void reply_error(struct control_client *cc, json_int_t id, const char *code, const char *text)
{
	reply(cc, json_pack("{s:I,s:{s:s,s:s}}", "id", id, "error", "code", code, "message", text));
}

void control_registered(struct sandbox *b, const char *error)
{
	struct control_client *cc = b->waiter;

	b->waiter = NULL;
	if (cc == NULL)
		return;
	if (error != NULL)
		reply_error(cc, b->waiter_id, "refused", error);
	else
		reply(cc, json_pack("{s:I,s:{s:I}}", "id", b->waiter_id, "ok", "sandbox", (json_int_t)b->id));
}

/* The descriptor at index `key` of o, taken out of fds; -1 if there is none. */
static int take_fd(json_t *o, const char *key, int *fds, unsigned n)
{
	json_t *j = json_object_get(o, key);
	json_int_t i;
	int fd;

	if (!json_is_integer(j))
		return -1;
	i = json_integer_value(j);
	if (i < 0 || i >= (json_int_t)n)
		return -1;
	fd = fds[i];
	fds[i] = -1;
	return fd;
}

static bool name_ok(const char *s)
{
	size_t n = strlen(s);

	if (n == 0 || n >= MSG_NAME_MAX)
		return false;
	for (size_t i = 0; i < n; i++)
		if (!((s[i] >= 'a' && s[i] <= 'z') || (s[i] >= '0' && s[i] <= '9') || (i > 0 && strchr("-_.", s[i]) != NULL)))
			return false;
	return true;
}

static void op_register(struct control_client *cc, json_int_t id, json_t *o, int *fds, unsigned n)
{
	static const char *const kinds[] = { NULL, "proxy4", "proxy6", "dns_tcp4", "dns_tcp6", "dns_udp4", "dns_udp6", "diag" };
	const char *name = json_string_value(json_object_get(o, "name"));
	json_t *files = json_object_get(o, "files"), *socks = json_object_get(json_object_get(o, "identify"), "sockets"), *e;
	struct sandbox *b = must_calloc(1, sizeof(*b));
	size_t i;

	b->env_fd = take_fd(json_object_get(o, "env"), "fd", fds, n);
	b->table_fd = take_fd(json_object_get(o, "policy"), "fd", fds, n);
	b->flags = json_is_false(json_object_get(o, "explain_denials")) ? 0 : SANDBOX_EXPLAIN_DENIALS;
	if (name == NULL || !name_ok(name)) {
		reply_error(cc, id, "bad_name", "a sandbox's name is 1 to 63 of a-z 0-9 - _ . and begins with a letter or digit");
		goto bad;
	}
	snprintf(b->name, sizeof(b->name), "%s", name);
	for (struct sandbox *x = cc->control->sup->sandboxes; x != NULL; x = x->next) {
		if (!x->gone && strcmp(x->name, name) == 0) {
			reply_error(cc, id, "name_in_use", "a sandbox of this name is running: choose another --name");
			goto bad;
		}
	}
	if (b->table_fd < 0) {
		reply_error(cc, id, "no_policy", "register needs a compiled policy as {\"policy\":{\"fd\":N}}");
		goto bad;
	}
	json_array_foreach(files, i, e) {
		const char *path = json_string_value(json_object_get(e, "path"));
		int fd = take_fd(e, "fd", fds, n);

		if (path == NULL || strlen(path) > 4000 || fd < 0 || b->file_n == SANDBOX_FILES_MAX) {
			if (fd >= 0)
				close(fd);
			reply_error(cc, id, "bad_files", "each of files is {\"path\":P,\"fd\":N}, at most 32");
			goto bad;
		}
		b->files[b->file_n++] = (struct sandbox_file){ must_strdup(path), fd };
	}
	json_array_foreach(socks, i, e) {
		const char *kind = json_string_value(json_object_get(e, "kind"));
		int fd = take_fd(e, "fd", fds, n);
		unsigned k = 0;

		for (unsigned x = 1; kind != NULL && x < sizeof(kinds) / sizeof(kinds[0]); x++)
			if (strcmp(kind, kinds[x]) == 0)
				k = x;
		if (k == 0 || fd < 0 || b->listener_n == MSG_LISTENERS_MAX || fcntl(fd, F_SETFL, O_NONBLOCK) != 0) {
			if (fd >= 0)
				close(fd);
			reply_error(cc, id, "bad_sockets", "each of identify.sockets is {\"kind\":K,\"fd\":N}, at most 8");
			goto bad;
		}
		b->kinds[b->listener_n] = (uint8_t)k;
		b->listeners[b->listener_n++] = fd;
	}
	if (b->listener_n == 0) {
		reply_error(cc, id, "bad_sockets", "register needs listening sockets: {\"identify\":{\"sockets\":[...]}}");
		goto bad;
	}
	b->owner = json_is_true(json_object_get(o, "keep")) ? NULL : cc;
	b->waiter = cc;
	b->waiter_id = id;
	supervisor_add(cc->control->sup, b);
	return;
bad:
	sandbox_free(b);
}

static json_t *role_json(const struct proc *p)
{
	return json_pack("{s:s,s:i,s:b}", "role", role_name(p->role), "pid", (int)p->child.pid, "running", p->ipc != NULL);
}

static void op_status(struct control_client *cc, json_int_t id)
{
	struct supervisor *s = cc->control->sup;
	json_t *roles = json_array(), *boxes = json_array(), *w;
	const struct proc *all[] = { &s->dialer, &s->ca, &s->secrets, &s->audit };

	for (size_t i = 0; i < 4; i++)
		json_array_append_new(roles, role_json(all[i]));
	for (struct sandbox *b = s->sandboxes; b != NULL; b = b->next) {
		json_array_append_new(boxes, json_pack("{s:I,s:s,s:i,s:b}", "sandbox", (json_int_t)b->id, "name", b->name, "worker_pid", b->worker ? (int)b->worker->child.pid : 0, "answered", b->answered));
		if (b->worker != NULL) {
			w = role_json(b->worker);
			json_object_set_new(w, "sandbox", json_string(b->name));
			json_array_append_new(roles, w);
		}
	}
	if (s->spare != NULL) {
		w = role_json(s->spare);
		json_object_set_new(w, "spare", json_true());
		json_array_append_new(roles, w);
	}
	reply(cc, json_pack("{s:I,s:{s:i,s:s,s:o,s:o}}", "id", id, "ok", "pid", (int)getpid(), "state", s->start.state_dir, "roles", roles, "sandboxes", boxes));
}

static void handle(struct control_client *cc, const char *text, size_t len, int *fds, unsigned n)
{
	struct supervisor *s = cc->control->sup;
	json_error_t je;
	json_t *o = json_loadb(text, len, JSON_REJECT_DUPLICATES, &je);
	const char *op;
	json_int_t id;

	if (!json_is_object(o)) {
		reply_error(cc, 0, "bad_json", "one JSON object a message");
		goto out;
	}
	if (json_object_get(o, "hello") != NULL) {
		reply(cc, json_pack("{s:i,s:[s,s,s,s],s:s}", "v", 1, "features", "register", "revoke", "status", "stop", "version", SP_VERSION));
		goto out;
	}
	op = json_string_value(json_object_get(o, "op"));
	id = json_integer_value(json_object_get(o, "id"));
	if (op == NULL) {
		reply_error(cc, id, "bad_request", "op is missing");
	} else if (strcmp(op, "register") == 0) {
		op_register(cc, id, o, fds, n);
	} else if (strcmp(op, "revoke") == 0 || strcmp(op, "finish") == 0) {
		struct sandbox *b = supervisor_find(s, (uint32_t)json_integer_value(json_object_get(o, "sandbox")));

		if (b == NULL) {
			reply_error(cc, id, "no_sandbox", "there is no such sandbox");
		} else {
			supervisor_revoke(s, b, "sandbox ended");
			reply(cc, json_pack("{s:I,s:{}}", "id", id, "ok"));
		}
	} else if (strcmp(op, "status") == 0) {
		op_status(cc, id);
	} else if (strcmp(op, "stop") == 0) {
		reply(cc, json_pack("{s:I,s:{}}", "id", id, "ok"));
		supervisor_shutdown(s);
	} else {
		reply_error(cc, id, "unknown_op", "this gateway does not know that op");
	}
out:
	json_decref(o);
}

static void on_client(struct watch *w, uint32_t events)
{
	struct control_client *cc = (struct control_client *)((char *)w - offsetof(struct control_client, watch));
	static char buf[MESSAGE_MAX + 1];
	union {
		struct cmsghdr h;
		char room[CMSG_SPACE(sizeof(int) * FDS_MAX)];
	} ctl;
	struct iovec iov = { buf, MESSAGE_MAX };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &ctl, .msg_controllen = sizeof(ctl) };
	int fds[FDS_MAX];
	unsigned fd_n = 0;
	ssize_t n = recvmsg(w->fd, &mh, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);

	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		drop(cc);
		return;
	}
	for (struct cmsghdr *cm = CMSG_FIRSTHDR(&mh); cm != NULL; cm = CMSG_NXTHDR(&mh, cm)) {
		if (cm->cmsg_level == SOL_SOCKET && cm->cmsg_type == SCM_RIGHTS) {
			fd_n = (unsigned)((cm->cmsg_len - CMSG_LEN(0)) / sizeof(int));
			memcpy(fds, CMSG_DATA(cm), fd_n * sizeof(int));
		}
	}
	if (mh.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
		reply_error(cc, 0, "too_large", "a message is at most 64 KiB with 64 descriptors");
	else
		handle(cc, buf, (size_t)n, fds, fd_n);
	for (unsigned i = 0; i < fd_n; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

static void on_accept(struct watch *w, uint32_t events)
{
	struct control *c = (struct control *)((char *)w - offsetof(struct control, watch));
	struct control_client *cc;
	struct ucred cred;
	socklen_t n = sizeof(cred);
	uint64_t cookie = 0;
	int fd = accept4(w->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	(void)events;
	if (fd < 0)
		return;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &n) != 0 || (cred.uid != geteuid() && cred.uid != 0)) {
		close(fd);
		return;
	}
	n = sizeof(cookie);
	if (getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &n) == 0 && c->netns != 0 && cookie != c->netns) {
		log_error("a caller from another network namespace was refused");
		close(fd);
		return;
	}
	if (c->n >= CLIENTS_MAX) {
		close(fd);
		return;
	}
	cc = must_calloc(1, sizeof(*cc));
	cc->control = c;
	cc->next = c->clients;
	c->clients = cc;
	c->n++;
	watch_start(c->sup->loop, &cc->watch, fd, EPOLLIN, on_client);
}

struct control *control_new(struct supervisor *s, struct err *err)
{
	struct control *c = must_calloc(1, sizeof(*c));
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	socklen_t n = sizeof(c->netns);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	c->sup = s;
	/* through the directory's descriptor: a path may be longer than a socket address holds */
	snprintf(sa.sun_path, sizeof(sa.sun_path), "/proc/self/fd/%d/control.sock", s->start.run_fd);
	unlinkat(s->start.run_fd, "control.sock", 0); /* ours: the lock is held */
	if (fd < 0 || bind(fd, (struct sockaddr *)&sa, sizeof(sa)) != 0 || listen(fd, 64) != 0) {
		err_errno(err, "cannot listen on %s/control.sock", s->start.run_dir);
		if (fd >= 0)
			close(fd);
		free(c);
		return NULL;
	}
	if (getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &c->netns, &n) != 0)
		c->netns = 0;
	watch_start(s->loop, &c->watch, fd, EPOLLIN, on_accept);
	return c;
}

void control_stop(struct control *c)
{
	if (c->watch.loop == NULL)
		return;
	unlinkat(c->sup->start.run_fd, "control.sock", 0);
	watch_stop(&c->watch);
	close(c->watch.fd);
}

void control_free(struct control *c)
{
	control_stop(c);
	free(c);
}
