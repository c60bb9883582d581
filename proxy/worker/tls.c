/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker's one user of OpenSSL. Toward the sandbox: identity, decision and mint happen in the client hello callback
 * (the certificate callback is not called for resumed sessions; there are none here, and the name is needed first).
 * Toward upstreams: chain, name, purpose and strength are verified; sessions are kept per origin and used once.
 */
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <time.h>

#include "../../common/base/must.h"
#include "../../common/sys/clock.h"
#include "../../common/sys/log.h"
#include "../../common/tls_warm.h"
#include "leaf_cert.h"
#include "remote_key.h"
#include "verify.h"
#include "worker.h"

#define LEAF_BUCKETS 256
#define LEAF_BACK_S (24 * 3600) /* leaves are valid from 48 hours before they were minted */
#define CTX_CACHE 64

struct leaf {
	struct leaf *next;
	uint64_t hash, id;
	int64_t minted_s, half_s, end_s; /* by the clock that clients go by: a machine may have slept, or been set */
	X509 *x509;
	bool refusal, asking;
	enum leaf_state refused;  /* LEAF_NONE: it was not */
	struct policy_gen *asked; /* held while asking */
	uint64_t *waiting;
	size_t waiting_n, waiting_cap;
	char host[CANON_HOST_MAX + 1];
};
struct dest_ctx {
	const struct table *table;
	uint32_t dest_index;
	SSL_CTX *ctx;
};
struct tls {
	struct worker *w;
	SSL_CTX *server, *upstream;
	EVP_PKEY *leaf_key;
	struct leaf_cert cert;
	struct leaf *leaves[LEAF_BUCKETS];
	size_t leaf_n;
	struct dest_ctx dests[CTX_CACHE];
	unsigned dest_n;
	int origin_idx;
};

static int on_client_hello(SSL *ssl, int *alert, void *arg)
{
	(void)arg;
	return client_hello(SSL_get_app_data(ssl), ssl, alert);
}

/* h2 where the client offers it, else http/1.1; always out of its offer (UB03). */
static int on_alpn(SSL *ssl, const unsigned char **out, unsigned char *outlen, const unsigned char *in, unsigned int inlen, void *arg)
{
	static const char *const ours[] = { "h2", "http/1.1" };

	(void)ssl;
	(void)arg;
	for (unsigned k = 0; k < 2; k++) {
		size_t n = strlen(ours[k]);

		for (unsigned i = 0; i < inlen && i + 1 + in[i] <= inlen; i += 1u + in[i]) {
			if (in[i] == n && memcmp(in + i + 1, ours[k], n) == 0) {
				*out = in + i + 1;
				*outlen = in[i];
				return SSL_TLSEXT_ERR_OK;
			}
		}
	}
	return SSL_TLSEXT_ERR_ALERT_FATAL;
}

static int on_new_session(SSL *ssl, SSL_SESSION *s)
{
	void *origin = SSL_get_app_data(ssl);

	if (origin == NULL)
		return 0;
	upstreams_new_session(origin, s);
	return 1; /* taken */
}

