/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names to addresses, by the configured servers alone: no hosts file, no search list, no file is read. Both families are
 * asked for at the same time. Answers are kept for their time to live, between DNS_TTL_MIN_S and DNS_TTL_MAX_S, for each
 * sandbox apart: how fast an answer comes tells one sandbox nothing about another.
 */
#include <ares.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../../common/base/must.h"
#include "dialer.h"

#define BUCKETS 1024
#define NAMES_MAX 8192
#define SWEEP_MS 5000
#define PER_FAMILY (DIAL_CANDIDATES / 2)
#define TRY_MS 2000
#define TRIES 3
#define ASK_AGAIN_MS (DIAL_DNS_MS / 2) /* a question that is older is asked anew for who comes now: c-ares waits longer with each try, and a server that is back would not be asked in time */
#define CHANS 2

struct name;
struct lookup {
	struct lookup *next, **prev;
	struct name *name;
	lookup_fn *fn;
	void *arg;
	bool told; /* of the first half */
};
struct half { /* of one family */
	struct ip ip[PER_FAMILY];
	unsigned n;
	bool pending, again; /* again: asked of the verbatim channel, for the reason of a failure */
	int status;
	int ttl;
};
struct name {
	struct name *next;
	struct resolver *r;
	uint64_t hash, expires_ms, asked_ms;
	uint32_t sandbox;
	unsigned round, out; /* how often it was asked for; questions that c-ares has not ended yet, of all rounds */
	struct half half[2]; /* IPv6, IPv4 */
	struct lookup *lookups;
	struct timer partial;
	char text[];
};
struct sock {
	struct sock *next;
	struct chan *chan;
	struct watch watch;
	int fd;
};
struct chan {
	struct resolver *r;
	ares_channel ares;
	bool verbatim; /* hands a server's failure on as it is, where the other tries the next server and in the end only says that none is left */
};
struct resolver {
	struct loop *loop;
	struct chan chans[CHANS];
	bool no_ipv6;
	bool renewing; /* what is cancelled now is asked again */
	struct sock *socks;
	struct timer timeout, sweep;
	struct name *buckets[BUCKETS];
	size_t n;
};
struct query { /* what c-ares hands back */
	struct name *name;
	unsigned half, round;
};

static void arm(struct resolver *r);

/* --- c-ares on the loop -------------------------------------------------------------------------------------------- */

static void on_sock(struct watch *w, uint32_t events)
{
	struct sock *s = (struct sock *)((char *)w - offsetof(struct sock, watch));
	struct chan *c = s->chan;
	int fd = s->fd;

	ares_process_fd(c->ares, events & (EPOLLIN | EPOLLHUP | EPOLLERR) ? fd : ARES_SOCKET_BAD, events & EPOLLOUT ? fd : ARES_SOCKET_BAD);
	arm(c->r);
}

static void on_timeout(struct timer *t)
{
	struct resolver *r = (struct resolver *)((char *)t - offsetof(struct resolver, timeout));

	for (int i = 0; i < CHANS; i++)
		ares_process_fd(r->chans[i].ares, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
	arm(r);
}

static void arm(struct resolver *r)
{
	uint64_t first = UINT64_MAX;

	for (int i = 0; i < CHANS; i++) {
		struct timeval tv, *w = ares_timeout(r->chans[i].ares, NULL, &tv);
		uint64_t ms = w != NULL ? (uint64_t)w->tv_sec * 1000 + (uint64_t)w->tv_usec / 1000 + 1 : UINT64_MAX;

		first = ms < first ? ms : first;
	}
	if (first == UINT64_MAX)
		timer_stop(&r->timeout);
	else
		timer_start(r->loop, &r->timeout, first, on_timeout);
}

static void free_sock(void *arg) { free(arg); }

static void on_state(void *arg, ares_socket_t fd, int readable, int writable)
{
	struct chan *c = arg;
	struct resolver *r = c->r;
	struct sock **p, *s;
	uint32_t want = (readable ? EPOLLIN : 0) | (writable ? EPOLLOUT : 0);

	for (p = &r->socks; *p != NULL && (*p)->fd != fd; p = &(*p)->next)
		;
	s = *p;
	if (want == 0) {
		if (s == NULL)
			return;
		watch_stop(&s->watch);
		*p = s->next;
		loop_defer(r->loop, free_sock, s);
		return;
	}
	if (s != NULL) {
		watch_set(&s->watch, want);
		return;
	}
	s = must_calloc(1, sizeof(*s));
	s->chan = c;
	s->fd = fd;
	s->next = r->socks;
	r->socks = s;
	watch_start(r->loop, &s->watch, fd, want, on_sock);
}

/*
 * The sockets of c-ares, made as it would make them itself, for the sake of one thing: that a server's port is closed comes as the error of
 * the next call on that socket, whatever question it was for. c-ares takes an error of sending for the new question's alone, passes only that
 * one on to the next server, and lets those before wait for an answer until their time is over. So sending is tried again,
 * which leaves the port's word on this question to be read, as an error of reading, and that counts for all of them.
 */
static ares_socket_t sock_open(int family, int type, int protocol, void *arg)
{
	(void)arg;
	return socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol);
}

