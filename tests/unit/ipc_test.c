/* SPDX-License-Identifier: Apache-2.0 */
/* Links between roles: every row of msg.def at its bounds and for every pair of roles; descriptors; queues; dead peers. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/sys/ipc.h"

#define HEADER 16
static struct loop *l;
static struct {
	unsigned got, dead;
	uint16_t type;
	size_t len;
	unsigned fd_n;
	int keep;            /* the descriptor that the callback keeps, -1: none */
	struct ipc *free_it; /* freed in the callback */
	bool pause;
	uint64_t id;
	uint32_t generation;
} seen;

static void on_msg(struct ipc *c, const struct ipc_msg *m)
{
	if (m == NULL) {
		seen.dead++;
		assert_true(ipc_dead(c));
		if (seen.free_it == c)
			ipc_free(c);
		return;
	}
	seen.got++;
	seen.type = m->type;
	seen.len = m->len;
	seen.fd_n = m->fd_n;
	seen.id = m->id;
	seen.generation = m->generation;
	if (m->fd_n > 0 && seen.keep == -2) {
		seen.keep = m->fds[0];
		((struct ipc_msg *)(uintptr_t)m)->fds[0] = -1;
	}
	if (seen.pause)
		ipc_pause(c, true);
	if (seen.free_it == c)
		ipc_free(c);
}

static unsigned open_fds(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 512; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static struct ipc *link_to(enum role self, enum role peer, int *other)
{
	int sv[2];

	memset(&seen, 0, sizeof(seen));
	seen.keep = -1;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sv), 0);
	*other = sv[1];
	return ipc_new(l, sv[0], self, peer, on_msg, NULL);
}

static void drop(struct ipc *c, int other)
{
	ipc_free(c);
	loop_turn(l, 0);
	if (other >= 0)
		close(other);
}

/* As a role that does not keep to the table would send it. */
static void raw_send(int fd, uint16_t type, uint16_t reserved, size_t payload, const int *fds, unsigned fd_n)
{
	static uint8_t b[HEADER + IPC_PAYLOAD_MAX + 100];
	union {
		struct cmsghdr h;
		char room[CMSG_SPACE(sizeof(int) * 64)];
	} ctl = { 0 };
	struct iovec iov = { b, HEADER + payload };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };

	assert_true(payload <= sizeof(b) - HEADER);
	memcpy(b, &type, 2);
	memcpy(b + 2, &reserved, 2);
	memset(b + 4, 7, 4);
	memset(b + 8, 9, 8);
	if (fd_n > 0) {
		ctl.h.cmsg_level = SOL_SOCKET;
		ctl.h.cmsg_type = SCM_RIGHTS;
		ctl.h.cmsg_len = CMSG_LEN(sizeof(int) * fd_n);
		memcpy(CMSG_DATA(&ctl.h), fds, sizeof(int) * fd_n);
		mh.msg_control = &ctl;
		mh.msg_controllen = CMSG_SPACE(sizeof(int) * fd_n);
	}
	assert_int_equal(sendmsg(fd, &mh, MSG_NOSIGNAL), (ssize_t)(HEADER + payload));
}

static bool fits(const struct msg_rule *r, enum role from, enum role to) { return (r->sender == ROLE_ANY || r->sender == from) && (r->receiver == ROLE_ANY || r->receiver == to); }

