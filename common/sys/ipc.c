/* SPDX-License-Identifier: Apache-2.0 */
#include "ipc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../base/must.h"

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

#define IPC_QUEUE_MAX 256
#define IPC_QUEUE_MAX_SUPERVISOR 16384 /* it says a few words about each of thousands of sandboxes, and cannot wait in the middle */
#define IPC_BATCH 64 /* messages per turn: others get their share */
#define IPC_PUMP_MAX 4096 /* more than a socket holds: a peer that goes on sending must not hold us */

struct ipc_hdr {
	uint16_t type;
	uint16_t reserved;
	uint32_t generation;
	uint64_t id;
} __attribute__((packed));

struct queued {
	struct queued *next;
	unsigned fd_n;
	int fds[IPC_FDS_MAX];
	size_t n;
	uint8_t bytes[];
};

struct ipc {
	struct loop *loop;
	struct watch watch;
	int fd;
	enum role self, peer;
	ipc_fn *fn;
	void *arg;
	bool rejected;
	bool dead, free_asked, paused, send_dead;
	struct queued *head, **tail;
	size_t queued;
};

static void close_all(int *fds, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

static void drop_queue(struct ipc *c)
{
	while (c->head != NULL) {
		struct queued *q = c->head;

		c->head = q->next;
		close_all(q->fds, q->fd_n);
		explicit_bzero(q->bytes, q->n);
		free(q);
	}
	c->tail = &c->head;
	c->queued = 0;
}

static void shut(struct ipc *c)
{
	if (c->fd >= 0) {
		watch_stop(&c->watch);
		close(c->fd);
		c->fd = -1;
	}
	c->dead = true;
	drop_queue(c);
}

static void free_now(void *arg)
{
	struct ipc *c = arg;

	free(c);
}

void ipc_free(struct ipc *c)
{
	if (c == NULL || c->free_asked)
		return;
	shut(c);
	c->free_asked = true;
	c->fn = NULL;
	loop_defer(c->loop, free_now, c);
}

static void die(struct ipc *c)
{
	if (c->dead)
		return;
	shut(c);
	if (c->fn != NULL)
		c->fn(c, NULL);
}

static bool role_fits(uint8_t rule, enum role r) { return rule == ROLE_ANY || rule == r; }

static bool allowed(uint16_t type, enum role from, enum role to, size_t n, unsigned fds)
{
	const struct msg_rule *r;

	if (type == MSG_NONE || type >= MSG_COUNT)
		return false;
	r = &msg_rules[type];
	return role_fits(r->sender, from) && role_fits(r->receiver, to) && n >= r->min && n <= r->max && fds <= r->fds;
}

void ipc_bar_fds(int fd, enum role self, enum role peer)
{
	const int off = 0;

	for (unsigned i = MSG_NONE + 1; i < MSG_COUNT; i++)
		if (msg_rules[i].fds > 0 && role_fits(msg_rules[i].sender, peer) && role_fits(msg_rules[i].receiver, self))
			return;
	(void)setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &off, sizeof(off));
}

#define IPC_ROOM (sizeof(struct ipc_hdr) + IPC_PAYLOAD_MAX)

