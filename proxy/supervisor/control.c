/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket: SOCK_SEQPACKET, one JSON object a message, descriptors by SCM_RIGHTS. Callers are known by what the
 * kernel says of them (callers.c), and must be in our own network namespace, so that nothing inside a sandbox can talk to it
 * even if the socket were bound in. Who is no administrator sees and ends his own sandboxes only.
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
#include "../../common/placeholder.h"
#include "../../common/policy/secret_param.h"
#include "../../common/sys/log.h"
#include "supervisor.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif
#define MESSAGE_MAX 65536
#define FDS_MAX 64
#define FDS_SENT_MAX 253 /* the kernel's SCM_MAX_FD: what we had no room for it would close, in our time */
#define CLIENTS_MAX (SANDBOXES_MAX + 200) /* a sandbox's life is a connection */
#define OTHERS_KEEP 200 /* connections, and sandboxes, that those of all users who are no administrators leave to these */
#define CALLER_MAX 256 /* connections, and sandboxes, of one user who is no administrator */
#define ACCEPT_AGAIN_MS 100
#define FINISH_MS 300 /* for the worker's counts */

struct control_client {
	struct control_client *next;
	struct control *control;
	struct watch watch;
	struct caller caller;
	uint16_t ca; /* which one a sandbox of this caller trusts */
	bool closed;
};
struct control {
	struct supervisor *sup;
	struct watch watch;  /* the listening socket; stopped when there are to be no new callers */
	struct timer again;  /* accepting waits: no descriptors */
	bool closed;
	struct control_client *clients;
	size_t n;
	uint64_t netns;
};

size_t control_clients(const struct control *c) { return c->n; }

bool control_uses_ca(const struct control *c, uint16_t number)
{
	for (const struct control_client *cc = c->clients; cc != NULL; cc = cc->next)
		if (cc->ca == number)
			return true;
	return false;
}

static void free_later(void *p) { free(p); }

/* Of those that a caller brought, what is left; -1: none. */
static void let_go(const struct caller *by, int *fds, unsigned n)
{
	unsigned k = 0;

	for (unsigned i = 0; i < n; i++) {
		if (fds[i] >= 0 && by->admin)
			close(fds[i]);
		else if (fds[i] >= 0)
			fds[k++] = fds[i];
	}
	if (!by->admin)
		closer_close(fds, k);
}

static void drop(struct control_client *cc)
{
	struct supervisor *s = cc->control->sup;
	struct sandbox *b, *next;
	int fd = cc->watch.fd;

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
	let_go(&cc->caller, &fd, 1);
	for (b = s->sandboxes; b != NULL; b = next) {
		next = b->next;
		if (b->waiter == cc)
			b->waiter = NULL;
		if (b->reload_waiter == cc)
			b->reload_waiter = NULL;
		if (b->owner == cc)
			sandbox_revoke(b, "sandbox ended");
	}
	secret_ops_drop(s, cc);
	cas_forget(s);
	loop_defer(s->loop, free_later, cc);
}

