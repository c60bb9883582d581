/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_AUDIT_CHAIN_H
#define SP_AUDIT_CHAIN_H
/*
 * The chain: each line ends with ,"chain":{"prev":"HEX","hash":"HEX"}}}} where hash = HMAC-SHA256(key, everything of the
 * line before ,"hash") and prev is the hash of the line before it (zeros at the very first). Without the key no line can be
 * changed, left out or moved without breaking the next.
 */
#include "../../common/base/buf.h"

#define CHAIN_KEY_LEN 32
#define CHAIN_HEX 64
void chain_close(struct buf *line, const uint8_t key[CHAIN_KEY_LEN], char prev[CHAIN_HEX + 1]); /* appends chain and '\n'; prev becomes this line's hash */
enum chain_verdict { CHAIN_BAD_FORM = 0, CHAIN_BAD_PREV, CHAIN_BAD_HASH, CHAIN_OK };
/* line without '\n'. On OK prev becomes its hash. */
enum chain_verdict chain_check(struct str line, const uint8_t key[CHAIN_KEY_LEN], char prev[CHAIN_HEX + 1]);
/* The hash that a line says of itself; false if it has no chain. */
bool chain_hash_of(struct str line, char hash[CHAIN_HEX + 1]);
#endif
