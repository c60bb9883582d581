/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "link.h"
#include "say.h"
#include "terminal.h"

#define EXIT_TIMEOUT 124
#define EXIT_OURS 125
#define GRACE_MS 2000      /* between asking the command to end and ending it */
#define TERM_GRACE_MS 4000 /* when somebody else asked it (a service manager, a terminal that is closed) */
#define RECONNECT_MS 500

static const int passed_on[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH, SIGTSTP, SIGCONT, SIGALRM };

struct watch_state {
	struct monitor *m;
	struct terminal terminal;
	bool has_terminal;
	int signals;
	uint64_t deadline_ms, kill_ms, reconnect_ms; /* 0: none */
	bool exited, timed_out, lost, stopped_for_loss, stopped_for_misuse, terminated, ended;
	int wait_status;
};

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static void passed_set(sigset_t *s)
{
	sigemptyset(s);
	for (size_t i = 0; i < sizeof(passed_on) / sizeof(passed_on[0]); i++)
		sigaddset(s, passed_on[i]);
}

void monitor_block(sigset_t *old)
{
	sigset_t s;

	passed_set(&s);
	sigaddset(&s, SIGPIPE);
	sigaddset(&s, SIGTTOU); /* we set the terminal's modes, in whatever group */
	sigprocmask(SIG_BLOCK, &s, old);
}

static void to_command(const struct watch_state *w, int sig, bool group)
{
	link_send(w->m->link_fd, NOTE_SIGNAL, sig, group, NULL, NULL, 0);
}

