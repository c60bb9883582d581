/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "gateway.h"
#include "run.h"
#include "say.h"

/* stop --all: the gateway of the state directory. Its sandboxes have no network from then on; their commands go on. */
int stop_main(int argc, char **argv)
{
	static struct gateway g;
	struct err err = ERR_INIT;
	const char *state = NULL, *socket = NULL;
	bool all = false;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--all") == 0)
			all = true;
		else if (strcmp(argv[i], "--state") == 0 && i + 1 < argc)
			state = argv[++i];
		else if (strcmp(argv[i], "--gateway") == 0 && i + 1 < argc)
			socket = argv[++i];
		else
			all = false, i = argc;
	}
	if (!all) {
		fprintf(stderr, "usage: sallyport stop --all [--state DIR] [--gateway SOCKET]\n");
		return 2;
	}
	if (gateway_locate(&g, state, socket, &err) < 0) {
		say_error("%s", err.text);
		return 1;
	}
	if (gateway_reconnect(&g, &err) < 0) {
		say_note("no gateway is running at %s", g.run_dir);
		return 0;
	}
	if (gateway_stop(&g, &err) < 0) {
		say_error("%s", err.text);
		return 1;
	}
	return 0;
}
