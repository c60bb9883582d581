/* SPDX-License-Identifier: Apache-2.0 */
#include "ip.h"

#include <arpa/inet.h>
#include <string.h>

bool ip_parse(struct str s, struct ip *out)
{
	char t[IP_TEXT_MAX];
	struct ip r = { 0 };

	if (s.n == 0 || s.n >= sizeof(t) || memchr(s.p, 0, s.n) != NULL)
		return false;
	memcpy(t, s.p, s.n);
	t[s.n] = 0;
	if (strchr(t, ':') != NULL) {
		if (inet_pton(AF_INET6, t, r.b) != 1)
			return false;
		r.family = 6;
	} else {
		/* glibc's inet_pton takes dotted quads only, and refuses leading zeros */
		if (inet_pton(AF_INET, t, r.b + 12) != 1)
			return false;
		r.family = 4;
	}
	*out = r;
	return true;
}

void ip_format(const struct ip *a, char out[IP_TEXT_MAX])
{
	out[0] = 0;
	if (a->family == 4)
		inet_ntop(AF_INET, a->b + 12, out, IP_TEXT_MAX);
	else if (a->family == 6)
		inet_ntop(AF_INET6, a->b, out, IP_TEXT_MAX);
}

bool ip_eq(const struct ip *a, const struct ip *b)
{
	return a->family == b->family && memcmp(a->b, b->b, 16) == 0;
}

bool cidr_has(const struct cidr *c, const struct ip *a)
{
	unsigned bits = c->bits;
	const uint8_t *x = c->net.b, *y = a->b;

	if (c->net.family != a->family || a->family == 0 || bits > (a->family == 4 ? 32u : 128u))
		return false;
	if (a->family == 4)
		x += 12, y += 12;
	if (memcmp(x, y, bits / 8) != 0)
		return false;
	return bits % 8 == 0 || ((x[bits / 8] ^ y[bits / 8]) >> (8 - bits % 8)) == 0;
}

bool cidr_parse(struct str s, struct cidr *out)
{
	struct cidr c;
	const char *slash = s.n ? memchr(s.p, '/', s.n) : NULL;
	uint64_t bits;
	unsigned max;
	const uint8_t *p;

	if (!ip_parse(slash ? str_mk(s.p, (size_t)(slash - s.p)) : s, &c.net))
		return false;
	max = c.net.family == 4 ? 32 : 128;
	bits = max;
	if (slash != NULL && !str_u64(str_mk(slash + 1, s.n - (size_t)(slash - s.p) - 1), max, &bits))
		return false;
	c.bits = (uint8_t)bits;
	p = c.net.family == 4 ? c.net.b + 12 : c.net.b;
	for (unsigned i = c.bits; i < max; i++)
		if (p[i / 8] & (0x80 >> (i % 8)))
			return false;
	*out = c;
	return true;
}

bool ip_embedded_v4(const struct ip *a, struct ip *out)
{
	static const uint8_t nat64[12] = { 0, 0x64, 0xff, 0x9b }, zero[12];
	const uint8_t *b = a->b;
	struct ip r = { .family = 4 };

	if (a->family != 6)
		return false;
	if (memcmp(b, zero, 10) == 0 && ((b[10] == 0xff && b[11] == 0xff) || (b[10] == 0 && b[11] == 0))) {
		memcpy(r.b + 12, b + 12, 4); /* mapped ::ffff:0:0/96, compatible ::/96 */
	} else if (memcmp(b, nat64, 12) == 0 || memcmp(b, "\0\x64\xff\x9b\0\1", 6) == 0) {
		memcpy(r.b + 12, b + 12, 4); /* RFC 6052, RFC 8215 */
	} else if (b[0] == 0x20 && b[1] == 0x02) {
		memcpy(r.b + 12, b + 2, 4); /* 6to4, RFC 3056 */
	} else if (memcmp(b, "\x20\x01\0\0", 4) == 0) {
		for (int i = 0; i < 4; i++) /* Teredo client address, RFC 4380 */
			r.b[12 + i] = (uint8_t)~b[12 + i];
	} else if ((b[8] & 0xfd) == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe) {
		memcpy(r.b + 12, b + 12, 4); /* ISATAP, RFC 5214 */
	} else {
		return false;
	}
	*out = r;
	return true;
}

struct range {
	const char *text;
	enum ip_class class;
	const char *what;
};

