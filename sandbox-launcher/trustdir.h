/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_LAUNCH_TRUSTDIR_H
#define SP_LAUNCH_TRUSTDIR_H
/*
 * What makes programs inside trust the gateway's CA, and nothing else: one generated directory that the environment points
 * to, and the system's own bundle replaced, since some programs clear their environment. Where a policy has tunnels, whose TLS
 * the programs verify themselves, this host's public roots are in the PEM bundles too.
 */
#include "plan.h"

#define TRUSTDIR "/run/sallyport"
#define TRUSTDIR_CA TRUSTDIR "/ca.pem"
#define TRUSTDIR_CERTS TRUSTDIR "/certs"
#define TRUSTDIR_JAVA TRUSTDIR "/java.p12"
#define TRUSTDIR_PHP TRUSTDIR "/php.d"
#define TRUSTDIR_NSS_FILES 3

struct trustdir {
	struct arena mem;
	struct str pem, p12;
	struct str bundle; /* pem, and public roots if wanted */
	struct str hashes; /* names for an OpenSSL directory, one a line: "1a2b3c4d.0" */
	struct str nss[TRUSTDIR_NSS_FILES]; /* empty without certutil */
};
/*
 * ca_file: PEM of the gateway's CA. cache_dir: state directory below which `trust/` keeps what is slow to make, or NULL.
 * Needs the rights of the state's owner.
 */
int trustdir_load(struct trustdir *t, const char *ca_file, const char *cache_dir, bool public_too, struct err *err);
/* Adds its files to the view. */
void trustdir_plan(const struct trustdir *t, struct plan *p);
#endif
