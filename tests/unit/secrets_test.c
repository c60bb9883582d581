/* SPDX-License-Identifier: Apache-2.0 */
/* The role that holds the values: only what the table binds, only when it can be recorded, only what can be sent. */
#include "role_harness.h"

#include <time.h>

#include "common/placeholder.h"
#include "common/policy/table.h"

int secrets_main(int link_fd);

static const char policy[] = "version: 1\n"
                             "name: test\n"
                             "secrets:\n"
                             "  one: { env: ONE, hosts: [a.example, b.example] }\n"
                             "  two: { file: /run/two, hosts: [b.example] }\n"
                             "  bad: { env: BAD, hosts: [a.example] }\n"
                             "  unset: { env: UNSET, hosts: [a.example] }\n"
                             "destinations:\n"
                             "  - host: a.example\n"
                             "    allow: [ \"GET /**\" ]\n"
                             "    inject:\n"
                             "      - { secret: one, as: bearer }\n"
                             "      - { secret: bad, as: header, name: X-Bad }\n"
                             "      - { secret: unset, as: header, name: X-Unset }\n"
                             "  - host: b.example\n"
                             "    allow: [ \"GET /**\" ]\n"
                             "    inject:\n"
                             "      - { secret: two, as: header, name: X-Key }\n"
                             "  - host: c.example\n"
                             "    allow: [ \"GET /**\" ]\n";
static const char environment[] = "ONE=value-of-one-0123456789\0BAD=with\nline\0OTHER=not named by the policy\0NOTHING";

static struct role_under_test secrets_start(void)
{
	static const char key[32] = "the key of the placeholders 0123";
	int fd = memfd_with(key, sizeof(key));
	struct role_under_test r = role_start(secrets_main, NULL, 0, &fd, 1);

	close(fd);
	return r;
}

static uint32_t index_of(int fd, const char *secret)
{
	struct err err = ERR_INIT;
	struct secret_decl d;
	struct table *t;
	uint32_t found = UINT32_MAX;

	assert_int_equal(table_open(&t, fd, &err), 0);
	for (unsigned i = 0; table_secret(t, i, &d); i++)
		if (str_eq(d.name, str_of(secret)))
			found = d.index;
	table_free(t);
	assert_int_not_equal(found, UINT32_MAX);
	return found;
}

static uint32_t dest_of(int fd, const char *host)
{
	struct err err = ERR_INIT;
	struct table *t;
	struct dest d;

	assert_int_equal(table_open(&t, fd, &err), 0);
	assert_int_equal(table_find(t, SCHEME_HTTPS, str_of(host), 443, &d), 1);
	table_free(t);
	return d.index;
}

static enum release_status ask(int link, uint32_t generation, uint32_t secret, uint32_t dest, enum inject_kind kind, char value[512], uint32_t *valid_ms)
{
	struct msg_release q = { secret, dest, kind };
	const struct msg_released *a;
	static uint64_t id;
	struct wire_msg m;

	wire_send(link, MSG_RELEASE, generation, ++id, &q, sizeof(q), NULL, 0, NULL, 0);
	wire_expect(link, MSG_RELEASED, &m);
	assert_int_equal(m.h.id, id);
	a = (const void *)m.data;
	snprintf(value, 512, "%.*s", (int)(m.n - sizeof(*a)), (const char *)m.data + sizeof(*a));
	if (valid_ms != NULL)
		*valid_ms = a->valid_ms;
	return (enum release_status)a->status;
}

/* The text of one field of an EVENT. */
static void event(int audit, const char *kind, const char *decision, const char *secret, const char *sandbox, uint64_t *count)
{
	struct wire_msg m;
	size_t off = 0, n;
	enum record_tag t;
	struct str s;
	uint64_t u;
	bool bad = false;
	unsigned seen = 0;

	wire_expect(audit, MSG_EVENT, &m);
	n = m.n - sizeof(struct msg_record);
	*count = 1;
	while (record_next(m.data + sizeof(struct msg_record), n, &off, &t, &s, &u, &bad)) {
		if (t == REC_KIND && str_eq(s, str_of(kind)))
			seen |= 1;
		if (t == REC_DECISION && str_eq(s, str_of(decision)))
			seen |= 2;
		if (t == REC_SECRET && str_eq(s, str_of(secret)))
			seen |= 4;
		if (t == REC_SANDBOX && str_eq(s, str_of(sandbox)))
			seen |= 8;
		if (t == REC_COUNT)
			*count = u;
		/* never the value */
		assert_true(str_find(s, STR("value-of-one")) < 0);
	}
	assert_false(bad);
	assert_int_equal(seen, 15);
}

