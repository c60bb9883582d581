/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_AUDIT_READER_H
#define SP_AUDIT_READER_H
/*
 * Reading the records: `sallyport logs`.
 *
 *   logs.c    options, the files in their order, following
 *   view.c    one record as one line for people
 *   verify.c  the chain
 */
#include "chain.h"

#define READER_FILES_MAX 100000

/* The numbers of the rotated files in DIR, ascending; the caller frees. */
uint32_t *reader_rotated(int dir_fd, size_t *n);
/* Opens STATE/audit, or STATE itself when the records stand in it. -1 + err. */
int reader_open_dir(const char *state, struct err *err);

struct view_filter {
	const char *sandbox, *host;
	bool denied, json;
	uint64_t since_ms; /* 0: all */
};
/* Appends what is to be printed for this line (with a line break), or nothing. False: not a record. */
bool view_line(struct str line, const struct view_filter *f, struct buf *out);

/* Prints what it finds. 0: unbroken; 1: not. */
int verify_log(int dir_fd, struct err *err);
#endif
