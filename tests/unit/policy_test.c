/* SPDX-License-Identifier: Apache-2.0 */
/* Table and reference evaluator agree on generated policies and requests; a damaged table is never read as another. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/policy/glob.h"
#include "common/policy/sandbox_spec.h"
#include "policy-compiler/model.h"

static uint32_t seed = 7;
static uint32_t rnd(uint32_t n)
{
	seed = seed * 1664525u + 1013904223u;
	return (seed >> 8) % n;
}

static const char *const segments[] = { "a", "b", "A", "ab", "x;p=1", "*", "**", "a*", "*b", "v1", "", "%2A", "c%20d" };
static const char *const methods[] = { "GET", "HEAD", "POST", "DELETE", "ANY", "GET|POST", "PUT" };

static void random_path(struct buf *b, bool pattern)
{
	unsigned n = 1 + rnd(4);

	for (unsigned i = 0; i < n; i++) {
		const char *s = segments[rnd(sizeof(segments) / sizeof(segments[0]))];

		if (!pattern && strcmp(s, "**") == 0)
			s = "a";
		if (s[0] == 0 && i + 1 < n)
			s = "b";
		buf_addc(b, '/');
		buf_addz(b, s);
	}
}

static struct table *open_table(const struct policy *p, const char *path, uint8_t digest[32])
{
	struct err err = ERR_INIT;
	struct table *t = NULL;
	struct stat st;
	void *map;
	int fd;

	assert_int_equal(policy_write(p, path, &err), 0);
	fd = open(path, O_RDONLY);
	assert_true(fd >= 0 && fstat(fd, &st) == 0);
	map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	assert_int_equal(table_check(map, (size_t)st.st_size, digest, &err), 0);
	munmap(map, (size_t)st.st_size);
	assert_int_equal(table_open(&t, fd, &err), 0);
	close(fd);
	return t;
}

static void table_equals_reference(void **state)
{
	char path[] = "/tmp/sp-policy-test-XXXXXX";
	int fd = mkstemp(path);
	unsigned allowed = 0, denied = 0;

	(void)state;
	close(fd);
	for (unsigned round = 0; round < 600; round++) {
		struct buf y = { 0 };
		struct diag d = { .file = "p" };
		struct policy p;
		struct table *t;
		uint8_t digest[32];

		buf_addz(&y, "version: 1\ndestinations:\n");
		for (unsigned h = 0; h < 3; h++) {
			buf_addf(&y, "  - host: h%u.test\n", h);
			for (int deny = 0; deny < 2; deny++) {
				unsigned n = rnd(4);

				if (n > 0)
					buf_addf(&y, "    %s:\n", deny ? "deny" : "allow");
				for (unsigned i = 0; i < n; i++) {
					buf_addf(&y, "      - \"%s ", methods[rnd(7)]);
					random_path(&y, true);
					buf_addz(&y, "\"\n");
				}
			}
		}
		assert_int_equal(policy_parse(&p, (const char *)buf_data(&y), buf_len(&y), NULL, &d), 0);
		t = open_table(&p, path, digest);
		for (unsigned q = 0; q < 40; q++) {
			struct buf raw = { 0 };
			struct arena a = { 0 };
			struct facts f = { .scheme = SCHEME_HTTPS, .port = 443 };
			struct canon_path_opts o = { 0 };
			struct decision x, r;
			struct dest dest;
			struct str wire;
			const char *why;
			char host[16];
			int found;

			random_path(&raw, false);
			snprintf(host, sizeof(host), "h%u.test", rnd(4));
			f.host = str_of(host);
			f.method = str_of(methods[rnd(4)]);
			f.has_content = rnd(4) == 0;
			if (!canon_path(&a, buf_str(&raw), &o, &wire, &f.path, &why)) {
				buf_fini(&raw);
				arena_fini(&a);
				continue;
			}
			found = table_find(t, f.scheme, f.host, f.port, &dest);
			decide(t, found == 1 ? &dest : NULL, &f, &x);
			ref_eval(&p, &f, &r);
			if (x.verdict != r.verdict || x.why != r.why || !str_eq(x.rule, r.rule))
				print_error("%.*s\n%.*s %s %.*s\n", (int)buf_len(&y), (char *)buf_data(&y), (int)f.method.n, f.method.p, host, (int)f.path.n, f.path.p);
			assert_int_equal(x.verdict, r.verdict);
			assert_int_equal(x.why, r.why);
			assert_true(str_eq(x.rule, r.rule));
			*(x.verdict == VERDICT_ALLOW ? &allowed : &denied) += 1;
			buf_fini(&raw);
			arena_fini(&a);
		}
		table_free(t);
		policy_free(&p);
		buf_fini(&y);
		buf_fini(&d.out);
	}
	/* the generator reaches both sides */
	assert_true(allowed > 100 && denied > 1000);
	unlink(path);
}

