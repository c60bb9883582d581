/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection from the sandbox.
 *
 *   SNIFF -> (first octet 0x16) TLS -> HTTP or H2    explicit proxy port: HTTP, and after CONNECT: SNIFF again
 *         -> (a letter) HTTP                         port 53: DNS
 *         -> (0x16, where TLS may be passed through) HELLO -> TUNNEL, or TLS
 *   TUNNEL at once where the policy says `protocol: tcp`
 *   any -> LINGER: the last answer is out, what still comes is thrown away for a moment, so that it is not lost to a reset
 *
 * Names: ident says for whom the connection was made (CONNECT, synthetic address, SNI), and everything inside must agree
 * with it. HTTP/2 is spoken when TLS agreed on it (ALPN), and never in the clear.
 */
#include <errno.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../common/base/must.h"
#include "../../common/sys/clock.h"
#include "../../common/sys/log.h"
#include "../exchange/websocket.h"
#include "../http/hello.h"
#include "client.h"

#define PROXY_PORT 3128
#define DNS_PORT 53

static void process(struct conn *c);
static void free_conn(struct conn *c);
static const struct conn_ops conn_ops = { process, free_conn };

void client_set_state(struct client *cl, enum client_state s)
{
	cl->state = s;
	cl->state_ms = loop_now_ms(cl->w->loop);
}

static void connection_record(struct client *cl)
{
	struct buf b = { 0 };
	char ip[IP_TEXT_MAX];

	if (!cl->record_due)
		return;
	cl->record_due = false;
	if (cl->code != REFUSAL_NONE && cl->code != REFUSAL_CLIENT_CLOSED && cl->code != REFUSAL_GATEWAY_UNAVAILABLE) {
		cl->w->counts.requests++;
		cl->w->counts.refused++;
	}
	record_s(&b, REC_KIND, STR("connection"));
	record_s(&b, REC_DECISION, cl->code == REFUSAL_NONE && cl->dest_known ? STR("allow") : STR("deny"));
	if (cl->code != REFUSAL_NONE)
		record_s(&b, REC_CODE, str_of(refusal_text(cl->code)));
	record_s(&b, REC_REASON, str_of(cl->reason));
	record_s(&b, REC_REQUEST_ID, str_of(cl->conn_id));
	record_u(&b, REC_TIME_MS, cl->start_ms);
	record_u(&b, REC_DURATION_MS, clock_wall_ms() - cl->start_ms);
	if (cl->in_connect)
		record_s(&b, REC_METHOD, STR("CONNECT"));
	if (cl->ident.known) {
		record_s(&b, REC_HOST, str_mk(cl->ident.host.text, cl->ident.host.len));
	} else {
		ip_format(&cl->dialled, ip);
		record_s(&b, REC_HOST, str_of(ip));
	}
	record_u(&b, REC_PORT, cl->ident.known ? cl->ident.port : cl->port);
	if (cl->ident.tls_version != NULL) {
		record_s(&b, REC_TLS_VERSION, str_of(cl->ident.tls_version));
		record_s(&b, REC_TLS_CIPHER, str_of(cl->ident.tls_cipher));
	}
	record_s(&b, REC_SNI, str_of(cl->ident.sni));
	record_u(&b, REC_BYTES_IN, cl->c.bytes_in);
	record_u(&b, REC_BYTES_OUT, cl->c.bytes_out);
	record_s(&b, REC_IDENTITY, STR("listener"));
	if (cl->tunnel != NULL)
		reporter_record(cl->w->rep, NULL, tunnel_record(cl, &b), &b);
	else if (cl->code == REFUSAL_NONE && cl->dest_known)
		reporter_connection(cl->w->rep, &b);
	else
		reporter_record(cl->w->rep, NULL, INFLIGHT_NO_SLOT, &b);
	buf_fini(&b);
}

