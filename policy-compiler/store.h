/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_POLICY_STORE_H
#define SP_POLICY_STORE_H
/*
 * Where tables lie and who vouches for them. A folder of tables holds DIGEST.lmdb, and for each policy the link NAME.lmdb
 * to the one that is current; older ones stay. Gateways follow the link.
 */
#include <stdio.h>

#include "../common/base/err.h"

/* key_file: PEM of an Ed25519 secret key. The table, as policy_image gave it, grows by its signature. */
int store_sign(int table, const char *key_file, struct err *err);
/* Puts the table into the folder and turns the link to it. */
int store_install(int table, const char *dir, struct err *err);
/* Turns the link of that policy to the table of that digest (a beginning of it will do), or, with NULL, to the one that was current before. */
int store_rollback(const char *dir, const char *name, const char *digest, struct err *err);
/* The tables of a policy, the newest first: DIGEST, time, signer; "*" marks the current one. */
int store_list(const char *dir, const char *name, FILE *f, struct err *err);
/* The public half of a key, secret or public PEM, as gateway.yaml has it. */
int store_public_key(const char *key_file, FILE *f, struct err *err);
#endif
