/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes. Everything that a role must know is kept in the supervisor and told again when the role is started anew:
 * START, the live sandboxes with their tables (and for `secrets` the sources before them), then a new link to every
 * worker. Messages wait in the link until the role has confined itself.
 *
 *   DOWN --proc_start--> STARTING --READY--> READY --end--> DOWN (restart after a delay, 50 ms doubling to 5 s)
 *                            |                 |
 *                            +--proc_stop------+--> STOPPING --end--> DOWN for good; a worker's proc is freed
 *
 * A role is told of sandboxes no faster than it reads (TELL_AHEAD), so that a queue never overflows however many there are.
 * Who speaks is known by the link: a worker is heard about its own sandbox only.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../common/base/must.h"
#include "../../common/sys/log.h"
#include "supervisor.h"

#define BACKOFF_FIRST_MS 50
#define BACKOFF_MAX_MS 5000
#define BACKOFF_FORGET_MS 10000 /* a role that lived this long starts without much delay next time */
#define READY_MS 20000          /* a role that does not confine itself in this time is stuck */
#define REVOKE_MS 900           /* a revoked sandbox's worker is gone within a second */
#define TELL_AHEAD 64           /* messages queued for a role before it is waited for */
#define TELL_MS 2

static const uint32_t role_uid[] = {
#define ROLE(id, title, program, uid, ...) [ROLE_##id] = uid,
#include "../../common/role.def"
#undef ROLE
};

uid_t proc_uid(const struct supervisor *s, enum role r, uint32_t slot) { return s->start.config.uid_base + role_uid[r] + slot; }

struct proc *proc_shared(struct supervisor *s, enum role r)
{
	for (size_t i = 0; i < SHARED_ROLES; i++)
		if (s->shared[i].role == r)
			return &s->shared[i];
	MUST(!"a shared role");
	return NULL;
}

/* --- telling ------------------------------------------------------------------------------------------------------- */

bool proc_say(struct proc *p, enum msg_type type, uint32_t generation, const void *d, size_t n, const void *d2, size_t n2, const int *fds, unsigned fd_n)
{
	if (p->ipc == NULL)
		return false;
	if (ipc_send2(p->ipc, type, generation, 0, d, n, d2, n2, fds, fd_n))
		return true;
	if (p->state != PROC_STOPPING && p->child.pid != 0 && !ipc_deaf(p->ipc)) {
		log_error("the %s does not take its messages: it is started anew", role_name(p->role));
		kill(p->child.pid, SIGKILL);
	}
	return false;
}

/* Where Vault is, to the dialer; how to log in, to secrets. sandbox 0: the gateway's own. */
static void say_vault(struct proc *p, const struct msg_sandbox_ref *ref, struct str urls, struct str text, int ca_fd)
{
	if (text.n == 0)
		return;
	if (p->role == ROLE_DIALER)
		proc_say(p, MSG_SOURCES, ref->generation, ref, sizeof(*ref), urls.p, urls.n, NULL, 0);
	else
		proc_say(p, MSG_VAULT, ref->generation, ref, sizeof(*ref), text.p, text.n, &ca_fd, ca_fd >= 0 ? 1 : 0);
}

