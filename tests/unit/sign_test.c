/* SPDX-License-Identifier: Apache-2.0 */
/* `as: hmac`: templates, RFC 4231's and RFC 2202's vectors, and the role, which signs what its table says and gives the key to nobody. */
#include "role_harness.h"

#include <openssl/pem.h>

#include "common/policy/table.h"
#include "proxy/exchange/hmac.h"
#include "proxy/secrets/sign.h"

int secrets_main(int link_fd);

static void templates(void **state)
{
	static const struct {
		const char *text;
		unsigned words;
	} t[] = {
		{ "{timestamp}.{body}", 1u << TEMPLATE_TIMESTAMP | 1u << TEMPLATE_TEXT | 1u << TEMPLATE_BODY }, { "v1={}", 1u << TEMPLATE_TEXT | 1u << TEMPLATE_SIGNATURE }, { "{{}", 1u << TEMPLATE_TEXT }, { "{header:X-A}", 1u << TEMPLATE_HEADER }, { "}", 1u << TEMPLATE_TEXT }, { "", 0 }, { "{", 0 }, { "a{", 0 }, { "{bodyy}", 0 }, { "{header:}", 0 }, { "{method", 0 }, { "{BODY}", 0 }
	};
	struct template_piece p;
	struct str s = STR("{{{lf}x");
	struct buf b = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++)
		assert_int_equal(template_words(str_of(t[i].text)), t[i].words);
	assert_int_equal(template_next(&s, &p), 1);
	assert_true(p.word == TEMPLATE_TEXT && str_eq(p.text, STR("{")));
	assert_int_equal(template_next(&s, &p), 1);
	assert_int_equal(p.word, TEMPLATE_LF);
	assert_int_equal(template_next(&s, &p), 1);
	assert_true(str_eq(p.text, STR("x")));
	assert_int_equal(template_next(&s, &p), 0);
	template_time(&b, TEMPLATE_DATE, 784111777999u); /* RFC 9110 5.6.7 */
	assert_true(str_eq(buf_str(&b), STR("Sun, 06 Nov 1994 08:49:37 GMT")));
	buf_clear(&b);
	template_time(&b, TEMPLATE_TIMESTAMP_ISO, 784111777999u);
	assert_true(str_eq(buf_str(&b), STR("1994-11-06T08:49:37Z")));
	buf_clear(&b);
	template_time(&b, TEMPLATE_TIMESTAMP, 784111777999u);
	template_time(&b, TEMPLATE_TIMESTAMP_MS, 784111777999u);
	assert_true(str_eq(buf_str(&b), STR("784111777784111777999")));
	buf_fini(&b);
}

static void vectors(void **state)
{
	static const struct {
		enum hmac_hash hash;
		enum hmac_encoding encoding;
		enum hmac_key form;
		const char *key, *message, *want;
	} t[] = {
		{ HMAC_SHA256, HMAC_HEX, HMAC_KEY_TEXT, "Jefe", "what do ya want for nothing?", "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843" },
		{ HMAC_SHA384, HMAC_HEX, HMAC_KEY_TEXT, "Jefe", "what do ya want for nothing?", "af45d2e376484031617f78d2b58a6b1b9c7ef464f5a01b47e42ec3736322445e8e2240ca5e69e2c78b3239ecfab21649" },
		{ HMAC_SHA512, HMAC_HEX, HMAC_KEY_TEXT, "Jefe", "what do ya want for nothing?", "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea2505549758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737" },
		{ HMAC_SHA1, HMAC_HEX, HMAC_KEY_TEXT, "Jefe", "what do ya want for nothing?", "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79" },
		{ HMAC_SHA256, HMAC_HEX, HMAC_KEY_HEX, "0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0B0B", "Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7" },
		{ HMAC_SHA256, HMAC_HEX, HMAC_KEY_BASE64, "CwsLCwsLCwsLCwsLCwsLCwsLCws=", "Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7" },
		{ HMAC_SHA256, HMAC_BASE64, HMAC_KEY_BASE64, "CwsLCwsLCwsLCwsLCwsLCwsLCws", "Hi There", "sDRMYdjbOFNcqK/OrwvxK4gdwgDJgz2nJuk3bC4yz/c=" },
		{ HMAC_SHA256, HMAC_BASE64URL, HMAC_KEY_HEX, "0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b", "Hi There", "sDRMYdjbOFNcqK_OrwvxK4gdwgDJgz2nJuk3bC4yz_c" },
		{ HMAC_SHA256, HMAC_HEX, HMAC_KEY_HEX, "0b0", "x", NULL },
		{ HMAC_SHA256, HMAC_HEX, HMAC_KEY_HEX, "zz", "x", NULL },
		{ HMAC_SHA256, HMAC_HEX, HMAC_KEY_HEX, "", "x", NULL },
		{ HMAC_SHA256, HMAC_HEX, HMAC_KEY_BASE64, "A", "x", NULL },
		{ HMAC_SHA256, HMAC_HEX, HMAC_KEY_BASE64, "AB!C", "x", NULL },
		{ HMAC_SHA256, HMAC_HEX, HMAC_KEY_BASE64, "AA===", "x", NULL },
		{ HMAC_SHA256, HMAC_HEX, HMAC_KEY_BASE64, "AB==", "x", NULL } /* bits that say nothing */,
		{ HMAC_SHA256, HMAC_HEX, HMAC_KEY_BASE64, "AA=A", "x", NULL }
	};

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct inject in = { .hash = t[i].hash, .encoding = t[i].encoding, .key = t[i].form };
		const char *cause = NULL;
		char out[SIGN_TEXT_MAX];
		size_t n = sign_hmac(&in, str_of(t[i].key), str_of(t[i].message), out, &cause);

		if (t[i].want == NULL)
			assert_true(n == 0 && cause != NULL);
		else if (!str_eq(str_mk(out, n), str_of(t[i].want)))
			fail_msg("%zu: %.*s", i, (int)n, out);
	}
}

