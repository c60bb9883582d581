/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table: sorted records in one transaction of liblmdb, in a memfd; then what carries nothing is made zero, the checker
 * looks at it, and the file is put in its place. The same policy gives the same octets.
 */
#include <errno.h>
#include <fcntl.h>
#include <lmdb.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../common/base/must.h"
#include "../common/policy/host_pattern.h"
#include "../common/policy/image.h"
#include "../common/policy/table_record.h"
#include "trie.h"

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

static int key_cmp(struct str x, struct str y)
{
	size_t n = x.n < y.n ? x.n : y.n;
	int r = memcmp(x.p, y.p, n);

	return r ? r : x.n < y.n ? -1 : x.n > y.n;
}

/* --- a destination's value ----------------------------------------------------------------------------------------- */

struct value {
	struct buf sect[SECTIONS];
};

/* A ref into the texts; text_base is added when the value is put together. */
static void put_ref_at(struct buf *b, struct trie_ref r)
{
	put_u32(b, r.off);
	put_u32(b, r.n);
}

static void put_ref(struct value *v, struct buf *b, struct str s)
{
	put_ref_at(b, (struct trie_ref){ (uint32_t)buf_len(&v->sect[SECT_TEXTS]), (uint32_t)s.n });
	buf_adds(&v->sect[SECT_TEXTS], s);
}

static void put_ip(struct buf *b, const struct ip *ip)
{
	put_u8(b, ip->family);
	buf_add(b, ip->b, 16);
}

static void put_rules(struct value *v, const struct pol_dest *d, bool denies_only, struct trie *t)
{
	uint32_t further = (uint32_t)(buf_len(&v->sect[SECT_METHODS]) / METHOD_SIZE);
	struct buf cond = { 0 };

	for (uint32_t i = 0; i < d->rule_n; i++) {
		const struct pol_rule *r = &d->rules[i];
		uint32_t number = (uint32_t)(buf_len(&v->sect[SECT_RULES]) / RULE_SIZE);
		uint32_t bits = (r->any ? METHOD_ANY : 0) | (r->deny ? METHOD_DENY : 0), n = 0;

		if (denies_only && !r->deny)
			continue;
		for (unsigned k = 0; k < r->method_n; k++) {
			uint32_t bit = table_method_bit(r->methods[k]);

			bits |= bit == METHOD_GET ? METHOD_GET | METHOD_HEAD : bit;
			if (bit == 0) {
				put_ref(v, &v->sect[SECT_METHODS], r->methods[k]);
				n++;
			}
		}
		put_u32(&v->sect[SECT_RULES], bits);
		put_u32(&v->sect[SECT_RULES], further);
		put_u32(&v->sect[SECT_RULES], n);
		put_ref(v, &v->sect[SECT_RULES], r->pattern);
		put_ref(v, &v->sect[SECT_RULES], r->id);
		put_ref(v, &v->sect[SECT_RULES], r->source);
		buf_clear(&cond);
		if (r->cond != NULL)
			cond_encode(r->cond, &cond);
		put_ref(v, &v->sect[SECT_RULES], buf_str(&cond));
		further += n;
		trie_add(t, r, number);
	}
	buf_fini(&cond);
}

static void put_trie(struct value *v, const struct trie *t)
{
	uint32_t slots = 0, parts = 0, accepts = 0;

	for (uint32_t i = 0; i < t->n; i++) {
		const struct trie_node *n = &t->nodes[i];
		struct buf *b = &v->sect[SECT_NODES];

		put_u32(b, slots);
		put_u32(b, n->slot_n);
		put_u32(b, parts);
		put_u32(b, n->part_n);
		put_u32(b, accepts);
		put_u32(b, n->accept_n);
		put_u32(b, n->star);
		put_u32(b, n->double_star);
		for (uint32_t k = 0; k < n->slot_n; k++) {
			put_u32(&v->sect[SECT_SLOTS], n->slots[k].hash);
			put_ref_at(&v->sect[SECT_SLOTS], n->slots[k].segment);
			put_u32(&v->sect[SECT_SLOTS], n->slots[k].child);
		}
		for (uint32_t k = 0; k < n->part_n; k++) {
			put_ref_at(&v->sect[SECT_PARTS], n->parts[k].pattern);
			put_u32(&v->sect[SECT_PARTS], n->parts[k].child);
		}
		for (uint32_t k = 0; k < n->accept_n; k++)
			put_u32(&v->sect[SECT_ACCEPTS], n->accepts[k]);
		slots += n->slot_n;
		parts += n->part_n;
		accepts += n->accept_n;
	}
}

