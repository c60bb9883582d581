/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_EXCHANGE_INT_H
#define SP_EXCHANGE_INT_H
/*
 * What the files of the exchange share: exchange.c (its life, refusals, times), exchange_decide.c (from a head to a verdict),
 * exchange_send.c (credentials, the upstream, what goes to it), exchange_response.c (what comes back).
 */
#include "exchange.h"
#include "limit.h"

/*
 * X_ANSWERING: refused, and recorded so; the content, which may be a call of JSON-RPC or GraphQL, is still read, so that the
 * answer has the form and the id that its sender looks for. Nothing of it goes anywhere.
 * X_HOLDING: whether it passes depends on the content, which is collected; nothing has been asked of anyone yet.
 */
enum { X_NEW = 0, X_HOLDING, X_SECRETS, X_UPSTREAM, X_SENDING, X_ANSWERING, X_OVER };

#define RESET_INTERNAL 2 /* INTERNAL_ERROR of RFC 9113 7 */

/* exchange.c, if nothing else is said */
void exchange_leave_upstream(struct exchange *x, bool reusable); /* the upstream goes back to its pool, or ends */
bool exchange_is_open(const struct exchange *x); /* as a WebSocket */
void exchange_write_record(struct exchange *x); /* the terminal record, once */
void exchange_finish(struct exchange *x, bool reusable); /* the end of every exchange, once; frees it at the end of the turn */
bool exchange_is_grpc(struct exchange *x);
void exchange_answer(struct exchange *x, const char *text); /* what is refused and recorded already */
void exchange_answer_now(struct exchange *x); /* what waits in X_ANSWERING */
void exchange_refuse_with(struct exchange *x, enum refusal_code code, uint16_t status, const char *text); /* status: 0, the one of its code */
void exchange_is_malformed(struct exchange *x, const char *reason);
void exchange_too_large(struct exchange *x);
void exchange_over_limit(struct exchange *x, const struct limit_hit *hit); /* refuses; in the middle, cuts */
void exchange_decided(struct exchange *x, const struct facts *f); /* by policy: what else there is to say of the head comes behind it */
void exchange_look(struct exchange *x); /* X_HOLDING: at the content that is there */
void exchange_account(struct exchange *x); /* what waits here counts among what LIMIT_MEMORY bounds */
void exchange_hold_data(struct exchange *x, const uint8_t *p, size_t n);
void exchange_go_secrets(struct exchange *x); /* all credentials of the destination, or none, then the upstream */
void exchange_let_continue(struct exchange *x);
void exchange_cut(struct exchange *x, enum refusal_code code, uint16_t status, const char *limit); /* the destination's own limit is reached in the middle: both sides see that it is no end */
/*
 * exchange_response.c: what is looked for from now on: values that came into use since the last time, too. A response that
 * streams for hours may bring one that was had an hour ago, and a request that is sent a second time may carry a newer one
 * than the first time. What is held back of a stream stays where it is: none of the new values began before it came into use.
 */
void exchange_renew_scrub(struct exchange *x);
#endif
