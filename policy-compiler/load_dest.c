/* SPDX-License-Identifier: Apache-2.0 */
/* A destination: read once, then made into one for each host and port. */
#include "../common/policy/host_pattern.h"
#include "load.h"

#define PORTS_MAX 64
#define PINS_MAX 32
#define PLACES_MAX 32

struct dest_ctx {
	struct load *l;
	struct pol_dest proto;
	bool over; /* override: true */
	struct str id;
	struct canon_host *hosts;
	unsigned host_n;
	const struct yaml_node **host_nodes;
	uint16_t ports[PORTS_MAX];
	unsigned port_n;
	const struct yaml_node *scheme_node, *tunnel_node, *tls_node, *paths_node, *log_query_node, *limits_node; /* the keys, or NULL */
	bool allows_tunnel;
};

/* --- host ---------------------------------------------------------------------------------------------------------- */

static void on_host(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct dest_ctx *c = arg;

	(void)row;
	if (v->n == 0)
		ERROR_AT(c->l, v->node, "`host` is an empty list");
	c->hosts = arena_zalloc(c->l->a, (v->n + 1ul) * sizeof(*c->hosts));
	c->host_nodes = arena_zalloc(c->l->a, (v->n + 1ul) * sizeof(const struct yaml_node *));
	for (unsigned i = 0; i < v->n; i++) {
		c->host_nodes[c->host_n] = v->items[i];
		if (load_host(c->l, v->items[i], &c->hosts[c->host_n]))
			c->host_n++;
	}
}

static void said(struct dest_ctx *c, unsigned which, const struct schema_value *v)
{
	c->proto.said |= 1u << which;
	c->proto.said_over |= (unsigned)c->over << which;
	c->proto.said_at[which] = place_of(c->l, v->key);
}

static void on_override(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	(void)row;
	((struct dest_ctx *)arg)->over = v->truth;
}

/* --- where it goes ------------------------------------------------------------------------------------------------- */

static void on_scheme(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct dest_ctx *c = arg;

	(void)row;
	c->scheme_node = v->key;
	c->proto.scheme = str_eq(v->text, STR("http")) ? SCHEME_HTTP : SCHEME_HTTPS;
}

static void on_protocol(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct dest_ctx *c = arg;

	(void)row;
	if (c->scheme_node != NULL)
		ERROR_AT(c->l, c->scheme_node, "`scheme` beside `protocol: tcp`: what is not HTTP has none");
	c->proto.scheme = SCHEME_TCP;
	c->proto.tunnel = true;
	c->tunnel_node = v->key;
}

static void on_ports(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct dest_ctx *c = arg;

	(void)row;
	if (v->n == 0)
		ERROR_AT(c->l, v->node, "`ports` is empty: leave it out for the default, or list ports");
	c->proto.port_written = true;
	for (unsigned i = 0; i < v->n && c->port_n < PORTS_MAX; i++) {
		if (canon_port(v->items[i]->text, &c->ports[c->port_n]))
			c->port_n++;
		else
			ERROR_AT(c->l, v->items[i], "a port is a number from 1 to 65535");
	}
}

static void on_addresses(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct dest_ctx *c = arg;

	(void)row;
	if (v->n == 0) {
		ERROR_AT(c->l, v->node, "`addresses` is empty: no address would do; leave it out, or list ranges");
		return;
	}
	c->proto.addresses = arena_zalloc(c->l->a, v->n * sizeof(struct cidr));
	for (unsigned i = 0; i < v->n; i++) {
		struct cidr *r = &c->proto.addresses[c->proto.address_n];

		if (!cidr_parse(v->items[i]->text, r))
			ERROR_AT(c->l, v->items[i], "`%.*s` is not an address range such as 10.20.0.0/16 or fd00:1::/32 (bits behind the prefix are zero)", DIAG_STR(v->items[i]->text));
		else if (r->bits < 8)
			ERROR_AT(c->l, v->items[i], "an address range is not wider than /8");
		else
			c->proto.address_n++;
	}
}

