/* SPDX-License-Identifier: Apache-2.0 */
/* The dialer, with a name server of our own in a thread and listeners on the loopback. */
#include "role_harness.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "common/base/ip.h"
#include "common/policy/facts.h"
#include "proxy/dialer/dialer.h"

int dialer_main(int link_fd);

/* --- a name server ------------------------------------------------------------------------------------------------- */

struct zone_row {
	const char *name;
	uint16_t type;       /* 1 A, 28 AAAA */
	const char *address; /* NULL: NXDOMAIN; "": no answer comes; "-": no records; "!": SERVFAIL */
	uint32_t ttl;
};
static const struct zone_row zone[] = {
	{ "loop.example", 1, "127.0.0.1", 60 },
	{ "loop.example", 28, "-", 0 },
	{ "slow6.example", 1, "127.0.0.1", 60 },
	{ "slow6.example", 28, "", 0 },
	{ "private.example", 1, "10.1.2.3", 60 },
	{ "private.example", 28, "fd00::1", 60 },
	{ "mapped.example", 1, "-", 0 },
	{ "mapped.example", 28, "::ffff:127.0.0.1", 60 },
	{ "metadata.example", 1, "169.254.169.254", 60 },
	{ "metadata.example", 28, "fd00:ec2::254", 60 },
	{ "mixed.example", 1, "127.0.0.1", 60 },
	{ "mixed.example", 28, "fd00::1", 60 },
	{ "broken.example", 1, "!", 0 },
	{ "broken.example", 28, "!", 0 },
	{ "zero.example", 1, "127.0.0.1", 0 },
	{ "fallback.example", 1, "127.0.0.1", 60 },
	{ "fallback.example", 28, "::1", 60 }, /* nobody listens there */
};
static int dns_fd;
static uint16_t dns_port;
static atomic_int questions;
static char last_question[256];

static size_t put_name(const uint8_t *q, size_t n, char out[256])
{
	size_t at = 12, o = 0;

	while (at < n && q[at] != 0 && at + 1 + q[at] < n && o + q[at] + 1 < 255) {
		if (o > 0)
			out[o++] = '.';
		memcpy(out + o, q + at + 1, q[at]);
		o += q[at];
		at += 1u + q[at];
	}
	out[o] = 0;
	return at + 1;
}

static void *serve(void *arg)
{
	(void)arg;
	for (;;) {
		uint8_t q[512], a[600];
		struct sockaddr_in from;
		socklen_t from_n = sizeof(from);
		ssize_t n = recvfrom(dns_fd, q, sizeof(q), 0, (struct sockaddr *)&from, &from_n);
		const struct zone_row *row = NULL;
		struct ip ip;
		uint16_t type;
		size_t end, len;
		char name[256];

		if (n == 1)
			return NULL; /* the end of the test */
		if (n < 17)
			continue;
		questions++;
		end = put_name(q, (size_t)n, name);
		snprintf(last_question, sizeof(last_question), "%s", name);
		type = (uint16_t)(q[end] << 8 | q[end + 1]);
		for (size_t i = 0; i < sizeof(zone) / sizeof(zone[0]); i++)
			if (strcmp(zone[i].name, name) == 0 && zone[i].type == type)
				row = &zone[i];
		if (row != NULL && row->address[0] == 0)
			continue;
		len = end + 4;
		memcpy(a, q, len);
		a[2] = 0x81;
		a[3] = row == NULL ? 0x83 : row->address[0] == '!' ? 0x82 : 0x80;
		memset(a + 6, 0, 6);
		if (row != NULL && ip_parse(str_of(row->address), &ip)) {
			size_t alen = type == 1 ? 4 : 16;
			uint8_t rr[12] = { 0xc0, 12, (uint8_t)(type >> 8), (uint8_t)type, 0, 1, 0, 0, (uint8_t)(row->ttl >> 8), (uint8_t)row->ttl, 0, (uint8_t)alen };

			a[7] = 1;
			memcpy(a + len, rr, sizeof(rr));
			memcpy(a + len + sizeof(rr), ip.b + 16 - alen, alen);
			len += sizeof(rr) + alen;
		}
		sendto(dns_fd, a, len, 0, (struct sockaddr *)&from, from_n);
	}
}

/* --- listeners ----------------------------------------------------------------------------------------------------- */

static uint16_t bind_loop(int fd)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t n = sizeof(a);

	assert_int_equal(bind(fd, (struct sockaddr *)&a, n), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &n), 0);
	return ntohs(a.sin_port);
}

static int listener, silent;
static uint16_t port, closed_port, silent_port;
static char yaml[4000];
static int table;
static pthread_t thread;
static struct role_under_test role;

