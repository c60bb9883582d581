/* SPDX-License-Identifier: Apache-2.0 */
/* What of the secrets role is free of I/O: parameters of a secret, URLs, Vault's answers, tokens' requests and answers; and the file of accessors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>

#include "proxy/secrets/orphans.h"
#include "proxy/secrets/token.h"
#include "proxy/secrets/vault.h"

static void urls(void **state)
{
	static const struct {
		const char *url, *host, *path;
		uint16_t port;
	} good[] = {
		{ "https://vault.acme.example", "vault.acme.example", "/", 443 },
		{ "https://VAULT.acme.example:8200/", "vault.acme.example", "/", 8200 },
		{ "https://10.0.0.1:8200/prefix/a-b_c.d~e", "10.0.0.1", "/prefix/a-b_c.d~e", 8200 },
		{ "https://[fd00::5]:8200/x", "fd00::5", "/x", 8200 },
	};
	static const char *const bad[] = { "", "https://", "http://a.test/", "https:///x", "https://a.test:0/", "https://a.test:65536/", "https://a.test/../x", "https://a.test/./x", "https://a.test//x",
					   "https://a.test/x?y", "https://a.test/x#y", "https://a.test/%2e%2e/x", "https://u:p@a.test/", "https://a.test/x\\y", "https://a.test/x y", "https://a..test/", "https://fd00::5/", "HTTPS://a.test/", "https://a.test/x/.." };
	struct endpoint e;
	const char *why;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_true(endpoint_parse(str_of(good[i].url), &e, &why));
		assert_string_equal(e.host.text, good[i].host);
		assert_int_equal(e.port, good[i].port);
		assert_true(str_eq(e.path, str_of(good[i].path)));
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		why = NULL;
		if (endpoint_parse(str_of(bad[i]), &e, &why))
			fail_msg("taken: %s", bad[i]);
		assert_non_null(why);
	}
}

static void add(struct buf *b, enum secret_param tag, const char *text)
{
	put_u8(b, (uint8_t)tag);
	put_str(b, str_of(text));
}

static bool load(const struct buf *b, uint32_t n, struct secret_params *p)
{
	struct buf all = { 0 };
	struct cursor c;
	static uint8_t keep[4096];
	bool ok;

	put_u32(&all, n);
	buf_adds(&all, buf_str(b));
	assert_true(buf_len(&all) <= sizeof(keep));
	memcpy(keep, buf_data(&all), buf_len(&all));
	c = cursor_on(str_mk(keep, buf_len(&all)));
	buf_fini(&all);
	ok = secret_params_load(&c, p);
	return ok && c.at == c.n;
}

static void parameters(void **state)
{
	struct secret_params p;
	struct buf b = { 0 };

	(void)state;
	assert_true(load(&b, 0, &p));
	assert_int_equal(secret_param(&p, SECRET_PARAM_URL, 0).n, 0);
	add(&b, SECRET_PARAM_URL, "https://a.test/");
	add(&b, SECRET_PARAM_ADDRESS, "10.0.0.0/8");
	add(&b, SECRET_PARAM_ADDRESS, "11.0.0.0/8");
	put_u8(&b, SECRET_PARAM_CA);
	put_u32(&b, 3);
	buf_addz(&b, "\1\2\3");
	assert_true(load(&b, 4, &p));
	assert_true(str_eq(secret_param(&p, SECRET_PARAM_ADDRESS, 1), STR("11.0.0.0/8")));
	assert_int_equal(secret_param(&p, SECRET_PARAM_ADDRESS, 2).n, 0);
	assert_true(str_eq(secret_param(&p, SECRET_PARAM_CA, 0), STR("\1\2\3")));
	assert_false(load(&b, 5, &p));		      /* more than there are */
	assert_false(load(&b, 3, &p));		      /* fewer */
	add(&b, SECRET_PARAM_URL, "https://b.test/"); /* out of order */
	assert_false(load(&b, 5, &p));
	buf_clear(&b);
	add(&b, SECRET_PARAM_URL, "x"); /* twice what is there once */
	add(&b, SECRET_PARAM_URL, "y");
	assert_false(load(&b, 2, &p));
	buf_clear(&b);
	add(&b, SECRET_PARAM_COUNT, "x");
	assert_false(load(&b, 1, &p));
	buf_clear(&b);
	add(&b, SECRET_PARAM_SCOPE, "");
	assert_false(load(&b, 1, &p));
	buf_clear(&b);
	put_u8(&b, SECRET_PARAM_SCOPE);
	put_str(&b, STR("a\0b"));
	assert_false(load(&b, 1, &p));
	buf_fini(&b);
}

static void field(const char *json, bool dynamic, const char *name, const char *value, const char *cause)
{
	json_t *j = json_loads(json, 0, NULL);
	char text[VAULT_CAUSE_MAX] = "";
	struct secret *s = vault_field(j, dynamic, STR("secret/data/x"), str_of(name), text);

	assert_non_null(j);
	if (value != NULL) {
		if (s == NULL)
			fail_msg("%s: %s", json, text);
		assert_true(str_eq(secret_bytes(s), str_of(value)));
	} else {
		assert_null(s);
		if (strstr(text, cause) == NULL)
			fail_msg("%s: %s", json, text);
	}
	secret_free(s);
	json_decref(j);
}

