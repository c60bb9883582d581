/* SPDX-License-Identifier: Apache-2.0 */
#include "websocket.h"

#include <openssl/evp.h>
#include <stdio.h>

#include "../../common/base/must.h"
#include "../../common/sys/clock.h"
#include "exchange_int.h"

#define IDLE_MS 600000    /* without an octet either way, where the destination says nothing else */
#define IDLE_SLACK_MS 5000 /* for the connections: what ends an idle WebSocket is websocket_tick, which says goodbye */
#define CLOSING_MS 10000  /* from the first Close frame, or end of a side, to the end */
#define CLOSED_MS 2000    /* the same when both sides have sent one: the upstream closes (RFC 6455 7.1.1) */

static void accept_of(struct str key, char out[WS_ACCEPT_LEN + 1])
{
	char in[60];
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned n = 0;

	ws_accept_input(key, in);
	MUST(EVP_Digest(in, sizeof(in), digest, &n, EVP_sha1(), NULL) == 1 && n == 20);
	EVP_EncodeBlock((unsigned char *)out, digest, 20);
}

void websocket_warm(void)
{
	char out[WS_ACCEPT_LEN + 1];

	accept_of(STR("dGhlIHNhbXBsZSBub25jZQ=="), out);
}

bool websocket_begin(struct exchange *x, struct http_fault *f)
{
	struct websocket *ws = arena_zalloc(&x->arena, sizeof(*ws));
	struct http_field *key = x->req.version == HTTP_V_2 ? NULL : http_fields_find_name(&x->req.fields, STR("Sec-WebSocket-Key"));
	unsigned char nonce[16];

	if (x->req.version != HTTP_V_2 && key == NULL) { /* nominated by Connection */
		*f = (struct http_fault){ 400, "malformed_request", "websocket_handshake" };
		return false;
	}
	if (key != NULL)
		ws->client_key = key->value;
	random_fill(nonce, sizeof(nonce));
	EVP_EncodeBlock((unsigned char *)ws->key, nonce, sizeof(nonce));
	accept_of(str_mk(ws->key, WS_KEY_LEN), ws->accept);
	x->ws = ws;
	return ws_request_fields(&x->req, str_mk(ws->key, WS_KEY_LEN), f);
}

bool websocket_allowed(struct exchange *x)
{
	struct websocket *ws = x->ws;

	if (!x->host->websocket(x->host_arg, x, true))
		return false;
	ws->listed = true;
	ws->asked_n = x->req.fields.n;
	ws->asked = arena_alloc(&x->arena, ws->asked_n * sizeof(*ws->asked));
	memcpy(ws->asked, x->req.fields.f, ws->asked_n * sizeof(*ws->asked));
	return true;
}

void websocket_free(struct exchange *x)
{
	if (x->ws->listed)
		x->host->websocket(x->host_arg, x, false);
	x->ws->listed = false;
	frames_fini(&x->ws->up);
	messages_fini(&x->ws->messages);
	frames_fini(&x->ws->down);
}

/* --- frames ---------------------------------------------------------------------------------------------------------- */

static void emit_up(void *arg, const uint8_t *p, size_t n)
{
	struct exchange *x = arg;

	if (x->up != NULL)
		x->up->ops->data(x->up, p, n);
}

static void emit_down(void *arg, const uint8_t *p, size_t n)
{
	struct exchange *x = arg;

	x->content_out += n;
	if (x->client != NULL)
		x->client->ops->data(x->client, p, n);
}

static void note_close(struct websocket *ws, uint16_t code, const char *by)
{
	if (ws->close_code != 0)
		return;
	ws->close_code = code;
	ws->closed_by = by;
}

/* Both sides are told why, where a frame can stand, and left. */
static void hang_up(struct exchange *x, enum refusal_code code, const char *reason, uint16_t to_client, uint16_t to_upstream)
{
	struct websocket *ws = x->ws;

	if (x->finished)
		return;
	snprintf(x->reason, sizeof(x->reason), "%s", reason);
	note_close(ws, to_client, "gateway");
	frames_close(&ws->up, to_upstream, STR_NONE);
	frames_close(&ws->down, to_client, str_of(code != REFUSAL_NONE ? refusal_text(code) : ""));
	exchange_tunnel_end(x, code, frames_between(&ws->down));
}

/* Budgets of either direction hold here, too. */
static bool within_budget(struct exchange *x, bool up, size_t n)
{
	struct limit_hit hit;

	if (limit_octets(x, up, n, &hit))
		return true;
	hang_up(x, REFUSAL_LIMIT_EXCEEDED, hit.which, WS_CLOSE_POLICY, WS_CLOSE_GOING_AWAY);
	return false;
}

