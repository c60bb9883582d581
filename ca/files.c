/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CA in the state directory: ca/ca.key (0600) and ca/ca.pem. Both appear at once, by the rename of a directory, or
 * not at all. A key that is missing beside existing state is an error: a new CA in its place would make every client
 * that trusts the old one fail, and would hide that somebody took the key away.
 */
#include <errno.h>
#include <fcntl.h>
#include <openssl/pem.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../common/sys/clock.h"
#include "../common/trust.h"
#include "ca.h"

#define FILE_MAX (32u << 20)

static int write_all(int fd, const void *p, size_t n)
{
	const char *at = p;

	while (n > 0) {
		ssize_t k = write(fd, at, n);

		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			return -1;
		at += k;
		n -= (size_t)k;
	}
	return 0;
}

/* The name must not exist. */
static int write_file(int dir_fd, const char *name, mode_t mode, BIO *content, struct err *err)
{
	char *p = NULL;
	long n = BIO_get_mem_data(content, &p);
	int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);

	if (fd < 0)
		return err_errno(err, "cannot make %s", name);
	if (fchmod(fd, mode) != 0 || write_all(fd, p, (size_t)n) != 0 || fsync(fd) != 0) {
		err_errno(err, "cannot write %s", name);
		close(fd);
		unlinkat(dir_fd, name, 0);
		return -1;
	}
	if (close(fd) != 0)
		return err_errno(err, "cannot write %s", name);
	return 0;
}

static bool exists(int dir_fd, const char *name)
{
	struct stat st;

	return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
}

/* mkdir -p; what is made is for the owner alone. */
static int make_state_dir(const char *state, struct err *err)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s", state);
	for (char *p = path + 1; *p; p++) {
		if (*p != '/')
			continue;
		*p = 0;
		if (mkdir(path, 0755) != 0 && errno != EEXIST)
			return err_errno(err, "cannot make the directory %s", path);
		*p = '/';
	}
	if (mkdir(path, 0700) != 0 && errno != EEXIST)
		return err_errno(err, "cannot make the directory %s", path);
	return 0;
}

static int open_state(const char *state, bool make, struct err *err)
{
	struct stat st;
	int fd;

	if (make && make_state_dir(state, err) < 0)
		return -1;
	fd = open(state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_errno(err, "cannot open the state directory %s", state);
	if (fstat(fd, &st) != 0 || st.st_uid != geteuid() || (st.st_mode & 022)) {
		close(fd);
		return err_set(err, EPERM, "the state directory %s must belong to uid %u and be writable by nobody else", state, (unsigned)geteuid());
	}
	return fd;
}

static int refuse_existing(int state_fd, const char *state, struct err *err)
{
	if (exists(state_fd, "ca/ca.key"))
		return err_set(err, EEXIST, "there is a CA in %s/ca already; it is not replaced. Look at it with `sallyport ca show`", state);
	if (exists(state_fd, "ca") || exists(state_fd, "audit"))
		return err_set(err, ENOENT, "%s/ca/ca.key is missing beside existing state; no new CA is made in its place. Restore the key, or move %s away to start anew", state, state);
	return 0;
}

int ca_init(const char *state, struct err *err)
{
	int state_fd = open_state(state, true, err), dir_fd = -1, ret = -1;
	BIO *key_pem = BIO_new(BIO_s_secmem()), *cert_pem = BIO_new(BIO_s_mem());
	EVP_PKEY *key = NULL;
	X509 *cert = NULL;
	char tmp[32];
	uint8_t r[8];
	bool made = false;

	if (state_fd < 0 || refuse_existing(state_fd, state, err) < 0)
		goto out;
	if (ca_create(&key, &cert, err) < 0)
		goto out;
	if (PEM_write_bio_PKCS8PrivateKey(key_pem, key, NULL, NULL, 0, NULL, NULL) != 1 || PEM_write_bio_X509(cert_pem, cert) != 1) {
		err_set(err, EIO, "the new CA could not be written as PEM");
		goto out;
	}
	random_fill(r, sizeof(r));
	snprintf(tmp, sizeof(tmp), ".ca-%02x%02x%02x%02x%02x%02x%02x%02x", r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7]);
	if (mkdirat(state_fd, tmp, 0700) != 0) {
		err_errno(err, "cannot make a directory in %s", state);
		goto out;
	}
	made = true;
	dir_fd = openat(state_fd, tmp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir_fd < 0) {
		err_errno(err, "cannot open a directory in %s", state);
		goto out;
	}
	if (write_file(dir_fd, "ca.key", 0600, key_pem, err) < 0 || write_file(dir_fd, "ca.pem", 0644, cert_pem, err) < 0)
		goto out;
	/* two who start at once: the second finds a directory there that is not empty */
	if (fsync(dir_fd) != 0 || renameat2(state_fd, tmp, state_fd, "ca", RENAME_NOREPLACE) != 0) {
		if (errno == EEXIST || errno == ENOTEMPTY)
			refuse_existing(state_fd, state, err);
		else
			err_errno(err, "cannot put the new CA in place as %s/ca", state);
		goto out;
	}
	made = false;
	fsync(state_fd);
	ret = 0;
out:
	if (made) {
		if (dir_fd >= 0) {
			unlinkat(dir_fd, "ca.key", 0);
			unlinkat(dir_fd, "ca.pem", 0);
		}
		unlinkat(state_fd, tmp, AT_REMOVEDIR);
	}
	if (dir_fd >= 0)
		close(dir_fd);
	if (state_fd >= 0)
		close(state_fd);
	BIO_free(key_pem);
	BIO_free(cert_pem);
	X509_free(cert);
	EVP_PKEY_free(key);
	return ret;
}

