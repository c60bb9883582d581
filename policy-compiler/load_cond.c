/* SPDX-License-Identifier: Apache-2.0 */
/* Conditions of a rule beside method and path: query, headers, regex, window of time. Those on content: load_body.c. */
#include "../common/policy/glob.h"
#include "load.h"

struct pol_cond *load_cond(struct load *l, struct pol_rule *r, unsigned part)
{
	if (r->cond == NULL)
		r->cond = arena_zalloc(l->a, sizeof(*r->cond));
	r->cond->parts |= part;
	return r->cond;
}

/* --- patterns ------------------------------------------------------------------------------------------------------ */

static bool clean(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if ((unsigned char)s.p[i] < 0x20 || s.p[i] == 0x7f)
			return false;
	return true;
}

static struct str wild(struct load *l, struct str s)
{
	char *p = arena_alloc(l->a, s.n + 1);

	for (size_t i = 0; i < s.n; i++)
		p[i] = s.p[i] == '*' ? GLOB_STAR : s.p[i];
	return str_mk(p, s.n);
}

bool load_texts(struct load *l, const struct yaml_node *n, const char *what, bool literal, struct pol_texts *to)
{
	unsigned count = n->kind == YAML_LIST ? n->n : 1;

	if (n->kind == YAML_NULL || n->kind == YAML_MAP || (n->kind == YAML_LIST && n->n == 0) || count > COND_TEXTS_MAX) {
		ERROR_AT(l, n, "%s is a text, or a list of at most %d", what, COND_TEXTS_MAX);
		return false;
	}
	to->s = arena_alloc(l->a, count * sizeof(struct str));
	to->n = 0;
	for (unsigned i = 0; i < count; i++) {
		const struct yaml_node *one = n->kind == YAML_LIST ? n->items[i] : n;

		if (one->kind != YAML_TEXT || !clean(one->text) || one->text.n > 4096) {
			ERROR_AT(l, one, "%s is a line of text", what);
			return false;
		}
		to->s[to->n++] = literal ? one->text : wild(l, one->text);
	}
	return true;
}

struct value_ctx {
	struct load *l;
	struct pol_value *v;
	const char *what;
	bool deny;
	unsigned said; /* of equals, matches, any */
};

static void on_equals(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct value_ctx *c = arg;

	(void)row;
	c->said++;
	load_texts(c->l, v->node, c->what, true, &c->v->patterns);
}

static void on_matches(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct value_ctx *c = arg;

	(void)row;
	c->said++;
	load_texts(c->l, v->node, c->what, false, &c->v->patterns);
}

static void on_any(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct value_ctx *c = arg;

	(void)row;
	c->said++;
	c->v->any = true;
	if (!v->truth)
		ERROR_AT(c->l, v->node, "`any` is true, or left out");
}

static void on_required(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct value_ctx *c = arg;

	(void)row;
	c->v->required = v->truth;
	if (c->deny)
		ERROR_AT(c->l, v->key, "`required` says nothing in a deny rule: it matches where one of the values is there");
}

static const struct schema_row value_rows[] = {
	{ "equals", SCHEMA_ANY, false, on_equals, NULL, 0, 0 },
	{ "matches", SCHEMA_ANY, false, on_matches, NULL, 0, 0 },
	{ "any", SCHEMA_BOOL, false, on_any, NULL, 0, 0 },
	{ "required", SCHEMA_BOOL, false, on_required, NULL, 0, 0 },
};

static bool load_value(struct load *l, const struct yaml_node *n, const char *what, bool deny, struct pol_value *v)
{
	struct value_ctx c = { l, v, what, deny, 0 };

	if (n->kind != YAML_MAP)
		return load_texts(l, n, what, false, &v->patterns);
	if (!schema_parse(l->d, n, what, SCHEMA_ROWS(value_rows), &c))
		return false;
	if (c.said != 1) {
		ERROR_AT(l, n, "%s has one of `equals`, `matches` and `any`", what);
		return false;
	}
	return true;
}

