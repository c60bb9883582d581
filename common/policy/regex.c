/* SPDX-License-Identifier: Apache-2.0 */
#include "regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "../base/must.h"

#define NEST_MAX 20
#define COMPILED_MAX (64u << 10) /* octets: what {n,m} may blow up */
/*
 * Integers for the states of one match. The library compares each state with all before it, and repetition inside of
 * repetition makes one more state with each octet: a larger workspace would not make long matches possible, but long.
 */
#define WORKSPACE 1024
#define SLOW_STEPS 2000000

struct entry {
	const char *source; /* NULL: free */
	bool fold;
	pcre2_code *code; /* NULL: it could not be compiled */
};
struct regexes {
	struct entry *at; /* hashed by address; a power of two */
	size_t cap, n;
	pcre2_match_data *match;
	int workspace[WORKSPACE];
};

struct regexes *regexes_new(void)
{
	struct regexes *rs = must_calloc(1, sizeof(*rs));

	rs->match = pcre2_match_data_create(1, NULL);
	MUST(rs->match != NULL);
	return rs;
}

void regexes_free(struct regexes *rs)
{
	if (rs == NULL)
		return;
	for (size_t i = 0; i < rs->cap; i++)
		pcre2_code_free(rs->at[i].code);
	pcre2_match_data_free(rs->match);
	free(rs->at);
	free(rs);
}

/* --- what a source may say ----------------------------------------------------------------------------------------- */

/* A class, from behind its bracket; returns where it ends, or 0. */
static size_t class_end(struct str s, size_t i)
{
	if (i < s.n && s.p[i] == '^')
		i++;
	if (i < s.n && s.p[i] == ']')
		i++;
	for (; i < s.n && s.p[i] != ']'; i++) {
		if (s.p[i] == '\\')
			i++;
		else if (s.p[i] == '[' && i + 1 < s.n && (s.p[i + 1] == ':' || s.p[i + 1] == '.' || s.p[i + 1] == '='))
			return 0;
	}
	return i < s.n ? i : 0;
}

static bool alnum(char c) { return (c >= '0' && c <= '9') || (ascii_lower(c) >= 'a' && ascii_lower(c) <= 'z'); }

/* Escapes: of anything but letters and digits, and \d \w \s and their opposites. */
static bool escapes_ok(struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] != '\\')
			continue;
		if (++i == s.n || (alnum(s.p[i]) && strchr("dDwWsS", s.p[i]) == NULL))
			return false;
	}
	return true;
}

static size_t quantifier_end(struct str s, size_t i)
{
	size_t k = i + 1;

	if (s.p[i] != '{')
		return i;
	while (k < s.n && ((s.p[k] >= '0' && s.p[k] <= '9') || s.p[k] == ','))
		k++;
	return k < s.n && s.p[k] == '}' && k > i + 1 ? k : i;
}

static const char *syntax(struct str s)
{
	unsigned open = 0;

	for (size_t i = 0; i < s.n; i++)
		if ((unsigned char)s.p[i] <= 0x20 || (unsigned char)s.p[i] >= 0x7f)
			return "a path has no blanks, controls or letters beyond ASCII: they are percent-encoded";
	if (!escapes_ok(s))
		return "of escapes there are \\d \\w \\s \\D \\W \\S, and \\ before what is no letter or digit: no back-references, no assertions";
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] == '\\') {
			i++;
		} else if (s.p[i] == '[') {
			i = class_end(s, i + 1);
			if (i == 0)
				return "a class [...] without an end, or with a name in it";
		} else if (s.p[i] == '(') {
			if (i + 1 < s.n && (s.p[i + 1] == '*' || (s.p[i + 1] == '?' && !(i + 2 < s.n && s.p[i + 2] == ':'))))
				return "of groups there are (...) and (?:...): no look-around, no recursion, no options";
			if (i + 1 < s.n && s.p[i + 1] == '?')
				i += 2;
			open++;
		} else if (s.p[i] == ')') { /* one that closes nothing would close the group that all of it is put into */
			if (open-- == 0)
				return "a ) without its (";
		} else if (strchr("*+?{", s.p[i]) != NULL) {
			i = quantifier_end(s, i);
			if (i + 1 < s.n && (s.p[i + 1] == '+' || s.p[i + 1] == '?'))
				return "no possessive and no lazy quantifiers: an expression matches or does not";
		}
	}
	return open > 0 ? "a ( without its )" : NULL;
}

