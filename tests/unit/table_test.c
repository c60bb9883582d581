/* SPDX-License-Identifier: Apache-2.0 */
/* The table as a file: the same octets each time, look-ups, sizes, and what happens to a damaged one. */
#include "policy_util.h"

#include <dirent.h>
#include <fcntl.h>
#include <lmdb.h>
#include <openssl/evp.h>
#include <time.h>

#include "common/policy/dest_value.h"
#include "common/policy/image.h"
#include "common/policy/sandbox_spec.h"

#ifdef SP_SANITIZED
#define SLOW 3
#else
#define SLOW 1
#endif

static const char sample[] = "version: 1\n"
			     "name: sample\n"
			     "explain_denials: false\n"
			     "limits: { idle: 20m, request_body: 1GiB }\n"
			     "secrets:\n"
			     "  one: { env: ONE, hosts: [a.test, b.test] }\n"
			     "  two: { file: /etc/two, hosts: [b.test] }\n"
			     "destinations:\n"
			     "  - host: [a.test, \"[2001:db8::1]\", 192.0.2.7]\n"
			     "    ports: [443, 8443]\n"
			     "    id: group\n"
			     "    allow: [ GET /a/**, POST /b/*/c, \"PROPFIND /dav/v*\", GET /same ]\n"
			     "    deny: [ ANY /a/secret/** ]\n"
			     "  - host: b.test\n"
			     "    addresses: [10.1.0.0/16, \"fd00:1::/32\", 127.0.0.0/8]\n"
			     "    connect: 127.0.0.1:9000\n"
			     "    tls: { min: \"1.3\", alpn: [http/1.1], pin: [\"sha256/AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\"] }\n"
			     "    log_query: true\n"
			     "    foreign: refuse\n"
			     "    scrub: off\n"
			     "    credential_places: [X-Token, \"?Sig\"]\n"
			     "    paths: { encoded_slash: keep, raw: true }\n"
			     "    allow: [ { method: [GET, PUT], path: /x, id: named } ]\n"
			     "    inject:\n"
			     "      - { secret: two, as: header, name: X-Key, format: \"Token {}\", env: KEY }\n"
			     "      - { secret: one, as: basic, username: me }\n"
			     "  - host: b.test\n"
			     "    scheme: http\n"
			     "    allow: [ GET /plain ]\n"
			     "  - host: \"*.w.test\"\n"
			     "    limits: { request_body: 2MiB, response_body: 3GiB, head: 30s, idle: 15m, total: 1h }\n"
			     "    allow: [ GET /w ]\n"
			     "  - host: [ \"pre*.w.test\", \"**.d.w.test\" ]\n"
			     "    allow: [ GET /w ]\n"
			     "    deny: [ GET /w/no ]\n"
			     "  - host: cond.test\n"
			     "    allow:\n"
			     "      - GET /q?a=1|2&b=*\n"
			     "      - { method: GET, regex: \"/v[0-9]+/.*\", headers: { X-A: [a, b] }, valid: { until: 2030-01-01 } }\n"
			     "      - { method: POST, path: /g, body: { graphql: { type: query, fields: [a] } } }\n"
			     "      - { method: POST, path: /m, body: { mcp: { tools: [t], arguments: { /p: x } } } }\n"
			     "      - { method: POST, path: /p, body: { git_push: { refs: refs/heads/* } } }\n"
			     "    deny: [ { method: ANY, path: /j, query: { k: v }, headers: { X-B: c }, body: { json: { /a: b } } } ]\n"
			     "sandbox:\n"
			     "  filesystem: { home: empty, write: [., /srv/x], read: [/opt/tools], scratch: 512MiB }\n"
			     "  process: { user: \"1000\", environment: { keep: [LANG], set: { CI: \"1\", EMPTY: \"\" } } }\n"
			     "  resources: { memory: 2GiB, cpus: 1.5, processes: 256, open_files: 4096, wall_time: 1h, idle_time: 10m }\n"
			     "  on_misuse: stop_sandbox\n"
			     "  on_gateway_loss: stop\n"
			     "  require: [landlock]\n";

static struct dest find(const struct table *t, enum scheme s, const char *host, uint16_t port)
{
	struct dest d;

	assert_int_equal(table_find(t, s, str_of(host), port, &d), 1);
	return d;
}

static bool count(void *arg, const struct dest *d)
{
	unsigned *n = arg;

	assert_int_equal(d->index, *n);
	++*n;
	return true;
}

