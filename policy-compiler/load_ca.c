/* SPDX-License-Identifier: Apache-2.0 */
/* `tls: { ca: FILE, crl: FILE, pin: [...] }`: certificates and lists go into the table, so that nothing is read by name later. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../common/base/must.h"
#include "deps.h"
#include "load.h"

#define FILE_MAX (1u << 20)
#define CA_MAX 500u
#define CRL_MAX 33u

static int read_file(struct load *l, const struct yaml_node *n, const char *what, const char *path, struct buf *b)
{
	/* no link: what the name stands for would be someone else's to choose. Not blocking: a pipe is not waited for. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY), ret = -1;
	struct stat st;
	ssize_t k;

	deps_note(path);
	if (fd < 0) {
		ERROR_AT(l, n, "cannot read %s %s: %s", what, path, errno == ELOOP ? "it is a symbolic link; name the file itself" : strerror(errno));
		return -1;
	}
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size > FILE_MAX) {
		ERROR_AT(l, n, "%s %s is not a regular file of at most %u octets", what, path, FILE_MAX);
		goto out;
	}
	if (st.st_mode & 022) {
		ERROR_AT(l, n, "%s %s can be written by its group or by others: chmod go-w it", what, path);
		goto out;
	}
	while ((k = read(fd, buf_room(b, 65536), 65536)) > 0 && buf_len(b) <= FILE_MAX)
		buf_commit(b, (size_t)k);
	if (k < 0)
		ERROR_AT(l, n, "cannot read %s %s: %s", what, path, strerror(errno));
	else
		ret = 0;
out:
	close(fd);
	return ret;
}

/* Where files are not those of a folder (a revision of git): beside the policy's file. */
static bool read_beside(struct load *l, const struct yaml_node *n, const char *what, struct str name, struct buf *text)
{
	const char *within = l->source[l->file].within, *slash = strrchr(within, '/'), *why = NULL;
	struct buf b = { 0 };
	bool ok;

	if (slash != NULL)
		buf_add(&b, within, (size_t)(slash - within) + 1);
	buf_adds(&b, name);
	buf_addc(&b, 0);
	ok = l->reader->read(l->reader->arg, (const char *)buf_data(&b), text, &why);
	if (!ok)
		ERROR_AT(l, n, "cannot read %s %s: %s", what, (const char *)buf_data(&b), why);
	buf_fini(&b);
	return ok;
}

/* The octets of the file that stands under this key. NULL: said why not; else its path. */
static const char *read_named(struct load *l, const struct yaml_node *n, const char *what, struct buf *text)
{
	uint8_t digest[32];
	struct str name = n->text;
	const char *dir = l->source[l->file].dir;
	char *path;

	if (dir == NULL && l->reader == NULL) {
		ERROR_AT(l, n, "%s cannot be read here", what);
		return NULL;
	}
	if (str_starts(n->text, STR("../")) || str_find(n->text, STR("/../")) >= 0) {
		ERROR_AT(l, n, "%s does not lead out of the policy's folder: without `..`, or absolute", what);
		return NULL;
	}
	if (n->text.p[0] == '/') {
		path = arena_strz(l->a, n->text);
	} else {
		struct buf b = { 0 };

		while (str_starts(name, STR("./")))
			name = str_mk(name.p + 2, name.n - 2);
		if (dir != NULL && strcmp(dir, ".") != 0)
			buf_addf(&b, "%s/", strcmp(dir, "/") == 0 ? "" : dir);
		buf_adds(&b, name);
		path = arena_strz(l->a, buf_str(&b));
		buf_fini(&b);
	}
	if (dir == NULL && n->text.p[0] != '/' ? !read_beside(l, n, what, name, text) : read_file(l, n, what, path, text) < 0)
		return NULL;
	MUST(EVP_Digest(buf_str(text).p, buf_len(text), digest, NULL, EVP_sha256(), NULL) == 1 && EVP_DigestUpdate(l->files, digest, sizeof(digest)) == 1);
	l->file_n++;
	return path;
}

static void add_certificate(struct load *l, const struct yaml_node *n, const char *path, X509 *x, struct pol_dest *d)
{
	unsigned char *der = NULL;
	int len = i2d_X509(x, &der);

	MUST(len > 0);
	if (X509_cmp_current_time(X509_get0_notAfter(x)) < 0)
		WARN_AT(l, n, "certificate %u of tls.ca %s has expired", d->ca_n + 1, path);
	d->cas[d->ca_n++] = arena_str(l->a, str_mk(der, (size_t)len));
	OPENSSL_free(der);
}

