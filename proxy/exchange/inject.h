/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_EXCHANGE_INJECT_H
#define SP_EXCHANGE_INJECT_H
/* Credentials in a request head; what of a query may be recorded. Pure functions. */
#include "../../common/policy/table.h"
#include "../filter/placeholder.h"
#include "../http/head.h"

/* Whether a header field is a place of credentials there: one of those known everywhere, of the destination's own, or of an injection. */
bool inject_is_place(const struct dest *d, struct str field);
/* One credential, alone in its place of the head. The field is marked secret. False: no room left, or not of the head. */
bool inject_apply(struct arena *a, struct http_request *r, const struct inject *in, struct str value);
/* The forms of a value that inject_apply puts on the wire beside the value itself (basic: the base64 text); empty if none. */
struct str inject_wire_form(struct arena *a, const struct inject *in, struct str value);

/* "user:password" out of "Basic ..."; STR_NONE if it is anything else, or not strict base64. */
struct str inject_basic_plain(struct arena *a, struct str value);
struct str inject_basic_value(struct arena *a, struct str plain);

/* Whether the query has that key, in whatever spelling. */
bool inject_query_has(struct str query, struct str key);
/* Without that key, in every spelling and number, also behind ';'. */
struct str inject_query_without(struct arena *a, struct str query, struct str key);
struct str inject_query_with(struct arena *a, struct str query, struct str key, struct str value);

/* Whether a field's value is just this placeholder, but for a scheme in front and the other half of Basic. */
bool inject_is_own(struct arena *a, struct str value, struct str placeholder);

/* "a=1&b" -> "a=*&b", unless keep. */
struct str inject_redact_query(struct arena *a, struct str query, bool keep);
#endif
