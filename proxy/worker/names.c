/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DNS inside the sandbox: no question leaves. A name that the policy knows gets an address of the appliance's own range,
 * which then stands for the name as CONNECT would; other names get one of 512 more while denials are explained, so that a
 * client can be told why, else NXDOMAIN. An address is not given to another name while a connection may still use it.
 */
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "../../common/base/must.h"
#include "../../common/sys/clock.h"
#include "../http/dns.h"
#include "worker.h"

#define NAMES_KNOWN 4096
#define NAMES_REFUSED 512
#define NAMES_MAX (NAMES_KNOWN + NAMES_REFUSED)
#define NAMES_TTL_S 30
#define NAMES_BUCKETS 1024
#define FOLD_MS 60000 /* repeats of a question are counted and written once a minute */
#define UDP_BATCH 64

struct name {
	struct canon_host host;
	bool known;
	uint64_t hash, folded_since_ms;
	uint32_t folded, index;
	struct name *next;
};
struct names {
	struct worker *w;
	struct name *all[NAMES_MAX]; /* index + 1 = the low bits of the address */
	uint32_t known_n, refused_n;
	struct name *buckets[NAMES_BUCKETS];
	uint64_t nx_since_ms;
	uint32_t nx_folded;
};

struct names *names_new(struct worker *w)
{
	struct names *n = must_calloc(1, sizeof(*n));

	n->w = w;
	return n;
}

static void address_of(uint32_t index, uint8_t family, struct ip *out)
{
	uint32_t low = index + 1;

	*out = (struct ip){ .family = family };
	if (family == 4) { /* 198.18.0.0/15 */
		out->b[12] = 198;
		out->b[13] = (uint8_t)(18 + (low >> 16));
		out->b[14] = (uint8_t)(low >> 8);
		out->b[15] = (uint8_t)low;
	} else { /* fd00:5a11::/32 */
		memcpy(out->b, "\xfd\0\x5a\x11", 4);
		out->b[14] = (uint8_t)(low >> 8);
		out->b[15] = (uint8_t)low;
	}
}

const struct canon_host *names_of_address(struct names *n, const struct ip *a)
{
	struct ip again;
	uint32_t low = (uint32_t)a->b[14] << 8 | a->b[15];

	if (low == 0 || low > NAMES_MAX || n->all[low - 1] == NULL)
		return NULL;
	address_of(low - 1, a->family, &again);
	return ip_eq(&again, a) ? &n->all[low - 1]->host : NULL;
}

static void dns_record(struct names *n, struct str host, bool allowed, const char *reason, uint64_t count)
{
	struct buf b = { 0 };

	record_s(&b, REC_KIND, STR("dns"));
	record_s(&b, REC_DECISION, allowed ? STR("allow") : STR("deny"));
	if (!allowed)
		record_s(&b, REC_CODE, STR("destination_denied"));
	record_s(&b, REC_REASON, str_of(reason));
	record_s(&b, REC_HOST, host);
	record_u(&b, REC_TIME_MS, clock_wall_ms());
	if (count > 1)
		record_u(&b, REC_COUNT, count);
	record_s(&b, REC_IDENTITY, STR("listener"));
	reporter_record(n->w->rep, NULL, INFLIGHT_NO_SLOT, &b);
	buf_fini(&b);
}

/* NULL: the range is full. *is_new tells whether it was given out now. */
static struct name *name_of(struct names *n, const struct canon_host *h, bool known, bool *is_new)
{
	uint64_t hash = hash_bytes(h->text, h->len);
	struct name *e, **b = &n->buckets[hash % NAMES_BUCKETS];
	uint32_t *count = known ? &n->known_n : &n->refused_n;

	*is_new = false;
	for (e = *b; e != NULL; e = e->next)
		if (e->hash == hash && e->known == known && e->host.len == h->len && memcmp(e->host.text, h->text, h->len) == 0)
			return e;
	if (*count == (known ? NAMES_KNOWN : NAMES_REFUSED))
		return NULL;
	e = must_calloc(1, sizeof(*e));
	e->host = *h;
	e->known = known;
	e->hash = hash;
	e->next = *b;
	*b = e;
	e->index = (known ? 0 : NAMES_KNOWN) + (*count)++;
	n->all[e->index] = e;
	*is_new = true;
	return e;
}

