/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_HTTP_DNS_H
#define SP_HTTP_DNS_H
/* DNS questions from a sandbox (RFC 1035, 6891), I/O-free: one question in, one answer out. */
#include "../../common/base/canon.h"

enum dns_parse { DNS_DROP = 0 /* not a query: no answer */, DNS_FORMERR, DNS_NOTIMP, DNS_REFUSED, DNS_OK };
struct dns_question {
	uint16_t id, qtype, qclass, flags;
	bool edns;
	struct canon_host name; /* canonical; len 0 if the name is not a host name (answer NXDOMAIN) */
	size_t question_end;    /* offset behind the question section */
};
enum { DNS_A = 1, DNS_AAAA = 28, DNS_SVCB = 64, DNS_HTTPS = 65, DNS_ANY = 255 };
enum { DNS_NOERROR = 0, DNS_RC_FORMERR = 1, DNS_RC_SERVFAIL = 2, DNS_RC_NXDOMAIN = 3, DNS_RC_NOTIMP = 4, DNS_RC_REFUSED = 5 };
enum dns_parse dns_parse(const uint8_t *p, size_t n, struct dns_question *q);
/* Writes a reply (<= 512 octets) to query p/q into out; addr family 0 = no answer record. Returns its length. ttl in seconds. */
size_t dns_reply(const uint8_t *p, size_t n, const struct dns_question *q, int rcode, const struct ip *addr, uint32_t ttl, uint8_t out[512]);
#endif
