/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that tell the conditions of rules apart. Of each part of a request (query, fields, content, time) the values that
 * some rule's patterns tell apart are listed; requests are all combinations of them.
 *
 * Two values of one key or field, two operations of one batch stand beside the single ones where more than one allow rule
 * speaks of them: all must fit in each of them, so that what each lets through alone none may let through together.
 */
#include <stdlib.h>

#include "../common/base/jsonw.h"
#include "../common/base/must.h"
#include "../common/policy/glob.h"
#include "diff.h"
#include "texts.h"

#define OPTIONS_MAX 4000u /* of one part */
#define PROBES_MAX 30000u /* of one set of rules */
#define FIELDS_MAX 8u	  /* fields that are combined */

struct options {
	struct str *s;
	unsigned n, cap;
	bool cut;
};
struct fields { /* one way to send the listed fields */
	struct str name[2 * FIELDS_MAX], value[2 * FIELDS_MAX];
	unsigned n;
};
struct lists {
	struct arena *a;
	struct str fresh;
	const struct pol_rule *const *r;
	unsigned n;
	bool cut;
	struct options query, content; /* STR_NONE in query: no query; in content the first is none */
	struct fields *fields;
	unsigned field_n;
	uint64_t times[2 * COND_VALUES_MAX];
	unsigned time_n;
};

static void add_option(struct options *o, struct str s)
{
	for (unsigned i = 0; i < o->n; i++)
		if (str_eq(o->s[i], s) && (o->s[i].p == NULL) == (s.p == NULL))
			return;
	if (o->n == OPTIONS_MAX) {
		o->cut = true;
		return;
	}
	if (o->n == o->cap) {
		o->cap = o->cap ? 2 * o->cap : 16;
		o->s = must_realloc(o->s, o->cap * sizeof(*o->s));
	}
	o->s[o->n++] = s;
}

static bool has_control(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if ((unsigned char)s.p[i] < 0x20 || s.p[i] == 0x7f)
			return true;
	return false;
}

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

/* --- values that patterns tell apart ------------------------------------------------------------------------------- */

struct patterns {
	struct text_pattern *p;
	unsigned n, cap;
	unsigned allows; /* rules that allow and speak of it */
	unsigned listed; /* how often one deny lists it at most */
};

static void add_patterns(struct patterns *ps, const struct pol_texts *t, bool deny)
{
	for (unsigned i = 0; i < t->n; i++) {
		if (ps->n == ps->cap) {
			ps->cap = ps->cap ? 2 * ps->cap : 16;
			ps->p = must_realloc(ps->p, ps->cap * sizeof(*ps->p));
		}
		ps->p[ps->n++] = (struct text_pattern){ .s = t->s[i], .wild = GLOB_STAR, .fold = deny };
	}
}

static bool fit_alike(const struct patterns *ps, struct str x, struct str y)
{
	for (unsigned i = 0; i < ps->n; i++)
		if (glob_text(ps->p[i].s, x, ps->p[i].fold) != glob_text(ps->p[i].s, y, ps->p[i].fold))
			return false;
	return true;
}

/* Of those that are alike the one that reads best. */
static void values_apart(struct lists *l, const struct patterns *ps, struct texts *out)
{
	unsigned n = 0;
	bool fresh = false;

	texts_apart(l->a, ps->p, ps->n, out);
	l->cut = l->cut || out->cut;
	for (unsigned i = 0; i < out->n; i++) {
		bool as_fresh = !fresh && fit_alike(ps, out->t[i], l->fresh);

		if (!as_fresh && has_control(out->t[i]))
			continue;
		fresh = fresh || as_fresh;
		out->t[n++] = as_fresh ? l->fresh : out->t[i];
	}
	out->n = n;
}

/* --- query --------------------------------------------------------------------------------------------------------- */

static bool deny_key(struct str listed, struct str key)
{
	const char *bracket = key.n ? memchr(key.p, '[', key.n) : NULL;

	return str_ieq(listed, key) || (bracket != NULL && str_ieq(listed, str_mk(key.p, (size_t)(bracket - key.p))));
}

