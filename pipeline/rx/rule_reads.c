/* SPDX-License-Identifier: BSD-3-Clause */
/* Explores all paths of a program for one kind of frame. */
#include "rule_reads.h"

#include <pcap/pcap.h>
#include <stdbool.h>
#include <string.h>

#define TYPE_AT	    12u	  /* the Ethernet type */
#define IP4_AT	    14u	  /* first byte of the IPv4 header: its length */
#define PROGRAM_MAX 4096u /* instructions */

/* Facts before an instruction that hold on every path to it. */
struct state {
	bool reached, x_known, a_is_type;
	uint32_t x;
};

static void merge(struct state *to, struct state from)
{
	if (!to->reached)
		*to = from;
	to->x_known &= from.x_known && to->x == from.x;
	to->a_is_type &= from.a_is_type;
}

static bool add(uint64_t *bytes, uint32_t at, uint32_t size)
{
	if (at > SP_RULE_READS_BYTES - size)
		return false;
	*bytes |= ((1ull << size) - 1) << at;
	return true;
}

/* False: the instruction reads the frame's length, or bytes that are unknown or beyond the limit. */
static bool step(const struct bpf_insn *i, unsigned kind, struct state *s, uint64_t *bytes)
{
	const unsigned mode = BPF_MODE(i->code);
	const uint32_t size = BPF_SIZE(i->code) == BPF_W ? 4 : BPF_SIZE(i->code) == BPF_H ? 2 : 1;

	switch (BPF_CLASS(i->code)) {
	case BPF_LD:
		s->a_is_type = mode == BPF_ABS && i->k == TYPE_AT && size == 2;
		if (mode == BPF_ABS)
			return add(bytes, i->k, size);
		if (mode == BPF_IND)
			return s->x_known && add(bytes, s->x + i->k, size);
		return mode == BPF_IMM || mode == BPF_MEM;
	case BPF_LDX:
		s->x_known = mode == BPF_IMM || (mode == BPF_MSH && i->k == IP4_AT && kind < SP_FRAME_IP6);
		s->x = mode == BPF_IMM ? i->k : 4 * (kind - SP_FRAME_IP4);
		if (mode == BPF_MSH)
			return add(bytes, i->k, 1);
		return mode == BPF_IMM || mode == BPF_MEM;
	case BPF_ALU:
		s->a_is_type = false;
		return true;
	case BPF_MISC:
		if (BPF_MISCOP(i->code) == BPF_TAX)
			s->x_known = false;
		else
			s->a_is_type = false;
		return true;
	default:
		return true;
	}
}

/* Possible targets of a jump, at most two; returns their number. */
static unsigned targets(const struct bpf_insn *i, uint32_t next, unsigned kind, bool a_is_type, uint32_t *to)
{
	const uint32_t type = kind < SP_FRAME_IP6 ? 0x0800 : 0x86DD;
	unsigned n = 0;

	if (BPF_OP(i->code) == BPF_JA) {
		to[n++] = next + i->k;
	} else if (a_is_type && BPF_OP(i->code) == BPF_JEQ && BPF_SRC(i->code) == BPF_K) {
		if (kind == SP_FRAME_OTHER ? i->k != 0x0800 && i->k != 0x86DD : i->k == type)
			to[n++] = next + i->jt;
		if (kind == SP_FRAME_OTHER || i->k != type)
			to[n++] = next + i->jf;
	} else {
		to[n++] = next + i->jt;
		to[n++] = next + i->jf;
	}
	return n;
}

static bool find(const struct bpf_program *program, unsigned kind, uint64_t *bytes)
{
	const uint32_t n = program->bf_len;
	struct state at[PROGRAM_MAX];

	*bytes = 0;
	if (!n || n > PROGRAM_MAX)
		return false;
	memset(at, 0, n * sizeof(*at));
	at[0] = (struct state){.reached = true, .x_known = true}; /* X starts as 0 */
	for (uint32_t pc = 0; pc < n; pc++) {
		const struct bpf_insn *i = &program->bf_insns[pc];
		uint32_t to[2] = {pc + 1};
		unsigned ways = 1;
		struct state s = at[pc];

		if (!s.reached || BPF_CLASS(i->code) == BPF_RET)
			continue;
		if (!step(i, kind, &s, bytes))
			return false;
		if (BPF_CLASS(i->code) == BPF_JMP)
			ways = targets(i, pc + 1, kind, s.a_is_type, to);
		for (unsigned k = 0; k < ways; k++) {
			if (to[k] <= pc || to[k] >= n) /* `protochain` jumps backward */
				return false;
			merge(&at[to[k]], s);
		}
	}
	return true;
}

void sp_rule_reads_find(const struct bpf_program *program, struct sp_rule_reads *reads)
{
	*reads = (struct sp_rule_reads){.known = 0};
	for (unsigned kind = 0; kind < SP_FRAME_KINDS; kind++)
		if (find(program, kind, &reads->bytes[kind]))
			reads->known |= 1u << kind;
}