static void on_connect(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct dest_ctx *c = arg;
	struct canon_host h;
	const char *reason, *why;
	uint16_t port;
	bool listed = c->proto.address_n == 0;

	(void)row;
	if (!canon_authority(v->text, 0, &h, &port, &reason) || h.ip.family == 0) {
		ERROR_AT(c->l, v->node, "`connect` is ADDRESS:PORT, such as 10.0.0.5:8443 or \"[fd00::5]:8443\"");
		return;
	}
	for (unsigned i = 0; i < c->proto.address_n; i++)
		listed = listed || cidr_has(&c->proto.addresses[i], &h.ip);
	if (!listed || (c->proto.address_n == 0 && ip_classify(&h.ip, &why) != IP_PUBLIC))
		ERROR_AT(c->l, v->node, "`addresses` does not allow %s, where `connect` goes", h.text);
	c->proto.connect_ip = h.ip;
	c->proto.connect_port = port;
	said(c, SAID_CONNECT, v);
}

/* --- tls, paths ---------------------------------------------------------------------------------------------------- */

static void on_ca(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct dest_ctx *c = arg;

	(void)row;
	load_ca(c->l, v->node, &c->proto);
	said(c, SAID_CA, v);
}

static void on_crl(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct dest_ctx *c = arg;

	(void)row;
	load_crl(c->l, v->node, &c->proto);
	said(c, SAID_CRL, v);
}

static void on_tls_min(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	(void)row;
	((struct dest_ctx *)arg)->proto.tls_min = str_eq(v->text, STR("1.2")) ? 12 : 13;
	said(arg, SAID_TLS_MIN, v);
}

static void on_alpn(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct dest_ctx *c = arg;

	(void)row;
	for (unsigned i = 0; i < v->n; i++) {
		bool h2 = str_eq(v->items[i]->text, STR("h2")), *which = h2 ? &c->proto.alpn_h2 : &c->proto.alpn_h1;

		if (!h2 && !str_eq(v->items[i]->text, STR("http/1.1")))
			ERROR_AT(c->l, v->items[i], "`alpn` lists h2, http/1.1 or both");
		else if (*which)
			ERROR_AT(c->l, v->items[i], "`%.*s` is listed twice", DIAG_STR(v->items[i]->text));
		*which = true;
	}
	if (v->n == 0)
		ERROR_AT(c->l, v->node, "`alpn` is empty: no protocol would do; leave it out, or list h2, http/1.1 or both");
}

static void on_pin(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct dest_ctx *c = arg;

	(void)row;
	load_pins(c->l, v, &c->proto);
}

static void on_passthrough(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct dest_ctx *c = arg;

	(void)row;
	c->proto.tunnel = c->proto.tunnel || v->truth;
	if (v->truth)
		c->tunnel_node = v->key;
}

static const struct schema_row tls_rows[] = {
	{ "ca", SCHEMA_TEXT, false, on_ca, NULL, 0, 0 },
	{ "crl", SCHEMA_TEXT, false, on_crl, NULL, 0, 0 },
	{ "min", SCHEMA_WORD, false, on_tls_min, "1.2|1.3", 0, 0 },
	{ "alpn", SCHEMA_TEXTS, false, on_alpn, NULL, 0, 2 },
	{ "pin", SCHEMA_TEXTS, false, on_pin, NULL, 0, PINS_MAX },
	{ "passthrough", SCHEMA_BOOL, false, on_passthrough, NULL, 0, 0 },
};

static void on_tls(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct dest_ctx *c = arg;

	(void)row;
	c->tls_node = v->key;
	if (c->proto.scheme != SCHEME_HTTPS)
		ERROR_AT(c->l, v->key, "`tls` on a destination with %s", c->proto.scheme == SCHEME_TCP ? "protocol tcp, whose octets nobody looks at" : "scheme http");
	schema_parse(c->l->d, v->node, "tls", SCHEMA_ROWS(tls_rows), c);
}

