/* SPDX-License-Identifier: Apache-2.0 */
/* What the role that connects hands over is not trusted to be a connection: one request is refused, and the worker and its other streams go on. */
#include "role_harness.h"

#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "common/base/must.h"
#include "proxy/roles.h"
#include "proxy/worker/worker.h"

static struct role_under_test role;
static int dialer, audit, slots;
static uint16_t http_port, tunnel_port;

static int listen_on(uint16_t *port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t n = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	assert_true(fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0 && listen(fd, 50) == 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &n), 0);
	*port = ntohs(a.sin_port);
	return fd;
}

static int client(uint16_t port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0);
	return fd;
}

static int asks(const char *path)
{
	int fd = client(http_port);
	char text[200];
	int n = snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: origin.example:%u\r\nConnection: close\r\n\r\n", path, http_port);

	assert_int_equal(send(fd, text, (size_t)n, MSG_NOSIGNAL), n);
	return fd;
}

/* Until the end of the connection. */
static void all_of(int fd, char *out, size_t cap)
{
	struct pollfd p = { fd, POLLIN, 0 };
	size_t n = 0;
	ssize_t k = 1;

	while (n < cap - 1 && k > 0) {
		if (poll(&p, 1, WAIT_MS) <= 0)
			fail_msg("no answer comes");
		k = recv(fd, out + n, cap - 1 - n, 0);
		n += k > 0 ? (size_t)k : 0;
	}
	out[n] = 0;
	close(fd);
}

static uint64_t dial_asked(void)
{
	static struct wire_msg m;

	wire_expect(dialer, MSG_DIAL, &m);
	return m.h.id;
}

static void dialed(uint64_t id, int fd)
{
	struct msg_dialed d = { .status = DIAL_OK, .family = 4, .port = http_port };

	wire_send(dialer, MSG_DIALED, 1, id, &d, sizeof(d), NULL, 0, &fd, fd >= 0 ? 1 : 0);
}

static int setup(void **state)
{
	struct msg_inflight f = { INFLIGHT_SLOTS, INFLIGHT_SLOT_SIZE };
	struct msg_sandbox s = { .sandbox = 1, .generation = 1, .listeners = 2, .kinds = { LISTENER_PROXY4, LISTENER_PROXY4 }, .name = "box" };
	int fds[3] = { -1, listen_on(&http_port), listen_on(&tunnel_port) };
	struct wire_msg m;
	char yaml[800];

	(void)state;
	snprintf(yaml, sizeof(yaml),
	         "version: 1\nname: test\ndestinations:\n"
	         "  - { host: origin.example, scheme: http, ports: [%u], addresses: [127.0.0.0/8], allow: [ \"GET /**\" ] }\n"
	         "  - { host: \"127.0.0.1\", protocol: tcp, ports: [%u], addresses: [127.0.0.0/8], allow: tunnel }\n",
	         http_port, tunnel_port);
	fds[0] = test_table(yaml);
	role = role_start(worker_main, NULL, 0, NULL, 0);
	audit = role_peer(&role, ROLE_AUDIT, 1);
	dialer = role_peer(&role, ROLE_DIALER, 1);
	slots = memfd_create("slots", MFD_CLOEXEC);
	assert_int_equal(ftruncate(slots, (off_t)sizeof(struct inflight_slot) * INFLIGHT_SLOTS), 0);
	wire_send(audit, MSG_INFLIGHT, 0, 0, &f, sizeof(f), NULL, 0, &slots, 1);
	wire_expect(audit, MSG_RECORD, &m);
	wire_send(role.sup, MSG_SANDBOX, 1, 0, &s, sizeof(s), NULL, 0, fds, 3);
	wire_expect(role.sup, MSG_SANDBOX_OK, &m);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	role_kill(&role);
	return 0;
}

static void good(void)
{
	int c = asks("/good"), sv[2];
	char text[4096];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
	dialed(dial_asked(), sv[1]);
	close(sv[1]);
	assert_true(recv(sv[0], text, sizeof(text), 0) > 0 && strncmp(text, "GET /good HTTP/1.1\r\n", 20) == 0);
	assert_true(send(sv[0], "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood", 42, MSG_NOSIGNAL) == 42);
	all_of(c, text, sizeof(text));
	assert_true(strncmp(text, "HTTP/1.1 200 ", 13) == 0 && strstr(text, "\r\n\r\ngood") != NULL);
	close(sv[0]);
}

/* What no connection is: of a kind that cannot be waited for, or be read from, or that is not connected; or nothing at all. */
static void what_is_no_connection(void **state)
{
	int pipes[2] = { -1, -1 }, made = pipe2(pipes, O_CLOEXEC), no_port = listen_on(&(uint16_t){ 0 });
	const int odd[] = { memfd_with("x", 1), open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC), open("/dev/null", O_RDWR | O_CLOEXEC), epoll_create1(EPOLL_CLOEXEC), eventfd(1, EFD_CLOEXEC),
		            no_port, socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), pipes[0], pipes[1], -1 };
	char text[4096];

	(void)state;
	assert_int_equal(made, 0);
	good();
	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		int c = asks("/odd"), t;

		dialed(dial_asked(), odd[i]);
		all_of(c, text, sizeof(text));
		if (strncmp(text, "HTTP/1.1 50", 11) != 0)
			fail_msg("kind %zu: %.200s", i, text);
		if (i < 3 || odd[i] < 0)
			assert_non_null(strstr(text, "gateway_unavailable"));
		t = client(tunnel_port);
		dialed(dial_asked(), odd[i]);
		all_of(t, text, sizeof(text));
		assert_string_equal(text, "");
		good();
	}
}

/* One that blocks holds up its own request, not the loop. */
static void what_blocks(void **state)
{
	int c = asks("/slow"), t, sv[2], tv[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
	dialed(dial_asked(), sv[1]);
	t = client(tunnel_port);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, tv), 0);
	dialed(dial_asked(), tv[1]);
	good();
	close(c);
	close(t);
	good();
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(what_is_no_connection), cmocka_unit_test(what_blocks) };

	return cmocka_run_group_tests(tests, setup, teardown);
}