X509 *ca_load_cert(const char *state, struct err *err)
{
	int state_fd = open_state(state, false, err), fd = -1;
	X509 *x = NULL;
	FILE *f;

	if (state_fd < 0)
		return NULL;
	fd = openat(state_fd, "ca/ca.pem", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0) {
		if (errno == ENOENT)
			err_set(err, ENOENT, "there is no CA in %s yet: make one with `sallyport ca init`", state);
		else
			err_errno(err, "cannot open %s/ca/ca.pem", state);
		close(state_fd);
		return NULL;
	}
	close(state_fd);
	f = fdopen(fd, "r");
	if (f == NULL) {
		err_errno(err, "cannot read %s/ca/ca.pem", state);
		close(fd);
		return NULL;
	}
	x = PEM_read_X509(f, NULL, NULL, NULL);
	if (x == NULL)
		err_set(err, EINVAL, "%s/ca/ca.pem does not hold a certificate", state);
	fclose(f);
	return x;
}

static void print_sha256(const char *what, const unsigned char *p, size_t n, bool colons)
{
	uint8_t d[SHA256_DIGEST_LENGTH];

	SHA256(p, n, d);
	printf("%s", what);
	for (size_t i = 0; i < sizeof(d); i++)
		printf("%s%02X", i > 0 && colons ? ":" : "", d[i]);
	printf("\n");
}

