/* SPDX-License-Identifier: Apache-2.0 */
/* `inject:`: where secrets go, and what stands for them inside. */
#include "load.h"

#define VARIABLES_MAX 16
#define WHEN_MAX 256

struct inject_ctx {
	struct load *l;
	struct pol_inject in;
	bool bad;
};

static void wrong(struct inject_ctx *c, const struct yaml_node *at, const char *text)
{
	ERROR_AT(c->l, at, "%s", text);
	c->bad = true;
}

static void on_secret(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct inject_ctx *c = arg;

	(void)row;
	c->in.secret = load_find_secret(c->l->p, v->text);
	if (c->in.secret != NULL) {
		c->in.secret->used = true;
		return;
	}
	ERROR_AT(c->l, v->node, "there is no secret `%.*s` under `secrets`", DIAG_STR(v->text));
	c->bad = true;
}

static const char *const kinds[] = { [INJECT_BEARER] = "bearer", [INJECT_BASIC] = "basic", [INJECT_HEADER] = "header", [INJECT_QUERY] = "query", [INJECT_PLACEHOLDER] = "placeholder", [INJECT_SIGV4] = "sigv4", [INJECT_HMAC] = "hmac", [INJECT_CLIENT_CERTIFICATE] = "client_certificate" };
#define KINDS "bearer|basic|header|query|placeholder|sigv4|hmac|client_certificate"

const char *load_inject_kind(enum inject_kind k) { return (size_t)k < sizeof(kinds) / sizeof(kinds[0]) && kinds[k] != NULL ? kinds[k] : "nothing"; }

bool load_inject_when(const struct pol_inject *in, struct str rule)
{
	for (unsigned i = 0; i < in->when_n; i++)
		if (str_eq(in->when[i], rule))
			return true;
	return in->when_n == 0;
}

static void on_as(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct inject_ctx *c = arg;

	(void)row;
	for (unsigned k = 1; k < sizeof(kinds) / sizeof(kinds[0]); k++)
		if (str_eq(v->text, str_of(kinds[k])))
			c->in.kind = (enum inject_kind)k;
}

static void on_username(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct inject_ctx *c = arg;

	(void)row;
	c->in.username = v->text;
	if (c->in.kind != INJECT_BASIC)
		wrong(c, v->key, "`username` belongs to `as: basic`");
	else if (memchr(v->text.p, ':', v->text.n) != NULL || v->text.n > 1024) /* RFC 7617 2 */
		wrong(c, v->node, "a user name for `as: basic` has no colon in it");
}

bool load_field_name_ok(struct str s)
{
	static const char *const never[] = { "host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer", "expect", "accept-encoding", "range", "keep-alive", "proxy-connection", "proxy-authorization", "http2-settings", "content-type", "content-encoding" };

	if (s.n > 127)
		return false;
	for (size_t i = 0; i < s.n; i++) {
		char c = ascii_lower(s.p[i]);

		if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_'))
			return false;
	}
	for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++)
		if (str_ieq(s, str_of(never[i])))
			return false;
	return true;
}

/* A query key as it is compared with: nothing in it that may be written in two ways. */
static bool query_key_ok(struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		char c = ascii_lower(s.p[i]);

		if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.'))
			return false;
	}
	return s.n > 0 && s.n < 128;
}

static void on_field(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct inject_ctx *c = arg;
	enum inject_kind k = c->in.kind;

	(void)row;
	c->in.name = v->text;
	if (k != INJECT_HEADER && k != INJECT_QUERY && k != INJECT_HMAC && k != INJECT_PLACEHOLDER)
		wrong(c, v->key, "`name` belongs to `as: header`, `query`, `hmac`, or `placeholder` with `in: [header]`");
	else if (k == INJECT_QUERY && !query_key_ok(v->text))
		wrong(c, v->node, "`name` is a key of the query (a-z, 0-9, -, _, .)");
	else if (k != INJECT_QUERY && !load_field_name_ok(v->text))
		wrong(c, v->node, "`name` is a header field (a-z, 0-9, -, _) that is not part of the framing");
}

