/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_POLICY_BOUNDARY_H
#define SP_POLICY_BOUNDARY_H
/* The operator's ceiling: a policy, as text or as a table, that others have to lie within. */
#include <stdio.h>

#include "model.h"

struct boundary {
	struct policy p; /* as read; of a table: empty */
	bool is_text;
	int fd;          /* its table */
};
/* Messages about the file go to errors. 0, or -1 + err (code 0 when all is told there). Always to be closed. */
int boundary_open(struct boundary *b, const char *file, FILE *errors, struct err *err);
void boundary_close(struct boundary *b);
/* What of p does not lie within, each with its place, to errors. How many; -1 + err. file: of p, for what has no place of its own. */
int boundary_exceeded(const struct boundary *b, const struct policy *p, const char *file, FILE *errors, struct err *err);
#endif
