/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dialer. For each question of a worker:
 *
 *   destination  scheme, host and port must be a destination of that sandbox's table, before anything is resolved
 *   candidates   `connect` of the destination, the literal address, or what the name resolves to
 *   vetting      each candidate is classified and compared with `addresses`; what is refused is never dialled, and what is
 *                dialled is the very address that was vetted
 *   connecting   one after the other, each with a head start of 250 ms (RFC 8305, without its address sorting)
 *
 * secrets has connections of its own, to Vault and to token end-points; where those may lead stands in what the operator
 * said (SOURCES) or in a sandbox's table, never in the question: source.c.
 *
 * The first connected socket is handed over and forgotten. No octet of a request is ever seen here.
 *
 * With a proxy behind the gateway (parent.h) nothing else is ever connected to: candidates are vetted as above, and then asked
 * of it by CONNECT, one after the other; or it is given the name, and then it is its vetting that counts, which the answer says.
 * Its own address is not vetted: the operator named it. The socket is handed over when its answer's head was read, and no more; where
 * it is spoken to under TLS, one end of a pair, whose octets go through here (link.h).
 */
#include "dialer.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../common/base/must.h"
#include "../../common/served.h"
#include "../../common/sys/clock.h"
#include "../../common/sys/log.h"
#include "../../common/sys/role.h"
#include "../../common/trust.h"
#include "../roles.h"
#include "link.h"
#include "parent.h"

#define CAUSE_MAX 400

struct dial;
struct attempt {
	struct watch watch;
	struct dial *dial;
	struct ip ip;
	int fd; /* -1: not under way */
};
struct dial {
	struct dial *next, **prev; /* of its sandbox */
	struct served *s;
	uint64_t id;
	uint32_t generation;
	uint16_t port;           /* that is dialled */
	struct dest dest;
	const struct source *source; /* a connection of secrets: where to, in place of dest. NULL: a worker's */
	struct lookup *lookup;
	bool complete, partial;  /* all candidates are known; some were dialled before all were known */
	struct ip refused;       /* the first that was refused, family 0: none */
	char refused_why[120];
	struct ip cand[DIAL_CANDIDATES];
	unsigned cand_n, next_cand;
	struct attempt attempts[DIAL_CANDIDATES];
	unsigned attempt_n, live;
	struct timer stagger, deadline;
	struct ip last;          /* tried last */
	int last_errno;
	uint64_t start_us, dns_us, connect_start_us;
	bool done;
	/* by the proxy behind */
	struct ip target[DIAL_CANDIDATES]; /* vetted; none: it is given the name */
	unsigned target_n, next_target;
	uint16_t target_port;
	struct canon_host host;
	bool by_proxy; /* on the way to it: cand are its addresses */
	int proxy_fd;  /* that it was asked on, or -1 */
	struct link *link; /* likewise, under TLS */
	struct watch proxy_watch;
	struct ip proxy_ip;
	struct parent_reader reader;
	char answered[200]; /* what it said last */
};
struct sandbox { /* served.data */
	struct dial *dials;
	unsigned n;
};
struct dialer {
	struct loop *loop;
	struct ipc *sup, *secrets;
	struct served_set served;
	struct served own;      /* whose are the connections of secrets */
	struct sources *sources;
	struct resolver *resolver;
	struct local *local;
	bool no_ipv6;           /* neither asked for nor connected to */
	struct parent parent;
	struct trust *trust;    /* that it is verified with, if it has no CA of its own */
	struct link_ctx *links; /* NULL: the proxy behind, if there is one, is spoken to in clear */
};
static struct dialer the_dialer; /* one in a process */

static struct sandbox *sandbox_of(struct served *s)
{
	if (s->data == NULL)
		s->data = must_calloc(1, sizeof(struct sandbox));
	return s->data;
}

/* --- the end of a dial --------------------------------------------------------------------------------------------- */

static void free_later(void *arg) { free(arg); }

static void stop_attempts(struct dial *d)
{
	for (unsigned i = 0; i < d->attempt_n; i++) {
		if (d->attempts[i].fd < 0)
			continue;
		watch_stop(&d->attempts[i].watch);
		close(d->attempts[i].fd);
		d->attempts[i].fd = -1;
	}
	d->attempt_n = d->live = 0;
}