static int setup(void **state)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	char servers[40];
	int fd, full[8];

	(void)state;
	dns_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	dns_port = bind_loop(dns_fd);
	assert_int_equal(pthread_create(&thread, NULL, serve, NULL), 0);
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	port = bind_loop(listener);
	assert_int_equal(listen(listener, 600), 0);
	fd = socket(AF_INET, SOCK_STREAM, 0);
	closed_port = bind_loop(fd);
	close(fd);
	/* a backlog that is full: connects are not answered */
	silent = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	silent_port = bind_loop(silent);
	assert_int_equal(listen(silent, 0), 0);
	a.sin_port = htons(silent_port);
	for (int i = 0; i < 8; i++) {
		full[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		connect(full[i], (struct sockaddr *)&a, sizeof(a));
	}
	snprintf(yaml, sizeof(yaml),
	         "version: 1\nname: test\ndestinations:\n"
	         "  - { host: [loop.example, zero.example, slow6.example, mixed.example, fallback.example, nowhere.example, broken.example], ports: [%u], addresses: [127.0.0.0/8, \"::1/128\"], allow: [ \"GET /**\" ] }\n"
	         "  - { host: [private.example, mapped.example, metadata.example, own.example], ports: [%u], allow: [ \"GET /**\" ] }\n"
	         "  - { host: loop.example, ports: [%u], addresses: [127.0.0.0/8], allow: [ \"GET /**\" ] }\n"
	         "  - { host: loop.example, ports: [%u], addresses: [127.0.0.0/8], allow: [ \"GET /**\" ] }\n"
	         "  - { host: connect.example, connect: 127.0.0.1:%u, addresses: [127.0.0.0/8], allow: [ \"GET /**\" ] }\n"
	         "  - { host: \"127.0.0.1\", ports: [%u], addresses: [127.0.0.0/8], allow: [ \"GET /**\" ] }\n",
	         port, port, closed_port, silent_port, port, port);
	table = test_table(yaml);
	snprintf(servers, sizeof(servers), "127.0.0.1 %u\n", dns_port);
	role = role_start(dialer_main, servers, strlen(servers), NULL, 0);
	role_sandbox(&role, 1, 3, 0, "box", table);
	return 0;
}

static int teardown(void **state)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(dns_port) };

	(void)state;
	assert_int_equal(role_end(&role), 0);
	sendto(dns_fd, "x", 1, 0, (struct sockaddr *)&a, sizeof(a));
	pthread_join(thread, NULL);
	close(dns_fd);
	close(listener);
	close(silent);
	close(table);
	return 0;
}

/* --- questions ----------------------------------------------------------------------------------------------------- */

static void ask(int link, uint64_t id, const char *host, uint16_t to)
{
	struct msg_dial q = { .port = to, .scheme = SCHEME_HTTPS };

	wire_send(link, MSG_DIAL, 3, id, &q, sizeof(q), host, strlen(host), NULL, 0);
}

static struct msg_dialed answer(int link, uint64_t id, char cause[512], int *fd)
{
	static struct wire_msg m;
	struct msg_dialed a;

	if (!wire_recv(link, &m, 20000) || m.h.type != MSG_DIALED)
		fail_msg("no DIALED came");
	if (id != 0)
		assert_int_equal(m.h.id, id);
	memcpy(&a, m.data, sizeof(a));
	snprintf(cause, 512, "%.*s", (int)(m.n - sizeof(a)), (const char *)m.data + sizeof(a));
	*fd = m.fd;
	assert_int_equal(a.status == DIAL_OK, m.fd >= 0);
	return a;
}

static struct msg_dialed dial(int link, const char *host, uint16_t to, char cause[512])
{
	static uint64_t id;
	struct msg_dialed a;
	int fd;

	ask(link, ++id, host, to);
	a = answer(link, id, cause, &fd);
	if (fd >= 0) {
		/* it is connected to our listener, without blocking, and closes on exec */
		int peer = accept(listener, NULL, NULL);
		char c = 0;

		assert_true(peer >= 0);
		assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
		assert_int_equal(write(fd, "y", 1), 1);
		assert_int_equal(read(peer, &c, 1), 1);
		close(peer);
		close(fd);
	}
	return a;
}

