/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_LAUNCH_NETNS_H
#define SP_LAUNCH_NETNS_H
/*
 * The network of a sandbox: loopback only. Every address in the world is local in here, and what a program dials lands
 * on the listening sockets that are made here and handed to the gateway.
 */
#include <stdbool.h>

#include "../common/base/err.h"

#define NETNS_ADDRESS4 "10.0.2.15"
#define NETNS_ADDRESS6 "fd00::15"
#define NETNS_PROXY_PORT 3128
#define NETNS_DNS_PORT 53
#define IFF_UP_FLAG 1u /* net/if.h and linux/if.h cannot both be included */

enum netns_socket { NETNS_PROXY4 = 0, NETNS_PROXY6, NETNS_DNS_TCP4, NETNS_DNS_TCP6, NETNS_DNS_UDP4, NETNS_DNS_UDP6, NETNS_SOCKETS };
extern const char *const netns_socket_kind[NETNS_SOCKETS]; /* as the control protocol names them */

/*
 * A kernel without IPv6 has no v6 sockets: those are -1.
 *
 * In a fresh network namespace with CAP_NET_ADMIN over it: links, sockets, sysctls, TPROXY table. 0, or -1.
 * *transparent: whether connections to any address are caught; false when the kernel has no nftables TPROXY, then only
 * the proxy address works and everything else is refused.
 */
int netns_setup(int sockets[NETNS_SOCKETS], bool *transparent, struct err *err);
/* The gateway is gone: connects are refused and the ports stay taken. */
void netns_refuse(const int sockets[NETNS_SOCKETS]);
/* Undoes it: 0, or -1 with errno and as after netns_refuse; EADDRINUSE: somebody inside listens on a port of ours. */
int netns_revive(const int sockets[NETNS_SOCKETS]);
#endif
