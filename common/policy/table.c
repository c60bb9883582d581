/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the compiled table. liblmdb trusts its file, so it is only used to write one; this is a walk of our own over
 * the pages (LMDB 0.9 data version 1, 64 bit), which believes nothing: each page once, each offset inside its page, keys
 * in order. table_check walks with the digest and loads every value; table_open walks again (the file is sealed since it
 * was checked) and keeps a hash index over the mapped records, so that a look-up is one probe and nothing is opened.
 *
 * Destination value: u32 index, u8 flags, u8 tls_min, u16 connect port, u8 family, 16 octets address, str host, str id,
 * str source, u16 n x { u8 family, 16 octets, u8 bits } addresses, u16 n x { u32 length, DER } CAs, u16 n x { u8 kind,
 * u32 secret, str secret name, str username, str name, str format, str env } injections, u16 n x rule { u8 flags, u16 n x
 * str method, str pattern, str id, str source }.
 */
#include "table.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "../base/must.h"
#include "dest_value.h"
#include "format.h"
#include "sandbox_spec.h"

#define PAGE_HDR 16
#define P_BRANCH 0x01
#define P_LEAF 0x02
#define P_OVERFLOW 0x04
#define P_META 0x08
#define F_BIGDATA 0x01
#define DEPTH_MAX 32
#define LMDB_MAGIC 0xBEEFC0DEu
#define LMDB_VERSION 1u
#define KEY_MAX 511

struct rec {
	struct str key, value;
};
struct walk {
	const uint8_t *p;
	size_t n, psize;
	uint64_t pages;
	uint8_t *seen;          /* a bit per page */
	struct str last_key;
	bool any;
	bool (*fn)(void *arg, struct str key, struct str value, struct err *err);
	void *arg;
	struct err *err;
};

static uint16_t le16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }
static uint32_t le32(const uint8_t *p) { return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24; }
static uint64_t le64(const uint8_t *p) { return (uint64_t)le32(p) | (uint64_t)le32(p + 4) << 32; }

static bool damaged(struct walk *w, const char *what)
{
	err_set(w->err, EBADMSG_TABLE, "the table is damaged: %s", what);
	return false;
}

static int key_cmp(struct str a, struct str b)
{
	size_t n = a.n < b.n ? a.n : b.n;
	int r = n ? memcmp(a.p, b.p, n) : 0;

	return r ? r : a.n < b.n ? -1 : a.n > b.n;
}

static const uint8_t *page(struct walk *w, uint64_t pgno, uint16_t kind)
{
	const uint8_t *p;

	if (pgno < 2 || pgno >= w->pages) {
		damaged(w, "a page outside the file");
		return NULL;
	}
	if (w->seen[pgno / 8] & 1u << pgno % 8) {
		damaged(w, "a page used twice");
		return NULL;
	}
	w->seen[pgno / 8] |= (uint8_t)(1u << pgno % 8);
	p = w->p + pgno * w->psize;
	if (le64(p) != pgno || (kind && le16(p + 10) != kind)) {
		damaged(w, "a page header");
		return NULL;
	}
	return p;
}

static bool leaf_value(struct walk *w, const uint8_t *node, size_t room, size_t ksize, struct str *value)
{
	uint32_t size = (uint32_t)le16(node) | (uint32_t)le16(node + 2) << 16;
	uint16_t flags = le16(node + 4);
	const uint8_t *ov;
	uint64_t pgno, count, need;

	if (flags == 0) {
		if (8 + ksize + size > room)
			return damaged(w, "a value runs over its page");
		*value = str_mk(node + 8 + ksize, size);
		return true;
	}
	if (flags != F_BIGDATA || 8 + ksize + 8 > room)
		return damaged(w, "a node's flags");
	pgno = le64(node + 8 + ksize);
	ov = page(w, pgno, P_OVERFLOW);
	if (ov == NULL)
		return false;
	count = le32(ov + 12);
	need = ((uint64_t)size + PAGE_HDR + w->psize - 1) / w->psize;
	if (count != need || pgno + count > w->pages)
		return damaged(w, "an overflow run");
	for (uint64_t i = 1; i < count; i++) {
		if (w->seen[(pgno + i) / 8] & 1u << (pgno + i) % 8)
			return damaged(w, "an overflow page used twice");
		w->seen[(pgno + i) / 8] |= (uint8_t)(1u << (pgno + i) % 8);
	}
	*value = str_mk(ov + PAGE_HDR, size);
	return true;
}

