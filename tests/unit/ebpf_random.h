/* SPDX-License-Identifier: BSD-3-Clause */
/* Random programs that sp_ebpf_check() lets pass: grown instruction by instruction, each of which it is asked about. */
#ifndef TESTS_EBPF_RANDOM_H
#define TESTS_EBPF_RANDOM_H

#include "../../pipeline/nic.h"
#include "ebpf_object.h"

#define COUNT(a) (sizeof(a) / sizeof(*(a)))

static uint64_t seed;
static inline uint64_t any(uint64_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (seed * 0x2545F4914F6CDD1D >> 16) % below;
}

static inline int check(const struct ebpf_insn *ins, uint32_t count, struct sp_error *error)
{
	uint32_t reads;

	*error = (struct sp_error){.key = ""};
	return sp_ebpf_check(ins, count, &reads, error);
}

enum { LENGTH = 40, ROOM = LENGTH + 12 };

static inline int interesting(void)
{
	static const int of[] = {0,   1,   -1,	2,   7,	  8,   15,    16,    63,	64,	   127, 128,
				 223, 224, 255, 256, 511, 512, 65535, 65536, INT32_MAX, INT32_MIN, -8,	-512};

	return any(3) ? of[any(COUNT(of))] : (int)any(UINT32_MAX);
}

static inline struct ebpf_insn random_instruction(void)
{
	static const uint8_t alu[] = {BPF_ADD, BPF_SUB, BPF_MUL, BPF_DIV, BPF_OR,   BPF_AND,   BPF_LSH,
				      BPF_RSH, BPF_NEG, BPF_MOD, BPF_XOR, EBPF_MOV, EBPF_ARSH, EBPF_END};
	static const uint8_t jump[] = {BPF_JA,	  BPF_JEQ,  BPF_JGT,  BPF_JGE,	 EBPF_JNE, EBPF_JSGT,
				       EBPF_JSGE, EBPF_JLT, EBPF_JLE, EBPF_JSLT, EBPF_JSLE};
	const uint8_t size = (uint8_t)(any(4) << 3), d = (uint8_t)any(11), s = (uint8_t)any(11);
	const uint8_t by = any(2) ? BPF_X : BPF_K, op = alu[any(COUNT(alu))];
	struct ebpf_insn i = {0};

	switch (any(10)) {
	case 0:
	case 1:
		return (struct ebpf_insn)LDX(size, d, any(2) ? 1 : s,
					     (int16_t)(any(4) ? (int)any(240) : -(int)any(64)));
	case 2:
		return (struct ebpf_insn)STX(size, any(2) ? 10 : d, s,
					     (int16_t)(-8 * (int)any(8) - (any(4) ? 0 : (int)any(9))));
	case 3:
		return (struct ebpf_insn)ST(size, any(2) ? 10 : d, (int16_t)(-8 * (int)any(8)), interesting());
	case 4:
		i = (struct ebpf_insn)LDX(size, d, 10, (int16_t)(-8 * (int)any(8)));
		return i;
	case 5:
		i.code = BPF_JMP | jump[any(COUNT(jump))] | by;
		i.off = (int16_t)any(5);
		break;
	case 6:
		if (!any(3))
			return (struct ebpf_insn)CALL((int)any(sp_ebpf_calls_count));
		/* fall through */
	default:
		i.code = (uint8_t)((any(3) ? EBPF_ALU64 : BPF_ALU) | op | (op == BPF_NEG ? 0 : by));
		break;
	}
	i.dst_reg = d;
	if (op == EBPF_END && BPF_CLASS(i.code) == BPF_ALU) {
		i.imm = 16 << any(3);
	} else if (i.code & BPF_X) {
		i.src_reg = s;
	} else if (op != BPF_NEG || BPF_CLASS(i.code) == BPF_JMP) {
		i.imm = (op == BPF_LSH || op == BPF_RSH || op == EBPF_ARSH) ? (int)any(70) : interesting();
	}
	if (BPF_CLASS(i.code) == BPF_JMP && BPF_OP(i.code) == BPF_JA)
		i = (struct ebpf_insn)OP(BPF_JMP | BPF_JA, 0, 0, i.off, 0);
	return i;
}

/* Instructions that the check lets pass, one after the other; behind them what ends the program. */
static inline uint32_t random_program(struct ebpf_insn *ins)
{
	struct sp_error error;
	uint32_t n = 0;

	for (unsigned r = 2; r < 6 && any(4); r++)
		ins[n++] = (struct ebpf_insn)MOV((uint8_t)r, interesting());
	if (any(2))
		ins[n++] = (struct ebpf_insn)MOVR(6, 1);
	for (unsigned tries = 0; n < LENGTH && tries < 150; tries++) {
		struct ebpf_insn i = random_instruction();
		uint32_t end = n;

		ins[end++] = i;
		for (unsigned pad = 0; pad < 6; pad++)
			ins[end++] = (struct ebpf_insn)MOV(0, 0);
		ins[end++] = (struct ebpf_insn)EXIT;
		if (!check(ins, end, &error))
			n++;
	}
	for (unsigned pad = 0; pad < 6; pad++) /* what jumps may go to */
		ins[n++] = (struct ebpf_insn)MOV(9, 0);
	ins[n - 1] = (struct ebpf_insn)MOV(0, 0);
	/* What the registers hold is the program's result, where they hold numbers. */
	for (unsigned r = 1; r < 9; r++) {
		ins[n] = (struct ebpf_insn)ALUR(any(2) ? BPF_ADD : BPF_XOR, 0, (uint8_t)r);
		ins[n + 1] = (struct ebpf_insn)EXIT;
		n += !check(ins, n + 2, &error) && n < ROOM - 2;
	}
	ins[n++] = (struct ebpf_insn)EXIT;
	return n;
}

#endif