void client_end(struct client *cl, bool reset)
{
	if (cl->c.closed)
		return;
	if (cl->x != NULL) {
		struct exchange *x = cl->x;

		cl->x = NULL;
		exchange_client_gone(x);
	}
	if (cl->h2 != NULL)
		client_h2_gone(cl);
	connection_record(cl);
	if (cl->tunnel != NULL)
		tunnel_gone(cl, reset);
	handle_free(&cl->w->handles, cl->handle);
	if (reset)
		conn_abort(&cl->c);
	else
		conn_close(&cl->c);
}

static void free_conn(struct conn *c) { free(c); }

static void fail(struct client *cl, enum refusal_code code, const char *reason, bool reset)
{
	cl->code = code;
	cl->reason = reason;
	cl->record_due = true;
	client_end(cl, reset);
}

void client_linger(struct client *cl)
{
	if (cl->state == CL_LINGER)
		return;
	client_set_state(cl, CL_LINGER);
	cl->c.shut_after_flush = true;
	cl->c.paused = false;
	conn_flush_later(&cl->c);
	conn_kick(&cl->c);
}

void client_alert(struct client *cl, int alert)
{
	const uint8_t record[7] = { 21, 3, 3, 0, 2, SSL3_AL_FATAL, (uint8_t)alert }; /* RFC 8446 5.1, 6 */

	buf_add(&cl->c.out, record, sizeof(record));
	conn_flush_now(&cl->c);
	shutdown(cl->c.fd, SHUT_WR); /* it goes out before the end */
	client_end(cl, false);
}

