/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leaves. The profile is the one that every client measured accepts: v3, one SAN that is exactly the name asked for, a
 * random serial of 16 octets, basicConstraints, keyUsage, extendedKeyUsage, subject and authority key identifiers, nothing
 * else. No name is ever copied from an upstream's certificate, no wildcard (a client could coalesce connections on it).
 *
 * X509_set_pubkey encodes and decodes the key again on every call (250 us). X509_PUBKEY_set0_param takes the octets as
 * they are; the result cannot be used as a certificate in this process, only its DER can, which is all that is wanted.
 */
#include <errno.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/sha.h>
#include <openssl/x509v3.h>
#include <stdlib.h>

#include "../common/base/must.h"
#include "../common/sys/clock.h"
#include "ca.h"

#define SERIAL_LEN 16
#define CN_MAX 64                      /* ub-common-name, RFC 5280 appendix A.1 */
#define BACKDATE_S (48 * 3600)         /* a machine restored from a snapshot may be behind */
#define CA_VALID_S (3650LL * 24 * 3600)

struct ca_issuer {
	EVP_PKEY *key;
	X509 *cert;
	X509_EXTENSION *aki;
	NAME_CONSTRAINTS *constraints; /* NULL: none */
	int64_t not_after_s;
};
struct ca_leaf_key {
	EVP_PKEY *key;
	uint8_t point[128]; /* the public key as it stands in a certificate */
	size_t point_len;
	X509_EXTENSION *ext[5]; /* basicConstraints, keyUsage, extendedKeyUsage, subject and authority key identifier */
};

static X509_EXTENSION *ext_new(int nid, bool critical, const void *der, size_t n)
{
	ASN1_OCTET_STRING *o = ASN1_OCTET_STRING_new();
	X509_EXTENSION *e;

	MUST(o != NULL && ASN1_OCTET_STRING_set(o, der, (int)n) == 1);
	e = X509_EXTENSION_create_by_NID(NULL, nid, critical, o);
	MUST(e != NULL);
	ASN1_OCTET_STRING_free(o);
	return e;
}

/* A random positive integer of exactly 16 octets. */
static void set_serial(X509 *x)
{
	uint8_t b[SERIAL_LEN];
	BIGNUM *n;

	random_fill(b, sizeof(b));
	b[0] = (b[0] & 0x3f) | 0x40;
	n = BN_bin2bn(b, sizeof(b), NULL);
	MUST(n != NULL && BN_to_ASN1_INTEGER(n, X509_get_serialNumber(x)) != NULL);
	BN_free(n);
}

static void set_times(X509 *x, int64_t from_s, int64_t to_s)
{
	/* UTCTime before 2050, GeneralizedTime from then on (RFC 5280 4.1.2.5) */
	MUST(ASN1_TIME_set(X509_getm_notBefore(x), (time_t)from_s) != NULL && ASN1_TIME_set(X509_getm_notAfter(x), (time_t)to_s) != NULL);
}

static size_t public_point(const EVP_PKEY *key, uint8_t *out, size_t cap)
{
	size_t n = 0;

	/* uncompressed: some clients know no other form */
	MUST(EVP_PKEY_get_octet_string_param(key, "encoded-pub-key", out, cap, &n) == 1);
	return n;
}

static EVP_PKEY *p256_new(void)
{
	EVP_PKEY *k = EVP_EC_gen("P-256");

	MUST(k != NULL);
	return k;
}

