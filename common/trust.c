/* SPDX-License-Identifier: Apache-2.0 */
#include "trust.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/sha.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/must.h"

#define TRUST_MAGIC "SPTRUST2"
#define TRUST_HEADER 16
#define TRUST_ENTRY 16
#define TRUST_COUNT_MAX 65536
#define TRUST_BARRED_MAX 1024
#define TRUST_DER_MAX 65536
#define TRUST_BLOB_MAX (64u << 20)

struct trust {
	const uint8_t *map;
	size_t len;
	unsigned count, barred;
};

static uint32_t le32(const uint8_t *p) { return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24; }
static uint64_t le64(const uint8_t *p) { return (uint64_t)le32(p) | (uint64_t)le32(p + 4) << 32; }

static void put32(uint8_t *p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> 8 * i);
}

static const uint8_t *entry(const struct trust *t, unsigned i) { return t->map + TRUST_HEADER + (size_t)i * TRUST_ENTRY; }

/* Every bound of the blob: what is read later needs no check. */
static const char *check(const uint8_t *p, size_t n, unsigned *count, unsigned *barred)
{
	uint64_t before = 0;
	size_t data;

	if (n < TRUST_HEADER || memcmp(p, TRUST_MAGIC, 8) != 0)
		return "it is not a packed set of trust anchors";
	*count = le32(p + 8);
	if (*count > TRUST_COUNT_MAX || *count > (n - TRUST_HEADER) / TRUST_ENTRY)
		return "it has more entries than room";
	*barred = le32(p + 12);
	data = TRUST_HEADER + (size_t)*count * TRUST_ENTRY;
	if (*barred > TRUST_BARRED_MAX || *barred > (n - data) / TRUST_DIGEST_LEN)
		return "it bars more keys than it has room for";
	data += (size_t)*barred * TRUST_DIGEST_LEN;
	for (unsigned i = 0; i < *count; i++) {
		const uint8_t *e = p + TRUST_HEADER + (size_t)i * TRUST_ENTRY;
		uint64_t hash = le64(e);
		uint32_t off = le32(e + 8), len = le32(e + 12);

		if (hash < before)
			return "its index is not sorted";
		if (off < data || off > n || len == 0 || len > TRUST_DER_MAX || len > n - off)
			return "an entry points outside";
		before = hash;
	}
	return NULL;
}

int trust_map(struct trust **out, int fd, struct err *err)
{
	struct trust *t;
	struct stat st;
	const char *wrong;
	void *map;
	unsigned count = 0, barred = 0;

	if (fstat(fd, &st) != 0)
		return err_errno(err, "the trust anchors");
	if (!S_ISREG(st.st_mode) || st.st_size < TRUST_HEADER || st.st_size > (off_t)TRUST_BLOB_MAX)
		return err_set(err, EINVAL, "the trust anchors are not a file of a possible size");
	map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED)
		return err_errno(err, "cannot map the trust anchors");
	wrong = check(map, (size_t)st.st_size, &count, &barred);
	if (wrong != NULL) {
		munmap(map, (size_t)st.st_size);
		return err_set(err, EINVAL, "the trust anchors are damaged: %s", wrong);
	}
	t = must_malloc(sizeof(*t));
	*t = (struct trust){ map, (size_t)st.st_size, count, barred };
	*out = t;
	return 0;
}

void trust_free(struct trust *t)
{
	if (t == NULL)
		return;
	munmap((void *)(uintptr_t)t->map, t->len);
	free(t);
}

unsigned trust_count(const struct trust *t) { return t->count; }

bool trust_key_digest(X509 *x, uint8_t digest[TRUST_DIGEST_LEN])
{
	unsigned char *spki = NULL;
	int n = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(x), &spki);

	if (n > 0)
		SHA256(spki, (size_t)n, digest);
	OPENSSL_free(spki);
	return n > 0;
}

static bool among(const uint8_t *digests, unsigned n, const uint8_t *digest)
{
	for (unsigned i = 0; i < n; i++)
		if (memcmp(digests + (size_t)i * TRUST_DIGEST_LEN, digest, TRUST_DIGEST_LEN) == 0)
			return true;
	return false;
}

