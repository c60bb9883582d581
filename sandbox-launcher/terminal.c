/* SPDX-License-Identifier: Apache-2.0 */
#include "terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define LAST_WORDS_MS 1000

static bool in_foreground(void) { return tcgetpgrp(STDIN_FILENO) == getpgrp(); }

void terminal_start(struct terminal *t, int master, int slave)
{
	*t = (struct terminal){ .master = master, .slave = slave };
	fcntl(master, F_SETFL, O_RDWR | O_NONBLOCK);
	if (tcgetattr(STDIN_FILENO, &t->saved) == 0)
		tcsetattr(master, TCSANOW, &t->saved); /* the modes the user is used to */
	terminal_size(t);
	terminal_foreground(t);
}

void terminal_foreground(struct terminal *t)
{
	struct termios raw = t->saved;

	if (!in_foreground())
		return;
	cfmakeraw(&raw);
	if (tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0)
		t->raw = true;
	terminal_size(t);
}

void terminal_size(const struct terminal *t)
{
	struct winsize w;

	if (ioctl(STDIN_FILENO, TIOCGWINSZ, &w) == 0)
		ioctl(t->master, TIOCSWINSZ, &w); /* the kernel tells the foreground group inside */
}

void terminal_poll(const struct terminal *t, struct pollfd fds[2])
{
	fds[0] = (struct pollfd){ .fd = t->input_ended || t->in_n > 0 || !t->raw ? -1 : STDIN_FILENO, .events = POLLIN };
	fds[1] = (struct pollfd){ .fd = t->output_ended ? -1 : t->master, .events = (short)(POLLIN | (t->in_n > 0 ? POLLOUT : 0)) };
}

static void put(const char *p, ssize_t n)
{
	while (n > 0) {
		ssize_t w = write(STDOUT_FILENO, p, (size_t)n);

		if (w < 0 && errno == EINTR)
			continue;
		if (w < 0 && errno == EAGAIN) { /* somebody made the caller's terminal non-blocking */
			struct pollfd f = { .fd = STDOUT_FILENO, .events = POLLOUT };

			poll(&f, 1, -1);
			continue;
		}
		if (w <= 0)
			return;
		p += w;
		n -= w;
	}
}

static void relay_output(struct terminal *t)
{
	char b[TERMINAL_BUFFER];
	ssize_t n = read(t->master, b, sizeof(b));

	if (n > 0)
		put(b, n);
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		t->output_ended = true; /* EIO: its session has ended, and all that was written is read */
}

void terminal_turn(struct terminal *t, const struct pollfd fds[2])
{
	ssize_t n;

	if (fds[0].revents) {
		n = read(STDIN_FILENO, t->in, sizeof(t->in));
		if (n > 0) {
			t->in_at = 0;
			t->in_n = (unsigned)n;
		} else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
			t->input_ended = true;
		}
	}
	if (t->in_n > 0) {
		n = write(t->master, t->in + t->in_at, t->in_n);
		if (n > 0) {
			t->in_at += (unsigned)n;
			t->in_n -= (unsigned)n;
		} else if (errno != EAGAIN && errno != EINTR) {
			t->in_n = 0;
		}
	}
	if (fds[1].revents & (POLLIN | POLLHUP | POLLERR))
		relay_output(t);
}

void terminal_end(struct terminal *t)
{
	struct pollfd f = { .fd = t->master, .events = POLLIN };

	close(t->slave);
	/* What was written last may still be on its way inside the kernel; the end of it is EIO. */
	while (!t->output_ended && poll(&f, 1, LAST_WORDS_MS) > 0)
		relay_output(t);
	if (t->raw)
		tcsetattr(STDIN_FILENO, TCSADRAIN, &t->saved);
	t->raw = false;
}
