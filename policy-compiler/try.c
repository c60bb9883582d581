/* SPDX-License-Identifier: Apache-2.0 */
#include "try.h"

#include <stdlib.h>
#include <time.h>

#include "../common/base/must.h"
#include "ask.h"
#include "load.h"
#include "revision.h"

#define S(s) (int)(s).n, ((s).n ? (s).p : "")

struct outcome {
	bool ok;
	struct asked q;
	struct decision d;
	char wrong[300]; /* of injections */
};

static bool header_at(const void *arg, unsigned i, struct str *name, struct str *value)
{
	const struct pol_test *t = arg;

	if (i >= t->header_n)
		return false;
	*name = t->header_names[i];
	*value = t->header_values[i];
	return true;
}

static bool injects(const struct pol_dest *d, struct str rule, const struct pol_secret *s)
{
	for (unsigned i = 0; i < d->inject_n; i++)
		if (d->injects[i].secret == s && load_inject_when(&d->injects[i], rule))
			return true;
	return false;
}

static bool injections_right(const struct pol_test *t, const struct pol_dest *d, struct str rule, char wrong[300])
{
	for (unsigned i = 0; i < t->inject_n; i++) {
		if (!injects(d, rule, t->inject[i])) {
			snprintf(wrong, 300, "`%.*s` is not injected", DIAG_STR(t->inject[i]->name));
			return false;
		}
	}
	for (unsigned i = 0; i < d->inject_n; i++) {
		bool named = !load_inject_when(&d->injects[i], rule);

		for (unsigned k = 0; k < t->inject_n; k++)
			named = named || t->inject[k] == d->injects[i].secret;
		if (!named) {
			snprintf(wrong, 300, "`%.*s` is injected too", DIAG_STR(d->injects[i].secret->name));
			return false;
		}
	}
	return true;
}

static int run(struct asker *k, struct arena *a, const struct pol_test *t, struct outcome *o, struct err *err)
{
	bool allowed;

	*o = (struct outcome){ .q.f = { .method = t->method, .has_content = t->has_content, .content = &t->content, .now_s = t->at_s ? t->at_s : (uint64_t)time(NULL), .field = header_at, .field_arg = t } };
	if (ask_url(k, a, t->url, &o->q, err) < 0)
		return -1;
	if (o->q.malformed == NULL && ask_decide(k, &o->q, &o->d, err) < 0)
		return -1;
	allowed = o->q.malformed == NULL && o->d.verdict == VERDICT_ALLOW;
	o->ok = allowed == t->allow && (!t->inject_said || injections_right(t, o->q.all[0], o->d.rule, o->wrong));
	return 0;
}

/* --- the forms ----------------------------------------------------------------------------------------------------- */

static void put_text(FILE *out, struct str s, bool xml)
{
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];

		if (c < 0x20 || c == 0x7f)
			fputc('?', out);
		else if (xml && strchr("<>&\"'", c) != NULL)
			fprintf(out, "&#%u;", c);
		else if (!xml && c == '#')
			fputs("\\#", out);
		else
			fputc(c, out);
	}
}

static void put_name(FILE *out, const struct pol_test *t, bool xml)
{
	fprintf(out, "%s %.*s ", t->allow ? "allow" : "deny", S(t->method));
	put_text(out, t->url, xml);
}

static void put_reason(FILE *out, const struct outcome *o)
{
	if (o->wrong[0] != 0)
		fprintf(out, "it is allowed, but %s", o->wrong);
	else
		fprintf(out, "got %s: %s", o->q.malformed == NULL && o->d.verdict == VERDICT_ALLOW ? "allow" : "deny", ask_why(&o->q, &o->d));
}

static void tap(FILE *out, const char *file, unsigned number, const struct pol_test *t, const struct outcome *o)
{
	fprintf(out, "%s %u - ", o->ok ? "ok" : "not ok", number);
	put_name(out, t, false);
	fputc('\n', out);
	if (o->ok)
		return;
	fprintf(out, "  ---\n  at: %s:%u\n  message: ", file, t->at.line);
	put_reason(out, o);
	fputc('\n', out);
	if (o->d.rule.n) {
		fprintf(out, "  rule: '");
		put_text(out, o->d.rule, false);
		fprintf(out, "'\n  source: %.*s\n", S(o->d.source));
	}
	fprintf(out, "  ...\n");
}

static void junit(FILE *out, const char *file, const struct pol_test *t, const struct outcome *o)
{
	fprintf(out, "  <testcase classname=\"");
	put_text(out, str_of(file), true);
	fprintf(out, "\" name=\"");
	put_name(out, t, true);
	if (o->ok) {
		fprintf(out, "\"/>\n");
		return;
	}
	fprintf(out, "\" line=\"%u\">\n    <failure message=\"", t->at.line);
	put_reason(out, o);
	fprintf(out, "\">");
	put_text(out, o->d.rule, true);
	fprintf(out, "</failure>\n  </testcase>\n");
}

