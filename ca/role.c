/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ca role: holds the CA key and mints leaves for names that an intercepting destination of the asking sandbox has,
 * and, while denials are explained, short refusal leaves for others: counted, capped per sandbox and hour. Each worker's
 * leaves carry one key, made here and sent once.
 */
#include "ca.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../common/base/must.h"
#include "../common/policy/table.h"
#include "../common/sys/clock.h"
#include "../common/sys/ipc.h"
#include "../common/sys/log.h"
#include "../common/sys/role.h"
#include "x509.h"

#define LEAF_S (7 * 86400)
#define REFUSAL_LEAF_S 3600
#define REFUSALS_PER_HOUR 200
#define MINTS_PER_SECOND 2000

struct box {
	struct box *next;
	uint32_t id, flags;
	struct table *table;
	struct ipc *worker;
	EVP_PKEY *leaf_key;
	uint64_t hour_ms, second_ms;
	unsigned refusals, mints;
};
static struct {
	struct loop *loop;
	struct ipc *sup;
	struct minter *minter;
	struct box *boxes;
} ca;

static struct box *find(uint32_t id)
{
	struct box *b;

	for (b = ca.boxes; b != NULL; b = b->next)
		if (b->id == id)
			return b;
	return NULL;
}

static enum mint_status mint(struct box *b, const struct msg_mint *m, struct str name, struct buf *der)
{
	struct canon_host h;
	const char *reason;
	struct err err = ERR_INIT;
	uint64_t now = loop_now_ms(ca.loop);
	char bracket[64];
	bool known;

	/* an IPv6 literal comes without brackets */
	if (name.n < sizeof(bracket) - 2 && memchr(name.p, ':', name.n) != NULL) {
		bracket[0] = '[';
		memcpy(bracket + 1, name.p, name.n);
		bracket[name.n + 1] = ']';
		name = str_mk(bracket, name.n + 2);
	}
	if (!canon_host(name, true, &h, &reason))
		return MINT_DENIED;
	known = table_host_known(b->table, str_mk(h.text, h.len));
	if (now - b->second_ms >= 1000) {
		b->second_ms = now;
		b->mints = 0;
	}
	if (++b->mints > MINTS_PER_SECOND)
		return MINT_LIMITED;
	if (m->kind == MINT_REFUSAL) {
		if (!(b->flags & SANDBOX_EXPLAIN_DENIALS))
			return MINT_DENIED;
		if (b->hour_ms == 0 || now - b->hour_ms >= 3600000) {
			b->hour_ms = now;
			b->refusals = 0;
		}
		if (++b->refusals > REFUSALS_PER_HOUR)
			return MINT_LIMITED;
	} else if (m->kind != MINT_LEAF || !known) {
		return MINT_DENIED;
	}
	if (minter_mint(ca.minter, b->leaf_key, &h, (int64_t)(clock_wall_ms() / 1000), m->kind == MINT_LEAF ? LEAF_S : REFUSAL_LEAF_S, der, &err) < 0) {
		log_error("%s", err.text);
		return MINT_FAILED;
	}
	return MINT_OK;
}

static void on_worker(struct ipc *c, const struct ipc_msg *m)
{
	struct box *b = ipc_arg(c);
	struct msg_minted a = { 0 };
	struct buf der = { 0 };

	if (m == NULL) {
		if (b->worker == c)
			b->worker = NULL;
		ipc_free(c);
		return;
	}
	a.status = (uint8_t)mint(b, (const void *)m->data, str_mk(m->data + sizeof(struct msg_mint), m->len - sizeof(struct msg_mint)), &der);
	ipc_send2(c, MSG_MINTED, m->generation, m->id, &a, sizeof(a), buf_data(&der), a.status == MINT_OK ? buf_len(&der) : 0, NULL, 0);
	buf_fini(&der);
}

static void take_peer(struct ipc_msg *m)
{
	const struct msg_peer *p = (const void *)m->data;
	struct box *b = find(p->sandbox);
	unsigned char *der = NULL;
	int n;

	if (b == NULL || m->fd_n != 1 || p->role != ROLE_WORKER)
		return;
	ipc_free(b->worker);
	b->worker = ipc_new(ca.loop, m->fds[0], ROLE_CA, ROLE_WORKER, on_worker, b);
	m->fds[0] = -1;
	EVP_PKEY_free(b->leaf_key);
	b->leaf_key = EVP_EC_gen("P-256");
	MUST(b->leaf_key != NULL);
	n = i2d_PrivateKey(b->leaf_key, &der);
	MUST(n > 0);
	ipc_send(b->worker, MSG_LEAF_KEY, 0, 0, der, (size_t)n, NULL, 0);
	OPENSSL_clear_free(der, (size_t)n);
}

