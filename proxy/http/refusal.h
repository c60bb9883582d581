/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_HTTP_REFUSAL_H
#define SP_HTTP_REFUSAL_H
/* The answer to a refused request, one builder for every code and client. */
#include "head.h"

enum refusal_code {
	REFUSAL_NONE = 0,
#define REFUSAL(id, text, status, proxy_error) REFUSAL_##id,
#include "refusal.def"
#undef REFUSAL
};
/* "policy_denied" and so on; status; the error type of RFC 9209 for Proxy-Status. */
const char *refusal_text(enum refusal_code c);
uint16_t refusal_status(enum refusal_code c);
const char *refusal_proxy_error(enum refusal_code c);

/*
 * What the client can read: our JSON; git's two lines of text/plain; the error form of its own protocol around our JSON; for
 * gRPC a response of one head, whose status is 200, as that protocol wants it, and whose outcome is grpc-status; for a stream
 * of Connect one of 200 too, whose outcome is its last message.
 */
enum refusal_shape { REFUSAL_JSON = 0, REFUSAL_GIT, REFUSAL_JSONRPC, REFUSAL_GRAPHQL, REFUSAL_GRPC, REFUSAL_CONNECT, REFUSAL_CONNECT_STREAM };

struct refusal {
	enum refusal_code code;
	uint16_t status;       /* 0 = the code's own */
	struct str reason;     /* one sentence, for the client */
	struct str host, method, path; /* as far as known */
	struct str rule;       /* id or STR_NONE */
	const char *const *allowed; /* methods that would pass here, NULL-terminated, or NULL */
	const char *retry;     /* "no", "after", "ask" */
	struct str hint;
	struct str request_id;
	uint32_t retry_after_s; /* 0 = none */
	enum refusal_shape shape;
	const struct str *ids; /* REFUSAL_JSONRPC: the JSON texts of the calls' ids, one error each */
	unsigned id_n;
	bool batch;            /* they came in an array */
	struct str content_type; /* REFUSAL_CONNECT_STREAM: the request's */
	bool is_head;
	bool close;            /* say Connection: close */
};
/* The answer in no version's form: the head, its strings in arena a, and the content, appended to body. */
void refusal_answer(const struct refusal *r, struct arena *a, struct http_response *head, struct buf *body);
/* Appends a whole HTTP/1.1 response (head and body; no body bytes after the head for is_head). */
void refusal_write_h1(struct buf *out, const struct refusal *r);
#endif
