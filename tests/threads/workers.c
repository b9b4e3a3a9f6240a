/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Several workers in threads of their own. The handlers here keep plain, unlocked fields wherever the pipeline promises
 * that nobody else is there: what it promises wrongly is a race for ThreadSanitizer, or a violation counted.
 */
#include "../lib/order_watch.h"

/* ---- helpers ---- */

static void start(uint16_t workers, uint64_t packets)
{
	struct probe_words w = {0};

	dut_roce(&watch_roce, FRAME_IP4, 0, 0, &w, sizeof(w));
	dut_udp(&watch_udp, 0, &w, sizeof(w));
	watch_violations = watch_headers = watch_completions = watch_closings = watch_packets_in = 0;
	watch_region = 0;
	watch_gate_shut = watch_hush = false;
	dut_prepare(&dut, workers);
	dut.config.port[0].ops = &watch_source_ops;
	dut.config.icrc_off = true; /* the sources change bytes under it */
	dut.config.neighbours = 1;
	memcpy(dut.config.neighbour[0].ip, dut_peer4, 16);
	memcpy(dut.config.neighbour[0].mac, dut_peer_mac, 6);
	dut_create(&dut);
	for (unsigned i = 0; i < DUT_QUEUES; i++)
		watch_source[i] = (struct source){
			.seed = i, .left = i < workers ? packets : 0, .qp = 16, .qps = 1, .end_one_in = 6};
}

/* Until the sources have run dry, or for so many milliseconds. */
static void run(unsigned ms)
{
	uint64_t until = watch_now_ms() + ms;
	unsigned dry;

	do {
		watch_nap(1000);
		dry = 0;
		for (uint16_t i = 0; i < dut.nic->workers; i++)
			dry += atomic_load(&watch_source[i].polled) > 2;
	} while (dry < dut.nic->workers && watch_now_ms() < until);
	atomic_store(&watch_hush, true);
}

/* Stops the workers and lets what is parked come to its end. */
static struct sp_nic_totals stop(void)
{
	struct sp_nic_totals t;
	uint64_t made = 0;

	sp_nic_stop(dut.nic);
	atomic_store(&watch_hush, true);
	dut_settle(&dut, sp_clock());
	sp_nic_totals(dut.nic, &t);
	for (unsigned i = 0; i < DUT_QUEUES; i++)
		made += watch_source[i].made;
	CU_ASSERT_EQUAL(t.received, made);
	CU_ASSERT_EQUAL(t.taken + t.forwarded + t.dropped, t.received);
	CU_ASSERT_EQUAL(watch_violations, 0);
	return t;
}

static void end(void)
{
	dut_stop(&dut);
	CU_ASSERT_EQUAL(watch_violations, 0);
}

/* ---- order ---- */

TEST(header_payload_and_completion_keep_their_order_on_several_workers)
{
	for (uint16_t workers = 2; workers <= WORKERS; workers++) {
		uint64_t begin = watch_now_ms(), seed = workers, closed = 0;

		start(workers, UINT64_MAX);
		uint32_t id = dut_context(&dut, "a", "watch-hashed", "qp=16");
		CU_ASSERT_EQUAL_FATAL(sp_nic_start(dut.nic), 0);
		for (; watch_goes_on(begin, closed > 10 && watch_packets_in > 1000 && watch_completions > 100);
		     watch_nap(20)) /* the host ends some, also in their header */
			closed += !dut_call(&dut, id, PROBE_CMD_CLOSE, dut_random(&seed) % KEYS);
		struct sp_nic_totals t = stop();
		CU_ASSERT(closed > 10);
		CU_ASSERT_EQUAL(watch_closings, closed); /* whoever was told so has had a completion for it */
		CU_ASSERT(t.taken > 1000);
		CU_ASSERT_EQUAL(t.taken, watch_packets_in);
		CU_ASSERT(watch_completions > 100);
		CU_ASSERT(watch_headers - watch_completions <= KEYS);
		CU_ASSERT_EQUAL(sp_nic_dropped(dut.nic, "handler-error"), 0);
		printf("# %u workers: %llu packets, %llu messages, %llu without a place to wait\n", workers,
		       (unsigned long long)t.taken, (unsigned long long)watch_headers,
		       (unsigned long long)sp_nic_dropped(dut.nic, "header-busy"));
		sp_nic_context_remove(dut.nic, id);
		CU_ASSERT_EQUAL(watch_headers, watch_completions);
		end();
	}
}

