/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
/*
 * Attempts to get out of a sandbox, made from inside. One line an attempt: GROUP, NAME and what came of it,
 *
 *     refused EPERM       with one of the errors that this wall answers with
 *     odd EFAULT          failed, but not in a way that shows a wall: as bad as open
 *     OPEN                it worked
 *     skipped TEXT        only outside: what would harm the machine the control runs on
 *
 * and at the end of a group "GROUP end N", so that a probe that died half way is not taken for one that was refused.
 * The same program runs outside as a control: what works nowhere proves nothing.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <ftw.h>
#include <limits.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <net/route.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *group;
static int attempts;
static bool control; /* outside, where some attempts would do harm */

/* expected: the errors of the wall, ended by 0. */
static void told(const char *name, long r, const int *expected)
{
	int e = errno;

	attempts++;
	if (r >= 0) {
		printf("%s %s OPEN\n", group, name);
		return;
	}
	for (; *expected; expected++)
		if (*expected == e) {
			printf("%s %s refused %s\n", group, name, strerrorname_np(e));
			return;
		}
	printf("%s %s odd %s\n", group, name, strerrorname_np(e) ? strerrorname_np(e) : "?");
}
#define TRY(name, call, ...) (errno = 0, told(name, (long)(call), (const int[]){ __VA_ARGS__, 0 }))
/* With privileges this would change the machine. */
#define TRY_INSIDE(name, call, ...) \
	do { \
		if (!control) \
			TRY(name, call, __VA_ARGS__); \
		else \
			printf("%s %s skipped outside\n", group, name); \
	} while (0)

static void begin(const char *name)
{
	group = name;
	attempts = 0;
}

static void end(void)
{
	printf("%s end %d\n", group, attempts);
	fflush(stdout);
}

static int once(int fd)
{
	if (fd >= 0)
		close(fd);
	return fd;
}

/* --- sockets: families, types, protocols */

static void sockets(void)
{
	static const struct {
		int family;
		const char *name;
	} named[] = { { AF_PACKET, "packet" }, { 40, "vsock" }, { 38, "alg" }, { 15, "key" }, { 44, "xdp" }, { 31, "bluetooth" }, { 29, "can" }, { 30, "tipc" }, { 21, "rds" }, { 43, "smc" }, { 41, "kcm" }, { 42, "qipcrtr" }, { 45, "mctp" }, { 35, "phonet" }, { 33, "rxrpc" }, { 24, "pppox" }, { 27, "infiniband" }, { 36, "ieee802154" }, { 39, "nfc" } };
	char name[64];

	begin("sockets");
	for (int f = 0; f < 64; f++) {
		bool open = false;
		int e = 0;

		if (f == AF_UNIX || f == AF_INET || f == AF_INET6 || f == AF_NETLINK)
			continue;
		for (int t = 1; t <= 10; t++)
			for (int p = 0; p < 8; p++) {
				if (once(socket(f, t, p)) >= 0)
					open = true;
				else if (errno != EAFNOSUPPORT)
					e = errno;
			}
		snprintf(name, sizeof(name), "family-%d", f);
		for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++)
			if (named[i].family == f)
				snprintf(name, sizeof(name), "family-%s", named[i].name);
		errno = e ? e : EAFNOSUPPORT;
		told(name, open ? 0 : -1, (const int[]){ EAFNOSUPPORT, 0 });
	}
	for (int v6 = 0; v6 < 2; v6++)
		for (int t = 1; t <= 10; t++)
			for (int p = 0; p < 512; p++) {
				int fd = socket(v6 ? AF_INET6 : AF_INET, t, p);
				bool fine = (t == SOCK_STREAM && (p == 0 || p == IPPROTO_TCP)) || (t == SOCK_DGRAM && (p == 0 || p == IPPROTO_UDP));

				once(fd);
				if (fd >= 0 && fine)
					continue;
				if (fd >= 0 || (p < 3 || p == 33 || p == 132 || p == 136 || p >= 255)) {
					if (p > 263)
						continue;
					snprintf(name, sizeof(name), "inet%s-type%d-protocol%d", v6 ? "6" : "", t, p);
					told(name, fd, (const int[]){ EPERM, 0 });
				}
			}
	TRY("icmp", once(socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP)), EPERM);
	TRY("icmp6", once(socket(AF_INET6, SOCK_DGRAM, IPPROTO_ICMPV6)), EPERM);
	TRY("raw", once(socket(AF_INET, SOCK_RAW, IPPROTO_RAW)), EPERM);
	TRY("raw6", once(socket(AF_INET6, SOCK_RAW, IPPROTO_RAW)), EPERM);
	TRY("sctp", once(socket(AF_INET, SOCK_SEQPACKET, 132)), EPERM);
	TRY("sctp-of-protocol-0", once(socket(AF_INET, SOCK_SEQPACKET, 0)), EPERM);
	TRY("dccp", once(socket(AF_INET, 6, 33)), EPERM);
	TRY("udplite", once(socket(AF_INET, SOCK_DGRAM, 136)), EPERM);
	TRY("mptcp", once(socket(AF_INET, SOCK_STREAM, 262)), EPERM);
	TRY("smc-over-inet", once(socket(AF_INET, SOCK_STREAM, 256)), EPERM);
	TRY("upper-half-of-the-family", once((int)syscall(__NR_socket, 0x100000000ULL | AF_PACKET, SOCK_RAW, 0)), EAFNOSUPPORT);
	TRY("upper-half-of-the-protocol", once((int)syscall(__NR_socket, AF_INET, SOCK_STREAM, 0x100000000ULL | 262)), EPERM);
	TRY("pair-of-inet", socketpair(AF_INET, SOCK_STREAM, 0, (int[2]){ 0 }), EAFNOSUPPORT);
	TRY("pair-of-tipc", socketpair(30, SOCK_STREAM, 0, (int[2]){ 0 }), EAFNOSUPPORT);
	end();

	begin("netlink");
	for (int p = 1; p < 64; p++) {
		snprintf(name, sizeof(name), "protocol-%d", p);
		TRY(name, once(socket(AF_NETLINK, SOCK_RAW, p)), EPERM);
	}
	TRY("protocol-4-by-its-upper-half", once((int)syscall(__NR_socket, AF_NETLINK, SOCK_RAW, 0x100000000ULL | 4)), EPERM);
	end();
	printf("netlink-routing %s\n", once(socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE)) >= 0 ? "opens" : "does not open");
}

