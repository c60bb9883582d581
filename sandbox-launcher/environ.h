/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_LAUNCH_ENVIRON_H
#define SP_LAUNCH_ENVIRON_H
/* The environment of the payload: made anew, nothing is inherited but what is named. */
#include "options.h"
#include "plan.h"

struct environ_secrets { /* what the policy's table says */
	const char *source[PLAN_PATHS_MAX];  /* variables that hold secrets: never passed in */
	unsigned source_n;
	const char *variable[PLAN_PATHS_MAX], *secret[PLAN_PATHS_MAX]; /* inject `env:`: NAME, and the secret it stands for */
	const char *template[PLAN_PATHS_MAX]; /* {}, {key_id}, {key} or {session} is where its placeholder goes */
	unsigned variable_n;
};
/* Sets p->envp, and the file TRUSTDIR/env for shells that clear their environment. 0, or -1. */
int environ_plan(struct plan *p, const struct plan_wish *w, const struct options *o, const struct environ_secrets *s, const char *sandbox_name, struct err *err);
/* The value of a variable, in the plan, until the gateway has told its placeholder. */
#define ENVIRON_PENDING "sallyport-placeholder-"
/* NAME=value\0 of each variable that holds a placeholder, now that they are told (common/placeholder.h); a memfd, or -1. */
int environ_placeholders(const struct environ_secrets *s, struct str told, struct err *err);
/* Puts what stands in such a file over the pending ones; in pid 1. */
bool environ_take(char **envp, int fd);
/* NAME=value\0 of each named variable that is set, for the gateway; a sealed memfd, or -1. */
int environ_sources(const struct environ_secrets *s, struct err *err);
/* Overwrites this process's whole initial environment: pid 1 inside is a copy of us. */
void environ_wipe(void);
#endif