static void send_start(struct proc *p)
{
	struct supervisor *s = p->sup;
	struct msg_start m = { .uid_base = s->start.config.uid_base };
	const struct ca_files *ca;
	int fds[IPC_FDS_MAX];
	unsigned n = 0;
	char text[sizeof(s->start.config.proxy) + DNS_TEXT_MAX] = "";
	int credentials = -1;

	switch (p->role) {
	case ROLE_CA:
		ca = cas_first(&s->start);
		m.flags = SANDBOX_CA_FLAGS(ca->number);
		fds[n++] = ca->key_fd;
		fds[n++] = ca->cert_fd;
		break;
	case ROLE_AUDIT:
		fds[n++] = s->start.audit_dir_fd;
		fds[n++] = s->start.chain_key_fd;
		lseek(s->start.chain_key_fd, 0, SEEK_SET);
		break;
	case ROLE_SECRETS:
		fds[n++] = s->start.placeholder_key_fd;
		fds[n++] = s->start.trust_fd;
		if (s->start.accessors_fd >= 0)
			fds[n++] = s->start.accessors_fd;
		break;
	case ROLE_WORKER:
		fds[n++] = s->start.trust_fd;
		break;
	case ROLE_DIALER:
		snprintf(text, sizeof(text), "%s%s", s->start.config.proxy, s->start.config.dns);
		m.flags |= s->start.config.no_ipv6 ? START_NO_IPV6 : 0;
		if (s->start.config.proxy_credentials[0] != 0) {
			struct err err = ERR_INIT;

			credentials = startup_open_credentials(&s->start, &err);
			if (credentials < 0) {
				log_error("%s", err.text); /* by a proxy that asks for them; never around it */
			} else {
				m.flags |= START_CREDENTIALS;
				fds[n++] = credentials;
			}
		}
		if (s->start.config.proxy_tls) {
			m.flags |= s->start.proxy_ca_fd >= 0 ? START_PROXY_CA : START_PROXY_TRUST;
			fds[n++] = s->start.proxy_ca_fd >= 0 ? s->start.proxy_ca_fd : s->start.trust_fd;
		}
		break;
	default:
		break;
	}
	proc_say(p, MSG_START, 0, &m, sizeof(m), text, strlen(text), fds, n);
	if (credentials >= 0)
		close(credentials);
	if (p->role == ROLE_CA)
		cas_tell_rest(p);
	if (p->role == ROLE_SECRETS)
		secret_revocations(s, p);
	if (p->role == ROLE_SECRETS || p->role == ROLE_DIALER)
		say_vault(p, &(struct msg_sandbox_ref){ 0, 0 }, str_of(s->start.config.vault.urls), str_mk(s->start.config.vault.text, s->start.config.vault.n), s->start.vault_ca_fd);
}

static void say_sandbox(struct proc *p, struct sandbox *b, struct generation *g)
{
	struct msg_sandbox m = { .sandbox = b->id, .generation = g->number, .flags = b->flags | g->flags };
	struct msg_sandbox_ref ref = { b->id, g->number };
	int fds[2 + TABLE_BOUNDARIES_MAX + MSG_LISTENERS_MAX] = { g->table_fd };
	unsigned n = 1;

	m.boundaries = (uint8_t)generation_boundaries(g, fds + n);
	n += m.boundaries;
	memcpy(m.name, b->name, sizeof(m.name));
	memcpy(m.table_digest, g->digest, sizeof(m.table_digest));
	if (p->role == ROLE_WORKER && (b->told & 1u << ROLE_WORKER) == 0) {
		m.meter = 1;
		fds[n++] = b->meter_fd;
		for (unsigned i = 0; i < b->listener_n; i++) {
			m.kinds[m.listeners++] = b->kinds[i];
			fds[n++] = b->listeners[i];
		}
		sandbox_tell_placeholders(b, p);
	}
	if (p->role == ROLE_SECRETS) { /* the sources first: a release never meets half a sandbox */
		if (g->env_fd >= 0)
			proc_say(p, MSG_SANDBOX_ENV, g->number, &ref, sizeof(ref), NULL, 0, &g->env_fd, 1);
		for (unsigned i = 0; i < g->file_n; i++)
			look_first(p, &ref, &g->files[i]);
	}
	if (p->role == ROLE_SECRETS || p->role == ROLE_DIALER)
		say_vault(p, &ref, str_of(g->vault_url), buf_str(&g->vault), g->vault_ca_fd);
	g->told |= 1u << p->role;
	proc_say(p, MSG_SANDBOX, g->number, &m, sizeof(m), NULL, 0, fds, n);
	b->told |= 1u << p->role;
}