bool trust_barred(const struct trust *t, X509 *x)
{
	uint8_t digest[TRUST_DIGEST_LEN];

	return !trust_key_digest(x, digest) || among(t->map + TRUST_HEADER + (size_t)t->count * TRUST_ENTRY, t->barred, digest);
}

static uint64_t name_hash(const X509_NAME *name)
{
	int ok = 0;
	unsigned long h = X509_NAME_hash_ex(name, NULL, NULL, &ok);

	MUST(ok);
	return (uint32_t)h;
}

/* --- looking up ---------------------------------------------------------------------------------------------------- */

static int by_subject(X509_LOOKUP *lu, X509_LOOKUP_TYPE type, const X509_NAME *name, X509_OBJECT *ret)
{
	const struct trust *t = X509_LOOKUP_get_method_data(lu);
	X509_STORE *store = X509_LOOKUP_get_store(lu);
	unsigned lo = 0, hi = t->count;
	X509 *found = NULL;
	uint64_t want;

	if (type != X509_LU_X509)
		return 0;
	want = name_hash(name);
	while (lo < hi) {
		unsigned mid = lo + (hi - lo) / 2;

		if (le64(entry(t, mid)) < want)
			lo = mid + 1;
		else
			hi = mid;
	}
	/* all of that name go into the store, which then chooses among them (keys roll over under one name) */
	for (; lo < t->count && le64(entry(t, lo)) == want; lo++) {
		const unsigned char *der = t->map + le32(entry(t, lo) + 8);
		X509 *x = d2i_X509(NULL, &der, (long)le32(entry(t, lo) + 12));

		if (x == NULL) {
			ERR_clear_error();
			continue;
		}
		if (X509_NAME_cmp(X509_get_subject_name(x), name) == 0 && X509_STORE_add_cert(store, x) == 1 && found == NULL)
			found = x; /* the store holds its own reference from now on */
		else
			X509_free(x);
	}
	if (found == NULL)
		return 0;
	/*
	 * What a lookup returns is borrowed from the store: the caller takes a reference. X509_OBJECT_set1_X509, the only way
	 * to fill the object, takes one that nobody would give back, so both that one and ours are given back here.
	 */
	X509_OBJECT_set1_X509(ret, found);
	X509_free(found);
	X509_free(found);
	return 1;
}

X509_STORE *trust_store_new(const struct trust *t)
{
	static X509_LOOKUP_METHOD *method; /* one for the life of the process */
	X509_STORE *store = X509_STORE_new();
	X509_LOOKUP *lu;

	if (method == NULL) {
		method = X509_LOOKUP_meth_new("packed trust anchors");
		MUST(method != NULL && X509_LOOKUP_meth_set_get_by_subject(method, by_subject) == 1);
	}
	if (store == NULL)
		return NULL;
	lu = X509_STORE_add_lookup(store, method);
	if (lu == NULL) {
		X509_STORE_free(store);
		return NULL;
	}
	X509_LOOKUP_set_method_data(lu, (void *)(uintptr_t)t);
	return store;
}

/* --- packing ------------------------------------------------------------------------------------------------------- */

struct anchor {
	uint64_t hash;
	unsigned char *der;
	size_t len;
};
struct anchors {
	struct anchor *a;
	size_t n, cap;
};

static int anchor_cmp(const void *x, const void *y)
{
	const struct anchor *a = x, *b = y;
	int c;

	if (a->hash != b->hash)
		return a->hash < b->hash ? -1 : 1;
	c = memcmp(a->der, b->der, a->len < b->len ? a->len : b->len);
	if (c != 0)
		return c;
	return a->len < b->len ? -1 : a->len > b->len;
}