static void common_options(SSL_CTX *ctx)
{
	SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
	SSL_CTX_set_options(ctx, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
	SSL_CTX_set_read_ahead(ctx, 1);
	/* three records: given back after each read, and chunks of 64 KiB make the allocator tidy up every time */
	SSL_CTX_set_default_read_buffer_len(ctx, 3 * (SSL3_RT_HEADER_LENGTH + SSL3_RT_MAX_ENCRYPTED_LENGTH));
	/* the first list where OpenSSL has these (3.5); the star is a key share sent at once */
	if (SSL_CTX_set1_groups_list(ctx, "*X25519MLKEM768:*X25519:P-256:P-384") != 1) {
		ERR_clear_error();
		MUST(SSL_CTX_set1_groups_list(ctx, "X25519:P-256:P-384") == 1);
	}
	SSL_CTX_set_ciphersuites(ctx, "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256");
}

static SSL_CTX *upstream_ctx(struct tls *t, X509_STORE *store, const struct dest *d)
{
	static const unsigned char alpn[] = "\x02h2\x08http/1.1";
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());

	MUST(ctx != NULL);
	common_options(ctx);
	SSL_CTX_set_security_level(ctx, 2);
	/* ephemeral key agreement with AEAD only */
	SSL_CTX_set_cipher_list(ctx, "ECDHE+AESGCM:ECDHE+CHACHA20");
	if (d != NULL && d->tls_min == 13)
		SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION);
	verify_setup(ctx, t->w->trust, d);
	if (store != NULL)
		SSL_CTX_set1_verify_cert_store(ctx, store);
	SSL_CTX_set_alpn_protos(ctx, alpn, sizeof(alpn) - 1);
	/* where lists of revoked certificates come with the policy, each connection is verified: a resumed one is not, and a list has its end */
	SSL_CTX_set_session_cache_mode(ctx, d != NULL && d->has_crl ? SSL_SESS_CACHE_OFF : SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
	SSL_CTX_sess_set_new_cb(ctx, on_new_session);
	return ctx;
}

struct tls *tls_new(struct worker *w)
{
	struct tls *t = must_calloc(1, sizeof(*t));

	t->w = w;
	t->server = SSL_CTX_new(TLS_server_method());
	MUST(t->server != NULL);
	common_options(t->server);
	SSL_CTX_set_mode(t->server, SSL_MODE_NO_AUTO_CHAIN); /* the leaf is all we send: nothing is built, or verified, for each connection */
	SSL_CTX_set_options(t->server, SSL_OP_NO_TICKET | SSL_OP_CIPHER_SERVER_PREFERENCE);
	SSL_CTX_set_num_tickets(t->server, 0);
	SSL_CTX_set_session_cache_mode(t->server, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_cipher_list(t->server, "ECDHE+AESGCM:ECDHE+CHACHA20");
	SSL_CTX_set_client_hello_cb(t->server, on_client_hello, NULL);
	SSL_CTX_set_alpn_select_cb(t->server, on_alpn, NULL);
	leaf_cert_init(&t->cert);
	return t;
}

void tls_warm(struct tls *t)
{
	SSL_CTX *server = SSL_CTX_new(TLS_server_method()), *client = upstream_ctx(t, NULL, NULL);

	MUST(server != NULL);
	common_options(server);
	tls_warm_handshakes(server, client);
	SSL_CTX_free(server);
	SSL_CTX_free(client);
	conn_bio_method();
	remote_key_warm();
}

bool tls_set_leaf_key(struct tls *t, const uint8_t *der, size_t n)
{
	EVP_PKEY *k = d2i_AutoPrivateKey(NULL, &der, (long)n);

	if (k == NULL)
		return false;
	EVP_PKEY_free(t->leaf_key);
	t->leaf_key = k;
	leaf_cert_key(&t->cert, k);
	/* leaves carry the key of the ca that minted them: after its restart all are minted anew */
	for (unsigned i = 0; i < LEAF_BUCKETS; i++) {
		for (struct leaf *l = t->leaves[i]; l != NULL; l = l->next) {
			X509_free(l->x509);
			l->x509 = NULL;
		}
	}
	return true;
}

static void wake(struct tls *t, struct leaf *l)
{
	uint64_t *ids = l->waiting;
	size_t n = l->waiting_n;

	l->waiting = NULL;
	l->waiting_n = l->waiting_cap = 0;
	for (size_t i = 0; i < n; i++) {
		struct conn *c = handle_get(&t->w->handles, HANDLE_CLIENT, ids[i]);

		if (c != NULL)
			conn_kick(c);
	}
	free(ids);
}

static void forget_some(struct tls *t)
{
	/* the cache is full: a bucket at random makes room; a leaf costs the ca 0.1 ms to mint again */
	uint8_t b;

	random_fill(&b, 1);
	for (struct leaf **p = &t->leaves[b % LEAF_BUCKETS]; *p != NULL;) {
		struct leaf *l = *p;

		if (l->asking) {
			p = &l->next;
			continue;
		}
		*p = l->next;
		X509_free(l->x509);
		free(l->waiting);
		free(l);
		t->leaf_n--;
	}
}

static struct leaf *leaf_of(struct tls *t, struct str host, bool refusal)
{
	uint64_t h = hash_bytes(host.p, host.n);
	struct leaf *l, **b = &t->leaves[h % LEAF_BUCKETS];

