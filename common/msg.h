/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_MSG_H
#define SP_MSG_H
/* Roles, messages and their payloads: see role.def and msg.def. Payloads are packed structs in host byte order (both ends are one machine and one build). */
#include <stdint.h>

enum role {
	ROLE_NONE = 0,
#define ROLE(id, ...) ROLE_##id,
#include "role.def"
#undef ROLE
	ROLE_ANY,
	ROLE_COUNT = ROLE_ANY
};
enum msg_type {
	MSG_NONE = 0,
#define MSG(id, ...) MSG_##id,
#include "msg.def"
#undef MSG
	MSG_COUNT
};
struct msg_rule {
	const char *name;
	uint8_t sender, receiver; /* enum role */
	uint32_t min, max;
	uint8_t fds;
};
extern const struct msg_rule msg_rules[MSG_COUNT];
const char *role_name(enum role r);

#define MSG_NAME_MAX 64

/*
 * START, first message on every link from the supervisor. fds by role: ca: key, certificate (PEM files, read-only);
 * audit: directory, chain key file; secrets: the key of placeholders, trust anchors, the file
 * of what is to be given back (orphans.c); worker: trust anchors (sealed memfd, trust.h) ; dialer: of the proxy behind, by flags,
 * its credentials, and what its certificate is verified with: PEM or trust anchors; text = "via HOST PORT gateway|proxy plain|tls\n" if
 * there is such a proxy, then its DNS servers, "ADDRESS PORT\n" each.
 */
enum { START_CREDENTIALS = 1, START_PROXY_CA = 2, START_PROXY_TRUST = 4, START_NO_IPV6 = 8 };
struct msg_start {
	uint32_t uid_base;
	uint32_t flags;
	uint64_t reserved;
	/* text follows */
} __attribute__((packed));

enum listener_kind { LISTENER_NONE = 0, LISTENER_PROXY4, LISTENER_PROXY6, LISTENER_DNS_TCP4, LISTENER_DNS_TCP6, LISTENER_DNS_UDP4, LISTENER_DNS_UDP6, LISTENER_DIAG };
#define MSG_LISTENERS_MAX 8
/* The upper half of the flags of SANDBOX, and of START and CA_NEXT to ca, is the number of a CA: which one the sandbox trusts, which one comes with it. */
enum { SANDBOX_EXPLAIN_DENIALS = 1, SANDBOX_OBSERVE = 2 /* a policy with `mode: observe` may */ };
#define SANDBOX_CA(flags) ((flags) >> 16)
#define SANDBOX_CA_FLAGS(number) ((uint32_t)(number) << 16)
struct msg_ca_ref {
	uint32_t flags;
} __attribute__((packed));
struct msg_sandbox {
	uint32_t sandbox;    /* number given by the supervisor, never reused within its life */
	uint32_t generation; /* of the policy */
	uint32_t flags;
	uint8_t listeners;   /* how many */
	uint8_t kinds[MSG_LISTENERS_MAX]; /* enum listener_kind, in descriptor order */
	uint8_t boundaries;  /* how many; their tables come behind the policy's */
	uint8_t meter;       /* 1, to a worker: the memory of its counters comes next */
	uint8_t pad[1];
	char name[MSG_NAME_MAX];   /* NUL-terminated */
	uint8_t table_digest[32];  /* as the checker found it */
} __attribute__((packed));
struct msg_sandbox_ref {
	uint32_t sandbox, generation;
} __attribute__((packed));
struct msg_check { /* descriptors: the table, rules of where its secrets may come from (sources.h), then what there is of these, in this order */
	uint8_t narrow;     /* 1: what narrows it, and must do nothing else */
	uint8_t boundaries; /* how many tables it must lie within */
	uint8_t pad[2];
} __attribute__((packed));
struct msg_checked {
	uint8_t digest[32];
	uint8_t signer[32]; /* zeros: it is not signed */
} __attribute__((packed));
struct msg_counts { /* of this worker's life */
	uint64_t requests, refused;
} __attribute__((packed));
struct msg_peer {
	uint32_t role;    /* who is at the other end */
	uint32_t sandbox; /* on whose behalf: the identity of the link */
} __attribute__((packed));

