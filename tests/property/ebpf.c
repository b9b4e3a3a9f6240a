/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the loader's check knows of a program against what the processor does. Random programs that pass run compiled,
 * interpreted by DPDK, and in the oracle; all three must come to the same registers, memory, calls and verdict, and
 * before each instruction every register and word of the stack must hold what the check says.
 *
 *	SPINDLE_LONG=100000000 build/tests/test-property-ebpf	as many runs
 *	SPINDLE_FROM=1000000 ...				beginning with that program
 *	SPINDLE_SEED=17 build/tests/test-property-ebpf		of one program
 */
#include <inttypes.h>
#include <signal.h>
#include <time.h>

#include "../../pipeline/plugin/ebpf/state.h"
#include "../lib/ebpf_random.h"
#include "../lib/ebpf_run.h"
#include "../lib/suite.h"

enum { SHORT_RUNS = 40000, INPUTS = 16, LONG_INPUTS = 256, NEAR = 10, NAMES = 8192 };

struct known {
	struct sp_ebpf_state state[ROOM + 8];
	uint64_t whole[NAMES], low[NAMES]; /* of names, in this run */
	uint64_t whole_of[NAMES], low_of[NAMES], run;
	uint64_t *times; /* by opcode */
	struct ebpf_insn ins[ROOM + 8];
	bool all[ROOM + 8]; /* paths meet or part before it: more may be known otherwise than the last one's result */
	char wrong[160];
};

static void keep_low(struct sp_ebpf_value *v)
{
	const struct sp_ebpf_value low = sp_ebpf_low(v);

	v->low_min = (uint32_t)low.min;
	v->low_max = (uint32_t)low.max;
}

static void see(void *arg, uint32_t at, const struct sp_ebpf_state *state)
{
	struct known *k = arg;

	k->state[at] = *state;
	for (unsigned r = 0; r < EBPF_REG_NUM; r++)
		keep_low(&k->state[at].reg[r]);
	for (unsigned slot = SP_EBPF_SLOTS - NEAR; slot < SP_EBPF_SLOTS; slot++)
		keep_low(&k->state[at].slot[slot].whole);
}

/* What has a name is what it was when it was named. */
static bool as_named(struct known *k, uint32_t name, uint64_t v)
{
	const uint32_t n = name & (NAMES - 1);
	bool good = true;

	if (!(name & (SP_EBPF_LOW | SP_EBPF_HIGH))) {
		good = k->whole_of[n] != k->run || k->whole[n] == v;
		k->whole_of[n] = k->run;
		k->whole[n] = v;
	} else if (name & SP_EBPF_HIGH) {
		if ((uint32_t)v)
			return false;
		v >>= 32;
	} else if (v >> 32) {
		return false;
	}
	good = good && (k->low_of[n] != k->run || k->low[n] == (uint32_t)v);
	k->low_of[n] = k->run;
	k->low[n] = (uint32_t)v;
	return good;
}

/* ... and what is masked from it is that. */
static bool as_masked(const struct known *k, const struct sp_ebpf_value *v, uint64_t is)
{
	const uint32_t n = v->of & (NAMES - 1);

	return k->whole_of[n] != k->run || is == (k->whole[n] & v->mask);
}

static bool as_known(struct known *k, const struct sp_ebpf_value *v, enum oracle_kind kind, uint64_t is)
{
	switch (v->kind) {
	case SP_EBPF_NOTHING:
		return true;
	case SP_EBPF_PACKET:
		return kind == ORACLE_PACKET && (int64_t)is >= (int64_t)v->min && (int64_t)is <= (int64_t)v->max;
	case SP_EBPF_ON_STACK:
		return kind == ORACLE_STACK && is == v->min + SP_EBPF_STACK;
	default:
		return kind == ORACLE_NUMBER && is >= v->min && is <= v->max && (uint32_t)is >= v->low_min &&
		       (uint32_t)is <= v->low_max && (!v->name || as_named(k, v->name, is)) &&
		       (!v->any || is & v->any) && (!v->of || as_masked(k, v, is));
	}
}