static void put_list(struct value *v, struct buf *b, const struct str *s, unsigned n)
{
	struct buf list = { 0 };

	for (unsigned i = 0; i < n; i++)
		put_str(&list, s[i]);
	put_ref(v, b, buf_str(&list));
	buf_fini(&list);
}

static void put_lists(struct value *v, const struct pol_dest *d)
{
	for (unsigned i = 0; i < d->address_n; i++) {
		put_ip(&v->sect[SECT_ADDRESSES], &d->addresses[i].net);
		put_u8(&v->sect[SECT_ADDRESSES], d->addresses[i].bits);
		put_u16(&v->sect[SECT_ADDRESSES], 0);
	}
	for (unsigned i = 0; i < d->ca_n; i++)
		put_ref(v, &v->sect[SECT_CAS], d->cas[i]);
	for (unsigned i = 0; i < d->crl_n; i++)
		put_ref(v, &v->sect[SECT_CRLS], d->crls[i]);
	buf_add(&v->sect[SECT_PINS], d->pins, d->pin_n * (size_t)PIN_SIZE);
	for (unsigned i = 0; i < d->inject_n; i++) {
		const struct pol_inject *in = &d->injects[i];
		struct buf *b = &v->sect[SECT_INJECTS];

		put_u8(b, (uint8_t)in->kind);
		put_u8(b, (uint8_t)((in->slashes_keep ? INJECT_FLAG_SLASHES : 0) | (in->secret->scope_sandbox ? INJECT_FLAG_SCOPE_SANDBOX : 0) | (in->secret->body_deny ? INJECT_FLAG_BODY_DENY : 0)));
		put_u16(b, in->places);
		put_u32(b, in->secret->index);
		put_ref(v, b, in->secret->name);
		put_ref(v, b, in->username);
		put_ref(v, b, in->name);
		put_ref(v, b, in->format);
		put_ref(v, b, in->service);
		put_ref(v, b, in->region);
		put_list(v, b, in->env, in->env_n);
		put_list(v, b, in->when, in->when_n);
		put_ref(v, b, in->template);
		put_ref(v, b, in->timestamp);
		put_ref(v, b, in->nonce);
		put_u8(b, (uint8_t)in->hash);
		put_u8(b, (uint8_t)in->encoding);
		put_u8(b, (uint8_t)in->key);
		put_u8(b, 0);
	}
	for (unsigned i = 0; i < d->place_n; i++)
		put_ref(v, &v->sect[SECT_PLACES], d->places[i]);
}

/* Adds `base` to the offset of each ref that stands `first` octets into an element, n refs in a row. */
static void rebase(struct buf *b, size_t element, size_t first, unsigned n, uint32_t base)
{
	for (size_t at = 0; at < buf_len(b); at += element) {
		for (unsigned i = 0; i < n; i++) {
			uint8_t *p = buf_data(b) + at + first + 8 * i;
			uint32_t off = le32(p) + base;

			for (unsigned k = 0; k < 4; k++)
				p[k] = (uint8_t)(off >> 8 * k);
		}
	}
}

/* Free slots stay zero. */
static void rebase_slots(struct buf *b, uint32_t base)
{
	for (size_t at = 0; at < buf_len(b); at += SLOT_SIZE) {
		struct buf one = { .mem = buf_data(b) + at, .len = SLOT_SIZE, .cap = SLOT_SIZE };

		if (le32(one.mem + 12) != 0)
			rebase(&one, SLOT_SIZE, 4, 1, base);
	}
}

static void put_rate(struct buf *b, enum rate_kind kind, uint32_t rule, uint64_t amount, uint32_t window_s, uint64_t key)
{
	put_u32(b, (uint32_t)kind);
	put_u32(b, rule);
	put_u64(b, amount);
	put_u32(b, window_s);
	put_u32(b, 0);
	put_u64(b, key);
}

static void put_rates_of(struct buf *b, const struct pol_limits *l, const struct pol_dest *d, const struct pol_rule *r, uint32_t rule)
{
	for (unsigned i = 0; i < l->rate_n; i++)
		put_rate(b, l->rates[i].kind, rule, l->rates[i].amount, l->rates[i].window_s, limit_key(d, r, l->rates[i].kind, l->rates[i].window_s));
}

