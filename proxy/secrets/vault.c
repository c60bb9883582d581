/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions to Vault. One waits in the queue until the token that it is asked with is there; then it is sent to the
 * address that answered last. 307 leads only to another configured address. What shows that Vault cannot help (no
 * connection, sealed, standby, over-loaded, 5xx) makes the others try too, and when none helps, closes it for a while that
 * grows with every failure: questions of that time fail at once with the same cause.
 *
 * 403 is what a policy's denial and a dead token look like alike: the token asks once about itself, and when it is dead
 * the question is asked again with a new one. Once; there is no loop.
 */
#include "vault.h"

#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../../common/base/must.h"
#include "../../common/sys/clock.h"
#include "../../common/sys/log.h"
#include "vault_int.h"

#define DOWN_FIRST_MS 250
#define DOWN_MAX_MS 30000
#define END_MS 2500

uint64_t vault_now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

uint64_t vault_jitter(uint64_t base_ms, unsigned percent)
{
	uint64_t span = base_ms / 100 * percent;
	uint32_t r;

	random_fill(&r, sizeof(r));
	return base_ms - span + (span ? r % (2 * span) : 0);
}

void vault_printable(char *out, size_t cap, const char *from)
{
	size_t k = 0;

	for (; *from && k + 1 < cap; from++)
		out[k++] = *from >= 0x20 && *from < 0x7f ? *from : ' ';
	out[k] = 0;
}

/* --- settings ------------------------------------------------------------------------------------------------------ */

static bool add_address(struct vault *v, struct str url, char cause[VAULT_CAUSE_MAX])
{
	const char *why;

	if (v->to_n == VAULT_ADDRESSES_MAX || !endpoint_parse(url, &v->to[v->to_n], &why)) {
		snprintf(cause, VAULT_CAUSE_MAX, "Vault's address %.*s cannot be used: %s", (int)(url.n > 150 ? 150 : url.n), url.p, v->to_n == VAULT_ADDRESSES_MAX ? "there are too many" : why);
		return false;
	}
	while (str_ends(v->to[v->to_n].path, STR("/")))
		v->to[v->to_n].path.n--;
	v->to_n++;
	return true;
}

static bool set(struct vault *v, struct str name, struct str value, char cause[VAULT_CAUSE_MAX])
{
	static const struct {
		const char *name;
		enum vault_auth auth;
	} methods[] = { { "token", VAULT_AUTH_TOKEN }, { "approle", VAULT_AUTH_APPROLE }, { "kubernetes", VAULT_AUTH_KUBERNETES }, { "jwt", VAULT_AUTH_JWT }, { "cert", VAULT_AUTH_CERT } };
	struct {
		const char *name;
		struct str *to;
	} texts[] = { { "namespace", &v->ns }, { "mount", &v->mount }, { "role", &v->role }, { "role_id", &v->role_id }, { "token_file", &v->token_file }, { "secret_id_file", &v->secret_id_file }, { "jwt_file", &v->jwt_file }, { "cert_file", &v->cert_file }, { "key_file", &v->key_file } };

	if (str_eq(name, STR("address")))
		return add_address(v, value, cause);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (str_eq(name, str_of(texts[i].name)))
			*texts[i].to = value;
	for (size_t i = 0; str_eq(name, STR("method")) && i < sizeof(methods) / sizeof(methods[0]); i++)
		if (str_eq(value, str_of(methods[i].name)))
			v->auth = methods[i].auth;
	if (str_eq(name, STR("wrapped")))
		v->wrapped = str_eq(value, STR("true"));
	return true;
}

static bool read_ca(struct vault *v, struct str pem)
{
	BIO *b = BIO_new_mem_buf(pem.p, (int)pem.n);
	unsigned n = 0;
	X509 *x;

	v->tls.store = X509_STORE_new();
	MUST(b != NULL && v->tls.store != NULL);
	while ((x = PEM_read_bio_X509(b, NULL, NULL, NULL)) != NULL) {
		n += X509_STORE_add_cert(v->tls.store, x) == 1;
		X509_free(x);
	}
	BIO_free(b);
	return n > 0;
}