static void on_encoded_slash(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	(void)row;
	((struct dest_ctx *)arg)->proto.paths.encoded_slash_keep = true;
	said(arg, SAID_ENCODED_SLASH, v);
}

static void on_empty_segments(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	(void)row;
	((struct dest_ctx *)arg)->proto.paths.empty_segments_keep = true;
	said(arg, SAID_EMPTY_SEGMENTS, v);
}

static void on_raw(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	(void)row;
	((struct dest_ctx *)arg)->proto.paths.raw = v->truth;
	said(arg, SAID_RAW, v);
}

static const struct schema_row paths_rows[] = {
	{ "encoded_slash", SCHEMA_WORD, false, on_encoded_slash, "keep", 0, 0 },
	{ "empty_segments", SCHEMA_WORD, false, on_empty_segments, "keep", 0, 0 },
	{ "raw", SCHEMA_BOOL, false, on_raw, NULL, 0, 0 },
};

static void on_paths(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct dest_ctx *c = arg;

	(void)row;
	c->paths_node = v->key;
	schema_parse(c->l->d, v->node, "paths", SCHEMA_ROWS(paths_rows), c);
}

/* --- rules --------------------------------------------------------------------------------------------------------- */

struct tunnel_ctx {
	struct load *l;
	struct pol_rule *r;
};

static void on_tunnel(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	(void)row;
	if (!v->truth)
		ERROR_AT(((struct tunnel_ctx *)arg)->l, v->node, "`tunnel: false` allows nothing: leave `allow` out");
}

static void on_tunnel_valid(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct tunnel_ctx *c = arg;

	(void)row;
	load_valid(c->l, v->node, c->r);
}

static const struct schema_row tunnel_rows[] = {
	{ "tunnel", SCHEMA_BOOL, true, on_tunnel, "`allow` is a list of rules, or `tunnel`, or { tunnel: true, valid: { from, until } }", 0, 0 },
	{ "valid", SCHEMA_MAP, false, on_tunnel_valid, NULL, 0, 0 },
};
struct schema_rows load_rows_tunnel(void) { return (struct schema_rows){ SCHEMA_ROWS(tunnel_rows) }; }

/* One rule without a path, of a method that no request has: a connection, as `decide` sees it. */
static void allow_tunnel(struct dest_ctx *c, const struct yaml_node *n)
{
	struct tunnel_ctx t = { .l = c->l };
	struct pol_rule *r;

	if (!c->proto.tunnel) {
		ERROR_AT(c->l, n, "`allow: tunnel` is for `protocol: tcp` and `tls: {passthrough: true}`; \"ANY /**\" allows every request");
		return;
	}
	r = arena_zalloc(c->l->a, sizeof(*r));
	r->methods = arena_zalloc(c->l->a, sizeof(struct str));
	r->methods[0] = STR("TUNNEL");
	r->method_n = 1;
	r->pattern = STR("*");
	r->source = load_source(c->l, n);
	r->at = place_of(c->l, n);
	t.r = r;
	if (n->kind == YAML_MAP)
		schema_parse(c->l->d, n, "`allow` of a tunnel", SCHEMA_ROWS(tunnel_rows), &t);
	c->proto.rules = r;
	c->proto.rule_n = 1;
	c->allows_tunnel = true;
}

