/* SPDX-License-Identifier: Apache-2.0 */
#include "cond.h"

#include "body.h"
#include "glob.h"

/* --- lists --------------------------------------------------------------------------------------------------------- */

struct cond_texts cond_texts(struct cursor *c)
{
	struct cond_texts t = { .n = get_u16(c) };

	t.at = *c;
	for (unsigned i = 0; i < t.n && !c->bad; i++)
		get_str(c);
	return t;
}

bool cond_texts_fit(struct cond_texts t, struct str s, bool fold)
{
	for (unsigned i = 0; i < t.n; i++) {
		struct str p = get_str(&t.at);

		if (t.at.bad)
			return false;
		if (glob_text(p, s, fold))
			return true;
	}
	return false;
}

bool cond_value_next(struct cursor *c, struct cond_value *v)
{
	v->key = get_str(c);
	v->flags = get_u8(c);
	v->texts = cond_texts(c);
	return !c->bad;
}

bool cond_value_fits(const struct cond_value *v, struct str s, bool fold) { return (v->flags & VALUE_ANY) != 0 || cond_texts_fit(v->texts, s, fold); }

/* --- query --------------------------------------------------------------------------------------------------------- */

/* One key and its value, decoded; `plus` is what a + of the value stands for. */
struct param {
	char key[256], value[COND_TEXT_MAX];
	struct str k, v;
	bool has_plus;
};

static bool decode(struct str s, char plus, char *out, size_t room, struct str *to)
{
	size_t n = 0;

	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];

		if (c == '%') {
			if (i + 2 >= s.n || hex_value(s.p[i + 1]) < 0 || hex_value(s.p[i + 2]) < 0)
				return false;
			c = (unsigned char)(hex_value(s.p[i + 1]) << 4 | hex_value(s.p[i + 2]));
			i += 2;
		} else if (c == '+') {
			c = (unsigned char)plus;
		}
		if (c < 0x20 || c == 0x7f || n == room)
			return false;
		out[n++] = (char)c;
	}
	*to = str_mk(out, n);
	return true;
}

/* The next one of `rest`: 1, at the end 0, and -1 if it cannot be read. Empty pieces say nothing. */
static int param_next(struct str *rest, char plus, struct param *p)
{
	struct str piece = STR_NONE, value = STR_NONE;
	const char *eq;

	while (rest->n > 0 && piece.n == 0) {
		const char *amp = memchr(rest->p, '&', rest->n);
		size_t n = amp ? (size_t)(amp - rest->p) : rest->n;

		piece = str_mk(rest->p, n);
		n += amp != NULL;
		*rest = str_mk(rest->p + n, rest->n - n);
	}
	if (piece.n == 0)
		return 0;
	eq = memchr(piece.p, '=', piece.n);
	if (eq != NULL) {
		value = str_mk(eq + 1, piece.n - (size_t)(eq - piece.p) - 1);
		piece.n = (size_t)(eq - piece.p);
	}
	p->has_plus = value.n > 0 && memchr(value.p, '+', value.n) != NULL;
	/* ";" separates too, to some; "+" in a key is a blank to some */
	if (memchr(piece.p, '+', piece.n) != NULL || memchr(piece.p, ';', piece.n) != NULL || (value.n > 0 && memchr(value.p, ';', value.n) != NULL))
		return -1;
	return decode(piece, '+', p->key, sizeof(p->key), &p->k) && decode(value, plus, p->value, sizeof(p->value), &p->v) ? 1 : -1;
}

/* How many parameters there are, or -1. */
static int params_count(struct str query, struct param *p)
{
	int n = 0, r;

	while ((r = param_next(&query, '+', p)) > 0)
		if (++n > COND_PARAMS_MAX)
			return -1;
	return r < 0 ? -1 : n;
}

/* In a deny "k[]" and "k[x]" are k, as they are to some. */
static bool same_key(struct str listed, struct str key, bool deny)
{
	const char *bracket = deny && key.n ? memchr(key.p, '[', key.n) : NULL;

	if (!deny)
		return str_eq(listed, key);
	return str_ieq(listed, key) || (bracket != NULL && str_ieq(listed, str_mk(key.p, (size_t)(bracket - key.p))));
}

/* Of one listed key: how many parameters are its, and how many of those do not fit in either reading of "+". */
static unsigned params_of(const struct cond_value *v, struct str query, bool deny, struct param *p, unsigned *fits)
{
	unsigned n = 0;

	*fits = 0;
	for (struct str rest = query, again = query; param_next(&rest, '+', p) > 0; again = rest) {
		bool fit;

		if (!same_key(v->key, p->k, deny))
			continue;
		n++;
		fit = cond_value_fits(v, p->v, deny);
		if (p->has_plus && fit != deny) { /* an allow wants both, a deny one */
			param_next(&again, ' ', p);
			fit = cond_value_fits(v, p->v, deny);
		}
		*fits += fit;
	}
	return n;
}

