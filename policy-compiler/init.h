/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_POLICY_INIT_H
#define SP_POLICY_INIT_H
/*
 * A first policy: one of those that are installed, by its name, or one for the registry that a package manager here is
 * configured for. No registry is known to this program: it reads the client's own files and variables, or is told a URL.
 */
#include "../common/base/buf.h"
#include "../common/base/err.h"

/* The text of a policy. urls: those given, or none. 0, or -1 + err. */
int init_text(const char *preset, char *const *urls, int url_n, struct buf *out, struct err *err);
/* Writes it to `file`, which must not be there. 0, or -1 + err. */
int init_write(const char *file, const struct buf *text, struct err *err);
#endif