static void fields(void **state)
{
	struct http_request *r = calloc(1, sizeof(*r));
	struct inject in = { .kind = INJECT_HMAC, .name = STR("X-Sig"), .format = STR("t={timestamp},n={nonce},s={}"), .timestamp = STR("X-Time"), .nonce = STR("X-Nonce"), .template = STR("{method} {target}|{path}|{query}|{host}|{timestamp}|{nonce}|{header:x-a}|{header:X-Time}|{header:none}|{body}|{lf}") };
	struct hmac_facts f = { .r = r, .host = STR("a.test"), .target = STR("/p?q=1?"), .body = STR("content"), .wall_ms = 1000999, .nonce = "00112233445566778899aabbccddeeff" };
	struct arena a = { 0 };
	struct buf b = { 0 };

	(void)state;
	r->method = STR("PUT");
	http_fields_add(&r->fields, STR("X-A"), STR("1"), HF_OTHER);
	http_fields_add(&r->fields, STR("x_time"), STR("theirs"), HF_OTHER);
	http_fields_add(&r->fields, STR("X-A"), STR("2"), HF_OTHER);
	http_fields_add(&r->fields, STR("X-SIG"), STR("theirs"), HF_OTHER);
	assert_true(hmac_prepare(&a, &in, &f));
	hmac_message(&b, &in, &f);
	if (!str_eq(buf_str(&b), STR("PUT /p?q=1?|/p|q=1?|a.test|1000|00112233445566778899aabbccddeeff|1, 2|1000||content|\n")))
		fail_msg("%.*s", (int)buf_len(&b), (const char *)buf_data(&b));
	assert_true(hmac_apply(&a, &in, &f, STR("SIGNATURE")));
	assert_true(str_eq(http_fields_find_name(&r->fields, STR("x-sig"))->value, STR("t=1000,n=00112233445566778899aabbccddeeff,s=SIGNATURE")));
	assert_true(http_fields_find_name(&r->fields, STR("x-sig"))->secret);
	for (unsigned i = 0; i < r->fields.n; i++)
		assert_true(r->fields.f[i].drop || !str_eq(r->fields.f[i].value, STR("theirs")));
	assert_true(hmac_signs_content(&in));
	in.template = STR("{target}");
	assert_false(hmac_signs_content(&in));
	buf_fini(&b);
	arena_fini(&a);
	free(r);
}

/* --- client certificates ------------------------------------------------------------------------------------------- */

static struct str pem_of(struct buf *b, EVP_PKEY *k, X509 *const *x, size_t n)
{
	BIO *bio = BIO_new(BIO_s_mem());
	char *p;
	long len;

	for (size_t i = 0; i < n; i++)
		PEM_write_bio_X509(bio, x[i]);
	if (k != NULL)
		PEM_write_bio_PrivateKey(bio, k, NULL, NULL, 0, NULL, NULL);
	buf_clear(b);
	len = BIO_get_mem_data(bio, &p);
	buf_add(b, p, (size_t)len);
	BIO_free(bio);
	return buf_str(b);
}