static void of_key(const struct lists *l, struct str key, struct patterns *ps)
{
	for (unsigned i = 0; i < l->n; i++) {
		const struct pol_rule *r = l->r[i];
		unsigned times = 0;

		for (unsigned k = 0; (r->cond->parts & COND_QUERY) && k < r->cond->query.n; k++) {
			const struct pol_value *v = &r->cond->query.v[k];

			if (!(r->deny ? deny_key(v->key, key) : str_eq(v->key, key)))
				continue;
			add_patterns(ps, &v->patterns, r->deny);
			times++;
		}
		ps->allows += !r->deny && times > 0;
		if (r->deny && times > ps->listed)
			ps->listed = times;
	}
}

static struct str param(struct arena *a, struct str before, struct str key, struct str value)
{
	struct buf b = { 0 };
	struct str s;

	buf_adds(&b, before);
	if (before.n > 0)
		buf_addc(&b, '&');
	put_escaped(&b, key);
	buf_addc(&b, '=');
	put_escaped(&b, value);
	s = arena_str(a, buf_str(&b));
	buf_fini(&b);
	return s;
}

/* How all rules take a key: keys that they take alike need not be combined. */
static struct str treatment(const struct lists *l, struct str key)
{
	struct buf b = { 0 };
	struct str s;

	for (unsigned i = 0; i < l->n; i++) {
		const struct pol_rule *r = l->r[i];

		for (unsigned k = 0; (r->cond->parts & COND_QUERY) && k < r->cond->query.n; k++) {
			const struct pol_value *v = &r->cond->query.v[k];

			if (!(r->deny ? deny_key(v->key, key) : str_eq(v->key, key)))
				continue;
			buf_addf(&b, "%u %d %d", i, v->required, v->any);
			for (unsigned j = 0; j < v->patterns.n; j++)
				buf_addf(&b, " %zu:%.*s", v->patterns.s[j].n, (int)v->patterns.s[j].n, v->patterns.s[j].p);
			buf_addc(&b, '\n');
		}
	}
	s = arena_str(l->a, buf_str(&b));
	buf_fini(&b);
	return s;
}

/* Whether some rule wants a key to be there: then all that are taken like it are sent too. */
static bool is_wanted(const struct lists *l, struct str key)
{
	for (unsigned i = 0; i < l->n; i++) {
		const struct pol_rule *r = l->r[i];

		for (unsigned k = 0; (r->cond->parts & COND_QUERY) && k < r->cond->query.n; k++)
			if (r->deny ? deny_key(r->cond->query.v[k].key, key) : str_eq(r->cond->query.v[k].key, key) && r->cond->query.v[k].required)
				return true;
	}
	return false;
}

static void list_keys(struct lists *l, const struct str *keys, unsigned n)
{
	struct texts *vs = must_malloc(sizeof(*vs));
	struct patterns ps = { 0 };
	unsigned before = l->query.n;
	bool wanted = n > 1 && is_wanted(l, keys[0]);

	of_key(l, keys[0], &ps);
	values_apart(l, &ps, vs);
	for (unsigned b = 0; b < before; b++) {
		for (unsigned k = 0; k < vs->n; k++) {
			struct str one = param(l->a, l->query.s[b], keys[0], vs->t[k]), all = one;

			add_option(&l->query, one);
			for (unsigned j = 0; j < k && (ps.allows > 1 || ps.listed > 1); j++)
				add_option(&l->query, param(l->a, one, keys[0], vs->t[j]));
			for (unsigned i = 1; i < n && wanted; i++)
				all = param(l->a, all, keys[i], vs->t[k]);
			add_option(&l->query, all);
		}
	}
	free(ps.p);
	free(vs);
}

