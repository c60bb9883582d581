/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The start: everything that the gateway works with is found, checked and opened here, before a role runs. What is wrong
 * is an error that names the file; nothing that is missing beside existing state is made anew.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../common/base/ip.h"
#include "../../common/base/must.h"
#include "../../common/policy/format.h"
#include "../../common/policy/image.h"
#include "../../common/sys/clock.h"
#include "../../common/sys/log.h"
#include "../../common/sys/pathcheck.h"
#include "../../common/sys/statedir.h"
#include "supervisor.h"

#define TRUST_MAX (64u << 20)
#define KEY_LEN 32
#define LOCK_WAIT_MS 6000 /* for one that is on its way out */

static int make_dir(const char *path, mode_t mode, struct err *err)
{
	struct stat st;

	if (mkdir(path, mode) != 0 && errno != EEXIST)
		return err_errno(err, "cannot make the directory %s", path);
	if (stat(path, &st) != 0)
		return err_errno(err, "cannot look at %s", path);
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 022))
		return err_set(err, EPERM, "%s must be a directory that belongs to uid %u and that nobody else can write; chown and chmod it, or name another state directory", path, (unsigned)geteuid());
	return 0;
}

/* mkdir -p for the default places; only the last is ours. */
static int make_path(char *path, struct err *err)
{
	for (char *p = path + 1; *p; p++) {
		if (*p != '/')
			continue;
		*p = 0;
		if (mkdir(path, 0755) != 0 && errno != EEXIST) {
			err_errno(err, "cannot make the directory %s", path);
			*p = '/';
			return -1;
		}
		*p = '/';
	}
	return make_dir(path, 0700, err);
}

static int put(char out[4096], struct err *err, const char *a, const char *b)
{
	return snprintf(out, 4096, "%s%s", a, b) < 4000 ? 0 : err_set(err, ENAMETOOLONG, "the path %.200s... is too long", a);
}

/* The state's directory, and that of the socket: beside the state when it was named, else where the system keeps sockets. */
int startup_dirs(struct startup *s, const char *arg, struct err *err)
{
	const char *env = getenv("SALLYPORT_STATE"), *run = getenv("XDG_RUNTIME_DIR");
	bool named = arg != NULL || (env != NULL && env[0]);
	char found[4096], cwd[2048];

	if (state_dir(found, arg, err) < 0)
		return -1;
	if (found[0] == '/') {
		if (put(s->state_dir, err, found, "") < 0)
			return -1;
	} else if (getcwd(cwd, sizeof(cwd)) == NULL) {
		return err_errno(err, "cannot tell the working directory");
	} else if (snprintf(s->state_dir, sizeof(s->state_dir), "%s/%s", cwd, found) >= 4000) {
		return err_set(err, ENAMETOOLONG, "the path of the state directory is too long");
	}
	if (!named && s->as_root)
		return put(s->run_dir, err, "/run/sallyport", "");
	if (!named && run != NULL && run[0] == '/')
		return put(s->run_dir, err, run, "/sallyport");
	return put(s->run_dir, err, s->state_dir, "/run");
}

