/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_ROLE_HARNESS_H
#define TEST_ROLE_HARNESS_H
/*
 * A role in a child process without its confinement (role_ready is replaced here), and the test at the other ends of its
 * links: the supervisor's, and those of workers. Messages are written and read by hand, so that the test does not lean on
 * the code it tests.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/msg.h"
#include "common/record.h"
#include "common/sys/role.h"
#include "policy-compiler/model.h"

#define WAIT_MS 10000

void role_ready(struct ipc *supervisor, enum role r, int dir_fd)
{
	(void)r;
	(void)dir_fd;
	ipc_send(supervisor, MSG_READY, 0, 0, NULL, 0, NULL, 0);
}

struct wire_hdr {
	uint16_t type, reserved;
	uint32_t generation;
	uint64_t id;
} __attribute__((packed));
struct wire_msg {
	struct wire_hdr h;
	uint8_t data[17000];
	size_t n;
	int fd; /* the first that came, -1 */
};

static inline void wire_send(int s, enum msg_type type, uint32_t generation, uint64_t id, const void *p, size_t n, const void *p2, size_t n2, const int *fds, unsigned fd_n)
{
	struct wire_hdr h = { (uint16_t)type, 0, generation, id };
	struct iovec iov[3] = { { &h, sizeof(h) }, { (void *)(uintptr_t)p, n }, { (void *)(uintptr_t)p2, n2 } };
	union {
		struct cmsghdr c;
		char room[CMSG_SPACE(sizeof(int) * 10)];
	} ctl;
	struct msghdr mh = { .msg_iov = iov, .msg_iovlen = 3 };

	memset(&ctl, 0, sizeof(ctl));
	if (fd_n > 0) {
		ctl.c.cmsg_level = SOL_SOCKET;
		ctl.c.cmsg_type = SCM_RIGHTS;
		ctl.c.cmsg_len = CMSG_LEN(sizeof(int) * fd_n);
		memcpy(CMSG_DATA(&ctl.c), fds, sizeof(int) * fd_n);
		mh.msg_control = &ctl;
		mh.msg_controllen = CMSG_SPACE(sizeof(int) * fd_n);
	}
	assert_int_equal(sendmsg(s, &mh, MSG_NOSIGNAL), (ssize_t)(sizeof(h) + n + n2));
}

/* False at the end of the link or when nothing comes in ms. */
static inline bool wire_recv(int s, struct wire_msg *m, int ms)
{
	struct pollfd p = { s, POLLIN, 0 };
	struct iovec iov[2] = { { &m->h, sizeof(m->h) }, { m->data, sizeof(m->data) } };
	union {
		struct cmsghdr c;
		char room[CMSG_SPACE(sizeof(int) * 10)];
	} ctl;
	struct msghdr mh = { .msg_iov = iov, .msg_iovlen = 2, .msg_control = &ctl, .msg_controllen = sizeof(ctl) };
	ssize_t n;

	m->fd = -1;
	if (poll(&p, 1, ms) <= 0)
		return false;
	n = recvmsg(s, &mh, MSG_CMSG_CLOEXEC);
	if (n < (ssize_t)sizeof(m->h))
		return false;
	m->n = (size_t)n - sizeof(m->h);
	if (CMSG_FIRSTHDR(&mh) != NULL)
		memcpy(&m->fd, CMSG_DATA(CMSG_FIRSTHDR(&mh)), sizeof(int));
	return true;
}

static inline void wire_expect(int s, enum msg_type type, struct wire_msg *m)
{
	if (!wire_recv(s, m, WAIT_MS))
		fail_msg("no %s came", msg_rules[type].name);
	if (m->h.type != type)
		fail_msg("%s came instead of %s", m->h.type < MSG_COUNT ? msg_rules[m->h.type].name : "?", msg_rules[type].name);
}

struct role_under_test {
	pid_t pid;
	int sup; /* the supervisor's end */
};