/* o is taken. */
static void send_text(int fd, json_t *o)
{
	char *t = json_dumps(o, JSON_COMPACT);

	json_decref(o);
	if (t == NULL || send(fd, t, strlen(t), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
		/* a caller that does not read gets no second chance */
	}
	free(t);
}

void control_reply(struct control_client *cc, json_t *o)
{
	if (cc != NULL && !cc->closed)
		send_text(cc->watch.fd, o);
	else
		json_decref(o);
}

void control_reply_error(struct control_client *cc, json_int_t id, const char *code, const char *text)
{
	control_reply(cc, json_pack("{s:I,s:{s:s,s:s}}", "id", id, "error", "code", code, "message", text));
}

/* What the launcher sets in the sandbox's variables: [secret, part, text] each. */
static json_t *placeholders_json(const struct sandbox *b)
{
	struct str rest = buf_str(&b->placeholders);
	json_t *list = json_array();
	struct placeholder p;

	while (placeholder_next(&rest, &p))
		json_array_append_new(list, json_pack("[s%,i,s%]", p.secret.p, p.secret.n, (int)p.part, p.text.p, p.text.n));
	return list;
}

void control_registered(struct sandbox *b, const char *error)
{
	struct control_client *cc = b->waiter;

	b->waiter = NULL;
	if (cc == NULL)
		return;
	if (error != NULL)
		control_reply_error(cc, b->waiter_id, "refused", error);
	else
		control_reply(cc, json_pack("{s:I,s:{s:I,s:o}}", "id", b->waiter_id, "ok", "sandbox", (json_int_t)b->id, "placeholders", placeholders_json(b)));
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

/*
 * The same of what holds a table or variables, which o, a part of the message, names as its "fd"; instead of that, or beside it, o may
 * have a name where named is. It is sealed memory when a caller brings it who is no administrator: on anything else he could have us
 * wait. False: answered with what is wrong. What is there and not understood is never taken for none.
 */
static bool take_memory(struct control_client *cc, json_int_t id, const char *code, const char *what, json_t *o, bool named, int *fds, unsigned n, int *out)
{
	json_t *j = json_object_get(o, "fd"), *name = named ? json_object_get(o, "name") : NULL;
	json_int_t i = json_is_integer(j) ? json_integer_value(j) : -1;
	char text[200];

	*out = -1;
	if (o == NULL)
		return true;
	if (name != NULL && !name_ok(json_is_string(name) ? json_string_value(name) : "")) {
		snprintf(text, sizeof(text), "%s: \"name\" is 1 to 63 of a-z 0-9 - _ . and begins with a letter or digit", what);
	} else if (j == NULL && name != NULL) {
		return true;
	} else if (j == NULL) {
		snprintf(text, sizeof(text), "%s: {\"fd\":N}%s is expected", what, named ? " or {\"name\":NAME}" : "");
	} else if (i < 0 || i >= (json_int_t)n || fds[i] < 0) {
		snprintf(text, sizeof(text), "%s: \"fd\" is no index of a descriptor that came with the message, or one that is used already", what);
	} else if (!cc->caller.admin && !generation_sealed(fds[i])) {
		snprintf(text, sizeof(text), "%s: \"fd\" is memory, a memfd with the seals seal, shrink, grow and write, when a caller who is no administrator brings it", what);
	} else {
		*out = take_fd(o, "fd", fds, n);
		return true;
	}
	control_reply_error(cc, id, code, text);
	return false;
}

/* Whether fd is what its kind says: nothing else is ever handed to a worker as a listener. */
static bool listener_ok(int fd, unsigned kind)
{
	bool udp = kind == LISTENER_DNS_UDP4 || kind == LISTENER_DNS_UDP6;
	bool v6 = kind == LISTENER_PROXY6 || kind == LISTENER_DNS_TCP6 || kind == LISTENER_DNS_UDP6;
	int domain = 0, type = 0, listening = 0;
	socklen_t n = sizeof(int);

	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &n) != 0 || getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n) != 0 ||
		getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &n) != 0)
		return false;
	return domain == (v6 ? AF_INET6 : AF_INET) && type == (udp ? SOCK_DGRAM : SOCK_STREAM) && (udp || listening);
}

/* A refusal that the operator hears of too. */
static void not_allowed(struct control_client *cc, json_int_t id, const char *sandbox, const char *text)
{
	control_reply_error(cc, id, "not_allowed", text);
	caller_refused(cc->control->sup, &cc->caller, str_of(sandbox), text);
}

/* Whether the caller sees this one at all. */
static bool owns(const struct control_client *cc, const struct sandbox *b) { return cc->caller.admin || b->caller.uid == cc->caller.uid; }

static struct sandbox *find_own(struct control_client *cc, const json_t *which)
{
	struct sandbox *b = json_is_integer(which) ? sandbox_find(cc->control->sup, (uint32_t)json_integer_value(which)) : NULL;

	if (json_is_string(which))
		for (b = cc->control->sup->sandboxes; b != NULL && (b->gone || strcmp(b->name, json_string_value(which)) != 0); b = b->next)
			;
	return b != NULL && owns(cc, b) ? b : NULL;
}

/* What only an administrator may ask for beside a policy. True: it was refused. */
static bool asks_too_much(struct control_client *cc, json_int_t id, const char *sandbox, json_t *o)
{
	const bool named = json_is_string(json_object_get(json_object_get(o, "policy"), "name"));

	if (cc->caller.admin)
		return false;
	if (!named)
		not_allowed(cc, id, sandbox, "a policy of one's own is for this gateway's own user and administrators: name an installed one, {\"policy\":{\"name\":NAME}}; one that only narrows it may stand beside it as its \"fd\"");
	else if (json_array_size(json_object_get(o, "files")) > 0 || json_object_get(o, "vault") != NULL)
		not_allowed(cc, id, sandbox, "the files and the Vault of an installed policy are this gateway's: \"files\" and \"vault\" are for its own user and administrators");
	else if (json_object_get(o, "boundary") != NULL) /* what goes beyond it is said: he could ask what stands in the installed one */
		not_allowed(cc, id, sandbox, "a boundary is for this gateway's own user and administrators: what narrows an installed policy stands beside its name as its \"fd\"");
	else if (json_is_true(json_object_get(o, "observe")))
		not_allowed(cc, id, sandbox, "that a policy may observe is for this gateway's operator to say (gateway.yaml: observe)");
	else
		return false;
	return true;
}

