/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sallyport run: options and policy become a plan (as the caller, root or not), root is given up, the sandbox is cloned,
 * its sockets are registered with the gateway while its file view is being built, and the command starts.
 */
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../common/base/must.h"
#include "../common/sys/clock.h"
#include "environ.h"
#include "gateway.h"
#include "guard.h"
#include "link.h"
#include "monitor.h"
#include "pid1.h"
#include "runpolicy.h"
#include "say.h"
#include "trustdir.h"

#define EXIT_OURS 125
#define NAMESPACES (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWCGROUP)

struct run {
	struct options o;
	struct gateway gateway;
	struct runpolicy policy;
	struct plan plan;
	struct guard guard;
	struct trustdir trust;
	struct gateway_register reg;
	struct monitor monitor;
	struct connector connector;
	struct reloader reloader;
	const char *policy_place; /* as it was named, absolute, its last part not resolved; NULL: it was not named */
	char name[64];
	char *args; /* our command line, as one run of octets */
	size_t args_len;
	uint32_t sandbox;
};

static void usage(FILE *f)
{
	fprintf(f, "usage: sallyport run [OPTION...] [--] COMMAND ARG...\n"
		   "  --policy FILE     policy (YAML or compiled); without it a trusted ./sallyport.yaml, else everything is denied\n"
		   "  --name NAME       of the sandbox, in the record\n"
		   "  --state DIR       state directory, also $SALLYPORT_STATE\n"
		   "  --gateway SOCKET  control socket of a running gateway, also $SALLYPORT_GATEWAY\n"
		   "  -e NAME[=VALUE]   environment variable for the command\n"
		   "  -w DIR            working directory\n"
		   "  --timeout T       end it after T (30s, 10m, 2h): status 124\n"
		   "  --allow-home      let the working directory be your home folder\n"
		   "  --quiet           only errors\n"
		   "  --json            events as JSON lines on standard error\n"
		   "  --status-fd N     the same on descriptor N\n"
		   "  --show-plan       print what would be mounted, and end\n");
}

/* Closed standard streams would be taken by the next open. */
static void open_streams(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd < 3);
	if (fd > 2)
		close(fd);
}

/*
 * A directory that comes in as a standard stream leads to the host's tree around it: nothing but Landlock would stop an open
 * below it, and nothing at all a connect to a unix socket there (/proc/self/fd/0/../run/...).
 */
static int check_streams(struct err *err)
{
	static const char *const names[] = { "standard input", "standard output", "standard error" };
	struct stat st;

	for (int fd = 0; fd < 3; fd++)
		if (fstat(fd, &st) == 0 && (S_ISDIR(st.st_mode) || (fcntl(fd, F_GETFL) & O_PATH)))
			return err_set(err, EISDIR, "%s is a directory, or only a place: it would lead out of the sandbox", names[fd]);
	return 0;
}

/* The name stays what it is: it may be a link that is turned to another table. */
static int name_place(struct run *r, struct err *err)
{
	char dir[PATH_MAX], real[PATH_MAX], place[2 * PATH_MAX];
	const char *slash = strrchr(r->o.policy, '/'), *name = slash != NULL ? slash + 1 : r->o.policy;

	snprintf(dir, sizeof(dir), "%.*s", slash != NULL ? (int)(slash - r->o.policy) : 1, slash != NULL ? r->o.policy : ".");
	if (realpath(dir[0] ? dir : "/", real) == NULL)
		return err_errno(err, "cannot find the folder of the policy %s", r->o.policy);
	if (snprintf(place, sizeof(place), "%s/%s", strcmp(real, "/") == 0 ? "" : real, name) >= PATH_MAX)
		return err_set(err, ENAMETOOLONG, "the path of the policy %s is too long", r->o.policy);
	r->policy_place = arena_strz(&r->plan.mem, str_of(place));
	return 0;
}

