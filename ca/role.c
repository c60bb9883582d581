/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The role that holds the CA's key. It opens nothing: key and certificate come as descriptors with START. A worker gets,
 * on its own link, one leaf key, and leaves for names that an intercepting destination of its sandbox's table has.
 * Refusal leaves, for names outside the table, are minted only for sandboxes whose denials are explained inside TLS;
 * they are valid for an hour and capped, so that a broken worker cannot collect leaves for the world. Leaves for its own
 * names are limited in their rate: under a wildcard there is no end of them, and one process mints for all sandboxes.
 *
 * After a rotation there are several CAs: a sandbox keeps the one that it trusts since its start (its SANDBOX says the
 * number), and the supervisor says when nobody needs one any more.
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
#define LEAVES_AT_ONCE 1024 /* what a sandbox may have minted after a pause, */
#define LEAVES_PER_S 8      /* and from then on */
#define EXPIRES_SOON_S (14 * 24 * 3600)

struct generation { /* of the CA */
	struct generation *next; /* newest first */
	uint32_t number;
	struct ca_issuer *issuer;
};
struct sandbox { /* served.data */
	struct ca_leaf_key *key; /* of the worker that is linked now */
	struct generation *ca;
	uint64_t filled_ms;      /* when `leaves` was right */
	uint64_t leaves;         /* thousandths of a leaf that it may still have minted now */
	uint64_t hour_ms;        /* when the running hour of refusal leaves began */
	unsigned refusals;
};
struct ca_role {
	struct loop *loop;
	struct ipc *sup;
	struct served_set served;
	struct generation *cas;
	uint64_t said_soon_ms;
	struct log_limit said_expired, said_limited;
};
static struct ca_role the_role; /* one in a process */

static struct sandbox *sandbox_of(struct served *s)
{
	struct sandbox *b = s->data;

	if (b == NULL) {
		b = s->data = must_calloc(1, sizeof(*b));
		b->leaves = 1000ull * LEAVES_AT_ONCE;
		b->filled_ms = loop_now_ms(the_role.loop);
	}
	return b;
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

static struct generation *generation_of(uint32_t number)
{
	struct generation *g;

