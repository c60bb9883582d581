/* SPDX-License-Identifier: Apache-2.0 */
/* Refresh tokens that are exchanged at each use: one at a time uses one, what followed is known to all who have the same first one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "common/policy/format.h"
#include "proxy/secrets/rotation.h"

static struct buf params;
static struct rotation_use *turns[8];
static unsigned turn_n;
static bool ends_at_once;

static void turn(struct rotation_use *u)
{
	assert_true(turn_n < 8);
	turns[turn_n++] = u;
	if (ends_at_once)
		rotation_end(u, NULL);
}

static struct secret *secret(const char *text) { return secret_new(text, strlen(text)); }

static struct secret_decl decl(const char *url, const char *client)
{
	struct secret_decl d = { .token = SECRET_TOKEN_OAUTH2 };

	buf_clear(&params);
	put_u8(&params, SECRET_PARAM_URL);
	put_str(&params, str_of(url));
	put_u8(&params, SECRET_PARAM_CLIENT_ID);
	put_str(&params, str_of(client));
	d.params = (struct secret_params){ buf_str(&params), 2 };
	return d;
}

/* What is used now by who has this first one; "-": what the source holds. */
static const char *now(struct rotations *r, const struct secret_decl *d, const char *first)
{
	static char text[64];
	struct rotation_use u = { 0 };
	struct secret *s = secret(first);

	turn_n = 0;
	rotation_begin(r, &u, d, s, turn);
	secret_free(s);
	assert_int_equal(turn_n, 1);
	snprintf(text, sizeof(text), "%.*s", rotation_now(&u) != NULL ? (int)secret_bytes(rotation_now(&u)).n : 1, rotation_now(&u) != NULL ? secret_bytes(rotation_now(&u)).p : "-");
	rotation_end(&u, NULL);
	return text;
}

static void follows(struct rotations *r, const struct secret_decl *d, const char *first, const char *next)
{
	struct rotation_use u = { 0 };
	struct secret *s = secret(first), *n = secret(next);

	rotation_begin(r, &u, d, s, turn);
	rotation_end(&u, n);
	secret_free(s);
	secret_free(n);
	turn_n = 0;
}

static void one_by_one(void **state)
{
	struct rotations *r = rotations_new();
	struct secret_decl d = decl("https://a.test/token", "me");
	struct secret *first = secret("first"), *second = secret("second");
	struct rotation_use u[4] = { 0 };

	(void)state;
	turn_n = 0;
	for (unsigned i = 0; i < 4; i++)
		rotation_begin(r, &u[i], &d, first, turn);
	assert_int_equal(turn_n, 1);
	assert_ptr_equal(turns[0], &u[0]);
	assert_null(rotation_now(&u[0]));
	rotation_end(&u[2], NULL); /* given up while it waits */
	assert_int_equal(turn_n, 1);
	rotation_end(&u[0], second);
	assert_int_equal(turn_n, 2);
	assert_ptr_equal(turns[1], &u[1]);
	assert_true(str_eq(secret_bytes(rotation_now(&u[1])), STR("second")));
	rotation_end(&u[1], NULL); /* given up on its turn: the next one has it */
	assert_ptr_equal(turns[2], &u[3]);
	assert_true(str_eq(secret_bytes(rotation_now(&u[3])), STR("second")));
	rotation_end(&u[3], NULL);
	rotation_end(&u[3], NULL); /* there is nothing to end */
	/* the last one in the queue goes, another comes */
	turn_n = 0;
	rotation_begin(r, &u[0], &d, first, turn);
	rotation_begin(r, &u[1], &d, first, turn);
	rotation_end(&u[1], NULL);
	rotation_begin(r, &u[2], &d, first, turn);
	rotation_end(&u[0], NULL);
	assert_int_equal(turn_n, 2);
	assert_ptr_equal(turns[1], &u[2]);
	rotation_end(&u[2], NULL);
	/* who is answered at once */
	turn_n = 0;
	rotation_begin(r, &u[0], &d, first, turn);
	for (unsigned i = 1; i < 4; i++)
		rotation_begin(r, &u[i], &d, first, turn);
	ends_at_once = true;
	rotation_end(&u[0], NULL);
	ends_at_once = false;
	assert_int_equal(turn_n, 4);
	secret_free(first);
	secret_free(second);
	rotations_free(r);
}

