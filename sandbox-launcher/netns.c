/* SPDX-License-Identifier: Apache-2.0 */
#include "netns.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "netlink.h"

#define BACKLOG 4096

const char *const netns_socket_kind[NETNS_SOCKETS] = { "proxy4", "proxy6", "dns_tcp4", "dns_tcp6", "dns_udp4", "dns_udp6" };

static const struct row {
	int family, type;
	bool loopback; /* bound to the loopback address, else to any */
	uint16_t port;
} rows[NETNS_SOCKETS] = {
	[NETNS_PROXY4] = { AF_INET, SOCK_STREAM, true, NETNS_PROXY_PORT },
	[NETNS_PROXY6] = { AF_INET6, SOCK_STREAM, true, NETNS_PROXY_PORT },
	[NETNS_DNS_TCP4] = { AF_INET, SOCK_STREAM, false, NETNS_DNS_PORT },
	[NETNS_DNS_TCP6] = { AF_INET6, SOCK_STREAM, false, NETNS_DNS_PORT },
	[NETNS_DNS_UDP4] = { AF_INET, SOCK_DGRAM, false, NETNS_DNS_PORT },
	[NETNS_DNS_UDP6] = { AF_INET6, SOCK_DGRAM, false, NETNS_DNS_PORT },
};

#define LOCAL_CONGESTION "reno" /* built into every kernel */

static int on(int fd, int level, int name)
{
	int one = 1;

	return setsockopt(fd, level, name, &one, sizeof(one));
}

/*
 * Bound without SO_REUSEADDR or SO_REUSEPORT: the payload could share the port. A socket that listens is never shared; what it
 * accepts inherits the option from it, and must have it, or a closed connection that lingers (TIME_WAIT) keeps us from
 * listening again, and a server of the payload from a port that was dialled. So it is set only while we listen. TCP sockets are transparent, or TPROXY would not
 * choose them; the v6 datagram socket is "freebind", or answers from the address that was asked fail.
 */
static int make_socket(const struct row *r)
{
	int fd = socket(r->family, r->type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), e;
	struct sockaddr_in a4 = { .sin_family = AF_INET, .sin_port = htons(r->port), .sin_addr.s_addr = htonl(r->loopback ? INADDR_LOOPBACK : INADDR_ANY) };
	struct sockaddr_in6 a6 = { .sin6_family = AF_INET6, .sin6_port = htons(r->port), .sin6_addr = r->loopback ? (struct in6_addr)IN6ADDR_LOOPBACK_INIT : (struct in6_addr)IN6ADDR_ANY_INIT };
	bool v6 = r->family == AF_INET6, bad;

	if (fd < 0)
		return -1;
	bad = v6 && on(fd, SOL_IPV6, IPV6_V6ONLY) != 0;
	if (r->type == SOCK_STREAM)
		bad = bad || on(fd, v6 ? SOL_IPV6 : SOL_IP, v6 ? IPV6_TRANSPARENT : IP_TRANSPARENT) != 0;
	else if (v6)
		bad = bad || on(fd, SOL_IPV6, IPV6_RECVPKTINFO) != 0 || on(fd, SOL_IPV6, IPV6_FREEBIND) != 0;
	else
		bad = bad || on(fd, SOL_IP, IP_PKTINFO) != 0;
	bad = bad || bind(fd, v6 ? (struct sockaddr *)&a6 : (struct sockaddr *)&a4, v6 ? sizeof(a6) : sizeof(a4)) != 0;
	/* what is accepted inherits it. Both ends are on this machine: nothing is gained by pacing (bbr), which costs timers and processor time */
	bad = bad || (r->type == SOCK_STREAM && setsockopt(fd, SOL_TCP, TCP_CONGESTION, LOCAL_CONGESTION, sizeof(LOCAL_CONGESTION) - 1) != 0);
	bad = bad || (r->type == SOCK_STREAM && (listen(fd, BACKLOG) != 0 || on(fd, SOL_SOCKET, SO_REUSEADDR) != 0));
	if (!bad)
		return fd;
	e = errno;
	close(fd);
	errno = e;
	return -1;
}

static int sysctl_write(const char *path, const char *value, struct err *err)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : write(fd, value, strlen(value));

	if (n < 0) {
		err_errno(err, "cannot write %s to %s", value, path);
		if (fd >= 0)
			close(fd);
		return -1;
	}
	close(fd);
	return 0;
}

static bool have_v6(void)
{
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return errno != EAFNOSUPPORT;
	close(fd);
	return true;
}

int netns_setup(int sockets[NETNS_SOCKETS], bool *transparent, struct err *err)
{
	struct netlink_batch b = { .n = 0 };
	struct err nft = ERR_INIT;
	int lo = (int)if_nametoindex("lo");
	bool v6 = have_v6();

	for (int i = 0; i < NETNS_SOCKETS; i++)
		sockets[i] = -1;
	if (lo <= 0)
		return err_errno(err, "the sandbox's loopback interface");
	netlink_encode_links(&b, lo, v6);
	if (netlink_run(NETLINK_ROUTE, &b, "loopback of the sandbox", err) < 0)
		return -1;
	for (int i = 0; i < NETNS_SOCKETS; i++) {
		if (rows[i].family == AF_INET6 && !v6)
			continue;
		sockets[i] = make_socket(&rows[i]);
		if (sockets[i] < 0)
			return err_errno(err, "cannot make the listening socket %s of the sandbox", netns_socket_kind[i]);
	}
	/* as above, for what the payload sends; always allowed, and a preference only */
	sysctl_write("/proc/sys/net/ipv4/tcp_congestion_control", LOCAL_CONGESTION, &(struct err)ERR_INIT);
	/* Own servers on any port; echo requests unanswered, or AnyIP would let every host in the world answer a ping. */
	if (sysctl_write("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0", err) < 0 || sysctl_write("/proc/sys/net/ipv4/icmp_echo_ignore_all", "1", err) < 0 ||
	    (v6 && sysctl_write("/proc/sys/net/ipv6/icmp/echo_ignore_all", "1", err) < 0))
		return -1;
	*transparent = false;
	for (int reset = 1; reset >= 0 && !*transparent; reset--) {
		b.n = b.acks = b.seq = 0;
		netlink_encode_tproxy(&b, v6, reset);
		*transparent = netlink_run(NETLINK_NETFILTER, &b, "nftables", &nft) == 0;
	}
	return 0;
}

static void refuse(int fd)
{
	int zero = 0;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &zero, sizeof(zero));
	shutdown(fd, SHUT_RD);
}

void netns_refuse(const int sockets[NETNS_SOCKETS])
{
	for (int i = 0; i < NETNS_SOCKETS; i++)
		if (rows[i].type == SOCK_STREAM && sockets[i] >= 0)
			refuse(sockets[i]);
}

/*
 * Between the two calls the payload could bind the port, if it tried without a pause; to profit it must also listen on it
 * first, and then our listen fails.
 */
int netns_revive(const int sockets[NETNS_SOCKETS])
{
	for (int i = 0; i < NETNS_SOCKETS; i++) {
		if (rows[i].type != SOCK_STREAM || sockets[i] < 0)
			continue;
		if (on(sockets[i], SOL_SOCKET, SO_REUSEADDR) != 0 || listen(sockets[i], BACKLOG) != 0) {
			int e = errno;

			netns_refuse(sockets);
			errno = e;
			return -1;
		}
	}
	return 0;
}
