/* SPDX-License-Identifier: Apache-2.0 */
/* YAML tree to policy: every key on a row, every error with its place, all of them in one run. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../common/base/must.h"
#include "model.h"

#define LIST_MAX 100000
#define PORT_MAX 32

struct load {
	struct policy *p;
	struct diag *d;
	const char *dir;
	struct arena *a;
};

static const struct schema_row top_rows[] = { { "version", NULL }, { "name", NULL }, { "description", NULL }, { "secrets", NULL }, { "destinations", NULL },
	{ "sandbox", NULL }, { "explain_denials", NULL }, { "extends", "(files that build on others)" }, { "tests", "(tests in the policy)" },
	{ "mode", "(observing)" }, { "until", "(observing)" }, { "limits", "(limits)" }, { "vars", "(variables)" } };
static const struct schema_row secret_rows[] = { { "env", NULL }, { "file", NULL }, { "hosts", NULL }, { "vault", "(HashiCorp Vault)" }, { "vault_dynamic", "(HashiCorp Vault)" },
	{ "field", "(HashiCorp Vault)" }, { "refresh", "(HashiCorp Vault)" }, { "exec", "(values from a program)" }, { "capture", "(capturing)" } };
static const struct schema_row dest_rows[] = { { "host", NULL }, { "ports", NULL }, { "scheme", NULL }, { "addresses", NULL }, { "connect", NULL }, { "tls", NULL },
	{ "allow", NULL }, { "deny", NULL }, { "inject", NULL }, { "id", NULL }, { "log_query", NULL }, { "paths", NULL }, { "protocol", "(tunnels)" },
	{ "limits", "(limits)" }, { "foreign", "(refusing or passing foreign credentials)" }, { "credential_places", "(more credential places)" }, { "scrub", "(switching scrubbing off)" },
	{ "override", "(files that build on others)" }, { "acknowledge", "(tunnels)" }, { "resolver", "(resolvers)" } };
static const struct schema_row rule_rows[] = { { "method", NULL }, { "path", NULL }, { "id", NULL }, { "regex", "(regular expressions)" }, { "query", "(query conditions)" },
	{ "headers", "(header conditions)" }, { "body", "(content conditions)" }, { "limits", "(limits)" }, { "valid", "(windows of time)" }, { "uses", "(counted grants)" }, { "ask", "(asking)" } };
static const struct schema_row inject_rows[] = { { "secret", NULL }, { "as", NULL }, { "username", NULL }, { "name", NULL }, { "format", NULL }, { "env", NULL },
	{ "when", "(injection by rule)" }, { "in", "(placeholders)" }, { "service", "(SigV4)" }, { "region", "(SigV4)" } };
static const struct schema_row tls_rows[] = { { "ca", NULL }, { "min", NULL }, { "alpn", "(choosing protocols)" }, { "pin", "(pins)" }, { "passthrough", "(tunnels)" } };
static const struct schema_row paths_rows[] = { { "encoded_slash", NULL }, { "empty_segments", NULL }, { "raw", NULL } };
#define ROWS(r) r, sizeof(r) / sizeof((r)[0])

static bool is_text(struct load *l, const struct yaml_node *n, const char *what)
{
	if (n != NULL && n->kind == YAML_TEXT)
		return true;
	diag_error(l->d, n, "%s must be text", what);
	return false;
}

static bool is_map(struct load *l, const struct yaml_node *n, const char *what)
{
	if (n != NULL && n->kind == YAML_MAP)
		return true;
	diag_error(l->d, n, "%s must be a map", what);
	return false;
}

static bool is_list(struct load *l, const struct yaml_node *n, const char *what)
{
	if (n->kind == YAML_LIST && n->n <= LIST_MAX)
		return true;
	diag_error(l->d, n, "%s must be a list", what);
	return false;
}

static bool get_bool(struct load *l, const struct yaml_node *n, const char *what, bool *out)
{
	if (n == NULL)
		return true;
	if (n->kind == YAML_TEXT && !n->quoted && (str_eq(n->text, STR("true")) || str_eq(n->text, STR("false")))) {
		*out = str_eq(n->text, STR("true"));
		return true;
	}
	diag_error(l->d, n, "%s must be true or false", what);
	return false;
}

static struct str source_of(struct load *l, const struct yaml_node *n)
{
	struct buf b = { 0 };
	struct str s;

	buf_addf(&b, "%s:%u", l->d->file, n->line);
	s = arena_str(l->a, buf_str(&b));
	buf_fini(&b);
	return s;
}

static bool name_ok(struct str s)
{
	if (s.n == 0 || s.n > 63)
		return false;
	for (size_t i = 0; i < s.n; i++)
		if (!((s.p[i] >= 'a' && s.p[i] <= 'z') || (s.p[i] >= '0' && s.p[i] <= '9') || (i > 0 && s.p[i] == '-')))
			return false;
	return true;
}

/* --- hosts --------------------------------------------------------------------------------------------------------- */

