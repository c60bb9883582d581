/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table against the reference evaluator on made-up policies and requests: which destination decides, what it decides
 * and by which rule, what else would pass, its limits, where its secrets may go. PROPERTY_PAIRS and PROPERTY_SEED choose
 * how many pairs and which; `make property` asks for a million. A difference prints the seed, the policy and the request.
 */
#include "policy_made.h"

#include "common/policy/host_pattern.h"
#include "policy-compiler/load.h"

#define PAIRS_DEFAULT 10000
#define PAIRS_PER_POLICY 25
#define BOUNDED 300u
#define BOUNDED_REQUESTS 50u
#define COMPOSED 300u
#define COMPOSED_REQUESTS 25u

struct made {
	uint64_t seed, pair;
	struct buf text;
	struct policy p;
	struct table *t;
	unsigned whys[DECIDE_LOOK + 1], wild, broad, cond[COND_PARTS_ALL + 1], looked, tunnels[2];
};

static void differ(const struct made *m, const struct facts *f, const char *what)
{
	struct str name, value;

	fprintf(stderr, "PROPERTY_SEED=%llu, pair %llu: table and reference differ in %s\n%.*s\n%s://%.*s:%u %.*s %.*s%s\n", (unsigned long long)m->seed, (unsigned long long)m->pair, what,
		 (int)buf_len(&m->text), (const char *)buf_data(&m->text), scheme_name(f->scheme), (int)f->host.n, f->host.p, f->port, (int)f->method.n, f->method.p,
		 (int)f->path.n, f->path.p, f->has_content ? " with content" : "");
	fprintf(stderr, "query %.*s, at %llu, content %.*s\n", (int)f->query.n, f->query.n ? f->query.p : "", (unsigned long long)f->now_s, f->content ? (int)f->content->n : 0, f->content && f->content->n ? f->content->p : "");
	for (unsigned i = 0; f->field != NULL && f->field(f->field_arg, i, &name, &value); i++)
		fprintf(stderr, "  %.*s: %.*s\n", (int)name.n, name.p, (int)value.n, value.p);
	fail();
}

/* Made again until it loads. */
static void next_policy(struct made *m, uint64_t *r)
{
	for (;;) {
		struct diag d = { .file = "made.yaml" };
		int ok;

		made_policy(&m->text, r);
		ok = policy_parse(&m->p, (const char *)buf_data(&m->text), buf_len(&m->text), NULL, &d);
		diag_fini(&d);
		if (ok == 0)
			break;
		policy_free(&m->p);
	}
	m->t = util_table(&m->p);
}

static uint64_t lesser(uint64_t a, uint64_t b) { return a == 0 ? b : b == 0 ? a : a < b ? a : b; }

/* What bounds the deciding rule. */
static void compare_limits(const struct made *m, const struct facts *f, const struct dest *d, const struct pol_dest *ref, const struct decision *o)
{
	const struct pol_rule *r = &ref->rules[o->rule_no];
	struct dest_limits l = dest_limits_of_rule(d, o->rule_no);
	unsigned n = 0, want = r->limits.rate_n + (r->cond != NULL && (r->cond->parts & COND_USES) != 0);
	struct rate rate;

	if (!str_eq(r->id, o->rule) || l.idle_ms != lesser(lesser(ref->limits.sizes.idle_ms, m->p.limits.sizes.idle_ms), r->limits.sizes.idle_ms))
		differ(m, f, "the limits of the rule");
	for (unsigned i = 0; dest_rate(d, i, &rate); i++)
		n += rate.rule == o->rule_no && rate.kind < RATE_REQUEST_BODY;
	if (n != want)
		differ(m, f, "the rates of the rule");
}

