/* SPDX-License-Identifier: Apache-2.0 */
/* The role that writes the records: one of each, in a chain, whatever dies in between. */
#include "role_harness.h"

#include <dirent.h>
#include <jansson.h>
#include <sys/mount.h>

#include "proxy/roles.h"

static char dir[32];
static int dir_fd;

static int setup(void **state)
{
	uint8_t key[32];
	char path[64];
	int fd;

	(void)state;
	strcpy(dir, "/tmp/sp-audit-XXXXXX");
	if (mkdtemp(dir) == NULL)
		return -1;
	snprintf(path, sizeof(path), "%s/audit", dir);
	mkdir(path, 0700);
	dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < 32; i++)
		key[i] = (uint8_t)(i * 7 + 1);
	fd = openat(dir_fd, "chain.key", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (write(fd, key, sizeof(key)) != sizeof(key))
		return -1;
	close(fd);
	return 0;
}

static int teardown(void **state)
{
	char cmd[100];

	(void)state;
	close(dir_fd);
	snprintf(cmd, sizeof(cmd), "%s/small", dir);
	umount2(cmd, MNT_DETACH); /* of a test that failed */
	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	return system(cmd);
}

/* --- harness ------------------------------------------------------------------------------------------------------- */

static struct role_under_test start_audit(void)
{
	int fds[2] = { open(".", O_RDONLY), -1 };
	struct role_under_test r;

	close(fds[0]);
	fds[0] = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fds[1] = openat(dir_fd, "chain.key", O_RDONLY | O_CLOEXEC);
	r = role_start(audit_main, NULL, 0, fds, 2);
	close(fds[0]);
	close(fds[1]);
	return r;
}

static void sync_audit(struct role_under_test *r) { wire_send(r->sup, MSG_SYNC, 0, 0, NULL, 0, NULL, 0, NULL, 0); }

struct worker { /* what a worker does: slots, numbers, records */
	int link;
	struct inflight_slot *slots;
	uint64_t number;
	bool ok;
};

static struct worker worker_join(struct role_under_test *r, uint32_t sandbox)
{
	struct worker w = { .link = role_peer(r, ROLE_WORKER, sandbox), .ok = true };
	struct msg_inflight *f;
	struct wire_msg m;

	do
		wire_expect(w.link, MSG_INFLIGHT, &m);
	while (m.h.type != MSG_INFLIGHT);
	f = (void *)m.data;
	assert_int_equal(f->slots, INFLIGHT_SLOTS);
	assert_int_equal(f->slot_size, INFLIGHT_SLOT_SIZE);
	w.slots = mmap(NULL, sizeof(*w.slots) * INFLIGHT_SLOTS, PROT_READ | PROT_WRITE, MAP_SHARED, m.fd, 0);
	assert_true(w.slots != MAP_FAILED);
	close(m.fd);
	return w;
}

static void worker_leave(struct worker *w)
{
	close(w->link);
	munmap(w->slots, sizeof(*w->slots) * INFLIGHT_SLOTS);
}

static void request_fields(struct buf *b, const char *id, const char *path_text)
{
	record_s(b, REC_KIND, STR("request"));
	record_s(b, REC_REQUEST_ID, str_of(id));
	record_u(b, REC_TIME_MS, 1700000000000);
	record_s(b, REC_METHOD, STR("GET"));
	record_s(b, REC_HOST, STR("api.example"));
	record_s(b, REC_PATH, str_of(path_text));
}

static void worker_open(struct worker *w, uint32_t slot, const char *id)
{
	struct buf b = { 0 };

	request_fields(&b, id, "/open");
	memcpy(w->slots[slot].fields, buf_data(&b), buf_len(&b));
	w->slots[slot].len = (uint32_t)buf_len(&b);
	__atomic_store_n(&w->slots[slot].state, 1, __ATOMIC_RELEASE);
	buf_fini(&b);
}

static void send_record(struct worker *w, uint64_t number, uint32_t slot, const struct buf *b)
{
	struct msg_record m = { number, slot, (uint32_t)buf_len(b) };

	wire_send(w->link, MSG_RECORD, 1, 0, &m, sizeof(m), buf_str(b).p, buf_len(b), NULL, 0);
}

static void worker_request(struct worker *w, uint64_t number, uint32_t slot, const char *id)
{
	struct buf b = { 0 };

	request_fields(&b, id, "/done");
	record_s(&b, REC_DECISION, STR("allow"));
	record_u(&b, REC_STATUS, 200);
	send_record(w, number, slot, &b);
	buf_fini(&b);
}

static void worker_told(struct worker *w, uint64_t number)
{
	struct wire_msg m;

	for (;;) {
		if (!wire_recv(w->link, &m, WAIT_MS))
			fail_msg("record %llu was not acknowledged", (unsigned long long)number);
		if (m.h.type == MSG_AUDIT_STATE)
			w->ok = m.data[0] == 1;
		if (m.h.type == MSG_RECORDED && ((struct msg_recorded *)(void *)m.data)->number >= number)
			return;
	}
}

/* --- what is in the log -------------------------------------------------------------------------------------------- */

struct line {
	json_t *json;
	const char *kind, *id, *code, *sandbox;
};
static struct line *lines;
static size_t line_n;

