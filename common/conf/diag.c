/* SPDX-License-Identifier: Apache-2.0 */
#include "diag.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool behind(const struct diag *d, unsigned shown, uint32_t line, uint32_t col)
{
	if (d->shown[shown].file != d->file_no)
		return d->shown[shown].file > d->file_no;
	return d->shown[shown].line > line || (d->shown[shown].line == line && d->shown[shown].col > col);
}

static void put(struct diag *d, const char *kind, uint32_t line, uint32_t col, const char *fmt, va_list ap)
{
	char text[1024];
	unsigned n = d->errors + d->warnings, i;
	size_t before = buf_len(&d->out), len, at = before;

	if (n > DIAG_SHOWN_MAX)
		return;
	if (n == DIAG_SHOWN_MAX) {
		buf_addf(&d->out, "%s: error: there are more messages than %u; the rest is not shown\n", d->file, DIAG_SHOWN_MAX);
		return;
	}
	vsnprintf(text, sizeof(text), fmt, ap);
	if (line > 0)
		buf_addf(&d->out, "%s:%u:%u: %s: %s\n", d->file, line, col, kind, text);
	else
		buf_addf(&d->out, "%s: %s: %s\n", d->file, kind, text);
	len = buf_len(&d->out) - before;
	/* to its place: rows are visited in an order of their own */
	for (i = n; i > 0 && behind(d, i - 1, line, col); i--) {
		d->shown[i] = d->shown[i - 1];
		at -= d->shown[i].len;
	}
	d->shown[i].file = d->file_no;
	d->shown[i].line = line;
	d->shown[i].col = col;
	d->shown[i].len = (uint32_t)len;
	if (at < before) {
		struct buf copy = { 0 };

		buf_add(&copy, buf_data(&d->out) + before, len);
		memmove(buf_data(&d->out) + at + len, buf_data(&d->out) + at, before - at);
		memcpy(buf_data(&d->out) + at, buf_data(&copy), len);
		buf_fini(&copy);
	}
}

void diag_error(struct diag *d, uint32_t line, uint32_t col, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	put(d, "error", line, col, fmt, ap);
	va_end(ap);
	d->errors++;
}

void diag_error_file(struct diag *d, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	put(d, "error", 0, 0, fmt, ap);
	va_end(ap);
	d->errors++;
}

void diag_warning(struct diag *d, uint32_t line, uint32_t col, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	put(d, "warning", line, col, fmt, ap);
	va_end(ap);
	d->warnings++;
}

void diag_fini(struct diag *d) { buf_fini(&d->out); }
