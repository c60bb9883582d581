/* SPDX-License-Identifier: Apache-2.0 */
/* `sallyport logs` and `sallyport logs verify`: read the record, from outside the gateway. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../../common/sys/clock.h"
#include "../roles.h"
#include "chain.h"

static int usage(FILE *f)
{
	fprintf(f, "usage: sallyport logs [-f] [--sandbox NAME] [--denied] [--since TIME] [--host HOST] [--json] [--state DIR]\n       sallyport logs verify [DIR]\n");
	return 2;
}

static bool state_dir(char out[4096], const char *arg)
{
	const char *env = getenv("SALLYPORT_STATE"), *x = getenv("XDG_STATE_HOME"), *home = getenv("HOME");

	if (arg == NULL && env != NULL && env[0])
		arg = env;
	if (arg != NULL)
		snprintf(out, 4096, "%s", arg);
	else if (geteuid() == 0)
		snprintf(out, 4096, "/var/lib/sallyport");
	else if (x != NULL && x[0] == '/')
		snprintf(out, 4096, "%s/sallyport", x);
	else if (home != NULL && home[0] == '/')
		snprintf(out, 4096, "%s/.local/state/sallyport", home);
	else
		return false;
	return true;
}

static int only_logs(const struct dirent *e)
{
	size_t n = strlen(e->d_name);

	return strncmp(e->d_name, "audit", 5) == 0 && n > 6 && strcmp(e->d_name + n - 6, ".jsonl") == 0;
}

/* Rotated ones first (audit-N), the current one (audit.jsonl) last: '-' sorts before '.'. */
static int list_files(const char *dir, struct dirent ***out) { return scandir(dir, out, only_logs, alphasort); }

/* --- verify -------------------------------------------------------------------------------------------------------- */

static int cmd_verify(const char *dir)
{
	char path[4400], prev[CHAIN_HEX + 1];
	uint8_t key[CHAIN_KEY_LEN];
	struct dirent **files = NULL;
	size_t lines = 0, since_checkpoint = 0, checkpoints = 0, cap = 0;
	char *line = NULL;
	int n, ret = 0, fd;
	FILE *f;

	snprintf(path, sizeof(path), "%s/chain.key", dir);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, key, sizeof(key)) != (ssize_t)sizeof(key)) {
		fprintf(stderr, "sallyport: cannot read the chain key %s: %s\n", path, fd < 0 ? strerror(errno) : "too short");
		return 1;
	}
	close(fd);
	n = list_files(dir, &files);
	if (n <= 0) {
		fprintf(stderr, "sallyport: there are no records in %s\n", dir);
		return 1;
	}
	memset(prev, '0', CHAIN_HEX);
	prev[CHAIN_HEX] = 0;
	for (int i = 0; i < n; i++) {
		size_t no = 0;
		ssize_t k;

		snprintf(path, sizeof(path), "%s/%s", dir, files[i]->d_name);
		free(files[i]);
		if (ret != 0)
			continue;
		f = fopen(path, "re");
		if (f == NULL) {
			fprintf(stderr, "sallyport: cannot open %s: %s\n", path, strerror(errno));
			ret = 1;
			continue;
		}
		while (ret == 0 && (k = getline(&line, &cap, f)) > 0) {
			enum chain_verdict v;

			no++;
			if (line[k - 1] != '\n') {
				fprintf(stderr, "%s:%zu: the last record is cut off\n", path, no);
				ret = 1;
				break;
			}
			v = chain_check(str_mk(line, (size_t)k - 1), key, prev);
			if (v != CHAIN_OK) {
				fprintf(stderr, "%s:%zu: %s\n", path, no,
					v == CHAIN_BAD_FORM ? "this line is not a chained record" : v == CHAIN_BAD_PREV ? "records before this one were removed, added or moved" : "this record was changed");
				ret = 1;
				break;
			}
			lines++;
			since_checkpoint++;
			if (strstr(line, "\"kind\":\"checkpoint\"") != NULL) {
				checkpoints++;
				since_checkpoint = 0;
			}
		}
		fclose(f);
	}
	free(files);
	free(line);
	if (ret == 0)
		printf("ok: %zu records, %zu checkpoints; the %zu behind the last checkpoint could be cut off without being missed\n", lines, checkpoints, since_checkpoint);
	return ret;
}

