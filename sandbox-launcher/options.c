/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <ctype.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum kind { FLAG = 0, TEXT, DURATION, NUMBER, ENVIRONMENT };
static const struct row {
	const char *name;
	char letter;
	enum kind kind;
	size_t at;
} rows[] = {
#define AT(f) offsetof(struct options, f)
	{ "policy", 0, TEXT, AT(policy) },
	{ "boundary", 0, TEXT, AT(boundary) },
	{ "name", 0, TEXT, AT(name) },
	{ "state", 0, TEXT, AT(state) },
	{ "gateway", 0, TEXT, AT(gateway) },
	{ "env", 'e', ENVIRONMENT, 0 },
	{ "workdir", 'w', TEXT, AT(workdir) },
	{ "detach", 'd', FLAG, AT(detach) },
	{ "timeout", 0, DURATION, AT(timeout_ms) },
	{ "observe", 0, FLAG, AT(observe) },
	{ "allow-home", 0, FLAG, AT(allow_home) },
	{ "quiet", 'q', FLAG, AT(quiet) },
	{ "json", 0, FLAG, AT(json) },
	{ "status-fd", 0, NUMBER, AT(status_fd) },
	{ "show-plan", 0, FLAG, AT(show_plan) },
	{ "help", 'h', FLAG, AT(help) },
#undef AT
};

bool options_duration(const char *s, uint64_t *ms)
{
	static const struct { const char *unit; uint64_t ms; } units[] = { { "", 1000 }, { "ms", 1 }, { "s", 1000 }, { "m", 60000 }, { "h", 3600000 }, { "d", 86400000 } };
	char *end;
	uint64_t v;

	if (!isdigit((unsigned char)*s))
		return false;
	v = strtoull(s, &end, 10);
	if (end - s > 9)
		return false;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (strcmp(end, units[i].unit) == 0) {
			*ms = v * units[i].ms;
			return *ms > 0;
		}
	return false;
}

bool options_name_ok(const char *s)
{
	size_t n = strlen(s);

	if (n == 0 || n > 63 || s[0] == '-')
		return false;
	for (size_t i = 0; i < n; i++)
		if (!(s[i] >= 'a' && s[i] <= 'z') && !(s[i] >= '0' && s[i] <= '9') && s[i] != '-')
			return false;
	return true;
}

static const struct row *find(const char *arg, const char **value)
{
	*value = NULL;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		size_t n = strlen(rows[i].name);

		if (arg[1] == '-') {
			if (strncmp(arg + 2, rows[i].name, n) != 0 || (arg[2 + n] != 0 && arg[2 + n] != '='))
				continue;
			if (arg[2 + n] == '=')
				*value = arg + 3 + n;
			return &rows[i];
		}
		if (rows[i].letter != 0 && arg[1] == rows[i].letter) {
			if (arg[2] != 0)
				*value = arg + 2;
			return &rows[i];
		}
	}
	return NULL;
}

static int set(struct options *o, const struct row *r, const char *value, struct err *err)
{
	char *field = (char *)o + r->at, *end;

	switch (r->kind) {
	case FLAG:
		*(bool *)(void *)field = true;
		return 0;
	case TEXT:
		if (value[0] == 0)
			return err_set(err, 0, "--%s is empty", r->name);
		*(const char **)(void *)field = value;
		return 0;
	case DURATION:
		return options_duration(value, (uint64_t *)(void *)field) ? 0 : err_set(err, 0, "--%s %s: write a number with ms, s, m, h or d", r->name, value);
	case NUMBER:
		*(int64_t *)(void *)field = strtol(value, &end, 10);
		return *value && !*end && strlen(value) < 7 && value[0] != '-' ? 0 : err_set(err, 0, "--%s %s: not a number", r->name, value);
	case ENVIRONMENT:
		if (value[0] == 0 || value[0] == '=' || o->env_n == OPTIONS_ENV_MAX)
			return err_set(err, 0, value[0] == 0 || value[0] == '=' ? "-e %s: write NAME=VALUE or NAME" : "-e %s: too many", value);
		o->env[o->env_n++] = value;
		return 0;
	}
	return 0;
}

int options_parse(struct options *o, int argc, char **argv, struct err *err)
{
	int i = 0;

	*o = (struct options){ .status_fd = -1 };
	for (; i < argc && argv[i][0] == '-' && argv[i][1] != 0; i++) {
		const struct row *r;
		const char *value;

		if (strcmp(argv[i], "--") == 0) {
			i++;
			break;
		}
		r = find(argv[i], &value);
		if (r == NULL)
			return err_set(err, 0, "unknown option %s (see sallyport run --help)", argv[i]);
		if (r->kind == FLAG && value != NULL)
			return err_set(err, 0, "%s: --%s takes no value", argv[i], r->name);
		if (r->kind != FLAG && value == NULL && (value = argv[++i]) == NULL)
			return err_set(err, 0, "--%s needs a value", r->name);
		if (set(o, r, value, err) < 0)
			return -1;
	}
	o->argv = argv + i;
	o->argc = argc - i;
	if (o->help)
		return 0;
	if (o->detach)
		return err_set(err, 0, "--detach is for a later version of sallyport");
	if (o->name != NULL && !options_name_ok(o->name))
		return err_set(err, 0, "--name %s: lower-case letters, digits and hyphens, at most 63", o->name);
	if (o->argc == 0)
		return err_set(err, 0, "no command: sallyport run [OPTION...] [--] COMMAND ARG...");
	return 0;
}
