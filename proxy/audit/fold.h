/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_AUDIT_FOLD_H
#define SP_AUDIT_FOLD_H
/*
 * Repeats of one DNS question by one sandbox: the first is written at once, those of the following minute as one record
 * with a count.
 */
#include "../../common/base/buf.h"
#include "../../common/record.h"

struct folds; /* of one sandbox */
struct folds *folds_new(void);
void folds_free(struct folds *f);
/* True: it is a repeat, and counted. False: to be written now. */
bool folds_take(struct folds *f, const uint8_t *fields, size_t n, uint64_t now_ms);
/* Calls fn with the fields of what is due (all: everything), and forgets it. */
void folds_flush(struct folds *f, uint64_t now_ms, bool all, void (*fn)(void *arg, const struct buf *fields), void *arg);
#endif