static void list_query(struct lists *l)
{
	struct options keys = { 0 };
	struct str *how, *alike;
	bool any = false;

	add_option(&l->query, STR_NONE);
	for (unsigned i = 0; i < l->n; i++) {
		any = any || (l->r[i]->cond->parts & COND_QUERY) || l->r[i]->cond->body == BODY_GRAPHQL;
		for (unsigned k = 0; (l->r[i]->cond->parts & COND_QUERY) && k < l->r[i]->cond->query.n; k++)
			add_option(&keys, l->r[i]->cond->query.v[k].key);
	}
	how = arena_alloc(l->a, (keys.n + 1ul) * sizeof(*how));
	alike = arena_alloc(l->a, (keys.n + 1ul) * sizeof(*alike));
	for (unsigned i = 0; i < keys.n; i++)
		how[i] = treatment(l, keys.s[i]);
	for (unsigned i = 0; i < keys.n; i++) {
		unsigned n = 0;

		for (unsigned k = i; k < keys.n; k++) {
			if (how[k].p == NULL || !str_eq(how[i], how[k]))
				continue;
			alike[n++] = keys.s[k];
			if (k > i)
				how[k] = STR_NONE;
		}
		if (how[i].p != NULL)
			list_keys(l, alike, n);
	}
	for (unsigned i = any ? l->query.n : 0; i-- > 0;) /* a key that none lists */
		add_option(&l->query, param(l->a, l->query.s[i], l->fresh, l->fresh));
	if (any) /* one that cannot be read */
		add_option(&l->query, STR("zz=zz;"));
	l->cut = l->cut || l->query.cut || keys.cut;
	free(keys.s);
}

/* --- fields -------------------------------------------------------------------------------------------------------- */

static void of_field(const struct lists *l, struct str name, struct patterns *ps, bool *split)
{
	bool denies = false, json = false;

	for (unsigned i = 0; i < l->n; i++) {
		const struct pol_rule *r = l->r[i];
		bool there = false;

		json = json || r->cond->body >= BODY_GRAPHQL;
		for (unsigned k = 0; (r->cond->parts & COND_HEADERS) && k < r->cond->headers.n; k++) {
			if (!str_alike(r->cond->headers.v[k].key, name))
				continue;
			add_patterns(ps, &r->cond->headers.v[k].patterns, r->deny);
			there = true;
		}
		ps->allows += !r->deny && there;
		denies = denies || (r->deny && there);
	}
	if (json && str_ieq(name, STR("content-type")))
		add_patterns(ps, &(struct pol_texts){ (struct str[]){ STR("application/json") }, 1 }, false);
	*split = denies && ps->allows > 0;
}

static void add_fields(struct lists *l, const struct fields *before, struct str name, struct str value, struct str second)
{
	struct fields *f;

	if (l->field_n == OPTIONS_MAX || before->n + 2 > 2 * FIELDS_MAX) {
		l->cut = true;
		return;
	}
	f = &l->fields[l->field_n++];
	*f = *before;
	f->name[f->n] = name;
	f->value[f->n++] = value;
	if (second.p != NULL) {
		f->name[f->n] = name;
		f->value[f->n++] = second;
	}
}

static struct str joined(struct arena *a, struct str x, struct str y)
{
	struct buf b = { 0 };
	struct str s;

	buf_addf(&b, "%.*s,%.*s", (int)x.n, x.n ? x.p : "", (int)y.n, y.n ? y.p : "");
	s = arena_str(a, buf_str(&b));
	buf_fini(&b);
	return s;
}

/* No blanks at the ends: none goes out like that. */
static bool field_value(struct str s) { return s.n == 0 || (s.p[0] != ' ' && s.p[0] != '\t' && s.p[s.n - 1] != ' ' && s.p[s.n - 1] != '\t'); }

