/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `policy diff` against brute force: two made-up policies that differ in some rules, and every request of a universe that holds
 * all their atoms asked of both. Each witness changes the verdict, by the table and by the reference; each request that changes
 * is of a kind that the diff names: same host (as the destinations see it), method, direction, rules before and after.
 * DIFF_PAIRS says how many pairs of policies; `make property` asks for more.
 */
#include "policy_made.h"

#include "common/base/must.h"
#include "policy-compiler/ask.h"
#include "policy-compiler/diff.h"

#define PAIRS 30u
#define LINES_MAX 16u
#define DESTS_MAX 3u
#define HOSTS_TRIED 3u
#define DEEP 150u

struct made_dest {
	struct buf head;	       /* up to its rules */
	struct buf line[2][LINES_MAX]; /* allow, deny: whole lines */
	unsigned n[2];
	bool tunnel;
};
struct side {
	struct made_dest d[DESTS_MAX];
	unsigned n;
	struct buf text;
	struct policy p;
	struct table *t;
	const struct pol_dest **all;
};

static void add_line(struct made_dest *d, bool deny, uint64_t *r)
{
	struct buf path = { 0 };

	if (d->n[deny] == LINES_MAX)
		return;
	made_path(&path, r, true);
	made_rule(&d->line[deny][d->n[deny]++], r, deny, buf_str(&path));
	buf_fini(&path);
}

static void made_side(struct side *s, uint64_t *r)
{
	struct buf host = { 0 };

	s->n = 1 + util_random(r) % DESTS_MAX;
	for (unsigned i = 0; i < s->n; i++) {
		struct made_dest *d = &s->d[i];

		d->tunnel = util_random(r) % 10 == 0;
		if (d->tunnel) {
			made_tunnel(&d->head, r);
			continue;
		}
		made_host(&host, r, true);
		buf_addf(&d->head, "  - host: \"%.*s\"\n%s", (int)buf_len(&host), (const char *)buf_data(&host), util_random(r) % 2 ? "    paths: { empty_segments: keep }\n" : "");
		if (util_random(r) % 8 == 0)
			buf_addz(&d->head, "    scheme: http\n");
		else if (util_random(r) % 4 == 0)
			buf_addz(&d->head, "    ports: [443, 8443]\n");
		for (unsigned k = util_random(r) % 5; k > 0; k--)
			add_line(d, false, r);
		for (unsigned k = util_random(r) % 4; k > 0; k--)
			add_line(d, true, r);
	}
	buf_fini(&host);
}

static void copy_side(struct side *to, const struct side *from)
{
	to->n = from->n;
	for (unsigned i = 0; i < from->n; i++) {
		to->d[i].tunnel = from->d[i].tunnel;
		buf_adds(&to->d[i].head, buf_str(&from->d[i].head));
		for (unsigned k = 0; k < 2; k++) {
			to->d[i].n[k] = from->d[i].n[k];
			for (unsigned j = 0; j < from->d[i].n[k]; j++)
				buf_adds(&to->d[i].line[k][j], buf_str(&from->d[i].line[k][j]));
		}
	}
}

/* One to three changes: a rule less, another one, one that is new, a destination less. */
static void change_side(struct side *s, uint64_t *r)
{
	for (unsigned k = 1 + util_random(r) % 3; k > 0; k--) {
		struct made_dest *d = &s->d[util_random(r) % s->n];
		bool deny = util_random(r) % 2;
		unsigned at = d->n[deny] ? util_random(r) % d->n[deny] : 0;
		struct buf path = { 0 };

		if (d->tunnel)
			continue;
		switch (util_random(r) % 8) {
		case 0:
		case 1:
		case 2:
			if (d->n[deny] > 0) {
				buf_clear(&d->line[deny][at]); /* a line of nothing */
			}
			break;
		case 3:
		case 4:
			if (d->n[deny] > 0) {
				buf_clear(&d->line[deny][at]);
				made_path(&path, r, true);
				made_rule(&d->line[deny][at], r, deny, buf_str(&path));
			}
			break;
		case 5:
			if (s->n > 1)
				s->n--;
			break;
		default:
			add_line(d, deny, r);
			break;
		}
		buf_fini(&path);
	}
}

