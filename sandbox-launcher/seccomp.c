/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation. The filter is part of the network exit's control, not only hardening: AF_VSOCK, AF_PACKET and
 * netlink families other than routing are not (or not wholly) bound by a network namespace, so socket() is refused for
 * everything but unix, inet and inet6 (protocol 0, TCP, UDP) and netlink protocol 0.
 *
 * Whatever is not listed answers ENOSYS, so that a libc which knows newer calls than we do falls back; what is known and
 * refused answers EPERM. Arguments are compared by their lower 32 bits wherever the kernel takes an int or unsigned int:
 * the upper half is ignored there too.
 */
#include "seccomp.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../common/base/must.h"

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#else
#error "the seccomp filter knows x86_64 and aarch64"
#endif

#define ALLOW SECCOMP_RET_ALLOW
#define REFUSE (SECCOMP_RET_ERRNO | EPERM)
#define UNKNOWN (SECCOMP_RET_ERRNO | ENOSYS)
#define NO_FAMILY (SECCOMP_RET_ERRNO | EAFNOSUPPORT)

/* Calls that no argument makes dangerous without a capability, which a payload does not have. */
static const int allowed[] = {
#define C(name) __NR_##name,
#ifdef __x86_64__
	C(access) C(alarm) C(arch_prctl) C(chown) C(dup2) C(epoll_create) C(epoll_wait) C(epoll_ctl_old) C(epoll_wait_old) C(eventfd) C(fork) C(futimesat)
	C(getdents) C(getpgrp) C(inotify_init) C(lchown) C(link) C(lstat) C(mkdir) C(pause) C(pipe) C(poll) C(readlink) C(rename) C(rmdir) C(select)
	C(signalfd) C(stat) C(symlink) C(time) C(unlink) C(utime) C(utimes) C(vfork)
#endif
	C(accept) C(accept4) C(bind) C(brk) C(capget) C(capset) C(chdir) C(clock_getres) C(clock_gettime) C(clock_nanosleep) C(close) C(close_range) C(connect) C(copy_file_range)
	C(dup) C(dup3) C(epoll_create1) C(epoll_ctl) C(epoll_pwait) C(epoll_pwait2) C(eventfd2) C(execve) C(execveat) C(exit) C(exit_group) C(faccessat) C(faccessat2)
	C(fadvise64) C(fallocate) C(fchdir) C(fchown) C(fchownat) C(fcntl) C(fdatasync) C(fgetxattr) C(flistxattr) C(flock) C(fremovexattr) C(fsetxattr) C(fstat)
	C(fstatfs) C(fsync) C(ftruncate) C(futex) C(get_mempolicy) C(get_robust_list) C(getcpu) C(getcwd) C(getdents64) C(getegid) C(geteuid) C(getgid) C(getgroups)
	C(getitimer) C(getpeername) C(getpgid) C(getpid) C(getppid) C(getpriority) C(getrandom) C(getresgid) C(getresuid) C(getrlimit) C(getrusage) C(getsid)
	C(getsockname) C(getsockopt) C(gettid) C(gettimeofday) C(getuid) C(getxattr) C(inotify_add_watch) C(inotify_init1) C(inotify_rm_watch) C(io_cancel) C(io_destroy)
	C(io_getevents) C(io_pgetevents) C(io_setup) C(io_submit) C(ioprio_get) C(ioprio_set) C(kill) C(landlock_add_rule) C(landlock_create_ruleset) C(landlock_restrict_self)
	C(lgetxattr) C(linkat) C(listen) C(listxattr) C(llistxattr) C(lremovexattr) C(lseek) C(lsetxattr) C(madvise) C(mbind) C(membarrier) C(memfd_create) C(mincore)
	C(mkdirat) C(mlock) C(mlock2) C(mlockall) C(mmap) C(mprotect) C(mq_getsetattr) C(mq_notify) C(mq_open) C(mq_timedreceive) C(mq_timedsend) C(mq_unlink) C(mremap)
	C(msgctl) C(msgget) C(msgrcv) C(msgsnd) C(msync) C(munlock) C(munlockall) C(munmap) C(nanosleep) C(newfstatat) C(pidfd_open) C(pidfd_send_signal) C(pipe2)
	C(pkey_alloc) C(pkey_free) C(pkey_mprotect) C(ppoll) C(prctl) C(pread64) C(preadv) C(preadv2) C(prlimit64) C(process_madvise) C(process_mrelease) C(pselect6)
	C(pwrite64) C(pwritev) C(pwritev2) C(read) C(readahead) C(readlinkat) C(readv) C(recvfrom) C(recvmmsg) C(recvmsg) C(remap_file_pages) C(removexattr) C(renameat)
	C(renameat2) C(restart_syscall) C(rseq) C(rt_sigaction) C(rt_sigpending) C(rt_sigprocmask) C(rt_sigqueueinfo) C(rt_sigreturn) C(rt_sigsuspend) C(rt_sigtimedwait)
	C(rt_tgsigqueueinfo) C(sched_get_priority_max) C(sched_get_priority_min) C(sched_getaffinity) C(sched_getattr) C(sched_getparam) C(sched_getscheduler)
	C(sched_rr_get_interval) C(sched_setaffinity) C(sched_setattr) C(sched_setparam) C(sched_setscheduler) C(sched_yield) C(seccomp) C(semctl) C(semget) C(semop)
	C(semtimedop) C(sendfile) C(sendmmsg) C(sendmsg) C(sendto) C(set_mempolicy) C(set_robust_list) C(set_tid_address) C(setfsgid) C(setfsuid) C(setgid) C(setgroups)
	C(setitimer) C(setpgid) C(setpriority) C(setregid) C(setresgid) C(setresuid) C(setreuid) C(setrlimit) C(setsid) C(setsockopt) C(setuid) C(setxattr) C(shmat)
	C(shmctl) C(shmdt) C(shmget) C(shutdown) C(sigaltstack) C(signalfd4) C(splice) C(statfs) C(statx) C(symlinkat) C(sync) C(sync_file_range) C(syncfs) C(sysinfo)
	C(tee) C(tgkill) C(timer_create) C(timer_delete) C(timer_getoverrun) C(timer_gettime) C(timer_settime) C(timerfd_create) C(timerfd_gettime) C(timerfd_settime)
	C(times) C(tkill) C(truncate) C(umask) C(uname) C(unlinkat) C(utimensat) C(vmsplice) C(wait4) C(waitid) C(write) C(writev)
#undef C
	/* Calls younger than the oldest kernel headers we build with, by their number (the same on every architecture). */
	449 /* futex_waitv */, 451 /* cachestat */, 453 /* map_shadow_stack */, 454 /* futex_wake */, 455 /* futex_wait */, 456 /* futex_requeue */,
	462 /* mseal */, 463 /* setxattrat */, 464 /* getxattrat */, 465 /* listxattrat */, 466 /* removexattrat */,
};
#define NR_FCHMODAT2 452

