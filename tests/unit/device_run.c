/* SPDX-License-Identifier: BSD-3-Clause */
/* What a device makes of packets and calls: order, ways in and out, writes to the host, and the numbers that follow. */
#include "../../pipeline/observe/trace.h"
#include "../../testbed/device/load.h"
#include "../../testbed/device/report.h"
#include "../lib/suite.h"

static struct sp_device device;
static struct sp_device_run *run;

/* A clock of 1 GHz: a cycle is 1000 ps. */
static void start(uint32_t cores)
{
	char why[120];

	device = (struct sp_device){.name = "d", .cores = cores, .clock = 1e9, .host_cycles = 1};
	CU_ASSERT_EQUAL(sp_costs_set(&device.costs, "h.header", "50", why), 0);
	CU_ASSERT_EQUAL(sp_costs_set(&device.costs, "h.payload", "20", why), 0);
	CU_ASSERT_EQUAL(sp_costs_set(&device.costs, "h.completion", "30", why), 0);
}

static void begin(void)
{
	CU_ASSERT_EQUAL_FATAL(sp_device_run_create(&device, 1, &run), 0);
}

static void end(void)
{
	sp_device_run_destroy(run);
}

/* All times in ns. */
static struct sp_device_result call(unsigned function, sp_time now, uint64_t message, bool packet)
{
	struct sp_device_result r = sp_device_run_job(run, &(struct sp_device_job){.handler = "h",
										   .function = function,
										   .now = now * SP_NS,
										   .packet = packet,
										   .has_message = message != 0,
										   .message = message});

	return (struct sp_device_result){
		.start = r.start / SP_NS, .end = r.end / SP_NS, .sent = r.sent / SP_NS, .placed = r.placed / SP_NS};
}

static void packet(sp_time now, uint32_t bytes)
{
	sp_device_run_packet(run, now * SP_NS, bytes);
}

/* ---- order ---- */

TEST(header_comes_before_payload_and_completion_after_all)
{
	start(8);
	begin();
	packet(0, 100);
	CU_ASSERT_EQUAL(call(SP_CALLED_HEADER, 0, 5, true).end, 50);
	CU_ASSERT_EQUAL(call(SP_CALLED_PAYLOAD, 0, 5, true).start, 50); /* also since it is the same packet */
	packet(1, 100);
	CU_ASSERT_EQUAL(call(SP_CALLED_PAYLOAD, 1, 5, true).start, 50);
	packet(2, 100);
	CU_ASSERT_EQUAL(call(SP_CALLED_PAYLOAD, 2, 6, true).start, 2); /* another message */
	packet(60, 100);
	CU_ASSERT_EQUAL(call(SP_CALLED_PAYLOAD, 60, 5, true).end, 80);
	CU_ASSERT_EQUAL(call(SP_CALLED_COMPLETION, 60, 5, false).start, 80);
	packet(61, 100);
	CU_ASSERT_EQUAL(call(SP_CALLED_PAYLOAD, 61, 5, true).start, 61); /* the key is a new message's */
	end();
}

TEST(calls_of_a_handler_that_wants_order_run_one_after_the_other)
{
	struct sp_device_job job = {.handler = "h", .function = SP_CALLED_PAYLOAD, .serial = true};
	const char *limit;

	start(8);
	begin();
	for (unsigned i = 0; i < 10; i++) {
		sp_device_run_packet(run, 0, 100);
		CU_ASSERT_EQUAL(sp_device_run_job(run, &job).start, i * 20 * SP_NS);
	}
	job.context = 1; /* another context's */
	CU_ASSERT_EQUAL(sp_device_run_job(run, &job).start, 0);
	CU_ASSERT_EQUAL(sp_device_run_tally(run)->serial, 200 * SP_NS);
	CU_ASSERT_DOUBLE_EQUAL(sp_device_run_most(run, &limit), 50e6, 1); /* one each 20 ns, whatever the cores */
	CU_ASSERT_STRING_EQUAL(limit, "order");
	end();
}

/* ---- ways in, out and to the host ---- */