/* The value of nameConstraints, in OpenSSL's notation. A kind of name that nothing permits is forbidden as a whole: else it would be free. */
static int constraints_text(const char *const *permit, unsigned n, struct buf *out, struct err *err)
{
	bool names = false;

	buf_addf(out, "critical");
	for (unsigned i = 0; i < n; i++) {
		struct canon_host h;
		struct cidr range;
		const char *why;

		if (cidr_parse(str_of(permit[i]), &range)) {
			char addr[IP_TEXT_MAX], mask[IP_TEXT_MAX];
			struct ip m = { .family = range.net.family };
			unsigned from = range.net.family == 4 ? 96 : 0;

			for (unsigned b = 0; b < range.bits; b++)
				m.b[(from + b) / 8] |= (uint8_t)(0x80 >> b % 8);
			ip_format(&range.net, addr);
			ip_format(&m, mask);
			buf_addf(out, ",permitted;IP:%s/%s", addr, mask);
		} else if (canon_host(str_of(permit[i]), false, &h, &why) && h.ip.family == 0) {
			buf_addf(out, ",permitted;DNS:%s", h.text);
			names = true;
		} else {
			return err_set(err, EINVAL, "`%s` is neither a domain, such as acme.example, nor an address range, such as 10.20.0.0/16", permit[i]);
		}
	}
	if (!names)
		buf_addf(out, ",permitted;DNS:invalid");
	for (unsigned family = 4; family <= 6; family += 2) {
		bool any = false;

		for (unsigned i = 0; i < n; i++) {
			struct cidr range;

			any = any || (cidr_parse(str_of(permit[i]), &range) && range.net.family == family);
		}
		if (!any)
			buf_addf(out, family == 4 ? ",excluded;IP:0.0.0.0/0.0.0.0" : ",excluded;IP:::/::");
	}
	buf_addc(out, 0);
	return 0;
}

X509_EXTENSION *ca_constraints_new(const char *const *permit, unsigned n, struct err *err)
{
	struct buf text = { 0 };
	X509_EXTENSION *e = NULL;
	X509V3_CTX ctx;

	if (constraints_text(permit, n, &text, err) == 0) {
		X509V3_set_ctx(&ctx, NULL, NULL, NULL, NULL, 0);
		e = X509V3_EXT_conf_nid(NULL, &ctx, NID_name_constraints, buf_str(&text).p);
		if (e == NULL)
			err_set(err, EINVAL, "the name constraints could not be encoded");
	}
	ERR_clear_error();
	buf_fini(&text);
	return e;
}

int ca_create(EVP_PKEY **key, X509 **cert, const X509_EXTENSION *constraints, struct err *err)
{
	static const uint8_t basic[] = { 0x30, 0x06, 0x01, 0x01, 0xff, 0x02, 0x01, 0x00 }; /* CA:TRUE, pathlen 0 */
	static const uint8_t usage[] = { 0x03, 0x02, 0x01, 0x06 };                         /* keyCertSign, cRLSign */
	uint8_t id[8], point[128], ski[2 + 20] = { 0x04, 20 };
	int64_t now = (int64_t)(clock_wall_ms() / 1000);
	char cn[64] = "Sallyport CA ";
	X509_EXTENSION *e[3];
	X509_NAME *name;
	EVP_PKEY *k = p256_new();
	X509 *x = X509_new();
	size_t n;

	MUST(x != NULL);
	random_fill(id, sizeof(id));
	for (size_t i = 0; i < sizeof(id); i++) {
		static const char hex[] = "0123456789abcdef";

		cn[13 + 2 * i] = hex[id[i] >> 4];
		cn[14 + 2 * i] = hex[id[i] & 15];
	}
	MUST(X509_set_version(x, 2) == 1);
	set_serial(x);
	set_times(x, now - BACKDATE_S, now + CA_VALID_S);
	name = X509_get_subject_name(x);
	/* unique: clients that know two CAs of one name and different keys fail in ways that are hard to read */
	MUST(X509_NAME_add_entry_by_txt(name, "O", MBSTRING_UTF8, (const unsigned char *)"Sallyport", -1, -1, 0) == 1);
	MUST(X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, (const unsigned char *)cn, -1, -1, 0) == 1);
	MUST(X509_set_issuer_name(x, name) == 1 && X509_set_pubkey(x, k) == 1);
	n = public_point(k, point, sizeof(point));
	SHA1(point, n, ski + 2); /* an identifier, RFC 5280 4.2.1.2 (1), not a digest that anything rests on */
	e[0] = ext_new(NID_basic_constraints, true, basic, sizeof(basic));
	e[1] = ext_new(NID_key_usage, true, usage, sizeof(usage));
	e[2] = ext_new(NID_subject_key_identifier, false, ski, sizeof(ski));
	for (int i = 0; i < 3; i++) {
		MUST(X509_add_ext(x, e[i], -1) == 1);
		X509_EXTENSION_free(e[i]);
	}
	MUST(constraints == NULL || X509_add_ext(x, (X509_EXTENSION *)(uintptr_t)constraints, -1) == 1);
	if (X509_sign(x, k, EVP_sha256()) <= 0) {
		X509_free(x);
		EVP_PKEY_free(k);
		return err_set(err, EIO, "the certificate could not be signed");
	}
	*key = k;
	*cert = x;
	return 0;
}

