/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_POLICY_LOAD_H
#define SP_POLICY_LOAD_H
/* What the parts of the loader share. */
#include <openssl/evp.h>

#include "model.h"

/* Whoever knows the files beside the first one: name is relative to its folder, without "." and "..". False: *why. */
struct load_reader {
	bool (*read)(void *arg, const char *name, struct buf *out, const char **why);
	void *arg;
};
struct load_folder { /* the folder of a file, as a reader */
	struct load_reader reader;
	int fd;
	uid_t owner;
};
struct load_source {
	const char *within; /* the name within the first file's folder, or std/NAME */
	const char *dir;    /* where its own relative names (tls.ca) are looked for, or NULL */
	struct yaml_node *root;
	const struct yaml_node *part[4];
};
struct load {
	struct policy *p;
	struct diag *d;
	const char *dir;   /* of the first file, or NULL */
	const struct load_reader *reader; /* or NULL */
	struct arena *a;
	EVP_MD_CTX *files; /* of the digests of further files */
	unsigned file_n;
	unsigned file;     /* of p->files: what is being read */
	const struct yaml_node *mode; /* mode: observe */
	uint64_t over;     /* bit per file: `override: true` at its top */
	struct pol_place explain_at; /* where explain_denials is said; line 0: nowhere */
	struct load_source source[POLICY_FILES_MAX];
};
#define ERROR_AT(l, node, ...) diag_error((l)->d, (node)->line, (node)->col, __VA_ARGS__)
#define WARN_AT(l, node, ...) diag_warning((l)->d, (node)->line, (node)->col, __VA_ARGS__)
static inline struct pol_place place_of(const struct load *l, const struct yaml_node *n) { return (struct pol_place){ l->file, n->line, n->col }; }

int policy_read(struct policy *p, struct str text, const char *dir, const struct load_reader *reader, struct diag *d);

/* load_files.c */
int load_folder_open(struct load_folder *f, const char *path, int file); /* path, file: of the first file, which is open */
void load_folder_close(struct load_folder *f);
bool load_library(const char *name, struct buf *out); /* an installed policy */
void load_read_files(struct load *l, struct str text); /* text: of the first file, whose name is l->d->file */
void load_in_file(struct load *l, unsigned number);    /* messages are about that one from now on */
void load_error(struct load *l, struct pol_place at, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void load_warning(struct load *l, struct pol_place at, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* "line 7", or "base.yaml:7" as seen from another file. */
const char *load_there(struct load *l, struct pol_place there, struct pol_place from);
int load_place_order(const struct pol_place *x, const struct pol_place *y);

/* load_merge.c */
bool load_overrides(const struct load *l, unsigned by, bool over, unsigned what); /* file `by`, which says it with `override: true`, stands above file `what` */
void load_lint(struct load *l); /* warnings about the whole */
void load_merge_sandbox(struct load *l, unsigned first);
void load_merge_dests(struct load *l); /* sorts them, unites what is of different files, tells equal ones of one file */

struct str load_source(struct load *l, const struct yaml_node *n); /* FILE:LINE */
/* A host, or a wildcard (host_pattern.h) in h->text. False: reported. */
bool load_host(struct load *l, const struct yaml_node *n, struct canon_host *h);
void load_limits(struct load *l, const struct yaml_node *n, struct pol_limits *to);
void load_limits_unite(struct arena *a, struct pol_limits *to, const struct pol_limits *from);
bool load_secret_name_ok(struct str s);
bool load_variable_ok(struct str s);
bool load_field_name_ok(struct str s); /* a header field that is not part of the framing */
struct pol_secret *load_find_secret(struct policy *p, struct str name);
void load_secrets(struct load *l, const struct yaml_node *map);
void load_destination(struct load *l, struct yaml_node *n);
/* One rule, without its id unless one is given. */
bool load_rule(struct load *l, struct yaml_node *n, const struct canon_path_opts *paths, bool deny, struct pol_rule *r);
/* Conditions of a rule. All report to l->d. */
void load_query_text(struct load *l, const struct yaml_node *at, struct str query, struct pol_rule *r); /* k=glob|glob&k2=... */
void load_query(struct load *l, const struct yaml_node *n, struct pol_rule *r);
void load_headers(struct load *l, const struct yaml_node *n, struct pol_rule *r);
void load_regex(struct load *l, const struct yaml_node *n, struct str source, struct pol_rule *r);
void load_valid(struct load *l, const struct yaml_node *n, struct pol_rule *r);
void load_body(struct load *l, const struct yaml_node *n, struct pol_rule *r);
struct pol_cond *load_cond(struct load *l, struct pol_rule *r, unsigned part); /* the rule's, which has that part from now on */
bool load_texts(struct load *l, const struct yaml_node *n, const char *what, bool literal, struct pol_texts *to);
bool load_values(struct load *l, const struct yaml_node *map, const char *what, const struct pol_rule *r, bool required, struct pol_values *to);
/* 2026-11-30 (its first second, UTC) or 2026-11-30T12:00:00Z, or with +01:00. */
bool load_time(struct str s, uint64_t *seconds);
bool load_inject_place_same(const struct pol_inject *a, const struct pol_inject *b);
bool load_inject_same(const struct pol_inject *a, const struct pol_inject *b);
void load_name_rules(struct load *l, struct pol_dest *d); /* those that were given no id */
/* A parameter of a secret; repeated ones keep their order. */
void load_param(struct load *l, struct pol_secret *s, enum secret_param tag, struct str text);
/* `oauth2`, `github_app`, `gcp_service_account` of a secret. False: reported. */
bool load_token(struct load *l, const struct schema_value *v, enum secret_token kind, struct pol_secret *s);
void load_injects(struct load *l, const struct yaml_node *list, struct pol_dest *proto);
const char *load_inject_kind(enum inject_kind k); /* as in `as:` */
bool load_inject_when(const struct pol_inject *in, struct str rule); /* it is for what that rule lets through */
void load_injects_of(struct load *l, struct pol_dest *d); /* of one host and port: its rules have their ids */
void load_ca(struct load *l, const struct yaml_node *n, struct pol_dest *d);
void load_crl(struct load *l, const struct yaml_node *n, struct pol_dest *d);
void load_tests(struct load *l, const struct yaml_node *list); /* after secrets */
void load_pins(struct load *l, const struct schema_value *v, struct pol_dest *d);
void load_sandbox(struct load *l, const struct yaml_node *n);
/* The rows by which each map of a policy is read, for editors (schema_json.c). */
struct schema_rows load_rows_top(void);
struct schema_rows load_rows_graphql(void);
struct schema_rows load_rows_mcp(void);
struct schema_rows load_rows_jsonrpc(void);
struct schema_rows load_rows_git(void);
struct schema_rows load_rows_body(void);
struct schema_rows load_rows_value(void);
struct schema_rows load_rows_valid(void);
struct schema_rows load_rows_tunnel(void);
struct schema_rows load_rows_tls(void);
struct schema_rows load_rows_paths(void);
struct schema_rows load_rows_dest(void);
struct schema_rows load_rows_limits(void);
struct schema_rows load_rows_rule(void);
struct schema_rows load_rows_fs(void);
struct schema_rows load_rows_environment(void);
struct schema_rows load_rows_process(void);
struct schema_rows load_rows_resource(void);
struct schema_rows load_rows_sandbox(void);
struct schema_rows load_rows_secret(void);
struct schema_rows load_rows_inject(void);
struct schema_rows load_rows_oauth2(void);
struct schema_rows load_rows_github_app(void);
struct schema_rows load_rows_gcp(void);
struct schema_rows load_rows_test(void);
#endif
