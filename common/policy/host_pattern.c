/* SPDX-License-Identifier: Apache-2.0 */
#include "host_pattern.h"

/* A name or an address literal in the form that canon_host gives. */
static bool canonical(struct str s, bool address_too)
{
	char bracketed[CANON_HOST_MAX + 2];
	struct canon_host h;
	const char *reason;

	if (s.n == 0 || s.n > CANON_HOST_MAX)
		return false;
	if (memchr(s.p, ':', s.n) != NULL) { /* IPv6 stands without brackets there */
		bracketed[0] = '[';
		memcpy(bracketed + 1, s.p, s.n);
		bracketed[s.n + 1] = ']';
		if (!canon_host(str_mk(bracketed, s.n + 2), true, &h, &reason))
			return false;
	} else if (!canon_host(s, false, &h, &reason)) {
		return false;
	}
	return (address_too || h.ip.family == 0) && str_eq(str_mk(h.text, h.len), s);
}

static bool prefix_ok(struct str s)
{
	if (s.n == 0 || s.n > 63 || s.p[0] == '-')
		return false;
	for (size_t i = 0; i < s.n; i++)
		if (!((s.p[i] >= 'a' && s.p[i] <= 'z') || (s.p[i] >= '0' && s.p[i] <= '9') || s.p[i] == '-' || s.p[i] == '_'))
			return false;
	return true;
}

bool host_pattern_read(struct str text, struct host_pattern *out)
{
	const char *star = text.n ? memchr(text.p, '*', text.n) : NULL;
	size_t at;

	*out = (struct host_pattern){ .suffix = text };
	if (star == NULL) {
		if (!canonical(text, true))
			return false;
		out->kind = HOST_EXACT;
		return true;
	}
	if (text.n > CANON_HOST_MAX)
		return false;
	at = (size_t)(star - text.p);
	out->prefix = str_mk(text.p, at);
	out->suffix = str_mk(star + 1, text.n - at - 1);
	if (at == 0 && str_starts(out->suffix, STR("*.")))
		out->suffix = str_mk(star + 2, text.n - 2);
	if (!str_starts(out->suffix, STR(".")) || (at > 0 && !prefix_ok(out->prefix)))
		return false;
	out->suffix = str_mk(out->suffix.p + 1, out->suffix.n - 1);
	if (!canonical(out->suffix, false))
		return false;
	out->kind = at > 0 ? HOST_PREFIX : out->suffix.p == star + 2 ? HOST_STAR : HOST_DOUBLE_STAR;
	return true;
}

/* Whether `name` is below `parent`, by one label if `one`. */
static bool below(struct str name, struct str parent, bool one)
{
	size_t n;

	if (name.n <= parent.n + 1 || !str_ends(name, parent) || name.p[name.n - parent.n - 1] != '.')
		return false;
	n = name.n - parent.n - 1;
	return !one || memchr(name.p, '.', n) == NULL;
}

bool host_pattern_covers(const struct host_pattern *a, const struct host_pattern *b)
{
	if (b->kind == HOST_NONE)
		return false;
	switch (a->kind) {
	case HOST_EXACT:
		return b->kind == HOST_EXACT && str_eq(a->suffix, b->suffix);
	case HOST_PREFIX:
		if (b->kind == HOST_EXACT)
			return below(b->suffix, a->suffix, true) && str_starts(b->suffix, a->prefix);
		return b->kind == HOST_PREFIX && str_eq(a->suffix, b->suffix) && str_starts(b->prefix, a->prefix);
	case HOST_STAR:
		if (b->kind == HOST_EXACT)
			return below(b->suffix, a->suffix, true);
		return b->kind != HOST_DOUBLE_STAR && str_eq(a->suffix, b->suffix);
	case HOST_DOUBLE_STAR:
		return below(b->suffix, a->suffix, false) || (b->kind != HOST_EXACT && str_eq(a->suffix, b->suffix));
	default:
		return false;
	}
}

bool host_text_covers(struct str a, struct str b)
{
	struct host_pattern x, y;

	return host_pattern_read(a, &x) && host_pattern_read(b, &y) && host_pattern_covers(&x, &y);
}

unsigned host_labels(struct str name)
{
	unsigned n = 1;

	for (size_t i = 0; i < name.n; i++)
		n += name.p[i] == '.';
	return n;
}
