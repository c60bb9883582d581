/* SPDX-License-Identifier: Apache-2.0 */
/* The parameters of a secret as the table holds them, and the URLs among them; what is taken must say the same when read again. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/must.h"
#include "common/policy/secret_param.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct cursor c = cursor_on(str_mk(p, n));
	struct secret_params s;
	struct endpoint e, again;
	char url[CANON_HOST_MAX + 2100];
	const char *why = NULL;
	struct str text;

	if (secret_params_load(&c, &s)) {
		uint32_t seen = 0;

		MUST(!c.bad && c.at <= n);
		for (unsigned tag = 1; tag < SECRET_PARAM_COUNT; tag++)
			for (unsigned i = 0; (text = secret_param(&s, (enum secret_param)tag, i)).n > 0; i++) {
				MUST(text.p >= (const char *)p && text.p + text.n <= (const char *)p + n);
				seen++;
			}
		MUST(seen == s.n);
	}
	if (!endpoint_parse(str_mk(p, n), &e, &why)) {
		MUST(why != NULL);
		return 0;
	}
	MUST(e.port != 0 && e.path.n > 0 && e.path.p[0] == '/' && str_find(e.path, STR("/../")) < 0);
	snprintf(url, sizeof(url), e.host.ip.family == 6 ? "https://[%s]:%u%.*s" : "https://%s:%u%.*s", e.host.text, e.port, (int)e.path.n, e.path.p);
	MUST(endpoint_parse(str_of(url), &again, &why) && again.port == e.port && again.host.len == e.host.len && str_eq(again.path, e.path));
	return 0;
}