static bool walk_page(struct walk *w, uint64_t pgno, unsigned depth, unsigned want_depth)
{
	const uint8_t *p = page(w, pgno, depth + 1 == want_depth ? P_LEAF : P_BRANCH);
	size_t lower, upper, count;

	if (p == NULL)
		return false;
	lower = le16(p + 12);
	upper = le16(p + 14);
	if (lower < PAGE_HDR || lower > upper || upper > w->psize || (lower - PAGE_HDR) % 2 != 0)
		return damaged(w, "a page's bounds");
	count = (lower - PAGE_HDR) / 2;
	if (count == 0)
		return damaged(w, "an empty page");
	for (size_t i = 0; i < count; i++) {
		size_t off = le16(p + PAGE_HDR + 2 * i), ksize;
		const uint8_t *node = p + off;

		if (off < upper || off + 8 > w->psize || off % 2 != 0)
			return damaged(w, "a node outside its page");
		ksize = le16(node + 6);
		if (ksize > KEY_MAX || off + 8 + ksize > w->psize)
			return damaged(w, "a key runs over its page");
		if (le16(p + 10) == P_LEAF) {
			struct str key = str_mk(node + 8, ksize), value;

			if (ksize == 0 || (w->any && key_cmp(w->last_key, key) >= 0))
				return damaged(w, "keys out of order");
			w->last_key = key;
			w->any = true;
			if (!leaf_value(w, node, w->psize - off, ksize, &value) || !w->fn(w->arg, key, value, w->err))
				return false;
		} else {
			uint64_t child = (uint64_t)le16(node) | (uint64_t)le16(node + 2) << 16 | (uint64_t)le16(node + 4) << 32;
			struct str bound = str_mk(node + 8, ksize);

			if (i > 0 && w->any && key_cmp(w->last_key, bound) >= 0)
				return damaged(w, "branch keys out of order");
			if (!walk_page(w, child, depth + 1, want_depth))
				return false;
		}
	}
	return true;
}

/* Calls fn for every record in order. */
static bool walk_table(const uint8_t *p, size_t n, bool (*fn)(void *, struct str, struct str, struct err *), void *arg, struct err *err)
{
	struct walk w = { .p = p, .n = n, .fn = fn, .arg = arg, .err = err };
	const uint8_t *meta = NULL;
	uint64_t best = 0, root, last;
	unsigned depth;
	bool ok = false;

	if (n < 2 * 512 + 152)
		return damaged(&w, "too short");
	w.psize = le32(p + PAGE_HDR + 24);
	if (w.psize != 4096 || n % w.psize != 0 || n / w.psize < 2)
		return damaged(&w, "its page size");
	w.pages = n / w.psize;
	for (unsigned i = 0; i < 2; i++) {
		const uint8_t *m = p + i * w.psize + PAGE_HDR;
		uint64_t txn = le64(m + 128);

		if (le64(p + i * w.psize) != i || le16(p + i * w.psize + 10) != P_META || le32(m) != LMDB_MAGIC || le32(m + 4) != LMDB_VERSION || le32(m + 24) != w.psize)
			return damaged(&w, "a meta page");
		if (meta == NULL || txn > best) {
			meta = m;
			best = txn;
		}
	}
	/* main database: flags 0 (keys are plain octets, no duplicates) */
	if (le16(meta + 24 + 48 + 4) != 0)
		return damaged(&w, "its database flags");
	depth = le16(meta + 24 + 48 + 6);
	root = le64(meta + 24 + 48 + 40);
	last = le64(meta + 120);
	if (last >= w.pages || depth == 0 || depth > DEPTH_MAX)
		return damaged(&w, "its root");
	w.seen = must_calloc(1, w.pages / 8 + 1);
	ok = walk_page(&w, root, 0, depth);
	free(w.seen);
	return ok;
}

/* --- values -------------------------------------------------------------------------------------------------------- */

