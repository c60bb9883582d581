/* SPDX-License-Identifier: Apache-2.0 */
#include "token.h"

#include <jansson.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../../common/base/must.h"
#include "../../common/sys/clock.h"
#include "vault.h"

#define FOR_DEFAULT_S 300
#define FOR_MAX_S 86400

struct token_call {
	struct http_call *call;
	struct token_kind kind;
	struct http_tls tls;
	token_fn *fn; /* NULL: nobody waits */
	void *arg;
	struct rotation_use left; /* by who waited: the refresh token is still used here */
};

/* --- pieces -------------------------------------------------------------------------------------------------------- */

static void add_base64(struct buf *b, const void *p, size_t n, bool url)
{
	uint8_t *to = buf_room(b, (n + 2) / 3 * 4 + 1);
	int k = EVP_EncodeBlock(to, p, (int)n);

	for (int i = 0; url && i < k; i++)
		to[i] = to[i] == '+' ? '-' : to[i] == '/' ? '_'
							  : to[i];
	while (url && k > 0 && to[k - 1] == '=')
		k--;
	buf_commit(b, (size_t)k);
}

/* application/x-www-form-urlencoded */
static void add_encoded(struct buf *b, struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];

		if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c != 0 && strchr("-._~", c) != NULL))
			buf_addc(b, (char)c);
		else
			buf_addf(b, "%%%02X", c);
	}
}

static void add_pair(struct buf *b, const char *name, struct str value)
{
	if (value.n == 0)
		return;
	if (buf_len(b) > 0)
		buf_addc(b, '&');
	buf_addz(b, name);
	buf_addc(b, '=');
	add_encoded(b, value);
}

static void add_json(struct buf *b, json_t *o)
{
	char *text = json_dumps(o, JSON_COMPACT | JSON_SORT_KEYS);

	json_decref(o);
	MUST(text != NULL);
	add_base64(b, text, strlen(text), true);
	free(text);
}

/* RS256 (RFC 7518 3.3), compact. header and claims are taken. */
static bool add_jwt(struct buf *b, json_t *header, json_t *claims, EVP_PKEY *key)
{
	EVP_MD_CTX *md = EVP_MD_CTX_new();
	unsigned char sig[1024];
	size_t n = sizeof(sig);
	bool ok;

	add_json(b, header);
	buf_addc(b, '.');
	add_json(b, claims);
	ok = md != NULL && EVP_PKEY_get_base_id(key) == EVP_PKEY_RSA && EVP_DigestSignInit(md, NULL, EVP_sha256(), NULL, key) == 1 && EVP_DigestSign(md, sig, &n, buf_data(b), buf_len(b)) == 1;
	EVP_MD_CTX_free(md);
	if (!ok)
		return false;
	buf_addc(b, '.');
	add_base64(b, sig, n, true);
	return true;
}

static EVP_PKEY *read_key(struct str pem)
{
	BIO *bio = BIO_new_mem_buf(pem.p, (int)pem.n);
	EVP_PKEY *k = bio != NULL ? PEM_read_bio_PrivateKey(bio, NULL, NULL, (void *)(uintptr_t) "") : NULL;

	BIO_free(bio);
	return k;
}

static struct str param(const struct secret_decl *d, enum secret_param tag) { return secret_param(&d->params, tag, 0); }

bool token_rotates(const struct secret_decl *d) { return d->token == SECRET_TOKEN_OAUTH2 && param(d, SECRET_PARAM_GRANT).n > 0; }

struct token_kind token_kind(const struct secret_decl *d)
{
	return (struct token_kind){ d->token, d->token == SECRET_TOKEN_GCP && param(d, SECRET_PARAM_AUDIENCE).n > 0, token_rotates(d) };
}

/* --- requests ------------------------------------------------------------------------------------------------------ */