static size_t answer(struct names *n, const uint8_t *p, size_t len, uint8_t out[512])
{
	struct dns_question q;
	struct canon_host *h = &q.name;
	struct ip addr = { 0 };
	struct name *e;
	bool known, is_new;
	uint64_t now = loop_now_ms(n->w->loop);

	switch (dns_parse(p, len, &q)) {
	case DNS_DROP:
		return 0;
	case DNS_FORMERR:
		return dns_reply(p, len, &q, DNS_RC_FORMERR, NULL, 0, out);
	case DNS_NOTIMP:
		return dns_reply(p, len, &q, DNS_RC_NOTIMP, NULL, 0, out);
	case DNS_REFUSED:
		return dns_reply(p, len, &q, DNS_RC_REFUSED, NULL, 0, out);
	case DNS_OK:
		break;
	}
	if (h->len > 0 && creds_name_trips(n->w->creds, h, "a placeholder stands in a DNS question"))
		return dns_reply(p, len, &q, DNS_RC_NXDOMAIN, NULL, 0, out);
	known = h->len > 0 && table_host_known(n->w->table, str_mk(h->text, h->len));
	if (!reporter_ok(n->w->rep))
		return dns_reply(p, len, &q, DNS_RC_SERVFAIL, NULL, 0, out);
	if (h->len == 0 || h->ip.family != 0 || (!known && !n->w->explain_denials)) {
		goto nxdomain;
	}
	e = name_of(n, h, known, &is_new);
	if (e == NULL) {
		if (known)
			return dns_reply(p, len, &q, DNS_RC_SERVFAIL, NULL, 0, out);
		goto nxdomain;
	}
	if (is_new || now - e->folded_since_ms > FOLD_MS) {
		dns_record(n, str_mk(h->text, h->len), known, NULL, 1 + e->folded);
		e->folded = 0;
		e->folded_since_ms = now;
	} else {
		e->folded++;
	}
	if (q.qtype == DNS_A || q.qtype == DNS_AAAA)
		address_of(e->index, q.qtype == DNS_A ? 4 : 6, &addr);
	return dns_reply(p, len, &q, DNS_NOERROR, &addr, NAMES_TTL_S, out);
nxdomain:
	/* names that get no address are not kept: their repeats are folded together */
	if (n->nx_since_ms == 0 || now - n->nx_since_ms > 1000) {
		dns_record(n, str_mk(h->text, h->len), false, h->len ? "nxdomain" : "not_a_host_name", 1 + n->nx_folded);
		n->nx_folded = 0;
		n->nx_since_ms = now;
	} else {
		n->nx_folded++;
	}
	return dns_reply(p, len, &q, DNS_RC_NXDOMAIN, NULL, 0, out);
}

void names_tick(struct names *n)
{
	uint64_t now = loop_now_ms(n->w->loop);

	for (uint32_t i = 0; i < NAMES_MAX; i++) {
		struct name *e = n->all[i];

		if (e == NULL) {
			if (i < NAMES_KNOWN)
				i = NAMES_KNOWN - 1;
			else
				break;
			continue;
		}
		if (e->folded > 0 && now - e->folded_since_ms > FOLD_MS) {
			dns_record(n, str_mk(e->host.text, e->host.len), e->known, NULL, e->folded);
			e->folded = 0;
			e->folded_since_ms = now;
		}
	}
}

void names_udp(struct names *n, int fd)
{
	for (int i = 0; i < UDP_BATCH; i++) {
		uint8_t in[4096], out[512];
		union {
			struct cmsghdr h;
			char room[256];
		} ctl;
		struct sockaddr_storage from;
		struct iovec iov = { in, sizeof(in) };
		struct msghdr mh = { .msg_name = &from, .msg_namelen = sizeof(from), .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &ctl, .msg_controllen = sizeof(ctl) };
		ssize_t k = recvmsg(fd, &mh, MSG_DONTWAIT);
		size_t len;

		if (k < 0)
			return;
		if (mh.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
			continue;
		len = answer(n, in, (size_t)k, out);
		if (len == 0)
			continue;
		/* the control data names the address that was asked: the reply comes from it (packet info, in and out alike) */
		for (struct cmsghdr *cm = CMSG_FIRSTHDR(&mh); cm != NULL; cm = CMSG_NXTHDR(&mh, cm)) {
			if (cm->cmsg_level == IPPROTO_IP && cm->cmsg_type == IP_PKTINFO) {
				struct in_pktinfo pi;

				memcpy(&pi, CMSG_DATA(cm), sizeof(pi));
				pi.ipi_spec_dst = pi.ipi_addr;
				pi.ipi_ifindex = 0;
				memcpy(CMSG_DATA(cm), &pi, sizeof(pi));
			}
		}
		iov.iov_base = out;
		iov.iov_len = len;
		sendmsg(fd, &mh, MSG_DONTWAIT | MSG_NOSIGNAL);
	}
}

bool names_tcp(struct names *n, const uint8_t *p, size_t len, struct buf *out)
{
	uint8_t reply[512];
	size_t k = answer(n, p, len, reply);

	if (k == 0)
		return false;
	buf_addc(out, (char)(k >> 8));
	buf_addc(out, (char)(k & 0xff));
	buf_add(out, reply, k);
	return true;
}
