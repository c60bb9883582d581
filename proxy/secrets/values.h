/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_SECRETS_VALUES_H
#define SP_SECRETS_VALUES_H
/*
 * The values of one sandbox's secrets under one generation of its policy, as they are now: had from the source that the table names, through a token's
 * end-point where one is to be obtained, kept no longer than they are good. One question to a source is under way at a
 * time for each, however many wait for it.
 */
#include <jansson.h>

#include "http.h"
#include "rotation.h"
#include "source.h"
#include "token.h"
#include "vault.h"

#define VALUE_CAUSE_MAX 300
#define VALID_MAX_MS 60000 /* a worker asks again at the latest then */
#define VALID_FILE_MS 1000
#define REFRESH_DEFAULT_S 300

struct values;
struct values_host {
	struct loop *loop;
	struct http *http;
	struct rotations *rotations;
	struct ipc *const *sup;
	uint32_t *execs;				    /* numbers of EXECUTE */
	void (*withdraw)(void *arg, uint32_t secret_index); /* what was released of it is not to be used any more */
	bool (*revoked)(void *arg, struct str name); /* by the operator: it is not to be had */
	bool (*multiline)(void *arg, uint32_t secret_index); /* it is in PEM, and stands in no head */
	void *arg;
};
struct values *values_new(const struct values_host *h, uint32_t sandbox, uint32_t generation);
void values_free(struct values *v, bool ended); /* ended: with the sandbox, whose leases its session ends */
struct sources *values_sources(struct values *v);
/* What secrets of Vault are read with, from now on; lives longer than v. */
void values_vault(struct values *v, struct vault_session *s);
/* fn is called once, perhaps at once: the value, borrowed, and how long it may be used without asking; or NULL and why. */
typedef void values_fn(void *arg, const struct secret *value, uint32_t valid_ms, const char *cause);
void values_get(struct values *v, const struct table *t, uint32_t index, values_fn *fn, void *arg);
void values_cancel(struct values *v, const void *arg);
void values_executed(struct values *v, uint32_t id, bool ok, struct str text);
/* Takes what was had of the secrets with this name (empty: of all) out of use. How many there were. */
unsigned values_drop(struct values *v, const struct table *t, struct str name, const char *why);
/* One object for each secret that values_get was called for, appended: where from, until when, which lease, why not. */
void values_report(const struct values *v, uint32_t index, json_t *to);
#endif