/* Those of the policy, of the destination, of its rules. */
static void put_rates(struct buf *b, const struct policy *p, const struct pol_dest *d)
{
	put_rates_of(b, &p->limits, NULL, NULL, RATE_OF_ALL);
	put_rates_of(b, &d->limits, d, NULL, RATE_OF_ALL);
	for (uint32_t i = 0; i < d->rule_n; i++) {
		const struct pol_rule *r = &d->rules[i];
		const struct dest_limits *s = &r->limits.sizes;
		const uint64_t sizes[] = { s->request_body, s->response_body, s->head_ms, s->idle_ms, s->total_ms };

		put_rates_of(b, &r->limits, d, r, i);
		for (unsigned k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++)
			if (sizes[k] != 0)
				put_rate(b, (enum rate_kind)(RATE_REQUEST_BODY + k), i, sizes[k], 0, 0);
		if (r->cond != NULL && (r->cond->parts & COND_USES))
			put_rate(b, RATE_USES, i, r->cond->uses, 0, r->cond->uses_key);
	}
}

static void put_limits(struct buf *out, const struct dest_limits *l)
{
	put_u64(out, l->request_body);
	put_u64(out, l->response_body);
	put_u32(out, l->head_ms);
	put_u32(out, l->idle_ms);
	put_u32(out, l->total_ms);
	put_u32(out, 0);
}

/* shadowed: of the same key, without a port of its own; its deny rules count behind those of d. Or NULL. */
static int put_dest(struct buf *out, const struct policy *p, const struct pol_dest *d, const struct pol_dest *shadowed, uint32_t index, struct err *err)
{
	static const uint32_t sizes[SECTIONS] = { ADDRESS_SIZE, CA_SIZE, CRL_SIZE, PIN_SIZE, INJECT_SIZE, RULE_SIZE, METHOD_SIZE, NODE_SIZE, SLOT_SIZE, PART_SIZE, ACCEPT_SIZE, PLACE_SIZE, RATE_SIZE, 1 };
	struct value v = { 0 };
	struct buf names = { 0 };
	struct dest_limits limits = dest_limits_both(&p->limits.sizes, &d->limits.sizes);
	struct trie t;
	uint64_t at = DEST_FIXED, base = DEST_FIXED;
	int ret = -1;

	trie_init(&t, &v.sect[SECT_TEXTS]);
	put_ref(&v, &names, str_mk(d->host.text, d->host.len));
	put_ref(&v, &names, d->id);
	put_ref(&v, &names, d->source);
	put_lists(&v, d);
	put_rules(&v, d, false, &t);
	if (shadowed != NULL)
		put_rules(&v, shadowed, true, &t);
	put_trie(&v, &t);
	put_rates(&v.sect[SECT_RATES], p, d);
	for (unsigned i = 0; i < SECT_TEXTS; i++)
		base += buf_len(&v.sect[i]);
	if (base + buf_len(&v.sect[SECT_TEXTS]) > INT32_MAX) {
		err_set(err, EFBIG, "%s has more rules than a table can hold", d->host.text);
		goto out;
	}
	rebase(&names, 8, 0, 1, (uint32_t)base);
	rebase(&v.sect[SECT_CAS], CA_SIZE, 0, 1, (uint32_t)base);
	rebase(&v.sect[SECT_CRLS], CRL_SIZE, 0, 1, (uint32_t)base);
	rebase(&v.sect[SECT_INJECTS], INJECT_SIZE, 8, 11, (uint32_t)base);
	rebase(&v.sect[SECT_RULES], RULE_SIZE, 12, 4, (uint32_t)base);
	rebase(&v.sect[SECT_METHODS], METHOD_SIZE, 0, 1, (uint32_t)base);
	rebase(&v.sect[SECT_PARTS], PART_SIZE, 0, 1, (uint32_t)base);
	rebase(&v.sect[SECT_PLACES], PLACE_SIZE, 0, 1, (uint32_t)base);
	rebase_slots(&v.sect[SECT_SLOTS], (uint32_t)base);
	put_u32(out, index);
	put_u8(out, (uint8_t)((d->log_query ? DEST_FLAG_LOG_QUERY : 0) | (d->paths.encoded_slash_keep ? DEST_FLAG_ENCODED_SLASH : 0) |
			      (d->paths.empty_segments_keep ? DEST_FLAG_EMPTY_SEGMENTS : 0) | (d->paths.raw ? DEST_FLAG_RAW : 0) | (d->alpn_h1 ? DEST_FLAG_ALPN_H1 : 0) |
			      (d->alpn_h2 ? DEST_FLAG_ALPN_H2 : 0) | (d->tunnel ? DEST_FLAG_TUNNEL : 0)));
	put_u8(out, d->tls_min);
	put_u16(out, d->connect_port);
	put_ip(out, &d->connect_ip);
	put_u8(out, 0);
	put_u16(out, 0);
	buf_adds(out, buf_str(&names));
	put_limits(out, &limits);
	put_u8(out, (uint8_t)d->foreign);
	put_u8(out, d->scrub_off);
	put_u16(out, 0);
	for (unsigned i = 0; i < SECTIONS; i++) {
		put_u32(out, (uint32_t)at);
		put_u32(out, (uint32_t)(buf_len(&v.sect[i]) / sizes[i]));
		at += buf_len(&v.sect[i]);
	}
	for (unsigned i = 0; i < SECTIONS; i++)
		buf_adds(out, buf_str(&v.sect[i]));
	ret = 0;
out:
	trie_fini(&t);
	for (unsigned i = 0; i < SECTIONS; i++)
		buf_fini(&v.sect[i]);
	buf_fini(&names);
	return ret;
}