static bool oauth2(const struct secret_decl *d, const struct secret *with, struct token_request *o, char cause[TOKEN_CAUSE_MAX])
{
	struct str value = secret_bytes(with), id = param(d, SECRET_PARAM_CLIENT_ID), client_secret = value;
	bool refresh = token_rotates(d), ok = true;
	json_t *j = NULL;

	o->content_type = "application/x-www-form-urlencoded";
	if (refresh) { /* the refresh token alone, or with the client's secret as JSON */
		client_secret = STR_NONE;
		j = value.n > 0 && value.p[0] == '{' ? json_loadb(value.p, value.n, JSON_REJECT_DUPLICATES, NULL) : NULL;
		if (j != NULL) {
			json_t *t = json_object_get(j, "refresh_token"), *s = json_object_get(j, "client_secret");

			value = json_is_string(t) ? str_mk(json_string_value(t), json_string_length(t)) : STR_NONE;
			client_secret = json_is_string(s) ? str_mk(json_string_value(s), json_string_length(s)) : STR_NONE;
		}
		if (value.n == 0) {
			snprintf(cause, TOKEN_CAUSE_MAX, "the value is a refresh token, or JSON with `refresh_token` and `client_secret`");
			ok = false;
		}
	}
	add_pair(&o->body, "grant_type", refresh ? STR("refresh_token") : STR("client_credentials"));
	if (refresh)
		add_pair(&o->body, "refresh_token", value);
	add_pair(&o->body, "scope", param(d, SECRET_PARAM_SCOPE));
	add_pair(&o->body, "audience", param(d, SECRET_PARAM_AUDIENCE));
	if (param(d, SECRET_PARAM_CLIENT_AUTH).n > 0 || client_secret.n == 0) {
		add_pair(&o->body, "client_id", id);
		add_pair(&o->body, "client_secret", client_secret);
	} else { /* RFC 6749 2.3.1 */
		struct buf pair = { 0 };

		add_encoded(&pair, id);
		buf_addc(&pair, ':');
		add_encoded(&pair, client_secret);
		buf_addz(&o->authorization, "Basic ");
		add_base64(&o->authorization, buf_data(&pair), buf_len(&pair), false);
		buf_fini_secret(&pair);
	}
	json_decref(j);
	return ok;
}

static bool github(const struct secret_decl *d, const struct secret *with, uint64_t now_s, struct token_request *o, char cause[TOKEN_CAUSE_MAX])
{
	struct str app = param(d, SECRET_PARAM_APP), s;
	EVP_PKEY *key = read_key(secret_bytes(with));
	json_t *body = json_object(), *list;
	char *text;
	bool ok;

	o->content_type = "application/json";
	buf_addz(&o->path, "/app/installations/");
	buf_adds(&o->path, param(d, SECRET_PARAM_INSTALLATION));
	buf_addz(&o->path, "/access_tokens");
	if (secret_param(&d->params, SECRET_PARAM_REPOSITORY, 0).n > 0) {
		list = json_array();
		for (unsigned i = 0; (s = secret_param(&d->params, SECRET_PARAM_REPOSITORY, i)).n > 0; i++)
			json_array_append_new(list, json_stringn(s.p, s.n));
		json_object_set_new(body, "repositories", list);
	}
	if (secret_param(&d->params, SECRET_PARAM_PERMISSION, 0).n > 0) {
		list = json_object();
		for (unsigned i = 0; (s = secret_param(&d->params, SECRET_PARAM_PERMISSION, i)).n > 0; i++) {
			const char *eq = memchr(s.p, '=', s.n);
			char name[256];

			if (eq == NULL || (size_t)(eq - s.p) >= sizeof(name))
				continue;
			snprintf(name, sizeof(name), "%.*s", (int)(eq - s.p), s.p);
			json_object_set_new(list, name, json_stringn(eq + 1, s.n - (size_t)(eq - s.p) - 1));
		}
		json_object_set_new(body, "permissions", list);
	}
	text = json_dumps(body, JSON_COMPACT | JSON_SORT_KEYS);
	buf_addz(&o->body, text);
	free(text);
	json_decref(body);
	buf_addz(&o->authorization, "Bearer ");
	if (key != NULL) {
		struct buf jwt = { 0 };

		/* a minute back, as GitHub advises: clocks differ */
		ok = add_jwt(&jwt, json_pack("{s:s,s:s}", "alg", "RS256", "typ", "JWT"), json_pack("{s:I,s:I,s:s#}", "iat", (json_int_t)now_s - 60, "exp", (json_int_t)now_s + 480, "iss", app.p, app.n), key);
		buf_adds(&o->authorization, buf_str(&jwt));
		buf_fini_secret(&jwt);
	} else {
		ok = false;
	}
	if (!ok)
		snprintf(cause, TOKEN_CAUSE_MAX, "the value is not the App's private key (RSA, in PEM form)");
	EVP_PKEY_free(key);
	return ok;
}

