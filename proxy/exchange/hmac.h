/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_EXCHANGE_HMAC_H
#define SP_EXCHANGE_HMAC_H
/* `as: hmac`: what is signed, and where the signature goes. Pure functions; the key is elsewhere. */
#include "../../common/policy/table.h"
#include "../http/head.h"

#define HMAC_NONCE_LEN 32
struct hmac_facts {
	struct http_request *r;
	struct str host, target, body; /* as they are sent */
	uint64_t wall_ms;
	const char *nonce; /* HMAC_NONCE_LEN hex digits, terminated */
};
/* What the sandbox sent in the entry's fields goes, time and nonce are told. Before hmac_message, which may sign them. False: no room. */
bool hmac_prepare(struct arena *a, const struct inject *in, const struct hmac_facts *f);
void hmac_message(struct buf *out, const struct inject *in, const struct hmac_facts *f);
/* The field with the signature. False: no room. */
bool hmac_apply(struct arena *a, const struct inject *in, const struct hmac_facts *f, struct str signature);
/* Whether the content is part of what is signed. */
bool hmac_signs_content(const struct inject *in);
#endif
