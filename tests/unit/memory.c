/* SPDX-License-Identifier: BSD-3-Clause */
/* Between host and NIC: regions of memory, commands one way, events the other. */
#include <sys/socket.h>

#include "../../pipeline/host.h"
#include "../../pipeline/memory.h"
#include "../lib/dut.h"

/* ---- a handler that runs what the test gives it ---- */

static void (*todo)(struct sp_ctx *);
static uint64_t seen[4096];
static unsigned sees;

enum { CMD_RUN = SP_CMD_OWN, CMD_NOTE, CMD_FAIL, CMD_EVENTS, CMD_LIE };

static const struct sp_param params[] = {{"area", SP_UINT, "0", .help = "bytes shared with the host"}, {NULL}};

static int attach(struct sp_ctx *c)
{
	uint64_t bytes = sp_param_uint(c, "area");
	const struct sp_mem *area;

	if (!bytes)
		return 0;
	area = sp_host_area(c, bytes);
	if (!area)
		return sp_fail(c, ENOMEM, "area", "no area of %llu bytes", (unsigned long long)bytes);
	CU_ASSERT_PTR_NULL(sp_host_area(c, bytes)); /* at most one */
	return sp_dma_write(c, area, 0, "area", 4);
}

static int command(struct sp_ctx *c, const struct sp_command *cmd, struct sp_event *event)
{
	switch (cmd->op) {
	case CMD_RUN:
		todo(c);
		return 0;
	case CMD_NOTE:
		if (sees < sizeof(seen) / sizeof(*seen))
			seen[sees++] = cmd->arg[0];
		event->arg[0] = cmd->arg[0] * 2;
		return 0;
	case CMD_FAIL:
		event->arg[1] = 77;
		return -EDOM;
	case CMD_EVENTS:
		for (uint64_t i = 0; i < cmd->arg[0]; i++)
			sp_event_post(c, &(struct sp_event){.type = SP_EVENT_OWN, .context = 4711, .cookie = i});
		return 0;
	}
	return -EOPNOTSUPP;
}

static uint32_t payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	sp_event_post(c, &(struct sp_event){.type = SP_EVENT_OWN, .cookie = p->psn});
	return SP_DONE;
}

static const struct sp_handler memo = {SP_HANDLER_HEAD,	 .name = "memo",     .params = params,
				       .attach = attach, .payload = payload, .command = command};
SP_HANDLER(memo)
static const struct sp_handler mute = {SP_HANDLER_HEAD, .name = "mute", .payload = payload};
SP_HANDLER(mute)

static uint32_t id;
/* With one worker: what a device has for its commands, a context for its events. */
#define QUEUES (128 + SP_RING_BYTES(SP_COMMANDS))
#define EVENTS (64 + SP_RING_BYTES(SP_EVENTS))

static void start(uint64_t limit)
{
	dut_prepare(&dut, 1);
	dut.config.memory_limit = limit;
	dut_create(&dut);
	id = dut_context(&dut, "a", "memo", "qp=16");
	sees = 0;
}

static void end(void)
{
	dut_stop(&dut);
}

static void inside(void (*fn)(struct sp_ctx *))
{
	struct sp_command cmd = {.op = CMD_RUN, .context = id};

	todo = fn;
	CU_ASSERT_EQUAL(sp_command_call(dut.dev, &cmd, NULL), 0);
}

/* ---- memory ---- */

static const struct sp_mem *mem;
static uint32_t want;

static void get(struct sp_ctx *c)
{
	mem = sp_mem_get(c, want);
}

static void put(struct sp_ctx *c)
{
	sp_mem_put(c, mem);
}

static const struct sp_mem *get_it(uint32_t region)
{
	want = region;
	inside(get);
	return mem;
}

static void put_it(const struct sp_mem *m)
{
	mem = m;
	inside(put);
}

#define GUARD 64
#define SIZE  100
static uint8_t guarded[GUARD + SIZE + GUARD] __attribute__((aligned(64)));

