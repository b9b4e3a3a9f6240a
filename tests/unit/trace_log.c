/* SPDX-License-Identifier: BSD-3-Clause */
/* The trace's order and grouping. No NIC here: this program's own sp_nic_trace() takes the callbacks, and the tests
 * call them in the orders that a NIC may. */
#include <jansson.h>

#include "../../testbed/trace_log.h"
#include "../lib/suite.h"

static struct sp_tracer watch;

int sp_nic_trace(struct sp_nic *nic, const struct sp_tracer *w)
{
	watch = *w;
	return 0;
}

static const char *const drops[] = {"late", NULL};
static const struct sp_handler handler = {SP_HANDLER_HEAD, .name = "y", .drops = drops};
SP_HANDLER(handler)

/* ---- what a NIC would do ---- */
static uint8_t frame[8][64];
static struct sp_packet packet[8];
static struct sp_packet *const packets[8] = {&packet[0], &packet[1], &packet[2], &packet[3],
					     &packet[4], &packet[5], &packet[6], &packet[7]};
static struct sp_message message = {.key = 0x100000007};
static sp_time now;

static void arrive(unsigned i)
{
	packet[i] = (struct sp_packet){.frame = frame[i], .frame_len = 60, .buf = frame[i]};
	watch.arrived(watch.arg, &packet[i], 0, now);
	watch.matched(watch.arg, &packet[i], "x", "y");
}

static struct sp_traced_call call_of(enum sp_called function, unsigned first, unsigned n)
{
	return (struct sp_traced_call){
		.context = "x",
		.handler = "y",
		.function = function,
		.now = now,
		.packet = n ? packets + first : NULL,
		.packets = n,
		.message = function == SP_CALLED_PAYLOAD || function == SP_CALLED_COMPLETION ? &message : NULL};
}

static void in(enum sp_called function, unsigned first, unsigned n)
{
	const struct sp_traced_call call = call_of(function, first, n);

	watch.enter(watch.arg, &call);
}

static void out(enum sp_called function, unsigned first, unsigned n, uint64_t result)
{
	struct sp_traced_call call = call_of(function, first, n);

	call.result = result;
	call.cycles = UINT32_MAX;
	watch.leave(watch.arg, &call);
}

static void call(enum sp_called function, unsigned first, unsigned n, uint64_t result)
{
	in(function, first, n);
	out(function, first, n, result);
}

static void end(unsigned i, enum sp_capture_fate fate, const char *reason)
{
	watch.fate(watch.arg, &packet[i], fate, reason);
}

/* ---- reading it ---- */
static struct sp_trace_log *trace;
static FILE *file;
static json_t *line[32];
static unsigned lines;

static void start(bool json)
{
	now = 0;
	file = tmpfile();
	CU_ASSERT_PTR_NOT_NULL_FATAL(file);
	CU_ASSERT_EQUAL_FATAL(sp_trace_log_create(file, json, &trace), 0);
	CU_ASSERT_EQUAL_FATAL(sp_trace_log_add(trace, NULL), 0);
}

static void finish(void)
{
	char text[8192];

	CU_ASSERT_EQUAL(sp_trace_log_finish(trace), 0);
	sp_trace_log_destroy(trace);
	rewind(file);
	for (lines = 0; lines < 32 && fgets(text, sizeof(text), file); lines++)
		line[lines] = json_loads(text, 0, NULL);
	fclose(file);
}

static void forget(void)
{
	while (lines)
		json_decref(line[--lines]);
}

/* "1:classify,payload=done;2:..." */
static const char *summary(void)
{
	static char text[2048];
	size_t n = 0, i;
	json_t *c;

	for (unsigned k = 0; k < lines; k++) {
		const char *gap = "";

		n += (size_t)sprintf(text + n,
				     "%lld:", (long long)json_integer_value(json_object_get(line[k], "packet")));
		json_array_foreach(json_object_get(line[k], "calls"), i, c)
		{
			const char *verdict = json_string_value(json_object_get(c, "verdict"));

			n += (size_t)sprintf(text + n, "%s%s", gap, json_string_value(json_object_get(c, "function")));
			if (verdict)
				n += (size_t)sprintf(text + n, "=%s", verdict);
			gap = ",";
		}
		n += (size_t)sprintf(text + n, ";");
	}
	text[n] = '\0';
	return text;
}

static json_t *call_at(unsigned l, size_t i)
{
	return json_array_get(json_object_get(line[l], "calls"), i);
}

TEST(packets_that_end_in_any_order_are_told_in_order)
{
	start(true);
	for (unsigned i = 0; i < 3; i++)
		arrive(i);
	for (unsigned i = 3; i-- > 0;) {
		call(SP_CALLED_CLASSIFY, i, 1, 7);
		call(SP_CALLED_PAYLOAD, i, 1, SP_DROP(0));
		end(i, SP_CAPTURE_DROPPED, "late");
	}
	now = 5;
	arrive(4); /* never ends */
	finish();
	CU_ASSERT_STRING_EQUAL(summary(),
			       "1:classify,payload=drop;2:classify,payload=drop;3:classify,payload=drop;4:;");
	CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(line[2], "reason")), "late");
	CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(call_at(2, 1), "reason")), "late");
	CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(call_at(2, 0), "message")), "0x7");
	CU_ASSERT_PTR_NULL(json_object_get(line[3], "fate"));
	CU_ASSERT_EQUAL(json_integer_value(json_object_get(line[3], "time_ps")), 5);
	forget();
}

