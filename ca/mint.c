/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leaves. The profile is the one that every client measured accepts: v3, one SAN that is exactly the name asked for, a
 * random serial of 16 octets, basicConstraints, keyUsage, extendedKeyUsage, subject and authority key identifiers, nothing
 * else. No name is ever copied from an upstream's certificate, no wildcard (a client could coalesce connections on it).
 *
 * All leaves of a key are alike but in serial number, times and name. So they are put together of octets that OpenSSL encoded once,
 * with these three between them, and one operation signs: by way of an X509 object a mint costs twice the instructions, and much more
 * where each comes to a processor that did something else before (X509_set_pubkey alone is 250 us).
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

#define SIGNATURE_MAX 1024 /* RSA of 8,192 bits */

struct ca_issuer {
	EVP_PKEY *key;
	X509 *cert;
	EVP_PKEY_CTX *sign; /* ready to sign any number of digests */
	EVP_MD *md;
	struct buf algorithm, subject; /* DER: of its signatures; its name */
	X509_EXTENSION *aki;
	NAME_CONSTRAINTS *constraints; /* NULL: none */
	int64_t not_after_s;
};
struct ca_leaf_key {
	EVP_PKEY *key;
	struct buf spki; /* DER: the public key */
	struct buf ext;  /* basicConstraints, keyUsage, extendedKeyUsage, subject and authority key identifier */
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

/* What signs, and how signatures of it are named. */
static int signer(struct ca_issuer *i, struct err *err)
{
	X509 *x = X509_dup(i->cert);
	unsigned char *alg = NULL, *name = NULL;
	const X509_ALGOR *a = NULL;
	int n = -1, ret = -1;

	i->md = EVP_MD_fetch(NULL, "SHA256", NULL);
	i->sign = EVP_PKEY_CTX_new(i->key, NULL);
	MUST(x != NULL && i->md != NULL && i->sign != NULL);
	if (EVP_PKEY_get_size(i->key) > SIGNATURE_MAX || EVP_PKEY_sign_init(i->sign) != 1 || EVP_PKEY_CTX_set_signature_md(i->sign, i->md) != 1 || X509_sign(x, i->key, i->md) <= 0)
		goto out;
	X509_get0_signature(NULL, &a, x);
	if ((n = i2d_X509_ALGOR(a, &alg)) <= 0)
		goto out;
	buf_add(&i->algorithm, alg, (size_t)n);
	n = i2d_X509_NAME(X509_get_subject_name(i->cert), &name);
	MUST(n > 0);
	buf_add(&i->subject, name, (size_t)n);
	ret = 0;
out:
	if (ret < 0)
		err_set(err, EINVAL, "the CA's key cannot sign with SHA-256");
	ERR_clear_error();
	OPENSSL_free(alg);
	OPENSSL_free(name);
	X509_free(x);
	return ret;
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
	if (signer(i, err) < 0) {
		ca_issuer_free(i);
		return NULL;
	}
	return i;
}

void ca_left_text(int64_t seconds, char out[CA_LEFT_MAX])
{
	if (seconds >= 2 * 86400)
		snprintf(out, CA_LEFT_MAX, "in %lld days", (long long)(seconds / 86400));
	else if (seconds >= 2 * 3600)
		snprintf(out, CA_LEFT_MAX, "in %lld hours", (long long)(seconds / 3600));
	else if (seconds >= 120)
		snprintf(out, CA_LEFT_MAX, "in %lld minutes", (long long)(seconds / 60));
	else
		snprintf(out, CA_LEFT_MAX, "in less than two minutes");
}

int64_t ca_issuer_end_s(const struct ca_issuer *i) { return i->not_after_s; }

void ca_issuer_free(struct ca_issuer *i)
{
	if (i == NULL)
		return;
	EVP_PKEY_CTX_free(i->sign);
	EVP_MD_free(i->md);
	buf_fini(&i->algorithm);
	buf_fini(&i->subject);
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
	uint8_t point[128], ski[2 + 20] = { 0x04, 20 };
	unsigned char *der = NULL;
	X509_EXTENSION *e[4];
	int n;

	k->key = p256_new();
	SHA1(point, public_point(k->key, point, sizeof(point)), ski + 2);
	n = i2d_PUBKEY(k->key, &der);
	MUST(n > 0);
	buf_add(&k->spki, der, (size_t)n);
	OPENSSL_free(der);
	e[0] = ext_new(NID_basic_constraints, true, basic, sizeof(basic));
	e[1] = ext_new(NID_key_usage, true, usage, sizeof(usage));
	e[2] = ext_new(NID_ext_key_usage, false, eku, sizeof(eku));
	e[3] = ext_new(NID_subject_key_identifier, false, ski, sizeof(ski));
	for (unsigned m = 0; m < 5; m++) {
		der = NULL;
		n = i2d_X509_EXTENSION(m < 4 ? e[m] : i->aki, &der);
		MUST(n > 0);
		buf_add(&k->ext, der, (size_t)n);
		OPENSSL_free(der);
		if (m < 4)
			X509_EXTENSION_free(e[m]);
	}
	return k;
}

void ca_leaf_key_free(struct ca_leaf_key *k)
{
	if (k == NULL)
		return;
	EVP_PKEY_free(k->key);
	buf_fini(&k->spki);
	buf_fini(&k->ext);
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

/* --- DER (X.690) --------------------------------------------------------------------------------------------------- */

static size_t head_n(size_t n) { return n > 255 ? 4 : n > 127 ? 3 : 2; }

/* Tag and length of what follows; all that stands here is shorter than 65,536 octets. */
static void put_head(struct buf *out, uint8_t tag, size_t n)
{
	uint8_t h[4] = { tag, (uint8_t)n };

	MUST(n < 65536);
	if (n > 255) {
		h[1] = 0x82;
		h[2] = (uint8_t)(n >> 8);
		h[3] = (uint8_t)n;
	} else if (n > 127) {
		h[1] = 0x81;
		h[2] = (uint8_t)n;
	}
	buf_add(out, h, head_n(n));
}

/* A random positive integer of exactly 16 octets. */
static void put_serial(struct buf *out)
{
	uint8_t b[SERIAL_LEN];

	random_fill(b, sizeof(b));
	b[0] = (b[0] & 0x3f) | 0x40;
	put_head(out, 0x02, sizeof(b));
	buf_add(out, b, sizeof(b));
}

/* UTCTime before 2050, GeneralizedTime from then on (RFC 5280 4.1.2.5). Not by strftime, which looks for a file of the time zone. */
static void put_time(struct buf *out, int64_t at_s)
{
	time_t t = (time_t)at_s;
	struct tm tm;
	bool utc;

	MUST(gmtime_r(&t, &tm) != NULL && tm.tm_year >= 70 && tm.tm_year < 8100);
	utc = tm.tm_year < 150;
	const int part[] = { (tm.tm_year + 1900) / 100, tm.tm_year % 100, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec };
	put_head(out, utc ? 0x17 : 0x18, utc ? 13 : 15);
	for (unsigned i = utc; i < 7; i++) {
		buf_addc(out, (char)('0' + part[i] / 10));
		buf_addc(out, (char)('0' + part[i] % 10));
	}
	buf_addc(out, 'Z');
}

/* Name with a commonName alone, as UTF8String. The SAN is what counts; the name is there for people. */
static void put_subject(struct buf *out, const struct canon_host *h)
{
	static const uint8_t cn[] = { 0x06, 0x03, 0x55, 0x04, 0x03 };
	size_t n = h->len > CN_MAX ? CN_MAX : h->len, value = sizeof(cn) + 2 + n;

	put_head(out, 0x30, value + 4);
	put_head(out, 0x31, value + 2);
	put_head(out, 0x30, value);
	buf_add(out, cn, sizeof(cn));
	put_head(out, 0x0c, n);
	buf_add(out, h->text, n);
}

/* subjectAltName: GeneralNames with the one name, [2] dNSName or [7] iPAddress (RFC 5280 4.2.1.6). */
static void put_san(struct buf *out, const struct canon_host *h)
{
	static const uint8_t id[] = { 0x06, 0x03, 0x55, 0x1d, 0x11 };
	const uint8_t *v = (const uint8_t *)h->text;
	size_t n = h->len, one, names;

	if (h->ip.family != 0) {
		n = h->ip.family == 4 ? 4 : 16;
		v = h->ip.b + 16 - n;
	}
	one = head_n(n) + n;
	names = head_n(one) + one;
	put_head(out, 0x30, sizeof(id) + head_n(names) + names);
	buf_add(out, id, sizeof(id));
	put_head(out, 0x04, names);
	put_head(out, 0x30, one);
	put_head(out, h->ip.family != 0 ? 0x87 : 0x82, n);
	buf_add(out, v, n);
}

/* TBSCertificate (RFC 5280 4.1). */
static void put_tbs(struct buf *out, const struct ca_issuer *i, const struct ca_leaf_key *k, const struct canon_host *host, int64_t from_s, int64_t to_s)
{
	static const uint8_t v3[] = { 0xa0, 0x03, 0x02, 0x01, 0x02 };
	struct buf body = { 0 }, part = { 0 };

	buf_add(&body, v3, sizeof(v3));
	put_serial(&body);
	buf_adds(&body, buf_str(&i->algorithm));
	buf_adds(&body, buf_str(&i->subject));
	put_time(&part, from_s);
	put_time(&part, to_s);
	put_head(&body, 0x30, buf_len(&part));
	buf_adds(&body, buf_str(&part));
	put_subject(&body, host);
	buf_adds(&body, buf_str(&k->spki));
	buf_clear(&part);
	buf_adds(&part, buf_str(&k->ext));
	put_san(&part, host);
	put_head(&body, 0xa3, head_n(buf_len(&part)) + buf_len(&part));
	put_head(&body, 0x30, buf_len(&part));
	buf_adds(&body, buf_str(&part));
	put_head(out, 0x30, buf_len(&body));
	buf_adds(out, buf_str(&body));
	buf_fini(&body);
	buf_fini(&part);
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
	uint8_t digest[EVP_MAX_MD_SIZE], sig[SIGNATURE_MAX];
	struct buf tbs = { 0 }, out = { 0 };
	enum ca_minted ret = CA_MINT_FAILED;
	size_t sig_n = sizeof(sig), bits;
	unsigned digest_n = 0;

	if (end_s <= now_s)
		return CA_MINT_EXPIRED;
	put_tbs(&tbs, i, k, host, now_s - BACKDATE_S, end_s);
	if (EVP_Digest(buf_data(&tbs), buf_len(&tbs), digest, &digest_n, i->md, NULL) != 1 || EVP_PKEY_sign(i->sign, sig, &sig_n, digest, digest_n) != 1)
		goto out;
	bits = sig_n + 1; /* of a BIT STRING, of whose last octet no bit is unused */
	put_head(&out, 0x30, buf_len(&tbs) + buf_len(&i->algorithm) + head_n(bits) + bits);
	buf_adds(&out, buf_str(&tbs));
	buf_adds(&out, buf_str(&i->algorithm));
	put_head(&out, 0x03, bits);
	buf_addc(&out, 0);
	buf_add(&out, sig, sig_n);
	/* what its own constraints forbid no client would believe: better said here than there */
	ret = i->constraints == NULL || permitted(i, buf_data(&out), (int)buf_len(&out)) ? CA_MINT_OK : CA_MINT_OUTSIDE;
	if (ret == CA_MINT_OK)
		buf_adds(der, buf_str(&out));
out:
	ERR_clear_error();
	buf_fini(&tbs);
	buf_fini(&out);
	return ret;
}