static void link_pair(struct proc *a, struct proc *b, uint32_t sandbox)
{
	struct msg_peer to_a = { (uint32_t)b->role, sandbox }, to_b = { (uint32_t)a->role, sandbox };
	int sv[2];

	if (a->ipc == NULL || b->ipc == NULL)
		return;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sv) != 0) {
		log_error("cannot make a link between %s and %s: %s", role_name(a->role), role_name(b->role), strerror(errno));
		return;
	}
	ipc_bar_fds(sv[0], a->role, b->role);
	ipc_bar_fds(sv[1], b->role, a->role);
	proc_say(a, MSG_PEER, 0, &to_a, sizeof(to_a), NULL, 0, &sv[0], 1);
	proc_say(b, MSG_PEER, 0, &to_b, sizeof(to_b), NULL, 0, &sv[1], 1);
	close(sv[0]);
	close(sv[1]);
}

/* A link between a sandbox's worker and a shared role, once both know the sandbox. */
static void wire(struct sandbox *b, struct proc *shared)
{
	if (b->worker != NULL && (b->told & 1u << ROLE_WORKER) && (b->told & 1u << shared->role))
		link_pair(b->worker, shared, b->id);
}

static void on_tell(struct timer *t);

/* The generations that p does not know yet, the oldest first. */
static void tell_generations(struct proc *p, struct sandbox *b)
{
	for (struct generation *g = b->generations; g != NULL; g = g->newer)
		if (g->state >= GENERATION_TELLING && (g->told & 1u << p->role) == 0)
			say_sandbox(p, b, g);
}

static bool knows_all(const struct proc *p, const struct sandbox *b)
{
	const struct generation *g = b->generations;

	while (g != NULL && (g->state < GENERATION_TELLING || (g->told & 1u << p->role) != 0))
		g = g->newer;
	return g == NULL;
}

/* The sandboxes, or generations of their policies, that p does not know yet. */
static void tell_more(struct proc *p)
{
	struct supervisor *s = p->sup;
	bool known;

	for (struct sandbox *b = s->sandboxes; b != NULL; b = b->next) {
		if (p->ipc == NULL)
			return;
		if (!b->announced || b->gone || knows_all(p, b))
			continue;
		if (ipc_queued(p->ipc) > TELL_AHEAD) {
			timer_start(s->loop, &p->tell, TELL_MS, on_tell);
			return;
		}
		known = b->told & 1u << p->role;
		tell_generations(p, b);
		if (!known)
			wire(b, p);
	}
	if (p->synced)
		return;
	p->synced = true;
	if (p->role == ROLE_AUDIT)
		proc_say(p, MSG_SYNC, 0, NULL, 0, NULL, 0, NULL, 0);
}

static void on_tell(struct timer *t) { tell_more((struct proc *)((char *)t - offsetof(struct proc, tell))); }

void proc_tell_sandbox(struct supervisor *s, struct sandbox *b)
{
	b->announced = true;
	for (size_t i = 0; i < SHARED_ROLES; i++)
		if (s->shared[i].ipc != NULL)
			tell_more(&s->shared[i]);
}

void proc_tell_gone(struct supervisor *s, struct sandbox *b)
{
	struct msg_sandbox_ref ref = { b->id, 0 };

	/* those who give first, audit last */
	for (size_t i = SHARED_ROLES; i-- > 0;)
		if (b->told & 1u << s->shared[i].role)
			proc_say(&s->shared[i], MSG_SANDBOX_GONE, 0, &ref, sizeof(ref), NULL, 0, NULL, 0);
}

void proc_tell_retired(struct generation *g)
{
	struct supervisor *s = g->sandbox->sup;
	struct msg_sandbox_ref ref = { g->sandbox->id, g->number };

	for (size_t i = 0; i < SHARED_ROLES; i++)
		if (g->told & 1u << s->shared[i].role)
			proc_say(&s->shared[i], MSG_RETIRE, g->number, &ref, sizeof(ref), NULL, 0, NULL, 0);
}

void proc_switch(struct sandbox *b, struct generation *g)
{
	if (b->worker != NULL && b->worker->ipc != NULL)
		say_sandbox(b->worker, b, g);
}

