/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks a program. Jumps only go forward, so one pass in order sees all paths to each instruction; where paths meet,
 * the checker keeps what holds on both. The time is linear, but the checker knows less than one that follows each path.
 * Values are number ranges, packet-copy addresses with an offset range, or stack addresses with a constant offset. All
 * else is NOTHING, and unusable.
 */
#include "state.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../../handlers/spindle-bpf.h"
#include "../../error.h"
#include "../../nic.h"
#include "../../process.h"

#define FAR    INT64_C(65536) /* offsets beyond are wrong anyway */
#define JMP32  0x06
#define MEM_SX 0x80 /* BPF_MODE of loads that extend the sign */

static_assert(sizeof(struct sp_bpf_packet) <= 32 * 8, "a bit for each eight bytes");

struct check {
	const struct ebpf_insn *ins;
	uint32_t count, at;
	struct sp_ebpf_state *now;   /* before the instruction `at` */
	struct sp_ebpf_state **then; /* [count] what jumps bring along; NULL: no jump goes there */
	uint32_t reads;
	struct sp_error *error;
	sp_ebpf_see *see;
	void *arg;
};

static int __attribute__((format(printf, 2, 3))) wrong(const struct check *c, const char *format, ...)
{
	char what[176];
	va_list list;

	va_start(list, format);
	vsnprintf(what, sizeof(what), format, list);
	va_end(list);
	return sp_error_set(c->error, EINVAL, "", "instruction %u %s", c->at, what);
}

/* ---- arithmetic ---------------------------------------------------------------------------------- */
static bool known_address(const struct sp_ebpf_value *v)
{
	return (int64_t)v->min >= -FAR && (int64_t)v->max <= FAR;
}

/* 64-bit arithmetic with at least one address. */
static int address_arithmetic(struct check *c, unsigned op, struct sp_ebpf_value *to, const struct sp_ebpf_value *a,
			      const struct sp_ebpf_value *b)
{
	struct sp_ebpf_value v, n = b->kind == SP_EBPF_NUMBER ? *b : *a;

	if ((op != BPF_ADD && op != BPF_SUB) || (a->kind > SP_EBPF_NUMBER && b->kind > SP_EBPF_NUMBER) ||
	    (op == BPF_SUB && b->kind > SP_EBPF_NUMBER))
		return wrong(c, "computes with an address: only numbers may be added to one, or taken from it");
	v = a->kind > SP_EBPF_NUMBER ? *a : *b;
	if (sp_ebpf_constant(&n) && (int64_t)n.min < 0) {
		n = sp_ebpf_number(-n.min, -n.min);
		op = op == BPF_ADD ? BPF_SUB : BPF_ADD;
	}
	if (n.max > (uint64_t)FAR)
		return wrong(c, "moves an address by a number that may be anything: mask it (x & 63), or use "
				"sp_bpf_load()");
	if (v.kind == SP_EBPF_ON_STACK && !sp_ebpf_constant(&n))
		return wrong(c, "moves an address of the stack by a number that is not constant: use "
				"sp_bpf_state_*()");
	if (op == BPF_ADD) {
		v.min += n.min;
		v.max += n.max;
	} else {
		v.min -= n.max;
		v.max -= n.min;
	}
	if (!known_address(&v))
		return wrong(c, "moves an address too far");
	*to = v;
	return 0;
}

/* The instruction at c->at copies v, or makes it: what it is equal to has one name. An instruction runs once, at most.
 */
static void name(struct check *c, struct sp_ebpf_value *v)
{
	if (v->kind == SP_EBPF_NUMBER && !v->name)
		v->name = c->at + 1;
}

static int use(struct check *c, unsigned reg, const struct sp_ebpf_value **v)
{
	*v = &c->now->reg[reg];
	return (*v)->kind != SP_EBPF_NOTHING
		       ? 0
		       : wrong(c, "uses r%u, which holds nothing, or not the same kind of thing on all ways to here",
			       reg);
}

static int use_number(struct check *c, unsigned reg, const struct sp_ebpf_value **v, const char *what)
{
	int r = use(c, reg, v);

	return r || (*v)->kind == SP_EBPF_NUMBER
		       ? r
		       : wrong(c, "%s an address: addresses stay in registers and on the stack", what);
}

