/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our own token and those of sandboxes. A token is renewed when two thirds of it have passed, a little more or less, so
 * that many gateways do not come at once. When a renewal gives less than half of what the token was given for, its end
 * (the maximal TTL) is near: we log in again while it still works, and the others move to the new one. What stops by a
 * sleeping machine or a stopped process is found by the clock, not by an error: a token is not used past its time.
 */
#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../common/base/must.h"
#include "../../common/sys/log.h"
#include "source.h"
#include "vault_int.h"

#define RETRY_MS 2000

bool vault_token_usable(const struct vault_token *t) { return t->value != NULL && (t->until_ms == 0 || vault_now_ms() < t->until_ms); }

void vault_token_drop(struct vault_token *t, struct orphans *o)
{
	timer_stop(&t->renew);
	secret_free(t->value);
	t->value = NULL;
	if (o != NULL)
		orphans_remove(o, t->slot);
	t->slot = -1;
}

/* Takes what a login, a creation or a renewal answered. False: there is no token in it. */
static bool take(struct vault_token *t, json_t *root, struct orphans *o, bool ours)
{
	json_t *auth = json_object_get(root, "auth");
	const char *value = json_string_value(json_object_get(auth, "client_token")), *accessor = json_string_value(json_object_get(auth, "accessor"));
	json_int_t s = json_integer_value(json_object_get(auth, "lease_duration"));

	if (value == NULL || value[0] == 0 || strlen(value) > SECRET_MAX)
		return false;
	vault_token_drop(t, o);
	t->value = secret_new(value, strlen(value));
	t->until_ms = s > 0 ? vault_now_ms() + (uint64_t)s * 1000 : 0;
	t->first_s = s > 0 && s < UINT32_MAX ? (uint32_t)s : 0;
	t->renewable = json_is_true(json_object_get(auth, "renewable"));
	snprintf(t->accessor, sizeof(t->accessor), "%s", accessor != NULL ? accessor : "");
	t->slot = ours && o != NULL ? orphans_add(o, t->accessor) : -1;
	return true;
}

/* --- renewal ------------------------------------------------------------------------------------------------------- */

static void renew_at(struct vault *v, struct vault_token *t, timer_fn *fn)
{
	uint64_t now = vault_now_ms();

	if (t->until_ms > 0)
		timer_start(v->loop, &t->renew, t->until_ms > now ? vault_jitter((t->until_ms - now) / 3 * 2, 10) : 0, fn);
}

/* 1 renewed, 0 try again soon, -1 there is no more of this one */
static int renewed(struct vault_token *t, const struct vault_answer *a)
{
	json_int_t s = json_integer_value(json_object_get(json_object_get(a->root, "auth"), "lease_duration"));

	if (a->status == 0 || a->status >= 500)
		return t->until_ms > vault_now_ms() + RETRY_MS ? 0 : -1;
	if (a->status >= 300 || s <= 0)
		return -1;
	t->until_ms = vault_now_ms() + (uint64_t)s * 1000;
	return (uint64_t)s * 2 < t->first_s ? -1 : 1;
}

static void on_own_due(struct timer *t);

static void on_own_renewed(void *arg, const struct vault_answer *a)
{
	struct vault *v = arg;

	switch (renewed(&v->token, a)) {
	case 1:
		renew_at(v, &v->token, on_own_due);
		break;
	case 0:
		timer_start(v->loop, &v->token.renew, vault_jitter(RETRY_MS, 50), on_own_due);
		break;
	default:
		vault_login(v);
	}
}

static void on_own_due(struct timer *t)
{
	struct vault *v = (struct vault *)((char *)t - offsetof(struct vault, token.renew));

	if (!vault_token_usable(&v->token) || !v->token.renewable) {
		vault_login(v);
		return;
	}
	vault_op_new(v, NULL, VAULT_WITH_OWN, "POST", "auth/token/renew-self", json_object(), on_own_renewed, v);
	vault_pump(v);
}

/* --- a sandbox's --------------------------------------------------------------------------------------------------- */

static void on_child_due(struct timer *t);

static void on_child_renewed(void *arg, const struct vault_answer *a)
{
	struct vault_session *s = arg;

	switch (renewed(&s->token, a)) {
	case 1:
		renew_at(s->v, &s->token, on_child_due);
		break;
	case 0:
		timer_start(s->v->loop, &s->token.renew, vault_jitter(RETRY_MS, 50), on_child_due);
		break;
	default:
		s->epoch++; /* its leases end with it: they are had anew under the next one */
		s->parent_epoch = s->v->epoch - 1;
	}
}