static void load_rules(struct dest_ctx *c, const struct schema_value *v, const char *key, bool deny)
{
	struct load *l = c->l;
	struct pol_dest *d = &c->proto;
	struct pol_rule *rules;

	if (!deny && ((v->node->kind == YAML_TEXT && str_eq(v->node->text, STR("tunnel"))) || yaml_get(v->node, "tunnel") != NULL)) {
		allow_tunnel(c, v->node);
		return;
	}
	if (d->tunnel) {
		ERROR_AT(l, v->node, "`%s` with rules on a tunnel: its octets pass unread, so that no rule could be kept; it has `allow: tunnel` alone", key);
		c->allows_tunnel = true; /* said already */
		return;
	}
	if (v->node->kind != YAML_LIST) {
		ERROR_AT(l, v->node, "`%s` must be a list of rules: is a `- ` missing before each?", key);
		return;
	}
	rules = arena_zalloc(l->a, (d->rule_n + v->node->n + 1ul) * sizeof(*rules));
	if (d->rule_n)
		memcpy(rules, d->rules, d->rule_n * sizeof(*rules));
	d->rules = rules;
	for (unsigned i = 0; i < v->node->n; i++)
		if (load_rule(l, v->node->items[i], &d->paths, deny, &d->rules[d->rule_n]))
			d->rule_n++;
}

static void on_allow(void *arg, const struct schema_row *row, const struct schema_value *v) { load_rules(arg, v, row->key, false); }
static void on_deny(void *arg, const struct schema_row *row, const struct schema_value *v) { load_rules(arg, v, row->key, true); }

static void on_inject(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct dest_ctx *c = arg;

	(void)row;
	if (c->proto.tunnel) {
		ERROR_AT(c->l, v->key, "`inject` on a tunnel: its octets pass unread, so that nothing could be put into them");
		return;
	}
	load_injects(c->l, v->node, &c->proto);
}

/* --- credentials of the sandbox's own ------------------------------------------------------------------------------ */

static void on_foreign(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	(void)row;
	((struct dest_ctx *)arg)->proto.foreign = str_eq(v->text, STR("refuse")) ? FOREIGN_REFUSE : str_eq(v->text, STR("pass")) ? FOREIGN_PASS : FOREIGN_REPLACE;
	said(arg, SAID_FOREIGN, v);
}

static void on_scrub(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	(void)row;
	((struct dest_ctx *)arg)->proto.scrub_off = str_eq(v->text, STR("off"));
	said(arg, SAID_SCRUB, v);
}

/* A header field's name, or "?" and a query key. Header fields are compared without regard to case. */
static void on_places(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct dest_ctx *c = arg;
	struct pol_dest *d = &c->proto;

	(void)row;
	d->places = arena_zalloc(c->l->a, (v->n + 1ul) * sizeof(struct str));
	for (unsigned i = 0; i < v->n; i++) {
		struct str s = v->items[i]->text;
		bool query = s.p[0] == '?', twice = false;
		char *text = arena_strz(c->l->a, s);

		for (size_t k = 0; !query && k < s.n; k++)
			text[k] = ascii_lower(text[k]);
		if (s.n > 200 || (query ? s.n < 2 : !load_field_name_ok(s))) {
			ERROR_AT(c->l, v->items[i], "an entry of `credential_places` is a header field (a-z, 0-9, -, _) that is not part of the framing, or ?KEY of the query");
			continue;
		}
		for (unsigned k = 0; k < d->place_n; k++)
			twice = twice || str_eq(d->places[k], str_of(text));
		if (twice)
			ERROR_AT(c->l, v->items[i], "`%s` is listed twice", text);
		d->places[d->place_n++] = str_of(text);
	}
}

static void on_id(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct dest_ctx *c = arg;

	(void)row;
	c->id = v->text;
	said(c, SAID_ID, v);
	if (v->text.n > 200)
		ERROR_AT(c->l, v->node, "an id has 200 characters at most");
}

static void on_log_query(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	(void)row;
	((struct dest_ctx *)arg)->log_query_node = v->key;
	((struct dest_ctx *)arg)->proto.log_query = v->truth;
	said(arg, SAID_LOG_QUERY, v);
}

static void on_limits(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct dest_ctx *c = arg;

	(void)row;
	c->limits_node = v->key;
	load_limits(c->l, v->node, &c->proto.limits);
}

