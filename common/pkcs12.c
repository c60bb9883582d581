/* SPDX-License-Identifier: Apache-2.0 */
#include "pkcs12.h"

#include <errno.h>
#include <openssl/evp.h>
#include <openssl/objects.h>
#include <openssl/pkcs12.h>
#include <stdio.h>

#define JAVA_TRUSTED_KEY_USAGE "2.16.840.1.113894.746875.1.1" /* Oracle: what a Java key store reads as "trusted certificate" */
#define ANY_EXTENDED_KEY_USAGE "2.5.29.37.0"

static bool add_attribute(PKCS12_SAFEBAG *bag, const char *oid, const char *value_oid)
{
	ASN1_OBJECT *value = OBJ_txt2obj(value_oid, 1);
	bool ok = value != NULL && PKCS12_add1_attr_by_txt(bag, oid, V_ASN1_OBJECT, (const unsigned char *)value, -1);

	ASN1_OBJECT_free(value);
	return ok;
}

int pkcs12_trust_store(const STACK_OF(X509) * certs, struct buf *out, struct err *err)
{
	STACK_OF(PKCS12_SAFEBAG) *bags = NULL;
	STACK_OF(PKCS7) *safes = NULL;
	PKCS12 *p12 = NULL;
	unsigned char *der = NULL;
	char alias[32];
	int n, r = -1;

	for (int i = 0; i < sk_X509_num(certs); i++) {
		PKCS12_SAFEBAG *bag = PKCS12_add_cert(&bags, sk_X509_value(certs, i));

		snprintf(alias, sizeof(alias), "sallyport%d", i);
		if (bag == NULL || !PKCS12_add_friendlyname_utf8(bag, alias, -1) || !add_attribute(bag, JAVA_TRUSTED_KEY_USAGE, ANY_EXTENDED_KEY_USAGE))
			goto out;
	}
	if (!PKCS12_add_safe(&safes, bags, -1, 0, NULL) || (p12 = PKCS12_add_safes(safes, 0)) == NULL || !PKCS12_set_mac(p12, PKCS12_PASSWORD, -1, NULL, 0, 2048, EVP_sha1()))
		goto out;
	n = i2d_PKCS12(p12, &der);
	if (n <= 0)
		goto out;
	buf_add(out, der, (size_t)n);
	r = 0;
out:
	if (r != 0)
		err_set(err, EIO, "cannot make the PKCS #12 trust store");
	OPENSSL_free(der);
	PKCS12_free(p12);
	sk_PKCS7_pop_free(safes, PKCS7_free);
	sk_PKCS12_SAFEBAG_pop_free(bags, PKCS12_SAFEBAG_free);
	return r;
}
