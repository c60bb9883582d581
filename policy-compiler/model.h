/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_POLICY_MODEL_H
#define SP_POLICY_MODEL_H
/* A policy as read from YAML and checked: what the compiler writes and ref_eval evaluates. Everything lives in one arena. */
#include "../common/conf/schema.h"
#include "../common/policy/cond.h"
#include "../common/policy/decide.h"

#define POLICY_RULES_MAX 1000000u  /* of all destinations, a list of hosts counted for each */
#define POLICY_DESTS_MAX 1000000u
#define POLICY_SECRETS_MAX 10000u

#define POLICY_FILES_MAX 64u

struct pol_place {
	uint32_t file, line, col; /* file: of policy.files */
};
struct pol_file {
	const char *name; /* as messages and sources have it */
	uint64_t below;   /* bit per file: those that it extends, directly or not */
	bool has_tests;
};
struct pol_secret {
	struct str name, arg;
	enum secret_source source;
	struct str *hosts; /* or patterns */
	unsigned host_n;
	uint32_t index;
	bool scope_sandbox, body_deny; /* of its placeholder */
	bool used, follow;
	bool over; /* override: true */
	enum secret_token token;
	uint32_t refresh_s;
	struct pol_param *params; /* in the order of their tags */
	unsigned param_n, param_cap;
	struct pol_place at;
};
struct pol_param {
	enum secret_param tag;
	struct str text;
};
struct pol_texts { /* patterns, in which GLOB_STAR is any characters */
	struct str *s;
	unsigned n;
};
struct pol_value { /* a key, a header's name or a pointer, and what may stand there */
	struct str key;
	bool any, required;
	struct pol_texts patterns;
};
struct pol_values {
	struct pol_value *v;
	unsigned n;
};
struct pol_rate { /* of limits: what is counted over time */
	enum rate_kind kind;
	uint64_t amount;
	uint32_t window_s;
};
struct pol_limits {
	struct dest_limits sizes;
	struct pol_rate *rates; /* all of them hold */
	unsigned rate_n;
};
struct pol_cond {
	unsigned parts; /* COND_* */
	uint64_t from_s, until_s;
	struct pol_values query, headers;
	struct str regex;
	enum cond_body body;
	unsigned graphql_types;
	bool git_delete;
	struct pol_texts fields, names, tools, methods, refs;
	struct pol_values values; /* of JSON, or a tool's arguments */
	uint64_t uses;
	uint64_t uses_key; /* known when the rule has its name */
};
struct pol_rule {
	bool deny, any;
	struct str *methods;
	unsigned method_n;
	struct str pattern; /* canonical match form */
	struct str written; /* as in the file, without the method */
	struct pol_cond *cond; /* or NULL */
	struct pol_limits limits;
	struct str id, source;
	bool id_given;
	struct pol_place at;
};
struct pol_inject {
	enum inject_kind kind;
	struct pol_secret *secret;
	uint16_t places; /* enum inject_place */
	bool slashes_keep;
	struct str username, name, format, service, region;
	struct str *env; /* variables: name, template, name, template ... */
	unsigned env_n;  /* of both together */
	struct str *when; /* ids of rules */
	unsigned when_n;
	struct str template, timestamp, nonce; /* hmac */
	enum hmac_hash hash;
	enum hmac_encoding encoding;
	enum hmac_key key;
	struct pol_place at;
};
/* Scalars of a destination: two files cannot say different things. */
enum { SAID_ID = 0, SAID_CONNECT, SAID_TLS_MIN, SAID_CA, SAID_CRL, SAID_LOG_QUERY, SAID_FOREIGN, SAID_SCRUB, SAID_ENCODED_SLASH, SAID_EMPTY_SEGMENTS, SAID_RAW, SAID_N };
struct pol_dest {
	enum scheme scheme;
	struct canon_host host; /* text: a host, or the pattern of a wildcard */
	uint16_t port;
	bool port_written, id_given;
	unsigned said;                  /* SAID_*: scalars that are written */
	unsigned said_over;             /* of these, whether their destination has `override: true` */
	struct pol_place said_at[SAID_N];
	struct str id, source;
	struct pol_place at;
	struct cidr *addresses;
	unsigned address_n;
	struct ip connect_ip;
	uint16_t connect_port;
	uint8_t tls_min;
	struct str *cas; /* DER */
	unsigned ca_n;
	struct str *crls; /* DER */
	unsigned crl_n;
	uint8_t (*pins)[32]; /* SHA-256 of a SubjectPublicKeyInfo */
	unsigned pin_n;
	bool alpn_h1, alpn_h2; /* none of both: no choice was made */
	bool tunnel;       /* protocol tcp, or TLS that is passed through */
	bool acknowledged; /* that others cannot be kept in it */
	bool log_query, scrub_off;
	enum foreign foreign;
	struct str *places; /* further places of credentials: dest_place */
	unsigned place_n;
	struct canon_path_opts paths;
	struct pol_limits limits; /* its own; those of the policy hold too */
	struct pol_rule *rules; /* allow and deny, those of allow first */
	unsigned rule_n;
	struct pol_inject *injects;
	unsigned inject_n;
	bool merged; /* of several files */
};
/* One entry of `tests`: what the policy must say of a request. */
struct pol_test {
	bool allow, inject_said;
	struct str method, url;
	struct pol_secret **inject; /* just these, in an allow */
	unsigned inject_n;
	struct str *header_names, *header_values;
	unsigned header_n;
	struct str content;
	bool has_content;
	uint64_t at_s; /* 0: now */
	struct pol_place at;
};
struct pol_kv {
	struct str key, value;
	struct pol_place at;
	bool over; /* its section has `override: true` */
};
struct policy {
	struct arena mem;
	struct pol_file files[POLICY_FILES_MAX]; /* the one that was asked for, then those that it extends */
	unsigned file_n;
	struct str name, description;
	bool explain_denials;
	struct pol_limits limits;
	uint64_t observe_until; /* mode: observe; 0: it enforces */
	struct pol_secret *secrets;
	unsigned secret_n;
	struct pol_dest *dests; /* sorted by scheme, port, host text; one with the port written before one without */
	unsigned dest_n, dest_cap, rule_n;
	struct pol_test *tests;
	unsigned test_n;
	struct pol_kv *sandbox;
	unsigned sandbox_n, sandbox_cap;
	/* SHA-256 of the file alone, or, with others (tls.ca), over its digest and theirs in the order of their use. */
	uint8_t digest[32];
};

