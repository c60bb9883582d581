/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who an upstream is. The chain must lead to a trust anchor under RFC 5280 as OpenSSL checks it, for the name that the
 * policy has; what OpenSSL lets pass for old times' sake, and what only a gateway can know, is refused here: issuers that
 * do not say that they are CAs, our own interception CA as a witness, keys other than the pinned ones,
 * a stapled OCSP response that does not vouch, what a list in the policy revokes, or does not cover. Nothing is fetched: no OCSP, CRL or AIA question leaves.
 *
 * The first cause that is found is kept with the connection, in words for the person who reads the refusal.
 */
#include <openssl/err.h>
#include <openssl/ocsp.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../common/base/must.h"
#include "../../common/policy/table.h"
#include "../../common/trust.h"
#include "identity.h"
#include "verify.h"

#define DEPTH_MAX 10
#define CLOCK_SKEW_S 300 /* an origin's clock and ours may differ by so much */
#define STAPLE_SKEW_S 300

struct verify {
	const struct trust *trust; /* for what is barred; may be NULL */
	struct dest dest;	   /* for its pins and CA */
	bool has_dest;
};
static int cause_idx = -1, verify_idx = -1, wanted_idx = -1, staple_idx = -1, identity_idx = -1;

static void set_cause(SSL *ssl, const char *text)
{
	if (SSL_get_ex_data(ssl, cause_idx) == NULL)
		SSL_set_ex_data(ssl, cause_idx, (void *)(uintptr_t)text);
}

static SSL *ssl_of(X509_STORE_CTX *c) { return X509_STORE_CTX_get_ex_data(c, SSL_get_ex_data_X509_STORE_CTX_idx()); }

static bool within(const ASN1_TIME *t, int64_t from, int64_t to)
{
	time_t at = time(NULL) + (time_t)from, end = time(NULL) + (time_t)to;

	return X509_cmp_time(t, &at) > 0 && X509_cmp_time(t, &end) < 0;
}

/* The words of those that OpenSSL names in a way that does not help. */
static const char *words(int error)
{
	switch (error) {
	case X509_V_ERR_HOSTNAME_MISMATCH:
		return "its certificate is for another name (hostname mismatch)";
	case X509_V_ERR_IP_ADDRESS_MISMATCH:
		return "its certificate is for another address (IP address mismatch)";
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
	case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
		return "its certificate is signed by nobody who is trusted here, or an intermediate certificate is missing (unable to get local issuer certificate)";
	case X509_V_ERR_CERT_REVOKED:
		return "a certificate in its chain is revoked, says the policy's list (tls.crl)";
	case X509_V_ERR_UNABLE_TO_GET_CRL:
	case X509_V_ERR_UNABLE_TO_GET_CRL_ISSUER:
	case X509_V_ERR_DIFFERENT_CRL_SCOPE:
		return "none of the policy's lists of revoked certificates (tls.crl) covers a certificate in its chain";
	case X509_V_ERR_CRL_HAS_EXPIRED:
		return "the policy's list of revoked certificates (tls.crl) is out of date";
	case X509_V_ERR_CRL_SIGNATURE_FAILURE:
	case X509_V_ERR_KEYUSAGE_NO_CRL_SIGN:
		return "the policy's list of revoked certificates (tls.crl) is not signed by the issuer of a certificate in its chain";
	default:
		return X509_verify_cert_error_string(error);
	}
}

/* A trust anchor is trusted as it is: no list has to vouch for it. */
static bool is_anchor(X509_STORE_CTX *c)
{
	int depth = X509_STORE_CTX_get_error_depth(c);

	return depth > 0 && depth == sk_X509_num(X509_STORE_CTX_get0_chain(c)) - 1;
}