static bool one_hole(struct str s)
{
	ptrdiff_t at = str_find(s, STR("{}"));

	return at >= 0 && str_find(str_mk(s.p + at + 2, s.n - (size_t)at - 2), STR("{}")) < 0;
}

#define FORMAT_WORDS (1u << TEMPLATE_TEXT | 1u << TEMPLATE_SIGNATURE | TEMPLATE_TIMES | 1u << TEMPLATE_NONCE)

static unsigned words_of(struct inject_ctx *c, const struct schema_value *v)
{
	unsigned words = template_words(v->text);

	if (words == 0)
		wrong(c, v->node, "there is no such word: {method}, {host}, {target}, {path}, {query}, {body}, {body_sha256}, {timestamp}, {timestamp_ms}, {timestamp_iso}, {date}, {nonce}, {lf}, {header:NAME}; a brace is written {{");
	return words;
}

static void on_format(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct inject_ctx *c = arg;

	(void)row;
	c->in.format = v->text;
	if (c->in.kind != INJECT_HEADER && c->in.kind != INJECT_HMAC)
		wrong(c, v->key, "`format` belongs to `as: header` and `hmac`");
	else if (c->in.kind == INJECT_HMAC && (words_of(c, v) & ~FORMAT_WORDS) != 0)
		wrong(c, v->node, "`format` of `as: hmac` has {}, where the signature goes, and perhaps its {timestamp} (or as it is signed: {timestamp_ms}, {timestamp_iso}, {date}) and {nonce}: \"t={timestamp},v1={}\"");
	else if (!one_hole(v->text) || v->text.n > 1024)
		wrong(c, v->node, "`format` has one {} in it, where the value goes: \"Token {}\"");
}

static const struct {
	const char *name;
	uint16_t place;
} places[] = { { "header", PLACE_HEADER }, { "basic", PLACE_BASIC }, { "query", PLACE_QUERY }, { "path", PLACE_PATH }, { "json", PLACE_JSON }, { "form", PLACE_FORM }, { "text", PLACE_TEXT }, { "websocket", PLACE_WEBSOCKET } };

static void on_in(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct inject_ctx *c = arg;

	(void)row;
	if (c->in.kind != INJECT_PLACEHOLDER)
		wrong(c, v->key, "`in` belongs to `as: placeholder`");
	for (unsigned i = 0; i < v->n; i++) {
		uint16_t place = 0;

		for (size_t k = 0; k < sizeof(places) / sizeof(places[0]); k++)
			if (str_eq(v->items[i]->text, str_of(places[k].name)))
				place = places[k].place;
		if (place == 0)
			wrong(c, v->items[i], "`in` lists places: header, basic, query, path, json, form, text, websocket");
		else if (c->in.places & place)
			wrong(c, v->items[i], "the place is listed twice");
		c->in.places |= place;
	}
	if (v->n == 0)
		wrong(c, v->node, "`in` is empty: the placeholder would be filled nowhere");
}

static void on_slashes(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct inject_ctx *c = arg;

	(void)row;
	c->in.slashes_keep = true;
	if (!(c->in.places & PLACE_PATH))
		wrong(c, v->key, "`slashes` belongs to `as: placeholder` with `in: [path]`");
}

static void on_service(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct inject_ctx *c = arg;
	bool service = strcmp(row->key, "service") == 0;

	*(service ? &c->in.service : &c->in.region) = v->text;
	if (c->in.kind != INJECT_SIGV4)
		wrong(c, v->key, "`service` and `region` belong to `as: sigv4`");
	else if (!query_key_ok(v->text))
		wrong(c, v->node, "`service` and `region` are as AWS writes them: s3, eu-west-1");
}

/* --- hmac ---------------------------------------------------------------------------------------------------------- */

static bool of_hmac(struct inject_ctx *c, const struct schema_value *v)
{
	if (c->in.kind != INJECT_HMAC)
		wrong(c, v->key, "`sign`, `hash`, `encoding`, `key`, `timestamp` and `nonce` belong to `as: hmac`");
	return c->in.kind == INJECT_HMAC;
}

/* A field that is signed must be as it was when it is sent. */
static bool signable(struct str field)
{
	return str_ieq(field, STR("content-type")) || str_ieq(field, STR("content-encoding")) || load_field_name_ok(field);
}