static bool gcp(const struct secret_decl *d, const struct secret *with, uint64_t now_s, struct token_request *o, char cause[TOKEN_CAUSE_MAX])
{
	json_t *j = json_loadb(secret_bytes(with).p, secret_bytes(with).n, JSON_REJECT_DUPLICATES, NULL);
	const char *mail = json_string_value(json_object_get(j, "client_email")), *pem = json_string_value(json_object_get(j, "private_key"));
	const char *id = json_string_value(json_object_get(j, "private_key_id"));
	struct str audience = param(d, SECRET_PARAM_AUDIENCE), scope = param(d, SECRET_PARAM_SCOPE), subject = param(d, SECRET_PARAM_SUBJECT), url = param(d, SECRET_PARAM_URL);
	EVP_PKEY *key = pem != NULL ? read_key(str_of(pem)) : NULL;
	json_t *claims, *header;
	struct buf jwt = { 0 };
	bool ok = false;

	o->content_type = "application/x-www-form-urlencoded";
	if (mail != NULL && key != NULL) {
		header = json_pack("{s:s,s:s}", "alg", "RS256", "typ", "JWT");
		if (id != NULL)
			json_object_set_new(header, "kid", json_string(id));
		claims = json_pack("{s:s,s:s#,s:I,s:I}", "iss", mail, "aud", url.p, url.n, "iat", (json_int_t)now_s, "exp", (json_int_t)now_s + 3600);
		if (scope.n > 0)
			json_object_set_new(claims, "scope", json_stringn(scope.p, scope.n));
		if (audience.n > 0)
			json_object_set_new(claims, "target_audience", json_stringn(audience.p, audience.n));
		if (subject.n > 0)
			json_object_set_new(claims, "sub", json_stringn(subject.p, subject.n));
		ok = add_jwt(&jwt, header, claims, key);
	}
	if (ok) {
		add_pair(&o->body, "grant_type", STR("urn:ietf:params:oauth:grant-type:jwt-bearer"));
		add_pair(&o->body, "assertion", buf_str(&jwt));
	} else {
		snprintf(cause, TOKEN_CAUSE_MAX, "the value is not the JSON key of a service account (client_email, private_key)");
	}
	buf_fini_secret(&jwt);
	EVP_PKEY_free(key);
	json_decref(j);
	return ok;
}

bool token_request(const struct secret_decl *d, const struct secret *with, uint64_t now_s, struct token_request *out, char cause[TOKEN_CAUSE_MAX])
{
	*out = (struct token_request){ 0 };
	switch (d->token) {
	case SECRET_TOKEN_OAUTH2:
		return oauth2(d, with, out, cause);
	case SECRET_TOKEN_GITHUB_APP:
		return github(d, with, now_s, out, cause);
	case SECRET_TOKEN_GCP:
		return gcp(d, with, now_s, out, cause);
	default:
		snprintf(cause, TOKEN_CAUSE_MAX, "there is no token to be had with it");
		return false;
	}
}

void token_request_fini(struct token_request *r)
{
	buf_fini(&r->path);
	buf_fini_secret(&r->body);
	buf_fini_secret(&r->authorization);
}

/* --- answers ------------------------------------------------------------------------------------------------------- */

static struct secret *take(json_t *j)
{
	size_t n = json_string_length(j);

	return json_is_string(j) && n > 0 ? secret_new(json_string_value(j), n) : NULL;
}

/* 2026-11-30T12:00:00Z */
static uint32_t until(const char *text, uint64_t now_s)
{
	struct tm tm = { 0 };
	time_t t;

	if (text == NULL || strptime(text, "%Y-%m-%dT%H:%M:%SZ", &tm) == NULL)
		return 0;
	t = timegm(&tm);
	return t > (time_t)now_s && (uint64_t)t - now_s < FOR_MAX_S ? (uint32_t)((uint64_t)t - now_s) : 0;
}

struct secret *token_answer(const struct token_kind *k, int status, struct str body, uint64_t now_s, uint32_t *for_s, struct secret **next, char cause[TOKEN_CAUSE_MAX])
{
	json_t *j = body.n > 0 ? json_loadb(body.p, body.n, JSON_REJECT_DUPLICATES, NULL) : NULL;
	const char *said = json_string_value(json_object_get(j, "error")), *more = json_string_value(json_object_get(j, "error_description"));
	json_int_t s = json_integer_value(json_object_get(j, "expires_in"));
	const char *type = json_string_value(json_object_get(j, "token_type"));
	struct secret *v = NULL;
	char words[160];