static void fini_side(struct side *s)
{
	for (unsigned i = 0; i < DESTS_MAX; i++) {
		buf_fini(&s->d[i].head);
		for (unsigned k = 0; k < 2; k++)
			for (unsigned j = 0; j < LINES_MAX; j++)
				buf_fini(&s->d[i].line[k][j]);
	}
	buf_fini(&s->text);
	free(s->all);
	table_free(s->t);
	policy_free(&s->p);
	*s = (struct side){ 0 };
}

static bool load_side(struct side *s)
{
	struct diag g = { .file = "made.yaml" };
	int ok;

	buf_addz(&s->text, "version: 1\nname: made-up\ndestinations:\n");
	for (unsigned i = 0; i < s->n; i++) {
		struct made_dest *d = &s->d[i];

		buf_adds(&s->text, buf_str(&d->head));
		for (unsigned k = 0; !d->tunnel && k < 2; k++) {
			unsigned lines = 0;

			for (unsigned j = 0; j < d->n[k]; j++)
				lines += buf_len(&d->line[k][j]) > 0;
			buf_addf(&s->text, "    %s:%s\n", k ? "deny" : "allow", lines ? "" : " []");
			for (unsigned j = 0; j < d->n[k]; j++)
				buf_adds(&s->text, buf_str(&d->line[k][j]));
		}
	}
	ok = policy_parse(&s->p, (const char *)buf_data(&s->text), buf_len(&s->text), NULL, &g);
	diag_fini(&g);
	if (ok < 0)
		return false;
	s->t = util_table(&s->p);
	s->all = must_calloc(s->p.dest_n + 1ul, sizeof(const struct pol_dest *));
	return true;
}

struct pair {
	struct side s[2];
	uint64_t seed;
	unsigned number;
	struct diff_changes cs;
	bool *met; /* changes that a request of the universe showed */
	unsigned changed, kinds;
};

static void report(const struct pair *p, const struct facts *f, const char *what)
{
	struct str name, value;

	fprintf(stderr, "PROPERTY_SEED=%llu, pair %u: %s\n--- old\n%.*s--- new\n%.*s--- the diff\n", (unsigned long long)p->seed, p->number, what, (int)buf_len(&p->s[0].text), (const char *)buf_data(&p->s[0].text),
		(int)buf_len(&p->s[1].text), (const char *)buf_data(&p->s[1].text));
	for (size_t i = 0; i < p->cs.n; i++)
		fprintf(stderr, "%s %.*s\n    was: %.*s\n    is:  %.*s\n", p->cs.c[i].wider ? "+" : "-", (int)p->cs.c[i].request.n, p->cs.c[i].request.p, (int)p->cs.c[i].was.n, p->cs.c[i].was.p, (int)p->cs.c[i].is.n, p->cs.c[i].is.p);
	fprintf(stderr, "--- the request\n%.*s %s://%.*s:%u%.*s?%.*s, at %llu, content %.*s\n", (int)f->method.n, f->method.p, scheme_name(f->scheme), (int)f->host.n, f->host.p, f->port, (int)f->path.n, f->path.p, (int)f->query.n,
		f->query.n ? f->query.p : "", (unsigned long long)f->now_s, f->content ? (int)f->content->n : 0, f->content && f->content->n ? f->content->p : "");
	for (unsigned i = 0; f->field != NULL && f->field(f->field_arg, i, &name, &value); i++)
		fprintf(stderr, "  %.*s: %.*s\n", (int)name.n, name.p, (int)value.n, value.n ? value.p : "");
	fail();
}

static void by_table(const struct side *s, const struct facts *f, struct decision *d)
{
	struct dest dest;

	decide(s->t, table_find(s->t, f->scheme, f->host, f->port, &dest) == 1 ? &dest : NULL, f, d);
}

/* The same rule, or the same reason, as the diff says it. */
static bool says(struct str said, const struct decision *d)
{
	struct asked none = { 0 };
	struct buf b = { 0 };
	bool same;

	if (d->rule.n > 0)
		buf_addf(&b, "%.*s (%.*s)", (int)d->rule.n, d->rule.p, (int)d->source.n, d->source.p);
	else
		buf_addz(&b, ask_why(&none, d));
	same = str_eq(said, buf_str(&b));
	buf_fini(&b);
	return same;
}

