/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_SECRETS_SIGN_H
#define SP_SECRETS_SIGN_H
/* What is signed with a secret that no worker has. Free of I/O. */
#include "../../common/policy/table.h"

#define SIGN_TEXT_MAX 132 /* the longest: SHA-512 in hex */
/* HMAC in the entry's encoding; its length. 0: *cause says why there is none. */
size_t sign_hmac(const struct inject *in, struct str value, struct str message, char out[SIGN_TEXT_MAX], const char **cause);
#endif