static void connects(void **state)
{
	int link = role_peer(&role, ROLE_WORKER, 1), before;
	struct msg_dialed a;
	char cause[512];

	(void)state;
	a = dial(link, "loop.example", port, cause);
	assert_int_equal(a.status, DIAL_OK);
	assert_int_equal(a.family, 4);
	assert_int_equal(a.port, port);
	assert_memory_equal(a.addr + 12, "\x7f\0\0\1", 4);
	assert_string_equal(last_question, "loop.example"); /* no search list */
	before = questions;
	assert_int_equal(before, 2);
	assert_int_equal(dial(link, "loop.example", port, cause).status, DIAL_OK);
	assert_int_equal(questions, before); /* from the cache */
	/* literal, and `connect`: no question at all */
	assert_int_equal(dial(link, "127.0.0.1", port, cause).status, DIAL_OK);
	a = dial(link, "connect.example", 443, cause);
	assert_int_equal(a.status, DIAL_OK);
	assert_int_equal(a.port, port);
	assert_int_equal(questions, before);
	/* one family that is never answered does not hold up the other */
	assert_int_equal(dial(link, "slow6.example", port, cause).status, DIAL_OK);
	/* an address where nobody listens, then one where somebody does */
	assert_int_equal(dial(link, "fallback.example", port, cause).status, DIAL_OK);
	/* of two addresses one is refused: only the other is dialled */
	a = dial(link, "mixed.example", port, cause);
	assert_int_equal(a.status, DIAL_OK);
	assert_int_equal(a.family, 4);
	close(link);
}

static void policy_first(void **state)
{
	static const struct {
		const char *host;
		int port_offset;
	} rows[] = { { "other.example", 0 }, { "LOOP.example", 0 }, { "loop.example.", 0 }, { "x.loop.example", 0 }, { "127.0.0.2", 0 }, { "loop.example", 30000 }, { "loop.example\n", 0 } };
	int link = role_peer(&role, ROLE_WORKER, 1), before = questions, stranger, fd;
	char cause[512];
	struct msg_dial q = { .port = port, .scheme = SCHEME_HTTP };

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(dial(link, rows[i].host, (uint16_t)(port + rows[i].port_offset), cause).status, DIAL_DENIED);
	wire_send(link, MSG_DIAL, 3, 99, &q, sizeof(q), "loop.example", 12, NULL, 0); /* another scheme */
	assert_int_equal(answer(link, 99, cause, &fd).status, DIAL_DENIED);
	q.scheme = SCHEME_HTTPS;
	wire_send(link, MSG_DIAL, 4, 98, &q, sizeof(q), "loop.example", 12, NULL, 0); /* another generation */
	assert_int_equal(answer(link, 98, cause, &fd).status, DIAL_DENIED);
	assert_int_equal(questions, before);
	close(link);
	/* a sandbox that was never announced gets no link */
	stranger = role_peer(&role, ROLE_WORKER, 77);
	struct wire_msg m;
	assert_false(wire_recv(stranger, &m, WAIT_MS));
	close(stranger);
}

static void addresses(void **state)
{
	int link = role_peer(&role, ROLE_WORKER, 1);
	char cause[512];

	(void)state;
	assert_int_equal(dial(link, "private.example", port, cause).status, DIAL_ADDRESS_DENIED);
	assert_non_null(strstr(cause, "private"));
	assert_int_equal(dial(link, "mapped.example", port, cause).status, DIAL_ADDRESS_DENIED);
	assert_int_equal(dial(link, "metadata.example", port, cause).status, DIAL_ADDRESS_DENIED);
	assert_non_null(strstr(cause, "metadata"));
	close(link);
}

static bool put_file(const char *name, const char *text)
{
	int fd = open(name, O_WRONLY | O_CLOEXEC);
	bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return ok;
}

/* A network namespace in which we are root, so that `ip` is as well. */
static bool own_network(void)
{
	char map[64];

	snprintf(map, sizeof(map), "0 %u 1", (unsigned)geteuid());
	return unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0 && put_file("/proc/self/setgroups", "deny") && put_file("/proc/self/uid_map", map);
}

