/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The role that holds the CA's key. It opens nothing: key and certificate come as descriptors with START. A worker gets,
 * on its own link, one leaf key, and leaves for names that an intercepting destination of its sandbox's table has.
 * Refusal leaves, for names outside the table, are minted only for sandboxes whose denials are explained inside TLS;
 * they are valid for an hour and capped, so that a broken worker cannot collect leaves for the world.
 */
#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../common/base/must.h"
#include "../common/served.h"
#include "../common/sys/clock.h"
#include "../common/sys/log.h"
#include "../common/sys/role.h"
#include "ca.h"

#define FILE_MAX 65536
#define LEAF_VALID_S (MINT_LEAF_DAYS * 24 * 3600)
#define REFUSAL_VALID_S 3600
#define REFUSALS_PER_HOUR 200
#define HOUR_MS 3600000u

struct sandbox { /* served.data */
	struct ca_leaf_key *key; /* of the worker that is linked now */
	uint64_t hour_ms;        /* when the running hour of refusal leaves began */
	unsigned refusals;
};
struct ca_role {
	struct loop *loop;
	struct ipc *sup;
	struct served_set served;
	struct ca_issuer *issuer;
	struct log_limit said_expired;
};
static struct ca_role the_role; /* one in a process */

static struct sandbox *sandbox_of(struct served *s)
{
	if (s->data == NULL)
		s->data = must_calloc(1, sizeof(struct sandbox));
	return s->data;
}

/* --- the key ------------------------------------------------------------------------------------------------------- */

static BIO *read_file(int fd, struct err *err)
{
	char *p = must_malloc(FILE_MAX);
	size_t n = 0;
	ssize_t k = 1;
	BIO *b = NULL;

	while (n < FILE_MAX && (k = pread(fd, p + n, FILE_MAX - n, (off_t)n)) > 0)
		n += (size_t)k;
	if (k < 0)
		err_errno(err, "cannot be read");
	else if (n == FILE_MAX)
		err_set(err, EFBIG, "it is too large");
	else {
		b = BIO_new(BIO_s_secmem());
		MUST(b != NULL && BIO_write(b, p, (int)n) == (int)n);
	}
	explicit_bzero(p, FILE_MAX);
	free(p);
	return b;
}

static int no_password(char *buf, int size, int rw, void *arg)
{
	(void)buf;
	(void)size;
	(void)rw;
	(void)arg;
	return -1; /* never asks on a terminal */
}

static struct ca_issuer *load(int key_fd, int cert_fd, struct err *err)
{
	BIO *kb = read_file(key_fd, err), *cb = kb != NULL ? read_file(cert_fd, err) : NULL;
	EVP_PKEY *key = kb != NULL && cb != NULL ? PEM_read_bio_PrivateKey(kb, NULL, no_password, NULL) : NULL;
	X509 *cert = key != NULL ? PEM_read_bio_X509(cb, NULL, NULL, NULL) : NULL;
	struct ca_issuer *i = NULL;

	if (kb == NULL || cb == NULL)
		err_wrap(err, "the CA's %s", kb == NULL ? "key" : "certificate");
	else if (key == NULL || cert == NULL)
		err_set(err, EINVAL, "the CA's %s cannot be parsed", key == NULL ? "key" : "certificate");
	else
		i = ca_issuer_new(key, cert, err);
	EVP_PKEY_free(key);
	X509_free(cert);
	BIO_free(kb);
	BIO_free(cb);
	ERR_clear_error();
	return i;
}

/* What loads lazily is loaded before the doors shut: one leaf, and one that cannot be. */
static void warm(const struct ca_issuer *i)
{
	struct canon_host h;
	const char *why;
	struct buf out = { 0 };
	struct ca_leaf_key *k = ca_leaf_key_new(i);

	MUST(canon_host(STR("warm.invalid"), false, &h, &why));
	ca_mint(i, k, &h, (int64_t)(clock_wall_ms() / 1000), REFUSAL_VALID_S, &out);
	buf_clear(&out);
	ca_leaf_key_der(k, &out);
	buf_fini_secret(&out);
	ca_leaf_key_free(k);
	(void)ERR_reason_error_string(ERR_PACK(ERR_LIB_X509, 0, X509_R_KEY_VALUES_MISMATCH));
	ERR_clear_error();
}

/* --- workers ------------------------------------------------------------------------------------------------------- */

static void linked(struct served *s)
{
	struct sandbox *b = sandbox_of(s);
	struct buf der = { 0 };

	ca_leaf_key_free(b->key);
	b->key = ca_leaf_key_new(the_role.issuer);
	ca_leaf_key_der(b->key, &der);
	served_answer(s, MSG_LEAF_KEY, 0, 0, buf_data(&der), buf_len(&der), NULL, 0, -1);
	buf_fini_secret(&der);
}

static void gone(struct served *s)
{
	struct sandbox *b = s->data;

	if (b == NULL)
		return;
	ca_leaf_key_free(b->key);
	free(b);
}

