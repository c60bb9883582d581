/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_EXCHANGE_H
#define SP_EXCHANGE_H
/*
 * One exchange is one request and its response: from the parsed head to the one terminal record. It joins a client half
 * and an upstream half, which both protocol versions present through the same small interface, and calls the role that
 * hosts it for what needs other processes.
 *
 *   start -> [canonical, decide] -> slot -> secrets -> upstream -> head, data, end -> response head, data, end -> record
 *
 * The order of events is the same for every entry path. Policy comes before DNS, before any secret, before connect.
 * A refusal may come at each step until the response head is on its way; after that the client half is reset.
 * Ownership: the client half creates the exchange and forgets it when done() is called; the exchange frees itself at
 * the end of the turn.
 */
#include "../../common/policy/decide.h"
#include "../../common/record.h"
#include "../../common/sys/loop.h"
#include "../filter/decode.h"
#include "../filter/scrub.h"
#include "../http/h1.h"
#include "../http/refusal.h"

struct exchange;
struct credential;
struct placeholders;
struct websocket;

/* The client's half: what the exchange may ask of it. */
struct client_half {
	const struct client_half_ops *ops;
};
struct client_half_ops {
	void (*head)(struct client_half *h, const struct http_response *r, enum http_framing framing, uint64_t length);
	void (*data)(struct client_half *h, const uint8_t *p, size_t n);
	void (*end)(struct client_half *h, const struct http_fields *trailer); /* trailer: NULL without one */
	void (*interim)(struct client_half *h, const struct http_response *r); /* 1xx; NULL: 100 Continue of our own */
	void (*refuse)(struct client_half *h, struct refusal *r); /* the whole answer; fills r->is_head etc. itself */
	void (*reset)(struct client_half *h, uint32_t code);     /* the response cannot be completed: the client must notice; code of HTTP/2 */
	bool (*full)(struct client_half *h);                     /* output above its high-water mark */
	void (*resume)(struct client_half *h);                   /* request content is wanted (again) */
	void (*held)(struct client_half *h, ptrdiff_t n);        /* so much more, or less, of the response waits in the upstream half; x->held in all */
	void (*done)(struct client_half *h, bool reusable);      /* the exchange is over */
};
/* The upstream's half. */
struct upstream_half {
	const struct upstream_half_ops *ops;
	struct exchange *x; /* set by the exchange while joined */
	bool reused;        /* was in use before: it may turn out dead */
	bool answered;      /* when it is lost: octets of an unfinished head had come (K09) */
};
struct upstream_half_ops {
	void (*head)(struct upstream_half *u, const struct http_request *r, struct str host, struct str target, enum http_framing framing, uint64_t length);
	void (*data)(struct upstream_half *u, const uint8_t *p, size_t n);
	void (*end)(struct upstream_half *u, const struct http_fields *trailer); /* trailer: NULL without one; HTTP/1.1 never sends it (A22) */
	bool (*full)(struct upstream_half *u);
	void (*resume)(struct upstream_half *u);                 /* response content is wanted again */
	void (*leave)(struct upstream_half *u, bool reusable);   /* back to the pool, or closed; x is forgotten */
};

/* What upstream connection an exchange needs. */
struct upstream_want {
	const struct dest *dest;
	enum scheme scheme;
	struct str host;
	uint16_t port;
	bool fresh; /* no pooled one: the last died in our hands */
	bool identity; /* the destination's client certificate is shown */
	bool websocket; /* over HTTP/2 only if the peer speaks RFC 8441 */
};
struct upstream_facts { /* of the connection, for the record */
	enum http_version version;
	char ip[IP_TEXT_MAX]; /* empty: it is not known here */
	char proxy[IP_TEXT_MAX + 8]; /* the proxy behind the gateway, or empty */
	bool proxy_vetted;    /* it resolved the name, and no address was vetted here */
	uint64_t dns_us, connect_us, tls_us;
	char issuer[256], cert_sha256[65], spki_sha256[65];
	const char *tls_version, *tls_cipher, *tls_group, *staple; /* static; NULL: none */
	uint64_t cert_expires_ms;
	bool resumed;
};

/* A limit that counts the exchange: limit.c. */
struct exchange_rate {
	uint64_t key, amount;
	uint32_t window_s;
	uint8_t kind; /* enum rate_kind */
	bool boundary, running;
};

