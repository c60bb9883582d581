/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_SECRETS_SHAPE_H
#define SP_SECRETS_SHAPE_H
/*
 * Placeholders: shaped like what they stand for, so that a tool's own checks of form let them pass, and of at least 64 bits,
 * so that they stand nowhere by chance. The same for the same key, secret, scope and shape; nothing of the value goes into
 * one but a prefix that is on the list of known ones, the kind of its characters, and its length.
 */
#include "../../common/placeholder.h"

#define SHAPE_KEY_LEN 32
struct shape_for {
	struct str secret;  /* name */
	struct str scope;   /* policy or sandbox that it is for */
	bool sandbox;       /* of a sandbox */
	uint8_t part;       /* enum placeholder_part */
	struct str value;   /* what it stands for; empty: not known now */
	struct str host;    /* where that goes: tells the shape of a value that is not known */
};
void shape_warm(void); /* what libcrypto loads lazily, before confinement */
/* The text, NUL-terminated; its length. */
size_t shape_placeholder(const uint8_t key[SHAPE_KEY_LEN], const struct shape_for *f, char out[PLACEHOLDER_LEN_MAX + 1]);
#endif