struct vault *vault_new(struct loop *l, struct http *h, struct sources *files, struct orphans *o, uint32_t sandbox)
{
	struct vault *v = must_calloc(1, sizeof(*v));

	v->loop = l;
	v->http = h;
	v->files = files;
	v->orphans = o;
	v->sandbox = sandbox;
	v->token.slot = -1;
	return v;
}

bool vault_configure(struct vault *v, struct str text, struct str ca, const struct secret *token, char cause[VAULT_CAUSE_MAX])
{
	if (v->text != NULL)
		return true; /* for good, and told again */
	v->text = str_dupz(text);
	for (size_t at = 0; at < text.n;) {
		const char *p = v->text + at, *eq;
		size_t n = strnlen(p, text.n - at);

		eq = memchr(p, '=', n);
		if (eq != NULL && !set(v, str_mk(p, (size_t)(eq - p)), str_mk(eq + 1, n - (size_t)(eq - p) - 1), cause))
			return false;
		at += n + 1;
	}
	if (v->to_n == 0 || v->auth == VAULT_AUTH_NONE) {
		snprintf(cause, VAULT_CAUSE_MAX, "Vault has no address, or no way to log in");
		return false;
	}
	if (ca.n > 0 && !read_ca(v, ca)) {
		snprintf(cause, VAULT_CAUSE_MAX, "Vault's `ca` holds no certificate in PEM form");
		v->to_n = 0;
		return false;
	}
	v->login_tls.store = v->tls.store;
	if (token != NULL) {
		v->credential = secret_new(secret_bytes(token).p, secret_bytes(token).n);
		v->given = true;
	}
	return true;
}

bool vault_configured(const struct vault *v) { return v != NULL && v->to_n > 0; }

/* --- questions ----------------------------------------------------------------------------------------------------- */

static void free_op(void *arg)
{
	struct vault_op *op = arg;

	secret_free(op->this_token);
	buf_fini_secret(&op->body);
	free(op->path);
	free(op);
}

static void unlist(struct vault_op **list, struct vault_op *op)
{
	for (struct vault_op **p = list; *p != NULL; p = &(*p)->next) {
		if (*p == op) {
			*p = op->next;
			return;
		}
	}
}

static void drop(struct vault_op *op)
{
	if (op->over)
		return;
	op->over = true;
	unlist(op->queued ? &op->v->queue : &op->v->running, op);
	timer_stop(&op->later);
	http_cancel(op->call);
	loop_defer(op->v->loop, free_op, op);
}

void vault_cancel(struct vault_op *op)
{
	if (op != NULL)
		drop(op);
}

static void check_ended(struct vault *v)
{
	void (*fn)(void *) = v->ended;

	if (!v->ending || fn == NULL || vault_busy(v) > 0)
		return;
	v->ended = NULL;
	fn(v->ended_arg);
}

static void finish(struct vault_op *op, int status, json_t *root, const char *cause)
{
	struct vault_answer a = { status, root, cause };
	struct vault *v = op->v;

	drop(op);
	op->fn(op->arg, &a);
	check_ended(v);
}

static void on_later(struct timer *t)
{
	struct vault_op *op = (struct vault_op *)((char *)t - offsetof(struct vault_op, later));

	finish(op, 0, NULL, op->cause);
}

/* Fails, but not from within the call that began it. */
static void fail_later(struct vault_op *op, const char *cause)
{
	snprintf(op->cause, sizeof(op->cause), "%s", cause);
	timer_start(op->v->loop, &op->later, 0, on_later);
}

struct vault_op *vault_op_new(struct vault *v, struct vault_session *s, enum vault_with with, const char *method, const char *path, json_t *body, vault_fn *fn, void *arg)
{
	struct vault_op *op = must_calloc(1, sizeof(*op));
	char *text = body != NULL ? json_dumps(body, JSON_COMPACT) : NULL;

