/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recorded requests, decided again. A record holds no header, no content and, mostly, no value of a query; where a rule of
 * the policy asks for one of those on that path, what it would say is not known, and counted as such.
 */
#include <stdlib.h>

#include "../common/base/jsonw.h"
#include "../common/base/must.h"
#include "ask.h"
#include "log.h"

struct change {
	struct str text; /* METHOD URL */
	bool allowed;	 /* now */
	struct str rule, source;
	unsigned long times;
};
struct run {
	struct asker k;
	struct arena a, kept;
	struct change *c;
	size_t n, cap;
	unsigned long same, unknown, others, allowed, denied, skipped;
	struct err *err;
	bool failed;
};

/* Whether what the policy says may hang on what was not recorded. */
static bool hangs(const struct asked *q, const struct logged *l, const struct decision *d)
{
	if (d->why == DECIDE_LOOK)
		return true;
	for (unsigned i = 0; i < q->all_n; i++) {
		const struct pol_dest *dest = q->all[i];

		for (unsigned k = 0; k < dest->rule_n; k++) {
			const struct pol_rule *r = &dest->rules[k];

			if (r->cond == NULL || (!r->deny && i > 0) || !ref_method(r, q->f.method) || !ref_path(r, q->f.path))
				continue;
			if ((r->cond->parts & (COND_HEADERS | COND_BODY)) || ((r->cond->parts & COND_QUERY) && l->redacted))
				return true;
		}
	}
	return false;
}

static void note(struct run *r, const struct logged *l, const struct decision *d)
{
	struct buf b = { 0 };
	struct change *c;

	buf_adds(&b, l->method);
	buf_addc(&b, ' ');
	log_url(l, &b);
	if (r->n == r->cap) {
		r->cap = r->cap ? r->cap * 2 : 64;
		r->c = must_realloc(r->c, r->cap * sizeof(*r->c));
	}
	c = &r->c[r->n++];
	*c = (struct change){ arena_str(&r->kept, buf_str(&b)), !l->allowed, arena_str(&r->kept, d->rule), arena_str(&r->kept, d->source), 1 };
	buf_fini(&b);
}

static void on_record(void *arg, const struct logged *l)
{
	struct run *r = arg;
	struct asked q = { .f = { .method = l->method, .has_content = l->has_content, .now_s = l->time_s } };
	struct buf url = { 0 };
	struct decision d = { 0 };
	bool allowed;

	if (r->failed)
		return;
	if (!l->by_policy || str_eq(l->method, STR("CONNECT")) || l->path.n == 0) {
		r->others++;
		return;
	}
	arena_reset(&r->a);
	log_url(l, &url);
	if (ask_url(&r->k, &r->a, buf_str(&url), &q, r->err) < 0 || (q.malformed == NULL && ask_decide(&r->k, &q, &d, r->err) < 0)) {
		r->failed = true;
		goto out;
	}
	allowed = q.malformed == NULL && d.verdict == VERDICT_ALLOW;
	if (q.malformed == NULL && hangs(&q, l, &d)) {
		r->unknown++;
	} else if (allowed == l->allowed) {
		r->same++;
	} else {
		r->allowed += allowed;
		r->denied += !allowed;
		note(r, l, &d);
	}
out:
	buf_fini(&url);
}

static int by_text(const void *a, const void *b)
{
	const struct change *x = a, *y = b;
	size_t n = x->text.n < y->text.n ? x->text.n : y->text.n;
	int c = (int)y->allowed - (int)x->allowed;

	if (c == 0)
		c = memcmp(x->text.p, y->text.p, n);
	return c ? c : x->text.n < y->text.n ? -1
					     : x->text.n > y->text.n;
}

static void fold_equal(struct run *r)
{
	size_t n = 0;

	if (r->n > 1)
		qsort(r->c, r->n, sizeof(*r->c), by_text);
	for (size_t i = 0; i < r->n; i++) {
		if (n > 0 && by_text(&r->c[n - 1], &r->c[i]) == 0)
			r->c[n - 1].times++;
		else
			r->c[n++] = r->c[i];
	}
	r->n = n;
}

/* Records are someone else's text: a terminal sees no controls of theirs. */
static void put(FILE *out, struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		fputc((unsigned char)s.p[i] < 0x20 || s.p[i] == 0x7f ? '?' : s.p[i], out);
}

static void print_text(const struct run *r, FILE *out)
{
	for (size_t i = 0; i < r->n; i++) {
		const struct change *c = &r->c[i];

		fprintf(out, "%s %6lu  ", c->allowed ? "now allowed" : "now denied ", c->times);
		put(out, c->text);
		if (c->rule.n > 0) {
			fputs("  (", out);
			put(out, c->rule);
			fputs(", ", out);
			put(out, c->source);
			fputc(')', out);
		}
		fputc('\n', out);
	}
	fprintf(out, "%lu requests as before, %lu now allowed, %lu now denied, %lu not known (a rule asks for what is not recorded), %lu not decided by rules, %lu other records\n", r->same, r->allowed, r->denied, r->unknown,
		r->others, r->skipped);
}

static void print_json(const struct run *r, FILE *out)
{
	struct buf b = { 0 };
	struct jsonw w = jsonw_on(&b);

	jsonw_open(&w, '{');
	jsonw_ku64(&w, "same", r->same);
	jsonw_ku64(&w, "allowed", r->allowed);
	jsonw_ku64(&w, "denied", r->denied);
	jsonw_ku64(&w, "unknown", r->unknown);
	jsonw_ku64(&w, "undecided", r->others);
	jsonw_ku64(&w, "skipped", r->skipped);
	jsonw_kopen(&w, "changes", '[');
	for (size_t i = 0; i < r->n; i++) {
		jsonw_open(&w, '{');
		jsonw_kz(&w, "verdict", r->c[i].allowed ? "allow" : "deny");
		jsonw_kstr(&w, "request", r->c[i].text);
		jsonw_kstr(&w, "rule", r->c[i].rule);
		jsonw_kstr(&w, "source", r->c[i].source);
		jsonw_ku64(&w, "times", r->c[i].times);
		jsonw_close(&w, '}');
	}
	jsonw_close(&w, ']');
	jsonw_close(&w, '}');
	buf_addc(&b, '\n');
	fwrite(buf_data(&b), 1, buf_len(&b), out);
	buf_fini(&b);
}

int replay(struct policy *p, char *const *logs, int log_n, bool json, FILE *out, struct err *err)
{
	struct run r = { .err = err };
	int ret = -1;

	if (asker_init(&r.k, p, err) < 0)
		return -1;
	for (int i = 0; i < log_n; i++)
		if (log_read(logs[i], on_record, &r, &r.skipped, err) < 0)
			goto out;
	if (r.failed)
		goto out;
	fold_equal(&r);
	if (json)
		print_json(&r, out);
	else
		print_text(&r, out);
	ret = r.n > INT32_MAX ? INT32_MAX : (int)r.n;
out:
	asker_fini(&r.k);
	arena_fini(&r.a);
	arena_fini(&r.kept);
	free(r.c);
	return ret;
}