static const char *policy_name(const json_t *o)
{
	const char *name = json_string_value(json_object_get(json_object_get(o, "policy"), "name"));

	return name != NULL ? name : "";
}

/* The caller's own Vault: an address, perhaps a namespace and a CA. Its token is among the variables. */
static bool take_vault(struct generation *g, json_t *v, int *fds, unsigned n)
{
	json_t *space = json_object_get(v, "namespace"), *ca = json_object_get(v, "ca");
	const char *url = json_string_value(json_object_get(v, "address")), *ns = json_string_value(space), *why;
	struct endpoint e;

	g->vault_ca_fd = take_fd(ca, "fd", fds, n);
	if (url == NULL)
		return v == NULL;
	if ((space != NULL && ns == NULL) || (ca != NULL && g->vault_ca_fd < 0))
		return false;
	if (strlen(url) > 1000 || (ns != NULL && strlen(ns) > 500) || !endpoint_parse(str_of(url), &e, &why))
		return false;
	g->vault_url = must_strdup(url);
	buf_addf(&g->vault, "address=%s%cmethod=token%c", url, 0, 0);
	if (ns != NULL && ns[0] != 0)
		buf_addf(&g->vault, "namespace=%s%c", ns, 0);
	return true;
}

/* The policy that o brings or names, with the sources of its secrets. NULL: answered with what is wrong. */
static struct generation *take_policy(struct control_client *cc, json_int_t id, const char *sandbox, json_t *o, int *fds, unsigned n)
{
	json_t *files = json_object_get(o, "files"), *e;
	struct generation *g = generation_new();
	struct err err = ERR_INIT;
	size_t i;

	g->flags = json_is_false(json_object_get(o, "explain_denials")) ? 0 : SANDBOX_EXPLAIN_DENIALS;
	if (asks_too_much(cc, id, sandbox, o) || !take_memory(cc, id, "bad_fd", "env", json_object_get(o, "env"), false, fds, n, &g->env_fd) ||
		!take_memory(cc, id, "no_policy", "policy", json_object_get(o, "policy"), true, fds, n, &g->table_fd))
		goto bad;
	if (policy_name(o)[0] != 0) {
		g->narrow_fd = g->table_fd; /* beside a name: what narrows it */
		g->table_fd = folders_table(cc->control->sup, policy_name(o), &cc->caller, &g->folder, &err);
		if (g->table_fd < 0 && err.code == EPERM) {
			not_allowed(cc, id, sandbox, err.text);
			goto bad;
		}
		if (g->table_fd < 0) {
			control_reply_error(cc, id, "no_policy", err.text);
			goto bad;
		}
		snprintf(g->policy, sizeof(g->policy), "%s", policy_name(o));
		fstat(g->table_fd, &g->seen);
	}
	if (g->table_fd < 0) {
		control_reply_error(cc, id, "no_policy", "a compiled policy is needed as {\"policy\":{\"fd\":N}}, or {\"policy\":{\"name\":NAME}} of a policy folder");
		goto bad;
	}
	if (!take_vault(g, json_object_get(o, "vault"), fds, n)) {
		control_reply_error(cc, id, "bad_vault", "vault is {\"address\":\"https://HOST[:PORT]\" (VAULT_ADDR),\"namespace\":TEXT,\"ca\":{\"fd\":N}}, of which the address is needed");
		goto bad;
	}
	json_array_foreach(files, i, e) {
		const char *path = json_string_value(json_object_get(e, "path"));
		int fd = take_fd(e, "fd", fds, n), dir = take_fd(e, "dir", fds, n);

		if (path == NULL || (path[0] != '/' && strncmp(path, "credential:", 11) != 0) || strlen(path) > 4000 || (fd < 0 && dir < 0) || g->file_n == SANDBOX_FILES_MAX) {
			if (fd >= 0)
				close(fd);
			if (dir >= 0)
				close(dir);
			control_reply_error(cc, id, "bad_files", "each of files is {\"path\":\"/P\",\"dir\":N}, its folder, or {\"path\":\"/P\",\"fd\":N}, at most 32");
			goto bad;
		}
		g->files[g->file_n++] = (struct sandbox_file){ must_strdup(path), fd, dir, json_is_true(json_object_get(e, "follow")) };
	}
	return g;
bad:
	generation_free(g);
	return NULL;
}

