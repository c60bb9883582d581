/* SPDX-License-Identifier: Apache-2.0 */
#include "http.h"

#include <errno.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../common/base/must.h"

#define DIAL_MS 12000

struct http_call {
	struct http_call *next;
	struct http *h;
	http_fn *fn;
	void *arg;
	uint64_t id; /* of the dial under way; 0: dialled */
	int fd;	     /* connected, until curl takes it */
	bool over;
	CURL *easy; /* NULL until dialled */
	char error[CURL_ERROR_SIZE], cause[300];
	struct endpoint to;
	char *url, *method;
	const struct http_tls *tls;
	struct curl_slist *headers, *resolve;
	struct buf body, in;
	bool too_large;
	uint32_t retry_after_s;
	struct timer late;
};
struct sock {
	struct watch watch;
	struct http *h;
};
struct http {
	struct loop *loop;
	CURLM *multi;
	struct timer timer;
	struct ipc *dialer;
	struct trust *trust;
	X509_STORE *store;
	struct http_call *calls;
	uint64_t last_id;
};

/* --- the end ------------------------------------------------------------------------------------------------------- */

static void wipe_list(struct curl_slist *l)
{
	for (struct curl_slist *s = l; s != NULL; s = s->next)
		explicit_bzero(s->data, strlen(s->data));
	curl_slist_free_all(l);
}

static void free_call(void *arg)
{
	struct http_call *c = arg;

	wipe_list(c->headers);
	curl_slist_free_all(c->resolve);
	buf_fini_secret(&c->body);
	buf_fini_secret(&c->in);
	free(c->url);
	free(c->method);
	free(c);
}

static void drop(struct http_call *c)
{
	if (c->over)
		return;
	c->over = true;
	for (struct http_call **p = &c->h->calls; *p != NULL; p = &(*p)->next) {
		if (*p == c) {
			*p = c->next;
			break;
		}
	}
	timer_stop(&c->late);
	if (c->easy != NULL) {
		curl_multi_remove_handle(c->h->multi, c->easy);
		curl_easy_cleanup(c->easy);
	}
	if (c->fd >= 0)
		close(c->fd);
	loop_defer(c->h->loop, free_call, c);
}

void http_cancel(struct http_call *c)
{
	if (c != NULL)
		drop(c);
}

static void answer(struct http_call *c, int status, const char *location)
{
	struct http_answer a = { status, c->cause, buf_str(&c->in), location, c->retry_after_s };
	char where[2100];

	if (c->over)
		return;
	if (location != NULL) { /* curl's memory goes with the handle */
		snprintf(where, sizeof(where), "%s", location);
		a.location = where;
	}
	drop(c); /* what was received lives until the end of this turn */
	c->fn(c->arg, &a);
}

static void failed(struct http_call *c, const char *cause)
{
	snprintf(c->cause, sizeof(c->cause), "%s", cause);
	answer(c, 0, NULL);
}

static void on_late(struct timer *t) { failed((struct http_call *)((char *)t - offsetof(struct http_call, late)), "there is no answer in time"); }

/* --- curl's callbacks ---------------------------------------------------------------------------------------------- */

static curl_socket_t on_open(void *arg, curlsocktype purpose, struct curl_sockaddr *addr)
{
	struct http_call *c = arg;
	int fd = c->fd;

	(void)addr;
	if (purpose != CURLSOCKTYPE_IPCXN || fd < 0)
		return CURL_SOCKET_BAD;
	c->fd = -1;
	return fd;
}

static int on_sockopt(void *arg, curl_socket_t fd, curlsocktype purpose)
{
	(void)arg;
	(void)fd;
	(void)purpose;
	return CURL_SOCKOPT_ALREADY_CONNECTED;
}

static size_t on_body(char *p, size_t size, size_t n, void *arg)
{
	struct http_call *c = arg;

	(void)size;
	if (buf_len(&c->in) + n > HTTP_BODY_MAX) {
		c->too_large = true;
		return 0;
	}
	buf_add(&c->in, p, n);
	return n;
}

static size_t on_head(char *p, size_t size, size_t n, void *arg)
{
	struct http_call *c = arg;
	struct str line = str_mk(p, n), name = STR("retry-after:");
	uint64_t s;

	(void)size;
	if (line.n > name.n && str_ieq(str_mk(p, name.n), name)) {
		line = str_mk(p + name.n, n - name.n);
		while (line.n > 0 && line.p[0] == ' ')
			line = str_mk(line.p + 1, line.n - 1);
		while (line.n > 0 && (line.p[line.n - 1] == '\r' || line.p[line.n - 1] == '\n' || line.p[line.n - 1] == ' '))
			line.n--;
		if (str_u64(line, 3600, &s))
			c->retry_after_s = (uint32_t)s;
	}
	return n;
}