/* --- changes of the network, options of sockets */

struct rt {
	struct nlmsghdr h;
	union {
		struct ifaddrmsg a;
		struct rtmsg r;
		struct ifinfomsg i;
		char room[512];
	} u;
};

static void rt_attr(struct rt *m, uint16_t type, const void *p, size_t n)
{
	struct rtattr *a = (struct rtattr *)(void *)((char *)m + NLMSG_ALIGN(m->h.nlmsg_len));

	a->rta_type = type;
	a->rta_len = (uint16_t)RTA_LENGTH(n);
	memcpy(RTA_DATA(a), p, n);
	m->h.nlmsg_len = (uint32_t)(NLMSG_ALIGN(m->h.nlmsg_len) + RTA_ALIGN(a->rta_len));
}

static int rt_ask(struct rt *m)
{
	int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
	struct {
		struct nlmsghdr h;
		struct nlmsgerr e;
		char room[1024];
	} in;
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };

	m->h.nlmsg_flags |= NLM_F_REQUEST | NLM_F_ACK;
	if (fd < 0 || sendto(fd, m, m->h.nlmsg_len, 0, (struct sockaddr *)&kernel, sizeof(kernel)) < 0 || recv(fd, &in, sizeof(in), 0) < 0) {
		once(fd);
		errno = EIO;
		return -1;
	}
	close(fd);
	if (in.h.nlmsg_type != NLMSG_ERROR) {
		errno = EIO;
		return -1;
	}
	errno = -in.e.error;
	return in.e.error ? -1 : 0;
}

static struct rt rt_make(uint16_t type, uint16_t flags, size_t body)
{
	struct rt m = { 0 };

	m.h = (struct nlmsghdr){ .nlmsg_len = (uint32_t)NLMSG_LENGTH(body), .nlmsg_type = type, .nlmsg_flags = flags };
	return m;
}

