/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table walker on any octets; and the reader, which is only meant for what the walker accepted, but stays inside the
 * image whatever it holds.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/policy/decide.h"
#include "common/policy/sandbox_spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static bool touch(void *arg, const struct dest *d)
{
	struct facts f = { .scheme = SCHEME_HTTPS, .host = STR("prefix.api.test"), .port = 443, .method = STR("GET"), .path = STR("/a/b;c/") };
	struct decision o;
	struct inject in;
	struct str der;

	decide(d->table, d, &f, &o);
	for (unsigned i = 0; i < 4; i++) {
		dest_inject(d, i, &in);
		dest_ca(d, i, &der);
		dest_crl(d, i, &der);
	}
	return --*(int *)arg > 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	static struct sandbox_spec spec;
	uint8_t digest[TABLE_DIGEST_LEN];
	struct err err = ERR_INIT;
	struct secret_decl s;
	struct table *t;
	struct dest d;
	int fd, left = 20;
	bool good = table_check(p, n, digest, &err) == 0;

	fd = memfd_create("t", MFD_CLOEXEC);
	if (fd < 0 || write(fd, p, n) != (ssize_t)n)
		abort();
	if (table_open(&t, fd, &err) == 0) {
		table_find(t, SCHEME_HTTPS, STR("api.test"), 443, &d);
		table_find(t, SCHEME_HTTPS, STR("prefix.api.test"), 443, &d);
		table_find(t, SCHEME_HTTPS, STR("a.b.prefix.api.test"), 443, &d);
		table_host_known(t, STR("api.test"));
		table_host_known(t, STR("x.api.test"));
		table_secret_host_ok(t, 0, STR("x.api.test"));
		table_dest_each(t, touch, &left);
		table_secret(t, 0, &s);
		if (!sandbox_spec_load(t, &spec) && good)
			abort();
		table_free(t);
	} else if (good) {
		abort();
	}
	close(fd);
	return 0;
}