static void list_fields(struct lists *l)
{
	struct options names = { 0 };
	struct texts *vs = must_malloc(sizeof(*vs));

	l->fields = must_calloc(OPTIONS_MAX, sizeof(*l->fields));
	l->field_n = 1; /* none */
	for (unsigned i = 0; i < l->n; i++)
		for (unsigned k = 0; (l->r[i]->cond->parts & COND_HEADERS) && k < l->r[i]->cond->headers.n; k++)
			add_option(&names, l->r[i]->cond->headers.v[k].key);
	l->cut = l->cut || names.n > FIELDS_MAX;
	for (unsigned i = 0; i < names.n && i < FIELDS_MAX; i++) {
		struct patterns ps = { 0 };
		unsigned before = l->field_n;
		bool split;

		of_field(l, names.s[i], &ps, &split);
		values_apart(l, &ps, vs);
		for (unsigned b = 0; b < before; b++) {
			for (unsigned k = 0; k < vs->n; k++) {
				if (!field_value(vs->t[k]))
					continue;
				add_fields(l, &l->fields[b], names.s[i], vs->t[k], STR_NONE);
				for (unsigned j = 0; j < vs->n && (split || ps.allows > 1); j++) {
					if (j == k || !field_value(vs->t[j]))
						continue;
					if (split)
						add_fields(l, &l->fields[b], names.s[i], joined(l->a, vs->t[k], vs->t[j]), STR_NONE);
					if (j < k)
						add_fields(l, &l->fields[b], names.s[i], vs->t[k], vs->t[j]);
				}
			}
		}
		free(ps.p);
	}
	free(names.s);
	free(vs);
}

/* --- content ------------------------------------------------------------------------------------------------------- */

static struct str taken(struct arena *a, struct buf *b)
{
	struct str s = arena_str(a, buf_str(b));

	buf_fini(b);
	return s;
}

/* An object that holds texts behind pointers. */
struct member {
	struct str pointer, value;
};

static struct str first_token(struct str p)
{
	size_t n = 1;

	while (n < p.n && p.p[n] != '/')
		n++;
	return str_mk(p.p, n);
}

/* The members below one prefix; the pointers are what is left behind it. A text where others have an object wins. */
static void put_members(struct buf *b, const struct member *m, unsigned n)
{
	bool first = true;

	buf_addc(b, '{');
	for (unsigned i = 0; i < n; i++) {
		struct str token = first_token(m[i].pointer);
		struct member *below = must_calloc(n, sizeof(*below));
		unsigned below_n = 0;
		bool seen = false, text = false;

		for (unsigned k = 0; k < i; k++)
			seen = seen || str_eq(first_token(m[k].pointer), token);
		for (unsigned k = i; k < n && !seen; k++) {
			if (!str_eq(first_token(m[k].pointer), token))
				continue;
			if (m[k].pointer.n == token.n) {
				text = true;
				below[0] = m[k];
				break;
			}
			below[below_n++] = (struct member){ str_mk(m[k].pointer.p + token.n, m[k].pointer.n - token.n), m[k].value };
		}
		if (!seen) {
			struct buf key = { 0 };

			for (size_t k = 1; k < token.n; k++)
				if (token.p[k] == '~' && k + 1 < token.n)
					buf_addc(&key, token.p[++k] == '0' ? '~' : '/');
				else
					buf_addc(&key, token.p[k]);
			if (!first)
				buf_addc(b, ',');
			first = false;
			jsonw_quote(b, buf_str(&key));
			buf_addc(b, ':');
			if (text)
				jsonw_quote(b, below[0].value);
			else
				put_members(b, below, below_n);
			buf_fini(&key);
		}
		free(below);
	}
	buf_addc(b, '}');
}

/* Objects with the values that rules of this kind of content tell apart. */
static void list_objects(struct lists *l, enum cond_body kind, struct options *out)
{
	struct options pointers = { 0 };
	struct texts *vs = must_malloc(sizeof(*vs));
	struct member(*sets)[COND_VALUES_MAX] = must_calloc(OPTIONS_MAX, sizeof(*sets));
	unsigned *lens = must_calloc(OPTIONS_MAX, sizeof(*lens)), n = 1;

	for (unsigned i = 0; i < l->n; i++)
		for (unsigned k = 0; l->r[i]->cond->body == kind && k < l->r[i]->cond->values.n; k++)
			add_option(&pointers, l->r[i]->cond->values.v[k].key);
	for (unsigned i = 0; i < pointers.n && i < COND_VALUES_MAX; i++) {
		struct patterns ps = { 0 };
		unsigned before = n;

		for (unsigned k = 0; k < l->n; k++)
			for (unsigned j = 0; l->r[k]->cond->body == kind && j < l->r[k]->cond->values.n; j++)
				if (str_eq(l->r[k]->cond->values.v[j].key, pointers.s[i]))
					add_patterns(&ps, &l->r[k]->cond->values.v[j].patterns, l->r[k]->deny);
		values_apart(l, &ps, vs);
		for (unsigned b = 0; b < before; b++) {
			for (unsigned k = 0; k < vs->n; k++) {
				if (n == OPTIONS_MAX) {
					l->cut = true;
					break;
				}
				memcpy(sets[n], sets[b], sizeof(sets[n]));
				sets[n][lens[b]] = (struct member){ pointers.s[i], vs->t[k] };
				lens[n++] = lens[b] + 1;
			}
		}
		free(ps.p);
	}
	for (unsigned i = 0; i < n; i++) {
		struct buf b = { 0 };

		put_members(&b, sets[i], lens[i]);
		add_option(out, taken(l->a, &b));
	}
	l->cut = l->cut || out->cut;
	free(pointers.s);
	free(sets);
	free(lens);
	free(vs);
}