static void copy_everywhere(struct sp_ctx *c)
{
	static const uint64_t at[] = {0,
				      1,
				      SIZE - 9,
				      SIZE - 8,
				      SIZE - 7,
				      SIZE - 1,
				      SIZE,
				      SIZE + 1,
				      SIZE + GUARD,
				      1ull << 32,
				      (1ull << 32) + 1,
				      UINT64_MAX - 8,
				      UINT64_MAX - 1,
				      UINT64_MAX};
	static const uint32_t len[] = {0, 1, 7, 8, 9, SIZE - 1, SIZE, SIZE + 1, SIZE + GUARD, UINT32_MAX};
	static uint8_t buffer[512];
	uint64_t faults = 0;

	memset(buffer, 0xEE, sizeof(buffer));
	for (unsigned i = 0; i < sizeof(at) / sizeof(*at); i++)
		for (unsigned k = 0; k < sizeof(len) / sizeof(*len); k++) {
			bool inside_it = at[i] <= SIZE && at[i] + len[k] <= SIZE;

			CU_ASSERT_EQUAL(sp_dma_write(c, mem, at[i], buffer, len[k]), inside_it ? 0 : -EFAULT);
			CU_ASSERT_EQUAL(sp_dma_read(c, mem, at[i], buffer, len[k]), inside_it ? 0 : -EFAULT);
			faults += 2 * !inside_it;
		}
	for (unsigned i = 0; i < sizeof(at) / sizeof(*at); i++) {
		bool fits = at[i] <= SIZE - 8, even = at[i] % 8 == 0;
		int expect = !fits ? -EFAULT : even ? 0 : -EINVAL;

		CU_ASSERT_EQUAL(sp_dma_or64(c, mem, at[i], UINT64_MAX), expect);
		CU_ASSERT_EQUAL(sp_dma_add64(c, mem, at[i], 5, NULL), expect);
		CU_ASSERT_EQUAL(sp_dma_store64(c, mem, at[i], 7), expect);
		faults += 3 * !fits;
	}
	CU_ASSERT_EQUAL(sp_view_of(c)->dma_faults, faults);
}

TEST(nothing_outside_a_region_is_reached_and_every_try_is_counted)
{
	struct sp_mr *mr;

	start(0);
	memset(guarded, 0x11, sizeof(guarded));
	CU_ASSERT_EQUAL_FATAL(sp_mr_reg(dut.dev, guarded + GUARD, SIZE, &mr), 0);
	CU_ASSERT_PTR_NOT_NULL_FATAL(get_it(mr->id));
	inside(copy_everywhere);
	for (unsigned i = 0; i < GUARD; i++)
		CU_ASSERT(guarded[i] == 0x11 && guarded[GUARD + SIZE + i] == 0x11);
	CU_ASSERT(guarded[GUARD + SIZE - 1] == 0xEE);
	put_it(mem);
	CU_ASSERT_EQUAL(sp_mr_free(mr), 0);
	end();
}

static void do_atomics(struct sp_ctx *c)
{
	uint64_t old = 0;

	CU_ASSERT_EQUAL(sp_dma_store64(c, mem, 8, 0xF0), 0);
	CU_ASSERT_EQUAL(sp_dma_or64(c, mem, 8, 0x0F), 0);
	CU_ASSERT_EQUAL(sp_dma_add64(c, mem, 8, 1, &old), 0);
	CU_ASSERT_EQUAL(old, 0xFF);
	CU_ASSERT_EQUAL(sp_dma_add64(c, mem, 8, UINT64_MAX, &old), 0);
	CU_ASSERT_EQUAL(old, 0x100);
	CU_ASSERT_EQUAL(sp_dma_read(c, mem, 8, &old, 8), 0);
	CU_ASSERT_EQUAL(old, 0xFF);
}

TEST(atomics_do_what_they_say)
{
	struct sp_mr *mr;

	start(0);
	CU_ASSERT_EQUAL_FATAL(sp_mr_alloc(dut.dev, 24, &mr), 0);
	CU_ASSERT_PTR_NOT_NULL_FATAL(get_it(mr->id));
	inside(do_atomics);
	CU_ASSERT(((uint64_t *)mr->addr)[0] == 0 && ((uint64_t *)mr->addr)[1] == 0xFF &&
		  ((uint64_t *)mr->addr)[2] == 0);
	put_it(mem);
	sp_mr_free(mr);
	end();
}

