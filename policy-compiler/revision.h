/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_POLICY_REVISION_H
#define SP_POLICY_REVISION_H
/* A policy as it is in a revision of git: REV:PATH, the path from the working directory. All its files are of that revision. */
#include "model.h"

/* Whether a name is one: it has a colon in it, and no file of that name is there. */
bool revision_is(const char *name);
int revision_load(struct policy *p, const char *name, struct diag *d); /* as policy_load */
#endif
