/* SPDX-License-Identifier: Apache-2.0 */
#include "log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"

#define LIMIT_LINES 5
#define LIMIT_MS 10000

static const char *title = "sallyport";

void log_title(const char *t) { title = t; }

static void line(const char *level, const char *fmt, va_list ap)
{
	char t[1024];
	int n = snprintf(t, sizeof(t), "sallyport[%s]: %s", title, level), m;

	m = vsnprintf(t + n, sizeof(t) - (size_t)n - 1, fmt, ap);
	n += m < 0 ? 0 : m;
	if (n > (int)sizeof(t) - 2)
		n = (int)sizeof(t) - 2;
	for (int i = 0; i < n; i++)
		if ((unsigned char)t[i] < 0x20 || t[i] == 0x7f)
			t[i] = '?';
	t[n++] = '\n';
	if (write(STDERR_FILENO, t, (size_t)n) < 0)
		return; /* nowhere to complain to */
}

void log_info(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	line("", fmt, ap);
	va_end(ap);
}

void log_error(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	line("error: ", fmt, ap);
	va_end(ap);
}

void log_limited(struct log_limit *lim, const char *fmt, ...)
{
	uint64_t now = clock_mono_us() / 1000;
	va_list ap;

	if (lim->since_ms == 0 || now - lim->since_ms > LIMIT_MS) {
		lim->since_ms = now;
		lim->n = 0;
	}
	if (lim->n++ >= LIMIT_LINES)
		return;
	va_start(ap, fmt);
	line("", fmt, ap);
	va_end(ap);
}