static int swap_bytes(struct check *c, const struct ebpf_insn *i)
{
	const struct sp_ebpf_value *a;
	int r = use_number(c, i->dst_reg, &a, "swaps the bytes of");

	if (!r && BPF_CLASS(i->code) != BPF_ALU)
		return wrong(c, "is of -mcpu=v4: compile with -mcpu=v2");
	if (!r && (i->src_reg || (i->imm != 16 && i->imm != 32 && i->imm != 64)))
		return wrong(c, "swaps %d bits: 16, 32 and 64 can be", i->imm);
	/* DPDK's interpreter leaves the upper bits as they are, its compiler clears them. */
	if (!r && i->code != (BPF_ALU | EBPF_END | EBPF_TO_BE))
		return wrong(c, "makes a number little endian, which it is: leave it out, or mask it (x & 0xFFFF)");
	if (!r) {
		const uint64_t most = i->imm == 64 ? UINT64_MAX : (UINT64_C(1) << i->imm) - 1;

		/* bytes that are not all 0 are not in another order either */
		c->now->reg[i->dst_reg] = sp_ebpf_number(a->min && a->max <= most, most);
	}
	return r;
}

static int divisor(struct check *c, const struct sp_ebpf_value *b)
{
	if (!b->min)
		return wrong(c, "divides by what may be 0: say if (n) before, or use n | 1");
	return 0;
}

/* The low 32 bits of a number. */
static struct sp_ebpf_value cut(const struct sp_ebpf_value *v)
{
	struct sp_ebpf_value low = sp_ebpf_low(v);

	low.name = !v->name || v->name & SP_EBPF_HIGH ? 0 : v->name | SP_EBPF_LOW;
	return low;
}

/* The name of what has been shifted left or right by 32. */
static uint32_t part_of(unsigned op, uint32_t name)
{
	const uint32_t of = name & ~(SP_EBPF_LOW | SP_EBPF_HIGH);

	if (op == BPF_LSH && name && !(name & SP_EBPF_HIGH))
		return of | SP_EBPF_HIGH;
	return op == BPF_RSH && name & SP_EBPF_HIGH ? of | SP_EBPF_LOW : 0;
}

/* What `to` is, which is a masked with bits. */
static void masked(struct sp_ebpf_value *to, const struct sp_ebpf_value *a, uint64_t bits)
{
	if (a->any && !(a->any & ~bits))
		sp_ebpf_narrow(to, EBPF_JNE, 0);
	if (a->name & (SP_EBPF_LOW | SP_EBPF_HIGH))
		return;
	to->of = a->name;
	to->mask = bits;
}

