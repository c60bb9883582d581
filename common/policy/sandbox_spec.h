/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_POLICY_SANDBOX_SPEC_H
#define SP_POLICY_SANDBOX_SPEC_H
/* The `sandbox:` section of a policy as the table holds it. Strings borrow from the table; zero and empty mean the default. */
#include "table.h"

#define SPEC_LIST_MAX 64
struct str_list {
	struct str s[SPEC_LIST_MAX];
	unsigned n;
};
struct sandbox_spec {
	struct str isolation;                          /* "namespace" */
	struct str root, home;                         /* filesystem.root, .home */
	struct str_list write, read, hide, protect;    /* as written: relative ones are relative to the working directory, ~ is HOME; one empty name: none at all */
	uint64_t scratch;                              /* octets */
	struct str user;
	struct str_list keep, set_name, set_value;     /* process.environment; keep with one empty name: none at all */
	uint64_t memory, cpus_milli, processes, open_files, wall_ms, idle_ms;
	struct str on_misuse, on_gateway_loss;
	struct str_list require;
};
/* False: damaged. */
bool sandbox_spec_load(const struct table *t, struct sandbox_spec *out);

/* Of a record's value, for table.c and table_check.c. */
bool sandbox_value_load(struct str value, struct sandbox_spec *out);
bool sandbox_value_check(struct str value);
#endif
