/* SPDX-License-Identifier: Apache-2.0 */
/*
 * squid.conf, as far as it decides by names: acl dstdomain and http_access, in their order, the first line that matches. Of
 * what squid sees of https, CONNECT to port 443, the other lists are true or false as a whole.
 */
#include "import_int.h"

#define LISTS_MAX 500
#define LINES_MAX 2000
#define WORDS_MAX 64

enum list_kind { LIST_NAMES = 0, LIST_TRUE, LIST_FALSE, LIST_CLIENT /* who asks */, LIST_UNKNOWN };
struct list {
	struct str name;
	enum list_kind kind;
	struct str *patterns; /* as written: a leading dot is the name and all below */
	unsigned n;
};
struct access {
	bool allow;
	uint32_t line;
	struct {
		const struct list *list;
		bool negated;
	} on[WORDS_MAX];
	unsigned n;
};
struct squid {
	struct import *im;
	struct list *lists;
	struct access *lines;
	unsigned list_n, line_n;
	struct import_names names;
};

static struct str word(struct str *rest)
{
	size_t i = 0, k;
	struct str w;

	while (i < rest->n && (rest->p[i] == ' ' || rest->p[i] == '\t'))
		i++;
	for (k = i; k < rest->n && rest->p[k] != ' ' && rest->p[k] != '\t'; k++)
		;
	w = str_mk(rest->p + i, k - i);
	*rest = str_mk(rest->p + k, rest->n - k);
	return w;
}

static struct list *find(struct squid *s, struct str name)
{
	for (unsigned i = 0; i < s->list_n; i++)
		if (str_eq(s->lists[i].name, name))
			return &s->lists[i];
	return NULL;
}

static bool number(struct str s, uint64_t *n) { return str_u64(s, 65535, n); }

/* "443", "1025-65535": whether 443 is one of them. */
static bool has_443(struct str s)
{
	const char *dash = s.n ? memchr(s.p, '-', s.n) : NULL;
	uint64_t from, to;

	if (dash == NULL)
		return number(s, &from) && from == 443;
	return number(str_mk(s.p, (size_t)(dash - s.p)), &from) && number(str_mk(dash + 1, s.n - (size_t)(dash - s.p) - 1), &to) && from <= 443 && to >= 443;
}

static void names_of(struct squid *s, struct list *l, struct str rest, uint32_t line)
{
	for (struct str w = word(&rest); w.n > 0; w = word(&rest)) {
		bool below = w.p[0] == '.';
		struct str host = below ? str_mk(w.p + 1, w.n - 1) : w, *more;

		if (str_eq(w, STR("-n")) || str_eq(w, STR("-i")) || str_eq(w, STR("--")))
			continue;
		if (w.p[0] == '"') {
			diag_error(s->im->d, line, 1, "a list in a file of its own (%.*s): put its lines here", DIAG_STR(w));
			continue;
		}
		if (!import_name_add(s->im, &s->names, host, false) || (below && !import_name_add(s->im, &s->names, host, true))) {
			diag_error(s->im->d, line, 1, "`%.*s` is not a name", DIAG_STR(w));
			continue;
		}
		more = arena_alloc(s->im->a, (l->n + 1ul) * sizeof(*more));
		if (l->n > 0)
			memcpy(more, l->patterns, l->n * sizeof(*more));
		more[l->n++] = w;
		l->patterns = more;
	}
}

static void take_acl(struct squid *s, struct str rest, uint32_t line)
{
	struct str name = word(&rest), type = word(&rest);
	struct list *l = find(s, name);
	bool first = l == NULL;

	if (name.n == 0 || type.n == 0)
		return;
	if (first && s->list_n == LISTS_MAX) {
		diag_error(s->im->d, line, 1, "more than %d lists", LISTS_MAX);
		return;
	}
	if (first) {
		l = &s->lists[s->list_n++];
		*l = (struct list){ .name = name, .kind = LIST_UNKNOWN };
	}
	if (str_eq(type, STR("dstdomain"))) {
		l->kind = LIST_NAMES;
		names_of(s, l, rest, line);
	} else if (str_eq(type, STR("port")) || str_eq(type, STR("method")) || str_eq(type, STR("proto"))) {
		bool any = !first && l->kind == LIST_TRUE;

		for (struct str w = word(&rest); w.n > 0; w = word(&rest))
			any = any || (type.p[0] == 'p' && type.p[1] == 'o' ? has_443(w) : str_eq(w, STR("CONNECT")) || str_eq(w, STR("HTTPS")));
		l->kind = any ? LIST_TRUE : LIST_FALSE;
	} else if (str_eq(type, STR("src")) || str_eq(type, STR("localip")) || str_eq(type, STR("myip"))) {
		l->kind = LIST_CLIENT;
	}
}