/* --- records ------------------------------------------------------------------------------------------------------- */

struct keyed {
	uint8_t key[TABLE_KEY_MAX];
	size_t n;
	const struct pol_dest *d, *shadowed;
};

static int by_key(const void *a, const void *b)
{
	const struct keyed *x = a, *y = b;

	int r = key_cmp(str_mk(x->key, x->n), str_mk(y->key, y->n));

	return r ? r : (int)y->d->port_written - (int)x->d->port_written;
}

/* In key order, one of each key. Returns how many. */
static unsigned order_dests(const struct policy *p, struct keyed *k)
{
	unsigned n = 0;

	for (unsigned i = 0; i < p->dest_n; i++) {
		k[i].d = &p->dests[i];
		k[i].shadowed = NULL;
		k[i].n = table_key(k[i].key, (uint8_t)k[i].d->scheme, k[i].d->port, str_mk(k[i].d->host.text, k[i].d->host.len));
	}
	qsort(k, p->dest_n, sizeof(*k), by_key);
	for (unsigned i = 0; i < p->dest_n; i++) {
		if (n > 0 && key_cmp(str_mk(k[i].key, k[i].n), str_mk(k[n - 1].key, k[n - 1].n)) == 0)
			k[n - 1].shadowed = k[i].d;
		else
			k[n++] = k[i];
	}
	return n;
}

static bool has_denies(const struct pol_dest *d)
{
	for (unsigned i = 0; d != NULL && i < d->rule_n; i++)
		if (d->rules[i].deny)
			return true;
	return false;
}

static void put_wild(struct buf *b, const struct keyed *k, unsigned dest_n)
{
	struct wild wild[WILD_DEPTHS + 1] = { 0 };
	uint8_t n = 0;

	for (unsigned i = 0; i < dest_n; i++) {
		struct host_pattern p;
		struct wild *w;

		MUST(host_pattern_read(str_mk(k[i].d->host.text, k[i].d->host.len), &p));
		if (p.kind == HOST_EXACT)
			continue;
		w = &wild[host_labels(p.suffix)];
		n += w->flags == 0 && w->single == 0;
		w->flags |= (uint8_t)((p.kind == HOST_DOUBLE_STAR ? WILD_DOUBLE : 0) | (has_denies(k[i].d) || has_denies(k[i].shadowed) ? WILD_DENY : 0));
		if (p.kind != HOST_DOUBLE_STAR)
			w->single |= (uint64_t)1 << p.prefix.n;
	}
	put_u8(b, n);
	for (unsigned depth = 1; depth <= WILD_DEPTHS; depth++) {
		if (wild[depth].flags == 0 && wild[depth].single == 0)
			continue;
		put_u8(b, (uint8_t)depth);
		put_u8(b, wild[depth].flags);
		put_u64(b, wild[depth].single);
	}
}

