/* SPDX-License-Identifier: Apache-2.0 */
/* Requests made from the conditions of a rule, so that it matches: for witnesses. */
#include "../common/base/jsonw.h"
#include "../common/policy/glob.h"
#include "diff.h"

/* --- texts that match ---------------------------------------------------------------------------------------------- */

static void put_instance(struct buf *b, struct str pattern)
{
	for (size_t i = 0; i < pattern.n; i++) {
		if (pattern.p[i] != GLOB_STAR)
			buf_addc(b, pattern.p[i]);
		else
			buf_addz(b, "zz");
	}
}

static struct str instance(struct arena *a, const struct pol_texts *t, unsigned k, const char *otherwise)
{
	struct buf b = { 0 };
	struct str s;

	if (t->n > 0)
		put_instance(&b, t->s[k % t->n]);
	else
		buf_addz(&b, otherwise);
	s = arena_str(a, buf_str(&b));
	buf_fini(&b);
	return s;
}

static struct str value_of(struct arena *a, const struct pol_value *v, unsigned k) { return v->any ? STR("zz") : instance(a, &v->patterns, k, "zz"); }

static void put_escaped(struct buf *b, struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i], l = ascii_lower(c);

		if ((l >= 'a' && l <= 'z') || (c >= '0' && c <= '9') || memchr("-._~/:", c, 6) != NULL)
			buf_addc(b, c);
		else
			buf_addf(b, "%%%02X", (unsigned char)c);
	}
}

static struct str query_of(struct arena *a, const struct pol_values *q, unsigned k)
{
	struct buf b = { 0 };
	struct str s;

	for (unsigned i = 0; i < q->n; i++) {
		if (i > 0)
			buf_addc(&b, '&');
		put_escaped(&b, q->v[i].key);
		buf_addc(&b, '=');
		put_escaped(&b, value_of(a, &q->v[i], k));
	}
	s = arena_str(a, buf_str(&b));
	buf_fini(&b);
	return s;
}

/* --- content ------------------------------------------------------------------------------------------------------- */

/* Values behind pointers as one object: nested objects, one branch each; pointers that share a beginning are left to the first. */
static void put_object(struct buf *b, struct arena *a, const struct pol_values *vs, unsigned k)
{
	buf_addc(b, '{');
	for (unsigned i = 0; i < vs->n; i++) {
		struct str rest = vs->v[i].key;
		unsigned depth = 0;

		if (i > 0)
			buf_addc(b, ',');
		while (rest.n > 0) {
			size_t n = 1;

			while (n < rest.n && rest.p[n] != '/')
				n++;
			if (depth++ > 0)
				buf_addc(b, '{');
			jsonw_quote(b, str_mk(rest.p + 1, n - 1));
			buf_addc(b, ':');
			rest = str_mk(rest.p + n, rest.n - n);
		}
		jsonw_quote(b, value_of(a, &vs->v[i], k));
		while (depth-- > 1)
			buf_addc(b, '}');
	}
	buf_addc(b, '}');
}

static void put_call(struct buf *b, struct arena *a, const struct pol_cond *c, unsigned k)
{
	if (c->body == BODY_MCP && c->tools.n > 0 && k < c->tools.n) {
		buf_addz(b, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":");
		jsonw_quote(b, instance(a, &c->tools, k, "zz"));
		buf_addz(b, ",\"arguments\":");
		put_object(b, a, &c->values, k);
		buf_addz(b, "}}");
		return;
	}
	buf_addz(b, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":");
	jsonw_quote(b, instance(a, &c->methods, k, "ping"));
	buf_addc(b, '}');
}