struct ca_issuer *ca_issuer_new(EVP_PKEY *key, X509 *cert, struct err *err)
{
	const ASN1_OCTET_STRING *ski = X509_get0_subject_key_id(cert);
	struct ca_issuer *i;
	uint8_t aki[4 + 64];
	struct tm tm;

	if (X509_check_ca(cert) != 1 || (X509_get_key_usage(cert) & KU_KEY_CERT_SIGN) == 0) {
		err_set(err, EINVAL, "the certificate is not one of a CA");
		return NULL;
	}
	if (X509_check_private_key(cert, key) != 1) {
		ERR_clear_error();
		err_set(err, EINVAL, "the CA's key does not belong to its certificate");
		return NULL;
	}
	if (ski == NULL || ASN1_STRING_length(ski) < 1 || ASN1_STRING_length(ski) > 64) {
		err_set(err, EINVAL, "the CA's certificate has no subject key identifier");
		return NULL;
	}
	if (ASN1_TIME_to_tm(X509_get0_notAfter(cert), &tm) != 1) {
		err_set(err, EINVAL, "the CA's certificate has no readable end");
		return NULL;
	}
	i = must_calloc(1, sizeof(*i));
	/* AuthorityKeyIdentifier ::= SEQUENCE { [0] keyIdentifier } */
	aki[0] = 0x30;
	aki[1] = (uint8_t)(ASN1_STRING_length(ski) + 2);
	aki[2] = 0x80;
	aki[3] = (uint8_t)ASN1_STRING_length(ski);
	memcpy(aki + 4, ASN1_STRING_get0_data(ski), (size_t)ASN1_STRING_length(ski));
	i->aki = ext_new(NID_authority_key_identifier, false, aki, 4 + (size_t)ASN1_STRING_length(ski));
	EVP_PKEY_up_ref(key);
	X509_up_ref(cert);
	i->key = key;
	i->cert = cert;
	i->not_after_s = (int64_t)timegm(&tm);
	i->constraints = X509_get_ext_d2i(cert, NID_name_constraints, NULL, NULL);
	return i;
}

int64_t ca_issuer_end_s(const struct ca_issuer *i) { return i->not_after_s; }

void ca_issuer_free(struct ca_issuer *i)
{
	if (i == NULL)
		return;
	EVP_PKEY_free(i->key);
	X509_free(i->cert);
	X509_EXTENSION_free(i->aki);
	NAME_CONSTRAINTS_free(i->constraints);
	free(i);
}

struct ca_leaf_key *ca_leaf_key_new(const struct ca_issuer *i)
{
	static const uint8_t basic[] = { 0x30, 0x00 };                                                         /* CA:FALSE */
	static const uint8_t usage[] = { 0x03, 0x02, 0x07, 0x80 };                                             /* digitalSignature */
	static const uint8_t eku[] = { 0x30, 0x0a, 0x06, 0x08, 0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x01 }; /* serverAuth */
	struct ca_leaf_key *k = must_calloc(1, sizeof(*k));
	uint8_t ski[2 + 20] = { 0x04, 20 };

	k->key = p256_new();
	k->point_len = public_point(k->key, k->point, sizeof(k->point));
	SHA1(k->point, k->point_len, ski + 2);
	k->ext[0] = ext_new(NID_basic_constraints, true, basic, sizeof(basic));
	k->ext[1] = ext_new(NID_key_usage, true, usage, sizeof(usage));
	k->ext[2] = ext_new(NID_ext_key_usage, false, eku, sizeof(eku));
	k->ext[3] = ext_new(NID_subject_key_identifier, false, ski, sizeof(ski));
	k->ext[4] = X509_EXTENSION_dup(i->aki);
	MUST(k->ext[4] != NULL);
	return k;
}

void ca_leaf_key_free(struct ca_leaf_key *k)
{
	if (k == NULL)
		return;
	EVP_PKEY_free(k->key);
	for (int i = 0; i < 5; i++)
		X509_EXTENSION_free(k->ext[i]);
	free(k);
}