static void on_sign(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct inject_ctx *c = arg;
	struct template_piece p;
	struct buf b = { 0 };
	struct str rest;

	(void)row;
	if (!of_hmac(c, v))
		return;
	for (size_t i = 0; i < v->text.n; i++) { /* texts of a table have no control characters */
		if (v->text.p[i] == '\n')
			buf_addz(&b, "{lf}");
		else
			buf_addc(&b, v->text.p[i]);
	}
	c->in.template = arena_str(c->l->a, buf_str(&b));
	buf_fini(&b);
	if (c->in.template.n > 1024)
		wrong(c, v->node, "`sign` has more than 1024 characters");
	else if (words_of(c, v) & 1u << TEMPLATE_SIGNATURE)
		wrong(c, v->node, "`sign` is what is signed: {} stands in `format` only");
	for (rest = c->in.template; template_next(&rest, &p) > 0;)
		if (p.word == TEMPLATE_HEADER && !signable(p.text))
			wrong(c, v->node, "`sign` names a field that is part of the framing, or that the gateway changes on its way");
}

static void on_choice(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct inject_ctx *c = arg;
	unsigned n = 0;

	if (!of_hmac(c, v))
		return;
	for (const char *w = row->note; w != NULL; w = strchr(w, '|'), w = w != NULL ? w + 1 : NULL, n++)
		if (strncmp(w, v->text.p, v->text.n) == 0 && (w[v->text.n] == '|' || w[v->text.n] == 0))
			break;
	if (strcmp(row->key, "hash") == 0)
		c->in.hash = (enum hmac_hash)n;
	else if (strcmp(row->key, "encoding") == 0)
		c->in.encoding = (enum hmac_encoding)n;
	else
		c->in.key = (enum hmac_key)n;
}

static void on_teller(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct inject_ctx *c = arg;

	if (!of_hmac(c, v))
		return;
	*(strcmp(row->key, "nonce") == 0 ? &c->in.nonce : &c->in.timestamp) = v->text;
	if (!load_field_name_ok(v->text))
		wrong(c, v->node, "the header field (a-z, 0-9, -, _) that tells the origin what was signed, not one that is part of the framing");
}

/* What only the whole entry tells. */
static void check_hmac(struct inject_ctx *c, const struct yaml_node *n)
{
	struct pol_inject *in = &c->in;
	unsigned sign = template_words(in->template), times = sign & TEMPLATE_TIMES, format;

	if (in->name.n == 0 || in->template.n == 0) {
		wrong(c, n, "`as: hmac` needs `name`, the header field that carries the signature, and `sign`, what is signed: \"{timestamp}.{method}.{target}.{body}\"");
		return;
	}
	if (in->format.n == 0)
		in->format = STR("{}");
	format = template_words(in->format);
	if ((times & (times - 1)) != 0)
		wrong(c, n, "`sign` has the time in two forms");
	else if (((format & TEMPLATE_TIMES) | times) != times || (in->timestamp.n > 0 && times == 0))
		wrong(c, n, "`timestamp` and `format` tell the time that `sign` has, in the form that it has there");
	else if (times != 0 && (format & TEMPLATE_TIMES) == 0 && in->timestamp.n == 0)
		wrong(c, n, "the origin cannot know the time that `sign` has: `timestamp` names a field for it, or `format` tells it");
	if (((format & 1u << TEMPLATE_NONCE) != 0 || in->nonce.n > 0) != ((sign & 1u << TEMPLATE_NONCE) != 0))
		wrong(c, n, "{nonce} in `sign`, and the field `nonce` or a {nonce} in `format` that tells it, go together");
	if (str_ieq(in->name, in->timestamp) || str_ieq(in->name, in->nonce) || (in->nonce.n > 0 && str_ieq(in->timestamp, in->nonce)))
		wrong(c, n, "`name`, `timestamp` and `nonce` are three fields");
}

/* --- variables ----------------------------------------------------------------------------------------------------- */