void proc_serve(struct proc *p, struct sandbox *b)
{
	p->sandbox = b;
	b->worker = p;
	b->told &= ~(1u << ROLE_WORKER);
	if (p->ipc == NULL)
		return; /* told when it starts */
	say_sandbox(p, b, generation_for_worker(b));
	for (size_t i = 0; i < SHARED_ROLES; i++)
		wire(b, &p->sup->shared[i]);
}

/* --- what roles say ------------------------------------------------------------------------------------------------ */

/* A role's words go to a terminal: printable ASCII, bounded. */
static void printable(char *out, size_t cap, const uint8_t *p, size_t n)
{
	size_t k = 0;

	for (size_t i = 0; i < n && k + 1 < cap; i++)
		out[k++] = p[i] >= 0x20 && p[i] < 0x7f ? (char)p[i] : '?';
	out[k] = 0;
}

static void about_sandbox(struct proc *p, const struct ipc_msg *m)
{
	struct msg_sandbox_ref r;
	struct generation *g;
	struct sandbox *b;
	char words[520], text[600];

	memcpy(&r, m->data, sizeof(r));
	b = sandbox_find(p->sup, r.sandbox);
	g = b != NULL ? generation_find(b, r.generation) : NULL;
	if (g == NULL || b->gone || !b->announced)
		return; /* ended meanwhile */
	if (p->role == ROLE_WORKER && p->sandbox != b) {
		log_error("a worker spoke of another's sandbox: it is ended");
		kill(p->child.pid, SIGKILL);
		return;
	}
	if (m->type == MSG_SANDBOX_OK) {
		generation_ack(g, p->role);
		return;
	}
	if (m->type == MSG_RETIRED) {
		if (g->state == GENERATION_OLD)
			generation_retire(g);
		return;
	}
	if (m->type == MSG_PLACEHOLDERS) {
		sandbox_placeholders(b, str_mk(m->data + sizeof(r), m->len - sizeof(r)));
		return;
	}
	printable(words, sizeof(words), m->data + sizeof(r), m->len - sizeof(r));
	snprintf(text, sizeof(text), "the %s refused the policy: %s", role_name(p->role), words);
	generation_refused(g, text);
}

static void on_role(struct ipc *c, const struct ipc_msg *m)
{
	struct proc *p = ipc_arg(c);
	struct supervisor *s = p->sup;
	char text[64];

	if (m == NULL) {
		/* broke a rule, or died: the pidfd tells when it is gone */
		p->ipc = NULL;
		ipc_free(c);
		if (p->state != PROC_STOPPING && !s->shutting_down && p->child.pid != 0)
			kill(p->child.pid, SIGKILL);
		return;
	}
	if (p->state == PROC_STOPPING)
		return;
	switch (m->type) {
	case MSG_READY:
		if (p->state != PROC_STARTING)
			break;
		p->state = PROC_READY;
		timer_stop(&p->timer);
		if (p->restarted) {
			p->restarted = false;
			snprintf(text, sizeof(text), "%s started again", role_name(p->role));
			supervisor_event(s, p->sandbox != NULL ? str_of(p->sandbox->name) : STR_NONE, text);
		}
		break;
	case MSG_COUNTS:
		if (p->sandbox == NULL || p->sandbox->gone)
			break;
		memcpy(&p->sandbox->counts, m->data, sizeof(p->sandbox->counts));
		if (p->sandbox->finishing)
			control_finished(p->sandbox);
		break;
	case MSG_MISUSE: /* the worker has looked: the policy wants it so */
		if (p->sandbox == NULL || p->sandbox->gone)
			break;
		control_stop(p->sandbox, "placeholder_misuse");
		sandbox_revoke(p->sandbox, "sandbox stopped: a placeholder was misused (on_misuse: stop_sandbox)");
		break;
	case MSG_SANDBOX_OK:
	case MSG_SANDBOX_BAD:
	case MSG_RETIRED:
	case MSG_PLACEHOLDERS:
		about_sandbox(p, m);
		break;
	case MSG_FILE_LOOK:
		look_for_file(s, p, m);
		break;
	case MSG_EXECUTE:
		program_run(s, p, m);
		break;
	case MSG_SECRET_TOLD:
		secret_told(s, m);
		break;
	default:
		break;
	}
}

