/* SPDX-License-Identifier: BSD-3-Clause */
#include "value.h"

#include <bpf_def.h>

struct sp_ebpf_value sp_ebpf_number(uint64_t min, uint64_t max)
{
	return (struct sp_ebpf_value){.kind = SP_EBPF_NUMBER, .min = min, .max = max, .low_max = UINT32_MAX};
}

/* The smallest 2^n - 1 that is not below v. */
static uint64_t ones(uint64_t v)
{
	return v ? UINT64_MAX >> __builtin_clzll(v) : 0;
}

struct sp_ebpf_value sp_ebpf_low(const struct sp_ebpf_value *v)
{
	struct sp_ebpf_value low = sp_ebpf_number(v->low_min, v->low_max);

	if (v->min >> 32 == v->max >> 32 && (uint32_t)v->min <= low.max && (uint32_t)v->max >= low.min) {
		if ((uint32_t)v->min > low.min)
			low.min = (uint32_t)v->min;
		if ((uint32_t)v->max < low.max)
			low.max = (uint32_t)v->max;
	}
	return low;
}

struct sp_ebpf_value sp_ebpf_meet(const struct sp_ebpf_value *a, const struct sp_ebpf_value *b)
{
	struct sp_ebpf_value v = *a, x, y;

	if (a->kind != b->kind || a->kind == SP_EBPF_NOTHING)
		return (struct sp_ebpf_value){.kind = SP_EBPF_NOTHING};
	if (a->kind == SP_EBPF_ON_STACK)
		return a->min == b->min ? v : (struct sp_ebpf_value){.kind = SP_EBPF_NOTHING};
	if (a->kind == SP_EBPF_PACKET) {
		v.min = (int64_t)a->min < (int64_t)b->min ? a->min : b->min;
		v.max = (int64_t)a->max > (int64_t)b->max ? a->max : b->max;
		return v;
	}
	v.min = a->min < b->min ? a->min : b->min;
	v.max = a->max > b->max ? a->max : b->max;
	if (a->name != b->name)
		v.name = 0;
	if (a->of != b->of || a->mask != b->mask)
		v.of = 0;
	v.any = a->any && b->any ? a->any | b->any : 0;
	x = sp_ebpf_low(a);
	y = sp_ebpf_low(b);
	v.low_min = (uint32_t)(x.min < y.min ? x.min : y.min);
	v.low_max = (uint32_t)(x.max > y.max ? x.max : y.max);
	return v;
}

/* ---- arithmetic --------------------------------------------------------------------------------- */
/* Shifts by a number: processors take it modulo the width. */
static struct sp_ebpf_value shift(unsigned op, struct sp_ebpf_value a, struct sp_ebpf_value b, unsigned width,
				  uint64_t top)
{
	const bool known = sp_ebpf_constant(&b) && b.max < width;

	switch (op) {
	case BPF_LSH:
		return known && a.max <= top >> b.max ? sp_ebpf_number(a.min << b.max, a.max << b.max)
						      : sp_ebpf_number(0, top);
	case EBPF_ARSH:
		if (a.max > top >> 1)
			return sp_ebpf_number(0, top);
		break;
	default:
		break;
	}
	return known ? sp_ebpf_number(a.min >> b.max, a.max >> b.max) : sp_ebpf_number(0, a.max);
}

static struct sp_ebpf_value add(struct sp_ebpf_value a, struct sp_ebpf_value b, uint64_t top)
{
	uint64_t max, less = -b.min & top;

	if (!__builtin_add_overflow(a.max, b.max, &max) && max <= top)
		return sp_ebpf_number(a.min + b.min, max);
	if (sp_ebpf_constant(&b) && less <= a.min) /* adding a negative constant */
		return sp_ebpf_number(a.min - less, a.max - less);
	return sp_ebpf_number(0, top);
}

/* a and b are numbers; a divisor b is not 0. */
static struct sp_ebpf_value compute(unsigned op, bool wide, struct sp_ebpf_value a, struct sp_ebpf_value b)
{
	const uint64_t top = wide ? UINT64_MAX : UINT32_MAX;
	uint64_t max;