static void add_variable(struct inject_ctx *c, const struct yaml_node *at, struct str name, struct str text)
{
	struct pol_inject *in = &c->in;

	if (!load_variable_ok(name)) {
		wrong(c, at, "`env` is the name of a variable (A-Z, 0-9, _)");
		return;
	}
	for (unsigned i = 0; i < in->env_n; i += 2)
		if (str_eq(in->env[i], name))
			wrong(c, at, "the variable is named twice");
	in->env[in->env_n++] = name;
	in->env[in->env_n++] = text;
}

static void aws_variables(struct inject_ctx *c, const struct yaml_node *at)
{
	add_variable(c, at, STR("AWS_ACCESS_KEY_ID"), STR("{key_id}"));
	add_variable(c, at, STR("AWS_SECRET_ACCESS_KEY"), STR("{key}"));
	add_variable(c, at, STR("AWS_SESSION_TOKEN"), STR("{session}"));
}

static void on_env(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct inject_ctx *c = arg;
	const struct yaml_node *n = v->node;

	(void)row;
	c->in.env = arena_zalloc(c->l->a, 2 * VARIABLES_MAX * sizeof(struct str));
	if (c->in.kind == INJECT_SIGV4) {
		if (n->kind == YAML_TEXT && str_eq(n->text, STR("true")))
			aws_variables(c, n);
		else
			wrong(c, n, "with `as: sigv4`, `env: true` sets AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN");
	} else if (n->kind == YAML_TEXT) {
		add_variable(c, n, n->text, STR("{}"));
	} else if (n->kind != YAML_MAP || n->n == 0 || n->n > VARIABLES_MAX) {
		wrong(c, n, "`env` is the name of a variable, or a map of some: `env: { NAME: \"https://hooks.example/{}\" }`");
	} else {
		for (unsigned i = 0; i < n->n; i++) {
			const struct yaml_node *key = n->items[2 * i], *text = n->items[2 * i + 1];

			if (text->kind != YAML_TEXT || !one_hole(text->text) || text->text.n > 1024)
				wrong(c, text, "the template of a variable has one {} in it, where the placeholder goes");
			else
				add_variable(c, key, key->text, text->text);
		}
	}
}

static void on_when(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct inject_ctx *c = arg;

	(void)row;
	c->in.when = arena_zalloc(c->l->a, (v->n + 1ul) * sizeof(struct str));
	for (unsigned i = 0; i < v->n; i++)
		c->in.when[c->in.when_n++] = v->items[i]->text;
	if (v->n == 0)
		wrong(c, v->node, "`when` is empty: it would never be injected");
}

static const struct schema_row inject_rows[] = {
	{ "secret", SCHEMA_TEXT, true, on_secret, NULL, 0, 0 },
	{ "as", SCHEMA_WORD, true, on_as, KINDS, 0, 0 },
	{ "username", SCHEMA_TEXT, false, on_username, NULL, 0, 0 },
	{ "name", SCHEMA_TEXT, false, on_field, NULL, 0, 0 },
	{ "format", SCHEMA_TEXT, false, on_format, NULL, 0, 0 },
	{ "in", SCHEMA_TEXTS, false, on_in, NULL, 0, 8 },
	{ "slashes", SCHEMA_WORD, false, on_slashes, "keep", 0, 0 },
	{ "service", SCHEMA_TEXT, false, on_service, NULL, 0, 0 },
	{ "region", SCHEMA_TEXT, false, on_service, NULL, 0, 0 },
	{ "sign", SCHEMA_PROSE, false, on_sign, NULL, 0, 0 },
	{ "hash", SCHEMA_WORD, false, on_choice, "sha256|sha512|sha384|sha1", 0, 0 },
	{ "encoding", SCHEMA_WORD, false, on_choice, "hex|base64|base64url", 0, 0 },
	{ "key", SCHEMA_WORD, false, on_choice, "text|base64|hex", 0, 0 },
	{ "timestamp", SCHEMA_TEXT, false, on_teller, NULL, 0, 0 },
	{ "nonce", SCHEMA_TEXT, false, on_teller, NULL, 0, 0 },
	{ "env", SCHEMA_ANY, false, on_env, NULL, 0, 0 },
	{ "when", SCHEMA_TEXTS, false, on_when, NULL, 0, WHEN_MAX },
};

/* --- what only the whole entry tells ------------------------------------------------------------------------------- */

