/* SPDX-License-Identifier: Apache-2.0 */
/* sallyport: what people type. A table of verbs; each is done by a program that stands beside this one. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct verb {
	const char *name, *program;
	int keep; /* the verb itself is passed on */
	const char *text; /* NULL: not offered yet; its program says so */
} verbs[] = {
	{ "run", "sallyport-sandbox", 1, "run a command in a sandbox whose only way out is the gateway" },
	{ "sandbox", "sallyport-sandbox", 0, "give a running sandbox another policy (reload)" },
	{ "stop", "sallyport-sandbox", 1, "stop the gateway: its sandboxes have no network any more" },
	{ "doctor", "sallyport-sandbox", 1, "what this host can enforce, and why not" },
	{ "validate", "sallyport-sandbox", 1, NULL },
	{ "policy", "sallyport-policy", 0, "check, test, compile, explain and compare policies" },
	{ "trust", "sallyport-policy", 1, "consent to the sallyport.yaml of a folder" },
	{ "init", "sallyport-policy", 1, "write a first sallyport.yaml" },
	{ "serve", "sallyport-proxy", 1, "run the gateway in the foreground" },
	{ "logs", "sallyport-proxy", 1, "read and verify the record" },
	{ "secret", "sallyport-proxy", 1, "what secrets can be had; take one out of use" },
	{ "ca", "sallyport-ca", 0, "create, show, export and rotate the interception CA" },
};
#define VERBS (sizeof(verbs) / sizeof(verbs[0]))

static void usage(FILE *f)
{
	fprintf(f, "usage: sallyport VERB [ARGUMENT...]\n\n");
	for (size_t i = 0; i < VERBS; i++)
		if (verbs[i].text != NULL)
			fprintf(f, "  %-8s %s\n", verbs[i].name, verbs[i].text);
	fprintf(f, "\n`sallyport VERB --help` tells more; the manual is sallyport(1).\n");
}

int main(int argc, char **argv)
{
	char path[4096];
	ssize_t n;
	char *slash;

	if (argc < 2) {
		usage(stderr);
		return 2;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0) {
		usage(stdout);
		return 0;
	}
	if (strcmp(argv[1], "--version") == 0) {
		printf("sallyport %s\n", SP_VERSION);
		return 0;
	}
	for (size_t i = 0; i < VERBS; i++) {
		if (strcmp(argv[1], verbs[i].name) != 0)
			continue;
		n = readlink("/proc/self/exe", path, sizeof(path) - 64);
		if (n <= 0) {
			fprintf(stderr, "sallyport: cannot tell where its programs stand (is /proc mounted?)\n");
			return 125;
		}
		path[n] = 0;
		slash = strrchr(path, '/');
		strcpy(slash ? slash + 1 : path, verbs[i].program);
		argv += verbs[i].keep ? 0 : 1;
		argv[0] = path;
		execv(path, argv);
		fprintf(stderr, "sallyport: cannot execute %s: %s\n", path, strerror(errno));
		return 125;
	}
	fprintf(stderr, "sallyport: there is no verb `%s`\n", argv[1]);
	usage(stderr);
	return 2;
}
