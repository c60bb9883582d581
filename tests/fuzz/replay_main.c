/* SPDX-License-Identifier: Apache-2.0 */
/* Replays a corpus through a fuzz target without the fuzzer: every file, whole, and cut short at some lengths. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static unsigned count;

static int file(const char *path)
{
	FILE *f = fopen(path, "re");
	struct stat st;
	uint8_t *p;
	size_t n, step;

	if (f == NULL || fstat(fileno(f), &st) != 0)
		return -1;
	p = malloc((size_t)st.st_size + 1);
	n = fread(p, 1, (size_t)st.st_size, f);
	fclose(f);
	step = n / 16 + 1;
	for (size_t k = n;; k = k > step ? k - step : 0) {
		uint8_t *exact = malloc(k ? k : 1); /* so that a sanitizer sees a read past the end */

		memcpy(exact, p, k);
		LLVMFuzzerTestOneInput(exact, k);
		free(exact);
		count++;
		if (k == 0)
			break;
	}
	free(p);
	return 0;
}

int main(int argc, char **argv)
{
	char path[4096];

	for (int i = 1; i < argc; i++) {
		DIR *d = opendir(argv[i]);
		struct dirent *e;

		if (d == NULL) {
			if (file(argv[i]) != 0)
				return fprintf(stderr, "cannot read %s\n", argv[i]), 1;
			continue;
		}
		while ((e = readdir(d)) != NULL) {
			if (e->d_name[0] == '.')
				continue;
			snprintf(path, sizeof(path), "%s/%s", argv[i], e->d_name);
			file(path);
		}
		closedir(d);
	}
	printf("%u inputs\n", count);
	return count == 0;
}
