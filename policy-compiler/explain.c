/* SPDX-License-Identifier: Apache-2.0 */
#include "explain.h"

#include "../common/base/jsonw.h"
#include "ask.h"
#include "load.h"

#define NEAR_MAX 20

struct near {
	const struct pol_rule *rule;
	const char *why;
};
struct story {
	struct policy *p;
	struct asked q;
	struct decision d;
	const struct pol_dest *dest;  /* that decides, or NULL */
	const struct pol_dest *other; /* same host, another port or scheme */
	struct near near[NEAR_MAX];
	unsigned near_n;
};

/* --- the request --------------------------------------------------------------------------------------------------- */

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

/* --- why not ------------------------------------------------------------------------------------------------------- */

static const char *cond_text(unsigned failed)
{
	if (failed & COND_VALID)
		return "its window of time (`valid`) is not open";
	if (failed & COND_QUERY)
		return "its query does not match";
	if (failed & COND_HEADERS)
		return "its headers do not match";
	if (failed & COND_USES)
		return "it is used up (`uses`)";
	return failed & COND_REGEX ? "its regular expression does not match" : "its condition on content does not hold";
}

static void near_rules(struct story *s, const struct pol_dest *d)
{
	for (unsigned i = 0; i < d->rule_n && s->near_n < NEAR_MAX; i++) {
		const struct pol_rule *r = &d->rules[i];
		bool method = ref_method(r, s->q.f.method), path = ref_path(r, s->q.f.path);
		const char *why;
		unsigned failed = 0;

		if (r->deny || (!method && !path))
			continue;
		if (method && path)
			ref_cond(r, &s->q.f, &failed);
		if (d != s->dest) {
			if (method && path && failed == 0)
				s->near[s->near_n++] = (struct near){ r, "it would allow this, but its destination is not the one that decides" };
			continue;
		}
		if (method && path && failed != 0)
			why = cond_text(failed);
		else if (method && path)
			why = s->d.why == DECIDE_DENY_RULE ? "it would allow this, but the deny rule wins" : s->d.why == DECIDE_LOOK ? "it depends on the content"
												     : r->any			     ? "through ANY a request carries no content"
																     : "a GET or HEAD carries no content";
		else
			why = path ? "its methods do not include" : "its path does not match";
		s->near[s->near_n++] = (struct near){ r, why };
	}
}

static void find_near(struct story *s)
{
	if (s->d.verdict == VERDICT_ALLOW || s->d.by_boundary)
		return;
	for (unsigned i = 0; s->dest == NULL && i < s->p->dest_n && s->other == NULL; i++)
		if (ref_host(str_mk(s->p->dests[i].host.text, s->p->dests[i].host.len), s->q.f.host))
			s->other = &s->p->dests[i];
	for (unsigned i = 0; i < s->q.all_n; i++)
		near_rules(s, s->q.all[i]);
}

static const char *why_text(const struct story *s)
{
	return s->q.malformed == NULL && s->d.why == DECIDE_LOOK ? "it depends on the content (--data FILE)" : ask_why(&s->q, &s->d);
}

/* --- printing ------------------------------------------------------------------------------------------------------ */

#define S(s) (int)(s).n, ((s).n ? (s).p : "")

/* Where it goes, for people. */
static void print_inject(const struct pol_inject *in, FILE *f)
{
	static const char *const places[] = { "header", "basic", "query", "path", "json", "form", "text", "websocket" };
	const char *sep = "";

	fprintf(f, "  inject: %.*s as %s (", S(in->secret->name), load_inject_kind(in->kind));
	for (unsigned i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		if (in->places & 1u << i) {
			fprintf(f, "%s%s", sep, places[i]);
			sep = ", ";
		}
	}
	if (in->kind == INJECT_QUERY)
		fprintf(f, "?%.*s", S(in->name));
	else if (in->kind == INJECT_CLIENT_CERTIFICATE)
		fputs("TLS", f);
	else if (in->kind != INJECT_PLACEHOLDER)
		fprintf(f, "%.*s", S(in->kind == INJECT_HEADER || in->kind == INJECT_HMAC ? in->name : STR("Authorization")));
	fputs(")\n", f);
}

