/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a policy costs: compiling it, opening its table, a decision by it. Processor time of this process, the best and the
 * median of many short rounds; prints markdown (docs/PERFORMANCE.md). `policy_bench write N FILE` writes a table with N rules.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../../common/base/must.h"
#include "../../common/policy/decide.h"
#include "../../policy-compiler/model.h"

#define ASKS 4096     /* requests that differ: as many as there are; what they touch is more than a cache holds */
#define ASKS_WARM 64 /* the same few again and again */
#define ROUNDS_MAX 500
#define WINDOW 4096  /* decisions of a round: short enough not to be interrupted in some */

static unsigned rounds;

static double now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static int by_value(const void *a, const void *b) { return *(const double *)a < *(const double *)b ? -1 : *(const double *)a > *(const double *)b; }

static void row(const char *what, const char *goal, double *v, double scale, const char *unit)
{
	qsort(v, rounds, sizeof(*v), by_value);
	printf("| %s | %s | %.*f | %.*f %s |\n", what, goal, v[0] / scale < 10 ? 2 : 0, v[0] / scale, v[rounds / 2] / scale < 10 ? 2 : 0, v[rounds / 2] / scale, unit);
	fflush(stdout);
}

/* --- policies ------------------------------------------------------------------------------------------------------ */

static void put_rules(struct buf *b, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		buf_addf(b, "      - GET /area%u/project-%u/**\n", i % 16, i);
}

/* Every fourth destination of the second kind is a wildcard. */
static void put_dests(struct buf *b, unsigned dests, unsigned rules, bool wild)
{
	buf_addz(b, "version: 1\nname: bench\ndestinations:\n");
	for (unsigned i = 0; i < dests; i++) {
		buf_addf(b, "  - host: \"%shost%u.area%u.example.com\"\n    allow:\n", wild && i % 4 == 0 ? "*." : "", i, i % 97);
		put_rules(b, rules);
	}
}

static int compile(const struct buf *text)
{
	struct diag d = { .file = "bench.yaml" };
	struct policy p;
	struct err err = ERR_INIT;
	int fd;

	if (policy_parse(&p, (const char *)buf_str(text).p, buf_len(text), NULL, &d) < 0 || policy_image(&p, &fd, &err) < 0) {
		fprintf(stderr, "the policy does not compile: %.*s %s\n", (int)buf_len(&d.out), (const char *)buf_data(&d.out), err.text);
		exit(1);
	}
	policy_free(&p);
	diag_fini(&d);
	return fd;
}

static struct table *open_table(int fd)
{
	struct err err = ERR_INIT;
	struct table *t;

	if (table_open(&t, fd, &err) < 0) {
		fprintf(stderr, "%s\n", err.text);
		exit(1);
	}
	return t;
}

/* --- decisions ----------------------------------------------------------------------------------------------------- */

struct ask {
	char host[64], path[64];
	struct facts f;
};
static struct ask asks[ASKS];

static void make_asks(unsigned dests, unsigned rules, bool wild)
{
	uint32_t r = 12345;

	for (unsigned i = 0; i < ASKS; i++) {
		struct ask *a = &asks[i];
		unsigned d, rule;

		r = r * 1664525u + 1013904223u;
		d = (r >> 8) % dests;
		if (wild)
			d -= d % 4;
		r = r * 1664525u + 1013904223u;
		rule = (r >> 8) % rules;
		snprintf(a->host, sizeof(a->host), "%shost%u.area%u.example.com", wild ? "www." : "", d, d % 97);
		snprintf(a->path, sizeof(a->path), "/area%u/project-%u/some/file.txt", rule % 16, rule);
		a->f = (struct facts){ .scheme = SCHEME_HTTPS, .host = str_of(a->host), .port = 443, .method = STR("GET"), .path = str_of(a->path) };
	}
}

static void decisions(const char *what, const char *goal, const struct table *t, bool held, unsigned asks_n)
{
	static struct dest dests[ASKS];
	double v[ROUNDS_MAX];
	unsigned bad = 0;
	struct decision o;

	for (unsigned i = 0; i < ASKS; i++)
		if (table_find(t, SCHEME_HTTPS, asks[i].f.host, 443, &dests[i]) != 1)
			bad++;
	for (unsigned r = 0; r < rounds; r++) {
		double from = now_ns();

		for (unsigned k = 0; k < WINDOW; k++) {
			unsigned i = k % asks_n;

			if (!held && table_find(t, SCHEME_HTTPS, asks[i].f.host, 443, &dests[i]) != 1)
				bad++;
			decide(t, &dests[i], &asks[i].f, &o);
			bad += o.verdict != VERDICT_ALLOW;
		}
		v[r] = (now_ns() - from) / WINDOW;
	}
	MUST(bad == 0);
	row(what, goal, v, 1, "ns");
}

