/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzz target over files and directories (all files below), each whole and cut short at some lengths, so that
 * corpora are tests of the ordinary run.
 */
#define _XOPEN_SOURCE 700
#include <errno.h>
#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned long count;

/* In an allocation of just its size: a sanitizer sees every step too far. */
static void run(const uint8_t *data, size_t n)
{
	uint8_t *exact = malloc(n ? n : 1);

	if (exact == NULL)
		abort();
	memcpy(exact, data, n);
	LLVMFuzzerTestOneInput(exact, n);
	free(exact);
	count++;
}

static int one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	FILE *f;
	uint8_t *data;
	size_t n = (size_t)st->st_size;

	(void)ftw;
	if (type == FTW_NS || type == FTW_DNR) {
		fprintf(stderr, "cannot read %s\n", path);
		return 1;
	}
	if (type != FTW_F)
		return 0;
	f = fopen(path, "rb");
	data = malloc(n ? n : 1);
	if (f == NULL || data == NULL || fread(data, 1, n, f) != n) {
		fprintf(stderr, "cannot read %s: %s\n", path, strerror(errno));
		return 1;
	}
	fclose(f);
	run(data, n);
	for (size_t k = 0; k < n; k += n / 16 + 1)
		run(data, k);
	free(data);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		fprintf(stderr, "usage: %s FILE|DIRECTORY...\n", argv[0]);
		return 2;
	}
	for (int i = 1; i < argc; i++) {
		if (nftw(argv[i], one, 16, FTW_PHYS) != 0) {
			fprintf(stderr, "%s: failed\n", argv[i]);
			return 1;
		}
	}
	printf("%lu inputs\n", count);
	return count > 0 ? 0 : 1;
}
