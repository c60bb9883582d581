/* SPDX-License-Identifier: Apache-2.0 */
#include "dest_value.h"

#include <stdlib.h>

#include "../base/must.h"
#include "cond.h"
#include "glob.h"
#include "host_pattern.h"

static const uint32_t element_size[SECTIONS] = { ADDRESS_SIZE, CA_SIZE, CRL_SIZE, PIN_SIZE, INJECT_SIZE, RULE_SIZE, METHOD_SIZE, NODE_SIZE, SLOT_SIZE, PART_SIZE, ACCEPT_SIZE, PLACE_SIZE, RATE_SIZE, 1 };
static const char *const methods[] = TABLE_METHODS;

/* --- loading ------------------------------------------------------------------------------------------------------- */

bool dest_value_load(struct str v, struct dest_value *d)
{
	if (v.n < DEST_FIXED || v.n > UINT32_MAX)
		return false;
	d->p = octets(v);
	d->len = (uint32_t)v.n;
	for (unsigned i = 0; i < SECTIONS; i++) {
		const uint8_t *s = d->p + DEST_SECTIONS + 8 * i;

		d->sect[i] = (struct section){ le32(s), le32(s + 4) };
		if (d->sect[i].off > d->len || d->sect[i].n > (d->len - d->sect[i].off) / element_size[i])
			return false;
	}
	return true;
}

struct str dest_value_ref(const struct dest_value *d, const uint8_t *at)
{
	uint32_t off = le32(at), n = le32(at + 4);

	return off <= d->len && n <= d->len - off ? str_mk(d->p + off, n) : STR_NONE;
}

const uint8_t *dest_value_at(const struct dest_value *d, enum dest_section s, size_t size, uint32_t i)
{
	return i < d->sect[s].n ? d->p + d->sect[s].off + size * i : NULL;
}

bool dest_value_rule(const struct dest_value *d, uint32_t i, struct rule_value *r)
{
	const uint8_t *p = dest_value_at(d, SECT_RULES, RULE_SIZE, i);

	if (p == NULL)
		return false;
	r->methods = le32(p);
	r->method_first = le32(p + 4);
	r->method_n = le32(p + 8);
	r->pattern = dest_value_ref(d, p + 12);
	r->id = dest_value_ref(d, p + 20);
	r->source = dest_value_ref(d, p + 28);
	r->cond = dest_value_ref(d, p + 36);
	return r->method_n <= d->sect[SECT_METHODS].n && r->method_first <= d->sect[SECT_METHODS].n - r->method_n;
}

bool dest_value_rule_method(const struct dest_value *d, const struct rule_value *r, uint32_t i, struct str *out)
{
	const uint8_t *p = i < r->method_n ? dest_value_at(d, SECT_METHODS, METHOD_SIZE, r->method_first + i) : NULL;

	if (p == NULL)
		return false;
	*out = dest_value_ref(d, p);
	return true;
}

void dest_value_ip(const uint8_t *at, struct ip *out)
{
	out->family = at[0];
	memcpy(out->b, at + 1, 16);
}

void dest_value_limits(const struct dest_value *d, struct dest_limits *out)
{
	const uint8_t *p = d->p + DEST_LIMITS;

	*out = (struct dest_limits){ le64(p), le64(p + 8), le32(p + 16), le32(p + 20), le32(p + 24) };
}

bool dest_value_denies(const struct dest_value *d)
{
	struct rule_value r;

	for (uint32_t i = d->sect[SECT_RULES].n; i-- > 0;)
		if (dest_value_rule(d, i, &r) && (r.methods & METHOD_DENY) != 0)
			return true;
	return false;
}