TEST(a_burst_is_told_with_each_of_its_packets)
{
	const struct sp_mem mem = {.id = 9, .len = 100};

	start(true);
	for (unsigned i = 0; i < 3; i++)
		arrive(i);
	in(SP_CALLED_PAYLOAD, 0, 3);
	struct sp_traced_call burst = call_of(SP_CALLED_PAYLOAD, 0, 3);
	watch.wrote(watch.arg, &burst, &mem, 40, frame[1] + 20, 8);
	watch.wrote(watch.arg, &burst, &mem, 0, NULL, 8);
	packet[1].verdict = SP_END;
	out(SP_CALLED_PAYLOAD, 0, 3, SP_END);
	for (unsigned i = 0; i < 3; i++)
		end(i, SP_CAPTURE_TAKEN, NULL);
	call(SP_CALLED_COMPLETION, 0, 0, 0); /* of the message that packet 2 has ended */
	finish();
	CU_ASSERT_STRING_EQUAL(summary(), "1:payload=done;2:payload=end,completion;3:payload=done;");
	CU_ASSERT_PTR_NOT_NULL(json_object_get(call_at(0, 0), "cycles"));
	CU_ASSERT_EQUAL(json_integer_value(json_object_get(call_at(1, 0), "with")), 1);
	CU_ASSERT_EQUAL(json_array_size(json_object_get(call_at(0, 0), "wrote")), 1);
	CU_ASSERT_EQUAL(json_array_size(json_object_get(call_at(1, 0), "wrote")), 1);
	forget();
}

TEST(calls_outside_of_packets_stand_alone)
{
	start(true);
	call(SP_CALLED_ATTACH, 0, 0, 0);
	arrive(0);
	call(SP_CALLED_PAYLOAD, 0, 1, SP_DONE);
	end(0, SP_CAPTURE_TAKEN, NULL);
	call(SP_CALLED_TIMER, 0, 0, 0);
	call(SP_CALLED_COMPLETION, 0, 0, 0); /* of the same message, by time: no packet's doing */
	arrive(1);
	in(SP_CALLED_PAYLOAD, 1, 1);
	call(SP_CALLED_COMPLETION, 0, 0, 0);
	out(SP_CALLED_PAYLOAD, 1, 1, SP_DONE);
	end(1, SP_CAPTURE_TAKEN, NULL);
	finish();
	CU_ASSERT_STRING_EQUAL(summary(), "0:attach;1:payload=done;0:timer;0:completion;2:payload=done,completion;");
	CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(call_at(4, 1), "within")), "payload");
	CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(line[2], "context")), "x");
	forget();
}

TEST(what_the_nic_sends_by_itself_goes_with_the_packet_that_it_answers)
{
	start(true);
	watch.sent(watch.arg, NULL, 0, frame[7], 60);
	arrive(0);
	watch.sent(watch.arg, NULL, 0, frame[7], 60);
	end(0, SP_CAPTURE_ANSWERED, NULL);
	finish();
	CU_ASSERT_EQUAL(lines, 2);
	CU_ASSERT_PTR_NULL(json_object_get(line[0], "packet"));
	CU_ASSERT_EQUAL(json_array_size(json_object_get(line[0], "sent")), 1);
	CU_ASSERT_EQUAL(json_array_size(json_object_get(line[1], "sent")), 1);
	CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(line[1], "fate")), "answered");
	forget();
}

TEST(what_waits_without_end_does_not_hold_back_the_rest_for_ever)
{
	start(true);
	arrive(7); /* waits for a header that another worker runs */
	for (unsigned i = 0; i < 10000; i++) {
		arrive(i % 7);
		call(SP_CALLED_PAYLOAD, i % 7, 1, SP_DONE);
		end(i % 7, SP_CAPTURE_TAKEN, NULL);
	}
	CU_ASSERT(ftell(file) > 100000);
	end(7, SP_CAPTURE_TAKEN, NULL);
	finish();
	CU_ASSERT_EQUAL(json_integer_value(json_object_get(line[1], "packet")), 2);
	forget();
}

TEST(text_and_after_a_crash)
{
	char text[2048] = "";

	start(false);
	arrive(0);
	in(SP_CALLED_PAYLOAD, 0, 1);
	struct sp_traced_call c = call_of(SP_CALLED_PAYLOAD, 0, 1);
	watch.wrong(watch.arg, &c, "did wrong");
	sp_trace_log_crashed(trace);
	rewind(file);
	CU_ASSERT(fread(text, 1, sizeof(text) - 1, file) > 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "packet 1   0.000000000 s   60 bytes\n  parse       other: "));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "\n  context     x, handler y\n  payload     message 0x100000007 (has not "
					    "returned)\n  wrong       did wrong\n  unfinished\n"));
	sp_trace_log_destroy(trace);
	fclose(file);
}

TEST(failed_writes_are_errors)
{
	file = fopen("/dev/full", "w");
	CU_ASSERT_PTR_NOT_NULL_FATAL(file);
	for (int json = 0; json < 2; json++) {
		CU_ASSERT_EQUAL_FATAL(sp_trace_log_create(file, json, &trace), 0);
		CU_ASSERT_EQUAL_FATAL(sp_trace_log_add(trace, NULL), 0);
		for (unsigned i = 0; i < 1000; i++) {
			arrive(0);
			end(0, SP_CAPTURE_TAKEN, NULL);
			call(SP_CALLED_TIMER, 0, 0, 0);
		}
		CU_ASSERT_EQUAL(sp_trace_log_finish(trace), -ENOSPC);
		sp_trace_log_destroy(trace);
		clearerr(file);
	}
	fclose(file);
	sp_trace_log_destroy(NULL);
}
