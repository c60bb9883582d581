/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dialer: resolves a destination's name, vets every address, connects, hands the connected socket over. Only for
 * destinations of the asking sandbox's table, and it decides that before any query leaves. It never sees an octet of a
 * request. The address that was vetted is the one that is dialled; every connect vets afresh.
 *
 *   DIAL -> table -> (connect: literal | cache | resolver) -> vet all -> attempts, 250 ms apart, families in turn -> DIALED
 */
#include <ares.h>
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../common/base/must.h"
#include "../../common/policy/table.h"
#include "../../common/sys/clock.h"
#include "../../common/sys/ipc.h"
#include "../../common/sys/log.h"
#include "../../common/sys/role.h"
#include "../roles.h"

#define ATTEMPT_MS 250     /* RFC 8305 5 */
#define CONNECT_MS 10000
#define RESOLVE_MS 5000    /* per try, two tries */
#define CANDIDATES_MAX 16
#define OUTSTANDING_MAX 512 /* per sandbox */
#define TTL_MIN_MS 5000
#define TTL_MAX_MS 300000
#define CACHE_MAX 1024
#define OWN_MAX 64
#define OWN_EVERY_MS 60000

struct own {
	struct ip addr, mask;
};
struct box {
	struct box *next;
	uint32_t id;
	struct table *table;
	struct ipc *worker;
	unsigned outstanding;
};
struct attempt {
	struct watch watch; /* first */
	struct job *job;
	struct ip ip;
};
struct job {
	struct job *next, **prev;
	struct box *box;    /* NULL: gone; the answer is dropped */
	uint64_t id;
	uint32_t generation;
	struct dest dest;
	struct canon_host host;
	uint16_t port;
	uint64_t start_us, resolved_us;
	struct ip cand[CANDIDATES_MAX];
	unsigned cand_n, next_cand, open;
	struct attempt at[CANDIDATES_MAX];
	struct timer stagger, limit;
	int last_errno;
	struct ip last;
	bool resolving, done;
	char refused[160];
};
struct cached {
	char host[CANON_HOST_MAX + 1];
	uint64_t until_ms;
	struct ip ip[CANDIDATES_MAX];
	unsigned n;
};
struct dns_watch {
	struct watch watch; /* first */
	struct dns_watch *next;
};
static struct {
	struct loop *loop;
	struct ipc *sup;
	struct box *boxes;
	struct job *jobs;
	ares_channel ares;
	struct timer ares_timer;
	struct dns_watch *dns;
	struct cached cache[CACHE_MAX];
	struct own own[OWN_MAX];
	unsigned own_n;
	uint64_t own_ms;
} d;

static void next_attempt(struct job *j);

/* --- own addresses ------------------------------------------------------------------------------------------------- */

static struct ip from_sockaddr(const struct sockaddr *sa)
{
	struct ip ip = { 0 };

	if (sa != NULL && sa->sa_family == AF_INET) {
		ip.family = 4;
		memcpy(ip.b + 12, &((const struct sockaddr_in *)(const void *)sa)->sin_addr, 4);
	} else if (sa != NULL && sa->sa_family == AF_INET6) {
		ip.family = 6;
		memcpy(ip.b, &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr, 16);
	}
	return ip;
}

static void refresh_own(void)
{
	struct ifaddrs *list = NULL;

	if (d.own_ms != 0 && loop_now_ms(d.loop) - d.own_ms < OWN_EVERY_MS)
		return;
	d.own_ms = loop_now_ms(d.loop) + 1;
	if (getifaddrs(&list) != 0)
		return; /* what was known before stays */
	d.own_n = 0;
	for (struct ifaddrs *i = list; i != NULL && d.own_n < OWN_MAX; i = i->ifa_next) {
		struct own o = { from_sockaddr(i->ifa_addr), from_sockaddr(i->ifa_netmask) };

		if (o.addr.family != 0 && o.mask.family == o.addr.family)
			d.own[d.own_n++] = o;
	}
	freeifaddrs(list);
}

/* This host itself, or what is on its links: reached by nobody who did not list it. */
static bool is_own(const struct ip *a)
{
	struct ip v4;

	for (unsigned i = 0; i < d.own_n; i++) {
		const struct ip *x = a;
		bool same = true;

		if (d.own[i].addr.family == 4 && a->family == 6 && ip_embedded_v4(a, &v4))
			x = &v4;
		if (x->family != d.own[i].addr.family)
			continue;
		for (int k = 0; k < 16 && same; k++)
			same = ((x->b[k] ^ d.own[i].addr.b[k]) & d.own[i].mask.b[k]) == 0;
		if (same)
			return true;
	}
	return false;
}