static void damage_is_refused(void **state)
{
	static const char text[] = "version: 1\nname: t\nsecrets: { s: { env: X, hosts: [a.test] } }\ndestinations:\n  - host: a.test\n    addresses: [10.0.0.0/8]\n"
							   "    allow: [ \"GET /a/**\" ]\n    inject: [ { secret: s, as: bearer } ]\n  - host: b.test\n    allow: [ \"POST /x\" ]\n";
	char path[] = "/tmp/sp-policy-test-XXXXXX";
	struct diag d = { .file = "p" };
	struct policy p;
	uint8_t good[32], digest[32], *copy;
	struct err err;
	struct stat st;
	int fd = mkstemp(path);
	unsigned refused = 0, same = 0;
	FILE *f;

	(void)state;
	close(fd);
	assert_int_equal(policy_parse(&p, text, sizeof(text) - 1, NULL, &d), 0);
	table_free(open_table(&p, path, good));
	assert_int_equal(stat(path, &st), 0);
	copy = malloc((size_t)st.st_size);
	for (unsigned i = 0; i < 4000; i++) {
		size_t n = (size_t)st.st_size;

		f = fopen(path, "r");
		assert_int_equal(fread(copy, 1, n, f), n);
		fclose(f);
		for (unsigned k = 0; k <= rnd(3); k++)
			copy[rnd((uint32_t)n)] ^= (uint8_t)(1 + rnd(255));
		if (rnd(10) == 0)
			n = rnd((uint32_t)n);
		if (table_check(copy, n, digest, &err) < 0) {
			refused++;
		} else {
			/* an octet that nothing reads: the records must be the same */
			assert_memory_equal(digest, good, 32);
			same++;
		}
	}
	assert_true(refused > 500);
	free(copy);
	policy_free(&p);
	unlink(path);
}

static void globs(void **state)
{
	static const struct {
		const char *p, *s;
		bool allow, deny;
	} rows[] = { { "/a/**", "/a/", true, true }, { "/a/**", "/a", false, true }, { "/a/**", "/a/b/c", true, true }, { "/a/*", "/a/", false, true }, { "/a/*", "/a/b", true, true },
		{ "/a/*", "/a/b/c", false, false }, { "/a", "/a/", false, true }, { "/a", "/A", false, true }, { "/a", "/a;x=1", false, true }, { "/a/**/z", "/a/z", true, true },
		{ "/a/**/z", "/a/b/c/z", true, true }, { "/a/**/z", "/a/b/c", false, false }, { "/a*c/d", "/abc/d", true, true }, { "/a*c/d", "/ab/c/d", false, false },
		{ "/repos/a", "/repos/ab", false, false }, { "/**", "/", true, true }, { "/*", "/", false, true } };

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (glob_path(str_of(rows[i].p), str_of(rows[i].s)) != rows[i].allow || glob_path_deny(str_of(rows[i].p), str_of(rows[i].s)) != rows[i].deny)
			print_error("%s %s\n", rows[i].p, rows[i].s);
		assert_int_equal(glob_path(str_of(rows[i].p), str_of(rows[i].s)), rows[i].allow);
		assert_int_equal(glob_path_deny(str_of(rows[i].p), str_of(rows[i].s)), rows[i].deny);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(globs), cmocka_unit_test(table_equals_reference), cmocka_unit_test(damage_is_refused) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
