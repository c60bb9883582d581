/* SPDX-License-Identifier: Apache-2.0 */
#include "deps.h"

#include <string.h>
#include <unistd.h>

#include "../common/base/buf.h"

static struct buf seen; /* of the one policy that this process reads */

void deps_note(const char *path)
{
	size_t n = strlen(path) + 1;

	for (size_t at = 0; at < buf_len(&seen); at += strlen((const char *)buf_data(&seen) + at) + 1)
		if (strcmp((const char *)buf_data(&seen) + at, path) == 0)
			return;
	buf_add(&seen, path, n);
}

int deps_write(int fd, struct err *err)
{
	size_t at = 0;

	while (at < buf_len(&seen)) {
		ssize_t n = write(fd, buf_data(&seen) + at, buf_len(&seen) - at);

		if (n <= 0)
			return err_errno(err, "the names of the files that were read cannot be written");
		at += (size_t)n;
	}
	return 0;
}