/* H08: this host's own addresses and the networks it is on, public ones too. */
static void on_link(void **state)
{
	static const struct { const char *text; bool refused; } cases[] = {
		{ "8.8.8.8", true }, { "8.8.8.99", true }, { "8.8.9.1", false }, { "2606:4700::1", true }, { "2606:4700::99", true }, { "2606:4701::1", false },
		{ "2002:808:808::1", true }, /* 6to4 of 8.8.8.8 */
	};
	int status = 0;
	pid_t pid = fork();

	(void)state;
	if (pid == 0) {
		struct loop *l;
		struct local *own;
		const char *why;
		struct ip a;

		if (!own_network())
			_exit(77);
		if (system("ip link set lo up && ip addr add 8.8.8.8/24 dev lo && ip addr add 2606:4700::1/64 dev lo nodad") != 0)
			_exit(77);
		l = loop_new();
		own = local_new(l);
		for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
			if (!ip_parse(str_of(cases[i].text), &a) || local_refuses(own, &a, &why) != cases[i].refused)
				_exit((int)i + 1);
		_exit(local_has_global6(own) ? 0 : 50);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		skip(); /* no namespaces here */
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* A TTL of nothing is no reason to ask for each connection (H06: each is vetted all the same), and none is believed for ever. */
static void ttl_limits(void **state)
{
	static const struct { int ttl, kept; } cases[] = { { 0, 5 }, { -1, 5 }, { 4, 5 }, { 5, 5 }, { 60, 60 }, { 300, 300 }, { 301, 300 }, { 2147483647, 300 } };
	int link = role_peer(&role, ROLE_WORKER, 1), before;
	char cause[512];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(resolver_keep_s(cases[i].ttl), cases[i].kept);
	before = questions;
	for (int i = 0; i < 5; i++)
		assert_int_equal(dial(link, "zero.example", port, cause).status, DIAL_OK);
	assert_int_equal(questions - before, 2); /* one for each family */
	close(link);
}

/* H08 as it is dialled: none of these is connected to without being listed, whatever listens there. 0, 77: no namespaces here, else the case. */
static int own_addresses(void)
{
	static const struct { const char *host; uint8_t status; } cases[] = {
		{ "8.8.8.8", DIAL_ADDRESS_DENIED }, { "8.8.8.99", DIAL_ADDRESS_DENIED }, { "2606:4700::1", DIAL_ADDRESS_DENIED }, { "2606:4700::99", DIAL_ADDRESS_DENIED },
		{ "8.8.9.1", DIAL_UNREACHABLE }, /* no route: nothing is refused there */
		{ "8.8.4.4", DIAL_OK },
	};
	static const char hosts[] = "version: 1\nname: own\ndestinations:\n"
				    "  - { host: [\"8.8.8.8\", \"8.8.8.99\", \"[2606:4700::1]\", \"[2606:4700::99]\", \"8.8.9.1\"], ports: [4433], allow: [ \"GET /**\" ] }\n"
				    "  - { host: \"8.8.4.4\", ports: [4433], addresses: [ 8.8.4.4/32 ], allow: [ \"GET /**\" ] }\n";
	struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_port = htons(4433) };
	int s, link;
	struct role_under_test r;
	char cause[512];

	if (!own_network() || system("ip link set lo up && ip addr add 8.8.8.8/24 dev lo && ip addr add 8.8.4.4/32 dev lo && ip addr add 2606:4700::1/64 dev lo nodad") != 0)
		return 77;
	s = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (s < 0 || bind(s, (struct sockaddr *)&any, sizeof(any)) != 0 || listen(s, 16) != 0)
		return 99;
	r = role_start(dialer_main, "127.0.0.1 53\n", 13, NULL, 0);
	role_sandbox(&r, 1, 3, 0, "box", test_table(hosts));
	link = role_peer(&r, ROLE_WORKER, 1);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int fd;

		ask(link, i + 1, cases[i].host, 4433);
		if (answer(link, i + 1, cause, &fd).status != cases[i].status)
			return (int)i + 1;
	}
	/* the one that is listed, and nobody else */
	for (int n = 0;; n++)
		if (accept(s, NULL, NULL) < 0)
			return n == 1 ? 0 : 60;
}

