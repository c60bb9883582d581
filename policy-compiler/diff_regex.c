/* SPDX-License-Identifier: Apache-2.0 */
/* Texts that a regular expression matches: for witnesses. */
#include "diff.h"

/* One text that an expression matches. */
struct walk {
	struct str s;
	size_t at;
	uint32_t seed; /* 0: the simplest */
	struct buf *out;
};

/* One of n: always the first for the simplest text. */
static unsigned choose(struct walk *w, unsigned n)
{
	if (w->seed == 0)
		return 0;
	w->seed = w->seed * 1664525u + 1013904223u;
	return (w->seed >> 16) % n;
}

/* What "." and a class of all others let stand there. */
static char some_char(struct walk *w) { return "z/aZ"[choose(w, 4)]; }

static void one_of_class(struct walk *w)
{
	bool not = w->at < w->s.n && w->s.p[w->at] == '^';
	size_t b = w->at + not, e = b;
	char c;

	if (e < w->s.n && w->s.p[e] == ']')
		e++;
	while (e < w->s.n && w->s.p[e] != ']')
		e += w->s.p[e] == '\\' ? 2 : 1;
	b += choose(w, e > b ? (unsigned)(e - b) : 1);
	if (b > 0 && w->s.p[b - 1] == '\\') /* behind one that escapes */
		b--;
	if (w->s.p[b] == '-' && b + 1 < e && b > 0 && w->s.p[b - 1] != '[' && w->s.p[b - 1] != '^') /* of a range its end */
		b++;
	c = w->s.p[b];
	if (c == '\\' && b + 1 < e)
		c = strchr("dD", w->s.p[b + 1]) ? '1' : strchr("wWsS", w->s.p[b + 1]) ? 'z'
										      : w->s.p[b + 1];
	buf_addc(w->out, not ? some_char(w) : c);
	w->at = e + 1;
}

static void alternatives(struct walk *w, bool emit);

static void atom(struct walk *w, bool emit)
{
	size_t before = buf_len(w->out);
	char c = w->s.p[w->at++];

	if (c == '(') {
		if (w->at + 1 < w->s.n && w->s.p[w->at] == '?')
			w->at += 2;
		alternatives(w, emit);
		w->at++;
	} else if (c == '[') {
		one_of_class(w);
	} else if (c == '\\') {
		c = w->s.p[w->at++];
		buf_addc(w->out, strchr("d", c) ? '1' : strchr("DwS", c) ? 'z'
						: strchr("Ws", c)	 ? '-'
									 : c);
	} else if (c == '.') {
		buf_addc(w->out, some_char(w));
	} else if (c != '^' && c != '$') {
		buf_addc(w->out, c);
	}
	if (!emit)
		w->out->len = before;
}

static unsigned count_at(struct walk *w)
{
	unsigned n = 0;

	while (w->at < w->s.n && w->s.p[w->at] >= '0' && w->s.p[w->at] <= '9')
		n = n * 10 + (unsigned)(w->s.p[w->at++] - '0');
	return n;
}

/* How often an atom stands there: at least so many, at most so many of which not more than one beyond the least are tried. */
static void quantity(struct walk *w, unsigned *least, unsigned *most)
{
	char c = w->at < w->s.n ? w->s.p[w->at] : 0;

	*least = *most = 1;
	if (c == '*' || c == '+' || c == '?') {
		*least = c == '+';
		*most = c == '?' ? 1 : 2;
		w->at++;
	} else if (c == '{' && w->at + 1 < w->s.n && w->s.p[w->at + 1] >= '0' && w->s.p[w->at + 1] <= '9') {
		w->at++;
		*least = *most = count_at(w);
		if (w->at < w->s.n && w->s.p[w->at] == ',') {
			w->at++;
			*most = w->s.p[w->at] == '}' ? *least + 1 : count_at(w);
		}
		w->at++;
	}
}

static void piece(struct walk *w, bool emit)
{
	size_t from = buf_len(w->out), n;
	unsigned least, most, times;

	atom(w, emit);
	n = buf_len(w->out) - from;
	quantity(w, &least, &most);
	times = w->seed == 0 && least == 0 ? 1 : least + (most > least ? choose(w, 2) : 0);
	if (emit && times == 0)
		w->out->len = from;
	for (; emit && times > 1 && buf_len(w->out) < REGEX_SUBJECT_MAX; times--)
		for (size_t i = 0; i < n; i++)
			buf_addc(w->out, (char)buf_data(w->out)[from + i]);
}

static void branch(struct walk *w, bool emit)
{
	while (w->at < w->s.n && w->s.p[w->at] != '|' && w->s.p[w->at] != ')')
		piece(w, emit);
}

static void alternatives(struct walk *w, bool emit)
{
	size_t start = w->at;
	unsigned n = 1, take, i = 0;

	for (branch(w, false); w->at < w->s.n && w->s.p[w->at] == '|'; n++) {
		w->at++;
		branch(w, false);
	}
	take = choose(w, n);
	for (w->at = start;; w->at++) {
		branch(w, emit && i++ == take);
		if (w->at >= w->s.n || w->s.p[w->at] != '|')
			return;
	}
}

struct str probe_path(struct arena *a, struct str regex, unsigned k)
{
	struct buf b = { 0 };
	struct walk w = { .s = regex, .seed = k * 2654435761u, .out = &b };
	struct str s;

	alternatives(&w, true);
	s = arena_str(a, buf_str(&b));
	buf_fini(&b);
	return s;
}
