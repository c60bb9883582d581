/* SPDX-License-Identifier: Apache-2.0 */
#include "exchange.h"

#include <stdio.h>
#include <stdlib.h>

#include "../../common/base/must.h"
#include "../../common/sys/clock.h"
#include "coding.h"
#include "credential.h"
#include "inject.h"
#include "limit.h"
#include "rpc.h"
#include "websocket.h"

/*
 * X_ANSWERING: refused, and recorded so; the content, which may be a call of JSON-RPC or GraphQL, is still read, so that the
 * answer has the form and the id that its sender looks for. Nothing of it goes anywhere.
 * X_HOLDING: whether it passes depends on the content, which is collected; nothing has been asked of anyone yet.
 */
enum { X_NEW = 0, X_HOLDING, X_SECRETS, X_UPSTREAM, X_SENDING, X_ANSWERING, X_OVER };

#define RESET_INTERNAL 2 /* INTERNAL_ERROR of RFC 9113 7 */
#define INTERIM_MAX 10 /* 1xx responses before the final one */
#define DECODE_SLICE 16384 /* octets of decoded content at a time */
#define CONTINUE_MS 3000 /* an origin that neither says 100 nor answers: the client is told to send, as if it had */
#define HOLD_MS 30000    /* for the content that a rule looks at */
#define CALL_MS 5000     /* for the content of a refused call */
#define SECRET_WAIT_REASON "the credential for this destination could not be had; the operator sees why in the gateway's log"

struct exchange *exchange_new(struct loop *l, const struct exchange_host *host, void *host_arg, struct client_half *client, const struct exchange_ident *ident,
	const struct table *table, uint32_t generation, const char request_id[33])
{
	struct exchange *x = must_malloc(sizeof(*x));

	/* the field array is large and written before it is read: everything else is zeroed */
	memset(x, 0, offsetof(struct exchange, req));
	memset((char *)&x->req, 0, offsetof(struct http_request, fields));
	x->req.fields.n = 0;
	memset(&x->req.framing, 0, sizeof(x->req) - offsetof(struct http_request, framing));
	memset(x->request_id, 0, sizeof(*x) - offsetof(struct exchange, request_id));
	x->loop = l;
	x->host = host;
	x->host_arg = host_arg;
	x->client = client;
	x->ident = ident;
	x->table = table;
	x->generation = generation;
	host->equip(host_arg, x);
	x->slot = INFLIGHT_NO_SLOT;
	x->start_ms = clock_wall_ms();
	x->start_us = clock_mono_us();
	x->begun_ms = x->active_ms = loop_now_ms(l);
	memcpy(x->request_id, request_id, 33);
	return x;
}

static void free_deferred(void *arg)
{
	struct exchange *x = arg;

	arena_fini(&x->arena);
	if (x->scrub_on)
		scrub_fini(&x->scrub);
	buf_fini_secret(&x->scrubbed);
	decode_free(x->decode);
	buf_fini_secret(&x->coded);
	buf_fini(&x->call);
	buf_fini_secret(&x->content_held);
	credential_free(x);
	free(x);
}

static void leave_upstream(struct exchange *x, bool reusable)
{
	struct upstream_half *u = x->up;

	if (x->waiting_upstream) {
		x->waiting_upstream = false;
		x->host->upstream_cancel(x->host_arg, x);
	}
	if (u == NULL)
		return;
	x->up = NULL;
	u->x = NULL;
	u->ops->leave(u, reusable);
}

static struct str version_text(enum http_version v)
{
	switch (v) {
	case HTTP_V_1_0:
		return STR("HTTP/1.0");
	case HTTP_V_2:
		return STR("HTTP/2");
	default:
		return STR("HTTP/1.1");
	}
}

struct str exchange_method(const struct exchange *x) { return x->req.upgrade_websocket ? STR("WEBSOCKET") : x->req.method; }

static bool is_open(const struct exchange *x) { return x != NULL && x->ws != NULL && x->ws->open; }

#define RECORD_ROOM 1000 /* most records need no more; within what the allocator keeps at hand */

static void write_record(struct exchange *x)
{
	struct buf b = { 0 };
	const struct exchange_ident *id = x->ident;
	uint64_t hits;

	if (x->recorded)
		return;
	x->recorded = true;
	buf_room(&b, RECORD_ROOM);
	/* first what the request's slot holds as well (reporter.c) */
	record_s(&b, REC_KIND, STR("request"));
	record_s(&b, REC_REQUEST_ID, str_of(x->request_id));
	record_u(&b, REC_TIME_MS, x->start_ms);
	record_s(&b, REC_METHOD, exchange_method(x));
	if (x->chost.len > 0)
		record_s(&b, REC_HOST, str_mk(x->chost.text, x->chost.len));
	else if (id != NULL && id->known)
		record_s(&b, REC_HOST, str_mk(id->host.text, id->host.len));
	record_s(&b, REC_PATH, x->path_record.n ? x->path_record : x->req.path);
	record_s(&b, REC_DECISION, x->decision.verdict == VERDICT_ALLOW ? STR("allow") : STR("deny"));
	record_u(&b, REC_DURATION_MS, (clock_mono_us() - x->start_us) / 1000);
	if (x->code != REFUSAL_NONE)
		record_s(&b, REC_CODE, str_of(refusal_text(x->code)));
	record_s(&b, REC_REASON, str_of(x->reason));
	if (x->scheme != SCHEME_NONE)
		record_s(&b, REC_SCHEME, x->scheme == SCHEME_HTTP ? STR("http") : STR("https"));
	if (x->port)
		record_u(&b, REC_PORT, x->port);
	if (x->req.has_query)
		record_s(&b, REC_QUERY, inject_redact_query(&x->arena, x->req.query, x->has_dest && x->dest.log_query));
	if (x->status)
		record_u(&b, REC_STATUS, x->status);
	if (x->req.version != HTTP_V_NONE)
		record_s(&b, REC_CLIENT_PROTOCOL, version_text(x->req.version));
	if (x->upf.ip[0] || x->upf.proxy[0]) {
		record_s(&b, REC_UPSTREAM_PROTOCOL, version_text(x->upf.version));
		record_s(&b, REC_UPSTREAM_IP, str_of(x->upf.ip));
	}
	if (x->upf.proxy[0]) {
		record_s(&b, REC_UPSTREAM_PROXY, str_of(x->upf.proxy));
		record_s(&b, REC_VETTED_BY, x->upf.proxy_vetted ? STR("proxy") : STR("gateway"));
	}
	record_s(&b, REC_RULE, x->decision.rule);
	record_s(&b, REC_SOURCE, x->decision.source);
	if (x->decision.by_boundary)
		record_u(&b, REC_BOUNDARY, 1);
	if (x->observed)
		record_u(&b, REC_OBSERVED, 1);
	for (unsigned i = 0; i < x->secret_n; i++)
		record_s(&b, REC_SECRET, x->secret_names[i]);
	record_u(&b, REC_BYTES_IN, x->content_in);
	record_u(&b, REC_BYTES_OUT, x->content_out);
	if (id != NULL && id->tls_version != NULL) {
		record_s(&b, REC_TLS_VERSION, str_of(id->tls_version));
		record_s(&b, REC_TLS_CIPHER, str_of(id->tls_cipher));
		record_s(&b, REC_SNI, str_of(id->sni));
	}
	record_s(&b, REC_CERT_ISSUER, str_of(x->upf.issuer));
	record_s(&b, REC_CERT_SHA256, str_of(x->upf.cert_sha256));
	if (x->upf.tls_version != NULL) {
		record_s(&b, REC_CERT_SPKI_SHA256, str_of(x->upf.spki_sha256));
		record_u(&b, REC_CERT_EXPIRES_MS, x->upf.cert_expires_ms);
		record_s(&b, REC_UPSTREAM_TLS, str_of(x->upf.tls_version));
		record_s(&b, REC_UPSTREAM_CIPHER, str_of(x->upf.tls_cipher));
		record_s(&b, REC_UPSTREAM_GROUP, x->upf.tls_group != NULL ? str_of(x->upf.tls_group) : STR_NONE);
		record_s(&b, REC_STAPLE, x->upf.staple != NULL ? str_of(x->upf.staple) : STR_NONE);
		record_u(&b, REC_RESUMED, x->upf.resumed);
	}
	if (x->upf.dns_us)
		record_u(&b, REC_T_DNS_US, x->upf.dns_us);
	if (x->upf.connect_us)
		record_u(&b, REC_T_CONNECT_US, x->upf.connect_us);
	if (x->upf.tls_us)
		record_u(&b, REC_T_TLS_US, x->upf.tls_us);
	if (x->secret_us)
		record_u(&b, REC_T_SECRET_US, x->secret_us);
	if (x->first_byte_us)
		record_u(&b, REC_T_FIRST_BYTE_US, x->first_byte_us);
	hits = x->scrub_hits + (x->scrub_on ? x->scrub.hits : 0) + (x->ws != NULL ? x->ws->down.hits : 0);
	if (hits > 0)
		record_u(&b, REC_SCRUBBED, hits);
	record_s(&b, REC_IDENTITY, STR("listener"));
	if (x->ws != NULL)
		websocket_record(x, &b);
	x->host->record(x->host_arg, x, &b);
	buf_fini(&b);
}

