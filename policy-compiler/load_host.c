/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hosts in a policy: names, addresses, wildcards. The only user of libidn2 (U-labels become A-labels, strictly after
 * IDNA2008: what would have to be mapped first is an error, but for ASCII case) and of libpsl (a wildcard over a public
 * suffix would let in whoever registers a name there).
 */
#include <idn2.h>
#include <libpsl.h>

#include "../common/policy/host_pattern.h"
#include "load.h"

/* --- U-labels ------------------------------------------------------------------------------------------------------ */

static bool ascii(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if ((unsigned char)s.p[i] >= 0x80)
			return false;
	return true;
}

static bool to_ascii(struct load *l, const struct yaml_node *n, struct str in, struct str *out)
{
	char *lower = arena_alloc(l->a, in.n + 1), *text = NULL;
	int rc;

	for (size_t i = 0; i < in.n; i++)
		lower[i] = ascii_lower(in.p[i]);
	lower[in.n] = 0;
	rc = idn2_lookup_u8((const uint8_t *)lower, (uint8_t **)&text, IDN2_NO_TR46);
	if (rc != IDN2_OK) {
		ERROR_AT(l, n, "`%.*s` is not an internationalised host name (%s); write small letters, or the A-label (xn--...)", DIAG_STR(in), idn2_strerror(rc));
		return false;
	}
	*out = arena_str(l->a, str_of(text));
	idn2_free(text);
	return true;
}

/* --- wildcards ----------------------------------------------------------------------------------------------------- */

/* The first label of a wildcard and what is behind its dot. False: reported. */
static bool split_wildcard(struct load *l, const struct yaml_node *n, struct str s, struct str *label, struct str *suffix)
{
	const char *dot = memchr(s.p, '.', s.n);
	size_t star;

	if (dot == NULL || dot + 1 == s.p + s.n) {
		ERROR_AT(l, n, "`%.*s` would be every host: name the domain, as in \"*.example.com\"", DIAG_STR(s));
		return false;
	}
	*label = str_mk(s.p, (size_t)(dot - s.p));
	*suffix = str_mk(dot + 1, s.n - label->n - 1);
	if (memchr(suffix->p, '*', suffix->n) != NULL) {
		ERROR_AT(l, n, "`%.*s`: a wildcard is the first label alone: \"*.x\" is one label before x, \"**.x\" one or more", DIAG_STR(s));
		return false;
	}
	if (str_eq(*label, STR("*")) || str_eq(*label, STR("**")))
		return true;
	star = (size_t)((const char *)memchr(label->p, '*', label->n) - label->p);
	if (star + 1 != label->n) {
		ERROR_AT(l, n, "`%.*s`: a wildcard is a whole label, \"*.x\" or \"**.x\", or the end of one, \"pre*.x\"", DIAG_STR(s));
		return false;
	}
	if (!ascii(*label) || (star >= 4 && str_ieq(str_mk(label->p, 4), STR("xn--")))) {
		ERROR_AT(l, n, "`%.*s`: the beginning of an internationalised label says nothing about its A-label (xn--...): name the hosts, or write \"*.x\"", DIAG_STR(s));
		return false;
	}
	return true;
}

/* A wildcard needs a domain of someone's own behind it. */
static bool owned_suffix(struct load *l, const struct yaml_node *n, struct str s, const char *suffix)
{
	const psl_ctx_t *list = psl_builtin();

	if (list == NULL) {
		ERROR_AT(l, n, "no wildcard can be judged here: this libpsl has no list of public suffixes");
		return false;
	}
	if (strchr(suffix, '.') == NULL) { /* also one that the list does not know */
		ERROR_AT(l, n, "`%.*s`: %s is a whole top-level domain: name a domain in it", DIAG_STR(s), suffix);
		return false;
	}
	if (psl_is_public_suffix2(list, suffix, PSL_TYPE_ICANN)) {
		ERROR_AT(l, n, "`%.*s`: anyone can have a name below %s, a public suffix: name the domain", DIAG_STR(s), suffix);
		return false;
	}
	if (psl_is_public_suffix2(list, suffix, PSL_TYPE_PRIVATE | PSL_TYPE_NO_STAR_RULE))
		WARN_AT(l, n, "`%.*s`: the customers of %s have names there, each of its own", DIAG_STR(s), suffix);
	return true;
}

static bool load_wildcard(struct load *l, const struct yaml_node *n, struct str s, struct canon_host *h)
{
	struct host_pattern p;
	struct canon_host tail;
	struct str label, suffix;
	const char *reason;
	struct buf b = { 0 };
	bool ok = false;

	memset(h, 0, sizeof(*h));
	if (!split_wildcard(l, n, s, &label, &suffix) || (!ascii(suffix) && !to_ascii(l, n, suffix, &suffix)))
		return false;
	if (!canon_host(suffix, false, &tail, &reason)) {
		ERROR_AT(l, n, "`%.*s` is not a host name behind a wildcard (%s)", DIAG_STR(suffix), reason);
		return false;
	}
	if (tail.ip.family != 0) {
		ERROR_AT(l, n, "`%.*s`: addresses have no wildcards", DIAG_STR(s));
		return false;
	}
	for (size_t i = 0; i < label.n; i++)
		buf_addc(&b, ascii_lower(label.p[i]));
	buf_addf(&b, ".%s", tail.text);
	if (!host_pattern_read(buf_str(&b), &p)) {
		ERROR_AT(l, n, "`%.*s` is not a wildcard that a host can match", DIAG_STR(s));
		goto out;
	}
	if (!owned_suffix(l, n, s, tail.text))
		goto out;
	h->len = (uint8_t)buf_len(&b);
	memcpy(h->text, buf_str(&b).p, h->len);
	ok = true;
out:
	buf_fini(&b);
	return ok;
}

/* --- a host -------------------------------------------------------------------------------------------------------- */

bool load_host(struct load *l, const struct yaml_node *n, struct canon_host *h)
{
	struct str s = n->text;
	const char *reason;
	struct ip ip;

	if (str_find(s, STR("://")) >= 0 || memchr(s.p, '/', s.n) != NULL)
		ERROR_AT(l, n, "a host is a name alone, without scheme and path: `scheme` stands beside it, paths in the rules");
	else if (ip_parse(s, &ip) && ip.family == 6)
		ERROR_AT(l, n, "an IPv6 address is written in brackets and quotes: \"[%.*s]\"", DIAG_STR(s));
	else if (s.p[0] == '[' ? s.p[s.n - 1] != ']' : memchr(s.p, ':', s.n) != NULL)
		ERROR_AT(l, n, "a port inside `host`: write `ports: [...]` beside it");
	else if (memchr(s.p, '@', s.n) != NULL)
		ERROR_AT(l, n, "a host has no user in it");
	else if (s.p[0] == '.')
		ERROR_AT(l, n, "a host does not begin with a dot: \"**%.*s\" is everything below it", DIAG_STR(s));
	else if (memchr(s.p, '*', s.n) != NULL)
		return load_wildcard(l, n, s, h);
	else if (!ascii(s) && !to_ascii(l, n, s, &s))
		;
	else if (!canon_host(s, true, h, &reason))
		ERROR_AT(l, n, "`%.*s` is not a host name or address (%s)", DIAG_STR(s), reason);
	else
		return true;
	return false;
}
