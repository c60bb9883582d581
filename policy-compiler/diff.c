/* SPDX-License-Identifier: Apache-2.0 */
#include "diff.h"

#include <stdlib.h>

#include "../common/base/jsonw.h"
#include "../common/base/must.h"

struct diff_change *diff_add(struct diff_changes *cs)
{
	if (cs->n == cs->cap) {
		cs->cap = cs->cap ? cs->cap * 2 : 64;
		cs->c = must_realloc(cs->c, cs->cap * sizeof(*cs->c));
	}
	cs->c[cs->n] = (struct diff_change){ 0 };
	return &cs->c[cs->n++];
}

#define S(s) (int)(s).n, ((s).n ? (s).p : "")

static const char *sign(const struct diff_change *c)
{
	return c->wider && c->narrower ? "~" : c->wider ? "+"
							: "-";
}

static void print_text(const struct diff_changes *cs, FILE *out)
{
	for (size_t i = 0; i < cs->n; i++) {
		const struct diff_change *c = &cs->c[i];

		if (c->text.n > 0)
			fprintf(out, "%s %.*s\n", sign(c), S(c->text));
		else
			fprintf(out, "%s %s %.*s\n    was: %.*s\n    is:  %.*s\n", sign(c), c->wider ? "allow" : "deny", S(c->request), S(c->was), S(c->is));
	}
}

static void put_cell(FILE *out, struct str s)
{
	fputc('`', out);
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] == '|')
			fputs("\\|", out);
		else
			fputc(s.p[i] == '`' ? '\'' : s.p[i], out);
	}
	fputc('`', out);
}

static void print_markdown(const struct diff_changes *cs, FILE *out)
{
	if (cs->n > 0)
		fputs("| | change | was | is |\n|---|---|---|---|\n", out);
	for (size_t i = 0; i < cs->n; i++) {
		const struct diff_change *c = &cs->c[i];

		fprintf(out, "| %s | ", c->wider && c->narrower ? "changed" : c->wider ? "**wider**"
										       : "narrower");
		put_cell(out, c->text.n > 0 ? c->text : c->request);
		if (c->text.n > 0) {
			fputs(" | | |\n", out);
			continue;
		}
		fputs(" | ", out);
		put_cell(out, c->was);
		fputs(" | ", out);
		put_cell(out, c->is);
		fputs(" |\n", out);
	}
}

static void print_json(const struct diff_changes *cs, const struct diff_result *r, FILE *out)
{
	struct buf b = { 0 };
	struct jsonw w = jsonw_on(&b);

	jsonw_open(&w, '{');
	jsonw_ku64(&w, "widened", r->widened);
	jsonw_ku64(&w, "narrowed", r->narrowed);
	jsonw_key(&w, "complete");
	jsonw_bool(&w, !r->cut);
	jsonw_kopen(&w, "changes", '[');
	for (size_t i = 0; i < cs->n; i++) {
		const struct diff_change *c = &cs->c[i];

		jsonw_open(&w, '{');
		jsonw_kz(&w, "effect", c->wider && c->narrower ? "changed" : c->wider ? "wider"
										      : "narrower");
		if (c->text.n > 0) {
			jsonw_kstr(&w, "authority", c->text);
		} else {
			jsonw_kstr(&w, "request", c->request);
			jsonw_kstr(&w, "was", c->was);
			jsonw_kstr(&w, "is", c->is);
		}
		jsonw_close(&w, '}');
	}
	jsonw_close(&w, ']');
	jsonw_close(&w, '}');
	buf_addc(&b, '\n');
	fwrite(buf_data(&b), 1, buf_len(&b), out);
	buf_fini(&b);
}

int diff_policies(struct policy *old, struct policy *new, enum diff_form form, FILE *out, struct diff_result *r, struct err *err)
{
	struct diff_changes cs = { 0 };
	int ret = -1;

	*r = (struct diff_result){ 0 };
	if (diff_requests(old, new, &cs, err) < 0)
		goto out;
	diff_authority(old, new, &cs);
	for (size_t i = 0; i < cs.n; i++) {
		r->widened += cs.c[i].wider;
		r->narrowed += cs.c[i].narrower;
	}
	r->cut = cs.cut;
	if (form == DIFF_JSON)
		print_json(&cs, r, out);
	else if (form == DIFF_MARKDOWN)
		print_markdown(&cs, out);
	else
		print_text(&cs, out);
	if (form != DIFF_JSON)
		fprintf(out, "%s%u wider, %u narrower%s\n", form == DIFF_MARKDOWN ? "\n" : "", r->widened, r->narrowed, r->cut ? "; there are more paths than were walked: there may be more" : "");
	ret = 0;
out:
	free(cs.c);
	arena_fini(&cs.a);
	return ret;
}