static void on_acknowledge(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct dest_ctx *c = arg;

	(void)row;
	c->proto.acknowledged = true;
	if (!c->proto.tunnel)
		ERROR_AT(c->l, v->key, "`acknowledge: unread` is for tunnels");
}

/* In an order in which each finds what it relies on: override before all, the scheme before ports and tls, addresses before connect, paths before rules. */
static const struct schema_row dest_rows[] = {
	{ "override", SCHEMA_BOOL, false, on_override, NULL, 0, 0 },
	{ "id", SCHEMA_TEXT, false, on_id, NULL, 0, 0 },
	{ "scheme", SCHEMA_WORD, false, on_scheme, "https|http", 0, 0 },
	{ "protocol", SCHEMA_WORD, false, on_protocol, "tcp", 0, 0 },
	{ "host", SCHEMA_ONE_OR_MORE, true, on_host, NULL, 0, 0 },
	{ "ports", SCHEMA_TEXTS, false, on_ports, NULL, 0, PORTS_MAX },
	{ "addresses", SCHEMA_TEXTS, false, on_addresses, NULL, 0, 1000 },
	{ "connect", SCHEMA_TEXT, false, on_connect, NULL, 0, 0 },
	{ "tls", SCHEMA_MAP, false, on_tls, NULL, 0, 0 },
	{ "paths", SCHEMA_MAP, false, on_paths, NULL, 0, 0 },
	{ "limits", SCHEMA_MAP, false, on_limits, NULL, 0, 0 },
	{ "log_query", SCHEMA_BOOL, false, on_log_query, NULL, 0, 0 },
	{ "allow", SCHEMA_ANY, false, on_allow, NULL, 0, 0 },
	{ "deny", SCHEMA_ANY, false, on_deny, NULL, 0, 0 },
	{ "inject", SCHEMA_LIST, false, on_inject, NULL, 0, 0 },
	{ "foreign", SCHEMA_WORD, false, on_foreign, "replace|refuse|pass", 0, 0 },
	{ "credential_places", SCHEMA_TEXTS, false, on_places, NULL, 0, PLACES_MAX },
	{ "scrub", SCHEMA_WORD, false, on_scrub, "on|off", 0, 0 },
	{ "acknowledge", SCHEMA_WORD, false, on_acknowledge, "unread", 0, 0 },
	{ "resolver", SCHEMA_LATER, false, NULL, "a resolver of its own", 0, 0 },
	{ "ask", SCHEMA_LATER, false, NULL, "asking a person", 0, 0 },
	{ "capture", SCHEMA_LATER, false, NULL, "capturing", 0, 0 },
	{ "reveal", SCHEMA_LATER, false, NULL, "revealing", 0, 0 },
};

/* --- one for each host and port ------------------------------------------------------------------------------------ */

/* HOST[:PORT], or the id given; one that was given to several: ID@HOST[:PORT]. */
static struct str dest_id(struct dest_ctx *c, const struct pol_dest *d, bool single)
{
	struct buf b = { 0 };
	struct str s;

	if (c->id.n)
		buf_adds(&b, c->id);
	if (c->id.n && !single)
		buf_addc(&b, '@');
	if (c->id.n == 0 || !single) {
		buf_addf(&b, d->host.ip.family == 6 ? "[%s]" : "%s", d->host.text);
		if (d->port_written)
			buf_addf(&b, ":%u", d->port);
	}
	s = arena_str(c->l->a, buf_str(&b));
	buf_fini(&b);
	return s;
}

/* DESTINATION:allow:METHOD PATH. */
static struct str rule_id(struct load *l, const struct pol_dest *d, const struct pol_rule *r)
{
	struct buf b = { 0 };
	struct str s;

	buf_adds(&b, d->id);
	buf_addz(&b, d->tunnel ? ":allow:tunnel" : r->deny ? ":deny:" : ":allow:");
	if (d->tunnel)
		goto out;
	if (r->any)
		buf_addz(&b, "ANY");
	for (unsigned i = 0; i < r->method_n; i++) {
		if (i > 0 || r->any)
			buf_addc(&b, '|');
		buf_adds(&b, r->methods[i]);
	}
	buf_addc(&b, ' ');
	buf_adds(&b, r->written);
out:
	s = arena_str(l->a, buf_str(&b));
	buf_fini(&b);
	return s;
}