static int on_verify(int ok, X509_STORE_CTX *c)
{
	int error = X509_STORE_CTX_get_error(c);
	X509 *x = X509_STORE_CTX_get_current_cert(c);

	if (ok)
		return 1;
	if ((error == X509_V_ERR_CERT_NOT_YET_VALID && within(X509_get0_notBefore(x), -1, CLOCK_SKEW_S)) ||
	    (error == X509_V_ERR_CERT_HAS_EXPIRED && within(X509_get0_notAfter(x), -CLOCK_SKEW_S, 1))) {
		X509_STORE_CTX_set_error(c, X509_V_OK);
		return 1;
	}
	if (error == X509_V_ERR_UNABLE_TO_GET_CRL && is_anchor(c)) {
		X509_STORE_CTX_set_error(c, X509_V_OK);
		return 1;
	}
	set_cause(ssl_of(c), words(error));
	return 0;
}

static bool pinned(const struct dest *d, STACK_OF(X509) * chain)
{
	uint8_t digest[TRUST_DIGEST_LEN];
	const uint8_t *pin;

	for (int i = 0; i < sk_X509_num(chain); i++)
		if (trust_key_digest(sk_X509_value(chain, i), digest))
			for (unsigned k = 0; (pin = dest_pin(d, k)) != NULL; k++)
				if (memcmp(pin, digest, sizeof(digest)) == 0)
					return true;
	return d->pin_n == 0;
}

/* What is wrong with a chain that OpenSSL found good, or NULL. */
static const char *look_closer(const struct verify *v, STACK_OF(X509) * chain, int *error)
{
	*error = X509_V_ERR_INVALID_CA;
	for (int i = 1; i < sk_X509_num(chain); i++)
		if (X509_check_ca(sk_X509_value(chain, i)) != 1)
			return "a certificate in its chain is an issuer, but does not say that it is a CA (basicConstraints)";
	*error = X509_V_ERR_CERT_REJECTED;
	for (int i = 0; v->trust != NULL && i < sk_X509_num(chain); i++)
		if (trust_barred(v->trust, sk_X509_value(chain, i)))
			return "its certificate comes from this gateway's own interception CA, which vouches for no upstream";
	*error = X509_V_ERR_INVALID_PURPOSE;
	/* also under a CA of the policy's own; issuers need none: without one they may issue for any purpose (RFC 5280 4.2.1.12) */
	if (X509_get_ext_by_NID(sk_X509_value(chain, 0), NID_ext_key_usage, -1) < 0)
		return "its certificate does not say that it is for servers (extendedKeyUsage)";
	*error = X509_V_ERR_CERT_REJECTED;
	if (v->has_dest && !pinned(&v->dest, chain))
		return "no key in its chain is one that the policy pins";
	return NULL;
}

static int verify_chain(X509_STORE_CTX *c, void *arg)
{
	const struct verify *v = arg;
	const char *cause;
	int error;

	X509_STORE_CTX_set_verify_cb(c, on_verify);
	if (X509_verify_cert(c) != 1) {
		set_cause(ssl_of(c), words(X509_STORE_CTX_get_error(c)));
		return 0;
	}
	cause = look_closer(v, X509_STORE_CTX_get0_chain(c), &error);
	if (cause == NULL)
		return 1;
	set_cause(ssl_of(c), cause);
	X509_STORE_CTX_set_error(c, error);
	return 0;
}

/* --- stapled OCSP responses (RFC 6960), must-staple (RFC 7633) ----------------------------------------------------- */

static bool must_staple(X509 *x)
{
	TLS_FEATURE *f = X509_get_ext_d2i(x, NID_tlsfeature, NULL, NULL);
	bool yes = false;

	for (int i = 0; f != NULL && i < sk_ASN1_INTEGER_num(f); i++) {
		int64_t n = 0;

		yes = yes || (ASN1_INTEGER_get_int64(&n, sk_ASN1_INTEGER_value(f, i)) == 1 && n == TLSEXT_TYPE_status_request);
	}
	TLS_FEATURE_free(f);
	return yes;
}

