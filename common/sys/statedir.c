/* SPDX-License-Identifier: Apache-2.0 */
#include "statedir.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int put(char out[4096], const char *dir, const char *tail, struct err *err)
{
	if (snprintf(out, 4096, "%s%s", dir, tail) >= 4000)
		return err_set(err, ENAMETOOLONG, "the path of the state directory is too long");
	return 0;
}

int state_dir(char out[4096], const char *arg, struct err *err)
{
	const char *env = getenv("SALLYPORT_STATE"), *xdg = getenv("XDG_STATE_HOME"), *home = getenv("HOME");

	if (arg == NULL && env != NULL && env[0])
		arg = env;
	if (arg != NULL)
		return put(out, arg, "", err);
	if (geteuid() == 0)
		return put(out, "/var/lib/sallyport", "", err);
	if (xdg != NULL && xdg[0] == '/')
		return put(out, xdg, "/sallyport", err);
	if (home != NULL && home[0] == '/')
		return put(out, home, "/.local/state/sallyport", err);
	return err_set(err, EINVAL, "neither --state, SALLYPORT_STATE, XDG_STATE_HOME nor HOME says where the state directory is");
}