static void put_document(struct buf *b, struct arena *a, const struct pol_cond *c, unsigned k)
{
	static const char *const types[] = { "query", "mutation", "subscription" };
	unsigned type = k % 3;

	while (c->graphql_types != 0 && (c->graphql_types & 1u << type) == 0)
		type = (type + 1) % 3;
	buf_addf(b, "{\"query\":\"%s ", types[type]);
	buf_adds(b, instance(a, &c->names, k, "Zz"));
	buf_addz(b, " { ");
	buf_adds(b, instance(a, &c->fields, k, "zz"));
	buf_addz(b, " }\"}");
}

static void put_push(struct buf *b, struct arena *a, const struct pol_cond *c, unsigned k)
{
	static const char zeros[] = "0000000000000000000000000000000000000000", ones[] = "1111111111111111111111111111111111111111";
	struct str ref = instance(a, &c->refs, k, "refs/heads/zz");
	bool deletes = c->git_delete && k >= (c->refs.n ? c->refs.n : 1);

	buf_addf(b, "%04x%s %s %.*s0000", (unsigned)(86 + ref.n), ones, deletes ? zeros : "2222222222222222222222222222222222222222", (int)ref.n, ref.p);
}

static void put_content(struct buf *b, struct arena *a, const struct pol_cond *c, unsigned k)
{
	switch (c->body) {
	case BODY_GRAPHQL:
		put_document(b, a, c, k);
		break;
	case BODY_MCP:
	case BODY_JSONRPC:
		put_call(b, a, c, k);
		break;
	case BODY_JSON:
		put_object(b, a, &c->values, k);
		break;
	case BODY_GIT_PUSH:
		put_push(b, a, c, k);
		break;
	default:
		buf_addz(b, "zz");
		break;
	}
}

/* --- paths of regular expressions ---------------------------------------------------------------------------------- */

/* One text that an expression matches: the k-th alternative of each group that has so many, else its first. */
struct walk {
	struct str s;
	size_t at;
	unsigned k;
	struct buf *out;
};

static void one_of_class(struct walk *w)
{
	bool not = w->at < w->s.n && w->s.p[w->at] == '^';
	size_t b = w->at + not, e = b;
	char c;

	if (e < w->s.n && w->s.p[e] == ']')
		e++;
	while (e < w->s.n && w->s.p[e] != ']')
		e += w->s.p[e] == '\\' ? 2 : 1;
	c = w->s.p[b];
	if (c == '\\' && b + 1 < e)
		c = strchr("dD", w->s.p[b + 1]) ? '1' : strchr("wWsS", w->s.p[b + 1]) ? 'z'
										      : w->s.p[b + 1];
	buf_addc(w->out, not ? 'z' : c);
	w->at = e + 1;
}

static void alternatives(struct walk *w, bool emit);

static void atom(struct walk *w, bool emit)
{
	size_t before = buf_len(w->out);
	char c = w->s.p[w->at++];

	if (c == '(') {
		if (w->at + 1 < w->s.n && w->s.p[w->at] == '?')
			w->at += 2;
		alternatives(w, emit);
		w->at++;
	} else if (c == '[') {
		one_of_class(w);
	} else if (c == '\\') {
		c = w->s.p[w->at++];
		buf_addc(w->out, strchr("d", c) ? '1' : strchr("DwS", c) ? 'z'
						: strchr("Ws", c)	 ? '-'
									 : c);
	} else if (c == '.') {
		buf_addc(w->out, 'z');
	} else if (c != '^' && c != '$') {
		buf_addc(w->out, c);
	}
	if (!emit)
		w->out->len = before;
}

