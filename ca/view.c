/* SPDX-License-Identifier: Apache-2.0 */
/* What is read from the CA's files: show, export, and what must not vouch for an upstream. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/pem.h>
#include <openssl/sha.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../common/base/must.h"
#include "../common/pkcs12.h"
#include "../common/trust.h"
#include "files.h"

#define FILE_MAX (32u << 20)
#define WARN_S (30 * 86400)

static STACK_OF(X509) * trusted(const char *state, struct err *err)
{
	int fd = files_open_state(state, false, err);
	STACK_OF(X509) *certs = fd >= 0 ? files_certs(fd, state, "ca/ca.pem", err) : NULL;

	if (fd >= 0)
		close(fd);
	return certs;
}

X509 *ca_load_cert(const char *state, struct err *err)
{
	STACK_OF(X509) *certs = trusted(state, err);
	X509 *x = certs != NULL ? sk_X509_shift(certs) : NULL;

	sk_X509_pop_free(certs, X509_free);
	return x;
}

/* --- show ---------------------------------------------------------------------------------------------------------- */

static void print_sha256(const char *what, const unsigned char *p, size_t n, bool colons)
{
	uint8_t d[SHA256_DIGEST_LENGTH];

	SHA256(p, n, d);
	printf("%s", what);
	for (size_t i = 0; i < sizeof(d); i++)
		printf("%s%02X", i > 0 && colons ? ":" : "", d[i]);
	printf("\n");
}

static void print_time(const char *what, const ASN1_TIME *when)
{
	struct tm tm;
	char t[64];

	if (ASN1_TIME_to_tm(when, &tm) == 1 && strftime(t, sizeof(t), "%Y-%m-%dT%H:%M:%SZ", &tm) > 0)
		printf("%s%s\n", what, t);
}

static void print_constraints(BIO *out, X509 *x)
{
	int at = X509_get_ext_by_NID(x, NID_name_constraints, -1);

	if (at < 0)
		return;
	printf("names:               only these (critical name constraints)\n");
	fflush(stdout);
	X509V3_EXT_print(out, X509_get_ext(x, at), 0, 21);
	BIO_printf(out, "\n");
}

static int64_t seconds_left(const X509 *x)
{
	int days = 0, secs = 0;

	return ASN1_TIME_diff(&days, &secs, NULL, X509_get0_notAfter(x)) == 1 ? (int64_t)days * 86400 + secs : -1;
}

static void show_one(X509 *x)
{
	unsigned char *der = NULL, *spki = NULL;
	BIO *out = BIO_new_fp(stdout, BIO_NOCLOSE);
	char left[CA_LEFT_MAX];
	int n;

	MUST(out != NULL);
	printf("subject:             ");
	fflush(stdout);
	X509_NAME_print_ex(out, X509_get_subject_name(x), 0, XN_FLAG_RFC2253);
	printf("\n");
	print_time("valid from:          ", X509_get0_notBefore(x));
	print_time("valid until:         ", X509_get0_notAfter(x));
	if (files_expired(x)) {
		printf("                     it has EXPIRED: `sallyport ca rotate` makes the next one\n");
	} else if (seconds_left(x) < WARN_S) {
		ca_left_text(seconds_left(x), left);
		printf("                     it expires %s: `sallyport ca rotate` makes the next one\n", left);
	}
	print_constraints(out, x);
	n = i2d_X509(x, &der);
	if (n > 0)
		print_sha256("SHA-256 fingerprint: ", der, (size_t)n, true);
	n = i2d_PUBKEY(X509_get0_pubkey(x), &spki);
	if (n > 0)
		print_sha256("SHA-256 of its key:  ", spki, (size_t)n, false);
	OPENSSL_free(der);
	OPENSSL_free(spki);
	BIO_free(out);
}

int ca_show(const char *state, struct err *err)
{
	STACK_OF(X509) *certs = trusted(state, err);

	if (certs == NULL)
		return -1;
	printf("certificate:         %s/ca/ca.pem\n", state);
	for (int i = 0; i < sk_X509_num(certs); i++) {
		if (i > 0)
			printf("\nstill trusted, mints no more (`sallyport ca rotate --finish` ends that):\n");
		show_one(sk_X509_value(certs, i));
	}
	sk_X509_pop_free(certs, X509_free);
	return fflush(stdout) == 0 ? 0 : err_errno(err, "cannot write");
}

/* --- export -------------------------------------------------------------------------------------------------------- */

static int encode(const STACK_OF(X509) * certs, enum ca_form form, struct buf *out, struct err *err)
{
	BIO *b;
	char *p = NULL;
	bool ok = true;
	long n;

	if (form == CA_FORM_PKCS12)
		return pkcs12_trust_store(certs, out, err);
	b = BIO_new(BIO_s_mem());
	MUST(b != NULL);
	if (form == CA_FORM_DER)
		ok = i2d_X509_bio(b, sk_X509_value(certs, 0)) == 1;
	for (int i = 0; form == CA_FORM_PEM && i < sk_X509_num(certs); i++)
		ok = ok && PEM_write_bio_X509(b, sk_X509_value(certs, i)) == 1;
	n = BIO_get_mem_data(b, &p);
	buf_add(out, p, (size_t)n);
	BIO_free(b);
	return ok ? 0 : err_set(err, EIO, "the certificate could not be encoded");
}

