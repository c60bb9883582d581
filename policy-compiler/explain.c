/* SPDX-License-Identifier: Apache-2.0 */
#include "explain.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../common/base/jsonw.h"
#include "../common/base/must.h"

#define NEAR_MAX 20

struct near {
	const struct pol_rule *rule;
	const char *why;
};
struct story {
	struct policy *p;
	struct facts f;
	struct canon_host host;
	const char *malformed;        /* reason: the gateway would answer 400 */
	struct decision d;
	const struct pol_dest **all;  /* the destinations that match, the most specific first */
	unsigned all_n;
	const struct pol_dest *dest;  /* that decides, or NULL */
	const struct pol_dest *other; /* same host, another port or scheme */
	struct near near[NEAR_MAX];
	unsigned near_n;
};

/* --- the request --------------------------------------------------------------------------------------------------- */

/* scheme://authority[path][?query]; what the gateway would refuse as malformed is a result, not an error. */
static int read_url(struct story *s, const char *url, struct err *err)
{
	struct arena *a = &s->p->mem;
	struct str u = str_of(url), authority, path, wire;
	struct canon_path_opts opts = { 0 };
	const char *q;
	size_t i = 0;

	if (str_starts(u, STR("https://"))) {
		s->f.scheme = SCHEME_HTTPS;
		u = str_mk(u.p + 8, u.n - 8);
	} else if (str_starts(u, STR("http://"))) {
		s->f.scheme = SCHEME_HTTP;
		u = str_mk(u.p + 7, u.n - 7);
	} else {
		return err_set(err, EINVAL, "`%s` is not an http or https URL", url);
	}
	while (i < u.n && u.p[i] != '/' && u.p[i] != '?')
		i++;
	authority = str_mk(u.p, i);
	path = str_mk(u.p + i, u.n - i);
	if (!canon_authority(authority, s->f.scheme == SCHEME_HTTPS ? 443 : 80, &s->host, &s->f.port, &s->malformed))
		return 0;
	s->malformed = NULL;
	s->f.host = str_mk(s->host.text, s->host.len);
	q = path.n ? memchr(path.p, '?', path.n) : NULL;
	if (q != NULL) {
		s->f.has_query = true;
		s->f.query = str_mk(q + 1, path.n - (size_t)(q - path.p) - 1);
		path.n = (size_t)(q - path.p);
	}
	s->all = arena_alloc(a, (s->p->dest_n + 1ul) * sizeof(const struct pol_dest *));
	s->all_n = ref_dests(s->p, s->f.scheme, s->f.host, s->f.port, s->all);
	if (s->all_n > 0) {
		s->dest = s->all[0];
		opts = s->dest->paths;
	}
	if (path.n == 0)
		path = STR("/");
	if (str_eq(path, STR("/*")) && str_eq(s->f.method, STR("OPTIONS"))) { /* there is no other way to write OPTIONS * as a URL */
		s->f.path = STR("*");
		return 0;
	}
	if (canon_path(a, path, &opts, &wire, &s->f.path, &s->malformed) && (!s->f.has_query || canon_query(s->f.query, opts.raw, &s->malformed)))
		s->malformed = NULL;
	return 0;
}

/* The i-th of a request's headers. */
static bool header_at(const void *arg, unsigned i, struct str *name, struct str *value)
{
	const struct explain_request *r = arg;
	const char *colon;

	if (i >= r->header_n)
		return false;
	colon = strchr(r->headers[i], ':');
	*name = str_mk(r->headers[i], colon ? (size_t)(colon - r->headers[i]) : 0);
	*value = str_of(colon ? colon + 1 + strspn(colon + 1, " \t") : "");
	return true;
}

/* --- both evaluators ----------------------------------------------------------------------------------------------- */

static int by_table(struct story *s, struct err *err)
{
	struct arena *a = &s->p->mem;
	struct table *t;
	struct dest d;
	int fd = -1, found;

	if (policy_image(s->p, &fd, err) < 0)
		return -1;
	if (table_open(&t, fd, err) < 0) {
		close(fd);
		return -1;
	}
	found = table_find(t, s->f.scheme, s->f.host, s->f.port, &d);
	decide(t, found == 1 ? &d : NULL, &s->f, &s->d);
	/* what it says borrows from the table */
	s->d.rule = arena_str(a, s->d.rule);
	s->d.source = arena_str(a, s->d.source);
	for (unsigned i = 0; i < s->d.allowed_n; i++)
		s->d.allowed[i] = arena_str(a, s->d.allowed[i]);
	table_free(t);
	close(fd);
	return found < 0 ? err_set(err, EBADMSG, "the table cannot be read") : 0;
}

