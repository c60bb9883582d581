/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An OpenSSL provider with nothing in it but keys whose private half is elsewhere. What is public of a key is a key of the
 * default provider, which answers all questions; a signature is asked for by remote_sign_fn, over the whole message: whoever
 * signs sees what it is. The algorithms are named as the default provider's. They are fetched for such keys only: OpenSSL
 * takes the first of a name, which is the default provider's, and remote_key_warm holds it to that.
 */
#include "remote_key.h"

#include <openssl/core_dispatch.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/params.h>
#include <openssl/provider.h>
#include <stdlib.h>
#include <string.h>

#include "../../common/base/must.h"

#define NAME "sallyport"
#define PARAM_PUBLIC "sallyport-public" /* octets of a pointer to the public half */

struct key {
	EVP_PKEY *public_half;
};
struct signing {
	struct key *key;
	char digest[32]; /* empty: it hashes as it signs (Ed25519) */
	bool pss;
};
static remote_sign_fn *signer;

void remote_key_signer(remote_sign_fn *fn) { signer = fn; }

/* --- keys ---------------------------------------------------------------------------------------------------------- */

static void *key_make(void *provctx)
{
	(void)provctx;
	return calloc(1, sizeof(struct key));
}

static void key_free(void *p)
{
	struct key *k = p;

	if (k == NULL)
		return;
	EVP_PKEY_free(k->public_half);
	free(k);
}

/* Both halves, as far as anybody asks. */
static int key_has(const void *p, int selection)
{
	(void)selection;
	return p != NULL && ((const struct key *)p)->public_half != NULL;
}

static int key_match(const void *a, const void *b, int selection)
{
	(void)selection;
	return EVP_PKEY_eq(((const struct key *)a)->public_half, ((const struct key *)b)->public_half) == 1;
}

static int import_as(struct key *k, const char *type, const OSSL_PARAM params[])
{
	const OSSL_PARAM *p = OSSL_PARAM_locate_const(params, PARAM_PUBLIC);
	EVP_PKEY_CTX *c;
	EVP_PKEY *ours = NULL;

	if (p != NULL) {
		if (p->data_size != sizeof(ours))
			return 0;
		memcpy(&ours, p->data, sizeof(ours));
		k->public_half = ours;
		return EVP_PKEY_up_ref(ours);
	}
	/* a key of another provider, to be compared with */
	c = EVP_PKEY_CTX_new_from_name(NULL, type, "provider=default");
	if (c != NULL && EVP_PKEY_fromdata_init(c) == 1)
		EVP_PKEY_fromdata(c, &k->public_half, EVP_PKEY_PUBLIC_KEY, (OSSL_PARAM *)(uintptr_t)params);
	EVP_PKEY_CTX_free(c);
	return k->public_half != NULL;
}

static int import_ec(void *p, int selection, const OSSL_PARAM params[])
{
	(void)selection;
	return import_as(p, "EC", params);
}

static int import_rsa(void *p, int selection, const OSSL_PARAM params[])
{
	(void)selection;
	return import_as(p, "RSA", params);
}

static int import_ed25519(void *p, int selection, const OSSL_PARAM params[])
{
	(void)selection;
	return import_as(p, "ED25519", params);
}

static const OSSL_PARAM *import_types(int selection)
{
	static const OSSL_PARAM types[] = { OSSL_PARAM_octet_string(PARAM_PUBLIC, NULL, 0), OSSL_PARAM_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, NULL, 0), OSSL_PARAM_octet_string(OSSL_PKEY_PARAM_PUB_KEY, NULL, 0),
					    OSSL_PARAM_BN(OSSL_PKEY_PARAM_RSA_N, NULL, 0), OSSL_PARAM_BN(OSSL_PKEY_PARAM_RSA_E, NULL, 0), OSSL_PARAM_END };

	(void)selection;
	return types;
}

static int key_params(void *p, OSSL_PARAM params[]) { return EVP_PKEY_get_params(((struct key *)p)->public_half, params); }

static const OSSL_PARAM *key_gettable(void *provctx)
{
	static const OSSL_PARAM types[] = { OSSL_PARAM_int(OSSL_PKEY_PARAM_BITS, NULL), OSSL_PARAM_int(OSSL_PKEY_PARAM_SECURITY_BITS, NULL), OSSL_PARAM_int(OSSL_PKEY_PARAM_MAX_SIZE, NULL),
					    OSSL_PARAM_utf8_string(OSSL_PKEY_PARAM_DEFAULT_DIGEST, NULL, 0), OSSL_PARAM_utf8_string(OSSL_PKEY_PARAM_MANDATORY_DIGEST, NULL, 0),
					    OSSL_PARAM_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, NULL, 0), OSSL_PARAM_END };

	(void)provctx;
	return types;
}

