/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "../common/base/canon.h"
#include "import_int.h"

bool import_name_add(struct import *im, struct import_names *to, struct str host, bool below)
{
	struct canon_host h;
	const char *reason;
	struct str s;

	if (host.n == 0 || !canon_host(host, false, &h, &reason))
		return false;
	if (below && h.ip.family != 0)
		return false;
	s = str_mk(h.text, h.len);
	for (unsigned i = 0; i < to->count; i++)
		if (to->n[i].below == below && str_eq(to->n[i].host, s))
			return true;
	if (to->count == to->cap) {
		struct import_name *more = arena_alloc(im->a, (to->cap ? to->cap * 2 : 64) * sizeof(*more));

		if (to->count > 0)
			memcpy(more, to->n, to->count * sizeof(*more));
		to->n = more;
		to->cap = to->cap ? to->cap * 2 : 64;
	}
	to->n[to->count++] = (struct import_name){ arena_str(im->a, s), below };
	return true;
}

static bool ends_in(struct str name, struct str domain) { return name.n > domain.n && name.p[name.n - domain.n - 1] == '.' && str_ends(name, domain); }

bool import_name_in(const struct import_name *n, struct str host, bool below)
{
	if (!below)
		return !n->below && str_eq(n->host, host);
	return ends_in(n->host, host) || (n->below && str_eq(n->host, host));
}

static int by_breadth(const void *a, const void *b)
{
	const struct import_name *x = a, *y = b;
	size_t n = x->host.n < y->host.n ? x->host.n : y->host.n;
	int r = x->below != y->below ? (int)y->below - (int)x->below : x->host.n < y->host.n ? -1 : x->host.n > y->host.n;

	return r ? r : memcmp(x->host.p, y->host.p, n);
}

void import_names_sort(struct import_names *names)
{
	if (names->count > 1)
		qsort(names->n, names->count, sizeof(*names->n), by_breadth);
}

void import_host(struct import *im, const struct import_name *n)
{
	bool v6 = memchr(n->host.p, ':', n->host.n) != NULL;

	buf_addf(im->out, "  - host: \"%s%s", n->below ? "**." : "", v6 ? "[" : "");
	buf_adds(im->out, n->host);
	buf_addz(im->out, v6 ? "]\"\n" : "\"\n");
}
