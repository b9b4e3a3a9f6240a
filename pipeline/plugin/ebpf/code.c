/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether every jump of a compiled program goes where the program's does.
 *
 * DPDK 22.11's compiler for x86-64 lays a program out again and again, until it comes out as long as the time before;
 * but the first time it knows nothing of the registers to be saved, and takes all jumps for long ones. So its second
 * layout may be as long as the first by chance, although jumps still move. Then it writes the third one, with jumps
 * that go where the second had their targets: into the middle of instructions.
 *
 * How long each instruction becomes follows from the instruction alone, but for jumps: of these, the code itself tells.
 */
#include "ebpf.h"

#include <errno.h>
#include <stdlib.h>

#define SAVED	0x7C0u /* r6 to r10: callee's registers, or its stack */
#define SHORT	2      /* bytes of a jump */
#define NO_EXIT UINT32_MAX

struct layout {
	const struct ebpf_insn *ins;
	uint32_t count, exit; /* exit: where the first return is */
	const uint8_t *code;
	uint32_t size, at;
	uint32_t *begin; /* [count] of instructions */
	bool known;	 /* the second time through: begin and exit are complete */
};

static uint32_t imm_bytes(int32_t v)
{
	return v == (int8_t)v ? 1 : 4;
}

/* r5 and r7 to r9 live in r8 and r13 to r15, which take a prefix. */
static bool far(unsigned reg)
{
	return reg == EBPF_REG_5 || (reg >= EBPF_REG_7 && reg <= EBPF_REG_9);
}

static uint32_t rex(bool wide, unsigned a, unsigned b)
{
	return wide || far(a) || far(b);
}

static uint32_t multiply_bytes(const struct ebpf_insn *i, bool wide)
{
	const bool by_reg = BPF_SRC(i->code) == BPF_X;
	const uint32_t factor = by_reg ? 3 * (i->src_reg != EBPF_REG_3) : i->imm ? 7 : 3;

	return 6 + 3 * (i->dst_reg != EBPF_REG_0) + factor + wide + 2 + 3 * (i->dst_reg != EBPF_REG_3) +
	       6 * (i->dst_reg != EBPF_REG_0);
}

/* Without the test for 0 of a register and its jump. */
static uint32_t divide_bytes(const struct ebpf_insn *i)
{
	const unsigned d = i->dst_reg, result = BPF_OP(i->code) == BPF_DIV ? EBPF_REG_0 : EBPF_REG_3;

	return 6 * (d != EBPF_REG_0) + 6 * (d != EBPF_REG_3) + 3 * (d != EBPF_REG_0) + 3 +
	       (BPF_SRC(i->code) == BPF_K ? 7 : 0) + 3 + 3 * (d != result);
}

static uint32_t alu_bytes(const struct ebpf_insn *i)
{
	const bool wide = BPF_CLASS(i->code) == EBPF_ALU64, by_reg = BPF_SRC(i->code) == BPF_X;
	const unsigned op = BPF_OP(i->code), d = i->dst_reg, s = by_reg ? i->src_reg : 0;

	switch (op) {
	case EBPF_END:
		return i->imm == 16 ? 4 + rex(false, d, 0) + 3 + rex(false, d, 0) : 2 + rex(i->imm == 64, d, 0);
	case BPF_NEG:
		return rex(wide, d, 0) + 2;
	case EBPF_MOV:
		if (by_reg)
			return wide && s == d ? 0 : rex(wide, d, s) + 2;
		return rex(wide, d, 0) + (i->imm ? 6 : 2);
	case BPF_LSH:
	case BPF_RSH:
	case EBPF_ARSH:
		if (!by_reg)
			return rex(wide, d, 0) + 3;
		return rex(wide, d == EBPF_REG_4 ? s : d, 0) + (s == EBPF_REG_4 ? 2 : 8);
	case BPF_MUL:
		return multiply_bytes(i, wide);
	case BPF_DIV:
	case BPF_MOD:
		return divide_bytes(i);
	default:
		return by_reg ? rex(wide, d, s) + 2 : rex(wide, d, 0) + 2 + imm_bytes(i->imm);
	}
}

