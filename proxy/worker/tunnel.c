/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection whose octets pass unread: `protocol: tcp`, which is dialled when the program connects, before anyone has said a
 * word (some servers speak first), and TLS that is passed through, of which only the ClientHello was looked at.
 *
 *   SLOT -> DIALING -> OPEN -> over
 *
 * SLOT: its record could not outlast this process yet (no in-flight slot); nothing is asked of anyone. The slot is held until
 * the end. Nothing is read from the client before OPEN. Each direction ends by itself (half-close); a reset is handed on as
 * one. What one side does not take is not read from the other. A tunnel is decided when it is made and again whenever the
 * policy changes; then its address is looked at again too.
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "../../common/base/must.h"
#include "../../common/sys/clock.h"
#include "client.h"

#define KEEPALIVE_IDLE_S 120 /* a peer that is gone without a word is noticed */
#define KEEPALIVE_EACH_S 30
#define KEEPALIVE_PROBES 4
#define POLICY_CHANGED "this sandbox's policy does not allow the tunnel any longer"

enum tunnel_state { TUNNEL_SLOT = 0, TUNNEL_DIALING, TUNNEL_OPEN };
struct tunnel {
	struct conn up; /* first: conn callbacks cast; a connection from OPEN on */
	struct dial_waiter waiter;
	struct client *cl; /* NULL: the client is gone */
	enum tunnel_state state;
	enum scheme scheme;
	struct str rule, source;  /* of the table in force */
	uint32_t slot, idle_ms, total_ms;
	uint64_t dial_id, start_ms;
	struct policy_gen *policy; /* held while the dialer is asked in its name */
	struct ip ip;             /* that it leads to */
	struct upstream_facts facts;
	char cause[256];
};

static void process_up(struct conn *c) { tunnel_process(((struct tunnel *)c)->cl); }
static void free_up(struct conn *c) { free(c); }
static const struct conn_ops up_ops = { process_up, free_up };

/* The limits are the least of the policy's and its boundaries'. */
static void take_terms(struct tunnel *t, const struct exchange_ident *id, const struct dest *d, const struct decision *o)
{
	struct dest_limits l = d->limits;
	struct dest bound;

	for (const struct table *b = table_boundary(d->table); b != NULL; b = table_boundary(b))
		if (table_find_unbounded(b, t->scheme, str_mk(id->host.text, id->host.len), id->port, &bound) == 1)
			l = dest_limits_both(&l, &bound.limits);
	t->rule = o->rule;
	t->source = o->source;
	t->idle_ms = l.idle_ms;
	t->total_ms = l.total_ms;
}

/* --- the end ------------------------------------------------------------------------------------------------------- */

uint32_t tunnel_record(struct client *cl, struct buf *b)
{
	struct tunnel *t = cl->tunnel;
	uint32_t slot;

	record_s(b, REC_SCHEME, str_of(scheme_name(t->scheme)));
	record_s(b, REC_RULE, t->rule);
	record_s(b, REC_SOURCE, t->source);
	record_s(b, REC_UPSTREAM_IP, str_of(t->facts.ip));
	if (t->facts.proxy[0]) {
		record_s(b, REC_UPSTREAM_PROXY, str_of(t->facts.proxy));
		record_s(b, REC_VETTED_BY, t->facts.proxy_vetted ? STR("proxy") : STR("gateway"));
	}
	if (t->facts.dns_us)
		record_u(b, REC_T_DNS_US, t->facts.dns_us);
	if (t->facts.connect_us)
		record_u(b, REC_T_CONNECT_US, t->facts.connect_us);
	record_u(b, REC_UNREAD, 1);
	slot = t->slot;
	t->slot = INFLIGHT_NO_SLOT; /* the record's from now on */
	return slot;
}

static void no_longer_asks(struct client *cl)
{
	struct tunnel *t = cl->tunnel;

	if (t->dial_id == 0)
		return;
	handle_free(&cl->w->handles, t->dial_id);
	t->dial_id = 0;
	policy_release(t->policy);
}

size_t tunnel_queued(const struct client *cl) { return cl->tunnel != NULL && cl->tunnel->state == TUNNEL_OPEN ? conn_queued(&cl->tunnel->up) : 0; }

void tunnel_gone(struct client *cl, bool reset)
{
	struct tunnel *t = cl->tunnel;

	no_longer_asks(cl);
	cl->tunnel = NULL;
	cl->w->tunnel_n--;
	reporter_unslot(cl->w->rep, t->slot);
	t->cl = NULL;
	if (t->state != TUNNEL_OPEN)
		free(t);
	else if (reset)
		conn_abort(&t->up);
	else
		conn_close(&t->up);
}

