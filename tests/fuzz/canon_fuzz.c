/* SPDX-License-Identifier: Apache-2.0 */
/* Canonical forms are fixed points, and no dot segment survives in them. */
#include <stdlib.h>

#include "common/base/canon.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct arena a = { 0 };
	struct canon_path_opts o = { 0 };
	struct str w, m, w2, m2;
	struct canon_host h, h2;
	const char *why;
	uint16_t port;

	if (n > 0) {
		o.encoded_slash_keep = p[0] & 1;
		o.empty_segments_keep = p[0] & 2;
		o.raw = p[0] & 4;
		if (canon_path(&a, str_mk(p + 1, n - 1), &o, &w, &m, &why)) {
			if (!canon_path(&a, w, &o, &w2, &m2, &why) || !str_eq(w, w2) || !str_eq(m, m2))
				abort();
			if (str_find(w, STR("/../")) >= 0 || str_ends(w, STR("/..")) || str_find(m, STR("/../")) >= 0)
				abort();
		}
		canon_query(str_mk(p + 1, n - 1), false, &why);
	}
	if (canon_authority(str_mk(p, n), 443, &h, &port, &why)) {
		if (port == 0 || h.len == 0 || h.len != strlen(h.text))
			abort();
		if (h.ip.family != 6 && (!canon_host(str_mk(h.text, h.len), false, &h2, &why) || strcmp(h.text, h2.text) != 0))
			abort();
	}
	arena_fini(&a);
	return 0;
}