bool load_values(struct load *l, const struct yaml_node *map, const char *what, const struct pol_rule *r, bool required, struct pol_values *to)
{
	bool ok = true;

	if (map->kind != YAML_MAP || map->n == 0 || map->n > COND_VALUES_MAX) {
		ERROR_AT(l, map, "%s is a map of 1 to %d keys", what, COND_VALUES_MAX);
		return false;
	}
	to->v = arena_zalloc(l->a, map->n * sizeof(*to->v));
	to->n = 0;
	for (unsigned i = 0; i < map->n; i++) {
		const struct yaml_node *key = map->items[2 * i];
		struct pol_value *v = &to->v[to->n++];

		v->key = key->text;
		v->required = required && !r->deny;
		if (key->text.n == 0 || key->text.n > 200 || !clean(key->text)) {
			ERROR_AT(l, key, "a key of %s has 1 to 200 characters", what);
			ok = false;
		}
		ok = load_value(l, map->items[2 * i + 1], what, r->deny, v) && ok;
	}
	return ok;
}

/* --- query --------------------------------------------------------------------------------------------------------- */

/* Escapes decoded; a raw star is a wildcard. */
static bool decode(struct load *l, struct str s, bool key, struct str *to)
{
	char *p = arena_alloc(l->a, s.n + 1);
	size_t n = 0;

	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];

		if (c == '%') {
			if (i + 2 >= s.n || hex_value(s.p[i + 1]) < 0 || hex_value(s.p[i + 2]) < 0)
				return false;
			c = (unsigned char)(hex_value(s.p[i + 1]) << 4 | hex_value(s.p[i + 2]));
			i += 2;
			if (c < 0x20 || c == 0x7f)
				return false;
		} else if (c == '+' || c == ';' || c == '#' || (key && c == '*')) {
			return false;
		} else if (c == '*') {
			c = GLOB_STAR;
		}
		p[n++] = (char)c;
	}
	*to = str_mk(p, n);
	return true;
}

/* A piece up to `sep`, which is skipped; the rest stays in *s. */
static struct str cut(struct str *s, char sep)
{
	const char *at = s->n ? memchr(s->p, sep, s->n) : NULL;
	struct str piece = *s;

	if (at == NULL) {
		*s = STR_NONE;
		return piece;
	}
	piece.n = (size_t)(at - s->p);
	*s = str_mk(at + 1, s->n - piece.n - 1);
	return piece;
}

static bool query_value(struct load *l, const struct yaml_node *at, struct str piece, struct pol_values *q, bool deny)
{
	struct pol_value *v = &q->v[q->n];
	bool eq = memchr(piece.p, '=', piece.n) != NULL;
	struct str key = cut(&piece, '=');
	unsigned n = 1;

	if (!eq || !decode(l, key, true, &v->key) || v->key.n == 0 || v->key.n > 200) {
		ERROR_AT(l, at, "`%.*s` in a query: each key is `key=value`, `key=glob|glob` or `key=*`; a key has no wildcard, and what is no plain character is percent-encoded", DIAG_STR(key));
		return false;
	}
	for (unsigned i = 0; i < q->n; i++) {
		if (str_eq(q->v[i].key, v->key)) {
			ERROR_AT(l, at, "the key `%.*s` stands twice in the query: write `%.*s=one|two`", DIAG_STR(v->key), DIAG_STR(v->key));
			return false;
		}
	}
	for (size_t i = 0; i < piece.n; i++)
		n += piece.p[i] == '|';
	v->patterns.s = arena_alloc(l->a, n * sizeof(struct str));
	for (; n > 0; n--) {
		if (!decode(l, cut(&piece, '|'), false, &v->patterns.s[v->patterns.n++])) {
			ERROR_AT(l, at, "the value of `%.*s` in the query: write a blank %%20, a plus %%2B, and other signs percent-encoded", DIAG_STR(v->key));
			return false;
		}
	}
	v->required = !deny;
	q->n++;
	return true;
}

