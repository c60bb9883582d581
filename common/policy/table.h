/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_POLICY_TABLE_H
#define SP_POLICY_TABLE_H
/*
 * The compiled policy: one immutable LMDB file, checked by table_check, then mapped from a descriptor and read where it
 * lies. Strings that are handed out borrow from the map and live as long as the table.
 */
#include "../base/err.h"
#include "facts.h"
#include "secret_param.h"
#include "template.h"

#define TABLE_DIGEST_LEN 32
#define TABLE_BOUNDARIES_MAX 3 /* what a sandbox's caller narrows with, its policy folder's, the gateway's or the run's */
#define SECRET_REFRESH_MAX_S 86400u
struct table;

/*
 * Own walk over every page, node and value of the file image p[0..n): structure, bounds, key order, value layouts, the
 * digest over the sorted (key, value) records. No liblmdb, no allocation that depends on unchecked sizes. 0 or -1 + err.
 * Only the checker role and the tools call this.
 */
int table_check(const uint8_t *p, size_t n, uint8_t digest[TABLE_DIGEST_LEN], struct err *err);
/* Opens a table that was checked, by descriptor (works with open* forbidden: see table.c). The descriptor stays the caller's. */
int table_open(struct table **out, int fd, struct err *err);
int table_open_within(struct table **out, int fd, const int *boundary_fds, unsigned n, struct err *err); /* the same within boundaries, n of them at most TABLE_BOUNDARIES_MAX */
void table_free(struct table *t); /* and its boundaries */
/* From now on what passes must pass the boundary too (decide), whose destinations bound this one's. Taken. One more is bound to the last. */
void table_bind(struct table *t, struct table *boundary);
const struct table *table_boundary(const struct table *t); /* the first, whose own is the next; or NULL */

struct str table_name(const struct table *t);   /* policy name */
const uint8_t *table_digest(const struct table *t);
bool table_explain_denials(const struct table *t); /* default true */
uint64_t table_observe_until(const struct table *t); /* `mode: observe`: seconds since 1970; 0: it enforces */
struct regexes;
struct regexes *table_regexes(const struct table *t); /* compiled when first asked for */

/* `limits`: what a destination bounds for itself. 0: the gateway's own limit, if it has one. */
struct dest_limits {
	uint64_t request_body;  /* octets of a request's content */
	uint64_t response_body; /* octets of a response's content, as it comes from upstream and, decoded, as it goes on */
	uint32_t head_ms;       /* from the end of the request to the end of the response's head */
	uint32_t idle_ms;       /* within an exchange, without an octet either way */
	uint32_t total_ms;      /* from the request's head to the end of the response */
};

/*
 * What else bounds a destination, or one of its rules: rates and budgets, which are counted over time, and sizes and times of
 * single rules. A counter's key is the same in every generation in which the limit is.
 */
enum rate_kind { RATE_NONE = 0, RATE_REQUESTS, RATE_UPLOAD, RATE_DOWNLOAD, RATE_CONCURRENT, RATE_USES, RATE_REQUEST_BODY, RATE_RESPONSE_BODY, RATE_HEAD, RATE_IDLE, RATE_TOTAL, RATE_KINDS };
struct rate {
	enum rate_kind kind;
	uint32_t rule;     /* number of the rule (decision.rule_no); UINT32_MAX: all of the destination's */
	uint64_t amount;
	uint32_t window_s; /* 0: no window, the sandbox's life */
	uint64_t key;
};

/* What becomes of credentials of the sandbox's own on a destination with injections. */
enum foreign { FOREIGN_REPLACE = 0, FOREIGN_REFUSE, FOREIGN_PASS };