/* --- the rest ------------------------------------------------------------------------------------------------------ */

static void compiling(const char *what, const char *goal, const struct buf *text)
{
	double v[ROUNDS_MAX];
	char words[128];
	unsigned n = rounds;
	struct stat st = { 0 };

	for (unsigned r = 0; r < n; r++) {
		double from = now_ns();
		int fd = compile(text);

		v[r] = now_ns() - from;
		fstat(fd, &st);
		close(fd);
	}
	snprintf(words, sizeof(words), "%s (table %.1f MB)", what, (double)st.st_size / 1e6);
	row(words, goal, v, 1e6, "ms");
}

static void opening(const char *what, const char *goal, int fd)
{
	double v[ROUNDS_MAX];

	for (unsigned r = 0; r < rounds; r++) {
		double from = now_ns();

		table_free(open_table(fd));
		v[r] = now_ns() - from;
	}
	row(what, goal, v, 1e3, "µs");
}

static bool count(void *arg, const struct dest *d)
{
	(void)d;
	++*(unsigned *)arg;
	return true;
}

/* As the checker does, and then as a role that wants to know all destinations. */
static void checking(const char *what, const char *each, int fd)
{
	double v[ROUNDS_MAX], e[ROUNDS_MAX];
	uint8_t digest[TABLE_DIGEST_LEN];
	struct err err = ERR_INIT;
	struct stat st;
	void *p;

	MUST(fstat(fd, &st) == 0);
	p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	MUST(p != MAP_FAILED);
	for (unsigned r = 0; r < rounds; r++) {
		double from = now_ns(), then;
		struct table *t;
		unsigned n = 0;

		MUST(table_check(p, (size_t)st.st_size, digest, &err) == 0);
		then = now_ns();
		v[r] = then - from;
		t = open_table(fd);
		MUST(table_dest_each(t, count, &n) && n > 0);
		e[r] = now_ns() - then;
		table_free(t);
	}
	munmap(p, (size_t)st.st_size);
	row(what, "", v, 1e6, "ms");
	row(each, "", e, 1e6, "ms");
}

static struct buf policy_text(unsigned dests, unsigned rules, bool wild)
{
	struct buf b = { 0 };

	put_dests(&b, dests, rules, wild);
	return b;
}

static void with(unsigned dests, unsigned rules, bool wild, const char *what, const char *goal, const char *held, const char *held_goal)
{
	char words[160];

	struct buf text = policy_text(dests, rules, wild);
	int fd = compile(&text);
	struct table *t = open_table(fd);

	make_asks(dests, rules, wild);
	rounds = 400;
	for (unsigned k = 0; k < 2; k++) {
		unsigned n = k ? ASKS : ASKS_WARM;

		if (what != NULL) {
			snprintf(words, sizeof(words), "%s, %u requests", what, n);
			decisions(words, k && dests <= 100 ? "" : goal, t, false, n);
		}
		if (held != NULL) {
			snprintf(words, sizeof(words), "%s, %u requests", held, n);
			decisions(words, k ? "" : held_goal, t, true, n);
		}
	}
	table_free(t);
	close(fd);
	buf_fini(&text);
}

int main(int argc, char **argv)
{
	struct buf one, many;
	int fd;

	if (argc == 4 && strcmp(argv[1], "write") == 0) {
		struct policy p;
		struct diag d = { .file = "bench.yaml" };
		struct err err = ERR_INIT;
		unsigned n = (unsigned)atoi(argv[2]);

		one = policy_text(n / 10 + 1, 10, false);
		return policy_parse(&p, (const char *)buf_str(&one).p, buf_len(&one), NULL, &d) < 0 || policy_write(&p, argv[3], &err) < 0;
	}
	printf("| | goal | best | median |\n|---|---|---|---|\n");
	with(100, 10, false, "decision, 100 destinations", "500 ns", "the same on a held destination", "300 ns");
	with(100000, 1, false, "decision, 100,000 destinations, exact", "1000 ns", NULL, NULL);
	with(100000, 1, true, "the same by a wildcard", "1700 ns", NULL, NULL);
	with(1, 100000, false, NULL, NULL, "held destination with 100,000 rules", "300 ns");
	rounds = 5;
	one = policy_text(1, 100000, false);
	compiling("compile 100,000 rules of one destination", "2000 ms", &one);
	many = policy_text(10000, 10, false);
	compiling("compile 100,000 rules of 10,000 destinations", "2000 ms", &many);
	fd = compile(&many);
	opening("open that table, and close it", "1000 µs", fd);
	checking("check it", "look at all of its destinations", fd);
	return 0;
}