static int sock_close(ares_socket_t fd, void *arg)
{
	(void)arg;
	return close(fd);
}

static int sock_connect(ares_socket_t fd, const struct sockaddr *to, ares_socklen_t n, void *arg)
{
	(void)arg;
	return connect(fd, to, n);
}

static ares_ssize_t sock_recvfrom(ares_socket_t fd, void *p, size_t n, int flags, struct sockaddr *from, ares_socklen_t *from_n, void *arg)
{
	(void)arg;
	return recvfrom(fd, p, n, flags, from, from_n);
}

static ares_ssize_t sock_sendv(ares_socket_t fd, const struct iovec *v, int n, void *arg)
{
	ssize_t r = writev(fd, v, n);

	(void)arg;
	return r < 0 && errno == ECONNREFUSED ? writev(fd, v, n) : r;
}

static const struct ares_socket_functions socks = { sock_open, sock_close, sock_connect, sock_recvfrom, sock_sendv };

/* --- names --------------------------------------------------------------------------------------------------------- */

static const char *cause_of(int status)
{
	switch (status) {
	case ARES_ENOTFOUND:
		return "the name does not exist";
	case ARES_ENODATA:
		return "the name has no address";
	case ARES_ESERVFAIL:
		return "the name server failed";
	case ARES_EREFUSED:
		return "the name server refused the question";
	case ARES_ECONNREFUSED:
		return "no name server can be reached";
	case ARES_ETIMEOUT:
		return "no name server answered in time";
	case ARES_EBADNAME:
		return "the name cannot be asked for";
	default:
		return "the name server's answer cannot be used";
	}
}

static bool pending(const struct name *e) { return e->half[0].pending || e->half[1].pending; }

static void answer_of(const struct name *e, struct answer *a)
{
	const struct half *h = e->half;

	a->n = 0;
	for (int f = 0; f < 2; f++)
		for (unsigned i = 0; i < h[f].n; i++)
			a->ip[a->n++] = h[f].ip[i];
	a->complete = !pending(e);
	/* a failure of one family says more than the other's having no address */
	a->cause = cause_of(h[0].status != ARES_SUCCESS && h[0].status != ARES_ENODATA && h[0].status != ARES_ENOTFOUND ? h[0].status : h[1].status != ARES_SUCCESS ? h[1].status : ARES_ENODATA);
}

static void unlink_lookup(struct lookup *l)
{
	*l->prev = l->next;
	if (l->next != NULL)
		l->next->prev = l->prev;
	free(l);
}

void resolver_cancel(struct lookup *l)
{
	if (l != NULL)
		unlink_lookup(l);
}

static void tell_complete(struct name *e)
{
	struct answer a;

	answer_of(e, &a);
	while (e->lookups != NULL) { /* the callee may cancel others, or begin new ones elsewhere */
		lookup_fn *fn = e->lookups->fn;
		void *arg = e->lookups->arg;

		unlink_lookup(e->lookups);
		fn(arg, &a);
	}
}

static void on_partial(struct timer *t)
{
	struct name *e = (struct name *)((char *)t - offsetof(struct name, partial));
	struct lookup *l;
	struct answer a;

	answer_of(e, &a);
	for (;;) {
		for (l = e->lookups; l != NULL && l->told; l = l->next)
			;
		if (l == NULL)
			break;
		l->told = true;
		l->fn(l->arg, &a);
	}
}