/* Both hosts are the same to both policies. */
static bool same_host(struct pair *p, const struct facts *a, const struct facts *b)
{
	if (a->scheme != b->scheme || a->port != b->port)
		return false;
	for (unsigned i = 0; i < 2; i++) {
		const struct pol_dest **all = must_calloc(p->s[i].p.dest_n + 1ul, sizeof(const struct pol_dest *));
		unsigned n = ref_dests(&p->s[i].p, a->scheme, a->host, a->port, all), m = ref_dests(&p->s[i].p, b->scheme, b->host, b->port, p->s[i].all);
		bool same = n == m && memcmp(all, p->s[i].all, n * sizeof(const struct pol_dest *)) == 0;

		free(all);
		if (!same)
			return false;
	}
	return true;
}

static void witnesses_are_true(struct pair *p)
{
	for (size_t i = 0; i < p->cs.n; i++) {
		const struct diff_change *c = &p->cs.c[i];
		struct canon_path_opts opts = { .empty_segments_keep = true };
		struct arena a = { 0 };
		struct str wire, match;
		const char *why;

		assert_non_null(c->witness);
		for (unsigned k = 0; k < 2; k++) {
			struct decision d, ref;

			by_table(&p->s[k], &c->witness->f, &d);
			ref_eval(&p->s[k].p, &c->witness->f, &ref);
			if (d.verdict != ref.verdict || (d.verdict == VERDICT_ALLOW) != (k == c->wider))
				report(p, &c->witness->f, "a witness that is none");
			if (!says(k ? c->is : c->was, &ref))
				report(p, &c->witness->f, "a witness whose rule is another");
		}
		/* a request can be like that */
		if (c->witness->f.path.p[0] == '/' && (!canon_path(&a, c->witness->f.path, &opts, &wire, &match, &why) || !str_eq(match, c->witness->f.path)))
			report(p, &c->witness->f, "a witness that is no request");
		if (c->witness->f.has_query && !canon_query(c->witness->f.query, false, &why))
			report(p, &c->witness->f, "a witness whose query is none");
		arena_fini(&a);
	}
}

/* The method itself, GET for HEAD, or for one that no rule of the host names one that none names either. */
static bool same_method(struct pair *p, struct str said, const struct facts *f)
{
	if (str_eq(said, f->method) || (str_eq(said, STR("GET")) && str_eq(f->method, STR("HEAD"))))
		return true;
	for (unsigned i = 0; i < 2; i++) {
		unsigned n = ref_dests(&p->s[i].p, f->scheme, f->host, f->port, p->s[i].all);

		for (unsigned k = 0; k < n; k++)
			for (unsigned j = 0; j < p->s[i].all[k]->rule_n; j++)
				for (unsigned m = 0; m < p->s[i].all[k]->rules[j].method_n; m++)
					if (str_eq(p->s[i].all[k]->rules[j].methods[m], f->method))
						return false;
	}
	return str_eq(said, STR("BREW"));
}

static void ask(struct pair *p, const struct facts *f)
{
	struct decision d[2], ref;

	for (unsigned k = 0; k < 2; k++)
		by_table(&p->s[k], f, &d[k]);
	if (d[0].verdict == d[1].verdict)
		return;
	for (unsigned k = 0; k < 2; k++) {
		ref_eval(&p->s[k].p, f, &ref);
		if (ref.verdict != d[k].verdict)
			report(p, f, "table and reference differ");
	}
	p->changed++;
	for (size_t i = 0; i < p->cs.n; i++) {
		const struct diff_change *c = &p->cs.c[i];

		if (c->wider != (d[1].verdict == VERDICT_ALLOW) || !same_method(p, c->witness->f.method, f))
			continue;
		if (!says(c->was, &d[0]) || !says(c->is, &d[1]) || !same_host(p, f, &c->witness->f))
			continue;
		p->kinds += !p->met[i];
		p->met[i] = true;
		return;
	}
	report(p, f, "a change that the diff does not name");
}