static int both(struct story *s, struct err *err)
{
	struct decision ref;

	if (by_table(s, err) < 0)
		return -1;
	ref_eval(s->p, &s->f, &ref);
	if (s->d.verdict != ref.verdict || s->d.why != ref.why || s->d.need != ref.need || !str_eq(s->d.rule, ref.rule) || !str_eq(s->d.source, ref.source))
		return err_set(err, EPROTO, "the table and the reference evaluator differ on this request (a fault of sallyport's own; the table says %s)", s->d.verdict == VERDICT_ALLOW ? "allow" : "deny");
	return 0;
}

/* --- why not ------------------------------------------------------------------------------------------------------- */

static const char *cond_text(unsigned failed)
{
	if (failed & COND_VALID)
		return "its window of time (`valid`) is not open";
	if (failed & COND_QUERY)
		return "its query does not match";
	if (failed & COND_HEADERS)
		return "its headers do not match";
	return failed & COND_REGEX ? "its regular expression does not match" : "its condition on content does not hold";
}

static void near_rules(struct story *s, const struct pol_dest *d)
{
	for (unsigned i = 0; i < d->rule_n && s->near_n < NEAR_MAX; i++) {
		const struct pol_rule *r = &d->rules[i];
		bool method = ref_method(r, s->f.method), path = ref_path(r, s->f.path);
		const char *why;
		unsigned failed = 0;

		if (r->deny || (!method && !path))
			continue;
		if (method && path)
			ref_cond(r, &s->f, &failed);
		if (d != s->dest) {
			if (method && path && failed == 0)
				s->near[s->near_n++] = (struct near){ r, "it would allow this, but its destination is not the one that decides" };
			continue;
		}
		if (method && path && failed != 0)
			why = cond_text(failed);
		else if (method && path)
			why = s->d.why == DECIDE_DENY_RULE ? "it would allow this, but the deny rule wins" : s->d.why == DECIDE_LOOK ? "it depends on the content" : r->any ? "through ANY a request carries no content" : "a GET or HEAD carries no content";
		else
			why = path ? "its methods do not include" : "its path does not match";
		s->near[s->near_n++] = (struct near){ r, why };
	}
}

static void find_near(struct story *s)
{
	if (s->d.verdict == VERDICT_ALLOW)
		return;
	for (unsigned i = 0; s->dest == NULL && i < s->p->dest_n && s->other == NULL; i++)
		if (ref_host(str_mk(s->p->dests[i].host.text, s->p->dests[i].host.len), s->f.host))
			s->other = &s->p->dests[i];
	for (unsigned i = 0; i < s->all_n; i++)
		near_rules(s, s->all[i]);
}

static const char *why_text(const struct story *s)
{
	if (s->malformed != NULL)
		return "the request would be refused as malformed";
	switch (s->d.why) {
	case DECIDE_NO_DESTINATION:
		return "no destination has this host, port and scheme";
	case DECIDE_NO_RULE:
		return "no allow rule matches";
	case DECIDE_DENY_RULE:
		return "a deny rule matches";
	case DECIDE_CONTENT:
		return "the rule does not let the request carry content";
	case DECIDE_LOOK:
		return "it depends on the content (--data FILE)";
	case DECIDE_ALLOWED:
		return "an allow rule matches";
	default:
		return "the table is damaged";
	}
}

/* --- printing ------------------------------------------------------------------------------------------------------ */

#define S(s) (int)(s).n, ((s).n ? (s).p : "")

static const char *kind_name(enum inject_kind k) { return k == INJECT_BEARER ? "bearer" : k == INJECT_BASIC ? "basic" : "header"; }

