/* SPDX-License-Identifier: Apache-2.0 */
#include "exchange_int.h"

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

#define CONTINUE_MS 3000 /* an origin that neither says 100 nor answers: the client is told to send, as if it had */
#define HOLD_MS 30000    /* for the content that a rule looks at */
#define CALL_MS 5000     /* for the content of a refused call */

/*
 * Those that were freed last, with a block of their arena, for the next ones: they are too large for what the allocator keeps at
 * hand. Not under a sanitizer, which would not see who still holds one.
 */
#define SPARE_MAX 64
#ifdef __SANITIZE_ADDRESS__
static const bool keeps_spares = false;
#else
static const bool keeps_spares = true;
#endif
static struct exchange *spare[SPARE_MAX];
static unsigned spare_n;

struct exchange *exchange_new(struct loop *l, const struct exchange_host *host, void *host_arg, struct client_half *client, const struct exchange_ident *ident,
	const struct table *table, uint32_t generation, const char request_id[33])
{
	struct arena arena = { 0 };
	struct exchange *x;

	if (spare_n > 0) {
		x = spare[--spare_n];
		arena = x->arena;
	} else {
		x = must_malloc(sizeof(*x));
	}

	/* the field array is large and written before it is read: everything else is zeroed */
	memset(x, 0, offsetof(struct exchange, req));
	memset((char *)&x->req, 0, offsetof(struct http_request, fields));
	x->req.fields.n = 0;
	memset(&x->req.framing, 0, sizeof(x->req) - offsetof(struct http_request, framing));
	memset(x->request_id, 0, sizeof(*x) - offsetof(struct exchange, request_id));
	x->arena = arena;
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

void exchange_spares_free(void)
{
	while (spare_n > 0) {
		struct exchange *x = spare[--spare_n];

		arena_fini(&x->arena);
		free(x);
	}
}

static void free_deferred(void *arg)
{
	struct exchange *x = arg;

	if (x->scrub_on)
		scrub_fini(&x->scrub);
	buf_fini_secret(&x->scrubbed);
	decode_free(x->decode);
	buf_fini_secret(&x->coded);
	buf_fini(&x->call);
	buf_fini_secret(&x->content_held);
	credential_free(x);
	if (keeps_spares && spare_n < SPARE_MAX) {
		arena_reset(&x->arena);
		spare[spare_n++] = x;
		return;
	}
	arena_fini(&x->arena);
	free(x);
}

void exchange_leave_upstream(struct exchange *x, bool reusable)
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

bool exchange_is_open(const struct exchange *x) { return x != NULL && x->ws != NULL && x->ws->open; }

#define RECORD_ROOM 1000 /* most records need no more; within what the allocator keeps at hand */

void exchange_write_record(struct exchange *x)
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
void exchange_finish(struct exchange *x, bool reusable)
{
	struct client_half *c = x->client;

	if (x->finished)
		return;
	x->finished = true;
	x->state = X_OVER;
	exchange_leave_upstream(x, x->upstream_reusable);
	exchange_write_record(x);
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
bool exchange_is_grpc(struct exchange *x)
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
void exchange_answer(struct exchange *x, const char *text)
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
	else if (exchange_is_grpc(x))
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
	exchange_finish(x, keep);
}

void exchange_answer_now(struct exchange *x)
{
	if (x->state == X_ANSWERING && !x->finished && x->client != NULL)
		exchange_answer(x, x->answer_text.p);
}

void exchange_refuse_with(struct exchange *x, enum refusal_code code, uint16_t status, const char *text)
{
	x->code = code;
	if (x->reason[0] == 0)
		snprintf(x->reason, sizeof(x->reason), "%s", text);
	if (code != REFUSAL_CLIENT_CLOSED && x->decision.verdict == VERDICT_ALLOW && refusal_status(code) < 500)
		x->decision.verdict = VERDICT_DENY;
	if (x->response_started) {
		x->client->ops->reset(x->client, x->reset_code != 0 ? x->reset_code : RESET_INTERNAL);
		exchange_finish(x, false);
		return;
	}
	x->status = status ? status : refusal_status(code);
	exchange_write_record(x); /* before the answer: from here on the record stands, in its slot if not in the log */
	if (!x->request_ended && x->state < X_SENDING && !x->client_must_close && rpc_expected(&x->req)) {
		x->state = X_ANSWERING;
		exchange_leave_upstream(x, false);
		x->answer_text = str_of(arena_strz(&x->arena, str_of(text)));
		x->phase_ms = loop_now_ms(x->loop);
		x->client->ops->resume(x->client);
		return;
	}
	exchange_answer(x, text);
}

void exchange_refuse(struct exchange *x, enum refusal_code code, const char *text) { exchange_refuse_with(x, code, 0, text); }

void exchange_content_refused(struct exchange *x, enum refusal_code code, const char *text)
{
	x->client_must_close = true;
	x->upstream_reusable = false;
	exchange_leave_upstream(x, false);
	exchange_refuse_with(x, code, 0, text);
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
	exchange_refuse_with(x, code, f->status, text);
}

void exchange_is_malformed(struct exchange *x, const char *reason)
{
	struct http_fault f = { 400, "malformed_request", reason };

	exchange_malformed(x, &f);
}

void exchange_too_large(struct exchange *x)
{
	char text[120];

	snprintf(text, sizeof(text), "requests to this destination may have %llu octets of content", (unsigned long long)x->limits.request_body);
	snprintf(x->reason, sizeof(x->reason), "request_body");
	x->client_must_close = true;
	exchange_leave_upstream(x, false); /* which may have seen a part of it: never taken for the whole */
	exchange_refuse_with(x, REFUSAL_TOO_LARGE, 413, text);
}

void exchange_over_limit(struct exchange *x, const struct limit_hit *hit)
{
	snprintf(x->reason, sizeof(x->reason), "%s", hit->which);
	x->retry_after_s = hit->retry_after_s;
	x->client_must_close = x->client_must_close || ((x->state == X_SENDING || x->state == X_HOLDING) && !x->request_ended);
	exchange_leave_upstream(x, false);
	x->upstream_reusable = false;
	exchange_refuse_with(x, REFUSAL_LIMIT_EXCEEDED, 0, hit->text);
}

/* All that waits here is counted as the client's: it is among what LIMIT_MEMORY bounds. */
void exchange_account(struct exchange *x)
{
	size_t n = x->held_upstream + x->content_held.cap + x->coded.cap + (x->decode != NULL ? decode_memory(x->decode) : 0) + (exchange_is_open(x) ? frames_held(&x->ws->up) : 0);

	if (x->client != NULL && n != x->held)
		x->client->ops->held(x->client, (ptrdiff_t)n - (ptrdiff_t)x->held);
	x->held = n;
}

void exchange_discard(struct exchange *x)
{
	x->recorded = true;
	x->client = NULL;
	exchange_finish(x, false);
}

bool exchange_takes_data(const struct exchange *x)
{
	if (x->state == X_ANSWERING || x->state == X_HOLDING)
		return !x->request_ended;
	return x->state == X_SENDING && x->up != NULL && !x->request_ended && !x->up->ops->full(x->up) && !(exchange_is_open(x) && x->ws->up.waits);
}

/* The destination's own limit is reached in the middle: both sides see that it is no end. */
void exchange_cut(struct exchange *x, enum refusal_code code, uint16_t status, const char *limit)
{
	snprintf(x->reason, sizeof(x->reason), "limits.%s", limit);
	exchange_leave_upstream(x, false);
	x->upstream_reusable = false;
	x->client_must_close = x->client_must_close || !x->request_ended;
	exchange_refuse_with(x, code, status, code == REFUSAL_UPSTREAM_TIMEOUT ? "the upstream took longer than this destination's limits allow" : "the response has more octets than this destination's limits allow");
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
	exchange_cut(x, REFUSAL_UPSTREAM_TIMEOUT, 0, which);
	return true;
}

uint64_t exchange_idle_ms(const struct exchange *x, uint64_t otherwise)
{
	if (exchange_is_open(x))
		return websocket_idle_ms(x);
	return x != NULL && x->has_dest && x->limits.idle_ms != 0 ? x->limits.idle_ms : otherwise;
}

void exchange_tick(struct exchange *x)
{
	uint64_t waited = loop_now_ms(x->loop) - x->phase_ms;

	if (exchange_is_open(x)) {
		websocket_tick(x);
		return;
	}
	if (timed_out(x))
		return;

	if (x->awaits_continue && waited > CONTINUE_MS)
		exchange_let_continue(x);
	else if (x->state == X_ANSWERING && waited > CALL_MS)
		exchange_answer_now(x);
	if (x->state == X_HOLDING && waited > HOLD_MS) {
		x->client_must_close = true;
		exchange_refuse_with(x, REFUSAL_MALFORMED_REQUEST, 408, "the content that a rule of this sandbox's policy looks at did not come");
	}
}

void exchange_request_broken(struct exchange *x, const struct http_fault *f)
{
	if (x->finished)
		return;
	x->upstream_reusable = false;
	x->client_must_close = true;
	if (x->state == X_ANSWERING) {
		exchange_answer_now(x);
		return;
	}
	exchange_leave_upstream(x, false);
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
	exchange_finish(x, false);
}

void exchange_hold(struct exchange *x, size_t n)
{
	x->held_upstream = n;
	exchange_account(x);
}