TEST(slots_keep_it_too_while_the_host_opens_and_closes_them)
{
	uint64_t begin = watch_now_ms(), seed = 9, opened = 0;

	start(2, UINT64_MAX);
	watch_source[0].slots = watch_source[1].slots = true;
	uint32_t id = dut_context(&dut, "a", "watch-slots", "qp=16");
	CU_ASSERT_EQUAL_FATAL(sp_nic_start(dut.nic), 0);
	while (watch_goes_on(begin, opened > 50 && watch_packets_in > 100 && watch_completions > 20)) {
		uint64_t key = dut_random(&seed) % KEYS | (dut_random(&seed) % 4) << 32;

		opened += !dut_call(&dut, id, PROBE_CMD_OPEN, key);
		if (dut_random(&seed) % 2)
			dut_call(&dut, id, PROBE_CMD_CLOSE, key);
	}
	struct sp_nic_totals t = stop();
	CU_ASSERT(t.taken > 100);
	CU_ASSERT(opened > 50);
	CU_ASSERT(watch_completions > 20);
	CU_ASSERT(sp_nic_dropped(dut.nic, "probe-zero") > 0); /* missed */
	sp_nic_context_remove(dut.nic, id);
	CU_ASSERT_EQUAL(watch_headers, watch_completions);
	end();
}

TEST(packets_without_room_to_wait_for_a_header_are_dropped_as_header_busy)
{
	enum { MANY = 500 };

	start(2, MANY);
	watch_source[0].left = 1;
	watch_source[1].after_header = true;
	watch_source[0].one_key = watch_source[1].one_key = true;
	watch_source[0].end_one_in = watch_source[1].end_one_in = 0;
	dut_context(&dut, "a", "watch-hashed", "qp=16");
	atomic_store(&watch_gate_shut,
		     true); /* worker 0 stays in header() until worker 1 has looked at all of its packets */
	CU_ASSERT_EQUAL_FATAL(sp_nic_start(dut.nic), 0);
	run(20000);
	struct sp_nic_totals t = stop();
	CU_ASSERT_EQUAL(t.received, MANY + 1);
	CU_ASSERT_EQUAL(watch_headers, 1);
	CU_ASSERT_EQUAL(sp_nic_dropped(dut.nic, "header-busy"), MANY - SP_PARKED);
	CU_ASSERT_EQUAL(watch_packets_in, SP_PARKED + 1);
	end();
}

/* ---- control calls while they run ---- */

TEST(contexts_come_and_go_under_traffic)
{
	static const char *const handler[] = {"watch-hashed", "busy"};
	uint64_t begin = watch_now_ms() + SPAN, rounds = 0;
	uint32_t id[3] = {0}, one = 0, two = 0;

	start(2, UINT64_MAX);
	for (unsigned i = 0; i < 2; i++) {
		watch_source[i].qps = 3;
		watch_source[i].udp_port = 9;
	}
	/* Of the filters there is always one for port 9 behind one that goes. */
	one = dut_context(&dut, "one", "busy", "filter=udp port 9");
	CU_ASSERT_EQUAL_FATAL(sp_nic_start(dut.nic), 0);
	for (; watch_now_ms() < begin || watch_goes_on(begin, rounds > 20 && watch_packets_in > 1000); rounds++) {
		unsigned k = rounds % 3;
		char settings[64], name[8];

		if (id[k])
			CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, id[k]), 0);
		snprintf(name, sizeof(name), "c%u", k);
		snprintf(settings, sizeof(settings), "qp=%u;filter=udp port %u", 16 + k, 100 + k);
		id[k] = dut_context(&dut, name, handler[rounds / 3 % 2], settings);
		if (rounds % 4 == 1) {
			two = dut_context(&dut, "two", "busy", "filter=udp port 9");
			sp_nic_context_remove(dut.nic, one);
		} else if (rounds % 4 == 3) {
			one = dut_context(&dut, "one", "busy", "filter=udp port 9");
			sp_nic_context_remove(dut.nic, two);
		}
	}
	struct sp_nic_totals t = stop();
	CU_ASSERT(rounds > 20);
	CU_ASSERT(t.taken > 1000);
	CU_ASSERT_EQUAL(sp_nic_dropped(dut.nic, "no-match"), 0); /* port 9 was somebody's at any time */
	printf("# %llu rounds, %llu packets taken, %llu without a QP\n", (unsigned long long)rounds,
	       (unsigned long long)t.taken, (unsigned long long)sp_nic_dropped(dut.nic, "bad-qp"));
	end();
	CU_ASSERT_EQUAL(watch_headers, watch_completions);
}