static bool complete(struct inject_ctx *c, const struct yaml_node *n)
{
	struct pol_inject *in = &c->in;

	if (in->kind == INJECT_HMAC)
		check_hmac(c, n);
	else if (in->kind == INJECT_CLIENT_CERTIFICATE && (in->env_n > 0 || in->when_n > 0))
		wrong(c, n, "`as: client_certificate` is shown when a connection is made: it has neither `env` nor `when`");
	else if (in->kind == INJECT_HEADER && in->name.n == 0)
		wrong(c, n, "`as: header` needs `name`, the header field");
	else if (in->kind == INJECT_QUERY && in->name.n == 0)
		wrong(c, n, "`as: query` needs `name`, the key");
	else if (in->kind == INJECT_PLACEHOLDER && in->places == 0)
		wrong(c, n, "`as: placeholder` needs `in`, the places where it is filled: [header, basic, query, path, json, form, text, websocket]");
	else if (in->kind == INJECT_PLACEHOLDER && in->name.n > 0 && !(in->places & PLACE_HEADER))
		wrong(c, n, "`name` belongs to `in: [header]`");
	else if (in->kind == INJECT_SIGV4 && (in->service.n == 0 || in->region.n == 0))
		wrong(c, n, "`as: sigv4` needs `service` and `region`");
	if (inject_signs(in->kind) && in->secret != NULL && in->secret->token != SECRET_TOKEN_NONE)
		wrong(c, n, "a token that is obtained (`oauth2`, `github_app`, `gcp_service_account`) is no key that signs");
	return !c->bad;
}

/* The one place that an entry has for itself; empty for placeholders, several of which may stand in one. */
static struct str place_of_inject(const struct pol_inject *in)
{
	switch (in->kind) {
	case INJECT_HEADER:
	case INJECT_HMAC:
	case INJECT_QUERY:
		return in->name;
	case INJECT_PLACEHOLDER:
	case INJECT_CLIENT_CERTIFICATE:
		return STR_NONE;
	default:
		return STR("Authorization");
	}
}

static bool same_field(struct str a, struct str b) { return a.n > 0 && str_ieq(a, b); }

/* One entry would overwrite what the other has put into a field, or a key of the query. */
static bool same_place(const struct pol_inject *a, const struct pol_inject *b)
{
	const struct str x[] = { place_of_inject(a), a->timestamp, a->nonce }, y[] = { place_of_inject(b), b->timestamp, b->nonce };
	bool same = false;

	for (unsigned i = 0; i < 3; i++)
		for (unsigned k = 0; k < 3; k++)
			same = same || ((a->kind == INJECT_QUERY) == (b->kind == INJECT_QUERY) && same_field(x[i], y[k]));
	return same;
}

static bool fills(const struct pol_inject *placeholder, const struct pol_inject *other)
{
	struct str field = place_of_inject(other);

	if (placeholder->kind != INJECT_PLACEHOLDER || other->kind == INJECT_PLACEHOLDER || other->kind == INJECT_QUERY)
		return false;
	if ((placeholder->places & PLACE_BASIC) && str_ieq(field, STR("Authorization")))
		return true;
	return (placeholder->places & PLACE_HEADER) && placeholder->name.n > 0 && same_field(placeholder->name, field);
}

static bool together(const struct pol_inject *a, const struct pol_inject *b)
{
	if (a->when_n == 0 || b->when_n == 0)
		return true;
	for (unsigned i = 0; i < a->when_n; i++)
		for (unsigned k = 0; k < b->when_n; k++)
			if (str_eq(a->when[i], b->when[k]))
				return true;
	return false;
}

/* Two that cannot both be. */
bool load_inject_place_same(const struct pol_inject *a, const struct pol_inject *b)
{
	bool one = same_place(a, b);
	bool certificates = a->kind == INJECT_CLIENT_CERTIFICATE && b->kind == INJECT_CLIENT_CERTIFICATE;
	bool signs = a->kind == INJECT_SIGV4 && b->kind == INJECT_SIGV4 && a->secret == b->secret && (!str_eq(a->service, b->service) || !str_eq(a->region, b->region));

	return signs || certificates || ((one || fills(a, b) || fills(b, a)) && together(a, b));
}

