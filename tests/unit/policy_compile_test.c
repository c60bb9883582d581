/* SPDX-License-Identifier: Apache-2.0 */
/* From a file to a policy: each kind of error with its text and place, ids, certificates, consent, explanations. */
#include "policy_util.h"

#include <dirent.h>
#include <fcntl.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include "policy-compiler/compile.h"
#include "policy-compiler/explain.h"
#include "policy-compiler/trust.h"
#include "policy-compiler/try.h"

#define CASES "tests/cases/policy-errors"
#define WARNINGS "tests/cases/policy-warnings"

static struct buf slurp(const char *path)
{
	struct buf b = { 0 };
	FILE *f = fopen(path, "re");
	size_t n;

	if (f == NULL)
		fail_msg("cannot open %s", path);
	while ((n = fread(buf_room(&b, 4096), 1, 4096, f)) > 0)
		buf_commit(&b, n);
	fclose(f);
	return b;
}

static void spit(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

/* NAME.yaml gives exactly the messages of NAME.txt. */
static unsigned cases_of(const char *folder, bool good)
{
	DIR *dir = opendir(folder);
	struct dirent *e;
	unsigned n = 0, bad = 0;

	if (dir == NULL)
		fail_msg("run from the top folder: no %s", folder);
	while ((e = readdir(dir)) != NULL) {
		size_t len = strlen(e->d_name);
		char path[512], want[512];
		struct diag d = { .file = e->d_name };
		struct policy p;
		struct buf b;

		if (len < 6 || strcmp(e->d_name + len - 5, ".yaml") != 0)
			continue;
		snprintf(path, sizeof(path), "%s/%s", folder, e->d_name);
		snprintf(want, sizeof(want), "%s/%.*s.txt", folder, (int)(len - 5), e->d_name);
		if (policy_load(&p, path, &d) != (good ? 0 : -1) || (good ? d.warnings : d.errors) == 0)
			fail_msg("%s: %u errors, %u warnings\n%.*s", path, d.errors, d.warnings, (int)buf_len(&d.out), (const char *)buf_str(&d.out).p);
		b = slurp(want);
		if (!str_eq(buf_str(&b), buf_str(&d.out))) {
			print_error("%s: have:\n%.*swant:\n%.*s", e->d_name, (int)buf_len(&d.out), (const char *)buf_str(&d.out).p, (int)buf_len(&b), (const char *)buf_str(&b).p);
			bad++;
		}
		n++;
		buf_fini(&b);
		diag_fini(&d);
		policy_free(&p);
	}
	closedir(dir);
	assert_int_equal(bad, 0);
	return n;
}

/* As git leaves them under a umask of 002: files that others can write are not read as parts of a policy. */
static void tidy(const char *folder)
{
	DIR *dir = opendir(folder);
	struct dirent *e;
	struct stat st;

	while (dir != NULL && (e = readdir(dir)) != NULL)
		if (fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 022) != 0)
			assert_int_equal(fchmodat(dirfd(dir), e->d_name, st.st_mode & 0755, 0), 0);
	if (dir != NULL)
		closedir(dir);
}

static void error_cases(void **state)
{
	(void)state;
	tidy(CASES "/extends");
	assert_true(cases_of(CASES, false) > 130);
}

static void warning_cases(void **state)
{
	(void)state;
	assert_true(cases_of(WARNINGS, true) >= 7);
}

/* What is installed for use is good, without warnings, and says what its own tests say. */
static void ready_policies(void **state)
{
	DIR *dir = opendir("configs/policies");
	struct dirent *e;
	unsigned n = 0;

	(void)state;
	assert_non_null(dir);
	while ((e = readdir(dir)) != NULL) {
		struct diag d = { .file = e->d_name };
		struct err err = ERR_INIT;
		struct policy p;
		char path[512];

		if (strlen(e->d_name) < 6 || strcmp(e->d_name + strlen(e->d_name) - 5, ".yaml") != 0)
			continue;
		snprintf(path, sizeof(path), "configs/policies/%s", e->d_name);
		if (policy_load(&p, path, &d) < 0 || d.warnings > 0)
			fail_msg("%s", (const char *)buf_data(&d.out));
		if (try_policy(&p, path, TRY_FAILURES, stderr, &err) != 0 || p.test_n < 3)
			fail_msg("%s: its tests fail, or are too few", path);
		diag_fini(&d);
		policy_free(&p);
		n++;
	}
	closedir(dir);
	assert_true(n >= 11);
}