static void expect(enum role self, enum role peer, uint16_t type, size_t n, unsigned fd_n, bool good)
{
	int fds[IPC_FDS_MAX + 2], other;
	struct ipc *c = link_to(self, peer, &other);
	unsigned before = open_fds();

	for (unsigned i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		fds[i] = other;
	raw_send(other, type, 0, n, fds, fd_n);
	loop_turn(l, 0);
	if (seen.got != good || seen.dead != !good)
		print_error("%s to %s: message %u (%s), %zu octets, %u descriptors\n", role_name(peer), role_name(self), type, type < MSG_COUNT ? msg_rules[type].name : "?", n, fd_n);
	assert_int_equal(seen.got, good);
	assert_int_equal(seen.dead, !good);
	assert_int_equal(ipc_dead(c), !good);
	assert_int_equal(open_fds(), before - !good); /* what came with it is closed; a dead link is closed */
	if (good) {
		assert_int_equal(seen.type, type);
		assert_int_equal(seen.len, n);
		assert_int_equal(seen.fd_n, fd_n);
		assert_int_equal(seen.generation, 0x07070707);
		assert_int_equal(seen.id, 0x0909090909090909);
	}
	drop(c, other);
}

static void every_row_for_every_pair(void **state)
{
	(void)state;
	for (enum role from = ROLE_SUPERVISOR; from < ROLE_ANY; from++)
		for (enum role to = ROLE_SUPERVISOR; to < ROLE_ANY; to++)
			for (uint16_t t = 0; t < MSG_COUNT + 2; t++)
				expect(to, from, t, t < MSG_COUNT ? msg_rules[t].min : 8, 0, t > MSG_NONE && t < MSG_COUNT && fits(&msg_rules[t], from, to));
}

static void every_row_at_its_bounds(void **state)
{
	(void)state;
	for (uint16_t t = 1; t < MSG_COUNT; t++) {
		const struct msg_rule *r = &msg_rules[t];
		enum role from = r->sender == ROLE_ANY ? ROLE_CA : (enum role)r->sender, to = r->receiver == ROLE_ANY ? ROLE_CA : (enum role)r->receiver;

		assert_true(r->max <= IPC_PAYLOAD_MAX && r->fds <= IPC_FDS_MAX);
		expect(to, from, t, r->max, 0, true);
		expect(to, from, t, r->max + 1, 0, false);
		if (r->min > 0)
			expect(to, from, t, r->min - 1, 0, false);
		if (r->fds > 0)
			expect(to, from, t, r->min, r->fds, true);
		expect(to, from, t, r->min, r->fds + 1u, false);
	}
}

static void broken_heads(void **state)
{
	union {
		struct cmsghdr h;
		char room[CMSG_SPACE(sizeof(int))];
	} ctl = { 0 };
	struct ipc *c;
	unsigned before;
	int other;

	(void)state;
	for (size_t n = 0; n < HEADER; n++) { /* cut short; none at all is the end */
		c = link_to(ROLE_CA, ROLE_WORKER, &other);
		assert_int_equal(send(other, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", n, 0), (ssize_t)n);
		loop_turn(l, 0);
		assert_int_equal(seen.dead, 1);
		drop(c, other);
	}
	/* an empty message looks like the end, but it may bring descriptors */
	c = link_to(ROLE_CA, ROLE_SUPERVISOR, &other);
	before = open_fds();
	ctl.h = (struct cmsghdr){ .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int)) };
	memcpy(CMSG_DATA(&ctl.h), &other, sizeof(int));
	assert_int_equal(sendmsg(other, &(struct msghdr){ .msg_control = &ctl, .msg_controllen = sizeof(ctl) }, 0), 0);
	loop_turn(l, 0);
	assert_int_equal(seen.dead, 1);
	assert_int_equal(open_fds(), before - 1);
	drop(c, other);
	c = link_to(ROLE_CA, ROLE_WORKER, &other);
	raw_send(other, MSG_MINT, 1, 8, NULL, 0); /* a bit that means nothing yet */
	loop_turn(l, 0);
	assert_int_equal(seen.dead, 1);
	drop(c, other);
	c = link_to(ROLE_CA, ROLE_WORKER, &other);
	raw_send(other, MSG_MINT, 0, IPC_PAYLOAD_MAX + 100, NULL, 0); /* longer than any */
	loop_turn(l, 0);
	assert_int_equal(seen.dead, 1);
	drop(c, other);
}

/* After a message that breaks a rule nothing more is heard, though it had arrived. */
static void nothing_after_a_broken_one(void **state)
{
	struct ipc *c;
	int other;

	(void)state;
	c = link_to(ROLE_CA, ROLE_WORKER, &other);
	raw_send(other, MSG_MINT, 0, 8, NULL, 0);
	raw_send(other, MSG_DIAL, 0, 8, NULL, 0);
	raw_send(other, MSG_MINT, 0, 8, NULL, 0);
	loop_turn(l, 0);
	loop_turn(l, 0);
	assert_int_equal(seen.got, 1);
	assert_int_equal(seen.dead, 1);
	assert_false(ipc_send(c, MSG_MINTED, 0, 0, "\0\0\0", 4, NULL, 0));
	drop(c, other);
}

static void a_descriptor_may_be_kept(void **state)
{
	struct ipc *c;
	int other, fds[1];
	unsigned before;

	(void)state;
	c = link_to(ROLE_CA, ROLE_SUPERVISOR, &other);
	before = open_fds();
	fds[0] = other;
	seen.keep = -2;
	raw_send(other, MSG_PEER, 0, 8, fds, 1);
	loop_turn(l, 0);
	assert_true(seen.keep >= 0);
	assert_int_equal(fcntl(seen.keep, F_GETFD), FD_CLOEXEC);
	assert_int_equal(open_fds(), before + 1);
	close(seen.keep);
	drop(c, other);
}

/* --- the end of a peer --------------------------------------------------------------------------------------------- */

static void what_a_dead_peer_said_is_heard_first(void **state)
{
	struct ipc *c;
	int other;

	(void)state;
	c = link_to(ROLE_CA, ROLE_WORKER, &other);
	for (int i = 0; i < 3; i++)
		raw_send(other, MSG_MINT, 0, 8, NULL, 0);
	assert_true(ipc_send(c, MSG_MINTED, 0, 0, "\0\0\0", 4, NULL, 0)); /* never read by it: the kernel reports a reset */
	close(other);
	for (int i = 0; i < 5; i++)
		loop_turn(l, 0);
	assert_int_equal(seen.got, 3);
	assert_int_equal(seen.dead, 1);
	assert_false(ipc_send(c, MSG_MINTED, 0, 0, "\0\0\0", 4, NULL, 0));
	drop(c, -1);
}

static void sending_to_the_dead_is_no_end_before_its_last_words(void **state)
{
	struct ipc *c;
	int other;

	(void)state;
	c = link_to(ROLE_CA, ROLE_WORKER, &other);
	raw_send(other, MSG_MINT, 0, 8, NULL, 0);
	close(other);
	assert_false(ipc_send(c, MSG_MINTED, 0, 0, "\0\0\0", 4, NULL, 0));
	assert_int_equal(seen.dead, 0);
	assert_true(ipc_deaf(c) && !ipc_dead(c));
	for (int i = 0; i < 3; i++)
		loop_turn(l, 0);
	assert_int_equal(seen.got, 1);
	assert_int_equal(seen.dead, 1);
	drop(c, -1);
}

static void freed_in_its_own_callback(void **state)
{
	struct ipc *c;
	int other;

	(void)state;
	c = link_to(ROLE_CA, ROLE_WORKER, &other);
	seen.free_it = c;
	raw_send(other, MSG_MINT, 0, 8, NULL, 0);
	raw_send(other, MSG_MINT, 0, 8, NULL, 0);
	loop_turn(l, 0);
	loop_turn(l, 0);
	assert_int_equal(seen.got, 1);
	assert_int_equal(seen.dead, 0);
	close(other);
	c = link_to(ROLE_CA, ROLE_WORKER, &other);
	seen.free_it = c;
	close(other);
	loop_turn(l, 0);
	loop_turn(l, 0);
	assert_int_equal(seen.dead, 1);
}

/* --- queues -------------------------------------------------------------------------------------------------------- */

static unsigned drain(int fd)
{
	static uint8_t b[HEADER + IPC_PAYLOAD_MAX];
	unsigned n = 0;

	while (recv(fd, b, sizeof(b), MSG_DONTWAIT) > 0)
		n++;
	return n;
}

static unsigned fill(struct ipc *c, enum msg_type t, size_t n)
{
	static const uint8_t zero[IPC_PAYLOAD_MAX];
	unsigned sent = 0;

	while (sent < 100000 && ipc_send(c, t, 0, sent, zero, n, NULL, 0))
		sent++;
	return sent;
}

static void a_queue_has_an_end(void **state)
{
	struct ipc *c;
	int other;
	unsigned sent, got = 0;

	(void)state;
	c = link_to(ROLE_WORKER, ROLE_AUDIT, &other);
	sent = fill(c, MSG_RECORD, 16000);
	assert_int_equal(ipc_queued(c), 256);
	assert_true(sent > 256 && sent < 100000);
	assert_false(ipc_dead(c)); /* the sender decides what a full queue means */
	for (int i = 0; i < 1000 && got < sent; i++) {
		got += drain(other);
		loop_turn(l, 0);
	}
	assert_int_equal(got, sent);
	assert_int_equal(ipc_queued(c), 0);
	assert_true(ipc_send(c, MSG_RECORD, 0, 0, "................", 16, NULL, 0));
	drop(c, other);
	/* the supervisor's is longer: it speaks of thousands of sandboxes at once */
	c = link_to(ROLE_SUPERVISOR, ROLE_AUDIT, &other);
	fill(c, MSG_SANDBOX_GONE, 8);
	assert_int_equal(ipc_queued(c), 16384);
	drop(c, other);
}

/* Queued with descriptors: they are copies, close-on-exec, and closed when the link ends. */
static void queued_descriptors(void **state)
{
	struct ipc *c;
	int other, fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	unsigned before;
	bool was[512];

	(void)state;
	c = link_to(ROLE_SUPERVISOR, ROLE_CA, &other);
	while (ipc_queued(c) < 100)
		assert_true(ipc_send(c, MSG_SANDBOX_GONE, 0, 0, "\0\0\0\0\0\0\0", 8, NULL, 0));
	before = open_fds();
	for (int i = 0; i < 512; i++)
		was[i] = fcntl(i, F_GETFD) >= 0;
	for (int i = 0; i < 20; i++)
		assert_true(ipc_send(c, MSG_PEER, 0, 0, "\0\0\0\0\0\0\0", 8, &fd, 1));
	assert_int_equal(open_fds(), before + 20);
	for (int i = 0; i < 512; i++)
		assert_true(was[i] || fcntl(i, F_GETFD) < 0 || (fcntl(i, F_GETFD) & FD_CLOEXEC));
	ipc_free(c);
	loop_turn(l, 0);
	assert_int_equal(open_fds(), before - 1);
	close(other);
	close(fd);
}

/* No descriptor left for the copy: the message is not taken, and nobody dies of it. */
static void no_descriptors_left(void **state)
{
	struct ipc *c;
	struct rlimit old, rl;
	int other, fd;
	size_t queued;
	bool taken;

	(void)state;
	c = link_to(ROLE_SUPERVISOR, ROLE_CA, &other);
	fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	while (ipc_queued(c) < 100)
		assert_true(ipc_send(c, MSG_SANDBOX_GONE, 0, 0, "\0\0\0\0\0\0\0", 8, NULL, 0));
	queued = ipc_queued(c);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	rl = old;
	rl.rlim_cur = (rlim_t)fd + 1;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &rl), 0);
	taken = ipc_send(c, MSG_PEER, 0, 0, "\0\0\0\0\0\0\0", 8, &fd, 1);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_false(taken);
	assert_int_equal(ipc_queued(c), queued);
	assert_false(ipc_dead(c));
	assert_true(ipc_send(c, MSG_PEER, 0, 0, "\0\0\0\0\0\0\0", 8, &fd, 1));
	close(fd);
	drop(c, other);
}