static bool load_host(struct load *l, const struct yaml_node *n, struct canon_host *h)
{
	const char *reason;

	if (!is_text(l, n, "host"))
		return false;
	if (n->text.n && memchr(n->text.p, '*', n->text.n) != NULL) {
		diag_error(l->d, n, "wildcards in `host` are not supported by this version of sallyport: name each host");
		return false;
	}
	if (str_find(n->text, STR("://")) >= 0 || (n->text.n && memchr(n->text.p, '/', n->text.n) != NULL)) {
		diag_error(l->d, n, "`host` is a name alone, without scheme or path: paths stand in the rules");
		return false;
	}
	if (n->text.n && n->text.p[0] != '[' && memchr(n->text.p, ':', n->text.n) != NULL) {
		diag_error(l->d, n, "a port inside `host`: write `ports: [...]` beside it (an IPv6 address is written \"[::1]\")");
		return false;
	}
	for (size_t i = 0; i < n->text.n; i++) {
		if ((unsigned char)n->text.p[i] >= 0x80) {
			diag_error(l->d, n, "write an internationalised host as its A-label (xn--...)");
			return false;
		}
	}
	if (!canon_host(n->text, true, h, &reason)) {
		diag_error(l->d, n, "`%.*s` is not a host name or address (%s)", (int)n->text.n, n->text.p, reason);
		return false;
	}
	return true;
}

static struct yaml_node **as_list(struct yaml_node **one, unsigned *n)
{
	if ((*one)->kind == YAML_LIST) {
		*n = (*one)->n;
		return (*one)->items;
	}
	*n = 1;
	return one;
}

/* --- secrets ------------------------------------------------------------------------------------------------------- */

static void load_secrets(struct load *l, struct yaml_node *n)
{
	struct policy *p = l->p;

	if (n == NULL || n->kind == YAML_NULL)
		return;
	if (!is_map(l, n, "secrets"))
		return;
	p->secrets = arena_zalloc(l->a, (n->n + 1) * sizeof(*p->secrets));
	for (unsigned i = 0; i < n->n; i++) {
		struct yaml_node *key = n->items[2 * i], *v = n->items[2 * i + 1], *env, *file, *hosts, **items;
		struct pol_secret *s = &p->secrets[p->secret_n];
		unsigned host_n;

		if (!name_ok(key->text)) {
			diag_error(l->d, key, "a secret's name is 1 to 63 of a-z 0-9 -");
			continue;
		}
		if (!is_map(l, v, "a secret") || !schema_keys(l->d, v, ROWS(secret_rows), "a secret"))
			continue;
		env = yaml_get(v, "env");
		file = yaml_get(v, "file");
		hosts = yaml_get(v, "hosts");
		if ((env == NULL) == (file == NULL)) {
			diag_error(l->d, key, "a secret has one source: `env: VARIABLE` or `file: /PATH`");
			continue;
		}
		if (!is_text(l, env ? env : file, "the source of a secret"))
			continue;
		s->name = key->text;
		s->line = key->line;
		s->source = env ? SECRET_SOURCE_ENV : SECRET_SOURCE_FILE;
		s->arg = (env ? env : file)->text;
		if (file != NULL && s->arg.p[0] != '/') {
			diag_error(l->d, file, "`file` must be an absolute path");
			continue;
		}
		if (env != NULL && (s->arg.n > 200 || memchr(s->arg.p, '=', s->arg.n) != NULL)) {
			diag_error(l->d, env, "`env` must be the name of a variable, not a value");
			continue;
		}
		if (hosts == NULL || hosts->kind == YAML_NULL || (hosts->kind == YAML_LIST && hosts->n == 0)) {
			diag_error(l->d, key, "secret `%.*s` says no `hosts`: it could go nowhere; list the hosts it may be sent to", (int)key->text.n, key->text.p);
			continue;
		}
		items = as_list(&hosts, &host_n);
		s->hosts = arena_zalloc(l->a, host_n * sizeof(*s->hosts));
		for (unsigned k = 0; k < host_n; k++) {
			struct canon_host h;

			if (load_host(l, items[k], &h))
				s->hosts[s->host_n++] = arena_str(l->a, str_mk(h.text, h.len));
		}
		s->index = p->secret_n++;
	}
}