int resolver_keep_s(int ttl) { return ttl < DNS_TTL_MIN_S ? DNS_TTL_MIN_S : ttl > DNS_TTL_MAX_S ? DNS_TTL_MAX_S : ttl; }

static void set_expiry(struct name *e)
{
	const struct half *h = e->half;
	int ttl = DNS_TTL_MAX_S;

	for (int f = 0; f < 2; f++)
		if (h[f].n > 0 && h[f].ttl < ttl)
			ttl = h[f].ttl;
	ttl = h[0].n + h[1].n == 0 ? DNS_TTL_MIN_S : resolver_keep_s(ttl);
	for (int f = 0; f < 2; f++)
		if (h[f].status != ARES_SUCCESS && h[f].status != ARES_ENODATA && h[f].status != ARES_ENOTFOUND)
			ttl = DNS_FAILED_S; /* half an answer is not kept for long either */
	e->expires_ms = loop_now_ms(e->r->loop) + (uint64_t)ttl * 1000;
}

static void take(struct half *h, const struct ares_addrinfo *res, int family)
{
	h->ttl = DNS_TTL_MAX_S;
	for (const struct ares_addrinfo_cname *c = res->cnames; c != NULL; c = c->next)
		if (c->ttl < h->ttl)
			h->ttl = c->ttl;
	for (const struct ares_addrinfo_node *i = res->nodes; i != NULL && h->n < PER_FAMILY; i = i->ai_next) {
		struct ip *ip = &h->ip[h->n];

		if (i->ai_family != family)
			continue;
		memset(ip, 0, sizeof(*ip));
		if (family == AF_INET) {
			ip->family = 4;
			memcpy(ip->b + 12, &((const struct sockaddr_in *)(const void *)i->ai_addr)->sin_addr, 4);
		} else {
			ip->family = 6;
			memcpy(ip->b, &((const struct sockaddr_in6 *)(const void *)i->ai_addr)->sin6_addr, 16);
		}
		if (i->ai_ttl < h->ttl)
			h->ttl = i->ai_ttl;
		h->n++;
	}
}

static void ask_half(struct name *e, unsigned f);

static void on_answer(void *arg, int status, int timeouts, struct ares_addrinfo *res)
{
	struct query *q = arg;
	struct name *e = q->name;
	struct half *h = &e->half[q->half];
	bool earlier = q->round != e->round;

	(void)timeouts;
	free(q);
	e->out--;
	if (e->r->renewing)
		return; /* still pending: asked again in a moment */
	/* of an earlier round an answer counts, a failure does not */
	if (!h->pending || (earlier && status != ARES_SUCCESS)) {
		if (res != NULL)
			ares_freeaddrinfo(res);
		return;
	}
	if (status == ARES_ECONNREFUSED && !h->again) {
		h->again = true;
		if (res != NULL)
			ares_freeaddrinfo(res);
		ask_half(e, h == &e->half[0] ? 0 : 1);
		return;
	}
	h->pending = false;
	h->status = status;
	h->n = 0;
	if (status == ARES_SUCCESS && res != NULL)
		take(h, res, h == &e->half[0] ? AF_INET6 : AF_INET);
	if (status == ARES_SUCCESS && h->n == 0)
		h->status = ARES_ENODATA;
	if (res != NULL)
		ares_freeaddrinfo(res);
	if (pending(e)) {
		if (h->n > 0)
			timer_start(e->r->loop, &e->partial, DIAL_RESOLUTION_MS, on_partial);
		return;
	}
	timer_stop(&e->partial);
	set_expiry(e);
	tell_complete(e);
}

static void ask_half(struct name *e, unsigned f)
{
	struct ares_addrinfo_hints hints = { .ai_flags = ARES_AI_NOSORT, .ai_socktype = SOCK_STREAM, .ai_family = f == 0 ? AF_INET6 : AF_INET };
	struct query *q = must_malloc(sizeof(*q));

	*q = (struct query){ e, f, e->round };
	e->out++;
	ares_getaddrinfo(e->r->chans[e->half[f].again].ares, e->text, NULL, &hints, on_answer, q); /* may answer at once */
}