static void one_odd(struct sp_ctx *c)
{
	CU_ASSERT_EQUAL(sp_dma_or64(c, mem, 0, 1), -EINVAL);
	CU_ASSERT_EQUAL(sp_dma_or64(c, mem, 7, 1), 0); /* what counts is the address */
}

TEST(alignment_is_that_of_the_address)
{
	struct sp_mr *mr;

	start(0);
	memset(guarded, 0, sizeof(guarded));
	CU_ASSERT_EQUAL_FATAL(sp_mr_reg(dut.dev, guarded + 1, 32, &mr), 0);
	CU_ASSERT_PTR_NOT_NULL_FATAL(get_it(mr->id));
	inside(one_odd);
	CU_ASSERT_EQUAL(guarded[8], 1);
	put_it(mem);
	sp_mr_free(mr);
	end();
}

TEST(memory_of_the_nics_making_is_zeroed_and_page_aligned)
{
	struct sp_mr *mr;

	start(0);
	for (unsigned round = 0; round < 3; round++) {
		CU_ASSERT_EQUAL_FATAL(sp_mr_alloc(dut.dev, 10000, &mr), 0);
		CU_ASSERT_EQUAL((uintptr_t)mr->addr % 4096, 0);
		for (unsigned i = 0; i < 10000; i++)
			if (((uint8_t *)mr->addr)[i]) {
				CU_FAIL("not zero");
				break;
			}
		memset(mr->addr, 0xFF, 10000);
		CU_ASSERT_EQUAL(sp_mr_free(mr), 0);
	}
	end();
}

TEST(what_is_no_memory_is_not_registered)
{
	struct sp_mr *mr;

	start(0);
	CU_ASSERT_EQUAL(sp_mr_alloc(dut.dev, 0, &mr), -EINVAL);
	CU_ASSERT_EQUAL(sp_mr_reg(dut.dev, NULL, 10, &mr), -EINVAL);
	CU_ASSERT_EQUAL(sp_mr_reg(dut.dev, guarded, 0, &mr), -EINVAL);
	CU_ASSERT_EQUAL(sp_mr_reg(dut.dev, (void *)(UINTPTR_MAX - 10), 100, &mr), -EINVAL);
	CU_ASSERT(sp_mr_alloc(dut.dev, UINT64_MAX, &mr) < 0);
	CU_ASSERT(sp_mr_alloc(dut.dev, UINT64_MAX / 2, &mr) < 0);
	end();
}

static int add_region(void *addr, uint64_t len, uint32_t owner, struct sp_mem **m)
{
	const enum sp_backing_kind kind = owner ? SP_BACKING_SHARED : SP_BACKING_PRIVATE;
	struct sp_backing b;
	int r = sp_memory_back(dut.nic, NULL, addr, len, kind, &b);

	if (r)
		return r;
	r = sp_memory_insert(dut.nic, &b, owner, m);
	if (r)
		sp_memory_unback(dut.nic, &b);
	return r;
}

TEST(an_old_id_never_names_a_new_region)
{
	struct sp_mem *m;
	uint32_t first;

	start(0);
	CU_ASSERT_PTR_NULL(get_it(0));
	CU_ASSERT_PTR_NULL(get_it(UINT32_MAX));
	CU_ASSERT_EQUAL_FATAL(add_region(guarded, SIZE, 0, &m), 0);
	first = m->id;
	CU_ASSERT_PTR_NOT_NULL(get_it(first));
	put_it(mem);
	CU_ASSERT_EQUAL(sp_memory_remove(dut.nic, first, 0), 0);
	CU_ASSERT_PTR_NULL(get_it(first));
	CU_ASSERT_EQUAL(sp_memory_remove(dut.nic, first, 0), -ENOENT);
	for (unsigned i = 0; i < 70000; i++) { /* every place in the table is used again */
		if (add_region(guarded, SIZE, 0, &m) || m->id == first)
			CU_FAIL("id used again");
		if (i % 1000 == 0)
			CU_ASSERT_PTR_NULL(get_it(first));
		sp_memory_remove(dut.nic, m->id, 0);
	}
	CU_ASSERT_EQUAL(sp_memory_remove(dut.nic, first, 0), -ENOENT);
	end();
}

