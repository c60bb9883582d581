/* SPDX-License-Identifier: Apache-2.0 */
#include "netlink.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../common/base/must.h"
#include "netns.h"

static void *room(struct netlink_batch *b, size_t n)
{
	size_t aligned = NLMSG_ALIGN(n);
	void *p = b->b + b->n;

	MUST(b->n + aligned <= sizeof(b->b));
	memset(p, 0, aligned);
	b->n += aligned;
	return p;
}

void netlink_begin(struct netlink_batch *b, uint16_t type, uint16_t flags, const void *head, size_t head_n)
{
	struct nlmsghdr *h;

	b->msg = b->n;
	h = room(b, sizeof(*h));
	h->nlmsg_type = type;
	h->nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags);
	h->nlmsg_seq = ++b->seq;
	memcpy(room(b, head_n), head, head_n);
	if (flags & NLM_F_ACK)
		b->acks++;
}

void netlink_end(struct netlink_batch *b)
{
	((struct nlmsghdr *)(void *)(b->b + b->msg))->nlmsg_len = (uint32_t)(b->n - b->msg);
}

void netlink_put(struct netlink_batch *b, uint16_t type, const void *p, size_t n)
{
	struct nlattr *a = room(b, NLA_HDRLEN + n);

	a->nla_type = type;
	a->nla_len = (uint16_t)(NLA_HDRLEN + n);
	if (n > 0)
		memcpy((uint8_t *)a + NLA_HDRLEN, p, n);
}

void netlink_put_be32(struct netlink_batch *b, uint16_t type, uint32_t v)
{
	v = htonl(v);
	netlink_put(b, type, &v, sizeof(v));
}

void netlink_put_text(struct netlink_batch *b, uint16_t type, const char *s) { netlink_put(b, type, s, strlen(s) + 1); }

size_t netlink_nest(struct netlink_batch *b, uint16_t type)
{
	size_t at = b->n;

	netlink_put(b, (uint16_t)(type | NLA_F_NESTED), NULL, 0);
	return at;
}

void netlink_nest_end(struct netlink_batch *b, size_t at)
{
	((struct nlattr *)(void *)(b->b + at))->nla_len = (uint16_t)(b->n - at);
}

static void put_address(struct netlink_batch *b, uint8_t family, const void *addr, size_t n, int lo)
{
	struct ifaddrmsg a = { .ifa_family = family, .ifa_prefixlen = (uint8_t)(n * 8), .ifa_scope = RT_SCOPE_UNIVERSE, .ifa_index = (unsigned)lo };

	if (family == AF_INET6)
		a.ifa_flags = IFA_F_NODAD;
	netlink_begin(b, RTM_NEWADDR, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL, &a, sizeof(a));
	netlink_put(b, IFA_LOCAL, addr, n);
	netlink_put(b, IFA_ADDRESS, addr, n);
	netlink_end(b);
}

/* AnyIP: every address is this host's own, so that what a program dials lands on a listening socket in here. */
static void put_anyip(struct netlink_batch *b, uint8_t family, const void *source, size_t n, int lo)
{
	struct rtmsg r = { .rtm_family = family, .rtm_table = RT_TABLE_LOCAL, .rtm_protocol = RTPROT_BOOT, .rtm_scope = RT_SCOPE_HOST, .rtm_type = RTN_LOCAL };

	netlink_begin(b, RTM_NEWROUTE, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL, &r, sizeof(r));
	netlink_put(b, RTA_OIF, &lo, sizeof(lo));
	netlink_put(b, RTA_PREFSRC, source, n);
	netlink_end(b);
}

void netlink_encode_links(struct netlink_batch *b, int lo, bool v6)
{
	struct ifinfomsg up = { .ifi_family = AF_UNSPEC, .ifi_index = lo, .ifi_flags = IFF_UP_FLAG, .ifi_change = IFF_UP_FLAG };
	struct in_addr a4;
	struct in6_addr a6;

	MUST(inet_pton(AF_INET, NETNS_ADDRESS4, &a4) == 1 && inet_pton(AF_INET6, NETNS_ADDRESS6, &a6) == 1);
	netlink_begin(b, RTM_NEWLINK, NLM_F_ACK, &up, sizeof(up));
	netlink_end(b);
	put_address(b, AF_INET, &a4, sizeof(a4), lo);
	put_anyip(b, AF_INET, &a4, sizeof(a4), lo);
	if (!v6)
		return;
	put_address(b, AF_INET6, &a6, sizeof(a6), lo);
	put_anyip(b, AF_INET6, &a6, sizeof(a6), lo);
}