TEST(a_packet_takes_the_way_in_its_calls_and_the_way_out)
{
	struct sp_device_job job = {.handler = "h", .function = SP_CALLED_PAYLOAD, .packet = true, .work.frames = 1};
	struct sp_device_result r;

	start(1);
	device.arrive = 13 * SP_NS;
	device.arrive_rate = 8000000000; /* 1 ns a byte */
	device.depart = 7 * SP_NS;
	device.depart_rate = 4000000000;
	begin();
	sp_device_run_packet(run, 0, 100);
	r = sp_device_run_job(run, &job);
	CU_ASSERT_EQUAL(r.start, 113 * SP_NS);
	CU_ASSERT_EQUAL(r.end, 133 * SP_NS);
	CU_ASSERT_EQUAL(r.sent, 340 * SP_NS);
	sp_device_run_finish(run);
	CU_ASSERT_EQUAL(sp_device_run_tally(run)->latency, 340 * SP_NS);
	end();
}

TEST(writes_to_the_host_go_at_the_rate_of_the_dma_and_do_not_hold_the_core)
{
	struct sp_device_job job = {.handler = "h", .function = SP_CALLED_PAYLOAD, .packet = true, .work.writes = 1000};
	const char *limit;

	start(1);
	device.dma_latency = 250 * SP_NS;
	device.dma_rate = 80000000000; /* 1000 bytes take 100 ns */
	begin();
	for (unsigned i = 0; i < 4; i++) {
		struct sp_device_result r;

		sp_device_run_packet(run, 0, 1000);
		r = sp_device_run_job(run, &job);
		CU_ASSERT_EQUAL(r.end, (i + 1) * 20 * SP_NS);
		CU_ASSERT_EQUAL(r.placed, (20 + (i + 1) * 100 + 250) * SP_NS);
	}
	sp_device_run_finish(run);
	CU_ASSERT_EQUAL(sp_device_run_dma(run)->busy, 400 * SP_NS);
	CU_ASSERT_EQUAL(sp_device_run_tally(run)->writes, 4000);
	CU_ASSERT_EQUAL(sp_device_run_tally(run)->latency_most, 670 * SP_NS);
	CU_ASSERT_DOUBLE_EQUAL(sp_device_run_most(run, &limit), 10e6, 1);
	CU_ASSERT_STRING_EQUAL(limit, "dma");
	end();
}

/* ---- the numbers ---- */

/* 1000 packets of 100 B each 8 ns (100 Gbit/s), 20 cycles each: 2.5 cores are busy. */
TEST(occupancy_waits_and_cores_for_line_rate_are_those_of_the_closed_form)
{
	struct sp_device_load load = {.cost.call = 20, .bytes = 100, .packets = 1000, .interval = 8 * SP_NS};
	const char *limit;

	for (uint32_t cores = 1; cores <= 4; cores++) {
		const double span = cores < 3 ? (1000 / cores) * 20.0 + (cores - 1) * 8 : 999 * 8 + 20;
		double wait = 0;

		start(cores);
		device.line_rate = 100000000000;
		CU_ASSERT_EQUAL_FATAL(sp_device_load_run(&device, &load, &run), 0);
		for (unsigned i = 0; i < 1000 && cores < 3; i++)
			wait += i % cores * 8.0 + i / cores * 20.0 - i * 8.0;
		CU_ASSERT_DOUBLE_EQUAL(sp_device_run_occupancy(run), 20000 / span / cores, 1e-9);
		CU_ASSERT_DOUBLE_EQUAL((double)sp_device_run_tally(run)->wait / SP_NS, wait, 1e-6);
		CU_ASSERT_DOUBLE_EQUAL(sp_device_run_cores_needed(run), 2.5, 1e-9);
		CU_ASSERT_DOUBLE_EQUAL(sp_device_run_offered(run), 125e6, 1);
		CU_ASSERT_DOUBLE_EQUAL(sp_device_run_most(run, &limit), cores < 3 ? cores * 50e6 : 125e6, 1);
		CU_ASSERT_STRING_EQUAL(limit, cores < 3 ? "cores" : "line");
		end();
	}
}

