/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CA and its successors. `sallyport ca rotate` puts a new directory in the place of ca/ while we work. A sandbox
 * trusts what ca.pem held when it was launched, so each keeps the CA that was there when its launcher came to the control
 * socket (which is before it reads the file), and the ca role has them all. Only descriptors of the older ones remain.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../common/base/must.h"
#include "../../common/sys/log.h"
#include "supervisor.h"

#define CA_NUMBERS 65536u /* what the flags of SANDBOX hold */

static void close_ca(struct ca_files *c)
{
	if (c->key_fd >= 0)
		close(c->key_fd);
	if (c->cert_fd >= 0)
		close(c->cert_fd);
	free(c);
}

static struct ca_files *open_files(const struct startup *s, struct err *err)
{
	struct ca_files *c = must_calloc(1, sizeof(*c));
	/* both of one directory: a rotation exchanges it as a whole */
	int dir_fd = openat(s->state_fd, "ca", O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;

	c->key_fd = openat(dir_fd, "ca.key", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	c->cert_fd = openat(dir_fd, "ca.pem", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (dir_fd >= 0)
		close(dir_fd);
	if (c->key_fd < 0 || c->cert_fd < 0) {
		err_errno(err, "cannot open %s/ca/ca.%s", s->state_dir, c->key_fd < 0 ? "key" : "pem");
		goto bad;
	}
	if (fstat(c->key_fd, &st) != 0 || !S_ISREG(st.st_mode) || (st.st_mode & 077) || st.st_uid != geteuid()) {
		err_set(err, EPERM, "%s/ca/ca.key must belong to uid %u with mode 0600: chmod 600 it, and rotate the CA if others could read it", s->state_dir, (unsigned)geteuid());
		goto bad;
	}
	c->dev = st.st_dev;
	c->ino = st.st_ino;
	return c;
bad:
	close_ca(c);
	return NULL;
}

int cas_open(struct startup *s, struct err *err)
{
	s->cas = open_files(s, err);
	return s->cas != NULL ? 0 : -1;
}

static void rewind_files(const struct ca_files *c)
{
	/* shared offsets: an earlier life of the role has read to the end */
	lseek(c->key_fd, 0, SEEK_SET);
	lseek(c->cert_fd, 0, SEEK_SET);
}

uint16_t cas_newest(struct supervisor *s)
{
	static struct log_limit limit;
	struct startup *u = &s->start;
	struct err err = ERR_INIT;
	struct ca_files *c;
	struct stat st;

	if (fstatat(u->state_fd, "ca/ca.key", &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_dev == u->cas->dev && st.st_ino == u->cas->ino)
		return u->cas->number;
	c = u->cas->number + 1u < CA_NUMBERS ? open_files(u, &err) : NULL;
	if (c == NULL) {
		log_limited(&limit, "error: %s: the CA that was there before goes on", err.text[0] ? err.text : "it was rotated too often in one gateway's life");
		return u->cas->number;
	}
	c->number = (uint16_t)(u->cas->number + 1);
	c->older = u->cas;
	u->cas = c;
	log_info("the CA was rotated: sandboxes from now on get the new one");
	cas_tell(proc_shared(s, ROLE_CA), c);
	return c->number;
}

void cas_tell(struct proc *p, const struct ca_files *c)
{
	struct msg_ca_ref m = { SANDBOX_CA_FLAGS(c->number) };
	int fds[2] = { c->key_fd, c->cert_fd };

	rewind_files(c);
	proc_say(p, MSG_CA_NEXT, 0, &m, sizeof(m), NULL, 0, fds, 2);
}

const struct ca_files *cas_first(const struct startup *s)
{
	const struct ca_files *c = s->cas;

	while (c->older != NULL)
		c = c->older;
	rewind_files(c);
	return c;
}

void cas_tell_rest(struct proc *p)
{
	const struct ca_files *newest = p->sup->start.cas;

	for (const struct ca_files *told = cas_first(&p->sup->start); told != newest;) {
		const struct ca_files *c = newest;

		while (c->older != told)
			c = c->older;
		cas_tell(p, c);
		told = c;
	}
}

void cas_forget(struct supervisor *s)
{
	struct msg_ca_ref m;

	for (struct ca_files **p = &s->start.cas->older; *p != NULL;) {
		struct ca_files *c = *p;
		bool used = control_uses_ca(s->control, c->number);

		for (struct sandbox *b = s->sandboxes; b != NULL; b = b->next)
			used = used || SANDBOX_CA(b->flags) == c->number;
		if (used) {
			p = &c->older;
			continue;
		}
		*p = c->older;
		m.flags = SANDBOX_CA_FLAGS(c->number);
		proc_say(proc_shared(s, ROLE_CA), MSG_CA_GONE, 0, &m, sizeof(m), NULL, 0, NULL, 0);
		close_ca(c);
	}
}