struct search {
	struct str host;
	bool found;
};

static bool intercepts(const struct dest *d) { return !d->tunnel; }

static bool search_dest(void *arg, const struct dest *d)
{
	struct search *q = arg;

	q->found = intercepts(d) && dest_stands_for(d, q->host);
	return !q->found;
}

/* Whether some destination of the table with this host has its TLS opened here. */
static bool may_mint(const struct table *t, struct str host)
{
	struct search q = { host, false };
	struct dest d;

	if (!table_host_known(t, host))
		return false;
	if (table_find(t, SCHEME_HTTPS, host, 443, &d) == 1 && intercepts(&d))
		return true;
	table_dest_each(t, search_dest, &q); /* another port, or a tunnel there */
	return q.found;
}

static bool refusal_allowed(struct sandbox *b)
{
	uint64_t now = loop_now_ms(the_role.loop);

	if (b->hour_ms == 0 || now - b->hour_ms >= HOUR_MS) {
		b->hour_ms = now;
		b->refusals = 0;
	}
	if (b->refusals >= REFUSALS_PER_HOUR)
		return false;
	b->refusals++;
	return true;
}

static enum mint_status mint(struct served *s, const struct ipc_msg *m, struct buf *der)
{
	const struct msg_mint *q = (const void *)m->data;
	struct str host = str_mk(m->data + sizeof(*q), m->len - sizeof(*q));
	const struct table *t = served_table(s, m->generation);
	struct sandbox *b = sandbox_of(s);
	struct canon_host h;

	/* the worker must speak canonically: nothing is repaired here */
	if (!served_host(host, &h) || t == NULL || b->key == NULL)
		return MINT_DENIED;
	switch (q->kind) {
	case MINT_LEAF:
		if (!may_mint(t, host))
			return MINT_DENIED;
		break;
	case MINT_REFUSAL:
		if ((s->flags & SANDBOX_EXPLAIN_DENIALS) == 0)
			return MINT_DENIED;
		if (!refusal_allowed(b))
			return MINT_LIMITED;
		break;
	default:
		return MINT_DENIED;
	}
	if (!ca_mint(the_role.issuer, b->key, &h, (int64_t)(clock_wall_ms() / 1000), q->kind == MINT_LEAF ? LEAF_VALID_S : REFUSAL_VALID_S, der)) {
		log_limited(&the_role.said_expired, "error: the CA's certificate has expired (or the clock is wrong): nothing can be intercepted");
		return MINT_FAILED;
	}
	return MINT_OK;
}

static void from_worker(struct served *s, struct ipc_msg *m)
{
	struct msg_minted a = { 0 };
	struct buf der = { 0 };

	if (m->type != MSG_MINT)
		return;
	a.status = (uint8_t)mint(s, m, &der);
	served_answer(s, MSG_MINTED, m->generation, m->id, &a, sizeof(a), buf_str(&der).p, buf_len(&der), -1);
	buf_fini(&der);
}

static const struct served_ops ops = { .linked = linked, .message = from_worker, .gone = gone };

/* --- supervisor ---------------------------------------------------------------------------------------------------- */

static void on_supervisor(struct ipc *c, const struct ipc_msg *cm)
{
	struct ca_role *r = ipc_arg(c);
	struct ipc_msg *m = (struct ipc_msg *)(uintptr_t)cm;
	struct err err = ERR_INIT;

	if (m == NULL)
		_exit(0);
	if (served_supervisor(&r->served, c, m))
		return;
	switch (m->type) {
	case MSG_START:
		if (r->issuer != NULL)
			break;
		r->issuer = m->fd_n == 2 ? load(m->fds[0], m->fds[1], &err) : NULL;
		if (r->issuer == NULL) {
			log_error("%s", err.text[0] ? err.text : "the CA's key and certificate were not handed over");
			_exit(1);
		}
		/* nothing of the file stays within reach but the key itself */
		close(m->fds[0]);
		close(m->fds[1]);
		m->fds[0] = m->fds[1] = -1;
		warm(r->issuer);
		role_ready(c, ROLE_CA, -1);
		break;
	case MSG_SHUTDOWN:
		loop_stop(r->loop);
		break;
	default:
		break;
	}
}

int ca_main(int link_fd)
{
	struct ca_role *r = &the_role;
	uint8_t seed[16];

	log_title("ca");
	signal(SIGPIPE, SIG_IGN);
	random_fill(seed, sizeof(seed));
	hash_seed(seed);
	r->loop = loop_new();
	r->served = (struct served_set){ .loop = r->loop, .self = ROLE_CA, .ops = &ops };
	r->sup = ipc_new(r->loop, link_fd, ROLE_CA, ROLE_SUPERVISOR, on_supervisor, r);
	loop_run(r->loop);
	served_fini(&r->served);
	ca_issuer_free(r->issuer);
	return 0;
}
