/* SPDX-License-Identifier: Apache-2.0 */
#include "messages.h"

#include <stdio.h>
#include <string.h>

/* Of "file:line:col: error: text" and its like, an object. */
static void message(struct jsonw *w, struct str line)
{
	static const char *const kinds[] = { "error", "warning" };
	struct str file = line, text = STR_NONE;
	uint64_t place[2] = { 0, 0 };
	unsigned kind = 0;

	for (unsigned i = 0; i < 2; i++) {
		char mark[16];
		ptrdiff_t at;

		snprintf(mark, sizeof(mark), ": %s: ", kinds[i]);
		at = str_find(line, str_of(mark));
		if (at >= 0 && (text.p == NULL || (size_t)at < file.n)) {
			file = str_mk(line.p, (size_t)at);
			text = str_mk(line.p + at + strlen(mark), line.n - (size_t)at - strlen(mark));
			kind = i;
		}
	}
	for (unsigned i = 2; i-- > 0 && text.p != NULL;) { /* the column, the line */
		const char *colon = file.n > 0 ? memrchr(file.p, ':', file.n) : NULL;

		if (colon == NULL || !str_u64(str_mk(colon + 1, file.n - (size_t)(colon - file.p) - 1), UINT32_MAX, &place[i]))
			break;
		file.n = (size_t)(colon - file.p);
	}
	jsonw_open(w, '{');
	jsonw_kz(w, "severity", kinds[kind]);
	if (text.p != NULL)
		jsonw_kstr(w, "file", file);
	if (place[1] > 0) /* one number is a line */
		jsonw_ku64(w, "line", place[0] > 0 ? place[0] : place[1]);
	if (place[0] > 0)
		jsonw_ku64(w, "column", place[1]);
	jsonw_kstr(w, "text", text.p != NULL ? text : line);
	jsonw_close(w, '}');
}

void messages_json(struct str lines, struct jsonw *w)
{
	while (lines.n > 0) {
		const char *nl = memchr(lines.p, '\n', lines.n);
		size_t n = nl != NULL ? (size_t)(nl - lines.p) : lines.n;

		if (n > 0)
			message(w, str_mk(lines.p, n));
		lines = str_mk(lines.p + n + (nl != NULL), lines.n - n - (nl != NULL));
	}
}
