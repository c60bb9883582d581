/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_LAUNCH_OPTIONS_H
#define SP_LAUNCH_OPTIONS_H
/* The command line of `run` as data. */
#include <stdbool.h>
#include <stdint.h>

#include "../common/base/err.h"

#define OPTIONS_ENV_MAX 256
struct options {
	const char *policy;   /* file, or NULL */
	const char *boundary;
	const char *name;
	const char *state;
	const char *gateway;  /* control socket */
	const char *workdir;
	const char *env[OPTIONS_ENV_MAX]; /* "K=V" or "K" */
	unsigned env_n;
	uint64_t timeout_ms;  /* 0 none */
	int64_t status_fd;    /* -1 none */
	bool detach, observe, allow_home, quiet, json, show_plan, help;
	char **argv;          /* the command, NULL-terminated */
	int argc;
};
/* args: what stands behind the verb. 0, or -1 with what is wrong. */
int options_parse(struct options *o, int argc, char **argv, struct err *err);
/* "30" (seconds), "500ms", "30s", "10m", "2h", "1d". */
bool options_duration(const char *s, uint64_t *ms);
bool options_name_ok(const char *s);
#endif
