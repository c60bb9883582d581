/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_DIALER_H
#define SP_DIALER_H
/*
 * The role that resolves names, vets addresses and connects.
 *
 *   dialer.c   the role: one dial from question to connected socket
 *   resolve.c  names to addresses: c-ares, the cache
 *   parent.c   the proxy behind, if there is one
 *   source.c   where connections of secrets may lead
 *   local.c    this host's own addresses and on-link prefixes
 */
#include "../../common/base/err.h"
#include "../../common/base/ip.h"
#include "../../common/policy/secret_param.h"
#include "../../common/sys/loop.h"

#define DIAL_CANDIDATES 16     /* addresses of one name that are looked at */
#define DIAL_OUTSTANDING 128   /* of one worker: with the answers that may wait already (served.c) they fit the queue of a link, so that none is lost */
#define DIAL_DNS_MS 10000
#define DIAL_CONNECT_MS 10000
#define DIAL_PARENT_MS 20000   /* for the answer of the proxy behind */
#define DIAL_STAGGER_MS 250    /* RFC 8305 section 5 */
#define DIAL_RESOLUTION_MS 50  /* RFC 8305 section 3: how long one family waits for the other */
#define DNS_TTL_MIN_S 5
#define DNS_TTL_MAX_S 300
#define DNS_FAILED_S 1         /* how long a failure (not a "no such name") is remembered */

/* --- resolve.c --- */
struct resolver;
struct lookup;
struct answer {
	struct ip ip[DIAL_CANDIDATES]; /* IPv6 first, then IPv4 */
	unsigned n;
	bool complete;     /* no more will come */
	const char *cause; /* when complete and n == 0 */
};
/* Called when the addresses of one family are there and the other lets wait (not complete), and once when complete; then the lookup is gone. */
typedef void lookup_fn(void *arg, const struct answer *a);
/* servers: "ADDRESS PORT\n" each. */
struct resolver *resolver_new(struct loop *l, struct str servers, struct err *err);
int resolver_keep_s(int ttl); /* how long an answer of that TTL is used: one of 0 is not a question for each connection, one of years is asked again */
void resolver_no_ipv6(struct resolver *r); /* IPv4 addresses alone are asked for */
/* Others from now on; what is pending is asked again of them. On failure (the list is none) the old ones stay. */
int resolver_servers(struct resolver *r, struct str servers, struct err *err);
void resolver_free(struct resolver *r); /* no lookups may be left */
/* NULL: fn was called already, complete. Names are kept apart by sandbox. */
struct lookup *resolver_lookup(struct resolver *r, uint32_t sandbox, struct str name, lookup_fn *fn, void *arg);
void resolver_cancel(struct lookup *l);

/* --- local.c --- */
struct local;
struct local *local_new(struct loop *l); /* reads now and each minute */
void local_free(struct local *l);
/* True: it is one of ours, or on a network that we are on; *why says so. Also true while that is not known. */
bool local_refuses(const struct local *l, const struct ip *a, const char **why);
bool local_has_global6(const struct local *l);

/* --- source.c --- */
struct sources;
struct msg_dial_source;
struct table;
struct source {
	bool found, operators; /* operators: said in the configuration, so any address but metadata services' */
	struct endpoint to;
	struct ip connect_ip; /* family 0: the name is resolved */
	uint16_t connect_port;
	struct cidr *addresses;
	unsigned address_n;
};
struct sources *sources_new(void);
void sources_free(struct sources *s);
/* URLs, a line each; they replace those of before. Lines that are no URL lead nowhere. */
void sources_set(struct sources *s, uint32_t sandbox, struct str lines);
/* Never NULL. t: the sandbox's table, or NULL. */
struct source *source_new(const struct sources *s, const struct msg_dial_source *q, const struct table *t);
void source_free(const struct source *s); /* NULL is fine */
bool source_address_ok(const struct source *s, const struct ip *a, const char **why);
bool source_addresses_listed(const struct source *s);
#endif
