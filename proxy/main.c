/* SPDX-License-Identifier: Apache-2.0 */
/* sallyport-proxy: the supervisor (`serve`), the reader of records (`logs`), questions about secrets (`secret`), and, started by the supervisor, a role. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../common/sys/child.h"
#include "roles.h"
#include "supervisor/supervisor.h"

static int usage(FILE *f)
{
	fprintf(f, "usage: sallyport serve [OPTION...]\n       sallyport logs [OPTION...]\n       sallyport secret check|revoke|forget [OPTION...]\n");
	return 2;
}

static int role(const char *name)
{
	if (strcmp(name, "worker") == 0)
		return worker_main(ROLE_LINK_FD);
	if (strcmp(name, "dialer") == 0)
		return dialer_main(ROLE_LINK_FD);
	if (strcmp(name, "audit") == 0)
		return audit_main(ROLE_LINK_FD);
	if (strcmp(name, "checker") == 0)
		return checker_main(ROLE_LINK_FD);
	return 2;
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "--role") == 0)
		return role(argv[2]);
	if (argc < 2)
		return usage(stderr);
	if (strcmp(argv[1], "serve") == 0)
		return supervisor_main(argc - 1, argv + 1);
	if (strcmp(argv[1], "secret") == 0)
		return secret_main(argc - 1, argv + 1);
	if (strcmp(argv[1], "logs") == 0)
		return logs_main(argc - 1, argv + 1);
	return usage(stderr);
}