static bool texts_same(const struct str *a, unsigned a_n, const struct str *b, unsigned b_n)
{
	for (unsigned i = 0; a_n == b_n && i < a_n; i++)
		if (!str_eq(a[i], b[i]))
			return false;
	return a_n == b_n;
}

bool load_inject_same(const struct pol_inject *a, const struct pol_inject *b)
{
	return a->kind == b->kind && a->secret == b->secret && a->places == b->places && a->slashes_keep == b->slashes_keep && str_eq(a->username, b->username) && str_eq(a->name, b->name) && str_eq(a->format, b->format) && str_eq(a->service, b->service) && str_eq(a->region, b->region) && str_eq(a->template, b->template) && str_eq(a->timestamp, b->timestamp) && str_eq(a->nonce, b->nonce) && a->hash == b->hash && a->encoding == b->encoding && a->key == b->key && texts_same(a->env, a->env_n, b->env, b->env_n) && texts_same(a->when, a->when_n, b->when, b->when_n);
}

static void check_places(struct load *l, const struct pol_dest *d, const struct pol_inject *in, const struct yaml_node *at)
{
	unsigned hmacs = in->kind == INJECT_HMAC;

	for (unsigned k = 0; k < d->inject_n; k++) {
		const struct pol_inject *o = &d->injects[k];
		bool one = same_place(in, o);

		if (in->kind == INJECT_SIGV4 && o->kind == INJECT_SIGV4 && in->secret == o->secret && (!str_eq(in->service, o->service) || !str_eq(in->region, o->region)))
			ERROR_AT(l, at, "one secret signs for one service and region on a destination (the other at line %u)", o->at.line);
		hmacs += o->kind == INJECT_HMAC;
		if (hmacs > INJECT_HMAC_MAX && o->kind == INJECT_HMAC && in->kind == INJECT_HMAC)
			ERROR_AT(l, at, "a destination has at most %u injections `as: hmac`", INJECT_HMAC_MAX);
		if (in->kind == INJECT_CLIENT_CERTIFICATE && o->kind == INJECT_CLIENT_CERTIFICATE)
			ERROR_AT(l, at, "a destination has one client certificate (the other at line %u)", o->at.line);
		if ((one || fills(in, o) || fills(o, in)) && together(in, o)) {
			struct str field = place_of_inject(in->kind == INJECT_PLACEHOLDER ? o : in);

			ERROR_AT(l, at, "two injections for one place, %s%.*s (the other at line %u)", in->kind == INJECT_QUERY ? "?" : "", DIAG_STR(field), o->at.line);
		}
	}
}

void load_injects(struct load *l, const struct yaml_node *list, struct pol_dest *d)
{
	if (list->n > 0 && d->scheme != SCHEME_HTTPS) {
		ERROR_AT(l, list, "no secret goes over scheme http: it would cross the network unprotected");
		return;
	}
	d->injects = arena_zalloc(l->a, (list->n + 1ul) * sizeof(*d->injects));
	for (unsigned i = 0; i < list->n; i++) {
		const struct yaml_node *n = list->items[i];
		struct inject_ctx c = { .l = l, .in = { .at = place_of(l, n) } };

		if (!schema_parse(l->d, n, "an injection", SCHEMA_ROWS(inject_rows), &c) || c.bad || !complete(&c, n))
			continue;
		check_places(l, d, &c.in, n);
		d->injects[d->inject_n++] = c.in;
	}
}

void load_injects_of(struct load *l, struct pol_dest *d)
{
	for (unsigned i = 0; i < d->inject_n; i++) {
		const struct pol_inject *in = &d->injects[i];

		for (unsigned k = 0; k < in->when_n; k++) {
			bool there = false;

			for (unsigned r = 0; r < d->rule_n; r++)
				there = there || (!d->rules[r].deny && str_eq(d->rules[r].id, in->when[k]));
			if (!there)
				load_error(l, in->at, "`when` names `%.*s`, which is no allow rule of %s: give the rule an `id`", DIAG_STR(in->when[k]), d->host.text);
		}
	}
}

struct schema_rows load_rows_inject(void) { return (struct schema_rows){ SCHEMA_ROWS(inject_rows) }; }