static int open_dirs(struct startup *s, const char *arg, struct err *err)
{
	if (startup_dirs(s, arg, err) < 0 || make_path(s->state_dir, err) < 0 || make_path(s->run_dir, err) < 0)
		return -1;
	s->state_fd = open(s->state_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (s->state_fd < 0)
		return err_errno(err, "cannot open %s", s->state_dir);
	s->run_fd = open(s->run_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (s->run_fd < 0)
		return err_errno(err, "cannot open %s", s->run_dir);
	return 0;
}

static int lock_state(struct startup *s, struct err *err)
{
	s->lock_fd = openat(s->state_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (s->lock_fd < 0)
		return err_errno(err, "cannot open %s/lock", s->state_dir);
	for (unsigned waited = 0; flock(s->lock_fd, LOCK_EX | LOCK_NB) != 0; waited += 10) {
		struct timespec ms10 = { 0, 10000000 };

		if (errno != EWOULDBLOCK)
			return err_errno(err, "cannot lock %s/lock", s->state_dir);
		if (waited >= (s->auto_end ? LOCK_WAIT_MS : LOCK_WAIT_MS / 2))
			return err_set(err, EBUSY, "another gateway serves the state directory %s (its lock is held); there is one chain of records per state directory", s->state_dir);
		nanosleep(&ms10, NULL);
	}
	return 0;
}

/* Runs `sallyport-ca ARG...` and waits; in/out: -1 or descriptors for its standard input and output. */
static int run_beside(struct startup *s, char *const argv[], int in, int out, struct err *err)
{
	int status;
	pid_t pid = fork();

	if (pid < 0)
		return err_errno(err, "cannot start %s", argv[0]);
	if (pid == 0) {
		char *envp[] = { NULL };
		int dir = fcntl(s->program_dir_fd, F_DUPFD_CLOEXEC, 10);

		if (in >= 0)
			dup2(in, 0);
		if (out >= 0)
			dup2(out, 1);
		syscall(SYS_execveat, dir, argv[0], argv, envp, 0);
		_exit(126);
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return err_errno(err, "%s", argv[0]);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return err_set(err, EIO, "%s %s failed (see its words above)", argv[0], argv[1]);
	return 0;
}

static int open_ca(struct startup *s, struct err *err)
{
	struct stat st;
	char *argv[] = { (char *)"sallyport-ca", (char *)"init", (char *)"--state", s->state_dir, NULL };
	bool key = fstatat(s->state_fd, "ca/ca.key", &st, AT_SYMLINK_NOFOLLOW) == 0;
	bool other = fstatat(s->state_fd, "ca", &st, AT_SYMLINK_NOFOLLOW) == 0 || fstatat(s->state_fd, "audit", &st, AT_SYMLINK_NOFOLLOW) == 0;

	if (!key) {
		if (other)
			return err_set(err, ENOENT, "%s/ca/ca.key is missing beside existing state; no new CA is made silently. Restore the key; if it is lost for good, `sallyport ca rotate --drop-old` makes a CA that nobody trusts yet", s->state_dir);
		if (run_beside(s, argv, -1, -1, err) < 0)
			return -1;
	}
	return cas_open(s, err);
}

/* The log and its slots change hands when uid_base was changed. The key stays ours: audit gets it as a descriptor. */
static int give_audit(struct startup *s, uid_t audit_uid, struct err *err)
{
	struct stat st;
	struct dirent *e;
	DIR *d;
	int fd, ret = 0;

	if (fstat(s->audit_dir_fd, &st) != 0)
		return err_errno(err, "cannot look at %s/audit", s->state_dir);
	if (st.st_uid == audit_uid)
		return 0;
	fd = openat(s->audit_dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	d = fd >= 0 ? fdopendir(fd) : NULL;
	if (d == NULL) {
		if (fd >= 0)
			close(fd);
		return err_errno(err, "cannot read %s/audit", s->state_dir);
	}
	while (ret == 0 && (e = readdir(d)) != NULL) {
		if (strncmp(e->d_name, "audit", 5) != 0 && strncmp(e->d_name, "inflight.", 9) != 0)
			continue;
		/* plain files with one name only: never something that somebody linked in */
		if (fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 1 &&
			fchownat(fd, e->d_name, audit_uid, audit_uid, AT_SYMLINK_NOFOLLOW) != 0)
			ret = err_errno(err, "cannot give %s/audit/%s to the audit role", s->state_dir, e->d_name);
	}
	closedir(d);
	if (ret == 0 && fchown(s->audit_dir_fd, audit_uid, audit_uid) != 0)
		ret = err_errno(err, "cannot give %s/audit to the audit role", s->state_dir);
	return ret;
}

/* A key of KEY_LEN octets in dir, made when it is not there. -1: err tells. */
static int open_key(int dir, const char *name, const char *shown, struct err *err)
{
	uint8_t key[KEY_LEN];
	struct stat st;
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd >= 0) {
		random_fill(key, sizeof(key));
		if (write(fd, key, sizeof(key)) != (ssize_t)sizeof(key) || fsync(fd) != 0) {
			err_errno(err, "cannot write %s", shown);
			close(fd);
			unlinkat(dir, name, 0);
			return -1;
		}
		close(fd);
		explicit_bzero(key, sizeof(key));
	} else if (errno != EEXIST) {
		return err_errno(err, "cannot make %s", shown);
	}
	fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return err_errno(err, "cannot open %s", shown);
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == KEY_LEN && st.st_uid == geteuid() && !(st.st_mode & 077))
		return fd;
	close(fd);
	return err_set(err, EPERM, "%s must be %d octets that belong to uid %u with mode 0600", shown, KEY_LEN, (unsigned)geteuid());
}

static int open_audit(struct startup *s, uid_t audit_uid, struct err *err)
{
	char shown[sizeof(s->state_dir) + 32];
	struct stat st;

	if (mkdirat(s->state_fd, "audit", 0700) != 0 && errno != EEXIST)
		return err_errno(err, "cannot make %s/audit", s->state_dir);
	s->audit_dir_fd = openat(s->state_fd, "audit", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (s->audit_dir_fd < 0)
		return err_errno(err, "cannot open %s/audit", s->state_dir);
	if (s->as_root && give_audit(s, audit_uid, err) < 0)
		return -1;
	if (fstatat(s->audit_dir_fd, "chain.key", &st, AT_SYMLINK_NOFOLLOW) != 0 && fstatat(s->audit_dir_fd, "audit.jsonl", &st, AT_SYMLINK_NOFOLLOW) == 0)
		return err_set(err, ENOENT, "%s/audit/chain.key is missing beside existing records; a new key would break their chain. Restore it, or move %s/audit away to begin another chain", s->state_dir, s->state_dir);
	snprintf(shown, sizeof(shown), "%s/audit/chain.key", s->state_dir);
	s->chain_key_fd = open_key(s->audit_dir_fd, "chain.key", shown, err);
	return s->chain_key_fd < 0 ? -1 : 0;
}

/* What placeholders are derived from: without it, all of them are others from now on, and what a tool stored is of no use. */
static int open_placeholder_key(struct startup *s, struct err *err)
{
	char shown[sizeof(s->state_dir) + 32];

	snprintf(shown, sizeof(shown), "%s/placeholder.key", s->state_dir);
	s->placeholder_key_fd = open_key(s->state_fd, "placeholder.key", shown, err);
	return s->placeholder_key_fd < 0 ? -1 : 0;
}

static int pack_trust(struct startup *s, struct err *err)
{
	char *argv[] = { (char *)"sallyport-ca", (char *)"pack-trust", (char *)"--state", s->state_dir, NULL }; /* our own CA never vouches for an upstream */
	const char *file = s->config.trust[0] ? s->config.trust : "/etc/ssl/certs/ca-certificates.crt";
	int in = open(file, O_RDONLY | O_CLOEXEC), out;
	struct stat st;

	if (in < 0) {
		if (s->config.trust[0] || errno != ENOENT)
			return err_errno(err, "cannot open the trust anchors %s", file);
		log_info("there is no %s: only destinations with a CA of their own (tls: {ca: FILE}) can be reached", file);
		in = open("/dev/null", O_RDONLY | O_CLOEXEC);
	}
	out = memfd_create("sallyport-trust", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (out < 0 || run_beside(s, argv, in, out, err) < 0) {
		close(in);
		return out < 0 ? err_errno(err, "memfd") : err_wrap(err, "trust anchors %s", file);
	}
	close(in);
	if (fstat(out, &st) != 0 || st.st_size == 0 || st.st_size > TRUST_MAX || fcntl(out, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0)
		return err_set(err, EIO, "the packed trust anchors are unusable");
	s->trust_fd = out;
	return 0;
}

/* A boundary of the operator's: compiled anew at each start, unless it is a table already. What it is is looked at by checkers. Sealed, or -1. */
static int open_boundary(struct startup *s, char *file, struct err *err)
{
	char out[4200];
	char *argv[] = { (char *)"sallyport-policy", (char *)"compile", (char *)"-o", out, file, NULL };
	const char *table = file;
	uint8_t magic[4] = { 0 };
	int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), null, ret;

	if (fd < 0)
		return err_errno(err, "cannot open the boundary %s", file);
	if (pread(fd, magic, sizeof(magic), 16) != (ssize_t)sizeof(magic) || le32(magic) != IMAGE_MAGIC) {
		close(fd);
		snprintf(out, sizeof(out), "%s/policies/.boundary.%d", s->state_dir, (int)getpid());
		null = open("/dev/null", O_RDWR | O_CLOEXEC);
		ret = run_beside(s, argv, null, -1, err);
		if (null >= 0)
			close(null);
		if (ret < 0)
			return err_wrap(err, "the boundary %s", file);
		table = out;
		fd = open(out, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
		unlink(out);
		if (fd < 0)
			return err_errno(err, "cannot open %s", table);
	}
	ret = generation_seal(fd, err);
	close(fd);
	return ret < 0 ? err_wrap(err, "the boundary %s", file) : ret;
}

static int open_boundaries(struct startup *s, struct err *err)
{
	struct config *c = &s->config;

	s->boundary_fd = -1;
	if (c->boundary[0] != 0 && (s->boundary_fd = open_boundary(s, c->boundary, err)) < 0)
		return -1;
	for (unsigned i = 0; i < c->folder_n; i++)
		if (c->folders[i].boundary[0] != 0 && (c->folders[i].boundary_fd = open_boundary(s, c->folders[i].boundary, err)) < 0)
			return -1;
	return 0;
}

int startup_open_credentials(const struct startup *s, struct err *err)
{
	const char *file = s->config.proxy_credentials;
	int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd < 0)
		return err_errno(err, "cannot open the upstream proxy's credentials %s", file);
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || (st.st_uid != geteuid() && st.st_uid != 0) || (st.st_mode & 077)) {
		close(fd);
		return err_set(err, EPERM, "the upstream proxy's credentials %s must be a regular file that belongs to uid %u (or root) with mode 0600", file, (unsigned)geteuid());
	}
	return fd;
}

/* With Vault: the file of accessors, and what its certificate is verified with. */
static int open_vault(struct startup *s, struct err *err)
{
	const struct config_vault *v = &s->config.vault;
	const char *credentials = getenv("CREDENTIALS_DIRECTORY");

	s->accessors_fd = s->vault_ca_fd = -1;
	if (credentials != NULL && credentials[0] == '/' && strlen(credentials) < sizeof(s->credentials))
		snprintf(s->credentials, sizeof(s->credentials), "%s", credentials);
	if (v->n == 0)
		return 0;
	s->accessors_fd = openat(s->state_fd, "vault.accessors", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (s->accessors_fd < 0)
		return err_errno(err, "cannot open %s/vault.accessors", s->state_dir);
	if (v->ca[0] == 0)
		return 0;
	s->vault_ca_fd = path_open_trusted(v->ca, true, "Vault's ca", err);
	return s->vault_ca_fd < 0 ? -1 : 0;
}

/* The system's name servers: only the nameserver lines count. */
static void read_resolv_conf(char dns[DNS_TEXT_MAX])
{
	FILE *f = fopen("/etc/resolv.conf", "re");
	char line[512], addr[64];

	dns[0] = 0;
	while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
		struct ip ip;

		/* a line with a zone (fe80::1%eth0) is left out: the dialer has no interfaces by name */
		if (sscanf(line, "nameserver %63s", addr) == 1 && ip_parse(str_of(addr), &ip) && strlen(dns) + IP_TEXT_MAX + 4 < DNS_TEXT_MAX) {
			size_t used = strlen(dns);

			snprintf(dns + used, DNS_TEXT_MAX - used, "%s 53\n", addr);
		}
	}
	if (f != NULL)
		fclose(f);
	if (dns[0] == 0)
		snprintf(dns, DNS_TEXT_MAX, "127.0.0.1 53\n"); /* what libc does as well */
}

bool startup_dns_changed(struct startup *s)
{
	char dns[DNS_TEXT_MAX];

	if (!s->system_dns)
		return false;
	read_resolv_conf(dns);
	if (strcmp(dns, s->config.dns) == 0)
		return false;
	memcpy(s->config.dns, dns, sizeof(dns));
	return true;
}

int startup_prepare(struct startup *s, const char *state_arg, uid_t audit_uid, struct err *err)
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	if (n <= 0)
		return err_errno(err, "cannot tell where sallyport-proxy stands (is /proc mounted?)");
	self[n] = 0;
	slash = strrchr(self, '/');
	MUST(slash != NULL);
	*slash = 0;
	s->program_dir_fd = open(self[0] ? self : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (s->program_dir_fd < 0)
		return err_errno(err, "cannot open %s", self);
	if (open_dirs(s, state_arg, err) < 0 || lock_state(s, err) < 0 || open_ca(s, err) < 0 || open_audit(s, audit_uid, err) < 0 || open_placeholder_key(s, err) < 0 || pack_trust(s, err) < 0 || open_vault(s, err) < 0)
		return -1;
	if (s->config.proxy_credentials[0] != 0) {
		int fd = startup_open_credentials(s, err);

		if (fd < 0)
			return -1;
		close(fd);
	}
	s->proxy_ca_fd = -1;
	if (s->config.proxy_ca[0] != 0 && (s->proxy_ca_fd = path_open_trusted(s->config.proxy_ca, true, "the upstream proxy's ca", err)) < 0)
		return -1;
	s->system_dns = s->config.dns[0] == 0;
	if (s->system_dns)
		read_resolv_conf(s->config.dns);
	if ((mkdirat(s->state_fd, "policies", 0700) != 0 && errno != EEXIST) || (mkdirat(s->state_fd, "sandboxes", 0700) != 0 && errno != EEXIST))
		return err_errno(err, "cannot make directories in %s", s->state_dir);
	return open_boundaries(s, err);
}