/* The end of every exchange, once. The record is handed over before the client can see the last octet. */
static void finish(struct exchange *x, bool reusable)
{
	struct client_half *c = x->client;

	if (x->finished)
		return;
	x->finished = true;
	x->state = X_OVER;
	leave_upstream(x, x->upstream_reusable);
	write_record(x);
	limit_leave(x);
	if (x->ws != NULL)
		websocket_free(x);
	if (x->scrub_ref != NULL)
		x->host->scrub_done(x->host_arg, x->scrub_ref);
	x->scrub_ref = NULL;
	x->host->over(x->host_arg, x);
	x->client = NULL;
	x->ident = NULL;
	if (c != NULL)
		c->ops->done(c, reusable && !x->client_must_close);
	loop_defer(x->loop, free_deferred, x);
}

static bool is_git(struct exchange *x)
{
	struct http_field *ua = http_fields_find(&x->req.fields, HF_USER_AGENT);

	return ua != NULL && str_starts(ua->value, STR("git/"));
}

/* "application/grpc", alone or with a message format; not grpc-web, which HTTP/1.1 carries as well. */
static bool is_grpc(struct exchange *x)
{
	const struct str grpc = STR("application/grpc");
	struct http_field *t = x->req.version == HTTP_V_2 ? http_fields_find(&x->req.fields, HF_CONTENT_TYPE) : NULL;

	return t != NULL && t->value.n >= grpc.n && str_ieq(str_mk(t->value.p, grpc.n), grpc) && (t->value.n == grpc.n || t->value.p[grpc.n] == '+' || t->value.p[grpc.n] == ';');
}

static const char *hint_for(enum refusal_code c)
{
	switch (c) {
	case REFUSAL_POLICY_DENIED:
		return "this sandbox's policy does not allow the request; do not look for another way, ask the person who runs the sandbox";
	case REFUSAL_DESTINATION_DENIED:
		return "this sandbox may not reach that destination; ask the person who runs the sandbox";
	case REFUSAL_MALFORMED_REQUEST:
	case REFUSAL_IDENTITY_MISMATCH:
		return "the request has no one clear meaning; send it in plain form";
	default:
		return "";
	}
}

/* The answer to what is refused and recorded already. */
static void answer(struct exchange *x, const char *text)
{
	const char *methods[DECIDE_METHODS_MAX + 1];
	struct refusal r = { .code = x->code, .status = x->status };
	unsigned n = 0;
	bool keep;

	for (unsigned i = 0; i < x->decision.allowed_n && i < DECIDE_METHODS_MAX; i++)
		methods[n++] = arena_strz(&x->arena, x->decision.allowed[i]);
	methods[n] = NULL;
	r.reason = str_of(text);
	r.host = str_mk(x->chost.text, x->chost.len);
	r.method = exchange_method(x);
	r.path = x->path_record.n ? x->path_record : x->req.path;
	r.rule = x->decision.rule;
	r.allowed = methods;
	r.retry = refusal_status(x->code) >= 500 || (x->code == REFUSAL_LIMIT_EXCEEDED && x->retry_after_s > 0) ? "after" : "no";
	r.retry_after_s = x->code == REFUSAL_LIMIT_EXCEEDED ? x->retry_after_s : 0;
	r.hint = str_of(hint_for(x->code));
	r.request_id = str_of(x->request_id);
	if (is_git(x))
		r.shape = REFUSAL_GIT;
	else if (is_grpc(x))
		r.shape = REFUSAL_GRPC;
	else if (rpc_connect(&x->req, &r))
		r.shape = r.content_type.n > 0 ? REFUSAL_CONNECT_STREAM : REFUSAL_CONNECT;
	else if (x->state == X_ANSWERING && x->request_ended)
		rpc_shape(&x->arena, r.path, buf_str(&x->call), &r);
	else if (buf_len(&x->content_held) > 0 && x->request_ended)
		rpc_shape(&x->arena, r.path, buf_str(&x->content_held), &r);
	keep = x->request_ended && x->req.keep_alive && !x->client_must_close && x->code != REFUSAL_MALFORMED_REQUEST && x->code != REFUSAL_IDENTITY_MISMATCH && x->code != REFUSAL_TOO_LARGE;
	r.close = !keep;
	x->client->ops->refuse(x->client, &r);
	finish(x, keep);
}

static void answer_now(struct exchange *x)
{
	if (x->state == X_ANSWERING && !x->finished && x->client != NULL)
		answer(x, x->answer_text.p);
}

static void refuse_with(struct exchange *x, enum refusal_code code, uint16_t status, const char *text)
{
	x->code = code;
	if (x->reason[0] == 0)
		snprintf(x->reason, sizeof(x->reason), "%s", text);
	if (code != REFUSAL_CLIENT_CLOSED && x->decision.verdict == VERDICT_ALLOW && refusal_status(code) < 500)
		x->decision.verdict = VERDICT_DENY;
	if (x->response_started) {
		x->client->ops->reset(x->client, x->reset_code != 0 ? x->reset_code : RESET_INTERNAL);
		finish(x, false);
		return;
	}
	x->status = status ? status : refusal_status(code);
	write_record(x); /* before the answer: from here on the record stands, in its slot if not in the log */
	if (!x->request_ended && x->state < X_SENDING && !x->client_must_close && rpc_expected(&x->req)) {
		x->state = X_ANSWERING;
		leave_upstream(x, false);
		x->answer_text = str_of(arena_strz(&x->arena, str_of(text)));
		x->phase_ms = loop_now_ms(x->loop);
		x->client->ops->resume(x->client);
		return;
	}
	answer(x, text);
}

void exchange_refuse(struct exchange *x, enum refusal_code code, const char *text) { refuse_with(x, code, 0, text); }

void exchange_content_refused(struct exchange *x, enum refusal_code code, const char *text)
{
	x->client_must_close = true;
	x->upstream_reusable = false;
	leave_upstream(x, false);
	refuse_with(x, code, 0, text);
}