static void print_text(const struct story *s, FILE *f)
{
	bool allow = s->q.malformed == NULL && s->d.verdict == VERDICT_ALLOW;

	fprintf(f, "%s: %s%s\n", allow ? "allow" : "deny", s->d.by_boundary ? "the boundary: " : "", why_text(s));
	if (s->q.malformed != NULL) {
		fprintf(f, "  check: %s\n", s->q.malformed);
		return;
	}
	if (s->d.rule.n)
		fprintf(f, "  rule: %.*s (%.*s)\n", S(s->d.rule), S(s->d.source));
	if (s->dest != NULL)
		fprintf(f, "  destination: %.*s (%.*s)\n", S(s->dest->id), S(s->dest->source));
	if (s->other != NULL)
		fprintf(f, "  near: %.*s (%.*s): this host, but %s on port %u\n", S(s->other->id), S(s->other->source), scheme_name(s->other->scheme), s->other->port);
	for (unsigned i = 0; i < s->near_n; i++) {
		const struct near *n = &s->near[i];

		fprintf(f, "  near: %.*s (%.*s): %s", S(n->rule->id), S(n->rule->source), n->why);
		if (!ref_method(n->rule, s->q.f.method))
			fprintf(f, " %.*s", S(s->q.f.method));
		fputc('\n', f);
	}
	if (s->d.allowed_n > 0) {
		fprintf(f, "  would pass here:");
		for (unsigned i = 0; i < s->d.allowed_n; i++)
			fprintf(f, " %.*s", S(s->d.allowed[i]));
		fputc('\n', f);
	}
	for (unsigned i = 0; allow && i < s->dest->inject_n; i++) {
		if (load_inject_when(&s->dest->injects[i], s->d.rule))
			print_inject(&s->dest->injects[i], f);
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
	char why[300];

	jsonw_kopen(w, "near", '[');
	for (unsigned i = 0; i < s->near_n; i++) {
		jsonw_open(w, '{');
		jsonw_kstr(w, "rule", s->near[i].rule->id);
		jsonw_kstr(w, "source", s->near[i].rule->source);
		snprintf(why, sizeof(why), "%s", s->near[i].why);
		if (!ref_method(s->near[i].rule, s->q.f.method))
			snprintf(why, sizeof(why), "%s %.*s", s->near[i].why, S(s->q.f.method));
		jsonw_kz(w, "why", why);
		jsonw_close(w, '}');
	}
	jsonw_close(w, ']');
}

static void print_json(const struct story *s, FILE *f)
{
	bool allow = s->q.malformed == NULL && s->d.verdict == VERDICT_ALLOW;
	struct buf b = { 0 };
	struct jsonw w = jsonw_on(&b);

	jsonw_open(&w, '{');
	jsonw_kz(&w, "verdict", allow ? "allow" : "deny");
	jsonw_kz(&w, "why", why_text(s));
	if (s->d.by_boundary) {
		jsonw_key(&w, "boundary");
		jsonw_bool(&w, true);
	}
	if (s->q.malformed != NULL)
		jsonw_kz(&w, "malformed", s->q.malformed);
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
		if (load_inject_when(&s->dest->injects[i], s->d.rule))
			jsonw_str(&w, s->dest->injects[i].secret->name);
	jsonw_close(&w, ']');
	jsonw_close(&w, '}');
	buf_addc(&b, '\n');
	fwrite(buf_data(&b), 1, buf_len(&b), f);
	buf_fini(&b);
}

int explain(struct policy *p, const struct boundary *b, const struct explain_request *r, bool json, FILE *out, struct err *err)
{
	struct story s = { .p = p };
	struct asker k;
	int ret = 3;

	s.q.f = (struct facts){ .method = str_of(r->method), .has_content = r->content, .content = r->held, .now_s = r->now_s, .field = header_at, .field_arg = r };
	if (asker_init(&k, p, err) < 0)
		return 3;
	if (b != NULL && asker_within(&k, b, err) < 0)
		goto out;
	if (ask_url(&k, &p->mem, str_of(r->url), &s.q, err) < 0) {
		ret = 2;
		goto out;
	}
	s.dest = s.q.all_n > 0 ? s.q.all[0] : NULL;
	if (s.q.malformed == NULL) {
		if (ask_decide(&k, &s.q, &s.d, err) < 0)
			goto out;
		find_near(&s);
	}
	if (json)
		print_json(&s, out);
	else
		print_text(&s, out);
	ret = s.q.malformed == NULL && s.d.verdict == VERDICT_ALLOW ? 0 : 1;
out:
	asker_fini(&k);
	return ret;
}
