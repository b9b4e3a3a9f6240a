/* SPDX-License-Identifier: BSD-3-Clause */
#include "ebpf_oracle.h"

_Thread_local uint64_t oracle_called;

uint64_t oracle_call(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t index)
{
	oracle_called = (oracle_called + index + 1) * 0x9E3779B97F4A7C15 + a * 3 + b * 5 + c * 7 + d * 11;
	return oracle_called ^ oracle_called >> 29;
}

static bool oracle_fail(struct oracle *o, const char *why)
{
	o->wrong = why;
	return false;
}

static bool oracle_number(struct oracle *o, unsigned reg)
{
	return o->reg[reg].kind == ORACLE_NUMBER || oracle_fail(o, "a register that is no number");
}

static unsigned oracle_size(uint8_t code)
{
	return (const unsigned[]){4, 2, 1, 8}[code >> 3 & 3];
}

static uint8_t *oracle_at(struct oracle *o, const struct oracle_value *base, int16_t off, unsigned size)
{
	const uint64_t at = base->v + (uint64_t)(int64_t)off;
	const uint64_t room = base->kind == ORACLE_PACKET ? sizeof(o->packet) : sizeof(o->stack);

	if (base->kind < ORACLE_PACKET || at > room - size) {
		oracle_fail(o, "memory that is not the program's");
		return NULL;
	}
	return (base->kind == ORACLE_PACKET ? o->packet : o->stack) + at;
}

static bool oracle_load(struct oracle *o, const struct ebpf_insn *i)
{
	const unsigned size = oracle_size(i->code);
	const uint8_t *at = oracle_at(o, &o->reg[i->src_reg], i->off, size);
	struct oracle_value v = {ORACLE_NUMBER, 0};

	if (!at)
		return false;
	memcpy(&v.v, at, size);
	if (o->reg[i->src_reg].kind == ORACLE_PACKET) {
		for (uint64_t b = (uint64_t)(at - o->packet); b < (uint64_t)(at - o->packet) + size; b++)
			o->read |= UINT32_C(1) << b / 8;
	} else {
		const unsigned from = (unsigned)(at - o->stack);

		for (unsigned b = from; b < from + size; b++) {
			if (!o->set[b])
				return oracle_fail(o, "stack that was never written");
			if (o->set[b] == 2 && (size != 8 || from % 8))
				return oracle_fail(o, "a piece of an address");
		}
		if (o->set[from] == 2)
			v = o->spilled[from / 8];
	}
	o->reg[i->dst_reg] = v;
	return true;
}

static bool oracle_store(struct oracle *o, const struct ebpf_insn *i)
{
	const unsigned size = oracle_size(i->code);
	uint8_t *at = oracle_at(o, &o->reg[i->dst_reg], i->off, size);
	struct oracle_value v = {ORACLE_NUMBER, (uint64_t)(int64_t)i->imm};

	if ((i->code & 7) == BPF_STX)
		v = o->reg[i->src_reg];
	if (!at || v.kind == ORACLE_NOTHING)
		return oracle_fail(o, "a store of nothing, or to nowhere");
	if (o->reg[i->dst_reg].kind == ORACLE_PACKET) {
		if (v.kind != ORACLE_NUMBER)
			return oracle_fail(o, "an address that leaves");
		memcpy(at, &v.v, size);
		return true;
	}
	unsigned from = (unsigned)(at - o->stack);
	if (v.kind != ORACLE_NUMBER && (size != 8 || from % 8))
		return oracle_fail(o, "an address in pieces");
	for (unsigned b = from; b < from + size; b++) /* what is left of an address is nothing */
		for (unsigned k = b & ~7u; o->set[b] == 2 && k < (b & ~7u) + 8; k++)
			o->set[k] = k == b ? 2 : 0;
	memset(o->set + from, v.kind == ORACLE_NUMBER ? 1 : 2, size);
	o->spilled[from / 8] = v;
	memcpy(at, &v.v, size);
	return true;
}

