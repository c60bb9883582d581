/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Generations: one policy of one sandbox, with the sources of its secrets. Its table is copied into sealed memory and
 * checked by a process that is thrown away (checkers.c); what fails is refused, and the generation in force stays.
 *
 *   CHECKING -> TELLING (shared roles) -> SWITCHING (worker) -> IN_FORCE -> OLD -> freed
 *
 * The first of a sandbox is told to all at once. A later one is told to its worker when every shared role that is at work
 * has it, so that a question in its name never comes before it; a role that is down is told when it is back, before it has
 * a link to the worker. A worker that does not switch is ended: the next one begins with the new generation, and until one has
 * it the old one would be in force for every role. An old one is retired when the worker has nothing of it any more, and in any
 * case after RETIRE_MS.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "../../common/base/must.h"
#include "../../common/sys/log.h"
#include "supervisor.h"

#define TELL_MS 10000    /* for the roles to take a new generation */
#define SWITCH_MS 10000  /* for the worker, which is asked last */
#define RETIRE_MS 30000  /* how long a worker may ask in the name of an old one */
#define OLD_MAX 8        /* of one sandbox */

struct generation *generation_new(void)
{
	struct generation *g = must_calloc(1, sizeof(*g));

	g->table_fd = g->env_fd = g->vault_ca_fd = g->narrow_fd = -1;
	return g;
}

void generation_free(struct generation *g)
{
	if (g == NULL)
		return;
	timer_stop(&g->late);
	if (g->table_fd >= 0)
		close(g->table_fd);
	if (g->env_fd >= 0)
		close(g->env_fd);
	for (unsigned i = 0; i < g->file_n; i++) {
		if (g->files[i].fd >= 0)
			close(g->files[i].fd);
		if (g->files[i].dir_fd >= 0)
			close(g->files[i].dir_fd);
		free(g->files[i].path);
	}
	if (g->vault_ca_fd >= 0)
		close(g->vault_ca_fd);
	if (g->narrow_fd >= 0)
		close(g->narrow_fd);
	free(g->vault_url);
	buf_fini(&g->vault);
	free(g);
}

static int copy_fd(int fd) { return fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : -1; }

void generation_keep_sources(struct generation *g, const struct generation *now, bool env, bool files)
{
	if (env)
		g->env_fd = copy_fd(now->env_fd);
	for (unsigned i = 0; files && i < now->file_n; i++) {
		int fd = copy_fd(now->files[i].fd), dir = copy_fd(now->files[i].dir_fd);

		if (fd >= 0 || dir >= 0)
			g->files[g->file_n++] = (struct sandbox_file){ must_strdup(now->files[i].path), fd, dir, now->files[i].follow };
	}
	if (env && g->vault_url == NULL && now->vault_url != NULL) { /* with the token, which is a variable */
		g->vault_url = must_strdup(now->vault_url);
		buf_adds(&g->vault, buf_str(&now->vault));
		g->vault_ca_fd = copy_fd(now->vault_ca_fd);
	}
}

struct generation *generation_find(const struct sandbox *b, uint32_t number)
{
	struct generation *g = b->generations;

	while (g != NULL && g->number != number)
		g = g->newer;
	return g;
}

/* The one that is to take the place of the one in force; NULL: none. */
static struct generation *coming(const struct sandbox *b)
{
	struct generation *g = b->generations;

	while (g != NULL && g->state >= GENERATION_IN_FORCE)
		g = g->newer;
	return g;
}

struct generation *generation_for_worker(const struct sandbox *b)
{
	struct generation *g = coming(b);

	return g != NULL && g->state == GENERATION_SWITCHING ? g : b->in_force;
}

static void forget(struct generation *g)
{
	for (struct generation **p = &g->sandbox->generations; *p != NULL; p = &(*p)->newer) {
		if (*p != g)
			continue;
		*p = g->newer;
		break;
	}
	generation_free(g);
}

void generation_retire(struct generation *g)
{
	proc_tell_retired(g);
	forget(g);
}

void generations_worker_lost(struct sandbox *b)
{
	for (struct generation *g = b->generations, *next; g != NULL; g = next) {
		next = g->newer;
		if (g->state == GENERATION_OLD)
			generation_retire(g);
	}
}