static int alu(struct check *c, const struct ebpf_insn *i)
{
	const bool wide = BPF_CLASS(i->code) == EBPF_ALU64, by_reg = BPF_SRC(i->code) == BPF_X;
	const unsigned op = BPF_OP(i->code);
	struct sp_ebpf_value *to = &c->now->reg[i->dst_reg], was;
	const struct sp_ebpf_value imm = sp_ebpf_number(wide ? (uint64_t)(int64_t)i->imm : (uint32_t)i->imm,
							wide ? (uint64_t)(int64_t)i->imm : (uint32_t)i->imm);
	const struct sp_ebpf_value *a = &imm, *b = &imm;
	uint32_t part;
	int r = 0;

	if (i->dst_reg >= EBPF_REG_10)
		return wrong(c, "writes r%u: the stack's end is not the program's", i->dst_reg);
	if (!wide && op == EBPF_ARSH)
		return wrong(c, "shifts 32 bits with their sign, which DPDK has not: compile with -mcpu=v2");
	if (i->off || op > EBPF_END)
		return wrong(c, "is of -mcpu=v4, or none at all: compile with -mcpu=v2");
	if (op == EBPF_END)
		return swap_bytes(c, i);
	if (by_reg ? i->imm != 0 : i->src_reg != 0 || (op == BPF_NEG && i->imm))
		return wrong(c, "has bits set that mean nothing");
	if (op == BPF_NEG && by_reg)
		return wrong(c, "is no instruction (0x%02x)", i->code);
	if (by_reg)
		r = use(c, i->src_reg, &b);
	if (!r && op != EBPF_MOV)
		r = use(c, i->dst_reg, &a);
	if (r)
		return r;
	if (op == EBPF_MOV && (wide || b->kind == SP_EBPF_NUMBER)) {
		if (by_reg)
			name(c, &c->now->reg[i->src_reg]);
		*to = wide || b->max <= UINT32_MAX ? *b : cut(b);
		return 0;
	}
	if (a->kind > SP_EBPF_NUMBER || b->kind > SP_EBPF_NUMBER)
		return wide ? address_arithmetic(c, op, to, a, b)
			    : wrong(c, "cuts an address to 32 bits: only 64-bit numbers may be added to one");
	if ((op == BPF_LSH || op == BPF_RSH || op == EBPF_ARSH) && !by_reg && imm.max >= (wide ? 64 : 32))
		return wrong(c, "shifts by %d bits", i->imm);
	/* DPDK's compiler of 22.11 takes another register's value for the second operand: a division by 0, even. */
	if (by_reg && i->src_reg == i->dst_reg &&
	    (op == BPF_LSH || op == BPF_RSH || op == EBPF_ARSH || op == BPF_DIV || op == BPF_MOD))
		return wrong(c, "shifts or divides a register by itself, which DPDK compiles wrongly");
	/* DPDK's compiler for x86-64 then clears the upper half of r0 (a cmov of 32 bits), or of others. */
	if (!wide && (op == BPF_DIV || op == BPF_MOD))
		return wrong(c, "divides 32 bits, which DPDK compiles wrongly: divide numbers of 64 bits, as -mcpu=v2 "
				"does");
	if (op == BPF_DIV || op == BPF_MOD)
		r = divisor(c, b);
	if (r)
		return r;
	part = by_reg || imm.min != 32 || !wide ? 0 : part_of(op, a->name);
	was = *a;
	*to = sp_ebpf_arithmetic(op, wide, *a, *b);
	to->name = part;
	if (op == BPF_AND && !by_reg)
		masked(to, &was, imm.min);
	return 0;
}

/* ---- memory ------------------------------------------------------------------------------------- */
static unsigned size_of(uint8_t code)
{
	static const uint8_t size[] = {[BPF_W >> 3] = 4, [BPF_H >> 3] = 2, [BPF_B >> 3] = 1, [EBPF_DW >> 3] = 8};

	return size[BPF_SIZE(code) >> 3];
}

/* The range of base + off: lowest and highest first byte. */
static int range(struct check *c, unsigned reg, int16_t off, unsigned size, struct sp_ebpf_value *v)
{
	const struct sp_ebpf_value *base;
	int r = use(c, reg, &base);

	if (r)
		return r;
	if (base->kind == SP_EBPF_NUMBER)
		return wrong(c, "takes a number for an address (is it a variable's? there are none: sp_bpf_state_*)");
	*v = *base;
	v->min += (uint64_t)(int64_t)off;
	v->max += (uint64_t)(int64_t)off;
	if (v->kind == SP_EBPF_PACKET &&
	    ((int64_t)v->min < 0 || (int64_t)v->max > (int64_t)(sizeof(struct sp_bpf_packet) - size)))
		return wrong(c,
			     "reaches bytes %lld to %lld of the packet's copy, which has %zu: mask the index, or use "
			     "sp_bpf_load()",
			     (long long)v->min, (long long)(v->max + size - 1), sizeof(struct sp_bpf_packet));
	if (v->kind == SP_EBPF_ON_STACK && ((int64_t)v->min < -SP_EBPF_STACK || (int64_t)v->max > -(int64_t)size))
		return wrong(c, "reaches %lld bytes from the stack's end: it has %d", (long long)v->min, SP_EBPF_STACK);
	return 0;
}