int ca_export(const char *state, enum ca_form form, const char *file, struct err *err)
{
	STACK_OF(X509) *certs = trusted(state, err);
	struct buf out = { 0 };
	char tmp[4200];
	int fd = STDOUT_FILENO, ret = -1;
	bool named = file != NULL && strcmp(file, "-") != 0;

	if (certs == NULL || encode(certs, form, &out, err) < 0)
		goto out;
	if (named) {
		if (snprintf(tmp, sizeof(tmp), "%s.XXXXXX", file) >= (int)sizeof(tmp)) {
			err_set(err, ENAMETOOLONG, "the file name is too long");
			goto out;
		}
		fd = mkostemp(tmp, O_CLOEXEC);
		if (fd < 0) {
			err_errno(err, "cannot write %s", file);
			goto out;
		}
	}
	if (files_write_all(fd, buf_data(&out), buf_len(&out)) != 0 || (named && (fchmod(fd, 0644) != 0 || close(fd) != 0 || rename(tmp, file) != 0))) {
		err_errno(err, "cannot write %s", named ? file : "the certificate");
		if (named)
			unlink(tmp);
		goto out;
	}
	ret = 0;
out:
	buf_fini(&out);
	sk_X509_pop_free(certs, X509_free);
	return ret;
}

/* --- trust anchors for upstreams ----------------------------------------------------------------------------------- */

static int add_digests(const STACK_OF(X509) * certs, struct buf *out, struct err *err)
{
	for (int i = 0; i < sk_X509_num(certs); i++) {
		uint8_t digest[TRUST_DIGEST_LEN];

		if (!trust_key_digest(sk_X509_value(certs, i), digest))
			return err_set(err, EINVAL, "the CA's key cannot be encoded");
		buf_add(out, digest, sizeof(digest));
	}
	return 0;
}

/* Our own CA never vouches for an upstream, also when the system's store has it, or one of those before it. */
static int own_digests(const char *state, struct buf *out, struct err *err)
{
	int fd = files_open_state(state, false, err), ret = -1;
	STACK_OF(X509) *now = NULL, *former = NULL;
	char left[CA_LEFT_MAX];
	struct stat st;

	if (fd < 0)
		return -1;
	now = files_certs(fd, state, "ca/ca.pem", err);
	if (now == NULL || add_digests(now, out, err) < 0)
		goto out;
	if (fstatat(fd, "ca/former.pem", &st, AT_SYMLINK_NOFOLLOW) == 0) {
		former = files_certs(fd, state, "ca/former.pem", err);
		if (former == NULL || add_digests(former, out, err) < 0)
			goto out;
	}
	/* said here since this runs before a gateway takes up its work */
	if (files_expired(sk_X509_value(now, 0))) {
		err_set(err, EINVAL, "the CA of %s has expired: nothing could be intercepted. `sallyport ca rotate` makes the next one", state);
		goto out;
	}
	if (seconds_left(sk_X509_value(now, 0)) < WARN_S) {
		ca_left_text(seconds_left(sk_X509_value(now, 0)), left);
		fprintf(stderr, "sallyport-ca: warning: the CA expires %s: `sallyport ca rotate` makes the next one\n", left);
	}
	ret = 0;
out:
	sk_X509_pop_free(now, X509_free);
	sk_X509_pop_free(former, X509_free);
	close(fd);
	return ret;
}

static int read_input(struct buf *in, struct err *err)
{
	ssize_t n;

	do {
		n = read(STDIN_FILENO, buf_room(in, 65536), 65536);
		if (n > 0)
			buf_commit(in, (size_t)n);
	} while ((n > 0 && buf_len(in) <= FILE_MAX) || (n < 0 && errno == EINTR));
	if (n < 0)
		return err_errno(err, "cannot read the trust anchors");
	return buf_len(in) <= FILE_MAX ? 0 : err_set(err, EFBIG, "the trust anchors are larger than %u MiB", FILE_MAX >> 20);
}

int ca_pack_trust(const char *exclude_state, struct err *err)
{
	struct buf in = { 0 }, own = { 0 }, out = { 0 };
	unsigned left_out = 0;
	int ret = -1;

	if ((exclude_state != NULL && own_digests(exclude_state, &own, err) < 0) || read_input(&in, err) < 0 ||
	    trust_pack((const uint8_t *)buf_str(&in).p, buf_len(&in), buf_data(&own), (unsigned)(buf_len(&own) / TRUST_DIGEST_LEN), &out, &left_out, err) < 0)
		goto out;
	if (left_out > 0)
		fprintf(stderr, "sallyport-ca: %u of the trust anchors were left out: they are damaged, not of a CA, or our own\n", left_out);
	if (files_write_all(STDOUT_FILENO, buf_data(&out), buf_len(&out)) != 0) {
		err_errno(err, "cannot write the packed trust anchors");
		goto out;
	}
	ret = 0;
out:
	buf_fini(&in);
	buf_fini(&own);
	buf_fini(&out);
	return ret;
}
