/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_WORKER_H
#define SP_WORKER_H
/*
 * The worker of one sandbox: its bytes and its upstreams'. Everything it works with came to it as a descriptor or a
 * message; it opens, makes and connects nothing (see common/sys/syscalls.def). What a broken worker yields is written in
 * docs/THREATS.md.
 *
 *   worker.c  links, listeners, the sweep     client*.c one connection from the sandbox    upstream*.c origins, connections
 *   tls.c     contexts, leaves, verification  creds.c   values in use, scrub set           reporter.c  records, slots
 *   names.c   DNS inside, synthetic addresses         tunnel.c  octets that pass unread
 *   policy.c  generations of the policy               signing.c  signatures with keys that are elsewhere
 *   identity.c, remote_key.c  client certificates
 */
#include <openssl/ssl.h>

#include "../../common/msg.h"
#include "../../common/policy/decide.h"
#include "../../common/sys/ipc.h"
#include "../../common/trust.h"
#include "../exchange/exchange.h"
#include "../exchange/meter.h"
#include "conn.h"

/* Named limits; see docs/man/sallyport-proxy.8. */
#define LIMIT_CLIENTS 8192          /* connections of one sandbox */
#define LIMIT_WEBSOCKETS 512        /* open at a time in one sandbox: each keeps an in-flight slot */
#define LIMIT_PENDING_RECORDS 4096
#define LIMIT_HANDSHAKE_MS 10000    /* TCP accept to TLS done; TLS toward an upstream */
#define LIMIT_SNIFF_MS 10000        /* first octet of a transparent connection */
#define LIMIT_HEAD_MS 20000         /* first octet of a head to its end */
#define LIMIT_IDLE_MS 600000        /* between requests, or without an octet either way within one */
#define LIMIT_TUNNELS 512           /* each holds an in-flight slot, of INFLIGHT_SLOTS */
#define LIMIT_TUNNEL_IDLE_MS 3600000
#define LIMIT_POOL_IDLE_MS 55000
#define LIMIT_POOL_PER_ORIGIN 256
#define LIMIT_ORIGINS 4096          /* that nothing uses any more are forgotten at once beyond these; else after */
#define LIMIT_ORIGIN_IDLE_MS 600000
#define LIMIT_DIALS 128             /* that the dialer is asked at a time: its link ends when more wait than the link holds */
#define LIMIT_H2_PER_ORIGIN 32      /* connections */
#define LIMIT_WAIT_MS 30000         /* for a stream, when all connections of an origin are full */
#define LIMIT_LINGER_MS 2000        /* after a refusal: how long what still comes is thrown away */
#define LIMIT_LINGER_BYTES (1024 * 1024)
#define LIMIT_LEAVES 2048
#define LIMIT_MEMORY (512u << 20)   /* queues of all connections of one sandbox; from half of it on each may hold less */

/* Names for objects that answers from other roles come back to: index and generation. */
enum handle_kind { HANDLE_NONE = 0, HANDLE_CLIENT /* struct conn */, HANDLE_EXCHANGE, HANDLE_DIAL /* struct dial_waiter */, HANDLE_LEAF, HANDLE_CREDENTIAL, HANDLE_SIGNING, HANDLE_HANDSHAKE /* struct upstream */ };
struct handles {
	struct handle_slot { void *obj; uint32_t gen, next; enum handle_kind kind; } *s;
	uint32_t n, cap, free;
};
uint64_t handle_new(struct handles *h, enum handle_kind kind, void *obj);
/* NULL: gone, or of another kind: the id may come from another role. */
void *handle_get(const struct handles *h, enum handle_kind kind, uint64_t id);
void handle_free(struct handles *h, uint64_t id);

/* Who waits for a socket: what the handle of a dial names. */
struct dial_waiter {
	void (*dialed)(struct dial_waiter *d, const struct ipc_msg *m, int *fd_taken);
};