static void change_network(void)
{
	struct in_addr a = { inet_addr("192.0.2.77") };
	struct ifreq ifr = { .ifr_name = "lo" };
	struct rtentry rte = { .rt_flags = RTF_UP };
	int lo = (int)if_nametoindex("lo"), fd = socket(AF_INET, SOCK_DGRAM, 0), fd6 = socket(AF_INET6, SOCK_DGRAM, 0), tcp = socket(AF_INET, SOCK_STREAM, 0), nl = socket(AF_NETLINK, SOCK_RAW, 0), one = 1, mark = 7, big = 1 << 20;
	struct rt m;

	begin("network");
	m = rt_make(RTM_NEWADDR, NLM_F_CREATE, sizeof(m.u.a));
	m.u.a = (struct ifaddrmsg){ .ifa_family = AF_INET, .ifa_prefixlen = 32, .ifa_index = (unsigned)lo };
	rt_attr(&m, IFA_LOCAL, &a, sizeof(a));
	TRY("new-address", rt_ask(&m), EPERM);
	m.h.nlmsg_type = RTM_DELADDR;
	m.h.nlmsg_flags = 0;
	TRY("delete-address", rt_ask(&m), EPERM);
	m = rt_make(RTM_NEWROUTE, NLM_F_CREATE, sizeof(m.u.r));
	m.u.r = (struct rtmsg){ .rtm_family = AF_INET, .rtm_table = RT_TABLE_MAIN, .rtm_type = RTN_UNICAST, .rtm_scope = RT_SCOPE_LINK };
	rt_attr(&m, RTA_OIF, &lo, sizeof(lo));
	TRY("new-route", rt_ask(&m), EPERM);
	m = rt_make(RTM_DELROUTE, 0, sizeof(m.u.r));
	m.u.r = (struct rtmsg){ .rtm_family = AF_INET, .rtm_table = RT_TABLE_LOCAL, .rtm_type = RTN_LOCAL, .rtm_scope = RT_SCOPE_HOST };
	TRY_INSIDE("delete-route", rt_ask(&m), EPERM);
	m = rt_make(RTM_NEWRULE, NLM_F_CREATE, sizeof(m.u.r));
	m.u.r = (struct rtmsg){ .rtm_family = AF_INET, .rtm_table = RT_TABLE_MAIN, .rtm_type = RTN_UNICAST };
	TRY("new-rule", rt_ask(&m), EPERM);
	m = rt_make(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, sizeof(m.u.i));
	{
		char nest[16] = { 0 };
		struct rtattr *kind = (struct rtattr *)(void *)nest;

		kind->rta_type = IFLA_INFO_KIND;
		kind->rta_len = RTA_LENGTH(4);
		memcpy(RTA_DATA(kind), "veth", 4);
		rt_attr(&m, IFLA_IFNAME, "walls9", 7);
		rt_attr(&m, IFLA_LINKINFO, nest, RTA_ALIGN(kind->rta_len));
	}
	TRY("new-link", rt_ask(&m), EPERM);
	m = rt_make(RTM_NEWLINK, 0, sizeof(m.u.i));
	m.u.i = (struct ifinfomsg){ .ifi_index = lo, .ifi_change = IFF_UP };
	TRY_INSIDE("link-down", rt_ask(&m), EPERM);
	m = rt_make(RTM_NEWNEIGH, NLM_F_CREATE, 12);
	TRY("new-neighbour", rt_ask(&m), EPERM);
	m = rt_make(RTM_NEWQDISC, NLM_F_CREATE, 20);
	TRY("new-qdisc", rt_ask(&m), EPERM);
	m = rt_make(RTM_NEWNSID, 0, 1);
	TRY_INSIDE("new-nsid", rt_ask(&m), EPERM, EINVAL);

	ifr.ifr_flags = 0;
	TRY_INSIDE("ioctl-link-down", ioctl(fd, SIOCSIFFLAGS, &ifr), EPERM);
	*(struct sockaddr_in *)(void *)&ifr.ifr_addr = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr = a };
	TRY_INSIDE("ioctl-address", ioctl(fd, SIOCSIFADDR, &ifr), EPERM);
	*(struct sockaddr_in *)(void *)&rte.rt_dst = (struct sockaddr_in){ .sin_family = AF_INET };
	*(struct sockaddr_in *)(void *)&rte.rt_gateway = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr = a };
	TRY_INSIDE("ioctl-route", ioctl(fd, SIOCADDRT, &rte), EPERM);
	TRY("ioctl-bridge", ioctl(fd, 0x89a0 /* SIOCBRADDBR */, "walls8"), EPERM, ENOPKG, ENOTTY);

	TRY("so-mark", setsockopt(fd, SOL_SOCKET, SO_MARK, &mark, sizeof(mark)), EPERM);
	TRY("ip-transparent", setsockopt(fd, SOL_IP, IP_TRANSPARENT, &one, sizeof(one)), EPERM);
	TRY("ip-transparent-tcp", setsockopt(tcp, SOL_IP, IP_TRANSPARENT, &one, sizeof(one)), EPERM);
	TRY("ipv6-transparent", setsockopt(fd6, SOL_IPV6, 75 /* IPV6_TRANSPARENT */, &one, sizeof(one)), EPERM);
	TRY("so-bindtodevice-eth0", setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "eth0", 5), ENODEV);
	TRY("so-bindtodevice-uplink", setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "uplink", 7), ENODEV);
	TRY("ip-multicast-uplink", setsockopt(fd, SOL_IP, IP_MULTICAST_IF, &(struct ip_mreqn){ .imr_ifindex = 3 }, sizeof(struct ip_mreqn)), EADDRNOTAVAIL);
	TRY("ip-unicast-if", setsockopt(fd, SOL_IP, 50 /* IP_UNICAST_IF */, &(int){ (int)htonl(3) }, sizeof(int)), EADDRNOTAVAIL);
	TRY("so-rcvbufforce", setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &big, sizeof(big)), EPERM);
	TRY("so-debug", setsockopt(fd, SOL_SOCKET, SO_DEBUG, &one, sizeof(one)), EACCES);
	TRY("tcp-repair", setsockopt(tcp, SOL_TCP, TCP_REPAIR, &one, sizeof(one)), EPERM);
	TRY("ip-xfrm-policy", setsockopt(fd, SOL_IP, IP_XFRM_POLICY, "", 1), EPERM, ENOPROTOOPT, EOPNOTSUPP);
	TRY("iptables-set", setsockopt(fd, SOL_IP, 64, &big, sizeof(big)), EPERM, ENOPROTOOPT);
	TRY("tcp-ulp-smc", setsockopt(tcp, SOL_TCP, 31 /* TCP_ULP */, "smc", 3), ENOENT, EPERM, EINVAL);
	TRY("netlink-all-namespaces", setsockopt(nl, 270, 8 /* NETLINK_LISTEN_ALL_NSID */, &one, sizeof(one)), EPERM);
	/* How many interfaces there are at all. */
	attempts++;
	{
		struct if_nameindex *list = if_nameindex();
		int n = 0;

		while (list != NULL && list[n].if_index != 0)
			n++;
		printf("network interfaces %s\n", n == 1 && strcmp(list[0].if_name, "lo") == 0 ? "refused only-lo" : "OPEN");
	}
	end();
	once(fd);
	once(fd6);
	once(tcp);
	once(nl);
}

/* --- packets: every way to send one, to many places. What the sniffer outside sees decides; here only what came back. */

static const char *const places4[] = { "127.0.0.1", "127.0.0.53", "10.0.2.2", "10.0.2.3", "10.0.2.15", "169.254.169.254", "192.0.2.1", "192.0.2.2", "198.51.100.9", "198.18.0.1", "8.8.8.8", "172.17.0.1", "192.168.1.1", "224.0.0.251", "255.255.255.255" };
static const char *const places6[] = { "::1", "fd00::15", "2001:db8::1", "2001:db8::2", "2001:4860:4860::8888", "fe80::1", "fd00:ec2::254", "64:ff9b::808:808", "::ffff:8.8.8.8", "ff02::fb" };

static socklen_t place(bool v6, unsigned i, unsigned port, struct sockaddr_storage *ss)
{
	struct sockaddr_in *a = (struct sockaddr_in *)(void *)ss;
	struct sockaddr_in6 *b = (struct sockaddr_in6 *)(void *)ss;

	memset(ss, 0, sizeof(*ss));
	if (!v6) {
		*a = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
		inet_pton(AF_INET, places4[i], &a->sin_addr);
		return sizeof(*a);
	}
	*b = (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port) };
	inet_pton(AF_INET6, places6[i], &b->sin6_addr);
	if (places6[i][0] == 'f' && (places6[i][1] == 'e' || places6[i][1] == 'f'))
		b->sin6_scope_id = if_nametoindex("lo");
	return sizeof(*b);
}