static int find_places(struct run *r, const char **policy, struct err *err)
{
	char real[PATH_MAX];
	struct stat st;
	const char *home = getenv("HOME");
	struct passwd *pw;

	*policy = NULL;
	if (r->o.policy != NULL) {
		if (realpath(r->o.policy, real) == NULL)
			return err_errno(err, "cannot find the policy %s", r->o.policy);
		*policy = arena_strz(&r->plan.mem, str_of(real));
		if (name_place(r, err) < 0)
			return -1;
	}
	if (r->o.workdir != NULL && chdir(r->o.workdir) != 0)
		return err_errno(err, "cannot enter the working directory %s", r->o.workdir);
	if (getcwd(real, sizeof(real)) == NULL || real[0] != '/')
		return err_errno(err, "cannot tell the working directory");
	r->plan.cwd = arena_strz(&r->plan.mem, str_of(real));
	if ((home == NULL || home[0] == 0) && (pw = getpwuid(getuid())) != NULL)
		home = pw->pw_dir;
	/* A home is a folder of one's own; system users often have /, /bin or nothing. */
	if (home != NULL && home[0] == '/' && realpath(home, real) != NULL && strcmp(real, "/") != 0 && stat(real, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == getuid())
		r->plan.home = arena_strz(&r->plan.mem, str_of(real));
	else
		r->plan.home = "/home/sandbox";
	return 0;
}

/* As on the host, so that a program from a hidden folder can be shown. */
static void find_command(struct run *r)
{
	const char *path = getenv("PATH"), *end, *cmd = r->o.argv[0];
	char file[PATH_MAX];
	struct stat st;

	if (strchr(cmd, '/') != NULL) {
		snprintf(file, sizeof(file), "%s%s%s", cmd[0] == '/' ? "" : r->plan.cwd, cmd[0] == '/' ? "" : "/", cmd);
		if (stat(file, &st) == 0 && S_ISREG(st.st_mode))
			r->plan.command = arena_strz(&r->plan.mem, str_of(file));
		return;
	}
	for (; path != NULL; path = *end ? end + 1 : NULL) {
		end = strchrnul(path, ':');
		if (*path != '/' || snprintf(file, sizeof(file), "%.*s/%s", (int)(end - path), path, cmd) >= (int)sizeof(file))
			continue;
		if (stat(file, &st) == 0 && S_ISREG(st.st_mode) && access(file, X_OK) == 0) {
			r->plan.command = arena_strz(&r->plan.mem, str_of(file));
			return;
		}
	}
}

static void choose_name(struct run *r)
{
	const char *base = strrchr(r->plan.cwd, '/') + 1;
	uint8_t rnd[3];
	size_t n = 0;

	if (r->o.name != NULL) {
		snprintf(r->name, sizeof(r->name), "%s", r->o.name);
		return;
	}
	for (; *base && n < 40; base++) {
		char c = ascii_lower(*base);

		if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))
			r->name[n++] = c;
		else if (n > 0 && r->name[n - 1] != '-')
			r->name[n++] = '-';
	}
	while (n > 0 && r->name[n - 1] == '-')
		n--;
	if (n == 0)
		n = (size_t)snprintf(r->name, sizeof(r->name), "run");
	random_fill(rnd, sizeof(rnd));
	snprintf(r->name + n, sizeof(r->name) - n, "-%02x%02x%02x", rnd[0], rnd[1], rnd[2]);
}

static void add_path(struct plan_secrets *s, struct plan *p, const char *path)
{
	char real[PATH_MAX];

	if (path == NULL || path[0] == 0 || s->n == PLAN_PATHS_MAX)
		return;
	s->paths[s->n++] = arena_strz(&p->mem, str_of(realpath(path, real) != NULL ? real : path));
}

static void gather_secrets(struct run *r, struct plan_secrets *s)
{
	const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	char path[PATH_MAX];

	add_path(s, &r->plan, r->gateway.state_dir);
	if (!path_within(r->gateway.run_dir, r->gateway.state_dir))
		add_path(s, &r->plan, r->gateway.run_dir);
	add_path(s, &r->plan, "/etc/sallyport");
	if (config != NULL && config[0] == '/' && snprintf(path, sizeof(path), "%s/sallyport", config) < (int)sizeof(path))
		add_path(s, &r->plan, path);
	else if (home != NULL && home[0] == '/' && snprintf(path, sizeof(path), "%s/.config/sallyport", home) < (int)sizeof(path))
		add_path(s, &r->plan, path);
	for (unsigned i = 0; i < r->policy.file_n; i++)
		add_path(s, &r->plan, r->policy.files[i].place);
	if (r->policy.file != NULL)
		s->policies[s->policies_n++] = r->policy.file;
	/* and all that it was read from: files that it extends, CAs */
	for (unsigned i = 0; i < r->policy.dep_n; i++)
		if (realpath(r->policy.deps[i], path) != NULL)
			s->policies[s->policies_n++] = arena_strz(&r->plan.mem, str_of(path));
	s->program_dir = r->gateway.program_dir;
}

