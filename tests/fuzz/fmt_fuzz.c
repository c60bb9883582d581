/* SPDX-License-Identifier: Apache-2.0 */
/* Layout of policies: what comes out says the same (fmt_policy proves it), and stays as it is when it is laid out again. */
#include <stdint.h>
#include <stdlib.h>

#include "policy-compiler/fmt.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct diag d = { .file = "f" };
	struct buf once = { 0 }, twice = { 0 };

	if (fmt_policy(str_mk(p, n), &once, &d) == 0 && (fmt_policy(buf_str(&once), &twice, &d) < 0 || !str_eq(buf_str(&once), buf_str(&twice))))
		abort();
	diag_fini(&d);
	buf_fini(&once);
	buf_fini(&twice);
	return 0;
}