static bool query_fits(struct cursor *c, bool deny, const struct facts *f)
{
	struct str query = f->has_query ? f->query : STR_NONE;
	struct param p;
	int all = params_count(query, &p), listed = 0;
	bool ok = deny || all >= 0;

	for (unsigned n = get_u16(c); n > 0; n--) {
		struct cond_value v;
		unsigned have, fits;

		if (!cond_value_next(c, &v))
			return deny;
		if (!ok || all < 0)
			continue;
		have = params_of(&v, query, deny, &p, &fits);
		listed += (int)have;
		ok = deny ? fits > 0 : fits == have && (have > 0 || (v.flags & VALUE_REQUIRED) == 0);
	}
	return ok && (deny || listed == all);
}

/* --- headers ------------------------------------------------------------------------------------------------------- */

/* The value, or one of its elements between commas. */
static bool element_fits(const struct cond_value *v, struct str s)
{
	if (cond_value_fits(v, s, true))
		return true;
	for (size_t b = 0, e; b <= s.n; b = e + 1) {
		struct str one;

		for (e = b; e < s.n && s.p[e] != ',';)
			e++;
		one = str_mk(s.p + b, e - b);
		while (one.n && (one.p[0] == ' ' || one.p[0] == '\t'))
			one = str_mk(one.p + 1, one.n - 1);
		while (one.n && (one.p[one.n - 1] == ' ' || one.p[one.n - 1] == '\t'))
			one.n--;
		if (cond_value_fits(v, one, true))
			return true;
	}
	return false;
}

static bool header_fits(const struct cond_value *v, bool deny, const struct facts *f)
{
	bool seen = false;
	struct str name, value;

	for (unsigned i = 0; f->field != NULL && f->field(f->field_arg, i, &name, &value); i++) {
		if (name.n == 0 || !str_alike(v->key, name))
			continue;
		if (deny && element_fits(v, value))
			return true;
		if (!deny && !cond_value_fits(v, value, false))
			return false;
		seen = seen || str_ieq(v->key, name);
	}
	return !deny && (seen || (v->flags & VALUE_REQUIRED) == 0);
}

static bool headers_fit(struct cursor *c, bool deny, const struct facts *f)
{
	bool ok = true;

	for (unsigned n = get_u16(c); n > 0; n--) {
		struct cond_value v;

		if (!cond_value_next(c, &v))
			return deny;
		ok = ok && header_fits(&v, deny, f);
	}
	return ok;
}

/* --- time, path ---------------------------------------------------------------------------------------------------- */

static bool time_fits(struct cursor *c, bool deny, const struct facts *f)
{
	uint64_t from = get_u64(c), until = get_u64(c);

	if (f->now_s == 0)
		return deny;
	return f->now_s >= from && (until == 0 || f->now_s < until);
}

/* The path without parameters, empty segments and the slash at its end, and behind it a slash. False: too long. */
static bool plain_path(struct str path, char out[CANON_PATH_MAX + 1], struct str *to)
{
	size_t n = 0;
	bool parameters = false;

	if (path.n > CANON_PATH_MAX)
		return false;
	for (size_t i = 0; i < path.n; i++) {
		if (path.p[i] == '/')
			parameters = false;
		else if (path.p[i] == ';')
			parameters = true;
		if (!parameters && !(path.p[i] == '/' && n > 0 && out[n - 1] == '/'))
			out[n++] = path.p[i];
	}
	if (n == 0 || out[n - 1] != '/')
		out[n++] = '/';
	*to = str_mk(out, n);
	return true;
}

static bool regex_fits(struct regexes *rs, struct cursor *c, bool deny, const struct facts *f)
{
	struct str source = get_str(c), plain;
	char room[CANON_PATH_MAX + 1];

	if (c->bad)
		return deny;
	if (!deny)
		return regex_match(rs, source, false, f->path) == REGEX_YES;
	if (regex_match(rs, source, true, f->path) != REGEX_NO || !plain_path(f->path, room, &plain) || regex_match(rs, source, true, plain) != REGEX_NO)
		return true;
	plain.n -= plain.n > 1;
	return regex_match(rs, source, true, plain) != REGEX_NO;
}

/* Whether a grant that is counted has some left; who does not count has used none. */
static bool uses_left(struct str s, const struct facts *f)
{
	struct cursor c = cursor_on(s);
	uint64_t key = get_u64(&c), n = get_u64(&c);

	return !c.bad && (f->used == NULL || f->used(f->used_arg, key) < n);
}

/* --- all ----------------------------------------------------------------------------------------------------------- */

enum cond_result cond_fits(struct regexes *rs, struct str cond, bool deny, const struct facts *f, unsigned *failed)
{
	struct cursor c = cursor_on(cond);
	unsigned parts = cond.n > 0 ? get_u8(&c) : 0;
	enum cond_result r = COND_YES;

