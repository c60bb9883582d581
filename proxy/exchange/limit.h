/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_EXCHANGE_LIMIT_H
#define SP_EXCHANGE_LIMIT_H
/*
 * Rates, budgets and counted grants of one exchange: those of the rule that let it pass, of its destination, of the policy,
 * and the boundary's. It is admitted by all of them or by none; then octets are taken from budgets as they pass.
 */
#include "exchange.h"
#include "meter.h"

struct limit_hit {
	char text[160];         /* one sentence, for the client */
	char which[80];         /* for the record: "limits.requests 600/m" */
	uint32_t retry_after_s; /* 0: never */
};
/* After the decision: gathers what applies, and counts the request. False: *hit says what is reached; nothing was counted. */
bool limit_admit(struct exchange *x, struct limit_hit *hit);
/* n octets of content of the request (up) or the response pass. False: they must not. */
bool limit_octets(struct exchange *x, bool up, uint64_t n, struct limit_hit *hit);
/* Whether so many octets could pass at once, before any does. */
bool limit_foresee(struct exchange *x, bool up, uint64_t n, struct limit_hit *hit);
void limit_leave(struct exchange *x); /* the exchange is over: what ran concurrently does not any more */
/* For a decision: how often a counted grant was used. arg: the exchange. */
uint64_t limit_used(const void *arg, uint64_t key);
#endif
