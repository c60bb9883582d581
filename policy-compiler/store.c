/* SPDX-License-Identifier: Apache-2.0 */
#include "store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../common/base/must.h"
#include "../common/policy/signature.h"
#include "../common/policy/table.h"
#include "model.h"

#define SUFFIX ".lmdb"
#define HEX_LEN 64

/* --- keys ---------------------------------------------------------------------------------------------------------- */

static int no_password(char *buf, int size, int writing, void *arg)
{
	(void)buf, (void)size, (void)writing, (void)arg;
	return -1; /* nobody is asked */
}

static EVP_PKEY *read_key(const char *file, bool secret, struct err *err)
{
	FILE *f = fopen(file, "re");
	EVP_PKEY *k = NULL;
	struct stat st;

	if (f == NULL) {
		err_errno(err, "cannot open the key %s", file);
		return NULL;
	}
	if (fstat(fileno(f), &st) != 0 || !S_ISREG(st.st_mode)) {
		err_set(err, EINVAL, "the key %s is not a regular file", file);
		goto out;
	}
	k = PEM_read_PrivateKey(f, NULL, no_password, NULL);
	if (k != NULL && (st.st_mode & 077) != 0) {
		EVP_PKEY_free(k);
		k = NULL;
		err_set(err, EPERM, "others can read the secret key %s: chmod go= it", file);
		goto out;
	}
	if (k == NULL && !secret) {
		rewind(f);
		k = PEM_read_PUBKEY(f, NULL, no_password, NULL);
	}
	ERR_clear_error();
	if (k == NULL || EVP_PKEY_get_id(k) != EVP_PKEY_ED25519) {
		EVP_PKEY_free(k);
		k = NULL;
		err_set(err, EINVAL, "%s is not an Ed25519 key in PEM without a password (openssl genpkey -algorithm ed25519 -out FILE)", file);
	}
out:
	fclose(f);
	return k;
}

int store_public_key(const char *key_file, FILE *f, struct err *err)
{
	EVP_PKEY *k = read_key(key_file, false, err);
	uint8_t raw[SIGNATURE_KEY_LEN];
	char text[SIGNATURE_KEY_TEXT_MAX];
	size_t n = sizeof(raw);

	if (k == NULL)
		return -1;
	MUST(EVP_PKEY_get_raw_public_key(k, raw, &n) == 1 && n == sizeof(raw));
	EVP_PKEY_free(k);
	signature_key_format(raw, text);
	fprintf(f, "%s\n", text);
	return 0;
}

static const uint8_t *map_table(int fd, size_t *n)
{
	struct stat st;
	void *p = fstat(fd, &st) == 0 && st.st_size > 0 ? mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;

	*n = p != MAP_FAILED ? (size_t)st.st_size : 0;
	return p != MAP_FAILED ? p : NULL;
}

int store_sign(int table, const char *key_file, struct err *err)
{
	EVP_PKEY *k = read_key(key_file, true, err);
	uint8_t seed[32], out[SIGNATURE_LEN];
	size_t seed_n = sizeof(seed), n;
	const uint8_t *p;
	int ret;

	if (k == NULL)
		return -1;
	MUST(EVP_PKEY_get_raw_private_key(k, seed, &seed_n) == 1 && seed_n == sizeof(seed));
	EVP_PKEY_free(k);
	p = map_table(table, &n);
	ret = p != NULL ? signature_make(p, n, seed, out, err) : err_errno(err, "the table");
	explicit_bzero(seed, sizeof(seed));
	if (p != NULL)
		munmap((void *)(uintptr_t)p, n);
	if (ret == 0 && pwrite(table, out, sizeof(out), (off_t)n) != (ssize_t)sizeof(out))
		ret = err_errno(err, "the table cannot be signed");
	return ret;
}

/* --- folders of tables --------------------------------------------------------------------------------------------- */

struct found {
	char digest[HEX_LEN + 1], name[256], signer[SIGNATURE_KEY_TEXT_MAX];
	struct timespec since;
};

/* A table that is good. */
static int look_at(int fd, struct found *f, struct err *err)
{
	uint8_t digest[TABLE_DIGEST_LEN], key[SIGNATURE_KEY_LEN];
	struct table *t = NULL;
	struct stat st;
	size_t n;
	const uint8_t *p = map_table(fd, &n);
	int ret = -1, is_signed;

	*f = (struct found){ .signer = "-" };
	if (p == NULL || fstat(fd, &st) != 0)
		return err_set(err, EINVAL, "it cannot be read");
	is_signed = signature_check(p, n, key, err);
	if (is_signed < 0 || table_check(p, n, digest, err) < 0 || table_open(&t, fd, err) < 0)
		goto out;
	for (int i = 0; i < TABLE_DIGEST_LEN; i++)
		snprintf(f->digest + 2 * i, 3, "%02x", digest[i]);
	snprintf(f->name, sizeof(f->name), "%.*s", (int)table_name(t).n, table_name(t).p);
	if (is_signed > 0)
		signature_key_format(key, f->signer);
	f->since = st.st_mtim;
	ret = 0;
out:
	table_free(t);
	munmap((void *)(uintptr_t)p, n);
	return ret;
}