/* Brought, or installed in a policy folder. One that is named is the one of now: it is not followed. */
static bool ask_boundary(struct control_client *cc, json_int_t id, json_t *o, int *fds, unsigned n, int *out)
{
	const char *name = json_string_value(json_object_get(o, "name"));
	const struct folder *from;
	struct err err = ERR_INIT;

	if (!take_memory(cc, id, "bad_fd", "boundary", o, true, fds, n, out))
		return false;
	if (name == NULL)
		return true;
	if (*out >= 0) {
		control_reply_error(cc, id, "bad_fd", "boundary: either {\"fd\":N} or {\"name\":NAME}");
		return false;
	}
	*out = folders_table(cc->control->sup, name, &cc->caller, &from, &err);
	if (*out < 0)
		control_reply_error(cc, id, "no_policy", err.text);
	return *out >= 0;
}

static unsigned sandboxes_of(const struct control_client *cc)
{
	unsigned n = 0;

	for (const struct sandbox *b = cc->control->sup->sandboxes; b != NULL; b = b->next)
		n += b->caller.uid == cc->caller.uid;
	return n;
}

static unsigned sandboxes_of_others(const struct supervisor *s)
{
	unsigned n = 0;

	for (const struct sandbox *b = s->sandboxes; b != NULL; b = b->next)
		n += !b->caller.admin;
	return n;
}

static void op_register(struct control_client *cc, json_int_t id, json_t *o, int *fds, unsigned n)
{
	static const char *const kinds[] = { NULL, "proxy4", "proxy6", "dns_tcp4", "dns_tcp6", "dns_udp4", "dns_udp6" };
	const char *name = json_string_value(json_object_get(o, "name"));
	json_t *socks = json_object_get(json_object_get(o, "identify"), "sockets"), *e;
	struct sandbox *b = must_calloc(1, sizeof(*b));
	struct generation *g = NULL;
	size_t i;

	b->boundary_fd = b->meter_fd = -1;
	b->caller = cc->caller;
	b->flags = SANDBOX_CA_FLAGS(cc->ca) | (json_is_true(json_object_get(o, "observe")) || cc->control->sup->start.config.observe ? SANDBOX_OBSERVE : 0);
	if (name == NULL || !name_ok(name)) {
		control_reply_error(cc, id, "bad_name", "a sandbox's name is 1 to 63 of a-z 0-9 - _ . and begins with a letter or digit");
		goto bad;
	}
	snprintf(b->name, sizeof(b->name), "%s", name);
	for (struct sandbox *x = cc->control->sup->sandboxes; x != NULL; x = x->next) {
		if (!x->gone && strcmp(x->name, name) == 0) {
			control_reply_error(cc, id, "name_in_use", "a sandbox of this name is running: choose another --name");
			goto bad;
		}
	}
	if (json_object_get(o, "ttl") != NULL) { /* what narrows and is not understood is refused */
		control_reply_error(cc, id, "bad_message", "\"ttl\" is not known: a sandbox ends with its connection, or by revoke");
		goto bad;
	}
	if (!cc->caller.admin && (sandboxes_of(cc) >= CALLER_MAX || sandboxes_of_others(cc->control->sup) >= SANDBOXES_MAX - OTHERS_KEEP)) {
		control_reply_error(cc, id, "too_many", "one user has at most 256 sandboxes here, and all who are no administrators 3800");
		goto bad;
	}
	g = take_policy(cc, id, name, o, fds, n);
	if (g == NULL || !ask_boundary(cc, id, json_object_get(o, "boundary"), fds, n, &b->boundary_fd))
		goto bad;
	json_array_foreach(socks, i, e) {
		const char *kind = json_string_value(json_object_get(e, "kind"));
		int fd = take_fd(e, "fd", fds, n);
		unsigned k = 0;

		for (unsigned x = 1; kind != NULL && x < sizeof(kinds) / sizeof(kinds[0]); x++)
			if (strcmp(kind, kinds[x]) == 0)
				k = x;
		if (k == 0 || fd < 0 || b->listener_n == MSG_LISTENERS_MAX || !listener_ok(fd, k) || fcntl(fd, F_SETFL, O_NONBLOCK) != 0) {
			let_go(&cc->caller, &fd, 1);
			control_reply_error(cc, id, "bad_sockets", "each of identify.sockets is {\"kind\":K,\"fd\":N} with a socket of that kind that listens, at most 8");
			goto bad;
		}
		b->kinds[b->listener_n] = (uint8_t)k;
		b->listeners[b->listener_n++] = fd;
	}
	if (b->listener_n == 0 || json_object_size(json_object_get(o, "identify")) != 1) {
		control_reply_error(cc, id, "bad_sockets", "register needs listening sockets, and knows a sandbox by nothing else: {\"identify\":{\"sockets\":[...]}}");
		goto bad;
	}
	b->owner = json_is_true(json_object_get(o, "keep")) ? NULL : cc;
	b->waiter = cc;
	b->waiter_id = id;
	sandbox_add(cc->control->sup, b, g);
	return;
bad:
	generation_free(g);
	sandbox_free(b);
}