uint32_t table_method_bit(struct str m)
{
	for (unsigned i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
		if (str_eq(m, str_of(methods[i])))
			return 1u << i;
	return 0;
}

const char *table_method_name(unsigned bit) { return bit < sizeof(methods) / sizeof(methods[0]) ? methods[bit] : NULL; }

/* --- the walk over a trie ------------------------------------------------------------------------------------------ */

#define STATES_INLINE 32

/* Nodes that are active. Each is there once, so that there are never more than nodes. */
struct states {
	uint32_t *at;
	uint32_t n, cap;
	uint32_t few[STATES_INLINE];
};
struct match {
	const struct dest_value *d;
	bool deny;
	struct states now, next;
	struct states stay; /* double star nodes that were reached: they stay active to the end */
};

static void states_init(struct states *s)
{
	s->at = s->few;
	s->n = 0;
	s->cap = STATES_INLINE;
}

static void states_fini(struct states *s)
{
	if (s->at != s->few)
		free(s->at);
}

static void states_add(struct states *s, uint32_t node)
{
	if (s->n == s->cap) {
		uint32_t *more = must_calloc(s->cap * 2ul, sizeof(*more));

		memcpy(more, s->at, s->n * sizeof(*more));
		states_fini(s);
		s->at = more;
		s->cap *= 2;
	}
	s->at[s->n++] = node;
}

static bool states_have(const struct states *s, uint32_t node)
{
	for (uint32_t i = 0; i < s->n; i++)
		if (s->at[i] == node)
			return true;
	return false;
}

static struct str cut_parameters(struct str s)
{
	const char *semi = s.n ? memchr(s.p, ';', s.n) : NULL;

	return semi ? str_mk(s.p, (size_t)(semi - s.p)) : s;
}

static bool same_text(struct str a, struct str b, bool fold) { return fold ? str_ieq(a, b) : str_eq(a, b); }

/* Literal child of a node, or 0. */
static uint32_t literal_child(const struct dest_value *d, const uint8_t *node, struct str seg, uint32_t hash, bool fold)
{
	uint32_t first = le32(node + NODE_SLOTS), n = le32(node + NODE_SLOT_N);

	if (n > d->sect[SECT_SLOTS].n)
		return 0;
	for (uint32_t i = 0; i < n; i++) {
		const uint8_t *slot = dest_value_at(d, SECT_SLOTS, SLOT_SIZE, first + ((hash + i) & (n - 1)));

		if (slot == NULL || le32(slot + 12) == 0)
			return 0;
		if (le32(slot) == hash && same_text(dest_value_ref(d, slot + 4), seg, fold))
			return le32(slot + 12);
	}
	return 0;
}

/* In a deny both readings of ";x" count: that it belongs to the name, and that it does not. */
static bool part_fits(struct str pattern, struct str seg, bool deny)
{
	return glob_segment(pattern, seg, deny) || (deny && glob_segment(cut_parameters(pattern), cut_parameters(seg), true));
}

/* All nodes that one segment leads to from `node`. False: damaged. */
static bool step(struct match *m, uint32_t number, struct str seg, struct str name, uint32_t hash)
{
	const uint8_t *node = dest_value_at(m->d, SECT_NODES, NODE_SIZE, number);
	uint32_t child, first, n;

	if (node == NULL)
		return false;
	/* a lone raw star is the name of OPTIONS *, never a segment's */
	child = name.n == 1 && name.p[0] == '*' ? 0 : literal_child(m->d, node, name, hash, m->deny);
	if (child != 0)
		states_add(&m->next, child);
	child = le32(node + NODE_STAR);
	if (child != 0 && (seg.n > 0 || m->deny))
		states_add(&m->next, child);
	first = le32(node + NODE_PARTS);
	n = le32(node + NODE_PART_N);
	for (uint32_t i = 0; i < n; i++) {
		const uint8_t *part = dest_value_at(m->d, SECT_PARTS, PART_SIZE, first + i);

		if (part == NULL)
			return false;
		if (part_fits(dest_value_ref(m->d, part), seg, m->deny))
			states_add(&m->next, le32(part + 8));
	}
	return m->next.n <= m->d->sect[SECT_NODES].n;
}

/* Double stars that can begin behind these nodes. */
static bool reach(struct match *m, const struct states *s)
{
	for (uint32_t i = 0; i < s->n; i++) {
		const uint8_t *node = dest_value_at(m->d, SECT_NODES, NODE_SIZE, s->at[i]);
		uint32_t star;

		if (node == NULL)
			return false;
		star = le32(node + NODE_DOUBLE_STAR);
		if (star != 0 && !states_have(&m->stay, star))
			states_add(&m->stay, star);
	}
	return m->stay.n <= m->d->sect[SECT_NODES].n;
}

static bool accept(const struct dest_value *d, uint32_t number, bool (*fn)(void *, uint32_t), void *arg, bool *go_on)
{
	const uint8_t *node = dest_value_at(d, SECT_NODES, NODE_SIZE, number);
	uint32_t first, n;

	if (node == NULL)
		return false;
	first = le32(node + NODE_ACCEPTS);
	n = le32(node + NODE_ACCEPT_N);
	for (uint32_t i = 0; i < n && *go_on; i++) {
		const uint8_t *a = dest_value_at(d, SECT_ACCEPTS, ACCEPT_SIZE, first + i);

		if (a == NULL)
			return false;
		*go_on = fn(arg, le32(a));
	}
	return true;
}

/* Consumes the path segment by segment; *stayed: how many of m->stay had one at least. */
static bool consume(struct match *m, struct str path, uint32_t *stayed)
{
	size_t at = 1;

	for (;;) {
		size_t end = at;
		struct str seg, name;
		uint32_t hash;

		while (end < path.n && path.p[end] != '/')
			end++;
		seg = str_mk(path.p + at, end - at);
		name = m->deny ? cut_parameters(seg) : seg;
		hash = segment_hash(name, m->deny);
		*stayed = m->stay.n;
		m->next.n = 0;
		for (uint32_t i = 0; i < m->now.n; i++)
			if (!step(m, m->now.at[i], seg, name, hash))
				return false;
		for (uint32_t i = 0; i < *stayed; i++)
			if (!step(m, m->stay.at[i], seg, name, hash))
				return false;
		/* to a deny an empty segment may be there or not: "/a/" and "/a//b" are "/a" and "/a/b" to some */
		for (uint32_t i = 0; m->deny && name.n == 0 && i < m->now.n; i++)
			if (!states_have(&m->next, m->now.at[i]))
				states_add(&m->next, m->now.at[i]);
		if (!reach(m, &m->next))
			return false;
		if (m->next.n == 0 && m->stay.n == 0)
			return true;
		m->now.n = 0;
		for (uint32_t i = 0; i < m->next.n; i++)
			states_add(&m->now, m->next.at[i]);
		if (end == path.n)
			return true;
		at = end + 1;
	}
}

/* No rule at all: of most destinations the deny trie is so. */
static bool empty_trie(const uint8_t *root)
{
	return (le32(root + NODE_SLOT_N) | le32(root + NODE_PART_N) | le32(root + NODE_ACCEPT_N) | le32(root + NODE_STAR) | le32(root + NODE_DOUBLE_STAR)) == 0;
}

bool dest_value_match(const struct dest_value *d, unsigned root, struct str path, bool (*fn)(void *arg, uint32_t rule), void *arg)
{
	struct match m = { .d = d, .deny = root == ROOT_DENY };
	const uint8_t *node = dest_value_at(d, SECT_NODES, NODE_SIZE, root);
	bool ok = false, go_on = true;
	uint32_t stayed = 0, child;

	if (node == NULL)
		return false;
	if (empty_trie(node))
		return true;
	if (path.n == 0 || path.p[0] != '/') { /* "*" of OPTIONS: no pattern of paths covers it */
		child = literal_child(d, node, path, segment_hash(path, false), false);
		return child == 0 || accept(d, child, fn, arg, &go_on);
	}
	states_init(&m.now);
	states_init(&m.next);
	states_init(&m.stay);
	states_add(&m.now, root);
	if (!reach(&m, &m.now) || !consume(&m, path, &stayed))
		goto out;
	for (uint32_t i = 0; i < m.next.n && go_on; i++)
		if (!accept(d, m.next.at[i], fn, arg, &go_on))
			goto out;
	/* "/a/[**]" is "/a/" and below, so an allow wants one segment, be it empty; to a deny "/a" will do */
	for (uint32_t i = 0; i < (m.deny ? m.stay.n : stayed) && go_on; i++)
		if (!accept(d, m.stay.at[i], fn, arg, &go_on))
			goto out;
	ok = true;
out:
	states_fini(&m.now);
	states_fini(&m.next);
	states_fini(&m.stay);
	return ok;
}

/* --- the check ----------------------------------------------------------------------------------------------------- */

static bool plain_text(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if ((unsigned char)s.p[i] < 0x20 || s.p[i] == 0x7f)
			return false;
	return true;
}

/* A ref that lies in the texts. */
static bool inside_texts(const struct dest_value *d, const uint8_t *at)
{
	uint32_t off = le32(at), n = le32(at + 4);
	const struct section *t = &d->sect[SECT_TEXTS];

	return off >= t->off && off - t->off <= t->n && n <= t->n - (off - t->off);
}

/* As above, not longer than max and without control characters. */
static bool ref_ok(const struct dest_value *d, const uint8_t *at, uint32_t min, uint32_t max)
{
	uint32_t n = le32(at + 4);

	return n >= min && n <= max && inside_texts(d, at) && plain_text(dest_value_ref(d, at));
}

static bool ip_ok(const uint8_t *p, bool none_too)
{
	static const uint8_t nothing[16];

	if (p[0] == 4)
		return memcmp(p + 1, nothing, 12) == 0;
	return p[0] == 6 || (none_too && p[0] == 0 && memcmp(p + 1, nothing, 16) == 0);
}

static bool limits_ok(const struct dest_value *d)
{
	struct dest_limits l;

	dest_value_limits(d, &l);
	for (unsigned i = 0; i < 3; i++) {
		uint32_t ms = le32(d->p + DEST_LIMITS + 16 + 4 * i);

		if (ms != 0 && (ms < LIMIT_MS_MIN || ms > LIMIT_MS_MAX))
			return false;
	}
	return l.request_body <= LIMIT_BYTES_MAX && l.response_body <= LIMIT_BYTES_MAX && le32(d->p + DEST_LIMITS + 28) == 0;
}

/* A name that a program's environment can have. */
static bool variable_ok(struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		char c = ascii_lower(s.p[i]);

		if (!((c >= 'a' && c <= 'z') || c == '_' || (i > 0 && c >= '0' && c <= '9')))
			return false;
	}
	return s.n > 0 && s.n <= 200;
}

