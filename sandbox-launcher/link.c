/* SPDX-License-Identifier: Apache-2.0 */
#include "link.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int link_send(int fd, enum note_type type, int a, int b, const char *text, const int *fds, unsigned fd_n)
{
	struct note n = { .type = type, .a = a, .b = b };
	union {
		struct cmsghdr h;
		char room[CMSG_SPACE(sizeof(int) * LINK_FDS_MAX)];
	} ctl;
	struct iovec iov = { &n, sizeof(n) };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (text != NULL)
		snprintf(n.text, sizeof(n.text), "%s", text);
	if (fd_n > 0) {
		struct cmsghdr *cm;

		memset(&ctl, 0, sizeof(ctl));
		mh.msg_control = &ctl;
		mh.msg_controllen = CMSG_SPACE(sizeof(int) * fd_n);
		cm = CMSG_FIRSTHDR(&mh);
		cm->cmsg_level = SOL_SOCKET;
		cm->cmsg_type = SCM_RIGHTS;
		cm->cmsg_len = CMSG_LEN(sizeof(int) * fd_n);
		memcpy(CMSG_DATA(cm), fds, sizeof(int) * fd_n);
	}
	return sendmsg(fd, &mh, MSG_NOSIGNAL) == (ssize_t)sizeof(n) ? 0 : -1;
}

int link_recv(int fd, struct note *n, int fds[LINK_FDS_MAX], unsigned *fd_n)
{
	union {
		struct cmsghdr h;
		char room[CMSG_SPACE(sizeof(int) * LINK_FDS_MAX)];
	} ctl;
	struct iovec iov = { n, sizeof(*n) };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &ctl, .msg_controllen = sizeof(ctl) };
	ssize_t r;

	*fd_n = 0;
	do
		r = recvmsg(fd, &mh, MSG_CMSG_CLOEXEC);
	while (r < 0 && errno == EINTR);
	if (r == 0 || (r < 0 && errno == ECONNRESET))
		return 0;
	if (r != (ssize_t)sizeof(*n) || (mh.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
		return -1;
	n->text[sizeof(n->text) - 1] = 0;
	for (struct cmsghdr *cm = CMSG_FIRSTHDR(&mh); cm != NULL; cm = CMSG_NXTHDR(&mh, cm))
		if (cm->cmsg_level == SOL_SOCKET && cm->cmsg_type == SCM_RIGHTS) {
			*fd_n = (unsigned)((cm->cmsg_len - CMSG_LEN(0)) / sizeof(int));
			memcpy(fds, CMSG_DATA(cm), *fd_n * sizeof(int));
		}
	return 1;
}

static int by_number(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

void link_close_except(unsigned from, int *keep, unsigned n)
{
	unsigned at = from;

	qsort(keep, n, sizeof(keep[0]), by_number);
	for (unsigned i = 0; i < n; i++) {
		if (keep[i] < (int)at)
			continue;
		if ((unsigned)keep[i] > at)
			close_range(at, (unsigned)keep[i] - 1, 0);
		at = (unsigned)keep[i] + 1;
	}
	close_range(at, ~0U, 0);
}