/* Takes it if it is a certificate of a CA and not barred. False: left out. */
static bool take(struct anchors *s, const char *kind, const unsigned char *data, long len, const uint8_t *barred, unsigned barred_n)
{
	const unsigned char *p = data;
	unsigned char *der = NULL;
	uint8_t digest[TRUST_DIGEST_LEN];
	X509 *x = NULL;
	bool ok = false;
	int n;

	if (strcmp(kind, PEM_STRING_X509) == 0 || strcmp(kind, PEM_STRING_X509_OLD) == 0)
		x = d2i_X509(NULL, &p, len);
	if (x == NULL || p != data + len || X509_check_ca(x) != 1)
		goto out;
	if (!trust_key_digest(x, digest) || among(barred, barred_n, digest))
		goto out;
	n = i2d_X509(x, &der);
	if (n <= 0 || n > TRUST_DER_MAX || s->n == TRUST_COUNT_MAX)
		goto out;
	if (s->n == s->cap) {
		s->cap = s->cap ? s->cap * 2 : 256;
		s->a = must_realloc(s->a, s->cap * sizeof(*s->a));
	}
	s->a[s->n++] = (struct anchor){ name_hash(X509_get_subject_name(x)), der, (size_t)n };
	der = NULL;
	ok = true;
out:
	OPENSSL_free(der);
	X509_free(x);
	ERR_clear_error();
	return ok;
}

static void write_blob(struct anchors *s, const uint8_t *barred, unsigned barred_n, struct buf *out)
{
	uint8_t head[TRUST_HEADER] = TRUST_MAGIC;
	size_t kept = 0, off;

	if (s->n > 0)
		qsort(s->a, s->n, sizeof(*s->a), anchor_cmp);
	for (size_t i = 0; i < s->n; i++) { /* one of each */
		if (kept > 0 && anchor_cmp(&s->a[kept - 1], &s->a[i]) == 0)
			OPENSSL_free(s->a[i].der);
		else
			s->a[kept++] = s->a[i];
	}
	s->n = kept;
	put32(head + 8, (uint32_t)kept);
	put32(head + 12, barred_n);
	buf_add(out, head, sizeof(head));
	off = TRUST_HEADER + kept * TRUST_ENTRY + (size_t)barred_n * TRUST_DIGEST_LEN;
	for (size_t i = 0; i < kept; i++) {
		uint8_t e[TRUST_ENTRY];

		put32(e, (uint32_t)s->a[i].hash);
		put32(e + 4, (uint32_t)(s->a[i].hash >> 32));
		put32(e + 8, (uint32_t)off);
		put32(e + 12, (uint32_t)s->a[i].len);
		buf_add(out, e, sizeof(e));
		off += s->a[i].len;
	}
	buf_add(out, barred, (size_t)barred_n * TRUST_DIGEST_LEN);
	for (size_t i = 0; i < kept; i++)
		buf_add(out, s->a[i].der, s->a[i].len);
}

int trust_pack(const uint8_t *pem, size_t n, const uint8_t *barred, unsigned barred_n, struct buf *out, unsigned *left_out, struct err *err)
{
	struct anchors s = { 0 };
	BIO *bio;
	int ret = -1;

	*left_out = 0;
	if (barred_n > TRUST_BARRED_MAX)
		return err_set(err, EFBIG, "too many keys are barred");
	if (n > TRUST_BLOB_MAX / 2)
		return err_set(err, EFBIG, "the trust anchors are larger than %u MiB", TRUST_BLOB_MAX >> 21);
	bio = BIO_new_mem_buf(pem, (int)n);
	MUST(bio != NULL);
	for (;;) {
		char *kind = NULL, *header = NULL;
		unsigned char *data = NULL;
		long len = 0;
		size_t before = BIO_ctrl_pending(bio);

		if (PEM_read_bio(bio, &kind, &header, &data, &len) == 1) {
			if (!take(&s, kind, data, len, barred, barred_n))
				++*left_out;
			OPENSSL_free(kind);
			OPENSSL_free(header);
			OPENSSL_free(data);
			continue;
		}
		if (ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE || BIO_ctrl_pending(bio) == 0 || BIO_ctrl_pending(bio) == before)
			break;
		++*left_out; /* a block that is damaged: go on behind it */
		ERR_clear_error();
	}
	if (ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE)
		++*left_out;
	ERR_clear_error();
	write_blob(&s, barred, barred_n, out);
	if (buf_len(out) > TRUST_BLOB_MAX)
		err_set(err, EFBIG, "the packed trust anchors are too large");
	else
		ret = 0;
	BIO_free(bio);
	for (size_t i = 0; i < s.n; i++)
		OPENSSL_free(s.a[i].der);
	free(s.a);
	return ret;
}