static bool slot_as_known(struct known *k, const struct oracle *o, const struct sp_ebpf_slot *slot, unsigned at)
{
	uint64_t v;

	if (!slot->set)
		return true;
	for (unsigned b = 0; b < 8; b++)
		if (slot->set & 1 << b && !o->set[8 * at + b])
			return false;
	if (slot->set != 0xFF || slot->whole.kind == SP_EBPF_NOTHING)
		return true;
	memcpy(&v, o->stack + (size_t)8 * at, 8);
	return o->set[8 * at] == 2 ? as_known(k, &slot->whole, o->spilled[at].kind, o->spilled[at].v)
				   : as_known(k, &slot->whole, ORACLE_NUMBER, v);
}

static void look(struct oracle *o, struct known *k, uint32_t at, unsigned r)
{
	const struct sp_ebpf_value *v = &k->state[at].reg[r];

	if (as_known(k, v, o->reg[r].kind, o->reg[r].v))
		return;
	snprintf(k->wrong, sizeof(k->wrong),
		 "instruction %u: r%u is %" PRIx64 ", and known from %" PRIx64 " to %" PRIx64, at, r, o->reg[r].v,
		 v->min, v->max);
	o->wrong = k->wrong;
}

static void step(struct oracle *o, uint32_t at, void *arg)
{
	struct known *k = arg;
	const bool all = k->all[at];

	k->times[k->ins[at].code]++;
	for (unsigned r = 0; all && r < EBPF_REG_NUM; r++)
		look(o, k, at, r);
	if (!all && (BPF_CLASS(k->ins[at - 1].code) & 6) != BPF_ST)
		look(o, k, at, k->ins[at - 1].dst_reg);
	for (unsigned slot = SP_EBPF_SLOTS - NEAR; all && slot < SP_EBPF_SLOTS; slot++) {
		if (slot_as_known(k, o, &k->state[at].slot[slot], slot))
			continue;
		snprintf(k->wrong, sizeof(k->wrong), "instruction %u: the stack at %d", at,
			 (int)slot * 8 - SP_EBPF_STACK);
		o->wrong = k->wrong;
	}
}

/* Where everything is looked at: first and last, behind jumps, calls and constants, where jumps go, and behind stores.
 */
static void plan(struct known *k, uint32_t count)
{
	memset(k->all, 0, sizeof(k->all));
	k->all[0] = k->all[count - 1] = true;
	for (uint32_t at = 0; at + 1 < count; at++) {
		const struct ebpf_insn *i = &k->ins[at];
		const unsigned class = BPF_CLASS(i->code), op = BPF_OP(i->code);

		if (class == BPF_JMP && op != EBPF_CALL && op != EBPF_EXIT)
			k->all[at + 1 + (uint32_t)i->off] = true;
		if (class == BPF_JMP)
			k->all[at + 1] = true;
		if (class == BPF_LD)
			k->all[at + 2] = true;
	}
}

/* Bytes of all kinds, and now and then a word at an edge. */
static void fill(uint8_t *packet)
{
	static const uint64_t edge[] = {0, 1, UINT32_MAX, UINT64_C(1) << 32, INT64_MAX, UINT64_C(1) << 63, UINT64_MAX};

	for (size_t i = 0; i < sizeof(struct sp_bpf_packet); i += 8) {
		const uint64_t v =
			ebpf_any(4) ? ebpf_any(UINT64_MAX) * 0x9E3779B97F4A7C15 : edge[ebpf_any(COUNT(edge))];

		memcpy(packet + i, &v, 8);
	}
}

/* Whether the check accepts this opcode somewhere. */
static bool accepted(uint8_t code)
{
	for (unsigned k = 0; k < 2 * 3 * 2 * 3 * 2; k++) {
		const uint8_t dst = k & 1 ? 10 : 0, src = (uint8_t)(k / 2 % 3);
		const int16_t off = k / 6 & 1 ? -8 : 0;
		const int imm = (int[]){0, 5, 16}[k / 12 % 3];
		const bool two = k / 36;
		struct ebpf_insn ins[8] = {MOV(0, 1), MOV(2, 3)};
		struct sp_error error;
		uint32_t n = 2;

		ins[n++] = (struct ebpf_insn)OP(code, dst, src, off, imm);
		if (two)
			ins[n++] = (struct ebpf_insn){0};
		if (!ebpf_check(ins, n, &error))
			return true;
		ins[n++] = (struct ebpf_insn)EXIT;
		if (!ebpf_check(ins, n, &error))
			return true;
	}
	return false;
}

