/* SPDX-License-Identifier: Apache-2.0 */
/* sallyport-ca: makes, shows and exports the interception CA; packs trust anchors; and, started by the supervisor, mints. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../common/sys/child.h"
#include "../common/trust.h"
#include "role.h"
#include "x509.h"

static int usage(FILE *f)
{
	fprintf(f, "usage: sallyport ca init [--state DIR]\n       sallyport ca show [--state DIR]\n       sallyport ca export [--state DIR] [--pem|--der] [-o FILE]\n");
	return 2;
}

static bool state_dir(char out[4096], const char *arg)
{
	const char *env = getenv("SALLYPORT_STATE"), *x = getenv("XDG_STATE_HOME"), *home = getenv("HOME");

	if (arg == NULL && env != NULL && env[0])
		arg = env;
	if (arg != NULL)
		snprintf(out, 4096, "%s", arg);
	else if (geteuid() == 0)
		snprintf(out, 4096, "/var/lib/sallyport");
	else if (x != NULL && x[0] == '/')
		snprintf(out, 4096, "%s/sallyport", x);
	else if (home != NULL && home[0] == '/')
		snprintf(out, 4096, "%s/.local/state/sallyport", home);
	else
		return false;
	return true;
}

/* Written beside, synced, then linked into place: never half a file, never over another. */
static int put(const char *path, mode_t mode, int (*fn)(BIO *, void *), void *arg)
{
	char tmp[4200];
	BIO *b;
	int fd, ok;

	snprintf(tmp, sizeof(tmp), "%s.%d.tmp", path, (int)getpid());
	unlink(tmp);
	fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
	if (fd < 0)
		return -1;
	b = BIO_new_fd(fd, BIO_NOCLOSE);
	ok = b != NULL && fn(b, arg) == 1 && BIO_flush(b) == 1 && fsync(fd) == 0 && fchmod(fd, mode) == 0;
	BIO_free(b);
	close(fd);
	if (ok && link(tmp, path) != 0)
		ok = 0;
	unlink(tmp);
	return ok ? 0 : -1;
}

static int put_key(BIO *b, void *key) { return PEM_write_bio_PKCS8PrivateKey(b, key, NULL, NULL, 0, NULL, NULL); }
static int put_cert(BIO *b, void *cert) { return PEM_write_bio_X509(b, cert); }

static int cmd_init(const char *dir)
{
	char ca[4100], key_path[4120], cert_path[4120];
	struct err err = ERR_INIT;
	struct stat st;
	EVP_PKEY *key = NULL;
	X509 *cert = NULL;
	int ret = 1;

	snprintf(ca, sizeof(ca), "%s/ca", dir);
	snprintf(key_path, sizeof(key_path), "%s/ca.key", ca);
	snprintf(cert_path, sizeof(cert_path), "%s/ca.pem", ca);
	if (lstat(key_path, &st) == 0 || lstat(cert_path, &st) == 0) {
		fprintf(stderr, "sallyport: %s exists already; a CA is never replaced (clients trust it). Move %s away to start anew\n", lstat(key_path, &st) == 0 ? key_path : cert_path, ca);
		return 1;
	}
	umask(077);
	if ((mkdir(dir, 0700) != 0 && errno != EEXIST) || (mkdir(ca, 0700) != 0 && errno != EEXIST)) {
		fprintf(stderr, "sallyport: cannot make %s: %s\n", ca, strerror(errno));
		return 1;
	}
	if (ca_make(&key, &cert, &err) < 0) {
		fprintf(stderr, "sallyport: %s\n", err.text);
		return 1;
	}
	/* the certificate first: a key without one would look like an older CA's */
	if (put(cert_path, 0644, put_cert, cert) < 0 || put(key_path, 0600, put_key, key) < 0)
		fprintf(stderr, "sallyport: cannot write %s: %s\n", ca, strerror(errno));
	else
		ret = 0;
	EVP_PKEY_free(key);
	X509_free(cert);
	return ret;
}

static X509 *load_cert(const char *dir)
{
	char path[4200];
	FILE *f;
	X509 *x;

	snprintf(path, sizeof(path), "%s/ca/ca.pem", dir);
	f = fopen(path, "re");
	if (f == NULL) {
		fprintf(stderr, "sallyport: cannot open %s: %s. A CA is made by the first `sallyport run`, or by `sallyport ca init`\n", path, strerror(errno));
		return NULL;
	}
	x = PEM_read_X509(f, NULL, NULL, NULL);
	fclose(f);
	if (x == NULL)
		fprintf(stderr, "sallyport: %s is not a certificate in PEM form\n", path);
	return x;
}