/* --- reload -------------------------------------------------------------------------------------------------------- */

/* What was tried and did not come to a table; the text is the caller's. As many records of it as he likes are for administrators. */
static void note_failure(struct control_client *cc, json_int_t id, struct sandbox *b, const char *text)
{
	char words[500], more[600];
	size_t k = 0;

	for (; *text && k + 1 < sizeof(words); text++)
		words[k++] = *text >= 0x20 && *text < 0x7f ? *text : ' ';
	words[k] = 0;
	if (cc->caller.admin) {
		b->reloading = true;
		b->reload_waiter = cc;
		b->reload_id = id;
		control_reloaded(b, NULL, words);
		return;
	}
	snprintf(more, sizeof(more), "policy not replaced: %s", words);
	caller_refused(b->sup, &cc->caller, str_of(b->name), more);
	control_reply_error(cc, id, "refused", words);
}

static void op_reload(struct control_client *cc, json_int_t id, json_t *o, int *fds, unsigned n)
{
	const char *failed = json_string_value(json_object_get(o, "failed"));
	struct sandbox *b = find_own(cc, json_object_get(o, "sandbox"));
	struct generation *g;

	if (b == NULL || b->gone || b->in_force == NULL) {
		control_reply_error(cc, id, "no_sandbox", "there is no such sandbox");
		return;
	}
	if (b->reloading) {
		control_reply_error(cc, id, "busy", "another policy is on its way to this sandbox");
		return;
	}
	if (failed != NULL) {
		note_failure(cc, id, b, failed);
		return;
	}
	if (cc->caller.admin && json_object_get(o, "boundary") != NULL) {
		control_reply_error(cc, id, "bad_message", "\"boundary\": a sandbox keeps the one that it was registered with");
		return;
	}
	g = take_policy(cc, id, b->name, o, fds, n);
	if (g == NULL)
		return;
	b->reloading = true;
	b->reload_waiter = cc;
	b->reload_id = id;
	generation_keep_sources(g, b->in_force, json_object_get(o, "env") == NULL, json_object_get(o, "files") == NULL);
	generation_add(b, g);
}

