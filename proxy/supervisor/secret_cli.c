/* SPDX-License-Identifier: Apache-2.0 */
/* `sallyport secret`: what secrets can be had, from where, until when; taking one out of use. A value is never shown. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "supervisor.h"

#define ANSWER_MS 30000

static int usage(FILE *f, int status)
{
	fprintf(f, "usage: sallyport secret check [--json] [--state DIR] [--sandbox NAME] [SECRET]\n"
		   "       sallyport secret revoke [--state DIR] [--sandbox NAME] SECRET\n"
		   "       sallyport secret forget [--state DIR] [--sandbox NAME] [SECRET]\n");
	return status;
}

/* By way of the directory's descriptor: a path may be longer than a socket address holds. */
static int reach(const char *state, struct err *err)
{
	static struct startup s;
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int dir, fd;

	s.as_root = geteuid() == 0;
	if (startup_dirs(&s, state, err) < 0)
		return -1;
	dir = open(s.run_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	snprintf(sa.sun_path, sizeof(sa.sun_path), "/proc/self/fd/%d/control.sock", dir);
	if (dir < 0 || fd < 0 || connect(fd, (struct sockaddr *)&sa, sizeof(sa)) != 0) {
		if (fd >= 0)
			close(fd);
		fd = -1;
		err_set(err, ENOENT, "no gateway serves %s (it runs with the first sandbox, or by `sallyport serve`)", s.state_dir);
	}
	if (dir >= 0)
		close(dir);
	return fd;
}

static json_t *ask(int fd, json_t *question, struct err *err)
{
	static char in[65536];
	char *text = json_dumps(question, JSON_COMPACT);
	struct pollfd p = { .fd = fd, .events = POLLIN };
	json_t *o = NULL;
	ssize_t n = -1;
	int r = 0;

	json_decref(question);
	if (text != NULL && send(fd, text, strlen(text), MSG_NOSIGNAL) > 0)
		r = poll(&p, 1, ANSWER_MS);
	if (r > 0)
		n = recv(fd, in, sizeof(in), 0);
	free(text);
	if (n > 0)
		o = json_loadb(in, (size_t)n, JSON_REJECT_DUPLICATES, NULL);
	if (!json_is_object(o)) {
		json_decref(o);
		err_set(err, EIO, "the gateway gives no answer");
		return NULL;
	}
	if (json_object_get(o, "error") != NULL) {
		const char *why = json_string_value(json_object_get(json_object_get(o, "error"), "message"));

		err_set(err, EINVAL, "%s", why != NULL ? why : "the gateway refuses");
		json_decref(o);
		return NULL;
	}
	return o;
}

static void print_time(json_int_t s)
{
	if (s >= 7200)
		printf(", for %lld h", (long long)(s / 3600));
	else if (s >= 120)
		printf(", for %lld min", (long long)(s / 60));
	else
		printf(", for %lld s", (long long)s);
}

static const char *text(json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s != NULL ? s : "";
}

/* 1 when one of them cannot be had. */
static int print(json_t *ok)
{
	json_t *list = json_object_get(ok, "secrets"), *vault = json_object_get(ok, "vault"), *e;
	int status = 0;
	size_t i;

	if (vault != NULL) {
		printf("Vault %s: %s", text(vault, "address"), text(vault, "state"));
		if (json_object_get(vault, "token_for_s") != NULL)
			print_time(json_integer_value(json_object_get(vault, "token_for_s")));
		printf("\n");
	}
	json_array_foreach(list, i, e)
	{
		const char *token = text(e, "token"), *field = text(e, "field"), *lease = text(e, "lease"), *cause = text(e, "cause");
		bool available = json_is_true(json_object_get(e, "available"));

		printf("%s: %s: %s %s%s%s%s%s: %s", text(e, "sandbox"), text(e, "secret"), text(e, "source"), text(e, "from"), field[0] ? ", field " : "", field, token[0] ? ", as " : "", token, available ? "available" : "NOT AVAILABLE");
		if (json_object_get(e, "for_s") != NULL)
			print_time(json_integer_value(json_object_get(e, "for_s")));
		printf("%s%s%s%s\n", lease[0] ? ", lease " : "", lease, cause[0] ? ": " : "", cause);
		status |= !available;
	}
	if (json_array_size(list) == 0)
		printf("no sandbox that runs now has such a secret\n");
	return status;
}

int secret_main(int argc, char **argv)
{
	static const struct option options[] = { { "json", 0, NULL, 'j' }, { "state", 1, NULL, 's' }, { "sandbox", 1, NULL, 'b' }, { "help", 0, NULL, 'h' }, { NULL, 0, NULL, 0 } };
	const char *state = NULL, *sandbox = NULL, *verb, *name;
	struct err err = ERR_INIT;
	bool as_json = false;
	json_t *q, *answer, *ok;
	int o, fd, status = 0;

	while ((o = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (o == 'j')
			as_json = true;
		else if (o == 's')
			state = optarg;
		else if (o == 'b')
			sandbox = optarg;
		else
			return usage(o == 'h' ? stdout : stderr, o == 'h' ? 0 : 2);
	}
	verb = optind < argc ? argv[optind++] : "";
	name = optind < argc ? argv[optind++] : NULL;
	if (optind != argc || (strcmp(verb, "check") != 0 && strcmp(verb, "forget") != 0 && (strcmp(verb, "revoke") != 0 || name == NULL)))
		return usage(stderr, 2);
	fd = reach(state, &err);
	if (fd < 0)
		goto bad;
	q = json_pack("{s:i,s:s,s:s}", "id", 1, "op", "secret", "verb", verb);
	if (name != NULL)
		json_object_set_new(q, "name", json_string(name));
	if (sandbox != NULL)
		json_object_set_new(q, "sandbox", json_string(sandbox));
	answer = ask(fd, q, &err);
	close(fd);
	if (answer == NULL)
		goto bad;
	ok = json_object_get(answer, "ok");
	if (json_object_get(ok, "error") != NULL) {
		err_set(&err, E2BIG, "%s", text(ok, "error"));
		json_decref(answer);
		goto bad;
	}
	if (as_json) {
		json_dumpf(ok, stdout, JSON_COMPACT);
		printf("\n");
	}
	if (strcmp(verb, "check") == 0) {
		size_t i;
		json_t *e;

		if (!as_json)
			status = print(ok);
		else
			json_array_foreach(json_object_get(ok, "secrets"), i, e)
				status |= !json_is_true(json_object_get(e, "available"));
	} else if (json_integer_value(json_object_get(ok, "secrets")) == 0) {
		fprintf(stderr, "sallyport: no sandbox that runs now has such a secret\n");
		status = 1;
	}
	json_decref(answer);
	return status;
bad:
	fprintf(stderr, "sallyport: %s\n", err.text);
	return 1;
}
