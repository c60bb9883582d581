/* SPDX-License-Identifier: Apache-2.0 */
#include "msg.h"

const struct msg_rule msg_rules[MSG_COUNT] = {
#define MSG(id, from, to, lo, hi, nfds) [MSG_##id] = { #id, ROLE_##from, ROLE_##to, lo, hi, nfds },
#include "msg.def"
#undef MSG
};

const char *role_name(enum role r)
{
	static const char *const names[] = { "none",
#define ROLE(id, title, ...) title,
#include "role.def"
#undef ROLE
		"any" };
	return (unsigned)r <= ROLE_ANY ? names[r] : "unknown";
}