/* The host's user list, with a line for a user it does not know: many programs fail without one. */
static void put_users(struct plan *p)
{
	static const struct { const char *path; bool group; } files[] = { { "/etc/passwd", false }, { "/etc/group", true } };

	for (unsigned i = 0; i < 2; i++) {
		struct buf b = { 0 };
		char line[1024], wanted[32];
		FILE *f = fopen(files[i].path, "re");
		bool found = false;

		snprintf(wanted, sizeof(wanted), ":%u:", files[i].group ? (unsigned)p->gid : (unsigned)p->uid);
		while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
			char *second = strchr(line, ':');

			second = second != NULL ? strchr(second + 1, ':') : NULL;
			found = found || (second != NULL && strncmp(second, wanted, strlen(wanted)) == 0);
			buf_addz(&b, line);
		}
		if (f != NULL)
			fclose(f);
		if (!found && buf_len(&b) > 0) {
			if (files[i].group)
				buf_addf(&b, "sandbox:x:%u:\n", (unsigned)p->gid);
			else
				buf_addf(&b, "sandbox:x:%u:%u:sandbox:%s:/bin/sh\n", (unsigned)p->uid, (unsigned)p->gid, p->home);
			plan_file(p, files[i].path, buf_str(&b), 0644);
		}
		buf_fini(&b);
	}
}

static void put_files(struct run *r)
{
	struct plan *p = &r->plan;
	uint8_t id[16];
	char hex[34];

	/* Not a loopback address: some resolvers refuse those, and nothing listens on 127.0.0.53 here. */
	plan_file(p, "/etc/resolv.conf", STR("nameserver " NETNS_ADDRESS4 "\noptions timeout:5 attempts:2\n"), 0644);
	plan_file(p, "/etc/hosts", STR("127.0.0.1 localhost sandbox\n::1 localhost ip6-localhost ip6-loopback\n"), 0644);
	plan_file(p, "/etc/hostname", STR("sandbox\n"), 0644);
	random_fill(id, sizeof(id));
	for (int i = 0; i < 16; i++)
		snprintf(hex + 2 * i, 3, "%02x", id[i]);
	hex[32] = '\n';
	plan_file(p, "/etc/machine-id", str_mk(hex, 33), 0444);
	plan_file(p, "/var/lib/dbus/machine-id", str_mk(hex, 33), 0444);
	put_users(p);
	trustdir_plan(&r->trust, p);
}

/* Ends at the first tunnel. */
static bool reads_all(void *arg, const struct dest *d)
{
	(void)arg;
	return !d->tunnel;
}

static int make_plan(struct run *r, struct plan_secrets *s, struct err *err)
{
	const char *policy;
	char ca[PATH_MAX + 16];

	if (find_places(r, &policy, err) < 0 || gateway_locate(&r->gateway, r->o.state, r->o.gateway, err) < 0 || gateway_make_state(&r->gateway, err) < 0 ||
	    runpolicy_load(&r->policy, &r->gateway, policy, r->plan.cwd, err) < 0 || plan_user(&r->plan, &r->policy.wish, err) < 0 || runpolicy_open_files(&r->policy, err) < 0)
		return -1;
	if (r->o.boundary != NULL && runpolicy_boundary(&r->gateway, r->o.boundary, &r->reg.boundary_fd, err) < 0)
		return -1;
	if (r->o.timeout_ms && (r->policy.wish.wall_ms == 0 || r->o.timeout_ms < r->policy.wish.wall_ms))
		r->policy.wish.wall_ms = r->o.timeout_ms;
	choose_name(r);
	find_command(r);
	gather_secrets(r, s);
	if (!r->o.show_plan && gateway_connect(&r->gateway, err) < 0)
		return -1;
	snprintf(ca, sizeof(ca), "%s/ca/ca.pem", r->gateway.state_dir);
	if (!r->o.show_plan && trustdir_load(&r->trust, ca, r->gateway.state_dir, r->policy.table != NULL && !table_dest_each(r->policy.table, reads_all, NULL), err) < 0)
		return -1;
	put_files(r);
	if (plan_view(&r->plan, &r->policy.wish, s, r->o.allow_home, err) < 0 || environ_plan(&r->plan, &r->policy.wish, &r->o, &r->policy.env, r->name, err) < 0)
		return -1;
	r->plan.argv = arena_alloc(&r->plan.mem, ((size_t)r->o.argc + 1) * sizeof(char *));
	for (int i = 0; i < r->o.argc; i++)
		r->plan.argv[i] = arena_strz(&r->plan.mem, str_of(r->o.argv[i]));
	r->plan.argv[r->o.argc] = NULL;
	r->plan.tty = isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1;
	return 0;
}