/* UDP in every manner; an answer that is not from port 53 of the gateway is a way out. */
static void datagrams(const unsigned *ports, unsigned port_n)
{
	unsigned sent = 0, answered = 0;

	begin("datagrams");
	for (unsigned v6 = 0; v6 < 2; v6++)
		for (unsigned i = 0; i < (v6 ? sizeof(places6) / sizeof(places6[0]) : sizeof(places4) / sizeof(places4[0])); i++)
			for (unsigned k = 0; k < port_n; k++) {
				struct sockaddr_storage to;
				socklen_t n = place(v6, i, ports[k], &to);
				int fd = socket(v6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0), one = 1;
				struct iovec iov = { (void *)(uintptr_t) "walls-datagram", 14 };
				struct mmsghdr mm = { .msg_hdr = { .msg_name = &to, .msg_namelen = n, .msg_iov = &iov, .msg_iovlen = 1 } };
				char in[64];

				if (ports[k] == 53)
					continue;
				setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &one, sizeof(one));
				sent += sendto(fd, "walls-datagram", 14, 0, (struct sockaddr *)&to, n) > 0;
				sent += sendmsg(fd, &mm.msg_hdr, 0) > 0;
				sent += sendmmsg(fd, &mm, 1, 0) > 0;
				sent += sendto(fd, "walls-datagram", 14, MSG_DONTROUTE, (struct sockaddr *)&to, n) > 0;
				if (connect(fd, (struct sockaddr *)&to, n) == 0)
					sent += send(fd, "walls-datagram", 14, 0) > 0;
				poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, 0);
				answered += recv(fd, in, sizeof(in), 0) > 0;
				close(fd);
			}
	attempts++;
	printf("datagrams answers %s of %u sent\n", answered ? "OPEN" : "refused none", sent);
	end();
	printf("datagrams-sent %u\n", sent);
}

/* TCP in every manner: whatever accepts must be the gateway, which has nothing to say to "walls" but to close or refuse. */
static void streams(const unsigned *ports, unsigned port_n)
{
	enum { MAX = 2048 };
	static struct pollfd fds[MAX];
	static char first[MAX][13], what[MAX][80];
	unsigned n = 0, left, closed = 0, refused = 0, answered = 0, foreign = 0;

	begin("streams");
	for (unsigned way = 0; way < 3; way++)
		for (unsigned v6 = 0; v6 < 2; v6++)
			for (unsigned i = 0; i < (v6 ? sizeof(places6) / sizeof(places6[0]) : sizeof(places4) / sizeof(places4[0])); i++)
				for (unsigned k = 0; k < port_n && n < MAX; k++) {
					struct sockaddr_storage to;
					socklen_t len = place(v6, i, ports[k], &to);
					int fd, one = 1, r;

					if (way > 0 && k > 3)
						break; /* fast open differs by the call, not by the port */
					fd = socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
					if (fd < 0)
						continue;
					snprintf(what[n], sizeof(what[n]), "%s port %u", v6 ? places6[i] : places4[i], ports[k]);
					if (way == 1) {
						r = (int)sendto(fd, "SSH-2.0-walls\r\n", 15, MSG_FASTOPEN, (struct sockaddr *)&to, len);
					} else {
						if (way == 2)
							setsockopt(fd, SOL_TCP, 30 /* TCP_FASTOPEN_CONNECT */, &one, sizeof(one));
						r = connect(fd, (struct sockaddr *)&to, len);
					}
					if (r < 0 && errno != EINPROGRESS) {
						refused++;
						close(fd);
						continue;
					}
					fds[n++] = (struct pollfd){ .fd = fd, .events = POLLOUT };
				}
	left = n;
	for (time_t until = time(NULL) + 20; left > 0 && time(NULL) < until;) {
		if (poll(fds, n, 1000) <= 0)
			continue;
		for (unsigned i = 0; i < n; i++) {
			ssize_t got;

			if (fds[i].fd < 0 || !fds[i].revents)
				continue;
			if (fds[i].events == POLLOUT) {
				if (send(fds[i].fd, "SSH-2.0-walls\r\n\r\n", 17, MSG_NOSIGNAL) < 0) {
					refused++;
					goto done;
				}
				shutdown(fds[i].fd, SHUT_WR);
				fds[i].events = POLLIN;
				continue;
			}
			got = recv(fds[i].fd, first[i], 12, MSG_DONTWAIT);
			if (got < 0 && errno == EAGAIN)
				continue;
			if (got <= 0) {
				closed++;
			} else if (memcmp(first[i], "HTTP/1.1 4", 10) == 0) {
				answered++;
			} else {
				foreign++;
				printf("streams %s OPEN answers %.12s\n", what[i], first[i]);
			}
		done:
			close(fds[i].fd);
			fds[i].fd = -1;
			left--;
		}
	}
	attempts++;
	printf("streams answers %s: %u connected of which %u closed, %u told no; %u refused, %u never ended\n", foreign ? "OPEN" : left ? "odd"
																	: "refused by-the-gateway",
	       n, closed, answered, refused, left);
	end();
	printf("streams-tried %u\n", n + refused);
}

/* --- the kernel: everything that a seccomp filter, missing capabilities or namespaces keep away */

static int by_thread_of_namespace(int flags)
{
	pid_t p = (pid_t)syscall(__NR_clone, (unsigned long)(flags | SIGCHLD), 0, 0, 0, 0);

	if (p == 0)
		_exit(0);
	if (p > 0)
		waitpid(p, NULL, 0);
	return p;
}

static int clone3_namespace(unsigned long long flags)
{
	struct {
		uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size, cgroup;
	} a = { .flags = flags, .exit_signal = SIGCHLD };
	pid_t p = (pid_t)syscall(__NR_clone3, &a, sizeof(a));

	if (p == 0)
		_exit(0);
	if (p > 0)
		waitpid(p, NULL, 0);
	return p;
}

/* A new process tries it, so that what works does not change us. */
static int in_child(long (*f)(void))
{
	int p[2], r[2] = { -1, EIO }; /* result, errno */
	pid_t pid;

	if (pipe(p) != 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		errno = 0;
		r[0] = (int)f();
		r[1] = errno;
		(void)!write(p[1], r, sizeof(r));
		_exit(0);
	}
	close(p[1]);
	if (read(p[0], r, sizeof(r)) != sizeof(r))
		r[1] = ECHILD;
	close(p[0]);
	waitpid(pid, NULL, 0);
	errno = r[1];
	return r[0];
}