static bool count_injects(void *arg, const struct inject *in)
{
	assert_true(in->kind != INJECT_NONE);
	++*(unsigned *)arg;
	return true;
}

static void accessors(void **state)
{
	struct policy p;
	struct table *t;
	struct dest d, e;
	struct inject in;
	struct secret_decl s;
	struct ip ip;
	const char *why;
	struct str place, name, text;
	unsigned n = 0;

	(void)state;
	util_parse(&p, sample);
	t = util_table(&p);
	assert_true(str_eq(table_name(t), STR("sample")));
	assert_false(table_explain_denials(t));
	d = find(t, SCHEME_HTTPS, "a.test", 8443);
	assert_true(str_eq(d.id, STR("group@a.test:8443")));
	assert_true(str_eq(d.source, STR("test.yaml:9")));
	assert_true(str_eq(dest_host(&d), STR("a.test")));
	find(t, SCHEME_HTTPS, "2001:db8::1", 443);
	find(t, SCHEME_HTTPS, "192.0.2.7", 443);
	assert_int_equal(table_find(t, SCHEME_HTTPS, STR("a.test"), 80, &d), 0);
	assert_int_equal(table_find(t, SCHEME_HTTP, STR("a.test"), 443, &d), 0);
	assert_int_equal(table_find(t, SCHEME_HTTPS, STR("test"), 443, &d), 0);
	assert_int_equal(table_find(t, SCHEME_HTTPS, STR("x.a.test"), 443, &d), 0);
	assert_int_equal(table_find(t, SCHEME_HTTPS, STR(""), 443, &d), 0);
	assert_true(table_host_known(t, STR("b.test")) && table_host_known(t, STR("a.test")) && !table_host_known(t, STR("c.test")));
	assert_true(table_port_known(t, 80) && table_port_known(t, 8443) && !table_port_known(t, 22));
	d = find(t, SCHEME_HTTP, "b.test", 80);
	assert_false(d.has_inject);
	assert_false(dest_addresses_listed(&d));
	assert_true(ip_parse(STR("127.0.0.1"), &ip));
	assert_false(dest_address_ok(&d, &ip, &why));
	d = find(t, SCHEME_HTTPS, "b.test", 443);
	assert_true(d.log_query && d.paths.encoded_slash_keep && d.paths.raw && !d.paths.empty_segments_keep && d.has_inject && !d.has_ca && d.tls_min == 13 && d.connect_port == 9000);
	assert_true(d.alpn_h1 && !d.alpn_h2 && d.pin_n == 1 && dest_pin(&d, 1) == NULL);
	for (unsigned i = 0; i < 32; i++)
		assert_int_equal(dest_pin(&d, 0)[i], i);
	assert_true(d.foreign == FOREIGN_REFUSE && d.scrub_off && d.has_places && dest_place(&d, 0, &place) && str_eq(place, STR("x-token")) && dest_place(&d, 1, &place) && str_eq(place, STR("?Sig")) && !dest_place(&d, 2, &place));
	assert_true(ip_eq(&d.connect_ip, &ip) && dest_addresses_listed(&d) && dest_address_ok(&d, &ip, &why));
	assert_true(ip_parse(STR("8.8.8.8"), &ip) && !dest_address_ok(&d, &ip, &why)); /* listed are the only ones */
	assert_true(ip_parse(STR("169.254.169.254"), &ip) && !dest_address_ok(&d, &ip, &why));
	assert_int_equal(dest_inject_count(&d), 2);
	assert_true(dest_inject(&d, 0, &in) && in.kind == INJECT_HEADER && in.secret_index == 1 && str_eq(in.secret_name, STR("two")) && str_eq(in.name, STR("X-Key")) && str_eq(in.format, STR("Token {}")) && inject_variable(&in, 0, &name, &text) && str_eq(name, STR("KEY")) && str_eq(text, STR("{}")) && !inject_variable(&in, 1, &name, &text));
	assert_true(dest_inject(&d, 1, &in) && in.kind == INJECT_BASIC && str_eq(in.username, STR("me")) && in.env.n == 0);
	assert_false(dest_inject(&d, 2, &in));
	assert_true(d.limits.request_body == 1u << 30 && d.limits.response_body == 0 && d.limits.idle_ms == 1200000 && d.limits.head_ms == 0 && d.limits.total_ms == 0);
	assert_true(table_dest_at(t, d.index, &e) && e.value == d.value && !table_dest_at(t, 12, &e));
	assert_int_equal(table_secret_count(t), 2);
	assert_true(table_secret(t, 0, &s) && s.source == SECRET_SOURCE_ENV && str_eq(s.arg, STR("ONE")) && s.index == 0);
	assert_true(table_secret(t, 1, &s) && s.source == SECRET_SOURCE_FILE && str_eq(s.arg, STR("/etc/two")) && !table_secret(t, 2, &s));
	assert_true(table_secret_host_ok(t, 0, STR("a.test")) && !table_secret_host_ok(t, 1, STR("a.test")) && !table_secret_host_ok(t, 2, STR("a.test")));
	assert_true(table_dest_each(t, count, &n));
	assert_int_equal(n, 12);
	n = 0;
	assert_true(table_inject_each(t, count_injects, &n));
	assert_int_equal(n, 2);
	table_free(t);
	policy_free(&p);
}

