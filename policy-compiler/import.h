/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_POLICY_IMPORT_H
#define SP_POLICY_IMPORT_H
/*
 * Policies of other sandboxes and proxies as one of ours. What cannot be said is an error at its place; where leaving it out
 * only narrows, it is a comment instead.
 */
#include "../common/conf/diag.h"

enum import_kind { IMPORT_NONE = 0, IMPORT_OPENSHELL, IMPORT_SANDBOX_RUNTIME, IMPORT_SQUID, IMPORT_SMOKESCREEN, IMPORT_IRON_PROXY };
struct import_options {
	bool any_program;    /* that OpenShell lists programs is left out, which widens */
	const char *service; /* of smokescreen's; NULL: its default */
};
enum import_kind import_kind_of(const char *name);
/* 0, or -1 when d->errors > 0. */
int import_policy(enum import_kind kind, struct str text, const struct import_options *o, struct buf *out, struct diag *d);
#endif