static void take_access(struct squid *s, struct str rest, uint32_t line)
{
	struct str verdict = word(&rest);
	struct access *a = &s->lines[s->line_n];

	if (s->line_n == LINES_MAX) {
		diag_error(s->im->d, line, 1, "more than %d lines of http_access", LINES_MAX);
		return;
	}
	*a = (struct access){ .allow = str_eq(verdict, STR("allow")), .line = line };
	for (struct str w = word(&rest); w.n > 0 && a->n < WORDS_MAX; w = word(&rest)) {
		bool negated = w.p[0] == '!';
		struct str name = negated ? str_mk(w.p + 1, w.n - 1) : w;
		const struct list *l = find(s, name);

		if (l == NULL) {
			diag_error(s->im->d, line, 1, "there is no list `%.*s` above", DIAG_STR(name));
			return;
		}
		a->on[a->n].list = l;
		a->on[a->n++].negated = negated;
	}
	s->line_n++;
}

/* --- what a line says of a name ------------------------------------------------------------------------------------ */

static bool in_list(const struct list *l, const struct import_name *n)
{
	for (unsigned i = 0; n != NULL && i < l->n; i++) {
		struct str w = l->patterns[i], host = w.p[0] == '.' ? str_mk(w.p + 1, w.n - 1) : w;

		while (host.n > 0 && host.p[host.n - 1] == '.')
			host.n--;
		if (str_ieq(n->host, host) ? !n->below || w.p[0] == '.' : false)
			return true;
		if (w.p[0] == '.' && n->host.n > host.n && n->host.p[n->host.n - host.n - 1] == '.' && str_ieq(str_mk(n->host.p + n->host.n - host.n, host.n), host))
			return true;
	}
	return false;
}

/* n NULL: a name in no list. *unknown: it hangs on what is not known here. */
static bool line_matches(const struct access *a, const struct import_name *n, bool *unknown)
{
	bool hangs = false;

	for (unsigned i = 0; i < a->n; i++) {
		const struct list *l = a->on[i].list;
		bool yes;

		switch (l->kind) {
		case LIST_NAMES:
			yes = in_list(l, n);
			break;
		case LIST_TRUE:
			yes = true;
			break;
		case LIST_FALSE:
			yes = false;
			break;
		case LIST_CLIENT: /* a sandbox is among those who may ask, and not among those who may not */
			yes = a->allow != a->on[i].negated;
			break;
		default:
			hangs = true;
			continue;
		}
		if (yes == a->on[i].negated)
			return false;
	}
	*unknown = hangs;
	return true;
}

/* The first line that matches; without one, the opposite of the last. What hangs on what is not known lets nothing through here. */
static bool allowed(struct squid *s, const struct import_name *n)
{
	for (unsigned i = 0; i < s->line_n; i++) {
		bool unknown = false;

		if (!line_matches(&s->lines[i], n, &unknown))
			continue;
		if (!unknown)
			return s->lines[i].allow;
		if (!s->lines[i].allow)
			return false;
	}
	return s->line_n > 0 && !s->lines[s->line_n - 1].allow;
}

static void told(struct squid *s)
{
	buf_addz(s->im->out, "# From squid.conf: https on port 443, any method and path. Other ports and plain http are destinations of their own.\n");
	for (unsigned i = 0; i < s->line_n; i++)
		for (unsigned k = 0; k < s->lines[i].n; k++) {
			const struct list *l = s->lines[i].on[k].list;

			if (l->kind == LIST_UNKNOWN)
				buf_addf(s->im->out, "# line %u hangs on `%.*s`, which is not known here: it lets nothing through\n", s->lines[i].line, DIAG_STR(l->name));
			else if (l->kind == LIST_CLIENT)
				buf_addf(s->im->out, "# line %u asks who asks (`%.*s`): here the sandbox does\n", s->lines[i].line, DIAG_STR(l->name));
		}
}