static void the_least_policy(void **state)
{
	struct policy p;
	struct table *t;
	struct dest d;

	(void)state;
	util_parse(&p, "version: 1\nname: nothing\n");
	t = util_table(&p);
	assert_int_equal(table_find(t, SCHEME_HTTPS, STR("a.test"), 443, &d), 0);
	assert_true(table_explain_denials(t) && !table_port_known(t, 443) && table_secret_count(t) == 0);
	table_free(t);
	policy_free(&p);
}

static void ids(void **state)
{
	struct policy p;

	(void)state;
	util_parse(&p, "version: 1\ndestinations:\n"
		       "  - host: [b.test, \"[::1]\"]\n    ports: [8443]\n    allow: [ \"GET,POST /x\" ]\n"
		       "  - host: a.test\n    id: mine\n    deny: [ { method: [PUT, ANY], path: /y, id: no-y } ]\n    allow: [ GET /y ]\n");
	assert_int_equal(p.dest_n, 3);
	assert_true(str_eq(p.dests[0].id, STR("mine")) && str_eq(p.dests[1].id, STR("[::1]:8443")) && str_eq(p.dests[2].id, STR("b.test:8443")));
	assert_true(str_eq(p.dests[2].rules[0].id, STR("b.test:8443:allow:GET|POST /x")));
	assert_true(str_eq(p.dests[0].rules[0].id, STR("mine:allow:GET /y")) && str_eq(p.dests[0].rules[1].id, STR("no-y")) && str_eq(p.dests[0].rules[1].source, STR("test.yaml:8")));
	policy_free(&p);
}

static void warnings(void **state)
{
	static const char text[] = "version: 1\nsecrets: { s: { env: X, hosts: [a.test] } }\ndestinations:\n  - host: [a.test, b.test]\n  - host: c.test\n    allow: [ GET /x, GET /x ]\n";
	static const char want[] = "w.yaml:2:12: warning: secret `s` is not injected anywhere\n"
				   "w.yaml:4:5: warning: this destination allows nothing\n"
				   "w.yaml:6:22: warning: the same rule stands at line 6 already\n";
	struct diag d = { .file = "w.yaml" };
	struct policy p;

	(void)state;
	assert_int_equal(policy_parse(&p, text, sizeof(text) - 1, NULL, &d), 0);
	if (!str_eq(buf_str(&d.out), str_of(want)))
		fail_msg("%.*s", (int)buf_len(&d.out), (const char *)buf_data(&d.out));
	diag_fini(&d);
	policy_free(&p);
}

