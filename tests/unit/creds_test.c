/* SPDX-License-Identifier: Apache-2.0 */
/* Values in use: what goes out is looked for in what comes back, in the form in which it goes out. */
#include "role_harness.h"

#include <openssl/evp.h>

#include "common/base/must.h"
#include "proxy/filter/scrub.h"
#include "proxy/worker/worker.h"

static const char policy[] = "version: 1\n"
			     "name: users\n"
			     "secrets: { s: { env: S, hosts: [a.example] } }\n"
			     "destinations:\n"
			     "  - host: a.example\n"
			     "    allow: [ { id: one, method: GET, path: /one/** }, { id: two, method: GET, path: /two/** } ]\n"
			     "    inject:\n"
			     "      - { secret: s, as: basic, username: alice, when: [one] }\n"
			     "      - { secret: s, as: basic, username: bob, when: [two] }\n";

static struct worker w; /* only what the values look at */

static void on_secrets(struct ipc *c, const struct ipc_msg *m)
{
	(void)c;
	if (m != NULL)
		creds_released(w.creds, m);
}

/* Asks for the value of the destination's injection of that number, and is given it. */
static void get(int secrets, const struct dest *d, unsigned number, const char *text)
{
	struct exchange *x = must_calloc(1, sizeof(*x));
	struct msg_released r = { .status = RELEASE_OK, .valid_ms = 60000 };
	struct str value, cause;
	struct inject in;
	struct wire_msg m;

	x->generation = 1;
	assert_true(dest_inject(d, number, &in));
	assert_int_equal(creds_get(w.creds, x, d, &in, &value, &cause), SECRET_WAIT);
	wire_expect(secrets, MSG_RELEASE, &m);
	wire_send(secrets, MSG_RELEASED, 1, m.h.id, &r, sizeof(r), text, strlen(text), NULL, 0);
	for (int i = 0; i < 100 && creds_get(w.creds, x, d, &in, &value, &cause) != SECRET_READY; i++)
		loop_turn(w.loop, 50);
	assert_true(str_eq(value, str_of(text)));
	free(x);
}

static void basic_of_each_user(void **state)
{
	static const char *const plain[] = { "alice:a-value-of-24-octets-xyz", "bob:a-value-of-24-octets-xyz" };
	struct msg_sandbox s = { .sandbox = 1, .generation = 1 };
	struct err err = ERR_INIT;
	struct scrub_ref *ref;
	char text[128];
	struct table *t;
	struct dest d;
	int fds[2];

	(void)state;
	assert_int_equal(table_open(&t, test_table(policy), &err), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
	w.loop = loop_new();
	w.creds = creds_new(&w);
	w.secrets = ipc_new(w.loop, fds[0], ROLE_WORKER, ROLE_SECRETS, on_secrets, NULL);
	policy_in_force(&w, t, &s);
	assert_int_equal(table_find(t, SCHEME_HTTPS, STR("a.example"), 443, &d), 1);
	ref = creds_scrub(w.creds); /* the policy hands values out: there is a set before the first is there */
	assert_non_null(ref);
	creds_scrub_done(ref);
	get(fds[1], &d, 0, plain[1] + 4);
	get(fds[1], &d, 1, plain[1] + 4);
	ref = creds_scrub(w.creds);
	for (int i = 0; i < 2; i++) {
		int n = EVP_EncodeBlock((unsigned char *)text, (const unsigned char *)plain[i], (int)strlen(plain[i]));

		assert_int_equal(scrub_inplace(ref->set, text, (size_t)n), 1);
		for (int k = 0; k < n; k++)
			assert_true(text[k] == '*' || text[k] == 'A');
	}
	creds_scrub_done(ref);
	close(fds[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(basic_of_each_user) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
