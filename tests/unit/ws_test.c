/* SPDX-License-Identifier: Apache-2.0 */
/* WebSocket: the fields of the handshake, frames of one direction, and what goes out of them (RFC 6455). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../proxy/filter/frames.h"
#include "../../proxy/filter/placeholder.h"

/* --- handshake ------------------------------------------------------------------------------------------------------- */

static void keys(void **state)
{
	char in[60];

	(void)state;
	assert_true(ws_key_ok(STR("dGhlIHNhbXBsZSBub25jZQ==")));
	assert_true(ws_key_ok(STR("++++/////AAAzzzz99990A==")));
	assert_false(ws_key_ok(STR("dGhlIHNhbXBsZSBub25jZQ=")));
	assert_false(ws_key_ok(STR("dGhlIHNhbXBsZSBub25jZR=="))); /* bits behind the octets */
	assert_false(ws_key_ok(STR("dGhlIHNhbXBsZSBub25jZ!==")));
	assert_false(ws_key_ok(STR("dGhlIHNhbXBsZSBub25jZQ=a")));
	assert_false(ws_key_ok(STR_NONE));
	ws_accept_input(STR("dGhlIHNhbXBsZSBub25jZQ=="), in);
	assert_memory_equal(in, "dGhlIHNhbXBsZSBub25jZQ==258EAFA5-E914-47DA-95CA-C5AB0DC85B11", 60);
}

static struct http_request req;
static struct http_response res;
#define KEY STR("dGhlIHNhbXBsZSBub25jZQ==")

static void add(struct http_fields *fs, const char *name, const char *value) { assert_true(http_fields_add(fs, str_of(name), str_of(value), http_fid_of(str_of(name)))); }

static const char *left(struct http_fields *fs, const char *name)
{
	static char t[100];
	struct http_field *f = http_fields_find_name(fs, str_of(name));

	if (f == NULL)
		return "-";
	snprintf(t, sizeof(t), "%.*s", (int)f->value.n, f->value.p);
	return t;
}

static void request_fields(void **state)
{
	struct http_fault f;

	(void)state;
	req.fields.n = 0;
	add(&req.fields, "Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA==");
	add(&req.fields, "sec_websocket_key", "AAAAAAAAAAAAAAAAAAAAAA==");
	add(&req.fields, "Sec-WebSocket-Version", "13");
	add(&req.fields, "Sec-WebSocket-Extensions", "permessage-deflate; client_max_window_bits");
	add(&req.fields, "sec_websocket_extensions", "permessage-deflate");
	add(&req.fields, "Sec-WebSocket-Protocol", "a, b");
	add(&req.fields, "sec_websocket_protocol", "c");
	add(&req.fields, "Origin", "https://a.test");
	assert_true(ws_request_fields(&req, KEY, &f));
	assert_string_equal(left(&req.fields, "sec-websocket-key"), KEY.p);
	assert_string_equal(left(&req.fields, "sec-websocket-version"), "13");
	assert_string_equal(left(&req.fields, "sec-websocket-extensions"), "-");
	assert_string_equal(left(&req.fields, "sec_websocket_extensions"), "-");
	assert_string_equal(left(&req.fields, "sec_websocket_key"), "-");
	assert_string_equal(left(&req.fields, "sec-websocket-protocol"), "a, b");
	assert_string_equal(left(&req.fields, "sec_websocket_protocol"), "-");
	assert_string_equal(left(&req.fields, "origin"), "https://a.test");
	add(&req.fields, "Sec-WebSocket-Protocol", "\"q\"");
	assert_false(ws_request_fields(&req, KEY, &f));
	assert_int_equal(f.status, 400);
	assert_string_equal(f.reason, "websocket_handshake");
}

