/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_RECORD_H
#define SP_RECORD_H
/*
 * A record on its way to audit: a run of fields {tag u8, length u16, octets}. The sender states facts; audit writes
 * the JSON, the sandbox's name (known from the link), the sequence and the chain, so that a broken sender can lie about
 * its own sandbox at most.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

/* RECORD_TAG(id, type): U unsigned (8 octets); text that is cut behind S 256, M 1024, L 16384 octets (what a target can be) */
#define RECORD_TAGS(T) \
	T(KIND, S)      /* request, connection, dns, lifecycle, secret, finding, admin */ \
	T(DECISION, S)  /* allow, deny, observe */ \
	T(CODE, S)      /* refusal code */ \
	T(REASON, M) \
	T(REQUEST_ID, S) \
	T(TIME_MS, U) \
	T(DURATION_MS, U) \
	T(METHOD, S) \
	T(SCHEME, S) \
	T(HOST, S) \
	T(PORT, U) \
	T(PATH, L) \
	T(QUERY, L)     /* values already redacted unless log_query */ \
	T(STATUS, U) \
	T(CLIENT_PROTOCOL, S) \
	T(UPSTREAM_PROTOCOL, S) \
	T(UPSTREAM_IP, S) \
	T(RULE, M) \
	T(SOURCE, M) \
	T(POLICY_NAME, S) \
	T(POLICY_DIGEST, S) /* hex */ \
	T(POLICY_GENERATION, U) \
	T(SECRET, S)    /* a name; may repeat */ \
	T(BYTES_IN, U)  /* from the client */ \
	T(BYTES_OUT, U) /* to the client */ \
	T(TLS_VERSION, S) \
	T(TLS_CIPHER, S) \
	T(SNI, S) \
	T(CERT_ISSUER, S) \
	T(CERT_SHA256, S) \
	T(CERT_SPKI_SHA256, S) \
	T(CERT_EXPIRES_MS, U) \
	T(UPSTREAM_TLS, S) T(UPSTREAM_CIPHER, S) T(UPSTREAM_GROUP, S) \
	T(STAPLE, S)    /* of an OCSP response that came with the certificate: "good"; others are refused */ \
	T(RESUMED, U) \
	T(IDENTITY, S)  /* how the sandbox is known: "listener" */ \
	T(COUNT, U)     /* folded repeats */ \
	T(MESSAGE, M)   /* lifecycle, finding */ \
	T(SANDBOX, S)   /* from supervisor and secrets only: whom it is about; a worker is known from its link */ \
	T(T_DNS_US, U) T(T_CONNECT_US, U) T(T_TLS_US, U) T(T_SECRET_US, U) T(T_FIRST_BYTE_US, U) \
	T(SRC_PORT, U) \
	T(SCRUBBED, U)  /* overwritten echoes */ \
	T(BOUNDARY, U)  /* it is the boundary that refuses: rule and source are its */ \
	T(OBSERVED, U)  /* it passed although no rule allows it: `mode: observe` */ \
	T(UPSTREAM_PROXY, S) T(VETTED_BY, S) /* the proxy behind the gateway; who looked at the address: "gateway", "proxy" */ \
	T(UNREAD, U)    /* of a connection: its octets passed unread */ \
	T(ACTOR_PID, U) T(ACTOR_NAME, S) T(ACTOR_PATH, M) \
	T(WS_CLOSE, U) T(WS_CLOSED_BY, S) T(WS_PROTOCOL, S) T(WS_MESSAGES_IN, U) T(WS_MESSAGES_OUT, U)

enum record_tag {
	REC_NONE = 0,
#define RECORD_ENUM(id, type) REC_##id,
	RECORD_TAGS(RECORD_ENUM)
#undef RECORD_ENUM
	REC_TAG_COUNT
};
/* The most that a record with every field, and RECORD_SECRETS_MAX names, can take: it fits one message (record.c). */
#define RECORD_SECRETS_MAX 8
void record_s(struct buf *b, enum record_tag t, struct str s); /* empty strings are left out; cut behind what the tag's type says */
void record_u(struct buf *b, enum record_tag t, uint64_t v);
/* Reads the field at *off; false at the end. *bad is set if the run is malformed (unknown tag, wrong size). */
bool record_next(const uint8_t *p, size_t n, size_t *off, enum record_tag *t, struct str *s, uint64_t *u, bool *bad);

/*
 * In-flight slots: a file mapped by one worker and audit. The worker fills a slot before the first octet of a request
 * goes upstream; audit clears it when the record is appended. Sizes are fixed, the content is the record's fields so far.
 */
#define INFLIGHT_SLOTS 1024
#define INFLIGHT_SLOT_SIZE 512
#define INFLIGHT_NO_SLOT UINT32_MAX
/* FINISHED: the outcome stands behind the fields, so the record is true although its worker died before it was sent. */
enum slot_state { SLOT_FREE = 0, SLOT_OPEN, SLOT_FINISHED };
struct inflight_slot {
	uint32_t state;   /* atomic: enum slot_state. Set by the worker with release order after len/fields; cleared by audit */
	uint32_t len;
	uint8_t fields[INFLIGHT_SLOT_SIZE - 8];
};
_Static_assert(sizeof(struct inflight_slot) == INFLIGHT_SLOT_SIZE, "slot size");
#endif