static void on_retire(struct timer *t) { generation_retire((struct generation *)((char *)t - offsetof(struct generation, late))); }

static void refuse(struct generation *g, const char *text)
{
	struct sandbox *b = g->sandbox;

	if (b->in_force == NULL) {
		sandbox_refuse(b, text);
		return;
	}
	generation_retire(g);
	control_reloaded(b, NULL, text);
}

void generation_refused(struct generation *g, const char *text)
{
	if (g->state < GENERATION_IN_FORCE)
		refuse(g, text);
}

static void on_told_late(struct timer *t)
{
	struct generation *g = (struct generation *)((char *)t - offsetof(struct generation, late));

	refuse(g, "the gateway's roles did not take the policy in time");
}

static void in_force(struct generation *g)
{
	struct sandbox *b = g->sandbox;
	struct generation *before = b->in_force;
	unsigned old = 0;

	timer_stop(&g->late);
	g->state = GENERATION_IN_FORCE;
	b->in_force = g;
	b->policy_seen = g->seen;
	if (before == NULL)
		return;
	before->state = GENERATION_OLD;
	timer_start(b->sup->loop, &before->late, RETIRE_MS, on_retire);
	for (struct generation *x = b->generations; x != NULL; x = x->newer)
		old += x->state == GENERATION_OLD;
	if (old > OLD_MAX)
		generation_retire(b->generations); /* the oldest */
	control_reloaded(b, g, NULL);
}

static void on_switch_late(struct timer *t)
{
	struct generation *g = (struct generation *)((char *)t - offsetof(struct generation, late));
	struct sandbox *b = g->sandbox;
	const struct proc *w = b->worker;

	if (w != NULL && w->state == PROC_READY && loop_now_ms(b->sup->loop) - w->started_ms >= SWITCH_MS) { /* one that starts has its own time */
		log_error("the worker of sandbox %s does not take its new policy: it is started anew", b->name);
		kill(w->child.pid, SIGKILL);
	}
	timer_start(b->sup->loop, &g->late, SWITCH_MS, on_switch_late);
}

void generations_go_on(struct sandbox *b)
{
	static const enum role asked[] = { ROLE_SECRETS, ROLE_CA, ROLE_DIALER };
	struct generation *g = coming(b);

	if (g == NULL || g->state != GENERATION_TELLING)
		return;
	for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++)
		if (proc_shared(b->sup, asked[i])->state == PROC_READY && (g->acks & 1u << asked[i]) == 0)
			return;
	g->state = GENERATION_SWITCHING; /* whether the worker has switched only it can say: from here on there is no way back */
	timer_start(b->sup->loop, &g->late, SWITCH_MS, on_switch_late);
	proc_switch(b, g);
}

void generation_ack(struct generation *g, enum role r)
{
	const unsigned all = 1u << ROLE_WORKER | 1u << ROLE_DIALER | 1u << ROLE_CA | 1u << ROLE_SECRETS | 1u << ROLE_AUDIT;
	struct sandbox *b = g->sandbox;

	g->acks |= 1u << r;
	if (g->state == GENERATION_TELLING) {
		generations_go_on(b);
	} else if (g->state == GENERATION_SWITCHING && (b->in_force != NULL ? r == ROLE_WORKER : g->acks == all)) {
		in_force(g);
		sandbox_started(b);
	}
}

/* --- the table's check --------------------------------------------------------------------------------------------- */

static void checked(struct generation *g)
{
	struct sandbox *b = g->sandbox;

	if (b->in_force == NULL) {
		g->state = GENERATION_SWITCHING;
		sandbox_announce(b);
		return;
	}
	g->state = GENERATION_TELLING;
	timer_start(b->sup->loop, &g->late, TELL_MS, on_told_late);
	proc_tell_sandbox(b->sup, b);
	generations_go_on(b);
}

/* require_signed: by one of those keys. */
static bool vouched_for(const struct supervisor *s, struct generation *g, const uint8_t signer[SIGNATURE_KEY_LEN])
{
	static const uint8_t nobody[SIGNATURE_KEY_LEN];
	bool is_signed = memcmp(signer, nobody, sizeof(nobody)) != 0;

	for (unsigned i = 0; is_signed && i < s->start.config.signer_n; i++)
		if (memcmp(s->start.config.signers[i], signer, SIGNATURE_KEY_LEN) == 0)
			return true;
	if (s->start.config.signer_n == 0)
		return true;
	refuse(g, !is_signed ? "this gateway takes signed policies only (require_signed), and this one is not signed: sallyport policy compile --sign KEY"
							      : "this gateway takes policies of certain signers only (require_signed), and this one is signed by somebody else");
	return false;
}