	for (l = *b; l != NULL; l = l->next)
		if (l->hash == h && l->refusal == refusal && str_eq(str_of(l->host), host))
			return l;
	for (int i = 0; i < 64 && t->leaf_n >= LIMIT_LEAVES; i++)
		forget_some(t);
	l = must_calloc(1, sizeof(*l));
	l->hash = h;
	l->refusal = refusal;
	MUST(host.n <= CANON_HOST_MAX);
	memcpy(l->host, host.p, host.n);
	l->next = *b;
	*b = l;
	t->leaf_n++;
	return l;
}

static bool ask(struct tls *t, struct leaf *l)
{
	struct msg_mint m = { .kind = l->refusal ? MINT_REFUSAL : MINT_LEAF };

	if (l->asking)
		return true;
	/* the key need not be here yet: it comes on the same link, before any answer */
	if (t->w->ca == NULL)
		return false;
	l->id = handle_new(&t->w->handles, HANDLE_LEAF, l);
	if (!ipc_send2(t->w->ca, MSG_MINT, t->w->generation, l->id, &m, sizeof(m), l->host, strlen(l->host), NULL, 0)) {
		handle_free(&t->w->handles, l->id);
		return false;
	}
	l->asking = true;
	l->asked = policy_hold(t->w->policy);
	l->refused = LEAF_NONE;
	return true;
}

static void answered(struct tls *t, struct leaf *l)
{
	handle_free(&t->w->handles, l->id);
	l->asking = false;
	policy_release(l->asked);
}

static int64_t now_s(void) { return (int64_t)(clock_wall_ms() / 1000); }

/* Past half of its life a leaf still serves while the next one is being minted. */
static bool leaf_usable(const struct leaf *l) { return l->x509 != NULL && now_s() < l->end_s && now_s() >= l->minted_s - LEAF_BACK_S; }
static bool leaf_fresh(const struct leaf *l) { return leaf_usable(l) && now_s() < l->half_s; }

static void leaf_times(struct leaf *l)
{
	struct tm tm;

	l->minted_s = now_s();
	l->end_s = ASN1_TIME_to_tm(X509_get0_notAfter(l->x509), &tm) == 1 ? (int64_t)timegm(&tm) : 0;
	l->half_s = l->minted_s + (l->end_s - l->minted_s) / 2;
}

void tls_want_leaf(struct tls *t, struct str host, bool refusal)
{
	struct leaf *l = leaf_of(t, host, refusal);

	if (!leaf_fresh(l))
		ask(t, l);
}

enum leaf_state tls_leaf(struct tls *t, SSL *ssl, struct str host, bool refusal, uint64_t client_handle)
{
	struct leaf *l = leaf_of(t, host, refusal);

