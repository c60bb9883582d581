/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CA in the state directory: ca/ca.key (0600) and ca/ca.pem. Both appear at once, by the rename of a directory, or
 * not at all. A key that is missing beside existing state is an error: a new CA in its place would make every client
 * that trusts the old one fail, and would hide that somebody took the key away.
 *
 *   ca.key      the key that mints
 *   ca.pem      what clients trust: its certificate, and behind it, while a rotation overlaps, those before it
 *   former.pem  every certificate that this state directory's CA ever had before: none of them vouches for an upstream
 */
#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../common/base/must.h"
#include "../common/sys/clock.h"
#include "files.h"

#define CERTS_MAX 64 /* of former.pem; the oldest go */

int files_write_all(int fd, const void *p, size_t n)
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
	if (fchmod(fd, mode) != 0 || files_write_all(fd, p, (size_t)n) != 0 || fsync(fd) != 0) {
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

int files_open_state(const char *state, bool make, struct err *err)
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
		return err_set(err, EEXIST, "there is a CA in %s/ca already; it is not replaced. Look at it with `sallyport ca show`; `sallyport ca rotate` makes the next one", state);
	if (exists(state_fd, "ca") || exists(state_fd, "audit"))
		return err_set(err, ENOENT,
			       "%s/ca/ca.key is missing beside existing state; no new CA is made in its place. Restore the key; if it is lost for good, `sallyport ca rotate --drop-old` makes a CA that nobody trusts yet", state);
	return 0;
}

/* --- certificates in files ----------------------------------------------------------------------------------------- */

