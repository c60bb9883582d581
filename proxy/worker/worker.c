/* SPDX-License-Identifier: Apache-2.0 */
/* The worker: links to the other roles, the sandbox's listeners, the sweep. See worker.h. */
#include "worker.h"

#include <errno.h>
#include <signal.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../common/base/must.h"
#include "../../common/sys/clock.h"
#include "../../common/sys/role.h"
#include "../../common/sys/log.h"
#include "../exchange/rpc.h"
#include "../exchange/websocket.h"
#include "../roles.h"

#define SWEEP_MS 1000
#define ACCEPT_BATCH 64
#define ENDING_MS 500 /* to deliver the last records */

void worker_request_id(struct worker *w, char out[33])
{
	static const char hex[] = "0123456789abcdef";
	uint32_t n = w->id_next++;

	memcpy(out, w->id_prefix, 16);
	for (unsigned i = 0; i < 8; i++)
		out[16 + i] = hex[n >> (28 - 4 * i) & 15];
	out[24] = 0;
}

static void withdrawn(struct worker *w, const struct ipc_msg *m)
{
	const struct policy_gen *g = policy_of_generation(w, m->generation);

	if (g != NULL)
		creds_withdrawn(w->creds, g->table, ((const struct msg_withdraw *)(const void *)m->data)->secret_index);
}

static void secrets_lost(struct worker *w)
{
	creds_link_lost(w->creds);
	signings_link_lost(w->signings);
}

/* --- links --------------------------------------------------------------------------------------------------------- */

static void on_peer(struct ipc *c, const struct ipc_msg *m)
{
	struct worker *w = ipc_arg(c);
	struct dial_waiter *waiter;
	int taken = 0;

	if (m == NULL) {
		/* the supervisor makes a new link when the role is back; until then what needs it is refused */
		switch (ipc_peer(c)) {
		case ROLE_DIALER:
			w->dialer = NULL;
			upstreams_dialer_lost(w->ups);
			tunnels_dialer_lost(w);
			break;
		case ROLE_CA:
			w->ca = NULL;
			tls_ca_lost(w->tls);
			break;
		case ROLE_SECRETS:
			w->secrets = NULL;
			secrets_lost(w);
			break;
		case ROLE_AUDIT:
			w->audit = NULL;
			reporter_link(w->rep, NULL);
			break;
		default:
			break;
		}
		ipc_free(c);
		return;
	}
	switch (m->type) {
	case MSG_DIALED:
		waiter = handle_get(&w->handles, HANDLE_DIAL, m->id);
		if (waiter != NULL)
			waiter->dialed(waiter, m, &taken);
		if (taken)
			((struct ipc_msg *)(uintptr_t)m)->fds[0] = -1;
		break;
	case MSG_LEAF_KEY:
		if (!tls_set_leaf_key(w->tls, m->data, m->len))
			log_error("the leaf key from the ca could not be read");
		break;
	case MSG_MINTED:
		tls_minted(w->tls, m);
		break;
	case MSG_RELEASED:
		creds_released(w->creds, m);
		break;
	case MSG_SIGNED:
		signings_answered(w->signings, m);
		break;
	case MSG_WITHDRAW:
		withdrawn(w, m);
		break;
	default:
		reporter_message(w->rep, m);
		break;
	}
}

static void take_peer(struct worker *w, struct ipc_msg *m)
{
	const struct msg_peer *p = (const void *)m->data;
	struct ipc **slot;

	if (m->fd_n != 1)
		return;
	switch (p->role) {
	case ROLE_DIALER:
		slot = &w->dialer;
		break;
	case ROLE_CA:
		slot = &w->ca;
		break;
	case ROLE_SECRETS:
		slot = &w->secrets;
		break;
	case ROLE_AUDIT:
		slot = &w->audit;
		break;
	default:
		return;
	}
	if (*slot != NULL) {
		/* the old one is as good as dead */
		struct ipc *old = *slot;

		*slot = NULL;
		if (p->role == ROLE_DIALER) {
			upstreams_dialer_lost(w->ups);
			tunnels_dialer_lost(w);
		} else if (p->role == ROLE_CA)
			tls_ca_lost(w->tls);
		else if (p->role == ROLE_SECRETS)
			secrets_lost(w);
		else
			reporter_link(w->rep, NULL);
		ipc_free(old);
	}
	*slot = ipc_new(w->loop, m->fds[0], ROLE_WORKER, p->role, on_peer, w);
	m->fds[0] = -1;
	if (p->role == ROLE_AUDIT)
		reporter_link(w->rep, *slot);
}

