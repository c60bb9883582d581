/* SPDX-License-Identifier: Apache-2.0 */
#include "dns.h"

#define HEADER 12
#define QR 0x8000u
#define OPCODE(f) (((f) >> 11) & 15u)

static uint16_t u16(const uint8_t *p) { return (uint16_t)(p[0] << 8 | p[1]); }

enum dns_parse dns_parse(const uint8_t *p, size_t n, struct dns_question *q)
{
	char name[256];
	size_t at = HEADER, len = 0;
	bool host = true;
	const char *reason;

	memset(q, 0, sizeof(*q));
	if (n < HEADER)
		return DNS_DROP;
	q->id = u16(p);
	q->flags = u16(p + 2);
	if (q->flags & QR)
		return DNS_DROP;
	q->question_end = HEADER;
	if (OPCODE(q->flags) != 0)
		return DNS_NOTIMP;
	if (u16(p + 4) != 1 || u16(p + 6) != 0 || u16(p + 8) != 0 || u16(p + 10) > 1)
		return DNS_FORMERR;
	/* the name: labels only, a question has nothing to point at (RFC 1035 4.1.4) */
	for (;;) {
		size_t l;

		if (at >= n)
			return DNS_FORMERR;
		l = p[at++];
		if (l == 0)
			break;
		if (l > 63 || at + l > n || len + l + 1 > 254)
			return DNS_FORMERR;
		for (size_t i = 0; i < l; i++) {
			char c = (char)p[at + i];

			/* a dot inside a label, or anything else no host has: not a host name */
			host = host && c != '.' && c > 0x20 && c != 0x7f;
			name[len++] = c;
		}
		name[len++] = '.';
		at += l;
	}
	if (at + 4 > n)
		return DNS_FORMERR;
	q->qtype = u16(p + at);
	q->qclass = u16(p + at + 2);
	at += 4;
	q->question_end = at;
	if (u16(p + 10) == 1) {
		/* one additional record: EDNS (RFC 6891), root name, type 41 */
		if (at + 11 > n || p[at] != 0 || u16(p + at + 1) != 41)
			return DNS_FORMERR;
		at += 11u + u16(p + at + 9);
		q->edns = at <= n;
	}
	if (at != n)
		return DNS_FORMERR;
	if (q->qclass != 1)
		return DNS_REFUSED;
	if (!host || len == 0 || !canon_host(str_mk(name, len), false, &q->name, &reason))
		q->name.len = 0;
	return DNS_OK;
}

size_t dns_reply(const uint8_t *p, size_t n, const struct dns_question *q, int rcode, const struct ip *addr, uint32_t ttl, uint8_t out[512])
{
	size_t end = q->question_end <= n && q->question_end <= 300 ? q->question_end : HEADER, at;
	bool with_answer = addr != NULL && addr->family != 0;

	if (n < HEADER)
		return 0;
	memcpy(out, p, end);
	/* QR, opcode as asked, AA, RD as asked, RA */
	out[2] = (uint8_t)(0x80 | (p[2] & 0x79) | 0x04);
	out[3] = (uint8_t)(0x80 | (rcode & 15));
	memset(out + 4, 0, 8);
	out[5] = end > HEADER ? 1 : 0;
	out[7] = with_answer ? 1 : 0;
	at = end;
	if (with_answer) {
		size_t rd = addr->family == 4 ? 4 : 16;

		out[at++] = 0xc0; /* the name in the question */
		out[at++] = HEADER;
		out[at++] = 0;
		out[at++] = addr->family == 4 ? DNS_A : DNS_AAAA;
		out[at++] = 0;
		out[at++] = 1;
		out[at++] = (uint8_t)(ttl >> 24);
		out[at++] = (uint8_t)(ttl >> 16);
		out[at++] = (uint8_t)(ttl >> 8);
		out[at++] = (uint8_t)ttl;
		out[at++] = 0;
		out[at++] = (uint8_t)rd;
		memcpy(out + at, addr->b + (addr->family == 4 ? 12 : 0), rd);
		at += rd;
	}
	if (q->edns) {
		static const uint8_t opt[11] = { 0, 0, 41, 0x04, 0xd0 }; /* 1232 octets */

		memcpy(out + at, opt, sizeof(opt));
		at += sizeof(opt);
		out[11] = 1;
	}
	return at;
}