/* Reads and checks one policy file and those that it extends. 0, or -1 when d->errors > 0. p is always to be freed. */
int policy_load(struct policy *p, const char *path, struct diag *d);
/* From memory: `dir` is where relative files are looked for (NULL: no file is read but those of the library). */
int policy_parse(struct policy *p, const char *text, size_t n, const char *dir, struct diag *d);
void policy_free(struct policy *p);

/* Writes the table: to a temporary name beside out, fsync, rename. Same input, same octets. */
int policy_write(const struct policy *p, const char *out, struct err *err);
/* The table in a memfd of its own. */
int policy_image(const struct policy *p, int *fd, struct err *err);
/* Writes that file to a temporary name beside `out`, then puts it there. */
int policy_put(int table, const char *out, struct err *err);

/* The slow, obvious evaluator: what the table must agree with. */
void ref_eval(const struct policy *p, const struct facts *f, struct decision *out);
void ref_within(const struct policy *p, const struct policy *boundary, const struct facts *f, struct decision *out);
/* The destination that decides, or NULL. */
const struct pol_dest *ref_dest(const struct policy *p, enum scheme scheme, struct str host, uint16_t port);
/* All that match, the most specific first; returns how many. out has room for p->dest_n. */
unsigned ref_dests(const struct policy *p, enum scheme scheme, struct str host, uint16_t port, const struct pol_dest **out);
bool ref_host(struct str pattern, struct str host);
bool ref_method(const struct pol_rule *r, struct str method);
bool ref_path(const struct pol_rule *r, struct str path);
bool ref_segment(struct str pattern, struct str s, bool deny);
bool ref_empty(struct str pattern); /* of a deny's segment: nothing but parameters */
/* The conditions of a rule; *failed: those that do not fit. */
enum cond_result ref_cond(const struct pol_rule *r, const struct facts *f, unsigned *failed);

/* The key of a limit's counter: of the whole policy (d NULL), of a destination (r NULL), of a rule. */
uint64_t limit_key(const struct pol_dest *d, const struct pol_rule *r, enum rate_kind kind, uint32_t window_s);

/* Appends a rule's conditions as the table holds them. */
void cond_encode(const struct pol_cond *c, struct buf *out);
#endif
