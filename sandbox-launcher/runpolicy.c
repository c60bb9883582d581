/* SPDX-License-Identifier: Apache-2.0 */
#include "runpolicy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../common/policy/sandbox_spec.h"
#include "../common/sys/pathcheck.h"

#define TABLE_MAX (1u << 30)

static const char *text(struct runpolicy *r, struct str s) { return arena_strz(&r->mem, s); }

static void note_dep(struct runpolicy *r, const char *path)
{
	if (r->dep_n < RUNPOLICY_DEPS_MAX)
		r->deps[r->dep_n++] = text(r, str_of(path));
}

/* What the tool said, on to standard error. */
static void pass_words(struct runpolicy *r, int fd)
{
	char b[4096];
	const char *error, *line;
	ssize_t n;

	for (off_t at = 0; (n = pread(fd, b, sizeof(b) - 1, at)) > 0; at += n) {
		if (write(STDERR_FILENO, b, (size_t)n) < 0)
			return;
		b[n] = 0;
		error = r->words[0] == 0 ? strstr(b, "error: ") : NULL;
		if (error == NULL)
			continue;
		for (line = error; line > b && line[-1] != '\n'; line--)
			;
		snprintf(r->words, sizeof(r->words), "%.*s", (int)strcspn(line, "\n"), line);
	}
}