static void compare_dest(const struct made *m, const struct facts *f, const struct dest *d, const struct pol_dest *ref)
{
	struct inject in;

	if (!str_eq(d->id, ref->id) || !str_eq(d->source, ref->source) || !str_eq(dest_host(d), str_mk(ref->host.text, ref->host.len)) || !dest_stands_for(d, f->host))
		differ(m, f, "the destination");
	if (d->limits.idle_ms != lesser(ref->limits.sizes.idle_ms, m->p.limits.sizes.idle_ms) || d->limits.request_body != m->p.limits.sizes.request_body || d->limits.total_ms != ref->limits.sizes.total_ms || d->limits.head_ms != 0)
		differ(m, f, "its limits");
	if (dest_inject_count(d) != ref->inject_n)
		differ(m, f, "its injections");
	for (unsigned i = 0; dest_inject(d, i, &in); i++) {
		const struct pol_secret *s = ref->injects[i].secret;
		bool may = false;

		for (unsigned k = 0; k < s->host_n; k++)
			may = may || ref_host(s->hosts[k], f->host);
		if (!may || !table_secret_host_ok(m->t, in.secret_index, f->host) || !table_secret_host_ok(m->t, in.secret_index, dest_host(d)))
			differ(m, f, "where a secret may go");
	}
}

/* The same question, asked of both. */
static void decide_both(struct made *m, const struct dest *dest, const struct facts *f, struct decision *d)
{
	struct decision ref;

	decide(m->t, dest, f, d);
	ref_eval(&m->p, f, &ref);
	if (d->verdict != ref.verdict || d->why != ref.why || d->need != ref.need || !str_eq(d->rule, ref.rule) || !str_eq(d->source, ref.source))
		differ(m, f, "the decision");
}

/* How often conditions were what a rule failed by. */
static void count_conditions(struct made *m, const struct pol_dest *d, const struct facts *f)
{
	unsigned failed;

	for (unsigned i = 0; i < d->rule_n; i++)
		if (ref_method(&d->rules[i], f->method) && ref_path(&d->rules[i], f->path) && ref_cond(&d->rules[i], f, &failed) == COND_NO)
			for (unsigned bit = 1; bit < COND_PARTS_ALL; bit <<= 1)
				m->cond[bit] += (failed & bit) != 0;
}

/* As the worker and the dialer ask: only of a destination whose octets pass unread, and never of one that reads them. */
static void compare_tunnel(struct made *m, const struct facts *f, const struct pol_dest *ref_d)
{
	struct facts plain = { .scheme = f->scheme, .host = f->host, .port = f->port, .method = STR("TUNNEL"), .path = STR("*"), .now_s = f->now_s };
	struct decision d, ref;
	struct dest dest;
	bool is = decide_tunnel(m->t, f->scheme, f->host, f->port, f->now_s, &dest, &d);

	if (is != (ref_d != NULL && ref_d->tunnel))
		differ(m, f, "whether octets may pass unread");
	if (!is)
		return;
	ref_eval(&m->p, &plain, &ref);
	if (d.verdict != ref.verdict || d.why != ref.why || !str_eq(d.rule, ref.rule) || !str_eq(d.source, ref.source))
		differ(m, f, "the decision of a tunnel");
	m->tunnels[d.verdict == VERDICT_ALLOW]++;
}