static volatile uint64_t now_running;

static void crashed(int signal)
{
	char text[64];
	int n = snprintf(text, sizeof(text), "# signal %d, program %llu\n", signal, (unsigned long long)now_running);

	if (write(STDOUT_FILENO, text, (size_t)n) < 0)
		_exit(2);
	_exit(1);
}

static void catch (void)
{
	signal(SIGSEGV, crashed);
	signal(SIGFPE, crashed);
	signal(SIGILL, crashed);
}

/* k->ins: how many runs, or 0: DPDK refuses the program. */
static unsigned run_program(struct known *k, struct ebpf_run *r, uint32_t n, unsigned inputs)
{
	struct oracle o = {.see = step, .arg = k};
	struct sp_error error;
	uint32_t reads;

	if (sp_ebpf_check_seen(k->ins, n, &reads, &error, see, k)) {
		printf("# %s\n", error.text);
		CU_FAIL_FATAL("a program that was to pass is refused");
	}
	if (!ebpf_run_load(r, k->ins, n))
		return 0;
	plan(k, n);
	for (unsigned i = 0; i < inputs; i++) {
		const char *wrong;

		fill(o.packet);
		k->run++;
		wrong = ebpf_run_compare(r, &o, k->ins, n);
		if (!wrong && o.read & ~reads)
			wrong = "a word of the packet that it is not known to read";
		if (!wrong)
			continue;
		printf("# SPINDLE_SEED=%" PRIu64 ": %s\n", now_running, wrong);
		for (uint32_t at = 0; at < n; at++)
			printf("#  %3u: code 0x%02x dst %u src %u off %d imm %d\n", at, k->ins[at].code,
			       k->ins[at].dst_reg, k->ins[at].src_reg, k->ins[at].off, k->ins[at].imm);
		CU_FAIL("a program does something else");
		return i + 1;
	}
	return inputs;
}

static void tell_times(const uint64_t *times)
{
	unsigned column = 0, opcodes = 0, missing = 0;

	for (unsigned code = 0; code < 256; code++) {
		if (!accepted((uint8_t)code))
			continue;
		opcodes++;
		missing += !times[code];
		printf("%s0x%02x %" PRIu64, column++ % 8 ? ", " : "\n# ", code, times[code]);
	}
	printf("\n# %u opcodes are accepted, %u of them have not run\n", opcodes, missing);
	CU_ASSERT(opcodes > 70);
	CU_ASSERT_EQUAL(missing, 0);
}

TEST(the_check_the_interpreter_and_the_compiler_agree)
{
	const char *longer = getenv("SPINDLE_LONG"), *only = getenv("SPINDLE_SEED"), *from = getenv("SPINDLE_FROM");
	const uint64_t first = from ? strtoull(from, NULL, 10) : 1;
	uint64_t runs = suite_times(SHORT_RUNS), done = 0, seed = first, loaded = 0, times[256] = {0};
	struct known *k = calloc(1, sizeof(*k));
	struct ebpf_run r;
	time_t told = time(NULL);

	if (longer)
		runs = strtoull(longer, NULL, 10) > 1 ? strtoull(longer, NULL, 10) : UINT64_C(50) * SHORT_RUNS;
	k->times = times;
	ebpf_run_start(&r);
	catch ();
	for (unsigned bad = 0; done < runs && bad < 3; seed++) {
		unsigned n, failed = CU_get_number_of_failures();

		now_running = only ? strtoull(only, NULL, 10) : seed;
		ebpf_seed = now_running * 0x9E3779B97F4A7C15;
		n = run_program(k, &r, random_program(k->ins), longer ? LONG_INPUTS : INPUTS);
		done += n;
		loaded += n > 0;
		bad += CU_get_number_of_failures() != failed;
		if (longer && time(NULL) - told >= 60) {
			told = time(NULL);
			fprintf(stderr, "# %" PRIu64 " runs of %" PRIu64 " programs\n", done, loaded);
		}
		if (only)
			break;
	}
	printf("# %" PRIu64 " runs of %" PRIu64 " programs; DPDK refused %" PRIu64, done, loaded,
	       seed - first - loaded);
	if (!only)
		tell_times(times);
	printf("# of %" PRIu64 " programs the compiler places a jump wrongly\n", r.misplaced);
	CU_ASSERT(r.misplaced <= 1 + loaded / 100);
	ebpf_run_stop(&r);
	free(k);
}