static void sandbox_section(void **state)
{
	struct policy p;
	struct table *t;
	struct sandbox_spec *s = calloc(1, sizeof(*s));

	(void)state;
	assert_non_null(s);
	util_parse(&p, sample);
	t = util_table(&p);
	assert_true(sandbox_spec_load(t, s));
	assert_true(str_eq(s->home, STR("empty")) && s->root.n == 0 && s->write.n == 2 && str_eq(s->write.s[1], STR("/srv/x")) && s->read.n == 1 && s->scratch == 512u << 20);
	assert_true(str_eq(s->user, STR("1000")) && s->keep.n == 1 && s->set_name.n == 2 && str_eq(s->set_value.s[0], STR("1")) && s->set_value.s[1].n == 0);
	assert_true(s->memory == 2ull << 30 && s->cpus_milli == 1500 && s->processes == 256 && s->open_files == 4096 && s->wall_ms == 3600000 && s->idle_ms == 600000);
	assert_true(str_eq(s->on_misuse, STR("stop_sandbox")) && str_eq(s->on_gateway_loss, STR("stop")) && s->require.n == 1);
	table_free(t);
	policy_free(&p);
	free(s);
}

static void same_octets(void **state)
{
	struct policy p;
	size_t n, m;
	uint8_t *a, *b, digest[TABLE_DIGEST_LEN];
	struct err err = ERR_INIT;

	(void)state;
	util_parse(&p, sample);
	a = util_image(&p, &n);
	policy_free(&p);
	for (int i = 0; i < 50; i++)
		free(memset(malloc(3000 + 100 * (size_t)i), 0xa5, 3000)); /* whatever the heap held */
	util_parse(&p, sample);
	b = util_image(&p, &m);
	policy_free(&p);
	assert_int_equal(n, m);
	assert_memory_equal(a, b, n);
	assert_int_equal(table_check(a, n, digest, &err), 0);
	free(a);
	free(b);
}

/* Other tools can read it: liblmdb finds the records too. */
static void readable_by_liblmdb(void **state)
{
	struct policy p;
	struct err err = ERR_INIT;
	MDB_env *env;
	MDB_txn *txn;
	MDB_dbi dbi;
	MDB_stat st;
	MDB_val k = { 1, (void *)(uintptr_t)"\2" }, v;
	char path[64];
	int fd;

	(void)state;
	util_parse(&p, sample);
	assert_int_equal(policy_image(&p, &fd, &err), 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	assert_int_equal(mdb_env_create(&env), 0);
	assert_int_equal(mdb_env_open(env, path, MDB_NOSUBDIR | MDB_NOLOCK | MDB_RDONLY, 0), 0);
	assert_int_equal(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn), 0);
	assert_int_equal(mdb_dbi_open(txn, NULL, 0, &dbi), 0);
	assert_int_equal(mdb_stat(txn, dbi, &st), 0);
	assert_int_equal(st.ms_entries, 1 + 2 + 1 + 12);
	assert_int_equal(mdb_get(txn, dbi, &k, &v), 0);
	mdb_txn_abort(txn);
	mdb_env_close(env);
	close(fd);
	policy_free(&p);
}

/* --- damage -------------------------------------------------------------------------------------------------------- */

static int open_image(struct table **t, const uint8_t *p, size_t n)
{
	struct err err = ERR_INIT;
	int fd = memfd_create("t", MFD_CLOEXEC), r;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, p, n), (ssize_t)n);
	r = table_open(t, fd, &err);
	close(fd);
	return r;
}