TEST(commands_and_events_lose_nothing_while_workers_run)
{
	enum { MOST = 20000 };
	uint64_t posted[2] = {0}, answered[2] = {0}, begin = watch_now_ms(), calls = 0;
	struct sp_event e;
	uint32_t id[2];

	start(2, UINT64_MAX);
	id[0] = dut_context(&dut, "a", "watch-hashed", "qp=16");
	id[1] = dut_context(&dut, "b", "busy", "qp=17");
	CU_ASSERT_NOT_EQUAL(sp_context_by_id(dut.nic, id[0])->home, sp_context_by_id(dut.nic, id[1])->home);
	CU_ASSERT_EQUAL_FATAL(sp_nic_start(dut.nic), 0);
	for (bool more = true; more || answered[0] < posted[0] || answered[1] < posted[1];) {
		more = posted[0] < MOST && watch_goes_on(begin, posted[0] > 100 && posted[1] > 100 && calls);
		if (watch_now_ms() > begin + 30000)
			break;
		for (unsigned k = 0; k < 2; k++) {
			struct sp_command cmd = {
				.op = SP_CMD_QUERY, .flags = SP_CMD_REPLY, .context = id[k], .cookie = posted[k]};

			/* Never more on the way than the queue of events holds. */
			if (more && posted[k] - answered[k] < SP_EVENTS && !sp_command_post(dut.dev, &cmd))
				posted[k]++;
			while (sp_event_take(dut.dev, id[k], &e) == 1) {
				watch_must(e.cookie == answered[k] && e.status == 0);
				/* Counted by a plain field of the handler: one more for each command and call before.
				 */
				watch_must(e.arg[0] >= answered[k] + 1);
				answered[k]++;
			}
			if (posted[k] % 100 == 99) {
				cmd.cookie = 12345678;
				watch_must(!sp_command_call(dut.dev, &cmd, &e));
				watch_must(e.cookie == 12345678 && e.arg[0] >= posted[k]);
				calls++;
			}
		}
	}
	stop();
	for (unsigned k = 0; k < 2; k++) {
		CU_ASSERT(posted[k] > 100);
		CU_ASSERT_EQUAL(answered[k], posted[k]);
		CU_ASSERT_EQUAL(dut_view(&dut, id[k], events_lost), 0);
	}
	CU_ASSERT(calls > 0);
	end();
}

TEST(starts_from_every_worker_reach_the_home_worker)
{
	uint64_t begin = watch_now_ms();

	start(WORKERS, UINT64_MAX);
	uint32_t id = dut_context(&dut, "a", "busy", "qp=16");
	struct watch *s = sp_context_by_id(dut.nic, id)->state;
	CU_ASSERT_EQUAL_FATAL(sp_nic_start(dut.nic), 0);
	while (watch_goes_on(begin, watch_packets_in > 1000 && s->sent > 0))
		watch_nap(1000);
	atomic_store(&watch_hush, true);
	watch_nap(50000);
	struct sp_nic_totals t = stop();
	CU_ASSERT(t.taken > 1000);
	CU_ASSERT_EQUAL(s->wanted, 0);
	CU_ASSERT_EQUAL(s->issued, t.taken);
	CU_ASSERT(s->timers > 0);
	CU_ASSERT(s->works > 0);
	CU_ASSERT(s->sent > 0);
	CU_ASSERT(t.sent >= s->sent);
	end();
}

