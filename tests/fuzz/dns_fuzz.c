/* SPDX-License-Identifier: Apache-2.0 */
/* DNS questions: an answer is never longer than it may be, and answers what was asked. */
#include <stdlib.h>

#include "proxy/http/dns.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct dns_question q;
	uint8_t out[512];
	struct ip a = { .family = 6 };
	size_t k;

	if (dns_parse(p, n, &q) == DNS_DROP)
		return 0;
	k = dns_reply(p, n, &q, DNS_NOERROR, &a, 30, out);
	if (k < 12 || k > 512 || out[0] != p[0] || out[1] != p[1] || !(out[2] & 0x80))
		abort();
	dns_reply(p, n, &q, DNS_RC_NXDOMAIN, NULL, 0, out);
	return 0;
}