static void send_env(struct role_under_test *r, uint32_t sandbox, uint32_t generation)
{
	struct msg_sandbox_ref ref = { sandbox, generation };
	int fd = memfd_with(environment, sizeof(environment));

	wire_send(r->sup, MSG_SANDBOX_ENV, generation, 0, &ref, sizeof(ref), NULL, 0, &fd, 1);
	close(fd);
}

static void send_file(struct role_under_test *r, uint32_t sandbox, uint32_t generation, const char *path, int fd)
{
	struct msg_sandbox_ref ref = { sandbox, generation };

	wire_send(r->sup, MSG_SANDBOX_FILE, generation, 0, &ref, sizeof(ref), path, strlen(path), &fd, 1);
}

static void rewrite(int fd, const char *text)
{
	struct timespec times[2] = { { 0, UTIME_OMIT }, { time(NULL) + 1000, 0 } };
	static long step;

	assert_int_equal(ftruncate(fd, 0), 0);
	assert_true(pwrite(fd, text, strlen(text), 0) == (ssize_t)strlen(text));
	times[1].tv_nsec = ++step; /* a new time of change, whatever the clock's resolution */
	assert_int_equal(futimens(fd, times), 0);
}

/* A link of audit; the role has it when it answers what was said after it on the same link. */
static int audit_join(struct role_under_test *r, int table)
{
	int audit = role_peer(r, ROLE_AUDIT, 0);

	role_sandbox(r, 1, 5, 0, "box", table);
	return audit;
}

static void bound_releases(void **state)
{
	int table = test_table(policy), link, audit, file = memfd_create("two", MFD_CLOEXEC);
	struct role_under_test r = secrets_start();
	uint32_t one = index_of(table, "one"), two = index_of(table, "two"), a = dest_of(table, "a.example"), b = dest_of(table, "b.example"), c = dest_of(table, "c.example"), valid;
	char v[512];
	uint64_t count;

	(void)state;
	rewrite(file, "first-value-of-two\r\n");
	send_env(&r, 1, 5);
	send_file(&r, 1, 5, "/run/two", file);
	role_sandbox(&r, 1, 5, 0, "box", table);
	link = role_peer(&r, ROLE_WORKER, 1);
	/* audit is not there: nothing goes out */
	assert_int_equal(ask(link, 5, one, a, INJECT_BEARER, v, NULL), RELEASE_FAILED);
	audit = audit_join(&r, table);
	assert_int_equal(ask(link, 5, one, a, INJECT_BEARER, v, &valid), RELEASE_OK);
	assert_string_equal(v, "value-of-one-0123456789");
	assert_int_equal(valid, 60000);
	event(audit, "secret", "allow", "one", "box", &count);
	assert_int_equal(count, 1);
	assert_int_equal(ask(link, 5, two, b, INJECT_HEADER, v, &valid), RELEASE_OK);
	assert_string_equal(v, "first-value-of-two");
	assert_int_equal(valid, 1000);
	event(audit, "secret", "allow", "two", "box", &count);
	/* rotated */
	rewrite(file, "second-value-of-two");
	assert_int_equal(ask(link, 5, two, b, INJECT_HEADER, v, NULL), RELEASE_OK);
	assert_string_equal(v, "second-value-of-two");
	rewrite(file, "\n");
	assert_int_equal(ask(link, 5, two, b, INJECT_HEADER, v, NULL), RELEASE_FAILED);
	assert_non_null(strstr(v, "empty"));
	event(audit, "secret", "deny", "two", "box", &count);
	rewrite(file, "a\nb");
	assert_int_equal(ask(link, 5, two, b, INJECT_HEADER, v, NULL), RELEASE_FAILED);
	assert_non_null(strstr(v, "line break"));
	event(audit, "secret", "deny", "two", "box", &count); /* another cause is told at once */

	/* not bound: wrong destination (also one of the secret's hosts), kind, generation, numbers outside */
	assert_int_equal(ask(link, 5, one, b, INJECT_BEARER, v, NULL), RELEASE_UNBOUND);
	event(audit, "finding", "deny", "one", "box", &count);
	assert_int_equal(ask(link, 5, one, c, INJECT_BEARER, v, NULL), RELEASE_UNBOUND);
	assert_int_equal(ask(link, 5, one, a, INJECT_BASIC, v, NULL), RELEASE_UNBOUND);
	assert_int_equal(ask(link, 5, two, a, INJECT_HEADER, v, NULL), RELEASE_UNBOUND);
	assert_int_equal(ask(link, 6, one, a, INJECT_BEARER, v, NULL), RELEASE_UNBOUND);
	assert_int_equal(ask(link, 5, 999, a, INJECT_BEARER, v, NULL), RELEASE_UNBOUND);
	assert_int_equal(ask(link, 5, one, 999, INJECT_BEARER, v, NULL), RELEASE_UNBOUND);
	assert_int_equal(ask(link, 5, UINT32_MAX, UINT32_MAX, UINT32_MAX, v, NULL), RELEASE_UNBOUND);

	/* a value that would break the head, one that was never set */
	assert_int_equal(ask(link, 5, index_of(table, "bad"), a, INJECT_HEADER, v, NULL), RELEASE_FAILED);
	assert_non_null(strstr(v, "line break"));
	assert_int_equal(ask(link, 5, index_of(table, "unset"), a, INJECT_HEADER, v, NULL), RELEASE_FAILED);
	assert_non_null(strstr(v, "UNSET"));
	/* and the first again */
	assert_int_equal(ask(link, 5, one, a, INJECT_BEARER, v, NULL), RELEASE_OK);
	assert_string_equal(v, "value-of-one-0123456789");
	close(link);
	close(audit);
	close(file);
	close(table);
	assert_int_equal(role_end(&r), 0);
}

