/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command `serve`, lifecycle records, and the orderly end: no new callers; every sandbox is revoked and its worker
 * delivers its last records; then the roles that give end, and audit, which has been told everything by then, is last.
 * On an end that is not orderly the kernel ends the roles with us, and audit closes what is open when its link does.
 */
#include "supervisor.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../common/base/must.h"
#include "../../common/record.h"
#include "../../common/sys/clock.h"
#include "../../common/sys/confine.h"
#include "../../common/sys/log.h"

#define DNS_LOOK_MS 2000 /* how often the name servers of the system are looked at */
#define IDLE_END_MS 2000
#define IDLE_FIRST_MS 20000 /* started for a run that has not registered yet */
#define ENDING_STEP_MS 10
#define WORKERS_END_MS 1500
#define SECRETS_END_MS 3000
#define AUDIT_END_MS 5000
#define EVENTS_MAX 256

/* --- lifecycle records --------------------------------------------------------------------------------------------- */

struct pending {
	struct pending *next;
	struct buf fields;
};

void supervisor_events_flush(struct supervisor *s)
{
	struct proc *audit = proc_shared(s, ROLE_AUDIT);

	while (s->events != NULL) {
		struct pending *e = s->events;

		if (!proc_say(audit, MSG_LIFECYCLE, 0, buf_data(&e->fields), buf_len(&e->fields), NULL, 0, NULL, 0))
			return;
		s->events = e->next;
		if (s->events == NULL)
			s->events_tail = &s->events;
		s->event_n--;
		buf_fini(&e->fields);
		free(e);
	}
}

static void add_event(struct supervisor *s, struct str kind, struct str sandbox, const struct generation *g, const char *message)
{
	struct pending *e;
	char hex[2 * GENERATION_DIGEST_LEN + 1];

	if (s->event_n >= EVENTS_MAX) {
		static struct log_limit limit;

		log_limited(&limit, "error: audit is down and a lifecycle record is lost: %s", message);
		return;
	}
	e = must_calloc(1, sizeof(*e));
	record_s(&e->fields, REC_KIND, kind);
	record_s(&e->fields, REC_SANDBOX, sandbox);
	record_s(&e->fields, REC_MESSAGE, str_of(message));
	if (g != NULL) {
		for (unsigned i = 0; i < GENERATION_DIGEST_LEN; i++)
			snprintf(hex + 2 * i, 3, "%02x", g->digest[i]);
		record_s(&e->fields, REC_POLICY_DIGEST, str_of(hex));
		record_u(&e->fields, REC_POLICY_GENERATION, g->number);
	}
	record_u(&e->fields, REC_TIME_MS, clock_wall_ms());
	*s->events_tail = e;
	s->events_tail = &e->next;
	s->event_n++;
	supervisor_events_flush(s);
}

void supervisor_event(struct supervisor *s, struct str sandbox, const char *message) { add_event(s, STR("lifecycle"), sandbox, NULL, message); }

void supervisor_admin(struct supervisor *s, struct str sandbox, const struct generation *g, const char *message) { add_event(s, STR("admin"), sandbox, g, message); }

/* --- the end ------------------------------------------------------------------------------------------------------- */

static void on_ending(struct timer *t)
{
	struct supervisor *s = (struct supervisor *)((char *)t - offsetof(struct supervisor, ending));
	struct proc *audit = proc_shared(s, ROLE_AUDIT), *secrets = proc_shared(s, ROLE_SECRETS);
	uint64_t waited = loop_now_ms(s->loop) - s->ending_ms;

	if (!s->audit_told) {
		if (!s->secrets_told && s->workers > 0 && waited < WORKERS_END_MS)
			goto later;
		/* secrets gives back what it had from Vault; it needs the dialer for that */
		if (!s->secrets_told) {
			s->secrets_told = true;
			s->ending_ms = loop_now_ms(s->loop);
			waited = 0;
			proc_say(secrets, MSG_SHUTDOWN, 0, NULL, 0, NULL, 0, NULL, 0);
		}
		if (secrets->child.pid != 0 && waited < SECRETS_END_MS)
			goto later;
		for (size_t i = 0; i < SHARED_ROLES; i++)
			if (&s->shared[i] != audit)
				proc_stop(&s->shared[i], NULL);
		supervisor_event(s, STR_NONE, "gateway stopped");
		proc_say(audit, MSG_SHUTDOWN, 0, NULL, 0, NULL, 0, NULL, 0);
		s->audit_told = true;
		s->ending_ms = loop_now_ms(s->loop);
		goto later;
	}
	if (audit->child.pid == 0 || waited >= AUDIT_END_MS) {
		loop_stop(s->loop);
		return;
	}
later:
	timer_start(s->loop, &s->ending, ENDING_STEP_MS, on_ending);
}

void supervisor_shutdown(struct supervisor *s)
{
	struct sandbox *b, *next;

	if (s->shutting_down)
		return;
	s->shutting_down = true;
	timer_stop(&s->idle_end);
	control_close(s->control);
	for (b = s->sandboxes; b != NULL; b = next) {
		next = b->next;
		sandbox_refuse(b, "gateway stopped");
	}
	if (s->spare != NULL)
		proc_stop(s->spare, NULL);
	checkers_stop(s);
	s->ending_ms = loop_now_ms(s->loop);
	timer_start(s->loop, &s->ending, ENDING_STEP_MS, on_ending);
}