static unsigned allows_of(const struct lists *l, enum cond_body kind)
{
	unsigned n = 0;

	for (unsigned i = 0; i < l->n; i++)
		n += !l->r[i]->deny && l->r[i]->cond->body == kind;
	return n;
}

static bool speaks(const struct lists *l, enum cond_body kind)
{
	for (unsigned i = 0; i < l->n; i++)
		if (l->r[i]->cond->body == kind)
			return true;
	return false;
}

/* One by one, and where several rules allow some of them, two together. */
static void add_operations(struct lists *l, const struct options *ops, bool pairs, const char *open, const char *between, const char *close)
{
	for (unsigned i = 0; i < ops->n; i++) {
		struct buf b = { 0 };

		add_option(&l->content, ops->s[i]);
		for (unsigned k = 0; k < i && pairs; k++) {
			buf_clear(&b);
			buf_addz(&b, open);
			buf_adds(&b, ops->s[k]);
			buf_addz(&b, between);
			buf_adds(&b, ops->s[i]);
			buf_addz(&b, close);
			add_option(&l->content, arena_str(l->a, buf_str(&b)));
		}
		buf_fini(&b);
	}
	l->cut = l->cut || ops->cut;
}

static struct str call(struct arena *a, struct str method, struct str params)
{
	struct buf b = { 0 };

	buf_addz(&b, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":");
	jsonw_quote(&b, method);
	if (params.n > 0)
		buf_addf(&b, ",\"params\":%.*s", (int)params.n, params.p);
	buf_addc(&b, '}');
	return taken(a, &b);
}

static void list_calls(struct lists *l)
{
	struct patterns methods = { 0 }, tools = { 0 };
	struct options ops = { 0 }, arguments = { 0 };
	struct texts *vs = must_malloc(sizeof(*vs));

	for (unsigned i = 0; i < l->n; i++) {
		const struct pol_cond *c = l->r[i]->cond;

		if (c->body != BODY_MCP && c->body != BODY_JSONRPC)
			continue;
		add_patterns(&methods, &c->methods, l->r[i]->deny);
		add_patterns(&tools, &c->tools, l->r[i]->deny);
	}
	values_apart(l, &methods, vs);
	for (unsigned i = 0; i < vs->n; i++)
		add_option(&ops, call(l->a, vs->t[i], STR_NONE));
	if (speaks(l, BODY_MCP)) {
		add_option(&ops, call(l->a, STR("ping"), STR_NONE)); /* what tools imply */
		list_objects(l, BODY_MCP, &arguments);
		values_apart(l, &tools, vs);
		for (unsigned i = 0; i < vs->n; i++) {
			for (unsigned k = 0; k < arguments.n; k++) {
				struct buf b = { 0 };
				struct str params;

				buf_addz(&b, "{\"name\":");
				jsonw_quote(&b, vs->t[i]);
				buf_addf(&b, ",\"arguments\":%.*s}", (int)arguments.s[k].n, arguments.s[k].p);
				params = taken(l->a, &b);
				add_option(&ops, call(l->a, STR("tools/call"), params));
			}
		}
	}
	add_operations(l, &ops, allows_of(l, BODY_MCP) + allows_of(l, BODY_JSONRPC) > 1, "[", ",", "]");
	free(methods.p);
	free(tools.p);
	free(ops.s);
	free(arguments.s);
	free(vs);
}