TEST(the_table_of_regions_is_bounded)
{
	struct sp_mem *m;
	unsigned n = 0;
	uint32_t last = 0;

	start(0);
	while (n < 100000 && !add_region(guarded, 1, 0, &m)) {
		n++;
		last = m->id;
	}
	CU_ASSERT_EQUAL(n, 65536);
	CU_ASSERT_EQUAL(add_region(guarded, 1, 0, &m), -ENOMEM);
	CU_ASSERT_EQUAL(sp_memory_remove(dut.nic, last, 0), 0);
	CU_ASSERT_EQUAL(add_region(guarded, 1, 0, &m), 0);
	end(); /* frees them all */
}

TEST(a_region_in_use_cannot_be_freed)
{
	const struct sp_mem *twice;
	struct sp_mr *mr;

	start(0);
	CU_ASSERT_EQUAL_FATAL(sp_mr_alloc(dut.dev, 4096, &mr), 0);
	twice = get_it(mr->id);
	CU_ASSERT_PTR_EQUAL(get_it(mr->id), twice);
	CU_ASSERT_EQUAL(sp_mr_free(mr), -EBUSY);
	put_it(twice);
	CU_ASSERT_EQUAL(sp_mr_free(mr), -EBUSY);
	put_it(twice);
	CU_ASSERT_EQUAL(sp_mr_free(mr), 0);
	end();
}

TEST(a_region_is_its_owners_alone)
{
	struct sp_mem *theirs;

	start(0);
	CU_ASSERT_EQUAL_FATAL(add_region(NULL, 100, 5, &theirs), 0);
	CU_ASSERT_PTR_NULL(get_it(theirs->id)); /* the context belongs to owner 0 */
	CU_ASSERT_EQUAL(sp_memory_remove(dut.nic, theirs->id, 0), -ENOENT);
	CU_ASSERT_EQUAL(sp_memory_remove(dut.nic, theirs->id, 5), 0); /* having been looked at has not held it */
	CU_ASSERT_EQUAL_FATAL(add_region(NULL, 100, 5, &theirs), 0);
	sp_memory_remove_owner(dut.nic, 5);
	CU_ASSERT_EQUAL(sp_memory_remove(dut.nic, theirs->id, 5), -ENOENT);
	end();
}

TEST(memory_is_limited_and_contexts_count)
{
	struct sp_mr *mr, *none;
	struct sp_error error;
	uint64_t used;
	uint32_t other;

	start(1 << 20);
	used = dut.nic->memory_used;
	CU_ASSERT(used > 0); /* the context's state */
	CU_ASSERT_EQUAL(sp_mr_alloc(dut.dev, (1 << 20) + 1, &none), -EDQUOT);
	CU_ASSERT_EQUAL(sp_mr_alloc(dut.dev, (1 << 20) - used + 1, &none), -EDQUOT);
	CU_ASSERT_EQUAL_FATAL(sp_mr_alloc(dut.dev, (1 << 20) - used, &mr), 0);
	CU_ASSERT_EQUAL(sp_mr_reg(dut.dev, guarded, 1, &none), -EDQUOT);
	CU_ASSERT_EQUAL(dut_try_context(&dut, "b", "memo", "qp=17", &other, &error), -ENOMEM);
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "memory-limit"));
	CU_ASSERT_EQUAL(sp_mr_free(mr), 0);
	CU_ASSERT_EQUAL(dut.nic->memory_used, used);
	CU_ASSERT_EQUAL(dut_try_context(&dut, "b", "memo", "qp=17;area=2M", &other, &error), -ENOMEM);
	CU_ASSERT_STRING_EQUAL(error.key, "area");
	CU_ASSERT_EQUAL(dut.nic->memory_used, used); /* what failed gives everything back */
	other = dut_context(&dut, "b", "memo", "qp=17");
	CU_ASSERT(dut.nic->memory_used > used);
	sp_nic_context_remove(dut.nic, other);
	CU_ASSERT_EQUAL(dut.nic->memory_used, used);
	sp_nic_context_remove(dut.nic, id);
	CU_ASSERT_EQUAL(dut.nic->memory_used, QUEUES); /* the device's */
	end();
}

