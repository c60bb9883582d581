/* SPDX-License-Identifier: Apache-2.0 */
/* One rule: `METHOD[|METHOD...] PATH`, or a map. Many of the accidents of YAML happen here, and each has a text. */
#include "load.h"

#define METHOD_MAX 32

static bool method_ok(struct str m)
{
	if (m.n == 0 || m.n > METHOD_MAX)
		return false;
	for (size_t i = 0; i < m.n; i++)
		if (!((m.p[i] >= 'A' && m.p[i] <= 'Z') || (i > 0 && (m.p[i] == '-' || m.p[i] == '_' || (m.p[i] >= '0' && m.p[i] <= '9')))))
			return false;
	return true;
}

static bool add_method(struct load *l, const struct yaml_node *at, struct str m, struct pol_rule *r)
{
	if (str_eq(m, STR("ANY")) || str_eq(m, STR("*"))) {
		r->any = true;
		return true;
	}
	if (!method_ok(m)) {
		bool lower = m.n > 0 && m.p[0] >= 'a' && m.p[0] <= 'z';

		ERROR_AT(l, at, "`%.*s` is not a method%s: a rule is `METHOD PATH`, or `GET|POST PATH`", DIAG_STR(m), lower ? " (they are written in capitals)" : "");
		return false;
	}
	if (str_eq(m, STR("TUNNEL"))) {
		ERROR_AT(l, at, "TUNNEL is no method of a rule: `allow: tunnel` stands on a destination of its own, with `protocol: tcp` or `tls: {passthrough: true}`");
		return false;
	}
	if (str_eq(m, STR("CONNECT"))) {
		ERROR_AT(l, at, "CONNECT is not decided by rules: a destination is what may be connected to");
		return false;
	}
	if (!r->deny && str_eq(m, STR("TRACE"))) {
		ERROR_AT(l, at, "TRACE is never forwarded: it would echo what is injected");
		return false;
	}
	for (unsigned i = 0; i < r->method_n; i++) {
		if (str_eq(r->methods[i], m)) {
			ERROR_AT(l, at, "the method %.*s stands twice", DIAG_STR(m));
			return false;
		}
	}
	r->methods[r->method_n++] = m;
	return true;
}

static bool load_methods(struct load *l, const struct yaml_node *at, struct str text, struct pol_rule *r)
{
	size_t n = 1;

	for (size_t i = 0; i < text.n; i++)
		n += text.p[i] == '|' || text.p[i] == ',';
	r->methods = arena_zalloc(l->a, n * sizeof(struct str));
	for (size_t i = 0, b = 0; i <= text.n; i++) {
		if (i < text.n && text.p[i] != '|' && text.p[i] != ',')
			continue;
		if (!add_method(l, at, str_mk(text.p + b, i - b), r))
			return false;
		b = i + 1;
	}
	return true;
}

static const char *path_text(const char *reason, struct str path)
{
	if (path.n && (memchr(path.p, '{', path.n) != NULL || memchr(path.p, '}', path.n) != NULL))
		return "a name in braces is no pattern: write * for one segment, ** for any number";
	if (strcmp(reason, "encoded_slash") == 0)
		return "an encoded slash needs `paths: { encoded_slash: keep }` on the destination";
	if (strcmp(reason, "empty_segment") == 0)
		return "an empty segment needs `paths: { empty_segments: keep }` on the destination";
	if (strcmp(reason, "raw_character") == 0)
		return "a character that a URL has only percent-encoded (or `paths: { raw: true }`)";
	if (strcmp(reason, "fragment") == 0)
		return "a # is never sent: write %23";
	return reason;
}