static bool is_own_address(const struct ip *a)
{
	static const uint8_t six[16] = { 0xfd, [15] = 0x15 };

	if (a->family == 4)
		return a->b[12] == 127 || memcmp(a->b + 12, "\x0a\0\x02\x0f", 4) == 0;
	return memcmp(a->b, six, 16) == 0 || memcmp(a->b, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1", 16) == 0;
}

static bool local_address(int fd, struct ip *ip, uint16_t *port)
{
	struct sockaddr_storage ss;
	socklen_t n = sizeof(ss);

	*ip = (struct ip){ 0 };
	if (getsockname(fd, (struct sockaddr *)&ss, &n) != 0)
		return false;
	if (ss.ss_family == AF_INET) {
		const struct sockaddr_in *s = (const void *)&ss;

		ip->family = 4;
		memcpy(ip->b + 12, &s->sin_addr, 4);
		*port = ntohs(s->sin_port);
	} else if (ss.ss_family == AF_INET6) {
		const struct sockaddr_in6 *s = (const void *)&ss;

		*port = ntohs(s->sin6_port);
		if (IN6_IS_ADDR_V4MAPPED(&s->sin6_addr)) {
			ip->family = 4;
			memcpy(ip->b + 12, s->sin6_addr.s6_addr + 12, 4);
		} else {
			ip->family = 6;
			memcpy(ip->b, &s->sin6_addr, 16);
		}
	} else {
		return false;
	}
	return true;
}

/* `protocol: tcp`: who it leads to is known from where the program connected to, or not at all. */
static bool accept_tunnel(struct client *cl)
{
	struct worker *w = cl->w;
	struct canon_host h = { .ip = cl->dialled };
	struct decision o;
	struct dest d;

	if (!table_port_speaks(w->table, SCHEME_TCP, cl->port))
		return false;
	if (cl->ident.known) {
		h = cl->ident.host;
	} else {
		ip_format(&h.ip, h.text);
		h.len = (uint8_t)strlen(h.text);
	}
	if (!decide_tunnel(w->table, SCHEME_TCP, str_mk(h.text, h.len), cl->port, clock_wall_ms() / 1000, &d, &o))
		return false;
	cl->ident.known = true;
	cl->ident.host = h;
	cl->ident.port = cl->port;
	cl->ident.scheme = SCHEME_TCP;
	tunnel_start(cl, SCHEME_TCP, &d, &o);
	return true;
}

void client_accept(struct worker *w, int fd)
{
	struct client *cl = must_calloc(1, sizeof(*cl));
	const struct canon_host *name;
	static struct log_limit said_unwatched;
	int one = 1;

	if (!conn_init(&cl->c, w->loop, fd, &conn_ops, &w->clients)) {
		log_limited(&said_unwatched, "a connection is dropped: %s", strerror(errno));
		close(fd);
		free(cl);
		return;
	}
	cl->w = w;
	cl->half.ops = &client_h1_ops;
	cl->start_ms = clock_wall_ms();
	worker_request_id(w, cl->conn_id);
	setsockopt(fd, IPPROTO_TCP, 1 /* TCP_NODELAY */, &one, sizeof(one));
	cl->handle = handle_new(&w->handles, HANDLE_CLIENT, &cl->c);
	client_set_state(cl, CL_SNIFF);
	if (!local_address(fd, &cl->dialled, &cl->port)) {
		client_end(cl, true);
		return;
	}
	cl->ident.transparent_port = cl->port;
	if (cl->port == DNS_PORT) {
		client_set_state(cl, CL_DNS);
	} else if (cl->port == PROXY_PORT && is_own_address(&cl->dialled)) {
		cl->ident.explicit_proxy = true;
		client_set_state(cl, CL_HTTP);
	} else {
		name = names_of_address(w->names, &cl->dialled);
		if (name != NULL) {
			cl->ident.known = true;
			cl->ident.host = *name;
			cl->ident.port = cl->port;
			cl->ident.scheme = SCHEME_HTTPS; /* until the first octet says otherwise */
		}
		if (accept_tunnel(cl))
			return;
		/* refused at once where the policy knows no such port, before an octet is read */
		if (!table_port_speaks(w->table, SCHEME_HTTPS, cl->port) && !table_port_speaks(w->table, SCHEME_HTTP, cl->port) && !(w->explain_denials && (cl->port == 443 || cl->port == 80))) {
			fail(cl, REFUSAL_DESTINATION_DENIED, "port", true);
			return;
		}
	}
	process(&cl->c);
}

/* --- TLS ----------------------------------------------------------------------------------------------------------- */

static void identity_finding(struct client *cl)
{
	struct buf b = { 0 };

	record_s(&b, REC_KIND, STR("finding"));
	record_s(&b, REC_CODE, STR("identity_mismatch"));
	record_s(&b, REC_HOST, str_mk(cl->ident.host.text, cl->ident.host.len));
	record_s(&b, REC_SNI, str_of(cl->ident.sni));
	record_s(&b, REC_MESSAGE, STR("the server name in the ClientHello differs from the name that the connection was made for"));
	record_s(&b, REC_REQUEST_ID, str_of(cl->conn_id));
	record_u(&b, REC_TIME_MS, clock_wall_ms());
	reporter_record(cl->w->rep, NULL, INFLIGHT_NO_SLOT, &b);
	buf_fini(&b);
}

static int hello_fail(struct client *cl, int *alert, int a, enum refusal_code code, const char *reason)
{
	*alert = a;
	cl->code = code;
	cl->reason = reason;
	if (code == REFUSAL_IDENTITY_MISMATCH)
		identity_finding(cl);
	return SSL_CLIENT_HELLO_ERROR;
}

/* Identity and decision, once per connection: CONNECT or synthetic address, SNI, destination agree. */
static int hello_decide(struct client *cl, SSL *ssl, int *alert)
{
	const unsigned char *ext;
	size_t n;
	struct str sni = STR_NONE;
	struct canon_host h;
	struct dest d;
	const char *reason;
	enum hello_sni got = HELLO_SNI_NONE;
	int found;

	if (SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_server_name, &ext, &n) == 1)
		got = hello_sni(ext, n, &sni);
	if (got == HELLO_SNI_BAD)
		return hello_fail(cl, alert, SSL_AD_DECODE_ERROR, REFUSAL_MALFORMED_REQUEST, "sni");
	if (got == HELLO_SNI_OK) {
		snprintf(cl->ident.sni, sizeof(cl->ident.sni), "%.*s", (int)(sni.n > CANON_HOST_MAX ? CANON_HOST_MAX : sni.n), sni.p);
		if (!canon_host(sni, false, &h, &reason) || h.ip.family != 0)
			return hello_fail(cl, alert, SSL_AD_UNRECOGNIZED_NAME, REFUSAL_MALFORMED_REQUEST, "sni");
		snprintf(cl->ident.sni, sizeof(cl->ident.sni), "%s", h.text);
		if (creds_name_trips(cl->w->creds, &h, "a placeholder stands in the server name of a ClientHello"))
			return hello_fail(cl, alert, SSL_AD_UNRECOGNIZED_NAME, REFUSAL_PLACEHOLDER_MISUSE, "sni");
		if (cl->ident.known && strcmp(h.text, cl->ident.host.text) != 0)
			return hello_fail(cl, alert, SSL_AD_UNRECOGNIZED_NAME, REFUSAL_IDENTITY_MISMATCH, "sni_mismatch");
		cl->ident.host = h;
	} else if (!cl->ident.known) {
		/* no name anywhere: only a destination written as this very address can be meant */
		memset(&h, 0, sizeof(h));
		h.ip = cl->dialled;
		ip_format(&h.ip, h.text);
		h.len = (uint8_t)strlen(h.text);
		if (table_find(cl->w->table, SCHEME_HTTPS, str_mk(h.text, h.len), cl->port, &d) != 1)
			return hello_fail(cl, alert, SSL_AD_UNRECOGNIZED_NAME, REFUSAL_MALFORMED_REQUEST, "no_sni");
		cl->ident.host = h;
	}
	if (!cl->ident.known)
		cl->ident.port = cl->port;
	cl->ident.known = true;
	cl->ident.scheme = SCHEME_HTTPS;
	found = table_find(cl->w->table, SCHEME_HTTPS, str_mk(cl->ident.host.text, cl->ident.host.len), cl->ident.port, &d);
	cl->dest_known = found == 1;
	if (found < 0)
		return hello_fail(cl, alert, SSL_AD_INTERNAL_ERROR, REFUSAL_NO_POLICY, "table");
	if (!cl->dest_known && !cl->w->explain_denials)
		return hello_fail(cl, alert, SSL_AD_UNRECOGNIZED_NAME, REFUSAL_DESTINATION_DENIED, "destination");
	if (cl->dest_known && d.tunnel) /* who was read as TLS of another name would have been passed through */
		return hello_fail(cl, alert, SSL_AD_UNRECOGNIZED_NAME, REFUSAL_DESTINATION_DENIED, "passthrough");
	cl->tls_decided = true;
	return SSL_CLIENT_HELLO_SUCCESS;
}

