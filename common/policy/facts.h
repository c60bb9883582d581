/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_POLICY_FACTS_H
#define SP_POLICY_FACTS_H
/* What a decision is made of: the canonical request, nothing else. */
#include "../base/canon.h"

enum scheme { SCHEME_NONE = 0, SCHEME_HTTP, SCHEME_HTTPS, SCHEME_TCP };
static inline const char *scheme_name(enum scheme s) { return s == SCHEME_HTTP ? "http" : s == SCHEME_TCP ? "tcp" : "https"; }

struct facts {
	enum scheme scheme;
	struct str host; /* canonical text */
	uint16_t port;
	struct str method;     /* as sent; "WEBSOCKET" for a handshake, "TUNNEL" (with the path "*") for a connection whose octets pass unread */
	struct str path;       /* canon_path's match form; "*" for OPTIONS * */
	struct str query;      /* raw, STR_NONE if none */
	bool has_query;
	bool has_content;      /* more than 0 octets announced, or chunked */
	uint64_t now_s;        /* wall clock, seconds since 1970; 0: not known */
	/* The i-th header field as it goes upstream, before anything is injected; an empty name: one that does not. False: there are no more. */
	bool (*field)(const void *arg, unsigned i, struct str *name, struct str *value); /* NULL: there are none */
	const void *field_arg;
	uint64_t (*used)(const void *arg, uint64_t key); /* how often a counted grant was used; NULL: never */
	const void *used_arg;
	const struct str *content; /* as much of the content as was asked for (decision.need), NULL: none was read yet */
};
#endif