static void compare(struct made *m, uint64_t *r, struct buf *host, struct buf *path)
{
	struct facts f = { .scheme = util_random(r) % 8 ? SCHEME_HTTPS : SCHEME_HTTP, .method = str_of(PICK(r, asked_methods)), .has_content = util_random(r) % 4 == 0 };
	const struct pol_dest *ref_d;
	struct decision d, ref;
	struct made_fields fields;
	struct buf query = { 0 };
	struct str content = str_of(PICK(r, contents));
	struct dest dest;
	int found;

	made_extras(&f, r, &query, &fields);
	f.port = util_random(r) % 6 == 0 ? 8443 : f.scheme == SCHEME_HTTP ? 80 : 443;
	if (util_random(r) % 4 == 0) {
		made_host(host, r, false);
	} else { /* near to what the policy names */
		const struct pol_dest *near = &m->p.dests[util_random(r) % m->p.dest_n];

		made_instance(host, r, str_mk(near->host.text, near->host.len));
		f.scheme = near->scheme;
		f.port = near->port;
	}
	made_path(path, r, false);
	f.host = buf_str(host);
	f.path = util_random(r) % 30 ? buf_str(path) : STR("*");
	if ((f.scheme == SCHEME_TCP || util_random(r) % 8 == 0) && util_random(r) % 4) {
		f.method = STR("TUNNEL");
		f.path = STR("*");
		f.has_content = false;
	}
	found = table_find(m->t, f.scheme, f.host, f.port, &dest);
	ref_d = ref_dest(&m->p, f.scheme, f.host, f.port);
	if (found < 0 || (found == 1) != (ref_d != NULL))
		differ(m, &f, "whether there is a destination");
	if (found == 1)
		compare_dest(m, &f, &dest, ref_d);
	if (ref_d != NULL)
		count_conditions(m, ref_d, &f);
	decide_both(m, found == 1 ? &dest : NULL, &f, &d);
	m->whys[d.why]++;
	if (found == 1 && ref_d->tunnel != dest.tunnel)
		differ(m, &f, "whether it is a tunnel");
	if (str_eq(f.method, STR("TUNNEL")))
		compare_tunnel(m, &f, ref_d);
	if (d.why == DECIDE_ALLOWED)
		compare_limits(m, &f, &dest, ref_d, &d);
	if (d.why == DECIDE_LOOK || util_random(r) % 8 == 0) {
		f.content = &content;
		decide_both(m, found == 1 ? &dest : NULL, &f, &d);
		if (d.why == DECIDE_LOOK)
			differ(m, &f, "what more there is to look at");
		m->looked += d.why == DECIDE_ALLOWED;
	}
	m->wild += found == 1 && dest.wildcard;
	if (d.why == DECIDE_DENY_RULE) {
		bool own = false;

		for (unsigned i = 0; i < ref_d->rule_n; i++)
			own = own || str_eq(ref_d->rules[i].source, d.source);
		m->broad += !own;
	}
	for (unsigned i = 0; i < d.allowed_n; i++) { /* what is offered does pass */
		struct facts g = f;

		g.method = d.allowed[i];
		g.has_content = false;
		ref_eval(&m->p, &g, &ref);
		if (ref.verdict != VERDICT_ALLOW) {
			fprintf(stderr, "%.*s, offered, would not pass\n", (int)g.method.n, g.method.p);
			differ(m, &f, "what else would pass");
		}
	}
	buf_fini(&query);
}

static void table_is_reference(void **state)
{
	struct made m = { .seed = number("PROPERTY_SEED", SEED_DEFAULT) };
	uint64_t pairs = number("PROPERTY_PAIRS", PAIRS_DEFAULT), r = m.seed;
	struct buf host = { 0 }, path = { 0 };

	(void)state;
	while (m.pair < pairs) {
		next_policy(&m, &r);
		for (int i = 0; i < PAIRS_PER_POLICY && m.pair < pairs; i++, m.pair++)
			compare(&m, &r, &host, &path);
		table_free(m.t);
		policy_free(&m.p);
	}
	print_message("%llu pairs, seed %llu: %u without a destination, %u without a rule, %u denied (%u by a broader one), %u for content, %u allowed, %u depend on content (%u passed with it); %u on wildcards; rules failed by time %u, query %u, headers %u, regex %u, content %u, uses %u; tunnels %u allowed, %u denied\n", (unsigned long long)m.pair,
		      (unsigned long long)m.seed, m.whys[DECIDE_NO_DESTINATION], m.whys[DECIDE_NO_RULE], m.whys[DECIDE_DENY_RULE], m.broad, m.whys[DECIDE_CONTENT], m.whys[DECIDE_ALLOWED], m.whys[DECIDE_LOOK], m.looked, m.wild, m.cond[COND_VALID], m.cond[COND_QUERY], m.cond[COND_HEADERS], m.cond[COND_REGEX], m.cond[COND_BODY], m.cond[COND_USES], m.tunnels[1], m.tunnels[0]);
	/* the made-up ones are worth something */
	assert_int_equal(m.whys[DECIDE_DAMAGED], 0);
	for (unsigned bit = 1; bit < COND_PARTS_ALL; bit <<= 1)
		if (m.cond[bit] < pairs / 500)
			fail_msg("conditions of kind %u failed %u times only", bit, m.cond[bit]);
	if (m.looked < pairs / 500)
		fail_msg("content let %u pass only", m.looked);
	for (unsigned i = 0; i <= DECIDE_LOOK; i++)
		if (i != DECIDE_DAMAGED && m.whys[i] < pairs / (i == DECIDE_LOOK ? 1000 : 500))
			fail_msg("only %u of kind %u", m.whys[i], i);
	if (m.tunnels[1] < pairs / 200 || m.tunnels[0] < pairs / 20000)
		fail_msg("tunnels: %u allowed, %u denied", m.tunnels[1], m.tunnels[0]);
	if (m.broad < pairs / 200 || m.wild < pairs / 10)
		fail_msg("%u denied by broader destinations, %u on wildcards", m.broad, m.wild);
	buf_fini(&host);
	buf_fini(&path);
	buf_fini(&m.text);
}