int client_hello(void *arg, SSL *ssl, int *alert)
{
	struct client *cl = arg;
	int r;

	if (!cl->tls_decided) {
		r = hello_decide(cl, ssl, alert);
		if (r != SSL_CLIENT_HELLO_SUCCESS)
			return r;
	}
	switch (tls_leaf(cl->w->tls, ssl, str_mk(cl->ident.host.text, cl->ident.host.len), !cl->dest_known, cl->handle)) {
	case LEAF_READY:
		return SSL_CLIENT_HELLO_SUCCESS;
	case LEAF_WAIT:
		return SSL_CLIENT_HELLO_RETRY;
	case LEAF_REFUSED:
		return hello_fail(cl, alert, SSL_AD_UNRECOGNIZED_NAME, REFUSAL_DESTINATION_DENIED, "mint_refused");
	case LEAF_CA_EXPIRED:
		return hello_fail(cl, alert, SSL_AD_INTERNAL_ERROR, REFUSAL_GATEWAY_UNAVAILABLE, "ca_expired");
	default:
		return hello_fail(cl, alert, SSL_AD_INTERNAL_ERROR, REFUSAL_GATEWAY_UNAVAILABLE, "ca_down");
	}
}

static void tls_step(struct client *cl)
{
	int r = SSL_do_handshake(cl->c.ssl), e;
	const unsigned char *alpn = NULL;
	unsigned alpn_len = 0;

	if (r == 1) {
		cl->ident.tls_version = SSL_get_version(cl->c.ssl);
		cl->ident.tls_cipher = SSL_get_cipher_name(cl->c.ssl);
		cl->record_due = true;
		SSL_get0_alpn_selected(cl->c.ssl, &alpn, &alpn_len);
		if (alpn_len == 2 && memcmp(alpn, "h2", 2) == 0)
			client_h2_start(cl);
		else
			client_set_state(cl, CL_HTTP);
		process(&cl->c);
		return;
	}
	e = SSL_get_error(cl->c.ssl, r);
	if (e == SSL_ERROR_WANT_CLIENT_HELLO_CB || ((e == SSL_ERROR_WANT_READ || e == SSL_ERROR_WANT_WRITE) && !(cl->c.rdhup && !cl->c.readable)))
		return;
	if (cl->code == REFUSAL_NONE) {
		unsigned long err = ERR_peek_error();
		int why = ERR_GET_REASON(err);

		cl->code = REFUSAL_CLIENT_CLOSED;
		cl->reason = "tls_handshake";
		if (why == SSL_R_TLSV1_ALERT_UNKNOWN_CA || why == SSL_R_SSLV3_ALERT_BAD_CERTIFICATE || why == SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN)
			cl->reason = "client_rejected_ca";
		else if (why == SSL_R_UNSUPPORTED_PROTOCOL || why == SSL_R_VERSION_TOO_LOW)
			cl->code = REFUSAL_MALFORMED_REQUEST, cl->reason = "tls_version";
		else if (why == SSL_R_NO_SHARED_CIPHER || why == SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM)
			cl->code = REFUSAL_MALFORMED_REQUEST, cl->reason = "tls_no_common_cipher";
	}
	ERR_clear_error();
	cl->record_due = true;
	shutdown(cl->c.fd, SHUT_WR); /* the alert goes out before the end */
	client_end(cl, false);
}