static long do_traceme(void) { return ptrace(PTRACE_TRACEME, 0, 0, 0); }
static long do_setuid0(void) { return setuid(0); }
static long do_setresuid(void) { return setresuid(1, 1, 1); }
static long do_setgid0(void) { return setgid(0); }
static long do_setgroups(void) { return setgroups(1, (gid_t[]){ 0 }); }
static long do_unshare_user(void) { return unshare(CLONE_NEWUSER); }
static long do_unshare_net(void) { return unshare(CLONE_NEWNET); }
static long do_unshare_mnt(void) { return unshare(CLONE_NEWNS); }
static long do_unshare_pid(void) { return unshare(CLONE_NEWPID); }
static long do_unshare_ipc(void) { return unshare(CLONE_NEWIPC); }
static long do_unshare_uts(void) { return unshare(CLONE_NEWUTS); }
static long do_unshare_cgroup(void) { return unshare(CLONE_NEWCGROUP); }
static long do_unshare_time(void) { return unshare(0x80); }
static long do_chroot(void) { return chroot("/tmp"); }
static long do_setns(void)
{
	int fd = open("/proc/self/ns/net", O_RDONLY);

	return fd < 0 ? -2 : setns(fd, 0);
}
static long do_setns_init(void)
{
	int fd = (int)syscall(__NR_pidfd_open, getppid(), 0);

	return fd < 0 ? -2 : setns(fd, CLONE_NEWNET | CLONE_NEWNS);
}

/* A foreign system call convention would pass a filter that looks at numbers only. -1 ENOSYS: the child was killed or it did not work. */
static int by_int80(void)
{
#ifdef __x86_64__
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		int r;

		__asm__ volatile("int $0x80"
				 : "=a"(r)
				 : "a"(20 /* getpid of i386 */)
				 : "memory", "r8", "r9", "r10", "r11");
		_exit(r > 0 ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	errno = ENOSYS;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
#else
	errno = ENOSYS;
	return -1;
#endif
}

static int terminal_ioctl(unsigned long request, const void *arg)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY), slave = -1, r = -1, e;

	if (master < 0)
		return -2;
	grantpt(master);
	unlockpt(master);
	slave = open(ptsname(master), O_RDWR | O_NOCTTY);
	errno = EIO;
	if (slave >= 0) {
		signal(SIGHUP, SIG_IGN);
		setsid();
		ioctl(slave, TIOCSCTTY, 0);
		errno = 0;
		r = ioctl(slave, request, arg);
	}
	e = errno;
	once(slave);
	close(master);
	errno = e;
	return r;
}

static long do_tiocsti(void) { return terminal_ioctl(TIOCSTI, "x"); }
static long do_tioclinux(void) { return terminal_ioctl(TIOCLINUX, "\3"); }
static long do_tiocsetd(void) { return terminal_ioctl(TIOCSETD, &(int){ 2 }); }
static long do_tiocsti_high(void) { return terminal_ioctl(0x100000000UL | TIOCSTI, "x"); }