static void print_text(const struct story *s, FILE *f)
{
	bool allow = s->malformed == NULL && s->d.verdict == VERDICT_ALLOW;

	fprintf(f, "%s: %s\n", allow ? "allow" : "deny", why_text(s));
	if (s->malformed != NULL) {
		fprintf(f, "  check: %s\n", s->malformed);
		return;
	}
	if (s->d.rule.n)
		fprintf(f, "  rule: %.*s (%.*s)\n", S(s->d.rule), S(s->d.source));
	if (s->dest != NULL)
		fprintf(f, "  destination: %.*s (%.*s)\n", S(s->dest->id), S(s->dest->source));
	if (s->other != NULL)
		fprintf(f, "  near: %.*s (%.*s): this host, but %s on port %u\n", S(s->other->id), S(s->other->source), s->other->scheme == SCHEME_HTTPS ? "https" : "http", s->other->port);
	for (unsigned i = 0; i < s->near_n; i++) {
		const struct near *n = &s->near[i];

		fprintf(f, "  near: %.*s (%.*s): %s", S(n->rule->id), S(n->rule->source), n->why);
		if (!ref_method(n->rule, s->f.method))
			fprintf(f, " %.*s", S(s->f.method));
		fputc('\n', f);
	}
	if (s->d.allowed_n > 0) {
		fprintf(f, "  would pass here:");
		for (unsigned i = 0; i < s->d.allowed_n; i++)
			fprintf(f, " %.*s", S(s->d.allowed[i]));
		fputc('\n', f);
	}
	for (unsigned i = 0; allow && i < s->dest->inject_n; i++) {
		const struct pol_inject *in = &s->dest->injects[i];

		fprintf(f, "  inject: %.*s as %s (%.*s)\n", S(in->secret->name), kind_name(in->kind), S(in->kind == INJECT_HEADER ? in->name : STR("Authorization")));
	}
}

static void json_text(struct jsonw *w, const char *key, struct str s)
{
	if (s.n > 0) {
		jsonw_kstr(w, key, s);
	} else {
		jsonw_key(w, key);
		jsonw_null(w);
	}
}

static void json_near(struct jsonw *w, const struct story *s)
{
	jsonw_kopen(w, "near", '[');
	for (unsigned i = 0; i < s->near_n; i++) {
		jsonw_open(w, '{');
		jsonw_kstr(w, "rule", s->near[i].rule->id);
		jsonw_kstr(w, "source", s->near[i].rule->source);
		jsonw_kz(w, "why", s->near[i].why);
		jsonw_close(w, '}');
	}
	jsonw_close(w, ']');
}

static void print_json(const struct story *s, FILE *f)
{
	bool allow = s->malformed == NULL && s->d.verdict == VERDICT_ALLOW;
	struct buf b = { 0 };
	struct jsonw w = jsonw_on(&b);

	jsonw_open(&w, '{');
	jsonw_kz(&w, "verdict", allow ? "allow" : "deny");
	jsonw_kz(&w, "why", why_text(s));
	if (s->malformed != NULL)
		jsonw_kz(&w, "malformed", s->malformed);
	json_text(&w, "rule", s->d.rule);
	json_text(&w, "source", s->d.source);
	json_text(&w, "destination", s->dest ? s->dest->id : STR_NONE);
	jsonw_kopen(&w, "allowed", '[');
	for (unsigned i = 0; i < s->d.allowed_n; i++)
		jsonw_str(&w, s->d.allowed[i]);
	jsonw_close(&w, ']');
	json_near(&w, s);
	jsonw_kopen(&w, "inject", '[');
	for (unsigned i = 0; allow && i < s->dest->inject_n; i++)
		jsonw_str(&w, s->dest->injects[i].secret->name);
	jsonw_close(&w, ']');
	jsonw_close(&w, '}');
	buf_addc(&b, '\n');
	fwrite(buf_data(&b), 1, buf_len(&b), f);
	buf_fini(&b);
}

static bool method_ok(const char *m)
{
	size_t n = strspn(m, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~"); /* RFC 9110 5.6.2 */

	return n > 0 && m[n] == 0;
}

int explain(struct policy *p, const struct explain_request *r, bool json, FILE *out, struct err *err)
{
	struct story s = { .p = p };

	if (!method_ok(r->method)) {
		err_set(err, EINVAL, "`%s` is not a method", r->method);
		return 2;
	}
	s.f.method = str_of(r->method);
	s.f.has_content = r->content;
	s.f.content = r->held;
	s.f.now_s = r->now_s;
	s.f.field = header_at;
	s.f.field_arg = r;
	if (read_url(&s, r->url, err) < 0)
		return 2;
	if (s.malformed == NULL) {
		if (both(&s, err) < 0)
			return 3;
		find_near(&s);
	}
	if (json)
		print_json(&s, out);
	else
		print_text(&s, out);
	return s.malformed == NULL && s.d.verdict == VERDICT_ALLOW ? 0 : 1;
}
