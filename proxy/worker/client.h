/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_WORKER_CLIENT_H
#define SP_WORKER_CLIENT_H
/*
 * What the files of one connection from the sandbox share: client.c the connection, client_h1.c and client_h2.c what is
 * spoken on it.
 */
#include "worker.h"

enum client_state { CL_SNIFF = 0, CL_HELLO, CL_TLS, CL_HTTP, CL_H2, CL_TUNNEL, CL_DNS, CL_LINGER };
struct client_h2;
struct tunnel;
struct client {
	struct conn c; /* first: conn callbacks cast */
	struct client_half half;
	struct worker *w;
	uint64_t handle;
	enum client_state state;
	uint64_t state_ms;
	struct exchange *x;   /* HTTP/1.1 */
	struct client_h2 *h2; /* in CL_H2 */
	struct tunnel *tunnel; /* in CL_TUNNEL */
	struct exchange_ident ident;
	bool in_connect;    /* CONNECT was accepted here: a connection record is due */
	bool record_due;
	bool dest_known;    /* the destination is in the table */
	bool tls_decided;
	bool crlf_skipped, awaits_slot; /* awaits_slot: a request waits until its record can be begun */
	bool keep;          /* of the request in progress */
	bool chunked, is_head;
	bool switched;      /* the request in progress is a WebSocket, and open */
	size_t scan;
	uint64_t head_ms; /* since when a head is unfinished, as the sweep saw it; 0: none is */
	struct h1_body body;
	bool body_left;
	uint64_t start_ms, lingered;
	uint16_t port;      /* dialled by the program */
	struct ip dialled;
	enum refusal_code code;
	const char *reason;
	char conn_id[33];
};

/* --- client.c -------------------------------------------------------------------------------------------------------- */
void client_set_state(struct client *cl, enum client_state s);
void client_sniff(struct client *cl);
void client_end(struct client *cl, bool reset); /* idempotent; what runs on it is told */
void client_linger(struct client *cl);          /* when the last answer is queued */
void client_alert(struct client *cl, int alert); /* in TLS that was not begun; the end */

/* --- client_h1.c ----------------------------------------------------------------------------------------------------- */
extern const struct client_half_ops client_h1_ops;
void client_h1(struct client *cl); /* process */
void client_h1_sweep(struct client *cl, uint64_t now);
void client_connected(struct client *cl); /* CONNECT is accepted: what follows is another protocol */

/* --- tunnel.c -------------------------------------------------------------------------------------------------------- */
/* cl->ident says where to. A CONNECT whose answer waits for the outcome stands in cl->x. */
void tunnel_start(struct client *cl, enum scheme scheme, const struct dest *d, const struct decision *o);
void tunnel_process(struct client *cl);
void tunnel_sweep(struct client *cl, uint64_t now);
void tunnel_gone(struct client *cl, bool reset); /* the client ends */
uint32_t tunnel_record(struct client *cl, struct buf *b); /* adds what is known; the slot that the record closes */
size_t tunnel_queued(const struct client *cl); /* octets that it holds beside the client's own */

/* --- client_h2.c ----------------------------------------------------------------------------------------------------- */
void client_h2_start(struct client *cl);
void client_h2(struct client *cl);      /* process */
void client_h2_gone(struct client *cl); /* its exchanges are told; frees h2 */
void client_h2_sweep(struct client *cl, uint64_t now);
#endif
