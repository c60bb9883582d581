/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_DIALER_PARENT_H
#define SP_DIALER_PARENT_H
/*
 * The proxy behind the gateway (gateway.yaml: upstream_proxy): what is asked of it and what it answers (RFC 9110 9.3.6), I/O-free.
 * When there is one, nothing is connected to but by it.
 */
#include "../../common/base/buf.h"
#include "../../common/base/ip.h"

#define PARENT_HEAD_MAX 16384
#define PARENT_CREDENTIALS_MAX 512

struct parent {
	char host[256];  /* empty: there is none */
	struct ip ip;    /* of a host that is an address */
	uint16_t port;
	bool resolves;   /* it is given names; else addresses that were vetted here */
	bool tls;        /* it is spoken to under TLS */
	char authorization[(PARENT_CREDENTIALS_MAX + 2) / 3 * 4 + 1]; /* base64 of user:password, or empty */
};
/* "via HOST PORT gateway|proxy plain|tls", without its line break. False: it is not that. */
bool parent_parse(struct str line, struct parent *p);
/* user:password, a line break behind it or not. False: it is not that, or too long. */
bool parent_credentials(struct str text, struct parent *p);
/* CONNECT. target: a canonical name, or an address in text (IPv6 without brackets). */
void parent_request(const struct parent *p, struct str target, uint16_t port, struct buf *out);

struct parent_reader {
	char line[64]; /* the beginning of the status line */
	size_t n;
	unsigned end; /* how much of the empty line has been seen */
};
enum parent_answer { PARENT_BAD = 0, PARENT_MORE, PARENT_DONE };
/* Takes octets of the answer's head, and none behind it: *used of them. DONE: *status. */
enum parent_answer parent_read(struct parent_reader *r, const uint8_t *p, size_t n, size_t *used, unsigned *status);
#endif
