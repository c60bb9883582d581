/* SPDX-License-Identifier: Apache-2.0 */
#include "x509.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>

#include "../common/base/must.h"

#define CA_YEARS 10
#define BACKDATE_S (48 * 3600) /* clocks of restored machines are behind */

struct minter {
	EVP_PKEY *key;
	X509 *ca;
	X509_EXTENSION *basic, *usage, *eku, *aki;
};

static X509_EXTENSION *ext(X509 *issuer, X509 *subject, int nid, const char *value)
{
	X509V3_CTX c;

	X509V3_set_ctx(&c, issuer, subject, NULL, NULL, 0);
	return X509V3_EXT_conf_nid(NULL, &c, nid, value);
}

static bool add(X509 *x, X509 *issuer, int nid, const char *value)
{
	X509_EXTENSION *e = ext(issuer, x, nid, value);
	bool ok = e != NULL && X509_add_ext(x, e, -1) == 1;

	X509_EXTENSION_free(e);
	return ok;
}

static bool random_serial(X509 *x)
{
	uint8_t r[16];
	BIGNUM *b;
	bool ok;

	if (RAND_bytes(r, sizeof(r)) != 1)
		return false;
	r[0] = (uint8_t)((r[0] & 0x7f) | 0x40); /* positive, never short */
	b = BN_bin2bn(r, sizeof(r), NULL);
	ok = b != NULL && BN_to_ASN1_INTEGER(b, X509_get_serialNumber(x)) != NULL;
	BN_free(b);
	return ok;
}

