/* SPDX-License-Identifier: Apache-2.0 */
/* Records on their way to audit: they gather, and then they go, each time; what was not acknowledged goes again on a new link. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../proxy/worker/worker.h"
#include "role_harness.h"

static struct worker w; /* only what the reporter looks at */

static void on_audit(struct ipc *c, const struct ipc_msg *m)
{
	(void)c;
	if (m != NULL)
		reporter_message(w.rep, m);
}

/* A new link; returns audit's end. The slots come with it. */
static int link_up(int slots_fd)
{
	struct msg_inflight f = { INFLIGHT_SLOTS, INFLIGHT_SLOT_SIZE };
	struct ipc *c;
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
	c = ipc_new(w.loop, fds[0], ROLE_WORKER, ROLE_AUDIT, on_audit, NULL);
	w.audit = c;
	reporter_link(w.rep, c);
	wire_send(fds[1], MSG_INFLIGHT, 0, 0, &f, sizeof(f), NULL, 0, &slots_fd, 1);
	while (!reporter_ok(w.rep))
		loop_turn(w.loop, 100);
	return fds[1];
}

static void report(uint64_t n)
{
	struct buf b = { 0 };
	char id[24];

	record_s(&b, REC_KIND, STR("request"));
	snprintf(id, sizeof(id), "id-%llu", (unsigned long long)n);
	record_s(&b, REC_REQUEST_ID, str_of(id));
	reporter_record(w.rep, NULL, reporter_slot(w.rep, &b), &b);
	buf_fini(&b);
}

/* Turns until audit has been sent records up to number `last`, from `first` on without a gap; messages it took. */
static unsigned sent(int fd, uint64_t first, uint64_t last)
{
	unsigned messages = 0;

	for (int i = 0; i < 400 && first <= last; i++) { /* the worker's sweep, which sends everything, is not there */
		struct wire_msg m;

		loop_turn(w.loop, 5);
		while (wire_recv(fd, &m, 0)) {
			if (m.h.type != MSG_RECORD || ((const struct msg_record *)(const void *)m.data)->number == 0)
				continue;
			messages++;
			for (size_t at = 0; at < m.n;) {
				const struct msg_record *r = (const void *)(m.data + at);

				assert_int_equal(r->number, first);
				first++;
				at += sizeof(*r) + r->len;
			}
		}
	}
	assert_int_equal(first, last + 1);
	return messages;
}

static void acknowledge(int fd, uint64_t number)
{
	struct msg_recorded m = { number };

	wire_send(fd, MSG_RECORDED, 0, 0, &m, sizeof(m), NULL, 0, NULL, 0);
	for (int i = 0; i < 100 && reporter_pending(w.rep) > 0; i++)
		loop_turn(w.loop, 5);
}

static void gathers_and_goes(void **state)
{
	int slots = memfd_create("slots", MFD_CLOEXEC), a, b;

	(void)state;
	assert_int_equal(ftruncate(slots, (off_t)sizeof(struct inflight_slot) * INFLIGHT_SLOTS), 0);
	w.loop = loop_new();
	w.rep = reporter_new(&w);
	a = link_up(slots);
	/* one by one: each goes by itself, the second time as the first */
	for (uint64_t n = 1; n <= 3; n++) {
		report(n);
		assert_int_equal(sent(a, n, n), 1);
		acknowledge(a, n);
		assert_int_equal(reporter_pending(w.rep), 0);
	}
	/* many at once: few messages */
	for (uint64_t n = 4; n <= 103; n++)
		report(n);
	assert_true(sent(a, 4, 103) <= 10);
	acknowledge(a, 50);
	/* another audit: what is not acknowledged goes again, in order */
	ipc_free(w.audit);
	reporter_link(w.rep, NULL);
	assert_false(reporter_ok(w.rep));
	report(104);
	b = link_up(slots);
	sent(b, 51, 104);
	acknowledge(b, 104);
	assert_int_equal(reporter_pending(w.rep), 0);
	close(a);
	close(b);
}

/* A broken audit yields false records, not the worker's memory: what it writes over a slot is no length to us. */
static void slots_are_not_believed(void **state)
{
	int slots = memfd_create("slots", MFD_CLOEXEC), a;
	struct inflight_slot *map;
	struct buf b = { 0 };
	uint32_t slot;

	(void)state;
	assert_int_equal(ftruncate(slots, (off_t)sizeof(*map) * INFLIGHT_SLOTS), 0);
	map = mmap(NULL, sizeof(*map) * INFLIGHT_SLOTS, PROT_READ | PROT_WRITE, MAP_SHARED, slots, 0);
	assert_ptr_not_equal(map, MAP_FAILED);
	w.loop = loop_new();
	w.rep = reporter_new(&w);
	a = link_up(slots);
	record_s(&b, REC_KIND, STR("request"));
	slot = reporter_slot(w.rep, &b);
	assert_in_range(slot, 0, INFLIGHT_SLOTS - 1);
	memset(&map[slot].len, 0xff, sizeof(map[slot].len));
	record_s(&b, REC_DECISION, STR("allow"));
	reporter_record(w.rep, NULL, slot, &b);
	assert_int_equal(map[slot].len, buf_len(&b));
	assert_memory_equal(map[slot].fields, buf_data(&b), buf_len(&b));
	assert_int_equal(map[slot].state, SLOT_FINISHED);
	buf_fini(&b);
	munmap(map, sizeof(*map) * INFLIGHT_SLOTS);
	close(slots);
	close(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(gathers_and_goes), cmocka_unit_test(slots_are_not_believed) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
