/* SPDX-License-Identifier: Apache-2.0 */
#include "err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int err_set(struct err *err, int code, const char *fmt, ...)
{
	va_list ap;

	if (err == NULL)
		return -1;
	err->code = code ? code : EINVAL;
	va_start(ap, fmt);
	vsnprintf(err->text, sizeof(err->text), fmt, ap);
	va_end(ap);
	return -1;
}

int err_errno(struct err *err, const char *fmt, ...)
{
	int e = errno;
	size_t n;
	va_list ap;

	if (err == NULL)
		return -1;
	err->code = e ? e : EIO;
	va_start(ap, fmt);
	vsnprintf(err->text, sizeof(err->text), fmt, ap);
	va_end(ap);
	n = strlen(err->text);
	snprintf(err->text + n, sizeof(err->text) - n, ": %s", strerror(err->code));
	return -1;
}

int err_wrap(struct err *err, const char *fmt, ...)
{
	char old[sizeof(err->text)];
	size_t n;
	va_list ap;

	if (err == NULL)
		return -1;
	memcpy(old, err->text, sizeof(old));
	va_start(ap, fmt);
	vsnprintf(err->text, sizeof(err->text), fmt, ap);
	va_end(ap);
	n = strlen(err->text);
	snprintf(err->text + n, sizeof(err->text) - n, ": %s", old);
	return -1;
}
