/* SPDX-License-Identifier: Apache-2.0 */
#include "connector.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "link.h"

_Noreturn static void serve(const struct gateway *found, int fd)
{
	struct gateway g = *found;
	int keep[1] = { fd }, got[LINK_FDS_MAX];
	unsigned got_n;
	struct note n;

	setsid(); /* a terminal's Ctrl-C is the monitor's to handle */
	prctl(PR_SET_NAME, "sallyport-conn");
	prctl(PR_SET_DUMPABLE, 0);
	link_close_except(0, keep, 1);
	g.fd = -1;
	while (link_recv(fd, &n, got, &got_n) == 1 && n.type == NOTE_CONNECT) {
		struct err err = ERR_INIT;

		gateway_reconnect(&g, &err);
		if (link_send(fd, NOTE_CONNECTED, g.fd >= 0, 0, NULL, &g.fd, g.fd >= 0) != 0)
			break;
		gateway_close(&g);
	}
	_exit(0);
}

int connector_start(struct connector *c, const struct gateway *g, struct err *err)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
		return err_errno(err, "socketpair");
	c->pid = fork();
	if (c->pid < 0) {
		close(pair[0]);
		close(pair[1]);
		return err_errno(err, "cannot start the connector");
	}
	if (c->pid == 0)
		serve(g, pair[1]);
	close(pair[1]);
	c->fd = pair[0];
	return 0;
}

int connector_ask(const struct connector *c)
{
	struct note n;
	int got[LINK_FDS_MAX];
	unsigned got_n;

	if (link_send(c->fd, NOTE_CONNECT, 0, 0, NULL, NULL, 0) != 0 || link_recv(c->fd, &n, got, &got_n) != 1)
		return -1;
	return n.type == NOTE_CONNECTED && got_n == 1 ? got[0] : -1;
}

void connector_end(struct connector *c)
{
	if (c->fd < 0)
		return;
	close(c->fd);
	c->fd = -1;
	while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
		;
}