void load_ca(struct load *l, const struct yaml_node *n, struct pol_dest *d)
{
	struct buf text = { 0 };
	const char *path = read_named(l, n, "tls.ca", &text);
	BIO *bio = NULL;
	X509 *x;

	if (path == NULL)
		goto out;
	if (str_find(buf_str(&text), STR("PRIVATE KEY-----")) >= 0) {
		ERROR_AT(l, n, "tls.ca %s holds a private key: it is to hold certificates only", path);
		goto out;
	}
	bio = BIO_new_mem_buf(buf_str(&text).p, (int)buf_len(&text));
	MUST(bio != NULL);
	d->cas = arena_zalloc(l->a, (CA_MAX + 1) * sizeof(struct str));
	ERR_clear_error();
	while (d->ca_n < CA_MAX && (x = PEM_read_bio_X509(bio, NULL, NULL, NULL)) != NULL) {
		add_certificate(l, n, path, x, d);
		X509_free(x);
	}
	if (d->ca_n == CA_MAX)
		ERROR_AT(l, n, "tls.ca %s holds more than %u certificates", path, CA_MAX - 1);
	else if (ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE)
		ERROR_AT(l, n, "certificate %u of tls.ca %s cannot be read", d->ca_n + 1, path);
	else if (d->ca_n == 0)
		ERROR_AT(l, n, "tls.ca %s holds no certificate in PEM form", path);
out:
	ERR_clear_error();
	BIO_free(bio);
	buf_fini(&text);
}

static void add_list(struct load *l, const struct yaml_node *n, const char *path, X509_CRL *x, struct pol_dest *d)
{
	unsigned char *der = NULL;
	int len = i2d_X509_CRL(x, &der);
	const ASN1_TIME *next = X509_CRL_get0_nextUpdate(x);

	MUST(len > 0);
	if (next == NULL)
		ERROR_AT(l, n, "list %u of tls.crl %s does not say until when it holds (nextUpdate)", d->crl_n + 1, path);
	else if (X509_cmp_current_time(next) < 0)
		WARN_AT(l, n, "list %u of tls.crl %s is out of date: what it would vouch for is refused", d->crl_n + 1, path);
	d->crls[d->crl_n++] = arena_str(l->a, str_mk(der, (size_t)len));
	OPENSSL_free(der);
}

/* Lists of revoked certificates (RFC 5280 5): in PEM form, any number, or one in DER form, as CAs publish them. */
void load_crl(struct load *l, const struct yaml_node *n, struct pol_dest *d)
{
	struct buf text = { 0 };
	const char *path = read_named(l, n, "tls.crl", &text);
	bool der = path != NULL && buf_len(&text) > 0 && buf_data(&text)[0] == 0x30;
	X509_CRL *x;
	BIO *bio = NULL;

	if (path == NULL)
		goto out;
	bio = BIO_new_mem_buf(buf_str(&text).p, (int)buf_len(&text));
	MUST(bio != NULL);
	d->crls = arena_zalloc(l->a, (CRL_MAX + 1) * sizeof(struct str));
	ERR_clear_error();
	while (d->crl_n < CRL_MAX && (d->crl_n == 0 || !der) && (x = der ? d2i_X509_CRL_bio(bio, NULL) : PEM_read_bio_X509_CRL(bio, NULL, NULL, NULL)) != NULL) {
		add_list(l, n, path, x, d);
		X509_CRL_free(x);
	}
	if (der && (d->crl_n == 0 || BIO_pending(bio) > 0))
		ERROR_AT(l, n, "tls.crl %s is no list of revoked certificates that can be read", path);
	else if (d->crl_n == CRL_MAX)
		ERROR_AT(l, n, "tls.crl %s holds more than %u lists", path, CRL_MAX - 1);
	else if (!der && ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE)
		ERROR_AT(l, n, "list %u of tls.crl %s cannot be read", d->crl_n + 1, path);
	else if (d->crl_n == 0)
		ERROR_AT(l, n, "tls.crl %s holds no list of revoked certificates (X509 CRL), in PEM or DER form", path);
out:
	ERR_clear_error();
	BIO_free(bio);
	buf_fini(&text);
}

/* "sha256/" and 44 characters of base64, as curl and HTTP Public Key Pinning (RFC 7469) write it. */
static bool read_pin(struct str s, uint8_t out[32])
{
	unsigned char raw[3 * 16];

	if (!str_starts(s, STR("sha256/")) || s.n != 7 + 44 || s.p[50] != '=' || s.p[49] == '=' || EVP_DecodeBlock(raw, (const unsigned char *)s.p + 7, 44) != 33)
		return false;
	memcpy(out, raw, 32);
	return true;
}

void load_pins(struct load *l, const struct schema_value *v, struct pol_dest *d)
{
	if (v->n == 0)
		ERROR_AT(l, v->node, "`pin` is empty: no key would do; leave it out, or list sha256/BASE64 of the keys that will");
	d->pins = arena_zalloc(l->a, (v->n + 1ul) * sizeof(*d->pins));
	for (unsigned i = 0; i < v->n; i++) {
		if (read_pin(v->items[i]->text, d->pins[d->pin_n]))
			d->pin_n++;
		else
			ERROR_AT(l, v->items[i], "`%.*s` is not a pin: sha256/ and the base64 of the SHA-256 of a key (44 characters), as curl --pinnedpubkey takes it", DIAG_STR(v->items[i]->text));
	}
}
