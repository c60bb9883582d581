/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Policy text: read, or refused with a place, never a crash. What is good compiles to a table that passes the check, and
 * table and reference evaluator say the same of some requests.
 */
#include <stdlib.h>
#include <unistd.h>

#include "policy-compiler/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

/* A host that the destination stands for: the star is a label, or the rest of one. */
static struct str instance(const struct pol_dest *d, char out[2 * CANON_HOST_MAX])
{
	size_t n = 0;

	for (size_t i = 0; i < d->host.len; i++) {
		if (d->host.text[i] != '*')
			out[n++] = d->host.text[i];
		else if (i == 0 || d->host.text[i - 1] != '*')
			out[n++] = 'x';
	}
	return str_mk(out, n);
}

static void compare(const struct policy *pol, const struct table *t)
{
	static const char *const paths[] = { "/", "/a", "/a/", "/A;x/b", "/a/b/c", "/v1/x", "*" }, *const methods[] = { "GET", "POST", "WEBSOCKET", "BREW" };

	for (unsigned i = 0; i < pol->dest_n && i < 4; i++) {
		const struct pol_dest *pd = &pol->dests[i];
		char host[2 * CANON_HOST_MAX];
		struct facts f = { .scheme = pd->scheme, .host = instance(pd, host), .port = pd->port };
		const struct pol_dest *ref = ref_dest(pol, f.scheme, f.host, f.port);
		struct dest d;

		if (ref == NULL || table_find(t, f.scheme, f.host, f.port, &d) != 1 || !str_eq(d.id, ref->id))
			abort();
		for (unsigned k = 0; k < sizeof(paths) / sizeof(paths[0]) * 4; k++) {
			struct decision a, b;

			f.path = str_of(paths[k / 4]);
			f.method = str_of(methods[k % 4]);
			f.has_content = k % 3 == 0;
			decide(t, &d, &f, &a);
			ref_eval(pol, &f, &b);
			if (a.verdict != b.verdict || a.why != b.why || !str_eq(a.rule, b.rule))
				abort();
		}
	}
}

/* The reference evaluator is slow on purpose: many stars in one pattern are the unit tests' matter. */
static bool easy(const uint8_t *p, size_t n)
{
	size_t stars = 0;

	for (size_t i = 0; i < n; i++)
		stars += p[i] == '*';
	return stars < 12 && n < 4000;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct diag d = { .file = "f" };
	struct err err = ERR_INIT;
	struct policy pol;
	struct table *t;
	int r = policy_parse(&pol, (const char *)p, n, NULL, &d), fd;

	if ((r == 0) != (d.errors == 0) || (r != 0 && buf_len(&d.out) == 0))
		abort();
	if (r == 0 && easy(p, n)) {
		if (policy_image(&pol, &fd, &err) < 0 || table_open(&t, fd, &err) < 0)
			abort();
		compare(&pol, t);
		table_free(t);
		close(fd);
	}
	policy_free(&pol);
	diag_fini(&d);
	return 0;
}