static int cmd_show(const char *dir)
{
	X509 *x = load_cert(dir);
	unsigned char md[32];
	BIO *b;

	if (x == NULL)
		return 1;
	b = BIO_new_fp(stdout, BIO_NOCLOSE);
	BIO_printf(b, "subject:     ");
	X509_NAME_print_ex(b, X509_get_subject_name(x), 0, XN_FLAG_RFC2253);
	BIO_printf(b, "\nvalid until: ");
	ASN1_TIME_print(b, X509_get0_notAfter(x));
	X509_digest(x, EVP_sha256(), md, NULL);
	BIO_printf(b, "\nsha256:      ");
	for (int i = 0; i < 32; i++)
		BIO_printf(b, "%02x", md[i]);
	BIO_printf(b, "\nfile:        %s/ca/ca.pem\n", dir);
	BIO_free(b);
	X509_free(x);
	return 0;
}

static int cmd_export(const char *dir, bool der, const char *out)
{
	X509 *x = load_cert(dir);
	FILE *f;
	int ok;

	if (x == NULL)
		return 1;
	f = out ? fopen(out, "we") : stdout;
	if (f == NULL) {
		fprintf(stderr, "sallyport: cannot write %s: %s\n", out, strerror(errno));
		X509_free(x);
		return 1;
	}
	ok = der ? i2d_X509_fp(f, x) : PEM_write_X509(f, x);
	X509_free(x);
	if (fflush(f) != 0 || ok != 1 || (out && fclose(f) != 0)) {
		fprintf(stderr, "sallyport: cannot write the certificate: %s\n", strerror(errno));
		return 1;
	}
	return 0;
}

static int cmd_pack_trust(void)
{
	struct buf in = { 0 }, out = { 0 };
	struct err err = ERR_INIT;
	unsigned left_out;
	ssize_t n;
	size_t at = 0;

	while ((n = read(0, buf_room(&in, 65536), 65536)) > 0 && buf_len(&in) < (64u << 20))
		buf_commit(&in, (size_t)n);
	if (n != 0 || trust_pack(buf_data(&in), buf_len(&in), NULL, &out, &left_out, &err) < 0) {
		fprintf(stderr, "sallyport: trust anchors: %s\n", err.code ? err.text : "cannot read them");
		return 1;
	}
	while (at < buf_len(&out)) {
		n = write(1, buf_data(&out) + at, buf_len(&out) - at);
		if (n <= 0)
			return 1;
		at += (size_t)n;
	}
	buf_fini(&in);
	buf_fini(&out);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct option options[] = { { "state", 1, NULL, 's' }, { "pem", 0, NULL, 'p' }, { "der", 0, NULL, 'd' }, { "help", 0, NULL, 'h' }, { NULL, 0, NULL, 0 } };
	char dir[4096];
	const char *state = NULL, *out = NULL, *verb;
	bool der = false;
	int o;

	if (argc == 3 && strcmp(argv[1], "--role") == 0 && strcmp(argv[2], "ca") == 0)
		return ca_main(ROLE_LINK_FD);
	if (argc < 2)
		return usage(stderr);
	verb = argv[1];
	optind = 2;
	while ((o = getopt_long(argc, argv, "o:", options, NULL)) != -1) {
		if (o == 's')
			state = optarg;
		else if (o == 'o')
			out = optarg;
		else if (o == 'd')
			der = true;
		else if (o == 'h')
			return usage(stdout), 0;
		else if (o != 'p')
			return usage(stderr);
	}
	if (optind != argc)
		return usage(stderr);
	if (strcmp(verb, "pack-trust") == 0)
		return cmd_pack_trust();
	if (strcmp(verb, "--help") == 0)
		return usage(stdout), 0;
	if (!state_dir(dir, state)) {
		fprintf(stderr, "sallyport: neither --state, SALLYPORT_STATE, XDG_STATE_HOME nor HOME says where the state directory is\n");
		return 2;
	}
	if (strcmp(verb, "init") == 0)
		return cmd_init(dir);
	if (strcmp(verb, "show") == 0)
		return cmd_show(dir);
	if (strcmp(verb, "export") == 0)
		return cmd_export(dir, der, out);
	return usage(stderr);
}
