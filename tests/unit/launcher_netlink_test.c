/* SPDX-License-Identifier: Apache-2.0 */
/* Netlink by hand: lengths, alignment and nesting must be right, or the kernel reads something else than was meant. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <string.h>

#include "../../sandbox-launcher/netlink.h"

/* Every attribute lies wholly in its parent; nested ones are walked. Returns how many leaves there are. */
static unsigned walk(const uint8_t *p, size_t n)
{
	unsigned leaves = 0;

	while (n > 0) {
		const struct nlattr *a = (const void *)p;
		size_t len;

		assert_true(n >= NLA_HDRLEN && a->nla_len >= NLA_HDRLEN);
		len = NLA_ALIGN(a->nla_len);
		assert_true(len <= n);
		if (a->nla_type & NLA_F_NESTED)
			leaves += walk(p + NLA_HDRLEN, a->nla_len - NLA_HDRLEN);
		else
			leaves++;
		p += len;
		n -= len;
	}
	return leaves;
}

static size_t fixed_len(const struct nlmsghdr *h)
{
	switch (h->nlmsg_type) {
	case RTM_NEWADDR:
		return sizeof(struct ifaddrmsg);
	case RTM_NEWROUTE:
		return sizeof(struct rtmsg);
	default: /* RTM_NEWLINK has the number of NFNL_MSG_BATCH_BEGIN; that one has no attributes and is no longer than its head */
		return h->nlmsg_type == RTM_NEWLINK && h->nlmsg_len > NLMSG_HDRLEN + sizeof(struct nfgenmsg) ? sizeof(struct ifinfomsg) : sizeof(struct nfgenmsg);
	}
}

static unsigned count(const struct netlink_batch *b, uint16_t type)
{
	unsigned n = 0, wanted = 0, seq = 0;

	for (size_t at = 0; at < b->n;) {
		const struct nlmsghdr *h = (const void *)(b->b + at);
		size_t fixed = NLMSG_HDRLEN + NLMSG_ALIGN(fixed_len(h));

		assert_true(h->nlmsg_len >= fixed && h->nlmsg_len % 4 == 0 && at + h->nlmsg_len <= b->n);
		assert_true(h->nlmsg_flags & NLM_F_REQUEST);
		assert_int_equal(h->nlmsg_seq, ++seq);
		walk(b->b + at + fixed, h->nlmsg_len - fixed);
		n += h->nlmsg_type == type;
		wanted += (h->nlmsg_flags & NLM_F_ACK) != 0;
		at += h->nlmsg_len;
	}
	assert_int_equal(wanted, b->acks);
	return n;
}

static void links(void **state)
{
	struct netlink_batch b = { .n = 0 };

	(void)state;
	netlink_encode_links(&b, 1, true);
	assert_int_equal(count(&b, RTM_NEWADDR), 2);
	assert_int_equal(count(&b, RTM_NEWROUTE), 2);
	assert_int_equal(b.acks, 5);
	b.n = b.acks = b.seq = 0;
	netlink_encode_links(&b, 1, false);
	assert_int_equal(count(&b, RTM_NEWROUTE), 1);
}

static void tproxy(void **state)
{
	struct netlink_batch b = { .n = 0 };
	const struct nlmsghdr *first = (const void *)b.b;

	(void)state;
	netlink_encode_tproxy(&b, true, true);
	assert_int_equal(first->nlmsg_type, NFNL_MSG_BATCH_BEGIN);
	assert_int_equal(count(&b, (NFNL_SUBSYS_NFTABLES << 8) | NFT_MSG_NEWRULE), 16);
	assert_int_equal(count(&b, NFNL_MSG_BATCH_END), 1);
	b.n = b.acks = b.seq = 0;
	netlink_encode_tproxy(&b, false, false);
	assert_int_equal(count(&b, (NFNL_SUBSYS_NFTABLES << 8) | NFT_MSG_NEWRULE), 8);
}

static void nesting(void **state)
{
	struct netlink_batch b = { .n = 0 };
	struct nfgenmsg g = { 0 };
	const struct nlattr *a;
	size_t outer, inner;

	(void)state;
	netlink_begin(&b, 1, 0, &g, sizeof(g));
	outer = netlink_nest(&b, 7);
	inner = netlink_nest(&b, 8);
	netlink_put(&b, 9, "abc", 3);
	netlink_nest_end(&b, inner);
	netlink_nest_end(&b, outer);
	netlink_end(&b);
	assert_int_equal(walk(b.b + NLMSG_HDRLEN + sizeof(g), b.n - NLMSG_HDRLEN - sizeof(g)), 1);
	a = (const void *)(b.b + inner + NLA_HDRLEN);
	assert_int_equal(a->nla_len, NLA_HDRLEN + 3);
	assert_memory_equal((const uint8_t *)a + NLA_HDRLEN, "abc\0", 4); /* padding is zero */
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(links), cmocka_unit_test(tproxy), cmocka_unit_test(nesting) };

	return cmocka_run_group_tests_name("launcher_netlink", tests, NULL, NULL);
}