static void leave_parent(struct dial *d)
{
	link_free(d->link);
	d->link = NULL;
	if (d->proxy_fd < 0)
		return;
	watch_stop(&d->proxy_watch);
	close(d->proxy_fd);
	d->proxy_fd = -1;
}

static void dial_free(struct dial *d)
{
	struct sandbox *b = sandbox_of(d->s);

	d->done = true;
	timer_stop(&d->stagger);
	timer_stop(&d->deadline);
	resolver_cancel(d->lookup);
	d->lookup = NULL;
	stop_attempts(d);
	leave_parent(d);
	*d->prev = d->next;
	if (d->next != NULL)
		d->next->prev = d->prev;
	if (b->n-- == DIAL_OUTSTANDING && d->source == NULL)
		served_hold(d->s, false);
	source_free(d->source);
	loop_defer(the_dialer.loop, free_later, d);
}

static bool tell(struct dial *d, const struct msg_dialed *a, const char *cause, int fd)
{
	if (d->source == NULL)
		return served_answer(d->s, MSG_DIALED, d->generation, d->id, a, sizeof(*a), cause, strlen(cause), fd);
	return the_dialer.secrets != NULL && ipc_send2(the_dialer.secrets, MSG_DIALED_SOURCE, d->generation, d->id, a, sizeof(*a), cause, strlen(cause), &fd, fd >= 0 ? 1 : 0);
}

static void finish(struct dial *d, enum dial_status status, int fd, const char *cause)
{
	uint64_t now = clock_mono_us();
	struct msg_dialed a = { .status = (uint8_t)status, .family = d->last.family, .port = d->port };

	if (d->by_proxy) {
		const struct ip none = { 0 };

		d->last = d->target_n > 0 ? d->target[d->next_target - (d->next_target > 0)] : none;
		a.family = d->last.family;
		a.flags = DIALED_BY_PROXY | (d->target_n == 0 ? DIALED_PROXY_RESOLVED : 0);
		a.port = d->target_port;
		a.proxy_family = d->proxy_ip.family;
		a.proxy_port = d->port;
		memcpy(a.proxy_addr, d->proxy_ip.b, sizeof(a.proxy_addr));
	}
	memcpy(a.addr, d->last.b, sizeof(a.addr));
	a.dns_us = (uint32_t)(d->dns_us > UINT32_MAX ? UINT32_MAX : d->dns_us);
	a.connect_us = d->connect_start_us ? (uint32_t)(now - d->connect_start_us) : 0;
	if (!tell(d, &a, cause, fd) && fd >= 0) {
		/* the socket cannot be handed over (no descriptors left): the worker must not wait for it */
		a.status = DIAL_FAILED;
		cause = "the gateway has no descriptors left to connect";
		tell(d, &a, cause, -1);
	}
	dial_free(d);
}

static void describe(const struct ip *ip, uint16_t port, char out[64])
{
	char t[IP_TEXT_MAX];

	ip_format(ip, t);
	snprintf(out, 64, "%s port %u", t, port);
}

/* Nothing is under way and nothing is left to try. */
static void fail(struct dial *d)
{
	char where[64], cause[CAUSE_MAX];

	if (d->last.family == 0 && d->refused.family != 0) {
		char t[IP_TEXT_MAX];

		ip_format(&d->refused, t);
		d->last = d->refused;
		snprintf(cause, sizeof(cause), "the address %s is refused: %s", t, d->refused_why);
		finish(d, DIAL_ADDRESS_DENIED, -1, cause);
		return;
	}
	if (d->answered[0] != 0) {
		finish(d, d->last_errno == ETIMEDOUT ? DIAL_TIMEOUT : DIAL_UNREACHABLE, -1, d->answered);
		return;
	}
	describe(&d->last, d->port, where);
	if (d->last_errno == EMFILE || d->last_errno == ENFILE || d->last_errno == ENOMEM || d->last_errno == ENOBUFS) {
		finish(d, DIAL_FAILED, -1, "the gateway has no descriptors or memory left to connect");
		return;
	}
	snprintf(cause, sizeof(cause), "%s%s: %s", d->by_proxy ? "the upstream proxy " : "", where, strerror(d->last_errno));
	finish(d, d->last_errno == ETIMEDOUT ? DIAL_TIMEOUT : DIAL_UNREACHABLE, -1, cause);
}

