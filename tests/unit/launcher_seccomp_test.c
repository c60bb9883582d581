/* SPDX-License-Identifier: Apache-2.0 */
/* The filter, run by an interpreter of our own: what each call and argument gets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "../../sandbox-launcher/seccomp.h"

#ifdef __x86_64__
#define ARCH AUDIT_ARCH_X86_64
#else
#define ARCH AUDIT_ARCH_AARCH64
#endif
#define ALLOW SECCOMP_RET_ALLOW
#define REFUSE (SECCOMP_RET_ERRNO | EPERM)
#define UNKNOWN (SECCOMP_RET_ERRNO | ENOSYS)
#define NO_FAMILY (SECCOMP_RET_ERRNO | EAFNOSUPPORT)

static struct seccomp_program prog;

static uint32_t run(const struct seccomp_data *d)
{
	uint32_t a = 0;

	for (size_t pc = 0; pc < prog.n; pc++) {
		const struct sock_filter *i = &prog.insn[pc];

		switch (i->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			assert_true(i->k + 4 <= sizeof(*d) && i->k % 4 == 0);
			memcpy(&a, (const char *)d + i->k, 4);
			break;
		case BPF_JMP | BPF_JEQ | BPF_K:
			pc += a == i->k ? i->jt : i->jf;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			pc += a >= i->k ? i->jt : i->jf;
			break;
		case BPF_JMP | BPF_JSET | BPF_K:
			pc += a & i->k ? i->jt : i->jf;
			break;
		case BPF_JMP | BPF_JA:
			pc += i->k;
			break;
		case BPF_ALU | BPF_AND | BPF_K:
			a &= i->k;
			break;
		case BPF_RET | BPF_K:
			return i->k;
		default:
			fail_msg("instruction %#x", i->code);
		}
	}
	fail_msg("ran off the end");
	return 0;
}

static uint32_t call(long nr, uint64_t a0, uint64_t a1, uint64_t a2)
{
	struct seccomp_data d = { .nr = (int)nr, .arch = ARCH, .args = { a0, a1, a2 } };

	return run(&d);
}

static void sockets(void **state)
{
	static const struct { int family, type, protocol; uint32_t want; } rows[] = {
		{ AF_UNIX, SOCK_STREAM, 0, ALLOW }, { AF_UNIX, SOCK_SEQPACKET, 0, ALLOW }, { AF_INET, SOCK_STREAM, 0, ALLOW }, { AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 6, ALLOW },
		{ AF_INET6, SOCK_DGRAM, 17, ALLOW }, { AF_INET6, SOCK_DGRAM, 0, ALLOW }, { AF_NETLINK, SOCK_RAW, 0, ALLOW }, { AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, 0, ALLOW },
		{ AF_NETLINK, SOCK_RAW, 12, REFUSE }, { AF_NETLINK, SOCK_RAW, 6, REFUSE }, { AF_NETLINK, SOCK_RAW, AF_INET, REFUSE }, { AF_NETLINK, SOCK_RAW, 16, REFUSE },
		{ AF_INET, SOCK_RAW, 1, REFUSE }, { AF_INET, SOCK_RAW, 0, REFUSE }, { AF_INET, SOCK_DGRAM, 1, REFUSE }, { AF_INET, SOCK_STREAM, 262, REFUSE }, { AF_INET, SOCK_DGRAM, 136, REFUSE },
		{ AF_INET, SOCK_SEQPACKET, 0, REFUSE }, { AF_INET, SOCK_STREAM, 132, REFUSE }, { AF_VSOCK, SOCK_STREAM, 0, NO_FAMILY }, { AF_PACKET, SOCK_RAW, 0, NO_FAMILY },
		{ AF_ALG, SOCK_SEQPACKET, 0, NO_FAMILY }, { AF_BLUETOOTH, SOCK_RAW, 0, NO_FAMILY }, { AF_TIPC, SOCK_RDM, 0, NO_FAMILY }, { 0, 0, 0, NO_FAMILY }, { -1, -1, -1, NO_FAMILY },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint32_t got = call(__NR_socket, (uint32_t)rows[i].family, (uint32_t)rows[i].type, (uint32_t)rows[i].protocol);

		if (got != rows[i].want)
			fail_msg("socket(%d, %d, %d): %#x, not %#x", rows[i].family, rows[i].type, rows[i].protocol, got, rows[i].want);
	}
	/* The kernel looks at 32 bits only. */
	assert_int_equal(call(__NR_socket, 0xdead00000000ULL | AF_VSOCK, SOCK_STREAM, 0), NO_FAMILY);
	assert_int_equal(call(__NR_socketpair, AF_UNIX, SOCK_STREAM, 0), ALLOW);
	assert_int_equal(call(__NR_socketpair, AF_TIPC, SOCK_STREAM, 0), NO_FAMILY);
}