/* For what is pending. */
static void ask_round(struct name *e)
{
	e->round++;
	e->asked_ms = loop_now_ms(e->r->loop);
	for (unsigned f = 0; f < 2; f++) {
		if (!e->half[f].pending)
			continue;
		e->half[f].again = false;
		ask_half(e, f);
	}
}

static void ask(struct name *e)
{
	e->half[0] = (struct half){ .pending = !e->r->no_ipv6 };
	e->half[1] = (struct half){ .pending = true };
	ask_round(e);
	arm(e->r);
}

static void sweep(struct resolver *r)
{
	uint64_t now = loop_now_ms(r->loop);

	for (size_t b = 0; b < BUCKETS; b++) {
		for (struct name **p = &r->buckets[b]; *p != NULL;) {
			struct name *e = *p;

			if (pending(e) || e->out > 0 || e->lookups != NULL || now < e->expires_ms) {
				p = &e->next;
				continue;
			}
			*p = e->next;
			r->n--;
			timer_stop(&e->partial);
			free(e);
		}
	}
}

static void on_sweep(struct timer *t)
{
	struct resolver *r = (struct resolver *)((char *)t - offsetof(struct resolver, sweep));

	sweep(r);
	timer_start(r->loop, &r->sweep, SWEEP_MS, on_sweep);
}

static struct name *name_of(struct resolver *r, uint32_t sandbox, struct str text)
{
	uint64_t hash = hash_bytes(text.p, text.n) ^ sandbox;
	struct name *e, **b = &r->buckets[hash % BUCKETS];

	for (e = *b; e != NULL; e = e->next)
		if (e->hash == hash && e->sandbox == sandbox && str_eq(str_of(e->text), text))
			return e;
	if (r->n >= NAMES_MAX)
		sweep(r);
	if (r->n >= NAMES_MAX)
		return NULL;
	e = must_calloc(1, sizeof(*e) + text.n + 1);
	e->r = r;
	e->hash = hash;
	e->sandbox = sandbox;
	memcpy(e->text, text.p, text.n);
	e->next = *b;
	*b = e;
	r->n++;
	return e;
}

struct lookup *resolver_lookup(struct resolver *r, uint32_t sandbox, struct str text, lookup_fn *fn, void *arg)
{
	struct name *e = name_of(r, sandbox, text);
	struct answer a = { .complete = true, .cause = "too many names are being resolved" };
	struct lookup *l;

	if (e == NULL) {
		fn(arg, &a);
		return NULL;
	}
	if (!pending(e) && loop_now_ms(r->loop) >= e->expires_ms)
		ask(e);
	if (pending(e) && loop_now_ms(r->loop) - e->asked_ms >= ASK_AGAIN_MS) {
		ask_round(e);
		arm(r);
	}
	if (!pending(e)) {
		answer_of(e, &a);
		fn(arg, &a);
		return NULL;
	}
	l = must_malloc(sizeof(*l));
	*l = (struct lookup){ .next = e->lookups, .prev = &e->lookups, .name = e, .fn = fn, .arg = arg };
	if (e->lookups != NULL)
		e->lookups->prev = &l->next;
	e->lookups = l;
	/* one family is there since longer than the other is waited for */
	if (e->half[0].n + e->half[1].n > 0 && e->partial.heap == 0)
		timer_start(r->loop, &e->partial, 0, on_partial);
	return l;
}

/* --- start --------------------------------------------------------------------------------------------------------- */

void resolver_no_ipv6(struct resolver *r) { r->no_ipv6 = true; }

static int server_list(struct str servers, struct buf *csv, struct err *err)
{
	while (servers.n > 0) {
		const char *nl = memchr(servers.p, '\n', servers.n), *space;
		struct str line = str_mk(servers.p, nl != NULL ? (size_t)(nl - servers.p) : servers.n);
		uint64_t port;
		struct ip ip;

		servers = str_mk(servers.p + line.n + (nl != NULL), servers.n - line.n - (nl != NULL));
		if (line.n == 0)
			continue;
		space = memchr(line.p, ' ', line.n);
		if (space == NULL || !ip_parse(str_mk(line.p, (size_t)(space - line.p)), &ip) ||
		    !str_u64(str_mk(space + 1, line.n - (size_t)(space - line.p) - 1), 65535, &port) || port == 0)
			return err_set(err, EINVAL, "a name server is not an address and a port");
		if (buf_len(csv) > 0)
			buf_addc(csv, ',');
		buf_addz(csv, ip.family == 6 ? "[" : "");
		buf_adds(csv, str_mk(line.p, (size_t)(space - line.p)));
		buf_addz(csv, ip.family == 6 ? "]:" : ":");
		buf_addu(csv, port);
	}
	if (buf_len(csv) == 0)
		return err_set(err, EINVAL, "there is no name server");
	buf_addc(csv, 0);
	return 0;
}