/* --- life and death ------------------------------------------------------------------------------------------------ */

static void free_proc(void *arg) { free(arg); }

/* A worker's own; the loop may still be about to call it in this turn. */
static void drop_worker(struct proc *p)
{
	struct supervisor *s = p->sup;

	timer_stop(&p->timer);
	timer_stop(&p->tell);
	s->slots[p->slot / 8] &= (uint8_t)~(1u << p->slot % 8);
	s->workers--;
	loop_defer(s->loop, free_proc, p);
}

static void on_restart(struct timer *t) { proc_start((struct proc *)((char *)t - offsetof(struct proc, timer))); }

static void on_too_late(struct timer *t)
{
	struct proc *p = (struct proc *)((char *)t - offsetof(struct proc, timer));

	if (p->state == PROC_STARTING)
		log_error("the %s is not ready after %d s", role_name(p->role), READY_MS / 1000);
	if (p->child.pid != 0)
		kill(p->child.pid, SIGKILL);
}

static void restart_later(struct proc *p)
{
	p->state = PROC_DOWN;
	p->restarted = true;
	p->backoff_ms = p->backoff_ms == 0 ? BACKOFF_FIRST_MS : p->backoff_ms * 2 > BACKOFF_MAX_MS ? BACKOFF_MAX_MS : p->backoff_ms * 2;
	timer_start(p->sup->loop, &p->timer, p->backoff_ms, on_restart);
}

static void on_end(struct watch *w, uint32_t events)
{
	struct proc *p = (struct proc *)((char *)w - offsetof(struct proc, pid_watch));
	struct supervisor *s = p->sup;
	struct sandbox *b;
	bool for_good;
	char text[128];
	int status = 0;

	(void)events;
	/* what it had said before it died counts; it may be that its sandbox ends by it */
	if (p->ipc != NULL && p->state != PROC_STOPPING)
		ipc_pump(p->ipc);
	if (waitpid(p->child.pid, &status, WNOHANG) == 0)
		return;
	for_good = p->state == PROC_STOPPING || s->shutting_down;
	b = p->sandbox;
	watch_stop(&p->pid_watch);
	close(p->child.pidfd);
	ipc_free(p->ipc);
	p->ipc = NULL;
	p->child.pid = 0;
	timer_stop(&p->timer);
	timer_stop(&p->tell);
	if (for_good) {
		p->state = PROC_DOWN;
		if (p->role == ROLE_WORKER) {
			if (b != NULL)
				b->worker = NULL;
			if (s->spare == p)
				s->spare = NULL;
			drop_worker(p);
		}
		return;
	}
	if (WIFSIGNALED(status))
		snprintf(text, sizeof(text), "%s ended by signal %d%s", role_name(p->role), WTERMSIG(status), WTERMSIG(status) == SIGSYS ? " (a system call outside its row)" : "");
	else
		snprintf(text, sizeof(text), "%s ended with status %d", role_name(p->role), WEXITSTATUS(status));
	log_error("%s; it is started again", text);
	supervisor_event(s, b != NULL ? str_of(b->name) : STR_NONE, text);
	if (loop_now_ms(s->loop) - p->started_ms > BACKOFF_FORGET_MS)
		p->backoff_ms = 0;
	restart_later(p);
	if (p->role != ROLE_WORKER) {
		for (b = s->sandboxes; b != NULL; b = b->next) {
			b->told &= ~(1u << p->role);
			for (struct generation *g = b->generations; g != NULL; g = g->newer) {
				g->told &= ~(1u << p->role);
				g->acks &= ~(1u << p->role);
			}
			generations_go_on(b);
		}
		return;
	}
	if (b == NULL)
		return;
	b->counts_before.requests += b->counts.requests;
	b->counts_before.refused += b->counts.refused;
	b->counts = (struct msg_counts){ 0 };
	b->told &= ~(1u << ROLE_WORKER);
	generations_worker_lost(b);
	if (s->spare != NULL && s->spare->ipc != NULL) {
		/* the warm spare takes over at once; the dead one becomes the next spare, after its delay */
		struct proc *spare = s->spare;

		spare->backoff_ms = p->backoff_ms;
		p->sandbox = NULL;
		s->spare = p;
		proc_serve(spare, b);
	}
}

