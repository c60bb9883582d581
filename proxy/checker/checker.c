/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks one table, whether it lies within the boundaries that there are, whether its secrets come from where the
 * configuration lets them, and whether what is to narrow it does nothing else, and ends. It is thrown away afterwards: whatever
 * a crafted file does to it, all it can say is a digest and a signer (64 octets on its link; the signer is zeros when there is
 * none), a longer text about what goes beyond a boundary or the configuration, or nothing; all but the digest are refusals.
 * Its descriptors: the table, the rules of sources, the narrowing table, two boundaries; an empty file stands for none.
 */
#include <openssl/crypto.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../../common/policy/sandbox_spec.h"
#include "../../common/policy/signature.h"
#include "../../common/policy/sources.h"
#include "../../common/policy/within.h"
#include "../../common/sys/child.h"
#include "../../common/sys/confine.h"
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
static int check(int fd, struct table **t, uint8_t said[TABLE_DIGEST_LEN + SIGNATURE_KEY_LEN])
{
	static struct sandbox_spec spec; /* large */
	struct err err = ERR_INIT;
	struct stat st;
	void *map;

	if (fstat(fd, &st) != 0 || (map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0)) == MAP_FAILED)
		return -1;
	/* the signature before anything else: then it is not a stranger's octets that are walked over */
	if (signature_check(map, (size_t)st.st_size, said + TABLE_DIGEST_LEN, &err) < 0 || table_check(map, (size_t)st.st_size, said, &err) < 0 || table_open(t, fd, &err) < 0) {
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

/* What is sent is 0 or 2, or 1 when it could not be. */
static int refused(const struct words *w) { return write(ROLE_LINK_FD, w->text, w->n) < 0 ? 1 : 2; }

static bool read_rules(int fd, char text[SOURCES_RULES_MAX], struct str *rules)
{
	struct stat st;
	void *map;

	*rules = STR_NONE;
	if (fstat(fd, &st) != 0 || st.st_size > SOURCES_RULES_MAX)
		return false;
	if (st.st_size == 0)
		return true;
	map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED)
		return false;
	memcpy(text, map, (size_t)st.st_size);
	*rules = str_mk(text, (size_t)st.st_size);
	return true;
}

/* The table in fd, unless the file is empty: 1, or 0. -1: it is damaged. */
static int given(int fd, struct table **t)
{
	uint8_t said[TABLE_DIGEST_LEN + SIGNATURE_KEY_LEN] = { 0 };
	struct stat st;

	if (fstat(fd, &st) != 0)
		return -1;
	return st.st_size == 0 ? 0 : check(fd, t, said) < 0 ? -1 : 1;
}

int checker_main(int fd)
{
	static struct words w = { .text = "the policy goes beyond the boundary: " }, from = { .text = "the gateway's configuration does not let this policy have its secrets (gateway.yaml: sources): " },
			    more = { .text = "a policy that is brought to narrow an installed one does nothing else: " };
	static char room[SOURCES_RULES_MAX];
	struct str rules;
	struct confine c = { .dir_fd = -1 };
	struct err err = ERR_INIT;
	uint8_t said[TABLE_DIGEST_LEN + SIGNATURE_KEY_LEN];
	struct table *t, *other;
	int is;

	log_title("checker");
	/* the digest must not look for a configuration file behind the walls */
	if (OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, NULL) != 1)
		return 1;
	if (confine_role(ROLE_CHECKER, &c, &err) < 0) {
		log_error("cannot confine itself: %s", err.text);
		return 1;
	}
	if (check(fd, &t, said) < 0 || !read_rules(fd + 1, room, &rules))
		return 1;
	from.n = from.begin = strlen(from.text);
	if (sources_check(rules, t, say, &from) > 0)
		return refused(&from);
	if ((is = given(fd + 2, &other)) < 0)
		return 1;
	more.n = more.begin = strlen(more.text);
	if (is > 0 && table_narrows(other, say, &more) > 0)
		return refused(&more);
	w.n = w.begin = strlen(w.text);
	for (int i = 3; i < 5; i++) {
		if ((is = given(fd + i, &other)) < 0)
			return 1;
		if (is > 0 && table_within(t, other, say, &w) > 0)
			return refused(&w);
	}
	return write(ROLE_LINK_FD, said, sizeof(said)) == (ssize_t)sizeof(said) ? 0 : 1;
}