void exchange_malformed(struct exchange *x, const struct http_fault *f)
{
	char text[200];
	enum refusal_code code = strcmp(f->code, "too_large") == 0 ? REFUSAL_TOO_LARGE : strcmp(f->code, "limit_exceeded") == 0 ? REFUSAL_LIMIT_EXCEEDED : REFUSAL_MALFORMED_REQUEST;

	snprintf(text, sizeof(text), "the request is refused as %s: %s", code == REFUSAL_TOO_LARGE ? "too large" : code == REFUSAL_LIMIT_EXCEEDED ? "one too many" : "malformed", f->reason);
	snprintf(x->reason, sizeof(x->reason), "%s", f->reason);
	x->client_must_close = true;
	if (x->slot == INFLIGHT_NO_SLOT) {
		enum refusal_code why;

		if (!x->host->begin(x->host_arg, x, &why)) {
			exchange_refuse(x, why, "requests cannot be recorded at the moment, so none is let through");
			return;
		}
	}
	refuse_with(x, code, f->status, text);
}

static void malformed(struct exchange *x, const char *reason)
{
	struct http_fault f = { 400, "malformed_request", reason };

	exchange_malformed(x, &f);
}

/* One name for host and port from the target, Host and what the connection already is (architecture: identity). */
bool exchange_identify(struct exchange *x)
{
	const struct exchange_ident *id = x->ident;
	struct http_request *r = &x->req;
	struct canon_host h;
	uint16_t port, hport;
	const char *reason;

	x->scheme = id->known ? id->scheme : SCHEME_HTTP;
	hport = x->scheme == SCHEME_HTTPS ? 443 : 80;
	if (r->form == HTTP_TARGET_AUTHORITY) { /* CONNECT */
		x->scheme = SCHEME_HTTPS;
		if (!canon_authority(r->authority, 0, &x->chost, &x->port, &reason)) {
			malformed(x, reason);
			return false;
		}
		if (r->host_field.p != NULL && (!canon_authority(r->host_field, x->port, &h, &port, &reason) || strcmp(h.text, x->chost.text) != 0 || port != x->port)) {
			malformed(x, "host_mismatch"); /* E18 */
			return false;
		}
		return true;
	}
	if (r->form == HTTP_TARGET_ABSOLUTE) {
		if (id->known || !id->explicit_proxy) {
			/* inside TLS or on a transparent connection: allowed by RFC 9112 3.2.2 if it says the same */
			if (str_eq(r->scheme, STR("https")) != (x->scheme == SCHEME_HTTPS)) {
				malformed(x, "scheme");
				return false;
			}
		} else if (!str_eq(r->scheme, STR("http"))) {
			malformed(x, "scheme");
			return false;
		}
		if (!canon_authority(r->authority, hport, &x->chost, &x->port, &reason)) {
			malformed(x, reason);
			return false;
		}
		if (r->host_field.p == NULL ? r->version == HTTP_V_1_1 : (!canon_authority(r->host_field, hport, &h, &port, &reason) || strcmp(h.text, x->chost.text) != 0 || port != x->port)) {
			malformed(x, "host_mismatch");
			return false;
		}
	} else {
		if (id->explicit_proxy && !id->known) {
			malformed(x, "origin_form");
			return false;
		}
		if (r->host_field.p == NULL) {
			if (r->version == HTTP_V_1_1 || !id->known) {
				malformed(x, "no_host");
				return false;
			}
			x->chost = id->host;
			x->port = id->port;
		} else {
			if (!canon_authority(r->host_field, id->known ? (id->port == 443 || id->port == 80 ? id->port : hport) : hport, &x->chost, &x->port, &reason)) {
				malformed(x, reason);
				return false;
			}
			/* Host without a port on a tunnel to another port: clients leave it out only when it is the default; take the tunnel's */
			if (memchr(r->host_field.p, ':', r->host_field.n) == NULL && id->known)
				x->port = id->port;
		}
	}
	if (id->known) {
		if (strcmp(x->chost.text, id->host.text) != 0 || x->port != id->port) {
			struct buf b = { 0 };

			snprintf(x->reason, sizeof(x->reason), "host_mismatch");
			record_s(&b, REC_KIND, STR("finding"));
			record_s(&b, REC_CODE, STR("identity_mismatch"));
			record_s(&b, REC_HOST, str_mk(id->host.text, id->host.len));
			record_u(&b, REC_PORT, id->port);
			record_s(&b, REC_MESSAGE, STR("Host differs from the name that the connection was made for"));
			record_s(&b, REC_REQUEST_ID, str_of(x->request_id));
			record_u(&b, REC_TIME_MS, x->start_ms);
			x->host->event(x->host_arg, &b);
			buf_fini(&b);
			x->client_must_close = true;
			exchange_refuse(x, REFUSAL_IDENTITY_MISMATCH, "the request names another host than the connection it came on");
			return false;
		}
	} else if (!id->explicit_proxy && x->port != id->transparent_port) {
		malformed(x, "host_port");
		return false;
	}
	return true;
}

static bool canonical_path(struct exchange *x)
{
	struct http_request *r = &x->req;
	const char *reason;
	struct str wire;

	if (r->form == HTTP_TARGET_ASTERISK) {
		x->path_match = x->path_record = x->target_wire = STR("*");
		return true;
	}
	if (!canon_path(&x->arena, r->path, x->has_dest ? &x->dest.paths : &(struct canon_path_opts){ 0 }, &wire, &x->path_match, &reason)) {
		malformed(x, reason);
		return false;
	}
	x->path_record = wire;
	x->target_wire = wire;
	if (r->has_query) {
		char *t;

		if (!canon_query(r->query, x->has_dest && x->dest.paths.raw, &reason)) {
			malformed(x, reason);
			return false;
		}
		t = arena_alloc(&x->arena, wire.n + 1 + r->query.n);
		memcpy(t, wire.p, wire.n);
		t[wire.n] = '?';
		if (r->query.n)
			memcpy(t + wire.n + 1, r->query.p, r->query.n);
		x->target_wire = str_mk(t, wire.n + 1 + r->query.n);
	}
	return true;
}

static void refuse_decision(struct exchange *x)
{
	const char *whose = x->decision.by_boundary ? "the boundary of this sandbox" : "this sandbox's policy";
	struct str method = exchange_method(x);
	char text[400];

	switch (x->decision.why) {
	case DECIDE_NO_DESTINATION:
		snprintf(text, sizeof(text), "no destination of %s is %s on port %u", whose, x->chost.text, x->port);
		exchange_refuse(x, REFUSAL_DESTINATION_DENIED, text);
		return;
	case DECIDE_DENY_RULE:
		snprintf(text, sizeof(text), "a deny rule of %s covers the request", whose);
		exchange_refuse(x, REFUSAL_POLICY_DENIED, text);
		return;
	case DECIDE_CONTENT:
		exchange_refuse(x, REFUSAL_POLICY_DENIED, x->decision.by_boundary ? "the rule of the boundary that would allow the request does not allow it to carry content" : "the rule that would allow the request does not allow it to carry content");
		return;
	case DECIDE_DAMAGED:
		exchange_refuse(x, REFUSAL_NO_POLICY, "the policy in force could not be read");
		return;
	default:
		snprintf(text, sizeof(text), "no rule of %s allows %.*s on this path", whose, (int)(method.n > 32 ? 32 : method.n), method.p);
		exchange_refuse(x, REFUSAL_POLICY_DENIED, text);
		return;
	}
}

static void go_secrets(struct exchange *x);
static void hold(struct exchange *x);
static void await_content(struct exchange *x);

/*
 * B06: frameworks take the method of a POST from its query. The rules decided the method of the request line, so a query
 * that names another is refused; the header fields that do the same are dropped (head.c).
 */