/* Known and refused, whatever the arguments: other processes, the kernel's configuration, mounts, keyrings. */
static const int refused[] = {
#define C(name) __NR_##name,
#ifdef __x86_64__
	C(ioperm) C(iopl) C(modify_ldt) C(sysfs) C(uselib) C(ustat) C(create_module) C(get_kernel_syms) C(query_module) C(_sysctl)
#endif
	C(acct) C(add_key) C(adjtimex) C(bpf) C(chroot) C(clock_adjtime) C(clock_settime) C(delete_module) C(fanotify_init) C(fanotify_mark) C(finit_module) C(fsconfig)
	C(fsmount) C(fsopen) C(fspick) C(init_module) C(kcmp) C(kexec_file_load) C(kexec_load) C(keyctl) C(lookup_dcookie) C(memfd_secret) C(migrate_pages) C(mount)
	C(mount_setattr) C(move_mount) C(move_pages) C(name_to_handle_at) C(nfsservctl) C(open_by_handle_at) C(open_tree) C(perf_event_open) C(pidfd_getfd) C(pivot_root)
	C(process_vm_readv) C(process_vm_writev) C(ptrace) C(quotactl) C(quotactl_fd) C(reboot) C(request_key) C(set_mempolicy_home_node) C(setdomainname) C(sethostname)
	C(setns) C(settimeofday) C(swapoff) C(swapon) C(syslog) C(umount2) C(userfaultfd) C(vhangup)
#undef C
};