/* Another sandbox with the same policy has its own values, or none. */
static void kept_apart(void **state)
{
	int table = test_table(policy), link, audit;
	struct role_under_test r = secrets_start();
	uint32_t one = index_of(table, "one"), a = dest_of(table, "a.example");
	char v[512];

	(void)state;
	send_env(&r, 1, 5);
	role_sandbox(&r, 1, 5, 0, "box", table);
	role_sandbox(&r, 2, 6, 0, "other", table);
	audit = audit_join(&r, table);
	link = role_peer(&r, ROLE_WORKER, 2);
	assert_int_equal(ask(link, 6, one, a, INJECT_BEARER, v, NULL), RELEASE_FAILED);
	assert_int_equal(ask(link, 5, one, a, INJECT_BEARER, v, NULL), RELEASE_UNBOUND); /* the other's generation */
	close(link);
	link = role_peer(&r, ROLE_WORKER, 1);
	assert_int_equal(ask(link, 5, one, a, INJECT_BEARER, v, NULL), RELEASE_OK);
	/* gone: its link ends */
	role_gone(&r, 1, 5);
	struct wire_msg m;
	assert_false(wire_recv(link, &m, WAIT_MS));
	close(link);
	close(audit);
	close(table);
	assert_int_equal(role_end(&r), 0);
}