static void own_addresses_dialled(void **state)
{
	int status = 0;
	pid_t pid = fork();

	(void)state;
	if (pid == 0)
		_exit(own_addresses());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void failures(void **state)
{
	int link = role_peer(&role, ROLE_WORKER, 1);
	struct msg_dialed a;
	char cause[512];

	(void)state;
	assert_int_equal(dial(link, "nowhere.example", port, cause).status, DIAL_DNS);
	assert_string_equal(cause, "the name does not exist");
	assert_int_equal(dial(link, "broken.example", port, cause).status, DIAL_DNS);
	assert_non_null(strstr(cause, "name server"));
	a = dial(link, "loop.example", closed_port, cause);
	assert_int_equal(a.status, DIAL_UNREACHABLE);
	assert_non_null(strstr(cause, "refused"));
	assert_int_equal(a.port, closed_port);
	a = dial(link, "loop.example", silent_port, cause);
	assert_int_equal(a.status, DIAL_TIMEOUT);
	assert_in_range(a.connect_us, 9000000, 13000000);
	close(link);
}

/* More than may be under way at once: all are answered. And a worker that goes leaves nothing behind. */
static void many(void **state)
{
	int link = role_peer(&role, ROLE_WORKER, 1), sent = 0, got = 0, fd, peer;
	char cause[512];

	(void)state;
	while (got < 1500) {
		struct pollfd p = { link, (short)(POLLIN | (sent < 1500 ? POLLOUT : 0)), 0 };

		assert_int_equal(poll(&p, 1, WAIT_MS), 1);
		if ((p.revents & POLLOUT) && sent - got < 700) {
			ask(link, (uint64_t)++sent, "127.0.0.1", port);
			continue;
		}
		if (!(p.revents & POLLIN) && poll(&(struct pollfd){ link, POLLIN, 0 }, 1, WAIT_MS) != 1)
			fail_msg("%d of %d answered", got, sent);
		assert_int_equal(answer(link, 0, cause, &fd).status, DIAL_OK);
		close(fd);
		peer = accept(listener, NULL, NULL);
		close(peer);
		got++;
	}
	for (int i = 0; i < 20; i++)
		ask(link, (uint64_t)i + 5000, "loop.example", silent_port);
	close(link);
	link = role_peer(&role, ROLE_WORKER, 1);
	assert_int_equal(dial(link, "loop.example", port, cause).status, DIAL_OK);
	close(link);
}

/* The policy is replaced: each generation has its own destinations, until it is retired; what is under way in its name ends then. */
static void generations(void **state)
{
	int next = test_table("version: 1\ndestinations: [ { host: next.example, allow: [GET /] } ]\n"), link, fd;
	struct msg_dial q = { .port = port, .scheme = SCHEME_HTTPS };
	char cause[512];

	(void)state;
	role_sandbox(&role, 50, 3, 0, "third", table);
	link = role_peer(&role, ROLE_WORKER, 50);
	role_sandbox(&role, 50, 60, 0, "third", next);
	assert_int_equal(dial(link, "loop.example", port, cause).status, DIAL_OK);
	wire_send(link, MSG_DIAL, 60, 99, &q, sizeof(q), "loop.example", 12, NULL, 0);
	assert_int_equal(answer(link, 99, cause, &fd).status, DIAL_DENIED);
	ask(link, 77, "loop.example", silent_port);
	ask(link, 78, "other.example", port); /* when it is answered the one before has begun */
	assert_int_equal(answer(link, 78, cause, &fd).status, DIAL_DENIED);
	role_retire(&role, 50, 3);
	assert_int_equal(answer(link, 77, cause, &fd).status, DIAL_DENIED);
	assert_string_equal(cause, "the policy is not in force any more");
	assert_int_equal(dial(link, "loop.example", port, cause).status, DIAL_DENIED);
	role_gone(&role, 50, 60);
	close(link);
	close(next);
}

/* A worker that does not read for a while: what ends meanwhile is answered all the same, each question once. */
static void stalled(void **state)
{
	static bool answered[3000];
	int link = role_peer(&role, ROLE_WORKER, 1), clock, sent = 0, fd;
	struct msg_dial q = { .port = port, .scheme = SCHEME_HTTPS };
	struct pollfd p = { link, POLLOUT, 0 };
	static struct wire_msg m;
	char cause[512];

	(void)state;
	/* first those that take long, then as many as the dialer reads of those that are answered at once */
	while (sent < 3000 && poll(&p, 1, 500) == 1) {
		if (sent < 500)
			ask(link, (uint64_t)sent, "loop.example", silent_port);
		else
			wire_send(link, MSG_DIAL, 3, (uint64_t)sent, &q, sizeof(q), "other.example", 13, NULL, 0);
		sent++;
	}
	/* one that takes as long, of another worker: when it has ended the others have */
	role_sandbox(&role, 2, 3, 0, "second", table);
	clock = role_peer(&role, ROLE_WORKER, 2);
	ask(clock, 1, "loop.example", silent_port);
	assert_int_equal(answer(clock, 1, cause, &fd).status, DIAL_TIMEOUT);
	for (int got = 0; got < sent; got++) {
		if (!wire_recv(link, &m, 20000))
			fail_msg("%d of %d answered", got, sent);
		assert_true(m.h.id < (uint64_t)sent && !answered[m.h.id]);
		answered[m.h.id] = true;
	}
	role_gone(&role, 2, 3);
	close(clock);
	close(link);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(connects), cmocka_unit_test(policy_first), cmocka_unit_test(addresses), cmocka_unit_test(on_link), cmocka_unit_test(own_addresses_dialled), cmocka_unit_test(ttl_limits), cmocka_unit_test(failures), cmocka_unit_test(many), cmocka_unit_test(generations), cmocka_unit_test(stalled) };

	return cmocka_run_group_tests(tests, setup, teardown);
}
