/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_POLICY_REGEX_H
#define SP_POLICY_REGEX_H
/*
 * Regular expressions over paths: a part of PCRE2 in which a match takes time in proportion to the path. No
 * back-references, look-around, recursion, callouts, possessive or lazy quantifiers, no options inside. Both ends are
 * anchored. Tables hold the source; it is compiled when it is first asked for, and kept for the life of its table. The
 * only user of libpcre2.
 */
#include "../base/str.h"

#define REGEX_SOURCE_MAX 1024
#define REGEX_SUBJECT_MAX 4096

struct regexes; /* compiled ones of one table */
struct regexes *regexes_new(void);
void regexes_free(struct regexes *rs);

enum regex_result { REGEX_NO = 0, REGEX_YES, REGEX_LIMIT /* over its limits, or no good expression: nobody knows */ };
/* source: stays where it is for the life of rs, which knows it by its address. */
enum regex_result regex_match(struct regexes *rs, struct str source, bool fold, struct str subject);
/* For the reference evaluator: compiles each time and searches by trying, with another engine of the library. */
enum regex_result regex_match_slowly(struct str source, bool fold, struct str subject);

/* NULL when the source is good; else what is wrong with it, in a buffer of the caller. */
#define REGEX_WHY_MAX 256
const char *regex_check(struct str source, char why[REGEX_WHY_MAX]);
#endif