static void a_full_link_whose_peer_dies(void **state)
{
	struct ipc *c;
	int other;

	(void)state;
	c = link_to(ROLE_WORKER, ROLE_AUDIT, &other);
	fill(c, MSG_RECORD, 16000);
	close(other);
	for (int i = 0; i < 3; i++)
		loop_turn(l, 0);
	assert_int_equal(seen.dead, 1);
	assert_int_equal(ipc_queued(c), 0);
	drop(c, -1);
}

/* --- back-pressure ------------------------------------------------------------------------------------------------- */

static void paused_reads_nothing(void **state)
{
	struct ipc *c;
	int other;

	(void)state;
	c = link_to(ROLE_CA, ROLE_WORKER, &other);
	seen.pause = true;
	raw_send(other, MSG_MINT, 0, 8, NULL, 0);
	raw_send(other, MSG_MINT, 0, 8, NULL, 0);
	for (int i = 0; i < 3; i++)
		loop_turn(l, 0);
	assert_int_equal(seen.got, 1);
	seen.pause = false;
	ipc_pause(c, false);
	loop_turn(l, 0);
	assert_int_equal(seen.got, 2);
	/* what a peer had sent and its death come through a pause */
	ipc_pause(c, true);
	raw_send(other, MSG_MINT, 0, 8, NULL, 0);
	close(other);
	for (int i = 0; i < 3; i++)
		loop_turn(l, 0);
	assert_int_equal(seen.got, 3);
	assert_int_equal(seen.dead, 1);
	drop(c, -1);
}

