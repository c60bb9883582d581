/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../common/base/jsonw.h"
#include "../common/placeholder.h"

#define MESSAGE_MAX 65536
#define FDS_MAX 64
#define ANSWER_MS 20000
#define START_MS 15000
#define POLL_MS 5

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static int put_path(char out[PATH_MAX], struct err *err, const char *a, const char *b)
{
	return snprintf(out, PATH_MAX, "%s%s", a, b) < PATH_MAX ? 0 : err_set(err, ENAMETOOLONG, "%s%s is too long", a, b);
}

static int absolute(char out[PATH_MAX], const char *path, struct err *err)
{
	char cwd[PATH_MAX];
	size_t n;

	if (path[0] == '/') {
		if (put_path(out, err, path, "") < 0)
			return -1;
	} else if (getcwd(cwd, sizeof(cwd)) == NULL) {
		return err_errno(err, "cannot tell the working directory");
	} else if (snprintf(out, PATH_MAX, "%s/%s", cwd, strncmp(path, "./", 2) == 0 ? path + 2 : path) >= PATH_MAX) {
		return err_set(err, ENAMETOOLONG, "%s is too long", path);
	}
	for (n = strlen(out); n > 1 && out[n - 1] == '/'; n--)
		out[n - 1] = 0;
	return 0;
}

static int default_places(struct gateway *g, struct err *err)
{
	const char *x = getenv("XDG_STATE_HOME"), *home = getenv("HOME"), *run = getenv("XDG_RUNTIME_DIR");

	if (geteuid() == 0)
		return put_path(g->state_dir, err, "/var/lib/sallyport", "") < 0 ? -1 : put_path(g->run_dir, err, "/run/sallyport", "");
	if (x != NULL && x[0] == '/') {
		if (put_path(g->state_dir, err, x, "/sallyport") < 0)
			return -1;
	} else if (home != NULL && home[0] == '/') {
		if (put_path(g->state_dir, err, home, "/.local/state/sallyport") < 0)
			return -1;
	} else {
		return err_set(err, EINVAL, "neither --state, SALLYPORT_STATE, XDG_STATE_HOME nor HOME says where the state directory is");
	}
	return run != NULL && run[0] == '/' ? put_path(g->run_dir, err, run, "/sallyport") : put_path(g->run_dir, err, g->state_dir, "/run");
}

int gateway_locate(struct gateway *g, const char *state, const char *socket_path, struct err *err)
{
	const char *env = getenv("SALLYPORT_STATE");
	char *slash;
	ssize_t n = readlink("/proc/self/exe", g->program_dir, sizeof(g->program_dir) - 1);

	if (n <= 0)
		return err_errno(err, "cannot tell where sallyport stands (is /proc mounted?)");
	g->program_dir[n] = 0;
	slash = strrchr(g->program_dir, '/');
	*slash = 0;
	g->fd = -1;
	g->may_start = true;
	snprintf(g->socket_name, sizeof(g->socket_name), "control.sock");
	if (state == NULL && env != NULL && env[0])
		state = env;
	if (socket_path == NULL && getenv("SALLYPORT_GATEWAY") != NULL && getenv("SALLYPORT_GATEWAY")[0])
		socket_path = getenv("SALLYPORT_GATEWAY");
	if (state != NULL) {
		g->explicit_state = true;
		if (absolute(g->state_dir, state, err) < 0 || put_path(g->run_dir, err, g->state_dir, "/run") < 0)
			return -1;
	} else if (default_places(g, err) < 0) {
		return -1;
	}
	if (socket_path == NULL)
		return 0;
	g->may_start = false;
	if (absolute(g->run_dir, socket_path, err) < 0)
		return -1;
	slash = strrchr(g->run_dir, '/');
	if (strlen(slash + 1) > NAME_MAX || slash[1] == 0)
		return err_set(err, EINVAL, "--gateway %s is not a socket's path", socket_path);
	snprintf(g->socket_name, sizeof(g->socket_name), "%s", slash + 1);
	*slash = 0;
	/* DIR/run/control.sock stands in the state directory DIR: that is where its CA is. */
	if (state == NULL && (slash = strrchr(g->run_dir, '/')) != NULL && strcmp(slash, "/run") == 0 && slash != g->run_dir)
		snprintf(g->state_dir, sizeof(g->state_dir), "%.*s", (int)(slash - g->run_dir), g->run_dir);
	return 0;
}