static X509 *certificate(EVP_PKEY *k, const char *name)
{
	X509 *x = X509_new();

	X509_set_version(x, 2);
	X509_gmtime_adj(X509_getm_notBefore(x), 0);
	X509_gmtime_adj(X509_getm_notAfter(x), 60);
	X509_set_pubkey(x, k);
	X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0);
	X509_set_issuer_name(x, X509_get_subject_name(x));
	assert_true(X509_sign(x, k, EVP_PKEY_is_a(k, "ED25519") || EVP_PKEY_is_a(k, "ED448") ? NULL : EVP_sha256()) > 0);
	return x;
}

/* What is shown begins with the key's own certificate, and has nothing of the key. */
static void certificates(void **state)
{
	EVP_PKEY *k = EVP_EC_gen("P-256"), *other = EVP_RSA_gen(2048), *odd = EVP_PKEY_Q_keygen(NULL, NULL, "ED448");
	X509 *own = certificate(k, "own"), *issuer = certificate(other, "issuer"), *odd_x = certificate(odd, "odd"), *seen;
	X509 *issuer_first[] = { issuer, own }, *alone[] = { issuer }, *odds[] = { odd_x };
	struct buf pem = { 0 }, der = { 0 };
	const unsigned char *p;
	const char *cause;

	(void)state;
	assert_true(sign_certificates(pem_of(&pem, k, issuer_first, 2), &der, &cause));
	p = buf_data(&der);
	seen = d2i_X509(NULL, &p, (long)buf_len(&der));
	assert_int_equal(X509_cmp(seen, own), 0);
	X509_free(seen);
	seen = d2i_X509(NULL, &p, (long)(buf_data(&der) + buf_len(&der) - p));
	assert_int_equal(X509_cmp(seen, issuer), 0);
	assert_ptr_equal(p, buf_data(&der) + buf_len(&der));
	X509_free(seen);
	buf_clear(&der);
	assert_false(sign_certificates(pem_of(&pem, k, alone, 1), &der, &cause));
	assert_string_equal(cause, "none of its certificates is for its key");
	assert_false(sign_certificates(pem_of(&pem, NULL, alone, 1), &der, &cause));
	assert_false(sign_certificates(pem_of(&pem, k, NULL, 0), &der, &cause));
	assert_false(sign_certificates(pem_of(&pem, odd, odds, 1), &der, &cause));
	assert_string_equal(cause, "its key is neither EC, RSA nor Ed25519");
	assert_false(sign_certificates(STR("planted"), &der, &cause));
	X509_free(own);
	X509_free(issuer);
	X509_free(odd_x);
	EVP_PKEY_free(k);
	EVP_PKEY_free(other);
	EVP_PKEY_free(odd);
	buf_fini(&pem);
	buf_fini(&der);
}

static void put_message(struct buf *b, uint8_t type, size_t n)
{
	static const uint8_t body[64] = { 3, 3 };
	const uint8_t head[4] = { type, 0, 0, (uint8_t)n };

	buf_add(b, head, 4);
	buf_add(b, body, n);
}

/* By Ed25519 the message itself is signed, and shown is its own certificate. */
static void ed25519(struct str message)
{
	EVP_PKEY *k = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
	X509 *own = certificate(k, "own"), *list[] = { own };
	struct buf pem = { 0 }, der = { 0 };
	EVP_MD_CTX *c = EVP_MD_CTX_new();
	uint8_t sig[SIGN_TLS_MAX];
	const char *cause = NULL;
	struct str key = pem_of(&pem, k, list, 1);

	assert_true(sign_certificates(key, &der, &cause));
	assert_true(buf_len(&der) > 0);
	assert_int_equal(sign_tls(key, 0x0807, message, sig, &cause), 64);
	assert_int_equal(EVP_DigestVerifyInit(c, NULL, NULL, NULL, k), 1);
	assert_int_equal(EVP_DigestVerify(c, sig, 64, (const uint8_t *)message.p, message.n), 1);
	assert_int_equal(sign_tls(key, 0x0403, message, sig, &cause), 0);
	assert_int_equal(sign_tls(key, 0x0807, STR("no handshake"), sig, &cause), 0);
	EVP_MD_CTX_free(c);
	EVP_PKEY_free(k);
	X509_free(own);
	buf_fini(&pem);
	buf_fini(&der);
}