static const char *name_of_ec(int operation) { return operation == OSSL_OP_SIGNATURE ? "ECDSA" : "EC"; }
static const char *name_of_rsa(int operation)
{
	(void)operation;
	return "RSA";
}
static const char *name_of_ed25519(int operation)
{
	(void)operation;
	return "ED25519";
}

/* --- signatures ---------------------------------------------------------------------------------------------------- */

static void *sign_make(void *provctx, const char *propq)
{
	(void)provctx;
	(void)propq;
	return calloc(1, sizeof(struct signing));
}

static int set_params(void *p, const OSSL_PARAM params[])
{
	struct signing *s = p;
	const OSSL_PARAM *mode = params != NULL ? OSSL_PARAM_locate_const(params, OSSL_SIGNATURE_PARAM_PAD_MODE) : NULL;
	int number = 0;

	if (mode != NULL && mode->data_type == OSSL_PARAM_UTF8_STRING)
		s->pss = strcmp(mode->data, OSSL_PKEY_RSA_PAD_MODE_PSS) == 0;
	else if (mode != NULL && OSSL_PARAM_get_int(mode, &number))
		s->pss = number == 6; /* RSA_PKCS1_PSS_PADDING */
	return 1;		      /* the length of the salt is that of the digest: TLS knows no other */
}

static const OSSL_PARAM *settable(void *p, void *provctx)
{
	static const OSSL_PARAM types[] = { OSSL_PARAM_utf8_string(OSSL_SIGNATURE_PARAM_PAD_MODE, NULL, 0), OSSL_PARAM_utf8_string(OSSL_SIGNATURE_PARAM_PSS_SALTLEN, NULL, 0),
					    OSSL_PARAM_utf8_string(OSSL_SIGNATURE_PARAM_DIGEST, NULL, 0), OSSL_PARAM_utf8_string(OSSL_SIGNATURE_PARAM_MGF1_DIGEST, NULL, 0), OSSL_PARAM_END };

	(void)p;
	(void)provctx;
	return types;
}

static int sign_init(void *p, const char *digest, void *key, const OSSL_PARAM params[])
{
	struct signing *s = p;

	s->key = key;
	if (digest == NULL)
		digest = "";
	if (strlen(digest) >= sizeof(s->digest))
		return 0;
	memcpy(s->digest, digest, strlen(digest) + 1);
	return set_params(s, params);
}

static uint16_t scheme_of(const struct signing *s)
{
	static const char *const digests[] = { "SHA256", "SHA384", "SHA512" }, *const others[] = { "SHA2-256", "SHA2-384", "SHA2-512" };
	bool ec = EVP_PKEY_is_a(s->key->public_half, "EC");

	if (EVP_PKEY_is_a(s->key->public_half, "ED25519"))
		return s->digest[0] == 0 ? 0x0807 : 0;
	for (unsigned i = 0; i < 3; i++) {
		if (OPENSSL_strcasecmp(s->digest, digests[i]) != 0 && OPENSSL_strcasecmp(s->digest, others[i]) != 0)
			continue;
		if (ec)
			return (uint16_t)(0x0403 + 0x0100 * i);
		return (uint16_t)(s->pss ? 0x0804 + i : 0x0401 + 0x0100 * i);
	}
	return 0;
}

static int sign_all(void *p, unsigned char *sig, size_t *n, size_t room, const unsigned char *message, size_t message_n)
{
	struct signing *s = p;
	uint8_t made[REMOTE_SIGNATURE_MAX];
	uint16_t scheme = scheme_of(s);
	size_t len;

	if (sig == NULL) {
		*n = (size_t)EVP_PKEY_get_size(s->key->public_half);
		return 1;
	}
	len = scheme != 0 && signer != NULL ? signer(scheme, message, message_n, made) : 0;
	if (len == 0 || len > room)
		return 0;
	memcpy(sig, made, len);
	*n = len;
	return 1;
}

/* --- the provider -------------------------------------------------------------------------------------------------- */

#define FN(id, f) \
	{ \
		(id), (void (*)(void))(f) \
	}
#define KEYS(import, name) \
	{ \
		FN(OSSL_FUNC_KEYMGMT_NEW, key_make), FN(OSSL_FUNC_KEYMGMT_FREE, key_free), FN(OSSL_FUNC_KEYMGMT_HAS, key_has), FN(OSSL_FUNC_KEYMGMT_MATCH, key_match), FN(OSSL_FUNC_KEYMGMT_IMPORT, import), \
			FN(OSSL_FUNC_KEYMGMT_IMPORT_TYPES, import_types), FN(OSSL_FUNC_KEYMGMT_GET_PARAMS, key_params), FN(OSSL_FUNC_KEYMGMT_GETTABLE_PARAMS, key_gettable), name, { 0, NULL } \
	}