/* What a response says of the leaf. NULL: it vouches for it. */
static const char *staple_cause(SSL *ssl, OCSP_BASICRESP *basic, X509 *leaf, X509 *issuer)
{
	ASN1_GENERALIZEDTIME *this_update = NULL, *next_update = NULL;
	int status = V_OCSP_CERTSTATUS_UNKNOWN, reason;
	X509_STORE *store = NULL;
	OCSP_CERTID *id;
	bool found = false;

	/* the signer is the issuer, or one that the issuer delegated: with OCSP_TRUSTOTHER the leaf could vouch for itself */
	SSL_CTX_get0_verify_cert_store(SSL_get_SSL_CTX(ssl), &store);
	if (store == NULL || OCSP_basic_verify(basic, SSL_get0_verified_chain(ssl), store, 0) != 1)
		return "its stapled OCSP response is not signed by the certificate's issuer";
	for (int sha = 0; sha < 2 && !found; sha++) {
		id = OCSP_cert_to_id(sha == 0 ? EVP_sha1() : EVP_sha256(), leaf, issuer);
		found = id != NULL && OCSP_resp_find_status(basic, id, &status, &reason, NULL, &this_update, &next_update) == 1;
		OCSP_CERTID_free(id);
	}
	if (!found)
		return "its stapled OCSP response is about another certificate";
	if (status == V_OCSP_CERTSTATUS_REVOKED)
		return "its certificate is revoked, says the stapled OCSP response";
	if (status != V_OCSP_CERTSTATUS_GOOD)
		return "its issuer does not know the certificate, says the stapled OCSP response";
	/* without nextUpdate it may not be older than a week */
	if (OCSP_check_validity(this_update, next_update, STAPLE_SKEW_S, next_update != NULL ? -1 : 7 * 24 * 3600) != 1)
		return "its stapled OCSP response is out of its time";
	return NULL;
}

static int on_staple(SSL *ssl, void *arg)
{
	STACK_OF(X509) *chain = SSL_get0_verified_chain(ssl);
	OCSP_BASICRESP *basic = NULL;
	OCSP_RESPONSE *r = NULL;
	const unsigned char *p;
	const char *cause = NULL;
	X509 *leaf, *issuer;
	long n;

	(void)arg;
	n = SSL_get_tlsext_status_ocsp_resp(ssl, &p);
	if (chain == NULL || sk_X509_num(chain) == 0)
		return 1; /* nothing was verified: the warming handshake */
	leaf = sk_X509_value(chain, 0);
	issuer = sk_X509_value(chain, sk_X509_num(chain) > 1 ? 1 : 0);
	if (n <= 0) {
		if (!must_staple(leaf))
			return 1;
		cause = "its certificate demands a stapled OCSP response (must-staple), and none came";
	} else if ((r = d2i_OCSP_RESPONSE(NULL, &p, n)) == NULL || OCSP_response_status(r) != OCSP_RESPONSE_STATUS_SUCCESSFUL || (basic = OCSP_response_get1_basic(r)) == NULL) {
		cause = "its stapled OCSP response cannot be read";
	} else {
		cause = staple_cause(ssl, basic, leaf, issuer);
	}
	OCSP_BASICRESP_free(basic);
	OCSP_RESPONSE_free(r);
	ERR_clear_error();
	if (cause == NULL) {
		SSL_set_ex_data(ssl, staple_idx, (void *)(uintptr_t)"good");
		return 1;
	}
	set_cause(ssl, cause);
	return 0;
}

/*
 * Called when the upstream is verified. With none to give an upstream that insists ends the handshake, or the connection as its
 * first answer. With one the first call only tells that it is due.
 */
static int on_certificate_wanted(SSL *ssl, X509 **x, EVP_PKEY **key)
{
	struct identity *id = SSL_get_ex_data(ssl, identity_idx);
	bool first = SSL_get_ex_data(ssl, wanted_idx) == NULL;

	SSL_set_ex_data(ssl, wanted_idx, ssl);
	if (id == NULL)
		return 0;
	if (first)
		return -1;
	if (SSL_use_cert_and_key(ssl, id->leaf, id->key, id->chain, 1) != 1)
		return 0;
	X509_up_ref(id->leaf);
	EVP_PKEY_up_ref(id->key);
	*x = id->leaf;
	*key = id->key;
	return 1;
}

void verify_identity(SSL *ssl, struct identity *identity) { SSL_set_ex_data(ssl, identity_idx, identity); }