/* A list of texts, or of variables and their templates. */
static bool list_ok(const struct dest_value *d, const uint8_t *at, bool variables)
{
	struct cursor c;

	if (!inside_texts(d, at))
		return false;
	c = cursor_on(dest_value_ref(d, at));
	while (c.at < c.n) {
		struct str s = get_str(&c);

		if (c.bad || s.n == 0 || !plain_text(s) || (variables && !variable_ok(s)))
			return false;
		if (variables && (s = get_str(&c), c.bad || s.n == 0 || !plain_text(s)))
			return false;
	}
	return true;
}

static bool hmac_ok(const struct dest_value *d, const uint8_t *p)
{
	bool hmac = p[0] == INJECT_HMAC;

	for (unsigned k = 0; k < 3; k++)
		if (!ref_ok(d, p + 72 + 8 * k, hmac && k == 0 ? 1 : 0, hmac ? 4096 : 0))
			return false;
	if (p[96] >= HMAC_HASHES || p[97] >= HMAC_ENCODINGS || p[98] >= HMAC_KEYS || p[99] != 0)
		return false;
	return !hmac || (template_words(dest_value_ref(d, p + 72)) != 0 && (template_words(dest_value_ref(d, p + 32)) & 1u << TEMPLATE_SIGNATURE) != 0);
}

