/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_LAUNCH_SECCOMP_H
#define SP_LAUNCH_SECCOMP_H
/*
 * The system calls a sandboxed program may make: an allow list in the manner of the container runtimes' default, as
 * classic BPF assembled here (building it with libseccomp costs 0.5 ms, this some microseconds).
 */
#include <linux/filter.h>
#include <stddef.h>

#include "../common/base/err.h"

#define SECCOMP_INSNS_MAX 2048
struct seccomp_program {
	struct sock_filter insn[SECCOMP_INSNS_MAX];
	size_t n;
};
void seccomp_build(struct seccomp_program *p); /* no system call */
/* Needs no_new_privs. */
int seccomp_load(struct err *err);
#endif
