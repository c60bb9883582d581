/* SPDX-License-Identifier: Apache-2.0 */
#include "graphql.h"

#include "cond.h"

#define DEPTH_MAX 64

enum token { TOKEN_END = 0,
	     TOKEN_BAD,
	     TOKEN_NAME,
	     TOKEN_STRING,
	     TOKEN_NUMBER,
	     TOKEN_SPREAD,
	     TOKEN_PUNCTUATOR /* text.p[0] */ };
struct parser {
	struct str s;
	size_t at;
	enum token kind;
	struct str text;
	bool bad;
	const struct graphql_ops *ops;
	void *arg;
};

static bool letter(char c) { return c == '_' || (ascii_lower(c) >= 'a' && ascii_lower(c) <= 'z'); }
static bool digit(char c) { return c >= '0' && c <= '9'; }

/* --- tokens (2.1.6) ------------------------------------------------------------------------------------------------ */

static void skip_ignored(struct parser *p)
{
	for (;; p->at++) {
		char c = p->at < p->s.n ? p->s.p[p->at] : 'x';

		if (c == '#')
			while (p->at < p->s.n && p->s.p[p->at] != '\n' && p->s.p[p->at] != '\r')
				p->at++;
		else if (c != ' ' && c != '\t' && c != ',' && c != '\n' && c != '\r')
			return;
	}
}

static bool starts(const struct parser *p, const char *z) { return str_starts(str_mk(p->s.p + p->at, p->s.n - p->at), str_of(z)); }

static bool string_end(struct parser *p)
{
	bool block = starts(p, "\"\"\"");

	p->at += block ? 3 : 1;
	while (p->at < p->s.n) {
		char c = p->s.p[p->at];

		if (block ? starts(p, "\"\"\"") : c == '"') {
			p->at += block ? 3 : 1;
			return true;
		}
		if (block && starts(p, "\\\"\"\"")) {
			p->at += 4;
		} else if (!block && c == '\\') {
			if (p->at + 1 >= p->s.n || memchr("\"\\/bfnrtu", p->s.p[p->at + 1], 9) == NULL)
				return false;
			p->at += 2;
		} else if (!block && (c == '\n' || c == '\r')) {
			return false;
		} else {
			p->at++;
		}
	}
	return false;
}

static enum token scan(struct parser *p)
{
	char c = p->s.p[p->at];

	if (letter(c)) {
		while (p->at < p->s.n && (letter(p->s.p[p->at]) || digit(p->s.p[p->at])))
			p->at++;
		return TOKEN_NAME;
	}
	if (digit(c) || c == '-') {
		for (p->at++; p->at < p->s.n && (digit(p->s.p[p->at]) || memchr("eE+-.", p->s.p[p->at], 5) != NULL);)
			p->at++;
		return TOKEN_NUMBER;
	}
	if (c == '"')
		return string_end(p) ? TOKEN_STRING : TOKEN_BAD;
	if (starts(p, "...")) {
		p->at += 3;
		return TOKEN_SPREAD;
	}
	p->at++;
	return memchr("!$&()[]{}:=|@", c, 13) != NULL ? TOKEN_PUNCTUATOR : TOKEN_BAD;
}

static void next(struct parser *p)
{
	size_t b;

	skip_ignored(p);
	b = p->at;
	p->kind = b < p->s.n ? scan(p) : TOKEN_END;
	p->text = str_mk(p->s.p + b, p->at - b);
	p->bad = p->bad || p->kind == TOKEN_BAD;
}

static bool is(const struct parser *p, char c) { return p->kind == TOKEN_PUNCTUATOR && p->text.p[0] == c; }
static bool is_name(const struct parser *p, const char *z) { return p->kind == TOKEN_NAME && str_eq(p->text, str_of(z)); }

static void expect(struct parser *p, char c)
{
	if (is(p, c))
		next(p);
	else
		p->bad = true;
}

static struct str expect_name(struct parser *p)
{
	struct str s = p->text;

	if (p->kind != TOKEN_NAME) {
		p->bad = true;
		return STR_NONE;
	}
	next(p);
	return s;
}

/* --- documents ----------------------------------------------------------------------------------------------------- */

/* From an opening bracket to behind the one that closes it; what is inside only has to nest. */
static void nested(struct parser *p)
{
	char stack[DEPTH_MAX];
	unsigned n = 0;

	do {
		if (is(p, '(') || is(p, '[') || is(p, '{')) {
			if (n == DEPTH_MAX) {
				p->bad = true;
				return;
			}
			stack[n++] = p->text.p[0] == '(' ? ')' : p->text.p[0] == '[' ? ']'
										     : '}';
		} else if (is(p, ')') || is(p, ']') || is(p, '}')) {
			if (stack[--n] != p->text.p[0])
				p->bad = true;
		} else if (p->kind == TOKEN_END) {
			p->bad = true;
		}
		if (p->bad)
			return;
		next(p);
	} while (n > 0);
}

static void directives(struct parser *p)
{
	while (is(p, '@') && !p->bad) {
		next(p);
		expect_name(p);
		if (is(p, '('))
			nested(p);
	}
}

static void field(struct parser *p)
{
	struct str name = expect_name(p);

	if (is(p, ':')) { /* that was an alias */
		next(p);
		name = expect_name(p);
	}
	if (is(p, '('))
		nested(p);
	directives(p);
	if (is(p, '{'))
		nested(p);
	if (!p->bad)
		p->ops->field(p->arg, name, false);
}

static void spread(struct parser *p)
{
	next(p);
	if (is_name(p, "on")) {
		next(p);
		expect_name(p);
	} else if (p->kind == TOKEN_NAME) {
		next(p);
		directives(p);
		p->ops->field(p->arg, STR_NONE, true);
		return;
	}
	directives(p);
	if (is(p, '{'))
		nested(p);
	else
		p->bad = true;
	p->ops->field(p->arg, STR_NONE, true);
}

static void operation(struct parser *p)
{
	struct graphql_operation o = { .type = GRAPHQL_QUERY };

	if (p->kind == TOKEN_NAME) {
		o.type = is_name(p, "mutation") ? GRAPHQL_MUTATION : is_name(p, "subscription") ? GRAPHQL_SUBSCRIPTION
							     : is_name(p, "query")		? GRAPHQL_QUERY
												: 0;
		p->bad = p->bad || o.type == 0;
		next(p);
		if (p->kind == TOKEN_NAME)
			o.name = expect_name(p);
		if (is(p, '('))
			nested(p);
		directives(p);
	}
	if (p->bad)
		return;
	p->ops->operation(p->arg, &o);
	expect(p, '{');
	do {
		if (p->kind == TOKEN_SPREAD)
			spread(p);
		else
			field(p);
	} while (!p->bad && !is(p, '}'));
	expect(p, '}');
}

static void fragment(struct parser *p)
{
	next(p);
	if (is_name(p, "on"))
		p->bad = true;
	expect_name(p);
	if (!is_name(p, "on"))
		p->bad = true;
	next(p);
	expect_name(p);
	directives(p);
	if (is(p, '{'))
		nested(p);
	else
		p->bad = true;
}

bool graphql_parse(struct str text, const struct graphql_ops *ops, void *arg)
{
	struct parser p = { .s = text, .ops = ops, .arg = arg };
	unsigned operations = 0;

	next(&p);
	while (!p.bad && p.kind != TOKEN_END) {
		if (is_name(&p, "fragment")) {
			fragment(&p);
		} else {
			operation(&p);
			operations++;
		}
	}
	return !p.bad && operations > 0;
}