/* IANA special-purpose registries (RFC 6890 and later), and the metadata services of the large clouds. */
static const struct range ranges[] = {
	{ "169.254.169.254/32", IP_FORBIDDEN_ALWAYS, "metadata service 169.254.169.254" },
	{ "169.254.170.2/32", IP_FORBIDDEN_ALWAYS, "metadata service 169.254.170.2" },
	{ "169.254.169.253/32", IP_FORBIDDEN_ALWAYS, "metadata service 169.254.169.253" },
	{ "100.100.100.200/32", IP_FORBIDDEN_ALWAYS, "metadata service 100.100.100.200" },
	{ "192.0.0.192/32", IP_FORBIDDEN_ALWAYS, "metadata service 192.0.0.192" },
	{ "168.63.129.16/32", IP_FORBIDDEN_ALWAYS, "metadata service 168.63.129.16" },
	{ "fd00:ec2::/32", IP_FORBIDDEN_ALWAYS, "metadata service fd00:ec2::/32" },
	{ "fd20:ce::254/128", IP_FORBIDDEN_ALWAYS, "metadata service fd20:ce::254" },
	{ "0.0.0.0/8", IP_SPECIAL, "this network 0.0.0.0/8" },
	{ "10.0.0.0/8", IP_SPECIAL, "private 10.0.0.0/8" },
	{ "100.64.0.0/10", IP_SPECIAL, "shared 100.64.0.0/10" },
	{ "127.0.0.0/8", IP_SPECIAL, "loopback 127.0.0.0/8" },
	{ "169.254.0.0/16", IP_SPECIAL, "link-local 169.254.0.0/16" },
	{ "172.16.0.0/12", IP_SPECIAL, "private 172.16.0.0/12" },
	{ "192.0.0.0/24", IP_SPECIAL, "protocol assignments 192.0.0.0/24" },
	{ "192.0.2.0/24", IP_SPECIAL, "documentation 192.0.2.0/24" },
	{ "192.88.99.0/24", IP_SPECIAL, "6to4 relay 192.88.99.0/24" },
	{ "192.168.0.0/16", IP_SPECIAL, "private 192.168.0.0/16" },
	{ "198.18.0.0/15", IP_SPECIAL, "benchmarking 198.18.0.0/15" },
	{ "198.51.100.0/24", IP_SPECIAL, "documentation 198.51.100.0/24" },
	{ "203.0.113.0/24", IP_SPECIAL, "documentation 203.0.113.0/24" },
	{ "224.0.0.0/4", IP_SPECIAL, "multicast 224.0.0.0/4" },
	{ "240.0.0.0/4", IP_SPECIAL, "reserved 240.0.0.0/4" },
	{ "::/96", IP_SPECIAL, "unspecified or loopback ::/96" },
	{ "::ffff:0.0.0.0/96", IP_SPECIAL, "mapped ::ffff:0:0/96" },
	{ "64:ff9b::/96", IP_SPECIAL, "NAT64 64:ff9b::/96" },
	{ "64:ff9b:1::/48", IP_SPECIAL, "NAT64 64:ff9b:1::/48" },
	{ "100::/64", IP_SPECIAL, "discard 100::/64" },
	{ "2001::/23", IP_SPECIAL, "protocol assignments 2001::/23" },
	{ "2001:db8::/32", IP_SPECIAL, "documentation 2001:db8::/32" },
	{ "2002::/16", IP_SPECIAL, "6to4 2002::/16" },
	{ "3fff::/20", IP_SPECIAL, "documentation 3fff::/20" },
	{ "5f00::/16", IP_SPECIAL, "segment routing 5f00::/16" },
	{ "fc00::/7", IP_SPECIAL, "private fc00::/7" },
	{ "fe80::/10", IP_SPECIAL, "link-local fe80::/10" },
	{ "fec0::/10", IP_SPECIAL, "site-local fec0::/10" },
	{ "ff00::/8", IP_SPECIAL, "multicast ff00::/8" },
};

static enum ip_class classify_one(const struct ip *a, const char **why)
{
	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		struct cidr c;

		if (cidr_parse(str_of(ranges[i].text), &c) && cidr_has(&c, a)) {
			*why = ranges[i].what;
			return ranges[i].class;
		}
	}
	if (a->family == 6 && (a->b[0] & 0xe0) != 0x20) { /* RFC 4291 2.4: what is global unicast so far */
		*why = "reserved: outside 2000::/3";
		return IP_SPECIAL;
	}
	*why = "public";
	return IP_PUBLIC;
}

enum ip_class ip_classify(const struct ip *a, const char **why)
{
	struct ip inner;
	const char *why_inner;
	enum ip_class c = classify_one(a, why), d;

	if (ip_embedded_v4(a, &inner)) {
		d = classify_one(&inner, &why_inner);
		if (d < c) {
			c = d;
			*why = why_inner;
		}
	}
	return c;
}
