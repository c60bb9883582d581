/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_SECRETS_H
#define SP_SECRETS_H
/*
 * The role that holds the sources' values and releases what is bound.
 *
 *   secrets.c  the role: links, bindings, checks
 *   source.c   where values come from: variables handed over, files handed over
 *   shape.c    what stands for a value inside
 *   events.c   one record of every release, repeats folded
 */
#include "../../common/base/str.h"
#include "../../common/policy/table.h"
#include "../../common/sys/ipc.h"
#include "../../common/sys/secret.h"
#include "shape.h"

#define SOURCES_MAX 256         /* variables or files of one sandbox */
#define ENV_BYTES_MAX (4u << 20)
#define VALID_ENV_MS 60000
#define VALID_FILE_MS 1000

/* --- source.c: of one sandbox --- */
struct sources;
struct sources *sources_new(void);
void sources_free(struct sources *s);
/* NAME=value\0 ... from a descriptor (read by offset; it stays the caller's). Replaces what was there. False: unreadable or too large. */
bool sources_env(struct sources *s, int fd);
/* Takes fd. An absolute path that is there already is replaced. False: too many. */
bool sources_file(struct sources *s, struct str path, int fd);
void sources_keep_declared(struct sources *s, const struct table *t); /* what no secret of t names is dropped */
/*
 * The value now, borrowed until the next call for the same sandbox; NULL and a cause for the operator otherwise. A file is
 * read again when it has changed; one that was removed or replaced has no value until it is handed over anew.
 */
const struct secret *sources_value(struct sources *s, const struct secret_decl *d, uint32_t *valid_ms, char cause[200]);

/* --- events.c --- */
struct events;
struct events *events_new(struct loop *l);
void events_free(struct events *e);
void events_link(struct events *e, struct ipc *audit); /* NULL: the link is gone; what is not sent waits */
bool events_ready(const struct events *e, uint32_t sandbox); /* audit can be told, and there is room to remember */
/* released: false for an attempt that was refused (cause says why). Strings are copied. */
void events_add(struct events *e, uint32_t sandbox, struct str name, struct str secret, struct str host, enum inject_kind kind, bool released, bool unbound, struct str cause);
void events_sandbox_gone(struct events *e, uint32_t sandbox); /* writes what is folded */
void events_end(struct events *e); /* writes what is folded, of all sandboxes */

int secrets_main(int link_fd);
#endif
