/* SPDX-License-Identifier: Apache-2.0 */
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "../../common/base/must.h"
#include "../../common/sys/log.h"
#include "dialer.h"

#define REFRESH_MS 60000
#define LOCAL_MAX 1024

struct local {
	struct loop *loop;
	struct timer refresh;
	bool known, global6;
	struct cidr *nets; /* own addresses at full length, then the prefixes */
	size_t n;
	struct log_limit said;
};

static bool to_ip(const struct sockaddr *sa, struct ip *out)
{
	memset(out, 0, sizeof(*out));
	if (sa == NULL)
		return false;
	if (sa->sa_family == AF_INET) {
		out->family = 4;
		memcpy(out->b + 12, &((const struct sockaddr_in *)(const void *)sa)->sin_addr, 4);
		return true;
	}
	if (sa->sa_family == AF_INET6) {
		out->family = 6;
		memcpy(out->b, &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr, 16);
		return true;
	}
	return false;
}

static uint8_t mask_bits(const struct ip *mask)
{
	uint8_t bits = 0;

	for (unsigned i = mask->family == 4 ? 12 : 0; i < 16; i++)
		for (int b = 7; b >= 0; b--) {
			if ((mask->b[i] & 1 << b) == 0)
				return bits;
			bits++;
		}
	return bits;
}

static bool add_address(struct local *l, const struct ifaddrs *i, struct cidr **nets, size_t *n)
{
	struct ip a, mask;
	uint8_t full, bits;
	const char *why;

	if (!to_ip(i->ifa_addr, &a))
		return true;
	if (*n + 3 > LOCAL_MAX)
		return false;
	full = a.family == 4 ? 32 : 128;
	bits = full;
	if (to_ip(i->ifa_netmask, &mask))
		bits = mask_bits(&mask);
	*nets = must_realloc(*nets, (*n + 3) * sizeof(**nets));
	(*nets)[(*n)++] = (struct cidr){ a, full };
	/* what is reached without a router; a prefix of no length is a default route written oddly, not a network */
	if (bits > 0 && bits < full)
		(*nets)[(*n)++] = (struct cidr){ a, bits };
	if ((i->ifa_flags & IFF_POINTOPOINT) && to_ip(i->ifa_dstaddr, &a))
		(*nets)[(*n)++] = (struct cidr){ a, full };
	if (a.family == 6 && ip_classify(&a, &why) == IP_PUBLIC)
		l->global6 = true;
	return true;
}

static void refresh(struct timer *t)
{
	struct local *l = (struct local *)((char *)t - offsetof(struct local, refresh));
	struct ifaddrs *all = NULL;
	struct cidr *nets = NULL;
	size_t n = 0;
	bool ok = getifaddrs(&all) == 0;

	if (ok) {
		l->global6 = false;
		for (const struct ifaddrs *i = all; i != NULL && ok; i = i->ifa_next)
			ok = add_address(l, i, &nets, &n);
		freeifaddrs(all);
	}
	if (ok) {
		free(l->nets);
		l->nets = nets;
		l->n = n;
		l->known = true;
	} else {
		/* what was known stays in force */
		log_limited(&l->said, "error: this host's own addresses cannot be read");
		free(nets);
	}
	timer_start(l->loop, &l->refresh, REFRESH_MS, refresh);
}

struct local *local_new(struct loop *loop)
{
	struct local *l = must_calloc(1, sizeof(*l));

	l->loop = loop;
	refresh(&l->refresh);
	return l;
}

void local_free(struct local *l)
{
	if (l == NULL)
		return;
	timer_stop(&l->refresh);
	free(l->nets);
	free(l);
}

bool local_has_global6(const struct local *l) { return l->global6; }

static bool has(const struct cidr *c, const struct ip *a)
{
	struct ip inner;

	return cidr_has(c, a) || (ip_embedded_v4(a, &inner) && cidr_has(c, &inner));
}

bool local_refuses(const struct local *l, const struct ip *a, const char **why)
{
	*why = "this host's own addresses are not known";
	if (!l->known)
		return true;
	for (size_t i = 0; i < l->n; i++) {
		if (!has(&l->nets[i], a))
			continue;
		*why = l->nets[i].bits == (l->nets[i].net.family == 4 ? 32 : 128) ? "an address of this host" : "a network that this host is on";
		return true;
	}
	return false;
}