static void put_header(struct buf *b, const struct policy *p, const struct keyed *k, unsigned dest_n)
{
	struct buf ports = { 0 };
	uint32_t n = 0;

	for (unsigned i = 0; i < dest_n; i++) {
		if (i > 0 && k[i].d->scheme == k[i - 1].d->scheme && k[i].d->port == k[i - 1].d->port)
			continue;
		put_u8(&ports, (uint8_t)k[i].d->scheme);
		put_u16(&ports, k[i].d->port);
		n++;
	}
	buf_add(b, TABLE_MAGIC, 8);
	put_u32(b, TABLE_FORMAT);
	for (unsigned i = 0; i < TABLE_DIGEST_LEN; i++) /* filled in at last */
		put_u8(b, 0);
	put_u8(b, p->explain_denials ? TABLE_FLAG_EXPLAIN : 0);
	put_u64(b, p->observe_until);
	put_str(b, STR(SP_VERSION));
	put_str(b, p->name);
	put_u32(b, dest_n);
	put_u32(b, p->secret_n);
	put_wild(b, k, dest_n);
	put_u32(b, n);
	buf_adds(b, buf_str(&ports));
	buf_fini(&ports);
}

static void put_secret(struct record *r, const struct pol_secret *s, uint32_t i)
{
	put_u8(&r->key, KEY_SECRET);
	put_u8(&r->key, (uint8_t)(i >> 24));
	put_u8(&r->key, (uint8_t)(i >> 16));
	put_u8(&r->key, (uint8_t)(i >> 8));
	put_u8(&r->key, (uint8_t)i);
	put_u8(&r->value, (uint8_t)s->source);
	put_str(&r->value, s->name);
	put_str(&r->value, s->arg);
	put_u32(&r->value, s->host_n);
	for (unsigned k = 0; k < s->host_n; k++)
		put_str(&r->value, s->hosts[k]);
	put_u8(&r->value, s->follow ? SECRET_FLAG_FOLLOW : 0);
	put_u8(&r->value, (uint8_t)s->token);
	put_u32(&r->value, s->refresh_s);
	put_u32(&r->value, s->param_n);
	for (unsigned k = 0; k < s->param_n; k++) {
		put_u8(&r->value, (uint8_t)s->params[k].tag);
		if (s->params[k].tag == SECRET_PARAM_CA) {
			put_u32(&r->value, (uint32_t)s->params[k].text.n);
			buf_adds(&r->value, s->params[k].text);
		} else {
			put_str(&r->value, s->params[k].text);
		}
	}
}

/* In key order: header, secrets, sandbox, destinations. */
static int make_records(const struct policy *p, struct records *rs, struct err *err)
{
	struct keyed *k = must_calloc(p->dest_n + 1ul, sizeof(*k));
	struct record *r;
	EVP_MD_CTX *md = EVP_MD_CTX_new();
	unsigned dest_n = order_dests(p, k);
	int ret = 0;

	r = add(rs);
	put_u8(&r->key, KEY_HEADER);
	put_header(&r->value, p, k, dest_n);
	for (unsigned i = 0; i < p->secret_n; i++)
		put_secret(add(rs), &p->secrets[i], i);
	r = add(rs);
	put_u8(&r->key, KEY_SANDBOX);
	put_u32(&r->value, p->sandbox_n);
	for (unsigned i = 0; i < p->sandbox_n; i++) {
		put_str(&r->value, p->sandbox[i].key);
		put_str(&r->value, p->sandbox[i].value);
	}
	for (unsigned i = 0; i < dest_n && ret == 0; i++) {
		r = add(rs);
		buf_add(&r->key, k[i].key, k[i].n);
		ret = put_dest(&r->value, p, k[i].d, k[i].shadowed, i, err);
	}
	MUST(md != NULL && EVP_DigestInit_ex(md, EVP_sha256(), NULL) == 1);
	for (size_t i = 0; i < rs->n; i++)
		table_digest_record(md, buf_str(&rs->r[i].key), buf_str(&rs->r[i].value));
	MUST(EVP_DigestFinal_ex(md, buf_data(&rs->r[0].value) + 12, NULL) == 1);
	EVP_MD_CTX_free(md);
	free(k);
	return ret;
}

/* --- the file ------------------------------------------------------------------------------------------------------ */