static bool load_pattern(struct load *l, const struct yaml_node *at, struct str path, const struct canon_path_opts *paths, struct pol_rule *r)
{
	struct canon_path_opts o = *paths;
	const char *reason, *mark;
	struct str wire, p;

	r->written = path;
	if (str_eq(path, STR("*"))) { /* OPTIONS * */
		r->pattern = path;
		return true;
	}
	if (path.p[0] != '/') {
		if (str_starts(path, STR("http://")) || str_starts(path, STR("https://")))
			ERROR_AT(l, at, "a rule has a path alone: scheme and host are the destination's");
		else
			ERROR_AT(l, at, "the path of a rule begins with /: `%.*s`", DIAG_STR(path));
		return false;
	}
	mark = memchr(path.p, '?', path.n);
	if (mark != NULL) {
		load_query_text(l, at, str_mk(mark + 1, path.n - (size_t)(mark - path.p) - 1), r);
		path.n = (size_t)(mark - path.p);
	}
	o.pattern = true;
	if (!canon_path(l->a, path, &o, &wire, &p, &reason)) {
		ERROR_AT(l, at, "no request can have the path `%.*s`: %s", DIAG_STR(path), path_text(reason, path));
		return false;
	}
	for (size_t i = 0; i + 1 < p.n; i++) {
		bool whole = i > 0 && p.p[i - 1] == '/' && (i + 2 == p.n || p.p[i + 2] == '/');

		if (p.p[i] == '*' && p.p[i + 1] == '*' && !whole) {
			ERROR_AT(l, at, "`**` is a whole segment: /a/** or /a/**/b");
			return false;
		}
	}
	r->pattern = p;
	return true;
}

/* --- as text ------------------------------------------------------------------------------------------------------- */

/* "GET", "GET|POST": what is left of "[ GET,HEAD /x ]" in front of its comma. */
static bool methods_only(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!((s.p[i] >= 'A' && s.p[i] <= 'Z') || s.p[i] == '|'))
			return false;
	return s.n > 0;
}

static bool split_text(struct load *l, const struct yaml_node *n, struct str *method, struct str *path)
{
	struct str s = n->text;
	const char *blank = s.n ? memchr(s.p, ' ', s.n) : NULL;

	if (n->comment_touches) {
		ERROR_AT(l, n, "a comment begins in the line of this rule and cuts it: quote the rule if the # belongs to it (or write %%23), or put a blank behind the #");
		return false;
	}
	if (blank == NULL) {
		if (methods_only(s))
			ERROR_AT(l, n, "`%.*s` has no path: a rule is `METHOD PATH`, and inside [ ] a comma separates rules: write `GET|HEAD /x`", DIAG_STR(s));
		else if (s.n && s.p[0] == '/')
			ERROR_AT(l, n, "`%.*s` has no method: a rule is `METHOD PATH`, ANY for every method", DIAG_STR(s));
		else
			ERROR_AT(l, n, "`%.*s` is not a rule: a rule is `METHOD PATH`", DIAG_STR(s));
		return false;
	}
	*method = str_mk(s.p, (size_t)(blank - s.p));
	while (blank < s.p + s.n && *blank == ' ')
		blank++;
	*path = str_mk(blank, s.n - (size_t)(blank - s.p));
	while (path->n && path->p[path->n - 1] == ' ')
		path->n--;
	if (path->n == 0) {
		ERROR_AT(l, n, "`%.*s` has no path", DIAG_STR(s));
		return false;
	}
	blank = memchr(path->p, ' ', path->n);
	if (blank != NULL || memchr(path->p, '\n', path->n) != NULL) {
		ERROR_AT(l, n, "a blank in the path `%.*s`: is a `- ` missing, so that two rules became one? (A blank in a path is written %%20)", DIAG_STR(*path));
		return false;
	}
	return true;
}

/* --- as a map ------------------------------------------------------------------------------------------------------ */

struct rule_ctx {
	struct load *l;
	struct pol_rule *r;
	struct str method, path, regex;
	const struct yaml_node *path_node, *query_node;
};

static void on_method(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct rule_ctx *c = arg;
	struct buf b = { 0 };

	(void)row;
	for (unsigned i = 0; i < v->n; i++) {
		if (i > 0)
			buf_addc(&b, '|');
		buf_adds(&b, v->items[i]->text);
	}
	c->method = arena_str(c->l->a, buf_str(&b));
	buf_fini(&b);
}

static void on_path(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct rule_ctx *c = arg;

	(void)row;
	c->path = v->text;
	c->path_node = v->node;
}

static void on_id(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct rule_ctx *c = arg;

	(void)row;
	c->r->id = v->text;
	c->r->id_given = true;
	if (v->text.n > 200)
		ERROR_AT(c->l, v->node, "an id has 200 characters at most");
}

static void on_regex(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct rule_ctx *c = arg;

	(void)row;
	c->regex = v->text;
	load_regex(c->l, v->node, v->text, c->r);
}

static void on_query(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct rule_ctx *c = arg;

	(void)row;
	c->query_node = v->key;
	load_query(c->l, v->node, c->r);
}

static void on_headers(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct rule_ctx *c = arg;

	(void)row;
	load_headers(c->l, v->node, c->r);
}