/* The link is exchanged at once: who looks sees the one or the other. */
static int turn(const char *dir, const char *name, const char *digest, struct err *err)
{
	char target[HEX_LEN + 16], link[4096], tmp[4200];
	int fd, n;

	snprintf(target, sizeof(target), "%s" SUFFIX, digest);
	n = snprintf(link, sizeof(link), "%s/%s" SUFFIX, dir, name);
	if (n >= (int)sizeof(link))
		return err_set(err, ENAMETOOLONG, "the path is too long");
	snprintf(tmp, sizeof(tmp), "%s.%d", link, (int)getpid());
	unlink(tmp);
	if (symlink(target, tmp) != 0 || rename(tmp, link) != 0) {
		err_errno(err, "cannot turn the link %s", link);
		unlink(tmp);
		return -1;
	}
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0) {
		fsync(fd);
		close(fd);
	}
	return 0;
}

/* The same policy is there already, signed: what is not signed does not take its place. It counts as installed now. */
static bool there_signed(const char *file, const struct found *f)
{
	int fd = strcmp(f->signer, "-") == 0 ? open(file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
	struct err ignored = ERR_INIT;
	struct found had;
	bool yes = fd >= 0 && look_at(fd, &had, &ignored) == 0 && strcmp(had.digest, f->digest) == 0 && strcmp(had.signer, "-") != 0 && futimens(fd, NULL) == 0;

	if (fd >= 0)
		close(fd);
	return yes;
}

int store_install(int table, const char *dir, struct err *err)
{
	char file[4096];
	struct found f;

	if (look_at(table, &f, err) < 0)
		return err_wrap(err, "the table");
	if (snprintf(file, sizeof(file), "%s/%s" SUFFIX, dir, f.digest) >= (int)sizeof(file))
		return err_set(err, ENAMETOOLONG, "the path is too long");
	return !there_signed(file, &f) && policy_put(table, file, err) < 0 ? -1 : turn(dir, f.name, f.digest, err);
}

static int newest_first(const void *a, const void *b)
{
	const struct found *x = a, *y = b;

	if (x->since.tv_sec != y->since.tv_sec)
		return x->since.tv_sec < y->since.tv_sec ? 1 : -1;
	return x->since.tv_nsec < y->since.tv_nsec ? 1 : x->since.tv_nsec > y->since.tv_nsec ? -1 : strcmp(x->digest, y->digest);
}

/* The good tables of that policy, the newest first; *current: which of them the link leads to, or *n. */
static int gather(const char *dir, const char *name, struct found **all, size_t *n, size_t *current, struct err *err)
{
	char link[4096], now[HEX_LEN + 16] = "";
	DIR *d = opendir(dir);
	struct dirent *e;
	ssize_t k;

	*all = NULL;
	*n = 0;
	if (d == NULL)
		return err_errno(err, "cannot read the folder %s", dir);
	while ((e = readdir(d)) != NULL) {
		struct err why = ERR_INIT;
		struct found f;
		int fd;

		if (strlen(e->d_name) != HEX_LEN + strlen(SUFFIX) || strcmp(e->d_name + HEX_LEN, SUFFIX) != 0)
			continue;
		fd = openat(dirfd(d), e->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
		if (fd >= 0 && look_at(fd, &f, &why) == 0 && strcmp(f.name, name) == 0 && strncmp(f.digest, e->d_name, HEX_LEN) == 0) {
			*all = must_realloc(*all, (*n + 1) * sizeof(**all));
			(*all)[(*n)++] = f;
		}
		if (fd >= 0)
			close(fd);
	}
	closedir(d);
	if (*n > 1)
		qsort(*all, *n, sizeof(**all), newest_first);
	snprintf(link, sizeof(link), "%s/%s" SUFFIX, dir, name);
	k = readlink(link, now, sizeof(now) - 1);
	now[k > 0 ? k : 0] = 0;
	for (*current = 0; *current < *n && strncmp((*all)[*current].digest, now, HEX_LEN) != 0; ++*current)
		;
	return 0;
}

int store_rollback(const char *dir, const char *name, const char *digest, struct err *err)
{
	struct found *all;
	size_t n, at, which;
	int ret = -1;

	if (gather(dir, name, &all, &n, &at, err) < 0)
		return -1;
	which = at + 1; /* the next older one */
	if (digest != NULL) {
		for (which = 0; which < n && strncmp(all[which].digest, digest, strlen(digest)) != 0; which++)
			;
		for (size_t i = which + 1; i < n; i++) {
			if (strncmp(all[i].digest, digest, strlen(digest)) == 0) {
				err_set(err, EINVAL, "several tables of %s begin with %s", name, digest);
				goto out;
			}
		}
	} else if (at == n) {
		err_set(err, ENOENT, "%s/%s" SUFFIX " leads to none of its tables: name one (sallyport policy rollback --list)", dir, name);
		goto out;
	}
	if (which >= n)
		err_set(err, ENOENT, "%s has no %s table of %s", dir, digest != NULL ? "such" : "older", name);
	else
		ret = turn(dir, name, all[which].digest, err);
out:
	free(all);
	return ret;
}

int store_list(const char *dir, const char *name, FILE *f, struct err *err)
{
	struct found *all;
	size_t n, at;

	if (gather(dir, name, &all, &n, &at, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		char when[32];
		struct tm tm;

		strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&all[i].since.tv_sec, &tm));
		fprintf(f, "%c %s %s %s\n", i == at ? '*' : ' ', all[i].digest, when, all[i].signer);
	}
	free(all);
	return 0;
}
