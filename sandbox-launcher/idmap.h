/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_LAUNCH_IDMAP_H
#define SP_LAUNCH_IDMAP_H
/* Root only: a detached copy of the mount at `path`, before root is given up, so that the payload's user may use it. */
#include <stdbool.h>
#include <sys/types.h>

#include "../common/base/err.h"

/*
 * Opened without following links. When `uid` differs from the owner of a shared writable folder, owner/group of the files
 * are shown as uid/gid, and what uid makes belongs to that owner on disk. Returns a descriptor, or -1.
 */
int idmap_clone(const char *path, bool map, uid_t uid, gid_t gid, struct err *err);
int idmap_open(const char *path, int flags, struct err *err); /* openat2 RESOLVE_NO_SYMLINKS */
#endif