static bool get_ip(struct cursor *c, struct ip *ip)
{
	const uint8_t *p;

	ip->family = get_u8(c);
	p = cur_take(c, 16);
	if (p == NULL || (ip->family != 0 && ip->family != 4 && ip->family != 6)) {
		c->bad = true;
		return false;
	}
	memcpy(ip->b, p, 16);
	return true;
}

bool dest_value_load(struct str v, struct dest_value *d)
{
	struct cursor c = { (const uint8_t *)v.p, v.n, 0, false };
	uint16_t n;

	memset(d, 0, sizeof(*d));
	d->base = c.p;
	d->index = get_u32(&c);
	d->flags = get_u8(&c);
	d->tls_min = get_u8(&c);
	d->connect_port = get_u16(&c);
	get_ip(&c, &d->connect_ip);
	d->host = get_str(&c);
	d->id = get_str(&c);
	d->source = get_str(&c);
	d->addresses = (struct cursor){ c.p, c.n, c.at, c.bad };
	for (n = get_u16(&c); n > 0 && !c.bad; n--) {
		struct ip ip;
		unsigned bits;

		get_ip(&c, &ip);
		bits = get_u8(&c);
		if (ip.family == 0 || bits > (ip.family == 4 ? 32u : 128u))
			c.bad = true;
	}
	d->cas = (struct cursor){ c.p, c.n, c.at, c.bad };
	for (n = get_u16(&c); n > 0 && !c.bad; n--)
		cur_take(&c, get_u32(&c));
	d->injects = (struct cursor){ c.p, c.n, c.at, c.bad };
	for (n = get_u16(&c); n > 0 && !c.bad; n--) {
		uint8_t kind = get_u8(&c);

		if (kind == INJECT_NONE || kind > INJECT_HEADER)
			c.bad = true;
		get_u32(&c);
		for (int i = 0; i < 5; i++)
			get_str(&c);
	}
	d->rules = (struct cursor){ c.p, c.n, c.at, c.bad };
	for (n = get_u16(&c); n > 0 && !c.bad; n--) {
		struct rule_value r;

		if (!rule_value_next(&c, &r))
			c.bad = true;
	}
	return !c.bad && c.at == c.n && d->tls_min <= 13;
}

bool rule_value_next(struct cursor *c, struct rule_value *r)
{
	r->flags = get_u8(c);
	r->method_n = get_u16(c);
	r->methods = (struct cursor){ c->p, c->n, c->at, c->bad };
	for (unsigned i = 0; i < r->method_n && !c->bad; i++)
		get_str(c);
	r->pattern = get_str(c);
	r->id = get_str(c);
	r->source = get_str(c);
	return !c->bad && r->pattern.n > 0 && (r->flags & ~(RULE_DENY | RULE_ANY)) == 0;
}

struct header {
	struct str compiler, name;
	const uint8_t *digest;
	uint8_t flags;
	uint32_t dests, secrets;
};

static bool load_header(struct str v, struct header *h)
{
	struct cursor c = { (const uint8_t *)v.p, v.n, 0, false };
	const uint8_t *magic = cur_take(&c, 8);

	if (magic == NULL || memcmp(magic, TABLE_MAGIC, 8) != 0 || get_u32(&c) != TABLE_FORMAT)
		return false;
	h->compiler = get_str(&c);
	h->digest = cur_take(&c, 32);
	h->flags = get_u8(&c);
	h->name = get_str(&c);
	h->dests = get_u32(&c);
	h->secrets = get_u32(&c);
	get_u8(&c);
	return !c.bad && c.at == c.n;
}

static bool load_secret(struct str v, struct secret_decl *s, struct cursor *hosts)
{
	struct cursor c = { (const uint8_t *)v.p, v.n, 0, false };

	s->source = get_u8(&c);
	s->name = get_str(&c);
	s->arg = get_str(&c);
	*hosts = c;
	for (uint16_t n = get_u16(&c); n > 0 && !c.bad; n--)
		get_str(&c);
	return !c.bad && c.at == c.n && (s->source == SECRET_SOURCE_ENV || s->source == SECRET_SOURCE_FILE) && s->name.n > 0;
}

/* --- checking ------------------------------------------------------------------------------------------------------ */