STACK_OF(X509) * files_certs(int state_fd, const char *state, const char *name, struct err *err)
{
	STACK_OF(X509) *certs = sk_X509_new_null();
	int fd = openat(state_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	FILE *f = fd >= 0 ? fdopen(fd, "r") : NULL;
	X509 *x;

	MUST(certs != NULL);
	if (f == NULL) {
		if (errno != ENOENT)
			err_errno(err, "cannot read %s/%s", state, name);
		else
			err_set(err, ENOENT, "there is no CA in %s yet: make one with `sallyport ca init`", state);
		if (fd >= 0)
			close(fd);
		sk_X509_free(certs);
		return NULL;
	}
	while (sk_X509_num(certs) < CERTS_MAX && (x = PEM_read_X509(f, NULL, NULL, NULL)) != NULL)
		sk_X509_push(certs, x);
	ERR_clear_error();
	fclose(f);
	if (sk_X509_num(certs) > 0)
		return certs;
	sk_X509_free(certs);
	err_set(err, EINVAL, "%s/%s does not hold a certificate", state, name);
	return NULL;
}

bool files_expired(const X509 *x) { return X509_cmp_current_time(X509_get0_notAfter(x)) < 0; }

static void write_certs(BIO *to, const STACK_OF(X509) * certs, int max, bool only_valid)
{
	for (int i = 0; certs != NULL && i < sk_X509_num(certs) && i < max; i++)
		if (!only_valid || !files_expired(sk_X509_value(certs, i)))
			MUST(PEM_write_bio_X509(to, sk_X509_value(certs, i)) == 1);
}

/* --- a directory that appears, or takes another's place, at once --------------------------------------------------- */

struct staged {
	int state_fd, dir_fd;
	char name[32];
};
static const char *const names[] = { "ca.key", "ca.pem", "former.pem" };

static void clear_dir(int state_fd, const char *name)
{
	int fd = openat(state_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	for (size_t i = 0; fd >= 0 && i < sizeof(names) / sizeof(names[0]); i++)
		unlinkat(fd, names[i], 0);
	if (fd >= 0)
		close(fd);
	unlinkat(state_fd, name, AT_REMOVEDIR);
}

static int stage(struct staged *g, int state_fd, const char *state, struct err *err)
{
	uint8_t r[8];

	*g = (struct staged){ state_fd, -1, "" };
	random_fill(r, sizeof(r));
	snprintf(g->name, sizeof(g->name), ".ca-%02x%02x%02x%02x%02x%02x%02x%02x", r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7]);
	if (mkdirat(state_fd, g->name, 0700) != 0) {
		g->name[0] = 0;
		return err_errno(err, "cannot make a directory in %s", state);
	}
	g->dir_fd = openat(state_fd, g->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return g->dir_fd >= 0 ? 0 : err_errno(err, "cannot open a directory in %s", state);
}

static void unstage(struct staged *g)
{
	if (g->dir_fd >= 0)
		close(g->dir_fd);
	if (g->name[0])
		clear_dir(g->state_fd, g->name);
}

/* A key and its certificate, made now, with those that stay trusted beside it. */
static int fill(struct staged *g, const X509_EXTENSION *constraints, const STACK_OF(X509) * trusted, const STACK_OF(X509) * former, const STACK_OF(X509) * before, struct err *err)
{
	BIO *key_pem = BIO_new(BIO_s_secmem()), *cert_pem = BIO_new(BIO_s_mem()), *former_pem = BIO_new(BIO_s_mem());
	EVP_PKEY *key = NULL;
	X509 *cert = NULL;
	int ret = -1;

	MUST(key_pem != NULL && cert_pem != NULL && former_pem != NULL);
	if (ca_create(&key, &cert, constraints, err) < 0)
		goto out;
	if (PEM_write_bio_PKCS8PrivateKey(key_pem, key, NULL, NULL, 0, NULL, NULL) != 1 || PEM_write_bio_X509(cert_pem, cert) != 1) {
		err_set(err, EIO, "the new CA could not be written as PEM");
		goto out;
	}
	write_certs(cert_pem, trusted, CERTS_MAX, true);
	write_certs(former_pem, former, CERTS_MAX / 2, false);
	write_certs(former_pem, before, CERTS_MAX / 2, false);
	if (write_file(g->dir_fd, "ca.key", 0600, key_pem, err) < 0 || write_file(g->dir_fd, "ca.pem", 0644, cert_pem, err) < 0 ||
	    ((former != NULL || before != NULL) && write_file(g->dir_fd, "former.pem", 0644, former_pem, err) < 0))
		goto out;
	if (fsync(g->dir_fd) != 0)
		err_errno(err, "cannot write the new CA");
	else
		ret = 0;
out:
	BIO_free(key_pem);
	BIO_free(cert_pem);
	BIO_free(former_pem);
	X509_free(cert);
	EVP_PKEY_free(key);
	return ret;
}

int ca_init(const char *state, const struct ca_wish *wish, struct err *err)
{
	X509_EXTENSION *constraints = wish->permit_n > 0 ? ca_constraints_new(wish->permit, wish->permit_n, err) : NULL;
	struct staged g = { -1, -1, "" };
	int state_fd, ret = -1;

	if (wish->permit_n > 0 && constraints == NULL)
		return -1;
	state_fd = files_open_state(state, true, err);
	if (state_fd < 0 || refuse_existing(state_fd, state, err) < 0 || stage(&g, state_fd, state, err) < 0 || fill(&g, constraints, NULL, NULL, NULL, err) < 0)
		goto out;
	/* two who start at once: the second finds a directory there that is not empty */
	if (renameat2(state_fd, g.name, state_fd, "ca", RENAME_NOREPLACE) != 0) {
		if (errno == EEXIST || errno == ENOTEMPTY)
			refuse_existing(state_fd, state, err);
		else
			err_errno(err, "cannot put the new CA in place as %s/ca", state);
		goto out;
	}
	g.name[0] = 0;
	fsync(state_fd);
	ret = 0;
out:
	unstage(&g);
	if (state_fd >= 0)
		close(state_fd);
	X509_EXTENSION_free(constraints);
	return ret;
}

/* --- rotation ------------------------------------------------------------------------------------------------------ */

static X509_EXTENSION *next_constraints(const struct ca_wish *wish, X509 *old, struct err *err)
{
	int at = old != NULL && !wish->permit_any ? X509_get_ext_by_NID(old, NID_name_constraints, -1) : -1;

	if (wish->permit_n > 0)
		return ca_constraints_new(wish->permit, wish->permit_n, err);
	return at >= 0 ? X509_EXTENSION_dup(X509_get_ext(old, at)) : NULL;
}

/* One at a time: the lock is on the directory itself. */
static int open_locked(const char *state, struct err *err)
{
	int fd = files_open_state(state, false, err);

	if (fd >= 0 && flock(fd, LOCK_EX) != 0) {
		err_errno(err, "cannot lock %s", state);
		close(fd);
		return -1;
	}
	return fd;
}

int ca_rotate(const char *state, const struct ca_wish *wish, struct err *err)
{
	int state_fd = open_locked(state, err), ret = -1;
	STACK_OF(X509) *old = NULL, *before = NULL;
	X509_EXTENSION *constraints = NULL;
	struct staged g = { -1, -1, "" };

	if (state_fd < 0)
		return -1;
	if (!exists(state_fd, "ca/ca.pem") && !(wish->drop_old && exists(state_fd, "audit"))) {
		err_set(err, ENOENT, "there is no CA in %s to rotate: make one with `sallyport ca init`", state);
		goto out;
	}
	if (!exists(state_fd, "ca/ca.key") && !wish->drop_old) {
		err_set(err, ENOENT, "%s/ca/ca.key is missing. Restore it; if it is lost for good, or somebody else may have it, `sallyport ca rotate --drop-old` makes a CA that nobody trusts yet", state);
		goto out;
	}
	if (exists(state_fd, "ca/ca.pem") && (old = files_certs(state_fd, state, "ca/ca.pem", err)) == NULL)
		goto out;
	if (exists(state_fd, "ca/former.pem") && (before = files_certs(state_fd, state, "ca/former.pem", err)) == NULL)
		goto out;
	constraints = next_constraints(wish, old != NULL ? sk_X509_value(old, 0) : NULL, err);
	if (wish->permit_n > 0 && constraints == NULL)
		goto out;
	if (mkdirat(state_fd, "ca", 0700) != 0 && errno != EEXIST) {
		err_errno(err, "cannot make %s/ca", state);
		goto out;
	}
	if (stage(&g, state_fd, state, err) < 0 || fill(&g, constraints, wish->drop_old ? NULL : old, old, before, err) < 0)
		goto out;
	/* the old directory gets the temporary name, and goes with its key: a gateway that runs has its own descriptor of it */
	if (renameat2(state_fd, g.name, state_fd, "ca", RENAME_EXCHANGE) != 0) {
		err_errno(err, "cannot put the new CA in place as %s/ca", state);
		goto out;
	}
	fsync(state_fd);
	ret = 0;
out:
	unstage(&g);
	X509_EXTENSION_free(constraints);
	sk_X509_pop_free(old, X509_free);
	sk_X509_pop_free(before, X509_free);
	close(state_fd);
	return ret;
}

int ca_finish(const char *state, struct err *err)
{
	int state_fd = open_locked(state, err), dir_fd = -1, ret = -1;
	STACK_OF(X509) *certs = state_fd >= 0 ? files_certs(state_fd, state, "ca/ca.pem", err) : NULL;
	BIO *pem = BIO_new(BIO_s_mem());

	MUST(pem != NULL);
	if (certs == NULL)
		goto out;
	write_certs(pem, certs, 1, false);
	dir_fd = openat(state_fd, "ca", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir_fd < 0) {
		err_errno(err, "cannot open %s/ca", state);
		goto out;
	}
	unlinkat(dir_fd, "ca.pem.new", 0);
	if (write_file(dir_fd, "ca.pem.new", 0644, pem, err) < 0)
		goto out;
	if (renameat(dir_fd, "ca.pem.new", dir_fd, "ca.pem") != 0 || fsync(dir_fd) != 0)
		err_errno(err, "cannot replace %s/ca/ca.pem", state);
	else
		ret = 0;
out:
	BIO_free(pem);
	sk_X509_pop_free(certs, X509_free);
	if (dir_fd >= 0)
		close(dir_fd);
	if (state_fd >= 0)
		close(state_fd);
	return ret;
}
