/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_HTTP_HELLO_H
#define SP_HTTP_HELLO_H
/* Extensions of a ClientHello as OpenSSL hands them over (SSL_client_hello_get0_ext), I/O-free. */
#include "../../common/base/str.h"

enum hello_sni { HELLO_SNI_BAD = 0, HELLO_SNI_NONE, HELLO_SNI_OK };
/* server_name (RFC 6066 3): exactly one entry of type host_name; name borrows from ext. Two entries, other types, empty: BAD (G09). */
enum hello_sni hello_sni(const uint8_t *ext, size_t n, struct str *name);
/* ALPN (RFC 7301): whether `proto` is offered; -1 = malformed. */
int hello_alpn_offers(const uint8_t *ext, size_t n, struct str proto);
#endif