static void kernel(void)
{
	static char page[4096];
	struct iovec iov = { page, 8 };
	pid_t other = fork();
	int self_fd, fd;

	if (other == 0) {
		pause();
		_exit(0);
	}
	begin("kernel");
	/* rings: also the way to connect without connect */
	TRY("io-uring-setup", once((int)syscall(425, 8, page)), ENOSYS, EPERM);
	TRY("io-uring-enter", syscall(426, -1, 1, 0, 0, NULL, 0), ENOSYS, EPERM);
	TRY("io-uring-register", syscall(427, -1, 0, NULL, 0), ENOSYS, EPERM);
	/* other processes */
	self_fd = (int)syscall(__NR_pidfd_open, other, 0);
	fd = (int)syscall(__NR_pidfd_open, 1, 0);
	TRY("pidfd-getfd-of-a-child", once((int)syscall(438, self_fd, 1, 0)), EPERM);
	TRY("pidfd-getfd-of-pid-1", once((int)syscall(438, fd, 0, 0)), EPERM);
	TRY("ptrace-traceme", in_child(do_traceme), EPERM);
	TRY_INSIDE("ptrace-attach-pid-1", ptrace(PTRACE_ATTACH, 1, 0, 0), EPERM);
	TRY("ptrace-seize-child", ptrace(PTRACE_SEIZE, other, 0, 0), EPERM);
	TRY("process-vm-readv-child", process_vm_readv(other, &iov, 1, &(struct iovec){ page, 8 }, 1, 0), EPERM);
	TRY("process-vm-writev-child", process_vm_writev(other, &iov, 1, &(struct iovec){ page, 8 }, 1, 0), EPERM);
	TRY_INSIDE("process-vm-readv-pid-1", process_vm_readv(1, &iov, 1, &(struct iovec){ page, 8 }, 1, 0), EPERM);
	TRY("kcmp", syscall(__NR_kcmp, getpid(), other, 0, 0, 0), EPERM);
	/* keyrings */
	TRY("keyctl-session", syscall(__NR_keyctl, 0, -3, 1), EPERM);
	TRY("add-key", syscall(__NR_add_key, "user", "walls", "x", 1, -2), EPERM);
	TRY("request-key", syscall(__NR_request_key, "user", "walls", NULL, -2), EPERM);
	/* programs for the kernel, observation of it */
	TRY("bpf", once((int)syscall(__NR_bpf, 0, (uint32_t[32]){ 2, 4, 4, 1 }, 72)), EPERM);
	TRY("perf-event-open", once((int)syscall(__NR_perf_event_open, (uint32_t[32]){ 1, 120, 0 }, 0, -1, -1, 0)), EPERM);
	TRY("userfaultfd", once((int)syscall(__NR_userfaultfd, 1 /* USER_MODE_ONLY */)), EPERM);
	TRY("fanotify-init", once((int)syscall(__NR_fanotify_init, 0x200 /* FAN_REPORT_FID */, 0)), EPERM);
	TRY("syslog", syscall(__NR_syslog, 10, NULL, 0), EPERM);
	TRY("memfd-secret", once((int)syscall(447, 0)), EPERM);
	/* handles: files by number */
	TRY("name-to-handle-at", syscall(__NR_name_to_handle_at, AT_FDCWD, "/", (uint32_t[64]){ 128 }, &(int){ 0 }, 0), EPERM);
	TRY("open-by-handle-at", once((int)syscall(__NR_open_by_handle_at, open("/", O_RDONLY), (uint32_t[64]){ 8, 1, 2, 0 }, O_RDONLY)), EPERM);
	/* the machine */
	TRY_INSIDE("kexec-load", syscall(__NR_kexec_load, 0, 0, NULL, 0), EPERM);
	TRY_INSIDE("kexec-file-load", syscall(__NR_kexec_file_load, -1, -1, 0, "", 0), EPERM);
	TRY_INSIDE("init-module", syscall(__NR_init_module, page, 8, ""), EPERM);
	TRY_INSIDE("finit-module", syscall(__NR_finit_module, -1, "", 0), EPERM);
	TRY_INSIDE("delete-module", syscall(__NR_delete_module, "walls", 0), EPERM);
	TRY_INSIDE("reboot", syscall(__NR_reboot, 0xfee1dead, 672274793, 0, NULL), EPERM);
	TRY_INSIDE("settimeofday", syscall(__NR_settimeofday, &(struct timeval){ 1, 0 }, NULL), EPERM);
	TRY_INSIDE("clock-settime", syscall(__NR_clock_settime, 0, &(struct timespec){ 1, 0 }), EPERM);
	TRY_INSIDE("adjtimex", syscall(__NR_adjtimex, page), EPERM);
	TRY_INSIDE("swapon", syscall(__NR_swapon, "/tmp/walls", 0), EPERM);
	TRY_INSIDE("swapoff", syscall(__NR_swapoff, "/tmp/walls"), EPERM);
	TRY_INSIDE("acct", syscall(__NR_acct, "/tmp/walls"), EPERM);
	TRY_INSIDE("quotactl", syscall(__NR_quotactl, 0, NULL, 0, NULL), EPERM);
	TRY_INSIDE("vhangup", syscall(__NR_vhangup), EPERM);
	TRY_INSIDE("sethostname", sethostname("walls", 5), EPERM);
	TRY_INSIDE("setdomainname", setdomainname("walls", 5), EPERM);
#ifdef __x86_64__
	TRY_INSIDE("iopl", syscall(__NR_iopl, 3), EPERM);
	TRY_INSIDE("ioperm", syscall(__NR_ioperm, 0x80, 1, 1), EPERM);
	TRY("modify-ldt", syscall(__NR_modify_ldt, 0, page, 16), EPERM);
	TRY("x32-getpid", syscall(0x40000000 | __NR_getpid), ENOSYS);
	TRY("x32-socket-packet", syscall(0x40000000 | __NR_socket, AF_PACKET, SOCK_RAW, 0), ENOSYS);
	TRY("x32-ptrace", syscall(0x40000000 | 521, 16, 1, 0, 0), ENOSYS);
	TRY("i386-call", by_int80(), ENOSYS);
#endif
	TRY("personality-uname26", syscall(__NR_personality, 0x0020000), EPERM);
	/* identity */
	TRY_INSIDE("setuid-0", in_child(do_setuid0), EPERM, EINVAL);
	TRY_INSIDE("setresuid-1", in_child(do_setresuid), EPERM, EINVAL);
	TRY_INSIDE("setgid-0", in_child(do_setgid0), EPERM, EINVAL);
	TRY_INSIDE("setgroups", in_child(do_setgroups), EPERM, EINVAL);
	TRY_INSIDE("capset", syscall(__NR_capset, (uint32_t[]){ 0x20080522, 0 }, (uint32_t[]){ ~0U, ~0U, ~0U, ~0U, ~0U, ~0U }), EPERM);
	TRY_INSIDE("ambient-capability", prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, 21, 0, 0), EPERM);
	TRY_INSIDE("new-privileges", prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0), EINVAL);
	TRY_INSIDE("raise-the-process-limit", setrlimit(RLIMIT_CORE, &(struct rlimit){ 1 << 20, 1 << 20 }), EPERM);
	TRY_INSIDE("nice-minus-20", setpriority(PRIO_PROCESS, 0, -20), EACCES, EPERM);
	/* the terminal */
	TRY("tiocsti", in_child(do_tiocsti), EPERM);
	TRY("tiocsti-with-upper-half", in_child(do_tiocsti_high), EPERM);
	TRY("tioclinux", in_child(do_tioclinux), EPERM);
	TRY("tiocsetd", in_child(do_tiocsetd), EPERM);
	end();
	kill(other, SIGKILL);
	waitpid(other, NULL, 0);

	begin("namespaces");
	TRY("unshare-user", in_child(do_unshare_user), EPERM);
	TRY("unshare-net", in_child(do_unshare_net), EPERM);
	TRY("unshare-mount", in_child(do_unshare_mnt), EPERM);
	TRY("unshare-pid", in_child(do_unshare_pid), EPERM);
	TRY("unshare-ipc", in_child(do_unshare_ipc), EPERM);
	TRY("unshare-uts", in_child(do_unshare_uts), EPERM);
	TRY("unshare-cgroup", in_child(do_unshare_cgroup), EPERM);
	TRY("unshare-time", in_child(do_unshare_time), EPERM);
	TRY("clone-user", by_thread_of_namespace(CLONE_NEWUSER), EPERM);
	TRY("clone-user-net", by_thread_of_namespace(CLONE_NEWUSER | CLONE_NEWNET), EPERM);
	TRY("clone-net", by_thread_of_namespace(CLONE_NEWNET), EPERM);
	TRY("clone-mount", by_thread_of_namespace(CLONE_NEWNS), EPERM);
	TRY("clone-pid", by_thread_of_namespace(CLONE_NEWPID), EPERM);
	TRY("clone-ipc", by_thread_of_namespace(CLONE_NEWIPC), EPERM);
	TRY("clone-uts", by_thread_of_namespace(CLONE_NEWUTS), EPERM);
	TRY("clone-cgroup", by_thread_of_namespace(CLONE_NEWCGROUP), EPERM);
	/* UM01: the flags lie behind a pointer, and libc must fall back */
	TRY("clone3-user", clone3_namespace(CLONE_NEWUSER), ENOSYS);
	TRY("clone3-time", clone3_namespace(0x80), ENOSYS);
	TRY("setns-own", in_child(do_setns), EPERM);
	TRY("setns-parent-by-pidfd", in_child(do_setns_init), EPERM);
	end();

	begin("mounts");
	TRY("mount-tmpfs", syscall(__NR_mount, "x", "/tmp", "tmpfs", 0, NULL), EPERM);
	TRY("mount-bind", syscall(__NR_mount, "/", "/tmp", NULL, 4096, NULL), EPERM);
	TRY_INSIDE("remount", syscall(__NR_mount, NULL, "/", NULL, 32, NULL), EPERM);
	TRY_INSIDE("umount", syscall(__NR_umount2, "/proc", 2), EPERM);
	TRY_INSIDE("pivot-root", syscall(__NR_pivot_root, ".", "."), EPERM);
	TRY("chroot", in_child(do_chroot), EPERM);
	TRY("fsopen", once((int)syscall(430, "tmpfs", 0)), EPERM);
	TRY("fsconfig", syscall(431, -1, 6, NULL, NULL, 0), EPERM);
	TRY("fsmount", syscall(432, -1, 0, 0), EPERM);
	TRY("fspick", once((int)syscall(433, AT_FDCWD, "/", 0)), EPERM);
	TRY("open-tree", once((int)syscall(428, AT_FDCWD, "/", 0)), EPERM);
	TRY("open-tree-clone", once((int)syscall(428, AT_FDCWD, "/", 1)), EPERM);
	TRY("open-tree-attr", once((int)syscall(467, AT_FDCWD, "/", 0, NULL, 0)), ENOSYS, EPERM);
	TRY("move-mount", syscall(429, AT_FDCWD, "/tmp", AT_FDCWD, "/run", 0), EPERM);
	TRY("mount-setattr", syscall(442, AT_FDCWD, "/", 0, (uint64_t[4]){ 0, 1, 0, 0 }, 32), EPERM);
	TRY("statmount", syscall(457, page, page, sizeof(page), 0), ENOSYS, EPERM);
	TRY("listmount", syscall(458, page, page, 8, 0), ENOSYS, EPERM);
	end();
}

