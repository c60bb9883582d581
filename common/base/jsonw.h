/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_JSONW_H
#define SP_JSONW_H
#include <stdbool.h>
#include <stdint.h>

#include "buf.h"

/*
 * JSON writer, one line, always valid: control bytes are \u00XX, bytes that are not UTF-8 become U+FFFD, so that no
 * input can break a record or a terminal (J18). Commas are placed by the writer.
 */
struct jsonw {
	struct buf *out;
	bool need_comma;
};
static inline struct jsonw jsonw_on(struct buf *out) { return (struct jsonw){ out, false }; }
void jsonw_open(struct jsonw *w, char bracket);  /* '{' or '[' as value or element */
void jsonw_close(struct jsonw *w, char bracket); /* '}' or ']' */
void jsonw_key_n(struct jsonw *w, const char *key, size_t n); /* key: our own literal, nothing in it to escape */
void jsonw_str(struct jsonw *w, struct str s);
void jsonw_u64(struct jsonw *w, uint64_t v);
void jsonw_bool(struct jsonw *w, bool v);
void jsonw_null(struct jsonw *w);
/* Shorthands: key and value. */
void jsonw_kstr_n(struct jsonw *w, const char *key, size_t n, struct str s);
/* inline: the compiler knows how long a literal is */
static inline void jsonw_key(struct jsonw *w, const char *key) { jsonw_key_n(w, key, strlen(key)); }
static inline void jsonw_kstr(struct jsonw *w, const char *key, struct str s) { jsonw_kstr_n(w, key, strlen(key), s); }
static inline void jsonw_kz(struct jsonw *w, const char *key, const char *z) { jsonw_kstr(w, key, str_of(z)); }
static inline void jsonw_ku64(struct jsonw *w, const char *key, uint64_t v) { jsonw_key(w, key); jsonw_u64(w, v); }
static inline void jsonw_kopen(struct jsonw *w, const char *key, char bracket) { jsonw_key(w, key); jsonw_open(w, bracket); }
/* Appends s as a quoted JSON string. */
void jsonw_quote(struct buf *out, struct str s);
#endif