static struct pol_secret *find_secret(struct policy *p, struct str name)
{
	for (unsigned i = 0; i < p->secret_n; i++)
		if (str_eq(p->secrets[i].name, name))
			return &p->secrets[i];
	return NULL;
}

/* --- rules --------------------------------------------------------------------------------------------------------- */

static bool load_methods(struct load *l, const struct yaml_node *at, struct str text, struct pol_rule *r)
{
	size_t i = 0;

	r->methods = arena_zalloc(l->a, (text.n + 1) * sizeof(*r->methods));
	while (i <= text.n) {
		size_t b = i;
		struct str m;

		while (i < text.n && text.p[i] != '|' && text.p[i] != ',')
			i++;
		m = str_mk(text.p + b, i - b);
		i++;
		if (str_eq(m, STR("ANY")) || str_eq(m, STR("*"))) {
			r->any = true;
			continue;
		}
		if (m.n == 0 || m.n > 32) {
			diag_error(l->d, at, "a rule is `METHOD PATH`, several methods with | between them: `GET|POST /path`");
			return false;
		}
		for (size_t k = 0; k < m.n; k++) {
			if ((m.p[k] >= 'A' && m.p[k] <= 'Z') || m.p[k] == '-' || m.p[k] == '_')
				continue;
			diag_error(l->d, at, "`%.*s` is not a method (methods are written in capitals)", (int)m.n, m.p);
			return false;
		}
		if (str_eq(m, STR("WEBSOCKET"))) {
			diag_error(l->d, at, "WEBSOCKET rules are not supported by this version of sallyport");
			return false;
		}
		r->methods[r->method_n++] = m;
	}
	return true;
}

static bool load_pattern(struct load *l, const struct yaml_node *at, struct str path, const struct pol_dest *d, struct pol_rule *r)
{
	struct canon_path_opts o = { .encoded_slash_keep = d->encoded_slash, .empty_segments_keep = d->empty_segments, .raw = d->raw, .pattern = true };
	const char *reason;
	struct str wire;

	r->written = path;
	if (str_eq(path, STR("*"))) { /* OPTIONS * */
		r->pattern = path;
		return true;
	}
	if (path.n && memchr(path.p, '?', path.n) != NULL) {
		diag_error(l->d, at, "query conditions are not supported by this version of sallyport; a rule without one lets any query pass");
		return false;
	}
	if (path.n == 0 || path.p[0] != '/') {
		diag_error(l->d, at, "the path of a rule begins with /");
		return false;
	}
	if (!canon_path(l->a, path, &o, &wire, &r->pattern, &reason)) {
		diag_error(l->d, at, "no request can have the path `%.*s` (%s)", (int)path.n, path.p, reason);
		return false;
	}
	for (size_t i = 0; i + 1 < r->pattern.n; i++) {
		size_t e = i + 2;

		if (r->pattern.p[i] != '*' || r->pattern.p[i + 1] != '*')
			continue;
		if (r->pattern.p[i - 1] != '/' || (e < r->pattern.n && r->pattern.p[e] != '/')) {
			diag_error(l->d, at, "`**` must be a whole segment: /a/** or /a/**/b");
			return false;
		}
		i = e;
	}
	return true;
}

static struct str rule_id(struct load *l, const struct pol_dest *d, const struct pol_rule *r)
{
	struct buf b = { 0 };
	struct str s;

	buf_adds(&b, d->id);
	buf_addz(&b, r->deny ? ":deny:" : ":allow:");
	if (r->any)
		buf_addz(&b, "ANY");
	for (unsigned i = 0; i < r->method_n; i++) {
		if (i > 0 || r->any)
			buf_addc(&b, '|');
		buf_adds(&b, r->methods[i]);
	}
	buf_addc(&b, ' ');
	buf_adds(&b, r->written);
	s = arena_str(l->a, buf_str(&b));
	buf_fini(&b);
	return s;
}

