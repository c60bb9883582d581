/* SPDX-License-Identifier: Apache-2.0 */
#include "glob.h"

static bool same(char a, char b, bool fold) { return a == b || (fold && ascii_lower(a) == ascii_lower(b)); }

bool glob_segment(struct str p, struct str s, bool fold)
{
	size_t i = 0, k = 0, star = SIZE_MAX, mark = 0;

	if (p.n == 1 && p.p[0] == '*')
		return s.n > 0;
	while (k < s.n) {
		if (i < p.n && p.p[i] == '*') {
			star = i++;
			mark = k;
		} else if (i < p.n && same(p.p[i], s.p[k], fold)) {
			i++;
			k++;
		} else if (star != SIZE_MAX) {
			i = star + 1;
			k = ++mark;
		} else {
			return false;
		}
	}
	while (i < p.n && p.p[i] == '*')
		i++;
	return i == p.n;
}

/* The segment that begins at `at` (behind a slash); *next is the start of the following one, or SIZE_MAX. */
static struct str segment(struct str s, size_t at, size_t *next)
{
	size_t e = at;

	while (e < s.n && s.p[e] != '/')
		e++;
	*next = e < s.n ? e + 1 : SIZE_MAX;
	return str_mk(s.p + at, e - at);
}

static struct str cut_parameters(struct str s)
{
	const char *semi = s.n ? memchr(s.p, ';', s.n) : NULL;

	return semi ? str_mk(s.p, (size_t)(semi - s.p)) : s;
}

static bool match(struct str p, struct str s, bool deny)
{
	size_t pi, si, pn, sn, star = SIZE_MAX, mark = 0;

	if (p.n == 0 || s.n == 0 || p.p[0] != '/' || s.p[0] != '/')
		return str_eq(p, s); /* "*" of OPTIONS */
	pi = si = 1;
	while (si != SIZE_MAX) {
		struct str ps = STR_NONE, ss = segment(s, si, &sn);

		if (pi != SIZE_MAX) {
			ps = segment(p, pi, &pn);
			if (ps.n == 2 && ps.p[0] == '*' && ps.p[1] == '*') {
				if (pn == SIZE_MAX)
					return true; /* at the end: what is left, one segment at least, be it empty */
				star = pn;
				mark = si;
				pi = pn;
				continue;
			}
			if (glob_segment(ps, deny ? cut_parameters(ss) : ss, deny)) {
				pi = pn;
				si = sn;
				continue;
			}
		}
		if (star == SIZE_MAX)
			return false;
		/* the last ** takes one segment more */
		segment(s, mark, &sn);
		mark = sn;
		si = sn;
		pi = star;
	}
	return pi == SIZE_MAX;
}

bool glob_path(struct str p, struct str s) { return match(p, s, false); }

bool glob_path_deny(struct str p, struct str s)
{
	struct str q = p;

	if (match(p, s, true))
		return true;
	while (s.n > 1 && s.p[s.n - 1] == '/')
		s.n--;
	while (q.n > 1 && q.p[q.n - 1] == '/')
		q.n--;
	if (match(q, s, true))
		return true;
	/* the parent of a final star */
	if (str_ends(q, STR("/**")))
		q.n -= 3;
	else if (str_ends(q, STR("/*")))
		q.n -= 2;
	else
		return false;
	if (q.n == 0)
		q = STR("/");
	return match(q, s, true);
}
