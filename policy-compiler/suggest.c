/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was refused, as the smallest rules that would let it through: one path each, segment by segment as it was asked for,
 * with the keys of its query. For a person to read and to shorten, not to be used as it is.
 */
#include <stdlib.h>

#include "../common/base/jsonw.h"
#include "../common/base/must.h"
#include "log.h"

struct refused {
	struct str scheme, host, method, path, query, rule;
	uint16_t port;
	bool destination;
	unsigned long times;
};
struct refusals {
	struct arena a;
	struct refused *r;
	size_t n, cap;
	unsigned long skipped;
};

static int text_cmp(struct str x, struct str y)
{
	size_t n = x.n < y.n ? x.n : y.n;
	int r = n ? memcmp(x.p, y.p, n) : 0;

	return r ? r : x.n < y.n ? -1
				 : x.n > y.n;
}

static int cmp_dest(const struct refused *x, const struct refused *y)
{
	int r = text_cmp(x->host, y->host);

	if (r == 0)
		r = text_cmp(x->scheme, y->scheme);
	return r ? r : (int)x->port - (int)y->port;
}

static int cmp_rule(const struct refused *x, const struct refused *y)
{
	int r = cmp_dest(x, y);

	if (r == 0)
		r = text_cmp(x->path, y->path);
	return r ? r : text_cmp(x->query, y->query);
}

static int cmp(const void *a, const void *b)
{
	const struct refused *x = a, *y = b;
	int r = cmp_rule(x, y);

	if (r == 0)
		r = text_cmp(x->method, y->method);
	return r ? r : text_cmp(x->rule, y->rule);
}

/* "k=*&l=*", each key once, in order. */
static struct str shape_of(struct arena *a, struct str q)
{
	struct str keys[COND_VALUES_MAX];
	struct buf b = { 0 };
	unsigned n = 0;
	struct str s;

	while (q.n > 0 && n < COND_VALUES_MAX) {
		const char *amp = memchr(q.p, '&', q.n), *eq;
		struct str piece = str_mk(q.p, amp ? (size_t)(amp - q.p) : q.n);
		unsigned at = 0;

		q = amp ? str_mk(amp + 1, q.n - piece.n - 1) : STR_NONE;
		eq = piece.n ? memchr(piece.p, '=', piece.n) : NULL;
		if (eq != NULL)
			piece.n = (size_t)(eq - piece.p);
		while (at < n && text_cmp(keys[at], piece) < 0)
			at++;
		if (piece.n == 0 || (at < n && str_eq(keys[at], piece)))
			continue;
		memmove(keys + at + 1, keys + at, (n - at) * sizeof(*keys));
		keys[at] = piece;
		n++;
	}
	for (unsigned i = 0; i < n; i++) {
		if (i > 0)
			buf_addc(&b, '&');
		buf_adds(&b, keys[i]);
		buf_addz(&b, "=*");
	}
	s = arena_str(a, buf_str(&b));
	buf_fini(&b);
	return s;
}

static void on_record(void *arg, const struct logged *l)
{
	struct refusals *rs = arg;
	struct refused *r;

	if (l->allowed || !l->by_policy)
		return;
	if (rs->n == rs->cap) {
		rs->cap = rs->cap ? rs->cap * 2 : 64;
		rs->r = must_realloc(rs->r, rs->cap * sizeof(*rs->r));
	}
	r = &rs->r[rs->n++];
	*r = (struct refused){
		.scheme = arena_str(&rs->a, str_eq(l->scheme, STR("http")) ? STR("http") : STR("https")),
		.host = arena_str(&rs->a, l->host),
		.method = arena_str(&rs->a, l->method),
		.path = arena_str(&rs->a, str_eq(l->method, STR("CONNECT")) ? STR_NONE : l->path),
		.query = str_eq(l->method, STR("CONNECT")) ? STR_NONE : shape_of(&rs->a, l->query),
		.rule = arena_str(&rs->a, l->rule),
		.port = l->port,
		.destination = l->destination,
		.times = 1,
	};
}