/* Whoever owns the sandbox holds what it registers again with, should we be gone: that is the policy in force. */
static void tell_owner(const struct sandbox *b, const struct generation *g)
{
	json_t *o, *files;
	int fds[1 + SANDBOX_FILES_MAX] = { g->table_fd };
	union {
		struct cmsghdr h;
		char room[CMSG_SPACE(sizeof(fds))];
	} ctl = { 0 };
	struct iovec iov;
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &ctl };
	struct cmsghdr *cm;
	char *t;

	if (!b->caller.admin || g->narrow_fd >= 0) { /* he asks for it by its name again, narrowed or not */
		control_reply(b->owner, json_pack("{s:s,s:I,s:I,s:{s:s}}", "event", "policy", "sandbox", (json_int_t)b->id, "generation", (json_int_t)g->number, "policy", "name", g->policy));
		return;
	}
	files = json_array();
	for (unsigned i = 0; i < g->file_n; i++) {
		bool dir = g->files[i].dir_fd >= 0;

		json_array_append_new(files, json_pack("{s:s,s:i,s:b}", "path", g->files[i].path, dir ? "dir" : "fd", (int)(1 + i), "follow", g->files[i].follow));
		fds[1 + i] = dir ? g->files[i].dir_fd : g->files[i].fd;
	}
	o = json_pack("{s:s,s:I,s:I,s:{s:i},s:b,s:o}", "event", "policy", "sandbox", (json_int_t)b->id, "generation", (json_int_t)g->number, "policy", "fd", 0, "explain_denials",
		(g->flags & SANDBOX_EXPLAIN_DENIALS) != 0, "files", files);
	t = json_dumps(o, JSON_COMPACT);
	json_decref(o);
	if (t == NULL)
		return;
	iov = (struct iovec){ t, strlen(t) };
	mh.msg_controllen = CMSG_SPACE(sizeof(int) * (1 + g->file_n));
	cm = CMSG_FIRSTHDR(&mh);
	cm->cmsg_level = SOL_SOCKET;
	cm->cmsg_type = SCM_RIGHTS;
	cm->cmsg_len = CMSG_LEN(sizeof(int) * (1 + g->file_n));
	memcpy(CMSG_DATA(cm), fds, sizeof(int) * (1 + g->file_n));
	if (sendmsg(b->owner->watch.fd, &mh, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		log_error("the owner of sandbox %s could not be told of its policy: should this gateway be lost, it comes back with the one before", b->name);
	free(t);
}

static void on_look_again(struct timer *t) { folders_look((struct supervisor *)((char *)t - offsetof(struct supervisor, folders_due))); }

void control_reloaded(struct sandbox *b, const struct generation *g, const char *error)
{
	struct control_client *cc = b->reload_waiter;
	char text[700];

	if (!b->reloading)
		return;
	b->reloading = false;
	b->reload_waiter = NULL;
	if (g != NULL) {
		log_info("sandbox %s: policy generation %u is in force", b->name, g->number);
		supervisor_admin(b->sup, str_of(b->name), g, "policy replaced");
		if (b->owner != NULL && !b->owner->closed)
			tell_owner(b, g);
	} else {
		log_error("sandbox %s: its policy is not replaced: %s", b->name, error);
		snprintf(text, sizeof(text), "policy not replaced: %s", error);
		supervisor_admin(b->sup, str_of(b->name), b->in_force, text);
	}
	if (b->look_again && !b->gone)
		timer_start(b->sup->loop, &b->sup->folders_due, 0, on_look_again);
	if (cc == NULL)
		return;
	if (g == NULL)
		control_reply_error(cc, b->reload_id, "refused", error);
	else
		control_reply(cc, json_pack("{s:I,s:{s:I,s:I}}", "id", b->reload_id, "ok", "sandbox", (json_int_t)b->id, "generation", (json_int_t)g->number));
}

/* --- what there is ------------------------------------------------------------------------------------------------- */

static json_t *role_json(const struct proc *p)
{
	return json_pack("{s:s,s:i,s:b,s:b}", "role", role_name(p->role), "pid", (int)p->child.pid, "running", p->child.pid != 0, "ready", p->state == PROC_READY);
}

/* Those in use now: "ADDRESS PORT" each. */
static json_t *name_servers(const struct control_client *cc)
{
	json_t *list = json_array();

	for (const char *p = cc->caller.admin ? cc->control->sup->start.config.dns : ""; *p != 0;) {
		size_t n = strcspn(p, "\n");

		json_array_append_new(list, json_stringn(p, n));
		p += n + (p[n] != 0);
	}
	return list;
}

static void op_status(struct control_client *cc, json_int_t id)
{
	struct supervisor *s = cc->control->sup;
	json_t *roles = json_array(), *boxes = json_array(), *w;

	for (size_t i = 0; cc->caller.admin && i < SHARED_ROLES; i++)
		json_array_append_new(roles, role_json(&s->shared[i]));
	for (struct sandbox *b = s->sandboxes; b != NULL; b = b->next) {
		if (!owns(cc, b))
			continue;
		json_array_append_new(boxes, json_pack("{s:I,s:s,s:i,s:b,s:I}", "sandbox", (json_int_t)b->id, "name", b->name, "worker_pid", b->worker ? (int)b->worker->child.pid : 0, "answered", b->answered, "generation",
			(json_int_t)(b->in_force != NULL ? b->in_force->number : 0)));
		if (b->worker != NULL) {
			w = role_json(b->worker);
			json_object_set_new(w, "sandbox", json_string(b->name));
			json_array_append_new(roles, w);
		}
	}
	if (cc->caller.admin && s->spare != NULL) {
		w = role_json(s->spare);
		json_object_set_new(w, "spare", json_true());
		json_array_append_new(roles, w);
	}
	control_reply(cc, json_pack("{s:I,s:{s:i,s:s,s:o,s:o,s:o}}", "id", id, "ok", "pid", (int)getpid(), "state", s->start.state_dir, "roles", roles, "sandboxes", boxes, "name_servers", name_servers(cc)));
}

void control_finished(struct sandbox *b)
{
	struct control_client *cc = b->waiter;
	json_int_t requests = (json_int_t)(b->counts_before.requests + b->counts.requests), refused = (json_int_t)(b->counts_before.refused + b->counts.refused);

	b->waiter = NULL;
	timer_stop(&b->finish_late);
	if (cc != NULL)
		control_reply(cc, json_pack("{s:I,s:{s:I,s:I}}", "id", b->waiter_id, "ok", "requests", requests, "refused", refused));
	sandbox_revoke(b, "sandbox ended");
}

void control_stop(struct sandbox *b, const char *reason)
{
	if (b->owner != NULL)
		control_reply(b->owner, json_pack("{s:s,s:s}", "event", "stop", "reason", reason));
}

static void on_finish_late(struct timer *t) { control_finished((struct sandbox *)((char *)t - offsetof(struct sandbox, finish_late))); }

/* The worker has the last word about how many requests there were; one that is gone or stuck is not waited for. */
static void op_finish(struct control_client *cc, json_int_t id, struct sandbox *b)
{
	b->waiter = cc;
	b->waiter_id = id;
	b->finishing = true;
	timer_start(b->sup->loop, &b->finish_late, FINISH_MS, on_finish_late);
	if (b->worker == NULL || b->worker->state != PROC_READY || !proc_say(b->worker, MSG_COUNTS_ASK, 0, NULL, 0, NULL, 0, NULL, 0))
		control_finished(b);
}

static void handle(struct control_client *cc, const char *text, size_t len, int *fds, unsigned n)
{
	struct supervisor *s = cc->control->sup;
	json_error_t je;
	json_t *o = json_loadb(text, len, JSON_REJECT_DUPLICATES, &je);
	const char *op;
	json_int_t id;

	if (!json_is_object(o)) {
		control_reply_error(cc, 0, "bad_json", "one JSON object a message");
		goto out;
	}
	if (json_object_get(o, "hello") != NULL) {
		control_reply(cc, json_pack("{s:i,s:[s,s,s,s,s],s:s}", "v", 1, "features", "register", "revoke", "reload", "status", "stop", "version", SP_VERSION));
		goto out;
	}
	op = json_string_value(json_object_get(o, "op"));
	id = json_integer_value(json_object_get(o, "id"));
	if (s->shutting_down) {
		drop(cc); /* who finds the connection closed asks the next gateway */
	} else if (op == NULL) {
		control_reply_error(cc, id, "bad_request", "op is missing");
	} else if (strcmp(op, "register") == 0) {
		op_register(cc, id, o, fds, n);
	} else if (strcmp(op, "revoke") == 0 || strcmp(op, "finish") == 0) {
		struct sandbox *b = find_own(cc, json_object_get(o, "sandbox"));

		if (b == NULL) {
			control_reply_error(cc, id, "no_sandbox", "there is no such sandbox");
		} else if (strcmp(op, "finish") == 0 && b->answered && !b->finishing) {
			op_finish(cc, id, b);
		} else {
			if (b->finishing)
				control_finished(b);
			else
				sandbox_revoke(b, "sandbox ended");
			control_reply(cc, json_pack("{s:I,s:{}}", "id", id, "ok"));
		}
	} else if (strcmp(op, "reload") == 0) {
		op_reload(cc, id, o, fds, n);
	} else if (strcmp(op, "status") == 0) {
		op_status(cc, id);
	} else if (!cc->caller.admin && (strcmp(op, "secret") == 0 || strcmp(op, "stop") == 0)) {
		not_allowed(cc, id, "", "this is for the gateway's own user and administrators");
	} else if (strcmp(op, "secret") == 0) {
		secret_op(s, cc, id, o);
	} else if (strcmp(op, "stop") == 0) {
		control_reply(cc, json_pack("{s:I,s:{}}", "id", id, "ok"));
		supervisor_shutdown(s);
	} else {
		control_reply_error(cc, id, "unknown_op", "this gateway does not know that op");
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
		char room[CMSG_SPACE(sizeof(int) * FDS_SENT_MAX)];
	} ctl;
	struct iovec iov = { buf, MESSAGE_MAX };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &ctl, .msg_controllen = sizeof(ctl) };
	int fds[FDS_SENT_MAX];
	unsigned fd_n = 0;
	struct caller by = cc->caller; /* who may be gone by the end */
	ssize_t n = recvmsg(w->fd, &mh, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);

	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	for (struct cmsghdr *cm = n < 0 ? NULL : CMSG_FIRSTHDR(&mh); cm != NULL; cm = CMSG_NXTHDR(&mh, cm)) {
		if (cm->cmsg_level == SOL_SOCKET && cm->cmsg_type == SCM_RIGHTS) {
			fd_n = (unsigned)((cm->cmsg_len - CMSG_LEN(0)) / sizeof(int));
			memcpy(fds, CMSG_DATA(cm), fd_n * sizeof(int));
		}
	}
	if (n <= 0) /* the end, or an empty message, which may have brought descriptors */
		drop(cc);
	else if ((mh.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) || fd_n > FDS_MAX)
		control_reply_error(cc, 0, "too_large", "a message is at most 64 KiB with 64 descriptors");
	else
		handle(cc, buf, (size_t)n, fds, fd_n);
	let_go(&by, fds, fd_n);
}

