/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_EXCHANGE_INJECT_H
#define SP_EXCHANGE_INJECT_H
/* Credentials into a request head; what of a query may be recorded. Pure functions. */
#include "../../common/policy/table.h"
#include "../http/head.h"

/*
 * Before the first injection on a destination that has any: every credential place of the sandbox's own is emptied
 * (`foreign: replace`).
 */
void inject_prepare(struct http_request *r);
/* A request's trailer section, to be forwarded: no credential and nothing that misleads stands in it. */
void inject_prepare_trailer(struct http_fields *fs, const struct dest *d);
/* One credential, alone in its place. The field is marked secret. False: no room left. */
bool inject_apply(struct arena *a, struct http_request *r, const struct inject *in, struct str value);
/* The forms of a value that inject_apply puts on the wire beside the value itself (basic: the base64 text); empty if none. */
struct str inject_wire_form(struct arena *a, const struct inject *in, struct str value);
/* "a=1&b" -> "a=*&b", unless keep. */
struct str inject_redact_query(struct arena *a, struct str query, bool keep);
#endif