/* --- files: nothing of the kernel's or the host's opens for writing, nor the named ones at all */

static char worst[PATH_MAX];
static unsigned seen, opened;

/* Some refuse at the write only: they are told what they say. */
static bool writes(const char *path)
{
	int fd = open(path, O_RDWR | O_NONBLOCK);
	char b[4096];
	ssize_t n;
	bool r;

	if (fd < 0)
		fd = open(path, O_WRONLY | O_NONBLOCK);
	if (fd < 0)
		return false;
	n = read(fd, b, sizeof(b));
	r = n <= 0 || pwrite(fd, b, (size_t)n, 0) >= 0;
	close(fd);
	return r;
}

static int no_writing(const char *path, const struct stat *st, int type, struct FTW *at)
{

	(void)at;
	if (type != FTW_F || (!S_ISREG(st->st_mode)))
		return 0;
	seen++;
	if (writes(path)) {
		opened++;
		snprintf(worst, sizeof(worst), "%s", path);
	}
	return 0;
}

static void tree(const char *name, const char *root)
{
	seen = opened = 0;
	attempts++;
	nftw(root, no_writing, 16, FTW_PHYS);
	if (opened)
		printf("files %s OPEN %u of %u, %s for one\n", name, opened, seen, worst);
	else
		printf("files %s refused %u files\n", name, seen);
}