/* A name of GraphQL, 2.1.9. */
static bool graphql_name(struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		char c = ascii_lower(s.p[i]);

		if (!((c >= 'a' && c <= 'z') || c == '_' || (i > 0 && c >= '0' && c <= '9')))
			return false;
	}
	return s.n > 0;
}

static void list_documents(struct lists *l)
{
	static const char *const types[] = { "query", "mutation", "subscription" };
	struct patterns fields = { 0 }, names = { 0 };
	struct texts *fs = must_malloc(sizeof(*fs)), *ns = must_malloc(sizeof(*ns));
	bool pairs = allows_of(l, BODY_GRAPHQL) > 1;

	for (unsigned i = 0; i < l->n; i++) {
		const struct pol_cond *c = l->r[i]->cond;

		if (c->body != BODY_GRAPHQL)
			continue;
		add_patterns(&fields, &c->fields, l->r[i]->deny);
		add_patterns(&names, &c->names, l->r[i]->deny);
	}
	values_apart(l, &fields, fs);
	values_apart(l, &names, ns);
	if (names.n == 0)
		ns->n = 0;
	texts_add(ns, STR_NONE); /* without a name */
	for (unsigned t = 0; t < 3; t++) {
		for (unsigned i = 0; i < ns->n; i++) {
			for (unsigned k = 0; k < fs->n; k++) {
				for (unsigned j = 0; j <= (pairs ? k : 0); j++) {
					struct buf b = { 0 };

					if ((ns->t[i].n > 0 && !graphql_name(ns->t[i])) || !graphql_name(fs->t[k]) || !graphql_name(fs->t[j]))
						continue;
					buf_addf(&b, "{\"query\":\"%s%s%.*s { %.*s", types[t], ns->t[i].n ? " " : "", (int)ns->t[i].n, ns->t[i].n ? ns->t[i].p : "", (int)fs->t[k].n, fs->t[k].p);
					if (pairs && j < k)
						buf_addf(&b, " %.*s", (int)fs->t[j].n, fs->t[j].p);
					buf_addz(&b, " }\"}");
					add_option(&l->content, taken(l->a, &b));
				}
			}
		}
	}
	free(fields.p);
	free(names.p);
	free(fs);
	free(ns);
}

static void list_pushes(struct lists *l)
{
	static const char zeros[] = "0000000000000000000000000000000000000000", ones[] = "1111111111111111111111111111111111111111", twos[] = "2222222222222222222222222222222222222222";
	struct patterns refs = { 0 };
	struct options ops = { 0 };
	struct texts *vs = must_malloc(sizeof(*vs));

	for (unsigned i = 0; i < l->n; i++)
		if (l->r[i]->cond->body == BODY_GIT_PUSH)
			add_patterns(&refs, &l->r[i]->cond->refs, l->r[i]->deny);
	add_patterns(&refs, &(struct pol_texts){ (struct str[]){ STR("refs/"
								     "\1") },
						 1 },
		     false); /* others are none */
	values_apart(l, &refs, vs);
	for (unsigned i = 0; i < vs->n; i++) {
		for (unsigned deletes = 0; deletes < 2 && str_starts(vs->t[i], STR("refs/")) && memchr(vs->t[i].p, ' ', vs->t[i].n) == NULL; deletes++) {
			struct buf b = { 0 };

			buf_addf(&b, "%04x%s %s %.*s", (unsigned)(86 + vs->t[i].n), ones, deletes ? zeros : twos, (int)vs->t[i].n, vs->t[i].p);
			add_option(&ops, taken(l->a, &b));
		}
	}
	for (unsigned i = 0; i < ops.n; i++) {
		for (unsigned k = 0; k <= i; k++) {
			struct buf b = { 0 };

			if (k < i && allows_of(l, BODY_GIT_PUSH) > 1)
				buf_adds(&b, ops.s[k]);
			else if (k < i)
				continue;
			buf_adds(&b, ops.s[i]);
			buf_addz(&b, "0000");
			add_option(&l->content, taken(l->a, &b));
		}
	}
	add_option(&l->content, STR("0000")); /* without a command */
	free(refs.p);
	free(ops.s);
	free(vs);
}