void load_query_text(struct load *l, const struct yaml_node *at, struct str query, struct pol_rule *r)
{
	struct pol_cond *c = load_cond(l, r, COND_QUERY);
	unsigned n = 1;

	if (query.n == 0) {
		ERROR_AT(l, at, "nothing stands behind the `?`: write a map with `query: none`");
		return;
	}
	for (size_t i = 0; i < query.n; i++)
		n += query.p[i] == '&';
	if (n > COND_VALUES_MAX) {
		ERROR_AT(l, at, "a query condition has %d keys at most", COND_VALUES_MAX);
		return;
	}
	c->query.v = arena_zalloc(l->a, n * sizeof(*c->query.v));
	while (n-- > 0)
		if (!query_value(l, at, cut(&query, '&'), &c->query, r->deny))
			return;
}

void load_query(struct load *l, const struct yaml_node *n, struct pol_rule *r)
{
	struct pol_cond *c = load_cond(l, r, COND_QUERY);

	if (n->kind == YAML_TEXT && str_eq(n->text, STR("none"))) {
		if (r->deny)
			ERROR_AT(l, n, "`query: none` in a deny rule: other keys are ignored there, so it would say nothing");
		return;
	}
	if (n->kind != YAML_MAP)
		ERROR_AT(l, n, "`query` is a map of the keys that may be there, or `none`");
	else
		load_values(l, n, "`query`", r, false, &c->query);
}

/* --- headers ------------------------------------------------------------------------------------------------------- */

/* What the gateway writes itself, or never passes on. */
static bool own_header(struct str name)
{
	static const char *const own[] = { "host", "connection", "content-length", "transfer-encoding", "te", "trailer", "upgrade", "keep-alive", "expect", "proxy-authorization", "proxy-connection",
					   "http2-settings", "early-data", "forwarded", "x-original-url", "x-rewrite-url", "x-http-method-override", "x-method-override", "x-http-method", "via" };

	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		if (str_eq(name, str_of(own[i])))
			return true;
	return str_starts(name, STR("x-forwarded-"));
}

void load_headers(struct load *l, const struct yaml_node *n, struct pol_rule *r)
{
	struct pol_cond *c = load_cond(l, r, COND_HEADERS);

	if (!load_values(l, n, "`headers`", r, true, &c->headers))
		return;
	for (unsigned i = 0; i < c->headers.n; i++) {
		struct str name = c->headers.v[i].key;
		char *lower = arena_alloc(l->a, name.n);

		for (size_t k = 0; k < name.n; k++) {
			lower[k] = ascii_lower(name.p[k]);
			if (memchr("abcdefghijklmnopqrstuvwxyz0123456789-_", lower[k], 38) == NULL) {
				ERROR_AT(l, n->items[2 * i], "`%.*s` is not the name of a header", DIAG_STR(name));
				return;
			}
		}
		c->headers.v[i].key = str_mk(lower, name.n);
		if (own_header(c->headers.v[i].key))
			ERROR_AT(l, n->items[2 * i], "the gateway writes `%.*s` itself, or drops it: no rule can look at it", DIAG_STR(name));
		for (unsigned k = 0; k < i; k++)
			if (str_eq(c->headers.v[k].key, c->headers.v[i].key))
				ERROR_AT(l, n->items[2 * i], "the header `%.*s` stands twice", DIAG_STR(name));
	}
}

/* --- regex, window ------------------------------------------------------------------------------------------------- */

void load_regex(struct load *l, const struct yaml_node *n, struct str source, struct pol_rule *r)
{
	struct pol_cond *c = load_cond(l, r, COND_REGEX);
	size_t at = source.n > 0 && source.p[0] == '^';
	char why[REGEX_WHY_MAX];
	const char *wrong = regex_check(source, why);

	c->regex = source;
	if (wrong != NULL)
		ERROR_AT(l, n, "the regular expression cannot be used: %s", wrong);
	else if (at == source.n || memchr("/.([\\", source.p[at], 5) == NULL)
		ERROR_AT(l, n, "the regular expression matches no path: it is for the whole path, which begins with /");
}

