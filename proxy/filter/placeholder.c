/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One Aho-Corasick automaton over all forms of all placeholders, dense, over the classes of octets that occur in them.
 * Octets are compared without regard to case, and '-', '_', '+' and '/' are one: so a pattern is base64 and base64url, what
 * is searched for in lower case is found in every case, and a host name that cannot have the '_' of a token is found too. Of hex and base64 only the last TAIL octets of
 * the text are a pattern: enough to be sure, and behind the prefix that all tokens of a kind share.
 *
 * Escapes: the same automaton runs a second time over what percent and JSON escapes stand for, from the first escape on
 * until both runs agree again. A find of the second run counts only if an escape stands in it.
 *
 * Where no pattern has begun, most octets need not be looked at: two octets at the end of a window as long as the shortest
 * pattern tell how far on the next place is where one could begin (Wu and Manber 1994).
 */
#include "placeholder.h"

#include <stdlib.h>

#include "../../common/base/must.h"
#include "escape.h"

#define TAIL 32
#define WINDOW_MAX 16
#define CLASSES_MAX 64
#define NONE UINT32_MAX
#define ENDS 0x80000000u

struct pattern {
	uint32_t which, next; /* chain of those that end in one node */
	uint16_t len;
	bool plain;
};
struct node {
	uint32_t first; /* pattern that ends here, or NONE */
	uint32_t above; /* nearest node that is a suffix of this and has one; 0: none */
	uint32_t fail;
	uint16_t depth;
};
struct placeholders {
	struct placeholder *p;
	size_t n;
	struct pattern *pat;
	uint32_t pat_n;
	struct node *node;
	uint32_t node_n, node_cap;
	uint32_t *go; /* node_n x classes; ENDS: a pattern ends there, or in a suffix of it */
	unsigned classes;
	uint8_t class_of[256]; /* 0: occurs nowhere */
	size_t shortest;       /* pattern: no text that has less octets holds one */
	size_t window;         /* as much of it as is looked at from its end */
	uint8_t *skip;         /* classes x classes: how far the window may move when it ends in these two */
};

/* --- the automaton ------------------------------------------------------------------------------------------------- */

static uint8_t folded(uint8_t c) { return c == '-' || c == '_' || c == '/' ? '+' : (uint8_t)ascii_lower((char)c); }

static uint32_t new_node(struct placeholders *s, uint16_t depth)
{
	if (s->node_n == s->node_cap) {
		s->node_cap = s->node_cap ? s->node_cap * 2 : 256;
		s->node = must_realloc(s->node, s->node_cap * sizeof(*s->node));
		s->go = must_realloc(s->go, (size_t)s->node_cap * s->classes * sizeof(*s->go));
	}
	s->node[s->node_n] = (struct node){ .first = NONE, .depth = depth };
	memset(s->go + (size_t)s->node_n * s->classes, 0, s->classes * sizeof(*s->go));
	return s->node_n++;
}

static void add_pattern(struct placeholders *s, unsigned which, struct str text, bool plain)
{
	uint32_t at = 0;

	for (size_t i = 0; i < text.n; i++) {
		size_t slot = (size_t)at * s->classes + s->class_of[(uint8_t)text.p[i]];
		uint32_t to = s->go[slot];

		if (to == 0) {
			to = new_node(s, (uint16_t)(i + 1));
			s->go[slot] = to;
		}
		at = to;
	}
	s->pat = must_realloc(s->pat, (s->pat_n + 1ul) * sizeof(*s->pat));
	s->pat[s->pat_n] = (struct pattern){ .which = which, .next = s->node[at].first, .len = (uint16_t)text.n, .plain = plain };
	s->node[at].first = s->pat_n++;
}

/* What base64 has of `in` whatever stands before and behind it, when skip octets of its first group are others'. */
static size_t base64_core(struct str in, unsigned skip, char *out)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	size_t bits = (skip + in.n) * 8, first = (skip * 8 + 5) / 6, n = 0;

	for (size_t k = first; (k + 1) * 6 <= bits; k++) {
		size_t bit = k * 6 - skip * 8;
		unsigned v = (unsigned)(uint8_t)in.p[bit / 8] << 8 | (bit / 8 + 1 < in.n ? (uint8_t)in.p[bit / 8 + 1] : 0u);

		out[n++] = digits[v >> (10 - bit % 8) & 63];
	}
	return n;
}