struct check {
	EVP_MD_CTX *md;
	struct header h;
	bool have_header, have_sandbox;
	uint32_t dests, secrets;
	uint8_t *index_seen;
};

static void md_u32(EVP_MD_CTX *md, uint32_t v)
{
	uint8_t p[4] = { (uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16), (uint8_t)(v >> 24) };

	EVP_DigestUpdate(md, p, 4);
}

void table_digest_record(struct evp_md_ctx_st *md, struct str key, struct str value)
{
	md_u32(md, (uint32_t)key.n);
	EVP_DigestUpdate(md, key.p, key.n);
	md_u32(md, (uint32_t)value.n);
	EVP_DigestUpdate(md, value.p, value.n);
}

static bool check_record(void *arg, struct str key, struct str value, struct err *err)
{
	struct check *k = arg;
	const char *what = NULL;
	struct dest_value d;
	struct secret_decl s;
	struct cursor hosts;

	if (key.n == 1 && key.p[0] == 0) {
		k->have_header = true;
		if (!load_header(value, &k->h))
			what = "the header, or another format version";
		else if (k->h.dests > 10000000)
			what = "the header";
		if (what == NULL)
			return true;
		err_set(err, 1, "the table is damaged: %s", what);
		return false;
	}
	if (!k->have_header)
		what = "there is no header";
	else if (key.n == 5 && key.p[0] == 1)
		what = load_secret(value, &s, &hosts) && (uint32_t)((uint8_t)key.p[1] << 24 | (uint8_t)key.p[2] << 16 | (uint8_t)key.p[3] << 8 | (uint8_t)key.p[4]) == k->secrets++ ? NULL : "a secret";
	else if (key.n == 1 && key.p[0] == 2)
		k->have_sandbox = true;
	else if (key.n > 4 && key.p[0] == 3) {
		struct cursor c;

		if (!dest_value_load(value, &d) || d.index != k->dests++) {
			what = "a destination";
		} else {
			c = d.injects;
			for (uint16_t n = get_u16(&c); n > 0; n--) {
				get_u8(&c);
				if (get_u32(&c) >= k->h.secrets)
					what = "an injection";
				for (int i = 0; i < 5; i++)
					get_str(&c);
			}
		}
	} else
		what = "a record of an unknown kind";
	if (what != NULL) {
		err_set(err, 1, "the table is damaged: %s", what);
		return false;
	}
	table_digest_record(k->md, key, value);
	return true;
}

int table_check(const uint8_t *p, size_t n, uint8_t digest[TABLE_DIGEST_LEN], struct err *err)
{
	struct check k = { 0 };
	unsigned len = 0;
	int ret = -1;

	k.md = EVP_MD_CTX_new();
	MUST(k.md != NULL && EVP_DigestInit_ex(k.md, EVP_sha256(), NULL) == 1);
	if (!walk_table(p, n, check_record, &k, err))
		goto out;
	EVP_DigestFinal_ex(k.md, digest, &len);
	if (!k.have_header || memcmp(digest, k.h.digest, 32) != 0 || k.dests != k.h.dests || k.secrets != k.h.secrets) {
		err_set(err, 1, "the table is damaged: its digest or counts differ");
		goto out;
	}
	ret = 0;
out:
	EVP_MD_CTX_free(k.md);
	return ret;
}

/* --- an open table ------------------------------------------------------------------------------------------------- */

struct table {
	const uint8_t *map;
	size_t len;
	struct header h;
	struct rec *dests;   /* in key order; index = record index */
	size_t dest_n, dest_cap;
	struct rec *secrets;
	size_t secret_n, secret_cap;
	struct str sandbox;
	uint32_t *hash;      /* slot -> dest + 1 */
	uint32_t mask;
	uint8_t ports[65536 / 8];
};