static int chan_open(struct chan *c, const char *csv)
{
	struct ares_options o = {
		.flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES | (c->verbatim ? ARES_FLAG_NOCHECKRESP : 0),
		.timeout = TRY_MS,
		.tries = TRIES,
		.ndots = 1,
		.ndomains = 0,
		.lookups = (char *)"b",
		.resolvconf_path = (char *)"/dev/null",
		.sock_state_cb = on_state,
		.sock_state_cb_data = c,
	};
	int rc = ares_init_options(&c->ares, &o, ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_NDOTS | ARES_OPT_DOMAINS | ARES_OPT_LOOKUPS | ARES_OPT_RESOLVCONF | ARES_OPT_SOCK_STATE_CB);

	if (rc != ARES_SUCCESS)
		return rc;
	ares_set_socket_functions(c->ares, &socks, NULL);
	return ares_set_servers_ports_csv(c->ares, csv);
}

static void chans_close(struct resolver *r)
{
	for (int i = 0; i < CHANS; i++)
		if (r->chans[i].ares != NULL)
			ares_destroy(r->chans[i].ares);
}

struct resolver *resolver_new(struct loop *l, struct str servers, struct err *err)
{
	struct resolver *r = must_calloc(1, sizeof(*r));
	struct buf csv = { 0 };
	int rc;

	r->loop = l;
	if (server_list(servers, &csv, err) < 0)
		goto out;
	rc = ares_library_init(ARES_LIB_INIT_ALL);
	for (int i = 0; i < CHANS && rc == ARES_SUCCESS; i++) {
		r->chans[i] = (struct chan){ .r = r, .verbatim = i == 1 };
		rc = chan_open(&r->chans[i], (const char *)buf_data(&csv));
	}
	if (rc != ARES_SUCCESS) {
		err_set(err, EIO, "the resolver cannot be started: %s", ares_strerror(rc));
		goto out;
	}
	timer_start(l, &r->sweep, SWEEP_MS, on_sweep);
	buf_fini(&csv);
	return r;
out:
	buf_fini(&csv);
	chans_close(r);
	free(r);
	return NULL;
}

int resolver_servers(struct resolver *r, struct str servers, struct err *err)
{
	struct buf csv = { 0 };

	if (server_list(servers, &csv, err) < 0) {
		buf_fini(&csv);
		return -1;
	}
	/* a channel takes other servers only while nothing is pending; a new one would open files, which is forbidden by now */
	for (int i = 0; i < CHANS; i++) {
		r->renewing = true;
		ares_cancel(r->chans[i].ares);
		r->renewing = false;
		MUST(ares_set_servers_ports_csv(r->chans[i].ares, (const char *)buf_data(&csv)) == ARES_SUCCESS);
	}
	buf_fini(&csv);
	for (size_t b = 0; b < BUCKETS; b++) {
		for (struct name *e = r->buckets[b]; e != NULL; e = e->next) {
			if (!pending(e) && e->half[0].n + e->half[1].n == 0)
				e->expires_ms = 0; /* what the old ones could not tell */
			ask_round(e);
		}
	}
	arm(r);
	return 0;
}

void resolver_free(struct resolver *r)
{
	if (r == NULL)
		return;
	chans_close(r); /* answers what is pending, to nobody */
	timer_stop(&r->timeout);
	timer_stop(&r->sweep);
	for (size_t b = 0; b < BUCKETS; b++) {
		while (r->buckets[b] != NULL) {
			struct name *e = r->buckets[b];

			r->buckets[b] = e->next;
			MUST(e->lookups == NULL);
			timer_stop(&e->partial);
			free(e);
		}
	}
	free(r);
}
