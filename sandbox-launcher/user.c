/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whom the payload runs as. Host root is never mapped into a sandbox: a process with uid 0 and no capability at all could
 * still read /etc/shadow. Started by root, the launcher therefore becomes somebody else for good before the first
 * namespace exists.
 */
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plan.h"

#define NOBODY_IN_PARTICULAR 60999

static bool number(const char *s, unsigned *out)
{
	char *end;
	unsigned long v;

	if (s == NULL || s[0] < '0' || s[0] > '9')
		return false;
	v = strtoul(s, &end, 10);
	if (*end != 0 || v >= UINT32_MAX)
		return false;
	*out = (unsigned)v;
	return true;
}

static void take_uid(struct plan *p, uid_t uid, gid_t otherwise)
{
	struct passwd *pw = getpwuid(uid);

	p->uid = uid;
	p->gid = pw != NULL ? pw->pw_gid : otherwise;
}

static int wished_user(struct plan *p, const char *user, struct err *err)
{
	unsigned n;
	struct passwd *pw;

	if (number(user, &n)) {
		take_uid(p, n, n);
	} else {
		pw = getpwnam(user);
		if (pw == NULL)
			return err_set(err, ENOENT, "process.user: there is no user %s on this system", user);
		p->uid = pw->pw_uid;
		p->gid = pw->pw_gid;
	}
	if (p->uid == 0 || p->gid == 0)
		return err_set(err, EPERM, "process.user: %s is root (or its group is), which is never let into a sandbox", user);
	return 0;
}

int plan_user(struct plan *p, const struct plan_wish *w, struct err *err)
{
	struct stat st;
	struct passwd *pw;
	unsigned n, g;

	if (getuid() != geteuid() || getgid() != getegid())
		return err_set(err, EPERM, "sallyport-sandbox must not be installed set-user-id");
	p->was_root = geteuid() == 0;
	if (!p->was_root) {
		p->uid = geteuid();
		p->gid = getegid();
		if (w->user != NULL) {
			struct plan other = { .uid = 0 };

			if (wished_user(&other, w->user, err) < 0)
				return -1;
			if (other.uid != p->uid)
				return err_set(err, EPERM, "process.user: only root can run a sandbox as somebody else (%s)", w->user);
		}
		return 0;
	}
	if (w->user != NULL)
		return wished_user(p, w->user, err);
	if (stat(p->cwd, &st) != 0)
		return err_errno(err, "cannot look at the working directory %s", p->cwd);
	if (st.st_uid != 0)
		take_uid(p, st.st_uid, st.st_gid != 0 ? st.st_gid : st.st_uid);
	else if (number(getenv("SUDO_UID"), &n) && n != 0)
		take_uid(p, n, number(getenv("SUDO_GID"), &g) && g != 0 ? g : n);
	else if ((pw = getpwnam("sallyport")) != NULL && pw->pw_uid != 0)
		take_uid(p, pw->pw_uid, pw->pw_gid);
	else
		take_uid(p, NOBODY_IN_PARTICULAR, NOBODY_IN_PARTICULAR);
	if (p->gid == 0)
		p->gid = NOBODY_IN_PARTICULAR;
	return 0;
}

int plan_drop(const struct plan *p, struct err *err)
{
	if (!p->was_root)
		return 0;
	if (setgroups(0, NULL) != 0 || setresgid(p->gid, p->gid, p->gid) != 0 || setresuid(p->uid, p->uid, p->uid) != 0)
		return err_errno(err, "cannot become uid %u, gid %u (is it mapped in this user namespace? process.user names another)", (unsigned)p->uid, (unsigned)p->gid);
	if (setuid(0) == 0 || getuid() == 0)
		return err_set(err, EPERM, "root was not given up");
	/* A change of uid made us undumpable, and /proc/PID/uid_map root's. */
	if (prctl(PR_SET_DUMPABLE, 1) != 0)
		return err_errno(err, "PR_SET_DUMPABLE");
	return 0;
}
