/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_PLACEHOLDER_H
#define SP_PLACEHOLDER_H
/* What stands for a credential inside a sandbox, and how roles and the launcher tell it to each other. No secret. */
#include "base/buf.h"

#define PLACEHOLDERS_MAX 1024
#define PLACEHOLDER_LEN_MAX 256
#define PLACEHOLDER_LIST_MAX 32000 /* octets of all that a sandbox has, as they are told */
/* Which part of a credential a placeholder stands for. */
enum placeholder_part { PLACEHOLDER_WHOLE = 0, PLACEHOLDER_KEY_ID, PLACEHOLDER_KEY, PLACEHOLDER_SESSION, PLACEHOLDER_PARTS };
struct placeholder {
	struct str secret; /* name of what it stands for */
	struct str text;   /* of A-Z a-z 0-9 - . _ ~ only: it looks the same in every encoding that a client may choose */
	uint8_t part;      /* enum placeholder_part */
	bool body_deny;    /* in content it ends the request */
};
bool placeholder_ok(const struct placeholder *p);

/*
 * Several, one after the other, as roles and the launcher tell them to each other: u8 part (128: body_deny), u8 and name, u16 (little-endian)
 * and text. False: that is not what p holds. Strings borrow from p.
 */
void placeholder_put(struct buf *b, const struct placeholder *p);
bool placeholder_next(struct str *rest, struct placeholder *out);
#endif