/* A core of 20 ns a packet, one each 10 ns: when packet i arrives, i / 2 have gone. */
TEST(packets_in_the_device_are_counted_and_those_that_find_no_room)
{
	struct sp_device_load load = {.cost.call = 20, .bytes = 100, .packets = 101, .interval = 10 * SP_NS};

	start(1);
	device.buffer = 2000; /* 20 packets */
	CU_ASSERT_EQUAL_FATAL(sp_device_load_run(&device, &load, &run), 0);
	CU_ASSERT_EQUAL(sp_device_run_tally(run)->held_most, 51);
	CU_ASSERT_EQUAL(sp_device_run_tally(run)->held_bytes_most, 5100);
	CU_ASSERT_EQUAL(sp_device_run_tally(run)->overflows, 101 - 39); /* packet i finds i - i / 2 */
	end();
}

/* ---- what the host sees ---- */

/* A call at time 0, in no message where that is 0: bytes to memory, bytes of events. Times in ns. */
static struct sp_device_result writes(unsigned function, uint64_t message, uint64_t memory, uint64_t events)
{
	const struct sp_device_job job = {
		.handler = "h",
		.function = function,
		.has_message = message != 0,
		.message = message,
		.work = {.writes = memory + events, .events = events != 0, .event_bytes = events}};
	const struct sp_device_result r = sp_device_run_job(run, &job);

	return (struct sp_device_result){.end = r.end / SP_NS, .placed = r.placed / SP_NS, .told = r.told / SP_NS};
}

/* At 8 Gbit/s a byte takes 1 ns. */
static void start_dma(void)
{
	char why[120];

	start(8);
	device.dma_rate = 8000000000;
	device.dma_latency = 100 * SP_NS;
	CU_ASSERT_EQUAL(sp_costs_set(&device.costs, "h.completion", "0", why), 0);
	begin();
}

TEST(an_event_follows_the_bytes_that_its_call_wrote)
{
	struct sp_device_result r;
	const struct sp_device_row *row;
	json_t *report, *seen;

	start_dma();
	r = writes(SP_CALLED_PAYLOAD, 0, 300, 64); /* 20 ns, then 300 bytes, then 64 */
	CU_ASSERT_EQUAL(r.end, 20);
	CU_ASSERT_EQUAL(r.placed, 20 + 300 + 100);
	CU_ASSERT_EQUAL(r.told, 20 + 300 + 64 + 100);
	r = writes(SP_CALLED_PAYLOAD, 0, 0, 64); /* behind the first in the DMA's queue */
	CU_ASSERT_EQUAL(r.placed, r.end);
	CU_ASSERT_EQUAL(r.told, 384 + 64 + 100);
	r = writes(SP_CALLED_PAYLOAD, 0, 10, 0);
	CU_ASSERT_EQUAL(r.told, r.end);
	CU_ASSERT_EQUAL(r.placed, 448 + 10 + 100);
	sp_device_run_finish(run);
	CU_ASSERT_EQUAL(sp_device_run_tally(run)->memory_last, 558 * SP_NS);
	CU_ASSERT_EQUAL(sp_device_run_tally(run)->event_last, 548 * SP_NS);
	row = sp_device_run_row(run, 0);
	CU_ASSERT(row->memory.count == 2 && row->memory.bytes == 310 && row->memory.last == 558 * SP_NS);
	CU_ASSERT(row->memory.sum == (420 + 558) * SP_NS && row->memory.most == 558 * SP_NS);
	CU_ASSERT(row->events.count == 2 && row->events.bytes == 128 && row->events.sum == (484 + 548) * SP_NS);
	report = sp_device_report_json(run);
	CU_ASSERT_PTR_NOT_NULL_FATAL(report);
	seen = json_object_get(json_array_get(json_object_get(report, "handlers"), 0), "memory");
	CU_ASSERT_DOUBLE_EQUAL(json_real_value(json_object_get(seen, "after_ns")), (420 + 558) / 2.0, 1e-9);
	CU_ASSERT_DOUBLE_EQUAL(json_real_value(json_object_get(seen, "last_ns")), 558, 1e-9);
	CU_ASSERT_DOUBLE_EQUAL(json_real_value(json_object_get(report, "event_last_ns")), 548, 1e-9);
	json_decref(report);
	end();
}