static inline struct role_under_test role_start(int (*main_fn)(int), const void *text, size_t text_n, const int *fds, unsigned fd_n)
{
	struct role_under_test r;
	struct msg_start start = { .uid_base = 61000 };
	struct wire_msg m;
	int sv[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv), 0);
	r.pid = fork();
	assert_true(r.pid >= 0);
	if (r.pid == 0) {
		close(sv[0]);
		_exit(main_fn(sv[1]));
	}
	close(sv[1]);
	r.sup = sv[0];
	wire_send(r.sup, MSG_START, 0, 0, &start, sizeof(start), text, text_n, fds, fd_n);
	wire_expect(r.sup, MSG_READY, &m);
	return r;
}

/* 0..255: exit status; 1000 + n: signal n. */
static inline int role_wait(struct role_under_test *r)
{
	int status = 0;

	assert_int_equal(waitpid(r->pid, &status, 0), r->pid);
	r->pid = 0;
	return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

static inline int role_end(struct role_under_test *r)
{
	wire_send(r->sup, MSG_SHUTDOWN, 0, 0, NULL, 0, NULL, 0, NULL, 0);
	int status = role_wait(r);

	close(r->sup);
	return status;
}

static inline void role_kill(struct role_under_test *r)
{
	kill(r->pid, SIGKILL);
	assert_int_equal(role_wait(r), 1000 + SIGKILL);
	close(r->sup);
}

/* Our end of a new link to the role. */
static inline int role_peer(struct role_under_test *r, enum role peer, uint32_t sandbox)
{
	struct msg_peer p = { peer, sandbox };
	int sv[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv), 0);
	wire_send(r->sup, MSG_PEER, 0, 0, &p, sizeof(p), NULL, 0, &sv[1], 1);
	close(sv[1]);
	return sv[0];
}

static inline void role_sandbox(struct role_under_test *r, uint32_t sandbox, uint32_t generation, uint32_t flags, const char *name, int table_fd)
{
	struct msg_sandbox s = { .sandbox = sandbox, .generation = generation, .flags = flags };
	struct wire_msg m;

	snprintf(s.name, sizeof(s.name), "%s", name);
	wire_send(r->sup, MSG_SANDBOX, generation, 0, &s, sizeof(s), NULL, 0, &table_fd, 1);
	wire_expect(r->sup, MSG_SANDBOX_OK, &m);
	assert_int_equal(((struct msg_sandbox_ref *)(void *)m.data)->sandbox, sandbox);
}

static inline void role_retire(struct role_under_test *r, uint32_t sandbox, uint32_t generation)
{
	struct msg_sandbox_ref ref = { sandbox, generation };

	wire_send(r->sup, MSG_RETIRE, generation, 0, &ref, sizeof(ref), NULL, 0, NULL, 0);
}

static inline void role_gone(struct role_under_test *r, uint32_t sandbox, uint32_t generation)
{
	struct msg_sandbox_ref ref = { sandbox, generation };

	wire_send(r->sup, MSG_SANDBOX_GONE, generation, 0, &ref, sizeof(ref), NULL, 0, NULL, 0);
}

/* A compiled table of this policy, as a descriptor. */
static inline int test_table(const char *yaml)
{
	char path[] = "/tmp/sp-table-XXXXXX";
	struct diag d = { .file = "test.yaml" };
	struct policy p;
	struct err err = ERR_INIT;
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	close(fd);
	if (policy_parse(&p, yaml, strlen(yaml), NULL, &d) < 0)
		fail_msg("policy: %.*s", (int)buf_len(&d.out), (const char *)buf_str(&d.out).p);
	if (policy_write(&p, path, &err) < 0)
		fail_msg("policy: %s", err.text);
	policy_free(&p);
	buf_fini(&d.out);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	unlink(path);
	return fd;
}

static inline int memfd_with(const void *p, size_t n)
{
	int fd = memfd_create("test", MFD_CLOEXEC);

	assert_true(fd >= 0 && write(fd, p, n) == (ssize_t)n);
	return fd;
}
#endif