	op->v = v;
	op->session = s;
	op->with = with;
	op->method = method;
	op->path = must_strdup(path);
	op->fn = fn;
	op->arg = arg;
	if (text != NULL) {
		buf_addz(&op->body, text);
		explicit_bzero(text, strlen(text));
		free(text);
	}
	json_decref(body);
	op->queued = true;
	op->next = v->queue;
	v->queue = op;
	return op;
}

struct vault_op *vault_do(struct vault_session *s, const char *method, const char *path, json_t *body, vault_fn *fn, void *arg)
{
	struct vault *v = s->v;
	struct vault_op *op = vault_op_new(v, s, VAULT_WITH_SESSION, method, path, body, fn, arg);

	if (!vault_configured(v))
		fail_later(op, v->down[0] ? v->down : "no Vault is configured (gateway.yaml: vault)");
	else if (vault_now_ms() < v->down_until_ms)
		fail_later(op, v->down);
	else
		vault_pump(v);
	return op;
}

void vault_note_down(struct vault *v, uint32_t retry_after_s, const char *cause)
{
	uint64_t ms = v->failures > 8 ? DOWN_MAX_MS : (uint64_t)DOWN_FIRST_MS << v->failures;

	if (ms > DOWN_MAX_MS)
		ms = DOWN_MAX_MS;
	ms = vault_jitter(ms, 20);
	if (retry_after_s > 0)
		ms = retry_after_s * 1000ull;
	v->failures++;
	v->down_until_ms = vault_now_ms() + ms;
	if (cause != v->down)
		snprintf(v->down, sizeof(v->down), "%s", cause);
}

void vault_fail_queue(struct vault *v, const struct vault_session *only, const char *cause)
{
	for (struct vault_op *op = v->queue; op != NULL; op = op->next)
		if (timer_idle(&op->later) && op->with != VAULT_WITH_THIS && op->with != VAULT_WITH_NONE && (only == NULL || (op->session == only && op->with == VAULT_WITH_SESSION)))
			fail_later(op, cause);
}

static const struct secret *token_of(const struct vault_op *op)
{
	switch (op->with) {
	case VAULT_WITH_OWN:
		return op->v->token.value;
	case VAULT_WITH_SESSION:
		return op->session->shared ? op->v->token.value : op->session->token.value;
	case VAULT_WITH_THIS:
		return op->this_token;
	default:
		return NULL;
	}
}

/* Whether the token is there; if not, it is on its way afterwards. */
static bool token_ready(struct vault_op *op)
{
	struct vault *v = op->v;

	if (op->with == VAULT_WITH_NONE || op->with == VAULT_WITH_THIS)
		return true;
	if (!vault_token_usable(&v->token)) {
		vault_login(v);
		return false;
	}
	if (op->with == VAULT_WITH_OWN || op->session->shared)
		return true;
	if (vault_token_usable(&op->session->token) && op->session->parent_epoch == v->epoch)
		return true;
	vault_child(op->session);
	return false;
}

void vault_pump(struct vault *v)
{
	for (bool again = true; again;) {
		const struct vault_op *first = v->queue;

		again = false;
		for (struct vault_op *op = v->queue; op != NULL; op = op->next) {
			if (!timer_idle(&op->later) || !token_ready(op))
				continue;
			vault_send(op);
			again = true; /* the list is another one now */
			break;
		}
		again = again || v->queue != first; /* a token was asked for */
	}
}

/* --- answers ------------------------------------------------------------------------------------------------------- */

static void on_answer(void *arg, const struct http_answer *a);

