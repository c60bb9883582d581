/* SPDX-License-Identifier: Apache-2.0 */
/* From the head of a request, and perhaps its content, to a verdict. */
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
			exchange_is_malformed(x, reason);
			return false;
		}
		if (r->host_field.p != NULL && (!canon_authority(r->host_field, x->port, &h, &port, &reason) || strcmp(h.text, x->chost.text) != 0 || port != x->port)) {
			exchange_is_malformed(x, "host_mismatch"); /* E18 */
			return false;
		}
		return true;
	}
	if (r->form == HTTP_TARGET_ABSOLUTE) {
		if (id->known || !id->explicit_proxy) {
			/* inside TLS or on a transparent connection: allowed by RFC 9112 3.2.2 if it says the same */
			if (str_eq(r->scheme, STR("https")) != (x->scheme == SCHEME_HTTPS)) {
				exchange_is_malformed(x, "scheme");
				return false;
			}
		} else if (!str_eq(r->scheme, STR("http"))) {
			exchange_is_malformed(x, "scheme");
			return false;
		}
		if (!canon_authority(r->authority, hport, &x->chost, &x->port, &reason)) {
			exchange_is_malformed(x, reason);
			return false;
		}
		if (r->host_field.p == NULL ? r->version == HTTP_V_1_1 : (!canon_authority(r->host_field, hport, &h, &port, &reason) || strcmp(h.text, x->chost.text) != 0 || port != x->port)) {
			exchange_is_malformed(x, "host_mismatch");
			return false;
		}
	} else {
		if (id->explicit_proxy && !id->known) {
			exchange_is_malformed(x, "origin_form");
			return false;
		}
		if (r->host_field.p == NULL) {
			if (r->version == HTTP_V_1_1 || !id->known) {
				exchange_is_malformed(x, "no_host");
				return false;
			}
			x->chost = id->host;
			x->port = id->port;
		} else {
			if (!canon_authority(r->host_field, id->known ? (id->port == 443 || id->port == 80 ? id->port : hport) : hport, &x->chost, &x->port, &reason)) {
				exchange_is_malformed(x, reason);
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
		exchange_is_malformed(x, "host_port");
		return false;
	}
	return true;
}

static bool canonical_path(struct exchange *x)
{
	struct http_request *r = &x->req;
	const char *reason;
	struct str wire;

	if (r->form == HTTP_TARGET_ASTERISK || str_eq(r->path, STR("*"))) { /* the latter of an absolute-form without a path */
		x->path_match = x->path_record = x->target_wire = STR("*");
		return true;
	}
	if (!canon_path(&x->arena, r->path, x->has_dest ? &x->dest.paths : &(struct canon_path_opts){ 0 }, &wire, &x->path_match, &reason)) {
		exchange_is_malformed(x, reason);
		return false;
	}
	x->path_record = wire;
	x->target_wire = wire;
	if (r->has_query) {
		char *t;

		if (!canon_query(r->query, x->has_dest && x->dest.paths.raw, &reason)) {
			exchange_is_malformed(x, reason);
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
	memcpy(x->decision.boundary_rule_no, b.boundary_rule_no, sizeof(b.boundary_rule_no));
	return true;
}

bool exchange_observed_still(const struct exchange *x, const struct table *t, const struct facts *f, const struct decision *d)
{
	struct decision b;

	return x->observed && d->why == DECIDE_NO_RULE && !d->by_boundary && f->now_s < table_observe_until(t) && decide_boundary(t, f, &b);
}

/* Policy has spoken; what else there is to say of the head comes behind it. */
void exchange_decided(struct exchange *x, const struct facts *f)
{
	struct limit_hit hit;

	if (x->decision.verdict != VERDICT_ALLOW && !observes(x, f)) {
		if (x->state != X_HOLDING || f->content != NULL)
			refuse_decision(x);
		return;
	}
	if (x->limits.request_body != 0 && x->req.framing == HTTP_BODY_LENGTH && x->req.content_length > x->limits.request_body) {
		exchange_too_large(x);
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
		exchange_over_limit(x, &hit);
		return;
	}
	if (x->limits.request_body != 0 && x->req.framing == HTTP_BODY_LENGTH && x->req.content_length > x->limits.request_body) { /* the rule's own may be less */
		exchange_too_large(x);
		return;
	}
	if (buf_len(&x->content_held) > 0 && !limit_octets(x, true, buf_len(&x->content_held), &hit)) {
		exchange_over_limit(x, &hit);
		return;
	}
	if (!credential_allowed(x))
		return;
	if (credential_wants_content(x)) {
		await_content(x);
		return;
	}
	x->state = X_SECRETS;
	exchange_go_secrets(x);
}

static void too_much_to_hold(struct exchange *x)
{
	x->client_must_close = true;
	snprintf(x->reason, sizeof(x->reason), "held_content");
	exchange_refuse_with(x, REFUSAL_TOO_LARGE, 413, "a rule of this sandbox's policy looks at the content, and there is more of it than can be looked at");
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
void exchange_look(struct exchange *x)
{
	struct str held = buf_str(&x->content_held);
	struct facts f;

	if (x->need == BODY_NEED_FIRST && x->request_ended && held.n == 0)
		x->req.framing = HTTP_BODY_NONE;
	facts_of(x, &f);
	f.content = &held;
	decide(x->table, &x->dest, &f, &x->decision);
	exchange_decided(x, &f);
}

void exchange_hold_data(struct exchange *x, const uint8_t *p, size_t n)
{
	buf_add(&x->content_held, p, n);
	exchange_account(x);
	if (x->awaits_content) {
		if (buf_len(&x->content_held) > CREDENTIAL_CONTENT_MAX)
			too_much_to_hold(x);
		return;
	}
	if (buf_len(&x->content_held) > BODY_HELD_MAX && !body_enough(x->need, buf_str(&x->content_held)))
		too_much_to_hold(x);
	else if (body_enough(x->need, buf_str(&x->content_held)))
		exchange_look(x);
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
		exchange_is_malformed(x, "nested_connect");
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
		exchange_is_malformed(x, "via_loop");
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
	exchange_decided(x, &f);
}