void generation_checked(struct generation *g, const struct msg_checked *said)
{
	memcpy(g->digest, said->digest, GENERATION_DIGEST_LEN);
	if (vouched_for(g->sandbox->sup, g, said->signer))
		checked(g);
}

#define ALL_SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

/* Memory that its maker has sealed as we would: nobody can change it any more, so it need not be copied. No huge pages: those are mapped otherwise. */
bool generation_sealed(int fd)
{
	struct statfs fs;
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && (seals & ALL_SEALS) == ALL_SEALS && (fcntl(fd, F_GETFL) & O_ACCMODE) != O_WRONLY && fstatfs(fd, &fs) == 0 && fs.f_type == TMPFS_MAGIC;
}

/* A sealed copy: what was checked is what is used, whatever the caller does to its file. */
int generation_seal(int fd, struct err *err)
{
	const bool sealed = generation_sealed(fd); /* before its size is looked at, which then stays */
	struct stat st;
	off_t off = 0;
	int out;

	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size == 0 || st.st_size > TABLE_MAX)
		return err_set(err, EINVAL, "the compiled policy is not a regular file of a possible size");
	if (sealed) {
		out = fcntl(fd, F_DUPFD_CLOEXEC, 3);
		return out < 0 ? err_errno(err, "the compiled policy") : out;
	}
	out = memfd_create("sallyport-table", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (out < 0)
		return err_errno(err, "memfd");
	while (off < st.st_size) {
		if (sendfile(out, fd, &off, (size_t)(st.st_size - off)) <= 0) { /* off goes on; shorter now: never more than there was */
			err_set(err, EIO, "the compiled policy cannot be copied");
			goto bad;
		}
	}
	if (fcntl(out, F_ADD_SEALS, ALL_SEALS) != 0) {
		err_errno(err, "cannot seal the compiled policy");
		goto bad;
	}
	return out;
bad:
	close(out);
	return -1;
}

unsigned generation_boundaries(const struct generation *g, int fds[TABLE_BOUNDARIES_MAX])
{
	const int all[TABLE_BOUNDARIES_MAX] = { g->narrow_fd, g->folder != NULL ? g->folder->boundary_fd : -1, g->sandbox->boundary_fd };
	unsigned n = 0;

	for (unsigned i = 0; i < TABLE_BOUNDARIES_MAX; i++)
		if (all[i] >= 0)
			fds[n++] = all[i];
	return n;
}

/* The policy's name is filled in. */
void generation_rules(const struct generation *g, struct buf *out)
{
	const struct source_rules *r = g->folder != NULL ? &g->folder->sources : &g->sandbox->sup->start.config.sources;
	const struct str mark = STR("{policy}");
	struct str rest = str_mk(r->text, r->n);

	for (ptrdiff_t at; (at = str_find(rest, mark)) >= 0; rest = str_mk(rest.p + at + mark.n, rest.n - (size_t)at - mark.n)) {
		buf_add(out, rest.p, (size_t)at);
		buf_addz(out, g->policy);
	}
	buf_adds(out, rest);
}

/* fd is replaced by an own copy that nobody can change. */
static bool seal(int *fd, struct err *err)
{
	int sealed = generation_seal(*fd, err);

	if (sealed < 0)
		return false;
	close(*fd);
	*fd = sealed;
	return true;
}

void generation_add(struct sandbox *b, struct generation *g)
{
	struct generation **end = &b->generations;
	struct err err = ERR_INIT;
	bool sealed = seal(&g->table_fd, &err) && (g->narrow_fd < 0 || seal(&g->narrow_fd, &err));

	g->sandbox = b;
	g->number = ++b->sup->next_generation;
	while (*end != NULL)
		end = &(*end)->newer;
	*end = g;
	if (!sealed) {
		refuse(g, err.text);
		return;
	}
	if (checker_start(g, &err) < 0)
		refuse(g, err.text);
}

bool generation_coming(const struct sandbox *b) { return coming(b) != NULL; }
