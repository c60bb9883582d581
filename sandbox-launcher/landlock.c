/* SPDX-License-Identifier: Apache-2.0 */
#include "landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The kernel's numbers, written out: the headers of the oldest system we build on stop at ABI 2. */
#define EXECUTE (1ULL << 0)
#define WRITE_FILE (1ULL << 1)
#define READ_FILE (1ULL << 2)
#define READ_DIR (1ULL << 3)
#define MAKE_CHAR (1ULL << 6)
#define MAKE_BLOCK (1ULL << 11)
#define ABI1_FS ((1ULL << 13) - 1)
#define REFER (1ULL << 13)     /* ABI 2 */
#define TRUNCATE (1ULL << 14)  /* ABI 3 */
#define IOCTL_DEV (1ULL << 15) /* ABI 5 */
#define SCOPE_ABSTRACT_UNIX (1ULL << 0) /* ABI 6 */
#define SCOPE_SIGNAL (1ULL << 1)
#define CREATE_VERSION 1u
#define RULE_PATH_BENEATH 1

struct ruleset_attr {
	uint64_t handled_fs, handled_net, scoped;
};
struct path_attr {
	uint64_t allowed;
	int32_t fd;
} __attribute__((packed));

int landlock_abi(void)
{
	long n = syscall(__NR_landlock_create_ruleset, NULL, 0, CREATE_VERSION);

	return n < 0 ? 0 : (int)n;
}

static int allow(int ruleset, const char *path, uint64_t rights, struct err *err)
{
	struct path_attr a = { .allowed = rights, .fd = open(path, O_PATH | O_CLOEXEC) };
	struct stat st;
	int r = 0;

	if (a.fd < 0)
		return 0; /* a path that is not there needs no rule */
	if (fstat(a.fd, &st) == 0 && !S_ISDIR(st.st_mode))
		a.allowed &= EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV;
	if (syscall(__NR_landlock_add_rule, ruleset, RULE_PATH_BENEATH, &a, 0) != 0)
		r = err_errno(err, "Landlock rule for %s", path);
	close(a.fd);
	return r;
}

int landlock_confine(const char *const *writable, size_t n, bool *in_force, struct err *err)
{
	int abi = landlock_abi(), fd, r = -1;
	uint64_t all = ABI1_FS | (abi >= 2 ? REFER : 0) | (abi >= 3 ? TRUNCATE : 0) | (abi >= 5 ? IOCTL_DEV : 0);
	struct ruleset_attr a = { .handled_fs = all, .scoped = abi >= 6 ? SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL : 0 };
	size_t size = abi >= 6 ? sizeof(a) : abi >= 4 ? 2 * sizeof(uint64_t) : sizeof(uint64_t);

	*in_force = false;
	if (abi == 0)
		return 0;
	fd = (int)syscall(__NR_landlock_create_ruleset, &a, size, 0);
	if (fd < 0)
		return err_errno(err, "Landlock");
	if (allow(fd, "/", EXECUTE | READ_FILE | READ_DIR | (all & REFER), err) < 0)
		goto out;
	for (size_t i = 0; i < n; i++)
		if (allow(fd, writable[i], all & ~(MAKE_CHAR | MAKE_BLOCK), err) < 0)
			goto out;
	if (syscall(__NR_landlock_restrict_self, fd, 0) != 0) {
		err_errno(err, "Landlock");
		goto out;
	}
	*in_force = true;
	r = 0;
out:
	close(fd);
	return r;
}