static const OSSL_DISPATCH ec_keys[] = KEYS(import_ec, FN(OSSL_FUNC_KEYMGMT_QUERY_OPERATION_NAME, name_of_ec));
static const OSSL_DISPATCH rsa_keys[] = KEYS(import_rsa, FN(OSSL_FUNC_KEYMGMT_QUERY_OPERATION_NAME, name_of_rsa));
static const OSSL_DISPATCH ed25519_keys[] = KEYS(import_ed25519, FN(OSSL_FUNC_KEYMGMT_QUERY_OPERATION_NAME, name_of_ed25519));
static const OSSL_DISPATCH signs[] = { FN(OSSL_FUNC_SIGNATURE_NEWCTX, sign_make), FN(OSSL_FUNC_SIGNATURE_FREECTX, free), FN(OSSL_FUNC_SIGNATURE_DIGEST_SIGN_INIT, sign_init), FN(OSSL_FUNC_SIGNATURE_DIGEST_SIGN, sign_all), FN(OSSL_FUNC_SIGNATURE_SET_CTX_PARAMS, set_params), FN(OSSL_FUNC_SIGNATURE_SETTABLE_CTX_PARAMS, settable), { 0, NULL } };
static const OSSL_ALGORITHM key_algorithms[] = { { "EC", "provider=" NAME, ec_keys, NULL }, { "RSA", "provider=" NAME, rsa_keys, NULL }, { "ED25519", "provider=" NAME, ed25519_keys, NULL }, { NULL, NULL, NULL, NULL } };
static const OSSL_ALGORITHM sign_algorithms[] = { { "ECDSA", "provider=" NAME, signs, NULL }, { "RSA", "provider=" NAME, signs, NULL }, { "ED25519", "provider=" NAME, signs, NULL }, { NULL, NULL, NULL, NULL } };

static const OSSL_ALGORITHM *query(void *provctx, int operation, int *no_cache)
{
	(void)provctx;
	*no_cache = 0;
	return operation == OSSL_OP_KEYMGMT ? key_algorithms : operation == OSSL_OP_SIGNATURE ? sign_algorithms
											      : NULL;
}

static int provider_init(const OSSL_CORE_HANDLE *handle, const OSSL_DISPATCH *in, const OSSL_DISPATCH **out, void **provctx)
{
	static const OSSL_DISPATCH functions[] = { FN(OSSL_FUNC_PROVIDER_QUERY_OPERATION, query), { 0, NULL } };
	static int context;

	(void)handle;
	(void)in;
	*out = functions;
	*provctx = &context;
	return 1;
}

static OSSL_PROVIDER *held[2]; /* for as long as the process lives */

static bool of_default(const OSSL_PROVIDER *p) { return p != NULL && strcmp(OSSL_PROVIDER_get0_name(p), "default") == 0; }

void remote_key_warm(void)
{
	static const char *const types[] = { "EC", "RSA", "ED25519" }, *const names[] = { "ECDSA", "RSA", "ED25519" };

	/* the default provider's are there before ours */
	held[0] = OSSL_PROVIDER_load(NULL, "default");
	MUST(held[0] != NULL);
	for (unsigned i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		EVP_KEYMGMT_free(EVP_KEYMGMT_fetch(NULL, types[i], NULL));
		EVP_SIGNATURE_free(EVP_SIGNATURE_fetch(NULL, names[i], NULL));
	}
	MUST(OSSL_PROVIDER_add_builtin(NULL, NAME, provider_init) == 1);
	held[1] = OSSL_PROVIDER_load(NULL, NAME);
	MUST(held[1] != NULL);
	for (unsigned i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		EVP_KEYMGMT *k = EVP_KEYMGMT_fetch(NULL, types[i], NULL);
		EVP_SIGNATURE *s = EVP_SIGNATURE_fetch(NULL, names[i], NULL);

		MUST(k != NULL && s != NULL && of_default(EVP_KEYMGMT_get0_provider(k)) && of_default(EVP_SIGNATURE_get0_provider(s)));
		EVP_KEYMGMT_free(k);
		EVP_SIGNATURE_free(s);
	}
}

EVP_PKEY *remote_key_new(EVP_PKEY *public_half)
{
	const char *type = EVP_PKEY_is_a(public_half, "EC") ? "EC" : EVP_PKEY_is_a(public_half, "RSA") ? "RSA"
					   : EVP_PKEY_is_a(public_half, "ED25519")		       ? "ED25519"
												       : NULL;
	EVP_PKEY_CTX *c = type != NULL ? EVP_PKEY_CTX_new_from_name(NULL, type, "provider=" NAME) : NULL;
	EVP_PKEY *k = NULL;
	OSSL_PARAM params[2] = { OSSL_PARAM_construct_octet_string(PARAM_PUBLIC, &public_half, sizeof(public_half)), OSSL_PARAM_construct_end() };

	if (c != NULL && EVP_PKEY_fromdata_init(c) == 1)
		EVP_PKEY_fromdata(c, &k, EVP_PKEY_KEYPAIR, params);
	EVP_PKEY_CTX_free(c);
	ERR_clear_error();
	return k;
}