/* A turn takes a share of a long run of messages; a pump takes what is there. */
static void shares_and_pumps(void **state)
{
	struct ipc *c;
	int other;

	(void)state;
	c = link_to(ROLE_CA, ROLE_WORKER, &other);
	for (int i = 0; i < 100; i++)
		raw_send(other, MSG_MINT, 0, 8, NULL, 0);
	loop_turn(l, 0);
	assert_true(seen.got > 0 && seen.got < 100);
	ipc_pump(c);
	assert_int_equal(seen.got, 100);
	assert_int_equal(seen.dead, 0);
	drop(c, other);
}

static void two_parts_are_one_message(void **state)
{
	struct ipc *c, *d;
	int sv[2];

	(void)state;
	memset(&seen, 0, sizeof(seen));
	seen.keep = -1;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sv), 0);
	c = ipc_new(l, sv[0], ROLE_WORKER, ROLE_CA, on_msg, NULL);
	d = ipc_new(l, sv[1], ROLE_CA, ROLE_WORKER, on_msg, c);
	assert_ptr_equal(ipc_arg(d), c);
	assert_int_equal(ipc_peer(d), ROLE_WORKER);
	assert_true(ipc_send2(c, MSG_MINT, 3, 4, "ab", 2, "host", 4, NULL, 0));
	loop_turn(l, 0);
	assert_int_equal(seen.len, 6);
	assert_int_equal(seen.generation, 3);
	assert_int_equal(seen.id, 4);
	ipc_free(c);
	ipc_free(c); /* once is enough */
	ipc_free(NULL);
	ipc_free(d);
}

