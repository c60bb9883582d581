/* SPDX-License-Identifier: Apache-2.0 */
#include "body.h"

#include <jansson.h>

#include "graphql.h"

/* Of one operation, or of all: it fits, it does not, or it cannot be told, which fits no allow and every deny. */
enum fit { FIT_NO = 0,
	   FIT_YES,
	   FIT_UNREADABLE };

static enum cond_result as_result(enum fit f, bool deny) { return f == FIT_YES || (f == FIT_UNREADABLE && deny) ? COND_YES : COND_NO; }

/* --- the content as JSON ------------------------------------------------------------------------------------------- */

static bool token_char(char c) { return (c >= '0' && c <= '9') || (ascii_lower(c) >= 'a' && ascii_lower(c) <= 'z') || c == '-' || c == '.' || c == '+' || c == '_'; }

/* application/json, application/NAME+json, text/json; without parameters, or with charset=utf-8. */
static bool declares_json(struct str s)
{
	struct str type = s, rest;
	size_t n = 0;

	while (n < s.n && (token_char(s.p[n]) || s.p[n] == '/'))
		n++;
	type.n = n;
	if (!str_ieq(type, STR("application/json")) && !str_ieq(type, STR("text/json")) &&
	    !(type.n > 12 && str_ieq(str_mk(type.p, 12), STR("application/")) && type.n > 17 && str_ieq(str_mk(type.p + type.n - 5, 5), STR("+json"))))
		return false;
	rest = str_mk(s.p + n, s.n - n);
	if (rest.n == 0)
		return true;
	if (rest.p[0] != ';')
		return false;
	do
		rest = str_mk(rest.p + 1, rest.n - 1);
	while (rest.n && (rest.p[0] == ' ' || rest.p[0] == '\t'));
	return str_ieq(rest, STR("charset=utf-8")) || str_ieq(rest, STR("charset=\"utf-8\""));
}

/* One Content-Type, which is JSON's, and no coding: the origin reads what is read here. */
static bool comes_as_json(const struct facts *f)
{
	struct str name, value;
	unsigned types = 0;

	for (unsigned i = 0; f->field != NULL && f->field(f->field_arg, i, &name, &value); i++) {
		if (str_ieq(name, STR("content-encoding")) && !str_ieq(value, STR("identity")))
			return false;
		if (str_ieq(name, STR("content-type")) && (++types > 1 || !declares_json(value)))
			return false;
	}
	return types == 1;
}

/* Nesting that the recursive reader below is spared. */
static bool shallow(struct str s)
{
	unsigned depth = 0;
	bool in = false;

	for (size_t i = 0; i < s.n; i++) {
		if (in) {
			if (s.p[i] == '\\')
				i++;
			else if (s.p[i] == '"')
				in = false;
		} else if (s.p[i] == '"') {
			in = true;
		} else if (s.p[i] == '{' || s.p[i] == '[') {
			if (++depth > BODY_DEPTH_MAX)
				return false;
		} else if ((s.p[i] == '}' || s.p[i] == ']') && depth > 0) {
			depth--;
		}
	}
	return true;
}

static json_t *read_json(const struct facts *f)
{
	struct str s = f->content != NULL ? *f->content : STR_NONE;

	if (s.n == 0 || s.n > BODY_HELD_MAX || !comes_as_json(f) || !shallow(s))
		return NULL;
	return json_loadb(s.p, s.n, JSON_REJECT_DUPLICATES, NULL);
}

/* The next character of a key without its case: with the long s and the Kelvin sign, the two beyond ASCII that fold into it (Go's encoding/json takes "param\u017f" for "params"). */
static unsigned char folded(const char **k)
{
	if (strncmp(*k, "\xc5\xbf", 2) == 0)
		return (*k += 2, 's');
	if (strncmp(*k, "\xe2\x84\xaa", 3) == 0)
		return (*k += 3, 'k');
	return (unsigned char)ascii_lower(*(*k)++);
}

static bool same_but_for_case(const char *a, const char *b)
{
	unsigned char x, y;

	do {
		x = folded(&a);
		y = folded(&b);
	} while (x == y && x != 0);
	return x == y;
}

/* A member; NULL if there is none. *bad: another key differs from it in case alone, and some would take that one. */
static json_t *member(json_t *o, const char *key, bool *bad)
{
	json_t *found = NULL, *v;
	const char *k;

	json_object_foreach(o, k, v)
	{
		if (strcmp(k, key) == 0)
			found = v;
		else if (same_but_for_case(k, key))
			*bad = true;
	}
	return found;
}

