/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_POLICY_TRUST_H
#define SP_POLICY_TRUST_H
/*
 * Consent to a policy that was found, not named: STATE/policies/trusted, mode 0600, lines "DIGEST PATH". The digest is
 * struct policy's, so that what the policy pulls in is part of it; the path is the real one.
 */
#include "../common/base/err.h"
#include "model.h"

#define TRUST_PATH_MAX 4096

enum trust { TRUST_NEVER = 0, TRUST_CHANGED, TRUST_GIVEN };
/* --state, else $SALLYPORT_STATE, else /var/lib/sallyport (root), $XDG_STATE_HOME/sallyport or ~/.local/state/sallyport. */
int trust_state_dir(const char *option, char out[TRUST_PATH_MAX], struct err *err);
/* Whether this content of the file was consented to. -1: the list cannot be relied on. */
int trust_look(const char *state, const char *file, const uint8_t digest[32], enum trust *out, struct err *err);
int trust_give(const char *state, const char *file, const uint8_t digest[32], struct err *err);
#endif
