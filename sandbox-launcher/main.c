/* SPDX-License-Identifier: Apache-2.0 */
/* sallyport-sandbox: namespace sandboxes. */
#include <stdio.h>
#include <string.h>

#include "reloader.h"
#include "run.h"

static const struct {
	const char *name;
	int (*fn)(int argc, char **argv);
} verbs[] = { { "run", run_main }, { "stop", stop_main }, { "doctor", doctor_main }, { "reload", reload_main } };

static const char *const later[] = { "create", "exec", "list", "ls", "ps", "show", "start", "kill", "wait", "delete", "rm", "copy", "cp", "get", "attach", "output", "events", "register", "revoke", "validate" };

int main(int argc, char **argv)
{
	if (argc >= 2) {
		for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
			if (strcmp(argv[1], verbs[i].name) == 0)
				return verbs[i].fn(argc - 1, argv + 1);
		for (size_t i = 0; i < sizeof(later) / sizeof(later[0]); i++)
			if (strcmp(argv[1], later[i]) == 0) {
				fprintf(stderr, "sallyport: `%s` is for a later version of sallyport\n", argv[1]);
				return 2;
			}
	}
	fprintf(argc >= 2 && strcmp(argv[1], "--help") == 0 ? stdout : stderr, "usage: sallyport run [OPTION...] [--] COMMAND ARG...\n       sallyport sandbox reload --policy FILE NAME\n       sallyport stop --all [--state DIR]\n       sallyport doctor [--json]\n");
	return argc >= 2 && strcmp(argv[1], "--help") == 0 ? 0 : 2;
}