/* What came of octets from the client. */
static void went_up(struct exchange *x, bool good, const struct ws_fault *f)
{
	struct messages *m = &x->ws->messages;

	if (!good && strcmp(f->reason, FRAMES_REFUSED_REASON) == 0)
		hang_up(x, m->code, m->reason, m->close, WS_CLOSE_GOING_AWAY);
	else if (!good)
		hang_up(x, f->code == WS_CLOSE_TOO_BIG ? REFUSAL_TOO_LARGE : REFUSAL_MALFORMED_REQUEST, f->reason, f->code, WS_CLOSE_GOING_AWAY);
	else if (x->ws->up.close_seen)
		note_close(x->ws, x->ws->up.close_code, "client");
	if (!x->finished)
		exchange_account(x);
}

void websocket_secrets_changed(struct exchange *x)
{
	struct ws_fault f;

	if (x->finished || !x->ws->up.waits)
		return;
	went_up(x, frames_resume(&x->ws->up, &f), &f);
	if (!x->finished && !x->ws->up.waits)
		x->client->ops->resume(x->client);
}

void websocket_up(struct exchange *x, const uint8_t *p, size_t n)
{
	struct ws_fault f;

	x->active_ms = loop_now_ms(x->loop);
	x->content_in += n;
	if (!within_budget(x, true, n))
		return;
	went_up(x, frames_feed(&x->ws->up, (uint8_t *)(uintptr_t)p, n, &f), &f);
}

void websocket_down(struct exchange *x, uint8_t *p, size_t n)
{
	struct ws_fault f;

	x->active_ms = loop_now_ms(x->loop);
	x->content_up += n;
	if (!within_budget(x, false, n))
		return;
	if (!frames_feed(&x->ws->down, p, n, &f))
		hang_up(x, REFUSAL_UPSTREAM_PROTOCOL, f.reason, f.code == WS_CLOSE_TOO_BIG ? WS_CLOSE_TOO_BIG : WS_CLOSE_BAD_GATEWAY, f.code);
	else if (x->ws->down.close_seen)
		note_close(x->ws, x->ws->down.close_code, "upstream");
}

static void open_frames(struct exchange *x)
{
	struct websocket *ws = x->ws;

	frames_init(&ws->up, true);
	ws->up.random = random_fill;
	ws->up.emit = emit_up;
	ws->up.look = message_look;
	ws->up.fill = messages_fill_any(x) ? message_fill : NULL;
	ws->up.in.message_max = x->limits.request_body;
	frames_init(&ws->down, false);
	ws->down.set = x->scrub_on ? x->scrub_ref->set : NULL;
	ws->down.emit = emit_down;
	ws->down.in.message_max = x->limits.response_body;
	ws->up.arg = ws->down.arg = x;
	ws->open = true;
}

/* --- the answer ------------------------------------------------------------------------------------------------------ */

static void not_switched(struct exchange *x, const char *reason, const char *text)
{
	snprintf(x->reason, sizeof(x->reason), "%s", reason);
	exchange_upstream_broken(x, text);
}

bool websocket_head(struct exchange *x, struct http_response *r)
{
	struct websocket *ws = x->ws;
	bool h2 = x->upf.version == HTTP_V_2;
	char accept[WS_ACCEPT_LEN + 1];
	const char *reason;

	if (!(h2 ? r->status >= 200 && r->status < 300 : r->status == 101)) {
		/* to a client of HTTP/2 it would mean that the protocol is switched (RFC 8441 5) */
		if (r->status < 200 || r->status >= 300 || x->req.version != HTTP_V_2)
			return false;
		not_switched(x, "ws_not_switched", "the upstream answered the WebSocket handshake with content");
		return true;
	}
	if (!ws_response_fields(r, &x->req.fields, h2 ? STR_NONE : str_mk(ws->accept, WS_ACCEPT_LEN), &ws->subprotocol, &reason)) {
		not_switched(x, reason, "the upstream's answer to the WebSocket handshake is not in order");
		return true;
	}
	http_response_strip(r);
	if (ws->client_key.p != NULL) {
		accept_of(ws->client_key, accept);
		if (!http_fields_add(&r->fields, STR("Sec-WebSocket-Accept"), arena_str(&x->arena, str_mk(accept, WS_ACCEPT_LEN)), HF_OTHER)) {
			not_switched(x, "fields", "the upstream's answer to the WebSocket handshake has too many fields");
			return true;
		}
	}
	ws->subprotocol = arena_str(&x->arena, ws->subprotocol);
	x->first_byte_us = clock_mono_us() - x->start_us;
	x->active_ms = loop_now_ms(x->loop);
	x->status = r->status = 101;
	r->reason = STR("Switching Protocols");
	r->keep_alive = true;
	x->response_started = true;
	x->client_must_close = true;
	open_frames(x);
	x->client->ops->head(x->client, r, HTTP_BODY_CLOSE, 0);
	x->request_ended = false; /* what the client sends from now on are frames */
	x->client->ops->resume(x->client);
	return true;
}