static void list_content(struct lists *l)
{
	add_option(&l->content, STR_NONE);
	add_option(&l->content, l->fresh);
	if (speaks(l, BODY_JSON)) {
		struct options objects = { 0 };

		list_objects(l, BODY_JSON, &objects);
		add_operations(l, &objects, false, "", "", "");
		free(objects.s);
	}
	if (speaks(l, BODY_JSONRPC) || speaks(l, BODY_MCP))
		list_calls(l);
	if (speaks(l, BODY_GRAPHQL))
		list_documents(l);
	if (speaks(l, BODY_GIT_PUSH))
		list_pushes(l);
	l->cut = l->cut || l->content.cut;
}

/* --- time ---------------------------------------------------------------------------------------------------------- */

static void add_time(struct lists *l, uint64_t t)
{
	for (unsigned i = 0; i < l->time_n; i++)
		if (l->times[i] == t)
			return;
	if (l->time_n < sizeof(l->times) / sizeof(l->times[0]))
		l->times[l->time_n++] = t;
	else
		l->cut = true;
}

static void list_times(struct lists *l, uint64_t now)
{
	add_time(l, now);
	for (unsigned i = 0; i < l->n; i++) {
		const struct pol_cond *c = l->r[i]->cond;

		if (!(c->parts & COND_VALID))
			continue;
		if (c->from_s > 0) {
			add_time(l, c->from_s - 1);
			add_time(l, c->from_s);
		}
		if (c->until_s > 0) {
			add_time(l, c->until_s - 1);
			add_time(l, c->until_s);
		}
	}
}

/* --- all ----------------------------------------------------------------------------------------------------------- */

static bool field_at(const void *arg, unsigned i, struct str *name, struct str *value)
{
	const struct probe *p = arg;

	if (i >= p->field_n)
		return false;
	*name = p->names[i];
	*value = p->values[i];
	return true;
}

static void probe_set(struct probe *p, const struct lists *l, struct str query, const struct fields *f, struct str content)
{
	bool typed = false;

	p->f.has_query = query.p != NULL;
	p->f.query = query;
	p->f.has_content = content.n > 0;
	p->content = content;
	p->field_n = f->n;
	memcpy(p->names, f->name, f->n * sizeof(p->names[0]));
	memcpy(p->values, f->value, f->n * sizeof(p->values[0]));
	for (unsigned i = 0; i < f->n; i++)
		typed = typed || str_ieq(f->name[i], STR("content-type"));
	if (!typed && content.n > 0 && (content.p[0] == '{' || content.p[0] == '[') && l->n > 0) {
		p->names[p->field_n] = STR("content-type");
		p->values[p->field_n++] = STR("application/json");
	}
}

bool probe_each(const struct pol_rule *const *r, unsigned n, struct str fresh, uint64_t now, void (*each)(void *arg, struct probe *p), void *arg)
{
	struct arena a = { 0 };
	struct lists *l = must_calloc(1, sizeof(*l));
	struct probe *p = must_calloc(1, sizeof(*p));
	unsigned long count = 0;
	bool all;

	*l = (struct lists){ .a = &a, .fresh = fresh, .r = r, .n = n };
	list_query(l);
	list_fields(l);
	list_content(l);
	list_times(l, now);
	p->f.field = field_at;
	for (unsigned c = 0; c < l->content.n; c++)
		for (unsigned q = 0; q < l->query.n; q++)
			for (unsigned f = 0; f < l->field_n; f++)
				for (unsigned t = 0; t < l->time_n; t++, count++) {
					if (count >= PROBES_MAX) {
						l->cut = true;
						goto out;
					}
					probe_set(p, l, l->query.s[q], &l->fields[f], l->content.s[c]);
					p->f.now_s = l->times[t];
					each(arg, p);
				}
out:
	all = !l->cut;
	free(l->query.s);
	free(l->content.s);
	free(l->fields);
	free(l);
	free(p);
	arena_fini(&a);
	return all;
}