/* --- TLS that is passed through ------------------------------------------------------------------------------------ */

static void begin_tls(struct client *cl)
{
	conn_start_tls(&cl->c, tls_server(cl->w->tls, cl));
	client_set_state(cl, CL_TLS);
	tls_step(cl);
}

static void hello_alert(struct client *cl, int alert, enum refusal_code code, const char *reason)
{
	cl->code = code;
	cl->reason = reason;
	cl->record_due = true;
	if (code == REFUSAL_IDENTITY_MISMATCH)
		identity_finding(cl);
	client_alert(cl, alert);
}

static bool decide_passthrough(struct client *cl, const struct canon_host *h, struct dest *d, struct decision *o)
{
	return decide_tunnel(cl->w->table, SCHEME_HTTPS, str_mk(h->text, h->len), cl->ident.known ? cl->ident.port : cl->port, clock_wall_ms() / 1000, d, o);
}

/* The whole ClientHello is there: the name in it must be the one that is passed through. */
static void hello_whole(struct client *cl, const struct hello *hello)
{
	struct canon_host h = { .ip = cl->dialled };
	struct decision o;
	struct dest d;
	const char *reason;

	if (hello->sni == HELLO_SNI_OK) {
		snprintf(cl->ident.sni, sizeof(cl->ident.sni), "%s", hello->name);
		if (!canon_host(str_of(hello->name), false, &h, &reason) || h.ip.family != 0) {
			if (cl->ident.known)
				hello_alert(cl, SSL_AD_UNRECOGNIZED_NAME, REFUSAL_MALFORMED_REQUEST, "sni");
			else
				begin_tls(cl); /* refuses it */
			return;
		}
		snprintf(cl->ident.sni, sizeof(cl->ident.sni), "%s", h.text);
		if (cl->ident.known && strcmp(h.text, cl->ident.host.text) != 0) {
			hello_alert(cl, SSL_AD_UNRECOGNIZED_NAME, REFUSAL_IDENTITY_MISMATCH, "sni_mismatch");
			return;
		}
	} else if (cl->ident.known) {
		h = cl->ident.host; /* without a name in it, it is for whom the connection was made */
	} else {
		ip_format(&h.ip, h.text);
		h.len = (uint8_t)strlen(h.text);
	}
	if (!decide_passthrough(cl, &h, &d, &o)) {
		begin_tls(cl);
		return;
	}
	if (!cl->ident.known)
		cl->ident.port = cl->port;
	cl->ident.known = true;
	cl->ident.host = h;
	cl->ident.scheme = SCHEME_HTTPS;
	tunnel_start(cl, SCHEME_HTTPS, &d, &o);
}

