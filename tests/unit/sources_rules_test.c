/* SPDX-License-Identifier: Apache-2.0 */
/* What a secret may come from: patterns, and what of a table's text is no path at all. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "common/policy/sources.h"

static const struct str rules = STR("only vault\nvault secret/data/agents/p/*\nvault aws/sts/**\nvault kv/a-*/x\nonly file\nfile /srv/secrets/\nfile /etc/one\nonly env\nenv AGENT_*\nonly exec\n");

static void what_is_allowed(void **state)
{
	static const struct {
		enum secret_source source;
		const char *arg;
		bool allowed;
	} rows[] = {
		{ SECRET_SOURCE_VAULT, "secret/data/agents/p/token", true },
		{ SECRET_SOURCE_VAULT, "secret/data/agents/p", false },
		{ SECRET_SOURCE_VAULT, "secret/data/agents/p/", false },
		{ SECRET_SOURCE_VAULT, "secret/data/agents/p/a/b", false },
		{ SECRET_SOURCE_VAULT, "secret/data/agents/q/token", false },
		{ SECRET_SOURCE_VAULT, "secret/data/agents/p/..", false },
		{ SECRET_SOURCE_VAULT, "secret/data/agents/p/../q", false },
		{ SECRET_SOURCE_VAULT, "aws/sts/../creds/root", false },
		{ SECRET_SOURCE_VAULT, "aws/sts/%2e%2e/creds/root", false },
		{ SECRET_SOURCE_VAULT, "aws/sts//x", false },
		{ SECRET_SOURCE_VAULT, "aws/sts/./x", false },
		{ SECRET_SOURCE_VAULT, "/aws/sts/x", false },
		{ SECRET_SOURCE_VAULT, "aws/sts/x?list=true", false },
		{ SECRET_SOURCE_VAULT, "aws/sts/x#", false },
		{ SECRET_SOURCE_VAULT, "aws/sts", false },
		{ SECRET_SOURCE_VAULT, "", false },
		{ SECRET_SOURCE_VAULT_DYNAMIC, "aws/sts/agent/x", true },
		{ SECRET_SOURCE_VAULT_DYNAMIC, "aws/creds/agent", false },
		{ SECRET_SOURCE_VAULT, "kv/a-1/x", true },
		{ SECRET_SOURCE_VAULT, "kv/b-1/x", false },
		{ SECRET_SOURCE_FILE, "/srv/secrets/a", true },
		{ SECRET_SOURCE_FILE, "/srv/secrets/a/b", true },
		{ SECRET_SOURCE_FILE, "/srv/secrets/../../etc/shadow", false },
		{ SECRET_SOURCE_FILE, "/srv/secrets/./a", false },
		{ SECRET_SOURCE_FILE, "/srv/secrets//a", false },
		{ SECRET_SOURCE_FILE, "/srv/secrets/", false },
		{ SECRET_SOURCE_FILE, "/srv/secrets-other", false },
		{ SECRET_SOURCE_FILE, "/etc/one", true },
		{ SECRET_SOURCE_FILE, "/etc/one/more", false },
		{ SECRET_SOURCE_ENV, "AGENT_KEY", true },
		{ SECRET_SOURCE_ENV, "XAGENT_KEY", false },
		{ SECRET_SOURCE_EXEC, "/bin/true", false },
		{ SECRET_SOURCE_CREDENTIAL, "anything", true }, /* not spoken of */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (sources_allow(rules, rows[i].source, str_of(rows[i].arg)) != rows[i].allowed)
			fail_msg("%s %s", source_kind(rows[i].source), rows[i].arg);
	assert_true(sources_allow(STR(""), SECRET_SOURCE_VAULT, STR("a/b")));
}

static void patterns(void **state)
{
	static const char *const good[][2] = { { "vault", "secret/data/agents/*" }, { "vault", "a/**" }, { "file", "/a/" }, { "file", "/a" }, { "env", "A_*" }, { "exec", "/bin/x" }, { "credential", "t*" } };
	static const char *const bad[][2] = { { "vault", "secret" }, { "vault", "/a/b" }, { "vault", "a/../b" }, { "vault", "a/**/b" }, { "vault", "a/b**" }, { "vault", "a//b" }, { "vault", "a/b?x" }, { "file", "a" }, { "file", "/" }, { "file", "/a/../b" }, { "file", "/a//" }, { "env", "" }, { "env", "A B" }, { "env", "A\nonly env" }, { "exec", "x" } };

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		if (sources_pattern_bad(str_of(good[i][0]), str_of(good[i][1])) != NULL)
			fail_msg("%s %s", good[i][0], good[i][1]);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (sources_pattern_bad(str_of(bad[i][0]), str_of(bad[i][1])) == NULL)
			fail_msg("%s %s", bad[i][0], bad[i][1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_allowed),
		cmocka_unit_test(patterns),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
