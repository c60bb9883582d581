/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_POLICY_DIFF_H
#define SP_POLICY_DIFF_H
/*
 * What another version of a policy changes: requests that change verdict, each kind with a witness, and authority beside
 * requests.
 *
 * Witnesses come from the automata: for each host that the two tell apart, the set of positions in all rules' patterns is
 * walked breadth first, so that each set that a path can lead to is reached by a shortest one. Segments are told apart in
 * the same way, character by character (texts.h), and so are values of queries, fields and content (diff_probe.c). There both
 * tables decide. Regular expressions are the exception: of each, some of the texts that it matches are tried.
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
struct probe;
struct diff_change {
	bool wider, narrower;
	struct str text;           /* one line */
	/* of requests: */
	struct str request, was, is; /* METHOD URL; the rule or the reason, with its place */
	struct probe *witness;	     /* the same request as facts */
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

/* A request that tells conditions apart; scheme, host, port, method and path of f are the caller's. */
struct probe {
	struct facts f; /* field gives names and values; field_arg, content: to be set to the probe and its content */
	struct str names[COND_VALUES_MAX + 1], values[COND_VALUES_MAX + 1];
	unsigned field_n;
	struct str content;
};
/* All that the conditions of these rules tell apart. fresh: a text that no rule names. False: there are more than are tried. */
bool probe_each(const struct pol_rule *const *r, unsigned n, struct str fresh, uint64_t now, void (*each)(void *arg, struct probe *p), void *arg);
/* A text that the expression matches, the k-th of many; 0 is the simplest. */
struct str probe_path(struct arena *a, struct str regex, unsigned k);
#endif