/* --- answers ------------------------------------------------------------------------------------------------------- */

static void close_attempts(struct job *j, const struct attempt *keep)
{
	for (unsigned i = 0; i < j->next_cand; i++) {
		struct attempt *a = &j->at[i];

		if (a->watch.loop == NULL)
			continue;
		watch_stop(&a->watch);
		if (a != keep)
			close(a->watch.fd);
	}
}

static void free_job(void *arg) { free(arg); }

static void answer(struct job *j, enum dial_status status, const struct ip *ip, int fd, const char *cause)
{
	struct msg_dialed m = { .status = (uint8_t)status, .port = j->port };
	uint64_t now = clock_mono_us();

	if (j->done)
		return;
	j->done = true;
	timer_stop(&j->stagger);
	timer_stop(&j->limit);
	if (ip != NULL) {
		m.family = ip->family;
		memcpy(m.addr, ip->b, 16);
	}
	m.dns_us = (uint32_t)(j->resolved_us > j->start_us ? j->resolved_us - j->start_us : 0);
	m.connect_us = (uint32_t)(j->resolved_us ? now - j->resolved_us : 0);
	if (j->box != NULL) {
		j->box->outstanding--;
		if (j->box->worker != NULL)
			ipc_send2(j->box->worker, MSG_DIALED, j->generation, j->id, &m, sizeof(m), cause, strnlen(cause, 500), fd >= 0 ? &fd : NULL, fd >= 0 ? 1 : 0);
	}
	j->box = NULL;
	*j->prev = j->next;
	if (j->next != NULL)
		j->next->prev = j->prev;
	if (!j->resolving) /* else the resolver still holds it */
		loop_defer(d.loop, free_job, j);
}

static void fail_connect(struct job *j)
{
	char text[160];

	if (j->last_errno == ETIMEDOUT)
		answer(j, DIAL_TIMEOUT, &j->last, -1, "no address answered in time");
	else {
		snprintf(text, sizeof(text), "%s", j->last_errno ? strerror(j->last_errno) : "no address to connect to");
		answer(j, DIAL_UNREACHABLE, &j->last, -1, text);
	}
}

static void on_attempt(struct watch *w, uint32_t events)
{
	struct attempt *a = (struct attempt *)w;
	struct job *j = a->job;
	int e = 0;
	socklen_t n = sizeof(e);

	(void)events;
	if (getsockopt(w->fd, SOL_SOCKET, SO_ERROR, &e, &n) != 0)
		e = errno;
	if (e != 0) {
		j->last_errno = e;
		watch_stop(w);
		close(w->fd);
		j->open--;
		next_attempt(j);
		return;
	}
	close_attempts(j, a);
	answer(j, DIAL_OK, &a->ip, a->watch.fd, "");
	close(a->watch.fd);
}

static void on_stagger(struct timer *t) { next_attempt((struct job *)((char *)t - offsetof(struct job, stagger))); }

static void on_limit(struct timer *t)
{
	struct job *j = (struct job *)((char *)t - offsetof(struct job, limit));

	close_attempts(j, NULL);
	j->last_errno = ETIMEDOUT;
	fail_connect(j);
}