static void add_forms(struct placeholders *s, unsigned which)
{
	static const char hex[] = "0123456789abcdef";
	struct str t = s->p[which].text, tail = t.n > TAIL ? str_mk(t.p + t.n - TAIL, TAIL) : t;
	char form[2 * TAIL];

	add_pattern(s, which, t, true);
	for (size_t i = 0; i < tail.n; i++) {
		form[2 * i] = hex[(uint8_t)tail.p[i] >> 4];
		form[2 * i + 1] = hex[(uint8_t)tail.p[i] & 15];
	}
	add_pattern(s, which, str_mk(form, 2 * tail.n), false);
	for (unsigned skip = 0; skip < 3; skip++)
		add_pattern(s, which, str_mk(form, base64_core(tail, skip, form)), false);
}

/* The pattern that ends in a node of its own depth is spelt by the way there. */
static void spell_skips(struct placeholders *s, uint32_t at, size_t depth, unsigned before)
{
	for (unsigned c = 0; c < s->classes && depth < s->window; c++) {
		uint32_t to = s->go[(size_t)at * s->classes + c];
		uint8_t *skip = &s->skip[(size_t)before * s->classes + c], left = (uint8_t)(s->window - 1 - depth);

		if (to == 0)
			continue;
		if (depth > 0 && left < *skip)
			*skip = left;
		spell_skips(s, to, depth + 1, c);
	}
}

/* While the transitions are the patterns' own only. */
static void make_skips(struct placeholders *s)
{
	s->shortest = SIZE_MAX;
	for (uint32_t k = 0; k < s->pat_n; k++)
		s->shortest = s->pat[k].len < s->shortest ? s->pat[k].len : s->shortest;
	s->window = s->shortest < WINDOW_MAX ? s->shortest : WINDOW_MAX;
	s->skip = must_malloc((size_t)s->classes * s->classes);
	memset(s->skip, (int)s->window - 1, (size_t)s->classes * s->classes);
	spell_skips(s, 0, 0, 0);
}

/* Breadth first: every node's failure is known before its children's. */
static void link_nodes(struct placeholders *s)
{
	uint32_t *queue = must_malloc(s->node_n * sizeof(*queue)), head = 0, tail = 0;

	for (unsigned c = 0; c < s->classes; c++)
		if (s->go[c] != 0)
			queue[tail++] = s->go[c];
	while (head < tail) {
		uint32_t at = queue[head++], fail = s->node[at].fail;

		s->node[at].above = s->node[fail].first != NONE ? fail : s->node[fail].above;
		for (unsigned c = 0; c < s->classes; c++) {
			uint32_t *to = &s->go[(size_t)at * s->classes + c], other = s->go[(size_t)fail * s->classes + c];

			if (*to == 0) {
				*to = other;
				continue;
			}
			s->node[*to].fail = other;
			queue[tail++] = *to;
		}
	}
	free(queue);
	for (size_t i = 0; i < (size_t)s->node_n * s->classes; i++)
		if (s->node[s->go[i]].first != NONE || s->node[s->go[i]].above != 0)
			s->go[i] |= ENDS;
}

struct placeholders *placeholders_new(const struct placeholder *p, size_t n)
{
	static const char always[] = "abcdefghijklmnopqrstuvwxyz0123456789+.~";
	struct placeholders *s = must_calloc(1, sizeof(*s));

	s->p = must_calloc(n + 1, sizeof(*s->p));
	_Static_assert(sizeof(always) <= CLASSES_MAX, "a class each");
	for (unsigned i = 0; always[i] != 0; i++)
		s->class_of[(uint8_t)always[i]] = (uint8_t)(i + 1);
	for (unsigned c = 0; c < 256; c++)
		s->class_of[c] = s->class_of[folded((uint8_t)c)];
	s->classes = sizeof(always);
	new_node(s, 0);
	for (size_t i = 0; i < n && s->n < PLACEHOLDERS_MAX; i++) {
		struct placeholder *q = &s->p[s->n];
		char *mem;

		if (!placeholder_ok(&p[i]))
			continue;
		mem = must_malloc(p[i].secret.n + p[i].text.n);
		memcpy(mem, p[i].secret.p, p[i].secret.n);
		memcpy(mem + p[i].secret.n, p[i].text.p, p[i].text.n);
		*q = (struct placeholder){ .secret = str_mk(mem, p[i].secret.n), .text = str_mk(mem + p[i].secret.n, p[i].text.n), .part = p[i].part, .body_deny = p[i].body_deny };
		add_forms(s, (unsigned)s->n++);
	}
	make_skips(s);
	link_nodes(s);
	return s;
}

void placeholders_free(struct placeholders *s)
{
	if (s == NULL)
		return;
	for (size_t i = 0; i < s->n; i++)
		free((char *)(uintptr_t)s->p[i].secret.p);
	free(s->p);
	free(s->pat);
	free(s->node);
	free(s->go);
	free(s->skip);
	free(s);
}