static bool ignored(int sig)
{
	struct sigaction now;

	return sigaction(sig, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

/* Who asks the launcher to end means all of the sandbox: what does not end by itself is ended. */
static void terminate(struct watch_state *w)
{
	if (w->kill_ms)
		return;
	w->terminated = true;
	w->kill_ms = now_ms() + TERM_GRACE_MS;
}

static void on_signal(struct watch_state *w, const struct signalfd_siginfo *si)
{
	int sig = (int)si->ssi_signo;
	bool from_terminal = si->ssi_code == SI_KERNEL; /* what a terminal sends goes to a whole group */

	switch (sig) {
	case SIGWINCH:
		if (w->has_terminal)
			terminal_size(&w->terminal);
		else
			to_command(w, sig, true);
		return;
	case SIGTSTP: /* Ctrl-Z without a terminal of its own: the command stops, and so do we */
		to_command(w, SIGSTOP, true);
		kill(getpid(), SIGSTOP);
		return;
	case SIGCONT:
		to_command(w, SIGCONT, true);
		if (w->has_terminal)
			terminal_foreground(&w->terminal);
		return;
	case SIGTERM:
		terminate(w);
		break;
	case SIGHUP: /* not under nohup, and not as a word between daemons */
		if (from_terminal && !ignored(SIGHUP))
			terminate(w);
		break;
	default:
		break;
	}
	to_command(w, sig, from_terminal);
}

static void end_command(struct watch_state *w)
{
	to_command(w, SIGTERM, true);
	to_command(w, SIGCONT, true);
	w->kill_ms = now_ms() + GRACE_MS;
}

static void gateway_lost(struct watch_state *w)
{
	gateway_close(w->m->gateway);
	netns_refuse(w->m->sockets); /* refused at once, and the ports stay ours */
	w->lost = true;
	if (w->m->plan->stop_on_loss) {
		say_error("the gateway is gone: the sandbox is stopped (on_gateway_loss: stop)");
		w->stopped_for_loss = true;
		end_command(w);
		return;
	}
	say_note("the gateway is gone: the sandbox has no network until one is back");
	w->reconnect_ms = now_ms() + RECONNECT_MS;
}

static void gateway_returned(struct watch_state *w)
{
	struct err err = ERR_INIT;
	bool again;

	w->reconnect_ms = now_ms() + RECONNECT_MS;
	if (w->m->connector->fd >= 0)
		w->m->gateway->fd = connector_ask(w->m->connector);
	else
		gateway_reconnect(w->m->gateway, &err);
	if (w->m->gateway->fd < 0)
		return;
	if (netns_revive(w->m->sockets) < 0) {
		bool taken = errno == EADDRINUSE;

		gateway_close(w->m->gateway);
		if (taken) {
			say_error("a program in the sandbox listens on the gateway's port: the sandbox is stopped");
			w->stopped_for_loss = true;
			w->reconnect_ms = 0;
			w->kill_ms = now_ms();
		}
		return;
	}
	if (gateway_register(w->m->gateway, w->m->registered, w->m->sandbox, NULL, &again, &err) < 0) {
		netns_refuse(w->m->sockets);
		gateway_close(w->m->gateway);
		return;
	}
	w->lost = false;
	w->reconnect_ms = 0;
	reloader_sandbox(w->m->reloader, *w->m->sandbox);
	say_note("the gateway is back");
}

static void on_control(struct watch_state *w)
{
	bool stop = false;

	if (!gateway_event(w->m->gateway, w->m->registered, &stop)) {
		gateway_lost(w);
	} else if (stop && !w->stopped_for_misuse) {
		say_error("a placeholder was misused: the sandbox is stopped (on_misuse: stop_sandbox)");
		w->stopped_for_misuse = true;
		w->kill_ms = now_ms();
	}
}

static void on_link(struct watch_state *w)
{
	struct note n;
	int fds[LINK_FDS_MAX];
	unsigned fd_n;

	if (link_recv(w->m->link_fd, &n, fds, &fd_n) != 1) {
		w->ended = true; /* pid 1 is dead or dying: its descriptor says when */
		return;
	}
	if (n.type == NOTE_EXITED) {
		w->exited = true;
		w->wait_status = n.a;
	}
	for (unsigned i = 0; i < fd_n; i++)
		close(fds[i]);
}

static int wait_ms(const struct watch_state *w)
{
	uint64_t now = now_ms(), at = UINT64_MAX;

	if (w->deadline_ms && w->deadline_ms < at)
		at = w->deadline_ms;
	if (w->kill_ms && w->kill_ms < at)
		at = w->kill_ms;
	if (w->reconnect_ms && w->reconnect_ms < at)
		at = w->reconnect_ms;
	if (at == UINT64_MAX)
		return -1;
	return at <= now ? 0 : at - now > 1000000 ? 1000000 : (int)(at - now);
}

static void on_time(struct watch_state *w)
{
	uint64_t now = now_ms();

	if (w->deadline_ms && now >= w->deadline_ms) {
		w->deadline_ms = 0;
		w->timed_out = true;
		end_command(w);
	}
	if (w->kill_ms && now >= w->kill_ms) {
		w->kill_ms = 0;
		syscall(SYS_pidfd_send_signal, w->m->pidfd, SIGKILL, NULL, 0);
	}
	if (w->reconnect_ms && now >= w->reconnect_ms)
		gateway_returned(w);
}

static void conclude(const struct watch_state *w, struct monitor_end *end)
{
	if (w->timed_out)
		*end = (struct monitor_end){ EXIT_TIMEOUT, "timeout" };
	else if (w->stopped_for_misuse)
		*end = (struct monitor_end){ EXIT_OURS, "placeholder_misuse" };
	else if (w->stopped_for_loss)
		*end = (struct monitor_end){ EXIT_OURS, "gateway_lost" };
	else if (w->exited && WIFEXITED(w->wait_status))
		*end = (struct monitor_end){ WEXITSTATUS(w->wait_status), "exit" };
	else if (w->exited)
		*end = (struct monitor_end){ 128 + WTERMSIG(w->wait_status), "signal" };
	else
		*end = (struct monitor_end){ 128 + SIGKILL, w->terminated ? "terminated" : "killed" };
}

void monitor_run(struct monitor *m, struct monitor_end *end)
{
	struct watch_state w = { .m = m };
	uint64_t wall = m->plan->wall_ms;
	sigset_t set;
	siginfo_t si;

	passed_set(&set);
	w.signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (wall)
		w.deadline_ms = now_ms() + wall;
	w.has_terminal = m->terminal >= 0;
	if (w.has_terminal)
		terminal_start(&w.terminal, m->terminal, m->terminal_slave);
	for (;;) {
		struct pollfd fds[6] = { { .fd = m->pidfd, .events = POLLIN }, { .fd = w.signals, .events = POLLIN }, { .fd = w.ended ? -1 : m->link_fd, .events = POLLIN },
			{ .fd = m->gateway->fd, .events = POLLIN } };
		struct signalfd_siginfo info;

		fds[4].fd = fds[5].fd = -1;
		if (w.has_terminal)
			terminal_poll(&w.terminal, fds + 4);
		if (poll(fds, 6, wait_ms(&w)) < 0)
			continue;
		if (fds[2].revents)
			on_link(&w);
		if (fds[1].revents)
			while (read(w.signals, &info, sizeof(info)) == (ssize_t)sizeof(info))
				on_signal(&w, &info);
		if (fds[3].fd >= 0 && fds[3].revents && !w.lost)
			on_control(&w);
		if (w.has_terminal)
			terminal_turn(&w.terminal, fds + 4);
		on_time(&w);
		if (fds[0].revents) {
			while (!w.ended)
				on_link(&w); /* what it said last */
			break;
		}
	}
	while (waitid(P_PIDFD, (id_t)m->pidfd, &si, WEXITED) != 0 && errno == EINTR)
		;
	if (w.has_terminal)
		terminal_end(&w.terminal);
	close(w.signals);
	conclude(&w, end);
}