int ca_show(const char *state, struct err *err)
{
	X509 *x = ca_load_cert(state, err);
	unsigned char *der = NULL, *spki = NULL;
	struct tm tm;
	char t[64];
	BIO *out;
	int n;

	if (x == NULL)
		return -1;
	printf("certificate:         %s/ca/ca.pem\n", state);
	printf("subject:             ");
	fflush(stdout);
	out = BIO_new_fp(stdout, BIO_NOCLOSE);
	X509_NAME_print_ex(out, X509_get_subject_name(x), 0, XN_FLAG_RFC2253);
	BIO_free(out);
	printf("\n");
	if (ASN1_TIME_to_tm(X509_get0_notBefore(x), &tm) == 1 && strftime(t, sizeof(t), "%Y-%m-%dT%H:%M:%SZ", &tm) > 0)
		printf("valid from:          %s\n", t);
	if (ASN1_TIME_to_tm(X509_get0_notAfter(x), &tm) == 1 && strftime(t, sizeof(t), "%Y-%m-%dT%H:%M:%SZ", &tm) > 0)
		printf("valid until:         %s\n", t);
	n = i2d_X509(x, &der);
	if (n > 0)
		print_sha256("SHA-256 fingerprint: ", der, (size_t)n, true);
	n = i2d_PUBKEY(X509_get0_pubkey(x), &spki);
	if (n > 0)
		print_sha256("SHA-256 of its key:  ", spki, (size_t)n, false);
	OPENSSL_free(der);
	OPENSSL_free(spki);
	X509_free(x);
	return fflush(stdout) == 0 ? 0 : err_errno(err, "cannot write");
}

int ca_export(const char *state, bool der, const char *file, struct err *err)
{
	X509 *x = ca_load_cert(state, err);
	BIO *b = BIO_new(BIO_s_mem());
	char tmp[4200], *p = NULL;
	int fd = STDOUT_FILENO, ret = -1;
	bool named = file != NULL && strcmp(file, "-") != 0;
	long n;

	if (x == NULL)
		goto out;
	if ((der ? i2d_X509_bio(b, x) : PEM_write_bio_X509(b, x)) != 1) {
		err_set(err, EIO, "the certificate could not be encoded");
		goto out;
	}
	n = BIO_get_mem_data(b, &p);
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
	if (write_all(fd, p, (size_t)n) != 0 || (named && (fchmod(fd, 0644) != 0 || close(fd) != 0 || rename(tmp, file) != 0))) {
		err_errno(err, "cannot write %s", named ? file : "the certificate");
		if (named)
			unlink(tmp);
		goto out;
	}
	ret = 0;
out:
	BIO_free(b);
	X509_free(x);
	return ret;
}

int ca_pack_trust(const char *exclude_state, struct err *err)
{
	struct buf in = { 0 }, out = { 0 };
	uint8_t digest[SHA256_DIGEST_LENGTH];
	unsigned char *spki = NULL;
	unsigned left_out = 0;
	X509 *own = NULL;
	int ret = -1;
	ssize_t n;

	if (exclude_state != NULL) {
		/* our own CA never vouches for an upstream, also when the system's store has it */
		own = ca_load_cert(exclude_state, err);
		if (own == NULL)
			return -1;
		n = i2d_PUBKEY(X509_get0_pubkey(own), &spki);
		X509_free(own);
		if (n <= 0)
			return err_set(err, EINVAL, "the CA's key cannot be encoded");
		SHA256(spki, (size_t)n, digest);
		OPENSSL_free(spki);
	}
	for (;;) {
		n = read(STDIN_FILENO, buf_room(&in, 65536), 65536);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		buf_commit(&in, (size_t)n);
		if (buf_len(&in) > FILE_MAX)
			break;
	}
	if (n < 0) {
		err_errno(err, "cannot read the trust anchors");
		goto out;
	}
	if (buf_len(&in) > FILE_MAX) {
		err_set(err, EFBIG, "the trust anchors are larger than %u MiB", FILE_MAX >> 20);
		goto out;
	}
	if (trust_pack((const uint8_t *)buf_str(&in).p, buf_len(&in), exclude_state != NULL ? digest : NULL, &out, &left_out, err) < 0)
		goto out;
	if (left_out > 0)
		fprintf(stderr, "sallyport-ca: %u of the trust anchors were left out: they are damaged, not of a CA, or our own\n", left_out);
	if (write_all(STDOUT_FILENO, buf_data(&out), buf_len(&out)) != 0) {
		err_errno(err, "cannot write the packed trust anchors");
		goto out;
	}
	ret = 0;
out:
	buf_fini(&in);
	buf_fini(&out);
	return ret;
}
