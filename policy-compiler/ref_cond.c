/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditions for the reference evaluator: from the parsed policy, everything decoded into lists first, patterns tried
 * recursively. What it shares with the table's code is the reader of content (body.c) and nothing else.
 */
#include <stdlib.h>

#include "../common/base/must.h"
#include "../common/policy/glob.h"
#include "model.h"

static bool glob(struct str p, struct str s, bool fold)
{
	if (p.n == 0)
		return s.n == 0;
	if (p.p[0] == GLOB_STAR) {
		while (p.n > 1 && p.p[1] == GLOB_STAR)
			p = str_mk(p.p + 1, p.n - 1);
		for (size_t i = 0; i <= s.n; i++)
			if (glob(str_mk(p.p + 1, p.n - 1), str_mk(s.p + i, s.n - i), fold))
				return true;
		return false;
	}
	if (s.n == 0 || (fold ? ascii_lower(p.p[0]) != ascii_lower(s.p[0]) : p.p[0] != s.p[0]))
		return false;
	return glob(str_mk(p.p + 1, p.n - 1), str_mk(s.p + 1, s.n - 1), fold);
}

static bool value_fits(const struct pol_value *v, struct str s, bool fold)
{
	if (v->any)
		return true;
	for (unsigned i = 0; i < v->patterns.n; i++)
		if (glob(v->patterns.s[i], s, fold))
			return true;
	return false;
}

/* --- query --------------------------------------------------------------------------------------------------------- */

struct pair {
	struct str key, plus, blank; /* the value in both readings of "+" */
};
struct pairs {
	struct pair *p;
	unsigned n;
	bool readable;
};

static struct str decoded(struct arena *a, struct str s, char plus, bool *ok)
{
	char *out = arena_alloc(a, s.n + 1);
	size_t n = 0;

	for (size_t i = 0; i < s.n; i++) {
		int c = (unsigned char)s.p[i];

		if (c == '%') {
			int high = i + 2 < s.n ? hex_value(s.p[i + 1]) : -1, low = i + 2 < s.n ? hex_value(s.p[i + 2]) : -1;

			if (high < 0 || low < 0) {
				*ok = false;
				break;
			}
			c = high * 16 + low;
			i += 2;
		} else if (c == '+') {
			c = plus;
		}
		if (c < 32 || c == 127)
			*ok = false;
		out[n++] = (char)c;
	}
	return str_mk(out, n);
}

static struct str until(struct str *s, char sep)
{
	size_t i = 0;
	struct str head;

	while (i < s->n && s->p[i] != sep)
		i++;
	head = str_mk(s->p, i);
	*s = i < s->n ? str_mk(s->p + i + 1, s->n - i - 1) : STR_NONE;
	return head;
}

static struct pairs read_query(struct arena *a, struct str q)
{
	struct pairs ps = { .p = arena_alloc(a, (q.n + 1) * sizeof(struct pair)), .readable = true };

	while (q.n > 0) {
		struct str value = until(&q, '&'), key;

		if (value.n == 0)
			continue;
		key = until(&value, '=');
		if (memchr(key.p, '+', key.n) != NULL || memchr(key.p, ';', key.n) != NULL || (value.n > 0 && memchr(value.p, ';', value.n) != NULL))
			ps.readable = false;
		ps.p[ps.n].key = decoded(a, key, '+', &ps.readable);
		ps.p[ps.n].plus = decoded(a, value, '+', &ps.readable);
		ps.p[ps.n].blank = decoded(a, value, ' ', &ps.readable);
		if (ps.p[ps.n].key.n > 256 || ps.p[ps.n].plus.n > COND_TEXT_MAX)
			ps.readable = false;
		ps.n++;
	}
	if (ps.n > COND_PARAMS_MAX)
		ps.readable = false;
	return ps;
}

static bool denied_key(struct str listed, struct str key)
{
	struct str rest = key;

	return str_ieq(listed, key) || (memchr(key.p, '[', key.n) != NULL && str_ieq(listed, until(&rest, '[')));
}

static bool query_allowed(const struct pol_values *listed, const struct pairs *ps)
{
	for (unsigned i = 0; i < ps->n; i++) {
		const struct pol_value *v = NULL;

		for (unsigned k = 0; k < listed->n; k++)
			if (str_eq(listed->v[k].key, ps->p[i].key))
				v = &listed->v[k];
		if (v == NULL || !value_fits(v, ps->p[i].plus, false) || !value_fits(v, ps->p[i].blank, false))
			return false;
	}
	for (unsigned k = 0; k < listed->n; k++) {
		bool there = !listed->v[k].required;

		for (unsigned i = 0; i < ps->n; i++)
			there = there || str_eq(listed->v[k].key, ps->p[i].key);
		if (!there)
			return false;
	}
	return true;
}

static bool query_denied(const struct pol_values *listed, const struct pairs *ps)
{
	for (unsigned k = 0; k < listed->n; k++) {
		bool some = false;

		for (unsigned i = 0; i < ps->n; i++)
			some = some || (denied_key(listed->v[k].key, ps->p[i].key) && (value_fits(&listed->v[k], ps->p[i].plus, true) || value_fits(&listed->v[k], ps->p[i].blank, true)));
		if (!some)
			return false;
	}
	return true;
}