/* Another one has the turn of who is gone: what it brings is the next one's. */
static void handed_on(void **state)
{
	struct rotations *r = rotations_new();
	struct secret_decl d = decl("https://a.test/token", "me");
	struct secret *first = secret("first"), *second = secret("second");
	struct rotation_use u[3] = { 0 }, heir = { 0 };

	(void)state;
	turn_n = 0;
	for (unsigned waiting = 0; waiting < 2; waiting++) { /* alone, and with one behind it */
		rotation_begin(r, &u[0], &d, first, turn);
		if (waiting)
			rotation_begin(r, &u[1], &d, first, turn);
		rotation_move(&u[0], &heir);
		assert_null(u[0].of);
		rotation_end(&u[0], NULL); /* has no part in it any more */
		rotation_begin(r, &u[2], &d, first, turn);
		assert_int_equal(turn_n, 1);
		rotation_end(&heir, second);
		assert_int_equal(turn_n, 2);
		assert_ptr_equal(turns[1], &u[waiting ? 1 : 2]);
		assert_true(str_eq(secret_bytes(rotation_now(turns[1])), STR("second")));
		rotation_end(&u[1], NULL);
		rotation_end(&u[2], NULL);
		turn_n = 0;
	}
	assert_string_equal(now(r, &d, "first"), "second");
	secret_free(first);
	secret_free(second);
	rotations_free(r);
}

static void each_its_own(void **state)
{
	struct rotations *r = rotations_new();
	struct secret_decl d = decl("https://a.test/token", "me");

	(void)state;
	assert_string_equal(now(r, &d, "first"), "-");
	follows(r, &d, "first", "second");
	follows(r, &d, "first", "third");
	assert_string_equal(now(r, &d, "first"), "third");
	assert_string_equal(now(r, &d, "another"), "-");
	d = decl("https://b.test/token", "me");
	assert_string_equal(now(r, &d, "first"), "-");
	d = decl("https://a.test/token", "you");
	assert_string_equal(now(r, &d, "first"), "-");
	d = decl("https://a.test/token", "me");
	assert_string_equal(now(r, &d, "first"), "third");
	rotations_free(r);
}

/* There are not more of them than that; those in use stay. */
static void bounded(void **state)
{
	struct rotations *r = rotations_new();
	struct secret_decl d = decl("https://a.test/token", "me");
	struct rotation_use held = { 0 };
	struct secret *s = secret("held"), *n = secret("held next");
	char text[32];

	(void)state;
	turn_n = 0;
	rotation_begin(r, &held, &d, s, turn);
	for (unsigned i = 0; i < ROTATIONS_MAX + 10; i++) {
		snprintf(text, sizeof(text), "token %u", i);
		follows(r, &d, text, "next");
	}
	rotation_end(&held, n);
	assert_string_equal(now(r, &d, "held"), "held next");
	assert_string_equal(now(r, &d, "token 265"), "next");
	assert_string_equal(now(r, &d, "token 20"), "next");
	assert_string_equal(now(r, &d, "token 0"), "-");
	/* who has tokens that are good for nothing takes nobody's place */
	for (unsigned i = 0; i < ROTATIONS_MAX + 10; i++) {
		snprintf(text, sizeof(text), "useless %u", i);
		assert_string_equal(now(r, &d, text), "-");
	}
	assert_string_equal(now(r, &d, "held"), "held next");
	assert_string_equal(now(r, &d, "token 20"), "next");
	secret_free(s);
	secret_free(n);
	rotations_free(r);
}

static int stop(void **state)
{
	(void)state;
	buf_fini(&params);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(one_by_one), cmocka_unit_test(handed_on), cmocka_unit_test(each_its_own), cmocka_unit_test(bounded) };

	return cmocka_run_group_tests(tests, NULL, stop);
}