	if (leaf_usable(l)) {
		if (!leaf_fresh(l))
			ask(t, l);
		if (SSL_use_certificate(ssl, l->x509) != 1 || SSL_use_PrivateKey(ssl, t->leaf_key) != 1) {
			ERR_clear_error();
			return LEAF_NO_CA;
		}
		return LEAF_READY;
	}
	if (l->refused != LEAF_NONE) {
		enum leaf_state why = l->refused;

		l->refused = LEAF_NONE; /* the next client asks again */
		return why;
	}
	if (!ask(t, l))
		return LEAF_NO_CA;
	if (l->waiting_n == l->waiting_cap) {
		l->waiting_cap = l->waiting_cap ? l->waiting_cap * 2 : 4;
		l->waiting = must_realloc(l->waiting, l->waiting_cap * sizeof(*l->waiting));
	}
	l->waiting[l->waiting_n++] = client_handle;
	return LEAF_WAIT;
}

void tls_minted(struct tls *t, const struct ipc_msg *m)
{
	const struct msg_minted *a = (const void *)m->data;
	struct leaf *l = handle_get(&t->w->handles, HANDLE_LEAF, m->id);
	X509 *x;

	if (l == NULL || !l->asking)
		return;
	answered(t, l);
	x = a->status == MINT_OK ? leaf_cert_read(&t->cert, m->data + sizeof(*a), m->len - sizeof(*a), NULL) : NULL;
	if (x != NULL || !leaf_usable(l)) { /* one that is valid is not given up because there is no other yet */
		X509_free(l->x509);
		l->x509 = x;
		if (x != NULL) {
			l->refused = LEAF_NONE;
			leaf_times(l);
		} else {
			l->refused = a->status == MINT_EXPIRED ? LEAF_CA_EXPIRED : LEAF_REFUSED;
		}
	}
	ERR_clear_error();
	wake(t, l);
}

void tls_ca_lost(struct tls *t)
{
	for (unsigned i = 0; i < LEAF_BUCKETS; i++) {
		for (struct leaf *l = t->leaves[i]; l != NULL; l = l->next) {
			if (!l->asking)
				continue;
			answered(t, l);
			wake(t, l);
		}
	}
}

SSL *tls_server(struct tls *t, void *client)
{
	SSL *s = SSL_new(t->server);

	MUST(s != NULL);
	SSL_set_app_data(s, client);
	SSL_set_accept_state(s);
	return s;
}

static bool add_lists(X509_STORE *store, const struct dest *d)
{
	bool ok = true;
	struct str der;

	for (unsigned i = 0; ok && dest_crl(d, i, &der); i++) {
		const unsigned char *p = (const unsigned char *)der.p;
		X509_CRL *x = d2i_X509_CRL(NULL, &p, (long)der.n);

		ok = x != NULL && X509_STORE_add_crl(store, x) == 1;
		X509_CRL_free(x);
	}
	return ok;
}

static SSL_CTX *dest_ctx(struct tls *t, const struct dest *d, const char **cause)
{
	X509_STORE *store;
	struct str der;
	SSL_CTX *ctx;
	unsigned n = 0;

	for (unsigned i = 0; i < t->dest_n; i++)
		if (t->dests[i].table == d->table && t->dests[i].dest_index == d->index)
			return t->dests[i].ctx;
	if (d->has_ca) {
		store = X509_STORE_new();
		for (unsigned i = 0; dest_ca(d, i, &der); i++) {
			const unsigned char *p = (const unsigned char *)der.p;
			X509 *x = d2i_X509(NULL, &p, (long)der.n);

			if (x != NULL && X509_STORE_add_cert(store, x) == 1)
				n++;
			X509_free(x);
		}
		/* a listed certificate is trusted as it is, also when it is not self-signed */
		X509_VERIFY_PARAM_set_flags(X509_STORE_get0_param(store), X509_V_FLAG_PARTIAL_CHAIN);
	} else {
		store = t->w->trust != NULL ? trust_store_new(t->w->trust) : NULL;
		n = store != NULL;
	}
	if (n == 0) {
		X509_STORE_free(store);
		*cause = "there are no trust anchors for it";
		return NULL;
	}
	if (d->has_crl && !add_lists(store, d)) {
		X509_STORE_free(store);
		*cause = "the policy's lists of revoked certificates (tls.crl) cannot be read";
		return NULL;
	}
	ctx = upstream_ctx(t, store, d);
	X509_STORE_free(store);
	if (t->dest_n == CTX_CACHE) {
		SSL_CTX_free(t->dests[0].ctx);
		memmove(t->dests, t->dests + 1, sizeof(t->dests[0]) * (CTX_CACHE - 1));
		t->dest_n--;
	}
	t->dests[t->dest_n++] = (struct dest_ctx){ d->table, d->index, ctx };
	return ctx;
}

void tls_table_gone(struct tls *t, const struct table *table)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < t->dest_n; i++) {
		if (t->dests[i].table == table)
			SSL_CTX_free(t->dests[i].ctx);
		else
			t->dests[kept++] = t->dests[i];
	}
	t->dest_n = kept;
}

