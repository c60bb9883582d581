/* SPDX-License-Identifier: Apache-2.0 */
#include "fold.h"

#include <stdlib.h>

#include "../../common/base/must.h"

#define FOLD_MS 60000
#define FOLD_MAX 1024 /* different questions in a minute; further ones are written one by one */
#define FOLD_OCTETS_MAX 2048 /* of one question: no true one is longer, and a worker may not make audit keep what it likes */
#define BUCKETS 128

struct fold {
	struct fold *next;
	uint64_t hash, since_ms, time_ms, count;
	struct buf fields; /* without time and count */
};
struct folds {
	struct fold *buckets[BUCKETS];
	size_t n;
};

struct folds *folds_new(void) { return must_calloc(1, sizeof(struct folds)); }

static void drop(struct folds *f, struct fold **p)
{
	struct fold *e = *p;

	*p = e->next;
	buf_fini(&e->fields);
	free(e);
	f->n--;
}

void folds_free(struct folds *f)
{
	if (f == NULL)
		return;
	for (size_t i = 0; i < BUCKETS; i++)
		while (f->buckets[i] != NULL)
			drop(f, &f->buckets[i]);
	free(f);
}

/* What makes two questions the same: all fields but time and count. False: not a DNS record, or malformed. */
static bool essence(const uint8_t *fields, size_t n, struct buf *out, uint64_t *time_ms, uint64_t *count)
{
	size_t off = 0, at = 0;
	enum record_tag t;
	struct str s;
	uint64_t u;
	bool bad = false, dns = false;

	*time_ms = 0;
	*count = 1;
	while (record_next(fields, n, &off, &t, &s, &u, &bad)) {
		if (t == REC_KIND) {
			dns = str_eq(s, STR("dns"));
			if (!dns)
				return false;
		}
		if (t == REC_TIME_MS)
			*time_ms = u;
		else if (t == REC_COUNT)
			*count = u;
		else
			buf_add(out, fields + at, off - at);
		at = off;
	}
	return dns && !bad;
}

bool folds_take(struct folds *f, const uint8_t *fields, size_t n, uint64_t now_ms)
{
	struct buf b = { 0 };
	uint64_t time_ms, count, hash;
	struct fold *e, **bucket;

	if (n > FOLD_OCTETS_MAX || !essence(fields, n, &b, &time_ms, &count)) {
		buf_fini(&b);
		return false;
	}
	hash = hash_bytes(buf_data(&b), buf_len(&b));
	bucket = &f->buckets[hash % BUCKETS];
	for (e = *bucket; e != NULL; e = e->next)
		if (e->hash == hash && str_eq(buf_str(&e->fields), buf_str(&b)))
			break;
	if (e != NULL) {
		e->count += count;
		e->time_ms = time_ms;
		buf_fini(&b);
		return true;
	}
	if (f->n >= FOLD_MAX) {
		buf_fini(&b);
		return false;
	}
	e = must_calloc(1, sizeof(*e));
	*e = (struct fold){ .next = *bucket, .hash = hash, .since_ms = now_ms, .fields = b };
	*bucket = e;
	f->n++;
	return false;
}

void folds_flush(struct folds *f, uint64_t now_ms, bool all, void (*fn)(void *arg, const struct buf *fields), void *arg)
{
	for (size_t i = 0; i < BUCKETS && f->n > 0; i++) {
		for (struct fold **p = &f->buckets[i]; *p != NULL;) {
			struct fold *e = *p;

			if (!all && now_ms - e->since_ms < FOLD_MS) {
				p = &e->next;
				continue;
			}
			if (e->count > 0) {
				record_u(&e->fields, REC_TIME_MS, e->time_ms);
				if (e->count > 1)
					record_u(&e->fields, REC_COUNT, e->count);
				fn(arg, &e->fields);
			}
			drop(f, p);
		}
	}
}