static void processes(void **state)
{
	static const uint64_t ns[] = { CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET };

	(void)state;
	assert_int_equal(call(__NR_clone, CLONE_VM | CLONE_THREAD | CLONE_SIGHAND, 0, 0), ALLOW);
	assert_int_equal(call(__NR_clone, 17 /* SIGCHLD */, 0, 0), ALLOW);
	assert_int_equal(call(__NR_unshare, CLONE_FILES | CLONE_FS, 0, 0), ALLOW);
	assert_int_equal(call(__NR_unshare, 0x80 /* CLONE_NEWTIME */, 0, 0), REFUSE);
	for (size_t i = 0; i < sizeof(ns) / sizeof(ns[0]); i++) {
		assert_int_equal(call(__NR_clone, ns[i] | 17, 0, 0), REFUSE);
		assert_int_equal(call(__NR_clone, 0xffff00000000ULL | ns[i], 0, 0), REFUSE);
		assert_int_equal(call(__NR_unshare, ns[i], 0, 0), REFUSE);
	}
	assert_int_equal(call(__NR_clone3, 0, 0, 0), UNKNOWN);
	assert_int_equal(call(__NR_personality, 0xffffffff, 0, 0), ALLOW);
	assert_int_equal(call(__NR_personality, 0x0400000 /* READ_IMPLIES_EXEC */, 0, 0), REFUSE);
	assert_int_equal(call(__NR_ptrace, 0, 0, 0), REFUSE);
	assert_int_equal(call(__NR_process_vm_readv, 0, 0, 0), REFUSE);
	assert_int_equal(call(__NR_setns, 0, 0, 0), REFUSE);
	assert_int_equal(call(__NR_ioctl, 0, TIOCSTI, 0), REFUSE);
	assert_int_equal(call(__NR_ioctl, 0, 0x100000000ULL | TIOCSTI, 0), REFUSE);
	assert_int_equal(call(__NR_ioctl, 0, 0x541C /* TIOCLINUX */, 0), REFUSE);
	assert_int_equal(call(__NR_ioctl, 0, TIOCGWINSZ, 0), ALLOW);
}

static void modes(void **state)
{
	(void)state;
	assert_int_equal(call(__NR_fchmodat, 0, 0, 0755), ALLOW);
	assert_int_equal(call(__NR_fchmodat, 0, 0, 04755), REFUSE);
	assert_int_equal(call(__NR_fchmod, 0, 02755, 0), REFUSE);
	assert_int_equal(call(__NR_fchmod, 0, 01777, 0), ALLOW);
	assert_int_equal(call(452 /* fchmodat2 */, 0, 0, 06755), REFUSE);
	assert_int_equal(call(__NR_mknodat, 0, 0, 0104755), REFUSE);
	assert_int_equal(call(__NR_openat, 0, 0, O_CREAT | O_WRONLY), ALLOW);
	{
		struct seccomp_data d = { .nr = __NR_openat, .arch = ARCH, .args = { 0, 0, O_RDONLY, 07777 } };

		assert_int_equal(run(&d), ALLOW); /* no mode is looked at */
		d.args[2] = O_CREAT | O_WRONLY;
		assert_int_equal(run(&d), REFUSE);
		d.args[2] = O_TMPFILE | O_WRONLY;
		assert_int_equal(run(&d), REFUSE);
		d.args[3] = 0644;
		assert_int_equal(run(&d), ALLOW);
	}
#ifdef __x86_64__
	assert_int_equal(call(__NR_chmod, 0, 04755, 0), REFUSE);
	assert_int_equal(call(__NR_open, 0, O_CREAT, 02755), REFUSE);
	assert_int_equal(call(__NR_creat, 0, 04755, 0), REFUSE);
	assert_int_equal(call(__NR_creat, 0, 0644, 0), ALLOW);
#endif
	assert_int_equal(call(437 /* openat2 */, 0, 0, 0), UNKNOWN);
}

static void the_rest(void **state)
{
	static const int refused[] = { __NR_mount, __NR_umount2, __NR_pivot_root, __NR_bpf, __NR_perf_event_open, __NR_keyctl, __NR_add_key, __NR_request_key, __NR_userfaultfd, __NR_init_module,
		__NR_kexec_load, __NR_open_by_handle_at, __NR_reboot, __NR_chroot, __NR_syslog };
	static const int unknown[] = { 425, 426, 427 /* io_uring */, 435, 999, 100000 };
	static const int allowed[] = { __NR_read, __NR_write, __NR_execve, __NR_exit_group, __NR_futex, __NR_mmap, __NR_connect, __NR_seccomp, __NR_statx, __NR_close_range, __NR_newfstatat };
	struct seccomp_data d = { .nr = __NR_read, .arch = ARCH };

	(void)state;
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		assert_int_equal(call(refused[i], 0, 0, 0), REFUSE);
	for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++)
		assert_int_equal(call(unknown[i], 0, 0, 0), UNKNOWN);
	for (size_t i = 0; i < sizeof(allowed) / sizeof(allowed[0]); i++)
		assert_int_equal(call(allowed[i], 0, 0, 0), ALLOW);
	d.arch = AUDIT_ARCH_I386;
	assert_int_equal(run(&d), SECCOMP_RET_KILL_PROCESS);
#ifdef __x86_64__
	assert_int_equal(call(0x40000000 | __NR_read, 0, 0, 0), UNKNOWN); /* x32 */
#endif
	assert_int_equal(call(-1, 0, 0, 0), UNKNOWN);
}

static int build(void **state)
{
	(void)state;
	seccomp_build(&prog);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(sockets), cmocka_unit_test(processes), cmocka_unit_test(modes), cmocka_unit_test(the_rest) };

	return cmocka_run_group_tests_name("launcher_seccomp", tests, build, NULL);
}