static int write_lmdb(const struct records *rs, int fd, struct err *err)
{
	MDB_env *env = NULL;
	MDB_txn *txn = NULL;
	MDB_dbi dbi;
	char path[64];
	size_t size = 64 * IMAGE_PAGE;
	int rc;

	for (size_t i = 0; i < rs->n; i++)
		size += buf_len(&rs->r[i].key) + buf_len(&rs->r[i].value) + IMAGE_PAGE;
	size = (2 * size + IMAGE_PAGE - 1) / IMAGE_PAGE * IMAGE_PAGE;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	rc = mdb_env_create(&env);
	if (rc == 0)
		rc = mdb_env_set_mapsize(env, size);
	if (rc == 0)
		rc = mdb_env_open(env, path, MDB_NOSUBDIR | MDB_NOLOCK | MDB_NOSYNC, 0600);
	if (rc == 0)
		rc = mdb_txn_begin(env, NULL, 0, &txn);
	if (rc == 0)
		rc = mdb_dbi_open(txn, NULL, 0, &dbi);
	for (size_t i = 0; rc == 0 && i < rs->n; i++) {
		MDB_val k = { buf_len(&rs->r[i].key), buf_data(&rs->r[i].key) }, v = { buf_len(&rs->r[i].value), buf_data(&rs->r[i].value) };

		rc = mdb_put(txn, dbi, &k, &v, MDB_APPEND);
	}
	if (rc == 0) {
		rc = mdb_txn_commit(txn);
		txn = NULL;
	}
	if (txn != NULL)
		mdb_txn_abort(txn);
	if (env != NULL)
		mdb_env_close(env);
	return rc == 0 ? 0 : err_set(err, rc, "cannot write the table: %s", mdb_strerror(rc));
}

/* Normal form, and the same check that the gateway makes: a table that it would refuse is never handed out. */
static int finish(int fd, struct err *err)
{
	uint8_t digest[TABLE_DIGEST_LEN], *p;
	struct stat st;
	int ret;

	if (fstat(fd, &st) != 0)
		return err_errno(err, "the table");
	p = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return err_errno(err, "cannot map the table");
	image_normalise(p, (size_t)st.st_size);
	ret = table_check(p, (size_t)st.st_size, digest, err);
	munmap(p, (size_t)st.st_size);
	return ret < 0 ? err_wrap(err, "the compiler made a table that is not good (a fault of sallyport's own)") : 0;
}

int policy_image(const struct policy *p, int *out, struct err *err)
{
	struct records rs = { 0 };
	int fd = -1, ret = -1;

	if (make_records(p, &rs, err) < 0)
		goto out;
	fd = memfd_create("sallyport-table", MFD_CLOEXEC);
	if (fd < 0) {
		err_errno(err, "memfd");
		goto out;
	}
	if (write_lmdb(&rs, fd, err) < 0 || finish(fd, err) < 0)
		goto out;
	*out = fd;
	fd = -1;
	ret = 0;
out:
	if (fd >= 0)
		close(fd);
	for (size_t i = 0; i < rs.n; i++) {
		buf_fini(&rs.r[i].key);
		buf_fini(&rs.r[i].value);
	}
	free(rs.r);
	return ret;
}

static int copy(int from, int to)
{
	uint8_t b[65536];
	off_t at = 0;
	ssize_t n;

	while ((n = pread(from, b, sizeof(b), at)) > 0) {
		for (ssize_t done = 0, k; done < n; done += k) {
			k = write(to, b + done, (size_t)(n - done));
			if (k < 0)
				return -1;
		}
		at += n;
	}
	return n < 0 ? -1 : 0;
}

int policy_put(int table, const char *out, struct err *err)
{
	struct buf tmp = { 0 };
	const char *slash = strrchr(out, '/');
	char *name = NULL, *dir = NULL;
	mode_t mask = umask(0);
	int fd = -1, dir_fd = -1, ret = -1;

	umask(mask);
	buf_addf(&tmp, "%s.XXXXXX", out);
	buf_addc(&tmp, 0);
	name = must_strdup((const char *)buf_data(&tmp));
	dir = slash == NULL ? must_strdup(".") : must_strdup(out);
	if (slash != NULL)
		dir[slash - out + 1] = 0;
	fd = mkostemp(name, O_CLOEXEC);
	if (fd < 0) {
		err_errno(err, "cannot write the table %s", out);
		goto out;
	}
	if (copy(table, fd) < 0 || fchmod(fd, 0666 & ~mask) != 0 || fsync(fd) != 0 || rename(name, out) != 0) {
		err_errno(err, "cannot write the table %s", out);
		unlink(name);
		goto out;
	}
	dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* the new name is to outlast a crash too; where that cannot be had, it is not an error */
	if (dir_fd >= 0)
		fsync(dir_fd);
	ret = 0;
out:
	if (fd >= 0)
		close(fd);
	if (dir_fd >= 0)
		close(dir_fd);
	free(name);
	free(dir);
	buf_fini(&tmp);
	return ret;
}

int policy_write(const struct policy *p, const char *out, struct err *err)
{
	int table, ret;

	if (policy_image(p, &table, err) < 0)
		return -1;
	ret = policy_put(table, out, err);
	close(table);
	return ret;
}