static void fold_equal(struct refusals *rs)
{
	size_t n = 0;

	if (rs->n > 1)
		qsort(rs->r, rs->n, sizeof(*rs->r), cmp);
	for (size_t i = 0; i < rs->n; i++) {
		if (n > 0 && cmp(&rs->r[n - 1], &rs->r[i]) == 0)
			rs->r[n - 1].times += rs->r[i].times;
		else
			rs->r[n++] = rs->r[i];
	}
	rs->n = n;
}

/* --- as a policy --------------------------------------------------------------------------------------------------- */

/* In double quotes; a raw star was a star. */
static void add_quoted(struct buf *b, struct str s, bool star)
{
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];

		if (c == '*' && star)
			buf_addz(b, "%2A");
		else if (c == '"' || c == '\\')
			buf_addf(b, "%%%02X", c);
		else
			buf_addc(b, c < 0x20 || c == 0x7f ? '?' : (char)c);
	}
}

static void put_quoted(FILE *out, struct str s, bool star)
{
	struct buf b = { 0 };

	add_quoted(&b, s, star);
	fwrite(buf_data(&b), 1, buf_len(&b), out);
	buf_fini(&b);
}

static bool rule_method(struct str m)
{
	for (size_t i = 0; i < m.n; i++)
		if (!((m.p[i] >= 'A' && m.p[i] <= 'Z') || (i > 0 && (m.p[i] == '-' || (m.p[i] >= '0' && m.p[i] <= '9')))))
			return false;
	return m.n > 0 && m.n <= 32 && !str_eq(m, STR("TRACE")) && !str_eq(m, STR("ANY")) && !str_eq(m, STR("CONNECT"));
}

static bool rule_query(struct str q) { return q.n == 0 || (memchr(q.p, '+', q.n) == NULL && memchr(q.p, ';', q.n) == NULL); }

/* What a new allow rule changes: not what a rule refused, nor what has no path. */
static bool can_be_said(const struct refused *r) { return r->rule.n == 0 && r->path.n > 0 && rule_method(r->method) && rule_query(r->query); }

static void put_rule(const struct refused *r, size_t n, FILE *out)
{
	unsigned long times = 0;
	bool get = false, first = true;

	for (size_t i = 0; i < n; i++)
		get = get || (can_be_said(&r[i]) && str_eq(r[i].method, STR("GET")));
	for (size_t i = 0; i < n; i++) {
		if (!can_be_said(&r[i]))
			continue;
		times += r[i].times;
		if (get && str_eq(r[i].method, STR("HEAD")))
			continue;
		fprintf(out, first ? "      - \"%.*s" : "|%.*s", (int)r[i].method.n, r[i].method.p);
		first = false;
	}
	if (first)
		return;
	fputc(' ', out);
	put_quoted(out, r->path, true);
	if (r->query.n > 0) {
		fputc('?', out);
		put_quoted(out, r->query, false);
	}
	fprintf(out, "\" # %lu time%s\n", times, times == 1 ? "" : "s");
}

static void put_comment(const struct refused *r, FILE *out)
{
	fprintf(out, "      # not by an allow rule: ");
	put_quoted(out, r->method, false);
	if (r->path.n > 0) {
		fputc(' ', out);
		put_quoted(out, r->path, false);
	}
	if (r->rule.n > 0) {
		fputs(", refused by ", out);
		put_quoted(out, r->rule, false);
	} else if (r->path.n == 0) {
		fputs(", what would be asked inside was not seen", out);
	}
	fprintf(out, " (%lu time%s)\n", r->times, r->times == 1 ? "" : "s");
}