/* It signs handshakes and nothing else: neither a token nor a hash. */
static void only_tls(void **state)
{
	static const char context[] = "TLS 1.3, client CertificateVerify", server[] = "TLS 1.3, server CertificateVerify", hash[48] = "0123456789abcdef";
	EVP_PKEY *k = EVP_EC_gen("P-256");
	struct buf pem = { 0 }, b = { 0 };
	uint8_t sig[SIGN_TLS_MAX];
	const char *cause = NULL;
	struct str key = pem_of(&pem, k, NULL, 0);

	(void)state;
	for (unsigned i = 0; i < 64; i++)
		buf_addc(&b, ' ');
	buf_add(&b, context, sizeof(context));
	buf_add(&b, hash, 32);
	assert_true(sign_is_tls(buf_str(&b)));
	assert_true(sign_tls(key, 0x0403, buf_str(&b), sig, &cause) > 0);
	assert_int_equal(sign_tls(key, 0x0804, buf_str(&b), sig, &cause), 0); /* RSA's */
	assert_int_equal(sign_tls(key, 0, buf_str(&b), sig, &cause), 0);
	assert_int_equal(sign_tls(key, 0x0807, buf_str(&b), sig, &cause), 0);
	ed25519(str_mk(buf_data(&b), buf_len(&b)));
	assert_false(sign_is_tls(str_mk(buf_data(&b), buf_len(&b) - 1)));
	assert_false(sign_is_tls(str_mk(buf_data(&b) + 1, buf_len(&b) - 1)));
	assert_false(sign_is_tls(str_mk(hash, 32)));
	assert_false(sign_is_tls(STR("eyJhbGciOiJFUzI1NiJ9.e30")));
	assert_false(sign_is_tls(STR_NONE));
	memcpy(buf_data(&b) + 64, server, sizeof(server)); /* as a server it would vouch for a name */
	assert_false(sign_is_tls(buf_str(&b)));
	assert_int_equal(sign_tls(key, 0x0403, buf_str(&b), sig, &cause), 0);
	assert_string_equal(cause, "what is to be signed is no handshake of TLS");
	/* TLS 1.2: ClientHello, ServerHello, Certificate, ServerHelloDone, Certificate, ClientKeyExchange */
	buf_clear(&b);
	put_message(&b, 1, 40);
	put_message(&b, 2, 40);
	put_message(&b, 11, 10);
	put_message(&b, 14, 0);
	assert_false(sign_is_tls(buf_str(&b)));
	put_message(&b, 16, 10);
	assert_true(sign_is_tls(buf_str(&b)));
	assert_false(sign_is_tls(str_mk(buf_data(&b), buf_len(&b) - 1)));
	buf_data(&b)[0] = 2;
	assert_false(sign_is_tls(buf_str(&b)));
	buf_data(&b)[0] = 1;
	buf_data(&b)[3] = 255;
	assert_false(sign_is_tls(buf_str(&b)));
	buf_fini(&b);
	buf_fini(&pem);
	EVP_PKEY_free(k);
}

/* --- the role ------------------------------------------------------------------------------------------------------ */

static const char policy[] = "version: 1\nname: test\nsecrets:\n  one: { env: ONE, hosts: [a.example] }\n  two: { env: TWO, hosts: [a.example, b.example] }\ndestinations:\n"
			     "  - host: a.example\n    allow: [ \"GET /**\" ]\n    inject:\n      - { secret: two, as: bearer }\n      - { secret: one, as: hmac, name: X-S, sign: \"{path}\" }\n"
			     "  - host: b.example\n    allow: [ \"GET /**\" ]\n    inject: [ { secret: two, as: header, name: X-T } ]\n";

static uint32_t number(int fd, const char *host, const char *secret)
{
	struct err err = ERR_INIT;
	struct secret_decl d;
	struct table *t;
	struct dest dest;
	uint32_t n = UINT32_MAX;

	assert_int_equal(table_open(&t, fd, &err), 0);
	if (host != NULL && table_find(t, SCHEME_HTTPS, str_of(host), 443, &dest) == 1)
		n = dest.index;
	for (unsigned i = 0; secret != NULL && table_secret(t, i, &d); i++)
		if (str_eq(d.name, str_of(secret)))
			n = d.index;
	table_free(t);
	return n;
}

static void part(int link, uint64_t id, uint32_t dest, uint32_t inject, const char *text, bool more)
{
	struct msg_sign q = { .dest_index = dest, .inject = inject, .more = more };

	wire_send(link, MSG_SIGN, 5, id, &q, sizeof(q), text, strlen(text), NULL, 0);
}

static enum release_status answered(int link, uint64_t id, char text[256])
{
	const struct msg_signed *a;
	struct wire_msg m;