	if (a.max > top)
		a = sp_ebpf_number(0, top);
	if (b.max > top)
		b = sp_ebpf_number(0, top);
	switch (op) {
	case BPF_ADD:
		return add(a, b, top);
	case BPF_SUB:
		return a.min >= b.max ? sp_ebpf_number(a.min - b.max, a.max - b.min) : sp_ebpf_number(0, top);
	case BPF_MUL:
		return !__builtin_mul_overflow(a.max, b.max, &max) && max <= top ? sp_ebpf_number(a.min * b.min, max)
										 : sp_ebpf_number(0, top);
	case BPF_DIV:
		return sp_ebpf_number(a.min / b.max, a.max / b.min);
	case BPF_MOD:
		return sp_ebpf_number(0, a.max < b.max ? a.max : b.max - 1);
	case BPF_AND:
		if (sp_ebpf_constant(&a) && sp_ebpf_constant(&b))
			return sp_ebpf_number(a.min & b.min, a.min & b.min);
		return sp_ebpf_number(0, a.max < b.max ? a.max : b.max);
	case BPF_OR:
		return sp_ebpf_number(a.min > b.min ? a.min : b.min, ones(a.max | b.max));
	case BPF_XOR:
		return sp_ebpf_number(0, ones(a.max | b.max));
	case BPF_NEG:
		return sp_ebpf_constant(&a) ? sp_ebpf_number(-a.min & top, -a.min & top) : sp_ebpf_number(0, top);
	default:
		return shift(op, a, b, wide ? 64 : 32, top);
	}
}

/* The low halves of sums and the like are made of the operands' low halves. */
struct sp_ebpf_value sp_ebpf_arithmetic(unsigned op, bool wide, struct sp_ebpf_value a, struct sp_ebpf_value b)
{
	struct sp_ebpf_value v = compute(op, wide, a, b), low = sp_ebpf_low(&a);

	if (!wide)
		return v;
	if (op == BPF_LSH && sp_ebpf_constant(&b) && b.min >= 32 && b.min < 64 && low.max <= UINT64_MAX >> b.min)
		return sp_ebpf_number(low.min << b.min, low.max << b.min);
	switch (op) {
	case BPF_LSH:
		if (!sp_ebpf_constant(&b) || b.min >= 32)
			break;
		/* fall through */
	case BPF_ADD:
	case BPF_SUB:
	case BPF_MUL:
	case BPF_AND:
	case BPF_OR:
	case BPF_XOR:
	case BPF_NEG:
		low = compute(op, false, low, sp_ebpf_low(&b));
		v.low_min = (uint32_t)low.min;
		v.low_max = (uint32_t)low.max;
		break;
	default:
		break;
	}
	return v;
}

void sp_ebpf_narrow(struct sp_ebpf_value *v, unsigned op, uint64_t k)
{
	struct sp_ebpf_value n = *v;

	switch (op) {
	case BPF_JEQ:
		n.min = n.min > k ? n.min : k;
		n.max = n.max < k ? n.max : k;
		break;
	case EBPF_JNE:
		n.min += n.min == k && k < UINT64_MAX;
		n.max -= n.max == k && k > 0;
		break;
	case BPF_JGE:
		n.min = n.min > k ? n.min : k;
		break;
	case BPF_JGT:
		if (k < UINT64_MAX)
			n.min = n.min > k + 1 ? n.min : k + 1;
		break;
	case EBPF_JLE:
		n.max = n.max < k ? n.max : k;
		break;
	case EBPF_JLT:
		if (k > 0)
			n.max = n.max < k - 1 ? n.max : k - 1;
		break;
	default: /* signed comparisons tell nothing here */
		break;
	}
	if (n.min <= n.max)
		*v = n;
}

void sp_ebpf_narrow_low(struct sp_ebpf_value *v, unsigned op, uint64_t k)
{
	struct sp_ebpf_value low = sp_ebpf_low(v);

	sp_ebpf_narrow(&low, op, k);
	v->low_min = (uint32_t)low.min;
	v->low_max = (uint32_t)low.max;
}

void sp_ebpf_narrow_any(struct sp_ebpf_value *v, uint64_t bits)
{
	if (!v->any || !(bits & ~v->any))
		v->any = bits;
	sp_ebpf_narrow(v, EBPF_JNE, 0);
}

unsigned sp_ebpf_opposite(unsigned op)
{
	switch (op) {
	case BPF_JEQ:
		return EBPF_JNE;
	case EBPF_JNE:
		return BPF_JEQ;
	case BPF_JGE:
		return EBPF_JLT;
	case BPF_JGT:
		return EBPF_JLE;
	case EBPF_JLE:
		return BPF_JGT;
	case EBPF_JLT:
		return BPF_JGE;
	default:
		return op;
	}
}

unsigned sp_ebpf_mirrored(unsigned op)
{
	switch (op) {
	case BPF_JGE:
		return EBPF_JLE;
	case BPF_JGT:
		return EBPF_JLT;
	case EBPF_JLE:
		return BPF_JGE;
	case EBPF_JLT:
		return BPF_JGT;
	default:
		return op;
	}
}
