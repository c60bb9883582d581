/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_SECRETS_HTTP_H
#define SP_SECRETS_HTTP_H
/*
 * HTTPS requests of this role, by libcurl, on sockets that the dialer connected: curl resolves and connects nothing, and
 * the dialer goes only where gateway.yaml (Vault) or a sandbox's table (a token end-point) says. One connection for each
 * request; no redirect is followed; answers are bounded in size and time.
 */
#include <curl/curl.h>
#include <openssl/x509.h>

#include "../../common/base/buf.h"
#include "../../common/policy/secret_param.h"
#include "../../common/sys/ipc.h"
#include "../../common/trust.h"

#define HTTP_BODY_MAX (1u << 20)
#define HTTP_TIMEOUT_MS 15000

struct http;
struct http_call;
/* Whom to trust, and who we are. The store and the identity live as long as this. */
struct http_tls {
	X509_STORE *store; /* NULL: the gateway's own trust anchors */
	X509 *certificate; /* with key: a client's identity */
	EVP_PKEY *key;
};
struct http_request {
	const char *method;
	struct endpoint to;	       /* where; its texts need only live until http_start returns */
	struct str query;	       /* with its '?', or empty */
	struct msg_dial_source source; /* what the dialer looks it up by */
	uint32_t generation;
	const struct http_tls *tls; /* lives until the answer */
	struct curl_slist *headers; /* taken */
	struct buf body;	    /* taken, wiped; content is sent with POST and PUT */
};
struct http_answer {
	int status; /* 0: there was no answer, and cause says why */
	const char *cause;
	struct str body;
	const char *location; /* of a redirect, or NULL */
	uint32_t retry_after_s;
};
typedef void http_fn(void *arg, const struct http_answer *a);

struct http *http_new(struct loop *l); /* before this role confines itself: libraries load lazily */
void http_free(struct http *h);
void http_trust(struct http *h, struct trust *t);     /* the gateway's anchors; taken */
void http_dialer(struct http *h, struct ipc *dialer); /* NULL: it is down */
void http_dialed(struct http *h, struct ipc_msg *m);
/* fn is called once, later, unless cancelled. */
struct http_call *http_start(struct http *h, struct http_request *r, http_fn *fn, void *arg);
void http_cancel(struct http_call *c);					      /* NULL is fine */
void http_header(struct http_request *r, const char *name, struct str value); /* appends; the value is wiped with the request */
#endif