/* Also where the DMA has 20 ns between two writes, in which the event alone would have room. */
TEST(an_event_does_not_overtake_the_bytes_of_its_call)
{
	struct sp_device_result r;

	start_dma();
	CU_ASSERT_EQUAL(writes(SP_CALLED_PAYLOAD, 0, 10, 0).placed, 20 + 10 + 100);
	CU_ASSERT_EQUAL(writes(SP_CALLED_HEADER, 9, 100, 0).placed, 50 + 100 + 100);
	r = writes(SP_CALLED_PAYLOAD, 0, 1000, 10);
	CU_ASSERT_EQUAL(r.placed, 150 + 1000 + 100);
	CU_ASSERT_EQUAL(r.told, 1150 + 10 + 100);
	end();
}

/* The DMA has 20 ns between two writes, in which the completion's event would have room, but its message's payload
 * comes after both. */
TEST(a_completions_event_is_never_seen_before_its_messages_bytes)
{
	start_dma();
	CU_ASSERT_EQUAL(writes(SP_CALLED_PAYLOAD, 0, 10, 0).placed, 20 + 10 + 100);
	CU_ASSERT_EQUAL(writes(SP_CALLED_HEADER, 9, 100, 0).placed, 50 + 100 + 100);
	CU_ASSERT_EQUAL(writes(SP_CALLED_PAYLOAD, 5, 1000, 0).placed, 150 + 1000 + 100);
	CU_ASSERT_EQUAL(writes(SP_CALLED_COMPLETION, 5, 0, 10).told, 1150 + 10 + 100);
	CU_ASSERT_EQUAL(writes(SP_CALLED_PAYLOAD, 0, 10, 0).placed, 30 + 10 + 100); /* of no message: in between */
	/* Payloads of a message come behind what its header wrote, and in no order among themselves. */
	CU_ASSERT_EQUAL(writes(SP_CALLED_HEADER, 6, 0, 500).told, 1160 + 500 + 100);
	CU_ASSERT_EQUAL(writes(SP_CALLED_PAYLOAD, 6, 5, 0).placed, 1660 + 5 + 100);
	end();
}

TEST(what_is_measured_is_scaled_and_said_to_be_measured)
{
	struct sp_device_job job = {.handler = "other", .function = SP_CALLED_TIMER, .measured = 100};
	json_t *report;

	start(2);
	device.host_cycles = 1.5;
	begin();
	CU_ASSERT_EQUAL(sp_device_run_job(run, &job).end, 150 * SP_NS);
	CU_ASSERT_TRUE(sp_device_run_row(run, 0)->measured);
	CU_ASSERT_PTR_NULL(sp_device_run_row(run, 1));
	sp_device_run_finish(run);
	report = sp_device_report_json(run);
	CU_ASSERT_PTR_NOT_NULL_FATAL(report);
	CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(report, "costs")), "measured");
	CU_ASSERT_EQUAL(json_real_value(json_object_get(report, "clock_hz")), 1e9);
	json_decref(report);
	end();
}

TEST(more_handlers_than_there_are_rows_are_counted_together)
{
	char name[16];

	start(1);
	begin();
	for (unsigned i = 0; i < SP_DEVICE_ROWS + 10; i++) {
		snprintf(name, sizeof(name), "h%u", i);
		sp_device_run_job(run, &(struct sp_device_job){.handler = name, .function = SP_CALLED_WORK});
	}
	CU_ASSERT_PTR_NULL(sp_device_run_row(run, SP_DEVICE_ROWS));
	CU_ASSERT_EQUAL(sp_device_run_row(run, SP_DEVICE_ROWS - 1)->calls, 11);
	end();
}
