/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_POLICY_TEMPLATE_H
#define SP_POLICY_TEMPLATE_H
/*
 * What `as: hmac` signs, and the form of the field that carries the signature: text with {words} in it. "{{" is a brace, a
 * line end is kept as {lf} (texts of a table have no control characters).
 */
#include "../base/buf.h"

enum template_word {
	TEMPLATE_TEXT = 0,
	TEMPLATE_SIGNATURE, /* {}: of the field's form only */
	TEMPLATE_METHOD,
	TEMPLATE_HOST,
	TEMPLATE_TARGET /* path, and query behind its "?" */,
	TEMPLATE_PATH,
	TEMPLATE_QUERY, /* all as they are sent */
	TEMPLATE_BODY,
	TEMPLATE_BODY_SHA256, /* lower-case hex */
	TEMPLATE_TIMESTAMP /* seconds since 1970 */,
	TEMPLATE_TIMESTAMP_MS,
	TEMPLATE_TIMESTAMP_ISO /* 2026-11-30T12:00:00Z */,
	TEMPLATE_DATE /* RFC 9110 5.6.7 */,
	TEMPLATE_NONCE, /* 32 random hex digits */
	TEMPLATE_LF,
	TEMPLATE_HEADER, /* {header:NAME}: its value as it is sent, several joined by ", "; empty without one */
	TEMPLATE_WORDS
};
#define TEMPLATE_TIMES (1u << TEMPLATE_TIMESTAMP | 1u << TEMPLATE_TIMESTAMP_MS | 1u << TEMPLATE_TIMESTAMP_ISO | 1u << TEMPLATE_DATE)
struct template_piece {
	enum template_word word;
	struct str text; /* of TEXT; the name of HEADER */
};
/* The next piece, taken off *rest. 1; 0: there is none; -1: a "{" begins nothing that there is. */
int template_next(struct str *rest, struct template_piece *out);
/* The words that are in it, a bit each; 0 when it cannot be read. */
unsigned template_words(struct str t);
/* A time as the word writes it. */
void template_time(struct buf *b, enum template_word w, uint64_t wall_ms);

enum hmac_hash { HMAC_SHA256 = 0,
		 HMAC_SHA512,
		 HMAC_SHA384,
		 HMAC_SHA1,
		 HMAC_HASHES };
enum hmac_encoding { HMAC_HEX = 0,
		     HMAC_BASE64,
		     HMAC_BASE64URL,
		     HMAC_ENCODINGS };
enum hmac_key { HMAC_KEY_TEXT = 0,
		HMAC_KEY_BASE64,
		HMAC_KEY_HEX,
		HMAC_KEYS };
#endif