/* The policy is replaced: each generation has its own bindings and sources, until it is retired. */
static void generations(void **state)
{
	static const char less[] = "version: 1\nsecrets: { one: { env: ONE, hosts: [a.example] } }\ndestinations: [ { host: a.example, allow: [GET /], inject: [ { secret: one, as: basic, username: u } ] } ]\n";
	int table = test_table(policy), next = test_table(less), link, audit;
	struct role_under_test r = secrets_start();
	uint32_t one = index_of(table, "one"), a = dest_of(table, "a.example"), one_next = index_of(next, "one"), a_next = dest_of(next, "a.example");
	char v[512];

	(void)state;
	send_env(&r, 1, 5);
	role_sandbox(&r, 1, 5, 0, "box", table);
	audit = audit_join(&r, table);
	link = role_peer(&r, ROLE_WORKER, 1);
	assert_int_equal(ask(link, 5, one, a, INJECT_BEARER, v, NULL), RELEASE_OK);
	assert_int_equal(ask(link, 8, one_next, a_next, INJECT_BASIC, v, NULL), RELEASE_UNBOUND); /* not here yet */
	send_env(&r, 1, 8);
	role_sandbox(&r, 1, 8, 0, "box", next);
	assert_int_equal(ask(link, 5, one, a, INJECT_BEARER, v, NULL), RELEASE_OK);
	assert_int_equal(ask(link, 8, one_next, a_next, INJECT_BASIC, v, NULL), RELEASE_OK);
	assert_string_equal(v, "value-of-one-0123456789");
	assert_int_equal(ask(link, 8, one_next, a_next, INJECT_BEARER, v, NULL), RELEASE_UNBOUND); /* the other's kind */
	role_retire(&r, 1, 5);
	role_sandbox(&r, 2, 9, 0, "other", table); /* its answer comes behind */
	assert_int_equal(ask(link, 5, one, a, INJECT_BEARER, v, NULL), RELEASE_UNBOUND);
	assert_int_equal(ask(link, 8, one_next, a_next, INJECT_BASIC, v, NULL), RELEASE_OK);
	/* one that came to nothing leaves nothing */
	send_env(&r, 1, 11);
	role_retire(&r, 1, 11);
	role_retire(&r, 1, 99);
	role_retire(&r, 77, 1);
	assert_int_equal(ask(link, 11, one, a, INJECT_BEARER, v, NULL), RELEASE_UNBOUND);
	assert_int_equal(ask(link, 8, one_next, a_next, INJECT_BASIC, v, NULL), RELEASE_OK);
	close(link);
	close(audit);
	close(table);
	close(next);
	assert_int_equal(role_end(&r), 0);
}

/* Repeats are folded; what is folded is written when the sandbox ends. */
static void folded(void **state)
{
	int table = test_table(policy), link, audit;
	struct role_under_test r = secrets_start();
	uint32_t one = index_of(table, "one"), a = dest_of(table, "a.example");
	uint64_t count;
	struct wire_msg m;
	char v[512];

	(void)state;
	send_env(&r, 1, 5);
	role_sandbox(&r, 1, 5, 0, "box", table);
	audit = audit_join(&r, table);
	link = role_peer(&r, ROLE_WORKER, 1);
	for (int i = 0; i < 50; i++)
		assert_int_equal(ask(link, 5, one, a, INJECT_BEARER, v, NULL), RELEASE_OK);
	event(audit, "secret", "allow", "one", "box", &count);
	assert_int_equal(count, 1);
	assert_false(wire_recv(audit, &m, 50));
	/* audit is started anew: what waits is not lost */
	close(audit);
	audit = audit_join(&r, table);
	assert_int_equal(ask(link, 5, one, a, INJECT_BEARER, v, NULL), RELEASE_OK);
	role_gone(&r, 1, 5);
	event(audit, "secret", "allow", "one", "box", &count);
	assert_int_equal(count, 50);
	close(link);
	close(audit);
	close(table);
	assert_int_equal(role_end(&r), 0);
}

/* The question that waits for the file which the role asks the supervisor for; the answer brings it, or says why not. */
static enum release_status ask_file(struct role_under_test *r, int link, uint32_t secret, uint32_t dest, int fd, const char *bad, char value[512])
{
	struct msg_sandbox_ref ref = { 1, 5 };
	struct msg_release q = { secret, dest, INJECT_HEADER };
	const struct msg_released *a;
	struct wire_msg m;

	wire_send(link, MSG_RELEASE, 5, 77, &q, sizeof(q), NULL, 0, NULL, 0);
	wire_expect(r->sup, MSG_FILE_LOOK, &m);
	assert_int_equal(((const struct msg_sandbox_ref *)(const void *)m.data)->sandbox, 1);
	assert_memory_equal(m.data + sizeof(ref), "/run/two", m.n - sizeof(ref));
	assert_int_equal(m.n - sizeof(ref), strlen("/run/two"));
	if (bad != NULL)
		wire_send(r->sup, MSG_FILE_BAD, 5, 0, &ref, sizeof(ref), bad, strlen("/run/two") + 1 + strlen(bad + strlen("/run/two") + 1), NULL, 0);
	else
		send_file(r, 1, 5, "/run/two", fd);
	wire_expect(link, MSG_RELEASED, &m);
	a = (const void *)m.data;
	snprintf(value, 512, "%.*s", (int)(m.n - sizeof(*a)), (const char *)m.data + sizeof(*a));
	return (enum release_status)a->status;
}

