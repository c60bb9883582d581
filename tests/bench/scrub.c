/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast scrubbing is: GB/s over bodies of several kinds, in pieces as they come from an upstream, for sets of secrets.
 *	scrub [SECONDS for each figure [BODY]]
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "common/base/must.h"
#include "proxy/filter/scrub.h"

#define BODY ((size_t)1 << 20)
#define PIECE 16384

static uint64_t seed = 88172645463325252u;
static uint64_t rnd(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static const char alnum[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static char secrets[16][64];

enum kind { JSON = 0,
	    JSON_ESCAPED,
	    BASE64,
	    RANDOM,
	    ZERO,
	    PERCENT,
	    BACKSLASH,
	    ENCODED,
	    UNICODE,
	    SLASHES,
	    NEAR_BEGIN,
	    NEAR_END,
	    NEAR_HEX,
	    KINDS };
static const char *const names[KINDS] = { "JSON", "JSON, much escaped", "base64", "random", "one octet", "all '%'", "all '\\'", "all %41", "all \\u0041", "base64 with \\/", "near misses, end cut", "near misses, first octet wrong", "near misses, hex" };

static void text(uint8_t *p, enum kind k, size_t len)
{
	static const char json[] = "{\"id\":%llu,\"name\":\"item %llu\",\"url\":\"https://api.example/v1/items/%llu?page=2\",\"tags\":[\"a\",\"bc\"],\"price\":%llu.50,\"note\":\"first line\\nsecond\"},";
	static const char escaped[] = "{\"id\":%llu,\"html\":\"<a href=\\\"https:\\/\\/x.test\\/%llu\\\">it\\u0027s %llu<\\/a>\\n\\t%llu\"},";
	size_t n = 0;

	while (n < BODY) {
		char t[400];
		int l = 1;
		const char *s = secrets[rnd() % 16];

		switch (k) {
		case JSON:
		case JSON_ESCAPED:
			l = snprintf(t, sizeof(t), k == JSON ? json : escaped, (unsigned long long)rnd() % 100000, (unsigned long long)rnd() % 1000, (unsigned long long)rnd(), (unsigned long long)rnd() % 90);
			break;
		case BASE64:
		case SLASHES:
			t[0] = alnum[rnd() >> 20 & 63];
			if (k == SLASHES && t[0] == '/')
				l = snprintf(t, sizeof(t), "\\/");
			break;
		case RANDOM:
			t[0] = (char)(rnd() >> 30);
			break;
		case ZERO:
			t[0] = 0;
			break;
		case PERCENT:
			t[0] = '%';
			break;
		case BACKSLASH:
			t[0] = '\\';
			break;
		case ENCODED:
			l = snprintf(t, sizeof(t), "%%41");
			break;
		case UNICODE:
			l = snprintf(t, sizeof(t), "\\u0041");
			break;
		case NEAR_BEGIN:
			l = snprintf(t, sizeof(t), "%.*s", (int)len - 1, s);
			break;
		case NEAR_END:
			l = snprintf(t, sizeof(t), "!%s", s + 1);
			break;
		default:
			l = 0;
			for (size_t i = 0; i + 1 < len; i++)
				l += snprintf(t + l, sizeof(t) - (size_t)l, "%02x", (uint8_t)s[i + 1]);
			break;
		}
		for (int i = 0; i < l && n < BODY; i++)
			p[n++] = (uint8_t)t[i];
	}
}

/* Their first five octets are the same, as those of tokens are. */
static struct scrub_set *make(size_t count, size_t len)
{
	struct str v[16];

	for (size_t i = 0; i < 16; i++) {
		for (size_t j = 0; j < len; j++)
			secrets[i][j] = j < 5 ? "ghp_x"[j] : alnum[rnd() % 62];
		secrets[i][len] = 0;
		v[i] = str_mk(secrets[i], len);
	}
	return scrub_set_new(v, count);
}

static double least(double a, double b) { return a < b ? a : b; }

/* The body in pieces, each as if it had just been read. */
static double scrub_once(const struct scrub_set *set, const uint8_t *body, uint8_t *work, struct buf *out)
{
	double begin = now();
	struct scrub s;

	scrub_init(&s, set);
	for (size_t at = 0; at < BODY; at += PIECE) {
		memcpy(work, body + at, PIECE);
		if (scrub_holds(&s))
			scrub_feed(&s, work, PIECE, out);
		else
			scrub_feed_inplace(&s, work, PIECE);
		buf_clear(out);
	}
	scrub_end(&s, out);
	buf_clear(out);
	return now() - begin;
}

/* What of that is the copying. */
static double copy_once(const uint8_t *body, uint8_t *work)
{
	double begin = now();

	for (size_t at = 0; at < BODY; at += PIECE) {
		memcpy(work, body + at, PIECE);
		__asm__ volatile("" ::"r"(work)
				 : "memory");
	}
	return now() - begin;
}

int main(int argc, char **argv)
{
	static const struct {
		size_t n, len;
	} sets[] = { { 1, 40 }, { 16, 40 }, { 16, 16 }, { 16, 8 } };
	double seconds = argc > 1 ? atof(argv[1]) : 0.2;
	uint8_t *body = must_malloc(BODY), *work = must_malloc(PIECE);
	struct buf out = { 0 };

	printf("| body | 1 secret of 40 octets | 16 of 40 | 16 of 16 | 16 of 8 |\n|---|---|---|---|---|\n");
	for (int k = 0; k < KINDS; k++) {
		if (argc > 2 && strcmp(argv[2], names[k]) != 0)
			continue;
		printf("| %s", names[k]);
		for (size_t c = 0; c < sizeof(sets) / sizeof(sets[0]); c++) {
			struct scrub_set *set = make(sets[c].n, sets[c].len);
			double best = 1, copy = 1;

			text(body, (enum kind)k, sets[c].len);
			/* the best of many rounds: others use the machine too */
			for (double until = now() + seconds; now() < until;) {
				best = least(best, scrub_once(set, body, work, &out));
				copy = least(copy, copy_once(body, work));
			}
			printf(" | %.2f", (double)BODY / 1e9 / (best - copy));
			fflush(stdout);
			scrub_set_free(set);
		}
		printf(" |\n");
	}
	buf_fini(&out);
	free(body);
	free(work);
	return 0;
}