static void ask_extras(struct pair *p, struct facts f, uint64_t *r)
{
	struct buf query = { 0 };
	struct made_fields fields;
	struct str content = STR_NONE;

	f.content = &content;
	f.now_s = 1800000000;
	ask(p, &f);
	for (unsigned i = 0; i < 4; i++) {
		content = str_of(PICK(r, contents));
		f.has_content = content.n > 0;
		made_extras(&f, r, &query, &fields);
		f.used = NULL; /* a diff is of grants that are not used yet */
		if (f.now_s == 0)
			f.now_s = 1750000000;
		if (i % 2)
			f.has_query = false;
		if (!f.has_query)
			f.query = STR_NONE;
		if (i == 0)
			f.field = NULL;
		ask(p, &f);
	}
	buf_fini(&query);
}

static void ask_host(struct pair *p, struct facts f, bool empties, uint64_t *r)
{
	static const char *const segs[] = { "a", "b", "A", "ab", "aab", "a;x", ";x", "b;y", "%2Ab", "c", "xb", "" };
	const unsigned n = sizeof(segs) / sizeof(segs[0]);
	struct buf path = { 0 };

	for (unsigned i = 0; i < n * (n + 1) + DEEP; i++) {
		unsigned depth = i < n ? 1 : i < n * (n + 1) ? 2
							     : 3 + util_random(r) % 2;

		buf_clear(&path);
		for (unsigned k = 0, at = i; k < depth; k++, at /= n)
			buf_addf(&path, "/%s", depth > 2 ? PICK(r, segs) : segs[(at - (depth == 2 ? n : 0)) % n]);
		if (!empties && str_find(buf_str(&path), STR("//")) >= 0)
			continue;
		f.path = buf_str(&path);
		for (unsigned m = 0; m < sizeof(asked_methods) / sizeof(asked_methods[0]); m++) {
			f.method = str_of(asked_methods[m]);
			ask_extras(p, f, r);
		}
	}
	f.path = STR("*");
	for (unsigned m = 0; m < sizeof(asked_methods) / sizeof(asked_methods[0]); m++) {
		f.method = str_of(asked_methods[m]);
		ask_extras(p, f, r);
	}
	buf_fini(&path);
}

static bool has_dest(const struct policy *p, const struct pol_dest *d)
{
	for (unsigned i = 0; i < p->dest_n; i++)
		if (p->dests[i].scheme == d->scheme && p->dests[i].port == d->port && strcmp(p->dests[i].host.text, d->host.text) == 0)
			return true;
	return false;
}

static void diff_is_brute_force(void **state)
{
	uint64_t r = number("PROPERTY_SEED", SEED_DEFAULT), pairs = number("DIFF_PAIRS", PAIRS);
	unsigned changed = 0, kinds = 0, named = 0, cut = 0;

	(void)state;
	for (unsigned i = 0; i < pairs;) {
		struct pair p = { .seed = number("PROPERTY_SEED", SEED_DEFAULT), .number = i };
		struct err err = ERR_INIT;
		struct buf host = { 0 };

		made_side(&p.s[0], &r);
		copy_side(&p.s[1], &p.s[0]);
		change_side(&p.s[1], &r);
		if (load_side(&p.s[0]) && load_side(&p.s[1])) {
			if (diff_requests(&p.s[0].p, &p.s[1].p, &p.cs, &err) < 0)
				fail_msg("%s", err.text);
			p.met = must_calloc(p.cs.n + 1, sizeof(bool));
			witnesses_are_true(&p);
			for (unsigned k = 0; k < 2 && !p.cs.cut; k++) {
				for (unsigned j = 0; j < p.s[k].p.dest_n; j++) {
					const struct pol_dest *d = &p.s[k].p.dests[j];

					if (k > 0 && has_dest(&p.s[0].p, d))
						continue;
					for (unsigned h = 0; h < HOSTS_TRIED; h++) {
						struct facts f = { .scheme = d->scheme, .port = d->port };

						made_instance(&host, &r, str_mk(d->host.text, d->host.len));
						f.host = buf_str(&host);
						ask_host(&p, f, d->paths.empty_segments_keep, &r);
						if (memchr(d->host.text, '*', d->host.len) == NULL)
							break;
					}
				}
			}
			cut += p.cs.cut;
			changed += p.changed;
			kinds += p.kinds;
			named += (unsigned)p.cs.n;
			i++;
		}
		free(p.met);
		free(p.cs.c);
		arena_fini(&p.cs.a);
		buf_fini(&host);
		fini_side(&p.s[0]);
		fini_side(&p.s[1]);
	}
	print_message("%u pairs of policies: %u changes named, %u of them met by %u requests that change; %u pairs had more to walk than is walked\n", (unsigned)pairs, named, kinds, changed, cut);
	assert_true(kinds > pairs / 2 && cut <= pairs / 20);
}