	wire_expect(link, MSG_SIGNED, &m);
	assert_int_equal(m.h.id, id);
	a = (const void *)m.data;
	snprintf(text, 256, "%.*s", (int)(m.n - sizeof(*a)), (const char *)m.data + sizeof(*a));
	return (enum release_status)a->status;
}

static void role(void **state)
{
	static const char key[32] = "the key of the placeholders 0123", environment[] = "ONE=Jefe-Jefe-Jefe\0TWO=value-of-two-0123456789";
	static const struct inject in = { .kind = INJECT_HMAC };
	int fd = memfd_with(key, sizeof(key)), table = test_table(policy), link, audit;
	struct role_under_test r = role_start(secrets_main, NULL, 0, &fd, 1);
	struct msg_sandbox_ref ref = { 1, 5 };
	struct msg_release q = { number(table, NULL, "one"), number(table, "a.example", NULL), INJECT_HMAC };
	uint32_t a = q.dest_index, b = number(table, "b.example", NULL);
	static char large[40000];
	char text[256], want[SIGN_TEXT_MAX];
	const char *cause;
	struct wire_msg m;
	size_t n;

	(void)state;
	close(fd);
	fd = memfd_with(environment, sizeof(environment));
	wire_send(r.sup, MSG_SANDBOX_ENV, 5, 0, &ref, sizeof(ref), NULL, 0, &fd, 1);
	close(fd);
	role_sandbox(&r, 1, 5, 0, "box", table);
	link = role_peer(&r, ROLE_WORKER, 1);
	part(link, 1, a, 1, "/path", false); /* without audit nothing is signed */
	assert_int_equal(answered(link, 1, text), RELEASE_FAILED);
	audit = role_peer(&r, ROLE_AUDIT, 0);
	role_sandbox(&r, 1, 5, 0, "box", table); /* the role has the link of audit when it answers this */
	part(link, 2, a, 1, "/path", false);
	assert_int_equal(answered(link, 2, text), RELEASE_OK);
	n = sign_hmac(&in, STR("Jefe-Jefe-Jefe"), STR("/path"), want, &cause);
	assert_true(str_eq(str_of(text), str_mk(want, n)));
	/* two in parts, one into the other */
	part(link, 3, a, 1, "/pa", true);
	part(link, 4, a, 1, "/", true);
	part(link, 3, a, 1, "th", false);
	assert_int_equal(answered(link, 3, text), RELEASE_OK);
	assert_true(str_eq(str_of(text), str_mk(want, n)));
	part(link, 4, a, 1, "path", false);
	assert_int_equal(answered(link, 4, text), RELEASE_OK);
	assert_true(str_eq(str_of(text), str_mk(want, n)));
	/* what is no signature of this policy, and the key itself */
	part(link, 5, a, 0, "x", false);
	assert_int_equal(answered(link, 5, text), RELEASE_UNBOUND);
	part(link, 6, a, 2, "x", false);
	assert_int_equal(answered(link, 6, text), RELEASE_UNBOUND);
	part(link, 7, b, 0, "x", false);
	assert_int_equal(answered(link, 7, text), RELEASE_UNBOUND);
	part(link, 8, 77, 1, "x", false);
	assert_int_equal(answered(link, 8, text), RELEASE_UNBOUND);
	for (uint32_t kind = 0; kind < INJECT_KINDS + 2u; kind++) {
		q.kind = kind;
		wire_send(link, MSG_RELEASE, 5, 100 + kind, &q, sizeof(q), NULL, 0, NULL, 0);
		wire_expect(link, MSG_RELEASED, &m);
		assert_int_equal(m.data[0], RELEASE_UNBOUND);
	}
	/* one that never comes to its end holds others up by no more than its share, and goes with its link */
	memset(large, 'x', sizeof(large) - 1);
	for (unsigned i = 0; i <= 2 * MSG_SIGN_MAX / (sizeof(large) - 1); i++)
		part(link, 9, a, 1, large, true);
	assert_int_equal(answered(link, 9, text), RELEASE_FAILED);
	part(link, 10, a, 1, "/path", false);
	assert_int_equal(answered(link, 10, text), RELEASE_OK);
	close(link);
	link = role_peer(&r, ROLE_WORKER, 1);
	part(link, 9, a, 1, "/path", false);
	assert_int_equal(answered(link, 9, text), RELEASE_OK);
	assert_true(str_eq(str_of(text), str_mk(want, n)));
	close(link);
	close(audit);
	close(table);
	assert_int_equal(role_end(&r), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(templates), cmocka_unit_test(vectors), cmocka_unit_test(fields), cmocka_unit_test(certificates), cmocka_unit_test(only_tls), cmocka_unit_test(role) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