#define NEW_NAMESPACES (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | 0x80 /* CLONE_NEWTIME */)
#define NEW_NAMESPACES_CLONE (NEW_NAMESPACES & ~0x80) /* for clone() these bits are the exit signal */
#define SET_ID (S_ISUID | S_ISGID)
#define O_TMPFILE_BIT 020000000
#ifndef TIOCLINUX
#define TIOCLINUX 0x541C
#endif

static void put(struct seccomp_program *p, uint16_t code, uint32_t k, uint8_t jt, uint8_t jf)
{
	MUST(p->n < SECCOMP_INSNS_MAX);
	p->insn[p->n++] = (struct sock_filter){ code, jt, jf, k };
}

/* The lower half of an argument (little-endian machines). */
static void load_arg(struct seccomp_program *p, unsigned i) { put(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)(offsetof(struct seccomp_data, args) + 8 * i), 0, 0); }
static void ret(struct seccomp_program *p, uint32_t action) { put(p, BPF_RET | BPF_K, action, 0, 0); }
/* If the accumulator is v: action. */
static void when(struct seccomp_program *p, uint32_t v, uint32_t action)
{
	put(p, BPF_JMP | BPF_JEQ | BPF_K, v, 0, 1);
	ret(p, action);
}
static void when_any_bit(struct seccomp_program *p, uint32_t bits, uint32_t action)
{
	put(p, BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1);
	ret(p, action);
}
/*
 * The program: a binary search over ranges of numbers, then the blocks for calls whose arguments matter. A linear list
 * would make the kernel's own preparation (it tries every number once) cost 0.4 ms.
 */
enum { AS_ACTION = -1 };
struct call { /* what one number leads to */
	uint32_t nr;
	uint32_t action; /* if block is AS_ACTION */
	int block;       /* index into blocks */
};
#define CALLS_MAX 512
#define BLOCKS_MAX 32
struct builder {
	struct seccomp_program *p;
	struct call calls[CALLS_MAX];
	size_t n;
	size_t block_at[BLOCKS_MAX];             /* where each block begins */
	size_t fix[BLOCKS_MAX];                  /* jumps to blocks, patched at the end */
	int fix_block[BLOCKS_MAX];
	size_t fix_n;
};

static void add(struct builder *b, int nr, uint32_t action, int block)
{
	MUST(b->n < CALLS_MAX);
	b->calls[b->n++] = (struct call){ (uint32_t)nr, action, block };
}

/* A mode argument that would make a file set-user-id or set-group-id: it would outlive the sandbox in a writable share. */
static void block_set_id(struct seccomp_program *p, unsigned arg)
{
	load_arg(p, arg);
	when_any_bit(p, SET_ID, REFUSE);
	ret(p, ALLOW);
}

/* The mode counts only when a file may be created; otherwise the register holds whatever was left there. */
static void block_set_id_open(struct seccomp_program *p, unsigned flags_arg)
{
	load_arg(p, flags_arg);
	put(p, BPF_JMP | BPF_JSET | BPF_K, O_CREAT | O_TMPFILE_BIT, 1, 0);
	ret(p, ALLOW);
	load_arg(p, flags_arg + 1);
	when_any_bit(p, SET_ID, REFUSE);
	ret(p, ALLOW);
}