static uint32_t memory_bytes(const struct ebpf_insn *i)
{
	const unsigned class = BPF_CLASS(i->code), size = BPF_SIZE(i->code), d = i->dst_reg,
		       s = class == BPF_ST ? 0 : i->src_reg;
	const bool wide = size == EBPF_DW || (class == BPF_LDX && size != BPF_W);
	/* The lowest bytes of r1's and r2's registers have no names without a prefix. */
	const bool named = class == BPF_STX && size == BPF_B && (s == EBPF_REG_1 || s == EBPF_REG_2);
	uint32_t bytes = (rex(wide, d, s) || named) + 2 + imm_bytes(i->off);

	if (class == BPF_LDX)
		return bytes + (size == BPF_B || size == BPF_H);
	bytes += size == BPF_H;
	if (class == BPF_ST)
		bytes += size == BPF_B ? 1 : size == BPF_H ? 2 : 4;
	return bytes;
}

/* How long the code says that the jump at `at` is; 0: there is none of this condition (-1: always). */
static uint32_t jump_bytes(const struct layout *l, uint32_t at, int condition)
{
	const uint32_t left = l->size > at ? l->size - at : 0;
	const uint8_t *c = l->code + at;

	if (left >= SHORT && *c == (condition < 0 ? 0xEB : 0x70 + condition))
		return SHORT;
	if (condition < 0)
		return left >= 5 && *c == 0xE9 ? 5 : 0;
	return left >= 6 && c[0] == 0x0F && c[1] == 0x80 + condition ? 6 : 0;
}

/* A jump at l->at; `to`: an instruction, or NO_EXIT: the return. False: it goes elsewhere. */
static bool jump(struct layout *l, int condition, uint32_t to)
{
	const uint32_t bytes = jump_bytes(l, l->at, condition);
	int32_t by;

	if (!bytes)
		return false;
	if (bytes == SHORT)
		by = (int8_t)l->code[l->at + 1];
	else
		memcpy(&by, l->code + l->at + bytes - 4, sizeof(by));
	l->at += bytes;
	return !l->known || (int64_t)l->at + by == (to == NO_EXIT ? l->exit : l->begin[to]);
}

static int condition_of(unsigned op)
{
	static const int8_t of[16] = {
		[BPF_JA >> 4] = -1,    [BPF_JEQ >> 4] = 0x4,   [BPF_JGT >> 4] = 0x7,   [BPF_JGE >> 4] = 0x3,
		[EBPF_JNE >> 4] = 0x5, [EBPF_JSGT >> 4] = 0xF, [EBPF_JSGE >> 4] = 0xD, [EBPF_JLT >> 4] = 0x2,
		[EBPF_JLE >> 4] = 0x6, [EBPF_JSLT >> 4] = 0xC, [EBPF_JSLE >> 4] = 0xE,
	};

	return of[op >> 4];
}

static uint32_t saved(const struct layout *l)
{
	uint32_t used = 0;

	for (uint32_t k = 0; k < l->count; k++) {
		const struct ebpf_insn *i = &l->ins[k];

		if (i->code != (EBPF_ALU64 | EBPF_MOV | BPF_X) || i->dst_reg != i->src_reg)
			used |= 1u << i->dst_reg | 1u << i->src_reg;
	}
	return used & SAVED;
}