static void failure(FILE *out, const char *file, const struct pol_test *t, const struct outcome *o)
{
	if (o->ok)
		return;
	fprintf(out, "%s:%u:%u: error: the test `", file, t->at.line, t->at.col);
	put_name(out, t, false);
	fprintf(out, "` fails: ");
	put_reason(out, o);
	if (o->d.rule.n)
		fprintf(out, " (%.*s)", S(o->d.source));
	fputc('\n', out);
}

/* One file's own policy and tests. */
struct suite {
	struct policy p; /* of a file that is extended, by itself */
	const struct policy *of;
	const char *file, *why; /* why its tests are not run, or NULL */
	char said[200];
};

static void first_line(struct suite *s, const struct diag *d)
{
	struct str text = buf_str(&d->out);
	size_t n = 0;

	while (n < text.n && text.p[n] != '\n')
		n++;
	snprintf(s->said, sizeof(s->said), "by itself it is no policy: %.*s", (int)n, n ? text.p : "");
	s->why = s->said;
}

/* By itself: its tests are about what it says, and the files that build on it may say more. */
static void read_alone(struct suite *s, const char *name, bool revision)
{
	struct diag d = { .file = name };
	struct buf text = { 0 };

	s->file = name;
	s->of = &s->p;
	if (str_starts(str_of(name), STR("std/"))) {
		if (!load_library(name + 4, &text))
			s->why = "it cannot be read any more";
		else if (policy_read(&s->p, buf_str(&text), NULL, NULL, &d) < 0)
			first_line(s, &d);
	} else if (revision) {
		s->why = "it is not read again from another revision";
	} else if (policy_load(&s->p, name, &d) < 0) {
		first_line(s, &d);
	}
	diag_fini(&d);
	buf_fini(&text);
}

static void not_run(FILE *out, enum try_form form, const struct suite *s)
{
	if (form == TRY_TAP)
		fprintf(out, "# %s: its tests are not run: %s\n", s->file, s->why);
	else if (form == TRY_FAILURES)
		fprintf(out, "%s: warning: its tests are not run: %s\n", s->file, s->why);
}

static int run_suite(const struct suite *s, enum try_form form, FILE *out, unsigned *number, struct err *err)
{
	struct arena a = { 0 };
	struct asker k;
	int failed = 0;

	if (asker_init(&k, s->of, err) < 0)
		return -1;
	for (unsigned i = 0; i < s->of->test_n; i++) {
		const struct pol_test *t = &s->of->tests[i];
		struct outcome o;

		if (run(&k, &a, t, &o, err) < 0) {
			failed = -1;
			break;
		}
		failed += !o.ok;
		++*number;
		if (form == TRY_TAP)
			tap(out, s->file, *number, t, &o);
		else if (form == TRY_JUNIT)
			junit(out, s->file, t, &o);
		else
			failure(out, s->file, t, &o);
		arena_reset(&a);
	}
	asker_fini(&k);
	arena_fini(&a);
	return failed;
}

int try_policy(const struct policy *p, const char *file, enum try_form form, FILE *out, struct err *err)
{
	struct suite *all = must_calloc(p->file_n + 1ul, sizeof(*all));
	unsigned n = 1, total = p->test_n, number = 0;
	char *xml = NULL;
	size_t xml_n = 0;
	FILE *cases = form == TRY_JUNIT ? open_memstream(&xml, &xml_n) : out;
	int failed = 0;

	MUST(cases != NULL);
	all[0] = (struct suite){ .of = p, .file = file };
	for (unsigned i = 1; i < p->file_n; i++) {
		if (!p->files[i].has_tests)
			continue;
		read_alone(&all[n], p->files[i].name, revision_is(file));
		total += all[n].why == NULL ? all[n].p.test_n : 0;
		n++;
	}
	if (form == TRY_TAP)
		fprintf(out, "TAP version 13\n1..%u\n", total);
	for (unsigned i = 0; i < n && failed >= 0; i++) {
		int k;

		if (all[i].why != NULL) {
			not_run(out, form, &all[i]);
			continue;
		}
		k = all[i].of->test_n > 0 ? run_suite(&all[i], form, cases, &number, err) : 0;
		failed = k < 0 ? -1 : failed + k;
	}
	if (form == TRY_JUNIT) {
		fclose(cases);
		fprintf(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"");
		put_text(out, p->name, true);
		fprintf(out, "\" tests=\"%u\" failures=\"%d\">\n%s</testsuite>\n", total, failed, xml);
		free(xml);
	}
	for (unsigned i = 1; i < n; i++)
		policy_free(&all[i].p);
	free(all);
	return failed;
}