static bool overrides_method(const struct http_request *r)
{
	static const char key[] = "_method";
	struct str q = r->query;
	size_t i = 0;

	if (!r->has_query || !str_eq(r->method, STR("POST")))
		return false;
	while (i < q.n) {
		size_t k = 0;

		while (i < q.n && q.p[i] != '=' && q.p[i] != '&') {
			unsigned char c = (unsigned char)q.p[i++];

			if (c == '%' && i + 2 <= q.n && hex_value(q.p[i]) >= 0 && hex_value(q.p[i + 1]) >= 0) {
				c = (unsigned char)(hex_value(q.p[i]) << 4 | hex_value(q.p[i + 1]));
				i += 2;
			}
			k = k < sizeof(key) - 1 && ascii_lower((char)c) == key[k] ? k + 1 : sizeof(key);
		}
		if (k == sizeof(key) - 1)
			return true;
		while (i < q.n && q.p[i++] != '&')
			;
	}
	return false;
}

/* The i-th field, as rules look at it: what is not sent on has no name. */
static bool field_at(const void *arg, unsigned i, struct str *name, struct str *value)
{
	const struct http_fields *fs = arg;

	if (i >= fs->n)
		return false;
	*name = fs->f[i].drop ? STR_NONE : fs->f[i].name;
	*value = fs->f[i].value;
	return true;
}

static void facts_of(const struct exchange *x, struct facts *f)
{
	*f = (struct facts){
		.scheme = x->scheme,
		.host = str_mk(x->chost.text, x->chost.len),
		.port = x->port,
		.method = exchange_method(x),
		.path = x->path_match,
		.query = x->req.query,
		.has_query = x->req.has_query,
		.has_content = (x->req.framing == HTTP_BODY_CHUNKED && !(x->request_ended && x->content_in == 0)) || (x->req.framing == HTTP_BODY_LENGTH && x->req.content_length > 0),
		.now_s = x->start_ms / 1000,
		.field = field_at,
		.field_arg = &x->req.fields,
		.used = limit_used,
		.used_arg = x,
	};
}

void exchange_facts(const struct exchange *x, struct facts *f) { facts_of(x, f); }

/* A push that cannot pass is refused where it begins, before git has packed anything: GET .../info/refs?service=git-receive-pack. */
static bool push_in_vain(struct exchange *x, const struct facts *asked)
{
	const struct str refs = STR("/info/refs"), pack = STR("/git-receive-pack");
	struct facts f = *asked;
	struct decision d;
	char *path;

	if (!str_eq(x->req.method, STR("GET")) || !x->req.has_query || !str_eq(x->req.query, STR("service=git-receive-pack")) || !str_ends(f.path, refs))
		return false;
	path = arena_alloc(&x->arena, f.path.n + pack.n);
	memcpy(path, f.path.p, f.path.n - refs.n);
	memcpy(path + f.path.n - refs.n, pack.p, pack.n);
	f.method = STR("POST");
	f.path = str_mk(path, f.path.n - refs.n + pack.n);
	f.query = STR_NONE;
	f.has_query = false;
	f.has_content = true;
	decide(x->table, &x->dest, &f, &d);
	if (d.verdict == VERDICT_ALLOW || d.why == DECIDE_LOOK)
		return false;
	x->decision = d;
	exchange_refuse(x, REFUSAL_POLICY_DENIED, "this sandbox's policy allows fetching here, not pushing (POST .../git-receive-pack)");
	return true;
}

/* B08: a request that says it passed a gateway of this kind. We add no Via ourselves: origins answer differently where one stands. */
static bool loops(struct http_request *r)
{
	for (unsigned i = 0; i < r->fields.n; i++)
		if (r->fields.f[i].fid == HF_VIA && str_find(r->fields.f[i].value, STR(" sallyport")) >= 0)
			return true;
	return false;
}

static void too_large(struct exchange *x)
{
	char text[120];

	snprintf(text, sizeof(text), "requests to this destination may have %llu octets of content", (unsigned long long)x->limits.request_body);
	snprintf(x->reason, sizeof(x->reason), "request_body");
	x->client_must_close = true;
	leave_upstream(x, false); /* which may have seen a part of it: never taken for the whole */
	refuse_with(x, REFUSAL_TOO_LARGE, 413, text);
}

/*
 * `mode: observe`: a request that only lacks an allow rule, on a host that is listed, passes and is marked. Denies, limits,
 * addresses and the boundary hold, and nothing is injected. False: it is refused, or (its state tells) its content is
 * awaited, which a deny rule has to see.
 */
static bool observes(struct exchange *x, const struct facts *f)
{
	struct decision b = { 0 };

	if (!x->observe || x->decision.why != DECIDE_NO_RULE || x->decision.by_boundary || !x->has_dest || f->now_s >= table_observe_until(x->table))
		return false;
	if (x->decision.deny_need != BODY_NEED_NOTHING && f->content == NULL && !x->request_ended) {
		x->decision.need = x->decision.deny_need;
		hold(x);
		return false;
	}
	if (!decide_boundary(x->table, f, &b)) {
		x->decision = b;
		return false;
	}
	x->observed = true;
	x->decision.verdict = VERDICT_ALLOW;
	x->decision.allowed_n = 0;
	x->decision.rule_no = UINT32_MAX;
	x->decision.boundary_rule_no = b.rule_no;
	return true;
}

bool exchange_observed_still(const struct exchange *x, const struct table *t, const struct facts *f, const struct decision *d)
{
	struct decision b;

	return x->observed && d->why == DECIDE_NO_RULE && !d->by_boundary && f->now_s < table_observe_until(t) && decide_boundary(t, f, &b);
}

static void over_limit(struct exchange *x, const struct limit_hit *hit)
{
	snprintf(x->reason, sizeof(x->reason), "%s", hit->which);
	x->retry_after_s = hit->retry_after_s;
	x->client_must_close = x->client_must_close || ((x->state == X_SENDING || x->state == X_HOLDING) && !x->request_ended);
	leave_upstream(x, false);
	x->upstream_reusable = false;
	refuse_with(x, REFUSAL_LIMIT_EXCEEDED, 0, hit->text);
}

/* Policy has spoken; what else there is to say of the head comes behind it. */
static void decided(struct exchange *x, const struct facts *f)
{
	struct limit_hit hit;

	if (x->decision.verdict != VERDICT_ALLOW && !observes(x, f)) {
		if (x->state != X_HOLDING || f->content != NULL)
			refuse_decision(x);
		return;
	}
	if (x->limits.request_body != 0 && x->req.framing == HTTP_BODY_LENGTH && x->req.content_length > x->limits.request_body) {
		too_large(x);
		return;
	}
	if (overrides_method(&x->req)) {
		snprintf(x->reason, sizeof(x->reason), "method_override");
		exchange_refuse(x, REFUSAL_POLICY_DENIED, "the query names another method (_method) than the request line");
		return;
	}
	if (push_in_vain(x, f))
		return;
	if (str_eq(x->req.method, STR("TRACE"))) { /* would echo what is injected (RFC 9110 9.3.8) */
		exchange_refuse(x, REFUSAL_POLICY_DENIED, "TRACE is never forwarded");
		return;
	}
	if (x->ws != NULL && !websocket_allowed(x)) {
		exchange_refuse(x, REFUSAL_LIMIT_EXCEEDED, "this sandbox has as many open WebSockets as it may have");
		return;
	}
	if (!limit_admit(x, &hit)) {
		over_limit(x, &hit);
		return;
	}
	if (x->limits.request_body != 0 && x->req.framing == HTTP_BODY_LENGTH && x->req.content_length > x->limits.request_body) { /* the rule's own may be less */
		too_large(x);
		return;
	}
	if (buf_len(&x->content_held) > 0 && !limit_octets(x, true, buf_len(&x->content_held), &hit)) {
		over_limit(x, &hit);
		return;
	}
	if (!credential_allowed(x))
		return;
	if (credential_wants_content(x)) {
		await_content(x);
		return;
	}
	x->state = X_SECRETS;
	go_secrets(x);
}