static struct pol_cond *copy_cond(struct load *l, const struct pol_cond *c)
{
	struct pol_cond *copy = arena_alloc(l->a, sizeof(*copy));

	*copy = *c;
	return copy;
}

void load_name_rules(struct load *l, struct pol_dest *d)
{
	for (unsigned i = 0; i < d->rule_n; i++)
		if (!d->rules[i].id_given)
			d->rules[i].id = rule_id(l, d, &d->rules[i]);
	for (unsigned i = 0; i < d->rule_n; i++) {
		struct pol_rule *r = &d->rules[i];

		if (r->cond == NULL || (r->cond->parts & COND_USES) == 0)
			continue;
		r->cond = copy_cond(l, r->cond); /* each of a list of hosts has a counter of its own */
		r->cond->uses_key = limit_key(d, r, RATE_USES, 0);
	}
}

static struct pol_dest *new_dest(struct load *l)
{
	struct policy *p = l->p;

	if (p->dest_n == p->dest_cap) {
		unsigned cap = p->dest_cap ? p->dest_cap * 2 : 16;
		struct pol_dest *more = arena_alloc(l->a, cap * sizeof(*more));

		if (p->dest_n)
			memcpy(more, p->dests, p->dest_n * sizeof(*more));
		p->dests = more;
		p->dest_cap = cap;
	}
	return &p->dests[p->dest_n++];
}

static void add_dest(struct dest_ctx *c, unsigned host, uint16_t port, bool single)
{
	struct load *l = c->l;
	struct pol_dest *d = new_dest(l);

	*d = c->proto;
	d->host = c->hosts[host];
	d->port = port;
	d->id = dest_id(c, d, single);
	d->id_given = c->id.n > 0;
	d->rules = arena_alloc(l->a, (d->rule_n + 1ul) * sizeof(*d->rules));
	if (d->rule_n)
		memcpy(d->rules, c->proto.rules, d->rule_n * sizeof(*d->rules));
	load_name_rules(l, d);
	l->p->rule_n += d->rule_n;
}

/* Every secret that is injected here must be allowed to go to every host of the list, and to all that a wildcard stands for. */
static void check_secret_hosts(struct dest_ctx *c)
{
	for (unsigned i = 0; i < c->proto.inject_n; i++) {
		const struct pol_inject *in = &c->proto.injects[i];

		for (unsigned h = 0; h < c->host_n; h++) {
			bool ok = in->secret->host_n == 0; /* has an error of its own */

			for (unsigned k = 0; k < in->secret->host_n; k++)
				ok = ok || host_text_covers(in->secret->hosts[k], str_mk(c->hosts[h].text, c->hosts[h].len));
			if (!ok && memchr(c->hosts[h].text, '*', c->hosts[h].len) != NULL)
				load_error(c->l, in->at, "secret `%.*s` may not go to every host of %s: no entry of its `hosts` (%s) covers that; give the hosts that it may go to a destination of their own", DIAG_STR(in->secret->name), c->hosts[h].text, load_there(c->l, in->secret->at, in->at));
			else if (!ok)
				load_error(c->l, in->at, "secret `%.*s` may not go to %s: its `hosts` (%s) do not list it", DIAG_STR(in->secret->name), c->hosts[h].text, load_there(c->l, in->secret->at, in->at));
		}
	}
}

