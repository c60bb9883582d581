/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_LAUNCH_NETLINK_H
#define SP_LAUNCH_NETLINK_H
/*
 * A builder for netlink messages, and the two batches a sandbox needs: rtnetlink (loopback, addresses, AnyIP
 * routes) and nftables (the TPROXY table). Built by hand: libnftables costs 1.0-1.6 ms a call, a batch 0.1 ms.
 * The encoders do no system call.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../common/base/err.h"

#define NETLINK_BATCH_MAX 8192
struct netlink_batch {
	uint8_t b[NETLINK_BATCH_MAX] __attribute__((aligned(4)));
	size_t n;        /* octets used */
	size_t msg;      /* where the open message starts */
	uint32_t seq;    /* of the next message */
	unsigned acks;   /* answers to wait for */
};

void netlink_begin(struct netlink_batch *b, uint16_t type, uint16_t flags, const void *head, size_t head_n);
void netlink_end(struct netlink_batch *b);
void netlink_put(struct netlink_batch *b, uint16_t type, const void *p, size_t n);
void netlink_put_be32(struct netlink_batch *b, uint16_t type, uint32_t v);
void netlink_put_text(struct netlink_batch *b, uint16_t type, const char *s); /* with its NUL */
size_t netlink_nest(struct netlink_batch *b, uint16_t type);
void netlink_nest_end(struct netlink_batch *b, size_t at);

/* lo up; 10.0.2.15/32 and fd00::15/128 on it; every address local, with those as source. lo: its interface index. */
void netlink_encode_links(struct netlink_batch *b, int lo, bool v6);
/*
 * Table inet sallyport: all TCP that is not for the sandbox's own addresses goes to port 3128, port 53 to port 53, and to
 * nobody else when those do not listen. reset: it is answered then, else (a kernel without `reject`) dropped.
 */
void netlink_encode_tproxy(struct netlink_batch *b, bool v6, bool reset);

/* Sends and reads the acknowledgements; protocol: NETLINK_ROUTE or NETLINK_NETFILTER. 0, or -1 with the failed step. */
int netlink_run(int protocol, const struct netlink_batch *b, const char *what, struct err *err);
#endif
