/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Authority beside requests, as statements: one that grants widens where it appears, one that restricts where it goes.
 * What is neither (another address to go to, another certificate authority) counts as both.
 */
#include <openssl/evp.h>
#include <stdlib.h>

#include "../common/base/must.h"
#include "diff.h"
#include "load.h"

enum kind { GRANTS = 0,
	    RESTRICTS,
	    EITHER };
struct statement {
	enum kind kind;
	struct str text;
	uint64_t bound; /* of a limit: smaller is narrower, 0 none */
	bool is_bound, counted; /* counted: it is there, or not; of others each destination has one */
};
struct statements {
	struct arena *a;
	struct statement *s;
	size_t n, cap;
};

static struct statement *add(struct statements *ss, enum kind kind, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static struct statement *add(struct statements *ss, enum kind kind, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (ss->n == ss->cap) {
		ss->cap = ss->cap ? ss->cap * 2 : 64;
		ss->s = must_realloc(ss->s, ss->cap * sizeof(*ss->s));
	}
	ss->s[ss->n] = (struct statement){ .kind = kind, .text = arena_str(ss->a, str_of(text)) };
	return &ss->s[ss->n++];
}

static void add_bound(struct statements *ss, const char *what, const char *key, uint64_t value)
{
	struct statement *s = add(ss, RESTRICTS, "%s: limits.%s", what, key);

	s->is_bound = true;
	s->bound = value;
}

static const char *window_name(uint32_t seconds) { return seconds == 1 ? "s" : seconds == 60 ? "m" : seconds == 3600 ? "h" : "d"; }

static void add_counted(struct statements *ss, const char *what, const char *key, const char *in, uint64_t amount)
{
	struct statement *s = add(ss, RESTRICTS, "%s: %s%s", what, key, in);

	s->is_bound = s->counted = true;
	s->bound = amount;
}

static void of_rates(struct statements *ss, const char *what, const struct pol_limits *l)
{
	static const char *const names[RATE_KINDS] = { [RATE_REQUESTS] = "limits.requests per ", [RATE_UPLOAD] = "limits.upload per ", [RATE_DOWNLOAD] = "limits.download per ", [RATE_CONCURRENT] = "limits.concurrent" };

	for (unsigned i = 0; i < l->rate_n; i++)
		add_counted(ss, what, names[l->rates[i].kind], l->rates[i].window_s ? window_name(l->rates[i].window_s) : "", l->rates[i].amount);
}

/* Limits of single rules, by their ids. */
static void of_rules(struct statements *ss, const struct pol_dest *d)
{
	char what[300];

	for (unsigned i = 0; i < d->rule_n; i++) {
		const struct pol_rule *r = &d->rules[i];
		const struct dest_limits *s = &r->limits.sizes;
		const struct {
			const char *key;
			uint64_t value;
		} sizes[] = { { "request_body", s->request_body }, { "response_body", s->response_body }, { "head", s->head_ms }, { "idle", s->idle_ms }, { "total", s->total_ms } };

		if (r->deny)
			continue;
		snprintf(what, sizeof(what), "rule %.*s", DIAG_STR(r->id));
		of_rates(ss, what, &r->limits);
		for (unsigned k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++)
			if (sizes[k].value != 0)
				add_counted(ss, what, "limits.", sizes[k].key, sizes[k].value);
		if (r->cond != NULL && (r->cond->parts & COND_USES))
			add_counted(ss, what, "uses", "", r->cond->uses);
	}
}

static void of_secret(struct statements *ss, const struct pol_secret *s)
{
	static const char *const sources[SECRET_SOURCES] = { "", "the variable", "the file", "the credential", "Vault's", "the dynamic secret", "the program" };
	static const char *const tokens[SECRET_TOKENS] = { "", "an OAuth token", "a GitHub App's token", "a service account's token" };
	const char *more = s->follow ? ", links followed" : "";

	add(ss, GRANTS, "secret %.*s comes from %s %.*s%s", DIAG_STR(s->name), sources[s->source], DIAG_STR(s->arg), more);
	if (s->token != SECRET_TOKEN_NONE)
		add(ss, EITHER, "secret %.*s obtains %s", DIAG_STR(s->name), tokens[s->token]);
	for (unsigned i = 0; i < s->param_n; i++)
		if (s->params[i].tag != SECRET_PARAM_CA)
			add(ss, EITHER, "secret %.*s: parameter %u is %.*s", DIAG_STR(s->name), (unsigned)s->params[i].tag, DIAG_STR(s->params[i].text));
	for (unsigned i = 0; i < s->host_n; i++)
		add(ss, GRANTS, "secret %.*s may go to %.*s", DIAG_STR(s->name), DIAG_STR(s->hosts[i]));
}

static void of_dest(struct statements *ss, const struct pol_dest *d)
{
	char name[CANON_HOST_MAX + 32], ip[IP_TEXT_MAX];
	bool allows = false;
	uint8_t sha[32];

	for (unsigned i = 0; i < d->rule_n; i++)
		allows = allows || !d->rules[i].deny;
	if (!allows) /* what it is like does not matter */
		return;
	snprintf(name, sizeof(name), "%s://%s:%u", scheme_name(d->scheme), d->host.text, d->port);
	add(ss, GRANTS, "%s is a destination", name);
	add(ss, GRANTS, d->address_n ? "%s: private addresses, as far as they are listed" : "%s: any public address", name);
	for (unsigned i = 0; i < d->address_n; i++) {
		ip_format(&d->addresses[i].net, ip);
		add(ss, GRANTS, "%s: addresses %s/%u", name, ip, d->addresses[i].bits);
	}
	if (d->connect_port != 0) {
		ip_format(&d->connect_ip, ip);
		add(ss, EITHER, "%s: connect %s, port %u", name, ip, d->connect_port);
	}
	if (d->tls_min != 0)
		add(ss, RESTRICTS, "%s: tls.min 1.%u", name, d->tls_min - 10u);
	if (d->ca_n > 0)
		add(ss, EITHER, "%s: a certificate authority of its own", name);
	for (unsigned i = 0; i < d->ca_n; i++) {
		MUST(EVP_Digest(d->cas[i].p, d->cas[i].n, sha, NULL, EVP_sha256(), NULL) == 1);
		add(ss, GRANTS, "%s: trusts the certificate with SHA-256 %02x%02x%02x%02x%02x%02x...", name, sha[0], sha[1], sha[2], sha[3], sha[4], sha[5]);
	}
	if (d->crl_n > 0)
		add(ss, RESTRICTS, "%s: takes only certificates that the lists under tls.crl cover", name);
	for (unsigned i = 0; i < d->crl_n; i++) {
		MUST(EVP_Digest(d->crls[i].p, d->crls[i].n, sha, NULL, EVP_sha256(), NULL) == 1);
		add(ss, EITHER, "%s: tls.crl with SHA-256 %02x%02x%02x%02x%02x%02x...", name, sha[0], sha[1], sha[2], sha[3], sha[4], sha[5]);
	}
	if (d->pin_n > 0)
		add(ss, RESTRICTS, "%s: the chain holds one of the keys under tls.pin", name);
	for (unsigned i = 0; i < d->pin_n; i++)
		add(ss, GRANTS, "%s: takes the key with SHA-256 %02x%02x%02x%02x%02x%02x...", name, d->pins[i][0], d->pins[i][1], d->pins[i][2], d->pins[i][3], d->pins[i][4], d->pins[i][5]);
	if (d->alpn_h1 != d->alpn_h2)
		add(ss, EITHER, "%s: tls.alpn %s alone", name, d->alpn_h2 ? "h2" : "http/1.1");
	if (d->paths.encoded_slash_keep)
		add(ss, GRANTS, "%s: paths.encoded_slash keep", name);
	if (d->paths.empty_segments_keep)
		add(ss, GRANTS, "%s: paths.empty_segments keep", name);
	if (d->paths.raw)
		add(ss, GRANTS, "%s: paths.raw", name);
	if (d->foreign != FOREIGN_REPLACE)
		add(ss, d->foreign == FOREIGN_PASS ? GRANTS : RESTRICTS, "%s: foreign %s", name, d->foreign == FOREIGN_PASS ? "pass" : "refuse");
	if (d->scrub_off)
		add(ss, GRANTS, "%s: scrub off", name);
	for (unsigned i = 0; i < d->place_n; i++)
		add(ss, RESTRICTS, "%s: credential_places %.*s", name, DIAG_STR(d->places[i]));
	if (d->log_query)
		add(ss, EITHER, "%s: log_query", name);
	for (unsigned i = 0; i < d->inject_n; i++) {
		const struct pol_inject *in = &d->injects[i];

		if (in->when_n == 0)
			add(ss, GRANTS, "%s: injects %.*s as %s", name, DIAG_STR(in->secret->name), load_inject_kind(in->kind));
		for (unsigned k = 0; k < in->when_n; k++)
			add(ss, GRANTS, "%s: injects %.*s as %s when %.*s", name, DIAG_STR(in->secret->name), load_inject_kind(in->kind), DIAG_STR(in->when[k]));
		for (unsigned k = 0; k < in->env_n; k += 2)
			add(ss, GRANTS, "%s: the variable %.*s stands for %.*s", name, DIAG_STR(in->env[k]), DIAG_STR(in->secret->name));
	}
	add_bound(ss, name, "request_body", d->limits.sizes.request_body);
	add_bound(ss, name, "response_body", d->limits.sizes.response_body);
	add_bound(ss, name, "head", d->limits.sizes.head_ms);
	add_bound(ss, name, "idle", d->limits.sizes.idle_ms);
	add_bound(ss, name, "total", d->limits.sizes.total_ms);
	of_rates(ss, name, &d->limits);
	of_rules(ss, d);
}

static enum kind of_sandbox_key(struct str key)
{
	static const char *const restricts[] = { "filesystem.hide", "filesystem.protect", "require" }, *const grants[] = { "filesystem.write", "filesystem.read", "process.environment.keep" };

	for (size_t i = 0; i < sizeof(restricts) / sizeof(restricts[0]); i++)
		if (str_starts(key, str_of(restricts[i])))
			return RESTRICTS;
	for (size_t i = 0; i < sizeof(grants) / sizeof(grants[0]); i++)
		if (str_starts(key, str_of(grants[i])))
			return GRANTS;
	return EITHER;
}

/* Resources are bounds; the rest is said or not. */
static void of_sandbox(struct statements *ss, const struct pol_kv *kv)
{
	struct statement *s;
	uint64_t n;

	if ((str_starts(kv->key, STR("resources.")) || str_eq(kv->key, STR("filesystem.scratch"))) && str_u64(kv->value, UINT64_MAX, &n)) {
		s = add(ss, RESTRICTS, "sandbox: %.*s", DIAG_STR(kv->key));
		s->is_bound = s->counted = true;
		s->bound = n;
		return;
	}
	if (kv->value.n == 0 && str_eq(kv->key, STR("process.environment.keep"))) /* an empty list: none is kept, as without it */
		return;
	add(ss, of_sandbox_key(kv->key), "sandbox: %.*s %.*s", DIAG_STR(kv->key), DIAG_STR(kv->value));
}

static void of_policy(struct statements *ss, const struct policy *p)
{
	for (unsigned i = 0; i < p->secret_n; i++)
		of_secret(ss, &p->secrets[i]);
	for (unsigned i = 0; i < p->dest_n; i++)
		of_dest(ss, &p->dests[i]);
	add_bound(ss, "the policy", "request_body", p->limits.sizes.request_body);
	add_bound(ss, "the policy", "response_body", p->limits.sizes.response_body);
	add_bound(ss, "the policy", "head", p->limits.sizes.head_ms);
	add_bound(ss, "the policy", "idle", p->limits.sizes.idle_ms);
	add_bound(ss, "the policy", "total", p->limits.sizes.total_ms);
	of_rates(ss, "the policy", &p->limits);
	if (p->observe_until != 0) {
		struct statement *s = add(ss, GRANTS, "mode observe, until (seconds since 1970)");

		s->is_bound = s->counted = true;
		s->bound = p->observe_until;
	}
	if (p->explain_denials)
		add(ss, EITHER, "explain_denials: refusals are explained inside");
	for (unsigned i = 0; i < p->sandbox_n; i++)
		of_sandbox(ss, &p->sandbox[i]);
}

static int by_text(const void *a, const void *b)
{
	const struct statement *x = a, *y = b;
	size_t n = x->text.n < y->text.n ? x->text.n : y->text.n;
	int r = memcmp(x->text.p, y->text.p, n);

	return r ? r : x->text.n < y->text.n ? -1
					     : x->text.n > y->text.n;
}

static void changed(struct diff_changes *cs, const struct statement *s, bool appears)
{
	struct diff_change *c;
	struct buf b = { 0 };

	if (s->is_bound && !s->counted) /* a destination with its limits, none of which is set */
		return;
	c = diff_add(cs);
	c->wider = s->kind == EITHER || (s->kind == GRANTS) == appears;
	c->narrower = s->kind == EITHER || (s->kind == GRANTS) != appears;
	buf_addf(&b, "%s: %.*s", appears ? "new" : "gone", DIAG_STR(s->text));
	if (s->counted)
		buf_addf(&b, ": %llu", (unsigned long long)s->bound);
	c->text = arena_str(&cs->a, buf_str(&b));
	buf_fini(&b);
}

static void bound_changed(struct diff_changes *cs, const struct statement *was, const struct statement *is)
{
	struct diff_change *c;
	struct buf b = { 0 };

	if (was->bound == is->bound)
		return;
	c = diff_add(cs);
	c->wider = is->bound == 0 || (was->bound != 0 && is->bound > was->bound);
	c->narrower = !c->wider;
	buf_addf(&b, "%.*s: from ", DIAG_STR(was->text));
	buf_addf(&b, was->bound ? "%llu" : "none", (unsigned long long)was->bound);
	buf_addf(&b, is->bound ? " to %llu" : " to none", (unsigned long long)is->bound);
	c->text = arena_str(&cs->a, buf_str(&b));
	buf_fini(&b);
}

void diff_authority(const struct policy *old, const struct policy *new, struct diff_changes *cs)
{
	struct statements x = { .a = &cs->a }, y = { .a = &cs->a };
	size_t i = 0, k = 0;

	of_policy(&x, old);
	of_policy(&y, new);
	qsort(x.s, x.n, sizeof(*x.s), by_text);
	qsort(y.s, y.n, sizeof(*y.s), by_text);
	while (i < x.n || k < y.n) {
		int r = i == x.n ? 1 : k == y.n ? -1
						: by_text(&x.s[i], &y.s[k]);

		if (r < 0)
			changed(cs, &x.s[i++], false);
		else if (r > 0)
			changed(cs, &y.s[k++], true);
		else
			bound_changed(cs, &x.s[i++], &y.s[k++]);
	}
	free(x.s);
	free(y.s);
}