void vault_send(struct vault_op *op)
{
	struct vault *v = op->v;
	struct http_request r = { .method = op->method, .to = v->to[v->at], .source = { v->sandbox, MSG_SOURCE_VAULT + v->at }, .tls = op->login ? &v->login_tls : &v->tls };
	const struct secret *token = token_of(op);
	struct buf path = { 0 };

	if (op->queued) {
		unlist(&v->queue, op);
		op->queued = false;
		op->next = v->running;
		v->running = op;
	}
	buf_adds(&path, v->to[v->at].path);
	buf_addz(&path, "/v1/");
	buf_addz(&path, op->path);
	r.to.path = buf_str(&path);
	http_header(&r, "X-Vault-Request", STR("true"));
	if (v->ns.n > 0)
		http_header(&r, "X-Vault-Namespace", v->ns);
	if (token != NULL)
		http_header(&r, "X-Vault-Token", secret_bytes(token));
	if (buf_len(&op->body) > 0)
		http_header(&r, "Content-Type", STR("application/json"));
	buf_adds(&r.body, buf_str(&op->body));
	op->call = http_start(v->http, &r, on_answer, op);
	buf_fini(&path);
}

static bool is_redirect(int status) { return status == 307 || status == 308 || status == 302 || status == 301; }

/* The configured address that a redirect leads to, or -1. */
static int redirect_to(const struct vault *v, const char *location)
{
	struct str url = str_of(location);
	const char *query = memchr(url.p, '?', url.n), *why;
	struct endpoint e;

	if (query != NULL)
		url.n = (size_t)(query - url.p);
	if (!endpoint_parse(url, &e, &why))
		return -1;
	for (unsigned i = 0; i < v->to_n; i++)
		if (v->to[i].port == e.port && strcmp(v->to[i].host.text, e.host.text) == 0)
			return (int)i;
	return -1;
}

/* Vault's own words: "errors": [...] */
static const char *first_error(json_t *root)
{
	const char *s = json_string_value(json_array_get(json_object_get(root, "errors"), 0));

	return s != NULL ? s : "";
}

/* What it cannot help with now. NULL: it can. */
static const char *unable(int status, json_t *root, char text[VAULT_CAUSE_MAX])
{
	char said[120];

	vault_printable(said, sizeof(said), first_error(root));
	if (status == 503 && strstr(said, "sealed") != NULL)
		return "Vault is sealed";
	if (status == 501 || (status == 400 && strstr(said, "not initialized") != NULL))
		return "Vault is not initialised";
	if (status == 429)
		return "Vault is over-loaded, or over its rate limit (429)";
	if (status == 472 || status == 473)
		return "this Vault is a standby that answers nothing: name the active one in gateway.yaml";
	if (status < 500)
		return NULL;
	snprintf(text, VAULT_CAUSE_MAX, "Vault is unavailable (%d%s%s)", status, said[0] ? ": " : "", said);
	return text;
}

static void on_self(void *arg, const struct vault_answer *a)
{
	struct vault_op *op = arg;
	struct vault *v = op->v;

	op->call = NULL;
	if (a->status != 403) {
		finish(op, 403, NULL, op->cause); /* the token lives: it is denied */
		return;
	}
	if (op->with == VAULT_WITH_SESSION && !op->session->shared) {
		op->session->voids++;
		vault_token_drop(&op->session->token, v->orphans);
	} else {
		v->voids++;
		vault_token_drop(&v->token, v->orphans);
	}
	unlist(&v->running, op);
	op->queued = true;
	op->next = v->queue;
	v->queue = op;
	vault_pump(v);
}

/* Asks about the token that it was asked with. */
static void ask_self(struct vault_op *op)
{
	const struct secret *t = token_of(op);
	struct vault_op *self = vault_op_new(op->v, NULL, VAULT_WITH_THIS, "GET", "auth/token/lookup-self", NULL, on_self, op);

	op->checked = true;
	self->this_token = secret_new(secret_bytes(t).p, secret_bytes(t).n);
	vault_send(self);
}

