/* SPDX-License-Identifier: Apache-2.0 */
#include "say.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../common/base/jsonw.h"

static struct say how = { .status_fd = -1 };

void say_setup(const struct say *h) { how = *h; }

static void put(int fd, const char *p, size_t n)
{
	while (n > 0) {
		ssize_t w = write(fd, p, n);

		if (w <= 0)
			return; /* nowhere to complain to */
		p += w;
		n -= (size_t)w;
	}
}

static void line(const char *colour, const char *label, const char *fmt, va_list ap)
{
	char text[2048], out[2400];
	bool tty = isatty(STDERR_FILENO) == 1;
	int n;

	vsnprintf(text, sizeof(text), fmt, ap);
	for (char *p = text; *p; p++) /* what is quoted may hold terminal escapes; line breaks are ours */
		if (((unsigned char)*p < 0x20 && *p != '\n') || *p == 0x7f)
			*p = '?';
	n = snprintf(out, sizeof(out), "%ssallyport: %s%s%s\n", tty ? colour : "", label, text, tty ? "\033[0m" : "");
	put(STDERR_FILENO, out, (size_t)n < sizeof(out) ? (size_t)n : sizeof(out) - 1);
}

void say_error(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	line("\033[31m", "", fmt, ap);
	va_end(ap);
}

void say_note(const char *fmt, ...)
{
	va_list ap;

	if (how.quiet || how.json)
		return;
	va_start(ap, fmt);
	line("\033[2m", "", fmt, ap);
	va_end(ap);
}

static void event(struct buf *b)
{
	buf_addc(b, '\n');
	if (how.json)
		put(STDERR_FILENO, (const char *)buf_data(b), buf_len(b));
	if (how.status_fd >= 0)
		put(how.status_fd, (const char *)buf_data(b), buf_len(b));
	buf_fini(b);
}

void say_started(uint32_t sandbox, const char *name, int pid, const char *policy)
{
	struct buf b = { 0 };
	struct jsonw w = jsonw_on(&b);

	if (!how.json && how.status_fd < 0)
		return;
	jsonw_open(&w, '{');
	jsonw_kz(&w, "event", "started");
	jsonw_ku64(&w, "sandbox", sandbox);
	jsonw_kz(&w, "name", name);
	jsonw_ku64(&w, "pid", (uint64_t)pid);
	jsonw_kz(&w, "policy", policy);
	jsonw_close(&w, '}');
	event(&b);
}

void say_exited(int status, const char *reason, int64_t refused, const char *text)
{
	struct buf b = { 0 };
	struct jsonw w = jsonw_on(&b);

	if (!how.json && how.status_fd < 0)
		return;
	jsonw_open(&w, '{');
	jsonw_kz(&w, "event", "exited");
	jsonw_ku64(&w, "status", (uint64_t)status);
	jsonw_kz(&w, "reason", reason);
	jsonw_key(&w, "refused");
	if (refused < 0)
		jsonw_null(&w);
	else
		jsonw_u64(&w, (uint64_t)refused);
	if (text != NULL)
		jsonw_kz(&w, "text", text);
	jsonw_close(&w, '}');
	event(&b);
}
