/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_CA_H
#define SP_CA_H
/*
 * The interception CA.
 *
 *   files.c  init, show, export: the key and the certificate in the state directory
 *   x509.c   making the CA and its leaves; no input or output
 *   role.c   the role that holds the key and mints on request of the workers
 */
#include <openssl/x509.h>
#include <stdbool.h>
#include <stdint.h>

#include "../common/base/buf.h"
#include "../common/base/canon.h"
#include "../common/base/err.h"

/* --- files.c --- */
int ca_init(const char *state, struct err *err);                  /* refuses when there is state already */
X509 *ca_load_cert(const char *state, struct err *err);
int ca_show(const char *state, struct err *err);                  /* to standard output */
int ca_export(const char *state, bool der, const char *file, struct err *err); /* file NULL: standard output */
/* Reads PEM from standard input, writes the blob of common/trust.h to standard output; the CA of that state directory is left out. */
int ca_pack_trust(const char *exclude_state, struct err *err);

/* --- role.c --- */
int ca_main(int link_fd);
#endif