static bool query_fits(const struct pol_rule *r, const struct facts *f)
{
	struct arena a = { 0 };
	struct pairs ps = read_query(&a, f->has_query ? f->query : STR_NONE);
	bool ok = r->deny ? !ps.readable || query_denied(&r->cond->query, &ps) : ps.readable && query_allowed(&r->cond->query, &ps);

	arena_fini(&a);
	return ok;
}

/* --- headers ------------------------------------------------------------------------------------------------------- */

static bool like(struct str a, struct str b)
{
	for (size_t i = 0; a.n == b.n && i < a.n; i++) {
		char x = a.p[i] == '_' ? '-' : ascii_lower(a.p[i]), y = b.p[i] == '_' ? '-' : ascii_lower(b.p[i]);

		if (x != y)
			return false;
	}
	return a.n == b.n;
}

static struct str trimmed(struct str s)
{
	while (s.n > 0 && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t'))
		s.n--;
	while (s.n > 0 && (s.p[0] == ' ' || s.p[0] == '\t'))
		s = str_mk(s.p + 1, s.n - 1);
	return s;
}

static bool line_denied(const struct pol_value *v, struct str value)
{
	unsigned commas = 0;

	for (size_t i = 0; i < value.n; i++)
		commas += value.p[i] == ',';
	if (value_fits(v, value, true))
		return true;
	for (unsigned i = 0; i <= commas; i++)
		if (value_fits(v, trimmed(until(&value, ',')), true))
			return true;
	return false;
}

static bool headers_fit(const struct pol_rule *r, const struct facts *f)
{
	for (unsigned k = 0; k < r->cond->headers.n; k++) {
		const struct pol_value *v = &r->cond->headers.v[k];
		bool there = false, all = true, some = false;
		struct str name, value;

		for (unsigned i = 0; f->field != NULL && f->field(f->field_arg, i, &name, &value); i++) {
			if (name.n == 0 || !like(name, v->key))
				continue;
			there = there || str_ieq(name, v->key);
			all = all && value_fits(v, value, false);
			some = some || line_denied(v, value);
		}
		if (r->deny ? !some : !all || (v->required && !there))
			return false;
	}
	return true;
}

/* --- regex --------------------------------------------------------------------------------------------------------- */

static bool regex_fits(const struct pol_rule *r, struct str path)
{
	struct regexes *fast = regexes_new();
	enum regex_result limit = regex_match(fast, r->cond->regex, r->deny, path), slow;

	regexes_free(fast);
	slow = limit == REGEX_LIMIT ? limit : regex_match_slowly(r->cond->regex, r->deny, path);
	if (slow == REGEX_LIMIT) /* trying takes longer than telling */
		slow = limit;
	return slow == REGEX_YES || (slow == REGEX_LIMIT && r->deny);
}

/* Also without parameters, empty segments, and a slash at its end; and with one. */
static bool regex_denied(const struct pol_rule *r, struct str path)
{
	struct buf b = { 0 };
	bool found = regex_fits(r, path);

	for (struct str rest = path; rest.n > 0;) {
		struct str segment = until(&rest, '/'), name = until(&segment, ';');

		if (name.n > 0) {
			buf_addc(&b, '/');
			buf_adds(&b, name);
		}
	}
	if (buf_len(&b) == 0)
		buf_addc(&b, '/');
	found = found || regex_fits(r, buf_str(&b));
	if (buf_data(&b)[buf_len(&b) - 1] != '/')
		buf_addc(&b, '/');
	found = found || regex_fits(r, buf_str(&b));
	buf_fini(&b);
	return found;
}

/* --- all ----------------------------------------------------------------------------------------------------------- */

static bool time_fits(const struct pol_rule *r, uint64_t now)
{
	const struct pol_cond *c = r->cond;

	return now == 0 ? r->deny : now >= c->from_s && (c->until_s == 0 || now < c->until_s);
}

enum cond_result ref_cond(const struct pol_rule *r, const struct facts *f, unsigned *failed)
{
	const struct pol_cond *c = r->cond;
	struct pol_cond body;
	struct buf b = { 0 };
	struct cursor at;
	enum cond_result result = COND_YES;

	*failed = 0;
	if (c == NULL)
		return COND_YES;
	if ((c->parts & COND_VALID) && !time_fits(r, f->now_s))
		*failed |= COND_VALID;
	if ((c->parts & COND_QUERY) && !query_fits(r, f))
		*failed |= COND_QUERY;
	if ((c->parts & COND_HEADERS) && !headers_fit(r, f))
		*failed |= COND_HEADERS;
	if ((c->parts & COND_REGEX) && !(r->deny ? regex_denied(r, f->path) : regex_fits(r, f->path)))
		*failed |= COND_REGEX;
	if ((c->parts & COND_USES) && f->used != NULL && f->used(f->used_arg, c->uses_key) >= c->uses)
		*failed |= COND_USES;
	if (*failed)
		return COND_NO;
	if ((c->parts & COND_BODY) == 0)
		return COND_YES;
	body = *c;
	body.parts = COND_BODY;
	cond_encode(&body, &b);
	at = cursor_on(buf_str(&b));
	get_u8(&at);
	result = body_fits(&at, r->deny, f);
	buf_fini(&b);
	if (result == COND_NO)
		*failed |= COND_BODY;
	return result;
}
