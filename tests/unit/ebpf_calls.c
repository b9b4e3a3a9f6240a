/* SPDX-License-Identifier: BSD-3-Clause */
/* eBPF handlers at work: what their calls do with the packet and the context, and what they do with what is wrong. */
#include <sys/stat.h>

#include "../lib/ebpf_random.h"
#include "../../pipeline/plugin/handler.h"
#include "../lib/dut.h"

/* ---- a handler of calls, one after the other --------------------------------------------------------- */
struct deed {
	const char *call;
	uint64_t argument[4];
};

static struct object made;
static char path[128];

static struct sp_plugin *load(const char *id, const struct ebpf_insn *ins, uint32_t count, uint32_t words)
{
	struct sp_error error = {.key = ""};
	struct sp_plugin *plugin = NULL;

	snprintf(path, sizeof(path), "/tmp/spindle-test-ebpf-%d.o", (int)getpid());
	object_make(&made, id, ins, count, words, NULL);
	FILE *f = fopen(path, "we");
	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	CU_ASSERT_EQUAL(fwrite(made.bytes, 1, made.len, f), made.len);
	fclose(f);
	int r = sp_plugin_load(path, &plugin, &error);
	unlink(path);
	if (r && !strstr(error.text, "DPDK's verifier"))
		printf("# %s\n", error.text);
	return plugin;
}

static uint32_t constant(struct ebpf_insn *at, uint8_t reg, uint64_t v)
{
	const struct ebpf_insn two[] = {LDDW(reg, (int32_t)(uint32_t)v, (int32_t)(v >> 32))};

	memcpy(at, two, sizeof(two));
	return 2;
}

/* The sum of what the calls return goes into word 0 of the state. */
static struct sp_plugin *load_deeds(const char *id, const struct deed *deed, unsigned deeds, uint64_t verdict)
{
	struct ebpf_insn ins[128];
	uint32_t n = 0;

	ins[n++] = (struct ebpf_insn)MOV(6, 0);
	for (unsigned i = 0; i < deeds && deed[i].call; i++) {
		char name[32];

		for (uint8_t k = 0; k < 4; k++)
			n += constant(&ins[n], (uint8_t)(k + 1), deed[i].argument[k]);
		snprintf(name, sizeof(name), "sp_bpf_%s", deed[i].call);
		CU_ASSERT_FATAL(call_index(name) >= 0);
		ins[n++] = (struct ebpf_insn)CALL(call_index(name));
		ins[n++] = (struct ebpf_insn)ALUR(BPF_ADD, 6, 0);
	}
	ins[n++] = (struct ebpf_insn)MOV(1, 0);
	ins[n++] = (struct ebpf_insn)MOVR(2, 6);
	ins[n++] = (struct ebpf_insn)CALL(call_index("sp_bpf_state_set"));
	n += constant(&ins[n], 0, verdict);
	ins[n++] = (struct ebpf_insn)EXIT;
	return load(id, ins, n, 4);
}

/* ---- the frame that they get ------------------------------------------------------------------------- */
static struct frame frame;
static const char data[] = "the quick brown fox";

static void feed(struct dut *r)
{
	dut_udp(&frame, 4000, data, sizeof(data));
	dut_feed(r, &frame);
	dut_settle(r, 1);
}

struct case_of {
	const char *what;
	struct deed deed[4];
	uint64_t verdict;
	const char *counted; /* the one thing that the packet becomes */
	uint64_t sum;	     /* of what the calls returned */
};

