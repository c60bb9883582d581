/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_SYS_PATHCHECK_H
#define SP_SYS_PATHCHECK_H
/* Whether nobody else can have put a file, or a folder above it, where it is. */
#include <stdbool.h>
#include <sys/stat.h>

#include "../base/err.h"

/* An absolute path without links, every part of which belongs to root or to us and can be written by nobody else. `what` begins the error. 0 or -1. */
int path_trustworthy(const char *path, const char *what, struct err *err);
/* The same of one open file or folder: NULL, or what is wrong. */
const char *stat_untrustworthy(const struct stat *st);
/* Opens a regular file for reading. follow: links are followed, and it is the file's real place that is looked at. Descriptor or -1. */
int path_open_trusted(const char *path, bool follow, const char *what, struct err *err);
#endif
