/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_LAUNCH_SAY_H
#define SP_LAUNCH_SAY_H
/*
 * What the launcher itself says: always on standard error (standard output is the command's), coloured on a terminal
 * only, and as JSON lines for programs (--json, --status-fd).
 */
#include <stdbool.h>
#include <stdint.h>

struct say {
	bool quiet;     /* notes are kept to ourselves; errors never are */
	bool json;      /* events as JSON lines on standard error, notes left out */
	int status_fd;  /* events as JSON lines there too; -1 none */
};
void say_setup(const struct say *how);
void say_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void say_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void say_started(uint32_t sandbox, const char *name, int pid, const char *policy);
/* refused < 0: not known. reason: "exit", "signal", "timeout", "error"; text: for "error", or NULL. */
void say_exited(int status, const char *reason, int64_t refused, const char *text);
#endif
