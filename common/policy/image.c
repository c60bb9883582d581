/* SPDX-License-Identifier: Apache-2.0 */
/*
 * liblmdb trusts its file; this believes nothing. A page is used once, an offset is inside its page, nodes tile the part
 * of the page that is in use, keys ascend, a separator is the first key below it, and whatever is left is zero: an image
 * has one form, so that a changed octet is an error even where nothing reads it.
 *
 * Page: u64 number, u16 pad, u16 flags, u16 lower, u16 upper (or u32 pages of an overflow run), then u16 offsets of
 * nodes up to lower; nodes from upper to the end. Node: u16 u16 size (or child page), u16 flags (or more of it),
 * u16 key size, key, then the value or the u64 number of its overflow run; even lengths.
 * Meta page: header, u32 magic, u32 version, u64 address, u64 map size, two databases of 48 octets, u64 last page,
 * u64 transaction. Database: u32 pad, u16 flags, u16 depth, u64 branch, leaf, overflow pages, u64 entries, u64 root.
 */
#include "image.h"

#include <stdlib.h>

#include "../base/must.h"

#define PAGE IMAGE_PAGE
#define PAGE_HDR 16u
#define NODE_HDR 8u
#define P_BRANCH 0x01
#define P_LEAF 0x02
#define P_OVERFLOW 0x04
#define P_META 0x08
#define F_BIGDATA 0x01
#define DEPTH_MAX 16
#define LMDB_VERSION 1u
#define NO_PAGE UINT64_MAX
#define FREE_DB_FLAGS 0x4008 /* MDB_NOSUBDIR | MDB_INTEGERKEY */

enum { META_MAPSIZE = 16, META_FREE_DB = 24, META_MAIN_DB = 72, META_LAST = 120, META_TXN = 128, META_END = 136 };
enum { DB_PAD = 0, DB_FLAGS = 4, DB_DEPTH = 6, DB_BRANCH = 8, DB_LEAF = 16, DB_OVERFLOW = 24, DB_ENTRIES = 32, DB_ROOT = 40 };

static int damaged(struct err *err, const char *what) { return err_set(err, 1, "the table is damaged: %s", what); }

static bool zero(const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] != 0)
			return false;
	return true;
}

static int key_cmp(struct str a, struct str b)
{
	size_t n = a.n < b.n ? a.n : b.n;
	int r = n ? memcmp(a.p, b.p, n) : 0;

	return r ? r : a.n < b.n ? -1 : a.n > b.n;
}

/* --- meta pages ---------------------------------------------------------------------------------------------------- */

static bool meta_ok(const struct image *im, unsigned i)
{
	const uint8_t *page = im->p + i * PAGE, *m = page + PAGE_HDR, *free_db = m + META_FREE_DB;

	return le64(page) == i && le16(page + 8) == 0 && le16(page + 10) == P_META && le32(page + 12) == 0 && le32(m) == IMAGE_MAGIC &&
	       le32(m + 4) == LMDB_VERSION && le64(m + 8) == 0 && le64(m + META_MAPSIZE) == im->n && le32(free_db + DB_PAD) == PAGE &&
	       le16(free_db + DB_FLAGS) == FREE_DB_FLAGS && zero(free_db + DB_DEPTH, DB_ROOT - DB_DEPTH) && le64(free_db + DB_ROOT) == NO_PAGE &&
	       le64(m + META_TXN) == i && zero(m + META_END, PAGE - PAGE_HDR - META_END);
}

int image_open(struct image *im, const uint8_t *p, size_t n, struct err *err)
{
	const uint8_t *db;

	*im = (struct image){ .p = p, .n = n, .pages = n / PAGE };
	if (n < 3 * PAGE || n % PAGE != 0)
		return damaged(err, "its size");
	if (!meta_ok(im, 0) || !meta_ok(im, 1))
		return damaged(err, "a meta page");
	/* the first is as it was when the file was made, the second as the one transaction left it */
	db = p + PAGE_HDR + META_MAIN_DB;
	if (!zero(db, DB_ROOT) || le64(db + DB_ROOT) != NO_PAGE || le64(p + PAGE_HDR + META_LAST) != 1)
		return damaged(err, "its first meta page");
	db = p + PAGE + PAGE_HDR + META_MAIN_DB;
	im->depth = le16(db + DB_DEPTH);
	im->root = le64(db + DB_ROOT);
	if (le32(db + DB_PAD) != 0 || le16(db + DB_FLAGS) != 0 || im->depth == 0 || im->depth > DEPTH_MAX || im->root < 2 || im->root >= im->pages)
		return damaged(err, "its root");
	if (le64(p + PAGE + PAGE_HDR + META_LAST) != im->pages - 1)
		return damaged(err, "its last page");
	return 0;
}