/* --- the end --------------------------------------------------------------------------------------------------------- */

void websocket_over(struct exchange *x)
{
	/* who is left in the middle of a frame has to notice; without a Close frame both know it as abnormal (RFC 6455 7.1.5) */
	exchange_tunnel_end(x, REFUSAL_NONE, ws_between_frames(&x->ws->down.in) && frames_between(&x->ws->down));
}

bool websocket_waved(const struct exchange *x, bool client)
{
	const struct websocket *ws = x->ws;

	return ws != NULL && ws->open && (client ? ws->up.close_seen : ws->down.close_seen);
}

static uint64_t idle_ms(const struct exchange *x) { return x->limits.idle_ms != 0 ? x->limits.idle_ms : IDLE_MS; }
uint64_t websocket_idle_ms(const struct exchange *x) { return idle_ms(x) + IDLE_SLACK_MS; }

void websocket_tick(struct exchange *x)
{
	struct websocket *ws = x->ws;
	uint64_t now = loop_now_ms(x->loop);
	bool up = ws->up.close_seen || x->request_ended, down = ws->down.close_seen;

	if (ws->closing_ms == 0 && (up || down))
		ws->closing_ms = now;
	if (ws->closing_ms != 0 && now - ws->closing_ms > (up && down ? CLOSED_MS : CLOSING_MS))
		exchange_tunnel_end(x, REFUSAL_NONE, frames_between(&ws->down));
	else if (x->limits.total_ms != 0 && now - x->begun_ms > x->limits.total_ms)
		hang_up(x, REFUSAL_UPSTREAM_TIMEOUT, "limits.total", WS_CLOSE_GOING_AWAY, WS_CLOSE_GOING_AWAY);
	else if (now - x->active_ms > idle_ms(x))
		hang_up(x, REFUSAL_UPSTREAM_TIMEOUT, "limits.idle", WS_CLOSE_GOING_AWAY, WS_CLOSE_GOING_AWAY);
}

/* The i-th field of the handshake, as rules look at it. */
static bool asked_at(const void *arg, unsigned i, struct str *name, struct str *value)
{
	const struct websocket *ws = arg;

	if (i >= ws->asked_n)
		return false;
	*name = ws->asked[i].drop ? STR_NONE : ws->asked[i].name;
	*value = ws->asked[i].value;
	return true;
}

void websocket_redecide(struct exchange *x, const struct table *t)
{
	struct websocket *ws = x->ws;
	struct facts f;
	struct decision d;
	struct dest dest;
	int found;

	if (!ws->listed || x->finished || (x->response_started && !ws->open))
		return;
	exchange_facts(x, &f);
	f.now_s = clock_wall_ms() / 1000;
	f.field = asked_at;
	f.field_arg = ws;
	f.used = NULL; /* it was counted when it began */
	found = table_find(t, f.scheme, f.host, f.port, &dest);
	decide(t, found == 1 ? &dest : NULL, &f, &d);
	ws->messages.old = t != x->table;
	if (found >= 0 && (d.verdict == VERDICT_ALLOW || (x->observed && exchange_observed_still(x, t, &f, &d))))
		return;
	if (ws->open) {
		hang_up(x, REFUSAL_POLICY_DENIED, "policy_changed", WS_CLOSE_POLICY, WS_CLOSE_GOING_AWAY);
		return;
	}
	snprintf(x->reason, sizeof(x->reason), "policy_changed");
	exchange_refuse(x, REFUSAL_POLICY_DENIED, "this sandbox's policy does not allow it any more");
}

void websocket_record(const struct exchange *x, struct buf *b)
{
	const struct websocket *ws = x->ws;

	if (!ws->open)
		return;
	record_u(b, REC_WS_CLOSE, ws->close_code != 0 ? ws->close_code : WS_CLOSE_ABNORMAL);
	record_s(b, REC_WS_CLOSED_BY, str_of(ws->closed_by));
	record_s(b, REC_WS_PROTOCOL, ws->subprotocol);
	record_u(b, REC_WS_MESSAGES_IN, ws->up.messages);
	record_u(b, REC_WS_MESSAGES_OUT, ws->down.messages);
}
