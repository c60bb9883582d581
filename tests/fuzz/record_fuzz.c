/* SPDX-License-Identifier: Apache-2.0 */
/* Records from a broken sender: refused, or one line of valid JSON. */
#include <jansson.h>
#include <stdlib.h>

#include "proxy/audit/format.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct buf out = { 0 };
	struct record_context c = { STR("box"), 7, 1000, false };
	struct str id, kind;
	json_t *o;

	if (record_format(&out, &c, p, n, &id, &kind)) {
		buf_addz(&out, "}}}");
		if (memchr(buf_data(&out), '\n', buf_len(&out)) != NULL)
			abort();
		o = json_loadb((const char *)buf_data(&out), buf_len(&out), JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
		if (o == NULL)
			abort();
		json_decref(o);
	}
	buf_fini(&out);
	return 0;
}