static int load_stack(struct check *c, uint64_t from, unsigned size, struct sp_ebpf_value *to)
{
	const unsigned at = (unsigned)(from + SP_EBPF_STACK);

	for (unsigned b = at; b < at + size; b++) {
		const struct sp_ebpf_slot *s = &c->now->slot[b / 8];

		if (!(s->set & 1 << b % 8))
			return wrong(c, "reads bytes of the stack that nothing has been written to");
		if (s->whole.kind > SP_EBPF_NUMBER && (size != 8 || at % 8))
			return wrong(c, "reads a piece of an address");
	}
	name(c, &c->now->slot[at / 8].whole);
	*to = c->now->slot[at / 8].whole;
	if (size != 8 || at % 8 || to->kind == SP_EBPF_NOTHING)
		*to = sp_ebpf_number(0, size == 8 ? UINT64_MAX : (UINT64_C(1) << size * 8) - 1);
	return 0;
}

static int load(struct check *c, const struct ebpf_insn *i)
{
	const unsigned size = size_of(i->code);
	struct sp_ebpf_value v;
	int r;

	if (BPF_MODE(i->code) == MEM_SX)
		return wrong(c, "is of -mcpu=v4: compile with -mcpu=v2");
	if (BPF_MODE(i->code) != BPF_MEM || i->imm)
		return wrong(c, "is no instruction (0x%02x)", i->code);
	if (i->dst_reg >= EBPF_REG_10)
		return wrong(c, "writes r%u: the stack's end is not the program's", i->dst_reg);
	r = range(c, i->src_reg, i->off, size, &v);
	if (r)
		return r;
	if (v.kind == SP_EBPF_ON_STACK)
		return load_stack(c, v.min, size, &c->now->reg[i->dst_reg]);
	for (uint64_t word = v.min / 8; word <= (v.max + size - 1) / 8; word++)
		c->reads |= UINT32_C(1) << word;
	c->now->reg[i->dst_reg] = sp_ebpf_number(0, size == 8 ? UINT64_MAX : (UINT64_C(1) << size * 8) - 1);
	return 0;
}

static int store(struct check *c, const struct ebpf_insn *i)
{
	const bool by_reg = BPF_CLASS(i->code) == BPF_STX;
	const unsigned size = size_of(i->code);
	const struct sp_ebpf_value imm = sp_ebpf_number((uint64_t)(int64_t)i->imm, (uint64_t)(int64_t)i->imm),
				   *from = &imm;
	struct sp_ebpf_value v;
	int r;

	if (by_reg && BPF_MODE(i->code) == EBPF_XADD)
		return wrong(c, "is atomic: use sp_bpf_state_add()");
	if (BPF_MODE(i->code) != BPF_MEM || (by_reg ? i->imm != 0 : i->src_reg != 0))
		return wrong(c, "is no instruction (0x%02x)", i->code);
	r = range(c, i->dst_reg, i->off, size, &v);
	if (!r && by_reg)
		r = use(c, i->src_reg, &from);
	if (r)
		return r;
	if (from->kind > SP_EBPF_NUMBER && (v.kind != SP_EBPF_ON_STACK || size != 8 || v.min % 8))
		return wrong(c, "stores an address: addresses stay in registers and on the stack");
	if (by_reg)
		name(c, &c->now->reg[i->src_reg]);
	if (v.kind == SP_EBPF_ON_STACK)
		sp_ebpf_state_store(c->now, (unsigned)(v.min + SP_EBPF_STACK), size, from);
	return 0;
}

static int load_constant(struct check *c, const struct ebpf_insn *i)
{
	uint64_t v;

	if (BPF_MODE(i->code) == BPF_ABS || BPF_MODE(i->code) == BPF_IND)
		return wrong(c, "reads a packet by LD_ABS or LD_IND: use sp_bpf_load()");
	if (i->code != (BPF_LD | BPF_IMM | EBPF_DW))
		return wrong(c, "is no instruction (0x%02x)", i->code);
	if (i->src_reg || i->off)
		return wrong(c, "takes the address of a map or a variable: there are none, use sp_bpf_state_*()");
	if (c->at + 1 == c->count || i[1].code || i[1].dst_reg || i[1].src_reg || i[1].off)
		return wrong(c, "is half of a constant of 64 bits");
	if (c->then[c->at + 1]) /* all earlier jumps have been seen, and none goes back */
		return wrong(c, "is jumped into");
	if (i->dst_reg >= EBPF_REG_10)
		return wrong(c, "writes r%u: the stack's end is not the program's", i->dst_reg);
	v = (uint32_t)i->imm | (uint64_t)(uint32_t)i[1].imm << 32;
	c->now->reg[i->dst_reg] = sp_ebpf_number(v, v);
	return 0;
}