/* Not let through, or not come about. CONNECT is told in HTTP, TLS by an alert, anyone else by a reset. */
static void refuse(struct client *cl, enum refusal_code code, const char *cause)
{
	struct exchange *x = cl->x;

	if (x != NULL) { /* the record is the request's */
		client_set_state(cl, CL_HTTP);
		tunnel_gone(cl, false);
		x->client_must_close = true; /* RFC 9931: nothing that follows a refused CONNECT is parsed */
		exchange_refuse(x, code, cause);
		return;
	}
	snprintf(cl->tunnel->cause, sizeof(cl->tunnel->cause), "%s", cause);
	cl->code = code;
	cl->reason = cl->tunnel->cause;
	if (cl->tunnel->scheme == SCHEME_HTTPS)
		client_alert(cl, code == REFUSAL_POLICY_DENIED || code == REFUSAL_ADDRESS_DENIED ? SSL_AD_ACCESS_DENIED : SSL_AD_INTERNAL_ERROR);
	else
		client_end(cl, true);
}

static void over(struct client *cl, const char *reason, bool reset)
{
	cl->reason = reason;
	client_end(cl, reset);
}

/* --- the beginning ------------------------------------------------------------------------------------------------- */

static uint32_t take_slot(struct client *cl)
{
	struct buf b = { 0 };
	uint32_t slot;

	record_s(&b, REC_KIND, STR("connection"));
	record_s(&b, REC_REQUEST_ID, str_of(cl->conn_id));
	record_u(&b, REC_TIME_MS, cl->start_ms);
	record_s(&b, REC_HOST, str_mk(cl->ident.host.text, cl->ident.host.len));
	record_u(&b, REC_PORT, cl->ident.port);
	slot = reporter_slot(cl->w->rep, &b);
	buf_fini(&b);
	return slot;
}

static void dialed(struct dial_waiter *d, const struct ipc_msg *m, int *fd_taken);
static bool decide_again(struct client *cl, const struct table *table);

static void dial(struct client *cl)
{
	struct worker *w = cl->w;
	struct tunnel *t = cl->tunnel;
	struct msg_dial m = { .port = cl->ident.port, .scheme = (uint8_t)t->scheme };

	t->slot = take_slot(cl);
	if (t->slot == INFLIGHT_NO_SLOT || !reporter_ok(w->rep)) {
		refuse(cl, REFUSAL_AUDIT_UNAVAILABLE, "connections cannot be recorded at the moment, so none is let through");
		return;
	}
	t->state = TUNNEL_DIALING;
	t->waiter.dialed = dialed;
	t->policy = policy_hold(w->policy);
	t->dial_id = handle_new(&w->handles, HANDLE_DIAL, &t->waiter);
	if (w->dialer == NULL || !ipc_send2(w->dialer, MSG_DIAL, t->policy->generation, t->dial_id, &m, sizeof(m), cl->ident.host.text, cl->ident.host.len, NULL, 0))
		refuse(cl, REFUSAL_GATEWAY_UNAVAILABLE, "the role that connects is down");
}

void tunnel_start(struct client *cl, enum scheme scheme, const struct dest *d, const struct decision *o)
{
	struct worker *w = cl->w;
	struct tunnel *t = must_calloc(1, sizeof(*t));

	t->cl = cl;
	t->scheme = scheme;
	t->slot = INFLIGHT_NO_SLOT;
	t->start_ms = loop_now_ms(w->loop);
	take_terms(t, &cl->ident, d, o);
	cl->tunnel = t;
	w->tunnel_n++;
	cl->record_due = cl->x == NULL;
	cl->dest_known = true;
	cl->c.paused = cl->c.reads_on = true;
	client_set_state(cl, CL_TUNNEL);
	if (o->verdict != VERDICT_ALLOW) {
		refuse(cl, REFUSAL_POLICY_DENIED, "a deny rule of this sandbox's policy covers the tunnel");
		return;
	}
	if (w->tunnel_n > LIMIT_TUNNELS) {
		refuse(cl, REFUSAL_LIMIT_EXCEEDED, "this sandbox has as many tunnels open as it may");
		return;
	}
	tunnel_process(cl);
}