static struct str text_of(const json_t *v) { return json_is_string(v) ? str_mk(json_string_value(v), json_string_length(v)) : STR_NONE; }

/* The message, or each of a batch: in an allow all must fit, in a deny one is enough. */
static enum fit each(json_t *root, bool deny, enum fit (*one)(json_t *message, bool deny, const void *arg), const void *arg)
{
	enum fit all = deny ? FIT_NO : FIT_YES;
	json_t *m;
	size_t i;

	if (json_is_object(root))
		return one(root, deny, arg);
	if (!json_is_array(root) || json_array_size(root) == 0)
		return FIT_UNREADABLE;
	json_array_foreach(root, i, m)
	{
		enum fit f = json_is_object(m) ? one(m, deny, arg) : FIT_UNREADABLE;

		if (f == FIT_UNREADABLE)
			return f;
		if ((f == FIT_YES) == deny)
			all = f;
	}
	return all;
}

/* --- values behind pointers ---------------------------------------------------------------------------------------- */

/* One reference token (RFC 6901 3), unescaped, from behind its slash. */
static bool token(struct str *rest, char out[256])
{
	size_t n = 0, i = 0;

	for (; i < rest->n && rest->p[i] != '/'; i++) {
		char c = rest->p[i];

		if (c == '~') {
			if (++i == rest->n || (rest->p[i] != '0' && rest->p[i] != '1'))
				return false;
			c = rest->p[i] == '0' ? '~' : '/';
		}
		if (n == 255)
			return false;
		out[n++] = c;
	}
	out[n] = 0;
	*rest = str_mk(rest->p + i, rest->n - i);
	return true;
}

static json_t *pointed(json_t *v, struct str pointer, bool *bad)
{
	char key[256];
	uint64_t at;

	while (v != NULL && !*bad && pointer.n > 0) {
		pointer = str_mk(pointer.p + 1, pointer.n - 1);
		if (!token(&pointer, key)) {
			*bad = true;
			return NULL;
		}
		if (json_is_object(v))
			v = member(v, key, bad);
		else if (json_is_array(v) && str_u64(str_of(key), UINT32_MAX, &at))
			v = json_array_get(v, at);
		else
			v = NULL;
	}
	return v;
}

static bool scalar_fits(const json_t *v, const struct cond_value *c, bool deny)
{
	char number[32];

	if (c->flags & VALUE_ANY)
		return true;
	if (json_is_string(v))
		return cond_value_fits(c, text_of(v), deny);
	if (json_is_integer(v)) {
		snprintf(number, sizeof(number), "%" JSON_INTEGER_FORMAT, json_integer_value(v));
		return cond_value_fits(c, str_of(number), deny);
	}
	if (json_is_boolean(v) || json_is_null(v))
		return cond_value_fits(c, json_is_true(v) ? STR("true") : json_is_null(v) ? STR("null")
											  : STR("false"),
				       deny);
	return deny; /* fractions have many spellings, and what holds other values is none */
}

/* values: at their count. */
static enum fit values_fit(json_t *root, struct cursor values, bool deny)
{
	enum fit all = FIT_YES;
	bool bad = false;

	for (unsigned n = get_u16(&values); n > 0; n--) {
		struct cond_value c;
		json_t *v;

		if (!cond_value_next(&values, &c))
			return FIT_UNREADABLE;
		v = root != NULL ? pointed(root, c.key, &bad) : NULL;
		if (bad)
			return FIT_UNREADABLE;
		if (v == NULL ? deny || (c.flags & VALUE_REQUIRED) != 0 : !scalar_fits(v, &c, deny))
			all = FIT_NO;
	}
	return all;
}

/* --- JSON-RPC, MCP ------------------------------------------------------------------------------------------------- */

struct calls {
	bool mcp, has_arguments;
	struct cond_texts tools, methods;
	struct cursor arguments;
};

/* What a client of MCP does before and beside calling tools. */
static bool implied(struct str method)
{
	return str_eq(method, STR("initialize")) || str_eq(method, STR("ping")) || str_eq(method, STR("tools/list")) || str_starts(method, STR("notifications/"));
}

static enum fit tool_fits(json_t *message, bool deny, const struct calls *c)
{
	bool bad = false;
	json_t *params = member(message, "params", &bad), *name, *arguments;
	enum fit f;

	if (bad || !json_is_object(params))
		return FIT_UNREADABLE;
	name = member(params, "name", &bad);
	arguments = member(params, "arguments", &bad);
	if (bad || !json_is_string(name) || (arguments != NULL && !json_is_object(arguments)))
		return FIT_UNREADABLE;
	if (c->tools.n > 0 && !cond_texts_fit(c->tools, text_of(name), deny))
		return FIT_NO;
	f = values_fit(arguments, c->arguments, deny);
	return f;
}