void ca_leaf_key_der(const struct ca_leaf_key *k, struct buf *out)
{
	PKCS8_PRIV_KEY_INFO *p8 = EVP_PKEY2PKCS8(k->key);
	unsigned char *der = NULL;
	int n;

	MUST(p8 != NULL);
	n = i2d_PKCS8_PRIV_KEY_INFO(p8, &der);
	MUST(n > 0);
	buf_add(out, der, (size_t)n);
	OPENSSL_clear_free(der, (size_t)n);
	PKCS8_PRIV_KEY_INFO_free(p8);
}

/* GeneralNames with the one name: [2] dNSName or [7] iPAddress (RFC 5280 4.2.1.6). */
static X509_EXTENSION *san_new(const struct canon_host *h)
{
	uint8_t der[8 + CANON_HOST_MAX];
	const uint8_t *v = (const uint8_t *)h->text;
	size_t n = h->len, at = 0, inner;

	if (h->ip.family != 0) {
		n = h->ip.family == 4 ? 4 : 16;
		v = h->ip.b + 16 - n;
	}
	inner = n + (n < 128 ? 2 : 3);
	der[at++] = 0x30;
	if (inner >= 128)
		der[at++] = inner > 255 ? 0x82 : 0x81;
	if (inner > 255)
		der[at++] = (uint8_t)(inner >> 8);
	der[at++] = (uint8_t)inner;
	der[at++] = h->ip.family != 0 ? 0x87 : 0x82;
	if (n >= 128)
		der[at++] = 0x81;
	der[at++] = (uint8_t)n;
	memcpy(der + at, v, n);
	return ext_new(NID_subject_alt_name, false, der, at + n);
}

/* OpenSSL looks at the names of certificates that were decoded, not of those that were made. */
static bool permitted(const struct ca_issuer *i, const unsigned char *der, int n)
{
	X509 *x = d2i_X509(NULL, &der, n);
	bool yes = x != NULL && X509_check_purpose(x, -1, 0) == 1 && NAME_CONSTRAINTS_check(x, i->constraints) == X509_V_OK;

	X509_free(x);
	ERR_clear_error();
	return yes;
}

enum ca_minted ca_mint(const struct ca_issuer *i, const struct ca_leaf_key *k, const struct canon_host *host, int64_t now_s, int64_t valid_s, struct buf *der)
{
	int64_t end_s = now_s + valid_s < i->not_after_s ? now_s + valid_s : i->not_after_s;
	X509_EXTENSION *san;
	unsigned char *p = NULL;
	uint8_t *point;
	X509 *x;
	int n;

	if (end_s <= now_s)
		return CA_MINT_EXPIRED;
	x = X509_new();
	MUST(x != NULL && X509_set_version(x, 2) == 1);
	set_serial(x);
	set_times(x, now_s - BACKDATE_S, end_s);
	MUST(X509_set_issuer_name(x, X509_get_subject_name(i->cert)) == 1);
	/* the SAN is what counts; the name is there for people */
	MUST(X509_NAME_add_entry_by_NID(X509_get_subject_name(x), NID_commonName, V_ASN1_UTF8STRING, (const unsigned char *)host->text,
	                                host->len > CN_MAX ? CN_MAX : host->len, -1, 0) == 1);
	point = OPENSSL_malloc(k->point_len);
	MUST(point != NULL);
	memcpy(point, k->point, k->point_len);
	MUST(X509_PUBKEY_set0_param(X509_get_X509_PUBKEY(x), OBJ_nid2obj(NID_X9_62_id_ecPublicKey), V_ASN1_OBJECT, OBJ_nid2obj(NID_X9_62_prime256v1),
	                            point, (int)k->point_len) == 1);
	for (int e = 0; e < 5; e++)
		MUST(X509_add_ext(x, k->ext[e], -1) == 1);
	san = san_new(host);
	MUST(X509_add_ext(x, san, -1) == 1);
	X509_EXTENSION_free(san);
	if (X509_sign(x, i->key, EVP_sha256()) <= 0) {
		ERR_clear_error();
		X509_free(x);
		return CA_MINT_FAILED;
	}
	n = i2d_X509(x, &p);
	MUST(n > 0);
	X509_free(x);
	/* what its own constraints forbid no client would believe: better said here than there */
	if (i->constraints != NULL && !permitted(i, p, n)) {
		OPENSSL_free(p);
		return CA_MINT_OUTSIDE;
	}
	buf_add(der, p, (size_t)n);
	OPENSSL_free(p);
	return CA_MINT_OK;
}
