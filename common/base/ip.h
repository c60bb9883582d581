/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_IP_H
#define SP_IP_H
#include <stdbool.h>
#include <stdint.h>

#include "buf.h"
#include "str.h"

/* An address: v4 lives in the last four octets with family 4, v6 with family 6; family 0 = none. Network order. */
struct ip {
	uint8_t family; /* 0, 4 or 6 */
	uint8_t b[16];
};
struct cidr {
	struct ip net;
	uint8_t bits;
};
#define IP_TEXT_MAX 46

/* Strict: dotted quad without leading zeros, or RFC 4291 v6 without zone; v6 without brackets. False otherwise. */
bool ip_parse(struct str s, struct ip *out);
/* "10.0.0.0/8", "fd00::/8", or a bare address (full length). Host bits must be zero. */
bool cidr_parse(struct str s, struct cidr *out);
void ip_format(const struct ip *a, char out[IP_TEXT_MAX]); /* RFC 5952 */
bool ip_eq(const struct ip *a, const struct ip *b);
bool cidr_has(const struct cidr *c, const struct ip *a);
/* The IPv4 address that v6 address *a embeds (mapped, compatible, NAT64, 6to4, Teredo, ISATAP); false if none. */
bool ip_embedded_v4(const struct ip *a, struct ip *out);
enum ip_class {
	IP_FORBIDDEN_ALWAYS = 0, /* metadata services: refused even when listed in `addresses` */
	IP_SPECIAL,              /* private, loopback, link-local, reserved …: only when `addresses` lists it */
	IP_PUBLIC,
};
/* Of the address itself and of an IPv4 address it embeds, the worse; *why names the range ("private 10.0.0.0/8"). */
enum ip_class ip_classify(const struct ip *a, const char **why);
#endif
