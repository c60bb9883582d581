/* SPDX-License-Identifier: Apache-2.0 */
/* The file of records: rotation, going on where the last life stopped, space ahead. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "proxy/audit/logfile.h"
#include "proxy/audit/reader.h"

static const uint8_t key[CHAIN_KEY_LEN] = "0123456789abcdef0123456789abcde";
static char dir[32];
static int dir_fd;

static int setup(void **state)
{
	int fd;

	(void)state;
	strcpy(dir, "/tmp/sp-logfile-XXXXXX");
	if (mkdtemp(dir) == NULL)
		return -1;
	dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fd = openat(dir_fd, "chain.key", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (write(fd, key, sizeof(key)) != sizeof(key))
		return -1;
	return close(fd);
}

static int teardown(void **state)
{
	char cmd[60];

	(void)state;
	close(dir_fd);
	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	return system(cmd);
}

static void begin(struct logfile *l, struct log_found *found)
{
	struct err err = ERR_INIT;

	if (logfile_open(l, dir_fd, chain_new(key), found, &err) < 0)
		fail_msg("%s", err.text);
	l->rotate_at = 8000;
}

static void end(struct logfile *l)
{
	struct err err = ERR_INIT;

	assert_int_equal(logfile_anchor(l, &err), 0);
	chain_free(l->chain);
	logfile_close(l);
}

static void write_some(struct logfile *l, int n)
{
	struct err err = ERR_INIT;
	struct buf b = { 0 };

	record_s(&b, REC_KIND, STR("request"));
	record_s(&b, REC_DECISION, STR("allow"));
	for (int i = 0; i < n; i++) {
		struct record_context c = { .sandbox = STR("box"), .uid = "00000000000000000000000000000000" };

		logfile_add(l, &c, buf_data(&b), buf_len(&b), i % 10 == 9);
		if (logfile_write(l, &err) < 0)
			fail_msg("%s", err.text);
	}
	buf_fini(&b);
}

static int verify(void)
{
	struct err err = ERR_INIT;
	int out = dup(1), null = open("/dev/null", O_WRONLY), r;

	fflush(stdout);
	dup2(null, 1);
	r = verify_log(dir_fd, &err);
	fflush(stdout);
	dup2(out, 1);
	close(out);
	close(null);
	return r;
}

static void count_line(void *arg, struct str line)
{
	assert_true(line.n > 0 && line.p[0] == '{');
	++*(unsigned *)arg;
}

static void rotation(void **state)
{
	struct logfile l;
	struct log_found found;
	unsigned lines = 0;
	uint32_t *n;
	size_t files;

	(void)state;
	begin(&l, &found);
	assert_false(found.anchor_missing || found.damaged || found.missing || found.cut);
	write_some(&l, 100);
	assert_true(l.rotated > 5);
	assert_int_equal(l.sequence, 100);
	end(&l);
	assert_int_equal(verify(), 0);
	/* the next life goes on, also when the current file is new */
	assert_int_equal(unlinkat(dir_fd, CHAIN_FILE, 0), 0);
	begin(&l, &found);
	assert_true(found.missing > 0); /* the checkpoint tells that the newest are gone */
	end(&l);
	assert_int_equal(verify(), 1);
	n = reader_rotated(dir_fd, &files);
	for (size_t i = 1; i < files; i++)
		assert_int_equal(n[i], n[i - 1] + 1);
	free(n);
	logfile_tail(dir_fd, count_line, &lines);
	assert_true(lines > 0);
}

static void going_on(void **state)
{
	struct logfile l;
	struct log_found found;

	(void)state;
	for (int life = 0; life < 5; life++) {
		begin(&l, &found);
		assert_false(found.anchor_missing || found.damaged || found.missing || found.cut);
		write_some(&l, 7);
		end(&l);
		assert_int_equal(verify(), 0);
	}
	/* a rotated file taken away, the first or one between */
	assert_int_equal(renameat(dir_fd, "audit-1.jsonl", dir_fd, "elsewhere"), 0);
	assert_int_equal(verify(), 1);
	assert_int_equal(renameat(dir_fd, "elsewhere", dir_fd, "audit-1.jsonl"), 0);
	assert_int_equal(renameat(dir_fd, "audit-2.jsonl", dir_fd, "elsewhere"), 0);
	assert_int_equal(verify(), 1);
	assert_int_equal(renameat(dir_fd, "elsewhere", dir_fd, "audit-2.jsonl"), 0);
	assert_int_equal(verify(), 0);
	/* the checkpoint file taken away or of another key */
	assert_int_equal(renameat(dir_fd, CHAIN_ANCHOR_FILE, dir_fd, "elsewhere"), 0);
	assert_int_equal(verify(), 1);
	begin(&l, &found);
	assert_true(found.anchor_missing);
	end(&l);
	assert_int_equal(verify(), 0);
}

static void space_ahead(void **state)
{
	struct logfile l;
	struct log_found found;
	struct err err = ERR_INIT;
	struct stat st;

	(void)state;
	begin(&l, &found);
	l.rotate_at = LOG_ROTATE;
	write_some(&l, 3);
	assert_int_equal(logfile_reserve(&l, 1 << 20, &err), 0);
	assert_int_equal(fstat(l.fd, &st), 0);
	assert_int_equal(st.st_size, l.size); /* readers see no zeros */
	if (l.no_allocate) {
		print_message("skip: this file system cannot allocate ahead\n");
	} else {
		assert_true(st.st_blocks * 512 >= 1 << 20);
		assert_true(l.allocated - l.size >= 1 << 20);
	}
	write_some(&l, 3);
	assert_false(logfile_lost(&l));
	end(&l);
	/* given back */
	assert_int_equal(fstatat(dir_fd, CHAIN_FILE, &st, 0), 0);
	assert_true(st.st_blocks * 512 < 1 << 20);
	assert_int_equal(verify(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
		T(rotation), T(going_on), T(space_ahead),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