size_t placeholders_count(const struct placeholders *s) { return s == NULL ? 0 : s->n; }
const struct placeholder *placeholders_at(const struct placeholders *s, size_t i) { return &s->p[i]; }

/* The next node, with ENDS. */
static uint32_t step(const struct placeholders *s, uint32_t at, uint8_t c) { return s->go[(size_t)(at & ~ENDS) * s->classes + s->class_of[c]]; }
static uint32_t first_end(const struct placeholders *s, uint32_t at) { return s->node[at].first != NONE ? at : s->node[at].above; }

/* --- finding ------------------------------------------------------------------------------------------------------- */

struct found {
	placeholder_fn *fn;
	void *arg;
	const char *text; /* whole, or NULL: a stream */
};

/* All that end at this node. end: octets of the text so far; need: the find must reach back to it. */
static void report(const struct placeholders *s, uint32_t at, size_t end, const uint64_t *need, uint64_t decoded_end, const struct found *f)
{
	for (at = first_end(s, at); at != 0; at = s->node[at].above) {
		for (uint32_t k = s->node[at].first; k != NONE; k = s->pat[k].next) {
			const struct pattern *p = &s->pat[k];
			struct placeholder_hit h = { .which = p->which };

			if (need != NULL && *need + p->len <= decoded_end)
				continue;
			h.plain = p->plain && need == NULL;
			h.exact = h.plain && f->text != NULL && memcmp(f->text + end - p->len, s->p[p->which].text.p, p->len) == 0;
			f->fn(f->arg, &h);
		}
	}
}

static void decoded_step(struct placeholder_watch *w, const struct placeholders *s, uint8_t c, bool escaped, const struct found *f)
{
	uint32_t to = step(s, w->decoded, c);

	w->decoded = to & ~ENDS;
	w->at++;
	if (escaped)
		w->escape_at = w->at;
	if (to & ENDS)
		report(s, w->decoded, 0, &w->escape_at, w->at, f);
}

/* The character that a whole escape stands for; -1: more is to come, -2: it is none. */
static int escape_value(const char *e, unsigned n)
{
	int v = 0;

	if (e[0] == '%') {
		for (unsigned i = 1; i < n; i++) {
			if (hex_value(e[i]) < 0)
				return -2;
			v = v << 4 | hex_value(e[i]);
		}
		return n == 3 ? v : -1;
	}
	if (n == 1)
		return -1;
	if (e[1] != 'u')
		return strchr("bfnrt", e[1]) != NULL ? 0 : strchr("\"\\/", e[1]) != NULL ? (uint8_t)e[1] : -2;
	for (unsigned i = 2; i < n; i++) {
		if (hex_value(e[i]) < 0)
			return -2;
		v = v << 4 | hex_value(e[i]);
	}
	return n < 6 ? -1 : v < 128 ? v : 0;
}

static void watch_octet(struct placeholder_watch *w, const struct placeholders *s, char c, const struct found *f)
{
	int v;

	if (w->esc_n == 0 && c != '%' && c != '\\') {
		decoded_step(w, s, (uint8_t)c, false, f);
		return;
	}
	w->esc[w->esc_n++] = c;
	v = escape_value(w->esc, w->esc_n);
	if (v >= 0) {
		w->esc_n = 0;
		decoded_step(w, s, (uint8_t)v, true, f);
	} else if (v == -2) { /* the first octet stands for itself, and perhaps another escape begins in the rest */
		char again[sizeof(w->esc)];
		unsigned n = w->esc_n;

		memcpy(again, w->esc, n);
		w->esc_n = 0;
		decoded_step(w, s, (uint8_t)again[0], false, f);
		for (unsigned i = 1; i < n; i++)
			watch_octet(w, s, again[i], f);
	}
}

/* From i on, where no pattern has begun: the next place where one could begin, or end if none can be whole before it. */
static size_t skip_to(const struct placeholders *s, const char *p, size_t i, size_t end)
{
	const size_t window = s->window;

	while (end - i >= window) {
		const uint8_t *last = (const uint8_t *)p + i + window - 2;
		size_t k = s->skip[(size_t)s->class_of[last[0]] * s->classes + s->class_of[last[1]]];

		if (k == 0)
			return i;
		i += k;
	}
	return i;
}