static void next_attempt(struct job *j)
{
	while (!j->done && j->next_cand < j->cand_n) {
		struct attempt *a = &j->at[j->next_cand];
		struct sockaddr_storage ss = { 0 };
		socklen_t len;
		int fd, one = 1;

		a->job = j;
		a->ip = j->cand[j->next_cand++];
		j->last = a->ip;
		if (a->ip.family == 4) {
			struct sockaddr_in *s = (void *)&ss;

			s->sin_family = AF_INET;
			s->sin_port = htons(j->port);
			memcpy(&s->sin_addr, a->ip.b + 12, 4);
			len = sizeof(*s);
		} else {
			struct sockaddr_in6 *s = (void *)&ss;

			s->sin6_family = AF_INET6;
			s->sin6_port = htons(j->port);
			memcpy(&s->sin6_addr, a->ip.b, 16);
			len = sizeof(*s);
		}
		fd = socket(ss.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		if (fd < 0) {
			j->last_errno = errno;
			continue;
		}
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		if (connect(fd, (struct sockaddr *)&ss, len) != 0 && errno != EINPROGRESS) {
			j->last_errno = errno;
			close(fd);
			continue;
		}
		watch_start(d.loop, &a->watch, fd, EPOLLOUT, on_attempt);
		j->open++;
		if (j->next_cand < j->cand_n)
			timer_start(d.loop, &j->stagger, ATTEMPT_MS, on_stagger);
		return;
	}
	if (!j->done && j->open == 0)
		fail_connect(j);
}

/* Every address is vetted; refused ones are dropped, never fallen back to. */
static void vet_and_connect(struct job *j, const struct ip *ips, unsigned n)
{
	struct ip v6[CANDIDATES_MAX], v4[CANDIDATES_MAX];
	unsigned n6 = 0, n4 = 0;
	bool listed = dest_addresses_listed(&j->dest);
	char text[IP_TEXT_MAX];
	const char *why;
	struct ip bad = { 0 };

	j->resolved_us = clock_mono_us();
	refresh_own();
	for (unsigned i = 0; i < n; i++) {
		const char *no = NULL;

		if (!dest_address_ok(&j->dest, &ips[i], &why))
			no = why;
		else if (!listed && is_own(&ips[i]))
			no = "an address of this host or its links";
		if (no != NULL) {
			ip_format(&ips[i], text);
			snprintf(j->refused, sizeof(j->refused), "%s: %s", text, no);
			bad = ips[i];
		} else if (ips[i].family == 6 && n6 < CANDIDATES_MAX) {
			v6[n6++] = ips[i];
		} else if (ips[i].family == 4 && n4 < CANDIDATES_MAX) {
			v4[n4++] = ips[i];
		}
	}
	for (unsigned i = 0; (i < n6 || i < n4) && j->cand_n < CANDIDATES_MAX; i++) {
		if (i < n6)
			j->cand[j->cand_n++] = v6[i];
		if (i < n4 && j->cand_n < CANDIDATES_MAX)
			j->cand[j->cand_n++] = v4[i];
	}
	if (j->cand_n == 0) {
		if (j->refused[0])
			answer(j, DIAL_ADDRESS_DENIED, &bad, -1, j->refused);
		else
			answer(j, DIAL_DNS, NULL, -1, "the name has no address");
		return;
	}
	timer_start(d.loop, &j->limit, CONNECT_MS, on_limit);
	next_attempt(j);
}

/* --- the resolver -------------------------------------------------------------------------------------------------- */

static void ares_arm(void);

static void on_dns(struct watch *w, uint32_t events)
{
	ares_process_fd(d.ares, events & (EPOLLIN | EPOLLHUP | EPOLLERR) ? w->fd : ARES_SOCKET_BAD, events & EPOLLOUT ? w->fd : ARES_SOCKET_BAD);
	ares_arm();
}

static void on_ares_timer(struct timer *t)
{
	(void)t;
	ares_process_fd(d.ares, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
	ares_arm();
}

static void ares_arm(void)
{
	struct timeval tv, *r = ares_timeout(d.ares, NULL, &tv);

	if (r != NULL)
		timer_start(d.loop, &d.ares_timer, (uint64_t)r->tv_sec * 1000 + (uint64_t)r->tv_usec / 1000 + 1, on_ares_timer);
	else
		timer_stop(&d.ares_timer);
}

static void on_dns_socket(void *arg, ares_socket_t fd, int readable, int writable)
{
	struct dns_watch **p, *w;

	(void)arg;
	for (p = &d.dns; *p != NULL && (*p)->watch.fd != fd; p = &(*p)->next)
		;
	w = *p;
	if (!readable && !writable) {
		if (w != NULL) {
			*p = w->next;
			watch_stop(&w->watch);
			loop_defer(d.loop, free_job, w);
		}
		return;
	}
	if (w == NULL) {
		w = must_calloc(1, sizeof(*w));
		w->next = d.dns;
		d.dns = w;
		watch_start(d.loop, &w->watch, fd, (readable ? EPOLLIN : 0u) | (writable ? EPOLLOUT : 0u), on_dns);
	} else {
		watch_set(&w->watch, (readable ? EPOLLIN : 0u) | (writable ? EPOLLOUT : 0u));
	}
}

static struct cached *cache_slot(const char *host) { return &d.cache[hash_bytes(host, strlen(host)) % CACHE_MAX]; }

static void on_resolved(void *arg, int status, int timeouts, struct ares_addrinfo *res)
{
	struct job *j = arg;
	struct cached *c = cache_slot(j->host.text);
	uint64_t ttl = TTL_MAX_MS;
	struct ip ips[CANDIDATES_MAX];
	unsigned n = 0;

	(void)timeouts;
	j->resolving = false;
	if (j->done) {
		loop_defer(d.loop, free_job, j);
		if (res != NULL)
			ares_freeaddrinfo(res);
		return;
	}
	if (status != ARES_SUCCESS || res == NULL) {
		char text[200];

		snprintf(text, sizeof(text), "the name could not be resolved: %s", ares_strerror(status));
		answer(j, status == ARES_ETIMEOUT ? DIAL_TIMEOUT : DIAL_DNS, NULL, -1, text);
		return;
	}
	for (struct ares_addrinfo_node *i = res->nodes; i != NULL && n < CANDIDATES_MAX; i = i->ai_next) {
		struct ip ip = from_sockaddr(i->ai_addr);

		if (ip.family == 0)
			continue;
		ips[n++] = ip;
		if ((uint64_t)i->ai_ttl * 1000 < ttl)
			ttl = i->ai_ttl > 0 ? (uint64_t)i->ai_ttl * 1000 : 0;
	}
	ares_freeaddrinfo(res);
	memcpy(c->host, j->host.text, sizeof(c->host));
	c->until_ms = loop_now_ms(d.loop) + (ttl < TTL_MIN_MS ? TTL_MIN_MS : ttl);
	c->n = n;
	memcpy(c->ip, ips, n * sizeof(ips[0]));
	vet_and_connect(j, ips, n);
}

/* --- questions ----------------------------------------------------------------------------------------------------- */

static void dial(struct box *b, const struct ipc_msg *m)
{
	const struct msg_dial *q = (const void *)m->data;
	struct str name = str_mk(m->data + sizeof(*q), m->len - sizeof(*q));
	struct job *j = must_calloc(1, sizeof(*j));
	struct ares_addrinfo_hints hints = { .ai_flags = ARES_AI_NOSORT, .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
	struct cached *c;

	j->box = b;
	j->id = m->id;
	j->generation = m->generation;
	j->port = q->port;
	j->start_us = clock_mono_us();
	j->next = d.jobs;
	j->prev = &d.jobs;
	if (d.jobs != NULL)
		d.jobs->prev = &j->next;
	d.jobs = j;
	if (b->outstanding++ >= OUTSTANDING_MAX) {
		answer(j, DIAL_FAILED, NULL, -1, "too many connections are being made at once");
		return;
	}
	if (name.n == 0 || name.n > CANON_HOST_MAX || table_find(b->table, q->scheme, name, q->port, &j->dest) != 1) {
		answer(j, DIAL_DENIED, NULL, -1, "not a destination of this sandbox");
		return;
	}
	memcpy(j->host.text, name.p, name.n);
	j->host.len = (uint8_t)name.n;
	if (j->dest.connect_ip.family != 0) {
		j->port = j->dest.connect_port;
		vet_and_connect(j, &j->dest.connect_ip, 1);
		return;
	}
	if (ip_parse(name, &j->host.ip)) {
		vet_and_connect(j, &j->host.ip, 1);
		return;
	}
	c = cache_slot(j->host.text);
	if (strcmp(c->host, j->host.text) == 0 && loop_now_ms(d.loop) < c->until_ms) {
		vet_and_connect(j, c->ip, c->n);
		return;
	}
	j->resolving = true;
	ares_getaddrinfo(d.ares, j->host.text, NULL, &hints, on_resolved, j);
	ares_arm();
}

static void on_worker(struct ipc *c, const struct ipc_msg *m)
{
	struct box *b = ipc_arg(c);

	if (m == NULL) {
		if (b->worker == c)
			b->worker = NULL;
		ipc_free(c);
		return;
	}
	dial(b, m);
}

static struct box *find(uint32_t id)
{
	struct box *b;

	for (b = d.boxes; b != NULL; b = b->next)
		if (b->id == id)
			return b;
	return NULL;
}

static void gone(uint32_t id)
{
	for (struct box **p = &d.boxes; *p != NULL; p = &(*p)->next) {
		struct box *b = *p;

		if (b->id != id)
			continue;
		*p = b->next;
		for (struct job *j = d.jobs, *next; j != NULL; j = next) {
			next = j->next;
			if (j->box != b)
				continue;
			close_attempts(j, NULL);
			answer(j, DIAL_FAILED, NULL, -1, "");
		}
		ipc_free(b->worker);
		table_free(b->table);
		free(b);
		return;
	}
}

static void start(const struct ipc_msg *m)
{
	const char *text = (const char *)m->data + sizeof(struct msg_start), *end = (const char *)m->data + m->len;
	char csv[1024] = "", addr[64];
	unsigned port;

	while (text < end) {
		char line[128];
		size_t n = strcspn(text, "\n");

		if (text + n > end)
			n = (size_t)(end - text);
		snprintf(line, sizeof(line), "%.*s", (int)n, text);
		if (sscanf(line, "%63s %u", addr, &port) == 2)
			snprintf(csv + strlen(csv), sizeof(csv) - strlen(csv), strchr(addr, ':') ? "%s[%s]:%u" : "%s%s:%u", csv[0] ? "," : "", addr, port);
		text += n + 1;
	}
	if (ares_set_servers_ports_csv(d.ares, csv) != ARES_SUCCESS) {
		log_error("the name servers cannot be used: %s", csv);
		_exit(1);
	}
	refresh_own();
	role_ready(d.sup, ROLE_DIALER, -1);
}

static void on_supervisor(struct ipc *c, const struct ipc_msg *cm)
{
	struct ipc_msg *m = (struct ipc_msg *)(uintptr_t)cm;
	struct err err = ERR_INIT;
	struct box *b;

	if (m == NULL)
		_exit(0);
	switch (m->type) {
	case MSG_START:
		start(m);
		break;
	case MSG_SANDBOX: {
		const struct msg_sandbox *s = (const void *)m->data;
		struct msg_sandbox_ref ref = { s->sandbox, s->generation };
		struct table *t;

		if (m->fd_n < 1 || table_open(&t, m->fds[0], &err) < 0) {
			ipc_send2(c, MSG_SANDBOX_BAD, s->generation, 0, &ref, sizeof(ref), err.text, strlen(err.text), NULL, 0);
			break;
		}
		b = must_calloc(1, sizeof(*b));
		b->id = s->sandbox;
		b->table = t;
		b->next = d.boxes;
		d.boxes = b;
		ipc_send(c, MSG_SANDBOX_OK, s->generation, 0, &ref, sizeof(ref), NULL, 0);
		break;
	}
	case MSG_PEER: {
		const struct msg_peer *p = (const void *)m->data;

		b = find(p->sandbox);
		if (m->fd_n != 1 || b == NULL || p->role != ROLE_WORKER)
			break;
		ipc_free(b->worker);
		b->worker = ipc_new(d.loop, m->fds[0], ROLE_DIALER, ROLE_WORKER, on_worker, b);
		m->fds[0] = -1;
		break;
	}
	case MSG_SANDBOX_GONE:
		gone(((const struct msg_sandbox_ref *)(const void *)m->data)->sandbox);
		break;
	case MSG_SHUTDOWN:
		_exit(0);
	default:
		break;
	}
}

int dialer_main(int link_fd)
{
	struct ares_options o = { .flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES | ARES_FLAG_EDNS, .timeout = RESOLVE_MS, .tries = 2, .ndots = 0, .lookups = (char *)"b", .sock_state_cb = on_dns_socket };
	uint8_t seed[16];

	log_title("dialer");
	signal(SIGPIPE, SIG_IGN);
	random_fill(seed, sizeof(seed));
	hash_seed(seed);
	if (ares_library_init(ARES_LIB_INIT_ALL) != ARES_SUCCESS ||
		ares_init_options(&d.ares, &o, ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_NDOTS | ARES_OPT_LOOKUPS | ARES_OPT_SOCK_STATE_CB) != ARES_SUCCESS) {
		log_error("the resolver cannot start");
		return 1;
	}
	d.loop = loop_new();
	d.sup = ipc_new(d.loop, link_fd, ROLE_DIALER, ROLE_SUPERVISOR, on_supervisor, NULL);
	loop_run(d.loop);
	return 0;
}