static bool digits(struct str *s, unsigned n, unsigned *v)
{
	*v = 0;
	if (s->n < n)
		return false;
	for (unsigned i = 0; i < n; i++) {
		if (s->p[i] < '0' || s->p[i] > '9')
			return false;
		*v = *v * 10 + (unsigned)(s->p[i] - '0');
	}
	*s = str_mk(s->p + n, s->n - n);
	return true;
}

static bool mark(struct str *s, char c)
{
	if (s->n == 0 || s->p[0] != c)
		return false;
	*s = str_mk(s->p + 1, s->n - 1);
	return true;
}

bool load_time(struct str s, uint64_t *seconds)
{
	static const uint8_t days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	unsigned y, m, d, hh = 0, mm = 0, ss = 0, oh = 0, om = 0;
	uint64_t day = 0;
	bool leap, minus = false;

	if (!digits(&s, 4, &y) || !mark(&s, '-') || !digits(&s, 2, &m) || !mark(&s, '-') || !digits(&s, 2, &d))
		return false;
	leap = (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;
	if (y < 1970 || m < 1 || m > 12 || d < 1 || d > days[m - 1] + (m == 2 && leap ? 1u : 0u))
		return false;
	if (s.n > 0) {
		if (!mark(&s, 'T') || !digits(&s, 2, &hh) || !mark(&s, ':') || !digits(&s, 2, &mm) || !mark(&s, ':') || !digits(&s, 2, &ss) || hh > 23 || mm > 59 || ss > 59)
			return false;
		if (!mark(&s, 'Z')) {
			minus = s.n > 0 && s.p[0] == '-';
			if (!(mark(&s, '+') || mark(&s, '-')) || !digits(&s, 2, &oh) || !mark(&s, ':') || !digits(&s, 2, &om) || oh > 14 || om > 59)
				return false;
		}
		if (s.n > 0)
			return false;
	}
	for (unsigned k = 1970; k < y; k++)
		day += 365 + ((k % 4 == 0 && k % 100 != 0) || k % 400 == 0);
	for (unsigned k = 1; k < m; k++)
		day += days[k - 1] + (k == 2 && leap ? 1u : 0u);
	*seconds = (day + d - 1) * 86400 + hh * 3600 + mm * 60 + ss;
	if (minus)
		*seconds += oh * 3600 + om * 60;
	else if (*seconds >= oh * 3600 + om * 60)
		*seconds -= oh * 3600 + om * 60;
	else
		return false;
	return true;
}

struct valid_ctx {
	struct load *l;
	struct pol_cond *c;
};

static void on_time(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct valid_ctx *c = arg;

	if (!load_time(v->text, row->key[0] == 'f' ? &c->c->from_s : &c->c->until_s) || (row->key[0] == 'f' ? c->c->from_s : c->c->until_s) == 0)
		ERROR_AT(c->l, v->node, "`%s` is a date, 2026-11-30 (its beginning, UTC), or a time, 2026-11-30T12:00:00Z", row->key);
}

static const struct schema_row valid_rows[] = {
	{ "from", SCHEMA_TEXT, false, on_time, NULL, 0, 0 },
	{ "until", SCHEMA_TEXT, false, on_time, NULL, 0, 0 },
};

void load_valid(struct load *l, const struct yaml_node *n, struct pol_rule *r)
{
	struct valid_ctx c = { l, load_cond(l, r, COND_VALID) };

	if (!schema_parse(l->d, n, "`valid`", SCHEMA_ROWS(valid_rows), &c))
		return;
	if (n->n == 0)
		ERROR_AT(l, n, "`valid` has `from`, `until`, or both");
	else if (c.c->until_s != 0 && c.c->until_s <= c.c->from_s)
		ERROR_AT(l, n, "the window of `valid` ends before it begins");
}

struct schema_rows load_rows_value(void) { return (struct schema_rows){ SCHEMA_ROWS(value_rows) }; }
struct schema_rows load_rows_valid(void) { return (struct schema_rows){ SCHEMA_ROWS(valid_rows) }; }