/* fields: "Name: value\n" ... Returns what is wrong, or "" and the subprotocol in chosen. */
static char chosen[100];
static const char *response(const char *fields, bool h2)
{
	static char text[1000];
	const char *reason;
	struct str sub;

	snprintf(text, sizeof(text), "%s", fields);
	res.fields.n = 0;
	for (char *l = strtok(text, "\n"); l != NULL; l = strtok(NULL, "\n")) {
		char *v = strstr(l, ": ");

		*v = 0;
		add(&res.fields, l, v + 2);
	}
	if (!ws_response_fields(&res, &req.fields, h2 ? STR_NONE : STR("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), &sub, &reason))
		return reason;
	snprintf(chosen, sizeof(chosen), "%.*s", (int)sub.n, sub.n ? sub.p : "");
	return "";
}

#define ACCEPT "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\n"
static void response_fields(void **state)
{
	(void)state;
	req.fields.n = 0;
	add(&req.fields, "Sec-WebSocket-Protocol", "a, b");
	add(&req.fields, "Sec-WebSocket-Protocol", "chat.v2");
	res.upgrade_websocket = true;
	assert_string_equal(response(ACCEPT, false), "");
	assert_string_equal(chosen, "");
	assert_string_equal(left(&res.fields, "sec-websocket-accept"), "-");
	assert_string_equal(response(ACCEPT "Sec-WebSocket-Protocol: b\n", false), "");
	assert_string_equal(chosen, "b");
	assert_string_equal(left(&res.fields, "sec-websocket-protocol"), "b");
	assert_string_equal(response(ACCEPT "Sec-WebSocket-Protocol: chat.v2\n", false), "");
	assert_string_equal(response(ACCEPT "Sec-WebSocket-Protocol: a, b\n", false), "ws_subprotocol");
	assert_string_equal(response(ACCEPT "Sec-WebSocket-Protocol: A\n", false), "ws_subprotocol");
	assert_string_equal(response(ACCEPT "Sec-WebSocket-Protocol: a\nSec-WebSocket-Protocol: a\n", false), "ws_subprotocol");
	assert_string_equal(response(ACCEPT "Sec-WebSocket-Protocol: \n", false), "ws_subprotocol");
	assert_string_equal(response(ACCEPT "Sec-WebSocket-Extensions: permessage-deflate\n", false), "ws_extension");
	assert_string_equal(response("X: y\n", false), "ws_accept");
	assert_string_equal(response(ACCEPT ACCEPT, false), "ws_accept");
	assert_string_equal(response("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOO=\n", false), "ws_accept");
	assert_string_equal(response("X: y\n", true), "");
	assert_string_equal(response("sec-websocket-protocol: z\n", true), "ws_subprotocol");
	assert_string_equal(response("sec-websocket-extensions: permessage-deflate\n", true), "ws_extension");
	res.upgrade_websocket = false;
	assert_string_equal(response(ACCEPT, false), "ws_upgrade");
}

/* --- frames ---------------------------------------------------------------------------------------------------------- */

static struct buf out;
static void emit(void *arg, const uint8_t *p, size_t n) { (void)arg, buf_add(&out, p, n); }
static void key_of_test(void *p, size_t n) { memset(p, 0x5a, n); }

static struct frames F;
static struct scrub_set *set;

static void start(bool to_upstream, const char *secret)
{
	struct str v = str_of(secret);

	frames_fini(&F);
	scrub_set_free(set);
	set = secret != NULL ? scrub_set_new(&v, 1) : NULL;
	F = (struct frames){ .random = key_of_test, .emit = emit, .set = set };
	frames_init(&F, to_upstream);
	buf_clear(&out);
}

/* A frame as a peer would write it. */
static void frame(struct buf *b, unsigned first, const void *p, size_t n, bool masked)
{
	static const uint8_t key[4] = { 1, 2, 3, 0xf4 };
	uint8_t h[WS_HEADER_MAX], *at;

	buf_add(b, h, ws_header(h, first & 15, first & 0x80, n, masked ? key : NULL));
	h[0] = (uint8_t)first;
	at = buf_room(b, n);
	memcpy(at, p, n);
	if (masked)
		ws_mask(at, n, key, 0);
	buf_commit(b, n);
}
#define TEXT_FRAME(b, first, text, masked) frame(b, first, text, strlen(text), masked)

static const char *feed(const void *p, size_t n, size_t step)
{
	static struct ws_fault f;
	uint8_t *copy = malloc(n + 1);

	memcpy(copy, p, n);
	f = (struct ws_fault){ 0 };
	for (size_t at = 0; at < n; at += step)
		if (!frames_feed(&F, copy + at, n - at < step ? n - at : step, &f))
			break;
	free(copy);
	return f.reason == NULL ? "" : f.reason;
}

/* What out holds, in words: "text fin 'abc'", one line a frame. */
static const char *said(void)
{
	static struct buf t;
	struct ws_parser w = { .masked = F.in.masked };
	struct ws_fault f;
	uint8_t *p = buf_data(&out);
	size_t n = buf_len(&out);

	buf_clear(&t);
	while (n > 0) {
		struct ws_piece in;
		long k = ws_feed(&w, p, n, &in, &f);

		if (k < 0) {
			buf_addf(&t, "FAULT %s", f.reason);
			break;
		}
		p += k;
		n -= (size_t)k;
		if (in.kind == WS_FRAME)
			buf_addf(&t, "%s%s %llu'%s", in.opcode == WS_TEXT ? "text" : in.opcode == WS_BINARY ? "bin" : "more", in.fin ? " fin" : "", (unsigned long long)in.length, in.length ? "" : "'\n");
		else if (in.kind == WS_CONTROL)
			buf_addf(&t, "%s '%.*s'\n", in.opcode == WS_CLOSE ? "close" : in.opcode == WS_PING ? "ping" : "pong", (int)in.n, in.p);
		else if (in.kind == WS_DATA)
			buf_addf(&t, "%.*s%s", (int)in.n, in.p, in.end ? "'\n" : "");
	}
	buf_addc(&t, 0);
	return (char *)buf_data(&t);
}

static void pass(void **state)
{
	static const size_t steps[] = { 1, 2, 3, 7, 1000000 };
	struct buf b = { 0 };

	(void)state;
	for (int up = 0; up < 2; up++) {
		for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
			buf_clear(&b);
			TEXT_FRAME(&b, 0x81, "hello", up);
			TEXT_FRAME(&b, 0x02, "one", up);
			TEXT_FRAME(&b, 0x89, "ping me", up);
			TEXT_FRAME(&b, 0x00, "", up);
			TEXT_FRAME(&b, 0x80, "two", up);
			TEXT_FRAME(&b, 0x8a, "", up);
			TEXT_FRAME(&b, 0x88, "\x03\xe8" "bye", up);
			TEXT_FRAME(&b, 0x81, "too late", up);
			buf_addz(&b, "\xff\xff\xff what is no frame");
			start(up, NULL);
			assert_string_equal(feed(buf_data(&b), buf_len(&b), steps[i]), "");
			assert_string_equal(said(), "text fin 5'hello'\nbin 3'one'\nping 'ping me'\nmore 0''\nmore fin 3'two'\npong ''\nclose '\x03\xe8" "bye'\n");
			assert_int_equal(F.messages, 2);
			assert_true(F.close_seen);
			assert_int_equal(F.close_code, 1000);
		}
	}
	buf_fini(&b);
}

/* RFC 6455 5.3: what goes upstream carries a key of ours. */
static void masks_anew(void **state)
{
	struct buf b = { 0 };

	(void)state;
	TEXT_FRAME(&b, 0x81, "abcdefghijk", true);
	start(true, NULL);
	assert_string_equal(feed(buf_data(&b), buf_len(&b), 3), "");
	assert_memory_equal(buf_data(&out), "\x81\x8b\x5a\x5a\x5a\x5a", 6);
	for (int i = 0; i < 11; i++)
		assert_int_equal(buf_data(&out)[6 + i] ^ 0x5a, "abcdefghijk"[i]);
	buf_fini(&b);
}

static void lengths(void **state)
{
	static const size_t n[] = { 0, 1, 125, 126, 127, 65535, 65536, 200000 };
	uint8_t *p = calloc(1, 200000);
	struct buf b = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(n) / sizeof(n[0]); i++) {
		for (int up = 0; up < 2; up++) {
			buf_clear(&b);
			frame(&b, 0x82, p, n[i], up);
			start(up, NULL);
			assert_string_equal(feed(buf_data(&b), buf_len(&b), 999), "");
			assert_int_equal(buf_len(&out), buf_len(&b));
			assert_true(frames_between(&F));
		}
	}
	free(p);
	buf_fini(&b);
}

static void faults(void **state)
{
	static const struct {
		const char *octets;
		size_t n;
		bool up;
		const char *reason;
		uint16_t code;
	} rows[] = {
#define ROW(octets, up, reason, code) { octets, sizeof(octets) - 1, up, reason, code }
		ROW("\xc1\x01x", false, "ws_reserved_bits", 1002),
		ROW("\xa1\x01x", false, "ws_reserved_bits", 1002),
		ROW("\x91\x01x", false, "ws_reserved_bits", 1002),
		ROW("\x83\x01x", false, "ws_opcode", 1002),
		ROW("\x87\x01x", false, "ws_opcode", 1002),
		ROW("\x8b\x01x", false, "ws_opcode", 1002),
		ROW("\x8f\x01x", false, "ws_opcode", 1002),
		ROW("\x81\x81" "abcdx", false, "ws_mask", 1002),
		ROW("\x81\x01x", true, "ws_mask", 1002),
		ROW("\x89\x00", true, "ws_mask", 1002),
		ROW("\x09\x00", false, "ws_control", 1002),
		ROW("\x89\x7e\x00\x7e", false, "ws_control", 1002),
		ROW("\x80\x01x", false, "ws_fragmentation", 1002),
		ROW("\x01\x01x\x81\x01y", false, "ws_fragmentation", 1002),
		ROW("\x01\x01x\x02\x01y", false, "ws_fragmentation", 1002),
		ROW("\x81\x7e\x00\x7d", false, "ws_length", 1002),
		ROW("\x81\x7f\x00\x00\x00\x00\x00\x00\xff\xff", false, "ws_length", 1002),
		ROW("\x81\x7f\x80\x00\x00\x00\x00\x00\x00\x00", false, "ws_length", 1002),
		ROW("\x81\x7f\xff\xff\xff\xff\xff\xff\xff\xff", false, "ws_length", 1002),
		ROW("\x81\x7e\x10\x01", false, "ws_message_size", 1009),
		ROW("\x81\x7f\x7f\xff\xff\xff\xff\xff\xff\xff", false, "ws_message_size", 1009),
		ROW("\x88\x01x", false, "ws_close", 1002),
		ROW("\x88\x02\x03\xe7", false, "ws_close", 1002), /* 999 */
		ROW("\x88\x02\x03\xec", false, "ws_close", 1002), /* 1004 */
		ROW("\x88\x02\x03\xed", false, "ws_close", 1002), /* 1005 */
		ROW("\x88\x02\x03\xee", false, "ws_close", 1002), /* 1006 */
		ROW("\x88\x02\x03\xf7", false, "ws_close", 1002), /* 1015 */
		ROW("\x88\x02\x0b\xb7", false, "ws_close", 1002), /* 2999 */
		ROW("\x88\x02\x13\x88", false, "ws_close", 1002), /* 5000 */
		ROW("\x88\x04\x03\xe8\xc3\x28", false, "ws_close", 1007),
		ROW("\x88\x05\x03\xe8\xed\xa0\x80", false, "ws_close", 1007),
		ROW("\x88\x03\x03\xe8\xc3", false, "ws_close", 1007),
		ROW("\x81\x02\xc3\x28", false, "ws_utf8", 1007),
		ROW("\x01\x01\xc3\x80\x00", false, "ws_utf8", 1007),
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		for (size_t step = 1; step < 20; step += 18) {
			uint8_t p[40];
			struct ws_fault f = { 0 };
			size_t at = 0;
			bool good = true;

			start(rows[i].up, NULL);
			F.in.message_max = 4096;
			memcpy(p, rows[i].octets, rows[i].n);
			for (; at < rows[i].n && good; at += step)
				good = frames_feed(&F, p + at, rows[i].n - at < step ? rows[i].n - at : step, &f);
			if (good || strcmp(f.reason, rows[i].reason) != 0)
				print_error("row %zu: %s\n", i, good ? "no fault" : f.reason);
			assert_false(good);
			assert_string_equal(f.reason, rows[i].reason);
			assert_int_equal(f.code, rows[i].code);
		}
	}
}

/* RFC 6455 8.1: text is UTF-8 as a message, wherever it is cut; what is binary is anything. */
static void text_is_utf8(void **state)
{
	static const struct {
		const char *octets;
		bool good;
	} rows[] = {
		{ "", true },
		{ "plain text, more than eight octets", true },
		{ "gr\xc3\xbc\xc3\x9f and \xe2\x82\xac, \xf0\x9f\x90\x8e; eight more", true },
		{ "\xc2\x80 \xdf\xbf \xe0\xa0\x80 \xed\x9f\xbf \xee\x80\x80 \xef\xbf\xbf \xf0\x90\x80\x80 \xf4\x8f\xbf\xbf", true },
		{ "\x80", false },
		{ "12345678\xbf", false },
		{ "\xc0\x80", false },
		{ "\xc1\xbf", false },
		{ "\xe0\x9f\xbf", false },
		{ "\xed\xa0\x80", false },
		{ "\xf0\x8f\xbf\xbf", false },
		{ "\xf4\x90\x80\x80", false },
		{ "\xf5\x80\x80\x80", false },
		{ "\xff", false },
		{ "\xc3(", false },
		{ "\xe2\x82 12345678", false },
		{ "123\xc3", false },
		{ "\xe2\x82", false },
		{ "\xf0\x9f\x90", false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		size_t n = strlen(rows[i].octets);

		for (size_t cut = 0; cut <= n + 1; cut++) { /* n + 1: one frame */
			for (unsigned k = 0; k < 8; k++) {
				bool up = k & 1, binary = k & 2;
				struct buf b = { 0 };
				const char *why;

				start(up, NULL);
				if (cut > n) {
					frame(&b, binary ? 0x82 : 0x81, rows[i].octets, n, up);
				} else {
					frame(&b, binary ? 0x02 : 0x01, rows[i].octets, cut, up);
					TEXT_FRAME(&b, 0x89, "\xff\xff", up);
					frame(&b, 0x80, rows[i].octets + cut, n - cut, up);
				}
				TEXT_FRAME(&b, 0x81, "next", up);
				why = feed(buf_data(&b), buf_len(&b), k & 4 ? 1 : 1000);
				if (strcmp(why, rows[i].good || binary ? "" : "ws_utf8") != 0)
					fail_msg("row %zu, cut at %zu, %u: '%s'", i, cut, k, why);
				buf_fini(&b);
			}
		}
	}
}

static void message_size(void **state)
{
	struct buf b = { 0 };

	(void)state;
	TEXT_FRAME(&b, 0x01, "12345", false);
	TEXT_FRAME(&b, 0x89, "does not count", false);
	TEXT_FRAME(&b, 0x80, "67890", false);
	TEXT_FRAME(&b, 0x81, "1234567890", false);
	start(false, NULL);
	F.in.message_max = 10;
	assert_string_equal(feed(buf_data(&b), buf_len(&b), 4), "");
	TEXT_FRAME(&b, 0x01, "12345", false);
	TEXT_FRAME(&b, 0x80, "678901", false);
	start(false, NULL);
	F.in.message_max = 10;
	assert_string_equal(feed(buf_data(&b), buf_len(&b), 4), "ws_message_size");
	buf_fini(&b);
}

static void secrets(void **state)
{
	struct buf b = { 0 };

	(void)state;
	/* in one frame: it stays one, of the same length */
	TEXT_FRAME(&b, 0x81, "you sent s3cr3t-value, s3cr3t-", false);
	for (size_t step = 1; step < 50; step++) {
		start(false, "s3cr3t-value");
		assert_string_equal(feed(buf_data(&b), buf_len(&b), step), "");
		assert_string_equal(said(), "text fin 30'you sent ************, s3cr3t-'\n");
		assert_int_equal(F.hits, 1);
	}
	/* across fragments, with another frame between them */
	buf_clear(&b);
	TEXT_FRAME(&b, 0x01, "a s3c", false);
	TEXT_FRAME(&b, 0x89, "hi", false);
	TEXT_FRAME(&b, 0x00, "r3t-va", false);
	TEXT_FRAME(&b, 0x80, "lue b", false);
	start(false, "s3cr3t-value");
	assert_string_equal(feed(buf_data(&b), buf_len(&b), 1000), "");
	assert_string_equal(said(), "text 2'a '\nping 'hi'\nmore fin 14'************ b'\n");
	/* what only began like one is not lost, also when nothing follows in the last frame */
	buf_clear(&b);
	TEXT_FRAME(&b, 0x02, "s3cr3t-", false);
	TEXT_FRAME(&b, 0x80, "", false);
	TEXT_FRAME(&b, 0x81, "value", false);
	start(false, "s3cr3t-value");
	assert_string_equal(feed(buf_data(&b), buf_len(&b), 1000), "");
	assert_string_equal(said(), "bin fin 7's3cr3t-'\ntext fin 5'value'\n");
	/* in control frames */
	buf_clear(&b);
	TEXT_FRAME(&b, 0x89, "s3cr3t-value", false);
	TEXT_FRAME(&b, 0x88, "\x0f\xa0no s3cr3t-value", false);
	start(false, "s3cr3t-value");
	assert_string_equal(feed(buf_data(&b), buf_len(&b), 1000), "");
	assert_string_equal(said(), "ping '************'\nclose '\x0f\xa0no ************'\n");
	assert_int_equal(F.hits, 2);
	assert_int_equal(F.close_code, 4000);
	buf_fini(&b);
}

static void close_of_ours(void **state)
{
	struct buf b = { 0 };

	(void)state;
	start(false, NULL);
	TEXT_FRAME(&b, 0x01, "abc", false);
	assert_string_equal(feed(buf_data(&b), buf_len(&b), 4), "");
	frames_close(&F, 1008, STR("policy_denied"));
	frames_close(&F, 1001, STR("again"));
	assert_string_equal(said(), "text 3'abc'\nclose '\x03\xf0policy_denied'\n");
	/* not within a frame */
	start(false, NULL);
	assert_string_equal(feed(buf_data(&b), 4, 4), "");
	assert_false(frames_between(&F));
	frames_close(&F, 1008, STR_NONE);
	assert_int_equal(buf_len(&out), 4);
	/* nor behind the peer's */
	start(true, NULL);
	buf_clear(&b);
	TEXT_FRAME(&b, 0x88, "", true);
	assert_string_equal(feed(buf_data(&b), buf_len(&b), 100), "");
	frames_close(&F, 1001, STR_NONE);
	assert_string_equal(said(), "close ''\n");
	assert_int_equal(F.close_code, WS_CLOSE_NONE);
	buf_fini(&b);
}

/* --- filled ---------------------------------------------------------------------------------------------------------- */

#define PH "ghp_0aZ9bY8cQwErTy"
static struct {
	struct placeholders *set;
	struct placeholder_fill fill;
	const char *value;
	bool wait, refuse; /* the next unit */
	const char *deny;  /* what must not be seen */
	struct buf seen;
	unsigned units, begins, controls;
} G;

static bool look(void *arg, struct str octets, bool begins, bool control)
{
	(void)arg;
	G.begins += begins;
	G.controls += control;
	if (begins)
		buf_addc(&G.seen, '|');
	if (!control)
		buf_adds(&G.seen, octets);
	return G.deny == NULL || str_find(octets, str_of(G.deny)) < 0;
}

static enum frames_filled fill(void *arg, const struct frames_unit *u, struct buf *to)
{
	struct placeholder_value v = { 0, str_of(G.value) };

	(void)arg;
	if (G.wait || G.refuse)
		return G.wait ? FRAMES_WAIT : FRAMES_REFUSED;
	G.units++;
	if (u->first)
		placeholder_fill_init(&G.fill, G.set, NULL, 0);
	G.fill.v = &v;
	G.fill.n = 1;
	placeholder_fill_feed(&G.fill, u->octets, to);
	if (u->last)
		placeholder_fill_end(&G.fill, to);
	return FRAMES_FILLED;
}

static void start_filling(const char *value)
{
	static const struct placeholder one = { .secret = STR_INIT("s"), .text = STR_INIT(PH) };

	start(true, NULL);
	if (G.set == NULL)
		G.set = placeholders_new(&one, 1);
	placeholder_fill_fini(&G.fill);
	buf_clear(&G.seen);
	G.value = value;
	G.wait = G.refuse = false;
	G.deny = NULL;
	G.units = G.begins = G.controls = 0;
	F.look = look;
	F.fill = fill;
}

/* Longer, shorter, of the same length, none; one frame stays one, however its octets come. */
static void filled(void **state)
{
	static const char *const values[] = { "v", "0123456789abcdefgh", "a value that is much longer than what stands for it is", "" };
	struct buf b = { 0 }, want = { 0 };

	(void)state;
	TEXT_FRAME(&b, 0x81, "{\"t\":\"" PH "\",\"u\":\"" PH PH "\"} ghp_0aZ9b", true);
	TEXT_FRAME(&b, 0x89, "in between", true);
	TEXT_FRAME(&b, 0x82, PH, true);
	TEXT_FRAME(&b, 0x81, "", true);
	TEXT_FRAME(&b, 0x81, "no more", true);
	for (unsigned k = 0; k < 4; k++) {
		const char *v = values[k];
		size_t n = strlen(v);

		buf_clear(&want);
		buf_addf(&want, "text fin %zu'{\"t\":\"%s\",\"u\":\"%s%s\"} ghp_0aZ9b'\nping 'in between'\n", 25 + 3 * n, v, v, v);
		buf_addf(&want, "bin fin %zu'%s'\ntext fin 0''\ntext fin 7'no more'\n", n, v);
		buf_addc(&want, 0);
		for (size_t step = 1; step <= buf_len(&b) + 1; step++) {
			start_filling(v);
			assert_string_equal(feed(buf_data(&b), buf_len(&b), step), "");
			assert_string_equal(said(), (char *)buf_data(&want));
			assert_int_equal(F.messages, 4);
			assert_int_equal(G.units, 4);
			assert_int_equal(G.controls, 1);
			buf_addc(&G.seen, 0);
			assert_string_equal((char *)buf_data(&G.seen), "|{\"t\":\"" PH "\",\"u\":\"" PH PH "\"} ghp_0aZ9b|" PH "|no more");
			assert_true(frames_between(&F));
			assert_int_equal(buf_len(&F.unit), 0);
		}
	}
	/* cut in two by the client, at each octet: a fragment for each, the second has what waited */
	for (size_t cut = 0; cut <= strlen("<" PH ">"); cut++) {
		const char *m = "<" PH ">";

		for (size_t step = 1; step < 60; step += 7) {
			struct ws_parser w = { .masked = true };
			struct ws_fault f;
			struct ws_piece in;
			struct buf got = { 0 };
			bool ended = false;

			buf_clear(&b);
			frame(&b, 0x01, m, cut, true);
			TEXT_FRAME(&b, 0x89, "p", true);
			frame(&b, 0x00, "", 0, true);
			frame(&b, 0x80, m + cut, strlen(m) - cut, true);
			start_filling("VALUE");
			assert_string_equal(feed(buf_data(&b), buf_len(&b), step), "");
			for (uint8_t *p = buf_data(&out), *end = p + buf_len(&out); p < end;) {
				long k = ws_feed(&w, p, (size_t)(end - p), &in, &f);

				assert_true(k > 0);
				p += k;
				if (in.kind == WS_DATA)
					buf_add(&got, in.p, in.n);
				ended = ended || (in.kind == WS_FRAME && in.fin) || (in.kind == WS_DATA && in.fin);
			}
			assert_true(ended && str_eq(buf_str(&got), STR("<VALUE>")));
			buf_fini(&got);
		}
	}
	buf_fini(&b);
	buf_fini(&want);
}

/* Up to a unit a frame stays one, with the length that it then has; what is larger is sent on in fragments of a unit. */
static void filled_sizes(void **state)
{
	static const size_t sizes[] = { 100, 125 - sizeof(PH), 126, 65535 - 40, 65535, 65536, 65537, 200000, 1000000 };
	struct buf b = { 0 }, want = { 0 }, got = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (size_t step = 1000; step < 20000; step += 18999) {
			size_t n = sizes[i], frames = 0;
			char *p = malloc(n);
			struct ws_parser w = { .masked = true };
			struct ws_fault f;
			struct ws_piece in;
			bool fin = false;

			memset(p, 'x', n);
			for (size_t at = 7; at + sizeof(PH) < n; at += 997) /* and over the borders of units */
				memcpy(p + at, PH, sizeof(PH) - 1);
			buf_clear(&want);
			for (size_t at = 0; at < n;)
				if (n - at >= sizeof(PH) - 1 && memcmp(p + at, PH, sizeof(PH) - 1) == 0) {
					buf_addz(&want, "a longer value of some length");
					at += sizeof(PH) - 1;
				} else {
					buf_addc(&want, p[at++]);
				}
			buf_clear(&b);
			frame(&b, 0x81, p, n, true);
			start_filling("a longer value of some length");
			assert_string_equal(feed(buf_data(&b), buf_len(&b), step), "");
			buf_clear(&got);
			for (uint8_t *q = buf_data(&out), *end = q + buf_len(&out); q < end;) {
				long k = ws_feed(&w, q, (size_t)(end - q), &in, &f);

				assert_true(k > 0 && !fin);
				q += k;
				frames += in.kind == WS_FRAME;
				if (in.kind == WS_DATA) {
					buf_add(&got, in.p, in.n);
					fin = in.end && in.fin;
				}
			}
			assert_true(fin && str_eq(buf_str(&got), buf_str(&want)));
			if (n <= FRAMES_UNIT)
				assert_int_equal(frames, 1);
			else
				assert_in_range(frames, 1, n / FRAMES_UNIT + 1);
			assert_in_range(F.unit.cap, 0, 4096); /* nothing large stays */
			free(p);
		}
	}
	buf_fini(&b);
	buf_fini(&want);
	buf_fini(&got);
}

/* What waits holds up all that comes behind it, and nothing of it is lost or sent twice. */
static void filled_later(void **state)
{
	struct buf b = { 0 };
	struct ws_fault f;

	(void)state;
	TEXT_FRAME(&b, 0x81, "one", true);
	TEXT_FRAME(&b, 0x01, "two " PH, true);
	TEXT_FRAME(&b, 0x89, "ping", true);
	TEXT_FRAME(&b, 0x80, " end", true);
	TEXT_FRAME(&b, 0x88, "\x03\xe8", true);
	for (size_t step = 1; step < 90; step++) {
		uint8_t *copy = malloc(buf_len(&b));

		memcpy(copy, buf_data(&b), buf_len(&b));
		start_filling("V");
		assert_true(frames_feed(&F, copy, 9, &f));
		G.wait = true;
		for (size_t at = 9; at < buf_len(&b); at += step) {
			assert_true(frames_feed(&F, copy + at, buf_len(&b) - at < step ? buf_len(&b) - at : step, &f));
			assert_true(frames_resume(&F, &f));
		}
		assert_true(F.waits && frames_held(&F) > 0 && frames_between(&F));
		assert_int_equal(buf_len(&out), 9); /* the first one */
		G.wait = false;
		assert_true(frames_resume(&F, &f));
		assert_false(F.waits);
		assert_string_equal(said(), "text fin 3'one'\ntext 5'two V'\nping 'ping'\nmore fin 4' end'\nclose '\x03\xe8'\n");
		assert_true(F.close_seen);
		free(copy);
	}
	/* and then it may be that it must not go; or be closed meanwhile */
	for (int i = 0; i < 2; i++) {
		uint8_t *copy = malloc(buf_len(&b));

		memcpy(copy, buf_data(&b), buf_len(&b));
		start_filling("V");
		G.wait = true;
		assert_true(frames_feed(&F, copy, buf_len(&b), &f));
		if (i == 0) {
			G.wait = false;
			G.refuse = true;
			assert_false(frames_resume(&F, &f));
			assert_string_equal(f.reason, FRAMES_REFUSED_REASON);
		}
		frames_close(&F, 1001, STR_NONE);
		assert_string_equal(said(), "close '\x03\xe9'\n");
		free(copy);
	}
	buf_fini(&b);
}

/* Looked at only: nothing is held, and what must not go ends it. */
static void looked_at(void **state)
{
	struct buf b = { 0 };

	(void)state;
	TEXT_FRAME(&b, 0x01, "good ", true);
	TEXT_FRAME(&b, 0x89, "ping", true);
	TEXT_FRAME(&b, 0x80, "bad", true);
	start_filling("V");
	F.fill = NULL;
	assert_string_equal(feed(buf_data(&b), buf_len(&b), 3), "");
	assert_string_equal(said(), "text 5'good '\nping 'ping'\nmore fin 3'bad'\n");
	assert_int_equal(frames_held(&F), 0);
	assert_int_equal(G.begins, 1);
	start_filling("V");
	F.fill = NULL;
	G.deny = "bad";
	assert_string_equal(feed(buf_data(&b), buf_len(&b), 1000), FRAMES_REFUSED_REASON);
	assert_string_equal(said(), "text 5'good '\nping 'ping'\nmore fin 3'");
	assert_false(frames_between(&F));
	/* where something may be filled nothing of such a frame went out */
	start_filling("V");
	G.deny = "bad";
	assert_string_equal(feed(buf_data(&b), buf_len(&b), 1000), FRAMES_REFUSED_REASON);
	assert_string_equal(said(), "text 5'good '\nping 'ping'\n");
	assert_true(frames_between(&F));
	start_filling("V");
	G.deny = "ping";
	assert_string_equal(feed(buf_data(&b), buf_len(&b), 1000), FRAMES_REFUSED_REASON);
	assert_string_equal(said(), "text 5'good '\n");
	buf_fini(&b);
}

static int stop(void **state)
{
	(void)state;
	start(false, NULL);
	frames_fini(&F);
	buf_fini(&out);
	buf_fini(&G.seen);
	placeholder_fill_fini(&G.fill);
	placeholders_free(G.set);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys),
		cmocka_unit_test(request_fields),
		cmocka_unit_test(response_fields),
		cmocka_unit_test(pass),
		cmocka_unit_test(masks_anew),
		cmocka_unit_test(lengths),
		cmocka_unit_test(faults),
		cmocka_unit_test(text_is_utf8),
		cmocka_unit_test(message_size),
		cmocka_unit_test(secrets),
		cmocka_unit_test(close_of_ours),
		cmocka_unit_test(filled),
		cmocka_unit_test(filled_sizes),
		cmocka_unit_test(filled_later),
		cmocka_unit_test(looked_at),
	};

	return cmocka_run_group_tests(tests, NULL, stop);
}
