/* SPDX-License-Identifier: Apache-2.0 */
/* The table: sorted records in one transaction, so that the same policy gives the same octets. Layout: format.h, table.c. */
#include <errno.h>
#include <lmdb.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <fcntl.h>
#include <unistd.h>

#include "../common/base/must.h"
#include "../common/policy/dest_value.h"
#include "model.h"

#define PAGE 4096u

struct record {
	struct buf key, value;
};
struct records {
	struct record *r;
	size_t n, cap;
};

static struct record *add(struct records *rs)
{
	if (rs->n == rs->cap) {
		rs->cap = rs->cap ? rs->cap * 2 : 64;
		rs->r = must_realloc(rs->r, rs->cap * sizeof(*rs->r));
	}
	rs->r[rs->n] = (struct record){ { 0 }, { 0 } };
	return &rs->r[rs->n++];
}

static int by_key(const void *a, const void *b)
{
	const struct record *x = a, *y = b;
	size_t n = buf_len(&x->key) < buf_len(&y->key) ? buf_len(&x->key) : buf_len(&y->key);
	int r = memcmp(buf_data(&x->key), buf_data(&y->key), n);

	return r ? r : buf_len(&x->key) < buf_len(&y->key) ? -1 : buf_len(&x->key) > buf_len(&y->key);
}

static void put_ip(struct buf *b, const struct ip *ip)
{
	put_u8(b, ip->family);
	buf_add(b, ip->b, 16);
}

static void put_dest(struct buf *b, const struct pol_dest *d, uint32_t index)
{
	put_u32(b, index);
	put_u8(b, (uint8_t)((d->log_query ? DEST_FLAG_LOG_QUERY : 0) | (d->encoded_slash ? DEST_FLAG_ENCODED_SLASH : 0) | (d->empty_segments ? DEST_FLAG_EMPTY_SEGMENTS : 0) | (d->raw ? DEST_FLAG_RAW : 0)));
	put_u8(b, d->tls_min);
	put_u16(b, d->connect_port);
	put_ip(b, &d->connect_ip);
	put_str(b, str_mk(d->host.text, d->host.len));
	put_str(b, d->id);
	put_str(b, d->source);
	put_u16(b, (uint16_t)d->address_n);
	for (unsigned i = 0; i < d->address_n; i++) {
		put_ip(b, &d->addresses[i].net);
		put_u8(b, d->addresses[i].bits);
	}
	put_u16(b, (uint16_t)d->ca_n);
	for (unsigned i = 0; i < d->ca_n; i++) {
		put_u32(b, (uint32_t)d->cas[i].der.n);
		buf_adds(b, d->cas[i].der);
	}
	put_u16(b, (uint16_t)d->inject_n);
	for (unsigned i = 0; i < d->inject_n; i++) {
		const struct pol_inject *in = &d->injects[i];

		put_u8(b, (uint8_t)in->kind);
		put_u32(b, in->secret->index);
		put_str(b, in->secret->name);
		put_str(b, in->username);
		put_str(b, in->name);
		put_str(b, in->format);
		put_str(b, in->env);
	}
	put_u16(b, (uint16_t)d->rule_n);
	for (unsigned i = 0; i < d->rule_n; i++) {
		const struct pol_rule *r = &d->rules[i];

		put_u8(b, (uint8_t)((r->deny ? RULE_DENY : 0) | (r->any ? RULE_ANY : 0)));
		put_u16(b, (uint16_t)r->method_n);
		for (unsigned k = 0; k < r->method_n; k++)
			put_str(b, r->methods[k]);
		put_str(b, r->pattern);
		put_str(b, r->id);
		put_str(b, r->source);
	}
}