static int write_proc(pid_t pid, const char *name, const char *text)
{
	char path[64];
	int fd, r;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	r = write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -1;
	close(fd);
	return r;
}

static int write_maps(const struct plan *p, pid_t pid, struct err *err)
{
	char uid[64], gid[64];

	snprintf(uid, sizeof(uid), "%u %u 1\n", (unsigned)p->uid, (unsigned)p->uid);
	snprintf(gid, sizeof(gid), "%u %u 1\n", (unsigned)p->gid, (unsigned)p->gid);
	if (write_proc(pid, "setgroups", "deny") != 0 || write_proc(pid, "uid_map", uid) != 0 || write_proc(pid, "gid_map", gid) != 0)
		return err_errno(err, "cannot map uid %u into the sandbox (AppArmor may restrict user namespaces: see sallyport doctor)", (unsigned)p->uid);
	return 0;
}

static pid_t clone_namespaces(int *pidfd, struct err *err)
{
	struct clone_args a = { .flags = NAMESPACES | CLONE_PIDFD, .pidfd = (uint64_t)(uintptr_t)pidfd, .exit_signal = SIGCHLD };
	pid_t pid = (pid_t)syscall(__NR_clone3, &a, sizeof(a));

	if (pid < 0 && errno == ENOSYS) /* a container runtime's filter around us */
		pid = (pid_t)syscall(__NR_clone, (unsigned long)(NAMESPACES | CLONE_PIDFD | SIGCHLD), 0, pidfd, 0, 0);
	if (pid >= 0)
		return pid;
	if (errno == ENOSPC)
		return err_errno(err, "no more user namespaces (sysctl user.max_user_namespaces; inside a sandbox there are none)");
	if (errno == EPERM)
		return err_errno(err, "this system does not let us make namespaces (chroot, AppArmor, kernel.unprivileged_userns_clone: see sallyport doctor)");
	return err_errno(err, "cannot make the namespaces");
}

/* The next note must be of this type; an error from inside is shown as it came. */
static int next_note(struct run *r, enum note_type type, struct note *n, int fds[LINK_FDS_MAX], unsigned *fd_n, int *status, struct err *err)
{
	int got = link_recv(r->monitor.link_fd, n, fds, fd_n);

	if (got != 1)
		return err_set(err, EPIPE, "the sandbox ended while it was being set up");
	if (n->type == NOTE_ERROR) {
		*status = n->a;
		return err_set(err, EIO, "%s", n->text);
	}
	return n->type == type ? 0 : err_set(err, EPROTO, "unexpected note %u from the sandbox", n->type);
}

