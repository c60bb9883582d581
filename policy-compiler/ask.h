/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_POLICY_ASK_H
#define SP_POLICY_ASK_H
/* A policy that is asked about requests: by its table (the gateway's own code) and by ref_eval, which must agree. */
#include "boundary.h"

struct asker {
	const struct policy *p;
	struct table *t;
	int fd;
	const struct policy *boundary; /* or NULL: none, or it is a table only */
	const struct pol_dest **all; /* room for ask_url's */
};
int asker_init(struct asker *k, const struct policy *p, struct err *err);
int asker_within(struct asker *k, const struct boundary *b, struct err *err); /* from now on both are asked */
void asker_fini(struct asker *k);

struct asked {
	struct facts f;
	struct canon_host host;
	const char *malformed;       /* the check by which the gateway would answer 400, or NULL */
	const struct pol_dest **all; /* the destinations that match, the most specific first; good until the next one is asked */
	unsigned all_n;
};
/* What method, content and headers are stands in out->f already. 0, or -1 + err: not an http, https or tcp URL, not a method. */
int ask_url(struct asker *k, struct arena *a, struct str url, struct asked *out, struct err *err);
/* What the decision names borrows from the table. 0, or -1 + err: a fault of ours. */
int ask_decide(struct asker *k, const struct asked *q, struct decision *d, struct err *err);
const char *ask_why(const struct asked *q, const struct decision *d);
bool ask_method_ok(struct str m);
#endif
