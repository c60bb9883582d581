/* SPDX-License-Identifier: Apache-2.0 */
/* sallyport-ca: makes, shows and exports the interception CA; started by the supervisor, the role that mints. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "../common/sys/child.h"
#include "../common/sys/statedir.h"
#include "ca.h"

struct args {
	const char *state, *file;
	bool der;
	char dir[4096]; /* the state directory */
};

static int do_init(const struct args *a, struct err *err) { return ca_init(a->dir, err); }
static int do_show(const struct args *a, struct err *err) { return ca_show(a->dir, err); }
static int do_export(const struct args *a, struct err *err) { return ca_export(a->dir, a->der, a->file, err); }
static int do_pack(const struct args *a, struct err *err) { return ca_pack_trust(a->state, err); }

static const struct verb {
	const char *name;
	int (*run)(const struct args *a, struct err *err);
	bool needs_dir, exports;
	const char *usage;
} verbs[] = {
	{ "init", do_init, true, false, "init [--state DIR]" },
	{ "show", do_show, true, false, "show [--state DIR]" },
	{ "export", do_export, true, true, "export [--pem|--der] [-o FILE] [--state DIR]" },
	{ "pack-trust", do_pack, false, false, "pack-trust [--state DIR] < PEM > BLOB" },
};

static int usage(FILE *f, int status)
{
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		fprintf(f, "%s sallyport ca %s\n", i == 0 ? "usage:" : "      ", verbs[i].usage);
	return status;
}

int main(int argc, char **argv)
{
	static const struct option options[] = { { "state", 1, NULL, 's' }, { "pem", 0, NULL, 'p' }, { "der", 0, NULL, 'd' }, { "output", 1, NULL, 'o' }, { "help", 0, NULL, 'h' }, { NULL, 0, NULL, 0 } };
	const struct verb *v = NULL;
	struct args a = { 0 };
	struct err err = ERR_INIT;
	int o;

	if (argc == 3 && strcmp(argv[1], "--role") == 0 && strcmp(argv[2], "ca") == 0)
		return ca_main(ROLE_LINK_FD);
	if (argc >= 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
		return usage(stdout, 0);
	for (size_t i = 0; argc >= 2 && i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (strcmp(argv[1], verbs[i].name) == 0)
			v = &verbs[i];
	if (v == NULL)
		return usage(stderr, 2);
	while ((o = getopt_long(argc - 1, argv + 1, "o:h", options, NULL)) != -1) {
		switch (o) {
		case 's':
			a.state = optarg;
			break;
		case 'p':
		case 'd':
			a.der = o == 'd';
			if (!v->exports)
				return usage(stderr, 2);
			break;
		case 'o':
			a.file = optarg;
			if (!v->exports)
				return usage(stderr, 2);
			break;
		case 'h':
			return usage(stdout, 0);
		default:
			return usage(stderr, 2);
		}
	}
	if (optind != argc - 1)
		return usage(stderr, 2);
	umask(077);
	if ((v->needs_dir && state_dir(a.dir, a.state, &err) < 0) || v->run(&a, &err) < 0) {
		fprintf(stderr, "sallyport-ca: %s\n", err.text);
		return 1;
	}
	return 0;
}