static void read_hello(struct client *cl)
{
	struct hello h;

	conn_fill(&cl->c);
	switch (hello_read(buf_data(&cl->c.in), buf_len(&cl->c.in), &h)) {
	case HELLO_WHOLE:
		hello_whole(cl, &h);
		return;
	case HELLO_MORE:
		if (cl->c.eof || cl->c.failed)
			fail(cl, REFUSAL_CLIENT_CLOSED, "tls_handshake", cl->c.failed);
		return;
	case HELLO_BAD:
		if (cl->ident.known)
			hello_alert(cl, SSL_AD_DECODE_ERROR, REFUSAL_MALFORMED_REQUEST, "client_hello");
		else
			begin_tls(cl); /* whose library finds the same */
		return;
	}
}

/* Whether this may be TLS that is passed through: by its name, or, where none is known yet, by what the ClientHello says. */
static bool may_pass(struct client *cl)
{
	struct decision o;
	struct dest d;

	return !cl->ident.known || decide_passthrough(cl, &cl->ident.host, &d, &o);
}

void client_sniff(struct client *cl)
{
	uint8_t first;

	conn_fill(&cl->c);
	if (buf_len(&cl->c.in) == 0) {
		if (cl->c.eof || cl->c.failed) {
			if (cl->in_connect)
				cl->record_due = true;
			client_end(cl, false);
		}
		return;
	}
	first = buf_data(&cl->c.in)[0];
	if (first == 0x16 && may_pass(cl)) {
		client_set_state(cl, CL_HELLO);
		read_hello(cl);
		return;
	}
	if (first == 0x16) {
		begin_tls(cl);
		return;
	}
	if ((first >= 'A' && first <= 'Z') || (first >= 'a' && first <= 'z') || first == '\r') {
		cl->ident.scheme = SCHEME_HTTP;
		client_set_state(cl, CL_HTTP);
		process(&cl->c);
		return;
	}
	fail(cl, REFUSAL_MALFORMED_REQUEST, cl->in_connect ? "non_tls_tunnel" : "not_http", false);
}

static void dns(struct client *cl)
{
	struct conn *c = &cl->c;
	size_t n;

	conn_fill(c);
	while (buf_len(&c->in) >= 2) {
		n = (size_t)buf_data(&c->in)[0] << 8 | buf_data(&c->in)[1];
		if (buf_len(&c->in) < 2 + n)
			break;
		if (buf_len(&c->out) > CONN_OUT_HIGH || !names_tcp(cl->w->names, buf_data(&c->in) + 2, n, &c->out)) {
			client_end(cl, true);
			return;
		}
		buf_drop(&c->in, 2 + n);
		conn_flush_later(c);
	}
	if (c->eof || c->failed)
		client_linger(cl);
}

static void process(struct conn *c)
{
	struct client *cl = (struct client *)c;

	if (c->closed)
		return;
	switch (cl->state) {
	case CL_SNIFF:
		client_sniff(cl);
		break;
	case CL_HELLO:
		read_hello(cl);
		break;
	case CL_TLS:
		tls_step(cl);
		break;
	case CL_TUNNEL:
		tunnel_process(cl);
		break;
	case CL_HTTP:
		client_h1(cl);
		break;
	case CL_H2:
		client_h2(cl);
		break;
	case CL_DNS:
		dns(cl);
		break;
	case CL_LINGER:
		conn_fill(c);
		cl->lingered += buf_len(&c->in);
		buf_clear(&c->in);
		if ((c->eof && buf_len(&c->out) == 0) || c->failed || cl->lingered > LIMIT_LINGER_BYTES)
			client_end(cl, c->failed || cl->lingered > LIMIT_LINGER_BYTES);
		else if (c->more)
			conn_yield(c);
		break;
	}
}

