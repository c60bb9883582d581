/* SPDX-License-Identifier: Apache-2.0 */
/* server_name and ALPN extensions of a ClientHello, and a whole one: what is accepted is one host name that fills the extension. */
#include "common/base/canon.h"
#include "common/base/must.h"
#include "proxy/http/hello.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str name = STR_NONE;
	struct canon_host h;
	const char *reason;
	struct hello hello;
	int h2, h1;

	if (hello_sni(data, size, &name) == HELLO_SNI_OK) {
		MUST((const uint8_t *)name.p == data + 5 && name.n == size - 5 && name.n > 0 && data[2] == 0);
		if (canon_host(name, false, &h, &reason)) {
			MUST(h.len > 0 && h.len <= name.n && strlen(h.text) == h.len);
			MUST(memchr(h.text, '[', h.len) == NULL && h.ip.family != 6);
		}
	}
	if (hello_read(data, size, &hello) == HELLO_WHOLE) {
		MUST(data[0] == 22 && (hello.sni == HELLO_SNI_NONE || hello.sni == HELLO_SNI_OK));
		MUST(hello.sni != HELLO_SNI_OK || (hello.name[0] != 0 && strlen(hello.name) < sizeof(hello.name)));
	}
	h2 = hello_alpn_offers(data, size, STR("h2"));
	h1 = hello_alpn_offers(data, size, STR("http/1.1"));
	MUST((h2 < 0) == (h1 < 0)); /* malformed is malformed whatever is looked for */
	MUST(h2 != 1 || memmem(data, size, "\2h2", 3) != NULL);
	MUST(h1 != 1 || memmem(data, size, "\10http/1.1", 9) != NULL);
	return 0;
}
