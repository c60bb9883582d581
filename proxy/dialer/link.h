/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_DIALER_LINK_H
#define SP_DIALER_LINK_H
/*
 * A connection under TLS to the proxy behind. Whoever has the socket needs the keys of the session, and no worker gets those: the
 * proxy would connect it to anything. So the dialer keeps it, and the worker has one end of a pair of sockets, whose octets go
 * through here: those of the worker's own TLS, or of a destination without TLS, which the network sees too.
 */
#include "../../common/base/buf.h"
#include "../../common/base/err.h"
#include "../../common/sys/loop.h"
#include "parent.h"

struct trust;
struct link_ctx; /* how the proxy is verified */
/* ca_fd: PEM certificates that it is verified with, -1: with those of t (which must outlive it). Everything that OpenSSL loads lazily is loaded. NULL: err. */
struct link_ctx *link_ctx_new(const struct parent *p, int ca_fd, const struct trust *t, struct err *err);
void link_ctx_free(struct link_ctx *c); /* no links may be left; NULL is fine */

enum link_event { LINK_FAILED = 0 /* it is over: link_cause */, LINK_READY /* verified */, LINK_INPUT /* more is in link_input */ };
struct link;
/* What it does with the link, also freeing it, is up to the callee. */
typedef void link_fn(void *arg, enum link_event event);
struct link *link_new(struct link_ctx *ctx, struct loop *loop, int fd, link_fn *fn, void *arg); /* takes fd, connected and non-blocking */
void link_send(struct link *l, const void *p, size_t n);
struct buf *link_input(struct link *l); /* what came: the owner drops what it has read */
bool link_verified(const struct link *l);
const char *link_cause(const struct link *l);
/* From now on it belongs to nobody: it passes octets between the proxy and the other end of a pair, which is returned, until both sides ended. -1: no descriptors; it still has its owner. */
int link_pass(struct link *l);
void link_free(struct link *l); /* NULL is fine */
#endif
