/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_CA_FILES_H
#define SP_CA_FILES_H
/* What files.c and view.c share: the state directory and what lies there. */
#include <stddef.h>

#include "ca.h"

int files_write_all(int fd, const void *p, size_t n);
/* Its descriptor, or -1: it must be the caller's and writable by nobody else. make: it is made when it is missing. */
int files_open_state(const char *state, bool make, struct err *err);
/* All certificates of a PEM file below it, one at least; NULL on an error. The caller's. */
STACK_OF(X509) * files_certs(int state_fd, const char *state, const char *name, struct err *err);
bool files_expired(const X509 *x);
#endif
