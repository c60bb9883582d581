/* SPDX-License-Identifier: Apache-2.0 */
#include "trustdir.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../common/base/buf.h"
#include "../common/pkcs12.h"

#define FILE_MAX (1u << 20)

static const char *const nss_files[TRUSTDIR_NSS_FILES] = { "cert9.db", "key4.db", "pkcs11.txt" };

/* 0, or -1 with errno; *out in the arena. */
static int read_file(struct arena *mem, const char *path, struct str *out)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;
	char *p;
	size_t n = 0;
	ssize_t k;

	if (fd < 0)
		return -1;
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size > FILE_MAX) {
		close(fd);
		errno = EINVAL;
		return -1;
	}
	p = arena_alloc(mem, (size_t)st.st_size + 1);
	while (n < (size_t)st.st_size && (k = read(fd, p + n, (size_t)st.st_size - n)) > 0)
		n += (size_t)k;
	close(fd);
	p[n] = 0;
	*out = str_mk(p, n);
	return 0;
}

/* Written under another name and renamed; failing costs only time at the next run. */
static void write_file(const char *dir, const char *name, struct str data)
{
	char tmp[PATH_MAX], path[PATH_MAX];
	int fd;

	if (snprintf(tmp, sizeof(tmp), "%s/.%s.%d", dir, name, (int)getpid()) >= (int)sizeof(tmp) || snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path))
		return;
	fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return;
	if (write(fd, data.p, data.n) != (ssize_t)data.n || close(fd) != 0 || rename(tmp, path) != 0)
		unlink(tmp);
}

static int generate(struct trustdir *t, const char *ca_file, struct err *err)
{
	BIO *bio = BIO_new_mem_buf(t->pem.p, (int)t->pem.n);
	STACK_OF(X509) *certs = sk_X509_new_null();
	struct buf names = { 0 }, store = { 0 };
	X509 *x;
	int r = -1;

	while (bio != NULL && certs != NULL && (x = PEM_read_bio_X509(bio, NULL, NULL, NULL)) != NULL) {
		unsigned long h = X509_subject_name_hash(x), same = 0;

		for (int i = 0; i < sk_X509_num(certs); i++)
			same += X509_subject_name_hash(sk_X509_value(certs, i)) == h;
		buf_addf(&names, "%08lx.%lu\n", h, same);
		sk_X509_push(certs, x);
	}
	if (certs == NULL || sk_X509_num(certs) == 0) {
		err_set(err, EINVAL, "%s holds no certificate", ca_file);
		goto out;
	}
	t->hashes = arena_str(&t->mem, buf_str(&names));
	r = pkcs12_trust_store(certs, &store, err);
	if (r == 0)
		t->p12 = arena_str(&t->mem, buf_str(&store));
out:
	buf_fini(&store);
	buf_fini(&names);
	sk_X509_pop_free(certs, X509_free);
	BIO_free(bio);
	return r;
}