static void bad_sandbox(struct worker *w, const struct msg_sandbox *s, const char *text)
{
	struct msg_sandbox_ref ref = { s->sandbox, s->generation };

	log_error("sandbox %u: %s", s->sandbox, text);
	ipc_send2(w->sup, MSG_SANDBOX_BAD, s->generation, 0, &ref, sizeof(ref), text, strlen(text), NULL, 0);
}

/* There is one worker in a process, and its listeners' watches stand in it. */
static struct worker the_worker;

static void on_udp(struct watch *wt, uint32_t events)
{
	(void)events;
	names_udp(the_worker.names, wt->fd);
}

static void on_listener(struct watch *wt, uint32_t events)
{
	struct worker *w = &the_worker;

	(void)events;
	for (int i = 0; i < ACCEPT_BATCH; i++) {
		int fd;

		if (w->clients.n >= LIMIT_CLIENTS || worker_memory(w) > LIMIT_MEMORY) {
			/* the rest waits in the backlog until some have gone; the sweep looks again */
			w->accept_paused = true;
			for (unsigned k = 0; k < w->listener_n; k++)
				if (w->listener_watch[k].fn == on_listener)
					watch_set(&w->listener_watch[k], 0);
			return;
		}
		fd = accept4(wt->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0)
			return;
		client_accept(w, fd);
	}
}

