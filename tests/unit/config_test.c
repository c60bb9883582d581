/* SPDX-License-Identifier: Apache-2.0 */
/* The example of gateway.yaml: it is good, and has every key that there is. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/must.h"
#include "proxy/supervisor/config.h"

#define EXAMPLE "configs/gateway.yaml"

static struct buf slurp(const char *name)
{
	struct buf b = { 0 };
	FILE *f = fopen(name, "r");
	char part[4096];
	size_t n;

	if (f == NULL)
		fail_msg("run from the top folder: no %s", name);
	while ((n = fread(part, 1, sizeof(part), f)) > 0)
		buf_add(&b, part, n);
	fclose(f);
	return b;
}

/* A copy that is ours alone, whatever the checkout's owner and modes are. */
static void is_good(void **state)
{
	struct buf b = slurp(EXAMPLE);
	char name[] = "/tmp/gateway.XXXXXX";
	int fd = mkstemp(name);
	struct config *c = must_calloc(1, sizeof(*c));
	struct err err = ERR_INIT;

	(void)state;
	assert_true(fd >= 0 && write(fd, buf_data(&b), buf_len(&b)) == (ssize_t)buf_len(&b) && fchmod(fd, 0600) == 0);
	close(fd);
	if (config_load(c, name, false, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(c->folder_n, 2);
	assert_int_equal(c->signer_n, 1);
	assert_true(c->vault.n > 0 && c->proxy[0] != 0 && c->dns[0] != 0 && c->boundary[0] != 0 && c->trust[0] != 0 && c->programs_n > 0);
	assert_true(sources_allow(str_mk(c->sources.text, c->sources.n), SECRET_SOURCE_VAULT, STR("secret/data/shared/x")));
	assert_false(sources_allow(str_mk(c->sources.text, c->sources.n), SECRET_SOURCE_VAULT, STR("secret/data/agents/x")));
	assert_false(sources_allow(str_mk(c->folders[1].sources.text, c->folders[1].sources.n), SECRET_SOURCE_ENV, STR("AGENT_X")));
	unlink(name);
	free(c);
	buf_fini(&b);
}

/* Users and groups of a folder: who is let. */
static void is_for_whom(void **state)
{
	static const char text[] = "policies:\n"
				   "  - { dir: a, users: [7, \"root\", 4294967294] }\n"
				   "  - { dir: b, groups: [root, 8] }\n"
				   "  - { dir: c }\n"
				   "  - { dir: d, users: [] }\n";
	char name[] = "/tmp/gateway.XXXXXX";
	int fd = mkstemp(name), sv[2];
	struct config *c = must_calloc(1, sizeof(*c));
	struct caller by, other = { .uid = 9, .folders = 1u << 1 };
	struct err err = ERR_INIT;
	char why[200];

	(void)state;
	assert_true(fd >= 0 && write(fd, text, sizeof(text) - 1) == (ssize_t)sizeof(text) - 1 && fchmod(fd, 0600) == 0);
	close(fd);
	if (config_load(c, name, false, &err) < 0)
		fail_msg("%s", err.text);
	unlink(name);
	assert_int_equal(c->folder_n, 4);
	assert_true(c->folders[0].named && c->folders[0].user_n == 3 && c->folders[0].users[0] == 7 && c->folders[0].users[1] == 0 && c->folders[0].users[2] == 4294967294u);
	assert_true(c->folders[1].named && c->folders[1].group_n == 2 && c->folders[1].groups[0] == 0 && c->folders[1].groups[1] == 8);
	assert_false(c->folders[2].named);
	assert_true(c->folders[3].named && c->folders[3].user_n == 0);
	assert_true(callers_others(c));
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(caller_may_use(&other, c, &c->folders[i]), i == 1);
	/* the other end of a pair of ours is we, who may do everything */
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv), 0);
	assert_true(caller_known(&by, c, sv[0], why) && by.admin && by.uid == geteuid() && by.folders == 15);
	close(sv[0]);
	close(sv[1]);
	free(c);
}

/* Rows of the reader that are not of a later version: { "KEY", SCHEMA_... */
static void has_every_key(void **state)
{
	static const char *const readers[] = { "proxy/supervisor/config.c", "proxy/supervisor/config_vault.c" };
	struct buf example = slurp(EXAMPLE);
	unsigned keys = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(readers) / sizeof(readers[0]); i++) {
		struct buf b = slurp(readers[i]);
		char *p;

		buf_addc(&b, 0);
		p = (char *)buf_data(&b);
		while ((p = strstr(p, "{ \"")) != NULL) {
			char *key = p + 3, *end = strchr(key, '"');

			p = end + 1;
			if (strncmp(end, "\", SCHEMA_", 10) != 0 || strncmp(end, "\", SCHEMA_LATER", 15) == 0)
				continue;
			if (str_find(buf_str(&example), str_mk(key, (size_t)(end - key))) < 0)
				fail_msg("%s has no `%.*s`", EXAMPLE, (int)(end - key), key);
			keys++;
		}
		buf_fini(&b);
	}
	assert_true(keys > 30);
	buf_fini(&example);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_good),
		cmocka_unit_test(is_for_whom),
		cmocka_unit_test(has_every_key),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