static bool field_at(const void *arg, unsigned i, struct str *name, struct str *value)
{
	static const char *const fields[] = { "x-a", "content-type", "X_B" }, *const values[] = { "a", "application/json", "c, d" };

	(void)arg;
	if (i >= 3)
		return false;
	*name = str_of(fields[i]);
	*value = str_of(values[i]);
	return true;
}

/* Everything that the gateway does with a table. It may be wrong about one that was not checked, but it stays inside. */
static bool touch(void *arg, const struct dest *d)
{
	static const char *const paths[] = { "/", "/a/b", "/a/secret/x", "/b/x/c", "/dav/v1", "*", "/x", "/a/;p//", "/q", "/v1/x", "/g", "/m", "/p", "/j" };
	static const struct str contents[] = { { "{\"query\":\"{a}\"}", 15 }, { "{\"jsonrpc\":\"2.0\",\"method\":\"tools/call\",\"params\":{\"name\":\"t\",\"arguments\":{\"p\":\"x\"}}}", 79 }, { "0000", 4 }, { "{\"a\":\"b\"}", 9 } };
	struct facts f = { .field = field_at, .query = STR("a=1&b=%20"), .has_query = true, .now_s = 1800000000, .scheme = SCHEME_HTTPS, .host = STR("pre.w.test"), .port = 443, .has_content = true };
	struct decision o;
	struct inject in;
	struct ip ip;
	struct str der;
	const char *why;

	(void)arg;
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		f.path = str_of(paths[i]);
		f.content = i % 2 ? &contents[i / 2 % 4] : NULL;
		f.method = i > 8 ? i > 9 ? STR("POST") : STR("GET") : STR("PROPFIND");
		decide(d->table, d, &f, &o);
	}
	for (unsigned i = 0; i < 50 && dest_inject(d, i, &in); i++)
		;
	for (unsigned i = 0; i < 50 && dest_ca(d, i, &der); i++)
		;
	ip_parse(STR("127.0.0.1"), &ip);
	dest_address_ok(d, &ip, &why);
	return true;
}

static void use(const struct table *t)
{
	struct sandbox_spec *s = calloc(1, sizeof(*s));
	struct secret_decl secret;
	struct dest d;

	if (table_find(t, SCHEME_HTTPS, STR("a.test"), 443, &d) == 1)
		touch(NULL, &d);
	if (table_find(t, SCHEME_HTTPS, STR("b.test"), 443, &d) == 1)
		touch(NULL, &d);
	if (table_find(t, SCHEME_HTTPS, STR("pref.w.test"), 443, &d) == 1)
		touch(NULL, &d);
	if (table_find(t, SCHEME_HTTPS, STR("x.y.d.w.test"), 443, &d) == 1)
		touch(NULL, &d);
	table_host_known(t, STR("p.d.w.test"));
	table_host_known(t, STR("a.test"));
	table_dest_each(t, touch, NULL);
	for (unsigned i = 0; i < 3; i++) {
		table_secret(t, i, &secret);
		table_secret_host_ok(t, i, STR("a.test"));
	}
	sandbox_spec_load(t, s);
	free(s);
}

static void damage(const uint8_t *good, size_t n, unsigned trials, uint64_t seed)
{
	uint8_t *bad = malloc(n), digest[TABLE_DIGEST_LEN];

	assert_non_null(bad);
	for (unsigned i = 0; i < trials; i++) {
		struct err err = ERR_INIT;
		struct table *t;
		size_t len = n, at = util_random(&seed) % n;
		unsigned kind = util_random(&seed) % 5;

		memcpy(bad, good, n);
		if (kind == 0)
			bad[at] ^= (uint8_t)(1u << util_random(&seed) % 8);
		else if (kind == 1)
			bad[at] = (uint8_t)util_random(&seed);
		else if (kind == 2)
			len = at;
		else if (kind == 3)
			memset(bad + at, util_random(&seed) % 2 ? 0xff : 0, n - at < 64 ? n - at : 64);
		else
			memmove(bad + at, good + util_random(&seed) % n / 2, n - at < 200 ? (n - at) / 2 : 100);
		if (len == n && memcmp(bad, good, n) == 0)
			continue;
		if (table_check(bad, len, digest, &err) == 0)
			fail_msg("an image changed at %zu (kind %u) passed the check", at, kind);
		assert_true(err.text[0] != 0);
		/* opening it all the same does no harm */
		if (len > 0 && open_image(&t, bad, len) == 0) {
			use(t);
			table_free(t);
		}
	}
	free(bad);
}

