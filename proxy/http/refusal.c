/* SPDX-License-Identifier: Apache-2.0 */
#include "refusal.h"

#include "../../common/base/jsonw.h"
#include "../../common/base/must.h"
#include "h1.h"

struct row {
	const char *text, *proxy_error;
	uint16_t status;
};
static const struct row rows[] = {
	[REFUSAL_NONE] = { "none", "proxy_internal_error", 500 },
#define REFUSAL(id, text, status, error) [REFUSAL_##id] = { text, error, status },
#include "refusal.def"
#undef REFUSAL
};

/* A code is ours, never from outside. */
static const struct row *row(enum refusal_code c)
{
	MUST((unsigned)c < sizeof(rows) / sizeof(rows[0]));
	return &rows[c];
}

const char *refusal_text(enum refusal_code c) { return row(c)->text; }
uint16_t refusal_status(enum refusal_code c) { return row(c)->status; }
const char *refusal_proxy_error(enum refusal_code c) { return row(c)->proxy_error; }

/* A string of RFC 8941 3.3.3: printable ASCII, quote and backslash escaped. */
static void sf_string(struct buf *out, struct str s)
{
	buf_addc(out, '"');
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];

		if (c == '"' || c == '\\')
			buf_addc(out, '\\');
		buf_addc(out, c >= 0x20 && c < 0x7f ? c : '?');
	}
	buf_addc(out, '"');
}

static void one_line(struct buf *out, struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		buf_addc(out, s.p[i] >= 0x20 && s.p[i] < 0x7f ? s.p[i] : '?');
}

static void kstr(struct jsonw *w, const char *key, struct str s) { jsonw_kstr(w, key, s.n ? s : STR("")); }

static void kstr_or_null(struct jsonw *w, const char *key, struct str s)
{
	jsonw_key(w, key);
	if (s.n)
		jsonw_str(w, s);
	else
		jsonw_null(w);
}

/* {"v":1,"error":...}, without a line end: docs/man/sallyport-proxy.8 */
static void json_object(struct buf *b, const struct refusal *r)
{
	struct jsonw w = jsonw_on(b);

	jsonw_open(&w, '{');
	jsonw_ku64(&w, "v", 1);
	jsonw_kz(&w, "error", row(r->code)->text);
	kstr(&w, "reason", r->reason);
	kstr_or_null(&w, "host", r->host);
	kstr_or_null(&w, "method", r->method);
	kstr_or_null(&w, "path", r->path);
	kstr_or_null(&w, "rule", r->rule);
	jsonw_kopen(&w, "allowed", '[');
	for (const char *const *m = r->allowed; m != NULL && *m != NULL; m++)
		jsonw_str(&w, str_of(*m));
	jsonw_close(&w, ']');
	jsonw_kz(&w, "retry", r->retry ? r->retry : "no");
	jsonw_key(&w, "ask");
	jsonw_null(&w);
	kstr(&w, "hint", r->hint);
	kstr(&w, "request_id", r->request_id);
	jsonw_close(&w, '}');
}

static void message(struct buf *b, const struct refusal *r)
{
	struct buf t = { 0 };
	struct jsonw w = jsonw_on(b);

	buf_addz(&t, "sallyport ");
	buf_addz(&t, row(r->code)->text);
	buf_addz(&t, ": ");
	one_line(&t, r->reason);
	jsonw_str(&w, buf_str(&t));
	buf_fini(&t);
}

/* JSON-RPC 2.0, 5.1: one error a call; -32000 to -32099 are the server's own codes. */
static void jsonrpc_body(struct buf *b, const struct refusal *r)
{
	if (r->batch)
		buf_addc(b, '[');
	for (unsigned i = 0; i < r->id_n; i++) {
		buf_addz(b, i > 0 ? ",{\"jsonrpc\":\"2.0\",\"id\":" : "{\"jsonrpc\":\"2.0\",\"id\":");
		buf_adds(b, r->ids[i]);
		buf_addz(b, ",\"error\":{\"code\":-32001,\"message\":");
		message(b, r);
		buf_addz(b, ",\"data\":");
		json_object(b, r);
		buf_addz(b, "}}");
	}
	if (r->batch)
		buf_addc(b, ']');
}

static void git_body(struct buf *b, const struct refusal *r)
{
	buf_addz(b, "sallyport: ");
	buf_addz(b, row(r->code)->text);
	buf_addz(b, ": ");
	one_line(b, r->reason);
	buf_addz(b, "\nrequest ");
	one_line(b, r->request_id);
	if (r->hint.n) {
		buf_addz(b, "; ");
		one_line(b, r->hint);
	}
}

/* The codes of gRPC and Connect that say what a client may do about it. */
struct rpc_code {
	const char *grpc, *connect;
};
static struct rpc_code rpc_code(enum refusal_code c)
{
	if (row(c)->status >= 500)
		return (struct rpc_code){ "14", "unavailable" };
	switch (c) {
	case REFUSAL_TOO_LARGE:
	case REFUSAL_LIMIT_EXCEEDED:
		return (struct rpc_code){ "8", "resource_exhausted" };
	case REFUSAL_MALFORMED_REQUEST:
	case REFUSAL_IDENTITY_MISMATCH:
		return (struct rpc_code){ "3", "invalid_argument" };
	case REFUSAL_PROXY_AUTHENTICATION:
		return (struct rpc_code){ "16", "unauthenticated" };
	default:
		return (struct rpc_code){ "7", "permission_denied" };
	}
}