static bool load_record(void *arg, struct str key, struct str value, struct err *err)
{
	struct table *t = arg;

	if (key.n == 1 && key.p[0] == 0) {
		if (!load_header(value, &t->h)) {
			err_set(err, 1, "the table has another format version");
			return false;
		}
	} else if (key.n == 1 && key.p[0] == 2) {
		t->sandbox = value;
	} else if (key.p[0] == 1) {
		if (t->secret_n == t->secret_cap) {
			t->secret_cap = t->secret_cap ? t->secret_cap * 2 : 16;
			t->secrets = must_realloc(t->secrets, t->secret_cap * sizeof(*t->secrets));
		}
		t->secrets[t->secret_n++] = (struct rec){ key, value };
	} else {
		uint16_t port = (uint16_t)((uint8_t)key.p[2] << 8 | (uint8_t)key.p[3]);

		if (t->dest_n == t->dest_cap) {
			t->dest_cap = t->dest_cap ? t->dest_cap * 2 : 64;
			t->dests = must_realloc(t->dests, t->dest_cap * sizeof(*t->dests));
		}
		t->dests[t->dest_n++] = (struct rec){ key, value };
		t->ports[port / 8] |= (uint8_t)(1u << port % 8);
	}
	return true;
}

int table_open(struct table **out, int fd, struct err *err)
{
	struct table *t = must_calloc(1, sizeof(*t));
	struct stat st;
	uint32_t cap = 16;

	if (fstat(fd, &st) != 0 || st.st_size <= 0) {
		free(t);
		return err_errno(err, "the table");
	}
	t->len = (size_t)st.st_size;
	t->map = mmap(NULL, t->len, PROT_READ, MAP_SHARED, fd, 0);
	if (t->map == MAP_FAILED) {
		free(t);
		return err_errno(err, "the table");
	}
	if (!walk_table(t->map, t->len, load_record, t, err)) {
		table_free(t);
		return -1;
	}
	while (cap < t->dest_n * 2)
		cap *= 2;
	t->mask = cap - 1;
	t->hash = must_calloc(cap, sizeof(*t->hash));
	for (size_t i = 0; i < t->dest_n; i++) {
		uint32_t s = (uint32_t)hash_bytes(t->dests[i].key.p, t->dests[i].key.n) & t->mask;

		while (t->hash[s] != 0)
			s = (s + 1) & t->mask;
		t->hash[s] = (uint32_t)i + 1;
	}
	*out = t;
	return 0;
}

void table_free(struct table *t)
{
	if (t == NULL)
		return;
	munmap((void *)(uintptr_t)t->map, t->len);
	free(t->dests);
	free(t->secrets);
	free(t->hash);
	free(t);
}

struct str table_name(const struct table *t) { return t->h.name; }
const uint8_t *table_digest(const struct table *t) { return t->h.digest; }
bool table_explain_denials(const struct table *t) { return (t->h.flags & TABLE_FLAG_EXPLAIN) != 0; }
bool table_port_known(const struct table *t, uint16_t port) { return (t->ports[port / 8] & 1u << port % 8) != 0; }

size_t table_key(uint8_t out[TABLE_KEY_MAX], uint8_t scheme, uint16_t port, struct str host)
{
	size_t n = 4, end = host.n;

	out[0] = 3;
	out[1] = scheme;
	out[2] = (uint8_t)(port >> 8);
	out[3] = (uint8_t)port;
	/* labels from the last to the first, so that hosts of one domain stand together; address literals alike, it does not matter */
	while (end > 0 && n + host.n + 1 < TABLE_KEY_MAX) {
		size_t b = end;

		while (b > 0 && host.p[b - 1] != '.')
			b--;
		memcpy(out + n, host.p + b, end - b);
		n += end - b;
		end = b;
		if (end > 0) {
			out[n++] = '.';
			end--;
		}
	}
	return n;
}

static int load_dest(const struct table *t, size_t i, struct dest *out)
{
	struct dest_value v;
	struct cursor c;

	if (!dest_value_load(t->dests[i].value, &v))
		return -1;
	memset(out, 0, sizeof(*out));
	out->table = t;
	out->value = (const uint8_t *)t->dests[i].value.p;
	out->value_len = (uint32_t)t->dests[i].value.n;
	out->id = v.id;
	out->source = v.source;
	out->index = v.index;
	out->tunnel = (v.flags & DEST_FLAG_TUNNEL) != 0;
	out->log_query = (v.flags & DEST_FLAG_LOG_QUERY) != 0;
	out->paths = (struct canon_path_opts){ .encoded_slash_keep = v.flags & DEST_FLAG_ENCODED_SLASH, .empty_segments_keep = v.flags & DEST_FLAG_EMPTY_SEGMENTS, .raw = v.flags & DEST_FLAG_RAW };
	out->connect_ip = v.connect_ip;
	out->connect_port = v.connect_port;
	out->tls_min = v.tls_min;
	c = v.cas;
	out->has_ca = get_u16(&c) > 0;
	c = v.injects;
	out->has_inject = get_u16(&c) > 0;
	return 1;
}

