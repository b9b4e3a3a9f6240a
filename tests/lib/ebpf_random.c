/* SPDX-License-Identifier: BSD-3-Clause */
#include "ebpf_random.h"

#include "../../pipeline/plugin/ebpf/state.h"

uint64_t ebpf_seed;

uint64_t ebpf_any(uint64_t below)
{
	ebpf_seed ^= ebpf_seed << 13;
	ebpf_seed ^= ebpf_seed >> 7;
	ebpf_seed ^= ebpf_seed << 17;
	return (ebpf_seed * 0x2545F4914F6CDD1D >> 16) % below;
}

int ebpf_check(const struct ebpf_insn *ins, uint32_t count, struct sp_error *error)
{
	uint32_t reads;

	*error = (struct sp_error){.key = ""};
	return sp_ebpf_check(ins, count, &reads, error);
}

static int interesting(void)
{
	static const int of[] = {0,   1,   -1,	2,   7,	  8,   15,    16,    63,	64,	   127, 128,
				 223, 224, 255, 256, 511, 512, 65535, 65536, INT32_MAX, INT32_MIN, -8,	-512};

	return ebpf_any(3) ? of[ebpf_any(COUNT(of))] : (int)ebpf_any(UINT32_MAX);
}

static struct ebpf_insn random_instruction(void)
{
	static const uint8_t alu[] = {BPF_ADD, BPF_SUB, BPF_MUL, BPF_DIV, BPF_OR,   BPF_AND,   BPF_LSH,
				      BPF_RSH, BPF_NEG, BPF_MOD, BPF_XOR, EBPF_MOV, EBPF_ARSH, EBPF_END};
	static const uint8_t jump[] = {BPF_JA,	  BPF_JEQ,  BPF_JGT,  BPF_JGE,	 EBPF_JNE, EBPF_JSGT,
				       EBPF_JSGE, EBPF_JLT, EBPF_JLE, EBPF_JSLT, EBPF_JSLE};
	const uint8_t size = (uint8_t)(ebpf_any(4) << 3), d = (uint8_t)ebpf_any(11), s = (uint8_t)ebpf_any(11);
	const uint8_t by = ebpf_any(2) ? BPF_X : BPF_K, op = alu[ebpf_any(COUNT(alu))];
	struct ebpf_insn i = {0};

	switch (ebpf_any(10)) {
	case 0:
	case 1:
		return (struct ebpf_insn)LDX(size, d, ebpf_any(2) ? 1 : s,
					     (int16_t)(ebpf_any(4) ? (int)ebpf_any(240) : -(int)ebpf_any(64)));
	case 2:
		return (struct ebpf_insn)STX(size, ebpf_any(2) ? 10 : d, s,
					     (int16_t)(-8 * (int)ebpf_any(8) - (ebpf_any(4) ? 0 : (int)ebpf_any(9))));
	case 3:
		return (struct ebpf_insn)ST(size, ebpf_any(2) ? 10 : d, (int16_t)(-8 * (int)ebpf_any(8)),
					    interesting());
	case 4:
		i = (struct ebpf_insn)LDX(size, d, 10, (int16_t)(-8 * (int)ebpf_any(8)));
		return i;
	case 5:
		i.code = BPF_JMP | jump[ebpf_any(COUNT(jump))] | by;
		i.off = (int16_t)ebpf_any(5);
		break;
	case 6:
		if (!ebpf_any(3))
			return (struct ebpf_insn)CALL((int)ebpf_any(sp_ebpf_calls_count));
		/* fall through */
	default:
		i.code = (uint8_t)((ebpf_any(3) ? EBPF_ALU64 : BPF_ALU) | op | (op == BPF_NEG ? 0 : by));
		break;
	}
	i.dst_reg = d;
	if (op == EBPF_END && BPF_CLASS(i.code) == BPF_ALU) {
		i.imm = 16 << ebpf_any(3);
	} else if (i.code & BPF_X) {
		i.src_reg = s;
	} else if (op != BPF_NEG || BPF_CLASS(i.code) == BPF_JMP) {
		i.imm = (op == BPF_LSH || op == BPF_RSH || op == EBPF_ARSH) ? (int)(ebpf_any(4) ? ebpf_any(70) : 32)
									    : interesting();
	}
	if (BPF_CLASS(i.code) == BPF_JMP && BPF_OP(i.code) == BPF_JA)
		i = (struct ebpf_insn)OP(BPF_JMP | BPF_JA, 0, 0, i.off, 0);
	return i;
}

