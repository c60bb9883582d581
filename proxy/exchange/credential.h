/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_EXCHANGE_CREDENTIAL_H
#define SP_EXCHANGE_CREDENTIAL_H
/*
 * What an exchange does about credentials: placeholders where they must not be, credentials of the sandbox's own, what is
 * injected for the rule that let the request through, placeholders filled in head and content. Steps in the order of calls.
 */
#include "../filter/placeholder.h"
#include "exchange.h"

#define CREDENTIAL_CONTENT_MAX (4u << 20) /* octets of content that are held: to know its length, or to sign it */

/* Before the decision. False: a placeholder stands where it must not; refused and told. */
bool credential_trip(struct exchange *x);
/* After it. False: refused. */
bool credential_allowed(struct exchange *x);
/* All of the content must be there before the head can go out; not more than CREDENTIAL_CONTENT_MAX. */
bool credential_wants_content(struct exchange *x);
/* The i-th injection for this request; -1: damaged, 0: no more. */
int credential_next(const struct exchange *x, unsigned *i, struct inject *in);
/*
 * A value goes to the origin as it is, so that its parts might come back in parts. With a signature it does not: a session
 * token is of no use without the key, and clients that fetch large objects in ranges take no other answer (S3).
 */
bool credential_goes_there(const struct exchange *x);
/*
 * Puts credentials into the head, and, of content that is all there (x->content_held), into that. May be called again, when
 * the request is tried once more. host: as it is sent. Not READY: *cause, for the operator; the code when it is no missing value.
 */
enum secret_state credential_head(struct exchange *x, struct str host, struct str *cause, enum refusal_code *code);
/* A signature that credential_head waits for, or why there is none. True: nothing is waited for any more. */
bool credential_signed(struct exchange *x, unsigned inject, bool ok, struct str text);
bool credential_signing(const struct exchange *x); /* one is under way: the head is not made meanwhile */
/* Content on its way; what goes on stands in *p, *n. False: the stream ends here (told already). */
bool credential_content(struct exchange *x, const uint8_t **p, size_t *n);
/* What was held back of it. */
void credential_content_end(struct exchange *x, const uint8_t **p, size_t *n);
/* A request's trailer section, to be forwarded: no credential, no placeholder, nothing that misleads. */
void credential_trailer(struct exchange *x, struct http_fields *trailer);
/* The finding: where it stands, and whether that is the end of it. */
void credential_tell(struct exchange *x, const struct placeholder *p, const char *where, bool deny);
void credential_free(struct exchange *x);
#endif