/* --- the proxy behind ---------------------------------------------------------------------------------------------- */

static void ask_parent(struct dial *d);
static void connect_now(struct dial *d);

/* It said no, or nothing that is an answer: perhaps it reaches another address of the name. */
static void parent_failed(struct dial *d, const char *what, int e)
{
	char where[64];

	describe(&d->proxy_ip, d->port, where);
	snprintf(d->answered, sizeof(d->answered), "the upstream proxy %s %s", where, what);
	d->last_errno = e;
	leave_parent(d);
	if (d->next_target < d->target_n)
		ask_parent(d);
	else
		fail(d);
}

static void parent_answered(struct dial *d, unsigned status)
{
	char what[120];

	if (status >= 200 && status < 300 && d->link != NULL) {
		int fd = link_pass(d->link);

		if (fd < 0) {
			parent_failed(d, "cannot be used: no descriptors are left", errno);
			return;
		}
		d->link = NULL;
		finish(d, DIAL_OK, fd, "");
		close(fd);
		return;
	}
	if (status >= 200 && status < 300) {
		int fd = d->proxy_fd;

		watch_stop(&d->proxy_watch);
		d->proxy_fd = -1;
		finish(d, DIAL_OK, fd, "");
		close(fd);
		return;
	}
	snprintf(what, sizeof(what), "answered %u to CONNECT%s", status,
		 status == 407 ? ": it wants credentials, or others (upstream_proxy.credentials)" : status == 403 ? ": it refuses this destination" : status >= 500 ? ": it could not reach the destination" : "");
	if (status == 407 || status == 403)
		d->next_target = d->target_n > 0 ? d->target_n : d->next_target; /* no other address makes it better */
	parent_failed(d, what, status == 504 ? ETIMEDOUT : EHOSTUNREACH);
}

static void on_parent(struct watch *w, uint32_t events)
{
	struct dial *d = (struct dial *)((char *)w - offsetof(struct dial, proxy_watch));
	uint8_t b[4096];
	unsigned status = 0;
	size_t used;
	ssize_t n;

	(void)events;
	/* looked at first: what stands behind the head is the worker's */
	n = recv(d->proxy_fd, b, sizeof(b), MSG_PEEK);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		parent_failed(d, n == 0 ? "closed the connection without an answer to CONNECT" : strerror(errno), ECONNRESET);
		return;
	}
	switch (parent_read(&d->reader, b, (size_t)n, &used, &status)) {
	case PARENT_BAD:
		parent_failed(d, "gave an answer to CONNECT that is none", EPROTO);
		return;
	case PARENT_MORE:
		break;
	case PARENT_DONE:
		if (recv(d->proxy_fd, b, used, 0) == (ssize_t)used)
			parent_answered(d, status);
		else
			parent_failed(d, "went away", ECONNRESET);
		return;
	}
	if (recv(d->proxy_fd, b, used, 0) != (ssize_t)used)
		parent_failed(d, "went away", ECONNRESET);
}

static void ask_by_link(struct dial *d);

static void on_link(void *arg, enum link_event event)
{
	struct dial *d = arg;
	struct buf *in = link_input(d->link);
	unsigned status = 0;
	char what[200];
	size_t used;

	switch (event) {
	case LINK_READY:
		ask_by_link(d);
		return;
	case LINK_FAILED:
		snprintf(what, sizeof(what), "%s", link_cause(d->link));
		if (!link_verified(d->link))
			d->next_target = d->target_n; /* it is not asked for another address either */
		parent_failed(d, what, ECONNRESET);
		return;
	case LINK_INPUT:
		break;
	}
	switch (parent_read(&d->reader, buf_data(in), buf_len(in), &used, &status)) {
	case PARENT_BAD:
		parent_failed(d, "gave an answer to CONNECT that is none", EPROTO);
		return;
	case PARENT_MORE:
		buf_drop(in, used);
		return;
	case PARENT_DONE: /* what stands behind the head is the worker's */
		buf_drop(in, used);
		parent_answered(d, status);
		return;
	}
}