struct worker;
struct policy_gen { /* one generation */
	struct policy_gen *older;
	struct worker *w;
	struct table *table;
	uint32_t generation;
	unsigned refs; /* one while it is in force, and one of each that may still look at it or ask in its name */
	struct buf said; /* its fields of every record */
	bool hands_out;  /* it has injections by which a value itself goes out, not only what is signed with it */
};
struct reporter;
struct creds;
struct signings;
struct identity;
struct names;
struct tls;
struct upstreams;
struct worker {
	struct loop *loop;
	struct ipc *sup, *dialer, *ca, *secrets, *audit;
	struct policy_gen *policy, *policies; /* in force; all that are looked at, newest first */
	struct table *table;      /* of the one in force */
	uint32_t sandbox, generation;
	bool explain_denials, observe, have_sandbox;
	struct meter meter; /* of the sandbox, over the lives of its workers */
	uint64_t ending_ms; /* the sandbox is gone: records are delivered, then the end */
	char name[MSG_NAME_MAX];
	int listeners[MSG_LISTENERS_MAX];
	struct watch listener_watch[MSG_LISTENERS_MAX];
	unsigned listener_n;
	bool accept_paused;
	bool slots_awaited; /* some client waits for an in-flight slot */
	struct conn_list clients, upstream_conns, tunnel_conns;
	size_t tunnel_n;
	struct exchange *websockets; /* open, or asked for and allowed */
	unsigned websocket_n;
	bool shedding; /* at the end of this turn */
	struct handles handles;
	struct trust *trust;
	struct reporter *rep;
	struct creds *creds;
	struct signings *signings;
	struct names *names;
	struct tls *tls;
	struct upstreams *ups;
	struct timer sweep;
	struct msg_counts counts, counts_told; /* requests, and connections that were refused without one */
	char id_prefix[17];
	uint32_t id_next;
};
/* Octets in the queues of all of its connections. */
static inline size_t worker_memory(const struct worker *w) { return w->clients.queued + w->upstream_conns.queued + w->tunnel_conns.queued; }
static inline size_t worker_out_high(const struct worker *w) { return worker_memory(w) > LIMIT_MEMORY / 2 ? CONN_OUT_PRESSED : CONN_OUT_HIGH; }
void worker_request_id(struct worker *w, char out[33]);

/* policy.c */
struct policy_gen *policy_hold(struct policy_gen *p);
void policy_release(struct policy_gen *p); /* what was borrowed from it is good for this turn */
struct policy_gen *policy_of_generation(const struct worker *w, uint32_t generation); /* NULL: it is over */
struct policy_gen *policy_of_table(const struct worker *w, const struct table *t);
/* From now on what begins is decided by t, which it takes; what goes on without an end of its own is decided again. */
void policy_in_force(struct worker *w, struct table *t, const struct msg_sandbox *s);
/* An exchange of the policy in force, which it holds until it is over. */
struct exchange *worker_exchange_new(struct worker *w, struct client_half *half, const struct exchange_ident *ident, const char request_id[33]);
void worker_exchange_refresh(struct worker *w, struct exchange *x); /* not started yet: by the policy in force now */

/* reporter.c */
struct reporter *reporter_new(struct worker *w);
void reporter_link(struct reporter *r, struct ipc *link); /* NULL: gone */
void reporter_message(struct reporter *r, const struct ipc_msg *m);
bool reporter_ok(const struct reporter *r);
/*
 * The next request waits unread: there is no slot for it, because audit is slow, or down, and then for at most 10 s (behind that it
 * is refused without one).
 */
bool reporter_must_wait(struct reporter *r);
/* A slot for a request, filled with what is known; INFLIGHT_NO_SLOT when none is free. */
uint32_t reporter_slot(struct reporter *r, const struct buf *fields);
void reporter_unslot(struct reporter *r, uint32_t slot); /* nothing came of it; INFLIGHT_NO_SLOT: there was none */
/* Queues a record; common fields (policy) are added. p: which decided; NULL: the one in force. */
void reporter_record(struct reporter *r, const struct policy_gen *p, uint32_t slot, const struct buf *fields);
/* A connection's end, of which its requests' records tell already: gathers with others. */
void reporter_connection(struct reporter *r, const struct buf *fields);
void reporter_flush(struct reporter *r); /* records on their way gather for a moment otherwise */
size_t reporter_pending(const struct reporter *r); /* records not yet appended */
void reporter_tick(struct reporter *r);

/* creds.c */
struct creds *creds_new(struct worker *w);
enum secret_state creds_get(struct creds *c, struct exchange *x, const struct dest *d, const struct inject *in, struct str *value, struct str *cause);
void creds_released(struct creds *c, const struct ipc_msg *m);
void creds_link_lost(struct creds *c);
void creds_table_gone(struct creds *c, const struct table *t); /* values in use under it are dropped */
void creds_withdrawn(struct creds *c, const struct table *t, uint32_t secret_index); /* its value is not used any more */
/* The client certificate that is shown there, borrowed; NULL: there is none now. */
struct identity *creds_identity(const struct creds *c, const struct dest *d);
struct scrub_ref *creds_scrub(struct creds *c);
void creds_scrub_done(struct scrub_ref *r);
void creds_take_placeholders(struct creds *c, struct str list); /* all of them, anew */
const struct placeholders *creds_placeholders(const struct creds *c);
/* A name (DNS, SNI) that carries a placeholder: told, as standing in `where`. */
bool creds_name_trips(struct creds *c, const struct canon_host *name, const char *where);
/* A placeholder stood where it must not: what the policy wants to happen then. */
void creds_misuse(struct creds *c, struct str secret);