	for (g = the_role.cas; g != NULL; g = g->next)
		if (g->number == number)
			return g;
	return NULL;
}

/* Takes the CA that came with m: the newest from now on. False: it is unusable, and said so. */
static bool take_ca(struct ipc_msg *m, uint32_t number)
{
	struct err err = ERR_INIT;
	struct ca_issuer *i = m->fd_n == 2 ? load(m->fds[0], m->fds[1], &err) : NULL;
	struct generation *g;

	if (i == NULL) {
		log_error("%s", err.text[0] ? err.text : "the CA's key and certificate were not handed over");
		return false;
	}
	/* nothing of the file stays within reach but the key itself */
	close(m->fds[0]);
	close(m->fds[1]);
	m->fds[0] = m->fds[1] = -1;
	g = must_malloc(sizeof(*g));
	*g = (struct generation){ the_role.cas, number, i };
	the_role.cas = g;
	return true;
}

static void forget_ca(uint32_t number)
{
	for (struct generation **p = &the_role.cas; *p != NULL; p = &(*p)->next) {
		struct generation *g = *p;

		if (g->number != number)
			continue;
		for (struct served *s = the_role.served.head; s != NULL; s = s->next)
			if (s->data != NULL && ((struct sandbox *)s->data)->ca == g)
				return;
		*p = g->next;
		ca_issuer_free(g->issuer);
		free(g);
		return;
	}
}

/* --- workers ------------------------------------------------------------------------------------------------------- */

static const char *tabled(struct served *s, const struct table *t, uint32_t generation)
{
	struct sandbox *b = sandbox_of(s);

	(void)t;
	(void)generation;
	if (b->ca == NULL)
		b->ca = generation_of(SANDBOX_CA(s->flags));
	return b->ca != NULL ? NULL : "the CA that it trusts is not here";
}

static void linked(struct served *s)
{
	struct sandbox *b = sandbox_of(s);
	struct buf der = { 0 };

	if (b->ca == NULL)
		return;
	ca_leaf_key_free(b->key);
	b->key = ca_leaf_key_new(b->ca->issuer);
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

static bool leaf_allowed(struct sandbox *b)
{
	uint64_t now = loop_now_ms(the_role.loop), more = (now - b->filled_ms) * LEAVES_PER_S;

	b->filled_ms = now;
	b->leaves = b->leaves + more > 1000ull * LEAVES_AT_ONCE ? 1000ull * LEAVES_AT_ONCE : b->leaves + more;
	if (b->leaves < 1000)
		return false;
	b->leaves -= 1000;
	return true;
}

static void warn_of_end(const struct ca_issuer *i, int64_t now_s)
{
	uint64_t now_ms = loop_now_ms(the_role.loop);
	char left[CA_LEFT_MAX];

	if (ca_issuer_end_s(i) - now_s >= EXPIRES_SOON_S || (the_role.said_soon_ms != 0 && now_ms - the_role.said_soon_ms < HOUR_MS))
		return;
	the_role.said_soon_ms = now_ms;
	ca_left_text(ca_issuer_end_s(i) - now_s, left);
	log_info("warning: the CA expires %s, and with it all that it signed: `sallyport ca rotate` makes the next one", left);
}

static enum mint_status mint(struct served *s, const struct ipc_msg *m, struct buf *der)
{
	const struct msg_mint *q = (const void *)m->data;
	struct str host = str_mk(m->data + sizeof(*q), m->len - sizeof(*q));
	const struct table *t = served_table(s, m->generation);
	struct sandbox *b = sandbox_of(s);
	int64_t now_s = (int64_t)(clock_wall_ms() / 1000);
	struct canon_host h;

	/* the worker must speak canonically: nothing is repaired here */
	if (!served_host(host, &h) || t == NULL || b->key == NULL)
		return MINT_DENIED;
	switch (q->kind) {
	case MINT_LEAF:
		if (!table_host_intercepted(t, host))
			return MINT_DENIED;
		if (!leaf_allowed(b)) {
			log_limited(&the_role.said_limited, "sandbox %s asks for certificates of more names than are minted (%d at once, then %d a second): some are refused", s->name, LEAVES_AT_ONCE, LEAVES_PER_S);
			return MINT_LIMITED;
		}
		break;
	case MINT_REFUSAL:
		/* never for a name that a tunnel leads to: its programs verify the origin themselves */
		if ((s->flags & SANDBOX_EXPLAIN_DENIALS) == 0 || table_host_tunnelled(t, host))
			return MINT_DENIED;
		if (!refusal_allowed(b))
			return MINT_LIMITED;
		break;
	default:
		return MINT_DENIED;
	}
	switch (ca_mint(b->ca->issuer, b->key, &h, now_s, q->kind == MINT_LEAF ? LEAF_VALID_S : REFUSAL_VALID_S, der)) {
	case CA_MINT_OK:
		warn_of_end(b->ca->issuer, now_s);
		return MINT_OK;
	case CA_MINT_OUTSIDE:
		return MINT_DENIED;
	case CA_MINT_EXPIRED:
		log_limited(&the_role.said_expired, "error: the CA's certificate has expired (or the clock is wrong): nothing can be intercepted. `sallyport ca rotate` makes the next one, which new sandboxes get");
		return MINT_EXPIRED;
	default:
		return MINT_FAILED;
	}
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

static const struct served_ops ops = { .tabled = tabled, .linked = linked, .message = from_worker, .gone = gone };

/* --- supervisor ---------------------------------------------------------------------------------------------------- */

static void on_supervisor(struct ipc *c, const struct ipc_msg *cm)
{
	struct ca_role *r = ipc_arg(c);
	struct ipc_msg *m = (struct ipc_msg *)(uintptr_t)cm;

	if (m == NULL)
		_exit(0);
	if (served_supervisor(&r->served, c, m))
		return;
	switch (m->type) {
	case MSG_START:
		if (r->cas != NULL)
			break;
		if (m->len < sizeof(struct msg_start) || !take_ca(m, SANDBOX_CA(((const struct msg_start *)(const void *)m->data)->flags)))
			_exit(1);
		warm(r->cas->issuer);
		role_ready(c, ROLE_CA, -1);
		break;
	case MSG_CA_NEXT:
		if (r->cas != NULL)
			take_ca(m, SANDBOX_CA(((const struct msg_ca_ref *)(const void *)m->data)->flags));
		break;
	case MSG_CA_GONE:
		forget_ca(SANDBOX_CA(((const struct msg_ca_ref *)(const void *)m->data)->flags));
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
	while (r->cas != NULL) {
		struct generation *g = r->cas;

		r->cas = g->next;
		ca_issuer_free(g->issuer);
		free(g);
	}
	return 0;
}