static bool lists_ok(const struct dest_value *d, uint32_t secrets)
{
	const uint8_t *p;

	for (uint32_t i = 0; (p = dest_value_at(d, SECT_ADDRESSES, ADDRESS_SIZE, i)) != NULL; i++)
		if (!ip_ok(p, false) || p[17] > (p[0] == 4 ? 32 : 128) || le16(p + 18) != 0)
			return false;
	for (uint32_t i = 0; (p = dest_value_at(d, SECT_CAS, CA_SIZE, i)) != NULL; i++)
		if (le32(p + 4) == 0 || !inside_texts(d, p))
			return false;
	for (uint32_t i = 0; (p = dest_value_at(d, SECT_CRLS, CRL_SIZE, i)) != NULL; i++)
		if (le32(p + 4) == 0 || !inside_texts(d, p))
			return false;
	for (uint32_t i = 0; (p = dest_value_at(d, SECT_INJECTS, INJECT_SIZE, i)) != NULL; i++) {
		if (p[0] == INJECT_NONE || p[0] >= INJECT_KINDS || (p[1] & ~INJECT_FLAGS_ALL) != 0 || (le16(p + 2) & ~PLACES_ALL) != 0 || le32(p + 4) >= secrets || !ref_ok(d, p + 8, 1, 255))
			return false;
		for (unsigned k = 1; k < 6; k++)
			if (!ref_ok(d, p + 8 + 8 * k, 0, 4096))
				return false;
		if (!list_ok(d, p + 56, true) || !list_ok(d, p + 64, false) || !hmac_ok(d, p))
			return false;
	}
	for (uint32_t i = 0; (p = dest_value_at(d, SECT_PLACES, PLACE_SIZE, i)) != NULL; i++)
		if (!ref_ok(d, p, 1, 256))
			return false;
	return true;
}