TEST(a_contexts_area_is_the_hosts_too)
{
	uint64_t len = 7, used;
	struct sp_setting setting[] = {{"qp", "20"}, {"area", "5000"}};
	uint32_t other;
	void *addr;

	start(0);
	CU_ASSERT_EQUAL(sp_context_area(dut.dev, id, &addr, &len), 0);
	CU_ASSERT_PTR_NULL(addr);
	CU_ASSERT_EQUAL(len, 0);
	CU_ASSERT(sp_context_area(dut.dev, 12345, &addr, &len) < 0);
	used = dut.nic->memory_used;
	CU_ASSERT_EQUAL_FATAL(sp_context_open(dut.dev, "b", "memo", setting, 2, &other, NULL), 0);
	CU_ASSERT_EQUAL(sp_context_area(dut.dev, other, &addr, &len), 0);
	CU_ASSERT_EQUAL(len, 5000);
	CU_ASSERT(!memcmp(addr, "area\0\0\0", 8));
	CU_ASSERT_EQUAL(sp_memory_remove(dut.nic, sp_context_by_id(dut.nic, other)->area->id, 0), -EBUSY);
	CU_ASSERT_EQUAL(sp_context_close(dut.dev, other), 0);
	CU_ASSERT_EQUAL(dut.nic->memory_used, used);
	end();
}

/* ---- commands ---- */

static int post(uint16_t op, uint16_t flags, uint64_t arg)
{
	struct sp_command cmd = {.op = op, .flags = flags, .context = id, .cookie = arg + 1000, .arg = {arg}};

	return sp_command_post(dut.dev, &cmd);
}

TEST(commands_run_in_order_and_answer_when_asked)
{
	struct sp_event e;

	start(0);
	for (unsigned i = 0; i < 100; i++)
		CU_ASSERT_EQUAL(post(CMD_NOTE, i % 2 ? SP_CMD_REPLY : 0, i), 0);
	CU_ASSERT_EQUAL(sees, 0); /* posting runs nothing */
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(sees, 100);
	for (unsigned i = 0; i < 100; i++)
		CU_ASSERT_EQUAL(seen[i], i);
	for (unsigned i = 1; i < 100; i += 2) {
		CU_ASSERT_EQUAL_FATAL(sp_event_take(dut.dev, id, &e), 1);
		CU_ASSERT_EQUAL(e.context, id);
		CU_ASSERT_EQUAL(e.type, SP_EVENT_RESULT);
		CU_ASSERT_EQUAL(e.op, CMD_NOTE);
		CU_ASSERT_EQUAL(e.status, 0);
		CU_ASSERT_EQUAL(e.cookie, i + 1000);
		CU_ASSERT_EQUAL(e.arg[0], 2 * i);
	}
	CU_ASSERT_EQUAL(sp_event_take(dut.dev, id, &e), 0);
	end();
}

TEST(a_command_that_fails_is_answered_always)
{
	struct sp_event e;

	start(0);
	CU_ASSERT_EQUAL(post(CMD_FAIL, 0, 1), 0);
	CU_ASSERT_EQUAL(post(CMD_NOTE, 0, 2), 0);
	CU_ASSERT_EQUAL(post(0x7777, 0, 3), 0);
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL_FATAL(sp_event_take(dut.dev, id, &e), 1);
	CU_ASSERT_EQUAL(e.status, -EDOM);
	CU_ASSERT_EQUAL(e.cookie, 1001);
	CU_ASSERT_EQUAL(e.arg[1], 77);
	CU_ASSERT_EQUAL_FATAL(sp_event_take(dut.dev, id, &e), 1);
	CU_ASSERT_EQUAL(e.status, -EOPNOTSUPP);
	CU_ASSERT_EQUAL(e.op, 0x7777);
	CU_ASSERT_EQUAL(sp_event_take(dut.dev, id, &e), 0);
	end();
}