/*
 * The whole verification, in place of what curl prepared: how and when curl fills its store differs between its versions.
 * The name is compared here as well as by curl.
 */
static int verify(X509_STORE_CTX *theirs, void *arg)
{
	struct http_call *c = arg;
	X509_STORE *store = c->tls != NULL && c->tls->store != NULL ? c->tls->store : c->h->store;
	X509_STORE_CTX *v = X509_STORE_CTX_new();
	X509_VERIFY_PARAM *param;
	STACK_OF(X509) * chain;
	int ok = 0, e = X509_V_ERR_UNSPECIFIED;

	if (v == NULL || store == NULL || X509_STORE_CTX_init(v, store, X509_STORE_CTX_get0_cert(theirs), X509_STORE_CTX_get0_untrusted(theirs)) != 1 ||
	    X509_STORE_CTX_set_default(v, "ssl_server") != 1)
		goto out;
	param = X509_STORE_CTX_get0_param(v);
	X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
	if ((c->to.host.ip.family != 0 ? X509_VERIFY_PARAM_set1_ip_asc(param, c->to.host.text) : X509_VERIFY_PARAM_set1_host(param, c->to.host.text, c->to.host.len)) != 1)
		goto out;
	ok = X509_verify_cert(v) == 1;
	e = X509_STORE_CTX_get_error(v);
	chain = X509_STORE_CTX_get0_chain(v);
	for (int i = 0; ok && c->h->trust != NULL && i < sk_X509_num(chain); i++) {
		if (trust_barred(c->h->trust, sk_X509_value(chain, i))) {
			ok = 0;
			e = X509_V_ERR_CERT_REJECTED;
		}
	}
out:
	X509_STORE_CTX_free(v);
	if (!ok && e == X509_V_OK)
		e = X509_V_ERR_UNSPECIFIED;
	X509_STORE_CTX_set_error(theirs, ok ? X509_V_OK : e);
	if (!ok)
		snprintf(c->cause, sizeof(c->cause), "its certificate is refused: %s", X509_verify_cert_error_string(e));
	return ok;
}

static CURLcode on_tls(CURL *easy, void *ctx, void *arg)
{
	struct http_call *c = arg;

	(void)easy;
	SSL_CTX_set_cert_verify_callback(ctx, verify, c);
	if (SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1)
		return CURLE_SSL_CONNECT_ERROR;
	if (c->tls != NULL && c->tls->key != NULL && (SSL_CTX_use_certificate(ctx, c->tls->certificate) != 1 || SSL_CTX_use_PrivateKey(ctx, c->tls->key) != 1))
		return CURLE_SSL_CERTPROBLEM;
	return CURLE_OK;
}

/* --- curl on the loop ---------------------------------------------------------------------------------------------- */

static void finished(struct http *h)
{
	CURLMsg *m;
	int left;

	while ((m = curl_multi_info_read(h->multi, &left)) != NULL) {
		struct http_call *c;
		CURLcode rc = m->data.result;
		char *location = NULL;
		long status = 0;

		if (m->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&c);
		if (rc == CURLE_OK) {
			curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
			curl_easy_getinfo(c->easy, CURLINFO_REDIRECT_URL, &location);
			answer(c, (int)status, location);
		} else if (c->too_large) {
			failed(c, "its answer is larger than 1 MiB");
		} else if (c->cause[0] != 0) {
			answer(c, 0, NULL);
		} else {
			failed(c, c->error[0] != 0 ? c->error : curl_easy_strerror(rc));
		}
	}
}

static void on_timer(struct timer *t)
{
	struct http *h = (struct http *)((char *)t - offsetof(struct http, timer));
	int running;

	curl_multi_socket_action(h->multi, CURL_SOCKET_TIMEOUT, 0, &running);
	finished(h);
}

static int set_timer(CURLM *m, long ms, void *arg)
{
	struct http *h = arg;

	(void)m;
	if (ms < 0)
		timer_stop(&h->timer);
	else
		timer_start(h->loop, &h->timer, (uint64_t)ms, on_timer);
	return 0;
}

