/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_CONF_DIAG_H
#define SP_CONF_DIAG_H
/* Positioned messages, all of one run, in the order of the files and of each file: "file:line:col: error: text". */
#include <stdint.h>

#include "../base/buf.h"

#define DIAG_SHOWN_MAX 200 /* more are counted, not shown: a file of a million errors is not a flood */

struct diag {
	const char *file; /* the one that is being read */
	unsigned file_no; /* which of several it is */
	struct buf out; /* lines */
	unsigned errors, warnings;
	struct {
		uint32_t file, line, col, len; /* of a line of out */
	} shown[DIAG_SHOWN_MAX];
};
void diag_error(struct diag *d, uint32_t line, uint32_t col, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
void diag_warning(struct diag *d, uint32_t line, uint32_t col, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* About the file as a whole: "file: error: text". */
void diag_error_file(struct diag *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void diag_fini(struct diag *d);

/* For "%.*s". Long texts are cut: a message is a line. */
#define DIAG_TEXT_MAX 200u
#define DIAG_STR(s) (int)((s).n > DIAG_TEXT_MAX ? DIAG_TEXT_MAX : (s).n), ((s).n ? (s).p : "")
#endif
