/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A message between roles: any octets, with any number of descriptors, on the link of any two roles, end it or are a row
 * of msg.def, exactly as the table says; and no descriptor is left behind.
 *
 * Input: how many descriptors come with it (0 to 12, of this octet modulo 13), then the message.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/must.h"
#include "common/sys/ipc.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

#define FDS_MAX 12
#define HEADER 16

static struct {
	unsigned got, dead;
	const uint8_t *sent;
	size_t sent_n;
	unsigned fds;
	bool keep;
} now;

static void on_msg(struct ipc *c, const struct ipc_msg *m)
{
	(void)c;
	if (m == NULL) {
		now.dead++;
		return;
	}
	now.got++;
	MUST(m->len == now.sent_n - HEADER && (m->len == 0 || memcmp(m->data, now.sent + HEADER, m->len) == 0));
	MUST(m->fd_n == now.fds);
	for (unsigned i = 0; i < m->fd_n; i++)
		MUST(fcntl(m->fds[i], F_GETFD) == FD_CLOEXEC);
	if (m->fd_n > 0 && now.keep) {
		close(m->fds[0]);
		((struct ipc_msg *)(uintptr_t)m)->fds[0] = -1;
	}
}

/* The table read anew, beside the code under test. */
static bool expected(const uint8_t *p, size_t n, unsigned fds, enum role from, enum role to)
{
	const struct msg_rule *r;
	uint16_t type, reserved;

	if (n < HEADER)
		return false;
	memcpy(&type, p, 2);
	memcpy(&reserved, p + 2, 2);
	if (type == 0 || type >= MSG_COUNT || reserved != 0)
		return false;
	r = &msg_rules[type];
	if ((r->sender != from && r->sender != ROLE_ANY) || (r->receiver != to && r->receiver != ROLE_ANY))
		return false;
	return n - HEADER >= r->min && n - HEADER <= r->max && fds <= r->fds;
}

static unsigned open_fds(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 128; fd++) /* one left behind is the lowest that was free */
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static bool put(int fd, int what)
{
	union {
		struct cmsghdr h;
		char room[CMSG_SPACE(sizeof(int) * FDS_MAX)];
	} ctl = { 0 };
	struct iovec iov = { (void *)(uintptr_t)now.sent, now.sent_n };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (now.fds > 0) {
		ctl.h.cmsg_level = SOL_SOCKET;
		ctl.h.cmsg_type = SCM_RIGHTS;
		ctl.h.cmsg_len = CMSG_LEN(sizeof(int) * now.fds);
		for (unsigned i = 0; i < now.fds; i++)
			memcpy(CMSG_DATA(&ctl.h) + i * sizeof(int), &what, sizeof(int));
		mh.msg_control = &ctl;
		mh.msg_controllen = CMSG_SPACE(sizeof(int) * now.fds);
	}
	return sendmsg(fd, &mh, MSG_NOSIGNAL) == (ssize_t)now.sent_n;
}

static void one_pair(enum role from, enum role to)
{
	struct loop *l;
	struct ipc *c;
	int sv[2];

	MUST(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sv) == 0);
	l = loop_new();
	c = ipc_new(l, sv[0], to, from, on_msg, NULL);
	now.got = now.dead = 0;
	now.keep = from % 2;
	if (put(sv[1], sv[1])) { /* else it is larger than a socket takes */
		bool good = expected(now.sent, now.sent_n, now.fds, from, to);

		/* a signal of the fuzzer's clock may end a wait: a turn without an event is not yet an answer */
		for (int i = 0; i < 10 && now.got + now.dead == 0; i++)
			loop_turn(l, 0);
		loop_turn(l, 0);
		MUST(now.got == good && now.dead == !good && ipc_dead(c) == !good);
	}
	ipc_free(c);
	loop_turn(l, 0);
	close(sv[1]);
	loop_free(l);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	unsigned before = open_fds();

	if (n < 1)
		return 0;
	now.fds = p[0] % (FDS_MAX + 1);
	now.sent = p + 1;
	now.sent_n = n - 1;
	for (enum role from = ROLE_SUPERVISOR; from < ROLE_ANY; from++)
		for (enum role to = ROLE_SUPERVISOR; to < ROLE_ANY; to++)
			one_pair(from, to);
	MUST(open_fds() == before);
	return 0;
}