enum secret_state { SECRET_UNAVAILABLE = 0, SECRET_READY, SECRET_WAIT };
/* What the hosting role does for an exchange. */
struct exchange_host {
	/* False: the records cannot be written now; *code says why (audit_unavailable). Takes an in-flight slot. */
	bool (*begin)(void *arg, struct exchange *x, enum refusal_code *code);
	/* WAIT: exchange_secrets_changed is called later. READY: *value is valid during this turn. */
	enum secret_state (*secret)(void *arg, struct exchange *x, const struct dest *d, const struct inject *in, struct str *value, struct str *cause);
	/*
	 * A signature over the message, which is taken, by the role that has the key of the destination's injection of that number.
	 * exchange_signed is called later. False: *cause says why not.
	 */
	bool (*sign)(void *arg, struct exchange *x, unsigned inject, struct buf *message, struct str *cause);
	void (*upstream)(void *arg, struct exchange *x, const struct upstream_want *want); /* answers by exchange_upstream_ready/failed, perhaps at once */
	void (*upstream_cancel)(void *arg, struct exchange *x);  /* no longer wanted */
	struct scrub_ref *(*scrub)(void *arg);                   /* values in use in this sandbox, NULL = none; a reference */
	void (*scrub_done)(void *arg, struct scrub_ref *ref);
	void (*record)(void *arg, struct exchange *x, const struct buf *fields); /* the terminal record */
	void (*event)(void *arg, const struct buf *fields);      /* a finding */
	void (*equip)(void *arg, struct exchange *x);            /* sets meter and observe */
	void (*over)(void *arg, struct exchange *x);             /* after the record: what it was decided with is looked at in this turn only */
	const struct placeholders *(*placeholders)(void *arg);   /* of this sandbox; what was given once lives as long as the host */
	void (*misuse)(void *arg, struct str secret);            /* its placeholder stood where it must not: told already */
	/* A WebSocket is about to be, or over. False: there are too many. */
	bool (*websocket)(void *arg, struct exchange *x, bool begins);
};
struct scrub_ref {
	struct scrub_set *set;
	unsigned refs;
};

/* Who the client says it talks to, established before any request: CONNECT, synthetic address, SNI. */
struct exchange_ident {
	bool known;
	enum scheme scheme;          /* of what is inside */
	struct canon_host host;
	uint16_t port;
	bool explicit_proxy;         /* the request came to the proxy port itself, outside any tunnel */
	uint16_t transparent_port;   /* the port that the program dialled */
	const char *tls_version, *tls_cipher; /* toward the client, or NULL */
	char sni[CANON_HOST_MAX + 1];
};

struct exchange {
	const struct exchange_host *host;
	void *host_arg;
	struct loop *loop;
	struct client_half *client;
	struct upstream_half *up;
	const struct table *table;
	uint32_t generation;
	struct meter *meter;        /* of the sandbox; NULL: nothing is counted */
	bool observe;               /* the operator lets a policy observe here */
	struct arena arena;
	struct http_request req;
	char request_id[33];
	uint64_t start_ms, start_us;
	uint32_t slot;
	uint64_t handle;            /* the host's name for it */

	/* canonical request */
	struct canon_host chost;
	uint16_t port;
	enum scheme scheme;
	struct str target_wire, path_match, path_record; /* path with query as sent; path rules match; for the record */
	struct dest dest;
	bool has_dest;
	struct decision decision;
	struct dest_limits limits;  /* that hold: the destination's, from the decision on also those of rule and boundary */
	struct exchange_rate *rates;
	unsigned rate_n;
	uint32_t retry_after_s;     /* of limit_exceeded; 0: never */

	/* progress */
	uint8_t state;
	bool request_ended, response_started, response_ended, recorded, finished;
	bool observed; /* no rule allows it, and the policy observes: it goes on without credentials */
	bool waiting_upstream, retried, client_must_close, request_sent_any;
	uint64_t begun_ms, active_ms, sent_ms; /* loop time: the head was there; last octet of content either way; the request's end */
	uint64_t phase_ms;    /* loop time since which it waits: awaits_continue, or for the content of a refused call */
	bool awaits_continue; /* the client holds its content back until it is told to go on (RFC 9110 10.1.1) */
	enum refusal_code code;
	char reason[256];
	struct str answer_text;
	struct buf call;            /* content of a refused request, for the form of its answer */
	struct buf content_held;           /* content that a rule looks at before anything is asked of the origin */
	enum body_need need;        /* how much of it */
	uint16_t status;
	uint64_t content_in, content_out, content_up; /* request, response as sent, response as it came */
	unsigned interim;
	uint64_t secret_us, first_byte_us;
	struct upstream_facts upf;
	struct str secret_names[RECORD_SECRETS_MAX];
	unsigned secret_n;
	struct scrub_ref *scrub_ref;
	struct scrub scrub;
	struct buf scrubbed;
	bool scrub_on, upstream_reusable, resp_is_head;
	uint32_t reset_code; /* set by the upstream half: why its stream ended, to be told on; 0: nothing to tell */
	size_t held, held_upstream; /* octets of the response that wait for the client in all, and of them in the upstream half */
	struct decode *decode; /* the response's content comes in a coding, and goes on without it */
	struct buf coded;      /* what of it waits for the client */
	bool decode_more;      /* there is more to come out of what was taken already */
	bool end_due;          /* the upstream's end came, and waits behind `coded` */
	const struct http_fields *end_trailer;
	uint64_t decoded;      /* octets of content that came out */
	const struct exchange_ident *ident; /* borrowed from the client half while it lives */
	uint64_t scrub_hits;
	struct credential *credential; /* credential.c's own */
	bool awaits_content; /* X_HOLDING: decided; the head cannot be made before the content is there */
	struct websocket *ws; /* the head asked for one; in the arena */
};