/* host_pattern_covers against what it means: each host that `b` stands for is one that `a` stands for. */
static void covers_is_inclusion(void **state)
{
	uint64_t r = number("PROPERTY_SEED", SEED_DEFAULT);
	struct buf a = { 0 }, b = { 0 }, host = { 0 };
	unsigned yes = 0;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		bool covers, seen_outside = false;

		made_host(&a, &r, true);
		made_host(&b, &r, true);
		covers = host_text_covers(buf_str(&a), buf_str(&b));
		yes += covers;
		for (int k = 0; k < 20; k++) {
			made_host(&host, &r, false);
			if (ref_host(buf_str(&b), buf_str(&host)) && !ref_host(buf_str(&a), buf_str(&host)))
				seen_outside = true;
			assert_int_equal(host_text_covers(buf_str(&a), buf_str(&host)), ref_host(buf_str(&a), buf_str(&host)));
		}
		if (covers && seen_outside)
			fail_msg("%.*s does not cover %.*s", (int)buf_len(&a), (const char *)buf_data(&a), (int)buf_len(&b), (const char *)buf_data(&b));
	}
	assert_true(yes > 500);
	buf_fini(&a);
	buf_fini(&b);
	buf_fini(&host);
}

/* A boundary: any policy, or one that is the policy itself but for a rule. */
static void next_boundary(struct made *b, const struct made *m, uint64_t *r)
{
	struct buf less = { 0 };
	struct diag d = { .file = "made.yaml" };

	if (util_random(r) % 4 == 0 || !without_a_rule(&m->text, r, &less)) {
		next_policy(b, r);
	} else {
		buf_clear(&b->text);
		buf_adds(&b->text, buf_str(&less));
		if (policy_parse(&b->p, (const char *)buf_data(&b->text), buf_len(&b->text), NULL, &d) < 0)
			fail();
		b->t = util_table(&b->p);
	}
	diag_fini(&d);
	buf_fini(&less);
}

