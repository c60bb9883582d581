/* SPDX-License-Identifier: Apache-2.0 */
#include "hello.h"

enum hello_sni hello_sni(const uint8_t *ext, size_t n, struct str *name)
{
	size_t list, len;

	if (n < 5)
		return HELLO_SNI_BAD;
	list = (size_t)ext[0] << 8 | ext[1];
	len = (size_t)ext[3] << 8 | ext[4];
	/* exactly one entry, of type host_name, filling the list, not empty */
	if (list != n - 2 || ext[2] != 0 || len == 0 || len != n - 5)
		return HELLO_SNI_BAD;
	*name = str_mk(ext + 5, len);
	return HELLO_SNI_OK;
}

int hello_alpn_offers(const uint8_t *ext, size_t n, struct str proto)
{
	int found = 0;

	if (n < 2 || ((size_t)ext[0] << 8 | ext[1]) != n - 2 || n == 2)
		return -1;
	for (size_t i = 2; i < n;) {
		size_t l = ext[i];

		if (l == 0 || i + 1 + l > n)
			return -1;
		if (str_eq(str_mk(ext + i + 1, l), proto))
			found = 1;
		i += 1 + l;
	}
	return found;
}
