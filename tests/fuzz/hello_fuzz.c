/* SPDX-License-Identifier: Apache-2.0 */
/* ClientHello extensions: what is taken for a name lies inside the extension and is one entry. */
#include <stdlib.h>

#include "common/base/canon.h"
#include "proxy/http/hello.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct str name = STR_NONE;
	struct canon_host h, again;
	const char *why;

	if (hello_sni(p, n, &name) == HELLO_SNI_OK) {
		if (name.n == 0 || (const uint8_t *)name.p < p || (const uint8_t *)name.p + name.n > p + n)
			abort();
		if (canon_host(name, false, &h, &why) && (!canon_host(str_mk(h.text, h.len), false, &again, &why) || strcmp(h.text, again.text) != 0))
			abort();
	}
	hello_alpn_offers(p, n, STR("http/1.1"));
	return 0;
}