static bool rates_ok(const struct dest_value *d)
{
	const uint8_t *p;

	for (uint32_t i = 0; (p = dest_value_at(d, SECT_RATES, RATE_SIZE, i)) != NULL; i++) {
		uint32_t rule = le32(p + 4), window = le32(p + 16);
		uint64_t amount = le64(p + 8);
		bool timed = p[0] == RATE_REQUESTS || p[0] == RATE_UPLOAD || p[0] == RATE_DOWNLOAD;

		if (p[0] == RATE_NONE || p[0] >= RATE_KINDS || p[1] != 0 || le16(p + 2) != 0 || le32(p + 20) != 0 || amount == 0 || amount > LIMIT_BYTES_MAX)
			return false;
		if (timed ? window == 0 || window > RATE_WINDOW_MAX : window != 0)
			return false;
		if ((p[0] == RATE_HEAD || p[0] == RATE_IDLE || p[0] == RATE_TOTAL) && (amount < LIMIT_MS_MIN || amount > LIMIT_MS_MAX))
			return false;
		if (rule == RATE_OF_ALL ? p[0] >= RATE_USES : rule >= d->sect[SECT_RULES].n)
			return false;
	}
	return true;
}

static const char *rules_wrong(const struct dest_value *d)
{
	static const char wrong[] = "a destination's rules";
	uint32_t further = 0;
	const uint8_t *p;

	for (uint32_t i = 0; (p = dest_value_at(d, SECT_RULES, RULE_SIZE, i)) != NULL; i++) {
		uint32_t m = le32(p), n = le32(p + 8);

		if ((m & ~(METHOD_BITS | METHOD_ANY | METHOD_DENY)) != 0 || ((m & ~(uint32_t)METHOD_DENY) == 0 && n == 0) || le32(p + 4) != further || n > d->sect[SECT_METHODS].n - further ||
		    !ref_ok(d, p + 12, 1, UINT16_MAX) || !ref_ok(d, p + 20, 1, UINT16_MAX) || !ref_ok(d, p + 28, 1, UINT16_MAX) || !inside_texts(d, p + 36))
			return wrong;
		if (cond_check(dest_value_ref(d, p + 36)) != NULL)
			return cond_check(dest_value_ref(d, p + 36));
		further += n;
	}
	for (uint32_t i = 0; (p = dest_value_at(d, SECT_METHODS, METHOD_SIZE, i)) != NULL; i++)
		if (!ref_ok(d, p, 1, 64))
			return wrong;
	return further == d->sect[SECT_METHODS].n ? NULL : wrong;
}

struct tree_check {
	const struct dest_value *d;
	uint8_t *kind; /* of each node: 0 nobody's child yet, 1 allow, 2 deny */
	uint32_t slots, parts, accepts;
};

/* A child of a node: numbered above it, its parent's only. */
static bool adopt(struct tree_check *t, uint32_t parent, uint32_t child)
{
	if (child <= parent || child < ROOTS || child >= t->d->sect[SECT_NODES].n || t->kind[child] != 0)
		return false;
	t->kind[child] = t->kind[parent];
	return true;
}

static bool slots_ok(struct tree_check *t, uint32_t number, const uint8_t *node)
{
	uint32_t n = le32(node + NODE_SLOT_N);

	if (le32(node + NODE_SLOTS) != t->slots || (n & (n - 1)) != 0 || n > t->d->sect[SECT_SLOTS].n - t->slots)
		return false;
	for (uint32_t i = 0; i < n; i++) {
		const uint8_t *slot = dest_value_at(t->d, SECT_SLOTS, SLOT_SIZE, t->slots + i);
		static const uint8_t nothing[SLOT_SIZE];
		struct str seg;
		uint32_t child;

		if (slot == NULL)
			return false;
		child = le32(slot + 12);
		if (child == 0) {
			if (memcmp(slot, nothing, SLOT_SIZE) != 0)
				return false;
			continue;
		}
		if (!ref_ok(t->d, slot + 4, 0, UINT16_MAX) || !adopt(t, number, child))
			return false;
		seg = dest_value_ref(t->d, slot + 4);
		/* found where it is looked for; and being the one that is found, there is no second of its name */
		if (le32(slot) != segment_hash(seg, false) || literal_child(t->d, node, seg, le32(slot), false) != child)
			return false;
		if (seg.n && memchr(seg.p, '/', seg.n) != NULL)
			return false;
		for (size_t k = 0; t->kind[number] == 2 && k < seg.n; k++)
			if (seg.p[k] != ascii_lower(seg.p[k])) /* would never be found */
				return false;
	}
	t->slots += n;
	return true;
}