/* The frame has 42 bytes of headers and 20 of data: 62. */
static const struct case_of cases[] = {
	{"nothing", {{NULL}}, SP_DONE, "packets", 0},
	{"a drop of its own", {{NULL}}, SP_DROP(0), "unwanted", 0},
	{"a drop that it has not declared", {{NULL}}, SP_DROP(2), "errors", 0},
	{"a verdict that is none", {{NULL}}, 99, "errors", 0},
	{"a verdict of 64 bits", {{NULL}}, UINT64_C(1) << 32, "errors", 0},
	{"sent, it says, and has not", {{NULL}}, SP_SENT, "errors", 0},
	{"miss()'s verdict", {{NULL}}, SP_AGAIN, "errors", 0},
	{"loads", {{"load", {12, 2}}, {"load", {42, 1}}, {"load", {36, 2}}}, SP_DONE, "packets", 0x0800 + 't' + 4000},
	{"loads the last bytes", {{"load", {54, 8}}}, SP_DONE, "packets", 0x6F776E20666F7800},
	{"loads one byte behind", {{"load", {55, 8}}}, SP_DONE, "bad-access", 0},
	{"loads far behind", {{"load", {UINT64_MAX, 1}}}, SP_DONE, "bad-access", 0},
	{"loads around the end of numbers", {{"load", {UINT64_MAX - 3, 8}}}, SP_DONE, "bad-access", 0},
	{"loads before", {{"load", {(uint64_t)-1, 1}}}, SP_DONE, "bad-access", 0},
	{"loads three bytes", {{"load", {0, 3}}}, SP_DONE, "bad-access", 0},
	{"loads no bytes", {{"load", {0, 0}}}, SP_DONE, "bad-access", 0},
	{"loads 2^63 bytes", {{"load", {0, UINT64_C(1) << 63}}}, SP_DONE, "bad-access", 0},
	{"stores", {{"store", {42, 4, 0x01020304}}, {"load", {42, 4}}}, SP_DONE, "packets", 0x01020304},
	{"stores behind", {{"store", {62, 1, 1}}}, SP_DONE, "bad-access", 0},
	{"stores across the end", {{"store", {59, 4, 1}}}, SP_DONE, "bad-access", 0},
	{"stores before the frame", {{"store", {(uint64_t)-8, 8, 1}}}, SP_DONE, "bad-access", 0},
	{"stores five bytes", {{"store", {0, 5, 1}}}, SP_DONE, "bad-access", 0},
	{"swaps", {{"swap", {0, 6, 6}}, {"load", {5, 1}}, {"load", {11, 1}}}, SP_DONE, "packets", 3},
	{"swaps what overlaps", {{"swap", {0, 5, 6}}}, SP_DONE, "bad-access", 0},
	{"swaps with itself", {{"swap", {4, 4, 1}}}, SP_DONE, "bad-access", 0},
	{"swaps too much", {{"swap", {0, 65, 65}}}, SP_DONE, "bad-access", 0},
	{"swaps with what is behind", {{"swap", {0, 60, 4}}}, SP_DONE, "bad-access", 0},
	{"sums the IP header", {{"checksum", {14, 20, 0}}}, SP_DONE, "packets", 0},
	{"sums, and carries in", {{"checksum", {14, 20, 0xFFFF}}}, SP_DONE, "packets", 0},
	{"sums two bytes", {{"checksum", {12, 2, 0x10}}}, SP_DONE, "packets", 0xFFFF - 0x0810},
	{"sums behind", {{"checksum", {14, 49, 0}}}, SP_DONE, "bad-access", 0},
	{"sums 2^64 - 1 bytes", {{"checksum", {1, UINT64_MAX, 0}}}, SP_DONE, "bad-access", 0},
	{"mends a sum",
	 {{"load", {14, 2}},
	  {"store", {14, 2, 0x4510}},
	  {"checksum_fix", {24, 0x4502, 0x4510}},
	  {"checksum", {14, 20, 0}}},
	 SP_DONE,
	 "packets",
	 0x4502},
	{"mends a sum behind", {{"checksum_fix", {61, 0, 0}}}, SP_DONE, "bad-access", 0},
	{"mends by more than 16 bits", {{"checksum_fix", {24, 65536, 0}}}, SP_DONE, "bad-access", 0},
	{"counts", {{"count", {1, 5}}}, SP_DONE, "packets", 0},
	{"counts what it has not declared", {{"count", {2, 1}}}, SP_DONE, "bad-access", 0},
	{"counts far away", {{"count", {UINT64_C(1) << 61, 1}}}, SP_DONE, "bad-access", 0},
	{"asks for a parameter that it has not", {{"param", {0}}}, SP_DONE, "bad-access", 0},
	{"keeps state", {{"state_set", {3, 40}}, {"state_add", {3, 2}}, {"state_get", {3}}}, SP_DONE, "packets", 82},
	{"reads state behind", {{"state_get", {4}}}, SP_DONE, "bad-access", 0},
	{"writes state behind", {{"state_set", {4, 1}}}, SP_DONE, "bad-access", 0},
	{"adds to state before", {{"state_add", {(uint64_t)-1, 1}}}, SP_DONE, "bad-access", 0},
	{"writes state at 2^61", {{"state_set", {UINT64_C(1) << 61, 1}}}, SP_DONE, "bad-access", 0},
	{"posts", {{"event", {7, 1, 2, 3}}}, SP_DONE, "packets", 1},
	{"posts of a type that is not its own", {{"event", {256, 1, 2, 3}}}, SP_DONE, "bad-access", 0},
	{"answers", {{"answer"}}, SP_SENT, "packets", 1},
	{"answers, and says it is done", {{"answer"}}, SP_DONE, "packets", 1},
	{"answers, and drops", {{"answer"}}, SP_DROP(0), "unwanted", 1},
	{"answers, and forwards", {{"answer"}}, SP_FORWARD, "errors", 1},
	{"answers twice", {{"answer"}, {"answer"}}, SP_SENT, "packets", 1},
	{"answers and then reads", {{"answer"}, {"load", {0, 1}}}, SP_SENT, "packets", 1},
	{"answers and then writes", {{"answer"}, {"store", {0, 1, 0xFF}}}, SP_SENT, "packets", 1},
	{"answers and then swaps", {{"answer"}, {"swap", {0, 6, 6}}}, SP_DONE, "packets", 1},
};