static void on_body(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct rule_ctx *c = arg;

	(void)row;
	load_body(c->l, v->node, c->r);
}

static void on_valid(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct rule_ctx *c = arg;

	(void)row;
	load_valid(c->l, v->node, c->r);
}

static void on_limits(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct rule_ctx *c = arg;

	(void)row;
	load_limits(c->l, v->node, &c->r->limits);
	if (c->r->deny)
		ERROR_AT(c->l, v->key, "`limits` belongs to an allow rule: a deny lets nothing through");
}

static void on_uses(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct rule_ctx *c = arg;

	(void)row;
	load_cond(c->l, c->r, COND_USES)->uses = v->number;
	if (c->r->deny)
		ERROR_AT(c->l, v->key, "`uses` belongs to an allow rule: a deny does not wear out");
}

static const struct schema_row rule_rows[] = {
	{ "method", SCHEMA_ONE_OR_MORE, true, on_method, NULL, 0, 0 },
	{ "path", SCHEMA_TEXT, false, on_path, NULL, 0, 0 },
	{ "regex", SCHEMA_TEXT, false, on_regex, NULL, 0, 0 },
	{ "query", SCHEMA_ANY, false, on_query, NULL, 0, 0 },
	{ "headers", SCHEMA_MAP, false, on_headers, NULL, 0, 0 },
	{ "body", SCHEMA_ANY, false, on_body, NULL, 0, 0 },
	{ "valid", SCHEMA_MAP, false, on_valid, NULL, 0, 0 },
	{ "limits", SCHEMA_MAP, false, on_limits, NULL, 0, 0 },
	{ "uses", SCHEMA_NUMBER, false, on_uses, NULL, 1, 1000000000 },
	{ "id", SCHEMA_TEXT, false, on_id, NULL, 0, 0 },
	{ "ask", SCHEMA_LATER, false, NULL, "asking a person", 0, 0 },
	{ "programs", SCHEMA_LATER, false, NULL, "rules by program", 0, 0 },
};

/* A regex stands on the pattern that every path has; the expression is a condition beside it. */
static bool path_or_regex(struct rule_ctx *c, const struct yaml_node *n)
{
	struct buf b = { 0 };

	if ((c->path.n > 0) == (c->regex.n > 0)) {
		ERROR_AT(c->l, n, c->path.n > 0 ? "a rule has a `path` or a `regex`, not both" : "a rule needs a `path`, or a `regex`");
		return false;
	}
	if (c->query_node != NULL && c->path.n > 0 && memchr(c->path.p, '?', c->path.n) != NULL) {
		ERROR_AT(c->l, c->query_node, "the query stands in the path already: one of the two");
		return false;
	}
	if (c->regex.n == 0)
		return true;
	c->r->pattern = STR("/**");
	buf_addf(&b, "regex %.*s", (int)c->regex.n, c->regex.p);
	c->r->written = arena_str(c->l->a, buf_str(&b));
	buf_fini(&b);
	return true;
}

bool load_rule(struct load *l, struct yaml_node *n, const struct canon_path_opts *paths, bool deny, struct pol_rule *r)
{
	struct rule_ctx c = { .l = l, .r = r, .path_node = n };

	*r = (struct pol_rule){ .deny = deny, .source = load_source(l, n), .at = place_of(l, n) };
	if (n->kind == YAML_TEXT) {
		if (!split_text(l, n, &c.method, &c.path))
			return false;
	} else if (n->kind == YAML_MAP) {
		const struct yaml_node *key = n->n > 0 ? n->items[0] : n;

		if (n->n > 0 && key->text.n && memchr(key->text.p, ' ', key->text.n) != NULL) {
			ERROR_AT(l, n, "the rule `%.*s` was read as a map because of the `: ` in it: quote the whole rule", DIAG_STR(key->text));
			return false;
		}
		if (!schema_parse(l->d, n, "a rule", SCHEMA_ROWS(rule_rows), &c) || !path_or_regex(&c, n))
			return false;
	} else {
		ERROR_AT(l, n, n->kind == YAML_NULL ? "an empty rule" : "a rule is text, `METHOD PATH`, or a map (a path with [ ] in it must be quoted)");
		return false;
	}
	return load_methods(l, n, c.method, r) && (c.regex.n > 0 || load_pattern(l, c.path_node, c.path, paths, r));
}

struct schema_rows load_rows_rule(void) { return (struct schema_rows){ SCHEMA_ROWS(rule_rows) }; }