/* Runs `sallyport-policy ARG...` beside us, with a descriptor for the names of the files that it reads; its exit status, or -1. */
static int policy_tool(struct runpolicy *r, const struct gateway *g, const char *const *args, int deps, struct err *err)
{
	char program[PATH_MAX + 32], state[PATH_MAX + 32];
	int status, words = memfd_create("sallyport-words", MFD_CLOEXEC);
	pid_t pid;

	if (words < 0)
		return err_errno(err, "memfd");
	snprintf(program, sizeof(program), "%s/sallyport-policy", g->program_dir);
	snprintf(state, sizeof(state), "SALLYPORT_STATE=%s", g->state_dir);
	pid = fork();
	if (pid < 0) {
		close(words);
		return err_errno(err, "cannot start %s", program);
	}
	if (pid == 0) {
		char *envp[] = { state, NULL };
		int null = open("/dev/null", O_RDWR | O_CLOEXEC);

		dup2(null, 0);
		dup2(null, 1); /* standard output is the command's */
		dup2(words, 2);
		fcntl(deps, F_SETFD, 0);
		execve(program, (char *const *)args, envp);
		dprintf(2, "sallyport: cannot execute %s: %s\n", program, strerror(errno));
		_exit(127);
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return err_errno(err, "%s", program);
	pass_words(r, words);
	close(words);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* A sealed copy of the file, checked and opened. */
static int take_table(struct runpolicy *r, int fd, const char *name, struct err *err)
{
	uint8_t digest[TABLE_DIGEST_LEN];
	struct stat st;
	uint8_t *p;
	off_t at = 0;
	int r2;

	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
		return err_set(err, EINVAL, "%s is not a regular file", name);
	if (st.st_size == 0 || st.st_size > (off_t)TABLE_MAX)
		return err_set(err, EFBIG, "%s: %lld octets cannot be a compiled policy", name, (long long)st.st_size);
	r->table_fd = memfd_create("sallyport-table", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (r->table_fd < 0)
		return err_errno(err, "memfd");
	while (at < st.st_size) {
		char b[65536];
		ssize_t n = pread(fd, b, sizeof(b), at);

		if (n <= 0 || write(r->table_fd, b, (size_t)n) != n)
			return err_errno(err, "cannot copy %s", name);
		at += n;
	}
	if (fcntl(r->table_fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0)
		return err_errno(err, "cannot seal the table");
	p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, r->table_fd, 0);
	if (p == MAP_FAILED)
		return err_errno(err, "cannot map the table");
	r2 = table_check(p, (size_t)st.st_size, digest, err);
	munmap(p, (size_t)st.st_size);
	if (r2 < 0 || table_open(&r->table, r->table_fd, err) < 0)
		return err_wrap(err, "%s", name);
	return 0;
}

/* A compiled table begins with an LMDB page: 16 octets of header, then the magic number. */
static bool looks_compiled(int fd)
{
	uint32_t magic = 0;

	return pread(fd, &magic, sizeof(magic), 16) == (ssize_t)sizeof(magic) && magic == 0xBEEFC0DE;
}

static void take_deps(struct runpolicy *r, int fd)
{
	char b[PATH_MAX];
	ssize_t n;

	for (off_t at = 0; (n = pread(fd, b, sizeof(b), at)) > 0 && memchr(b, 0, (size_t)n) != NULL; at += (off_t)strlen(b) + 1)
		note_dep(r, b);
}

static int compile(struct runpolicy *r, const struct gateway *g, const char *yaml, const char *out, bool keep, struct err *err)
{
	/* consent is asked for on the octets that are compiled: one reading */
	char number[16];
	const char *args[] = { "sallyport-policy", "compile", "--deps", number, "-o", out, yaml, r->only_trusted ? "--trusted" : NULL, NULL };
	int deps = memfd_create("sallyport-deps", MFD_CLOEXEC), status, fd, ret;

	if (deps < 0)
		return err_errno(err, "memfd");
	snprintf(number, sizeof(number), "%d", deps);
	status = policy_tool(r, g, args, deps, err);
	take_deps(r, deps);
	close(deps);
	if (status < 0)
		return -1;
	if (status != 0) {
		unlink(out);
		return err_set(err, EINVAL, "%s is not used (see above)", yaml);
	}
	fd = open(out, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return err_errno(err, "cannot open %s", out);
	if (!keep)
		unlink(out);
	ret = take_table(r, fd, yaml, err);
	close(fd);
	return ret;
}

static int policies_dir(const struct gateway *g, char out[PATH_MAX + 16], struct err *err)
{
	snprintf(out, PATH_MAX + 16, "%s/policies", g->state_dir);
	return mkdir(out, 0700) == 0 || errno == EEXIST ? 0 : err_errno(err, "cannot make %s", out);
}

static int load_file(struct runpolicy *r, const struct gateway *g, const char *file, struct err *err)
{
	char dir[PATH_MAX + 16], out[PATH_MAX + 64];
	int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), ret; /* a pipe would have us wait */

	if (fd < 0)
		return err_errno(err, "cannot open the policy %s", file);
	if (!r->only_trusted && looks_compiled(fd)) {
		note_dep(r, file);
		ret = take_table(r, fd, file, err);
		close(fd);
		return ret;
	}
	close(fd);
	if (policies_dir(g, dir, err) < 0)
		return -1;
	snprintf(out, sizeof(out), "%s/.run.%d", dir, (int)getpid());
	return compile(r, g, file, out, false, err);
}

/* Made once per state directory. */
static int load_deny_all(struct runpolicy *r, const struct gateway *g, struct err *err)
{
	static const char yaml[] = "version: 1\nname: deny-all\ndescription: what a run without a policy gets\n";
	char dir[PATH_MAX + 16], table[PATH_MAX + 64], tmp[PATH_MAX + 96], src[PATH_MAX + 96];
	struct err ignored = ERR_INIT;
	int fd, ret;

	if (policies_dir(g, dir, err) < 0)
		return -1;
	snprintf(table, sizeof(table), "%s/deny-all.table", dir);
	fd = open(table, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd >= 0) {
		ret = take_table(r, fd, table, &ignored);
		close(fd);
		if (ret == 0)
			return 0;
		if (r->table_fd >= 0) /* of an older version, or damaged: made anew */
			close(r->table_fd);
		r->table_fd = -1;
	}
	snprintf(src, sizeof(src), "%s/.deny-all.%d.yaml", dir, (int)getpid());
	snprintf(tmp, sizeof(tmp), "%s/.deny-all.%d", dir, (int)getpid());
	fd = open(src, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0 || write(fd, yaml, sizeof(yaml) - 1) != (ssize_t)sizeof(yaml) - 1) {
		err_errno(err, "cannot write %s", src);
		if (fd >= 0)
			close(fd);
		return -1;
	}
	close(fd);
	ret = compile(r, g, src, tmp, true, err);
	unlink(src);
	if (ret == 0 && rename(tmp, table) != 0)
		unlink(tmp);
	return ret;
}

static int take_list(struct runpolicy *r, const struct str_list *from, const char **to, unsigned *n)
{
	for (unsigned i = 0; i < from->n; i++)
		to[i] = text(r, from->s[i]);
	*n = from->n;
	return 0;
}

/* One empty name stands for a list that was given and is empty. */
static void take_names(struct runpolicy *r, const struct str_list *from, const char **to, unsigned *n)
{
	*n = 0;
	for (unsigned i = 0; i < from->n; i++)
		if (from->s[i].n > 0)
			to[(*n)++] = text(r, from->s[i]);
}

static int take_spec(struct runpolicy *r, struct err *err)
{
	struct sandbox_spec *s = arena_zalloc(&r->mem, sizeof(*s));
	struct plan_wish *w = &r->wish;

	if (!sandbox_spec_load(r->table, s))
		return err_set(err, E2BIG, "the policy's sandbox: section has a list of more than %d entries", SPEC_LIST_MAX);
	if (s->isolation.n > 0 && !str_eq(s->isolation, STR("namespace")))
		return err_set(err, ENOTSUP, "sandbox: isolation: %.*s is for a later version of sallyport", (int)s->isolation.n, s->isolation.p);
	if (s->root.n > 0 && !str_eq(s->root, STR("host")))
		return err_set(err, ENOTSUP, "sandbox: filesystem: root: %.*s is for a later version of sallyport (host is what there is)", (int)s->root.n, s->root.p);
	if (s->idle_ms > 0)
		return err_set(err, ENOTSUP, "sandbox: resources: idle_time is for a later version of sallyport");
	if (str_eq(s->home, STR("host")))
		w->home = HOME_HOST;
	else if (str_eq(s->home, STR("empty")))
		w->home = HOME_EMPTY;
	else if (s->home.n > 0 && !str_eq(s->home, STR("tools")))
		return err_set(err, EINVAL, "sandbox: filesystem: home: tools, empty or host");
	take_names(r, &s->write, w->write, &w->write_n);
	w->write_default = s->write.n == 0;
	take_names(r, &s->read, w->read, &w->read_n);
	take_names(r, &s->hide, w->hide, &w->hide_n);
	take_names(r, &s->protect, w->protect, &w->protect_n);
	take_names(r, &s->keep, w->keep, &w->keep_n);
	take_list(r, &s->set_name, w->set_name, &w->set_n);
	take_list(r, &s->set_value, w->set_value, &w->set_n);
	if (s->set_value.n != s->set_name.n)
		return err_set(err, EINVAL, "sandbox: process: environment: set is damaged");
	w->user = s->user.n > 0 ? text(r, s->user) : NULL;
	w->scratch = s->scratch;
	w->memory = s->memory;
	w->processes = s->processes;
	w->open_files = s->open_files;
	w->wall_ms = s->wall_ms;
	w->stop_on_loss = str_eq(s->on_gateway_loss, STR("stop"));
	for (unsigned i = 0; i < s->require.n; i++) {
		struct str q = s->require.s[i];

		if (str_eq(q, STR("landlock")))
			w->require_landlock = true;
		else if (str_eq(q, STR("overlay")))
			w->require_overlay = true;
		else if (str_eq(q, STR("tproxy")))
			w->require_tproxy = true;
		else if (!str_eq(q, STR("seccomp")) && !str_eq(q, STR("no_new_privs")) && !str_ends(q, STR("_namespace")) && !str_eq(q, STR("namespaces")))
			return err_set(err, ENOTSUP, "sandbox: require: this launcher cannot enforce \"%.*s\"", (int)q.n, q.p);
	}
	return 0;
}

static const char *joined(struct runpolicy *r, const char *a, struct str name)
{
	struct buf b = { 0 };
	const char *s;

	buf_addz(&b, a);
	buf_adds(&b, name);
	s = text(r, buf_str(&b));
	buf_fini(&b);
	return s;
}

/* A systemd credential is the caller's: of the unit that `sallyport run` is in. */
static int take_credential(struct runpolicy *r, struct str name, struct err *err)
{
	const char *dir = getenv("CREDENTIALS_DIRECTORY");

	if (dir == NULL || dir[0] != '/')
		return err_set(err, ENOENT, "secret credential %.*s: CREDENTIALS_DIRECTORY is not set: this is no unit with systemd credentials", (int)name.n, name.p);
	r->files[r->file_n].path = joined(r, "credential:", name);
	r->files[r->file_n].place = joined(r, joined(r, dir, STR("/")), name);
	return 0;
}

/* The caller's own Vault, for a gateway that has none configured: as the vault command has it. */
static int take_vault(struct runpolicy *r, struct err *err)
{
	const char *address = getenv("VAULT_ADDR"), *ns = getenv("VAULT_NAMESPACE"), *ca = getenv("VAULT_CACERT");

	if (address == NULL || address[0] == 0)
		return 0;
	if (r->env.source_n == PLAN_PATHS_MAX)
		return err_set(err, E2BIG, "the policy has more than %d secrets from the environment", PLAN_PATHS_MAX);
	r->env.source[r->env.source_n++] = "VAULT_TOKEN";
	r->vault_address = text(r, str_of(address));
	r->vault_namespace = ns != NULL && ns[0] ? text(r, str_of(ns)) : NULL;
	if (ca == NULL || ca[0] == 0)
		return 0;
	r->vault_ca_fd = open(ca, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	return r->vault_ca_fd < 0 ? err_errno(err, "VAULT_CACERT: cannot open %s", ca) : 0;
}

static int take_secrets(struct runpolicy *r, struct err *err)
{
	struct environ_secrets *e = &r->env;
	struct secret_decl d;
	bool vault = false;

	for (unsigned i = 0; i < table_secret_count(r->table); i++) {
		if (!table_secret(r->table, i, &d))
			return err_set(err, EINVAL, "the policy's table is damaged (secret %u)", i);
		if (d.source == SECRET_SOURCE_ENV) {
			if (e->source_n == PLAN_PATHS_MAX)
				return err_set(err, E2BIG, "the policy has more than %d secrets from the environment", PLAN_PATHS_MAX);
			e->source[e->source_n++] = text(r, d.arg);
		} else if (d.source == SECRET_SOURCE_FILE || d.source == SECRET_SOURCE_CREDENTIAL) {
			if (r->file_n == GATEWAY_FILES_MAX)
				return err_set(err, E2BIG, "the policy has more than %d secrets from files", GATEWAY_FILES_MAX);
			if (d.source == SECRET_SOURCE_CREDENTIAL && take_credential(r, d.arg, err) < 0)
				return -1;
			if (d.source == SECRET_SOURCE_FILE)
				r->files[r->file_n].path = r->files[r->file_n].place = text(r, d.arg);
			r->files[r->file_n].follow = d.follow;
			r->files[r->file_n].dir_fd = -1;
			r->file_n++;
		} else if (d.source == SECRET_SOURCE_VAULT || d.source == SECRET_SOURCE_VAULT_DYNAMIC) {
			vault = true;
		}
	}
	return vault ? take_vault(r, err) : 0;
}

static bool take_inject(void *arg, const struct inject *in)
{
	struct runpolicy *r = arg;
	struct environ_secrets *e = &r->env;

	struct str name, template;

	for (unsigned i = 0; inject_variable(in, i, &name, &template); i++) {
		if (e->variable_n == PLAN_PATHS_MAX)
			return false;
		e->variable[e->variable_n] = text(r, name);
		e->template[e->variable_n] = text(r, template);
		e->secret[e->variable_n++] = text(r, in->secret_name);
	}
	return true;
}

static int finish_load(struct runpolicy *r, const struct gateway *g, struct err *err)
{
	if ((r->file != NULL ? load_file(r, g, r->file, err) : load_deny_all(r, g, err)) < 0)
		return -1;
	r->name = text(r, table_name(r->table));
	r->explain_denials = table_explain_denials(r->table);
	if (take_spec(r, err) < 0 || take_secrets(r, err) < 0)
		return -1;
	if (!table_inject_each(r->table, take_inject, r))
		return err_set(err, E2BIG, "the policy sets more than %d placeholder variables", PLAN_PATHS_MAX);
	return 0;
}

void runpolicy_free(struct runpolicy *r)
{
	table_free(r->table);
	if (r->table_fd >= 0)
		close(r->table_fd);
	for (unsigned i = 0; i < r->file_n; i++)
		if (r->files[i].dir_fd >= 0)
			close(r->files[i].dir_fd);
	if (r->vault_ca_fd >= 0)
		close(r->vault_ca_fd);
	arena_fini(&r->mem);
	*r = (struct runpolicy){ .table_fd = -1, .vault_ca_fd = -1 };
}

int runpolicy_boundary(const struct gateway *g, const char *file, int *fd, struct err *err)
{
	struct runpolicy r = { .table_fd = -1 };
	int ret = load_file(&r, g, file, err);

	*fd = r.table_fd;
	r.table_fd = -1;
	runpolicy_free(&r);
	return ret < 0 ? err_wrap(err, "--boundary") : 0;
}

int runpolicy_load(struct runpolicy *r, const struct gateway *g, const char *named, const char *cwd, struct err *err)
{
	char path[PATH_MAX + 32];
	struct stat st;

	*r = (struct runpolicy){ .table_fd = -1, .vault_ca_fd = -1 };
	if (named != NULL) {
		r->file = text(r, str_of(named));
	} else {
		snprintf(path, sizeof(path), "%s/sallyport.yaml", strcmp(cwd, "/") == 0 ? "" : cwd);
		/* A directory of that name is the placeholder of another sandbox running here. */
		if (lstat(path, &st) == 0) {
			if (S_ISDIR(st.st_mode))
				return finish_load(r, g, err);
			r->file = text(r, str_of(path));
			r->only_trusted = true;
		} else if (errno != ENOENT) {
			return err_errno(err, "cannot look at %s", path);
		}
	}
	return finish_load(r, g, err);
}

int runpolicy_open_files(struct runpolicy *r, struct err *err)
{
	for (unsigned i = 0; i < r->file_n; i++) {
		const char *path = r->files[i].place, *dir, *slash;
		int fd = path_open_trusted(path, r->files[i].follow, "secret file", err);

		if (fd < 0)
			return -1;
		close(fd);
		/* the folder and not the file: when the file is replaced, the gateway finds the new one */
		slash = strrchr(path, '/');
		dir = slash == path ? "/" : arena_strz(&r->mem, str_mk(path, (size_t)(slash - path)));
		r->files[i].dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC | (r->files[i].follow ? 0 : O_NOFOLLOW));
		if (r->files[i].dir_fd < 0)
			return err_errno(err, "secret file: cannot open the folder %s", dir);
	}
	return 0;
}
