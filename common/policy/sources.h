/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_POLICY_SOURCES_H
#define SP_POLICY_SOURCES_H
/*
 * What the sources of a policy's secrets may be, as the gateway's configuration says (`sources`). A policy is authority over
 * what its sources can read, and whoever writes one may not be who runs the gateway. I/O-free.
 *
 * Rules are lines: "only KIND" (of that kind nothing but what is listed), "KIND PATTERN"; kinds are env, file, credential,
 * vault, exec. A pattern of file is a path, or a folder with a slash at its end; of vault its segments may have stars, and the
 * last may be "**", one or more of them; of exec it is a path; else it is a name that may have stars.
 */
#include "table.h"

#define SOURCES_TEXT_MAX 16384		       /* as configured */
#define SOURCES_RULES_MAX 65536		       /* with the policy's name filled in */
const char *source_kind(enum secret_source s); /* "vault" for both of its */
/* NULL if good, else what is wrong with it. */
const char *sources_pattern_bad(struct str kind, struct str pattern);
bool sources_allow(struct str rules, enum secret_source source, struct str arg);
/* Each secret whose source is not allowed is told; returns how many. */
unsigned sources_check(struct str rules, const struct table *t, void (*say)(void *arg, struct str where, const char *text), void *arg);
#endif
