/* SPDX-License-Identifier: Apache-2.0 */
#include "refusal.h"

#include "../../common/base/jsonw.h"
#include "../../common/base/must.h"

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
	default:
		json_object(b, r);
		break;
	}
	buf_addc(b, '\n');
}

void refusal_write_h1(struct buf *out, const struct refusal *r)
{
	struct buf body = { 0 };
	uint16_t status = r->status ? r->status : row(r->code)->status;

	body_of(&body, r);
	buf_addf(out, "HTTP/1.1 %u sallyport %s\r\nContent-Type: %s\r\nCache-Control: no-store\r\nProxy-Status: sallyport; error=%s; details=", status, row(r->code)->text,
		r->shape == REFUSAL_GIT ? "text/plain; charset=utf-8" : "application/json", row(r->code)->proxy_error);
	sf_string(out, r->reason);
	buf_addz(out, "\r\n");
	if (r->retry_after_s || status == 429)
		buf_addf(out, "Retry-After: %u\r\n", r->retry_after_s ? r->retry_after_s : 1);
	if (status == 407)
		buf_addz(out, "Proxy-Authenticate: Basic realm=\"sallyport\"\r\n");
	if (r->close)
		buf_addz(out, "Connection: close\r\n");
	buf_addf(out, "Content-Length: %zu\r\n\r\n", buf_len(&body));
	if (!r->is_head)
		buf_adds(out, buf_str(&body));
	buf_fini(&body);
}