TEST(calls_do_what_they_say_and_check_what_they_get)
{
	struct dut r;

	dut_start(&r, 1);
	for (size_t i = 0; i < COUNT(cases); i++) {
		static const char *const fates[] = {"packets", "unwanted", "bad-access", "errors"};
		struct sp_command query = {.op = SP_CMD_QUERY};
		struct sp_event result;

		struct sp_plugin *plugin = load_deeds("deeds", cases[i].deed, 4, cases[i].verdict);
		CU_ASSERT_PTR_NOT_NULL_FATAL(plugin);
		uint32_t id = dut_context(&r, "deeds", "deeds", "filter=udp");
		feed(&r);
		for (size_t k = 0; k < COUNT(fates); k++) {
			const uint64_t n =
				strcmp(fates[k], "errors") ? dut_counter(&r, id, fates[k]) : dut_view(&r, id, errors);
			/* what is wrong after the answer is an error beside it */
			const bool after = !strncmp(cases[i].what, "answers ", 8) && cases[i].deed[1].call && k == 3;

			if (n != (after || !strcmp(fates[k], cases[i].counted)))
				printf("# %s: %s is %llu\n", cases[i].what, fates[k], (unsigned long long)n);
			CU_ASSERT_EQUAL(n, after || !strcmp(fates[k], cases[i].counted));
		}
		query.context = id;
		CU_ASSERT_EQUAL(sp_command_call(r.dev, &query, &result), 0);
		if (result.arg[0] != cases[i].sum)
			printf("# %s: returned %llx\n", cases[i].what, (unsigned long long)result.arg[0]);
		CU_ASSERT_EQUAL(result.arg[0], cases[i].sum);
		query.arg[0] = 4;
		CU_ASSERT_EQUAL(sp_command_call(r.dev, &query, &result), -ERANGE);
		CU_ASSERT_EQUAL(dut_counter(&r, id, "second"), !strcmp(cases[i].what, "counts") ? 5 : 0);
		CU_ASSERT_EQUAL(sp_nic_context_remove(r.nic, id), 0);
		CU_ASSERT_EQUAL(sp_plugin_unload(plugin), 0);
	}
	/* What was written after it had been sent is not in what was sent. */
	for (unsigned i = 0; i < r.port.sents; i++)
		CU_ASSERT_EQUAL(r.port.sent[i].bytes[0], frame.bytes[0]);
	CU_ASSERT(r.port.sents >= 8);
	dut_check_totals(&r);
	dut_stop(&r);
}

/* ---- the copy of the packet --------------------------------------------------------------------------- */
/* A program that leaves one word of the copy in its state. */
static uint64_t sees(struct dut *r, size_t offset, unsigned size)
{
	const uint8_t sz = size == 8 ? EBPF_DW : size == 4 ? BPF_W : size == 2 ? BPF_H : BPF_B;
	const struct ebpf_insn ins[] = {LDX(sz, 2, 1, (int16_t)offset), MOV(1, 0), CALL(call_index("sp_bpf_state_set")),
					MOV(0, 0), EXIT};
	struct sp_plugin *plugin = load("sees", ins, COUNT(ins), 1);
	struct sp_command query = {.op = SP_CMD_QUERY};
	struct sp_event result = {0};

	CU_ASSERT_PTR_NOT_NULL_FATAL(plugin);
	query.context = dut_context(r, "sees", "sees", "filter=ip or ip6");
	dut_feed(r, &frame);
	dut_settle(r, 5);
	CU_ASSERT_EQUAL(sp_command_call(r->dev, &query, &result), 0);
	CU_ASSERT_EQUAL(sp_nic_context_remove(r->nic, query.context), 0);
	CU_ASSERT_EQUAL(sp_plugin_unload(plugin), 0);
	return result.arg[0];
}
#define SEES(r, field)	   sees(r, offsetof(struct sp_bpf_packet, field), sizeof(((struct sp_bpf_packet *)0)->field))
#define BYTE(r, field, at) sees(r, offsetof(struct sp_bpf_packet, field) + (at), 1)