int gateway_make_state(const struct gateway *g, struct err *err)
{
	char part[PATH_MAX];
	struct stat st;
	size_t n = strlen(g->state_dir);

	for (size_t i = 1; i <= n; i++) {
		if (g->state_dir[i] != '/' && g->state_dir[i] != 0)
			continue;
		memcpy(part, g->state_dir, i);
		part[i] = 0;
		if (mkdir(part, i == n ? 0700 : 0755) != 0 && errno != EEXIST)
			return err_errno(err, "cannot make the state directory %s", g->state_dir);
	}
	if (stat(g->state_dir, &st) != 0)
		return err_errno(err, "cannot look at %s", g->state_dir);
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 022))
		return err_set(err, EPERM, "%s must be a directory that belongs to uid %u and that nobody else can write", g->state_dir, (unsigned)geteuid());
	return 0;
}

/* By way of the directory's descriptor: a path may be longer than a socket address holds. */
static int try_connect(const struct gateway *g)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int dir = open(g->run_dir, O_PATH | O_DIRECTORY | O_CLOEXEC), fd, e;

	if (dir < 0)
		return -1;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0 || snprintf(sa.sun_path, sizeof(sa.sun_path), "/proc/self/fd/%d/%s", dir, g->socket_name) >= (int)sizeof(sa.sun_path) || connect(fd, (struct sockaddr *)&sa, sizeof(sa)) != 0) {
		e = errno;
		if (fd >= 0)
			close(fd);
		fd = -1;
		errno = e;
	}
	e = errno;
	close(dir);
	errno = e;
	return fd;
}

/* One message out, one back; NULL + *err, errno ECONNRESET in err->code when the gateway closed. */
static json_t *ask(int fd, const struct buf *text, const int *fds, unsigned fd_n, struct err *err)
{
	static char in[MESSAGE_MAX + 1];
	union {
		struct cmsghdr h;
		char room[CMSG_SPACE(sizeof(int) * FDS_MAX)];
	} ctl;
	struct iovec iov = { buf_data(text), buf_len(text) };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct pollfd p = { .fd = fd, .events = POLLIN };
	json_error_t je;
	json_t *o;
	ssize_t n;
	int r;

	if (fd_n > 0) {
		struct cmsghdr *cm;

		memset(&ctl, 0, sizeof(ctl));
		mh.msg_control = &ctl;
		mh.msg_controllen = CMSG_SPACE(sizeof(int) * fd_n);
		cm = CMSG_FIRSTHDR(&mh);
		cm->cmsg_level = SOL_SOCKET;
		cm->cmsg_type = SCM_RIGHTS;
		cm->cmsg_len = CMSG_LEN(sizeof(int) * fd_n);
		memcpy(CMSG_DATA(cm), fds, sizeof(int) * fd_n);
	}
	if (sendmsg(fd, &mh, MSG_NOSIGNAL) < 0 && errno != EPIPE) { /* who hangs up may have said why */
		err_set(err, ECONNRESET, "the gateway does not listen: %s", strerror(errno));
		return NULL;
	}
	for (;;) {
		do
			r = poll(&p, 1, ANSWER_MS);
		while (r < 0 && errno == EINTR);
		if (r <= 0) {
			err_set(err, ETIMEDOUT, "the gateway does not answer");
			return NULL;
		}
		n = recv(fd, in, MESSAGE_MAX, 0);
		if (n < 0 && errno == ECONNRESET) /* it is gone, and what it had said comes behind that */
			n = recv(fd, in, MESSAGE_MAX, 0);
		if (n <= 0) {
			err_set(err, ECONNRESET, "the gateway closed the connection");
			return NULL;
		}
		o = json_loadb(in, (size_t)n, JSON_REJECT_DUPLICATES, &je);
		if (json_object_get(o, "event") == NULL)
			break;
		json_decref(o); /* said meanwhile, unasked */
	}
	if (!json_is_object(o)) {
		json_decref(o);
		err_set(err, EPROTO, "the gateway's answer cannot be read");
		return NULL;
	}
	return o;
}