int ca_make(EVP_PKEY **key, X509 **cert, struct err *err)
{
	EVP_PKEY *k = EVP_EC_gen("P-256");
	X509 *x = X509_new();
	X509_NAME *n;
	uint8_t id[8];
	char cn[64];

	if (k == NULL || x == NULL || RAND_bytes(id, sizeof(id)) != 1)
		goto bad;
	/* unique per deployment and generation: clients tell two CAs apart by subject */
	snprintf(cn, sizeof(cn), "Sallyport interception CA %02x%02x%02x%02x%02x%02x%02x%02x", id[0], id[1], id[2], id[3], id[4], id[5], id[6], id[7]);
	n = X509_get_subject_name(x);
	if (X509_set_version(x, 2) != 1 || !random_serial(x) || X509_NAME_add_entry_by_txt(n, "O", MBSTRING_ASC, (const unsigned char *)"Sallyport", -1, -1, 0) != 1 ||
		X509_NAME_add_entry_by_txt(n, "CN", MBSTRING_ASC, (unsigned char *)cn, -1, -1, 0) != 1 || X509_set_issuer_name(x, n) != 1 ||
		X509_gmtime_adj(X509_getm_notBefore(x), -BACKDATE_S) == NULL || X509_gmtime_adj(X509_getm_notAfter(x), (long)CA_YEARS * 365 * 86400) == NULL || X509_set_pubkey(x, k) != 1)
		goto bad;
	if (!add(x, x, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") || !add(x, x, NID_key_usage, "critical,keyCertSign,cRLSign") ||
		!add(x, x, NID_subject_key_identifier, "hash") || !add(x, x, NID_authority_key_identifier, "keyid:always") || X509_sign(x, k, EVP_sha256()) <= 0)
		goto bad;
	*key = k;
	*cert = x;
	return 0;
bad:
	EVP_PKEY_free(k);
	X509_free(x);
	return err_set(err, EIO, "cannot make a CA: %s", ERR_reason_error_string(ERR_peek_last_error()));
}

struct minter *minter_new(EVP_PKEY *key, X509 *ca, struct err *err)
{
	struct minter *m = must_calloc(1, sizeof(*m));

	if (X509_check_private_key(ca, key) != 1) {
		free(m);
		err_set(err, EINVAL, "ca.key does not belong to ca.pem");
		return NULL;
	}
	m->key = key;
	m->ca = ca;
	m->basic = ext(ca, NULL, NID_basic_constraints, "critical,CA:FALSE");
	m->usage = ext(ca, NULL, NID_key_usage, "critical,digitalSignature");
	m->eku = ext(ca, NULL, NID_ext_key_usage, "serverAuth");
	m->aki = ext(ca, NULL, NID_authority_key_identifier, "keyid:always");
	if (m->basic == NULL || m->usage == NULL || m->eku == NULL || m->aki == NULL) {
		err_set(err, EIO, "cannot prepare extensions");
		minter_free(m);
		return NULL;
	}
	return m;
}

void minter_free(struct minter *m)
{
	if (m == NULL)
		return;
	X509_EXTENSION_free(m->basic);
	X509_EXTENSION_free(m->usage);
	X509_EXTENSION_free(m->eku);
	X509_EXTENSION_free(m->aki);
	free(m);
}

/* X509_set_pubkey encodes and decodes the key again (0.25 ms); setting algorithm and point by hand does not. */
static bool set_pubkey(X509 *x, EVP_PKEY *key, unsigned char point_out[65])
{
	unsigned char *point;
	size_t n = 65;
	ASN1_OBJECT *ec = OBJ_nid2obj(NID_X9_62_id_ecPublicKey);

	if (EVP_PKEY_get_octet_string_param(key, "encoded-pub-key", point_out, 65, &n) != 1 || n != 65)
		return false;
	point = OPENSSL_memdup(point_out, n);
	return point != NULL && X509_PUBKEY_set0_param(X509_get_X509_PUBKEY(x), ec, V_ASN1_OBJECT, OBJ_nid2obj(NID_X9_62_prime256v1), point, (int)n) == 1;
}

static bool add_san(X509 *x, const struct canon_host *h, bool critical)
{
	GENERAL_NAMES *names = GENERAL_NAMES_new();
	GENERAL_NAME *g = GENERAL_NAME_new();
	bool ok = names != NULL && g != NULL;

	if (ok && h->ip.family != 0) {
		ASN1_OCTET_STRING *o = ASN1_OCTET_STRING_new();

		ok = o != NULL && ASN1_OCTET_STRING_set(o, h->ip.family == 4 ? h->ip.b + 12 : h->ip.b, h->ip.family == 4 ? 4 : 16) == 1;
		GENERAL_NAME_set0_value(g, GEN_IPADD, o);
	} else if (ok) {
		ASN1_IA5STRING *s = ASN1_IA5STRING_new();

		ok = s != NULL && ASN1_STRING_set(s, h->text, h->len) == 1;
		GENERAL_NAME_set0_value(g, GEN_DNS, s);
	}
	if (ok)
		ok = sk_GENERAL_NAME_push(names, g) > 0;
	if (ok)
		ok = X509_add1_ext_i2d(x, NID_subject_alt_name, names, critical, X509V3_ADD_APPEND) == 1;
	GENERAL_NAMES_free(names);
	return ok;
}

int minter_mint(struct minter *m, EVP_PKEY *leaf_key, const struct canon_host *host, int64_t now, int64_t valid_s, struct buf *out, struct err *err)
{
	X509 *x = X509_new();
	unsigned char point[65], sha[20], *p;
	ASN1_OCTET_STRING *ski = ASN1_OCTET_STRING_new();
	bool cn = host->len <= 64;
	int n, ret = -1;

	if (x == NULL || ski == NULL || X509_set_version(x, 2) != 1 || !random_serial(x) || X509_set_issuer_name(x, X509_get_subject_name(m->ca)) != 1)
		goto out;
	if (cn && X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_UTF8, (const unsigned char *)host->text, host->len, -1, 0) != 1)
		goto out;
	if (ASN1_TIME_set(X509_getm_notBefore(x), now - BACKDATE_S) == NULL || ASN1_TIME_set(X509_getm_notAfter(x), now + valid_s) == NULL || !set_pubkey(x, leaf_key, point))
		goto out;
	if (EVP_Digest(point, sizeof(point), sha, NULL, EVP_sha1(), NULL) != 1 || ASN1_OCTET_STRING_set(ski, sha, sizeof(sha)) != 1)
		goto out;
	if (X509_add_ext(x, m->basic, -1) != 1 || X509_add_ext(x, m->usage, -1) != 1 || X509_add_ext(x, m->eku, -1) != 1 ||
		X509_add1_ext_i2d(x, NID_subject_key_identifier, ski, 0, X509V3_ADD_APPEND) != 1 || X509_add_ext(x, m->aki, -1) != 1 || !add_san(x, host, !cn))
		goto out;
	if (X509_sign(x, m->key, EVP_sha256()) <= 0)
		goto out;
	n = i2d_X509(x, NULL);
	if (n <= 0)
		goto out;
	p = buf_room(out, (size_t)n);
	i2d_X509(x, &p);
	buf_commit(out, (size_t)n);
	ret = 0;
out:
	if (ret != 0) {
		err_set(err, EIO, "cannot mint a leaf: %s", ERR_reason_error_string(ERR_peek_last_error()));
		ERR_clear_error();
	}
	X509_free(x);
	ASN1_OCTET_STRING_free(ski);
	return ret;
}