/* Appends instructions, if the program may have them. */
static bool append(struct ebpf_insn *ins, uint32_t *n, const struct ebpf_insn *more, uint32_t count)
{
	struct sp_error error;
	uint32_t end = *n;

	if (end + count + 8 > ROOM)
		return false;
	memcpy(ins + end, more, count * sizeof(*more));
	end += count;
	for (unsigned pad = 0; pad < 6; pad++) /* what jumps may go to */
		ins[end++] = (struct ebpf_insn)MOV(0, 0);
	ins[end++] = (struct ebpf_insn)EXIT;
	if (ebpf_check(ins, end, &error))
		return false;
	*n += count;
	return true;
}
#define APPEND(...)                                                                                                    \
	append(ins, &n, (const struct ebpf_insn[]){__VA_ARGS__},                                                       \
	       sizeof((const struct ebpf_insn[]){__VA_ARGS__}) / sizeof(struct ebpf_insn))

struct whole {
	uint32_t at;
	uint64_t slots; /* by bits: numbers that were stored at once, which DPDK lets a program read */
};

static void see_whole(void *arg, uint32_t at, const struct sp_ebpf_state *state)
{
	struct whole *w = arg;

	w->slots = at == w->at ? 0 : w->slots;
	for (unsigned k = 0; at == w->at && k < SP_EBPF_SLOTS; k++)
		w->slots |= (uint64_t)(state->slot[k].whole.kind == SP_EBPF_NUMBER) << k;
}

uint32_t ebpf_tell(struct ebpf_insn *ins, uint32_t n, int saved)
{
	struct whole w = {0};
	struct sp_error error;
	uint32_t reads;

	for (uint8_t r = 0; r < 10; r++)
		APPEND(STX(EBPF_DW, 10, r, (int16_t)(saved + 8 + 8 * r)));
	ins[n] = (struct ebpf_insn)MOV(0, 0);
	ins[n + 1] = (struct ebpf_insn)EXIT;
	w.at = n;
	(void)sp_ebpf_check_seen(ins, n + 2, &reads, &error, see_whole, &w);
	for (int16_t k = APPEND(LDX(EBPF_DW, 1, 10, (int16_t)saved)) ? 0 : 19; k < 19; k++) {
		const int16_t from = (int16_t)(k < 10 ? saved + 8 + 8 * k : -8 * (k - 9));

		if (w.slots >> (SP_EBPF_SLOTS + from / 8) & 1)
			APPEND(LDX(EBPF_DW, 2, 10, from), LDX(EBPF_DW, 3, 1, (int16_t)(8 * k)), ALUR(BPF_XOR, 3, 2),
			       STX(EBPF_DW, 1, 3, (int16_t)(8 * k)));
	}
	ins[n] = (struct ebpf_insn)EXIT;
	if (ebpf_check(ins, n + 1, &error)) /* r0 is no number */
		ins[n++] = (struct ebpf_insn)MOV(0, 0);
	ins[n++] = (struct ebpf_insn)EXIT;
	return n;
}

uint32_t random_program(struct ebpf_insn *ins)
{
	const int saved = -(192 + 64 * (int)ebpf_any(6));
	uint8_t masked = 2;
	uint32_t n = 0;
	int mask = 255;

	ins[n++] = (struct ebpf_insn)STX(EBPF_DW, 10, 1, (int16_t)saved);
	for (unsigned r = 2; r < 6 && ebpf_any(4); r++)
		ins[n++] = (struct ebpf_insn)MOV((uint8_t)r, interesting());
	if (ebpf_any(2))
		ins[n++] = (struct ebpf_insn)MOVR(6, 1);
	for (unsigned tries = 0, length = 4 + (unsigned)ebpf_any(LENGTH - 8); n < length && tries < 3 * length;
	     tries++) {
		const struct ebpf_insn i = random_instruction();

		if (!ebpf_any(16))
			APPEND(LDDW((uint8_t)ebpf_any(10), interesting(), interesting()));
		else if (!ebpf_any(12)) /* what clang cuts a number to 32 bits with */
			APPEND(ALU(BPF_LSH, i.dst_reg, 32), ALU(BPF_RSH, i.dst_reg, 32));
		else if (!ebpf_any(12)) /* what clang looks at a narrow number with */
			APPEND(MOVR(i.src_reg, masked), ALU(BPF_AND, i.src_reg, mask),
			       JMP(BPF_JEQ, i.src_reg, 0, (int16_t)ebpf_any(5)));
		else if (!ebpf_any(12)) /* ... and divides by it */
			APPEND(ALU(BPF_AND, masked, ebpf_any(2) ? mask : 255), ALUR(BPF_DIV, i.dst_reg, masked));
		else
			APPEND(i);
		if (!ebpf_any(4)) {
			masked = (uint8_t)ebpf_any(10);
			mask = (int[]){255, 65535, 15, 1 << ebpf_any(31)}[ebpf_any(4)];
		}
	}
	for (unsigned pad = 0; pad < 6; pad++) /* what jumps may go to */
		ins[n++] = (struct ebpf_insn)OP(BPF_JMP | BPF_JA, 0, 0, 0, 0);
	return ebpf_tell(ins, n, saved);
}
