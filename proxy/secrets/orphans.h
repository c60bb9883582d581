/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_SECRETS_ORPHANS_H
#define SP_SECRETS_ORPHANS_H
/*
 * Accessors of the Vault tokens that we made and have not given back, in a file that outlives us (STATE/vault.accessors,
 * handed over by descriptor): what is in it at the start was left by a crash. An accessor cannot be used as a token.
 * Slots of ORPHAN_SIZE octets, text and zeros; a slot of zeros is free.
 */
#include <stdbool.h>

#define ORPHAN_SIZE 128
#define ORPHANS_MAX 8192

struct orphans;
struct orphans *orphans_new(int fd); /* takes it; -1: nothing is kept */
void orphans_free(struct orphans *o);
/* Its slot, or -1: no room, or no file. */
int orphans_add(struct orphans *o, const char *accessor);
void orphans_remove(struct orphans *o, int slot); /* -1 is fine */
/* The next one that an earlier life left, from slot *at on; false: no more. */
bool orphans_left(struct orphans *o, int *at, char accessor[ORPHAN_SIZE]);
#endif