static void too_much_to_hold(struct exchange *x)
{
	x->client_must_close = true;
	snprintf(x->reason, sizeof(x->reason), "held_content");
	refuse_with(x, REFUSAL_TOO_LARGE, 413, "a rule of this sandbox's policy looks at the content, and there is more of it than can be looked at");
}

static void collect(struct exchange *x)
{
	x->state = X_HOLDING;
	x->phase_ms = loop_now_ms(x->loop);
	if (x->req.expect_continue) { /* the origin is not asked before the content is known, so that its word cannot be waited for */
		x->req.expect_continue = false;
		x->client->ops->interim(x->client, NULL);
	}
	x->client->ops->resume(x->client);
}

/* The content is asked for and collected, as much as the decision needs. */
static void hold(struct exchange *x)
{
	x->need = x->decision.need;
	if (x->need == BODY_NEED_ALL && x->req.framing == HTTP_BODY_LENGTH && x->req.content_length > BODY_HELD_MAX)
		too_much_to_hold(x);
	else
		collect(x);
}

/* The decision is made; what is injected hangs on the content. */
static void await_content(struct exchange *x)
{
	x->awaits_content = true;
	if (x->req.framing == HTTP_BODY_LENGTH && x->req.content_length > CREDENTIAL_CONTENT_MAX)
		too_much_to_hold(x);
	else
		collect(x);
}

/* Enough of the content is there: the request is decided, from the start. */
static void look(struct exchange *x)
{
	struct str held = buf_str(&x->content_held);
	struct facts f;

	if (x->need == BODY_NEED_FIRST && x->request_ended && held.n == 0)
		x->req.framing = HTTP_BODY_NONE;
	facts_of(x, &f);
	f.content = &held;
	decide(x->table, &x->dest, &f, &x->decision);
	decided(x, &f);
}

/* All that waits here is counted as the client's: it is among what LIMIT_MEMORY bounds. */
static void account(struct exchange *x)
{
	size_t n = x->held_upstream + x->content_held.cap + x->coded.cap + (x->decode != NULL ? decode_memory(x->decode) : 0);

	if (x->client != NULL && n != x->held)
		x->client->ops->held(x->client, (ptrdiff_t)n - (ptrdiff_t)x->held);
	x->held = n;
}

static void hold_data(struct exchange *x, const uint8_t *p, size_t n)
{
	buf_add(&x->content_held, p, n);
	account(x);
	if (x->awaits_content) {
		if (buf_len(&x->content_held) > CREDENTIAL_CONTENT_MAX)
			too_much_to_hold(x);
		return;
	}
	if (buf_len(&x->content_held) > BODY_HELD_MAX && !body_enough(x->need, buf_str(&x->content_held)))
		too_much_to_hold(x);
	else if (body_enough(x->need, buf_str(&x->content_held)))
		look(x);
}

void exchange_start(struct exchange *x)
{
	struct facts f = { 0 };
	struct http_fault fault;
	enum refusal_code why;
	int found;

	x->request_ended = x->req.framing == HTTP_BODY_NONE || (x->req.framing == HTTP_BODY_LENGTH && x->req.content_length == 0);
	if (!x->host->begin(x->host_arg, x, &why)) {
		exchange_refuse(x, why, "requests cannot be recorded at the moment, so none is let through");
		return;
	}
	if (!exchange_identify(x))
		return;
	if (x->req.form == HTTP_TARGET_AUTHORITY) {
		malformed(x, "nested_connect");
		return;
	}
	found = table_find(x->table, x->scheme, str_mk(x->chost.text, x->chost.len), x->port, &x->dest);
	if (found < 0) {
		exchange_refuse(x, REFUSAL_NO_POLICY, "the policy in force could not be read");
		return;
	}
	x->has_dest = found == 1;
	if (x->has_dest)
		x->limits = x->dest.limits;
	if (!canonical_path(x))
		return;
	if (!http_request_strip(&x->req, &fault)) {
		exchange_malformed(x, &fault);
		return;
	}
	if (loops(&x->req)) {
		malformed(x, "via_loop");
		return;
	}
	if (!credential_trip(x))
		return;
	if (x->req.upgrade_websocket && !websocket_begin(x, &fault)) {
		exchange_malformed(x, &fault);
		return;
	}
	facts_of(x, &f);
	decide(x->table, x->has_dest ? &x->dest : NULL, &f, &x->decision);
	if (x->decision.why == DECIDE_LOOK) {
		hold(x);
		return;
	}
	if (x->decision.why == DECIDE_CONTENT && x->req.framing == HTTP_BODY_CHUNKED && !x->request_ended) {
		x->need = BODY_NEED_FIRST; /* of unknown length may be none: some clients end a GET with an empty DATA frame */
		collect(x);
		return;
	}
	decided(x, &f);
}

static void ask_upstream(struct exchange *x)
{
	struct upstream_want w = { .dest = &x->dest, .scheme = x->scheme, .host = str_mk(x->chost.text, x->chost.len), .port = x->port, .fresh = x->retried, .websocket = x->ws != NULL };

	x->state = X_UPSTREAM;
	x->waiting_upstream = true;
	x->host->upstream(x->host_arg, x, &w);
}

/* All credentials of the destination, or none: a request never goes out with only some of them. */
static void go_secrets(struct exchange *x)
{
	struct inject in;
	struct str value, cause;
	bool wait = false, any = false;

	for (unsigned i = 0; credential_next(x, &i, &in) > 0;) {
		any = true;
		if (in.kind == INJECT_HMAC) /* asked for when there is something to sign */
			continue;
		switch (x->host->secret(x->host_arg, x, &x->dest, &in, &value, &cause)) {
		case SECRET_READY:
			break;
		case SECRET_WAIT:
			wait = true;
			break;
		default:
			snprintf(x->reason, sizeof(x->reason), "%.*s: %.*s", (int)in.secret_name.n, in.secret_name.p, (int)cause.n, cause.p);
			exchange_refuse(x, REFUSAL_CREDENTIAL_UNAVAILABLE, SECRET_WAIT_REASON);
			return;
		}
	}
	if (wait)
		return;
	if (any)
		x->secret_us = clock_mono_us() - x->start_us;
	ask_upstream(x);
}

void exchange_secrets_changed(struct exchange *x)
{
	/* who waits for several secrets is called for each, also when they have all come, and then a signature may be under way */
	if (x->state == X_SECRETS && !x->finished && !credential_signing(x))
		go_secrets(x);
}

void exchange_signed(struct exchange *x, unsigned inject, bool ok, struct str text)
{
	if (credential_signed(x, inject, ok, text))
		exchange_secrets_changed(x);
}

static void send_content(struct exchange *x, const uint8_t *p, size_t n)
{
	x->request_sent_any = true;
	if (x->up != NULL && credential_content(x, &p, &n) && n > 0)
		x->up->ops->data(x->up, p, n);
}

/* What was held back in the belief that a placeholder begins. */
static void send_rest(struct exchange *x)
{
	const uint8_t *p;
	size_t n;

	credential_content_end(x, &p, &n);
	if (n > 0)
		x->up->ops->data(x->up, p, n);
}