static void every_octet_counts(void **state)
{
	struct policy p;
	size_t n;
	uint8_t *image, digest[TABLE_DIGEST_LEN];
	struct err err = ERR_INIT;

	(void)state;
	util_parse(&p, sample);
	image = util_image(&p, &n);
	policy_free(&p);
	for (size_t i = 0; i < n; i += SLOW) {
		image[i] ^= 0x41;
		if (table_check(image, n, digest, &err) == 0)
			fail_msg("octet %zu can be changed", i);
		image[i] ^= 0x41;
	}
	assert_int_equal(table_check(image, n, digest, &err), 0);
	free(image);
}

static void damaged(void **state)
{
	struct policy p;
	size_t n;
	uint8_t *image;

	(void)state;
	util_parse(&p, sample);
	image = util_image(&p, &n);
	policy_free(&p);
	damage(image, n, 4000 / SLOW, 7);
	free(image);
}

/* Values that a digest would not save: each octet of a destination's value changed, the rest of the table left out. */
static void damaged_values(void **state)
{
	struct policy p;
	struct table *t;
	struct dest d;
	uint64_t seed = 3;

	(void)state;
	util_parse(&p, sample);
	t = util_table(&p);
	for (unsigned which = 0; which < 2; which++) {
		d = find(t, SCHEME_HTTPS, which ? "cond.test" : "a.test", 443);
		for (uint32_t i = 0; i < d.value_len; i++) {
			uint8_t *copy = malloc(d.value_len);
			struct dest e = d;

			assert_non_null(copy);
			memcpy(copy, d.value, d.value_len);
			for (int k = 0; k < 3; k++) {
				copy[i] = (uint8_t)util_random(&seed);
				e.value = copy;
				e.value_len = d.value_len - (k == 2 ? util_random(&seed) % d.value_len : 0);
				touch(NULL, &e);
			}
			free(copy);
		}
	}
	table_free(t);
	policy_free(&p);
}

/* --- forged tables: the digest is right, what it covers is not ------------------------------------------------------- */

struct seal {
	EVP_MD_CTX *md;
	uint8_t *digest;
};

static bool seal_record(void *arg, struct str key, struct str value, struct err *err)
{
	struct seal *s = arg;

	(void)err;
	if (s->digest == NULL) { /* the header, which is first */
		s->digest = (uint8_t *)(uintptr_t)value.p + 12;
		memset(s->digest, 0, TABLE_DIGEST_LEN);
	}
	table_digest_record(s->md, key, value);
	return true;
}

static void reseal(uint8_t *p, size_t n)
{
	struct seal s = { EVP_MD_CTX_new(), NULL };
	struct err err = ERR_INIT;
	struct image im;

	assert_int_equal(EVP_DigestInit_ex(s.md, EVP_sha256(), NULL), 1);
	assert_int_equal(image_open(&im, p, n, &err), 0);
	assert_int_equal(image_walk(&im, seal_record, &s, &err), 0);
	assert_int_equal(EVP_DigestFinal_ex(s.md, s.digest, NULL), 1);
	EVP_MD_CTX_free(s.md);
}

/* Changes the first place where `find` stands to `put` (of the same length), from `from` on, and seals again. */
static void forged(const uint8_t *good, size_t n, const void *from, size_t from_n, const void *find, const void *put, size_t k, const char *want)
{
	uint8_t *bad = malloc(n), digest[TABLE_DIGEST_LEN], *at;
	struct err err = ERR_INIT;
	struct table *t;

	assert_non_null(bad);
	memcpy(bad, good, n);
	at = from != NULL ? memmem(bad, n, from, from_n) : bad;
	at = at != NULL ? memmem(at, n - (size_t)(at - bad), find, k) : NULL;
	if (at == NULL)
		fail_msg("nothing to change for: %s", want);
	memcpy(at, put, k);
	reseal(bad, n);
	if (table_check(bad, n, digest, &err) == 0)
		fail_msg("passed the check: %s", want);
	if (strstr(err.text, want) == NULL)
		fail_msg("%s, not: %s", err.text, want);
	if (open_image(&t, bad, n) == 0) {
		use(t);
		table_free(t);
	}
	free(bad);
}