/* An atom and how often: as often as it must be, but once at least. */
static void piece(struct walk *w, bool emit)
{
	size_t from = buf_len(w->out), n;
	unsigned times = 1;

	atom(w, emit);
	n = buf_len(w->out) - from;
	if (w->at < w->s.n && memchr("*+?", w->s.p[w->at], 3) != NULL) {
		w->at++;
	} else if (w->at + 1 < w->s.n && w->s.p[w->at] == '{' && w->s.p[w->at + 1] >= '0' && w->s.p[w->at + 1] <= '9') {
		times = 0;
		for (w->at++; w->at < w->s.n && w->s.p[w->at] >= '0' && w->s.p[w->at] <= '9'; w->at++)
			times = times * 10 + (unsigned)(w->s.p[w->at] - '0');
		while (w->at < w->s.n && w->s.p[w->at] != '}')
			w->at++;
		w->at++;
	}
	for (; emit && times > 1 && buf_len(w->out) < REGEX_SUBJECT_MAX; times--)
		for (size_t i = 0; i < n; i++)
			buf_addc(w->out, (char)buf_data(w->out)[from + i]);
}

static void branch(struct walk *w, bool emit)
{
	while (w->at < w->s.n && w->s.p[w->at] != '|' && w->s.p[w->at] != ')')
		piece(w, emit);
}

static void alternatives(struct walk *w, bool emit)
{
	size_t start = w->at;
	unsigned n = 1, take, i = 0;

	for (branch(w, false); w->at < w->s.n && w->s.p[w->at] == '|'; n++) {
		w->at++;
		branch(w, false);
	}
	take = w->k % n;
	for (w->at = start;; w->at++) {
		branch(w, emit && i++ == take);
		if (w->at >= w->s.n || w->s.p[w->at] != '|')
			return;
	}
}

/* --- all ----------------------------------------------------------------------------------------------------------- */

static bool field_at(const void *arg, unsigned i, struct str *name, struct str *value)
{
	const struct sample *s = arg;

	if (i >= s->field_n)
		return false;
	*name = s->names[i];
	*value = s->values[i];
	return true;
}

static unsigned widest(unsigned n, const struct pol_values *vs)
{
	for (unsigned i = 0; i < vs->n; i++)
		n = vs->v[i].patterns.n > n ? vs->v[i].patterns.n : n;
	return n;
}

/* How many instances show all that the conditions list. */
static unsigned instances(const struct pol_cond *c)
{
	unsigned n = widest(widest(widest(1, &c->query), &c->headers), &c->values), more = c->fields.n > c->names.n ? c->fields.n : c->names.n;

	if (more > n)
		n = more;
	if (c->tools.n + c->methods.n > n)
		n = c->tools.n + c->methods.n;
	if (c->refs.n + 1 > n)
		n = c->refs.n + 1;
	if ((c->parts & COND_REGEX) && n < 8)
		n = 8;
	return c->body == BODY_GRAPHQL && n < 3 ? 3 : n;
}

bool sample_make(struct arena *a, const struct pol_rule *r, unsigned k, struct sample *s)
{
	const struct pol_cond *c = r->cond;
	struct buf b = { 0 };

	memset(s, 0, sizeof(*s));
	s->f.field = field_at;
	if (c == NULL || k >= instances(c) || k > 64)
		return false;
	if ((c->parts & COND_QUERY) && c->query.n > 0) {
		s->query = query_of(a, &c->query, k);
		s->f.has_query = true;
	}
	for (unsigned i = 0; (c->parts & COND_HEADERS) && i < c->headers.n; i++) {
		s->names[s->field_n] = c->headers.v[i].key;
		s->values[s->field_n++] = value_of(a, &c->headers.v[i], k);
	}
	if (c->parts & COND_REGEX) {
		struct walk w = { .s = c->regex, .k = k, .out = &b };

		alternatives(&w, true);
		s->path = arena_str(a, buf_str(&b));
		buf_clear(&b);
	}
	if ((c->parts & COND_BODY) && c->body != BODY_NONE) {
		put_content(&b, a, c, k);
		s->content = arena_str(a, buf_str(&b));
		s->f.has_content = true;
		if (c->body != BODY_GIT_PUSH && c->body != BODY_ANY) {
			s->names[s->field_n] = STR("content-type");
			s->values[s->field_n++] = STR("application/json");
		}
	}
	buf_fini(&b);
	return true;
}
