/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_HTTP_HEAD_H
#define SP_HTTP_HEAD_H
/*
 * Message heads, common to HTTP/1.1 and HTTP/2. A head is parsed once; policy, DNS, TLS name, secret choice, upstream
 * bytes and record all come from this struct. Strings borrow from the parse buffer or the arena of the exchange.
 */
#include <stdbool.h>
#include <stdint.h>

#include "../../common/base/arena.h"
#include "../../common/base/buf.h"
#include "../../common/base/canon.h"
#include "../../common/base/str.h"

enum http_version { HTTP_V_NONE = 0, HTTP_V_1_0, HTTP_V_1_1, HTTP_V_2 };

/* How the content of a message is delimited (RFC 9112 6.3). */
enum http_framing { HTTP_BODY_NONE = 0, HTTP_BODY_LENGTH, HTTP_BODY_CHUNKED, HTTP_BODY_CLOSE /* responses only */ };

/* Well-known fields, found once while parsing. */
enum http_fid { HF_OTHER = 0, HF_HOST, HF_CONTENT_LENGTH, HF_TRANSFER_ENCODING, HF_CONNECTION, HF_KEEP_ALIVE, HF_PROXY_CONNECTION,
	HF_PROXY_AUTHORIZATION, HF_PROXY_AUTHENTICATE, HF_TE, HF_TRAILER, HF_UPGRADE, HF_EXPECT, HF_AUTHORIZATION, HF_COOKIE, HF_ACCEPT_ENCODING,
	HF_RANGE, HF_IF_RANGE, HF_USER_AGENT, HF_CONTENT_TYPE, HF_CONTENT_ENCODING, HF_ALT_SVC, HF_MAX_FORWARDS, HF_VIA,
	HF_HTTP2_SETTINGS, HF_EARLY_DATA, HF_FORWARDING /* X-Forwarded-*, Forwarded, X-Original-URL, X-Rewrite-URL */,
	HF_METHOD_OVERRIDE /* X-HTTP-Method-Override, X-Method-Override, X-HTTP-Method */ };

struct http_field {
	struct str name; /* as sent; compare with str_ieq; lower case in HTTP/2 */
	struct str value; /* optional white space trimmed */
	uint8_t fid;     /* enum http_fid */
	bool drop;       /* not forwarded */
	bool secret;     /* injected: never indexed, never logged */
};

#define HTTP_FIELDS_MAX 128
struct http_fields {
	struct http_field f[HTTP_FIELDS_MAX];
	unsigned n;
};
struct http_field *http_fields_find(struct http_fields *fs, enum http_fid fid); /* first that is not dropped, or NULL */
struct http_field *http_fields_find_name(struct http_fields *fs, struct str name);
/* Appends; false when full. Strings are borrowed. */
bool http_fields_add(struct http_fields *fs, struct str name, struct str value, enum http_fid fid);
enum http_fid http_fid_of(struct str name);
/* The well-known field that name is when '_' is read as '-', as many origins do (B09); HF_OTHER if none or without '_'. */
enum http_fid http_fid_alias(struct str name);
/* Marks as dropped all fields whose name equals `name` in ASCII-case-insensitive comparison with '_' equal to '-' (B09). */
void http_fields_drop_like(struct http_fields *fs, struct str name);

enum http_target_form { HTTP_TARGET_ORIGIN = 0, HTTP_TARGET_ABSOLUTE, HTTP_TARGET_AUTHORITY, HTTP_TARGET_ASTERISK };

struct http_request {
	enum http_version version;
	struct str method; /* token, case-sensitive */
	enum http_target_form form;
	struct str scheme;    /* absolute-form: "http" or "https", lower-cased */
	struct str authority; /* CONNECT target, or absolute-form authority, raw; STR_NONE otherwise */
	struct str host_field; /* value of the one Host field, raw; STR_NONE if absent */
	struct str path;      /* raw path of origin/absolute form ("/" when empty), without query */
	struct str query;     /* raw, without '?'; has_query tells */
	bool has_query;
	struct http_fields fields;
	enum http_framing framing;
	uint64_t content_length; /* with HTTP_BODY_LENGTH */
	bool keep_alive;    /* the connection may be reused after this message */
	bool expect_continue;
	bool upgrade_websocket; /* well-formed handshake: Upgrade: websocket alone, in Connection, GET, no content */
	bool te_trailers;
	bool secret_target; /* something was injected into the target: never indexed */
};

void http_request_copy(struct http_request *to, const struct http_request *from); /* of the fields only those that are there */

struct http_response {
	enum http_version version;
	uint16_t status;
	struct str reason;
	struct http_fields fields;
	enum http_framing framing;
	uint64_t content_length;
	bool has_length;    /* Content-Length was there, also where there is no content (HEAD, 304) */
	bool keep_alive;
	bool upgrade_websocket; /* 101 to Upgrade: websocket alone, in Connection */
};

/* What a failed parse says: code is one of the refusal codes, reason which check failed. */
struct http_fault {
	uint16_t status;     /* 400, 413, 414, 431, 502 … */
	const char *code;    /* "malformed_request", "too_large", "upstream_protocol" */
	const char *reason;  /* static: "cl_and_te", "bare_lf", "header_name", "dot_segment" … */
};

/*
 * Marks hop-by-hop fields as dropped: Connection and what it nominates, Keep-Alive, Proxy-*, TE, Trailer, Upgrade,
 * Transfer-Encoding, Content-Length (both written anew from the parsed framing), HTTP2-Settings, Early-Data; in requests
 * also Host, HF_FORWARDING, HF_METHOD_OVERRIDE and Expect, which we answer ourselves. Must run before injection (B01). A
 * Connection that nominates Host, Content-Length, Transfer-Encoding, Authorization or Cookie in a request is refused: false
 * and *fault. In responses Alt-Svc is dropped too.
 */
bool http_request_strip(struct http_request *r, struct http_fault *fault);
void http_response_strip(struct http_response *r);
#endif
