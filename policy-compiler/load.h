/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_POLICY_LOAD_H
#define SP_POLICY_LOAD_H
/* What the parts of the loader share. */
#include <openssl/evp.h>

#include "model.h"

struct load {
	struct policy *p;
	struct diag *d;
	const char *dir;   /* or NULL */
	struct arena *a;
	EVP_MD_CTX *files; /* of the digests of further files */
	unsigned file_n;
};
#define ERROR_AT(l, node, ...) diag_error((l)->d, (node)->line, (node)->col, __VA_ARGS__)
#define WARN_AT(l, node, ...) diag_warning((l)->d, (node)->line, (node)->col, __VA_ARGS__)
static inline struct pol_place place_of(const struct yaml_node *n) { return (struct pol_place){ n->line, n->col }; }

struct str load_source(struct load *l, const struct yaml_node *n); /* FILE:LINE */
/* A host, or a wildcard (host_pattern.h) in h->text. False: reported. */
bool load_host(struct load *l, const struct yaml_node *n, struct canon_host *h);
void load_limits(struct load *l, const struct yaml_node *n, struct dest_limits *to);
bool load_secret_name_ok(struct str s);
struct pol_secret *load_find_secret(struct policy *p, struct str name);
void load_secrets(struct load *l, const struct yaml_node *map);
void load_destination(struct load *l, struct yaml_node *n);
/* One rule, without its id unless one is given. */
bool load_rule(struct load *l, struct yaml_node *n, const struct canon_path_opts *paths, bool deny, struct pol_rule *r);
void load_injects(struct load *l, const struct yaml_node *list, struct pol_dest *proto);
void load_ca(struct load *l, const struct yaml_node *n, struct pol_dest *d);
void load_pins(struct load *l, const struct schema_value *v, struct pol_dest *d);
void load_sandbox(struct load *l, const struct yaml_node *n);
#endif