static void on_parent_late(struct timer *t)
{
	struct dial *d = (struct dial *)((char *)t - offsetof(struct dial, deadline));

	d->next_target = d->target_n;
	parent_failed(d, "does not answer to CONNECT in time", ETIMEDOUT);
}

static void put_request(struct dial *d, struct buf *out)
{
	char text[IP_TEXT_MAX];
	struct str target = str_mk(d->host.text, d->host.len);

	if (d->target_n > 0) {
		ip_format(&d->target[d->next_target - 1], text);
		target = str_of(text);
	}
	parent_request(&the_dialer.parent, target, d->target_port, out);
}

/* It is who it should be: now it may see who we are. */
static void ask_by_link(struct dial *d)
{
	struct buf b = { 0 };

	put_request(d, &b);
	link_send(d->link, buf_data(&b), buf_len(&b));
	buf_fini_secret(&b);
}

/* Connected to it: takes fd. */
static void talk_to_parent(struct dial *d, int fd, const struct ip *ip)
{
	struct buf b = { 0 };
	bool sent;

	timer_stop(&d->stagger);
	timer_stop(&d->deadline);
	stop_attempts(d);
	d->proxy_ip = *ip;
	d->reader = (struct parent_reader){ 0 };
	d->next_target += d->target_n > 0;
	timer_start(the_dialer.loop, &d->deadline, DIAL_PARENT_MS, on_parent_late);
	if (the_dialer.links != NULL) {
		d->link = link_new(the_dialer.links, the_dialer.loop, fd, on_link, d);
		return;
	}
	d->proxy_fd = fd;
	watch_start(the_dialer.loop, &d->proxy_watch, fd, EPOLLIN, on_parent);
	put_request(d, &b);
	sent = send(fd, buf_data(&b), buf_len(&b), MSG_NOSIGNAL) == (ssize_t)buf_len(&b);
	buf_fini_secret(&b);
	if (!sent)
		parent_failed(d, "does not take CONNECT", ECONNRESET);
}

static void on_parent_lookup(void *arg, const struct answer *a)
{
	struct dial *d = arg;
	char cause[CAUSE_MAX];

	if (!a->complete)
		return;
	d->lookup = NULL;
	d->complete = true;
	if (a->n == 0) {
		snprintf(cause, sizeof(cause), "the upstream proxy %s: %s", the_dialer.parent.host, a->cause);
		finish(d, DIAL_DNS, -1, cause);
		return;
	}
	for (d->cand_n = 0; d->cand_n < a->n; d->cand_n++)
		d->cand[d->cand_n] = a->ip[d->cand_n];
	connect_now(d);
}

/* The next target, on a connection of its own. */
static void ask_parent(struct dial *d)
{
	const struct parent *p = &the_dialer.parent;

	d->by_proxy = true;
	d->port = p->port;
	d->cand_n = d->next_cand = 0;
	d->last = (struct ip){ 0 };
	if (p->ip.family == 0) {
		d->complete = false;
		d->lookup = resolver_lookup(the_dialer.resolver, 0, str_of(p->host), on_parent_lookup, d);
		return;
	}
	d->complete = true;
	d->cand[d->cand_n++] = p->ip;
	connect_now(d);
}

/* All candidates are known and vetted: they are what the proxy is asked for. */
static void by_parent(struct dial *d)
{
	memcpy(d->target, d->cand, sizeof(d->target));
	d->target_n = d->cand_n;
	d->target_port = d->port;
	ask_parent(d);
}

/* --- connecting ---------------------------------------------------------------------------------------------------- */

static void next_attempt(struct dial *d);

/* Takes fd. */
static void connected(struct dial *d, int fd, const struct ip *ip)
{
	if (d->by_proxy) {
		talk_to_parent(d, fd, ip);
		return;
	}
	finish(d, DIAL_OK, fd, "");
	close(fd);
}

static void on_connect(struct watch *w, uint32_t events)
{
	struct attempt *a = (struct attempt *)((char *)w - offsetof(struct attempt, watch));
	struct dial *d = a->dial;
	int e = 0, fd = a->fd;
	socklen_t n = sizeof(e);

	(void)events;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &e, &n) != 0)
		e = errno;
	watch_stop(&a->watch);
	a->fd = -1;
	d->live--;
	d->last = a->ip;
	if (e == 0) {
		connected(d, fd, &d->last);
		return;
	}
	close(fd);
	d->last_errno = e;
	next_attempt(d); /* do not wait for the head start of one that failed */
}