/* A new exchange; the client half then fills x->req by parsing into x->arena and calls exchange_start. */
struct exchange *exchange_new(struct loop *l, const struct exchange_host *host, void *host_arg, struct client_half *client, const struct exchange_ident *ident,
	const struct table *table, uint32_t generation, const char request_id[33]);
void exchange_start(struct exchange *x);
void exchange_spares_free(void); /* memory that is kept for new ones: when none are expected soon */
/* The head could not be parsed (or another fault before exchange_start): refused and recorded. */
void exchange_malformed(struct exchange *x, const struct http_fault *f);
/* Refused by the client half itself (CONNECT decisions). text: one sentence. */
void exchange_refuse(struct exchange *x, enum refusal_code code, const char *text);
/* In the middle of the request's content: what went upstream of it is no whole. */
void exchange_content_refused(struct exchange *x, enum refusal_code code, const char *text);
/* Ends without a record: an accepted CONNECT, whose connection has its own. */
void exchange_discard(struct exchange *x);
/* Canonical destination of the request from its target, Host and ident. False: refused already. */
bool exchange_identify(struct exchange *x);

bool exchange_takes_data(const struct exchange *x); /* may the client half feed request content now? */
void exchange_request_data(struct exchange *x, const uint8_t *p, size_t n);
void exchange_request_end(struct exchange *x, struct http_fields *trailer); /* trailer: NULL without one */
void exchange_request_broken(struct exchange *x, const struct http_fault *f); /* framing error in the content */
void exchange_client_gone(struct exchange *x);
void exchange_client_drained(struct exchange *x); /* client output is below its low-water mark */

void exchange_secrets_changed(struct exchange *x);
/* What was asked for by `sign`; not ok: text is the cause. */
void exchange_signed(struct exchange *x, unsigned inject, bool ok, struct str text);
void exchange_upstream_ready(struct exchange *x, struct upstream_half *u, const struct upstream_facts *facts);
void exchange_upstream_failed(struct exchange *x, enum refusal_code code, const char *cause);
void exchange_response_head(struct exchange *x, struct http_response *r);
void exchange_response_data(struct exchange *x, uint8_t *p, size_t n); /* secrets in p are overwritten there */
/* trailer: secrets in it are overwritten already; NULL without one. */
void exchange_response_end(struct exchange *x, bool reusable, const struct http_fields *trailer);
bool exchange_wants_trailer(const struct exchange *x); /* of the response; else it is dropped (I14) */
/* How long it may be without an octet either way; x may be NULL. */
uint64_t exchange_idle_ms(const struct exchange *x, uint64_t otherwise);
void exchange_tick(struct exchange *x); /* about once a second: what waits for too long */
/* An exchange that passed only since the policy observes, decided again: whether it still does. */
bool exchange_observed_still(const struct exchange *x, const struct table *t, const struct facts *f, const struct decision *d);
/* What it is decided by, but for the content. */
void exchange_facts(const struct exchange *x, struct facts *f);
/* The policy's word for the method: WEBSOCKET is one. */
struct str exchange_method(const struct exchange *x);
/* The upstream did what it may not before the response began. x->reason may say what. */
void exchange_upstream_broken(struct exchange *x, const char *text);
/* The end of both streams of a WebSocket. whole: the client's ended at a frame's end. */
void exchange_tunnel_end(struct exchange *x, enum refusal_code code, bool whole);
/* n octets of the response wait in the upstream half. */
void exchange_hold(struct exchange *x, size_t n);
bool exchange_response_full(const struct exchange *x); /* the upstream half should stop reading */
void exchange_upstream_drained(struct exchange *x);
/* The upstream half is gone, closed by its owner. unprocessed: its peer told that it did not look at the request (RFC 9113 8.7). */
void exchange_upstream_lost(struct exchange *x, enum refusal_code code, const char *cause, bool unprocessed);
/* Overwrites secrets in a response head before it is parsed. */
void exchange_scrub_head(struct exchange *x, uint8_t *p, size_t n);
#endif