/* What no instance of one rule alone shows. */
static void meetings(void **state)
{
	static const struct {
		const char *old, *new, *request; /* allow and deny of one host */
	} rows[] = {
		{ "    allow: [\"GET /a*\"]\n    deny: [\"GET /*b\"]\n", "    allow: [\"GET /a*\"]\n", "GET https://h.test/ab" },
		{ "    allow: [\"GET /x?k=a*\"]\n    deny: [\"GET /x?k=*b\"]\n", "    allow: [\"GET /x?k=a*\"]\n", "GET https://h.test/x?k=ab" },
		{ "    allow: [\"GET /x?k=a|b\"]\n", "    allow: [\"GET /x?k=a\", \"GET /x?k=b\"]\n", "GET https://h.test/x?k=b&k=a" },
		{ "    allow: [\"GET /*\", \"GET /zz\"]\n", "    allow: [\"GET /zz\"]\n", "GET https://h.test/zzz" },
		{ "    allow: [{ method: GET, path: /x, headers: { A: \"*b\" } }]\n    deny: [{ method: GET, path: /x, headers: { A: a } }]\n", "    allow: [{ method: GET, path: /x, headers: { A: \"*b\" } }]\n", "GET https://h.test/x [a: a,b]" },
		{ "    allow: [{ method: POST, path: /x, body: { jsonrpc: { methods: [a, b] } } }]\n", "    allow: [{ method: POST, path: /x, body: { jsonrpc: { methods: [a] } } }, { method: POST, path: /x, body: { jsonrpc: { methods: [b] } } }]\n",
		  "POST https://h.test/x [content-type: application/json] with [{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"},{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"b\"}]" },
		{ "    allow: [{ method: GET, regex: \"/a.c\" }, \"GET /a\"]\n    deny: [\"GET /a/**\"]\n", "    allow: [{ method: GET, regex: \"/a.c\" }, \"GET /a\"]\n", "GET https://h.test/a/c" },
		{ "    allow: [\"GET /**\"]\n    deny: [{ method: GET, path: /x, valid: { until: 2001-01-01 } }]\n", "    allow: [\"GET /**\"]\n", "GET https://h.test/x/ at 2000-12-31T23:59:59Z" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct policy p[2];
		struct diff_changes cs = { 0 };
		struct err err = ERR_INIT;
		struct buf text = { 0 };
		bool found = false;

		for (unsigned k = 0; k < 2; k++) {
			buf_clear(&text);
			buf_addf(&text, "version: 1\nname: t\ndestinations:\n  - host: h.test\n%s", k ? rows[i].new : rows[i].old);
			buf_addc(&text, 0);
			util_parse(&p[k], (const char *)buf_data(&text));
		}
		assert_int_equal(diff_requests(&p[0], &p[1], &cs, &err), 0);
		assert_false(cs.cut);
		for (size_t k = 0; k < cs.n; k++)
			found = found || str_eq(cs.c[k].request, str_of(rows[i].request));
		for (size_t k = 0; k < cs.n && !found; k++)
			print_message("%.*s\n", (int)cs.c[k].request.n, cs.c[k].request.p);
		if (!found)
			fail_msg("no `%s` among %zu", rows[i].request, cs.n);
		free(cs.c);
		arena_fini(&cs.a);
		buf_fini(&text);
		policy_free(&p[0]);
		policy_free(&p[1]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(meetings),
		cmocka_unit_test(diff_is_brute_force),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
