/* SPDX-License-Identifier: BSD-3-Clause */
/* The range that check.c knows of a register or stack word, and its arithmetic. A range always includes all
 * possible values. */
#ifndef PIPELINE_PLUGIN_EBPF_VALUE_H
#define PIPELINE_PLUGIN_EBPF_VALUE_H

#include <stdbool.h>
#include <stdint.h>

/* NOTHING may not be used. PACKET: an address of the packet's copy; ON_STACK: of the stack. */
enum sp_ebpf_kind { SP_EBPF_NOTHING, SP_EBPF_NUMBER, SP_EBPF_PACKET, SP_EBPF_ON_STACK };

struct sp_ebpf_value {
	enum sp_ebpf_kind kind;
	uint64_t min, max; /* of addresses: int64_t, from the packet's copy's begin, or the stack's end */
	/* Numbers of the same name are equal; 0: none. With SP_EBPF_LOW: the low 32 bits of what has the name, with
	 * SP_EBPF_HIGH: these shifted left by 32. clang cuts the same number to 32 bits again and again. */
	uint32_t name;
	uint32_t low_min, low_max; /* of a number's low 32 bits; these may be narrower than min and max tell */
	/* One of these bits is set; 0: not known. And: it is what has the name `of`, masked with these; of 0: it is
	 * not. clang keeps a number, tests a masked copy, and masks the number again where it divides. */
	uint64_t any, mask;
	uint32_t of;
};
#define SP_EBPF_LOW  (UINT32_C(1) << 31)
#define SP_EBPF_HIGH (UINT32_C(1) << 30)

struct sp_ebpf_value sp_ebpf_number(uint64_t min, uint64_t max);

static inline bool sp_ebpf_constant(const struct sp_ebpf_value *v)
{
	return v->min == v->max;
}

/* The facts that hold for both. */
struct sp_ebpf_value sp_ebpf_meet(const struct sp_ebpf_value *a, const struct sp_ebpf_value *b);
/* Of numbers; op: BPF_ADD ... EBPF_ARSH, no shift by a constant beyond the width, no division by what may be 0. wide:
 * of 64 bits, else of 32. */
struct sp_ebpf_value sp_ebpf_arithmetic(unsigned op, bool wide, struct sp_ebpf_value a, struct sp_ebpf_value b);
/* Of a number for which `v op k` holds; op: BPF_JEQ ... EBPF_JSLE. That it cannot hold is not made use of. */
void sp_ebpf_narrow(struct sp_ebpf_value *v, unsigned op, uint64_t k);
/* ... of which this holds for its low 32 bits. */
void sp_ebpf_narrow_low(struct sp_ebpf_value *v, unsigned op, uint64_t k);
/* One of these bits is set: takes note, if it says more than what is known. */
void sp_ebpf_narrow_any(struct sp_ebpf_value *v, uint64_t bits);
/* The low 32 bits of a number. */
struct sp_ebpf_value sp_ebpf_low(const struct sp_ebpf_value *v);
unsigned sp_ebpf_opposite(unsigned op); /* `v op k` does not hold */
unsigned sp_ebpf_mirrored(unsigned op); /* `k op v` */

#endif