/* All registers hold words of the packet, but for `base`, which holds its address; 10: none. Then comes `core`. */
static unsigned run_core(struct known *k, struct ebpf_run *r, uint8_t base, const struct ebpf_insn *core,
			 uint32_t count)
{
	const int saved = -192;
	struct sp_error error;
	uint32_t n = 0;

	k->ins[n++] = (struct ebpf_insn)STX(EBPF_DW, 10, 1, (int16_t)saved);
	for (unsigned i = 0; i < 10; i++) { /* r1 last */
		const uint8_t reg = i < 9 ? (uint8_t)(i + (i > 0)) : 1;

		if (reg != base)
			k->ins[n++] = (struct ebpf_insn)LDX(EBPF_DW, reg, 1, (int16_t)(8 * reg));
		else if (reg != 1)
			k->ins[n++] = (struct ebpf_insn)MOVR(reg, 1);
	}
	memcpy(k->ins + n, core, count * sizeof(*core));
	n += count;
	k->ins[n] = (struct ebpf_insn)MOV(0, 0);
	k->ins[n + 1] = (struct ebpf_insn)EXIT;
	if (ebpf_check(k->ins, n + 2, &error)) /* a register by itself, say, or an address that would leave */
		return 0;
	return run_program(k, r, ebpf_tell(k->ins, n, saved), 6);
}

/* One that the instruction may have, of one byte or of four. */
static int constant_of(unsigned class, unsigned op, unsigned pair)
{
	if (class == BPF_ALU || class == EBPF_ALU64) {
		if (op == BPF_NEG)
			return 0;
		if (op == EBPF_END)
			return 16 << pair % 3;
		if (op == BPF_LSH || op == BPF_RSH || op == EBPF_ARSH)
			return (int)ebpf_any(class == BPF_ALU ? 32 : 64);
	}
	return pair % 2 ? (int)ebpf_any(UINT32_MAX) : 1 + (int)ebpf_any(127) * (pair % 4 ? -1 : 1);
}

/* Compilers are wrong for some registers: those that a processor's instruction wants, those with a prefix. */
TEST(each_instruction_with_each_pair_of_registers)
{
	static const int16_t near[] = {0, 16, 128, 200};
	struct known *k = calloc(1, sizeof(*k));
	uint64_t times[256] = {0}, runs = 0;
	unsigned cores = 0, n;
	struct ebpf_run r;

	k->times = times;
	ebpf_run_start(&r);
	catch ();
	ebpf_seed = 4;
	for (unsigned code = 0; code < 256; code++) {
		const unsigned class = BPF_CLASS(code), op = BPF_OP(code);
		const bool memory = class == BPF_LDX || class == BPF_ST || class == BPF_STX;
		const bool jumps = class == BPF_JMP && op != EBPF_CALL && op != EBPF_EXIT && op != BPF_JA;
		const bool two = memory ? class != BPF_ST : (code & BPF_X) && op != EBPF_END;

		for (uint8_t pair = 0; (memory || jumps || class == BPF_ALU || class == EBPF_ALU64) && pair < 100;
		     pair++) {
			const uint8_t d = pair / 10, s = two ? pair % 10 : 0, divisor = two ? s : d;
			const struct ebpf_insn core[] = {ALU(BPF_OR, divisor, 1),
							 OP((uint8_t)code, d, s,
							    memory ? near[pair % COUNT(near)] : jumps,
							    two ? 0 : constant_of(class, op, pair)),
							 ALU(BPF_XOR, d, 1)};

			n = memory ? run_core(k, &r, class == BPF_LDX ? s : d, core + 1, 1)
				   : run_core(k, &r, 10, core, COUNT(core));
			cores += n > 0;
			runs += n;
		}
	}
	printf("# %u programs, %" PRIu64 " runs\n", cores, runs);
	CU_ASSERT(cores > 5000);
	ebpf_run_stop(&r);
	free(k);
}