/* --- pages and nodes ----------------------------------------------------------------------------------------------- */

/* Page and number of nodes, or NULL. */
static const uint8_t *page_at(const struct image *im, uint64_t number, uint16_t kind, size_t *count)
{
	const uint8_t *p;
	size_t lower, upper;

	if (number < 2 || number >= im->pages)
		return NULL;
	p = im->p + number * PAGE;
	lower = le16(p + 12);
	upper = le16(p + 14);
	if (le64(p) != number || le16(p + 10) != kind || lower <= PAGE_HDR || lower > upper || upper > PAGE || lower % 2 != 0)
		return NULL;
	*count = (lower - PAGE_HDR) / 2;
	return p;
}

/* Node i of a page and its key, or NULL. */
static const uint8_t *node_at(const uint8_t *page, size_t i, struct str *key)
{
	size_t off = le16(page + PAGE_HDR + 2 * i), n;

	if (off % 2 != 0 || off < le16(page + 14) || off > PAGE - NODE_HDR)
		return NULL;
	n = le16(page + off + 6);
	if (n > IMAGE_KEY_MAX || n > PAGE - NODE_HDR - off)
		return NULL;
	*key = str_mk(page + off + NODE_HDR, n);
	return page + off;
}

static uint64_t child_of(const uint8_t *node) { return (uint64_t)le32(node) | (uint64_t)le16(node + 4) << 32; }

/* Value of a leaf's node; *run is the number of its overflow run's first page, or 0, *used what the node takes. */
static bool value_of(const struct image *im, const uint8_t *page, const uint8_t *node, struct str key, struct str *value, uint64_t *run, size_t *used)
{
	size_t room = PAGE - (size_t)(node - page) - NODE_HDR - key.n;
	const uint8_t *data = node + NODE_HDR + key.n, *ov;
	uint32_t size = le32(node);

	*run = 0;
	if (le16(node + 4) == 0) {
		*used = NODE_HDR + key.n + size;
		*value = str_mk(data, size);
		return size <= room;
	}
	if (le16(node + 4) != F_BIGDATA || room < 8)
		return false;
	*used = NODE_HDR + key.n + 8;
	*run = le64(data);
	if (*run < 2 || *run >= im->pages)
		return false;
	ov = im->p + *run * PAGE;
	*value = str_mk(ov + PAGE_HDR, size);
	return le64(ov) == *run && le16(ov + 10) == P_OVERFLOW && le32(ov + 12) == ((uint64_t)size + PAGE_HDR + PAGE - 1) / PAGE && le32(ov + 12) <= im->pages - *run;
}

/* Whichever half is taken next, the node in its middle is on its way: what is searched is mostly not in a cache. */
static void ahead(const uint8_t *page, size_t low, size_t high)
{
	size_t mid = low + (high - low) / 2;

	__builtin_prefetch(page + le16(page + PAGE_HDR + 2 * (low + (mid - low) / 2)) % PAGE);
	__builtin_prefetch(page + le16(page + PAGE_HDR + 2 * (mid + (high - mid) / 2)) % PAGE);
}

/* The last node whose key is not above; the first of a branch page stands for everything below the second. NULL: damaged. */
static const uint8_t *search_page(const uint8_t *page, size_t count, struct str key, struct str *k)
{
	size_t low = 0;

	for (size_t high = count; high - low > 1;) {
		size_t mid = low + (high - low) / 2;

		if (high - low > 3)
			ahead(page, low, high);
		if (node_at(page, mid, k) == NULL)
			return NULL;
		if (key_cmp(*k, key) <= 0)
			low = mid;
		else
			high = mid;
	}
	return node_at(page, low, k);
}