/* Any policy within any other: the tables against the reference. */
static void boundary_is_both(void **state)
{
	struct made m = { .seed = number("PROPERTY_SEED", SEED_DEFAULT) + 2 }, b = { 0 };
	uint64_t r = m.seed;
	struct buf host = { 0 }, path = { 0 }, query = { 0 };
	unsigned by[2] = { 0 }, looks = 0, n = 0;

	(void)state;
	for (unsigned i = 0; i < BOUNDED; i++) {
		next_policy(&m, &r);
		next_boundary(&b, &m, &r);
		table_bind(m.t, b.t);
		for (unsigned k = 0; k < BOUNDED_REQUESTS; k++, n++) {
			const struct pol_dest *near = &m.p.dests[util_random(&r) % m.p.dest_n];
			struct str content = str_of(PICK(&r, contents));
			struct facts f = { .scheme = near->scheme, .port = near->port, .method = str_of(PICK(&r, asked_methods)), .content = util_random(&r) % 2 ? &content : NULL, .has_content = util_random(&r) % 4 == 0 };
			struct made_fields fields;
			struct decision d, ref;
			struct dest dest;

			made_instance(&host, &r, str_mk(near->host.text, near->host.len));
			made_path(&path, &r, false);
			made_extras(&f, &r, &query, &fields);
			f.host = buf_str(&host);
			f.path = buf_str(&path);
			decide(m.t, table_find(m.t, f.scheme, f.host, f.port, &dest) == 1 ? &dest : NULL, &f, &d);
			ref_within(&m.p, &b.p, &f, &ref);
			if (d.verdict != ref.verdict || d.why != ref.why || d.need != ref.need || d.by_boundary != ref.by_boundary || !str_eq(d.rule, ref.rule) || !str_eq(d.source, ref.source)) {
				fprintf(stderr, "--- boundary\n%.*s", (int)buf_len(&b.text), (const char *)buf_data(&b.text));
				differ(&m, &f, "the decision within a boundary");
			}
			for (unsigned j = 0; j < d.allowed_n; j++) { /* what is offered passes both */
				struct facts g = f;

				g.method = d.allowed[j];
				g.has_content = false;
				ref_within(&m.p, &b.p, &g, &ref);
				if (ref.verdict != VERDICT_ALLOW)
					differ(&m, &g, "what else would pass within a boundary");
			}
			by[0] += d.verdict == VERDICT_ALLOW;
			by[1] += d.by_boundary;
			looks += d.why == DECIDE_LOOK;
		}
		table_free(m.t);
		policy_free(&m.p);
		policy_free(&b.p);
	}
	print_message("%u requests within a boundary: %u allowed, %u refused by it, %u depend on content\n", n, by[0], by[1], looks);
	assert_true(by[0] > n / 500 && by[1] > n / 100 && looks > 0);
	buf_fini(&host);
	buf_fini(&path);
	buf_fini(&query);
	buf_fini(&m.text);
	buf_fini(&b.text);
}

/* Several boundaries: it passes what each of them lets pass, in whatever order they are. */
static void boundaries_are_all(void **state)
{
	struct made m = { .seed = number("PROPERTY_SEED", SEED_DEFAULT) + 3 }, b = { 0 }, c = { 0 };
	const struct made *all[] = { &m, &b, &c };
	uint64_t r = m.seed;
	struct buf host = { 0 }, path = { 0 }, query = { 0 };
	unsigned allowed = 0, by_last = 0, looks = 0, n = 0;

	(void)state;
	for (unsigned i = 0; i < BOUNDED; i++) {
		next_policy(&m, &r);
		next_boundary(&b, &m, &r);
		next_boundary(&c, &m, &r);
		table_bind(m.t, b.t);
		table_bind(b.t, c.t);
		for (unsigned k = 0; k < BOUNDED_REQUESTS; k++, n++) {
			const struct pol_dest *near = &m.p.dests[util_random(&r) % m.p.dest_n];
			struct str content = str_of(PICK(&r, contents));
			struct facts f = { .scheme = near->scheme, .port = near->port, .method = str_of(PICK(&r, asked_methods)), .content = util_random(&r) % 2 ? &content : NULL, .has_content = util_random(&r) % 4 == 0 };
			struct made_fields fields;
			struct decision d, one[3], by;
			struct dest dest;
			bool refused = false, asks = false;

			made_instance(&host, &r, str_mk(near->host.text, near->host.len));
			made_path(&path, &r, false);
			made_extras(&f, &r, &query, &fields);
			f.host = buf_str(&host);
			f.path = buf_str(&path);
			decide(m.t, table_find(m.t, f.scheme, f.host, f.port, &dest) == 1 ? &dest : NULL, &f, &d);
			for (unsigned x = 0; x < 3; x++) {
				ref_eval(&all[x]->p, &f, &one[x]);
				refused = refused || (one[x].verdict == VERDICT_DENY && one[x].why != DECIDE_LOOK);
				asks = asks || one[x].why == DECIDE_LOOK;
			}
			if ((d.verdict == VERDICT_ALLOW) != (!refused && !asks) || (d.why == DECIDE_LOOK) != (!refused && asks)) {
				fprintf(stderr, "--- boundaries\n%.*s---\n%.*s", (int)buf_len(&b.text), (const char *)buf_data(&b.text), (int)buf_len(&c.text), (const char *)buf_data(&c.text));
				differ(&m, &f, "the decision within two boundaries");
			}
			if (decide_boundary(m.t, &f, &by) != (one[1].verdict == VERDICT_ALLOW && one[2].verdict == VERDICT_ALLOW))
				differ(&m, &f, "what the boundaries say");
			allowed += d.verdict == VERDICT_ALLOW;
			by_last += one[0].verdict == VERDICT_ALLOW && one[1].verdict == VERDICT_ALLOW && refused;
			looks += d.why == DECIDE_LOOK;
		}
		table_free(m.t);
		policy_free(&m.p);
		policy_free(&b.p);
		policy_free(&c.p);
	}
	print_message("%u requests within two boundaries: %u allowed, %u refused by the second only, %u depend on content\n", n, allowed, by_last, looks);
	assert_true(allowed > n / 1000 && by_last > 10 && looks > 0);
	buf_fini(&m.text);
	buf_fini(&b.text);
	buf_fini(&c.text);
	buf_fini(&host);
	buf_fini(&path);
	buf_fini(&query);
}