SSL *tls_upstream(struct tls *t, const struct dest *d, const struct canon_host *host, void *origin, const char **cause)
{
	SSL_CTX *ctx;
	SSL *s;
	bool ok;

	if (!d->has_ca && !d->has_crl && d->tls_min != 13 && d->pin_n == 0) {
		if (t->upstream == NULL) {
			X509_STORE *store = t->w->trust != NULL ? trust_store_new(t->w->trust) : NULL;

			if (store == NULL) {
				*cause = "there are no trust anchors";
				return NULL;
			}
			t->upstream = upstream_ctx(t, store, NULL);
			X509_STORE_free(store);
		}
		ctx = t->upstream;
	} else {
		ctx = dest_ctx(t, d, cause);
		if (ctx == NULL)
			return NULL;
	}
	s = SSL_new(ctx);
	MUST(s != NULL);
	SSL_set_app_data(s, origin);
	SSL_set_connect_state(s);
	if (host->ip.family != 0) {
		ok = X509_VERIFY_PARAM_set1_ip(SSL_get0_param(s), host->ip.family == 4 ? host->ip.b + 12 : host->ip.b, host->ip.family == 4 ? 4 : 16) == 1;
	} else {
		ok = SSL_set1_host(s, host->text) == 1 && SSL_set_tlsext_host_name(s, host->text) == 1;
	}
	MUST(ok);
	if (d->alpn_h1 && !d->alpn_h2)
		tls_h1_only(s);
	else if (d->alpn_h2 && !d->alpn_h1)
		SSL_set_alpn_protos(s, (const unsigned char *)"\x02h2", 3);
	return s;
}

void tls_h1_only(SSL *ssl)
{
	static const unsigned char alpn[] = "\x08http/1.1";

	SSL_set_alpn_protos(ssl, alpn, sizeof(alpn) - 1);
}

static void put_hex(char *out, const uint8_t *p, size_t n)
{
	static const char hex[] = "0123456789abcdef";

	for (size_t i = 0; i < n; i++) {
		out[2 * i] = hex[p[i] >> 4];
		out[2 * i + 1] = hex[p[i] & 15];
	}
	out[2 * n] = 0;
}

void tls_peer_facts(SSL *ssl, struct upstream_facts *f)
{
	X509 *x = SSL_get0_peer_certificate(ssl);
	int group = (int)SSL_get_negotiated_group(ssl);
	uint8_t md[TRUST_DIGEST_LEN];
	unsigned n = 0;
	struct tm tm;

	f->tls_version = SSL_get_version(ssl);
	f->tls_cipher = SSL_get_cipher_name(ssl);
	f->tls_group = group != 0 ? SSL_group_to_name(ssl, group) : NULL;
	f->staple = verify_staple(ssl);
	f->resumed = SSL_session_reused(ssl) == 1;
	if (x == NULL)
		return;
	X509_NAME_oneline(X509_get_issuer_name(x), f->issuer, sizeof(f->issuer));
	if (X509_digest(x, EVP_sha256(), md, &n) == 1 && n == sizeof(md))
		put_hex(f->cert_sha256, md, sizeof(md));
	if (trust_key_digest(x, md))
		put_hex(f->spki_sha256, md, sizeof(md));
	if (ASN1_TIME_to_tm(X509_get0_notAfter(x), &tm) == 1)
		f->cert_expires_ms = (uint64_t)timegm(&tm) * 1000;
}