static void vault_answers(void **state)
{
	static const char v2[] = "{\"data\":{\"data\":{\"token\":\"abc\",\"n\":5},\"metadata\":{\"version\":3}}}";
	char out[VAULT_CAUSE_MAX];

	(void)state;
	field(v2, false, "token", "abc", NULL);
	field(v2, false, "n", "5", NULL);
	field(v2, false, "*", "{\"n\":5,\"token\":\"abc\"}", NULL);
	field(v2, false, "", NULL, "several fields (token, n)");
	field(v2, false, "tok", NULL, "no field tok (it has: token, n)");
	field("{\"data\":{\"data\":{\"only\":\"x\"},\"metadata\":{\"version\":1}}}", false, "", "x", NULL);
	field("{\"data\":{\"data\":null,\"metadata\":{\"version\":2}}}", false, "a", NULL, "was deleted");
	field("{\"data\":{\"token\":\"v1\"}}", false, "token", "v1", NULL);
	/* a KV v1 secret whose fields are called so is not taken for version 2 */
	field("{\"data\":{\"data\":\"plain\",\"metadata\":\"also\"}}", false, "data", "plain", NULL);
	field("{\"data\":{\"access_key\":\"a\",\"secret_key\":\"b\"}}", true, "", "{\"access_key\":\"a\",\"secret_key\":\"b\"}", NULL);
	field("{\"data\":{\"access_key\":\"a\",\"secret_key\":\"b\"}}", true, "secret_key", "b", NULL);
	field("{\"data\":null}", false, "a", NULL, "nothing at");
	field("{\"data\":[1]}", false, "a", NULL, "nothing at");
	field("{\"data\":{\"a\":null}}", false, "a", NULL, "no field a");

	vault_explain_path(STR("secret/agents/x"), STR("secret/"), 2, out);
	assert_non_null(strstr(out, "write `vault: secret/data/agents/x`"));
	vault_explain_path(STR("secret/metadata/agents/x"), STR("secret/"), 2, out);
	assert_non_null(strstr(out, "write `vault: secret/data/agents/x`"));
	vault_explain_path(STR("a/b/data/x"), STR("a/b/"), 1, out);
	assert_non_null(strstr(out, "write `vault: a/b/x`"));
	vault_explain_path(STR("secret/data/x"), STR("secret/"), 2, out);
	assert_string_equal(out, "");
	vault_explain_path(STR("secret/x"), STR("secret/"), 1, out);
	assert_string_equal(out, "");
	vault_explain_path(STR("secret/x"), STR("other/"), 2, out);
	assert_string_equal(out, "");
	vault_explain_path(STR("x"), STR("x/longer/"), 2, out);
	assert_string_equal(out, "");
}

static struct secret_decl decl(struct buf *b, enum secret_token token, uint32_t n)
{
	struct secret_decl d = { .token = token };

	assert_true(load(b, n, &d.params));
	return d;
}

static void token_answers(void **state)
{
	struct buf b = { 0 };
	struct secret_decl oauth, github;
	struct token_kind oauth_kind, github_kind;
	char cause[TOKEN_CAUSE_MAX];
	struct secret *s, *next;
	uint32_t for_s;

	(void)state;
	add(&b, SECRET_PARAM_GRANT, "refresh_token");
	oauth = decl(&b, SECRET_TOKEN_OAUTH2, 1);
	oauth_kind = token_kind(&oauth);
	s = token_answer(&oauth_kind, 200, STR("{\"access_token\":\"a\",\"expires_in\":90,\"refresh_token\":\"r\",\"token_type\":\"Bearer\"}"), 1000, &for_s, &next, cause);
	assert_true(s != NULL && next != NULL && for_s == 90 && str_eq(secret_bytes(s), STR("a")) && str_eq(secret_bytes(next), STR("r")));
	secret_free(s);
	secret_free(next);
	assert_null(token_answer(&oauth_kind, 200, STR("{\"access_token\":\"a\",\"token_type\":\"mac\"}"), 1000, &for_s, &next, cause));
	assert_null(token_answer(&oauth_kind, 200, STR("{\"access_token\":\"\"}"), 1000, &for_s, &next, cause));
	assert_null(token_answer(&oauth_kind, 200, STR("{\"access_token\":7}"), 1000, &for_s, &next, cause));
	assert_null(token_answer(&oauth_kind, 200, STR("no json"), 1000, &for_s, &next, cause));
	assert_null(token_answer(&oauth_kind, 200, STR("{\"access_token\":\"a\",\"access_token\":\"b\"}"), 1000, &for_s, &next, cause));
	assert_null(token_answer(&oauth_kind, 400, STR("{\"error\":\"invalid_grant\",\"error_description\":\"gone\\n\\u001b[31m\"}"), 1000, &for_s, &next, cause));
	assert_non_null(strstr(cause, "400: invalid_grant: gone"));
	for (const char *p = cause; *p; p++)
		assert_true(*p >= 0x20 && *p < 0x7f);
	github = (struct secret_decl){ .token = SECRET_TOKEN_GITHUB_APP };
	github_kind = token_kind(&github);
	s = token_answer(&github_kind, 201, STR("{\"token\":\"ghs_x\",\"expires_at\":\"1970-01-01T01:00:00Z\"}"), 60, &for_s, &next, cause);
	assert_true(s != NULL && for_s == 3540);
	secret_free(s);
	s = token_answer(&github_kind, 201, STR("{\"token\":\"ghs_x\",\"expires_at\":\"1969\"}"), 60, &for_s, &next, cause);
	assert_true(s != NULL && for_s == 0); /* not known: not kept */
	secret_free(s);
	buf_fini(&b);
}