/* --- what the exchange asks of its host ---------------------------------------------------------------------------- */

static bool host_begin(void *arg, struct exchange *x, enum refusal_code *code)
{
	struct worker *w = arg;
	struct str method = exchange_method(x);
	struct buf b = { 0 };

	*code = REFUSAL_AUDIT_UNAVAILABLE;
	if (x->handle == 0)
		x->handle = handle_new(&w->handles, HANDLE_EXCHANGE, x);
	/* also of what will be refused for want of audit: its record must outlive this worker */
	record_s(&b, REC_KIND, STR("request"));
	record_s(&b, REC_REQUEST_ID, str_of(x->request_id));
	record_u(&b, REC_TIME_MS, x->start_ms);
	record_s(&b, REC_METHOD, str_mk(method.p, method.n > 32 ? 32 : method.n));
	record_s(&b, REC_HOST, x->ident != NULL && x->ident->known ? str_mk(x->ident->host.text, x->ident->host.len) : STR_NONE);
	record_s(&b, REC_PATH, str_mk(x->req.path.p, x->req.path.n > 120 ? 120 : x->req.path.n));
	x->slot = reporter_slot(w->rep, &b);
	buf_fini(&b);
	return reporter_ok(w->rep) && x->slot != INFLIGHT_NO_SLOT;
}

static enum secret_state host_secret(void *arg, struct exchange *x, const struct dest *d, const struct inject *in, struct str *value, struct str *cause)
{
	return creds_get(((struct worker *)arg)->creds, x, d, in, value, cause);
}

static bool host_sign(void *arg, struct exchange *x, unsigned inject, struct buf *message, struct str *cause)
{
	struct msg_sign what = { .dest_index = x->dest.index, .inject = inject };

	return signings_ask(((struct worker *)arg)->signings, x->generation, &what, message, HANDLE_EXCHANGE, x->handle, cause);
}

static void host_upstream(void *arg, struct exchange *x, const struct upstream_want *want) { upstreams_acquire(((struct worker *)arg)->ups, x, want); }
static void host_upstream_cancel(void *arg, struct exchange *x) { upstreams_cancel(((struct worker *)arg)->ups, x); }
static struct scrub_ref *host_scrub(void *arg) { return creds_scrub(((struct worker *)arg)->creds); }

static void host_scrub_done(void *arg, struct scrub_ref *ref)
{
	(void)arg;
	creds_scrub_done(ref);
}

static void host_record(void *arg, struct exchange *x, const struct buf *fields)
{
	struct worker *w = arg;

	w->counts.requests++;
	if (x->decision.verdict != VERDICT_ALLOW)
		w->counts.refused++;
	if (x->handle != 0)
		handle_free(&w->handles, x->handle);
	x->handle = 0;
	reporter_record(w->rep, policy_of_generation(w, x->generation), x->slot, fields);
}

static const struct placeholders *host_placeholders(void *arg) { return creds_placeholders(((struct worker *)arg)->creds); }
static void host_misuse(void *arg, struct str secret) { creds_misuse(((struct worker *)arg)->creds, secret); }
static void host_event(void *arg, const struct buf *fields) { reporter_record(((struct worker *)arg)->rep, NULL, INFLIGHT_NO_SLOT, fields); }

static void host_equip(void *arg, struct exchange *x)
{
	struct worker *w = arg;

	x->meter = &w->meter;
	x->observe = w->observe;
}

static void host_over(void *arg, struct exchange *x) { policy_release(policy_of_generation(arg, x->generation)); }

static bool host_websocket(void *arg, struct exchange *x, bool begins)
{
	struct worker *w = arg;
	struct websocket *ws = x->ws;

	if (!begins) {
		*(ws->prev != NULL ? &ws->prev->ws->next : &w->websockets) = ws->next;
		if (ws->next != NULL)
			ws->next->ws->prev = ws->prev;
		w->websocket_n--;
		return true;
	}
	if (w->websocket_n >= LIMIT_WEBSOCKETS)
		return false;
	ws->next = w->websockets;
	if (ws->next != NULL)
		ws->next->ws->prev = x;
	w->websockets = x;
	w->websocket_n++;
	return true;
}

