/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_SECRETS_SOURCE_H
#define SP_SECRETS_SOURCE_H
/*
 * Variables and files of one sandbox (0: the gateway's own files). This role opens nothing: variables are handed over when
 * the sandbox starts, and a file is looked for by the supervisor (FILE_LOOK), in the folder that was handed over with it,
 * each time when it was not looked for within the last second; so one that was replaced is read anew.
 */
#include "../../common/msg.h"
#include "../../common/sys/loop.h"
#include "../../common/sys/secret.h"

#define SOURCES_MAX 256 /* variables or files of one sandbox */
#define ENV_BYTES_MAX (4u << 20)
#define FILE_LOOK_MS 1000

struct ipc;
struct sources;
/* sup: who is asked to look; a pointer to it, as it comes and goes. */
struct sources *sources_new(struct loop *l, struct ipc *const *sup, uint32_t sandbox, uint32_t generation);
void sources_free(struct sources *s);
/* NAME=value\0 ... from a descriptor (read by offset; it stays the caller's). Replaces what was there. False: unreadable or too large. */
bool sources_env(struct sources *s, int fd);
/* Takes fd: the file as it is now. False: too many. */
bool sources_file(struct sources *s, struct str path, int fd);
void sources_file_bad(struct sources *s, struct str path, struct str cause);
struct table;
void sources_keep_declared(struct sources *s, const struct table *t); /* variables that no secret of t names are dropped */
/* What there is without asking anybody: of a variable, or of a file as it was handed over. NULL: nothing. Borrowed until the next call. */
struct secret_decl;
const struct secret *sources_now(struct sources *s, const struct secret_decl *d);
/* The value of a variable, borrowed until the next call; NULL and a cause otherwise. */
const struct secret *sources_variable(struct sources *s, struct str name, char cause[200]);
/* fn is called once, perhaps at once: the content without the line end that editors leave, borrowed; or NULL and why. */
typedef void sources_fn(void *arg, const struct secret *value, const char *cause);
void sources_file_get(struct sources *s, struct str path, sources_fn *fn, void *arg);
/* fn is not called any more. */
void sources_cancel(struct sources *s, const void *arg);
#endif