struct msg_dial { /* answered in the order things finish; matched by the message id */
	uint16_t port;
	uint8_t scheme; /* enum scheme */
	uint8_t reserved[1];
	/* canonical host follows */
} __attribute__((packed));
enum dial_status { DIAL_FAILED = 0, DIAL_OK, DIAL_DENIED /* destination not in the table */, DIAL_ADDRESS_DENIED, DIAL_DNS, DIAL_UNREACHABLE, DIAL_TIMEOUT };
enum { DIALED_BY_PROXY = 1, DIALED_PROXY_RESOLVED = 2 /* it was given the name: no address was vetted here */ };
struct msg_dialed {
	uint8_t status; /* enum dial_status */
	uint8_t family; /* 4 or 6, of the address tried last; 0: none is known */
	uint16_t port;
	uint8_t addr[16]; /* struct ip layout */
	uint32_t dns_us, connect_us;
	uint8_t flags; /* DIALED_* */
	uint8_t proxy_family; /* of the proxy behind the gateway */
	uint16_t proxy_port;
	uint8_t proxy_addr[16];
	/* cause text follows unless OK */
} __attribute__((packed));

struct msg_dial_source { /* a connection of secrets itself */
	uint32_t sandbox;      /* 0: the gateway's own Vault */
	uint32_t secret_index; /* whose token end-point, by the table of that generation; MSG_SOURCE_VAULT + n: the n-th address of Vault */
} __attribute__((packed));
#define MSG_SOURCE_VAULT 0x80000000u

struct msg_execute {
	uint32_t sandbox, id;
} __attribute__((packed));
struct msg_executed {
	uint32_t id, ok; /* 0: it failed */
} __attribute__((packed));
enum secret_verb { SECRET_VERB_NONE = 0, SECRET_VERB_CHECK, SECRET_VERB_REVOKE, SECRET_VERB_FORGET };
struct msg_secret_do {
	uint32_t verb;    /* enum secret_verb */
	uint32_t sandbox; /* 0: all */
	uint64_t id;      /* pairs question and answer */
} __attribute__((packed));
struct msg_withdraw {
	uint32_t secret_index;
} __attribute__((packed));

enum mint_kind { MINT_NONE = 0, MINT_LEAF, MINT_REFUSAL /* for a name outside the table, explain_denials */ };
struct msg_mint {
	uint8_t kind; /* enum mint_kind */
	uint8_t reserved;
	/* canonical host follows */
} __attribute__((packed));
enum mint_status { MINT_FAILED = 0, MINT_OK, MINT_DENIED, MINT_LIMITED, MINT_EXPIRED /* the CA itself has */ };
struct msg_minted {
	uint8_t status; /* enum mint_status */
	uint8_t reserved[3];
	/* DER follows when OK */
} __attribute__((packed));

struct msg_release { /* a value for (secret, destination, kind) */
	uint32_t secret_index;
	uint32_t dest_index;
	uint32_t kind; /* enum inject_kind */
} __attribute__((packed));
enum release_status { RELEASE_FAILED = 0, RELEASE_OK, RELEASE_UNBOUND };
struct msg_released {
	uint8_t status; /* enum release_status */
	uint8_t reserved[3];
	uint32_t valid_ms; /* how long the worker may keep it before asking again */
	/* value follows when OK, else a cause for the operator */
} __attribute__((packed));

#define MSG_SIGN_PART 49140u      /* octets of one SIGN behind the struct */
#define MSG_SIGN_MAX (5u << 20)  /* octets that are signed together: content that is held, and what stands around it */
struct msg_sign { /* with the key of an injection that signs (inject_signs), which the table names */
	uint32_t dest_index;
	uint32_t inject; /* its number among the destination's */
	uint16_t scheme; /* client_certificate: SignatureScheme (RFC 8446 4.2.3); else 0 */
	uint8_t more;    /* 1: another part follows under the same id */
	uint8_t reserved;
	/* octets follow */
} __attribute__((packed));
struct msg_signed {
	uint8_t status; /* enum release_status */
	uint8_t reserved[3];
	/* signature (of hmac in its encoding) when OK, else a cause for the operator */
} __attribute__((packed));

struct msg_inflight {
	uint32_t slots, slot_size;
} __attribute__((packed));
struct msg_record {
	uint64_t number; /* counts up per sender and life; EVENT: 0 */
	uint32_t slot;   /* INFLIGHT_NO_SLOT if none */
	uint32_t len;    /* octets of record fields, which follow */
} __attribute__((packed));
struct msg_recorded {
	uint64_t number;
} __attribute__((packed));
struct msg_audit_state {
	uint8_t ok;
	uint8_t reserved[3];
	/* reason follows */
} __attribute__((packed));
#endif