static void files(int argc, char **argv)
{
	static const char *const kernel_files[] = { "/proc/kcore", "/proc/kmsg", "/proc/kallsyms-write", "/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/net/ipv4/ip_forward",
						    "/proc/sys/net/ipv4/ip_unprivileged_port_start", "/proc/sys/user/max_user_namespaces", "/proc/timer_list-write", "/proc/1/environ", "/proc/1/mem", "/proc/1/maps", "/proc/1/fd/3", "/proc/1/ns/net",
						    "/proc/1/root/etc/passwd", "/proc/1/cwd/x", "/proc/keys", "/dev/mem", "/dev/kmem", "/dev/port", "/dev/kmsg", "/dev/kvm", "/dev/net/tun", "/dev/fuse", "/dev/userfaultfd", "/dev/vsock", "/dev/vhost-vsock",
						    "/dev/vhost-net", "/dev/loop-control", "/dev/sda", "/dev/vda", "/dev/console", "/dev/tty0", "/dev/uinput", "/dev/mapper/control", "/sys/kernel/uevent_helper", "/sys/kernel/debug/x", "/sys/kernel/tracing/trace",
						    "/sys/fs/cgroup/cgroup.procs", "/sys/fs/bpf/x", "/sys/power/state", "/sys/kernel/security/x" };
	char name[PATH_MAX + 16];
	FILE *f;
	bool bad = false;

	begin("files");
	for (size_t i = 0; i < sizeof(kernel_files) / sizeof(kernel_files[0]); i++) {
		bool write = strncmp(kernel_files[i], "/proc/sys", 9) == 0 || strncmp(kernel_files[i], "/sys", 4) == 0;
		int fd;

		errno = 0;
		fd = open(kernel_files[i], (write ? O_WRONLY : O_RDONLY) | O_NONBLOCK);
		snprintf(name, sizeof(name), "%s", kernel_files[i]);
		if (fd >= 0 && strcmp(kernel_files[i], "/proc/keys") == 0) { /* covered by an empty file */
			char c;

			if (read(fd, &c, 1) == 0) {
				close(fd);
				fd = -1;
				errno = EACCES;
			}
		}
		told(name, once(fd), (const int[]){ EACCES, EPERM, ENOENT, ENOTDIR, EROFS, ENXIO, ELOOP, ENODEV, 0 });
	}
	for (int i = 0; i < argc; i++) {
		snprintf(name, sizeof(name), "host:%s", argv[i]);
		TRY(name, once(open(argv[i], O_RDONLY | O_NONBLOCK)), EACCES, ENOENT, EPERM);
	}
	tree("proc-sys", "/proc/sys");
	tree("sys", "/sys");
	tree("etc", "/etc");
	TRY("mknod-char", mknod("/tmp/walls-char", S_IFCHR | 0666, (dev_t)0x101), EPERM, EACCES);
	TRY("mknod-block", mknod("/tmp/walls-block", S_IFBLK | 0666, (dev_t)0x700), EPERM, EACCES);
	TRY("mknod-char-in-the-folder", mknod("walls-char", S_IFCHR | 0666, (dev_t)0x101), EPERM, EACCES);
	/* set-user-id and file capabilities */
	once(open("walls-file", O_CREAT | O_WRONLY, 0755));
	TRY("chmod-setuid", chmod("walls-file", 04755), EPERM);
	TRY("fchmodat2-setuid", syscall(452, AT_FDCWD, "walls-file", 04755, 0), EPERM);
	TRY("open-setuid", once(open("walls-suid", O_CREAT | O_WRONLY, 04755)), EPERM);
	TRY("openat2-setuid", once((int)syscall(437, AT_FDCWD, "walls-suid", (uint64_t[3]){ O_CREAT | O_WRONLY, 04755, 0 }, 24)), ENOSYS);
	TRY("mknod-setuid", mknod("walls-suid", S_IFREG | 04755, 0), EPERM);
	TRY("file-capability", syscall(__NR_setxattr, "walls-file", "security.capability", "\1\0\0\2\377\377\377\377\0\0\0\0\377\377\377\377\0\0\0\0", 20, 0), EPERM, EOPNOTSUPP);
	TRY("trusted-xattr", syscall(__NR_setxattr, "walls-file", "trusted.walls", "x", 1, 0), EPERM, EOPNOTSUPP);
	unlink("walls-file");
	/* what is mounted: nothing with set-user-id, devices only where they were put */
	f = fopen("/proc/self/mountinfo", "r");
	while (f != NULL && fgets(name, sizeof(name), f) != NULL) {
		char at[PATH_MAX], flags[256];

		if (sscanf(name, "%*d %*d %*s %*s %4095s %255s", at, flags) != 2)
			continue;
		if (strstr(flags, "nosuid") == NULL || (strstr(flags, "nodev") == NULL && strncmp(at, "/dev/", 5) != 0)) {
			bad = true;
			printf("files mount:%s OPEN %s\n", at, flags);
		}
	}
	attempts++;
	printf("files mount-flags %s\n", f == NULL ? "odd none" : bad ? "OPEN"
								      : "refused nosuid nodev");
	end();
}

/* --- unix sockets: each path or abstract name (@...) given */

static void unix_sockets(int argc, char **argv)
{
	begin("unix");
	for (int i = 0; i < argc; i++) {
		static const int types[] = { SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET };
		bool open = false;
		int e = 0;

		for (int t = 0; t < 3; t++) {
			int fd = socket(AF_UNIX, types[t], 0);
			struct sockaddr_un sa = { .sun_family = AF_UNIX };
			size_t n = strlen(argv[i]);

			memcpy(sa.sun_path, argv[i], n < sizeof(sa.sun_path) ? n : sizeof(sa.sun_path) - 1);
			if (argv[i][0] == '@')
				sa.sun_path[0] = 0;
			errno = 0;
			if (connect(fd, (struct sockaddr *)&sa, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + (argv[i][0] != '@'))) == 0)
				open = true;
			else
				e = errno;
			close(fd);
			if (open)
				break;
		}
		for (char *c = argv[i]; *c; c++)
			if (*c == ' ')
				*c = '_'; /* one word */
		errno = e;
		told(argv[i], open ? 0 : -1, (const int[]){ ENOENT, ECONNREFUSED, EACCES, EPERM, 0 });
	}
	end();
}

int main(int argc, char **argv)
{
	unsigned ports[64], n = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGPIPE, SIG_IGN);
	control = getenv("WALLS_CONTROL") != NULL;
	if (argc < 2)
		return 2;
	if (strcmp(argv[1], "sockets") == 0)
		sockets();
	else if (strcmp(argv[1], "network") == 0)
		change_network();
	else if (strcmp(argv[1], "kernel") == 0)
		kernel();
	else if (strcmp(argv[1], "files") == 0)
		files(argc - 2, argv + 2);
	else if (strcmp(argv[1], "unix") == 0)
		unix_sockets(argc - 2, argv + 2);
	else if (strcmp(argv[1], "packets") == 0) {
		for (int i = 2; i < argc && n < 64; i++)
			ports[n++] = (unsigned)atoi(argv[i]);
		datagrams(ports, n);
		streams(ports, n);
	} else
		return 2;
	return 0;
}