/* Where a secret of wildcard hosts may go, and that an injection on a wildcard must stay within. */
static void wildcard_secrets(void **state)
{
	static const char text[] = "version: 1\n"
				   "secrets:\n"
				   "  s: { env: S, hosts: [ \"*.acme.test\", \"**.deep.acme.test\", acme.test ] }\n"
				   "destinations:\n"
				   "  - { host: [ \"*.acme.test\", \"pre*.acme.test\", \"**.x.deep.acme.test\", \"*.deep.acme.test\", acme.test, one.acme.test ], allow: [ GET / ], inject: [ { secret: s, as: bearer } ] }\n";
	static const struct { const char *host; bool may; } cases[] = {
		{ "a.acme.test", true }, { "acme.test", true }, { "a.b.acme.test", false }, { "deep.acme.test", true }, { "a.b.deep.acme.test", true }, { "acme.test.evil.test", false },
		{ "xacme.test", false }, { "*.acme.test", true }, { "**.acme.test", false }, { "pre*.acme.test", true }, { "**.deep.acme.test", true }, { "*.deep.acme.test", true }, { "", false },
	};
	struct policy p;
	struct table *t;
	struct dest d;
	struct inject in;
	uint8_t *image;
	size_t n;

	(void)state;
	util_parse(&p, text);
	t = util_table(&p);
	image = util_image(&p, &n);
	policy_free(&p);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (table_secret_host_ok(t, 0, str_of(cases[i].host)) != cases[i].may)
			fail_msg("%s", cases[i].host);
	d = find(t, SCHEME_HTTPS, "other.acme.test", 443);
	assert_true(d.wildcard && d.has_inject && dest_inject(&d, 0, &in) && str_eq(in.secret_name, STR("s")));
	assert_true(dest_stands_for(&d, STR("other.acme.test")) && !dest_stands_for(&d, STR("acme.test")) && !dest_stands_for(&d, STR("a.other.acme.test")));
	d = find(t, SCHEME_HTTPS, "one.acme.test", 443);
	assert_true(!d.wildcard && dest_stands_for(&d, STR("one.acme.test")) && !dest_stands_for(&d, STR("two.acme.test")));
	table_free(t);
	/* a secret that no longer covers what it is injected into */
	forged(image, n, "\x0b\0*.acme.test", 13, "*.acme.test", "*.acne.test", 11, "an injection that its secret does not allow");
	free(image);
}

#define FORGED(from, find, put, want) forged(image, n, from, sizeof(from) - 1, find, put, sizeof(find) - 1, want)