/* --- reading ------------------------------------------------------------------------------------------------------- */

struct want {
	const char *sandbox, *host;
	bool denied, json, follow;
	uint64_t since_ms;
};

static const char *get(json_t *o, const char *a, const char *b, const char *c)
{
	const char *s;

	o = json_object_get(o, a);
	if (b != NULL)
		o = json_object_get(o, b);
	if (c != NULL)
		o = json_object_get(o, c);
	s = json_string_value(o);
	return s ? s : "";
}

/* Records are one line of escaped text, but a terminal obeys what is decoded: controls are shown as '?'. */
static void show(const char *s)
{
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (c < 0x20 || c == 0x7f || (c == 0xc2 && (unsigned char)s[1] < 0xa0))
			putchar('?');
		else
			putchar(c);
	}
}

static void print_line(const char *text, const struct want *w)
{
	json_t *o = json_loads(text, 0, NULL), *own, *secrets, *e;
	json_int_t time;
	const char *kind, *decision, *sandbox, *host;
	char stamp[64];
	time_t t;
	struct tm tm;
	size_t i;

	if (o == NULL)
		return;
	own = json_object_get(json_object_get(o, "unmapped"), "sallyport");
	kind = get(own, "kind", NULL, NULL);
	decision = get(own, "decision", NULL, NULL);
	sandbox = get(o, "src_endpoint", "name", NULL);
	host = get(o, "dst_endpoint", "hostname", NULL);
	time = json_integer_value(json_object_get(o, "time"));
	if ((w->sandbox != NULL && strcmp(sandbox, w->sandbox) != 0) || (w->host != NULL && strcmp(host, w->host) != 0) || (w->denied && strcmp(decision, "deny") != 0) || (uint64_t)time < w->since_ms)
		goto out;
	if (w->json) {
		fputs(text, stdout);
		goto out;
	}
	t = (time_t)(time / 1000);
	gmtime_r(&t, &tm);
	strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", &tm);
	printf("%s.%03dZ ", stamp, (int)(time % 1000));
	show(sandbox);
	printf(" %s", decision[0] ? decision : kind);
	if (strcmp(kind, "request") == 0) {
		json_t *code = json_object_get(json_object_get(o, "http_response"), "code");

		putchar(' ');
		show(get(o, "http_request", "http_method", NULL)[0] ? get(o, "http_request", "http_method", NULL) : "-");
		putchar(' ');
		if (host[0]) {
			show(get(json_object_get(o, "http_request"), "url", "scheme", NULL));
			fputs("://", stdout);
			show(host);
			show(get(json_object_get(o, "http_request"), "url", "path", NULL));
		} else {
			putchar('-');
		}
		if (code != NULL)
			printf(" %d", (int)json_integer_value(code));
	} else {
		printf(" %s", decision[0] ? kind : "");
		if (host[0]) {
			putchar(' ');
			show(host);
		}
	}
	if (get(own, "code", NULL, NULL)[0]) {
		putchar(' ');
		show(get(own, "code", NULL, NULL));
	}
	if (get(own, "reason", NULL, NULL)[0]) {
		fputs(" (", stdout);
		show(get(own, "reason", NULL, NULL));
		putchar(')');
	}
	if (get(o, "firewall_rule", "uid", NULL)[0]) {
		fputs(" rule=\"", stdout);
		show(get(o, "firewall_rule", "uid", NULL));
		putchar('"');
	}
	if (get(own, "source", NULL, NULL)[0]) {
		fputs(" at ", stdout);
		show(get(own, "source", NULL, NULL));
	}
	secrets = json_object_get(own, "secrets");
	json_array_foreach(secrets, i, e) {
		fputs(i ? "," : " secrets=", stdout);
		show(json_string_value(e) ? json_string_value(e) : "");
	}
	if (get(o, "message", NULL, NULL)[0]) {
		fputs(": ", stdout);
		show(get(o, "message", NULL, NULL));
	}
	putchar('\n');
out:
	json_decref(o);
}