/* Connect, "Error": code and message; what else there is clients pass over. */
static void connect_error(struct buf *b, const struct refusal *r)
{
	buf_addf(b, "{\"code\":\"%s\",\"message\":", rpc_code(r->code).connect);
	message(b, r);
	buf_addz(b, ",\"sallyport\":");
	json_object(b, r);
	buf_addc(b, '}');
}

/* Connect, "EndStreamResponse": a flag, the length, JSON. */
static void connect_end(struct buf *b, const struct refusal *r)
{
	struct buf t = { 0 };

	buf_addz(&t, "{\"error\":");
	connect_error(&t, r);
	buf_addc(&t, '}');
	buf_addc(b, 2);
	for (int shift = 24; shift >= 0; shift -= 8)
		buf_addc(b, (char)(buf_len(&t) >> shift));
	buf_adds(b, buf_str(&t));
	buf_fini(&t);
}

static void body_of(struct buf *b, const struct refusal *r)
{
	switch (r->shape) {
	case REFUSAL_GIT:
		git_body(b, r);
		break;
	case REFUSAL_JSONRPC:
		jsonrpc_body(b, r);
		break;
	case REFUSAL_GRAPHQL: /* GraphQL 7.1: errors, and no data */
		buf_addz(b, "{\"data\":null,\"errors\":[{\"message\":");
		message(b, r);
		buf_addz(b, ",\"extensions\":");
		json_object(b, r);
		buf_addz(b, "}]}");
		break;
	case REFUSAL_CONNECT:
		connect_error(b, r);
		break;
	case REFUSAL_CONNECT_STREAM:
		connect_end(b, r);
		return;
	default:
		json_object(b, r);
		break;
	}
	buf_addc(b, '\n');
}

/* Percent-encoded, as grpc-message is. */
static void grpc_message(struct buf *b, const struct refusal *r)
{
	struct buf t = { 0 };

	one_line(&t, r->reason);
	buf_addz(b, "sallyport ");
	buf_addz(b, row(r->code)->text);
	buf_addz(b, ": ");
	for (size_t i = 0; i < buf_len(&t); i++) {
		if (buf_data(&t)[i] == '%')
			buf_addz(b, "%25");
		else
			buf_addc(b, (char)buf_data(&t)[i]);
	}
	buf_fini(&t);
}

/* Adds a field with what b holds, and empties b. */
static void field(struct http_response *head, struct arena *a, const char *name, struct buf *b)
{
	MUST(http_fields_add(&head->fields, str_of(name), arena_str(a, buf_str(b)), http_fid_of(str_of(name))));
	buf_clear(b);
}

void refusal_answer(const struct refusal *r, struct arena *a, struct http_response *head, struct buf *body)
{
	struct buf b = { 0 };
	bool grpc = r->shape == REFUSAL_GRPC, stream = r->shape == REFUSAL_CONNECT_STREAM;
	size_t before = buf_len(body);

	head->version = HTTP_V_1_1;
	head->status = r->status ? r->status : row(r->code)->status;
	head->fields.n = 0;
	buf_addf(&b, "sallyport %s", row(r->code)->text);
	head->reason = arena_str(a, buf_str(&b));
	buf_clear(&b);
	if (stream)
		buf_adds(&b, r->content_type);
	else
		buf_addz(&b, grpc ? "application/grpc" : r->shape == REFUSAL_GIT ? "text/plain; charset=utf-8" : "application/json");
	field(head, a, "Content-Type", &b);
	buf_addz(&b, "no-store");
	field(head, a, "Cache-Control", &b);
	buf_addf(&b, "sallyport; error=%s; details=", row(r->code)->proxy_error);
	sf_string(&b, r->reason);
	field(head, a, "Proxy-Status", &b);
	if (r->retry_after_s || head->status == 429) {
		buf_addu(&b, r->retry_after_s ? r->retry_after_s : 1);
		field(head, a, "Retry-After", &b);
	}
	if (head->status == 407) {
		buf_addz(&b, "Basic realm=\"sallyport\"");
		field(head, a, "Proxy-Authenticate", &b);
	}
	if (grpc || stream)
		head->status = 200;
	if (grpc) {
		buf_addz(&b, rpc_code(r->code).grpc);
		field(head, a, "Grpc-Status", &b);
		grpc_message(&b, r);
		field(head, a, "Grpc-Message", &b);
	} else {
		body_of(body, r);
	}
	head->framing = HTTP_BODY_LENGTH;
	head->content_length = buf_len(body) - before;
	head->has_length = !grpc;
	head->keep_alive = !r->close;
	buf_fini(&b);
}

void refusal_write_h1(struct buf *out, const struct refusal *r)
{
	struct http_response head;
	struct arena a = { 0 };
	struct buf body = { 0 };

	refusal_answer(r, &a, &head, &body);
	h1_write_response(out, &head, head.framing, head.content_length, head.keep_alive, r->is_head);
	if (!r->is_head)
		buf_adds(out, buf_str(&body));
	buf_fini(&body);
	arena_fini(&a);
}