void proc_start(struct proc *p)
{
	static struct log_limit limit;
	struct supervisor *s = p->sup;
	struct err err = ERR_INIT;

	if (s->shutting_down || p->child.pid != 0)
		return;
	p->started_ms = loop_now_ms(s->loop);
	if (child_spawn(p->role, s->start.program_dir_fd, proc_uid(s, p->role, p->slot), NULL, 0, &p->child, &err) < 0) {
		log_limited(&limit, "error: %s", err.text);
		p->child.pid = 0;
		restart_later(p);
		return;
	}
	fcntl(p->child.link_fd, F_SETFL, O_NONBLOCK);
	p->state = PROC_STARTING;
	p->synced = false;
	timer_start(s->loop, &p->timer, READY_MS, on_too_late);
	watch_start(s->loop, &p->pid_watch, p->child.pidfd, EPOLLIN, on_end);
	p->ipc = ipc_new(s->loop, p->child.link_fd, ROLE_SUPERVISOR, p->role, on_role, p);
	send_start(p);
	if (p->role == ROLE_WORKER) {
		if (p->sandbox != NULL)
			proc_serve(p, p->sandbox);
		return;
	}
	if (p->role == ROLE_AUDIT || p->role == ROLE_SECRETS)
		link_pair(proc_shared(s, ROLE_SECRETS), proc_shared(s, ROLE_AUDIT), 0);
	if (p->role == ROLE_DIALER || p->role == ROLE_SECRETS)
		link_pair(proc_shared(s, ROLE_SECRETS), proc_shared(s, ROLE_DIALER), 0);
	if (p->role == ROLE_AUDIT)
		supervisor_events_flush(s);
	tell_more(p);
}

struct proc *proc_worker(struct supervisor *s, struct sandbox *b)
{
	struct proc *p;
	uint32_t i;

	for (i = 0; i < SANDBOXES_MAX && (s->slots[i / 8] & 1u << i % 8); i++)
		;
	if (i == SANDBOXES_MAX)
		return NULL;
	s->slots[i / 8] |= (uint8_t)(1u << i % 8);
	s->workers++;
	p = must_calloc(1, sizeof(*p));
	p->role = ROLE_WORKER;
	p->sup = s;
	p->slot = i;
	p->sandbox = b;
	if (b != NULL)
		b->worker = p;
	proc_start(p);
	return p;
}

void proc_spare(struct supervisor *s)
{
	if (s->spare == NULL && !s->shutting_down)
		s->spare = proc_worker(s, NULL);
}

void proc_stop(struct proc *p, const struct msg_sandbox_ref *gone)
{
	struct supervisor *s = p->sup;

	if (p->role == ROLE_WORKER) {
		if (p->sandbox != NULL)
			p->sandbox->worker = NULL;
		if (s->spare == p)
			s->spare = NULL;
		p->sandbox = NULL;
	}
	timer_stop(&p->timer);
	timer_stop(&p->tell);
	if (p->child.pid == 0) {
		p->state = PROC_DOWN;
		if (p->role == ROLE_WORKER)
			drop_worker(p);
		return;
	}
	p->state = PROC_STOPPING;
	if (gone != NULL && proc_say(p, MSG_SANDBOX_GONE, gone->generation, gone, sizeof(*gone), NULL, 0, NULL, 0))
		timer_start(s->loop, &p->timer, REVOKE_MS, on_too_late);
	else
		kill(p->child.pid, SIGKILL);
}