static enum fit call_fits(json_t *message, bool deny, const void *arg)
{
	const struct calls *c = arg;
	bool bad = false, listed;
	json_t *version = member(message, "jsonrpc", &bad), *method = member(message, "method", &bad);
	struct str name = text_of(method);

	if (bad || !str_eq(text_of(version), STR("2.0")) || !json_is_string(method))
		return FIT_UNREADABLE;
	listed = cond_texts_fit(c->methods, name, deny);
	if (!c->mcp)
		return listed ? FIT_YES : FIT_NO;
	if (str_eq(name, STR("tools/call")) || (deny && str_ieq(name, STR("tools/call")))) {
		if (c->tools.n == 0 && !c->has_arguments)
			return listed ? FIT_YES : FIT_NO;
		return deny && listed ? FIT_YES : tool_fits(message, deny, c);
	}
	return listed || (!deny && c->tools.n > 0 && implied(name)) ? FIT_YES : FIT_NO;
}

/* --- GraphQL ------------------------------------------------------------------------------------------------------- */

struct graphql {
	unsigned types;
	struct cond_texts fields, names;
};
struct graphql_walk {
	const struct graphql *g;
	bool deny;
	bool operation; /* the one at hand fits by type and name */
	bool all, any;
};

static void on_operation(void *arg, const struct graphql_operation *o)
{
	struct graphql_walk *w = arg;

	w->operation = (w->g->types == 0 || (w->g->types & o->type)) && (w->g->names.n == 0 || cond_texts_fit(w->g->names, o->name, w->deny));
	w->all = w->all && w->operation;
}

static void on_field(void *arg, struct str name, bool spread)
{
	struct graphql_walk *w = arg;
	bool fits = w->g->fields.n == 0 || (spread ? w->deny : cond_texts_fit(w->g->fields, name, w->deny));

	w->all = w->all && fits;
	w->any = w->any || (w->operation && fits);
}

static enum fit document_fits(json_t *message, bool deny, const void *arg)
{
	static const struct graphql_ops ops = { on_operation, on_field };
	struct graphql_walk w = { .g = arg, .deny = deny, .all = true };
	bool bad = false;
	json_t *query = member(message, "query", &bad);

	/* a document that the origin has already (a persisted query) is not here to be read */
	if (bad || !json_is_string(query) || !graphql_parse(text_of(query), &ops, &w))
		return FIT_UNREADABLE;
	return (deny ? w.any : w.all) ? FIT_YES : FIT_NO;
}

/* --- pushes of git ------------------------------------------------------------------------------------------------- */

/* The next packet (gitprotocol-common): 1 a line, 0 flush, -1 damaged or of another kind, 2 not all there. */
static int packet(struct str *rest, struct str *line)
{
	unsigned n = 0;

	if (rest->n < 4)
		return 2;
	for (int i = 0; i < 4; i++) {
		int v = hex_value(rest->p[i]);

		if (v < 0)
			return -1;
		n = n << 4 | (unsigned)v;
	}
	if (n == 0) {
		*rest = str_mk(rest->p + 4, rest->n - 4);
		return 0;
	}
	if (n < 5)
		return -1;
	if (rest->n < n)
		return 2;
	*line = str_mk(rest->p + 4, n - 4);
	*rest = str_mk(rest->p + n, rest->n - n);
	return 1;
}

static bool object_id(struct str s, bool *zero)
{
	*zero = true;
	for (size_t i = 0; i < s.n; i++) {
		if (hex_value(s.p[i]) < 0)
			return false;
		*zero = *zero && s.p[i] == '0';
	}
	return s.n == 40 || s.n == 64;
}

/* OLD NEW REF, behind NUL capabilities. */
static bool command(struct str line, struct str *ref, bool *deletes)
{
	const char *nul, *blank;
	struct str old, new;
	bool zero;

	if (line.n && line.p[line.n - 1] == '\n')
		line.n--;
	nul = memchr(line.p, 0, line.n);
	if (nul != NULL)
		line.n = (size_t)(nul - line.p);
	blank = line.n ? memchr(line.p, ' ', line.n) : NULL;
	if (blank == NULL)
		return false;
	old = str_mk(line.p, (size_t)(blank - line.p));
	line = str_mk(blank + 1, line.n - old.n - 1);
	blank = line.n ? memchr(line.p, ' ', line.n) : NULL;
	if (blank == NULL)
		return false;
	new = str_mk(line.p, (size_t)(blank - line.p));
	*ref = str_mk(blank + 1, line.n - new.n - 1);
	if (!object_id(old, &zero) || !object_id(new, deletes) || old.n != new.n || !str_starts(*ref, STR("refs/")))
		return false;
	for (size_t i = 0; i < ref->n; i++)
		if ((unsigned char)ref->p[i] <= 0x20 || ref->p[i] == 0x7f)
			return false;
	return true;
}

