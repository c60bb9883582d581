/* SPDX-License-Identifier: Apache-2.0 */
/* Policy text: read or refused with a place, never a crash. */
#include <stdlib.h>

#include "policy-compiler/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct policy pol;
	struct diag d = { .file = "f" };
	int r = policy_parse(&pol, (const char *)p, n, NULL, &d);

	if ((r == 0) != (d.errors == 0) || (r != 0 && buf_len(&d.out) == 0))
		abort();
	policy_free(&pol);
	buf_fini(&d.out);
	return 0;
}