static bool oracle_alu(struct oracle *o, const struct ebpf_insn *i)
{
	const bool wide = (i->code & 7) == EBPF_ALU64;
	const unsigned op = i->code & 0xF0;
	struct oracle_value b = {ORACLE_NUMBER, (uint64_t)(int64_t)i->imm}, *a = &o->reg[i->dst_reg];
	uint64_t x;

	if (op == EBPF_END) {
		if (!oracle_number(o, i->dst_reg))
			return false;
		if (i->code & BPF_X)
			a->v = i->imm == 16   ? __builtin_bswap16((uint16_t)a->v)
			       : i->imm == 32 ? __builtin_bswap32((uint32_t)a->v)
					      : __builtin_bswap64(a->v);
		else
			a->v = i->imm == 16 ? (uint16_t)a->v : i->imm == 32 ? (uint32_t)a->v : a->v;
		return true;
	}
	if (i->code & BPF_X && op != BPF_NEG)
		b = o->reg[i->src_reg];
	if (b.kind == ORACLE_NOTHING || (op != EBPF_MOV && a->kind == ORACLE_NOTHING))
		return oracle_fail(o, "a register that holds nothing");
	if (op == EBPF_MOV) {
		if (!wide && b.kind != ORACLE_NUMBER)
			return oracle_fail(o, "half of an address");
		*a = b;
		a->v = wide ? b.v : (uint32_t)b.v;
		return true;
	}
	if (a->kind != ORACLE_NUMBER || b.kind != ORACLE_NUMBER) {
		const bool both = a->kind != ORACLE_NUMBER && b.kind != ORACLE_NUMBER;

		if (both || !wide || (op != BPF_ADD && (op != BPF_SUB || b.kind != ORACLE_NUMBER)))
			return oracle_fail(o, "arithmetic with addresses");
		x = op == BPF_ADD ? a->v + b.v : a->v - b.v;
		*a = (struct oracle_value){a->kind != ORACLE_NUMBER ? a->kind : b.kind, x};
		return true;
	}
	x = wide ? a->v : (uint32_t)a->v;
	uint64_t y = wide ? b.v : (uint32_t)b.v;
	const unsigned by = (unsigned)(y & (wide ? 63 : 31));
	if ((op == BPF_DIV || op == BPF_MOD) && !y)
		return oracle_fail(o, "a division by 0");
	switch (op) {
	case BPF_ADD:
		x += y;
		break;
	case BPF_SUB:
		x -= y;
		break;
	case BPF_MUL:
		x *= y;
		break;
	case BPF_DIV:
		x /= y;
		break;
	case BPF_MOD:
		x %= y;
		break;
	case BPF_OR:
		x |= y;
		break;
	case BPF_AND:
		x &= y;
		break;
	case BPF_XOR:
		x ^= y;
		break;
	case BPF_LSH:
		x <<= by;
		break;
	case BPF_RSH:
		x >>= by;
		break;
	case EBPF_ARSH:
		x = wide ? (uint64_t)((int64_t)x >> by) : (uint64_t)((int32_t)x >> by);
		break;
	case BPF_NEG:
		x = -x;
		break;
	default:
		return oracle_fail(o, "an instruction that is none");
	}
	a->v = wide ? x : (uint32_t)x;
	return true;
}

static bool oracle_holds(unsigned op, uint64_t a, uint64_t b)
{
	switch (op) {
	case BPF_JEQ:
		return a == b;
	case EBPF_JNE:
		return a != b;
	case BPF_JGT:
		return a > b;
	case BPF_JGE:
		return a >= b;
	case EBPF_JLT:
		return a < b;
	case EBPF_JLE:
		return a <= b;
	case EBPF_JSGT:
		return (int64_t)a > (int64_t)b;
	case EBPF_JSGE:
		return (int64_t)a >= (int64_t)b;
	case EBPF_JSLT:
		return (int64_t)a < (int64_t)b;
	case EBPF_JSLE:
		return (int64_t)a <= (int64_t)b;
	default:
		return true; /* always */
	}
}

int oracle_run(struct oracle *o, const struct ebpf_insn *ins, uint32_t count)
{
	for (unsigned k = 0; k < 11; k++)
		o->reg[k].kind = ORACLE_NOTHING;
	o->reg[1] = (struct oracle_value){ORACLE_PACKET, 0};
	o->reg[10] = (struct oracle_value){ORACLE_STACK, 512};
	memset(o->set, 0, sizeof(o->set));
	o->wrong = NULL;
	o->read = 0;
	oracle_called = 0;
	for (uint32_t at = 0, steps = 0; at < count && steps < count; at++, steps++) {
		const struct ebpf_insn *i = &ins[at];
		const unsigned op = i->code & 0xF0;
		bool good = true;

		if (o->see)
			o->see(o, at, o->arg);
		if (o->wrong)
			return -1;
		switch (i->code & 7) {
		case BPF_LD:
			o->reg[i->dst_reg] = (struct oracle_value){
				ORACLE_NUMBER, (uint32_t)i->imm | (uint64_t)(uint32_t)i[1].imm << 32};
			at++;
			break;
		case BPF_LDX:
			good = oracle_load(o, i);
			break;
		case BPF_ST:
		case BPF_STX:
			good = oracle_store(o, i);
			break;
		case BPF_ALU:
		case EBPF_ALU64:
			good = oracle_alu(o, i);
			break;
		default:
			if (op == EBPF_EXIT) {
				o->returned = o->reg[0].v;
				return oracle_number(o, 0) ? 0 : -1;
			}
			if (op == EBPF_CALL) {
				uint64_t a[4] = {0};

				for (unsigned k = 0; k < sp_ebpf_calls[i->imm].func.nb_args && good; k++) {
					good = oracle_number(o, k + 1);
					a[k] = o->reg[k + 1].v;
				}
				for (unsigned k = 1; k < 6; k++)
					o->reg[k].kind = ORACLE_NOTHING;
				o->reg[0] = (struct oracle_value){
					ORACLE_NUMBER, oracle_call(a[0], a[1], a[2], a[3], (uint64_t)i->imm)};
				break;
			}
			if (op != BPF_JA)
				good = oracle_number(o, i->dst_reg) &&
				       (!(i->code & BPF_X) || oracle_number(o, i->src_reg));
			if (good && oracle_holds(op, o->reg[i->dst_reg].v,
						 i->code & BPF_X ? o->reg[i->src_reg].v : (uint64_t)(int64_t)i->imm))
				at += (uint32_t)i->off;
			break;
		}
		if (!good)
			return -1;
	}
	oracle_fail(o, "the end, without having returned");
	return -1;
}
