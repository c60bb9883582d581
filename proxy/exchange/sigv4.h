/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_EXCHANGE_SIGV4_H
#define SP_EXCHANGE_SIGV4_H
/*
 * AWS Signature Version 4 in the Authorization field, made anew. The key is the one derived for (day, region, service) by the
 * role that holds the secret. Pure functions; the published test vectors are tests/unit/sigv4_test.c.
 */
#include "../http/head.h"

struct sigv4_key { /* as released: "HEX64 YYYYMMDD KEY_ID[ SESSION_TOKEN]" */
	uint8_t key[32];
	struct str day, key_id, session; /* borrow */
};
bool sigv4_key_read(struct str released, struct sigv4_key *k);

/* Why a request cannot be signed anew; NULL: it can. */
const char *sigv4_unsignable(const struct http_request *r);
/*
 * What the content's hash is without looking at it: what the client says of it (x-amz-content-sha256), or that of no content.
 * False: the content must be looked at.
 */
bool sigv4_payload_known(const struct http_request *r, struct str *hash);
/*
 * Replaces Authorization, X-Amz-Date and X-Amz-Security-Token. target: as it is sent, with its query; host: as it is sent. Signed
 * are host, every x-amz- field, Content-Type, Content-MD5, Date and what the client's own signature covers and is still
 * there. False: no room.
 */
bool sigv4_sign(struct arena *a, struct http_request *r, struct str host, struct str target, struct str payload_hash, const struct sigv4_key *k, struct str region, struct str service, uint64_t now_s);
/* Lower-case hex of SHA-256. */
void sigv4_hash(const void *p, size_t n, char out[65]);
#endif