static bool load_rule(struct load *l, struct yaml_node *n, const struct pol_dest *d, bool deny, struct pol_rule *r)
{
	struct str text, method, path;
	const char *sp;

	*r = (struct pol_rule){ .deny = deny, .source = source_of(l, n) };
	if (n->kind == YAML_TEXT) {
		text = n->text;
		sp = text.n ? memchr(text.p, ' ', text.n) : NULL;
		if (sp == NULL) {
			diag_error(l->d, n, "`%.*s` is not a rule: a rule is `METHOD PATH`. A comma separates items in [ ]: write `GET|HEAD /x`", (int)text.n, text.p);
			return false;
		}
		method = str_mk(text.p, (size_t)(sp - text.p));
		path = str_mk(sp + 1, text.n - method.n - 1);
		while (path.n && path.p[0] == ' ')
			path = str_mk(path.p + 1, path.n - 1);
		if (path.n && memchr(path.p, ' ', path.n) != NULL) {
			diag_error(l->d, n, "there is a space in the path: is a `- ` missing, so that two rules became one? A space in a path is written %%20");
			return false;
		}
	} else if (n->kind == YAML_MAP) {
		struct yaml_node *m = yaml_get(n, "method"), *p = yaml_get(n, "path"), *id = yaml_get(n, "id");

		if (m == NULL && n->n == 1 && n->items[0]->text.n && memchr(n->items[0]->text.p, ' ', n->items[0]->text.n) != NULL) {
			diag_error(l->d, n, "this rule was read as a map because of `: ` in it: quote the whole rule");
			return false;
		}
		if (!schema_keys(l->d, n, ROWS(rule_rows), "a rule"))
			return false;
		if (m == NULL || p == NULL) {
			diag_error(l->d, n, "a rule as a map has `method` and `path`");
			return false;
		}
		if (!is_text(l, m, "method") || !is_text(l, p, "path") || (id != NULL && !is_text(l, id, "id")))
			return false;
		method = m->text;
		path = p->text;
		if (id != NULL)
			r->id = id->text;
	} else {
		diag_error(l->d, n, "a rule is text, `METHOD PATH`, or a map");
		return false;
	}
	if (!load_methods(l, n, method, r) || !load_pattern(l, n, path, d, r))
		return false;
	if (r->id.n == 0)
		r->id = rule_id(l, d, r);
	return true;
}

static void load_rules(struct load *l, const struct yaml_node *map, const char *key, bool deny, struct pol_dest *d)
{
	struct yaml_node *n = yaml_get(map, key);
	struct pol_rule *rules;

	if (n == NULL || n->kind == YAML_NULL)
		return;
	if (n->kind == YAML_TEXT && str_eq(n->text, STR("tunnel"))) {
		diag_error(l->d, n, "tunnels are not supported by this version of sallyport");
		return;
	}
	if (!is_list(l, n, key))
		return;
	rules = arena_zalloc(l->a, (d->rule_n + n->n + 1) * sizeof(*rules));
	if (d->rule_n)
		memcpy(rules, d->rules, d->rule_n * sizeof(*rules));
	d->rules = rules;
	for (unsigned i = 0; i < n->n; i++)
		if (load_rule(l, n->items[i], d, deny, &d->rules[d->rule_n]))
			d->rule_n++;
}

/* --- destinations -------------------------------------------------------------------------------------------------- */