static void on_child_due(struct timer *t)
{
	struct vault_session *s = (struct vault_session *)((char *)t - offsetof(struct vault_session, token.renew));
	struct vault_op *op;

	if (!vault_token_usable(&s->token) || s->ended || s->parent_epoch != s->v->epoch)
		return; /* the next question makes another */
	op = vault_op_new(s->v, s, VAULT_WITH_SESSION, "POST", "auth/token/renew-self", json_object(), on_child_renewed, s);
	op->checked = true;
	vault_pump(s->v);
}

static void on_child(void *arg, const struct vault_answer *a)
{
	static struct log_limit limit;
	struct vault_session *s = arg;
	struct vault *v = s->v;

	s->making = false;
	if (a->status >= 200 && a->status < 300 && take(&s->token, a->root, v->orphans, true)) {
		s->parent_epoch = v->epoch;
		s->epoch++;
		renew_at(v, &s->token, on_child_due);
	} else if (a->status >= 400 && a->status < 500) {
		log_limited(&limit, "Vault lets us make no token for a sandbox (%s): its secrets are read with our own, its leases revoked one by one. A policy that grants update on auth/token/create changes that", a->cause);
		s->shared = true;
	} else {
		vault_fail_queue(v, s, a->cause);
	}
	if (s->ended) {
		s->ended = false;
		vault_session_end(s); /* ended while this was under way */
		return;
	}
	vault_pump(v);
}

void vault_child(struct vault_session *s)
{
	struct vault *v = s->v;
	char ttl[32], shown[100];

	if (s->making)
		return;
	s->making = true;
	snprintf(ttl, sizeof(ttl), "%us", VAULT_CHILD_TTL_S);
	snprintf(shown, sizeof(shown), "sallyport-%s", s->name);
	vault_op_new(v, s, VAULT_WITH_OWN, "POST", "auth/token/create", json_pack("{s:s,s:s,s:b,s:{s:s}}", "display_name", shown, "ttl", ttl, "renewable", 1, "meta", "sallyport_sandbox", s->name), on_child, s);
}

void vault_give_back(struct vault *v, const struct vault_token *t, vault_fn *fn, void *arg)
{
	struct vault_op *op = vault_op_new(v, NULL, VAULT_WITH_THIS, "POST", "auth/token/revoke-self", json_object(), fn, arg);

	op->this_token = secret_new(secret_bytes(t->value).p, secret_bytes(t->value).n);
	vault_send(op);
}

/* --- what an earlier life left ------------------------------------------------------------------------------------- */

struct swept {
	struct vault *v;
	int slot;
};

static void sweep(struct vault *v, int from);

static void on_swept(void *arg, const struct vault_answer *a)
{
	static struct log_limit limit;
	struct swept w = *(struct swept *)arg;

	free(arg);
	if (a->status == 403)
		log_limited(&limit, "Vault tokens that an earlier gateway left cannot be revoked (%s): they end by themselves within %u minutes. A policy that grants update on auth/token/revoke-accessor changes that", a->cause, VAULT_CHILD_TTL_S / 60);
	if (a->status == 0)
		return; /* they stay for the next start */
	orphans_remove(w.v->orphans, w.slot);
	sweep(w.v, w.slot + 1);
}

static void sweep(struct vault *v, int from)
{
	char accessor[ORPHAN_SIZE];
	struct vault_op *op;
	struct swept *w;
	int at = from;

	if (v->orphans == NULL || !orphans_left(v->orphans, &at, accessor))
		return;
	w = must_malloc(sizeof(*w));
	*w = (struct swept){ v, at };
	op = vault_op_new(v, NULL, VAULT_WITH_OWN, "POST", "auth/token/revoke-accessor", json_pack("{s:s}", "accessor", accessor), on_swept, w);
	op->checked = true;
	vault_pump(v);
}

/* --- logging in ---------------------------------------------------------------------------------------------------- */

static void refused(struct vault *v, const char *cause)
{
	v->logging_in = false;
	vault_note_down(v, 0, cause);
	vault_fail_queue(v, NULL, v->down);
}

static void logged_in(struct vault *v)
{
	v->logging_in = false;
	v->failures = 0;
	v->epoch++;
	renew_at(v, &v->token, on_own_due);
	if (!v->swept) {
		v->swept = true;
		sweep(v, 0);
	}
	vault_pump(v);
}

