/* SPDX-License-Identifier: Apache-2.0 */
#include "trie.h"

#include <stdlib.h>

#include "../common/base/must.h"
#include "../common/policy/format.h"

static struct trie_ref put_text(struct trie *t, struct str s)
{
	struct trie_ref r = { (uint32_t)buf_len(t->texts), (uint32_t)s.n };

	buf_adds(t->texts, s);
	return r;
}

static struct str text_at(const struct trie *t, struct trie_ref r) { return str_mk(buf_str(t->texts).p + r.off, r.n); }

static uint32_t new_node(struct trie *t)
{
	if (t->n == t->cap) {
		t->cap = t->cap ? t->cap * 2 : 16;
		t->nodes = must_realloc(t->nodes, t->cap * sizeof(*t->nodes));
	}
	memset(&t->nodes[t->n], 0, sizeof(*t->nodes));
	return t->n++;
}

void trie_init(struct trie *t, struct buf *texts)
{
	*t = (struct trie){ .texts = texts };
	for (int i = 0; i < ROOTS; i++)
		new_node(t);
}

void trie_fini(struct trie *t)
{
	for (uint32_t i = 0; i < t->n; i++) {
		free(t->nodes[i].slots);
		free(t->nodes[i].parts);
		free(t->nodes[i].accepts);
	}
	free(t->nodes);
}

static void place(struct trie_slot *slots, uint32_t n, const struct trie_slot *s)
{
	uint32_t i = s->hash & (n - 1);

	while (slots[i].child != 0)
		i = (i + 1) & (n - 1);
	slots[i] = *s;
}

static void grow(struct trie_node *n)
{
	uint32_t more = n->slot_n ? n->slot_n * 2 : 1;
	struct trie_slot *slots;

	while (n->used > 0 && more < 2 * (n->used + 1))
		more *= 2;
	slots = must_calloc(more, sizeof(*slots));
	for (uint32_t i = 0; i < n->slot_n; i++)
		if (n->slots[i].child != 0)
			place(slots, more, &n->slots[i]);
	free(n->slots);
	n->slots = slots;
	n->slot_n = more;
}

static uint32_t literal_child(struct trie *t, uint32_t number, struct str seg)
{
	struct trie_node *n = &t->nodes[number];
	struct trie_slot s = { .hash = segment_hash(seg, false) };

	for (uint32_t i = 0; i < n->slot_n; i++) {
		const struct trie_slot *o = &n->slots[(s.hash + i) & (n->slot_n - 1)];

		if (o->child == 0)
			break;
		if (o->hash == s.hash && str_eq(text_at(t, o->segment), seg))
			return o->child;
	}
	s.segment = put_text(t, seg);
	s.child = new_node(t);
	n = &t->nodes[number];
	if (n->slot_n < (n->used == 0 ? 1 : 2 * (n->used + 1)))
		grow(n);
	place(n->slots, n->slot_n, &s);
	n->used++;
	return s.child;
}

static uint32_t part_child(struct trie *t, uint32_t number, struct str pattern)
{
	struct trie_node *n = &t->nodes[number];
	struct trie_part p;

	for (uint32_t i = 0; i < n->part_n; i++)
		if (str_eq(text_at(t, n->parts[i].pattern), pattern))
			return n->parts[i].child;
	p.pattern = put_text(t, pattern);
	p.child = new_node(t);
	n = &t->nodes[number];
	n->parts = must_realloc(n->parts, (n->part_n + 1ul) * sizeof(*n->parts));
	n->parts[n->part_n++] = p;
	return p.child;
}

static uint32_t star_child(struct trie *t, uint32_t number, bool two)
{
	uint32_t child = two ? t->nodes[number].double_star : t->nodes[number].star;

	if (child != 0)
		return child;
	child = new_node(t);
	if (two)
		t->nodes[number].double_star = child;
	else
		t->nodes[number].star = child;
	return child;
}

static void accept_at(struct trie *t, uint32_t number, uint32_t rule)
{
	struct trie_node *n = &t->nodes[number];

	if (n->accept_n > 0 && n->accepts[n->accept_n - 1] == rule)
		return;
	if ((n->accept_n & (n->accept_n - 1)) == 0)
		n->accepts = must_realloc(n->accepts, (n->accept_n ? 2ul * n->accept_n : 1) * sizeof(*n->accepts));
	n->accepts[n->accept_n++] = rule;
}

static struct str without_parameters(struct str s)
{
	const char *semi = s.n ? memchr(s.p, ';', s.n) : NULL;

	return semi ? str_mk(s.p, (size_t)(semi - s.p)) : s;
}

/*
 * A deny is kept in the form in which doubt counts: lower case, no parameters, no empty segments, and what ends in "/[*]"
 * accepts at the parent too ("/a/[**]" does by what ** is in that trie: any number of segments, also none).
 */
static void add_pattern(struct trie *t, struct str pattern, bool deny, uint32_t rule)
{
	uint32_t at = deny ? ROOT_DENY : ROOT_ALLOW, parent = at;
	bool star = false, two = false;

	for (size_t b = 1; b <= pattern.n;) {
		size_t e = b;
		struct str seg;

		while (e < pattern.n && pattern.p[e] != '/')
			e++;
		seg = str_mk(pattern.p + b, e - b);
		b = e + 1;
		if (deny && memchr(seg.p, '*', seg.n) == NULL)
			seg = without_parameters(seg);
		if (deny && seg.n == 0)
			continue;
		if (str_eq(seg, STR("**"))) {
			if (!two) /* one after another says no more */
				at = star_child(t, at, true);
			star = false;
			two = true;
			continue;
		}
		parent = at;
		two = false;
		star = str_eq(seg, STR("*"));
		at = star ? star_child(t, at, false) : memchr(seg.p, '*', seg.n) != NULL ? part_child(t, at, seg) : literal_child(t, at, seg);
	}
	accept_at(t, at, rule);
	if (deny && star)
		accept_at(t, parent, rule);
}

void trie_add(struct trie *t, const struct pol_rule *r, uint32_t number)
{
	char *lower;

	if (r->pattern.p[0] != '/') { /* "*" of OPTIONS: a name that no segment has */
		accept_at(t, literal_child(t, r->deny ? ROOT_DENY : ROOT_ALLOW, r->pattern), number);
		return;
	}
	if (!r->deny) {
		add_pattern(t, r->pattern, false, number);
		return;
	}
	lower = must_malloc(r->pattern.n);
	for (size_t i = 0; i < r->pattern.n; i++)
		lower[i] = ascii_lower(r->pattern.p[i]);
	add_pattern(t, str_mk(lower, r->pattern.n), true, number);
	free(lower);
}