/* *environment: what is to be set inside now that the placeholders are known; -1: nothing. */
static int register_sandbox(struct run *r, int *environment, struct err *err)
{
	struct buf placeholders = { 0 };
	int ret;
	struct gateway_register *g = &r->reg;
	bool again;

	g->name = r->name;
	g->table_fd = r->policy.table_fd;
	g->explain_denials = r->policy.explain_denials;
	g->observe = r->o.observe;
	g->pid = r->monitor.pid;
	memcpy(g->sockets, r->monitor.sockets, sizeof(g->sockets));
	for (unsigned i = 0; i < r->policy.file_n; i++) {
		g->files[i].path = r->policy.files[i].path;
		g->files[i].dir_fd = r->policy.files[i].dir_fd;
		g->files[i].follow = r->policy.files[i].follow;
	}
	g->vault_address = r->policy.vault_address;
	g->vault_namespace = r->policy.vault_namespace;
	g->vault_ca_fd = r->policy.vault_ca_fd;
	g->file_n = r->policy.file_n;
	*environment = -1;
	ret = gateway_register(&r->gateway, g, &r->sandbox, &placeholders, &again, err);
	if (ret == 0 && r->policy.env.variable_n > 0 && (*environment = environ_placeholders(&r->policy.env, buf_str(&placeholders), err)) < 0)
		ret = -1;
	buf_fini(&placeholders);
	return ret;
}

/* From the clone to the command's start. On -1 *status may hold more than "ours failed". */
static int start(struct run *r, int *status, struct err *err)
{
	struct monitor *m = &r->monitor;
	struct pid1 inside = { .plan = &r->plan, .life_fd = r->guard.life_fd, .args = r->args, .args_len = r->args_len };
	struct note n;
	int pair[2], fds[LINK_FDS_MAX], environment;
	unsigned fd_n;

	m->plan = &r->plan;
	m->gateway = &r->gateway;
	m->terminal = m->terminal_slave = m->pidfd = -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
		return err_errno(err, "socketpair");
	m->link_fd = pair[0];
	inside.link_fd = pair[1];
	monitor_block(&m->mask);
	inside.mask = m->mask;
	fflush(NULL);
	m->pid = clone_namespaces(&m->pidfd, err);
	if (m->pid < 0)
		return -1;
	if (m->pid == 0)
		pid1_main(&inside);
	close(pair[1]);
	if (write_maps(&r->plan, m->pid, err) < 0)
		return -1;
	/* From here on nobody of the payload's user may look into us: the control connection is root's, or the caller's. */
	if (prctl(PR_SET_DUMPABLE, 0) != 0)
		return err_errno(err, "PR_SET_DUMPABLE");
	link_send(m->link_fd, NOTE_MAPPED, 0, 0, NULL, NULL, 0);
	if (next_note(r, NOTE_NETWORK, &n, fds, &fd_n, status, err) < 0)
		return -1;
	for (unsigned i = 0, k = 0; i < NETNS_SOCKETS; i++)
		m->sockets[i] = (n.b & 1 << i) && k < fd_n ? fds[k++] : -1;
	if (m->sockets[NETNS_PROXY4] < 0)
		return err_set(err, EPROTO, "the listening sockets are missing");
	if (n.a == 0)
		say_note("this kernel has no nftables TPROXY: only programs that use the proxy variables have a network");
	if (register_sandbox(r, &environment, err) < 0)
		return -1;
	if (next_note(r, NOTE_VIEW, &n, fds, &fd_n, status, err) < 0)
		return -1;
	if (n.a == 0)
		say_note("%s is shown read-only without an overlay", n.text);
	if (fd_n == 2) {
		m->terminal = fds[0];
		m->terminal_slave = fds[1];
	}
	link_send(m->link_fd, NOTE_GO, 0, 0, NULL, &environment, environment >= 0);
	if (environment >= 0)
		close(environment);
	if (next_note(r, NOTE_STARTED, &n, fds, &fd_n, status, err) < 0)
		return -1;
	if (n.a == 0)
		say_note("this kernel has no Landlock: the file view rests on mounts alone (require: [landlock] refuses)");
	return 0;
}

/* The command's streams are its own: a pipe must end when it closes its side. Ours are needed only to relay a terminal. */
static void release_streams(const struct options *o)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0)
		return;
	dup2(null, STDIN_FILENO);
	if (o->status_fd != STDOUT_FILENO)
		dup2(null, STDOUT_FILENO);
	close(null);
}

static void abandon(struct run *r)
{
	struct monitor *m = &r->monitor;
	siginfo_t si;

	if (m->pid > 0) {
		syscall(SYS_pidfd_send_signal, m->pidfd, SIGKILL, NULL, 0);
		while (waitid(P_PIDFD, (id_t)m->pidfd, &si, WEXITED) != 0 && errno == EINTR)
			;
	}
}