/* Rules that never count, and everything beside a secret. */
static void lint(void **state)
{
	static const char text[] = "version: 1\n"
				   "secrets: { s: { env: S, hosts: [c.test] } }\n"
				   "destinations:\n"
				   "  - host: a.test\n"
				   "    allow:\n"
				   "      - GET /a/**\n"
				   "      - GET /a/b\n"
				   "      - HEAD /a/*/c\n"
				   "      - POST /x/y\n"
				   "      - { method: GET, path: /a/q, body: any }\n"
				   "      - { method: GET, path: /a/r, uses: 3 }\n"
				   "      - GET /a*\n"
				   "      - GET /x*\n"
				   "    deny: [ ANY /x/** , \"POST /a/*?k=v\" ]\n"
				   "  - host: b.test\n"
				   "    allow: [ GET /adm/x, \"GET /**\", ANY /q, POST /q ]\n"
				   "  - host: c.test\n"
				   "    allow: [ ANY /** ]\n"
				   "    inject: [ { secret: s, as: bearer } ]\n"
				   "  - host: \"**.d.test\"\n"
				   "    deny: [ ANY /adm/** ]\n"
				   "  - host: x.d.test\n"
				   "    allow: [ GET /adm/x, GET /adm, GET /admx ]\n";
	static const char want[] = "w.yaml:7:9: warning: this rule is never the one that is recorded: that of line 6 lets all of it through\n"
				   "w.yaml:8:9: warning: this rule is never the one that is recorded: that of line 6 lets all of it through\n"
				   "w.yaml:9:9: warning: this rule lets nothing through: the deny of line 14 covers it\n"
				   "w.yaml:11:9: warning: this rule is never the one that is recorded: that of line 6 lets all of it through\n"
				   "w.yaml:18:14: warning: everything may be asked of c.test with secret `s`: name methods and paths\n"
				   "w.yaml:23:14: warning: this rule lets nothing through: the deny of line 21 covers it\n"
				   "w.yaml:23:26: warning: this rule lets nothing through: the deny of line 21 covers it\n";
	struct diag d = { .file = "w.yaml" };
	struct policy p;

	(void)state;
	assert_int_equal(policy_parse(&p, text, sizeof(text) - 1, NULL, &d), 0);
	buf_addc(&d.out, 0);
	assert_string_equal((const char *)buf_data(&d.out), want);
	diag_fini(&d);
	policy_free(&p);
}

/* From memory alone no other file is read. */
static void no_other_files(void **state)
{
	static const char text[] = "version: 1\nextends: [x.yaml]\ndestinations:\n  - { host: a.test, tls: { ca: y.pem }, allow: [ GET /x ] }\n";
	static const char want[] = "m.yaml:2:11: error: extends: other files cannot be read here\n"
				   "m.yaml:4:32: error: tls.ca cannot be read here\n";
	struct diag d = { .file = "m.yaml" };
	struct policy p;

	(void)state;
	assert_int_equal(policy_parse(&p, text, sizeof(text) - 1, NULL, &d), -1);
	if (!str_eq(buf_str(&d.out), str_of(want)))
		fail_msg("%.*s", (int)buf_len(&d.out), (const char *)buf_data(&d.out));
	diag_fini(&d);
	policy_free(&p);
}

/* Sizes that a policy may not have: each with its text. */
static void too_many(void **state)
{
	struct buf b = { 0 };
	struct diag d = { .file = "m.yaml" };
	struct policy p;

	(void)state;
	buf_addz(&b, "version: 1\ndestinations:\n  - host: [");
	for (unsigned i = 0; i < 15700; i++)
		buf_addf(&b, "%sh%u.test", i ? ", " : "", i);
	buf_addz(&b, "]\n    ports: [");
	for (unsigned i = 0; i < 64; i++)
		buf_addf(&b, "%s%u", i ? ", " : "", 1000 + i);
	buf_addz(&b, "]\n    allow: [ GET /x ]\n");
	assert_int_equal(policy_parse(&p, (const char *)buf_data(&b), buf_len(&b), NULL, &d), -1);
	buf_addc(&d.out, 0);
	assert_non_null(strstr((const char *)buf_data(&d.out), "error: the policy has more than 1000000 destinations or rules, each host and port of a list counted"));
	diag_fini(&d);
	policy_free(&p);
	d = (struct diag){ .file = "m.yaml" };
	buf_clear(&b);
	buf_addz(&b, "version: 1\n#");
	for (unsigned i = 0; i < YAML_SIZE_MAX / 16 + 1; i++)
		buf_addz(&b, "0123456789abcdef");
	assert_int_equal(policy_parse(&p, (const char *)buf_data(&b), buf_len(&b), NULL, &d), -1);
	buf_addc(&d.out, 0);
	assert_non_null(strstr((const char *)buf_data(&d.out), "error: the file is larger than "));
	diag_fini(&d);
	policy_free(&p);
	buf_fini(&b);
}