/* One destination: what a request to it needs. Loaded by value; strings borrow from the table. */
struct dest {
	const struct table *table;
	const uint8_t *value; /* the record; private to table.c and decide.c */
	uint32_t value_len;
	struct str id;        /* HOST[:PORT] or the id given */
	struct str source;    /* FILE:LINE */
	uint32_t index;       /* stable number of the destination in this table: pool and cache keys */
	enum scheme scheme;
	uint16_t port;
	bool wildcard;        /* dest_host is a pattern: the host of a request is another text */
	bool tunnel;          /* protocol tcp or passthrough: bytes pass unread */
	bool log_query;
	/* connect: ADDRESS:PORT; family 0 = resolve the name */
	struct ip connect_ip;
	uint16_t connect_port;
	uint8_t tls_min;      /* 0 default, 12, 13 */
	bool has_ca;          /* dest_ca gives the DER certificates */
	bool has_crl;         /* dest_crl gives lists of revoked ones: what they do not cover is refused */
	bool alpn_h1, alpn_h2; /* `tls.alpn` lists it; none of both: no choice was made */
	unsigned pin_n;
	bool has_inject;
	struct canon_path_opts paths;
	struct dest_limits limits;
	enum foreign foreign;
	bool scrub_off;       /* responses from there are not scrubbed */
	bool has_places;      /* dest_place gives `credential_places` */
	unsigned rate_n;      /* dest_rate gives them */
};
/*
 * 1 found: of the destinations that have this scheme and port and whose host is or stands for `host`, the most specific one,
 * which decides (exact, "pre*" by longer literal, "*", "**" by longer suffix). 0 none, also when a boundary has none;
 * -1 damaged. host is canonical.
 */
int table_find_unbounded(const struct table *t, enum scheme scheme, struct str host, uint16_t port, struct dest *out); /* whatever the boundary has */
int table_find(const struct table *t, enum scheme scheme, struct str host, uint16_t port, struct dest *out);
/*
 * The other destinations that match too, the most specific first, as far as they may have deny rules: those count as well.
 * fn returns false to end it. 0, or -1 damaged.
 */
int table_broader_each(const struct table *t, const struct dest *d, enum scheme scheme, struct str host, uint16_t port, bool (*fn)(void *arg, const struct dest *broader), void *arg);
/* Whether any destination has this host or stands for it, on whatever port and scheme: what DNS inside needs. */
bool table_host_known(const struct table *t, struct str host);
/* Whether on some port a destination that decides for this host has its TLS opened; whether on some port octets pass unread. */
bool table_host_intercepted(const struct table *t, struct str host);
bool table_host_tunnelled(const struct table *t, struct str host);
/* Whether any destination at all has this port: else a transparent connection is reset at accept. */
bool table_port_known(const struct table *t, uint16_t port);
bool table_port_speaks(const struct table *t, enum scheme scheme, uint16_t port); /* with this scheme */

/* Address vetting . True = may be dialled; else *why (static or borrowed text). */
bool dest_address_ok(const struct dest *d, const struct ip *a, const char **why);
/* Whether `addresses` is written there: then it is the only range. */
bool dest_addresses_listed(const struct dest *d);
struct str dest_host(const struct dest *d); /* its canonical host, or the pattern (host_pattern.h) of a wildcard */
bool dest_stands_for(const struct dest *d, struct str host); /* whether that is, or covers, this host */
/* DER certificates that replace the public roots here. Returns false when i is past the last. */
bool dest_ca(const struct dest *d, unsigned i, struct str *der);
bool dest_crl(const struct dest *d, unsigned i, struct str *der);

bool dest_rate(const struct dest *d, unsigned i, struct rate *out);
/* Its limits and those of the rule that decided: the smaller of each. */
struct dest_limits dest_limits_both(const struct dest_limits *a, const struct dest_limits *b); /* the smaller of each */
struct dest_limits dest_limits_of_rule(const struct dest *d, uint32_t rule);

/* `credential_places`: a header field's name in lower case, or "?" and a query key as rules match it. False: i is past the last. */
bool dest_place(const struct dest *d, unsigned i, struct str *place);

/* The i-th pin: SHA-256 of a SubjectPublicKeyInfo, one of which must be in the verified chain. NULL when i is past the last. */
const uint8_t *dest_pin(const struct dest *d, unsigned i);

