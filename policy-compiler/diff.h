/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_POLICY_DIFF_H
#define SP_POLICY_DIFF_H
/*
 * What another version of a policy changes: requests that change verdict, each kind with a witness, and authority beside
 * requests.
 *
 * Witnesses come from the automata: for each host that the two tell apart, the set of positions in all rules' patterns is
 * walked breadth first, so that each set that a path can lead to is reached by a shortest one; there both tables decide.
 * Parts of segments ("v*"), queries, headers and content are tried by instances made from the conditions of either side.
 */
#include <stdio.h>

#include "model.h"

enum diff_form { DIFF_TEXT = 0, DIFF_MARKDOWN, DIFF_JSON };
struct diff_result {
	unsigned widened, narrowed; /* changes of either kind; one that is neither counts as both */
	bool cut;                   /* there were more paths than are walked */
};
int diff_policies(struct policy *old, struct policy *new, enum diff_form form, FILE *out, struct diff_result *r, struct err *err); /* 0, or -1 + err */

/* --- between its parts --- */
struct diff_change {
	bool wider, narrower;
	struct str text;           /* one line */
	/* of requests: */
	struct str request, was, is; /* METHOD URL; the rule or the reason, with its place */
};
struct diff_changes {
	struct arena a;
	struct diff_change *c;
	size_t n, cap;
	bool cut;
};
struct diff_change *diff_add(struct diff_changes *cs);
int diff_requests(struct policy *old, struct policy *new, struct diff_changes *cs, struct err *err);
void diff_authority(const struct policy *old, const struct policy *new, struct diff_changes *cs);

/* Instances: what satisfies a rule's conditions. k chooses among them (0 is the simplest); false: none by that number. */
struct sample {
	struct facts f; /* has_query, has_content and field are set */
	struct str path; /* of a regex; else empty */
	struct str names[COND_VALUES_MAX + 1], values[COND_VALUES_MAX + 1];
	unsigned field_n;
	struct str content, query;
};
bool sample_make(struct arena *a, const struct pol_rule *r, unsigned k, struct sample *s);
#endif