/* A file that was removed, or that another was renamed over: the supervisor is asked what is there now. */
static void replaced(void **state)
{
	char path[] = "/tmp/sp-secret-XXXXXX", other[] = "/tmp/sp-secret-XXXXXX";
	int table = test_table(policy), link, audit, file = mkstemp(path), next = mkstemp(other);
	struct role_under_test r = secrets_start();
	uint32_t two = index_of(table, "two"), b = dest_of(table, "b.example");
	char v[512];

	(void)state;
	rewrite(file, "value-of-yesterday");
	rewrite(next, "value-of-today");
	send_file(&r, 1, 5, "/run/two", file);
	role_sandbox(&r, 1, 5, 0, "box", table);
	audit = audit_join(&r, table);
	link = role_peer(&r, ROLE_WORKER, 1);
	assert_int_equal(ask(link, 5, two, b, INJECT_HEADER, v, NULL), RELEASE_OK);
	assert_string_equal(v, "value-of-yesterday");
	assert_int_equal(rename(other, path), 0);
	assert_int_equal(ask_file(&r, link, two, b, next, NULL, v), RELEASE_OK);
	assert_string_equal(v, "value-of-today");
	assert_int_equal(unlink(path), 0);
	assert_int_equal(ask_file(&r, link, two, b, -1, "/run/two\0was removed", v), RELEASE_FAILED);
	assert_non_null(strstr(v, "/run/two was removed"));
	/* it does not ask by itself while nobody wants the value, and the next one who does is told anew */
	rewrite(file, "back-again");
	assert_int_equal(ask_file(&r, link, two, b, file, NULL, v), RELEASE_OK);
	assert_string_equal(v, "back-again");
	close(link);
	close(audit);
	close(file);
	close(next);
	close(table);
	assert_int_equal(role_end(&r), 0);
}

/* A broken worker asks for all that is not bound: others go on, and audit is told of it in few words. */
static void flooded(void **state)
{
	int table = test_table(policy), link, other, audit;
	struct role_under_test r = secrets_start();
	uint32_t one = index_of(table, "one"), a = dest_of(table, "a.example");
	unsigned told = 0;
	struct wire_msg m;
	char v[512];

	(void)state;
	send_env(&r, 1, 5);
	role_sandbox(&r, 1, 5, 0, "box", table);
	role_sandbox(&r, 2, 6, 0, "broken", table);
	audit = audit_join(&r, table);
	other = role_peer(&r, ROLE_WORKER, 2);
	for (uint32_t i = 0; i < 6000; i++) {
		assert_int_equal(ask(other, 6, i % 7, i % 11, (enum inject_kind)(4 + i), v, NULL), RELEASE_UNBOUND);
		while (wire_recv(audit, &m, 0))
			told++;
	}
	assert_in_range(told, 1, 70);
	link = role_peer(&r, ROLE_WORKER, 1);
	assert_int_equal(ask(link, 5, one, a, INJECT_BEARER, v, NULL), RELEASE_OK);
	close(link);
	close(other);
	close(audit);
	close(table);
	assert_int_equal(role_end(&r), 0);
}

/* A worker that begins messages and never ends one: they have a number, not only octets. */
static void begun_without_end(void **state)
{
	int table = test_table(policy), link, audit;
	struct role_under_test r = secrets_start();
	uint32_t one = index_of(table, "one"), a = dest_of(table, "a.example");
	const struct msg_release release = { one, a, INJECT_BEARER };
	struct msg_sign q = { .more = 1 };
	struct wire_msg m;
	char v[512];

	(void)state;
	send_env(&r, 1, 5);
	role_sandbox(&r, 1, 5, 0, "box", table);
	audit = audit_join(&r, table);
	link = role_peer(&r, ROLE_WORKER, 1);
	for (uint64_t id = 1000; id < 12000; id++) {
		wire_send(link, MSG_SIGN, 5, id, &q, sizeof(q), NULL, 0, NULL, 0);
		while (wire_recv(link, &m, 0))
			assert_int_equal(m.h.type, MSG_SIGNED);
	}
	wire_send(link, MSG_RELEASE, 5, 1, &release, sizeof(release), NULL, 0, NULL, 0);
	do
		assert_true(wire_recv(link, &m, WAIT_MS));
	while (m.h.type == MSG_SIGNED);
	assert_int_equal(m.h.type, MSG_RELEASED);
	assert_int_equal(((const struct msg_released *)(const void *)m.data)->status, RELEASE_FAILED);
	close(link);
	link = role_peer(&r, ROLE_WORKER, 1); /* its next life begins with none */
	assert_int_equal(ask(link, 5, one, a, INJECT_BEARER, v, NULL), RELEASE_OK);
	close(link);
	close(audit);
	close(table);
	assert_int_equal(role_end(&r), 0);
}

