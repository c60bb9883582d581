/* SPDX-License-Identifier: Apache-2.0 */
#include "sources.h"

#include <stdio.h>

#include "glob.h"

const char *source_kind(enum secret_source s)
{
	static const char *const kinds[SECRET_SOURCES] = { [SECRET_SOURCE_ENV] = "env", [SECRET_SOURCE_FILE] = "file", [SECRET_SOURCE_CREDENTIAL] = "credential", [SECRET_SOURCE_VAULT] = "vault", [SECRET_SOURCE_VAULT_DYNAMIC] = "vault", [SECRET_SOURCE_EXEC] = "exec" };

	return s < SECRET_SOURCES && kinds[s] != NULL ? kinds[s] : "none";
}

static struct str cut(struct str *rest, char at)
{
	const char *p = rest->n ? memchr(rest->p, at, rest->n) : NULL;
	struct str head = p != NULL ? str_mk(rest->p, (size_t)(p - rest->p)) : *rest;

	*rest = p != NULL ? str_mk(p + 1, rest->n - head.n - 1) : STR_NONE;
	return head;
}

/* No segment that a client of the path could take for another: empty ones, "." and "..". first: it begins with a slash. */
static bool plain_path(struct str s, bool first)
{
	if (s.n == 0 || (s.p[0] == '/') != first)
		return false;
	if (first)
		s = str_mk(s.p + 1, s.n - 1);
	for (size_t b = 0, e; b <= s.n; b = e + 1) {
		for (e = b; e < s.n && s.p[e] != '/'; e++)
			if ((unsigned char)s.p[e] <= 0x20 || s.p[e] == 0x7f)
				return false;
		if (e == b || (e - b == 1 && s.p[b] == '.') || (e - b == 2 && s.p[b] == '.' && s.p[b + 1] == '.'))
			return false;
	}
	return true;
}

/* What is a path of Vault to it and to whoever writes the URL: nothing that is escaped, or means more there. */
static bool vault_path(struct str s, bool stars)
{
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i], l = ascii_lower(c);

		if (!((l >= 'a' && l <= 'z') || (c >= '0' && c <= '9') || memchr("/-_.~:@+=", c, 9) != NULL || (stars && c == '*')))
			return false;
	}
	return plain_path(s, false);
}

static bool vault_fits(struct str pattern, struct str path)
{
	while (pattern.n > 0 && path.n > 0) {
		struct str p = cut(&pattern, '/'), s = cut(&path, '/');

		if (str_eq(p, STR("**")))
			return pattern.n == 0;
		if (!glob_segment(p, s, false))
			return false;
	}
	return pattern.n == 0 && path.n == 0;
}

static bool fits(enum secret_source source, struct str pattern, struct str arg)
{
	switch (source) {
	case SECRET_SOURCE_FILE:
		return plain_path(arg, true) && (str_ends(pattern, STR("/")) ? str_starts(arg, pattern) : str_eq(arg, pattern));
	case SECRET_SOURCE_VAULT:
	case SECRET_SOURCE_VAULT_DYNAMIC:
		return vault_path(arg, false) && vault_fits(pattern, arg);
	case SECRET_SOURCE_EXEC:
		return str_eq(arg, pattern);
	default:
		return glob_segment(pattern, arg, false);
	}
}

const char *sources_pattern_bad(struct str kind, struct str p)
{
	if (p.n == 0 || p.n > 1024)
		return "it has 1 to 1024 characters";
	for (size_t i = 0; i < p.n; i++)
		if ((unsigned char)p.p[i] <= 0x20 || p.p[i] == 0x7f)
			return "it has no blanks";
	if (str_eq(kind, STR("file")))
		return plain_path(str_ends(p, STR("/")) && p.n > 1 ? str_mk(p.p, p.n - 1) : p, true) ? NULL : "it is an absolute path; a folder, and all below it, with a / at its end";
	if (str_eq(kind, STR("exec")))
		return p.p[0] == '/' ? NULL : "it is an absolute path";
	if (str_eq(kind, STR("vault"))) {
		ptrdiff_t deep = str_find(p, STR("**"));

		if (!vault_path(p, true) || memchr(p.p, '/', p.n) == NULL)
			return "it is a path of Vault, secret/data/agents/* for example";
		if (deep >= 0 && ((size_t)deep + 2 != p.n || deep == 0 || p.p[deep - 1] != '/'))
			return "** is the last segment: secret/data/agents/**";
	}
	return NULL;
}

bool sources_allow(struct str rules, enum secret_source source, struct str arg)
{
	struct str kind = str_of(source_kind(source));
	bool only = false;

	while (rules.n > 0) {
		struct str pattern = cut(&rules, '\n'), word = cut(&pattern, ' ');

		if (str_eq(word, STR("only")))
			only = only || str_eq(pattern, kind);
		else if (str_eq(word, kind) && fits(source, pattern, arg))
			return true;
	}
	return !only;
}

unsigned sources_check(struct str rules, const struct table *t, void (*say)(void *arg, struct str where, const char *text), void *arg)
{
	unsigned bad = 0;

	for (unsigned i = 0; i < table_secret_count(t); i++) {
		struct secret_decl d;
		char text[512];

		if (!table_secret(t, i, &d))
			return bad + 1;
		if (sources_allow(rules, d.source, d.arg))
			continue;
		bad++;
		snprintf(text, sizeof(text), "secret `%.*s` comes from %s `%.*s`", (int)(d.name.n > 100 ? 100 : d.name.n), d.name.p, source_kind(d.source), (int)(d.arg.n > 250 ? 250 : d.arg.n), d.arg.n ? d.arg.p : "");
		say(arg, STR_NONE, text);
	}
	return bad;
}