static void on_idle_end(struct timer *t)
{
	struct supervisor *s = (struct supervisor *)((char *)t - offsetof(struct supervisor, idle_end));

	if (s->sandboxes == NULL && control_clients(s->control) == 0)
		supervisor_shutdown(s);
	else if (s->sandboxes == NULL)
		timer_start(s->loop, &s->idle_end, IDLE_END_MS, on_idle_end);
}

void supervisor_idle(struct supervisor *s)
{
	if (s->sandboxes == NULL && s->start.auto_end && !s->shutting_down)
		timer_start(s->loop, &s->idle_end, IDLE_END_MS, on_idle_end);
}

/* The system's name servers change with its network. Looked at often, read whole: it is a small file, and is written in many ways. */
static void on_dns(struct timer *t)
{
	struct supervisor *s = (struct supervisor *)((char *)t - offsetof(struct supervisor, dns));

	if (startup_dns_changed(&s->start)) {
		log_info("the system's name servers have changed");
		proc_say(proc_shared(s, ROLE_DIALER), MSG_SERVERS, 0, NULL, 0, s->start.config.dns, strlen(s->start.config.dns), NULL, 0);
	}
	timer_start(s->loop, &s->dns, DNS_LOOK_MS, on_dns);
}

/* --- the command --------------------------------------------------------------------------------------------------- */

static struct supervisor the_supervisor;
static struct watch signal_watch;

static void on_signal(struct watch *w, uint32_t events)
{
	struct signalfd_siginfo si;

	(void)events;
	while (read(w->fd, &si, sizeof(si)) == (ssize_t)sizeof(si)) {
		if (si.ssi_signo != SIGHUP) {
			supervisor_shutdown(&the_supervisor);
		} else if (!the_supervisor.shutting_down) {
			log_info("SIGHUP: the policy folders are looked at");
			folders_look(&the_supervisor);
		}
	}
}

static void watch_signals(struct supervisor *s)
{
	static const int known[] = { SIGTERM, SIGINT, SIGHUP };
	sigset_t set;
	int fd;

	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		sigaddset(&set, known[i]);
	sigprocmask(SIG_BLOCK, &set, NULL);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	MUST(fd >= 0);
	watch_start(s->loop, &signal_watch, fd, EPOLLIN, on_signal);
}

static void start_roles(struct supervisor *s)
{
	static const enum role order[SHARED_ROLES] = { ROLE_AUDIT, ROLE_SECRETS, ROLE_CA, ROLE_DIALER };

	for (size_t i = 0; i < SHARED_ROLES; i++) {
		s->shared[i].role = order[i];
		s->shared[i].sup = s;
	}
	for (size_t i = 0; i < SHARED_ROLES; i++)
		proc_start(&s->shared[i]);
	supervisor_event(s, STR_NONE, "gateway started");
	proc_spare(s);
	checkers_spare(s);
}

static int serve(struct supervisor *s, const char *config, const char *state, struct err *err)
{
	struct rlimit rl;

	s->start.as_root = geteuid() == 0;
	s->events_tail = &s->events;
	/* what the operator's umask or groups are is no matter: nothing here is for others */
	umask(077);
	if (confine_drop_groups(err) < 0 || config_load(&s->start.config, config, s->start.as_root, err) < 0 ||
		startup_prepare(&s->start, state, proc_uid(s, ROLE_AUDIT, 0), err) < 0 || programs_prepare(&s->start, err) < 0)
		return -1;
	if (getrlimit(RLIMIT_NOFILE, &rl) == 0) {
		rl.rlim_cur = rl.rlim_max;
		setrlimit(RLIMIT_NOFILE, &rl);
	}
	callers_find_groups(&s->start.config);
	s->loop = loop_new();
	watch_signals(s);
	if (folders_open(s, err) < 0)
		return -1;
	s->control = control_new(s, err);
	if (s->control == NULL)
		return -1;
	if (confine_supervisor(s->start.as_root, err) < 0) {
		control_close(s->control);
		return -1;
	}
	programs_watch(s);
	start_roles(s);
	if (s->start.system_dns)
		timer_start(s->loop, &s->dns, DNS_LOOK_MS, on_dns);
	if (s->start.auto_end)
		timer_start(s->loop, &s->idle_end, IDLE_FIRST_MS, on_idle_end);
	loop_run(s->loop);
	return 0;
}

static int usage(FILE *f, int status)
{
	fprintf(f, "usage: sallyport serve [--config FILE] [--state DIR] [--auto]\n");
	return status;
}

int supervisor_main(int argc, char **argv)
{
	static const struct option options[] = { { "config", 1, NULL, 'c' }, { "state", 1, NULL, 's' }, { "auto", 0, NULL, 'a' }, { "help", 0, NULL, 'h' }, { NULL, 0, NULL, 0 } };
	const char *config = NULL, *state = NULL;
	struct err err = ERR_INIT;
	int o;

	log_title("supervisor");
	while ((o = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		switch (o) {
		case 'c':
			config = optarg;
			break;
		case 's':
			state = optarg;
			break;
		case 'a':
			the_supervisor.start.auto_end = true;
			break;
		case 'h':
			return usage(stdout, 0);
		default:
			return usage(stderr, 2);
		}
	}
	if (optind != argc)
		return usage(stderr, 2);
	if (serve(&the_supervisor, config, state, &err) < 0) {
		log_error("%s", err.text);
		return 125;
	}
	return 0;
}
