/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_TEST_POLICY_UTIL_H
#define SP_TEST_POLICY_UTIL_H
/* What the policy tests share: from text to an open table. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "policy-compiler/model.h"

static inline void util_parse(struct policy *p, const char *text)
{
	struct diag d = { .file = "test.yaml" };

	if (policy_parse(p, text, strlen(text), NULL, &d) < 0) {
		fprintf(stderr, "%.*s", (int)buf_len(&d.out), (const char *)buf_str(&d.out).p);
		fail();
	}
	diag_fini(&d);
}

/* Octets of the table, in memory of their own. */
static inline uint8_t *util_image(const struct policy *p, size_t *n)
{
	struct err err = ERR_INIT;
	struct stat st;
	uint8_t *image;
	int fd;

	if (policy_image(p, &fd, &err) < 0) {
		fprintf(stderr, "%s\n", err.text);
		fail();
	}
	assert_int_equal(fstat(fd, &st), 0);
	*n = (size_t)st.st_size;
	image = malloc(*n);
	assert_non_null(image);
	assert_int_equal(pread(fd, image, *n, 0), (ssize_t)*n);
	close(fd);
	return image;
}

static inline struct table *util_table(const struct policy *p)
{
	struct err err = ERR_INIT;
	struct table *t = NULL;
	int fd;

	assert_int_equal(policy_image(p, &fd, &err), 0);
	assert_int_equal(table_open(&t, fd, &err), 0);
	close(fd);
	return t;
}

static inline uint32_t util_random(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*state >> 33);
}
#endif