/* --- a policy of two files ----------------------------------------------------------------------------------------- */

static bool read_base(void *arg, const char *name, struct buf *out, const char **why)
{
	*why = "?";
	if (strcmp(name, "base.yaml") != 0)
		return false;
	buf_adds(out, buf_str(arg));
	return true;
}

static const struct pol_rule *first_that(const struct pol_dest *d, const struct facts *f, bool deny)
{
	unsigned failed;

	for (unsigned i = 0; d != NULL && i < d->rule_n; i++)
		if (d->rules[i].deny == deny && ref_method(&d->rules[i], f->method) && ref_path(&d->rules[i], f->path) && ref_cond(&d->rules[i], f, &failed) == COND_YES)
			return &d->rules[i];
	return NULL;
}

static bool denied_by(const struct policy *p, const struct facts *f)
{
	const struct pol_dest **all = calloc(p->dest_n + 1ul, sizeof(const struct pol_dest *));
	unsigned n = ref_dests(p, f->scheme, f->host, f->port, all);
	bool any = false;

	for (unsigned i = 0; i < n; i++)
		any = any || first_that(all[i], f, true) != NULL;
	free(all);
	return any;
}

/* Of each part the destination with the pattern that decides in the whole: its allow rules, and all denies of both. */
static bool whole_allows(const struct policy *whole, const struct policy *part, const struct facts *f)
{
	const struct pol_dest *by = ref_dest(whole, f->scheme, f->host, f->port);

	for (unsigned k = 0; k < 2; k++) {
		if (denied_by(&part[k], f))
			return false;
	}
	for (unsigned k = 0; by != NULL && k < 2; k++)
		for (unsigned i = 0; i < part[k].dest_n; i++)
			if (part[k].dests[i].scheme == by->scheme && part[k].dests[i].port == by->port && strcmp(part[k].dests[i].host.text, by->host.text) == 0 && first_that(&part[k].dests[i], f, false) != NULL)
				return true;
	return false;
}