static void put_dest(const struct refused *r, size_t n, FILE *out)
{
	bool http = str_eq(r->scheme, STR("http")), any = false;

	fputs("  - host: \"", out);
	if (memchr(r->host.p, ':', r->host.n) != NULL)
		fprintf(out, "[%.*s]\"", (int)r->host.n, r->host.p);
	else
		put_quoted(out, r->host, false), fputc('"', out);
	fputs(r->destination ? " # not a destination until now\n" : "\n", out);
	if (http)
		fputs("    scheme: http\n", out);
	if (r->port != (http ? 80 : 443))
		fprintf(out, "    ports: [%u]\n", r->port);
	for (size_t i = 0; i < n; i++)
		any = any || can_be_said(&r[i]);
	fputs(any ? "    allow:\n" : "    allow: []\n", out);
	for (size_t i = 0, k; i < n; i = k) {
		for (k = i + 1; k < n && cmp_rule(&r[i], &r[k]) == 0;)
			k++;
		put_rule(r + i, k - i, out);
		for (size_t j = i; j < k; j++)
			if (!can_be_said(&r[j]))
				put_comment(&r[j], out);
	}
}

/* --- as JSON ------------------------------------------------------------------------------------------------------- */

static void put_json(const struct refused *r, struct jsonw *w)
{
	struct buf rule = { 0 };

	jsonw_open(w, '{');
	jsonw_kstr(w, "scheme", r->scheme);
	jsonw_kstr(w, "host", r->host);
	jsonw_ku64(w, "port", r->port);
	jsonw_key(w, "new_destination");
	jsonw_bool(w, r->destination);
	jsonw_kstr(w, "method", r->method);
	if (r->path.n > 0)
		jsonw_kstr(w, "path", r->path);
	if (can_be_said(r)) {
		buf_adds(&rule, r->method);
		buf_addc(&rule, ' ');
		add_quoted(&rule, r->path, true);
		if (r->query.n > 0) {
			buf_addc(&rule, '?');
			add_quoted(&rule, r->query, false);
		}
		jsonw_kstr(w, "rule", buf_str(&rule));
	}
	if (r->rule.n > 0)
		jsonw_kstr(w, "refused_by", r->rule);
	jsonw_ku64(w, "times", r->times);
	jsonw_close(w, '}');
	buf_fini(&rule);
}

static void put_all_json(const struct refusals *rs, unsigned long total, FILE *out)
{
	struct buf b = { 0 };
	struct jsonw w = jsonw_on(&b);

	jsonw_open(&w, '{');
	jsonw_ku64(&w, "refused", total);
	jsonw_kopen(&w, "suggestions", '[');
	for (size_t i = 0; i < rs->n; i++)
		put_json(&rs->r[i], &w);
	jsonw_close(&w, ']');
	jsonw_close(&w, '}');
	buf_addc(&b, '\n');
	fwrite(buf_data(&b), 1, buf_len(&b), out);
	buf_fini(&b);
}

int suggest(char *const *logs, int log_n, bool json, FILE *out, struct err *err)
{
	struct refusals rs = { 0 };
	unsigned long total = 0;
	int ret = -1;

	for (int i = 0; i < log_n; i++)
		if (log_read(logs[i], on_record, &rs, &rs.skipped, err) < 0)
			goto out;
	total = rs.n;
	fold_equal(&rs);
	ret = total > INT32_MAX ? INT32_MAX : (int)total;
	if (json) {
		put_all_json(&rs, total, out);
		goto out;
	}
	fprintf(out, "# What would have let %lu refused request%s through, path by path. Read each: an agent may have asked for what it should not have.\n", total, total == 1 ? "" : "s");
	fputs(rs.n > 0 ? "version: 1\ndestinations:\n" : "version: 1\n", out);
	for (size_t i = 0, k; i < rs.n; i = k) {
		for (k = i + 1; k < rs.n && cmp_dest(&rs.r[i], &rs.r[k]) == 0;)
			k++;
		put_dest(rs.r + i, k - i, out);
	}
out:
	arena_fini(&rs.a);
	free(rs.r);
	return ret;
}