/* signing.c */
struct signings *signings_new(struct worker *w);
/* A signature of `secrets` over the message, which is taken: exchange_signed or upstream_signed tells the asker. False: *cause. */
bool signings_ask(struct signings *s, uint32_t generation, const struct msg_sign *what, struct buf *message, enum handle_kind kind, uint64_t asker, struct str *cause);
void signings_answered(struct signings *s, const struct ipc_msg *m);
void signings_link_lost(struct signings *s);

/* tls.c */
struct tls *tls_new(struct worker *w);
void tls_warm(struct tls *t); /* everything that OpenSSL loads lazily, before confinement */
bool tls_set_leaf_key(struct tls *t, const uint8_t *der, size_t n);
enum leaf_state { LEAF_NONE = 0, LEAF_READY, LEAF_WAIT, LEAF_REFUSED, LEAF_NO_CA, LEAF_CA_EXPIRED };
/* The leaf for host: READY: installed into ssl. WAIT: the client with that handle is kicked when it has come. */
enum leaf_state tls_leaf(struct tls *t, SSL *ssl, struct str host, bool refusal, uint64_t client_handle);
void tls_want_leaf(struct tls *t, struct str host, bool refusal); /* ahead of need */
void tls_minted(struct tls *t, const struct ipc_msg *m);
void tls_ca_lost(struct tls *t);
void tls_table_gone(struct tls *t, const struct table *table);
SSL *tls_server(struct tls *t, void *client);
/* The destination's own anchors or the public ones. NULL: *cause says why. */
SSL *tls_upstream(struct tls *t, const struct dest *d, const struct canon_host *host, void *origin, const char **cause);
void tls_h1_only(SSL *ssl); /* before the handshake: HTTP/2 is not offered */
void tls_peer_facts(SSL *ssl, struct upstream_facts *f);

/* names.c */
struct names *names_new(struct worker *w);
void names_udp(struct names *n, int fd);
/* One DNS message over TCP: answer appended with its length. False: close. */
bool names_tcp(struct names *n, const uint8_t *p, size_t len, struct buf *out);
/* The name that a synthetic address stands for; NULL if it is none of ours. */
const struct canon_host *names_of_address(struct names *n, const struct ip *a);
void names_tick(struct names *n);

/* client.c */
void client_accept(struct worker *w, int fd);
void client_sweep(struct worker *w);
void clients_watch_memory(struct worker *w); /* from now on LIMIT_MEMORY is kept */
void clients_slots_freed(struct worker *w); /* those that wait for a slot go on */
void clients_decide_again(struct worker *w); /* tunnels and WebSockets that the policy in force does not allow now are ended */
void clients_end(struct worker *w); /* all of them, with their records */
extern const struct exchange_host worker_exchange_host;
/* From tls.c's client hello callback. */
int client_hello(void *client, SSL *ssl, int *alert);

/* tunnel.c */
void tunnels_dialer_lost(struct worker *w);
/* Each open tunnel by this table: those that it does not allow end at once, their record says `policy_changed`. */
void tunnels_decide_again(struct worker *w, const struct table *table);

/* upstream.c */
struct upstreams *upstreams_new(struct worker *w);
void upstreams_acquire(struct upstreams *u, struct exchange *x, const struct upstream_want *want);
void upstreams_cancel(struct upstreams *u, struct exchange *x);
#define DIALED_NOTHING "what the role that connects handed over is no connection"
enum refusal_code upstream_dial_code(const struct msg_dialed *d); /* of a dial that came to nothing */
void upstream_dial_facts(const struct msg_dialed *d, struct upstream_facts *f);
void upstreams_dialer_lost(struct upstreams *u);
void upstreams_policy_changed(struct upstreams *u); /* nothing of an older generation is used again */
void upstreams_sweep(struct upstreams *u);
/* A client certificate is not used any more: what lies idle under it is closed. */
void upstreams_withdrawn(struct upstreams *u, const struct table *t, uint32_t secret_index);
/* What a handshake stands still for: the signature, or why there is none. */
void upstream_signed(void *upstream, bool ok, struct str text);
void upstreams_new_session(void *origin, SSL_SESSION *s); /* takes s */
#endif