/* What the upstream is called in its request. */
static struct str authority(struct exchange *x)
{
	char *p = arena_alloc(&x->arena, x->chost.len + sizeof("[]:65535")), *end = p;
	bool v6 = x->chost.ip.family == 6;

	if (v6)
		*end++ = '[';
	end = mempcpy(end, x->chost.text, x->chost.len);
	if (v6)
		*end++ = ']';
	if (x->port != (x->scheme == SCHEME_HTTPS ? 443 : 80))
		end += snprintf(end, sizeof(":65535"), ":%u", x->port);
	return str_mk(p, (size_t)(end - p));
}

/*
 * What is looked for from now on: values that came into use since the last time, too. A response that streams for hours may
 * bring one that was had an hour ago, and a request that is sent a second time may carry a newer one than the first time.
 * What is held back of a stream stays where it is: none of the new values began before it came into use.
 */
static void renew_scrub(struct exchange *x)
{
	struct scrub_ref *now = x->dest.scrub_off ? NULL : x->host->scrub(x->host_arg);

	if (now == NULL)
		return;
	if (now != x->scrub_ref) {
		x->scrub.set = now->set;
		if (is_open(x))
			frames_renew(&x->ws->down, now->set);
	}
	if (x->scrub_ref != NULL)
		x->host->scrub_done(x->host_arg, x->scrub_ref);
	x->scrub_ref = now;
}

void exchange_upstream_ready(struct exchange *x, struct upstream_half *u, const struct upstream_facts *facts)
{
	enum refusal_code code;
	struct str host, cause;

	x->waiting_upstream = false;
	x->up = u;
	u->x = x;
	x->upf = *facts;
	renew_scrub(x);
	x->scrub_on = x->scrub_ref != NULL;
	if (x->scrub_on)
		coding_narrow(&x->arena, &x->req, credential_goes_out(x));
	if (facts->version != HTTP_V_2 && is_grpc(x)) { /* I13: its trailers, which carry the outcome, would be lost */
		leave_upstream(x, true);
		snprintf(x->reason, sizeof(x->reason), "grpc_needs_h2");
		exchange_refuse(x, REFUSAL_UPSTREAM_PROTOCOL, "gRPC needs HTTP/2, and this upstream speaks HTTP/1.1 only");
		return;
	}
	/* values are only looked up now, so that none lies around while a connection is made */
	host = authority(x);
	switch (credential_head(x, host, &cause, &code)) {
	case SECRET_READY:
		break;
	case SECRET_WAIT: /* it expired while the connection was made: that one goes back untouched */
		leave_upstream(x, true);
		x->state = X_SECRETS;
		return;
	default:
		leave_upstream(x, true); /* untouched */
		if (x->reason[0] == 0)
			snprintf(x->reason, sizeof(x->reason), "%.*s", (int)cause.n, cause.n ? cause.p : "");
		exchange_refuse(x, code, code == REFUSAL_CREDENTIAL_UNAVAILABLE ? SECRET_WAIT_REASON : "the content carries a placeholder that must not go there");
		return;
	}
	x->state = X_SENDING;
	/* who wants to be asked first is asked by the origin itself: it may refuse before any content is sent (UA02) */
	x->awaits_continue = x->req.expect_continue && !x->request_ended && !x->request_sent_any;
	x->phase_ms = loop_now_ms(x->loop);
	if (x->awaits_continue && http_fields_find_name(&x->req.fields, STR("Expect")) == NULL)
		http_fields_add(&x->req.fields, STR("Expect"), STR("100-continue"), HF_OTHER);
	u->ops->head(u, &x->req, host, x->target_wire, x->req.framing, x->req.content_length);
	if (buf_len(&x->content_held) > 0 && x->request_ended) { /* looked at, and filled, with the head */
		x->request_sent_any = true;
		u->ops->data(u, buf_data(&x->content_held), buf_len(&x->content_held));
		buf_fini_secret(&x->content_held);
		account(x);
	} else if (buf_len(&x->content_held) > 0) {
		send_content(x, buf_data(&x->content_held), buf_len(&x->content_held));
		buf_clear(&x->content_held);
		if (x->finished)
			return;
	}
	if (x->request_ended) {
		x->sent_ms = loop_now_ms(x->loop);
		if (x->ws == NULL) /* frames may follow the answer */
			u->ops->end(u, NULL);
		return;
	}
	x->client->ops->resume(x->client);
}

void exchange_upstream_failed(struct exchange *x, enum refusal_code code, const char *cause)
{
	char text[256];

	x->waiting_upstream = false;
	if (x->finished)
		return;
	switch (code) {
	case REFUSAL_ADDRESS_DENIED:
		snprintf(text, sizeof(text), "the name leads to an address that this sandbox may not reach");
		break;
	case REFUSAL_UPSTREAM_TLS:
		snprintf(text, sizeof(text), "the upstream's TLS was not acceptable: %s", cause);
		break;
	default:
		snprintf(text, sizeof(text), "the upstream could not be reached: %s", cause);
		break;
	}
	snprintf(x->reason, sizeof(x->reason), "%s", cause);
	exchange_refuse(x, code, text);
}

void exchange_discard(struct exchange *x)
{
	x->recorded = true;
	x->client = NULL;
	finish(x, false);
}

bool exchange_takes_data(const struct exchange *x)
{
	if (x->state == X_ANSWERING || x->state == X_HOLDING)
		return !x->request_ended;
	return x->state == X_SENDING && x->up != NULL && !x->request_ended && !x->up->ops->full(x->up);
}

static void let_continue(struct exchange *x)
{
	if (!x->awaits_continue || x->finished || x->response_started || x->client == NULL)
		return;
	x->awaits_continue = false;
	x->client->ops->interim(x->client, NULL);
}

/* The destination's own limit is reached in the middle: both sides see that it is no end. */
static void over(struct exchange *x, enum refusal_code code, uint16_t status, const char *limit)
{
	snprintf(x->reason, sizeof(x->reason), "limits.%s", limit);
	leave_upstream(x, false);
	x->upstream_reusable = false;
	x->client_must_close = x->client_must_close || !x->request_ended;
	refuse_with(x, code, status, code == REFUSAL_UPSTREAM_TIMEOUT ? "the upstream took longer than this destination's limits allow" : "the response has more octets than this destination's limits allow");
}

/* The destination's times; those of the gateway itself are its connections'. True: the exchange is over. */
static bool timed_out(struct exchange *x)
{
	const struct dest_limits *lim = &x->limits;
	uint64_t now = loop_now_ms(x->loop);
	const char *which = NULL;

	if (!x->has_dest || x->finished || x->client == NULL || (x->state != X_SENDING && x->state != X_UPSTREAM && x->state != X_SECRETS && x->state != X_HOLDING))
		return false;
	if (lim->total_ms != 0 && now - x->begun_ms > lim->total_ms)
		which = "total";
	else if (lim->idle_ms != 0 && now - x->active_ms > lim->idle_ms)
		which = "idle";
	else if (lim->head_ms != 0 && x->sent_ms != 0 && !x->response_started && now - x->sent_ms > lim->head_ms)
		which = "head";
	if (which == NULL)
		return false;
	over(x, REFUSAL_UPSTREAM_TIMEOUT, 0, which);
	return true;
}

uint64_t exchange_idle_ms(const struct exchange *x, uint64_t otherwise)
{
	if (is_open(x))
		return websocket_idle_ms(x);
	return x != NULL && x->has_dest && x->limits.idle_ms != 0 ? x->limits.idle_ms : otherwise;
}