static void websockets_decide_again(struct worker *w)
{
	for (struct exchange *x = w->websockets, *next; x != NULL; x = next) {
		next = x->ws->next;
		websocket_redecide(x, w->table);
	}
}

const struct exchange_host worker_exchange_host = { host_begin, host_secret, host_sign, host_upstream, host_upstream_cancel, host_scrub, host_scrub_done, host_record, host_event, host_equip, host_over, host_placeholders, host_misuse, host_websocket };

/* --- time-outs ----------------------------------------------------------------------------------------------------- */

void clients_slots_freed(struct worker *w)
{
	if (!w->slots_awaited)
		return;
	w->slots_awaited = false;
	for (struct conn *c = w->clients.head; c != NULL; c = c->next)
		if (((struct client *)c)->awaits_slot)
			conn_kick(c);
}

void clients_decide_again(struct worker *w)
{
	websockets_decide_again(w);
	tunnels_decide_again(w, w->table);
}

void clients_end(struct worker *w)
{
	while (w->clients.head != NULL)
		client_end((struct client *)w->clients.head, false);
}

static size_t client_queued(const struct conn *c) { return conn_queued(c) + tunnel_queued((const struct client *)c); }

/* Over the limit the clients whose queues are the largest go until it is kept. */
static void keep_memory(void *arg)
{
	struct worker *w = arg;

	w->shedding = false;
	while (worker_memory(w) > LIMIT_MEMORY && w->clients.head != NULL) {
		struct conn *largest = w->clients.head;

		for (struct conn *c = largest; c != NULL; c = c->next)
			if (client_queued(c) > client_queued(largest))
				largest = c;
		fail((struct client *)largest, REFUSAL_LIMIT_EXCEEDED, "memory", true);
	}
}

/* Some connection holds more: not here, in the middle of its work, but before this turn ends. */
static void on_grew(struct conn_list *l)
{
	struct worker *w = l->owner;

	if (w->shedding || worker_memory(w) <= LIMIT_MEMORY)
		return;
	w->shedding = true;
	loop_defer(w->loop, keep_memory, w);
}

void clients_watch_memory(struct worker *w)
{
	w->clients.owner = w->upstream_conns.owner = w->tunnel_conns.owner = w;
	w->clients.grew = w->upstream_conns.grew = w->tunnel_conns.grew = on_grew;
}

void client_sweep(struct worker *w)
{
	uint64_t now = loop_now_ms(w->loop);

	for (struct conn *c = w->clients.head, *next; c != NULL; c = next) {
		struct client *cl = (struct client *)c;

		next = c->next;
		conn_idle_trim(c);
		switch (cl->state) {
		case CL_SNIFF:
			if (now - cl->state_ms > LIMIT_SNIFF_MS)
				fail(cl, REFUSAL_CLIENT_CLOSED, "nothing_sent", false);
			break;
		case CL_TUNNEL:
			tunnel_sweep(cl, now);
			break;
		case CL_HELLO:
		case CL_TLS:
			if (now - cl->state_ms > LIMIT_HANDSHAKE_MS)
				fail(cl, REFUSAL_CLIENT_CLOSED, "tls_timeout", false);
			break;
		case CL_HTTP:
			client_h1_sweep(cl, now);
			break;
		case CL_H2:
			client_h2_sweep(cl, now);
			break;
		case CL_DNS:
			if (now - c->active_ms > LIMIT_SNIFF_MS)
				client_end(cl, false);
			break;
		case CL_LINGER:
			if (now - cl->state_ms > (buf_len(&c->out) > 0 ? LIMIT_HEAD_MS : LIMIT_LINGER_MS))
				client_end(cl, buf_len(&c->out) > 0);
			break;
		}
	}
}