static void on_socket(struct watch *w, uint32_t events)
{
	struct sock *s = (struct sock *)((char *)w - offsetof(struct sock, watch));
	struct http *h = s->h;
	int running, what = 0;

	if (events & EPOLLIN)
		what |= CURL_CSELECT_IN;
	if (events & EPOLLOUT)
		what |= CURL_CSELECT_OUT;
	if (events & (EPOLLERR | EPOLLHUP))
		what |= CURL_CSELECT_ERR;
	curl_multi_socket_action(h->multi, w->fd, what, &running);
	finished(h);
}

static void free_sock(void *arg) { free(arg); }

static int set_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *of)
{
	struct http *h = arg;
	struct sock *s = of;
	uint32_t events = (what == CURL_POLL_IN || what == CURL_POLL_INOUT ? EPOLLIN : 0u) | (what == CURL_POLL_OUT || what == CURL_POLL_INOUT ? EPOLLOUT : 0u);

	(void)easy;
	if (what == CURL_POLL_REMOVE) {
		if (s != NULL) {
			watch_stop(&s->watch);
			loop_defer(h->loop, free_sock, s);
		}
		curl_multi_assign(h->multi, fd, NULL);
	} else if (s == NULL) {
		s = must_calloc(1, sizeof(*s));
		s->h = h;
		curl_multi_assign(h->multi, fd, s);
		watch_start(h->loop, &s->watch, fd, events, on_socket);
	} else {
		watch_set(&s->watch, events);
	}
	return 0;
}

struct http *http_new(struct loop *l)
{
	struct http *h = must_calloc(1, sizeof(*h));
	CURL *warm;

	h->loop = l;
	MUST(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK && (h->multi = curl_multi_init()) != NULL);
	curl_multi_setopt(h->multi, CURLMOPT_SOCKETFUNCTION, set_socket);
	curl_multi_setopt(h->multi, CURLMOPT_SOCKETDATA, h);
	curl_multi_setopt(h->multi, CURLMOPT_TIMERFUNCTION, set_timer);
	curl_multi_setopt(h->multi, CURLMOPT_TIMERDATA, h);
	/* error texts, ciphers and the like are looked for once */
	warm = curl_easy_init();
	MUST(warm != NULL);
	curl_easy_cleanup(warm);
	SSL_CTX_free(SSL_CTX_new(TLS_client_method()));
	(void)strerror(ECONNREFUSED);
	return h;
}

void http_free(struct http *h)
{
	if (h == NULL)
		return;
	while (h->calls != NULL)
		drop(h->calls);
	timer_stop(&h->timer);
	curl_multi_cleanup(h->multi);
	X509_STORE_free(h->store);
	trust_free(h->trust);
	free(h);
}

void http_trust(struct http *h, struct trust *t)
{
	X509_STORE_free(h->store);
	trust_free(h->trust);
	h->trust = t;
	h->store = trust_store_new(t);
}

/* --- one request --------------------------------------------------------------------------------------------------- */

static void begin(struct http_call *c)
{
	CURL *e = curl_easy_init();
	bool content = strcmp(c->method, "POST") == 0 || strcmp(c->method, "PUT") == 0;
	char pair[CANON_HOST_MAX + 64];

	MUST(e != NULL);
	c->easy = e;
	snprintf(pair, sizeof(pair), "%s:%u:192.0.2.1", c->to.host.text, c->to.port); /* never used: the socket is connected */
	if (c->to.host.ip.family == 0)
		c->resolve = curl_slist_append(NULL, pair);
	curl_easy_setopt(e, CURLOPT_URL, c->url);
	curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "https");
	curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(e, CURLOPT_RESOLVE, c->resolve);
	curl_easy_setopt(e, CURLOPT_IPRESOLVE, (long)(c->to.host.ip.family == 6 ? CURL_IPRESOLVE_V6 : CURL_IPRESOLVE_V4));
	curl_easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, on_open);
	curl_easy_setopt(e, CURLOPT_OPENSOCKETDATA, c);
	curl_easy_setopt(e, CURLOPT_SOCKOPTFUNCTION, on_sockopt);
	curl_easy_setopt(e, CURLOPT_FRESH_CONNECT, 1L);
	curl_easy_setopt(e, CURLOPT_FORBID_REUSE, 1L);
	curl_easy_setopt(e, CURLOPT_PROXY, "");
	curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, (long)HTTP_TIMEOUT_MS);
	curl_easy_setopt(e, CURLOPT_CAINFO, NULL);
	curl_easy_setopt(e, CURLOPT_CAPATH, NULL);
	curl_easy_setopt(e, CURLOPT_SSL_VERIFYPEER, 1L);
	curl_easy_setopt(e, CURLOPT_SSL_VERIFYHOST, 2L);
	curl_easy_setopt(e, CURLOPT_SSL_SESSIONID_CACHE, 0L);
	curl_easy_setopt(e, CURLOPT_SSL_CTX_FUNCTION, on_tls);
	curl_easy_setopt(e, CURLOPT_SSL_CTX_DATA, c);
	curl_easy_setopt(e, CURLOPT_ERRORBUFFER, c->error);
	curl_easy_setopt(e, CURLOPT_PRIVATE, c);
	curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(e, CURLOPT_WRITEDATA, c);
	curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_head);
	curl_easy_setopt(e, CURLOPT_HEADERDATA, c);
	curl_easy_setopt(e, CURLOPT_USERAGENT, "sallyport/" SP_VERSION);
	if (content) {
		c->headers = curl_slist_append(c->headers, "Expect:");
		curl_easy_setopt(e, CURLOPT_POSTFIELDS, (char *)buf_data(&c->body));
		curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE, (long)buf_len(&c->body));
	}
	curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, c->method);
	curl_easy_setopt(e, CURLOPT_HTTPHEADER, c->headers);
	MUST(curl_multi_add_handle(c->h->multi, e) == CURLM_OK);
}