static void load_ca(struct load *l, const struct yaml_node *n, struct pol_dest *d)
{
	char path[4096];
	BIO *b;
	X509 *x;
	unsigned cap = 0;
	struct stat st;

	if (!is_text(l, n, "tls.ca"))
		return;
	if (n->text.p[0] == '/')
		snprintf(path, sizeof(path), "%.*s", (int)n->text.n, n->text.p);
	else if (l->dir != NULL)
		snprintf(path, sizeof(path), "%s/%.*s", l->dir, (int)n->text.n, n->text.p);
	else {
		diag_error(l->d, n, "tls.ca cannot be read here");
		return;
	}
	if (stat(path, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size > (1 << 20)) {
		diag_error(l->d, n, "cannot read tls.ca %s: %s", path, errno ? strerror(errno) : "not a file of a possible size");
		return;
	}
	if (st.st_mode & 022) {
		diag_error(l->d, n, "tls.ca %s can be written by group or others: chmod go-w it", path);
		return;
	}
	b = BIO_new_file(path, "r");
	if (b == NULL) {
		diag_error(l->d, n, "cannot read tls.ca %s", path);
		return;
	}
	while ((x = PEM_read_bio_X509(b, NULL, NULL, NULL)) != NULL) {
		unsigned char *der = NULL;
		int len = i2d_X509(x, &der);

		X509_free(x);
		if (len <= 0)
			continue;
		if (d->ca_n == cap) {
			struct pol_ca *c = arena_zalloc(l->a, (cap + 8) * sizeof(*c));

			if (d->ca_n)
				memcpy(c, d->cas, d->ca_n * sizeof(*c));
			d->cas = c;
			cap += 8;
		}
		d->cas[d->ca_n++].der = arena_str(l->a, str_mk(der, (size_t)len));
		OPENSSL_free(der);
	}
	BIO_free(b);
	if (d->ca_n == 0)
		diag_error(l->d, n, "tls.ca %s holds no certificate in PEM form", path);
}

static void load_addresses(struct load *l, struct yaml_node *n, struct pol_dest *d)
{
	if (n == NULL || n->kind == YAML_NULL || !is_list(l, n, "addresses"))
		return;
	d->addresses = arena_zalloc(l->a, (n->n + 1) * sizeof(*d->addresses));
	for (unsigned i = 0; i < n->n; i++) {
		struct cidr c;

		if (!is_text(l, n->items[i], "an address range"))
			continue;
		if (!cidr_parse(n->items[i]->text, &c)) {
			diag_error(l->d, n->items[i], "`%.*s` is not an address range such as 10.20.0.0/16 (bits behind the prefix must be zero)", (int)n->items[i]->text.n, n->items[i]->text.p);
			continue;
		}
		if (c.bits < 8) {
			diag_error(l->d, n->items[i], "address ranges wider than /8 are not allowed");
			continue;
		}
		d->addresses[d->address_n++] = c;
	}
}

static void load_connect(struct load *l, const struct yaml_node *n, struct pol_dest *d)
{
	struct canon_host h;
	const char *reason;

	if (n == NULL)
		return;
	if (!is_text(l, n, "connect"))
		return;
	if (!canon_authority(n->text, 0, &h, &d->connect_port, &reason) || h.ip.family == 0) {
		diag_error(l->d, n, "`connect` is ADDRESS:PORT, such as 10.0.0.5:8443 or \"[fd00::5]:8443\"");
		return;
	}
	d->connect_ip = h.ip;
}

static void load_tls(struct load *l, const struct yaml_node *n, struct pol_dest *d)
{
	struct yaml_node *v;

	if (n == NULL || n->kind == YAML_NULL || !is_map(l, n, "tls") || !schema_keys(l->d, n, ROWS(tls_rows), "tls"))
		return;
	if (d->scheme != SCHEME_HTTPS)
		diag_error(l->d, n, "`tls` on a destination with scheme http");
	if ((v = yaml_get(n, "ca")) != NULL)
		load_ca(l, v, d);
	if ((v = yaml_get(n, "min")) != NULL) {
		if (is_text(l, v, "tls.min") && str_eq(v->text, STR("1.2")))
			d->tls_min = 12;
		else if (str_eq(v->text, STR("1.3")))
			d->tls_min = 13;
		else
			diag_error(l->d, v, "tls.min is \"1.2\" or \"1.3\"");
	}
}

static void load_paths(struct load *l, const struct yaml_node *n, struct pol_dest *d)
{
	struct yaml_node *v;

	if (n == NULL || n->kind == YAML_NULL || !is_map(l, n, "paths") || !schema_keys(l->d, n, ROWS(paths_rows), "paths"))
		return;
	for (int i = 0; i < 2; i++) {
		v = yaml_get(n, i ? "empty_segments" : "encoded_slash");
		if (v == NULL)
			continue;
		if (v->kind != YAML_TEXT || !str_eq(v->text, STR("keep")))
			diag_error(l->d, v, "paths.%s can only be `keep`", i ? "empty_segments" : "encoded_slash");
		else if (i)
			d->empty_segments = true;
		else
			d->encoded_slash = true;
	}
	get_bool(l, yaml_get(n, "raw"), "paths.raw", &d->raw);
}

static bool token_ok(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!((s.p[i] >= 'a' && s.p[i] <= 'z') || (s.p[i] >= 'A' && s.p[i] <= 'Z') || (s.p[i] >= '0' && s.p[i] <= '9') || s.p[i] == '-' || s.p[i] == '_'))
			return false;
	return s.n > 0 && s.n < 128;
}