static void on_answer(void *arg, const struct http_answer *a)
{
	struct vault_op *op = arg;
	struct vault *v = op->v;
	char text[VAULT_CAUSE_MAX], said[160];
	const char *cause;
	json_t *root = NULL;
	json_error_t e;
	int at;

	op->call = NULL;
	if (a->status == 0) {
		snprintf(text, sizeof(text), "Vault at %s:%u cannot be reached: %s", v->to[v->at].host.text, v->to[v->at].port, a->cause);
		cause = text;
	} else if (is_redirect(a->status)) {
		at = a->location != NULL ? redirect_to(v, a->location) : -1;
		if (at >= 0 && op->tries++ < v->to_n) {
			v->at = (unsigned)at;
			vault_send(op);
			return;
		}
		cause = at >= 0 ? "Vault redirects in a circle" : "Vault redirects to an address that gateway.yaml does not name";
	} else {
		root = a->body.n > 0 ? json_loadb(a->body.p, a->body.n, JSON_REJECT_DUPLICATES, &e) : NULL;
		cause = a->body.n > 0 && root == NULL && a->status < 400 ? "Vault's answer cannot be read" : unable(a->status, root, text);
	}
	if (cause != NULL) {
		if (v->to_n > 1 && op->tries++ < v->to_n) {
			v->at = (v->at + 1) % v->to_n;
			vault_send(op);
		} else {
			vault_note_down(v, a->retry_after_s, cause);
			finish(op, 0, NULL, v->down);
		}
		json_decref(root);
		return;
	}
	v->failures = 0;
	if (a->status < 300) {
		finish(op, a->status, root, "");
	} else {
		vault_printable(said, sizeof(said), first_error(root));
		snprintf(op->cause, sizeof(op->cause), "Vault answers %d%s%s", a->status, said[0] ? ": " : "", said);
		if (a->status == 403 && !op->checked && (op->with == VAULT_WITH_OWN || op->with == VAULT_WITH_SESSION) && token_of(op) != NULL)
			ask_self(op);
		else
			finish(op, a->status, root, op->cause);
	}
	json_decref(root);
}

/* --- sessions, the end --------------------------------------------------------------------------------------------- */

struct vault_session *vault_session_new(struct vault *v, struct str name)
{
	struct vault_session *s = must_calloc(1, sizeof(*s));

	s->v = v;
	s->name = str_dupz(name);
	s->token.slot = -1;
	s->next = v->sessions;
	v->sessions = s;
	return s;
}

static void free_session(void *arg)
{
	struct vault_session *s = arg;

	secret_free(s->token.value);
	free(s->name);
	free(s);
}

static void session_done(struct vault_session *s)
{
	struct vault *v = s->v;

	for (struct vault_session **p = &v->sessions; *p != NULL; p = &(*p)->next) {
		if (*p == s) {
			*p = s->next;
			break;
		}
	}
	timer_stop(&s->again);
	timer_stop(&s->token.renew);
	loop_defer(v->loop, free_session, s);
	check_ended(v);
}

static void give_back(struct vault_session *s);

static void on_again(struct timer *t) { give_back((struct vault_session *)((char *)t - offsetof(struct vault_session, again))); }

static void on_given_back(void *arg, const struct vault_answer *a)
{
	struct vault_session *s = arg;

	if ((a->status >= 200 && a->status < 300) || (a->status >= 400 && a->status < 500)) {
		vault_token_drop(&s->token, s->v->orphans); /* gone, or was not there any more */
		session_done(s);
	} else if (++s->tries < 4 && !s->v->ending) {
		timer_start(s->v->loop, &s->again, 1000u << s->tries, on_again);
	} else {
		log_info("the Vault token of sandbox %s could not be revoked (%s): it ends by itself within %u minutes", s->name, a->cause, VAULT_CHILD_TTL_S / 60);
		session_done(s);
	}
}

static void give_back(struct vault_session *s) { vault_give_back(s->v, &s->token, on_given_back, s); }

void vault_session_end(struct vault_session *s)
{
	struct vault *v;

	if (s == NULL)
		return;
	v = s->v;
	s->ended = true;
	for (struct vault_op *op = v->queue, *next; op != NULL; op = next) {
		next = op->next;
		if (op->session == s && op->with == VAULT_WITH_SESSION)
			drop(op);
	}
	for (struct vault_op *op = v->running, *next; op != NULL; op = next) {
		next = op->next;
		if (op->session == s && op->with == VAULT_WITH_SESSION)
			drop(op);
	}
	timer_stop(&s->token.renew);
	if (s->making)
		return; /* its end is looked at when the token is there */
	if (s->token.value != NULL && vault_configured(v))
		give_back(s);
	else
		session_done(s);
}