static void on_login(void *arg, const struct vault_answer *a)
{
	struct vault *v = arg;
	char cause[VAULT_CAUSE_MAX];

	if (a->status >= 200 && a->status < 300 && take(&v->token, a->root, v->orphans, true)) {
		logged_in(v);
		return;
	}
	if (a->status == 0)
		snprintf(cause, sizeof(cause), "%s", a->cause);
	else
		snprintf(cause, sizeof(cause), "Vault refuses our login by %s: %s", v->auth == VAULT_AUTH_APPROLE ? "AppRole" : v->auth == VAULT_AUTH_KUBERNETES ? "Kubernetes"
															: v->auth == VAULT_AUTH_JWT		 ? "JWT"
																				 : "certificate",
			 a->status < 300 ? "there is no token in its answer" : a->cause);
	if (v->auth == VAULT_AUTH_APPROLE && a->status >= 400) { /* it may be a spent one */
		secret_free(v->credential);
		v->credential = NULL;
	}
	refused(v, cause);
}

static void post_login(struct vault *v, const char *mount, json_t *body)
{
	struct buf path = { 0 };
	struct vault_op *op;

	buf_addz(&path, "auth/");
	buf_adds(&path, v->mount.n > 0 ? v->mount : str_of(mount));
	buf_addz(&path, "/login");
	buf_addc(&path, 0);
	op = vault_op_new(v, NULL, VAULT_WITH_NONE, "POST", (const char *)buf_data(&path), body, on_login, v);
	op->login = true;
	buf_fini(&path);
	vault_send(op);
}

/* By hand, or by a file: what it may and how long is asked of Vault. */
static void on_looked_up(void *arg, const struct vault_answer *a)
{
	struct vault *v = arg;
	json_t *data = json_object_get(a->root, "data");
	json_int_t ttl = json_integer_value(json_object_get(data, "ttl"));
	char cause[VAULT_CAUSE_MAX];

	if (a->status < 200 || a->status >= 300) {
		snprintf(cause, sizeof(cause), a->status == 403 ? "Vault does not know the token%s (any more): %s" : "%.0s%s", v->given ? " that was given" : " of its file", a->cause);
		vault_token_drop(&v->token, v->orphans);
		refused(v, cause);
		return;
	}
	vault_token_drop(&v->token, v->orphans);
	v->token.value = v->looked_up;
	v->looked_up = NULL;
	v->token.until_ms = ttl > 0 ? vault_now_ms() + (uint64_t)ttl * 1000 : 0;
	v->token.first_s = ttl > 0 ? (uint32_t)ttl : 0;
	v->token.renewable = json_is_true(json_object_get(data, "renewable"));
	logged_in(v);
}

static void look_up(struct vault *v, const struct secret *token)
{
	struct vault_op *op = vault_op_new(v, NULL, VAULT_WITH_THIS, "GET", "auth/token/lookup-self", NULL, on_looked_up, v);

	secret_free(v->looked_up);
	v->looked_up = secret_new(secret_bytes(token).p, secret_bytes(token).n);
	op->this_token = secret_new(secret_bytes(token).p, secret_bytes(token).n);
	vault_send(op);
}

static void on_token_file(void *arg, const struct secret *value, const char *cause)
{
	struct vault *v = arg;

	if (value == NULL || !secret_sendable(value)) {
		refused(v, value == NULL ? cause : "Vault's token_file holds no token");
		return;
	}
	look_up(v, value);
}

static void login_approle(struct vault *v)
{
	json_t *body = json_pack("{s:s#}", "role_id", v->role_id.p, v->role_id.n);

	if (v->credential != NULL)
		json_object_set_new(body, "secret_id", json_stringn(secret_bytes(v->credential).p, secret_bytes(v->credential).n));
	post_login(v, "approle", body);
}

static void on_unwrapped(void *arg, const struct vault_answer *a)
{
	struct vault *v = arg;
	const char *id = json_string_value(json_object_get(json_object_get(a->root, "data"), "secret_id"));
	char cause[VAULT_CAUSE_MAX];

	if (a->status >= 200 && a->status < 300 && id != NULL) {
		secret_free(v->credential);
		v->credential = secret_new(id, strlen(id));
		login_approle(v);
		return;
	}
	if (a->status == 0)
		snprintf(cause, sizeof(cause), "%s", a->cause);
	else
		snprintf(cause, sizeof(cause), "the wrapped secret_id cannot be unwrapped (%s): it has expired, or SOMEBODY ELSE HAS UNWRAPPED IT; revoke that secret_id and put a new one in place", a->cause);
	refused(v, cause);
}