/* What was counted before goes on counting. */
static bool take_meter(struct worker *w, int fd)
{
	struct stat st;
	void *map;

	if (fstat(fd, &st) != 0 || st.st_size != (off_t)METER_SIZE)
		return false;
	map = mmap(NULL, METER_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return false;
	meter_open(&w->meter, map);
	return true;
}

static void take_sandbox(struct worker *w, struct ipc_msg *m)
{
	const struct msg_sandbox *s = (const void *)m->data;
	struct msg_sandbox_ref ref = { s->sandbox, s->generation };
	const unsigned first = 1u + s->boundaries + (s->meter != 0); /* of the listeners */
	struct err err = ERR_INIT;
	struct table *t;

	if (m->fd_n != first + s->listeners || s->listeners > MSG_LISTENERS_MAX || (w->have_sandbox && w->sandbox != s->sandbox)) {
		bad_sandbox(w, s, "unexpected descriptors, or another sandbox than before");
		return;
	}
	if (w->policy != NULL && s->generation <= w->generation) {
		bad_sandbox(w, s, "a generation that is not newer than the one in force");
		return;
	}
	if (table_open_within(&t, m->fds[0], m->fds + 1, s->boundaries, &err) < 0) {
		bad_sandbox(w, s, err.text);
		return;
	}
	if (s->meter && w->meter.slots == NULL && !take_meter(w, m->fds[first - 1])) {
		table_free(t);
		bad_sandbox(w, s, "the memory of its counters cannot be mapped");
		return;
	}
	w->sandbox = s->sandbox;
	memcpy(w->name, s->name, sizeof(w->name));
	w->name[sizeof(w->name) - 1] = 0;
	policy_in_force(w, t, s);
	for (unsigned i = 0; i < s->listeners && !w->have_sandbox; i++) {
		bool udp = s->kinds[i] == LISTENER_DNS_UDP4 || s->kinds[i] == LISTENER_DNS_UDP6;

		if (s->kinds[i] == LISTENER_DIAG)
			continue;
		w->listeners[w->listener_n] = m->fds[first + i];
		m->fds[first + i] = -1;
		watch_start(w->loop, &w->listener_watch[w->listener_n], w->listeners[w->listener_n], EPOLLIN, udp ? on_udp : on_listener);
		w->listener_n++;
	}
	w->have_sandbox = true;
	ipc_send(w->sup, MSG_SANDBOX_OK, s->generation, 0, &ref, sizeof(ref), NULL, 0);
}

static void on_sweep(struct timer *t);

static void tell_counts(struct worker *w)
{
	w->counts_told = w->counts;
	if (w->sup != NULL && !ipc_send(w->sup, MSG_COUNTS, w->generation, 0, &w->counts, sizeof(w->counts), NULL, 0))
		log_error("the supervisor could not be told the counts");
}

static void on_supervisor(struct ipc *c, const struct ipc_msg *cm)
{
	struct worker *w = ipc_arg(c);
	struct ipc_msg *m = (struct ipc_msg *)(uintptr_t)cm;

	if (m == NULL) {
		_exit(0); /* no supervisor, no network */
	}
	switch (m->type) {
	case MSG_START:
		if (m->fd_n >= 1) {
			struct err err = ERR_INIT;

			if (trust_map(&w->trust, m->fds[0], &err) < 0) {
				log_error("trust anchors: %s", err.text);
				_exit(1);
			}
		}
		role_ready(c, ROLE_WORKER, -1);
		break;
	case MSG_SANDBOX:
		take_sandbox(w, m);
		break;
	case MSG_PEER:
		take_peer(w, m);
		break;
	case MSG_SANDBOX_PLACEHOLDERS:
		creds_take_placeholders(w->creds, str_mk(m->data + sizeof(struct msg_sandbox_ref), m->len - sizeof(struct msg_sandbox_ref)));
		break;
	case MSG_COUNTS_ASK:
		tell_counts(w);
		break;
	case MSG_SANDBOX_GONE:
	case MSG_SHUTDOWN:
		for (unsigned i = 0; i < w->listener_n; i++)
			watch_stop(&w->listener_watch[i]);
		w->listener_n = 0;
		clients_end(w);
		w->ending_ms = loop_now_ms(w->loop) + 1;
		timer_start(w->loop, &w->sweep, 1, on_sweep);
		break;
	default:
		break;
	}
}

/* --- time ---------------------------------------------------------------------------------------------------------- */

static void on_sweep(struct timer *t)
{
	struct worker *w = (struct worker *)((char *)t - offsetof(struct worker, sweep));
	static uint32_t quiet;
	static uint64_t requests_before;

	if (w->ending_ms != 0) {
		reporter_flush(w->rep);
		if (reporter_pending(w->rep) == 0 || loop_now_ms(w->loop) - w->ending_ms > ENDING_MS)
			loop_stop(w->loop);
		else
			timer_start(w->loop, &w->sweep, 2, on_sweep);
		return;
	}
	if (memcmp(&w->counts, &w->counts_told, sizeof(w->counts)) != 0)
		tell_counts(w);
	clients_decide_again(w); /* a rule may hold until a date */
	client_sweep(w);
	upstreams_sweep(w->ups);
	names_tick(w->names);
	reporter_tick(w->rep);
	if (w->accept_paused && w->clients.n < LIMIT_CLIENTS && worker_memory(w) <= LIMIT_MEMORY) {
		w->accept_paused = false;
		for (unsigned i = 0; i < w->listener_n; i++)
			if (w->listener_watch[i].fn == on_listener)
				watch_set(&w->listener_watch[i], EPOLLIN);
	}
	/* memory goes back when nothing is going on (engineering: 5.3 -> 1.4 MiB) */
	if (w->counts.requests != requests_before) {
		quiet = 0;
	} else if (++quiet == 2) {
		exchange_spares_free();
		malloc_trim(0);
	}
	requests_before = w->counts.requests;
	timer_start(w->loop, &w->sweep, SWEEP_MS, on_sweep);
}

int worker_main(int link_fd)
{
	struct worker *w = &the_worker;
	uint8_t seed[16];
	uint8_t id[8];

	log_title("worker");
	signal(SIGPIPE, SIG_IGN);
	/* buffers come and go with each connection: the heap's top is not given back and fetched anew each time; on_sweep does when it is quiet */
	mallopt(M_TRIM_THRESHOLD, 16 << 20);
	mallopt(M_MMAP_THRESHOLD, 4 << 20);
	random_fill(seed, sizeof(seed));
	hash_seed(seed);
	random_fill(id, sizeof(id));
	for (int i = 0; i < 8; i++)
		snprintf(w->id_prefix + 2 * i, 3, "%02x", id[i]);
	w->loop = loop_new();
	w->rep = reporter_new(w);
	w->creds = creds_new(w);
	w->signings = signings_new(w);
	w->names = names_new(w);
	w->tls = tls_new(w);
	tls_warm(w->tls);
	rpc_warm();
	websocket_warm();
	w->ups = upstreams_new(w);
	clients_watch_memory(w);
	w->sup = ipc_new(w->loop, link_fd, ROLE_WORKER, ROLE_SUPERVISOR, on_supervisor, w);
	timer_start(w->loop, &w->sweep, SWEEP_MS, on_sweep);
	loop_run(w->loop);
	return 0;
}