void exchange_tick(struct exchange *x)
{
	uint64_t waited = loop_now_ms(x->loop) - x->phase_ms;

	if (is_open(x)) {
		websocket_tick(x);
		return;
	}
	if (timed_out(x))
		return;

	if (x->awaits_continue && waited > CONTINUE_MS)
		let_continue(x);
	else if (x->state == X_ANSWERING && waited > CALL_MS)
		answer_now(x);
	if (x->state == X_HOLDING && waited > HOLD_MS) {
		x->client_must_close = true;
		refuse_with(x, REFUSAL_MALFORMED_REQUEST, 408, "the content that a rule of this sandbox's policy looks at did not come");
	}
}

void exchange_request_data(struct exchange *x, const uint8_t *p, size_t n)
{
	struct limit_hit hit;

	if (is_open(x)) {
		websocket_up(x, p, n);
		return;
	}
	x->awaits_continue = false; /* it would not wait any longer */
	if (x->state == X_ANSWERING) {
		if (buf_len(&x->call) + n > RPC_CONTENT_MAX)
			answer_now(x);
		else
			buf_add(&x->call, p, n);
		return;
	}
	x->content_in += n;
	x->active_ms = loop_now_ms(x->loop);
	if (x->limits.request_body != 0 && x->content_in > x->limits.request_body) {
		too_large(x);
		return;
	}
	if (x->state == X_HOLDING && !x->awaits_content) { /* counted when it is decided */
		hold_data(x, p, n);
		return;
	}
	if (!limit_octets(x, true, n, &hit))
		over_limit(x, &hit);
	else if (x->state == X_HOLDING)
		hold_data(x, p, n);
	else
		send_content(x, p, n);
}

void exchange_request_end(struct exchange *x, struct http_fields *trailer)
{
	if (x->request_ended || x->finished)
		return;
	x->request_ended = true;
	if (x->state == X_ANSWERING) {
		answer_now(x);
		return;
	}
	x->sent_ms = loop_now_ms(x->loop);
	if (x->state == X_HOLDING && x->awaits_content) {
		x->state = X_SECRETS;
		go_secrets(x);
		return;
	}
	if (x->state == X_HOLDING) {
		look(x);
		return;
	}
	if (x->up != NULL)
		send_rest(x);
	if (trailer != NULL)
		credential_trailer(x, trailer);
	if (x->up != NULL)
		x->up->ops->end(x->up, trailer);
	if (x->response_ended)
		finish(x, true);
}

void exchange_request_broken(struct exchange *x, const struct http_fault *f)
{
	if (x->finished)
		return;
	x->upstream_reusable = false;
	x->client_must_close = true;
	if (x->state == X_ANSWERING) {
		answer_now(x);
		return;
	}
	leave_upstream(x, false);
	exchange_malformed(x, f);
}

void exchange_client_gone(struct exchange *x)
{
	if (x->finished)
		return;
	if (!x->response_ended && !x->recorded && !websocket_waved(x, true)) {
		x->code = REFUSAL_CLIENT_CLOSED;
		if (x->reason[0] == 0)
			snprintf(x->reason, sizeof(x->reason), "the client closed the connection");
	}
	x->upstream_reusable = x->upstream_reusable && x->response_ended && x->request_ended;
	x->client = NULL;
	finish(x, false);
}

static bool coded_some(struct exchange *x, const uint8_t *p, size_t n);
static void end_response(struct exchange *x, const struct http_fields *trailer);

void exchange_client_drained(struct exchange *x)
{
	struct buf waiting = x->coded;

	if (x->finished)
		return;
	if (buf_len(&waiting) > 0 || x->decode_more) {
		x->coded = (struct buf){ 0 };
		x->active_ms = loop_now_ms(x->loop);
		coded_some(x, buf_data(&waiting), buf_len(&waiting));
		buf_fini_secret(&waiting);
		if (x->finished || x->client == NULL || buf_len(&x->coded) > 0 || x->decode_more)
			return;
		if (x->end_due) {
			end_response(x, x->end_trailer);
			return;
		}
	}
	if (x->up != NULL)
		x->up->ops->resume(x->up);
}

void exchange_upstream_drained(struct exchange *x)
{
	if (x->client != NULL && exchange_takes_data(x))
		x->client->ops->resume(x->client);
}

void exchange_hold(struct exchange *x, size_t n)
{
	x->held_upstream = n;
	account(x);
}

bool exchange_response_full(const struct exchange *x)
{
	return x->client != NULL && (buf_len(&x->coded) > 0 || x->decode_more || x->client->ops->full(x->client));
}

void exchange_scrub_head(struct exchange *x, uint8_t *p, size_t n)
{
	if (!x->scrub_on)
		return;
	renew_scrub(x);
	x->scrub_hits += scrub_inplace(x->scrub_ref->set, (char *)p, n);
}

/* The response cannot be looked through for secrets, or not to its end: the client gets nothing more of it. */
static void unreadable(struct exchange *x, const char *why)
{
	char text[200];

	snprintf(x->reason, sizeof(x->reason), "content_coding: %s", why);
	snprintf(text, sizeof(text), "the response cannot be looked through for credentials: %s", why);
	leave_upstream(x, false);
	x->upstream_reusable = false;
	exchange_refuse(x, REFUSAL_UPSTREAM_PROTOCOL, text);
}

/* Coded content of a response that is scrubbed is decoded on its way. False: it is refused. */
static bool decode_begin(struct exchange *x, struct http_response *r, enum http_framing *framing)
{
	enum coding c = coding_of(&r->fields);
	bool content = *framing != HTTP_BODY_NONE && !(*framing == HTTP_BODY_LENGTH && r->content_length == 0);

	if (c == CODING_NONE || (c == CODING_UNKNOWN && !content))
		return true;
	if (c == CODING_UNKNOWN || r->status == 206) {
		unreadable(x, c == CODING_UNKNOWN ? "its content coding is none of gzip, deflate, br, zstd, or several on one another" : "it is a part of compressed content");
		return false;
	}
	coding_remove(&x->arena, r);
	if (!content)
		return true;
	x->decode = decode_new(c, &decode_limits_default);
	account(x);
	if (*framing == HTTP_BODY_LENGTH)
		*framing = HTTP_BODY_CHUNKED;
	return true;
}

void exchange_response_head(struct exchange *x, struct http_response *r)
{
	enum http_framing framing = r->framing;
	struct limit_hit hit;

	if (x->ws != NULL && websocket_head(x, r))
		return;
	if (r->status < 200) {
		if (r->status == 101 || ++x->interim > INTERIM_MAX) {
			exchange_upstream_broken(x, r->status == 101 ? "the upstream switched protocols unasked" : "the upstream sent too many interim responses");
			return;
		}
		if (r->status == 100) {
			let_continue(x);
		} else if (x->client != NULL) {
			http_response_strip(r);
			x->client->ops->interim(x->client, r);
		}
		return;
	}
	x->awaits_continue = false;
	if (x->scrub_on && x->dest.has_inject && rpc_compressed(r)) {
		snprintf(x->reason, sizeof(x->reason), "compressed_messages");
		exchange_upstream_broken(x, "the upstream compresses its messages although it was not told that it may: a credential in them could not be found");
		return;
	}
	http_response_strip(r);
	x->first_byte_us = clock_mono_us() - x->start_us;
	x->status = r->status;
	x->resp_is_head = str_eq(x->req.method, STR("HEAD"));
	if (x->scrub_on && !decode_begin(x, r, &framing))
		return;
	if (!x->request_ended)
		x->client_must_close = true; /* an early answer: what is left of the content will not be read */
	/* a close-delimited response becomes chunked, unless the client is too old for that */
	if (framing == HTTP_BODY_CLOSE && x->req.version != HTTP_V_1_0)
		framing = HTTP_BODY_CHUNKED;
	if (framing == HTTP_BODY_CHUNKED && x->req.version == HTTP_V_1_0)
		framing = HTTP_BODY_CLOSE;
	if (framing == HTTP_BODY_CLOSE)
		x->client_must_close = true;
	if (x->limits.response_body != 0 && framing == HTTP_BODY_LENGTH && r->content_length > x->limits.response_body && !x->resp_is_head) {
		over(x, REFUSAL_TOO_LARGE, 502, "response_body");
		return;
	}
	if (framing == HTTP_BODY_LENGTH && !x->resp_is_head && !limit_foresee(x, false, r->content_length, &hit)) {
		over_limit(x, &hit);
		return;
	}
	x->active_ms = loop_now_ms(x->loop);
	x->response_started = true;
	r->keep_alive = !x->client_must_close && x->req.keep_alive;
	x->client->ops->head(x->client, r, framing, r->content_length);
}