static void make_records(const struct policy *p, struct records *rs)
{
	struct record *r;
	uint32_t index = 0;
	EVP_MD_CTX *md = EVP_MD_CTX_new();
	uint8_t digest[32];

	for (unsigned i = 0; i < p->secret_n; i++) {
		const struct pol_secret *s = &p->secrets[i];

		r = add(rs);
		put_u8(&r->key, 1);
		put_u8(&r->key, 0);
		put_u8(&r->key, (uint8_t)(i >> 16));
		put_u8(&r->key, (uint8_t)(i >> 8));
		put_u8(&r->key, (uint8_t)i);
		put_u8(&r->value, (uint8_t)s->source);
		put_str(&r->value, s->name);
		put_str(&r->value, s->arg);
		put_u16(&r->value, (uint16_t)s->host_n);
		for (unsigned k = 0; k < s->host_n; k++)
			put_str(&r->value, s->hosts[k]);
	}
	r = add(rs);
	put_u8(&r->key, 2);
	put_u16(&r->value, (uint16_t)p->sandbox_n);
	for (unsigned i = 0; i < p->sandbox_n; i++) {
		put_str(&r->value, p->sandbox[i].key);
		put_str(&r->value, p->sandbox[i].value);
	}
	for (unsigned i = 0; i < p->dest_n; i++) {
		uint8_t key[TABLE_KEY_MAX];
		size_t n = table_key(key, (uint8_t)p->dests[i].scheme, p->dests[i].port, str_mk(p->dests[i].host.text, p->dests[i].host.len));

		r = add(rs);
		buf_add(&r->key, key, n);
	}
	/* values of destinations carry their number in key order */
	qsort(rs->r, rs->n, sizeof(*rs->r), by_key);
	for (size_t i = 0; i < rs->n; i++) {
		uint8_t key[TABLE_KEY_MAX];

		if (buf_data(&rs->r[i].key)[0] != 3)
			continue;
		for (unsigned k = 0; k < p->dest_n; k++) {
			size_t n = table_key(key, (uint8_t)p->dests[k].scheme, p->dests[k].port, str_mk(p->dests[k].host.text, p->dests[k].host.len));

			if (n == buf_len(&rs->r[i].key) && memcmp(key, buf_data(&rs->r[i].key), n) == 0) {
				put_dest(&rs->r[i].value, &p->dests[k], index++);
				break;
			}
		}
	}
	MUST(md != NULL && EVP_DigestInit_ex(md, EVP_sha256(), NULL) == 1);
	for (size_t i = 0; i < rs->n; i++)
		table_digest_record(md, buf_str(&rs->r[i].key), buf_str(&rs->r[i].value));
	EVP_DigestFinal_ex(md, digest, NULL);
	EVP_MD_CTX_free(md);
	r = add(rs);
	put_u8(&r->key, 0);
	buf_add(&r->value, TABLE_MAGIC, 8);
	put_u32(&r->value, TABLE_FORMAT);
	put_str(&r->value, STR(SP_VERSION));
	buf_add(&r->value, digest, 32);
	put_u8(&r->value, p->explain_denials ? TABLE_FLAG_EXPLAIN : 0);
	put_str(&r->value, p->name);
	put_u32(&r->value, index);
	put_u32(&r->value, p->secret_n);
	put_u8(&r->value, 0);
	qsort(rs->r, rs->n, sizeof(*rs->r), by_key);
}

int policy_write(const struct policy *p, const char *out, struct err *err)
{
	struct records rs = { 0 };
	MDB_env *env = NULL;
	MDB_txn *txn = NULL;
	MDB_dbi dbi;
	char tmp[4096];
	size_t size = 64 * PAGE;
	int rc, fd, ret = -1;

	make_records(p, &rs);
	for (size_t i = 0; i < rs.n; i++)
		size += 2 * (buf_len(&rs.r[i].key) + buf_len(&rs.r[i].value)) + 2 * PAGE;
	size = (size + PAGE - 1) / PAGE * PAGE;
	snprintf(tmp, sizeof(tmp), "%s.%d.tmp", out, (int)getpid());
	unlink(tmp);
	rc = mdb_env_create(&env);
	if (rc == 0)
		rc = mdb_env_set_mapsize(env, size);
	if (rc == 0)
		rc = mdb_env_open(env, tmp, MDB_NOSUBDIR | MDB_NOLOCK | MDB_NOSYNC, 0600);
	if (rc == 0)
		rc = mdb_txn_begin(env, NULL, 0, &txn);
	if (rc == 0)
		rc = mdb_dbi_open(txn, NULL, 0, &dbi);
	for (size_t i = 0; rc == 0 && i < rs.n; i++) {
		MDB_val k = { buf_len(&rs.r[i].key), buf_data(&rs.r[i].key) }, v = { buf_len(&rs.r[i].value), buf_data(&rs.r[i].value) };

		rc = mdb_put(txn, dbi, &k, &v, MDB_APPEND);
	}
	if (rc == 0) {
		rc = mdb_txn_commit(txn);
		txn = NULL;
	}
	if (rc == 0)
		rc = mdb_env_sync(env, 1);
	if (rc != 0) {
		err_set(err, rc, "cannot write the table %s: %s", out, mdb_strerror(rc));
		goto out;
	}
	mdb_env_close(env);
	env = NULL;
	fd = open(tmp, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fsync(fd) != 0 || rename(tmp, out) != 0) {
		err_errno(err, "cannot write the table %s", out);
		if (fd >= 0)
			close(fd);
		goto out;
	}
	close(fd);
	ret = 0;
out:
	if (txn != NULL)
		mdb_txn_abort(txn);
	if (env != NULL)
		mdb_env_close(env);
	if (ret != 0)
		unlink(tmp);
	for (size_t i = 0; i < rs.n; i++) {
		buf_fini(&rs.r[i].key);
		buf_fini(&rs.r[i].value);
	}
	free(rs.r);
	return ret;
}