static bool parse_since(const char *s, uint64_t *ms)
{
	char *end;
	unsigned long long v = strtoull(s, &end, 10);
	uint64_t unit = *end == 's' ? 1000 : *end == 'm' ? 60000 : *end == 'h' ? 3600000 : *end == 'd' ? 86400000 : 0;

	if (end == s || unit == 0 || end[1] != 0)
		return false;
	*ms = clock_wall_ms() - v * unit;
	return true;
}

static int cmd_read(const char *dir, const struct want *w)
{
	struct dirent **files = NULL;
	char path[4400], *line = NULL;
	size_t cap = 0;
	int n = list_files(dir, &files);
	FILE *f = NULL;

	if (n <= 0) {
		fprintf(stderr, "sallyport: there are no records in %s%s%s\n", dir, n < 0 ? ": " : "", n < 0 ? strerror(errno) : "");
		return 1;
	}
	for (int i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, files[i]->d_name);
		free(files[i]);
		if (f != NULL)
			fclose(f);
		f = fopen(path, "re");
		if (f == NULL) {
			fprintf(stderr, "sallyport: cannot open %s: %s\n", path, strerror(errno));
			continue;
		}
		while (getline(&line, &cap, f) > 0)
			print_line(line, w);
	}
	free(files);
	while (w->follow && f != NULL && fflush(stdout) == 0) {
		struct timespec ts = { 0, 200000000 };

		nanosleep(&ts, NULL);
		clearerr(f);
		while (getline(&line, &cap, f) > 0)
			print_line(line, w);
	}
	if (f != NULL)
		fclose(f);
	free(line);
	return 0;
}

int logs_main(int argc, char **argv)
{
	static const struct option options[] = { { "sandbox", 1, NULL, 'n' }, { "denied", 0, NULL, 'd' }, { "since", 1, NULL, 's' }, { "host", 1, NULL, 'h' },
		{ "json", 0, NULL, 'j' }, { "state", 1, NULL, 'S' }, { "help", 0, NULL, '?' + 128 }, { NULL, 0, NULL, 0 } };
	struct want w = { 0 };
	const char *state = NULL;
	char dir[4096], audit[4200];
	int o;

	while ((o = getopt_long(argc, argv, "f", options, NULL)) != -1) {
		switch (o) {
		case 'f':
			w.follow = true;
			break;
		case 'n':
			w.sandbox = optarg;
			break;
		case 'd':
			w.denied = true;
			break;
		case 's':
			if (!parse_since(optarg, &w.since_ms)) {
				fprintf(stderr, "sallyport: --since takes a time such as 90s, 10m, 2h, 1d\n");
				return 2;
			}
			break;
		case 'h':
			w.host = optarg;
			break;
		case 'j':
			w.json = true;
			break;
		case 'S':
			state = optarg;
			break;
		case '?' + 128:
			usage(stdout);
			return 0;
		default:
			return usage(stderr);
		}
	}
	if (!state_dir(dir, state)) {
		fprintf(stderr, "sallyport: neither --state, SALLYPORT_STATE, XDG_STATE_HOME nor HOME says where the state directory is\n");
		return 2;
	}
	snprintf(audit, sizeof(audit), "%s/audit", dir);
	if (optind < argc && strcmp(argv[optind], "verify") == 0)
		return argc - optind > 2 ? usage(stderr) : cmd_verify(argc - optind == 2 ? argv[optind + 1] : audit);
	if (optind < argc)
		return usage(stderr);
	return cmd_read(audit, &w);
}