static int finish(struct run *r, const struct monitor_end *end)
{
	int64_t requests, refused;

	gateway_finish(&r->gateway, r->sandbox, &requests, &refused);
	connector_end(&r->connector);
	reloader_end(&r->reloader);
	guard_finish(&r->guard);
	if (strcmp(end->reason, "timeout") == 0)
		say_note("the time was up");
	else if (strcmp(end->reason, "terminated") == 0)
		say_note("the command did not end when it was asked to: it was killed");
	else if (strcmp(end->reason, "killed") == 0)
		say_error("the sandbox was killed from outside");
	if (refused > 0)
		say_note("%lld of %lld requests were refused: sallyport logs --denied --sandbox %s", (long long)refused, (long long)requests, r->name);
	say_exited(end->status, end->reason, refused, NULL);
	return end->status;
}

static int run_checked(struct run *r, int *status, struct err *err)
{
	struct plan_secrets *secrets = arena_zalloc(&r->plan.mem, sizeof(*secrets));
	struct monitor_end end;

	if (check_streams(err) < 0 || make_plan(r, secrets, err) < 0)
		return -1;
	if (r->o.show_plan) {
		plan_print(&r->plan, stdout);
		*status = 0;
		return 0;
	}
	if (r->policy.file == NULL)
		say_note("no policy: every request is refused (--policy FILE, or write ./sallyport.yaml and type: sallyport trust)");
	r->reg.env_fd = -1;
	if (r->policy.env.source_n > 0 && (r->reg.env_fd = environ_sources(&r->policy.env, err)) < 0)
		return -1;
	environ_wipe();
	if (r->plan.was_root && !r->plan.stop_on_loss && connector_start(&r->connector, &r->gateway, err) < 0)
		return -1;
	if (reloader_start(&r->reloader, &r->gateway, &r->plan, r->policy_place, &r->policy, err) < 0)
		return -1;
	if (plan_drop(&r->plan, err) < 0 || guard_prepare(&r->guard, &r->plan, &r->policy.wish, secrets, err) < 0 || guard_start(&r->guard, r->plan.tty, err) < 0)
		return -1;
	if (start(r, status, err) < 0) {
		abandon(r);
		return -1;
	}
	if (r->monitor.terminal < 0)
		release_streams(&r->o);
	r->monitor.registered = &r->reg;
	r->monitor.connector = &r->connector;
	r->monitor.reloader = &r->reloader;
	r->monitor.sandbox = &r->sandbox;
	reloader_sandbox(&r->reloader, r->sandbox);
	say_started(r->sandbox, r->name, (int)r->monitor.pid, r->policy.name);
	monitor_run(&r->monitor, &end);
	*status = finish(r, &end);
	return 0;
}

int run_main(int argc, char **argv)
{
	struct run *r = must_calloc(1, sizeof(*r));
	struct err err = ERR_INIT;
	int status = EXIT_OURS;

	open_streams();
	r->args = argv[0];
	r->args_len = (size_t)(argv[argc - 1] + strlen(argv[argc - 1]) - argv[0]);
	r->gateway.fd = r->connector.fd = r->reloader.fd = r->guard.life_fd = r->guard.done_fd = r->policy.table_fd = r->reg.env_fd = r->reg.boundary_fd = -1;
	r->guard.sweeper = -1;
	if (options_parse(&r->o, argc - 1, argv + 1, &err) < 0) {
		say_error("%s", err.text);
		return EXIT_OURS;
	}
	if (r->o.help) {
		usage(stdout);
		return 0;
	}
	say_setup(&(struct say){ .quiet = r->o.quiet, .json = r->o.json, .status_fd = (int)r->o.status_fd });
	if (r->o.status_fd >= 0 && fcntl((int)r->o.status_fd, F_SETFD, FD_CLOEXEC) != 0) {
		say_error("--status-fd %d is not open", (int)r->o.status_fd);
		return EXIT_OURS;
	}
	if (run_checked(r, &status, &err) < 0) {
		connector_end(&r->connector);
		reloader_end(&r->reloader);
		guard_finish(&r->guard);
		say_error("%s", err.text);
		say_exited(status, "error", -1, err.text);
	}
	return status;
}
