/* SPDX-License-Identifier: Apache-2.0 */
#include "glob.h"

static bool same(char a, char b, bool fold) { return a == b || (fold && ascii_lower(a) == ascii_lower(b)); }

static bool match(struct str p, struct str s, char wild, bool fold)
{
	size_t i = 0, k = 0, star = SIZE_MAX, mark = 0;

	while (k < s.n) {
		if (i < p.n && p.p[i] == wild) {
			star = i++;
			mark = k;
		} else if (i < p.n && same(p.p[i], s.p[k], fold)) {
			i++;
			k++;
		} else if (star != SIZE_MAX) { /* only the last star has to be tried again */
			i = star + 1;
			k = ++mark;
		} else {
			return false;
		}
	}
	while (i < p.n && p.p[i] == wild)
		i++;
	return i == p.n;
}

bool glob_segment(struct str p, struct str s, bool fold) { return match(p, s, '*', fold); }
bool glob_text(struct str p, struct str s, bool fold) { return match(p, s, GLOB_STAR, fold); }