TEST(memory_is_not_let_go_while_a_worker_writes_to_it)
{
	uint64_t begin = watch_now_ms(), rounds = 0, waited = 0;

	start(2, UINT64_MAX);
	dut_context(&dut, "a", "watch-hashed", "qp=16");
	CU_ASSERT_EQUAL_FATAL(sp_nic_start(dut.nic), 0);
	for (; watch_goes_on(begin, rounds > 100); rounds++) {
		void *memory = calloc(1, 64 * WORKERS); /* freed below: who writes later is caught */
		struct sp_mr *mr;
		int r;

		CU_ASSERT_EQUAL_FATAL(sp_mr_reg(dut.dev, memory, 64 * WORKERS, &mr), 0);
		atomic_store(&watch_region, mr->id); /* stays there when it has gone: an old id */
		if (rounds % 16 == 0)
			watch_nap(100);
		while ((r = sp_mr_free(mr)) == -EBUSY)
			waited++;
		watch_must(r == 0);
		free(memory);
	}
	stop();
	CU_ASSERT(rounds > 100);
	printf("# %llu regions, busy %llu times\n", (unsigned long long)rounds, (unsigned long long)waited);
	end();
}

/* Three such contexts, of each worker one, that come and go while packets for them are handed over. */
TEST(all_calls_of_a_home_only_context_are_on_its_home_worker)
{
	const uint64_t begin = watch_now_ms();
	uint32_t id[WORKERS], rounds = 0;

	start(WORKERS, UINT64_MAX);
	for (unsigned i = 0; i < WORKERS; i++) {
		char qp[8];

		watch_source[i].qps = WORKERS;
		snprintf(qp, sizeof(qp), "qp=%u", 16 + i);
		id[i] = dut_context(&dut, (const char *[]){"a", "b", "c"}[i], "homely", qp);
	}
	CU_ASSERT_EQUAL_FATAL(sp_nic_start(dut.nic), 0);
	for (; watch_goes_on(begin, rounds > 20 && watch_packets_in > 1000); watch_nap(2000), rounds++) {
		sp_nic_context_remove(dut.nic, id[1]);
		id[1] = dut_context(&dut, "b", "homely", "qp=17");
		dut_call(&dut, id[rounds % WORKERS], PROBE_CMD_OPEN, 0);
	}
	struct sp_nic_totals t = stop();
	CU_ASSERT_EQUAL(t.taken, watch_packets_in);
	CU_ASSERT(watch_packets_in > 1000);
	CU_ASSERT_EQUAL(t.dropped, sp_nic_dropped(dut.nic, "handover-full") + sp_nic_dropped(dut.nic, "bad-qp"));
	for (unsigned i = 0; i < WORKERS; i++)
		sp_nic_context_remove(dut.nic, id[i]);
	CU_ASSERT_EQUAL(watch_headers, watch_completions);
	end();
}

TEST(workers_stop_and_start_again)
{
	start(2, UINT64_MAX);
	dut_context(&dut, "a", "watch-hashed", "qp=16");
	for (unsigned i = 0; i < 20; i++) {
		CU_ASSERT_EQUAL_FATAL(sp_nic_start(dut.nic), 0);
		CU_ASSERT_EQUAL(sp_nic_start(dut.nic), -EALREADY);
		watch_nap(3000);
		for (uint64_t begin = watch_now_ms(), before = watch_packets_in;
		     watch_packets_in == before && watch_now_ms() < begin + 5000;)
			watch_nap(100);
		struct sp_nic_totals t = stop();
		sp_nic_stop(dut.nic); /* twice is once */
		CU_ASSERT(t.taken > i);
		atomic_store(&watch_hush, false);
	}
	CU_ASSERT_EQUAL_FATAL(sp_nic_start(dut.nic), 0);
	watch_nap(1000);
	end(); /* destroying it stops them */
}