static bool node_ok(struct tree_check *t, uint32_t number)
{
	const uint8_t *node = dest_value_at(t->d, SECT_NODES, NODE_SIZE, number);
	uint32_t n, child, last = 0;

	if (node == NULL || t->kind[number] == 0 || !slots_ok(t, number, node))
		return false;
	n = le32(node + NODE_PART_N);
	if (le32(node + NODE_PARTS) != t->parts || n > t->d->sect[SECT_PARTS].n - t->parts)
		return false;
	for (uint32_t i = 0; i < n; i++) {
		const uint8_t *part = dest_value_at(t->d, SECT_PARTS, PART_SIZE, t->parts + i);

		if (part == NULL || !ref_ok(t->d, part, 1, UINT16_MAX) || !adopt(t, number, le32(part + 8)))
			return false;
	}
	t->parts += n;
	for (unsigned k = 0; k < 2; k++) {
		child = le32(node + (k ? NODE_DOUBLE_STAR : NODE_STAR));
		if (child != 0 && !adopt(t, number, child))
			return false;
	}
	n = le32(node + NODE_ACCEPT_N);
	if (le32(node + NODE_ACCEPTS) != t->accepts || n > t->d->sect[SECT_ACCEPTS].n - t->accepts)
		return false;
	for (uint32_t i = 0; i < n; i++) {
		const uint8_t *a = dest_value_at(t->d, SECT_ACCEPTS, ACCEPT_SIZE, t->accepts + i);
		struct rule_value r;

		if (a == NULL || !dest_value_rule(t->d, le32(a), &r) || (i > 0 && le32(a) <= last) || ((r.methods & METHOD_DENY) != 0) != (t->kind[number] == 2))
			return false;
		last = le32(a);
	}
	t->accepts += n;
	return true;
}

static bool tries_ok(const struct dest_value *d)
{
	uint32_t n = d->sect[SECT_NODES].n;
	struct tree_check t = { .d = d };
	bool ok = n >= ROOTS;

	t.kind = must_calloc(n + 1ul, 1);
	t.kind[ROOT_ALLOW] = 1;
	if (ok)
		t.kind[ROOT_DENY] = 2;
	for (uint32_t i = 0; ok && i < n; i++)
		ok = node_ok(&t, i);
	free(t.kind);
	return ok && t.slots == d->sect[SECT_SLOTS].n && t.parts == d->sect[SECT_PARTS].n && t.accepts == d->sect[SECT_ACCEPTS].n;
}

const char *dest_value_check(struct str v, uint32_t secrets)
{
	struct host_pattern host;
	struct dest_value d;
	uint32_t at = DEST_FIXED;
	const char *what;

	if (!dest_value_load(v, &d))
		return "a destination's bounds";
	for (unsigned i = 0; i < SECTIONS; i++) {
		if (d.sect[i].off != at)
			return "a destination's sections";
		at += d.sect[i].n * element_size[i];
	}
	if (at != d.len)
		return "a destination's length";
	if ((d.p[DEST_FLAGS] & ~DEST_FLAGS_ALL) != 0 || (d.p[DEST_TLS_MIN] != 0 && d.p[DEST_TLS_MIN] != 12 && d.p[DEST_TLS_MIN] != 13))
		return "a destination's flags";
	if (d.p[DEST_CARE] > FOREIGN_PASS || d.p[DEST_CARE + 1] > 1 || le16(d.p + DEST_CARE + 2) != 0)
		return "a destination's care for credentials";
	if (!ip_ok(d.p + DEST_CONNECT_IP, true) || (d.p[DEST_CONNECT_IP] == 0) != (le16(d.p + DEST_CONNECT_PORT) == 0) || d.p[DEST_CONNECT_IP + 17] != 0 || le16(d.p + DEST_CONNECT_IP + 18) != 0)
		return "a destination's connect";
	if (!ref_ok(&d, d.p + DEST_HOST, 1, CANON_HOST_MAX) || !ref_ok(&d, d.p + DEST_ID, 1, UINT16_MAX) || !ref_ok(&d, d.p + DEST_SOURCE, 1, UINT16_MAX))
		return "a destination's names";
	if (!host_pattern_read(dest_value_ref(&d, d.p + DEST_HOST), &host))
		return "a destination's host";
	if (!limits_ok(&d))
		return "a destination's limits";
	if (!lists_ok(&d, secrets))
		return "a destination's addresses, certificates or injections";
	if (!rates_ok(&d))
		return "a destination's rates";
	what = rules_wrong(&d);
	if (what != NULL)
		return what;
	return tries_ok(&d) ? NULL : "a destination's tries";
}