static bool text_key(struct load *l, const struct yaml_node *map, const char *key, struct str *out)
{
	struct yaml_node *n = yaml_get(map, key);

	if (n == NULL)
		return true;
	if (!is_text(l, n, key))
		return false;
	for (size_t i = 0; i < n->text.n; i++) {
		if ((unsigned char)n->text.p[i] < 0x20 || n->text.p[i] == 0x7f) {
			diag_error(l->d, n, "a control character in `%s`", key);
			return false;
		}
	}
	*out = n->text;
	return true;
}

static void load_inject(struct load *l, struct yaml_node *n, struct pol_dest *d)
{
	if (n == NULL || n->kind == YAML_NULL || !is_list(l, n, "inject"))
		return;
	if (d->scheme != SCHEME_HTTPS) {
		diag_error(l->d, n, "no secret goes over scheme http: it would cross the network unprotected");
		return;
	}
	d->injects = arena_zalloc(l->a, (n->n + 1) * sizeof(*d->injects));
	for (unsigned i = 0; i < n->n; i++) {
		struct yaml_node *e = n->items[i], *secret, *as;
		struct pol_inject *in = &d->injects[d->inject_n];
		bool ok = false;

		if (!is_map(l, e, "an injection") || !schema_keys(l->d, e, ROWS(inject_rows), "an injection"))
			continue;
		secret = yaml_get(e, "secret");
		as = yaml_get(e, "as");
		if (secret == NULL || as == NULL) {
			diag_error(l->d, e, "an injection has `secret` and `as`");
			continue;
		}
		if (!is_text(l, secret, "secret") || !is_text(l, as, "as"))
			continue;
		in->secret = find_secret(l->p, secret->text);
		if (in->secret == NULL) {
			diag_error(l->d, secret, "there is no secret `%.*s` under `secrets`", (int)secret->text.n, secret->text.p);
			continue;
		}
		for (unsigned k = 0; k < in->secret->host_n; k++)
			ok = ok || str_eq(in->secret->hosts[k], str_mk(d->host.text, d->host.len));
		if (!ok) {
			diag_error(l->d, secret, "secret `%.*s` may not go to %s: its `hosts` does not list it", (int)secret->text.n, secret->text.p, d->host.text);
			continue;
		}
		if (!text_key(l, e, "username", &in->username) || !text_key(l, e, "name", &in->name) || !text_key(l, e, "format", &in->format) || !text_key(l, e, "env", &in->env))
			continue;
		if (str_eq(as->text, STR("bearer")))
			in->kind = INJECT_BEARER;
		else if (str_eq(as->text, STR("basic")))
			in->kind = INJECT_BASIC;
		else if (str_eq(as->text, STR("header")))
			in->kind = INJECT_HEADER;
		else {
			diag_error(l->d, as, "`as: %.*s` is not supported by this version of sallyport: bearer, basic or header", (int)as->text.n, as->text.p);
			continue;
		}
		if (in->kind == INJECT_HEADER) {
			static const char *const never[] = { "host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer", "expect", "accept-encoding", "range" };
			bool bad_name = !token_ok(in->name);

			for (size_t k = 0; k < sizeof(never) / sizeof(never[0]); k++)
				bad_name = bad_name || str_ieq(in->name, str_of(never[k]));
			if (bad_name) {
				diag_error(l->d, e, "`as: header` needs `name`, a field that is not part of the framing");
				continue;
			}
			if (in->format.n && str_find(in->format, STR("{}")) < 0) {
				diag_error(l->d, e, "`format` must have {} where the value goes");
				continue;
			}
		} else if (in->name.n || in->format.n) {
			diag_error(l->d, e, "`name` and `format` belong to `as: header`");
			continue;
		}
		if (in->kind != INJECT_BASIC && in->username.n) {
			diag_error(l->d, e, "`username` belongs to `as: basic`");
			continue;
		}
		if (in->env.n && !token_ok(in->env)) {
			diag_error(l->d, e, "`env` must be the name of a variable");
			continue;
		}
		for (unsigned k = 0; k < d->inject_n; k++) {
			struct str a = d->injects[k].kind == INJECT_HEADER ? d->injects[k].name : STR("Authorization");
			struct str b = in->kind == INJECT_HEADER ? in->name : STR("Authorization");

			if (str_ieq(a, b)) {
				diag_error(l->d, e, "two injections for the one place `%.*s`", (int)b.n, b.p);
				ok = false;
			}
		}
		if (!ok)
			continue;
		in->secret->used = true;
		d->inject_n++;
	}
}