TEST(commands_to_a_handler_without_any_are_not_supported)
{
	struct sp_event e;

	start(0);
	id = dut_context(&dut, "b", "mute", "qp=17");
	CU_ASSERT_EQUAL(post(SP_CMD_QUERY, 0, 1), 0);
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL_FATAL(sp_event_take(dut.dev, id, &e), 1);
	CU_ASSERT_EQUAL(e.status, -EOPNOTSUPP);
	end();
}

TEST(a_full_queue_of_commands_says_try_again)
{
	start(0);
	for (unsigned i = 0; i < SP_COMMANDS; i++)
		CU_ASSERT_EQUAL(post(CMD_NOTE, 0, i), 0);
	CU_ASSERT_EQUAL(post(CMD_NOTE, 0, 9999), -EAGAIN);
	CU_ASSERT(sp_nic_next_deadline(dut.nic, 0) == 0); /* there is something to do */
	sp_nic_poll(dut.nic, 0, 1);
	CU_ASSERT_EQUAL(sees, SP_COMMANDS_PER_POLL);
	CU_ASSERT_EQUAL(post(CMD_NOTE, 0, SP_COMMANDS), 0);
	dut_settle(&dut, 2);
	CU_ASSERT_EQUAL(sees, SP_COMMANDS + 1);
	for (unsigned i = 0; i < sees; i++)
		CU_ASSERT_EQUAL(seen[i], i);
	end();
}

TEST(a_call_comes_after_all_that_was_posted_before)
{
	struct sp_command cmd = {.op = CMD_NOTE, .context = id, .cookie = 5, .arg = {1000}};
	struct sp_event e = {0};

	start(0);
	cmd.context = id;
	for (unsigned i = 0; i < 1000; i++)
		CU_ASSERT_EQUAL(post(CMD_NOTE, 0, i), 0);
	CU_ASSERT_EQUAL(sp_command_call(dut.dev, &cmd, &e), 0);
	CU_ASSERT_EQUAL(e.cookie, 5);
	CU_ASSERT_EQUAL(e.arg[0], 2000);
	CU_ASSERT_EQUAL_FATAL(sees, 1001);
	for (unsigned i = 0; i <= 1000; i++)
		CU_ASSERT_EQUAL(seen[i], i);
	cmd.op = CMD_FAIL;
	CU_ASSERT_EQUAL(sp_command_call(dut.dev, &cmd, NULL), -EDOM); /* the status comes back, no event does */
	CU_ASSERT_EQUAL(sp_event_take(dut.dev, id, &e), 0);
	end();
}

TEST(commands_to_contexts_that_are_not_there_are_refused)
{
	struct sp_command cmd = {.op = CMD_NOTE};
	struct sp_event e;
	uint32_t was;

	start(0);
	was = id;
	for (unsigned i = 0; i < 4; i++) {
		cmd.context = (uint32_t[]){0, UINT32_MAX, was ^ 0x10000, was + 1}[i];
		CU_ASSERT_EQUAL(sp_command_post(dut.dev, &cmd), -ENOENT);
		CU_ASSERT_EQUAL(sp_command_call(dut.dev, &cmd, &e), -ENOENT);
		CU_ASSERT_EQUAL(e.status, -ENOENT);
		CU_ASSERT_EQUAL(sp_event_take(dut.dev, cmd.context, &e), -ENOENT);
	}
	/* What was posted to a context that goes is for nobody, least of all for the next one in its place. */
	CU_ASSERT_EQUAL(post(CMD_NOTE, SP_CMD_REPLY, 1), 0);
	sp_nic_context_remove(dut.nic, id);
	id = dut_context(&dut, "a", "memo", "qp=16");
	CU_ASSERT_NOT_EQUAL(id, was);
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(sees, 0);
	CU_ASSERT_EQUAL(sp_event_take(dut.dev, id, &e), 0);
	end();
}

/* ---- events ---- */