static void forgeries(void **state)
{
	struct policy p;
	size_t n;
	uint8_t *image, digest[TABLE_DIGEST_LEN];
	struct err err = ERR_INIT;

	(void)state;
	util_parse(&p, sample);
	image = util_image(&p, &n);
	policy_free(&p);
	reseal(image, n);
	assert_int_equal(table_check(image, n, digest, &err), 0);
	/* the header's wildcards: depth 2 has "*" and "pre*" with denies, depth 3 has "**" with denies */
	FORGED("SPTABLE", "\2\2\2\x09\0\0\0\0\0\0\0\3\3", "\2\2\0\x09\0\0\0\0\0\0\0\3\3", "list of wildcards");
	FORGED("SPTABLE", "\2\2\2\x09\0\0\0\0\0\0\0\3\3", "\2\2\2\x08\0\0\0\0\0\0\0\3\3", "list of wildcards");
	FORGED("SPTABLE", "\2\2\2\x09\0\0\0\0\0\0\0\3\3", "\2\2\2\x0b\0\0\0\0\0\0\0\3\3", "list of wildcards");
	FORGED("SPTABLE", "\2\2\2\x09\0\0\0\0\0\0\0\3\3", "\2\2\3\x09\0\0\0\0\0\0\0\3\3", "list of wildcards");
	FORGED("SPTABLE", "\2\2\2\x09\0\0\0\0\0\0\0\3\3", "\2\2\2\x09\0\0\0\0\0\0\0\4\3", "list of wildcards");
	FORGED("SPTABLE", "\2\2\2\x09\0\0\0\0\0\0\0\3\3", "\2\2\2\x09\0\0\0\0\0\0\0\2\3", "header");
	FORGED("SPTABLE", "\2\2\2\x09\0\0\0\0\0\0\0\3\3", "\2\2\2\x09\0\0\0\0\0\0\0\x7f\3", "header");
	FORGED("SPTABLE", "\2\2\2\x09\0\0\0\0\0\0\0\3\3", "\2\2\2\x09\0\0\0\0\0\0\0\3\2", "header");
	FORGED("SPTABLE", "\2\2\2\x09\0\0\0\0\0\0\0\3\3", "\2\2\x10\x09\0\0\0\0\0\0\0\3\3", "header");
	/* hosts that are none, secrets' patterns that are none */
	FORGED("one", "a.test", "A.test", "a secret's hosts");
	FORGED("one", "a.test", "*.*.st", "a secret's hosts");
	FORGED("/etc/two", "b.test", "x.test", "an injection that its secret does not allow");
	FORGED("*.w.test*.w.testtest.yaml", "*.w.test", "*.W.test", "a destination's host");
	FORGED("", "\x30\x75\0\0\xa0\xbb\x0d\0", "\x30\x75\0\0\xff\xff\xff\xff", "a destination's limits");
	FORGED("", "\x30\x75\0\0\xa0\xbb\x0d\0", "\1\0\0\0\xa0\xbb\x0d\0", "a destination's limits");
	/* conditions */
	FORGED("", "\2\2\0\1\0a\1\2\0", "\2\2\0\1\0a\4\2\0", "a rule's query");
	FORGED("", "\2\2\0\1\0a\1\2\0", "\0\2\0\1\0a\1\2\0", "a rule's conditions");
	FORGED("", "\2\2\0\1\0a\1\2\0", "\2\2\0\1\0a\1\0\0", "a rule's query");
	FORGED("", "\x0b\0/v[0-9]+", "\x0b\0/v[0-9)+", "a rule's regular expression");
	FORGED("", "\x0b\0/v[0-9]+", "\x0b\0/v(?=9)+", "a rule's regular expression");
	FORGED("", "\x10\3\1\1\0\1\0a", "\x10\3\x09\1\0\1\0a", "a rule's condition on content");
	FORGED("", "\x10\3\1\1\0\1\0a", "\x10\x09\1\1\0\1\0a", "a rule's condition on content");
	free(image);
}

/* --- size ---------------------------------------------------------------------------------------------------------- */

static double now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static void many(void **state)
{
	struct buf text = { 0 };
	struct policy p;
	struct table *t;
	uint64_t seed = 1;
	size_t n;
	uint8_t *image;
	unsigned hosts = 5000 / SLOW, rules = 5000 / SLOW, looked = 20000 / SLOW;
	double start;

	(void)state;
	buf_addz(&text, "version: 1\nname: many\ndestinations:\n");
	for (unsigned i = 0; i < hosts; i++)
		buf_addf(&text, "  - host: host-%u.zone-%u.example.test\n    allow: [ GET /a/**, POST /b ]\n", i, i % 7);
	buf_addz(&text, "  - host: big.test\n    allow:\n");
	for (unsigned i = 0; i < rules; i++)
		buf_addf(&text, "      - GET /r/%u/x/*\n", i);
	buf_addc(&text, 0);
	util_parse(&p, (const char *)buf_data(&text));
	image = util_image(&p, &n);
	damage(image, n, 60, 11);
	free(image);
	t = util_table(&p);
	start = now_ns();
	for (unsigned i = 0; i < looked; i++) {
		unsigned k = util_random(&seed) % hosts;
		struct dest d;
		char host[64];

		snprintf(host, sizeof(host), "host-%u.zone-%u.example.test", k, k % 7);
		if (table_find(t, SCHEME_HTTPS, str_of(host), 443, &d) != 1)
			fail_msg("%s is not found", host);
	}
	print_message("find among %u: %.0f ns (with snprintf)\n", hosts, (now_ns() - start) / looked);
	start = now_ns();
	for (unsigned i = 0; i < looked; i++) {
		struct facts f = { .scheme = SCHEME_HTTPS, .host = STR("big.test"), .port = 443, .method = STR("GET") };
		struct decision o;
		struct dest d;
		char path[64];

		snprintf(path, sizeof(path), "/r/%u/x/y", util_random(&seed) % (rules + 10));
		f.path = str_of(path);
		table_find(t, f.scheme, f.host, f.port, &d);
		decide(t, &d, &f, &o);
		if (o.verdict != VERDICT_ALLOW && o.why != DECIDE_NO_RULE)
			fail();
	}
	print_message("find and decide among %u rules: %.0f ns (with snprintf)\n", rules, (now_ns() - start) / looked);
	table_free(t);
	policy_free(&p);
	buf_fini(&text);
}