static void add_dest(struct load *l, const struct yaml_node *n, const struct pol_dest *proto, const struct canon_host *h, uint16_t port, unsigned count)
{
	struct policy *p = l->p;
	struct pol_dest *d = &p->dests[p->dest_n];
	struct yaml_node *id = yaml_get(n, "id");
	struct buf b = { 0 };

	for (unsigned i = 0; i < p->dest_n; i++) {
		if (p->dests[i].scheme == proto->scheme && p->dests[i].port == port && strcmp(p->dests[i].host.text, h->text) == 0) {
			diag_error(l->d, n, "%s on port %u is a destination already (line %u): put the rules together", h->text, port, p->dests[i].line);
			return;
		}
	}
	*d = *proto;
	d->host = *h;
	d->port = port;
	d->line = n->line;
	d->source = source_of(l, n);
	if (id != NULL && id->kind == YAML_TEXT && count == 1) {
		d->id = id->text;
	} else {
		buf_addf(&b, h->ip.family == 6 ? "[%s]" : "%s", h->text);
		if (proto->port_written)
			buf_addf(&b, ":%u", port);
		if (id != NULL && id->kind == YAML_TEXT) {
			buf_addc(&b, '@');
			buf_adds(&b, id->text);
		}
		d->id = arena_str(l->a, buf_str(&b));
		buf_fini(&b);
	}
	load_rules(l, n, "allow", false, d);
	load_rules(l, n, "deny", true, d);
	load_inject(l, yaml_get(n, "inject"), d);
	p->dest_n++;
}

static void load_dest(struct load *l, struct yaml_node *n, unsigned *cap)
{
	struct pol_dest proto = { .scheme = SCHEME_HTTPS };
	struct yaml_node *host, *ports, *v, **hosts;
	uint16_t port[PORT_MAX] = { 0 };
	unsigned host_n, port_n = 0;

	if (!is_map(l, n, "a destination") || !schema_keys(l->d, n, ROWS(dest_rows), "a destination"))
		return;
	host = yaml_get(n, "host");
	if (host == NULL || host->kind == YAML_NULL) {
		diag_error(l->d, n, "a destination needs `host`");
		return;
	}
	if ((v = yaml_get(n, "scheme")) != NULL) {
		if (v->kind == YAML_TEXT && str_eq(v->text, STR("http")))
			proto.scheme = SCHEME_HTTP;
		else if (v->kind != YAML_TEXT || !str_eq(v->text, STR("https")))
			diag_error(l->d, v, "scheme is https (the default) or http");
	}
	if ((ports = yaml_get(n, "ports")) != NULL && ports->kind != YAML_NULL) {
		if (!is_list(l, ports, "ports"))
			return;
		proto.port_written = true;
		for (unsigned i = 0; i < ports->n; i++) {
			if (port_n == PORT_MAX || ports->items[i]->kind != YAML_TEXT || !canon_port(ports->items[i]->text, &port[port_n])) {
				diag_error(l->d, ports->items[i], "a port is a number from 1 to 65535 (at most %d of them)", PORT_MAX);
				return;
			}
			port_n++;
		}
		if (port_n == 0) {
			diag_error(l->d, ports, "`ports` is empty: leave it out for the default, or list ports");
			return;
		}
	} else {
		port[port_n++] = proto.scheme == SCHEME_HTTPS ? 443 : 80;
	}
	if ((v = yaml_get(n, "id")) != NULL && !is_text(l, v, "id"))
		return;
	get_bool(l, yaml_get(n, "log_query"), "log_query", &proto.log_query);
	load_addresses(l, yaml_get(n, "addresses"), &proto);
	load_connect(l, yaml_get(n, "connect"), &proto);
	load_tls(l, yaml_get(n, "tls"), &proto);
	load_paths(l, yaml_get(n, "paths"), &proto);
	hosts = as_list(&host, &host_n);
	for (unsigned i = 0; i < host_n; i++) {
		struct canon_host h;

		if (!load_host(l, hosts[i], &h))
			continue;
		for (unsigned k = 0; k < port_n; k++) {
			if (l->p->dest_n == *cap) {
				struct pol_dest *more = arena_zalloc(l->a, (size_t)*cap * 2 * sizeof(*more));

				memcpy(more, l->p->dests, l->p->dest_n * sizeof(*more));
				l->p->dests = more;
				*cap *= 2;
			}
			add_dest(l, n, &proto, &h, port[k], host_n * port_n);
		}
	}
}