/* Roles without a loop: one message is waited for, one is said. */
static void one_message_without_a_loop(void **state)
{
	const struct msg_check what = { .boundaries = 1 };
	const struct msg_checked said = { .digest = { 1 }, .signer = { 2 } };
	int sv[2], fds[3] = { 0, 0, 0 };
	unsigned before = open_fds();
	struct ipc_msg m;
	struct ipc *c;

	(void)state;
	memset(&seen, 0, sizeof(seen));
	seen.keep = -1;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv), 0);
	c = ipc_new(l, sv[0], ROLE_SUPERVISOR, ROLE_CHECKER, on_msg, NULL);
	assert_true(ipc_send(c, MSG_CHECK, 0, 0, &what, sizeof(what), fds, 3));
	assert_true(ipc_wait(sv[1], ROLE_CHECKER, ROLE_SUPERVISOR, &m));
	assert_int_equal(m.type, MSG_CHECK);
	assert_int_equal(m.len, sizeof(what));
	assert_memory_equal(m.data, &what, sizeof(what));
	assert_int_equal(m.fd_n, 3);
	for (unsigned i = 0; i < m.fd_n; i++) {
		assert_int_equal(fcntl(m.fds[i], F_GETFD), FD_CLOEXEC);
		close(m.fds[i]);
	}
	assert_true(ipc_say(sv[1], ROLE_CHECKER, ROLE_SUPERVISOR, MSG_CHECKED, &said, sizeof(said)));
	loop_turn(l, 0);
	assert_int_equal(seen.got, 1);
	assert_int_equal(seen.type, MSG_CHECKED);
	assert_int_equal(seen.len, sizeof(said));
	/* what is no row for these two is refused, and leaves no descriptor */
	assert_true(ipc_send(c, MSG_CHECK, 0, 0, &what, sizeof(what), fds, 3));
	assert_false(ipc_wait(sv[1], ROLE_CA, ROLE_SUPERVISOR, &m));
	/* the end, on both sides of it */
	ipc_free(c);
	assert_false(ipc_wait(sv[1], ROLE_CHECKER, ROLE_SUPERVISOR, &m));
	assert_int_equal(m.fd_n, 0);
	assert_false(ipc_say(sv[1], ROLE_CHECKER, ROLE_SUPERVISOR, MSG_CHECKED, &said, sizeof(said)));
	close(sv[1]);
	assert_int_equal(open_fds(), before);
}

static int setup(void **state)
{
	(void)state;
	l = loop_new();
	return 0;
}
static int teardown(void **state)
{
	(void)state;
	loop_free(l);
	return 0;
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
int main(void)
{
	const struct CMUnitTest tests[] = {
		T(every_row_for_every_pair), T(every_row_at_its_bounds), T(broken_heads), T(nothing_after_a_broken_one), T(a_descriptor_may_be_kept),
		T(what_a_dead_peer_said_is_heard_first), T(sending_to_the_dead_is_no_end_before_its_last_words), T(freed_in_its_own_callback), T(a_queue_has_an_end),
		T(queued_descriptors), T(no_descriptors_left), T(a_full_link_whose_peer_dies), T(paused_reads_nothing), T(shares_and_pumps), T(two_parts_are_one_message),
		T(one_message_without_a_loop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