int table_find(const struct table *t, enum scheme scheme, struct str host, uint16_t port, struct dest *out)
{
	uint8_t key[TABLE_KEY_MAX];
	size_t n;
	uint32_t s;

	if (host.n == 0 || host.n > CANON_HOST_MAX)
		return 0;
	n = table_key(key, (uint8_t)scheme, port, host);
	for (s = (uint32_t)hash_bytes(key, n) & t->mask; t->hash[s] != 0; s = (s + 1) & t->mask) {
		size_t i = t->hash[s] - 1;

		if (t->dests[i].key.n == n && memcmp(t->dests[i].key.p, key, n) == 0)
			return load_dest(t, i, out);
	}
	return 0;
}

bool table_host_known(const struct table *t, struct str host)
{
	uint8_t want[TABLE_KEY_MAX];
	size_t n;

	if (host.n == 0 || host.n > CANON_HOST_MAX)
		return false;
	n = table_key(want, 0, 0, host);
	for (size_t i = 0; i < t->dest_n; i++)
		if (t->dests[i].key.n == n && memcmp(t->dests[i].key.p + 4, want + 4, n - 4) == 0)
			return true;
	return false;
}

bool dest_address_ok(const struct dest *d, const struct ip *a, const char **why)
{
	struct dest_value v;
	struct cursor c;
	uint16_t n;
	enum ip_class class = ip_classify(a, why);
	struct ip inner;

	if (class == IP_FORBIDDEN_ALWAYS || !dest_value_load(str_mk(d->value, d->value_len), &v))
		return false;
	c = v.addresses;
	n = get_u16(&c);
	if (n == 0)
		return class == IP_PUBLIC;
	for (; n > 0; n--) {
		struct cidr net;

		get_ip(&c, &net.net);
		net.bits = get_u8(&c);
		if (cidr_has(&net, a) || (ip_embedded_v4(a, &inner) && net.net.family == 4 && cidr_has(&net, &inner)))
			return true;
	}
	*why = "not among the destination's addresses";
	return false;
}

bool dest_addresses_listed(const struct dest *d)
{
	struct dest_value v;
	struct cursor c;

	if (!dest_value_load(str_mk(d->value, d->value_len), &v))
		return false;
	c = v.addresses;
	return get_u16(&c) > 0;
}

bool dest_ca(const struct dest *d, unsigned i, struct str *der)
{
	struct dest_value v;
	struct cursor c;

	if (!dest_value_load(str_mk(d->value, d->value_len), &v))
		return false;
	c = v.cas;
	for (unsigned n = get_u16(&c), k = 0; k < n; k++) {
		size_t len = get_u32(&c);
		const uint8_t *p = cur_take(&c, len);

		if (k == i && p != NULL) {
			*der = str_mk(p, len);
			return true;
		}
	}
	return false;
}

unsigned dest_inject_count(const struct dest *d)
{
	struct dest_value v;
	struct cursor c;

	if (!dest_value_load(str_mk(d->value, d->value_len), &v))
		return 0;
	c = v.injects;
	return get_u16(&c);
}

bool dest_inject(const struct dest *d, unsigned i, struct inject *out)
{
	struct dest_value v;
	struct cursor c;

	if (!dest_value_load(str_mk(d->value, d->value_len), &v))
		return false;
	c = v.injects;
	for (unsigned n = get_u16(&c), k = 0; k < n; k++) {
		out->kind = get_u8(&c);
		out->secret_index = get_u32(&c);
		out->secret_name = get_str(&c);
		out->username = get_str(&c);
		out->name = get_str(&c);
		out->format = get_str(&c);
		out->env = get_str(&c);
		if (k == i)
			return !c.bad;
	}
	return false;
}

unsigned table_secret_count(const struct table *t) { return (unsigned)t->secret_n; }