static int in_leaf(const struct image *im, const uint8_t *page, const uint8_t *node, struct str k, struct str key, struct str *value)
{
	uint64_t run;
	size_t used;

	if (!str_eq(k, key))
		return 0;
	return value_of(im, page, node, k, value, &run, &used) ? 1 : -1;
}

int image_find_near(const struct image *im, struct image_place *near, struct str key, struct str *value)
{
	uint64_t number = im->root;
	const uint8_t *page, *node;
	struct str k;
	size_t count;

	if (near->page != NULL) { /* between its first key and its last: nowhere else */
		struct str last;

		if (node_at(near->page, 0, &k) == NULL || node_at(near->page, near->count - 1, &last) == NULL)
			return -1;
		if (key_cmp(k, key) <= 0 && key_cmp(last, key) >= 0) {
			node = search_page(near->page, near->count, key, &k);
			return node == NULL ? -1 : in_leaf(im, near->page, node, k, key, value);
		}
	}
	for (unsigned depth = im->depth; depth > 0; depth--) {
		page = page_at(im, number, depth == 1 ? P_LEAF : P_BRANCH, &count);
		node = page != NULL ? search_page(page, count, key, &k) : NULL;
		if (node == NULL)
			return -1;
		if (depth == 1) {
			*near = (struct image_place){ page, count };
			return in_leaf(im, page, node, k, key, value);
		}
		number = child_of(node);
	}
	return -1;
}

int image_find(const struct image *im, struct str key, struct str *value)
{
	struct image_place near = { 0 };

	return image_find_near(im, &near, key, value);
}

/* --- the walk ------------------------------------------------------------------------------------------------------ */

struct walk {
	const struct image *im;
	uint8_t *seen; /* a bit per page */
	uint64_t branches, leaves, overflows, entries;
	struct str last;
	bool any;
	struct str separator; /* the next key must be this one */
	bool expect;
	bool (*fn)(void *arg, struct str key, struct str value, struct err *err);
	void *arg;
	struct err *err;
};

static bool first_use(struct walk *w, uint64_t number)
{
	uint8_t bit = (uint8_t)(1u << number % 8);

	if (w->seen[number / 8] & bit)
		return false;
	w->seen[number / 8] |= bit;
	return true;
}

/* Marks a node's octets in a map of pairs; false if another node has them. The odd octet at its end must be zero. */
static bool claim(uint8_t map[PAGE / 2], const uint8_t *page, const uint8_t *node, size_t used)
{
	size_t off = (size_t)(node - page);

	if (used > PAGE - off || (used % 2 != 0 && (used == PAGE - off || node[used] != 0)))
		return false;
	for (size_t i = off / 2; i < (off + used + 1) / 2; i++) {
		if (map[i])
			return false;
		map[i] = 1;
	}
	return true;
}

static int leaf_record(struct walk *w, uint8_t map[PAGE / 2], const uint8_t *page, const uint8_t *node, struct str key)
{
	struct str value;
	uint64_t run;
	size_t used;

	if (key.n == 0 || (w->any && key_cmp(w->last, key) >= 0) || (w->expect && !str_eq(w->separator, key)))
		return damaged(w->err, "keys out of order");
	w->expect = false;
	if (!value_of(w->im, page, node, key, &value, &run, &used) || !claim(map, page, node, used))
		return damaged(w->err, "a node");
	if (run != 0) {
		const uint8_t *ov = w->im->p + run * PAGE;
		uint32_t n = le32(ov + 12);

		for (uint32_t i = 0; i < n; i++)
			if (!first_use(w, run + i))
				return damaged(w->err, "a page is used twice");
		if (le16(ov + 8) != 0 || !zero(octets(value) + value.n, (size_t)n * PAGE - PAGE_HDR - value.n))
			return damaged(w->err, "an overflow run");
		w->overflows += n;
	}
	w->last = key;
	w->any = true;
	w->entries++;
	return w->fn(w->arg, key, value, w->err) ? 0 : -1;
}

