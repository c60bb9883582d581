/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one place where a tool of policies runs another program: `git cat-file blob`, which reads an object and nothing else. It
 * gets no configuration but the repository's own, runs no filter, fetches nothing, and asks nobody.
 */
#include "revision.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../common/base/must.h"
#include "load.h"

bool revision_is(const char *name) { return name[0] != '-' && strchr(name, ':') != NULL && access(name, F_OK) != 0; }

static void run_git(const char *object, int out) __attribute__((noreturn));
static void run_git(const char *object, int out)
{
	static const char *const keep[] = { "PATH", "HOME", "GIT_DIR", "GIT_WORK_TREE" };
	char *envp[16] = { (char *)"GIT_CONFIG_NOSYSTEM=1", (char *)"GIT_CONFIG_GLOBAL=/dev/null", (char *)"GIT_NO_LAZY_FETCH=1", (char *)"GIT_TERMINAL_PROMPT=0", (char *)"GIT_OPTIONAL_LOCKS=0", (char *)"GIT_ALLOW_PROTOCOL=none", (char *)"LC_ALL=C" };
	char *argv[] = { (char *)"git", (char *)"-c", (char *)"core.fsmonitor=false", (char *)"cat-file", (char *)"blob", (char *)object, NULL };
	unsigned n = 7;

	for (size_t i = 0; i < sizeof(keep) / sizeof(keep[0]); i++) {
		const char *v = getenv(keep[i]);
		struct buf b = { 0 };

		if (v == NULL)
			continue;
		buf_addf(&b, "%s=%s", keep[i], v);
		buf_addc(&b, 0);
		envp[n++] = (char *)buf_data(&b);
	}
	dup2(out, 1);
	execvpe("git", argv, envp);
	_exit(127);
}

static bool read_blob(const char *object, struct buf *out, const char **why)
{
	int pipe_fd[2], status = 0;
	ssize_t k = 0;
	pid_t pid;

	*why = "git cannot be started";
	if (pipe2(pipe_fd, O_CLOEXEC) != 0)
		return false;
	pid = fork();
	if (pid == 0)
		run_git(object, pipe_fd[1]);
	close(pipe_fd[1]);
	while (pid > 0 && buf_len(out) <= YAML_SIZE_MAX && (k = read(pipe_fd[0], buf_room(out, 65536), 65536)) > 0)
		buf_commit(out, (size_t)k);
	close(pipe_fd[0]);
	if (pid < 0)
		return false;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	*why = buf_len(out) > YAML_SIZE_MAX ? "larger than a policy may be" : WIFEXITED(status) && WEXITSTATUS(status) == 127 ? "git is not installed" : "git has no such file in that revision (see above)";
	return buf_len(out) <= YAML_SIZE_MAX && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* REV, and the folder of the first file, for those beside it. */
struct revision {
	struct str rev, folder;
};

static bool read_beside(void *arg, const char *name, struct buf *out, const char **why)
{
	const struct revision *r = arg;
	struct buf object = { 0 };
	bool ok;

	buf_addf(&object, "%.*s:./%.*s%s", (int)r->rev.n, r->rev.p, (int)r->folder.n, r->folder.p, name);
	buf_addc(&object, 0);
	ok = read_blob((const char *)buf_data(&object), out, why);
	buf_fini(&object);
	return ok;
}

int revision_load(struct policy *p, const char *name, struct diag *d)
{
	const char *path = strchr(name, ':') + 1, *slash = strrchr(path, '/');
	struct revision r = { str_mk(name, (size_t)(path - name) - 1), str_mk(path, slash != NULL ? (size_t)(slash - path) + 1 : 0) };
	struct load_reader reader = { read_beside, &r };
	struct buf text = { 0 };
	const char *why = "its name";
	int ret = -1;

	memset(p, 0, sizeof(*p));
	if (r.rev.n == 0 || path[0] == 0 || path[0] == '/' || !read_beside(&(struct revision){ r.rev, STR_NONE }, path, &text, &why))
		diag_error_file(d, "cannot read it: %s", why);
	else
		ret = policy_read(p, buf_str(&text), NULL, &reader, d);
	buf_fini(&text);
	return ret;
}