TEST(events_come_in_order_and_those_that_do_not_fit_are_counted)
{
	struct sp_event e;

	start(0);
	CU_ASSERT_EQUAL(post(CMD_EVENTS, 0, SP_EVENTS + 20), 0);
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(dut_view(&dut, id, events_lost), 20);
	for (unsigned i = 0; i < SP_EVENTS; i++) {
		CU_ASSERT_EQUAL_FATAL(sp_event_take(dut.dev, id, &e), 1);
		CU_ASSERT_EQUAL(e.cookie, i);
		CU_ASSERT_EQUAL(e.context, id); /* whatever the handler wrote there */
	}
	CU_ASSERT_EQUAL(sp_event_take(dut.dev, id, &e), 0);
	for (unsigned round = 0; round < 10; round++) { /* around the ring's end */
		CU_ASSERT_EQUAL(post(CMD_EVENTS, 0, 50), 0);
		dut_settle(&dut, 2);
		for (unsigned i = 0; i < 50; i++)
			CU_ASSERT(sp_event_take(dut.dev, id, &e) == 1 && e.cookie == i);
	}
	CU_ASSERT_EQUAL(dut_view(&dut, id, events_lost), 20);
	end();
}

TEST(events_of_all_workers_are_taken)
{
	unsigned next[3] = {0, 1000, 2000}, n = 0;
	struct sp_event e;

	dut_prepare(&dut, 3);
	dut_create(&dut);
	id = dut_context(&dut, "a", "memo", "qp=16");
	for (unsigned i = 0; i < 20; i++)
		for (uint16_t q = 0; q < 3; q++) {
			struct frame f;

			dut_roce(&f, FRAME_IP4, 16, 1000 * q + i, NULL, 0);
			dut_feed_bytes(&dut.port, q, 0, f.bytes, f.len);
		}
	dut_settle(&dut, 1);
	while (sp_event_take(dut.dev, id, &e) == 1 && n++ < 100)
		CU_ASSERT_EQUAL(e.cookie, next[e.cookie / 1000]++); /* in order for each worker */
	CU_ASSERT_EQUAL(n, 60);
	end();
}

/* ---- devices ---- */

TEST(a_device_takes_its_contexts_with_it_and_no_others)
{
	struct sp_setting setting = {"qp", "30"};
	struct sp_dev *dev;
	uint32_t other;

	start(0);
	CU_ASSERT_EQUAL_FATAL(sp_nic_dev(dut.nic, false, &dev), 0);
	CU_ASSERT_EQUAL_FATAL(sp_context_open(dev, "b", "memo", &setting, 1, &other, NULL), 0);
	CU_ASSERT_EQUAL(post(CMD_NOTE, 0, 1), 0);
	sp_progress(dev, 1); /* is not the one that drives the NIC */
	CU_ASSERT_EQUAL(sees, 0);
	CU_ASSERT_EQUAL(sp_next_deadline(dev), SP_NEVER);
	CU_ASSERT(sp_next_deadline(dut.dev) <= 1);
	sp_progress(dut.dev, 1);
	CU_ASSERT_EQUAL(sees, 1);
	sp_dev_close(dev);
	CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, other), -ENOENT);
	CU_ASSERT_EQUAL(post(CMD_NOTE, 0, 2), 0);
	sp_progress(dut.dev, 2);
	CU_ASSERT_EQUAL(sees, 2);
	end();
}

TEST(a_device_takes_its_regions_with_it_but_those_in_use)
{
	struct sp_setting setting[] = {{"qp", "30"}, {"area", "5000"}};
	struct sp_mr *mr[4];
	struct sp_dev *dev;
	uint32_t other;
	uint64_t used;

	start(0);
	used = dut.nic->memory_used;
	CU_ASSERT_EQUAL_FATAL(sp_nic_dev(dut.nic, false, &dev), 0);
	CU_ASSERT_EQUAL_FATAL(sp_context_open(dev, "b", "memo", setting, 2, &other, NULL), 0);
	for (unsigned i = 0; i < 3; i++)
		CU_ASSERT_EQUAL_FATAL(sp_mr_alloc(dev, 4096, &mr[i]), 0);
	CU_ASSERT_EQUAL_FATAL(sp_mr_reg(dev, guarded, SIZE, &mr[3]), 0);
	CU_ASSERT_EQUAL(sp_mr_free(mr[1]), 0);
	CU_ASSERT_PTR_NOT_NULL_FATAL(get_it(mr[2]->id)); /* context "a", which is not of this device */
	sp_dev_close(dev);
	CU_ASSERT_EQUAL(dut.nic->memory_used, used + 4096);
	((uint8_t *)mem->base)[4095] = 1; /* still there */
	put_it(mem);
	end();
}