/* nftables expressions. Registers: 32 bit ones; NFT_REG32_00 for comparisons, NFT_REG_1/NFT_REG_2 for the tproxy target. */

#define NFT_TYPE(t) ((uint16_t)((NFNL_SUBSYS_NFTABLES << 8) | (t)))
#define TABLE "sallyport"
#define CHAIN "prerouting"
#define ANY_PORT 0
#define TCP_FLAGS_AT 13
#define TCP_SYN 0x02
#define TCP_ACK 0x10

static void nft_begin(struct netlink_batch *b, uint16_t type, uint16_t flags)
{
	struct nfgenmsg g = { .nfgen_family = NFPROTO_INET, .version = NFNETLINK_V0 };

	netlink_begin(b, NFT_TYPE(type), flags, &g, sizeof(g));
}

static void nft_fence(struct netlink_batch *b, uint16_t type)
{
	struct nfgenmsg g = { .nfgen_family = AF_UNSPEC, .version = NFNETLINK_V0, .res_id = htons(NFNL_SUBSYS_NFTABLES) };

	netlink_begin(b, type, 0, &g, sizeof(g));
	netlink_end(b);
}

struct rule { /* the nests that are open while one rule is written */
	struct netlink_batch *b;
	size_t list, elem, data;
};

static struct rule rule_begin(struct netlink_batch *b)
{
	struct rule r = { .b = b };

	nft_begin(b, NFT_MSG_NEWRULE, NLM_F_ACK | NLM_F_CREATE | NLM_F_APPEND);
	netlink_put_text(b, NFTA_RULE_TABLE, TABLE);
	netlink_put_text(b, NFTA_RULE_CHAIN, CHAIN);
	r.list = netlink_nest(b, NFTA_RULE_EXPRESSIONS);
	return r;
}

static void rule_end(struct rule *r)
{
	netlink_nest_end(r->b, r->list);
	netlink_end(r->b);
}

static void expr_begin(struct rule *r, const char *name)
{
	r->elem = netlink_nest(r->b, NFTA_LIST_ELEM);
	netlink_put_text(r->b, NFTA_EXPR_NAME, name);
	r->data = netlink_nest(r->b, NFTA_EXPR_DATA);
}

static void expr_end(struct rule *r)
{
	netlink_nest_end(r->b, r->data);
	netlink_nest_end(r->b, r->elem);
}

static void put_data(struct rule *r, uint16_t type, const void *p, size_t n)
{
	size_t v = netlink_nest(r->b, type);

	netlink_put(r->b, NFTA_DATA_VALUE, p, n);
	netlink_nest_end(r->b, v);
}

static void expr_cmp(struct rule *r, const void *p, size_t n)
{
	expr_begin(r, "cmp");
	netlink_put_be32(r->b, NFTA_CMP_SREG, NFT_REG_1);
	netlink_put_be32(r->b, NFTA_CMP_OP, NFT_CMP_EQ);
	put_data(r, NFTA_CMP_DATA, p, n);
	expr_end(r);
}

static void expr_meta_is(struct rule *r, uint32_t key, uint8_t value)
{
	expr_begin(r, "meta");
	netlink_put_be32(r->b, NFTA_META_DREG, NFT_REG_1);
	netlink_put_be32(r->b, NFTA_META_KEY, key);
	expr_end(r);
	expr_cmp(r, &value, sizeof(value));
}

static void expr_payload(struct rule *r, uint32_t base, uint32_t offset, size_t n)
{
	expr_begin(r, "payload");
	netlink_put_be32(r->b, NFTA_PAYLOAD_DREG, NFT_REG_1);
	netlink_put_be32(r->b, NFTA_PAYLOAD_BASE, base);
	netlink_put_be32(r->b, NFTA_PAYLOAD_OFFSET, offset);
	netlink_put_be32(r->b, NFTA_PAYLOAD_LEN, (uint32_t)n);
	expr_end(r);
}

static void expr_payload_is(struct rule *r, uint32_t base, uint32_t offset, const void *p, size_t n)
{
	expr_payload(r, base, offset, n);
	expr_cmp(r, p, n);
}