/* A policy that this role cannot serve binds nothing, although it was read: its table is gone. */
static void refused_policy(void **state)
{
	struct msg_sandbox s = { .sandbox = 1, .generation = 6, .name = "box" };
	int table = test_table(policy), large, link, audit;
	struct role_under_test r = secrets_start();
	uint32_t one = index_of(table, "one"), a = dest_of(table, "a.example");
	struct buf b = { 0 };
	struct wire_msg m;
	char v[512];

	(void)state;
	buf_addz(&b, "version: 1\nname: large\nsecrets:\n");
	for (unsigned i = 0; i < 700; i++)
		buf_addf(&b, "  a_name_that_takes_some_room_in_the_list_of_placeholders_%u: { file: /run/e%u, hosts: [h%u.example] }\n", i, i, i);
	buf_addz(&b, "destinations:\n");
	for (unsigned i = 0; i < 700; i++)
		buf_addf(&b, "  - host: h%u.example\n    allow: [ \"GET /**\" ]\n    inject: [ { secret: a_name_that_takes_some_room_in_the_list_of_placeholders_%u, as: bearer, env: V%u } ]\n", i, i, i);
	buf_addc(&b, 0);
	large = test_table((const char *)buf_data(&b));
	buf_fini(&b);
	send_env(&r, 1, 5);
	role_sandbox(&r, 1, 5, 0, "box", table);
	audit = audit_join(&r, table);
	link = role_peer(&r, ROLE_WORKER, 1);
	wire_send(r.sup, MSG_SANDBOX, 6, 0, &s, sizeof(s), NULL, 0, &large, 1);
	wire_expect(r.sup, MSG_SANDBOX_BAD, &m);
	assert_int_equal(ask(link, 6, 0, 0, INJECT_BEARER, v, NULL), RELEASE_UNBOUND);
	assert_int_equal(ask(link, 5, one, a, INJECT_BEARER, v, NULL), RELEASE_OK);
	role_retire(&r, 1, 6);
	assert_int_equal(ask(link, 5, one, a, INJECT_BEARER, v, NULL), RELEASE_OK);
	close(link);
	close(audit);
	close(table);
	close(large);
	assert_int_equal(role_end(&r), 0);
}

/* The supervisor is lost: what is folded is told before the end, since audit lives on. */
static void orphaned(void **state)
{
	int table = test_table(policy), link, audit;
	struct role_under_test r = secrets_start();
	uint32_t one = index_of(table, "one"), a = dest_of(table, "a.example");
	uint64_t count;
	char v[512];

	(void)state;
	send_env(&r, 1, 5);
	role_sandbox(&r, 1, 5, 0, "box", table);
	audit = audit_join(&r, table);
	link = role_peer(&r, ROLE_WORKER, 1);
	for (int i = 0; i < 9; i++)
		assert_int_equal(ask(link, 5, one, a, INJECT_BEARER, v, NULL), RELEASE_OK);
	event(audit, "secret", "allow", "one", "box", &count);
	assert_int_equal(count, 1);
	close(r.sup);
	event(audit, "secret", "allow", "one", "box", &count);
	assert_int_equal(count, 8);
	assert_int_equal(role_wait(&r), 0);
	close(link);
	close(audit);
	close(table);
}

static const char signing_policy[] = "version: 1\n"
				     "name: signs\n"
				     "secrets:\n"
				     "  aws: { env: AWS, hosts: [a.example] }\n"
				     "  gh: { env: GH, hosts: [a.example, b.example], body: deny }\n"
				     "  box: { env: GH, hosts: [b.example], scope: sandbox }\n"
				     "  gone: { env: GONE, hosts: [b.example] }\n"
				     "destinations:\n"
				     "  - host: a.example\n"
				     "    allow: [ \"GET /**\" ]\n"
				     "    inject:\n"
				     "      - { secret: aws, as: sigv4, service: s3, region: eu-west-1, env: true }\n"
				     "      - { secret: gh, as: header, name: X-Key, env: GH }\n"
				     "  - host: b.example\n"
				     "    allow: [ \"GET /**\" ]\n"
				     "    inject:\n"
				     "      - { secret: gh, as: placeholder, in: [json] }\n"
				     "      - { secret: box, as: header, name: X-Box, env: BOX }\n"
				     "      - { secret: gone, as: header, name: X-Gone }\n";