static void wildcard_warnings(void **state)
{
	static const char text[] = "version: 1\ndestinations:\n  - { host: \"*.github.io\", allow: [ GET /x ] }\n  - { host: \"**.a.test\", deny: [ GET /x ] }\n  - { host: \"*.b.test\" }\n"
				   "  - { host: c.test, allow: [ GET /x ] }\n  - { host: c.test, ports: [443], allow: [ GET /y ] }\n";
	static const char want[] = "w.yaml:3:13: warning: `*.github.io`: the customers of github.io have names there, each of its own\n"
				   "w.yaml:4:5: warning: the denies of **.a.test say nothing: no other destination lets anything through there\n"
				   "w.yaml:5:5: warning: this destination allows nothing\n"
				   "w.yaml:6:5: warning: c.test here never decides on port 443: the destination of line 7 lists the port; only the deny rules count\n";
	struct diag d = { .file = "w.yaml" };
	struct policy p;

	(void)state;
	assert_int_equal(policy_parse(&p, text, sizeof(text) - 1, NULL, &d), 0);
	if (!str_eq(buf_str(&d.out), str_of(want)))
		fail_msg("%.*s", (int)buf_len(&d.out), (const char *)buf_data(&d.out));
	diag_fini(&d);
	policy_free(&p);
}

/* Same input, same octets, also when it is written in another order. */
static void order_does_not_matter(void **state)
{
	static const char one[] = "version: 1\ndestinations: [ { host: \"**.a.test\", allow: [ GET /x ] }, { host: [\"*.a.test\", \"pre*.b.a.test\"], deny: [ GET /x ] }, { host: a.test, allow: [ GET / ] } ]\n";
	static const char two[] = "version: 1\ndestinations: [ { host: a.test, allow: [ GET / ] }, { host: [\"pre*.B.a.test\", \"*.a.test.\"], deny: [ GET /x ] }, { host: \"**.a.test\", allow: [ GET /x ] } ]\n";
	struct policy p;
	uint8_t *a, *b;
	size_t n, m;

	(void)state;
	util_parse(&p, one);
	a = util_image(&p, &n);
	policy_free(&p);
	util_parse(&p, two);
	b = util_image(&p, &m);
	policy_free(&p);
	assert_int_equal(n, m);
	assert_memory_equal(a, b, n);
	free(a);
	free(b);
}

static void many_errors(void **state)
{
	struct buf text = { 0 };
	struct diag d = { .file = "m.yaml" };
	struct policy p;

	(void)state;
	buf_addz(&text, "version: 1\ndestinations:\n");
	for (int i = 0; i < 5000; i++)
		buf_addz(&text, "  - hots: x\n");
	assert_int_equal(policy_parse(&p, (const char *)buf_data(&text), buf_len(&text), NULL, &d), -1);
	assert_int_equal(d.errors, 10000);
	assert_true(buf_len(&d.out) < 30000);
	assert_true(str_find(buf_str(&d.out), STR("the rest is not shown")) > 0);
	diag_fini(&d);
	policy_free(&p);
	buf_fini(&text);
}

/* --- files --------------------------------------------------------------------------------------------------------- */

struct scratch {
	char dir[64], policy[128], ca[128], table[128], state[128];
};

static void make_ca(const char *path, int copies)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *x = X509_new();
	X509_NAME *name = X509_NAME_new();
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	X509_set_version(x, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
	X509_gmtime_adj(X509_getm_notBefore(x), 0);
	X509_gmtime_adj(X509_getm_notAfter(x), 86400);
	X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"test", -1, -1, 0);
	X509_set_subject_name(x, name);
	X509_set_issuer_name(x, name);
	X509_set_pubkey(x, key);
	assert_true(X509_sign(x, key, EVP_sha256()) > 0);
	for (int i = 0; i < copies; i++)
		PEM_write_X509(f, x);
	fchmod(fileno(f), 0644);
	fclose(f);
	X509_NAME_free(name);
	X509_free(x);
	EVP_PKEY_free(key);
}

static int setup(void **state)
{
	struct scratch *s = calloc(1, sizeof(*s));

	snprintf(s->dir, sizeof(s->dir), "/tmp/sp-policy.XXXXXX");
	if (mkdtemp(s->dir) == NULL)
		return -1;
	snprintf(s->policy, sizeof(s->policy), "%s/sallyport.yaml", s->dir);
	snprintf(s->ca, sizeof(s->ca), "%s/ca.pem", s->dir);
	snprintf(s->table, sizeof(s->table), "%s/table", s->dir);
	snprintf(s->state, sizeof(s->state), "%s/state", s->dir);
	*state = s;
	return 0;
}