/* ---- calls and jumps ---------------------------------------------------------------------------- */
static int call(struct check *c, const struct ebpf_insn *i)
{
	const struct sp_ebpf_value *v;
	int r = 0;

	if (i->src_reg)
		return wrong(c, "calls a function of the program: make it static inline and always_inline");
	if (i->dst_reg || i->off || i->code != (BPF_JMP | EBPF_CALL))
		return wrong(c, "is no instruction (0x%02x)", i->code);
	if ((uint32_t)i->imm >= sp_ebpf_calls_count)
		return wrong(c, "calls number %d, which is none of spindle-bpf.h", i->imm);
	for (unsigned k = 0; k < sp_ebpf_calls[i->imm].func.nb_args && !r; k++)
		r = use_number(c, EBPF_REG_1 + k, &v, "hands to a call");
	for (unsigned k = EBPF_REG_1; k <= EBPF_REG_5; k++)
		c->now->reg[k].kind = SP_EBPF_NOTHING;
	c->now->reg[EBPF_REG_0] = sp_ebpf_number(0, UINT64_MAX);
	return r;
}

static int bring(struct check *c, uint32_t to, const struct sp_ebpf_state *s)
{
	if (c->then[to]) {
		sp_ebpf_state_meet(c->then[to], s);
		return 0;
	}
	c->then[to] = malloc(sizeof(*s));
	if (!c->then[to])
		return sp_error_set(c->error, ENOMEM, "", "out of memory");
	*c->then[to] = *s;
	return 0;
}

static int loops(struct check *c)
{
	return wrong(c, "jumps back: a loop; give it a constant number of rounds and #pragma unroll");
}

static int jump(struct check *c, const struct ebpf_insn *i)
{
	const unsigned op = BPF_OP(i->code);
	const bool by_reg = BPF_SRC(i->code) == BPF_X, always = op == BPF_JA;
	const int64_t to = (int64_t)c->at + 1 + i->off;
	const struct sp_ebpf_value *a, *b = NULL;
	uint64_t k = (uint64_t)(int64_t)i->imm;
	struct sp_ebpf_state *before;
	unsigned reg = i->dst_reg, holds = op;
	int r = 0;

	if (op == BPF_JSET || op > EBPF_JSLE || (always && by_reg))
		return wrong(c, "is no instruction of -mcpu=v2 (0x%02x)", i->code);
	if (by_reg ? i->imm != 0 : i->src_reg != 0 || (always && (i->dst_reg || i->imm)))
		return wrong(c, "has bits set that mean nothing");
	if (i->off < 0)
		return loops(c);
	if (to >= c->count)
		return wrong(c, "jumps behind the program's end");
	if (always)
		return bring(c, (uint32_t)to, c->now);
	r = use_number(c, i->dst_reg, &a, "compares");
	if (!r && by_reg)
		r = use_number(c, i->src_reg, &b, "compares");
	if (r)
		return r;
	/* What is compared with a constant; a register that holds one is as good. */
	if (b && sp_ebpf_constant(b)) {
		k = b->min;
	} else if (b && sp_ebpf_constant(a)) {
		k = a->min;
		reg = i->src_reg;
		holds = sp_ebpf_mirrored(op);
	} else if (b) {
		return bring(c, (uint32_t)to, c->now);
	}
	before = malloc(sizeof(*before));
	if (!before)
		return sp_error_set(c->error, ENOMEM, "", "out of memory");
	*before = *c->now;
	sp_ebpf_state_narrow(c->now, reg, holds, k);
	r = bring(c, (uint32_t)to, c->now);
	*c->now = *before;
	sp_ebpf_state_narrow(c->now, reg, sp_ebpf_opposite(holds), k);
	free(before);
	return r;
}

static int leave(struct check *c, const struct ebpf_insn *i)
{
	const struct sp_ebpf_value *v;

	if (i->code != (BPF_JMP | EBPF_EXIT) || i->dst_reg || i->src_reg || i->off || i->imm)
		return wrong(c, "is no instruction (0x%02x)", i->code);
	return use_number(c, EBPF_REG_0, &v, "returns");
}

