/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_POLICY_DECIDE_H
#define SP_POLICY_DECIDE_H
/* The one decision function: every entry path, every request and stream, and `policy explain` call it. */
#include "body.h"
#include "table.h"

enum verdict { VERDICT_DENY = 0, VERDICT_ALLOW };
enum decide_why { DECIDE_NO_DESTINATION = 0, DECIDE_NO_RULE, DECIDE_DENY_RULE, DECIDE_CONTENT /* body on GET/HEAD/ANY */, DECIDE_DAMAGED, DECIDE_ALLOWED,
	DECIDE_LOOK /* it depends on the content: ask again with as much of it as `need` says */ };
#define DECIDE_METHODS_MAX 16
struct decision {
	enum verdict verdict;
	enum decide_why why;
	struct str rule;   /* id of the rule that decided, or empty */
	uint32_t rule_no;  /* ALLOWED: its number in the destination, for dest_rate */
	bool by_boundary;  /* it is the boundary that refuses: rule and source are its */
	uint32_t boundary_rule_no[TABLE_BOUNDARIES_MAX]; /* ALLOWED within boundaries: as rule_no, in each of them */
	struct str source; /* FILE:LINE of it, or of the destination */
	enum body_need need; /* DECIDE_LOOK */
	enum body_need deny_need; /* DECIDE_NO_RULE: of deny rules that would have to see the content to say that they do not match */
	struct str allowed[DECIDE_METHODS_MAX]; /* on a denial: methods that would pass on this path (borrowed) */
	unsigned allowed_n;
};
/* d: as table_find gave it for the scheme, host and port of f, or NULL when it found none. Denies of other matching destinations are found through t, and so is its boundary: what passes passes both. */
void decide(const struct table *t, const struct dest *d, const struct facts *f, struct decision *out);
/* What the boundaries alone say; true when they let it pass, or there are none. out: who refuses, or their boundary_rule_no. */
bool decide_boundary(const struct table *t, const struct facts *f, struct decision *out);
/*
 * A connection whose octets pass unread: by protocol tcp, or with scheme https by passing TLS through. True when a destination of
 * that kind is there (and in *d); then *out says whether it may be.
 */
bool decide_tunnel(const struct table *t, enum scheme scheme, struct str host, uint16_t port, uint64_t now_s, struct dest *d, struct decision *out);
#endif
