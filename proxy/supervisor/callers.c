/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may do what on the control socket. The gateway's own user, root and, of a gateway that root runs, the members of the
 * group sallyport-admin may do everything. Everybody else brings no authority: he starts sandboxes with the installed
 * policies of folders that let him, may narrow those, and sees and ends his own sandboxes only. A folder that names `users`
 * or `groups` lets those; one that does not, the members of the group sallyport. What is asked is what the kernel says of the
 * other end when it connected, never a name that it sends.
 */
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../common/base/must.h"
#include "../../common/sys/clock.h"
#include "../../common/sys/log.h"
#include "supervisor.h"

#ifndef SO_PEERGROUPS
#define SO_PEERGROUPS 59
#endif
#define GROUPS_MAX 65536 /* the kernel's NGROUPS_MAX */
#define RECORDS_MS 60000
#define RECORDS_MAX 30 /* of refusals, in that time: whoever brings them about shall not fill the log */

struct peer {
	struct ucred cred;
	gid_t *groups;
	unsigned n;
};

void callers_find_groups(struct config *c)
{
	const struct group *g;

	if (geteuid() != 0)
		return; /* nobody but its user has a say in whom a gateway of an ordinary user serves */
	g = getgrnam("sallyport-admin");
	c->has_admins = g != NULL;
	c->admins = g != NULL ? g->gr_gid : 0;
	g = getgrnam("sallyport");
	c->has_callers = g != NULL;
	c->callers = g != NULL ? g->gr_gid : 0;
}

bool callers_others(const struct config *c)
{
	bool named = false;

	for (unsigned i = 0; i < c->folder_n; i++)
		named = named || c->folders[i].user_n + c->folders[i].group_n > 0;
	return named || c->has_admins || c->has_callers;
}

static bool read_peer(struct peer *p, int fd)
{
	socklen_t n = sizeof(p->cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &p->cred, &n) != 0)
		return false;
	n = 0;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, NULL, &n) == 0)
		return true; /* none */
	if (errno != ERANGE || n > GROUPS_MAX * sizeof(gid_t))
		return errno == ENOPROTOOPT; /* a kernel that does not tell: the one that SO_PEERCRED has counts */
	p->groups = must_malloc(n);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, p->groups, &n) != 0)
		return false;
	p->n = n / sizeof(gid_t);
	return true;
}

static bool in_group(const struct peer *p, uint32_t gid)
{
	bool in = p->cred.gid == gid;

	for (unsigned i = 0; i < p->n; i++)
		in = in || p->groups[i] == gid;
	return in;
}

static bool lets(const struct config *c, const struct folder *f, const struct peer *p)
{
	bool in = false;

	if (!f->named)
		return c->has_callers && in_group(p, c->callers);
	for (unsigned i = 0; i < f->user_n; i++)
		in = in || f->users[i] == p->cred.uid;
	for (unsigned i = 0; i < f->group_n; i++)
		in = in || in_group(p, f->groups[i]);
	return in;
}

bool caller_known(struct caller *by, const struct config *c, int fd, char why[200])
{
	struct peer p = { 0 };
	bool known = read_peer(&p, fd);

	*by = (struct caller){ .uid = p.cred.uid };
	if (known) {
		by->admin = p.cred.uid == geteuid() || p.cred.uid == 0 || (c->has_admins && in_group(&p, c->admins));
		for (unsigned i = 0; i < c->folder_n; i++)
			by->folders |= (uint32_t)(by->admin || lets(c, &c->folders[i], &p)) << i;
		known = by->admin || by->folders != 0;
		if (!known)
			snprintf(why, 200, "this gateway does not serve user %u: no policy folder lets it (gateway.yaml, policies: users, groups)", (unsigned)p.cred.uid);
	} else {
		snprintf(why, 200, "who calls cannot be told");
	}
	free(p.groups);
	return known;
}

bool caller_may_use(const struct caller *by, const struct config *c, const struct folder *f) { return by->admin || (by->folders >> (f - c->folders) & 1) != 0; }

void caller_refused(struct supervisor *s, const struct caller *by, struct str sandbox, const char *text)
{
	static uint64_t since_ms;
	static unsigned n;
	uint64_t now = clock_mono_us() / 1000;
	char words[700];

	if (since_ms == 0 || now - since_ms >= RECORDS_MS) {
		if (n > RECORDS_MAX) {
			snprintf(words, sizeof(words), "%u more refusals of callers were not recorded", n - RECORDS_MAX);
			supervisor_admin(s, STR_NONE, NULL, words);
		}
		since_ms = now;
		n = 0;
	}
	if (++n > RECORDS_MAX)
		return;
	log_error("user %u was refused: %s", (unsigned)by->uid, text);
	snprintf(words, sizeof(words), "user %u was refused: %s", (unsigned)by->uid, text);
	supervisor_admin(s, sandbox, NULL, words);
}