/* A wrapping token of somebody else's making would give us an identity of his: only what was wrapped for AppRole will do. */
static void on_wrap_seen(void *arg, const struct vault_answer *a)
{
	struct vault *v = arg;
	const char *path = json_string_value(json_object_get(json_object_get(a->root, "data"), "creation_path"));
	struct buf want = { 0 };
	struct vault_op *op;
	bool ok;

	buf_addz(&want, "auth/");
	buf_adds(&want, v->mount.n > 0 ? v->mount : STR("approle"));
	buf_addz(&want, "/role/");
	ok = path != NULL && str_starts(str_of(path), buf_str(&want)) && str_ends(str_of(path), STR("/secret-id"));
	buf_fini(&want);
	if (a->status == 0 || a->status >= 300) {
		on_unwrapped(v, &(struct vault_answer){ a->status, NULL, a->cause });
		return;
	}
	if (!ok) {
		refused(v, "the wrapped secret_id was not wrapped by AppRole: it is not used");
		return;
	}
	op = vault_op_new(v, NULL, VAULT_WITH_THIS, "POST", "sys/wrapping/unwrap", json_object(), on_unwrapped, v);
	op->this_token = v->credential; /* the wrapping token */
	v->credential = NULL;
	vault_send(op);
}

static void on_secret_id(void *arg, const struct secret *value, const char *cause)
{
	struct vault *v = arg;

	if (value == NULL || !secret_sendable(value)) {
		refused(v, value == NULL ? cause : "Vault's secret_id_file is empty");
		return;
	}
	secret_free(v->credential);
	v->credential = secret_new(secret_bytes(value).p, secret_bytes(value).n);
	if (v->wrapped)
		vault_send(vault_op_new(v, NULL, VAULT_WITH_NONE, "POST", "sys/wrapping/lookup", json_pack("{s:s#}", "token", secret_bytes(value).p, secret_bytes(value).n), on_wrap_seen, v));
	else
		login_approle(v);
}

static void on_jwt(void *arg, const struct secret *value, const char *cause)
{
	struct vault *v = arg;

	if (value == NULL || !secret_sendable(value)) {
		refused(v, value == NULL ? cause : "Vault's jwt_file is empty");
		return;
	}
	post_login(v, v->auth == VAULT_AUTH_JWT ? "jwt" : "kubernetes", json_pack("{s:s#,s:s#}", "role", v->role.p, v->role.n, "jwt", secret_bytes(value).p, secret_bytes(value).n));
}

static void login_cert(struct vault *v) { post_login(v, "cert", v->role.n > 0 ? json_pack("{s:s#}", "name", v->role.p, v->role.n) : json_object()); }

static void on_key(void *arg, const struct secret *value, const char *cause)
{
	struct vault *v = arg;
	BIO *b = value != NULL ? BIO_new_mem_buf(secret_bytes(value).p, (int)secret_bytes(value).n) : NULL;

	EVP_PKEY_free(v->login_tls.key);
	v->login_tls.key = b != NULL ? PEM_read_bio_PrivateKey(b, NULL, NULL, (void *)(uintptr_t) "") : NULL;
	BIO_free(b);
	if (v->login_tls.key == NULL)
		refused(v, value == NULL ? cause : "Vault's key_file holds no private key in PEM form without a password");
	else if (X509_check_private_key(v->login_tls.certificate, v->login_tls.key) != 1)
		refused(v, "Vault's key_file is not the key of cert_file");
	else
		login_cert(v);
}

static void on_certificate(void *arg, const struct secret *value, const char *cause)
{
	struct vault *v = arg;
	BIO *b = value != NULL ? BIO_new_mem_buf(secret_bytes(value).p, (int)secret_bytes(value).n) : NULL;

	X509_free(v->login_tls.certificate);
	v->login_tls.certificate = b != NULL ? PEM_read_bio_X509(b, NULL, NULL, NULL) : NULL;
	BIO_free(b);
	if (v->login_tls.certificate == NULL)
		refused(v, value == NULL ? cause : "Vault's cert_file holds no certificate in PEM form");
	else
		sources_file_get(v->files, v->key_file, on_key, v);
}

void vault_login(struct vault *v)
{
	if (v->logging_in || v->ending)
		return;
	if (vault_now_ms() < v->down_until_ms) {
		vault_fail_queue(v, NULL, v->down);
		return;
	}
	v->logging_in = true;
	timer_stop(&v->token.renew);
	switch (v->auth) {
	case VAULT_AUTH_TOKEN:
		if (!v->given)
			sources_file_get(v->files, v->token_file, on_token_file, v);
		else
			look_up(v, v->credential);
		break;
	case VAULT_AUTH_APPROLE:
		if (v->secret_id_file.n == 0 || (v->wrapped && v->credential != NULL))
			login_approle(v);
		else
			sources_file_get(v->files, v->secret_id_file, on_secret_id, v);
		break;
	case VAULT_AUTH_KUBERNETES:
	case VAULT_AUTH_JWT:
		sources_file_get(v->files, v->jwt_file, on_jwt, v);
		break;
	case VAULT_AUTH_CERT:
		sources_file_get(v->files, v->cert_file, on_certificate, v);
		break;
	default:
		refused(v, "there is no way to log in");
	}
}
