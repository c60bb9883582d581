/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_LAUNCH_PLAN_H
#define SP_LAUNCH_PLAN_H
/*
 * What a run is going to do, as data: made by plan.c from the options and the policy's `sandbox:` section with the
 * caller's rights, printable, executed by fs.c and pid1.c inside the new namespaces.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "../common/base/arena.h"
#include "../common/base/err.h"

enum view_kind {
	VIEW_NONE = 0,
	VIEW_DIR,     /* an empty directory of the scratch layer */
	VIEW_LINK,    /* a symbolic link to `source` */
	VIEW_FILE,    /* a file with `data` */
	VIEW_OPAQUE,  /* a directory that replaces the host's of the same name inside an overlay */
	VIEW_OVERLAY, /* the host's directory below a layer that is thrown away */
	VIEW_DEV,     /* one device node of the host */
	VIEW_PTS,     /* an own devpts */
	VIEW_PROC,    /* an own /proc */
	VIEW_SYS,     /* an own /sys, read-only */
	VIEW_READ,    /* the host's path, read-only */
	VIEW_WRITE,   /* the host's path, read-write */
	VIEW_HIDE,    /* nothing: an empty read-only directory or file over it */
	VIEW_SELF,    /* a directory of a writable share bound onto itself, so that it cannot be renamed away */
	VIEW_PROTECT, /* a path of a writable share, read-only */
	VIEW_KINDS
};
struct view_op {
	enum view_kind kind;
	mode_t mode;
	int source_fd;      /* READ, WRITE: a detached mount made before root was given up; -1: open `source` inside */
	const char *path;   /* absolute, in the sandbox */
	const char *source; /* absolute, on the host */
	struct str data;    /* FILE */
};
#define VIEW_MAX 1024

/* The policy's `sandbox:` section as the launcher uses it. Zero means the default. */
#define PLAN_PATHS_MAX 64
#define RUNPOLICY_DEPS_MAX 256 /* files that one policy is read from */
struct plan_wish {
	const char *write[PLAN_PATHS_MAX], *read[PLAN_PATHS_MAX], *hide[PLAN_PATHS_MAX], *protect[PLAN_PATHS_MAX];
	unsigned write_n, read_n, hide_n, protect_n;
	bool write_default;      /* the policy does not say: the working directory */
	enum { HOME_TOOLS = 0, HOME_EMPTY, HOME_HOST } home;
	const char *user;        /* name or number, or NULL */
	const char *keep[PLAN_PATHS_MAX], *set_name[PLAN_PATHS_MAX], *set_value[PLAN_PATHS_MAX];
	unsigned keep_n, set_n;
	uint64_t scratch, memory, processes, open_files, wall_ms;
	bool stop_on_loss;       /* on_gateway_loss: stop */
	bool require_overlay, require_tproxy, require_landlock;
};

struct plan {
	struct arena mem;
	/* who */
	uid_t uid;
	gid_t gid;
	bool was_root;
	/* where */
	const char *cwd, *home;      /* real paths on the host, the same inside */
	const char *command;         /* as found on PATH, absolute; NULL: not found here */
	/* the file view */
	struct view_op view[VIEW_MAX];
	unsigned view_n;
	bool view_full;
	const char *writable[PLAN_PATHS_MAX * 2]; /* for Landlock */
	unsigned writable_n;
	uint64_t scratch;
	const char **sockets;        /* host sockets below shared folders, to be masked */
	unsigned sockets_n;
	/* limits */
	uint64_t memory, processes, open_files, wall_ms;
	bool stop_on_loss, require_overlay, require_tproxy, require_landlock;
	/* what runs */
	char **argv, **envp;
	bool tty;                    /* standard input and output are a terminal: give it one of its own */
};

/* Paths that must never be seen or changed from inside. */
struct plan_secrets {
	const char *paths[PLAN_PATHS_MAX];    /* covered: state directory, secret files, configuration */
	unsigned n;
	const char *policies[RUNPOLICY_DEPS_MAX + 1]; /* read-only inside: policy files in use, and what they name */
	unsigned policies_n;
	const char *program_dir;              /* our own programs */
};

/* uid and gid of the payload (launcher.h order: process.user, owner of cwd, SUDO_UID, "sallyport", 60999). */
int plan_user(struct plan *p, const struct plan_wish *w, struct err *err);
/* The whole view. Must be called with the caller's rights, before plan_drop. */
int plan_view(struct plan *p, const struct plan_wish *w, const struct plan_secrets *s, bool allow_home, struct err *err);
/* One file more in the view, e.g. resolv.conf. Data is copied. */
void plan_file(struct plan *p, const char *path, struct str data, mode_t mode);
void plan_op(struct plan *p, enum view_kind kind, const char *path, const char *source, mode_t mode);
/* Root only: gives it up for good. */
int plan_drop(const struct plan *p, struct err *err);
void plan_print(const struct plan *p, FILE *f);

/* Whether the view so far shows what the host has at this path. */
bool plan_shows(const struct plan *p, const char *path);
bool path_within(const char *path, const char *dir); /* path is dir or below it */
#endif