static enum fit push_fits(struct str content, struct cond_texts refs, uint8_t flags, bool deny)
{
	enum fit all = deny ? FIT_NO : FIT_YES;
	struct str line, ref;
	int r;

	while ((r = packet(&content, &line)) == 1) {
		bool deletes, zero, fits;

		if (str_starts(line, STR("shallow "))) {
			if (line.p[line.n - 1] == '\n')
				line.n--;
			if (line.n < 8 || !object_id(str_mk(line.p + 8, line.n - 8), &zero))
				return FIT_UNREADABLE;
			continue;
		}
		if (!command(line, &ref, &deletes)) /* also a signed push, which says it all elsewhere */
			return FIT_UNREADABLE;
		fits = (refs.n == 0 || cond_texts_fit(refs, ref, deny)) && (deny ? deletes || !(flags & GIT_DELETE) : !deletes || (flags & GIT_DELETE));
		if (fits == deny)
			all = fits ? FIT_YES : FIT_NO;
	}
	return r == 0 ? all : FIT_UNREADABLE; /* without a command: git asks first whether it may, before it sends much */
}

static bool plain_coding(const struct facts *f)
{
	struct str name, value;

	for (unsigned i = 0; f->field != NULL && f->field(f->field_arg, i, &name, &value); i++)
		if (str_ieq(name, STR("content-encoding")))
			return false;
	return true;
}

/* --- entry --------------------------------------------------------------------------------------------------------- */

static enum fit content_fits(unsigned kind, struct cursor *c, bool deny, const struct facts *f)
{
	json_t *root = kind == BODY_GIT_PUSH ? NULL : read_json(f);
	struct calls calls = { .mcp = kind == BODY_MCP };
	struct graphql g = { 0 };
	enum fit fit = FIT_UNREADABLE;

	if (kind == BODY_GIT_PUSH) {
		uint8_t flags = get_u8(c);
		struct cond_texts refs = cond_texts(c);

		return plain_coding(f) ? push_fits(f->content != NULL ? *f->content : STR_NONE, refs, flags, deny) : FIT_UNREADABLE;
	}
	if (root == NULL)
		return FIT_UNREADABLE;
	switch (kind) {
	case BODY_GRAPHQL:
		g.types = get_u8(c);
		g.fields = cond_texts(c);
		g.names = cond_texts(c);
		if (!f->has_query || f->query.n == 0) /* which may hold a document too */
			fit = each(root, deny, document_fits, &g);
		break;
	case BODY_MCP:
		calls.tools = cond_texts(c);
		calls.methods = cond_texts(c);
		calls.arguments = *c;
		calls.has_arguments = get_u16(&(struct cursor){ c->p, c->n, c->at, c->bad }) > 0;
		fit = each(root, deny, call_fits, &calls);
		break;
	case BODY_JSONRPC:
		calls.methods = cond_texts(c);
		fit = each(root, deny, call_fits, &calls);
		break;
	case BODY_JSON:
		fit = values_fit(root, *c, deny);
		break;
	default:
		break;
	}
	json_decref(root);
	return fit;
}

enum cond_result body_fits(struct cursor *c, bool deny, const struct facts *f)
{
	unsigned kind = get_u8(c);

	if (kind == BODY_NONE)
		return f->has_content ? COND_NO : COND_YES;
	if (kind == BODY_ANY)
		return COND_YES;
	if (f->has_content && f->content == NULL)
		return COND_CONTENT;
	return as_result(content_fits(kind, c, deny, f), deny);
}

enum body_need body_need(struct str cond)
{
	switch (cond_body(cond)) {
	case BODY_GIT_PUSH:
		return BODY_NEED_COMMANDS;
	case BODY_GRAPHQL:
	case BODY_MCP:
	case BODY_JSONRPC:
	case BODY_JSON:
		return BODY_NEED_ALL;
	default:
		return BODY_NEED_NOTHING;
	}
}

bool body_enough(enum body_need need, struct str s)
{
	struct str line;
	int r;

	if (need == BODY_NEED_FIRST)
		return s.n > 0;
	if (need != BODY_NEED_COMMANDS)
		return need == BODY_NEED_NOTHING;
	while ((r = packet(&s, &line)) == 1)
		;
	return r != 2;
}
