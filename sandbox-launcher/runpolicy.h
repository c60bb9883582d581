/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_LAUNCH_RUNPOLICY_H
#define SP_LAUNCH_RUNPOLICY_H
/* The policy of a run: which file, compiled, checked; what the launcher needs of it. */
#include "../common/policy/table.h"
#include "environ.h"
#include "gateway.h"
#include "plan.h"

struct runpolicy {
	struct arena mem;
	struct table *table;
	int table_fd;             /* sealed */
	const char *file;         /* real path of the policy in use; NULL: there is none, everything is denied */
	bool only_trusted;        /* it was found, not named: used only as it was consented to */
	const char *name;
	bool explain_denials;
	struct plan_wish wish;
	struct environ_secrets env;
	struct { const char *path, *place; int dir_fd; bool follow; } files[GATEWAY_FILES_MAX]; /* secrets' sources */
	unsigned file_n;
	const char *deps[RUNPOLICY_DEPS_MAX]; /* the files it was read from, as they were opened; also after a failure */
	unsigned dep_n;
	char words[400]; /* the first error that the compiler told, or "" */
	const char *vault_address, *vault_namespace; /* VAULT_ADDR and VAULT_NAMESPACE, when a secret comes from Vault */
	int vault_ca_fd;          /* VAULT_CACERT */
};
/*
 * named: --policy as a real path, or NULL: ./sallyport.yaml of cwd if it is trusted. Compiler and trust speak for themselves
 * on standard error. 0, or -1.
 */
int runpolicy_load(struct runpolicy *r, const struct gateway *g, const char *named, const char *cwd, struct err *err);
/* The table of a boundary (--boundary), sealed, in *fd. */
int runpolicy_boundary(const struct gateway *g, const char *file, int *fd, struct err *err);
/* Opens the folders of the files that secrets come from, when the files can be read with the caller's rights. */
int runpolicy_open_files(struct runpolicy *r, struct err *err);
void runpolicy_free(struct runpolicy *r);
#endif