static bool control(struct layout *l, uint32_t k, uint32_t used)
{
	const struct ebpf_insn *i = &l->ins[k];
	const unsigned op = BPF_OP(i->code), registers = (unsigned)__builtin_popcount(used);

	if (op == EBPF_CALL) {
		l->at += (uint64_t)(uintptr_t)sp_ebpf_calls[0].func.val >> 32 ? 12 : 7;
		return true;
	}
	if (op == EBPF_EXIT && l->exit != NO_EXIT && l->exit != l->at)
		return jump(l, -1, NO_EXIT);
	if (op == EBPF_EXIT) {
		l->exit = l->at;
		l->at += registers ? (used & 1u << EBPF_REG_10 ? 3 : 0) + 5 * registers + 5 : 1;
		return true;
	}
	if (op != BPF_JA)
		l->at += BPF_SRC(i->code) == BPF_X ? 3 : 3 + imm_bytes(i->imm);
	return jump(l, condition_of(op), k + 1 + (uint32_t)i->off);
}

static bool instruction(struct layout *l, uint32_t k, uint32_t used)
{
	const struct ebpf_insn *i = &l->ins[k];
	const unsigned class = BPF_CLASS(i->code), op = BPF_OP(i->code);

	switch (class) {
	case BPF_LD:
		l->at += i[1].imm ? 10 : 5 + rex(false, i->dst_reg, 0);
		return true;
	case BPF_LDX:
	case BPF_ST:
	case BPF_STX:
		l->at += memory_bytes(i);
		return true;
	case BPF_ALU:
	case EBPF_ALU64:
		if ((op == BPF_DIV || op == BPF_MOD) && BPF_SRC(i->code) == BPF_X) {
			l->at += 7;
			if (!jump(l, condition_of(BPF_JEQ), NO_EXIT))
				return false;
		}
		l->at += alu_bytes(i);
		return true;
	default:
		return control(l, k, used);
	}
}

static bool walk(struct layout *l)
{
	const uint32_t used = saved(l), registers = (uint32_t)__builtin_popcount(used);

	l->at = registers ? 4 + 5 * registers : 0;
	if (used & 1u << EBPF_REG_10) {
		l->at += 3;
		if (l->at + 4 > l->size)
			return false;
		l->at += l->code[l->at + 1] == 0x83 ? 4 : 7; /* sub $ 8 or 32 bits, %rsp */
	}
	for (uint32_t k = 0; k < l->count; k++) {
		if (l->at >= l->size)
			return false;
		l->begin[k] = l->at;
		if (!instruction(l, k, used))
			return false;
		k += BPF_CLASS(l->ins[k].code) == BPF_LD;
	}
	return l->at == l->size;
}

int sp_ebpf_code(const struct ebpf_insn *ins, uint32_t count, const void *code, size_t size)
{
	struct layout l = {.ins = ins, .count = count, .exit = NO_EXIT, .code = code, .size = (uint32_t)size};
	bool right;

	l.begin = calloc(count, sizeof(*l.begin));
	if (!l.begin)
		return -ENOMEM;
	right = walk(&l);
	l.known = true;
	right = right && walk(&l);
	free(l.begin);
	return right ? 0 : -EINVAL;
}

int sp_ebpf_compiled(const struct sp_ebpf_program *p, const struct rte_bpf *bpf, struct rte_bpf_jit *jit)
{
	*jit = (struct rte_bpf_jit){0};
#ifdef __x86_64__
	rte_bpf_get_jit((struct rte_bpf *)(uintptr_t)bpf, jit);
#endif
	return jit->func ? sp_ebpf_code(p->ins, p->count, (const void *)(uintptr_t)jit->func, jit->sz) : 0;
}

/* A jump to the next instruction: the first layout is three bytes longer than the second one by it. */
int sp_ebpf_pad(struct sp_ebpf_program *p)
{
	struct ebpf_insn *more = malloc((p->count + 1) * sizeof(*more));

	if (!more)
		return -ENOMEM;
	more[0] = (struct ebpf_insn){.code = BPF_JMP | BPF_JA};
	memcpy(more + 1, p->ins, p->count * sizeof(*more));
	free(p->ins);
	p->ins = more;
	p->count++;
	return 0;
}