/* The signature of a GitHub App's request is the key's, over what stands before it. */
static void signed_request(void **state)
{
	EVP_PKEY *key = EVP_RSA_gen(2048);
	BIO *bio = BIO_new(BIO_s_mem());
	EVP_MD_CTX *md = EVP_MD_CTX_new();
	char cause[TOKEN_CAUSE_MAX], *pem, padded[1024];
	unsigned char sig[1024];
	struct token_request r;
	struct secret_decl d;
	struct buf b = { 0 };
	struct secret *s;
	struct str jwt;
	const char *dot;
	size_t n;
	int k;

	(void)state;
	assert_true(key != NULL && PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) == 1);
	n = (size_t)BIO_get_mem_data(bio, &pem);
	s = secret_new(pem, n);
	add(&b, SECRET_PARAM_APP, "12345");
	add(&b, SECRET_PARAM_INSTALLATION, "9");
	d = decl(&b, SECRET_TOKEN_GITHUB_APP, 2);
	assert_true(token_request(&d, s, 1000000, &r, cause));
	assert_true(str_eq(buf_str(&r.path), STR("/app/installations/9/access_tokens")));
	jwt = buf_str(&r.authorization);
	assert_true(str_starts(jwt, STR("Bearer ")));
	jwt = str_mk(jwt.p + 7, jwt.n - 7);
	dot = memrchr(jwt.p, '.', jwt.n);
	n = (size_t)(jwt.p + jwt.n - dot) - 1;
	assert_true(n < sizeof(padded) - 4);
	for (size_t i = 0; i < n; i++)
		padded[i] = dot[1 + i] == '-' ? '+' : dot[1 + i] == '_' ? '/'
									: dot[1 + i];
	while (n % 4 != 0)
		padded[n++] = '=';
	k = EVP_DecodeBlock(sig, (const unsigned char *)padded, (int)n);
	assert_true(k >= 256);
	assert_int_equal(EVP_DigestVerifyInit(md, NULL, EVP_sha256(), NULL, key), 1);
	assert_int_equal(EVP_DigestVerify(md, sig, 256, (const unsigned char *)jwt.p, (size_t)(dot - jwt.p)), 1);
	token_request_fini(&r);
	secret_free(s);
	s = secret_new("no key", 6);
	assert_false(token_request(&d, s, 1000000, &r, cause));
	assert_non_null(strstr(cause, "private key"));
	token_request_fini(&r);
	secret_free(s);
	EVP_MD_CTX_free(md);
	EVP_PKEY_free(key);
	BIO_free(bio);
	buf_fini(&b);
}

static void accessors(void **state)
{
	int fd = memfd_create("accessors", MFD_CLOEXEC), at = 0, a, b;
	struct orphans *o = orphans_new(dup(fd));
	char text[ORPHAN_SIZE];

	(void)state;
	assert_false(orphans_left(o, &at, text));
	a = orphans_add(o, "accessor-a");
	b = orphans_add(o, "accessor-b");
	assert_true(a >= 0 && b >= 0 && a != b);
	assert_int_equal(orphans_add(o, ""), -1);
	at = 0;
	assert_false(orphans_left(o, &at, text)); /* our own are no orphans */
	orphans_remove(o, a);
	orphans_remove(o, -1);
	orphans_free(o);
	/* the next life */
	o = orphans_new(dup(fd));
	at = 0;
	assert_true(orphans_left(o, &at, text));
	assert_string_equal(text, "accessor-b");
	assert_int_equal(orphans_add(o, "accessor-c"), a); /* not over the one that is left */
	orphans_remove(o, at);
	at = 0;
	assert_false(orphans_left(o, &at, text));
	orphans_free(o);
	/* what somebody wrote into it is not asked about */
	assert_int_equal(pwrite(fd, "../../x\n", 8, 0), 8);
	o = orphans_new(dup(fd));
	at = 0;
	assert_false(orphans_left(o, &at, text));
	orphans_free(o);
	o = orphans_new(-1);
	assert_int_equal(orphans_add(o, "x"), -1);
	orphans_free(o);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(urls), cmocka_unit_test(parameters), cmocka_unit_test(vault_answers), cmocka_unit_test(token_answers), cmocka_unit_test(signed_request),
					    cmocka_unit_test(accessors) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