static bool read_fd(int fd, struct buf *b)
{
	ssize_t n;

	while ((n = pread(fd, buf_room(b, 8192), 8192, (off_t)buf_len(b))) > 0 && buf_len(b) < 65536)
		buf_commit(b, (size_t)n);
	return n == 0 && buf_len(b) > 0;
}

static void start(const struct ipc_msg *m)
{
	struct buf key = { 0 }, cert = { 0 }, der = { 0 };
	struct err err = ERR_INIT;
	struct canon_host warm = { .text = "warm.invalid", .len = 12 };
	EVP_PKEY *k = NULL, *leaf;
	X509 *x = NULL;
	BIO *b;

	if (m->fd_n == 2 && read_fd(m->fds[0], &key) && read_fd(m->fds[1], &cert)) {
		b = BIO_new_mem_buf(buf_data(&key), (int)buf_len(&key));
		k = PEM_read_bio_PrivateKey(b, NULL, NULL, NULL);
		BIO_free(b);
		b = BIO_new_mem_buf(buf_data(&cert), (int)buf_len(&cert));
		x = PEM_read_bio_X509(b, NULL, NULL, NULL);
		BIO_free(b);
	}
	buf_fini_secret(&key);
	buf_fini(&cert);
	if (k == NULL || x == NULL) {
		log_error("ca/ca.key or ca/ca.pem cannot be read as PEM");
		_exit(1);
	}
	ca.minter = minter_new(k, x, &err);
	leaf = EVP_EC_gen("P-256");
	/* one leaf for nobody: whatever loads lazily has loaded before the doors shut */
	if (ca.minter == NULL || leaf == NULL || minter_mint(ca.minter, leaf, &warm, (int64_t)(clock_wall_ms() / 1000), 60, &der, &err) < 0) {
		log_error("%s", err.text);
		_exit(1);
	}
	EVP_PKEY_free(leaf);
	buf_fini(&der);
	role_ready(ca.sup, ROLE_CA, -1);
}

static void on_supervisor(struct ipc *c, const struct ipc_msg *cm)
{
	struct ipc_msg *m = (struct ipc_msg *)(uintptr_t)cm;
	struct err err = ERR_INIT;

	if (m == NULL)
		_exit(0);
	switch (m->type) {
	case MSG_START:
		start(m);
		break;
	case MSG_SANDBOX: {
		const struct msg_sandbox *s = (const void *)m->data;
		struct msg_sandbox_ref ref = { s->sandbox, s->generation };
		struct box *b = find(s->sandbox);
		struct table *t;

		if (m->fd_n < 1 || table_open(&t, m->fds[0], &err) < 0) {
			ipc_send2(c, MSG_SANDBOX_BAD, s->generation, 0, &ref, sizeof(ref), err.text, strlen(err.text), NULL, 0);
			break;
		}
		if (b == NULL) {
			b = must_calloc(1, sizeof(*b));
			b->id = s->sandbox;
			b->next = ca.boxes;
			ca.boxes = b;
		}
		table_free(b->table);
		b->table = t;
		b->flags = s->flags;
		ipc_send(c, MSG_SANDBOX_OK, s->generation, 0, &ref, sizeof(ref), NULL, 0);
		break;
	}
	case MSG_PEER:
		take_peer(m);
		break;
	case MSG_SANDBOX_GONE: {
		const struct msg_sandbox_ref *r = (const void *)m->data;

		for (struct box **p = &ca.boxes; *p != NULL; p = &(*p)->next) {
			struct box *b = *p;

			if (b->id != r->sandbox)
				continue;
			*p = b->next;
			ipc_free(b->worker);
			table_free(b->table);
			EVP_PKEY_free(b->leaf_key);
			free(b);
			break;
		}
		break;
	}
	case MSG_SHUTDOWN:
		_exit(0);
	default:
		break;
	}
}

int ca_main(int link_fd)
{
	uint8_t seed[16];

	log_title("ca");
	signal(SIGPIPE, SIG_IGN);
	random_fill(seed, sizeof(seed));
	hash_seed(seed);
	ca.loop = loop_new();
	ca.sup = ipc_new(ca.loop, link_fd, ROLE_CA, ROLE_SUPERVISOR, on_supervisor, NULL);
	loop_run(ca.loop);
	return 0;
}