/* Whether the closest broader name says the same: then one of its own says nothing. */
static bool said_above(struct squid *s, unsigned which, bool verdict)
{
	const struct import_name *n = &s->names.n[which], *closest = NULL;

	for (unsigned i = 0; i < s->names.count; i++)
		if (i != which && s->names.n[i].below && import_name_in(n, s->names.n[i].host, true) && (closest == NULL || s->names.n[i].host.n > closest->host.n))
			closest = &s->names.n[i];
	return closest == NULL ? !verdict : allowed(s, closest) == verdict;
}

static void lines_of(struct squid *s, struct str text)
{
	static const char *const restrict_too[] = { "http_reply_access", "adapted_http_access", "miss_access", "include" };
	struct buf joined = { 0 };
	uint32_t line = 0, first = 1;

	while (text.n > 0) {
		const char *nl = memchr(text.p, '\n', text.n);
		struct str l = str_mk(text.p, nl ? (size_t)(nl - text.p) : text.n), w, rest;
		const char *hash;

		text = str_mk(text.p + l.n + (nl != NULL), text.n - l.n - (nl != NULL));
		line++;
		while (l.n > 0 && (l.p[l.n - 1] == '\r' || l.p[l.n - 1] == ' ' || l.p[l.n - 1] == '\t'))
			l.n--;
		if (buf_len(&joined) == 0)
			first = line;
		if (l.n > 0 && l.p[l.n - 1] == '\\') {
			buf_add(&joined, l.p, l.n - 1);
			continue;
		}
		buf_adds(&joined, l);
		rest = arena_str(s->im->a, buf_str(&joined));
		buf_clear(&joined);
		hash = rest.n ? memchr(rest.p, '#', rest.n) : NULL;
		if (hash != NULL)
			rest.n = (size_t)(hash - rest.p);
		w = word(&rest);
		if (str_eq(w, STR("acl")))
			take_acl(s, rest, first);
		else if (str_eq(w, STR("http_access")))
			take_access(s, rest, first);
		for (size_t i = 0; i < sizeof(restrict_too) / sizeof(restrict_too[0]); i++)
			if (str_eq(w, str_of(restrict_too[i])))
				diag_error(s->im->d, first, 1, "`%s` is not known here, and leaving it out could widen", restrict_too[i]);
	}
	buf_fini(&joined);
}

void import_squid(struct import *im, struct str text)
{
	struct squid s = { .im = im, .lists = arena_zalloc(im->a, LISTS_MAX * sizeof(struct list)), .lines = arena_zalloc(im->a, LINES_MAX * sizeof(struct access)) };
	static const struct {
		const char *name;
		enum list_kind kind;
	} predefined[] = { { "all", LIST_TRUE }, { "manager", LIST_FALSE }, { "localhost", LIST_CLIENT }, { "to_localhost", LIST_FALSE }, { "to_linklocal", LIST_FALSE }, { "CONNECT", LIST_TRUE } };

	for (size_t i = 0; i < sizeof(predefined) / sizeof(predefined[0]); i++)
		s.lists[s.list_n++] = (struct list){ .name = str_of(predefined[i].name), .kind = predefined[i].kind };
	lines_of(&s, text);
	if (allowed(&s, NULL))
		diag_error(im->d, s.line_n > 0 ? s.lines[s.line_n - 1].line : 1, 1, "a name that no list has is allowed there: that cannot be said; deny all at the end");
	if (im->d->errors > 0)
		return;
	import_names_sort(&s.names);
	told(&s);
	buf_addz(im->out, "destinations:\n");
	for (unsigned i = 0; i < s.names.count; i++) {
		bool verdict = allowed(&s, &s.names.n[i]);

		if (said_above(&s, i, verdict))
			continue;
		import_host(im, &s.names.n[i]);
		buf_addz(im->out, verdict ? IMPORT_ALLOW_ALL : "    allow: [] # of a broader name that is allowed\n");
	}
}