void policy_load_sandbox(struct policy *p, struct yaml_node *n, struct diag *d);

int policy_parse(struct policy *p, const char *text, size_t n, const char *dir, struct diag *d)
{
	struct load l = { .p = p, .d = d, .dir = dir, .a = &p->mem };
	struct yaml_node *root, *v;
	unsigned cap = 16;

	memset(p, 0, sizeof(*p));
	p->explain_denials = true;
	p->name = STR("unnamed");
	root = yaml_parse(&p->mem, text, n, d);
	if (root == NULL)
		return -1;
	if (root->kind == YAML_NULL) {
		diag_error(d, root, "the policy is empty; the least one is `version: 1`, which denies everything");
		return -1;
	}
	if (!is_map(&l, root, "a policy"))
		return -1;
	schema_keys(d, root, ROWS(top_rows), "a policy");
	v = yaml_get(root, "version");
	if (v == NULL)
		diag_error(d, root, "`version: 1` is missing");
	else if (v->kind != YAML_TEXT || !str_eq(v->text, STR("1")))
		diag_error(d, v, "this version of sallyport reads `version: 1` only");
	if ((v = yaml_get(root, "name")) != NULL) {
		if (v->kind != YAML_TEXT || !name_ok(v->text))
			diag_error(d, v, "`name` is 1 to 63 of a-z 0-9 -, not beginning with -");
		else
			p->name = v->text;
	}
	if ((v = yaml_get(root, "description")) != NULL && is_text(&l, v, "description"))
		p->description = v->text;
	get_bool(&l, yaml_get(root, "explain_denials"), "explain_denials", &p->explain_denials);
	load_secrets(&l, yaml_get(root, "secrets"));
	p->dests = arena_zalloc(&p->mem, cap * sizeof(*p->dests));
	if ((v = yaml_get(root, "destinations")) != NULL && v->kind != YAML_NULL && is_list(&l, v, "destinations"))
		for (unsigned i = 0; i < v->n; i++)
			load_dest(&l, v->items[i], &cap);
	if ((v = yaml_get(root, "sandbox")) != NULL && v->kind != YAML_NULL && is_map(&l, v, "sandbox"))
		policy_load_sandbox(p, v, d);
	for (unsigned i = 0; i < p->secret_n; i++) {
		struct yaml_node at = { .line = p->secrets[i].line, .col = 3 };

		if (!p->secrets[i].used)
			diag_warning(d, &at, "secret `%.*s` is not injected anywhere", (int)p->secrets[i].name.n, p->secrets[i].name.p);
	}
	return d->errors ? -1 : 0;
}

int policy_load(struct policy *p, const char *path, struct diag *d)
{
	struct buf b = { 0 };
	char dir[4096];
	const char *slash = strrchr(path, '/');
	int fd, ret;
	struct stat st;
	ssize_t k;

	memset(p, 0, sizeof(*p));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size > YAML_SIZE_MAX) {
		buf_addf(&d->out, "%s: error: %s\n", path, fd < 0 ? strerror(errno) : "not a regular file of a possible size");
		d->errors++;
		if (fd >= 0)
			close(fd);
		return -1;
	}
	while ((k = read(fd, buf_room(&b, 65536), 65536)) > 0)
		buf_commit(&b, (size_t)k);
	close(fd);
	snprintf(dir, sizeof(dir), "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
	ret = policy_parse(p, (const char *)buf_data(&b), buf_len(&b), dir[0] ? dir : "/", d);
	buf_fini(&b);
	return ret;
}

void policy_free(struct policy *p)
{
	arena_fini(&p->mem);
}