static bool run(char *const argv[])
{
	char *envp[] = { NULL };
	int status;
	pid_t pid = fork();

	if (pid < 0)
		return false;
	if (pid == 0) {
		int null = open("/dev/null", O_RDWR);

		dup2(null, 0);
		dup2(null, 1);
		dup2(null, 2);
		execve(argv[0], argv, envp);
		_exit(127);
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return false;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void read_nss(struct trustdir *t, const char *dir)
{
	for (unsigned i = 0; i < TRUSTDIR_NSS_FILES; i++) {
		char path[PATH_MAX + 32];

		snprintf(path, sizeof(path), "%s/nss/%s", dir, nss_files[i]);
		if (read_file(&t->mem, path, &t->nss[i]) != 0)
			t->nss[i] = STR_NONE;
	}
}

/*
 * Chromium and its kin read an NSS database in the home folder; without certutil they get none. One run makes it, others that start
 * meanwhile wait: certutil asks, for ever, for the password of a database that another one has just made.
 */
static void make_nss(struct trustdir *t, const char *dir, const char *ca_file)
{
	static const char tool[] = "/usr/bin/certutil";
	char nss[PATH_MAX + 8], db[PATH_MAX + 16];
	int lock;
	char *make[] = { (char *)tool, (char *)"-N", (char *)"--empty-password", (char *)"-d", db, NULL };
	char *add[] = { (char *)tool, (char *)"-A", (char *)"-n", (char *)"sallyport", (char *)"-t", (char *)"C,,", (char *)"-i", (char *)ca_file, (char *)"-d", db, NULL };

	if (access(tool, X_OK) != 0)
		return;
	snprintf(nss, sizeof(nss), "%s/nss", dir);
	snprintf(db, sizeof(db), "sql:%s", nss);
	if (mkdir(nss, 0700) != 0 && errno != EEXIST)
		return;
	lock = open(nss, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (lock < 0 || flock(lock, LOCK_EX) != 0)
		goto out;
	for (unsigned i = 0; i < TRUSTDIR_NSS_FILES; i++) {
		char path[PATH_MAX + 32];

		snprintf(path, sizeof(path), "%s/%s", nss, nss_files[i]);
		unlink(path);
	}
	if (run(make))
		run(add);
	read_nss(t, dir);
out:
	if (lock >= 0)
		close(lock);
}

/* Without a bundle here there is none inside either. */
static void add_public(struct trustdir *t)
{
	static const char *const files[] = { "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem" };
	char real[PATH_MAX];
	struct buf b = { 0 };
	struct str roots;

	for (unsigned i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		if (realpath(files[i], real) == NULL || read_file(&t->mem, real, &roots) != 0)
			continue;
		buf_adds(&b, t->pem);
		buf_addc(&b, '\n');
		buf_adds(&b, roots);
		t->bundle = arena_str(&t->mem, buf_str(&b));
		buf_fini(&b);
		return;
	}
}

int trustdir_load(struct trustdir *t, const char *ca_file, const char *cache_dir, bool public_too, struct err *err)
{
	char dir[PATH_MAX], path[PATH_MAX + 16];
	struct str old;
	bool cached = cache_dir != NULL && snprintf(dir, sizeof(dir), "%s/trust", cache_dir) < (int)sizeof(dir);

	*t = (struct trustdir){ .pem = STR_NONE };
	if (read_file(&t->mem, ca_file, &t->pem) != 0)
		return err_errno(err, "cannot read the gateway's CA certificate %s", ca_file);
	t->bundle = t->pem;
	if (public_too)
		add_public(t);
	if (cached) {
		/* ca.pem is written last: when it is the same, the rest belongs to it. */
		snprintf(path, sizeof(path), "%s/ca.pem", dir);
		if (read_file(&t->mem, path, &old) == 0 && str_eq(old, t->pem)) {
			snprintf(path, sizeof(path), "%s/java.p12", dir);
			if (read_file(&t->mem, path, &t->p12) == 0) {
				snprintf(path, sizeof(path), "%s/hashes", dir);
				if (read_file(&t->mem, path, &t->hashes) == 0) {
					read_nss(t, dir);
					return 0;
				}
			}
		}
	}
	if (generate(t, ca_file, err) < 0)
		return -1;
	if (cached && (mkdir(dir, 0700) == 0 || errno == EEXIST)) {
		make_nss(t, dir, ca_file);
		write_file(dir, "java.p12", t->p12);
		write_file(dir, "hashes", t->hashes);
		write_file(dir, "ca.pem", t->pem);
	}
	return 0;
}

static bool real_directory(const char *path)
{
	char real[PATH_MAX];
	struct stat st;

	return realpath(path, real) != NULL && strcmp(real, path) == 0 && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static void put_certs(const struct trustdir *t, struct plan *p, const char *dir)
{
	char path[256];
	const char *s = t->hashes.p, *end = s + t->hashes.n;

	while (s < end) {
		const char *nl = memchr(s, '\n', (size_t)(end - s));
		size_t n = nl != NULL ? (size_t)(nl - s) : (size_t)(end - s);

		if (n > 0 && n < 64) {
			snprintf(path, sizeof(path), "%s/%.*s", dir, (int)n, s);
			plan_file(p, path, t->pem, 0444);
		}
		s += n + 1;
	}
}

/* The system's bundles, where this system has them: in a directory of ours, or one file beside others. */
static void replace_system(const struct trustdir *t, struct plan *p)
{
	static const char *const debian = "/etc/ssl/certs";
	static const struct { const char *dir, *file; bool java; } bundles[] = {
		{ "/etc/pki/tls/certs", "ca-bundle.crt", false },
		{ "/etc/pki/ca-trust/extracted/pem", "tls-ca-bundle.pem", false },
		{ "/etc/pki/ca-trust/extracted/java", "cacerts", true },
		{ "/etc/ssl", "cert.pem", false },
		{ "/etc/ssl", "ca-bundle.pem", false },
	};
	char path[256];
	struct stat st;

	if (real_directory(debian)) {
		plan_op(p, VIEW_OPAQUE, debian, NULL, 0);
		plan_file(p, "/etc/ssl/certs/ca-certificates.crt", t->bundle, 0444);
		plan_file(p, "/etc/ssl/certs/java/cacerts", t->p12, 0444);
		put_certs(t, p, debian);
	}
	for (unsigned i = 0; i < sizeof(bundles) / sizeof(bundles[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", bundles[i].dir, bundles[i].file);
		if (real_directory(bundles[i].dir) && lstat(path, &st) == 0)
			plan_file(p, path, bundles[i].java ? t->p12 : t->bundle, 0444);
	}
}

void trustdir_plan(const struct trustdir *t, struct plan *p)
{
	/* Firefox looks into no database but its profile's; this is for the system's administrator to say, which here are we */
	static const char firefox[] = "{\"policies\":{\"Certificates\":{\"Install\":[\"" TRUSTDIR_CA "\"]}}}\n";
	static const char php[] = "openssl.cafile=" TRUSTDIR_CA "\ncurl.cainfo=" TRUSTDIR_CA "\n";
	char path[PATH_MAX];

	plan_file(p, TRUSTDIR_CA, t->bundle, 0444);
	plan_file(p, TRUSTDIR_CERTS "/ca.pem", t->pem, 0444);
	put_certs(t, p, TRUSTDIR_CERTS);
	plan_file(p, TRUSTDIR_JAVA, t->p12, 0444);
	plan_file(p, TRUSTDIR_PHP "/sallyport.ini", STR(php), 0444);
	plan_file(p, "/etc/firefox/policies/policies.json", STR(firefox), 0444);
	for (unsigned i = 0; i < TRUSTDIR_NSS_FILES; i++) {
		if (t->nss[i].n == 0 || snprintf(path, sizeof(path), "%s/.pki/nssdb/%s", p->home, nss_files[i]) >= (int)sizeof(path))
			continue;
		plan_file(p, path, t->nss[i], 0600);
	}
	replace_system(t, p);
}