static int hello(int fd, struct err *err)
{
	struct buf b = { 0 };
	json_t *o;

	buf_addz(&b, "{\"v\":1,\"hello\":\"sallyport-sandbox\"}");
	o = ask(fd, &b, NULL, 0, err);
	buf_fini(&b);
	if (o == NULL)
		return -1;
	if (json_object_get(o, "error") != NULL) {
		const char *text = json_string_value(json_object_get(json_object_get(o, "error"), "message"));

		err_set(err, EACCES, "the gateway refuses this caller: %s", text != NULL ? text : "no reason given");
		json_decref(o);
		return -1;
	}
	if (json_integer_value(json_object_get(o, "v")) != 1) {
		json_decref(o);
		return err_set(err, EPROTO, "the gateway speaks another version of the control protocol");
	}
	json_decref(o);
	return 0;
}

/* Its last words, when it did not come up. */
static void last_words(const char *path, char *out, size_t cap)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	ssize_t n;

	out[0] = 0;
	if (fd < 0)
		return;
	if (fstat(fd, &st) == 0 && st.st_size > (off_t)cap - 1)
		lseek(fd, -((off_t)cap - 1), SEEK_END);
	n = read(fd, out, cap - 1);
	close(fd);
	out[n > 0 ? n : 0] = 0;
	while (n > 0 && (out[n - 1] == '\n' || out[n - 1] == ' '))
		out[--n] = 0;
	for (char *p = out; *p; p++)
		if (*p == '\n')
			*p = '|';
}

