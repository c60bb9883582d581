/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_POLICY_MESSAGES_H
#define SP_POLICY_MESSAGES_H
/* What is said about a policy, for programs. */
#include "../common/base/jsonw.h"
#include "../common/base/str.h"

/* Lines as a diag has them, each as an object of the array that is open in w. */
void messages_json(struct str lines, struct jsonw *w);
#endif
