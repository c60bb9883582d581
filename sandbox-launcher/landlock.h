/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_LAUNCH_LANDLOCK_H
#define SP_LAUNCH_LANDLOCK_H
/* A second wall behind the mounts: everything below the new root may be read and executed, written only where said. */
#include <stdbool.h>
#include <stddef.h>

#include "../common/base/err.h"

/*
 * In the new root, with no_new_privs. writable: absolute paths, missing ones are passed over. *in_force false when the
 * kernel has no Landlock. 0, or -1.
 */
int landlock_confine(const char *const *writable, size_t n, bool *in_force, struct err *err);
int landlock_abi(void); /* 0: none */
#endif
