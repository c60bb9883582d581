/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_EXCHANGE_CODING_H
#define SP_EXCHANGE_CODING_H
/* Content codings where responses are looked through for secrets. Pure functions on heads. */
#include "../filter/decode.h"
#include "../http/head.h"

/*
 * Accept-Encoding is narrowed to what we can take off. injects: this destination is given a credential: then `Range` is
 * dropped, for its parts could be put together past us, and no coding is asked for that the client did not ask for.
 */
void coding_narrow(struct arena *a, struct http_request *r, bool injects);
/* What the content is in; CODING_UNKNOWN: several, or another than ours. */
enum coding coding_of(struct http_fields *fs);
/* The content goes on without its coding: what described the octets of the coded one is dropped (RFC 9110 8.4, 8.8.1). */
void coding_remove(struct arena *a, struct http_response *r);
#endif