static int walk_page(struct walk *w, uint64_t number, unsigned depth)
{
	size_t count, upper;
	const uint8_t *page = page_at(w->im, number, depth == 1 ? P_LEAF : P_BRANCH, &count);
	uint8_t map[PAGE / 2] = { 0 };

	if (page == NULL || le16(page + 8) != 0)
		return damaged(w->err, "a page");
	if (!first_use(w, number))
		return damaged(w->err, "a page is used twice");
	upper = le16(page + 14);
	if (!zero(page + PAGE_HDR + 2 * count, upper - PAGE_HDR - 2 * count))
		return damaged(w->err, "octets between nodes");
	if (depth == 1)
		w->leaves++;
	else
		w->branches++;
	for (size_t i = 0; i < count; i++) {
		struct str key;
		const uint8_t *node = node_at(page, i, &key);

		if (node == NULL)
			return damaged(w->err, "a node outside its page");
		if (depth == 1) {
			if (leaf_record(w, map, page, node, key) < 0)
				return -1;
			continue;
		}
		if ((i == 0) != (key.n == 0) || !claim(map, page, node, NODE_HDR + key.n))
			return damaged(w->err, "a branch node");
		if (i > 0) {
			w->separator = key;
			w->expect = true;
		}
		if (walk_page(w, child_of(node), depth - 1) < 0)
			return -1;
	}
	for (size_t i = upper / 2; i < PAGE / 2; i++)
		if (!map[i])
			return damaged(w->err, "octets between nodes");
	return 0;
}

int image_walk(const struct image *im, bool (*fn)(void *, struct str, struct str, struct err *), void *arg, struct err *err)
{
	const uint8_t *db = im->p + PAGE + PAGE_HDR + META_MAIN_DB;
	struct walk w = { .im = im, .fn = fn, .arg = arg, .err = err };
	int ret = -1;

	w.seen = must_calloc(1, im->pages / 8 + 1);
	if (walk_page(&w, im->root, im->depth) < 0)
		goto out;
	if (w.branches != le64(db + DB_BRANCH) || w.leaves != le64(db + DB_LEAF) || w.overflows != le64(db + DB_OVERFLOW) || w.entries != le64(db + DB_ENTRIES) ||
	    w.branches + w.leaves + w.overflows != im->pages - 2) {
		damaged(err, "its counts of pages");
		goto out;
	}
	ret = 0;
out:
	free(w.seen);
	return ret;
}

/* --- writing ------------------------------------------------------------------------------------------------------- */

/* What follows a value in the last page of its overflow run: liblmdb takes pages from its own free list without clearing them. */
static void clear_behind(uint8_t *p, size_t n, const uint8_t *node, size_t key_n)
{
	uint64_t run = le64(node + NODE_HDR + key_n), pages;
	size_t used = PAGE_HDR + (size_t)le32(node);

	if (run >= n / PAGE)
		return;
	pages = le32(p + run * PAGE + 12);
	if (pages <= n / PAGE - run && used <= pages * PAGE)
		memset(p + run * PAGE + used, 0, pages * PAGE - used);
}

void image_normalise(uint8_t *p, size_t n)
{
	uint64_t size = n;

	for (size_t at = 0; at + PAGE <= n;) {
		uint8_t *page = p + at;
		uint16_t kind = le16(page + 10);
		size_t pages = 1;

		memset(page + 8, 0, 2);
		if (kind == P_META) {
			for (unsigned i = 0; i < 8; i++)
				page[PAGE_HDR + META_MAPSIZE + i] = (uint8_t)(size >> 8 * i);
		} else if (kind == P_OVERFLOW) {
			pages = le32(page + 12);
		} else {
			size_t lower = le16(page + 12), upper = le16(page + 14);

			memset(page + lower, 0, upper - lower);
			for (size_t i = 0; i < (lower - PAGE_HDR) / 2; i++) {
				size_t off = le16(page + PAGE_HDR + 2 * i), used = NODE_HDR + le16(page + off + 6);

				if (kind == P_LEAF && le16(page + off + 4) & F_BIGDATA)
					clear_behind(p, n, page + off, le16(page + off + 6));
				if (kind == P_LEAF)
					used += le16(page + off + 4) & F_BIGDATA ? 8 : le32(page + off);
				if (used % 2 != 0)
					page[off + used] = 0;
			}
		}
		at += pages * PAGE;
	}
}
