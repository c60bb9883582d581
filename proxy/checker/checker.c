/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Confines itself, waits for one table and checks it: whether it lies within the boundaries that there are, whether its secrets
 * come from where the configuration lets them, and whether what is to narrow it does nothing else. Then it ends. It is thrown
 * away afterwards: whatever a crafted file does to it, all it can say is a digest and a signer, what goes beyond a boundary
 * or the configuration, or nothing; all but the digest are refusals.
 */
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../../common/policy/sandbox_spec.h"
#include "../../common/policy/signature.h"
#include "../../common/policy/sources.h"
#include "../../common/policy/within.h"
#include "../../common/sys/confine.h"
#include "../../common/sys/ipc.h"
#include "../../common/sys/log.h"
#include "../roles.h"

#define TEXT_MAX 1100

static bool load_all(void *arg, const struct dest *d)
{
	struct str der;
	struct inject in;

	for (unsigned i = 0; dest_ca(d, i, &der); i++)
		;
	for (unsigned i = 0; dest_crl(d, i, &der); i++)
		;
	for (unsigned i = 0, n = dest_inject_count(d); i < n; i++)
		if (!dest_inject(d, i, &in))
			return false;
	(void)arg;
	return true;
}

/* Checks the table in fd. 0, with its digest and its signer, or -1. */
static int check(int fd, struct table **t, struct msg_checked *said)
{
	static struct sandbox_spec spec; /* large */
	struct err err = ERR_INIT;
	struct stat st;
	void *map;

	if (fstat(fd, &st) != 0 || (map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0)) == MAP_FAILED)
		return -1;
	/* the signature before anything else: then it is not a stranger's octets that are walked over */
	if (signature_check(map, (size_t)st.st_size, said->signer, &err) < 0 || table_check(map, (size_t)st.st_size, said->digest, &err) < 0 || table_open(t, fd, &err) < 0) {
		log_error("%s", err.text);
		return -1;
	}
	/* as the roles will read it; without secrets a destination has nothing that its check has not read already */
	if ((table_secret_count(*t) > 0 && !table_dest_each(*t, load_all, NULL)) || !sandbox_spec_load(*t, &spec)) {
		log_error("the table is damaged: a destination or the sandbox section");
		return -1;
	}
	return 0;
}

struct words {
	char text[TEXT_MAX];
	size_t n, begin;
};

static void say(void *arg, struct str source, const char *text)
{
	struct words *w = arg;
	int n = snprintf(w->text + w->n, sizeof(w->text) - w->n, "%s%.*s%s%s", w->n > w->begin ? "; " : "", (int)(source.n > 200 ? 200 : source.n), source.n ? source.p : "", source.n ? ": " : "", text);

	if (n > 0)
		w->n = w->n + (size_t)n < sizeof(w->text) ? w->n + (size_t)n : sizeof(w->text) - 1;
}

static struct words *begin(struct words *w)
{
	w->n = w->begin = strlen(w->text);
	return w;
}

static bool read_rules(int fd, char text[SOURCES_RULES_MAX], struct str *rules)
{
	struct stat st;
	void *map;

	*rules = STR_NONE;
	if (fstat(fd, &st) != 0 || st.st_size > SOURCES_RULES_MAX)
		return false;
	if (st.st_size == 0) /* no rules at all */
		return true;
	map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED)
		return false;
	memcpy(text, map, (size_t)st.st_size);
	*rules = str_mk(text, (size_t)st.st_size);
	return true;
}

/* 0: the answer is in *said. 1: it is in *why. -1: there is none. */
static int answer(const struct ipc_msg *m, struct msg_checked *said, struct words **why)
{
	static struct words beyond = { .text = "the policy goes beyond the boundary: " },
			    from = { .text = "the gateway's configuration does not let this policy have its secrets (gateway.yaml: sources): " },
			    more = { .text = "a policy that is brought to narrow an installed one does nothing else: " };
	static char room[SOURCES_RULES_MAX];
	struct str rules;
	struct table *t, *other;
	struct msg_checked ignored;
	struct msg_check what;
	unsigned at = 2;

	memcpy(&what, m->data, sizeof(what));
	if (what.narrow > 1 || m->fd_n != 2u + what.narrow + what.boundaries)
		return -1;
	if (check(m->fds[0], &t, said) < 0 || !read_rules(m->fds[1], room, &rules))
		return -1;
	*why = begin(&from);
	if (sources_check(rules, t, say, &from) > 0)
		return 1;
	if (what.narrow) {
		if (check(m->fds[at++], &other, &ignored) < 0)
			return -1;
		*why = begin(&more);
		if (table_narrows(other, say, &more) > 0)
			return 1;
	}
	for (unsigned i = 0; i < what.boundaries; i++) {
		if (check(m->fds[at++], &other, &ignored) < 0)
			return -1;
		*why = begin(&beyond);
		if (table_within(t, other, say, &beyond) > 0)
			return 1;
	}
	return 0;
}

int checker_main(int link_fd)
{
	static struct msg_checked said;
	struct confine c = { .dir_fd = -1 };
	struct err err = ERR_INIT;
	struct words *why = NULL;
	struct ipc_msg m;
	uint8_t digest[TABLE_DIGEST_LEN];
	bool told = false;

	log_title("checker");
	/* the digest must not look for a configuration file behind the walls */
	if (OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, NULL) != 1)
		return 1;
	if (confine_role(ROLE_CHECKER, &c, &err) < 0) {
		log_error("cannot confine itself: %s", err.text);
		return 1;
	}
	/* what takes its time is done before it is needed: libcrypto finds its algorithms at the first use */
	if (EVP_Digest("", 0, digest, NULL, EVP_sha256(), NULL) != 1)
		return 1;
	if (!ipc_wait(link_fd, ROLE_CHECKER, ROLE_SUPERVISOR, &m) || m.type != MSG_CHECK)
		return 1; /* nothing needs it any more */
	switch (answer(&m, &said, &why)) {
	case 0:
		told = ipc_say(link_fd, ROLE_CHECKER, ROLE_SUPERVISOR, MSG_CHECKED, &said, sizeof(said));
		break;
	case 1:
		told = ipc_say(link_fd, ROLE_CHECKER, ROLE_SUPERVISOR, MSG_CHECK_REFUSED, why->text, why->n);
		break;
	}
	return told ? 0 : 1;
}