TEST(the_copy_says_what_the_nic_knows)
{
	const struct frame_shape shape = {.ip = FRAME_IP6, .payload = 6};
	struct dut r;

	dut_start(&r, 1);
	dut_udp(&frame, 4000, data, sizeof(data));
	CU_ASSERT_EQUAL(SEES(&r, now), 5);
	CU_ASSERT_EQUAL(SEES(&r, frame_len), 62);
	CU_ASSERT_EQUAL(SEES(&r, len), sizeof(data));
	CU_ASSERT_EQUAL(SEES(&r, data), 42);
	CU_ASSERT_EQUAL(SEES(&r, l3), 14);
	CU_ASSERT_EQUAL(SEES(&r, l4), 34);
	CU_ASSERT_EQUAL(SEES(&r, flags), SP_BPF_UDP);
	CU_ASSERT_EQUAL(SEES(&r, destination_port), 4000);
	CU_ASSERT_EQUAL(SEES(&r, source_port), (uint64_t)(frame.bytes[34] << 8 | frame.bytes[35]));
	CU_ASSERT_EQUAL(BYTE(&r, source, 10), 0xFF);
	CU_ASSERT_EQUAL(BYTE(&r, source, 0), 0);
	CU_ASSERT_EQUAL(BYTE(&r, source, 15), frame.bytes[14 + 15]);
	CU_ASSERT_EQUAL(BYTE(&r, destination, 12), frame.bytes[14 + 16]);
	CU_ASSERT_EQUAL(BYTE(&r, head, 0), frame.bytes[0]);
	CU_ASSERT_EQUAL(BYTE(&r, head, 42), 't');
	CU_ASSERT_EQUAL(BYTE(&r, head, 59), frame.bytes[59]);
	CU_ASSERT_EQUAL(BYTE(&r, head, 60), frame.bytes[60]);
	CU_ASSERT_EQUAL(BYTE(&r, head, 62), 0); /* behind the frame's end, whatever a buffer holds there */
	CU_ASSERT_EQUAL(BYTE(&r, head, 127), 0);
	frame_build(&frame, &shape);
	CU_ASSERT_EQUAL(SEES(&r, flags), SP_BPF_UDP | SP_BPF_IPV6);
	CU_ASSERT_EQUAL(BYTE(&r, source, 3), frame.bytes[14 + 8 + 3]);
	CU_ASSERT_EQUAL(BYTE(&r, destination, 15), frame.bytes[14 + 24 + 15]);
	dut_stop(&r);
}

/* ---- whatever comes ------------------------------------------------------------------------------------ */
TEST(random_programs_do_no_harm_to_random_packets)
{
	struct ebpf_insn ins[ROOM + 8];
	unsigned loaded = 0;
	struct dut r;

	dut_start(&r, 1);
	for (ebpf_seed = 1; ebpf_seed <= 60; ebpf_seed++) {
		const uint64_t began = ebpf_seed;
		const uint32_t n = random_program(ins);
		struct sp_plugin *plugin = load("random", ins, n, (uint32_t)ebpf_any(3));

		if (!plugin) {
			ebpf_seed = began;
			continue;
		}
		loaded++;
		uint32_t id = dut_context(&r, "random", "random", "filter=ether proto 0x0800 or ip6 or len > 0");
		for (unsigned k = 0; k < 40; k++) {
			uint8_t bytes[1500];
			const uint32_t len = 14 + (uint32_t)ebpf_any(k % 2 ? 60 : 1486);

			for (uint32_t b = 0; b < len; b++)
				bytes[b] = (uint8_t)ebpf_any(256);
			if (k % 3) { /* of those that the parser takes */
				const struct frame_shape shape = {.ip = ebpf_any(FRAME_IPS),
								  .payload = (unsigned)ebpf_any(200),
								  .tags = (unsigned)ebpf_any(3)};

				frame_build(&frame, &shape);
				dut_feed(&r, &frame);
			} else {
				dut_feed_bytes(&r.port, 0, 0, bytes, len);
			}
		}
		dut_settle(&r, 10);
		dut_check_totals(&r);
		CU_ASSERT_EQUAL(sp_nic_context_remove(r.nic, id), 0);
		CU_ASSERT_EQUAL(sp_plugin_unload(plugin), 0);
		ebpf_seed = began;
	}
	CU_ASSERT(loaded >= 20);
	dut_stop(&r);
}