static int teardown(void **state)
{
	struct scratch *s = *state;
	char path[192];

	unlink(s->policy);
	unlink(s->ca);
	unlink(s->table);
	snprintf(path, sizeof(path), "%s/policies/trusted", s->state);
	unlink(path);
	snprintf(path, sizeof(path), "%s/policies", s->state);
	rmdir(path);
	rmdir(s->state);
	if (rmdir(s->dir) != 0)
		return -1;
	free(s);
	return 0;
}

static const char with_ca[] = "version: 1\ndestinations:\n  - host: a.test\n    tls: { ca: ./ca.pem }\n    allow: [ GET / ]\n";

/* The first message of an error, or "" when it loads. */
static void load_says(const char *path, char out[512], struct policy *p)
{
	struct diag d = { .file = "f" };

	policy_load(p, path, &d);
	snprintf(out, 512, "%.*s", (int)buf_len(&d.out), (const char *)buf_str(&d.out).p);
	diag_fini(&d);
}

static void certificates(void **state)
{
	struct scratch *s = *state;
	struct policy p;
	struct table *t;
	struct dest d;
	struct str der;
	const unsigned char *q;
	X509 *x;
	char said[512];

	spit(s->policy, with_ca);
	load_says(s->policy, said, &p);
	assert_non_null(strstr(said, "f:4:16: error: cannot read tls.ca"));
	policy_free(&p);
	make_ca(s->ca, 2);
	load_says(s->policy, said, &p);
	assert_string_equal(said, "");
	t = util_table(&p);
	assert_int_equal(table_find(t, SCHEME_HTTPS, STR("a.test"), 443, &d), 1);
	assert_true(d.has_ca && dest_ca(&d, 1, &der) && !dest_ca(&d, 2, &der) && dest_ca(&d, 0, &der));
	q = (const unsigned char *)der.p;
	x = d2i_X509(NULL, &q, (long)der.n);
	assert_non_null(x);
	X509_free(x);
	table_free(t);
	policy_free(&p);
	chmod(s->ca, 0666);
	load_says(s->policy, said, &p);
	assert_non_null(strstr(said, "chmod go-w"));
	policy_free(&p);
	spit(s->ca, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
	chmod(s->ca, 0644);
	load_says(s->policy, said, &p);
	assert_non_null(strstr(said, "certificate 1 of tls.ca"));
	policy_free(&p);
	spit(s->ca, "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n");
	load_says(s->policy, said, &p);
	assert_non_null(strstr(said, "private key"));
	policy_free(&p);
	unlink(s->ca);
	assert_int_equal(symlink("/etc/passwd", s->ca), 0);
	load_says(s->policy, said, &p);
	assert_non_null(strstr(said, "symbolic link"));
	policy_free(&p);
}

/* Lists of revoked certificates, `copies` of them in PEM form, or one in DER form. days: until its nextUpdate; 0: it has none. */
static void make_crl(const char *path, int copies, bool pem, int days)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509_CRL *x = X509_CRL_new();
	X509_NAME *name = X509_NAME_new();
	ASN1_TIME *t = ASN1_TIME_new();
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"test", -1, -1, 0);
	X509_CRL_set_version(x, 1);
	X509_CRL_set_issuer_name(x, name);
	X509_gmtime_adj(t, -20L * 86400);
	X509_CRL_set1_lastUpdate(x, t);
	X509_gmtime_adj(t, days * 86400L);
	if (days != 0)
		X509_CRL_set1_nextUpdate(x, t);
	assert_true(X509_CRL_sign(x, key, EVP_sha256()) > 0);
	for (int i = 0; i < copies; i++)
		assert_int_equal(pem ? PEM_write_X509_CRL(f, x) : i2d_X509_CRL_fp(f, x), 1);
	fchmod(fileno(f), 0644);
	fclose(f);
	ASN1_TIME_free(t);
	X509_NAME_free(name);
	X509_CRL_free(x);
	EVP_PKEY_free(key);
}