/* Content to the client, secrets overwritten. */
static void deliver(struct exchange *x, uint8_t *p, size_t n)
{
	if (x->scrub_on)
		renew_scrub(x);
	if (!x->scrub_on || !scrub_holds(&x->scrub)) {
		if (x->scrub_on)
			n = scrub_feed_inplace(&x->scrub, p, n);
		x->content_out += n;
		if (n > 0)
			x->client->ops->data(x->client, p, n);
		return;
	}
	scrub_feed(&x->scrub, p, n, &x->scrubbed);
	if (buf_len(&x->scrubbed) > 0) {
		x->content_out += buf_len(&x->scrubbed);
		x->client->ops->data(x->client, buf_data(&x->scrubbed), buf_len(&x->scrubbed));
		buf_clear(&x->scrubbed);
	}
}

/* Decodes and delivers as much as the client takes; what is left of p waits. False: the exchange is over. */
static bool coded_some(struct exchange *x, const uint8_t *p, size_t n)
{
	uint8_t slice[DECODE_SLICE];
	size_t got = 0;
	const char *fault;

	do {
		x->decode_more = false;
		if (!decode_feed(x->decode, &p, &n, slice, sizeof(slice), &got, &fault)) {
			unreadable(x, fault);
			return false;
		}
		x->decoded += got;
		if (x->limits.response_body != 0 && x->decoded > x->limits.response_body) {
			over(x, REFUSAL_TOO_LARGE, 502, "response_body");
			return false;
		}
		if (got > 0)
			deliver(x, slice, got);
		x->decode_more = got == sizeof(slice);
	} while ((n > 0 || x->decode_more) && !x->client->ops->full(x->client));
	buf_add(&x->coded, p, n);
	account(x);
	return true;
}

void exchange_response_data(struct exchange *x, uint8_t *p, size_t n)
{
	struct limit_hit hit;

	if (x->finished || x->client == NULL)
		return;
	if (is_open(x)) {
		if (x->scrub_on)
			renew_scrub(x);
		websocket_down(x, p, n);
		return;
	}
	x->active_ms = loop_now_ms(x->loop);
	x->content_up += n;
	if (x->limits.response_body != 0 && x->content_up > x->limits.response_body) {
		over(x, REFUSAL_TOO_LARGE, 502, "response_body");
		return;
	}
	if (!limit_octets(x, false, n, &hit)) {
		over_limit(x, &hit);
		return;
	}
	if (x->decode == NULL) {
		deliver(x, p, n);
	} else if (buf_len(&x->coded) > 0 || x->decode_more) {
		buf_add(&x->coded, p, n);
		account(x);
	} else {
		coded_some(x, p, n);
	}
}

/* The last octets, the record, the end. */
static void end_response(struct exchange *x, const struct http_fields *trailer)
{
	if (x->decode != NULL && !decode_whole(x->decode)) {
		unreadable(x, "the compressed content is cut short");
		return;
	}
	if (x->scrub_on) {
		scrub_end(&x->scrub, &x->scrubbed);
		if (buf_len(&x->scrubbed) > 0) {
			x->content_out += buf_len(&x->scrubbed);
			x->client->ops->data(x->client, buf_data(&x->scrubbed), buf_len(&x->scrubbed));
			buf_clear(&x->scrubbed);
		}
	}
	x->response_ended = true;
	write_record(x);
	x->client->ops->end(x->client, trailer);
	finish(x, x->request_ended);
}

/* The upstream's part is over before the client has taken it all: that one is free, and the trailer is ours now. */
static void end_later(struct exchange *x, const struct http_fields *trailer)
{
	struct http_fields *own;

	x->end_due = true;
	if (trailer != NULL) {
		own = arena_alloc(&x->arena, sizeof(*own));
		*own = *trailer;
		for (unsigned i = 0; i < own->n; i++) {
			own->f[i].name = arena_str(&x->arena, trailer->f[i].name);
			own->f[i].value = arena_str(&x->arena, trailer->f[i].value);
		}
		x->end_trailer = own;
	}
	leave_upstream(x, x->upstream_reusable);
}

void exchange_response_end(struct exchange *x, bool reusable, const struct http_fields *trailer)
{
	if (x->finished || x->response_ended || x->end_due)
		return;
	if (is_open(x)) {
		websocket_over(x);
		return;
	}
	/* A14: an upstream that answered before it had the whole request is not used again */
	x->upstream_reusable = reusable && x->request_ended;
	if (buf_len(&x->coded) > 0 || x->decode_more)
		end_later(x, trailer);
	else
		end_response(x, trailer);
}

bool exchange_wants_trailer(const struct exchange *x) { return x->req.te_trailers || x->req.version == HTTP_V_2; }

void exchange_upstream_broken(struct exchange *x, const char *text)
{
	leave_upstream(x, false);
	exchange_refuse(x, REFUSAL_UPSTREAM_PROTOCOL, text);
}

void exchange_tunnel_end(struct exchange *x, enum refusal_code code, bool whole)
{
	if (x->finished)
		return;
	x->code = code;
	if (code != REFUSAL_NONE && refusal_status(code) < 500)
		x->decision.verdict = VERDICT_DENY;
	x->response_ended = true;
	write_record(x);
	if (whole)
		x->client->ops->end(x->client, NULL);
	else
		x->client->ops->reset(x->client, RESET_INTERNAL);
	finish(x, false);
}

static bool may_retry(const struct exchange *x, bool unprocessed)
{
	static const char *const idempotent[] = { "GET", "HEAD", "OPTIONS", "PUT", "DELETE" };

	/* content that went out is nowhere any more */
	if (x->retried || x->response_started || x->interim > 0 || x->up == NULL || x->request_sent_any)
		return false;
	if (unprocessed)
		return true;
	/* RFC 9110 9.2.2: a reused connection that turns out closed, nothing received, nothing but the head sent */
	if (!x->up->reused || x->up->answered || x->req.framing != HTTP_BODY_NONE)
		return false;
	for (size_t i = 0; i < sizeof(idempotent) / sizeof(idempotent[0]); i++)
		if (str_eq(x->req.method, str_of(idempotent[i])))
			return true;
	return false;
}

void exchange_upstream_lost(struct exchange *x, enum refusal_code code, const char *cause, bool unprocessed)
{
	bool retry = code != REFUSAL_UPSTREAM_TIMEOUT && may_retry(x, unprocessed); /* who is silent may be at work on it */

	if (x->up != NULL)
		x->up->x = NULL;
	x->up = NULL;
	if (x->finished)
		return;
	if (retry) {
		x->retried = true;
		x->reset_code = 0;
		ask_upstream(x);
		return;
	}
	x->upstream_reusable = false;
	if (websocket_waved(x, false))
		websocket_over(x);
	else
		exchange_upstream_failed(x, code, cause);
}