	*failed = 0;
	if ((parts & COND_VALID) && !time_fits(&c, deny, f))
		*failed |= COND_VALID;
	if ((parts & COND_QUERY) && !query_fits(&c, deny, f))
		*failed |= COND_QUERY;
	if ((parts & COND_HEADERS) && !headers_fit(&c, deny, f))
		*failed |= COND_HEADERS;
	if ((parts & COND_REGEX) && !regex_fits(rs, &c, deny, f))
		*failed |= COND_REGEX;
	if (c.bad)
		return deny ? COND_YES : COND_NO;
	if ((parts & COND_USES) && !uses_left(str_mk(cond.p + cond.n - (cond.n < 16 ? cond.n : 16), cond.n < 16 ? cond.n : 16), f))
		*failed |= COND_USES;
	if (*failed != 0)
		return COND_NO;
	if (parts & COND_BODY)
		r = body_fits(&c, deny, f);
	if (c.bad)
		r = deny ? COND_YES : COND_NO;
	if (r == COND_NO)
		*failed |= COND_BODY;
	return r;
}

static void skip_values(struct cursor *c)
{
	struct cond_value v;

	for (unsigned n = get_u16(c); n > 0 && cond_value_next(c, &v); n--)
		;
}

/* Stands before BODY, or at the end. */
static struct cursor before_body(struct str cond, unsigned *parts)
{
	struct cursor c = cursor_on(cond);

	*parts = cond.n > 0 ? get_u8(&c) : 0;
	if (*parts & COND_VALID)
		cur_take(&c, 16);
	if (*parts & COND_QUERY)
		skip_values(&c);
	if (*parts & COND_HEADERS)
		skip_values(&c);
	if (*parts & COND_REGEX)
		get_str(&c);
	return c;
}

enum cond_body cond_body(struct str cond)
{
	unsigned parts;
	struct cursor c = before_body(cond, &parts);

	return parts & COND_BODY ? get_u8(&c) : BODY_UNSAID;
}

/* --- the check ----------------------------------------------------------------------------------------------------- */

static bool texts_ok(struct cursor *c, unsigned min)
{
	unsigned n = get_u16(c);

	if (n < min || n > COND_TEXTS_MAX)
		return false;
	while (n-- > 0) {
		struct str s = get_str(c);

		for (size_t i = 0; i < s.n; i++)
			if (((unsigned char)s.p[i] < 0x20 && s.p[i] != GLOB_STAR) || s.p[i] == 0x7f)
				return false;
	}
	return !c->bad;
}

static bool values_ok(struct cursor *c)
{
	unsigned n = get_u16(c);

	if (n > COND_VALUES_MAX)
		return false;
	while (n-- > 0) {
		struct str key = get_str(c);
		uint8_t flags = get_u8(c);

		if (c->bad || (flags & ~VALUE_FLAGS_ALL) != 0 || !texts_ok(c, flags & VALUE_ANY ? 0 : 1))
			return false;
		for (size_t i = 0; i < key.n; i++)
			if ((unsigned char)key.p[i] < 0x20 || key.p[i] == 0x7f)
				return false;
	}
	return !c->bad;
}

static bool body_ok(struct cursor *c)
{
	uint8_t bits;

	switch (get_u8(c)) {
	case BODY_NONE:
	case BODY_ANY:
		return true;
	case BODY_GRAPHQL:
		bits = get_u8(c);
		return (bits & ~GRAPHQL_TYPES_ALL) == 0 && texts_ok(c, 0) && texts_ok(c, 0);
	case BODY_MCP:
		return texts_ok(c, 0) && texts_ok(c, 0) && values_ok(c);
	case BODY_JSONRPC:
		return texts_ok(c, 1);
	case BODY_JSON:
		return values_ok(c);
	case BODY_GIT_PUSH:
		bits = get_u8(c);
		return (bits & ~GIT_FLAGS_ALL) == 0 && texts_ok(c, 0);
	default:
		return false;
	}
}

const char *cond_check(struct str cond)
{
	struct cursor c = cursor_on(cond);
	char why[REGEX_WHY_MAX];
	unsigned parts;

	if (cond.n == 0)
		return NULL;
	parts = get_u8(&c);
	if (parts == 0 || (parts & ~COND_PARTS_ALL) != 0)
		return "a rule's conditions";
	if (parts & COND_VALID) {
		uint64_t from = get_u64(&c), until = get_u64(&c);

		if ((from | until) == 0 || (until != 0 && until <= from))
			return "a rule's window of time";
	}
	if ((parts & COND_QUERY) && !values_ok(&c))
		return "a rule's query";
	if ((parts & COND_HEADERS) && !values_ok(&c))
		return "a rule's headers";
	if (parts & COND_REGEX) {
		struct str s = get_str(&c);

		if (c.bad || regex_check(s, why) != NULL)
			return "a rule's regular expression";
	}
	if ((parts & COND_BODY) && !body_ok(&c))
		return "a rule's condition on content";
	if (parts & COND_USES) {
		get_u64(&c);
		if (get_u64(&c) == 0)
			return "a rule's number of uses";
	}
	return c.bad || c.at != c.n ? "a rule's conditions" : NULL;
}