static void drop_lines(void)
{
	for (size_t i = 0; i < line_n; i++)
		json_decref(lines[i].json);
	free(lines);
	lines = NULL;
	line_n = 0;
}

static void read_log(void)
{
	int fd = openat(dir_fd, "audit.jsonl", O_RDONLY | O_CLOEXEC);
	FILE *f = fdopen(fd, "r");
	char *text = NULL;
	size_t cap = 0;

	drop_lines();
	while (getline(&text, &cap, f) > 0) {
		json_t *j = json_loads(text, 0, NULL), *ours = json_object_get(json_object_get(j, "unmapped"), "sallyport");

		assert_non_null(j);
		lines = realloc(lines, (line_n + 1) * sizeof(*lines));
		lines[line_n++] = (struct line){ j, json_string_value(json_object_get(ours, "kind")), json_string_value(json_object_get(json_object_get(j, "http_request"), "uid")),
			json_string_value(json_object_get(ours, "code")), json_string_value(json_object_get(json_object_get(j, "src_endpoint"), "name")) };
		assert_non_null(lines[line_n - 1].kind);
	}
	free(text);
	fclose(f);
}

static unsigned requests_of(const char *id, const char *code)
{
	unsigned n = 0;

	for (size_t i = 0; i < line_n; i++)
		if (strcmp(lines[i].kind, "request") == 0 && lines[i].id != NULL && strcmp(lines[i].id, id) == 0 && (code == NULL || (lines[i].code != NULL && strcmp(lines[i].code, code) == 0)))
			n++;
	return n;
}

static unsigned kind_count(const char *kind)
{
	unsigned n = 0;

	for (size_t i = 0; i < line_n; i++)
		n += strcmp(lines[i].kind, kind) == 0;
	return n;
}