/* The first segment of a connection: SYN without ACK. */
static void expr_opens(struct rule *r)
{
	uint8_t mask = TCP_SYN | TCP_ACK, none = 0, syn = TCP_SYN;

	expr_payload(r, NFT_PAYLOAD_TRANSPORT_HEADER, TCP_FLAGS_AT, 1);
	expr_begin(r, "bitwise");
	netlink_put_be32(r->b, NFTA_BITWISE_SREG, NFT_REG_1);
	netlink_put_be32(r->b, NFTA_BITWISE_DREG, NFT_REG_1);
	netlink_put_be32(r->b, NFTA_BITWISE_LEN, 1);
	put_data(r, NFTA_BITWISE_MASK, &mask, 1);
	put_data(r, NFTA_BITWISE_XOR, &none, 1);
	expr_end(r);
	expr_cmp(r, &syn, 1);
}

static void expr_load(struct rule *r, uint32_t reg, const void *p, size_t n)
{
	expr_begin(r, "immediate");
	netlink_put_be32(r->b, NFTA_IMMEDIATE_DREG, reg);
	put_data(r, NFTA_IMMEDIATE_DATA, p, n);
	expr_end(r);
}

static void expr_verdict(struct rule *r, uint32_t code)
{
	size_t v, w;

	expr_begin(r, "immediate");
	netlink_put_be32(r->b, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
	v = netlink_nest(r->b, NFTA_IMMEDIATE_DATA);
	w = netlink_nest(r->b, NFTA_DATA_VERDICT);
	netlink_put_be32(r->b, NFTA_VERDICT_CODE, code);
	netlink_nest_end(r->b, w);
	netlink_nest_end(r->b, v);
	expr_end(r);
}

/* Hands the packet to the transparent listening socket on our loopback address; without one the rule does not match. */
static void expr_tproxy(struct rule *r, uint8_t family, uint16_t port)
{
	struct in6_addr lo6 = IN6ADDR_LOOPBACK_INIT;
	struct in_addr lo4 = { htonl(INADDR_LOOPBACK) };
	uint16_t be = htons(port);

	if (family == NFPROTO_IPV4)
		expr_load(r, NFT_REG_1, &lo4, sizeof(lo4));
	else
		expr_load(r, NFT_REG_1, &lo6, sizeof(lo6));
	expr_load(r, NFT_REG_2, &be, sizeof(be));
	expr_begin(r, "tproxy");
	netlink_put_be32(r->b, NFTA_TPROXY_FAMILY, family);
	netlink_put_be32(r->b, NFTA_TPROXY_REG_ADDR, NFT_REG_1);
	netlink_put_be32(r->b, NFTA_TPROXY_REG_PORT, NFT_REG_2);
	expr_end(r);
	expr_verdict(r, NF_ACCEPT);
}

/* TCP of one family, to one port or (0) to any. */
static struct rule rule_tcp(struct netlink_batch *b, uint8_t family, uint16_t port)
{
	struct rule r = rule_begin(b);
	uint16_t be = htons(port);

	expr_meta_is(&r, NFT_META_NFPROTO, family);
	expr_meta_is(&r, NFT_META_L4PROTO, IPPROTO_TCP);
	if (port != 0)
		expr_payload_is(&r, NFT_PAYLOAD_TRANSPORT_HEADER, 2, &be, sizeof(be));
	return r;
}

/*
 * What is dialled goes to our listening socket or, where that does not listen (the gateway is gone), nowhere: it must not
 * fall through to a socket of the payload on that port. Only what opens a connection is turned away, since answers to a
 * client that bound a foreign address come by here too.
 */
static void rule_ours(struct netlink_batch *b, uint8_t family, uint16_t port, uint16_t to, bool reset)
{
	struct rule r = rule_tcp(b, family, port);

	expr_tproxy(&r, family, to);
	rule_end(&r);
	r = rule_tcp(b, family, port);
	expr_opens(&r);
	if (reset) {
		expr_begin(&r, "reject");
		netlink_put_be32(b, NFTA_REJECT_TYPE, NFT_REJECT_TCP_RST);
		expr_end(&r);
	} else {
		expr_verdict(&r, NF_DROP);
	}
	rule_end(&r);
}

static void rule_own(struct netlink_batch *b, uint8_t family, const void *address, size_t n)
{
	struct rule r = rule_begin(b);

	expr_meta_is(&r, NFT_META_NFPROTO, family);
	expr_payload_is(&r, NFT_PAYLOAD_NETWORK_HEADER, family == NFPROTO_IPV4 ? 16 : 24, address, n);
	expr_verdict(&r, NF_ACCEPT);
	rule_end(&r);
}

void netlink_encode_tproxy(struct netlink_batch *b, bool v6, bool reset)
{
	struct in6_addr lo6 = IN6ADDR_LOOPBACK_INIT, a6;
	struct in_addr a4;
	uint8_t net127 = 127;
	size_t hook;

	MUST(inet_pton(AF_INET, NETNS_ADDRESS4, &a4) == 1 && inet_pton(AF_INET6, NETNS_ADDRESS6, &a6) == 1);
	nft_fence(b, NFNL_MSG_BATCH_BEGIN);
	nft_begin(b, NFT_MSG_NEWTABLE, NLM_F_ACK | NLM_F_CREATE);
	netlink_put_text(b, NFTA_TABLE_NAME, TABLE);
	netlink_end(b);
	nft_begin(b, NFT_MSG_NEWCHAIN, NLM_F_ACK | NLM_F_CREATE);
	netlink_put_text(b, NFTA_CHAIN_TABLE, TABLE);
	netlink_put_text(b, NFTA_CHAIN_NAME, CHAIN);
	netlink_put_text(b, NFTA_CHAIN_TYPE, "filter");
	hook = netlink_nest(b, NFTA_CHAIN_HOOK);
	netlink_put_be32(b, NFTA_HOOK_HOOKNUM, NF_INET_PRE_ROUTING);
	netlink_put_be32(b, NFTA_HOOK_PRIORITY, (uint32_t)-150);
	netlink_nest_end(b, hook);
	netlink_end(b);
	/* Ours on every address, the sandbox's own included: else the payload could bind 10.0.2.15:53 or :3128 itself. */
	rule_ours(b, NFPROTO_IPV4, NETNS_DNS_PORT, NETNS_DNS_PORT, reset);
	rule_ours(b, NFPROTO_IPV4, NETNS_PROXY_PORT, NETNS_PROXY_PORT, reset);
	/* The payload's own servers. */
	rule_own(b, NFPROTO_IPV4, &net127, 1);
	rule_own(b, NFPROTO_IPV4, &a4, sizeof(a4));
	/* The rest of the world. */
	rule_ours(b, NFPROTO_IPV4, ANY_PORT, NETNS_PROXY_PORT, reset);
	if (v6) {
		rule_ours(b, NFPROTO_IPV6, NETNS_DNS_PORT, NETNS_DNS_PORT, reset);
		rule_ours(b, NFPROTO_IPV6, NETNS_PROXY_PORT, NETNS_PROXY_PORT, reset);
		rule_own(b, NFPROTO_IPV6, &lo6, sizeof(lo6));
		rule_own(b, NFPROTO_IPV6, &a6, sizeof(a6));
		rule_ours(b, NFPROTO_IPV6, ANY_PORT, NETNS_PROXY_PORT, reset);
	}
	nft_fence(b, NFNL_MSG_BATCH_END);
}

int netlink_run(int protocol, const struct netlink_batch *b, const char *what, struct err *err)
{
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	uint8_t in[8192] __attribute__((aligned(4)));
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol), r = -1;
	unsigned acks = 0;

	if (fd < 0)
		return err_errno(err, "%s: netlink socket", what);
	if (sendto(fd, b->b, b->n, 0, (struct sockaddr *)&kernel, sizeof(kernel)) != (ssize_t)b->n) {
		err_errno(err, "%s: netlink", what);
		goto out;
	}
	while (acks < b->acks) {
		/* Answers are ready when sendto returns: the kernel works in the sender's time. */
		ssize_t n = recv(fd, in, sizeof(in), MSG_DONTWAIT);
		struct nlmsghdr *h = (struct nlmsghdr *)(void *)in;

		if (n < 0) {
			err_errno(err, "%s: netlink answer", what);
			goto out;
		}
		for (size_t left = (size_t)n; NLMSG_OK(h, left); h = NLMSG_NEXT(h, left)) {
			struct nlmsgerr *e = NLMSG_DATA(h);

			if (h->nlmsg_type != NLMSG_ERROR)
				continue;
			if (e->error != 0) {
				errno = -e->error;
				err_errno(err, "%s: step %u", what, h->nlmsg_seq);
				goto out;
			}
			acks++;
		}
	}
	r = 0;
out:
	close(fd);
	return r;
}
