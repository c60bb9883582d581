/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "../../sandbox-launcher/options.h"
#include "../../sandbox-launcher/plan.h"

#define PARSE(o, ...) parse((o), (char *[]){ __VA_ARGS__, NULL })
static int parse(struct options *o, char **argv)
{
	struct err err = ERR_INIT;
	int n = 0, r;

	while (argv[n] != NULL)
		n++;
	r = options_parse(o, n, argv, &err);
	assert_int_equal(r == 0, err.text[0] == 0); /* every refusal has its words */
	return r;
}

static void accepted(void **state)
{
	struct options o;

	(void)state;
	assert_int_equal(PARSE(&o, "true"), 0);
	assert_string_equal(o.argv[0], "true");
	assert_int_equal(o.argc, 1);
	assert_int_equal(o.status_fd, -1);
	assert_int_equal(PARSE(&o, "--policy", "p.yaml", "--name=a-b", "-e", "A=1", "-eB", "-w", "/x", "--timeout", "90s", "--quiet", "--json", "--status-fd", "7", "--", "-cmd", "--policy"), 0);
	assert_string_equal(o.policy, "p.yaml");
	assert_string_equal(o.name, "a-b");
	assert_int_equal(o.env_n, 2);
	assert_string_equal(o.env[0], "A=1");
	assert_string_equal(o.env[1], "B");
	assert_string_equal(o.workdir, "/x");
	assert_int_equal(o.timeout_ms, 90000);
	assert_true(o.quiet && o.json);
	assert_int_equal(o.status_fd, 7);
	assert_int_equal(o.argc, 2);
	assert_string_equal(o.argv[0], "-cmd");
	/* What stands behind the command is the command's. */
	assert_int_equal(PARSE(&o, "sh", "-c", "x", "--quiet"), 0);
	assert_false(o.quiet);
	assert_int_equal(o.argc, 4);
	assert_int_equal(PARSE(&o, "--help"), 0);
	assert_true(o.help);
}

static void refused(void **state)
{
	struct options o;

	(void)state;
	assert_int_equal(PARSE(&o, "--"), -1);
	assert_int_equal(PARSE(&o, "--nonsense", "true"), -1);
	assert_int_equal(PARSE(&o, "--polic", "x", "true"), -1);
	assert_int_equal(PARSE(&o, "--quiet=1", "true"), -1);
	assert_int_equal(PARSE(&o, "--policy"), -1);
	assert_int_equal(PARSE(&o, "--policy", "", "true"), -1);
	assert_int_equal(PARSE(&o, "-e", "=x", "true"), -1);
	assert_int_equal(PARSE(&o, "--timeout", "1x", "true"), -1);
	assert_int_equal(PARSE(&o, "--timeout", "-1s", "true"), -1);
	assert_int_equal(PARSE(&o, "--status-fd", "1a", "true"), -1);
	assert_int_equal(PARSE(&o, "--name", "A", "true"), -1);
	/* Named by the interface, not built: said, never ignored. */
	assert_int_equal(PARSE(&o, "-d", "true"), -1);
	assert_int_equal(PARSE(&o, "--observe", "--boundary", "b.yaml", "true"), 0);
	assert_true(o.observe && strcmp(o.boundary, "b.yaml") == 0);
}

static void durations(void **state)
{
	uint64_t ms = 0;

	(void)state;
	assert_true(options_duration("1", &ms) && ms == 1000);
	assert_true(options_duration("500ms", &ms) && ms == 500);
	assert_true(options_duration("2h", &ms) && ms == 7200000);
	assert_true(options_duration("1d", &ms) && ms == 86400000);
	assert_false(options_duration("0", &ms));
	assert_false(options_duration("", &ms));
	assert_false(options_duration("1 s", &ms));
	assert_false(options_duration("99999999999s", &ms));
}

static void names_and_paths(void **state)
{
	(void)state;
	assert_true(options_name_ok("a"));
	assert_true(options_name_ok("agent-7"));
	assert_false(options_name_ok("-a"));
	assert_false(options_name_ok(""));
	assert_false(options_name_ok("a/b"));
	assert_false(options_name_ok("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
	assert_true(path_within("/a/b", "/a"));
	assert_true(path_within("/a", "/a"));
	assert_true(path_within("/a", "/"));
	assert_false(path_within("/ab", "/a"));
	assert_false(path_within("/", "/a"));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(accepted), cmocka_unit_test(refused), cmocka_unit_test(durations), cmocka_unit_test(names_and_paths) };

	return cmocka_run_group_tests_name("launcher_options", tests, NULL, NULL);
}