	*next = NULL;
	*for_s = FOR_DEFAULT_S;
	if (status < 200 || status >= 300) {
		if (said == NULL)
			said = json_string_value(json_object_get(j, "message"));
		snprintf(words, sizeof(words), "%.60s%s%.90s", said != NULL ? said : "", more != NULL ? ": " : "", more != NULL ? more : "");
		snprintf(cause, TOKEN_CAUSE_MAX, "its token end-point answers %d%s", status, words[0] ? ": " : "");
		vault_printable(cause + strlen(cause), TOKEN_CAUSE_MAX - strlen(cause), words);
		json_decref(j);
		return NULL;
	}
	if (k->token == SECRET_TOKEN_GITHUB_APP) {
		v = take(json_object_get(j, "token"));
		*for_s = until(json_string_value(json_object_get(j, "expires_at")), now_s);
	} else if (type != NULL && !str_ieq(str_of(type), STR("bearer")) && !k->identity) {
		snprintf(cause, TOKEN_CAUSE_MAX, "its token end-point gives a token that is not a bearer token");
		json_decref(j);
		return NULL;
	} else {
		v = take(json_object_get(j, k->identity ? "id_token" : "access_token"));
		if (s > 0)
			*for_s = s > FOR_MAX_S ? FOR_MAX_S : (uint32_t)s;
		else if (k->identity)
			*for_s = 3600;
		if (k->rotates)
			*next = take(json_object_get(j, "refresh_token"));
	}
	if (v == NULL)
		snprintf(cause, TOKEN_CAUSE_MAX, "there is no token in its token end-point's answer");
	json_decref(j);
	return v;
}

/* --- the call ------------------------------------------------------------------------------------------------------ */

static void end(struct token_call *c)
{
	http_cancel(c->call);
	X509_STORE_free(c->tls.store);
	free(c);
}

void token_cancel(struct token_call *c)
{
	if (c != NULL)
		end(c);
}

void token_leave(struct token_call *c, struct rotation_use *u)
{
	c->fn = NULL;
	rotation_move(u, &c->left);
}

static void on_answer(void *arg, const struct http_answer *a)
{
	struct token_call *c = arg;
	char cause[TOKEN_CAUSE_MAX];
	struct token_value v = { .cause = cause };
	struct secret *value = NULL, *next = NULL;

	c->call = NULL;
	if (a->status == 0) {
		snprintf(cause, sizeof(cause), "its token end-point cannot be reached: %s", a->cause);
	} else {
		value = token_answer(&c->kind, a->status, a->body, clock_wall_ms() / 1000, &v.for_s, &next, cause);
		v.denied = value == NULL && a->status >= 400 && a->status < 500 && a->status != 429;
	}
	v.value = value;
	v.next = next;
	if (c->fn != NULL)
		c->fn(c->arg, &v);
	else
		rotation_end(&c->left, next);
	secret_free(value);
	secret_free(next);
	end(c);
}

static bool own_roots(struct token_call *c, const struct secret_decl *d)
{
	struct str der;

	for (unsigned i = 0; (der = secret_param(&d->params, SECRET_PARAM_CA, i)).n > 0; i++) {
		const unsigned char *p = (const unsigned char *)der.p;
		X509 *x = d2i_X509(NULL, &p, (long)der.n);

		if (c->tls.store == NULL)
			c->tls.store = X509_STORE_new();
		if (x == NULL || c->tls.store == NULL || X509_STORE_add_cert(c->tls.store, x) != 1) {
			X509_free(x);
			return false;
		}
		X509_free(x);
	}
	return true;
}

struct token_call *token_obtain(struct http *h, uint32_t sandbox, uint32_t generation, const struct secret_decl *d, const struct secret *with, token_fn *fn, void *arg)
{
	struct token_call *c = must_calloc(1, sizeof(*c));
	struct http_request r = { .method = "POST", .source = { sandbox, d->index }, .generation = generation };
	char cause[TOKEN_CAUSE_MAX] = "its end-point cannot be used";
	struct token_value failed = { .cause = cause, .denied = true };
	struct token_request q = { 0 };
	struct buf path = { 0 };
	const char *why;

	c->kind = token_kind(d);
	c->fn = fn;
	c->arg = arg;
	if (!endpoint_parse(param(d, SECRET_PARAM_URL), &r.to, &why) || !own_roots(c, d) || !token_request(d, with, clock_wall_ms() / 1000, &q, cause)) {
		token_request_fini(&q);
		fn(arg, &failed);
		end(c);
		return NULL;
	}
	if (buf_len(&q.path) > 0 && str_ends(r.to.path, STR("/")))
		r.to.path.n--;
	buf_adds(&path, r.to.path);
	buf_adds(&path, buf_str(&q.path));
	r.to.path = buf_str(&path);
	r.tls = &c->tls;
	r.body = q.body;
	q.body = (struct buf){ 0 };
	http_header(&r, "Content-Type", str_of(q.content_type));
	http_header(&r, "Accept", d->token == SECRET_TOKEN_GITHUB_APP ? STR("application/vnd.github+json") : STR("application/json"));
	if (buf_len(&q.authorization) > 0)
		http_header(&r, "Authorization", buf_str(&q.authorization));
	c->call = http_start(h, &r, on_answer, c);
	token_request_fini(&q);
	buf_fini(&path);
	return c;
}