static const char with_crl[] = "version: 1\ndestinations:\n  - host: a.test\n    tls: { crl: ./ca.pem }\n    allow: [ GET / ]\n";

static void revocation_lists(void **state)
{
	static const struct { int copies; bool pem; int days; const char *says; } files[] = {
		{ 2, true, 10, "" }, { 1, false, 10, "" }, { 2, false, 10, "f:4:17: error: tls.crl" }, { 33, true, 10, "holds more than 32 lists" }, { 0, true, 10, "holds no list of revoked certificates" },
		{ 1, true, 0, "list 1 of tls.crl" }, { 1, true, -1, "is out of date: what it would vouch for is refused" } };
	struct scratch *s = *state;
	struct policy p;
	struct table *t;
	struct dest d;
	struct str der;
	const unsigned char *q;
	char said[512];

	spit(s->policy, with_crl);
	load_says(s->policy, said, &p);
	assert_non_null(strstr(said, "f:4:17: error: cannot read tls.crl"));
	policy_free(&p);
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		make_crl(s->ca, files[i].copies, files[i].pem, files[i].days);
		load_says(s->policy, said, &p);
		if (files[i].says[0] == 0 ? said[0] != 0 : strstr(said, files[i].says) == NULL)
			fail_msg("%zu: %s", i, said);
		if (i < 2) {
			X509_CRL *x;

			t = util_table(&p);
			assert_int_equal(table_find(t, SCHEME_HTTPS, STR("a.test"), 443, &d), 1);
			assert_true(d.has_crl && !d.has_ca && dest_crl(&d, (unsigned)files[i].copies - 1, &der) && !dest_crl(&d, (unsigned)files[i].copies, &der));
			q = (const unsigned char *)der.p;
			x = d2i_X509_CRL(NULL, &q, (long)der.n);
			assert_non_null(x);
			X509_CRL_free(x);
			table_free(t);
		}
		policy_free(&p);
	}
	spit(s->ca, "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n");
	load_says(s->policy, said, &p);
	assert_non_null(strstr(said, "list 1 of tls.crl"));
	policy_free(&p);
	unlink(s->ca);
}

static void not_files(void **state)
{
	struct scratch *s = *state;
	struct policy p;
	char said[512];

	load_says(s->policy, said, &p);
	assert_non_null(strstr(said, "f: error: cannot read it: No such file"));
	policy_free(&p);
	load_says(s->dir, said, &p);
	assert_non_null(strstr(said, "f: error: not a regular file"));
	policy_free(&p);
	assert_int_equal(mkfifo(s->policy, 0600), 0); /* must not be waited for */
	load_says(s->policy, said, &p);
	assert_non_null(strstr(said, "not a regular file"));
	policy_free(&p);
	unlink(s->policy);
	spit(s->policy, "");
	load_says(s->policy, said, &p);
	assert_non_null(strstr(said, "f:1:1: error: the policy is empty"));
	policy_free(&p);
}

static void compile_replaces(void **state)
{
	struct scratch *s = *state;
	struct err err = ERR_INIT;
	struct buf one, two;
	FILE *null = fopen("/dev/null", "we");

	assert_non_null(null);
	spit(s->policy, "version: 1\ndestinations: [ { host: a.test, allow: [ GET / ] } ]\n");
	assert_int_equal(policy_compile_file(s->policy, s->table, null, &err), 0);
	one = slurp(s->table);
	assert_int_equal(policy_compile_file(s->policy, s->table, null, &err), 0);
	two = slurp(s->table);
	assert_true(str_eq(buf_str(&one), buf_str(&two)));
	buf_fini(&two);
	/* an error leaves what was there */
	spit(s->policy, "version: 1\nnope: 1\n");
	assert_int_equal(policy_compile_file(s->policy, s->table, null, &err), -1);
	two = slurp(s->table);
	assert_true(str_eq(buf_str(&one), buf_str(&two)));
	buf_fini(&one);
	buf_fini(&two);
	spit(s->policy, "version: 1\n");
	assert_int_equal(policy_compile_file(s->policy, "/nonexistent/table", null, &err), -1);
	fclose(null);
}

