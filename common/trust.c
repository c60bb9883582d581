/* SPDX-License-Identifier: Apache-2.0 */
#include "trust.h"

#include <errno.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/must.h"

#define MAGIC "SPTRUST1"
#define HEADER 16
#define ROW 16
#define COUNT_MAX 100000

struct trust {
	const uint8_t *p;
	size_t n;
	uint32_t count;
};

static uint32_t le32(const uint8_t *p) { return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24; }
static uint64_t le64(const uint8_t *p) { return (uint64_t)le32(p) | (uint64_t)le32(p + 4) << 32; }

int trust_map(struct trust **out, int fd, struct err *err)
{
	struct trust *t = must_calloc(1, sizeof(*t));
	struct stat st;

	if (fstat(fd, &st) != 0 || st.st_size < HEADER) {
		free(t);
		return err_set(err, EINVAL, "the trust anchors are too short");
	}
	t->n = (size_t)st.st_size;
	t->p = mmap(NULL, t->n, PROT_READ, MAP_SHARED, fd, 0);
	if (t->p == MAP_FAILED) {
		free(t);
		return err_errno(err, "cannot map the trust anchors");
	}
	t->count = le32(t->p + 8);
	if (memcmp(t->p, MAGIC, 8) != 0 || t->count > COUNT_MAX || HEADER + (size_t)t->count * ROW > t->n)
		goto bad;
	for (uint32_t i = 0; i < t->count; i++) {
		const uint8_t *row = t->p + HEADER + (size_t)i * ROW;
		size_t off = le32(row + 8), len = le32(row + 12);

		if (off > t->n || len > t->n - off || (i > 0 && le64(row) < le64(row - ROW)))
			goto bad;
	}
	*out = t;
	return 0;
bad:
	trust_free(t);
	return err_set(err, EINVAL, "the trust anchors are damaged");
}

void trust_free(struct trust *t)
{
	munmap((void *)(uintptr_t)t->p, t->n);
	free(t);
}

unsigned trust_count(const struct trust *t) { return t->count; }

static uint64_t name_hash(const X509_NAME *n)
{
	int ok = 0;
	unsigned long h = X509_NAME_hash_ex(n, NULL, NULL, &ok);

	return ok ? h & 0xffffffffu : 0;
}

/* X509_LOOKUP: asked for a subject, adds what has it to the store and answers from there. */
static int by_subject(X509_LOOKUP *ctx, X509_LOOKUP_TYPE type, const X509_NAME *name, X509_OBJECT *ret)
{
	const struct trust *t = X509_LOOKUP_get_method_data(ctx);
	X509_STORE *store = X509_LOOKUP_get_store(ctx);
	uint64_t want = name_hash(name);
	uint32_t lo = 0, hi = t->count;
	X509 *found = NULL;

	if (type != X509_LU_X509)
		return 0;
	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (le64(t->p + HEADER + (size_t)mid * ROW) < want)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (; lo < t->count && le64(t->p + HEADER + (size_t)lo * ROW) == want; lo++) {
		const uint8_t *row = t->p + HEADER + (size_t)lo * ROW;
		const unsigned char *der = t->p + le32(row + 8);
		X509 *x = d2i_X509(NULL, &der, (long)le32(row + 12));

		if (x == NULL)
			continue;
		if (X509_NAME_cmp(X509_get_subject_name(x), name) == 0 && X509_STORE_add_cert(store, x) == 1 && found == NULL)
			found = x;
		X509_free(x); /* the store keeps its own reference */
	}
	if (found == NULL)
		return 0;
	return X509_OBJECT_set1_X509(ret, found);
}

static int new_item(X509_LOOKUP *ctx)
{
	(void)ctx;
	return 1;
}

X509_STORE *trust_store_new(const struct trust *t)
{
	static X509_LOOKUP_METHOD *m;
	X509_STORE *s = X509_STORE_new();
	X509_LOOKUP *l;

	if (m == NULL) {
		m = X509_LOOKUP_meth_new("sallyport trust anchors");
		if (m != NULL) {
			X509_LOOKUP_meth_set_new_item(m, new_item);
			X509_LOOKUP_meth_set_get_by_subject(m, by_subject);
		}
	}
	if (s == NULL || m == NULL || (l = X509_STORE_add_lookup(s, m)) == NULL || X509_LOOKUP_set_method_data(l, (void *)(uintptr_t)t) != 1) {
		X509_STORE_free(s);
		return NULL;
	}
	return s;
}

struct packed {
	uint64_t hash;
	unsigned char *der;
	int len;
};

static int by_hash(const void *a, const void *b)
{
	const struct packed *x = a, *y = b;

	return x->hash < y->hash ? -1 : x->hash > y->hash;
}

int trust_pack(const uint8_t *pem, size_t n, const uint8_t *exclude, struct buf *out, unsigned *left_out, struct err *err)
{
	BIO *b = BIO_new_mem_buf(pem, n > INT32_MAX ? INT32_MAX : (int)n);
	struct packed *list = NULL;
	size_t count = 0, cap = 0, off;
	X509 *x;

	if (b == NULL)
		return err_set(err, ENOMEM, "out of memory");
	*left_out = 0;
	while ((x = PEM_read_bio_X509(b, NULL, NULL, NULL)) != NULL) {
		struct packed p = { 0 };
		unsigned char spki[32];
		unsigned len = 0;

		X509_pubkey_digest(x, EVP_sha256(), spki, &len);
		if (X509_check_ca(x) < 1 || (exclude != NULL && memcmp(exclude, spki, 20) == 0) || count == COUNT_MAX) {
			++*left_out;
			X509_free(x);
			continue;
		}
		p.hash = name_hash(X509_get_subject_name(x));
		p.len = i2d_X509(x, &p.der);
		X509_free(x);
		if (p.len <= 0)
			continue;
		if (count == cap) {
			cap = cap ? cap * 2 : 256;
			list = must_realloc(list, cap * sizeof(*list));
		}
		list[count++] = p;
	}
	BIO_free(b);
	if (count)
		qsort(list, count, sizeof(*list), by_hash);
	off = HEADER + count * ROW;
	buf_add(out, MAGIC, 8);
	buf_add(out, &(uint32_t){ (uint32_t)count }, 4);
	buf_add(out, &(uint32_t){ 0 }, 4);
	for (size_t i = 0; i < count; i++) {
		buf_add(out, &list[i].hash, 8);
		buf_add(out, &(uint32_t){ (uint32_t)off }, 4);
		buf_add(out, &(uint32_t){ (uint32_t)list[i].len }, 4);
		off += (size_t)list[i].len;
	}
	for (size_t i = 0; i < count; i++) {
		buf_add(out, list[i].der, (size_t)list[i].len);
		OPENSSL_free(list[i].der);
	}
	free(list);
	return 0;
}