static void dialed(struct dial_waiter *d, const struct ipc_msg *m, int *fd_taken)
{
	struct tunnel *t = (struct tunnel *)((char *)d - offsetof(struct tunnel, waiter));
	const struct msg_dialed *a = (const void *)m->data;
	struct client *cl = t->cl;
	const int on = 1, idle = KEEPALIVE_IDLE_S, each = KEEPALIVE_EACH_S, probes = KEEPALIVE_PROBES;
	bool older = t->policy != cl->w->policy;
	char cause[256];

	no_longer_asks(cl);
	t->ip.family = a->family;
	memcpy(t->ip.b, a->addr, sizeof(t->ip.b));
	upstream_dial_facts(a, &t->facts);
	if (a->status != DIAL_OK) {
		snprintf(cause, sizeof(cause), "%.*s", (int)(m->len - sizeof(*a)), (const char *)m->data + sizeof(*a));
		refuse(cl, upstream_dial_code(a), cause);
		return;
	}
	if (older && !decide_again(cl, cl->w->table)) {
		refuse(cl, REFUSAL_POLICY_DENIED, POLICY_CHANGED);
		return;
	}
	if (m->fd_n != 1 || !conn_init(&t->up, cl->w->loop, m->fds[0], &up_ops, &cl->w->tunnel_conns)) {
		refuse(cl, REFUSAL_GATEWAY_UNAVAILABLE, DIALED_NOTHING);
		return;
	}
	*fd_taken = 1;
	t->up.reads_on = true;
	setsockopt(m->fds[0], SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(m->fds[0], IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	setsockopt(m->fds[0], IPPROTO_TCP, TCP_KEEPINTVL, &each, sizeof(each));
	setsockopt(m->fds[0], IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
	t->state = TUNNEL_OPEN;
	cl->c.paused = false;
	if (cl->x != NULL) {
		struct exchange *x = cl->x;

		cl->x = NULL;
		exchange_discard(x);
		client_connected(cl);
	}
	tunnel_process(cl);
}

void tunnels_dialer_lost(struct worker *w)
{
	for (struct conn *c = w->clients.head, *next; c != NULL; c = next) {
		struct client *cl = (struct client *)c;

		next = c->next;
		if (cl->tunnel != NULL && cl->tunnel->state == TUNNEL_DIALING)
			refuse(cl, REFUSAL_GATEWAY_UNAVAILABLE, "the role that connects ended");
	}
}

/* --- octets -------------------------------------------------------------------------------------------------------- */

/* What has come from one side goes to the other, as far as that takes it. */
static void pass(struct client *cl, struct conn *from, struct conn *to)
{
	if (to->failed || to->write_failed || to->shut_done || from->failed)
		return;
	from->paused = conn_full(to, worker_out_high(cl->w));
	if (from->paused)
		return;
	conn_fill(from);
	if (buf_len(&from->in) > 0) {
		if (buf_len(&to->out) == 0) {
			struct buf empty = to->out;

			to->out = from->in;
			from->in = empty;
		} else {
			buf_adds(&to->out, buf_str(&from->in));
			buf_clear(&from->in);
		}
		conn_flush_later(to);
	}
	if (from->eof && !from->failed) {
		to->shut_after_flush = true;
		conn_flush_later(to);
	} else if (from->more) {
		conn_yield(from);
	}
}

/* Nothing more comes from there, and nothing goes there. */
static bool lost(const struct conn *c) { return c->failed || (c->write_failed && c->eof); }

/* One side was reset. What it sent before (a server's last words) still reaches the other; where none is on its way, a reset does. */
static void end_after(struct client *cl, struct conn *other, const char *reason)
{
	bool more = buf_len(&other->out) > 0 && !other->failed && !other->write_failed;

	if (!more) {
		over(cl, reason, !other->shut_done);
		return;
	}
	other->shut_after_flush = true;
	conn_flush_later(other);
}

void tunnel_process(struct client *cl)
{
	struct tunnel *t = cl->tunnel;

	switch (t->state) {
	case TUNNEL_SLOT:
		cl->awaits_slot = reporter_must_wait(cl->w->rep);
		if (cl->awaits_slot)
			cl->w->slots_awaited = true;
		else
			dial(cl);
		return;
	case TUNNEL_DIALING:
		return;
	case TUNNEL_OPEN:
		break;
	}
	pass(cl, &cl->c, &t->up);
	pass(cl, &t->up, &cl->c);
	if (lost(&cl->c))
		end_after(cl, &t->up, "client_reset");
	else if (lost(&t->up))
		end_after(cl, &cl->c, "upstream_reset");
	else if (cl->c.shut_done && t->up.shut_done)
		over(cl, "closed", false);
}

/* --- time, policy -------------------------------------------------------------------------------------------------- */

void tunnel_sweep(struct client *cl, uint64_t now)
{
	struct tunnel *t = cl->tunnel;
	uint64_t idle = t->idle_ms != 0 ? t->idle_ms : LIMIT_TUNNEL_IDLE_MS;

	if (t->state != TUNNEL_OPEN)
		return;
	conn_idle_trim(&t->up);
	if (now - cl->c.active_ms > idle && now - t->up.active_ms > idle)
		over(cl, "idle", false);
	else if (t->total_ms != 0 && now - t->start_ms > t->total_ms)
		over(cl, "total", false);
}

static bool decide_again(struct client *cl, const struct table *table)
{
	struct tunnel *t = cl->tunnel;
	struct decision o;
	struct dest d;
	const char *why;

	if (!decide_tunnel(table, t->scheme, str_mk(cl->ident.host.text, cl->ident.host.len), cl->ident.port, clock_wall_ms() / 1000, &d, &o) || o.verdict != VERDICT_ALLOW ||
	    (t->ip.family != 0 && !dest_address_ok(&d, &t->ip, &why)))
		return false;
	take_terms(t, &cl->ident, &d, &o);
	return true;
}

void tunnels_decide_again(struct worker *w, const struct table *table)
{
	for (struct conn *c = w->clients.head, *next; c != NULL; c = next) {
		struct client *cl = (struct client *)c;

		next = c->next;
		if (cl->tunnel == NULL || decide_again(cl, table))
			continue;
		if (cl->tunnel->state == TUNNEL_OPEN)
			over(cl, "policy_changed", true);
		else
			refuse(cl, REFUSAL_POLICY_DENIED, POLICY_CHANGED);
	}
}