static void not_tables(void **state)
{
	static const uint8_t zeros[5 * 4096];
	uint8_t digest[TABLE_DIGEST_LEN];
	struct err err = ERR_INIT;
	struct table *t;
	int null = memfd_create("empty", MFD_CLOEXEC);

	(void)state;
	for (size_t n = 0; n <= sizeof(zeros); n += 512)
		assert_int_equal(table_check(zeros, n, digest, &err), -1);
	assert_int_equal(table_open(&t, null, &err), -1);
	assert_int_equal(table_open(&t, -1, &err), -1);
	assert_int_equal(open_image(&t, zeros, sizeof(zeros)), -1);
	close(null);
}

/* --- what the fuzzer of values begins with --------------------------------------------------------------------------- */

#define SEEDS "tests/fuzz/corpus/table_value"
#define TABLES "tests/fuzz/corpus/table_check" /* kept to be tables of today by tests/e2e/policy-octets.sh */

struct seeds {
	const char *name;
	bool write;
	unsigned n, of_this, stale;
};

static bool on_seed(void *arg, const struct dest *d)
{
	struct seeds *s = arg;
	uint8_t have[65536];
	char path[512];
	FILE *f;
	size_t n;

	snprintf(path, sizeof(path), SEEDS "/%s-%u", s->name, s->of_this++);
	s->n++;
	if (s->write && (f = fopen(path, "w")) != NULL) {
		assert_int_equal(fwrite(d->value, 1, d->value_len, f), d->value_len);
		fclose(f);
	}
	f = fopen(path, "r");
	n = f != NULL ? fread(have, 1, sizeof(have), f) : 0;
	if (f != NULL)
		fclose(f);
	if (n != d->value_len || memcmp(have, d->value, n) != 0) {
		print_message("%s is no value of today: WRITE=1 build/release/tests/table_test writes it anew\n", path);
		s->stale++;
	}
	return true;
}

static void seeds_of(struct seeds *s, const char *name, struct table *t)
{
	s->name = name;
	s->of_this = 0;
	assert_true(table_dest_each(t, on_seed, s));
	table_free(t);
}

/* A seed of an older format is turned away before anything is walked over, and finds nothing: all there are must be loaded. */
static void value_seeds_are_of_today(void **state)
{
	struct seeds s = { .write = getenv("WRITE") != NULL };
	struct err err = ERR_INIT;
	struct policy p;
	struct dirent *e;
	DIR *d = opendir(TABLES);
	char path[512];

	(void)state;
	if (d == NULL)
		fail_msg("run from the top folder: no %s", TABLES);
	while ((e = readdir(d)) != NULL) {
		struct table *t;
		int fd;

		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), TABLES "/%s", e->d_name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || table_open(&t, fd, &err) < 0)
			fail_msg("%s: %s", path, err.text);
		close(fd);
		seeds_of(&s, e->d_name, t);
	}
	closedir(d);
	util_parse(&p, sample);
	seeds_of(&s, "sample", util_table(&p));
	policy_free(&p);
	assert_true(s.n > 30);
	assert_int_equal(s.stale, 0);
	d = opendir(SEEDS);
	assert_non_null(d);
	while ((e = readdir(d)) != NULL) {
		static uint8_t b[65536];
		struct dest_value v;
		FILE *f;
		size_t n;

		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), SEEDS "/%s", e->d_name);
		f = fopen(path, "r");
		assert_non_null(f);
		n = fread(b, 1, sizeof(b), f);
		fclose(f);
		if (!dest_value_load(str_mk(b, n), &v) || dest_value_check(str_mk(b, n), UINT32_MAX) != NULL)
			fail_msg("%s is no value of today: remove it", path);
	}
	closedir(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(accessors),
		cmocka_unit_test(sandbox_section),
		cmocka_unit_test(same_octets),
		cmocka_unit_test(readable_by_liblmdb),
		cmocka_unit_test(every_octet_counts),
		cmocka_unit_test(damaged),
		cmocka_unit_test(damaged_values),
		cmocka_unit_test(forgeries),
		cmocka_unit_test(wildcard_secrets),
		cmocka_unit_test(many),
		cmocka_unit_test(not_tables),
		cmocka_unit_test(value_seeds_are_of_today),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