uint32_t vault_epoch(const struct vault_session *s) { return s->epoch + s->v->epoch; }
uint32_t vault_voids(const struct vault_session *s) { return s->voids + s->v->voids; }
uint64_t vault_bound_ms(const struct vault_session *s) { return s->shared ? s->v->token.until_ms : s->token.until_ms; }
bool vault_session_shared(const struct vault_session *s) { return s->shared; }

static void on_ignored(void *arg, const struct vault_answer *a)
{
	(void)arg;
	(void)a;
}

void vault_revoke_lease(struct vault_session *s, const char *lease)
{
	struct vault *v = s->v;
	const struct secret *t = s->shared ? v->token.value : s->token.value;
	struct vault_op *op;

	if (t == NULL || !vault_configured(v))
		return;
	/* with this very token: the session may be over before it is sent */
	op = vault_op_new(v, NULL, VAULT_WITH_THIS, "PUT", "sys/leases/revoke", json_pack("{s:s}", "lease_id", lease), on_ignored, NULL);
	op->this_token = secret_new(secret_bytes(t).p, secret_bytes(t).n);
	vault_send(op);
}

size_t vault_busy(const struct vault *v)
{
	size_t n = 0;

	for (const struct vault_session *s = v->sessions; s != NULL; s = s->next)
		n++;
	for (const struct vault_op *op = v->running; op != NULL; op = op->next)
		n++;
	return n + (v->token.slot >= 0);
}

static void on_own_given_back(void *arg, const struct vault_answer *a)
{
	struct vault *v = arg;

	(void)a;
	vault_token_drop(&v->token, v->orphans);
	v->token.slot = -1;
}

void vault_end(struct vault *v, void (*done)(void *arg), void *arg)
{
	v->ending = true;
	v->ended = done;
	v->ended_arg = arg;
	timer_stop(&v->token.renew);
	if (v->token.value != NULL && v->auth != VAULT_AUTH_TOKEN)
		vault_give_back(v, &v->token, on_own_given_back, v);
	else
		v->token.slot = -1;
	check_ended(v);
}

void vault_free(struct vault *v)
{
	if (v == NULL)
		return;
	while (v->queue != NULL)
		drop(v->queue);
	while (v->running != NULL)
		drop(v->running);
	while (v->sessions != NULL) {
		struct vault_session *s = v->sessions;

		v->sessions = s->next;
		timer_stop(&s->again);
		timer_stop(&s->token.renew);
		free_session(s);
	}
	timer_stop(&v->token.renew);
	secret_free(v->token.value);
	secret_free(v->credential);
	secret_free(v->looked_up);
	X509_STORE_free(v->tls.store);
	X509_free(v->login_tls.certificate);
	EVP_PKEY_free(v->login_tls.key);
	free(v->text);
	free(v);
}

void vault_ask_again(struct vault *v)
{
	v->failures = 0;
	v->down_until_ms = 0;
}

void vault_report(const struct vault *v, json_t *o)
{
	uint64_t now = vault_now_ms();
	char url[CANON_HOST_MAX + 32];

	if (!vault_configured(v)) {
		json_object_set_new(o, "state", json_string(v->down[0] ? v->down : "not configured"));
		return;
	}
	snprintf(url, sizeof(url), "https://%s:%u", v->to[v->at].host.text, v->to[v->at].port);
	json_object_set_new(o, "address", json_string(url));
	if (v->ns.n > 0)
		json_object_set_new(o, "namespace", json_stringn(v->ns.p, v->ns.n));
	if (now < v->down_until_ms)
		json_object_set_new(o, "state", json_string(v->down));
	else
		json_object_set_new(o, "state", json_string(vault_token_usable(&v->token) ? "logged in" : v->logging_in ? "logging in"
															: "not asked yet"));
	if (v->token.until_ms > now)
		json_object_set_new(o, "token_for_s", json_integer((json_int_t)((v->token.until_ms - now) / 1000)));
}
