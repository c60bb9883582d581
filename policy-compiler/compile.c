/* SPDX-License-Identifier: Apache-2.0 */
#include "compile.h"

#include <errno.h>

#include "model.h"
#include "try.h"

int policy_compile_file(const char *path, const char *out, FILE *errors, struct err *err)
{
	struct diag d = { .file = path };
	struct policy p;
	int ret = policy_load(&p, path, &d);

	fwrite(buf_str(&d.out).p, 1, buf_len(&d.out), errors);
	if (ret < 0)
		err_set(err, EINVAL, "%s: %u error%s", path, d.errors, d.errors == 1 ? "" : "s");
	else if ((ret = try_policy(&p, path, TRY_FAILURES, errors, err)) != 0)
		ret = ret < 0 ? -1 : err_set(err, EINVAL, "%s: %d of its tests fail%s", path, ret, ret == 1 ? "s" : "");
	else
		ret = policy_write(&p, out, err);
	policy_free(&p);
	diag_fini(&d);
	return ret;
}