/* --- the context --------------------------------------------------------------------------------------------------- */

static void free_verify(void *parent, void *p, CRYPTO_EX_DATA *ad, int idx, long l, void *arg)
{
	(void)parent, (void)ad, (void)idx, (void)l, (void)arg;
	free(p);
}

void verify_setup(SSL_CTX *ctx, const struct trust *trust, const struct dest *d)
{
	X509_VERIFY_PARAM *p = SSL_CTX_get0_param(ctx);
	struct verify *v = must_calloc(1, sizeof(*v));

	if (cause_idx < 0) {
		cause_idx = SSL_get_ex_new_index(0, NULL, NULL, NULL, NULL);
		verify_idx = SSL_CTX_get_ex_new_index(0, NULL, NULL, NULL, free_verify);
		wanted_idx = SSL_get_ex_new_index(0, NULL, NULL, NULL, NULL);
		staple_idx = SSL_get_ex_new_index(0, NULL, NULL, NULL, NULL);
		identity_idx = SSL_get_ex_new_index(0, NULL, NULL, NULL, NULL);
		MUST(identity_idx >= 0 && staple_idx >= 0 && cause_idx >= 0 && verify_idx >= 0 && wanted_idx >= 0);
	}
	v->trust = trust;
	if (d != NULL) {
		v->dest = *d;
		v->has_dest = true;
	}
	MUST(SSL_CTX_set_ex_data(ctx, verify_idx, v) == 1);
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_cert_verify_callback(ctx, verify_chain, v);
	X509_VERIFY_PARAM_set_hostflags(p, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	X509_VERIFY_PARAM_set_purpose(p, X509_PURPOSE_SSL_SERVER);
	X509_VERIFY_PARAM_set_auth_level(p, 2);
	X509_VERIFY_PARAM_set_depth(p, DEPTH_MAX);
	if (d != NULL && d->has_crl)
		X509_VERIFY_PARAM_set_flags(p, X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL);
	SSL_CTX_set_tlsext_status_type(ctx, TLSEXT_STATUSTYPE_ocsp);
	SSL_CTX_set_tlsext_status_cb(ctx, on_staple);
	SSL_CTX_set_client_cert_cb(ctx, on_certificate_wanted);
}

const char *verify_staple(SSL *ssl) { return SSL_get_ex_data(ssl, staple_idx); }

const char *verify_wanted(SSL *ssl)
{
	if (ssl == NULL || SSL_get_ex_data(ssl, wanted_idx) == NULL)
		return NULL;
	return SSL_get_ex_data(ssl, identity_idx) != NULL ? "it asked for a client certificate, and does not take the one of the policy" : "it asked for a client certificate, and there is none for it";
}

const char *verify_cause(SSL *ssl)
{
	const char *text = cause_idx >= 0 ? SSL_get_ex_data(ssl, cause_idx) : NULL;
	long v = SSL_get_verify_result(ssl);
	unsigned long e = ERR_peek_error();

	if (text == NULL && v != X509_V_OK)
		text = X509_verify_cert_error_string(v);
	if (text == NULL)
		text = verify_wanted(ssl);
	if (text == NULL && e != 0)
		text = ERR_reason_error_string(e);
	return text != NULL ? text : "the handshake was broken off";
}

const char *verify_established(SSL *ssl, const struct dest *d)
{
	const unsigned char *p = NULL;
	unsigned n = 0;
	bool h1, h2;

	SSL_get0_alpn_selected(ssl, &p, &n);
	h1 = n == 8 && memcmp(p, "http/1.1", 8) == 0;
	h2 = n == 2 && memcmp(p, "h2", 2) == 0;
	if (n > 0 && !h1 && !h2)
		return "it chose a protocol that was not offered (ALPN)";
	if (d->alpn_h2 && !d->alpn_h1 && !h2)
		return "the policy wants h2 there (alpn), and this connection does not speak it";
	if (h2 && d->alpn_h1 && !d->alpn_h2)
		return "it chose a protocol that was not offered (ALPN)";
	return NULL;
}