static void on_accept_again(struct timer *t)
{
	struct control *c = (struct control *)((char *)t - offsetof(struct control, again));

	watch_set(&c->watch, EPOLLIN);
}

/* In our own network namespace: the cookie of an accepted unix socket is its caller's. */
static bool is_outside(const struct control *c, int fd)
{
	static struct log_limit limit;
	socklen_t n = sizeof(uint64_t);
	uint64_t cookie = 0;

	if (getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &n) == 0 && cookie == c->netns)
		return true;
	log_limited(&limit, "a caller from another network namespace was refused");
	return false;
}

/* Who gets no connection hears why, if that can be said at once. */
static bool caller_ok(struct control *c, int fd, struct caller *by)
{
	unsigned n = 0, others = 0;
	char why[200];

	if (!is_outside(c, fd) || c->n >= CLIENTS_MAX)
		return false;
	if (!caller_known(by, &c->sup->start.config, fd, why)) {
		caller_refused(c->sup, by, STR_NONE, why);
	} else {
		for (const struct control_client *cc = c->clients; cc != NULL; cc = cc->next)
			n += cc->caller.uid == by->uid, others += !cc->caller.admin;
		if (by->admin || (n < CALLER_MAX && others < CLIENTS_MAX - OTHERS_KEEP))
			return true;
		snprintf(why, sizeof(why), "one user has at most %d connections here, and all who are no administrators %d", CALLER_MAX, CLIENTS_MAX - OTHERS_KEEP);
	}
	send_text(fd, json_pack("{s:i,s:{s:s,s:s}}", "id", 0, "error", "code", "not_allowed", "message", why));
	return false;
}

