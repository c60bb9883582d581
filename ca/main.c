/* SPDX-License-Identifier: Apache-2.0 */
/* sallyport-ca: makes, shows, exports and rotates the interception CA; started by the supervisor, the role that mints. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "../common/sys/child.h"
#include "../common/sys/statedir.h"
#include "ca.h"

#define PERMIT_MAX 64
enum { FOR_EXPORT = 1,
       FOR_MAKING = 2,
       FOR_ROTATING = 4 }; /* which verb an option belongs to */

struct args {
	const char *state, *file;
	const char *permit[PERMIT_MAX];
	struct ca_wish wish;
	enum ca_form form;
	bool finish;
	char dir[4096]; /* the state directory */
};

static int do_init(struct args *a, struct err *err) { return ca_init(a->dir, &a->wish, err); }
static int do_show(struct args *a, struct err *err) { return ca_show(a->dir, err); }
static int do_export(struct args *a, struct err *err) { return ca_export(a->dir, a->form, a->file, err); }
static int do_pack(struct args *a, struct err *err) { return ca_pack_trust(a->state, err); }
static int do_rotate(struct args *a, struct err *err) { return a->finish ? ca_finish(a->dir, err) : ca_rotate(a->dir, &a->wish, err); }

static const struct verb {
	const char *name;
	int (*run)(struct args *a, struct err *err);
	bool needs_dir;
	unsigned options;
	const char *usage;
} verbs[] = {
	{ "init", do_init, true, FOR_MAKING, "init [--permit DOMAIN|RANGE]... [--state DIR]" },
	{ "show", do_show, true, 0, "show [--state DIR]" },
	{ "export", do_export, true, FOR_EXPORT, "export [--pem|--der|--pkcs12] [-o FILE] [--state DIR]" },
	{ "rotate", do_rotate, true, FOR_MAKING | FOR_ROTATING, "rotate [--permit DOMAIN|RANGE]... [--permit-any] [--drop-old] [--state DIR] | rotate --finish [--state DIR]" },
	{ "pack-trust", do_pack, false, 0, "pack-trust [--state DIR] < PEM > BLOB" },
};

static int usage(FILE *f, int status)
{
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		fprintf(f, "%s sallyport ca %s\n", i == 0 ? "usage:" : "      ", verbs[i].usage);
	return status;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "state", 1, NULL, 's' },
		{ "pem", 0, NULL, 'p' },
		{ "der", 0, NULL, 'd' },
		{ "pkcs12", 0, NULL, 'k' },
		{ "output", 1, NULL, 'o' },
		{ "permit", 1, NULL, 'P' },
		{ "permit-any", 0, NULL, 'A' },
		{ "drop-old", 0, NULL, 'D' },
		{ "finish", 0, NULL, 'F' },
		{ "help", 0, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	const struct verb *v = NULL;
	static struct args a;
	unsigned used = 0;
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
		case 'k':
			a.form = o == 'p' ? CA_FORM_PEM : o == 'd' ? CA_FORM_DER
								   : CA_FORM_PKCS12;
			used |= FOR_EXPORT;
			break;
		case 'o':
			a.file = optarg;
			used |= FOR_EXPORT;
			break;
		case 'P':
			if (a.wish.permit_n == PERMIT_MAX) {
				fprintf(stderr, "sallyport-ca: --permit is given at most %d times\n", PERMIT_MAX);
				return 2;
			}
			a.permit[a.wish.permit_n++] = optarg;
			used |= FOR_MAKING;
			break;
		case 'A':
		case 'D':
		case 'F':
			*(o == 'A' ? &a.wish.permit_any : o == 'D' ? &a.wish.drop_old
								   : &a.finish) = true;
			used |= FOR_ROTATING;
			break;
		case 'h':
			return usage(stdout, 0);
		default:
			return usage(stderr, 2);
		}
	}
	if (optind != argc - 1 || (used & ~v->options) || (a.wish.permit_any && a.wish.permit_n > 0) || (a.finish && (used != FOR_ROTATING || a.wish.permit_any || a.wish.drop_old)))
		return usage(stderr, 2);
	a.wish.permit = a.permit;
	umask(077);
	if ((v->needs_dir && state_dir(a.dir, a.state, &err) < 0) || v->run(&a, &err) < 0) {
		fprintf(stderr, "sallyport-ca: %s\n", err.text);
		return 1;
	}
	return 0;
}
