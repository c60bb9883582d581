/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_HTTP_HELLO_H
#define SP_HTTP_HELLO_H
/* A ClientHello, where TLS is passed through, and its extensions as OpenSSL hands them over (SSL_client_hello_get0_ext) elsewhere. I/O-free. */
#include "../../common/base/str.h"

enum hello_sni { HELLO_SNI_BAD = 0, HELLO_SNI_NONE, HELLO_SNI_OK };
/* server_name (RFC 6066 3): exactly one entry of type host_name; name borrows from ext. Two entries, other types, empty: BAD (G09). */
enum hello_sni hello_sni(const uint8_t *ext, size_t n, struct str *name);
/*
 * A ClientHello at the beginning of a run of octets, in however many records (RFC 8446 4.1.2, 5.1). WHOLE: *out is filled. MORE:
 * there is no end of it yet. BAD: it is none, or larger than HELLO_MAX, or in more than HELLO_RECORDS_MAX records.
 */
#define HELLO_MAX 32768
#define HELLO_RECORDS_MAX 256
enum hello_read { HELLO_BAD = 0, HELLO_MORE, HELLO_WHOLE };
struct hello {
	enum hello_sni sni; /* NONE or OK; what is wrong with it makes the whole of it BAD */
	char name[256];
};
enum hello_read hello_read(const uint8_t *p, size_t n, struct hello *out);
/* ALPN (RFC 7301): whether `proto` is offered; -1 = malformed. */
int hello_alpn_offers(const uint8_t *ext, size_t n, struct str proto);
#endif