bool table_secret(const struct table *t, unsigned i, struct secret_decl *out)
{
	struct cursor hosts;

	if (i >= t->secret_n || !load_secret(t->secrets[i].value, out, &hosts))
		return false;
	out->index = i;
	return true;
}

bool table_secret_host_ok(const struct table *t, uint32_t i, struct str host)
{
	struct secret_decl s;
	struct cursor c;

	if (i >= t->secret_n || !load_secret(t->secrets[i].value, &s, &c))
		return false;
	for (uint16_t n = get_u16(&c); n > 0; n--)
		if (str_eq(get_str(&c), host))
			return true;
	return false;
}

bool table_dest_each(const struct table *t, bool (*fn)(void *arg, const struct dest *d), void *arg)
{
	struct dest d;

	for (size_t i = 0; i < t->dest_n; i++)
		if (load_dest(t, i, &d) != 1 || !fn(arg, &d))
			return false;
	return true;
}

struct str dest_host(const struct dest *d)
{
	struct dest_value v;

	return dest_value_load(str_mk(d->value, d->value_len), &v) ? v.host : STR_NONE;
}

bool table_inject_each(const struct table *t, bool (*fn)(void *arg, const struct inject *in), void *arg)
{
	struct dest d;
	struct inject in;

	for (size_t i = 0; i < t->dest_n; i++) {
		if (load_dest(t, i, &d) != 1)
			return false;
		for (unsigned k = 0, n = dest_inject_count(&d); k < n; k++)
			if (!dest_inject(&d, k, &in) || !fn(arg, &in))
				return false;
	}
	return true;
}

/* --- the sandbox section ------------------------------------------------------------------------------------------- */

static bool list_add(struct str_list *l, struct str s)
{
	if (l->n == SPEC_LIST_MAX)
		return false;
	l->s[l->n++] = s;
	return true;
}

bool sandbox_spec_load(const struct table *t, struct sandbox_spec *o)
{
	struct cursor c = { (const uint8_t *)t->sandbox.p, t->sandbox.n, 0, false };
	bool ok = true;

	memset(o, 0, sizeof(*o));
	if (t->sandbox.n == 0)
		return true;
	for (uint16_t n = get_u16(&c); n > 0 && !c.bad; n--) {
		struct str k = get_str(&c), v = get_str(&c);
		uint64_t u = 0;
		struct { const char *key; struct str *s; struct str_list *l; uint64_t *u; } rows[] = {
			{ "isolation", &o->isolation, NULL, NULL }, { "filesystem.root", &o->root, NULL, NULL }, { "filesystem.home", &o->home, NULL, NULL },
			{ "filesystem.write", NULL, &o->write, NULL }, { "filesystem.read", NULL, &o->read, NULL }, { "filesystem.hide", NULL, &o->hide, NULL },
			{ "filesystem.protect", NULL, &o->protect, NULL }, { "filesystem.scratch", NULL, NULL, &o->scratch }, { "process.user", &o->user, NULL, NULL },
			{ "process.environment.keep", NULL, &o->keep, NULL }, { "process.environment.set.name", NULL, &o->set_name, NULL },
			{ "process.environment.set.value", NULL, &o->set_value, NULL }, { "resources.memory", NULL, NULL, &o->memory },
			{ "resources.cpus", NULL, NULL, &o->cpus_milli }, { "resources.processes", NULL, NULL, &o->processes },
			{ "resources.open_files", NULL, NULL, &o->open_files }, { "resources.wall_time", NULL, NULL, &o->wall_ms },
			{ "resources.idle_time", NULL, NULL, &o->idle_ms }, { "on_misuse", &o->on_misuse, NULL, NULL },
			{ "on_gateway_loss", &o->on_gateway_loss, NULL, NULL }, { "require", NULL, &o->require, NULL } };

		for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
			if (!str_eq(k, str_of(rows[i].key)))
				continue;
			if (rows[i].s != NULL)
				*rows[i].s = v;
			else if (rows[i].l != NULL)
				ok = list_add(rows[i].l, v) && ok;
			else if (str_u64(v, UINT64_MAX, &u))
				*rows[i].u = u;
		}
	}
	return ok && !c.bad;
}