static void exec_gateway(const struct gateway *g, int log)
{
	static const char *const passed[] = { "HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "TZ", "LANG", "ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS", NULL };
	char program[PATH_MAX + 32], vars[16][PATH_MAX];
	char *envp[18], *argv[8];
	int n = 0, a = 0, null = open("/dev/null", O_RDWR | O_CLOEXEC);

	snprintf(program, sizeof(program), "%s/sallyport-proxy", g->program_dir);
	snprintf(vars[n], sizeof(vars[n]), "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
	envp[n] = vars[n];
	n++;
	for (int i = 0; passed[i] != NULL; i++)
		if (getenv(passed[i]) != NULL && snprintf(vars[n], sizeof(vars[n]), "%s=%s", passed[i], getenv(passed[i])) < (int)sizeof(vars[n])) {
			envp[n] = vars[n];
			n++;
		}
	envp[n] = NULL;
	argv[a++] = (char *)"sallyport-proxy";
	argv[a++] = (char *)"serve";
	argv[a++] = (char *)"--auto";
	if (g->explicit_state) {
		argv[a++] = (char *)"--state";
		argv[a++] = (char *)g->state_dir;
	}
	argv[a] = NULL;
	dup2(null, 0);
	dup2(log, 1);
	dup2(log, 2);
	close_range(3, ~0U, 0);
	if (chdir("/") != 0)
		_exit(126);
	execve(program, argv, envp);
	dprintf(2, "cannot run %s: %s\n", program, strerror(errno));
	_exit(127);
}

/* Starts a gateway in a session of its own, the child of nobody, with no descriptor of ours but its log. */
static int spawn(const struct gateway *g, int log, pid_t *pid, struct err *err)
{
	int told[2], status;
	pid_t middle;

	if (pipe2(told, O_CLOEXEC) != 0)
		return err_errno(err, "pipe");
	middle = fork();
	if (middle < 0) {
		close(told[0]);
		close(told[1]);
		return err_errno(err, "cannot start a gateway");
	}
	if (middle == 0) {
		pid_t child;

		setsid();
		child = fork();
		if (child == 0)
			exec_gateway(g, log);
		(void)!write(told[1], &child, sizeof(child));
		_exit(0);
	}
	close(told[1]);
	if (read(told[0], pid, sizeof(*pid)) != sizeof(*pid))
		*pid = -1;
	close(told[0]);
	while (waitpid(middle, &status, 0) < 0 && errno == EINTR)
		;
	return *pid > 0 ? 0 : err_set(err, EAGAIN, "cannot start a gateway");
}

static bool gone(pid_t pid)
{
	char path[64], stat[256];
	const char *state;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return true;
	n = read(fd, stat, sizeof(stat) - 1);
	close(fd);
	stat[n > 0 ? n : 0] = 0;
	state = strrchr(stat, ')');
	return state == NULL || state[1] == 0 || state[2] == 'Z';
}

/* Under the start lock: two runs at once start one gateway. */
static int start_gateway(struct gateway *g, struct err *err)
{
	char lock[PATH_MAX + 32], log[PATH_MAX + 32], words[400];
	uint64_t until = now_ms() + START_MS;
	int lock_fd, log_fd = -1, r = -1, starts = 0;
	pid_t pid = -1;

	if (gateway_make_state(g, err) < 0)
		return -1;
	snprintf(lock, sizeof(lock), "%s/start.lock", g->state_dir);
	snprintf(log, sizeof(log), "%s/gateway.log", g->state_dir);
	lock_fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (lock_fd < 0)
		return err_errno(err, "cannot open %s", lock);
	while (flock(lock_fd, LOCK_EX) != 0)
		if (errno != EINTR) {
			err_errno(err, "cannot lock %s", lock);
			goto out;
		}
	log_fd = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (log_fd < 0) {
		err_errno(err, "cannot open %s", log);
		goto out;
	}
	while (now_ms() < until) {
		g->fd = try_connect(g);
		if (g->fd >= 0) {
			r = 0;
			goto out;
		}
		if (pid < 0 || gone(pid)) {
			/* One that is just ending still holds the state's lock for a moment. */
			if (starts++ == 3) {
				last_words(log, words, sizeof(words));
				err_set(err, ECONNREFUSED, "the gateway did not start: %s (in %s)", words[0] ? words : "it ended without a word", log);
				goto out;
			}
			if (spawn(g, log_fd, &pid, err) < 0)
				goto out;
		}
		poll(NULL, 0, POLL_MS);
	}
	last_words(log, words, sizeof(words));
	err_set(err, ETIMEDOUT, "the gateway is not ready after %d s: %s (in %s)", START_MS / 1000, words, log);
out:
	if (log_fd >= 0)
		close(log_fd);
	close(lock_fd);
	return r;
}

int gateway_connect(struct gateway *g, struct err *err)
{
	for (int tries = 0; tries < 3; tries++) {
		struct err why = ERR_INIT;

		g->fd = try_connect(g);
		if (g->fd < 0) {
			if (errno == EACCES || errno == EPERM || !g->may_start)
				return err_errno(err, "cannot reach the gateway at %s/%s", g->run_dir, g->socket_name);
			if (start_gateway(g, err) < 0)
				return -1;
		}
		if (hello(g->fd, &why) == 0)
			return 0;
		gateway_close(g);
		if (why.code != ECONNRESET) {
			*err = why;
			return -1;
		}
	}
	return err_set(err, ECONNRESET, "the gateway at %s/%s closes every connection (is it another user's?)", g->run_dir, g->socket_name);
}

int gateway_reconnect(struct gateway *g, struct err *err)
{
	g->fd = try_connect(g);
	if (g->fd < 0)
		return err_errno(err, "gateway");
	if (hello(g->fd, err) == 0)
		return 0;
	gateway_close(g);
	return -1;
}

/* Policy and sources, as register and reload have them. */
static void put_policy(struct jsonw *w, const struct gateway_register *r, int *fds, unsigned *n)
{
	jsonw_kopen(w, "policy", '{');
	jsonw_ku64(w, "fd", *n);
	fds[(*n)++] = r->table_fd;
	jsonw_close(w, '}');
	if (r->env_fd >= 0) {
		jsonw_kopen(w, "env", '{');
		jsonw_ku64(w, "fd", *n);
		fds[(*n)++] = r->env_fd;
		jsonw_close(w, '}');
	}
	jsonw_kopen(w, "files", '[');
	for (unsigned i = 0; i < r->file_n; i++) {
		jsonw_open(w, '{');
		jsonw_kz(w, "path", r->files[i].path);
		jsonw_ku64(w, "dir", *n);
		fds[(*n)++] = r->files[i].dir_fd;
		if (r->files[i].follow) {
			jsonw_key(w, "follow");
			jsonw_bool(w, true);
		}
		jsonw_close(w, '}');
	}
	jsonw_close(w, ']');
	if (r->vault_address != NULL) {
		jsonw_kopen(w, "vault", '{');
		jsonw_kz(w, "address", r->vault_address);
		if (r->vault_namespace != NULL)
			jsonw_kz(w, "namespace", r->vault_namespace);
		if (r->vault_ca_fd >= 0) {
			jsonw_kopen(w, "ca", '{');
			jsonw_ku64(w, "fd", *n);
			fds[(*n)++] = r->vault_ca_fd;
			jsonw_close(w, '}');
		}
		jsonw_close(w, '}');
	}
	jsonw_key(w, "explain_denials");
	jsonw_bool(w, r->explain_denials);
}

/* Asks; NULL + *err also when the answer is a refusal, which begins with what was refused. *code: its code, or "". */
static json_t *ask_ok(struct gateway *g, const struct buf *b, const int *fds, unsigned n, const char *what, char code[32], struct err *err)
{
	json_t *o = buf_len(b) <= MESSAGE_MAX ? ask(g->fd, b, fds, n, err) : NULL, *e;
	const char *text, *c;

	code[0] = 0;
	if (buf_len(b) > MESSAGE_MAX)
		err_set(err, E2BIG, "too many secret files for one sandbox");
	if (o == NULL || json_object_get(o, "ok") != NULL)
		return o;
	e = json_object_get(o, "error");
	text = json_string_value(json_object_get(e, "message"));
	c = json_string_value(json_object_get(e, "code"));
	snprintf(code, 32, "%s", c != NULL ? c : "");
	err_set(err, EACCES, "the gateway refuses this %s: %s", what, text != NULL ? text : "no reason given");
	json_decref(o);
	return NULL;
}

static void take_placeholders(json_t *list, struct buf *out)
{
	json_t *e;
	size_t i;

	json_array_foreach(list, i, e) {
		json_t *name = json_array_get(e, 0), *text = json_array_get(e, 2);
		struct placeholder p = { .secret = str_mk(json_string_value(name), json_string_length(name)), .text = str_mk(json_string_value(text), json_string_length(text)),
			.part = (uint8_t)json_integer_value(json_array_get(e, 1)) };

		if (placeholder_ok(&p))
			placeholder_put(out, &p);
	}
}

int gateway_register(struct gateway *g, const struct gateway_register *r, uint32_t *sandbox, struct buf *placeholders, bool *again, struct err *err)
{
	int fds[FDS_MAX];
	unsigned n = 0;
	struct buf b = { 0 };
	struct jsonw w = jsonw_on(&b);
	char code[32];
	json_t *o;

	*again = false;
	jsonw_open(&w, '{');
	jsonw_ku64(&w, "id", 1);
	jsonw_kz(&w, "op", "register");
	jsonw_kz(&w, "name", r->name);
	put_policy(&w, r, fds, &n);
	if (r->boundary_fd >= 0) {
		jsonw_kopen(&w, "boundary", '{');
		jsonw_ku64(&w, "fd", n);
		fds[n++] = r->boundary_fd;
		jsonw_close(&w, '}');
	}
	jsonw_key(&w, "observe");
	jsonw_bool(&w, r->observe);
	jsonw_kopen(&w, "identify", '{');
	jsonw_kopen(&w, "sockets", '[');
	for (unsigned i = 0; i < NETNS_SOCKETS; i++) {
		if (r->sockets[i] < 0)
			continue;
		jsonw_open(&w, '{');
		jsonw_kz(&w, "kind", netns_socket_kind[i]);
		jsonw_ku64(&w, "fd", n);
		fds[n++] = r->sockets[i];
		jsonw_close(&w, '}');
	}
	jsonw_close(&w, ']');
	jsonw_close(&w, '}');
	jsonw_ku64(&w, "pid", (uint64_t)r->pid);
	jsonw_close(&w, '}');
	o = ask_ok(g, &b, fds, n, "sandbox", code, err);
	buf_fini(&b);
	if (o == NULL) {
		*again = err->code == ECONNRESET;
		return -1;
	}
	*sandbox = (uint32_t)json_integer_value(json_object_get(json_object_get(o, "ok"), "sandbox"));
	if (placeholders != NULL)
		take_placeholders(json_object_get(json_object_get(o, "ok"), "placeholders"), placeholders);
	json_decref(o);
	return 0;
}

int gateway_reload(struct gateway *g, const struct gateway_register *r, uint32_t sandbox, const char *failed, uint32_t *generation, bool *again, struct err *err)
{
	int fds[FDS_MAX];
	unsigned n = 0;
	struct buf b = { 0 };
	struct jsonw w = jsonw_on(&b);
	char code[32];
	json_t *o;

	jsonw_open(&w, '{');
	jsonw_ku64(&w, "id", 3);
	jsonw_kz(&w, "op", "reload");
	if (sandbox != 0)
		jsonw_ku64(&w, "sandbox", sandbox);
	else
		jsonw_kz(&w, "sandbox", r->name);
	if (failed != NULL)
		jsonw_kz(&w, "failed", failed);
	else
		put_policy(&w, r, fds, &n);
	jsonw_close(&w, '}');
	o = ask_ok(g, &b, fds, n, "policy", code, err);
	buf_fini(&b);
	*again = o == NULL && (err->code == ECONNRESET || strcmp(code, "busy") == 0 || strcmp(code, "no_sandbox") == 0);
	if (o == NULL)
		return -1;
	*generation = (uint32_t)json_integer_value(json_object_get(json_object_get(o, "ok"), "generation"));
	json_decref(o);
	return 0;
}

/* The policy in force, with the files of its secrets, in place of what r holds. Takes what it keeps out of fds. */
static void take_policy(struct gateway_register *r, const json_t *o, int *fds, unsigned n)
{
	json_t *files = json_object_get(o, "files"), *e;
	json_int_t k = json_integer_value(json_object_get(json_object_get(o, "policy"), "fd"));
	size_t i;

	if (k < 0 || k >= (json_int_t)n)
		return;
	close(r->table_fd);
	r->table_fd = fds[k];
	fds[k] = -1;
	r->explain_denials = json_is_true(json_object_get(o, "explain_denials"));
	for (unsigned f = 0; f < r->file_n; f++)
		close(r->files[f].dir_fd);
	r->file_n = 0;
	json_array_foreach(files, i, e) {
		const char *path = json_string_value(json_object_get(e, "path"));

		k = json_is_integer(json_object_get(e, "dir")) ? json_integer_value(json_object_get(e, "dir")) : -1;
		if (path == NULL || k < 0 || k >= (json_int_t)n || fds[k] < 0 || r->file_n == GATEWAY_FILES_MAX)
			continue;
		r->files[r->file_n].path = arena_strz(&r->mem, str_of(path));
		r->files[r->file_n].follow = json_is_true(json_object_get(e, "follow"));
		r->files[r->file_n++].dir_fd = fds[k];
		fds[k] = -1;
	}
}

bool gateway_event(struct gateway *g, struct gateway_register *r, bool *stop)
{
	static char in[MESSAGE_MAX];
	union {
		struct cmsghdr h;
		char room[CMSG_SPACE(sizeof(int) * FDS_MAX)];
	} ctl;
	struct iovec iov = { in, sizeof(in) };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &ctl, .msg_controllen = sizeof(ctl) };
	ssize_t n = recvmsg(g->fd, &mh, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	int fds[FDS_MAX];
	unsigned fd_n = 0;
	json_error_t je;
	json_t *o;
	const char *event;

	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	for (struct cmsghdr *cm = CMSG_FIRSTHDR(&mh); cm != NULL; cm = CMSG_NXTHDR(&mh, cm))
		if (cm->cmsg_level == SOL_SOCKET && cm->cmsg_type == SCM_RIGHTS) {
			fd_n = (unsigned)((cm->cmsg_len - CMSG_LEN(0)) / sizeof(int));
			memcpy(fds, CMSG_DATA(cm), fd_n * sizeof(int));
		}
	o = json_loadb(in, (size_t)n, JSON_REJECT_DUPLICATES, &je);
	event = json_string_value(json_object_get(o, "event"));
	*stop = *stop || (event != NULL && strcmp(event, "stop") == 0);
	if (event != NULL && strcmp(event, "policy") == 0)
		take_policy(r, o, fds, fd_n);
	json_decref(o);
	for (unsigned i = 0; i < fd_n; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	return n > 0;
}

static json_t *simple(struct gateway *g, const char *op, uint32_t sandbox, struct err *err)
{
	struct buf b = { 0 };
	struct jsonw w = jsonw_on(&b);
	json_t *o;

	jsonw_open(&w, '{');
	jsonw_ku64(&w, "id", 2);
	jsonw_kz(&w, "op", op);
	if (sandbox != 0)
		jsonw_ku64(&w, "sandbox", sandbox);
	jsonw_close(&w, '}');
	o = ask(g->fd, &b, NULL, 0, err);
	buf_fini(&b);
	return o;
}

void gateway_finish(struct gateway *g, uint32_t sandbox, int64_t *requests, int64_t *refused)
{
	struct err err = ERR_INIT;
	json_t *o, *ok, *v;

	*requests = *refused = -1;
	if (g->fd < 0)
		return;
	o = simple(g, "finish", sandbox, &err);
	ok = json_object_get(o, "ok");
	if (json_is_integer(v = json_object_get(ok, "requests")))
		*requests = json_integer_value(v);
	if (json_is_integer(v = json_object_get(ok, "refused")))
		*refused = json_integer_value(v);
	json_decref(o);
	gateway_close(g);
}

int gateway_stop(struct gateway *g, struct err *err)
{
	json_t *o = simple(g, "stop", 0, err);
	bool ok = json_object_get(o, "ok") != NULL;

	json_decref(o);
	if (ok) {
		/* it ends when its socket does: who runs a sandbox next must not meet a gateway on its way out */
		struct timeval tv = { .tv_sec = 10 };
		char c[256];

		setsockopt(g->fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
		while (recv(g->fd, c, sizeof(c), 0) > 0)
			;
	}
	return ok ? 0 : err->code ? -1 : err_set(err, EPROTO, "the gateway would not stop");
}

void gateway_close(struct gateway *g)
{
	if (g->fd >= 0)
		close(g->fd);
	g->fd = -1;
}