static void block_socket(struct seccomp_program *p, unsigned arg)
{
	(void)arg;
	load_arg(p, 0);
	when(p, AF_UNIX, ALLOW);
	put(p, BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 0, 4);
	load_arg(p, 2);
	when(p, 0, ALLOW); /* routing */
	ret(p, REFUSE);
	put(p, BPF_JMP | BPF_JEQ | BPF_K, AF_INET, 2, 0);
	put(p, BPF_JMP | BPF_JEQ | BPF_K, AF_INET6, 1, 0);
	ret(p, NO_FAMILY);
	/* Stream and datagram only: a SEQPACKET of protocol 0 is SCTP. */
	load_arg(p, 1);
	put(p, BPF_ALU | BPF_AND | BPF_K, 0xf, 0, 0);
	put(p, BPF_JMP | BPF_JEQ | BPF_K, SOCK_STREAM, 2, 0);
	put(p, BPF_JMP | BPF_JEQ | BPF_K, SOCK_DGRAM, 1, 0);
	ret(p, REFUSE);
	load_arg(p, 2);
	when(p, 0, ALLOW);
	when(p, 6, ALLOW);  /* TCP */
	when(p, 17, ALLOW); /* UDP */
	ret(p, REFUSE);
}

static void block_socketpair(struct seccomp_program *p, unsigned arg)
{
	load_arg(p, arg);
	when(p, AF_UNIX, ALLOW);
	ret(p, NO_FAMILY);
}

static void block_clone(struct seccomp_program *p, unsigned arg)
{
	load_arg(p, arg);
	when_any_bit(p, NEW_NAMESPACES_CLONE, REFUSE);
	ret(p, ALLOW);
}

static void block_unshare(struct seccomp_program *p, unsigned arg)
{
	load_arg(p, arg);
	when_any_bit(p, NEW_NAMESPACES, REFUSE);
	ret(p, ALLOW);
}

/* Execution domains: none but the ordinary ones, with or without address randomisation (debuggers). */
static void block_personality(struct seccomp_program *p, unsigned arg)
{
	load_arg(p, arg);
	when(p, 0xffffffff, ALLOW);
	when(p, 0, ALLOW);
	when(p, 0x0040000, ALLOW); /* ADDR_NO_RANDOMIZE */
	when(p, 8, ALLOW);         /* PER_LINUX32: setarch */
	ret(p, REFUSE);
}

static void block_ioctl(struct seccomp_program *p, unsigned arg)
{
	load_arg(p, arg);
	when(p, TIOCSTI, REFUSE);   /* types into the terminal */
	when(p, TIOCLINUX, REFUSE); /* pastes into the console */
	when(p, TIOCSETD, REFUSE);  /* line disciplines: kernel modules on demand */
	ret(p, ALLOW);
}

static const struct {
	int nr;
	void (*emit)(struct seccomp_program *p, unsigned arg);
	unsigned arg; /* the argument that decides */
} blocks[] = {
	{ __NR_socket, block_socket, 0 }, { __NR_socketpair, block_socketpair, 0 }, { __NR_clone, block_clone, 0 }, { __NR_unshare, block_unshare, 0 },
	{ __NR_personality, block_personality, 0 }, { __NR_ioctl, block_ioctl, 1 }, { __NR_fchmod, block_set_id, 1 }, { __NR_fchmodat, block_set_id, 2 },
	{ NR_FCHMODAT2, block_set_id, 2 }, { __NR_mknodat, block_set_id, 2 }, { __NR_openat, block_set_id_open, 2 },
#ifdef __x86_64__
	{ __NR_chmod, block_set_id, 1 }, { __NR_creat, block_set_id, 1 }, { __NR_mknod, block_set_id, 1 }, { __NR_open, block_set_id_open, 1 },
#endif
};
#define BLOCKS (sizeof(blocks) / sizeof(blocks[0]))

