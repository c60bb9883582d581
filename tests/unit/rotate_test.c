/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A value that comes into use while something is under way: it is overwritten in what an upstream says from then on, in a response
 * that began before, in a WebSocket, and when a request is made once more with it. exchange_check.h ends the test where it is not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/fuzz/exchange_fuzz.h"

static struct pipe *begin(uint8_t flags, bool h2)
{
	memset(&F, 0, sizeof(F));
	F.flags = flags;
	world_start();
	check_start();
	W->upstream_h2[NAME_A] = !(flags & FLAG_H1_A);
	W->before = true;
	connect_client(h2);
	return client(0);
}

static void end(void)
{
	assert_int_equal(check_open(), 0);
	assert_int_equal(C->records, 1);
	world_stop();
	check_stop();
	world_free();
}

/* Content of the response that is open. */
static void more(struct pipe *u, const char *text, bool last)
{
	struct buf b = { 0 };

	if (u->h2)
		frame(&b, NGHTTP2_DATA, last ? NGHTTP2_FLAG_END_STREAM : 0, u->last_id, text, strlen(text));
	else
		buf_addz(&b, text);
	give(u, buf_data(&b), buf_len(&b));
	buf_fini(&b);
	if (last && !u->h2) {
		world_end(u, false);
		world_settle();
	}
}

static void in_a_stream(void **state)
{
	(void)state;
	for (int v = 0; v < 4; v++) {
		struct pipe *p = begin(v & 1 ? FLAG_H1_A : 0, v & 2), *u;

		step_request(p, 0);
		u = upstream(0);
		step_response(u, 13 | 128, 0);
		more(u, "data: you are s3cr3t-", false); /* by chance: it is not the value yet, and begins like it */
		W->before = false;
		more(u, "friend\n\ndata: he sent s3cr3t-canary-", false);
		more(u, "0123456789abcdef-XYZ, and " SECRET_TEXT "\n\n", false);
		more(u, "data: " SECRET_TEXT, true);
		end();
	}
}

static void made_once_more(void **state)
{
	(void)state;
	for (int v = 0; v < 4; v++) {
		struct pipe *p = begin(v & 1 ? FLAG_H1_A : 0, v & 2);

		W->wait_at = 2; /* it was there, and is too old when the connection is */
		step_request(p, 0);
		assert_int_equal(check_open(), 1);
		assert_int_equal(W->asked_n, 1);
		W->before = false;
		wake_secrets();
		world_settle();
		step_response(upstream(0), 1, 0);
		end();
	}
}

static void in_a_websocket(void **state)
{
	static const char answer[] = "HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: " WS_ACCEPT "\r\n\r\n", first[] = "\x81\x05hello\x01\x04s3cr",
			  second[] = "\x00\x03" "et!" "\x80\x22" SECRET_TEXT "\x81\x22" SECRET_TEXT "\x89\x22" SECRET_TEXT "\x88\x02\x03\xe8";

	(void)state;
	for (int h2 = 0; h2 < 2; h2++) {
		struct pipe *p = begin(FLAG_H1_A, h2);

		step_request(p, 64);
		give(upstream(0), answer, sizeof(answer) - 1);
		give(upstream(0), first, sizeof(first) - 1);
		W->before = false;
		give(upstream(0), second, sizeof(second) - 1);
		world_end(upstream(0), false);
		world_settle();
		end();
	}
}

/* --- a signature over it ------------------------------------------------------------------------------------------- */

static struct {
	uint64_t exchange;
	unsigned inject, n;
} asked;

bool signings_ask(struct signings *s, uint32_t generation, const struct msg_sign *what, struct buf *message, enum handle_kind kind, uint64_t asker, struct str *cause)
{
	(void)s;
	(void)generation;
	(void)cause;
	assert_int_equal(kind, HANDLE_EXCHANGE);
	asked.exchange = asker;
	asked.inject = what->inject;
	asked.n++;
	buf_fini(message);
	return true;
}

static void sign_it(void)
{
	struct exchange *x = handle_get(&W->w.handles, HANDLE_EXCHANGE, asked.exchange);

	assert_non_null(x);
	exchange_signed(x, asked.inject, true, STR("c2lnbmF0dXJl"));
	world_settle();
}

/* Two secrets that were waited for, and then a signature: all three come one by one, the connection is there. */
static void signs_with_others(void **state)
{
	static const char policy[] = "version: 1\nname: signs\nsecrets:\n  api: { env: X, hosts: [a.test] }\n  two: { env: Y, hosts: [a.test] }\n  key: { env: Z, hosts: [a.test] }\ndestinations:\n"
				     "  - host: a.test\n    allow: [ GET /ok/** ]\n    inject:\n      - { secret: api, as: bearer }\n      - { secret: two, as: header, name: X-Two }\n"
				     "      - { secret: key, as: hmac, name: X-Signature, sign: \"{method} {path}\" }\n";
	struct msg_sandbox s = { .sandbox = 1, .generation = 100 };
	struct err err = ERR_INIT;
	struct table *t;
	int fd = world_image(policy);

	(void)state;
	asked.n = 0;
	begin(FLAG_H1_A, false);
	MUST(table_open(&t, fd, &err) == 0);
	policy_in_force(&W->w, t, &s);
	for (unsigned i = 1; i <= 2; i++) {
		W->secret = SECRET_WAIT;
		step_request(client(0), 0);
		assert_int_equal(W->asked_n, 2);
		W->secret = SECRET_READY;
		wake_secrets();
		world_settle();
		assert_int_equal(asked.n, i);
		assert_int_equal(check_open(), 1);
		sign_it();
		assert_int_equal(check_open(), 1);
		step_response(upstream(0), 0, 0);
		assert_string_equal(C->code, "");
		assert_int_equal(check_open(), 0);
	}
	assert_int_equal(C->records, 2);
	world_stop();
	check_stop();
	world_free();
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(in_a_stream), cmocka_unit_test(made_once_more), cmocka_unit_test(in_a_websocket), cmocka_unit_test(signs_with_others) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
