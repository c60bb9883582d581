/* SPDX-License-Identifier: Apache-2.0 */
/* The CA: its files, its leaves, and the role that mints them. */
#include "role_harness.h"

#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <time.h>

#include "ca/ca.h"

static const char policy[] = "version: 1\n"
                             "name: test\n"
                             "destinations:\n"
                             "  - host: api.example\n"
                             "    allow: [ \"GET /**\" ]\n"
                             "  - host: odd.example\n"
                             "    ports: [8443]\n"
                             "    allow: [ \"GET /**\" ]\n"
                             "  - host: \"192.0.2.7\"\n"
                             "    addresses: [192.0.2.0/24]\n"
                             "    allow: [ \"GET /**\" ]\n";
static const struct ca_wish plain;
static char dir[] = "/tmp/sp-ca-XXXXXX";

static char *path(const char *tail)
{
	static char p[4][300];
	static unsigned i;

	i = (i + 1) % 4;
	snprintf(p[i], sizeof(p[i]), "%s/%s", dir, tail);
	return p[i];
}

static int setup(void **state)
{
	struct err err = ERR_INIT;

	(void)state;
	umask(077);
	return mkdtemp(dir) != NULL && ca_init(path("state"), &plain, &err) == 0 ? 0 : -1;
}

static int teardown(void **state)
{
	char cmd[400];

	(void)state;
	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	return system(cmd);
}

/* --- files --------------------------------------------------------------------------------------------------------- */