/* What a tunnel must have, and what it would evade. */
static void check_tunnel(struct dest_ctx *c, const struct yaml_node *n)
{
	const struct pol_dest *d = &c->proto;
	const struct yaml_node *at = c->tunnel_node != NULL ? c->tunnel_node : n;
	const char *what = d->scheme == SCHEME_TCP ? "`protocol: tcp`" : "`tls: {passthrough: true}`";

	if (!c->allows_tunnel)
		ERROR_AT(c->l, at, "%s needs `allow: tunnel`", what);
	for (unsigned i = 0; i < c->host_n; i++)
		if (memchr(c->hosts[i].text, '*', c->hosts[i].len) != NULL)
			ERROR_AT(c->l, c->host_nodes[i], "%s needs exact hosts, not a wildcard", what);
	if (d->scheme == SCHEME_TCP && !d->port_written)
		ERROR_AT(c->l, at, "`protocol: tcp` needs `ports`");
	for (unsigned i = 0; d->scheme == SCHEME_TCP && i < c->port_n; i++)
		if (c->ports[i] == 80 || c->ports[i] == 443)
			ERROR_AT(c->l, at, "port %u is not for `protocol: tcp`: HTTP and TLS are decided there, or passed through by `tls: {passthrough: true}`", c->ports[i]);
	if (d->scheme != SCHEME_TCP && c->tls_node != NULL && (d->ca_n > 0 || d->crl_n > 0 || d->tls_min != 0 || d->alpn_h1 || d->alpn_h2 || d->pin_n > 0))
		ERROR_AT(c->l, c->tls_node, "`passthrough` beside other keys of `tls`: the client verifies, not the gateway");
	if (c->paths_node != NULL)
		ERROR_AT(c->l, c->paths_node, "`paths` on a tunnel: its octets pass unread");
	if (c->log_query_node != NULL)
		ERROR_AT(c->l, c->log_query_node, "`log_query` on a tunnel: its octets pass unread");
	if (d->foreign != FOREIGN_REPLACE || d->place_n > 0 || d->scrub_off)
		ERROR_AT(c->l, at, "`foreign`, `credential_places` and `scrub` say nothing on a tunnel: its octets pass unread");
	if (d->limits.sizes.request_body != 0 || d->limits.sizes.response_body != 0 || d->limits.sizes.head_ms != 0 || d->limits.rate_n > 0)
		ERROR_AT(c->l, c->limits_node, "of `limits` a tunnel has `idle` and `total`: its octets pass unread");
}

void load_destination(struct load *l, struct yaml_node *n)
{
	struct dest_ctx c = { .l = l, .proto = { .scheme = SCHEME_HTTPS, .at = place_of(l, n), .source = load_source(l, n) } };
	bool single;

	if (!schema_parse(l->d, n, "a destination", SCHEMA_ROWS(dest_rows), &c) && c.host_n == 0)
		return;
	if (c.proto.tunnel)
		check_tunnel(&c, n);
	if (c.port_n == 0 && c.proto.scheme == SCHEME_TCP)
		return; /* said already */
	if (c.port_n == 0)
		c.ports[c.port_n++] = c.proto.scheme == SCHEME_HTTPS ? 443 : 80;
	check_secret_hosts(&c);
	if ((uint64_t)c.host_n * c.port_n + l->p->dest_n > POLICY_DESTS_MAX || (uint64_t)c.host_n * c.port_n * c.proto.rule_n + l->p->rule_n > POLICY_RULES_MAX) {
		ERROR_AT(l, n, "the policy has more than %u destinations or rules, each host and port of a list counted", POLICY_RULES_MAX);
		return;
	}
	single = c.host_n * c.port_n == 1;
	for (unsigned h = 0; h < c.host_n; h++)
		for (unsigned k = 0; k < c.port_n; k++)
			add_dest(&c, h, c.ports[k], single);
}

struct schema_rows load_rows_tls(void) { return (struct schema_rows){ SCHEMA_ROWS(tls_rows) }; }
struct schema_rows load_rows_paths(void) { return (struct schema_rows){ SCHEMA_ROWS(paths_rows) }; }
struct schema_rows load_rows_dest(void) { return (struct schema_rows){ SCHEMA_ROWS(dest_rows) }; }