/* What a policy that extends another says is what both say of it. */
static void composition_unites(void **state)
{
	struct made m = { .seed = number("PROPERTY_SEED", SEED_DEFAULT) + 1 };
	uint64_t r = m.seed;
	struct buf base = { 0 }, top = { 0 }, host = { 0 }, path = { 0 };
	const struct str shadow = STR("never decides on port"); /* one that lists its port and one that does not stay two */
	unsigned allowed = 0, merged = 0, made = 0;

	(void)state;
	while (made < COMPOSED) {
		struct load_reader reader = { read_base, &base };
		struct diag d = { .file = "base.yaml" }, e = { .file = "top.yaml" }, g = { .file = "top.yaml" };
		struct policy part[2], whole;
		bool good;

		made_policy(&base, &r);
		made_policy(&m.text, &r);
		/* the secret is the base's alone; what each says of it is another matter */
		buf_clear(&top);
		for (struct str s = buf_str(&m.text); s.n > 0;) {
			const char *end = memchr(s.p, '\n', s.n);
			struct str line = str_mk(s.p, (size_t)(end - s.p) + 1);

			if (!str_starts(line, STR("secrets:")) && !str_starts(line, STR("  s: {")) && !str_starts(line, STR("    inject:")))
				buf_adds(&top, line);
			s = str_mk(end + 1, s.n - line.n);
		}
		good = policy_parse(&part[0], (const char *)buf_data(&base), buf_len(&base), NULL, &d) == 0 && str_find(buf_str(&d.out), shadow) < 0;
		good = policy_parse(&part[1], (const char *)buf_data(&top), buf_len(&top), NULL, &e) == 0 && str_find(buf_str(&e.out), shadow) < 0 && good;
		buf_addz(&top, "extends: [base.yaml]\n");
		if (good && policy_read(&whole, buf_str(&top), ".", &reader, &g) < 0) {
			if (str_find(buf_str(&g.out), STR("tunnel")) < 0) /* one file's tunnel beside what the other reads */
				fail_msg("%.*s\n%.*s\n%.*s", (int)buf_len(&g.out), (const char *)buf_data(&g.out), (int)buf_len(&top), (const char *)buf_data(&top), (int)buf_len(&base), (const char *)buf_data(&base));
			policy_free(&whole);
			good = false;
		}
		for (unsigned k = 0; good && k < COMPOSED_REQUESTS; k++) {
			const struct pol_dest *near = &whole.dests[util_random(&r) % whole.dest_n];
			struct facts f = { .scheme = near->scheme, .port = near->port, .method = str_of(PICK(&r, asked_methods)), .now_s = 1800000000 };
			struct decision o;

			made_instance(&host, &r, str_mk(near->host.text, near->host.len));
			made_path(&path, &r, false);
			f.host = buf_str(&host);
			f.path = buf_str(&path);
			ref_eval(&whole, &f, &o);
			if (o.why == DECIDE_LOOK || o.why == DECIDE_CONTENT)
				continue;
			if ((o.verdict == VERDICT_ALLOW) != whole_allows(&whole, part, &f)) {
				fprintf(stderr, "--- top\n%.*s--- base\n%.*s", (int)buf_len(&top), (const char *)buf_data(&top), (int)buf_len(&base), (const char *)buf_data(&base));
				differ(&m, &f, "what both files say");
			}
			allowed += o.verdict == VERDICT_ALLOW;
		}
		for (unsigned i = 0; good && i < whole.dest_n; i++)
			merged += whole.dests[i].merged;
		if (good) {
			struct table *t = util_table(&whole);

			table_free(t);
			made++;
			policy_free(&whole);
		}
		policy_free(&part[0]);
		policy_free(&part[1]);
		diag_fini(&d);
		diag_fini(&e);
		diag_fini(&g);
	}
	print_message("%u policies of two files: %u destinations of both, %u of %u requests allowed\n", made, merged, allowed, made * COMPOSED_REQUESTS);
	assert_true(merged > COMPOSED / 10 && allowed > COMPOSED);
	buf_fini(&base);
	buf_fini(&top);
	buf_fini(&host);
	buf_fini(&path);
	buf_fini(&m.text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(table_is_reference),
		cmocka_unit_test(covers_is_inclusion),
		cmocka_unit_test(boundary_is_both),
		cmocka_unit_test(boundaries_are_all),
		cmocka_unit_test(composition_unites),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