static enum trust ask(const struct scratch *s, bool give)
{
	struct policy p;
	struct err err = ERR_INIT;
	enum trust t = TRUST_NEVER;
	char said[512];

	load_says(s->policy, said, &p);
	assert_string_equal(said, "");
	if (give)
		assert_int_equal(trust_give(s->state, s->policy, p.digest, &err), 0);
	assert_int_equal(trust_look(s->state, s->policy, p.digest, &t, &err), 0);
	policy_free(&p);
	return t;
}

static void consent(void **state)
{
	struct scratch *s = *state;
	struct err err = ERR_INIT;
	uint8_t digest[32] = { 0 };
	char list[192];
	struct stat st;
	enum trust t;

	snprintf(list, sizeof(list), "%s/policies/trusted", s->state);
	make_ca(s->ca, 1);
	spit(s->policy, with_ca);
	assert_int_equal(ask(s, false), TRUST_NEVER);
	assert_int_equal(ask(s, true), TRUST_GIVEN);
	assert_int_equal(stat(list, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(ask(s, false), TRUST_GIVEN);
	make_ca(s->ca, 1); /* another certificate: what the policy pulls in is part of it */
	assert_int_equal(ask(s, false), TRUST_CHANGED);
	assert_int_equal(ask(s, true), TRUST_GIVEN);
	spit(s->policy, "version: 1\ndestinations: [ { host: a.test, allow: [ GET / ] } ]\n");
	assert_int_equal(ask(s, false), TRUST_CHANGED);
	assert_int_equal(ask(s, true), TRUST_GIVEN);
	/* a list that someone else could have written is not relied on */
	assert_int_equal(chmod(list, 0666), 0);
	assert_int_equal(trust_look(s->state, s->policy, digest, &t, &err), -1);
	assert_int_equal(t, TRUST_NEVER);
	assert_int_equal(trust_give(s->state, s->policy, digest, &err), -1);
}

/* --- explain ------------------------------------------------------------------------------------------------------- */

static int explains(struct policy *p, const char *method, const char *url, bool json, char out[4096])
{
	struct explain_request r = { .method = method, .url = url };
	struct err err = ERR_INIT;
	FILE *f = fmemopen(out, 4096, "w");
	int ret;

	assert_non_null(f);
	memset(out, 0, 4096);
	ret = explain(p, NULL, &r, json, f, &err);
	fclose(f);
	return ret;
}

static void explanations(void **state)
{
	struct policy p;
	char out[4096];

	(void)state;
	util_parse(&p, "version: 1\nsecrets: { s: { env: S, hosts: [a.test] } }\ndestinations:\n  - host: a.test\n"
		       "    allow: [ GET /a/*, POST /b, { method: PUT, path: /a/*, id: put } ]\n    deny: [ ANY /a/no ]\n    inject: [ { secret: s, as: bearer } ]\n");
	assert_int_equal(explains(&p, "GET", "https://a.test/a/x?q=1", false, out), 0);
	assert_string_equal(out, "allow: an allow rule matches\n  rule: a.test:allow:GET /a/* (test.yaml:5)\n  destination: a.test (test.yaml:4)\n  inject: s as bearer (Authorization)\n");
	assert_int_equal(explains(&p, "DELETE", "https://a.test/a/x", false, out), 1);
	assert_non_null(strstr(out, "near: put (test.yaml:5): its methods do not include DELETE"));
	assert_non_null(strstr(out, "would pass here: GET HEAD PUT"));
	assert_null(strstr(out, "inject"));
	assert_int_equal(explains(&p, "POST", "https://a.test/c", false, out), 1);
	assert_non_null(strstr(out, "POST /b (test.yaml:5): its path does not match"));
	assert_int_equal(explains(&p, "GET", "https://A.test./a/NO;x/", false, out), 1);
	assert_non_null(strstr(out, "a deny rule matches"));
	assert_int_equal(explains(&p, "GET", "http://a.test/a/x", false, out), 1);
	assert_non_null(strstr(out, "this host, but https on port 443"));
	assert_int_equal(explains(&p, "GET", "https://a.test/a/%2e%2e/x", true, out), 1);
	assert_non_null(strstr(out, "\"malformed\":\"dot_segment\""));
	assert_int_equal(explains(&p, "GET", "https://a.test/a/x", true, out), 0);
	assert_non_null(strstr(out, "\"verdict\":\"allow\""));
	assert_non_null(strstr(out, "\"inject\":[\"s\"]"));
	assert_int_equal(explains(&p, "GET", "ftp://a.test/", true, out), 2);
	assert_int_equal(explains(&p, "G T", "https://a.test/", true, out), 2);
	policy_free(&p);
	/* broader destinations: their denies count, their allow rules are told as near */
	util_parse(&p, "version: 1\ndestinations:\n  - host: \"**.a.test\"\n    allow: [ GET /all ]\n    deny: [ ANY /no ]\n  - host: \"x*.a.test\"\n    ports: [8443]\n    allow: [ GET /no, GET /own ]\n"
		       "  - host: \"x*.a.test\"\n    allow: [ GET /no, GET /own ]\n");
	assert_int_equal(explains(&p, "GET", "https://xy.a.test/own", false, out), 0);
	assert_non_null(strstr(out, "destination: x*.a.test (test.yaml:9)"));
	assert_int_equal(explains(&p, "GET", "https://xy.a.test/no", false, out), 1);
	assert_non_null(strstr(out, "rule: **.a.test:deny:ANY /no (test.yaml:5)\n  destination: x*.a.test (test.yaml:9)"));
	assert_non_null(strstr(out, "near: x*.a.test:allow:GET /no (test.yaml:10): it would allow this, but the deny rule wins"));
	assert_int_equal(explains(&p, "GET", "https://xy.a.test/all", false, out), 1);
	assert_non_null(strstr(out, "near: **.a.test:allow:GET /all (test.yaml:4): it would allow this, but its destination is not the one that decides"));
	assert_int_equal(explains(&p, "GET", "https://a.test/all", false, out), 1);
	assert_non_null(strstr(out, "no destination has this host"));
	assert_int_equal(explains(&p, "GET", "http://xy.a.test/own", false, out), 1);
	assert_non_null(strstr(out, "this host, but https on port 443"));
	policy_free(&p);
}

/* Values in overflow runs whose last page liblmdb had used before: what stands behind them is cleared. */
static void many_large(void **state)
{
	struct buf b = { 0 };
	struct policy p;
	size_t n;

	(void)state;
	buf_addz(&b, "version: 1\ndestinations:\n");
	for (unsigned i = 0; i < 9000; i++) {
		buf_addf(&b, "  - host: host%u.area%u.example.com\n    allow:\n", i, i % 97);
		for (unsigned k = 0; k < 9; k++)
			buf_addf(&b, "      - GET /area%u/project-%u/**\n", k, k);
	}
	buf_addc(&b, 0);
	util_parse(&p, (const char *)buf_data(&b));
	free(util_image(&p, &n));
	assert_true(n > 20000000);
	policy_free(&p);
	buf_fini(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(many_large), cmocka_unit_test(error_cases),
		cmocka_unit_test(warning_cases), cmocka_unit_test(no_other_files), cmocka_unit_test(too_many),
		cmocka_unit_test(ready_policies),
		cmocka_unit_test(the_least_policy),
		cmocka_unit_test(ids),
		cmocka_unit_test(warnings),
		cmocka_unit_test(lint),
		cmocka_unit_test(wildcard_warnings),
		cmocka_unit_test(order_does_not_matter),
		cmocka_unit_test(many_errors),
		cmocka_unit_test_setup_teardown(certificates, setup, teardown),
		cmocka_unit_test_setup_teardown(revocation_lists, setup, teardown),
		cmocka_unit_test_setup_teardown(not_files, setup, teardown),
		cmocka_unit_test_setup_teardown(compile_replaces, setup, teardown),
		cmocka_unit_test_setup_teardown(consent, setup, teardown),
		cmocka_unit_test(explanations),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
