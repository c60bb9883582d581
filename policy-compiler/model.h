/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_POLICY_MODEL_H
#define SP_POLICY_MODEL_H
/* A policy as read from YAML and checked: what the compiler writes and ref_eval evaluates. Everything lives in one arena. */
#include "../common/conf/yaml.h"
#include "../common/policy/decide.h"

struct pol_secret {
	struct str name, arg;
	enum secret_source source;
	struct str *hosts;
	unsigned host_n, line;
	uint32_t index;
	bool used;
};
struct pol_rule {
	bool deny, any;
	struct str *methods;
	unsigned method_n;
	struct str pattern; /* canonical match form */
	struct str written; /* as in the file, without the method */
	struct str id, source;
};
struct pol_inject {
	enum inject_kind kind;
	struct pol_secret *secret;
	struct str username, name, format, env;
};
struct pol_ca {
	struct str der;
};
struct pol_dest {
	enum scheme scheme;
	struct canon_host host;
	uint16_t port;
	bool port_written;
	struct str id, source;
	uint32_t line, index;
	struct cidr *addresses;
	unsigned address_n;
	struct ip connect_ip;
	uint16_t connect_port;
	uint8_t tls_min;
	struct pol_ca *cas;
	unsigned ca_n;
	bool log_query, encoded_slash, empty_segments, raw;
	struct pol_rule *rules;
	unsigned rule_n;
	struct pol_inject *injects;
	unsigned inject_n;
};
struct pol_kv {
	struct str key, value;
};
struct policy {
	struct arena mem;
	struct str name, description;
	bool explain_denials;
	struct pol_secret *secrets;
	unsigned secret_n;
	struct pol_dest *dests;
	unsigned dest_n;
	struct pol_kv *sandbox;
	unsigned sandbox_n;
};

/* Reads and checks one policy file. 0, or -1 when d->errors > 0. p is always to be freed. */
int policy_load(struct policy *p, const char *path, struct diag *d);
/* From memory: `dir` is where relative files are looked for (NULL: tls.ca cannot be used). */
int policy_parse(struct policy *p, const char *text, size_t n, const char *dir, struct diag *d);
void policy_free(struct policy *p);

/* Writes the table: to a temporary name beside out, fsync, rename. Same input, same octets. */
int policy_write(const struct policy *p, const char *out, struct err *err);

/* The slow, obvious evaluator: what the table must agree with. */
void ref_eval(const struct policy *p, const struct facts *f, struct decision *out);
const struct pol_dest *ref_dest(const struct policy *p, enum scheme scheme, struct str host, uint16_t port);
#endif