static int verify(void)
{
	pid_t pid = fork();
	int status = 0;

	if (pid == 0) {
		char *argv[] = { (char *)"logs", (char *)"verify", dir, NULL };
		int null = open("/dev/null", O_WRONLY);

		dup2(null, 1);
		dup2(null, 2);
		_exit(logs_main(3, argv));
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool file_there(const char *prefix)
{
	DIR *d = fdopendir(openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	struct dirent *e;
	bool found = false;

	while ((e = readdir(d)) != NULL)
		found = found || strncmp(e->d_name, prefix, strlen(prefix)) == 0;
	closedir(d);
	return found;
}

/* --- tests --------------------------------------------------------------------------------------------------------- */

static void records(void **state)
{
	struct role_under_test r = start_audit();
	struct worker w;
	struct buf b = { 0 };
	json_t *j;

	(void)state;
	sync_audit(&r);
	role_sandbox(&r, 1, 1, 0, "box", dir_fd);
	w = worker_join(&r, 1);
	worker_open(&w, 3, "req-1");
	worker_request(&w, 1, 3, "req-1");
	worker_told(&w, 1);
	assert_int_equal(w.slots[3].state, 0); /* cleared before it is told */
	/* the sender states facts about itself only: no other sandbox's name */
	request_fields(&b, "req-2", "/x\n\x1b[31m\xff\"");
	record_s(&b, REC_SANDBOX, STR("another"));
	record_s(&b, REC_DECISION, STR("deny"));
	record_s(&b, REC_CODE, STR("policy_denied"));
	record_s(&b, REC_SECRET, STR("s1"));
	record_s(&b, REC_SECRET, STR("s2"));
	send_record(&w, 2, INFLIGHT_NO_SLOT, &b);
	worker_told(&w, 2);
	buf_clear(&b);
	record_s(&b, REC_KIND, STR("lifecycle"));
	record_s(&b, REC_SANDBOX, STR("box"));
	record_s(&b, REC_MESSAGE, STR("sandbox started"));
	wire_send(r.sup, MSG_LIFECYCLE, 0, 0, buf_data(&b), buf_len(&b), NULL, 0, NULL, 0);
	/* a worker cannot speak as the supervisor does */
	send_record(&w, 3, INFLIGHT_NO_SLOT, &b);
	worker_told(&w, 3);
	/* nonsense is recorded as such, and acknowledged */
	buf_clear(&b);
	buf_addz(&b, "\xff\xff\xff garbage");
	send_record(&w, 4, 4000000, &b);
	worker_told(&w, 4);
	assert_true(w.ok);
	assert_int_equal(verify(), 0);
	worker_leave(&w);
	role_gone(&r, 1, 1);
	assert_int_equal(role_end(&r), 0);
	assert_int_equal(verify(), 0);
	assert_false(file_there("inflight"));
	read_log();
	assert_int_equal(requests_of("req-1", NULL), 1);
	assert_int_equal(requests_of("req-2", "policy_denied"), 1);
	for (size_t i = 0; i < line_n; i++)
		if (lines[i].sandbox != NULL)
			assert_string_not_equal(lines[i].sandbox, "another");
	assert_int_equal(kind_count("lifecycle"), 1);
	assert_true(kind_count("finding") >= 2);
	assert_int_equal(kind_count("checkpoint"), 1);
	for (size_t i = 0; i < line_n; i++)
		assert_int_equal(json_integer_value(json_object_get(json_object_get(lines[i].json, "metadata"), "sequence")), i + 1);
	j = lines[0].json;
	assert_int_equal(json_integer_value(json_object_get(j, "class_uid")), 4002);
	assert_int_equal(json_integer_value(json_object_get(j, "type_uid")), 400203);
	assert_int_equal(json_integer_value(json_object_get(json_object_get(j, "http_response"), "code")), 200);
	drop_lines();
	buf_fini(&b);
}

/* A worker dies: what it sent counts, what is open is lost, once. */
static void worker_dies(void **state)
{
	struct role_under_test r = start_audit();
	struct worker w, w2;
	char id[40];

	(void)state;
	sync_audit(&r);
	role_sandbox(&r, 1, 1, 0, "box", dir_fd);
	w = worker_join(&r, 1);
	for (uint32_t i = 0; i < 60; i++) {
		snprintf(id, sizeof(id), "d-%u", i);
		worker_open(&w, i, id);
	}
	for (uint32_t i = 0; i < 50; i++) { /* not one acknowledgement is read */
		snprintf(id, sizeof(id), "d-%u", i);
		worker_request(&w, i + 1, i, id);
	}
	worker_leave(&w);
	/* the next one, at once */
	w2 = worker_join(&r, 1);
	worker_open(&w2, 0, "e-1");
	worker_request(&w2, 1, 0, "e-1");
	worker_told(&w2, 1);
	read_log();
	for (uint32_t i = 0; i < 60; i++) {
		snprintf(id, sizeof(id), "d-%u", i);
		assert_int_equal(requests_of(id, NULL), 1);
		assert_int_equal(requests_of(id, "worker_lost"), i >= 50);
	}
	assert_int_equal(requests_of("e-1", NULL), 1);
	worker_leave(&w2);
	role_gone(&r, 1, 1);
	assert_int_equal(role_end(&r), 0);
	assert_int_equal(verify(), 0);
	drop_lines();
}

/* Its worker goes on with the file that this role left until it is given another; what it opens there meanwhile counts. */
static void goes_on_without(struct role_under_test *r, bool some_before)
{
	struct worker w, next;

	*r = start_audit();
	sync_audit(r);
	role_sandbox(r, 1, 1, 0, "box", dir_fd);
	w = worker_join(r, 1);
	if (some_before)
		worker_open(&w, 0, "b-0");
	role_kill(r);
	*r = start_audit();
	role_sandbox(r, 1, 1, 0, "box", dir_fd); /* answered: the files have been looked at */
	worker_open(&w, 1, "b-1");
	worker_open(&w, 2, "b-2");
	close(w.link); /* and the worker is gone, before it was given the next file */
	munmap(w.slots, sizeof(*w.slots) * INFLIGHT_SLOTS);
	next = worker_join(r, 1);
	sync_audit(r);
	worker_leave(&next);
	role_gone(r, 1, 1);
	assert_int_equal(role_end(r), 0);
	read_log();
	assert_int_equal(requests_of("b-0", "worker_lost"), some_before);
	assert_int_equal(requests_of("b-1", "worker_lost"), 1);
	assert_int_equal(requests_of("b-2", "worker_lost"), 1);
	assert_int_equal(verify(), 0);
	assert_false(file_there("inflight"));
	drop_lines();
}

static void slots_opened_after_the_look(void **state)
{
	struct role_under_test r;

	(void)state;
	goes_on_without(&r, true);
}

static void slots_opened_in_an_empty_file(void **state)
{
	struct role_under_test r;

	(void)state;
	goes_on_without(&r, false);
}

/* This role dies: the worker sends again, nothing is written twice, open requests go on. */
static void audit_dies(void **state)
{
	struct role_under_test r = start_audit();
	struct msg_record none = { 0, INFLIGHT_NO_SLOT, 0 };
	struct worker w, again;

	(void)state;
	sync_audit(&r);
	role_sandbox(&r, 1, 1, 0, "box", dir_fd);
	w = worker_join(&r, 1);
	worker_open(&w, 0, "a-0");
	worker_open(&w, 1, "a-1");
	worker_open(&w, 2, "a-2");
	worker_request(&w, 1, 0, "a-0");
	worker_told(&w, 1);
	worker_request(&w, 2, 1, "a-1");
	worker_told(&w, 2); /* the log has it; suppose the worker had not heard */
	w.slots[1].state = 1;
	role_kill(&r);
	r = start_audit();
	role_sandbox(&r, 1, 1, 0, "box", dir_fd);
	again = worker_join(&r, 1);
	sync_audit(&r);
	/* what the worker does with open slots when it is given another file */
	for (int i = 0; i < 3; i++) {
		if (w.slots[i].state != 1 || again.slots[i].state == 1)
			continue;
		memcpy(again.slots[i].fields, w.slots[i].fields, sizeof(w.slots[i].fields));
		again.slots[i].len = w.slots[i].len;
		again.slots[i].state = 1;
	}
	wire_send(again.link, MSG_RECORD, 1, 0, &none, sizeof(none), NULL, 0, NULL, 0);
	worker_request(&again, 2, 1, "a-1");
	worker_told(&again, 2);
	read_log();
	assert_int_equal(requests_of("a-0", NULL), 1);
	assert_int_equal(requests_of("a-1", NULL), 1);
	assert_int_equal(requests_of("a-2", NULL), 0); /* goes on */
	worker_request(&again, 3, 2, "a-2");
	worker_told(&again, 3);
	close(w.link);
	munmap(w.slots, sizeof(*w.slots) * INFLIGHT_SLOTS);
	worker_leave(&again);
	role_gone(&r, 1, 1);
	assert_int_equal(role_end(&r), 0);
	read_log();
	assert_int_equal(requests_of("a-1", NULL), 1);
	assert_int_equal(requests_of("a-2", NULL), 1);
	assert_int_equal(requests_of("a-2", "worker_lost"), 0);
	assert_int_equal(verify(), 0);
	assert_false(file_there("inflight"));
	drop_lines();
}

/* All die: at the next start what was open is lost, under the name of the sandbox it was of, also if its number is used again. */
static void everything_dies(void **state)
{
	struct role_under_test r = start_audit();
	struct worker w;

	(void)state;
	sync_audit(&r);
	role_sandbox(&r, 1, 1, 0, "first", dir_fd);
	w = worker_join(&r, 1);
	worker_open(&w, 7, "c-1");
	worker_open(&w, 8, "c-2");
	worker_request(&w, 1, 8, "c-2");
	worker_told(&w, 1);
	role_kill(&r);
	worker_leave(&w);
	r = start_audit();
	role_sandbox(&r, 1, 1, 0, "second", dir_fd); /* even before SYNC */
	sync_audit(&r);
	w = worker_join(&r, 1);
	worker_open(&w, 0, "c-3");
	worker_request(&w, 1, 0, "c-3");
	worker_told(&w, 1);
	worker_leave(&w);
	role_gone(&r, 1, 1);
	assert_int_equal(role_end(&r), 0);
	read_log();
	assert_int_equal(requests_of("c-1", "worker_lost"), 1);
	assert_int_equal(requests_of("c-2", NULL), 1);
	assert_int_equal(requests_of("c-3", NULL), 1);
	for (size_t i = 0; i < line_n; i++)
		if (lines[i].id != NULL && strcmp(lines[i].id, "c-1") == 0)
			assert_string_equal(lines[i].sandbox, "first");
	assert_int_equal(verify(), 0);
	drop_lines();
}

/* Audit and worker die together, and the sandbox lives on with a new worker. */
static void both_die(void **state)
{
	struct role_under_test r = start_audit();
	struct worker w, w2;

	(void)state;
	sync_audit(&r);
	role_sandbox(&r, 1, 1, 0, "box", dir_fd);
	w = worker_join(&r, 1);
	worker_open(&w, 0, "b-1");
	role_kill(&r);
	worker_leave(&w);
	r = start_audit();
	role_sandbox(&r, 1, 1, 0, "box", dir_fd);
	w2 = worker_join(&r, 1);
	sync_audit(&r);
	worker_open(&w2, 5, "b-2");
	worker_request(&w2, 1, 5, "b-2");
	worker_told(&w2, 1);
	worker_open(&w2, 6, "b-3");
	worker_leave(&w2);
	role_gone(&r, 1, 1);
	assert_int_equal(role_end(&r), 0);
	read_log();
	assert_int_equal(requests_of("b-1", "worker_lost"), 1);
	assert_int_equal(requests_of("b-1", NULL), 1);
	assert_int_equal(requests_of("b-2", NULL), 1);
	assert_int_equal(requests_of("b-3", "worker_lost"), 1);
	assert_int_equal(verify(), 0);
	drop_lines();
}

/* The supervisor dies: this role ends last and closes what is open. */
static void supervisor_dies(void **state)
{
	struct role_under_test r = start_audit();
	struct worker w;

	(void)state;
	sync_audit(&r);
	role_sandbox(&r, 1, 1, 0, "box", dir_fd);
	w = worker_join(&r, 1);
	worker_open(&w, 0, "s-1");
	worker_open(&w, 1, "s-2");
	close(r.sup);
	worker_request(&w, 1, 1, "s-2");
	worker_leave(&w);
	assert_int_equal(role_wait(&r), 0);
	read_log();
	assert_int_equal(requests_of("s-1", "worker_lost"), 1);
	assert_int_equal(requests_of("s-2", NULL), 1);
	assert_int_equal(requests_of("s-2", "worker_lost"), 0);
	assert_int_equal(verify(), 0);
	drop_lines();
}

static void dns_is_folded(void **state)
{
	struct role_under_test r = start_audit();
	struct worker w;
	struct buf b = { 0 };
	json_int_t sum = 0;

	(void)state;
	sync_audit(&r);
	role_sandbox(&r, 1, 1, 0, "box", dir_fd);
	w = worker_join(&r, 1);
	for (uint64_t i = 1; i <= 100; i++) {
		buf_clear(&b);
		record_s(&b, REC_KIND, STR("dns"));
		record_s(&b, REC_DECISION, i % 2 ? STR("allow") : STR("deny"));
		record_s(&b, REC_HOST, STR("name.example"));
		record_u(&b, REC_TIME_MS, 1700000000000 + i);
		send_record(&w, i, INFLIGHT_NO_SLOT, &b);
		if (i % 20 == 0)
			worker_told(&w, i);
	}
	worker_leave(&w);
	role_gone(&r, 1, 1);
	assert_int_equal(role_end(&r), 0);
	read_log();
	for (size_t i = 0; i < line_n; i++) {
		json_t *c = json_object_get(lines[i].json, "count");

		if (strcmp(lines[i].kind, "dns") == 0)
			sum += c != NULL ? json_integer_value(c) : 1;
	}
	assert_int_equal(sum, 100);
	assert_int_equal(kind_count("dns"), 4);
	drop_lines();
	buf_fini(&b);
}

/* --- a disk that is full ------------------------------------------------------------------------------------------- */

static void full_disk(void **state)
{
	struct role_under_test r;
	struct worker w;
	struct wire_msg m;
	char path[80], id[40];
	int old = dir_fd, fd, filler, n = 0;
	uint8_t key[64];
	uint64_t base;
	bool refused = false;

	(void)state;
	snprintf(path, sizeof(path), "%s/small", dir);
	mkdir(path, 0700);
	if (mount("none", path, "tmpfs", 0, "size=8m") != 0) {
		print_message("skip: a small file system cannot be mounted here\n");
		return;
	}
	dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fd = openat(old, "chain.key", O_RDONLY | O_CLOEXEC);
	assert_int_equal(read(fd, key, sizeof(key)), 32);
	close(fd);
	fd = openat(dir_fd, "chain.key", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, key, 32), 32);
	close(fd);
	r = start_audit();
	sync_audit(&r);
	role_sandbox(&r, 1, 1, 0, "box", dir_fd);
	w = worker_join(&r, 1);
	worker_request(&w, 1, INFLIGHT_NO_SLOT, "f-1");
	worker_told(&w, 1);
	for (uint32_t i = 0; i < INFLIGHT_SLOTS; i++) { /* as many under way as may be */
		snprintf(id, sizeof(id), "f-open-%u", i);
		worker_open(&w, i, id);
	}
	/* the disk fills up */
	filler = openat(dir_fd, "filler", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	while (write(filler, dir, sizeof(dir)) > 0 || ftruncate(filler, lseek(filler, 0, SEEK_CUR)) != 0)
		;
	for (base = 2; !refused && base < 400; base++) {
		snprintf(id, sizeof(id), "f-before-%llu", (unsigned long long)base);
		worker_request(&w, base, INFLIGHT_NO_SLOT, id);
		do {
			assert_true(wire_recv(w.link, &m, WAIT_MS));
			refused = refused || (m.h.type == MSG_AUDIT_STATE && m.data[0] == 0);
		} while (m.h.type != MSG_RECORDED);
		if (!refused && wire_recv(w.link, &m, 0))
			refused = m.h.type == MSG_AUDIT_STATE && m.data[0] == 0;
	}
	assert_true(refused); /* new requests are refused from here on */
	/* what is under way is recorded all the same, from the space that was kept */
	for (uint32_t i = 0; i < INFLIGHT_SLOTS; i++) {
		snprintf(id, sizeof(id), "f-open-%u", i);
		worker_request(&w, base + i, i, id);
		if (i % 50 == 49)
			worker_told(&w, base + i);
	}
	worker_told(&w, base + INFLIGHT_SLOTS - 1);
	base += INFLIGHT_SLOTS;
	/* and beyond: kept, not dropped */
	for (n = 0; n < 4000; n++) {
		snprintf(id, sizeof(id), "f-more-%d", n);
		worker_request(&w, base + (uint64_t)n, INFLIGHT_NO_SLOT, id);
		if (n % 20 == 19 && wire_recv(w.link, &m, 50) == false)
			break;
	}
	n++;
	/* space again */
	assert_int_equal(ftruncate(filler, 0), 0);
	w.ok = false;
	worker_told(&w, base + (uint64_t)n - 1);
	while (!w.ok && wire_recv(w.link, &m, WAIT_MS))
		w.ok = m.h.type == MSG_AUDIT_STATE && m.data[0] == 1;
	assert_true(w.ok);
	worker_leave(&w);
	role_gone(&r, 1, 1);
	assert_int_equal(role_end(&r), 0);
	read_log();
	assert_int_equal(requests_of("f-1", NULL), 1);
	assert_int_equal(requests_of("f-before-2", NULL), 1);
	for (uint32_t i = 0; i < INFLIGHT_SLOTS; i += 37) {
		snprintf(id, sizeof(id), "f-open-%u", i);
		assert_int_equal(requests_of(id, NULL), 1);
	}
	for (int i = 0; i < n; i += 37) {
		snprintf(id, sizeof(id), "f-more-%d", i);
		assert_int_equal(requests_of(id, NULL), 1);
	}
	drop_lines();
	close(filler);
	close(dir_fd);
	dir_fd = old;
	assert_int_equal(umount2(path, MNT_DETACH), 0);
}

/* --- tampering ----------------------------------------------------------------------------------------------------- */

static char *text;
static size_t text_n;

static void load_text(void)
{
	struct stat st;
	int fd = openat(dir_fd, "audit.jsonl", O_RDONLY | O_CLOEXEC);

	fstat(fd, &st);
	text = malloc((size_t)st.st_size + 1);
	text_n = (size_t)st.st_size;
	assert_int_equal(read(fd, text, text_n), (ssize_t)text_n);
	close(fd);
}

static void store_text(const char *p, size_t n)
{
	int fd = openat(dir_fd, "audit.jsonl", O_WRONLY | O_TRUNC | O_CLOEXEC);

	assert_int_equal(write(fd, p, n), (ssize_t)n);
	close(fd);
}

static char *line_at(unsigned i)
{
	char *p = text;

	while (i-- > 0)
		p = strchr(p, '\n') + 1;
	return p;
}

static void tampering(void **state)
{
	struct role_under_test r = start_audit();
	struct worker w;
	char id[20], *copy, *a, *b, *c;
	size_t n;

	(void)state;
	sync_audit(&r);
	role_sandbox(&r, 1, 1, 0, "box", dir_fd);
	w = worker_join(&r, 1);
	for (uint64_t i = 1; i <= 20; i++) {
		snprintf(id, sizeof(id), "t-%llu", (unsigned long long)i);
		worker_request(&w, i, INFLIGHT_NO_SLOT, id);
		worker_told(&w, i);
	}
	worker_leave(&w);
	role_gone(&r, 1, 1);
	assert_int_equal(role_end(&r), 0);
	assert_int_equal(verify(), 0);
	load_text();
	text[text_n] = 0;
	copy = malloc(text_n + 1);
	/* any one octet */
	for (size_t i = 0; i < text_n; i += 97) {
		memcpy(copy, text, text_n);
		copy[i] ^= 1;
		store_text(copy, text_n);
		assert_int_equal(verify(), 1);
	}
	/* any one line taken out, the first and the last too */
	for (unsigned i = 0; i < 20; i++) {
		a = line_at(i);
		b = strchr(a, '\n') + 1;
		n = (size_t)(a - text);
		memcpy(copy, text, n);
		memcpy(copy + n, b, text_n - (size_t)(b - text));
		store_text(copy, text_n - (size_t)(b - a));
		assert_int_equal(verify(), 1);
	}
	/* two exchanged, one doubled */
	a = line_at(5);
	b = line_at(6);
	c = line_at(7);
	n = (size_t)(a - text);
	memcpy(copy, text, text_n);
	memcpy(copy + n, b, (size_t)(c - b));
	memcpy(copy + n + (c - b), a, (size_t)(b - a));
	store_text(copy, text_n);
	assert_int_equal(verify(), 1);
	/* cut at the end, by lines and by octets: the checkpoint tells */
	for (unsigned i = 0; i < 20; i++) {
		store_text(text, (size_t)(line_at(i) - text));
		assert_int_equal(verify(), 1);
	}
	store_text(text, text_n - 1);
	assert_int_equal(verify(), 1);
	store_text(text, text_n);
	assert_int_equal(verify(), 0);
	/* a gateway that starts on a log cut short says so, and goes on; the gap stays visible */
	store_text(text, (size_t)(line_at(10) - text));
	r = start_audit();
	sync_audit(&r);
	assert_int_equal(role_end(&r), 0);
	assert_int_equal(verify(), 1);
	read_log();
	assert_int_equal(kind_count("finding"), 1);
	/* one whose last record is damaged is put aside as it is */
	memcpy(copy, text, text_n);
	copy[(size_t)(line_at(20) - text) + 30] ^= 1;
	store_text(copy, text_n);
	r = start_audit();
	sync_audit(&r);
	assert_int_equal(role_end(&r), 0);
	assert_int_equal(verify(), 1);
	assert_true(file_there("audit-1.jsonl"));
	drop_lines();
	free(copy);
	free(text);
}

/* A line that was being written when the power went: cut off at the next start, and the chain goes on. */
static void unfinished_line(void **state)
{
	struct role_under_test r = start_audit();
	struct worker w;
	int fd;

	(void)state;
	sync_audit(&r);
	role_sandbox(&r, 1, 1, 0, "box", dir_fd);
	w = worker_join(&r, 1);
	worker_request(&w, 1, INFLIGHT_NO_SLOT, "u-1");
	worker_told(&w, 1);
	role_kill(&r);
	worker_leave(&w);
	fd = openat(dir_fd, "audit.jsonl", O_WRONLY | O_APPEND | O_CLOEXEC);
	assert_int_equal(write(fd, "{\"class_uid\":40", 15), 15);
	close(fd);
	assert_int_equal(verify(), 1);
	r = start_audit();
	sync_audit(&r);
	assert_int_equal(role_end(&r), 0);
	assert_int_equal(verify(), 0);
	read_log();
	assert_int_equal(requests_of("u-1", NULL), 1);
	drop_lines();
}

/* Many records, all at once, from one who does not read: one of each, in order. */
static void burst(void **state)
{
	struct role_under_test r = start_audit();
	struct worker w;
	char id[40];
	pid_t reader;
	int status;

	(void)state;
	sync_audit(&r);
	role_sandbox(&r, 1, 1, 0, "box", dir_fd);
	w = worker_join(&r, 1);
	reader = fork();
	if (reader == 0) {
		worker_told(&w, 5000);
		_exit(0);
	}
	for (uint64_t i = 1; i <= 5000; i++) {
		snprintf(id, sizeof(id), "m-%llu", (unsigned long long)i);
		worker_request(&w, i, INFLIGHT_NO_SLOT, id);
	}
	waitpid(reader, &status, 0);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	worker_leave(&w);
	role_gone(&r, 1, 1);
	assert_int_equal(role_end(&r), 0);
	assert_int_equal(verify(), 0);
	read_log();
	assert_int_equal(kind_count("request"), 5000);
	assert_int_equal(kind_count("checkpoint"), 5);
	drop_lines();
}

/* What the role says on its standard error while fn runs. */
static void said_by(void (*fn)(void), char *out, size_t cap)
{
	int file = memfd_create("said", 0), old = dup(2);
	ssize_t n;

	fflush(stderr);
	dup2(file, 2);
	fn();
	dup2(old, 2);
	close(old);
	n = pread(file, out, cap - 1, 0);
	out[n > 0 ? n : 0] = 0;
	close(file);
}

static void one_life(void)
{
	struct role_under_test r = start_audit();
	struct msg_record none = { 0, INFLIGHT_NO_SLOT, 0 };
	struct buf b = { 0 };
	struct worker w;
	int secrets;

	sync_audit(&r);
	role_sandbox(&r, 1, 1, 0, "box", dir_fd);
	w = worker_join(&r, 1);
	worker_request(&w, 1, INFLIGHT_NO_SLOT, "req-1");
	worker_told(&w, 1);
	worker_leave(&w);
	role_gone(&r, 1, 1);
	secrets = role_peer(&r, ROLE_SECRETS, 0);
	/* the end is asked for before the role that holds the secrets has said its last word */
	wire_send(r.sup, MSG_SHUTDOWN, 0, 0, NULL, 0, NULL, 0, NULL, 0);
	record_s(&b, REC_KIND, STR("secret"));
	record_s(&b, REC_SANDBOX, STR("box"));
	record_s(&b, REC_DECISION, STR("allow"));
	wire_send(secrets, MSG_EVENT, 0, 0, &none, sizeof(none), buf_data(&b), buf_len(&b), NULL, 0);
	buf_fini(&b);
	close(secrets);
	assert_int_equal(role_wait(&r), 0);
	close(r.sup);
}

/* An orderly end: nothing to complain of, and the last releases are in. */
static void quiet_end(void **state)
{
	char said[4096];

	(void)state;
	said_by(one_life, said, sizeof(said));
	assert_string_equal(said, "");
	assert_int_equal(verify(), 0);
	read_log();
	assert_int_equal(kind_count("secret"), 1);
	assert_int_equal(requests_of("req-1", NULL), 1);
	drop_lines();
}

/* Slots that cannot be read are not thrown away: what they say is wanted at the next start. */
static void unreadable_slots(void **state)
{
	struct role_under_test r = start_audit();
	struct worker w;
	DIR *d;
	struct dirent *e;
	char name[256] = "";

	(void)state;
	sync_audit(&r);
	role_sandbox(&r, 1, 1, 0, "box", dir_fd);
	w = worker_join(&r, 1);
	worker_open(&w, 2, "req-1");
	role_kill(&r);
	worker_leave(&w);
	d = fdopendir(openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	while ((e = readdir(d)) != NULL)
		if (strncmp(e->d_name, "inflight.", 9) == 0)
			snprintf(name, sizeof(name), "%s", e->d_name);
	closedir(d);
	/* away behind a link, which is not followed */
	assert_int_equal(renameat(dir_fd, name, dir_fd, "aside"), 0);
	assert_int_equal(symlinkat("aside", dir_fd, name), 0);
	r = start_audit();
	sync_audit(&r);
	assert_int_equal(role_end(&r), 0);
	assert_true(file_there("inflight."));
	assert_int_equal(renameat(dir_fd, "aside", dir_fd, name), 0);
	r = start_audit();
	sync_audit(&r);
	assert_int_equal(role_end(&r), 0);
	assert_false(file_there("inflight."));
	read_log();
	assert_int_equal(requests_of("req-1", "worker_lost"), 1);
	drop_lines();
}

/* The log is replaced by what cannot be one: requests are refused until that is over, and not for a moment let through. */
static void log_taken_away(void **state)
{
	struct role_under_test r = start_audit();
	struct worker w;
	struct wire_msg m;

	(void)state;
	sync_audit(&r);
	role_sandbox(&r, 1, 1, 0, "box", dir_fd);
	w = worker_join(&r, 1);
	worker_request(&w, 1, INFLIGHT_NO_SLOT, "req-1");
	worker_told(&w, 1);
	assert_int_equal(renameat(dir_fd, "audit.jsonl", dir_fd, "moved"), 0);
	assert_int_equal(mkdirat(dir_fd, "audit.jsonl", 0700), 0);
	wire_expect(w.link, MSG_AUDIT_STATE, &m);
	assert_int_equal(m.data[0], 0);
	assert_false(wire_recv(w.link, &m, 2500)); /* two more looks: no other word */
	assert_int_equal(unlinkat(dir_fd, "audit.jsonl", AT_REMOVEDIR), 0);
	wire_expect(w.link, MSG_AUDIT_STATE, &m);
	assert_int_equal(m.data[0], 1);
	worker_request(&w, 2, INFLIGHT_NO_SLOT, "req-2");
	worker_told(&w, 2);
	worker_leave(&w);
	role_gone(&r, 1, 1);
	assert_int_equal(role_end(&r), 0);
	read_log();
	assert_int_equal(requests_of("req-2", NULL), 1);
	drop_lines();
}

static void batch_add(struct buf *batch, uint64_t number, uint32_t slot, const char *id, uint32_t more)
{
	struct buf b = { 0 };
	struct msg_record m;

	request_fields(&b, id, "/batch");
	record_s(&b, REC_DECISION, STR("allow"));
	m = (struct msg_record){ number, slot, (uint32_t)buf_len(&b) + more };
	buf_add(batch, &m, sizeof(m));
	buf_adds(batch, buf_str(&b));
	buf_fini(&b);
}

/* Several records in one message; a message that they do not fill ends the link behind those that were whole. */
static void batches(void **state)
{
	struct role_under_test r = start_audit();
	struct buf batch = { 0 };
	struct worker w;
	struct wire_msg m;
	char id[8];

	(void)state;
	sync_audit(&r);
	role_sandbox(&r, 1, 1, 0, "box", dir_fd);
	w = worker_join(&r, 1);
	for (unsigned i = 0; i < 20; i++) {
		snprintf(id, sizeof(id), "b-%u", i);
		worker_open(&w, i, id);
		batch_add(&batch, i + 1, i, id, 0);
	}
	wire_send(w.link, MSG_RECORD, 1, 0, buf_data(&batch), buf_len(&batch), NULL, 0, NULL, 0);
	worker_told(&w, 20);
	for (unsigned i = 0; i < 20; i++)
		assert_int_equal(w.slots[i].state, 0);
	buf_clear(&batch);
	batch_add(&batch, 21, INFLIGHT_NO_SLOT, "b-20", 0);
	batch_add(&batch, 22, INFLIGHT_NO_SLOT, "b-21", 1); /* an octet more than is there */
	wire_send(w.link, MSG_RECORD, 1, 0, buf_data(&batch), buf_len(&batch), NULL, 0, NULL, 0);
	while (wire_recv(w.link, &m, WAIT_MS))
		assert_int_not_equal(m.h.type, 0);
	buf_fini(&batch);
	close(w.link);
	role_gone(&r, 1, 1);
	assert_int_equal(role_end(&r), 0);
	assert_int_equal(verify(), 0);
	read_log();
	for (unsigned i = 0; i < 22; i++) {
		snprintf(id, sizeof(id), "b-%u", i);
		assert_int_equal(requests_of(id, NULL), i < 21);
	}
	drop_lines();
}

/* A worker that was taken over leaves the ids of another sandbox's requests behind: that one's records are written all the same. */
static void ids_of_another(void **state)
{
	struct role_under_test r = start_audit();
	struct worker broken, other;

	(void)state;
	sync_audit(&r);
	role_sandbox(&r, 1, 1, 0, "broken", dir_fd);
	role_sandbox(&r, 2, 1, 0, "other", dir_fd);
	broken = worker_join(&r, 1);
	other = worker_join(&r, 2);
	worker_open(&broken, 0, "o-1");
	worker_open(&broken, 1, "o-2");
	worker_leave(&broken);
	broken = worker_join(&r, 1); /* by now it is known what was left */
	worker_open(&broken, 0, "b-1");
	worker_request(&broken, 1, 0, "b-1");
	worker_told(&broken, 1);
	for (uint64_t n = 1; n <= 2; n++) {
		char id[16];

		snprintf(id, sizeof(id), "o-%u", (unsigned)n);
		worker_open(&other, 0, id);
		worker_request(&other, n, 0, id);
		worker_told(&other, n);
	}
	read_log();
	for (unsigned i = 1; i <= 2; i++) {
		char id[16];
		unsigned of_other = 0;

		snprintf(id, sizeof(id), "o-%u", i);
		for (size_t k = 0; k < line_n; k++)
			of_other += lines[k].id != NULL && strcmp(lines[k].id, id) == 0 && lines[k].sandbox != NULL && strcmp(lines[k].sandbox, "other") == 0;
		assert_int_equal(of_other, 1);
		assert_int_equal(requests_of(id, "worker_lost"), 1);
	}
	drop_lines();
	worker_leave(&broken);
	worker_leave(&other);
	assert_int_equal(role_end(&r), 0);
	assert_int_equal(verify(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
		T(records), T(batches), T(worker_dies), T(audit_dies), T(slots_opened_after_the_look), T(slots_opened_in_an_empty_file), T(everything_dies), T(both_die), T(supervisor_dies), T(dns_is_folded), T(full_disk), T(tampering), T(unfinished_line), T(burst), T(quiet_end), T(unreadable_slots), T(log_taken_away), T(ids_of_another),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