static int by_number(const void *a, const void *b)
{
	const struct call *x = a, *y = b;

	return x->nr < y->nr ? -1 : x->nr > y->nr;
}

/* One entry for each number, sorted, become ranges: [calls[i].nr, calls[i + 1].nr) has calls[i]'s fate. */
static void make_ranges(struct builder *b)
{
	struct call out[CALLS_MAX * 2];
	size_t n = 0;
	uint32_t next = 0;

	qsort(b->calls, b->n, sizeof(b->calls[0]), by_number);
	for (size_t i = 0; i < b->n; i++) {
		const struct call *c = &b->calls[i];

		MUST(i == 0 || c->nr != b->calls[i - 1].nr); /* a call stands in one list only */
		if (c->nr > next && (n == 0 || out[n - 1].block != AS_ACTION || out[n - 1].action != UNKNOWN))
			out[n++] = (struct call){ next, UNKNOWN, AS_ACTION };
		if (n == 0 || c->block != AS_ACTION || out[n - 1].block != AS_ACTION || out[n - 1].action != c->action)
			out[n++] = *c;
		next = c->nr + 1;
	}
	out[n++] = (struct call){ next, UNKNOWN, AS_ACTION };
	MUST(n <= CALLS_MAX);
	memcpy(b->calls, out, n * sizeof(out[0]));
	b->n = n;
}

static void emit_search(struct builder *b, size_t from, size_t to)
{
	size_t mid = from + (to - from) / 2, far;

	if (to - from > 1) {
		put(b->p, BPF_JMP | BPF_JGE | BPF_K, b->calls[mid].nr, 0, 1);
		far = b->p->n;
		put(b->p, BPF_JMP | BPF_JA, 0, 0, 0); /* jumps further than 255 need this form */
		emit_search(b, from, mid);
		b->p->insn[far].k = (uint32_t)(b->p->n - far - 1);
		emit_search(b, mid, to);
		return;
	}
	if (b->calls[from].block == AS_ACTION) {
		ret(b->p, b->calls[from].action);
		return;
	}
	b->fix[b->fix_n] = b->p->n;
	b->fix_block[b->fix_n++] = b->calls[from].block;
	put(b->p, BPF_JMP | BPF_JA, 0, 0, 0);
}

void seccomp_build(struct seccomp_program *p)
{
	static struct builder b;

	b = (struct builder){ .p = p };
	p->n = 0;
	for (size_t i = 0; i < sizeof(allowed) / sizeof(allowed[0]); i++)
		add(&b, allowed[i], ALLOW, AS_ACTION);
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		add(&b, refused[i], REFUSE, AS_ACTION);
	for (size_t i = 0; i < BLOCKS; i++)
		add(&b, blocks[i].nr, 0, (int)i);
	/* Not listed, so ENOSYS: clone3 (its flags are behind a pointer), openat2 (its mode too), io_uring, and the unknown. */
	make_ranges(&b);
	put(p, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch), 0, 0);
	put(p, BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0);
	ret(p, SECCOMP_RET_KILL_PROCESS);
	put(p, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0); /* x32 numbers lie beyond all ranges */
	emit_search(&b, 0, b.n);
	for (size_t i = 0; i < BLOCKS; i++) {
		b.block_at[i] = p->n;
		blocks[i].emit(p, blocks[i].arg);
	}
	for (size_t i = 0; i < b.fix_n; i++)
		p->insn[b.fix[i]].k = (uint32_t)(b.block_at[b.fix_block[i]] - b.fix[i] - 1);
}

int seccomp_load(struct err *err)
{
	static struct seccomp_program p;
	struct sock_fprog f;

	seccomp_build(&p);
	f = (struct sock_fprog){ .len = (unsigned short)p.n, .filter = p.insn };
	if (syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, 0, &f) != 0)
		return err_errno(err, "seccomp filter");
	return 0;
}
