/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_WORKER_VERIFY_H
#define SP_WORKER_VERIFY_H
/* The verification of upstreams: see verify.c. Only tls.c and upstream.c use it. */
#include <openssl/ssl.h>

struct dest;
struct identity;
struct trust;

/* Everything but the trust anchors and the name. trust (which keys are barred) and d (its pins; NULL: none) may be NULL; trust and d's table outlive ctx. */
void verify_setup(SSL_CTX *ctx, const struct trust *trust, const struct dest *d);
/* The client certificate that is shown if the upstream asks for one; it outlives ssl's handshake. The handshake first stands still with
 * SSL_ERROR_WANT_X509_LOOKUP: from there on it goes on in ASYNC jobs, so that the key can wait (remote_key.h). */
void verify_identity(SSL *ssl, struct identity *identity);
/* Why a handshake failed, in words; static, or OpenSSL's. */
const char *verify_cause(SSL *ssl);
/* That the upstream asked for a client certificate, in words; NULL: it did not. TLS 1.3 may end a connection for its lack only after the handshake. */
const char *verify_wanted(SSL *ssl);
/* "good" when an OCSP response was stapled and vouched; else NULL. */
const char *verify_staple(SSL *ssl);
/* What is wrong with a handshake that succeeded, or NULL. */
const char *verify_established(SSL *ssl, const struct dest *d);
#endif