/* One message. Its length, with m filled in, whose descriptors are then the caller's, whether *ok or not; 0: the end; or -1 + errno. */
static ssize_t take(int fd, int flags, enum role self, enum role peer, uint8_t buf[IPC_ROOM], struct ipc_msg *m, bool *ok)
{
	union {
		struct cmsghdr h;
		char room[CMSG_SPACE(sizeof(int) * IPC_FDS_MAX)];
	} ctl;
	struct iovec iov = { buf, IPC_ROOM };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &ctl, .msg_controllen = sizeof(ctl) };
	struct ipc_hdr h;
	ssize_t n = recvmsg(fd, &mh, MSG_CMSG_CLOEXEC | flags);

	*m = (struct ipc_msg){ 0 };
	*ok = false;
	if (n < 0)
		return n;
	/* n 0 is the end, or an empty message, which may have brought descriptors */
	for (struct cmsghdr *cm = CMSG_FIRSTHDR(&mh); cm != NULL; cm = CMSG_NXTHDR(&mh, cm)) {
		if (cm->cmsg_level != SOL_SOCKET || cm->cmsg_type != SCM_RIGHTS)
			continue;
		m->fd_n = (unsigned)((cm->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		MUST(m->fd_n <= IPC_FDS_MAX);
		memcpy(m->fds, CMSG_DATA(cm), m->fd_n * sizeof(int));
	}
	if ((size_t)n < sizeof(h) || (mh.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0)
		return n;
	memcpy(&h, buf, sizeof(h));
	m->type = h.type;
	m->generation = h.generation;
	m->id = h.id;
	m->data = buf + sizeof(h);
	m->len = (size_t)n - sizeof(h);
	*ok = h.reserved == 0 && allowed(h.type, peer, self, m->len, m->fd_n);
	return n;
}

/* 1 received and handled, 0 nothing there, -1 dead */
static int receive(struct ipc *c)
{
	uint8_t buf[IPC_ROOM];
	struct ipc_msg m;
	bool ok;
	ssize_t n = take(c->fd, MSG_DONTWAIT, c->self, c->peer, buf, &m, &ok);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n < 0 && errno == ECONNRESET)
		return 1; /* the peer closed with our messages unread; what it had sent before still comes, then the end */
	if (n < 0) {
		die(c);
		return -1;
	}
	if (ok && c->fn != NULL) {
		c->fn(c, &m);
		ok = !c->rejected;
	}
	close_all(m.fds, m.fd_n);
	explicit_bzero(buf, (size_t)n);
	if (!ok)
		die(c);
	return c->dead ? -1 : 1;
}

bool ipc_wait(int fd, enum role self, enum role peer, struct ipc_msg *m)
{
	static uint8_t buf[IPC_ROOM];
	bool ok;
	ssize_t n;

	do {
		n = take(fd, 0, self, peer, buf, m, &ok);
	} while (n < 0 && errno == EINTR);
	if (!ok)
		close_all(m->fds, m->fd_n);
	return ok;
}

bool ipc_say(int fd, enum role self, enum role peer, enum msg_type type, const void *p, size_t n)
{
	struct ipc_hdr h = { .type = (uint16_t)type };
	struct iovec iov[2] = { { &h, sizeof(h) }, { (void *)p, n } };
	struct msghdr mh = { .msg_iov = iov, .msg_iovlen = 2 };

	MUST(allowed(h.type, self, peer, n, 0));
	return sendmsg(fd, &mh, MSG_NOSIGNAL) == (ssize_t)(sizeof(h) + n);
}

static ssize_t send_now(struct ipc *c, const struct iovec *iov, size_t iov_n, const int *fds, unsigned fd_n)
{
	union {
		struct cmsghdr h;
		char room[CMSG_SPACE(sizeof(int) * IPC_FDS_MAX)];
	} ctl;
	struct msghdr mh = { .msg_iov = (struct iovec *)iov, .msg_iovlen = iov_n };

	if (fd_n > 0) {
		memset(&ctl, 0, sizeof(ctl));
		ctl.h.cmsg_level = SOL_SOCKET;
		ctl.h.cmsg_type = SCM_RIGHTS;
		ctl.h.cmsg_len = CMSG_LEN(sizeof(int) * fd_n);
		memcpy(CMSG_DATA(&ctl.h), fds, sizeof(int) * fd_n);
		mh.msg_control = &ctl;
		mh.msg_controllen = CMSG_SPACE(sizeof(int) * fd_n);
	}
	return sendmsg(c->fd, &mh, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Later it will go: the socket is full, or too many descriptors are under way. */
static bool not_now(int e) { return e == EAGAIN || e == EINTR || e == ENOBUFS || e == ETOOMANYREFS; }

static uint32_t want(const struct ipc *c) { return (c->paused ? 0 : EPOLLIN) | (c->head != NULL ? EPOLLOUT : 0); }

static void die_later(void *arg)
{
	struct ipc *c = arg;

	if (!c->free_asked && c->fn != NULL)
		c->fn(c, NULL);
}

/*
 * Sending failed for good (errno). When the peer is gone, what it sent before is still to be read: the end of that is the
 * end of the link. Otherwise the link ends now; its owner hears of it at the end of the turn, not in the middle of what
 * it is doing.
 */
static void cannot_send(struct ipc *c)
{
	if (errno == EPIPE || errno == ECONNRESET || errno == ECONNREFUSED || errno == ENOTCONN) {
		c->send_dead = true;
		drop_queue(c);
		return;
	}
	shut(c);
	loop_defer(c->loop, die_later, c);
}

static void flush(struct ipc *c)
{
	while (c->head != NULL) {
		struct queued *q = c->head;
		struct iovec iov = { q->bytes, q->n };

		if (send_now(c, &iov, 1, q->fds, q->fd_n) < 0) {
			if (not_now(errno))
				return;
			cannot_send(c);
			if (c->dead)
				return;
			break;
		}
		c->head = q->next;
		if (c->head == NULL)
			c->tail = &c->head;
		c->queued--;
		close_all(q->fds, q->fd_n);
		explicit_bzero(q->bytes, q->n);
		free(q);
	}
	watch_set(&c->watch, want(c));
}

static void on_event(struct watch *w, uint32_t events)
{
	struct ipc *c = (struct ipc *)((char *)w - offsetof(struct ipc, watch));

	if (events & EPOLLOUT)
		flush(c);
	if (!c->dead && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
		for (int i = 0; i < IPC_BATCH && (!c->paused || (events & EPOLLHUP)) && receive(c) == 1; i++)
			;
}

struct ipc *ipc_new(struct loop *l, int fd, enum role self, enum role peer, ipc_fn *fn, void *arg)
{
	struct ipc *c = must_calloc(1, sizeof(*c));

	c->loop = l;
	c->fd = fd;
	c->self = self;
	c->peer = peer;
	c->fn = fn;
	c->arg = arg;
	c->tail = &c->head;
	watch_start(l, &c->watch, fd, EPOLLIN, on_event);
	return c;
}

void ipc_pump(struct ipc *c)
{
	for (int i = 0; i < IPC_PUMP_MAX && !c->dead && receive(c) == 1; i++)
		;
}

void *ipc_arg(const struct ipc *c) { return c->arg; }
enum role ipc_peer(const struct ipc *c) { return c->peer; }
bool ipc_dead(const struct ipc *c) { return c->dead; }
bool ipc_deaf(const struct ipc *c) { return c->dead || c->send_dead; }
void ipc_reject(struct ipc *c) { c->rejected = true; }

size_t ipc_queued(const struct ipc *c) { return c->queued; }

void ipc_pause(struct ipc *c, bool paused)
{
	c->paused = paused;
	if (!c->dead)
		watch_set(&c->watch, want(c));
}

bool ipc_send2(struct ipc *c, enum msg_type type, uint32_t generation, uint64_t id, const void *p, size_t n, const void *p2, size_t n2, const int *fds, unsigned fd_n)
{
	struct ipc_hdr h = { .type = (uint16_t)type, .generation = generation, .id = id };
	struct iovec iov[3] = { { &h, sizeof(h) }, { (void *)p, n }, { (void *)p2, n2 } };
	struct queued *q;

	MUST(allowed(h.type, c->self, c->peer, n + n2, fd_n));
	if (c->dead || c->send_dead)
		return false;
	if (c->head == NULL) {
		if (send_now(c, iov, 3, fds, fd_n) >= 0)
			return true;
		if (!not_now(errno)) {
			cannot_send(c);
			return false;
		}
	}
	if (c->queued >= (c->self == ROLE_SUPERVISOR ? IPC_QUEUE_MAX_SUPERVISOR : IPC_QUEUE_MAX))
		return false;
	q = must_malloc(sizeof(*q) + sizeof(h) + n + n2);
	q->next = NULL;
	q->n = sizeof(h) + n + n2;
	memcpy(q->bytes, &h, sizeof(h));
	if (n)
		memcpy(q->bytes + sizeof(h), p, n);
	if (n2)
		memcpy(q->bytes + sizeof(h) + n, p2, n2);
	for (q->fd_n = 0; q->fd_n < fd_n; q->fd_n++) {
		q->fds[q->fd_n] = fcntl(fds[q->fd_n], F_DUPFD_CLOEXEC, 0);
		if (q->fds[q->fd_n] < 0) { /* no descriptors left: as if the queue were full */
			close_all(q->fds, q->fd_n);
			explicit_bzero(q->bytes, q->n);
			free(q);
			return false;
		}
	}
	*c->tail = q;
	c->tail = &q->next;
	c->queued++;
	watch_set(&c->watch, want(c));
	return true;
}

bool ipc_send(struct ipc *c, enum msg_type type, uint32_t generation, uint64_t id, const void *p, size_t n, const int *fds, unsigned fd_n)
{
	return ipc_send2(c, type, generation, id, p, n, NULL, 0, fds, fd_n);
}