static void on_accept(struct watch *w, uint32_t events)
{
	struct control *c = (struct control *)((char *)w - offsetof(struct control, watch));
	struct control_client *cc;
	struct caller by;
	int fd = accept4(w->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	(void)events;
	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
			/* it would be reported again at once; let some descriptors go first */
			watch_set(w, 0);
			timer_start(c->sup->loop, &c->again, ACCEPT_AGAIN_MS, on_accept_again);
		}
		return;
	}
	if (!caller_ok(c, fd, &by)) {
		closer_close(&fd, 1); /* he may have sent something already */
		return;
	}
	cc = must_calloc(1, sizeof(*cc));
	cc->control = c;
	cc->caller = by;
	cc->ca = cas_newest(c->sup);
	cc->next = c->clients;
	c->clients = cc;
	c->n++;
	watch_start(c->sup->loop, &cc->watch, fd, EPOLLIN, on_client);
}

/* A state directory is for nobody else, and a socket inside it so far neither. */
static void tell_unreachable(const struct startup *s)
{
	size_t n = strlen(s->state_dir);
	struct stat st;

	if (strncmp(s->run_dir, s->state_dir, n) == 0 && s->run_dir[n] == '/' && fstat(s->state_fd, &st) == 0 && (st.st_mode & 011) == 0)
		log_info("others than the gateway's own user may call, but cannot reach %s/control.sock: chmod 711 %s (what is in it stays closed)", s->run_dir, s->state_dir);
}

struct control *control_new(struct supervisor *s, struct err *err)
{
	struct control *c = must_calloc(1, sizeof(*c));
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	const bool others = callers_others(&s->start.config);
	socklen_t n = sizeof(c->netns);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	c->sup = s;
	if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &c->netns, &n) != 0) {
		/* without it a caller inside a sandbox could not be told from one outside */
		err_errno(err, "this kernel does not tell network namespaces apart (SO_NETNS_COOKIE, Linux 5.14)");
		goto bad;
	}
	/* through the directory's descriptor: a path may be longer than a socket address holds */
	snprintf(sa.sun_path, sizeof(sa.sun_path), "/proc/self/fd/%d/control.sock", s->start.run_fd);
	unlinkat(s->start.run_fd, "control.sock", 0); /* ours: the lock is held */
	if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) != 0 || listen(fd, 64) != 0) {
		err_errno(err, "cannot listen on %s/control.sock", s->start.run_dir);
		goto bad;
	}
	/* who may call is told by who he is; the folder shows nothing but the socket to those who know its name */
	snprintf(sa.sun_path, sizeof(sa.sun_path), "/proc/self/fd/%d", s->start.run_fd);
	if (chmod(sa.sun_path, others ? 0711 : 0700) != 0 || fchmodat(s->start.run_fd, "control.sock", others ? 0666 : 0600, 0) != 0) {
		err_errno(err, "cannot set the mode of %s", s->start.run_dir);
		goto bad;
	}
	if (others)
		tell_unreachable(&s->start);
	watch_start(s->loop, &c->watch, fd, EPOLLIN, on_accept);
	return c;
bad:
	if (fd >= 0)
		close(fd);
	free(c);
	return NULL;
}

void control_close(struct control *c)
{
	int fd = c->watch.fd;

	if (c->closed)
		return;
	c->closed = true;
	unlinkat(c->sup->start.run_fd, "control.sock", 0);
	timer_stop(&c->again);
	watch_stop(&c->watch);
	close(fd);
}
