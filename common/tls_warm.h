/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_TLS_WARM_H
#define SP_TLS_WARM_H
#include <openssl/ssl.h>

/*
 * Handshakes of TLS 1.2 and 1.3 of both with each other, in memory and unverified: fetches every algorithm, loads error strings, seeds
 * the generator, before a role is confined. server is given a certificate.
 */
void tls_warm_handshakes(SSL_CTX *server, SSL_CTX *client);
#endif