/* ---- all of it ---------------------------------------------------------------------------------- */
static int step(struct check *c, const struct ebpf_insn *i)
{
	if (i->dst_reg > EBPF_REG_10 || i->src_reg > EBPF_REG_10)
		return wrong(c, "names r%u: there are 11 registers",
			     i->dst_reg > EBPF_REG_10 ? i->dst_reg : i->src_reg);
	switch (BPF_CLASS(i->code)) {
	case BPF_LD:
		return load_constant(c, i);
	case BPF_LDX:
		return load(c, i);
	case BPF_ST:
	case BPF_STX:
		return store(c, i);
	case BPF_ALU:
	case EBPF_ALU64:
		return alu(c, i);
	case JMP32:
		return wrong(c, "compares 32 bits, which is of -mcpu=v3: compile with -mcpu=v2");
	default:
		return BPF_OP(i->code) == EBPF_CALL   ? call(c, i)
		       : BPF_OP(i->code) == EBPF_EXIT ? leave(c, i)
						      : jump(c, i);
	}
}

/* True if execution can fall through to the next instruction. */
static bool goes_on(const struct ebpf_insn *i)
{
	return i->code != (BPF_JMP | BPF_JA) && i->code != (BPF_JMP | EBPF_EXIT);
}

/* The compiler may begin a loop at its end: then only what jumps back leads to its first instruction. */
static int unreached(struct check *c)
{
	const uint32_t at = c->at;

	for (c->at = at; c->at < c->count; c->at++) {
		const struct ebpf_insn *i = &c->ins[c->at];
		const unsigned op = BPF_OP(i->code);

		if (BPF_CLASS(i->code) == BPF_JMP && op != EBPF_CALL && op != EBPF_EXIT &&
		    (int64_t)c->at + 1 + i->off == at)
			return loops(c);
	}
	c->at = at;
	return wrong(c, "is never reached: are there two functions in the section?");
}

static int walk(struct check *c)
{
	const uint32_t end = c->count;
	bool before = true; /* the instruction before leads here */

	while (c->at < end) {
		const struct ebpf_insn *i = &c->ins[c->at];
		struct sp_ebpf_state *then = c->then[c->at];
		int r;

		if (!before && !then)
			return unreached(c);
		if (then && before)
			sp_ebpf_state_meet(c->now, then);
		else if (then)
			*c->now = *then;
		if (c->see)
			c->see(c->arg, c->at, c->now);
		r = step(c, i);
		if (r)
			return r;
		before = goes_on(i);
		c->at += i->code == (BPF_LD | BPF_IMM | EBPF_DW) ? 2 : 1;
	}
	c->at = end - 1;
	return before ? wrong(c, "is the last, and does not return") : 0;
}

int sp_ebpf_check(const struct ebpf_insn *ins, uint32_t count, uint32_t *reads, struct sp_error *error)
{
	return sp_ebpf_check_seen(ins, count, reads, error, NULL, NULL);
}

int sp_ebpf_check_seen(const struct ebpf_insn *ins, uint32_t count, uint32_t *reads, struct sp_error *error,
		       sp_ebpf_see *see, void *arg)
{
	struct check c = {.ins = ins, .count = count, .error = error, .see = see, .arg = arg};
	int r;

	if (!count || count > SP_EBPF_INS)
		return sp_error_set(error, EINVAL, "", "has %u instructions: from 1 to %u can be", count, SP_EBPF_INS);
	c.now = calloc(1, sizeof(*c.now));
	c.then = calloc(count, sizeof(struct sp_ebpf_state *));
	if (c.now && c.then) {
		c.now->reg[EBPF_REG_1] = (struct sp_ebpf_value){.kind = SP_EBPF_PACKET};
		c.now->reg[EBPF_REG_10] = (struct sp_ebpf_value){.kind = SP_EBPF_ON_STACK};
		r = walk(&c);
	} else {
		r = sp_error_set(error, ENOMEM, "", "out of memory");
	}
	for (uint32_t i = 0; c.then && i < count; i++)
		free(c.then[i]);
	free(c.then);
	free(c.now);
	*reads = c.reads;
	return r;
}