/* The end is anchored by \z: pcre2_dfa_match of 10.42 forgets PCRE2_ENDANCHORED of the compiled expression. */
static pcre2_code *compile(struct str s, bool fold, int *error)
{
	pcre2_compile_context *c = pcre2_compile_context_create(NULL);
	char text[REGEX_SOURCE_MAX + 8];
	size_t size = 0, offset, n;
	pcre2_code *code;

	MUST(c != NULL && s.n <= REGEX_SOURCE_MAX);
	n = (size_t)snprintf(text, sizeof(text), "(?:%.*s)\\z", (int)s.n, s.p);
	pcre2_set_parens_nest_limit(c, NEST_MAX);
	code = pcre2_compile((PCRE2_SPTR)text, n, PCRE2_ANCHORED | PCRE2_DOLLAR_ENDONLY | PCRE2_DOTALL | PCRE2_NO_AUTO_CAPTURE | PCRE2_NEVER_UTF | PCRE2_NEVER_BACKSLASH_C | (fold ? PCRE2_CASELESS : 0),
			     error, &offset, c);
	pcre2_compile_context_free(c);
	if (code != NULL && (pcre2_pattern_info(code, PCRE2_INFO_SIZE, &size) != 0 || size > COMPILED_MAX)) {
		pcre2_code_free(code);
		*error = PCRE2_ERROR_NOMEMORY;
		return NULL;
	}
	return code;
}

const char *regex_check(struct str s, char why[REGEX_WHY_MAX])
{
	const char *wrong;
	pcre2_code *code;
	int error = 0;

	if (s.n == 0 || s.n > REGEX_SOURCE_MAX)
		return "it has from 1 to 1024 characters";
	wrong = syntax(s);
	if (wrong != NULL)
		return wrong;
	code = compile(s, false, &error);
	if (code == NULL) {
		if (error == PCRE2_ERROR_NOMEMORY)
			return "it grows too large: repeat less";
		pcre2_get_error_message(error, (PCRE2_UCHAR *)why, REGEX_WHY_MAX);
		return why;
	}
	pcre2_code_free(code);
	return NULL;
}

/* --- matching ------------------------------------------------------------------------------------------------------ */

static struct entry *place(struct entry *at, size_t cap, const char *source, bool fold)
{
	size_t i = ((uintptr_t)source * 0x9e3779b97f4a7c15u >> 20) & (cap - 1);

	while (at[i].source != NULL && (at[i].source != source || at[i].fold != fold))
		i = (i + 1) & (cap - 1);
	return &at[i];
}

static const struct entry *compiled(struct regexes *rs, struct str source, bool fold)
{
	struct entry *e;
	char why[REGEX_WHY_MAX];
	int error;

	if (2 * (rs->n + 1) > rs->cap) {
		size_t cap = rs->cap ? rs->cap * 2 : 16;
		struct entry *more = must_calloc(cap, sizeof(*more));

		for (size_t i = 0; i < rs->cap; i++)
			if (rs->at[i].source != NULL)
				*place(more, cap, rs->at[i].source, rs->at[i].fold) = rs->at[i];
		free(rs->at);
		rs->at = more;
		rs->cap = cap;
	}
	e = place(rs->at, rs->cap, source.p, fold);
	if (e->source == NULL) {
		*e = (struct entry){ source.p, fold, NULL };
		if (regex_check(source, why) == NULL)
			e->code = compile(source, fold, &error);
		rs->n++;
	}
	return e;
}

static enum regex_result result(int rc) { return rc >= 0 ? REGEX_YES : rc == PCRE2_ERROR_NOMATCH ? REGEX_NO
												 : REGEX_LIMIT; }

enum regex_result regex_match(struct regexes *rs, struct str source, bool fold, struct str subject)
{
	const struct entry *e;

	if (source.n == 0 || source.n > REGEX_SOURCE_MAX || subject.n > REGEX_SUBJECT_MAX)
		return REGEX_LIMIT;
	e = compiled(rs, source, fold);
	if (e->code == NULL)
		return REGEX_LIMIT;
	return result(pcre2_dfa_match(e->code, (PCRE2_SPTR)subject.p, subject.n, 0, PCRE2_DFA_SHORTEST, rs->match, NULL, rs->workspace, WORKSPACE));
}

enum regex_result regex_match_slowly(struct str source, bool fold, struct str subject)
{
	int error, rc;
	pcre2_code *code = compile(source, fold, &error);
	pcre2_match_context *c = pcre2_match_context_create(NULL);
	pcre2_match_data *m;

	MUST(c != NULL);
	pcre2_set_match_limit(c, SLOW_STEPS);
	if (code == NULL) {
		pcre2_match_context_free(c);
		return REGEX_LIMIT;
	}
	m = pcre2_match_data_create_from_pattern(code, NULL);
	MUST(m != NULL);
	rc = pcre2_match(code, (PCRE2_SPTR)subject.p, subject.n, 0, PCRE2_NO_JIT, m, c);
	pcre2_match_data_free(m);
	pcre2_match_context_free(c);
	pcre2_code_free(code);
	return result(rc);
}