static void watch(struct placeholder_watch *w, const struct placeholders *s, struct str text, const struct found *f)
{
	size_t plain = 0; /* no escape stands before it */

	for (size_t i = 0; i < text.n; i++) {
		char c;
		uint32_t to;

		if (w->state == 0 && !w->apart) {
			if (i >= plain)
				plain = i + escape_find((const uint8_t *)text.p + i, text.n - i);
			i = skip_to(s, text.p, i, plain);
			if (i == text.n)
				break;
		}
		c = text.p[i];

		if (!w->apart && (c == '%' || c == '\\')) {
			w->apart = true;
			w->decoded = w->state;
			w->escape_at = 0;
			w->at = s->node[w->state].depth; /* counted from where a find could begin */
		}
		to = step(s, w->state, (uint8_t)c);
		w->state = to & ~ENDS;
		if (to & ENDS)
			report(s, w->state, i + 1, NULL, 0, f);
		if (w->apart) {
			watch_octet(w, s, c, f);
			w->apart = w->esc_n > 0 || w->decoded != w->state;
		}
	}
}

void placeholders_find(const struct placeholders *s, struct str text, placeholder_fn *fn, void *arg)
{
	struct placeholder_watch w = { 0 };

	if (placeholders_count(s) > 0 && text.n >= s->shortest) /* an escape is never shorter than what it stands for */
		watch(&w, s, text, &(struct found){ fn, arg, text.p });
}

void placeholder_watch_feed(struct placeholder_watch *w, const struct placeholders *s, struct str text, placeholder_fn *fn, void *arg)
{
	if (placeholders_count(s) > 0)
		watch(w, s, text, &(struct found){ fn, arg, NULL });
}

/* --- filling ------------------------------------------------------------------------------------------------------- */

static bool unreserved(char c)
{
	char l = ascii_lower(c);

	return (l >= 'a' && l <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' || c == '~';
}

void placeholder_encode(struct buf *out, struct str v, enum placeholder_encoding e)
{
	static const char hex[] = "0123456789ABCDEF";

	for (size_t i = 0; i < v.n; i++) {
		char c = v.p[i];
		uint8_t u = (uint8_t)c;

		if (e == PLACEHOLDER_RAW || (e != PLACEHOLDER_JSON && (unreserved(c) || (e == PLACEHOLDER_PATH && c == '/')))) {
			buf_addc(out, c);
		} else if (e != PLACEHOLDER_JSON) {
			buf_addc(out, '%');
			buf_addc(out, hex[u >> 4]);
			buf_addc(out, hex[u & 15]);
		} else if (c == '"' || c == '\\') {
			buf_addc(out, '\\');
			buf_addc(out, c);
		} else if (u < 0x20) {
			buf_addz(out, "\\u00");
			buf_addc(out, hex[u >> 4]);
			buf_addc(out, hex[u & 15]);
		} else {
			buf_addc(out, c);
		}
	}
}

void placeholder_fill_init(struct placeholder_fill *f, const struct placeholders *set, const struct placeholder_value *v, unsigned n)
{
	*f = (struct placeholder_fill){ .set = set, .v = v, .n = n };
}

void placeholder_fill_fini(struct placeholder_fill *f)
{
	buf_fini(&f->held);
	f->state = 0;
}

/* The value for what stands exactly in the last octets before end; NULL if none. */
static const struct placeholder_value *value_at(const struct placeholder_fill *f, uint32_t at, const uint8_t *end, size_t *len)
{
	for (at = first_end(f->set, at); at != 0; at = f->set->node[at].above) {
		for (uint32_t k = f->set->node[at].first; k != NONE; k = f->set->pat[k].next) {
			const struct pattern *p = &f->set->pat[k];

			for (unsigned i = 0; p->plain && i < f->n; i++) {
				if (f->v[i].which != p->which || memcmp(end - p->len, f->set->p[p->which].text.p, p->len) != 0)
					continue;
				*len = p->len;
				return &f->v[i];
			}
		}
	}
	return NULL;
}

void placeholder_fill_feed(struct placeholder_fill *f, struct str in, struct buf *out)
{
	size_t had = buf_len(&f->held), from = 0, len;
	const struct placeholder_value *v;
	const uint8_t *p;

	buf_add(&f->held, in.p, in.n);
	p = buf_data(&f->held);
	for (size_t i = had; i < had + in.n; i++) {
		uint32_t to = step(f->set, f->state, p[i]);

		f->state = to & ~ENDS;
		if (!(to & ENDS) || (v = value_at(f, f->state, p + i + 1, &len)) == NULL)
			continue;
		buf_add(out, p + from, i + 1 - len - from);
		buf_adds(out, v->text);
		from = i + 1;
		f->state = 0;
		f->filled++;
	}
	/* the node's depth is the longest suffix that may become one */
	len = had + in.n - f->set->node[f->state].depth;
	buf_add(out, p + from, len - from);
	buf_drop(&f->held, len);
}

void placeholder_fill_end(struct placeholder_fill *f, struct buf *out)
{
	buf_adds(out, buf_str(&f->held));
	placeholder_fill_fini(f);
}
