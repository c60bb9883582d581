/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_POLICY_COND_H
#define SP_POLICY_COND_H
/*
 * Conditions of one rule as the table holds them, and whether a request fits. In an allow rule everything must fit; in a
 * deny rule doubt counts as a match: case is ignored, one value of a key is enough, what cannot be read matches.
 *
 * Layout (integers and str as in format.h; "texts" is u16 n x str, patterns in which GLOB_STAR is any characters):
 *   u8 parts (COND_* below), then of those that are there, in this order:
 *   VALID    u64 from, u64 until: seconds since 1970, 0: open
 *   QUERY    values: the only keys that may be there
 *   HEADERS  values: names in lower case
 *   REGEX    str: over the path
 *   BODY     u8 kind, and by kind: GRAPHQL u8 types, texts fields, texts names; MCP texts tools, texts methods,
 *            values arguments; JSONRPC texts methods; JSON values (keys are pointers, RFC 6901); GIT_PUSH u8 flags, texts refs
 *   USES     u64 key of the counter, u64 how often (an allow rule's only)
 * values: u16 n x { str key, u8 flags (VALUE_*), texts }
 */
#include "facts.h"
#include "format.h"
#include "regex.h"

enum { COND_VALID = 1, COND_QUERY = 2, COND_HEADERS = 4, COND_REGEX = 8, COND_BODY = 16, COND_USES = 32, COND_PARTS_ALL = 63 };
enum { VALUE_REQUIRED = 1, VALUE_ANY = 2, VALUE_FLAGS_ALL = 3 };
enum cond_body { BODY_UNSAID = 0, BODY_NONE, BODY_ANY, BODY_GRAPHQL, BODY_MCP, BODY_JSONRPC, BODY_JSON, BODY_GIT_PUSH };
enum { GRAPHQL_QUERY = 1, GRAPHQL_MUTATION = 2, GRAPHQL_SUBSCRIPTION = 4, GRAPHQL_TYPES_ALL = 7 };
enum { GIT_DELETE = 1, GIT_FLAGS_ALL = 1 };

#define COND_VALUES_MAX 64   /* keys of one condition */
#define COND_TEXTS_MAX 1000  /* patterns of one key */
#define COND_PARAMS_MAX 1000 /* of a query: more are not read */

enum cond_result { COND_NO = 0, COND_YES, COND_CONTENT /* all else fits, the content is not there yet */ };
/* cond: empty, or as above. *failed: the part that does not fit, 0 if none. */
enum cond_result cond_fits(struct regexes *rs, struct str cond, bool deny, const struct facts *f, unsigned *failed);
enum cond_body cond_body(struct str cond);
/* NULL if good, else what is wrong. */
const char *cond_check(struct str cond);
#define COND_TEXT_MAX 16384  /* of one value, decoded */

/* --- for the evaluator of content (body.h) and the tools ----------------------------------------------------------- */
struct cond_texts { /* a list of patterns */
	struct cursor at; /* at the first */
	unsigned n;
};
struct cond_texts cond_texts(struct cursor *c); /* and skips them */
bool cond_texts_fit(struct cond_texts t, struct str s, bool fold);
struct cond_value {
	struct str key;
	uint8_t flags;
	struct cond_texts texts;
};
bool cond_value_next(struct cursor *c, struct cond_value *v); /* false: damaged */
bool cond_value_fits(const struct cond_value *v, struct str s, bool fold);
#endif