/* ---- and as any plug-in -------------------------------------------------------------------------------- */
TEST(an_object_is_a_plugin_like_any)
{
	static const struct deed nothing = {NULL};
	struct sp_plugin *plugin = load_deeds("one_of_many", &nothing, 1, SP_DONE);
	const struct sp_handler *h = sp_handler_find("one-of-many");
	struct sp_error error;
	struct dut r;

	CU_ASSERT_PTR_NOT_NULL_FATAL(plugin);
	CU_ASSERT_PTR_NOT_NULL_FATAL(h);
	CU_ASSERT_STRING_EQUAL(sp_handler_file(h), path);
	CU_ASSERT_EQUAL(sp_handler_check(h, &error), 0);
	dut_start(&r, 1);
	uint32_t id = dut_context(&r, "used", "one-of-many", "filter=udp");
	CU_ASSERT_EQUAL(sp_plugin_unload(plugin), -EBUSY);
	CU_ASSERT_EQUAL(sp_nic_context_remove(r.nic, id), 0);
	CU_ASSERT_EQUAL(sp_plugin_unload(plugin), 0);
	CU_ASSERT_PTR_NULL(sp_handler_find("one-of-many"));
	dut_stop(&r);
}

static void write_counting(const char *id, uint32_t words, uint64_t n)
{
	const struct ebpf_insn ins[] = {MOV(1, 1), MOV(2, (int32_t)n), CALL(call_index("sp_bpf_state_add")), MOV(0, 0),
					EXIT};

	snprintf(path, sizeof(path), "/tmp/spindle-test-ebpf-%d.o", (int)getpid());
	object_make(&made, id, ins, COUNT(ins), words, NULL);
	FILE *f = fopen(path, "we");
	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	CU_ASSERT_EQUAL(fwrite(made.bytes, 1, made.len, f), made.len);
	fclose(f);
}

static uint64_t counted(struct dut *r)
{
	struct sp_command query = {.op = SP_CMD_QUERY, .arg = {1}};
	struct sp_event result = {0};

	CU_ASSERT_EQUAL(sp_nic_context_find(r->nic, "counts", &query.context), 0);
	CU_ASSERT_EQUAL(sp_command_call(r->dev, &query, &result), 0);
	return result.arg[0];
}

static void reload(struct dut *r, int expected)
{
	struct sp_error error = {.key = ""};
	char *json = NULL;
	int rc = sp_nic_handler_reload(r->nic, "counts", path, 0, &json, &error);

	if (rc != expected)
		printf("# %d %s\n", rc, error.text);
	CU_ASSERT_EQUAL(rc, expected);
	free(json);
}

TEST(a_reloaded_program_goes_on_with_the_state)
{
	struct sp_plugin *plugin = NULL;
	struct sp_error error;
	struct dut r;
	uint32_t id;

	write_counting("counts", 4, 1);
	CU_ASSERT_EQUAL_FATAL(sp_plugin_load(path, &plugin, &error), 0);
	dut_start(&r, 1);
	dut_context(&r, "counts", "counts", "filter=udp");
	feed(&r);
	feed(&r);
	CU_ASSERT_EQUAL(counted(&r), 2);
	write_counting("counts", 4, 100);
	reload(&r, 0);
	feed(&r);
	CU_ASSERT_EQUAL(counted(&r), 102);
	made.bytes[0] ^= 1; /* what is refused changes nothing */
	object_section(&made, AT_CODE)->sh_size = 12;
	FILE *f = fopen(path, "we");
	fwrite(made.bytes + 1, 1, made.len - 1, f);
	fclose(f);
	reload(&r, -EINVAL);
	feed(&r);
	CU_ASSERT_EQUAL(counted(&r), 202);
	write_counting("counts", 8, 7); /* of other words nobody knows what they mean */
	reload(&r, 0);
	feed(&r);
	CU_ASSERT_EQUAL(counted(&r), 7);
	CU_ASSERT_EQUAL(sp_nic_context_find(r.nic, "counts", &id), 0);
	CU_ASSERT_EQUAL(dut_counter(&r, id, "errors"), 0);
	dut_check_totals(&r);
	CU_ASSERT_EQUAL(sp_nic_context_remove(r.nic, id), 0);
	dut_stop(&r);
	CU_ASSERT_EQUAL(sp_plugin_unload(plugin), 0);
	unlink(path);
}
