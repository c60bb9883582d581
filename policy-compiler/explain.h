/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_POLICY_EXPLAIN_H
#define SP_POLICY_EXPLAIN_H
#include <stdio.h>

#include "boundary.h"

#define EXPLAIN_HEADERS_MAX 64
struct explain_request {
	const char *method, *url;
	bool content;                             /* the request has some */
	const struct str *held;                   /* and this is it, or NULL */
	const char *headers[EXPLAIN_HEADERS_MAX]; /* "Name: value" */
	unsigned header_n;
	uint64_t now_s;
};
/*
 * What the policy does with a request, by the table (the gateway's own code) and by ref_eval, which must agree; written to
 * out, as text or JSON. 0 allow, 1 deny, 2 the request cannot be read that way (err), 3 a fault of ours (err).
 */
int explain(struct policy *p, const struct boundary *b, const struct explain_request *r, bool json, FILE *out, struct err *err); /* b: or NULL */
#endif
