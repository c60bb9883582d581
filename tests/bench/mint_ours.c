/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mint_ours N: what mint.c measures of a plain process, of the code that does it here: the ca's mint, and the worker's reading of what
 * came and giving it to a connection, without the message between them. With N of 0 all but the mints, so that what is counted
 * from outside (perf, callgrind) can be subtracted. Prints processor microseconds each: of the ca's part, and of the worker's.
 */
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "ca/ca.h"
#include "common/base/must.h"
#include "proxy/worker/leaf_cert.h"

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 1000;
	SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
	double ours = 0, workers = 0;
	struct err err = ERR_INIT;
	struct leaf_cert cert = { 0 };
	struct ca_leaf_key *k;
	struct ca_issuer *i;
	struct buf der = { 0 };
	const uint8_t *p;
	EVP_PKEY *key;
	X509 *x;

	MUST(ctx != NULL && ca_create(&key, &x, NULL, &err) == 0 && (i = ca_issuer_new(key, x, &err)) != NULL);
	EVP_PKEY_free(key);
	k = ca_leaf_key_new(i);
	ca_leaf_key_der(k, &der);
	p = buf_data(&der);
	MUST((key = d2i_AutoPrivateKey(NULL, &p, (long)buf_len(&der))) != NULL);
	leaf_cert_init(&cert);
	leaf_cert_key(&cert, key);
	for (int r = -20; r < n; r++) {
		SSL *ssl = SSL_new(ctx);
		struct canon_host h;
		const char *why;
		double a, b, c;
		char host[64];
		X509 *leaf;

		snprintf(host, sizeof(host), "n%d.names.test", r + 20);
		MUST(canon_host(str_of(host), false, &h, &why));
		buf_clear(&der);
		a = now_us();
		MUST(ca_mint(i, k, &h, time(NULL), 7 * 24 * 3600, &der) == CA_MINT_OK);
		b = now_us();
		leaf = leaf_cert_read(&cert, buf_data(&der), buf_len(&der), NULL);
		MUST(leaf != NULL && SSL_use_certificate(ssl, leaf) == 1 && SSL_use_PrivateKey(ssl, key) == 1);
		c = now_us();
		ours += r < 0 ? 0 : b - a;
		workers += r < 0 ? 0 : c - b;
		X509_free(leaf);
		SSL_free(ssl);
	}
	printf("%.1f %.1f\n", n > 0 ? ours / n : 0, n > 0 ? workers / n : 0);
	return 0;
}