/* Secrets. */
enum secret_source { SECRET_SOURCE_NONE = 0, SECRET_SOURCE_ENV, SECRET_SOURCE_FILE, SECRET_SOURCE_CREDENTIAL, SECRET_SOURCE_VAULT, SECRET_SOURCE_VAULT_DYNAMIC, SECRET_SOURCE_EXEC, SECRET_SOURCES };
/* What is obtained with the source's value, and released in its place: an access token. */
enum secret_token { SECRET_TOKEN_NONE = 0, SECRET_TOKEN_OAUTH2, SECRET_TOKEN_GITHUB_APP, SECRET_TOKEN_GCP, SECRET_TOKENS };
struct secret_decl {
	struct str name;
	enum secret_source source;
	struct str arg;      /* variable name, absolute path of a file or program, name of a credential, path in Vault */
	uint32_t index;
	enum secret_token token;
	bool follow;         /* file: links on the way are followed */
	uint32_t refresh_s;  /* how old a value of Vault or a program may become; 0: the default */
	struct secret_params params;
};
unsigned table_secret_count(const struct table *t);
bool table_secret(const struct table *t, unsigned i, struct secret_decl *out);
bool table_secret_host(const struct table *t, unsigned i, unsigned k, struct str *host); /* the k-th of its hosts */
/* secrets.*.hosts cover this host, or, of a wildcard destination, all that its pattern (dest_host) stands for. */
bool table_secret_host_ok(const struct table *t, uint32_t secret_index, struct str host);

enum inject_kind { INJECT_NONE = 0, INJECT_BEARER, INJECT_BASIC, INJECT_HEADER, INJECT_QUERY, INJECT_PLACEHOLDER, INJECT_SIGV4, INJECT_HMAC, INJECT_CLIENT_CERTIFICATE, INJECT_KINDS };
#define INJECT_HMAC_MAX 4 /* of a destination */
/* Its key signs in the role that holds it, and no worker ever has it. */
static inline bool inject_signs(enum inject_kind k) { return k == INJECT_HMAC || k == INJECT_CLIENT_CERTIFICATE; }
/* Where a placeholder is filled. */
enum inject_place { PLACE_HEADER = 1, PLACE_BASIC = 2, PLACE_QUERY = 4, PLACE_PATH = 8, PLACE_JSON = 16, PLACE_FORM = 32, PLACE_TEXT = 64, PLACE_WEBSOCKET = 128, PLACE_CONTENT = PLACE_JSON | PLACE_FORM | PLACE_TEXT, PLACES_ALL = 255 };
struct inject {
	enum inject_kind kind;
	uint32_t secret_index;
	struct str secret_name;
	struct str username;  /* basic */
	struct str name;      /* header, and where a placeholder is filled: field name, or empty; query: key */
	struct str format;    /* header: "Token {}"; empty = value alone */
	struct str service, region; /* sigv4 */
	uint16_t places;      /* placeholder: enum inject_place */
	bool slashes_keep;    /* placeholder in a path: '/' of the value stays */
	bool scope_sandbox;   /* its placeholder is another in each sandbox */
	bool body_deny;       /* its placeholder in content ends the request */
	struct str env, when; /* lists: inject_variable, inject_when */
	/* hmac */
	struct str template;  /* what is signed */
	struct str timestamp, nonce; /* fields that tell the origin its {timestamp...} or {date}, and {nonce}; or empty */
	enum hmac_hash hash;
	enum hmac_encoding encoding;
	enum hmac_key key;
};
/* The i-th variable that is set inside; the template has {}, {key_id}, {key} or {session} where a placeholder goes. */
bool inject_variable(const struct inject *in, unsigned i, struct str *name, struct str *template);
/* Whether it is for requests that this rule lets through. */
bool inject_when(const struct inject *in, struct str rule);
unsigned dest_inject_count(const struct dest *d);
bool dest_inject(const struct dest *d, unsigned i, struct inject *out);
/* For the launcher: every injection of the table, destination by destination. */
bool table_inject_each(const struct table *t, bool (*fn)(void *arg, const struct inject *in), void *arg);
/* The destination of that number (dest.index). False: there is none. */
bool table_dest_at(const struct table *t, uint32_t index, struct dest *out);
/* For the worker's leaf warming, the checker, tests: every destination. */
bool table_dest_each(const struct table *t, bool (*fn)(void *arg, const struct dest *d), void *arg);
#endif