static void made_as_it_should_be(void **state)
{
	struct err err = ERR_INIT;
	struct stat st;
	X509 *x = ca_load_cert(path("state"), &err);
	char cmd[900];

	(void)state;
	assert_non_null(x);
	assert_int_equal(stat(path("state/ca/ca.key"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(stat(path("state"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(X509_get_version(x), 2);
	assert_int_equal(X509_check_ca(x), 1);
	assert_int_equal(X509_get_pathlen(x), 0);
	assert_int_equal(X509_get_key_usage(x), KU_KEY_CERT_SIGN | KU_CRL_SIGN);
	assert_int_equal(X509_EXTENSION_get_critical(X509_get_ext(x, X509_get_ext_by_NID(x, NID_basic_constraints, -1))), 1);
	assert_int_equal(X509_EXTENSION_get_critical(X509_get_ext(x, X509_get_ext_by_NID(x, NID_key_usage, -1))), 1);
	assert_non_null(X509_get0_subject_key_id(x));
	X509_free(x);
	snprintf(cmd, sizeof(cmd), "openssl verify -x509_strict -CAfile %s/state/ca/ca.pem %s/state/ca/ca.pem >/dev/null 2>&1", dir, dir);
	assert_int_equal(system(cmd), 0);
	/* nothing is left of the making */
	snprintf(cmd, sizeof(cmd), "test \"$(ls -A %s/state)\" = ca", dir);
	assert_int_equal(system(cmd), 0);
}

static void never_replaced(void **state)
{
	struct err err = ERR_INIT;
	X509 *a, *b;

	(void)state;
	a = ca_load_cert(path("state"), &err);
	assert_int_equal(ca_init(path("state"), &plain, &err), -1);
	assert_non_null(strstr(err.text, "not replaced"));
	/* the key is gone: an error, not a new CA */
	assert_int_equal(rename(path("state/ca/ca.key"), path("kept")), 0);
	assert_int_equal(ca_init(path("state"), &plain, &err), -1);
	assert_non_null(strstr(err.text, "missing beside existing state"));
	assert_int_equal(rename(path("kept"), path("state/ca/ca.key")), 0);
	b = ca_load_cert(path("state"), &err);
	assert_int_equal(X509_cmp(a, b), 0);
	X509_free(a);
	X509_free(b);
	/* only records are there */
	assert_int_equal(mkdir(path("s2"), 0700), 0);
	assert_int_equal(mkdir(path("s2/audit"), 0700), 0);
	assert_int_equal(ca_init(path("s2"), &plain, &err), -1);
	/* a directory that others can write is no place for a key */
	assert_int_equal(mkdir(path("s3"), 0700), 0);
	assert_int_equal(chmod(path("s3"), 0777), 0);
	assert_int_equal(ca_init(path("s3"), &plain, &err), -1);
	/* two are different */
	assert_int_equal(ca_init(path("s4/deep"), &plain, &err), 0);
	a = ca_load_cert(path("state"), &err);
	b = ca_load_cert(path("s4/deep"), &err);
	assert_int_not_equal(X509_NAME_cmp(X509_get_subject_name(a), X509_get_subject_name(b)), 0);
	X509_free(a);
	X509_free(b);
}

static void exported(void **state)
{
	struct err err = ERR_INIT;
	X509 *a = ca_load_cert(path("state"), &err), *b;
	FILE *f;

	(void)state;
	assert_int_equal(ca_export(path("state"), CA_FORM_DER, path("out.der"), &err), 0);
	f = fopen(path("out.der"), "r");
	b = d2i_X509_fp(f, NULL);
	fclose(f);
	assert_non_null(b);
	assert_int_equal(X509_cmp(a, b), 0);
	X509_free(b);
	assert_int_equal(ca_export(path("state"), CA_FORM_PEM, path("out.pem"), &err), 0);
	f = fopen(path("out.pem"), "r");
	b = PEM_read_X509(f, NULL, NULL, NULL);
	fclose(f);
	assert_non_null(b);
	assert_int_equal(X509_cmp(a, b), 0);
	X509_free(a);
	X509_free(b);
	assert_int_equal(ca_export(path("nowhere"), CA_FORM_PEM, NULL, &err), -1);
}

/* --- the role ------------------------------------------------------------------------------------------------------ */

static struct role_under_test start_ca(void)
{
	int fds[2] = { open(path("state/ca/ca.key"), O_RDONLY | O_CLOEXEC), open(path("state/ca/ca.pem"), O_RDONLY | O_CLOEXEC) };
	struct role_under_test r;

	assert_true(fds[0] >= 0 && fds[1] >= 0);
	r = role_start(ca_main, NULL, 0, fds, 2);
	close(fds[0]);
	close(fds[1]);
	return r;
}

static EVP_PKEY *leaf_key(int link)
{
	struct wire_msg m;
	const unsigned char *p = m.data;
	EVP_PKEY *k;

	wire_expect(link, MSG_LEAF_KEY, &m);
	k = d2i_AutoPrivateKey(NULL, &p, (long)m.n);
	assert_non_null(k);
	return k;
}

static enum mint_status mint(int link, uint32_t generation, enum mint_kind kind, const char *host, X509 **leaf)
{
	struct msg_mint q = { .kind = (uint8_t)kind };
	const struct msg_minted *a;
	const unsigned char *p;
	struct wire_msg m;
	static uint64_t id;

	wire_send(link, MSG_MINT, generation, ++id, &q, sizeof(q), host, strlen(host), NULL, 0);
	wire_expect(link, MSG_MINTED, &m);
	assert_int_equal(m.h.id, id);
	a = (const void *)m.data;
	if (leaf != NULL) {
		p = m.data + sizeof(*a);
		*leaf = a->status == MINT_OK ? d2i_X509(NULL, &p, (long)(m.n - sizeof(*a))) : NULL;
	}
	if (a->status != MINT_OK)
		assert_int_equal(m.n, sizeof(*a));
	return (enum mint_status)a->status;
}

static void strict(X509 *leaf, const char *flag, const char *name)
{
	char cmd[900];
	FILE *f = fopen(path("leaf.pem"), "w");

	assert_int_equal(PEM_write_X509(f, leaf), 1);
	fclose(f);
	snprintf(cmd, sizeof(cmd), "openssl verify -x509_strict -purpose sslserver %s %s -CAfile %s/state/ca/ca.pem %s/leaf.pem", flag, name, dir, dir);
	assert_int_equal(system(cmd), 0);
}

static void leaf_profile(X509 *x, int64_t valid_s)
{
	const ASN1_INTEGER *serial = X509_get0_serialNumber(x);
	BIGNUM *n = ASN1_INTEGER_to_BN(serial, NULL);
	int days, secs;

	assert_int_equal(X509_get_version(x), 2);
	assert_int_equal(BN_num_bytes(n), 16);
	assert_false(BN_is_negative(n));
	assert_int_equal(X509_get_key_usage(x), KU_DIGITAL_SIGNATURE);
	assert_int_equal(X509_get_extended_key_usage(x), XKU_SSL_SERVER);
	assert_int_equal(X509_check_ca(x), 0);
	assert_non_null(X509_get0_subject_key_id(x));
	assert_non_null(X509_get0_authority_key_id(x));
	assert_int_equal(X509_get_ext_count(x), 6);
	assert_int_equal(ASN1_STRING_type(X509_get0_notBefore(x)), V_ASN1_UTCTIME);
	assert_int_equal(ASN1_TIME_diff(&days, &secs, X509_get0_notBefore(x), X509_get0_notAfter(x)), 1);
	assert_int_equal((int64_t)days * 86400 + secs, 48 * 3600 + valid_s);
	BN_free(n);
}

static void leaves(void **state)
{
	struct role_under_test r = start_ca();
	int table = test_table(policy), link, other;
	X509 *a, *b;
	EVP_PKEY *key, *key2;
	SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
	GENERAL_NAMES *san;

	(void)state;
	role_sandbox(&r, 1, 7, 0, "one", table);
	link = role_peer(&r, ROLE_WORKER, 1);
	key = leaf_key(link);
	assert_int_equal(mint(link, 7, MINT_LEAF, "api.example", &a), MINT_OK);
	strict(a, "-verify_hostname", "api.example");
	leaf_profile(a, 7 * 86400);
	san = X509_get_ext_d2i(a, NID_subject_alt_name, NULL, NULL);
	assert_int_equal(sk_GENERAL_NAME_num(san), 1);
	GENERAL_NAMES_free(san);
	/* what the worker does with it */
	assert_int_equal(SSL_CTX_use_certificate(ctx, a), 1);
	assert_int_equal(SSL_CTX_use_PrivateKey(ctx, key), 1);
	assert_int_equal(SSL_CTX_check_private_key(ctx), 1);
	/* unique serial, same key */
	assert_int_equal(mint(link, 7, MINT_LEAF, "api.example", &b), MINT_OK);
	assert_int_not_equal(ASN1_INTEGER_cmp(X509_get0_serialNumber(a), X509_get0_serialNumber(b)), 0);
	assert_int_equal(EVP_PKEY_eq(X509_get0_pubkey(a), X509_get0_pubkey(b)), 1);
	X509_free(a);
	X509_free(b);
	/* another port, an address */
	assert_int_equal(mint(link, 7, MINT_LEAF, "odd.example", &a), MINT_OK);
	strict(a, "-verify_hostname", "odd.example");
	X509_free(a);
	assert_int_equal(mint(link, 7, MINT_LEAF, "192.0.2.7", &a), MINT_OK);
	strict(a, "-verify_ip", "192.0.2.7");
	X509_free(a);
	/* each worker has a key of its own */
	role_sandbox(&r, 2, 8, 0, "two", table);
	other = role_peer(&r, ROLE_WORKER, 2);
	key2 = leaf_key(other);
	assert_int_equal(EVP_PKEY_eq(key, key2), 0);
	EVP_PKEY_free(key);
	EVP_PKEY_free(key2);
	SSL_CTX_free(ctx);
	close(link);
	close(other);
	close(table);
	assert_int_equal(role_end(&r), 0);
}

static void only_what_the_table_has(void **state)
{
	static const char *const names[] = { "other.example", "example", "x.api.example", "API.example", "api.example.", "192.0.2.8", "api.example\n", "*.example", "" };
	struct role_under_test r = start_ca();
	int table = test_table(policy), link;

	(void)state;
	role_sandbox(&r, 1, 7, 0, "one", table);
	link = role_peer(&r, ROLE_WORKER, 1);
	EVP_PKEY_free(leaf_key(link));
	for (size_t i = 0; names[i][0]; i++)
		assert_int_equal(mint(link, 7, MINT_LEAF, names[i], NULL), MINT_DENIED);
	/* a generation that this sandbox never had */
	assert_int_equal(mint(link, 8, MINT_LEAF, "api.example", NULL), MINT_DENIED);
	/* denials are not explained here */
	assert_int_equal(mint(link, 7, MINT_REFUSAL, "other.example", NULL), MINT_DENIED);
	assert_int_equal(mint(link, 7, 9, "api.example", NULL), MINT_DENIED);
	assert_int_equal(mint(link, 7, MINT_LEAF, "api.example", NULL), MINT_OK);
	close(link);
	close(table);
	assert_int_equal(role_end(&r), 0);
}

/* What passes unread is verified by the program inside: no leaf for it, be it for a refusal, and whatever wildcard covers it. */
static void UT08_tunnels(void **state)
{
	static const char tunnels[] = "version: 1\ndestinations:\n"
				      "  - { host: pinned.example, tls: { passthrough: true }, allow: tunnel, acknowledge: unread }\n"
				      "  - { host: db.example, protocol: tcp, ports: [5432], allow: tunnel, acknowledge: unread }\n"
				      "  - { host: both.example, protocol: tcp, ports: [5432], allow: tunnel, acknowledge: unread }\n"
				      "  - { host: both.example, allow: [GET /] }\n"
				      "  - { host: plain.example, scheme: http, allow: [GET /] }\n"
				      "  - { host: \"*.wild.example\", allow: [GET /] }\n"
				      "  - { host: pinned.wild.example, tls: { passthrough: true }, allow: tunnel, acknowledge: unread }\n";
	static const char *const none[] = { "pinned.example", "db.example", "pinned.wild.example" };
	struct role_under_test r = start_ca();
	int table = test_table(tunnels), link;

	(void)state;
	role_sandbox(&r, 1, 7, SANDBOX_EXPLAIN_DENIALS, "one", table);
	link = role_peer(&r, ROLE_WORKER, 1);
	EVP_PKEY_free(leaf_key(link));
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		assert_int_equal(mint(link, 7, MINT_LEAF, none[i], NULL), MINT_DENIED);
		assert_int_equal(mint(link, 7, MINT_REFUSAL, none[i], NULL), MINT_DENIED);
	}
	assert_int_equal(mint(link, 7, MINT_LEAF, "plain.example", NULL), MINT_DENIED);
	assert_int_equal(mint(link, 7, MINT_REFUSAL, "plain.example", NULL), MINT_OK);
	assert_int_equal(mint(link, 7, MINT_LEAF, "both.example", NULL), MINT_OK);
	assert_int_equal(mint(link, 7, MINT_LEAF, "a.wild.example", NULL), MINT_OK);
	close(link);
	close(table);
	assert_int_equal(role_end(&r), 0);
}

/* The policy is replaced: each generation mints its own names, until it is retired. */
static void generations(void **state)
{
	struct role_under_test r = start_ca();
	int table = test_table(policy), next = test_table("version: 1\ndestinations: [ { host: next.example, allow: [GET /] } ]\n"), link;

	(void)state;
	role_sandbox(&r, 1, 7, 0, "one", table);
	link = role_peer(&r, ROLE_WORKER, 1);
	EVP_PKEY_free(leaf_key(link));
	role_sandbox(&r, 1, 9, 0, "one", next);
	assert_int_equal(mint(link, 7, MINT_LEAF, "api.example", NULL), MINT_OK);
	assert_int_equal(mint(link, 7, MINT_LEAF, "next.example", NULL), MINT_DENIED);
	assert_int_equal(mint(link, 9, MINT_LEAF, "next.example", NULL), MINT_OK);
	assert_int_equal(mint(link, 9, MINT_LEAF, "api.example", NULL), MINT_DENIED);
	role_retire(&r, 1, 7);
	role_sandbox(&r, 2, 10, 0, "two", table); /* its answer comes behind */
	assert_int_equal(mint(link, 7, MINT_LEAF, "api.example", NULL), MINT_DENIED);
	assert_int_equal(mint(link, 9, MINT_LEAF, "next.example", NULL), MINT_OK);
	close(link);
	close(table);
	close(next);
	assert_int_equal(role_end(&r), 0);
}

static void refusal_leaves(void **state)
{
	struct role_under_test r = start_ca();
	int table = test_table(policy), link, ok = 0;
	X509 *a;
	char host[40], longest[260];

	(void)state;
	role_sandbox(&r, 1, 7, SANDBOX_EXPLAIN_DENIALS, "one", table);
	link = role_peer(&r, ROLE_WORKER, 1);
	EVP_PKEY_free(leaf_key(link));
	assert_int_equal(mint(link, 7, MINT_REFUSAL, "other.example", &a), MINT_OK);
	strict(a, "-verify_hostname", "other.example");
	leaf_profile(a, 3600);
	X509_free(a);
	assert_int_equal(mint(link, 7, MINT_REFUSAL, "2001:db8::1", &a), MINT_OK);
	strict(a, "-verify_ip", "2001:db8::1");
	X509_free(a);
	/* longer than a common name may be, and than one octet of DER length says */
	memset(longest, 'a', sizeof(longest));
	for (int i = 0; i < 240; i += 60)
		longest[i + 59] = '.';
	longest[253] = 0;
	longest[252] = 'b';
	assert_int_equal(mint(link, 7, MINT_REFUSAL, longest, &a), MINT_OK);
	strict(a, "-verify_hostname", longest);
	X509_free(a);
	for (int i = 0; i < 300; i++) {
		enum mint_status s;

		snprintf(host, sizeof(host), "n%d.example", i);
		s = mint(link, 7, MINT_REFUSAL, host, NULL);
		assert_true(s == MINT_OK || s == MINT_LIMITED);
		ok += s == MINT_OK;
	}
	assert_int_equal(ok + 3, 200);
	/* its own destinations are not affected, nor another worker of it */
	assert_int_equal(mint(link, 7, MINT_LEAF, "api.example", NULL), MINT_OK);
	close(link);
	link = role_peer(&r, ROLE_WORKER, 1);
	EVP_PKEY_free(leaf_key(link));
	assert_int_equal(mint(link, 7, MINT_REFUSAL, "again.example", NULL), MINT_LIMITED);
	close(link);
	close(table);
	assert_int_equal(role_end(&r), 0);
}

/* Under a wildcard there is no end of names: the rate is bounded, for this sandbox alone. */
static void leaves_are_rationed(void **state)
{
	struct role_under_test r = start_ca();
	int table = test_table(policy), link, other, ok = 0;

	(void)state;
	role_sandbox(&r, 1, 7, 0, "one", table);
	link = role_peer(&r, ROLE_WORKER, 1);
	EVP_PKEY_free(leaf_key(link));
	role_sandbox(&r, 2, 8, 0, "two", table);
	other = role_peer(&r, ROLE_WORKER, 2);
	EVP_PKEY_free(leaf_key(other));
	for (int i = 0; i < 1500; i++) {
		enum mint_status s = mint(link, 7, MINT_LEAF, "api.example", NULL);

		assert_true(s == MINT_OK || s == MINT_LIMITED);
		ok += s == MINT_OK;
	}
	assert_in_range(ok, 1024, 1400);
	assert_int_equal(mint(other, 8, MINT_LEAF, "api.example", NULL), MINT_OK);
	close(link);
	close(other);
	close(table);
	assert_int_equal(role_end(&r), 0);
}

static bool signed_by(X509 *leaf, const char *pem)
{
	FILE *f = fopen(path(pem), "r");
	X509 *ca = PEM_read_X509(f, NULL, NULL, NULL);
	bool yes = X509_check_issued(ca, leaf) == X509_V_OK && X509_verify(leaf, X509_get0_pubkey(ca)) == 1;

	fclose(f);
	X509_free(ca);
	X509_free(leaf);
	return yes;
}

static void ca_next(struct role_under_test *r, const char *dir_name, uint32_t number)
{
	struct msg_ca_ref m = { SANDBOX_CA_FLAGS(number) };
	char key[64], cert[64];
	int fds[2];

	snprintf(key, sizeof(key), "%s/ca/ca.key", dir_name);
	snprintf(cert, sizeof(cert), "%s/ca/ca.pem", dir_name);
	fds[0] = open(path(key), O_RDONLY | O_CLOEXEC);
	fds[1] = open(path(cert), O_RDONLY | O_CLOEXEC);
	assert_true(fds[0] >= 0 && fds[1] >= 0);
	wire_send(r->sup, MSG_CA_NEXT, 0, 0, &m, sizeof(m), NULL, 0, fds, 2);
	close(fds[0]);
	close(fds[1]);
}

/* After a rotation each sandbox keeps the CA that it trusts. */
static void several_cas(void **state)
{
	struct role_under_test r = start_ca();
	struct msg_ca_ref first = { SANDBOX_CA_FLAGS(0) };
	struct err err = ERR_INIT;
	int table = test_table(policy), one, two;
	X509 *a;

	(void)state;
	assert_int_equal(ca_init(path("next"), &plain, &err), 0);
	role_sandbox(&r, 1, 7, 0, "one", table);
	one = role_peer(&r, ROLE_WORKER, 1);
	EVP_PKEY_free(leaf_key(one));
	ca_next(&r, "next", 1);
	role_sandbox(&r, 2, 8, SANDBOX_CA_FLAGS(1), "two", table);
	two = role_peer(&r, ROLE_WORKER, 2);
	EVP_PKEY_free(leaf_key(two));
	assert_int_equal(mint(one, 7, MINT_LEAF, "api.example", &a), MINT_OK);
	assert_true(signed_by(a, "state/ca/ca.pem"));
	assert_int_equal(mint(two, 8, MINT_LEAF, "api.example", &a), MINT_OK);
	assert_true(signed_by(a, "next/ca/ca.pem"));
	/* one that a sandbox still trusts stays, whatever is said */
	wire_send(r.sup, MSG_CA_GONE, 0, 0, &first, sizeof(first), NULL, 0, NULL, 0);
	assert_int_equal(mint(one, 7, MINT_LEAF, "api.example", &a), MINT_OK);
	assert_true(signed_by(a, "state/ca/ca.pem"));
	close(one);
	close(two);
	close(table);
	assert_int_equal(role_end(&r), 0);
}

static void constrained(void **state)
{
	static const char *const permit[] = { "example", "192.0.2.0/24" };
	const struct ca_wish wish = { .permit = permit, .permit_n = 2 };
	static const struct { const char *host; enum ca_minted want; } names[] = {
		{ "example", CA_MINT_OK }, { "api.example", CA_MINT_OK }, { "192.0.2.7", CA_MINT_OK }, { "api.test", CA_MINT_OUTSIDE }, { "notexample", CA_MINT_OUTSIDE },
		{ "192.0.3.7", CA_MINT_OUTSIDE }, { "2001:db8::1", CA_MINT_OUTSIDE },
	};
	struct err err = ERR_INIT;
	X509_EXTENSION *e = ca_constraints_new(wish.permit, wish.permit_n, &err);
	struct ca_leaf_key *k;
	struct ca_issuer *i;
	EVP_PKEY *key;
	X509 *cert;

	(void)state;
	assert_non_null(e);
	assert_int_equal(ca_create(&key, &cert, e, &err), 0);
	i = ca_issuer_new(key, cert, &err);
	k = ca_leaf_key_new(i);
	for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++) {
		struct canon_host h;
		struct buf der = { 0 };
		const char *why;

		assert_true(canon_host(str_of(names[n].host), false, &h, &why) || (ip_parse(str_of(names[n].host), &h.ip) && snprintf(h.text, sizeof(h.text), "%s", names[n].host) > 0));
		h.len = (uint8_t)strlen(h.text);
		if (ca_mint(i, k, &h, time(NULL), 3600, &der) != names[n].want)
			fail_msg("%s", names[n].host);
		buf_fini(&der);
	}
	ca_leaf_key_free(k);
	ca_issuer_free(i);
	X509_EXTENSION_free(e);
	X509_free(cert);
	EVP_PKEY_free(key);
}

/* More questions than answers fit: nothing is lost, nothing ends. */
static void many_questions(void **state)
{
	struct role_under_test r = start_ca();
	struct msg_mint q = { .kind = MINT_LEAF };
	int table = test_table(policy), link, answers = 0, sent = 0;
	static bool had[2001];
	struct wire_msg m;

	(void)state;
	role_sandbox(&r, 1, 7, 0, "one", table);
	link = role_peer(&r, ROLE_WORKER, 1);
	EVP_PKEY_free(leaf_key(link));
	while (answers < 2000) {
		struct pollfd p = { link, (short)(sent < 2000 ? POLLOUT : POLLIN), 0 };

		/* writes as long as it can, and only then begins to read */
		if (sent < 2000 && poll(&p, 1, answers == 0 ? 200 : 0) == 1 && (p.revents & POLLOUT)) {
			wire_send(link, MSG_MINT, 7, (uint64_t)++sent, &q, sizeof(q), "api.example", 11, NULL, 0);
			continue;
		}
		wire_expect(link, MSG_MINTED, &m);
		assert_in_range(m.h.id, 1, 2000);
		assert_false(had[m.h.id]);
		had[m.h.id] = true;
		answers++;
	}
	close(link);
	close(table);
	assert_int_equal(role_end(&r), 0);
}

/* A broken key or certificate ends the role with a reason, and nothing is minted. */
static void wrong_files(void **state)
{
	struct msg_start s = { .uid_base = 61000 };
	struct err err = ERR_INIT;
	int sv[2], fds[2], status = 0;
	pid_t pid;

	(void)state;
	assert_int_equal(ca_init(path("s5"), &plain, &err), 0);
	fds[0] = open(path("state/ca/ca.key"), O_RDONLY | O_CLOEXEC);
	fds[1] = open(path("s5/ca/ca.pem"), O_RDONLY | O_CLOEXEC); /* another's */
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv), 0);
	pid = fork();
	if (pid == 0) {
		int null = open("/dev/null", O_WRONLY);

		dup2(null, 2);
		close(sv[0]);
		_exit(ca_main(sv[1]));
	}
	close(sv[1]);
	wire_send(sv[0], MSG_START, 0, 0, &s, sizeof(s), NULL, 0, fds, 2);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
	close(sv[0]);
	close(fds[0]);
	close(fds[1]);
}

/* What is put together by hand is what OpenSSL would write, octet for octet, with a CA of any kind of key, and verifies under it. */
static void der_of_leaves(void **state)
{
	static const char *const hosts[] = { "a.example", "192.0.2.7", "2001:db8::1",
		                             "n123456789-123456789-123456789-123456789-123456.example.test", /* 60, 64, 65 octets: the most that a commonName takes is 64 */
		                             "n123456789-123456789-123456789-123456789-12345678.x.example.test", "n123456789-123456789-123456789-123456789-123456789.x.example.test",
		                             "n123456789-123456789-123456789-123456789-123456789-123456789-12.n123456789-123456789-123456789-123456789-123456789-123456789-12.example", /* a SAN of more than 127 octets, */
		                             "n123456789-123456789-123456789-123456789-123456789-123456789-12.n123456789-123456789-123456789-123456789-123456789-123456789-12.n123456789-123456789-123456789-123456789-123456789-123456789-12.n123456789-123456789-123456789-123456789-1234567890.test" };
	EVP_PKEY *keys[] = { NULL, EVP_EC_gen("P-384"), EVP_RSA_gen(2048) };
	const int64_t now = time(NULL), at[] = { now, 2524608000 - 3600 }; /* from one kind of time to the other: 2050-01-01 */
	struct err err = ERR_INIT;

	(void)state;
	for (size_t c = 0; c < sizeof(keys) / sizeof(keys[0]); c++) {
		struct ca_leaf_key *k;
		struct ca_issuer *i;
		EVP_PKEY *key;
		X509 *cert;

		assert_int_equal(ca_create(&key, &cert, NULL, &err), 0);
		X509_gmtime_adj(X509_getm_notAfter(cert), 20000LL * 86400 > LONG_MAX ? LONG_MAX : 20000L * 86400);
		if (keys[c] != NULL) {
			EVP_PKEY_free(key);
			key = keys[c];
			assert_int_equal(X509_set_pubkey(cert, key), 1);
		}
		assert_true(X509_sign(cert, key, EVP_sha256()) > 0);
		i = ca_issuer_new(key, cert, &err);
		assert_non_null(i);
		k = ca_leaf_key_new(i);
		for (size_t h = 0; h < 2 * sizeof(hosts) / sizeof(hosts[0]); h++) {
			const char *name = hosts[h / 2];
			unsigned char *again = NULL, *tbs = NULL;
			struct canon_host host = { 0 };
			struct buf der = { 0 };
			const uint8_t *p;
			const char *why;
			int n, tbs_n;
			X509 *x;

			assert_true(canon_host(str_of(name), false, &host, &why) || (ip_parse(str_of(name), &host.ip) && snprintf(host.text, sizeof(host.text), "%s", name) > 0));
			host.len = (uint8_t)strlen(host.text);
			assert_int_equal(ca_mint(i, k, &host, at[h % 2], 7200, &der), CA_MINT_OK);
			p = buf_data(&der);
			x = d2i_X509(NULL, &p, (long)buf_len(&der));
			assert_true(x != NULL && p == buf_data(&der) + buf_len(&der));
			assert_int_equal(X509_verify(x, key), 1);
			assert_int_equal(X509_check_issued(cert, x), X509_V_OK);
			assert_true(host.ip.family != 0 ? X509_check_ip_asc(x, name, 0) == 1 : X509_check_host(x, name, 0, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT, NULL) == 1);
			assert_int_equal(ASN1_STRING_type(X509_get0_notAfter(x)), h % 2 ? V_ASN1_GENERALIZEDTIME : V_ASN1_UTCTIME);
			assert_int_equal(ASN1_TIME_cmp_time_t(X509_get0_notAfter(x), at[h % 2] + 7200), 0);
			assert_int_equal(ASN1_TIME_cmp_time_t(X509_get0_notBefore(x), at[h % 2] - 48 * 3600), 0);
			/* all of its parts are encoded anew: nothing is taken from what was read */
			tbs_n = i2d_re_X509_tbs(x, &tbs);
			assert_true(tbs_n > 0 && (size_t)tbs_n + 4 < buf_len(&der));
			assert_memory_equal(tbs, buf_data(&der) + 4, (size_t)tbs_n);
			n = i2d_X509(x, &again);
			assert_int_equal(n, buf_len(&der));
			assert_memory_equal(again, buf_data(&der), (size_t)n);
			OPENSSL_free(again);
			OPENSSL_free(tbs);
			X509_free(x);
			buf_fini(&der);
		}
		ca_leaf_key_free(k);
		ca_issuer_free(i);
		X509_free(cert);
		EVP_PKEY_free(key);
	}
}

static void fast_enough(void **state)
{
	struct err err = ERR_INIT;
	struct ca_issuer *i;
	struct ca_leaf_key *k;
	struct canon_host h;
	const char *why;
	struct timespec a, b;
	struct buf der = { 0 };
	EVP_PKEY *key;
	X509 *cert;
	double us;
	int n = 500;

	(void)state;
	assert_int_equal(ca_create(&key, &cert, NULL, &err), 0);
	i = ca_issuer_new(key, cert, &err);
	k = ca_leaf_key_new(i);
	canon_host(STR("api.example"), false, &h, &why);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
	for (int j = 0; j < n; j++) {
		buf_clear(&der);
		assert_int_equal(ca_mint(i, k, &h, time(NULL), 3600, &der), CA_MINT_OK);
	}
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
	us = ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / 1e3 / n;
	print_message("a leaf costs %.0f us\n", us);
#ifndef SP_SANITIZED
	assert_true(us < 1000); /* about 35; the limit only catches the slow way (250 more for the key, each time) on any machine */
#endif
	/* the CA is out of its time: nothing */
	buf_clear(&der);
	assert_int_equal(ca_mint(i, k, &h, time(NULL) + 4000LL * 86400, 3600, &der), CA_MINT_EXPIRED);
	assert_int_equal(buf_len(&der), 0);
	buf_fini(&der);
	ca_leaf_key_free(k);
	ca_issuer_free(i);
	X509_free(cert);
	EVP_PKEY_free(key);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(made_as_it_should_be), cmocka_unit_test(never_replaced), cmocka_unit_test(exported), cmocka_unit_test(leaves),
		cmocka_unit_test(only_what_the_table_has), cmocka_unit_test(UT08_tunnels), cmocka_unit_test(generations), cmocka_unit_test(refusal_leaves), cmocka_unit_test(leaves_are_rationed), cmocka_unit_test(several_cas), cmocka_unit_test(constrained), cmocka_unit_test(many_questions), cmocka_unit_test(wrong_files),
		cmocka_unit_test(der_of_leaves), cmocka_unit_test(fast_enough),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