static void on_no_dialer(struct timer *t) { failed((struct http_call *)((char *)t - offsetof(struct http_call, late)), "the dialer is down"); }

struct http_call *http_start(struct http *h, struct http_request *r, http_fn *fn, void *arg)
{
	struct http_call *c = must_calloc(1, sizeof(*c));
	struct buf url = { 0 };

	c->h = h;
	c->fn = fn;
	c->arg = arg;
	c->fd = -1;
	c->to = r->to;
	c->to.path = STR_NONE;
	c->tls = r->tls;
	c->headers = r->headers;
	c->body = r->body;
	buf_addf(&url, r->to.host.ip.family == 6 ? "https://[%s]:%u" : "https://%s:%u", r->to.host.text, r->to.port);
	buf_adds(&url, r->to.path);
	buf_adds(&url, r->query);
	buf_addc(&url, 0);
	c->url = must_strdup((const char *)buf_data(&url));
	c->method = must_strdup(r->method);
	buf_fini(&url);
	c->next = h->calls;
	h->calls = c;
	c->id = ++h->last_id;
	if (h->dialer != NULL && ipc_send(h->dialer, MSG_DIAL_SOURCE, r->generation, c->id, &r->source, sizeof(r->source), NULL, 0))
		timer_start(h->loop, &c->late, DIAL_MS, on_late);
	else
		timer_start(h->loop, &c->late, 0, on_no_dialer);
	return c;
}

static bool is_stream(int fd)
{
	int type = 0;
	socklen_t n = sizeof(type);

	return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n) == 0 && type == SOCK_STREAM;
}

void http_dialed(struct http *h, struct ipc_msg *m)
{
	const struct msg_dialed *d = (const void *)m->data;
	struct http_call *c = h->calls;

	while (c != NULL && c->id != m->id)
		c = c->next;
	if (c == NULL || m->id == 0)
		return;
	c->id = 0;
	timer_stop(&c->late);
	if (d->status == DIAL_OK && (m->fd_n != 1 || !is_stream(m->fds[0]))) {
		snprintf(c->cause, sizeof(c->cause), "what the role that connects handed over is no connection");
		answer(c, 0, NULL);
		return;
	}
	if (d->status != DIAL_OK) {
		snprintf(c->cause, sizeof(c->cause), "%.*s", (int)(m->len - sizeof(*d)), (const char *)m->data + sizeof(*d));
		answer(c, 0, NULL);
		return;
	}
	c->fd = m->fds[0];
	m->fds[0] = -1;
	begin(c);
}

void http_dialer(struct http *h, struct ipc *dialer)
{
	h->dialer = dialer;
	if (dialer != NULL)
		return;
	for (struct http_call *c = h->calls, *next; c != NULL; c = next) {
		next = c->next;
		if (c->id == 0)
			continue;
		c->id = 0;
		timer_start(h->loop, &c->late, 0, on_no_dialer); /* not from here: the callback may start another */
	}
}

void http_header(struct http_request *r, const char *name, struct str value)
{
	struct buf b = { 0 };

	buf_addf(&b, "%s: ", name);
	buf_adds(&b, value);
	buf_addc(&b, 0);
	r->headers = curl_slist_append(r->headers, (const char *)buf_data(&b));
	buf_fini_secret(&b);
}