/* The list that comes before SANDBOX_OK. */
static void placeholders_of(struct role_under_test *r, uint32_t sandbox, const char *name, int table, struct placeholder p[8], struct buf *mem)
{
	static const char vars[] = "AWS=AKIDEXAMPLE:planted-signing-key:session-token\0GH=ghp_planted0planted0planted0planted0plan";
	struct msg_sandbox_ref ref = { sandbox, 5 };
	struct msg_sandbox s = { .sandbox = sandbox, .generation = 5 };
	int fd = memfd_with(vars, sizeof(vars));
	struct wire_msg m;
	struct str rest;
	unsigned n = 0;

	wire_send(r->sup, MSG_SANDBOX_ENV, 5, 0, &ref, sizeof(ref), NULL, 0, &fd, 1);
	close(fd);
	snprintf(s.name, sizeof(s.name), "%s", name);
	wire_send(r->sup, MSG_SANDBOX, 5, 0, &s, sizeof(s), NULL, 0, &table, 1);
	wire_expect(r->sup, MSG_PLACEHOLDERS, &m);
	assert_int_equal(((struct msg_sandbox_ref *)(void *)m.data)->sandbox, sandbox);
	buf_add(mem, m.data + sizeof(ref), m.n - sizeof(ref));
	rest = buf_str(mem);
	while (n < 8 && placeholder_next(&rest, &p[n]))
		n++;
	assert_int_equal(n, 5); /* three of aws, gh, box; what has no variable and is not filled has none */
	assert_int_equal(rest.n, 0);
	assert_true(str_find(buf_str(mem), STR("planted")) < 0);
	wire_expect(r->sup, MSG_SANDBOX_OK, &m);
}

static void placeholders(void **state)
{
	int table = test_table(signing_policy), link, audit;
	struct role_under_test r = secrets_start();
	struct placeholder x[8], y[8];
	struct buf mx = { 0 }, my = { 0 };
	char v[512];
	uint32_t valid;
	unsigned same = 0;

	(void)state;
	placeholders_of(&r, 1, "one", table, x, &mx);
	placeholders_of(&r, 2, "two", table, y, &my);
	for (unsigned i = 0; i < 5; i++) {
		bool equal = str_eq(x[i].text, y[i].text), box = str_eq(x[i].secret, STR("box"));

		assert_int_equal(equal, !box); /* of the policy, or of the sandbox */
		same += equal;
		assert_int_equal(x[i].body_deny, str_eq(x[i].secret, STR("gh")));
		assert_int_equal(str_starts(x[i].text, STR("ghp_")), box || str_eq(x[i].secret, STR("gh")));
		assert_int_equal(str_starts(x[i].text, STR("AKIA")), x[i].part == PLACEHOLDER_KEY_ID);
	}
	assert_int_equal(same, 4);
	/* what signs is released, the key itself never */
	audit = audit_join(&r, table);
	link = role_peer(&r, ROLE_WORKER, 1);
	assert_int_equal(ask(link, 5, index_of(table, "aws"), dest_of(table, "a.example"), INJECT_SIGV4, v, &valid), RELEASE_OK);
	assert_null(strstr(v, "planted"));
	assert_string_equal(v + 73, " AKIDEXAMPLE session-token");
	assert_true(valid <= 60000);
	assert_int_equal(ask(link, 5, index_of(table, "aws"), dest_of(table, "a.example"), INJECT_BEARER, v, NULL), RELEASE_UNBOUND);
	buf_fini(&mx);
	buf_fini(&my);
	close(link);
	close(audit);
	close(table);
	assert_int_equal(role_end(&r), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(bound_releases), cmocka_unit_test(kept_apart), cmocka_unit_test(generations), cmocka_unit_test(folded), cmocka_unit_test(replaced), cmocka_unit_test(flooded), cmocka_unit_test(begun_without_end), cmocka_unit_test(refused_policy),
		cmocka_unit_test(orphaned), cmocka_unit_test(placeholders) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