/* 1 under way, 0 failed at once, 2 connected already */
static int try_one(struct dial *d, const struct ip *ip)
{
	union {
		struct sockaddr sa;
		struct sockaddr_in in4;
		struct sockaddr_in6 in6;
	} to = { 0 };
	struct attempt *a = &d->attempts[d->attempt_n];
	int one = 1, fd;
	socklen_t len;

	d->last = *ip;
	if (ip->family == 4) {
		to.in4.sin_family = AF_INET;
		to.in4.sin_port = htons(d->port);
		memcpy(&to.in4.sin_addr, ip->b + 12, 4);
		len = sizeof(to.in4);
	} else {
		to.in6.sin6_family = AF_INET6;
		to.in6.sin6_port = htons(d->port);
		memcpy(&to.in6.sin6_addr, ip->b, 16);
		len = sizeof(to.in6);
	}
	fd = socket(to.sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		d->last_errno = errno;
		return 0;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (connect(fd, &to.sa, len) == 0) {
		connected(d, fd, ip);
		return 2;
	}
	if (errno != EINPROGRESS) {
		d->last_errno = errno;
		close(fd);
		return 0;
	}
	*a = (struct attempt){ .dial = d, .ip = *ip, .fd = fd };
	d->attempt_n++;
	d->live++;
	watch_start(the_dialer.loop, &a->watch, fd, EPOLLOUT, on_connect);
	return 1;
}

static void on_stagger(struct timer *t)
{
	next_attempt((struct dial *)((char *)t - offsetof(struct dial, stagger)));
}

static void next_attempt(struct dial *d)
{
	timer_stop(&d->stagger);
	while (d->next_cand < d->cand_n && d->attempt_n < DIAL_CANDIDATES) {
		int r = try_one(d, &d->cand[d->next_cand++]);

		if (r == 2)
			return;
		if (r == 1) {
			if (d->next_cand < d->cand_n)
				timer_start(the_dialer.loop, &d->stagger, DIAL_STAGGER_MS, on_stagger);
			return;
		}
	}
	if (d->live == 0 && d->complete)
		fail(d);
}

static void on_deadline(struct timer *t)
{
	struct dial *d = (struct dial *)((char *)t - offsetof(struct dial, deadline));
	char where[64], cause[CAUSE_MAX];

	if (d->connect_start_us == 0) {
		d->dns_us = clock_mono_us() - d->start_us;
		finish(d, DIAL_DNS, -1, d->refused.family != 0 ? "the name could not be resolved in time" : "no name server answered in time");
		return;
	}
	describe(&d->last, d->port, where);
	snprintf(cause, sizeof(cause), "%s%s does not answer: no connection within %d s", d->by_proxy ? "the upstream proxy " : "", where, DIAL_CONNECT_MS / 1000);
	finish(d, DIAL_TIMEOUT, -1, cause);
}

/* --- candidates ---------------------------------------------------------------------------------------------------- */

static bool vetted(struct dial *d, const struct ip *a)
{
	const char *why = "";
	bool ok = d->source != NULL ? source_address_ok(d->source, a, &why) : dest_address_ok(&d->dest, a, &why);
	bool listed = d->source != NULL ? source_addresses_listed(d->source) : dest_addresses_listed(&d->dest);

	/* `addresses` names what is wanted, ours included; without it, nothing near us is */
	if (ok && a->family == 6 && the_dialer.no_ipv6) {
		why = "the gateway's configuration turns IPv6 off";
		ok = false;
	}
	if (ok && !listed && local_refuses(the_dialer.local, a, &why))
		ok = false;
	if (!ok && d->refused.family == 0) {
		d->refused = *a;
		snprintf(d->refused_why, sizeof(d->refused_why), "%s", why);
	}
	return ok;
}

static void add_candidate(struct dial *d, const struct ip *a)
{
	if (d->cand_n == DIAL_CANDIDATES)
		return;
	for (unsigned i = 0; i < d->cand_n; i++)
		if (ip_eq(&d->cand[i], a))
			return;
	if (vetted(d, a))
		d->cand[d->cand_n++] = *a;
}

static void connect_now(struct dial *d)
{
	if (the_dialer.parent.host[0] != 0 && !d->by_proxy) {
		by_parent(d);
		return;
	}
	if (d->connect_start_us == 0 || d->by_proxy) {
		if (d->connect_start_us == 0)
			d->connect_start_us = clock_mono_us();
		timer_stop(&d->deadline);
		timer_start(the_dialer.loop, &d->deadline, DIAL_CONNECT_MS, on_deadline);
	}
	if (d->live == 0 || d->stagger.heap == 0)
		next_attempt(d);
}

/* Alternating families, so that one that does not work costs one head start and not many. */
static void add_alternating(struct dial *d, const struct answer *a)
{
	uint8_t first = local_has_global6(the_dialer.local) ? 6 : 4;
	unsigned at[2] = { 0, 0 };

	for (bool more = true; more;) {
		more = false;
		for (int f = 0; f < 2; f++) {
			uint8_t family = f == 0 ? first : (uint8_t)(10 - first);

			while (at[f] < a->n && a->ip[at[f]].family != family)
				at[f]++;
			if (at[f] == a->n)
				continue;
			add_candidate(d, &a->ip[at[f]++]);
			more = true;
		}
	}
}

static void on_lookup(void *arg, const struct answer *a)
{
	struct dial *d = arg;

	if (a->complete) {
		d->lookup = NULL; /* it is gone by itself */
		d->complete = true;
	}
	if (d->dns_us == 0)
		d->dns_us = clock_mono_us() - d->start_us;
	if (d->complete && a->n == 0) {
		char cause[CAUSE_MAX];

		snprintf(cause, sizeof(cause), "%s", a->cause);
		finish(d, DIAL_DNS, -1, cause);
		return;
	}
	add_alternating(d, a);
	if (!d->complete && (d->cand_n == 0 || the_dialer.parent.host[0] != 0))
		return; /* all refused so far: the other family may have one */
	if (d->cand_n == 0) {
		fail(d);
		return;
	}
	connect_now(d);
}

/* --- questions ----------------------------------------------------------------------------------------------------- */

static struct dial *dial_new(struct served *s, const struct ipc_msg *m, uint16_t port)
{
	struct sandbox *b = sandbox_of(s);
	struct dial *d = must_calloc(1, sizeof(*d));

	d->s = s;
	d->id = m->id;
	d->generation = m->generation;
	d->port = port;
	d->proxy_fd = -1;
	d->start_us = clock_mono_us();
	d->last_errno = EHOSTUNREACH;
	d->next = b->dials;
	d->prev = &b->dials;
	if (b->dials != NULL)
		b->dials->prev = &d->next;
	b->dials = d;
	return d;
}

/* To one address, or to those of a name. connect_port 0: as it is. listed: only to certain addresses. */
static void go(struct dial *d, const struct ip *literal, uint16_t connect_port, const struct canon_host *host, bool listed)
{
	timer_start(the_dialer.loop, &d->deadline, DIAL_DNS_MS, on_deadline);
	if (literal == NULL && the_dialer.parent.resolves && listed) {
		finish(d, DIAL_ADDRESS_DENIED, -1, "the policy lists `addresses`, which cannot be kept while the upstream proxy resolves names");
		return;
	}
	if (literal == NULL && the_dialer.parent.resolves) {
		d->host = *host;
		by_parent(d);
		return;
	}
	if (literal == NULL) {
		d->lookup = resolver_lookup(the_dialer.resolver, d->s->id, str_mk(host->text, host->len), on_lookup, d);
		return;
	}
	d->complete = true;
	if (connect_port != 0)
		d->port = connect_port;
	add_candidate(d, literal);
	if (d->cand_n == 0)
		fail(d);
	else
		connect_now(d);
}

static void dial(struct served *s, const struct ipc_msg *m)
{
	const struct msg_dial *q = (const void *)m->data;
	struct str host = str_mk(m->data + sizeof(*q), m->len - sizeof(*q));
	const struct table *t = served_table(s, m->generation);
	struct dial *d = dial_new(s, m, q->port);
	struct canon_host h = { 0 };
	int found;

	if (++sandbox_of(s)->n == DIAL_OUTSTANDING)
		served_hold(s, true);

	/* policy before DNS */
	found = t != NULL && served_host(host, &h) ? table_find(t, (enum scheme)q->scheme, host, q->port, &d->dest) : 0;
	if (found != 1) {
		finish(d, DIAL_DENIED, -1, found < 0 ? "the table is damaged" : t == NULL ? "the policy is not known here" : "no destination of the policy");
		return;
	}
	if (d->dest.connect_ip.family != 0)
		go(d, &d->dest.connect_ip, d->dest.connect_port, &h, true);
	else
		go(d, h.ip.family != 0 ? &h.ip : NULL, 0, &h, dest_addresses_listed(&d->dest));
}

/* For secrets. Its table, when a sandbox's end-point is meant, is one that this sandbox has now. */
static void dial_source(struct dialer *r, const struct ipc_msg *m)
{
	const struct msg_dial_source *q = (const void *)m->data;
	struct dial *d = dial_new(&r->own, m, 0);
	struct served *s = r->served.head;
	struct source *source;

	sandbox_of(&r->own)->n++;
	while (s != NULL && s->id != q->sandbox)
		s = s->next;
	source = source_new(r->sources, q, s != NULL ? served_table(s, m->generation) : NULL);
	d->source = source;
	if (!source->found) {
		finish(d, DIAL_DENIED, -1, "no source of the configuration or of the policy leads there");
		return;
	}
	d->port = source->to.port;
	if (source->connect_ip.family != 0)
		go(d, &source->connect_ip, source->connect_port, &source->to.host, true);
	else
		go(d, source->to.host.ip.family != 0 ? &source->to.host.ip : NULL, 0, &source->to.host, source->address_n > 0);
}

static void on_secrets(struct ipc *c, const struct ipc_msg *m)
{
	struct dialer *r = ipc_arg(c);

	if (m != NULL && m->type == MSG_DIAL_SOURCE) {
		dial_source(r, m);
		return;
	}
	if (m != NULL)
		return;
	if (r->secrets == c)
		r->secrets = NULL;
	ipc_free(c);
}

static void take_secrets(struct dialer *r, struct ipc_msg *m)
{
	if (m->fd_n != 1 || ((const struct msg_peer *)(const void *)m->data)->role != ROLE_SECRETS)
		return;
	if (r->secrets != NULL)
		ipc_free(r->secrets);
	while (sandbox_of(&r->own)->dials != NULL)
		dial_free(sandbox_of(&r->own)->dials);
	r->secrets = ipc_new(r->loop, m->fds[0], ROLE_DIALER, ROLE_SECRETS, on_secrets, r);
	m->fds[0] = -1;
}

static void from_worker(struct served *s, struct ipc_msg *m)
{
	if (m->type == MSG_DIAL)
		dial(s, m);
}

static void unlinked(struct served *s)
{
	struct sandbox *b = sandbox_of(s);

	while (b->dials != NULL)
		dial_free(b->dials);
}

static void retired(struct served *s, const struct table *t, uint32_t generation)
{
	struct sandbox *b = sandbox_of(s);

	(void)t;
	for (struct dial *d = b->dials, *next; d != NULL; d = next) {
		next = d->next;
		if (d->generation == generation)
			finish(d, DIAL_DENIED, -1, "the policy is not in force any more");
	}
}

static void gone(struct served *s)
{
	sources_set(the_dialer.sources, s->id, STR_NONE);
	free(s->data);
}

static const struct served_ops ops = { .unlinked = unlinked, .message = from_worker, .retired = retired, .gone = gone };

/* --- supervisor ---------------------------------------------------------------------------------------------------- */

static bool read_credentials(struct dialer *r, int fd)
{
	char b[PARENT_CREDENTIALS_MAX + 3];
	ssize_t n = read(fd, b, sizeof(b));
	bool ok = n > 0 && parent_credentials(str_mk(b, (size_t)n), &r->parent);

	explicit_bzero(b, sizeof(b));
	return ok;
}

/* What comes with the proxy behind. */
static bool take_parent(struct dialer *r, const struct ipc_msg *m)
{
	const uint32_t flags = ((const struct msg_start *)(const void *)m->data)->flags;
	struct err err = ERR_INIT;
	unsigned at = 0;
	int ca;

	if ((flags & START_CREDENTIALS) != 0 && (at >= m->fd_n || !read_credentials(r, m->fds[at++])))
		return false;
	if (!r->parent.tls)
		return true;
	ca = (flags & START_PROXY_CA) != 0 && at < m->fd_n ? m->fds[at] : -1;
	if ((flags & START_PROXY_TRUST) != 0 && (at >= m->fd_n || trust_map(&r->trust, m->fds[at], &err) < 0))
		return false;
	r->links = link_ctx_new(&r->parent, ca, r->trust, &err);
	if (r->links == NULL)
		log_error("%s", err.text);
	return r->links != NULL;
}

static void start(struct dialer *r, struct ipc *c, const struct ipc_msg *m)
{
	struct str servers = str_mk(m->data + sizeof(struct msg_start), m->len - sizeof(struct msg_start));
	struct err err = ERR_INIT;

	if (r->resolver != NULL)
		return;
	if (str_starts(servers, STR("via "))) {
		const char *nl = memchr(servers.p, '\n', servers.n);
		size_t n = nl != NULL ? (size_t)(nl - servers.p) : servers.n;

		if (!parent_parse(str_mk(servers.p, n), &r->parent) || !take_parent(r, m)) {
			log_error("the upstream proxy's address, its credentials or what it is verified with cannot be read");
			_exit(1);
		}
		servers = str_mk(servers.p + n + (nl != NULL), servers.n - n - (nl != NULL));
	}
	r->resolver = resolver_new(r->loop, servers, &err);
	if (r->resolver == NULL) {
		log_error("%s", err.text);
		_exit(1);
	}
	r->no_ipv6 = (((const struct msg_start *)(const void *)m->data)->flags & START_NO_IPV6) != 0;
	if (r->no_ipv6)
		resolver_no_ipv6(r->resolver);
	r->local = local_new(r->loop);
	(void)strerror(ECONNREFUSED); /* the locale's messages are looked for once */
	role_ready(c, ROLE_DIALER, -1);
}

static void servers(struct dialer *r, const struct ipc_msg *m)
{
	struct err err = ERR_INIT;

	if (resolver_servers(r->resolver, str_mk(m->data, m->len), &err) < 0)
		log_error("%s: the name servers from before stay in use", err.text);
}

static void on_supervisor(struct ipc *c, const struct ipc_msg *cm)
{
	struct dialer *r = ipc_arg(c);
	struct ipc_msg *m = (struct ipc_msg *)(uintptr_t)cm;

	if (m == NULL)
		_exit(0);
	if (served_supervisor(&r->served, c, m))
		return;
	if (m->type == MSG_START)
		start(r, c, m);
	else if (m->type == MSG_PEER)
		take_secrets(r, m);
	else if (m->type == MSG_SOURCES)
		sources_set(r->sources, ((const struct msg_sandbox_ref *)(const void *)m->data)->sandbox, str_mk(m->data + sizeof(struct msg_sandbox_ref), m->len - sizeof(struct msg_sandbox_ref)));
	else if (m->type == MSG_SERVERS && r->resolver != NULL)
		servers(r, m);
	else if (m->type == MSG_SHUTDOWN)
		loop_stop(r->loop);
}

int dialer_main(int link_fd)
{
	struct dialer *r = &the_dialer;
	uint8_t seed[16];

	log_title("dialer");
	signal(SIGPIPE, SIG_IGN);
	random_fill(seed, sizeof(seed));
	hash_seed(seed);
	r->loop = loop_new();
	r->served = (struct served_set){ .loop = r->loop, .self = ROLE_DIALER, .ops = &ops };
	r->own.set = &r->served;
	r->sources = sources_new();
	r->sup = ipc_new(r->loop, link_fd, ROLE_DIALER, ROLE_SUPERVISOR, on_supervisor, r);
	loop_run(r->loop);
	served_fini(&r->served);
	while (sandbox_of(&r->own)->dials != NULL)
		dial_free(sandbox_of(&r->own)->dials);
	free(r->own.data);
	sources_free(r->sources);
	link_ctx_free(r->links);
	trust_free(r->trust);
	resolver_free(r->resolver);
	local_free(r->local);
	return 0;
}