TEST(a_context_that_the_nic_has_ended_leaves_its_area_until_closed)
{
	struct sp_setting setting[] = {{"qp", "30"}, {"area", "5000"}};
	struct sp_command cmd = {.op = CMD_NOTE};
	struct sp_dev *dev;
	struct sp_event e;
	uint32_t other;
	uint64_t used, len;
	void *addr, *none;

	start(0);
	CU_ASSERT_EQUAL_FATAL(sp_nic_dev(dut.nic, false, &dev), 0);
	used = dut.nic->memory_used;
	for (int closed = 0; closed < 2; closed++) {
		CU_ASSERT_EQUAL_FATAL(sp_context_open(dev, "b", "memo", setting, 2, &other, NULL), 0);
		CU_ASSERT_EQUAL(sp_context_area(dev, other, &addr, &len), 0);
		cmd.context = other;
		CU_ASSERT_EQUAL(sp_command_post(dev, &cmd), 0); /* never run */
		CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, other), 0);
		CU_ASSERT_EQUAL(dut.nic->memory_used, used + 5000 + EVENTS);
		CU_ASSERT(!memcmp(addr, "area", 4));
		CU_ASSERT_EQUAL(sp_event_take(dev, other, &e), -ECONNRESET);
		CU_ASSERT_EQUAL(sp_command_post(dev, &cmd), -ECONNRESET);
		CU_ASSERT_EQUAL(sp_command_call(dev, &cmd, &e), -ECONNRESET);
		CU_ASSERT_EQUAL(sp_context_area(dev, other, &none, &len), -ECONNRESET);
		CU_ASSERT_EQUAL(sp_event_take(dut.dev, other, &e), -ENOENT); /* never its own */
		CU_ASSERT_EQUAL(sp_context_close(dut.dev, other), -ENOENT);
		if (closed) {
			sp_dev_close(dev);
		} else {
			CU_ASSERT_EQUAL(sp_context_close(dev, other), 0);
			CU_ASSERT_EQUAL(sp_context_close(dev, other), -ENOENT);
			CU_ASSERT_EQUAL(sp_event_take(dev, other, &e), -ENOENT);
		}
		CU_ASSERT_EQUAL(dut.nic->memory_used, used - (closed ? QUEUES : 0));
	}
	CU_ASSERT_EQUAL(sees, 0);
	end();
}

TEST(a_device_knows_the_nics_addresses_and_what_a_packet_holds)
{
	struct sp_dev *dev;
	uint8_t ip[16];

	start(0);
	CU_ASSERT_EQUAL(sp_dev_address(dut.dev, AF_INET, ip), 0);
	CU_ASSERT(!memcmp(ip, dut_own4, 16));
	CU_ASSERT_EQUAL(sp_dev_address(dut.dev, AF_INET6, ip), 0);
	CU_ASSERT(!memcmp(ip, dut_own6, 16));
	CU_ASSERT_EQUAL(sp_dev_payload(dut.dev, AF_INET), 1436);
	CU_ASSERT_EQUAL(sp_dev_payload(dut.dev, AF_INET6), 1416);
	end();
	dut_prepare(&dut, 1);
	dut.config.addresses = 1;
	dut.config.mtu = 4160;
	CU_ASSERT_EQUAL_FATAL(sp_nic_create(&dut.config, NULL, &dut.nic), 0);
	CU_ASSERT_EQUAL_FATAL(sp_nic_dev(dut.nic, true, &dev), 0);
	CU_ASSERT_EQUAL(sp_dev_address(dev, AF_INET6, ip), -ENOENT);
	CU_ASSERT_EQUAL(sp_dev_payload(dev, AF_INET), 4096);
	sp_dev_close(dev);
	sp_nic_destroy(dut.nic);
}
